/* SPDX-License-Identifier: ISC */
/*
 * page_findings.c - from all that was gathered of a message to the reasons to
 * look that its page lists
 */
#include "admin/page_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/words.h"
#include "base/buf.h"
#include "base/codec.h"
#include "base/xalloc.h"
#include "mail/address.h"
#include "policy/vocabulary.h"
#include "seal/note.h"

#define INSIDE_MAX 12 /* names of an archive that are listed */
#define NOTES_MAX 8 /* reasons that are no findings */

/* ---- finding */

static void
note_domain(struct findings *f, const char *address)
{
	const char *at = strrchr(address, '@');

	if (at != NULL)
		findings_domain(f, str_of(at + 1));
}

/* Its domain is compared with all others later. */
static void
add_reply(void *arg, enum finding f, struct str what)
{
	if (f == FINDING_REPLY_DOMAIN || f == FINDING_REPLY_MAILBOX)
		findings_add(arg, f, what);
}

static void
look_at_reply(struct message_page *mp)
{
	struct str rest = { "", 0 };
	struct address reply, own;

	if (mp->read.replies != NULL)
		rest = str_of(mp->read.replies);
	if (address_parse(&own, str_of(mp->m.address)) != ADDRESS_OK)
		return;
	while (rest.n > 0) {
		if (address_parse(&reply, str_split(&rest, '\n')) != ADDRESS_OK)
			continue;
		finding_search_reply(
		    &reply, &own, add_reply, &mp->read.findings);
		note_domain(&mp->read.findings, reply.canonical);
	}
}

static void
look_at_rcpts(struct message_page *mp)
{
	struct findings *f = &mp->read.findings;
	struct str rest = str_of(mp->m.rcpts), one;
	size_t i, known = 0;

	for (i = 0; rest.n > 0; i++) {
		one = str_split(&rest, '\n');
		if (i < strlen(mp->m.kinds) && mp->m.kinds[i] == 'o')
			continue;
		(void)str_split(&one, '@');
		findings_domain(f, one);
	}
	if (i >= FINDING_MANY)
		findings_add(f, FINDING_RCPT_MANY, (struct str){ "", 0 });
	for (known = 0; known < mp->known.n; known++) {
		const struct review_knows *k = &mp->known.row[known];
		const char *address;

		if (k->ix < 1 || (size_t)k->ix > mp->rcpts.n)
			continue;
		address = mp->rcpts.row[k->ix - 1].address;
		if (!k->by_any)
			findings_add(f, FINDING_DOMAIN_NEW,
			    str_of(strrchr(address, '@') + 1));
		else if (!k->by_inbox)
			findings_add(f, FINDING_RCPT_NEW, str_of(address));
	}
}

static void
look_at_volume(struct message_page *mp)
{
	const struct review_volume *v = &mp->volume;
	char line[120];

	if (!finding_volume_odd(v->recent, v->past, v->hours))
		return;
	(void)snprintf(line, sizeof(line),
	    "%" PRId64 " in 24 hours; in the %" PRId64 " days before, %" PRId64,
	    v->recent, v->hours / 24, v->past);
	findings_add(&mp->read.findings, FINDING_VOLUME, str_of(line));
}

static void
look_at_headers(struct message_page *mp)
{
	struct message_read *r = &mp->read;
	size_t i;

	findings_header(&r->findings, r->subject);
	findings_header(&r->findings, r->from);
	findings_header(&r->findings, r->reply_to);
	for (i = 0; i < r->named_count; i++)
		findings_header(&r->findings, r->named[i].name);
	if (foreign_words_left(&r->foreign))
		findings_add(
		    &r->findings, FINDING_HEADER_UNREAD, (struct str){ 0 });
	if (r->problem != NULL)
		findings_add(
		    &r->findings, FINDING_STRUCTURE, str_of(r->problem));
}

/* Was all of it read? NULL: it needed no help. */
static bool
is_whole(const struct foreign_text *t)
{
	return t == NULL ||
	       (t->is_answered && t->outcome == HELPER_TEXT && !t->cut);
}

static bool
has_alternatives(const struct message_read *r)
{
	size_t i;

	for (i = 0; i < r->list.count; i++)
		if (strcmp(r->list.part[i].type, "multipart/alternative") == 0)
			return true;
	return false;
}

