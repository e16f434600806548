/* SPDX-License-Identifier: ISC */
/*
 * review.c - rows of the review functions into structs
 */
#include "store/review.h"

#include <string.h>

#include "base/arena.h"
#include "store/review_call.h"

#define RISK_MAX 100

#define TEXT(col) review_text(mem, res, i, col)
#define INT(col) pg_get_int(res, i, col)
#define I64(col) pg_get_i64(res, i, col)
#define BOOL(col) pg_get_bool(res, i, col)
#define TIME(col) pg_get_time(res, i, col)

static void
copy_bytes(void *to, size_t n, const struct pg_result *res, const char *col)
{
	struct str s = pg_get_bytes(res, 0, col);

	if (s.n == n)
		memcpy(to, s.p, n);
}

static struct str
keep_bytes(struct arena *mem, struct str s)
{
	return (struct str){ arena_str(mem, s), s.n };
}

static void
fill_tenants(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_tenants *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct review_tenant){
			.tenant = I64("tenant_id"),
			.slug = TEXT("slug"),
			.name = TEXT("name"),
			.held = INT("held"),
			.paused = BOOL("paused"),
		};
}

void
review_tenants(const struct store_operator *who, struct arena *mem,
    struct review_tenants *out, review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from api.review_tenants_1($1)",
		.mem = mem,
		.out = out,
		.fill = fill_tenants,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	review_call(who->db, &call);
}

static void
fill_inboxes(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_inboxes *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct review_inbox){
			.tenant = I64("tenant_id"),
			.inbox = I64("inbox_id"),
			.address = TEXT("address"),
			.alarm = TEXT("alarm"),
			.mode = INT("mode"),
			.held = INT("held"),
			.lim_day = INT("lim_day"),
			.used_day = INT("used_day"),
			.paused = BOOL("paused"),
			.suspended = BOOL("suspended"),
			.claimed = BOOL("claimed"),
			.test = BOOL("test"),
		};
}

void
review_inboxes(const struct store_operator *who, int64_t tenant,
    struct arena *mem, struct review_inboxes *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = {
		.sql = "select * from api.review_inboxes_1($1,$2)",
		.mem = mem,
		.out = out,
		.fill = fill_inboxes,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	review_id_arg(&call.args, tenant);
	review_call(who->db, &call);
}

static void
fill_rows(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_rows *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	i = pg_rows(res) - 1;
	if (i >= 0 && pg_is_null(res, i, "message_id")) {
		o->stopped = TEXT("sort_key");
		o->n--;
	}
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < (int)o->n; i++)
		o->row[i] = (struct review_row){
			.sort_key = TEXT("sort_key"),
			.tenant = I64("tenant_id"),
			.inbox = I64("inbox_id"),
			.tenant_slug = TEXT("tenant_slug"),
			.address = TEXT("address"),
			.message = pg_get_uuid(res, i, "message_id"),
			.version = INT("version"),
			.round = INT("round"),
			.state = INT("state"),
			.rcpts = TEXT("rcpts"),
			.kinds = TEXT("rcpt_kind"),
			.subject = TEXT("subject"),
			.reasons = TEXT("reasons"),
			.size = I64("size"),
			.attachments = INT("attachments"),
			.risk = INT("risk"),
			.hold_until_us = TIME("hold_until"),
			.created_us = TIME("created_at"),
			.updated_us = TIME("updated_at"),
			.need = INT("need_approvals"),
			.approvals = INT("approvals"),
			.more_in_inbox = INT("more_in_inbox"),
			.edited = BOOL("edited"),
			.integrity = BOOL("integrity"),
			.test = BOOL("test"),
			.links = BOOL("links"),
			.new_rcpt = BOOL("new_rcpt"),
			.looks = TEXT("looks"),
			.doubt = BOOL("doubt"),
		};
}

void
review_list(const struct store_operator *who, const struct review_query *query,
    struct arena *mem, struct review_rows *out, review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from "
		       "api.review_list_1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)",
		.mem = mem,
		.out = out,
		.fill = fill_rows,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	review_id_arg(&call.args, query->tenant);
	review_id_arg(&call.args, query->inbox);
	pg_text(&call.args, query->states);
	pg_text(&call.args, query->search);
	pg_text(&call.args, query->after);
	pg_i32(&call.args, query->limit);
	pg_bool(&call.args, query->collapse);
	pg_i32(&call.args, query->risk_from);
	pg_i32(&call.args, query->risk_to > 0 ? query->risk_to : RISK_MAX);
	pg_bool(&call.args, query->by_left);
	review_call(who->db, &call);
}

