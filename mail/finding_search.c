/* SPDX-License-Identifier: ISC */
/*
 * finding_search.c - one pass over a text for secrets and for characters
 * that deceive.
 *
 * finding_skip.c knows which places are worth a look: beginnings of numbers,
 * the rarest character of each kind of token with the one before it, and the
 * characters meant. Nothing else is looked at.
 */
#include "mail/finding.h"

#include <string.h>

#include "mail/finding_skip.h"
#include "mail/header.h"

#define TOKEN_MAX 512
#define WORD_MIN 12 /* of a token behind its anchor, at least */
#define URL_MAX 256
#define OPENAI_REST 45 /* "sk-" alone begins words, too: */
#define OPENAI_MARK "T3BlbkFJ" /* in all of these keys */
#define PEM_LINE 80 /* of its first line */
#define DISTINCT_MIN 8 /* characters of a real token: "xxxx" is none */

struct search {
	const char *start, *end;
	finding_fn *fn;
	void *arg;
};

/* What a byte is worth, and two classes it may be in. */
enum {
	PLAIN = 0,
	DIGIT = 1,
	ANCHOR = 2,
	HIGH = 3, /* first byte of a character that is looked at */
	LOOK = 3, /* the mask of these */
	WORD = 4, /* of words and tokens */
	STOP = 8, /* ends the user's part of a URL */
};

#define W10(c, v)                                                              \
	[c] = (v), [(c) + 1] = (v), [(c) + 2] = (v), [(c) + 3] = (v),          \
	[(c) + 4] = (v), [(c) + 5] = (v), [(c) + 6] = (v), [(c) + 7] = (v),    \
	[(c) + 8] = (v), [(c) + 9] = (v)

static const unsigned char class_of[256] = {
	W10('0', DIGIT | WORD), ['A'] = ANCHOR | WORD, ['B'] = WORD,
	['C'] = WORD, ['D'] = WORD, ['E'] = WORD, ['F'] = WORD, ['G'] = WORD,
	['H'] = WORD, ['I'] = WORD, ['@'] = STOP, ['J'] = ANCHOR | WORD,
	['K'] = ANCHOR | WORD, W10('L', WORD), ['V'] = WORD, ['W'] = WORD,
	['X'] = WORD, ['Y'] = WORD, ['Z'] = WORD, W10('a', WORD),
	W10('k', WORD), ['u'] = WORD, ['v'] = WORD, ['w'] = WORD, ['x'] = WORD,
	['y'] = WORD, ['z'] = ANCHOR | WORD, ['-'] = ANCHOR | WORD,
	['_'] = ANCHOR | WORD, [':'] = ANCHOR, [' '] = STOP, ['\t'] = STOP,
	['\r'] = STOP, ['\n'] = STOP, ['/'] = STOP, ['?'] = STOP, ['#'] = STOP,
	['<'] = STOP, ['>'] = STOP, ['"'] = STOP, ['\''] = STOP, ['('] = STOP,
	[')'] = STOP, [0xc2] = HIGH, /* U+00AD */
	[0xcd] = HIGH, /* U+034F */
	[0xe1] = HIGH, /* U+180E */
	[0xe2] = HIGH, /* U+200B ... */
	[0xef] = HIGH, /* U+FE00 ..., U+FEFF */
	[0xf0] = HIGH, /* U+1F3F4 */
	[0xf3] = HIGH, /* U+E0000 ... */
};

