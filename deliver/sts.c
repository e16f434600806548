/* SPDX-License-Identifier: ISC */
/*
 * sts.c - per domain: look at the record; when it names another policy than
 * the one at hand, find the policy host, fetch, and tell all who wait.
 */
#include "deliver/sts.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/queue.h"
#include "base/xalloc.h"
#include "deliver/resolver.h"
#include "deliver/route.h"
#include "deliver/sts_fetch.h"
#include "deliver/sts_file.h"

#define BUCKETS 4096
#define HTTPS_PORT 443
#define LABEL "mta-sts."

struct known {
	LIST_ENTRY(known) link; /* of its bucket */
	TAILQ_ENTRY(known) age; /* the longest unused first */
	struct sts *sts;
	char domain[ROUTE_NAME_MAX + 1];
	char id[STS_ID_MAX + 1], new_id[STS_ID_MAX + 1];
	struct sts_policy policy;
	bool has_policy, looked;
	bool none; /* the record was looked at: there is none */
	uint64_t fetched_ms, expires_ms; /* of the policy */
	uint64_t looked_ms, again_ms;
	bool busy; /* a lookup is under way */
	struct route *route;
	struct sts_fetch *fetch;
	LIST_HEAD(waits, sts_wait) waits;
};

struct sts_wait {
	LIST_ENTRY(sts_wait) link;
	struct known *known;
	sts_fn *done;
	void *arg;
};

LIST_HEAD(bucket, known);

struct sts {
	struct loop *loop;
	struct resolver *domains;
	struct sts_http *http;
	struct bucket bucket[BUCKETS];
	TAILQ_HEAD(ages, known) ages;
	size_t n;
	char *path; /* NULL: nothing is kept */
	size_t added; /* octets, since it was written anew */
};

/* FNV-1a: who fills a bucket on purpose costs himself more than us. */
static struct bucket *
bucket_of(struct sts *sts, const char *domain)
{
	uint32_t h = 2166136261U;

	for (; *domain != '\0'; domain++)
		h = (h ^ (unsigned char)*domain) * 16777619U;
	return &sts->bucket[h % BUCKETS];
}

void
sts_reload(struct sts *sts, const struct conf *conf)
{
	sts_http_trust(sts->http, conf->deliver_ca_file);
}

static void tell(void *arg);

static void
drop(struct known *k)
{
	loop_undefer(k->sts->loop, tell, k);
	route_cancel(k->route);
	sts_fetch_cancel(k->fetch);
	sts_policy_clear(&k->policy);
	LIST_REMOVE(k, link);
	TAILQ_REMOVE(&k->sts->ages, k, age);
	k->sts->n--;
	free(k);
}

void
sts_free(struct sts *sts)
{
	struct known *k;

	if (sts == NULL)
		return;
	while ((k = TAILQ_FIRST(&sts->ages)) != NULL) {
		while (!LIST_EMPTY(&k->waits))
			sts_cancel(LIST_FIRST(&k->waits));
		drop(k);
	}
	sts_http_free(sts->http);
	free(sts->path);
	free(sts);
}

static bool
is_good(const struct known *k)
{
	return k->has_policy && clock_mono_ms() < k->expires_ms;
}

/* All who wait, also those who come meanwhile. */
static void
tell(void *arg)
{
	struct known *k = arg;
	struct sts_wait *w;

	while ((w = LIST_FIRST(&k->waits)) != NULL) {
		struct sts_wait copy = *w;

		sts_cancel(w);
		copy.done(copy.arg, is_good(k) ? &k->policy : NULL, k->none);
	}
	k->busy = false; /* until here nobody drops it */
}

static void
answer(struct known *k)
{
	loop_defer(k->sts->loop, tell, k);
}

static void
failed(struct known *k, const char *why)
{
	struct buf text = { 0 };

	k->again_ms = clock_mono_ms() + STS_AGAIN_MS;
	buf_printf(&text, "%s: %s", k->domain, why);
	log_warn("deliver.mta_sts", KV("why", buf_cstr(&text)));
	metrics_inc(M_MTA_STS, "failed", NULL);
	buf_free(&text);
	answer(k);
}

static int64_t
now_s(void)
{
	return clock_real_us() / 1000000;
}

/* How many octets; 0, with errno: none. */
static size_t
keep(const char *path, const struct known *k)
{
	uint64_t now = clock_mono_ms();
	struct sts_kept kept = { .domain = str_of(k->domain),
		.id = str_of(k->id),
		.policy = k->policy,
		.fetched_s =
		    now_s() - (int64_t)((now - k->fetched_ms) / 1000) };

	kept.expires_s = kept.fetched_s + k->policy.max_age_s;
	return sts_file_add(path, &kept);
}

