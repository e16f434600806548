# SPDX-License-Identifier: ISC
"""The worker's protocol: lease, attempt, the last gate, results, crashes."""
import threading
import time

import pytest

from pgcluster import call, call1, submit, uuid7
from test_gate import one, state, tag

PENDING, SENDING, DOT, DONE, LATER, FAILED, UNCERTAIN, LISTED, CANCELED = \
    range(9)


def claim(w, m, lim=500, seconds=60):
    """The leases of one message; others are given back at once."""
    mine = []
    for q in call(w.wk, "claim_due_1", worker="w1", lim=lim,
                  lease_seconds=seconds):
        if q["status"] == 206:
            continue
        L = dict(t=q["tenant_id"], mid=q["message_id"], dom=q["domain"],
                 lease=q["lease"])
        if q["message_id"] == m["mid"]:
            mine.append(L)
        else:
            call1(w.wk, "release_lease_1", retry_seconds=3600, **L)
    return sorted(mine, key=lambda L: L["dom"])


def alone(su):
    """Nothing is due, nor becomes it: other tests leave what is in a minute.
    It waits as what a worker put off."""
    su.cursor().execute("UPDATE d.send_q SET due_at = now() + interval "
                        "'1 day', aside = 3 WHERE lease IS NULL")


def rows_of(su, m):
    cur = su.cursor()
    cur.execute("SELECT ix, status FROM d.delivery WHERE message_id = %s "
                "ORDER BY ix", (m["mid"],))
    return [s for _, s in cur.fetchall()]


def approved(w, x, rcpts=("b@x.example",), **over):
    m = x.message(rcpts, **over)
    assert submit(w.gw, m)["status"] == 202
    assert w.approve(m)["state"] == 2
    return m


def mail(w, L, ix=(1,)):
    """What comes before MAIL FROM."""
    return call1(w.wk, "attempt_1", mx="mx.example", tls="TLSv1.3",
                 ix=list(ix), **L)


def attempt(w, L, ix=(1,)):
    r = mail(w, L, ix)
    assert (r["status"], r["go"]) == (200, True), r
    return r["n"]


def dot(w, L, ix=(1,), host="mx.example"):
    return call1(w.wk, "dot_1", ix=list(ix), host=host, safety="TLSv1.3", **L)


def done(w, L, results, retry=60):
    n = len(results)
    return call1(w.wk, "done_1", ix=list(results),
                 result=list(results.values()), reply_code=[250] * n,
                 enhanced=["2.0.0"] * n, reply=["ok"] * n,
                 retry_seconds=retry, mx_result="mx", **L)


def test_who_has_no_backlog_is_next(w, x, su):
    """Of a tenant's many, the first is before another's one, and no more."""
    y = w.inbox(w.tenants[1], "one-%s@t1.example" % uuid7())
    su.cursor().execute("DELETE FROM d.fair")
    first, second, third, other = [
        one(su, "SELECT vt FROM d.send_q WHERE message_id = %s",
            approved(w, who)["mid"]) for who in (x, x, x, y)]
    assert other <= first < second < third


def test_the_plain_way(w, x, su):
    m = approved(w, x, ["a@x.example", "b@x.example", "c@y.example"])
    L1, L2 = claim(w, m)
    f = call1(w.wk, "fetch_1", **L1)
    assert (f["digest"], f["rcpts"], f["due_ix"], f["release_by"]) == (
        m["dig"], m["rcpts"], "1,2", "o")
    assert (f["relay_box"], f["tag"]) == (b"r" * 200, b"g" * 32)
    b = call(w.wk, "fetch_body_1", from_seq=0, lim=9, **L1)
    assert [r["data"] for r in b] == [m["body"]]
    attempt(w, L1, (1, 2))
    assert dot(w, L1, (1, 2))["go"] is True
    r = done(w, L1, {1: DONE, 2: LATER})
    assert (r["state"], r["more"]) == (7, True)
    attempt(w, L2, (3,))
    assert dot(w, L2, (3,))["go"]
    r = done(w, L2, {3: DONE})
    assert (r["state"], r["more"]) == (9, False)
    assert rows_of(su, m) == [DONE, LATER, DONE]
    su.cursor().execute("UPDATE d.send_q SET due_at = now() "
                        "WHERE message_id = %s", (m["mid"],))
    L, = claim(w, m)
    assert call1(w.wk, "fetch_1", **L)["due_ix"] == "2"
    attempt(w, L, (2,))
    assert done(w, L, {2: FAILED})["state"] == 10
    assert one(su, "SELECT count(*) FROM d.send_q WHERE message_id = %s",
               m["mid"]) == 0
    # Over is over: the lease reads nothing any more.
    assert call1(w.wk, "fetch_1", **L)["status"] == 409
    assert call(w.wk, "fetch_body_1", from_seq=0, lim=1, **L)[0][
        "status"] == 409