static unsigned
class_at(const char *p)
{
	return class_of[(unsigned char)*p];
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool
is_alpha(char c)
{
	return is_upper(c) || (c >= 'a' && c <= 'z');
}

static bool
is_alnum(char c)
{
	return is_alpha(c) || is_digit(c);
}

static bool
is_word(char c)
{
	return (class_of[(unsigned char)c] & WORD) != 0;
}

/* The byte `n` before `p`; a space when there is none. */
static char
before(const struct search *s, const char *p, ptrdiff_t n)
{
	return p - s->start >= n ? p[-n] : ' ';
}

static char
at_or_space(const struct search *s, const char *p)
{
	return p < s->end ? *p : ' ';
}

static void
tell(const struct search *s, enum finding f, const char *from, const char *to)
{
	s->fn(s->arg, f, (struct str){ from, (size_t)(to - from) });
}

/* ---- numbers */

static bool
luhn_valid(const char *digits, size_t n)
{
	unsigned sum = 0, d;
	size_t i;

	for (i = 0; i < n; i++) {
		d = (unsigned)(digits[n - 1 - i] - '0');
		if (i % 2 == 1)
			d = d * 2 > 9 ? d * 2 - 9 : d * 2;
		sum += d;
	}
	return sum % 10 == 0;
}

/* Is it one of a card scheme's numbers, by first digits and length? */
static bool
is_card(const char *d, size_t n)
{
	unsigned four;

	if (n < 14 || n > 19)
		return false;
	four = (unsigned)(d[0] - '0') * 1000 + (unsigned)(d[1] - '0') * 100 +
	       (unsigned)(d[2] - '0') * 10 + (unsigned)(d[3] - '0');
	if (n == 14)
		return four / 100 == 36 || four / 100 == 38 ||
		       (four >= 3000 && four <= 3059);
	if (n == 15)
		return four / 100 == 34 || four / 100 == 37;
	if (n > 16)
		return four / 100 == 62;
	return four / 1000 == 4 || (four >= 5100 && four <= 5599) ||
	       (four >= 2221 && four <= 2720) || four == 6011 ||
	       (four >= 6440 && four <= 6599) ||
	       (four >= 3528 && four <= 3589) || four / 100 == 62;
}

/* "4111 1111 1111 1111", "3782-822463-10005", or without gaps. */
static const char *
card_end(const struct search *s, const char *p)
{
	static const unsigned char shapes[][4] = { { 4, 4, 4, 4 },
		{ 4, 6, 5, 0 }, { 4, 6, 4, 0 } };
	char digits[20], gap;
	const char *q = p;
	size_t n, i, j, k;

	for (n = 0; q < s->end && is_digit(*q) && n < sizeof(digits); n++)
		digits[n] = *q++;
	if (n >= 14)
		return n < sizeof(digits) && is_card(digits, n) &&
			       luhn_valid(digits, n)
			   ? q
			   : NULL;
	gap = at_or_space(s, q);
	if (n != 4 || (gap != ' ' && gap != '-'))
		return NULL;
	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		for (j = 0, n = 0, q = p; j < 4 && shapes[i][j] > 0; j++) {
			if (j > 0 && at_or_space(s, q++) != gap)
				break;
			for (k = 0;
			     k < shapes[i][j] && q < s->end && is_digit(*q);
			     k++)
				digits[n++] = *q++;
			if (k < shapes[i][j])
				break;
		}
		if ((j == 4 || shapes[i][j] == 0) && is_card(digits, n) &&
		    luhn_valid(digits, n))
			return q;
	}
	return NULL;
}

/* "DE89 3704 0044 0532 0130 00": `p` is at the letters. ISO 13616. */
static const char *
iban_end(const struct search *s, const char *p)
{
	const char *q = p + 4, *end = q;
	unsigned rest = 0, v;
	size_t n = 0, i;
	char c, order[40];

	while (q < s->end && n < 30) {
		if (*q == ' ' && n % 4 == 0 && q + 1 < s->end &&
		    (is_digit(q[1]) || is_upper(q[1]))) {
			q++;
			continue;
		}
		if (!is_digit(*q) && !is_upper(*q))
			break;
		order[n++] = *q++;
		end = q;
	}
	if (n < 11 || is_alnum(at_or_space(s, end)))
		return NULL;
	memcpy(order + n, p, 4);
	for (i = 0; i < n + 4; i++) {
		c = order[i];
		v = is_digit(c) ? (unsigned)(c - '0')
				: (unsigned)(c - 'A') + 10;
		rest = (rest * (v > 9 ? 100 : 10) + v) % 97;
	}
	return rest == 1 ? end : NULL;
}

