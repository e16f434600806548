/* SPDX-License-Identifier: ISC */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"

static char path[] = "/tmp/postern-conf-XXXXXX";

static struct conf *
load(const char *text, struct err *err)
{
	FILE *out = fopen(path, "we");

	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
	return conf_load(path, "posternd", err);
}

static void
test_defaults(void **state)
{
	struct err err;
	struct conf *c = load("", &err);

	(void)state;
	assert_non_null(c);
	assert_int_equal(c->smtp_size_max, 52428800);
	assert_int_equal(c->hold, 7LL * 24 * 3600 * 1000);
	assert_int_equal(c->smtp_listen.n, 2);
	assert_string_equal(c->smtp_listen.v[1], "[::]:587");
	assert_string_equal(
	    c->keys_secrets_key_file, "/etc/postern/keys/gw.secrets.key");
	assert_string_equal(conf_redis_user(c, "postern-deliver"), "worker");
	conf_free(c);
}

static void
test_values(void **state)
{
	char listen[64];
	struct err err;
	struct conf *c =
	    load("# \"${HOME}\" in a comment is fine\n"
		 "hostname = mx.example.org\n"
		 "hold = 36h\n"
		 "smtp {\n\tlisten = { \"127.0.0.1:1587\" }\n"
		 "\tsize_max = 4K\n\tlisten_tls = {}\n}\n"
		 "metrics { listen = \"[::1]:7000\" }\n"
		 "admin { url = \"https://mail.example.org:1\" }\n",
		&err);

	(void)state;
	if (c == NULL)
		fail_msg("%s", err.text);
	assert_string_equal(c->hostname, "mx.example.org");
	assert_int_equal(c->hold, 36LL * 3600 * 1000);
	assert_int_equal(c->smtp_size_max, 4096);
	assert_int_equal(c->smtp_listen.n, 1);
	assert_string_equal(c->smtp_listen.v[0], "127.0.0.1:1587");
	assert_int_equal(c->smtp_listen_tls.n, 0);
	conf_metrics_listen(c, "postern-deliver", listen, sizeof(listen));
	assert_string_equal(listen, "[::1]:7002");
	assert_true(conf_check(c, "posternd", &err));
	conf_free(c);
}

static void
test_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "nosuch = 1\n", ":1: no such option" },
		{ "\nsmtp {\n\tsize = 1\n}\n", ":3: no such option" },
		{ "hold = 7d\nhold = 8d\n", ":2: hold is given twice" },
		{ "smtp { size_max = 1K }\nsmtp { size_max = 2K }\n",
		    "given twice" },
		{ "hold = 7 d\n", ":1: " },
		{ "hold = 7w\n", "not a duration" },
		{ "hold = -7d\n", "not a duration" },
		{ "hold = 99999999999999d\n", "not a duration" },
		{ "smtp { rcpt_max = 1e2 }\n", "not a whole number" },
		{ "hostname = \"${HOME}\"\n", ":1: " },
		{ "smtp {\n", "not closed" },
		{ "smtp { listen = { a, b }\nlisten += { c } }\n",
		    ":2: listen is given twice" },
		{ "smtp { listen = { \"a:1\" }\nlisten = { \"b:1\" } }\n",
		    "given twice" },
	};
	struct err err;
	struct conf *c;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		err = (struct err){ 0 };
		c = load(cases[i].text, &err);
		print_message("%s -> %s\n", cases[i].text, err.text);
		assert_null(c);
		assert_non_null(strstr(err.text, cases[i].why));
		assert_non_null(strstr(err.text, path));
	}
}

/* What --show-config prints is read back as the same configuration. */
static void
test_show_reads_back(void **state)
{
	struct err err;
	struct conf *c =
	    load("hold = 90m\nsmtp { banner = \"a \\\"b\\\" \\\\\" "
		 "listen = { \"a:1\", \"b:2\" } }\n",
		&err);
	char *one = NULL, *two = NULL;
	size_t n;
	FILE *out;

	(void)state;
	assert_non_null(c);
	assert_string_equal(c->smtp_banner, "a \"b\" \\");
	out = open_memstream(&one, &n);
	conf_show(c, "posternd", out);
	assert_int_equal(fclose(out), 0);
	conf_free(c);
	c = load(one, &err);
	if (c == NULL)
		fail_msg("%s\n%s", err.text, one);
	out = open_memstream(&two, &n);
	conf_show(c, "posternd", out);
	assert_int_equal(fclose(out), 0);
	conf_free(c);
	assert_string_equal(one, two);
	free(one);
	free(two);
}

static void
test_check(void **state)
{
	static const char *const bad[] = {
		"admin { url = \"https://x.org:1\" } api { url = "
		"\"https://X.org\" }\n",
		"admin { undo = 121s }\n",
		"hold = 0s\n",
		"hold = 401d\n",
		"hold = 99999999999h\n",
		"approve_ttl = 0s\n",
		"approve_ttl = 99999999999h\n",
		"body_keep = 12h\n",
		"body_keep = 99999999999h\n",
		"metadata_keep = 29d\n",
		"metadata_keep = 99999999999h\n",
		"smtp { idle_timeout = 0s }\n",
		"smtp { idle_timeout = 50d }\n",
		"smtp { transaction_timeout = 0s }\n",
		"smtp { transaction_timeout = 50d }\n",
		"redis { down = open }\n",
		"smtp { rcpt_max = 1001 }\n",
		"hostname = mx\n",
		"log { level = loud }\n",
		"log { addresses = ful }\n",
		"hostname = mx.x.org admin { url = \"\" }\n",
		"hostname = mx.x.org api { url = \"https://mx.x.org\" }\n",
	};
	struct err err;
	struct conf *c;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		c = load(bad[i], &err);
		print_message("%s", bad[i]);
		assert_non_null(c);
		assert_false(conf_check(c, "posternd", &err));
		conf_free(c);
	}
}

/* Of the worker: what is longer would be cut, 0 would never rest. */
static void
test_check_worker(void **state)
{
	static const char *const bad[] = { "lease = 0s", "lease = 999ms",
		"lease = 61m", "lease = 99999999999h", "give_up = 0s",
		"give_up = 73h", "delay_notice = 99999999999h" };
	static const char *const good[] = { "lease = 1s", "lease = 1h",
		"give_up = 72h", "delay_notice = 0s" };
	char text[80];
	struct err err;
	struct conf *c;
	size_t i;

	(void)state;
	for (i = 0;
	     i < sizeof(bad) / sizeof(bad[0]) + sizeof(good) / sizeof(good[0]);
	     i++) {
		bool ok = i >= sizeof(bad) / sizeof(bad[0]);

		(void)snprintf(text, sizeof(text), "deliver { %s }\n",
		    ok ? good[i - sizeof(bad) / sizeof(bad[0])] : bad[i]);
		c = load(text, &err);
		print_message("%s", text);
		assert_non_null(c);
		assert_int_equal(conf_check(c, "posternctl", &err), ok);
		if (!ok)
			assert_non_null(strstr(err.text, "deliver."));
		conf_free(c);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_show_reads_back),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_check_worker),
	};
	int fd = mkstemp(path), rc;

	if (fd < 0)
		return 1;
	(void)close(fd);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(path);
	return rc;
}
