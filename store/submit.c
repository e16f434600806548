/* SPDX-License-Identifier: ISC */
/*
 * submit.c - the way of a message from a door to its COMMIT.
 *
 *	bytes -> request hash (SMTP)
 *	      -> freeze -> body tag
 *	                -> seal -> one chunk: goes into the row
 *	                        -> more: put as they come
 *	finish -> charge the limiter -> wait for chunks -> commit -> outcome
 *	          refused -> was it stored before? -> outcome
 *
 * advance() is the only place that decides what comes next. A code once set
 * stays. From commit on the submission belongs to the committer: a door that
 * hangs up then only loses its callback.
 */
#include "store/submit_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "policy/state.h"
#include "store/known.h"
#include "store/redis.h"
#include "store/upload.h"

#define BUSY_CHUNKS 2

struct submit_hash {
	struct body_tag *mac; /* BLAKE2b-256, keyed: what we need here too */
};

static void advance(void *arg);
static void on_room(void *arg);
static void on_frozen(void *arg, const void *p, size_t n);
static void on_chunk(
    void *arg, uint32_t seq, const void *p, size_t n, bool last);

static void
hash_text(struct submit_hash *h, struct str s)
{
	struct buf b = { 0 };

	buf_lp(&b, s.p != NULL ? s.p : "", s.n);
	body_tag_add(h->mac, b.p, b.n);
	buf_free(&b);
}

struct submit_hash *
submit_hash_new(const struct store_cred *cred, const char *method,
    const char *path, const char *type)
{
	struct submit_hash *h = xcalloc(1, sizeof(*h));

	h->mac = body_tag_new(&cred->idem);
	hash_text(h, str_of(method));
	hash_text(h, str_of(path));
	hash_text(h, str_of(type));
	return h;
}

void
submit_hash_add(struct submit_hash *h, const void *p, size_t n)
{
	body_tag_add(h->mac, p, n);
}

void
submit_hash_end(struct submit_hash *h, unsigned char out[32])
{
	if (h == NULL)
		return;
	body_tag_end(h->mac, out);
	free(h);
}

static void
fail(struct submit *s, enum err_code code, const char *why)
{
	if (s->code != E_NONE)
		return;
	s->code = code;
	snprintf(s->why, sizeof(s->why), "%s", why);
}

static void
open_body(struct submit *s)
{
	struct seal_id id = {
		.tenant = (uint64_t)s->cred.tenant,
		.inbox = (uint64_t)s->cred.inbox,
		.message = s->message,
		.version = 1,
	};

	memcpy(id.deployment, s->cred.deployment, sizeof(id.deployment));
	hours_get(s->st->hours, &s->cred, &s->hour);
	seal_message_key(&s->key, &s->hour.key, &id);
	secret_wipe(&s->hour.key);
	s->tag = body_tag_new(&s->key);
	s->body = seal_body_new(s->st->zstd, &s->key, &id, on_chunk, s);
}

static void
open_freeze(struct submit *s)
{
	struct address inbox;
	struct freeze_conf fc = {
		.hostname = str_of(s->st->conf->hostname),
		.with = s->env.tls != NULL ? s->env.tls : "ESMTPSA",
		.inbox = &inbox,
		.message = s->message,
		.now_us = clock_real_us(),
		.smtputf8 = s->env.smtputf8,
		.size_max = (uint64_t)s->st->conf->smtp_size_max,
	};

	if (s->cred.size_max > 0 && s->cred.size_max < (int64_t)fc.size_max)
		fc.size_max = (uint64_t)s->cred.size_max;
	BUG_ON(address_parse(&inbox, str_of(s->cred.address)) != ADDRESS_OK);
	s->freeze = freeze_new(&fc, on_frozen, s);
	if (s->env.size > (int64_t)fc.size_max)
		fail(s, E_PAYLOAD_TOO_LARGE, "the announced size is too big");
}

static void
open_hash(struct submit *s)
{
	if (s->env.door != SUBMIT_SMTP)
		return;
	s->hash = submit_hash_new(&s->cred, "SMTP", s->cred.address, "");
	hash_text(s->hash, buf_str(s->asked.n > 0 ? &s->asked : &s->rcpts));
	hash_text(s->hash, buf_str(&s->params));
}

