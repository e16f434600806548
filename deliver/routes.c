/* SPDX-License-Identifier: ISC */
/*
 * routes.c - one look at DNS for all who ask meanwhile, and for those who ask
 * while its answer holds. Each is told from the loop, with hosts of his own.
 */
#include "deliver/routes.h"

#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/queue.h"
#include "base/xalloc.h"

#define KEY_MAX (2 * ROUTE_NAME_MAX + 32)

TAILQ_HEAD(askers, routes_asker);
TAILQ_HEAD(known_list, known);

struct routes_asker {
	TAILQ_ENTRY(routes_asker) link; /* while his look is under way */
	struct routes *routes;
	struct known *known; /* NULL: he is told from the loop */
	route_fn *done;
	void *arg;
	struct route_result result;
	struct route_host *hosts;
};

/* What was asked, and what was found. */
struct known {
	TAILQ_ENTRY(known) link;
	struct routes *routes;
	struct route *look; /* under way; NULL: it is known */
	struct askers askers;
	unsigned generation;
	uint64_t until; /* clock_mono_ms() */
	struct route_result result;
	struct route_host *hosts;
	char key[KEY_MAX];
};

struct routes {
	struct loop *loop;
	struct resolver *domains, *hosts;
	void *tree; /* of all, by key */
	struct known_list asked, known; /* the oldest first */
	size_t n; /* known */
	unsigned generation;
};

struct routes *
routes_new(struct loop *loop, struct resolver *domains, struct resolver *hosts)
{
	struct routes *s = xcalloc(1, sizeof(*s));

	s->loop = loop;
	s->domains = domains;
	s->hosts = hosts;
	TAILQ_INIT(&s->asked);
	TAILQ_INIT(&s->known);
	return s;
}

static int
by_key(const void *a, const void *b)
{
	return strcmp(
	    ((const struct known *)a)->key, ((const struct known *)b)->key);
}

/* On neither list any more. */
static void
drop(struct known *k)
{
	(void)tdelete(k, &k->routes->tree, by_key);
	free(k->hosts);
	free(k);
}

static void
forget(struct known *k)
{
	TAILQ_REMOVE(&k->routes->known, k, link);
	k->routes->n--;
	drop(k);
}

void
routes_forget(struct routes *s)
{
	struct known *k;

	s->generation++;
	while ((k = TAILQ_FIRST(&s->known)) != NULL)
		forget(k);
}

void
routes_free(struct routes *s)
{
	struct known *k;

	if (s == NULL)
		return;
	routes_forget(s);
	while ((k = TAILQ_FIRST(&s->asked)) != NULL) {
		BUG_ON(!TAILQ_EMPTY(&k->askers));
		TAILQ_REMOVE(&s->asked, k, link);
		route_cancel(k->look);
		drop(k);
	}
	free(s);
}

static void
tell(void *arg)
{
	struct routes_asker *a = arg;

	a->done(a->arg, &a->result);
	free(a->hosts);
	free(a);
}

void
routes_cancel(struct routes_asker *a)
{
	if (a == NULL)
		return;
	if (a->known != NULL)
		TAILQ_REMOVE(&a->known->askers, a, link);
	else
		loop_undefer(a->routes->loop, tell, a);
	free(a->hosts);
	free(a);
}

/*
 * Copies hosts by preference, equal ones in any order; the addresses of one
 * host stay together, in the order they had.
 */
static void
set_in_order(struct route_host *to, const struct route_host *from, size_t n)
{
	uint32_t turn[ROUTE_HOSTS_MAX];
	size_t order[ROUTE_HOSTS_MAX], i, j;

	for (i = 0; i < n; i++) {
		turn[i] = i > 0 && strcmp(from[i].name, from[i - 1].name) == 0
			      ? turn[i - 1]
			      : arc4random();
		for (j = i; j > 0; j--) {
			const size_t k = order[j - 1];

			if (from[k].preference != from[i].preference
				? from[k].preference < from[i].preference
				: turn[k] <= turn[i])
				break;
			order[j] = k;
		}
		order[j] = i;
	}
	for (i = 0; i < n; i++)
		to[i] = from[order[i]];
}

