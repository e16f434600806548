/* SPDX-License-Identifier: ISC */
/*
 * say.c - what a filter is told, in order: who, for whom, header, body, end.
 * A step it can do without is left out; each other owes us one reply.
 */
#include <string.h>

#include "mail/header.h"
#include "milter/internal.h"

/* Macros that go with the step `letter`: pairs of name and value. */
static void
say_macros(struct milter *m, char letter, const char *const *pair, size_t n)
{
	size_t at = milter_packet_begin(&m->out, 'D'), i;

	buf_putc(&m->out, letter);
	for (i = 0; i < n; i++)
		milter_text_put(&m->out, str_of(pair[i]));
	milter_packet_end(&m->out, at);
}

static void
owe(struct milter *m, uint32_t quiet)
{
	if ((m->steps & quiet) == 0)
		m->expected++;
}

static void
say_text(struct milter *m, char letter, struct str text, uint32_t quiet)
{
	size_t at = milter_packet_begin(&m->out, letter);

	milter_text_put(&m->out, text);
	milter_packet_end(&m->out, at);
	owe(m, quiet);
}

/* "<address>" */
static void
say_path(struct milter *m, char letter, struct str address, uint32_t quiet)
{
	size_t at = milter_packet_begin(&m->out, letter);

	buf_putc(&m->out, '<');
	buf_add_str(&m->out, address);
	milter_text_put(&m->out, str_lit(">"));
	milter_packet_end(&m->out, at);
	owe(m, quiet);
}

void
milter_say_offer(struct milter *m)
{
	size_t at = milter_packet_begin(&m->out, 'O');

	buf_u32(&m->out, MILTER_VERSION);
	buf_u32(&m->out, MILTER_ACTIONS);
	buf_u32(&m->out, MILTER_STEPS);
	milter_packet_end(&m->out, at);
	m->expected++;
}

/* Where an agent connects from is not told: it says nothing of the mail. */
static void
say_client(struct milter *m)
{
	const char *macros[] = { "j", (char *)m->hostname.p, "{daemon_name}",
		"postern" };
	size_t at;

	if ((m->steps & MILTER_NO_CONNECT) == 0) {
		say_macros(m, 'C', macros, 4);
		at = milter_packet_begin(&m->out, 'C');
		milter_text_put(&m->out, str_lit("agent"));
		buf_putc(&m->out, 'U');
		milter_packet_end(&m->out, at);
		owe(m, MILTER_QUIET_CONNECT);
	}
	if ((m->steps & MILTER_NO_HELO) == 0)
		say_text(m, 'H', str_lit("agent"), MILTER_QUIET_HELO);
}

void
milter_say_envelope(struct milter *m)
{
	const char *macros[] = { "i", (char *)m->id.p, "{auth_type}", "PLAIN",
		"{auth_authen}", (char *)m->from.p, "{mail_addr}",
		(char *)m->from.p };
	struct str rest = buf_str(&m->rcpts), rcpt;

	say_client(m);
	if ((m->steps & MILTER_NO_MAIL) == 0) {
		say_macros(m, 'M', macros, 8);
		say_path(m, 'M', str_of((char *)m->from.p), MILTER_QUIET_MAIL);
	}
	while (
	    (m->steps & MILTER_NO_RCPT) == 0 && milter_text_take(&rest, &rcpt))
		say_path(m, 'R', rcpt, MILTER_QUIET_RCPT);
	if ((m->steps & MILTER_NO_DATA) == 0) {
		say_macros(m, 'T', macros, 2);
		milter_packet_end(&m->out, milter_packet_begin(&m->out, 'T'));
		owe(m, MILTER_QUIET_DATA);
	}
}

/* One field; its lines are joined by LF alone, as filters expect. */
static void
say_field(struct milter *m, struct str field)
{
	struct str name = str_split(&field, ':');
	size_t at = milter_packet_begin(&m->out, 'L'), i;

	milter_text_put(&m->out, name);
	if ((m->steps & MILTER_LEADING_SPACE) == 0 && field.n > 0 &&
	    field.p[0] == ' ') {
		field.p++;
		field.n--;
	}
	for (i = 0; i < field.n; i++)
		if (field.p[i] != '\r')
			buf_putc(&m->out, field.p[i]);
	buf_putc(&m->out, '\0');
	milter_packet_end(&m->out, at);
	owe(m, MILTER_QUIET_HEADER);
}

static void
say_header(struct milter *m, struct str section)
{
	while ((m->steps & MILTER_NO_HEADERS) == 0 && section.n > 0)
		say_field(m, header_take_field(&section));
	if ((m->steps & MILTER_NO_EOH) == 0) {
		milter_packet_end(&m->out, milter_packet_begin(&m->out, 'N'));
		owe(m, MILTER_QUIET_EOH);
	}
}

static void
say_chunk(struct milter *m)
{
	size_t at;

	if (m->chunk.n > 0 && !m->skip && (m->steps & MILTER_NO_BODY) == 0) {
		at = milter_packet_begin(&m->out, 'B');
		buf_add(&m->out, m->chunk.p, m->chunk.n);
		milter_packet_end(&m->out, at);
		owe(m, MILTER_QUIET_BODY);
	}
	buf_clear(&m->chunk);
}

static void
say_body(struct milter *m, const char *p, size_t n)
{
	size_t room;

	while (n > 0) {
		room = MILTER_CHUNK - m->chunk.n;
		if (room > n)
			room = n;
		buf_add(&m->chunk, p, room);
		p += room;
		n -= room;
		if (m->chunk.n == MILTER_CHUNK)
			say_chunk(m);
	}
}

void
milter_say_bytes(struct milter *m, const char *p, size_t n)
{
	size_t from = m->head.n < 3 ? 0 : m->head.n - 3, section;
	const char *end;

	if (m->in_body) {
		say_body(m, p, n);
		return;
	}
	buf_add(&m->head, p, n);
	end = memmem(m->head.p + from, m->head.n - from, "\r\n\r\n", 4);
	if (end == NULL)
		return;
	m->in_body = true;
	section = (size_t)(end - (char *)m->head.p) + 2;
	say_header(m, (struct str){ (char *)m->head.p, section });
	say_body(m, (char *)m->head.p + section + 2, m->head.n - section - 2);
	buf_free(&m->head);
}

void
milter_say_end(struct milter *m)
{
	const char *macros[] = { "i", (char *)m->id.p };

	if (!m->in_body)
		say_header(m, buf_str(&m->head));
	m->in_body = true;
	say_chunk(m);
	say_macros(m, 'E', macros, 2);
	milter_packet_end(&m->out, milter_packet_begin(&m->out, 'E'));
	m->expected++;
	m->asked = true;
}
