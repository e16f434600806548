/* SPDX-License-Identifier: ISC */
/*
 * tls.c - OpenSSL under bufferevents.
 *
 * Socket bufferevents, not filters: they read every pending byte of a record
 * before they call back, so a reader that stops with bufferevent_disable()
 * leaves nothing behind inside SSL. At STARTTLS the old bufferevent gives up
 * its socket and is freed; nothing it had read can cross over.
 */
#include "net/tls.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/err.h"
#include "base/xalloc.h"

struct net_tls {
	SSL_CTX *ctx;
	struct net_tls_keys keys;
	char listener[SSL_MAX_SID_CTX_LENGTH];
};

static SSL_CTX *context_new(const SSL_METHOD *method, struct err *err);
static SSL_CTX *server_context(const struct net_tls *tls, const char *cert_file,
    const char *key_file, struct err *err);
static struct bufferevent *wrap(struct event_base *base, evutil_socket_t fd,
    SSL *ssl, enum bufferevent_ssl_state state);
static SSL *client_ssl(
    struct net_tls *tls, const char *host, enum net_tls_check check);
static evutil_socket_t take_socket(
    struct bufferevent *plain, struct event_base **base);
static void openssl_err(struct err *err, const char *what);

void
net_tls_keys_make(struct net_tls_keys *keys)
{
	BUG_ON(RAND_bytes(keys->b, sizeof keys->b) != 1);
}

struct net_tls *
net_tls_server_new(const char *cert_file, const char *key_file,
    const char *listener, const struct net_tls_keys *keys, struct err *err)
{
	struct net_tls *tls = xcalloc(1, sizeof *tls);

	BUG_ON(strlen(listener) >= sizeof tls->listener);
	memcpy(tls->listener, listener, strlen(listener));
	tls->keys = *keys;
	tls->ctx = server_context(tls, cert_file, key_file, err);
	if (tls->ctx == NULL) {
		net_tls_free(tls);
		return NULL;
	}
	return tls;
}

