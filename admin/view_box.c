/* SPDX-License-Identifier: ISC */
/*
 * view_box.c - one inbox: what it may do, and the switches for that
 *
 * A mode is a sentence before it is a name. What is stricter is one step;
 * what is looser asks for a reason and the password, and says that mail which
 * waits already stays waiting.
 */
#include "admin/view_box.h"

#include "admin/html.h"
#include "base/buf.h"

static const char *const mode_sentences[] = {
	"Nothing leaves. What the agent sends is refused at once.",
	"Every outgoing mail waits for a person. Received mail would wait too; "
	"receiving is not there yet.",
	"Every outgoing mail waits for a person.",
	"Mail leaves at once. It is listed in the history, and the overseer "
	"gets a copy.",
	"Mail leaves at once, as far as the limits allow.",
};
#define MODES (int)(sizeof(mode_sentences) / sizeof(mode_sentences[0]))

void
view_box_form(struct buf *out, const struct view_shell *shell,
    const struct view_box *view, struct html_piece what)
{
	HTML(out, LIT("<form method=\"post\" class=\"stack\" action=\"/inbox/"),
	    NUM(view->key.tenant), LIT("."), NUM(view->key.inbox), LIT("/"),
	    what, LIT("\">"));
	view_part_csrf(out, shell);
}

static void
put_mode(struct buf *out, int mode, int now)
{
	HTML(out, LIT("<label><input type=\"radio\" name=\"mode\" value=\""),
	    NUM(mode), LIT("\""), LIT_IF(mode == now, " checked"),
	    LIT("><span><b>"), TEXT(view_mode_label(mode)), LIT("</b>"),
	    LIT_IF(mode == now, " <span class=\"chip\">now</span>"),
	    LIT_IF(mode > now, " <span class=\"chip warn\">looser</span>"),
	    LIT("<small>"), TEXT(mode_sentences[mode]),
	    LIT("</small></span></label>"));
}

static void
put_modes(struct buf *out, const struct view_shell *shell,
    const struct view_box *view)
{
	const struct box *box = view->box;
	int mode;

	HTML(out,
	    LIT("<section class=\"panel\" id=\"mode\"><h2>Oversight</h2>"
		"<p class=\"now\"><b class=\"mode\" data-mode=\""),
	    NUM(box->mode), LIT("\">"), TEXT(view_mode_label(box->mode)),
	    LIT("</b> "));
	if (box->mode >= 0 && box->mode < MODES)
		HTML(out, TEXT(mode_sentences[box->mode]));
	HTML(out, LIT("</p>"));
	if (!box->may_tighten) {
		HTML(out, LIT("</section>"));
		return;
	}
	HTML(out, LIT("<details class=\"change\"><summary>Change…</summary>"));
	view_box_form(out, shell, view, LIT("mode"));
	HTML(out, LIT("<fieldset class=\"modes\"><legend>New mode</legend>"));
	for (mode = 0; mode < MODES; mode++)
		if (mode <= box->mode || box->may_loosen)
			put_mode(out, mode, box->mode);
	HTML(out, LIT("</fieldset><label>Reason<input name=\"reason\" "
		      "maxlength=\"1000\"><small class=\"muted\">Needed for a "
		      "looser mode; kept in the audit log.</small></label>"));
	view_part_step_up(out, shell, false);
	HTML(out,
	    LIT("<button>Set mode</button><p class=\"small muted\">Mail that "
		"waits now stays waiting in every mode. A stricter mode also "
		"takes back what was released by the old one and has not "
		"left.</p></form></details></section>"));
}

static void
put_toggle(struct buf *out, const struct view_shell *shell,
    const struct view_box *view, bool pause, bool on)
{
	struct html_piece verb = pause ? on ? LIT("Resume…") : LIT("Pause…")
				 : on ? LIT("End the suspension…")
				       : LIT("Suspend…");

	HTML(out, LIT("<details class=\"change\"><summary>"), verb,
	    LIT("</summary>"));
	if (pause)
		view_box_form(out, shell, view, LIT("pause"));
	else
		view_box_form(out, shell, view, LIT("suspend"));
	HTML(out, LIT("<input type=\"hidden\" name=\"to\" value=\""),
	    LIT_IF(on, "off"), LIT_IF(!on, "on"),
	    LIT("\"><label>Reason<input name=\"reason\" required "
		"maxlength=\"200\"></label>"));
	if (on)
		view_part_step_up(out, shell, true);
	HTML(out, LIT("<button"), LIT_IF(!on, " class=\"danger\""), LIT(">"),
	    LIT_IF(pause && on, "Resume"), LIT_IF(pause && !on, "Pause"),
	    LIT_IF(!pause && on, "End the suspension"),
	    LIT_IF(!pause && !on, "Suspend"),
	    LIT("</button></form></details>"));
}

