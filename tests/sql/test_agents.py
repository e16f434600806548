# SPDX-License-Identifier: ISC
"""What 0017 gives agents: their own lists, further keys of their own inbox."""
import json
import os
from datetime import datetime, timedelta, timezone

import pytest

from pgcluster import call, call1, sha256, submit, uuid7
from test_gate import Zone, one


TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))


def key(x, which="full"):
    return dict(t=x.tenant, k=getattr(x, which + "_key"),
                a=getattr(x, which + "_a"))


def block(w, x, entry, who=None):
    return call1(w.gw, "block_1", entry=entry, reason="r",
                 **(who or key(x)))


def listed(w, x, what="b", who=None, **over):
    args = dict(who or key(x), what=what, one=None, after=None, lim=100)
    args.update(over)
    return call(w.gw, "my_lists_1", **args)


def session_of(w, x):
    a = os.urandom(32)
    r = call1(w.gw, "run_create_1", auth=sha256(a), seconds=600, run=None,
              sandbox_id=None, template=None, purpose=None,
              recipients=["b@x.example"], domains=[], max_messages=5,
              attachments=False, doors="r", **key(x))
    assert r["status"] == 200
    return dict(t=x.tenant, k=r["key_id"], a=a)


# -- lists ----------------------------------------------------------------

def test_what_an_agent_blocks_is_blocked_for_it_alone(w, x, su):
    y = w.inbox(w.tenants[0], "near-%s" % x.address)
    got = block(w, x, "Bad@X.example")
    assert got["status"] == 201
    assert block(w, x, "bad@x.EXAMPLE") == dict(got, status=200)
    assert block(w, x, "@evil.example")["status"] == 201
    for rcpt in ("bad@x.example", "any@evil.example"):
        assert submit(w.gw, x.message([rcpt]))["code"] == "message_rejected"
        assert submit(w.gw, y.message([rcpt]))["status"] == 202
    assert [(r["entry"], r["mine"], r["reason"]) for r in listed(w, x)] == [
        ("@evil.example", True, "r"), ("bad@x.example", True, "r")]
    assert [r["entry"] for r in listed(w, x, one="BAD@x.example")] == [
        "bad@x.example"]
    assert [r["entry"] for r in listed(
        w, x, after=listed(w, x)[0]["entry_id"])] == ["bad@x.example"]
    assert listed(w, y) == []
    assert one(su, "SELECT count(*) FROM d.audit WHERE actor = %s AND event "
               "= 'list.set' AND zone = 'p_submit'",
               "agent:%d.%d" % (x.tenant, x.full_key)) == 2


def test_nothing_of_others_is_listed(w, x, su):
    """Not what holds for the tenant or everywhere, not what was suppressed
    after other inboxes' mail, not what operators write."""
    for tenant, inbox, entry, verdict in (
            (x.tenant, x.inbox, "op@x.example", "b"),
            (x.tenant, x.inbox, "sup@x.example", "s"),
            (x.tenant, None, "all@x.example", "b"),
            (x.tenant, w.inboxes[1].inbox, "other@x.example", "b")):
        assert call1(w.rv, "list_set_1", s=w.root, tenant=tenant,
                     inbox=inbox, entry=entry, verdict=verdict, expires=None,
                     reason="secret of the operators")["status"] == 200
    got = listed(w, x)
    assert [(r["entry"], r["mine"], r["reason"]) for r in got] == [
        ("op@x.example", False, None)]
    su.cursor().execute("UPDATE d.list_entry SET ended_at = now() "
                        "WHERE ended_at IS NULL")
    w.step_up(w.root)
    assert call1(w.rv, "allow_set_1", s=w.root, tenant=x.tenant,
                 inbox=x.inbox, entry="ok@x.example", uses=3, days=1,
                 reason="r")["status"] == 200
    assert [(r["entry"], r["mine"], r["reason"])
            for r in listed(w, x, "a")] == [("ok@x.example", False, None)]
    assert listed(w, w.inboxes[0], "a") == []


