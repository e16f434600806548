/* SPDX-License-Identifier: ISC */
/* decode/html.c: what a page shows, hides and leads to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/html.h"

#define ROOM (256 * 1024)

static const struct {
	const char *html, *report;
} pages[] = {
	{ "", "T \n" },
	{ "<p>Hello <b>A</b>nn,<p>see&nbsp;you",
	    "T Hello Ann, see\xc2\xa0you\n" },
	{ "<title>x</title><style>b{}</style>a<!-- b -->c", "T ac\n" },
	{ "<td>a<td>b<br>c<table><tr><td>d<td>e</table>", "T ab c d e\n" },
	{ "<a href=\"https://x.example/?a=1&amp;b=2\">the <i>shop</i></a>",
	    "L https://x.example/?a=1&b=2\tthe shop\nT the shop\n" },
	{ "<a name=top>no link</a>", "T no link\n" },
	{ "<a href='&#1;j\tavascript:x'>a</a>", "L  j avascript:x\ta\nT a\n" },
	{ "<img src=cid:1><img src=https://x.example/1.gif>",
	    "I https://x.example/1.gif\nT \n" },
	{ "<script>alert(1)</script>a", "A script\nT a\n" },
	{ "<form><input></form>", "A form\nT \n" },
	{ "<body onload=x()>a", "A body\nT a\n" },
	{ "<meta http-equiv=Refresh content=0><base href=//x>",
	    "A meta\nA base\nT \n" },
	{ "<meta http-equiv=content-type content=x>a", "T a\n" },
	{ "<noscript>seen</noscript>", "T seen\n" },
};

static const struct {
	const char *style, *how; /* NULL: it is seen */
} styles[] = {
	{ "display:none", "display: none" },
	{ "color:red; DISPLAY : none !important", "display: none" },
	{ "display:block", NULL },
	{ "display:none-such", NULL },
	{ "display:none;display:block", NULL },
	{ "visibility:hidden", "visibility: hidden" },
	{ "mso-hide:all", "mso-hide: all" },
	{ "opacity:0", "opacity: 0" },
	{ "opacity:.01", "opacity: 0" },
	{ "opacity:0.9", NULL },
	{ "font-size:0", "font-size: 0" },
	{ "font-size:1px", "font-size: 0" },
	{ "font-size:0.9em", NULL },
	{ "font-size:1em", NULL },
	{ "font-size:13px", NULL },
	{ "height:0;overflow:hidden", "no room to be seen" },
	{ "height:0", NULL },
	{ "max-height:0px;overflow:hidden", "no room to be seen" },
	{ "position:absolute;left:-9999px", "out of the page" },
	{ "text-indent:-5000px", "out of the page" },
	{ "margin-left:-20px", NULL },
	{ "color:#fff", "colour of its background" },
	{ "color:white", "colour of its background" },
	{ "color:rgb(254, 255, 255)", "colour of its background" },
	{ "color:#777", NULL },
	{ "color:#fff;background:#000", NULL },
	{ "color:#fff;background:url(x.png)", NULL },
	{ "background:#123456;color:#123456", "colour of its background" },
	{ "color:transparent", "color: transparent" },
	{ "background-color:#fff", NULL },
};

static void
report_is(const char *html, const char *want)
{
	unsigned char *out = malloc(ROOM + 1);
	bool cut = false, ok = false;
	size_t n;

	assert_non_null(out);
	n = html_report(out, ROOM, html, strlen(html), &cut, &ok);
	out[n] = '\0';
	assert_true(ok);
	assert_false(cut);
	assert_string_equal((char *)out, want);
	free(out);
}

static void
test_pages(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
		report_is(pages[i].html, pages[i].report);
}

static void
test_styles(void **state)
{
	char html[300], want[300];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(styles) / sizeof(styles[0]); i++) {
		(void)snprintf(html, sizeof(html),
		    "a<div style=\"%s\">b<i>c</i></div>d", styles[i].style);
		if (styles[i].how != NULL)
			(void)snprintf(want, sizeof(want), "H %s\tbc\nT a d\n",
			    styles[i].how);
		else
			(void)snprintf(want, sizeof(want), "T a bc d\n");
		report_is(html, want);
	}
}

static void
test_hidden(void **state)
{
	(void)state;
	report_is("a<p hidden>b", "H hidden\tb\nT a\n");
	/* what fills a preview line says nothing */
	report_is(
	    "a<p style=display:none>&nbsp;&zwnj;&#8199;&nbsp;</p>b", "T a b\n");
	/* hidden inside hidden is told once; links in it are links */
	report_is("<div style=display:none>x<b style=opacity:0>y</b>"
		  "<a href=http://h.example>z</a></div>",
	    "L http://h.example\tz\nH display: none\txyz\nT \n");
	/* white on white, but what is in it has a colour of its own */
	report_is("<div style=color:#fff>a<p style=color:#000>b</p>c",
	    "H colour of its background\ta c\nT b\n");
	report_is("<table bgcolor=#003366><tr><td style=color:#fff>a</table>",
	    "T a\n");
	report_is("<font color=white>a</font>",
	    "H colour of its background\ta\nT \n");
}

/* Deep and broad pages end, and say when they were cut. */
static void
test_limits(void **state)
{
	unsigned char *out = malloc(ROOM);
	char *html = malloc(400001);
	bool cut, ok;
	size_t i, n;

	(void)state;
	assert_true(out != NULL && html != NULL);
	for (i = 0; i < 20000; i++)
		memcpy(html + i * 5, "<div>", 5);
	cut = ok = false;
	n = html_report(out, ROOM, html, 100000, &cut, &ok);
	assert_true(ok && !cut && n == 3);
	for (i = 0; i < 20000; i++)
		memcpy(html + i * 20, "<a href=//x>yy</a>  ", 20);
	cut = ok = false;
	n = html_report(out, ROOM, html, 400000, &cut, &ok);
	assert_true(ok && cut && n <= ROOM);
	memset(html, 'a', 400000);
	cut = ok = false;
	n = html_report(out, ROOM, html, 400000, &cut, &ok);
	assert_true(ok && cut && n <= ROOM);
	cut = ok = false;
	n = html_report(out, 16, html, 400000, &cut, &ok);
	assert_true(ok && cut && n <= 16);
	free(html);
	free(out);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_styles),
		cmocka_unit_test(test_hidden),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
