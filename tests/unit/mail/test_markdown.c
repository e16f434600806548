/* SPDX-License-Identifier: ISC */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "mail/markdown.h"

static const struct {
	const char *in, *out; /* between <html><body> and its end */
} cases[] = {
	{ "", "" },
	{ "plain", "<p>plain</p>\n" },
	{ "# *Big* & `small`",
	    "<h1><em>Big</em> &amp; <code>small</code></h1>\n" },
	{ "- a\n- b", "<ul><li>a</li>\n<li>b</li>\n</ul>\n" },
	{ "3. c", "<ol start=\"3\">\n<li>c</li>\n</ol>\n" },
	{ "```sh\na <b>\n```", "<pre><code>a &lt;b&gt;\n</code></pre>\n" },
	{ "a  \nb\nc", "<p>a<br>\nb\nc</p>\n" },
	{ "~~x~~ **y** &copy;",
	    "<p><del>x</del> <strong>y</strong> &copy;</p>\n" },
	{ "> q\n\n---", "<blockquote><p>q</p>\n</blockquote>\n<hr>\n" },
	{ "|a|b|\n|---|---|\n|c|d|",
	    "<table><thead><tr><th>a</th>\n<th>b</th>\n</tr>\n</thead>\n"
	    "<tbody><tr><td>c</td>\n<td>d</td>\n</tr>\n</tbody>\n"
	    "</table>\n" },
	/* HTML is text */
	{ "<script>alert(1)</script>",
	    "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n" },
	{ "x <b onload=\"y\">", "<p>x &lt;b onload=&quot;y&quot;&gt;</p>\n" },
	/* links */
	{ "[x](https://a.example/?q=1&r=\"2\")",
	    "<p><a href=\"https://a.example/?q=1&amp;r=%222%22\">x</a></p>\n" },
	{ "[x](mailto:a@b.example)",
	    "<p><a href=\"mailto:a@b.example\">x</a></p>\n" },
	{ "see http://a.example/b",
	    "<p>see <a href=\"http://a.example/b\">http://a.example/b</a></p>"
	    "\n" },
	{ "[x](javascript:alert(1))", "<p>x</p>\n" },
	{ "[x](JaVaScript:alert(1))", "<p>x</p>\n" },
	{ "[x](java&#115;cript:alert(1))", "<p>x</p>\n" },
	{ "[x](&#104;ttp://a.example)", "<p>x</p>\n" },
	{ "[x](data:text/html,y)", "<p>x</p>\n" },
	{ "[x](/here)", "<p>x</p>\n" },
	{ "[*x*](file:///etc/passwd) [y](https://a.example)",
	    "<p><em>x</em> <a href=\"https://a.example\">y</a></p>\n" },
	{ "[x]( <https://a.example/\">z> )",
	    "<p>[x]( <a href=\"https://a.example/%22\">"
	    "https://a.example/&quot;</a>z&gt; )</p>\n" },
	/* pictures are what they say */
	{ "![alt *text*](https://a.example/p.gif)",
	    "<p>alt <em>text</em></p>\n" },
	{ "[![alt](x.gif)](https://a.example)",
	    "<p><a href=\"https://a.example\">alt</a></p>\n" },
};

static void
each_case(void **state)
{
	struct buf out = { 0 }, want = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf_clear(&out);
		buf_clear(&want);
		buf_printf(
		    &want, "<html><body>\n%s</body></html>\n", cases[i].out);
		assert_true(markdown_html(&out, str_of(cases[i].in)));
		assert_string_equal(buf_cstr(&out), buf_cstr(&want));
	}
	buf_free(&out);
	buf_free(&want);
}

static void
too_long(void **state)
{
	static char text[MARKDOWN_MAX + 1];
	struct buf out = { 0 };

	(void)state;
	memset(text, 'x', sizeof(text));
	assert_true(markdown_html(&out, (struct str){ text, MARKDOWN_MAX }));
	assert_false(
	    markdown_html(&out, (struct str){ text, MARKDOWN_MAX + 1 }));
	buf_free(&out);
}

/* What costs other parsers time that grows with the square of the text. */
static void
hostile(void **state)
{
	static const char *const bits[] = { "[", "]", "*", "_a", "**x", "`",
		"``` `", "> ", "- ", "![", "[a](", "<", "<!--", "&", "|", "a|",
		"|-|\n", "\\", "~~", "[x]: y\n", "[x][", "http://", "1. ",
		"*a_ ", "(", "\n", "    ", "- - ", "#", "](", "[a](<b" };
	static char text[MARKDOWN_MAX];
	struct buf out = { 0 };
	size_t i, n, at;
	clock_t begun;
	double took;

	(void)state;
	for (i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		n = strlen(bits[i]);
		for (at = 0; at + n <= sizeof(text); at += n)
			memcpy(text + at, bits[i], n);
		buf_clear(&out);
		begun = clock();
		assert_true(markdown_html(&out, (struct str){ text, at }));
		took = (double)(clock() - begun) / CLOCKS_PER_SEC;
		if (took > 1)
			print_message("%s takes %.2f s\n", bits[i], took);
		assert_true(took < 3);
	}
	buf_free(&out);
}

/* Few bytes that stand for many: a long address that is named often. */
static void
grows(void **state)
{
	static const char head[] = "[a]: http://";
	static char text[MARKDOWN_MAX];
	struct buf out = { 0 };
	size_t at;

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text, head, sizeof(head) - 1);
	memcpy(text + 60000, "\n\n", 2);
	for (at = 60002; at + 3 <= sizeof(text); at += 3)
		memcpy(text + at, "[a]", 3);
	assert_false(markdown_html(&out, (struct str){ text, at }));
	assert_true(out.n < MARKDOWN_HTML_MAX + MARKDOWN_MAX);
	buf_free(&out);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_case),
		cmocka_unit_test(too_long),
		cmocka_unit_test(hostile),
		cmocka_unit_test(grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
