/* SPDX-License-Identifier: ISC */
/*
 * view_inboxes.c - inboxes, the pause switches, reject all
 */
#include "admin/view.h"

#include <string.h>

#include "admin/html.h"
#include "base/buf.h"

static void
put_mode(struct buf *out, int mode)
{
	HTML(out, LIT("<span class=\"mode\" data-mode=\""), NUM(mode),
	    LIT("\">"), TEXT(view_mode_label(mode)), LIT("</span>"));
}

static void
put_inbox(struct buf *out, const struct view_inbox *row)
{
	HTML(out,
	    LIT("<tr><th scope=\"row\"><a class=\"row-link\" "
		"href=\"/inbox/"),
	    NUM(row->tenant_key), LIT("."), NUM(row->inbox_key), LIT("\">"));
	view_part_address(out, row->address);
	HTML(out, LIT("</a>"));
	if (row->paused)
		HTML(out, LIT(" <span class=\"chip warn\">paused</span>"));
	if (row->suspended)
		HTML(out, LIT(" <span class=\"chip bad\">suspended</span>"));
	if (row->alarm != NULL && row->alarm[0] != '\0')
		HTML(out, LIT(" <span class=\"chip bad\">"), TEXT(row->alarm),
		    LIT("</span>"));
	view_part_test(out, row->test);
	if (!row->claimed)
		HTML(out, LIT(" <span class=\"chip\">not claimed</span>"));
	HTML(out, LIT("</th><td data-label=\"Tenant\">"), TEXT(row->tenant),
	    LIT("</td><td data-label=\"Mode\">"));
	put_mode(out, row->mode);
	HTML(out, LIT("</td><td class=\"num\" data-label=\"Waiting\">"));
	if (row->held > 0) {
		HTML(out, LIT("<a href=\"/q?box="), NUM(row->tenant_key),
		    LIT("."), NUM(row->inbox_key), LIT("\">"));
		view_part_count(out, row->held, 1000);
		HTML(out, LIT("</a>"));
	} else {
		HTML(out, LIT("0"));
	}
	HTML(out, LIT("</td><td class=\"num\" data-label=\"Accepted today\">"),
	    NUM(row->sent_today));
	if (row->limit_day > 0)
		HTML(out, LIT(" <span class=\"muted\">of "),
		    NUM(row->limit_day), LIT("</span>"));
	HTML(out, LIT("</td></tr>\n"));
}

/* Finding one of many by a part of its address. */
static void
put_find(struct buf *out, struct html_piece action, const char *query)
{
	HTML(out, LIT("<form class=\"search\" role=\"search\" action=\""),
	    action,
	    LIT("\"><label class=\"vh\" for=\"find\">Find an inbox</label>"
		"<input id=\"find\" name=\"q\" type=\"search\" "
		"maxlength=\"200\" spellcheck=\"false\" "
		"placeholder=\"Part of an address\" value=\""),
	    ATTR(query), LIT("\"><button>Find</button></form>"));
}

static void
put_rest(struct buf *out, size_t more)
{
	if (more > 0)
		HTML(out, LIT("<p class=\"cut\">"), NUM(more),
		    LIT(" more inboxes are not shown: find them by a part of "
			"their address.</p>"));
}

void
view_inboxes(struct buf *out, const struct view_shell *shell,
    const struct view_inboxes *inboxes)
{
	size_t i;

	view_shell_start(out, shell);
	HTML(out, LIT("<div class=\"head\"><div><h1>Inboxes</h1></div>"));
	if (shell->admin)
		HTML(out, LIT("<a class=\"button\" href=\"/inboxes/new\">New "
			      "inbox</a>"));
	put_find(out, LIT("/inboxes"), inboxes->query);
	HTML(out, LIT("</div>"));
	if (inboxes->row_count == 0 && inboxes->query != NULL)
		HTML(
		    out, LIT("<div class=\"empty\"><h2>No such inbox</h2>"
			     "<p><a href=\"/inboxes\">Show all</a></p></div>"));
	else if (inboxes->row_count == 0)
		HTML(out, LIT("<div class=\"empty\"><h2>No inboxes yet</h2><p>"
			      "A new inbox comes with a claim code for its "
			      "agent.</p></div>"));
	else
		HTML(out,
		    LIT("<div class=\"scroll\" id=\"boxes\" tabindex=\"0\" "
			"role=\"region\" "
			"aria-label=\"Inboxes\"><table><thead><tr>"
			"<th scope=\"col\">Inbox</th><th scope=\"col\">Tenant"
			"</th><th scope=\"col\">Mode</th><th scope=\"col\" "
			"class=\"num\">Waiting</th><th scope=\"col\" "
			"class=\"num\">Accepted today</th></tr></thead>"
			"<tbody>\n"));
	for (i = 0; i < inboxes->row_count; i++)
		put_inbox(out, &inboxes->rows[i]);
	HTML(out, LIT_IF(inboxes->row_count > 0, "</tbody></table></div>"));
	put_rest(out, inboxes->more);
	view_shell_end(out, shell);
}

