/* SPDX-License-Identifier: ISC */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/buf.h"
#include "http/form.h"

static struct buf got;
static const char *stop_at; /* a name: its begin says no */

static void
show(const char *what, struct str s)
{
	if (s.p == NULL || (s.n == 0 && what[1] != 'f'))
		return;
	buf_puts(&got, what);
	buf_add_str(&got, s);
}

static bool
on_begin(void *arg, const struct http_form_part *part)
{
	(void)arg;
	buf_puts(&got, "[");
	buf_add_str(&got, part->name);
	show("|file=", part->filename);
	show("|type=", part->type);
	show("|id=", part->id);
	buf_puts(&got, ":");
	return stop_at == NULL || !str_eq(part->name, str_of(stop_at));
}

static bool
on_data(void *arg, const void *p, size_t n)
{
	(void)arg;
	buf_add(&got, p, n);
	return true;
}

static bool
on_end(void *arg)
{
	(void)arg;
	buf_puts(&got, "]");
	return true;
}

static const struct http_form_calls calls = { on_begin, on_data, on_end };

/* Lines of the tests end with \n, those of the form with CRLF. */
static void
crlf(struct buf *out, const char *text)
{
	for (; *text != '\0'; text++)
		buf_puts(out, *text == '\n' ? "\r\n" : (char[2]){ *text, 0 });
}

static bool
feed(struct http_form *f, const struct buf *text, size_t at)
{
	const char *p = (const char *)text->p;

	buf_clear(&got);
	http_form_init(f, "b", &calls, NULL);
	return http_form_feed(f, p, at) &&
	       http_form_feed(f, p + at, text->n - at);
}

/* In two pieces, cut everywhere. */
static void
check(const char *text, const char *parts)
{
	static struct http_form f;
	struct buf all = { 0 };
	size_t i;

	crlf(&all, text);
	for (i = 0; i <= all.n; i++) {
		assert_true(feed(&f, &all, i));
		assert_true(http_form_is_whole(&f));
		assert_string_equal(buf_cstr(&got), parts);
	}
	/* all of it is needed, but for the last line's end */
	for (i = 0; i + 2 < all.n; i++) {
		buf_clear(&got);
		http_form_init(&f, "b", &calls, NULL);
		assert_true(http_form_feed(&f, (const char *)all.p, i));
		assert_false(http_form_is_whole(&f));
	}
	buf_free(&all);
}

#define PART(name) "--b\nContent-Disposition: form-data; name=\"" name "\""

static void
test_parts_come_as_they_are(void **state)
{
	(void)state;
	check(PART("a") "\n\nx\n--b--\n", "[a:x]");
	check(PART("a") "\n\n\n--b--\n", "[a:]");
	check(PART("a") "; filename=\"\"\nContent-Type: text/plain; x=y\n"
			"Content-ID: <i@d>\nX-Other: 1\n\n"
			"\n\n--\n--a\n-b\r\r\n--\r--\n--b\n"
			"content-disposition:form-data;name=c\n\ny\n--b--\n",
	    "[a|file=|type=text/plain; x=y|id=i@d:\r\n\r\n--\r\n--a\r\n-b\r\r"
	    "\r\n--\r--][c:y]");
	check(
	    PART("a\\\"\\\\%22%0d%0A%41") "\n\n\n--b--\n", "[a\"\\\"\r\n%41:]");
	check(PART("a") "\nContent-Transfer-Encoding: BINARY\n\n\n--b--\n",
	    "[a:]");
}

