/* SPDX-License-Identifier: ISC */
/*
 * freeze.c - bytes in, frozen bytes out.
 *
 * Two phases: the header section is collected, judged and written anew with
 * freeze_header(); the body then passes through unchanged while its line
 * ends are checked and structure.c follows the frozen bytes.
 */
#include "mail/freeze.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "mail/freeze_header.h"
#include "mail/header.h"
#include "mail/structure.h"

struct freeze {
	struct freeze_conf conf;
	struct address inbox;
	char *hostname, *with;
	freeze_out_fn *out;
	void *arg;
	enum err_code code;
	char why[FREEZE_WHY_MAX];
	struct freeze_info info;
	struct structure *structure;
	struct buf head; /* header bytes as submitted */
	bool in_body, has_cr; /* the last byte was a CR */
	size_t line_size; /* bytes of the current line so far */
	uint64_t taken;
};

struct freeze *
freeze_new(const struct freeze_conf *conf, freeze_out_fn *out, void *arg)
{
	struct freeze *f = xcalloc(1, sizeof(*f));

	f->conf = *conf;
	f->inbox = *conf->inbox;
	f->hostname = str_dup(conf->hostname);
	f->with = xstrdup(conf->with);
	f->conf.inbox = &f->inbox;
	f->conf.hostname = str_of(f->hostname);
	f->conf.with = f->with;
	f->out = out;
	f->arg = arg;
	f->structure = structure_new(NULL, NULL);
	return f;
}

void
freeze_free(struct freeze *f)
{
	if (f == NULL)
		return;
	structure_free(f->structure);
	buf_free(&f->head);
	buf_free(&f->info.references);
	buf_free(&f->info.rcpt);
	buf_free(&f->info.context);
	free(f->hostname);
	free(f->with);
	free(f);
}

static bool
fail(struct freeze *f, enum err_code code, const char *why)
{
	f->code = code;
	(void)snprintf(f->why, sizeof(f->why), "%s", why);
	return false;
}

/* One line, or a piece of one; `len` bytes, the last is LF if `ends`. */
static bool
piece_check(struct freeze *f, const char *p, size_t len, bool ends)
{
	const char *cr = memchr(p, '\r', len);
	bool crlf;

	if (f->has_cr && p[0] != '\n')
		return fail(f, E_MESSAGE_MALFORMED,
		    "The message has a bare CR; lines end in CRLF.");
	crlf = len >= 2 ? p[len - 2] == '\r' : f->has_cr;
	if (ends && !crlf)
		return fail(f, E_MESSAGE_MALFORMED,
		    "The message has a bare LF; lines end in CRLF.");
	if (cr != NULL && cr != p + len - (ends ? 2 : 1))
		return fail(f, E_MESSAGE_MALFORMED,
		    "The message has a bare CR; lines end in CRLF.");
	if (memchr(p, '\0', len) != NULL)
		return fail(f, E_MESSAGE_MALFORMED, "The message has a NUL.");
	f->line_size += len;
	if (f->line_size > HEADER_LINE_MAX + 1u + ends)
		return fail(
		    f, E_MESSAGE_MALFORMED, "A line is longer than 998 bytes.");
	f->has_cr = p[len - 1] == '\r';
	if (f->line_size > HEADER_LINE_MAX && !ends && !f->has_cr)
		return fail(
		    f, E_MESSAGE_MALFORMED, "A line is longer than 998 bytes.");
	if (ends)
		f->line_size = 0;
	return true;
}

static bool
bytes_check(struct freeze *f, const char *p, size_t n)
{
	const char *nl;
	size_t len;

	while (n > 0) {
		nl = memchr(p, '\n', n);
		len = nl == NULL ? n : (size_t)(nl - p) + 1;
		if (!piece_check(f, p, len, nl != NULL))
			return false;
		p += len;
		n -= len;
	}
	return true;
}

/* Frozen bytes go on, watched by the structure. */
static bool
emit(struct freeze *f, const void *p, size_t n)
{
	enum err_code code = structure_feed(f->structure, p, n);

	if (code != E_NONE)
		return fail(f, code, structure_why(f->structure));
	f->info.size += n;
	f->out(f->arg, p, n);
	return true;
}

static bool
header_done(struct freeze *f, size_t n)
{
	struct buf out = { 0 };
	struct freeze_header h = {
		.conf = &f->conf, .info = &f->info, .out = &out
	};
	bool ok = freeze_header(&h, (struct str){ (char *)f->head.p, n });

	if (!ok)
		(void)fail(f, h.code, h.why);
	ok = ok && emit(f, out.p, out.n);
	buf_free(&out);
	f->in_body = true;
	return ok;
}

static void
note_8bit(struct freeze *f, const unsigned char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n && !f->info.needs_8bit; i++)
		f->info.needs_8bit = p[i] > 127;
}

/* Collect header bytes; returns how many of `n` belong to it. */
static size_t
header_take(struct freeze *f, const char *p, size_t n)
{
	size_t from = f->head.n < 3 ? 0 : f->head.n - 3, old = f->head.n;
	const char *end;
	size_t keep = HEADER_BYTES_MAX + 4 - f->head.n;

	if (keep > n)
		keep = n;
	buf_add(&f->head, p, keep);
	if (f->head.n >= 2 && memcmp(f->head.p, "\r\n", 2) == 0) {
		(void)header_done(f, 0);
		return 2 - old;
	}
	end = memmem(f->head.p + from, f->head.n - from, "\r\n\r\n", 4);
	if (end != NULL) {
		size_t section = (size_t)(end - (char *)f->head.p) + 2;

		(void)header_done(f, section);
		return section + 2 - old;
	}
	if (f->head.n == HEADER_BYTES_MAX + 4)
		(void)fail(f, E_MESSAGE_MALFORMED,
		    "The header is larger than 100 KiB.");
	return keep;
}

enum err_code
freeze_feed(struct freeze *f, const void *p, size_t n)
{
	const char *in = p;
	size_t took;

	if (f->code != E_NONE || n == 0)
		return f->code;
	f->taken += n;
	if (f->taken > f->conf.size_max) {
		(void)fail(f, E_PAYLOAD_TOO_LARGE,
		    "The message is larger than allowed.");
		return f->code;
	}
	if (!bytes_check(f, in, n))
		return f->code;
	if (!f->in_body) {
		took = header_take(f, in, n);
		in += took;
		n -= took;
		if (f->in_body)
			buf_free(&f->head);
	}
	if (f->code == E_NONE && n > 0) {
		note_8bit(f, (const unsigned char *)in, n);
		(void)emit(f, in, n);
	}
	return f->code;
}

enum err_code
freeze_finish(struct freeze *f)
{
	enum err_code code;

	/* A last line without its end, a header without a body. */
	if (f->code == E_NONE && f->has_cr)
		(void)freeze_feed(f, "\n", 1);
	else if (f->code == E_NONE && f->line_size > 0)
		(void)freeze_feed(f, "\r\n", 2);
	if (f->code == E_NONE && !f->in_body)
		(void)header_done(f, f->head.n);
	if (f->code != E_NONE)
		return f->code;
	code = structure_finish(f->structure);
	if (code != E_NONE)
		(void)fail(f, code, structure_why(f->structure));
	f->info.parts = structure_parts(f->structure);
	f->info.attachments = structure_attachments(f->structure);
	return f->code;
}

const char *
freeze_why(const struct freeze *f)
{
	return f->why;
}

const struct freeze_info *
freeze_info(const struct freeze *f)
{
	return &f->info;
}
