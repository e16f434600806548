# SPDX-License-Identifier: ISC
"""
What DNS said of a domain holds as long as it says, for all who go there: it
is not asked for each message, and never believed longer than it may be.
"""
import signal

import pytest

from tests.blackbox.test_deliver_mx import (  # noqa: F401 - fixtures
    ONE, TWO, domain, fresh, r, send)
from tests.fake.dns import A, AAAA, MX, SILENT
from tests.lib import postern

HOUR = 3600


def asked(r, kind=MX):
    return sum(k == kind for _, k, _ in r.dns.asked)


def to(r, domain, address, *names):
    """Its mail goes there; what was said of these names before is not."""
    for name in (domain, "mx." + domain) + names:
        r.dns.records.pop(name, None)
    r.dns.mx(domain, (10, "mx." + domain))
    r.dns.a("mx." + domain, address)


def reload(r):
    mark = r.worker.mark()
    r.worker.send(signal.SIGHUP)
    r.worker.wait("daemon.reload", since=mark)


def test_as_long_as_it_says(r, domain):
    r.dns.ttl = HOUR
    to(r, domain, ONE)
    for _ in range(3):
        send(r, domain, "sent")
    assert [asked(r, k) for k in (MX, A, AAAA)] == [1, 1, 1]
    # Whatever it says by now, until the operator has all read anew.
    to(r, domain, TWO)
    send(r, domain, "sent")
    assert (len(r.one.messages), len(r.two.messages)) == (4, 0)
    reload(r)
    send(r, domain, "sent")
    assert (len(r.one.messages), len(r.two.messages)) == (4, 1)


def test_not_longer(r, domain):
    r.dns.ttl = 1
    to(r, domain, ONE)
    send(r, domain, "sent")
    to(r, domain, TWO)
    postern.wait_until("it is asked again", lambda: send(
        r, domain, "sent") and r.two.messages, timeout=30)
    assert asked(r) > 1


@pytest.mark.parametrize("which", ["", "mx.", "host."])
def test_the_shortest_counts(r, domain, which):
    """Of the MX, of an alias and of the address behind it."""
    r.dns.ttl = HOUR
    r.dns.ttls[which + domain] = 0
    r.dns.mx(domain, (10, "mx." + domain))
    r.dns.cname("mx." + domain, "host." + domain)
    r.dns.a("host." + domain, ONE)
    for n in (1, 2):
        send(r, domain, "sent")
        assert asked(r) == n


def test_more_than_31_bits_are_none(r, domain):
    r.dns.ttl = 0x80000000
    to(r, domain, ONE)
    for n in (1, 2):
        send(r, domain, "sent")
        assert asked(r) == n


@pytest.mark.parametrize("soa,times", [
    (None, 2), ((HOUR, 0), 2), ((0, HOUR), 2), ((HOUR, HOUR), 1)])
def test_without_mx_as_the_zone_says(r, domain, soa, times):
    r.dns.ttl = HOUR
    r.dns.a(domain, ONE)
    if soa:
        r.dns.soa(domain, *soa)
    for _ in range(2):
        send(r, domain, "sent")
    assert asked(r) == times


def test_what_is_not_there_is_asked_for_again(r, domain):
    r.dns.ttl = HOUR
    r.dns.soa(domain, HOUR, HOUR)
    send(r, domain, "bounced")
    to(r, domain, ONE)
    send(r, domain, "sent", rcpts=["bob@" + domain])
    assert len(r.one.messages) == 1


def test_many_at_once_ask_once(r, domain):
    r.dns.ttl = HOUR
    to(r, domain, ONE)
    r.worker.stop()
    mids = [r.submit(rcpts=["u%d@%s" % (i, domain)]) for i in range(12)]
    r.start_worker()
    for mid in mids:
        r.wait_state(mid, "sent", timeout=30)
    assert len(r.one.messages) == 12 and asked(r) == 1


def test_equal_hosts_take_turns(r, domain):
    r.dns.ttl = HOUR
    r.dns.mx(domain, (10, "a." + domain), (10, "b." + domain))
    r.dns.a("a." + domain, ONE)
    r.dns.a("b." + domain, TWO)
    for _ in range(40):
        send(r, domain, "sent")
        if r.one.messages and r.two.messages:
            break
    assert r.one.messages and r.two.messages and asked(r) == 1


def test_a_worse_host_stays_behind(r, domain):
    r.dns.ttl = HOUR
    r.dns.mx(domain, (20, "b." + domain), (10, "a." + domain))
    r.dns.a("a." + domain, ONE)
    r.dns.a("b." + domain, TWO)
    for _ in range(6):
        send(r, domain, "sent")
    assert len(r.one.messages) == 6 and not r.two.verbs


def test_who_stops_while_it_is_asked(r, domain):
    """Two wait for one answer that does not come."""
    r.dns.fail(domain, SILENT)
    mids = [r.submit(rcpts=["u%d@%s" % (i, domain)]) for i in range(2)]
    postern.wait_until("both are under way", lambda: all(
        r.state(m) == "sending" for m in mids) and asked(r))
    r.worker.stop()
    assert not r.sql("SELECT 1 FROM d.send_q WHERE lease IS NOT NULL")
    r.dns.failing.clear()
    to(r, domain, ONE)
    r.start_worker()
    for mid in mids:
        r.wait_state(mid, "sent", timeout=30)
    assert len(r.one.messages) == 2
