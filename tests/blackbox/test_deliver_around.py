# SPDX-License-Identifier: ISC
"""
A closure belongs to the way that mail takes: a rule leads around a dead domain
at once, a dead host of a rule or smarthost is asked seldom, however many
domains are behind it, and neither closes another way.
"""
import os
import signal
import time

import pytest

from tests.blackbox.test_deliver_mx import may_listen
from tests.blackbox.test_deliver_routes import number, rule
from tests.fake.dns import FakeDns
from tests.fake.mx import CLOSE, FakeMx
from tests.lib import postern
from tests.lib.relaying import Relaying

FULL = os.environ.get("POSTERN_FULL") == "1"
ONE, TWO, DEAD = "127.31.0.1", "127.31.0.2", "127.31.0.9"
RELAYS = {"relay.example": "127.31.0.3", "sick.example": "127.31.0.4"}
BOTH = "both.example"  # has the addresses of both
SOON = 20  # seconds; a closure is of 60 at least


@pytest.fixture(scope="module")
def r():
    if not may_listen(ONE):
        print("SKIP around: port 25 on loopback may not be bound")
        pytest.skip("port 25 on loopback may not be bound")
    with FakeDns() as dns, Relaying(
            smarthost="", smarthost_user="", allow_address=["127.31.0.0/16"],
            resolver=["127.0.0.1:%d" % dns.port]) as it:
        it.dns = dns
        it.one = FakeMx(it.path("tls", "cert.pem"), it.path("tls", "key.pem"),
                        address=ONE, port=25, offers=("8BITMIME", "STARTTLS"))
        cert = certificate(it)
        it.relay, it.sick = (FakeMx(*cert, address=a, port=2525)
                             for a in RELAYS.values())
        for name, address in RELAYS.items():
            dns.a(name, address)
        dns.a(BOTH, *RELAYS.values())
        it.start_worker()
        yield it
        for mx in (it.one, it.relay, it.sick):
            mx.close()


def certificate(r):
    """For all relays."""
    tls = r.path("tls")
    with open(r.path("tls", "relay.ext"), "w") as f:
        f.write("subjectAltName=%s\n" % ",".join(
            "DNS:" + n for n in [*RELAYS, BOTH]))
    r._run(["openssl", "req", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:P-256", "-nodes", "-keyout", "relay.key",
            "-out", "relay.req", "-subj", "/CN=relay.example"], cwd=tls)
    r._run(["openssl", "x509", "-req", "-in", "relay.req", "-CA", "ca.pem",
            "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile",
            "relay.ext", "-out", "relay.pem"], cwd=tls)
    return r.path("tls", "relay.pem"), r.path("tls", "relay.key")


@pytest.fixture(autouse=True)
def fresh(r):
    for mx in (r.one, r.relay, r.sick):
        mx.reset()
    r.sick.script["banner"] = CLOSE
    yield
    r.sick.script.clear()
    r.sql("UPDATE d.route SET ended_at = now() WHERE ended_at IS NULL")
    reload(r, smarthost="")
    r.forget_queue()


def reload(r, **deliver):
    r.set_conf("deliver", **deliver)
    mark = r.worker.mark()
    r.worker.send(signal.SIGHUP)
    r.worker.wait("daemon.reload", since=mark)


@pytest.fixture
def domain(r):
    """One no test before has used, whose host is dead."""
    r.domains = getattr(r, "domains", 0) + 1
    name = "a%d.example" % r.domains
    r.dns.mx(name, (10, "mx." + name))
    r.dns.a("mx." + name, DEAD)
    return name


def alive(r, name):
    r.dns.mx(name, (10, "mx." + name))
    r.dns.a("mx." + name, ONE)
    return name


def queue(r, *mids):
    return r.sql("SELECT * FROM d.send_q WHERE message_id = ANY (%s::uuid[])",
                 list(mids))