def test_only_a_lease_of_its_own(w, x, su):
    m = approved(w, x)
    L, = claim(w, m)
    for bad in (dict(L, lease=uuid7()), dict(L, t=w.tenants[1]),
                dict(L, dom="y.example"), dict(L, mid=uuid7()),
                dict(L, lease=None)):
        assert call1(w.wk, "fetch_1", **bad)["status"] == 409
        assert call(w.wk, "fetch_body_1", from_seq=0, lim=1, **bad)[0][
            "status"] == 409
        assert call1(w.wk, "attempt_1", mx="m", tls="", ix=[1],
                     **bad)["status"] == 409
        r = dot(w, bad)
        assert r["go"] is False and r["reason"] in ("lease", "state")
        assert done(w, bad, {1: DONE})["status"] == 409
        assert call1(w.wk, "integrity_1", why="x", **bad)["status"] == 409
        assert call1(w.wk, "release_lease_1", retry_seconds=0,
                     **bad)["status"] == 409
    assert rows_of(su, m) == [PENDING] and state(su, m)[0] == 7
    # Nobody else gets it meanwhile.
    assert claim(w, m) == []
    assert [r["lease"] for r in call(w.wk, "beat_1", leases=[
        L["lease"], uuid7()], lease_seconds=60)] == [L["lease"]]
    call1(w.wk, "release_lease_1", retry_seconds=0, **L)
    assert len(claim(w, m)) == 1


def test_results_need_their_dot(w, x, su):
    m = approved(w, x, ["a@x.example", "b@x.example"])
    L, = claim(w, m)
    bad_results = ({1: DONE}, {1: UNCERTAIN}, {9: FAILED}, {1: 0},
                   {1: CANCELED})
    for bad in bad_results:
        assert done(w, L, bad)["status"] == 422, bad
    assert call1(w.wk, "attempt_1", mx="m", tls="", ix=[1, 9],
                 **L)["status"] == 422
    attempt(w, L, (1, 2))
    for bad in bad_results:
        assert done(w, L, bad)["status"] == 422, bad
    # The dot is for recipients of it that are due.
    for bad in ((1, 2, 3), ()):
        assert dot(w, L, bad)["go"] is False
        assert rows_of(su, m) == [PENDING, PENDING]
    attempt(w, L, (1, 2))
    assert dot(w, L, (1, 2))["go"]
    assert done(w, L, {1: DONE, 2: DONE})["state"] == 8


def test_the_rest_follows_at_once(w, x, su):
    m = approved(w, x, ["a@x.example", "b@x.example"])
    L, = claim(w, m)
    attempt(w, L, (1,))
    assert dot(w, L, (1,))["go"]
    assert call1(w.wk, "done_1", ix=[1], result=[DONE], reply_code=[250],
                 enhanced=["2.0.0"], reply=["ok"], retry_seconds=0,
                 mx_result="ok", **L)["more"]
    assert rows_of(su, m) == [DONE, PENDING] and len(claim(w, m)) == 1