static void
put_switches(struct buf *out, const struct view_shell *shell,
    const struct view_box *view)
{
	const struct box *box = view->box;

	HTML(out, LIT("<section class=\"panel\" id=\"switches\">"
		      "<h2>Stop and go</h2><div class=\"pair\"><p>"));
	if (box->paused)
		HTML(out, LIT("<span class=\"chip warn\">paused</span> Nothing "
			      "leaves; new mail is held."));
	else
		HTML(out,
		    LIT("<span class=\"chip\">running</span> A pause holds new "
			"mail and stops the relay before its next message."));
	HTML(out, LIT("</p>"));
	if (box->paused ? box->may_loosen : box->may_tighten)
		put_toggle(out, shell, view, true, box->paused);
	HTML(out, LIT("</div><div class=\"pair\"><p>"));
	if (box->suspended)
		HTML(out,
		    LIT("<span class=\"chip bad\">suspended</span> Its keys "
			"open nothing."));
	else
		HTML(out,
		    LIT("<span class=\"chip\">keys work</span> A suspension "
			"shuts the agent out and stops its mail."));
	HTML(out, LIT("</p>"));
	if (box->may_loosen)
		put_toggle(out, shell, view, false, box->suspended);
	HTML(out, LIT("</div></section>"));
}

static void
put_limit(struct buf *out, struct html_piece name, struct html_piece label,
    int64_t now, int64_t used)
{
	HTML(out, LIT("<tr><th scope=\"row\">"), label,
	    LIT("</th><td class=\"num\">"));
	if (used >= 0)
		HTML(out, NUM(used));
	else
		HTML(out, LIT("–"));
	HTML(out, LIT("</td><td class=\"num\"><input name=\""), name,
	    LIT("\" inputmode=\"numeric\" pattern=\"[0-9]*\" maxlength=\"12\" "
		"value=\""),
	    NUM(now), LIT("\" aria-label=\""), label,
	    LIT(": at most\"></td></tr>"));
}

static void
put_plans(struct buf *out, const struct view_box *view)
{
	size_t i;

	HTML(out, LIT("<label>Take the numbers of a plan<select name=\"plan\">"
		      "<option value=\"\">No: those above</option>"));
	for (i = 0; i < view->plans->n; i++) {
		const struct box_limits *l = &view->plans->row[i].limits;

		HTML(out, LIT("<option value=\""), ATTR(l->plan), LIT("\">"),
		    TEXT(l->plan), LIT(": "), NUM(l->hour), LIT(" an hour, "),
		    NUM(l->day), LIT(" a day</option>"));
	}
	HTML(out, LIT("</select></label>"));
}

static void
put_limits(struct buf *out, const struct view_shell *shell,
    const struct view_box *view)
{
	const struct box *box = view->box;
	const struct box_limits *l = &box->limits;

	HTML(out,
	    LIT("<section class=\"panel\" id=\"limits\"><h2>Limits "
		"<span class=\"muted\">plan "),
	    TEXT(l->plan), LIT("</span></h2>"));
	if (!box->may_admin) {
		HTML(out, LIT("<p>"), NUM(l->hour), LIT(" an hour, "),
		    NUM(box->used_day), LIT(" of "), NUM(l->day),
		    LIT(" today, "), NUM(box->used_month), LIT(" of "),
		    NUM(l->month), LIT(" this month, "), NUM(box->held),
		    LIT(" of "), NUM(l->held), LIT(" waiting.</p></section>"));
		return;
	}
	view_box_form(out, shell, view, LIT("limits"));
	HTML(out,
	    LIT("<table class=\"limits\"><thead><tr><th scope=\"col\">Messages"
		"</th><th scope=\"col\" class=\"num\">Now</th><th "
		"scope=\"col\" class=\"num\">At most</th></tr></thead>"
		"<tbody>"));
	put_limit(out, LIT("hour"), LIT("In an hour"), l->hour, -1);
	put_limit(out, LIT("day"), LIT("In a day"), l->day, box->used_day);
	put_limit(
	    out, LIT("month"), LIT("In a month"), l->month, box->used_month);
	put_limit(out, LIT("held"), LIT("Held now"), l->held, box->held);
	put_limit(out, LIT("bytes"), LIT("Bytes waiting"), l->bytes, -1);
	HTML(out, LIT("</tbody></table>"));
	put_plans(out, view);
	view_part_step_up(out, shell, false);
	HTML(out, LIT("<button>Set limits</button></form></section>"));
}

