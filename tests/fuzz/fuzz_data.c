/* SPDX-License-Identifier: ISC */
/*
 * The framing of DATA (RFC 5321 4.5.2): however the bytes are cut, the same
 * message comes out, with the same faults, and ends at the same byte; and
 * what is without fault, stuffed again, is what came in.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "smtpd/data.h"

/* Feed in pieces of `step`; how many bytes belong to the message. */
static size_t
frame(struct smtp_data *d, struct buf *out, const uint8_t *p, size_t n,
    size_t step)
{
	unsigned char *to = xmalloc(step + SMTP_DATA_EXTRA);
	size_t at = 0, len, got;

	smtp_data_init(d);
	while (at < n && !d->ended) {
		len = n - at < step ? n - at : step;
		at += smtp_data_feed(d, p + at, len, to, &got);
		BUG_ON(got > len + SMTP_DATA_EXTRA);
		buf_add(out, to, got);
	}
	free(to);
	return at;
}

/* The bytes on the wire of a message without fault. */
static void
stuff(struct buf *wire, const struct buf *message)
{
	bool start = true;
	size_t i;

	for (i = 0; i < message->n; i++) {
		if (start && message->p[i] == '.')
			buf_putc(wire, '.');
		buf_u8(wire, message->p[i]);
		start = message->p[i] == '\n';
	}
	buf_puts(wire, ".\r\n");
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct buf whole = { 0 }, cut = { 0 }, wire = { 0 };
	struct smtp_data a, b;
	size_t used, step;

	used = frame(&a, &whole, p, n, n + 1);
	BUG_ON(a.size != whole.n);
	for (step = 1; step <= 4; step++) {
		buf_clear(&cut);
		BUG_ON(frame(&b, &cut, p, n, step) != used);
		BUG_ON(a.ended != b.ended || a.flags != b.flags ||
		       a.size != b.size || cut.n != whole.n);
		BUG_ON(cut.n > 0 && memcmp(cut.p, whole.p, cut.n) != 0);
	}
	if (a.ended && a.flags == 0) {
		stuff(&wire, &whole);
		BUG_ON(frame(&b, &cut, wire.p, wire.n, 7) != wire.n);
		BUG_ON(!b.ended || b.flags != 0 || b.size != whole.n);
	}
	buf_free(&whole);
	buf_free(&cut);
	buf_free(&wire);
	return 0;
}
