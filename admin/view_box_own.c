/* SPDX-License-Identifier: ISC */
/*
 * view_box_own.c - what one inbox has of its own
 *
 * Each setting says what it does before it asks; what its tenant says holds
 * where the inbox says nothing. Only for those who may change it.
 */
#include "admin/view_box.h"

#include "admin/html.h"
#include "base/buf.h"

/* As the form takes it: in the largest unit that says it whole. */
static void
put_duration(struct buf *out, int seconds)
{
	static const struct {
		int s;
		const char *name;
	} units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "m" }, { 1, "s" } };
	size_t i = 0;

	while (seconds % units[i].s != 0)
		i++;
	HTML(out, NUM(seconds / units[i].s), TEXT(units[i].name));
}

static void
put_approvals(struct buf *out, const struct box *box)
{
	HTML(out,
	    LIT("<label>Approvals a message needs<select name=\"need\">"
		"<option value=\"0\""),
	    LIT_IF(box->own_need == 0, " selected"),
	    LIT(">As its tenant says: "), NUM(box->tenant_need),
	    LIT("</option><option value=\"1\""),
	    LIT_IF(box->own_need == 1, " selected"),
	    LIT(">One person</option><option value=\"2\""),
	    LIT_IF(box->own_need == 2, " selected"),
	    LIT(">Two different persons</option></select></label>"));
}

static void
put_hold(struct buf *out, const struct box *box)
{
	HTML(out,
	    LIT("<label>A message waits at most<input name=\"hold\" "
		"maxlength=\"9\" pattern=\"[0-9]+[smhd]\" autocomplete=\"off\" "
		"value=\""));
	if (box->own_hold_s != 0)
		put_duration(out, box->own_hold_s);
	HTML(out, LIT("\"><small class=\"muted\">Such as 36h or 7d; then it "
		      "expires. Empty: as its tenant says, "));
	put_duration(out, box->tenant_hold_s);
	HTML(out, LIT(".</small></label>"));
}

static void
put_switch(struct buf *out, struct html_piece name, struct html_piece label,
    struct html_piece about, bool on)
{
	HTML(out, LIT("<label>"), label, LIT("<select name=\""), name,
	    LIT("\"><option value=\"no\""), LIT_IF(!on, " selected"),
	    LIT(">No</option><option value=\"yes\""), LIT_IF(on, " selected"),
	    LIT(">Yes</option></select><small class=\"muted\">"), about,
	    LIT("</small></label>"));
}

void
view_box_own(struct buf *out, const struct view_shell *shell,
    const struct view_box *view)
{
	const struct box *box = view->box;

	if (!box->may_admin)
		return;
	HTML(out,
	    LIT("<section class=\"panel\" id=\"own\"><h2>Its own settings"
		"</h2><details class=\"change\"><summary>Change…</summary>"));
	view_box_form(out, shell, view, LIT("own"));
	put_approvals(out, box);
	put_hold(out, box);
	HTML(out,
	    LIT("<label>Overseer<input name=\"overseer\" type=\"email\" "
		"maxlength=\"254\" autocomplete=\"off\" value=\""),
	    ATTR(box->oversight),
	    LIT("\"><small class=\"muted\">Gets a copy of what leaves in the "
		"mode “Send and copy”. Empty: nobody.</small></label>"));
	put_switch(out, LIT("full_key_smtp"),
	    LIT("The key for everything also signs in by SMTP"),
	    LIT("That key can also read; the SMTP key can only send."),
	    box->full_key_smtp);
	put_switch(out, LIT("retry_uncertain"),
	    LIT("Try once more what may have been sent"),
	    LIT("When the next host said nothing after the end of a message. "
		"It may arrive twice."),
	    box->retry_uncertain);
	if (view->can_link || box->one_click)
		put_switch(out, LIT("one_click"),
		    LIT("Give each recipient a link to unsubscribe"),
		    LIT("Added to the headers when it is sent, inside the DKIM "
			"signature. Who uses it gets no more from this inbox."),
		    box->one_click);
	view_part_step_up(out, shell, false);
	HTML(out,
	    LIT("<button>Set</button><p class=\"small muted\">From its next "
		"message on.</p></form></details></section>"));
}