def test_who_may_not(w, x, su):
    before = one(su, "SELECT count(*) FROM d.list_entry")
    sess = session_of(w, x)
    for who, want in ((key(x, "send"), 403), (sess, 403),
                      (dict(key(x), a=os.urandom(32)), 401)):
        assert block(w, x, "b@x.example", who)["status"] == want
        rows = listed(w, x, who=who)
        assert [r["status"] for r in rows] == [want]
        assert rows[0]["entry"] is None
        r = call1(w.gw, "key_create_1", auth=os.urandom(32), scope="s",
                  label=None, expires=None, epoch=None, wrapped=None, **who)
        assert (r["status"], r["key_id"]) == (want, None)
        r = call1(w.gw, "key_wrap_1", **who)
        assert (r["status"], r["wrapped"]) == (want, None)
    for entry in ("", "x", "a@b@c", "a b@x.example", "a@x\nb", None,
                  "a" * 321):
        assert block(w, x, entry)["status"] == 422, entry
    for reason in (None, "", " ", "x" * 1001, "a\nb"):
        assert call1(w.gw, "block_1", entry="b@x.example", reason=reason,
                     **key(x))["status"] == 422
    assert [r["status"] for r in listed(w, x, "z")] == [422]
    assert one(su, "SELECT count(*) FROM d.list_entry") == before


def test_the_zone_can_add_and_only_to_its_own(db, w, x):
    z = Zone(db, "p_submit", x)
    z.cur.execute("SELECT set_config('postern.actor', 'agent:1.1', false)")
    values = "VALUES (%s, %s, 'a@x.example', %s, 'r', %s)"
    insert = ("INSERT INTO d.list_entry (tenant_id, inbox_id, entry, verdict,"
              " reason, created_by) " + values)
    other = w.inboxes[3]
    for args in ((x.tenant, 0, "b", "agent:1.1"), (0, 0, "b", "agent:1.1"),
                 (other.tenant, other.inbox, "b", "agent:1.1"),
                 (x.tenant, x.inbox, "s", "agent:1.1"),
                 (x.tenant, x.inbox, "b", "op:1")):
        z.refused(insert, *args)
    z.refused("UPDATE d.list_entry SET ended_at = now()")
    z.refused("DELETE FROM d.list_entry")
    z.refused("INSERT INTO d.allow_rule (tenant_id, inbox_id, entry, "
              "operator_id, reason, uses_left, expires_at) VALUES "
              "(%s, %s, 'a@x.example', 1, 'r', 9, now() + interval '1 d')",
              x.tenant, x.inbox)


def test_a_list_has_an_end(w, x, su):
    su.cursor().execute(
        "INSERT INTO d.list_entry (tenant_id, inbox_id, entry, verdict, "
        "reason, created_by) SELECT %s, %s, 'n' || g || '@x.example', 'b', "
        "'r', 'agent:1.1' FROM generate_series(1, 1000) g",
        (x.tenant, x.inbox))
    got = block(w, x, "more@x.example")
    assert (got["status"], got["code"]) == (429, "held_limit")
    assert block(w, x, "n7@x.example")["status"] == 200
    assert len(listed(w, x)) == 100
    su.cursor().execute("UPDATE d.list_entry SET ended_at = now() WHERE "
                        "inbox_id = %s", (x.inbox,))


# -- keys -----------------------------------------------------------------

def create(w, x, scope="s", who=None, **over):
    a = os.urandom(32)
    args = dict(who or key(x), auth=sha256(a), scope=scope, label="l",
                expires=None, epoch=None if scope == "s" else 1,
                wrapped=None if scope == "s" else b"w" * 72)
    args.update(over)
    r = call1(w.gw, "key_create_1", **args)
    return r, dict(t=x.tenant, k=r["key_id"], a=a)


@pytest.mark.parametrize("scope", "srf")
def test_a_further_key_is_a_key_of_its_scope(w, x, scope):
    r, new = create(w, x, scope)
    assert (r["status"], r["kind"], r["expires_at"]) == (201, "l", None)
    me = call1(w.gw, "auth_1", handle=None, **new)
    assert (me["status"], me["scope"], me["address"]) == (
        200, scope, x.address)
    m = x.message(key=(new["k"], new["a"]))
    got = submit(w.gw, m)
    assert got["status"] == (403 if scope == "r" else 202)
    other = x.message()
    assert submit(w.gw, other)["status"] == 202
    seen = call1(w.gw, "my_get_1", mid=other["mid"], **new)
    if scope == "s":
        assert seen["status"] == 404
    else:
        assert (seen["status"], seen["wrapped"]) == (200, b"w" * 72)
    # only a full one makes further ones, ends others
    again, _ = create(w, x, "s", who=new)
    assert again["status"] == (201 if scope == "f" else 403)
    gone = call1(w.gw, "key_revoke_1", which=x.send_key, **new)
    assert gone["status"] == (200 if scope == "f" else 404)


