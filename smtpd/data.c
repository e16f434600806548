/* SPDX-License-Identifier: ISC */
/*
 * data.c - five states. A CR is withheld until the next byte tells whether it
 * is part of a CRLF; a dot at the start of a line is withheld until it is
 * known not to be the end. So at most two bytes are ever behind.
 */
#include "smtpd/data.h"

#include <string.h>

enum { BODY, BODY_CR, LINE_START, DOT, DOT_CR };

#define LINE_CAP 998 /* RFC 5322 2.1.1 */

struct sink {
	unsigned char *p;
	size_t n;
};

static size_t run_length(const unsigned char *in, size_t n);
static void step(struct smtp_data *data, unsigned char c, struct sink *out);
static void after_cr(struct smtp_data *data, unsigned char c, struct sink *out);
static void end_line(struct smtp_data *data, struct sink *out);
static void plain(struct smtp_data *data, unsigned char c, struct sink *out);
static void put(struct smtp_data *data, unsigned char c, struct sink *out);
static void count(struct smtp_data *data, size_t n);

void
smtp_data_init(struct smtp_data *data)
{
	memset(data, 0, sizeof *data);
	data->state = LINE_START;
}

size_t
smtp_data_feed(struct smtp_data *data, const unsigned char *in, size_t n,
    unsigned char *out, size_t *out_n)
{
	struct sink sink = { out, 0 };
	size_t i = 0, run;

	while (i < n && !data->ended) {
		if (data->state == LINE_START && in[i] != '.')
			data->state = BODY;
		run = data->state == BODY ? run_length(in + i, n - i) : 0;
		if (run == 0) {
			step(data, in[i++], &sink);
			continue;
		}
		memcpy(sink.p + sink.n, in + i, run);
		sink.n += run;
		count(data, run);
		i += run;
		if (n - i >= 2 && in[i] == '\r' && in[i + 1] == '\n') {
			end_line(data, &sink);
			i += 2;
		}
	}
	*out_n = sink.n;
	return i;
}

/* Is one of these eight octets below 14? */
static bool
has_control(const unsigned char *in)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t eight;

	memcpy(&eight, in, sizeof(eight));
	return ((eight - ones * 14) & ~eight & ones * 128) != 0;
}

/* How many bytes have no meaning for the framing. */
static size_t
run_length(const unsigned char *in, size_t n)
{
	size_t i = 0;

	while (i < n) {
		if (n - i >= 8 && !has_control(in + i))
			i += 8;
		else if (in[i] == '\r' || in[i] == '\n' || in[i] == '\0')
			break;
		else
			i++;
	}
	return i;
}

static void
step(struct smtp_data *data, unsigned char c, struct sink *out)
{
	switch (data->state) {
	case LINE_START:
		if (c == '.')
			data->state = DOT; /* stuffed, or the end */
		else
			plain(data, c, out);
		break;
	case DOT:
		if (c == '\r')
			data->state = DOT_CR;
		else
			plain(data, c, out);
		break;
	case DOT_CR:
		if (c == '\n')
			data->ended = true;
		else
			after_cr(data, c, out);
		break;
	case BODY_CR:
		after_cr(data, c, out);
		break;
	default:
		plain(data, c, out);
		break;
	}
}

/* A CR was withheld, and `c` follows it. */
static void
after_cr(struct smtp_data *data, unsigned char c, struct sink *out)
{
	if (c == '\n') {
		end_line(data, out);
		return;
	}
	data->flags |= SMTP_DATA_BARE_CR;
	put(data, '\r', out);
	plain(data, c, out);
}

static void
end_line(struct smtp_data *data, struct sink *out)
{
	out->p[out->n++] = '\r';
	out->p[out->n++] = '\n';
	data->size += 2;
	data->line = 0;
	data->state = LINE_START;
}

static void
plain(struct smtp_data *data, unsigned char c, struct sink *out)
{
	if (c == '\r') {
		data->state = BODY_CR;
		return;
	}
	data->state = BODY;
	if (c == '\n')
		data->flags |= SMTP_DATA_BARE_LF;
	else if (c == '\0')
		data->flags |= SMTP_DATA_NUL;
	put(data, c, out);
}

static void
put(struct smtp_data *data, unsigned char c, struct sink *out)
{
	out->p[out->n++] = c;
	count(data, 1);
}

static void
count(struct smtp_data *data, size_t n)
{
	data->size += n;
	data->line += (uint32_t)n;
	if (data->line > LINE_CAP)
		data->flags |= SMTP_DATA_LONG_LINE;
}
