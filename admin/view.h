/* SPDX-License-Identifier: ISC */
/*
 * view.h - every page as a pure function of a struct
 *
 * A view appends one whole HTML document to `out` and knows nothing of
 * sessions, sockets or SQL. All strings are borrowed, NULL is empty, and every
 * one is hostile: the HTML writer escapes them. Times are microseconds since
 * 1970; `now_us` of the shell is the database's clock.
 */
#ifndef ADMIN_VIEW_H
#define ADMIN_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct diff;

enum view_nav {
	VIEW_NAV_NONE,
	VIEW_NAV_QUEUE,
	VIEW_NAV_HISTORY,
	VIEW_NAV_INBOXES,
	VIEW_NAV_PAUSE,
	VIEW_NAV_TENANTS,
	VIEW_NAV_PEOPLE,
	VIEW_NAV_AUDIT,
	VIEW_NAV_HEALTH,
	VIEW_NAV_ACCOUNT,
};

enum view_risk { VIEW_RISK_LOW, VIEW_RISK_MEDIUM, VIEW_RISK_HIGH };

/* A decision that can still be taken back. */
struct view_undo {
	const char *id; /* msg_... */
	const char *label; /* subject or recipient */
	int version, round;
	int left_s, window_s;
};

/* A pause in force. */
struct view_pause {
	const char *level; /* "global", "tenant" or "inbox" */
	const char *name; /* tenant slug or inbox address, NULL for all */
	int more; /* further inboxes; then who and why stand on their page */
	int64_t at_us;
	const char *who, *reason;
};

/* One tenant of several may be looked at alone. */
struct view_tenant {
	int64_t key, held;
	const char *slug;
};
struct view_only {
	int64_t tenant; /* 0: all */
	const char *slug; /* of it */
	const struct view_tenant *tenants;
	size_t count; /* 0: too many to list, one is typed */
	const char *back; /* local path */
};

/* What every signed-in page carries around its content. */
struct view_shell {
	const char *title;
	enum view_nav nav;
	const char *operator_name; /* NULL: nobody is signed in */
	const char *csrf;
	int64_t now_us;
	int held; /* capped count; > 1000 prints "1,000+" */
	const char *mark; /* an id: what is newer came after this page */
	const char *notice; /* one line said once, e.g. "Rejected." */
	const char *refusal; /* like notice, but something was not done */
	const struct view_undo *undo; /* NULL: nothing to take back */
	const struct view_only *only; /* NULL: there is nothing to choose */
	const struct view_pause *pauses;
	size_t pause_count;
	bool step_up; /* what loosens asks again who it is */
	bool totp, passkeys; /* by these; by the password if by none */
	bool admin, audits; /* shows what only these roles may see */
	bool config, people; /* may read tenants, operators */
	bool stops; /* may pause */
	bool decides; /* reviewer or senior of something */
	const char *wide_id; /* NULL: normal page; else body id for app.js */
};

void view_shell_start(struct buf *out, const struct view_shell *shell);
void view_shell_end(struct buf *out, const struct view_shell *shell);
/* The choice of one tenant, in the head of every page (view_only.c). */
void view_only(struct buf *out, const struct view_shell *shell);

/* Shared small parts (view_part.c). */
void view_part_age(struct buf *out, int64_t now_us, int64_t at_us);
/* Mail of a test inbox, or the inbox: nothing of it ever leaves. */
void view_part_test(struct buf *out, bool test);
/* Three quarters of the time it may be held are over (decisions D21). */
bool view_part_is_late(int64_t now_us, int64_t at_us, int64_t expires_us);
void view_part_left(struct buf *out, int64_t now_us, int64_t until_us);
/* The same as text, without an element. */
void view_part_time_text(struct buf *out, int64_t at_us);
void view_part_time(struct buf *out, int64_t at_us);
void view_part_size(struct buf *out, int64_t bytes);
void view_part_risk(struct buf *out, enum view_risk risk);
void view_part_state(struct buf *out, const char *state);
/* Beside a state that does not say it: somebody may have it all the same. */
void view_part_doubt(struct buf *out, const char *state, bool doubt);
void view_part_count(struct buf *out, int64_t n, int64_t cap);
void view_part_csrf(struct buf *out, const struct view_shell *shell);
/*
 * The second factor, or the password of who has none, where it is asked for;
 * `always`: else it is optional. The second asks also of who just showed it.
 */
