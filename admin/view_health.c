/* SPDX-License-Identifier: ISC */
/*
 * view_health.c - figures and charts, drawn here as SVG
 *
 * Every chart has its table beside it, and a figure that is not known is a
 * dash, never a zero.
 */
#include <string.h>

#include "admin/html.h"
#include "admin/view_watch.h"
#include "base/buf.h"

#define WIDE 20 /* of an hour, in the units of the drawing */
#define HIGH 100
#define HOUR_US (INT64_C(3600) * 1000000)

static const struct watch_fact *
find(const struct watch_facts *facts, const char *what, const char *label)
{
	size_t i;

	for (i = 0; i < facts->n; i++)
		if (strcmp(facts->row[i].what, what) == 0 &&
		    strcmp(facts->row[i].label, label) == 0)
			return &facts->row[i];
	return NULL;
}

static void
put_seconds(struct buf *out, int64_t s)
{
	if (s < 120)
		HTML(out, NUM(s), LIT("\302\240s"));
	else if (s < 7200)
		HTML(out, NUM(s / 60), LIT("\302\240min"));
	else if (s < 172800)
		HTML(out, NUM(s / 3600), LIT("\302\240h"));
	else
		HTML(out, NUM(s / 86400), LIT("\302\240d"));
}

static void
put_figure(struct buf *out, const struct view_health *health, const char *label,
    struct html_piece words, bool is_time, int64_t bad)
{
	const struct watch_fact *f = find(health->facts, "number", label);

	HTML(out, LIT("<div><dt>"), words, LIT("</dt><dd"),
	    LIT_IF(bad != 0 && f != NULL && f->known && f->n >= bad,
		" class=\"bad\""),
	    LIT(">"));
	if (f == NULL || !f->known)
		HTML(out, LIT("<span class=\"none\">–</span>"));
	else if (is_time)
		put_seconds(out, f->n);
	else
		view_part_count(out, f->n, 999999);
	HTML(out, LIT("</dd></div>"));
}

static void
put_figures(struct buf *out, const struct view_health *health)
{
	HTML(out, LIT("<dl class=\"figures\">"));
	put_figure(
	    out, health, "oldest_seconds", LIT("Waits longest"), true, 432000);
	put_figure(
	    out, health, "median_seconds", LIT("Median decision"), true, 0);
	put_figure(out, health, "sending", LIT("Leaving now"), false, 0);
	put_figure(out, health, "deferred", LIT("Tried again later"), false, 0);
	put_figure(out, health, "uncertain", LIT("Fate not known"), false, 1);
	put_figure(
	    out, health, "alarms", LIT("Inboxes with an alarm"), false, 1);
	put_figure(out, health, "unsealed_seconds", LIT("Audit not sealed for"),
	    true, 600);
	put_figure(
	    out, health, "weeks_ahead", LIT("Weeks of room ahead"), false, 0);
	HTML(out, LIT("</dl>"));
}

static int64_t
top_of(const struct view_hours *h)
{
	int64_t top = 0;
	int i;

	for (i = 0; i < VIEW_HOURS; i++) {
		if (h->a[i] > top)
			top = h->a[i];
		if (h->b[i] > top)
			top = h->b[i];
	}
	return top;
}

static void
put_bar(
    struct buf *out, struct html_piece name, int64_t x, int64_t v, int64_t top)
{
	int64_t high = v > 0 ? (v * (HIGH - 2) + top - 1) / top : 0;

	if (high == 0)
		return;
	HTML(out, LIT("<rect class=\""), name, LIT("\" x=\""), NUM(x),
	    LIT("\" y=\""), NUM(HIGH - high), LIT("\" width=\"8\" height=\""),
	    NUM(high), LIT("\"/>"));
}

static void
put_drawing(
    struct buf *out, const struct view_hours *h, struct html_piece title)
{
	int64_t top = top_of(h);
	int i;

	HTML(out,
	    LIT("<svg class=\"bars\" viewBox=\"0 0 480 102\" "
		"preserveAspectRatio=\"none\" role=\"img\" aria-label=\""),
	    title,
	    LIT(", by hour of the last day; the table below has the numbers\">"
		"<path class=\"axis\" d=\"M0 101H480\"/>"));
	for (i = 0; i < VIEW_HOURS; i++) {
		put_bar(out, LIT("a"), i * WIDE + 1, h->a[i], top);
		put_bar(out, LIT("b"), i * WIDE + 10, h->b[i], top);
	}
	HTML(out,
	    LIT("</svg><p class=\"axis small muted\"><span>24 h ago"
		"</span><span>highest "),
	    NUM(top), LIT("</span><span>now</span></p>"));
}

static void
put_hours(struct buf *out, const struct view_hours *h, struct html_piece title,
    struct html_piece a, struct html_piece b)
{
	int i;

	HTML(out, LIT("<section class=\"panel chart\"><h2>"), title,
	    LIT("</h2><p class=\"legend\"><span class=\"a\">"), a,
	    LIT("</span> <span class=\"b\">"), b, LIT("</span></p>"));
	put_drawing(out, h, title);
	HTML(out,
	    LIT("<details class=\"change\"><summary>As a table</summary>"
		"<table><thead><tr><th scope=\"col\">Hour</th><th "
		"scope=\"col\" class=\"num\">"),
	    a, LIT("</th><th scope=\"col\" class=\"num\">"), b,
	    LIT("</th></tr></thead><tbody>"));
	for (i = 0; i < VIEW_HOURS; i++) {
		HTML(out, LIT("<tr><th scope=\"row\">"));
		view_part_time(out, h->from_us + i * HOUR_US);
		HTML(out, LIT("</th><td class=\"num\">"), NUM(h->a[i]),
		    LIT("</td><td class=\"num\">"), NUM(h->b[i]),
		    LIT("</td></tr>"));
	}
	HTML(out, LIT("</tbody></table></details></section>"));
}

