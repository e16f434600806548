/* SPDX-License-Identifier: ISC */
/*
 * view_box_lists.c - of one inbox: whom it may reach alone, whom never, keys
 */
#include <string.h>

#include "admin/html.h"
#include "admin/view_box.h"
#include "base/buf.h"

static void
put_end(struct buf *out, const struct view_shell *shell,
    const struct view_box *view, struct html_piece what, int64_t id)
{
	view_box_form(out, shell, view, what);
	HTML(out, LIT("<input type=\"hidden\" name=\"id\" value=\""), NUM(id),
	    LIT("\"><button class=\"quiet\">End</button></form>"));
}

static void
put_rule(struct buf *out, const struct view_shell *shell,
    const struct view_box *view, const struct box_allow *rule)
{
	HTML(out, LIT("<li><div><b>"));
	view_part_address(out, rule->entry);
	HTML(out, LIT("</b> <span class=\"muted\">"), NUM(rule->uses),
	    LIT(" uses left, ends in "));
	view_part_left(out, shell->now_us, rule->expires_us);
	HTML(out, LIT("</span><p class=\"small muted\">"), TEXT(rule->by_name),
	    LIT(": "), TEXT(rule->reason), LIT("</p></div>"));
	if (view->box->may_tighten)
		put_end(out, shell, view, LIT("allow-end"), rule->rule);
	HTML(out, LIT("</li>"));
}

static void
put_new_rule(struct buf *out, const struct view_shell *shell,
    const struct view_box *view)
{
	HTML(out, LIT("<details class=\"change\"><summary>Add a rule…"
		      "</summary>"));
	view_box_form(out, shell, view, LIT("allow"));
	HTML(out,
	    LIT("<label>Address or @domain<input name=\"entry\" required "
		"maxlength=\"320\" autocomplete=\"off\" "
		"autocapitalize=\"none\" spellcheck=\"false\"><small "
		"class=\"muted\">A domain takes the role senior; domains that "
		"anybody can have an address in are refused.</small></label>"
		"<div class=\"two\"><label>Uses<input name=\"uses\" required "
		"inputmode=\"numeric\" pattern=\"[0-9]+\" value=\"20\" "
		"maxlength=\"5\"></label><label>Days<input name=\"days\" "
		"required inputmode=\"numeric\" pattern=\"[0-9]+\" "
		"value=\"30\" maxlength=\"3\"></label></div>"
		"<label>Reason<input name=\"reason\" required "
		"maxlength=\"1000\"></label>"));
	view_part_step_up(out, shell, true);
	HTML(out, LIT("<button>Let mail there leave alone</button></form>"
		      "</details>"));
}

void
view_box_rules(struct buf *out, const struct view_shell *shell,
    const struct view_box *view)
{
	size_t i;

	HTML(out,
	    LIT("<section class=\"panel\" id=\"rules\"><h2>May reach without "
		"a person</h2>"));
	if (view->allows->n == 0)
		HTML(out, LIT("<p class=\"muted\">Nobody.</p>"));
	HTML(out, LIT("<ul class=\"entries\">"));
	for (i = 0; i < view->allows->n; i++)
		put_rule(out, shell, view, &view->allows->row[i]);
	HTML(out,
	    LIT("</ul><p class=\"small muted\">A rule applies only when every "
		"recipient is covered, nothing is attached, and nothing in "
		"the mail is a reason to look. When you end one, what it "
		"let through and is not sent yet is held again.</p>"));
	if (view->box->may_loosen)
		put_new_rule(out, shell, view);
	HTML(out, LIT("</section>"));
}

static void
put_block(struct buf *out, const struct view_shell *shell,
    const struct view_box *view, const struct box_block *block)
{
	HTML(out, LIT("<li><div><b>"));
	view_part_address(out, block->entry);
	HTML(out, LIT("</b> <span class=\"muted\">"),
	    LIT_IF(block->verdict == 's', "suppressed, "),
	    LIT_IF(block->tenant == 0, "everywhere"),
	    LIT_IF(block->tenant != 0 && block->inbox == 0, "in the tenant"),
	    LIT_IF(block->inbox != 0, "here"));
	if (block->expires_us != 0) {
		HTML(out, LIT(", ends in "));
		view_part_left(out, shell->now_us, block->expires_us);
	}
	HTML(out, LIT("</span><p class=\"small muted\">"), TEXT(block->reason),
	    LIT("</p></div>"));
	if (view->box->may_loosen && block->inbox != 0) {
		HTML(out, LIT("<details class=\"change\"><summary>End…"
			      "</summary>"));
		view_box_form(out, shell, view, LIT("block-end"));
		HTML(out, LIT("<input type=\"hidden\" name=\"id\" value=\""),
		    NUM(block->id),
		    LIT("\"><label>Reason<input name=\"reason\" required "
			"maxlength=\"1000\"></label>"));
		view_part_step_up(out, shell, true);
		HTML(out, LIT("<button>End the block</button></form>"
			      "</details>"));
	}
	HTML(out, LIT("</li>"));
}

