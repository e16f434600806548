# SPDX-License-Identifier: ISC
"""What each login may send as SQL, and what it gets: nothing."""
import os
import time

import psycopg2
import pytest

from period import HALF_HOUR, within
from pgcluster import call, call1, sha256, submit, uuid7

LOGINS = ["l_gateway", "l_review", "l_worker", "l_ctl", "l_seal", "l_auth"]
STATEMENTS = [
    "SELECT * FROM d.message", "SELECT * FROM d.body",
    "SELECT * FROM d.credential", "SELECT * FROM d.operator_session",
    "SELECT * FROM d.tenant_key", "TABLE d.audit",
    "INSERT INTO d.decision SELECT * FROM d.decision",
    "INSERT INTO d.edge VALUES (1, 8, 'p_submit')",
    "UPDATE d.state SET state = 2", "DELETE FROM d.audit",
    "TRUNCATE d.message", "SET ROLE p_owner", "SET ROLE p_review",
    "SET SESSION AUTHORIZATION postgres",
    "SELECT d.cur_boxes()", "SELECT d.policy_releases('{1}', 'm', '{1}', "
    "ARRAY[gen_random_uuid()], '{}', '{}', '{}', '{1}')",
    "SELECT d.places_hold('{1}')",
    "DO $$ BEGIN PERFORM 1; END $$", "CREATE TEMP TABLE t (x int)",
    "CREATE TABLE api.t (x int)", "CREATE SCHEMA s",
    "CREATE FUNCTION api.f() RETURNS int LANGUAGE sql RETURN 1",
    "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql RETURN 1",
    "COPY d.message TO STDOUT", "COPY (SELECT 1) TO PROGRAM 'id'",
    "SELECT pg_read_file('PG_VERSION')", "SELECT pg_ls_dir('.')",
    "SELECT * FROM pg_stats", "SELECT * FROM pg_stat_activity",
    "SELECT * FROM pg_locks",
    "SELECT pg_terminate_backend(1)", "SELECT pg_cancel_backend(1)",
    "SELECT pg_advisory_lock(1)", "SELECT pg_notify('a', 'b')",
    "SELECT lo_create(0)", "SELECT * FROM pg_authid",
    "SELECT * FROM pg_hba_file_rules", "ALTER SYSTEM SET fsync = off",
    "SET session_replication_role = replica",
    "ALTER ROLE l_gateway SET fsync = off",
    "SELECT table_to_xml('d.message', true, true, '')",
    "SELECT query_to_xml('SELECT 1', true, true, '')",
    "CREATE EXTENSION dblink", "VACUUM d.message",
    "SELECT nextval('d.audit_n')",
]


@pytest.mark.parametrize("login", LOGINS)
def test_a_login_gets_nothing_by_sql(db, w, login):
    c = db.connect(login)
    got = []
    for sql in STATEMENTS:
        with c.cursor() as cur:
            try:
                cur.execute(sql)
                got.append(sql)
            except psycopg2.Error:
                pass
    assert got == []
    c.close()


@pytest.mark.parametrize("login", LOGINS)
def test_forged_identity_is_overwritten_and_gives_nothing(db, w, x, login):
    """Settings that name another inbox, tenant, message or actor."""
    m = x.message()
    assert submit(w.gw, m)["status"] == 202
    other = w.inboxes[3]
    c = db.connect(login)
    cur = c.cursor()
    for name, value in (("boxes", "{%d.%d}" % (x.tenant, x.inbox)),
                        ("tenants", "{%d}" % x.tenant),
                        ("msg", str(m["mid"])), ("actor", "op:1")):
        cur.execute("SELECT set_config('postern.' || %s, %s, false)",
                    (name, value))
    if login == "l_gateway":
        r = call(c, "my_get_1", t=other.tenant, k=other.full_key,
                 a=other.full_a, mid=m["mid"])
        assert r[0]["status"] == 404 and r[0]["subject"] is None
        mine = other.message()
        assert submit(c, mine)["status"] == 202
        assert call1(c, "my_get_1", t=other.tenant, k=other.full_key,
                     a=other.full_a, mid=mine["mid"])["mail_from"] \
            == other.address
        # What the session had set is back, and is still useless.
        cur.execute("SELECT current_setting('postern.boxes')")
        assert cur.fetchone()[0] == "{%d.%d}" % (x.tenant, x.inbox)
    if login == "l_review":
        r = call(c, "review_get_1", s=os.urandom(32), mid=m["mid"], why=None)
        assert [q["status"] for q in r] == [401]
        assert call(c, "review_body_1", s=None, mid=m["mid"],
                    for_version=None, from_seq=0,
                    lim=1, why=None)[0]["status"] == 401
    if login == "l_worker":
        r = call(c, "fetch_1", t=x.tenant, mid=m["mid"], dom="x.example",
                 lease=uuid7())
        assert r[0]["status"] == 409 and r[0]["digest"] is None
        assert call(c, "fetch_body_1", t=x.tenant, mid=m["mid"],
                    dom="x.example", lease=uuid7(), from_seq=0,
                    lim=1)[0]["data"] is None
    c.close()


