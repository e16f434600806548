/* SPDX-License-Identifier: ISC */
/*
 * view_queue.c - what waits for a person
 *
 * One list: on a wide screen its items line up as a table, on a phone they are
 * cards. Each item is one real link, so that it works without scripts and a
 * screen reader hears subject, recipients and risk in one go. An inbox that
 * would fill the screen is one row (decisions C7).
 */
#include "admin/view.h"

#include <string.h>

#include "admin/html.h"
#include "base/buf.h"

#define CAP 1000

static void
put_count_line(struct buf *out, const struct view_shell *shell,
    const struct view_queue *queue)
{
	HTML(out, LIT("<p class=\"sub\">"));
	if (shell->held > 0) {
		HTML(out, LIT("<span id=\"bands\">"));
		if (queue->high > 0) {
			view_part_count(out, queue->high, CAP);
			HTML(out, LIT(" high, "));
		}
		view_part_count(out, queue->medium, CAP);
		HTML(out, LIT(" medium, "));
		view_part_count(out, queue->low, CAP);
		HTML(out, LIT(" low</span>"));
	}
	if (queue->oldest_us != 0) {
		HTML(out, LIT(" · oldest "));
		view_part_age(out, shell->now_us, queue->oldest_us);
	}
	HTML(out, LIT(" · you decided "), NUM(queue->decided_today),
	    LIT(" today"));
	HTML(out, LIT("</p>"));
}

static void
put_sort(struct buf *out, const struct view_queue *queue)
{
	const struct {
		const char *name;
		struct html_piece link, label;
	} sorts[] = {
		{ "risk", LIT("<a href=\"/q?sort=risk"), LIT("Risk") },
		{ "age", LIT("<a href=\"/q?sort=age"), LIT("Oldest") },
	};
	size_t i;

	HTML(out, LIT("<nav class=\"sort\" aria-label=\"Order\">"));
	for (i = 0; i < sizeof(sorts) / sizeof(sorts[0]); i++) {
		HTML(out, sorts[i].link);
		if (queue->inbox != NULL)
			HTML(out, LIT("&amp;inbox="), PATH(queue->inbox));
		HTML(out, LIT("\""),
		    LIT_IF(strcmp(sorts[i].name, queue->sort) == 0,
		        " aria-current=\"true\""),
		    LIT(">"), sorts[i].label, LIT("</a>"));
	}
	HTML(out, LIT("</nav>"));
}

static void
put_filter(struct buf *out, const struct view_shell *shell,
    const struct view_queue *queue)
{
	(void)shell;
	if (queue->inbox == NULL)
		return;
	HTML(out, LIT("<p class=\"filter\">Only <b><bdi>"), TEXT(queue->inbox),
	    LIT("</bdi></b> <a href=\"/q?sort="), PATH(queue->sort),
	    LIT("\">Show all inboxes</a></p>"));
}

static void
put_recipients(struct buf *out, const struct view_queue_row *row)
{
	HTML(out, LIT("<span class=\"to\">"));
	view_part_address(out, row->to);
	if (row->more > 0)
		HTML(out, LIT(" <span class=\"more\">+"), NUM(row->more),
		    LIT("</span>"));
	if (row->hidden > 0)
		HTML(out, LIT(" <span class=\"chip warn\">"), NUM(row->hidden),
		    LIT(" hidden</span>"));
	HTML(out, LIT("</span>"));
}

static void
put_single(struct buf *out, const struct view_shell *shell,
    const struct view_queue_row *row)
{
	HTML(out, LIT("<li class=\"row\" data-id=\""), ATTR(row->id),
	    LIT("\"><span class=\"c-risk\">"));
	view_part_risk(out, row->risk);
	HTML(out, LIT("</span><span class=\"c-to\">"));
	put_recipients(out, row);
	HTML(out,
	    LIT("</span><span class=\"c-subject\"><a class=\"hit\" "
	        "href=\"/m/"),
	    PATH(row->id), LIT("\"><bdi>"));
	if (row->subject == NULL || row->subject[0] == '\0')
		HTML(out, LIT("<i class=\"none\">No subject</i>"));
	else
		HTML(out, TEXT(row->subject));
	HTML(out, LIT("</bdi></a>"));
	if (row->returned)
		HTML(out, LIT(" <span class=\"chip\">came back</span>"));
	if (row->test)
		HTML(out, LIT(" <span class=\"chip\">test</span>"));
	HTML(out, LIT("</span><span class=\"c-inbox\"><bdi>"), TEXT(row->inbox),
	    LIT("</bdi></span><span class=\"c-why\">"), TEXT(row->reasons));
	HTML(out, LIT("</span><span class=\"c-size\">"));
	if (row->files > 0)
		HTML(out, LIT("<span class=\"files\">"), NUM(row->files),
		    LIT("&nbsp;file"), LIT_IF(row->files > 1, "s"),
		    LIT("</span> "));
	view_part_size(out, row->size);
	HTML(out,
	    LIT("</span><span class=\"c-age\"><span class=\"word\">waiting "
	        "</span>"));
	view_part_age(out, shell->now_us, row->at_us);
	HTML(out,
	    LIT("</span><span class=\"c-left\"><span class=\"word\">expires "
	        "in </span>"));
	view_part_left(out, shell->now_us, row->expires_us);
	HTML(out, LIT("</span></li>"));
}

