/* SPDX-License-Identifier: ISC */
/*
 * watch.c - wait, and the stream of events (Server-Sent Events).
 *
 * Both follow the inbox (store/follow.h) from a place: an agent that comes
 * back with the place it was given misses nothing. A key that dies ends them
 * at their next look: within a second while there are few, later when a client
 * does not read.
 */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/buf.h"
#include "base/loop.h"
#include "base/queue.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "store/follow.h"
#include "store/message.h"

#define WAIT_DEFAULT_S 30
#define WAIT_MAX_S 120
#define HEARTBEAT_MS 15000
/* Of one inbox in one worker. What is not trusted leaves its owner a place. */
#define WATCHES_MAX 32
#define WATCHES_SESSIONS 16 /* of all session keys */
#define WATCHES_SESSION 4 /* of one */
#define PLACE_N 36
#define PLACE_TEXT_MAX 49

struct api_watch {
	TAILQ_ENTRY(api_watch) link;
	struct api *api;
	struct http_request *req; /* a wait */
	struct http_stream *stream; /* or a stream */
	struct store_cred *cred; /* the stream's own */
	struct store_follow *follow;
	struct loop_timer *timer;
	struct store_place place;
	int64_t tenant, inbox, key;
	bool session; /* of a session key */
	bool has_place;
	bool skip_held; /* of a message that is asked about */
	bool over; /* its time was over before the first look */
};

static void
place_text(char out[PLACE_TEXT_MAX], const struct store_place *p)
{
	struct buf b = { 0 };

	buf_u64(&b, (uint64_t)p->xid);
	buf_u64(&b, (uint64_t)p->at);
	buf_add(&b, p->message.b, sizeof(p->message.b));
	buf_u32(&b, (uint32_t)p->n);
	base64url_encode(out, b.p, b.n);
	buf_free(&b);
}

static uint64_t
take_u64(const unsigned char **p, int n)
{
	uint64_t v = 0;

	for (; n > 0; n--)
		v = v << 8 | *(*p)++;
	return v;
}

/* Whatever is in it, it is only a place in the reader's own inbox. */
static bool
place_parse(struct store_place *place, const char *text)
{
	unsigned char raw[PLACE_TEXT_MAX];
	const unsigned char *p = raw;
	size_t n;

	if (strlen(text) != PLACE_TEXT_MAX - 1 ||
	    !base64url_decode(raw, &n, text, PLACE_TEXT_MAX - 1) ||
	    n != PLACE_N)
		return false;
	place->xid = (int64_t)(take_u64(&p, 8) & INT64_MAX);
	place->at = (int64_t)take_u64(&p, 8);
	memcpy(place->message.b, p, sizeof(place->message.b));
	p += sizeof(place->message.b);
	place->n = (int)(take_u64(&p, 4) & INT32_MAX);
	/* times that the database can tell */
	return place->at > 0 && place->at < (int64_t)4102444800000000;
}

static json_t *
place_json(const struct api_watch *w)
{
	char text[PLACE_TEXT_MAX];

	if (!w->has_place)
		return json_null();
	place_text(text, &w->place);
	return json_string(text);
}

static json_t *
event_json(const struct store_happening *e)
{
	struct store_event plain = { e->n, e->type, e->at, e->actor, e->state,
		e->detail };
	json_t *doc = api_render_event(&e->message, &plain);
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", &e->message);
	json_object_set_new(doc, "message_id", json_string(id));
	return doc;
}

/* How many more may this key open? */
static int
places_left(const struct api *api, const struct store_cred *cred)
{
	const struct api_watch *w;
	int all = WATCHES_MAX, runs = WATCHES_SESSIONS, own = WATCHES_SESSION;

	TAILQ_FOREACH(w, &api->watches, link) {
		if (w->tenant != cred->tenant || w->inbox != cred->inbox)
			continue;
		all--;
		runs -= w->session;
		own -= w->key == cred->key;
	}
	if (cred->kind != 's')
		return all;
	return all < runs ? all < own ? all : own : runs < own ? runs : own;
}

