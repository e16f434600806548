# SPDX-License-Identifier: ISC
"""Nothing is released but by a vote or a mode; forged rows go nowhere."""
import ast
import os
import re
import time

import psycopg2
import psycopg2.extras
import pytest

from pgcluster import (call, call1, digest_1, sha256, submit, submit_batch,
                       uuid7)

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))


def tag(hours=1):
    return dict(relay_box=b"r" * 200, tag=b"g" * 32,
                expiry=int((time.time() + hours * 3600) * 1e6))


def state(su, m):
    cur = su.cursor()
    cur.execute("SELECT state, round, integrity FROM d.state "
                "WHERE message_id = %s", (m["mid"],))
    return cur.fetchone()


def one(su, sql, *args):
    cur = su.cursor()
    cur.execute(sql, args)
    return cur.fetchone()[0]


class Zone:
    """A session of a superuser who took a zone's role and its settings."""

    def __init__(self, db, role, x, m=None, session=None):
        self.c = db.connect("postgres", autocommit=True)
        self.cur = self.c.cursor()
        self.cur.execute("SET ROLE %s" % role)
        for k, v in (("boxes", "{%d.%d}" % (x.tenant, x.inbox)),
                     ("tenants", "{%d}" % x.tenant),
                     ("msg", str(m["mid"]) if m else ""),
                     ("actor", "op:1")):
            self.cur.execute("SELECT set_config('postern.' || %s, %s, false)",
                             (k, v))

    def refused(self, sql, *args):
        try:
            self.cur.execute(sql, args)
        except psycopg2.Error as e:
            assert e.pgcode in ("42501", "23514", "23503", "23505", "23001",
                                "428C9", "23502"), e
            return
        assert self.cur.rowcount == 0, (sql, self.cur.rowcount)


ZONES = ["p_submit", "p_read", "p_review", "p_relay", "p_ctl", "p_seal",
         "p_policy", "p_owner"]


@pytest.mark.parametrize("role", ZONES)
def test_a_zone_cannot_forge_its_way_out(db, w, x, su, role):
    """Even with the rights of a function's owner, in its own scope."""
    m = x.message()
    assert submit(w.gw, m)["status"] == 202
    z = Zone(db, role, x, m)
    k = (m["mid"], x.tenant, x.inbox)
    release = """INSERT INTO d.release (message_id, tenant_id, inbox_id,
        version, round, digest, by_what, mode, mode_epoch, relay_box, tag,
        expiry, not_before) VALUES (%s, %s, %s, 1, 1, %s, %s, %s, %s, %s, %s,
        1, now())"""
    z.refused(release, *k, m["dig"], "o", None, None, b"r" * 60, b"g" * 32)
    z.refused(release, *k, m["dig"], "m", 4, 1, b"r" * 60, b"g" * 32)
    z.refused(release, *k, m["dig"], "r", 2, 1, b"r" * 60, b"g" * 32)
    z.refused("""INSERT INTO d.send_q (message_id, tenant_id, inbox_id,
        domain, version, round, digest, vt, due_at, give_up_at, stale_at)
        VALUES (%s, %s, %s, 'x.example', 1, 1, %s, 0, now(), now(), now())""",
              *k, m["dig"])
    z.refused("""INSERT INTO d.delivery (message_id, tenant_id, inbox_id, ix,
        domain, canon, status) VALUES (%s, %s, %s, 1, 'e', 'e', 3)""", *k)
    for st in (2, 6, 7, 8, 9, 10, 11):
        z.refused("UPDATE d.state SET state = %s WHERE message_id = %s", st,
                  m["mid"])
    z.refused("UPDATE d.state SET round = 2 WHERE message_id = %s", m["mid"])
    z.refused("UPDATE d.message SET rcpt = '{e@e.example}' "
              "WHERE message_id = %s", m["mid"])
    z.refused("UPDATE d.body SET data = 'x' WHERE message_id = %s", m["mid"])
    z.refused("DELETE FROM d.message WHERE message_id = %s", m["mid"])
    z.refused("DELETE FROM d.state WHERE message_id = %s", m["mid"])
    z.refused("DELETE FROM d.audit")
    z.refused("UPDATE d.audit SET actor = 'policy'")
    z.refused("TRUNCATE d.audit")
    z.refused("INSERT INTO d.audit (tenant_id, actor, event, zone) "
              "VALUES (1, 'policy', 'x.y', 'p_review')")
    z.refused("INSERT INTO d.audit (tenant_id, actor, event, at) "
              "VALUES (1, 'policy', 'x.y', now())")
    if role != "p_review":
        z.refused("""INSERT INTO d.decision (message_id, tenant_id, inbox_id,
            version, round, operator_id, verdict, digest)
            VALUES (%s, %s, %s, 1, 1, 1, 'a', %s)""", *k, m["dig"])
    if role not in ("p_review",):
        z.refused("UPDATE d.inbox SET mode = 4 WHERE inbox_id = %s", x.inbox)
    assert state(su, m)[:2] == (1, 1)
    assert one(su, "SELECT count(*) FROM d.send_q WHERE message_id = %s",
               m["mid"]) == 0
    z.c.close()


