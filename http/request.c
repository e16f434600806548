/* SPDX-License-Identifier: ISC */
/* request.c - see request.h. */
#include "http/request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <event2/event.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/xalloc.h"
#include "http/conn.h"

/* "Text/Plain; charset=x" -> "text/plain" */
static char *
media_type(const char *value)
{
	struct str s = str_of(value != NULL ? value : "");
	char *type;

	type = str_dup(str_trim(str_split(&s, ';')));
	str_lower(type, strlen(type));
	return type;
}

static struct http_request *
new_request(const struct http_server *server)
{
	struct http_request *req = xcalloc(1, sizeof(*req));
	struct uuid u = uuid_v7_new();

	req->app = server->conf.app;
	req->event = strcmp(server->conf.name, "admin") == 0 ? "admin.request"
							     : "api.request";
	req->start_ms = clock_mono_ms();
	uuid_to_id(req->id, "req_", &u);
	req->head.method = "";
	return req;
}

/* Path, query and type out of the head; `target` is inside it. */
static void
take_target(struct http_request *req, const char *target)
{
	const char *question;

	question = strchr(target, '?');
	req->path = question == NULL
			? xstrdup(target)
			: xstrndup(target, (size_t)(question - target));
	req->query_text = question != NULL ? question + 1 : NULL;
	req->type = media_type(http_head_find(&req->head, "content-type"));
}

struct http_request *
http_request_new(struct http_conn *c, bool take_head)
{
	struct http_request *req = new_request(c->server);

	req->conn = c;
	req->peer = c->peer;
	req->tls = c->tls;
	if (take_head) {
		req->head = c->parser.head;
		c->parser.head.text = (struct buf){ 0 };
	}
	take_target(req, take_head ? http_head_target(&req->head) : "/");
	return req;
}

struct http_request *
http_request_new_inner(const struct http_request *outer,
    struct http_inner *inner, const struct http_head *head)
{
	struct http_request *req = new_request(inner->server);

	req->inner = inner;
	req->peer = outer->peer;
	req->tls = outer->tls;
	req->head = *head;
	take_target(req, http_head_target(&req->head));
	return req;
}

void
http_request_free(struct http_request *req)
{
	if (req->free_mine != NULL)
		req->free_mine(req->mine);
	if (req->free_who != NULL)
		req->free_who(req->who);
	http_match_free(&req->match);
	http_pairs_free(&req->query);
	http_pairs_free(&req->fields);
	buf_wipe(&req->head.text); /* may hold a credential */
	buf_free(&req->head.text);
	buf_wipe(&req->body);
	buf_free(&req->body);
	buf_free(&req->extra);
	free(req->path);
	free(req->type);
	free(req);
}

/*
 * Nobody is left to answer. Who holds the request? With a cancel function,
 * we do after the call; without one the application does while it owes an
 * answer; else we do.
 */
void
http_request_abandon(struct http_request *req)
{
	http_cancel_fn *cancel = req->cancel;

	req->conn = NULL;
	req->inner = NULL;
	req->cancel = NULL;
	if (cancel != NULL)
		cancel(req->cancel_arg);
	else if (req->with_app)
		return;
	http_request_free(req);
}

const char *
http_request_id(const struct http_request *req)
{
	return req->id;
}

const char *
http_request_method(const struct http_request *req)
{
	return req->head.method;
}

const char *
http_request_path(const struct http_request *req)
{
	return req->path;
}

const char *
http_request_query_text(const struct http_request *req)
{
	return req->query_text;
}

const struct http_route *
http_request_route(const struct http_request *req)
{
	return req->match.route;
}

const struct net_peer *
http_request_peer(const struct http_request *req)
{
	return &req->peer;
}

bool
http_request_is_tls(const struct http_request *req)
{
	return req->tls;
}

void *
http_request_app(const struct http_request *req)
{
	return req->app;
}

const char *
http_request_param(const struct http_request *req, const char *name)
{
	return http_match_param(&req->match, name);
}

const char *
http_request_header(const struct http_request *req, const char *name)
{
	return http_head_find(&req->head, name);
}

const char *
http_request_type(const struct http_request *req)
{
	return req->type;
}

long long
http_request_length(const struct http_request *req)
{
	return req->head.length;
}