void view_part_step_up(
    struct buf *out, const struct view_shell *shell, bool always);
void view_part_factor(
    struct buf *out, const struct view_shell *shell, bool always);
void view_part_error(struct buf *out, const char *error);
/* Who paused it, since when, and why. */
void view_part_pause(
    struct buf *out, int64_t now_us, const struct view_pause *pause);
void view_part_address(struct buf *out, const char *address);
const char *view_state_label(const char *state);
void view_part_delivery(struct buf *out, int delivery);
const char *view_mode_label(int mode);
const char *view_hint_label(const char *hint);
const char *view_category_label(const char *category);

/* Sign-in and first run. */
struct view_login {
	const char *name;
	const char *error;
	const char *return_to; /* local path, already checked */
};

struct view_setup {
	const char *token;
	const char *name;
	const char *error;
	bool closed; /* an operator exists already */
};

void view_login(struct buf *out, const struct view_login *login);
void view_setup(struct buf *out, const struct view_setup *setup);

/* A page with one heading and one sentence; `code` is the HTTP status. */
struct view_again {
	const char *name, *value;
};

struct view_problem {
	int code;
	const char *heading;
	const char *text;
	const char *name; /* of the refusal, e.g. state_conflict, or NULL */
	const char *request_id;
	const char *link, *link_label;
	const char *typed; /* what would be lost with the form, or NULL */
	/* Set: a button that sends the same once more, to this address. */
	const char *again_at;
	const struct view_again *again;
	size_t again_count;
};

void view_problem(struct buf *out, const struct view_shell *shell,
    const struct view_problem *problem);

/* Queue. */
struct narrow;

struct view_queue_row {
	const char *id;
	const char *inbox;
	const char *to; /* first actual recipient */
	int more; /* further actual recipients */
	int hidden; /* of all, in no header */
	const char *subject;
	enum view_risk risk;
	const char *reasons; /* why it is held, if not by its mode alone */
	int64_t at_us, expires_us, size;
	int files; /* -1: not known */
	bool links; /* its text has some */
	bool new_rcpt; /* its inbox had not reached one of them */
	const char *looks; /* who has it open; nobody: NULL or "" */
	int version, round;
	bool test, integrity;
	bool returned; /* came back from an approval */
	int approvals, need; /* > 1: more than one person must approve */
	const char *tenant;
	int64_t tenant_key, inbox_key; /* for the group's forms */
	/* > 0: this row is the last shown of its inbox, so many follow. */
	int64_t count;
};

struct view_queue {
	const struct view_queue_row *rows;
	size_t row_count;
	int64_t tenant; /* only of this one; 0: all */
	bool by_left; /* least time left first; else highest risk */
	const char *inbox; /* filter: an inbox's address; NULL: all */
	const char *box; /* the same as keys: tenant.inbox */
	const char *query; /* search; NULL: none */
	const struct narrow *narrow; /* the same in its two parts */
	const char *risk; /* only of this band; NULL: all */
	const char *next; /* sort key of the last row; NULL: last page */
	bool first; /* no page before this one */
	bool stopped; /* a search: next goes on where this one gave up */
	int64_t oldest_us;
	int holding; /* inboxes that hold outgoing mail; -1: not asked */
};

void view_queue(struct buf *out, const struct view_shell *shell,
    const struct view_queue *queue);
/* The fields that narrow it, and the sentence that says by what it is. */
void view_narrow(struct buf *out, const struct view_queue *queue);
void view_narrow_said(struct buf *out, const struct view_queue *queue);

/* Message. */
enum view_tab {
	VIEW_TAB_TEXT,
	VIEW_TAB_HTML,
	VIEW_TAB_DIFF,
	VIEW_TAB_REVISED,
	VIEW_TAB_HEADERS,
	VIEW_TAB_RAW,
};

