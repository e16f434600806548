/* SPDX-License-Identifier: ISC */
/*
 * TLS between two bufferevents: names and authorities are checked, STARTTLS
 * carries nothing over, TLS 1.1 and renegotiation are refused, reload works.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/tls.h"

struct end {
	struct bufferevent *bev;
	bool connected, failed;
	char why[160], got[256];
};

struct fixture {
	struct event_base *base;
	char dir[32], cert[64], key[64], other[64], other_key[64];
	struct net_tls_keys keys;
	struct end server, client;
};

static void
make_certificate(const char *cert_file, const char *key_file)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	X509_NAME *name = X509_get_subject_name(cert);
	X509_EXTENSION *san;
	FILE *out;

	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), -60);
	X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(
	    name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
	X509_set_issuer_name(cert, name);
	san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name,
	    "DNS:mx.example.org,IP:127.0.0.1");
	X509_add_ext(cert, san, -1);
	X509_EXTENSION_free(san);
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	out = fopen(cert_file, "w");
	assert_non_null(out);
	PEM_write_X509(out, cert);
	fclose(out);
	out = fopen(key_file, "w");
	PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL);
	fclose(out);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	strcpy(f->dir, "/tmp/postern-tls-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->cert, sizeof f->cert, "%s/cert.pem", f->dir);
	snprintf(f->key, sizeof f->key, "%s/key.pem", f->dir);
	snprintf(f->other, sizeof f->other, "%s/other.pem", f->dir);
	snprintf(f->other_key, sizeof f->other_key, "%s/okey.pem", f->dir);
	make_certificate(f->cert, f->key);
	make_certificate(f->other, f->other_key);
	net_tls_keys_make(&f->keys);
	f->base = event_base_new();
	*state = f;
	return 0;
}

static void
hang_up(struct fixture *f)
{
	if (f->server.bev != NULL)
		bufferevent_free(f->server.bev);
	if (f->client.bev != NULL)
		bufferevent_free(f->client.bev);
	memset(&f->server, 0, sizeof f->server);
	memset(&f->client, 0, sizeof f->client);
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	hang_up(f);
	event_base_free(f->base);
	unlink(f->cert);
	unlink(f->key);
	unlink(f->other);
	unlink(f->other_key);
	rmdir(f->dir);
	free(f);
	return 0;
}

static void
on_read(struct bufferevent *bev, void *arg)
{
	struct end *end = arg;
	size_t have = strlen(end->got);

	bufferevent_read(bev, end->got + have, sizeof end->got - 1 - have);
}

static void
on_event(struct bufferevent *bev, short what, void *arg)
{
	struct end *end = arg;

	if ((what & BEV_EVENT_CONNECTED) != 0) {
		end->connected = true;
		return;
	}
	end->failed = true;
	if (!end->connected)
		net_tls_why(bev, end->why, sizeof end->why);
}

static void
watch(struct end *end)
{
	assert_non_null(end->bev);
	bufferevent_setcb(end->bev, on_read, NULL, on_event, end);
	bufferevent_enable(end->bev, EV_READ | EV_WRITE);
}

static void
settle(struct fixture *f)
{
	int i;

	for (i = 0; i < 50; i++)
		event_base_loop(f->base, EVLOOP_NONBLOCK);
}

static void
pair(int fds[2])
{
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
}

static struct net_tls *
server_new(struct fixture *f)
{
	struct err err = { 0 };
	struct net_tls *tls =
	    net_tls_server_new(f->cert, f->key, "smtp", &f->keys, &err);

	assert_non_null(tls);
	return tls;
}

static void
shake(struct fixture *f, struct net_tls *server, struct net_tls *client,
    const char *host, enum net_tls_check check)
{
	int fds[2];

	hang_up(f);
	pair(fds);
	f->server.bev = net_tls_accept(server, f->base, fds[0]);
	f->client.bev = net_tls_connect(client, f->base, fds[1], host, check);
	watch(&f->server);
	watch(&f->client);
	settle(f);
}

static void
test_names_are_checked(void **state)
{
	static const struct {
		const char *host;
		enum net_tls_check check;
		bool ok;
	} facts[] = {
		{ "mx.example.org", NET_TLS_VERIFY, true },
		{ "MX.example.org", NET_TLS_VERIFY, true },
		{ "127.0.0.1", NET_TLS_VERIFY, true },
		{ "other.example.org", NET_TLS_VERIFY, false },
		{ "127.0.0.2", NET_TLS_VERIFY, false },
		{ "other.example.org", NET_TLS_OPPORTUNISTIC, true },
	};
	struct fixture *f = *state;
	struct net_tls *server = server_new(f), *client;
	struct err err = { 0 };
	size_t i;

	client = net_tls_client_new(f->cert, &err);
	assert_non_null(client);
	for (i = 0; i < sizeof facts / sizeof *facts; i++) {
		print_message("%s\n", facts[i].host);
		shake(f, server, client, facts[i].host, facts[i].check);
		assert_int_equal(f->client.connected, facts[i].ok);
		if (!facts[i].ok) {
			assert_non_null(strstr(f->client.why, "mismatch"));
			continue;
		}
		assert_int_equal(net_tls_is_verified(f->client.bev),
		    facts[i].check == NET_TLS_VERIFY);
		assert_string_equal(net_tls_version(f->client.bev), "TLSv1.3");
	}
	net_tls_free(client);
	net_tls_free(server);
}

static void
test_authority_is_checked(void **state)
{
	struct fixture *f = *state;
	struct net_tls *server = server_new(f), *client;
	struct err err = { 0 };

	client = net_tls_client_new(f->other, &err);
	shake(f, server, client, "mx.example.org", NET_TLS_VERIFY);
	assert_false(f->client.connected);
	assert_true(f->client.why[0] != '\0');
	net_tls_free(client);
	net_tls_free(server);
}

/* Bytes in the clear behind STARTTLS are on neither side of TLS. */
static void
test_upgrade_carries_nothing(void **state)
{
	struct fixture *f = *state;
	struct net_tls *server = server_new(f), *client;
	struct bufferevent *plain;
	struct err err = { 0 };
	int fds[2];

	client = net_tls_client_new(f->cert, &err);
	pair(fds);
	plain = bufferevent_socket_new(f->base, fds[0], BEV_OPT_CLOSE_ON_FREE);
	bufferevent_enable(plain, EV_READ);
	assert_int_equal(write(fds[1], "MAIL FROM:<evil@x>\r\n", 20), 20);
	settle(f);
	assert_int_equal(evbuffer_get_length(bufferevent_get_input(plain)), 20);
	f->server.bev = net_tls_upgrade(server, plain);
	watch(&f->server);
	f->client.bev = net_tls_upgrade_client(client,
	    bufferevent_socket_new(f->base, fds[1], BEV_OPT_CLOSE_ON_FREE),
	    "mx.example.org", NET_TLS_VERIFY);
	watch(&f->client);
	settle(f);
	assert_true(f->client.connected);
	bufferevent_write(f->client.bev, "EHLO", 4);
	settle(f);
	assert_string_equal(f->server.got, "EHLO");
	net_tls_free(client);
	net_tls_free(server);
}

