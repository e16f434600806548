# SPDX-License-Identifier: ISC
"""
Second thoughts about mail that an operator approved on the pages, at every
moment between the approval and the dot. Up to dot_sent the gate has the last
word: what was paused, too old or blocked does not leave. What a worker holds
can no longer be undone or canceled; it leaves once, and only once.

The fake smarthost keeps the worker at each moment: nothing here sleeps.
"""
import contextlib
import html
import os
import re
import time

import pytest

from tests.lib import postern, seals
from tests.lib.pages import Pages, public_id
from tests.lib.relaying import Relaying

FULL = os.environ.get("POSTERN_FULL") == "1"
# queued: approved, not claimed. claimed: connected, nothing said. Then the
# verb the smarthost has not answered. gate: the statement of dot_sent runs
# and waits for the inbox's row. dot: dot_sent is committed, the dot is out.
MOMENTS = ["queued", "claimed", "MAIL", "RCPT", "DATA", "gate", "dot"]
SOME = MOMENTS if FULL else ["queued", "claimed", "DATA", "gate", "dot"]
FEW = MOMENTS if FULL else ["queued", "DATA"]
WAITS = {"claimed": "banner"}
SUBMITTED = ["agent message.submitted", "op message.approve"]


@pytest.fixture(scope="module")
def r():
    with Relaying() as it:
        # Long enough that only due() ends it.
        it.set_conf("admin", undo="120s")
        it.start_worker()
        it.start("postern-admin")
        it.pages = Pages(it)
        it.count = 0
        yield it
        # A no-go ends the lease: nothing was asked of it after that.
        assert not [e for e in it.worker.events
                    if e.get("why") == "state_conflict"]


class Case:
    """One approved message, taken to its moment."""

    def __init__(self, r, moment, submit=None, approve=True):
        self.r, self.moment = r, moment
        r.mx.reset()
        r.count += 1
        self.box = r.add_inbox("m%d@acme.example" % r.count)
        self.rcpt = "r%d@dest.example" % r.count
        self.mid = submit(self) if submit else r.submit(
            box=self.box, rcpts=[self.rcpt])
        assert r.state(self.mid) == "held"
        assert not r.claimable(self.mid)
        self.lock = self.gate = None
        if not approve:
            return
        assert r.pages.approve(self.mid) == 303
        assert r.state(self.mid) == "approved"
        self.undo_form = r.pages.form(self.mid, "undo")
        if moment == "queued":
            return
        self.gate = r.mx.hold(WAITS.get(
            moment, "DATA" if moment == "gate" else moment))
        r.due(self.mid)
        self.gate.reached()
        if moment == "gate":
            self._hold_the_gate()

    def _hold_the_gate(self):
        """dot_1 waits for who stops more than an inbox, and locks the inbox
        then; we are both."""
        self.lock = self.r.connect()
        self.lock.autocommit = False
        with self.lock.cursor() as cur:
            cur.execute("LOCK TABLE d.stop IN EXCLUSIVE MODE")
            cur.execute("SELECT 1 FROM d.inbox WHERE inbox_id = %s "
                        "FOR NO KEY UPDATE", (self.box.inbox_id,))
        self.gate.open()
        postern.wait_until("the gate is asked", lambda: self.r.sql(
            "SELECT 1 FROM pg_stat_activity WHERE usename = 'l_worker' "
            "AND wait_event_type = 'Lock' AND query LIKE '%%dot_1%%'"))

    def do(self, query, *args, user="l_review"):
        """With the inbox's row locked, in the transaction that locked it."""
        if self.lock is None:
            return self.r.sql(query, *args, user=user)
        with self.lock.cursor() as cur:
            cur.execute("SET LOCAL SESSION AUTHORIZATION " + user)
            cur.execute(query, args)
            names = [c.name for c in cur.description]
            rows = [dict(zip(names, row)) for row in cur.fetchall()]
            cur.execute("RESET SESSION AUTHORIZATION")
        return rows

    def go(self):
        """Let it run on from its moment."""
        if self.lock is not None:
            self.lock.commit()
            self.lock.close()
        elif self.gate is not None:
            self.gate.open()
        else:
            self.r.due(self.mid)

    def is_late(self):
        return self.moment != "queued"

    def is_gone(self):
        return self.moment == "dot"

    def refused(self):
        """The event of a gate that says no at this moment."""
        if self.moment in ("queued", "claimed"):
            assert "MAIL" not in self.r.mx.verbs
            return "worker mail.refused"
        return "worker dot.refused"

    def row(self):
        return self.r.sql(
            "SELECT s.round, s.detail, s.integrity, v.status, v.attempts, "
            "v.reply_code FROM d.state s LEFT JOIN d.delivery v "
            "USING (message_id, tenant_id) WHERE s.message_id = %s",
            self.mid)[0]

    def sent_once(self, round=1):
        r = self.r
        r.wait_state(self.mid, "sent")
        (got,) = [m for m in r.mx.messages if m["rcpts"] == [self.rcpt]]
        assert got["mail_from"] == self.box.address
        row = self.row()
        assert (row["status"], row["attempts"], row["reply_code"],
                row["round"]) == (3, 1, 250, round)
        r.assert_settled(self.mid)
        assert not r.sql("SELECT 1 FROM d.send_q WHERE message_id = %s",
                         self.mid)
        assert not r.claimable(self.mid)

    def nothing_left(self):
        """A claim that runs now gets nothing, and nothing is on its way."""
        r = self.r
        assert not r.sql("SELECT 1 FROM d.send_q WHERE message_id = %s",
                         self.mid)
        assert not r.claimable(self.mid)
        r.assert_settled(self.mid)
        assert not r.mx.messages

    def held_again(self, detail, *events):
        """Back with the operators; approved anew it leaves, once."""
        r = self.r
        row = self.row()
        assert (row["round"], row["detail"], row["integrity"]) == (
            2, detail, None)
        self.nothing_left()
        assert r.audit(self.mid) == [*SUBMITTED, *events]
        if detail is not None:
            page = r.pages.call("GET", "/m/" + public_id(self.mid))[2]
            assert "The approval was too old" in page
        assert r.pages.approve(self.mid) == 303
        r.due(self.mid)
        self.sent_once(round=2)
        assert r.audit(self.mid) == [
            *SUBMITTED, *events, "op message.approve",
            "worker message.result"]

    def end(self):
        """Let go of everything, also when the test failed."""
        if self.lock is not None and not self.lock.closed:
            self.lock.rollback()
            self.lock.close()
        if self.gate is not None:
            self.gate.open()


