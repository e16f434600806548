/* SPDX-License-Identifier: ISC */
/*
 * route_filter.c - addresses mail is never relayed to by a domain's choice.
 *
 * The IANA special-purpose registries (RFC 6890), multicast, and IPv6 forms
 * that carry an IPv4 address, which are unwrapped and judged as that address.
 */
#include <string.h>

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

bool
route_may_connect(const struct net_peer *peer, const struct net_cidrs *allowed)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (net_cidrs_has(allowed, peer))
		return true;
	if (memcmp(peer->ip, mapped, sizeof(mapped)) == 0)
		return !in_any(
		    peer->ip, blocks, sizeof(blocks) / sizeof(blocks[0]));
	return (peer->ip[0] & 0xe0) == 0x20 &&
	       !in_any(peer->ip, blocks6, sizeof(blocks6) / sizeof(blocks6[0]));
}
