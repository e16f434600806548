/* SPDX-License-Identifier: ISC */
/*
 * view_together.c - the part of a message's page that is about its readers
 */
#include "admin/view_message.h"

#include <string.h>

#include "admin/html.h"
#include "admin/view.h"
#include "base/buf.h"

/*
 * Who has it open. Always there while it is held, for the script to fill; a
 * claim decides nothing, so the forms below stay what they are.
 */
void
view_message_look(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	if (strcmp(m->state, "held") != 0 || !shell->decides)
		return;
	HTML(out,
	    LIT("<form method=\"post\" class=\"look\" id=\"look\" "
		"data-me=\""),
	    ATTR(shell->operator_name), LIT("\" action=\"/m/"), PATH(m->id),
	    LIT("/look\""), LIT_IF(m->looked_at_by == NULL, " hidden"),
	    LIT(">"));
	view_part_csrf(out, shell);
	HTML(out,
	    LIT("<input type=\"hidden\" name=\"to\" value=\"take\"><p><b><bdi "
		"id=\"looker\">"),
	    TEXT(m->looked_at_by),
	    LIT("</bdi></b> has this open. You may decide all the same."
		"</p><button>Take over</button></form>"));
}

/* The agent says what it revises; only what is known of it is shown. */
void
view_message_revises(struct buf *out, const struct view_message *m)
{
	if (m->revises == NULL)
		return;
	HTML(out,
	    LIT("<section class=\"panel\" id=\"revises\"><h2>A new version"));
	if (!m->revises_known) {
		HTML(out,
		    LIT(" <span class=\"chip\">not verified</span></h2><p "
			"class=\"after\">The agent names "),
		    TEXT(m->revises),
		    LIT(", which is no mail of this inbox.</p></section>"));
		return;
	}
	HTML(out, LIT("</h2><p>The agent says it replaces <a href=\"/m/"),
	    PATH(m->revises), LIT("\">an earlier message</a> "));
	view_part_state(out, m->revises_state);
	if (m->revises_category != NULL && m->revises_category[0] != '\0')
		HTML(out, LIT(" <b>"),
		    TEXT(view_category_label(m->revises_category)),
		    LIT("</b>"));
	HTML(out, LIT(". <a href=\"/m/"), PATH(m->id),
	    LIT("?view=revised#what\">See what changed</a></p>"));
	if (m->revises_note != NULL && m->revises_note[0] != '\0')
		HTML(out, LIT("<blockquote class=\"after\"><bdi>"),
		    LINES(m->revises_note), LIT("</bdi></blockquote>"));
	HTML(out, LIT("</section>"));
}

void
view_message_comments(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	size_t i;

	if (m->comment_count == 0 && !m->may_comment)
		return;
	HTML(out, LIT("<section class=\"panel\" id=\"comments\"><h2>Comments "
		      "<span class=\"chip\">operators only</span></h2>"));
	if (m->comment_count > 0)
		HTML(out, LIT("<ol class=\"events comments\">"));
	for (i = 0; i < m->comment_count; i++) {
		HTML(out, LIT("<li>"));
		view_part_time(out, m->comments[i].at_us);
		HTML(out, LIT(" <b><bdi>"), TEXT(m->comments[i].who),
		    LIT("</bdi></b><p class=\"said\"><bdi>"),
		    LINES(m->comments[i].text), LIT("</bdi></p></li>"));
	}
	HTML(out, LIT_IF(m->comment_count > 0, "</ol>"));
	if (m->may_comment) {
		HTML(out,
		    LIT("<form method=\"post\" class=\"stack\" "
			"id=\"comment-form\" action=\"/m/"),
		    PATH(m->id), LIT("/comment\">"));
		view_part_csrf(out, shell);
		HTML(out,
		    LIT("<label>Say something to the other operators"
			"<textarea name=\"text\" rows=\"2\" required "
			"maxlength=\"2000\"></textarea></label><button>Comment"
			"</button></form>"));
	}
	HTML(out, LIT("</section>"));
}