def test_who_is_suppressed_is_named(w, x, su):
    """Of what failed, only what the caller says was said of that address; and
    none that this call is not about."""
    names = ["%s@own-%d.example" % (c, x.inbox) for c in "abcd"]
    m = approved(w, x, names)
    L, = claim(w, m)
    attempt(w, L, (1, 2, 3, 4))

    def fail(L, ix, own):
        n = len(ix)
        return call1(w.wk, "done_1", ix=ix, result=[FAILED] * n,
                     reply_code=[550] * n, enhanced=["5.1.1"] * n,
                     reply=["no such user"] * n, retry_seconds=0,
                     mx_result="mx", **own, **L)["status"]
    assert fail(L, [1], {}) == 200
    L, = claim(w, m)
    assert fail(L, [2, 3], {"own": [1, 3]}) == 200
    L, = claim(w, m)
    assert fail(L, [4], {"own": []}) == 200
    cur = su.cursor()
    cur.execute("SELECT entry FROM d.list_entry WHERE entry = ANY (%s) "
                "AND ended_at IS NULL", (names,))
    assert cur.fetchall() == [(names[2],)]


# The gate is asked twice: before MAIL FROM and before the dot.
GATES = pytest.mark.parametrize("at", ["mail", "dot"])


def gate_case(w, su, m, L, at, before, ix=(1,)):
    """`before` happens between two looks; why the next one is no."""
    if at == "dot":
        attempt(w, L, ix)
    before()
    r = (mail if at == "mail" else dot)(w, L, ix)
    assert (r["status"], r["go"]) == (200, False), r
    # No transaction that is never begun is written down as an attempt.
    assert one(su, "SELECT count(*) FROM d.attempt WHERE message_id = %s",
               m["mid"]) == (at == "dot")
    assert one(su, "SELECT event FROM d.audit WHERE message_id = %s "
               "ORDER BY at DESC, n DESC LIMIT 1", m["mid"]) == (
                   at + ".refused")
    return r["reason"]


@GATES
@pytest.mark.parametrize("level", ["inbox", "tenant", "global"])
def test_pause_between_approval_and_dot(w, x, su, level, at):
    p = dict(s=w.root, reason="r", tenant=None if level == "global"
             else x.tenant, inbox=x.inbox if level == "inbox" else None)
    m = approved(w, x)
    L, = claim(w, m)

    def pause():
        assert call1(w.rv, "pause_1", paused=True, **p)["status"] == 200
    assert gate_case(w, su, m, L, at, pause) == "paused"
    try:
        assert rows_of(su, m) == [LATER] and state(su, m)[:2] == (9, 1)
        assert one(su, "SELECT attempts FROM d.send_q WHERE message_id = %s",
                   m["mid"]) == 0
        su.cursor().execute("UPDATE d.send_q SET due_at = now() "
                            "WHERE message_id = %s", (m["mid"],))
        assert claim(w, m) == []
    finally:
        w.step_up(w.root)
        assert call1(w.rv, "pause_1", paused=False, **p)["status"] == 200
    L, = claim(w, m)
    attempt(w, L)
    assert dot(w, L)["go"]
    assert done(w, L, {1: DONE})["state"] == 8


@GATES
def test_suspension_at_the_gate(w, x, su, at):
    m = approved(w, x)
    L, = claim(w, m)
    assert gate_case(w, su, m, L, at, lambda: call1(
        w.rv, "suspend_1", s=w.root, tenant=x.tenant, inbox=x.inbox,
        suspended=True, reason="r")) == "suspended"
    assert state(su, m)[0] == 9
    assert submit(w.gw, x.message())["code"] == "missing_permission"


