/* SPDX-License-Identifier: ISC */
#include "deliver/idle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "deliver/client.h"
#include "net/stream.h"

#define IDLE_MS 5000
#define LIVES_MS 300000
#define MESSAGES_MAX 100
#define KEPT_MAX 128

struct kept {
	TAILQ_ENTRY(kept) link; /* newest first */
	struct idle *idle;
	struct client_conn *conn;
	struct loop_timer *timer;
	char key[IDLE_KEY_MAX];
};

TAILQ_HEAD(kept_list, kept);

struct idle {
	struct loop *loop;
	struct kept_list list;
	size_t n;
};

struct idle *
idle_new(struct loop *loop)
{
	struct idle *idle = xcalloc(1, sizeof(*idle));

	idle->loop = loop;
	TAILQ_INIT(&idle->list);
	return idle;
}

/* The session itself is the caller's now. */
static struct client_conn *
forget(struct kept *k)
{
	struct client_conn *conn = k->conn;

	TAILQ_REMOVE(&k->idle->list, k, link);
	k->idle->n--;
	loop_timer_free(k->timer);
	free(k);
	return conn;
}

static void
let_go(void *arg)
{
	client_conn_close(forget(arg));
}

/* Whatever it says now is nothing we asked. */
static void
on_event(void *arg, enum net_stream_event what)
{
	(void)what;
	let_go(arg);
}

static void
on_drained(void *arg)
{
	(void)arg;
}

static const struct net_stream_fns fns = { let_go, on_drained, on_event };

size_t
idle_close(struct idle *idle)
{
	size_t n = idle->n;

	while (!TAILQ_EMPTY(&idle->list))
		let_go(TAILQ_FIRST(&idle->list));
	return n;
}

void
idle_free(struct idle *idle)
{
	if (idle == NULL)
		return;
	(void)idle_close(idle);
	free(idle);
}

struct client_conn *
idle_take(struct idle *idle, const char *key)
{
	struct kept *k;

	TAILQ_FOREACH(k, &idle->list, link) {
		if (strcmp(k->key, key) == 0)
			return forget(k);
	}
	return NULL;
}

void
idle_put(struct idle *idle, const char *key, struct client_conn *conn)
{
	struct kept *k;

	if (conn->messages >= MESSAGES_MAX ||
	    (conn->ehlo.mailmax > 0 &&
		conn->messages >= (unsigned)conn->ehlo.mailmax) ||
	    clock_mono_ms() - conn->began_ms >= LIVES_MS) {
		client_conn_close(conn);
		return;
	}
	if (idle->n == KEPT_MAX)
		let_go(TAILQ_LAST(&idle->list, kept_list));
	k = xcalloc(1, sizeof(*k));
	k->idle = idle;
	k->conn = conn;
	(void)snprintf(k->key, sizeof(k->key), "%s", key);
	k->timer = loop_timer_new(idle->loop, let_go, k);
	loop_timer_set(k->timer, IDLE_MS);
	TAILQ_INSERT_HEAD(&idle->list, k, link);
	idle->n++;
	net_stream_tell(conn->stream, &fns, k);
	net_stream_read(conn->stream, true);
}
