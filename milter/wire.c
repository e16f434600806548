/* SPDX-License-Identifier: ISC */
#include "milter/wire.h"

#include <string.h>

long
milter_packet_take(struct milter_packet *out, struct str in)
{
	const unsigned char *p = (const unsigned char *)in.p;
	uint32_t n;

	if (in.n < 4)
		return 0;
	n = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
	    p[3];
	if (n == 0 || n > MILTER_REPLY_MAX)
		return -1;
	if (in.n < 4 + (size_t)n)
		return 0;
	out->letter = in.p[4];
	out->data = (struct str){ in.p + 5, n - 1 };
	return 4 + (long)n;
}

bool
milter_text_take(struct str *data, struct str *out)
{
	const char *end = data->n > 0 ? memchr(data->p, '\0', data->n) : NULL;

	if (end == NULL)
		return false;
	*out = (struct str){ data->p, (size_t)(end - data->p) };
	data->n -= out->n + 1;
	data->p = end + 1;
	return true;
}

bool
milter_u32_take(struct str *data, uint32_t *out)
{
	const unsigned char *p = (const unsigned char *)data->p;

	if (data->n < 4)
		return false;
	*out = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
	data->p += 4;
	data->n -= 4;
	return true;
}

size_t
milter_packet_begin(struct buf *out, char letter)
{
	size_t at = out->n;

	buf_add(out, "\0\0\0\0", 4);
	buf_putc(out, letter);
	return at;
}

void
milter_packet_end(struct buf *out, size_t at)
{
	size_t n = out->n - at - 4;
	unsigned char *p = out->p + at;

	p[0] = (unsigned char)(n >> 24);
	p[1] = (unsigned char)(n >> 16);
	p[2] = (unsigned char)(n >> 8);
	p[3] = (unsigned char)n;
}

void
milter_text_put(struct buf *out, struct str text)
{
	size_t i;

	for (i = 0; i < text.n; i++)
		if (text.p[i] != '\0')
			buf_putc(out, text.p[i]);
	buf_putc(out, '\0');
}
