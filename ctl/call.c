/* SPDX-License-Identifier: ISC */
/* Calling the database and saying what it answered. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/conf_parse.h"
#include "base/errors.h"
#include "base/str.h"
#include "base/xalloc.h"
#include "ctl/backup.h"
#include "ctl/ctl.h"

static int last_status;
static bool misused;

const char *
ctl_option(const struct ctl_args *args, const char *name)
{
	size_t n = strlen(name);
	int i;

	for (i = 0; i < args->noptions; i++) {
		if (strncmp(args->names[i], name, n) == 0 &&
		    (args->names[i][n] == '\0' || args->names[i][n] == '='))
			return args->values[i];
	}
	return NULL;
}

int64_t
ctl_number(const struct ctl *ctl, const struct ctl_args *args, const char *name,
    int64_t max, int64_t def)
{
	const char *text = ctl_option(args, name);
	unsigned long long v;

	if (text == NULL)
		return def;
	if (!str_to_u64(str_of(text), (unsigned long long)max, &v)) {
		(void)ctl_misused(
		    ctl, "--%s: a number up to %lld", name, (long long)max);
		return -1;
	}
	return (int64_t)v;
}

#define DURATION_MAX 24

static const char *
duration_text(char out[DURATION_MAX], int64_t s)
{
	bool days = s % CTL_DAY == 0;

	(void)snprintf(out, DURATION_MAX, "%lld%s",
	    (long long)(days ? s / CTL_DAY : s), days ? "d" : "s");
	return out;
}

int64_t
ctl_seconds(const struct ctl *ctl, const struct ctl_args *args,
    const char *name, int64_t min, int64_t max, int64_t def)
{
	const char *text = ctl_option(args, name);
	char from[DURATION_MAX], to[DURATION_MAX];
	int64_t ms = 0;

	if (text == NULL)
		return def;
	if (conf_parse(CONF_TYPE_duration, text, &ms, NULL) && ms % 1000 == 0 &&
	    ms / 1000 >= min && ms / 1000 <= max)
		return ms / 1000;
	(void)ctl_misused(ctl,
	    "--%s: whole seconds from %s to %s, such as 90s, 5m, 2h or 7d",
	    name, duration_text(from, min), duration_text(to, max));
	return -1;
}

PRINTF_LIKE(2, 0)
static void
say(const struct ctl *ctl, const char *fmt, va_list ap)
{
	char text[512];
	json_t *out;

	(void)vsnprintf(text, sizeof(text), fmt, ap);
	if (!ctl->json) {
		(void)fprintf(stderr, "posternctl: %s\n", text);
		return;
	}
	out = json_pack("{s:s?}", "error", text);
	if (out != NULL)
		(void)json_dumpf(out, stderr, JSON_COMPACT);
	(void)fputc('\n', stderr);
	json_decref(out);
}

int
ctl_fail(const struct ctl *ctl, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(ctl, fmt, ap);
	va_end(ap);
	return 1;
}

int
ctl_misused(const struct ctl *ctl, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(ctl, fmt, ap);
	va_end(ap);
	misused = true;
	return 2;
}

int
ctl_exit_status(int code)
{
	return code != 0 && misused ? 2 : code;
}

#define REASON_MAX 1000 /* characters, as the database takes them */

