/* SPDX-License-Identifier: ISC */
/*
 * hear.c - what a filter says, turned into a verdict and notes. What it wants
 * changed is noted, the message stays as it is.
 */
#include <stdio.h>
#include <string.h>

#include "milter/internal.h"

/* Append "what: text", what is not printable as '?'. */
static void
note(struct milter *m, const char *what, struct str text)
{
	char *out = m->result.note;
	size_t at = strlen(out), i;
	int n;

	n = snprintf(
	    out + at, MILTER_NOTE_MAX - at, "%s%s", at > 0 ? "; " : "", what);
	if (n < 0 || (size_t)n >= MILTER_NOTE_MAX - at)
		return;
	at += (size_t)n;
	for (i = 0; i < text.n && at + 1 < MILTER_NOTE_MAX; i++)
		out[at++] =
		    text.p[i] >= ' ' && text.p[i] <= '~' ? text.p[i] : '?';
	out[at] = '\0';
}

static bool
hear_offer(struct milter *m, struct str data)
{
	uint32_t version, actions;

	if (m->ready || !milter_u32_take(&data, &version) ||
	    !milter_u32_take(&data, &actions) ||
	    !milter_u32_take(&data, &m->steps))
		return false;
	m->ready = true;
	m->steps &= MILTER_STEPS;
	if (version < MILTER_VERSION_DATA) /* it knows no such step */
		m->steps |= MILTER_NO_DATA;
	return version >= MILTER_VERSION_MIN && version <= MILTER_VERSION;
}

static void
settle(struct milter *m, enum milter_verdict verdict)
{
	if (m->result.verdict == MILTER_PENDING)
		m->result.verdict = verdict;
}

/* "550 5.7.1 text" */
static bool
hear_reply(struct milter *m, struct str data)
{
	struct str text;

	if (!milter_text_take(&data, &text) || text.n < 3 ||
	    (text.p[0] != '4' && text.p[0] != '5'))
		return false;
	note(m, "", text);
	settle(m, text.p[0] == '5' ? MILTER_REJECT : MILTER_TEMPFAIL);
	return true;
}

static bool
hear_quarantine(struct milter *m, struct str data)
{
	struct str text;

	if (!milter_text_take(&data, &text))
		return false;
	m->result.quarantine = true;
	note(m, "", text);
	return true;
}

/* name, value; with a number before them when it is a change. */
static bool
hear_header(struct milter *m, struct str data, bool numbered)
{
	struct str name, value;
	uint32_t at;

	if ((numbered && !milter_u32_take(&data, &at)) ||
	    !milter_text_take(&data, &name) || !milter_text_take(&data, &value))
		return false;
	m->result.header = true;
	note(m, "", name);
	note(m, "= ", value);
	return true;
}

static bool
hear_rewrite(struct milter *m, const char *what)
{
	if (!m->result.rewrite)
		note(m, what, str_lit(""));
	m->result.rewrite = true;
	return true;
}

/* A reply that ends a step; it belongs to one that waits for it. */
static bool
hear_step(struct milter *m, char letter)
{
	if (m->expected == 0)
		return false;
	m->expected--;
	switch (letter) {
	case 'r':
		settle(m, MILTER_REJECT);
		break;
	case 't':
		settle(m, MILTER_TEMPFAIL);
		break;
	case 'd':
		settle(m, MILTER_DISCARD);
		break;
	case 'a':
		settle(m, MILTER_ACCEPT);
		break;
	case 's':
		m->skip = true;
		break;
	case 'c':
		if (m->asked && m->expected == 0)
			settle(m, MILTER_ACCEPT);
		break;
	default:
		return false;
	}
	return true;
}

bool
milter_hear(struct milter *m, const struct milter_packet *p)
{
	if (p->letter == 'O') {
		m->expected = 0;
		return hear_offer(m, p->data);
	}
	if (!m->ready)
		return false;
	switch (p->letter) {
	case 'y':
		return m->expected > 0 && hear_reply(m, p->data);
	case 'p': /* still working */
		return m->patience > 0 && m->patience-- > 0;
	case 'q':
		return hear_quarantine(m, p->data);
	case 'h':
		return hear_header(m, p->data, false);
	case 'i':
	case 'm':
		return hear_header(m, p->data, true);
	case 'b':
		return hear_rewrite(m, "it would change the body");
	case '+':
	case '2':
	case '-':
		return hear_rewrite(m, "it would change the recipients");
	case 'e':
		return hear_rewrite(m, "it would change the sender");
	case 'l':
		return true;
	default:
		return hear_step(m, p->letter);
	}
}
