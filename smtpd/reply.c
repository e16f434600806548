/* SPDX-License-Identifier: ISC */
/*
 * reply.c - formatting, counting and logging of replies.
 */
#include "smtpd/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "net/stream.h"
#include "smtpd/internal.h"

#define LINE_MAX_OCTETS 512 /* RFC 5321 4.5.3.1.5, with CRLF */

static void send_line(struct smtpd_session *s, char *line, size_t n);
static void refuse(struct smtpd_session *s, enum err_code code,
    const char *numbers, const char *fmt, va_list ap)
    __attribute__((format(printf, 4, 0)));

void
reply_line(struct smtpd_session *s, const char *fmt, ...)
{
	char line[LINE_MAX_OCTETS];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof line - 2, fmt, ap);
	va_end(ap);
	send_line(s, line, n < 0 ? 0 : (size_t)n);
}

void
reply_refuse(struct smtpd_session *s, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	refuse(s, code, NULL, fmt, ap);
	va_end(ap);
}

void
reply_refuse_as(struct smtpd_session *s, enum err_code code,
    const char *numbers, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	refuse(s, code, numbers, fmt, ap);
	va_end(ap);
}

void
reply_expel(struct smtpd_session *s, enum err_code code, const char *numbers,
    const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	refuse(s, code, numbers, fmt, ap);
	va_end(ap);
	session_leave(s, error_get(code)->code);
}

const char *
reply_quote(char out[REPLY_QUOTED_MAX], struct str text)
{
	size_t i, max = REPLY_QUOTED_MAX - 4;
	size_t n = text.n < max ? text.n : max;

	for (i = 0; i < n; i++)
		out[i] = text.p[i] >= ' ' && text.p[i] <= '~' ? text.p[i] : '?';
	memcpy(out + n, text.n > max ? "..." : "", text.n > max ? 4 : 1);
	return out;
}

static void
send_line(struct smtpd_session *s, char *line, size_t n)
{
	if (n > LINE_MAX_OCTETS - 3)
		n = LINE_MAX_OCTETS - 3; /* it was cut */
	line[n++] = '\r';
	line[n++] = '\n';
	if (s->stream != NULL && (s->state & ST_CLOSED) == 0)
		net_stream_write(s->stream, line, n);
}

static void
refuse(struct smtpd_session *s, enum err_code code, const char *numbers,
    const char *fmt, va_list ap)
{
	const struct error_info *info = error_get(code);
	char line[LINE_MAX_OCTETS], own[16], what[300];
	int n, i;

	if (numbers == NULL) {
		snprintf(own, sizeof own, "%d %s", info->smtp, info->enhanced);
		numbers = own;
	}
	vsnprintf(what, sizeof what, fmt, ap);
	n = (int)strlen(what);
	for (i = 0; i < n; i++)
		if (what[i] < ' ' || what[i] > '~')
			what[i] = '?'; /* a client's UTF-8 */
	if (n > 0 && what[n - 1] == '.')
		what[n - 1] = '\0'; /* the sentence ends below */
	n = snprintf(line, sizeof line - 2, "%s [%s] %s. %s", numbers,
	    info->code, what, info->fix);
	send_line(s, line, n < 0 ? 0 : (size_t)n);
	if (numbers[0] == '5')
		s->errors++;
	log_info("smtpd.reject", KV("session", s->id),
	    KV("code", atoi(numbers)), KV("enhanced", numbers + 4),
	    KV("why", info->code));
}
