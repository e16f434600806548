/* SPDX-License-Identifier: ISC */
/*
 * resolver.c - an event per socket of c-ares, and a timer for its retries.
 */
#include "deliver/resolver.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/time.h>

#include "base/buf.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "deliver/route.h"
#include "net/peer.h"

#define TRY_MS 2000
#define TRIES 3 /* 2, 4 and 8 s */

/* In the fourth octet of a packet (RFC 1035 4.1.1, RFC 4035 3.2.3). */
#define RCODE 0x0f
#define AD 0x20

struct watch {
	SLIST_ENTRY(watch) link;
	struct resolver *resolver;
	struct event *event;
	ares_socket_t fd;
};

SLIST_HEAD(watches, watch);

struct resolver {
	struct loop *loop;
	ares_channel channel;
	struct loop_timer *timer;
	struct watches watches;
	struct net_cidrs allowed;
	bool believes; /* what its servers call authentic */
};

static void
on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct resolver *r = ((struct watch *)arg)->resolver;

	ares_process_fd(r->channel, what & EV_READ ? fd : ARES_SOCKET_BAD,
	    what & EV_WRITE ? fd : ARES_SOCKET_BAD);
	resolver_rearm(r);
}

static void
on_timer(void *arg)
{
	struct resolver *r = arg;

	ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	resolver_rearm(r);
}

static void
drop(struct resolver *r, struct watch *w)
{
	SLIST_REMOVE(&r->watches, w, watch, link);
	event_free(w->event);
	free(w);
}

/* c-ares waits for something else on `fd` from now on. */
static void
on_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = arg;
	struct watch *w;
	short what = EV_PERSIST;

	SLIST_FOREACH(w, &r->watches, link)
	{
		if (w->fd == fd)
			break;
	}
	if (w != NULL)
		drop(r, w);
	if (!readable && !writable)
		return;
	w = xcalloc(1, sizeof(*w));
	w->resolver = r;
	w->fd = fd;
	what |= readable ? EV_READ : 0;
	what |= writable ? EV_WRITE : 0;
	w->event = event_new(loop_base(r->loop), fd, what, on_socket, w);
	BUG_ON(w->event == NULL || event_add(w->event, NULL) != 0);
	SLIST_INSERT_HEAD(&r->watches, w, link);
}

void
resolver_rearm(struct resolver *r)
{
	struct timeval tv, *next = ares_timeout(r->channel, NULL, &tv);

	if (next == NULL)
		loop_timer_stop(r->timer);
	else
		loop_timer_set(r->timer, (uint64_t)next->tv_sec * 1000 +
					     (uint64_t)next->tv_usec / 1000 +
					     1);
}

static bool
set_servers(struct resolver *r, const struct conf_list *servers)
{
	struct buf csv = { 0 };
	bool ok;
	size_t i;

	if (servers->n == 0)
		return true;
	for (i = 0; i < servers->n; i++)
		buf_printf(&csv, "%s%s", i > 0 ? "," : "", servers->v[i]);
	ok = ares_set_servers_ports_csv(r->channel, buf_cstr(&csv)) ==
	     ARES_SUCCESS;
	buf_free(&csv);
	return ok;
}

struct resolver *
resolver_new(struct loop *loop, const struct conf *conf,
    enum resolver_kind kind, struct err *err)
{
	struct resolver *r = xcalloc(1, sizeof(*r));
	char dns_only[] = "b";
	struct ares_options options = { .timeout = TRY_MS,
		.tries = TRIES,
		.lookups = dns_only,
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
		.sock_state_cb = on_state,
		.sock_state_cb_data = r };
	int mask = ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;
	size_t i;

	if (kind == RESOLVER_DOMAINS)
		mask |= ARES_OPT_LOOKUPS | ARES_OPT_FLAGS;

	r->loop = loop;
	r->believes = conf->deliver_dane;
	SLIST_INIT(&r->watches);
	for (i = 0; i < conf->deliver_allow_address.n; i++) {
		if (!net_cidrs_add(
			&r->allowed, conf->deliver_allow_address.v[i], err)) {
			free(r);
			return NULL;
		}
	}
	if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS ||
	    ares_init_options(&r->channel, &options, mask) != ARES_SUCCESS ||
	    !set_servers(r, &conf->deliver_resolver)) {
		err_set(err, 1, "deliver.resolver: not usable");
		free(r);
		return NULL;
	}
	r->timer = loop_timer_new(loop, on_timer, r);
	return r;
}

void
resolver_free(struct resolver *r)
{
	struct watch *w;

	if (r == NULL)
		return;
	ares_destroy(r->channel);
	while ((w = SLIST_FIRST(&r->watches)) != NULL)
		drop(r, w);
	loop_timer_free(r->timer);
	ares_library_cleanup();
	free(r);
}

struct ares_channeldata *
resolver_channel(struct resolver *r)
{
	return r->channel;
}

struct loop *
resolver_loop(struct resolver *r)
{
	return r->loop;
}

const struct net_cidrs *
resolver_allowed(const struct resolver *r)
{
	return &r->allowed;
}

/* One question under way. */
struct question {
	struct resolver *resolver;
	resolver_fn *done;
	void *arg;
};

static enum resolver_status
status_of(int status, const unsigned char *p, int n)
{
	if (status == ARES_EDESTRUCTION)
		return RESOLVER_OVER;
	if (status != ARES_SUCCESS || n < NS_HFIXEDSZ)
		return RESOLVER_FAILED;
	if ((p[3] & RCODE) == ns_r_nxdomain)
		return RESOLVER_NO_NAME;
	if ((p[3] & RCODE) != ns_r_noerror)
		return RESOLVER_FAILED;
	return p[6] == 0 && p[7] == 0 ? RESOLVER_NO_DATA : RESOLVER_FOUND;
}

static void
on_answer(void *arg, int status, int timeouts, unsigned char *p, int n)
{
	struct question *q = arg;
	const struct question copy = *q;
	struct resolver_answer a = {
		.status = status_of(status, p, n), .p = p, .n = n
	};

	(void)timeouts;
	free(q);
	a.is_authentic = copy.resolver->believes &&
			 a.status != RESOLVER_FAILED &&
			 a.status != RESOLVER_OVER && (p[3] & AD) != 0;
	copy.done(copy.arg, &a);
}

void
resolver_ask(struct resolver *r, const char *name, int type, resolver_fn *done,
    void *arg)
{
	struct question *q = xcalloc(1, sizeof(*q));
	unsigned char *p = NULL;
	int n = 0;

	*q = (struct question){ r, done, arg };
	if (ares_create_query(name, ns_c_in, type, (unsigned short)arc4random(),
		1, &p, &n, 0) != ARES_SUCCESS) {
		on_answer(q, ARES_EBADNAME, 0, NULL, 0);
		return;
	}
	if (r->believes)
		p[3] |= AD; /* to hear it in the answer (RFC 6840 5.7) */
	ares_send(r->channel, p, n, on_answer, q);
	ares_free_string(p);
	resolver_rearm(r);
}
