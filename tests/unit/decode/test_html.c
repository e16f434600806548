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
	{ "<a href='&#1;j\tavascript:x'>a</a>", "L  javascript:x\ta\nT a\n" },
	{ "<map><area href=http://x.example></map>a",
	    "L http://x.example\t\nT a\n" },
	{ "<td background=//x.example/1>a", "T a\n" }, /* no table: no cell */
	{ "<table background=//x.example/1><tr><td>a</table>",
	    "I //x.example/1\nT a\n" },
	{ "<p style='background:URL( \"http://x.example/1\" )'>a",
	    "I http://x.example/1\nT a\n" },
	{ "<style>@import url(cid:1);@import 'http://x.example/2';</style>a",
	    "I http://x.example/2\nT a\n" },
	{ "<link rel=stylesheet href=http://x.example/3><img srcset="
	  "'//x.example/4 2x'><video poster='\\\\x.example\\5'></video>a",
	    "I http://x.example/3\nI //x.example/4 2x\n"
	    "I \\\\x.example\\5\nT a\n" },
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
	{ "font-size:.01em", "font-size: 0" },
	{ "font-size:1%", "font-size: 0" },
	{ "font-size:0.1rem", "font-size: 0" },
	{ "font-size:80%", NULL },
	{ "content-visibility:hidden", "visibility: hidden" },
	{ "-webkit-text-fill-color:transparent", "color: transparent" },
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
	{ "color:rgba(0,0,0,0)", "color: transparent" },
	{ "color:rgba(0,0,0,.9)", NULL },
	{ "color:#0000", "color: transparent" },
	{ "color:#000000ff", NULL },
	{ "color:hsl(0, 0%, 100%)", "colour of its background" },
	{ "color:hsl(120, 50%, 50%)", NULL },
	{ "font:0/0 a", "font-size: 0" },
	{ "font:1px x", "font-size: 0" },
	{ "font:bold 12px x", NULL },
	{ "clip:rect(0,0,0,0)", "cut or shrunk to nothing" },
	{ "clip-path:inset(100%)", "cut or shrunk to nothing" },
	{ "transform:scale(0)", "cut or shrunk to nothing" },
	{ "transform:scale(0.9)", NULL },
	{ "zoom:0.01", "cut or shrunk to nothing" },
	{ "zoom:1", NULL },
	{ "filter:opacity(0)", "cut or shrunk to nothing" },
	{ "d\\69splay:none", "display: none" },
	{ "d\\000069 splay:none", "display: none" },
	{ "display:/* x */none", "display: none" },
	{ "display:none!important;display:block", "display: none" },
	{ "display:none;display:block!important", NULL },
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

static const struct {
	const char *css, *how; /* of <div id=i class="k m" lang=x> */
} sheets[] = { { ".k{display:none}", "display: none" },
	{ " DIV , p { display : none } ", "display: none" },
	{ "#i{display:none}", "display: none" },
	{ "div.k.m#i{display:none}", "display: none" },
	{ "*{opacity:0}", "opacity: 0" },
	{ "[lang]{display:none}", "display: none" },
	{ "[lang=\"x\"]{display:none}", "display: none" },
	{ "body>.k{display:none}", "display: none" },
	{ "html .k{display:none}", "display: none" },
	{ "html > body div{display:none}", "display: none" },
	{ "@media screen{.k{display:none}}", "display: none" },
	{ "<!-- .k{display:none} -->", "display: none" },
	{ "/* } */.k{/* ; */display:none}", "display: none" },
	{ "@import 'x';.k{display:none", "display: none" },
	{ "@font-face{a:b}.k{color:#fff}", "colour of its background" },
	{ "p{}.k{display:none!important}div{display:block}", "display: none" },
	{ ".k{display:none}#i{display:block}", NULL },
	{ "#i{display:block}.k{display:none}", NULL },
	{ "@media print{.k{display:none}}", NULL },
	{ "@media (max-width:600px){.k{display:none}.m{a:b}}", NULL },
	/* what the place among others decides, and what most have */
	{ "@supports(x){.k{display:none}}", "display: none" },
	{ "@layer x{.k{display:none}}", "display: none" },
	{ "@media (min-width:1px){.k{display:none}}", "display: none" },
	{ "@media only screen and (max-width: 9999px)"
	  "{.k{display:none}}",
	    "display: none" },
	{ "@media print,(min-width:1px){.k{display:none}}", "display: none" },
	{ "@media (min-width:900px){.k{display:none}}", NULL },
	{ "@media not screen{.k{display:none}}", NULL },
	{ "@keyframes k{from{display:none}}", NULL },
	{ ".k:not(.z){display:none}", "display: none" },
	{ ".k:not(.z, p .y){display:none}", "display: none" },
	{ "div:nth-child(2){display:none}", "display: none" },
	{ "style+.k,b+.k{display:none}", "display: none" },
	{ "style~.k{display:none}", "display: none" },
	{ "p~.k{display:none}", NULL },
	{ "[class~=k]{display:none}", "display: none" },
	{ "[class*=\"k \" i]{display:none}", "display: none" },
	{ "[lang^='y']{display:none}", NULL },
	{ ".k::after{display:none}", NULL },
	{ ".z:not(.k){display:none}", NULL }, { "a}", NULL }, { " ", NULL },
	{ ".k{", NULL }, { ".K{display:none}", NULL },
	{ ".kk{display:none}", NULL }, { "p .k{display:none}", NULL },
	{ "html>.k{display:none}", NULL }, { ".k:hover{display:none}", NULL },
	{ "a+.k{display:none}", NULL }, { "[lang=y]{display:none}", NULL },
	{ "}}}{;.k", NULL }, { "@media screen", NULL } };

