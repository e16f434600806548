/* SPDX-License-Identifier: ISC */
/* keygen, migrate and redis load: what a deployment needs before it starts. */
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/xalloc.h"
#include "ctl/ctl.h"
#include "seal/key.h"
#include "seal/keyfile.h"

struct keyfile {
	char *path;
	char *pub; /* NULL = no public half */
	enum seal_keyfile type;
};

static void
make_folder(const char *path)
{
	char *copy = xstrdup(path), *p = copy;

	while ((p = strchr(p + 1, '/')) != NULL) {
		*p = '\0';
		(void)mkdir(copy, 0755);
		*p = '/';
	}
	free(copy);
}

/* Make one key unless its file exists. */
static bool
make_key(const struct ctl *ctl, const struct keyfile *k)
{
	struct err err = { 0 };

	if (*k->path == '\0' || access(k->path, F_OK) == 0)
		return true;
	make_folder(k->path);
	if (!seal_keyfile_new(k->path, k->type, k->pub, &err)) {
		(void)ctl_fail(ctl, "%s", err.text);
		return false;
	}
	(void)printf("made %s\n", k->path);
	return true;
}

/* The secrets key of each program: the path has the program's user in it. */
static bool
make_secrets_keys(struct ctl *ctl)
{
	static const char *const programs[] = { "posternd", "postern-admin",
		"postern-deliver", "postern-auth" };
	struct err err = { 0 };
	bool ok = true;
	size_t i;

	for (i = 0; ok && i < 4; i++) {
		struct conf *conf =
		    conf_load(ctl->conf_path, programs[i], &err);
		struct keyfile k = { NULL, NULL, SEAL_KEYFILE_SECRETS };

		if (conf == NULL)
			return ctl_fail(ctl, "%s", err.text) == 0;
		k.path = conf->keys_secrets_key_file;
		ok = make_key(ctl, &k);
		conf_free(conf);
	}
	return ok;
}

static bool
make_deployment_id(const struct ctl *ctl)
{
	const char *path = ctl->conf->keys_deployment_file;
	char text[2 * 16 + 2];
	struct secret id;
	FILE *out;
	bool ok;

	if (access(path, F_OK) == 0)
		return true;
	make_folder(path);
	secret_random(&id, 16);
	hex_encode(text, id.b, 16);
	out = fopen(path, "wxe");
	ok = out != NULL && fprintf(out, "%s\n", text) > 0;
	if (out != NULL)
		ok = fclose(out) == 0 && ok;
	if (!ok) {
		(void)ctl_fail(ctl, "%s: %s", path, strerror(errno));
		return false;
	}
	(void)chmod(path, 0644);
	(void)printf("made %s\n", path);
	return true;
}

int
ctl_keygen(struct ctl *ctl, const struct ctl_args *args)
{
	struct conf *c = ctl->conf;
	char *audit_pub = xasprintf("%s.pub", c->keys_seal_key_file);
	const struct keyfile keys[] = {
		{ c->keys_review_key_file, c->keys_review_pub_file,
		    SEAL_KEYFILE_REVIEW },
		{ c->keys_relay_key_file, c->keys_relay_pub_file,
		    SEAL_KEYFILE_RELAY },
		{ c->keys_approve_key_file, NULL, SEAL_KEYFILE_APPROVE },
		{ c->keys_policy_key_file, NULL, SEAL_KEYFILE_POLICY },
		{ c->keys_seal_key_file, audit_pub, SEAL_KEYFILE_AUDIT },
		{ c->keys_auth_key_file, c->keys_auth_pub_file,
		    SEAL_KEYFILE_AUTH },
		{ c->keys_identity_key_file, c->keys_identity_pub_file,
		    SEAL_KEYFILE_IDENTITY },
		{ c->keys_bounce_key_file, NULL, SEAL_KEYFILE_BOUNCE },
	};
	size_t i;
	bool ok = true;

	(void)args;
	for (i = 0; ok && i < sizeof(keys) / sizeof(keys[0]); i++)
		ok = keys[i].path[0] == '\0' || make_key(ctl, &keys[i]);
	ok = ok && make_secrets_keys(ctl) && make_deployment_id(ctl);
	free(audit_pub);
	return ok ? 0 : 1;
}

static void
on_migrated(void *arg, const char *name, bool applied)
{
	(void)arg;
	if (applied)
		(void)printf("applied %s\n", name);
	else
		(void)printf("waiting %s: posternctl migrate --contract, once "
			     "every program is of this release\n",
		    name);
}