static void
put_group_forms(struct buf *out, const struct view_shell *shell,
    const struct view_queue_row *row)
{
	HTML(out, LIT("<span class=\"c-acts\">"));
	if (!row->paused) {
		HTML(out,
		    LIT("<form method=\"post\" action=\"/pause\">"
		        "<input type=\"hidden\" name=\"level\" value=\"inbox\">"
		        "<input type=\"hidden\" name=\"key\" value=\""),
		    ATTR(row->inbox),
		    LIT("\"><input type=\"hidden\" name=\"to\" value=\"pause\">"
		        "<input type=\"hidden\" name=\"reason\" "
		        "value=\"Paused from the queue\">"));
		view_part_csrf(out, shell);
		HTML(out, LIT("<button>Pause inbox</button></form>"));
	} else {
		HTML(out, LIT("<span class=\"chip warn\">paused</span>"));
	}
	HTML(out,
	    LIT("<a class=\"button danger\" href=\"/inboxes/reject?inbox="),
	    PATH(row->inbox), LIT("\">Reject all…</a></span>"));
}

static void
put_group(struct buf *out, const struct view_shell *shell,
    const struct view_queue_row *row)
{
	HTML(out, LIT("<li class=\"row group\" data-inbox=\""),
	    ATTR(row->inbox), LIT("\"><span class=\"c-risk\">"));
	view_part_risk(out, row->risk);
	HTML(out,
	    LIT("</span><span class=\"c-to\"><a class=\"hit\" "
	        "href=\"/q?inbox="),
	    PATH(row->inbox), LIT("\"><b>"));
	view_part_count(out, row->count, CAP);
	HTML(out, LIT(" from "));
	view_part_address(out, row->inbox);
	HTML(out,
	    LIT("</b></a></span><span class=\"c-subject muted\">newest: "
	        "<bdi>"),
	    TEXT(row->subject), LIT("</bdi></span>"));
	put_group_forms(out, shell, row);
	HTML(out,
	    LIT("<span class=\"c-age\"><span class=\"word\">waiting </span>"));
	view_part_age(out, shell->now_us, row->at_us);
	HTML(out,
	    LIT("</span><span class=\"c-left\"><span class=\"word\">expires "
	        "in </span>"));
	view_part_left(out, shell->now_us, row->expires_us);
	HTML(out, LIT("</span></li>"));
}

static void
put_empty(struct buf *out, const struct view_shell *shell,
    const struct view_queue *queue)
{
	HTML(out, LIT("<div class=\"empty\"><h2>Nothing is waiting</h2><p>"));
	if (queue->last_decision_us != 0) {
		HTML(out, LIT("Last decision "));
		view_part_age(out, shell->now_us, queue->last_decision_us);
		HTML(out, LIT(" ago. "));
	}
	if (queue->gated_inboxes > 0)
		HTML(out, NUM(queue->gated_inboxes), LIT(" inbox"),
		    LIT_IF(queue->gated_inboxes > 1, "es"),
		    LIT(" hold outgoing mail: it appears here as it is "
		        "submitted."));
	else
		HTML(out,
		    LIT("Mail appears here as soon as an agent submits it. "
		        "Make an inbox with <code>posternctl inbox create"
		        "</code>."));
	HTML(out, LIT("</p></div>"));
}

void
view_queue(struct buf *out, const struct view_shell *shell,
    const struct view_queue *queue)
{
	size_t i;

	view_shell_start(out, shell);
	HTML(out, LIT("<div class=\"head\"><div><h1>Queue</h1>"));
	put_count_line(out, shell, queue);
	HTML(out, LIT("</div>"));
	put_sort(out, queue);
	HTML(out, LIT("</div>"));
	put_filter(out, shell, queue);
	HTML(out,
	    LIT("<p class=\"fresh\" id=\"fresh\" hidden><a href=\"\"></a>"
	        "</p>"));
	if (queue->row_count == 0) {
		put_empty(out, shell, queue);
	} else {
		HTML(out,
		    LIT("<div class=\"cols\" aria-hidden=\"true\"><span>Risk"
		        "</span><span>Goes to</span><span>Subject</span><span>"
		        "Inbox</span><span>Held because</span><span>Size</span>"
		        "<span>Waiting</span><span>Expires</span></div>"
		        "<ol class=\"rows\" id=\"rows\">\n"));
		for (i = 0; i < queue->row_count; i++) {
			if (queue->rows[i].count > 0)
				put_group(out, shell, &queue->rows[i]);
			else
				put_single(out, shell, &queue->rows[i]);
			HTML(out, LIT("\n"));
		}
		HTML(out, LIT("</ol>"));
	}
	HTML(out, LIT("<nav class=\"pages\" aria-label=\"More\">"));
	if (!queue->first)
		HTML(out, LIT("<a href=\"/q?sort="), PATH(queue->sort),
		    LIT("\">First page</a>"));
	if (queue->next != NULL) {
		HTML(out, LIT("<a class=\"button\" rel=\"next\" "
		              "href=\"/q?sort="),
		    PATH(queue->sort));
		if (queue->inbox != NULL)
			HTML(out, LIT("&amp;inbox="), PATH(queue->inbox));
		HTML(out, LIT("&amp;after="), PATH(queue->next),
		    LIT("\">Next page</a>"));
	}
	HTML(out, LIT("</nav>"));
	view_shell_end(out, shell);
}
