/* SPDX-License-Identifier: ISC */
/* A token that parses is written again as exactly the same text. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "base/xalloc.h"
#include "seal/key.h"

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char text[SEAL_TOKEN_MAX];
	struct seal_token t;

	if (seal_token_parse(&t, (struct str){ (const char *)p, n })) {
		seal_token_format(text, &t);
		BUG_ON(strlen(text) != n || memcmp(text, p, n) != 0);
	}
	return 0;
}