@pytest.mark.parametrize("role", ["p_submit", "p_read", "p_review",
                                  "p_relay"])
def test_a_zone_sees_only_its_scope(db, w, x, su, role):
    """Rights of the zone, settings of another inbox: no foreign row."""
    other = w.inboxes[2]
    m = x.message()
    assert submit(w.gw, m)["status"] == 202
    z = Zone(db, role, other, None)
    for t in ("message", "body", "release", "decision", "quota"):
        try:
            z.cur.execute("SELECT count(*) FROM d.%s WHERE tenant_id = %%s"
                          % t, (x.tenant,))
            assert z.cur.fetchone()[0] == 0, t
        except psycopg2.errors.InsufficientPrivilege:
            pass
    if role == "p_submit":
        z.refused("""INSERT INTO d.state (message_id, tenant_id, inbox_id,
            version, state, risk, hold_until) VALUES (%s, %s, %s, 1, 1, 0,
            now())""", uuid7(), x.tenant, x.inbox)
        z.refused("""INSERT INTO d.body (message_id, tenant_id, inbox_id,
            version, seq, data) VALUES (%s, %s, %s, 1, 0, 'x')""", uuid7(),
                  x.tenant, x.inbox)
        # The pair counts, not the tenant and the inbox each.
        z.refused("""INSERT INTO d.body (message_id, tenant_id, inbox_id,
            version, seq, data) VALUES (%s, %s, %s, 1, 0, 'x')""", uuid7(),
                  other.tenant, x.inbox)
    z.cur.execute("RESET postern.boxes")
    z.c.close()


def test_a_superuser_is_stopped_by_the_keys(db, w, x):
    """Triggers off, as only a superuser can: the keys still bind."""
    m = x.message()
    assert submit(w.gw, m)["status"] == 202
    c = db.connect("postgres")
    cur = c.cursor()

    def refused(sql, *args):
        try:
            cur.execute(sql, args)
        except psycopg2.Error:
            return True
        return False
    # Another recipient under the same digest, or a wrong digest.
    assert refused("UPDATE d.message SET rcpt = '{e@e.example}' "
                   "WHERE message_id = %s", m["mid"])
    cur.execute("ALTER TABLE d.message DISABLE TRIGGER frozen")
    try:
        assert refused("UPDATE d.message SET rcpt = '{e@e.example}' "
                       "WHERE message_id = %s", m["mid"])
        assert refused("UPDATE d.message SET digest = sha256('x') "
                       "WHERE message_id = %s", m["mid"])
    finally:
        cur.execute("ALTER TABLE d.message ENABLE TRIGGER frozen")
    for st in (2, 7, 8):
        assert refused("UPDATE d.state SET state = %s WHERE message_id = %s",
                       st, m["mid"])
    assert refused("""INSERT INTO d.send_q (message_id, tenant_id, inbox_id,
        domain, version, round, digest, vt, due_at, give_up_at, stale_at)
        VALUES (%s, %s, %s, 'x.example', 1, 1, %s, 0, now(), now(), now())""",
                   m["mid"], x.tenant, x.inbox, m["dig"])
    assert refused("""INSERT INTO d.decision (message_id, tenant_id, inbox_id,
        version, round, operator_id, verdict, digest)
        VALUES (%s, %s, %s, 1, 1, 1, 'a', sha256('x'))""", m["mid"],
                   x.tenant, x.inbox)
    # Approved, then altered under the approval.
    assert w.approve(m)["state"] == 2
    cur.execute("ALTER TABLE d.message DISABLE TRIGGER frozen")
    try:
        d2 = digest_1(x.tenant, x.inbox, m["mid"], 1, False, x.address,
                      ["e@e.example"], "", m["size"], m["body_tag"])
        assert refused("UPDATE d.message SET rcpt = '{e@e.example}', "
                       "digest = %s WHERE message_id = %s", d2, m["mid"])
    finally:
        cur.execute("ALTER TABLE d.message ENABLE TRIGGER frozen")
    # Undo, round and version cannot pass a living queue row.
    assert refused("UPDATE d.state SET state = 1, round = 2 "
                   "WHERE message_id = %s", m["mid"])
    c.close()


