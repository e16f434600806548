/* SPDX-License-Identifier: ISC */
/*
 * Streams: records cut and joined in every way, full sockets, the end of the
 * peer, the end of the stream inside its own callbacks, STARTTLS, fairness.
 */
#include "tests/unit/net/ends.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/event.h>

#define BIG 600000

static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };
#define VERSIONS (sizeof versions / sizeof *versions)

static char *
pattern(size_t n)
{
	char *p = malloc(n + 1);
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (char)('a' + (i * 7 + i / 1000) % 26);
	p[n] = '\0';
	return p;
}

static void
shaken(struct fixture *f, int version)
{
	ends_raw(f, version);
	raw_shake(f, 0);
	assert_true(f->server.connected);
	assert_int_equal(f->server.told, 1);
}

static void
test_plain(void **state)
{
	struct fixture *f = *state;
	char got[16];

	ends_pair(f);
	assert_int_equal(write(f->fds[1], "hello", 5), 5);
	ends_settle(f);
	assert_string_equal(f->server.got, "hello");
	net_stream_write(f->server.s, "good ", 5);
	net_stream_write(f->server.s, "day", 3);
	assert_int_equal(recv(f->fds[1], got, sizeof got, 0), -1);
	ends_settle(f);
	assert_int_equal(recv(f->fds[1], got, sizeof got, 0), 8);
	assert_memory_equal(got, "good day", 8);
	assert_int_equal(f->server.drained, 1);
	assert_string_equal(net_stream_version(f->server.s), "");
}

/* What lay before the end is told first; after it, output still leaves. */
static void
test_half_close(void **state)
{
	struct fixture *f = *state;
	char got[16];

	ends_pair(f);
	assert_int_equal(write(f->fds[1], "last", 4), 4);
	shutdown(f->fds[1], SHUT_WR);
	ends_settle(f);
	assert_string_equal(f->server.got, "last");
	assert_true(f->server.eof);
	assert_int_equal(f->server.told, 1);
	net_stream_read(f->server.s, true);
	assert_false(net_stream_reads(f->server.s));
	net_stream_write(f->server.s, "bye", 3);
	ends_settle(f);
	assert_int_equal(recv(f->fds[1], got, sizeof got, 0), 3);
	net_stream_bye(f->server.s);
	assert_int_equal(recv(f->fds[1], got, sizeof got, 0), 0);
}

static void
test_half_close_in_tls(void **state)
{
	struct fixture *f = *state;
	char got[16];
	size_t i;

	for (i = 0; i < VERSIONS; i++) {
		shaken(f, versions[i]);
		raw_encrypt(&f->raw, "last", 4);
		SSL_shutdown(f->raw.ssl);
		raw_send(f, 0);
		assert_string_equal(f->server.got, "last");
		assert_true(f->server.eof);
		assert_int_equal(f->server.told, 2);
		net_stream_write(f->server.s, "bye", 3);
		ends_settle(f);
		net_stream_bye(f->server.s);
		assert_int_equal(raw_receive(&f->raw, got, sizeof got), 3);
		assert_int_equal(
		    SSL_get_shutdown(f->raw.ssl) & SSL_RECEIVED_SHUTDOWN,
		    SSL_RECEIVED_SHUTDOWN);
	}
}

/* Handshake and records, any number of octets at a time. */
static void
test_every_cut(void **state)
{
	static const size_t steps[] = { 1, 2, 3, 5, 6, 21, 22, 0 };
	struct fixture *f = *state;
	size_t i, k;

	for (i = 0; i < VERSIONS; i++) {
		for (k = 0; k < sizeof steps / sizeof *steps; k++) {
			ends_raw(f, versions[i]);
			raw_shake(f, steps[k]);
			assert_true(f->server.connected);
			raw_encrypt(&f->raw, "one", 3);
			raw_encrypt(&f->raw, "two", 3);
			raw_send(f, steps[k]);
			assert_string_equal(f->server.got, "onetwo");
			assert_false(f->server.failed);
		}
	}
}

/* One record in two reads, cut at each of its octets. */
static void
test_record_cut_in_two(void **state)
{
	struct fixture *f = *state;
	char *p;
	long n, cut;
	size_t i;

	for (i = 0; i < VERSIONS; i++) {
		shaken(f, versions[i]);
		for (cut = 1, n = 2; cut < n; cut++) {
			f->server.got_n = 0;
			raw_encrypt(&f->raw, "0123456789", 10);
			n = BIO_get_mem_data(f->raw.out, &p);
			assert_int_equal(write(f->fds[1], p, cut), cut);
			ends_settle(f);
			assert_int_equal(f->server.got_n, 0);
			assert_int_equal(
			    write(f->fds[1], p + cut, n - cut), n - cut);
			ends_settle(f);
			assert_string_equal(f->server.got, "0123456789");
			(void)BIO_reset(f->raw.out);
		}
		assert_true(n > 20);
	}
}