def ended(su, m):
    """Its end is a moment ago, in what was approved too: the clock cannot be
    moved, and to wait for an end that is near is to be late for the rest."""
    cur = su.cursor()
    cur.execute("SET session_replication_role = replica")
    cur.execute("UPDATE d.message y SET not_after = z.at, digest = d.digest_1("
                "y.tenant_id, y.inbox_id, y.message_id, y.version, y.test, "
                "y.mail_from, y.rcpt, y.params, y.size, y.body_tag, y.send_at, "
                "z.at) FROM (SELECT d.us(clock_timestamp()) - 1 AS at) z "
                "WHERE message_id = %s RETURNING not_after, digest",
                (m["mid"],))
    at, digest = cur.fetchone()
    for table, more in (("decision", ""), ("send_q", ", stale_at = least("
                                           "stale_at, now())"),
                        ("release", ", expiry = %d" % at)):
        cur.execute("UPDATE d.%s SET digest = %%s%s WHERE message_id = %%s"
                    % (table, more), (digest, m["mid"]))
        assert cur.rowcount == 1, table
    cur.execute("RESET session_replication_role")


def ending(w, x):
    """Approved up to its end."""
    end = int((time.time() + 3600) * 1e6)
    m = x.message(not_after=end)
    assert submit(w.gw, m)["status"] == 202
    assert w.approve(m, expiry=end)["state"] == 2
    return m


@GATES
def test_not_after_at_the_gate(w, x, su, at):
    m, n = approved(w, x), ending(w, x)
    L, = claim(w, n)
    assert gate_case(w, su, n, L, at, lambda: ended(su, n)) == "not_after"
    assert state(su, n)[0] == 4 and rows_of(su, n) == [CANCELED]
    assert state(su, m)[0] in (2, 7, 9)


@GATES
def test_tightening_takes_policy_mail_back(w, x, su, at):
    """At the dot and in the queue; an operator's approval stays."""
    e = w.mode(x, 4)
    good = dict(tag(), tag_mode=4, tag_mode_epoch=e)
    a, b = x.message(**good), x.message(**good)
    for m in (a, b):
        assert submit(w.gw, m)["state"] == 2
    c = x.message()
    assert submit(w.gw, c)["state"] == 1
    assert w.approve(c)["state"] == 2
    L, = claim(w, a)
    su.cursor().execute("UPDATE d.send_q SET due_at = now() WHERE message_id"
                        " IN (%s, %s)", (b["mid"], c["mid"]))
    assert gate_case(w, su, a, L, at, lambda: call1(
        w.ctl, "tighten_1", uid=0, tenant=x.tenant, inbox=x.inbox,
        to_mode=2, reason="r")) == "mode"
    assert state(su, a)[:2] == (1, 2) and rows_of(su, a) == [PENDING]
    w.sweep(100)
    assert state(su, b)[:2] == (1, 2)
    assert state(su, c)[0] in (2, 9)
    # Looser again does not bring them back; a person may.
    w.mode(x, 4)
    w.sweep(100)
    assert state(su, a)[0] == 1
    assert w.approve(a, round=2)["state"] == 2
    L, = claim(w, a)
    f = call1(w.wk, "fetch_1", **L)
    assert (f["round"], f["release_by"]) == (2, "o")


def test_tightening_after_a_dot_keeps_what_left(w, x, su):
    e = w.mode(x, 4)
    m = x.message(["a@x.example", "b@y.example"], **dict(
        tag(), tag_mode=4, tag_mode_epoch=e))
    assert submit(w.gw, m)["state"] == 2
    L1, L2 = claim(w, m)
    attempt(w, L1, (1,))
    assert dot(w, L1, (1,))["go"]
    attempt(w, L2, (2,))
    call1(w.ctl, "tighten_1", uid=0, tenant=x.tenant, inbox=x.inbox,
          to_mode=2, reason="r")
    assert dot(w, L2, (2,))["reason"] == "mode"
    # The first may have been sent: not held again, a person looks.
    assert rows_of(su, m) == [UNCERTAIN, CANCELED]
    assert state(su, m)[:2] == (11, 1)
    assert done(w, L1, {1: DONE})["status"] == 409