def test_digest_is_the_same_in_sql_and_python(su, w):
    cur = su.cursor()
    for n in range(50):
        rcpts = sorted({"r%d@é%d.example" % (i, n) for i in range(n + 1)},
                       key=lambda r: r.encode())
        mid, t = uuid7(), sha256(b"%d" % n)
        args = (n + 1, n * 7 + 1, mid, n + 1, n % 2 == 1, "bot@ü.example",
                rcpts, "RET=HDRS\n" if n % 3 else "", n ** 5, t, n * 11,
                n * 13)
        cur.execute("SELECT d.digest_1(%s, %s, %s, %s::smallint, %s, %s, %s, "
                    "%s, %s, %s, %s, %s)", args)
        assert bytes(cur.fetchone()[0]) == digest_1(*args), n


def test_approve_names_the_bytes(w, x, su):
    m = x.message(["a@x.example", "b@y.example"])
    submit(w.gw, m)
    assert w.approve(m, dig=sha256(b"other"))["code"] == "digest_mismatch"
    assert w.approve(m, version=2)["code"] == "state_conflict"
    assert w.approve(m, round=2)["code"] == "state_conflict"
    for over in (dict(relay_box=None), dict(tag=None), dict(expiry=None),
                 dict(tag=b"short"), dict(expiry=1), dict(verdict="x"),
                 dict(undo_seconds=121), dict(verdict=None), dict(hint="x"),
                 dict(expiry=int((time.time() + 73 * 3600) * 1e6))):
        assert w.approve(m, **over)["code"] == "validation_error", over
    assert w.approve(m, verdict="r")["code"] == "validation_error"
    assert state(su, m)[0] == 1
    idem = os.urandom(16)
    r = w.approve(m, idem=idem, undo=60)
    assert (r["status"], r["state"]) == (200, 2) and r["undo_until"]
    r2 = w.approve(m, idem=idem, undo=60)
    assert r2["replay"] and r2["undo_until"] == r["undo_until"]
    assert w.approve(m)["code"] == "state_conflict"
    assert w.reject(m)["code"] == "state_conflict"
    assert m["mid"] not in {q["message_id"] for q in call(
        w.wk, "claim_due_1", worker="w", lim=500, lease_seconds=60)}
    assert state(su, m)[0] == 2
    # The same key for another round is no repetition: it is decided anew.
    assert call1(w.rv, "undo_1", s=w.root, mid=m["mid"], for_version=1,
                 for_round=1)["state"] == 1
    assert w.approve(m, round=1, idem=idem)["replay"]
    r3 = w.approve(m, round=2, idem=idem, undo=60)
    assert (r3["status"], r3["state"], r3["replay"]) == (200, 2, False)


