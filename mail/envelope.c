/* SPDX-License-Identifier: ISC */
#include "mail/envelope.h"

#include <string.h>

static const struct {
	const char *word;
	unsigned bit;
} notify_words[] = { { "NEVER", ENVELOPE_NEVER },
	{ "SUCCESS", ENVELOPE_SUCCESS }, { "FAILURE", ENVELOPE_FAILURE },
	{ "DELAY", ENVELOPE_DELAY } };
#define NOTIFY_WORDS (sizeof(notify_words) / sizeof(notify_words[0]))

static unsigned
notify_word(struct str word)
{
	size_t i;

	for (i = 0; i < NOTIFY_WORDS; i++) {
		if (str_ieq(word, str_of(notify_words[i].word)))
			return notify_words[i].bit;
	}
	return 0;
}

unsigned
envelope_notify_parse(struct str value)
{
	unsigned all = 0, bit;
	struct str word;

	/* a comma at the end leaves nothing to split */
	if (value.n == 0 || value.p[value.n - 1] == ',')
		return 0;
	while (value.n > 0) {
		word = str_split(&value, ',');
		bit = notify_word(word);
		if (bit == 0 || (all & bit) != 0)
			return 0;
		all |= bit;
	}
	return (all & ENVELOPE_NEVER) != 0 && all != ENVELOPE_NEVER ? 0 : all;
}

void
envelope_notify_put(struct buf *out, unsigned notify)
{
	bool comma = false;
	size_t i;

	for (i = 0; i < NOTIFY_WORDS; i++) {
		if ((notify & notify_words[i].bit) == 0)
			continue;
		if (comma)
			buf_putc(out, ',');
		buf_puts(out, notify_words[i].word);
		comma = true;
	}
}

static void
rcpt_put(struct buf *out, struct str rcpt, unsigned notify)
{
	buf_putc(out, '<');
	buf_add_str(out, rcpt);
	buf_puts(out, "> NOTIFY=");
	envelope_notify_put(out, notify);
	buf_putc(out, '\n');
}

void
envelope_params_write(struct buf *out, const struct envelope_params *p,
    const struct str *rcpt, const unsigned char *notify, size_t n)
{
	size_t i;

	for (i = 0; notify != NULL && i < n; i++) {
		if (notify[i] != 0)
			rcpt_put(out, rcpt[i], notify[i]);
	}
	if (p->require_tls)
		buf_puts(out, "REQUIRETLS=\n");
	if (p->ret != ENVELOPE_RET_NONE)
		buf_puts(out,
		    p->ret == ENVELOPE_RET_FULL ? "RET=FULL\n" : "RET=HDRS\n");
	if (p->smtputf8)
		buf_puts(out, "SMTPUTF8=\n");
}

/* "<a@b> NOTIFY=x": the recipient, and what it wants; 0 when it is not. */
static unsigned
rcpt_take(struct str line, struct str *rcpt)
{
	static const char middle[] = "> NOTIFY=";
	const size_t n = sizeof(middle) - 1;
	size_t i;

	if (line.n < n + 1 || line.p[0] != '<')
		return 0;
	/* a local part may hold the words: the last ones count */
	for (i = line.n - n; i > 0; i--) {
		if (memcmp(line.p + i, middle, n) == 0)
			break;
	}
	if (i == 0)
		return 0;
	*rcpt = (struct str){ line.p + 1, i - 1 };
	return envelope_notify_parse(
	    (struct str){ line.p + i + n, line.n - i - n });
}

bool
envelope_params_read(struct envelope_params *p, struct str text)
{
	struct str line, rcpt;

	*p = (struct envelope_params){ 0 };
	if (text.n > 0 && text.p[text.n - 1] != '\n')
		return false;
	while (text.n > 0) {
		line = str_split(&text, '\n');
		if (str_eq(line, str_lit("REQUIRETLS=")))
			p->require_tls = true;
		else if (str_eq(line, str_lit("SMTPUTF8=")))
			p->smtputf8 = true;
		else if (str_eq(line, str_lit("RET=FULL")))
			p->ret = ENVELOPE_RET_FULL;
		else if (str_eq(line, str_lit("RET=HDRS")))
			p->ret = ENVELOPE_RET_HDRS;
		else if (rcpt_take(line, &rcpt) == 0)
			return false;
	}
	return true;
}

unsigned
envelope_notify_of(struct str text, struct str rcpt)
{
	struct str line, name;
	unsigned notify;

	while (text.n > 0) {
		line = str_split(&text, '\n');
		notify = rcpt_take(line, &name);
		if (notify != 0 && str_eq(name, rcpt))
			return notify;
	}
	return 0;
}

void
envelope_xtext_put(struct buf *out, struct str s)
{
	unsigned char c;
	size_t i;

	for (i = 0; i < s.n; i++) {
		c = (unsigned char)s.p[i];
		if (c > ' ' && c < 0x7f && c != '+' && c != '=')
			buf_putc(out, (char)c);
		else
			buf_printf(out, "+%02X", c);
	}
}
