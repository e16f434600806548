/* SPDX-License-Identifier: ISC */
/*
 * sts_fetch.c - one multi handle, an event for each of its sockets, a timer.
 */
#include "deliver/sts_fetch.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "deliver/sts_policy.h"
#include "net/peer.h"

#define HTTPS_PORT 443
#define HTTP_OK 200
#define PATH "/.well-known/mta-sts.txt"

struct sts_http {
	struct loop *loop;
	CURLM *multi;
	struct loop_timer *timer;
	const struct net_cidrs *allowed;
	const char *ca_file;
	LIST_HEAD(fetches, sts_fetch) all;
};

struct sts_fetch {
	LIST_ENTRY(sts_fetch) link;
	struct sts_http *http;
	CURL *easy;
	struct curl_slist *pinned;
	struct buf body;
	char why[CURL_ERROR_SIZE];
	sts_fetch_fn *done;
	void *arg;
};

static void
release(struct sts_fetch *f)
{
	LIST_REMOVE(f, link);
	curl_multi_remove_handle(f->http->multi, f->easy);
	curl_easy_cleanup(f->easy);
	curl_slist_free_all(f->pinned);
	buf_free(&f->body);
	free(f);
}

static const char *
verdict(const struct sts_fetch *f, CURLcode rc)
{
	const char *type = NULL;
	long status = 0;

	if (rc != CURLE_OK)
		return f->why[0] != '\0' ? f->why : curl_easy_strerror(rc);
	curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status != HTTP_OK)
		return "the policy host did not answer with 200";
	curl_easy_getinfo(f->easy, CURLINFO_CONTENT_TYPE, &type);
	if (type == NULL || strncasecmp(type, "text/plain", 10) != 0)
		return "the policy is not text/plain";
	return NULL;
}

/* Tell of all that has ended; a `done` may start or cancel others. */
static void
reap(struct sts_http *http)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(http->multi, &left)) != NULL) {
		struct sts_fetch *f = NULL;
		const char *why;
		struct str body;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &f);
		why = verdict(f, m->data.result);
		body = buf_str(&f->body);
		f->done(f->arg, why == NULL ? &body : NULL, why);
		release(f);
	}
}

static void
act(struct sts_http *http, curl_socket_t fd, int what)
{
	int running;

	(void)curl_multi_socket_action(http->multi, fd, what, &running);
	reap(http);
}

static void
on_ready(evutil_socket_t fd, short what, void *arg)
{
	act(arg, fd,
	    ((what & EV_READ) != 0 ? CURL_CSELECT_IN : 0) |
		((what & EV_WRITE) != 0 ? CURL_CSELECT_OUT : 0));
}

static void
on_time(void *arg)
{
	act(arg, CURL_SOCKET_TIMEOUT, 0);
}

static int
watch(CURL *easy, curl_socket_t fd, int what, void *arg, void *old)
{
	struct sts_http *http = arg;
	struct event *ev = old;
	short mask = EV_PERSIST;

	(void)easy;
	if (ev != NULL)
		event_free(ev);
	ev = NULL;
	if (what != CURL_POLL_REMOVE) {
		mask |= (what & CURL_POLL_IN) != 0 ? EV_READ : 0;
		mask |= (what & CURL_POLL_OUT) != 0 ? EV_WRITE : 0;
		ev = event_new(loop_base(http->loop), fd, mask, on_ready, http);
		BUG_ON(ev == NULL || event_add(ev, NULL) != 0);
	}
	(void)curl_multi_assign(http->multi, fd, ev);
	return 0;
}

static int
set_timer(CURLM *multi, long ms, void *arg)
{
	struct sts_http *http = arg;

	(void)multi;
	if (ms < 0)
		loop_timer_stop(http->timer);
	else
		loop_timer_set(http->timer, (uint64_t)ms);
	return 0;
}

struct sts_http *
sts_http_new(struct loop *loop, const struct net_cidrs *allowed)
{
	struct sts_http *http = xcalloc(1, sizeof(*http));

	http->loop = loop;
	http->allowed = allowed;
	http->ca_file = "";
	LIST_INIT(&http->all);
	BUG_ON(curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK);
	http->timer = loop_timer_new(loop, on_time, http);
	http->multi = curl_multi_init();
	BUG_ON(http->multi == NULL);
	curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, watch);
	curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
	curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
	return http;
}

