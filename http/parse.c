/* SPDX-License-Identifier: ISC */
/*
 * parse.c - see parse.h. The head is scanned byte by byte for what llhttp
 * lets pass (bare CR, folded lines, controls, more than one space in the
 * request line) and counted; then http/check.c looks at it as a whole.
 */
#include "http/parse.h"

#include <string.h>
#include <strings.h>

#include "http/check.h"

enum {
	PHASE_HEAD,
	PHASE_LOOK,
	PHASE_LENGTH,
	PHASE_CHUNKED,
	PHASE_END,
	PHASE_BAD
};

enum {
	SCAN_BEFORE, /* blank lines a client may send between requests */
	SCAN_BEFORE_LF,
	SCAN_REQUEST, /* the request line */
	SCAN_LINE, /* a header line */
	SCAN_LF, /* after CR at the end of a line */
	SCAN_START, /* first byte of a header line */
	SCAN_LAST_LF, /* after the CR of the empty line */
	SCAN_DONE,
	SCAN_BAD,
};

static int on_target(llhttp_t *ll, const char *at, size_t n);
static int on_target_done(llhttp_t *ll);
static int on_name(llhttp_t *ll, const char *at, size_t n);
static int on_name_done(llhttp_t *ll);
static int on_value(llhttp_t *ll, const char *at, size_t n);
static int on_value_done(llhttp_t *ll);
static int on_head_done(llhttp_t *ll);
static int on_body(llhttp_t *ll, const char *at, size_t n);
static int on_message_done(llhttp_t *ll);

static const llhttp_settings_t settings = {
	.on_url = on_target,
	.on_url_complete = on_target_done,
	.on_header_field = on_name,
	.on_header_field_complete = on_name_done,
	.on_header_value = on_value,
	.on_header_value_complete = on_value_done,
	.on_headers_complete = on_head_done,
	.on_body = on_body,
	.on_message_complete = on_message_done,
};

void
http_parser_init(struct http_parser *p,
    void (*fn)(void *arg, const char *p, size_t n), void *arg)
{
	memset(p, 0, sizeof(*p));
	p->on_body = fn;
	p->arg = arg;
	http_parser_reset(p);
}

void
http_parser_reset(struct http_parser *p)
{
	buf_free(&p->head.text);
	p->head.headers_n = 0;
	p->head.target_n = 0;
	p->head.method = "";
	p->head.http11 = p->head.close = p->head.expect = false;
	p->head.chunked = false;
	p->head.length = 0;
	llhttp_init(&p->ll, HTTP_REQUEST, &settings);
	p->ll.data = p;
	p->phase = PHASE_HEAD;
	p->scan = SCAN_BEFORE;
	p->spaces = 0;
	p->head_n = p->mark = 0;
	p->left = 0;
	p->head_done = p->message_done = p->started = false;
	p->fault = HTTP_FAULT_NONE;
	p->why = NULL;
}

void
http_parser_free(struct http_parser *p)
{
	buf_free(&p->head.text);
}

const char *
http_head_target(const struct http_head *head)
{
	return (const char *)head->text.p + head->target;
}

const char *
http_head_find(const struct http_head *head, const char *name)
{
	const char *text = (const char *)head->text.p;
	unsigned i;

	for (i = 0; i < head->headers_n; i++)
		if (strcasecmp(text + head->headers[i].name, name) == 0)
			return text + head->headers[i].value;
	return NULL;
}

static enum http_parse_step
refuse(struct http_parser *p, enum http_fault fault, const char *why)
{
	p->phase = PHASE_BAD;
	if (p->fault == HTTP_FAULT_NONE) {
		p->fault = fault;
		p->why = why;
	}
	return HTTP_PARSE_BAD;
}

