/* SPDX-License-Identifier: ISC */
/*
 * finding_spoof.c - domains that look alike in any script (UTS 39), by ICU.
 *
 * Apart from finding_domain.c because its tables are large and slow to load:
 * only who opens messages links it.
 */
#include "mail/finding_spoof.h"

#include <stdlib.h>
#include <string.h>

#include <idn2.h>
#include <unicode/uspoof.h>

#include "base/xalloc.h"

struct finding_spoof {
	USpoofChecker *checker;
};

struct finding_spoof *
finding_spoof_new(void)
{
	struct finding_spoof *s = xcalloc(1, sizeof(*s));
	UErrorCode err = U_ZERO_ERROR;

	s->checker = uspoof_open(&err);
	if (U_FAILURE(err)) {
		free(s);
		return NULL;
	}
	return s;
}

void
finding_spoof_free(struct finding_spoof *s)
{
	if (s == NULL)
		return;
	uspoof_close(s->checker);
	free(s);
}

/* How a domain reads, U-labels and all, as its skeleton. */
static bool
skeleton(const struct finding_spoof *s, const char *domain, char out[1024])
{
	UErrorCode err = U_ZERO_ERROR;
	char *wide = NULL;
	int32_t n;

	if (idn2_to_unicode_8z8z(domain, &wide, IDN2_NO_TR46) != IDN2_OK)
		return false;
	n = uspoof_getSkeletonUTF8(s->checker, 0, wide, -1, out, 1024, &err);
	idn2_free(wide);
	return U_SUCCESS(err) && n > 0 && n < 1024;
}

bool
finding_spoof_like(const struct finding_spoof *s, const char *a, const char *b)
{
	char x[1024], y[1024];

	return strcmp(a, b) != 0 && skeleton(s, a, x) && skeleton(s, b, y) &&
	       strcmp(x, y) == 0;
}

bool
finding_domain_reads(char out[256], const char *domain)
{
	char *wide = NULL;
	bool ok;

	if (strstr(domain, "xn--") == NULL ||
	    idn2_to_unicode_8z8z(domain, &wide, IDN2_NO_TR46) != IDN2_OK)
		return false;
	ok = strlen(wide) < 256 && strcmp(wide, domain) != 0;
	if (ok)
		memcpy(out, wide, strlen(wide) + 1);
	idn2_free(wide);
	return ok;
}