def test_undo_and_again(w, x, su):
    m = x.message()
    submit(w.gw, m)
    assert w.approve(m, undo=60)["state"] == 2
    r = call1(w.rv, "undo_1", s=w.root, mid=m["mid"], for_version=1,
              for_round=1)
    assert (r["state"], r["round"]) == (1, 2)
    assert state(su, m)[:2] == (1, 2)
    assert one(su, "SELECT count(*) FROM d.send_q WHERE message_id = %s",
               m["mid"]) == 0
    # The old round's approval is worth nothing now.
    assert w.approve(m, round=1)["code"] == "state_conflict"
    assert call1(w.rv, "undo_1", s=w.root, mid=m["mid"], for_version=1,
                 for_round=2)["code"] == "state_conflict"
    assert w.approve(m, round=2)["state"] == 2
    types = [e["type"] for e in call(
        w.gw, "my_events_1", t=x.tenant, k=x.send_key, a=x.send_a,
        mid=m["mid"])]
    assert types == ["message.held", "message.approved", "message.undone",
                     "message.approved"]


def test_reject_tells_the_agent_why(w, x):
    m = x.message()
    submit(w.gw, m)
    assert w.reject(m, category="wrong_recipient", note="Ask Bo.",
                    hint="ask_human")["state"] == 3
    r = call1(w.gw, "my_get_1", t=x.tenant, k=x.send_key, a=x.send_a,
              mid=m["mid"])
    assert (r["state"], r["verdict"], r["category"], r["note"], r["hint"]) \
        == (3, "r", "wrong_recipient", "Ask Bo.", "ask_human")
    assert w.approve(m)["code"] == "state_conflict"
    assert call1(w.gw, "cancel_1", t=x.tenant, k=x.send_key, a=x.send_a,
                 mid=m["mid"])["status"] == 409


def test_two_persons(w, su):
    s1 = w.operator("first", "senior")
    s2 = w.operator("second", "reviewer")
    t = w.tenants[1]
    y = w.inboxes[3]
    assert call1(w.ctl, "tenant_set_1", s=w.root, uid=0, tenant=t,
                 need_approvals=2, hold_seconds=None,
                 disabled=None)["status"] == 200
    m, n = y.message(), y.message()
    submit(w.gw, m)
    submit(w.gw, n)
    w.step_up(w.root)
    assert call1(w.ctl, "tenant_set_1", s=w.root, uid=0, tenant=t,
                 need_approvals=1, hold_seconds=None,
                 disabled=None)["status"] == 200
    # What was asked at submission stays asked.
    r = w.approve(m, s1)
    assert (r["status"], r["approvals"], r["need"]) == (202, 1, 2)
    assert w.approve(m, s1)["code"] == "second_approval_needed"
    assert state(su, m)[0] == 1
    r = w.approve(m, s2)
    assert (r["status"], r["state"]) == (200, 2)
    # One no is enough.
    assert w.approve(n, s1)["status"] == 202
    assert w.reject(n, s2)["state"] == 3


def test_high_risk_needs_rank_and_step_up(w, x):
    s = w.operator("capped", "reviewer", tenant=x.tenant)
    sen = w.operator("sen", "senior", tenant=x.tenant)
    m = x.message(risk=80)
    submit(w.gw, m)
    assert w.approve(m, s)["code"] == "missing_permission"
    assert w.approve(m, sen)["code"] == "step_up_required"
    w.step_up(sen, "sen")
    assert w.approve(m, sen)["state"] == 2


