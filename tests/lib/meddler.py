# SPDX-License-Identifier: ISC
"""
What happens to those who submit: an operator who revokes, pauses, blocks and
decides, and a world in which programs and servers die. Of each that changes
what an answer may be, a Window says since and until when.
"""
import collections
import os
import signal
import threading
import time

import psycopg2

from . import letters, postern

GRACE = 8  # seconds until all has noticed that something is over


class Window:
    def __init__(self):
        self.asked = time.monotonic()
        self.since = self.leaving = self.over = None

    def done(self):
        self.since = time.monotonic()

    def ending(self):
        self.leaving = time.monotonic()

    def ended(self):
        self.over = time.monotonic()

    def perhaps(self, since):
        return self.over is None or self.over + GRACE > since

    def surely(self, since):
        return self.since is not None and self.since < since and \
            self.leaving is None


class Windows:
    def __init__(self):
        self.lock = threading.Lock()
        self.of = collections.defaultdict(list)

    def begin(self, what):
        w = Window()
        with self.lock:
            self.of[what].append(w)
        return w

    def _some(self, what):
        with self.lock:
            return list(self.of.get(what, ()))

    def perhaps(self, what, since):
        return any(w.perhaps(since) for w in self._some(what))

    def surely(self, what, since):
        return any(w.surely(since) for w in self._some(what))


