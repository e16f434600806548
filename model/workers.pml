/* SPDX-License-Identifier: ISC */
/*
 * workers.pml - one released message, many workers, rules, suspension, pause,
 * a mode that tightens, and what only may have been sent.
 *
 * What the database does in one transaction is one atomic step; between two
 * of them anything else may happen, and a worker may die or stall. Each worker
 * here makes one claim and is gone: one that comes back is another one. They
 * claim in order, which loses nothing, as they are all alike.
 *
 * States and moves are those of policy/vocabulary.def and policy/edges.def:
 * model/words makes S_..., D_..., A_..., EDGE_OK and STEP_OK of them, and
 * every move below is asserted to be legal. The transactions are those of
 * store/migrations/0008_relay.sql (claim_due_1, attempt_1, dot_1, done_1,
 * release_lease_1, integrity_1, sweep_1, d.lease_end, d.pull_back, d.gate),
 * 0012_routes.sql (route_1) and 0016_sets.sql (fetches_1).
 *
 * Shown, by looking at every state that can be reached:
 *   - the dot leaves under a release of this round, under the worker's own
 *     live lease, and not while an operator said stop in any way;
 *   - who was told by a rule to wait or to fail sends nothing;
 *   - at most one copy reaches the peer, and one more for each that a person
 *     asked for, or once where the inbox said "retry once, may duplicate",
 *     and that one to the host that may have the first (d.host_fits);
 *   - what may have been sent is left by a person only, also where it was to
 *     be sent once more and never was;
 *   - nothing is lost: it is in the queue, has ended, or waits for a person.
 *
 * `mutant` (MUTANT of the environment) makes one rule wrong; each of them must
 * be found out. model/check runs them all, with one program.
 */
#include "words.pml"

#define M_SPLIT_CLAIM 1	/* claims by reading first, writing later */
#define M_NO_DOT_COMMIT 2	/* sends the dot without committing dot_sent */
#define M_NO_FENCE 3	/* asks for no live lease of its own */
#define M_AUTO_RESEND 4	/* takes lost leases after the dot for lost mail */
#define M_NO_MODE_CHECK 5	/* forgets that the mode is stricter */
#define M_GIVE_BACK_DOT 6	/* gives back after the dot as if none had left */
#define M_NO_PAUSE_CHECK 7	/* forgets at the gates that all is paused */
#define M_NO_SUSPEND_CHECK 8	/* forgets that the inbox is suspended */
#define M_RULES_UNREAD 9	/* goes on whatever the rule says */
#define M_RETRY_TWICE 10	/* "retry once" without counting */
#define M_RESOLVED_BY_SWEEP 11	/* calls what may have been sent, sent */
#define M_OTHER_HOST 12	/* asks any host once more */
#define M_FORGETS_DOUBT 13	/* fails what may have been sent before */

#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef ROUNDS
#define ROUNDS 2	/* releases */
#endif
#ifndef RESENDS
#define RESENDS 1	/* times a person asks for another copy */
#endif

/* What an operator says now; to look at one at a time is enough, as each
 * stops the same steps. */
#define GO 0
#define PAUSED 1
#define SUSPENDED 2
#define STRICTER 3	/* the mode, than at a release by policy */
#define RULE_WAIT 4	/* of a domain: policy/ does not know of these, */
#define RULE_FAIL 5	/* d.route does */

/* The database. */
byte state = S_HELD;
byte row = D_PENDING;
bool queued;		/* a row in send_q */
byte q_round;
byte round = 1;
byte lease;		/* 0: none, else the worker's number */
bool lease_over;	/* its time has run out */
bool by_policy;
bool may_duplicate;
bool again;	/* resent: a person let it be sent again */
bool once_more;	/* unsure_mx is known: it may have it, and is asked once more */
byte stop = GO;
byte mutant;

/* The world, for the properties only. */
byte claimed;		/* workers that have */
byte copies;		/* that reached the peer */
bool doubtful;		/* a dot left, and neither host nor person said more */
byte asked;		/* that were allowed beyond the first */
byte resent;		/* of these, by a person */
byte released;		/* the last round that was */
byte releases;

#define MOVE(to, by)	assert(state == to || EDGE_OK(state, to, by)); \
	state = to
