/* SPDX-License-Identifier: ISC */
/*
 * view_message.c - one message: who gets it, what it says, what it is
 *
 * The order of the sections is the order in which a careful person reads:
 * reasons to look, actual recipients, text, files, what the agent claims,
 * history. Deciding (view_decide.c) stands beside it on a wide screen and
 * under it, with a bar at the bottom, on a phone.
 */
#include "admin/view.h"

#include <string.h>

#include "admin/html.h"
#include "admin/view_message.h"
#include "base/buf.h"
#include "policy/vocabulary.h"

#define LONG_SUBJECT 200 /* bytes: more are scrolled */

static const char *
kind_label(enum view_rcpt_kind kind)
{
	switch (kind) {
	case VIEW_RCPT_TO:
		return "To";
	case VIEW_RCPT_CC:
		return "Cc";
	case VIEW_RCPT_BCC:
		return "Bcc";
	case VIEW_RCPT_OVERSIGHT:
		return "Oversight";
	}
	return "";
}

static void
put_rcpt(struct buf *out, const struct view_shell *shell,
    const struct view_rcpt *rcpt)
{
	HTML(out, LIT("<li"),
	    LIT_IF(rcpt->kind == VIEW_RCPT_BCC, " class=\"hidden-rcpt\""),
	    LIT("><span class=\"kind\">"), TEXT(kind_label(rcpt->kind)),
	    LIT("</span><span class=\"who\">"));
	view_part_address(out, rcpt->address);
	if (rcpt->name != NULL && rcpt->name[0] != '\0')
		HTML(out, LIT(" <bdi class=\"muted\">“"), TEXT(rcpt->name),
		    LIT("”</bdi>"));
	if (rcpt->unicode != NULL)
		HTML(out, LIT(" <span class=\"chip warn\">reads as <bdi>"),
		    TEXT(rcpt->unicode), LIT("</bdi></span>"));
	if (rcpt->kind == VIEW_RCPT_BCC)
		HTML(
		    out, LIT(" <span class=\"chip warn\">in no header</span>"));
	if (rcpt->external)
		HTML(out, LIT(" <span class=\"chip\">external</span>"));
	view_message_listed(out, rcpt);
	HTML(out, LIT("</span>"));
	if (rcpt->delivery >= 0)
		view_message_fate(out, shell, rcpt);
	HTML(out, LIT("</li>"));
}

/* What put_rcpt() says, as a line of text: a thousand are one element. */
static void
put_rcpt_line(struct buf *out, const struct view_rcpt *rcpt)
{
	HTML(out, TEXT(kind_label(rcpt->kind)), LIT("  "), TEXT(rcpt->address));
	if (rcpt->unicode != NULL)
		HTML(out, LIT("  reads as "), TEXT(rcpt->unicode));
	if (rcpt->name != NULL && rcpt->name[0] != '\0')
		HTML(out, LIT("  “"), TEXT(rcpt->name), LIT("”"));
	if (rcpt->listed != NULL)
		HTML(out, LIT("  "), TEXT(rcpt->listed), LIT(": gets nothing"));
	if (rcpt->delivery >= 0)
		HTML(out, LIT("  "),
		    TEXT(policy_delivery_label(rcpt->delivery)));
	if (rcpt->delivery >= 0 && rcpt->reply != NULL &&
	    rcpt->reply[0] != '\0')
		HTML(out, LIT("  "), TEXT(rcpt->reply));
	HTML(out, LIT("\n"));
}

static void
put_sender(struct buf *out, const struct view_message *m)
{
	HTML(out, LIT("<dl class=\"from\">"));
	if (m->from != NULL)
		HTML(out, LIT("<dt>From</dt><dd><bdi>"), TEXT(m->from),
		    LIT("</bdi></dd>"));
	if (m->reply_to != NULL)
		HTML(out, LIT("<dt>Reply-To</dt><dd><bdi>"), TEXT(m->reply_to),
		    LIT("</bdi> <span class=\"chip warn\">answers go "
			"elsewhere</span></dd>"));
	HTML(out, LIT("<dt>Envelope</dt><dd>"));
	view_part_address(out, m->mail_from);
	HTML(out, LIT("</dd></dl>"));
}

/* What is added to it when it leaves, as it is nowhere in what is read. */
static void
put_links_out(struct buf *out, const struct view_message *m)
{
	switch (m->links_out) {
	case VIEW_LINKS_NONE:
		return;
	case VIEW_LINKS_OWN:
		HTML(out,
		    LIT("<p id=\"links-out\">The message names its own way "
			"to unsubscribe (List-Unsubscribe, under Headers); "
			"no link is added.</p>"));
		return;
	case VIEW_LINKS_UNKNOWN:
	case VIEW_LINKS_ADDED:
		break;
	}
	HTML(out,
	    LIT("<p id=\"links-out\">When it is sent, each recipient gets a "
		"link of its own to unsubscribe from this inbox: the headers "
		"List-Unsubscribe"));
	if (m->link_base[0] != '\0')
		HTML(out, LIT(" (<code>"), TEXT(m->link_base),
		    LIT("/u/…</code>)"));
	HTML(out, LIT(" and List-Unsubscribe-Post are added"),
	    LIT_IF(m->links_out == VIEW_LINKS_UNKNOWN,
		", unless the message has its own"),
	    LIT(".</p>"));
}

