/* SPDX-License-Identifier: ISC */
/* The page of metrics.h: three fixed answers on a local address. */
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

static bool
split_listen(const char *listen, char *host, size_t size, uint16_t *port)
{
	const char *colon = strrchr(listen, ':');
	unsigned long long v;
	size_t n;

	if (colon == NULL || !str_to_u64(str_of(colon + 1), 65535, &v))
		return false;
	n = (size_t)(colon - listen);
	if (n >= 2 && listen[0] == '[' && listen[n - 1] == ']') {
		listen++;
		n -= 2;
	}
	if (n == 0 || n >= size)
		return false;
	memcpy(host, listen, n);
	host[n] = '\0';
	*port = (uint16_t)v;
	return true;
}

struct metrics_http *
metrics_http_start(struct loop *loop, const char *listen,
    metrics_ready_fn *ready, void *arg, struct err *err)
{
	struct metrics_http *h;
	char host[128];
	uint16_t port;

	if (!split_listen(listen, host, sizeof(host), &port)) {
		err_set(err, EINVAL, "metrics.listen: '%.64s' is not host:port",
		    listen);
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
	if (evhttp_bind_socket(h->http, host, port) != 0) {
		err_set(err, errno, "metrics.listen: %s: %s", listen,
		    strerror(errno));
		metrics_http_free(h);
		return NULL;
	}
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
