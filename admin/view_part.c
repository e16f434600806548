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

#define US INT64_C(1000000)

struct label {
	const char *name, *text;
};

static const struct label states[] = {
	{ "held", "Held" },
	{ "approved", "Approved" },
	{ "rejected", "Rejected" },
	{ "expired", "Expired" },
	{ "canceled", "Canceled" },
	{ "scheduled", "Scheduled" },
	{ "sending", "Sending" },
	{ "sent", "Sent" },
	{ "deferred", "Will retry" },
	{ "bounced", "Bounced" },
	{ "uncertain", "May have been sent" },
};

static const struct label categories[] = {
	{ "wrong_recipient", "Wrong recipient" },
	{ "wrong_content", "Wrong content" },
	{ "policy", "Against policy" },
	{ "sensitive_data", "Sensitive data" },
	{ "suspicious", "Suspicious" },
	{ "duplicate", "Duplicate" },
	{ "other", "Other" },
};

static const char *
find_label(const struct label *labels, size_t n, const char *name)
{
	size_t i;

	for (i = 0; name != NULL && i < n; i++)
		if (strcmp(labels[i].name, name) == 0)
			return labels[i].text;
	return name;
}

const char *
view_state_label(const char *state)
{
	return find_label(states, sizeof(states) / sizeof(states[0]), state);
}

const char *
view_category_label(const char *category)
{
	return find_label(
	    categories, sizeof(categories) / sizeof(categories[0]), category);
}

const char *
view_mode_label(int mode)
{
	static const char *const labels[] = {
		"Blocked",
		"Hold both ways",
		"Hold outgoing",
		"Send and copy",
		"Send within limits",
	};

	if (mode < 0 || mode >= (int)(sizeof(labels) / sizeof(labels[0])))
		return "Unknown";
	return labels[mode];
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
	switch (risk) {
	case VIEW_RISK_LOW:
		HTML(out, LIT("<span class=\"risk low\"><i></i>Low</span>"));
		break;
	case VIEW_RISK_MEDIUM:
		HTML(out,
		    LIT("<span class=\"risk medium\"><i></i>Medium</span>"));
		break;
	case VIEW_RISK_HIGH:
		HTML(out, LIT("<span class=\"risk high\"><i></i>High</span>"));
		break;
	}
}

void
view_part_state(struct buf *out, const char *state)
{
	HTML(out, LIT("<span class=\"state\" data-state=\""), ATTR(state),
	    LIT("\">"), TEXT(view_state_label(state)), LIT("</span>"));
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

void
view_part_categories(struct buf *out, const char *chosen)
{
	size_t i;

	HTML(out, LIT("<fieldset class=\"cats\"><legend>Why</legend>"));
	for (i = 0; i < sizeof(categories) / sizeof(categories[0]); i++)
		HTML(out,
		    LIT("<label><input type=\"radio\" name=\"category\" "
			"required value=\""),
		    ATTR(categories[i].name), LIT("\""),
		    LIT_IF(chosen != NULL &&
			       strcmp(chosen, categories[i].name) == 0,
			" checked"),
		    LIT("><span>"),
		    TEXT(view_category_label(categories[i].name)),
		    LIT(" <kbd>"), NUM(i + 1), LIT("</kbd></span></label>"));
	HTML(out, LIT("</fieldset>"));
}
