/* SPDX-License-Identifier: ISC */
/* gate.c - how many conversations a filter is asked to have at once. */
#include "milter/gate.h"

#include <stdlib.h>
#include <string.h>

#include "base/queue.h"
#include "base/xalloc.h"
#include "milter/internal.h"

TAILQ_HEAD(queue, milter);

struct milter_gate {
	unsigned refs, max, used;
	bool opening; /* open_gate() is on the stack */
	struct queue waiting, inside;
};

struct milter_gate *
milter_gate_new(unsigned max)
{
	struct milter_gate *gate = xcalloc(1, sizeof(*gate));

	gate->refs = 1;
	gate->max = max;
	TAILQ_INIT(&gate->waiting);
	TAILQ_INIT(&gate->inside);
	return gate;
}

/* One inbox leaves half of the places to others. */
static bool
has_share(const struct milter_gate *gate, const struct milter *m)
{
	const struct milter *other;
	unsigned n = 0;

	TAILQ_FOREACH(other, &gate->inside, turn)
		n += strcmp((char *)other->from.p, (char *)m->from.p) == 0;
	return n < (gate->max + 1) / 2;
}

static struct milter *
next_in_turn(const struct milter_gate *gate)
{
	struct milter *m;

	if (gate->used >= gate->max)
		return NULL;
	TAILQ_FOREACH(m, &gate->waiting, turn)
		if (has_share(gate, m))
			break;
	return m;
}

/* One place after another, also when who gets it fails at once. */
static void
open_gate(struct milter_gate *gate)
{
	struct milter *m;

	if (gate->opening)
		return;
	gate->opening = true;
	while ((m = next_in_turn(gate)) != NULL) {
		TAILQ_REMOVE(&gate->waiting, m, turn);
		TAILQ_INSERT_TAIL(&gate->inside, m, turn);
		m->place = MILTER_INSIDE;
		gate->used++;
		milter_connect(m);
	}
	gate->opening = false;
}

void
milter_gate_limit(struct milter_gate *gate, unsigned max)
{
	gate->max = max;
	open_gate(gate);
}

void
milter_gate_release(struct milter_gate *gate)
{
	if (gate != NULL && --gate->refs == 0)
		free(gate);
}

void
milter_gate_join(struct milter_gate *gate, struct milter *m)
{
	gate->refs++;
	m->gate = gate;
	m->place = MILTER_OUTSIDE;
}

void
milter_gate_enter(struct milter *m)
{
	m->place = MILTER_WAITING;
	TAILQ_INSERT_TAIL(&m->gate->waiting, m, turn);
	open_gate(m->gate);
}

void
milter_gate_leave(struct milter *m)
{
	struct milter_gate *gate = m->gate;

	if (gate == NULL)
		return;
	m->gate = NULL;
	switch (m->place) {
	case MILTER_OUTSIDE:
		break;
	case MILTER_WAITING:
		TAILQ_REMOVE(&gate->waiting, m, turn);
		break;
	case MILTER_INSIDE:
		TAILQ_REMOVE(&gate->inside, m, turn);
		gate->used--;
		open_gate(gate);
		break;
	}
	milter_gate_release(gate);
}