#define STEP(to, by)	assert(row == to || STEP_OK(row, to, by)); row = to

/* d.derived, d.state_derive */
inline derive(by) {
	if
	:: lease != 0 -> MOVE(S_SENDING, by)
	:: lease == 0 && row == D_UNCERTAIN -> MOVE(S_UNCERTAIN, by)
	:: lease == 0 && (row == D_PENDING || row == D_DEFERRED) ->
		MOVE(S_DEFERRED, by)
	:: lease == 0 && (row == D_FAILED || row == D_SUPPRESSED) ->
		MOVE(S_BOUNCED, by)
	:: lease == 0 && row == D_DELIVERED -> MOVE(S_SENT, by)
	:: lease == 0 && row == D_CANCELED -> MOVE(S_CANCELED, by)
	fi
}

/* After the dot without an answer. */
inline doubt() {
	doubtful = true;
	if
	:: mutant != M_AUTO_RESEND && may_duplicate &&
	    (!once_more || mutant == M_RETRY_TWICE) ->
		STEP(D_DEFERRED, A_WORKER);
		if
		:: !once_more -> asked++; once_more = true
		:: else
		fi
	:: mutant == M_AUTO_RESEND -> STEP(D_DEFERRED, A_WORKER)
	:: else -> STEP(D_UNCERTAIN, A_WORKER)
	fi
}

/* d.lease_end */
inline lease_end() {
	if
	:: row == D_SENDING -> STEP(D_PENDING, A_WORKER)
	:: row == D_DOT_SENT -> doubt()
	:: else
	fi;
	lease = 0; lease_over = false;
	queued = (row == D_PENDING || row == D_DEFERRED)
}

/* Not marked, nor ended */
#define IS_DUE (row == D_PENDING || row == D_DEFERRED)

/* d.pull_back to held, or what may have left stays and the rest ends. */
inline pull_back(by) {
	queued = false; lease = 0; lease_over = false;
	if
	:: row == D_DOT_SENT || ((once_more || again) && state != S_APPROVED &&
	    (row == D_SENDING || IS_DUE)) ->
		doubtful = true; STEP(D_UNCERTAIN, by)
	:: else
	fi;
	if
	:: row == D_UNCERTAIN || row == D_DELIVERED -> derive(by)
	:: else ->
		if
		:: row == D_SENDING -> STEP(D_PENDING, by)
		:: else
		fi;
		MOVE(S_HELD, by); round++
	fi
}

/* d.leased, and of the round of its release */
#define MINE (state == S_SENDING && queued && (mutant == M_NO_FENCE || \
	lease == me && !lease_over) && q_round == round)
#define IS_STRICTER (by_policy && stop == STRICTER && mutant != M_NO_MODE_CHECK)
#define IS_HALTED (stop == PAUSED && mutant != M_NO_PAUSE_CHECK || \
	stop == SUSPENDED && mutant != M_NO_SUSPEND_CHECK)

inline take() {
	lease = me; lease_over = false; MOVE(S_SENDING, A_WORKER)
}

/* done_1 and release_lease_1. What a stalled worker says is refused. */
inline done(what) {
	if
	:: MINE && (row == D_DOT_SENT || row == D_SENDING || IS_DUE) &&
	    (row == D_DOT_SENT || what != D_DELIVERED) ->
		if
		:: row == D_DOT_SENT ->
			doubtful = doubtful && what == D_DEFERRED;
			STEP(what, A_WORKER)
		:: row != D_DOT_SENT && what == D_FAILED && once_more &&
		    mutant != M_FORGETS_DOUBT -> STEP(D_UNCERTAIN, A_WORKER)
		:: else -> STEP(what, A_WORKER)
		fi;
		lease_end(); derive(A_WORKER)
	:: else
	fi
}
inline unsure() {
	if
	:: MINE && row == D_DOT_SENT -> doubt(); lease_end(); derive(A_WORKER)
	:: else
	fi
}
inline give_back() {
	if
	:: MINE -> lease_end(); derive(A_WORKER)
	:: else
	fi
}