/* Of UTF-8: every byte that does not go on with one. */
static size_t
count_characters(const char *text)
{
	size_t n = 0;

	for (; *text != '\0'; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

bool
ctl_has_reason(const struct ctl *ctl, const struct ctl_args *args)
{
	const char *reason = ctl_option(args, "reason");
	size_t n = reason != NULL ? count_characters(reason) : 0;

	if (n > REASON_MAX)
		(void)ctl_misused(
		    ctl, "--reason has more than %d characters", REASON_MAX);
	else if (n == 0 || reason[strspn(reason, " \t\r\n")] == '\0')
		(void)ctl_misused(
		    ctl, "--reason TEXT is needed; it is audited");
	else
		return true;
	return false;
}

bool
ctl_connect(struct ctl *ctl, const char *login)
{
	struct err err = { 0 };

	if (ctl->db != NULL && strcmp(ctl->login, login) == 0)
		return true;
	manage_close(ctl->db);
	ctl->login = login;
	ctl->db = manage_open(ctl->conf, login, &err);
	if (ctl->db == NULL)
		(void)ctl_fail(ctl, "as %s: %s", login, err.text);
	return ctl->db != NULL;
}

void
ctl_load_session(struct ctl *ctl)
{
	struct secret text = { 0 };

	if (secret_load(&text, ctl->session_path, 0, NULL) &&
	    base32_decode(ctl->session.b, 32, (const char *)text.b, text.n))
		ctl->session.n = 32;
	secret_wipe(&text);
}

int
ctl_last_status(void)
{
	return last_status;
}

/*
 * What the user can do about a refusal; the words of base/errors.def are for
 * agents.
 */
static const char *
fix_of(const char *code)
{
	static const char *const fixes[][2] = {
		{ "step_up_required",
		    "repeat with --code-file FILE if you have a second factor, "
		    "else with --password-file FILE; or do it on the page" },
		{ "missing_permission", "your role does not allow it" },
		{ "not_found",
		    "there is none, or your role does not reach it" },
		{ "state_conflict", "what is there by now does not allow it" },
		{ "validation_error",
		    "a value is missing or not allowed; see posternctl(1)" },
		{ "clock_gap",
		    "the clock is half a year away from the last week there "
		    "is: put it right; if it is right, repeat with --after-gap "
		    "(what is past its time goes then)" },
		{ "release_over",
		    "what let it be sent holds no more (its approval has "
		    "lapsed, or the mode or rule it went by): it cannot be "
		    "sent again; find out what became of it, then say sent or "
		    "failed" },
		{ "dkim_needed",
		    "links to unsubscribe count inside a signature only: "
		    "posternctl dkim new, then dkim use" },
	};
	size_t i;

	for (i = 0; i < sizeof(fixes) / sizeof(fixes[0]); i++)
		if (strcmp(code, fixes[i][0]) == 0)
			return fixes[i][1];
	return error_get(error_find(str_of(code)))->fix;
}

static void
refused(struct ctl *ctl, const char *function, int status, const char *code)
{
	const char *fix = fix_of(code);

	last_status = status;
	if (status == 401 && ctl->session.n == 0)
		fix = "sign in first: posternctl login NAME";
	else if (status == 401)
		fix = "the session has ended: posternctl login NAME";
	if (status == 422)
		misused = true;
	(void)ctl_fail(ctl, "%s: %d %s: %s", function, status, code, fix);
}

json_t *
ctl_call(struct ctl *ctl, const char *function, const struct manage_arg *args)
{
	struct manage_rows rows = { 0 };
	struct err err = { 0 };
	json_t *all, *row;
	size_t i;
	int status;

	last_status = 0;
	if (ctl->db == NULL && !ctl_connect(ctl, "l_ctl"))
		return NULL;
	if (!manage_call(ctl->db, function, args, &rows, &err)) {
		(void)ctl_fail(ctl, "%s: %s", function, err.text);
		return NULL;
	}
	all = json_array();
	for (i = 0; i < rows.n && all != NULL; i++) {
		row = json_loads(rows.json[i], 0, NULL);
		BUG_ON(row == NULL);
		status = (int)ctl_int(row, "status");
		if (status >= 300) {
			refused(ctl, function, status, ctl_text(row, "code"));
			json_decref(all);
			all = NULL;
		}
		(void)json_object_del(row, "status");
		(void)json_object_del(row, "code");
		if (all != NULL)
			(void)json_array_append(all, row);
		json_decref(row);
	}
	manage_rows_clear(&rows);
	return all;
}

int
ctl_call_print(struct ctl *ctl, const char *function,
    const struct manage_arg *args, const char *done)
{
	json_t *rows = ctl_call(ctl, function, args);

	if (rows == NULL)
		return 1;
	if (ctl->json || done == NULL)
		ctl_print(ctl, rows);
	else
		(void)printf("%s\n", done);
	json_decref(rows);
	return 0;
}

const char *
ctl_text(const json_t *row, const char *name)
{
	const char *s = json_string_value(json_object_get(row, name));

	return s != NULL ? s : "";
}

int64_t
ctl_int(const json_t *row, const char *name)
{
	return json_integer_value(json_object_get(row, name));
}

bool
ctl_bytes(const json_t *row, const char *name, void *out, size_t n)
{
	const char *s = ctl_text(row, name);

	return strncmp(s, "\\x", 2) == 0 &&
	       hex_decode(out, n, s + 2, strlen(s + 2));
}

/* Numbers need no looking up, and so nobody signed in. */
static bool
parse_number(struct str text, int64_t *out)
{
	unsigned long long v;

	if (!str_to_u64(text, INT64_MAX, &v) || v == 0)
		return false;
	*out = (int64_t)v;
	return true;
}

bool
ctl_find_tenant(struct ctl *ctl, const char *slug, int64_t *tenant)
{
	const struct manage_arg args[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_END };
	json_t *rows, *row;
	size_t i;
	bool found = false;

	if (slug == NULL) {
		(void)ctl_misused(ctl, "--tenant SLUG is needed");
		return false;
	}
	if (parse_number(str_of(slug), tenant))
		return true;
	rows = ctl_call(ctl, "tenants_1", args);
	if (rows == NULL)
		return false;
	json_array_foreach(rows, i, row)
	{
		if (strcmp(ctl_text(row, "slug"), slug) == 0) {
			*tenant = ctl_int(row, "tenant_id");
			found = true;
		}
	}
	json_decref(rows);
	if (!found)
		(void)ctl_fail(ctl, "no tenant %s", slug);
	return found;
}

bool
ctl_find_inbox(
    struct ctl *ctl, const char *address, int64_t *tenant, int64_t *inbox)
{
	const struct manage_arg args[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_TEXT(address), MANAGE_ARG_END };
	struct str rest = str_of(address), first = str_split(&rest, '.');
	const json_t *row;
	json_t *rows;
	bool found;

	if (parse_number(first, tenant) && parse_number(rest, inbox))
		return true;
	rows = ctl_call(ctl, "inbox_find_1", args);
	row = rows != NULL ? json_array_get(rows, 0) : NULL;
	found = row != NULL;
	if (found) {
		*tenant = ctl_int(row, "tenant_id");
		*inbox = ctl_int(row, "inbox_id");
	} else if (rows != NULL) {
		(void)ctl_fail(ctl, "no inbox %s", address);
	}
	json_decref(rows);
	return found;
}

bool
ctl_find_switch(
    struct ctl *ctl, const char *which, int64_t *tenant, int64_t *inbox)
{
	const struct manage_arg args[] = { CTL_UID, MANAGE_ARG_TEXT(which),
		MANAGE_ARG_END };
	struct str rest = str_of(which), first = str_split(&rest, '.');
	const json_t *row;
	json_t *rows;
	bool found;

	if (parse_number(first, tenant) &&
	    (rest.n == 0 || parse_number(rest, inbox)))
		return true;
	rows = ctl_call(ctl, "ctl_find_1", args);
	row = rows != NULL ? json_array_get(rows, 0) : NULL;
	found = row != NULL && ctl_int(row, "tenant_id") != 0;
	if (found) {
		*tenant = ctl_int(row, "tenant_id");
		*inbox = ctl_int(row, "inbox_id");
	}
	json_decref(rows);
	return found;
}

bool
ctl_ask_terminal(const char *what, char *out, size_t size)
{
	struct termios old, quiet;
	FILE *tty = fopen("/dev/tty", "r+e");
	bool ok;

	if (tty == NULL)
		return false;
	(void)fputs(what, tty);
	(void)fflush(tty);
	ok = tcgetattr(fileno(tty), &old) == 0;
	quiet = old;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	ok = ok && tcsetattr(fileno(tty), TCSAFLUSH, &quiet) == 0;
	ok = ok && fgets(out, (int)size, tty) != NULL;
	(void)tcsetattr(fileno(tty), TCSAFLUSH, &old);
	(void)fputc('\n', tty);
	(void)fclose(tty);
	if (ok)
		out[strcspn(out, "\r\n")] = '\0';
	return ok;
}

bool
ctl_password(const struct ctl *ctl, const struct ctl_args *args,
    const char *option, char *out, size_t size)
{
	const char *path = ctl_option(args, option);
	FILE *in;
	bool ok;

	if (path == NULL) {
		ok = ctl_ask_terminal("Password: ", out, size);
	} else {
		in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
		ok = in != NULL && fgets(out, (int)size, in) != NULL;
		if (in != NULL && in != stdin)
			(void)fclose(in);
	}
	if (!ok) {
		(void)ctl_fail(ctl, "nothing in --%s %s", option,
		    path != NULL ? path : "FILE");
		return false;
	}
	out[strcspn(out, "\r\n")] = '\0';
	return true;
}

bool
ctl_passphrase(const struct ctl *ctl, const struct ctl_args *args, bool twice,
    char *out, size_t size)
{
	char again[SEAL_PASSWORD_MAX + 2];
	bool ok;

	if (!ctl_password(ctl, args, "passphrase-file", out, size))
		return false;
	if (!twice || ctl_option(args, "passphrase-file") != NULL)
		return true;
	ok = ctl_ask_terminal("Again: ", again, sizeof(again));
	ok = ok && strcmp(again, out) == 0;
	explicit_bzero(again, sizeof(again));
	return ok || ctl_fail(ctl, "the two are not the same") == 0;
}

static bool
make_parents(char *path)
{
	char *slash = path;

	while ((slash = strchr(slash + 1, '/')) != NULL) {
		*slash = '\0';
		if (mkdir(path, 0700) != 0 && errno != EEXIST) {
			*slash = '/';
			return false;
		}
		*slash = '/';
	}
	return true;
}

bool
ctl_write_private(const char *path, const char *text, struct err *err)
{
	char *tmp = xasprintf("%s.new", path);
	int fd = -1;
	bool ok = make_parents(tmp);

	if (ok) {
		(void)unlink(tmp);
		fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	}
	ok = fd >= 0 &&
	     write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
	     fsync(fd) == 0;
	if (fd >= 0)
		ok = close(fd) == 0 && ok;
	ok = ok && rename(tmp, path) == 0;
	if (!ok)
		err_set(err, errno, "%s: %s", path, strerror(errno));
	free(tmp);
	return ok;
}