/* "123-45-6789", of the numbers that are given out. */
static const char *
ssn_end(const struct search *s, const char *p)
{
	size_t i;

	if (s->end - p < 11 || p[3] != '-' || p[6] != '-')
		return NULL;
	for (i = 0; i < 11; i++)
		if (i != 3 && i != 6 && !is_digit(p[i]))
			return NULL;
	if (p[0] == '9' || memcmp(p, "000", 3) == 0 ||
	    memcmp(p, "666", 3) == 0 || memcmp(p + 4, "00", 2) == 0 ||
	    memcmp(p + 7, "0000", 4) == 0 || memcmp(p, "123-45-6789", 11) == 0)
		return NULL;
	return p + 11;
}

/* At the first digit of a run. Returns where to go on. */
static const char *
look_number(const struct search *s, const char *p)
{
	const char *run = p, *end;
	char last = before(s, p, 1);

	while (run < s->end && is_digit(*run))
		run++;
	if (run - p >= 2 && is_upper(last) && is_upper(before(s, p, 2)) &&
	    !is_alnum(before(s, p, 3))) {
		end = iban_end(s, p - 2);
		if (end != NULL)
			tell(s, FINDING_BANK_ACCOUNT, p - 2, end);
		return end != NULL ? end : run;
	}
	if (run - p < 14 && run - p != 4 && run - p != 3)
		return run;
	if (is_word(last) || last == '/' || last == '.' || last == '%')
		return run;
	end = run - p != 3 ? card_end(s, p) : NULL;
	if (end != NULL && !is_word(at_or_space(s, end))) {
		tell(s, FINDING_CARD_NUMBER, p, end);
		return end;
	}
	end = run - p == 3 ? ssn_end(s, p) : NULL;
	if (end != NULL && !is_word(at_or_space(s, end))) {
		tell(s, FINDING_NATIONAL_ID, p, end);
		return end;
	}
	return run;
}

/* ---- tokens */

/*
 * `anchor`: which character of the prefix the table above has. It and the one
 * before it are a pair of finding_skip.c.
 */
static const struct token {
	const char *prefix;
	unsigned char n, anchor, rest; /* at least so many follow */
} tokens[] = {
	{ "AKIA", 4, 1, 16 },
	{ "ASIA", 4, 3, 16 },
	{ "AIza", 4, 2, 35 },
	{ "eyJ", 3, 2, 60 },
	{ "ghp_", 4, 3, 30 },
	{ "gho_", 4, 3, 30 },
	{ "ghu_", 4, 3, 30 },
	{ "ghs_", 4, 3, 30 },
	{ "ghr_", 4, 3, 30 },
	{ "github_pat_", 11, 10, 30 },
	{ "glpat-", 6, 5, 20 },
	{ "xoxb-", 5, 4, 20 },
	{ "xoxp-", 5, 4, 20 },
	{ "xoxa-", 5, 4, 20 },
	{ "xoxs-", 5, 4, 20 },
	{ "xapp-", 5, 4, 20 },
	{ "sk_live_", 8, 7, 20 },
	{ "rk_live_", 8, 7, 20 },
	{ "npm_", 4, 3, 30 },
	{ "shpat_", 6, 5, 30 },
	{ "hf_", 3, 2, 30 },
	{ "dop_v1_", 7, 6, 40 },
	{ "gsk_", 4, 3, 40 },
	{ "whsec_", 6, 5, 30 },
	{ "pypi-AgE", 8, 4, 40 },
	{ "GOCSPX-", 7, 6, 24 },
	{ "AGE-SECRET-KEY-1", 16, 3, 50 },
	{ "sk-", 3, 2, OPENAI_REST },
	{ "sk-ant-", 7, 6, 30 },
	{ "sk-proj-", 8, 7, 30 },
	{ "pst_live_", 9, 8, 50 },
	{ "pst_sess_", 9, 8, 50 },
	{ "pst_test_", 9, 8, 50 },
	{ "pst_prov_", 9, 8, 50 },
	{ "pst_op_", 7, 6, 50 },
};

