/* SPDX-License-Identifier: ISC */
/*
 * page_frame.c - the HTML of a message as a document of its own
 *
 * This is what an agent wrote, byte for byte, so nothing here trusts it: the
 * policy of the reply fetches and runs nothing and puts the document into a
 * sandbox, also when somebody opens the address in a tab; the frame around it
 * has a sandbox of its own. Neither is enough alone. Nothing is judged by what
 * it says: a filter that is nearly right is wrong. But no policy covers a
 * connection opened ahead (rel=preconnect), so a tag that could ask for one
 * becomes another, unknown tag, wherever its name stands.
 *
 * Pictures that are parts of the message stand in the document itself, so that
 * the frame has nothing to ask for (decision 0056).
 */
#include <string.h>
#include <strings.h>

#include "admin/handlers.h"
#include "admin/page_message.h"
#include "base/codec.h"
#include "http/reply.h"
#include "http/request.h"

#define PICTURES_MAX 20
#define PICTURE_BYTES (2 * 1024 * 1024)
#define PICTURES_BYTES (6 * 1024 * 1024) /* in all, each time it shows */

struct picture {
	const char *id; /* its Content-ID */
	char *data; /* base64 */
	size_t n;
	const char *type;
};

struct pictures {
	struct picture one[PICTURES_MAX];
	size_t n, written;
};

static const struct view_part *
first_html(const struct message_read *r)
{
	size_t i;

	for (i = 0; i < r->part_count; i++)
		if (r->parts[i].code)
			return &r->parts[i];
	return NULL;
}

/* "<link" to "<_ink": a tag has its name in these bytes and no others. */
static void
blunt(unsigned char *p, size_t n, const char *tag)
{
	size_t len = strlen(tag), i;

	for (i = 0; i + len <= n; i++)
		if (p[i] == '<' &&
		    strncasecmp((const char *)p + i, tag, len) == 0)
			p[i + 1] = '_';
}

/* Only these, and only when their first bytes say so. */
static const char *
picture_type(struct str bytes)
{
	static const char *const types[][2] = { { "PNG image", "image/png" },
		{ "JPEG image", "image/jpeg" }, { "GIF image", "image/gif" },
		{ "WebP image", "image/webp" } };
	const char *what = sniff_type(bytes);
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(what, types[i][0]) == 0)
			return types[i][1];
	return NULL;
}

static void
collect(struct pictures *all, const struct message_read *r, struct arena *mem)
{
	size_t i;

	for (i = 0; i < r->list.count && all->n < PICTURES_MAX; i++) {
		const struct mime_part *p = &r->list.part[i];
		struct picture *to = &all->one[all->n];
		struct buf bytes = { 0 };
		char *name;

		if (p->kind != MIME_LEAF || p->content_id[0] == '\0' ||
		    p->body_size > 2 * PICTURE_BYTES ||
		    !message_read_leaf(r->bytes, p->ix, mem, &bytes, &name)) {
			buf_free(&bytes);
			continue;
		}
		to->type = picture_type(buf_str(&bytes));
		if (to->type != NULL && bytes.n <= PICTURE_BYTES) {
			to->id = p->content_id;
			to->n = (bytes.n + 2) / 3 * 4;
			to->data = arena_get(mem, to->n + 1);
			base64_encode(to->data, bytes.p, bytes.n);
			all->n++;
		}
		buf_free(&bytes);
	}
}

static int
hex_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* RFC 2392: the id as an address is percent-encoded. */
static bool
is_id(struct str url, const char *id)
{
	size_t i;

	for (i = 0; i < url.n; i++, id++) {
		int c = (unsigned char)url.p[i];

		if (c == '%' && i + 2 < url.n && hex_of(url.p[i + 1]) >= 0 &&
		    hex_of(url.p[i + 2]) >= 0) {
			c = hex_of(url.p[i + 1]) * 16 + hex_of(url.p[i + 2]);
			i += 2;
		}
		if ((unsigned char)*id != c)
			return false;
	}
	return *id == '\0';
}

/* "cid:x@y" at `s`: how long it is, and which picture; NULL: none of them. */
static const struct picture *
named(const struct pictures *all, struct str s, size_t *n)
{
	size_t i;

	*n = 4;
	while (*n < s.n && strchr(" \t\r\n\"'<>()", s.p[*n]) == NULL)
		++*n;
	for (i = 0; i < all->n; i++)
		if (is_id((struct str){ s.p + 4, *n - 4 }, all->one[i].id))
			return &all->one[i];
	return NULL;
}

static void
put_with_pictures(struct buf *out, struct pictures *all, struct str html)
{
	while (html.n > 0) {
		size_t n = 1;
		const struct picture *p = str_istarts(html, str_lit("cid:"))
					      ? named(all, html, &n)
					      : NULL;

		if (p != NULL && all->written + p->n <= PICTURES_BYTES) {
			buf_printf(out, "data:%s;base64,", p->type);
			buf_add(out, p->data, p->n);
			all->written += p->n;
		} else {
			buf_add(out, html.p, n);
		}
		html.p += n;
		html.n -= n;
	}
}

static void
lock_in(struct http_request *req)
{
	http_reply_header(req, "Content-Security-Policy",
	    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
	    "font-src data:; form-action 'none'; base-uri 'none'; "
	    "frame-ancestors 'self'; sandbox");
	http_reply_header(req, "X-Frame-Options", "SAMEORIGIN");
	http_reply_header(req, "Cross-Origin-Opener-Policy", "unsafe-none");
	http_reply_header(req, "Referrer-Policy", "no-referrer");
}

void
page_frame_send(struct page *page)
{
	struct message_page *mp = page->mine;
	const struct view_part *html =
	    mp->is_open ? first_html(&mp->read) : NULL;
	struct pictures pictures = { 0 };

	if (html == NULL) {
		page_problem(page->req, 404, "Not found",
		    "There is no HTML at this address that you may see.");
		return;
	}
	lock_in(page->req);
	collect(&pictures, &mp->read, &page->mem);
	put_with_pictures(
	    &page->out, &pictures, (struct str){ html->text, html->text_n });
	blunt(page->out.p, page->out.n, "<link");
	blunt(page->out.p, page->out.n, "<iframe"); /* its srcdoc is a page */
	page_send(page, 200);
}

void
handle_frame(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct message_page));
	struct message_page *mp = page->mine;
	const char *why = http_request_query(req, "why");

	if (!page_message_id(page, &mp->id))
		return;
	mp->frame = true;
	mp->why = why != NULL && why[0] != '\0' ? why : NULL;
	page_message_gather(page);
}
