# SPDX-License-Identifier: ISC
"""
The walk of test_deliver_walk.py where ways change: operators set, end and
outlive rules for inboxes, tenants and all (wait, fail, by a host with whose
credentials, over TLS), the configuration names a smarthost or none, domains
move to other hosts or take no mail, some have DANE or MTA-STS, whose records
and policies fail for a while; hosts refuse addresses, which suppresses them,
and leases end under who has them. tests/lib/ways.py says what must hold.

Time passes by SQL, but for rules of a few seconds; nothing is timed.
"""
import collections
import os
import signal
import socket
import struct
import time

import pytest

from tests.blackbox.test_deliver_mx import may_listen
from tests.blackbox.test_deliver_walk import Mail, Town, states_of
from tests.fake import wild
from tests.fake.dns import A, MX, REFUSED, SERVFAIL, TXT, FakeDns, packed
from tests.fake.ways import WayHouse, WayMx
from tests.lib import postern
from tests.lib.faults import Certificates, Policies, policy
from tests.lib.pages import Pages
from tests.lib.relaying import PASSWORD, USER, Relaying
from tests.lib.ways import Map, Span, WayJudge

FULL = os.environ.get("POSTERN_FULL") == "1"
SEED = int(os.environ.get("POSTERN_SEED", "1"))
STEPS = 1500 if FULL else 120
NET = "127.35.%d." % (os.getpid() % 250)  # the ports are all users' of the host
DEAD, POLICY = NET + "9", NET + "20"
CERTS = {"h1.example": "good", "h2.example": "self", "h3.example": "good",
         "h4.example": "self", "h5.example": "good", "h6.example": "good",
         "s1.example": "good", "s2.example": "good", "s3.example": "self"}
HOSTS = [h for h in CERTS if h[0] == "h"]
ADDRESSES = {h: NET + str(i + (1 if h[0] == "h" else 5))
             for i, h in enumerate(CERTS)}
DANE = {"h1.example": "match", "h2.example": "match",
        "h3.example": "mismatch", "h6.example": "unusable"}
ONE, TWO, LAST = ("acme", "a secret"), ("acme", "a2"), ("beta", "b secret")
SMART = {"s1.example": (587, {(USER, PASSWORD), ONE, LAST}),
         "s2.example": (465, {TWO, LAST}), "s3.example": (587, {ONE, LAST})}
VIA = [("s1.example", 587, ONE), ("s1.example", 587, LAST),
       ("h1.example", 25, None), ("h5.example", 25, None)] * 2 + [
    ("s1.example", 587, ("acme", "guessed")), ("s2.example", 465, TWO),
    ("s2.example", 465, LAST), ("s3.example", 587, ONE),
    ("h4.example", 25, None)]
MOVING = ["p%d.example" % i for i in range(4)]
STS = {"e0.example": ["h1.example", "h4.example"],
       "e1.example": ["h4.example", "h5.example"]}
SIGNED = {"k0.example": [(5, "h3.example"), (10, "h2.example"),
                         (20, "h1.example")],
          "k1.example": [(5, "h3.example"), (10, "h4.example"),
                         (10, "h6.example")]}


