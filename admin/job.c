/* SPDX-License-Identifier: ISC */
/*
 * job.c - moving jobs on, a step at a time
 *
 * One statement of each job is under way, and between two steps the others'
 * requests come first. Rejections go a few hundred a statement; an approval
 * needs its own relay box, so each is one.
 */
#include "admin/job.h"

#include <stdlib.h>
#include <string.h>

#include "admin/admin.h"
#include "admin/message_open.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/queue.h"
#include "base/xalloc.h"
#include "seal/release.h"
#include "store/job.h"
#include "store/redis.h"

#define REJECT_ROWS 100 /* pages wait for a step */
#define APPROVE_ROWS 50
#define BETWEEN_MS 5
#define AGAIN_MS 2000 /* the database did not answer */

struct runner {
	TAILQ_ENTRY(runner) link;
	struct job_runners *all;
	struct uuid job;
	char verdict;
	struct store_operator who;
	struct loop_timer *timer;
	struct job_step step;
	struct job_undone undone;
	struct job_next next;
	size_t at; /* in next */
	bool anew; /* confirmed again, or to be undone, during a step */
	bool refused; /* the last step was; the secret may be another now */
	struct arena mem; /* of next */
	unsigned char box[SEAL_RELAY_BOX], tag[SEAL_TAG_LEN];
};

struct job_runners {
	struct admin *admin;
	TAILQ_HEAD(, runner) list;
	unsigned n;
};

struct job_runners *
job_runners_new(struct admin *admin)
{
	struct job_runners *all = xcalloc(1, sizeof(*all));

	all->admin = admin;
	TAILQ_INIT(&all->list);
	return all;
}

static void
end_runner(struct runner *r)
{
	TAILQ_REMOVE(&r->all->list, r, link);
	r->all->n--;
	loop_timer_free(r->timer);
	secret_wipe(&r->who.session);
	arena_free(&r->mem);
	free(r);
}

void
job_runners_free(struct job_runners *all)
{
	struct runner *r;

	if (all == NULL)
		return;
	while ((r = TAILQ_FIRST(&all->list)) != NULL)
		end_runner(r);
	free(all);
}

static void
finished(struct runner *r, const char *why)
{
	char id[UUID_ID_MAX];

	uuid_to_id(id, "job_", &r->job);
	log_info("admin.job", KV("message", id), KV("code", why));
	end_runner(r);
}

/*
 * After each step: on, later, or over. Refused once is no end yet: the session
 * may go on under another secret, which is here by the next step.
 */
static bool
goes_on(struct runner *r, const struct review_answer *is)
{
	const bool lost =
	    (is->status == 401 || is->status == 409) && !r->refused;

	if (is->status < 300 && !r->anew) {
		r->refused = false;
		return true;
	}
	if (is->status < 500 && !r->anew && !lost) {
		finished(r, is->status == 401 ? "signed_out" : is->text);
		return false;
	}
	r->refused = lost;
	arena_free(&r->mem);
	r->next.n = 0;
	loop_timer_set(r->timer, r->anew ? BETWEEN_MS : AGAIN_MS);
	return false;
}

static void
on_step(void *arg)
{
	struct runner *r = arg;

	if (!goes_on(r, &r->step.is))
		return;
	if (r->step.state != JOB_RUNNING || r->step.remaining == 0)
		finished(r, "done");
	else
		loop_timer_set(r->timer, BETWEEN_MS);
}

static void
on_approved(void *arg)
{
	struct runner *r = arg;

	if (r->step.is.status < 300)
		redis_wake(r->all->admin->redis,
		    (unsigned)r->all->admin->undo_s * 1000);
	r->at++;
	on_step(r);
}