static void
test_what_could_be_read_two_ways_is_wrong(void **state)
{
	static const char *const bad[] = {
		"x" PART("a") "\n\n\n--b--\n", /* a preamble */
		"\nx",
		PART("a") "\n\n\n--b--\nx", /* an epilogue */
		PART("a") "\n\n\n--b-- \n",
		PART("a") "\n\n\n--b--\n\n",
		PART("a") "\n\n\n--bc\n\n", /* like a delimiter */
		PART("a") "\n\n\n--b \n\n",
		PART("a") "\n\n\n--b-\n",
		"--b\n\nx\n--b--\n", /* no name */
		"--b\nContent-Disposition: form-data\n\nx\n--b--\n",
		"--b\nContent-Disposition: attachment; name=\"a\"\n\n\n--b--\n",
		PART("a") "; name=\"b\"\n\n\n--b--\n",
		PART("a") "; filename=\"b\"; filename=\"c\"\n\n\n--b--\n",
		PART("a") "; filename*=utf-8''b\n\n\n--b--\n",
		PART("a") "; filename\n\n\n--b--\n",
		PART("a") "; filename=\"b\n\n\n--b--\n",
		PART("a") " x\n\n\n--b--\n",
		PART("a") "\nContent-Disposition: form-data; name=\"b\"\n\n\n"
			  "--b--\n",
		PART("a") "\nContent-Type: a/b\nContent-Type: c/d\n\n\n--b--\n",
		PART("a") "\nContent-ID: a\nContent-ID: b\n\n\n--b--\n",
		PART("a") "\nContent-Transfer-Encoding: base64\n\n\n--b--\n",
		PART("a") "\n folded: x\n\n\n--b--\n",
		PART("a") "\nX : x\n\n\n--b--\n",
		PART("a") "\nno colon\n\n\n--b--\n",
		PART("a") "\nX: a\rb\n\n\n--b--\n",
	};
	static struct http_form f;
	struct buf all = { 0 };
	size_t i, at;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		buf_clear(&all);
		crlf(&all, bad[i]);
		for (at = 0; at <= all.n; at++) {
			if (feed(&f, &all, at))
				fail_msg("taken: %s", bad[i]);
			assert_non_null(f.wrong);
			assert_false(http_form_is_whole(&f));
		}
	}
	buf_free(&all);
	/* lines end with CRLF */
	http_form_init(&f, "b", &calls, NULL);
	assert_false(http_form_feed(&f, "--b\nContent", 11));
}

static void
test_a_header_has_an_end(void **state)
{
	static struct http_form f;
	static const char open[] = PART("a") "\r\nX: ";
	size_t i;

	(void)state;
	http_form_init(&f, "b", &calls, NULL);
	assert_true(http_form_feed(&f, "--b\r\n", 5));
	assert_true(http_form_feed(&f, open + 4, sizeof(open) - 5));
	for (i = 0; i < HTTP_FORM_HEAD && f.wrong == NULL; i++)
		http_form_feed(&f, "x", 1);
	assert_non_null(f.wrong);
}

static void
test_it_stops_where_a_call_says_so(void **state)
{
	static struct http_form f;
	struct buf all = { 0 };

	(void)state;
	crlf(&all, PART("a") "\n\nx\n" PART("c") "\n\ny\n--b--\n");
	stop_at = "c";
	assert_false(feed(&f, &all, 0));
	stop_at = NULL;
	assert_null(f.wrong);
	assert_false(http_form_is_whole(&f));
	assert_string_equal(buf_cstr(&got), "[a:x][c:");
	assert_false(http_form_feed(&f, "z", 1));
	buf_free(&all);
}

static void
test_boundaries(void **state)
{
	static const char longest[] = "multipart/form-data; boundary="
				      "0123456789012345678901234567890123456789"
				      "012345678901234567890123456789";
	char out[HTTP_FORM_BOUNDARY + 1];

	(void)state;
	assert_true(http_form_boundary(out, longest));
	assert_int_equal(strlen(out), 70);
	assert_true(http_form_boundary(
	    out, "Multipart/Form-Data ; x=y; BOUNDARY=\"a b\" "));
	assert_string_equal(out, "a b");
	assert_false(http_form_boundary(out, NULL));
	assert_false(http_form_boundary(out, "multipart/form-data"));
	assert_false(http_form_boundary(out, "multipart/mixed; boundary=a"));
	assert_false(http_form_boundary(out, "multipart/form-data; boundary="));
	assert_false(
	    http_form_boundary(out, "multipart/form-data; boundary=\"a \""));
	assert_false(
	    http_form_boundary(out, "multipart/form-data; boundary=a\r"));
	assert_false(http_form_boundary(
	    out, "multipart/form-data; boundary=a; boundary=b"));
	assert_false(
	    http_form_boundary(out, "multipart/form-data; boundary=a x"));
	assert_false(
	    http_form_boundary(out, "multipart/form-data; boundary=\"a"));
	memset(out, 'x', sizeof(out));
	assert_false(http_form_boundary(out,
	    "multipart/form-data; "
	    "boundary=0123456789012345678901234567890123456789"
	    "0123456789012345678901234567890"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts_come_as_they_are),
		cmocka_unit_test(test_what_could_be_read_two_ways_is_wrong),
		cmocka_unit_test(test_a_header_has_an_end),
		cmocka_unit_test(test_it_stops_where_a_call_says_so),
		cmocka_unit_test(test_boundaries),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	buf_free(&got);
	return failed;
}