static void
test_old_versions_are_refused(void **state)
{
	struct fixture *f = *state;
	struct net_tls *server = server_new(f);
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	int fds[2];

	SSL_CTX_set_min_proto_version(ctx, TLS1_VERSION);
	SSL_CTX_set_max_proto_version(ctx, TLS1_1_VERSION);
	SSL_CTX_set_cipher_list(ctx, "ALL:@SECLEVEL=0");
	pair(fds);
	f->server.bev = net_tls_accept(server, f->base, fds[0]);
	f->client.bev = bufferevent_openssl_socket_new(f->base, fds[1],
	    SSL_new(ctx), BUFFEREVENT_SSL_CONNECTING, BEV_OPT_CLOSE_ON_FREE);
	watch(&f->server);
	watch(&f->client);
	settle(f);
	assert_false(f->server.connected);
	assert_true(f->server.failed);
	SSL_CTX_free(ctx);
	net_tls_free(server);
}

static void
test_reload(void **state)
{
	struct fixture *f = *state;
	struct net_tls *server = server_new(f), *client;
	struct err err = { 0 };

	assert_false(
	    net_tls_server_reload(server, "/nonexistent", f->key, &err));
	assert_non_null(strstr(err.text, "/nonexistent"));
	assert_false(net_tls_server_reload(server, f->other, f->key, &err));
	client = net_tls_client_new(f->cert, &err);
	shake(f, server, client, "mx.example.org", NET_TLS_VERIFY);
	assert_true(f->client.connected); /* the old one is still in use */
	assert_true(
	    net_tls_server_reload(server, f->other, f->other_key, &err));
	shake(f, server, client, "mx.example.org", NET_TLS_VERIFY);
	assert_false(f->client.connected);
	net_tls_free(client);
	client = net_tls_client_new(f->other, &err);
	shake(f, server, client, "mx.example.org", NET_TLS_VERIFY);
	assert_true(f->client.connected);
	net_tls_free(client);
	net_tls_free(server);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_names_are_checked),
		T(test_authority_is_checked),
		T(test_upgrade_carries_nothing),
		T(test_old_versions_are_refused),
		T(test_reload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
