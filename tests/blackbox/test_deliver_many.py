# SPDX-License-Identifier: ISC
"""Messages to many domains that took nothing yet."""
import pytest

from tests.fake.dns import FakeDns
from tests.fake.mx import FakeMx
from tests.lib import postern
from tests.lib.relaying import Relaying
from tests.blackbox.test_deliver_mx import may_listen

HOST, OTHER = "127.31.0.8", "127.31.0.9"
DOMAINS = ["d%d.example" % i for i in range(190)]
MAIL = b"From: <@BOX@>\r\nSubject: To many\r\n\r\nHello\r\n"
UNPROVEN = 90  # sessions of a tenant with such domains (share.h)


@pytest.fixture
def r():
    if not may_listen(HOST):
        print("SKIP many: port 25 on loopback may not be bound")
        pytest.skip("port 25 on loopback may not be bound")
    with FakeDns() as dns, Relaying(
            smarthost="", smarthost_user="", allow_address=["127.31.0.0/16"],
            resolver=["127.0.0.1:%d" % dns.port]) as it:
        for name in DOMAINS:
            dns.mx(name, (10, "mx." + name))
            dns.a("mx." + name, HOST)
        it.sql("UPDATE d.inbox SET rcpt_max = 100")
        with FakeMx(it.path("tls", "cert.pem"), it.path("tls", "key.pem"),
                    address=HOST, port=25, offers=("PIPELINING", "8BITMIME")
                    ) as it.host:
            it.dns = dns
            yield it


def submit(r, box):
    for at in range(0, len(DOMAINS), 100):
        r.submit(["ann@" + d for d in DOMAINS[at:at + 100]], raw=MAIL, box=box)


def leased(r):
    return r.sql("SELECT count(*) AS n FROM d.send_q WHERE lease IS NOT "
                 "NULL")[0]["n"]


def test_who_waits_for_a_place_stays(r):
    """What the worker gave back would come again two seconds later, though
    places are given back all the time."""
    gate = r.host.hold("MAIL")
    submit(r, r.box)
    r.start_worker()
    for _ in range(UNPROVEN):
        gate.reached()
    postern.wait_until("all are leased", lambda: leased(r) == len(DOMAINS))
    gate.open()
    got = r.host.wait_messages(len(DOMAINS), timeout=60)
    assert len({m["rcpts"][0] for m in got}) == len(DOMAINS)
    postern.wait_until("the queue is empty", lambda: r.sql(
        "SELECT count(*) AS n FROM d.send_q")[0]["n"] == 0)
    claims = [e for e in r.worker.events if e["event"] == "deliver.claim"]
    assert len(claims) == len(DOMAINS)


def test_another_tenant_at_a_new_domain(r):
    """Whoever fills all he may have of the places for new domains, with hosts
    that hang, leaves some to others; more of his waits than is kept."""
    r.add_tenant("rich", "rich.example")
    box = r.add_inbox("bot@rich.example", "rich")
    r.set_mode(box, 4)
    r.sql("UPDATE d.inbox SET rcpt_max = 100")
    gate = r.host.hold("MAIL")
    submit(r, box)
    submit(r, box)
    r.start_worker()
    for _ in range(UNPROVEN):
        gate.reached()
    r.dns.mx("new.example", (10, "mx.new.example"))
    r.dns.a("mx.new.example", OTHER)
    with FakeMx(address=OTHER, port=25, offers=("8BITMIME",)) as other:
        r.submit(["ann@new.example"])
        other.wait_messages(1)
    assert not gate.here.acquire(blocking=False)
    assert r.host.messages == []
    gate.open()
