/* SPDX-License-Identifier: ISC */
/*
 * httpd.c - the HTTP server with handlers that tests want: slow, streaming,
 * pausing, authorized. Prints "port N" and serves until standard input ends.
 *
 * Arguments: name=number for the fields of http_conf, cert=FILE, key=FILE.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <openssl/evp.h>

#include "base/codec.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "http/server.h"
#include "net/listen.h"
#include "net/tls.h"

static struct event_base *base;
static struct http_server *server;
static unsigned canceled, finished;

/* A request that waits for a timer. */
struct wait {
	struct http_request *req;
	struct event *timer;
};

static void
wait_free(struct wait *w)
{
	event_free(w->timer);
	free(w);
}

static void
on_wait_cancel(void *arg)
{
	canceled++;
	wait_free(arg);
}

static void
start_wait(struct http_request *req, event_callback_fn fn)
{
	const char *ms = http_request_query(req, "ms");
	long n = ms != NULL ? strtol(ms, NULL, 10) : 100;
	struct timeval tv = { n / 1000, n % 1000 * 1000 };
	struct wait *w = xcalloc(1, sizeof(*w));

	w->req = req;
	w->timer = evtimer_new(base, fn, w);
	evtimer_add(w->timer, &tv);
	http_request_on_cancel(req, on_wait_cancel, w);
}

static void
hello(struct http_request *req)
{
	http_reply_json(req, 200, json_pack("{s:s}", "hello", "world"));
}

static void
item(struct http_request *req)
{
	const char *q = http_request_query(req, "q");

	http_reply_json(req, 200,
	    json_pack(
		"{s:s, s:s?}", "id", http_request_param(req, "id"), "q", q));
}

static void
echo(struct http_request *req)
{
	size_t n;
	const char *body = http_request_body(req, &n);

	http_reply_bytes(req, 200, "application/octet-stream", body, n);
}

static void
form(struct http_request *req)
{
	const char *a = http_request_field(req, "a", 0);
	const char *b = http_request_field(req, "a", 1);

	http_reply_json(
	    req, 200, json_pack("{s:s?, s:s?}", "a", a, "second", b));
}

static void
on_slow_done(evutil_socket_t fd, short what, void *arg)
{
	struct wait *w = arg;

	(void)fd;
	(void)what;
	finished++;
	hello(w->req);
	wait_free(w);
}

static void
slow(struct http_request *req)
{
	start_wait(req, on_slow_done);
}

/* Like slow, but cannot be canceled: its late reply goes nowhere. */
static void
stubborn(struct http_request *req)
{
	start_wait(req, on_slow_done);
	http_request_on_cancel(req, NULL, NULL);
}

static void
counters(struct http_request *req)
{
	http_reply_json(req, 200,
	    json_pack("{s:i, s:i, s:i}", "canceled", (int)canceled, "finished",
		(int)finished, "connections",
		(int)http_server_connections(server)));
}

/* Streamed upload: SHA-256 of it; ?ms=N pauses that long every MiB. */
struct upload {
	struct http_request *req;
	EVP_MD_CTX *md;
	size_t n, next_pause;
	long ms;
	struct event *timer;
};

static void
upload_free(struct upload *u)
{
	EVP_MD_CTX_free(u->md);
	event_free(u->timer);
	free(u);
}

static void
on_upload_cancel(void *arg)
{
	canceled++;
	upload_free(arg);
}

static void
on_upload_go_on(evutil_socket_t fd, short what, void *arg)
{
	struct upload *u = arg;

	(void)fd;
	(void)what;
	http_request_resume(u->req);
}

static void
upload_end(struct upload *u)
{
	unsigned char sum[32];
	char hex[65];

	EVP_DigestFinal_ex(u->md, sum, NULL);
	hex_encode(hex, sum, sizeof(sum));
	http_reply_json(u->req, 200,
	    json_pack("{s:s, s:I}", "sha256", hex, "size", (json_int_t)u->n));
	upload_free(u);
}

static void
on_upload(struct http_request *req, const void *p, size_t n, bool last)
{
	struct upload *u = http_request_mine(req);
	struct timeval tv = { u->ms / 1000, u->ms % 1000 * 1000 };

	EVP_DigestUpdate(u->md, p, n);
	u->n += n;
	if (last) {
		upload_end(u);
	} else if (u->ms > 0 && u->n >= u->next_pause) {
		u->next_pause += 1 << 20;
		http_request_pause(req);
		evtimer_add(u->timer, &tv);
	}
}

static void
upload(struct http_request *req)
{
	struct upload *u;
	const char *ms = http_request_query(req, "ms");

	if (http_request_query(req, "refuse") != NULL) {
		http_fail(req, E_UNSUPPORTED_MEDIA_TYPE, "not this");
		return;
	}
	u = xcalloc(1, sizeof(*u));
	u->req = req;
	u->md = EVP_MD_CTX_new();
	EVP_DigestInit_ex(u->md, EVP_sha256(), NULL);
	u->ms = ms != NULL ? strtol(ms, NULL, 10) : 0;
	u->timer = evtimer_new(base, on_upload_go_on, u);
	http_request_keep(req, u, NULL);
	http_request_on_cancel(req, on_upload_cancel, u);
	http_request_stream(req, 50 << 20, on_upload);
}

/* An early handler that asks for the body whole. */
static void
late_echo(struct http_request *req)
{
	http_request_read(req, 1 << 20, echo);
}

/* Streamed reply of ?n= bytes; ?chunked= leaves the length out. */
struct download {
	struct http_stream *stream;
	size_t left;
};

