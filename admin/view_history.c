/* SPDX-License-Identifier: ISC */
/*
 * view_history.c - what became of it
 */
#include "admin/view.h"

#include <string.h>

#include "admin/html.h"
#include "base/buf.h"
#include "policy/vocabulary.h"

static void
put_filters(struct buf *out, const struct view_history *history)
{
	const struct {
		const char *name;
		struct html_piece link, label;
	} shows[] = {
		{ "all", LIT("<a href=\"/history\""), LIT("All") },
		{ "underway", LIT("<a href=\"/history?show=underway\""),
		    LIT("Under way") },
		{ "uncertain", LIT("<a href=\"/history?show=uncertain\""),
		    TEXT(policy_state_label(STATE_UNCERTAIN)) },
		{ "decided", LIT("<a href=\"/history?show=decided\""),
		    LIT("Rejected or expired") },
	};
	size_t i;

	HTML(out, LIT("<nav class=\"sort\" aria-label=\"Show\">"));
	for (i = 0; i < sizeof(shows) / sizeof(shows[0]); i++)
		HTML(out, shows[i].link,
		    LIT_IF(strcmp(shows[i].name, history->show) == 0,
			" aria-current=\"true\""),
		    LIT(">"), shows[i].label, LIT("</a>"));
	HTML(out, LIT("</nav>"));
}

static void
put_head(struct buf *out, const struct view_history *history)
{
	HTML(out, LIT("<div class=\"head\"><div><h1>History</h1>"));
	put_filters(out, history);
	HTML(out,
	    LIT("</div><form class=\"search\" role=\"search\" "
		"action=\"/history\"><label class=\"vh\" for=\"find\">Search "
		"the history</label><input id=\"find\" name=\"q\" "
		"type=\"search\" maxlength=\"200\" spellcheck=\"false\" "
		"placeholder=\"Address, @domain, subject or id\" value=\""),
	    ATTR(history->query),
	    LIT("\"><input type=\"hidden\" name=\"show\" value=\""),
	    ATTR(history->show),
	    LIT("\"><button>Search</button></form></div>"));
}

static void
put_row(struct buf *out, const struct view_shell *shell,
    const struct view_history_row *row)
{
	HTML(out, LIT("<li class=\"row\" data-id=\""), ATTR(row->id),
	    LIT("\"><span class=\"c-state\">"));
	view_part_state(out, row->state);
	HTML(out, LIT("</span><span class=\"c-to\"><span class=\"to\">"));
	view_part_address(out, row->to);
	if (row->more > 0)
		HTML(out, LIT(" <span class=\"more\">+"), NUM(row->more),
		    LIT("</span>"));
	if (row->hidden > 0)
		HTML(out, LIT(" <span class=\"chip warn\">"), NUM(row->hidden),
		    LIT(" hidden</span>"));
	HTML(out,
	    LIT("</span></span><span class=\"c-subject\"><a class=\"hit\" "
		"href=\"/m/"),
	    PATH(row->id), LIT("\"><bdi>"));
	if (row->subject == NULL || row->subject[0] == '\0')
		HTML(out, LIT("<i class=\"none\">No subject</i>"));
	else
		HTML(out, TEXT(row->subject));
	HTML(out, LIT("</bdi></a>"));
	view_part_test(out, row->test);
	HTML(out, LIT("</span><span class=\"c-inbox\">"));
	view_part_address(out, row->inbox);
	HTML(out, LIT("</span><span class=\"c-age\"><span class=\"word\">"
		      "submitted </span>"));
	view_part_age(out, shell->now_us, row->at_us);
	HTML(out,
	    LIT("</span><span class=\"c-left\"><span class=\"word\">changed "
		"</span>"));
	view_part_age(out, shell->now_us, row->changed_us);
	HTML(out, LIT("</span></li>\n"));
}

void
view_history(struct buf *out, const struct view_shell *shell,
    const struct view_history *history)
{
	struct view_shell wide = *shell;
	size_t i;

	wide.wide_id = "past";
	view_shell_start(out, &wide);
	put_head(out, history);
	if (history->row_count == 0)
		HTML(out,
		    LIT("<div class=\"empty\"><h2>Nothing here</h2><p>Mail is "
			"listed here once somebody or something decided it. "
			"What "
			"is old enough is removed; the audit log "
			"stays.</p></div>"));
	else
		HTML(out,
		    LIT("<div class=\"cols\" aria-hidden=\"true\"><span>State"
			"</span><span>To</span><span>Subject</span><span>From "
			"inbox</span><span>Submitted</span><span>Changed"
			"</span></div><ol class=\"rows\" id=\"rows\">\n"));
	for (i = 0; i < history->row_count; i++)
		put_row(out, shell, &history->rows[i]);
	HTML(out, LIT_IF(history->row_count > 0, "</ol>"));
	HTML(out, LIT("<nav class=\"pages\" aria-label=\"More\">"));
	if (!history->first)
		HTML(out, LIT("<a href=\"/history?show="), PATH(history->show),
		    LIT("\">First page</a>"));
	if (history->next != NULL) {
		HTML(out,
		    LIT("<a class=\"button\" rel=\"next\" "
			"href=\"/history?show="),
		    PATH(history->show), LIT("&amp;after="),
		    PATH(history->next));
		if (history->query != NULL)
			HTML(out, LIT("&amp;q="), PATH(history->query));
		HTML(out, LIT("\">"), LIT_IF(!history->stopped, "Next page"),
		    LIT_IF(history->stopped, "Search on"), LIT("</a>"));
	}
	HTML(out, LIT("</nav>"));
	view_shell_end(out, &wide);
}
