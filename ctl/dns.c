/* SPDX-License-Identifier: ISC */
#include "ctl/dns.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/xalloc.h"

#define ANSWER_BYTES 65535

static const int types[] = {
	[DNS_A] = ns_t_a,
	[DNS_AAAA] = ns_t_aaaa,
	[DNS_MX] = ns_t_mx,
	[DNS_TXT] = ns_t_txt,
	[DNS_PTR] = ns_t_ptr,
};

/* The first IPv4 server of "address[:port]", ...; IPv6 ones are the system's.
 */
static void
use_servers(struct __res_state *r, const struct conf_list *servers)
{
	size_t i;
	int n = 0;

	for (i = 0; i < servers->n && n < MAXNS; i++) {
		char text[64];
		const char *colon = strrchr(servers->v[i], ':');
		struct sockaddr_in sa = { .sin_family = AF_INET };
		unsigned long port = NS_DEFAULTPORT;

		(void)snprintf(text, sizeof(text), "%s", servers->v[i]);
		if (colon != NULL && strchr(servers->v[i], ':') == colon) {
			text[colon - servers->v[i]] = '\0';
			port = strtoul(colon + 1, NULL, 10);
		}
		sa.sin_port = htons((unsigned short)port);
		if (inet_pton(AF_INET, text, &sa.sin_addr) == 1)
			r->nsaddr_list[n++] = sa;
	}
	if (n > 0)
		r->nscount = n;
}

static bool
keep_text(struct dns_answer *out, ns_rr rr)
{
	const unsigned char *p = ns_rr_rdata(rr);
	size_t left = ns_rr_rdlen(rr), at = 0, i;
	char *to = out->text[out->n];

	while (left > 0) {
		size_t n = p[0];

		if (n + 1 > left || at + n >= DNS_TEXT)
			return false;
		memcpy(to + at, p + 1, n);
		at += n;
		p += n + 1;
		left -= n + 1;
	}
	to[at] = '\0';
	/* Strangers' words: what we look for in them is ASCII. */
	for (i = 0; i < at; i++)
		if ((unsigned char)to[i] < 0x20 || (unsigned char)to[i] >= 0x7f)
			to[i] = '?';
	return true;
}

static bool
keep(struct dns_answer *out, enum dns_type type, ns_msg msg, ns_rr rr)
{
	const unsigned char *p = ns_rr_rdata(rr);
	size_t n = ns_rr_rdlen(rr);
	char *to = out->text[out->n];

	switch (type) {
	case DNS_A:
		return n == 4 && inet_ntop(AF_INET, p, to, DNS_TEXT) != NULL;
	case DNS_AAAA:
		return n == 16 && inet_ntop(AF_INET6, p, to, DNS_TEXT) != NULL;
	case DNS_TXT:
		return keep_text(out, rr);
	case DNS_MX:
		if (n < 3)
			return false;
		out->preference[out->n] = ns_get16(p);
		p += 2;
		break;
	case DNS_PTR:
		break;
	}
	return dn_expand(ns_msg_base(msg), ns_msg_end(msg), p, to, DNS_TEXT) >=
	       0;
}

static enum dns_status
read_answer(struct dns_answer *out, enum dns_type type,
    const unsigned char *answer, int n)
{
	ns_msg msg;
	ns_rr rr;
	int i;

	if (ns_initparse(answer, n, &msg) != 0)
		return DNS_FAILED;
	for (i = 0; i < ns_msg_count(msg, ns_s_an); i++) {
		if (out->n == DNS_ANSWERS ||
		    ns_parserr(&msg, ns_s_an, i, &rr) != 0)
			break;
		if (ns_rr_type(rr) == (ns_type)types[type] &&
		    keep(out, type, msg, rr))
			out->n++;
	}
	return out->n > 0 ? DNS_FOUND : DNS_NONE;
}

enum dns_status
dns_ask(const struct conf *conf, const char *name, enum dns_type type,
    struct dns_answer *out)
{
	struct __res_state r = { 0 };
	unsigned char *answer;
	enum dns_status st;
	int n;

	*out = (struct dns_answer){ 0 };
	if (res_ninit(&r) != 0)
		return DNS_FAILED;
	use_servers(&r, &conf->deliver_resolver);
	answer = xmalloc(ANSWER_BYTES);
	n = res_nquery(&r, name, ns_c_in, types[type], answer, ANSWER_BYTES);
	if (n < 0)
		st = r.res_h_errno == HOST_NOT_FOUND || r.res_h_errno == NO_DATA
			 ? DNS_NONE
			 : DNS_FAILED;
	else
		st = read_answer(
		    out, type, answer, n > ANSWER_BYTES ? ANSWER_BYTES : n);
	free(answer);
	res_nclose(&r);
	return st;
}

bool
dns_reverse(char out[80], const char *address)
{
	unsigned char b[16];
	size_t at = 0;
	int i;

	if (inet_pton(AF_INET, address, b) == 1) {
		(void)snprintf(out, 80, "%d.%d.%d.%d.in-addr.arpa", b[3], b[2],
		    b[1], b[0]);
		return true;
	}
	if (inet_pton(AF_INET6, address, b) != 1)
		return false;
	for (i = 15; i >= 0; i--)
		at += (size_t)snprintf(
		    out + at, 80 - at, "%x.%x.", b[i] & 15, b[i] >> 4);
	(void)snprintf(out + at, 80 - at, "ip6.arpa");
	return true;
}
