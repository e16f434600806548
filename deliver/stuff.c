/* SPDX-License-Identifier: ISC */
/* stuff.c - copies runs; only a dot at the beginning of a line adds a byte. */
#include "deliver/stuff.h"

#include <event2/buffer.h>

/* Does byte `c` keep the text well formed? Moves the state over it. */
static bool
step(struct stuff *s, char c)
{
	if (c == '\0' || (c == '\n') != s->cr)
		return false;
	s->cr = c == '\r';
	s->mid_line = c != '\n';
	return true;
}

bool
stuff_add(struct stuff *s, struct evbuffer *out, const char *p, size_t n)
{
	size_t from = 0, i;

	for (i = 0; i < n; i++) {
		if (p[i] == '.' && !s->mid_line) {
			evbuffer_add(out, p + from, i - from);
			evbuffer_add(out, ".", 1);
			from = i;
		}
		if (!step(s, p[i]))
			return false;
		/* In the midst of a line most octets are neither of those. */
		while (s->mid_line && !s->cr && i + 1 < n &&
		       (unsigned char)p[i + 1] > '\r')
			i++;
	}
	evbuffer_add(out, p + from, n - from);
	return true;
}

bool
stuff_is_complete(const struct stuff *s)
{
	return !s->mid_line && !s->cr;
}