void
view_box_blocks(struct buf *out, const struct view_shell *shell,
    const struct view_box *view)
{
	size_t i;

	HTML(out, LIT("<section class=\"panel\" id=\"blocks\"><h2>Never "
		      "reaches</h2>"));
	if (view->blocks->n == 0)
		HTML(out, LIT("<p class=\"muted\">No block.</p>"));
	HTML(out, LIT("<ul class=\"entries\">"));
	for (i = 0; i < view->blocks->n; i++)
		put_block(out, shell, view, &view->blocks->row[i]);
	HTML(out, LIT("</ul>"));
	if (view->box->may_tighten) {
		HTML(out, LIT("<details class=\"change\"><summary>Block "
			      "somebody…</summary>"));
		view_box_form(out, shell, view, LIT("block"));
		HTML(out,
		    LIT("<label>Address or @domain<input name=\"entry\" "
			"required maxlength=\"320\" autocomplete=\"off\" "
			"autocapitalize=\"none\" spellcheck=\"false\">"
			"</label><label>Days<input name=\"days\" "
			"inputmode=\"numeric\" pattern=\"[0-9]*\" "
			"maxlength=\"4\"><small class=\"muted\">Empty: for "
			"ever.</small></label><label>Reason<input "
			"name=\"reason\" required maxlength=\"1000\"></label>"
			"<button class=\"danger\">Block</button></form>"
			"</details>"));
	}
	HTML(out, LIT("</section>"));
}

static const char *
scope_words(const struct box_credential *key)
{
	if (key->kind == 's')
		return "session";
	switch (key->scope) {
	case 's':
		return "send";
	case 'r':
		return "read";
	default:
		return "full";
	}
}

static void
put_key(struct buf *out, const struct view_shell *shell,
    const struct view_box *view, const struct box_credential *key)
{
	bool over = key->revoked_us != 0 ||
		    (key->expires_us != 0 && key->expires_us < shell->now_us);

	HTML(out, LIT("<li><div><b>"), NUM(view->key.tenant), LIT("_"),
	    NUM(key->key), LIT("</b> <span class=\"chip\">"),
	    TEXT(scope_words(key)), LIT("</span> "));
	if (key->kind == 't')
		HTML(out, LIT("<span class=\"chip\">test</span> "));
	if (over)
		HTML(out, LIT("<span class=\"chip bad\">ended</span> "));
	HTML(out, TEXT(key->label), LIT("<p class=\"small muted\">made "));
	view_part_age(out, shell->now_us, key->created_us);
	HTML(out, LIT(" ago, "));
	if (key->used_us != 0) {
		HTML(out, LIT("used "));
		view_part_age(out, shell->now_us, key->used_us);
		HTML(out, LIT(" ago"));
	} else {
		HTML(out, LIT("never used"));
	}
	if (!over && key->expires_us != 0) {
		HTML(out, LIT(", ends in "));
		view_part_left(out, shell->now_us, key->expires_us);
	}
	HTML(out, LIT("</p></div>"));
	if (!over && view->box->may_loosen)
		put_end(out, shell, view, LIT("key-end"), key->key);
	HTML(out, LIT("</li>"));
}

void
view_box_keys(struct buf *out, const struct view_shell *shell,
    const struct view_box *view)
{
	const struct box *box = view->box;
	size_t i;

	HTML(out, LIT("<section class=\"panel\" id=\"keys-of\"><h2>Keys</h2>"));
	if (!box->claimed && box->claim_until_us == 0)
		HTML(out,
		    LIT("<p class=\"muted\">Not claimed, and the claim code "
			"has run out. A new code starts it.</p>"));
	else if (box->claim_until_us != 0) {
		HTML(out, LIT("<p class=\"muted\">A claim code waits to be "
			      "used, for "));
		view_part_left(out, shell->now_us, box->claim_until_us);
		HTML(out, LIT(".</p>"));
	}
	HTML(out, LIT("<ul class=\"entries\">"));
	for (i = 0; i < view->credentials->n; i++)
		put_key(out, shell, view, &view->credentials->row[i]);
	HTML(out, LIT("</ul><p class=\"small muted\">The agent makes its own "
		      "keys; nobody here can see or copy one.</p>"));
	if (box->may_admin) {
		HTML(out, LIT("<details class=\"change\"><summary>New claim "
			      "code…</summary>"));
		view_box_form(out, shell, view, LIT("reset"));
		HTML(out,
		    LIT("<p>All keys of this inbox end at once, and the agent "
			"cannot read its older messages any more. This is not "
			"undone.</p>"));
		view_part_step_up(out, shell, true);
		HTML(
		    out, LIT("<button class=\"danger\">End all keys and make a "
			     "code</button></form></details>"));
	}
	HTML(out, LIT("</section>"));
}