static void
put_keys(struct buf *out, int64_t tenant, int64_t inbox)
{
	HTML(out, LIT("<input type=\"hidden\" name=\"tenant\" value=\""),
	    NUM(tenant),
	    LIT("\"><input type=\"hidden\" name=\"inbox\" value=\""),
	    NUM(inbox), LIT("\">"));
}

static void
put_switch(struct buf *out, const struct view_shell *shell,
    const struct view_switch *row)
{
	HTML(out, LIT("<li class=\"switch\" data-level=\""), ATTR(row->level),
	    LIT("\"><div><b><bdi>"), TEXT(row->label), LIT("</bdi></b> "));
	if (row->paused)
		HTML(out, LIT("<span class=\"chip warn\">paused</span>"));
	else
		HTML(out, LIT("<span class=\"muted\">running</span>"));
	if (row->paused) {
		HTML(out, LIT("<small class=\"muted\">"));
		view_part_pause(out, shell->now_us, &row->pause);
		HTML(out, LIT("</small>"));
	}
	HTML(out, LIT("</div>"));
	if (!row->may) {
		HTML(out, LIT("</li>\n"));
		return;
	}
	HTML(out, LIT("<details><summary>"), LIT_IF(row->paused, "Resume…"),
	    LIT_IF(!row->paused, "Pause…"),
	    LIT("</summary><form method=\"post\" action=\"/pause\" "
		"class=\"stack\">"));
	view_part_csrf(out, shell);
	put_keys(out, row->tenant_key, row->inbox_key);
	HTML(out, LIT("<input type=\"hidden\" name=\"to\" value=\""),
	    LIT_IF(row->paused, "resume"), LIT_IF(!row->paused, "pause"),
	    LIT("\"><label>Reason<input name=\"reason\" required "
		"maxlength=\"200\"></label>"));
	if (row->paused)
		view_part_step_up(out, shell, true);
	HTML(out, LIT("<button"), LIT_IF(!row->paused, " class=\"danger\""),
	    LIT(">"), LIT_IF(row->paused, "Resume"),
	    LIT_IF(!row->paused, "Pause"),
	    LIT("</button></form></details></li>\n"));
}

void
view_pauses(struct buf *out, const struct view_shell *shell,
    const struct view_pauses *pauses)
{
	size_t i;

	view_shell_start(out, shell);
	HTML(out,
	    LIT("<div class=\"head\"><div><h1>Pause</h1><p class=\"sub\">"
		"<span>A pause holds all new mail and stops the relay before "
		"its next message. It takes effect at once.</span></p></div>"));
	put_find(out, LIT("/pause"), pauses->query);
	HTML(out, LIT("</div>"));
	if (pauses->error != NULL)
		HTML(out,
		    LIT("<p class=\"refusal\" role=\"alert\" id=\"error\" "
			"tabindex=\"-1\">"),
		    TEXT(pauses->error), LIT("</p>"));
	HTML(out, LIT("<ul class=\"switches\">\n"));
	for (i = 0; i < pauses->row_count; i++)
		put_switch(out, shell, &pauses->rows[i]);
	HTML(out, LIT("</ul>"));
	put_rest(out, pauses->more);
	HTML(out,
	    LIT("<p class=\"muted small\">Resuming needs you to confirm who "
		"you are, a reason, and the role senior or admin. Mail held by "
		"a pause stays held: it is decided one by one.</p>"));
	view_shell_end(out, shell);
}
