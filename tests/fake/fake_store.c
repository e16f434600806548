/* SPDX-License-Identifier: ISC */
#include "tests/fake/fake_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/xalloc.h"
#include "store/credential.h"
#include "store/submit.h"

struct fake_store fake_store;

struct store {
	struct loop *loop;
};

struct store_auth {
	struct store *store;
	store_auth_fn *done;
	void *arg;
	char token[32];
};

struct store_touch {
	struct store *store;
	store_touch_fn *done;
	void *arg;
};

struct submit {
	struct store *store;
	submit_done_fn *done;
	submit_room_fn *room;
	void *arg;
	struct uuid id;
	unsigned feeds;
	bool finished;
};

static struct submit *held_back;

struct store *
fake_store_new(struct loop *loop)
{
	struct store *store = xcalloc(1, sizeof *store);

	buf_free(&fake_store.message);
	buf_free(&fake_store.rcpts);
	buf_free(&fake_store.notify);
	fake_store = (struct fake_store){ .mode = 2, .state = 1 };
	held_back = NULL;
	store->loop = loop;
	return store;
}

void
fake_store_free(struct store *store)
{
	buf_free(&fake_store.message);
	buf_free(&fake_store.rcpts);
	buf_free(&fake_store.notify);
	free(store);
}

static void
auth_answer(void *arg)
{
	struct store_auth op = *(struct store_auth *)arg;
	struct store_cred *cred = NULL;
	enum err_code code = E_UNKNOWN_API_KEY;

	free(arg);
	if (strcmp(op.token, "down") == 0)
		code = E_STORE_UNAVAILABLE;
	if (!fake_store.revoked &&
	    (strcmp(op.token, "good") == 0 || strcmp(op.token, "wide") == 0)) {
		code = E_NONE;
		cred = xcalloc(1, sizeof *cred);
		cred->store = op.store;
		cred->scope = op.token[0] == 'w' ? 'f' : 's';
		cred->mode = fake_store.mode;
		cred->domain_verified = !fake_store.unverified;
		memcpy(cred->address, "bot@example.org", 16);
	}
	op.done(op.arg, code, cred);
}

struct store_auth *
store_auth(struct store *store, struct str token, enum store_auth_use use,
    store_auth_fn *done, void *arg)
{
	struct store_auth *op = xcalloc(1, sizeof *op);

	(void)use;
	fake_store.auths++;
	op->store = store;
	op->done = done;
	op->arg = arg;
	snprintf(op->token, sizeof op->token, "%.*s", (int)token.n, token.p);
	loop_defer(store->loop, auth_answer, op);
	return op;
}

void
store_auth_cancel(struct store_auth *op)
{
	loop_undefer(op->store->loop, auth_answer, op);
	free(op);
}

void
store_cred_free(struct store_cred *cred)
{
	free(cred);
}

bool
store_cred_alive(const struct store_cred *cred)
{
	return !cred->revoked;
}

bool
store_cred_fresh(const struct store_cred *cred)
{
	(void)cred;
	return !fake_store.stale;
}

static void
touch_answer(void *arg)
{
	struct store_touch op = *(struct store_touch *)arg;

	free(arg);
	op.done(op.arg, fake_store.revoked      ? E_UNKNOWN_API_KEY
			: fake_store.touch_down ? E_STORE_UNAVAILABLE
						: E_NONE);
}

struct store_touch *
store_cred_touch(struct store_cred *cred, store_touch_fn *done, void *arg)
{
	struct store_touch *op = xcalloc(1, sizeof *op);

	fake_store.touches++;
	*op = (struct store_touch){ cred->store, done, arg };
	loop_defer(op->store->loop, touch_answer, op);
	return op;
}

void
store_touch_cancel(struct store_touch *op)
{
	loop_undefer(op->store->loop, touch_answer, op);
	free(op);
}

void
store_cred_sent(struct store_cred *cred)
{
	cred->used_day++;
}

void
store_denied(
    const struct store_cred *cred, const char *what, const char *detail)
{
	(void)cred;
	(void)what;
	(void)detail;
	fake_store.denied++;
}

struct submit *
submit_begin(const struct store_cred *cred, const struct submit_envelope *env,
    submit_done_fn *done, submit_room_fn *room, void *arg)
{
	struct submit *sub = xcalloc(1, sizeof *sub);
	size_t i;

	fake_store.begun++;
	*sub = (struct submit){ cred->store, done, room, arg, uuid_v7_new(), 0,
		false };
	buf_clear(&fake_store.message);
	buf_clear(&fake_store.rcpts);
	buf_clear(&fake_store.notify);
	fake_store.smtputf8 = env->smtputf8;
	fake_store.require_tls = env->require_tls;
	fake_store.ret = env->ret;
	for (i = 0; i < env->rcpt_count; i++) {
		buf_add_str(&fake_store.rcpts, env->rcpt[i].address);
		buf_putc(&fake_store.rcpts, '\n');
		buf_u8(&fake_store.notify, env->rcpt[i].notify);
	}
	return sub;
}

static void
make_room(void *arg)
{
	struct submit *sub = arg;

	sub->room(sub->arg);
}

bool
submit_feed(struct submit *sub, const void *p, size_t n)
{
	buf_add(&fake_store.message, p, n);
	if (fake_store.stingy == 0 || ++sub->feeds % fake_store.stingy != 0)
		return true;
	if (fake_store.hold)
		held_back = sub;
	else
		loop_defer(sub->store->loop, make_room, sub);
	return false;
}

enum err_code
submit_failed(const struct submit *sub)
{
	(void)sub;
	return E_NONE;
}

static void
submit_answer(void *arg)
{
	struct submit sub = *(struct submit *)arg;
	struct submit_outcome out = { .code = fake_store.outcome };

	free(arg);
	if (fake_store.revoked)
		out.code = E_UNKNOWN_API_KEY;
	out.message = sub.id;
	out.state = fake_store.state;
	out.size = (int64_t)fake_store.message.n;
	if (sub.done != NULL)
		sub.done(sub.arg, &out);
}

void
submit_finish(struct submit *sub)
{
	fake_store.finished++;
	sub->finished = true;
	loop_undefer(sub->store->loop, make_room, sub);
	if (fake_store.hold)
		held_back = sub;
	else
		loop_defer(sub->store->loop, submit_answer, sub);
}

void
fake_store_let_go(void)
{
	if (held_back != NULL)
		loop_defer(held_back->store->loop,
		    held_back->finished ? submit_answer : make_room, held_back);
	held_back = NULL;
}

/* After submit_finish() the message goes on, unheard. */
void
submit_cancel(struct submit *sub)
{
	fake_store.cancelled++;
	loop_undefer(sub->store->loop, make_room, sub);
	loop_undefer(sub->store->loop, submit_answer, sub);
	if (held_back == sub)
		held_back = NULL;
	free(sub);
}

struct uuid
submit_id(const struct submit *sub)
{
	return sub->id;
}
