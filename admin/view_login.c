/* SPDX-License-Identifier: ISC */
/*
 * view_login.c - the doors: sign-in, first run, and pages that only say why
 */
#include "admin/view.h"

#include "admin/html.h"
#include "base/buf.h"
#include "base/str.h"

static void
put_error(struct buf *out, const char *error)
{
	if (error == NULL)
		return;
	HTML(out,
	    LIT("<p class=\"refusal\" role=\"alert\" id=\"error\" "
		"tabindex=\"-1\">"),
	    TEXT(error), LIT("</p>"));
}

void
view_login(struct buf *out, const struct view_login *login)
{
	const struct view_shell shell = { .title = "Sign in" };

	view_shell_start(out, &shell);
	HTML(out, LIT("<section class=\"card\"><h1>Sign in</h1>"));
	put_error(out, login->error);
	HTML(out,
	    LIT("<form method=\"post\" action=\"/login\" class=\"stack\">"
		"<label>Name<input name=\"name\" required maxlength=\"64\" "
		"autocomplete=\"username\" autocapitalize=\"none\" "
		"spellcheck=\"false\" value=\""),
	    ATTR(login->name),
	    LIT("\"></label>"
		"<label>Password<input name=\"password\" type=\"password\" "
		"required maxlength=\"1024\" "
		"autocomplete=\"current-password\"></label>"
		"<input type=\"hidden\" name=\"return_to\" value=\""),
	    ATTR(login->return_to),
	    LIT("\"><button class=\"primary\">Sign in</button></form>"
		"<p class=\"muted small\">Accounts are made by another "
		"operator, or with <code>posternctl operator create</code>. "
		"There is no default password.</p></section>"));
	view_shell_end(out, &shell);
}

static void
put_setup_form(struct buf *out, const struct view_setup *setup)
{
	HTML(out,
	    LIT("<p>Nobody can sign in yet. Make the first operator: it may "
		"do everything, so it is made only by someone who can read the "
		"setup token on the server.</p>"
		"<form method=\"post\" action=\"/setup\" class=\"stack\">"
		"<label>Setup token<input name=\"token\" required "
		"autocomplete=\"off\" spellcheck=\"false\" maxlength=\"128\" "
		"value=\""),
	    ATTR(setup->token),
	    LIT("\"><small class=\"muted\">The file <code>setup-token</code> "
		"in the state folder holds it.</small></label>"
		"<label>Name<input name=\"name\" required maxlength=\"64\" "
		"autocomplete=\"username\" autocapitalize=\"none\" "
		"pattern=\"[A-Za-z0-9][A-Za-z0-9._@\\-]*\" "
		"title=\"" STR_LOGIN_RULE "\" spellcheck=\"false\" value=\""),
	    ATTR(setup->name),
	    LIT("\"></label>"
		"<label>Password<input name=\"password\" type=\"password\" "
		"required minlength=\"12\" maxlength=\"1024\" "
		"autocomplete=\"new-password\"><small class=\"muted\">At least "
		"12 characters. A sentence is fine.</small></label>"
		"<label>Password again<input name=\"again\" type=\"password\" "
		"required maxlength=\"1024\" autocomplete=\"new-password\">"
		"</label><button class=\"primary\">Make the first operator"
		"</button></form>"));
}

void
view_setup(struct buf *out, const struct view_setup *setup)
{
	const struct view_shell shell = { .title = "First run" };

	view_shell_start(out, &shell);
	HTML(out, LIT("<section class=\"card\"><h1>First run</h1>"));
	put_error(out, setup->error);
	if (setup->closed)
		HTML(out,
		    LIT("<p>An operator exists already, so the setup token is "
			"used up. Further operators are made with "
			"<code>posternctl operator create</code>.</p>"
			"<p><a class=\"button\" href=\"/login\">Sign in</a>"
			"</p>"));
	else
		put_setup_form(out, setup);
	HTML(out, LIT("</section>"));
	view_shell_end(out, &shell);
}

static void
put_again(struct buf *out, const struct view_shell *shell,
    const struct view_problem *problem)
{
	size_t i;

	HTML(out, LIT("<form method=\"post\" id=\"again\" action=\""),
	    ATTR(problem->again_at), LIT("\">"));
	view_part_csrf(out, shell);
	for (i = 0; i < problem->again_count; i++)
		HTML(out, LIT("<input type=\"hidden\" name=\""),
		    ATTR(problem->again[i].name), LIT("\" value=\""),
		    ATTR(problem->again[i].value), LIT("\">"));
	HTML(out, LIT("<button class=\"primary\">Try again</button></form>"));
}

void
view_problem(struct buf *out, const struct view_shell *shell,
    const struct view_problem *problem)
{
	struct view_shell named = *shell;

	named.title = problem->heading;
	view_shell_start(out, &named);
	HTML(out, LIT("<section class=\"card\"><h1 data-code=\""),
	    NUM(problem->code), LIT("\">"), TEXT(problem->heading),
	    LIT("</h1><p>"), TEXT(problem->text), LIT("</p>"));
	if (problem->again_at != NULL)
		put_again(out, shell, problem);
	if (problem->typed != NULL && problem->typed[0] != '\0')
		HTML(out,
		    LIT("<label>What you typed: copy it before you go on"
			"<textarea readonly id=\"typed\" rows=\"4\">"),
		    LINES(problem->typed), LIT("</textarea></label>"));
	if (problem->link != NULL)
		HTML(out, LIT("<p><a class=\"button\" href=\""),
		    ATTR(problem->link), LIT("\">"), TEXT(problem->link_label),
		    LIT("</a></p>"));
	HTML(out, LIT("<p class=\"muted small\">"), NUM(problem->code));
	if (problem->name != NULL && problem->name[0] != '\0')
		HTML(out, LIT(" <code>"), TEXT(problem->name), LIT("</code>"));
	if (problem->request_id != NULL)
		HTML(out, LIT(" · Request <code>"), TEXT(problem->request_id),
		    LIT("</code>"));
	HTML(out, LIT("</p>"));
	HTML(out, LIT("</section>"));
	view_shell_end(out, &named);
}