void
sts_http_trust(struct sts_http *http, const char *ca_file)
{
	http->ca_file = ca_file;
}

void
sts_http_free(struct sts_http *http)
{
	struct sts_fetch *f;

	if (http == NULL)
		return;
	while ((f = LIST_FIRST(&http->all)) != NULL)
		release(f);
	curl_multi_cleanup(http->multi);
	loop_timer_free(http->timer);
	curl_global_cleanup();
	free(http);
}

static size_t
on_bytes(char *p, size_t size, size_t n, void *arg)
{
	struct sts_fetch *f = arg;

	(void)size; /* 1 */
	if (f->body.n + n > STS_POLICY_BYTES)
		return 0;
	buf_add_str(&f->body, (struct str){ p, n });
	return n;
}

static curl_socket_t
open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
	const struct sts_fetch *f = arg;
	struct net_peer peer;

	(void)purpose;
	if (to->family != AF_INET && to->family != AF_INET6)
		return CURL_SOCKET_BAD;
	net_peer_init(&peer, &to->addr);
	if (route_may_connect(&peer, f->http->allowed) != ROUTE_MAY)
		return CURL_SOCKET_BAD;
	return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* "+host:443:192.0.2.1,[2001:db8::1]": these and no others. */
static void
pin(struct sts_fetch *f, const char *host, const struct route_host *hosts,
    size_t n)
{
	struct buf b = { 0 };
	char text[INET6_ADDRSTRLEN];
	size_t i;

	buf_printf(&b, "+%s:%d:", host, HTTPS_PORT);
	for (i = 0; i < n; i++) {
		const struct sockaddr_in *v4 =
		    (const struct sockaddr_in *)&hosts[i].addr;
		const struct sockaddr_in6 *v6 =
		    (const struct sockaddr_in6 *)&hosts[i].addr;
		bool is_v6 = hosts[i].addr.ss_family == AF_INET6;

		(void)inet_ntop(hosts[i].addr.ss_family,
		    is_v6 ? (const void *)&v6->sin6_addr : &v4->sin_addr, text,
		    sizeof(text));
		buf_printf(
		    &b, is_v6 ? "%s[%s]" : "%s%s", i > 0 ? "," : "", text);
	}
	f->pinned = curl_slist_append(NULL, buf_cstr(&b));
	BUG_ON(f->pinned == NULL);
	buf_free(&b);
}

static void
set_options(struct sts_fetch *f, const char *url)
{
	CURL *e = f->easy;

	curl_easy_setopt(e, CURLOPT_URL, url);
	curl_easy_setopt(e, CURLOPT_PRIVATE, f);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, f->why);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "https");
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(e, CURLOPT_PROXY, "");
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_RESOLVE, f->pinned);
	curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, STS_CONNECT_MS);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, STS_FETCH_MS);
	curl_easy_setopt(e, CURLOPT_MAXFILESIZE, (long)STS_POLICY_BYTES);
	curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, f);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, f);
	if (f->http->ca_file[0] != '\0') {
		curl_easy_setopt(e, CURLOPT_CAINFO, f->http->ca_file);
		curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
	}
}

struct sts_fetch *
sts_fetch_start(struct sts_http *http, const char *host,
    const struct route_host *hosts, size_t n, sts_fetch_fn *done, void *arg)
{
	struct sts_fetch *f = xcalloc(1, sizeof(*f));
	struct buf url = { 0 };

	f->http = http;
	f->done = done;
	f->arg = arg;
	f->easy = curl_easy_init();
	BUG_ON(f->easy == NULL);
	LIST_INSERT_HEAD(&http->all, f, link);
	pin(f, host, hosts, n);
	buf_printf(&url, "https://%s" PATH, host);
	set_options(f, buf_cstr(&url));
	buf_free(&url);
	BUG_ON(curl_multi_add_handle(http->multi, f->easy) != CURLM_OK);
	return f;
}

void
sts_fetch_cancel(struct sts_fetch *f)
{
	if (f != NULL)
		release(f);
}
