/* SPDX-License-Identifier: ISC */
/*
 * peer.c - addresses as 16 bytes, so that comparing them is comparing bytes.
 */
#include "net/peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff,
	0xff };

static bool parse_ip(const char *text, unsigned char ip[16], bool *is_v4);
static bool parse_cidr(struct net_cidrs *cidrs, char *word);

void
net_peer_init(struct net_peer *peer, const struct sockaddr *addr)
{
	struct sockaddr_in in4;
	struct sockaddr_in6 in6;

	memset(peer, 0, sizeof *peer);
	if (addr != NULL && addr->sa_family == AF_INET) {
		memcpy(&in4, addr, sizeof in4);
		memcpy(peer->ip, mapped, sizeof mapped);
		memcpy(peer->ip + 12, &in4.sin_addr, 4);
		peer->port = ntohs(in4.sin_port);
	} else if (addr != NULL && addr->sa_family == AF_INET6) {
		memcpy(&in6, addr, sizeof in6);
		memcpy(peer->ip, &in6.sin6_addr, 16);
		peer->port = ntohs(in6.sin6_port);
	}
	if (net_peer_is_v4(peer))
		inet_ntop(
		    AF_INET, peer->ip + 12, peer->text, sizeof peer->text);
	else
		inet_ntop(AF_INET6, peer->ip, peer->text, sizeof peer->text);
}

bool
net_peer_is_v4(const struct net_peer *peer)
{
	return memcmp(peer->ip, mapped, sizeof mapped) == 0;
}

bool
net_peer_is_local(const struct net_peer *peer)
{
	static const unsigned char zero[15];

	if (net_peer_is_v4(peer))
		return peer->ip[12] == 127;
	return memcmp(peer->ip, zero, sizeof zero) == 0 && peer->ip[15] <= 1;
}

void
net_peer_group(const struct net_peer *peer, unsigned char group[16])
{
	memcpy(group, peer->ip, 16);
	if (!net_peer_is_v4(peer))
		memset(group + 8, 0, 8);
}

bool
net_cidrs_add(struct net_cidrs *cidrs, const char *text, struct err *err)
{
	char copy[1024], *save = NULL, *word;

	if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy) {
		err_set(err, 0, "list of networks is too long");
		return false;
	}
	for (word = strtok_r(copy, ", \t", &save); word != NULL;
	     word = strtok_r(NULL, ", \t", &save)) {
		if (parse_cidr(cidrs, word))
			continue;
		err_set(err, 0,
		    "\"%s\" is not a network (or one of more "
		    "than 32)",
		    word);
		return false;
	}
	return true;
}

bool
net_cidrs_has(const struct net_cidrs *cidrs, const struct net_peer *peer)
{
	unsigned i, whole, rest;
	unsigned char mask;

	for (i = 0; i < cidrs->n; i++) {
		whole = cidrs->item[i].bits / 8;
		rest = cidrs->item[i].bits % 8;
		if (memcmp(cidrs->item[i].ip, peer->ip, whole) != 0)
			continue;
		mask = (unsigned char)(0xff00U >> rest);
		if (rest == 0 ||
		    ((cidrs->item[i].ip[whole] ^ peer->ip[whole]) & mask) == 0)
			return true;
	}
	return false;
}

static bool
parse_ip(const char *text, unsigned char ip[16], bool *is_v4)
{
	*is_v4 = inet_pton(AF_INET, text, ip + 12) == 1;
	if (*is_v4)
		memcpy(ip, mapped, sizeof mapped);
	return *is_v4 || inet_pton(AF_INET6, text, ip) == 1;
}

static bool
parse_cidr(struct net_cidrs *cidrs, char *word)
{
	char *slash = strchr(word, '/'), *end;
	bool is_v4;
	unsigned long bits;
	unsigned max;

	if (cidrs->n == NET_CIDRS_MAX)
		return false;
	if (slash != NULL)
		*slash = '\0';
	if (!parse_ip(word, cidrs->item[cidrs->n].ip, &is_v4))
		return false;
	max = is_v4 ? 32 : 128;
	bits = max;
	if (slash != NULL) {
		if (slash[1] < '0' || slash[1] > '9')
			return false;
		bits = strtoul(slash + 1, &end, 10);
		if (*end != '\0' || bits > max)
			return false;
	}
	cidrs->item[cidrs->n].bits = (unsigned)bits + (is_v4 ? 96 : 0);
	cidrs->n++;
	return true;
}
