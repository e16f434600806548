/* SPDX-License-Identifier: ISC */
/*
 * queue.pml - one released message, two workers, one operator, the sweeper.
 *
 * What the database does in one transaction is one atomic step here; what
 * happens between two transactions may be interleaved with everything else,
 * and a worker may die or stall at every point. The rules are those of
 * store/migrations/0008_relay.sql: claim, attempt, dot, done, release_lease,
 * lease_end, pull_back, sweep. Stalled workers wake up with a lease that has run out.
 *
 * Shown, by looking at every reachable state:
 *   - no byte leaves without a release of the current round (an approval by
 *     the operator, or by policy while the mode is not stricter now);
 *   - nothing sent under a lease that another worker has taken over;
 *   - at most one copy reaches the peer, but for the copies a person asked
 *     for while the message "may have been sent";
 *   - a message is never lost: whatever happens, it ends in a final state
 *     or waits for a person, and a final "sent" means that the peer has it.
 *
 * -DSPLIT_CLAIM   claims by reading first and writing later: must fail.
 * -DNO_DOT_COMMIT sends the dot without committing dot_sent: must fail.
 * -DNO_FENCE      asks for no live lease of its own: must fail.
 * -DAUTO_RESEND   takes a lost lease after the dot for a lost message: must
 *                 fail.
 * -DNO_MODE_CHECK forgets at the dot that the mode is stricter: must fail.
 * -DGIVE_BACK_DOT gives a lease back after the dot as if nothing had left: must
 *                 fail.
 */

#define ROUNDS 2	/* releases */
#define LEASES 4	/* claims in all */
#define RESENDS 1	/* times a person asks for another copy */

mtype = { HELD, APPROVED, SENDING, SENT, DEFERRED, BOUNCED, UNCERTAIN,
	CANCELED, REJECTED };
mtype = { PENDING, MARKED, DOT, DELIVERED, LATER, FAILED, DOUBT, DROPPED };

/* The database. */
mtype state = HELD;
mtype row = PENDING;
bool queued;		/* a row in send_q */
byte q_round;		/* its round */
byte round = 1;
byte lease;		/* 0: none; else the token */
byte next_lease = 1;
bool lease_over;	/* the lease's time has run out */
bool by_policy;
bool tightened;		/* the mode is stricter now than at the release */
bool paused;

/* The world, for the properties only. */
byte copies;		/* that reached the peer */
byte asked;		/* copies a person allowed beyond the first */
byte releases;

#define DERIVE							\
	if						\
	:: lease != 0 -> state = SENDING		\
	:: lease == 0 && row == DOUBT -> state = UNCERTAIN	\
	:: lease == 0 && (row == PENDING || row == LATER) -> state = DEFERRED \
	:: lease == 0 && row == FAILED -> state = BOUNCED	\
	:: lease == 0 && row == DELIVERED -> state = SENT	\
	:: lease == 0 && row == DROPPED -> state = CANCELED	\
	fi

#ifdef AUTO_RESEND
#define AFTER_DOT PENDING
#else
#define AFTER_DOT DOUBT
#endif

/* d.lease_end: what was marked goes back, what passed the dot is doubtful. */
#define LEASE_END						\
	if						\
	:: row == MARKED -> row = PENDING		\
	:: row == DOT -> row = AFTER_DOT		\
	:: else						\
	fi;						\
	lease = 0; lease_over = false;			\
	if						\
	:: row == PENDING || row == LATER		\
	:: else -> queued = false			\
	fi

/* d.pull_back: held in the next round, or the rest is dropped. */
#define PULL_BACK						\
	queued = false; lease = 0; lease_over = false;	\
	if						\
	:: row == DOT -> row = DOUBT			\
	:: else						\
	fi;						\
	if						\
	:: row == DOUBT || row == DELIVERED -> DERIVE	\
	:: else -> row = PENDING; state = HELD; round++	\
	fi

#ifdef NO_FENCE
#define MINE (state == SENDING && q_round == round && queued)
#else
#define MINE (lease == token && !lease_over && state == SENDING && \
	q_round == round && queued)
#endif

#ifdef NO_MODE_CHECK
#define STRICTER false
#else
#define STRICTER (by_policy && tightened)
#endif

