/* SPDX-License-Identifier: ISC */
/*
 * view_settle.c - mail on its way: cancel it, or say what became of it
 *
 * After a broken connection nobody can know whether the other side took the
 * message. It is never sent again by itself; a person who has asked, or who
 * accepts that it may arrive twice, says here what is so.
 */
#include "admin/view.h"

#include "admin/html.h"
#include "admin/view_message.h"
#include "base/buf.h"
#include "policy/vocabulary.h"

static void
put_ticks(struct buf *out, const struct view_message *m)
{
	size_t i;

	HTML(out, LIT("<fieldset class=\"cats\"><legend>Recipients</legend>"));
	for (i = 0; i < m->rcpt_count; i++) {
		if (m->rcpts[i].delivery != DELIVERY_UNCERTAIN)
			continue;
		HTML(out,
		    LIT("<label><input type=\"checkbox\" name=\"ix\" "
			"checked value=\""),
		    NUM(m->rcpts[i].ix), LIT("\"><span>"));
		view_part_address(out, m->rcpts[i].address);
		HTML(out, LIT("</span></label>"));
	}
	HTML(out, LIT("</fieldset>"));
}

static void
put_settle(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	HTML(out,
	    LIT("<p>The connection broke after the last byte: the other side "
		"may have taken it. Ask there before you say what is so.</p>"
		"<form method=\"post\" class=\"stack\" id=\"settle-form\" "
		"action=\"/m/"),
	    PATH(m->id), LIT("/settle\">"));
	view_part_csrf(out, shell);
	put_ticks(out, m);
	HTML(out,
	    LIT("<fieldset class=\"cats\"><legend>What became of it</legend>"
		"<label><input type=\"radio\" name=\"outcome\" required "
		"value=\"sent\"><span>It arrived</span></label>"
		"<label><input type=\"radio\" name=\"outcome\" required "
		"value=\"failed\"><span>It did not arrive; leave it so</span>"
		"</label>"
		"<label><input type=\"radio\" name=\"outcome\" required "
		"value=\"retry\"><span>Send it again; it may arrive twice"
		"</span></label></fieldset>"
		"<label>How do you know? <small class=\"muted\">It is "
		"written to the audit log.</small><input name=\"note\" "
		"required maxlength=\"500\"></label>"
		"<button id=\"settle-button\">Settle</button></form>"));
}

static void
put_cancel(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	HTML(out,
	    LIT("<details class=\"reject\" id=\"cancel\"><summary>Cancel "
		"sending</summary><form method=\"post\" class=\"stack\" "
		"id=\"cancel-form\" action=\"/m/"),
	    PATH(m->id), LIT("/cancel\">"));
	view_part_csrf(out, shell);
	HTML(out,
	    LIT("<label>Why <small class=\"muted\">It is written to the "
		"audit log.</small><input name=\"note\" required "
		"maxlength=\"300\"></label>"
		"<button class=\"danger\" id=\"cancel-button\">Cancel sending"
		"</button><p class=\"small muted\">What has not left stays "
		"here for good. Who has it already keeps it.</p>"
		"</form></details>"));
}

void
view_message_settle(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	if (m->may_settle)
		put_settle(out, shell, m);
	if (m->may_cancel)
		put_cancel(out, shell, m);
}