bool
net_tls_server_reload(struct net_tls *tls, const char *cert_file,
    const char *key_file, struct err *err)
{
	SSL_CTX *ctx = server_context(tls, cert_file, key_file, err);

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

struct bufferevent *
net_tls_accept(struct net_tls *tls, struct event_base *base, evutil_socket_t fd)
{
	return wrap(base, fd, SSL_new(tls->ctx), BUFFEREVENT_SSL_ACCEPTING);
}

struct bufferevent *
net_tls_upgrade(struct net_tls *tls, struct bufferevent *plain)
{
	struct event_base *base;
	evutil_socket_t fd = take_socket(plain, &base);

	return net_tls_accept(tls, base, fd);
}

struct bufferevent *
net_tls_connect(struct net_tls *tls, struct event_base *base,
    evutil_socket_t fd, const char *host, enum net_tls_check check)
{
	return wrap(
	    base, fd, client_ssl(tls, host, check), BUFFEREVENT_SSL_CONNECTING);
}

struct bufferevent *
net_tls_upgrade_client(struct net_tls *tls, struct bufferevent *plain,
    const char *host, enum net_tls_check check)
{
	struct event_base *base;
	evutil_socket_t fd = take_socket(plain, &base);

	return net_tls_connect(tls, base, fd, host, check);
}

const char *
net_tls_version(struct bufferevent *bev)
{
	SSL *ssl = bufferevent_openssl_get_ssl(bev);

	return ssl == NULL ? "" : SSL_get_version(ssl);
}

const char *
net_tls_cipher(struct bufferevent *bev)
{
	SSL *ssl = bufferevent_openssl_get_ssl(bev);
	const char *name = ssl == NULL ? NULL : SSL_get_cipher_name(ssl);

	return name == NULL ? "" : name;
}

bool
net_tls_is_verified(struct bufferevent *bev)
{
	SSL *ssl = bufferevent_openssl_get_ssl(bev);

	return ssl != NULL && SSL_get_verify_mode(ssl) == SSL_VERIFY_PEER &&
	       SSL_get_verify_result(ssl) == X509_V_OK &&
	       SSL_get0_peer_certificate(ssl) != NULL;
}

void
net_tls_why(struct bufferevent *bev, char *text, size_t size)
{
	SSL *ssl = bufferevent_openssl_get_ssl(bev);
	unsigned long code = bufferevent_get_openssl_error(bev);
	long verify = ssl == NULL ? X509_V_OK : SSL_get_verify_result(ssl);
	const char *why = NULL;

	if (ssl != NULL && SSL_get_verify_mode(ssl) == SSL_VERIFY_PEER &&
	    verify != X509_V_OK)
		why = X509_verify_cert_error_string(verify);
	else if (code != 0)
		why = ERR_reason_error_string(code);
	evutil_snprintf(text, size, "%s",
	    why != NULL ? why : "connection closed during the handshake");
}

void
net_tls_bye(struct bufferevent *bev)
{
	SSL *ssl = bufferevent_openssl_get_ssl(bev);

	if (ssl != NULL && SSL_is_init_finished(ssl) &&
	    evbuffer_get_length(bufferevent_get_output(bev)) == 0)
		(void)SSL_shutdown(ssl);
	ERR_clear_error();
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

static SSL_CTX *
server_context(const struct net_tls *tls, const char *cert_file,
    const char *key_file, struct err *err)
{
	SSL_CTX *ctx = context_new(TLS_server_method(), err);
	unsigned char keys[sizeof tls->keys.b];

	if (ctx == NULL)
		return NULL;
	memcpy(keys, tls->keys.b, sizeof keys);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_session_id_context(ctx,
	    (const unsigned char *)tls->listener,
	    (unsigned int)strlen(tls->listener));
	if (SSL_CTX_set_tlsext_ticket_keys(ctx, keys, (long)sizeof keys) != 1)
		openssl_err(err, "TLS ticket keys");
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

/* Both `fd` and `ssl` are taken over, also on failure. */
static struct bufferevent *
wrap(struct event_base *base, evutil_socket_t fd, SSL *ssl,
    enum bufferevent_ssl_state state)
{
	struct bufferevent *bev = NULL;

	if (ssl != NULL)
		bev = bufferevent_openssl_socket_new(
		    base, fd, ssl, state, BEV_OPT_CLOSE_ON_FREE);
	if (bev == NULL) {
		SSL_free(ssl);
		evutil_closesocket(fd);
		return NULL;
	}
	bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
	return bev;
}

static SSL *
client_ssl(struct net_tls *tls, const char *host, enum net_tls_check check)
{
	SSL *ssl = SSL_new(tls->ctx);
	unsigned char ip[16];
	char name[256];
	bool is_ip;
	int ok = 1;

	if (ssl == NULL)
		return NULL;
	evutil_snprintf(name, sizeof name, "%s", host);
	is_ip = inet_pton(AF_INET, host, ip) == 1 ||
		inet_pton(AF_INET6, host, ip) == 1;
	if (!is_ip)
		ok = (int)SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME,
		    TLSEXT_NAMETYPE_host_name, name);
	if (check == NET_TLS_VERIFY) {
		SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
		SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
		if (ok == 1 && is_ip)
			ok = X509_VERIFY_PARAM_set1_ip_asc(
			    SSL_get0_param(ssl), host);
		else if (ok == 1)
			ok = SSL_set1_host(ssl, host);
	} else {
		SSL_set_verify(ssl, SSL_VERIFY_NONE, NULL);
	}
	if (ok != 1) {
		SSL_free(ssl);
		ERR_clear_error();
		return NULL;
	}
	return ssl;
}

static evutil_socket_t
take_socket(struct bufferevent *plain, struct event_base **base)
{
	evutil_socket_t fd = bufferevent_getfd(plain);

	*base = bufferevent_get_base(plain);
	bufferevent_disable(plain, EV_READ | EV_WRITE);
	bufferevent_setcb(plain, NULL, NULL, NULL, NULL);
	bufferevent_setfd(plain, -1);
	bufferevent_free(plain);
	return fd;
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
