/* SPDX-License-Identifier: ISC */
#include "admin/second.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/admin.h"
#include "base/arena.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "net/ask.h"

#define PART_MAX 6000

struct asking {
	struct second *out;
	struct arena *mem;
	void (*done)(void *arg);
	void *arg;
};

void
second_begin(
    struct buf *question, const char *name, const struct secret *session)
{
	/* All at once: growing would leave a copy of a secret behind. */
	(void)buf_reserve(question, ASK_MAX);
	buf_lp(question, name, strlen(name));
	buf_lp(question, session->b, session->n);
}

void
second_begin_turn(struct buf *question, const char *name,
    const struct secret *session, const unsigned char next_sha256[32])
{
	second_begin(question, name, session);
	buf_lp(question, next_sha256, 32);
}

static bool
read_number(struct str *rest, int *v)
{
	unsigned long long n;
	struct str s;

	if (!str_lp(rest, &s) || !str_to_u64(s, 1000000, &n))
		return false;
	*v = (int)n;
	return true;
}

static bool
read_answer(struct asking *a, struct str rest)
{
	struct second *out = a->out;
	struct str s;

	if (!read_number(&rest, &out->status) || !str_lp(&rest, &s))
		return false;
	snprintf(out->code, sizeof(out->code), "%.*s", (int)s.n, s.p);
	if (!read_number(&rest, &out->wait_s))
		return false;
	while (rest.n > 0) {
		if (out->n == SECOND_FIELDS || !str_lp(&rest, &s))
			return false;
		out->field[out->n++] =
		    (struct str){ arena_str(a->mem, s), s.n };
	}
	return true;
}

static void
on_answer(void *arg, const struct str *answer)
{
	struct asking a = *(struct asking *)arg;

	free(arg);
	if (answer == NULL || !read_answer(&a, *answer)) {
		memset(a.out, 0, sizeof(*a.out));
		a.out->status = 503;
		snprintf(a.out->code, sizeof(a.out->code), "auth_unavailable");
	}
	a.done(a.arg);
}

void
second_ask(struct admin *admin, struct buf *question, struct arena *mem,
    struct second *out, void (*done)(void *arg), void *arg)
{
	struct asking *a = xcalloc(1, sizeof(*a));

	a->out = out;
	a->mem = mem;
	a->done = done;
	a->arg = arg;
	ask_send(
	    loop_base(admin->loop), admin->auth_socket, question, on_answer, a);
}

bool
second_assertion(struct buf *question, const char *text, struct arena *mem)
{
	struct str rest = str_of(text), part;
	size_t n, parts = 0;
	char *to;

	while (rest.n > 0) {
		part = str_split(&rest, '.');
		if (part.n == 0 || part.n > PART_MAX || ++parts > 4)
			return false;
		to = arena_get(mem, part.n + 4);
		if (!base64url_decode(to, &n, part.p, part.n))
			return false;
		buf_lp(question, to, n);
	}
	return parts == 4;
}

const char *
second_error(const struct second *s)
{
	if (s->status >= 500)
		return strcmp(s->code, "auth_unavailable") == 0 ? "no_auth"
								: "trouble";
	if (s->status == 429)
		return "slow";
	if (strcmp(s->code, "code_used") == 0)
		return "used";
	if (strcmp(s->code, "step_up_required") == 0)
		return "again";
	if (strcmp(s->code, "state_conflict") == 0)
		return "taken";
	if (s->status == 401)
		return "out";
	return s->status == 422 ? "invalid" : "code";
}
