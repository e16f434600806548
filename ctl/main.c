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

#define WIDTH 79

/* Behind `start` the words of `text`, as many to a line as go. */
static void
put_wrapped(FILE *out, const char *start, const char *text, size_t indent)
{
	size_t n, column = strlen(start);

	(void)fputs(start, out);
	for (; *text != '\0'; text += n + (text[n] == ' ')) {
		n = strcspn(text, " ");
		if (column + 1 + n > WIDTH) {
			(void)fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		}
		column += (size_t)fprintf(
		    out, "%s%.*s", column > 0 ? " " : "", (int)n, text);
	}
	(void)fputc('\n', out);
}

/* What a command's name begins with `word`, all for "": how many were shown. */
static int
show_commands(FILE *out, const char *word)
{
	const struct ctl_command *c;
	size_t n = strlen(word);
	char start[64];
	int shown = 0;

	for (c = ctl_commands; c->name != NULL; c++) {
		if (n > 0 && (strncmp(c->name, word, n) != 0 ||
				 (c->name[n] != '\0' && c->name[n] != ' ')))
			continue;
		(void)snprintf(start, sizeof(start), "  %s", c->name);
		put_wrapped(out, start, c->usage, 9);
		put_wrapped(out, "       ", c->help, 7);
		shown++;
	}
	return shown;
}

static void
usage(FILE *out)
{
	(void)fprintf(out,
	    "usage: posternctl [-c FILE] [--json] [--session FILE] COMMAND "
	    "...\n"
	    "       posternctl help [WORD]\n"
	    "  -c FILE         configuration; else $POSTERN_CONF, else\n"
	    "                  %s/postern.conf\n"
	    "  --json          an array of objects instead of a table\n"
	    "  --session FILE  where login keeps its session\n"
	    "  --check         say whether the configuration is usable\n"
	    "  --show-config   print every option in effect\n"
	    "  --version       print versions\n\n",
	    POSTERN_SYSCONFDIR);
	(void)show_commands(out, "");
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

/* 0 = not one of these options, 1 = a flag, 2 = takes a value. */
static int
option_kind(const char *options, const char *name, size_t n)
{
	const char *p = options;

	while (*p != '\0') {
		size_t len = strcspn(p, "= ");

		if (len == n && strncmp(p, name, n) == 0)
			return p[len] == '=' ? 2 : 1;
		p += strcspn(p, " ");
		p += strspn(p, " ");
	}
	return 0;
}

/* Those that may stand behind the command, too. */
#define GLOBALS "json session= config="

static void
keep_option(struct ctl *ctl, const struct ctl_command *c, struct ctl_args *args,
    const char *name, size_t n, const char *value)
{
	if (option_kind(c->options, name, n) != 0) {
		args->names[args->noptions] = name;
		args->values[args->noptions++] = value;
	} else if (*name == 'j') {
		ctl->json = true;
	} else if (*name == 's') {
		ctl->session_path = value;
	} else {
		ctl->conf_path = value;
	}
}

/* Words and --options in any order. NULL when used well, else why not. */
static const char *
parse(struct ctl *ctl, const struct ctl_command *c, int argc, char **argv,
    struct ctl_args *args)
{
	static char why[120];
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
		kind = option_kind(c->options, a + 2, n);
		if (kind == 0)
			kind = option_kind(GLOBALS, a + 2, n);
		(void)snprintf(why, sizeof(why),
		    kind == 0   ? "there is no option %.*s here"
		    : kind == 1 ? "%.*s takes no value"
				: "%.*s needs a value",
		    (int)(n < 60 ? n + 2 : 60), a);
		if (kind == 0 || (kind == 1 && a[2 + n] == '=') ||
		    (kind == 2 && a[2 + n] == '\0' && i + 1 == argc))
			return why;
		if (args->noptions == CTL_OPTIONS_MAX)
			return "too many options";
		keep_option(ctl, c, args, a + 2, n,
		    kind == 1         ? ""
		    : a[2 + n] == '=' ? a + 3 + n
				      : argv[++i]);
	}
	return args->nwords < c->min_words   ? "a word is missing"
	       : args->nwords > c->max_words ? "there is a word too many"
					     : NULL;
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
		} else if (c == 'h') {
			usage(stdout);
			return false;
		} else {
			(void)fprintf(stderr, "posternctl --help lists what "
					      "there is\n");
			*code = 2;
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

/*
 * Help is asked for, or more words belong to it, or there is no such command.
 * The exit status.
 */
static int
no_command(int argc, char **argv)
{
	bool help = argc > 0 && strcmp(argv[0], "help") == 0;
	const char *word = argc > 0 ? argv[help] : NULL;

	if (argc > 1 && strcmp(argv[1], "--help") == 0)
		help = true;
	if (word == NULL) {
		usage(help ? stdout : stderr);
	} else if (show_commands(help ? stdout : stderr, word) == 0) {
		(void)fprintf(stderr,
		    "posternctl: there is no command %s; posternctl --help "
		    "lists all\n",
		    word);
		help = false;
	}
	return help ? 0 : 2;
}

/* The command and what follows it; NULL: leave with *code. */
static const struct ctl_command *
read_command(
    struct ctl *ctl, int argc, char **argv, struct ctl_args *args, int *code)
{
	const struct ctl_command *c;
	const char *why;
	char start[64];
	int used = 0, i;

	c = find_command(argc, argv, &used);
	if (c == NULL) {
		*code = no_command(argc, argv);
		return NULL;
	}
	for (i = used; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0) {
			(void)snprintf(start, sizeof(start),
			    "usage: posternctl %s", c->name);
			put_wrapped(stdout, start, c->usage, 17);
			put_wrapped(stdout, "", c->help, 0);
			return NULL;
		}
	why = parse(ctl, c, argc - used, argv + used, args);
	if (why == NULL)
		return c;
	(void)fprintf(stderr, "posternctl: %s\nusage: posternctl %s %s\n", why,
	    c->name, c->usage);
	*code = 2;
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
	if (code == 'k' || c == NULL) {
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
	if (code == 0) {
		c = read_command(
		    &ctl, argc - optind, argv + optind, &args, &code);
		if (c == NULL)
			return code;
	}
	if (c != NULL &&
	    (c->run == ctl_mcp || c->run == ctl_restore || c->run == ctl_init))
		code = c->run(&ctl, &args);
	else
		code = configured(&ctl, c, &args, code);
	code = ctl_exit_status(code);
	secret_wipe(&ctl.session);
	manage_close(ctl.db);
	conf_free(ctl.conf);
	free(session);
	return code;
}
