/* SPDX-License-Identifier: ISC */
/*
 * tls.c - certificates, authorities, ticket keys and what is allowed.
 */
#include "net/tls.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include <event2/util.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/err.h"
#include "base/xalloc.h"
#include "net/names.h"

/*
 * As strong as the key exchange in front of them; the first makes the shortest
 * handshake, for its key schedule runs on SHA-256.
 */
#define SUITES                                                                 \
	"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"                       \
	"TLS_CHACHA20_POLY1305_SHA256"

struct net_tls {
	SSL_CTX *ctx;
	struct net_tls_keys keys;
	char listener[SSL_MAX_SID_CTX_LENGTH];
};

static SSL_CTX *context_new(const SSL_METHOD *method, struct err *err);
static SSL_CTX *server_contexts(const struct net_tls *tls,
    const struct net_tls_files *files, struct err *err);
static void openssl_err(struct err *err, const char *what);

void
net_tls_keys_make(struct net_tls_keys *keys)
{
	BUG_ON(RAND_bytes(keys->b, sizeof keys->b) != 1);
}

struct net_tls *
net_tls_server_new(const struct net_tls_files *files, const char *listener,
    const struct net_tls_keys *keys, struct err *err)
{
	struct net_tls *tls = xcalloc(1, sizeof *tls);

	BUG_ON(strlen(listener) >= sizeof tls->listener);
	memcpy(tls->listener, listener, strlen(listener));
	tls->keys = *keys;
	tls->ctx = server_contexts(tls, files, err);
	if (tls->ctx == NULL) {
		net_tls_free(tls);
		return NULL;
	}
	return tls;
}

bool
net_tls_server_reload(
    struct net_tls *tls, const struct net_tls_files *files, struct err *err)
{
	SSL_CTX *ctx = server_contexts(tls, files, err);

	if (ctx == NULL)
		return false;
	SSL_CTX_free(tls->ctx); /* connections hold their own reference */
	tls->ctx = ctx;
	return true;
}

static SSL_CTX *
client_context(const char *ca_file, struct err *err)
{
	SSL_CTX *ctx = context_new(TLS_client_method(), err);
	bool system = ca_file == NULL || *ca_file == '\0';
	int ok;

	if (ctx == NULL)
		return NULL;
	(void)SSL_CTX_dane_enable(ctx);
	if (system)
		ok = SSL_CTX_set_default_verify_paths(ctx);
	else
		ok = SSL_CTX_load_verify_locations(ctx, ca_file, NULL);
	if (ok == 1)
		return ctx;
	openssl_err(err, system ? "system CAs" : ca_file);
	SSL_CTX_free(ctx);
	return NULL;
}

struct net_tls *
net_tls_client_new(const char *ca_file, struct err *err)
{
	struct net_tls *tls = xcalloc(1, sizeof *tls);

	tls->ctx = client_context(ca_file, err);
	if (tls->ctx != NULL)
		return tls;
	net_tls_free(tls);
	return NULL;
}

bool
net_tls_client_reload(struct net_tls *tls, const char *ca_file, struct err *err)
{
	SSL_CTX *ctx = client_context(ca_file, err);

	if (ctx == NULL)
		return false;
	SSL_CTX_free(tls->ctx); /* connections hold their own reference */
	tls->ctx = ctx;
	return true;
}

void
net_tls_free(struct net_tls *tls)
{
	if (tls == NULL)
		return;
	SSL_CTX_free(tls->ctx);
	OPENSSL_cleanse(&tls->keys, sizeof tls->keys);
	free(tls);
}

SSL *
net_tls_ssl_server(struct net_tls *tls)
{
	SSL *ssl = SSL_new(tls->ctx);

	ERR_clear_error();
	return ssl;
}

