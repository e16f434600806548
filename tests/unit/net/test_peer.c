/* SPDX-License-Identifier: ISC */
/* Addresses, networks, the ledger of clients, PROXY headers, sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <event2/event.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/ledger.h"
#include "net/listen.h"
#include "net/peer.h"
#include "net/proxy.h"

static struct net_peer
peer_of(const char *text)
{
	struct sockaddr_in in4 = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct net_peer peer;

	if (inet_pton(AF_INET, text, &in4.sin_addr) == 1) {
		net_peer_init(&peer, (struct sockaddr *)&in4);
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
		net_peer_init(&peer, (struct sockaddr *)&in6);
	}
	return peer;
}

static void
test_peer_text(void **state)
{
	struct net_peer peer;

	(void)state;
	assert_string_equal(peer_of("192.0.2.7").text, "192.0.2.7");
	assert_string_equal(peer_of("2001:db8::1").text, "2001:db8::1");
	/* a v4 client on a v6 socket is the same client */
	assert_string_equal(peer_of("::ffff:192.0.2.7").text, "192.0.2.7");
	net_peer_init(&peer, NULL);
	assert_string_equal(peer.text, "::");
}

static void
test_cidrs(void **state)
{
	static const struct {
		const char *set, *ip;
		bool has;
	} facts[] = {
		{ "10.0.0.0/8", "10.255.0.1", true },
		{ "10.0.0.0/8", "11.0.0.1", false },
		{ "192.0.2.7", "192.0.2.7", true },
		{ "192.0.2.7", "192.0.2.8", false },
		{ "192.0.2.128/25", "192.0.2.127", false },
		{ "192.0.2.128/25", "192.0.2.200", true },
		{ "0.0.0.0/0", "8.8.8.8", true },
		{ "0.0.0.0/0", "2001:db8::1", false },
		{ "2001:db8::/33", "2001:db8:7fff::1", true },
		{ "2001:db8::/33", "2001:db8:8000::1", false },
		{ "10.0.0.0/8, ::1 127.0.0.1", "::1", true },
		{ "", "::1", false },
	};
	static const char *const bad[] = { "10.0.0.0/33", "x", "10.0.0/8",
		"::1/129", "10.0.0.0/", "10.0.0.0/-1" };
	struct net_peer peer;
	struct net_cidrs set;
	struct err err;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof facts / sizeof *facts; i++) {
		print_message("%s in %s\n", facts[i].ip, facts[i].set);
		memset(&set, 0, sizeof set);
		assert_true(net_cidrs_add(&set, facts[i].set, &err));
		peer = peer_of(facts[i].ip);
		assert_int_equal(net_cidrs_has(&set, &peer), facts[i].has);
	}
	for (i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(net_cidrs_add(&set, bad[i], &err));
}

static void
test_ledger_counts_groups(void **state)
{
	struct net_ledger *ledger = net_ledger_new();
	struct net_peer a = peer_of("192.0.2.1"), b = peer_of("192.0.2.2");
	struct net_peer v6 = peer_of("2001:db8::1");
	struct net_peer same64 = peer_of("2001:db8::ffff:1");
	int p1, p2, p3, none;

	(void)state;
	assert_true(net_ledger_enter(ledger, 0, &a, 2, &p1));
	assert_true(net_ledger_enter(ledger, 1, &a, 2, &p2));
	assert_false(net_ledger_enter(ledger, 0, &a, 2, &none));
	assert_true(net_ledger_enter(ledger, 0, &b, 2, &p3));
	net_ledger_leave(ledger, 0, p1);
	assert_true(net_ledger_enter(ledger, 0, &a, 2, &p1));
	assert_true(net_ledger_enter(ledger, 0, &v6, 1, &p3));
	assert_false(net_ledger_enter(ledger, 0, &same64, 1, &none));
	net_ledger_free(ledger);
}

/* A worker killed with connections open does not leave them counted. */
static void
test_ledger_over_processes(void **state)
{
	struct net_ledger *ledger = net_ledger_new();
	struct net_peer a = peer_of("192.0.2.1");
	int place, status, i;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0) {
		for (i = 0; i < 5; i++)
			net_ledger_enter(ledger, 3, &a, 5, &place);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_false(net_ledger_enter(ledger, 0, &a, 5, &place));
	net_ledger_forget(ledger, 3);
	assert_true(net_ledger_enter(ledger, 0, &a, 1, &place));
	net_ledger_free(ledger);
}

