/* SPDX-License-Identifier: ISC */
/*
 * redis.c - calls, deadlines, the breaker and subscriptions.
 */
#include "store/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <openssl/crypto.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/codec.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/queue.h"
#include "base/secret.h"
#include "base/xalloc.h"
#include "store/redis_link.h"

#define BREAKER 3
#define PROBE_MS 1000
#define TICK_MS 10
#define WAKE_MS 20

TAILQ_HEAD(redis_reqs, redis_req);

struct redis_req {
	TAILQ_ENTRY(redis_req) link;
	struct redis_reqs *list;
	struct redis *r;
	redis_done_fn *done; /* NULL: cancelled, or told */
	void *arg;
	uint64_t deadline;
	redisReply *reply; /* a copy of ours only as a type and text */
	bool in_hiredis; /* hiredis will call on_reply() with us */
};

struct subscription {
	SLIST_ENTRY(subscription) link;
	char *channel;
	redis_message_fn *fn;
	void *arg;
};

struct redis {
	struct event_base *base;
	struct redis_conf conf;
	struct secret password;
	char *text[3]; /* what conf points to */
	struct redis_link calls, messages;
	struct buf command; /* as it goes over the wire */
	bool listening;
	bool up, freeing;
	unsigned failures;
	uint64_t woke;
	unsigned wake_in; /* of the message that waits for its turn */
	struct redis_reqs open, finished;
	struct event *kick, *tick, *probe, *wake;
	SLIST_HEAD(, subscription) subscriptions;
};

static void on_kick(evutil_socket_t fd, short what, void *arg);
static void on_tick(evutil_socket_t fd, short what, void *arg);
static void on_probe(evutil_socket_t fd, short what, void *arg);
static void on_wake(evutil_socket_t fd, short what, void *arg);
static void on_ready(struct redis_link *l);
static void on_lost(struct redis_link *l);
static void on_listening(struct redis_link *l);
static void on_deaf(struct redis_link *l);

static void
arm(struct event *ev, unsigned ms)
{
	struct timeval tv = { (time_t)(ms / 1000), (ms % 1000) * 1000 };

	event_add(ev, &tv);
}

static void
set_up(struct redis *r, bool up, const char *why)
{
	if (up)
		r->failures = 0;
	else
		arm(r->probe, PROBE_MS);
	if (r->up == up)
		return;
	r->up = up;
	if (up)
		log_info("limit.redis_up", KV("socket", r->conf.socket));
	else
		log_warn("limit.redis_down", KV("why", why));
}

struct redis *
redis_new(struct loop *loop, const struct redis_conf *conf)
{
	struct redis *r = xcalloc(1, sizeof(*r));

	r->base = loop_base(loop);
	r->text[0] = xstrdup(conf->socket != NULL ? conf->socket : "");
	r->text[1] = xstrdup(conf->user != NULL ? conf->user : "");
	r->text[2] = xstrdup(conf->password != NULL ? conf->password : "");
	r->conf = (struct redis_conf){ r->text[0], r->text[1], r->text[2],
		conf->probe_limiter };
	TAILQ_INIT(&r->open);
	TAILQ_INIT(&r->finished);
	SLIST_INIT(&r->subscriptions);
	r->kick = event_new(r->base, -1, 0, on_kick, r);
	r->tick = evtimer_new(r->base, on_tick, r);
	r->probe = evtimer_new(r->base, on_probe, r);
	r->wake = evtimer_new(r->base, on_wake, r);
	BUG_ON(r->kick == NULL || r->tick == NULL || r->probe == NULL ||
	       r->wake == NULL);
	r->calls = (struct redis_link){ .base = r->base,
		.conf = &r->conf,
		.on_ready = on_ready,
		.on_lost = on_lost,
		.owner = r };
	r->messages = (struct redis_link){ .base = r->base,
		.conf = &r->conf,
		.on_ready = on_listening,
		.on_lost = on_deaf,
		.owner = r };
	if (r->conf.socket[0] != '\0')
		redis_link_start(&r->calls);
	return r;
}

struct redis *
redis_open(struct loop *loop, const struct conf *conf, const char *program,
    struct err *err)
{
	struct redis_conf rc = { .socket = conf->redis_socket,
		.user = conf_redis_user(conf, program),
		.probe_limiter = strcmp(program, "posternd") == 0 };
	char password[SECRET_MAX + 1] = "";
	struct secret s = { 0 };
	struct redis *r;

	if (conf->redis_password_file != NULL &&
	    conf->redis_password_file[0] != '\0') {
		if (!secret_load(&s, conf->redis_password_file, 0, err))
			return NULL;
		memcpy(password, s.b, s.n);
		secret_wipe(&s);
	}
	rc.password = password;
	r = redis_new(loop, &rc);
	OPENSSL_cleanse(password, sizeof(password));
	return r;
}

static void
free_req(struct redis_req *req)
{
	TAILQ_REMOVE(req->list, req, link);
	if (req->reply != NULL)
		freeReplyObject(req->reply);
	free(req);
}

