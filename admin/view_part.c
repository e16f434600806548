/* SPDX-License-Identifier: ISC */
/*
 * view_part.c - small things that look the same on every page
 *
 * Labels are the words people read (decisions C1); states and modes keep
 * their API names in data attributes, so that scripts and tests never depend
 * on wording.
 */
#include "admin/view.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "admin/html.h"
#include "base/buf.h"
#include "policy/vocabulary.h"

#define US INT64_C(1000000)

const char *
view_state_label(const char *state)
{
	enum policy_state found;

	return state != NULL && policy_state_find(state, &found)
		   ? policy_state_label((int)found)
		   : state;
}

const char *
view_category_label(const char *category)
{
	enum policy_category found;

	return category != NULL && policy_category_find(category, &found)
		   ? policy_category_label((int)found)
		   : category;
}

const char *
view_hint_label(const char *hint)
{
	enum policy_hint found;

	return hint != NULL && policy_hint_find(hint, &found)
		   ? policy_hint_label((int)found)
		   : hint;
}

const char *
view_mode_label(int mode)
{
	const char *label = policy_mode_label(mode);

	return label != NULL ? label : "Unknown";
}

/* "2026-11-28 03:42:25 UTC" or, for machines, "2026-11-28T03:42:25Z". */
static void
format_utc(char s[40], bool machine, int64_t at_us)
{
	time_t at = (time_t)(at_us / US);
	struct tm tm = { 0 };

	gmtime_r(&at, &tm);
	if (machine)
		strftime(s, 40, "%Y-%m-%dT%H:%M:%SZ", &tm);
	else
		strftime(s, 40, "%Y-%m-%d %H:%M:%S UTC", &tm);
}

static void
open_time(struct buf *out, int64_t at_us)
{
	char iso[40], full[40];

	format_utc(iso, true, at_us);
	format_utc(full, false, at_us);
	HTML(out, LIT("<time datetime=\""), ATTR(iso), LIT("\" title=\""),
	    ATTR(full), LIT("\">"));
}

void
view_part_time(struct buf *out, int64_t at_us)
{
	char text[40];

	if (at_us == 0) {
		HTML(out, LIT("–"));
		return;
	}
	format_utc(text, false, at_us);
	open_time(out, at_us);
	HTML(out, TEXT(text), LIT("</time>"));
}

void
view_part_time_text(struct buf *out, int64_t at_us)
{
	char text[40];

	if (at_us == 0) {
		HTML(out, LIT("–"));
		return;
	}
	format_utc(text, false, at_us);
	HTML(out, TEXT(text));
}

/* 47 s, 12 min, 3 h, 5 d: one number, rounded down. */
static void
put_span(struct buf *out, int64_t span_us)
{
	int64_t s = span_us / US;

	if (s < 0)
		s = 0;
	if (s < 60)
		HTML(out, NUM(s), LIT("\302\240s"));
	else if (s < 60 * 60)
		HTML(out, NUM(s / 60), LIT("\302\240min"));
	else if (s < 48 * 60 * 60)
		HTML(out, NUM(s / 3600), LIT("\302\240h"));
	else
		HTML(out, NUM(s / 86400), LIT("\302\240d"));
}

void
view_part_age(struct buf *out, int64_t now_us, int64_t at_us)
{
	if (at_us == 0) {
		HTML(out, LIT("–"));
		return;
	}
	open_time(out, at_us);
	put_span(out, now_us - at_us);
	HTML(out, LIT("</time>"));
}

void
view_part_test(struct buf *out, bool test)
{
	if (test)
		HTML(out, LIT(" <span class=\"chip test\">test: nothing "
			      "leaves</span>"));
}

void
view_part_left(struct buf *out, int64_t now_us, int64_t until_us)
{
	if (until_us == 0) {
		HTML(out, LIT("–"));
		return;
	}
	open_time(out, until_us);
	if (until_us <= now_us)
		HTML(out, LIT("due"));
	else
		put_span(out, until_us - now_us);
	HTML(out, LIT("</time>"));
}

