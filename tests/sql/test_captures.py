# SPDX-License-Identifier: ISC
"""Mail of a test inbox: the whole way, and then into a store; never out."""
import os

import psycopg2
import pytest

from pgcluster import call, call1, sha256, submit
from test_gate import one, state
from test_relay import (DONE, LISTED, PENDING, SENDING, approved, claim, dot,
                        mail, rows_of)
from test_sets import attempts, dots


@pytest.fixture()
def probe(w):
    w.count = getattr(w, "count", 0) + 1
    return w.inbox(w.tenants[0], "probe%d@t0.example" % w.count, test=True)


def capture(w, L, ix=(1,), **over):
    args = dict(ix=list(ix or []), mail_from="back@t0.example", key_epoch=1,
                sealed=os.urandom(80))
    args.update(over)
    return call1(w.wk, "capture_1", **args, **L)


def captured(w, x, m, key=None):
    k, a = key or (x.full_key, x.full_a)
    return call(w.gw, "my_captures_1", t=x.tenant, k=k, a=a, mid=m["mid"])


def test_its_keys_are_test_keys(w, probe, x, su):
    for key, a, scope in ((probe.full_key, probe.full_a, "f"),
                          (probe.send_key, probe.send_a, "s")):
        me = call1(w.gw, "auth_1", t=probe.tenant, k=key, a=a, handle=None)
        assert (me["kind"], me["scope"], me["test"]) == ("t", scope, True)
    # and no other can be made for it, nor such a one for another inbox
    cur = su.cursor()
    for box, kind in ((probe, "l"), (x, "t")):
        with pytest.raises(psycopg2.errors.CheckViolation):
            cur.execute("INSERT INTO d.credential (tenant_id, inbox_id, kind,"
                        " scope, auth_sha256, lineage) VALUES (%s, %s, %s, "
                        "'s', %s, 0)", (box.tenant, box.inbox, kind,
                                        sha256(b"x")))
        with pytest.raises(psycopg2.errors.CheckViolation):
            cur.execute("UPDATE d.inbox SET test = NOT test "
                        "WHERE inbox_id = %s", (box.inbox,))


def test_its_sessions_are_of_a_test_inbox_too(w, probe):
    a = os.urandom(32)
    r = call1(w.gw, "run_create_1", t=probe.tenant, k=probe.full_key,
              a=probe.full_a, auth=sha256(a), seconds=60, run=None,
              sandbox_id=None, template=None, purpose=None,
              recipients=["b@x.example"], domains=[], max_messages=5,
              attachments=False, doors="r")
    assert r["status"] == 200, r
    me = call1(w.gw, "auth_1", t=probe.tenant, k=r["key_id"], a=a,
               handle=None)
    assert (me["kind"], me["test"]) == ("s", True)
    m = probe.message(key=(r["key_id"], a))
    assert submit(w.gw, m)["status"] == 202
    assert w.approve(m)["state"] == 2
    L, = claim(w, m)
    assert mail(w, L)["status"] == 409
    assert capture(w, L)["go"]


def test_the_whole_way_and_then_into_the_store(w, probe, su):
    m = approved(w, probe, ["a@x.example", "b@x.example", "c@y.example"])
    L1, L2 = claim(w, m)
    assert call1(w.wk, "fetch_1", **L1)["test"]
    got = capture(w, L1, (1, 2))
    assert (got["status"], got["go"], got["reason"]) == (200, True, None)
    assert rows_of(su, m) == [DONE, DONE, PENDING]
    assert state(su, m)[0] == 7
    assert capture(w, L2, (3,), mail_from="v@t0.example")["go"]
    assert state(su, m)[0] == 8
    assert one(su, "SELECT count(*) FROM d.send_q WHERE message_id = %s",
               m["mid"]) == 0
    rows = captured(w, probe, m)
    assert [(r["n"], r["domain"], r["rcpts"], r["mail_from"])
            for r in rows] == [
        (1, "x.example", "a@x.example\nb@x.example", "back@t0.example"),
        (2, "y.example", "c@y.example", "v@t0.example")]
    assert all(len(r["box"]) == 80 and r["wrapped"] for r in rows)
    # a lease that is over captures nothing twice
    assert capture(w, L1, (1, 2))["status"] == 409
    assert len(captured(w, probe, m)) == 2
    assert one(su, "SELECT count(*) FROM d.audit WHERE message_id = %s AND "
               "event = 'message.captured' AND zone = 'p_relay'",
               m["mid"]) == 2


def test_who_may_read_it(w, probe, x):
    m = approved(w, probe)
    L, = claim(w, m)
    assert capture(w, L)["go"]
    for who, key, want in (
            (probe, (probe.send_key, probe.send_a), 403),
            (probe, (probe.full_key, os.urandom(32)), 401),
            (x, (x.full_key, x.full_a), 404),
            (w.inboxes[3], (w.inboxes[3].full_key, w.inboxes[3].full_a),
             404)):
        rows = captured(w, who, m, key)
        assert [r["status"] for r in rows] == [want]
        assert rows[0]["box"] is None and rows[0]["rcpts"] is None


