/* SPDX-License-Identifier: ISC */
#include "deliver/context.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/conf.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/xalloc.h"
#include "deliver/idle.h"
#include "deliver/job.h"
#include "deliver/route.h"
#include "deliver/routes.h"
#include "deliver/sign.h"
#include "deliver/sign_keys.h"
#include "deliver/sts.h"
#include "net/tls.h"
#include "seal/body.h"
#include "seal/keyfile.h"

#define SMTP_PORT 25

static struct kept {
	struct conf *conf;
	struct kept *next;
} * kept_first;

void
context_keep(struct conf *old)
{
	struct kept *k = xcalloc(1, sizeof(*k));

	k->conf = old;
	k->next = kept_first;
	kept_first = k;
}

/* What may change while jobs run, all of it or nothing. */
struct next_hop {
	char host[256], password[1024];
	unsigned short port;
};

/* "host:port", "[v6]:port" or "host" (port 25); "" = by MX. */
static bool
read_smarthost(struct next_hop *hop, const char *text, struct err *err)
{
	const char *colon = strrchr(text, ':');
	unsigned long long port = SMTP_PORT;
	size_t n = strlen(text);

	if (colon != NULL && strchr(colon, ']') == NULL) {
		if (!str_to_u64(str_of(colon + 1), 65535, &port) || port == 0) {
			err_set(
			    err, 1, "deliver.smarthost: %s has no port", text);
			return false;
		}
		n = (size_t)(colon - text);
	}
	if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	}
	if (n >= sizeof(hop->host)) {
		err_set(err, 1, "deliver.smarthost: the name is too long");
		return false;
	}
	memcpy(hop->host, text, n);
	hop->host[n] = '\0';
	hop->port = (unsigned short)port;
	return true;
}

/* The first line of the file. */
static bool
read_password(struct next_hop *hop, const char *path, struct err *err)
{
	FILE *in = fopen(path, "re");
	bool ok = in != NULL &&
		  fgets(hop->password, sizeof(hop->password), in) != NULL;

	if (in != NULL)
		(void)fclose(in);
	hop->password[strcspn(hop->password, "\r\n")] = '\0';
	if (!ok)
		err_set(err, 1,
		    "deliver.smarthost_password_file: %s cannot be read", path);
	return ok;
}

static bool
trust(struct net_tls **tls, const char *ca_file, struct err *err)
{
	if (*tls != NULL)
		return net_tls_client_reload(*tls, ca_file, err);
	*tls = net_tls_client_new(ca_file, err);
	return *tls != NULL;
}

/* Can these be had? So that nobody learns of others before that is known. */
static bool
can_trust(const char *ca_file, struct err *err)
{
	struct net_tls *tls = net_tls_client_new(ca_file, err);

	net_tls_free(tls);
	return tls != NULL;
}

/* Where mail without a rule goes, or with which login. */
static bool
is_other(const struct job_context *ctx, const struct conf *conf,
    const struct next_hop *hop)
{
	const struct conf *old = ctx->conf;

	return old != NULL &&
	       (strcmp(ctx->smarthost, hop->host) != 0 ||
		   ctx->smarthost_port != hop->port ||
		   strcmp(old->deliver_smarthost_user,
		       conf->deliver_smarthost_user) != 0 ||
		   strcmp(ctx->smarthost_password, hop->password) != 0);
}

bool
context_reload(
    struct job_context *ctx, const struct conf *conf, struct err *err)
{
	struct next_hop hop = { .port = 0 };
	bool ok = read_smarthost(&hop, conf->deliver_smarthost, err) &&
		  (conf->deliver_smarthost_user[0] == '\0' ||
		      read_password(
			  &hop, conf->deliver_smarthost_password_file, err)) &&
		  can_trust(conf->deliver_ca_file, err) &&
		  trust(&ctx->tls, conf->deliver_smarthost_ca_file, err) &&
		  trust(&ctx->mx_tls, conf->deliver_ca_file, err);

	ctx->other_smarthost = ok && is_other(ctx, conf, &hop);
	if (ok) {
		ctx->conf = conf;
		memcpy(ctx->smarthost, hop.host, sizeof(hop.host));
		ctx->smarthost_port = hop.port;
		memcpy(ctx->smarthost_password, hop.password,
		    sizeof(hop.password));
		if (ctx->sts != NULL)
			sts_reload(ctx->sts, conf);
		if (ctx->routes != NULL)
			routes_forget(ctx->routes);
	}
	OPENSSL_cleanse(&hop, sizeof(hop));
	return ok;
}

