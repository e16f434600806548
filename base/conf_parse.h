/* SPDX-License-Identifier: ISC */
/*
 * conf_parse.h - text of one option value to its field; for conf.c and tests.
 */
#ifndef BASE_CONF_PARSE_H
#define BASE_CONF_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum conf_type {
	CONF_TYPE_str,
	CONF_TYPE_path,
	CONF_TYPE_list,
	CONF_TYPE_int,
	CONF_TYPE_bool,
	CONF_TYPE_duration,
	CONF_TYPE_size,
};

/*
 * Put `text` in `field`, which has the type's C type and a valid value; for
 * lists it is appended. False with the reason in `err`, field unchanged.
 */
MUST_CHECK bool conf_parse(
    enum conf_type type, const char *text, void *field, struct err *err);
/* Give back what the field owns and make it empty. */
void conf_parse_clear(enum conf_type type, void *field);
/* The value as it would be written in the file. */
void conf_parse_print(enum conf_type type, const void *field, FILE *out);

#endif
