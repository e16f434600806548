/* SPDX-License-Identifier: ISC */
#include "admin/diff.h"

#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

#include "base/arena.h"
#include "base/xalloc.h"

struct words {
	struct str w[DIFF_WORDS];
	size_t n;
	bool cut;
};

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void
split(struct words *out, struct str text)
{
	size_t i = 0, from;

	/* Each word is compared with all others, however long they are. */
	if (text.n > DIFF_BYTES) {
		text.n = DIFF_BYTES;
		while (text.n > 0 && (text.p[text.n] & 0xc0) == 0x80)
			text.n--;
		out->cut = true;
	}
	while (i < text.n) {
		while (i < text.n && is_space(text.p[i]))
			i++;
		from = i;
		while (i < text.n && !is_space(text.p[i]))
			i++;
		if (i == from)
			break;
		if (out->n == DIFF_WORDS) {
			out->cut = true;
			break;
		}
		out->w[out->n++] = (struct str){ text.p + from, i - from };
	}
}

static bool
same(struct str a, struct str b)
{
	return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

/* Row-major; cell (i, j) is the best for a from i and b from j. */
static uint16_t *
measure(const struct words *a, const struct words *b)
{
	size_t wide = b->n + 1, i, j;
	uint16_t *best = xcalloc((a->n + 1) * wide, sizeof(*best));

	for (i = a->n; i-- > 0;)
		for (j = b->n; j-- > 0;) {
			uint16_t down = best[(i + 1) * wide + j];
			uint16_t right = best[i * wide + j + 1];

			if (same(a->w[i], b->w[j]))
				best[i * wide + j] =
				    (uint16_t)(best[(i + 1) * wide + j + 1] +
					       1);
			else
				best[i * wide + j] =
				    down > right ? down : right;
		}
	return best;
}

static void
put(struct diff *out, enum diff_side side, struct str word)
{
	struct diff_run *end = out->run + out->n;

	if (out->n > 0 && end[-1].side == side) {
		end[-1].text.n = (size_t)(word.p + word.n - end[-1].text.p);
	} else {
		*end = (struct diff_run){ side, word };
		out->n++;
	}
}

void
diff_words(struct diff *out, struct arena *mem, struct str a, struct str b)
{
	struct words *x = xcalloc(2, sizeof(*x)), *y = x + 1;
	size_t i = 0, j = 0, wide;
	uint16_t *best;

	split(x, a);
	split(y, b);
	*out = (struct diff){ .cut = x->cut || y->cut };
	out->run = arena_array(mem, x->n + y->n + 1, sizeof(*out->run));
	best = measure(x, y);
	wide = y->n + 1;
	while (i < x->n || j < y->n) {
		if (i < x->n && j < y->n && same(x->w[i], y->w[j])) {
			put(out, DIFF_BOTH, x->w[i]);
			i++;
			j++;
		} else if (j == y->n ||
			   (i < x->n && best[(i + 1) * wide + j] >=
					    best[i * wide + j + 1])) {
			put(out, DIFF_ONLY_A, x->w[i++]);
		} else {
			put(out, DIFF_ONLY_B, y->w[j++]);
		}
	}
	free(best);
	free(x);
}
