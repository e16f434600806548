/* SPDX-License-Identifier: ISC */
/* route: what operators say of where mail goes. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "ctl/ctl.h"
#include "seal/keyfile.h"
#include "seal/stored.h"

#define SMTP_PORT 25
#define EXPIRES_MAX ((int64_t)3650 * CTL_DAY)
#define NO_END "until removed" /* what people see of a rule without end */

struct wish {
	int64_t tenant, inbox;
	char host[256]; /* "": none */
	unsigned long long port;
	const char *login;
	struct buf sealed;
	int64_t expires_s; /* 0: when it is removed */
};

/* "host[:port]" or "[v6][:port]". */
static bool
read_host(const struct ctl *ctl, struct wish *w, const char *text)
{
	const char *colon = strrchr(text, ':');
	size_t n = strlen(text);

	w->port = SMTP_PORT;
	if (colon != NULL && strchr(colon, ']') == NULL) {
		n = (size_t)(colon - text);
		if (!str_to_u64(str_of(colon + 1), 65535, &w->port))
			w->port = 0;
	}
	if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	}
	if (w->port == 0 || n == 0 || n >= sizeof(w->host)) {
		(void)ctl_misused(ctl, "--via HOST:PORT");
		return false;
	}
	memcpy(w->host, text, n);
	return true;
}

static void
read_line(char *line, int size, const char *path)
{
	FILE *in = path != NULL ? fopen(path, "re") : NULL;

	if (in == NULL || fgets(line, size, in) == NULL)
		line[0] = '\0';
	if (in != NULL)
		(void)fclose(in);
	line[strcspn(line, "\r\n")] = '\0';
}

static bool
seal_password(
    struct ctl *ctl, struct wish *w, const char *domain, const char *path)
{
	struct secret relay = { 0 };
	struct buf what = { 0 };
	struct err err = { 0 };
	char line[512];

	read_line(line, sizeof(line), path);
	if (line[0] == '\0') {
		(void)ctl_misused(ctl, "--login needs --secret-file with a "
				       "password in its first line");
		return false;
	}
	if (!seal_keyfile_load(&relay, ctl->conf->keys_relay_pub_file,
		SEAL_KEYFILE_RELAY_PUB, &err)) {
		(void)ctl_fail(ctl, "%s", err.text);
		return false;
	}
	seal_stored_route(&what, (uint64_t)w->tenant, (uint64_t)w->inbox,
	    str_of(domain), str_of(w->host), (uint16_t)w->port,
	    str_of(w->login));
	seal_stored_box(&w->sealed, relay.b, buf_str(&what), str_of(line));
	explicit_bzero(line, sizeof(line));
	buf_free(&what);
	return true;
}

static bool
read_wish(struct ctl *ctl, const struct ctl_args *args, struct wish *w,
    const char *domain)
{
	const char *slug = ctl_option(args, "tenant");
	const char *inbox = ctl_option(args, "inbox");
	const char *via = ctl_option(args, "via");

	w->login = ctl_option(args, "login");
	w->expires_s = ctl_seconds(ctl, args, "expires", 1, EXPIRES_MAX, 0);
	if (w->expires_s < 0)
		return false;
	if (slug != NULL && inbox != NULL) {
		(void)ctl_misused(ctl, "--tenant or --inbox, not both");
		return false;
	}
	if ((slug != NULL && !ctl_find_tenant(ctl, slug, &w->tenant)) ||
	    (inbox != NULL &&
		!ctl_find_inbox(ctl, inbox, &w->tenant, &w->inbox)) ||
	    (via != NULL && !read_host(ctl, w, via)))
		return false;
	return w->login == NULL ||
	       seal_password(ctl, w, domain, ctl_option(args, "secret-file"));
}

static int
add(struct ctl *ctl, const struct ctl_args *args, const struct wish *w,
    const char *action, const char *domain)
{
	const struct manage_arg none = MANAGE_ARG_NULL;
	const struct manage_arg tenant = MANAGE_ARG_I64(w->tenant);
	const struct manage_arg inbox = MANAGE_ARG_I64(w->inbox);
	const struct manage_arg port = MANAGE_ARG_I32((int64_t)w->port);
	const struct manage_arg until = MANAGE_ARG_I32(w->expires_s);
	const bool via = w->host[0] != '\0';
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		w->tenant != 0 ? tenant : none, w->inbox != 0 ? inbox : none,
		MANAGE_ARG_TEXT(domain), MANAGE_ARG_TEXT(action),
		MANAGE_ARG_TEXT(via ? w->host : NULL), via ? port : none,
		MANAGE_ARG_TEXT(w->login),
		MANAGE_ARG_BYTES(w->sealed.p, w->sealed.n),
		w->expires_s > 0 ? until : none,
		MANAGE_ARG_TEXT(ctl_option(args, "reason")), MANAGE_ARG_END };

	return ctl_call_print(ctl, "route_add_1", call, NULL);
}

int
ctl_route_add(struct ctl *ctl, const struct ctl_args *args)
{
	static const char *const names[] = { "suspend", "bounce", "relay",
		"tls" };
	char action[2] = "", domain[256];
	struct wish w = { 0 };
	size_t i;
	int rc = 1;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(args->words[0], names[i]) == 0)
			action[0] = names[i][0];
	}
	if (action[0] == '\0')
		return ctl_misused(ctl, "suspend, bounce, relay or tls, not %s",
		    args->words[0]);
	(void)snprintf(domain, sizeof(domain), "%s", args->words[1]);
	str_lower(domain, strlen(domain));
	if (ctl_has_reason(ctl, args) && read_wish(ctl, args, &w, domain))
		rc = add(ctl, args, &w, action, domain);
	buf_free(&w.sealed);
	return rc;
}

int
ctl_route_list(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_END };
	json_t *rows = ctl_call(ctl, "routes_1", call), *row;
	size_t i;

	(void)args;
	if (rows == NULL)
		return 1;
	json_array_foreach(rows, i, row)
	{
		if (!ctl->json &&
		    json_is_null(json_object_get(row, "expires_at")))
			(void)json_object_set_new(
			    row, "expires_at", json_string(NO_END));
	}
	ctl_print(ctl, rows);
	json_decref(rows);
	return 0;
}

int
ctl_route_remove(struct ctl *ctl, const struct ctl_args *args)
{
	unsigned long long route;

	if (!ctl_has_reason(ctl, args))
		return 1;
	if (!str_to_u64(str_of(args->words[0]), INT64_MAX, &route))
		return ctl_misused(
		    ctl, "a number as `route list` shows it is needed");
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64((int64_t)route),
			MANAGE_ARG_TEXT(ctl_option(args, "reason")),
			MANAGE_ARG_END };

		return ctl_call_print(ctl, "route_end_1", call, "removed");
	}
}