/* One byte of the head; the next state of the scan. */
static int
scan_byte(struct http_parser *p, unsigned char c)
{
	switch (p->scan) {
	case SCAN_BEFORE:
		if (c == '\r')
			return SCAN_BEFORE_LF;
		return c >= 'A' && c <= 'Z' ? SCAN_REQUEST : SCAN_BAD;
	case SCAN_BEFORE_LF:
		return c == '\n' ? SCAN_BEFORE : SCAN_BAD;
	case SCAN_REQUEST:
		if (c == '\r')
			return p->spaces == 2 ? SCAN_LF : SCAN_BAD;
		p->spaces += c == ' ';
		return c < 0x20 || c >= 0x7f ? SCAN_BAD : SCAN_REQUEST;
	case SCAN_LF:
		return c == '\n' ? SCAN_START : SCAN_BAD;
	case SCAN_START:
		if (c == '\r')
			return SCAN_LAST_LF;
		if (c == ' ' || c == '\t')
			return SCAN_BAD;
		__attribute__((fallthrough));
	case SCAN_LINE:
		if (c == '\r')
			return SCAN_LF;
		return (c < 0x20 && c != '\t') || c == 0x7f ? SCAN_BAD
							    : SCAN_LINE;
	case SCAN_LAST_LF:
		return c == '\n' ? SCAN_DONE : SCAN_BAD;
	}
	return SCAN_BAD;
}

/*
 * Scan up to the end of the head; returns the bytes that belong to it. Blank
 * lines before the request line are counted but not passed on: *skip.
 */
static size_t
scan_head(struct http_parser *p, const char *data, size_t n, size_t *skip)
{
	size_t i;

	*skip = 0;
	for (i = 0; i < n && p->scan != SCAN_DONE; i++) {
		p->started = true;
		if (++p->head_n > HTTP_HEAD_MAX) {
			refuse(p, HTTP_FAULT_TOO_LARGE, "head over 16 KiB");
			return i;
		}
		p->scan = scan_byte(p, (unsigned char)data[i]);
		if (p->scan == SCAN_BAD) {
			refuse(p, HTTP_FAULT_SYNTAX,
			    "byte or line end not allowed in a head");
			return i;
		}
		if (p->scan == SCAN_BEFORE || p->scan == SCAN_BEFORE_LF)
			*skip = i + 1;
	}
	return i;
}

static enum http_parse_step
head_complete(struct http_parser *p)
{
	if (!p->head_done)
		return refuse(p, HTTP_FAULT_SYNTAX, "head not understood");
	if (!http_check_head(p))
		return HTTP_PARSE_BAD;
	p->left = p->head.length > 0 ? (unsigned long long)p->head.length : 0;
	http_chunk_init(&p->chunk);
	if (p->message_done != (!p->head.chunked && p->left == 0))
		return refuse(p, HTTP_FAULT_FRAMING, "length is ambiguous");
	p->phase = PHASE_LOOK;
	return HTTP_PARSE_HEAD;
}

static enum http_parse_step
feed_head(struct http_parser *p, const char *data, size_t n, size_t *used)
{
	size_t skip;

	*used = scan_head(p, data, n, &skip);
	if (p->phase == PHASE_BAD)
		return HTTP_PARSE_BAD;
	if (llhttp_execute(&p->ll, data + skip, *used - skip) != HPE_OK)
		return refuse(
		    p, HTTP_FAULT_SYNTAX, llhttp_get_error_reason(&p->ll));
	if (p->scan == SCAN_DONE)
		return head_complete(p);
	if (p->head_done)
		return refuse(p, HTTP_FAULT_SYNTAX, "head ends too soon");
	return HTTP_PARSE_MORE;
}

/* Hand `n` bytes of body to llhttp; `last` when our count says it is over. */
static enum http_parse_step
feed_llhttp(struct http_parser *p, const char *data, size_t n, bool last)
{
	if (llhttp_execute(&p->ll, data, n) != HPE_OK)
		return refuse(
		    p, HTTP_FAULT_FRAMING, llhttp_get_error_reason(&p->ll));
	if (p->message_done != last)
		return refuse(p, HTTP_FAULT_FRAMING, "body ends elsewhere");
	if (!last)
		return HTTP_PARSE_MORE;
	p->phase = PHASE_END;
	return HTTP_PARSE_END;
}

static enum http_parse_step
feed_length(struct http_parser *p, const char *data, size_t n, size_t *used)
{
	*used = n < p->left ? n : (size_t)p->left;
	p->left -= *used;
	if (*used == 0)
		return HTTP_PARSE_MORE;
	return feed_llhttp(p, data, *used, p->left == 0);
}

