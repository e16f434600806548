/* SPDX-License-Identifier: ISC */
#include "base/str.h"

#include "base/xalloc.h"

static char
lower(char c)
{
	return (c >= 'A' && c <= 'Z') ? (char)(c - 'A' + 'a') : c;
}

bool
str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool
str_ieq(struct str a, struct str b)
{
	size_t i;

	if (a.n != b.n)
		return false;
	for (i = 0; i < a.n; i++) {
		if (lower(a.p[i]) != lower(b.p[i]))
			return false;
	}
	return true;
}

bool
str_starts(struct str s, struct str prefix)
{
	return s.n >= prefix.n && str_eq((struct str){ s.p, prefix.n }, prefix);
}

bool
str_istarts(struct str s, struct str prefix)
{
	return s.n >= prefix.n &&
	       str_ieq((struct str){ s.p, prefix.n }, prefix);
}

struct str
str_trim(struct str s)
{
	while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
		s.p++;
		s.n--;
	}
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

struct str
str_split(struct str *s, char sep)
{
	const char *at = s->n != 0 ? memchr(s->p, sep, s->n) : NULL;
	struct str head = *s;

	if (at == NULL) {
		*s = (struct str){ s->p + s->n, 0 };
		return head;
	}
	head.n = (size_t)(at - s->p);
	s->p = at + 1;
	s->n -= head.n + 1;
	return head;
}

bool
str_lp(struct str *s, struct str *field)
{
	const unsigned char *p = (const unsigned char *)s->p;
	size_t n;

	if (s->n < 4)
		return false;
	n = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
	if (n > s->n - 4)
		return false;
	*field = (struct str){ s->p + 4, n };
	s->p += 4 + n;
	s->n -= 4 + n;
	return true;
}

char *
str_dup(struct str s)
{
	char *copy = xmalloc(s.n + 1);

	if (s.n != 0)
		memcpy(copy, s.p, s.n);
	copy[s.n] = '\0';
	return copy;
}

void
str_lower(char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = lower(p[i]);
}

bool
str_to_u64(struct str s, unsigned long long max, unsigned long long *out)
{
	unsigned long long v = 0;
	size_t i;

	if (s.n == 0)
		return false;
	for (i = 0; i < s.n; i++) {
		unsigned digit = (unsigned)(unsigned char)s.p[i] - '0';

		if (digit > 9 || v > (max - digit) / 10 || digit > max)
			return false;
		v = v * 10 + digit;
	}
	*out = v;
	return true;
}

bool
str_is_login(struct str s)
{
	size_t i;

	if (s.n == 0 || s.n > 64 || strchr("._@-", s.p[0]) != NULL)
		return false;
	for (i = 0; i < s.n; i++)
		if (s.p[i] == '\0' ||
		    strchr("abcdefghijklmnopqrstuvwxyz"
			   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-",
			s.p[i]) == NULL)
			return false;
	return true;
}

bool
str_has_8bit(struct str s)
{
	uint64_t four[4];
	size_t i = 0;

	for (; i + sizeof(four) <= s.n; i += sizeof(four)) {
		memcpy(four, s.p + i, sizeof(four));
		if (((four[0] | four[1] | four[2] | four[3]) &
			0x8080808080808080) != 0)
			return true;
	}
	for (; i + sizeof(four[0]) <= s.n; i += sizeof(four[0])) {
		memcpy(four, s.p + i, sizeof(four[0]));
		if ((four[0] & 0x8080808080808080) != 0)
			return true;
	}
	for (; i < s.n; i++) {
		if (((unsigned char)s.p[i] & 0x80) != 0)
			return true;
	}
	return false;
}
