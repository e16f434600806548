/* SPDX-License-Identifier: ISC */
/*
 * preview.c - every page of the operators' site from fixtures, as files
 *
 *	preview DIR
 *
 * The fixtures are as nasty as mail gets; what they hold must be text on
 * every page. For looking at the design and for tests/browser/preview.test.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "admin/assets.h"
#include "admin/narrow.h"
#include "admin/view.h"
#include "admin/view_people.h"
#include "base/buf.h"

#define NOW INT64_C(1795838400000000)
#define MIN (INT64_C(60) * 1000000)
#define HOUR (60 * MIN)
#define DAY (24 * HOUR)
#define NASTY "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
#define ID "msg_01kb3w9m6hf3a8q0v1r7c2d4e5"

static const char *dir;

static void
save(const char *name, struct buf *page)
{
	char path[1024];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	if (f == NULL || fwrite(page->p, 1, page->n, f) != page->n ||
	    fclose(f) != 0) {
		perror(path);
		exit(1);
	}
	buf_clear(page);
}

static void
save_assets(void)
{
	char path[1024];
	size_t i;

	snprintf(path, sizeof(path), "%s/assets", dir);
	(void)mkdir(path, 0755);
	for (i = 0; i < admin_assets_n; i++) {
		const struct admin_asset *a = &admin_assets[i];
		struct buf b = { 0 };

		snprintf(path, sizeof(path), "assets/%s", a->name);
		buf_add(&b, a->p, a->n);
		save(path, &b);
		buf_free(&b);
	}
}

static struct view_shell
shell_of(const char *title, enum view_nav nav)
{
	return (struct view_shell){ .title = title,
		.nav = nav,
		.operator_name = "maria",
		.csrf = "0123456789abcdef",
		.now_us = NOW,
		.held = 23 };
}

static const struct view_queue_row rows[] = {
	{ .id = ID "0",
	    .inbox = "finance-bot@agents.example.com",
	    .to = "accounts@p\xd0\xb0ypal.com",
	    .more = 2,
	    .hidden = 1,
	    .subject = "Urgent: new bank details for invoice 20418",
	    .risk = VIEW_RISK_HIGH,
	    .at_us = NOW - 2 * HOUR,
	    .expires_us = NOW + 6 * DAY,
	    .size = 48211,
	    .files = 1,
	    .version = 1,
	    .round = 1 },
	{ .id = ID "1",
	    .inbox = "support@agents.example.com",
	    .to = "jana.novak@example.org",
	    .subject = "Re: Your order 88213 has not arrived",
	    .risk = VIEW_RISK_MEDIUM,
	    .at_us = NOW - 4 * HOUR,
	    .expires_us = NOW + 6 * DAY,
	    .size = 2833,
	    .version = 1,
	    .round = 1 },
	{ .id = ID "2",
	    .inbox = "support@agents.example.com",
	    .to = "t.okafor@customer.example.net",
	    .subject = "Refund for ticket #5531 — confirmation and "
		       "next steps for your bank",
	    .risk = VIEW_RISK_MEDIUM,
	    .at_us = NOW - 26 * HOUR,
	    .expires_us = NOW + 5 * DAY,
	    .size = 3120,
	    .version = 1,
	    .round = 2,
	    .returned = true },
	{ .id = ID "3",
	    .inbox = "research@agents.example.com",
	    .to = "press@very-long-domain-name-of-a-company.example.co."
		  "uk",
	    .more = 14,
	    .subject = NASTY,
	    .risk = VIEW_RISK_MEDIUM,
	    .reasons = "Inbox paused",
	    .at_us = NOW - 12 * MIN,
	    .expires_us = NOW + 7 * DAY,
	    .size = 22193120,
	    .files = 3,
	    .version = 1,
	    .round = 1,
	    .need = 2,
	    .approvals = 1 },
	{ .id = ID "4",
	    .inbox = "newsletter@agents.example.com",
	    .to = "ann@example.org",
	    .subject = "Your weekly summary: 4 things that changed",
	    .risk = VIEW_RISK_LOW,
	    .at_us = NOW - 45 * 1000000,
	    .expires_us = NOW + 7 * DAY,
	    .size = 9120,
	    .version = 1,
	    .round = 1 },
	{ .id = ID "5",
	    .inbox = "newsletter@agents.example.com",
	    .to = "bob@example.org",
	    .subject = "invoice\xe2\x80\xae"
		       "fdp.exe",
	    .risk = VIEW_RISK_LOW,
	    .reasons = "Recipient list",
	    .at_us = NOW - 40 * 1000000,
	    .expires_us = NOW + 7 * DAY,
	    .size = 9120,
	    .version = 1,
	    .round = 1,
	    .count = 1000,
	    .tenant_key = 1,
	    .inbox_key = 4 },
	{ .id = ID "6",
	    .inbox = "hr@agents.example.com",
	    .to = "li@example.org",
	    .subject = "",
	    .risk = VIEW_RISK_LOW,
	    .at_us = NOW - 3 * MIN,
	    .expires_us = NOW + 7 * DAY,
	    .size = 640,
	    .version = 1,
	    .round = 1,
	    .test = true },
};

static const struct view_pause pause = {
	.level = "inbox", .name = "research@agents.example.com", .more = 2
};

static void
queue(struct buf *out)
{
	const struct view_undo undo = { ID, "Re: Contract draft for review", 1,
		1, 8, 10 };
	struct view_shell shell = shell_of("Queue", VIEW_NAV_QUEUE);
	static char nothing[] = "";
	const struct narrow all = { nothing, nothing };
	struct view_queue q = { .rows = rows,
		.narrow = &all,
		.row_count = 7,
		.first = true,
		.next = "abc",
		.oldest_us = NOW - 26 * HOUR };

	view_queue(out, &shell, &q);
	save("queue.html", out);
	shell.undo = &undo;
	shell.pauses = &pause;
	shell.pause_count = 1;
	view_queue(out, &shell, &q);
	save("queue-undo.html", out);
	shell = shell_of("Queue", VIEW_NAV_QUEUE);
	shell.held = 0;
	q = (struct view_queue){ .first = true, .holding = 12, .narrow = &all };
	view_queue(out, &shell, &q);
	save("queue-empty.html", out);
}

static const struct view_rcpt rcpts[] = {
	{ .delivery = -1,
	    .address = "jana.novak@example.org",
	    .name = "Jana Nov\xc3\xa1kov\xc3\xa1",
	    .kind = VIEW_RCPT_TO,
	    .external = true },
	{ .delivery = -1,
	    .address = "accounts@xn--pypal-4ve.com",
	    .unicode = "p\xd0\xb0ypal.com",
	    .name = NASTY,
	    .kind = VIEW_RCPT_CC,
	    .external = true },
	{ .delivery = -1,
	    .address = "archive@collector.example.net",
	    .kind = VIEW_RCPT_BCC,
	    .external = true },
	{ .delivery = -1,
	    .address = "gone@example.org",
	    .listed = "suppressed",
	    .kind = VIEW_RCPT_CC,
	    .external = true },
};

static const char *const ghosts[] = { "boss@example.com" };

static char reads[] = "xn--pypal-4ve.com reads p\xd0\xb0ypal.com";
static char *const mixed[] = { reads };
static const struct view_reason reasons[] = {
	{ .text = "A domain mixes letters of several scripts, as forged names "
		  "do.",
	    .weight = 2,
	    .details = mixed,
	    .detail_count = 1,
	    .more = 2 },
	{ .text = "Reply-To differs from From", .weight = 1 },
	{ .text = "A recipient stands in no header (Bcc)", .weight = 0 },
};

static const char text[] =
    "Dear Jana,\r\n\r\nthank you for your patience. We have looked "
    "into order 88213 and the parcel was returned to our depot because "
    "the address label was damaged.\r\n\r\nYou can choose:\r\n\r\n  1. "
    "We send it again today, at no cost.\r\n  2. We refund EUR 84.90 "
    "to the card you paid with.\r\n\r\nPlease answer by Friday, or use "
    "https://shop.example.com/orders/88213/"
    "choose?token=Zm9vYmFy\r\n\r\nKind regards,\r\nSupport\xe2\x80\x8b "
    "Team\r\n";

static const char html[] =
    "<html><body><p>Dear Jana,</p><img "
    "src=\"https://tracker.example/p.gif\"></body></html>";

static const struct view_part parts[] = {
	{ .label = "Text",
	    .type = "text/plain",
	    .text = text,
	    .text_n = sizeof(text) - 1 },
	{ .label = "HTML source",
	    .type = "text/html",
	    .text = html,
	    .text_n = sizeof(html) - 1,
	    .code = true },
};

static const struct view_file files[] = {
	{ .index = 3,
	    .name = "return-label.pdf",
	    .type = "application/pdf",
	    .sniffed = "PDF document",
	    .size = 48211,
	    .sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c"
		      "d15d6c15b0f00a08" },
	{ .index = 4,
	    .name = "invoice\xe2\x80\xae"
		    "fdp.exe" NASTY,
	    .type = "application/pdf",
	    .sniffed = "Windows program",
	    .mismatch = true,
	    .size = 912331,
	    .sha256 = "60303ae22b998861bce3b28f33eec1be758a213c86c93c07"
		      "6dbe9f558c11c752" },
};

static const struct view_header headers[] = {
	{ "Received",
	    "by gate.example.com (Postern) with ESMTPSA id "
	    "msg_01kb3w9m6hf3a8q0v1r7c2d4e5; Sat, 28 Nov 2026 03:42:25 "
	    "+0000",
	    false },
	{ "From", "Support <support@agents.example.com>", false },
	{ "Subject", "Re: Your order 88213 has not arrived", true },
	{ "X-Long", NASTY NASTY, false },
};

static const struct view_event events[] = {
	{ NOW - 4 * HOUR, "Submitted", "the agent", "by SMTP" },
	{ NOW - 4 * HOUR, "Held", "policy", "mode" },
	{ NOW - 3 * MIN, "Opened", "maria", NULL },
};

static struct view_message
message_of(void)
{
	return (struct view_message){ .id = ID,
		.inbox = "support@agents.example.com",
		.tenant = "acme",
		.subject = "Re: Your order 88213 has not arrived",
		.state = "held",
		.risk = VIEW_RISK_MEDIUM,
		.version = 1,
		.round = 1,
		.digest = "sha256:"
			  "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d"
			  "6c15b0f00a08",
		.from = "Support <support@agents.example.com>",
		.mail_from = "support@agents.example.com",
		.reply_to = "help@other.example",
		.at_us = NOW - 4 * HOUR,
		.expires_us = NOW + 6 * DAY,
		.size = 964210,
		.reasons = reasons,
		.reason_count = 3,
		.rcpts = rcpts,
		.rcpt_count = 4,
		.to_send = 3,
		.listed_count = 1,
		.ghosts = ghosts,
		.ghost_count = 1,
		.headers = headers,
		.header_count = 4,
		.parts = parts,
		.part_count = 2,
		.files = files,
		.file_count = 2,
		.raw = text,
		.raw_n = sizeof(text) - 1,
		.raw_cut = true,
		.events = events,
		.event_count = 3,
		.purpose = "Answer the customer's question about a late "
			   "parcel. " NASTY,
		.run_id = "run-2291",
		.model = "house-model-3",
		.mode = "Hold outgoing",
		.may_approve = true,
		.may_reject = true,
		.undo_s = 10,
		.opened_us = NOW,
		.once = "00",
		.prev = ID "8",
		.next = ID "9" };
}

static void
message(struct buf *out)
{
	struct view_shell shell = shell_of("Message", VIEW_NAV_QUEUE);
	struct view_message m = message_of();
	struct view_rcpt sent[4];

	view_message(out, &shell, &m);
	save("message.html", out);
	m.risk = VIEW_RISK_HIGH;
	m.tab = VIEW_TAB_HEADERS;
	view_message(out, &shell, &m);
	save("message-high.html", out);
	m.risk = VIEW_RISK_LOW;
	m.tab = VIEW_TAB_RAW;
	view_message(out, &shell, &m);
	save("message-low.html", out);
	m = message_of();
	m.risk = VIEW_RISK_LOW;
	m.send_at_us = NOW + 5 * DAY;
	m.not_after_us = NOW + 6 * DAY;
	m.lapses_us = NOW + 3 * DAY;
	view_message(out, &shell, &m);
	save("message-later.html", out);
	m = message_of();
	memcpy(sent, m.rcpts, sizeof(sent));
	sent[0].delivery = 3;
	sent[0].reply = "250 2.0.0 OK queued as 4F2B1";
	sent[1].delivery = 4;
	sent[1].reply = "451 4.7.1 " NASTY;
	sent[1].next_us = NOW + 5 * MIN;
	sent[2].delivery = 5;
	sent[2].reply = "550 5.1.1 no such user";
	m.rcpts = sent;
	m.state = "deferred";
	m.may_approve = m.may_reject = false;
	m.verdict = "a";
	m.decided_by = "maria";
	m.decided_us = NOW - 9 * MIN;
	m.may_cancel = true;
	view_message(out, &shell, &m);
	save("message-sent.html", out);
	m.state = "uncertain";
	sent[0].delivery = sent[1].delivery = 6;
	m.may_cancel = false;
	m.may_settle = true;
	view_message(out, &shell, &m);
	save("message-uncertain.html", out);
	m.may_settle = false;
	m.state = "rejected";
	m.verdict = "r";
	m.category = "wrong_recipient";
	m.decision_note = "The customer asked for answers in Czech.\n" NASTY;
	m.hint = "revise_and_resubmit";
	m.rcpts = message_of().rcpts;
	view_message(out, &shell, &m);
	save("message-rejected.html", out);
}

static const struct view_history_row past[] = {
	{ .id = ID "0",
	    .inbox = "support@agents.example.com",
	    .to = "jana.novak@example.org",
	    .subject = "Re: Your order 88213",
	    .state = "sent",
	    .at_us = NOW - HOUR,
	    .changed_us = NOW - MIN },
	{ .id = ID "1",
	    .inbox = "research@agents.example.com",
	    .to = "x@example.org",
	    .more = 3,
	    .hidden = 1,
	    .subject = NASTY,
	    .state = "uncertain",
	    .at_us = NOW - HOUR,
	    .changed_us = NOW - MIN },
	{ .id = ID "2",
	    .inbox = "research@agents.example.com",
	    .to = "x@example.org",
	    .subject = "Hello",
	    .state = "rejected",
	    .at_us = NOW - DAY,
	    .changed_us = NOW - HOUR },
};

static const struct view_inbox inboxes[] = {
	{ .address = "support@agents.example.com",
	    .tenant = "acme",
	    .mode = 2,
	    .held = 14,
	    .sent_today = 41,
	    .limit_day = 100,
	    .claimed = true },
	{ .address = "research@agents.example.com",
	    .tenant = "acme",
	    .mode = 1,
	    .paused = true,
	    .sent_today = 3,
	    .limit_day = 100,
	    .claimed = true },
	{ .address = "newsletter@agents.example.com",
	    .tenant = "acme",
	    .mode = 4,
	    .held = 1001,
	    .sent_today = 93,
	    .limit_day = 100 },
};

static const struct view_switch switches[] = {
	{ .level = "global", .label = "Everything", .may = true },
	{ .level = "tenant", .label = "acme", .tenant_key = 1, .may = true },
	{ .level = "inbox",
	    .label = "research@agents.example.com",
	    .tenant_key = 1,
	    .inbox_key = 2,
	    .paused = true,
	    .may = true },
	{ .level = "inbox",
	    .label = "support@agents.example.com",
	    .tenant_key = 1,
	    .inbox_key = 3,
	    .may = true },
};

static void
others(struct buf *out)
{
	struct view_shell shell = shell_of("History", VIEW_NAV_HISTORY);
	const struct view_history history = {
		.rows = past, .row_count = 3, .show = "all", .first = true
	};
	const struct view_inboxes boxes = {
		.rows = inboxes, .row_count = 3, .more = 12
	};
	const struct view_pauses pauses = { .rows = switches, .row_count = 4 };
	char peer[] = "192.0.2.7";
	struct people_session session = { .peer = peer,
		.created_us = NOW - HOUR,
		.touched_us = NOW,
		.expires_us = NOW + 11 * HOUR,
		.mine = true };
	const struct people_sessions sessions = { .row = &session, .n = 1 };
	char kind[] = "p", label[] = "Blue key";
	struct factor_row factor = { 1, NOW - HOUR, NOW, kind, label };
	const struct factor_rows factors = { .row = &factor, .n = 1 };
	const struct factor_state state = { .recovery = 8 };
	const struct view_account account = { "*:*:admin", NOW + HOUR,
		NOW + 11 * HOUR, 0, &sessions, &factors, &state, NULL };
	const struct view_login login = { .name = NASTY,
		.error = "Name or password is wrong.",
		.return_to = "/q" };
	const struct view_setup setup = { .token = NASTY };
	const struct view_problem problem = { .code = 409,
		.heading = "Nothing was done",
		.name = "state_conflict",
		.request_id = "req_01kb3w9m6hf3a8q0v1r7c2d4e5",
		.text = NASTY,
		.link = "/q",
		.link_label = "Back to the queue" };

	view_history(out, &shell, &history);
	save("history.html", out);
	shell = shell_of("Inboxes", VIEW_NAV_INBOXES);
	view_inboxes(out, &shell, &boxes);
	save("inboxes.html", out);
	shell = shell_of("Pause", VIEW_NAV_PAUSE);
	view_pauses(out, &shell, &pauses);
	save("pause.html", out);
	shell = shell_of("Account", VIEW_NAV_ACCOUNT);
	view_account(out, &shell, &account);
	save("account.html", out);
	view_problem(out, &shell, &problem);
	save("problem.html", out);
	view_login(out, &login);
	save("login.html", out);
	view_setup(out, &setup);
	save("setup.html", out);
}

int
main(int argc, char **argv)
{
	struct buf out = { 0 };

	if (argc != 2) {
		fprintf(stderr, "usage: preview DIR\n");
		return 2;
	}
	dir = argv[1];
	save_assets();
	queue(&out);
	message(&out);
	others(&out);
	buf_free(&out);
	return 0;
}
