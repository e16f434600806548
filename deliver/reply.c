/* SPDX-License-Identifier: ISC */
/*
 * reply.c - one line at a time; nothing here knows of sockets.
 */
#include "deliver/reply.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void
reply_reset(struct reply_parser *p)
{
	memset(p, 0, sizeof(*p));
}

static bool
parse_code(int *code, struct str line)
{
	size_t i;

	if (line.n < 3 || line.p[0] < '1' || line.p[0] > '5')
		return false;
	for (i = 1; i < 3; i++) {
		if (line.p[i] < '0' || line.p[i] > '9')
			return false;
	}
	*code = (line.p[0] - '0') * 100 + (line.p[1] - '0') * 10 +
		(line.p[2] - '0');
	return line.n == 3 || line.p[3] == ' ' || line.p[3] == '-';
}

/* "5.7.1 text": three numbers of 1, 1-3 and 1-3 digits (RFC 3463 2). */
static size_t
enhanced_length(struct str text, int code)
{
	size_t i = 0, digits, part;

	if (text.n < 5 || text.p[0] != '0' + code / 100 || text.p[1] != '.')
		return 0;
	i = 2;
	for (part = 0; part < 2; part++) {
		for (digits = 0; i < text.n && digits < 4 && text.p[i] >= '0' &&
				 text.p[i] <= '9';
		     digits++)
			i++;
		if (digits < 1 || digits > 3)
			return 0;
		if (part == 0 && (i == text.n || text.p[i++] != '.'))
			return 0;
	}
	return i == text.n || text.p[i] == ' ' ? i : 0;
}

static void
append_text(struct reply_parser *p, struct str text)
{
	size_t at = strlen(p->reply.text), i;

	if (p->sep && at > 0 && at + 3 < REPLY_TEXT_MAX) {
		memcpy(p->reply.text + at, " / ", 4);
		at += 3;
	}
	for (i = 0; i < text.n && at + 1 < REPLY_TEXT_MAX; i++) {
		unsigned char c = (unsigned char)text.p[i];

		p->reply.text[at++] = c >= 0x20 && c < 0x7f ? (char)c : '?';
	}
	p->reply.text[at] = '\0';
	p->sep = true;
}

static void
note_auth(struct reply *r, struct str rest)
{
	while (rest.n > 0) {
		struct str word = str_split(&rest, ' ');

		r->auth_plain |= str_ieq(word, str_lit("PLAIN"));
		r->auth_login |= str_ieq(word, str_lit("LOGIN"));
	}
}

/* RFC 9422: names and numbers; what is none of ours is passed over. */
static void
note_limits(struct reply *r, struct str rest)
{
	while (rest.n > 0) {
		struct str value = str_split(&rest, ' ');
		struct str name = str_split(&value, '=');
		unsigned long long n;

		if (!str_to_u64(value, 1000000, &n) || n == 0)
			continue;
		if (str_ieq(name, str_lit("RCPTMAX")))
			r->rcptmax = (int)n;
		else if (str_ieq(name, str_lit("MAILMAX")))
			r->mailmax = (int)n;
	}
}

static void
note_keyword(struct reply *r, struct str text)
{
	struct str word = str_split(&text, ' ');
	unsigned long long size;

	if (str_ieq(word, str_lit("STARTTLS")))
		r->starttls = true;
	else if (str_ieq(word, str_lit("8BITMIME")))
		r->eightbitmime = true;
	else if (str_ieq(word, str_lit("SMTPUTF8")))
		r->smtputf8 = true;
	else if (str_ieq(word, str_lit("DSN")))
		r->dsn = true;
	else if (str_ieq(word, str_lit("REQUIRETLS")))
		r->requiretls = true;
	else if (str_ieq(word, str_lit("PIPELINING")))
		r->pipelining = true;
	else if (str_ieq(word, str_lit("LIMITS")))
		note_limits(r, text);
	else if (str_ieq(word, str_lit("AUTH")))
		note_auth(r, text);
	else if (str_ieq(word, str_lit("SIZE")) &&
		 str_to_u64(str_trim(text), (1ULL << 62), &size))
		r->size = (long long)size;
}

enum reply_step
reply_line(struct reply_parser *p, struct str line)
{
	struct str text = { "", 0 };
	size_t enhanced;
	int code;

	p->bytes += line.n;
	p->lines++;
	if (!parse_code(&code, line) || p->lines > REPLY_LINES_MAX ||
	    p->bytes > REPLY_BYTES_MAX ||
	    (p->lines > 1 && code != p->reply.code))
		return REPLY_MALFORMED;
	p->reply.code = code;
	if (line.n > 4)
		text = (struct str){ line.p + 4, line.n - 4 };
	if (p->lines > 1 && code == 250)
		note_keyword(&p->reply, text);
	enhanced = enhanced_length(text, code);
	if (enhanced > 0 && enhanced < sizeof(p->reply.enhanced)) {
		memcpy(p->reply.enhanced, text.p, enhanced);
		p->reply.enhanced[enhanced] = '\0';
		text = str_trim(
		    (struct str){ text.p + enhanced, text.n - enhanced });
	}
	append_text(p, text);
	return line.n > 3 && line.p[3] == '-' ? REPLY_MORE : REPLY_READY;
}
