/* SPDX-License-Identifier: ISC */
/*
 * view_decide.c - the panel that decides
 *
 * A form carries version, round and fingerprint of exactly what this page
 * shows; the database refuses it if any of them changed. How many steps an
 * approval takes grows with the risk: one button, a fold that names the
 * recipients, or that fold with a domain to type.
 */
#include "admin/view.h"

#include <string.h>

#include "admin/html.h"
#include "admin/view_message.h"
#include "base/buf.h"
#include "policy/vocabulary.h"

static void
put_binding(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	view_part_csrf(out, shell);
	HTML(out, LIT("<input type=\"hidden\" name=\"version\" value=\""),
	    NUM(m->version),
	    LIT("\"><input type=\"hidden\" name=\"round\" value=\""),
	    NUM(m->round),
	    LIT("\"><input type=\"hidden\" name=\"digest\" value=\""),
	    ATTR(m->digest), LIT("\">"));
	HTML(out, LIT("<input type=\"hidden\" name=\"opened\" value=\""),
	    NUM(m->opened_us),
	    LIT("\"><input type=\"hidden\" name=\"once\" value=\""),
	    ATTR(m->once), LIT("\">"));
	if (m->next != NULL)
		HTML(out, LIT("<input type=\"hidden\" name=\"next\" value=\""),
		    ATTR(m->next), LIT("\">"));
}

static void
put_send_label(struct buf *out, const struct view_message *m)
{
	if (m->test) {
		HTML(out, LIT("Approve: nothing leaves"));
		return;
	}
	HTML(out, LIT("Send to "), NUM(m->to_send));
	if (m->to_send != m->rcpt_count)
		HTML(out, LIT(" of "), NUM(m->rcpt_count));
	HTML(out, LIT_IF(m->rcpt_count == 1, " recipient"),
	    LIT_IF(m->rcpt_count != 1, " recipients"));
}

static void
put_named(struct buf *out, const struct view_message *m)
{
	size_t i;

	HTML(out, LIT("<ul class=\"named\">"));
	for (i = 0; i < m->rcpt_count && i < VIEW_RCPTS_SEEN; i++) {
		HTML(out, LIT("<li>"));
		view_part_address(out, m->rcpts[i].address);
		if (m->rcpts[i].kind == VIEW_RCPT_BCC)
			HTML(out, LIT(" <span class=\"chip warn\">Bcc</span>"));
		view_message_listed(out, &m->rcpts[i]);
		HTML(out, LIT("</li>"));
	}
	if (m->rcpt_count > VIEW_RCPTS_SEEN)
		HTML(out, LIT("<li><a href=\"#who\">and "),
		    NUM(m->rcpt_count - VIEW_RCPTS_SEEN),
		    LIT(" more</a></li>"));
	HTML(out, LIT("</ul>"));
}

static void
put_domain(struct buf *out)
{
	HTML(out, LIT("<label>Type the domain of one recipient"
		      "<input name=\"domain\" required autocomplete=\"off\" "
		      "autocapitalize=\"none\" spellcheck=\"false\" "
		      "maxlength=\"255\"></label>"));
}

/* For later: when it leaves, and whether an approval lasts until then. */
static void
put_later(struct buf *out, const struct view_message *m)
{
	HTML(out, LIT("<p class=\"small\">It leaves at "));
	view_part_time(out, m->send_at_us);
	HTML(out, LIT(", not before.</p>"));
	if (m->lapses_us >= m->send_at_us)
		return;
	HTML(out,
	    LIT("<p class=\"refusal\">Too early: an approval lapses before "
		"that, at "));
	view_part_time(out, m->lapses_us);
	HTML(out, LIT("; then it waits here again.</p>"));
}

void
view_message_listed(struct buf *out, const struct view_rcpt *rcpt)
{
	if (rcpt->listed != NULL)
		HTML(out, LIT(" <span class=\"chip bad\">"), TEXT(rcpt->listed),
		    LIT(": gets nothing</span>"));
}

/* Lists are asked again when it leaves; what is lifted by then is sent. */
static void
put_listed(struct buf *out, const struct view_message *m)
{
	if (m->listed_count == 0)
		return;
	HTML(out, LIT("<p class=\"small\" id=\"listed\">"),
	    NUM(m->listed_count), LIT_IF(m->listed_count == 1, " recipient is"),
	    LIT_IF(m->listed_count != 1, " recipients are"),
	    LIT(" suppressed or blocked: nothing goes there, unless that ends "
		"before the mail leaves.</p>"));
}

