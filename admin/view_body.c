/* SPDX-License-Identifier: ISC */
/*
 * view_body.c - what the message says
 *
 * Text comes first because it is what can be shown faithfully; there HTML is
 * shown as its source. Nothing a message names is ever fetched.
 */
#include "admin/view.h"

#include "admin/diff.h"
#include "admin/html.h"
#include "admin/view_message.h"
#include "base/buf.h"

static void
put_tab(struct buf *out, const struct view_message *m, enum view_tab tab,
    struct html_piece query, struct html_piece label)
{
	HTML(out, LIT("<a href=\"/m/"), PATH(m->id), query);
	if (m->why != NULL)
		HTML(out, LIT("&amp;why="), PATH(m->why));
	HTML(out, LIT("#what\""),
	    LIT_IF(m->tab == tab, " aria-current=\"true\""), LIT(">"), label,
	    LIT("</a>"));
}

static void
put_tabs(struct buf *out, const struct view_message *m)
{
	HTML(out, LIT("<nav class=\"tabs\" aria-label=\"Form\">"));
	put_tab(out, m, VIEW_TAB_TEXT, LIT("?view=text"), LIT("Text"));
	if (m->has_html)
		put_tab(out, m, VIEW_TAB_HTML, LIT("?view=html"), LIT("HTML"));
	if (m->has_html && m->has_text)
		put_tab(
		    out, m, VIEW_TAB_DIFF, LIT("?view=diff"), LIT("Text/HTML"));
	if (m->revises_known)
		put_tab(out, m, VIEW_TAB_REVISED, LIT("?view=revised"),
		    LIT("Changes"));
	put_tab(out, m, VIEW_TAB_HEADERS, LIT("?view=headers"), LIT("Headers"));
	put_tab(out, m, VIEW_TAB_RAW, LIT("?view=raw"), LIT("Raw"));
	HTML(out, LIT("</nav>"));
}

static void
put_why(struct buf *out, const struct view_message *m)
{
	if (m->why != NULL)
		HTML(out, LIT("?why="), PATH(m->why));
}

/* How much of each text is shown, for all of them to fit. */
static size_t
text_room(const struct view_message *m)
{
	size_t room = VIEW_TEXT_MAX, all, i;

	do {
		all = 0;
		for (i = 0; i < m->part_count; i++)
			all += m->parts[i].text_n < room ? m->parts[i].text_n
							 : room;
		if (all > VIEW_TEXT_MAX)
			room /= 2;
	} while (all > VIEW_TEXT_MAX);
	return room;
}

/* Not within a character. */
static size_t
shown_of(const struct view_part *part, size_t room)
{
	size_t n = part->text_n;

	if (n <= room)
		return n;
	for (n = room; n > room - 4; n--)
		if (((unsigned char)part->text[n] & 0xc0) != 0x80)
			return n;
	return room;
}

static void
put_cut(
    struct buf *out, const struct view_message *m, const struct view_part *part)
{
	HTML(out, LIT("<p class=\"cut\">The text goes on. <a href=\"/m/"),
	    PATH(m->id), LIT("/file/"), NUM(part->index));
	put_why(out, m);
	HTML(out, LIT("\" download>Download this part</a> to read all of it."
		      "</p>"));
}

static void
put_part(struct buf *out, const struct view_message *m,
    const struct view_part *part, size_t room)
{
	const size_t n = shown_of(part, room);

	if (m->part_count > 1 || part->code)
		HTML(out, LIT("<h3>"), TEXT(part->label),
		    LIT(" <span class=\"muted\">"), TEXT(part->type),
		    LIT("</span></h3>"));
	if (part->problem != NULL)
		HTML(out, LIT("<p class=\"refusal\">"), TEXT(part->problem),
		    LIT("</p>"));
	if (n == 0 && part->problem == NULL) {
		HTML(out, LIT("<p class=\"muted\">This part is empty.</p>"));
		return;
	}
	if (part->code)
		HTML(out, LIT("<pre class=\"code\" tabindex=\"0\" "
			      "aria-label=\"Source\">"));
	else
		HTML(out, LIT("<div class=\"prose\" dir=\"auto\">"));
	HTML(out, LINESN(part->text, n));
	if (part->code)
		HTML(out, LIT("</pre>"));
	else
		HTML(out, LIT("</div>"));
	if (part->cut || n < part->text_n)
		put_cut(out, m, part);
}