/* Many records in one read, more than a turn takes, and part of another. */
static void
test_records_joined(void **state)
{
	struct fixture *f = *state;
	char *text = pattern(BIG), *p;
	size_t i, k, at;
	long n;

	for (i = 0; i < VERSIONS; i++) {
		shaken(f, versions[i]);
		for (at = 0, k = 1; at + k < 60000; at += k, k = k * 3 % 997)
			raw_encrypt(&f->raw, text + at, k);
		raw_encrypt(&f->raw, text + at, 100);
		n = BIO_get_mem_data(f->raw.out, &p) - 50;
		assert_int_equal(write(f->fds[1], p, n), n);
		ends_settle(f);
		assert_int_equal(f->server.got_n, at);
		assert_int_equal(write(f->fds[1], p + n, 50), 50);
		ends_settle(f);
		assert_int_equal(f->server.got_n, at + 100);
		assert_memory_equal(f->server.got, text, at + 100);
		(void)BIO_reset(f->raw.out);
	}
	free(text);
}

/* The client's first words come in the same read as its Finished. */
static void
test_words_behind_the_handshake(void **state)
{
	struct fixture *f = *state;

	ends_raw(f, TLS1_3_VERSION);
	assert_int_equal(SSL_do_handshake(f->raw.ssl), -1);
	raw_send(f, 0);
	raw_receive(&f->raw, f->client.got, 1); /* the server's flight */
	assert_true(SSL_is_init_finished(f->raw.ssl));
	raw_encrypt(&f->raw, "EHLO", 4);
	assert_false(f->server.connected);
	raw_send(f, 0);
	assert_true(f->server.connected);
	assert_string_equal(f->server.got, "EHLO");
}

static void
stop_reading(struct end *end, char where)
{
	if (where == 'r')
		net_stream_read(end->s, false);
}

/* Nothing read ahead is lost or forgotten when the reader takes a break. */
static void
test_break_in_reading(void **state)
{
	struct fixture *f = *state;
	char *text = pattern(BIG);
	size_t i, at, before;
	int rounds;

	for (i = 0; i < VERSIONS; i++) {
		shaken(f, versions[i]);
		f->server.at = stop_reading;
		for (at = 0; at < 90000; at += 900)
			raw_encrypt(&f->raw, text + at, 900);
		raw_send(f, 0);
		for (rounds = 0; f->server.got_n < at; rounds++) {
			before = f->server.got_n;
			assert_int_equal(f->server.readable, rounds + 1);
			ends_settle(f);
			assert_int_equal(f->server.got_n, before);
			net_stream_read(f->server.s, true);
			net_stream_read(f->server.s, false);
			net_stream_read(f->server.s, true);
			ends_settle(f);
			assert_true(f->server.got_n > before);
		}
		assert_true(rounds > 0);
		assert_memory_equal(f->server.got, text, at);
	}
	free(text);
}

static void
small_buffers(const struct fixture *f)
{
	int small = 4096;

	assert_int_equal(setsockopt(net_stream_fd(f->server.s), SOL_SOCKET,
			     SO_SNDBUF, &small, sizeof small),
	    0);
}

/* The socket is full many times over; more is written meanwhile. */
static void
test_full_socket(void **state)
{
	struct fixture *f = *state;
	char *text = pattern(BIG + 7), *got = malloc(BIG + 100);
	size_t i, n;
	ssize_t r;
	int turns;

	for (i = 0; i <= VERSIONS; i++) {
		if (i < VERSIONS)
			shaken(f, versions[i]);
		else
			ends_pair(f);
		small_buffers(f);
		net_stream_write(f->server.s, text, BIG);
		ends_settle(f);
		assert_true(net_stream_output_size(f->server.s) > BIG / 2);
		assert_int_equal(f->server.drained, 0);
		net_stream_write(f->server.s, text + BIG, 7);
		for (n = 0, turns = 0; n < BIG + 7 && turns < 5000; turns++) {
			if (i < VERSIONS)
				r = (ssize_t)raw_receive(
				    &f->raw, got + n, BIG + 100 - n);
			else
				r = recv(f->fds[1], got + n, BIG + 100 - n, 0);
			n += r > 0 ? (size_t)r : 0;
			event_base_loop(f->base, EVLOOP_NONBLOCK);
		}
		assert_int_equal(n, BIG + 7);
		assert_memory_equal(got, text, n);
		assert_int_equal(f->server.drained, 1);
		assert_int_equal(f->server.told, i < VERSIONS ? 1 : 0);
	}
	free(text);
	free(got);
}