static void
fill_count(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_count *o = out;

	(void)mem;
	o->n = pg_get_int(res, 0, "n");
	o->capped = pg_get_bool(res, 0, "capped");
	o->oldest_us = pg_get_time(res, 0, "oldest");
}

void
review_count(const struct store_operator *who, const struct review_query *query,
    struct review_count *out, review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from api.review_count_1($1,$2,$3,$4,$5)",
		.out = out,
		.fill = fill_count,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	review_id_arg(&call.args, query->tenant);
	review_id_arg(&call.args, query->inbox);
	pg_text(&call.args, query->states);
	pg_text(&call.args, query->search);
	review_call(who->db, &call);
}

static void
fill_message_text(
    struct review_message *o, struct arena *mem, const struct pg_result *res)
{
	const int i = 0;

	o->tenant_slug = TEXT("tenant_slug");
	o->address = TEXT("address");
	o->mail_from = TEXT("mail_from");
	o->rcpts = TEXT("rcpts");
	o->kinds = TEXT("rcpt_kind");
	o->subject = TEXT("subject");
	o->params = TEXT("params");
	o->context = TEXT("context");
	o->reasons = TEXT("reasons");
	o->integrity = TEXT("integrity");
	o->may_why = TEXT("may_why");
	o->door = TEXT("door");
	o->author = TEXT("author");
	o->verdict = TEXT("verdict");
	o->category = TEXT("category");
	o->note = TEXT("note");
	o->hint = TEXT("hint");
	copy_bytes(o->digest, sizeof(o->digest), res, "digest");
	copy_bytes(o->body_tag, sizeof(o->body_tag), res, "body_tag");
}

static void
fill_message(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_message *o = out;
	const int i = 0;

	fill_message_text(o, mem, res);
	o->message = pg_get_uuid(res, 0, "message_id");
	o->revises = pg_get_uuid(res, 0, "revises");
	o->tenant = I64("tenant_id");
	o->inbox = I64("inbox_id");
	o->mode = INT("mode");
	o->version = INT("version");
	o->round = INT("round");
	o->state = INT("state");
	o->size = I64("size");
	o->send_at = I64("send_at");
	o->not_after = I64("not_after");
	o->chunks = INT("chunks");
	o->risk = INT("risk");
	o->need = INT("need_approvals");
	o->approvals = INT("approvals");
	o->attachments = INT("attachments");
	o->i_approved = BOOL("i_approved");
	o->may_decide = BOOL("may_decide");
	o->leased = BOOL("leased");
	o->one_click = BOOL("one_click");
	o->test = BOOL("test");
	o->edited = BOOL("edited");
	o->inbox_paused = BOOL("inbox_paused");
	o->findings_set = INT("findings_set");
	o->finding_max = INT("finding_max");
	o->hold_until_us = TIME("hold_until");
	o->created_us = TIME("created_at");
	o->updated_us = TIME("updated_at");
	o->decided_us = TIME("decided_at");
	o->not_before_us = TIME("not_before");
	o->undo_until_us = TIME("undo_until");
	o->now_us = TIME("now");
}

void
review_get(const struct store_operator *who, const struct uuid *message,
    const char *why, struct arena *mem, struct review_message *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from api.review_get_1($1,$2,$3)",
		.mem = mem,
		.out = out,
		.fill = fill_message,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_uuid(&call.args, message);
	pg_text(&call.args, why);
	review_call(who->db, &call);
}

static void
fill_keys(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_keys *o = out;
	const int i = 0;

	copy_bytes(o->deployment, sizeof(o->deployment), res, "deployment");
	copy_bytes(o->digest, sizeof(o->digest), res, "digest");
	copy_bytes(o->body_tag, sizeof(o->body_tag), res, "body_tag");
	copy_bytes(o->tenant_pub, sizeof(o->tenant_pub), res, "tenant_pub");
	o->tenant_box = keep_bytes(mem, pg_get_bytes(res, 0, "tenant_box"));
	o->tenant_priv = keep_bytes(mem, pg_get_bytes(res, 0, "tenant_priv"));
	o->epoch = INT("epoch");
	o->version = INT("version");
	o->round = INT("round");
	o->tenant_epoch = INT("tenant_epoch");
	o->chunks = INT("chunks");
	o->tenant = I64("tenant_id");
	o->inbox = I64("inbox_id");
	o->size = I64("size");
	o->now_us = TIME("now");
}

