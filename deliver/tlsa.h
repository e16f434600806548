/* SPDX-License-Identifier: ISC */
/*
 * tlsa.h - what a mail host's certificate must be, by DANE (RFC 7672).
 *
 * Asked only for a host whose address records are authentic, so that a zone
 * without DNSSEC, whose servers may not know the type, costs no mail.
 */
#ifndef DELIVER_TLSA_H
#define DELIVER_TLSA_H

#include <stddef.h>

#include "net/tls.h"

struct resolver;
struct tlsa;

#define TLSA_MAX 16 /* records of one host that are looked at */
#define TLSA_NAME_MAX 255

enum tlsa_status {
	TLSA_NONE, /* the host has none, or none that can be believed */
	TLSA_USABLE, /* one of the records must match */
	TLSA_UNUSABLE, /* it promises TLS, in ways we do not know */
	TLSA_LATER, /* nobody could say: not to be connected to now */
};

struct tlsa_found {
	enum tlsa_status status;
	char base[TLSA_NAME_MAX + 1]; /* the name for SNI and certificate */
	struct net_tlsa v[TLSA_MAX];
	size_t n;
	unsigned char *packet; /* what `v` points into */
};

typedef void tlsa_fn(void *arg, const struct tlsa_found *found);

/* `done` comes once, later, unless cancelled; its argument is gone after. */
struct tlsa *tlsa_find(
    struct resolver *r, const char *host, tlsa_fn *done, void *arg);
/* NULL is fine. */
void tlsa_cancel(struct tlsa *t);

/* A copy that outlives the callback. */
void tlsa_copy(struct tlsa_found *to, const struct tlsa_found *from);
void tlsa_clear(struct tlsa_found *found);

/* Usable records of an answer; false: it holds no TLSA record at all. */
bool tlsa_parse(struct tlsa_found *found, const unsigned char *p, int n);

#endif