static void
on_lacking(void *arg, const char *step, const char *why)
{
	(void)arg;
	(void)printf("lacks the right to: %s (%s)\n", step, why);
}

static bool
load_deployment(struct ctl *ctl, unsigned char id[16])
{
	struct secret text = { 0 };
	char path[512];
	FILE *in;
	bool ok;

	(void)snprintf(
	    path, sizeof(path), "%s", ctl->conf->keys_deployment_file);
	in = fopen(path, "re");
	ok =
	    in != NULL && fgets((char *)text.b, sizeof(text.b), in) != NULL &&
	    hex_decode(id, 16, (char *)text.b, strcspn((char *)text.b, "\r\n"));
	if (in != NULL)
		(void)fclose(in);
	if (!ok)
		(void)ctl_fail(ctl,
		    "%s: not the identity of a deployment; posternctl keygen "
		    "makes it",
		    path);
	return ok;
}

/* The database remembers which deployment it belongs to, once. */
static int
bind_deployment(struct ctl *ctl)
{
	unsigned char id[16], had[16];
	const struct manage_arg args[] = { CTL_UID,
		MANAGE_ARG_BYTES(id, sizeof(id)), MANAGE_ARG_END };
	json_t *rows;
	bool ok;

	if (!load_deployment(ctl, id) || !ctl_connect(ctl, "l_ctl"))
		return 1;
	rows = ctl_call(ctl, "deployment_init_1", args);
	if (rows == NULL)
		return 1;
	ok = ctl_bytes(json_array_get(rows, 0), "deployment", had, 16) &&
	     memcmp(had, id, 16) == 0;
	json_decref(rows);
	return ok ? 0
		  : ctl_fail(ctl, "this database belongs to another "
				  "deployment");
}

int
ctl_migrate(struct ctl *ctl, const struct ctl_args *args)
{
	const char *superuser = ctl_option(args, "superuser");
	struct err err = { 0 };

	if (ctl_option(args, "show-roles") != NULL)
		return fputs(manage_roles_sql, stdout) < 0;
	if (superuser != NULL) {
		if (!ctl_connect(ctl, superuser))
			return 1;
		if (!manage_roles(ctl->db, on_lacking, NULL, &err))
			return ctl_fail(ctl, "%s", err.text);
	}
	if (!ctl_connect(ctl, "l_migrate"))
		return 1;
	if (!manage_migrate(ctl->db, ctl_option(args, "contract") != NULL,
		on_migrated, NULL, &err))
		return ctl_fail(ctl, "%s", err.text);
	return bind_deployment(ctl);
}

struct redisContext *
ctl_redis_open(const struct ctl *ctl)
{
	const char *user = conf_redis_user(ctl->conf, "posternctl");
	redisContext *r = redisConnectUnix(ctl->conf->redis_socket);
	struct secret password = { 0 };
	redisReply *reply = NULL;
	struct err err = { 0 };

	if (r == NULL || r->err != 0) {
		(void)ctl_fail(ctl, "Redis: %s: %s", ctl->conf->redis_socket,
		    r != NULL ? r->errstr : "out of memory");
		redisFree(r);
		return NULL;
	}
	if (*ctl->conf->redis_password_file == '\0')
		return r;
	if (!secret_load(&password, ctl->conf->redis_password_file, 0, &err)) {
		(void)ctl_fail(ctl, "%s", err.text);
		redisFree(r);
		return NULL;
	}
	reply = redisCommand(r, "AUTH %s %b", user, password.b, password.n);
	secret_wipe(&password);
	if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
		(void)ctl_fail(
		    ctl, "Redis: %s", reply != NULL ? reply->str : r->errstr);
		redisFree(r);
		r = NULL;
	}
	freeReplyObject(reply);
	return r;
}

int
ctl_redis_load(struct ctl *ctl, const struct ctl_args *args)
{
	redisContext *r = ctl_redis_open(ctl);
	redisReply *reply;
	int rc = 0;

	(void)args;
	if (r == NULL)
		return 1;
	reply = redisCommand(r, "FUNCTION LOAD REPLACE %s", manage_redis_lua);
	if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
		rc = ctl_fail(
		    ctl, "Redis: %s", reply != NULL ? reply->str : r->errstr);
	else
		(void)printf("loaded %s\n", reply->str);
	freeReplyObject(reply);
	redisFree(r);
	return rc;
}