const char *
http_request_query_twice(const struct http_request *req)
{
	size_t i;

	for (i = 0; i < req->query.n; i++)
		if (http_pairs_get(&req->query, req->query.item[i].name, 1) !=
		    NULL)
			return req->query.item[i].name;
	return NULL;
}

const char *
http_request_query(const struct http_request *req, const char *name)
{
	return http_pairs_get(&req->query, name, 0);
}

const char *
http_request_field(struct http_request *req, const char *name, size_t index)
{
	if (!req->fields_done) {
		req->fields_done = true;
		if (strcmp(req->type, "application/x-www-form-urlencoded") == 0)
			http_pairs_parse(&req->fields,
			    req->body.n > 0 ? (const char *)req->body.p : "",
			    req->body.n);
	}
	return http_pairs_get(&req->fields, name, index);
}

const char *
http_request_body(const struct http_request *req, size_t *n)
{
	*n = req->body.n;
	return req->body.n > 0 ? (const char *)req->body.p : "";
}

void
http_request_allow(
    struct http_request *req, void *who, void (*free_who)(void *who))
{
	req->who = who;
	req->free_who = free_who;
	req->cancel = NULL;
	if (req->inner != NULL) {
		http_inner_allowed(req);
		return;
	}
	if (req->conn == NULL) {
		http_request_free(req); /* the client left meanwhile */
		return;
	}
	req->with_app = false;
	req->todo = HTTP_TODO_DISPATCH;
	http_conn_wake(req->conn);
}

void
http_request_instead(struct http_request *req, http_handler_fn *handler)
{
	req->instead = handler;
	http_request_allow(req, NULL, NULL);
}

void *
http_request_who(const struct http_request *req)
{
	return req->who;
}

void
http_request_keep(
    struct http_request *req, void *mine, void (*free_mine)(void *mine))
{
	req->mine = mine;
	req->free_mine = free_mine;
}

void *
http_request_mine(const struct http_request *req)
{
	return req->mine;
}

void
http_request_on_cancel(
    struct http_request *req, http_cancel_fn *cancel, void *arg)
{
	req->cancel = cancel;
	req->cancel_arg = arg;
}

bool
http_request_is_gone(const struct http_request *req)
{
	return req->conn == NULL && req->inner == NULL;
}

const char *
http_request_caller(const struct http_request *req)
{
	if (req->inner == NULL || req->inner->outer->match.route == NULL)
		return NULL;
	return req->inner->outer->match.route->operation;
}

static void
want_body(struct http_request *req, size_t max)
{
	BUG_ON(req->done != NULL && req->data != NULL);
	req->body_max = max;
	req->size = 0;
	if (req->conn == NULL)
		return;
	req->with_app = false;
	req->todo = HTTP_TODO_BODY;
	http_conn_wake(req->conn);
}

void
http_request_read(struct http_request *req, size_t max, http_handler_fn *done)
{
	req->done = done;
	if (req->inner != NULL)
		http_inner_body(req, max, done);
	else
		want_body(req, max);
}

void
http_request_stream(struct http_request *req, size_t max, http_body_fn *data)
{
	BUG_ON(req->inner != NULL); /* no caller has such a body */
	req->data = data;
	want_body(req, max);
}

void
http_request_pause(struct http_request *req)
{
	struct http_conn *c = req->conn;

	if (c == NULL || c->paused)
		return;
	c->paused = true;
	req->with_app = true;
	c->paused_ms = clock_mono_ms();
	if (c->phase == HTTP_PHASE_BODY)
		http_conn_set_timer(c, c->server->conf.handler_ms);
}

void
http_request_resume(struct http_request *req)
{
	struct http_conn *c = req->conn;

	if (c == NULL || !c->paused)
		return;
	c->paused = false;
	req->with_app = false;
	c->since_ms += clock_mono_ms() - c->paused_ms;
	if (c->phase == HTTP_PHASE_BODY)
		http_conn_set_timer(c, 1); /* reckoned anew when it fires */
	http_conn_wake(c);
}

void
http_request_extend(struct http_request *req, unsigned ms)
{
	if (req->inner != NULL)
		http_request_extend(req->inner->outer, ms);
	else if (req->conn != NULL && req->conn->phase == HTTP_PHASE_APP)
		http_conn_set_timer(req->conn, ms);
}
