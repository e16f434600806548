/* SPDX-License-Identifier: ISC */
/*
 * findings_file.c - what postern-decode lists of an archive
 * (decode/archive.h), and what in it is a reason to look
 *
 * A list may be any bytes: a line that makes no sense is passed over.
 */
#include "admin/findings.h"

#include <string.h>

#include "base/buf.h"

static bool
says(struct str path, const char *what)
{
	return memmem(path.p, path.n, what, strlen(what)) != NULL;
}

/* Where documents of Microsoft and of OpenDocument keep what runs. */
static bool
is_macro(struct str path)
{
	return says(path, "vbaProject.bin") || says(path, "macrosheets/") ||
	       says(path, "embeddings/oleObject") || says(path, "activeX/") ||
	       str_starts(path, str_lit("Basic/")) ||
	       str_starts(path, str_lit("Scripts/"));
}

static void
take_entry(struct findings *f, const char *file, struct str path)
{
	struct buf text = { 0 };
	struct str both;

	buf_printf(&text, "%s: ", file);
	buf_add_str(&text, path);
	both = buf_str(&text);
	if (finding_name_runs(path))
		findings_add(f, FINDING_FILE_INSIDE, both);
	if (finding_name_packs(path))
		findings_add(f, FINDING_FILE_UNREAD, both);
	if (finding_name_deceives(path))
		findings_add(f, FINDING_FILE_NAME, both);
	if (is_macro(path))
		findings_add(f, FINDING_FILE_MACRO, both);
	buf_free(&text);
}

size_t
findings_archive(struct findings *f, const char *file, struct str list,
    char **inside, size_t max)
{
	struct str line;
	size_t n = 0;

	while (list.n > 0) {
		line = str_split(&list, '\n');
		if (line.n < 3 || line.p[1] != ' ')
			continue;
		if (line.p[0] == 'E') {
			line.p += 2;
			line.n -= 2;
			take_entry(f, file, line);
			if (n < max)
				inside[n] = arena_str(f->mem, line);
			n++;
		} else if (str_eq(line, str_lit("S encrypted"))) {
			findings_add(f, FINDING_FILE_ENCRYPTED, str_of(file));
		} else if (str_eq(line, str_lit("S unreadable"))) {
			findings_add(f, FINDING_FILE_UNREAD, str_of(file));
		}
	}
	return n;
}