#define VIEW_RCPTS_SEEN 20 /* further recipients are folded away */
#define VIEW_RCPTS_ROWS 80 /* and those behind these are lines of text */
#define VIEW_TICKS 20 /* recipients to settle one by one, at a time */
#define VIEW_TRIES_ROWS 20 /* tries before these are lines of text */
#define VIEW_TRIES_MAX 200 /* of so many we know: review_attempts_1 */

enum view_rcpt_kind {
	VIEW_RCPT_TO,
	VIEW_RCPT_CC,
	VIEW_RCPT_BCC, /* in no header */
	VIEW_RCPT_OVERSIGHT, /* the copy for the inbox's overseer */
};

struct view_rcpt {
	const char *address; /* as on the wire */
	const char *unicode; /* U-label form if it differs, else NULL */
	const char *name; /* display name in the header */
	enum view_rcpt_kind kind;
	bool external; /* another domain than the inbox's */
	int delivery; /* enum policy_delivery, -1 before release */
	int ix; /* its number for settling */
	const char *reply; /* peer's words, untrusted */
	int attempts;
	int64_t next_us;
	/* Nothing goes there while that lasts: "suppressed"; else NULL. */
	const char *listed;
};

struct view_header {
	const char *name;
	const char *value; /* decoded */
	bool differs; /* raw form is not what is shown */
};

/*
 * Shown of all texts together: of each as much, so that no long one hides a
 * short one behind it.
 */
#define VIEW_TEXT_MAX (1024 * 1024)

struct view_part {
	int index; /* of /m/{id}/file/{index} */
	const char *label; /* "Text", "HTML source" */
	const char *type; /* declared content type */
	const char *text;
	size_t text_n;
	bool cut; /* more follows than is shown */
	const char *problem; /* why it could not be decoded */
	bool code; /* set in mono, e.g. HTML source */
};

struct view_file {
	int index;
	const char *name;
	const char *type; /* declared */
	const char *sniffed; /* by its first bytes */
	bool mismatch;
	int64_t size;
	const char *sha256; /* 64 hex */
	char **inside; /* names in an archive */
	size_t inside_count, inside_more;
};

/* One try to hand it to one host; the strings are the other side's. */
struct view_attempt {
	int64_t at_us, dot_us, ended_us; /* 0: not yet, or never */
	const char *domain, *mx, *tls, *result;
};

struct view_event {
	int64_t at_us;
	const char *what; /* in words */
	const char *who;
	const char *detail; /* untrusted */
};

/* What an operator said to the others. */
struct view_comment {
	int64_t at_us;
	const char *who, *text;
};

struct view_reason {
	const char *text;
	int weight; /* 0 info, 1 medium, 2 high */
	char *const *details; /* what is meant; untrusted */
	size_t detail_count;
	size_t more; /* details that are not listed */
};

/* May recipients unsubscribe by one click (RFC 8058)? */
enum view_links {
	VIEW_LINKS_NONE, /* the inbox adds no links */
	VIEW_LINKS_ADDED, /* each gets one when it is sent */
	VIEW_LINKS_OWN, /* the message has its own, so none is added */
	VIEW_LINKS_UNKNOWN, /* it was not opened */
};

