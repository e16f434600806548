# SPDX-License-Identifier: ISC
"""What opening a message asks the database and tells it (decision A8)."""
import psycopg2
import pytest

from pgcluster import call, call1, submit
from test_relay import DONE, FAILED, attempt, claim, done, dot


def raise_to(w, s, m, risk, version=1):
    return call1(w.rv, "review_risk_1", s=s, mid=m["mid"],
                 for_version=version, higher=risk)


def test_the_risk_of_held_mail_only_rises(w, x, su):
    capped = w.operator("riser", "reviewer", tenant=x.tenant)
    m = x.message(risk=10)
    submit(w.gw, m)
    assert raise_to(w, capped, m, 19)["risk"] == 19  # no audit row
    r = raise_to(w, capped, m, 40)
    assert (r["status"], r["risk"], r["may_decide"]) == (200, 40, True)
    assert raise_to(w, capped, m, 20)["risk"] == 40
    assert raise_to(w, capped, m, 90, version=2)["risk"] == 40
    r = raise_to(w, capped, m, 80)
    assert (r["risk"], r["may_why"]) == (80, "missing_permission")
    assert w.approve(m, capped)["code"] == "missing_permission"
    for wrong in (101, -1, None):
        assert raise_to(w, capped, m, wrong)["status"] == 422
    with su.cursor() as cur:
        with pytest.raises(psycopg2.Error, match="only rise"):
            cur.execute("UPDATE d.state SET risk = 5 WHERE message_id = %s",
                        (str(m["mid"]),))
    with su.cursor() as cur:
        cur.execute("SELECT detail FROM d.audit WHERE event = 'message.risk'"
                    " AND message_id = %s ORDER BY at", (str(m["mid"]),))
        assert len(cur.fetchall()) == 2
    # decided: nothing rises any more
    assert w.reject(m, capped)["state"] == 3
    assert raise_to(w, capped, m, 95)["risk"] == 80


def test_others_may_not(w, x):
    m = x.message(risk=10)
    submit(w.gw, m)
    other = w.operator("beyond", "reviewer", tenant=w.tenants[1])
    assert raise_to(w, other, m, 90)["status"] == 404
    assert call1(w.rv, "review_known_1", s=other,
                 mid=m["mid"])["status"] == 404
    for name, more in (("review_risk_1", dict(for_version=1, higher=90)),
                       ("review_known_1", {}), ("review_volume_1", {})):
        assert call1(w.rv, name, s=b"x" * 32, mid=m["mid"],
                     **more)["status"] == 401
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            call(w.gw, name, s=other, mid=m["mid"], **more)


def test_what_was_sent_before(w, x, su):
    """By what the ids say of their time; another inbox does not count, and
    a longer past than is read stands for the time it took."""
    s = w.operator("counter", "reviewer", tenant=x.tenant)
    y = w.inbox(w.tenants[0], "volume@t0.example")

    def volume(m):
        r = call1(w.rv, "review_volume_1", s=s, mid=m["mid"])
        assert r["status"] == 200
        return r["recent"], r["past"], r["hours"]

    with su.cursor() as cur:
        cur.execute("UPDATE d.inbox SET created_at = clock_timestamp() - "
                    "interval '10 days' WHERE inbox_id = %s", (y.inbox,))
    submit(w.gw, x.message())
    first = y.message()
    submit(w.gw, first)
    assert volume(first) == (1, 0, 216)
    last = y.message()
    submit(w.gw, last)
    assert volume(last) == (2, 0, 216)
    assert volume(first) == (1, 0, 216)  # up to that message


def test_who_was_reached_before(w, x):
    s = w.operator("knower", "reviewer", tenant=x.tenant)
    far = w.operator("far", "reviewer", tenant=x.tenant, inbox=x.inbox)
    y = w.inbox(w.tenants[0], "known@t0.example")

    def known(m, who=s):
        return [(r["by_inbox"], r["by_any"]) for r in call(
            w.rv, "review_known_1", s=who, mid=m["mid"])]

    def deliver(box, rcpt, status):
        m = box.message([rcpt])
        submit(w.gw, m)
        assert w.approve(m, s)["state"] == 2
        L, = claim(w, m)
        attempt(w, L)
        assert dot(w, L)["go"]
        assert done(w, L, {1: status})["status"] == 200

    m = x.message(["Ann@seen.example", "bob@seen.example"])
    submit(w.gw, m)
    assert known(m) == [(False, False)] * 2
    deliver(x, "ann@seen.example", FAILED)  # refused: it was not reached
    assert known(m) == [(False, False)] * 2
    deliver(y, "ann@seen.example", DONE)
    assert known(m) == [(False, True)] * 2
    # who sees only this inbox is not told of the others
    assert known(m, far) == [(False, False)] * 2
    deliver(x, "ann@seen.example", DONE)
    assert known(m) == [(True, True), (False, True)]
    assert known(m, far) == [(True, True), (False, True)]
