/* SPDX-License-Identifier: ISC */
/*
 * view_watch.c - the audit log: who did what, newest first
 */
#include "admin/view_watch.h"

#include <string.h>

#include "admin/html.h"
#include "base/buf.h"
#include "base/uuid.h"

static void
put_search(struct buf *out, const struct view_audit *audit)
{
	HTML(out,
	    LIT("<form class=\"filters\" role=\"search\" action=\"/audit\">"
		"<label>Who<input name=\"who\" maxlength=\"64\" "
		"autocapitalize=\"none\" spellcheck=\"false\" "
		"placeholder=\"name, agent, worker, policy\" value=\""),
	    ATTR(audit->who),
	    LIT("\"></label><label>What<input name=\"what\" maxlength=\"64\" "
		"autocapitalize=\"none\" spellcheck=\"false\" "
		"placeholder=\"message, inbox.mode, …\" value=\""),
	    ATTR(audit->what),
	    LIT("\"></label><label>Message<input name=\"message\" "
		"maxlength=\"30\" autocapitalize=\"none\" "
		"spellcheck=\"false\" placeholder=\"msg_…\" value=\""),
	    ATTR(audit->message),
	    LIT("\"></label><button>Search</button></form>"));
}

static void
put_actor(struct buf *out, const struct watch_row *row)
{
	if (row->by_name[0] != '\0')
		HTML(out, LIT("<b><bdi>"), TEXT(row->by_name),
		    LIT("</bdi></b>"));
	else
		HTML(out, LIT("<bdi>"), TEXT(row->actor), LIT("</bdi>"));
	if (strstr(row->actor, "@ctl:") != NULL)
		HTML(out, LIT(" <span class=\"chip\">posternctl</span>"));
}

static void
put_row(struct buf *out, const struct watch_row *row)
{
	char id[UUID_ID_MAX];

	HTML(out, LIT("<tr><td data-label=\"When\">"));
	view_part_time(out, row->at_us);
	HTML(out, LIT("</td><td data-label=\"Who\">"));
	put_actor(out, row);
	HTML(out, LIT("</td><th scope=\"row\"><code>"), TEXT(row->event),
	    LIT("</code>"));
	if (!row->sealed)
		HTML(out, LIT(" <span class=\"chip\">not sealed yet</span>"));
	HTML(out, LIT("</th><td data-label=\"Tenant\">"),
	    TEXT(row->tenant_slug),
	    LIT("</td><td class=\"detail\" data-label=\"Detail\">"));
	if (row->has_message) {
		uuid_to_id(id, "msg_", &row->message);
		HTML(out, LIT("<a href=\"/m/"), PATH(id), LIT("\">"), TEXT(id),
		    LIT("</a> "));
	}
	if (strcmp(row->detail, "{}") != 0)
		HTML(out, LIT("<code><bdi>"), TEXT(row->detail),
		    LIT("</bdi></code>"));
	HTML(out, LIT("</td></tr>\n"));
}

static void
put_next(struct buf *out, const struct view_audit *audit)
{
	HTML(out, LIT("<nav class=\"pages\" aria-label=\"More\">"));
	if (!audit->first)
		HTML(out, LIT("<a href=\"/audit\">Newest</a>"));
	if (audit->next != NULL) {
		HTML(out,
		    LIT("<a class=\"button\" rel=\"next\" "
			"href=\"/audit?before="),
		    PATH(audit->next));
		if (audit->who != NULL)
			HTML(out, LIT("&amp;who="), PATH(audit->who));
		if (audit->what != NULL)
			HTML(out, LIT("&amp;what="), PATH(audit->what));
		if (audit->message != NULL)
			HTML(out, LIT("&amp;message="), PATH(audit->message));
		HTML(out, LIT("\">Older</a>"));
	}
	HTML(out, LIT("</nav>"));
}

void
view_audit(struct buf *out, const struct view_shell *shell,
    const struct view_audit *audit)
{
	size_t i;

	view_shell_start(out, shell);
	HTML(
	    out, LIT("<div class=\"head\"><div><h1>Audit</h1><p class=\"sub\">"
		     "<span>Every submission, decision and change, chained and "
		     "sealed. <code>posternctl audit verify</code> checks it."
		     "</span></p></div></div>"));
	put_search(out, audit);
	if (audit->rows->n == 0)
		HTML(out, LIT("<div class=\"empty\"><h2>Nothing fits</h2><p>"
			      "A search reads the newest 20,000 rows at a time."
			      "</p></div>"));
	else
		HTML(out,
		    LIT("<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
			"aria-label=\"Audit\"><table class=\"tall\" "
			"id=\"log\"><thead><tr><th scope=\"col\">When</th>"
			"<th scope=\"col\">Who</th><th scope=\"col\">What</th>"
			"<th scope=\"col\">Tenant</th><th scope=\"col\">Detail"
			"</th></tr></thead><tbody>\n"));
	for (i = 0; i < audit->rows->n; i++)
		put_row(out, &audit->rows->row[i]);
	HTML(out, LIT_IF(audit->rows->n > 0, "</tbody></table></div>"));
	put_next(out, audit);
	view_shell_end(out, shell);
}