@GATES
def test_a_list_entry_at_the_gate(w, x, su, at):
    m = approved(w, x, ["a@lst-%s.example" % at, "b@lst-%s.example" % at])
    L, = claim(w, m)
    assert gate_case(w, su, m, L, at, lambda: call1(
        w.rv, "list_set_1", s=w.root, tenant=x.tenant, inbox=None,
        entry="B@lst-%s.example" % at, verdict="s", expires=None,
        reason="r"), (1, 2)) == "list"
    assert rows_of(su, m) == [PENDING, LISTED]
    assert call1(w.wk, "fetch_1", **L)["due_ix"] == "1"
    attempt(w, L, (1,))
    assert dot(w, L, (1,))["go"]
    assert done(w, L, {1: DONE})["state"] == 10


def test_undo_and_cancel_lose_against_a_lease(w, x, su):
    m = approved(w, x)
    L, = claim(w, m)
    assert call1(w.rv, "undo_1", s=w.root, mid=m["mid"], for_version=1,
                 for_round=1)["status"] == 409
    assert call1(w.rv, "review_cancel_1", s=w.root, mid=m["mid"],
                 note=None)["status"] == 409
    assert call1(w.gw, "cancel_1", t=x.tenant, k=x.send_key, a=x.send_a,
                 mid=m["mid"])["status"] == 409
    call1(w.wk, "release_lease_1", retry_seconds=60, **L)
    # Waiting to try again: an operator may stop it, the agent not.
    assert call1(w.gw, "cancel_1", t=x.tenant, k=x.send_key, a=x.send_a,
                 mid=m["mid"])["status"] == 409
    assert call1(w.rv, "review_cancel_1", s=w.root, mid=m["mid"],
                 note=None)["state"] == 5
    assert rows_of(su, m) == [CANCELED]
    n = approved(w, x)
    assert call1(w.gw, "cancel_1", t=x.tenant, k=x.send_key, a=x.send_a,
                 mid=n["mid"])["state"] == 5
    assert claim(w, n) == []


def test_undo_while_another_claims(db, w, x, su):
    """Both at once: one of them wins, nobody waits, nothing is sent twice."""
    m = approved(w, x)
    a = db.connect("l_worker", autocommit=False)
    got = [q for q in call(a, "claim_due_1", worker="w2", lim=500,
                           lease_seconds=60) if q["message_id"] == m["mid"]]
    assert got
    a.rollback()
    b = db.connect("l_review", autocommit=False)
    b.cursor().execute("SET lock_timeout = '3s'")
    assert call1(b, "undo_1", s=w.root, mid=m["mid"], for_version=1,
                 for_round=1)["state"] == 1
    # The claim skips what the open undo holds.
    c = db.connect("l_worker")
    c.cursor().execute("SET lock_timeout = '3s'")
    assert m["mid"] not in {q["message_id"] for q in call(
        c, "claim_due_1", worker="w3", lim=500, lease_seconds=1)}
    b.commit()
    assert state(su, m)[:2] == (1, 2)
    for s in (a, b, c):
        s.close()


def kill_lease(su, m):
    su.cursor().execute("UPDATE d.send_q SET lease_until = now() "
                        "- interval '1 s' WHERE message_id = %s "
                        "AND lease IS NOT NULL", (m["mid"],))


def test_a_worker_dies(w, x, su):
    """Before the dot it is due again, after it nobody knows."""
    m = approved(w, x)
    L, = claim(w, m)
    attempt(w, L)
    kill_lease(su, m)
    assert dot(w, L)["go"] is False
    assert call(w.wk, "beat_1", leases=[L["lease"]], lease_seconds=60) == []
    w.sweep(500)
    assert rows_of(su, m) == [PENDING] and state(su, m)[0] == 9
    su.cursor().execute("UPDATE d.send_q SET due_at = now() "
                        "WHERE message_id = %s", (m["mid"],))
    L, = claim(w, m)
    attempt(w, L)
    assert dot(w, L)["go"]
    kill_lease(su, m)
    assert done(w, L, {1: DONE})["status"] == 409
    w.sweep(500)
    assert rows_of(su, m) == [UNCERTAIN] and state(su, m)[0] == 11
    su.cursor().execute("UPDATE d.send_q SET due_at = now()")
    assert claim(w, m) == []
    # A person says what happened; sending again is his word too.
    r = call1(w.rv, "uncertain_1", s=w.root, mid=m["mid"], ix=[1],
              outcome="retry", note="asked them")
    assert r["state"] == 9
    L, = claim(w, m)
    attempt(w, L)
    assert dot(w, L)["go"]
    assert done(w, L, {1: UNCERTAIN})["state"] == 11
    assert call1(w.rv, "uncertain_1", s=w.root, mid=m["mid"], ix=[1],
                 outcome="sent", note=None)["state"] == 8


