/* SPDX-License-Identifier: ISC */
/*
 * view_people.h - tenants, operators, and one's own account, as pages
 */
#ifndef ADMIN_VIEW_PEOPLE_H
#define ADMIN_VIEW_PEOPLE_H

#include "admin/view.h"
#include "store/factor.h"
#include "store/people.h"

struct view_tenants {
	const struct people_tenants *tenants;
	const struct people_domains *domains;
	const char *error;
};
void view_tenants(struct buf *out, const struct view_shell *shell,
    const struct view_tenants *view);

struct view_operators {
	const struct people_operators *operators;
	const struct people_scopes *scopes;
	const struct people_tenants *tenants; /* to choose from */
	int64_t me;
	bool may; /* change them */
	const char *error;
};
void view_operators(struct buf *out, const struct view_shell *shell,
    const struct view_operators *view);

struct view_account {
	const char *roles; /* "tenant:inbox:role" lines */
	int64_t idle_us, expires_us, step_up_us;
	const struct people_sessions *sessions;
	const struct factor_rows *factors;
	const struct factor_state *state;
	const char *error;
};
void view_account(struct buf *out, const struct view_shell *shell,
    const struct view_account *account);

#endif
