/* SPDX-License-Identifier: ISC */
#include "base/uuid.h"

#include <pthread.h>
#include <sys/random.h>

#include <stdio.h>

#include "base/clock.h"
#include "base/xalloc.h"

/*
 * The 12 bits behind the time count up within a millisecond, from a random
 * start in the lower half; when they run out the time is moved on by one.
 * Process-wide state, because "monotonic per process" is the promise; the 62
 * random bits keep forked workers apart.
 */
static struct {
	uint64_t ms;
	unsigned count;
} last;

#define RANDOM 10 /* of one id */
/*
 * A clock that was set back by more was wrong before: the database refuses ids
 * that are ten minutes from its own time, for as long as they count on.
 */
#define BACK_MS 60000

/* Random bytes of the next ids: one call of the kernel for many. */
static struct {
	unsigned char b[25 * RANDOM]; /* up to 256 come whole */
	size_t left;
} ahead;

static void
after_fork(void)
{
	ahead.left = 0;
}

static const unsigned char *
take_random(void)
{
	static bool told;

	if (!told)
		BUG_ON(pthread_atfork(NULL, NULL, after_fork) != 0);
	told = true;
	if (ahead.left == 0) {
		BUG_ON(getrandom(ahead.b, sizeof(ahead.b), 0) !=
		       (ssize_t)sizeof(ahead.b));
		ahead.left = sizeof(ahead.b);
	}
	ahead.left -= RANDOM;
	return ahead.b + ahead.left;
}

struct uuid
uuid_v7_new(void)
{
	struct uuid u;
	uint64_t ms = (uint64_t)(clock_real_us() / 1000);
	const unsigned char *r = take_random();
	int i;

	if (ms > last.ms || last.ms - ms > BACK_MS) {
		last.ms = ms;
		last.count = (unsigned)(r[8] << 8 | r[9]) & 0x7ff;
	} else if (++last.count > 0xfff) {
		last.ms++;
		last.count = 0;
	}
	for (i = 0; i < 6; i++)
		u.b[i] = (unsigned char)(last.ms >> 8 * (5 - i));
	u.b[6] = (unsigned char)(0x70 | last.count >> 8);
	u.b[7] = (unsigned char)last.count;
	memcpy(u.b + 8, r, 8);
	u.b[8] = (unsigned char)(0x80 | (u.b[8] & 0x3f));
	return u;
}

struct uuid
uuid_of_ms(int64_t ms)
{
	struct uuid u = { { 0 } };
	int i;

	for (i = 0; i < 6; i++)
		u.b[i] = (unsigned char)((uint64_t)ms >> 8 * (5 - i));
	u.b[6] = 0x70;
	u.b[8] = 0x80;
	return u;
}

int64_t
uuid_time_ms(const struct uuid *u)
{
	int64_t ms = 0;
	int i;

	for (i = 0; i < 6; i++)
		ms = ms << 8 | u->b[i];
	return ms;
}

bool
uuid_eq(const struct uuid *a, const struct uuid *b)
{
	return uuid_cmp(a, b) == 0;
}

int
uuid_cmp(const struct uuid *a, const struct uuid *b)
{
	return memcmp(a->b, b->b, sizeof(a->b));
}

void
uuid_to_id(char out[UUID_ID_MAX], const char *prefix, const struct uuid *u)
{
	size_t n = strlen(prefix);

	BUG_ON(n > 12);
	memcpy(out, prefix, n);
	base32_encode(out + n, u->b, sizeof(u->b));
}

bool
uuid_from_id(struct uuid *u, const char *prefix, struct str s)
{
	struct str p = str_of(prefix);

	return str_starts(s, p) &&
	       base32_decode(u->b, sizeof(u->b), s.p + p.n, s.n - p.n);
}

void
uuid_to_text(char out[UUID_TEXT_MAX], const struct uuid *u)
{
	char hex[33];

	hex_encode(hex, u->b, sizeof(u->b));
	(void)snprintf(out, UUID_TEXT_MAX, "%.8s-%.4s-%.4s-%.4s-%.12s", hex,
	    hex + 8, hex + 12, hex + 16, hex + 20);
}

bool
uuid_from_text(struct uuid *u, struct str s)
{
	char hex[32];
	size_t i, n = 0;

	if (s.n != UUID_TEXT_MAX - 1)
		return false;
	for (i = 0; i < s.n; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash != (s.p[i] == '-'))
			return false;
		if (!dash)
			hex[n++] = s.p[i];
	}
	return hex_decode(u->b, sizeof(u->b), hex, n);
}