struct view_message {
	const char *id, *inbox, *tenant, *subject, *state;
	bool doubt; /* it may have been sent, whatever the state says */
	enum view_risk risk;
	int version, round;
	const char *digest; /* sha256:... */
	const char *from; /* From header, decoded */
	const char *mail_from;
	const char *reply_to; /* set only if it differs from From */
	int64_t at_us, expires_us, size, date_us;
	int64_t send_at_us, not_after_us; /* 0: at once; for ever */
	int64_t lapses_us; /* an approval given now */
	const struct view_reason *reasons; /* heaviest first */
	size_t reason_count;
	bool risk_rose; /* opening showed a higher one than the queue knew */
	const struct view_rcpt *rcpts;
	size_t rcpt_count;
	/* Would get it, if it may leave; and would but for a list. */
	size_t to_send, listed_count;
	const char *const *ghosts; /* in To or Cc, but will not receive */
	size_t ghost_count;
	enum view_links links_out;
	const char *link_base; /* of VIEW_LINKS_ADDED */
	enum view_tab tab;
	bool has_html, has_text; /* parts of that kind */
	bool html_cut; /* more of it than is shown */
	const struct diff *diff; /* for its tab */
	const struct links *links; /* NULL: it was not opened */
	const struct view_header *headers;
	size_t header_count;
	const struct view_part *parts;
	size_t part_count;
	const struct view_file *files;
	size_t file_count;
	const char *raw;
	size_t raw_n;
	bool raw_cut;
	const struct view_attempt *attempts;
	size_t attempt_count;
	const struct view_event *events;
	size_t event_count;
	const char *purpose, *run_id, *task_id, *model, *note; /* untrusted */
	const char *session; /* agent's session, if any */
	const char *mode; /* label */
	/* What this operator may do now. */
	bool may_approve, may_reject, may_undo, may_cancel, may_settle;
	size_t settle_from; /* uncertain recipients before those to tick */
	const char *why_not; /* why approve is not offered */
	bool reject_only; /* integrity failure */
	int undo_s;
	int64_t opened_us; /* database time of this page */
	const char *prev, *next; /* neighbours in the queue, ids */
	const struct view_queue_row *around; /* the queue, this one in it */
	size_t around_count;
	/* Decision already made. */
	const char *decided_by, *verdict, *category, *decision_note, *hint;
	int64_t decided_us;
	const char *body_problem; /* bytes could not be opened: why */
	bool ask_why; /* decided: bytes open only for a reason */
	const char *why; /* the reason given, for the links */
	bool ask_password; /* approving needs the password again */
	bool sign; /* approve by a passkey over the fingerprint */
	const char *once; /* makes a repeated POST the same decision */
	int approvals, need;
	bool test;
	const char *typed_note; /* kept when a form is shown again */
	const char *revises; /* id that the agent named; NULL: none */
	bool revises_known; /* it is of this inbox, and may be seen */
	const char *revises_state; /* its state, by name */
	const char *revises_category, *revises_note, *revises_problem;
	const struct diff *revised; /* old and new text, for its tab */
	const char *looked_at_by; /* another operator; NULL: nobody else */
	const struct view_comment *comments;
	size_t comment_count;
	bool may_comment;
};

void view_message(struct buf *out, const struct view_shell *shell,
    const struct view_message *message);

/* History. */
struct view_history_row {
	const char *id, *inbox, *to, *subject, *state;
	int more, hidden;
	int64_t at_us, changed_us;
	bool test;
	bool doubt; /* it may have been sent, whatever the state says */
};

struct view_history {
	const struct view_history_row *rows;
	size_t row_count;
	const char *show; /* "all", "decided", "bounced", ... */
	const char *since; /* "1d", "7d", "30d", "all" */
	bool since_given; /* by the address, not by the page */
	const char *query;
	const char *next;
	bool first, stopped;
};

void view_history(struct buf *out, const struct view_shell *shell,
    const struct view_history *history);

/* Inboxes and pauses. */
struct view_inbox {
	const char *address, *tenant;
	int64_t tenant_key, inbox_key;
	int mode; /* 0..4, D28 */
	int64_t held, sent_today, limit_day;
	bool paused, suspended, claimed, test;
	const char *alarm;
};

struct view_inboxes {
	const struct view_inbox *rows;
	size_t row_count;
	const char *query; /* part of an address, or NULL */
	size_t more; /* further ones that are not shown */
};

void view_inboxes(struct buf *out, const struct view_shell *shell,
    const struct view_inboxes *inboxes);

/* Reject everything that waits from one inbox. */

struct view_switch {
	const char *level; /* "global", "tenant", "inbox" */
	int64_t tenant_key, inbox_key;
	const char *label;
	bool paused, may;
	struct view_pause pause; /* who and why, where it is known */
};

struct view_pauses {
	const struct view_switch *rows;
	size_t row_count;
	const char *query;
	size_t more;
	const char *error;
};

void view_pauses(struct buf *out, const struct view_shell *shell,
    const struct view_pauses *pauses);

/* The reject form's "why" choices, shared. */
void view_part_categories(struct buf *out, const char *chosen);
void view_part_hints(struct buf *out);

#endif
