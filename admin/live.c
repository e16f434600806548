/* SPDX-License-Identifier: ISC */
/*
 * live.c - what is new, told to open pages
 *
 * A stream looks once a second, later when there are many. It sends ids and
 * names of operators only, and nothing when nothing changed but a comment that
 * keeps the connection alive. `last` is the newest id told: a page that comes
 * back with it (Last-Event-ID) misses nothing.
 */
#include "admin/live.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/admin.h"
#include "admin/handlers.h"
#include "admin/page.h"
#include "admin/session.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/loop.h"
#include "base/queue.h"
#include "base/xalloc.h"
#include "http/reply.h"
#include "http/request.h"
#include "store/together.h"

#define LOOK_MS 1000
#define STREAMS_A_SECOND 32
#define BEAT_MS 15000

struct live_stream {
	TAILQ_ENTRY(live_stream) link;
	struct live_streams *all;
	struct http_stream *http; /* NULL: the page is gone */
	struct store_operator who;
	int64_t operator_id;
	struct loop_timer *timer;
	struct uuid last;
	int64_t only; /* the tenant that the page shows; 0: all */
	struct live live;
	struct arena mem;
	char *sent; /* the last data line */
	unsigned quiet_ms;
	bool asking; /* memory is the call's until it answers */
	bool refused; /* the last answer was; the secret may be another now */
	bool full;
};

struct live_streams {
	struct admin *admin;
	TAILQ_HEAD(, live_stream) list;
	unsigned n;
};

struct live_streams *
live_streams_new(struct admin *admin)
{
	struct live_streams *all = xcalloc(1, sizeof(*all));

	all->admin = admin;
	TAILQ_INIT(&all->list);
	return all;
}

static void
free_stream(struct live_stream *s)
{
	TAILQ_REMOVE(&s->all->list, s, link);
	s->all->n--;
	loop_timer_free(s->timer);
	secret_wipe(&s->who.session);
	arena_free(&s->mem);
	free(s->sent);
	free(s);
}

/* Safe twice; what is under way ends when it answers. */
static void
end_stream(struct live_stream *s)
{
	if (s->http != NULL)
		http_stream_end(s->http, true);
	s->http = NULL;
	if (!s->asking)
		free_stream(s);
}

void
live_streams_end(struct live_streams *all)
{
	struct live_stream *s = TAILQ_FIRST(&all->list), *next;

	for (; s != NULL; s = next) {
		next = TAILQ_NEXT(s, link);
		end_stream(s);
	}
}

void
live_streams_turn(struct live_streams *all, const struct secret *from,
    const struct secret *to)
{
	struct live_stream *s;

	TAILQ_FOREACH(s, &all->list, link)
		if (secret_eq(&s->who.session, from))
			s->who.session = *to;
}

void
live_streams_free(struct live_streams *all)
{
	if (all == NULL)
		return;
	while (!TAILQ_EMPTY(&all->list))
		free_stream(TAILQ_FIRST(&all->list));
	free(all);
}

static void
on_gone(void *arg)
{
	struct live_stream *s = arg;

	s->http = NULL;
	if (!s->asking)
		free_stream(s);
}

static void
on_drained(void *arg)
{
	struct live_stream *s = arg;

	s->full = false;
}

static json_t *
id_json(const struct uuid *message)
{
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", message);
	return json_string(id);
}

static char *
data_of(const struct live *live, int64_t only)
{
	json_t *fresh = json_array(), *looks = json_object();
	char id[UUID_ID_MAX], *text;
	json_t *doc;
	size_t i;

	for (i = 0; i < live->fresh_n; i++)
		json_array_append_new(fresh, id_json(&live->fresh[i]));
	for (i = 0; i < live->look_n; i++) {
		uuid_to_id(id, "msg_", &live->look[i].message);
		json_object_set_new(looks, id, json_string(live->look[i].who));
	}
	doc = json_pack("{s:i,s:o,s:o,s:I}", "held", live->held, "new", fresh,
	    "looks", looks, "only", (json_int_t)only);
	text = json_dumps(doc, JSON_COMPACT);
	json_decref(doc);
	return text;
}

static void
write_text(struct live_stream *s, const struct buf *text)
{
	s->full = !http_stream_write(s->http, text->p, text->n);
	s->quiet_ms = 0;
}