static enum http_parse_step
feed_chunked(struct http_parser *p, const char *data, size_t n, size_t *used)
{
	enum http_chunk_result r = http_chunk_feed(&p->chunk, data, n, used);

	if (r == HTTP_CHUNK_BAD)
		return refuse(p, HTTP_FAULT_FRAMING, "malformed chunk");
	if (*used == 0)
		return HTTP_PARSE_MORE;
	return feed_llhttp(p, data, *used, r == HTTP_CHUNK_END);
}

/* The head has been looked at: what follows? */
static void
leave_look(struct http_parser *p)
{
	if (p->head.chunked)
		p->phase = PHASE_CHUNKED;
	else
		p->phase = p->left > 0 ? PHASE_LENGTH : PHASE_END;
}

enum http_parse_step
http_parse(struct http_parser *p, const char *data, size_t n, size_t *used)
{
	*used = 0;
	if (p->phase == PHASE_LOOK)
		leave_look(p);
	switch (p->phase) {
	case PHASE_HEAD:
		return n > 0 ? feed_head(p, data, n, used) : HTTP_PARSE_MORE;
	case PHASE_LENGTH:
		return feed_length(p, data, n, used);
	case PHASE_CHUNKED:
		return feed_chunked(p, data, n, used);
	case PHASE_END:
		return HTTP_PARSE_END;
	}
	return HTTP_PARSE_BAD;
}

/* Callbacks of llhttp, in the order they come. */

static int
on_target(llhttp_t *ll, const char *at, size_t n)
{
	struct http_parser *p = ll->data;

	if (p->head.target_n == 0)
		p->head.target = (unsigned)p->head.text.n;
	p->head.target_n += n;
	if (p->head.target_n > HTTP_TARGET_MAX) {
		refuse(p, HTTP_FAULT_TOO_LARGE, "target over 2048 bytes");
		return -1;
	}
	buf_add(&p->head.text, at, n);
	return 0;
}

static int
on_target_done(llhttp_t *ll)
{
	struct http_parser *p = ll->data;

	buf_putc(&p->head.text, '\0');
	p->mark = p->head.text.n;
	return 0;
}

static int
on_name(llhttp_t *ll, const char *at, size_t n)
{
	struct http_parser *p = ll->data;

	buf_add(&p->head.text, at, n);
	return 0;
}

static int
on_name_done(llhttp_t *ll)
{
	struct http_parser *p = ll->data;

	if (p->head.headers_n == HTTP_HEADERS_MAX) {
		refuse(p, HTTP_FAULT_TOO_LARGE, "more than 100 headers");
		return -1;
	}
	p->head.headers[p->head.headers_n].name = (unsigned)p->mark;
	buf_putc(&p->head.text, '\0');
	p->mark = p->head.text.n;
	return 0;
}

static int
on_value(llhttp_t *ll, const char *at, size_t n)
{
	struct http_parser *p = ll->data;

	buf_add(&p->head.text, at, n);
	return 0;
}

static int
on_value_done(llhttp_t *ll)
{
	struct http_parser *p = ll->data;
	struct buf *text = &p->head.text;

	while (text->n > p->mark &&
	       (text->p[text->n - 1] == ' ' || text->p[text->n - 1] == '\t'))
		text->n--;
	p->head.headers[p->head.headers_n++].value = (unsigned)p->mark;
	buf_putc(text, '\0');
	p->mark = text->n;
	return 0;
}

static int
on_head_done(llhttp_t *ll)
{
	struct http_parser *p = ll->data;

	p->head_done = true;
	ll->upgrade = 0; /* we speak nothing else: Upgrade is ignored */
	return 0;
}

static int
on_body(llhttp_t *ll, const char *at, size_t n)
{
	struct http_parser *p = ll->data;

	p->on_body(p->arg, at, n);
	return 0;
}

static int
on_message_done(llhttp_t *ll)
{
	struct http_parser *p = ll->data;

	p->message_done = true;
	return 0;
}
