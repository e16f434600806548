/* SPDX-License-Identifier: ISC */
/*
 * answer.c - from a question to its function, and back
 */
#include <stdlib.h>
#include <string.h>

#include "auth/auth.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "net/ask.h"
#include "seal/totp.h"

static const struct question {
	const char *name;
	bool turns; /* the session's next secret is its first field */
	size_t fields; /* behind these, at least */
	void (*run)(struct auth_job *job);
} questions[] = {
	{ "code", true, 2, auth_code },
	{ "totp-new", false, 0, auth_totp_new },
	{ "totp-ok", true, 1, auth_totp_ok },
	{ "recovery", false, 0, auth_recovery },
	{ "challenge", false, 1, auth_challenge },
	{ "passkey", true, 5, auth_passkey },
	{ "register", true, 3, auth_register },
};

static void
free_job(struct auth_job *job)
{
	if (job->clear != NULL)
		job->clear(job->mine);
	secret_wipe(&job->who.session);
	arena_free(&job->mem);
	free(job);
}

static void
put_number(struct buf *out, int64_t v)
{
	char text[DEC_MAX];
	size_t n = dec_encode(text, v);

	buf_lp(out, text, n);
}

void
auth_end(struct auth_job *job, int status, const char *code, int wait_s,
    struct buf *more)
{
	struct buf out = { 0 };

	/* All at once: growing would leave a copy of a secret behind. */
	(void)buf_reserve(&out, 256 + (more != NULL ? more->n : 0));
	put_number(&out, status);
	buf_lp(&out, code, strlen(code));
	put_number(&out, wait_s);
	if (more != NULL) {
		buf_add(&out, more->p, more->n);
		buf_wipe(more);
		buf_free(more);
	}
	ask_answer(job->ask, &out);
	free_job(job);
}

void
auth_end_as(struct auth_job *job, const struct review_answer *is, int wait_s)
{
	auth_end(job, is->status, is->text, wait_s, NULL);
}

void
auth_judged(struct auth_job *job, const char *kind, int64_t operator_id,
    const struct review_answer *is, int wait_s, struct buf *more)
{
	bool ok = is->status < 300;

	metrics_inc(M_FACTOR, kind,
	    ok                                    ? "right"
	    : is->status >= 500                   ? "error"
	    : strcmp(is->text, "code_wrong") == 0 ? "wrong"
						  : "refused");
	if (ok)
		log_info("auth.factor", KV("operator", operator_id),
		    KV("why", kind));
	else
		log_warn("auth.factor", KV("operator", operator_id),
		    KV("why", kind), KV("code", is->text));
	auth_end(job, is->status, ok ? "" : is->text, wait_s, more);
}

void
auth_wrong(struct auth_job *job, const char *kind, int64_t operator_id)
{
	static const struct review_answer wrong = { .status = 403,
		.text = "code_wrong" };

	auth_judged(job, kind, operator_id, &wrong, 0, NULL);
}

void
auth_codes_new(struct buf *out, factor_hashes *hashes, int64_t operator_id)
{
	char code[SEAL_RECOVERY_TEXT];
	size_t i;

	(void)buf_reserve(out, FACTOR_CODES * SEAL_RECOVERY_TEXT);
	for (i = 0; i < FACTOR_CODES; i++) {
		seal_recovery_new(code);
		BUG_ON(!seal_recovery_hash(
		    (*hashes)[i], (uint64_t)operator_id, str_of(code)));
		buf_puts(out, code);
		buf_putc(out, '\n');
	}
	explicit_bzero(code, sizeof(code));
}

static const struct question *
find_question(struct str name)
{
	size_t i;

	for (i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
		if (str_eq(name, str_of(questions[i].name)))
			return &questions[i];
	return NULL;
}

/* Every field lies in the job's own memory: the question goes. */
static bool
read_fields(struct auth_job *job, const struct question *q, struct str rest)
{
	struct str one;

	if (q->turns) {
		if (!str_lp(&rest, &one))
			return false;
		job->next = (struct str){ arena_str(&job->mem, one), one.n };
	}
	while (rest.n > 0) {
		if (job->nfields == AUTH_FIELDS || !str_lp(&rest, &one))
			return false;
		job->field[job->nfields++] =
		    (struct str){ arena_str(&job->mem, one), one.n };
	}
	return job->nfields >= q->fields;
}

void
auth_question(void *arg, struct ask *ask, struct str question)
{
	struct auth *auth = arg;
	struct auth_job *job = xcalloc(1, sizeof(*job));
	struct str name = { 0 }, session = { 0 };
	const struct question *q = NULL;

	job->auth = auth;
	job->ask = ask;
	job->who.db = auth->db;
	if (str_lp(&question, &name) && str_lp(&question, &session) &&
	    session.n == OPERATOR_SECRET &&
	    secret_set(&job->who.session, session.p, session.n))
		q = find_question(name);
	if (q != NULL && read_fields(job, q, question)) {
		q->run(job);
		return;
	}
	log_warn("auth.request", KV("why", "no such question"));
	auth_end(job, 422, "validation_error", 0, NULL);
}