/* d.gate: what it says no to it carries out; then the lease is over. */
#define GATE							\
	:: !MINE -> goto gone					\
	:: MINE && IS_STRICTER -> pull_back(A_WORKER); goto gone	\
	:: MINE && !IS_STRICTER && IS_HALTED ->			\
		if						\
		:: row == D_SENDING -> STEP(D_DEFERRED, A_WORKER)	\
		:: else						\
		fi;						\
		lease_end(); derive(A_WORKER); goto gone

/*
 * At each `if` the worker may also die, or stall: then its lease runs out, and
 * may be swept, before it goes on. What it was told is stored by the step that
 * it was told in, as nothing looks at it in between.
 */
proctype worker(byte me)
{
	byte seen = GO;	/* the rule it was told, until it has obeyed */
	bool passed;	/* fetches_1 asked the gate; it may rely on that or not */
	bool other;	/* it talks to another host than the one that is known */

	/* claim_due_1; nothing may ever be due again */
end_claim:
	if
	:: atomic {
		claimed == me - 1 && queued && lease == 0 &&
		    stop != PAUSED && stop != SUSPENDED && stop != RULE_WAIT &&
		    (state == S_APPROVED || state == S_DEFERRED ||
		    state == S_UNCERTAIN);
		claimed++;
		if
		:: mutant == M_SPLIT_CLAIM
		:: else -> take(); goto leased
		fi }
	fi;
	atomic { take() };

	/* fetch_1, or fetches_1, which tells whether the gate would let it go on.
	 */
leased:
	if
	:: skip
	:: atomic { MINE && !IS_STRICTER && !IS_HALTED -> passed = true }
	fi;

	/* The tag and the digest; route_1; then attempt_1, if that is not enough. */
	if
	:: goto gone
	:: atomic { true -> give_back(); goto gone }	/* or a rule says wait */
	:: atomic {				/* integrity_1 */
		MINE -> pull_back(A_WORKER); goto gone }
	:: atomic { true ->
		if
		:: passed -> seen = (stop >= RULE_WAIT -> stop : GO)
		GATE
		:: else ->
			seen = (stop >= RULE_WAIT -> stop : GO);
			STEP(D_SENDING, A_WORKER)
		fi;
		if
		:: mutant == M_RULES_UNREAD
		:: mutant != M_RULES_UNREAD && seen == RULE_WAIT ->
			give_back(); goto gone
		:: mutant != M_RULES_UNREAD && seen == RULE_FAIL ->
			done(D_FAILED); goto gone
		:: mutant != M_RULES_UNREAD && seen == GO
		fi;
		passed = false }
	fi;

	/* MAIL, RCPT, DATA, all but the last five octets; then dot_1. */
	if
	:: goto gone
	:: atomic { true -> give_back(); goto gone }
	:: atomic { true -> done(D_DEFERRED); goto gone }
	:: atomic { true -> done(D_FAILED); goto gone }
	:: atomic { true ->
		if
		:: skip
		:: once_more -> other = true
		fi;
		if
		GATE
		:: MINE && !IS_STRICTER && !IS_HALTED && other &&
		    mutant != M_OTHER_HOST ->
			STEP(D_SENDING, A_WORKER); STEP(D_PENDING, A_WORKER);
			done(D_DEFERRED); goto gone
		:: else ->
			assert((row == D_SENDING || IS_DUE) && lease == me);
			assert(released == round && q_round == round);
			assert(stop != PAUSED && stop != SUSPENDED);
			assert(!by_policy || stop != STRICTER);
			assert(seen == GO);
			if
			:: mutant == M_NO_DOT_COMMIT
			:: else -> STEP(D_DOT_SENT, A_WORKER)
			fi
		fi }
	fi;

	/* The dot leaves, or does not. */
	if
	:: atomic { copies++; assert(copies <= 1 + asked && !other) }
	:: goto gone
	:: atomic { true -> done(D_DEFERRED); goto gone }	/* no answer of dot_1; 4xx */
	:: atomic { true -> done(D_FAILED); goto gone }		/* 5xx */
	:: atomic { true -> unsure(); goto gone }	/* broke before it arrived */
	fi;
	if
	:: goto gone
	:: atomic { true -> unsure(); goto gone }	/* broke before the reply */
	:: atomic { mutant != M_GIVE_BACK_DOT -> done(D_DELIVERED) }
	:: atomic { mutant == M_GIVE_BACK_DOT -> done(D_DEFERRED) }
	fi;
gone:
	skip
}

