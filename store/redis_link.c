/* SPDX-License-Identifier: ISC */
/*
 * redis_link.c - connect, sign in, reconnect.
 *
 * hiredis 0.14 has no timeouts: a connect that takes over a second is given
 * up here, commands are timed by redis.c. After onConnect with an error and
 * after onDisconnect the context is freed by hiredis; our pointer is cleared
 * there and nowhere else, except when we free it ourselves.
 */
#include "store/redis_link.h"

#include <event2/event.h>

#include "base/xalloc.h"

#define CONNECT_MS 1000
#define RETRY_MS 500

static void on_event(evutil_socket_t fd, short what, void *arg);
static void on_retry(evutil_socket_t fd, short what, void *arg);
static void on_flush(evutil_socket_t fd, short what, void *arg);

static void
add_read(void *arg)
{
	struct redis_link *l = arg;

	event_add(l->rd, NULL);
}

static void
del_read(void *arg)
{
	struct redis_link *l = arg;

	event_del(l->rd);
}

/*
 * Commands that are given in one turn of the loop leave in one write at its
 * end; the socket is asked for room only when it had none.
 */
static void
add_write(void *arg)
{
	struct redis_link *l = arg;

	if (l->connected && !l->flushing)
		event_active(l->flush, 0, 0);
	else
		event_add(l->wr, NULL);
}

static void
del_write(void *arg)
{
	struct redis_link *l = arg;

	event_del(l->wr);
}

static void
cleanup(void *arg)
{
	struct redis_link *l = arg;

	if (l->rd != NULL)
		event_free(l->rd);
	if (l->wr != NULL)
		event_free(l->wr);
	l->rd = l->wr = NULL;
}

static void
arm(struct event *ev, unsigned ms)
{
	struct timeval tv = { (time_t)(ms / 1000), (ms % 1000) * 1000 };

	event_add(ev, &tv);
}

static void
gone(struct redis_link *l)
{
	bool was = l->connected;

	l->ac = NULL;
	l->connected = false;
	if (l->closing)
		return;
	arm(l->retry, RETRY_MS);
	if (was)
		l->on_lost(l);
}

static void
on_connect(const redisAsyncContext *ac, int status)
{
	struct redis_link *l = ac->data;

	if (status != REDIS_OK) {
		gone(l);
		return;
	}
	event_del(l->retry);
	l->connected = true;
	if (l->conf->password[0] != '\0')
		redisAsyncCommand(l->ac, NULL, NULL, "AUTH %s %s",
		    l->conf->user, l->conf->password);
	l->on_ready(l);
}

static void
on_disconnect(const redisAsyncContext *ac, int status)
{
	(void)status;
	gone(ac->data);
}

static void
open_link(struct redis_link *l)
{
	redisAsyncContext *ac = redisAsyncConnectUnix(l->conf->socket);

	if (ac == NULL || ac->err != 0) {
		if (ac != NULL)
			redisAsyncFree(ac);
		arm(l->retry, RETRY_MS);
		return;
	}
	l->ac = ac;
	ac->data = l;
	l->rd = event_new(l->base, ac->c.fd, EV_READ | EV_PERSIST, on_event, l);
	l->wr =
	    event_new(l->base, ac->c.fd, EV_WRITE | EV_PERSIST, on_event, l);
	BUG_ON(l->rd == NULL || l->wr == NULL);
	ac->ev.data = l;
	ac->ev.addRead = add_read;
	ac->ev.delRead = del_read;
	ac->ev.addWrite = add_write;
	ac->ev.delWrite = del_write;
	ac->ev.cleanup = cleanup;
	arm(l->retry, CONNECT_MS);
	redisAsyncSetDisconnectCallback(ac, on_disconnect);
	redisAsyncSetConnectCallback(ac, on_connect);
}

void
redis_link_start(struct redis_link *l)
{
	l->retry = evtimer_new(l->base, on_retry, l);
	l->flush = event_new(l->base, -1, 0, on_flush, l);
	BUG_ON(l->retry == NULL || l->flush == NULL);
	open_link(l);
}

void
redis_link_reset(struct redis_link *l)
{
	redisAsyncContext *ac = l->ac;

	if (ac == NULL)
		return;
	if (l->connected) {
		redisAsyncFree(ac); /* calls gone() through on_disconnect */
		return;
	}
	l->closing = true;
	redisAsyncFree(ac);
	l->closing = false;
	l->ac = NULL;
	arm(l->retry, RETRY_MS);
}

void
redis_link_stop(struct redis_link *l)
{
	l->closing = true;
	if (l->ac != NULL)
		redisAsyncFree(l->ac);
	l->ac = NULL;
	if (l->retry != NULL)
		event_free(l->retry);
	l->retry = NULL;
	if (l->flush != NULL)
		event_free(l->flush);
	l->flush = NULL;
}

static void
on_flush(evutil_socket_t fd, short what, void *arg)
{
	struct redis_link *l = arg;

	(void)fd;
	(void)what;
	if (!l->connected)
		return;
	l->flushing = true;
	redisAsyncHandleWrite(l->ac); /* may end in gone() */
	l->flushing = false;
}

static void
on_event(evutil_socket_t fd, short what, void *arg)
{
	struct redis_link *l = arg;

	(void)fd;
	if (what & EV_WRITE)
		redisAsyncHandleWrite(l->ac);
	else
		redisAsyncHandleRead(l->ac);
}

static void
on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct redis_link *l = arg;

	(void)fd;
	(void)what;
	if (l->ac != NULL)
		redis_link_reset(l);
	else
		open_link(l);
}
