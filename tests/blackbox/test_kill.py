# SPDX-License-Identifier: ISC
"""
kill -9 of PostgreSQL (the server, and one backend), Redis, a posternd worker,
its supervisor, postern-admin and postern-deliver at seeded moments while
agents submit by both doors, an operator decides and a smarthost takes mail:
- what was answered 250 or 202 is there once, under the id that was answered;
- what a person's decision was answered for stays decided;
- nothing leaves that nobody approved, and nothing leaves twice: what may have
  left before a crash waits as uncertain;
- the queue drains.
30 moments and two of the pages; --full adds more of each.
"""
import collections
import email
import os
import random
import re
import signal
import threading

import psycopg2
import pytest

from tests.lib import leaks, load, postern
from tests.lib.relaying import STATES, Relaying

SEED = int(os.environ.get("POSTERN_SEED", "1"))
FACTOR = 4 if os.environ.get("POSTERN_FULL") == "1" else 1
KINDS = {"server": 5, "backend": 5, "redis": 4, "worker": 5,
         "supervisor": 3, "deliver": 8, "admin": 2}
BEGINNING = ["banner", "EHLO", "AUTH"]
AT_SINK = BEGINNING + ["MAIL", "RCPT", "DATA", "before_dot", "dot"]


class Killer:
    """The deployment under load, and each way to hurt it."""

    def __init__(self):
        self.d = d = Relaying(lease="3s", one_connection=False)
        d.set_conf("admin", undo="0s")
        d.programs["posternd"].stop()
        d.workers = 2
        d._write_conf()
        d.start("posternd")
        d.start("postern-admin")
        d.start_worker()
        d.boxes = [d.add_inbox("agent%d@acme.example" % i) for i in range(4)]
        d.sql("UPDATE d.inbox SET lim_hour = 1000000, lim_day = 1000000, "
              "lim_month = 1000000, lim_held = 1000000")
        self.tally = load.Tally()
        self.agents = [
            (load.SmtpAgent if i % 2 else load.RestAgent)(
                d, d.boxes[i % 4], i, self.tally) for i in range(4)]
        self.deciders = [load.Decider(d, SEED, i, 2) for i in range(2)]
        self.killed, self.steps = [], []

    def go(self):
        for t in self.agents + self.deciders:
            t.start()
        self.progress(5)

    def progress(self, more):
        """Each door acknowledges that many more."""
        self.tally.wait({door: n + more for door, n in
                         {"smtp": 0, "rest": 0, **self.tally.now()}.items()})

    def halt(self):
        for t in self.agents + self.deciders:
            t.halt.set()
        for t in self.agents + self.deciders:
            if t.ident:
                t.join(60)
            assert not t.is_alive()

    # -- one of each ---------------------------------------------------------

    def server(self, rng):
        os.kill(self.d.postgres.pid, signal.SIGKILL)
        self.d.restart_postgres()

    def backend(self, rng):
        rows = self.d.sql(
            "SELECT pid, application_name AS who FROM pg_stat_activity WHERE "
            "application_name LIKE 'postern%%' ORDER BY who, pid")
        who = rng.choice(sorted({r["who"] for r in rows}))
        os.kill(rng.choice([r["pid"] for r in rows if r["who"] == who]),
                signal.SIGKILL)
        return who

    def redis(self, rng):
        self.d.redis.kill()
        os.unlink(self.d.redis_socket)
        self.d.start_redis()

    def worker(self, rng):
        top = self.d.programs["posternd"].pid

        def children():
            with open("/proc/%d/task/%d/children" % (top, top)) as f:
                return f.read().split()
        os.kill(int(rng.choice(postern.wait_until("a worker", children))),
                signal.SIGKILL)

    def supervisor(self, rng):
        self.d.programs["posternd"].kill()
        self.d.start("posternd")

    def admin(self, rng):
        self.d.programs["postern-admin"].kill()
        self.d.start("postern-admin")

    def deliver(self, rng):
        """Where its session with the smarthost is at a chosen step."""
        if not self.steps:
            self.steps = rng.sample(AT_SINK, len(AT_SINK))
        moment, worker = self.steps.pop(), self.d.worker
        there = threading.Event()

        def kill(session, line):
            if not there.is_set():
                os.kill(worker.pid, signal.SIGKILL)
                there.set()
        # A kept session never comes to its beginning again.
        self.d.mx.single = moment in BEGINNING
        self.d.mx.script[moment] = kill
        assert there.wait(60), "no mail reached %s" % moment
        self.d.mx.script.clear()
        self.d.mx.single = False
        worker.proc.wait(20)
        taken = len(self.d.mx.messages)
        self.d.start_worker()
        self.d.mx.wait_messages(taken + 1, 60)
        return moment

    def hurt(self, kind, rng):
        self.progress(rng.randrange(2, 12))
        spin = threading.Event()
        spin.wait(rng.random() * 0.02)  # anywhere within a commit
        detail = getattr(self, kind)(rng)
        name = kind + (" " + detail if detail else "")
        self.killed.append(name)
        self.progress(3)

    # -- the end ---------------------------------------------------------------

    def drain(self):
        """Everything due at once, instead of in a minute."""
        def empty():
            try:
                self.d.sql("UPDATE d.send_q SET due_at = clock_timestamp() "
                           "WHERE lease IS NULL AND due_at > "
                           "clock_timestamp()")
                return self.d.sql("SELECT count(*) AS n FROM d.send_q"
                                  )[0]["n"] == 0
            except psycopg2.Error:
                return False
        postern.wait_until("the queue to drain", empty, 90, 0.2)