def test_a_stolen_login_of_the_pages_opens_and_decides_nothing(db, w, x, su):
    """Every function it may call, with a secret that is no session."""
    m = x.message()
    assert submit(w.gw, m)["status"] == 202
    cur = su.cursor()
    cur.execute("""SELECT p.proname, p.proargnames[1:p.pronargs],
        ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) t)
        FROM pg_proc p WHERE p.pronamespace = 'api'::regnamespace
        AND has_function_privilege('l_review', p.oid, 'execute')
        ORDER BY 1""")
    functions = cur.fetchall()
    assert len(functions) > 50
    # what has no session: whose salt, the first operator, a sign-in (which
    # needs the password's hash), words for the search, the state of a factor
    free = {"ready_1", "operator_salt_1", "setup_1", "session_create_1",
            "search_fill_1"}
    real = {"mid": m["mid"], "dig": m["dig"], "verdict": "a", "tenant":
            x.tenant, "inbox": x.inbox, "for_version": 1, "for_round": 1,
            "name": "root", "to_mode": 4, "paused": False, "role": "admin",
            "states": "1", "q": None, "before": None}
    kinds = {"bigint": 1, "integer": 1, "smallint": 1, "text": "x",
             "boolean": True, "bytea": b"x" * 32, "uuid": m["mid"]}

    def rows():
        cur.execute("SELECT count(*), sum(hashtext(t::text)) FROM d.state t")
        return cur.fetchall()
    before, opened = rows(), []
    c = db.connect("l_review")
    for name, args, types in functions:
        if name in free:
            continue
        assert "s" in args, name
        for secret in (None, b"", os.urandom(32), b"\0" * 32):
            give = {a: real.get(a, kinds.get(t)) for a, t in zip(args, types)}
            give["s"] = secret
            q = c.cursor()
            q.execute("SELECT status FROM api.%s(%s)" % (name, ", ".join(
                "%s => %%(%s)s::%s" % (a, a, t)
                for a, t in zip(args, types))), give)
            if [r[0] for r in q.fetchall()] != [401]:
                opened.append((name, secret))
    assert opened == [] and rows() == before
    for name, args in (("setup_1", dict(name="eve", salt=b"s" * 16,
                                        params="p", verifier=b"v" * 32)),
                       ("session_create_1", dict(
                           name="root", output=os.urandom(32),
                           session_sha256=os.urandom(32), peer="p"))):
        assert call1(c, name, **args)["status"] in (401, 409), name
    c.close()


def test_guessed_and_crossed_credentials(w):
    a, b, c, _ = w.inboxes
    for t, k, s in [(a.tenant, a.send_key, b.send_a),
                    (a.tenant, b.send_key, a.send_a),
                    (c.tenant, a.send_key, a.send_a),
                    (a.tenant, a.send_key, os.urandom(32)),
                    (a.tenant, a.send_key, b""), (a.tenant, a.send_key, None),
                    (a.tenant, a.send_key, sha256(a.send_a)),
                    (None, None, None), (a.tenant, 10**12, a.send_a)]:
        r = call1(w.gw, "auth_1", t=t, k=k, a=s, handle=None)
        assert r["status"] == 401 and r["inbox_id"] is None, (t, k)
        m = dict(a.message(), t=t, k=k, a=s)
        assert submit(w.gw, m)["status"] == 401
        assert call1(w.gw, "put_chunk_1", t=t, k=k, a=s, mid=uuid7(), seq=0,
                     data=b"x")["status"] == 401