def test_modes_are_the_databases_to_judge(w, x, su):
    """The gateway may offer a tag; only the inbox's mode lets it count."""
    t4 = dict(tag(), tag_mode=4, tag_mode_epoch=1)
    m = x.message(**t4)
    assert submit(w.gw, m)["state"] == 1
    e = w.mode(x, 4)
    for over in (dict(tag_mode_epoch=e - 1), dict(tag_mode=3),
                 dict(tag=None), dict(relay_box=None),
                 dict(expiry=int(time.time() * 1e6)),
                 dict(expiry=int((time.time() + 99 * 3600) * 1e6))):
        args = dict(t4, tag_mode_epoch=e)
        args.update(over)
        assert submit(w.gw, x.message(**args))["state"] == 1, over
    good = dict(t4, tag_mode_epoch=e)
    assert submit(w.gw, x.message(**good))["state"] == 2
    r = submit(w.gw, x.message(**dict(good, limiter=False)))
    assert (r["status"], r["code"]) == (503, "limiter_unavailable")
    # Held mail goes on without the limiter.
    w.mode(x, 2)
    r = submit(w.gw, x.message(limiter=False))
    assert (r["status"], r["state"]) == (202, 1)
    # Three kinds of pause, each makes new mail wait, and it stays waiting.
    e = w.mode(x, 3)
    good = dict(tag(), tag_mode=3, tag_mode_epoch=e)
    for level in ((x.tenant, x.inbox), (x.tenant, None), (None, None)):
        p = dict(s=w.root, tenant=level[0], inbox=level[1], reason="test")
        assert call1(w.rv, "pause_1", paused=True, **p)["status"] == 200
        m = x.message(**good)
        r = submit(w.gw, m)
        assert (r["state"], r["reasons"]) == (1, "paused"), level
        assert call1(w.rv, "pause_1", paused=False, **p)["status"] == 200
        assert state(su, m)[0] == 1
    assert submit(w.gw, x.message(**good))["state"] == 2
    # read_only refuses.
    w.mode(x, 0)
    r = submit(w.gw, x.message())
    assert (r["status"], r["code"]) == (403, "inbox_read_only")


def test_looser_needs_step_up_reason_and_rank(w, x):
    s = w.operator("rev%d" % x.inbox, "reviewer", tenant=x.tenant)
    n = "sn%d" % x.inbox
    sen = w.operator(n, "senior", tenant=x.tenant)
    a = dict(tenant=x.tenant, inbox=x.inbox, to_mode=4)
    assert call1(w.rv, "mode_set_1", s=s, reason="r", **a)[
        "code"] == "missing_permission"
    assert call1(w.rv, "mode_set_1", s=sen, reason="r", **a)[
        "code"] == "step_up_required"
    w.step_up(sen, n)
    assert call1(w.rv, "mode_set_1", s=sen, reason=" ", **a)[
        "code"] == "validation_error"
    assert call1(w.rv, "mode_set_1", s=sen, reason="r", **a)["mode"] == 4
    # A reviewer may tighten, at once.
    assert call1(w.rv, "mode_set_1", s=s, reason="r", tenant=x.tenant,
                 inbox=x.inbox, to_mode=1)["mode"] == 1


def test_a_mode_never_releases_what_is_held(w, x, su):
    m = x.message()
    submit(w.gw, m)
    w.mode(x, 4)
    w.sweep(100)
    assert state(su, m)[0] == 1


def test_lists_refuse(w, x):
    m = lambda: x.message(["Bad@X.Example"])  # noqa: E731
    assert submit(w.gw, m())["status"] == 202
    r = call1(w.rv, "list_set_1", s=w.root, tenant=x.tenant, inbox=x.inbox,
              entry="bad@x.example", verdict="b", expires=None, reason="r")
    assert r["status"] == 200
    assert submit(w.gw, m())["code"] == "message_rejected"
    # Needless quotes do not get around it.
    assert submit(w.gw, x.message(['"bad"@x.example']))[
        "code"] == "message_rejected"
    assert submit(w.gw, w.inboxes[0].message(["bad@x.example"]))[
        "status"] == 202
    w.step_up(w.root)
    assert call1(w.rv, "list_remove_1", s=w.root, entry_id=r["entry_id"],
                 reason="r")["status"] == 200
    assert submit(w.gw, m())["status"] == 202


