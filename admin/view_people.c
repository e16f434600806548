/* SPDX-License-Identifier: ISC */
/*
 * view_people.c - operators and what each may do
 */
#include "admin/view_people.h"

#include <string.h>

#include "admin/html.h"
#include "base/buf.h"
#include "base/str.h"

static const struct {
	const char *name, *words;
} roles[] = {
	{ "reviewer", "decides, up to a risk" },
	{ "senior", "decides at any risk, and may loosen" },
	{ "admin", "configures; decides nothing" },
	{ "auditor", "reads everything, changes nothing" },
};
#define ROLES (sizeof(roles) / sizeof(roles[0]))

static void
put_scope(struct buf *out, const struct view_shell *shell,
    const struct view_operators *view, const struct people_scope *s)
{
	HTML(out, LIT("<li><div><b>"), TEXT(s->role), LIT("</b> over <bdi>"));
	if (s->inbox != 0)
		HTML(out, TEXT(s->address));
	else if (s->tenant != 0)
		HTML(out, LIT("tenant "), TEXT(s->tenant_slug));
	else
		HTML(out, LIT("everything"));
	HTML(out, LIT("</bdi>"));
	if (strcmp(s->role, "reviewer") == 0)
		HTML(out, LIT(" <span class=\"muted\">up to risk "),
		    NUM(s->risk_cap), LIT("</span>"));
	HTML(out, LIT("</div>"));
	if (view->may) {
		HTML(out, LIT("<form method=\"post\" action=\"/operators/"
			      "scope-end\">"));
		view_part_csrf(out, shell);
		HTML(out, LIT("<input type=\"hidden\" name=\"id\" value=\""),
		    NUM(s->id),
		    LIT("\"><button class=\"quiet\">Take away</button>"
			"</form>"));
	}
	HTML(out, LIT("</li>"));
}

static void
put_role_fields(struct buf *out, const struct view_operators *view)
{
	size_t i;

	HTML(out, LIT("<label>Role<select name=\"role\" required>"));
	for (i = 0; i < ROLES; i++)
		HTML(out, LIT("<option value=\""), ATTR(roles[i].name),
		    LIT("\">"), TEXT(roles[i].name), LIT(": "),
		    TEXT(roles[i].words), LIT("</option>"));
	HTML(out, LIT("</select></label><label>Over<select name=\"tenant\">"
		      "<option value=\"\">everything</option>"));
	for (i = 0; i < view->tenants->n; i++)
		HTML(out, LIT("<option value=\""),
		    NUM(view->tenants->row[i].tenant), LIT("\">tenant "),
		    TEXT(view->tenants->row[i].slug), LIT("</option>"));
	HTML(out, LIT("</select></label>"));
}

static void
put_give(struct buf *out, const struct view_shell *shell,
    const struct view_operators *view, const struct people_operator *p)
{
	HTML(
	    out, LIT("<details class=\"change\"><summary>Give a role…</summary>"
		     "<form method=\"post\" class=\"stack\" "
		     "action=\"/operators/scope\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<input type=\"hidden\" name=\"id\" value=\""),
	    NUM(p->id), LIT("\">"));
	put_role_fields(out, view);
	HTML(out,
	    LIT("<label>One inbox of it<input name=\"inbox\" "
		"inputmode=\"numeric\" pattern=\"[0-9]*\" maxlength=\"18\">"
		"<small class=\"muted\">The number behind the dot in the "
		"address of its page; empty: all.</small></label>"
		"<label>Reviewer up to risk<input name=\"risk_cap\" "
		"inputmode=\"numeric\" pattern=\"[0-9]*\" maxlength=\"3\" "
		"value=\"74\"></label>"));
	view_part_step_up(out, shell, true);
	HTML(out, LIT("<button>Give</button></form></details>"));
	if (p->id == view->me)
		return;
	HTML(out, LIT("<details class=\"change\"><summary>Lost second "
		      "factor…</summary><form method=\"post\" "
		      "class=\"stack\" action=\"/operators/factor-reset\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<input type=\"hidden\" name=\"name\" value=\""),
	    ATTR(p->name),
	    LIT("\"><p>All second factors and recovery codes of this operator "
		"end; the password alone signs in until new ones are made. "
		"Be sure who asked you.</p>"));
	view_part_step_up(out, shell, true);
	HTML(out, LIT("<button class=\"danger\">Remove them</button></form>"
		      "</details>"));
	HTML(out, LIT("<details class=\"change\"><summary>Shut out…</summary>"
		      "<form method=\"post\" class=\"stack\" "
		      "action=\"/operators/disable\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<input type=\"hidden\" name=\"name\" value=\""),
	    ATTR(p->name),
	    LIT("\"><p>All sessions end at once. What was decided "
		"stays.</p><button class=\"danger\">Shut out</button></form>"
		"</details>"));
}

