# SPDX-License-Identifier: ISC
"""
SIGKILL of the worker at every step: before the dot the message is sent once
by the next worker; after it, it waits for a person. Never lost, never twice.
"""
import os
import re
import signal
from collections import Counter

import pytest

from tests.lib import postern
from tests.lib.process import free_port
from tests.lib.relaying import Relaying


FULL = os.environ.get("POSTERN_FULL") == "1"
MOMENTS = ["banner", "EHLO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA", "dot"]


@pytest.fixture(scope="module")
def r():
    with Relaying() as it:
        yield it


def expire(r, mid):
    """As if the lease of the dead had run out."""
    r.sql("UPDATE d.send_q SET lease_until = clock_timestamp() "
          "WHERE message_id = %s AND lease IS NOT NULL", mid)


def due(r, mid):
    r.sql("UPDATE d.send_q SET due_at = clock_timestamp() "
          "WHERE message_id = %s AND lease IS NULL", mid)


@pytest.mark.parametrize("moment", [
    "banner", "EHLO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA"])
def test_before_the_dot(r, moment):
    r.mx.reset()
    gate = r.mx.hold(moment)
    w = r.start_worker()
    mid = r.submit()
    gate.reached()
    w.kill()
    gate.open()
    r.mx.reset()
    assert r.state(mid) == "sending"
    expire(r, mid)
    w = r.start_worker()
    r.wait_state(mid, "deferred")
    due(r, mid)
    r.wait_state(mid, "sent")
    assert len(r.mx.messages) == 1
    w.stop()


def test_after_the_dot(r):
    r.mx.reset()
    gate = r.mx.hold("dot")
    w = r.start_worker()
    mid = r.submit()
    gate.reached()
    w.kill()
    gate.open()
    assert len(r.mx.messages) == 1
    expire(r, mid)
    w = r.start_worker()
    r.wait_state(mid, "uncertain")
    other = r.submit()
    r.wait_state(other, "sent")
    assert len(r.mx.messages) == 2  # the other one; not this again
    assert not r.sql("SELECT 1 FROM d.send_q WHERE message_id = %s", mid)
    w.stop()


@pytest.mark.parametrize("stored", [False, True])
def test_between_the_reply_and_its_result(r, stored):
    """The host has said yes; the worker dies before it knows that this is
    stored. Either it was, or a person is asked; it never goes again."""
    r.mx.reset()
    gate = r.mx.hold("dot")
    w = r.start_worker()
    mid = r.submit()
    gate.reached()
    lock = r.connect()
    lock.autocommit = False
    lock.cursor().execute("SELECT 1 FROM d.delivery WHERE message_id = %s "
                          "FOR UPDATE", (mid,))
    gate.open()
    (at,) = postern.wait_until("the result is asked for", lambda: r.sql(
        "SELECT pid FROM pg_stat_activity WHERE usename = 'l_worker' "
        "AND wait_event_type = 'Lock'"))
    w.kill()
    if not stored:
        r.sql("SELECT pg_terminate_backend(%s, 10000)", at["pid"])
    lock.rollback()
    lock.close()
    if stored:
        r.wait_state(mid, "sent")
    expire(r, mid)
    r.mx.script.clear()
    w = r.start_worker()
    r.wait_state(mid, "sent" if stored else "uncertain")
    other = r.submit()
    r.wait_state(other, "sent")
    assert len(r.mx.messages) == 2 and not r.sql(
        "SELECT 1 FROM d.send_q WHERE message_id = %s", mid)
    w.stop()


