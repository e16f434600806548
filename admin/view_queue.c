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
#include "admin/narrow.h"
#include "base/buf.h"
#include "policy/vocabulary.h"

#define CAP 1000

static void
put_search(struct buf *out, const struct view_queue *queue)
{
	HTML(out,
	    LIT("<form class=\"search\" role=\"search\" action=\"/q\">"
		"<label class=\"vh\" for=\"find\">Search the queue</label>"
		"<input id=\"find\" name=\"q\" type=\"search\" "
		"maxlength=\"200\" spellcheck=\"false\" "
		"placeholder=\"Address, @domain, subject or id\" value=\""),
	    ATTR(queue->narrow->words), LIT("\">"));
	HTML(out, LIT("<button>Search</button>"));
	view_narrow(out, queue);
	HTML(out, LIT("</form>"));
}

static void
put_head(struct buf *out, const struct view_shell *shell,
    const struct view_queue *queue)
{
	HTML(out, LIT("<div class=\"head\"><div><h1>Queue</h1>"
		      "<p class=\"sub\">"));
	if (shell->held > 0) {
		HTML(out, LIT("<span>"));
		view_part_count(out, shell->held, CAP);
		HTML(out, LIT(" waiting</span>"));
	}
	if (queue->oldest_us != 0) {
		HTML(out, LIT("<span>oldest "));
		view_part_age(out, shell->now_us, queue->oldest_us);
		HTML(out, LIT("</span>"));
	}
	if (shell->held > 0)
		HTML(out, LIT("<span>"),
		    LIT_IF(!queue->by_left, "highest risk first"),
		    LIT_IF(queue->by_left, "least time left first"),
		    LIT("</span>"));
	HTML(out, LIT("</p></div>"));
	put_search(out, queue);
	HTML(out, LIT("</div>"));
	if (queue->inbox != NULL)
		HTML(out, LIT("<p class=\"filter\">Only from <b><bdi>"),
		    TEXT(queue->inbox),
		    LIT("</bdi></b> <a href=\"/q\">Show all inboxes</a></p>"));
	if (queue->query != NULL)
		view_narrow_said(out, queue);
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
	HTML(out, LIT_IF(row->new_rcpt, " <span class=\"chip\">new</span>"),
	    LIT("</span>"));
}

static void
put_chips(struct buf *out, const struct view_shell *shell,
    const struct view_queue_row *row)
{
	if (row->integrity)
		HTML(
		    out, LIT(" <span class=\"chip bad\">bytes changed</span>"));
	if (row->reasons != NULL && row->reasons[0] != '\0')
		HTML(out, LIT(" <span class=\"chip\">"), TEXT(row->reasons),
		    LIT("</span>"));
	if (row->returned)
		HTML(out, LIT(" <span class=\"chip\">came back</span>"));
	if (view_part_is_late(shell->now_us, row->at_us, row->expires_us))
		HTML(
		    out, LIT(" <span class=\"chip warn\">expires soon</span>"));
	if (row->need > 1)
		HTML(out, LIT(" <span class=\"chip\">"), NUM(row->approvals),
		    LIT(" of "), NUM(row->need), LIT("</span>"));
	view_part_test(out, row->test);
	if (row->looks != NULL && row->looks[0] != '\0')
		HTML(out, LIT(" <span class=\"chip looks\">"), TEXT(row->looks),
		    LIT(" has it open</span>"));
}

static void
put_single(struct buf *out, const struct view_shell *shell,
    const struct view_queue_row *row)
{
	HTML(out, LIT("<li class=\"row\" data-id=\""), ATTR(row->id),
	    LIT("\"><span class=\"c-risk\">"));
	if (shell->decides)
		HTML(out,
		    LIT("<label class=\"pick\"><input type=\"checkbox\" "
			"form=\"bulk\" name=\"id\" value=\""),
		    ATTR(row->id),
		    LIT("\"><span class=\"vh\">Select</span></label>"));
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
	put_chips(out, shell, row);
	HTML(out, LIT("</span><span class=\"c-inbox\">"));
	view_part_address(out, row->inbox);
	HTML(out, LIT("</span><span class=\"c-size\">"));
	if (row->files > 0)
		HTML(out, LIT("<span class=\"files\">"), NUM(row->files),
		    LIT("&nbsp;file"), LIT_IF(row->files > 1, "s"),
		    LIT("</span> "));
	HTML(out, LIT_IF(row->links, "<span class=\"files\">links</span> "));
	view_part_size(out, row->size);
	HTML(out,
	    LIT("</span><span class=\"c-age\"><span class=\"word\">waiting "
		"</span>"));
	view_part_age(out, shell->now_us, row->at_us);
	HTML(out, LIT("</span><span class=\"c-left"),
	    LIT_IF(
		view_part_is_late(shell->now_us, row->at_us, row->expires_us),
		" soon"),
	    LIT("\"><span class=\"word\">expires in </span>"));
	view_part_left(out, shell->now_us, row->expires_us);
	HTML(out, LIT("</span></li>"));
}