class Ways(Town):
    domains = MOVING + list(STS) + list(SIGNED)
    people = ["ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal"]

    def __init__(self, r, seed):
        super().__init__(r, seed)
        r.add_tenant("beta", "beta.example")
        for i in range(2):
            self.add_box("b%d@beta.example" % i, "beta")
        self.map, self.seen, self.resting = r.map, 0, False
        self.acts = [a for n, a in (
            (24, self.submit), (2, self.approve), (1, self.undo),
            (2, self.cancel), (1, self.withdraw), (3, self.settle),
            (14, self.time_passes), (3, self.let_go), (1, self.pause),
            (1, self.suspend), (3, self.resume), (1, self.block),
            (1, self.tighten), (1, self.rule), (2, self.names),
            (2, self.kill), (1, self.terminate), (1, self.hang_up),
            (10, self.route), (5, self.unroute), (2, self.run_out),
            (3, self.move), (2, self.reload), (2, self.lapse),
            (2, self.policy)) for _ in range(n)]
        for box in self.boxes:
            box.slug = "beta" if "beta" in box.address else "acme"

    def submit(self):
        return [self.submit_one() for _ in range(
            self.rng.choice((1, 2, 6)))][-1]

    def recipients(self):
        """Of one domain: then a claim is that of the message."""
        domain = self.rng.choice(self.domains)
        return sorted({"%s@%s" % (self.rng.choice(self.people), domain)
                       for _ in range(self.rng.choice((1, 1, 2, 3)))})

    def step(self):
        super().step()
        self.look()

    def look(self):
        """What is suppressed for all to see is sent nothing any more."""
        for x in self.r.sql(
                "SELECT entry_id, tenant_id, entry FROM d.list_entry WHERE "
                "created_by LIKE 'worker%%' AND entry_id > %s", self.seen):
            self.seen = max(self.seen, x["entry_id"])
            self.stops += [["suppressed", (b.inbox_id, x["entry"]),
                            time.time(), None] for b in self.boxes
                           if b.tenant_id == x["tenant_id"]]

    # -- operators ------------------------------------------------------------

    def pause(self):
        """Of an inbox: there are two tenants here."""
        self.r.step_up()
        box = self.rng.choice(self.boxes)
        return self.stop_box("pause_1", box, "paused", (box.inbox_id,))

    def live(self):
        return [x for x in self.map.rules if x.until is None]

    def route(self):
        if len(self.live()) > 6:
            return self.unroute()
        rng = self.rng
        action = rng.choice(["relay"] * 4 + ["tls"] * 4 + ["suspend"] * 2 +
                            ["bounce"])
        box, scope = rng.choice(self.boxes), rng.randrange(3)
        domain = "*" if rng.random() < (
            .6 if action == "tls" or action == "relay" and scope == 2
            else .1) else rng.choice(self.domains)
        words = [[], ["--tenant", box.slug], ["--inbox", box.address]][scope]
        x = Span((0, 0), action=action, domain=domain, host=None, port=None,
                 login=None, tenant=box.tenant_id if scope else None,
                 inbox=box.inbox_id if scope == 2 else None)
        if action == "relay":
            x.host, x.port, x.login = rng.choice(VIA)
            words += ["--via", "%s:%d" % (x.host, x.port)]
        if x.login:
            words += ["--login", x.login[0], "--secret-file",
                      self.secret(x.login[1])]
        runs_out = rng.random() < .3
        if runs_out:
            words += ["--expires", "%ds" % rng.randint(1, 4)]
        lo = time.time()
        self.r.signed_in("route", "add", action, domain, *words, "--reason",
                         "test")
        x.since = lo, time.time()
        row = self.r.sql("SELECT route_id, extract(epoch FROM expires_at)"
                         "::float8 AS e FROM d.route ORDER BY 1 DESC "
                         "LIMIT 1")[0]
        x.number = row["route_id"]
        if runs_out:
            x.end(row["e"], row["e"])
        self.map.rules.append(x)
        return action, runs_out

    def secret(self, text):
        path = self.r.path("secret." + text.replace(" ", "-"))
        with open(path, "w") as f:
            f.write(text + "\n")
        return path

    def unroute(self, x=None):
        if x is None and not self.live():
            return None
        x = x or self.rng.choice(self.live())
        lo = time.time()
        self.r.signed_in("route", "remove", str(x.number), "--reason", "test")
        x.end(lo, time.time())
        return x.action

    def run_out(self):
        if not self.live():
            return None
        x = self.rng.choice(self.live())
        lo = time.time()
        self.r.sql("UPDATE d.route SET expires_at = clock_timestamp() WHERE "
                   "route_id = %s", x.number)
        x.end(lo, time.time())
        return x.action

    def reload(self, smarthost=None):
        """A smarthost, or none; said again at times."""
        self.configure(self.rng.random() < .5 if smarthost is None
                       else smarthost)
        now = self.map.confs[-1]
        marks = [(w, w.mark()) for w in self.workers]
        for w in self.workers:
            w.send(signal.SIGHUP)
        for w, mark in marks:
            w.wait("daemon.reload", since=mark)
        # The last may go by the old one until here, the first by the new.
        now.since = now.since[0], time.time()
        for x in self.map.confs[:-1]:
            if x.until is None:
                x.end(*now.since)
        return now.host

    def configure(self, smarthost):
        host, port = ("s1.example", 587) if smarthost else (None, None)
        lo = time.time()
        self.r.set_conf("deliver", smarthost="%s:%d" % (host, port)
                        if host else "")
        self.map.confs.append(Span((lo, lo), host=host, port=port, login=(
            USER, PASSWORD) if host else None))

    # -- the world ------------------------------------------------------------

    def move(self, hosts=None, domain=None):
        rng = self.rng
        domain = domain or rng.choice(MOVING)
        if hosts is None:
            hosts = [] if rng.random() < .15 else [
                (rng.choice((10, 20)), h)
                for h in rng.sample(HOSTS, rng.randint(1, 3))]
        lo = time.time()
        self.r.dns.records[domain] = {  # with MX an address means nothing
            A: [socket.inet_aton(ADDRESSES["h4.example"])], MX: [
                struct.pack(">H", p) + packed(h)
                for p, h in hosts or [(0, ".")]]}
        hi = time.time()
        for x in self.map.mx:
            if x.domain == domain and x.until is None:
                x.end(lo, hi)
        self.map.mx.append(Span((lo, hi), domain=domain, hosts=hosts))
        return len(hosts)

    def names(self):
        """Also those of hosts, of their keys and of policies."""
        dns, now = self.r.dns, time.time()
        if dns.failing and self.rng.random() < .5:
            self.names_well()
            return "well"
        name = self.rng.choice(
            self.domains + HOSTS + ["_25._tcp." + h for h in HOSTS] +
            ["_mta-sts." + d for d in STS])
        self.map.ill.append(Span((now, now), name=name))
        dns.fail(name, self.rng.choice((SERVFAIL, REFUSED)))
        return "ill"

    def names_well(self):
        self.r.dns.failing.clear()
        for x in self.map.ill:
            x.end(time.time(), time.time() + 20)  # who asked may wait

    def policy(self, well=None):
        """What was fetched once counts, whatever becomes of it."""
        for d in STS:
            text = self.rng.choice(("", "v=STSv1; id=%d;" % self.rng.randrange(
                9), "v=STSv1; id=1;"))
            self.r.dns.records["_mta-sts." + d] = {TXT: []} if not text else {
                TXT: [bytes([len(text)]) + text.encode()]}
            self.r.policies.by_domain[d] = self.rng.choice((
                self.r.policy[d], (500, {}, b""), (404, {}, b"")))

    def lapse(self):
        """The leases of some that live end under them."""
        self.kills += 1
        self.r.sql("UPDATE d.send_q q SET lease_until = clock_timestamp() "
                   "FROM (SELECT message_id, domain FROM d.send_q WHERE lease "
                   "IS NOT NULL ORDER BY random() LIMIT 2) z WHERE "
                   "q.message_id = z.message_id AND q.domain = z.domain AND "
                   "q.lease IS NOT NULL")
        self.r.wake()

    # -- the ends -------------------------------------------------------------

    def begin(self):
        """The policies are known to all that begin later."""
        self.house.calm = True
        self.start_worker()
        for d in STS:
            mid = self.r.submit_rest(self.boxes[0], "first@" + d)
            self.mail[mid] = Mail(self.boxes[0], ["first@" + d], None, None)
            self.r.wait_state(mid, "sent")
        assert self.workers.pop().stop() == 0
        self.policy()  # each worker looks at its first message
        self.house.calm = False
        for _ in range(3):
            self.start_worker()

    def time_passes(self):
        super().time_passes()
        if self.resting:  # the one host that may have it is none any more
            self.r.sql("UPDATE d.send_q q SET give_up_at = clock_timestamp() "
                       "WHERE lease IS NULL AND EXISTS (SELECT 1 FROM "
                       "d.delivery v WHERE v.message_id = q.message_id AND "
                       "v.domain = q.domain AND v.unsure_mx IS NOT NULL)")

    def rest(self):
        self.resting = True
        for x in self.live():
            self.unroute(x)
        self.reload(False)
        for d in MOVING:
            self.move([(10, "h5.example"), (20, "h4.example")], d)
        self.names_well()
        super().rest()