def test_session_keys_wait_in_any_mode(w, x, su):
    """A session key's mail is held until an operator opens the session."""
    e = w.mode(x, 4)
    a = os.urandom(32)
    cur = su.cursor()
    cur.execute("INSERT INTO d.credential (tenant_id, inbox_id, kind, scope, "
                "auth_sha256, lineage, parent_key) VALUES (%s, %s, 's', 's', "
                "%s, 0, %s) RETURNING key_id",
                (x.tenant, x.inbox, sha256(a), x.send_key))
    k = cur.fetchone()[0]
    good = dict(tag(), tag_mode=4, tag_mode_epoch=e)
    # Without a policy nothing is allowed.
    assert submit(w.gw, x.message(key=(k, a), **good))[
        "code"] == "session_policy"
    cur.execute("INSERT INTO d.agent_session (tenant_id, inbox_id, key_id, "
                "recipients, domains, max_messages, attachments, doors) "
                "VALUES (%s, %s, %s, '{}', '{x.example}', 9, true, 'srm')",
                (x.tenant, x.inbox, k))
    assert submit(w.gw, x.message(key=(k, a), **good))["state"] == 1
    cur.execute("UPDATE d.credential SET opened_by = 1 WHERE key_id = %s",
                (k,))
    assert submit(w.gw, x.message(key=(k, a), **good))["state"] == 2
    # It dies with its parent.
    call1(w.gw, "key_revoke_1", t=x.tenant, k=x.send_key, a=x.send_a,
          which=x.send_key)
    assert submit(w.gw, x.message(key=(k, a)))["status"] == 401
    got = submit_batch(w.gw, [w.inboxes[0].message(),
                              x.message(key=(k, a))])
    assert [r["status"] for r in got] == [202, 401]


def test_a_collapsed_inbox_says_how_many_more(w, x):
    assert all(r["status"] == 202 for r in submit_batch(
        w.gw, [x.message() for _ in range(7)]))
    page = call(w.rv, "review_list_1", s=w.root, tenant=x.tenant, inbox=None,
                states=None, q=None, after_key=None, lim=200, collapse=True)
    mine = [r for r in page if r["inbox_id"] == x.inbox]
    assert len(mine) == 5 and mine[-1]["more_in_inbox"] == 2


def test_the_queue_pages_and_searches(w, x):
    want = []
    for i in range(12):
        m = x.message(["p%d@pages.example" % i], risk=(i * 37) % 74,
                      subject="Invoice %d for Ann" % i,
                      rfc_id="<n%d.%d@z>" % (i, x.inbox))
        submit(w.gw, m)
        want.append((100 - m["risk"], m["mid"]))
    want = [m for _, m in sorted(want)]
    got, after = [], None
    while True:
        page = call(w.rv, "review_list_1", s=w.root, tenant=None,
                    inbox=x.inbox, states=None, q=None, after_key=after,
                    lim=5, collapse=False)
        got += [r["message_id"] for r in page]
        if len(page) < 5:
            break
        after = page[-1]["sort_key"]
    assert got == want

    # of one band of risk, in the same order; none of it is collapsed
    risks = {r["message_id"]: r["risk"] for r in call(
        w.rv, "review_list_1", s=w.root, tenant=None, inbox=x.inbox,
        states=None, q=None, after_key=None, lim=50, collapse=False)}
    for lo, hi in ((0, 24), (25, 74), (75, 100)):
        page = call(w.rv, "review_list_1", s=w.root, tenant=None,
                    inbox=x.inbox, states=None, q=None, after_key=None,
                    lim=50, collapse=True, risk_from=lo, risk_to=hi)
        assert [r["message_id"] for r in page] == [
            m for m in want if lo <= risks[m] <= hi]

    while call1(w.rv, "search_fill_1", lim=5000)["more"]:
        pass

    def find(q):
        return {r["rcpts"] for r in call(
            w.rv, "review_list_1", s=w.root, tenant=None, inbox=x.inbox,
            states=None, q=q, after_key=None, lim=50, collapse=False)}
    assert find("P3@pages.example") == {"p3@pages.example"}
    assert len(find("@pages.example")) == 12 and find("@none.example") == set()
    assert find("invoice 7") == {"p7@pages.example"}
    assert find("<n4.%d@z>" % x.inbox) == {"p4@pages.example"}
    assert len(find(str(want[0]))) == 1
    n = call1(w.rv, "review_count_1", s=w.root, tenant=None, inbox=x.inbox,
              states=None, q=None)
    assert (n["n"], n["capped"]) == (12, False)


