/* SPDX-License-Identifier: ISC */
/* Replies of next hops, and the bytes sent to them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include "base/err.h"
#include "deliver/backoff.h"
#include "deliver/reply.h"
#include "deliver/route.h"
#include "deliver/stuff.h"
#include "net/peer.h"

struct reply_case {
	const char *lines; /* separated by \n */
	enum reply_step last;
	int code;
	const char *enhanced, *text;
};

static const struct reply_case replies[] = {
	{ "250 ok", REPLY_READY, 250, "", "ok" },
	{ "250", REPLY_READY, 250, "", "" },
	{ "250-a\n250 b", REPLY_READY, 250, "", "a / b" },
	{ "550 5.1.1 no such user", REPLY_READY, 550, "5.1.1", "no such user" },
	{ "550-5.7.1 one\n550 5.7.1 two", REPLY_READY, 550, "5.7.1",
	    "one / two" },
	/* The class must be the code's: RFC 2034 4. */
	{ "450 5.1.1 odd", REPLY_READY, 450, "", "5.1.1 odd" },
	{ "550 5.1 short", REPLY_READY, 550, "", "5.1 short" },
	{ "250-a\n251 b", REPLY_MALFORMED, 0, NULL, NULL },
	{ "25x", REPLY_MALFORMED, 0, NULL, NULL },
	{ "650 no", REPLY_MALFORMED, 0, NULL, NULL },
	{ "250_no", REPLY_MALFORMED, 0, NULL, NULL },
	{ "", REPLY_MALFORMED, 0, NULL, NULL },
	{ "554 \033[31mred\177\303\251", REPLY_READY, 554, "", "?[31mred???" },
	{ "250-more", REPLY_MORE, 250, "", "more" },
};

static enum reply_step
feed(struct reply_parser *p, const char *lines)
{
	enum reply_step step = REPLY_MORE;
	const char *end;

	reply_reset(p);
	for (; step == REPLY_MORE; lines = end + 1) {
		end = strchr(lines, '\n');
		if (end == NULL)
			return reply_line(p, str_of(lines));
		step =
		    reply_line(p, (struct str){ lines, (size_t)(end - lines) });
	}
	return step;
}

static void
test_replies(void **state)
{
	struct reply_parser p;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
		const struct reply_case *c = &replies[i];

		print_message("%s\n", c->lines);
		assert_int_equal(feed(&p, c->lines), c->last);
		if (c->last == REPLY_MALFORMED)
			continue;
		assert_int_equal(p.reply.code, c->code);
		assert_string_equal(p.reply.enhanced, c->enhanced);
		assert_string_equal(p.reply.text, c->text);
	}
}

static void
test_ehlo(void **state)
{
	struct reply_parser p;

	(void)state;
	assert_int_equal(
	    feed(&p, "250-STARTTLS.example\n250-SIZE 1000\n250-starttls\n"
		     "250-AUTH LOGIN plain\n250 8BITMIME"),
	    REPLY_READY);
	assert_true(p.reply.starttls && p.reply.eightbitmime);
	assert_true(p.reply.auth_plain && p.reply.auth_login);
	assert_false(p.reply.smtputf8);
	assert_int_equal(p.reply.size, 1000);
	assert_false(p.reply.dsn || p.reply.requiretls);
	assert_int_equal(
	    feed(&p, "250-x\n250-DSN\n250-SMTPUTF8\n250 requiretls"),
	    REPLY_READY);
	assert_true(p.reply.dsn && p.reply.requiretls && p.reply.smtputf8);
	/* A host's name on the first line is no keyword. */
	assert_int_equal(feed(&p, "250-STARTTLS\n250 x"), REPLY_READY);
	assert_false(p.reply.starttls);
}