static void
test_ledger_blame_fades(void **state)
{
	struct net_ledger *ledger = net_ledger_new();
	struct net_peer a = peer_of("192.0.2.1"), b = peer_of("192.0.2.2");
	int i;

	(void)state;
	for (i = 1; i <= 8; i++)
		assert_int_equal(net_ledger_blame(ledger, &a, 1000), i);
	assert_int_equal(net_ledger_blamed(ledger, &b, 1000), 0);
	assert_int_equal(net_ledger_blamed(ledger, &a, 1000 + 599999), 8);
	assert_int_equal(net_ledger_blamed(ledger, &a, 1000 + 600000), 4);
	assert_int_equal(net_ledger_blamed(ledger, &a, 1000 + 3000000), 0);
	net_ledger_free(ledger);
}

static void
test_ledger_says_how_long(void **state)
{
	struct net_ledger *ledger = net_ledger_new();
	struct net_peer a = peer_of("2001:db8::1"), b = peer_of("2001:db8::2");
	struct net_peer other = peer_of("2001:db8:0:1::1");
	int i;

	(void)state;
	for (i = 0; i < 8; i++)
		net_ledger_blame(ledger, &a, 1000);
	assert_int_equal(net_ledger_wait_s(ledger, &b, 9, 1000), 0);
	assert_int_equal(net_ledger_wait_s(ledger, &b, 8, 1000), 600);
	assert_int_equal(net_ledger_wait_s(ledger, &b, 8, 1000 + 599500), 1);
	assert_int_equal(net_ledger_wait_s(ledger, &b, 4, 1000), 1200);
	assert_int_equal(net_ledger_wait_s(ledger, &other, 1, 1000), 0);
	net_ledger_forgive(ledger, &b, 1000);
	assert_int_equal(net_ledger_blamed(ledger, &a, 1000), 7);
	net_ledger_forgive(ledger, &other, 1000);
	assert_int_equal(net_ledger_blamed(ledger, &other, 1000), 0);
	assert_int_equal(net_ledger_wait_s(ledger, &b, 7, 1000 + 600000), 0);
	net_ledger_free(ledger);
}

static void
test_local_addresses(void **state)
{
	static const char *const here[] = { "127.0.0.1", "127.9.9.9", "::1",
		"::" };
	static const char *const there[] = { "128.0.0.1", "10.0.0.1", "::2",
		"fe80::1", "2001:db8::1" };
	struct net_peer peer;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof here / sizeof here[0]; i++) {
		peer = peer_of(here[i]);
		assert_true(net_peer_is_local(&peer));
	}
	for (i = 0; i < sizeof there / sizeof there[0]; i++) {
		peer = peer_of(there[i]);
		assert_false(net_peer_is_local(&peer));
	}
	net_peer_init(&peer, NULL);
	assert_true(net_peer_is_local(&peer));
}

static void
test_ledger_never_grows(void **state)
{
	struct net_ledger *ledger = net_ledger_new();
	struct net_peer peer = peer_of("2001:db8::1");
	int place, i;

	(void)state;
	for (i = 0; i < 100000; i++) {
		memcpy(peer.ip + 2, &i, sizeof i);
		assert_true(net_ledger_enter(ledger, 0, &peer, 1, &place));
	}
	net_ledger_free(ledger);
}

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"

static void
test_proxy_headers(void **state)
{
	static const char v4[] =
	    SIGNATURE "\x21\x11\0\x0c"
		      "\xc0\0\x02\x07\x7f\0\0\x01\x30\x39\x02\x4b"
		      "EHLO";
	static const char local[] = SIGNATURE "\x20\0\0\0";
	struct net_peer peer = peer_of("10.0.0.1");
	size_t used, i;

	(void)state;
	for (i = 0; i < 28; i++)
		assert_int_equal(
		    net_proxy_parse((const unsigned char *)v4, i, &peer, &used),
		    NET_PROXY_MORE);
	assert_int_equal(net_proxy_parse((const unsigned char *)v4,
			     sizeof v4 - 1, &peer, &used),
	    NET_PROXY_OK);
	assert_int_equal(used, 28);
	assert_string_equal(peer.text, "192.0.2.7");
	assert_int_equal(peer.port, 12345);
	peer = peer_of("10.0.0.1");
	assert_int_equal(net_proxy_parse((const unsigned char *)local,
			     sizeof local - 1, &peer, &used),
	    NET_PROXY_OK);
	assert_string_equal(peer.text, "10.0.0.1");
	assert_int_equal(
	    net_proxy_parse((const unsigned char *)"EHLO x", 6, &peer, &used),
	    NET_PROXY_BAD);
	assert_int_equal(
	    net_proxy_parse((const unsigned char *)SIGNATURE "\x31\x11\0\x0c",
		16, &peer, &used),
	    NET_PROXY_BAD);
	assert_int_equal(
	    net_proxy_parse((const unsigned char *)SIGNATURE "\x21\x11\xff\xff",
		16, &peer, &used),
	    NET_PROXY_BAD);
}

