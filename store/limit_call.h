/* SPDX-License-Identifier: ISC */
/*
 * limit_call.h - the windows, and the words of a call of store/postern.lua.
 */
#ifndef STORE_LIMIT_CALL_H
#define STORE_LIMIT_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "store/limit.h"

struct limit_shape {
	const char *name;
	const char *shape; /* as postern.lua reads it */
	unsigned seconds;
};

extern const struct limit_shape limit_shapes[LIMIT_WINDOWS];

#define LIMIT_GROUP_MAX 16 /* charges of one call */
#define LIMIT_WORDS (8 + LIMIT_WINDOWS + LIMIT_GROUP_MAX * (4 + LIMIT_WINDOWS))

/* Arguments of one FCALL: short texts that live as long as the call. */
struct limit_call {
	struct str arg[LIMIT_WORDS];
	char text[LIMIT_WORDS][48];
	size_t n;
};

void limit_call_begin(struct limit_call *f, const char *function, size_t keys);
void limit_call_key(struct limit_call *f, const struct limit_inbox *in);
void limit_call_windows(struct limit_call *f);
void limit_call_number(struct limit_call *f, int64_t v);
void limit_call_cost(struct limit_call *f, const struct limit_cost *cost);
void limit_call_limits(struct limit_call *f, const struct limit_inbox *in);

#endif