/* What is written in one turn is one write(). */
static void
test_replies_leave_together(void **state)
{
	struct fixture *f = *state;
	char got[64];
	int i;

	ends_hang_up(f);
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, f->fds), 0);
	ends_watch(&f->server, net_stream_new(f->base, f->fds[0]));
	for (i = 0; i < 3; i++)
		net_stream_write(f->server.s, "250 ok\r\n", 8);
	ends_settle(f);
	assert_int_equal(recv(f->fds[1], got, sizeof got, 0), 24);
	shaken(f, TLS1_3_VERSION);
	raw_receive(&f->raw, got, sizeof got); /* tickets */
	for (i = 0; i < 3; i++)
		net_stream_write(f->server.s, "250 ok\r\n", 8);
	ends_settle(f);
	assert_int_equal(recv(f->fds[1], got, sizeof got, 0), 24 + 22);
}

static void
write_more(struct end *end, char where)
{
	if (where == 'd' && end->drained < 5)
		net_stream_write(end->s, "again", 5);
}

static void
test_drained_writes(void **state)
{
	struct fixture *f = *state;
	char got[64];

	ends_pair(f);
	f->server.at = write_more;
	net_stream_write(f->server.s, "again", 5);
	ends_settle(f);
	assert_int_equal(f->server.drained, 5);
	assert_int_equal(recv(f->fds[1], got, sizeof got, 0), 25);
}

static void
test_output_waits_for_the_handshake(void **state)
{
	struct fixture *f = *state;
	char got[16];

	ends_raw(f, TLS1_3_VERSION);
	net_stream_write(f->server.s, "220 hi", 6);
	ends_settle(f);
	assert_int_equal(recv(f->fds[1], got, sizeof got, 0), -1);
	raw_shake(f, 0);
	assert_int_equal(raw_receive(&f->raw, got, sizeof got), 6);
}

/* Clear bytes that TLS has not been told of yet are no TLS. */
static void
test_starttls_injection(void **state)
{
	struct fixture *f = *state;

	ends_pair(f);
	net_stream_read(f->server.s, false);
	assert_int_equal(write(f->fds[1], "RSET\r\n", 6), 6);
	ends_settle(f);
	assert_true(net_stream_serve_tls(f->server.s, f->tls));
	net_stream_read(f->server.s, true);
	ends_settle(f);
	assert_true(f->server.failed);
	assert_false(f->server.connected);
	assert_int_equal(f->server.got_n, 0);
	assert_true(strlen(f->server.why) > 0);
}

static void
test_starttls_with_output(void **state)
{
	struct fixture *f = *state;
	char got[16];

	ends_pair(f);
	net_stream_write(f->server.s, "220 go", 6);
	assert_false(net_stream_serve_tls(f->server.s, f->tls));
	ends_settle(f);
	assert_int_equal(recv(f->fds[1], got, sizeof got, 0), 6);
	assert_true(net_stream_serve_tls(f->server.s, f->tls));
}

static char victim;

static void
free_there(struct end *end, char where)
{
	if (where != victim)
		return;
	net_stream_write(end->s, "lost", 4);
	net_stream_free(end->s);
	end->s = NULL;
}

/* The stream ends inside each of its callbacks; the sanitizers look on. */
static void
test_free_in_callbacks(void **state)
{
	static const char places[] = "crdef";
	struct fixture *f = *state;
	char got[64];
	size_t i, k;

	for (i = 0; i < VERSIONS; i++) {
		for (k = 0; k < sizeof places - 1; k++) {
			victim = places[k];
			ends_raw(f, versions[i]);
			f->server.at = free_there;
			raw_shake(f, 0);
			if (victim != 'c') {
				net_stream_write(f->server.s, "hi", 2);
				ends_settle(f);
			}
			if (victim == 'r')
				raw_encrypt(&f->raw, "hi", 2);
			else if (victim == 'e')
				SSL_shutdown(f->raw.ssl);
			else if (victim == 'f')
				BIO_write(f->raw.out, "no TLS at all", 13);
			raw_send(f, 0);
			assert_null(f->server.s);
			(void)recv(f->fds[1], got, sizeof got, 0);
		}
	}
	for (k = 1; k < sizeof places - 1; k++) {
		victim = places[k];
		ends_pair(f);
		f->server.at = free_there;
		net_stream_write(f->server.s, "hi", 2);
		if (victim == 'f') {
			ends_settle(f);
			assert_int_equal(write(f->fds[1], "x", 1), 1);
			close(f->fds[1]); /* with "hi" unread: a reset */
			f->fds[1] = -1;
			ends_settle(f);
			assert_null(f->server.s);
			continue;
		}
		assert_int_equal(write(f->fds[1], "x", 1), 1);
		if (victim == 'e')
			shutdown(f->fds[1], SHUT_WR);
		ends_settle(f);
		assert_null(f->server.s);
	}
}