static bool
load_deployment(struct job_context *ctx, const char *path, struct err *err)
{
	char text[64] = "";
	FILE *in = fopen(path, "re");
	bool ok = in != NULL && fgets(text, sizeof(text), in) != NULL &&
		  hex_decode(ctx->deployment, sizeof(ctx->deployment), text,
		      strcspn(text, "\r\n"));

	if (in != NULL)
		(void)fclose(in);
	if (!ok)
		err_set(err, 1, "%s: not the identity of a deployment", path);
	return ok;
}

static bool
load_keys(struct job_context *ctx, const struct conf *conf, struct err *err)
{
	struct secret pub = { 0 };
	struct err none = { 0 };

	if (!seal_keyfile_load(&ctx->relay_key, conf->keys_relay_key_file,
		SEAL_KEYFILE_RELAY, err) ||
	    !seal_keyfile_load(
		&pub, conf->keys_relay_pub_file, SEAL_KEYFILE_RELAY_PUB, err) ||
	    !seal_keyfile_load(&ctx->approve_key, conf->keys_approve_key_file,
		SEAL_KEYFILE_APPROVE, err) ||
	    !seal_keyfile_load(&ctx->policy_key, conf->keys_policy_key_file,
		SEAL_KEYFILE_POLICY, err))
		return false;
	memcpy(ctx->relay_pub, pub.b, sizeof(ctx->relay_pub));
	/* Needed only where operators approve with passkeys. */
	ctx->has_auth_pub = seal_keyfile_load(
	    &pub, conf->keys_auth_pub_file, SEAL_KEYFILE_AUTH_PUB, &none);
	memcpy(ctx->auth_pub, pub.b, sizeof(ctx->auth_pub));
	if (conf->keys_identity_key_file[0] != '\0' &&
	    !seal_keyfile_load(&ctx->identity_key, conf->keys_identity_key_file,
		SEAL_KEYFILE_IDENTITY, err))
		return false;
	if (conf->keys_bounce_key_file[0] != '\0' &&
	    !seal_keyfile_load(&ctx->bounce_key, conf->keys_bounce_key_file,
		SEAL_KEYFILE_BOUNCE, err))
		return false;
	return load_deployment(ctx, conf->keys_deployment_file, err);
}

bool
context_open(struct job_context *ctx, struct loop *loop,
    const struct conf *conf, struct err *err)
{
	ctx->loop = loop;
	ctx->zstd = seal_zstd_new();
	ctx->keys = sign_keys_new();
	ctx->idle = idle_new(loop);
	ctx->signer = signer_new(err);
	if (ctx->signer == NULL)
		return false;
	if (!load_keys(ctx, conf, err) || !context_reload(ctx, conf, err))
		return false;
	ctx->domains = resolver_new(loop, conf, RESOLVER_DOMAINS, err);
	ctx->hosts = resolver_new(loop, conf, RESOLVER_HOSTS, err);
	if (ctx->domains == NULL || ctx->hosts == NULL)
		return false;
	ctx->routes = routes_new(loop, ctx->domains, ctx->hosts);
	ctx->sts = sts_new(loop, ctx->domains, conf->state_dir);
	sts_reload(ctx->sts, conf);
	ctx->relay = relay_new(loop, conf);
	return true;
}

void
context_close(struct job_context *ctx)
{
	struct kept *k;

	sts_free(ctx->sts);
	routes_free(ctx->routes);
	resolver_free(ctx->domains);
	resolver_free(ctx->hosts);
	relay_free(ctx->relay);
	net_tls_free(ctx->tls);
	net_tls_free(ctx->mx_tls);
	seal_zstd_free(ctx->zstd);
	sign_keys_free(ctx->keys);
	idle_free(ctx->idle);
	signer_free(ctx->signer);
	secret_wipe(&ctx->relay_key);
	secret_wipe(&ctx->approve_key);
	secret_wipe(&ctx->policy_key);
	secret_wipe(&ctx->identity_key);
	secret_wipe(&ctx->bounce_key);
	OPENSSL_cleanse(
	    ctx->smarthost_password, sizeof(ctx->smarthost_password));
	while ((k = kept_first) != NULL) {
		kept_first = k->next;
		conf_free(k->conf);
		free(k);
	}
}