def test_it_never_outlives_what_made_it(w, x):
    soon = datetime.now(timezone.utc) + timedelta(seconds=60)
    late = soon + timedelta(days=9)
    r, short = create(w, x, "f", expires=soon)
    assert abs((r["expires_at"] - soon).total_seconds()) < 1
    r, _ = create(w, x, "s", who=short, expires=late)
    assert abs((r["expires_at"] - soon).total_seconds()) < 1
    r, _ = create(w, x, "s", who=short)
    assert abs((r["expires_at"] - soon).total_seconds()) < 1


def test_what_is_no_key(w, x, su):
    before = one(su, "SELECT count(*) FROM d.credential")
    past = datetime.now(timezone.utc) - timedelta(seconds=1)
    for scope, over in (
            ("x", {}), (None, {}), ("s", dict(auth=b"short")),
            ("s", dict(auth=None)), ("s", dict(wrapped=b"w" * 72)),
            ("f", dict(wrapped=None)), ("r", dict(wrapped=b"w")),
            ("f", dict(epoch=2)), ("f", dict(epoch=None)),
            ("s", dict(label="x" * 201)), ("s", dict(label="a\nb")),
            ("s", dict(expires=past))):
        r, _ = create(w, x, scope, **over)
        assert (r["status"], r["key_id"]) == (422, None), (scope, over)
    assert one(su, "SELECT count(*) FROM d.credential") == before


def test_an_inbox_has_so_many_keys(w, x, su):
    made = [create(w, x)[0]["status"] for _ in range(48)]
    assert made == [201] * 48
    r, _ = create(w, x)
    assert (r["status"], r["code"]) == (429, "held_limit")
    # those that are over do not count
    su.cursor().execute("UPDATE d.credential SET expires_at = now() WHERE "
                        "inbox_id = %s AND label = 'l'", (x.inbox,))
    assert create(w, x)[0]["status"] == 201


@pytest.mark.parametrize("limit,op,words", [
    ("keys_most", "keys_create", "At most %s live keys an inbox"),
    ("keys_a_day", "keys_create", "%s made in 24 hours"),
    ("sessions_most", "sessions_create", "At most %s live sessions an inbox"),
    ("keys_a_day", "sessions_create", "%s made in 24 hours"),
    ("drafts_most", "drafts_create", "At most %s of an inbox"),
    ("blocks_most", "lists_create", "At most %s entries")])
def test_the_document_tells_the_limits(su, limit, op, words):
    with open(os.path.join(TOP, "api", "openapi.json"), encoding="utf-8") as f:
        paths = json.load(f)["paths"].values()
    text, = [o["description"] for p in paths for o in p.values()
             if isinstance(o, dict) and o.get("operationId") == op]
    n = one(su, "SELECT d.%s()" % limit)
    assert words % format(n, ",") in text, text


def test_many_sessions_hide_no_key(w, x, su):
    su.cursor().execute(
        "INSERT INTO d.credential (tenant_id, inbox_id, kind, scope, lineage, "
        "auth_sha256, parent_key, expires_at) SELECT %s, %s, 's', 's', 0, "
        "sha256(i::text::bytea), %s, now() FROM generate_series(1, 300) i",
        (x.tenant, x.inbox, x.full_key))
    rows = call(w.gw, "keys_1", **key(x))
    names = [r["key_id"] for r in rows]
    assert len(names) == 200 and names == sorted(names, reverse=True)
    assert {x.full_key, x.send_key} <= set(names)


def test_a_reset_ends_them_too(w, x):
    _, new = create(w, x, "f")
    w.step_up(w.root)
    assert call1(w.ctl, "inbox_reset_1", s=w.root, uid=0, tenant=x.tenant,
                 inbox=x.inbox, claim_sha256=os.urandom(32))["status"] == 200
    assert call1(w.gw, "auth_1", handle=None, **new)["status"] == 401


# -- what drafts take and what counting costs ------------------------------

def put_draft(w, x, n, draft=None, ver=0):
    return call1(w.gw, "draft_put_1", draft=draft or uuid7(), ver=ver,
                 epoch=1, box=b"b" * 80, head=b"h" * 10, body=b"x" * n,
                 idem=None, request=os.urandom(32), **key(x))