def test_every_agent_function_with_every_foreign_id(w):
    """Two tenants, two inboxes each: 404 and nothing changes."""
    held = []
    for x in w.inboxes:
        m = x.message()
        assert submit(w.gw, m)["status"] == 202
        held.append((x, m))
    for owner, m in held:
        for x in w.inboxes:
            if x is owner:
                continue
            for key, a in ((x.send_key, x.send_a), (x.full_key, x.full_a)):
                who = dict(t=x.tenant, k=key, a=a)
                for f, more in [("my_get_1", {}), ("my_events_1", {}),
                                ("my_recipients_1", {}), ("cancel_1", {}),
                                ("my_body_1", dict(from_seq=0, lim=4))]:
                    r = call(w.gw, f, mid=m["mid"], **who, **more)
                    assert [q["status"] for q in r] == [404], (f, r)
                ids = [q["message_id"] for q in call(
                    w.gw, "my_list_1", after=None, lim=100, states=None,
                    since=None, until=None, label=None, **who)]
                assert m["mid"] not in ids
    for owner, m in held:
        r = call1(w.gw, "my_get_1", t=owner.tenant, k=owner.send_key,
                  a=owner.send_a, mid=m["mid"])
        assert (r["status"], r["state"], r["digest"]) == (200, 1, m["dig"])


def test_an_id_of_the_same_tenant_cannot_be_taken(w):
    a, b = w.inboxes[:2]
    m = a.message()
    assert submit(w.gw, m)["status"] == 202
    r = submit(w.gw, b.message(mid=m["mid"]))
    assert (r["status"], r["code"]) == (409, "state_conflict")
    # Nor squatted through an upload.
    assert call1(w.gw, "put_chunk_1", t=b.tenant, k=b.send_key, a=b.send_a,
                 mid=m["mid"], seq=0, data=b"other")["status"] in (200, 404)
    r = call(w.gw, "my_body_1", t=a.tenant, k=a.full_key, a=a.full_a,
             mid=m["mid"], from_seq=0, lim=9)
    assert [q["data"] for q in r] == [m["body"]]


def test_handles_are_bound_to_login_key_and_time(db, w, su, x):
    h = os.urandom(24)
    assert call1(w.gw, "auth_1", t=x.tenant, k=x.send_key, a=x.send_a,
                 handle=h)["status"] == 200
    who = dict(t=x.tenant, k=x.send_key)
    assert call1(w.gw, "touch_1", a=h, **who)["status"] == 200
    assert call1(w.gw, "touch_1", a=os.urandom(24), **who)["status"] == 503
    assert call1(w.gw, "touch_1", t=x.tenant, k=x.full_key,
                 a=h)["status"] == 503
    assert submit(w.gw, x.message(key=(x.send_key, h)))["status"] == 202
    # A handle cannot make handles.
    assert call1(w.gw, "auth_1", a=h, handle=b"n" * 24, **who)[
        "status"] == 200
    assert call1(w.gw, "touch_1", a=b"n" * 24, **who)["status"] == 503
    cur = su.cursor()
    cur.execute("UPDATE d.handle SET login = 'l_gateway_h2' "
                "WHERE key_id = %s", (x.send_key,))
    assert call1(w.gw, "touch_1", a=h, **who)["status"] == 503
    cur.execute("UPDATE d.handle SET login = 'l_gateway', expires_at = now() "
                "- interval '1 s' WHERE key_id = %s", (x.send_key,))
    assert call1(w.gw, "touch_1", a=h, **who)["status"] == 503
    assert submit(w.gw, x.message(key=(x.send_key, h)))["status"] == 503
    assert call1(w.gw, "key_revoke_1", a=x.send_a, which=x.send_key,
                 **who)["status"] == 200
    for a in (h, x.send_a):
        assert call1(w.gw, "touch_1", a=a, **who)["status"] == 401
        assert submit(w.gw, x.message(key=(x.send_key, a)))["status"] == 401
    seen = call(w.gw, "revoked_since_1", since=None) + call(
        w.gw, "revoked_since_1", since="2020-01-01")
    assert (x.tenant, x.send_key) in {(q["tenant_id"], q["key_id"])
                                      for q in seen}
    assert seen[-1]["key_id"] is None and seen[-1]["now"]


