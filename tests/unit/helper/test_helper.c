/* SPDX-License-Identifier: ISC */
/* base/helper against the real postern-decode, and against a broken one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/helper/helper.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"

#define REAL "./postern-decode"
#define FAKE "./tests/unit/helper/fake_decode"

static struct loop *loop;
static struct helper_pool *pool;
static bool inside; /* helper_decode() */
static int waiting;
static int log_fd;

struct ask {
	int times; /* the callback ran */
	enum helper_outcome outcome;
	bool replaced, cut;
	struct buf text;
};

static void
on_done(void *arg, const struct helper_answer *a)
{
	struct ask *ask = arg;

	assert_false(inside);
	ask->times++;
	ask->outcome = a->outcome;
	ask->replaced = a->replaced;
	ask->cut = a->cut;
	buf_clear(&ask->text);
	buf_add_str(&ask->text, a->text);
	if (--waiting == 0)
		loop_stop(loop);
}

static void
ask_for(struct ask *ask, enum helper_kind kind, const char *charset,
    struct str bytes)
{
	const struct helper_request r = { .kind = kind,
		.charset = str_of(charset),
		.type = str_of(kind == HELPER_LEAF ? "text/plain" : NULL),
		.bytes = bytes };

	inside = true;
	waiting++;
	helper_decode(pool, &r, on_done, ask);
	inside = false;
}

static void
start(const char *path)
{
	char name[] = "/tmp/postern-helper-log-XXXXXX";

	log_fd = mkstemp(name);
	assert_true(log_fd >= 0);
	(void)unlink(name);
	log_set_fd(log_fd);
	loop = loop_new();
	pool = helper_pool_new(loop, path);
	waiting = 0;
}

/* No child is left behind. */
static void
stop(void)
{
	helper_pool_free(pool);
	loop_free(loop);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	log_set_fd(-1);
	(void)close(log_fd);
}

static void
assert_logged(const char *why)
{
	char text[65536], want[200];
	ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);

	assert_true(n >= 0);
	text[n] = '\0';
	snprintf(want, sizeof(want), "\"why\":\"%s\"", why);
	if (strstr(text, "\"event\":\"helper.killed\"") == NULL ||
	    strstr(text, want) == NULL)
		fail_msg("no %s in: %s", want, text);
}

static int64_t
kills(void)
{
	return metrics_get(M_HELPER_KILLS, NULL, NULL);
}

static void
assert_text(struct ask *ask, const char *want)
{
	assert_int_equal(ask->times, 1);
	assert_int_equal(ask->outcome, HELPER_TEXT);
	assert_string_equal(buf_cstr(&ask->text), want);
	buf_free(&ask->text);
}

/* ---- the real one */

static void
test_real(void **state)
{
	struct ask jp = { 0 }, word = { 0 }, no = { 0 }, wrong = { 0 };
	const int64_t before = kills();

	(void)state;
	start(REAL);
	ask_for(&jp, HELPER_LEAF, "ISO-2022-JP", str_lit("\x1b$B@$3&\x1b(B!"));
	ask_for(&word, HELPER_WORD, "shift_jis",
	    str_lit("=?Shift_JIS?B?jKk=?==?shift_jis?Q?=90=CF?="));
	ask_for(&no, HELPER_LEAF, "utf-7", str_lit("+AGE-"));
	ask_for(&wrong, HELPER_LEAF, "koi8-r", str_lit("\xf0\xf2"));
	loop_run(loop);
	assert_text(&jp, "世界!");
	assert_text(&word, "見積");
	assert_text(&wrong, "ПР");
	assert_int_equal(no.outcome, HELPER_UNKNOWN);
	assert_int_equal(kills(), before);
	stop();
}

static void
test_real_large(void **state)
{
	struct ask big = { 0 }, bad = { 0 };
	char *bytes = malloc(HELPER_INPUT_MAX);

	(void)state;
	assert_non_null(bytes);
	memset(bytes, '\xe4', HELPER_INPUT_MAX);
	start(REAL);
	ask_for(&big, HELPER_LEAF, "iso-8859-2",
	    (struct str){ bytes, HELPER_INPUT_MAX });
	ask_for(&bad, HELPER_LEAF, "euc-kr", str_lit("a\xff"));
	loop_run(loop);
	assert_int_equal(big.outcome, HELPER_TEXT);
	assert_true(big.cut);
	assert_int_equal(big.text.n, HELPER_OUTPUT_MAX);
	assert_memory_equal(big.text.p, "ää", 4);
	buf_free(&big.text);
	assert_true(bad.replaced);
	assert_text(&bad, "a\xef\xbf\xbd");
	stop();
	free(bytes);
}

/* ---- one that fails */

static void
test_endings(void **state)
{
	static const struct {
		const char *how, *why;
	} cases[] = {
		{ "crash", "signal 11" },
		{ "garbage", "no reply" },
		{ "short", "no reply" },
		{ "long", "no reply" },
		{ "flood", "too much output" },
		{ "status", "exit status 3" },
		{ "nothing", "no reply" },
		{ "unread", "no reply" },
	};
	struct ask ask, after;
	int64_t before;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		print_message("%s\n", cases[i].how);
		memset(&ask, 0, sizeof(ask));
		memset(&after, 0, sizeof(after));
		before = kills();
		start(FAKE);
		ask_for(&ask, HELPER_LEAF, cases[i].how, str_lit("bytes"));
		loop_run(loop);
		assert_int_equal(ask.times, 1);
		assert_int_equal(ask.outcome, HELPER_FAILED);
		assert_int_equal(kills(), before + 1);
		assert_logged(cases[i].why);
		/* and the next one is served */
		ask_for(&after, HELPER_LEAF, "echo", str_lit("next"));
		loop_run(loop);
		assert_text(&after, "next");
		stop();
	}
}

