/* SPDX-License-Identifier: ISC */
/*
 * proxy.c - "The PROXY protocol", sections 2.1 (a line of text, which is all
 * that nginx can say) and 2.2 (binary).
 */
#include "net/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/xalloc.h"
#include "net/peer.h"

#define HEAD 16
#define SHORTEST 12 /* less than any header has, of either form */
#define LINE_LEN 107 /* with CRLF, section 2.1 */
#define LENGTH_MAX 536 /* addresses and a few TLVs; more is no balancer */

static const unsigned char signature[12] = { 0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d,
	0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a };

struct net_proxy {
	struct event *read;
	evutil_socket_t fd;
	struct net_peer peer;
	net_proxy_fn *done;
	void *arg;
	int64_t deadline_ms; /* absolute: drops of bytes do not extend it */
	size_t have;
	unsigned char buf[HEAD + LENGTH_MAX];
};

static void on_read(evutil_socket_t fd, short what, void *arg);
static void wait_more(struct net_proxy *proxy);
static void finish(struct net_proxy *proxy, bool ok);
static void take_address(
    const unsigned char *p, size_t length, struct net_peer *peer);
static bool take_line(struct str line, struct net_peer *peer);

/* "PROXY TCP4 192.0.2.7 198.51.100.1 4711 587", CRLF. */
static enum net_proxy_result
parse_line(
    const unsigned char *p, size_t n, struct net_peer *peer, size_t *used)
{
	const unsigned char *lf =
	    memchr(p, '\n', n < LINE_LEN ? n : (size_t)LINE_LEN);

	if (lf == NULL && n >= LINE_LEN)
		return NET_PROXY_BAD;
	if (lf == NULL) {
		/* Not one byte of what follows the line may be taken. */
		*used =
		    n < SHORTEST ? SHORTEST : n + (p[n - 1] == '\r' ? 1 : 2);
		if (*used > LINE_LEN)
			*used = LINE_LEN;
		return NET_PROXY_MORE;
	}
	*used = (size_t)(lf - p) + 1;
	if (*used < SHORTEST || lf[-1] != '\r' ||
	    !take_line((struct str){ (const char *)p, *used - 2 }, peer))
		return NET_PROXY_BAD;
	return NET_PROXY_OK;
}

enum net_proxy_result
net_proxy_parse(
    const unsigned char *p, size_t n, struct net_peer *peer, size_t *used)
{
	size_t length, known = n < sizeof signature ? n : sizeof signature;

	*used = SHORTEST;
	if (n == 0)
		return NET_PROXY_MORE;
	if (memcmp(p, "PROXY ", n < 6 ? n : 6) == 0)
		return parse_line(p, n, peer, used);
	*used = HEAD;
	if (memcmp(p, signature, known) != 0)
		return NET_PROXY_BAD;
	if (n < HEAD)
		return NET_PROXY_MORE;
	length = (size_t)p[14] << 8 | p[15];
	if ((p[12] != 0x20 && p[12] != 0x21) || length > LENGTH_MAX)
		return NET_PROXY_BAD;
	*used = HEAD + length;
	if (n < *used)
		return NET_PROXY_MORE;
	if (p[12] == 0x21) /* PROXY; LOCAL is the balancer's own check */
		take_address(p, length, peer);
	return NET_PROXY_OK;
}

struct net_proxy *
net_proxy_start(struct event_base *base, evutil_socket_t fd,
    const struct net_peer *peer, unsigned timeout_ms, net_proxy_fn *done,
    void *arg)
{
	struct net_proxy *proxy = xcalloc(1, sizeof *proxy);

	proxy->fd = fd;
	proxy->deadline_ms = clock_mono_ms() + timeout_ms;
	proxy->peer = *peer;
	proxy->done = done;
	proxy->arg = arg;
	proxy->read = event_new(base, fd, EV_READ, on_read, proxy);
	BUG_ON(proxy->read == NULL);
	wait_more(proxy);
	return proxy;
}

void
net_proxy_cancel(struct net_proxy *proxy)
{
	if (proxy == NULL)
		return;
	event_free(proxy->read);
	evutil_closesocket(proxy->fd);
	free(proxy);
}

static void
on_read(evutil_socket_t fd, short what, void *arg)
{
	struct net_proxy *proxy = arg;
	enum net_proxy_result result = NET_PROXY_BAD;
	size_t want = SHORTEST;
	ssize_t n;

	if ((what & EV_TIMEOUT) != 0) {
		finish(proxy, false);
		return;
	}
	for (;;) {
		result = net_proxy_parse(
		    proxy->buf, proxy->have, &proxy->peer, &want);
		if (result != NET_PROXY_MORE)
			break;
		n = recv(fd, proxy->buf + proxy->have, want - proxy->have, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			wait_more(proxy);
			return;
		}
		if (n <= 0) {
			result = NET_PROXY_BAD;
			break;
		}
		proxy->have += (size_t)n;
	}
	finish(proxy, result == NET_PROXY_OK);
}

static void
wait_more(struct net_proxy *proxy)
{
	int64_t left = proxy->deadline_ms - clock_mono_ms();
	struct timeval tv = { 0, 0 };

	if (left > 0) {
		tv.tv_sec = left / 1000;
		tv.tv_usec = left % 1000 * 1000;
	}
	event_add(proxy->read, &tv);
}

static void
finish(struct net_proxy *proxy, bool ok)
{
	net_proxy_fn *done = proxy->done;
	void *arg = proxy->arg;
	struct net_peer peer = proxy->peer;
	evutil_socket_t fd = proxy->fd;

	event_free(proxy->read);
	free(proxy);
	if (!ok) {
		evutil_closesocket(fd);
		fd = -1;
	}
	done(arg, fd, &peer);
}

static void
take_address(const unsigned char *p, size_t length, struct net_peer *peer)
{
	struct sockaddr_in in4 = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

	if (p[13] == 0x11 && length >= 12) {
		memcpy(&in4.sin_addr, p + HEAD, 4);
		memcpy(&in4.sin_port, p + HEAD + 8, 2);
		net_peer_init(peer, (struct sockaddr *)&in4);
	} else if (p[13] == 0x21 && length >= 36) {
		memcpy(&in6.sin6_addr, p + HEAD, 16);
		memcpy(&in6.sin6_port, p + HEAD + 32, 2);
		net_peer_init(peer, (struct sockaddr *)&in6);
	}
}

static bool
take_line(struct str line, struct net_peer *peer)
{
	struct sockaddr_in in4 = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct str kind, from;
	unsigned long long port;
	char address[INET6_ADDRSTRLEN];

	(void)str_split(&line, ' ');
	kind = str_split(&line, ' ');
	if (str_eq(kind, str_lit("UNKNOWN")))
		return true; /* the balancer's own, as LOCAL is */
	from = str_split(&line, ' ');
	(void)str_split(&line, ' ');
	if (from.n >= sizeof address ||
	    !str_to_u64(str_split(&line, ' '), 65535, &port) || line.n == 0)
		return false;
	memcpy(address, from.p, from.n);
	address[from.n] = '\0';
	in4.sin_port = in6.sin6_port = htons((uint16_t)port);
	if (str_eq(kind, str_lit("TCP4")) &&
	    inet_pton(AF_INET, address, &in4.sin_addr) == 1)
		net_peer_init(peer, (struct sockaddr *)&in4);
	else if (str_eq(kind, str_lit("TCP6")) &&
		 inet_pton(AF_INET6, address, &in6.sin6_addr) == 1)
		net_peer_init(peer, (struct sockaddr *)&in6);
	else
		return false;
	return true;
}