static void
put_who(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	size_t i;

	HTML(out,
	    LIT("<section class=\"panel\" id=\"who\"><h2>Actual recipients "
		"<span class=\"muted\">"),
	    NUM(m->rcpt_count), LIT("</span></h2><ul class=\"rcpts\">"));
	for (i = 0; i < m->rcpt_count && i < VIEW_RCPTS_ROWS; i++) {
		if (i == VIEW_RCPTS_SEEN)
			HTML(out,
			    LIT("</ul><details id=\"rest\"><summary>Show all "),
			    NUM(m->rcpt_count),
			    LIT("</summary><ul class=\"rcpts\">"));
		put_rcpt(out, shell, &m->rcpts[i]);
	}
	HTML(out, LIT("</ul>"));
	if (m->rcpt_count > VIEW_RCPTS_ROWS) {
		HTML(out, LIT("<pre class=\"lines\" tabindex=\"0\" "
			      "role=\"region\" aria-label=\"Further "
			      "recipients\">"));
		for (; i < m->rcpt_count; i++)
			put_rcpt_line(out, &m->rcpts[i]);
		HTML(out, LIT("</pre>"));
	}
	HTML(out, LIT_IF(m->rcpt_count > VIEW_RCPTS_SEEN, "</details>"));
	for (i = 0; i < m->ghost_count; i++) {
		HTML(out,
		    LIT("<p class=\"ghost\"><span class=\"chip warn\">will "
			"not receive</span> "));
		view_part_address(out, m->ghosts[i]);
		HTML(
		    out, LIT(" stands in To or Cc, but the message is not sent "
			     "there.</p>"));
	}
	put_sender(out, m);
	put_links_out(out, m);
	HTML(out, LIT("</section>"));
}

static void
put_reason(struct buf *out, const struct view_reason *reason)
{
	size_t i;

	HTML(out, LIT("<li data-weight=\""), NUM(reason->weight), LIT("\">"),
	    TEXT(reason->text));
	for (i = 0; i < reason->detail_count; i++)
		HTML(out, LIT(" <code class=\"told\"><bdi>"),
		    TEXT(reason->details[i]), LIT("</bdi></code>"));
	if (reason->more > 0)
		HTML(out, LIT(" <span class=\"muted\">and "), NUM(reason->more),
		    LIT(" more</span>"));
	HTML(out, LIT("</li>"));
}

static void
put_reasons(struct buf *out, const struct view_message *m)
{
	size_t i;

	if (m->reason_count == 0)
		return;
	HTML(out, LIT("<section class=\"panel reasons\" id=\"why\">"
		      "<h2>Reasons to look</h2>"));
	if (m->risk_rose)
		HTML(out,
		    LIT("<p class=\"rose\" id=\"rose\">Opening it showed "
			"more than the quick search at submission: its risk "
			"went up.</p>"));
	HTML(out, LIT("<ul>"));
	for (i = 0; i < m->reason_count; i++)
		put_reason(out, &m->reasons[i]);
	HTML(out, LIT("</ul></section>"));
}

static void
put_context_line(struct buf *out, const char *label, const char *value)
{
	if (value == NULL || value[0] == '\0')
		return;
	HTML(out, LIT("<dt>"), TEXT(label), LIT("</dt><dd><bdi>"), LINES(value),
	    LIT("</bdi></dd>"));
}

static void
put_context(struct buf *out, const struct view_message *m)
{
	if (m->purpose == NULL && m->run_id == NULL && m->task_id == NULL &&
	    m->model == NULL && m->note == NULL && m->session == NULL)
		return;
	HTML(out,
	    LIT("<section class=\"panel\" id=\"agent\"><h2>What the agent says "
		"<span class=\"chip\">not verified</span></h2>"
		"<dl class=\"facts\">"));
	put_context_line(out, "Purpose", m->purpose);
	put_context_line(out, "Note", m->note);
	put_context_line(out, "Run", m->run_id);
	put_context_line(out, "Task", m->task_id);
	put_context_line(out, "Model", m->model);
	put_context_line(out, "Session", m->session);
	HTML(out, LIT("</dl></section>"));
}

static void
put_events(struct buf *out, const struct view_message *m)
{
	size_t i;

	if (m->event_count == 0)
		return;
	HTML(out, LIT("<section class=\"panel\" id=\"history\"><h2>History</h2>"
		      "<ol class=\"events\">"));
	for (i = 0; i < m->event_count; i++) {
		const struct view_event *e = &m->events[i];

		HTML(out, LIT("<li>"));
		view_part_time(out, e->at_us);
		HTML(out, LIT(" <b>"), TEXT(e->what), LIT("</b>"));
		if (e->who != NULL)
			HTML(out, LIT(" <span class=\"muted\">by "),
			    TEXT(e->who), LIT("</span>"));
		if (e->detail != NULL && e->detail[0] != '\0')
			HTML(out, LIT(" <span class=\"detail\"><bdi>"),
			    TEXT(e->detail), LIT("</bdi></span>"));
		HTML(out, LIT("</li>"));
	}
	HTML(out, LIT("</ol></section>"));
}

