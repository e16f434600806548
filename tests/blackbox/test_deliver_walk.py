# SPDX-License-Identifier: ISC
"""
Everybody at once, on the real worker: hosts that by a seed say anything at
any step, names that do not resolve for a while, workers and servers that are
killed, operators and agents who do all they may. Then all rests, and the books
are judged from both sides: what the hosts took against what is told of it.

Time passes by SQL; nothing is timed.
"""
import collections
import http.client
import json
import os
import random
import signal
import ssl
import time
import uuid

import psycopg2
import pytest

from tests.fake.dns import REFUSED, SERVFAIL, SHORT, FakeDns
from tests.fake.wild import House, WildMx
from tests.lib import postern, seals
from tests.lib.judge import Judge
from tests.lib.pages import Pages, public_id
from tests.lib.process import free_port
from tests.lib.relaying import Relaying
from tests.blackbox.test_deliver_mx import may_listen

FULL = os.environ.get("POSTERN_FULL") == "1"
SEED = int(os.environ.get("POSTERN_SEED", "1"))
STEPS = 3000 if FULL else 150
NET = "127.33.%d." % (os.getpid() % 250)  # port 25 is all users' of the host
ADDRESSES = [NET + str(i) for i in range(1, 6)]
DEAD = NET + "9"
DOMAINS = ["d%d.example" % i for i in range(10)]
PEOPLE = ["ann", "bob", "cid", "dan"]
LINES = [b".", b"..", b".leave", b"From here", b"x" * 900, b"", b"plain",
         b"-- ", b" .", b"end."]


class Mail:
    def __init__(self, box, rcpts, send_at, not_after):
        self.box, self.rcpts = box, rcpts
        self.send_at, self.not_after = send_at, not_after
        # Since when, until when nothing of it may leave, and why.
        self.stops = []
        self.retried = []  # (recipients, when), asked for by a person
        self.settled = set()  # by a person, as failed or sent
        self.by_policy = True

    def stop(self, why, since):
        self.stops.append([why, since, None])