static void
test_sheets(void **state)
{
	char html[300], want[300];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(sheets) / sizeof(sheets[0]); i++) {
		(void)snprintf(html, sizeof(html),
		    "<body><style>%s</style>a<div id=i class=\"k m\" "
		    "lang=x>b<i>c</i></div>d",
		    sheets[i].css);
		if (sheets[i].how != NULL &&
		    strcmp(sheets[i].how, "opacity: 0") == 0) /* of all */
			(void)snprintf(want, sizeof(want), "H %s\ta bc d\nT \n",
			    sheets[i].how);
		else if (sheets[i].how != NULL)
			(void)snprintf(want, sizeof(want), "H %s\tbc\nT a d\n",
			    sheets[i].how);
		else
			(void)snprintf(want, sizeof(want), "T a bc d\n");
		report_is(html, want);
	}
	/* in the body, too; a style of its own is stronger */
	report_is("<p class=a>b<p class=a style=display:block>c"
		  "<style>.a{display:none}</style>",
	    "H display: none\tb\nT c\n");
	report_is("<style media=print>p{display:none}</style><p>b", "T b\n");
	/* the nearest of several is not the one, a further is */
	report_is("<style>.x>.y .z{display:none}</style><p class=x><b class=y>"
		  "<b class=y><i class=z>h",
	    "H display: none\th\nT \n");
}

/* Rules that are left out are told, or they would be a place to hide. */
static void
test_unjudged(void **state)
{
	static const struct {
		const char *before, *filling, *after;
		size_t fillings;
		const char *why;
	} all[] = { { "<style>/*", "x", "*/p{display:none}</style>", 270000,
			"style sheets too long to judge" },
		{ "", "<style>b{}</style>", "<style>p{display:none}</style>", 8,
		    "style sheets too long to judge" },
		{ "<style>", "b{}", "p{display:none}</style>", 1000,
		    "too many style rules to judge" },
		{ "<style>", "p{a:b}", "p{display:none}</style>", 32,
		    "too many style rules for one element" },
		{ "<style>p{a:'", "x", "'}p#i{display:none}</style>", 40000,
		    "styles too long to judge" },
		{ "<style>", "p{&.k{display:none}}", "</style>", 1,
		    "rules inside of rules" } };
	unsigned char *out = malloc(ROOM + 1);
	char *html = malloc(400000), want[200];
	bool cut, ok;
	size_t i, j, n;

	(void)state;
	assert_true(out != NULL && html != NULL);
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		n = (size_t)sprintf(html, "%s", all[i].before);
		for (j = 0; j < all[i].fillings; j++)
			n += (size_t)sprintf(html + n, "%s", all[i].filling);
		n += (size_t)sprintf(
		    html + n, "%s<p id=i class=k>b", all[i].after);
		out[html_report(out, ROOM, html, n, &cut, &ok)] = '\0';
		(void)snprintf(want, sizeof(want), "H %s\t\n", all[i].why);
		assert_non_null(strstr((char *)out, want));
	}
	free(html);
	free(out);
}

/* Text that stands in a style sheet only. */
static void
test_made(void **state)
{
	(void)state;
	report_is("<style>p::after{color:red;content:'Pay ' \"E\\76 e\"}"
		  "</style><p>a",
	    "T a Pay Eve\n");
	report_is("<style>p:before{content:\"Pay;\"}b{content:'x'}</style>a",
	    "T a Pay;\n");
	report_is("<style>p::before{content:attr(title)}</style><p title=x>a",
	    "H style rules that show attributes\t\nT a\n");
}

/* What some programs show and a page here does not. */
static void
test_shown_elsewhere(void **state)
{
	(void)state;
	/* for small screens once more: nothing that is not shown */
	report_is(
	    "<p>Buy now<p style=display:none>Buy <b>now</b>", "T Buy now\n");
	report_is("a<!--[if mso]><p>Pay&nbsp;Eve<![endif]-->b",
	    "H for Outlook only\tPay Eve\nT ab\n");
	report_is("<!--[if mso | IE]><table><tr><td width=\"600\">"
		  "<![endif]-->a<!--[if mso]></td></tr></table><![endif]-->",
	    "T a\n");
	report_is("<p>a<!--[if gte mso 9]><xml><o:P>96</o:P></xml><style>b{}"
		  "</style><![endif]--><!--[if !mso]><!-->c<!--<![endif]-->",
	    "T ac\n");
	report_is("<p><!--[if mso]><v:rect><center>Buy now</center></v:rect>"
		  "<![endif]--><a href=//x.example>Buy now</a>",
	    "L //x.example\tBuy now\nT Buy now\n");
	report_is("a<!-- [if mso] not one -->", "T a\n");
}

/* Many rules and many elements end, and say when they were cut. */
static void
test_many_rules(void **state)
{
	unsigned char *out = malloc(ROOM);
	char *html = calloc(1, 400000);
	bool cut = false, ok = false;
	size_t i, n = 0;

	(void)state;
	assert_true(out != NULL && html != NULL);
	n += (size_t)sprintf(html + n, "<style>");
	for (i = 0; i < 1000; i++)
		n += (size_t)sprintf(html + n, "a b c d e f g .k{color:red}");
	n += (size_t)sprintf(html + n, "</style>");
	for (i = 0; i < 30000; i++)
		n += (size_t)sprintf(html + n, "<i class=k>");
	(void)html_report(out, ROOM, html, n, &cut, &ok);
	assert_true(ok && cut);
	free(html);
	free(out);
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
		cmocka_unit_test(test_sheets),
		cmocka_unit_test(test_unjudged),
		cmocka_unit_test(test_made),
		cmocka_unit_test(test_shown_elsewhere),
		cmocka_unit_test(test_many_rules),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