static void rewrite(struct sts *sts);
static sts_file_fn on_kept;

static void
remember(const struct known *k)
{
	struct sts *sts = k->sts;
	size_t n = sts->path != NULL ? keep(sts->path, k) : 0;

	sts->added += n;
	if (sts->path != NULL && n == 0)
		log_warn("deliver.mta_sts", KV("code", "not kept"),
		    KV("why", strerror(errno)));
	if (sts->added <= STS_GROWTH)
		return;
	/* Others may have added to it as well. */
	(void)sts_file_load(sts->path, now_s(), on_kept, sts);
	rewrite(sts);
}

static void
on_policy(void *arg, const struct str *body, const char *why)
{
	struct known *k = arg;
	struct sts_policy policy = { 0 };

	k->fetch = NULL;
	if (body != NULL && !sts_policy_parse(&policy, *body))
		why = "what the policy host sent is no policy";
	if (why != NULL) {
		failed(k, why);
		return;
	}
	sts_policy_clear(&k->policy);
	k->policy = policy;
	k->has_policy = true;
	k->fetched_ms = clock_mono_ms();
	k->expires_ms = k->fetched_ms + (uint64_t)policy.max_age_s * 1000;
	memcpy(k->id, k->new_id, sizeof(k->id));
	log_info("deliver.mta_sts", KV("why", k->domain),
	    KV("code", sts_mode_name(policy.mode)));
	metrics_inc(M_MTA_STS, "fetched", NULL);
	remember(k);
	answer(k);
}

static void
on_addresses(void *arg, const struct route_result *found)
{
	struct known *k = arg;
	char host[ROUTE_NAME_MAX + sizeof(LABEL)];

	k->route = NULL;
	if (found->status != ROUTE_OK) {
		failed(k, "the policy host has no address to connect to");
		return;
	}
	(void)snprintf(host, sizeof(host), LABEL "%s", k->domain);
	k->fetch = sts_fetch_start(
	    k->sts->http, host, found->hosts, found->n, on_policy, k);
}

/* False: there is none. An answer that is none leaves *txt at NULL. */
static bool
read_txt(const struct resolver_answer *a, struct ares_txt_ext **txt)
{
	int status;

	if (a->status != RESOLVER_FOUND)
		return a->status == RESOLVER_FAILED;
	status = ares_parse_txt_reply_ext(a->p, a->n, txt);
	return status != ARES_ENODATA;
}

/* RFC 8461 3.1: of several records that are ours there is none. */
static bool
find_id(struct known *k, const struct resolver_answer *a)
{
	struct ares_txt_ext *txt = NULL, *t;
	struct buf joined = { 0 };
	size_t n = 0;

	k->none = !read_txt(a, &txt);
	if (txt == NULL)
		return false;
	for (t = txt; t != NULL; t = t->next) {
		if (t->record_start)
			buf_clear(&joined);
		buf_add(&joined, t->txt, t->length);
		if (t->next == NULL || t->next->record_start)
			n += str_starts(buf_str(&joined), str_lit("v=STSv1")) &&
			     sts_record_parse(k->new_id, buf_str(&joined));
	}
	buf_free(&joined);
	ares_free_data(txt);
	k->none = n != 1;
	return n == 1;
}

static bool
needs_fetch(const struct known *k)
{
	uint64_t now = clock_mono_ms();

	if (now < k->again_ms)
		return false;
	return !is_good(k) || strcmp(k->id, k->new_id) != 0 ||
	       now - k->fetched_ms > STS_RENEW_MS;
}

static void
on_record(void *arg, const struct resolver_answer *a)
{
	struct known *k = arg;
	char host[ROUTE_NAME_MAX + sizeof(LABEL)];

	/* The resolver goes before all who use it; sts_free() does the rest */
	if (a->status == RESOLVER_OVER)
		return;
	k->looked = true;
	k->looked_ms = clock_mono_ms();
	if (!find_id(k, a) || !needs_fetch(k)) {
		answer(k);
		return;
	}
	(void)snprintf(host, sizeof(host), LABEL "%s", k->domain);
	k->route = route_host(
	    k->sts->domains, host, HTTPS_PORT, true, on_addresses, k);
}

static void
look(struct known *k)
{
	char name[ROUTE_NAME_MAX + 16];

	k->busy = true;
	if (k->looked && clock_mono_ms() - k->looked_ms < STS_LOOK_MS) {
		answer(k);
		return;
	}
	(void)snprintf(name, sizeof(name), "_" LABEL "%s", k->domain);
	resolver_ask(k->sts->domains, name, ns_t_txt, on_record, k);
}