static void
put_text(struct buf *out, const struct view_message *m)
{
	const size_t room = text_room(m);
	size_t i;

	if (m->part_count == 0 && m->body_problem == NULL)
		HTML(out,
		    LIT("<p class=\"muted\">The message has no text.</p>"));
	if (room < VIEW_TEXT_MAX)
		HTML(out, LIT("<p class=\"refusal\">Its "), NUM(m->part_count),
		    LIT(" texts are too much for one page: of each only the "
			"first "),
		    NUM(room), LIT(" bytes are shown.</p>"));
	for (i = 0; i < m->part_count; i++)
		put_part(out, m, &m->parts[i], room);
}

/*
 * HTML as a browser shows it: a document of its own, with its own policy, in
 * a sandbox that runs, fetches and opens nothing.
 */
static void
put_frame(struct buf *out, const struct view_message *m)
{
	if (!m->has_html) {
		HTML(out, LIT("<p class=\"muted\">The message has no HTML."
			      "</p>"));
		return;
	}
	HTML(out,
	    LIT("<iframe class=\"mail\" id=\"mail\" sandbox "
		"referrerpolicy=\"no-referrer\" title=\"HTML of the message\" "
		"src=\"/m/"),
	    PATH(m->id), LIT("/html"));
	put_why(out, m);
	HTML(out,
	    LIT("\"></iframe><p class=\"small muted\">Pictures that would be "
		"fetched are left out, and links do nothing here. What the "
		"HTML names is listed under Links, and is in its source under "
		"“Text”.</p>"));
	if (m->html_cut)
		HTML(out, LIT("<p class=\"cut\">It goes on. Download the "
			      "message for all of it.</p>"));
}

static void
put_runs(struct buf *out, const struct diff *diff)
{
	size_t i;

	HTML(out, LIT("<div class=\"prose\" id=\"diff\" dir=\"auto\">"));
	for (i = 0; i < diff->n; i++) {
		const struct diff_run *run = &diff->run[i];

		switch (run->side) {
		case DIFF_BOTH:
			HTML(out, LINESN(run->text.p, run->text.n), LIT(" "));
			break;
		case DIFF_ONLY_A:
			HTML(out, LIT("<del>"),
			    LINESN(run->text.p, run->text.n), LIT("</del> "));
			break;
		case DIFF_ONLY_B:
			HTML(out, LIT("<ins>"),
			    LINESN(run->text.p, run->text.n), LIT("</ins> "));
			break;
		}
	}
	HTML(out, LIT("</div>"));
	if (diff->n == 0)
		HTML(out, LIT("<p class=\"muted\">Neither can be read.</p>"));
	if (diff->cut)
		HTML(out, LIT("<p class=\"cut\">Only the first 1,500 words of "
			      "each are compared.</p>"));
}

static void
put_diff(struct buf *out, const struct view_message *m)
{
	HTML(out, LIT("<p class=\"legend\"><span class=\"del\">only in the text"
		      "</span> <span class=\"ins\">only in the HTML</span>"
		      "</p>"));
	put_runs(out, m->diff);
}

static void
put_revised(struct buf *out, const struct view_message *m)
{
	HTML(out, LIT("<p class=\"legend\"><span class=\"del\">only in the "
		      "earlier one</span> <span class=\"ins\">only in this "
		      "one</span></p>"));
	if (m->revises_problem != NULL)
		HTML(out, LIT("<p class=\"refusal\">"),
		    TEXT(m->revises_problem), LIT("</p>"));
	else if (m->revised != NULL)
		put_runs(out, m->revised);
}

static void
put_headers(struct buf *out, const struct view_message *m)
{
	size_t i;

	HTML(out, LIT("<dl class=\"headers\">"));
	for (i = 0; i < m->header_count; i++) {
		HTML(out, LIT("<dt>"), TEXT(m->headers[i].name),
		    LIT("</dt><dd><bdi>"), TEXT(m->headers[i].value),
		    LIT("</bdi>"));
		if (m->headers[i].differs)
			HTML(out, LIT(" <span class=\"chip\">encoded</span>"));
		HTML(out, LIT("</dd>"));
	}
	HTML(out, LIT("</dl>"));
}

static void
put_raw(struct buf *out, const struct view_message *m)
{
	HTML(out,
	    LIT("<pre class=\"code\" id=\"raw\" tabindex=\"0\" "
		"aria-label=\"Raw message\">"),
	    LINESN(m->raw, m->raw_n), LIT("</pre>"));
	if (m->raw_cut)
		HTML(out, LIT("<p class=\"cut\">Only the first part is shown. "
			      "Download the message for all of it.</p>"));
}

