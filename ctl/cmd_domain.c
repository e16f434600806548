/* SPDX-License-Identifier: ISC */
/*
 * domain check: what a receiver of the domain's mail will find in DNS. It
 * looks and advises; nothing is stored.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/xalloc.h"
#include "ctl/ctl.h"
#include "ctl/dns.h"

struct look {
	struct ctl *ctl;
	const char *domain;
	json_t *rows;
	bool failed;
	struct dns_answer a, b;
};

/* `level`: ok, warn or fail. */
static void
say(struct look *l, const char *what, const char *level, const char *found,
    const char *advice)
{
	json_t *row = json_pack("{s:s,s:s,s:s?,s:s?}", "what", what, "level",
	    level, "found", found, "advice", advice);

	BUG_ON(row == NULL);
	(void)json_array_append_new(l->rows, row);
	l->failed |= strcmp(level, "fail") == 0;
}

static void
look_mx(struct look *l)
{
	switch (dns_ask(l->ctl->conf, l->domain, DNS_MX, &l->a)) {
	case DNS_FOUND:
		if (l->a.text[0][0] == '\0' || strcmp(l->a.text[0], ".") == 0)
			say(l, "mx", "warn", "0 .",
			    "the domain takes no mail, so no replies and no "
			    "bounces; some receivers refuse such senders");
		else
			say(l, "mx", "ok", l->a.text[0], NULL);
		return;
	case DNS_NONE:
		say(l, "mx", "warn", NULL,
		    "no MX: replies and bounces find no way back");
		return;
	case DNS_FAILED:
		break;
	}
	say(l, "mx", "fail", NULL, "the name servers did not answer");
}

/* Records of `name` that begin with `version`: how many; the first is kept. */
static int
versioned(
    struct look *l, const char *name, const char *version, const char **first)
{
	size_t i, n = strlen(version);
	int count = 0;

	*first = NULL;
	if (dns_ask(l->ctl->conf, name, DNS_TXT, &l->a) == DNS_FAILED)
		return -1;
	for (i = 0; i < l->a.n; i++) {
		if (strncasecmp(l->a.text[i], version, n) != 0 ||
		    strchr("; \t", l->a.text[i][n]) == NULL)
			continue;
		if (count++ == 0)
			*first = l->a.text[i];
	}
	return count;
}

/* The next term that lets somebody pass (RFC 7208 4.6.2); false: no more. */
static bool
next_pass(struct str *record, struct str *term)
{
	while (record->n > 0) {
		*term = str_trim(str_split(record, ' '));
		if (term->n > 0 && term->p[0] == '+') {
			term->p++;
			term->n--;
		}
		if (term->n > 0 && strchr("-~?", term->p[0]) == NULL)
			return true;
	}
	return false;
}

/* "ip4:192.0.2.0/24": is `address` in it? */
static bool
is_in_network(struct str term, const char *address, int family)
{
	const char *name = family == AF_INET ? "ip4:" : "ip6:";
	unsigned long long bits = family == AF_INET ? 32 : 128, i;
	unsigned char net[16], us[16];
	char text[64];
	struct str host;

	if (!str_istarts(term, str_of(name)))
		return false;
	term.p += 4;
	term.n -= 4;
	host = str_split(&term, '/');
	if (term.n > 0 && !str_to_u64(term, bits, &bits))
		return false;
	(void)snprintf(text, sizeof(text), "%.*s", (int)host.n, host.p);
	if (inet_pton(family, text, net) != 1 ||
	    inet_pton(family, address, us) != 1)
		return false;
	for (i = 0; i < bits; i++) {
		if (((net[i / 8] ^ us[i / 8]) >> (7 - i % 8) & 1) != 0)
			return false;
	}
	return true;
}

/* Some term that lets pass is of this kind: "mx", "include:" and so on. */
static bool
has_term(const char *record, const char *kind)
{
	struct str rest = str_of(record), term;
	size_t n = strlen(kind);

	while (next_pass(&rest, &term)) {
		if (str_istarts(term, str_of(kind)) &&
		    (term.n == n || kind[n - 1] == ':' || kind[n - 1] == '=' ||
			strchr(":/", term.p[n]) != NULL))
			return true;
	}
	return false;
}

/* Does a term that lets pass name `address` (NULL: our name) by itself? */
static bool
names(const struct look *l, const char *record, const char *address, int family)
{
	const char *host = l->ctl->conf->hostname;
	struct str rest = str_of(record), term;

	while (next_pass(&rest, &term)) {
		if (address != NULL && is_in_network(term, address, family))
			return true;
		if (address != NULL)
			continue;
		if (str_istarts(term, str_lit("a:")) &&
		    str_ieq(
			(struct str){ term.p + 2, term.n - 2 }, str_of(host)))
			return true;
		if (str_ieq(term, str_lit("a")) &&
		    strcasecmp(l->domain, host) == 0)
			return true;
	}
	return false;
}