static void
tell(struct live_stream *s, unsigned pause_ms)
{
	char *data = data_of(&s->live, s->only), id[UUID_ID_MAX];
	struct buf text = { 0 };

	s->quiet_ms += pause_ms;
	if (data == NULL)
		return;
	if (s->live.fresh_n > 0)
		s->last = s->live.fresh[s->live.fresh_n - 1];
	if (s->live.fresh_n > 0 || s->sent == NULL ||
	    strcmp(data, s->sent) != 0) {
		uuid_to_id(id, "msg_", &s->last);
		buf_printf(&text, "id: %s\ndata: %s\n\n", id, data);
	} else if (s->quiet_ms >= BEAT_MS) {
		buf_puts(&text, ":\n\n");
	}
	if (text.n > 0)
		write_text(s, &text);
	free(s->sent);
	s->sent = data;
	buf_free(&text);
}

static void
on_live(void *arg)
{
	struct live_stream *s = arg;
	unsigned ms = LOOK_MS * (1 + s->all->n / STREAMS_A_SECOND);

	s->asking = false;
	if (s->http == NULL) {
		free_stream(s);
		return;
	}
	/*
	 * 401: the session has ended, and so does what it sees; or it goes on
	 * under another secret, which is here by the next look.
	 */
	if (s->live.is.status >= 300 && s->live.is.status < 500) {
		if (s->refused) {
			end_stream(s);
			return;
		}
		s->refused = true;
	}
	if (s->live.is.status < 300) {
		s->refused = false;
		tell(s, ms);
	}
	arena_free(&s->mem);
	loop_timer_set(s->timer, ms);
}

static void
on_timer(void *arg)
{
	struct live_stream *s = arg;

	if (s->full) { /* its reader is slow: what it misses, it asks for */
		loop_timer_set(s->timer, LOOK_MS);
		return;
	}
	memset(&s->live, 0, sizeof(s->live));
	s->asking = true;
	live_ask(&s->who, &s->last, s->only, &s->mem, &s->live, on_live, s);
}

static const struct http_stream_fns stream_fns = {
	.drained = on_drained,
	.gone = on_gone,
};

static unsigned
streams_of(const struct live_streams *all, int64_t operator_id)
{
	const struct live_stream *s;
	unsigned n = 0;

	TAILQ_FOREACH(s, &all->list, link)
		n += s->operator_id == operator_id;
	return n;
}

/* Where the page is: what it was told last, or when it was made. */
static struct uuid
begin_at(struct http_request *req)
{
	const char *last = http_request_header(req, "Last-Event-ID");
	struct uuid at;

	if (last == NULL)
		last = http_request_query(req, "after");
	if (last != NULL && uuid_from_id(&at, "msg_", str_of(last)))
		return at;
	return uuid_v7_new();
}

void
handle_events(struct http_request *req)
{
	struct admin *admin = http_request_app(req);
	struct live_streams *all = admin->live;
	const struct admin_who *who = http_request_who(req);
	struct live_stream *s;

	if (strcmp(http_request_method(req), "HEAD") == 0) {
		http_reply_empty(req, 200);
		return;
	}
	if (!session_same_origin(admin, req)) {
		page_problem(req, 403, "Refused",
		    "The request did not come from a page of this site.");
		return;
	}
	if (all->n >= LIVE_STREAMS ||
	    streams_of(all, who->session.operator_id) >= LIVE_STREAMS_EACH) {
		/* no content: a browser does not ask again */
		http_reply_empty(req, 204);
		return;
	}
	s = xcalloc(1, sizeof(*s));
	s->all = all;
	s->who = who->op;
	press_follow(admin, &s->who.session);
	s->operator_id = who->session.operator_id;
	s->last = begin_at(req);
	s->only = session_only(req);
	s->timer = loop_timer_new(admin->loop, on_timer, s);
	TAILQ_INSERT_TAIL(&all->list, s, link);
	all->n++;
	http_reply_header(req, "X-Accel-Buffering", "no"); /* nginx */
	s->http = http_reply_stream(
	    req, 200, "text/event-stream", -1, &stream_fns, s);
	if (s->http == NULL)
		free_stream(s);
	else
		loop_timer_set(s->timer, 1);
}