/* What stands behind "?" to keep box and search, whatever else is asked. */
static void
put_kept(struct buf *out, const struct view_queue *queue)
{
	if (queue->box != NULL)
		HTML(out, LIT("&amp;box="), PATH(queue->box));
	if (queue->query != NULL)
		HTML(out, LIT("&amp;q="), PATH(queue->query));
}

static void
put_order(struct buf *out, const struct view_queue *queue)
{
	HTML(out, LIT("<nav class=\"tabs\" aria-label=\"Order\"><a "
		      "href=\"/q?sort="));
	put_kept(out, queue);
	HTML(out, LIT("\""), LIT_IF(!queue->by_left, " aria-current=\"true\""),
	    LIT(">Risk first</a><a href=\"/q?sort=left"));
	put_kept(out, queue);
	HTML(out, LIT("\""), LIT_IF(queue->by_left, " aria-current=\"true\""),
	    LIT(">Time left first</a></nav>"));
}

static void
put_bands(struct buf *out, const struct view_queue *queue)
{
	static const enum policy_risk bands[] = { RISK_HIGH, RISK_MEDIUM,
		RISK_LOW };
	const char *now = queue->risk != NULL ? queue->risk : "";
	size_t i;

	HTML(out, LIT("<div class=\"bands\"><nav class=\"tabs\" "
		      "aria-label=\"Risk\"><a href=\"/q?risk="));
	put_kept(out, queue);
	HTML(out, LIT("\""), LIT_IF(now[0] == '\0', " aria-current=\"true\""),
	    LIT(">All</a>"));
	for (i = 0; i < sizeof(bands) / sizeof(bands[0]); i++) {
		const char *name = policy_risk_name((int)bands[i]);

		HTML(out, LIT("<a href=\"/q?risk="), PATH(name));
		put_kept(out, queue);
		HTML(out, LIT("\""),
		    LIT_IF(strcmp(name, now) == 0, " aria-current=\"true\""),
		    LIT(">"), TEXT(policy_risk_label((int)bands[i])),
		    LIT(" risk</a>"));
	}
	HTML(out, LIT("</nav>"));
	if (queue->query == NULL && queue->risk == NULL)
		put_order(out, queue);
	HTML(out, LIT("</div>"));
}

static void
put_pause(struct buf *out, const struct view_shell *shell,
    const struct view_queue_row *row)
{
	HTML(out,
	    LIT("<form method=\"post\" action=\"/pause\">"
		"<input type=\"hidden\" name=\"tenant\" value=\""),
	    NUM(row->tenant_key),
	    LIT("\"><input type=\"hidden\" name=\"inbox\" value=\""),
	    NUM(row->inbox_key),
	    LIT("\"><input type=\"hidden\" name=\"to\" value=\"pause\">"
		"<input type=\"hidden\" name=\"reason\" "
		"value=\"Paused from the queue\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<button>Pause inbox</button></form>"));
}

static void
put_reject_all(struct buf *out, const struct view_shell *shell,
    const struct view_queue_row *row)
{
	HTML(out,
	    LIT("<form method=\"post\" action=\"/jobs\"><input "
		"type=\"hidden\" name=\"box\" value=\""),
	    NUM(row->tenant_key), LIT("."), NUM(row->inbox_key), LIT("\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<button name=\"all\" value=\"r\">Reject all…</button>"
		      "</form>"));
}

/* What is not shown of an inbox, and the two things to do about it. */
static void
put_more(struct buf *out, const struct view_shell *shell,
    const struct view_queue_row *row)
{
	HTML(out, LIT("<li class=\"group\" data-inbox=\""), ATTR(row->inbox),
	    LIT("\"><a href=\"/q?box="), NUM(row->tenant_key), LIT("."),
	    NUM(row->inbox_key), LIT("\"><b>"));
	view_part_count(out, row->count, CAP);
	HTML(out, LIT(" more</b> from "));
	view_part_address(out, row->inbox);
	HTML(out, LIT("</a>"));
	if (shell->stops)
		put_pause(out, shell, row);
	if (shell->decides)
		put_reject_all(out, shell, row);
	HTML(out, LIT("</li>"));
}