def test_a_suspension_ends_no_key(w, x, su):
    """What may not send is told so; its sessions need not end (0119)."""
    send = dict(t=x.tenant, k=x.send_key, a=x.send_a)
    first = x.message(key=(x.send_key, x.send_a))
    held = submit(w.gw, first)
    assert held["status"] == 202
    assert call1(w.rv, "suspend_1", s=w.root, tenant=x.tenant, inbox=x.inbox,
                 suspended=True, reason="r")["status"] == 200
    try:
        seen = call(w.gw, "revoked_since_1", since="2020-01-01")
        assert (x.tenant, x.send_key) not in {
            (q["tenant_id"], q["key_id"]) for q in seen}
        assert call1(w.gw, "touch_1", **send)["status"] == 200
        assert submit(w.gw, x.message(key=(x.send_key, x.send_a)))["code"] \
            == "missing_permission"
        assert submit(w.gw, first)["message_id"] == held["message_id"]
    finally:
        su.cursor().execute("UPDATE d.inbox SET suspended_at = NULL "
                            "WHERE inbox_id = %s", (x.inbox,))


def test_scopes_of_keys(w, x, su):
    full = dict(t=x.tenant, k=x.full_key, a=x.full_a)
    send = dict(t=x.tenant, k=x.send_key, a=x.send_a)
    mine, his = x.message(), x.message(key=(x.full_key, x.full_a))
    assert submit(w.gw, mine)["status"] == 202
    assert submit(w.gw, his)["status"] == 202
    # A send key sees and cancels only what it sent; no body, no wrapped key.
    assert call1(w.gw, "my_get_1", mid=his["mid"], **send)["status"] == 404
    assert call1(w.gw, "cancel_1", mid=his["mid"], **send)["status"] == 404
    r = call1(w.gw, "my_get_1", mid=mine["mid"], **send)
    assert r["status"] == 200 and r["wrapped"] is None
    assert call1(w.gw, "my_body_1", mid=mine["mid"], from_seq=0, lim=1,
                 **send)["code"] == "missing_permission"
    assert call1(w.gw, "my_get_1", mid=mine["mid"], **full)["wrapped"]
    assert call1(w.gw, "inbox_set_1", to_mode=1, name=None, meta=None,
                 **send)["code"] == "missing_permission"
    assert call1(w.gw, "key_revoke_1", which=x.full_key,
                 **send)["status"] == 404
    # Lowering: never up, never to read_only by the agent.
    for to_mode, want in ((3, 403), (0, 403), (1, 200), (2, 403)):
        r = call1(w.gw, "inbox_set_1", to_mode=to_mode, name=None, meta=None,
                  **full)
        assert r["status"] == want, to_mode
    cur = su.cursor()
    cur.execute("SELECT mode FROM d.inbox WHERE inbox_id = %s", (x.inbox,))
    assert cur.fetchone() == (1,)


def test_claims_work_once(w, x, su):
    r = call1(w.gw, "claim_1", claim=x.code, full_auth=os.urandom(32),
              send_auth=os.urandom(32), pub=os.urandom(32),
              wrapped=os.urandom(72))
    assert (r["status"], r["code"], r["full_key"]) == (
        410, "claim_invalid", None)
    cur = su.cursor()
    cur.execute("SELECT count(*) FROM d.audit WHERE event = 'denied.claim' "
                "AND detail LIKE %s", ('%%"inbox" : %d,%%' % x.inbox,))
    assert cur.fetchone()[0] == 1
    assert call1(w.gw, "claim_1", claim=b"none", full_auth=os.urandom(32),
                 send_auth=os.urandom(32), pub=os.urandom(32),
                 wrapped=os.urandom(72))["status"] == 410


