/* SPDX-License-Identifier: ISC */
/*
 * init: from installed programs to a running deployment, on an empty host.
 * Each step looks first and makes only what is missing, so that it can be
 * run again after what stopped it was put right.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/xalloc.h"
#include "ctl/init.h"
#include "seal/key.h"

#define KEYS INIT_FOLDER "/keys"

void
init_say(const struct ctl *ctl, const char *what, const char *fmt, ...)
{
	va_list ap;

	(void)ctl;
	(void)printf("%-5s ", what);
	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	(void)putchar('\n');
	(void)fflush(stdout);
}

bool
init_file(const struct ctl *ctl, const char *path, struct str text,
    const char *whose, unsigned mode)
{
	struct files_meta meta = { .mode = mode };
	struct err err = { 0 };

	if (access(path, F_OK) == 0)
		return true;
	(void)snprintf(meta.owner, sizeof(meta.owner), "%.*s",
	    (int)strcspn(whose, ":"), whose);
	(void)snprintf(
	    meta.group, sizeof(meta.group), "%s", strchr(whose, ':') + 1);
	if (!files_write(path, text, &meta, &err))
		return ctl_fail(ctl, "%s", err.text) == 0;
	init_say(ctl, "made", "%s", path);
	return true;
}

bool
init_users(struct ctl *ctl)
{
	static const char *const users[] = { "systemd-sysusers", "postern.conf",
		NULL };
	static const char *const folders[] = { "systemd-tmpfiles", "--create",
		"postern.conf", NULL };
	struct err err = { 0 };

	if (!files_run(users, &err) || !files_run(folders, &err))
		return ctl_fail(ctl, "users and folders: %s", err.text) == 0;
	init_say(ctl, "ok", "users and folders");
	return true;
}

/* A value that stands between quotes in the file. */
static const char *
value_of(const struct ctl *ctl, const struct ctl_args *args, const char *name,
    const char *def, bool *ok)
{
	const char *v = ctl_option(args, name);

	if (v == NULL)
		v = def;
	if (strpbrk(v, "\"\\\n$") != NULL)
		*ok = ctl_misused(ctl, "--%s: quotes, $ and \\ cannot be used",
			  name) == 0;
	return v;
}

bool
init_conf(struct ctl *ctl, const struct ctl_args *args)
{
	char host[256] = "localhost";
	const char *name, *api, *pages, *smarthost, *database;
	struct buf text = { 0 };
	struct err err = { 0 };
	bool ok = true;

	(void)gethostname(host, sizeof(host) - 1);
	name = value_of(ctl, args, "hostname", host, &ok);
	api = value_of(ctl, args, "api-url", "", &ok);
	pages = value_of(ctl, args, "admin-url", "", &ok);
	smarthost = value_of(ctl, args, "smarthost", "", &ok);
	database = value_of(ctl, args, "database-host", "", &ok);
	buf_printf(&text,
	    "# Made by posternctl init. Every option: postern.conf(5).\n"
	    "hostname = \"%s\"\n",
	    name);
	if (*database != '\0')
		buf_printf(&text, "store {\n\tsocket = \"%s\"\n}\n", database);
	buf_puts(&text,
	    "redis {\n\tsocket = \"/run/postern-redis/redis.sock\"\n"
	    "\tpassword_file = \"" KEYS "/redis-%u\"\n}\n");
	if (*api != '\0')
		buf_printf(&text, "api {\n\turl = \"%s\"\n}\n", api);
	buf_puts(&text, "admin {\n");
	if (*pages != '\0')
		buf_printf(&text, "\turl = \"%s\"\n", pages);
	buf_puts(&text,
	    "\tsetup_token_file = \"/var/lib/postern/setup-token\"\n}\n");
	if (*smarthost != '\0')
		buf_printf(
		    &text, "deliver {\n\tsmarthost = \"%s\"\n}\n", smarthost);
	ok = ok &&
	     init_file(ctl, ctl->conf_path, buf_str(&text), "root:root", 0644);
	buf_free(&text);
	if (!ok)
		return false;
	ctl->conf = conf_load(ctl->conf_path, "posternctl", &err);
	if (ctl->conf == NULL || !conf_check(ctl->conf, "posternctl", &err))
		return ctl_fail(ctl, "%s", err.text) == 0;
	if (*ctl->conf->admin_url == '\0')
		init_say(ctl, "todo",
		    "set admin.url in %s: another host name than the API's",
		    ctl->conf_path);
	return true;
}

/* The password of one Redis user, made once; one line of the ACL. */
static bool
redis_user(struct ctl *ctl, struct buf *acl, const char *user,
    const char *whose, unsigned mode, const char *rights)
{
	char *path = xasprintf(KEYS "/redis-%s", user);
	char text[BASE32_LEN(32) + 2];
	struct buf password = { 0 };
	struct secret random;
	struct err err = { 0 };
	bool ok;

	secret_random(&random, 32);
	base32_encode(text, random.b, 32);
	secret_wipe(&random);
	(void)strcat(text, "\n");
	ok = init_file(ctl, path, str_of(text), whose, mode) &&
	     (files_read(&password, NULL, path, 200, &err) ||
		 ctl_fail(ctl, "%s", err.text) == 0);
	if (ok)
		buf_printf(acl, "user %s on >%.*s resetkeys resetchannels %s\n",
		    user, (int)strcspn(buf_cstr(&password), "\r\n"),
		    buf_cstr(&password), rights);
	explicit_bzero(text, sizeof(text));
	buf_wipe(&password);
	buf_free(&password);
	free(path);
	return ok;
}