static void
put_waiting(struct buf *out, const struct view_health *health)
{
	static const char *const bands[] = { "high", "medium", "low" };
	const enum view_risk risks[] = { VIEW_RISK_HIGH, VIEW_RISK_MEDIUM,
		VIEW_RISK_LOW };
	const struct watch_fact *f[3];
	int64_t top = 1;
	int i;

	for (i = 0; i < 3; i++) {
		f[i] = find(health->facts, "risk", bands[i]);
		if (f[i] != NULL && f[i]->n > top)
			top = f[i]->n;
	}
	HTML(out, LIT("<section class=\"panel\"><h2>Waiting, by risk</h2>"
		      "<table class=\"lines\"><tbody>"));
	for (i = 0; i < 3; i++) {
		int64_t n = f[i] != NULL ? f[i]->n : 0;

		HTML(out, LIT("<tr><th scope=\"row\">"));
		view_part_risk(out, risks[i]);
		HTML(out,
		    LIT("</th><td class=\"line\"><svg viewBox=\"0 0 100 8\" "
			"preserveAspectRatio=\"none\" aria-hidden=\"true\">"
			"<rect class=\"a\" width=\""),
		    NUM(n * 100 / top),
		    LIT("\" height=\"8\"/></svg></td><td class=\"num\">"));
		view_part_count(out, n, 1000);
		HTML(out, LIT("</td></tr>"));
	}
	HTML(out, LIT("</tbody></table></section>"));
}

static void
put_people(struct buf *out, const struct view_health *health)
{
	size_t i, n = 0;

	HTML(out,
	    LIT("<section class=\"panel\"><h2>Decisions of the last day</h2>"
		"<table><thead><tr><th scope=\"col\">Who</th><th "
		"scope=\"col\" class=\"num\">Decided</th><th scope=\"col\" "
		"class=\"num\">Approved</th><th scope=\"col\" "
		"class=\"num\">Under 3 s</th></tr></thead><tbody>"));
	for (i = 0; i < health->facts->n; i++) {
		const struct watch_fact *f = &health->facts->row[i];

		if (strcmp(f->what, "person") != 0)
			continue;
		n++;
		HTML(out, LIT("<tr><th scope=\"row\"><bdi>"), TEXT(f->label),
		    LIT("</bdi></th><td class=\"num\">"), NUM(f->n),
		    LIT("</td><td class=\"num\">"), NUM(f->m * 100 / f->n),
		    LIT("\302\240%</td><td class=\"num\">"), NUM(f->x),
		    LIT("</td></tr>"));
	}
	if (n == 0)
		HTML(out,
		    LIT("<tr><td colspan=\"4\" class=\"muted\">Nobody decided "
			"anything.</td></tr>"));
	HTML(out,
	    LIT("</tbody></table><p class=\"small muted\">Many approvals in "
		"under three seconds mean that nobody reads any more: let "
		"rules send what is harmless.</p></section>"));
}

static void
put_domains(struct buf *out, const struct view_health *health)
{
	size_t i, n = 0;

	HTML(
	    out, LIT("<section class=\"panel\"><h2>Waiting for another try</h2>"
		     "<table><thead><tr><th scope=\"col\">Domain</th><th "
		     "scope=\"col\" class=\"num\">Recipients</th></tr></thead>"
		     "<tbody>"));
	for (i = 0; i < health->facts->n; i++) {
		const struct watch_fact *f = &health->facts->row[i];

		if (strcmp(f->what, "domain") != 0)
			continue;
		n++;
		HTML(out, LIT("<tr><th scope=\"row\"><bdi>"), TEXT(f->label),
		    LIT("</bdi></th><td class=\"num\">"), NUM(f->n),
		    LIT("</td></tr>"));
	}
	if (n == 0)
		HTML(out, LIT("<tr><td colspan=\"2\" class=\"muted\">None."
			      "</td></tr>"));
	HTML(out, LIT("</tbody></table></section>"));
}

void
view_health(struct buf *out, const struct view_shell *shell,
    const struct view_health *health)
{
	view_shell_start(out, shell);
	HTML(out,
	    LIT("<div class=\"head\"><div><h1>Health</h1><p class=\"sub\">"
		"<span>What your role reaches, in UTC; of the last day at most "
		"the newest 20,000 messages</span></p></div></div>"));
	put_figures(out, health);
	HTML(out, LIT("<div class=\"boxgrid\">"));
	put_hours(out, &health->sent, LIT("Submitted and sent"),
	    LIT("submitted"), LIT("of them sent"));
	put_hours(out, &health->decided, LIT("Decided"), LIT("approved"),
	    LIT("rejected"));
	put_waiting(out, health);
	put_people(out, health);
	put_domains(out, health);
	HTML(out, LIT("</div>"));
	view_shell_end(out, shell);
}