static void
put_title(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	HTML(out, LIT("<div class=\"title\"><p class=\"crumb\">"
		      "<a href=\"/q\" id=\"back\">Queue</a>"));
	if (m->prev != NULL)
		HTML(out, LIT(" <a id=\"prev\" rel=\"prev\" href=\"/m/"),
		    PATH(m->prev), LIT("\">Previous <kbd>k</kbd></a>"));
	if (m->next != NULL)
		HTML(out, LIT(" <a id=\"next\" rel=\"next\" href=\"/m/"),
		    PATH(m->next), LIT("\">Next <kbd>j</kbd></a>"));
	HTML(out, LIT("</p><h1 id=\"subject\""),
	    LIT_IF(m->subject != NULL && strlen(m->subject) > LONG_SUBJECT,
		" class=\"long\" tabindex=\"0\""),
	    LIT("><bdi>"));
	if (m->subject == NULL || m->subject[0] == '\0')
		HTML(out, LIT("<i class=\"none\">No subject</i>"));
	else
		HTML(out, TEXT(m->subject));
	HTML(out, LIT("</bdi></h1><p class=\"sub\">"));
	view_part_state(out, m->state);
	view_part_doubt(out, m->state, m->doubt);
	view_part_test(out, m->test);
	if (strcmp(m->state, "held") == 0) {
		HTML(out, LIT(" "));
		view_part_risk(out, m->risk);
	}
	HTML(out, LIT(" <span>from inbox "));
	view_part_address(out, m->inbox);
	HTML(out, LIT("</span> <span>submitted "));
	view_part_age(out, shell->now_us, m->at_us);
	HTML(out, LIT(" ago</span>"));
	if (m->expires_us != 0 && strcmp(m->state, "held") == 0) {
		HTML(out, LIT(" <span"),
		    LIT_IF(view_part_is_late(
			       shell->now_us, m->at_us, m->expires_us),
			" class=\"soon\""),
		    LIT(">expires in "));
		view_part_left(out, shell->now_us, m->expires_us);
		HTML(out, LIT("</span>"));
	}
	if (m->send_at_us > shell->now_us) {
		HTML(out, LIT(" <span id=\"later\">to leave at "));
		view_part_time(out, m->send_at_us);
		HTML(out, LIT("</span>"));
	}
	HTML(out, LIT("</p></div>"));
}

/* A wide screen has room for the queue beside what is read. */
static void
put_around(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	size_t i;

	if (m->around_count == 0)
		return;
	HTML(out, LIT("<nav class=\"around\" aria-label=\"Queue\"><ol>"));
	for (i = 0; i < m->around_count; i++) {
		const struct view_queue_row *row = &m->around[i];
		bool here = strcmp(row->id, m->id) == 0;

		HTML(out, LIT("<li><a href=\"/m/"), PATH(row->id), LIT("\""),
		    LIT_IF(here, " aria-current=\"page\""),
		    LIT("><span class=\"top-line\">"));
		/* the list was asked for before this look raised its risk */
		view_part_risk(out, here ? m->risk : row->risk);
		view_part_age(out, shell->now_us, row->at_us);
		HTML(out, LIT("</span><b><bdi>"));
		if (row->subject == NULL || row->subject[0] == '\0')
			HTML(out, LIT("No subject"));
		else
			HTML(out, TEXT(row->subject));
		HTML(out, LIT("</bdi></b><span><bdi>"), TEXT(row->to),
		    LIT("</bdi></span>"));
		view_part_test(out, row->test);
		HTML(out, LIT("</a></li>"));
	}
	HTML(out, LIT("</ol></nav>"));
}

void
view_message(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	struct view_shell wide = *shell;

	wide.wide_id = "message";
	view_shell_start(out, &wide);
	HTML(out, LIT("<article class=\"message\" id=\"msg\" data-id=\""),
	    ATTR(m->id), LIT("\" data-state=\""), ATTR(m->state), LIT("\">"));
	put_title(out, shell, m);
	HTML(out, LIT("<div class=\"read\">"));
	view_message_look(out, shell, m);
	view_message_revises(out, m);
	put_reasons(out, m);
	put_who(out, shell, m);
	view_message_body(out, shell, m);
	view_message_links(out, m);
	view_message_files(out, m);
	put_context(out, m);
	view_message_delivery(out, m);
	view_message_comments(out, shell, m);
	put_events(out, m);
	HTML(out, LIT("</div><aside class=\"side\" aria-label=\"Decision\">"));
	view_message_decide(out, shell, m);
	view_message_facts(out, shell, m);
	HTML(out, LIT("</aside>"));
	put_around(out, shell, m);
	HTML(out, LIT("</article>"));
	view_message_bar(out, m);
	view_shell_end(out, &wide);
}
