/* SPDX-License-Identifier: ISC */
/*
 * view_shell.c - the frame of every page
 */
#include "admin/view.h"

#include <string.h>

#include "admin/assets.gen.h"
#include "admin/html.h"
#include "base/buf.h"

#define HELD_CAP 1000

struct nav_item {
	enum view_nav nav;
	struct html_piece open, label;
};

static void
put_head(struct buf *out, const struct view_shell *shell)
{
	HTML(out, LIT("<!doctype html>\n<html lang=\"en\">\n<head>\n"
		      "<meta charset=\"utf-8\">\n<title>"));
	if (shell->operator_name != NULL && shell->held > 0) {
		HTML(out, LIT("("));
		view_part_count(out, shell->held, HELD_CAP);
		HTML(out, LIT(") "));
	}
	HTML(out, TEXT(shell->title),
	    LIT(" · Postern</title>\n"
		"<meta name=\"viewport\" "
		"content=\"width=device-width, initial-scale=1\">\n"
		"<meta name=\"color-scheme\" content=\"light dark\">\n"
		"<link rel=\"icon\" href=\"" ASSET_ICON_SVG
		"\" type=\"image/svg+xml\">\n"
		"<link rel=\"stylesheet\" href=\"" ASSET_APP_CSS "\">\n"
		"<script type=\"module\" src=\"" ASSET_APP_JS
		"\"></script>\n</head>\n"));
}

static void
put_mark(struct buf *out)
{
	HTML(out,
	    LIT("<a class=\"mark\" href=\"/q\">"
		"<svg viewBox=\"0 0 16 16\" width=\"16\" height=\"16\" "
		"aria-hidden=\"true\"><path fill=\"currentColor\" d=\"M1 15V7a7"
		" 7 0 0 1 14 0v8h-3V7a4 4 0 0 0-8 0v8zM6.2 15V7.6a1.8 1.8 0 0 1"
		" 3.6 0V15z\"/></svg>Postern</a>"));
}

/* What a role can never open is not offered; the database decides. */
static bool
is_for(const struct view_shell *shell, enum view_nav nav)
{
	if (nav == VIEW_NAV_AUDIT)
		return shell->audits;
	if (nav == VIEW_NAV_TENANTS)
		return shell->config;
	return nav != VIEW_NAV_PEOPLE || shell->people;
}

static void
put_nav(struct buf *out, const struct view_shell *shell)
{
	const struct nav_item items[] = {
		{ VIEW_NAV_QUEUE, LIT("<a href=\"/q\""), LIT("Queue") },
		{ VIEW_NAV_HISTORY, LIT("<a href=\"/history\""),
		    LIT("History") },
		{ VIEW_NAV_INBOXES, LIT("<a href=\"/inboxes\""),
		    LIT("Inboxes") },
		{ VIEW_NAV_PAUSE, LIT("<a href=\"/pause\""), LIT("Pause") },
		{ VIEW_NAV_HEALTH, LIT("<a href=\"/health\""), LIT("Health") },
		{ VIEW_NAV_AUDIT, LIT("<a href=\"/audit\""), LIT("Audit") },
		{ VIEW_NAV_TENANTS, LIT("<a href=\"/tenants\""),
		    LIT("Tenants") },
		{ VIEW_NAV_PEOPLE, LIT("<a href=\"/operators\""),
		    LIT("Operators") },
	};
	size_t i;

	HTML(out, LIT("<nav aria-label=\"Pages\">"));
	for (i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
		if (!is_for(shell, items[i].nav))
			continue;
		HTML(out, items[i].open,
		    LIT_IF(
			items[i].nav == shell->nav, " aria-current=\"page\""),
		    LIT(">"), items[i].label);
		if (items[i].nav == VIEW_NAV_QUEUE) {
			HTML(out, LIT(" <span class=\"count\" id=\"held\""),
			    LIT_IF(shell->held == 0, " hidden"), LIT(">"));
			view_part_count(out, shell->held, HELD_CAP);
			HTML(out, LIT("</span>"));
		}
		HTML(out, LIT("</a>"));
	}
	HTML(out, LIT("</nav>"));
}

