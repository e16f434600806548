/* SPDX-License-Identifier: ISC */
/* header_date.c - RFC 5322 3.3, without the obsolete forms. */
#include "mail/header.h"

#include <string.h>
#include <time.h>

#include "base/xalloc.h"

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
static const char days[] = "MonTueWedThuFriSatSun";

static void
skip_space(struct str *s)
{
	while (s->n > 0 && strchr(" \t\r\n", s->p[0]) != NULL) {
		s->p++;
		s->n--;
	}
}

static bool
take(struct str *s, char c)
{
	if (s->n == 0 || s->p[0] != c)
		return false;
	s->p++;
	s->n--;
	return true;
}

/* `lo` to `hi` digits. */
static bool
number(struct str *s, size_t lo, size_t hi, int *out)
{
	size_t n = 0;

	*out = 0;
	while (n < hi && n < s->n && s->p[n] >= '0' && s->p[n] <= '9')
		*out = *out * 10 + (s->p[n++] - '0');
	s->p += n;
	s->n -= n;
	return n >= lo;
}

/* One of the three-letter words of `list`. */
static bool
word(struct str *s, const char *list)
{
	size_t i, n = strlen(list);

	for (i = 0; i < n; i += 3) {
		if (s->n >= 3 && str_ieq((struct str){ s->p, 3 },
				     (struct str){ list + i, 3 })) {
			s->p += 3;
			s->n -= 3;
			return true;
		}
	}
	return false;
}

static bool
clock_valid(struct str *s)
{
	int h, m, sec = 0;

	if (!number(s, 2, 2, &h) || !take(s, ':') || !number(s, 2, 2, &m))
		return false;
	if (take(s, ':') && !number(s, 2, 2, &sec))
		return false;
	return h < 24 && m < 60 && sec <= 60;
}

static bool
zone_valid(struct str *s)
{
	int z;

	if (take(s, '+') || take(s, '-'))
		return number(s, 4, 4, &z) && z % 100 < 60;
	if (str_istarts(*s, str_lit("GMT"))) {
		s->p += 3;
		s->n -= 3;
		return true;
	}
	if (str_istarts(*s, str_lit("UT"))) {
		s->p += 2;
		s->n -= 2;
		return true;
	}
	return false;
}

bool
header_date_valid(struct str s)
{
	int day, year;

	skip_space(&s);
	if (word(&s, days)) {
		if (!take(&s, ','))
			return false;
		skip_space(&s);
	}
	if (!number(&s, 1, 2, &day) || day < 1 || day > 31)
		return false;
	skip_space(&s);
	if (!word(&s, months))
		return false;
	skip_space(&s);
	if (!number(&s, 4, 4, &year) || year < 1900)
		return false;
	skip_space(&s);
	if (!clock_valid(&s))
		return false;
	skip_space(&s);
	if (!zone_valid(&s))
		return false;
	skip_space(&s);
	if (s.n == 0)
		return true;
	/* "(UTC)": one comment, flat. */
	return s.n >= 2 && s.p[0] == '(' && s.p[s.n - 1] == ')' &&
	       memchr(s.p + 1, '(', s.n - 1) == NULL;
}

/* Exactly `n` digits. */
static void
digits_put(char *to, int n, int v)
{
	for (; n-- > 0; v /= 10)
		to[n] = (char)('0' + v % 10);
}

void
header_date_format(char out[40], int64_t us)
{
	static const char wday[7][4] = { "Sun", "Mon", "Tue", "Wed", "Thu",
		"Fri", "Sat" };
	time_t t = (time_t)(us / 1000000);
	struct tm tm;

	BUG_ON(gmtime_r(&t, &tm) == NULL || tm.tm_year < -1900 ||
	       tm.tm_year > 9999 - 1900);
	memcpy(out, "Www, dd Mmm yyyy hh:mm:ss +0000", 32);
	memcpy(out, wday[tm.tm_wday], 3);
	digits_put(out + 5, 2, tm.tm_mday);
	memcpy(out + 8, months + 3 * tm.tm_mon, 3);
	digits_put(out + 12, 4, tm.tm_year + 1900);
	digits_put(out + 17, 2, tm.tm_hour);
	digits_put(out + 20, 2, tm.tm_min);
	digits_put(out + 23, 2, tm.tm_sec);
}
