/* SPDX-License-Identifier: ISC */
/*
 * posternctl [-c FILE] [--json] [--session FILE] COMMAND [words] [options]
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/daemon.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "ctl/ctl.h"
#include "seal/key.h"

static void
usage(FILE *out)
{
	const struct ctl_command *c;

	(void)fputs("usage: posternctl [-c FILE] [--json] [--session FILE] "
		    "COMMAND ...\n\n",
	    out);
	for (c = ctl_commands; c->name != NULL; c++)
		(void)fprintf(
		    out, "  %s %s\n        %s\n", c->name, c->usage, c->help);
}

/* The command whose name's words begin argv; `*used` counts them. */
static const struct ctl_command *
find_command(int argc, char **argv, int *used)
{
	const struct ctl_command *c;
	char two[64];

	for (c = ctl_commands; argc > 0 && c->name != NULL; c++) {
		if (strcmp(c->name, argv[0]) == 0) {
			*used = 1;
			return c;
		}
		if (argc < 2)
			continue;
		(void)snprintf(two, sizeof(two), "%s %s", argv[0], argv[1]);
		if (strcmp(c->name, two) == 0) {
			*used = 2;
			return c;
		}
	}
	return NULL;
}

/* 0 = not one of the command's options, 1 = a flag, 2 = takes a value. */
static int
option_kind(const struct ctl_command *c, const char *name, size_t n)
{
	const char *p = c->options;

	while (*p != '\0') {
		size_t len = strcspn(p, "= ");

		if (len == n && strncmp(p, name, n) == 0)
			return p[len] == '=' ? 2 : 1;
		p += strcspn(p, " ");
		p += strspn(p, " ");
	}
	return 0;
}

/* Words and --options in any order. NULL when used well, else why not. */
static const char *
parse(const struct ctl_command *c, int argc, char **argv, struct ctl_args *args)
{
	int i, kind;
	size_t n;

	for (i = 0; i < argc; i++) {
		const char *a = argv[i];

		if (strncmp(a, "--", 2) != 0 || a[2] == '\0') {
			if (args->nwords == CTL_WORDS_MAX)
				return "too many words";
			args->words[args->nwords++] = a;
			continue;
		}
		n = strcspn(a + 2, "=");
		kind = option_kind(c, a + 2, n);
		if (kind == 0 || (kind == 1 && a[2 + n] == '='))
			return a;
		if (args->noptions == CTL_OPTIONS_MAX)
			return "too many options";
		if (kind == 2 && a[2 + n] == '\0' && i + 1 == argc)
			return "an option without its value";
		args->names[args->noptions] = a + 2;
		args->values[args->noptions++] = kind == 1         ? ""
						 : a[2 + n] == '=' ? a + 3 + n
								   : argv[++i];
	}
	if (args->nwords < c->min_words || args->nwords > c->max_words)
		return "wrong number of words";
	return NULL;
}

/* Global options; false = leave with *code. */
static bool
read_globals(struct ctl *ctl, int argc, char **argv, int *code)
{
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "json", no_argument, NULL, 'j' },
		{ "session", required_argument, NULL, 's' },
		{ "show-config", no_argument, NULL, 'w' },
		{ "check", no_argument, NULL, 'k' },
		{ "version", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	*code = 0;
	while ((c = getopt_long(argc, argv, "+c:h", longs, NULL)) != -1) {
		if (c == 'c') {
			ctl->conf_path = optarg;
		} else if (c == 'j') {
			ctl->json = true;
		} else if (c == 's') {
			ctl->session_path = optarg;
		} else if (c == 'w' || c == 'k') {
			*code = c;
		} else if (c == 'v') {
			daemon_print_version("posternctl");
			return false;
		} else {
			usage(c == 'h' ? stdout : stderr);
			*code = c == 'h' ? 0 : 2;
			return false;
		}
	}
	return true;
}

static char *
default_session(void)
{
	const char *state = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");

	if (state != NULL && *state == '/')
		return xasprintf("%s/postern/session", state);
	return xasprintf(
	    "%s/.local/state/postern/session", home != NULL ? home : "");
}

/* The command and what follows it; NULL, reported, when used wrongly. */
static const struct ctl_command *
read_command(int argc, char **argv, struct ctl_args *args)
{
	const struct ctl_command *c;
	const char *why;
	int used = 0;

	c = find_command(argc, argv, &used);
	if (c == NULL) {
		usage(stderr);
		return NULL;
	}
	why = parse(c, argc - used, argv + used, args);
	if (why == NULL)
		return c;
	(void)fprintf(stderr, "posternctl: %s\nusage: posternctl %s %s\n", why,
	    c->name, c->usage);
	return NULL;
}

/* Reads the configuration; `code` as read_globals() left it. */
static int
configured(struct ctl *ctl, const struct ctl_command *c,
    const struct ctl_args *args, int code)
{
	struct err err = { 0 };

	ctl->conf = conf_load(ctl->conf_path, "posternctl", &err);
	if (ctl->conf == NULL || !conf_check(ctl->conf, "posternctl", &err) ||
	    !seal_init(&err))
		return ctl_fail(ctl, "%s", err.text) + 1;
	if (code == 'w') {
		conf_show(ctl->conf, "posternctl", stdout);
		return 0;
	}
	if (code == 'k') {
		(void)printf("posternctl: %s is usable\n", ctl->conf_path);
		return 0;
	}
	ctl_load_session(ctl);
	return c->run(ctl, args);
}

int
main(int argc, char **argv)
{
	struct ctl ctl = { .conf_path = getenv("POSTERN_CONF") };
	const struct ctl_command *c = NULL;
	char *session = default_session();
	struct ctl_args args = { 0 };
	int code;

	daemon_harden();
	log_init("posternctl", LOG_LEVEL_WARN);
	ctl.session_path = session;
	if (ctl.conf_path == NULL)
		ctl.conf_path = POSTERN_SYSCONFDIR "/postern.conf";
	if (!read_globals(&ctl, argc, argv, &code))
		return code;
	if (code == 0)
		c = read_command(argc - optind, argv + optind, &args);
	if (code == 0 && c == NULL)
		code = 2;
	else if (c != NULL && (c->run == ctl_mcp || c->run == ctl_restore ||
				  c->run == ctl_init))
		code = c->run(&ctl, &args);
	else
		code = configured(&ctl, c, &args, code);
	secret_wipe(&ctl.session);
	manage_close(ctl.db);
	conf_free(ctl.conf);
	free(session);
	return code;
}