static void
free_watch(struct api_watch *w)
{
	TAILQ_REMOVE(&w->api->watches, w, link);
	store_follow_end(w->follow);
	loop_timer_free(w->timer);
	store_cred_free(w->cred);
	free(w);
}

static void
on_gone(void *arg)
{
	free_watch(arg);
}

/* False: answered. */
static bool
take_place(
    struct http_request *req, const char *text, struct store_place *place)
{
	if (place_parse(place, text))
		return true;
	http_fail_field(req, E_VALIDATION_ERROR, "after",
	    "not a place that a wait or a stream gave");
	return false;
}

static struct api_watch *
new_watch(struct http_request *req, loop_fn *on_timer)
{
	struct api *api = api_of(req);
	const struct store_cred *cred = api_cred(req);
	struct api_watch *w;

	if (places_left(api, cred) <= 0) {
		http_fail_retry(req, E_RATE_LIMITED, 5,
		    "as many waits and streams as this key may have are open");
		return NULL;
	}
	w = xcalloc(1, sizeof(*w));
	w->api = api;
	w->tenant = cred->tenant;
	w->inbox = cred->inbox;
	w->key = cred->key;
	w->session = cred->kind == 's';
	w->timer = loop_timer_new(api->loop, on_timer, w);
	TAILQ_INSERT_TAIL(&api->watches, w, link);
	return w;
}

/* Wait. */

/* [ends the watch] Takes over `events`. */
static void
answer_wait(struct api_watch *w, json_t *events)
{
	struct http_request *req = w->req;
	json_t *doc = json_pack("{s:I, s:b, s:o, s:o}", "count",
	    (json_int_t)json_array_size(events), "timed_out",
	    json_array_size(events) == 0, "next", place_json(w), "events",
	    events);

	http_request_on_cancel(req, NULL, NULL);
	free_watch(w);
	http_reply_json(req, 200, doc);
}

/* Not without a place to go on from: the first look is always waited for. */
static void
on_wait_over(void *arg)
{
	struct api_watch *w = arg;

	if (w->has_place)
		answer_wait(w, json_array());
	else
		w->over = true;
}

static void
on_wait_news(void *arg, enum err_code code, const struct store_happening *e,
    size_t count, const struct store_place *next)
{
	struct api_watch *w = arg;
	struct http_request *req = w->req;
	json_t *events;
	size_t i;

	if (code != E_NONE) {
		http_request_on_cancel(req, NULL, NULL);
		free_watch(w);
		api_refuse(req, code);
		return;
	}
	w->place = *next;
	w->has_place = true;
	events = json_array();
	for (i = 0; i < count; i++)
		if (!w->skip_held || e[i].n > 1)
			json_array_append_new(events, event_json(&e[i]));
	if (json_array_size(events) > 0 || w->over)
		answer_wait(w, events);
	else
		json_decref(events);
}

static bool
take_timeout(struct http_request *req, unsigned long long *seconds)
{
	const char *text = http_request_query(req, "timeout");

	*seconds = WAIT_DEFAULT_S;
	if (text == NULL || str_to_u64(str_of(text), WAIT_MAX_S, seconds))
		return true;
	http_fail_field(req, E_VALIDATION_ERROR, "timeout",
	    "not a number of seconds from 0 to %d", WAIT_MAX_S);
	return false;
}

/*
 * Of one message, without a place: what happened to it since it was held
 * counts, so that nothing between send and wait is missed.
 */
static bool
take_only(struct http_request *req, struct uuid *only)
{
	const char *text = http_request_query(req, "message_id");

	if (text == NULL || uuid_from_id(only, "msg_", str_of(text)))
		return true;
	http_fail_field(
	    req, E_VALIDATION_ERROR, "message_id", "not the id of a message");
	return false;
}

