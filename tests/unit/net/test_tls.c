/* SPDX-License-Identifier: ISC */
/*
 * TLS between two streams: names and authorities are checked, STARTTLS
 * carries nothing over, TLS 1.1 is refused, reload works.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <event2/buffer.h>

#include "base/err.h"
#include "tests/unit/net/ends.h"

static void
shake(struct fixture *f, struct net_tls *server, struct net_tls *client,
    const char *host, enum net_tls_check check)
{
	ends_pair(f);
	assert_true(net_stream_serve_tls(f->server.s, server));
	ends_watch(&f->client, net_stream_new(f->base, f->fds[1]));
	f->fds[1] = -1;
	assert_true(net_stream_ask_tls(f->client.s, client, host, check, NULL));
	ends_settle(f);
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
	struct net_tls *client;
	struct err err = { 0 };
	size_t i;

	client = net_tls_client_new(f->cert, &err);
	assert_non_null(client);
	for (i = 0; i < sizeof facts / sizeof *facts; i++) {
		print_message("%s\n", facts[i].host);
		shake(f, f->tls, client, facts[i].host, facts[i].check);
		assert_int_equal(f->client.connected, facts[i].ok);
		if (!facts[i].ok) {
			assert_non_null(strstr(f->client.why, "mismatch"));
			continue;
		}
		assert_int_equal(net_stream_is_verified(f->client.s),
		    facts[i].check == NET_TLS_VERIFY);
		assert_string_equal(net_stream_version(f->client.s), "TLSv1.3");
	}
	net_tls_free(client);
}

static void
test_authority_is_checked(void **state)
{
	struct fixture *f = *state;
	struct net_tls *client;
	struct err err = { 0 };

	client = net_tls_client_new(f->other, &err);
	shake(f, f->tls, client, "mx.example.org", NET_TLS_VERIFY);
	assert_false(f->client.connected);
	assert_true(f->client.why[0] != '\0');
	net_tls_free(client);
}

/* Bytes in the clear behind STARTTLS are on neither side of TLS. */
static void
test_upgrade_carries_nothing(void **state)
{
	struct fixture *f = *state;
	struct net_tls *client;
	struct err err = { 0 };

	client = net_tls_client_new(f->cert, &err);
	ends_pair(f);
	net_stream_tell(f->server.s, NULL, NULL);
	assert_int_equal(write(f->fds[1], "MAIL FROM:<evil@x>\r\n", 20), 20);
	ends_settle(f);
	assert_int_equal(
	    evbuffer_get_length(net_stream_input(f->server.s)), 20);
	assert_true(net_stream_serve_tls(f->server.s, f->tls));
	ends_watch(&f->server, f->server.s);
	ends_watch(&f->client, net_stream_new(f->base, f->fds[1]));
	f->fds[1] = -1;
	assert_true(net_stream_ask_tls(
	    f->client.s, client, "mx.example.org", NET_TLS_VERIFY, NULL));
	ends_settle(f);
	assert_true(f->client.connected);
	net_stream_write(f->client.s, "EHLO", 4);
	ends_settle(f);
	assert_string_equal(f->server.got, "EHLO");
	net_tls_free(client);
}

static void
test_old_versions_are_refused(void **state)
{
	struct fixture *f = *state;

	ends_raw(f, TLS1_1_VERSION);
	raw_shake(f, 0);
	assert_false(f->server.connected);
	assert_true(f->server.failed);
	ends_raw(f, TLS1_2_VERSION);
	raw_shake(f, 0);
	assert_true(f->server.connected);
}

static bool
reload(struct fixture *f, const char *cert, const char *key, const char *more,
    struct err *err)
{
	return net_tls_server_reload(
	    f->tls, &(struct net_tls_files){ cert, key, more }, err);
}

static void
test_reload(void **state)
{
	struct fixture *f = *state;
	struct net_tls *client;
	struct err err = { 0 };

	assert_false(reload(f, "/nonexistent", f->key, NULL, &err));
	assert_non_null(strstr(err.text, "/nonexistent"));
	assert_false(reload(f, f->other, f->key, NULL, &err));
	client = net_tls_client_new(f->cert, &err);
	shake(f, f->tls, client, "mx.example.org", NET_TLS_VERIFY);
	assert_true(f->client.connected); /* the old one is still in use */
	assert_true(reload(f, f->other, f->other_key, NULL, &err));
	shake(f, f->tls, client, "mx.example.org", NET_TLS_VERIFY);
	assert_false(f->client.connected);
	net_tls_free(client);
	client = net_tls_client_new(f->other, &err);
	shake(f, f->tls, client, "mx.example.org", NET_TLS_VERIFY);
	assert_true(f->client.connected);
	net_tls_free(client);
}

/* Does a client that trusts only `ca` get a certificate for `host`? */
static bool
gets(struct fixture *f, const char *ca, const char *host)
{
	struct err err = { 0 };
	struct net_tls *client = net_tls_client_new(ca, &err);
	bool ok;

	shake(f, f->tls, client, host, NET_TLS_VERIFY);
	ok = f->client.connected;
	net_tls_free(client);
	return ok;
}

/* SNI: each name its certificate, the first for whoever names none of them. */
static void
test_names_choose(void **state)
{
	struct fixture *f = *state;
	char more[64], a[80], b[80];
	struct err err = { 0 };

	snprintf(more, sizeof more, "%s/more", f->dir);
	snprintf(a, sizeof a, "%s/a.pem", more);
	snprintf(b, sizeof b, "%s/a.key", more);
	assert_int_equal(mkdir(more, 0700), 0);
	ends_certificate(a, b, "DNS:two.example.net,DNS:*.wild.example");
	assert_true(reload(f, f->cert, f->key, more, &err));
	assert_true(gets(f, f->cert, "mx.example.org"));
	assert_true(gets(f, f->cert, "127.0.0.1")); /* no name is sent */
	assert_true(gets(f, a, "two.example.net"));
	assert_true(gets(f, a, "TWO.example.net"));
	assert_true(gets(f, a, "x.wild.example"));
	assert_false(gets(f, f->cert, "two.example.net"));
	assert_false(gets(f, a, "mx.example.org"));
	assert_false(gets(f, a, "x.y.wild.example"));
	/* a key is missing: nothing changes, connections go on */
	assert_int_equal(unlink(b), 0);
	assert_false(reload(f, f->cert, f->key, more, &err));
	assert_non_null(strstr(err.text, "a.key"));
	assert_true(gets(f, a, "two.example.net"));
	/* shaken while the set that it was shaken with goes away */
	assert_true(reload(f, f->cert, f->key, NULL, &err));
	net_stream_write(f->client.s, "EHLO", 4);
	ends_settle(f);
	assert_string_equal(f->server.got, "EHLO");
	assert_false(gets(f, a, "two.example.net"));
	assert_int_equal(unlink(a), 0);
	assert_int_equal(rmdir(more), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_names_are_checked),
		T(test_authority_is_checked),
		T(test_upgrade_carries_nothing),
		T(test_old_versions_are_refused),
		T(test_reload),
		T(test_names_choose),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
