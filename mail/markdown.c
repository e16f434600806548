/* SPDX-License-Identifier: ISC */
/*
 * markdown.c - see markdown.h. md4c parses; what it finds is written here,
 * because its own renderer lets any scheme into a link.
 */
#include "mail/markdown.h"

#include <string.h>

#include <md4c.h>

struct work {
	struct buf *out;
	unsigned links; /* open spans of links: bit 0 is the innermost */
	size_t most; /* of `out`: a reference makes much of little */
};

/* For md4c: anything but 0 ends it. */
static int
go_on(const struct work *w)
{
	return w->out->n > w->most ? -1 : 0;
}

static void
put_text(struct buf *out, const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		switch (p[i]) {
		case '&':
			buf_puts(out, "&amp;");
			break;
		case '<':
			buf_puts(out, "&lt;");
			break;
		case '>':
			buf_puts(out, "&gt;");
			break;
		case '"':
			buf_puts(out, "&quot;");
			break;
		default:
			buf_putc(out, p[i]);
		}
	}
}

/* As it stands in an attribute: nothing in it ends that. */
static void
put_url(struct buf *out, struct str url)
{
	static const char plain[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	    "-._~:/?#[]@!$()*+,;=%";
	size_t i;

	for (i = 0; i < url.n; i++) {
		if (url.p[i] == '&')
			buf_puts(out, "&amp;");
		else if (url.p[i] != '\0' && strchr(plain, url.p[i]) != NULL)
			buf_putc(out, url.p[i]);
		else
			buf_printf(out, "%%%02X", (unsigned char)url.p[i]);
	}
}

/* The address of a link; false when there is to be none. */
static bool
take_url(struct buf *url, const MD_ATTRIBUTE *a)
{
	static const char *const schemes[] = { "http://", "https://",
		"mailto:" };
	size_t i, n;

	for (i = 0; a->substr_offsets[i] < a->size; i++) {
		const char *p = a->text + a->substr_offsets[i];

		n = a->substr_offsets[i + 1] - a->substr_offsets[i];
		if (a->substr_types[i] == MD_TEXT_NORMAL)
			buf_add(url, p, n);
		else if (a->substr_types[i] == MD_TEXT_ENTITY &&
			 str_eq((struct str){ p, n }, str_lit("&amp;")))
			buf_putc(url, '&');
		else
			return false; /* what it is hidden behind, who knows */
	}
	for (i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (str_istarts(buf_str(url), str_of(schemes[i])))
			return true;
	return false;
}

static void
enter_link(struct work *w, const MD_SPAN_A_DETAIL *a)
{
	struct buf url = { 0 };
	bool is_link = take_url(&url, &a->href);

	w->links = w->links << 1 | (is_link ? 1 : 0);
	if (is_link) {
		buf_puts(w->out, "<a href=\"");
		put_url(w->out, buf_str(&url));
		buf_puts(w->out, "\">");
	}
	buf_free(&url);
}

static void
leave_link(struct work *w)
{
	if (w->links & 1)
		buf_puts(w->out, "</a>");
	w->links >>= 1;
}

/* <name> or </name>, where the name alone says it. */
static const char *
block_name(MD_BLOCKTYPE type)
{
	static const char *const names[] = {
		[MD_BLOCK_QUOTE] = "blockquote",
		[MD_BLOCK_UL] = "ul",
		[MD_BLOCK_OL] = "ol",
		[MD_BLOCK_LI] = "li",
		[MD_BLOCK_P] = "p",
		[MD_BLOCK_TABLE] = "table",
		[MD_BLOCK_THEAD] = "thead",
		[MD_BLOCK_TBODY] = "tbody",
		[MD_BLOCK_TR] = "tr",
		[MD_BLOCK_TH] = "th",
		[MD_BLOCK_TD] = "td",
	};

	return (size_t)type < sizeof(names) / sizeof(names[0]) ? names[type]
							       : NULL;
}

static int
on_enter_block(MD_BLOCKTYPE type, void *detail, void *arg)
{
	struct work *w = arg;
	const char *name = block_name(type);

	if (type == MD_BLOCK_H)
		buf_printf(
		    w->out, "<h%u>", ((MD_BLOCK_H_DETAIL *)detail)->level);
	else if (type == MD_BLOCK_HR)
		buf_puts(w->out, "<hr>\n");
	else if (type == MD_BLOCK_CODE)
		buf_puts(w->out, "<pre><code>");
	else if (type == MD_BLOCK_OL &&
		 ((MD_BLOCK_OL_DETAIL *)detail)->start != 1)
		buf_printf(w->out, "<ol start=\"%u\">\n",
		    ((MD_BLOCK_OL_DETAIL *)detail)->start);
	else if (name != NULL)
		buf_printf(w->out, "<%s>", name);
	return go_on(w);
}

static int
on_leave_block(MD_BLOCKTYPE type, void *detail, void *arg)
{
	struct work *w = arg;
	const char *name = block_name(type);

	if (type == MD_BLOCK_H)
		buf_printf(
		    w->out, "</h%u>\n", ((MD_BLOCK_H_DETAIL *)detail)->level);
	else if (type == MD_BLOCK_CODE)
		buf_puts(w->out, "</code></pre>\n");
	else if (name != NULL)
		buf_printf(w->out, "</%s>\n", name);
	return go_on(w);
}

static const char *
span_name(MD_SPANTYPE type)
{
	return type == MD_SPAN_EM       ? "em"
	       : type == MD_SPAN_STRONG ? "strong"
	       : type == MD_SPAN_CODE   ? "code"
	       : type == MD_SPAN_DEL    ? "del"
					: NULL;
}

static int
on_enter_span(MD_SPANTYPE type, void *detail, void *arg)
{
	struct work *w = arg;

	if (type == MD_SPAN_A)
		enter_link(w, detail);
	else if (span_name(type) != NULL)
		buf_printf(w->out, "<%s>", span_name(type));
	return go_on(w);
}

static int
on_leave_span(MD_SPANTYPE type, void *detail, void *arg)
{
	struct work *w = arg;

	(void)detail;
	if (type == MD_SPAN_A)
		leave_link(w);
	else if (span_name(type) != NULL)
		buf_printf(w->out, "</%s>", span_name(type));
	return go_on(w);
}

static int
on_text(MD_TEXTTYPE type, const MD_CHAR *p, MD_SIZE n, void *arg)
{
	struct work *w = arg;

	if (type == MD_TEXT_BR)
		buf_puts(w->out, "<br>\n");
	else if (type == MD_TEXT_SOFTBR)
		buf_putc(w->out, '\n');
	else if (type == MD_TEXT_NULLCHAR)
		buf_puts(w->out, "\xef\xbf\xbd");
	else if (type == MD_TEXT_ENTITY)
		buf_add(w->out, p, n); /* &name; or a number: md4c saw to it */
	else
		put_text(w->out, p, n);
	return go_on(w);
}

bool
markdown_html(struct buf *out, struct str text)
{
	static const MD_PARSER parser = {
		.flags = MD_FLAG_NOHTML | MD_FLAG_TABLES |
			 MD_FLAG_STRIKETHROUGH | MD_FLAG_PERMISSIVEURLAUTOLINKS,
		.enter_block = on_enter_block,
		.leave_block = on_leave_block,
		.enter_span = on_enter_span,
		.leave_span = on_leave_span,
		.text = on_text,
	};
	struct work w = { .out = out, .most = out->n + MARKDOWN_HTML_MAX };

	if (text.n > MARKDOWN_MAX)
		return false;
	buf_puts(out, "<html><body>\n");
	if (md_parse(text.p, (MD_SIZE)text.n, &parser, &w) != 0)
		return false;
	buf_puts(out, "</body></html>\n");
	return true;
}