static void
put_window(struct buf *out, const struct view_message *m)
{
	put_listed(out, m);
	if (m->test)
		HTML(out, LIT("<p class=\"small\" id=\"captured\">Mail of a "
			      "test inbox: approved, it goes into the store of "
			      "captures and to nobody.</p>"));
	if (m->send_at_us > m->opened_us)
		put_later(out, m);
	else if (m->undo_s > 0)
		HTML(out, LIT("<p class=\"small muted\">It leaves after "),
		    NUM(m->undo_s), LIT(" s; until then you can undo.</p>"));
}

/* The passkey signs the fingerprint; there is no way around it. */
static void
put_sign(struct buf *out, const struct view_message *m)
{
	HTML(out,
	    LIT("<input type=\"hidden\" name=\"signs\" value=\"1\">"
		"<input type=\"hidden\" name=\"id\" value=\""),
	    ATTR(m->id),
	    LIT("\"><input type=\"hidden\" name=\"verdict\" value=\"a\">"
		"<input type=\"hidden\" name=\"assertion\"><button "
		"type=\"button\" class=\"primary passkey\" "
		"data-passkey=\"a\" hidden id=\"approve-button\">"));
	put_send_label(out, m);
	HTML(out, LIT(" with your passkey</button><noscript><p "
		      "class=\"muted\">Its risk is high and you have a "
		      "passkey, which needs scripts.</p></noscript>"));
	put_window(out, m);
	HTML(out, LIT("</form></details>"));
}

static void
put_approve(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	bool fold = m->risk != VIEW_RISK_LOW;

	if (fold)
		HTML(out,
		    LIT("<details class=\"approve\" id=\"approve\" "
			"name=\"verdict\"><summary class=\"primary\">Approve "
			"<kbd>a</kbd></summary>"));
	HTML(out, LIT("<form method=\"post\" action=\"/m/"), PATH(m->id),
	    LIT("/decide\" class=\"stack\" id=\"approve-form\" data-risk=\""),
	    NUM(m->risk), LIT("\">"));
	put_binding(out, shell, m);
	if (fold)
		put_named(out, m);
	if (m->risk == VIEW_RISK_HIGH)
		put_domain(out);
	if (m->sign) {
		put_sign(out, m);
		return;
	}
	if (m->ask_password)
		view_part_factor(out, shell, true);
	HTML(out, LIT("<button class=\"primary\" name=\"verdict\" value=\"a\" "
		      "id=\"approve-button\">"));
	put_send_label(out, m);
	HTML(out, LIT_IF(!fold, " <kbd>a</kbd>"), LIT_IF(fold, " <kbd>↵</kbd>"),
	    LIT("</button>"));
	put_window(out, m);
	HTML(out, LIT("</form>"));
	if (fold)
		HTML(out, LIT("</details>"));
}

static void
put_reject(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	HTML(out,
	    LIT("<details class=\"reject\" id=\"reject\" name=\"verdict\""),
	    LIT_IF(m->typed_note != NULL, " open"),
	    LIT("><summary>Reject <kbd>r</kbd></summary>"
		"<form method=\"post\" action=\"/m/"),
	    PATH(m->id), LIT("/decide\" class=\"stack\" id=\"reject-form\">"));
	put_binding(out, shell, m);
	view_part_categories(out, m->category);
	HTML(out,
	    LIT("<label>Note to the agent <small class=\"muted\">it reads this "
		"word for word</small><textarea name=\"note\" rows=\"3\" "
		"maxlength=\"1000\">"),
	    LINES(m->typed_note), LIT("</textarea></label>"));
	view_part_hints(out);
	HTML(out,
	    LIT("<button class=\"danger\" name=\"verdict\" value=\"r\" "
		"id=\"reject-button\">Reject <kbd>Ctrl ↵</kbd></button>"
		"<p class=\"small muted\">Nothing is sent. The agent is told "
		"at once; this cannot be undone.</p></form></details>"));
}

static void
put_decided(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	HTML(out, LIT("<p class=\"decided\">"));
	view_part_state(out, m->state);
	view_part_doubt(out, m->state, m->doubt);
	if (m->verdict != NULL) {
		HTML(out, LIT(" "),
		    TEXT(policy_state_label(m->verdict[0] == VERDICT_APPROVE
						? STATE_APPROVED
						: STATE_REJECTED)),
		    LIT(" by <b>"), TEXT(m->decided_by), LIT("</b>, "));
		view_part_age(out, shell->now_us, m->decided_us);
		HTML(out, LIT(" ago"));
	}
	HTML(out, LIT("</p>"));
	if (m->category != NULL && m->category[0] != '\0')
		HTML(out, LIT("<p><b>"), TEXT(view_category_label(m->category)),
		    LIT("</b></p>"));
	if (m->decision_note != NULL && m->decision_note[0] != '\0')
		HTML(out, LIT("<blockquote>"), LINES(m->decision_note),
		    LIT("</blockquote>"));
	if (m->hint != NULL && m->hint[0] != '\0')
		HTML(out, LIT("<p class=\"muted\">The agent was told: "),
		    TEXT(view_hint_label(m->hint)), LIT("</p>"));
	if (m->may_undo) {
		HTML(out, LIT("<form method=\"post\" action=\"/m/"),
		    PATH(m->id), LIT("/undo\">"));
		view_part_csrf(out, shell);
		HTML(out,
		    LIT("<input type=\"hidden\" name=\"version\" value=\""),
		    NUM(m->version),
		    LIT("\"><input type=\"hidden\" name=\"round\" "
			"value=\""),
		    NUM(m->round),
		    LIT("\"><button>Undo: hold it again</button></form>"));
	}
	view_message_settle(out, shell, m);
}

