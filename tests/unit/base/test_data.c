/* SPDX-License-Identifier: ISC */
/* buf, uuid, secret and errors: what other folders build on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/errors.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "base/uuid.h"

static void
test_buf(void **state)
{
	struct buf b = { 0 };
	int i;

	(void)state;
	buf_u8(&b, 0x101);
	buf_u16(&b, 0x0203);
	buf_u32(&b, 0x04050607);
	buf_u64(&b, 0x08090a0b0c0d0e0fULL);
	buf_lp(&b, "ab", 2);
	assert_int_equal(b.n, 21);
	assert_memory_equal(b.p,
	    "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"
	    "\0\0\0\x02"
	    "ab",
	    21);
	buf_drain(&b, 19);
	assert_string_equal(buf_cstr(&b), "ab");
	buf_clear(&b);
	for (i = 0; i < 1000; i++)
		buf_printf(&b, "%d,", i);
	assert_int_equal(b.n, 3890);
	assert_memory_equal(b.p + b.n - 4, "999,", 4);
	buf_free(&b);
	assert_null(b.p);
}

static void
test_uuid(void **state)
{
	struct uuid a = uuid_v7_new(), b, c;
	char id[UUID_ID_MAX], text[UUID_TEXT_MAX];
	int i;

	(void)state;
	assert_int_equal(a.b[6] >> 4, 7);
	assert_int_equal(a.b[8] >> 6, 2);
	for (i = 0; i < 20000; i++) {
		b = uuid_v7_new();
		assert_true(uuid_cmp(&a, &b) < 0);
		a = b;
	}
	uuid_to_id(id, "msg_", &a);
	assert_int_equal(strlen(id), 30);
	assert_true(uuid_from_id(&c, "msg_", str_of(id)));
	assert_true(uuid_eq(&a, &c));
	assert_false(uuid_from_id(&c, "thr_", str_of(id)));
	assert_false(uuid_from_id(&c, "msg_", str_of("msg_01h4")));
	uuid_to_text(text, &a);
	assert_int_equal(strlen(text), 36);
	assert_true(uuid_from_text(&c, str_of(text)));
	assert_true(uuid_eq(&a, &c));
	assert_true(
	    uuid_from_text(&c, str_of("01890000-0000-7000-8000-000000000001")));
	uuid_to_id(id, "msg_", &c);
	assert_string_equal(id, "msg_01h4000000e008000000000001");
	assert_int_equal(uuid_time_ms(&c), 0x018900000000LL);
	assert_false(
	    uuid_from_text(&c, str_of("0189000000007000-8000-000000000001--")));
}

/* What random bytes are ready at a fork() are the parent's alone. */
static void
test_uuid_fork(void **state)
{
	struct uuid parent = uuid_v7_new(), child;
	int fd[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(fd), 0);
	pid = fork();
	if (pid == 0) {
		child = uuid_v7_new();
		_exit(write(fd[1], child.b, 16) != 16);
	}
	parent = uuid_v7_new();
	assert_int_equal(read(fd[0], child.b, 16), 16);
	assert_memory_not_equal(parent.b + 8, child.b + 8, 8);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fd[0]);
	close(fd[1]);
}

/* FIPS 180-2 B.1, B.2 and nothing at all. */
static void
test_sha256(void **state)
{
	static const struct {
		const char *in, *hex;
	} v[] = {
		{ "abc",
		    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f2"
		    "0015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419"
		    "db06c1" },
		{ "",
		    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b78"
		    "52b855" },
	};
	unsigned char got[SHA256_LEN];
	char hex[2 * SHA256_LEN + 1];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		sha256(got, v[i].in, strlen(v[i].in));
		hex_encode(hex, got, sizeof(got));
		assert_string_equal(hex, v[i].hex);
	}
}

static void
test_secret(void **state)
{
	char path[] = "/tmp/postern-secret-XXXXXX";
	struct secret a, b;
	struct err err;
	int fd = mkstemp(path);

	(void)state;
	secret_random(&a, 32);
	secret_random(&b, 32);
	assert_false(secret_eq(&a, &b));
	b = a;
	assert_true(secret_eq(&a, &b));
	b.n = 31;
	assert_false(secret_eq(&a, &b));
	assert_int_equal(write(fd, "hunter2\n", 8), 8);
	assert_true(secret_load(&a, path, 0, &err));
	assert_int_equal(a.n, 7);
	assert_memory_equal(a.b, "hunter2", 7);
	assert_false(secret_load(&a, path, 32, &err));
	assert_int_equal(a.n, 0);
	assert_int_equal(fchmod(fd, 0604), 0);
	assert_false(secret_load(&a, path, 0, &err));
	assert_non_null(strstr(err.text, "others may read"));
	assert_int_equal(close(fd), 0);
	assert_int_equal(unlink(path), 0);
	assert_false(secret_load(&a, path, 0, &err));
}

static void
test_errors(void **state)
{
	int i;

	(void)state;
	assert_int_equal(
	    error_find(str_lit("sender_mismatch")), E_SENDER_MISMATCH);
	assert_int_equal(error_find(str_lit("no_such_code")), E_INTERNAL_ERROR);
	assert_int_equal(error_get(E_SENDER_MISMATCH)->smtp, 550);
	for (i = E_NONE + 1; i < E_COUNT; i++) {
		const struct error_info *e = error_get((enum err_code)i);

		print_message("%s\n", e->code);
		assert_true(e->http != 0 || e->smtp != 0);
		assert_true(e->http == 0 ||
			    strcmp(error_http_name(e->http), "Error") != 0);
		/* RFC 3463: the class of both codes is the same. */
		assert_true(
		    e->smtp == 0 || e->smtp / 100 == e->enhanced[0] - '0');
		assert_int_equal(error_find(str_of(e->code)), i);
		assert_int_equal(e->fix[strlen(e->fix) - 1], '.');
		assert_non_null(strchr(e->what, ' '));
		assert_int_not_equal(e->what[strlen(e->what) - 1], '.');
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buf),
		cmocka_unit_test(test_uuid),
		cmocka_unit_test(test_uuid_fork),
		cmocka_unit_test(test_sha256),
		cmocka_unit_test(test_secret),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
