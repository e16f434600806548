/* SPDX-License-Identifier: ISC */
/*
 * peer.h - who is at the other end, and sets of networks.
 */
#ifndef NET_PEER_H
#define NET_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include <netinet/in.h>
#include <sys/socket.h>

struct err;

/* An IP address; IPv4 is kept as ::ffff:a.b.c.d, so there is one form. */
struct net_peer {
	unsigned char ip[16];
	uint16_t port;
	char text[INET6_ADDRSTRLEN]; /* without the port */
};

#define NET_CIDRS_MAX 32

/* A small set of networks; empty contains nothing. */
struct net_cidrs {
	unsigned n;
	struct {
		unsigned char ip[16];
		unsigned bits; /* of 128 */
	} item[NET_CIDRS_MAX];
};

/* Unix sockets and unknown families become ::, port 0. */
void net_peer_init(struct net_peer *peer, const struct sockaddr *addr);

/* Is it an IPv4 address? */
bool net_peer_is_v4(const struct net_peer *peer);

/* Of this host itself: 127.0.0.0/8, ::1, or no address at all. */
bool net_peer_is_local(const struct net_peer *peer);

/* What one counter counts: the IPv4 address or the IPv6 /64. */
void net_peer_group(const struct net_peer *peer, unsigned char group[16]);

/*
 * Add "10.0.0.0/8, ::1, 192.0.2.7" (spaces or commas between) to a set that
 * started as {0}. False and `err` when a word is no network.
 */
bool net_cidrs_add(struct net_cidrs *cidrs, const char *text, struct err *err);
bool net_cidrs_has(const struct net_cidrs *cidrs, const struct net_peer *peer);

#endif
