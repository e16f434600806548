/* SPDX-License-Identifier: ISC */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

void
err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (err == NULL)
		return;
	err->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
}