@pytest.fixture
def case(r):
    with contextlib.ExitStack() as stack:
        def make(*args, **kw):
            began = time.monotonic()
            c = Case(r, *args, **kw)
            stack.callback(c.end)
            c.took = time.monotonic() - began
            return c
        yield make


def sent_and_audited(c):
    c.sent_once()
    assert c.r.audit(c.mid) == [*SUBMITTED, "worker message.result"]


def test_the_page_tells_of_the_try(case):
    """What the worker wrote down, on the page of the message."""
    c = case("queued")
    c.go()
    sent_and_audited(c)
    status, _, page = c.r.pages.call("GET", "/m/" + public_id(c.mid))
    assert status == 200
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))
    assert "Delivery 1 try" in text
    assert re.search(r"localhost for dest\.example TLSv1\.3 \S+ verified all "
                     "of it was handed over taken", text), text
    assert "Delivered 250 2.0.0" in text, text


# -- undo and cancel ------------------------------------------------------------

@pytest.mark.parametrize("moment", MOMENTS)
def test_undo(case, moment):
    c = case(moment)
    assert c.r.pages.undo(c.mid, c.undo_form) is not c.is_late()
    if c.is_late():
        c.go()
        sent_and_audited(c)
        return
    assert c.r.state(c.mid) == "held"
    assert c.row()["round"] == 2
    c.nothing_left()
    assert c.r.audit(c.mid) == [*SUBMITTED, "op message.undo"]
    assert c.r.pages.undo(c.mid, c.undo_form) is False