class Town:
    domains, people = DOMAINS, PEOPLE

    def __init__(self, r, seed):
        self.r, self.rng = r, random.Random(seed)
        self.house = r.house
        self.mail, self.boxes = {}, []
        self.workers, self.ever, self.stops = [], [], []
        self.blocks, self.paused, self.kills = {}, [], 0
        self.rules = {}
        self.did = collections.Counter()
        for i in range(5):
            self.add_box("w%d@acme.example" % i, held=i in (2, 3))
        self.boxes[1].twice = True
        r.sql("UPDATE d.inbox SET may_duplicate = true WHERE inbox_id = %s",
              self.boxes[1].inbox_id)
        self.acts = [a for n, a in (
            (24, self.submit), (8, self.approve), (1, self.reject),
            (3, self.undo), (3, self.cancel), (2, self.withdraw),
            (4, self.settle), (8, self.time_passes), (3, self.let_go),
            (1, self.pause), (1, self.suspend), (3, self.resume),
            (1, self.block), (1, self.tighten), (2, self.rule),
            (2, self.names), (2, self.kill),
            (1, self.terminate), (1, self.hang_up)) for _ in range(n)]
        if r.breaks:
            self.acts.append(self.database)

    def add_box(self, address, tenant=None, held=False):
        r, box = self.r, self.r.add_inbox(address, tenant)
        r.step_up()
        r.api("limits_set_1", r.session, os.geteuid(), box.tenant_id,
              box.inbox_id, None, 100000, 100000, 100000, 10000, 1 << 30)
        box.twice, box.tight, box.held = False, None, held
        if not held:
            r.set_mode(box, 4)
        self.boxes.append(box)

    def step(self):
        act = self.rng.choice(self.acts)
        try:
            did = act()
        except (psycopg2.OperationalError, psycopg2.InterfaceError,
                psycopg2.errors.SerializationFailure) as e:
            did = type(e).__name__
        self.did[act.__name__, did] += 1

    # -- agents ---------------------------------------------------------------

    def call(self, box, method, path, body=None, headers=None):
        c = http.client.HTTPSConnection(
            "127.0.0.1", self.r.api_port, timeout=30,
            context=ssl.create_default_context(cafile=self.r.ca_file))
        try:
            c.request(method, path, body, {
                "Authorization": "Bearer " + box.key, **(headers or {})})
            got = c.getresponse()
            return got.status, got.read()
        finally:
            c.close()

    def submit(self):
        return [self.submit_one() for _ in range(
            self.rng.choice((1, 1, 4)))][-1]

    def somebody(self):
        return "%s@%s" % (self.rng.choice(self.people),
                          self.rng.choice(self.domains))

    def recipients(self):
        return sorted({self.somebody() for _ in range(self.rng.randint(1, 4))})

    def submit_one(self):
        r = self.rng
        box = r.choice(self.boxes)
        rcpts = self.recipients()
        ruled = [whose[1] for whose in self.rules.values()
                 if whose[0] == box.inbox_id]
        if ruled and r.random() < .7:
            rcpts = [r.choice(ruled)]
        lines = [r.choice(LINES) for _ in range(r.choice((1, 5, 60)))]
        if r.random() < .3:
            lines.append("gr\u00fc\u00dfe".encode())
        envelope = {"to": rcpts}
        send_at = not_after = None
        if r.random() < .1:
            send_at = int(time.time()) + r.randint(1, 3)
            envelope["send_at"] = when(send_at)
        elif r.random() < .1:
            not_after = int(time.time()) + r.randint(2, 5)
            envelope["not_after"] = when(not_after)
        raw = (b"From: <%s>\r\nTo: <%s>\r\nSubject: walk\r\nMIME-Version: 1.0"
               b"\r\nContent-Type: text/plain; charset=utf-8\r\nContent-"
               b"Transfer-Encoding: 8bit\r\n\r\n%s\r\n" % (
                   box.address.encode(), rcpts[0].encode(),
                   b"\r\n".join(lines)))
        status, data = self.call(
            box, "POST", "/v1/messages/send", raw, {
                "Content-Type": "message/rfc822",
                "X-Postern-Envelope": json.dumps(envelope)})
        doc = json.loads(data)
        if "message_id" not in doc:
            return status, doc.get("code")
        mid = str(uuid.UUID(bytes=seals.unbase32(doc["message_id"][4:], 16)))
        self.mail[mid] = Mail(box, rcpts, send_at, not_after)
        if doc["status"] == "held":
            self.mail[mid].stop("held", 0)
            self.mail[mid].by_policy = False
        return status

    def some(self):
        if not self.mail:
            return None, None
        mids = list(self.mail)
        mid = mids[int(len(mids) * self.rng.random() ** .4)]
        return mid, self.mail[mid]

    def cancel(self):
        mid, m = self.some()
        if m is None:
            return None
        status, _ = self.call(m.box, "POST", "/v1/messages/%s/cancel" %
                              public_id(mid))
        if status == 200:
            m.stop("canceled", time.time())
        return status

    # -- operators ------------------------------------------------------------

    def review(self, function, *args):
        (row,) = self.r.sql("SELECT * FROM api.%s(%s)" % (
            function, ",".join(["%s"] * len(args))), self.r.session, *args[1:],
            user="l_review")
        return row

    def found(self, state):
        mids = [str(x["message_id"]) for x in self.r.sql(
            "SELECT message_id FROM d.state WHERE state = %s "
            "ORDER BY message_id", state)]
        mids = [mid for mid in mids if mid in self.mail]
        return self.rng.choice(mids) if mids else None

    def approve(self):
        mid = self.found(1)
        if mid is None:
            return None
        form = self.r.pages.form(mid, "decide")
        if form is None:
            return "no form"
        # It may leave before we hear that it may.
        m = self.mail[mid]
        m.by_policy = False
        for s in m.stops:
            s[2] = s[2] or time.time()
        return self.r.pages.press(mid, "decide", form, verdict="a")[0]

    def reject(self):
        mid = self.found(1)
        row = mid and self.r.sql(
            "SELECT version, round, digest FROM d.state JOIN d.message USING "
            "(message_id, tenant_id, version) WHERE message_id = %s", mid)[0]
        if not row:
            return None
        got = self.review(
            "decide_1", 0, mid, self.r.small(row["version"]),
            self.r.small(row["round"]), row["digest"], "r", os.urandom(16),
            "other", None, None, 1, "page", None, None, None, 0, None)
        if got["status"] == 200:
            self.mail[mid].stop("rejected", time.time())
        return got["status"]

    def undo(self):
        mid = self.found(2)
        if mid is None:
            return None
        row = self.r.sql("SELECT version, round FROM d.state WHERE "
                         "message_id = %s", mid)[0]
        got = self.review("undo_1", 0, mid, self.r.small(row["version"]),
                          self.r.small(row["round"]))
        if got["status"] == 200:
            self.mail[mid].stop("undone", time.time())
        return got["status"]

    def withdraw(self):
        mid, m = self.some()
        if m is None:
            return None
        got = self.review("review_cancel_1", 0, mid, "test")
        if got["status"] == 200 and got["state"] == 5:
            m.stop("withdrawn", time.time())
        return got["status"]

    def settle(self, outcome=None):
        mid = self.found(11)
        if mid is None:
            return None
        rows = self.r.sql("SELECT ix, rcpt[ix] AS rcpt FROM d.delivery JOIN "
                          "d.message USING (message_id, tenant_id) WHERE "
                          "message_id = %s AND status = 6", mid)
        rows = rows[:self.rng.randint(1, 4)]
        outcome = outcome or self.rng.choice(
            ("sent", "failed", "retry", "retry"))
        m, who = self.mail[mid], {x["rcpt"] for x in rows}
        # Whether we hear of it or not, it may have been done.
        if outcome == "retry":
            m.retried.append((who, time.time()))
        else:
            m.settled |= {(x, outcome) for x in who}
        return outcome, self.review("uncertain_1", 0, mid,
                                    [x["ix"] for x in rows], outcome,
                                    "asked")["status"]

    def stop_box(self, function, box, what, whose):
        got = self.review(function, 0, box.tenant_id, *whose, True, "test")
        if got["status"] == 200:
            stop = [what, whose, time.time(), None]
            self.stops.append(stop)
            self.paused.append((function, box, whose, stop))
        return got["status"]

    def pause(self):
        self.r.step_up()
        box = self.rng.choice(self.boxes)
        return self.stop_box("pause_1", box, "paused", (
            self.rng.choice((box.inbox_id, box.inbox_id, None)),))

    def suspend(self):
        self.r.step_up()
        box = self.rng.choice(self.boxes)
        return self.stop_box("suspend_1", box, "suspended", (box.inbox_id,))

    def resume(self):
        if not self.paused:
            return None
        self.r.step_up()
        function, box, whose, stop = self.paused[0]
        # The same may be paused twice; once resumed, it is.
        for s in self.stops:
            if s[0] == stop[0] and s[1] == whose and s[3] is None:
                s[3] = time.time()
        got = self.review(function, 0, box.tenant_id, *whose, False, "test")
        assert got["status"] == 200, got
        self.paused = [p for p in self.paused if p[3][3] is None]
        return got["status"]

    def block(self):
        """An entry, and off again later."""
        if self.blocks and self.rng.random() < .5:
            entry, stop = self.blocks.popitem()
            stop[3] = time.time()
            self.r.step_up()
            return "lifted", self.review("list_remove_1", 0, entry,
                                         "test")["status"]
        box = self.rng.choice(self.boxes)
        who = self.somebody()
        got = self.review("list_set_1", 0, box.tenant_id, box.inbox_id, who,
                          self.rng.choice("bs"), None, "test")
        if got["status"] == 200 and got["entry_id"] not in self.blocks:
            stop = ["blocked", (box.inbox_id, who), time.time(), None]
            self.stops.append(stop)
            self.blocks[got["entry_id"]] = stop
        return got["status"]

    def tighten(self):
        """What policy let go waits for a person; and may go again after."""
        box = self.boxes[4]
        if not box.tight:
            self.r.set_mode(box, 2)
            box.tight = ["mode", (box.inbox_id,), time.time(), None]
            self.stops.append(box.tight)
            return "tight"
        box.tight[3] = time.time()
        self.r.set_mode(box, 4)
        box.tight = None
        return "loose"

    def rule(self):
        """One address may be written to unasked; and no more."""
        self.r.step_up()
        if self.rules and self.rng.random() < .4:
            rule, whose = self.rules.popitem()
            got = self.review("allow_end_1", 0, rule)
            if got["status"] == 200 and whose not in \
                    self.rules.values():
                self.stops.append(["rule", whose, time.time(), None])
            return "ended", got["status"]
        box = self.boxes[self.rng.choice((2, 3))]
        who = self.somebody()
        for s in self.stops:  # the same again: what waits may go
            if s[0] == "rule" and s[1] == (box.inbox_id, who):
                s[3] = s[3] or time.time()
        got = self.review("allow_set_1", 0, box.tenant_id, box.inbox_id, who,
                          3, 1, "test")
        if got["status"] == 200:
            self.rules[got["rule_id"]] = (box.inbox_id, who)
        return got["status"]

    # -- the world ------------------------------------------------------------

    def time_passes(self):
        self.bury()
        n = self.rng.choice((2, 10, 1000))
        self.r.sql("UPDATE d.send_q q SET due_at = clock_timestamp() FROM ("
                   "SELECT message_id, domain FROM d.send_q JOIN d.message m "
                   "USING (message_id, tenant_id) WHERE lease IS NULL AND "
                   "m.send_at <= d.us(clock_timestamp()) ORDER BY random() "
                   "LIMIT %s) z WHERE q.message_id = z.message_id AND "
                   "q.domain = z.domain AND q.lease IS NULL", n)
        self.r.wake()

    def let_go(self):
        self.house.let_go()

    def hang_up(self):
        self.house.let_go()
        self.rng.choice(self.r.hosts).hang_up()

    def names(self):
        dns = self.r.dns
        if dns.failing and self.rng.random() < .5:
            dns.failing.clear()
            return "well"
        dns.fail(self.rng.choice(self.domains),
                 self.rng.choice((SERVFAIL, REFUSED, SHORT)))
        return "ill"

    def start_worker(self):
        self.r.set_conf("metrics", listen="127.0.0.1:%d" % free_port(3))
        self.workers.append(self.r.start_worker())
        self.ever.append(self.workers[-1])

    def kill(self):
        while self.house.at_dot.acquire(blocking=False):
            pass  # who waited there is gone, or waits on
        if self.rng.random() < .5:  # with a dot out, if one comes
            self.house.at_dot.acquire(timeout=.3)
        w = self.workers.pop(self.rng.randrange(len(self.workers)))
        w.kill()
        self.kills += 1
        self.start_worker()
        self.bury()

    def bury(self):
        """As if the leases of the dead had run out. What one of them asked
        for may be answered after it was killed."""
        self.r.sql("UPDATE d.send_q SET lease_until = clock_timestamp() WHERE "
                   "lease IS NOT NULL AND split_part(worker, '.', -1) <> "
                   "ALL (%s)", [str(w.pid) for w in self.workers])

    def terminate(self):
        w = self.workers.pop(self.rng.randrange(len(self.workers)))
        w.send(signal.SIGTERM)

        def ended():  # told twice, it ends at once
            self.house.let_go()
            return w.proc.poll() is not None
        postern.wait_until("it to stop", ended, 70)
        assert w.stop() == 0
        self.start_worker()

    def database(self):
        self.r.postgres.kill()
        self.r.restart_postgres()
        self.kills += 1

    # -- the end --------------------------------------------------------------

    def rest(self):
        self.house.calm = True
        self.house.let_go()
        for mx in self.r.hosts:
            mx.hang_up()
        self.r.dns.failing.clear()
        while self.paused:
            self.resume()
        if self.boxes[4].tight:
            self.tighten()
        while self.workers:  # what they learned of hosts is of the past
            assert self.workers.pop().stop(timeout=30) == 0
        self.start_worker()
        self.start_worker()

        def settled():
            self.time_passes()
            if self.rng.random() < .5:
                self.settle()
            return not self.r.sql("SELECT 1 FROM d.send_q")
        try:
            postern.wait_until("all to leave", settled, 60, 0.1)
        except AssertionError as e:
            raise AssertionError("%s; left is %s" % (e, self.r.sql(
                "SELECT * FROM d.send_q q JOIN d.delivery v USING "
                "(message_id, tenant_id, domain)"))) from None
        while self.workers:
            assert self.workers.pop().stop(timeout=30) == 0