static void
put_empty(struct buf *out, const struct view_shell *shell,
    const struct view_queue *queue)
{
	bool narrowed =
	    queue->query != NULL || queue->risk != NULL || queue->tenant != 0;

	HTML(out, LIT("<div class=\"empty\"><h2>"),
	    LIT_IF(!narrowed, "Nothing is waiting"),
	    LIT_IF(narrowed, "Nothing found"), LIT("</h2><p>"));
	if (queue->stopped)
		HTML(out,
		    LIT("None of the next messages fits; there are more."));
	else if (narrowed || queue->inbox != NULL)
		HTML(out, LIT("Nothing that waits fits this filter."));
	else if (queue->holding > 0)
		HTML(out, NUM(queue->holding),
		    LIT_IF(queue->holding == 1, " inbox holds"),
		    LIT_IF(queue->holding != 1, " inboxes hold"),
		    LIT(" outgoing mail. It appears here as it is "
			"submitted."));
	else
		HTML(out,
		    LIT("Mail appears here as soon as an agent submits it. "),
		    LIT_IF(shell->admin,
			"<a href=\"/inboxes/new\">Make an inbox</a>, here or "
			"with <code>posternctl inbox create</code>."),
		    LIT_IF(!shell->admin,
			"An administrator makes inboxes, here or with "
			"<code>posternctl inbox create</code>."));
	HTML(out, LIT("</p></div>"));
}

/*
 * What to do with what is ticked, or with all that fits: makes a job, which
 * says what it is about before anything is decided.
 */
static void
put_bulk(struct buf *out, const struct view_shell *shell,
    const struct view_queue *queue)
{
	HTML(out, LIT("<form method=\"post\" action=\"/jobs\" id=\"bulk\" "
		      "class=\"bulk\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<input type=\"hidden\" name=\"q\" value=\""),
	    ATTR(queue->query),
	    LIT("\"><input type=\"hidden\" name=\"box\" value=\""),
	    ATTR(queue->box),
	    LIT("\"><input type=\"hidden\" name=\"risk\" value=\""),
	    ATTR(queue->risk));
	if (queue->tenant != 0)
		HTML(out,
		    LIT("\"><input type=\"hidden\" name=\"tenant\" "
			"value=\""),
		    NUM(queue->tenant));
	HTML(out,
	    LIT("\"><span class=\"ticked\"><b id=\"ticked\">Ticked:</b> "
		"<button name=\"verdict\" value=\"r\">Reject…</button> "
		"<button name=\"verdict\" value=\"a\">Approve low risk…"
		"</button></span> <details class=\"all\"><summary>All that "
		"fit…</summary><span><button name=\"all\" value=\"r\">Reject "
		"all…</button> <button name=\"all\" value=\"a\">Approve all "
		"of low risk…</button> <a href=\"/jobs\">Your jobs</a></span>"
		"</details></form>"));
}

static void
put_pages(struct buf *out, const struct view_queue *queue)
{
	HTML(out, LIT("<nav class=\"pages\" aria-label=\"More\">"));
	if (!queue->first)
		HTML(out, LIT("<a href=\"/q\">First page</a>"));
	if (queue->next != NULL) {
		HTML(out,
		    LIT("<a class=\"button\" rel=\"next\" "
			"href=\"/q?after="),
		    PATH(queue->next));
		put_kept(out, queue);
		if (queue->risk != NULL)
			HTML(out, LIT("&amp;risk="), PATH(queue->risk));
		if (queue->by_left)
			HTML(out, LIT("&amp;sort=left"));
		HTML(out, LIT("\">"), LIT_IF(!queue->stopped, "Next page"),
		    LIT_IF(queue->stopped, "Search on"), LIT("</a>"));
	}
	HTML(out, LIT("</nav>"));
}

void
view_queue(struct buf *out, const struct view_shell *shell,
    const struct view_queue *queue)
{
	struct view_shell wide = *shell;
	size_t i;

	wide.wide_id = "queue";
	view_shell_start(out, &wide);
	put_head(out, shell, queue);
	HTML(out, LIT("<p class=\"fresh\" id=\"fresh\" hidden><a href=\"\"></a>"
		      "</p>"));
	if (queue->row_count > 0 || queue->risk != NULL || queue->by_left)
		put_bands(out, queue);
	if (queue->row_count == 0)
		put_empty(out, shell, queue);
	else
		HTML(out,
		    LIT("<div class=\"cols\" aria-hidden=\"true\"><span>Risk"
			"</span><span>Goes to</span><span>Subject</span><span>"
			"From inbox</span><span>Size"
			"</span><span>Waiting</span><span>Expires</span></div>"
			"<ol class=\"rows\" id=\"rows\">\n"));
	for (i = 0; i < queue->row_count; i++) {
		put_single(out, shell, &queue->rows[i]);
		if (queue->rows[i].count > 0)
			put_more(out, shell, &queue->rows[i]);
		HTML(out, LIT("\n"));
	}
	HTML(out, LIT_IF(queue->row_count > 0, "</ol>"));
	if (shell->decides && queue->row_count > 0)
		put_bulk(out, shell, queue);
	put_pages(out, queue);
	view_shell_end(out, &wide);
}
