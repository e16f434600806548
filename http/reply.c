/* SPDX-License-Identifier: ISC */
/* reply.c - see reply.h. All replies leave through start_reply(). */
#include "http/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <event2/buffer.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "http/conn.h"
#include "net/stream.h"

#define HEAD_USUAL 512

static bool
is_clean(const char *s)
{
	for (; *s != '\0'; s++)
		if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
			return false;
	return true;
}

void
http_reply_header(struct http_request *req, const char *name, const char *value)
{
	if (!is_clean(name) || !is_clean(value) || name[0] == '\0') {
		log_error(req->event, KV("request", req->id),
		    KV("why", "reply header with control characters"));
		return;
	}
	if (strcasecmp(name, "Cache-Control") == 0)
		req->has_cache_control = true;
	buf_puts(&req->extra, name);
	buf_puts(&req->extra, ": ");
	buf_puts(&req->extra, value);
	buf_puts(&req->extra, "\r\n");
}

static bool
has_no_body(int status)
{
	return status == 204 || status == 304;
}

static void
add_line(struct buf *out, const char *name, const char *value)
{
	buf_puts(out, name);
	buf_puts(out, value);
	buf_add(out, "\r\n", 2);
}

static void
add_date(struct buf *out)
{
	static _Thread_local char text[64];
	static _Thread_local time_t of;
	time_t now = time(NULL);
	struct tm tm;

	if (text[0] == '\0' || now != of) {
		gmtime_r(&now, &tm);
		strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm);
		of = now;
	}
	add_line(out, "Date: ", text);
}

/* "Not Found" of llhttp's NOT_FOUND. */
static void
add_status_line(struct buf *out, int status)
{
	const char *name = llhttp_status_name((llhttp_status_t)status);
	char number[DEC_MAX], last = ' ';

	(void)dec_encode(number, status);
	buf_puts(out, "HTTP/1.1 ");
	buf_puts(out, number);
	buf_putc(out, ' ');
	for (; *name != '\0'; name++) {
		last = (char)(*name == '_'                  ? ' '
			      : last != ' ' && *name >= 'A' ? *name | 0x20
							    : *name);
		buf_putc(out, last);
	}
	buf_add(out, "\r\n", 2);
}

/* Did the handler set the header of this line of the server's own? */
static bool
is_set(const struct http_request *req, const char *line)
{
	struct str rest = buf_str(&req->extra);
	size_t n = strcspn(line, ":") + 1;

	while (rest.n > 0) {
		struct str one = str_split(&rest, '\n');

		if (one.n > n && strncasecmp(one.p, line, n) == 0)
			return true;
	}
	return false;
}

/* Head of the reply; `length` -1 means chunked, or up to the end. */
static void
add_head(struct http_request *req, const char *type, long long length,
    bool keep, bool chunked)
{
	const char *const *line = req->conn->server->conf.headers;
	char number[DEC_MAX];
	struct buf out = { 0 };

	(void)buf_reserve(&out, HEAD_USUAL);
	add_status_line(&out, req->status);
	add_date(&out);
	add_line(&out, "X-Request-Id: ", req->id);
	buf_puts(&out, "X-Content-Type-Options: nosniff\r\n");
	if (!req->has_cache_control)
		buf_puts(&out, "Cache-Control: no-store\r\n");
	for (; line != NULL && *line != NULL; line++)
		if (!is_set(req, *line))
			add_line(&out, *line, "");
	buf_add(&out, req->extra.p, req->extra.n);
	if (type != NULL)
		add_line(&out, "Content-Type: ", type);
	if (chunked) {
		buf_puts(&out, "Transfer-Encoding: chunked\r\n");
	} else if (length >= 0 && !has_no_body(req->status)) {
		(void)dec_encode(number, length);
		add_line(&out, "Content-Length: ", number);
	}
	if (!keep)
		buf_puts(&out, "Connection: close\r\n");
	buf_add(&out, "\r\n", 2);
	evbuffer_add(net_stream_output(req->conn->io), out.p, out.n);
	buf_free(&out);
}

static void
log_reply(const struct http_request *req)
{
	const struct http_route *route = req->match.route;

	log_info(req->event, KV("request", req->id),
	    KV("method", req->head.method),
	    KV("operation", route != NULL ? route->operation : ""),
	    KV("code", req->status),
	    KV("why", req->why != NULL ? req->why : ""),
	    KV("ms", clock_mono_ms() - req->start_ms), KV("size", req->size));
}

/* May a further request follow on this connection? */
static bool
may_keep(const struct http_request *req)
{
	const struct http_server *server = req->conn->server;

	return !req->head.close && !server->draining &&
	       req->conn->requests < server->conf.requests_max &&
	       (req->body_done || req->head.length == 0);
}

static bool
is_head_request(const struct http_request *req)
{
	return strcmp(req->head.method, "HEAD") == 0;
}

/* False: nobody is there; the request is gone now. */
static bool
may_reply(struct http_request *req, int status)
{
	req->status = status;
	if (req->conn != NULL)
		return true;
	log_reply(req);
	if (req->inner != NULL)
		return true;
	http_request_free(req);
	return false;
}

/* Queue head and body, give the connection back, end the request. */
static void
reply_whole(
    struct http_request *req, int status, const char *type, struct buf *body)
{
	struct http_conn *c = req->conn;
	struct evbuffer *out;
	bool keep;