proctype worker(byte id)
{
	byte token;
	byte my_round;

idle:
	token = 0; my_round = 0;
	if
	:: atomic {
		queued && lease == 0 && !paused && next_lease <= LEASES &&
		    (state == APPROVED || state == SENDING ||
		    state == DEFERRED || state == UNCERTAIN);
#ifdef SPLIT_CLAIM
	   }
	   atomic {
#endif
		token = next_lease; next_lease++;
		lease = token; lease_over = false; state = SENDING;
		my_round = q_round
	   }
	:: goto end
	fi;

	/* fetch_1, the tag and the digest; then attempt_1. */
	if
	:: atomic { MINE -> row = MARKED }
	:: atomic { !MINE -> goto idle }
	:: goto idle		/* dies; the lease runs out */
	:: atomic {		/* release_lease_1: the worker stops */
		MINE -> LEASE_END; DERIVE; goto idle }
	:: atomic {		/* integrity_1: the tag or digest is wrong */
		MINE -> PULL_BACK; goto idle }
	fi;

	/* MAIL, RCPT, DATA, all of the message but the last five octets. */
	if
	:: skip
	:: goto idle		/* dies */
	:: atomic {		/* refused before the dot: done_1 */
		MINE -> row = LATER; LEASE_END; DERIVE; goto idle }
	:: atomic { MINE -> row = FAILED; LEASE_END; DERIVE; goto idle }
	:: atomic {		/* release_lease_1: the worker stops */
		MINE -> LEASE_END; DERIVE; goto idle }
	fi;

	/* dot_1, the last gate. */
	atomic {
		if
		:: !MINE -> goto idle
		:: MINE && STRICTER -> PULL_BACK; goto idle
		:: MINE && !STRICTER && paused ->
			row = LATER; LEASE_END; DERIVE; goto idle
		:: else ->
			assert(row == MARKED);
			assert(releases > 0 && my_round == round);
			assert(!(by_policy && tightened) && !paused);
#ifndef NO_DOT_COMMIT
			row = DOT
#else
			skip
#endif
		fi
	}
	if
	:: skip
	:: goto idle		/* dies with the dot committed, not sent */
	:: goto unsent		/* the answer is lost: no dot leaves */
	fi;

	/* The dot leaves: from here the peer may have the message. */
	atomic {
		if
		:: copies++;
			assert(copies <= 1 + asked)
		:: goto refused
		:: goto lost	/* the connection breaks before it arrives */
		fi
	}
	if
	:: skip
	:: goto idle		/* dies before the reply is stored */
	fi;
	if
	:: atomic { MINE && row == DOT -> row = DELIVERED; LEASE_END; DERIVE }
	:: atomic {		/* no reply came: uncertain */
		MINE && row == DOT -> row = DOUBT; LEASE_END; DERIVE }
#ifdef GIVE_BACK_DOT
	:: atomic { MINE && row == DOT -> row = PENDING; LEASE_END; DERIVE }
#endif
	:: atomic { !(MINE && row == DOT) -> skip }
	fi;
	goto idle;

unsent:
	if
	:: atomic { MINE && row == DOT -> row = LATER; LEASE_END; DERIVE }
	:: atomic { !(MINE && row == DOT) -> skip }
	:: skip			/* dies */
	fi;
	goto idle;

refused:
	if
	:: atomic { MINE && row == DOT -> row = LATER; LEASE_END; DERIVE }
	:: atomic { MINE && row == DOT -> row = FAILED; LEASE_END; DERIVE }
	:: atomic { !(MINE && row == DOT) -> skip }
	:: skip			/* dies */
	fi;
	goto idle;

lost:
	if
	:: atomic { MINE && row == DOT -> row = DOUBT; LEASE_END; DERIVE }
	:: atomic { !(MINE && row == DOT) -> skip }
	:: skip			/* dies */
	fi;
	goto idle;

end:
	skip
}

proctype operator()
{
	do
	:: atomic {		/* decide: approve */
		state == HELD && releases < ROUNDS -> releases++;
		by_policy = false; state = APPROVED;
		if
		:: row == LATER || row == DROPPED -> row = PENDING
		:: else
		fi;
		queued = true; q_round = round }
	:: atomic { state == HELD -> state = REJECTED }
	:: atomic {		/* undo, before hand-off */
		state == APPROVED && lease == 0 ->
		PULL_BACK }
	:: atomic {		/* cancel, by agent or operator */
		(state == APPROVED || state == DEFERRED) && lease == 0 ->
		queued = false;
		if
		:: row == PENDING || row == LATER -> row = DROPPED
		:: else
		fi;
		if
		:: state == APPROVED -> state = CANCELED
		:: else -> DERIVE
		fi }
	:: atomic { !paused -> paused = true }
	:: atomic { paused -> paused = false }
	:: atomic { by_policy && !tightened -> tightened = true }
	:: atomic {		/* uncertain: it arrived */
		state == UNCERTAIN && row == DOUBT && copies > 0 ->
		row = DELIVERED; DERIVE }
	:: atomic {		/* uncertain: send again */
		state == UNCERTAIN && row == DOUBT && asked < RESENDS ->
		asked++; row = PENDING; queued = true; q_round = round;
		DERIVE }
	:: break
	od
}

proctype sweep()
{
end:
	do
	:: atomic { lease != 0 && !lease_over -> lease_over = true }
	:: atomic {		/* recovered: the lease ran out */
		lease != 0 && lease_over -> LEASE_END; DERIVE }
	:: atomic {		/* released by a mode that is stricter now */
		queued && lease == 0 && by_policy && tightened -> PULL_BACK }
	:: atomic {		/* aged: an approval too old */
		queued && lease == 0 && round == 1 &&
		(state == APPROVED || state == DEFERRED) -> PULL_BACK }
	od
}

/* A released message is in the queue, ended, or waits for a person. */
#define LOST ((state == APPROVED || state == DEFERRED) && !queued)
#define FALSE_SENT (state == SENT && copies == 0)
#define NO_RELEASE (copies > 0 && releases == 0)

active proctype watch()
{
end:
	atomic { (LOST || FALSE_SENT || NO_RELEASE) -> assert(false) }
}

init {
	atomic {
		if
		:: skip
		:: by_policy = true; releases = 1; state = APPROVED;
			queued = true; q_round = round
		fi;
		run worker(0);
		run worker(1);
		run operator();
		run sweep()
	}
}