def test_drafts_count_among_the_bytes(w, x, su):
    su.cursor().execute("UPDATE d.inbox SET lim_bytes = 1000 WHERE "
                        "inbox_id = %s", (x.inbox,))
    a = put_draft(w, x, 600)
    assert a["status"] == 201
    r = put_draft(w, x, 400)
    assert (r["status"], r["code"]) == (429, "held_limit")
    assert put_draft(w, x, 300)["status"] == 201
    # its own old bytes do not count against a change of it
    assert put_draft(w, x, 681, a["draft_id"], 1)["status"] == 429
    assert put_draft(w, x, 650, a["draft_id"], 1)["status"] == 200
    # what waits held counts with them
    m = x.message(body=b"z" * 30)
    assert submit(w.gw, m)["status"] == 202
    assert put_draft(w, x, 651, a["draft_id"], 2)["status"] == 429
    assert call1(w.gw, "draft_end_1", draft=a["draft_id"], sent=None,
                 **key(x))["status"] == 200
    assert put_draft(w, x, 500)["status"] == 201


def go(w, who, draft, ver=1, idem=b"i" * 32):
    return call1(w.gw, "draft_go_1", draft=draft, ver=ver, idem=idem, **who)


def test_a_draft_goes_once(w, x, su):
    draft = put_draft(w, x, 10)["draft_id"]
    y = w.inbox(w.tenants[0], "near-%s" % x.address)
    z = w.inbox(w.tenants[1], "far-%s@t1.example" % x.address.split("@")[0])
    for who, want in ((key(y), 404), (key(z), 404), (key(x, "send"), 403),
                      (session_of(w, x), 403)):
        assert go(w, who, draft)["status"] == want
        assert call1(w.gw, "draft_stay_1", draft=draft, at=datetime.now(
            timezone.utc), **who)["status"] == {404: 200}.get(want, want)
    _, other = create(w, x, "f")
    assert go(w, key(x), draft, 2)["code"] == "state_conflict"
    assert go(w, key(x), draft, idem=b"")["code"] == "state_conflict"
    first = go(w, key(x), draft)
    assert (first["status"], first["message_id"]) == (200, None)
    again = go(w, key(x), draft)
    assert again["at"] > first["at"]
    assert go(w, other, draft)["code"] == "state_conflict"
    stay = dict(draft=draft, at=first["at"], **key(x))
    call1(w.gw, "draft_stay_1", **stay)  # not the last that sends it
    assert go(w, other, draft)["code"] == "state_conflict"
    call1(w.gw, "draft_stay_1", **dict(stay, at=again["at"], **other))
    assert go(w, other, draft)["code"] == "state_conflict"
    call1(w.gw, "draft_stay_1", **dict(stay, at=again["at"]))
    assert go(w, other, draft)["status"] == 200
    # what the line stored is what the draft was sent as, whoever asks
    m = x.message(idem=b"i" * 32)
    su.cursor().execute("UPDATE d.draft SET going_line = (SELECT lineage "
                        "FROM d.credential WHERE key_id = %s) WHERE draft_id "
                        "= %s", (m["k"], draft))
    assert submit(w.gw, m)["status"] == 202
    assert go(w, key(x), draft)["message_id"] == m["mid"]
    assert one(su, "SELECT head IS NULL FROM d.draft WHERE draft_id = %s",
               draft)


def test_counting_has_an_end(w, x, su):
    """As if five were a hundred thousand."""
    for _ in range(7):
        assert submit(w.gw, x.message())["status"] == 202
    cur = su.cursor()
    cur.execute("SELECT pg_get_functiondef('api.usage_1'::regproc)")
    whole, = cur.fetchone()
    assert whole.count("100000") == 1
    now = datetime.now(timezone.utc)
    args = dict(since=now - timedelta(days=1),
                until=now + timedelta(days=1), **key(x))
    rows = call(w.gw, "usage_1", **args)
    assert sum(r["messages"] for r in rows) == 7  # of two days, at midnight
    assert {r["cut"] for r in rows} == {None}
    cur.execute(whole.replace("100000", "5"))
    try:
        rows = call(w.gw, "usage_1", **args)
        assert sum(r["messages"] for r in rows) == 5
        assert rows[0]["cut"] > args["since"]
    finally:
        cur.execute(whole)
