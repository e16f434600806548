/* SPDX-License-Identifier: ISC */
/*
 * fuzz_http.c - bytes of a connection through the HTTP parser, twice: whole,
 * and cut into pieces of a length the input chooses. Both must see the same
 * requests, bodies and fault; a body must be as long as its head says.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "http/conn.h"
#include "http/parse.h"
#include "http/route.h"
#include "http/urlenc.h"

static const struct http_route routes[] = {
	{ "GET", "/v1/{a}", "a", 0, 0, false, NULL },
	{ "POST", "/v1/{a}/b/{c}", "b", 0, 0, false, NULL },
};

/* All that was seen, as text. */
struct seen {
	struct buf text;
	unsigned long long body;
	size_t mark; /* end of the last head: what follows is its body */
};

static void
on_body(void *arg, const char *p, size_t n)
{
	struct seen *s = arg;

	buf_add(&s->text, p, n);
	s->body += n;
}

/* What the server does with a head: must neither crash nor leak. */
static void
use_head(struct seen *s, const struct http_head *head)
{
	const char *target = http_head_target(head);
	const char *query = strchr(target, '?');
	size_t n = query != NULL ? (size_t)(query - target) : strlen(target);
	struct http_match match;
	struct http_pairs pairs;
	unsigned i;

	BUG_ON(target[0] != '/');
	BUG_ON(head->chunked && head->length != -1);
	buf_printf(
	    &s->text, "\n[%s %s %lld]", head->method, target, head->length);
	for (i = 0; i < head->headers_n; i++)
		buf_printf(&s->text, "{%s=%s}",
		    (const char *)head->text.p + head->headers[i].name,
		    (const char *)head->text.p + head->headers[i].value);
	http_route_find(&match, routes, 2, head->method, target, n);
	http_match_free(&match);
	if (query != NULL && http_pairs_parse(&pairs, query, strlen(query)))
		http_pairs_free(&pairs);
}

/* One request after the other, in pieces of at most `piece` bytes. */
static void
run(struct seen *s, const char *data, size_t n, size_t piece)
{
	struct http_parser p;
	enum http_parse_step step = HTTP_PARSE_MORE;
	long long length = 0;
	size_t at = 0, len, used;

	http_parser_init(&p, on_body, s);
	while (step != HTTP_PARSE_BAD) {
		len = n - at < piece ? n - at : piece;
		step = http_parse(&p, data + at, len, &used);
		BUG_ON(used > len);
		at += used;
		if (step == HTTP_PARSE_MORE && used == 0)
			break;
		if (step == HTTP_PARSE_HEAD) {
			use_head(s, &p.head);
			length = p.head.length;
			s->body = 0;
			s->mark = s->text.n;
		} else if (step == HTTP_PARSE_END) {
			BUG_ON(length >= 0 &&
			       s->body != (unsigned long long)length);
			buf_puts(&s->text, "\n[end]");
			s->mark = s->text.n;
			http_parser_reset(&p);
		}
	}
	if (step == HTTP_PARSE_BAD) {
		/* How much of a refused body came through depends on cuts. */
		s->text.n = s->mark;
		buf_puts(&s->text, "\n[bad]");
	}
	http_parser_free(&p);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct seen whole = { 0 }, cut = { 0 };
	const char *text;

	if (n < 2)
		return 0;
	text = (const char *)data + 1;
	run(&whole, text, n - 1, HTTP_SLICE);
	run(&cut, text, n - 1, 1 + data[0] % 64);
	BUG_ON(whole.text.n != cut.text.n);
	BUG_ON(whole.text.n > 0 &&
	       memcmp(whole.text.p, cut.text.p, cut.text.n) != 0);
	buf_free(&whole.text);
	buf_free(&cut.text);
	return 0;
}