static void
on_filtered(void *arg)
{
	struct submit *s = arg;

	s->filtering = false;
	s->st->filter.result(s->filter, &s->filtered);
	if (s->filtered.refuse)
		fail(s, E_STORE_UNAVAILABLE, "a filter did not answer");
	advance(s);
}

static void
open_filter(struct submit *s)
{
	const struct store_filter *filter = &s->st->filter;
	struct store_filter_mail mail = { .message = s->message,
		.from = s->cred.address,
		.rcpt = s->rcpt,
		.rcpt_count = s->rcpt_count };

	if (filter->begin != NULL && s->code == E_NONE)
		s->filter =
		    filter->begin(filter->arg, &mail, on_filtered, on_room, s);
}

struct submit *
submit_begin(const struct store_cred *cred, const struct submit_envelope *env,
    submit_done_fn *done, submit_room_fn *room, void *arg)
{
	struct submit *s = xcalloc(1, sizeof(*s));

	s->st = cred->store;
	s->cred = *cred;
	s->cred.next = NULL;
	s->cred.prev = NULL;
	s->done = done;
	s->room = room;
	s->arg = arg;
	s->message = uuid_v7_new();
	s->st->submissions++;
	if (!store_cred_alive(cred))
		fail(s, E_UNKNOWN_API_KEY, "the key was revoked or expired");
	submit_take_envelope(s, env);
	open_freeze(s);
	open_hash(s);
	open_body(s);
	open_filter(s);
	return s;
}

static void
free_submit(struct submit *s)
{
	if (s->filter != NULL)
		s->st->filter.free(s->filter);
	s->st->submissions--;
	loop_undefer(s->st->loop, advance, s);
	limit_cancel(s->charging);
	upload_free(s->upload);
	freeze_free(s->freeze);
	seal_body_free(s->body);
	if (s->tag != NULL)
		body_tag_end(s->tag, NULL);
	submit_hash_end(s->hash, NULL);
	secret_wipe(&s->key);
	secret_wipe(&s->cred.proof);
	secret_wipe(&s->cred.idem);
	buf_free(&s->text);
	buf_free(&s->rcpts);
	buf_free(&s->asked);
	buf_free(&s->context);
	buf_free(&s->params);
	free(s->notify);
	buf_free(&s->only_chunk);
	free(s->rcpt);
	free(s->kinds);
	free(s);
}

static void
on_frozen(void *arg, const void *p, size_t n)
{
	struct submit *s = arg;

	body_tag_add(s->tag, p, n);
	seal_body_add(s->body, p, n);
	if (s->filter != NULL)
		s->filter_full |= !s->st->filter.feed(s->filter, p, n);
}

static bool
is_full(const struct submit *s)
{
	return s->filter_full ||
	       (s->upload != NULL && upload_busy(s->upload) >= BUSY_CHUNKS);
}

static void
tell_room(struct submit *s)
{
	if (!s->full || (s->code == E_NONE && is_full(s)))
		return;
	s->full = false;
	if (s->room != NULL)
		s->room(s->arg);
}

/* A chunk ended: there may be room, or nothing left to wait for. */
static void
on_moved(void *arg)
{
	struct submit *s = arg;

	if (upload_code(s->upload) != E_NONE)
		fail(s, upload_code(s->upload), "the body was not stored");
	if (s->finished) {
		advance(s);
	} else {
		tell_room(s);
	}
}

/* The filters have read what was there. */
static void
on_room(void *arg)
{
	struct submit *s = arg;

	s->filter_full = false;
	if (!s->finished)
		tell_room(s);
}

static void
on_chunk(void *arg, uint32_t seq, const void *p, size_t n, bool last)
{
	struct submit *s = arg;

	s->chunks = seq + 1;
	if (s->code != E_NONE)
		return;
	if (last && seq == 0) {
		buf_add(&s->only_chunk, p, n);
		return;
	}
	if (s->upload == NULL)
		s->upload = upload_new(s->st, s->cred.tenant, s->cred.key,
		    (struct str){
			(const char *)s->cred.proof.b, s->cred.proof.n },
		    &s->message, on_moved, s);
	upload_put(s->upload, seq, p, n);
}

