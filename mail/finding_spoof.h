/* SPDX-License-Identifier: ISC */
/*
 * finding_spoof.h - domains that look alike in any script; needs icu-i18n.
 */
#ifndef MAIL_FINDING_SPOOF_H
#define MAIL_FINDING_SPOOF_H

#include <stdbool.h>

struct finding_spoof;

/* NULL when ICU has no data for it. */
struct finding_spoof *finding_spoof_new(void);
/* NULL is fine. */
void finding_spoof_free(struct finding_spoof *s);
/* Two lower A-labels that are not the same but look it? */
bool finding_spoof_like(
    const struct finding_spoof *s, const char *a, const char *b);
/* How an A-label reads, when that is not how it is written. */
bool finding_domain_reads(char out[256], const char *domain);

#endif