def test_a_yes_of_the_past_is_no_dot():
    """The worker stood still behind the last gate until its lease was over."""
    with Relaying(lease="6s") as r:
        w = r.start_worker()
        gate = r.mx.hold("DATA")
        mid = r.submit()
        gate.reached()
        lock = r.connect()
        lock.autocommit = False
        lock.cursor().execute("SELECT 1 FROM d.inbox FOR NO KEY UPDATE")
        gate.open()
        postern.wait_until("the gate is asked", lambda: r.sql(
            "SELECT 1 FROM pg_stat_activity WHERE usename = 'l_worker' "
            "AND wait_event_type = 'Lock' AND query LIKE '%%dot_1%%'"))
        w.send(signal.SIGSTOP)
        lock.rollback()
        lock.close()
        postern.wait_until("the dot is let go", lambda: r.sql(
            "SELECT 1 FROM d.delivery WHERE message_id = %s AND status = 2",
            mid))

        def recovered():
            r.sql("SELECT * FROM api.sweep_1(100)", user="l_worker")
            return r.state(mid) == "uncertain"
        postern.wait_until("the lease to end", recovered)
        w.send(signal.SIGCONT)
        # It reads the yes, and looks at the clock; or the call has run out,
        # where the signal that woke it left no time to read.
        assert w.wait("deliver.dot")["code"] in (
            "too late", "store_unavailable")
        other = r.submit()
        r.wait_state(other, "sent")
        assert len(r.mx.messages) == 1 and r.state(mid) == "uncertain"
        w.stop()


def test_two_workers_send_each_once(r):
    r.mx.reset()
    first = r.start_worker()
    r.set_conf("metrics", listen="127.0.0.1:%d" % free_port(3))
    second = r.start_worker()
    mids = [r.submit() for _ in range(12)]
    for mid in mids:
        r.wait_state(mid, "sent")
    assert len(r.mx.messages) == 12
    first.stop()
    second.stop()


def another(r):
    r.set_conf("metrics", listen="127.0.0.1:%d" % free_port(3))
    return r.start_worker()


def hit(r, mid):
    """The process that has it leased."""
    (row,) = r.sql("SELECT worker FROM d.send_q WHERE message_id = %s", mid)
    return int(row["worker"].rsplit(".", 1)[1])


def test_kills_among_four_workers(r):
    """At each step in turn: nothing is lost, none is sent twice, and nothing
    that nobody approved is sent at all."""
    r.mx.reset()
    kills = 200 if FULL else 8
    workers = {w.pid: w for w in (another(r) for _ in range(4))}
    mids, after_dot = [], 0
    box, held = r.add_inbox("held@acme.example"), []
    r.sql("UPDATE d.inbox SET lim_hour = 10000, lim_day = 10000, limits_version"
          " = limits_version + 1 WHERE address = 'held@acme.example'")
    for i in range(kills):
        moment = MOMENTS[i % len(MOMENTS)]
        # Those before wait for the end: a retry would be at the gate first.
        r.sql("UPDATE d.send_q SET due_at = clock_timestamp() + interval "
              "'1 day' WHERE lease IS NULL")
        r.mx.hang_up()  # kept sessions have no greeting
        gate = r.mx.hold(moment)
        held.append(r.submit(subject="never %d" % i, box=box))
        mids.append(r.submit(subject="kill %d" % i))
        gate.reached()
        workers.pop(hit(r, mids[-1])).kill()
        r.mx.script.clear()
        gate.open()
        expire(r, mids[-1])
        after_dot += moment == "dot"
        w = another(r)
        workers[w.pid] = w

    def settled():
        r.sql("UPDATE d.send_q SET due_at = clock_timestamp() "
              "WHERE lease IS NULL")
        return not r.sql("SELECT 1 FROM d.send_q")
    postern.wait_until("all to leave", settled, 120, 0.2)
    states = Counter(r.state(mid) for mid in mids)
    assert states == {"sent": kills - after_dot, "uncertain": after_dot}
    assert {r.state(mid) for mid in held} == {"held"}
    assert not [m for m in r.mx.messages if b"Subject: never" in m["data"]]
    assert not any(b"Subject: never" in data for data in r.mx.cut)
    copies = Counter(re.search(rb"Subject: (kill \d+)", m["data"])[1]
                     for m in r.mx.messages)
    assert len(copies) == kills and set(copies.values()) == {1}
    for w in workers.values():
        w.stop()