static void
check_freeze(struct submit *s, enum err_code code)
{
	if (code != E_NONE)
		fail(s, code, freeze_why(s->freeze));
}

bool
submit_feed(struct submit *s, const void *p, size_t n)
{
	if (s->code != E_NONE)
		return true;
	if (s->hash != NULL)
		submit_hash_add(s->hash, p, n);
	check_freeze(s, freeze_feed(s->freeze, p, n));
	s->full = s->code == E_NONE && is_full(s);
	return !s->full;
}

enum err_code
submit_failed(const struct submit *s)
{
	return s->code;
}

struct uuid
submit_id(const struct submit *s)
{
	return s->message;
}

static void
inbox_of(struct limit_inbox *in, const struct submit *s)
{
	*in = (struct limit_inbox){ s->cred.tenant, s->cred.inbox,
		s->cred.lim_hour, s->cred.lim_day, s->cred.lim_bytes };
}

static void
cost_of(struct limit_cost *cost, const struct submit *s)
{
	*cost = (struct limit_cost){ 1, (int64_t)s->rcpt_count,
		(int64_t)freeze_info(s->freeze)->size };
}

/* What the limiter refused is refused, unless it was stored before. */
static void
refuse_charge(struct submit *s)
{
	const struct limit_answer *answer = &s->charge;

	if (answer->verdict == LIMIT_CLOSED) {
		fail(s, E_LIMITER_UNAVAILABLE, "the limiter is away");
		return;
	}
	metrics_inc(M_LIMIT, answer->window, "refused");
	log_info("limit.reached", KV("tenant", s->cred.tenant),
	    KV("inbox", s->cred.inbox), KV("why", answer->window));
	if (s->code != E_NONE)
		return;
	fail(s, E_RATE_LIMITED, "");
	snprintf(s->why, sizeof(s->why),
	    "the limit of %lld in window %s is reached",
	    (long long)answer->limit, answer->window);
}

static void
on_charged(void *arg, const struct limit_answer *answer)
{
	struct submit *s = arg;

	s->charging = NULL;
	s->charge = *answer;
	switch (answer->verdict) {
	case LIMIT_LOCAL:
		metrics_inc(M_LIMIT, answer->window, "local");
		s->charged = true;
		break;
	case LIMIT_OK:
		s->charged = true;
		break;
	case LIMIT_OVER:
	case LIMIT_LOCAL_OVER:
	case LIMIT_CLOSED:
		s->asking = s->code == E_NONE && submit_fill_key(s);
		if (s->asking) {
			submit_ask_again(s);
			return;
		}
		refuse_charge(s);
		break;
	}
	advance(s);
}

static void
refund(struct submit *s)
{
	struct limit_inbox inbox;
	struct limit_cost cost;

	if (!s->charged)
		return;
	inbox_of(&inbox, s);
	cost_of(&cost, s);
	limit_refund(s->st->limiter, &inbox, &cost, &s->charge);
}

static unsigned
seconds(int64_t ms)
{
	return ms <= 0 ? 0 : (unsigned)((ms + 999) / 1000);
}

static void
count(const struct submit *s, const struct commit_result *r)
{
	const char *door = s->env.door == SUBMIT_SMTP ? "smtp" : "rest";
	const char *outcome = "refused";

	if (r != NULL && r->code != E_NONE && r->unknown)
		outcome = "lost";
	else if (r != NULL && r->code == E_STORAGE_FULL)
		outcome = "full";
	else if (r != NULL && r->code == E_NONE)
		outcome = r->replay || r->already_held ? "replay"
			  : r->state == STATE_HELD     ? "held"
						       : "accepted";
	metrics_inc(M_SUBMISSIONS, door, outcome);
	/* What Redis let pass and PostgreSQL's own rows did not. */
	if (r != NULL && r->code == E_HELD_LIMIT)
		metrics_inc(M_LIMIT, "held", "refused");
	else if (r != NULL && r->code == E_RATE_LIMITED)
		metrics_inc(M_LIMIT, "store", "refused");
}

/* The database looks behind what was stored before, and has no words. */
static void
say_what(struct submit_outcome *out, const struct submit *s)
{
	if (out->code != E_VALIDATION_ERROR || s->env.not_after == 0 ||
	    s->env.not_after > clock_real_us())
		return;
	out->field = "not_after";
	snprintf(out->text, sizeof(out->text), "lies in the past");
}

