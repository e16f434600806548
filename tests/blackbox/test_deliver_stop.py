# SPDX-License-Identifier: ISC
"""
A worker that is told to stop gives back what it holds, at once, and the next
worker sends it; what passed the gate gets its reply first. And a database
that is away for a moment costs no certainty.
"""
import os
import time

import pytest

from tests.lib import postern
from tests.lib.relaying import Relaying

FULL = os.environ.get("POSTERN_FULL") == "1"


@pytest.fixture(scope="module")
def r():
    with Relaying() as it:
        yield it


@pytest.fixture
def worker(r):
    r.mx.reset()
    w = r.start_worker()
    yield w
    for gate in [g for g in r.mx.script.values() if hasattr(g, "open")]:
        gate.open()
    if w.alive():
        w.stop()


def stopped(w, within):
    """Its exit code, in less than `within` seconds."""
    began = time.monotonic()
    code = w.stop(timeout=within + 20)
    assert time.monotonic() - began < within
    return code


def assert_given_back(r, mid):
    """Free, no attempt counted, and the next worker sends it once."""
    r.assert_settled(mid)
    row = r.sql("SELECT lease, attempts, due_at <= clock_timestamp() AS due "
                "FROM d.send_q WHERE message_id = %s", mid)[0]
    assert (row["lease"], row["attempts"], row["due"]) == (None, 0, True)
    assert r.state(mid) == "deferred"
    assert not r.mx.messages
    r.mx.reset()
    w = r.start_worker()
    r.wait_state(mid, "sent")
    assert len(r.mx.messages) == 1
    assert r.deliveries(mid)[0]["attempts"] == 1
    w.stop()


@pytest.mark.parametrize("moment", ["banner", "EHLO", "STARTTLS", "AUTH"])
def test_before_mail_it_is_given_back_at_once(r, worker, moment):
    gate = r.mx.hold(moment)
    mid = r.submit()
    gate.reached()
    assert stopped(worker, 4) == 0
    gate.open()
    assert_given_back(r, mid)


def test_a_claim_in_flight(r, worker):
    worker.kill()
    mid = r.submit()
    gate = r.connect()
    gate.autocommit = False
    with gate.cursor() as cur:
        cur.execute("LOCK TABLE d.global_pause IN ACCESS EXCLUSIVE MODE")
    w = r.start_worker()
    postern.wait_until("a claim runs", lambda: r.sql(
        "SELECT 1 FROM pg_stat_activity WHERE usename = 'l_worker' AND "
        "wait_event_type = 'Lock' AND query LIKE '%%claim_due_1%%'"))
    w.send(15)
    w.wait("daemon.stop")
    assert r.state(mid) == "approved"
    gate.rollback()
    gate.close()
    assert w.proc.wait(10) == 0
    w.wait("deliver.claim")
    assert_given_back(r, mid)


def test_a_transaction_gets_a_moment_and_is_given_back(r, worker):
    gate = r.mx.hold("RCPT")
    mid = r.submit()
    gate.reached()
    assert stopped(worker, 15) == 0
    gate.open()
    assert_given_back(r, mid)


def test_a_dot_that_left_gets_its_reply(r, worker):
    gate = r.mx.hold("dot")
    mid = r.submit()
    gate.reached()
    worker.send(15)
    worker.wait("daemon.stop")
    assert worker.alive()
    gate.open()
    assert worker.stop() == 0
    assert r.state(mid) == "sent"
    assert len(r.mx.messages) == 1
    r.assert_settled(mid)


@pytest.mark.skipif(not FULL, reason="waits 65 s; with --full")
def test_a_dot_without_reply_is_uncertain_in_the_end(r, worker):
    gate = r.mx.hold("dot")
    mid = r.submit()
    gate.reached()
    assert worker.stop(timeout=90) == 0
    assert r.state(mid) == "uncertain"
    r.assert_settled(mid)
    gate.open()


# -- the database is away ---------------------------------------------------------

def cut_off(r):
    """End the worker's connections, as a restart of the server would."""
    r.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
          "WHERE usename = 'l_worker'")


def test_a_result_is_stored_when_the_database_is_back(r, worker):
    """The peer's 250 is worth more than one lost connection."""
    gate = r.mx.hold("dot")
    mid = r.submit()
    gate.reached()
    r.sql("ALTER ROLE l_worker NOLOGIN")
    try:
        cut_off(r)
        gate.open()
        worker.wait("deliver.result", why="delivered")
        assert r.deliveries(mid)[0]["status"] == 2
    finally:
        r.sql("ALTER ROLE l_worker LOGIN")
    r.wait_state(mid, "sent")
    assert len(r.mx.messages) == 1
    r.assert_settled(mid)


def test_no_answer_from_the_gate_is_no_dot(r, worker):
    """Nobody knows what the gate said; the worker knows that it sent none."""
    gate = r.mx.hold("DATA")
    mid = r.submit()
    gate.reached()
    lock = r.connect()
    lock.autocommit = False
    with lock.cursor() as cur:
        cur.execute("SELECT 1 FROM d.inbox FOR NO KEY UPDATE")
    gate.open()
    postern.wait_until("the gate is asked", lambda: r.sql(
        "SELECT 1 FROM pg_stat_activity WHERE usename = 'l_worker' "
        "AND wait_event_type = 'Lock' AND query LIKE '%%dot_1%%'"))
    cut_off(r)
    lock.rollback()
    lock.close()
    r.wait_state(mid, "deferred")
    assert not r.mx.messages
    r.assert_settled(mid)
    r.due(mid)
    r.wait_state(mid, "sent")
    assert len(r.mx.messages) == 1
