/* SPDX-License-Identifier: ISC */
/*
 * freeze_header.h - the rules of freeze.c for the header section: who it may
 * be from, what may stand once, what is removed and added.
 */
#ifndef MAIL_FREEZE_HEADER_H
#define MAIL_FREEZE_HEADER_H

#include <stdbool.h>

#include "mail/freeze.h"

#define FREEZE_WHY_MAX 201

struct freeze_header {
	const struct freeze_conf *conf;
	struct freeze_info *info; /* filled */
	struct buf *out; /* the frozen header with its empty line */
	enum err_code code; /* when refused */
	char why[FREEZE_WHY_MAX];
};

/* `section` without the empty line. */
bool freeze_header(struct freeze_header *f, struct str section);

#endif