@pytest.mark.parametrize("moment", SOME)
def test_undo_and_approve_again(case, moment):
    c = case(moment)
    stale = c.r.pages.form(c.mid, "decide")
    assert stale is None  # decided: the page offers no decision
    c.r.pages.undo(c.mid, c.undo_form)
    if c.is_late():
        c.go()
        sent_and_audited(c)
        return
    c.held_again(None, "op message.undo")
    assert len(c.r.sql("SELECT 1 FROM d.release WHERE message_id = %s",
                       c.mid)) == 2


def test_the_form_of_an_earlier_round_approves_nothing(case):
    c = case("queued", approve=False)
    old = c.r.pages.form(c.mid, "decide")
    assert c.r.pages.approve(c.mid) == 303
    assert c.r.pages.undo(c.mid, c.r.pages.form(c.mid, "undo"))
    assert c.r.pages.press(c.mid, "decide", old, verdict="a")[0] == 409
    assert c.r.state(c.mid) == "held"
    c.nothing_left()


@pytest.mark.parametrize("moment", MOMENTS)
def test_cancel_by_the_agent(case, moment):
    c = case(moment)
    row = c.r.sql(
        "SELECT * FROM api.cancel_1(%s, %s, %s, %s)", c.box.tenant_id,
        c.box.full_key_id, seals.auth_of(seals.token_secret(c.box.key)),
        c.mid, user="l_gateway")[0]
    if c.is_late():
        assert (row["status"], row["code"], row["state"]) == (
            409, "state_conflict", 7)
        c.go()
        sent_and_audited(c)
        return
    assert (row["status"], row["state"]) == (200, 5)
    assert c.row()["status"] == 8
    c.nothing_left()
    assert c.r.audit(c.mid) == [*SUBMITTED, "agent message.canceled"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_cancel_by_an_operator(case, moment):
    c = case(moment)
    row = c.r.sql("SELECT * FROM api.review_cancel_1(%s, %s, 'test')",
                  c.r.session, c.mid, user="l_review")[0]
    if c.is_late():
        assert (row["status"], row["state"]) == (409, 7)
        c.go()
        sent_and_audited(c)
        return
    assert (row["status"], row["state"]) == (200, 5)
    assert c.row()["status"] == 8
    c.nothing_left()
    assert c.r.audit(c.mid) == [*SUBMITTED, "op message.cancel"]


# -- what the last gate looks at ------------------------------------------------

def deferred_then_sent(c, reason, undo):
    """No dot; due again; once it may, it leaves once."""
    r = c.r
    r.wait_state(c.mid, "deferred")
    row = c.row()
    # It was no fault of the message: no attempt is counted.
    assert (row["status"], row["attempts"], row["detail"]) == (4, 0, reason)
    assert r.sql("SELECT attempts FROM d.send_q WHERE message_id = %s",
                 c.mid)[0]["attempts"] == 0
    assert not r.mx.messages
    r.assert_settled(c.mid)
    due = r.sql("SELECT extract(epoch FROM due_at - clock_timestamp()) AS s "
                "FROM d.send_q WHERE message_id = %s", c.mid)[0]["s"]
    assert 30 < due <= 60
    event = c.refused()
    assert r.audit(c.mid) == [*SUBMITTED, event]
    undo()
    r.due(c.mid)
    c.sent_once()
    assert r.audit(c.mid) == [*SUBMITTED, event, "worker message.result"]


def pause(run, r, level, box, on):
    (row,) = run(
        "SELECT * FROM api.pause_1(%s, %s, %s, %s, 'test')", r.session,
        None if level == "global" else box.tenant_id,
        box.inbox_id if level == "inbox" else None, on)
    assert row["status"] == 200, row


@pytest.mark.parametrize("level", ["inbox", "tenant", "global"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_pause(case, moment, level):
    c = case(moment)
    r = c.r
    r.step_up()
    pause(c.do, r, level, c.box, True)

    def resume():
        pause(lambda q, *a: r.sql(q, *a, user="l_review"), r, level, c.box,
              False)

    try:
        c.go()
        if c.is_gone():
            sent_and_audited(c)
        elif c.is_late():
            deferred_then_sent(c, "paused", resume)
        else:
            # Due, and still nobody gets it.
            assert not r.claimable(c.mid)
            assert r.state(c.mid) == "approved"
            assert not r.mx.messages
            resume()
            sent_and_audited(c)
    finally:
        resume()


@pytest.mark.parametrize("moment", SOME)
def test_suspend(case, moment):
    c = case(moment)
    r = c.r
    r.step_up()

    def suspend(run, on):
        (row,) = run("SELECT * FROM api.suspend_1(%s, %s, %s, %s, 'test')",
                     r.session, c.box.tenant_id, c.box.inbox_id, on)
        assert row["status"] == 200, row

    def resume():
        suspend(lambda q, *a: r.sql(q, *a, user="l_review"), False)

    suspend(c.do, True)
    c.go()
    if c.is_gone():
        sent_and_audited(c)
    elif c.is_late():
        deferred_then_sent(c, "suspended", resume)
    else:
        assert not r.claimable(c.mid)
        assert r.state(c.mid) == "approved" and not r.mx.messages
        resume()
        sent_and_audited(c)


@pytest.mark.parametrize("mode", [0, 1] if FULL else [0])
@pytest.mark.parametrize("moment", SOME)
def test_tighten_keeps_what_a_person_approved(case, moment, mode):
    c = case(moment)
    (row,) = c.do("SELECT * FROM api.tighten_1(%s, %s, %s, %s::smallint, "
                  "'test')", os.geteuid(), c.box.tenant_id, c.box.inbox_id,
                  mode, user="l_ctl")
    assert row["status"] == 200, row
    c.go()
    sent_and_audited(c)


@pytest.mark.parametrize("moment", SOME)
def test_an_approval_too_old(case, moment):
    """approve_ttl: as if the approval were 72 h old now."""
    c = case(moment)
    c.r.sql("UPDATE d.send_q SET stale_at = clock_timestamp() "
            "WHERE message_id = %s", c.mid)
    if c.is_late():
        c.go()
    if c.is_gone():
        sent_and_audited(c)
        return
    c.r.wait_state(c.mid, "held")
    if c.is_late():
        c.held_again("expired", c.refused())
    else:
        c.held_again("aged", "worker message.aged")


@pytest.mark.parametrize("moment", FEW)
def test_not_after(r, case, moment):
    """The agent's own deadline, part of the digest, passes. Not much later
    than the moment is there: a gate that answers late is not believed."""
    first = case(moment)
    first.go()
    sent_and_audited(first)
    until = time.time() + 1.5 + 1.5 * first.took
    c = case(moment, submit=lambda c: c.r.submit_rest(
        c.box, c.rcpt, not_after=time.strftime(
            "%Y-%m-%dT%H:%M:%SZ", time.gmtime(until))))
    assert r.sql("SELECT not_after FROM d.message WHERE message_id = %s",
                 c.mid)[0]["not_after"] == int(until) * 1000000
    postern.wait_until("it is too late", lambda: r.sql(
        "SELECT 1 FROM d.message WHERE message_id = %s AND "
        "not_after <= d.us(clock_timestamp())", c.mid))
    if c.is_late():
        c.go()
    if c.is_gone():
        sent_and_audited(c)
        return
    r.wait_state(c.mid, "expired")
    assert c.row()["status"] == 8
    c.nothing_left()
    assert r.audit(c.mid) == [
        *SUBMITTED, c.refused() if c.is_late()
        else "worker message.expired"]


@pytest.mark.parametrize("verdict", ["b", "s"] if FULL else ["s"])
@pytest.mark.parametrize("moment", SOME)
def test_a_list_entry(case, moment, verdict):
    """Blocked or suppressed after the approval: that recipient gets none."""
    c = case(moment)
    (row,) = c.do(
        "SELECT * FROM api.list_set_1(%s, %s, %s, %s, %s, NULL, 'test')",
        c.r.session, c.box.tenant_id, c.box.inbox_id, c.rcpt, verdict)
    assert row["status"] == 200, row
    c.go()
    if c.is_gone():
        sent_and_audited(c)
        return
    c.r.wait_state(c.mid, "bounced")
    assert (c.row()["status"], c.row()["attempts"]) == (7, 0)
    c.nothing_left()
    assert c.r.audit(c.mid) == [*SUBMITTED, c.refused()]
