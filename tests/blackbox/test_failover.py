# SPDX-License-Identifier: ISC
"""
Three gateways, three workers, three copies of the pages, PostgreSQL with a
synchronous standby, Redis with Sentinels, each on a host of its own
(tests/lib/cluster.py): fifty times one is killed or cut off while agents
submit, operators decide and mail leaves. What test_kill.py demands of one host
holds here: nothing that was acknowledged is lost, nothing leaves unapproved,
nothing twice. How long nobody was served is printed for each kind.
"""
import collections
import os
import random
import re
import shutil
import signal
import threading
import time

import pytest

from tests.blackbox import test_kill
from tests.blackbox.test_kill import (  # noqa: F401
    test_a_decision_that_was_answered_stays,
    test_every_message_is_in_a_legal_state,
    test_nothing_leaves_unapproved_or_twice,
    test_what_arrived_is_what_was_submitted,
    test_what_was_acknowledged_is_there_once)
from tests.lib import cluster, load, postern
from tests.lib.relaying import STATES

FULL = os.environ.get("POSTERN_FULL") == "1"
NEEDED = ("haproxy", "redis-sentinel", "ip", "nsenter")
pytestmark = pytest.mark.skipif(
    not FULL or os.geteuid() != 0 or not all(map(shutil.which, NEEDED)),
    reason="--full only, as root, with " + ", ".join(NEEDED))
SEED = int(os.environ.get("POSTERN_SEED", "1"))
KINDS = {"kill gateway": 7, "kill worker": 7, "kill pages": 4,
         "kill primary": 7, "kill standby": 4, "kill redis": 4,
         "cut app": 6, "cut primary": 5, "cut standby": 3, "cut redis": 3}
# The longest that nobody may be served: a failover, and what finds it out.
AWAY_MAX_S = 30
PAUSE_S = 0.05  # of each agent: the operators are to have their turn
DOT_S = 1  # the smarthost's, so that much is between a dot and its reply


def slow_reply(session, line):
    threading.Event().wait(DOT_S)


class Tally(load.Tally):
    """And when each acknowledgement came."""

    def __init__(self):
        super().__init__()
        self.times = []

    def add(self, door, subject, mid):
        self.times.append(time.monotonic())
        super().add(door, subject, mid)

    def longest(self, since):
        """The longest time without one since then."""
        times = [since] + [t for t in list(self.times) if t >= since]
        return max((b - a for a, b in zip(times, times[1:])), default=0)


