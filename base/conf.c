/* SPDX-License-Identifier: ISC */
/*
 * libconfuse reads every value as text; conf_parse() turns it into the field
 * inside the validate callback, where file and line are known. The same
 * callback counts, because libconfuse lets a later value win silently.
 */
#include "base/conf.h"

#include <confuse.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf_parse.h"
#include "base/conf_range.h"
#include "base/str.h"
#include "base/xalloc.h"

/* Set at the end of the text: confuse takes an open section for closed. */
#define END_MARK "end-of-postern-conf"

enum { G = 1, A = 2, D = 4, C = 8, U = 16 };

struct option {
	const char *section; /* NULL = top */
	const char *name;
	const char *def;
	const char *help;
	size_t offset;
	unsigned programs;
	enum conf_type type;
};

static const struct option options[] = {
#define CONF_TOP(programs, type, name, def, reload, help)                      \
	{ NULL, #name, def, help, offsetof(struct conf, name), programs,       \
		CONF_TYPE_##type },
#define CONF(programs, section, type, name, def, reload, help)                 \
	{ #section, #name, def, help, offsetof(struct conf, section##_##name), \
		programs, CONF_TYPE_##type },
#include "base/conf.def"
#undef CONF
#undef CONF_TOP
};

#define NOPTIONS (sizeof(options) / sizeof(options[0]))

static const struct program {
	const char *name;
	unsigned bit;
	int rank; /* added to the port of metrics.listen */
	const char *redis_user;
	const char *store_login;
} programs[] = {
	{ "posternd", G, 0, "gw", "l_gateway" },
	{ "postern-admin", A, 1, "admin", "l_review" },
	{ "postern-deliver", D, 2, "worker", "l_worker" },
	{ "posternctl", C, 3, "ctl", "l_ctl" },
	{ "postern-auth", U, 3, "auth", "l_auth" },
};

/* One reading of one file; confuse has no argument for callbacks. */
static struct reading {
	const char *path;
	struct conf *conf;
	struct err *err;
	struct seen {
		size_t n; /* values so far */
		char *last;
		bool is_closed;
	} seen[NOPTIONS];
} * now;

static const struct program *
find_program(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		if (strcmp(programs[i].name, name) == 0)
			return &programs[i];
	}
	return &programs[3];
}

static void *
field_of(const struct option *o, struct conf *conf)
{
	return (char *)conf + o->offset;
}

static bool
set_default(const struct option *o, struct conf *conf)
{
	struct str rest = str_of(o->def), part;
	bool ok = true;
	char *text;

	if (o->type != CONF_TYPE_list)
		return conf_parse(o->type, o->def, field_of(o, conf), NULL);
	while (ok && rest.n != 0) {
		part = str_split(&rest, ',');
		text = str_dup(part);
		ok = conf_parse(o->type, text, field_of(o, conf), NULL);
		free(text);
	}
	return ok;
}

static bool
is_at(const struct option *o, cfg_t *cfg, const char *name)
{
	const char *section = cfg_name(cfg);

	if (strcmp(o->name, name) != 0)
		return false;
	return o->section == NULL ? strcmp(section, "root") == 0
				  : strcmp(section, o->section) == 0;
}

/*
 * confuse calls for each value of a list and once more at its end, so a call
 * that brings nothing new ends the list and any later one is a second list.
 */
static bool
is_repeated(size_t i, bool is_list, const char *last, size_t n)
{
	struct seen *seen = &now->seen[i];
	bool is_end = is_list && n == seen->n && seen->last != NULL &&
		      strcmp(seen->last, last) == 0;
	bool is_next = is_list && n == seen->n + 1;

	if (seen->n != 0 && (seen->is_closed || !(is_end || is_next)))
		return true;
	seen->is_closed = is_end;
	seen->n = n;
	free(seen->last);
	seen->last = xstrdup(last);
	return false;
}

static int
on_value(cfg_t *cfg, cfg_opt_t *opt)
{
	const struct option *o = options;
	unsigned n = cfg_opt_size(opt);
	struct err why = { 0 };
	const char *text;
	size_t i;

	for (i = 0; i < NOPTIONS && !is_at(o, cfg, cfg_opt_name(opt)); i++)
		o++;
	BUG_ON(i == NOPTIONS || n == 0);
	text = cfg_opt_getnstr(opt, n - 1);
	if (now->seen[i].n == 0 && o->type == CONF_TYPE_list)
		conf_parse_clear(o->type, field_of(o, now->conf));
	if (is_repeated(i, o->type == CONF_TYPE_list, text, n)) {
		cfg_error(cfg, "%s is given twice", o->name);
		return -1;
	}
	if (!now->seen[i].is_closed &&
	    !conf_parse(o->type, text, field_of(o, now->conf), &why)) {
		cfg_error(cfg, "%s: %s", o->name, why.text);
		return -1;
	}
	return 0;
}

PRINTF_LIKE(2, 0)
static void
on_error(cfg_t *cfg, const char *fmt, va_list ap)
{
	char text[160];

	(void)vsnprintf(text, sizeof(text), fmt, ap);
	if (strstr(text, END_MARK) != NULL)
		(void)snprintf(
		    text, sizeof(text), "a section is not closed with }");
	if (now->err != NULL && now->err->code == 0)
		err_set(
		    now->err, EINVAL, "%s:%d: %s", now->path, cfg->line, text);
}

/*
 * libconfuse expands ${NAME} from the environment; nothing in the file may
 * depend on who starts the program, so refuse it. Also finds NUL bytes.
 */
static char *
read_file(const char *path, struct err *err)
{
	FILE *in = fopen(path, "re");
	char *text = NULL, *line = NULL;
	size_t size = 0, len = 0;
	unsigned lineno = 0;
	ssize_t n;

	if (in == NULL) {
		err_set(err, errno, "%s: %s", path, strerror(errno));
		return NULL;
	}
	while ((n = getline(&line, &size, in)) > 0) {
		lineno++;
		if (strlen(line) != (size_t)n || len > 1024 * 1024 ||
		    (line[0] != '#' && strstr(line, "${") != NULL)) {
			err_set(err, EINVAL,
			    "%s:%u: a NUL byte, too much text, or ${...}, "
			    "which is not replaced here",
			    path, lineno);
			free(text);
			text = NULL;
			goto out;
		}
		text = xrealloc(text, len + (size_t)n + 1);
		memcpy(text + len, line, (size_t)n + 1);
		len += (size_t)n;
	}
	text = xrealloc(text, len + sizeof("\n" END_MARK " = 1\n"));
	(void)strcpy(text + len, "\n" END_MARK " = 1\n");
out:
	free(line);
	(void)fclose(in);
	return text;
}

/* confuse's description of one section (or of the top, with NULL). */
static size_t
describe(const char *section, cfg_opt_t *to)
{
	size_t i, n = 0;

	for (i = 0; i < NOPTIONS; i++) {
		const struct option *o = &options[i];
		cfg_opt_t one = CFG_STR(o->name, NULL, CFGF_NONE);
		cfg_opt_t many = CFG_STR_LIST(o->name, NULL, CFGF_NONE);

		if ((section == NULL) != (o->section == NULL) ||
		    (section != NULL && strcmp(section, o->section) != 0))
			continue;
		to[n] = o->type == CONF_TYPE_list ? many : one;
		to[n++].validcb = on_value;
	}
	return n;
}

static void
clear_if_emptied(cfg_t *cfg, size_t i)
{
	const struct option *o = &options[i];
	cfg_t *sec = o->section != NULL ? cfg_getsec(cfg, o->section) : cfg;
	cfg_opt_t *opt = sec != NULL ? cfg_getopt(sec, o->name) : NULL;

	if (o->type == CONF_TYPE_list && now->seen[i].n == 0 && opt != NULL &&
	    (opt->flags & CFGF_MODIFIED))
		conf_parse_clear(o->type, field_of(o, now->conf));
}

static bool
parse_text(const char *text)
{
	static const cfg_opt_t end = CFG_END();
	cfg_opt_t mark = CFG_STR(END_MARK, NULL, CFGF_NONE);
	cfg_opt_t top[NOPTIONS + 2], sub[NOPTIONS * 2];
	size_t ntop = describe(NULL, top), nsub = 0, i;
	const char *last = "";
	cfg_t *cfg;
	int rc;

	for (i = 0; i < NOPTIONS; i++) {
		cfg_opt_t sec =
		    CFG_SEC(options[i].section, sub + nsub, CFGF_NONE);

		if (options[i].section == NULL ||
		    strcmp(options[i].section, last) == 0)
			continue;
		last = options[i].section;
		nsub += describe(last, sub + nsub);
		sub[nsub++] = end;
		top[ntop++] = sec;
	}
	top[ntop++] = mark;
	top[ntop] = end;
	cfg = cfg_init(top, CFGF_NONE);
	if (cfg == NULL)
		return false;
	(void)cfg_set_error_function(cfg, on_error);
	rc = cfg_parse_buf(cfg, text);
	/* An empty list calls nobody. */
	for (i = 0; i < NOPTIONS; i++)
		clear_if_emptied(cfg, i);
	(void)cfg_free(cfg);
	return rc == CFG_SUCCESS;
}

/* %u in a path becomes the Redis user, so one file serves all programs. */
static void
expand_user(char **path, const char *user)
{
	char *at = strstr(*path, "%u"), *made;

	if (at == NULL)
		return;
	made = xasprintf("%.*s%s%s", (int)(at - *path), *path, user, at + 2);
	free(*path);
	*path = made;
}

/*
 * The service manager can hand a key to one program alone (LoadCredential=);
 * a file of that name there is taken in place of the configured one.
 */
static void
use_credential(char **path)
{
	const char *folder = getenv("CREDENTIALS_DIRECTORY");
	const char *slash = strrchr(*path, '/');
	char *given;

	if (folder == NULL || folder[0] != '/' || slash == NULL)
		return;
	given = xasprintf("%s%s", folder, slash);
	if (access(given, R_OK) != 0) {
		free(given);
		return;
	}
	free(*path);
	*path = given;
}

struct conf *
conf_load(const char *path, const char *program, struct err *err)
{
	struct reading reading = { .path = path, .err = err };
	char *text = read_file(path, err);
	size_t i;
	bool ok;

	if (text == NULL)
		return NULL;
	if (err != NULL)
		err->code = 0;
	reading.conf = xcalloc(1, sizeof(*reading.conf));
	for (i = 0; i < NOPTIONS; i++)
		BUG_ON(!set_default(&options[i], reading.conf));
	now = &reading;
	ok = parse_text(text);
	now = NULL;
	for (i = 0; i < NOPTIONS; i++)
		free(reading.seen[i].last);
	free(text);
	if (!ok) {
		if (err != NULL && err->code == 0)
			err_set(err, EINVAL, "%s: cannot be read", path);
		conf_free(reading.conf);
		return NULL;
	}
	for (i = 0; i < NOPTIONS; i++) {
		if (options[i].type != CONF_TYPE_path)
			continue;
		expand_user(field_of(&options[i], reading.conf),
		    conf_redis_user(reading.conf, program));
		if (strstr(options[i].name, "_file") != NULL)
			use_credential(field_of(&options[i], reading.conf));
	}
	return reading.conf;
}

void
conf_free(struct conf *conf)
{
	size_t i;

	if (conf == NULL)
		return;
	for (i = 0; i < NOPTIONS; i++)
		conf_parse_clear(options[i].type, field_of(&options[i], conf));
	free(conf);
}

static struct str
host_of_url(const char *url)
{
	const char *p = strstr(url, "://");
	struct str host = str_of(p != NULL ? p + 3 : url);

	host.n = strcspn(host.p, ":/");
	return host;
}

/* Cookies ignore ports, so the two sides need hosts of their own (A11). */
static bool
check_hosts(const struct conf *conf, struct err *err)
{
	struct str admin = host_of_url(conf->admin_url);
	struct str api = host_of_url(conf->api_url);

	if (admin.n == 0)
		admin = str_of(conf->hostname);
	if (api.n == 0)
		api = str_of(conf->hostname);
	if (str_ieq(admin, api)) {
		err_set(err, EINVAL,
		    "admin.url and api.url must name different hosts (an empty "
		    "one means hostname), because browsers send cookies to "
		    "every port of a host");
		return false;
	}
	return true;
}

/*
 * It goes into mail as it is, so it is plain: https, a host, perhaps a port
 * and a path, no slash at the end. Its host is one of the agents' side (A11).
 */
static bool
check_links(const struct conf *conf, unsigned bit, struct err *err)
{
	const char *url = conf->deliver_unsubscribe_url;
	struct str host = host_of_url(url),
		   admin = host_of_url(conf->admin_url);
	size_t n = strlen(url);

	if (n == 0)
		return true;
	if (strncmp(url, "https://", 8) != 0 || host.n == 0 || n > 200 ||
	    url[n - 1] == '/' ||
	    strspn(url + 8, "abcdefghijklmnopqrstuvwxyz0123456789"
			    "ABCDEFGHIJKLMNOPQRSTUVWXYZ.:/_~-") != n - 8) {
		err_set(err, EINVAL,
		    "deliver.unsubscribe_url: https://NAME, perhaps with port "
		    "and path, without a slash at its end");
		return false;
	}
	if (admin.n == 0)
		admin = str_of(conf->hostname);
	if (bit != D && str_ieq(host, admin)) {
		err_set(err, EINVAL,
		    "deliver.unsubscribe_url must not name the host of "
		    "admin.url, because browsers send cookies to every port of "
		    "a host");
		return false;
	}
	return true;
}

/* `words` are separated by one space. */
static bool
is_one_of(const char *value, const char *words)
{
	size_t n = strlen(value);
	const char *p;

	for (p = words; p != NULL; p = strchr(p, ' ')) {
		p += *p == ' ';
		if (strncmp(p, value, n) == 0 && (p[n] == ' ' || p[n] == '\0'))
			return n > 0;
	}
	return false;
}

bool
conf_check(const struct conf *conf, const char *program, struct err *err)
{
	unsigned bit = find_program(program)->bit;

	if ((bit & (G | A)) && !check_hosts(conf, err))
		return false;
	if ((bit & (A | D | C)) && !check_links(conf, bit, err))
		return false;
	if (!is_one_of(conf->log_level, "debug info warn error") ||
	    !is_one_of(conf->log_addresses, "full hashed off")) {
		err_set(err, EINVAL,
		    "log.level: debug, info, warn or error; log.addresses: "
		    "full, hashed or off");
		return false;
	}
	if (!conf_durations_fit(conf, err))
		return false;
	if (!is_one_of(conf->redis_down, "local closed")) {
		err_set(err, EINVAL, "redis.down: local or closed");
		return false;
	}
	if (conf->deliver_dane && conf->deliver_resolver.n == 0) {
		err_set(err, EINVAL,
		    "deliver.dane: deliver.resolver must name servers that "
		    "validate DNSSEC");
		return false;
	}
	if (conf->smtp_rcpt_max < 1 || conf->smtp_rcpt_max > 1000) {
		err_set(err, EINVAL, "smtp.rcpt_max: 1 to 1000");
		return false;
	}
	if (find_program(program)->bit == G &&
	    strchr(conf->hostname, '.') == NULL &&
	    strcmp(conf->hostname, "localhost") != 0) {
		err_set(err, EINVAL, "hostname: a full domain name is needed");
		return false;
	}
	return true;
}

void
conf_show(const struct conf *conf, const char *program, FILE *out)
{
	unsigned bit = find_program(program)->bit;
	const char *section = NULL;
	size_t i;

	for (i = 0; i < NOPTIONS; i++) {
		const struct option *o = &options[i];

		if (!(o->programs & bit))
			continue;
		if (o->section != NULL &&
		    (section == NULL || strcmp(section, o->section) != 0)) {
			(void)fprintf(out, "%s\n%s {\n",
			    section != NULL ? "}\n" : "", o->section);
			section = o->section;
		}
		(void)fprintf(
		    out, "%s%s = ", section != NULL ? "\t" : "", o->name);
		conf_parse_print(o->type, (const char *)conf + o->offset, out);
		(void)fputc('\n', out);
	}
	if (section != NULL)
		(void)fputs("}\n", out);
}

const char *
conf_redis_user(const struct conf *conf, const char *program)
{
	return *conf->redis_user != '\0' ? conf->redis_user
					 : find_program(program)->redis_user;
}

const char *
conf_store_login(const char *program)
{
	return find_program(program)->store_login;
}

void
conf_metrics_listen(
    const struct conf *conf, const char *program, char *out, size_t size)
{
	const char *colon = strrchr(conf->metrics_listen, ':');
	unsigned long long port;

	*out = '\0';
	if (colon == NULL || !str_to_u64(str_of(colon + 1), 65533, &port))
		return;
	(void)snprintf(out, size, "%.*s:%d",
	    (int)(colon - conf->metrics_listen), conf->metrics_listen,
	    (int)port + find_program(program)->rank);
}