static void
put_about(struct buf *out, const struct view_shell *shell,
    const struct view_box *view)
{
	const struct box *box = view->box;

	HTML(out, LIT("<div class=\"head\"><div><p class=\"crumb\">"
		      "<a href=\"/inboxes\" id=\"back\">Inboxes</a></p><h1>"));
	view_part_address(out, box->address);
	HTML(out, LIT("</h1><p class=\"sub\">"));
	view_part_test(out, box->test);
	HTML(out, LIT("<span>Tenant "), TEXT(box->tenant_slug),
	    LIT("</span><span>made "));
	view_part_age(out, shell->now_us, box->created_us);
	HTML(out, LIT(" ago</span><span><a href=\"/q?box="),
	    NUM(view->key.tenant), LIT("."), NUM(view->key.inbox), LIT("\">"));
	view_part_count(out, box->held, 1000);
	HTML(out, LIT(" waiting</a></span>"));
	if (box->need > 1)
		HTML(out, LIT("<span>needs "), NUM(box->need),
		    LIT(" approvals</span>"));
	if (box->oversight[0] != '\0')
		HTML(out, LIT("<span>overseer "), TEXT(box->oversight),
		    LIT("</span>"));
	if (box->one_click)
		HTML(out, LIT("<span>gives links to unsubscribe</span>"));
	HTML(out, LIT("</p></div></div>"));
	view_part_error(out, view->error);
	if (box->alarm[0] != '\0')
		HTML(out, LIT("<p class=\"refusal\">"), TEXT(box->alarm),
		    LIT("</p>"));
}

void
view_box(struct buf *out, const struct view_shell *shell,
    const struct view_box *view)
{
	view_shell_start(out, shell);
	put_about(out, shell, view);
	HTML(out, LIT("<div class=\"boxgrid\"><div class=\"read\">"));
	put_modes(out, shell, view);
	put_switches(out, shell, view);
	view_box_keys(out, shell, view);
	put_limits(out, shell, view);
	view_box_own(out, shell, view);
	HTML(out, LIT("</div><div class=\"read\">"));
	view_box_rules(out, shell, view);
	view_box_blocks(out, shell, view);
	HTML(out, LIT("</div></div>"));
	view_shell_end(out, shell);
}

void
view_box_new(struct buf *out, const struct view_shell *shell,
    const struct view_box_new *view)
{
	size_t i;

	view_shell_start(out, shell);
	HTML(out, LIT("<section class=\"card\"><h1>New inbox</h1>"));
	view_part_error(out, view->error);
	HTML(out, LIT("<form method=\"post\" action=\"/inboxes/new\" "
		      "class=\"stack\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<label>Tenant<select name=\"tenant\" required>"));
	for (i = 0; i < view->tenant_count; i++)
		HTML(out, LIT("<option value=\""), NUM(view->keys[i]),
		    LIT("\">"), TEXT(view->tenants[i]), LIT("</option>"));
	HTML(out,
	    LIT("</select></label><label>Address<input name=\"address\" "
		"type=\"email\" required maxlength=\"254\" "
		"autocomplete=\"off\" value=\""),
	    ATTR(view->address),
	    LIT("\"><small class=\"muted\">On a verified domain of the "
		"tenant.</small></label><label>Display name<input "
		"name=\"display_name\" maxlength=\"200\" value=\""),
	    ATTR(view->display_name),
	    LIT("\"></label><button class=\"primary\">Make the inbox</button>"
		"<p class=\"small muted\">It begins with “Hold outgoing” and "
		"the plan “default”. You get a code, good for 15 minutes, "
		"with which the agent fetches its keys; nobody else ever sees "
		"them.</p><a href=\"/inboxes\">Back</a></form></section>"));
	view_shell_end(out, shell);
}

void
view_claim(struct buf *out, const struct view_shell *shell,
    const struct view_claim *claim)
{
	view_shell_start(out, shell);
	HTML(out, LIT("<section class=\"card\"><h1>Claim code for <bdi>"),
	    TEXT(claim->address),
	    LIT("</bdi></h1><p><code id=\"claim\" class=\"big\">"),
	    TEXT(claim->code), LIT("</code></p><p>It works once and for "));
	view_part_left(out, shell->now_us, claim->until_us);
	HTML(out,
	    LIT(". This page shows it once. Whoever runs the agent gives "
		"it to <code>posternctl claim</code> or to "
		"<code>POST /v1/claim</code> and gets the inbox’s two keys, "
		"which are shown nowhere else.</p>"));
	if (claim->unreadable >= 0)
		HTML(out,
		    LIT("<p>All old keys have ended. The agent cannot "
			"read "),
		    NUM(claim->unreadable),
		    LIT(" older messages of its own any more.</p>"));
	HTML(out, LIT("<p><a class=\"button\" href=\"/inbox/"),
	    NUM(claim->tenant), LIT("."), NUM(claim->inbox),
	    LIT("\">To the inbox</a></p></section>"));
	view_shell_end(out, shell);
}