void
review_keys(const struct store_operator *who, const struct uuid *message,
    int version, const char *why, struct arena *mem, struct review_keys *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from api.review_keys_1($1,$2,$3,$4)",
		.mem = mem,
		.out = out,
		.fill = fill_keys,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_uuid(&call.args, message);
	pg_i16(&call.args, version);
	pg_text(&call.args, why);
	review_call(who->db, &call);
}

static void
fill_chunks(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_chunks *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = keep_bytes(mem, pg_get_bytes(res, i, "data"));
}

void
review_body(const struct store_operator *who, const struct uuid *message,
    int version, int from, int limit, const char *why, struct arena *mem,
    struct review_chunks *out, review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from "
		       "api.review_body_1($1,$2,$3,$4,$5,$6)",
		.mem = mem,
		.out = out,
		.fill = fill_chunks,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_uuid(&call.args, message);
	pg_i16(&call.args, version);
	pg_i32(&call.args, from);
	pg_i32(&call.args, limit);
	pg_text(&call.args, why);
	review_call(who->db, &call);
}

static void
fill_recipients(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_recipients *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct review_recipient){
			.ix = INT("ix"),
			.address = TEXT("address"),
			.reply = TEXT("reply"),
			.enhanced = TEXT("enhanced"),
			.kind = *pg_get_text(res, i, "kind"),
			.delivery = pg_is_null(res, i, "delivery")
					? -1
					: INT("delivery"),
			.reply_code = INT("reply_code"),
			.attempts = INT("attempts"),
			.next_us = TIME("next_attempt_at"),
			.listed = *pg_get_text(res, i, "listed"),
		};
}

void
review_recipients(const struct store_operator *who, const struct uuid *message,
    struct arena *mem, struct review_recipients *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = {
		.sql = "select * from api.review_recipients_1($1,$2)",
		.mem = mem,
		.out = out,
		.fill = fill_recipients,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_uuid(&call.args, message);
	review_call(who->db, &call);
}

static void
fill_attempts(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_attempts *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct review_attempt){
			.domain = TEXT("domain"),
			.mx = TEXT("mx"),
			.tls = TEXT("tls"),
			.result = TEXT("result"),
			.at_us = TIME("at"),
			.dot_us = TIME("dot_at"),
			.ended_us = TIME("ended_at"),
		};
}

void
review_attempts(const struct store_operator *who, const struct uuid *message,
    struct arena *mem, struct review_attempts *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = {
		.sql = "select * from api.review_attempts_1($1,$2)",
		.mem = mem,
		.out = out,
		.fill = fill_attempts,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_uuid(&call.args, message);
	review_call(who->db, &call);
}

static void
fill_events(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_events *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct review_event){
			.at_us = TIME("at"),
			.type = TEXT("type"),
			.actor = TEXT("actor"),
			.who = TEXT("who"),
			.detail = TEXT("detail"),
		};
}

void
review_events(const struct store_operator *who, const struct uuid *message,
    struct arena *mem, struct review_events *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = {
		.sql = "select * from api.review_events_1($1,$2)",
		.mem = mem,
		.out = out,
		.fill = fill_events,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_uuid(&call.args, message);
	review_call(who->db, &call);
}

static void
fill_decisions(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_decisions *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct review_decision){
			.version = INT("version"),
			.round = INT("round"),
			.operator_name = TEXT("operator"),
			.verdict = TEXT("verdict"),
			.category = TEXT("category"),
			.note = TEXT("note"),
			.hint = TEXT("hint"),
			.at_us = TIME("at"),
		};
}

void
review_decisions(const struct store_operator *who, const struct uuid *message,
    struct arena *mem, struct review_decisions *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = {
		.sql = "select * from api.review_decisions_1($1,$2)",
		.mem = mem,
		.out = out,
		.fill = fill_decisions,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_uuid(&call.args, message);
	review_call(who->db, &call);
}

static void
fill_pauses(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_pauses *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct review_pause){
			.level = TEXT("level"),
			.tenant_slug = TEXT("tenant_slug"),
			.address = TEXT("address"),
			.at_us = TIME("at"),
			.who = TEXT("who"),
			.reason = TEXT("reason"),
		};
}

void
review_pauses(const struct store_operator *who, struct arena *mem,
    struct review_pauses *out, review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from api.review_pauses_1($1)",
		.mem = mem,
		.out = out,
		.fill = fill_pauses,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	review_call(who->db, &call);
}
