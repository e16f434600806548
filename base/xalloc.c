/* SPDX-License-Identifier: ISC */
#include "base/xalloc.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

_Noreturn void
xalloc_bug(const char *file, int line, const char *what)
{
	log_flush();
	(void)fprintf(stderr,
	    "{\"level\":\"error\",\"event\":\"bug\",\"file\":\"%s\","
	    "\"line\":%d,\"why\":\"%s\"}\n",
	    file, line, what);
	abort();
}

void *
xmalloc(size_t n)
{
	void *p = malloc(n != 0 ? n : 1);

	if (p == NULL)
		xalloc_bug(__FILE__, __LINE__, "out of memory");
	return p;
}

void *
xcalloc(size_t count, size_t size)
{
	void *p;

	if (count == 0 || size == 0)
		count = size = 1;
	p = calloc(count, size);
	if (p == NULL)
		xalloc_bug(__FILE__, __LINE__, "out of memory");
	return p;
}

void *
xrealloc(void *p, size_t n)
{
	p = realloc(p, n != 0 ? n : 1);
	if (p == NULL)
		xalloc_bug(__FILE__, __LINE__, "out of memory");
	return p;
}

void *
xreallocarray(void *p, size_t count, size_t size)
{
	BUG_ON(size != 0 && count > SIZE_MAX / size);
	return xrealloc(p, count * size);
}

char *
xstrdup(const char *s)
{
	return xmemdup(s, strlen(s) + 1);
}

char *
xstrndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *copy = xmalloc(len + 1);

	memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

void *
xmemdup(const void *p, size_t n)
{
	void *copy = xmalloc(n);

	if (n != 0)
		memcpy(copy, p, n);
	return copy;
}

char *
xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0)
		xalloc_bug(__FILE__, __LINE__, "out of memory");
	return s;
}