/* Does the record name one of our addresses, or our name, by itself? */
static bool
spf_names_us(struct look *l, const char *record)
{
	const char *host = l->ctl->conf->hostname;
	int type;
	size_t i;

	if (names(l, record, NULL, 0))
		return true;
	for (type = DNS_A; type <= DNS_AAAA; type++) {
		if (dns_ask(l->ctl->conf, host, (enum dns_type)type, &l->b) !=
		    DNS_FOUND)
			continue;
		for (i = 0; i < l->b.n; i++) {
			if (names(l, record, l->b.text[i],
				type == DNS_A ? AF_INET : AF_INET6))
				return true;
		}
	}
	return false;
}

static void
look_spf(struct look *l)
{
	bool by_smarthost = l->ctl->conf->deliver_smarthost[0] != '\0';
	const char *record;
	int n = versioned(l, l->domain, "v=spf1", &record);

	if (n < 0)
		say(l, "spf", "fail", NULL, "the name servers did not answer");
	else if (n == 0)
		say(l, "spf", "fail", NULL,
		    "publish a TXT record: \"v=spf1 a:<this host> -all\"");
	else if (n > 1)
		say(l, "spf", "fail", record,
		    "two SPF records are an error: receivers use neither");
	else if (has_term(record, "all"))
		say(l, "spf", "fail", record, "+all lets everybody send");
	else if (by_smarthost || spf_names_us(l, record))
		say(l, "spf", "ok", record, NULL);
	else if (has_term(record, "include:") ||
		 has_term(record, "redirect=") || has_term(record, "mx"))
		say(l, "spf", "warn", record,
		    "this host is not named itself; see that what is included "
		    "names it");
	else
		say(l, "spf", "fail", record, "this host is not named");
}

static void
look_dkim(struct look *l)
{
	const struct manage_arg call[] = { CTL_SESSION(l->ctl), CTL_UID,
		MANAGE_ARG_TEXT(l->domain), MANAGE_ARG_END };
	json_t *rows = ctl_call(l->ctl, "dkim_list_1", call), *row;
	bool signs = false;
	size_t i;

	if (rows == NULL) {
		l->failed = true;
		return;
	}
	json_array_foreach(rows, i, row)
	{
		const char *use = ctl_text(row, "use");
		const char *why = ctl_dkim_published(l->ctl, row, &l->a);
		bool now = strcmp(use, "signs") == 0;

		signs |= now;
		say(l, "dkim",
		    why == NULL ? "ok"
		    : now       ? "fail"
				: "warn",
		    ctl_text(row, "selector"), why);
	}
	if (!signs)
		say(l, "dkim", "fail", NULL,
		    "mail is not signed: posternctl dkim new");
	json_decref(rows);
}

static void
look_dmarc(struct look *l)
{
	const char *record;
	char name[300];
	int n;

	(void)snprintf(name, sizeof(name), "_dmarc.%s", l->domain);
	n = versioned(l, name, "v=DMARC1", &record);
	if (n < 0)
		say(l, "dmarc", "fail", NULL,
		    "the name servers did not answer");
	else if (n == 0)
		say(l, "dmarc", "warn", NULL,
		    "publish a TXT record of _dmarc: \"v=DMARC1; p=none\" "
		    "(or that of a parent domain holds)");
	else if (n > 1)
		say(l, "dmarc", "fail", record,
		    "two DMARC records: none holds");
	else
		say(l, "dmarc", "ok", record, NULL);
}

/* Each address of ours must have a name that leads back to it. */
static void
look_address(struct look *l, const char *address)
{
	char name[80];
	size_t i;

	if (!dns_reverse(name, address))
		return;
	if (dns_ask(l->ctl->conf, name, DNS_PTR, &l->b) == DNS_FOUND) {
		for (i = 0; i < l->b.n; i++) {
			if (strcasecmp(l->b.text[i], l->ctl->conf->hostname) ==
			    0) {
				say(l, "ptr", "ok", address, NULL);
				return;
			}
		}
	}
	say(l, "ptr",
	    l->ctl->conf->deliver_smarthost[0] != '\0' ? "ok" : "fail", address,
	    "its PTR is not the hostname of this machine");
}

static void
look_ptr(struct look *l)
{
	const char *host = l->ctl->conf->hostname;
	int type, seen = 0;
	size_t i;

	for (type = DNS_A; type <= DNS_AAAA; type++) {
		if (dns_ask(l->ctl->conf, host, (enum dns_type)type, &l->a) !=
		    DNS_FOUND)
			continue;
		for (i = 0; i < l->a.n; i++, seen++)
			look_address(l, l->a.text[i]);
	}
	if (seen == 0)
		say(l, "ptr", "fail", host,
		    "hostname has no address; it is what we say in EHLO");
}

int
ctl_domain_check(struct ctl *ctl, const struct ctl_args *args)
{
	struct look *l = xcalloc(1, sizeof(*l));
	bool failed;

	l->ctl = ctl;
	l->domain = args->words[0];
	l->rows = json_array();
	BUG_ON(l->rows == NULL);
	look_dkim(l);
	if (!(l->failed && json_array_size(l->rows) == 0)) {
		look_mx(l);
		look_spf(l);
		look_dmarc(l);
		look_ptr(l);
		ctl_print(ctl, l->rows);
	}
	failed = l->failed;
	json_decref(l->rows);
	free(l);
	return failed ? 1 : 0;
}