bool
init_redis(struct ctl *ctl)
{
	struct buf acl = { 0 }, conf = { 0 };
	struct err err = { 0 };
	bool ok;

	buf_puts(&acl, "user default off\n");
	ok = redis_user(ctl, &acl, "gw", "root:root", 0600,
		 "~rl* &ev:* &revoke -@all +fcall +get +set +time +ping +auth "
		 "+subscribe +psubscribe (+publish &wake)") &&
	     redis_user(ctl, &acl, "admin", "root:root", 0600,
		 "&wake &ev:* &revoke -@all +publish +ping +auth") &&
	     redis_user(ctl, &acl, "worker", "root:root", 0600,
		 "&wake &ev:* -@all +publish +subscribe +ping +auth") &&
	     redis_user(ctl, &acl, "ctl", "root:postern-ctl", 0640,
		 "~rl* &* -@all +function +publish +ping +auth +info "
		 "+flushdb");
	ok = ok && (files_read(&conf, NULL, POSTERN_DATADIR "/redis/redis.conf",
			65536, &err) ||
		       ctl_fail(ctl, "%s", err.text) == 0);
	ok = ok &&
	     init_file(ctl, INIT_FOLDER "/redis.acl", buf_str(&acl),
		 "postern-redis:root", 0400) &&
	     init_file(ctl, INIT_FOLDER "/redis.conf", buf_str(&conf),
		 "root:root", 0644);
	buf_wipe(&acl);
	buf_free(&acl);
	buf_free(&conf);
	return ok;
}

bool
init_tls(struct ctl *ctl, const struct ctl_args *args)
{
	const struct conf *c = ctl->conf;
	char *name = xasprintf("/CN=%s", c->hostname);
	char *also = xasprintf("subjectAltName=DNS:%s", c->hostname);
	const char *const make[] = { "openssl", "req", "-x509", "-newkey", "ec",
		"-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "90",
		"-subj", name, "-addext", also, "-keyout", c->tls_key_file,
		"-out", c->tls_cert_file, NULL };
	const char *const give[] = { "chgrp", "postern-tls", c->tls_key_file,
		NULL };
	struct err err = { 0 };
	bool ok = true;

	if (access(c->tls_cert_file, F_OK) == 0) {
		init_say(ctl, "ok", "certificate %s", c->tls_cert_file);
	} else if (ctl_option(args, "self-signed") != NULL) {
		ok = (files_run(make, &err) && files_run(give, &err) &&
			 chmod(c->tls_key_file, 0640) == 0 &&
			 chmod(c->tls_cert_file, 0644) == 0) ||
		     ctl_fail(ctl, "%s", err.text) == 0;
		if (ok)
			init_say(ctl, "made", "%s, for %s, which nobody trusts",
			    c->tls_cert_file, c->hostname);
	} else {
		init_say(ctl, "todo",
		    "put a certificate at %s and its key at %s, readable by "
		    "group postern-tls (an ACME client's hook copies both, "
		    "then "
		    "runs systemctl reload postern-gateway postern-admin)",
		    c->tls_cert_file, c->tls_key_file);
	}
	free(also);
	free(name);
	return ok;
}

bool
init_units(struct ctl *ctl)
{
	static const char *const reload[] = { "systemctl", "daemon-reload",
		NULL };
	static const char *const start[] = { "systemctl", "enable", "--now",
		"postern.target", "postern-redis", "postern-gateway",
		"postern-auth", "postern-admin", "postern-deliver",
		"postern-seal", "postern-maintain.timer", NULL };
	struct err err = { 0 };

	if (access(ctl->conf->tls_cert_file, F_OK) != 0 ||
	    *ctl->conf->admin_url == '\0' ||
	    access("/run/systemd/system", F_OK) != 0) {
		init_say(ctl, "todo",
		    "then: systemctl enable --now postern.target "
		    "postern-{redis,gateway,auth,admin,deliver,seal} "
		    "postern-maintain.timer");
		return true;
	}
	if (!files_run(reload, &err) || !files_run(start, &err))
		return ctl_fail(ctl, "%s", err.text) == 0;
	init_say(ctl, "ok", "started; posternctl status shows it");
	return true;
}

int
ctl_init(struct ctl *ctl, const struct ctl_args *args)
{
	static const struct ctl_args none = { 0 };
	struct err err = { 0 };
	bool ok;

	if (geteuid() != 0)
		return ctl_fail(ctl, "init makes users and files: run it as "
				     "root");
	if (!seal_init(&err))
		return ctl_fail(ctl, "%s", err.text);
	(void)umask(022);
	ok = init_users(ctl) && init_conf(ctl, args) &&
	     ctl_keygen(ctl, &none) == 0 && init_redis(ctl) &&
	     init_tls(ctl, args) && init_database(ctl, args) && init_units(ctl);
	if (!ok)
		return ctl_fail(ctl, "not finished: put that right and run "
				     "init again; what is made stays");
	(void)printf("\nThe first operator: open %s and show the token in "
		     "/var/lib/postern/setup-token.\n"
		     "Then: posternctl login NAME, tenant create, domain add, "
		     "inbox create.\n",
	    *ctl->conf->admin_url != '\0' ? ctl->conf->admin_url : "the pages");
	return 0;
}
