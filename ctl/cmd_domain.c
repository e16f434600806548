/* SPDX-License-Identifier: ISC */
/*
 * domain check: what a receiver of the domain's mail will find in DNS. It
 * looks and advises; nothing is stored.
 */
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

/* Does the record name one of our addresses, or our name, by itself? */
static bool
spf_names_us(struct look *l, const char *record)
{
	const char *host = l->ctl->conf->hostname;
	char want[320];
	int type;
	size_t i;

	(void)snprintf(want, sizeof(want), "a:%s", host);
	if (strcasestr(record, want) != NULL)
		return true;
	for (type = DNS_A; type <= DNS_AAAA; type++) {
		if (dns_ask(l->ctl->conf, host, (enum dns_type)type, &l->b) !=
		    DNS_FOUND)
			continue;
		for (i = 0; i < l->b.n; i++) {
			(void)snprintf(want, sizeof(want), "ip%c:%s",
			    type == DNS_A ? '4' : '6', l->b.text[i]);
			if (strcasestr(record, want) != NULL)
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
	else if (strcasestr(record, "+all") != NULL)
		say(l, "spf", "fail", record, "+all lets everybody send");
	else if (by_smarthost || spf_names_us(l, record))
		say(l, "spf", "ok", record, NULL);
	else if (strcasestr(record, "include:") != NULL ||
		 strcasestr(record, "redirect=") != NULL ||
		 strcasestr(record, "mx") != NULL)
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