static void
test_reply_caps(void **state)
{
	struct reply_parser p;
	int i;

	(void)state;
	reply_reset(&p);
	for (i = 0; i < REPLY_LINES_MAX; i++)
		assert_int_equal(reply_line(&p, str_lit("250-x")), REPLY_MORE);
	assert_int_equal(reply_line(&p, str_lit("250-x")), REPLY_MALFORMED);
}

struct stuff_case {
	const char *in, *out; /* out NULL: refused */
};

static const struct stuff_case stuffs[] = {
	{ "", "" },
	{ "a\r\n", "a\r\n" },
	{ ".\r\n", "..\r\n" },
	{ "a\r\n.\r\nb\r\n", "a\r\n..\r\nb\r\n" },
	{ "a\r\n..b\r\n", "a\r\n...b\r\n" },
	{ "a.b\r\n", "a.b\r\n" },
	{ "a\n", NULL },
	{ "a\rb\r\n", NULL },
	{ "\r\r\n", NULL },
	{ "ab\tc\xc3\xa4.\r\n.d\r\n", "ab\tc\xc3\xa4.\r\n..d\r\n" },
	{ "abc\nd\r\n", NULL },
	{ "abc\rd\r\n", NULL },
};

/* Every split of every case gives the same bytes. */
static void
test_stuffing(void **state)
{
	size_t i, cut;

	(void)state;
	for (i = 0; i < sizeof(stuffs) / sizeof(stuffs[0]); i++) {
		const char *in = stuffs[i].in;

		for (cut = 0; cut <= strlen(in); cut++) {
			struct evbuffer *out = evbuffer_new();
			struct stuff s = { 0 };
			bool ok =
			    stuff_add(&s, out, in, cut) &&
			    stuff_add(&s, out, in + cut, strlen(in) - cut);
			size_t n = evbuffer_get_length(out);

			assert_int_equal(ok, stuffs[i].out != NULL);
			if (ok) {
				assert_true(stuff_is_complete(&s));
				assert_int_equal(n, strlen(stuffs[i].out));
				assert_memory_equal(
				    evbuffer_pullup(out, -1), stuffs[i].out, n);
			}
			evbuffer_free(out);
		}
	}
}

static void
test_incomplete(void **state)
{
	struct evbuffer *out = evbuffer_new();
	struct stuff s = { 0 };

	(void)state;
	assert_true(stuff_add(&s, out, "no end", 6));
	assert_false(stuff_is_complete(&s));
	assert_true(stuff_add(&s, out, "\r", 1));
	assert_false(stuff_is_complete(&s));
	assert_true(stuff_add(&s, out, "\n", 1));
	assert_true(stuff_is_complete(&s));
	evbuffer_free(out);
}

struct address_case {
	const char *text;
	bool may;
};