static void
answer(struct routes_asker *a, const struct route_result *found)
{
	a->known = NULL;
	a->result = *found;
	if (found->n > 0) {
		a->hosts = xcalloc(found->n, sizeof(*a->hosts));
		set_in_order(a->hosts, found->hosts, found->n);
		a->result.hosts = a->hosts;
	}
	loop_defer(a->routes->loop, tell, a);
}

static void
keep(struct known *k, const struct route_result *found)
{
	struct routes *s = k->routes;
	const unsigned holds =
	    found->holds_s < ROUTES_KEEP_S ? found->holds_s : ROUTES_KEEP_S;

	k->until = clock_mono_ms() + (uint64_t)holds * 1000;
	k->hosts = xcalloc(found->n, sizeof(*k->hosts));
	memcpy(k->hosts, found->hosts, found->n * sizeof(*k->hosts));
	k->result = *found;
	k->result.hosts = k->hosts;
	TAILQ_INSERT_TAIL(&s->known, k, link);
	if (++s->n > ROUTES_MAX)
		forget(TAILQ_FIRST(&s->known));
}

static void
on_found(void *arg, const struct route_result *found)
{
	struct known *k = arg;
	struct routes_asker *a;

	k->look = NULL;
	while ((a = TAILQ_FIRST(&k->askers)) != NULL) {
		TAILQ_REMOVE(&k->askers, a, link);
		answer(a, found);
	}
	TAILQ_REMOVE(&k->routes->asked, k, link);
	if (found->status == ROUTE_OK && found->holds_s > 0 &&
	    k->generation == k->routes->generation)
		keep(k, found);
	else
		drop(k);
}

/* What is asked under this key, or known and true still; or NULL. */
static struct known *
find(struct routes *s, const struct known *like)
{
	struct known **at = tfind(like, &s->tree, by_key);

	if (at == NULL)
		return NULL;
	if ((*at)->look == NULL && clock_mono_ms() >= (*at)->until) {
		forget(*at);
		return NULL;
	}
	return *at;
}

/* Like it, and not asked yet. */
static struct known *
add(struct routes *s, const struct known *like)
{
	struct known *k = xcalloc(1, sizeof(*k));

	k->routes = s;
	k->generation = s->generation;
	TAILQ_INIT(&k->askers);
	memcpy(k->key, like->key, sizeof(k->key));
	TAILQ_INSERT_TAIL(&s->asked, k, link);
	BUG_ON(tsearch(k, &s->tree, by_key) == NULL);
	return k;
}

static struct routes_asker *
ask(struct routes *s, struct known *k, route_fn *done, void *arg)
{
	struct routes_asker *a = xcalloc(1, sizeof(*a));

	a->routes = s;
	a->done = done;
	a->arg = arg;
	if (k->look != NULL) {
		a->known = k;
		TAILQ_INSERT_TAIL(&k->askers, a, link);
	} else {
		answer(a, &k->result);
	}
	return a;
}

struct routes_asker *
routes_domain(struct routes *s, const char *domain, const char *self,
    route_fn *done, void *arg)
{
	struct known like, *k;

	(void)snprintf(like.key, sizeof(like.key), "d %s %s", domain, self);
	k = find(s, &like);
	if (k == NULL) {
		k = add(s, &like);
		k->look = route_domain(s->domains, domain, self, on_found, k);
	}
	return ask(s, k, done, arg);
}

struct routes_asker *
routes_host(struct routes *s, const char *host, unsigned short port,
    bool filtered, route_fn *done, void *arg)
{
	struct known like, *k;

	(void)snprintf(like.key, sizeof(like.key), "%c %s %u",
	    filtered ? 'f' : 'h', host, port);
	k = find(s, &like);
	if (k == NULL) {
		k = add(s, &like);
		k->look =
		    route_host(s->hosts, host, port, filtered, on_found, k);
	}
	return ask(s, k, done, arg);
}
