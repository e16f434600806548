/* SPDX-License-Identifier: ISC */
/*
 * assets.h - style, script and icon, inside the program
 */
#ifndef ADMIN_ASSETS_H
#define ADMIN_ASSETS_H

#include <stddef.h>

struct admin_asset {
	const char *name; /* app.<hash>.css */
	const char *type;
	const unsigned char *p;
	size_t n;
	const unsigned char *gz;
	size_t gz_n;
};

extern const struct admin_asset admin_assets[];
extern const size_t admin_assets_n;

#endif