def wild_zone(it):
    key = bytes.fromhex(it.certs.digest("good"))
    for host, address in ADDRESSES.items():
        it.dns.a(host, address, *([DEAD] if host in (
            "h2.example", "h5.example") else []))
        it.dns.signed.add(host)
        if host in DANE:
            it.dns.tlsa(host, *{"match": (3, 1, 1, key), "mismatch": (
                3, 1, 1, b"x" * 32), "unusable": (1, 1, 1, key)}[DANE[host]])
    it.dns.signed |= set(SIGNED)
    it.policy = {}
    for d, named in STS.items():
        it.dns.txt("_mta-sts." + d, "v=STSv1; id=1;")
        it.dns.a("mta-sts." + d, POLICY)
        p = policy("enforce", *named)
        it.policy[d] = it.policies.by_domain[d] = (
            200, {"Content-Type": p["type"]}, p["body"].encode())


class Here:
    @staticmethod
    def listen(address, port):
        return socket.create_server((address, port))


@pytest.fixture
def r(monkeypatch):
    if not may_listen(ADDRESSES["h1.example"]):
        print("SKIP ways: port 25 on loopback may not be bound")
        pytest.skip("port 25 on loopback may not be bound")
    monkeypatch.setitem(wild.ENHANCED, 5, wild.ENHANCED[5] + ["5.1.1"])
    with FakeDns() as dns, Relaying(
            smarthost="", one_connection=False, dane="yes",
            delay_notice="1s", allow_address=["127.35.0.0/16"],
            resolver=["127.0.0.1:%d" % dns.port]) as it:
        it.set_conf("admin", undo="2s")
        it.dns, it.house, it.breaks = dns, WayHouse(), False
        where = it.path("tls")
        it.certs = Certificates(where, (it.ca_file, os.path.join(
            where, "ca.key")), list(CERTS) + ["mta-sts." + d for d in STS])
        it.set_conf("deliver", ca_file=it.ca_file)
        it.policies = Policies(Here, it.certs, [(POLICY, "good")])
        wild_zone(it)
        it.map = Map(CERTS, ADDRESSES, DANE, STS, set(SIGNED))
        it.names, it.hosts = {}, []
        for host, address in ADDRESSES.items():
            port, accepts = SMART.get(host, (25, ()))
            it.hosts.append(WayMx(
                it.house, "%d.%s" % (SEED, host), it.certs.file(CERTS[host]),
                it.certs.key, accepts=accepts, address=address, port=port,
                implicit_tls=port == 465))
        it.start("postern-admin")
        it.pages = Pages(it)
        yield it
        it.house.let_go()
        for mx in it.hosts:
            mx.close()
        it.policies.close()


def test_ways(r):
    town = Ways(r, SEED)
    town.configure(False)
    for d in MOVING:
        town.move(None, d)
    for d, named in STS.items():
        town.move([(5, "h3.example"), (10, "h4.example"), (20, named[
            0 if d == "e0.example" else 1])], d)
    for d, hosts in SIGNED.items():
        town.move(hosts, d)
    town.begin()
    for _ in range(STEPS):
        town.step()
    town.rest()
    judge = WayJudge(town)
    wrong = judge.judge()
    states = collections.Counter(states_of(r))
    print("seed", SEED, len(town.mail), "messages", len(r.house.book), "dots",
          sum(r.house.did.values()), "wrongs", dict(states),
          len(r.house.logins), "logins", dict(judge.went),
          r.map.preferred, "preferred",
          sorted(town.did.items(), key=str))
    for what in wrong:
        print(*what)
    assert not wrong