	if (req->inner != NULL) {
		http_inner_replied(req, type, body->p, body->n);
		return;
	}
	out = net_stream_output(c->io);
	keep = may_keep(req);
	req->size = body->n;
	add_head(req, type, (long long)body->n, keep, false);
	if (body->n > 0 && !is_head_request(req) && !has_no_body(status))
		evbuffer_add(out, body->p, body->n);
	log_reply(req);
	http_conn_replied(c, keep);
	http_request_free(req);
}

void
http_reply_empty(struct http_request *req, int status)
{
	struct buf none = { 0 };

	if (may_reply(req, status))
		reply_whole(req, status, NULL, &none);
}

static int
add_json(const char *p, size_t n, void *arg)
{
	buf_add(arg, p, n);
	return 0;
}

void
http_reply_json(struct http_request *req, int status, json_t *root)
{
	struct buf text = { 0 };

	if (may_reply(req, status)) {
		json_dump_callback(root, add_json, &text, JSON_COMPACT);
		buf_putc(&text, '\n');
		reply_whole(req, status, "application/json", &text);
	}
	buf_wipe(&text);
	buf_free(&text);
	json_decref(root);
}

void
http_reply_html(struct http_request *req, int status, struct buf *page)
{
	if (may_reply(req, status))
		reply_whole(req, status, "text/html; charset=utf-8", page);
	buf_clear(page);
}

void
http_reply_bytes(struct http_request *req, int status, const char *type,
    const void *p, size_t n)
{
	struct buf body = { 0 };

	buf_add(&body, p, n);
	if (may_reply(req, status))
		reply_whole(req, status, type, &body);
	buf_free(&body);
}

void
http_reply_static(struct http_request *req, int status, const char *type,
    const void *p, size_t n)
{
	struct http_conn *c;
	bool keep;

	if (!may_reply(req, status))
		return;
	if (req->inner != NULL) {
		http_inner_replied(req, type, p, n);
		return;
	}
	c = req->conn;
	keep = may_keep(req);
	req->size = n;
	add_head(req, type, (long long)n, keep, false);
	if (n > 0 && !is_head_request(req) && !has_no_body(status))
		evbuffer_add_reference(
		    net_stream_output(c->io), p, n, NULL, NULL);
	log_reply(req);
	http_conn_replied(c, keep);
	http_request_free(req);
}

void
http_reply_redirect(struct http_request *req, const char *location)
{
	BUG_ON(location[0] != '/' || location[1] == '/');
	http_reply_header(req, "Location", location);
	http_reply_empty(req, 303);
}

struct http_stream *
http_reply_stream(struct http_request *req, int status, const char *type,
    long long length, const struct http_stream_fns *fns, void *arg)
{
	struct http_conn *c = req->conn;
	struct http_stream *stream;
	bool keep;

	if (!may_reply(req, status))
		return NULL;
	if (req->inner != NULL)
		return http_inner_stream(req, type, fns, arg);
	keep = may_keep(req) && (length >= 0 || req->head.http11);
	stream = xcalloc(1, sizeof(*stream));
	stream->conn = c;
	stream->fns = fns;
	stream->arg = arg;
	stream->chunked = length < 0 && req->head.http11;
	stream->silent = is_head_request(req);
	stream->left = length;
	req->size = length > 0 ? (unsigned long long)length : 0;
	add_head(req, type, length, keep, stream->chunked);
	log_reply(req);
	http_conn_replied(c, keep);
	c->stream = stream;
	http_request_free(req);
	return stream;
}

bool
http_stream_write(struct http_stream *stream, const void *p, size_t n)
{
	struct http_conn *c = stream->conn;
	struct evbuffer *out;

	if (stream->inner != NULL)
		return http_inner_write(stream->inner, p, n);
	out = net_stream_output(c->io);
	if (n == 0)
		return !stream->full;
	BUG_ON(stream->left >= 0 && (unsigned long long)stream->left < n);
	if (stream->left >= 0)
		stream->left -= (long long)n;
	if (stream->silent)
		return true;
	if (evbuffer_get_length(out) == 0)
		http_conn_set_phase(c, c->phase, c->server->conf.write_ms);
	c->bytes += n;
	if (stream->chunked)
		evbuffer_add_printf(out, "%zx\r\n", n);
	evbuffer_add(out, p, n);
	if (stream->chunked)
		evbuffer_add(out, "\r\n", 2);
	stream->full = evbuffer_get_length(out) > HTTP_OUTPUT_FULL;
	return !stream->full;
}

void
http_stream_end(struct http_stream *stream, bool ok)
{
	struct http_conn *c = stream->conn;

	if (stream->inner != NULL) {
		http_inner_end(stream->inner, ok);
		return;
	}
	if (stream->left > 0 && !stream->silent)
		ok = false;
	if (ok && stream->chunked && !stream->silent)
		evbuffer_add(net_stream_output(c->io), "0\r\n\r\n", 5);
	free(stream);
	c->stream = NULL;
	if (!ok) {
		http_conn_close(c, "reply cut");
		return;
	}
	http_conn_set_phase(c, c->phase, c->server->conf.write_ms);
	c->bytes = evbuffer_get_length(net_stream_output(c->io));
	http_conn_wake(c);
}
