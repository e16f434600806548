/* SPDX-License-Identifier: ISC */
/*
 * view_delivery.c - what the other side said, recipient by recipient and try
 * by try. All of its words are untrusted.
 */
#include "admin/view.h"

#include <string.h>

#include "admin/html.h"
#include "admin/view_message.h"
#include "base/buf.h"

static bool
is_given(const char *s)
{
	return s != NULL && s[0] != '\0';
}

static bool
is_host(const char *mx)
{
	return is_given(mx) && strcmp(mx, "none") != 0 &&
	       strcmp(mx, "capture") != 0;
}

void
view_message_fate(struct buf *out, const struct view_shell *shell,
    const struct view_rcpt *rcpt)
{
	HTML(out, LIT("<span class=\"fate\">"));
	view_part_delivery(out, rcpt->delivery);
	if (rcpt->attempts > 1)
		HTML(out, LIT(" <span class=\"muted\">after "),
		    NUM(rcpt->attempts), LIT(" tries</span>"));
	if (rcpt->next_us != 0) {
		HTML(out, LIT(" <span class=\"muted\">next try in "));
		view_part_left(out, shell->now_us, rcpt->next_us);
		HTML(out, LIT("</span>"));
	}
	if (is_given(rcpt->reply))
		HTML(out, LIT(" <code class=\"reply\">"), TEXT(rcpt->reply),
		    LIT("</code>"));
	HTML(out, LIT("</span>"));
}

/* How far it came. The recipients' rows say what the answer meant. */
static void
put_reach(struct buf *out, const struct view_attempt *a)
{
	if (a->dot_us != 0 && a->ended_us != 0)
		HTML(out, LIT("all of it was handed over"));
	else if (a->dot_us != 0)
		HTML(out, LIT("handed over, the answer is awaited"));
	else if (a->ended_us != 0)
		HTML(out, LIT("ended before all of it was handed over"));
	else
		HTML(out, LIT("under way"));
}

static void
put_attempt(struct buf *out, const struct view_attempt *a)
{
	HTML(out, LIT("<li>"));
	view_part_time(out, a->at_us);
	/* "none" and "capture" are written where there was none */
	if (is_host(a->mx))
		HTML(out, LIT(" <b><bdi>"), TEXT(a->mx), LIT("</bdi></b>"));
	else
		HTML(out, LIT(" <b>no host</b>"));
	if (is_given(a->mx) && strcmp(a->mx, "capture") == 0)
		HTML(out, LIT(" captured, not sent"));
	HTML(out, LIT(" <span class=\"muted\">for <bdi>"), TEXT(a->domain),
	    LIT("</bdi></span>"));
	if (is_given(a->tls) && strcmp(a->tls, "none") != 0)
		HTML(out, LIT(" <span class=\"chip\">"), TEXT(a->tls),
		    LIT("</span>"));
	else if (is_host(a->mx))
		HTML(out, LIT(" <span class=\"chip warn\">no TLS</span>"));
	HTML(out, LIT(" <span class=\"detail\">"));
	put_reach(out, a);
	if (is_given(a->result))
		HTML(out, LIT(" <code class=\"reply\">"), TEXT(a->result),
		    LIT("</code>"));
	HTML(out, LIT("</span></li>"));
}

/* What put_attempt() says, as a line of text: many are one element. */
static void
put_attempt_line(struct buf *out, const struct view_attempt *a)
{
	view_part_time_text(out, a->at_us);
	HTML(out, LIT("  "), TEXT(is_host(a->mx) ? a->mx : "no host"),
	    LIT("  for "), TEXT(a->domain), LIT("  "));
	if (is_given(a->mx) && strcmp(a->mx, "capture") == 0)
		HTML(out, LIT("captured, not sent  "));
	if (is_given(a->tls) && strcmp(a->tls, "none") != 0)
		HTML(out, TEXT(a->tls), LIT("  "));
	else if (is_host(a->mx))
		HTML(out, LIT("no TLS  "));
	put_reach(out, a);
	if (is_given(a->result))
		HTML(out, LIT("  "), TEXT(a->result));
	HTML(out, LIT("\n"));
}

static void
put_earlier(struct buf *out, const struct view_message *m, size_t n)
{
	size_t i;

	HTML(out, LIT("<details id=\"earlier\"><summary>and "), NUM(n),
	    LIT(" more before these</summary><pre class=\"lines\" "
		"tabindex=\"0\" role=\"region\" aria-label=\"Earlier "
		"tries\">"));
	for (i = 0; i < n; i++)
		put_attempt_line(out, &m->attempts[i]);
	HTML(out, LIT("</pre></details>"));
}

void
view_message_delivery(struct buf *out, const struct view_message *m)
{
	const size_t first = m->attempt_count > VIEW_TRIES_ROWS
				 ? m->attempt_count - VIEW_TRIES_ROWS
				 : 0;
	size_t i;

	if (m->attempt_count == 0)
		return;
	HTML(out,
	    LIT("<section class=\"panel\" id=\"delivery\"><h2>Delivery "
		"<span class=\"muted\">"),
	    LIT_IF(m->attempt_count >= VIEW_TRIES_MAX, "the newest "),
	    NUM(m->attempt_count), LIT_IF(m->attempt_count == 1, " try"),
	    LIT_IF(m->attempt_count != 1, " tries"), LIT("</span></h2>"));
	if (first > 0)
		put_earlier(out, m, first);
	HTML(out, LIT("<ol class=\"events\">"));
	for (i = first; i < m->attempt_count; i++)
		put_attempt(out, &m->attempts[i]);
	HTML(out, LIT("</ol></section>"));
}