def closed(r, domain, box=None):
    """Three tries close the way to it; two more wait for that to end."""
    mids = []
    for i in range(3):
        mids.append(r.submit(rcpts=["a%d@%s" % (i, domain)], box=box))
        r.wait_state(mids[-1], "deferred")
    for i in range(2):
        mids.append(r.submit(rcpts=["b%d@%s" % (i, domain)], box=box))
    # Theirs is a row in the same place as others that go.
    alive(r, "free-" + domain)
    r.wait_state(r.submit(rcpts=["c@free-" + domain]), "sent", timeout=SOON)
    assert [q["attempts"] for q in queue(r, *mids[3:])] == [0, 0]
    return mids


def all_sent(r, mids):
    for mid in mids:
        r.wait_state(mid, "sent", timeout=SOON)
        r.assert_settled(mid)


def via(r, host, domain, *scope):
    rule(r, "relay", domain, *scope, "--via", host + ":2525")


def remove(r):
    r.signed_in("route", "remove", number(r), "--reason", "over")


@pytest.mark.parametrize("whose", ["all", "tenant", "inbox", "any domain"])
def test_a_rule_leads_around_a_dead_domain(r, domain, whose):
    """Also what was tried, and what was given back for a time, goes."""
    box = r.add_inbox("around-%s@acme.example" % domain.split(".")[0])
    r.set_mode(box, 4)
    mids = closed(r, domain, box)
    via(r, "relay.example", "*" if whose == "any domain" else domain, *{
        "tenant": ("--tenant", "acme"), "inbox": ("--inbox", box.address)}.get(
            whose, ()))
    all_sent(r, mids)
    assert len(r.relay.messages) == len(mids)
    # It is the way that goes: the domain itself is still left alone.
    remove(r)
    mid = r.submit(rcpts=["eve@" + domain])
    alive(r, "more-" + domain)
    all_sent(r, [r.submit(rcpts=["bob@more-" + domain])])
    assert queue(r, mid)[0]["attempts"] == 0


def test_a_rule_refuses_what_waits_for_a_dead_domain(r, domain):
    mids = closed(r, domain)
    rule(r, "bounce", domain)
    for mid in mids:
        r.wait_state(mid, "bounced", timeout=SOON)


def test_the_end_of_a_rule_ends_the_wait_for_its_host(r, domain):
    alive(r, domain)
    via(r, "sick.example", domain)
    mids = closed(r, domain)
    assert not r.one.messages[1:]
    remove(r)
    all_sent(r, mids)


def test_another_host_of_a_rule(r, domain):
    """Whoever sets the rule anew need not wait for what the old one did."""
    via(r, "sick.example", domain)
    mids = closed(r, domain)
    remove(r)
    via(r, "relay.example", domain)
    all_sent(r, mids)


def test_who_is_under_way_as_the_rule_comes(r, domain):
    """It is put off by the host it was at, and comes again at once."""
    alive(r, domain)
    gate = r.one.hold("MAIL")
    mid = r.submit(rcpts=["ann@" + domain])
    gate.reached()
    r.one.script["RCPT"] = "450 4.2.1 later"
    via(r, "relay.example", domain)
    gate.open()
    all_sent(r, [mid])
    assert len(r.relay.messages) == 1 and not r.one.messages


@pytest.mark.skipif(not FULL, reason="waits 65 s; with --full")
def test_one_alone_finds_out(r, domain):
    """What was claimed with it does not wait for that here, but where a rule
    finds it."""
    r.dns.a("mx." + domain, TWO)
    with FakeMx(r.path("tls", "cert.pem"), r.path("tls", "key.pem"),
                address=TWO, port=25, offers=("8BITMIME",)) as two:
        two.script["banner"] = CLOSE
        mids = closed(r, domain)
        mids += [r.submit(rcpts=["d%d@%s" % (i, domain)]) for i in range(9)]
        gate = two.hold("banner")
        gate.reached(90)
        via(r, "relay.example", domain)
        postern.wait_until("all others to be sent", lambda: len(
            r.relay.messages) == len(mids) - 1, SOON)
        two.script["banner"] = CLOSE
        gate.open()
        all_sent(r, mids)