static void
test_proxy_lines(void **state)
{
	static const struct {
		const char *line, *peer; /* NULL: refused */
		int port;
	} facts[] = {
		{ "PROXY TCP4 192.0.2.7 127.0.0.1 12345 587\r\nEHLO",
		    "192.0.2.7", 12345 },
		{ "PROXY TCP6 2001:db8::7 ::1 1 587\r\n", "2001:db8::7", 1 },
		{ "PROXY UNKNOWN\r\nEHLO", "10.0.0.1", 0 },
		{ "PROXY TCP4 2001:db8::7 ::1 1 587\r\n", NULL, 0 },
		{ "PROXY TCP4 192.0.2.7 127.0.0.1 65536 587\r\n", NULL, 0 },
		{ "PROXY TCP4 192.0.2.7 127.0.0.1 1\r\n", NULL, 0 },
		{ "PROXY TCP4 192.0.2.7 127.0.0.1 1 2\n", NULL, 0 },
		{ "PROXY\r\nEHLO x\r\n", NULL, 0 },
	};
	struct net_peer peer;
	size_t used, i, k;

	(void)state;
	for (i = 0; i < sizeof facts / sizeof *facts; i++) {
		const unsigned char *p = (const unsigned char *)facts[i].line;
		size_t n = strlen(facts[i].line);
		size_t end =
		    (size_t)(strchr(facts[i].line, '\n') - facts[i].line) + 1;

		print_message("%s", facts[i].line);
		peer = peer_of("10.0.0.1");
		/* What is asked for never reaches behind the line. */
		for (k = 0; facts[i].peer != NULL && k < end; k++) {
			assert_int_equal(net_proxy_parse(p, k, &peer, &used),
			    NET_PROXY_MORE);
			assert_true(used > k && used <= end);
		}
		assert_int_equal(net_proxy_parse(p, n, &peer, &used),
		    facts[i].peer != NULL ? NET_PROXY_OK : NET_PROXY_BAD);
		if (facts[i].peer == NULL)
			continue;
		assert_int_equal(used, end);
		assert_string_equal(peer.text, facts[i].peer);
		assert_int_equal(peer.port, facts[i].port);
	}
}

static void
test_bind(void **state)
{
	static const char *const bad[] = { "", "587", ":587", "host:587",
		"127.0.0.1:x", "127.0.0.1:99999999", "::1:587", "[::1:587",
		"127.0.0.1" };
	struct err err;
	char name[80];
	size_t i;
	int fd, again;

	(void)state;
	fd = net_bind("127.0.0.1:0", true, &err);
	assert_true(fd >= 0);
	net_bound_name(fd, name, sizeof name);
	assert_memory_equal(name, "127.0.0.1:", 10);
	again = net_bind(name, true, &err); /* SO_REUSEPORT */
	assert_true(again >= 0);
	close(again);
	assert_int_equal(net_bind(name, false, &err), -1);
	close(fd);
	for (i = 0; i < sizeof bad / sizeof *bad; i++) {
		print_message("\"%s\"\n", bad[i]);
		assert_int_equal(net_bind(bad[i], false, &err), -1);
		assert_true(err.text[0] != '\0');
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_peer_text),
		cmocka_unit_test(test_cidrs),
		cmocka_unit_test(test_ledger_counts_groups),
		cmocka_unit_test(test_ledger_over_processes),
		cmocka_unit_test(test_ledger_blame_fades),
		cmocka_unit_test(test_ledger_says_how_long),
		cmocka_unit_test(test_local_addresses),
		cmocka_unit_test(test_ledger_never_grows),
		cmocka_unit_test(test_proxy_headers),
		cmocka_unit_test(test_proxy_lines),
		cmocka_unit_test(test_bind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
