/* SPDX-License-Identifier: ISC */
/*
 * dns.h - what posternctl asks name servers, one blocking question at a time:
 * those of deliver.resolver, else the system's. Answers are text, capped.
 */
#ifndef CTL_DNS_H
#define CTL_DNS_H

#include <stdbool.h>
#include <stddef.h>

struct conf;

#define DNS_ANSWERS 32
#define DNS_TEXT 1024

enum dns_type { DNS_A, DNS_AAAA, DNS_MX, DNS_TXT, DNS_PTR };

enum dns_status {
	DNS_FOUND,
	DNS_NONE, /* no such name, or nothing of that type */
	DNS_FAILED, /* no answer that counts */
};

struct dns_answer {
	size_t n;
	char text[DNS_ANSWERS][DNS_TEXT]; /* address, name, or joined strings */
	int preference[DNS_ANSWERS]; /* of MX */
};

enum dns_status dns_ask(const struct conf *conf, const char *name,
    enum dns_type type, struct dns_answer *out);
/* The name whose PTR records say who `address` is; false: no address. */
bool dns_reverse(char out[80], const char *address);

#endif