void
api_op_wait(struct http_request *req)
{
	const char *after = http_request_query(req, "after");
	const char *message = http_request_query(req, "message_id");
	struct store_place from = { 0 };
	unsigned long long seconds;
	struct uuid only;
	struct api_watch *w;

	if (!take_timeout(req, &seconds) || !take_only(req, &only) ||
	    (after != NULL && !take_place(req, after, &from)) ||
	    (w = new_watch(req, on_wait_over)) == NULL)
		return;
	w->req = req;
	if (after == NULL && message != NULL) {
		from.at = uuid_time_ms(&only) * 1000;
		w->skip_held = true;
	}
	w->place = from;
	w->has_place = after != NULL;
	http_request_on_cancel(req, on_gone, w);
	http_request_extend(req, (unsigned)(seconds + 10) * 1000);
	w->follow = store_follow(api_cred(req),
	    after != NULL || w->skip_held ? &from : NULL,
	    message != NULL ? &only : NULL, on_wait_news, w);
	/* at least one look, however short the time */
	loop_timer_set(w->timer, seconds == 0 ? 200 : seconds * 1000);
}

/* The stream. */

static void
write_text(struct api_watch *w, const struct buf *text)
{
	if (!http_stream_write(w->stream, text->p, text->n))
		store_follow_pause(w->follow, true);
	loop_timer_set(w->timer, HEARTBEAT_MS);
}

static void
on_heartbeat(void *arg)
{
	struct api_watch *w = arg;
	struct buf text = { 0 };

	buf_puts(&text, ":\n\n");
	write_text(w, &text);
	buf_free(&text);
}

static void
add_event(struct buf *text, const struct store_happening *e)
{
	char place[PLACE_TEXT_MAX];
	json_t *doc = event_json(e);
	char *line = json_dumps(doc, JSON_COMPACT);

	place_text(place, &e->place);
	buf_printf(text, "id: %s\nevent: %s\ndata: ", place, e->type);
	buf_puts(text, line);
	buf_puts(text, "\n\n");
	free(line);
	json_decref(doc);
}

static void
on_stream_news(void *arg, enum err_code code, const struct store_happening *e,
    size_t count, const struct store_place *next)
{
	struct api_watch *w = arg;
	struct buf text = { 0 };
	char place[PLACE_TEXT_MAX];
	size_t i;

	if (code != E_NONE) {
		http_stream_end(w->stream, true);
		free_watch(w);
		return;
	}
	/* The first time even without events: a place to come back to. */
	if (count == 0) {
		place_text(place, next);
		buf_printf(&text, "id: %s\n\n", place);
	}
	for (i = 0; i < count; i++)
		add_event(&text, &e[i]);
	write_text(w, &text);
	buf_free(&text);
}

static void
on_stream_drained(void *arg)
{
	struct api_watch *w = arg;

	store_follow_pause(w->follow, false);
}

static const struct http_stream_fns stream_fns = {
	.drained = on_stream_drained,
	.gone = on_gone,
};

void
api_op_events(struct http_request *req)
{
	const char *after = http_request_header(req, "last-event-id");
	struct store_place from = { 0 };
	struct buf text = { 0 };
	struct api_watch *w;

	if (strcmp(http_request_method(req), "HEAD") == 0) {
		http_reply_empty(req, 200);
		return;
	}
	if (after == NULL)
		after = http_request_query(req, "after");
	if ((after != NULL && !take_place(req, after, &from)) ||
	    (w = new_watch(req, on_heartbeat)) == NULL)
		return;
	w->cred = api_take_cred(req);
	w->stream = http_reply_stream(
	    req, 200, "text/event-stream", -1, &stream_fns, w);
	w->follow = store_follow(
	    w->cred, after != NULL ? &from : NULL, NULL, on_stream_news, w);
	if (w->stream == NULL) {
		free_watch(w);
		return;
	}
	buf_puts(&text, "retry: 2000\n\n");
	write_text(w, &text);
	buf_free(&text);
}

void
api_watches_end(struct api *api)
{
	struct api_watch *w, *next;

	TAILQ_FOREACH_SAFE(w, &api->watches, link, next)
		if (w->req != NULL) {
			answer_wait(w, json_array());
		} else {
			http_stream_end(w->stream, true);
			free_watch(w);
		}
}