static void
look_at_page(struct findings *f, const struct foreign_text *page,
    struct buf *shown, struct links *links)
{
	findings_add(f, FINDING_HTML, (struct str){ 0 });
	if (page == NULL || !is_whole(page))
		findings_add(f, FINDING_TEXT_UNREAD, str_lit("HTML"));
	if (page == NULL || !page->is_answered)
		return;
	findings_html(f, page->text, shown);
	links_html(links, page->text);
}

static void
look_at_texts(struct message_page *mp)
{
	struct message_read *r = &mp->read;
	struct findings *f = &r->findings;
	struct buf plain = { 0 }, html = { 0 };
	size_t i;

	mp->links.mem = &r->mem;
	for (i = 0; i < r->part_count; i++) {
		if (!is_whole(r->part_texts[i]))
			findings_add(f, FINDING_TEXT_UNREAD,
			    r->part_texts[i]->request.charset);
		if (r->parts[i].code)
			look_at_page(f, r->part_pages[i], &html, &mp->links);
		else
			buf_add(&plain, r->parts[i].text, r->parts[i].text_n);
	}
	links_text(&mp->links, buf_str(&plain));
	if (has_alternatives(r))
		findings_compare_texts(f, buf_str(&plain), buf_str(&html));
	r->plain = (struct str){ arena_str(&r->mem, buf_str(&plain)), plain.n };
	r->shown = (struct str){ arena_str(&r->mem, buf_str(&html)), html.n };
	buf_free(&plain);
	buf_free(&html);
}

static void
look_into_files(struct message_page *mp)
{
	struct message_read *r = &mp->read;
	size_t i, n;

	for (i = 0; i < r->file_count; i++) {
		const struct foreign_text *list = r->file_lists[i];
		struct view_file *file = &r->files[i];

		if (list == NULL && strstr(file->sniffed, "archive") == NULL)
			continue;
		if (list == NULL || !is_whole(list))
			findings_add(&r->findings, FINDING_FILE_UNREAD,
			    str_of(file->name));
		if (list == NULL || !list->is_answered ||
		    list->outcome != HELPER_TEXT)
			continue;
		file->inside =
		    arena_array(&r->mem, INSIDE_MAX, sizeof(*file->inside));
		n = findings_archive(&r->findings, file->name, list->text,
		    file->inside, INSIDE_MAX);
		file->inside_count = n < INSIDE_MAX ? n : INSIDE_MAX;
		file->inside_more = n - file->inside_count;
	}
}

static const struct mime_part *
parent_of(const struct mime_list *list, const struct mime_part *p)
{
	size_t i;

	for (i = 0; i < list->count; i++)
		if (list->part[i].ix == p->parent)
			return &list->part[i];
	return p;
}

/*
 * Is it what a program may choose to show in place of the text: one of several
 * alternatives, or what one of these begins with?
 */
static bool
is_alternative(const struct mime_list *list, const struct mime_part *p)
{
	const struct mime_part *up;

	for (; (up = parent_of(list, p)) != p; p = up) {
		if (strcmp(up->type, "multipart/alternative") == 0)
			return true;
		if (p->ix != up->ix + 1)
			return false;
	}
	return false;
}

static void
look_at_parts(struct message_page *mp)
{
	struct message_read *r = &mp->read;
	struct findings *f = &r->findings;
	size_t i;

	for (i = 0; i < r->file_count; i++)
		if (r->files[i].mismatch)
			findings_add(
			    f, FINDING_FILE_MISMATCH, str_of(r->files[i].name));
	for (i = 0; i < r->list.count; i++) {
		const struct mime_part *p = &r->list.part[i];

		if ((p->kind == MIME_MESSAGE || p->kind == MIME_LEAF) &&
		    !mime_part_is_text(p) && is_alternative(&r->list, p))
			findings_add(f, FINDING_PARTS_OTHER, str_of(p->type));
		if (p->kind == MIME_MESSAGE)
			findings_add(
			    f, FINDING_FILE_MESSAGE, str_of(p->filename));
		else if (p->kind == MIME_PREAMBLE || p->kind == MIME_EPILOGUE)
			findings_add(f, FINDING_STRAY_TEXT, (struct str){ 0 });
		else if (p->kind == MIME_LEAF && !mime_part_is_text(p) &&
			 (p->content_id[0] == '\0' ||
			     strncmp(p->type, "image/", 6) != 0))
			findings_add(f, FINDING_FILE, (struct str){ 0 });
	}
}

