/* SPDX-License-Identifier: ISC */
/*
 * check.c - rules about whole heads. RFC 9112 sections 2.3, 3.2, 6 and 9, read
 * strictly: whatever two parsers on the way could disagree about is refused.
 */
#include "http/check.h"

#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "http/parse.h"

/* Headers that steer: a second one makes the request ambiguous. */
static const char *const single[] = { "host", "content-length",
	"transfer-encoding", "content-type", "content-encoding",
	"authorization", "cookie", "expect", "origin", "referer",
	"idempotency-key", "x-postern-envelope", "sec-fetch-site" };

static bool
refuse(struct http_parser *p, enum http_fault fault, const char *why)
{
	p->fault = fault;
	p->why = why;
	return false;
}

static bool
has_repeated(const struct http_head *head)
{
	const char *text = (const char *)head->text.p;
	size_t i;
	unsigned h, seen;

	for (i = 0; i < sizeof(single) / sizeof(single[0]); i++) {
		seen = 0;
		for (h = 0; h < head->headers_n; h++)
			seen += strcasecmp(text + head->headers[h].name,
				    single[i]) == 0;
		if (seen > 1)
			return true;
	}
	return false;
}

static bool
is_name_byte(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool
has_bad_name(const struct http_head *head)
{
	const char *text = (const char *)head->text.p, *s;
	unsigned h;

	for (h = 0; h < head->headers_n; h++) {
		s = text + head->headers[h].name;
		if (*s == '\0')
			return true;
		for (; *s != '\0'; s++)
			if (!is_name_byte((unsigned char)*s))
				return true;
	}
	return false;
}

/* uri-host [ ":" port ]: enough to be sure that it is one name. */
static bool
is_host(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n > 255)
		return false;
	return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			 "0123456789-._:[]") == n;
}

static bool
check_host(struct http_parser *p)
{
	const char *host = http_head_find(&p->head, "host");

	if (host == NULL && p->head.http11)
		return refuse(p, HTTP_FAULT_SYNTAX, "Host is missing");
	if (host != NULL && !is_host(host))
		return refuse(p, HTTP_FAULT_SYNTAX, "Host is not a name");
	return true;
}

static bool
check_target(struct http_parser *p)
{
	const char *t = http_head_target(&p->head);
	size_t i;

	if (p->head.target_n == 0 || t[0] != '/')
		return refuse(
		    p, HTTP_FAULT_SYNTAX, "target must be a path on this host");
	for (i = 0; i < p->head.target_n; i++)
		if ((unsigned char)t[i] <= 0x20 ||
		    (unsigned char)t[i] >= 0x7f || t[i] == '#' || t[i] == '\\')
			return refuse(
			    p, HTTP_FAULT_SYNTAX, "byte not allowed in target");
	return true;
}

static bool
check_length(struct http_parser *p)
{
	const char *cl = http_head_find(&p->head, "content-length");
	const char *te = http_head_find(&p->head, "transfer-encoding");
	unsigned long long v;

	p->head.chunked = te != NULL;
	if (te != NULL && (cl != NULL || !p->head.http11))
		return refuse(p, HTTP_FAULT_FRAMING,
		    "Transfer-Encoding with Content-Length or HTTP/1.0");
	if (te != NULL && strcasecmp(te, "chunked") != 0)
		return refuse(p, HTTP_FAULT_FRAMING,
		    "Transfer-Encoding other than chunked");
	if (cl != NULL) {
		if (!str_to_u64(str_of(cl), 1ULL << 40, &v))
			return refuse(p, HTTP_FAULT_FRAMING,
			    "Content-Length is not a number");
		p->head.length = (long long)v;
	}
	if (p->head.chunked)
		p->head.length = -1;
	return true;
}

static bool
says_close(const struct http_head *head)
{
	const char *text = (const char *)head->text.p;
	struct str rest, token;
	unsigned h;

	for (h = 0; h < head->headers_n; h++) {
		if (strcasecmp(text + head->headers[h].name, "connection") != 0)
			continue;
		rest = str_of(text + head->headers[h].value);
		while (rest.n > 0) {
			token = str_trim(str_split(&rest, ','));
			if (str_ieq(token, str_lit("close")))
				return true;
		}
	}
	return false;
}

bool
http_check_head(struct http_parser *p)
{
	struct http_head *head = &p->head;
	const char *expect;

	if (p->ll.http_major != 1 || p->ll.http_minor > 1)
		return refuse(p, HTTP_FAULT_SYNTAX, "HTTP/1.1 is spoken here");
	head->http11 = p->ll.http_minor == 1;
	head->method = llhttp_method_name((llhttp_method_t)p->ll.method);
	if (has_bad_name(head))
		return refuse(p, HTTP_FAULT_SYNTAX, "malformed header name");
	if (has_repeated(head))
		return refuse(p, HTTP_FAULT_SYNTAX, "a header is repeated");
	if (!check_target(p) || !check_host(p) || !check_length(p))
		return false;
	head->close = !head->http11 || says_close(head);
	expect = http_head_find(head, "expect");
	if (expect != NULL && strcasecmp(expect, "100-continue") != 0)
		return refuse(p, HTTP_FAULT_SYNTAX, "unknown Expect");
	head->expect = expect != NULL && head->http11 && head->length != 0;
	return true;
}
