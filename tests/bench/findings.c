/* SPDX-License-Identifier: ISC */
/*
 * findings.c - what the quick search for findings costs a message.
 *
 * Each message passes through structure.h with the search and without it, by
 * turns; the median of the differences is printed as JSON, in nanoseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/xalloc.h"
#include "mail/finding.h"
#include "mail/structure.h"

#define TURNS 401
#define AT_ONCE 20

#define HEAD                                                                   \
	"From: bot@example.org\r\nTo: ann@example.net\r\nSubject: Report\r\n"  \
	"MIME-Version: 1.0\r\n"
#define WORDS                                                                  \
	"The figures of last week are in, and they are better than we\r\n"     \
	"thought: 1,204 orders, 17 of them open (see order 4711-0815).\r\n"    \
	"Please look at https://shop.example/orders?week=48 - thanks!\r\n\r\n"

static int64_t
run(const struct buf *mail, bool search)
{
	struct timespec from, to;
	int i;

	(void)clock_gettime(CLOCK_MONOTONIC, &from);
	for (i = 0; i < AT_ONCE; i++) {
		struct finding_scan scan = { 0 };
		struct structure *s = structure_new(
		    search ? finding_scan_part : NULL, search ? &scan : NULL);

		if (search)
			structure_set_watch(s, &finding_watch);
		BUG_ON(structure_feed(s, mail->p, mail->n) != E_NONE);
		BUG_ON(structure_finish(s) != E_NONE);
		structure_free(s);
		finding_scan_free(&scan);
	}
	(void)clock_gettime(CLOCK_MONOTONIC, &to);
	return ((int64_t)(to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec -
		   from.tv_nsec) /
	       AT_ONCE;
}

static int
by_size(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void
measure(const char *name, const struct buf *mail, bool is_last)
{
	static int64_t without[TURNS], extra[TURNS];
	int i;

	for (i = 0; i < TURNS; i++) {
		without[i] = run(mail, false);
		extra[i] = run(mail, true) - without[i];
	}
	qsort(without, TURNS, sizeof(without[0]), by_size);
	qsort(extra, TURNS, sizeof(extra[0]), by_size);
	printf("\"%s\": {\"bytes\": %zu, \"structure_ns\": %lld, "
	       "\"findings_ns\": %lld}%s",
	    name, mail->n, (long long)without[TURNS / 2],
	    (long long)extra[TURNS / 2], is_last ? "}\n" : ", ");
}

static void
fill(struct buf *mail, size_t size, const char *words)
{
	while (mail->n < size)
		buf_puts(mail, words);
}

/* Lines of 70, as smtpload.c sends them. */
static void
fill_random(struct buf *mail, size_t size)
{
	static const char abc[] = "abcdefghijklmnopqrstuvwxyz0123456789+/AB";
	uint64_t x = 88172645463325252;
	int i;

	for (i = 0; mail->n < size; i = (i + 1) % 71) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		if (i < 70)
			buf_putc(mail, abc[x % 40]);
		else
			buf_puts(mail, "\r\n");
	}
}

int
main(void)
{
	struct buf plain = { 0 }, base64 = { 0 }, chinese = { 0 }, odd = { 0 };
	struct buf large = { 0 };
	int i;

	buf_puts(&plain, HEAD "\r\n");
	fill(&plain, 4096, WORDS);
	buf_puts(&base64, HEAD "Content-Transfer-Encoding: base64\r\n\r\n");
	for (i = 0; i < 53; i++)
		buf_puts(&base64, "VGhlIGZpZ3VyZXMgb2YgbGFzdCB3ZWVrIGFyZSBp"
				  "biwgYW5kIHRoZXkgYXJlIGJldHRlciB0aGFu\r\n");
	buf_puts(&chinese, HEAD "Content-Type: text/plain; charset=utf-8\r\n"
				"Content-Transfer-Encoding: 8bit\r\n\r\n");
	fill(&chinese, 4096,
	    "\xe4\xb8\x8a\xe5\x91\xa8\xe7\x9a\x84\xe6\x95\xb0\xe5\xad\x97"
	    "\xe6\xaf\x94\xe9\xa2\x84\xe6\x9c\x9f\xe7\x9a\x84\xe5\xa5\xbd"
	    "\xef\xbc\x8c\xe8\xaf\xb7\xe7\x9c\x8b\xe3\x80\x82\r\n");
	buf_puts(&odd, HEAD "\r\n");
	/* places to look at, and none that is anything */
	fill(&odd, 4096, "AA11 219-09 1234 5678-t-a_:/yJ --\r\n");
	buf_puts(&large, HEAD "\r\n");
	fill_random(&large, 65536);
	printf("{");
	measure("plain", &plain, false);
	measure("base64", &base64, false);
	measure("chinese", &chinese, false);
	measure("worst", &odd, false);
	measure("large", &large, true);
	buf_free(&plain);
	buf_free(&base64);
	buf_free(&chinese);
	buf_free(&odd);
	buf_free(&large);
	return 0;
}
