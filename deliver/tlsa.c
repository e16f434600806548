/* SPDX-License-Identifier: ISC */
/*
 * tlsa.c - are the addresses authentic, then the records of the name they
 * belong to, which is behind the aliases, else of the name given.
 */
#include "deliver/tlsa.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/str.h"
#include "base/xalloc.h"
#include "deliver/resolver.h"

#define SHA256_BYTES 32
#define SHA512_BYTES 64

struct tlsa {
	struct resolver *resolver;
	tlsa_fn *done; /* NULL: cancelled */
	void *arg;
	char host[TLSA_NAME_MAX + 1];
	struct tlsa_found found;
	bool over; /* only waits to be told */
};

static void
release(struct tlsa *t)
{
	tlsa_clear(&t->found);
	free(t);
}

static void
deliver(void *arg)
{
	struct tlsa *t = arg;

	if (t->done != NULL)
		t->done(t->arg, &t->found);
	release(t);
}

static void
finish(struct tlsa *t, enum tlsa_status status)
{
	t->over = true;
	t->found.status = status;
	loop_defer(resolver_loop(t->resolver), deliver, t);
}

/* A whole certificate or key has to be one. */
static bool
is_der(const struct net_tlsa *r)
{
	const unsigned char *p = r->data;
	X509 *cert = NULL;
	X509_PUBKEY *key = NULL;
	bool ok;

	if (r->selector == 0)
		cert = d2i_X509(NULL, &p, (long)r->n);
	else
		key = d2i_X509_PUBKEY(NULL, &p, (long)r->n);
	ok = (cert != NULL || key != NULL) && p == r->data + r->n;
	X509_free(cert);
	X509_PUBKEY_free(key);
	ERR_clear_error();
	return ok;
}

/* RFC 7672 3.1: of the four usages mail knows two. */
static bool
is_usable(const struct net_tlsa *r)
{
	if ((r->usage != 2 && r->usage != 3) || r->selector > 1)
		return false;
	switch (r->matching) {
	case 0:
		return r->n > 0 && is_der(r);
	case 1:
		return r->n == SHA256_BYTES;
	case 2:
		return r->n == SHA512_BYTES;
	default:
		return false;
	}
}

bool
tlsa_parse(struct tlsa_found *found, const unsigned char *p, int n)
{
	ns_msg msg;
	ns_rr rr;
	bool any = false;
	int i;

	tlsa_clear(found);
	found->packet = xmalloc((size_t)n);
	memcpy(found->packet, p, (size_t)n);
	if (ns_initparse(found->packet, n, &msg) != 0)
		return false;
	for (i = 0; i < ns_msg_count(msg, ns_s_an); i++) {
		struct net_tlsa r;

		if (ns_parserr(&msg, ns_s_an, i, &rr) != 0)
			break;
		if (ns_rr_type(rr) != ns_t_tlsa)
			continue;
		any = true;
		if (ns_rr_rdlen(rr) < 4)
			continue;
		p = ns_rr_rdata(rr);
		r = (struct net_tlsa){ p[0], p[1], p[2], p + 3,
			(size_t)ns_rr_rdlen(rr) - 3 };
		if (found->n < TLSA_MAX && is_usable(&r))
			found->v[found->n++] = r;
	}
	return any;
}

static void ask(struct tlsa *t);

static void
on_records(void *arg, const struct resolver_answer *a)
{
	struct tlsa *t = arg;

	if (t->done == NULL || a->status == RESOLVER_OVER) {
		release(t);
	} else if (a->status == RESOLVER_FAILED) {
		finish(t, TLSA_LATER);
	} else if (a->status == RESOLVER_FOUND && a->is_authentic &&
		   tlsa_parse(&t->found, a->p, a->n)) {
		finish(t, t->found.n > 0 ? TLSA_USABLE : TLSA_UNUSABLE);
	} else if (!str_ieq(str_of(t->found.base), str_of(t->host))) {
		memcpy(t->found.base, t->host, sizeof(t->host));
		ask(t);
	} else {
		finish(t, TLSA_NONE);
	}
}

static void
ask(struct tlsa *t)
{
	char name[TLSA_NAME_MAX + 16];

	(void)snprintf(name, sizeof(name), "_25._tcp.%s", t->found.base);
	resolver_ask(t->resolver, name, ns_t_tlsa, on_records, t);
}

static void
note_base(struct tlsa *t, const struct resolver_answer *a)
{
	struct hostent *host = NULL;

	if (ares_parse_a_reply(a->p, a->n, &host, NULL, NULL) == ARES_SUCCESS &&
	    strlen(host->h_name) <= TLSA_NAME_MAX)
		(void)snprintf(
		    t->found.base, sizeof(t->found.base), "%s", host->h_name);
	if (host != NULL)
		ares_free_hostent(host);
}

static void
on_address(void *arg, const struct resolver_answer *a)
{
	struct tlsa *t = arg;

	if (t->done == NULL || a->status == RESOLVER_OVER) {
		release(t);
	} else if (a->status == RESOLVER_FAILED) {
		finish(t, TLSA_LATER);
	} else if (!a->is_authentic) {
		finish(t, TLSA_NONE);
	} else {
		note_base(t, a);
		ask(t);
	}
}

struct tlsa *
tlsa_find(struct resolver *r, const char *host, tlsa_fn *done, void *arg)
{
	struct tlsa *t = xcalloc(1, sizeof(*t));

	t->resolver = r;
	t->done = done;
	t->arg = arg;
	(void)snprintf(t->host, sizeof(t->host), "%s", host);
	memcpy(t->found.base, t->host, sizeof(t->host));
	resolver_ask(r, host, ns_t_a, on_address, t);
	return t;
}

void
tlsa_cancel(struct tlsa *t)
{
	if (t == NULL)
		return;
	t->done = NULL;
	if (t->over) {
		loop_undefer(resolver_loop(t->resolver), deliver, t);
		release(t);
	}
}

void
tlsa_copy(struct tlsa_found *to, const struct tlsa_found *from)
{
	size_t i, size = 0;

	tlsa_clear(to);
	*to = *from;
	to->packet = NULL;
	if (from->n == 0)
		return;
	for (i = 0; i < from->n; i++)
		size += from->v[i].n;
	to->packet = xmalloc(size);
	for (size = i = 0; i < from->n; i++) {
		memcpy(to->packet + size, from->v[i].data, from->v[i].n);
		to->v[i].data = to->packet + size;
		size += from->v[i].n;
	}
}

void
tlsa_clear(struct tlsa_found *found)
{
	free(found->packet);
	found->packet = NULL;
	found->n = 0;
}