/* As many as there are processes hang; one more waits behind them. */
static void
test_deadline(void **state)
{
	struct ask hang[HELPER_PROCESSES + 1] = { 0 }, after = { 0 };
	const int64_t before = kills();
	size_t i;

	(void)state;
	start(FAKE);
	for (i = 0; i <= HELPER_PROCESSES; i++)
		ask_for(&hang[i], HELPER_LEAF, i == 1 ? "hang-on" : "hang",
		    str_lit("x"));
	loop_run(loop);
	for (i = 0; i <= HELPER_PROCESSES; i++) {
		assert_int_equal(hang[i].times, 1);
		assert_int_equal(hang[i].outcome, HELPER_FAILED);
		buf_free(&hang[i].text);
	}
	assert_int_equal(kills(), before + HELPER_PROCESSES);
	assert_logged("deadline");
	ask_for(&after, HELPER_LEAF, "echo", str_lit("next"));
	loop_run(loop);
	assert_text(&after, "next");
	stop();
}

static void
test_queue(void **state)
{
	static struct ask asks[HELPER_QUEUE_MAX + 2];
	char name[HELPER_NAME_MAX + 2];
	struct ask long_name = { 0 };
	size_t i;

	(void)state;
	start(FAKE);
	for (i = 0; i < HELPER_QUEUE_MAX + 2; i++)
		ask_for(&asks[i], HELPER_LEAF, "echo", str_lit("x"));
	loop_run(loop);
	for (i = 0; i < HELPER_QUEUE_MAX + 2; i++) {
		assert_int_equal(asks[i].times, 1);
		assert_int_equal(
		    asks[i].outcome == HELPER_BUSY, i >= HELPER_QUEUE_MAX);
		/* on a slow machine the last of so many come too late */
		if (i < HELPER_PROCESSES || asks[i].outcome == HELPER_TEXT)
			assert_text(&asks[i], "x");
		else if (i < HELPER_QUEUE_MAX)
			assert_int_equal(asks[i].outcome, HELPER_FAILED);
	}
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	ask_for(&long_name, HELPER_LEAF, name, str_lit("x"));
	loop_run(loop);
	assert_int_equal(long_name.outcome, HELPER_UNKNOWN);
	stop();
}

static void
test_absent(void **state)
{
	struct ask ask = { 0 }, again = { 0 };

	(void)state;
	start("./no-such-program");
	ask_for(&ask, HELPER_LEAF, "echo", str_lit("x"));
	ask_for(&again, HELPER_LEAF, "echo", str_lit("x"));
	loop_run(loop);
	assert_int_equal(ask.times, 1);
	assert_int_equal(ask.outcome, HELPER_ABSENT);
	assert_int_equal(again.outcome, HELPER_ABSENT);
	stop();
	/* one that ends at once is not started again and again */
	start("/bin/false");
	ask_for(&ask, HELPER_LEAF, "echo", str_lit("x"));
	loop_run(loop);
	assert_int_equal(ask.times, 2);
	assert_true(ask.outcome == HELPER_FAILED);
	assert_logged("exit status 1");
	stop();
}

static void
test_dropped(void **state)
{
	struct ask hang[5] = { 0 };
	size_t i;

	(void)state;
	start(FAKE);
	for (i = 0; i < 5; i++)
		ask_for(&hang[i], HELPER_LEAF, "hang", str_lit("x"));
	stop();
	for (i = 0; i < 5; i++)
		assert_int_equal(hang[i].times, 0);
}

/* What a careless parent leaves open, set and ignored. */
static void
test_inherited(void **state)
{
	struct ask ask = { 0 };
	sigset_t block;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(dup2(fds[0], 77), 77);
	assert_int_equal(setenv("POSTERN_SECRET", "geheim", 1), 0);
	(void)signal(SIGUSR1, SIG_IGN);
	(void)sigemptyset(&block);
	(void)sigaddset(&block, SIGUSR2);
	(void)sigprocmask(SIG_BLOCK, &block, NULL);
	start(FAKE);
	ask_for(&ask, HELPER_LEAF, "inherited", str_lit("x"));
	loop_run(loop);
	assert_text(&ask, "0=/dev/null 1=/dev/null 2=/dev/null 3=socket: ");
	stop();
	(void)sigprocmask(SIG_UNBLOCK, &block, NULL);
	(void)signal(SIGUSR1, SIG_DFL);
	(void)close(fds[0]);
	(void)close(fds[1]);
	(void)close(77);
}

/* What posternctl doctor asks. */
static void
test_fit(void **state)
{
	static const struct {
		const char *path, *why;
		int code;
	} unfit[] = {
		{ "./no-such-program", "No such file", HELPER_FIT_START },
		{ "/bin/false", "does not decode", HELPER_FIT_ANSWER },
		{ "/bin/true", "does not decode", HELPER_FIT_ANSWER },
		{ FAKE, "without a sandbox", HELPER_FIT_SANDBOX },
	};
	struct err err;
	size_t i;

	(void)state;
	assert_true(helper_fit(REAL, &err));
	for (i = 0; i < sizeof(unfit) / sizeof(unfit[0]); i++) {
		assert_false(helper_fit(unfit[i].path, &err));
		assert_int_equal(err.code, unfit[i].code);
		assert_non_null(strstr(err.text, unfit[i].why));
		assert_non_null(strstr(err.text, unfit[i].path));
	}
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_real),
		cmocka_unit_test(test_real_large),
		cmocka_unit_test(test_endings),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_absent),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_inherited),
		cmocka_unit_test(test_fit),
	};

	metrics_init(1, "postern-admin");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