def test_a_state_without_its_message_goes_nowhere(db, w, x, su):
    """No key binds state to message: what counts refers to message itself."""
    m = x.message()
    assert submit(w.gw, m)["status"] == 202
    ghost = dict(m, mid=uuid7())
    Zone(db, "p_submit", x, ghost).cur.execute(
        "INSERT INTO d.state (message_id, tenant_id, inbox_id, version, "
        "state, risk, hold_until) SELECT %s, tenant_id, inbox_id, version, "
        "state, risk, hold_until FROM d.state WHERE message_id = %s",
        (ghost["mid"], m["mid"]))
    assert w.approve(ghost)["status"] in (403, 404)
    assert one(su, "SELECT count(*) FROM d.send_q WHERE message_id = %s",
               ghost["mid"]) == 0
    forged = ("INSERT INTO d.%s (message_id, tenant_id, inbox_id, version, "
              "round, digest, %s) VALUES (%%s, %%s, %%s, 1, 1, %%s, %s)")
    for table, names, values in (
            ("decision", "operator_id, verdict", "1, 'a'"),
            ("release", "by_what, relay_box, tag, expiry, not_before",
             "'o', repeat('r', 200)::bytea, repeat('g', 32)::bytea, 1, now()")):
        with pytest.raises(psycopg2.IntegrityError):
            su.cursor().execute(forged % (table, names, values), (
                ghost["mid"], x.tenant, x.inbox, m["dig"]))
    su.cursor().execute("SET session_replication_role = replica")
    su.cursor().execute("DELETE FROM d.state WHERE message_id = %s",
                        (ghost["mid"],))
    su.cursor().execute("RESET session_replication_role")


def test_addresses_are_compared_the_same_in_every_locale(su):
    """Only A to Z is folded, as in C: else one mailbox is another's."""
    with su.cursor() as cur:
        for locale in ('"default"', '"C"', '"tr-x-icu"', '"de-x-icu"'):
            cur.execute(
                "SELECT d.canon('INFO@X.IO' COLLATE {0}), "
                "d.canon('\"INFO\"@X.IO' COLLATE {0}), "
                "d.canon('\u00d6rn@X.IO' COLLATE {0}), "
                "d.domain_of('a@INFO.IO' COLLATE {0}), "
                "d.low('I' COLLATE {0})".format(locale))
            assert list(cur.fetchone()) == [
                "info@x.io", "info@x.io", "\u00d6rn@x.io", "info.io",
                "i"], locale


def test_a_mailbox_has_one_form(su):
    """However it is quoted or composed, as mail/address.c has it: else a
    block is got around by another spelling."""
    with open(os.path.join(TOP, "tests/unit/mail/test_address.c"),
              encoding="utf-8") as f:
        table = re.search(r"} addresses\[\] = {(.*?)\n};", f.read(), re.S)[1]
    # C and Python write these literals alike
    rows = [ast.literal_eval("(%s)" % re.sub(
        r"NULL.*", "None", re.sub(r"/\*.*?\*/", "", row)))
        for row in re.findall(r"\t{ (.*?) },", table, re.S)]
    rows = [[x.encode("latin-1").decode("utf-8") for x in row]
            for row in rows if row[1] is not None]
    rows += [['"\u00e9"@x.example', "\u00e9@x.example"],
             ['"\\e\u0301"@x.example', "\u00e9@x.example"],
             ['"A\\\\b"@x.example', '"a\\\\b"@x.example'],
             ['"a\\"b"@x.example', '"a\\"b"@x.example'],
             ['".a"@x.example', '".a"@x.example'],
             ['"a.b"@x.example', "a.b@x.example"]]
    assert len(rows) > 18
    with su.cursor() as cur:
        for text, form in rows:
            if "\u00fc" in text.partition("@")[2]:
                continue  # submitted as an A-label, whatever was asked for
            cur.execute("SELECT d.canon(%s), d.canon(%s)", (text, form))
            assert cur.fetchone() == (form, form), text