static int
distinct(const char *p, const char *end)
{
	uint64_t low = 0, high = 0;

	for (; p < end; p++) {
		if ((*p & 0x40) != 0)
			high |= UINT64_C(1) << (*p & 63);
		else
			low |= UINT64_C(1) << (*p & 63);
	}
	return __builtin_popcountll(low) + __builtin_popcountll(high);
}

static const char *
token_end(const struct search *s, const struct token *t, const char *from)
{
	const char *p = from + t->n;
	bool jwt = t->rest == 60, aws = t->n == 4 && t->rest == 16;
	unsigned dots = 0;

	while (p < s->end && p - from < TOKEN_MAX &&
	       (aws ? is_upper(*p) || is_digit(*p)
		    : is_word(*p) || (jwt && *p == '.'))) {
		dots += *p == '.';
		p++;
	}
	if (p - from - t->n < t->rest ||
	    distinct(from + t->n, p) < DISTINCT_MIN)
		return NULL;
	if (jwt && (dots < 1 || dots > 4))
		return NULL;
	if (t->rest == OPENAI_REST &&
	    memmem(from, (size_t)(p - from), OPENAI_MARK,
		sizeof(OPENAI_MARK) - 1) == NULL)
		return NULL;
	if (aws && (p - from != 20 || is_word(at_or_space(s, p)) ||
		       memcmp(p - 7, "EXAMPLE", 7) == 0))
		return NULL;
	return p;
}

/*
 * Most anchors are none: what stands before them is no prefix's, or the word
 * ends too soon.
 */
static bool
may_be_token(const struct search *s, const char *p)
{
	char last = before(s, p, 1);
	int i;

	switch (*p) {
	case 'A':
		if (last != 'I')
			return false;
		break;
	case 'J':
		if (last != 'y')
			return false;
		break;
	case 'K':
		if (last != 'A')
			return false;
		break;
	case 'z':
		if (last != 'I')
			return false;
		break;
	default:
		if (!is_alnum(last))
			return false;
		break;
	}
	if (s->end - p <= WORD_MIN)
		return false;
	for (i = 1; i <= WORD_MIN; i++)
		if (!is_word(p[i]))
			return false;
	return true;
}

static const char *
look_token(const struct search *s, const char *p)
{
	const char *from, *end;
	size_t i;

	if (!may_be_token(s, p))
		return p + 1;
	for (i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		const struct token *t = &tokens[i];

		if (t->prefix[t->anchor] != *p || p - s->start < t->anchor)
			continue;
		from = p - t->anchor;
		if (s->end - from < t->n + t->rest ||
		    memcmp(from, t->prefix, t->n) != 0 ||
		    is_word(before(s, from, 1)))
			continue;
		end = token_end(s, t, from);
		if (end == NULL)
			continue;
		tell(s, FINDING_ACCESS_TOKEN, from, end);
		return end;
	}
	return p + 1;
}

/* RFC 7468 and its older kin. */
static const char *
look_pem(const struct search *s, const char *p)
{
	static const char begin[] = "-----BEGIN ", key[] = "PRIVATE KEY";
	const char *eol, *q = p;
	size_t n = (size_t)(s->end - p);

	if (n < sizeof(begin) || memcmp(p, begin, sizeof(begin) - 1) != 0) {
		while (q < s->end && *q == '-')
			q++;
		return q - p > 1 ? q : look_token(s, p);
	}
	if (n > PEM_LINE + 2)
		n = PEM_LINE + 2;
	eol = memchr(p, '\n', n);
	if (eol != NULL)
		n = (size_t)(eol - p);
	if (n > 0 && p[n - 1] == '\r')
		n--;
	if (n > PEM_LINE)
		n = PEM_LINE;
	if (memmem(p, n, key, sizeof(key) - 1) != NULL)
		tell(s, FINDING_PRIVATE_KEY, p, p + n);
	return p + n;
}