void
view_message_decide(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	HTML(out, LIT("<section class=\"decide\" id=\"decide\">"
		      "<h2 class=\"vh\">Decide</h2>"));
	if (strcmp(m->state, "held") != 0)
		put_decided(out, shell, m);
	if (m->why_not != NULL)
		HTML(out, LIT("<p class=\"refusal\">"), TEXT(m->why_not),
		    LIT("</p>"));
	if (m->may_approve && !m->reject_only)
		put_approve(out, shell, m);
	if (m->may_reject)
		put_reject(out, shell, m);
	HTML(out, LIT("</section>"));
}

static void
put_digest(struct buf *out, const char *digest)
{
	const char *hex = digest ? strchr(digest, ':') : NULL;
	size_t i, n;

	if (hex == NULL) {
		HTML(out, TEXT(digest));
		return;
	}
	hex++;
	n = strlen(hex);
	HTML(out, TEXTN(digest, (size_t)(hex - digest)));
	for (i = 0; i < n; i += 8)
		HTML(out, LIT("<wbr>"), TEXTN(hex + i, n - i < 8 ? n - i : 8));
}

void
view_message_facts(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	HTML(out, LIT("<dl class=\"facts\" id=\"facts\"><dt>Fingerprint</dt>"
		      "<dd><code class=\"digest\">"));
	put_digest(out, m->digest);
	HTML(out, LIT("</code></dd><dt>Version</dt><dd>"), NUM(m->version));
	if (m->round > 1)
		HTML(out, LIT(", round "), NUM(m->round));
	HTML(out, LIT("</dd><dt>Size</dt><dd>"));
	view_part_size(out, m->size);
	HTML(out, LIT("</dd><dt>Submitted</dt><dd>"));
	view_part_time(out, m->at_us);
	if (m->expires_us != 0) {
		HTML(out, LIT("</dd><dt>Expires</dt><dd>"));
		view_part_time(out, m->expires_us);
	}
	if (m->send_at_us != 0) {
		HTML(out, LIT("</dd><dt>Not sent before</dt><dd>"));
		view_part_time(out, m->send_at_us);
	}
	if (m->not_after_us != 0) {
		HTML(out, LIT("</dd><dt>Never sent after</dt><dd>"));
		view_part_time(out, m->not_after_us);
	}
	if (m->mode != NULL)
		HTML(out, LIT("</dd><dt>Inbox mode</dt><dd>"), TEXT(m->mode));
	HTML(out, LIT("</dd><dt>Id</dt><dd><code class=\"id\">"), TEXT(m->id),
	    LIT("</code></dd></dl>"));
	(void)shell;
}

/* As much of put_send_label() as there is room for. */
static void
put_bar_label(struct buf *out, const struct view_message *m)
{
	if (m->test || m->to_send == m->rcpt_count)
		HTML(out, LIT("Approve"));
	else
		HTML(out, LIT("Send to "), NUM(m->to_send), LIT(" of "),
		    NUM(m->rcpt_count));
}

void
view_message_bar(struct buf *out, const struct view_message *m)
{
	if (!m->may_approve && !m->may_reject)
		return;
	HTML(out, LIT("<nav class=\"bar\" aria-label=\"Decide\">"));
	if (m->may_reject)
		HTML(out, LIT("<a class=\"button\" href=\"#reject-form\">Reject"
			      "</a>"));
	/* What has nothing to fill in is sent from here. */
	if (m->may_approve && !m->reject_only && m->risk == VIEW_RISK_LOW &&
	    !m->sign && !m->ask_password) {
		HTML(out, LIT("<button class=\"button primary\" "
			      "form=\"approve-form\" name=\"verdict\" "
			      "value=\"a\">"));
		put_bar_label(out, m);
		HTML(out, LIT("</button>"));
	} else if (m->may_approve && !m->reject_only) {
		HTML(out,
		    LIT("<a class=\"button primary\" href=\"#approve-form\">"
			"Approve</a>"));
	}
	HTML(out, LIT("</nav>"));
}
