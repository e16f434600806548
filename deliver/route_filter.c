/* SPDX-License-Identifier: ISC */
/*
 * route_filter.c - addresses mail is never relayed to by a domain's choice.
 *
 * This host's own, where a peer may be trusted for where it comes from.
 * The IANA special-purpose registries (RFC 6890), multicast, and IPv6 forms
 * that carry an IPv4 address, which are unwrapped and judged as that address.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deliver/route.h"
#include "net/peer.h"

struct block {
	unsigned char ip[16];
	unsigned bits;
};

#define V4(a, b, c, bits)                                                      \
	{                                                                      \
		{ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, 0 },      \
		    96 + (bits)                                                \
	}

static const struct block blocks[] = {
	V4(0, 0, 0, 8), V4(10, 0, 0, 8), V4(100, 64, 0, 10), V4(127, 0, 0, 8),
	V4(169, 254, 0, 16), V4(172, 16, 0, 12), V4(192, 0, 0, 24),
	V4(192, 0, 2, 24), V4(192, 88, 99, 24), V4(192, 168, 0, 16),
	V4(198, 18, 0, 15), V4(198, 51, 100, 24), V4(203, 0, 113, 24),
	V4(224, 0, 0, 3), /* multicast and 240/4 */
};

/* Outside 2000::/3 nothing is global unicast; inside, these are not. */
static const struct block blocks6[] = {
	{ { 0x20, 0x01, 0x00 }, 23 }, /* IETF, Teredo among them */
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32 }, { { 0x20, 0x02 }, 16 }, /* 6to4 */
	{ { 0x3f, 0xff }, 20 }, /* documentation */
};

static bool
has_prefix(const unsigned char *ip, const struct block *b)
{
	unsigned whole = b->bits / 8, rest = b->bits % 8;

	if (memcmp(ip, b->ip, whole) != 0)
		return false;
	return rest == 0 || ((ip[whole] ^ b->ip[whole]) >> (8 - rest)) == 0;
}

static bool
in_any(const unsigned char *ip, const struct block *v, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (has_prefix(ip, &v[i]))
			return true;
	}
	return false;
}

/*
 * Is this our own address, which nobody may name? Who connects there has it,
 * too: the kernel is asked which one it would give us. Nothing is sent for
 * that.
 */
static enum route_may
unless_here(const struct net_peer *peer)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6,
		.sin6_port = htons(25) };
	struct sockaddr_in to4 = { .sin_family = AF_INET,
		.sin_port = htons(25) };
	bool is_v4 = net_peer_is_v4(peer);
	struct sockaddr *sa =
	    is_v4 ? (struct sockaddr *)&to4 : (struct sockaddr *)&to;
	socklen_t len = is_v4 ? sizeof(to4) : sizeof(to);
	struct net_peer ours;
	bool same;
	int fd;

	memcpy(&to.sin6_addr, peer->ip, 16);
	memcpy(&to4.sin_addr, peer->ip + 12, 4);
	fd = socket(sa->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd == -1) /* no address of a family that the kernel lacks is ours */
		return errno == EAFNOSUPPORT ? ROUTE_MAY : ROUTE_MAY_UNKNOWN;
	same = connect(fd, sa, len) == 0 && getsockname(fd, sa, &len) == 0;
	(void)close(fd);
	if (!same)
		return ROUTE_MAY;
	net_peer_init(&ours, sa);
	return memcmp(ours.ip, peer->ip, sizeof(ours.ip)) == 0 ? ROUTE_MAY_NOT
							       : ROUTE_MAY;
}

enum route_may
route_may_connect(const struct net_peer *peer, const struct net_cidrs *allowed)
{
	bool is_public;

	if (net_cidrs_has(allowed, peer))
		return ROUTE_MAY;
	if (net_peer_is_v4(peer))
		is_public = !in_any(
		    peer->ip, blocks, sizeof(blocks) / sizeof(blocks[0]));
	else
		is_public = (peer->ip[0] & 0xe0) == 0x20 &&
			    !in_any(peer->ip, blocks6,
				sizeof(blocks6) / sizeof(blocks6[0]));
	return is_public ? unless_here(peer) : ROUTE_MAY_NOT;
}
