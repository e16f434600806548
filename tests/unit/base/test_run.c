/* SPDX-License-Identifier: ISC */
/* loop, pool, log and metrics: what runs while the program does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/pool.h"
#include "base/secret.h"

static struct loop *loop;
static struct loop_timer *end;
static char order[16];

/* The third is the last: what should not come has a turn to come in. */
static void
on_a(void *arg)
{
	(void)arg;
	(void)strcat(order, "a");
	if (strlen(order) == 3)
		loop_timer_set(end, 1);
}

static void
on_b(void *arg)
{
	(void)strcat(order, "b");
	loop_defer(loop, on_a, arg);
	loop_undefer(loop, on_a, order);
}

static void
on_end(void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static void
test_defer(void **state)
{
	(void)state;
	loop = loop_new();
	order[0] = '\0';
	end = loop_timer_new(loop, on_end, NULL);
	loop_defer(loop, on_b, NULL);
	loop_defer(loop, on_a, order); /* taken back by on_b */
	loop_defer(loop, on_a, NULL);
	assert_string_equal(order, ""); /* never inside the call */
	loop_run(loop);
	assert_string_equal(order, "baa");
	loop_defer(loop, on_a, NULL); /* dropped by loop_free */
	loop_timer_free(end);
	loop_free(loop);
}

static void
on_once(void *arg)
{
	(void)arg;
	(void)strcat(order, "l");
	loop_stop(loop);
}

static void
on_chain(void *arg)
{
	int *left = arg;

	(void)strcat(order, "c");
	if (--*left > 0)
		loop_defer(loop, on_chain, arg);
}

/* What yields waits for what was made due meanwhile, and then goes on. */
static void
test_later(void **state)
{
	struct loop_timer *later;
	int left = 5;

	(void)state;
	loop = loop_new();
	order[0] = '\0';
	later = loop_timer_new(loop, on_once, NULL);
	loop_timer_yields(later);
	loop_timer_set(later, 0);
	loop_defer(loop, on_chain, &left);
	loop_run(loop);
	assert_string_equal(order, "cccccl");
	loop_timer_free(later);
	loop_free(loop);
}

static int worked, finished;

static void
on_work(void *arg)
{
	int *n = arg;

	*n *= 2;
	(void)__atomic_add_fetch(&worked, 1, __ATOMIC_SEQ_CST);
}

static void
on_done(void *arg)
{
	(void)arg;
	if (++finished == 3)
		loop_stop(loop);
}

static void
test_pool(void **state)
{
	int n[4] = { 1, 2, 3, 4 };
	struct pool *pool;

	(void)state;
	loop = loop_new();
	pool = pool_new(loop, 2, 3);
	assert_true(pool_submit(pool, on_work, on_done, &n[0]));
	assert_true(pool_submit(pool, on_work, on_done, &n[1]));
	assert_true(pool_submit(pool, on_work, on_done, &n[2]));
	assert_false(pool_submit(pool, on_work, on_done, &n[3])); /* full */
	assert_int_equal(finished, 0); /* done only from the loop */
	loop_run(loop);
	assert_int_equal(finished, 3);
	assert_int_equal(n[0] + n[1] + n[2], 12);
	assert_true(pool_submit(pool, on_work, on_done, &n[3]));
	pool_free(pool); /* with work under way */
	loop_free(loop);
}

static void
test_log(void **state)
{
	struct secret s = { 6, "hunter" };
	char line[1024], *big;
	int fds[2];
	ssize_t n;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	log_set_fd(fds[1]);
	log_init("test", LOG_LEVEL_INFO);
	log_debug("daemon.start");
	log_info("smtpd.auth", KV("session", 7), KV("key", &s),
	    KV("why", "a\"\n\xff\xc3\xa4"), KV("no", (const char *)NULL),
	    KV("ok", (bool)true), KV("size", (uint64_t)UINT64_MAX));
	n = read(fds[0], line, sizeof(line) - 1);
	assert_true(n > 0);
	line[n] = '\0';
	assert_non_null(strstr(line, "\"level\":\"info\",\"event\":\"smtpd."
				     "auth\",\"program\":\"test\""));
	assert_non_null(strstr(line,
	    ",\"session\":7,\"key\":\"[redacted]\","
	    "\"why\":\"a\\\"\\u000a\\\\xff\xc3\xa4\",\"no\":null,\"ok\":true,"
	    "\"size\":18446744073709551615}\n"));
	assert_null(strstr(line, "hunter"));
	big = malloc(5001);
	assert_non_null(big);
	memset(big, 'x', 5000);
	big[5000] = '\0';
	log_warn("daemon.stop", KV("why", big));
	n = read(fds[0], line, sizeof(line) - 1);
	assert_in_range(n, 256, 512);
	free(big);
	log_set_addresses(LOG_ADDRESSES_OFF);
	log_info(
	    "smtpd.reject", KV("why", "550 <a.B@x.Example>: no @ here, bot@y"));
	n = read(fds[0], line, sizeof(line) - 1);
	line[n > 0 ? n : 0] = '\0';
	assert_non_null(
	    strstr(line, "\"why\":\"550 <[address]>: no @ here, [address]\""));
	log_set_addresses(LOG_ADDRESSES_HASHED);
	log_info("smtpd.reject", KV("why", "a.b@x.example A.B@X.example c@d"));
	n = read(fds[0], line, sizeof(line) - 1);
	line[n > 0 ? n : 0] = '\0';
	assert_non_null(strstr(
	    line, "\"[address d03bd5588ffe] [address d03bd5588ffe] [address "));
	assert_null(strchr(line, '@'));
	log_set_addresses(LOG_ADDRESSES_FULL);
	log_set_fd(-1);
	assert_int_equal(close(fds[0]) + close(fds[1]), 0);
}

/* Lines of a turn go out in one write; an error takes them along at once. */
static void
test_log_gathers(void **state)
{
	char text[4096];
	ssize_t n;
	int fds[2], i;

	(void)state;
	loop = loop_new();
	/* Each write is a packet of its own. */
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds), 0);
	log_set_fd(fds[1]);
	log_init("test", LOG_LEVEL_INFO);
	loop_gather_log(loop);
	for (i = 0; i < 3; i++)
		log_info("smtpd.stored", KV("size", i));
	assert_int_equal(read(fds[0], text, sizeof(text) - 1), -1);
	event_base_loop(loop_base(loop), EVLOOP_NONBLOCK);
	n = read(fds[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_non_null(strstr(text, "\"size\":0}\n{"));
	assert_non_null(strstr(text, "\"size\":2}\n"));
	assert_int_equal(read(fds[0], text, sizeof(text) - 1), -1);
	log_info("smtpd.stored", KV("size", 3));
	log_error("daemon.failed", KV("size", 4));
	n = read(fds[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_non_null(strstr(text, "\"size\":3}\n{"));
	assert_non_null(strstr(text, "\"size\":4}\n"));
	log_info("smtpd.stored", KV("size", 5));
	loop_free(loop); /* nothing is lost, and nothing waits any more */
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	log_info("smtpd.stored", KV("size", 6));
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	log_set_fd(-1);
	assert_int_equal(close(fds[0]) + close(fds[1]), 0);
}

static void
test_metrics(void **state)
{
	struct buf out = { 0 };
	int status;
	pid_t pid;

	(void)state;
	metrics_init(2, "posternd");
	metrics_inc(M_SUBMISSIONS, "rest", "held");
	metrics_set(M_REDIS_UP, 1, NULL, NULL);
	metrics_observe(M_SUBMIT_SECONDS, 3000);
	metrics_observe(M_SUBMIT_SECONDS, 99000000);
	pid = fork();
	if (pid == 0) {
		metrics_use_slot(1);
		metrics_add(M_SUBMISSIONS, 2, "rest", "held");
		metrics_set(M_REDIS_UP, 1, NULL, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(metrics_get(M_SUBMISSIONS, "rest", "held"), 3);
	metrics_render(&out);
	assert_non_null(strstr(buf_cstr(&out),
	    "\npostern_submissions_total{door=\"rest\",outcome=\"held\"} 3\n"));
	assert_non_null(strstr(buf_cstr(&out), "\npostern_redis_up 2\n"));
	assert_null(strstr(buf_cstr(&out), "postern_deliveries_total"));
	assert_non_null(strstr(buf_cstr(&out),
	    "\npostern_submit_seconds_bucket{le=\"0.005\"} 1\n"));
	assert_non_null(strstr(buf_cstr(&out),
	    "\npostern_submit_seconds_bucket{le=\"+Inf\"} 2\n"
	    "postern_submit_seconds_sum 99.003\n"
	    "postern_submit_seconds_count 2\n"));
	/* A worker that is started again begins with gauges at zero. */
	metrics_use_slot(1);
	assert_int_equal(metrics_get(M_REDIS_UP, NULL, NULL), 1);
	assert_int_equal(metrics_get(M_SUBMISSIONS, "rest", "held"), 3);
	buf_free(&out);
}

static struct event *urgent;
static int usual, usual_before;

static void
on_urgent(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	usual_before = usual;
}

static void
on_usual(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	if (++usual == 1)
		event_active(urgent, 0, 0);
	else if (usual == 200)
		loop_stop(loop);
}

/* What becomes urgent need not wait for all that is due. */
static void
test_urgent(void **state)
{
	struct event *ev[200];
	int i;

	(void)state;
	loop = loop_new();
	urgent = event_new(loop_base(loop), -1, 0, on_urgent, NULL);
	assert_int_equal(event_priority_set(urgent, LOOP_URGENT), 0);
	for (i = 0; i < 200; i++) {
		ev[i] = event_new(loop_base(loop), -1, 0, on_usual, NULL);
		event_active(ev[i], 0, 0);
	}
	loop_run(loop);
	assert_int_equal(usual, 200);
	assert_in_range(usual_before, 1, 20);
	for (i = 0; i < 200; i++)
		event_free(ev[i]);
	event_free(urgent);
	loop_free(loop);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defer),
		cmocka_unit_test(test_urgent),
		cmocka_unit_test(test_later),
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_log),
		cmocka_unit_test(test_log_gathers),
		cmocka_unit_test(test_metrics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
