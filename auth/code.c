/* SPDX-License-Identifier: ISC */
/*
 * code.c - codes that are typed: of authenticator apps, and for recovery
 *
 * Six digits are a code of an app, anything else is taken for a recovery
 * code. The database counts the try, then the code is judged, then the
 * database is told which step it was, and refuses one that was used.
 */
#include <stdio.h>
#include <string.h>

#include "auth/auth.h"
#include "base/log.h"
#include "seal/totp.h"

struct typed {
	struct factor_state state;
	struct factor_totp totp;
	struct factor_mark mark;
	struct review_answer is;
	struct secret key;
	factor_hashes hashes;
	struct buf codes;
	uint64_t step;
	bool confirm;
	struct str code;
};

static void
clear(void *mine)
{
	struct typed *t = mine;

	secret_wipe(&t->key);
	explicit_bzero(&t->totp, sizeof(t->totp));
	buf_wipe(&t->codes);
	buf_free(&t->codes);
}

static struct typed *
begin(struct auth_job *job)
{
	job->mine = arena_get(&job->mem, sizeof(struct typed));
	job->clear = clear;
	return job->mine;
}

static bool
is_digits(struct str s)
{
	size_t i;

	for (i = 0; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return s.n == 6;
}

/* "123 456" is how apps show it. */
static struct str
without_space(struct auth_job *job, struct str s)
{
	char *to = arena_get(&job->mem, s.n + 1);
	size_t i, n = 0;

	for (i = 0; i < s.n; i++)
		if (s.p[i] != ' ' && s.p[i] != '\t')
			to[n++] = s.p[i];
	return (struct str){ to, n };
}

static void
on_totp_done(void *arg)
{
	struct auth_job *job = arg;
	struct typed *t = job->mine;
	struct buf more = { 0 };

	if (t->mark.is.status < 300 && t->confirm) {
		(void)buf_reserve(&more, t->codes.n + 4);
		buf_lp(&more, t->codes.p, t->mark.codes ? t->codes.n : 0);
		log_info("auth.enrol", KV("operator", t->totp.operator_id),
		    KV("why", "totp"));
	}
	auth_judged(job, "totp", t->totp.operator_id, &t->mark.is, 0, &more);
}

static void
on_totp(void *arg)
{
	struct auth_job *job = arg;
	struct typed *t = job->mine;

	if (t->totp.is.status >= 300) {
		auth_judged(job, "totp", 0, &t->totp.is, t->totp.wait_s, NULL);
		return;
	}
	if (!seal_totp_open(&t->key, &job->auth->totp_key,
		(uint64_t)t->totp.operator_id,
		(struct str){ (char *)t->totp.sealed, t->totp.sealed_n })) {
		log_warn("auth.request",
		    KV("why", "a stored secret does not open: is "
			      "keys.secrets_key_file another one?"));
		auth_end(job, 500, "internal_error", 0, NULL);
		return;
	}
	if (!seal_totp_find(&t->key, t->totp.now_us, t->code, &t->step)) {
		auth_wrong(job, "totp", t->totp.operator_id);
		return;
	}
	if (t->confirm)
		auth_codes_new(&t->codes, &t->hashes, t->totp.operator_id);
	factor_totp_done(&job->who, t->totp.factor, (int64_t)t->step,
	    t->confirm ? &t->hashes : NULL, job->next, &t->mark, on_totp_done,
	    job);
}

static void
on_recovered(void *arg)
{
	struct auth_job *job = arg;
	struct typed *t = job->mine;

	auth_judged(job, "recovery", t->state.operator_id, &t->mark.is,
	    t->mark.wait_s, NULL);
}

static void
on_state(void *arg)
{
	struct auth_job *job = arg;
	struct typed *t = job->mine;
	unsigned char hash[32];

	if (t->state.is.status >= 300) {
		auth_end_as(job, &t->state.is, 0);
		return;
	}
	/* What cannot be a code still counts as a try. */
	if (!seal_recovery_hash(hash, (uint64_t)t->state.operator_id, t->code))
		memset(hash, 0, sizeof(hash));
	factor_recovery_use(
	    &job->who, hash, job->next, &t->mark, on_recovered, job);
}

void
auth_code(struct auth_job *job)
{
	struct typed *t = begin(job);

	t->code = without_space(job, job->field[1]);
	if (is_digits(t->code))
		factor_totp_try(&job->who, false, &t->totp, on_totp, job);
	else
		factor_state(&job->who, &t->state, on_state, job);
}

void
auth_totp_ok(struct auth_job *job)
{
	struct typed *t = begin(job);

	t->confirm = true;
	t->code = without_space(job, job->field[0]);
	factor_totp_try(&job->who, true, &t->totp, on_totp, job);
}

/* ---- a new secret */

/* otpauth://totp/Postern%20HOST:NAME?...: what the QR code says. */
static void
put_link(struct buf *out, const struct auth *auth, const char *name,
    const char *secret)
{
	const char *s;

	buf_printf(out, "otpauth://totp/Postern%%20%s:", auth->rp_id);
	for (s = name; *s != '\0'; s++)
		if ((*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') ||
		    strchr("-._~", *s) != NULL)
			buf_putc(out, *s);
		else
			buf_printf(out, "%%%02X", (unsigned char)*s);
	buf_printf(out, "?secret=%s&issuer=Postern%%20%s", secret, auth->rp_id);
}

static void
on_begun(void *arg)
{
	struct auth_job *job = arg;
	struct typed *t = job->mine;
	char text[SEAL_TOTP_TEXT];
	struct buf more = { 0 }, link = { 0 };

	if (t->is.status >= 300) {
		auth_end_as(job, &t->is, 0);
		return;
	}
	(void)buf_reserve(&link, 1024);
	(void)buf_reserve(&more, 2048);
	seal_totp_text(text, &t->key);
	buf_lp(&more, text, strlen(text));
	put_link(&link, job->auth, t->state.name, text);
	buf_lp(&more, link.p, link.n);
	buf_wipe(&link);
	buf_free(&link);
	explicit_bzero(text, sizeof(text));
	auth_end(job, 200, "", 0, &more);
}

static void
on_who(void *arg)
{
	struct auth_job *job = arg;
	struct typed *t = job->mine;
	unsigned char box[SEAL_TOTP_BOX];

	if (t->state.is.status >= 300) {
		auth_end_as(job, &t->state.is, 0);
		return;
	}
	secret_random(&t->key, SEAL_TOTP_SECRET);
	seal_totp_box(
	    box, &job->auth->totp_key, (uint64_t)t->state.operator_id, &t->key);
	factor_totp_begin(&job->who, box, sizeof(box), &t->is, on_begun, job);
}

void
auth_totp_new(struct auth_job *job)
{
	struct typed *t = begin(job);

	factor_state(&job->who, &t->state, on_who, job);
}

/* ---- new recovery codes */

static void
on_set(void *arg)
{
	struct auth_job *job = arg;
	struct typed *t = job->mine;
	struct buf more = { 0 };

	if (t->is.status >= 300) {
		auth_end_as(job, &t->is, 0);
		return;
	}
	(void)buf_reserve(&more, t->codes.n + 4);
	buf_lp(&more, t->codes.p, t->codes.n);
	log_info("auth.enrol", KV("operator", t->state.operator_id),
	    KV("why", "recovery"));
	auth_end(job, 200, "", 0, &more);
}

static void
on_whose(void *arg)
{
	struct auth_job *job = arg;
	struct typed *t = job->mine;

	if (t->state.is.status >= 300) {
		auth_end_as(job, &t->state.is, 0);
		return;
	}
	auth_codes_new(&t->codes, &t->hashes, t->state.operator_id);
	factor_recovery_set(&job->who, &t->hashes, &t->is, on_set, job);
}

void
auth_recovery(struct auth_job *job)
{
	struct typed *t = begin(job);

	factor_state(&job->who, &t->state, on_whose, job);
}
