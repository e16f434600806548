/* SPDX-License-Identifier: ISC */
/*
 * What is pointed at lies inside the text; a search that skips nothing, a
 * whole text and the windows of the quick search find the same; names and
 * domains end well.
 */
#include "tests/fuzz/fuzz.h"

#include "base/xalloc.h"
#include "mail/finding.h"
#include "mail/finding_skip.h"
#include "mail/header.h"
#include "mail/structure.h"

/* The same search, but of each byte. */
void search_each_byte(struct str text, finding_fn *fn, void *arg);
#define finding_search search_each_byte
#define finding_skip(text, from) (from)
#include "mail/finding_search.c"
#undef finding_skip
#undef finding_search

#define FOUND_MAX 64

struct seen {
	struct str text;
	struct finding_marks marks;
	struct {
		enum finding f;
		struct str what;
	} found[FOUND_MAX];
	size_t n;
};

static void
on_finding(void *arg, enum finding f, struct str what)
{
	struct seen *s = arg;

	BUG_ON(f >= FINDING_COUNT || what.n == 0);
	BUG_ON(what.p < s->text.p);
	BUG_ON(what.p + what.n > s->text.p + s->text.n);
	finding_mark(&s->marks, f);
	if (s->n == FOUND_MAX)
		return;
	s->found[s->n].f = f;
	s->found[s->n++].what = what;
}

/* What is passed over is none of what is searched for. */
static void
check_skipped(const struct seen *s)
{
	struct seen other = { .text = s->text };
	size_t i;

	search_each_byte(s->text, on_finding, &other);
	BUG_ON(other.marks.bits != s->marks.bits || other.n != s->n);
	for (i = 0; i < s->n; i++)
		BUG_ON(other.found[i].f != s->found[i].f ||
		       other.found[i].what.p != s->found[i].what.p ||
		       other.found[i].what.n != s->found[i].what.n);
}

/* As the body of a message that has it as it is. */
static struct finding_marks
scan(struct str text, size_t step)
{
	static const char head[] = "Content-Transfer-Encoding: 8bit\r\n"
				   "Content-Type: text/plain; charset=utf-8"
				   "\r\n\r\n";
	struct finding_scan scan = { 0 };
	struct structure *s = structure_new(finding_scan_part, &scan);
	struct finding_marks marks;
	size_t i;

	structure_set_watch(s, &finding_watch);
	(void)structure_feed(s, head, sizeof(head) - 1);
	for (i = 0; i < text.n; i += step)
		(void)structure_feed(
		    s, text.p + i, text.n - i < step ? text.n - i : step);
	if (structure_finish(s) != E_NONE)
		scan.marks.bits = UINT64_MAX;
	marks = scan.marks;
	structure_free(s);
	finding_scan_free(&scan);
	return marks;
}

/* Such text is refused, and of the rest of the line is nothing kept. */
static bool
has_long_line(struct str text)
{
	const char *p = text.p, *end = text.p + text.n, *nl;

	for (; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		nl = nl == NULL ? end : nl;
		if (nl - p > HEADER_LINE_MAX)
			return true;
	}
	return false;
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct seen s = { .text = { (const char *)p, n } };
	struct str half = { s.text.p, n / 2 },
		   rest = { s.text.p + n / 2, n - n / 2 };
	struct finding_marks one, other;

	finding_search(s.text, on_finding, &s);
	check_skipped(&s);
	one = scan(s.text, n + 1);
	other = scan(s.text, 3);
	BUG_ON(one.bits != other.bits);
	BUG_ON(one.bits != UINT64_MAX && one.bits != s.marks.bits &&
	       !has_long_line(s.text));
	BUG_ON(finding_risk(&s.marks) < finding_max(&s.marks));
	finding_search_header(s.text, finding_note, &other);
	finding_search_file(s.text, "x/y", finding_note, &other);
	finding_search_rcpt(
	    s.text, str_lit("example.org"), finding_note, &other);
	(void)finding_domain_mixed(s.text);
	BUG_ON(
	    finding_domain_near(half, rest) != finding_domain_near(rest, half));
	BUG_ON(finding_domain_near(s.text, s.text));
	return 0;
}