/* Freed while an event of it is due. */
static void
test_free_before_due(void **state)
{
	struct fixture *f = *state;
	char *p;
	long n;

	shaken(f, TLS1_3_VERSION);
	raw_encrypt(&f->raw, "hi", 2);
	n = BIO_get_mem_data(f->raw.out, &p);
	assert_int_equal(write(f->fds[1], p, n), n);
	net_stream_write(f->server.s, "hi", 2);
	net_stream_free(f->server.s);
	f->server.s = NULL;
	ends_settle(f);
	assert_int_equal(f->server.readable, 0);
}

static void
test_peer_vanishes(void **state)
{
	struct fixture *f = *state;
	char *p;
	size_t i;
	long n;

	for (i = 0; i < VERSIONS; i++) {
		shaken(f, versions[i]);
		raw_encrypt(&f->raw, "half", 4);
		n = BIO_get_mem_data(f->raw.out, &p);
		assert_int_equal(write(f->fds[1], p, n - 3), n - 3);
		close(f->fds[1]);
		f->fds[1] = -1;
		ends_settle(f);
		assert_int_equal(f->server.got_n, 0);
		assert_int_equal(f->server.told, 2);
		net_stream_write(f->server.s, "anyone?", 7);
		ends_settle(f);
		assert_true(f->server.told <= 3);
	}
	ends_raw(f, TLS1_3_VERSION);
	close(f->fds[1]);
	f->fds[1] = -1;
	ends_settle(f);
	assert_true(f->server.failed);
	assert_string_equal(
	    f->server.why, "connection closed during the handshake");
}

/* A flood on one stream: each turn of the loop also serves the other. */
static void
test_fairness(void **state)
{
	struct fixture *f = *state;
	char *text = pattern(BIG), *p;
	int fds[2], big = BIG, turns;
	size_t before;
	long n;

	shaken(f, TLS1_3_VERSION);
	assert_int_equal(
	    setsockopt(f->fds[1], SOL_SOCKET, SO_SNDBUF, &big, sizeof big), 0);
	raw_encrypt(&f->raw, text, 150000);
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	ends_watch(&f->client, net_stream_new(f->base, fds[0]));
	n = BIO_get_mem_data(f->raw.out, &p);
	assert_int_equal(write(f->fds[1], p, n), n);
	for (turns = 1; f->server.got_n < 150000; turns++) {
		before = f->server.got_n;
		assert_int_equal(write(fds[1], "x", 1), 1);
		event_base_loop(f->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		assert_in_range(f->server.got_n - before, 1, 49152);
		assert_int_equal(f->client.got_n, turns);
	}
	assert_in_range(turns, 4, 30);
	close(fds[1]);
	free(text);
}

static void
test_connect(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof sin;
	int fd = socket(AF_INET, SOCK_STREAM, 0), peer, i;
	char got[16];

	ends_hang_up(f);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	ends_watch(&f->client,
	    net_stream_connect(f->base, (struct sockaddr *)&sin, sizeof sin));
	assert_int_equal(f->client.told, 0); /* never inside the call */
	for (i = 0; i < 1000 && f->client.told == 0; i++)
		event_base_loop(f->base, EVLOOP_ONCE);
	assert_true(f->client.failed);
	assert_string_equal(f->client.why, strerror(ECONNREFUSED));
	ends_hang_up(f);
	assert_int_equal(listen(fd, 1), 0);
	ends_watch(&f->client,
	    net_stream_connect(f->base, (struct sockaddr *)&sin, sizeof sin));
	net_stream_write(f->client.s, "EHLO", 4);
	for (i = 0; i < 1000 && f->client.drained == 0; i++)
		event_base_loop(f->base, EVLOOP_ONCE);
	assert_true(f->client.connected);
	peer = accept(fd, NULL, NULL);
	assert_int_equal(recv(peer, got, sizeof got, 0), 4);
	close(peer);
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_plain),
		T(test_half_close),
		T(test_half_close_in_tls),
		T(test_every_cut),
		T(test_record_cut_in_two),
		T(test_records_joined),
		T(test_words_behind_the_handshake),
		T(test_break_in_reading),
		T(test_full_socket),
		T(test_replies_leave_together),
		T(test_drained_writes),
		T(test_output_waits_for_the_handshake),
		T(test_starttls_injection),
		T(test_starttls_with_output),
		T(test_free_in_callbacks),
		T(test_free_before_due),
		T(test_peer_vanishes),
		T(test_fairness),
		T(test_connect),
	};

	signal(SIGPIPE, SIG_IGN); /* as daemon_init() does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
