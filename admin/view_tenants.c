/* SPDX-License-Identifier: ISC */
/*
 * view_tenants.c - tenants and their domains
 */
#include <string.h>

#include "admin/html.h"
#include "admin/view_people.h"
#include "base/buf.h"

static void
put_domains(struct buf *out, const struct view_tenants *view, int64_t tenant)
{
	size_t i, n = 0;

	HTML(out, LIT("<h3>Domains</h3><ul class=\"entries\">"));
	for (i = 0; i < view->domains->n; i++) {
		const struct people_domain *d = &view->domains->row[i];

		if (d->tenant != tenant)
			continue;
		n++;
		HTML(out, LIT("<li><div><b><bdi>"), TEXT(d->domain),
		    LIT("</bdi></b> "));
		if (d->verified_us != 0)
			HTML(out, LIT("<span class=\"chip\">verified</span>"));
		else
			HTML(out,
			    LIT("<span class=\"chip warn\">not verified</span>"
				"<p class=\"small muted\">Set the TXT record "
				"<code>_postern."),
			    TEXT(d->domain),
			    LIT("</code> to <code>v=postern1; "
				"t="),
			    TEXT(d->token),
			    LIT("</code>, then <code>posternctl domain "
				"verify</code>.</p>"));
		HTML(out, LIT("</div></li>"));
	}
	HTML(out, LIT("</ul>"));
	if (n == 0)
		HTML(out, LIT("<p class=\"muted\">None yet: an inbox needs "
			      "one.</p>"));
}

static void
put_settings(struct buf *out, const struct view_shell *shell,
    const struct people_tenant *t)
{
	HTML(out,
	    LIT("<details class=\"change\"><summary>Change…</summary>"
		"<form method=\"post\" class=\"stack\" action=\"/tenants/"),
	    NUM(t->tenant), LIT("\">"));
	view_part_csrf(out, shell);
	HTML(out,
	    LIT("<label>Approvals a message needs<select name=\"need\">"
		"<option value=\"1\""),
	    LIT_IF(t->need == 1, " selected"),
	    LIT(">One person</option><option value=\"2\""),
	    LIT_IF(t->need == 2, " selected"),
	    LIT(">Two different persons</option></select></label>"
		"<label>Days a message waits before it expires<input "
		"name=\"days\" inputmode=\"numeric\" pattern=\"[0-9]*\" "
		"maxlength=\"3\"><small class=\"muted\">Empty: as it is."
		"</small></label>"
		"<label>The tenant<select name=\"disabled\"><option "
		"value=\"0\""),
	    LIT_IF(!t->disabled, " selected"),
	    LIT(">is open</option><option value=\"1\""),
	    LIT_IF(t->disabled, " selected"),
	    LIT(">is shut: its agents get nothing in</option></select>"
		"</label>"));
	view_part_step_up(out, shell, false);
	HTML(out,
	    LIT("<button>Save</button></form></details>"
		"<details class=\"change\"><summary>Add a domain…</summary>"
		"<form method=\"post\" class=\"stack\" action=\"/tenants/"),
	    NUM(t->tenant), LIT("/domain\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<label>Domain<input name=\"domain\" required "
		      "maxlength=\"253\" autocapitalize=\"none\" "
		      "spellcheck=\"false\"></label><button>Add</button></form>"
		      "</details>"));
}

static void
put_tenant(struct buf *out, const struct view_shell *shell,
    const struct view_tenants *view, const struct people_tenant *t)
{
	HTML(out, LIT("<section class=\"panel\" data-tenant=\""), ATTR(t->slug),
	    LIT("\"><h2>"), TEXT(t->slug), LIT(" <span class=\"muted\"><bdi>"),
	    TEXT(t->name), LIT("</bdi></span>"));
	if (t->paused)
		HTML(out, LIT(" <span class=\"chip warn\">paused</span>"));
	if (t->disabled)
		HTML(out, LIT(" <span class=\"chip bad\">shut</span>"));
	HTML(out, LIT("</h2><p>"), NUM(t->inboxes),
	    LIT_IF(t->inboxes == 1, " inbox, "),
	    LIT_IF(t->inboxes != 1, " inboxes, "));
	view_part_count(out, t->held, 999999);
	HTML(out, LIT(" waiting; a message needs "), NUM(t->need),
	    LIT_IF(t->need == 1, " approval"),
	    LIT_IF(t->need != 1, " approvals"), LIT(".</p>"));
	put_domains(out, view, t->tenant);
	if (shell->admin)
		put_settings(out, shell, t);
	HTML(out, LIT("</section>"));
}

static void
put_new(struct buf *out, const struct view_shell *shell)
{
	HTML(out,
	    LIT("<section class=\"panel\" id=\"new\"><h2>New tenant</h2>"
		"<p class=\"muted\">Inboxes of one tenant never reach those "
		"of another, and neither do its operators. Mail of each is "
		"sealed with a key of its own.</p>"
		"<details class=\"change\"><summary>Make a tenant…</summary>"
		"<form method=\"post\" class=\"stack\" action=\"/tenants\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<label>Short name<input name=\"slug\" required "
		      "pattern=\"[a-z][a-z0-9\\-]{1,31}\" maxlength=\"32\" "
		      "autocapitalize=\"none\" spellcheck=\"false\"><small "
		      "class=\"muted\">Small letters, digits, dashes.</small>"
		      "</label><label>Name<input name=\"name\" required "
		      "maxlength=\"200\"></label><button>Make</button></form>"
		      "</details></section>"));
}

void
view_tenants(struct buf *out, const struct view_shell *shell,
    const struct view_tenants *view)
{
	size_t i;

	view_shell_start(out, shell);
	HTML(out, LIT("<div class=\"head\"><h1>Tenants</h1></div>"));
	view_part_error(out, view->error);
	HTML(out, LIT("<div class=\"boxgrid\">"));
	for (i = 0; i < view->tenants->n; i++)
		put_tenant(out, shell, view, &view->tenants->row[i]);
	if (shell->admin && shell->people)
		put_new(out, shell);
	HTML(out, LIT("</div>"));
	view_shell_end(out, shell);
}
