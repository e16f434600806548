/* SPDX-License-Identifier: ISC */
#include "net/metrics_http.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/str.h"
#include "base/xalloc.h"
#include "net/listen.h"

struct metrics_http {
	struct evhttp *http;
	metrics_ready_fn *ready;
	void *arg;
};

static void
answer(struct evhttp_request *req, int code, const char *type, struct str body)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(req);
	struct evbuffer *out = evbuffer_new();

	BUG_ON(out == NULL);
	(void)evhttp_add_header(headers, "Content-Type", type);
	(void)evhttp_add_header(headers, "Cache-Control", "no-store");
	(void)evbuffer_add(out, body.p, body.n);
	evhttp_send_reply(req, code, code == 200 ? "OK" : "Not ready", out);
	evbuffer_free(out);
}

/* What /readyz says, kept as a number too, so that an alert can be made. */
static enum metrics_ready
ask_ready(struct metrics_http *h, char *why, size_t size)
{
	enum metrics_ready r = METRICS_READY;

	*why = '\0';
	if (h->ready != NULL)
		r = h->ready(h->arg, why, size);
	metrics_set(M_READY, r != METRICS_NOT_READY, NULL, NULL);
	return r;
}

static void
on_metrics(struct evhttp_request *req, void *arg)
{
	struct buf out = { 0 };
	char why[256];

	(void)ask_ready(arg, why, sizeof(why));
	metrics_render(&out);
	answer(req, 200, "text/plain; version=0.0.4; charset=utf-8",
	    buf_str(&out));
	buf_free(&out);
}

static void
on_health(struct evhttp_request *req, void *arg)
{
	(void)arg;
	answer(req, 200, "text/plain", str_lit("ok\n"));
}

static void
on_ready(struct evhttp_request *req, void *arg)
{
	char why[256];
	enum metrics_ready r = ask_ready(arg, why, sizeof(why));
	struct buf out = { 0 };

	buf_printf(&out, "%s%s%s\n",
	    r == METRICS_READY      ? "ready"
	    : r == METRICS_DEGRADED ? "degraded"
				    : "not ready",
	    *why != '\0' ? ": " : "", why);
	answer(req, r == METRICS_NOT_READY ? 503 : 200, "text/plain",
	    buf_str(&out));
	buf_free(&out);
}

struct metrics_http *
metrics_http_start(struct loop *loop, const char *listen,
    metrics_ready_fn *ready, void *arg, struct err *err)
{
	struct metrics_http *h;
	struct err why = { 0 };
	/* Not evhttp_bind_socket(): it fails, and leaves errno 0, where the
	 * host has no address but loopback ones. */
	evutil_socket_t fd = net_bind(listen, false, &why);

	if (fd < 0) {
		err_set(err, why.code != 0 ? why.code : EINVAL,
		    "metrics.listen: %s", why.text);
		return NULL;
	}
	h = xcalloc(1, sizeof(*h));
	h->ready = ready;
	h->arg = arg;
	h->http = evhttp_new(loop_base(loop));
	BUG_ON(h->http == NULL);
	evhttp_set_allowed_methods(h->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
	evhttp_set_max_headers_size(h->http, 8192);
	evhttp_set_max_body_size(h->http, 0);
	evhttp_set_timeout(h->http, 10);
	(void)evhttp_set_cb(h->http, "/metrics", on_metrics, h);
	(void)evhttp_set_cb(h->http, "/healthz", on_health, h);
	(void)evhttp_set_cb(h->http, "/readyz", on_ready, h);
	/* It is the server's from here on. */
	BUG_ON(evhttp_accept_socket(h->http, fd) != 0);
	return h;
}

void
metrics_http_free(struct metrics_http *h)
{
	if (h == NULL)
		return;
	evhttp_free(h->http);
	free(h);
}