class Meddler:
    def __init__(self, town, rng):
        self.town, self.d, self.rng = town, town.d, rng
        self.did = collections.Counter()
        self.stops = []  # (what undoes it, its window)
        self.acts = [a for n, a in (
            (4, self.decide), (4, self.revoke), (3, self.mode),
            (3, self.pause), (2, self.suspend), (3, self.block),
            (3, self.limits), (5, self.undo), (2, self.reload),
            (2, self.kill_worker), (1, self.redis), (2, self.backend),
            (1, self.postgres), (1, self.tighten)) for _ in range(n)]

    def step(self):
        act = self.rng.choice(self.acts)
        got = act()
        self.did[act.__name__, got] += 1

    def review(self, function, *args):
        """Once it has worked, whatever breaks meanwhile."""
        end = time.monotonic() + 60
        while True:
            try:
                (row,) = self.d.sql("SELECT * FROM api.%s(%s)" % (
                    function, ",".join(["%s"] * (len(args) + 1))),
                    self.d.session, *args, user="l_review")
                return row["status"]
            except (psycopg2.OperationalError, psycopg2.InterfaceError,
                    psycopg2.errors.SerializationFailure):
                assert time.monotonic() < end
                time.sleep(.02)

    def step_up(self):
        self.d.step_up()

    def stop(self, what, undo, function, *args):
        self.step_up()
        w = self.town.begin(what)
        status = self.review(function, *args)
        if status in (200, 201):
            w.done()
            self.stops.append((undo, w))
        else:
            w.ended()
        return status

    # -- an operator --------------------------------------------------------

    def decide(self):
        rows = self.d.sql(
            "SELECT s.message_id, s.version, s.round, m.digest FROM d.state s "
            "JOIN d.message m USING (message_id, tenant_id, version) WHERE "
            "s.state = 1 ORDER BY random() LIMIT 3")
        got = []
        for row in rows:
            if self.rng.random() < .5:
                got.append(self.review("review_cancel_1", row["message_id"],
                                       "test"))
            else:
                got.append(self.review(
                    "decide_1", row["message_id"],
                    self.d.small(row["version"]),
                    self.d.small(row["round"]), row["digest"], "r",
                    os.urandom(16), "other", None, None, 1, "page", None,
                    None, None, 0, None))
        return str(sorted(set(got)))

    def revoke(self):
        keys = [k for k in self.town.keys if k.minor and not
                self.town.perhaps(("dead", k.id), 0)]
        if not keys:
            return None
        busy = [k for k in list(self.town.busy.values()) if k in keys]
        key = self.rng.choice(busy or keys)
        w = self.town.begin(("dead", key.id))
        self.d.revoke(key.box, key.id)
        w.done()
        return 200

    def mode(self):
        """Read only for a while; what is loose stays as loose."""
        box = self.rng.choice(self.town.boxes)
        if any(w.leaving is None for w in self.town._some(
                ("read_only", box.inbox_id))):
            return None
        was = self.d.sql("SELECT mode FROM d.inbox WHERE inbox_id = %s",
                         box.inbox_id)[0]["mode"]
        w = self.town.begin(("read_only", box.inbox_id))
        self.d.set_mode(box, 0)
        w.done()
        self.stops.append((lambda: self.d.set_mode(box, was), w))
        return 200

    def tighten(self):
        box = self.rng.choice(self.town.boxes)
        if self.town.perhaps(("read_only", box.inbox_id), time.monotonic()):
            return None
        self.d.set_mode(box, self.rng.choice((2, 2, 4)))
        return 200

    def pause(self):
        box = self.rng.choice(self.town.boxes)
        whose = self.rng.choice(("box", "box", "tenant"))
        inbox = box.inbox_id if whose == "box" else None
        return self.stop(("paused", inbox or ("t", box.tenant_id)), lambda:
                         self.review("pause_1", box.tenant_id, inbox, False,
                                     "test"),
                         "pause_1", box.tenant_id, inbox, True, "test")

    def suspend(self):
        box = self.rng.choice(self.town.boxes)
        return self.stop(("suspended", box.inbox_id), lambda: self.review(
            "suspend_1", box.tenant_id, box.inbox_id, False, "test"),
            "suspend_1", box.tenant_id, box.inbox_id, True, "test")

    def block(self):
        box = self.rng.choice(self.town.boxes)
        who = "%s@%s" % (self.rng.choice(letters.PEOPLE[:5]),
                         self.rng.choice(letters.DOMAINS))
        if any(w.leaving is None for w in self.town._some(
                ("blocked", box.inbox_id, who))):
            return None

        def lift():
            row = self.d.sql(
                "SELECT entry_id FROM d.list_entry WHERE inbox_id = %s AND "
                "entry = %s", box.inbox_id, who)
            for x in row:
                self.review("list_remove_1", x["entry_id"], "test")
        return self.stop(("blocked", box.inbox_id, who), lift, "list_set_1",
                         box.tenant_id, box.inbox_id, who, "b", None, "test")

    def limits(self):
        """Those of the tight ones go up and down; their highest counts."""
        box = self.rng.choice([b for b in self.town.boxes if b.tight])
        hour, day, held = box.limits
        if self.rng.random() < .5:
            hour, day, held = hour // 2 + 1, day // 2 + 1, held // 2 + 1
        self.step_up()
        self.d.api("limits_set_1", self.d.session, os.geteuid(),
                   box.tenant_id, box.inbox_id, None, hour, day, 1000000,
                   held, 1 << 30)
        return 200

    def undo(self):
        if not self.stops:
            return None
        self.step_up()
        undo, w = self.stops.pop(self.rng.randrange(len(self.stops)))
        w.ending()
        undo()
        w.ended()
        return "undone"

    # -- the world ------------------------------------------------------------

    def reload(self):
        self.d.programs["posternd"].send(signal.SIGHUP)

    def workers(self):
        top = self.d.programs["posternd"].pid
        with open("/proc/%d/task/%d/children" % (top, top)) as f:
            return [int(pid) for pid in f.read().split()]

    def kill_worker(self):
        some = self.workers()
        if not some:
            return None
        w = self.town.begin("killed")
        os.kill(self.rng.choice(some), signal.SIGKILL)
        postern.wait_until("two workers", lambda: len(self.workers()) == 2)
        w.ended()
        return "killed"

    def redis(self):
        w = self.town.begin("thirst")
        self.d.redis.kill()
        os.unlink(self.d.redis_socket)
        self.town.progress(10)
        self.d.start_redis()
        self.town.redis_lives += 1
        w.ended()

    def backend(self):
        w = self.town.begin("ill")
        self.d.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                   "WHERE application_name LIKE 'postern%%' ORDER BY "
                   "random() LIMIT 2")
        w.ended()

    def postgres(self):
        w = self.town.begin("ill")
        self.d.postgres.send(signal.SIGQUIT)
        self.d.postgres.proc.wait(30)
        self.town.progress(5)
        self.d.restart_postgres()
        w.ended()

    def rest(self):
        while self.stops:
            self.undo()