def test_operators_stay_in_their_scope(w, x):
    # Inboxes of its own: a list has 200 rows, whoever filled the others.
    a, c = x, w.inboxes[2]
    b = w.inbox(a.tenant, "beside-" + a.address)
    s1 = w.operator("t1only", "senior", tenant=c.tenant)
    s2 = w.operator("a-only", "reviewer", tenant=a.tenant, inbox=a.inbox)
    aud = w.operator("auditor0", "auditor", tenant=a.tenant)
    m, n = a.message(), b.message()
    assert submit(w.gw, m)["status"] == 202
    assert submit(w.gw, n)["status"] == 202
    for s, msg, want in ((s1, m, 404), (s2, n, 404)):
        assert call1(w.rv, "review_get_1", s=s, mid=msg["mid"],
                     why="x")["status"] == want
        assert call1(w.rv, "review_keys_1", s=s, mid=msg["mid"],
                     for_version=None, why=None)["status"] == want
        assert call1(w.rv, "review_body_1", s=s, mid=msg["mid"],
                     for_version=None, from_seq=0, lim=1,
                     why=None)["status"] == want
        assert call1(w.rv, "review_recipients_1", s=s,
                     mid=msg["mid"])["status"] == want
        assert w.approve(msg, s)["status"] == want
        assert w.reject(msg, s)["status"] == want
        assert call1(w.rv, "review_cancel_1", s=s, mid=msg["mid"],
                     note=None)["status"] == want
        assert call1(w.rv, "undo_1", s=s, mid=msg["mid"], for_version=1,
                     for_round=1)["status"] == want
    ids = {r["message_id"] for r in call(
        w.rv, "review_list_1", s=s2, tenant=None, inbox=None, states=None,
        q=None, after_key=None, lim=200, collapse=False)}
    assert m["mid"] in ids and n["mid"] not in ids
    for f, more in (("mode_set_1", dict(to_mode=1, reason="r")),
                    ("pause_1", dict(paused=True, reason="r")),
                    ("suspend_1", dict(suspended=True, reason="r"))):
        r = call1(w.rv, f, s=s1, tenant=a.tenant, inbox=a.inbox, **more)
        assert r["status"] in (403, 404), f
    assert call1(w.rv, "pause_1", s=s2, tenant=a.tenant, inbox=None,
                 paused=True, reason="r")["status"] == 403
    assert call1(w.rv, "pause_1", s=s1, tenant=None, inbox=None,
                 paused=True, reason="r")["status"] == 403
    # An auditor reads and never decides.
    assert call1(w.rv, "review_get_1", s=aud, mid=m["mid"],
                 why=None)["may_why"] == "missing_permission"
    assert w.approve(m, aud)["status"] == 403
    assert w.reject(m, aud)["status"] == 403


def test_decided_mail_opens_only_for_a_reason(w, su):
    """A19: the database asks, not only the page; each view leaves a row."""
    m = w.inboxes[0].message()
    assert submit(w.gw, m)["status"] == 202
    keys = lambda why: call1(  # noqa
        w.rv, "review_keys_1", s=w.root, mid=m["mid"], for_version=None,
        why=why)
    body = lambda why: call(  # noqa
        w.rv, "review_body_1", s=w.root, mid=m["mid"], for_version=None,
        from_seq=0, lim=4, why=why)

    def views():
        cur = su.cursor()
        cur.execute("SELECT event, detail::json ->> 'why' FROM d.audit WHERE "
                    "message_id = %s AND event IN ('message.opened', "
                    "'message.read') ORDER BY n", (m["mid"],))
        return cur.fetchall()

    assert keys(None)["tenant_box"] is not None and body(None)[0]["data"]
    assert views() == []  # held mail is what the queue is for
    assert w.reject(m, w.root)["status"] == 200
    for why in (None, "", "  ", "x" * 501):
        k, b = keys(why), body(why)
        assert (k["status"], k["code"]) == (403, "reason_required"), why
        assert k["tenant_box"] is None and k["tenant_priv"] is None
        assert [(r["status"], r["data"]) for r in b] == [(403, None)], why
    assert views() == []
    assert keys("the customer called")["tenant_box"] is not None
    assert body("the customer called")[0]["data"]
    assert views() == [("message.opened", "the customer called"),
                       ("message.read", "the customer called")]
    # Whoever may not see it learns nothing of it, and leaves no view.
    s = w.operator("elsewhere", "reviewer", tenant=w.inboxes[2].tenant)
    assert call1(w.rv, "review_keys_1", s=s, mid=m["mid"], for_version=None,
                 why="x")["status"] == 404
    assert len(views()) == 2


def test_sessions_end(w, su):
    s = w.operator("ending", "senior")
    touch = lambda: call1(w.rv, "session_touch_1", s=s)["status"]  # noqa
    assert touch() == 200
    cur = su.cursor()
    cur.execute("UPDATE d.operator_session SET touched_at = now() - interval "
                "'2 hours 1 s' WHERE session_sha256 = %s", (sha256(s),))
    assert touch() == 401
    cur.execute("UPDATE d.operator_session SET touched_at = now(), expires_at"
                " = now() WHERE session_sha256 = %s", (sha256(s),))
    assert touch() == 401
    s = w.session("ending")
    assert call1(w.ctl, "operator_disable_1", s=w.root, uid=0,
                 name="ending")["status"] == 200
    assert touch() == 401
    assert call1(w.rv, "session_create_1", name="ending",
                 output=w.passwords["ending"], session_sha256=os.urandom(32),
                 peer="t")["status"] == 401