void
redis_free(struct redis *r)
{
	struct redis_req *req, *next;
	struct subscription *s;

	if (r == NULL)
		return;
	r->freeing = true;
	redis_link_stop(&r->calls);
	redis_link_stop(&r->messages);
	TAILQ_FOREACH_SAFE(req, &r->open, link, next)
		free_req(req);
	TAILQ_FOREACH_SAFE(req, &r->finished, link, next)
		free_req(req);
	while ((s = SLIST_FIRST(&r->subscriptions)) != NULL) {
		SLIST_REMOVE_HEAD(&r->subscriptions, link);
		free(s->channel);
		free(s);
	}
	buf_free(&r->command);
	event_free(r->kick);
	event_free(r->tick);
	event_free(r->probe);
	event_free(r->wake);
	OPENSSL_cleanse(r->text[2], strlen(r->text[2]));
	free(r->text[0]);
	free(r->text[1]);
	free(r->text[2]);
	free(r);
}

bool
redis_up(const struct redis *r)
{
	return r->up;
}

static void
finish(struct redis_req *req)
{
	struct redis *r = req->r;

	TAILQ_REMOVE(req->list, req, link);
	req->list = &r->finished;
	TAILQ_INSERT_TAIL(&r->finished, req, link);
	event_active(r->kick, 0, 0);
}

static void
failed(struct redis *r, const char *why)
{
	if (++r->failures >= BREAKER)
		set_up(r, false, why);
}

/* hiredis frees the reply after the callback: keep our own. */
static redisReply *
copy_reply(const redisReply *in)
{
	redisReply *out = calloc(1, sizeof(*out));
	size_t i;

	BUG_ON(out == NULL);
	out->type = in->type;
	out->integer = in->integer;
	out->len = in->len;
	if (in->str != NULL) {
		out->str = malloc(in->len + 1);
		BUG_ON(out->str == NULL);
		memcpy(out->str, in->str, in->len);
		out->str[in->len] = '\0';
	}
	if (in->elements > 0) {
		out->element = calloc(in->elements, sizeof(*out->element));
		BUG_ON(out->element == NULL);
		out->elements = in->elements;
		for (i = 0; i < in->elements; i++)
			out->element[i] = copy_reply(in->element[i]);
	}
	return out;
}

static void
on_reply(redisAsyncContext *ac, void *reply, void *arg)
{
	struct redis_req *req = arg;
	struct redis *r = req->r;

	(void)ac;
	if (r->freeing)
		return;
	req->in_hiredis = false;
	if (req->list == &r->finished) {
		/* Timed out and told already; it only waited for this. */
		event_active(r->kick, 0, 0);
		return;
	}
	if (reply == NULL) {
		failed(r, "connection lost");
	} else {
		req->reply = copy_reply(reply);
		if (req->reply->type == REDIS_REPLY_ERROR)
			failed(r, req->reply->str);
		else
			r->failures = 0;
	}
	finish(req);
}

static struct redis_req *
new_req(struct redis *r, redis_done_fn *done, void *arg)
{
	struct redis_req *req = xcalloc(1, sizeof(*req));

	req->r = r;
	req->done = done;
	req->arg = arg;
	req->list = &r->open;
	TAILQ_INSERT_TAIL(&r->open, req, link);
	return req;
}

/* "*4\r\n", "$5\r\n" */
static void
put_count(struct buf *out, char kind, size_t n)
{
	char text[DEC_MAX];

	buf_putc(out, kind);
	buf_add(out, text, dec_encode(text, (int64_t)n));
	buf_add(out, "\r\n", 2);
}

static void
send_call(struct redis *r, struct redis_req *req, size_t argc,
    const struct str *argv, unsigned timeout_ms)
{
	struct buf *command = &r->command;
	size_t i;

	buf_clear(command);
	put_count(command, '*', argc);
	for (i = 0; i < argc; i++) {
		put_count(command, '$', argv[i].n);
		buf_add_str(command, argv[i]);
		buf_add(command, "\r\n", 2);
	}
	req->deadline = clock_mono_ms() + timeout_ms;
	if (!r->calls.connected ||
	    redisAsyncFormattedCommand(r->calls.ac, on_reply, req,
		(const char *)command->p, command->n) != REDIS_OK) {
		finish(req); /* no callback will come */
		return;
	}
	req->in_hiredis = true;
	if (!event_pending(r->tick, EV_TIMEOUT, NULL))
		arm(r->tick, TICK_MS);
}

struct redis_req *
redis_call(struct redis *r, size_t argc, const struct str *argv,
    unsigned timeout_ms, redis_done_fn *done, void *arg)
{
	struct redis_req *req = new_req(r, done, arg);

	if (!r->up)
		finish(req);
	else
		send_call(r, req, argc, argv, timeout_ms);
	return req;
}

void
redis_cancel(struct redis_req *req)
{
	if (req != NULL)
		req->done = NULL;
}