class Trouble(test_kill.Killer):
    def __init__(self):
        self.d = cluster.Cluster()
        try:
            self.begin(self.d)
        except BaseException:
            self.d.close()
            raise

    def begin(self, d):
        d.set_conf("admin", undo="0s")
        for app in cluster.APPS:
            d.programs.pop("posternd-" + app).stop()
        d.start("posternd")
        d.start("postern-admin")
        d.start("postern-deliver")
        d.start_keeper()
        d.boxes = [d.add_inbox("agent%d@acme.example" % i) for i in range(4)]
        d.sql("UPDATE d.inbox SET lim_hour = 1000000, lim_day = 1000000, "
              "lim_month = 1000000, lim_held = 1000000")
        self.tally = Tally()
        self.agents = [
            (load.SmtpAgent if i % 2 else load.RestAgent)(
                d, d.boxes[i % 4], i, self.tally) for i in range(4)]
        for a in self.agents:
            a.pause = PAUSE_S
        d.mx.script["dot"] = slow_reply
        self.deciders = [load.Decider(d, SEED, i, 2) for i in range(2)]
        self.killed, self.steps = [], []
        self.gaps = collections.defaultdict(list)

    def hurt(self, kind, rng):
        self.progress(rng.randrange(2, 8))
        threading.Event().wait(rng.random() * 0.1)
        since = time.monotonic()
        getattr(self, kind.replace(" ", "_"))(rng)
        self.progress(3)
        self.d.keeper.wait_whole()
        self.gaps[kind].append(self.tally.longest(since))
        self.killed.append(kind)

    def again(self, app, program):
        """Killed, and started anew, as the service manager does."""
        self.d.programs.pop("%s-%s" % (program, app)).kill()
        self.progress(2)
        self.d.start_on(app, program)

    def kill_gateway(self, rng):
        self.again(rng.choice(cluster.APPS), "posternd")

    def kill_worker(self, rng):
        self.again(rng.choice(cluster.APPS), "postern-deliver")

    def kill_pages(self, rng):
        self.again(rng.choice(cluster.APPS), "postern-admin")

    def over(self):
        k = self.d.keeper
        before = k.failovers
        return lambda: k.failovers > before

    def kill_primary(self, rng):
        """Sometimes it comes back before anybody was promoted."""
        self.d.keeper.wait_whole()  # alone, it is nobody's to replace
        over = self.over()
        self.d.stop_db(self.d.keeper.primary)
        postern.wait_until("a new primary", over, 60, 0.1)

    def kill_standby(self, rng):
        self.d.stop_db(self.d.keeper.standby)

    def cut_primary(self, rng):
        self.d.keeper.wait_whole()
        host, over = self.d.keeper.primary, self.over()
        self.d.cut(host)
        postern.wait_until("a new primary", over, 60, 0.1)
        self.d.heal(host)

    def cut_standby(self, rng):
        host = self.d.keeper.standby
        self.d.cut(host)
        self.progress(3)
        self.d.heal(host)

    def cut_app(self, rng):
        host = rng.choice(cluster.APPS)
        self.d.cut(host)
        self.progress(5)
        self.d.heal(host)

    def new_master(self, old):
        postern.wait_until("a new Redis", lambda: self.d.redis_master() not in
                           (None, old), 60, 0.2)

    def kill_redis(self, rng):
        old = postern.wait_until("a Redis", self.d.redis_master, 30)
        self.d.parts["redis", old].kill()
        self.new_master(old)
        # It comes back as Sentinel finds it: a replica of the new one.
        self.d.start_one_redis(old, self.d.redis_master())
        self.with_replica(old)

    def cut_redis(self, rng):
        old = postern.wait_until("a Redis", self.d.redis_master, 30)
        self.d.cut(old)
        self.new_master(old)
        self.d.heal(old)
        self.with_replica(old)

    def with_replica(self, host):
        postern.wait_until("its replica", lambda: b"connected_slaves:1" in
                           self.d.redis_says("info", "replication"), 60, 0.2)

    def print_gaps(self):
        print("\nlongest without service, seconds:")
        for kind, gaps in sorted(self.gaps.items()):
            print("  %-14s %2d times, median %5.1f, worst %5.1f" % (
                kind, len(gaps), sorted(gaps)[len(gaps) // 2], max(gaps)))


@pytest.fixture(scope="module")
def k():
    print("\nseed %d" % SEED)
    t = Trouble()
    try:
        t.go()
        rng = random.Random("failover %d" % SEED)
        plan = [kind for kind, n in KINDS.items() for _ in range(n)]
        rng.shuffle(plan)
        try:
            for kind in plan:
                t.hurt(kind, rng)
        finally:
            t.print_gaps()
        t.halt()
        t.drain()
        t.rows = {r["subject"]: r for r in t.d.sql(
            "SELECT m.message_id, m.subject, s.state, s.round, s.integrity, "
            "EXISTS (SELECT 1 FROM d.decision c WHERE c.message_id = "
            "m.message_id AND c.verdict = 'a' AND c.digest = m.digest) AS "
            "approved, (SELECT max(v.status) FROM d.delivery v WHERE "
            "v.message_id = m.message_id) AS delivery FROM d.message m JOIN "
            "d.state s USING (message_id, tenant_id)")}
        t.sink = collections.Counter(
            re.search(rb"(?m)^Subject: (\S+)", m["data"])[1].decode()
            for m in t.d.mx.messages)
        print("%d times hurt, %d failovers; %s acknowledged, %d sent again, "
              "%d at the smarthost; states %s" % (
                  len(plan), t.d.keeper.failovers, t.tally.doors,
                  sum(a.retries for a in t.agents), len(t.d.mx.messages),
                  dict(collections.Counter(
                      STATES[r["state"]] for r in t.rows.values()))))
        yield t
    finally:
        t.halt()
        t.d.close()


def test_service_comes_back_soon(k):
    assert len(k.killed) == sum(KINDS.values()) == 50
    assert k.d.keeper.failovers >= KINDS["kill primary"] + KINDS["cut primary"]
    late = {kind: max(gaps) for kind, gaps in k.gaps.items()
            if max(gaps) > AWAY_MAX_S}
    assert not late


def test_no_program_gave_up(k):
    """The standby that became primary is the same deployment to all."""
    for name, p in k.d.programs.items():
        assert not [e for e in p.events if e["event"] == "daemon.database"], \
            name
        assert p.alive() or p.proc.returncode in (0, -signal.SIGKILL), name