proctype operator()
{
end:
	do
	:: atomic {		/* decide_1 */
		state == S_HELD && releases < ROUNDS ->
		releases++; released = round;
		by_policy = false;
		if
		:: row == D_DEFERRED || row == D_CANCELED ->
			STEP(D_PENDING, A_OPERATOR)
		:: else
		fi;
		MOVE(S_APPROVED, A_OPERATOR); queued = true; q_round = round }
	:: atomic { state == S_HELD -> MOVE(S_REJECTED, A_OPERATOR) }
	:: atomic {		/* undo */
		state == S_APPROVED && lease == 0 -> pull_back(A_OPERATOR) }
	:: atomic {		/* cancel */
		(state == S_APPROVED || state == S_DEFERRED) && lease == 0 ->
		queued = false;
		if
		:: once_more || again ->	/* d.unqueue */
			STEP(D_UNCERTAIN, A_POLICY); derive(A_OPERATOR)
		:: else -> STEP(D_CANCELED, A_OPERATOR);
			MOVE(S_CANCELED, A_OPERATOR)
		fi }
	:: atomic { stop == GO ->
		if
		:: stop = PAUSED
		:: stop = SUSPENDED
		:: by_policy -> stop = STRICTER
		:: stop = RULE_WAIT
		:: stop = RULE_FAIL
		fi }
	:: atomic { stop != GO && stop != STRICTER -> stop = GO }
	:: atomic {		/* uncertain_1: it arrived; or it did not */
		state == S_UNCERTAIN ->
		doubtful = false;
		if
		:: copies > 0 -> STEP(D_DELIVERED, A_OPERATOR)
		:: STEP(D_FAILED, A_OPERATOR)
		:: resent < RESENDS -> resent++; asked++;
			STEP(D_PENDING, A_OPERATOR); queued = true;
			q_round = round; again = true
		fi;
		derive(A_OPERATOR) }
	od
}

proctype sweep()
{
end:
	do
	:: atomic { lease != 0 && !lease_over -> lease_over = true }
	:: atomic {		/* recovered */
		lease != 0 && lease_over -> lease_end(); derive(A_WORKER) }
	:: atomic {
		mutant == M_RESOLVED_BY_SWEEP && state == S_UNCERTAIN ->
		row = D_DELIVERED; derive(A_WORKER) }
	:: atomic {		/* tightened */
		queued && lease == 0 && by_policy && stop == STRICTER &&
		    state != S_UNCERTAIN -> pull_back(A_WORKER) }
	:: atomic {		/* held, or released, for too long */
		state == S_HELD -> MOVE(S_EXPIRED, A_WORKER) }
	:: atomic {
		queued && lease == 0 && (state == S_APPROVED ||
		    state == S_DEFERRED) ->
		if
		:: (once_more || again) && state == S_DEFERRED ->
			pull_back(A_WORKER)
		:: else -> queued = false; STEP(D_CANCELED, A_WORKER);
			MOVE(S_EXPIRED, A_WORKER)
		fi }
	od
}

#define LOST ((state == S_APPROVED || state == S_DEFERRED) && !queued)
#define LEFT_DOUBT (row == D_UNCERTAIN && state != S_UNCERTAIN)
#define FALSE_SENT (state == S_SENT && copies == 0)
#define NO_RELEASE (copies > 0 && releases == 0)
#define FORGOTTEN (doubtful && (row == D_FAILED || row == D_CANCELED || \
	state == S_HELD || state == S_EXPIRED || state == S_BOUNCED))

active proctype watch()
{
end:
	atomic { (LOST || LEFT_DOUBT || FALSE_SENT || NO_RELEASE || FORGOTTEN) ->
		assert(false) }
}

init {
	byte i = 1;
	atomic {
		c_code { now.mutant = getenv("MUTANT") != NULL ?
			atoi(getenv("MUTANT")) : 0; };
		if
		:: skip
		:: by_policy = true; releases = 1; released = 1;
			state = S_APPROVED; queued = true; q_round = round
		fi;
		if
		:: skip
		:: may_duplicate = true
		fi;
		do
		:: i <= WORKERS -> run worker(i); i++
		:: else -> break
		od;
		run operator();
		run sweep()
	}
}