static void
put_operator(struct buf *out, const struct view_shell *shell,
    const struct view_operators *view, const struct people_operator *p)
{
	size_t i;

	HTML(out, LIT("<section class=\"panel\" data-operator=\""),
	    ATTR(p->name), LIT("\"><h2><bdi>"), TEXT(p->name), LIT("</bdi>"),
	    LIT_IF(p->id == view->me, " <span class=\"chip\">you</span>"),
	    LIT_IF(p->disabled, " <span class=\"chip bad\">shut out</span>"),
	    LIT(" <span class=\"muted\">"));
	if (p->seen_us != 0) {
		HTML(out, LIT("signed in "));
		view_part_age(out, shell->now_us, p->seen_us);
		HTML(out, LIT(" ago"));
	} else {
		HTML(out, LIT("never signed in"));
	}
	HTML(out, LIT("</span></h2><ul class=\"entries\">"));
	for (i = 0; i < view->scopes->n; i++)
		if (view->scopes->row[i].operator_id == p->id)
			put_scope(out, shell, view, &view->scopes->row[i]);
	HTML(out, LIT("</ul>"));
	if (view->may && !p->disabled)
		put_give(out, shell, view, p);
	HTML(out, LIT("</section>"));
}

static void
put_new(struct buf *out, const struct view_shell *shell,
    const struct view_operators *view)
{
	HTML(out,
	    LIT("<section class=\"panel\" id=\"new\"><h2>New operator</h2>"
		"<details class=\"change\"><summary>Add somebody…</summary>"
		"<form method=\"post\" class=\"stack\" "
		"action=\"/operators\">"));
	view_part_csrf(out, shell);
	HTML(out,
	    LIT("<label>Name<input name=\"name\" required maxlength=\"64\" "
		"autocapitalize=\"none\" spellcheck=\"false\" "
		"pattern=\"[A-Za-z0-9][A-Za-z0-9._@\\-]*\" "
		"title=\"" STR_LOGIN_RULE "\" "
		"autocomplete=\"off\"></label><label>First password<input "
		"name=\"first\" type=\"password\" required minlength=\"12\" "
		"maxlength=\"1024\" autocomplete=\"new-password\"><small "
		"class=\"muted\">At least 12 characters; to be changed under "
		"Account.</small></label>"));
	put_role_fields(out, view);
	view_part_step_up(out, shell, true);
	HTML(out, LIT("<button>Add</button></form></details></section>"));
}

void
view_operators(struct buf *out, const struct view_shell *shell,
    const struct view_operators *view)
{
	size_t i;

	view_shell_start(out, shell);
	HTML(out, LIT("<div class=\"head\"><h1>Operators</h1></div>"));
	view_part_error(out, view->error);
	HTML(out, LIT("<div class=\"boxgrid\">"));
	for (i = 0; i < view->operators->n; i++)
		put_operator(out, shell, view, &view->operators->row[i]);
	if (view->may)
		put_new(out, shell, view);
	HTML(out, LIT("</div>"));
	view_shell_end(out, shell);
}