def test_passwords_slow_down(w):
    w.operator("slow", "reviewer", tenant=w.tenants[0])
    got = [call1(w.rv, "session_create_1", name="slow", output=b"x" * 32,
                 session_sha256=os.urandom(32), peer="t")["status"]
           for _ in range(6)]
    assert got == [401] * 5 + [429]
    # Also the right password waits now.
    r = call1(w.rv, "session_create_1", name="slow",
              output=w.passwords["slow"], session_sha256=os.urandom(32),
              peer="t")
    assert r["status"] == 429 and r["wait"] > 0
    a = call1(w.rv, "operator_salt_1", name="nobody-here")
    assert a == call1(w.rv, "operator_salt_1", name="Nobody-Here")
    assert len(a["salt"]) == 16 and a["params"] == "argon2id m=19456 t=2 p=1"


def waited(r):
    """As it was when the wait began: the call after it may come late."""
    return r["wait"] and 30 * round(r["wait"] / 30)


def place(cur, name):
    """Of a name of nobody's, as d.nobody_try() finds it."""
    cur.execute("SELECT substr(sha256(coalesce(secret, '\\x00') || convert_to("
                "'postern.nobody.1' || lower(%s), 'UTF8')), 1, 2) "
                "FROM d.deployment", (name,))
    return bytes(cur.fetchone()[0])


def test_a_wait_does_not_tell_who_is_there(w, su):
    """Who is no operator, or no longer, waits as an operator does."""
    w.operator("waits", "reviewer", tenant=w.tenants[0])
    w.operator("left", "reviewer", tenant=w.tenants[0])
    assert call1(w.ctl, "operator_disable_1", s=w.root, uid=0,
                 name="left")["status"] == 200

    def tries(name, n=6):
        got = [call1(w.rv, "session_create_1", name=name, output=b"x" * 32,
                     session_sha256=os.urandom(32), peer="t")
               for _ in range(n)]
        return [(r["status"], r["code"], waited(r)) for r in got]

    def age(what):
        for table in ("operator", "nobody"):
            cur.execute("UPDATE d.%s SET locked_until = NULL, failed_at = "
                        "failed_at - interval '%s'" % (table, what))

    cur = su.cursor()
    # Not in the place of the other one: that begins anew.
    nobody = next(n for n in ("Nobody-Waits", "Nobody-Else", "Nobody-There")
                  if place(cur, n) != place(cur, "left"))
    names = ("waits", "left", nobody)
    first = [tries(name) for name in names]
    assert first[0] == [(401, "missing_authorization", None)] * 5 + \
        [(429, "rate_limited", 30)], first
    assert first[1:] == first[:1] * 2
    age("1 hour")
    assert [tries(name, 2) for name in names] == [
        [(401, "missing_authorization", None), (429, "rate_limited", 60)]] * 3
    age("25 hours")
    assert [tries(name) for name in names] == first


def test_names_of_nobody_have_so_many_places(w, su):
    """Whoever tries many names does not fill the disk with them."""
    cur = su.cursor()
    cur.execute("SELECT coalesce(max(place), 0) < 65536 FROM d.nobody")
    assert cur.fetchone()[0]
    # Two names of one place: the second has it, and begins anew.
    place = "get_byte(name_sha256, 0) * 256 + get_byte(name_sha256, 1)"
    for _ in range(4):
        call1(w.rv, "session_create_1", name="in-the-place", output=b"x" * 32,
              session_sha256=os.urandom(32), peer="t")
    cur.execute("SELECT place, name_sha256, place = %s FROM d.nobody "
                "WHERE failures = 4 AND failed_at = (SELECT max(failed_at) "
                "FROM d.nobody)" % place)
    at, name, mine = cur.fetchone()
    assert mine
    cur.execute("UPDATE d.nobody SET name_sha256 = sha256('another'), "
                "failures = 9, locked_until = now() + interval '1 hour' "
                "WHERE place = %s", (at,))
    got = call1(w.rv, "session_create_1", name="in-the-place",
                output=b"x" * 32, session_sha256=os.urandom(32), peer="t")
    assert (got["status"], got["wait"]) == (401, None)
    cur.execute("SELECT name_sha256 = %s, failures, locked_until FROM "
                "d.nobody WHERE place = %s", (name, at))
    assert cur.fetchone() == (True, 1, None)
    cur.execute("SELECT indisunique FROM pg_index WHERE indrelid = "
                "'d.nobody'::regclass AND indisprimary")
    assert cur.fetchone()[0]


