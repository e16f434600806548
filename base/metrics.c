/* SPDX-License-Identifier: ISC */
#include "base/metrics.h"

#include <sys/mman.h>

#include <stdatomic.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"

enum programs { G = 1, A = 2, D = 4, U = 8, ALL = 15 };
enum kind { COUNTER, GAUGE, HISTOGRAM_SECONDS, HISTOGRAM_ROWS };

#define VALUES_MAX 8
#define SERIES_MAX 16 /* values of label 1 times values of label 2 */

struct label {
	const char *key;
	const char *values[VALUES_MAX];
};

struct stat {
	int programs;
	enum kind kind;
	const char *name;
	const char *help;
	struct label labels[3];
};

#define LABEL(k, ...) { .key = k, .values = { __VA_ARGS__ } },
#define NO_LABEL
static const struct stat stats[M_COUNT] = {
#define STAT(id, programs, kind, name, labels, help)                           \
	[M_##id] = { programs, kind, name, help, { labels{ .key = NULL } } },
#include "base/stats.def"
#undef STAT
};

/* Upper bounds; one more bucket follows for everything above. */
static const int64_t bounds_us[] = { 1000, 2500, 5000, 10000, 25000, 50000,
	100000, 250000, 500000, 1000000, 2500000, 10000000 };
static const int64_t bounds_rows[] = { 1, 2, 4, 8, 16, 32, 64 };
#define SUM_AT (SERIES_MAX - 1)

typedef _Atomic int64_t slot_values[M_COUNT][SERIES_MAX];

static struct {
	slot_values *slots; /* shared memory */
	size_t nslots;
	size_t mine;
	int shown; /* of enum programs */
} state;

static int
letter_of(const char *program)
{
	if (program == NULL)
		return ALL;
	if (strcmp(program, "posternd") == 0)
		return G;
	if (strcmp(program, "postern-auth") == 0)
		return U;
	return strcmp(program, "postern-admin") == 0 ? A : D;
}

void
metrics_init(size_t slots, const char *program)
{
	BUG_ON(slots == 0 || state.slots != NULL);
	state.slots = mmap(NULL, slots * sizeof(*state.slots),
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	BUG_ON(state.slots == MAP_FAILED);
	state.nslots = slots;
	state.mine = 0;
	state.shown = letter_of(program);
}

void
metrics_use_slot(size_t slot)
{
	size_t m, i;

	BUG_ON(slot >= state.nslots);
	state.mine = slot;
	for (m = 0; m < M_COUNT; m++) {
		for (i = 0; stats[m].kind == GAUGE && i < SERIES_MAX; i++)
			atomic_store(&state.slots[slot][m][i], 0);
	}
}

static size_t
count_values(const struct label *l)
{
	size_t n = 0;

	while (n < VALUES_MAX && l->values[n] != NULL)
		n++;
	return n;
}

static size_t
value_index(const struct label *l, const char *value)
{
	size_t i, n = count_values(l);

	if (l->key == NULL)
		return 0;
	BUG_ON(value == NULL);
	for (i = 0; i < n; i++) {
		if (strcmp(l->values[i], value) == 0)
			return i;
	}
	xalloc_bug(__FILE__, __LINE__, value);
}

static size_t
series_index(enum metric m, const char *l1, const char *l2)
{
	const struct label *l = stats[m].labels;
	size_t at;

	BUG_ON(m >= M_COUNT);
	at = value_index(&l[0], l1);
	if (l[0].key != NULL && l[1].key != NULL)
		at = at * count_values(&l[1]) + value_index(&l[1], l2);
	BUG_ON(at >= SERIES_MAX);
	return at;
}

void
metrics_add(enum metric m, int64_t n, const char *l1, const char *l2)
{
	size_t at = series_index(m, l1, l2);

	if (state.slots != NULL)
		atomic_fetch_add(&state.slots[state.mine][m][at], n);
}

void
metrics_set(enum metric m, int64_t v, const char *l1, const char *l2)
{
	size_t at = series_index(m, l1, l2);

	BUG_ON(stats[m].kind != GAUGE);
	if (state.slots != NULL)
		atomic_store(&state.slots[state.mine][m][at], v);
}

static const int64_t *
bounds_of(enum kind kind, size_t *n)
{
	if (kind == HISTOGRAM_SECONDS) {
		*n = sizeof(bounds_us) / sizeof(bounds_us[0]);
		return bounds_us;
	}
	*n = sizeof(bounds_rows) / sizeof(bounds_rows[0]);
	return bounds_rows;
}

void
metrics_observe(enum metric m, int64_t v)
{
	size_t n, i = 0;
	const int64_t *bounds = bounds_of(stats[m].kind, &n);

	BUG_ON(stats[m].kind != HISTOGRAM_SECONDS &&
	       stats[m].kind != HISTOGRAM_ROWS);
	if (state.slots == NULL)
		return;
	while (i < n && v > bounds[i])
		i++;
	atomic_fetch_add(&state.slots[state.mine][m][i], 1);
	atomic_fetch_add(&state.slots[state.mine][m][SUM_AT], v);
}

static int64_t
sum(enum metric m, size_t at)
{
	int64_t total = 0;
	size_t i;

	for (i = 0; i < state.nslots; i++)
		total += atomic_load(&state.slots[i][m][at]);
	return total;
}

int64_t
metrics_get(enum metric m, const char *l1, const char *l2)
{
	return sum(m, series_index(m, l1, l2));
}

static void
render_histogram(struct buf *out, enum metric m)
{
	const struct stat *s = &stats[m];
	bool is_seconds = s->kind == HISTOGRAM_SECONDS;
	size_t n, i;
	const int64_t *bounds = bounds_of(s->kind, &n);
	double scale = is_seconds ? 1e6 : 1;
	int64_t total = 0;

	for (i = 0; i < n; i++) {
		total += sum(m, i);
		buf_printf(out, "postern_%s_bucket{le=\"%g\"} %lld\n", s->name,
		    (double)bounds[i] / scale, (long long)total);
	}
	total += sum(m, n);
	buf_printf(out,
	    "postern_%s_bucket{le=\"+Inf\"} %lld\n"
	    "postern_%s_sum %g\npostern_%s_count %lld\n",
	    s->name, (long long)total, s->name, (double)sum(m, SUM_AT) / scale,
	    s->name, (long long)total);
}

static void
render_plain(struct buf *out, enum metric m)
{
	const struct stat *s = &stats[m];
	const struct label *a = &s->labels[0], *b = &s->labels[1];
	size_t na = a->key != NULL ? count_values(a) : 1;
	size_t nb = a->key != NULL && b->key != NULL ? count_values(b) : 1;
	size_t i;

	for (i = 0; i < na * nb; i++) {
		buf_printf(out, "postern_%s", s->name);
		if (a->key != NULL)
			buf_printf(
			    out, "{%s=\"%s\"", a->key, a->values[i / nb]);
		if (a->key != NULL && b->key != NULL)
			buf_printf(
			    out, ",%s=\"%s\"", b->key, b->values[i % nb]);
		buf_printf(out, "%s %lld\n", a->key != NULL ? "}" : "",
		    (long long)sum(m, i));
	}
}

void
metrics_render(struct buf *out)
{
	static const char *const kinds[] = { "counter", "gauge", "histogram",
		"histogram" };
	int m;

	for (m = 0; m < M_COUNT; m++) {
		if (!(stats[m].programs & state.shown))
			continue;
		buf_printf(out, "# HELP postern_%s %s\n# TYPE postern_%s %s\n",
		    stats[m].name, stats[m].help, stats[m].name,
		    kinds[stats[m].kind]);
		if (stats[m].kind == COUNTER || stats[m].kind == GAUGE)
			render_plain(out, (enum metric)m);
		else
			render_histogram(out, (enum metric)m);
	}
}