/* A password that only shows where one goes. */
static bool
is_example(const char *p, const char *end)
{
	struct str s = { p, (size_t)(end - p) };

	return str_ieq(s, str_lit("password")) || str_ieq(s, str_lit("pass"));
}

/* "scheme://user:password@host": `p` is at the first colon. */
static const char *
look_url(const struct search *s, const char *p)
{
	const char *q, *colon = NULL;

	if (s->end - p < 3 || p[1] != '/' || p[2] != '/' ||
	    !is_alnum(before(s, p, 1)))
		return p + 1;
	for (q = p + 3; q < s->end && q - p < URL_MAX; q++) {
		if (*q == ':' && colon == NULL)
			colon = q;
		if ((class_at(q) & STOP) != 0)
			break;
	}
	if (q < s->end && *q == '@' && colon != NULL && q - colon > 4 &&
	    distinct(colon + 1, q) >= 4 && !is_example(colon + 1, q))
		tell(s, FINDING_URL_PASSWORD, p + 3, q + 1);
	return p + 3;
}

/* ---- characters */

#define FLAG 0x1f3f4 /* of which tags make flags of regions */
/* Long words carry it where they may be cut: alone it tells nothing. */
#define SOFT_HYPHEN 0xad

/* Behind a flag: its tags, as long as they are one name. */
static void
skip_flag(struct str *s)
{
	struct str rest = *s;
	int32_t c;
	int n;

	for (n = 0; n < 8 && rest.n > 0; n++) {
		c = utf8_next(&rest);
		if (c == 0xe007f) {
			*s = rest;
			return;
		}
		if (c < 0xe0030 || c > 0xe007a)
			return;
	}
}

static bool
is_selector(int32_t c)
{
	return (c >= 0xfe00 && c <= 0xfe0f) || (c >= 0xe0100 && c <= 0xe01ef);
}

static bool
is_invisible(int32_t c)
{
	return c == SOFT_HYPHEN || c == 0x34f || c == 0x180e ||
	       (c >= 0x200b && c <= 0x200d) || (c >= 0x2060 && c <= 0x2064) ||
	       c == 0x2800 || c == 0xfeff;
}

static const char *
look_character(const struct search *s, const char *p)
{
	struct str rest = { p, (size_t)(s->end - p) };
	int32_t c = utf8_next(&rest);
	const char *from = rest.p;
	int n = 1;

	if (c == FLAG) {
		skip_flag(&rest);
	} else if (c == 0x202d || c == 0x202e) {
		tell(s, FINDING_TEXT_DIRECTION, p, rest.p);
	} else if (c >= 0xe0000 && c <= 0xe007f) {
		tell(s, FINDING_TEXT_TAGS, p, rest.p);
	} else if (is_invisible(c)) {
		while (rest.n > 0 && is_invisible(utf8_next(&rest))) {
			from = rest.p;
			n++;
		}
		if ((c != SOFT_HYPHEN || n > 1) && is_alpha(before(s, p, 1)) &&
		    from < s->end && is_alpha(*from))
			tell(s, FINDING_TEXT_INVISIBLE, p - 1, from + 1);
		return from;
	} else if (is_selector(c)) {
		for (; rest.n > 0 && is_selector(utf8_next(&rest)); n++)
			from = rest.p;
		if (n >= 3)
			tell(s, FINDING_TEXT_TAGS, p, from);
		return from;
	}
	return rest.p;
}

/* ---- all of it */

void
finding_search(struct str text, finding_fn *fn, void *arg)
{
	struct search s = { text.p, text.p + text.n, fn, arg };
	const char *p = s.start;

	while ((p = finding_skip(text, p)) < s.end) {
		switch (class_at(p) & LOOK) {
		case DIGIT:
			p = look_number(&s, p);
			break;
		case HIGH:
			p = look_character(&s, p);
			break;
		case ANCHOR:
			if (*p == '-')
				p = look_pem(&s, p);
			else if (*p == ':')
				p = look_url(&s, p);
			else
				p = look_token(&s, p);
			break;
		default:
			p++;
		}
	}
}