static void
download_go_on(void *arg)
{
	static const char piece[16384];
	struct download *d = arg;
	size_t n;

	while (d->left > 0) {
		n = d->left < sizeof(piece) ? d->left : sizeof(piece);
		d->left -= n;
		if (!http_stream_write(d->stream, piece, n) && d->left > 0)
			return;
	}
	http_stream_end(d->stream, true);
	free(d);
}

static void
download_gone(void *arg)
{
	canceled++;
	free(arg);
}

static const struct http_stream_fns download_fns = {
	.drained = download_go_on,
	.gone = download_gone,
};

static void
download(struct http_request *req)
{
	const char *n = http_request_query(req, "n");
	struct download *d = xcalloc(1, sizeof(*d));
	bool chunked = http_request_query(req, "chunked") != NULL;

	d->left = n != NULL ? strtoul(n, NULL, 10) : 0;
	d->stream = http_reply_stream(req, 200, "application/octet-stream",
	    chunked ? -1 : (long long)d->left, &download_fns, d);
	download_go_on(d);
}

/* Tries to split the reply. */
static void
split(struct http_request *req)
{
	http_reply_header(req, "X-Given", http_request_query(req, "v"));
	http_reply_empty(req, 204);
}

static void
authorize(struct http_request *req, int principal)
{
	const char *h = http_request_header(req, "authorization");

	if (principal == 1 && h != NULL && strcmp(h, "Bearer good") == 0)
		http_request_allow(req, NULL, NULL);
	else
		http_fail(req, E_MISSING_AUTHORIZATION, "no key");
}

static const struct http_route routes[] = {
	{ "GET", "/hello", "hello", 0, 0, false, hello },
	{ "GET", "/items/{id}", "item", 0, 0, false, item },
	{ "DELETE", "/items/{id}", "item_delete", 0, 0, false, item },
	{ "GET", "/counters", "counters", 0, 0, false, counters },
	{ "POST", "/echo", "echo", 0, 65536, false, echo },
	{ "POST", "/late", "late", 0, 0, true, late_echo },
	{ "POST", "/form", "form", 0, 65536, false, form },
	{ "GET", "/slow", "slow", 0, 0, false, slow },
	{ "GET", "/stubborn", "stubborn", 0, 0, false, stubborn },
	{ "POST", "/upload", "upload", 0, 0, true, upload },
	{ "GET", "/download", "download", 0, 0, false, download },
	{ "GET", "/split", "split", 0, 0, false, split },
	{ "POST", "/secret", "secret", 1, 1024, false, echo },
};

struct options {
	struct http_conf conf;
	const char *cert, *key;
};

static bool
set_option(struct options *o, const char *arg)
{
	const struct {
		const char *name;
		unsigned *v;
	} numbers[] = {
		{ "connections_max=", &o->conf.connections_max },
		{ "head_ms=", &o->conf.head_ms },
		{ "idle_ms=", &o->conf.idle_ms },
		{ "body_ms=", &o->conf.body_ms },
		{ "handler_ms=", &o->conf.handler_ms },
		{ "write_ms=", &o->conf.write_ms },
		{ "requests_max=", &o->conf.requests_max },
	};
	size_t i, n;

	if (strncmp(arg, "cert=", 5) == 0) {
		o->cert = arg + 5;
		return true;
	}
	if (strncmp(arg, "key=", 4) == 0) {
		o->key = arg + 4;
		return true;
	}
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		n = strlen(numbers[i].name);
		if (strncmp(arg, numbers[i].name, n) == 0) {
			*numbers[i].v = (unsigned)strtoul(arg + n, NULL, 10);
			return true;
		}
	}
	return false;
}

static void
on_drained(void *arg)
{
	(void)arg;
	event_base_loopbreak(base);
}

static void
on_stdin(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	event_del(arg);
	http_server_drain(server, on_drained, NULL);
}

static int
die(const char *why)
{
	fprintf(stderr, "httpd: %s\n", why);
	return 1;
}

static void
serve(evutil_socket_t fd)
{
	char name[80];
	struct event *in;

	net_bound_name(fd, name, sizeof(name));
	http_server_listen(server, fd);
	in = event_new(base, 0, EV_READ, on_stdin, event_self_cbarg());
	event_add(in, NULL);
	printf("port %s\n", strrchr(name, ':') + 1);
	fflush(stdout);
	event_base_dispatch(base);
	event_free(in);
}

int
main(int argc, char **argv)
{
	struct options o = { .conf = { .name = "api",
				 .routes = routes,
				 .authorize = authorize } };
	struct net_tls_keys keys;
	struct err err = { 0 };
	evutil_socket_t fd;
	int i;

	for (i = 1; i < argc; i++)
		if (!set_option(&o, argv[i]))
			return die("unknown option");
	o.conf.routes_n = sizeof(routes) / sizeof(routes[0]);
	log_init("httpd", LOG_LEVEL_INFO);
	signal(SIGPIPE, SIG_IGN);
	base = event_base_new();
	net_tls_keys_make(&keys);
	if (o.cert != NULL) {
		o.conf.tls = net_tls_server_new(
		    &(struct net_tls_files){ o.cert, o.key, NULL }, "test",
		    &keys, &err);
		if (o.conf.tls == NULL)
			return die(err.text);
	}
	fd = net_bind("127.0.0.1:0", false, &err);
	if (fd < 0)
		return die(err.text);
	server = http_server_new(base, &o.conf);
	serve(fd);
	http_server_free(server);
	net_tls_free(o.conf.tls);
	event_base_free(base);
	return 0;
}
