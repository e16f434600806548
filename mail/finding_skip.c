/* SPDX-License-Identifier: ISC */
/*
 * finding_skip.c - pass over what can be none of what is searched for.
 *
 * One byte says little: digits, capitals and 'z' are everywhere in base64 and
 * in logs. Two that follow each other say enough. Of each kind of pair that is
 * worth a look one bit tells in `first` that a byte may begin it, and in
 * `second` that one may end it; eight pairs are tried before one branch. What
 * is left is judged by its neighbours.
 */
#include "mail/finding_skip.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STEP 8
#define LONG_RUN 14 /* digits of the shortest number without gaps */

enum pair {
	LETTER = 1, /* "yJ" of eyJ, "IA" of ASIA, "SG" of SG., "hv" of hvs. */
	UNDERLINE = 2, /* the last two of "ghp_" and others */
	HYPHEN = 4, /* of "glpat-" and others; "tK" of AccountKey */
	SLASH = 8, /* "://", ":A" of bots; U+3164 and its like */
	GAP = 16, /* behind a group of digits */
	COUNTRY = 32, /* "E8" of DE89, an IBAN */
	CHARACTER = 64, /* in UTF-8, that turns, hides or is a tag */
	DASHES = 128, /* "-----BEGIN" */
};

#define W10(c, v)                                                              \
	[c] = (v), [(c) + 1] = (v), [(c) + 2] = (v), [(c) + 3] = (v),          \
	[(c) + 4] = (v), [(c) + 5] = (v), [(c) + 6] = (v), [(c) + 7] = (v),    \
	[(c) + 8] = (v), [(c) + 9] = (v)

static const unsigned char first[256] = { ['0'] = GAP,
	['1'] = GAP | UNDERLINE,
	['2'] = GAP,
	['3'] = GAP,
	['4'] = GAP,
	['5'] = GAP,
	['6'] = GAP,
	['7'] = GAP,
	['8'] = GAP,
	['9'] = GAP,
	['A'] = COUNTRY | LETTER,
	['B'] = COUNTRY,
	['C'] = COUNTRY,
	['D'] = COUNTRY,
	['E'] = COUNTRY | HYPHEN,
	['F'] = COUNTRY,
	['G'] = COUNTRY,
	['H'] = COUNTRY | UNDERLINE,
	['I'] = COUNTRY | LETTER,
	['J'] = COUNTRY,
	['K'] = COUNTRY,
	['L'] = COUNTRY,
	['M'] = COUNTRY,
	['N'] = COUNTRY,
	['O'] = COUNTRY,
	['P'] = COUNTRY,
	['Q'] = COUNTRY,
	['R'] = COUNTRY,
	['S'] = COUNTRY | LETTER | UNDERLINE,
	['T'] = COUNTRY,
	['U'] = COUNTRY,
	['V'] = COUNTRY,
	['W'] = COUNTRY,
	['X'] = COUNTRY | HYPHEN,
	['Y'] = COUNTRY | HYPHEN,
	['Z'] = COUNTRY,
	['a'] = HYPHEN,
	['b'] = HYPHEN,
	['c'] = UNDERLINE,
	['e'] = UNDERLINE,
	['f'] = UNDERLINE,
	['h'] = LETTER | UNDERLINE,
	['i'] = HYPHEN,
	['j'] = HYPHEN,
	['k'] = HYPHEN | UNDERLINE,
	['m'] = UNDERLINE,
	['o'] = UNDERLINE,
	['p'] = UNDERLINE | HYPHEN,
	['r'] = UNDERLINE,
	['s'] = UNDERLINE | HYPHEN,
	['t'] = UNDERLINE | HYPHEN,
	['u'] = UNDERLINE,
	['v'] = UNDERLINE,
	['y'] = LETTER,
	[':'] = SLASH,
	['-'] = DASHES,
	[0xc2] = CHARACTER,
	[0xcd] = CHARACTER,
	[0xe1] = CHARACTER | SLASH,
	[0xe2] = CHARACTER,
	[0xe3] = SLASH,
	[0xef] = CHARACTER | SLASH,
	[0xf0] = CHARACTER,
	[0xf3] = CHARACTER };

static const unsigned char second[256] = {
	W10('0', COUNTRY), ['A'] = LETTER | SLASH, ['G'] = LETTER,
	['J'] = LETTER, ['K'] = LETTER | HYPHEN, ['v'] = LETTER, ['z'] = LETTER,
	['_'] = UNDERLINE, ['-'] = HYPHEN | GAP | DASHES, [' '] = GAP,
	['.'] = GAP, ['/'] = SLASH, [0xc2] = GAP, /* of U+00A0 */
	[0xe2] = GAP, /* of U+202F */
	[0xad] = CHARACTER, /* U+00AD */
	[0xa0] = CHARACTER, /* U+180E, U+E0000 ... */
	[0x80] = CHARACTER, /* U+200B ... */
	[0x8f] = CHARACTER, /* U+034F */
	[0x81] = CHARACTER, /* U+2060 ... */
	[0xb8] = CHARACTER, /* U+FE00 ... */
	[0xbb] = CHARACTER, /* U+FEFF */
	[0x9f] = CHARACTER, /* U+1F3F4 */
	[0x85] = SLASH, /* U+115F, U+3164 */
	[0xbe] = SLASH, /* U+FFA0 */
};

