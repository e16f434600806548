/* SPDX-License-Identifier: ISC */
/*
 * view_settle.c - mail on its way: cancel it, or say what became of it
 *
 * After a broken connection nobody can know whether the other side took the
 * message. It is never sent again by itself; a person who has asked, or who
 * accepts that it may arrive twice, says here what is so.
 */
#include "admin/view.h"

#include "admin/html.h"
#include "admin/view_message.h"
#include "base/buf.h"
#include "policy/vocabulary.h"

static bool
is_uncertain(const struct view_rcpt *rcpt)
{
	return rcpt->delivery == DELIVERY_UNCERTAIN;
}

static size_t
count_uncertain(const struct view_message *m)
{
	size_t i, n = 0;

	for (i = 0; i < m->rcpt_count; i++)
		n += is_uncertain(&m->rcpts[i]);
	return n;
}

static void
put_tick(struct buf *out, const struct view_rcpt *rcpt)
{
	HTML(out,
	    LIT("<label><input type=\"checkbox\" name=\"ix\" checked "
		"value=\""),
	    NUM(rcpt->ix), LIT("\"><span>"));
	view_part_address(out, rcpt->address);
	HTML(out, LIT("</span></label>"));
}

/* Those behind the ticks, as "21-40,43": one field, however many they are. */
static void
put_rest(struct buf *out, const struct view_message *m, size_t skip)
{
	size_t i, n = 0;
	int first = 0, last = 0;

	for (i = 0; i < m->rcpt_count; i++) {
		const int ix = m->rcpts[i].ix;

		if (!is_uncertain(&m->rcpts[i]) || n++ < skip)
			continue;
		if (first != 0 && ix == last + 1) {
			last = ix;
			continue;
		}
		if (first != 0)
			HTML(out, NUM(first), LIT("-"), NUM(last), LIT(","));
		first = last = ix;
	}
	HTML(out, NUM(first), LIT("-"), NUM(last));
}

static void
put_page_link(struct buf *out, const struct view_message *m, size_t from,
    struct html_piece label)
{
	HTML(out, LIT("<a href=\"/m/"), PATH(m->id), LIT("?settle="), NUM(from),
	    LIT("#settle-form\">"), label, LIT("</a> "));
}

/* Of many only some at a time; the rest in one, or on the next pages. */
static void
put_more(struct buf *out, const struct view_message *m, size_t all)
{
	const size_t from = m->settle_from;
	const size_t end = all - from > VIEW_TICKS ? from + VIEW_TICKS : all;

	if (from == 0) {
		HTML(out,
		    LIT("<label><input type=\"checkbox\" name=\"rest\" checked "
			"value=\""));
		put_rest(out, m, VIEW_TICKS);
		HTML(out, LIT("\"><span>and "), NUM(all - VIEW_TICKS),
		    LIT(" more</span></label>"));
	}
	HTML(out, LIT("<p class=\"small\" id=\"settle-pages\">"), NUM(from + 1),
	    LIT("–"), NUM(end), LIT(" of "), NUM(all), LIT(". "));
	if (from > 0)
		put_page_link(out, m, from > VIEW_TICKS ? from - VIEW_TICKS : 0,
		    LIT("Previous"));
	if (end < all)
		put_page_link(
		    out, m, end, LIT("Tick the next ones one by one"));
	HTML(out, LIT("</p>"));
}

static void
put_ticks(struct buf *out, const struct view_message *m)
{
	const size_t all = count_uncertain(m);
	size_t i, n = 0;

	HTML(out, LIT("<fieldset class=\"cats\"><legend>Recipients</legend>"));
	for (i = 0; i < m->rcpt_count; i++) {
		if (!is_uncertain(&m->rcpts[i]))
			continue;
		if (n >= m->settle_from && n < m->settle_from + VIEW_TICKS)
			put_tick(out, &m->rcpts[i]);
		n++;
	}
	if (all > VIEW_TICKS)
		put_more(out, m, all);
	HTML(out, LIT("</fieldset>"));
}

static void
put_settle(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	HTML(out,
	    LIT("<p>The connection broke after the last byte: the other side "
		"may have taken it. Ask there before you say what is so.</p>"
		"<form method=\"post\" class=\"stack\" id=\"settle-form\" "
		"action=\"/m/"),
	    PATH(m->id), LIT("/settle\">"));
	view_part_csrf(out, shell);
	put_ticks(out, m);
	HTML(out,
	    LIT("<fieldset class=\"cats\"><legend>What became of it</legend>"
		"<label><input type=\"radio\" name=\"outcome\" required "
		"value=\"sent\"><span>It arrived</span></label>"
		"<label><input type=\"radio\" name=\"outcome\" required "
		"value=\"failed\"><span>It did not arrive; leave it so</span>"
		"</label>"
		"<label><input type=\"radio\" name=\"outcome\" required "
		"value=\"retry\"><span>Send it again; it may arrive twice"
		"</span></label></fieldset>"
		"<label>How do you know? <small class=\"muted\">It is "
		"written to the audit log.</small><input name=\"note\" "
		"required maxlength=\"500\"></label>"
		"<button id=\"settle-button\">Settle</button></form>"));
}

static void
put_cancel(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	HTML(out,
	    LIT("<details class=\"reject\" id=\"cancel\"><summary>Cancel "
		"sending</summary><form method=\"post\" class=\"stack\" "
		"id=\"cancel-form\" action=\"/m/"),
	    PATH(m->id), LIT("/cancel\">"));
	view_part_csrf(out, shell);
	HTML(out,
	    LIT("<label>Why <small class=\"muted\">It is written to the "
		"audit log.</small><input name=\"note\" required "
		"maxlength=\"300\"></label>"
		"<button class=\"danger\" id=\"cancel-button\">Cancel sending"
		"</button><p class=\"small muted\">What has not left stays "
		"here for good. Who has it already keeps it.</p>"
		"</form></details>"));
}

void
view_message_settle(struct buf *out, const struct view_shell *shell,
    const struct view_message *m)
{
	if (m->may_settle)
		put_settle(out, shell, m);
	if (m->may_cancel)
		put_cancel(out, shell, m);
}