@pytest.fixture(scope="module")
def k():
    print("\nseed %d" % SEED)
    killer = Killer()
    try:
        killer.go()
        rng = random.Random("moments %d" % SEED)
        plan = [kind for kind, n in KINDS.items() for _ in range(n * FACTOR)]
        rng.shuffle(plan)
        for kind in plan:
            killer.hurt(kind, rng)
        killer.halt()
        killer.drain()
        killer.rows = {r["subject"]: r for r in killer.d.sql(
            "SELECT m.message_id, m.subject, s.state, s.round, s.integrity, "
            "EXISTS (SELECT 1 FROM d.decision c WHERE c.message_id = "
            "m.message_id AND c.verdict = 'a' AND c.digest = m.digest) AS "
            "approved, (SELECT max(v.status) FROM d.delivery v WHERE "
            "v.message_id = m.message_id) AS delivery FROM d.message m JOIN "
            "d.state s USING (message_id, tenant_id)")}
        killer.sink = collections.Counter(
            re.search(rb"(?m)^Subject: (\S+)", m["data"])[1].decode()
            for m in killer.d.mx.messages)
        print("\n%d moments: %s\n%s acknowledged, %d sent again, "
              "%d decided, %d at the smarthost, %d cut before the dot; "
              "states %s" % (
                  len(plan), ", ".join(killer.killed),
                  killer.tally.doors, sum(a.retries for a in killer.agents),
                  sum(len(x.done) for x in killer.deciders), len(killer.d.mx.messages),
                  len(killer.d.mx.cut), dict(collections.Counter(
                      STATES[r["state"]] for r in killer.rows.values()))))
        yield killer
    finally:
        killer.halt()
        killer.d.close()


def test_what_was_acknowledged_is_there_once(k):
    assert k.d.count() == len(k.rows), "a subject is there twice"
    wrong = {s: (mid, k.rows.get(s)) for s, mid in k.tally.ids.items()
             if s not in k.rows
             or load.message_id(k.rows[s]["message_id"]) != mid}
    assert not wrong
    assert not k.tally.bad


def test_every_message_is_in_a_legal_state(k):
    legal = {"held", "rejected", "sent", "uncertain"}
    wrong = {s: STATES[r["state"]] for s, r in k.rows.items()
             if STATES[r["state"]] not in legal or r["integrity"]}
    assert not wrong
    for r in k.rows.values():
        state = STATES[r["state"]]
        assert (state in ("sent", "uncertain")) == r["approved"], r
        assert r["round"] == 1
        assert r["delivery"] == {"sent": 3, "uncertain": 6}.get(state), r


def test_a_decision_that_was_answered_stays(k):
    assert not [x.bad for x in k.deciders if x.bad]
    state = {load.message_id(r["message_id"]): STATES[r["state"]]
             for r in k.rows.values()}
    for x in k.deciders:
        for mid, verdict in x.done.items():
            assert state[mid] in (("sent", "uncertain") if verdict == "a"
                                  else ("rejected",)), (mid, verdict)
        assert {state[mid] for mid in x.left} <= {"held"}
    assert sum(len(x.done) for x in k.deciders) > len(k.killed)


def test_nothing_leaves_unapproved_or_twice(k):
    for subject, n in k.sink.items():
        assert k.rows[subject]["approved"], subject
        assert n == 1, (subject, n, k.rows[subject])
    for subject, r in k.rows.items():
        if STATES[r["state"]] == "sent":
            assert k.sink[subject] == 1, subject
    # a kill right behind the dot leaves one that nobody can be sure of
    dots = sum(x == "deliver dot" for x in k.killed)
    uncertain = [r for r in k.rows.values() if STATES[r["state"]] ==
                 "uncertain"]
    assert len(uncertain) >= dots


def test_what_arrived_is_what_was_submitted(k):
    for m in k.d.mx.messages:
        subject = re.search(rb"(?m)^Subject: (\S+)", m["data"])[1].decode()
        got = email.message_from_bytes(m["data"]).get_payload(decode=True)
        assert got.decode().split() == load.text_of(subject), subject


def test_no_secret_in_any_log(k):
    """Each deployment looks for its own at its end; here also that the
    search is able to find: every form of every secret, in a copy."""
    secrets = leaks.of_deployment(k.d)
    names = set(secrets.values())
    for name in ("key", "smtp_key secret part", "claim code", "cookie",
                 "operator password", "session", "Redis password",
                 "smarthost.password", "relay.key", "seal.key"):
        assert name in names, names
    logs = os.listdir(k.d.path("log"))
    assert {"posternd.jsonl", "postern-admin.jsonl", "postgres.log",
            "postern-deliver.jsonl", "redis.log"} <= set(logs)
    assert leaks.found(secrets, k.d.path("log")) == []
    os.mkdir(k.d.path("control"))
    with open(k.d.path("control", "log"), "wb") as f:
        f.write(b"\n".join(b"x" + s + b"y" for s in secrets))
    assert len(leaks.found(secrets, k.d.path("control"))) == len(secrets)
