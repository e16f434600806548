/* SPDX-License-Identifier: ISC */
/*
 * view_second.h - pages about second factors
 */
#ifndef ADMIN_VIEW_SECOND_H
#define ADMIN_VIEW_SECOND_H

#include "admin/view.h"
#include "store/factor.h"

struct view_second {
	const char *name, *csrf, *error;
	const char *return_to; /* local path, already checked */
	bool totp, passkeys;
	int recovery; /* codes that are left */
};
/* Between the password and the pages. */
void view_second(struct buf *out, const struct view_second *second);

struct view_enrol {
	const char *secret, *link; /* for an app; the link as QR code */
	const char *error;
};
void view_enrol(struct buf *out, const struct view_shell *shell,
    const struct view_enrol *enrol);

/* Recovery codes, a line each, shown this once. */
void view_codes(
    struct buf *out, const struct view_shell *shell, const char *codes);

/* The part of the account page. */
struct view_factors {
	const struct factor_rows *rows;
	const struct factor_state *state;
};
void view_factors(struct buf *out, const struct view_shell *shell,
    const struct view_factors *view);

#endif
