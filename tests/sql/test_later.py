# SPDX-License-Identifier: ISC
"""Mail for later (send_at): not due before, never forgotten, taken back."""
import time

from pgcluster import call1, submit, submit_batch
from test_gate import one, state, tag
from test_relay import approved, attempt, claim, done, dot


def at(hours):
    return int((time.time() + hours * 3600) * 1e6)


def moved(su, m):
    """The moment has come: rows of the queue, as the clock would have it."""
    su.cursor().execute("UPDATE d.send_q SET due_at = now() "
                        "WHERE message_id = %s", (m["mid"],))


def due(su, m):
    return one(su, "SELECT d.us(due_at) FROM d.send_q WHERE message_id = %s",
               m["mid"])


def test_not_due_before(w, x, su):
    when = at(2)
    m = approved(w, x, ["a@x.example", "b@y.example"], send_at=when)
    assert due(su, m) == when
    assert claim(w, m) == []
    assert one(su, "SELECT min(vt) FROM d.send_q WHERE message_id = %s",
               m["mid"]) >= when / 1e6 - 1
    assert one(su, "SELECT min(give_up_at - due_at) = '72 hours' "
               "FROM d.send_q WHERE message_id = %s", m["mid"])
    # it stands in nobody's way, and no other of its tenant behind it
    n = approved(w, x)
    assert one(su, "SELECT vt FROM d.send_q WHERE message_id = %s",
               n["mid"]) < time.time() + 60
    L, = claim(w, n)
    call1(w.wk, "release_lease_1", retry_seconds=3600, **L)
    moved(su, m)
    for L in claim(w, m):
        ix = [1] if L["dom"] == "x.example" else [2]
        attempt(w, L, ix)
        assert dot(w, L, ix)["go"]
        assert done(w, L, {ix[0]: 3})["status"] == 200
    assert state(su, m)[0] == 8


def test_a_moment_that_is_past_is_now(w, x, su):
    m = approved(w, x, send_at=at(-2))
    assert abs(due(su, m) / 1e6 - time.time()) < 60
    assert len(claim(w, m)) == 1


def test_what_waits_waits_from_then_on(w, x, su):
    m, n = x.message(send_at=at(48)), x.message()
    got = [submit(w.gw, y) for y in (m, n)]
    more = got[0]["hold_until"] - got[1]["hold_until"]
    assert abs(more.total_seconds() - 48 * 3600) < 60
    end = at(50)
    p = x.message(send_at=at(48), not_after=end)
    hold = submit(w.gw, p)["hold_until"]
    assert abs(hold.timestamp() - end / 1e6) < 1


def test_what_is_no_moment(w, x):
    for over in (dict(send_at=at(24 * 40)), dict(send_at=-1, dig=b"d" * 32),
                 dict(send_at=at(2), not_after=at(1)),
                 dict(send_at=None)):
        m = x.message(**over)
        assert submit(w.gw, m)["code"] == "validation_error", over
    # of a batch each has its own outcome
    good, late = x.message(send_at=at(1)), x.message(send_at=at(24 * 40))
    plain = x.message()
    got = submit_batch(w.gw, [good, late, plain])
    assert [r["status"] for r in got] == [202, 422, 202]


def test_the_agent_and_the_operator_take_it_back(w, x, su):
    m, n, p = (approved(w, x, send_at=at(2)) for _ in range(3))
    got = call1(w.gw, "cancel_1", t=x.tenant, k=x.send_key, a=x.send_a,
                mid=m["mid"])
    assert (got["status"], state(su, m)[0]) == (200, 5)
    # at any time, the undo window is not what ends it
    got = call1(w.rv, "undo_1", s=w.root, mid=n["mid"], for_version=1,
                for_round=1)
    assert (got["status"], state(su, n)[:2]) == (200, (1, 2))
    got = call1(w.rv, "review_cancel_1", s=w.root, mid=p["mid"], note="no")
    assert (got["status"], state(su, p)[0]) == (200, 5)
    for y in (m, n, p):
        moved(su, y)
        assert claim(w, y) == []


def test_an_approval_lapses_before_its_moment(w, x, su):
    m = approved(w, x, send_at=at(24 * 5))
    stale = one(su, "SELECT d.us(stale_at) FROM d.send_q "
                "WHERE message_id = %s", m["mid"])
    assert stale < m["send_at"]
    su.cursor().execute("UPDATE d.send_q SET stale_at = now() "
                        "WHERE message_id = %s", (m["mid"],))
    w.sweep(500)
    assert state(su, m)[:2] == (1, 2)
    assert one(su, "SELECT count(*) FROM d.send_q WHERE message_id = %s",
               m["mid"]) == 0
    # decided anew, closer to its moment
    assert w.approve(m, round=2)["state"] == 2
    assert due(su, m) == m["send_at"]


def test_a_loose_mode_lets_it_go_at_its_moment(w, x, su):
    e = w.mode(x, 4)
    good = dict(tag(72), tag_mode=4, tag_mode_epoch=e)
    soon, far = (x.message(send_at=at(h), **good) for h in (2, 24 * 10))
    assert submit(w.gw, soon)["state"] == 2
    assert due(su, soon) == soon["send_at"]
    # no release lasts that long: a person decides
    got = submit(w.gw, far)
    assert (got["status"], got["state"]) == (202, 1)
    w.mode(x, 2)
    w.sweep(500)
    assert state(su, soon)[:2] == (1, 2)