def test_guesses_are_counted_however_many(w, su):
    """Two to the number of failures does not end in an error, uncounted."""
    w.operator("guessed", "reviewer", tenant=w.tenants[0])
    cur = su.cursor()
    cur.execute("UPDATE d.operator SET failures = 2000, failed_at = now() "
                "WHERE name = 'guessed'")
    got = [call1(w.rv, "session_create_1", name="guessed", output=b"x" * 32,
                 session_sha256=os.urandom(32), peer="t") for _ in range(2)]
    assert [(r["status"], waited(r)) for r in got] == [(401, None), (429, 3600)]


def test_ctl_without_a_session_only_tightens(w, x):
    t = dict(uid=1000, tenant=x.tenant, inbox=x.inbox)
    assert call1(w.ctl, "tighten_1", to_mode=4, reason="r",
                 **t)["status"] == 403
    assert call1(w.ctl, "tighten_1", to_mode=1, reason="r",
                 **t)["mode"] == 1
    assert call1(w.ctl, "ctl_pause_1", reason="r", **t)["status"] == 200
    for why in None, "", " \t\r\n", "r" * 1001:
        assert call1(w.ctl, "ctl_pause_1", reason=why, **t)["status"] == 422
        assert call1(w.ctl, "tighten_1", to_mode=0, reason=why,
                     **t)["status"] == 422
    for f, more in (("tenant_create_1", dict(
            slug="nope", name="n", pub=b"p" * 32, priv_box=b"b" * 80)),
            ("tenants_1", {}), ("operators_1", {}), ("queue_1", {}),
            ("trace_1", dict(what="a@b.example")),
            ("key_kill_1", dict(tenant=x.tenant, key=x.send_key)),
            ("inbox_reset_1", dict(tenant=x.tenant, inbox=x.inbox,
                                   claim_sha256=b"c" * 32)),
            ("limits_set_1", dict(
                tenant=x.tenant, inbox=x.inbox, plan=None, hour=1, day=1,
                month=1, held=1, bytes=1)),
            ("inbox_own_1", dict(
                tenant=x.tenant, inbox=x.inbox, approvals=1, hold_seconds=60,
                overseer="", full_key_smtp=True, retry_uncertain=True,
                one_click=True)),
            ("operator_add_1", dict(
                name="evil", salt=b"s" * 16, params="p", verifier=b"v" * 32,
                role="admin", tenant=None, inbox=None))):
        for s in (None, b"", os.urandom(32)):
            assert call1(w.ctl, f, s=s, uid=0, **more)["status"] == 401, f
    assert call1(w.ctl, "setup_1", name="second", salt=b"s" * 16,
                 params="p", verifier=b"v" * 32)["status"] == 409


def test_pauses_and_suspensions_say_why(w, x):
    p = dict(s=w.root, tenant=x.tenant, inbox=x.inbox)
    w.step_up(w.root)
    for reason in (None, "", " ", " \t\r\n"):
        for on in (True, False):
            for f, more in (("pause_1", dict(paused=on)),
                            ("suspend_1", dict(suspended=on))):
                r = call1(w.rv, f, reason=reason, **more, **p)
                assert (r["status"], r["code"]) == (
                    422, "validation_error"), (f, on, reason)
    for on in (True, False):
        assert call1(w.rv, "pause_1", paused=on, reason="r", **p)[
            "status"] == 200


BAD_NAMES = ["", " ", "a\u202eb", "\u0430dmin", "op:1", "a b", "a\tb", "a\n",
             "a\x7fb", ".a", "-a", "@a", "_a", "a" * 65, "a/b", "\u212aelvin",
             None]