def test_retry_once_may_duplicate(w, x, su):
    su.cursor().execute("UPDATE d.inbox SET may_duplicate = true "
                        "WHERE inbox_id = %s", (x.inbox,))
    m = approved(w, x)
    attempt(w, claim(w, m)[0])  # a host that only said later is no dot
    due_now(su, m, "lease_until")
    recovered(w)
    for want, known in ((LATER, None), (UNCERTAIN, "1 mx.example")):
        due_now(su, m)
        L, = claim(w, m)
        assert call1(w.wk, "fetch_1", **L)["same_mx"] == known
        attempt(w, L)
        assert dot(w, L)["go"]
        assert done(w, L, {1: UNCERTAIN})["status"] == 200
        assert rows_of(su, m) == [want]
        if want == LATER:
            assert in_a_quarter(su, m)


def due_now(su, m, column="due_at"):
    su.cursor().execute("UPDATE d.send_q SET %s = now() WHERE message_id "
                        "= %%s" % column, (m["mid"],))


def recovered(w):
    while [r for r in call(w.wk, "sweep_1", lim=100) if r["more"]]:
        pass


def in_a_quarter(su, m):
    """Of an hour, not at once: what was lost may be found by then."""
    return one(su, "SELECT due_at > now() + interval '14 min' FROM d.send_q "
               "WHERE message_id = %s", m["mid"])


def test_retry_once_after_a_lost_worker(w, x, su):
    su.cursor().execute("UPDATE d.inbox SET may_duplicate = true "
                        "WHERE inbox_id = %s", (x.inbox,))
    m = approved(w, x)
    L, = claim(w, m)
    attempt(w, L)
    assert done(w, L, {1: LATER})["state"] == 9  # greylisted, say
    for want in (LATER, UNCERTAIN):
        due_now(su, m)
        L, = claim(w, m)
        attempt(w, L)
        assert dot(w, L)["go"]
        due_now(su, m, "lease_until")
        recovered(w)
        assert rows_of(su, m) == [want]
        if want == LATER:
            assert in_a_quarter(su, m)
            assert one(su, "SELECT unsure_mx FROM d.delivery WHERE "
                       "message_id = %s", m["mid"]) == "mx.example"


def unsure(w, x, su):
    """Leased once more, after a dot at mx.example without a reply."""
    su.cursor().execute("UPDATE d.inbox SET may_duplicate = true "
                        "WHERE inbox_id = %s", (x.inbox,))
    m = approved(w, x, ["a@x.example", "b@x.example"])
    L, = claim(w, m)
    attempt(w, L, (1, 2))
    assert dot(w, L, (1,))["go"]
    assert done(w, L, {1: UNCERTAIN, 2: LATER})["status"] == 200
    due_now(su, m)
    return m, claim(w, m)[0]


@pytest.mark.parametrize("host,go", [
    ("mx2.example", False), (None, False), ("", False), ("x.mx.example", False),
    ("mx.example", True), ("MX.Example", True), ("mx.example.", True)])