/* Room for one more: the longest unused one that nobody waits for. */
static void
make_room(struct sts *sts)
{
	struct known *k;

	if (sts->n < STS_DOMAINS_MAX)
		return;
	TAILQ_FOREACH(k, &sts->ages, age) {
		if (!k->busy && LIST_EMPTY(&k->waits)) {
			drop(k);
			return;
		}
	}
}

static struct known *
known_of(struct sts *sts, const char *domain)
{
	struct bucket *b = bucket_of(sts, domain);
	struct known *k;

	LIST_FOREACH(k, b, link)
	{
		if (strcmp(k->domain, domain) == 0) {
			TAILQ_REMOVE(&sts->ages, k, age);
			TAILQ_INSERT_TAIL(&sts->ages, k, age);
			return k;
		}
	}
	make_room(sts);
	k = xcalloc(1, sizeof(*k));
	k->sts = sts;
	(void)snprintf(k->domain, sizeof(k->domain), "%s", domain);
	LIST_INIT(&k->waits);
	LIST_INSERT_HEAD(b, k, link);
	TAILQ_INSERT_TAIL(&sts->ages, k, age);
	sts->n++;
	return k;
}

/* It becomes part of a URL. */
static bool
is_plain(const char *domain)
{
	size_t i;

	for (i = 0; domain[i] != '\0'; i++) {
		if (!isalnum((unsigned char)domain[i]) && domain[i] != '-' &&
		    domain[i] != '.' && domain[i] != '_')
			return false;
	}
	return i > 0 && i + sizeof("_" LABEL) <= ROUTE_NAME_MAX;
}

struct sts_wait *
sts_find(struct sts *sts, const char *domain, sts_fn *done, void *arg)
{
	struct sts_wait *w = xcalloc(1, sizeof(*w));
	bool plain = is_plain(domain);
	struct known *k = known_of(sts, plain ? domain : "");

	*w = (struct sts_wait){ .known = k, .done = done, .arg = arg };
	LIST_INSERT_HEAD(&k->waits, w, link);
	if (k->busy)
		return w;
	if (plain) {
		look(k);
	} else { /* such a name has no policy */
		k->busy = true;
		k->none = true;
		answer(k);
	}
	return w;
}

void
sts_cancel(struct sts_wait *w)
{
	if (w == NULL)
		return;
	LIST_REMOVE(w, link);
	free(w);
}

/* A line of the file; a later one of the same domain replaces it. */
static void
on_kept(void *arg, struct sts_kept *kept)
{
	struct sts *sts = arg;
	char domain[ROUTE_NAME_MAX + 1];
	uint64_t now = clock_mono_ms();
	struct known *k;

	if (kept->domain.n > ROUTE_NAME_MAX)
		return;
	(void)snprintf(domain, sizeof(domain), "%.*s", (int)kept->domain.n,
	    kept->domain.p);
	if (!is_plain(domain))
		return;
	k = known_of(sts, domain);
	sts_policy_clear(&k->policy);
	k->policy = kept->policy;
	kept->policy.mx = NULL;
	k->has_policy = true;
	(void)snprintf(
	    k->id, sizeof(k->id), "%.*s", (int)kept->id.n, kept->id.p);
	/* May lie before the clock's beginning: only differences count. */
	k->fetched_ms = now - (uint64_t)(now_s() - kept->fetched_s) * 1000;
	k->expires_ms = now + (uint64_t)(kept->expires_s - now_s()) * 1000;
}

/* Anew, with what still counts. */
static void
rewrite(struct sts *sts)
{
	char *new = xasprintf("%s.new", sts->path);
	const struct known *k;
	bool ok = true;

	(void)unlink(new);
	sts->added = 0;
	TAILQ_FOREACH(k, &sts->ages, age)
		ok = ok && (!k->has_policy || keep(new, k) > 0);
	if (!ok || rename(new, sts->path) != 0)
		(void)unlink(new);
	free(new);
}

struct sts *
sts_new(struct loop *loop, struct resolver *domains, const char *state_dir)
{
	struct sts *sts = xcalloc(1, sizeof(*sts));
	struct stat st;
	size_t i;

	sts->loop = loop;
	sts->domains = domains;
	sts->http = sts_http_new(loop, resolver_allowed(domains));
	TAILQ_INIT(&sts->ages);
	for (i = 0; i < BUCKETS; i++)
		LIST_INIT(&sts->bucket[i]);
	if (state_dir == NULL || state_dir[0] == '\0')
		return sts;
	sts->path = xasprintf("%s/" STS_FILE, state_dir);
	if (sts_file_load(sts->path, now_s(), on_kept, sts) >
		sts->n + STS_SPARE ||
	    (stat(sts->path, &st) == 0 &&
		st.st_size > STS_FILE_BYTES - 2 * STS_GROWTH))
		rewrite(sts);
	return sts;
}