def test_names_of_operators_show_who_they_are(w, db):
    """Nothing turned round, alike, or like an actor of the audit log."""
    base = dict(salt=b"s" * 16, params="p", verifier=b"v" * 32)
    w.step_up(w.root)
    for name in BAD_NAMES:
        r = call1(w.ctl, "operator_add_1", s=w.root, uid=0, name=name,
                  role="reviewer", tenant=None, inbox=None, **base)
        assert (r["status"], r["code"]) == (422, "validation_error"), name
    for name in ("a.b-c_d@example.org", "9", "Q" * 64):
        r = call1(w.ctl, "operator_add_1", s=w.root, uid=0, name=name,
                  role="reviewer", tenant=None, inbox=None, **base)
        assert r["status"] == 200, name


def test_an_admin_makes_nobody_greater_than_himself(w):
    s = w.operator("admin-t0", "admin", tenant=w.tenants[0])
    base = dict(s=s, uid=0, salt=b"s" * 16, params="p", verifier=b"v" * 32)
    for tenant in (None, w.tenants[1]):
        assert call1(w.ctl, "operator_add_1", name="greater", role="reviewer",
                     tenant=tenant, inbox=None, **base)["status"] == 403
    assert call1(w.ctl, "operator_disable_1", s=s, uid=0,
                 name="root")["status"] == 403
    assert call1(w.ctl, "tenant_create_1", s=s, uid=0, slug="newone",
                 name="n", pub=b"p" * 32, priv_box=b"b" * 80)["status"] == 403
    m = w.inboxes[0].message()
    submit(w.gw, m)
    assert w.approve(m, s)["status"] == 403


def test_the_pages_cannot_pass_for_posternctl(w, su):
    """What asks for a step-up knows by the login who calls, not by `uid`."""
    s = w.operator("admin-pages", "admin")
    base = dict(s=s, name="by-pages", salt=b"s" * 16, params="p",
                verifier=b"v" * 32, role="reviewer", tenant=None, inbox=None)
    for uid in (0, 1000, None):
        assert call1(w.rv, "operator_add_1", uid=uid, **base)[
            "code"] == "step_up_required"
    w.step_up(s, "admin-pages")
    assert call1(w.rv, "operator_add_1", uid=1000, **base)["status"] == 200
    cur = su.cursor()
    cur.execute("SELECT actor FROM d.audit WHERE event = 'operator.add' "
                "ORDER BY at DESC LIMIT 1")
    assert "@ctl" not in cur.fetchone()[0]


def test_a_reset_ends_old_keys_and_says_so(w, x):
    m = x.message()
    submit(w.gw, m)
    code = os.urandom(16)
    args = dict(s=w.root, uid=0, tenant=x.tenant, inbox=x.inbox,
                claim_sha256=sha256(code))
    w.step_up(w.root)
    r = call1(w.ctl, "inbox_reset_1", **args)
    assert (r["status"], r["unreadable"]) == (200, 1)
    assert submit(w.gw, x.message())["status"] == 401
    a, b = os.urandom(32), os.urandom(32)
    r = call1(w.gw, "claim_1", claim=code, full_auth=sha256(a),
              send_auth=sha256(b), pub=os.urandom(32), wrapped=b"w" * 72)
    assert (r["status"], r["inbox_epoch"]) == (200, 2)
    me = call1(w.gw, "auth_1", t=x.tenant, k=r["full_key"], a=a, handle=None)
    assert me["inbox_epoch"] == 2 and me["reset_at"] and me["reset_by"]
    got = call1(w.gw, "my_get_1", t=x.tenant, k=r["full_key"], a=a,
                mid=m["mid"])
    assert got["status"] == 200 and got["wrapped"] is None


def test_denied_attempts_are_audited_and_capped(w, x, su):
    within(HALF_HOUR, 30)
    for _ in range(25):
        assert call1(w.gw, "denied_1", t=x.tenant, k=x.send_key, a=x.send_a,
                     what="sender_mismatch", detail="x")["status"] == 200
    cur = su.cursor()
    cur.execute("SELECT count(*) FROM d.audit WHERE event = "
                "'denied.sender_mismatch' AND actor = %s",
                ("agent:%d.%d" % (x.tenant, x.send_key),))
    assert cur.fetchone()[0] == 20
    assert call1(w.gw, "denied_1", t=x.tenant, k=x.send_key,
                 a=os.urandom(32), what="sender_mismatch",
                 detail="x")["status"] == 401


def test_time_of_ids(w, x):
    for off, want in ((-700, 503), (700, 503), (-500, 202), (500, 202)):
        m = x.message(mid=uuid7(time.time() + off))
        assert submit(w.gw, m)["status"] == want, off
