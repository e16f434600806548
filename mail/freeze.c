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
	struct finding_scan scan; /* follows the structure */
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
	f->structure = structure_new(finding_scan_part, &f->scan);
	structure_set_watch(f->structure, &finding_watch);
	if (!conf->smtputf8)
		structure_ascii_headers(f->structure);
	return f;
}

void
freeze_free(struct freeze *f)
{
	if (f == NULL)
		return;
	structure_free(f->structure);
	finding_scan_free(&f->scan);
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

/* What is wrong with byte `c` here; else NULL, and it is taken. */
static const char *
byte_fault(struct freeze *f, char c)
{
	if (c == '\n' && f->has_cr) {
		f->has_cr = false;
		f->line_size = 0;
		return NULL;
	}
	if (f->has_cr)
		return "The message has a bare CR; lines end in CRLF.";
	if (c == '\n')
		return "The message has a bare LF; lines end in CRLF.";
	if (c == '\0')
		return "The message has a NUL.";
	f->has_cr = c == '\r';
	if (!f->has_cr && f->line_size == HEADER_LINE_MAX)
		return "A line is longer than 998 bytes.";
	f->line_size += !f->has_cr;
	return NULL;
}

/* A line from its first byte to its LF, without NUL: any second look? */
static bool
is_clean_line(const char *p, size_t len)
{
	return len >= 2 && len <= HEADER_LINE_MAX + 2 && p[len - 2] == '\r' &&
	       memchr(p, '\r', len - 2) == NULL;
}

/*
 * How many bytes are good before one is not: then `why` is set. The result is
 * the same however the bytes are cut.
 */
static size_t
bytes_good(struct freeze *f, const char *p, size_t n, const char **why)
{
	const char *nl;
	size_t i = 0, len;
	bool has_nul = memchr(p, '\0', n) != NULL;

	while (i < n) {
		if (f->line_size == 0 && !f->has_cr && !has_nul) {
			nl = memchr(p + i, '\n', n - i);
			len = nl == NULL ? 0 : (size_t)(nl - (p + i)) + 1;
			if (nl != NULL && is_clean_line(p + i, len)) {
				i += len;
				continue;
			}
		}
		*why = byte_fault(f, p[i]);
		if (*why != NULL)
			break;
		i++;
	}
	return i;
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

/* Bytes that are good lines. */
static void
take(struct freeze *f, const char *p, size_t n)
{
	size_t took;

	if (n > 0 && !f->in_body) {
		took = header_take(f, p, n);
		p += took;
		n -= took;
		if (f->in_body)
			buf_free(&f->head);
	}
	if (f->code == E_NONE && n > 0) {
		f->info.needs_8bit =
		    f->info.needs_8bit || str_has_8bit((struct str){ p, n });
		(void)emit(f, p, n);
	}
}

/*
 * What comes first in the bytes decides, so that the outcome is the same
 * however they are cut: bytes in front of the one that is wrong, or one too
 * many, are judged before it.
 */
enum err_code
freeze_feed(struct freeze *f, const void *p, size_t n)
{
	size_t room = f->conf.size_max - f->taken, good;
	const char *why = NULL;

	if (f->code != E_NONE || n == 0)
		return f->code;
	good = bytes_good(f, p, n < room ? n : room, &why);
	f->taken += good;
	take(f, p, good);
	if (f->code != E_NONE)
		return f->code;
	if (why != NULL)
		(void)fail(f, E_MESSAGE_MALFORMED, why);
	else if (good < n)
		(void)fail(f, E_PAYLOAD_TOO_LARGE,
		    "The message is larger than allowed.");
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
	f->info.needs_smtputf8 = structure_utf8_headers(f->structure);
	f->info.parts = structure_parts(f->structure);
	f->info.attachments = structure_attachments(f->structure);
	f->info.findings.bits |= f->scan.marks.bits;
	f->info.findings_partial = f->scan.partial;
	f->info.links = f->scan.links;
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