static void
put_top(struct buf *out, const struct view_shell *shell)
{
	HTML(out, LIT("<header class=\"top\">"));
	put_mark(out);
	if (shell->only != NULL)
		view_only(out, shell);
	if (shell->operator_name != NULL) {
		put_nav(out, shell);
		HTML(out,
		    LIT("<div class=\"me\"><span class=\"chip bad\" "
			"id=\"offline\" role=\"status\" hidden></span>"
			"<button type=\"button\" class=\"quiet keys\" "
			"id=\"help-open\" hidden "
			"aria-label=\"Keyboard keys\"><kbd>?</kbd></button>"
			"<a href=\"/account\""),
		    LIT_IF(shell->nav == VIEW_NAV_ACCOUNT,
			" aria-current=\"page\""),
		    LIT(">"), TEXT(shell->operator_name),
		    LIT("</a><form method=\"post\" action=\"/logout\">"));
		view_part_csrf(out, shell);
		HTML(out, LIT("<button class=\"quiet\">Sign out</button></form>"
			      "</div>"));
	}
	HTML(out, LIT("</header>\n"));
}

static void
put_pause(
    struct buf *out, const struct view_shell *shell, const struct view_pause *p)
{
	HTML(out, LIT("<p class=\"paused\"><b>"));
	if (strcmp(p->level, "global") == 0)
		HTML(out, LIT("All sending is paused."));
	else if (strcmp(p->level, "tenant") == 0)
		HTML(out, LIT("Tenant "), TEXT(p->name), LIT(" is paused."));
	else if (p->more > 0)
		HTML(out, NUM(p->more + 1), LIT(" inboxes are paused:</b> "),
		    TEXT(p->name), LIT(" and "), NUM(p->more),
		    LIT(" more.<b>"));
	else
		HTML(out, LIT("Inbox "), TEXT(p->name), LIT(" is paused."));
	HTML(out, LIT("</b> Nothing leaves "),
	    LIT_IF(p->name == NULL || p->name[0] == '\0', "at all."),
	    LIT_IF(p->name != NULL && p->name[0] != '\0', "from there."));
	if (p->more == 0)
		view_part_pause(out, shell->now_us, p);
	HTML(out, LIT(" <a href=\"/pause\">Resume…</a></p>"));
}

static void
put_undo(struct buf *out, const struct view_shell *shell)
{
	const struct view_undo *undo = shell->undo;

	HTML(out,
	    LIT("<section class=\"undo\" id=\"undo\" aria-label=\"Undo\" "
		"data-left=\""),
	    NUM(undo->left_s), LIT("\"><p>Approved <b><bdi>"),
	    TEXT(undo->label),
	    LIT("</bdi></b>. It leaves <span class=\"when\">in "
		"<span class=\"left\">"),
	    NUM(undo->left_s),
	    LIT("</span>&nbsp;s</span>.</p><progress max=\""),
	    NUM(undo->window_s), LIT("\" value=\""), NUM(undo->left_s),
	    LIT("\" aria-label=\"Seconds left\"></progress>"
		"<form method=\"post\" action=\"/m/"),
	    PATH(undo->id), LIT("/undo\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<input type=\"hidden\" name=\"version\" value=\""),
	    NUM(undo->version),
	    LIT("\"><input type=\"hidden\" name=\"round\" value=\""),
	    NUM(undo->round),
	    LIT("\"><button id=\"undo-button\">Undo <kbd>u</kbd></button>"
		"</form></section>"));
}

void
view_shell_start(struct buf *out, const struct view_shell *shell)
{
	size_t i;

	put_head(out, shell);
	HTML(out, LIT("<body"));
	if (shell->wide_id != NULL)
		HTML(out, LIT(" id=\""), ATTR(shell->wide_id), LIT("\""));
	if (shell->mark != NULL)
		HTML(out, LIT(" data-mark=\""), ATTR(shell->mark), LIT("\""));
	if (shell->only != NULL && shell->only->tenant != 0)
		HTML(out, LIT(" data-only=\""), NUM(shell->only->tenant),
		    LIT("\""));
	HTML(out, LIT_IF(shell->operator_name == NULL, " class=\"door\""),
	    LIT(">\n<a class=\"skip\" href=\"#main\">Skip to content</a>\n"));
	put_top(out, shell);
	for (i = 0; i < shell->pause_count; i++)
		put_pause(out, shell, &shell->pauses[i]);
	HTML(out, LIT("<div id=\"status\" role=\"status\">"));
	if (shell->notice != NULL)
		HTML(out, LIT("<p class=\"notice\">"), TEXT(shell->notice),
		    LIT("</p>"));
	if (shell->refusal != NULL)
		HTML(out, LIT("<p class=\"refusal\">"), TEXT(shell->refusal),
		    LIT("</p>"));
	if (shell->undo != NULL)
		put_undo(out, shell);
	HTML(out, LIT("</div>\n<main id=\"main\" tabindex=\"-1\">\n"));
}

void
view_shell_end(struct buf *out, const struct view_shell *shell)
{
	(void)shell;
	HTML(out, LIT("</main>\n</body>\n</html>\n"));
}
