/* SPDX-License-Identifier: ISC */
/*
 * view_account.c - one's own account: roles, sessions, password, keys
 */
#include "admin/html.h"
#include "admin/view_people.h"
#include "admin/view_second.h"
#include "base/buf.h"
#include "base/secret.h"
#include "base/str.h"

static void
put_session(struct buf *out, const struct view_shell *shell,
    const struct people_session *s)
{
	char ref[BASE32_LEN(sizeof(s->ref)) + 1];

	base32_encode(ref, s->ref, sizeof(s->ref));
	HTML(out, LIT("<li><div><b><bdi>"), TEXT(s->peer), LIT("</bdi></b> "),
	    LIT_IF(s->mine, "<span class=\"chip\">this one</span>"),
	    LIT("<p class=\"small muted\">signed in "));
	view_part_age(out, shell->now_us, s->created_us);
	HTML(out, LIT(" ago, used "));
	view_part_age(out, shell->now_us, s->touched_us);
	HTML(out, LIT(" ago, ends in "));
	view_part_left(out, shell->now_us, s->expires_us);
	HTML(out, LIT("</p></div>"));
	if (!s->mine) {
		HTML(out, LIT("<form method=\"post\" "
			      "action=\"/account/session-end\">"));
		view_part_csrf(out, shell);
		HTML(out, LIT("<input type=\"hidden\" name=\"ref\" value=\""),
		    ATTR(ref),
		    LIT("\"><button class=\"quiet\">End</button></form>"));
	}
	HTML(out, LIT("</li>"));
}

static void
put_sessions(struct buf *out, const struct view_shell *shell,
    const struct view_account *account)
{
	size_t i;

	HTML(out, LIT("<section class=\"panel\" id=\"sessions\"><h2>Sessions"
		      "</h2><ul class=\"entries\">"));
	for (i = 0; i < account->sessions->n; i++)
		put_session(out, shell, &account->sessions->row[i]);
	HTML(out, LIT("</ul><form method=\"post\" action=\"/logout\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<input type=\"hidden\" name=\"everywhere\" value=\"1\">"
		      "<button>Sign out everywhere</button></form></section>"));
}

static void
put_password(struct buf *out, const struct view_shell *shell)
{
	HTML(out,
	    LIT("<section class=\"panel\" id=\"password\"><h2>Password</h2>"
		"<details class=\"change\"><summary>Change…</summary><form "
		"method=\"post\" class=\"stack\" "
		"action=\"/account/password\">"));
	view_part_csrf(out, shell);
	HTML(out,
	    LIT("<label>The present one<input name=\"old\" type=\"password\" "
		"required maxlength=\"1024\" "
		"autocomplete=\"current-password\"></label><label>A new one"
		"<input name=\"new\" type=\"password\" required "
		"minlength=\"12\" maxlength=\"1024\" "
		"autocomplete=\"new-password\"><small class=\"muted\">At "
		"least 12 characters.</small></label><label>The new one again"
		"<input name=\"again\" type=\"password\" required "
		"maxlength=\"1024\" autocomplete=\"new-password\"></label>"
		"<button>Change it</button><p class=\"small muted\">Your "
		"other sessions end.</p></form></details></section>"));
}

/* "tenant:inbox:role" lines, where * is all. */
static void
put_roles(struct buf *out, struct str lines)
{
	HTML(out, LIT("<ul class=\"entries\">"));
	while (lines.n > 0) {
		struct str role = str_split(&lines, '\n');
		struct str tenant = str_split(&role, ':');
		struct str inbox = str_split(&role, ':');
		bool everything = str_eq(tenant, str_lit("*"));

		HTML(out, LIT("<li><div><b>"), TEXTN(role.p, role.n),
		    LIT("</b> over "), LIT_IF(everything, "everything"));
		if (!everything && !str_eq(inbox, str_lit("*")))
			HTML(out, LIT("inbox "), TEXTN(inbox.p, inbox.n),
			    LIT(" of "));
		if (!everything)
			HTML(out, LIT("tenant "), TEXTN(tenant.p, tenant.n));
		HTML(out, LIT("</div></li>"));
	}
	HTML(out, LIT("</ul>"));
}

void
view_account(struct buf *out, const struct view_shell *shell,
    const struct view_account *account)
{
	view_shell_start(out, shell);
	HTML(out, LIT("<div class=\"head\"><h1>"), TEXT(shell->operator_name),
	    LIT("</h1></div>"));
	view_part_error(out, account->error);
	HTML(out,
	    LIT("<div class=\"boxgrid\" id=\"account\"><div class=\"read\">"
		"<section class=\"panel\"><h2>Roles</h2>"));
	put_roles(out, str_of(account->roles));
	HTML(out,
	    LIT("<dl class=\"facts\"><dt>Signed out when idle</dt><dd>in "));
	view_part_left(out, shell->now_us, account->idle_us);
	HTML(out, LIT("</dd><dt>Signed out at the latest</dt><dd>in "));
	view_part_left(out, shell->now_us, account->expires_us);
	HTML(out, LIT("</dd></dl></section>"));
	view_factors(out, shell,
	    &(struct view_factors){ account->factors, account->state });
	put_password(out, shell);
	put_sessions(out, shell, account);
	HTML(out, LIT("</div><section class=\"panel\"><h2>Keys</h2>"
		      "<div id=\"keys\"><p class=\"muted\">Keyboard keys need "
		      "scripts.</p></div></section></div>"));
	view_shell_end(out, shell);
}