/* The relay's box and tag of one item, as for a single approval. */
static bool
release(struct runner *r, const struct job_next_item *n, int64_t *expiry)
{
	const struct admin *admin = r->all->admin;
	const struct review_keys *k = &n->keys;
	struct seal_release rel = {
		.epoch = (uint32_t)k->epoch,
		.tenant = (uint64_t)k->tenant,
		.inbox = (uint64_t)k->inbox,
		.message = n->message,
		.version = (uint16_t)k->version,
		.round = (uint32_t)k->round,
	};
	struct secret message_key = { 0 };

	if (!message_open_key(admin, k, &n->message, &message_key))
		return false;
	*expiry = k->now_us + admin->approve_ttl_us;
	if (n->not_after != 0 && n->not_after < *expiry)
		*expiry = n->not_after;
	memcpy(rel.deployment, k->deployment, sizeof(rel.deployment));
	memcpy(rel.digest, k->digest, sizeof(rel.digest));
	rel.expiry = (uint64_t)*expiry;
	seal_relay_box(r->box, admin->relay_pub.b, &message_key, &rel);
	seal_tag_approve(r->tag, &admin->approve_key, &rel);
	secret_wipe(&message_key);
	return true;
}

static void
approve_one(struct runner *r)
{
	const struct job_next_item *n = &r->next.row[r->at];
	struct job_release rel = {
		.ix = n->ix,
		.undo_s = r->all->admin->undo_s,
	};

	if (release(r, n, &rel.expiry_us)) {
		rel.relay_box = (struct str){ (char *)r->box, sizeof(r->box) };
		rel.tag = (struct str){ (char *)r->tag, sizeof(r->tag) };
	} else {
		rel.failed = "key_not_opened";
	}
	job_approve(&r->who, &r->job, &rel, &r->step, on_approved, r);
}

static void
on_next(void *arg)
{
	struct runner *r = arg;

	if (!goes_on(r, &r->next.is))
		return;
	r->at = 0;
	if (r->next.n == 0)
		finished(r, "done");
	else
		approve_one(r);
}

static void
on_undone(void *arg)
{
	struct runner *r = arg;

	if (!goes_on(r, &r->undone.is))
		return;
	if (r->undone.remaining == 0)
		finished(r, "undone");
	else
		loop_timer_set(r->timer, BETWEEN_MS);
}

static void
on_timer(void *arg)
{
	struct runner *r = arg;

	memset(&r->step, 0, sizeof(r->step));
	memset(&r->undone, 0, sizeof(r->undone));
	r->anew = false;
	if (r->verdict == JOB_UNDO) {
		job_undo(
		    &r->who, &r->job, JOB_UNDO_ROWS, &r->undone, on_undone, r);
		return;
	}
	if (r->verdict == 'r') {
		job_reject(&r->who, &r->job, REJECT_ROWS, &r->step, on_step, r);
		return;
	}
	if (r->at < r->next.n) {
		approve_one(r);
		return;
	}
	arena_free(&r->mem);
	memset(&r->next, 0, sizeof(r->next));
	job_next(&r->who, &r->job, APPROVE_ROWS, &r->mem, &r->next, on_next, r);
}

static struct runner *
find(const struct job_runners *all, const struct uuid *job)
{
	struct runner *r;

	TAILQ_FOREACH(r, &all->list, link)
		if (uuid_eq(&r->job, job))
			return r;
	return NULL;
}

bool
job_is_running(const struct job_runners *all, const struct uuid *job)
{
	return find(all, job) != NULL;
}

void
job_runners_turn(
    struct job_runners *all, const struct secret *from, const struct secret *to)
{
	struct runner *r;

	TAILQ_FOREACH(r, &all->list, link)
		if (secret_eq(&r->who.session, from))
			r->who.session = *to;
}

bool
job_run(struct job_runners *all, const struct uuid *job, char verdict,
    const struct store_operator *who)
{
	struct runner *r = find(all, job);

	if (r != NULL) {
		r->who = *who;
		press_follow(all->admin, &r->who.session);
		r->verdict = verdict;
		r->anew = true;
		return true;
	}
	if (all->n >= JOB_RUNNERS)
		return false;
	r = xcalloc(1, sizeof(*r));
	r->all = all;
	r->job = *job;
	r->verdict = verdict;
	r->who = *who;
	press_follow(all->admin, &r->who.session);
	r->timer = loop_timer_new(all->admin->loop, on_timer, r);
	TAILQ_INSERT_TAIL(&all->list, r, link);
	all->n++;
	loop_timer_set(r->timer, 1);
	return true;
}