void
redis_publish(struct redis *r, const char *channel, struct str message)
{
	if (r->up)
		redisAsyncCommand(r->calls.ac, NULL, NULL, "PUBLISH %s %b",
		    channel, message.p, message.n);
}

static void
on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct redis *r = arg;
	char text[16];

	(void)fd;
	(void)what;
	(void)snprintf(text, sizeof(text), "%u", r->wake_in);
	r->woke = clock_mono_ms();
	redis_publish(r, "wake", str_of(text));
}

void
redis_wake(struct redis *r, unsigned in_ms)
{
	uint64_t since;

	if (r == NULL)
		return;
	if (event_pending(r->wake, EV_TIMEOUT, NULL)) {
		if (in_ms < r->wake_in)
			r->wake_in = in_ms;
		return;
	}
	r->wake_in = in_ms;
	since = clock_mono_ms() - r->woke;
	if (since >= WAKE_MS)
		on_wake(-1, 0, r);
	else
		arm(r->wake, (unsigned)(WAKE_MS - since));
}

static void
on_kick(evutil_socket_t fd, short what, void *arg)
{
	struct redis *r = arg;
	struct redis_req *req, *next;
	redis_done_fn *done;

	(void)fd;
	(void)what;
	for (req = TAILQ_FIRST(&r->finished); req != NULL; req = next) {
		done = req->done;
		req->done = NULL;
		if (done != NULL)
			done(req->arg, req->reply);
		next = TAILQ_NEXT(req, link);
		if (!req->in_hiredis)
			free_req(req);
	}
}

static void
on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct redis *r = arg;
	uint64_t now = clock_mono_ms();
	struct redis_req *req, *next;
	bool waits = false;

	(void)fd;
	(void)what;
	for (req = TAILQ_FIRST(&r->open); req != NULL; req = next) {
		next = TAILQ_NEXT(req, link);
		if (req->deadline > now) {
			waits = true;
			continue;
		}
		failed(r, "no answer in time");
		finish(req);
	}
	/* Answers may be far behind: begin again on a fresh connection. */
	if (!r->up && r->failures >= BREAKER && r->calls.connected)
		redis_link_reset(&r->calls);
	if (waits)
		arm(r->tick, TICK_MS);
}

/* The library is there exactly when pst_peek answers. */
static void
on_probed(void *arg, const struct redisReply *reply)
{
	struct redis *r = arg;

	if (reply != NULL && reply->type != REDIS_REPLY_ERROR)
		set_up(r, true, "");
	else
		set_up(r, false, reply != NULL ? reply->str : "no answer");
}

static void
on_probe(evutil_socket_t fd, short what, void *arg)
{
	static const struct str peek[] = { str_lit("FCALL"),
		str_lit("pst_peek"), str_lit("1"), str_lit("rl:{0.0}") };
	static const struct str ping[] = { str_lit("PING") };
	struct redis *r = arg;

	(void)fd;
	(void)what;
	if (r->up)
		return;
	r->failures = 0;
	if (r->conf.probe_limiter)
		send_call(r, new_req(r, on_probed, r), 4, peek, PROBE_MS / 2);
	else
		send_call(r, new_req(r, on_probed, r), 1, ping, PROBE_MS / 2);
}

static void
on_ready(struct redis_link *l)
{
	on_probe(-1, 0, l->owner);
}

static void
on_lost(struct redis_link *l)
{
	set_up(l->owner, false, "connection lost");
}

static void
on_message(redisAsyncContext *ac, void *reply, void *arg)
{
	struct subscription *s = arg;
	const redisReply *m = reply;

	(void)ac;
	if (m == NULL || m->type != REDIS_REPLY_ARRAY || m->elements != 3 ||
	    m->element[2]->type != REDIS_REPLY_STRING)
		return;
	s->fn(s->arg, (struct str){ m->element[1]->str, m->element[1]->len },
	    (struct str){ m->element[2]->str, m->element[2]->len });
}

static void
on_listening(struct redis_link *l)
{
	struct redis *r = l->owner;
	struct subscription *s;

	SLIST_FOREACH(s, &r->subscriptions, link)
	redisAsyncCommand(l->ac, on_message, s, "SUBSCRIBE %s", s->channel);
}

static void
on_deaf(struct redis_link *l)
{
	(void)l; /* the link reconnects by itself */
}

void
redis_subscribe(
    struct redis *r, const char *channel, redis_message_fn *fn, void *arg)
{
	struct subscription *s = xcalloc(1, sizeof(*s));

	s->channel = xstrdup(channel);
	s->fn = fn;
	s->arg = arg;
	SLIST_INSERT_HEAD(&r->subscriptions, s, link);
	if (r->conf.socket[0] == '\0')
		return;
	if (!r->listening)
		redis_link_start(&r->messages);
	else if (r->messages.connected)
		redisAsyncCommand(
		    r->messages.ac, on_message, s, "SUBSCRIBE %s", channel);
	r->listening = true;
}