bool
view_part_is_late(int64_t now_us, int64_t at_us, int64_t expires_us)
{
	return expires_us > at_us && at_us > 0 &&
	       expires_us - now_us < (expires_us - at_us) / 4;
}

void
view_part_size(struct buf *out, int64_t bytes)
{
	char text[32];

	if (bytes < 1000)
		snprintf(text, sizeof(text), "%lld B", (long long)bytes);
	else if (bytes < 1000 * 1000)
		snprintf(text, sizeof(text), "%.1f kB", (double)bytes / 1e3);
	else
		snprintf(text, sizeof(text), "%.1f MB", (double)bytes / 1e6);
	HTML(out, TEXT(text));
}

void
view_part_risk(struct buf *out, enum view_risk risk)
{
	static const enum policy_risk of[] = { RISK_LOW, RISK_MEDIUM,
		RISK_HIGH };

	HTML(out, LIT("<span class=\"risk "), ATTR(policy_risk_name(of[risk])),
	    LIT("\"><i></i>"), TEXT(policy_risk_label(of[risk])),
	    LIT(" <span class=\"word\">risk</span></span>"));
}

void
view_part_state(struct buf *out, const char *state)
{
	HTML(out, LIT("<span class=\"state\" data-state=\""), ATTR(state),
	    LIT("\">"), TEXT(view_state_label(state)), LIT("</span>"));
}

void
view_part_doubt(struct buf *out, const char *state, bool doubt)
{
	const char *name = policy_state_name(STATE_UNCERTAIN);

	if (!doubt || (state != NULL && strcmp(state, name) == 0))
		return;
	HTML(out, LIT(" "));
	view_part_state(out, name);
}

void
view_part_pause(struct buf *out, int64_t now_us, const struct view_pause *pause)
{
	const char *who = pause->who;

	if (who != NULL && who[0] != '\0') {
		HTML(out, LIT(" Paused by "));
		if (strncmp(who, "ctl:", 4) == 0)
			HTML(out, LIT("posternctl, user "), TEXT(who + 4));
		else
			HTML(out, LIT("<bdi>"), TEXT(who), LIT("</bdi>"));
		HTML(out, LIT(" "));
		view_part_age(out, now_us, pause->at_us);
		HTML(out, LIT(" ago"));
	}
	if (pause->reason != NULL && pause->reason[0] != '\0')
		HTML(out, LIT(": <bdi class=\"why\">"), TEXT(pause->reason),
		    LIT("</bdi>"));
}

void
view_part_count(struct buf *out, int64_t n, int64_t cap)
{
	int64_t shown = n > cap ? cap : n;

	if (shown >= 1000)
		buf_printf(out, "%lld,%03lld", (long long)(shown / 1000),
		    (long long)(shown % 1000));
	else
		HTML(out, NUM(shown));
	if (n > cap)
		HTML(out, LIT("+"));
}

void
view_part_csrf(struct buf *out, const struct view_shell *shell)
{
	HTML(out, LIT("<input type=\"hidden\" name=\"csrf\" value=\""),
	    ATTR(shell->csrf), LIT("\">"));
}

void
view_part_step_up(struct buf *out, const struct view_shell *shell, bool always)
{
	if (shell->step_up)
		view_part_factor(out, shell, always);
}

static void
put_looser(struct buf *out, bool always)
{
	HTML(out,
	    LIT_IF(!always, "<small class=\"muted\">Only for what is looser."
			    "</small>"));
}

/* A passkey fills the hidden field and sends the form (app.js). */
static void
put_passkey(struct buf *out, const struct view_shell *shell)
{
	HTML(out,
	    LIT("<input type=\"hidden\" name=\"assertion\"><button "
		"type=\"button\" class=\"passkey\" data-passkey=\"s\" "
		"hidden>Confirm with a passkey</button>"),
	    LIT_IF(!shell->totp,
		"<noscript><p class=\"muted\">Passkeys need scripts. A "
		"recovery code works without.</p></noscript>"));
}