static void
report(struct submit *s, const struct commit_result *r)
{
	struct submit_outcome out = { .code = s->code };

	snprintf(out.text, sizeof(out.text), "%s", s->why);
	if (r != NULL)
		say_what(&out, s);
	if (s->charge.window != NULL) {
		out.limit_name = s->charge.window;
		out.limit = s->charge.limit;
		out.limit_left = s->charge.left;
		out.limit_reset = seconds(s->charge.wait_ms);
	}
	if (s->code == E_RATE_LIMITED)
		out.wait = out.limit_reset;
	if (r != NULL) {
		out.wait = r->wait;
		out.message = r->message;
		out.thread = r->thread;
		memcpy(out.digest, r->digest, sizeof(out.digest));
		out.state = r->state;
		out.version = r->version;
		out.round = r->round;
		memcpy(out.reasons, r->reasons, sizeof(out.reasons));
		out.hold_until = r->hold_until;
		out.replay = r->replay;
		out.already_held = r->already_held;
		out.size = (int64_t)freeze_info(s->freeze)->size;
	}
	count(s, r);
	if (s->done != NULL)
		s->done(s->arg, &out);
	free_submit(s);
}

/*
 * REFUSED gives the charge back, so does a replay; LOST does not (D20). A row
 * that was sent again as its answer was lost is a replay of itself: of none.
 */
static void
on_committed(void *arg, const struct commit_result *result)
{
	struct submit *s = arg;
	struct commit_result own = *result;
	const struct commit_result *r = &own;

	if (own.code == E_NONE && uuid_eq(&own.message, &s->message))
		own.replay = own.already_held = false;
	s->code = r->code;
	if (r->code == E_NONE)
		known_used(
		    s->st->known, s->cred.tenant, s->cred.key, clock_mono_ms());
	else if (r->code == E_UNKNOWN_API_KEY)
		known_forget(s->st->known, s->cred.tenant, s->cred.key);
	if ((r->code != E_NONE && !r->unknown) || r->replay || r->already_held)
		refund(s);
	else if (r->code == E_NONE && r->state == STATE_APPROVED)
		redis_wake(s->st->redis, 0);
	report(s, r);
}

/* The first answer needs no charge (D15); nor has it taken one. */
void
submit_told(struct submit *s, const struct commit_result *r)
{
	s->asking = false;
	if (r->code == E_NONE || r->code == E_IDEMPOTENCY_CONFLICT ||
	    r->code == E_UNKNOWN_API_KEY) {
		on_committed(s, r);
		return;
	}
	refuse_charge(s);
	advance(s);
}

static void
advance(void *arg)
{
	struct submit *s = arg;
	struct commit_row row;

	if (s->committing || s->asking || s->charging != NULL ||
	    (s->filtering && s->code == E_NONE))
		return;
	if (s->code == E_NONE && s->upload != NULL &&
	    upload_busy(s->upload) > 0)
		return;
	if (s->code != E_NONE) {
		refund(s);
		report(s, NULL);
		return;
	}
	s->committing = true;
	submit_fill(s);
	submit_row(&row, s);
	committer_add(s->st->committer, &row, on_committed, s);
}

void
submit_set_request(struct submit *s, const unsigned char request[32])
{
	memcpy(s->request, request, sizeof(s->request));
}

void
submit_finish(struct submit *s)
{
	struct limit_inbox inbox;
	struct limit_cost cost;

	s->finished = true;
	if (s->code == E_NONE)
		check_freeze(s, freeze_finish(s->freeze));
	if (s->code == E_NONE)
		seal_body_finish(s->body);
	if (s->code != E_NONE) {
		loop_defer(s->st->loop, advance, s);
		return;
	}
	if (s->filter != NULL) {
		s->filtering = true;
		s->st->filter.finish(s->filter);
	}
	inbox_of(&inbox, s);
	cost_of(&cost, s);
	s->charging =
	    limit_charge(s->st->limiter, &inbox, &cost, on_charged, s);
}

void
submit_cancel(struct submit *s)
{
	if (s == NULL)
		return;
	s->done = NULL;
	s->room = NULL;
	if (!s->finished)
		free_submit(s);
}
