/* SPDX-License-Identifier: ISC */
#include "decode/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ENTRIES_MAX 500
#define PATH_MAX_BYTES 500

struct list {
	unsigned char *out;
	size_t n, cap, entries;
	bool cut;
	const unsigned char *bytes; /* not yet read, when there is no end */
	size_t left;
};

void
archive_prepare(void)
{
	/* Names in UTF-8, and no file of zones asked for later. */
	(void)setlocale(LC_CTYPE, "C.UTF-8");
	(void)setenv("TZ", "UTC0", 1);
	tzset();
}

static void
put_line(struct list *l, char letter, const char *s)
{
	size_t n = strlen(s), i;

	if (n > PATH_MAX_BYTES) {
		n = PATH_MAX_BYTES;
		while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80)
			n--;
	}
	if (l->n + n + 3 > l->cap) {
		l->cut = true;
		return;
	}
	l->out[l->n++] = (unsigned char)letter;
	l->out[l->n++] = ' ';
	for (i = 0; i < n; i++)
		l->out[l->n++] = (unsigned char)s[i] < ' ' || s[i] == 0x7f
				     ? ' '
				     : (unsigned char)s[i];
	l->out[l->n++] = '\n';
}

/* The kinds that mail carries; none that starts a program. */
static struct archive *
reader(void)
{
	struct archive *a = archive_read_new();

	if (a == NULL)
		return NULL;
	archive_read_support_format_zip(a);
	archive_read_support_format_tar(a);
	archive_read_support_format_7zip(a);
	archive_read_support_format_rar(a);
	archive_read_support_format_rar5(a);
	archive_read_support_format_cab(a);
	archive_read_support_format_lha(a);
	archive_read_support_format_iso9660(a);
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_bzip2(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_zstd(a);
	return a;
}

static la_ssize_t
read_some(struct archive *a, void *arg, const void **p)
{
	struct list *l = arg;
	size_t n = l->left;

	(void)a;
	*p = l->bytes;
	l->left = 0;
	return (la_ssize_t)n;
}

static void
list_all(struct list *l, struct archive *a)
{
	struct archive_entry *e;
	bool encrypted = false;
	const char *path;
	int rc = ARCHIVE_OK;

	while (l->entries < ENTRIES_MAX) {
		rc = archive_read_next_header(a, &e);
		if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
			break;
		encrypted |= archive_entry_is_encrypted(e) != 0;
		path = archive_entry_pathname_utf8(e);
		put_line(l, 'E', path != NULL ? path : "?");
		l->entries++;
	}
	l->cut |= l->entries == ENTRIES_MAX;
	if (encrypted || archive_read_has_encrypted_entries(a) > 0)
		put_line(l, 'S', "encrypted");
	if (rc != ARCHIVE_EOF && l->entries < ENTRIES_MAX)
		put_line(l, 'S', "unreadable");
}

size_t
archive_report(unsigned char *out, size_t cap, const void *bytes, size_t n,
    bool more, bool *cut)
{
	struct list l = { .out = out, .cap = cap, .bytes = bytes, .left = n };
	struct archive *a = reader();
	int rc = ARCHIVE_FATAL;

	if (a != NULL)
		rc = more ? archive_read_open(a, &l, NULL, read_some, NULL)
			  : archive_read_open_memory(a, bytes, n);
	if (rc == ARCHIVE_OK || rc == ARCHIVE_WARN)
		list_all(&l, a);
	else
		put_line(&l, 'S', "unreadable");
	if (a != NULL)
		archive_read_free(a);
	*cut = l.cut || more;
	return l.n;
}