void
view_part_factor(struct buf *out, const struct view_shell *shell, bool always)
{
	if (!shell->totp && !shell->passkeys) {
		HTML(out,
		    LIT("<label>Your password again<input name=\"password\" "
			"type=\"password\" maxlength=\"1024\" "
			"autocomplete=\"current-password\""),
		    LIT_IF(always, " required"), LIT(">"));
		put_looser(out, always);
		HTML(out, LIT("</label>"));
		return;
	}
	HTML(out, LIT("<label>"),
	    LIT_IF(shell->totp, "Code of your authenticator app"),
	    LIT_IF(!shell->totp, "Recovery code"),
	    LIT("<input name=\"code\" class=\"once\" maxlength=\"32\" "
		"autocomplete=\"one-time-code\" spellcheck=\"false\" "
		"autocapitalize=\"none\""),
	    LIT_IF(shell->totp, " inputmode=\"numeric\""),
	    LIT_IF(always && !shell->passkeys, " required"), LIT(">"));
	put_looser(out, always);
	HTML(out, LIT("</label>"));
	if (shell->passkeys)
		put_passkey(out, shell);
}

void
view_part_error(struct buf *out, const char *error)
{
	if (error != NULL)
		HTML(out,
		    LIT("<p class=\"refusal\" role=\"alert\" id=\"error\" "
			"tabindex=\"-1\">"),
		    TEXT(error), LIT("</p>"));
}

/* The domain is what a reader must see: it is set stronger, never cut. */
void
view_part_address(struct buf *out, const char *address)
{
	const char *at = address ? strrchr(address, '@') : NULL;

	if (at == NULL) {
		HTML(out, LIT("<bdi class=\"addr\">"), TEXT(address),
		    LIT("</bdi>"));
		return;
	}
	HTML(out, LIT("<bdi class=\"addr\"><span class=\"local\">"),
	    TEXTN(address, (size_t)(at - address)),
	    LIT("</span><span class=\"at\">@"), TEXT(at + 1),
	    LIT("</span></bdi>"));
}

/* A recipient's fate; what is not decided yet has none. */
void
view_part_delivery(struct buf *out, int delivery)
{
	HTML(out, LIT("<span class=\"state\" data-delivery=\""),
	    ATTR(policy_delivery_name(delivery)), LIT("\">"),
	    TEXT(policy_delivery_label(delivery)), LIT("</span>"));
}

void
view_part_categories(struct buf *out, const char *chosen)
{
	int i;

	HTML(out, LIT("<fieldset class=\"cats\"><legend>Why</legend>"));
	for (i = 0; i < CATEGORY_COUNT; i++)
		HTML(out,
		    LIT("<label><input type=\"radio\" name=\"category\" "
			"required value=\""),
		    ATTR(policy_category_name(i)), LIT("\""),
		    LIT_IF(chosen != NULL &&
			       strcmp(chosen, policy_category_name(i)) == 0,
			" checked"),
		    LIT("><span>"), TEXT(policy_category_label(i)),
		    LIT(" <kbd>"), NUM(i + 1), LIT("</kbd></span></label>"));
	HTML(out, LIT("</fieldset>"));
}

void
view_part_hints(struct buf *out)
{
	int i;

	HTML(out, LIT("<label>What it should do<select name=\"hint\">"
		      "<option value=\"\">No hint</option>"));
	for (i = 0; i < HINT_COUNT; i++)
		HTML(out, LIT("<option value=\""), ATTR(policy_hint_name(i)),
		    LIT("\">"), TEXT(policy_hint_label(i)), LIT("</option>"));
	HTML(out, LIT("</select></label>"));
}
