# SPDX-License-Identifier: ISC
"""
A mode made stricter, or a rule ended, takes back what it had let go: all of
it, whatever happened in between, and without a look at the mail of others.
"""
import pytest

import pgcluster
from pgcluster import call1, submit, submit_batch
from test_gate import one, state, tag
from test_relay import UNCERTAIN, attempt, claim, done, dot
from test_rules import by_rule, end_rule, rule
from test_small import fetched


@pytest.fixture(scope="module")
def w():
    with pgcluster.Cluster(fast=True, settings={"autovacuum": "off"}) as db:
        yield pgcluster.World(db, inboxes=0)


@pytest.fixture
def su(w):
    return w.db.connect("postgres")


@pytest.fixture
def x(w):
    return fresh(w)


def fresh(w):
    w.count = getattr(w, "count", 0) + 1
    return w.inbox(w.tenants[w.count % 2], "b%d@t%d.example" % (
        w.count, w.count % 2))


def by_mode(w, x, mode, n):
    x.epoch = w.mode(x, mode)
    ms = [x.message(**tag(), tag_mode=mode, tag_mode_epoch=x.epoch)
          for _ in range(n)]
    assert {r["state"] for r in submit_batch(w.gw, ms)} == {2}
    return ms


def states(su, ms):
    return {state(su, m)[0] for m in ms}


def test_a_sweep_reads_what_may_have_to_go(w, su):
    never, lowered, ruled, covered = [fresh(w) for _ in range(4)]
    by_mode(w, lowered, 4, 1)
    for x in (ruled, covered):
        end_rule(w, rule(w, x, "old@x.example"))
    rule(w, covered, "a@x.example")
    w.mode(lowered, 3)
    w.sweep()
    waiting = by_mode(w, never, 4, 150) + by_mode(w, lowered, 3, 150) + \
        by_mode(w, ruled, 4, 150) + [by_rule(w, covered, "a@x.example")]
    w.sweep()
    most = fetched(w, w.wk, w.sweep)
    assert most["send_q"] <= 2 and max(most.values()) <= 12, most
    # What has to go is read, and not much else.
    ms = by_mode(w, lowered, 4, 40)
    w.mode(lowered, 3)
    most = fetched(w, w.wk, w.sweep)
    assert most["send_q"] <= 8 * len(ms), most
    assert states(su, ms) == {1} and states(su, waiting) == {2}


def test_in_pieces(w, x, su):
    ms = by_mode(w, x, 4, 30)
    w.mode(x, 2)
    most = fetched(w, w.wk, lambda: w.sweep(7))
    assert most["send_q"] <= 8 * len(ms), most
    assert states(su, ms) == {1}


def test_a_crash_right_after_it(w, x, su):
    ms = by_mode(w, x, 4, 9)
    w.mode(x, 2)
    for c in (w.gw, w.rv, w.wk, w.ctl, su):
        c.close()
    w.db.kill()
    w.db.start()
    w.gw, w.rv, w.wk, w.ctl = [w.db.connect(login) for login in (
        "l_gateway", "l_review", "l_worker", "l_ctl")]
    w.sweep()
    assert states(w.db.connect("postgres"), ms) == {1}


def test_what_comes_back_later(w, x, su):
    """Leased, or past its dot, while the mode was made stricter."""
    leased, dead, unsure, again = by_mode(w, x, 4, 4)
    L, = claim(w, leased)
    su.cursor().execute("UPDATE d.send_q SET due_at = now(), aside = 0")
    D, = claim(w, dead)
    su.cursor().execute("UPDATE d.send_q SET due_at = now(), aside = 0 "
                        "WHERE lease IS NULL")
    for m in unsure, again:
        U, = claim(w, m)
        attempt(w, U)
        assert dot(w, U)["go"]
        assert done(w, U, {1: UNCERTAIN})["state"] == 11
        su.cursor().execute("UPDATE d.send_q SET due_at = now(), aside = 0 "
                            "WHERE lease IS NULL")
    retry = dict(s=w.root, ix=[1], outcome="retry", note=None)
    assert call1(w.rv, "uncertain_1", mid=again["mid"], **retry)["state"] == 9
    w.mode(x, 2)
    assert call1(w.rv, "uncertain_1", mid=unsure["mid"], **retry)[
        "code"] == "release_over"
    w.sweep()
    assert [state(su, m)[0] for m in (leased, dead, unsure)] == [7, 7, 11]
    assert call1(w.wk, "release_lease_1", retry_seconds=0,
                 **L)["status"] == 200
    su.cursor().execute("UPDATE d.send_q SET lease_until = now() "
                        "WHERE lease = %s", (D["lease"],))
    w.sweep()
    w.sweep()
    # What may have arrived is nobody's to hold; it is in no queue any more.
    assert [state(su, m)[0] for m in (leased, dead, unsure, again)] == [
        1, 1, 11, 11]
    assert one(su, "SELECT count(*) FROM d.send_q WHERE message_id IN (%s, %s)",
               unsure["mid"], again["mid"]) == 0


def test_nothing_is_back_that_came_after(w, x, su):
    """Stricter, looser again: its own mail goes on."""
    before = by_mode(w, x, 4, 3)
    w.mode(x, 2)
    after = by_mode(w, x, 4, 3)
    w.sweep()
    assert states(su, before) == states(su, after) == {2}
    m = x.message(**tag(), tag_mode=4, tag_mode_epoch=x.epoch - 1)
    assert submit(w.gw, m)["state"] == 1
    w.mode(x, 3)
    w.sweep()
    assert states(su, before + after) == {1}