def test_the_last_gate_knows_the_host(w, x, su, host, go):
    """Decision 0102, whatever the worker thinks."""
    m, L = unsure(w, x, su)
    attempt(w, L)
    r = dot(w, L, host=host)
    assert (r["status"], r["go"], r["reason"]) == (
        200, go, None if go else "host")
    if go:
        assert rows_of(su, m) == [DOT, LATER]
        return
    assert rows_of(su, m) == [PENDING, LATER]
    assert one(su, "SELECT dot_at FROM d.attempt WHERE message_id = %s "
               "ORDER BY n DESC LIMIT 1", m["mid"]) is None
    assert '"reason" : "host"' in one(
        su, "SELECT detail FROM d.audit WHERE message_id = %s "
        "AND event = 'dot.refused'", m["mid"])
    # Nobody else waits for that host; the lease goes on.
    assert dot(w, L, (2,), host=host)["go"]
    assert done(w, L, {1: LATER, 2: DONE})["status"] == 200
    assert rows_of(su, m) == [LATER, DONE]


@pytest.mark.parametrize("rule,go", [
    (("*", "r", "Hub.example"), True), (("x.example", "r", "hub.example"), True),
    (("*", "r", "other.example"), False), (("y.example", "r", "hub.example"), False),
    (("*", "t", None), False)])
def test_the_last_gate_knows_who_was_named(w, x, su, rule, go):
    """Who names another host knows why."""
    m, L = unsure(w, x, su)
    attempt(w, L)
    su.cursor().execute(
        "INSERT INTO d.route (tenant_id, inbox_id, domain, action, host, port,"
        " reason, created_by) VALUES (%s, 0, %s, %s, %s, %s, 'r', 'op')",
        (x.tenant, *rule, 25 if rule[2] else None))
    try:
        assert dot(w, L, host="hub.example")["go"] is go
    finally:
        su.cursor().execute("UPDATE d.route SET ended_at = now()")
    assert rows_of(su, m) == [DOT if go else PENDING, LATER]


def test_no_retry_when_the_time_is_over(w, x, su):
    """What may have arrived is no failure: a person looks at once."""
    su.cursor().execute("UPDATE d.inbox SET may_duplicate = true "
                        "WHERE inbox_id = %s", (x.inbox,))
    for end in ("done", "lost"):
        m = approved(w, x)
        L, = claim(w, m)
        attempt(w, L)
        assert dot(w, L)["go"]
        su.cursor().execute(
            "UPDATE d.send_q SET give_up_at = now() + interval '10 min' "
            "WHERE message_id = %s", (m["mid"],))
        if end == "done":
            assert done(w, L, {1: UNCERTAIN})["state"] == 11
        else:
            due_now(su, m, "lease_until")
            recovered(w)
        assert rows_of(su, m) == [UNCERTAIN]


def test_each_host_has_its_own_end(w, x, su):
    """What one host was told is not said of another."""
    m = approved(w, x)
    L, = claim(w, m)
    for mx in ("one.example", "two.example"):
        assert call1(w.wk, "attempt_1", mx=mx, tls="", ix=[1], **L)["go"]
    assert dot(w, L)["go"]
    assert done(w, L, {1: DONE})["state"] == 8
    cur = su.cursor()
    cur.execute("SELECT mx, dot_at IS NOT NULL, result = 'mx' FROM d.attempt "
                "WHERE message_id = %s ORDER BY n", (m["mid"],))
    assert cur.fetchall() == [("one.example", False, False),
                              ("two.example", True, True)]


def test_giving_up(w, x, su):
    m = approved(w, x)
    su.cursor().execute("UPDATE d.send_q SET give_up_at = now() "
                        "+ interval '30 s' WHERE message_id = %s",
                        (m["mid"],))
    L, = claim(w, m)
    attempt(w, L)
    r = done(w, L, {1: LATER}, retry=60)
    assert (r["state"], r["more"]) == (10, False)
    assert rows_of(su, m) == [FAILED]


def test_integrity_failure_can_only_be_rejected(w, x, su):
    m = approved(w, x)
    L, = claim(w, m)
    assert call1(w.wk, "integrity_1", why="digest", **L)["status"] == 200
    assert state(su, m) == (1, 2, "digest")
    assert w.approve(m, round=2)["code"] == "state_conflict"
    r = call1(w.rv, "review_get_1", s=w.root, mid=m["mid"], why=None)
    assert r["integrity"] == "digest" and not r["may_decide"]
    box = [r for r in call(w.rv, "review_inboxes_1", s=w.root,
                           tenant=x.tenant) if r["inbox_id"] == x.inbox]
    assert box[0]["alarm"].startswith("integrity")
    assert w.reject(m, round=2)["state"] == 3