static SSL_CTX *
context_new(const SSL_METHOD *method, struct err *err)
{
	SSL_CTX *ctx = SSL_CTX_new(method);

	if (ctx == NULL ||
	    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
		openssl_err(err, "TLS context");
		SSL_CTX_free(ctx);
		return NULL;
	}
	SSL_CTX_set_options(ctx,
	    SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
		SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS |
				  SSL_MODE_ENABLE_PARTIAL_WRITE |
				  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return ctx;
}

/* A context for one certificate; a net_names_load_fn. */
static SSL_CTX *
server_context(
    void *arg, const char *cert_file, const char *key_file, struct err *err)
{
	const struct net_tls *tls = arg;
	SSL_CTX *ctx = context_new(TLS_server_method(), err);
	unsigned char keys[sizeof tls->keys.b];

	if (ctx == NULL)
		return NULL;
	memcpy(keys, tls->keys.b, sizeof keys);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ctx, 1);
	SSL_CTX_set_session_id_context(ctx,
	    (const unsigned char *)tls->listener,
	    (unsigned int)strlen(tls->listener));
	if (SSL_CTX_set_tlsext_ticket_keys(ctx, keys, (long)sizeof keys) != 1)
		openssl_err(err, "TLS ticket keys");
	else if (SSL_CTX_set_ciphersuites(ctx, SUITES) != 1)
		openssl_err(err, "TLS cipher suites");
	else if (SSL_CTX_use_certificate_chain_file(ctx, cert_file) != 1)
		openssl_err(err, cert_file);
	else if (SSL_CTX_use_PrivateKey_file(ctx, key_file, SSL_FILETYPE_PEM) !=
		 1)
		openssl_err(err, key_file);
	else if (SSL_CTX_check_private_key(ctx) != 1)
		openssl_err(err, key_file);
	else
		goto out;
	SSL_CTX_free(ctx);
	ctx = NULL;
out:
	OPENSSL_cleanse(keys, sizeof keys);
	return ctx;
}

/* The one for who asks for no name, which knows the others. */
static SSL_CTX *
server_contexts(const struct net_tls *tls, const struct net_tls_files *files,
    struct err *err)
{
	struct net_tls copy = *tls;
	SSL_CTX *ctx = server_context(&copy, files->cert, files->key, err);

	if (ctx != NULL && files->more != NULL && files->more[0] != '\0' &&
	    !net_names_attach(ctx, files->more, server_context, &copy, err)) {
		SSL_CTX_free(ctx);
		ctx = NULL;
	}
	OPENSSL_cleanse(&copy, sizeof copy);
	return ctx;
}

/* The certificate must carry `host`, a name or an address. */
static bool
demand_name(SSL *ssl, const char *host, bool is_ip)
{
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (is_ip)
		return X509_VERIFY_PARAM_set1_ip_asc(
			   SSL_get0_param(ssl), host) == 1;
	return SSL_set1_host(ssl, host) == 1;
}

/*
 * RFC 7672 3.1: of the end's own certificate neither name nor age matters, for
 * DANE-EE says all of it. At least one record has to be of use.
 */
static bool
demand_tlsa(SSL *ssl, const char *host, const struct net_tls_dane *dane)
{
	size_t i, good = 0;

	if (SSL_dane_enable(ssl, host) != 1)
		return false;
	(void)SSL_dane_set_flags(ssl, DANE_FLAG_NO_DANE_EE_NAMECHECKS);
	if (dane->also != NULL && SSL_add1_host(ssl, dane->also) != 1)
		return false;
	for (i = 0; i < dane->n; i++)
		good += SSL_dane_tlsa_add(ssl, dane->v[i].usage,
			    dane->v[i].selector, dane->v[i].matching,
			    dane->v[i].data, dane->v[i].n) == 1;
	return good > 0;
}

SSL *
net_tls_ssl_client(struct net_tls *tls, const char *host,
    enum net_tls_check check, const struct net_tls_dane *dane)
{
	SSL *ssl = SSL_new(tls->ctx);
	unsigned char ip[16];
	char name[256];
	bool is_ip, ok = true;

	if (ssl == NULL)
		return NULL;
	evutil_snprintf(name, sizeof name, "%s", host);
	is_ip = inet_pton(AF_INET, host, ip) == 1 ||
		inet_pton(AF_INET6, host, ip) == 1;
	if (!is_ip && check != NET_TLS_DANE) /* which sets it itself */
		ok = SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME,
			 TLSEXT_NAMETYPE_host_name, name) == 1;
	SSL_set_verify(ssl,
	    check == NET_TLS_OPPORTUNISTIC ? SSL_VERIFY_NONE : SSL_VERIFY_PEER,
	    NULL);
	if (ok && check == NET_TLS_DANE)
		ok = demand_tlsa(ssl, host, dane);
	else if (ok) /* opportunistic: only to be able to tell */
		ok = demand_name(ssl, host, is_ip);
	ERR_clear_error();
	if (!ok) {
		SSL_free(ssl);
		return NULL;
	}
	return ssl;
}

static void
openssl_err(struct err *err, const char *what)
{
	unsigned long code = ERR_peek_error(); /* the innermost says most */
	const char *reason = ERR_SYSTEM_ERROR(code)
				 ? strerror(ERR_GET_REASON(code))
				 : ERR_reason_error_string(code);

	err_set(err, 0, "%s: %s", what,
	    reason != NULL ? reason : "cannot be used for TLS");
	ERR_clear_error();
}