/* A decided message opens only for a reason, which is recorded. */
static void
put_ask_why(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	HTML(out,
	    LIT("<section class=\"panel\" id=\"what\"><h2>Content</h2>"
		"<form method=\"post\" class=\"stack\" action=\"/m/"),
	    PATH(m->id), LIT("/open\">"));
	view_part_csrf(out, shell);
	HTML(out,
	    LIT("<label>Why do you open it? <small class=\"muted\">The message "
		"is decided: opening it is recorded with your name.</small>"
		"<input name=\"why\" required maxlength=\"200\"></label>"
		"<p><button>Open</button></p></form></section>"));
}

void
view_message_body(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	if (m->ask_why) {
		put_ask_why(out, shell, m);
		return;
	}
	HTML(out, LIT("<section class=\"panel\" id=\"what\"><div "
		      "class=\"panel-head\">"
		      "<h2 class=\"vh\">Content</h2>"));
	put_tabs(out, m);
	HTML(out, LIT("</div>"));
	if (m->body_problem != NULL)
		HTML(out, LIT("<p class=\"refusal\">"), TEXT(m->body_problem),
		    LIT("</p>"));
	switch (m->tab) {
	case VIEW_TAB_TEXT:
		put_text(out, m);
		break;
	case VIEW_TAB_HTML:
		put_frame(out, m);
		break;
	case VIEW_TAB_DIFF:
		put_diff(out, m);
		break;
	case VIEW_TAB_REVISED:
		put_revised(out, m);
		break;
	case VIEW_TAB_HEADERS:
		put_headers(out, m);
		break;
	case VIEW_TAB_RAW:
		put_raw(out, m);
		break;
	}
	if (m->body_problem == NULL) {
		HTML(out, LIT("<p class=\"after\"><a href=\"/m/"), PATH(m->id),
		    LIT("/download"));
		put_why(out, m);
		HTML(out, LIT("\" download>Download message</a> "
			      "<span class=\"muted\">as .eml</span></p>"));
	}
	HTML(out, LIT("</section>"));
}

static void
put_inside(struct buf *out, const struct view_file *file)
{
	size_t i;

	if (file->inside_count == 0)
		return;
	HTML(out, LIT("<span class=\"inside\"><span class=\"muted\">Inside"
		      "</span>"));
	for (i = 0; i < file->inside_count; i++)
		HTML(out, LIT(" <code class=\"told\"><bdi>"),
		    TEXT(file->inside[i]), LIT("</bdi></code>"));
	if (file->inside_more > 0)
		HTML(out, LIT(" <span class=\"muted\">and "),
		    NUM(file->inside_more), LIT(" more</span>"));
	HTML(out, LIT("</span>"));
}

static void
put_file(
    struct buf *out, const struct view_message *m, const struct view_file *file)
{
	HTML(out, LIT("<li><a href=\"/m/"), PATH(m->id), LIT("/file/"),
	    NUM(file->index));
	put_why(out, m);
	HTML(out, LIT("\" download><bdi>"));
	if (file->name == NULL || file->name[0] == '\0')
		HTML(out, LIT("<i class=\"none\">unnamed</i>"));
	else
		HTML(out, TEXT(file->name));
	HTML(out, LIT("</bdi></a> <span class=\"muted\">"));
	view_part_size(out, file->size);
	HTML(out, LIT("</span> <span class=\"types\">"));
	if (file->mismatch)
		HTML(out, LIT("<span class=\"chip warn\">says "),
		    TEXT(file->type), LIT(", is "), TEXT(file->sniffed),
		    LIT("</span>"));
	else
		HTML(out, TEXT(file->type), LIT(" <span class=\"muted\">· "),
		    TEXT(file->sniffed), LIT("</span>"));
	HTML(out,
	    LIT("</span><span class=\"sha\"><span "
		"class=\"muted\">SHA-256"
		"</span> <code>"),
	    TEXT(file->sha256), LIT("</code></span>"));
	put_inside(out, file);
	HTML(out, LIT("</li>"));
}

void
view_message_files(struct buf *out, const struct view_message *m)
{
	size_t i;

	if (m->file_count == 0)
		return;
	HTML(out,
	    LIT("<section class=\"panel\" id=\"files\"><h2>Files "
		"<span class=\"muted\">"),
	    NUM(m->file_count), LIT("</span></h2><ul class=\"files-list\">"));
	for (i = 0; i < m->file_count; i++)
		put_file(out, m, &m->files[i]);
	HTML(out, LIT("</ul><p class=\"after muted\">Nothing is opened "
		      "here. A file "
		      "is only ever downloaded as an "
		      "attachment.</p></section>"));
}