def test_the_database_lets_no_worker_send_it(w, probe, su):
    """Whatever a worker thinks of it."""
    m = approved(w, probe)
    L, = claim(w, m)
    assert mail(w, L)["status"] == 409
    assert attempts(w, [L]) == set()
    assert rows_of(su, m) == [PENDING]
    # as if it had been marked: no dot leaves
    cur = su.cursor()
    cur.execute("SET session_replication_role = replica")
    cur.execute("UPDATE d.delivery SET status = 1 WHERE message_id = %s",
                (m["mid"],))
    cur.execute("RESET session_replication_role")
    assert rows_of(su, m) == [SENDING]
    got = dot(w, L)
    assert (got["status"], got["go"], got["reason"]) == (409, False, "test")
    assert dots(w, [L]) == set()
    assert rows_of(su, m) == [PENDING]
    assert capture(w, L)["go"]


def test_no_other_mail_is_captured(w, x, su):
    m = approved(w, x)
    L, = claim(w, m)
    got = capture(w, L)
    assert (got["status"], got["go"], got["reason"]) == (409, False, "test")
    assert rows_of(su, m) == [PENDING]
    assert captured(w, x, m) == []


@pytest.mark.parametrize("why,before", [
    ("paused", "UPDATE d.inbox SET paused_at = now() WHERE inbox_id = %s"),
    ("suspended",
     "UPDATE d.inbox SET suspended_at = now() WHERE inbox_id = %s"),
    ("list", "INSERT INTO d.list_entry (tenant_id, inbox_id, entry, verdict, "
     "reason, created_by) SELECT tenant_id, inbox_id, 'b@x.example', 'b', "
     "'r', 't' FROM d.inbox WHERE inbox_id = %s"),
])
def test_the_last_gate_is_asked(w, probe, su, why, before):
    m = approved(w, probe)
    L, = claim(w, m)
    su.cursor().execute(before, (probe.inbox,))
    got = capture(w, L)
    assert (got["status"], got["go"], got["reason"]) == (200, False, why)
    assert one(su, "SELECT count(*) FROM d.capture WHERE message_id = %s",
               m["mid"]) == 0
    assert rows_of(su, m) == [LISTED if why == "list" else 4]


def test_what_is_no_capture(w, probe, su):
    m = approved(w, probe, ["a@x.example", "c@y.example"])
    L, _ = claim(w, m)
    for over in (dict(ix=[2]), dict(ix=[]), dict(ix=[1, 9]), dict(ix=None),
                 dict(sealed=b"short"), dict(sealed=b"x" * 65537),
                 dict(sealed=None), dict(key_epoch=None),
                 dict(mail_from=None), dict(mail_from="x" * 1001)):
        got = capture(w, L, **over)
        assert (got["status"], got["go"]) == (422, False), over
    assert rows_of(su, m) == [PENDING, PENDING]
    assert capture(w, L)["go"]


def test_what_may_be_said_of_it(w, probe, su):
    """Why it waits, without a host; that changes nothing of what may leave."""
    m = approved(w, probe)
    L, = claim(w, m)
    got = call1(w.wk, "attempt_1", mx="none", tls="", ix=[1], **L)
    assert (got["status"], got["go"]) == (200, True)
    assert dot(w, L)["reason"] == "test"
    assert capture(w, L)["go"]


@pytest.mark.parametrize("why", [None, "paused", "suspended"])
def test_both_gates_know_a_test_inbox_first(w, probe, su, why):
    """One rule (d.gate_why): whatever else keeps it back, mail, dot and the
    sets of both say no, and none of them changes its state."""
    m = approved(w, probe)
    L, = claim(w, m)
    if why:
        su.cursor().execute("UPDATE d.inbox SET %s_at = now() WHERE inbox_id "
                            "= %%s" % why, (probe.inbox,))
    for asked in (lambda: mail(w, L), lambda: dot(w, L)):
        got = asked()
        assert (got["status"], got["go"], got["reason"]) == (
            409, False, "test"), got
    assert attempts(w, [L]) == set() and dots(w, [L]) == set()
    assert rows_of(su, m) == [PENDING] and state(su, m)[0] == 7


def test_the_rule_stands_once(su):
    """No function of the worker's asks inbox.test but the gate's reason, and
    the claim, which says what is a test's."""
    cur = su.cursor()
    cur.execute("SELECT p.proname FROM pg_proc p JOIN pg_namespace n "
                "ON n.oid = p.pronamespace WHERE n.nspname IN ('d', 'api') "
                "AND pg_get_userbyid(p.proowner) = 'p_relay' "
                "AND p.prosrc ~ '\\m[a-z]\\)?\\.test\\M' ORDER BY 1")
    assert [r[0] for r in cur.fetchall()] == [
        "claim_again", "claim_due_1", "claim_others", "fetch_1", "fetches_1", "gate_why"]