def test_expiry_and_age(w, x, su):
    a, b = x.message(), None
    submit(w.gw, a)
    su.cursor().execute("UPDATE d.state SET hold_until = now() "
                        "WHERE message_id = %s", (a["mid"],))
    b = approved(w, x)
    su.cursor().execute("UPDATE d.send_q SET stale_at = now() "
                        "WHERE message_id = %s", (b["mid"],))
    c = x.message(not_after=int((time.time() + 3600) * 1e6))
    submit(w.gw, c)
    r = call1(w.gw, "my_get_1", t=x.tenant, k=x.send_key, a=x.send_a,
              mid=c["mid"])
    assert abs(r["hold_until"].timestamp() * 1e6 - c["not_after"]) < 1000
    w.sweep(500)
    assert state(su, a)[0] == 4
    assert state(su, b)[:2] == (1, 2)
    assert state(su, c)[0] == 1
    assert w.approve(a)["code"] == "state_conflict"


def test_counters_are_taken_in_one_order(db, w, su):
    """Who waits for one inbox holds none that comes after it."""
    w.sweep()
    x, y = sorted(w.inboxes[:2], key=lambda i: (i.tenant, i.inbox))
    for late, inbox in enumerate((x, y)):
        m = inbox.message()
        submit(w.gw, m)
        su.cursor().execute(
            "UPDATE d.state SET hold_until = now() - %s * interval '1 hour' "
            "WHERE message_id = %s", (late + 1, m["mid"]))
    counter = "SELECT held FROM d.quota WHERE tenant_id = %s AND " \
        "inbox_id = %s FOR UPDATE NOWAIT"
    batch = db.connect("postgres", autocommit=False)
    batch.cursor().execute(counter, (x.tenant, x.inbox))
    c = db.connect("l_worker")
    pid = c.get_backend_pid()
    sweep = threading.Thread(target=lambda: w.sweep(100, c))
    sweep.start()
    until = time.monotonic() + 20
    while not one(su, "SELECT count(*) FROM pg_locks WHERE pid = %s "
                  "AND NOT granted", pid):
        assert time.monotonic() < until and sweep.is_alive()
    batch.cursor().execute(counter, (y.tenant, y.inbox))
    batch.commit()
    sweep.join(20)
    assert not sweep.is_alive()
    for s in (c, batch):
        s.close()


def test_one_poisoned_row_stops_nobody(db, w, x, su):
    """A row that another transaction holds is skipped by claim and sweep."""
    a, b = approved(w, x), approved(w, x)
    lock = db.connect("postgres", autocommit=False)
    lock.cursor().execute("SELECT 1 FROM d.state WHERE message_id = %s "
                          "FOR UPDATE", (a["mid"],))
    c = db.connect("l_worker")
    c.cursor().execute("SET lock_timeout = '3s'")
    got = {q["message_id"] for q in call(c, "claim_due_1", worker="w",
                                         lim=500, lease_seconds=60)}
    assert b["mid"] in got and a["mid"] not in got
    w.sweep(100, c)
    lock.rollback()
    got = {q["message_id"] for q in call(c, "claim_due_1", worker="w",
                                         lim=500, lease_seconds=60)}
    assert a["mid"] in got
    for s in (c, lock):
        s.close()


def test_no_tenant_waits_behind_anothers_flood(w, su):
    """Fair stamps: a big flood lets another tenant's later mail go first."""
    alone(su)
    a, b = w.inboxes[0], w.inboxes[2]
    flood = [approved(w, a, size=52428800) for _ in range(8)]
    late = approved(w, b)
    got = {q["message_id"] for q in call(w.wk, "claim_due_1", worker="w",
                                         lim=3, lease_seconds=60)}
    assert late["mid"] in got
    assert got < {m["mid"] for m in flood + [late]}