def when(t):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t))


# -- the walk ---------------------------------------------------------------------

@pytest.fixture
def r():
    if not may_listen(ADDRESSES[0]):
        print("SKIP walk: port 25 on loopback may not be bound")
        pytest.skip("port 25 on loopback may not be bound")
    with FakeDns() as dns, Relaying(
            smarthost="", smarthost_user="", one_connection=False,
            allow_address=["127.33.0.0/16"],
            resolver=["127.0.0.1:%d" % dns.port]) as it:
        it.set_conf("admin", undo="2s")
        it.dns, it.house, it.breaks = dns, House(), True
        cert = it.path("tls", "cert.pem"), it.path("tls", "key.pem")
        it.hosts = [WildMx(it.house, "%d.%d" % (SEED, i), *cert, address=a)
                    for i, a in enumerate(ADDRESSES)]
        rng, it.names = random.Random(SEED), {}
        for domain in DOMAINS:
            names = ["mx%d.%s" % (i, domain)
                     for i in range(rng.randint(1, 3))]
            dns.mx(domain, *((rng.choice((10, 20)), n) for n in names))
            it.names[domain] = []
            for name in names:
                here = rng.sample(ADDRESSES, rng.randint(1, 2))
                it.names[domain].append(set(here))
                dns.a(name, *here, *([DEAD] if rng.random() < .3 else []))
        it.start("postern-admin")
        it.pages = Pages(it)
        yield it
        it.house.let_go()
        for mx in it.hosts:
            mx.close()


def test_everybody_at_once(r):
    town = Town(r, SEED)
    town.start_worker()
    town.start_worker()
    for _ in range(STEPS):
        town.step()
    town.rest()
    wrong = Judge(town).judge()
    states = collections.Counter(states_of(r))
    print("seed", SEED, len(town.mail), "messages", len(r.house.book), "dots",
          sum(r.house.did.values()), "wrongs", dict(states),
          sorted(town.did.items(), key=str))
    for what in wrong:
        print(*what)
    assert not wrong


def states_of(r):
    return [x["state"] for x in r.sql("SELECT state FROM d.state")]