struct skip {
	const unsigned char *start, *from, *end;
};

static bool
is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_upper(unsigned char c)
{
	return c >= 'A' && c <= 'Z';
}

static unsigned
pair_at(const unsigned char *p)
{
	return first[p[0]] & second[p[1]];
}

static bool
has_pair(const unsigned char *p)
{
	return (pair_at(p) | pair_at(p + 1) | pair_at(p + 2) | pair_at(p + 3) |
		   pair_at(p + 4) | pair_at(p + 5) | pair_at(p + 6) |
		   pair_at(p + 7)) != 0;
}

/*
 * Are seven bytes digits, or nearly? Of a long run of them some step has as
 * many.
 */
static bool
has_digits(const unsigned char *p)
{
	static const unsigned char mask[STEP] = { 0xf0, 0xf0, 0xf0, 0xf0, 0xf0,
		0xf0, 0xf0 };
	static const unsigned char want[STEP] = "0000000";
	uint64_t a, b, c;

	memcpy(&a, p, STEP);
	memcpy(&b, mask, STEP);
	memcpy(&c, want, STEP);
	return (a & b) == c;
}

/* Where the digits up to `p` begin; behind it when it is none. */
static const unsigned char *
run_start(const struct skip *s, const unsigned char *p)
{
	p++;
	while (p > s->from && is_digit(p[-1]))
		p--;
	return p;
}

/* The long run of digits that `p` is in, or NULL. */
static const unsigned char *
long_run(const struct skip *s, const unsigned char *p)
{
	const unsigned char *run = run_start(s, p);

	while (p < s->end && p - run < LONG_RUN && is_digit(*p))
		p++;
	return p - run >= LONG_RUN ? run : NULL;
}

/* A group of a card's number or of "219-09-9999": `p` is its last digit. */
static const unsigned char *
group_start(const struct skip *s, const unsigned char *p)
{
	ptrdiff_t gap = p[1] == 0xc2 ? 2 : p[1] == 0xe2 ? 3 : 1, n;
	const unsigned char *run;

	if (s->end - p <= gap + 3 || !is_digit(p[gap + 1]))
		return NULL;
	run = run_start(s, p);
	n = p + 1 - run;
	if (n == 3 ? p[1] == '-' && p[4] == '-'
		   : n == 4 && is_digit(p[gap + 3]))
		return run;
	return NULL;
}

/* What `pair`, which stands at `p`, tells to look at, or NULL. */
static const unsigned char *
place_of(const struct skip *s, const unsigned char *p, unsigned pair)
{
	if ((pair & (LETTER | UNDERLINE | HYPHEN)) != 0)
		return p + 1;
	if ((pair & COUNTRY) != 0)
		return p > s->start && is_upper(p[-1]) && s->end - p > 2 &&
			       is_digit(p[2])
			   ? p + 1
			   : NULL;
	if (p < s->from)
		return NULL;
	if ((pair & GAP) != 0)
		return group_start(s, p);
	if ((pair & DASHES) != 0)
		return p == s->from || p[-1] != '-' ? p : NULL;
	return p; /* SLASH, CHARACTER */
}

/* The first place among the pairs that begin from `p` up to `end`. */
static const unsigned char *
first_place(
    const struct skip *s, const unsigned char *p, const unsigned char *end)
{
	const unsigned char *place;
	unsigned pair;

	for (; p < end; p++) {
		pair = pair_at(p);
		if (pair == 0)
			continue;
		place = place_of(s, p, pair);
		if (place != NULL)
			return place;
	}
	return NULL;
}

const char *
finding_skip(struct str text, const char *from)
{
	struct skip s = { (const unsigned char *)text.p,
		(const unsigned char *)from,
		(const unsigned char *)text.p + text.n };
	const unsigned char *p = s.from, *place = NULL;

	if (p == s.end)
		return from;
	/* A prefix may end before `from` whose anchor stands there. */
	if (p > s.start)
		place = first_place(&s, p - 1, p);
	for (; place == NULL && s.end - p > STEP; p += STEP) {
		if (has_digits(p))
			place = long_run(&s, p);
		if (place == NULL && has_pair(p))
			place = first_place(&s, p, p + STEP);
	}
	if (place == NULL)
		place = long_run(&s, p);
	if (place == NULL)
		place = first_place(&s, p, s.end - 1);
	return (const char *)(place != NULL ? place : s.end);
}
