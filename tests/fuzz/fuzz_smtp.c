/* SPDX-License-Identifier: ISC */
/* Views of a command lie inside its line. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "smtpd/parse.h"

static void
inside(struct str view, const uint8_t *p, size_t n)
{
	const uint8_t *at = (const uint8_t *)view.p;

	BUG_ON(view.n > 0 && (at < p || at + view.n > p + n));
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct smtp_command cmd;
	struct str a, b, c;
	unsigned char *out;
	size_t got;

	smtp_command_parse(&cmd, (const char *)p, n);
	BUG_ON(cmd.verb >= SMTP_VERBS);
	inside(cmd.line, p, n);
	inside(cmd.arg, p, n);
	inside(cmd.path, p, n);
	inside(cmd.mechanism, p, n);
	inside(cmd.initial, p, n);
	out = xmalloc(n + 4);
	if (smtp_base64_decode(
		(struct str){ (const char *)p, n }, out, n + 4, &got))
		BUG_ON(got > n);
	free(out);
	(void)smtp_plain_parse(p, n, &a, &b, &c);
	(void)smtp_xtext_is_valid((struct str){ (const char *)p, n });
	return 0;
}
