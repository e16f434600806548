/* SPDX-License-Identifier: ISC */
/*
 * finding_number.c - numbers of cards, accounts and people, with their check
 * digits.
 */
#include "mail/finding_search.h"

#include <string.h>

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

/* Bytes of what stands between two groups at `p`; 0: it is none. */
static size_t
gap_at(const struct search *s, const char *p)
{
	struct str rest = { p, (size_t)(s->end - p) };

	if (p < s->end && (*p == ' ' || *p == '-' || *p == '.'))
		return 1;
	return str_starts(rest, str_lit("\xc2\xa0"))       ? 2 /* no break */
	       : str_starts(rest, str_lit("\xe2\x80\xaf")) ? 3 /* and narrow */
							   : 0;
}

/* The digits of `groups` at `p`, with the same gap in between, or NULL. */
static const char *
read_groups(const struct search *s, const char *p, const unsigned char groups[],
    struct str gap, char *digits, size_t *n)
{
	size_t i, k;

	*n = 0;
	for (i = 0; i < 4 && groups[i] > 0; i++) {
		if (i > 0) {
			if (gap_at(s, p) != gap.n ||
			    memcmp(p, gap.p, gap.n) != 0)
				return NULL;
			p += gap.n;
		}
		for (k = 0; k < groups[i]; k++) {
			if (!is_digit(at_or_space(s, p)))
				return NULL;
			digits[(*n)++] = *p++;
		}
	}
	return p;
}

/* "4111 1111 1111 1111", "3782-822463-10005", or without gaps. */
static const char *
card_end(const struct search *s, const char *p)
{
	static const unsigned char shapes[][4] = { { 4, 4, 4, 4 },
		{ 4, 6, 5, 0 }, { 4, 6, 4, 0 } };
	char digits[20];
	const char *q = p;
	struct str gap;
	size_t n, i;

	for (n = 0; q < s->end && is_digit(*q) && n < sizeof(digits); n++)
		digits[n] = *q++;
	if (n >= 14)
		return n < sizeof(digits) && is_card(digits, n) &&
			       luhn_valid(digits, n)
			   ? q
			   : NULL;
	gap = (struct str){ q, gap_at(s, q) };
	if (n != 4 || gap.n == 0)
		return NULL;
	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		q = read_groups(s, p, shapes[i], gap, digits, &n);
		/* More groups behind dots are versions, not cards. */
		if (q != NULL && is_card(digits, n) && luhn_valid(digits, n) &&
		    (*gap.p != '.' || at_or_space(s, q) != '.' ||
			!is_digit(at_or_space(s, q + 1))))
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
const char *
finding_look_number(const struct search *s, const char *p)
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