def test_a_time_that_was_named_stays(r, domain):
    """A rule makes nothing due that an agent, or the undo window, put off."""
    alive(r, domain)
    mid = r.submit_rest(r.box, "ann@" + domain, send_at=time.strftime(
        "%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600)))
    (before,) = queue(r, mid)
    via(r, "relay.example", domain)
    assert queue(r, mid) == [before]


def test_many_domains_behind_a_dead_host(r, domain):
    """Three tries, and no more for a minute, wherever the mail goes."""
    mids = []
    via(r, "sick.example", "*")
    for i in range(3):
        mids.append(r.submit(rcpts=["ann@x%d-%s" % (i, domain)]))
        r.wait_state(mids[-1], "deferred")
    for i in range(3, 40):
        r.submit(rcpts=["ann@x%d-%s" % (i, domain)])
    # Mail of an inbox with a rule of its own passes all of that.
    box = r.add_inbox("own-%s@acme.example" % domain.split(".")[0])
    r.set_mode(box, 4)
    via(r, "relay.example", "*", "--inbox", box.address)
    all_sent(r, [r.submit(rcpts=["ann@" + domain], box=box)])
    assert r.sick.verbs.count("banner") == 3
    assert len(r.relay.messages) == 1


def test_a_dead_host_closes_no_way_but_its_own(r, domain):
    alive(r, domain)
    box = r.add_inbox("dead-%s@acme.example" % domain.split(".")[0])
    r.set_mode(box, 4)
    via(r, "sick.example", domain, "--inbox", box.address)
    closed(r, domain, box)
    all_sent(r, [r.submit(rcpts=["bob@" + domain])])


def test_a_host_that_cannot_be_found(r, domain):
    via(r, "nowhere.example", domain)
    closed(r, domain)
    n = sum(1 for name, _, _ in r.dns.asked if name == "nowhere.example")
    r.submit(rcpts=["dan@" + domain])
    alive(r, "more-" + domain)
    all_sent(r, [r.submit(rcpts=["bob@more-" + domain])])
    assert n == sum(1 for name, _, _ in r.dns.asked
                    if name == "nowhere.example")


@pytest.fixture
def smart(r):
    reload(r, smarthost="sick.example:2525")


def test_a_dead_smarthost(r, domain, smart):
    """It is asked three times, not once for each domain behind it. What goes
    another way, goes."""
    mids = []
    for i in range(8):
        mids.append(r.submit(rcpts=["ann@s%d-%s" % (i, domain)]))
        if i < 3:
            r.wait_state(mids[-1], "deferred")
    probe = r.add_inbox("probe-%s@acme.example" % domain.split(".")[0],
                        test=True)
    r.set_mode(probe, 4)
    via(r, "relay.example", "ways-" + domain)
    all_sent(r, [r.submit(rcpts=["bob@" + domain], box=probe),
                 r.submit(rcpts=["bob@ways-" + domain])])
    assert r.sick.verbs.count("banner") == 3
    assert [q["attempts"] for q in queue(r, *mids[3:])] == [0] * 5
    # Another one, and all of it leaves; the times were only for the first.
    reload(r, smarthost="relay.example:2525")
    all_sent(r, mids)


def test_mail_that_a_host_drops(r, domain):
    """Nor that after which it hears no more of it: the others' mail goes."""
    hosts = (r.sick, r.relay)
    banners = []

    def banner(session, line):
        banners.append(line)
        return CLOSE if len(banners) % 2 == 0 else None
    for mx in hosts:
        mx.script.update(banner=banner, MAIL=CLOSE)
    reload(r, smarthost=BOTH + ":2525")
    for i in range(3):
        mid = r.submit(rcpts=["ann@p%d-%s" % (i, domain)])
        r.wait_state(mid, "deferred")
    assert len(banners) == 6
    for mx in hosts:
        mx.script.clear()
    all_sent(r, [r.submit(rcpts=["bob@" + domain])])


def test_a_reload_is_a_new_beginning(r, domain, smart):
    for i in range(3):
        r.wait_state(r.submit(rcpts=["ann@s%d-%s" % (i, domain)]), "deferred")
    mids = [r.submit(rcpts=["bob@" + domain])]
    r.sick.script.clear()
    reload(r)
    all_sent(r, mids)
