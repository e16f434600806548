/* SPDX-License-Identifier: ISC */
/*
 * Whatever a filter says: a verdict and a note that is printable and ends.
 * The configuration of filters and the parameters of an envelope go along.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "base/xalloc.h"
#include "mail/envelope.h"
#include "milter/internal.h"

static void
hear_all(struct str in, bool ready)
{
	struct milter m = { .ready = ready, .expected = 3, .patience = 2 };
	struct milter_packet packet;
	size_t i;
	long n;

	while ((n = milter_packet_take(&packet, in)) > 0) {
		BUG_ON((size_t)n > in.n || packet.data.n + 5 != (size_t)n);
		if (!milter_hear(&m, &packet))
			break;
		in.p += n;
		in.n -= (size_t)n;
	}
	BUG_ON(memchr(m.result.note, '\0', MILTER_NOTE_MAX) == NULL);
	for (i = 0; m.result.note[i] != '\0'; i++)
		BUG_ON(m.result.note[i] < ' ' || m.result.note[i] > '~');
}

/* What was read, written again, reads the same. */
static void
params(struct str text)
{
	struct envelope_params a, b;
	struct buf out = { 0 };

	if (envelope_params_read(&a, text)) {
		envelope_params_write(&out, &a, NULL, NULL, 0);
		BUG_ON(!envelope_params_read(&b, buf_str(&out)));
		BUG_ON(a.ret != b.ret || a.smtputf8 != b.smtputf8 ||
		       a.require_tls != b.require_tls);
	}
	(void)envelope_notify_of(text, str_lit("a@b.example"));
	buf_free(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct str in = { (const char *)p, n };
	struct milter_conf conf;
	const char *why;

	hear_all(in, true);
	hear_all(in, false);
	params(in);
	if (milter_conf_parse(&conf, in, &why))
		BUG_ON(conf.timeout_ms == 0 || conf.addr_len == 0);
	return 0;
}