/* ---- what filters said when it was submitted */

static void
add_filter_line(struct findings *f, struct str line)
{
	struct str code = str_split(&line, '\t');
	int i;

	for (i = 0; i < FINDING_COUNT; i++)
		if (str_eq(code, str_of(finding_code(i))))
			findings_add(f, i, line);
}

/* Sealed in the context, see store/submit_row.c. */
static void
look_at_filters(struct message_page *mp)
{
	struct findings *f = &mp->read.findings;
	json_t *context = json_loads(mp->m.context, 0, NULL);
	const char *text =
	    json_string_value(json_object_get(context, "_filters"));
	struct buf note = { 0 };
	struct str rest;
	char *sealed;
	size_t n = text != NULL ? strlen(text) : 0;

	if (mp->open.message_key.n == 0)
		n = 0; /* the page says so elsewhere */
	sealed = xmalloc(n + 1);
	if (n > 0 && base64_decode(sealed, &n, text, n) &&
	    seal_note_open(
		&note, &mp->open.message_key, (struct str){ sealed, n })) {
		rest = buf_str(&note);
		while (rest.n > 0)
			add_filter_line(f, str_split(&rest, '\n'));
	} else if (n > 0) {
		findings_add(f, FINDING_FILTER_SILENT,
		    str_lit("what filters said does not open"));
	}
	buf_free(&note);
	free(sealed);
	json_decref(context);
}

void
page_findings_fill(struct page *page)
{
	struct message_page *mp = page->mine;
	struct str own = str_of(mp->m.address);

	look_at_reply(mp);
	look_at_rcpts(mp);
	look_at_volume(mp);
	look_at_headers(mp);
	look_at_texts(mp);
	look_into_files(mp);
	look_at_parts(mp);
	look_at_filters(mp);
	mp->view.links = &mp->links;
	(void)str_split(&own, '@');
	findings_compare_domains(&mp->read.findings, own);
}

/* ---- showing */

static void
add_note(struct view_message *view, struct view_reason *row, int weight,
    const char *text)
{
	row[view->reason_count++] =
	    (struct view_reason){ .text = text, .weight = weight };
}

/* What the machine itself knows: always first. */
static void
add_notes(
    struct message_page *mp, struct view_message *view, struct view_reason *row)
{
	if (mp->open.problem != NULL)
		add_note(view, row, 2, mp->open.problem);
	else if (mp->is_open && !mp->digest_ok)
		add_note(view, row, 2,
		    "The fingerprint does not fit what the database says. "
		    "Somebody changed it. Only reject is possible.");
	if (mp->m.integrity[0] != '\0')
		add_note(view, row, 2,
		    "The relay found that bytes, recipients or release had "
		    "been changed and gave it back.");
	if (mp->m.round > 1)
		add_note(view, row, 0,
		    "It was approved before and came back (see History).");
	if (mp->m.edited)
		add_note(view, row, 1, "It was edited by an operator.");
}

static void
add_finding(struct view_message *view, struct view_reason *row, enum finding f,
    const struct findings_of *of)
{
	row[view->reason_count++] = (struct view_reason){
		.text = finding_text(f),
		.weight = (int)words_risk(finding_weight(f)),
		.details = of->detail,
		.detail_count = of->details,
		.more = of->count - of->details,
	};
}

void
page_findings_show(struct page *page)
{
	struct message_page *mp = page->mine;
	struct view_message *view = &mp->view;
	const struct findings *f = &mp->read.findings;
	struct view_reason *row =
	    arena_array(&page->mem, FINDING_COUNT + NOTES_MAX, sizeof(*row));
	int weight, i;

	add_notes(mp, view, row);
	for (weight = 100; weight > 0; weight--)
		for (i = 0; i < FINDING_COUNT; i++)
			if (finding_weight(i) == weight &&
			    finding_marked(&f->marks, i))
				add_finding(view, row, i, &f->of[i]);
	view->reasons = row;
}
