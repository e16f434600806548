/* SPDX-License-Identifier: ISC */
/*
 * view_only.c - the choice of one tenant, in the head of every page
 *
 * A fold of buttons: two presses, without scripts too.
 */
#include "admin/html.h"
#include "admin/view.h"
#include "base/buf.h"

#define CAP 1000

static void
put_one(struct buf *out, int64_t key, bool chosen, const char *slug)
{
	HTML(out, LIT("<button name=\"tenant\" value=\""), NUM(key), LIT("\""),
	    LIT_IF(chosen, " aria-current=\"true\""), LIT(">"),
	    LIT_IF(slug == NULL, "All tenants"));
	if (slug != NULL)
		HTML(out, LIT("<bdi>"), TEXT(slug), LIT("</bdi>"));
}

void
view_only(struct buf *out, const struct view_shell *shell)
{
	const struct view_only *only = shell->only;
	size_t i;

	HTML(out, LIT("<details class=\"only"),
	    LIT_IF(only->tenant != 0, " on"),
	    LIT("\" id=\"only\"><summary><span class=\"vh\">Show only tenant: "
		"</span><bdi>"),
	    LIT_IF(only->tenant == 0, "All tenants"),
	    TEXT(only->tenant != 0 ? only->slug : ""),
	    LIT("</bdi></summary><form method=\"post\" action=\"/only\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<input type=\"hidden\" name=\"back\" value=\""),
	    ATTR(only->back), LIT("\">"));
	put_one(out, 0, only->tenant == 0, NULL);
	HTML(out, LIT("</button>"));
	for (i = 0; i < only->count; i++) {
		const struct view_tenant *t = &only->tenants[i];

		put_one(out, t->key, t->key == only->tenant, t->slug);
		if (t->held > 0) {
			HTML(out, LIT(" <span class=\"count\">"));
			view_part_count(out, t->held, CAP);
			HTML(out,
			    LIT("<span class=\"vh\"> waiting</span></span>"));
		}
		HTML(out, LIT("</button>"));
	}
	HTML(out, LIT("</form>"));
	if (only->count == 0) {
		HTML(out, LIT("<form method=\"post\" action=\"/only\">"));
		view_part_csrf(out, shell);
		HTML(out, LIT("<input type=\"hidden\" name=\"back\" value=\""),
		    ATTR(only->back),
		    LIT("\"><label>Only tenant<input name=\"slug\" required "
			"maxlength=\"64\" spellcheck=\"false\" "
			"autocapitalize=\"none\"></label>"
			"<button>Show</button></form>"));
	}
	HTML(out, LIT("</details>"));
}
