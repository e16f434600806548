/* SPDX-License-Identifier: ISC */
/*
 * view_history.c - what became of it
 */
#include "admin/view.h"

#include <string.h>

#include "admin/html.h"
#include "base/buf.h"
#include "policy/vocabulary.h"

/* Changed since when. */
static const struct since {
	const char *name;
	struct html_piece label, words; /* words: behind "Nothing " */
} sinces[] = {
	{ "1d", LIT("24 hours"), LIT("of the last 24 hours") },
	{ "7d", LIT("7 days"), LIT("of the last 7 days") },
	{ "30d", LIT("30 days"), LIT("of the last 30 days") },
	{ "all", LIT("All time"), LIT("here") },
};
#define SINCES (sizeof(sinces) / sizeof(sinces[0]))

static const struct since *
find_since(const struct view_history *history)
{
	size_t i;

	for (i = 0; i + 1 < SINCES; i++)
		if (strcmp(sinces[i].name, history->since) == 0)
			break;
	return &sinces[i];
}

static void
put_since_link(
    struct buf *out, const struct view_history *history, const struct since *s)
{
	HTML(out, LIT("<a href=\"/history?show="), PATH(history->show),
	    LIT("&amp;since="), PATH(s->name));
	if (history->query != NULL)
		HTML(out, LIT("&amp;q="), PATH(history->query));
	HTML(out, LIT("\""),
	    LIT_IF(s == find_since(history), " aria-current=\"true\""),
	    LIT(">"), s->label, LIT("</a>"));
}

static void
put_since(struct buf *out, const struct view_history *history)
{
	size_t i;

	HTML(out, LIT("<nav class=\"sort\" id=\"since\" aria-label=\"Changed\">"
		      "<span class=\"muted\">Changed in</span>"));
	for (i = 0; i < SINCES; i++)
		put_since_link(out, history, &sinces[i]);
	HTML(out, LIT("</nav>"));
}

static void
put_filters(struct buf *out, const struct view_history *history)
{
	const struct {
		const char *name;
		struct html_piece label;
	} shows[] = {
		{ "all", LIT("All") },
		{ "underway", LIT("Under way") },
		{ "uncertain", TEXT(policy_state_label(STATE_UNCERTAIN)) },
		{ "bounced", TEXT(policy_state_label(STATE_BOUNCED)) },
		{ "decided", LIT("Rejected, expired, canceled") },
	};
	size_t i;

	HTML(out, LIT("<nav class=\"sort\" aria-label=\"Show\">"));
	for (i = 0; i < sizeof(shows) / sizeof(shows[0]); i++) {
		HTML(out, LIT("<a href=\"/history?show="), PATH(shows[i].name));
		if (history->since_given)
			HTML(out, LIT("&amp;since="), PATH(history->since));
		HTML(out, LIT("\""),
		    LIT_IF(strcmp(shows[i].name, history->show) == 0,
			" aria-current=\"true\""),
		    LIT(">"), shows[i].label, LIT("</a>"));
	}
	HTML(out, LIT("</nav>"));
}

static void
put_head(struct buf *out, const struct view_history *history)
{
	HTML(out, LIT("<div class=\"head\"><div><h1>History</h1>"));
	put_filters(out, history);
	put_since(out, history);
	HTML(out,
	    LIT("</div><form class=\"search\" role=\"search\" "
		"action=\"/history\"><label class=\"vh\" for=\"find\">Search "
		"the history</label><input id=\"find\" name=\"q\" "
		"type=\"search\" maxlength=\"200\" spellcheck=\"false\" "
		"placeholder=\"Address, @domain, subject or id\" value=\""),
	    ATTR(history->query),
	    LIT("\"><input type=\"hidden\" name=\"show\" value=\""),
	    ATTR(history->show), LIT("\">"));
	if (history->since_given)
		HTML(out, LIT("<input type=\"hidden\" name=\"since\" value=\""),
		    ATTR(history->since), LIT("\">"));
	HTML(out, LIT("<button>Search</button></form></div>"));
}

/* Where a window ends: what lies behind it. */
static void
put_wider(struct buf *out, const struct view_history *history)
{
	const struct since *now = find_since(history), *s = now + 1;

	if (s >= sinces + SINCES)
		return;
	HTML(out,
	    LIT("<p class=\"muted\" id=\"wider\">Only what changed in that "
		"time is shown. Show more: "));
	for (; s < sinces + SINCES; s++) {
		HTML(out, LIT_IF(s != now + 1, " · "));
		put_since_link(out, history, s);
	}
	HTML(out, LIT("</p>"));
}

static void
put_empty(struct buf *out, const struct view_history *history)
{
	HTML(out, LIT("<div class=\"empty\"><h2>Nothing "),
	    find_since(history)->words,
	    LIT("</h2><p>Mail is listed here once somebody or something "
		"decided it. What is old enough is removed; the audit log "
		"stays.</p></div>"));
}

static void
put_pages(struct buf *out, const struct view_history *history)
{
	HTML(out, LIT("<nav class=\"pages\" aria-label=\"More\">"));
	if (!history->first)
		HTML(out, LIT("<a href=\"/history?show="), PATH(history->show),
		    LIT("&amp;since="), PATH(history->since),
		    LIT("\">First page</a>"));
	if (history->next != NULL) {
		HTML(out,
		    LIT("<a class=\"button\" rel=\"next\" "
			"href=\"/history?show="),
		    PATH(history->show), LIT("&amp;since="),
		    PATH(history->since), LIT("&amp;after="),
		    PATH(history->next));
		if (history->query != NULL)
			HTML(out, LIT("&amp;q="), PATH(history->query));
		HTML(out, LIT("\">"), LIT_IF(!history->stopped, "Next page"),
		    LIT_IF(history->stopped, "Search on"), LIT("</a>"));
	}
	HTML(out, LIT("</nav>"));
}

static void
put_row(struct buf *out, const struct view_shell *shell,
    const struct view_history_row *row)
{
	HTML(out, LIT("<li class=\"row\" data-id=\""), ATTR(row->id),
	    LIT("\"><span class=\"c-state\">"));
	view_part_state(out, row->state);
	view_part_doubt(out, row->state, row->doubt);
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
	    LIT("<span class=\"word\"> ago</span></span>"
		"<span class=\"c-left\"><span class=\"word\">changed </span>"));
	view_part_age(out, shell->now_us, row->changed_us);
	HTML(out, LIT("<span class=\"word\"> ago</span></span></li>\n"));
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
		put_empty(out, history);
	else
		HTML(out,
		    LIT("<div class=\"cols\" aria-hidden=\"true\"><span>State"
			"</span><span>To</span><span>Subject</span><span>From "
			"inbox</span><span>Submitted</span><span>Changed"
			"</span></div><ol class=\"rows\" id=\"rows\">\n"));
	for (i = 0; i < history->row_count; i++)
		put_row(out, shell, &history->rows[i]);
	HTML(out, LIT_IF(history->row_count > 0, "</ol>"));
	if (history->next == NULL)
		put_wider(out, history);
	put_pages(out, history);
	view_shell_end(out, &wide);
}