static const struct address_case addresses[] = {
	{ "8.8.8.8", true },
	{ "127.0.0.1", false },
	{ "10.1.2.3", false },
	{ "100.64.0.1", false },
	{ "100.128.0.1", true },
	{ "169.254.169.254", false },
	{ "172.31.255.255", false },
	{ "172.32.0.1", true },
	{ "192.168.0.1", false },
	{ "198.19.0.1", false },
	{ "224.0.0.1", false },
	{ "255.255.255.255", false },
	{ "0.0.0.0", false },
	{ "2606:4700::1111", true },
	{ "::1", false },
	{ "::", false },
	{ "::ffff:10.0.0.1", false },
	{ "64:ff9b::7f00:1", false },
	{ "2001::1", false },
	{ "2001:db8::1", false },
	{ "2002:7f00:1::", false },
	{ "fc00::1", false },
	{ "fe80::1", false },
	{ "ff02::1", false },
	/* Each block's last, and what lies beside it. */
	{ "1.0.0.0", true },
	{ "9.255.255.255", true },
	{ "11.0.0.0", true },
	{ "100.63.255.255", true },
	{ "126.255.255.255", true },
	{ "128.0.0.0", true },
	{ "169.253.255.255", true },
	{ "169.255.0.0", true },
	{ "172.15.255.255", true },
	{ "191.255.255.255", true },
	{ "192.0.1.0", true },
	{ "192.0.3.0", true },
	{ "192.88.98.255", true },
	{ "192.88.100.0", true },
	{ "192.167.255.255", true },
	{ "192.169.0.0", true },
	{ "198.17.255.255", true },
	{ "198.20.0.0", true },
	{ "198.51.99.255", true },
	{ "198.51.101.0", true },
	{ "203.0.112.255", true },
	{ "203.0.114.0", true },
	{ "223.255.255.255", true },
	{ "2001:200::1", true },
	{ "2001:db7:ffff::1", true },
	{ "2001:db9::1", true },
	{ "2003::1", true },
	{ "3fff:1000::1", true },
	{ "0.255.255.255", false },
	{ "10.255.255.255", false },
	{ "100.127.255.255", false },
	{ "127.255.255.255", false },
	{ "172.16.0.0", false },
	{ "192.0.0.255", false },
	{ "192.0.2.255", false },
	{ "192.88.99.1", false },
	{ "198.18.0.0", false },
	{ "198.51.100.7", false },
	{ "203.0.113.255", false },
	{ "240.0.0.1", false },
	{ "::7f00:1", false },
	{ "64:ff9b:1::1", false },
	{ "100::1", false },
	{ "2001:1ff:ffff::1", false },
	{ "3fff::1", false },
	{ "4000::1", false },
	{ "fd00::1", false },
	{ "fec0::1", false },
};

static void
test_addresses(void **state)
{
	struct net_cidrs none = { 0 }, loopback = { 0 };
	struct err err;
	size_t i;

	(void)state;
	assert_true(net_cidrs_add(&loopback, "127.0.0.0/8", &err));
	for (i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
		struct sockaddr_in v4 = { .sin_family = AF_INET };
		struct net_peer peer;
		const char *text = addresses[i].text;

		print_message("%s\n", text);
		if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
			net_peer_init(&peer, (struct sockaddr *)&v4);
		else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1)
			net_peer_init(&peer, (struct sockaddr *)&v6);
		else
			fail();
		assert_int_equal(route_may_connect(&peer, &none),
		    addresses[i].may ? ROUTE_MAY : ROUTE_MAY_NOT);
		if (strcmp(text, "127.0.0.1") == 0)
			assert_int_equal(
			    route_may_connect(&peer, &loopback), ROUTE_MAY);
	}
}

/* Whether it is our own cannot be said without a socket: no, then. */
static void
test_no_socket(void **state)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct rlimit was, none;
	struct net_cidrs nobody = { 0 };
	struct net_peer peer;
	enum route_may may;

	(void)state;
	assert_int_equal(inet_pton(AF_INET, "8.8.8.8", &v4.sin_addr), 1);
	net_peer_init(&peer, (struct sockaddr *)&v4);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	may = route_may_connect(&peer, &nobody);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(may, ROUTE_MAY_UNKNOWN);
	assert_int_equal(route_may_connect(&peer, &nobody), ROUTE_MAY);
}

static void
test_backoff(void **state)
{
	static const int minutes[] = { 1, 5, 15, 30, 60, 120, 240, 240, 240 };
	int i, round;

	(void)state;
	for (i = 0; i < 9; i++) {
		for (round = 0; round < 100; round++) {
			int s = backoff_seconds(i);

			assert_in_range(s, minutes[i] * 54, minutes[i] * 66);
		}
	}
	assert_in_range(backoff_seconds(-1), 54, 66);
	assert_in_range(backoff_seconds(1000000), 240 * 54, 240 * 66);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replies),
		cmocka_unit_test(test_ehlo),
		cmocka_unit_test(test_reply_caps),
		cmocka_unit_test(test_stuffing),
		cmocka_unit_test(test_incomplete),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_no_socket),
		cmocka_unit_test(test_backoff),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
