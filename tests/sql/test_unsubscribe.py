# SPDX-License-Identifier: ISC
"""Links to unsubscribe: who gets a token, what it opens, and what does not."""
import os
import struct
import threading
import uuid

import psycopg2
import pytest

from pgcluster import call, call1, sha256, submit, uuid7
from test_gate import one, state
from test_relay import DONE, LISTED, approved, attempt, claim, done, dot, mail
from test_sets import attempts

LEN = 34


def sign(su, x, used=True):
    """A DKIM key of the inbox's domain, in use."""
    su.cursor().execute(
        "INSERT INTO d.dkim_key (tenant_id, domain, pair, algo, selector, "
        "record, sealed, used_at) VALUES (%s, split_part(%s, '@', 2), %s, "
        "'e', %s, repeat('r', 40), repeat('s', 200)::bytea, "
        "CASE WHEN %s THEN now() END)",
        (x.tenant, x.address, "p%d" % x.inbox, "s%d" % x.inbox, used))


def turn(w, x, on=True, **over):
    args = dict(s=w.root, uid=0, tenant=x.tenant, inbox=x.inbox,
                approvals=None, hold_seconds=None, overseer=None,
                full_key_smtp=None, retry_uncertain=None, one_click=on)
    args.update(over)
    return call1(w.ctl, "inbox_own_1", **args)


def linking(w, su, tenant=0):
    """A fresh inbox that gives links."""
    w.count = getattr(w, "count", 0) + 1
    x = w.inbox(w.tenants[tenant], "news%d@t%d.example" % (w.count, tenant))
    sign(su, x)
    r = turn(w, x)
    assert r["status"] == 200, r
    return x


@pytest.fixture()
def news(w, su):
    return linking(w, su)


def token_of(w, L, ix=1):
    r = call1(w.wk, "one_click_1", ix=ix, **L)
    assert r["status"] == 200, r
    return bytes(r["token"]) if r["token"] is not None else None


def use(w, token):
    return call1(w.gw, "unsubscribe_1", token=token)


def listed(su, x):
    cur = su.cursor()
    cur.execute("SELECT entry, verdict, created_by, expires_at FROM "
                "d.list_entry WHERE tenant_id = %s AND inbox_id = %s "
                "AND ended_at IS NULL ORDER BY entry_id", (x.tenant, x.inbox))
    return cur.fetchall()


def mailed(w, x, rcpts=("Ann@x.example",), ix=(1,)):
    """A message that left, and the token of each recipient."""
    m = approved(w, x, list(rcpts))
    L, = claim(w, m)
    tokens = [token_of(w, L, i) for i in ix]
    attempt(w, L, ix)
    assert dot(w, L, ix)["go"]
    done(w, L, {i: DONE for i in ix})
    return m, tokens


# -- who may turn it on --------------------------------------------------------

def test_it_is_off_until_an_admin_turns_it_on(w, x, su):
    def shown():
        r = call1(w.ctl, "inbox_find_1", s=w.root, uid=0, which=x.address)
        assert r["one_click"] == call1(
            w.rv, "review_inbox_1", s=w.root, tenant=x.tenant,
            inbox=x.inbox)["one_click"] == call1(
            w.gw, "my_inbox_1", t=x.tenant, k=x.full_key, a=x.full_a)[
            "one_click"]
        return r["one_click"]
    assert shown() is False
    r = turn(w, x)
    assert (r["status"], r["code"]) == (409, "dkim_needed")
    sign(su, x, used=False)
    assert turn(w, x)["code"] == "dkim_needed"
    su.cursor().execute("UPDATE d.dkim_key SET used_at = now() WHERE pair = "
                        "%s", ("p%d" % x.inbox,))
    assert turn(w, x, s=w.operator("reviewer-%d" % x.inbox, "reviewer"))[
        "status"] == 403
    assert shown() is False
    assert turn(w, x)["status"] == 200 and shown() is True
    # and back, and what says nothing of it leaves it
    assert turn(w, x, None, approvals=1)["status"] == 200 and shown() is True
    assert turn(w, x, False)["status"] == 200 and shown() is False
    assert turn(w, x, False, approvals=0)["status"] == 200
    assert one(su, "SELECT count(*) FROM d.one_click_key WHERE tenant_id = "
               "%s", x.tenant) == 1


# -- tokens ----------------------------------------------------------------------

def test_a_token_for_each_recipient_of_a_live_lease(w, news, x, su):
    m = approved(w, news, ["a@x.example", "b@x.example", "c@y.example"])
    L, other = claim(w, m)
    assert call1(w.wk, "fetch_1", **L)["one_click"] is True
    r = call(w.wk, "fetches_1", ts=[L["t"]], mids=[L["mid"]],
             doms=[L["dom"]], leases=[L["lease"]], small=1000)
    assert [q["one_click"] for q in r] == [True]
    a, b, c = token_of(w, L, 1), token_of(w, L, 2), token_of(w, other, 3)
    assert len({a, b, c}) == 3 and {len(t) for t in (a, b, c)} == {LEN}
    # The same mail once more has the same link.
    assert token_of(w, L, 1) == a
    # Neither address nor place in the list of recipients can be seen: with
    # another key the same number looks different.
    for t in (a, b, c):
        assert t[:16] == uuid.UUID(str(m["mid"])).bytes
        assert b"x.example" not in t
    tails = {t[16:18] for t in (a, b, c)} | {
        token_of(w, claim(w, approved(w, news))[0])[16:18] for _ in range(4)}
    assert len(tails) >= 6
    for bad in (dict(L, lease=uuid7()), dict(L, t=w.tenants[1]),
                dict(L, mid=uuid7()), dict(L, dom="y.example"),
                dict(L, lease=None)):
        r = call1(w.wk, "one_click_1", ix=1, **bad)
        assert (r["status"], r["token"]) == (409, None), bad
    for ix in (0, -1, 3, 9, None, 2**31 - 1):
        r = call1(w.wk, "one_click_1", ix=ix, **L)
        assert (r["status"], r["token"]) == (422, None), ix
    plain, = claim(w, approved(w, x))
    assert call1(w.wk, "fetch_1", **plain)["one_click"] is False
    assert token_of(w, plain) is None


def test_the_token_is_as_documented(w, news, su):
    """docs/formats.md, made anew; the last of many recipients too."""
    key = bytes(one(su, "SELECT key FROM d.one_click_key WHERE tenant_id = "
                    "%s", news.tenant))
    su.cursor().execute("UPDATE d.inbox SET rcpt_max = 1000 WHERE inbox_id = "
                        "%s", (news.inbox,))
    m = approved(w, news, ["p%03d@x.example" % i for i in range(300)])
    L, = claim(w, m)
    mid = uuid.UUID(str(m["mid"])).bytes
    for ix in (1, 2, 255, 256, 300):
        mac = sha256(key + sha256(key + b"postern.one_click.1" + struct.pack(
            ">Q16sI", news.tenant, mid, ix)))[:16]
        mask, = struct.unpack(">H", sha256(key + mac)[:2])
        assert token_of(w, L, ix) == mid + struct.pack(
            ">H", ix ^ mask) + mac


def test_the_copy_for_oversight_has_none(w, news, su):
    """Nobody but an operator ends it."""
    assert turn(w, news, None, overseer="Boss@x.example")["status"] == 200
    m = approved(w, news, ["ann@x.example", "boss@x.example"], kinds="to")
    L, = claim(w, m)
    assert token_of(w, L, 1) and token_of(w, L, 2) is None
    # nor is it one who also is a recipient
    m = approved(w, news, ["ann@x.example", "boss@X.example"])
    L = claim(w, m)[0]
    assert token_of(w, L, 2) is None


# -- what it opens ---------------------------------------------------------------

def test_who_unsubscribes_gets_no_more(w, news, x, su):
    m, (t,) = mailed(w, news)
    r = use(w, t)
    assert (r["status"], r["fresh"]) == (200, True)
    assert listed(su, news) == [("ann@x.example", "s", "recipient", None)]
    assert state(su, m)[0] == 8  # what was sent stays sent
    # Submission refuses, whatever way it is written.
    for rcpt in ("ann@x.example", "ANN@X.example"):
        r = submit(w.gw, news.message([rcpt, "bob@x.example"]))
        assert (r["status"], r["code"]) == (403, "message_rejected")
    # Other inboxes of the tenant, and of others, write on.
    for box in (x, w.inboxes[1], w.inboxes[3]):
        assert submit(w.gw, box.message(["ann@x.example"]))["status"] == 202
    assert submit(w.gw, news.message(["bob@x.example"]))["status"] == 202


def test_nothing_is_noted_of_a_message_that_is_gone(w, db, news, su):
    """Its tenant ended while the link was used; no key keeps events to it."""
    m, (t,) = mailed(w, news)
    # As if the sweep had come to it (0084) and not committed yet.
    gone = db.connect("postgres", autocommit=False)
    cur = gone.cursor()
    cur.execute("SET LOCAL session_replication_role = replica")
    for table in ("event", "attempt", "delivery", "release", "decision",
                  "body", "word", "state", "message"):
        cur.execute("DELETE FROM d.%s WHERE message_id = %%s" % table,
                    (m["mid"],))
    got = []
    user = threading.Thread(target=lambda: got.append(use(w, t)))
    user.start()
    while not one(su, "SELECT count(*) FROM pg_stat_activity WHERE "
                  "wait_event_type = 'Lock' AND query LIKE %s",
                  "%unsubscribe_1%"):
        assert user.is_alive()
    gone.commit()
    gone.close()
    user.join()
    assert got[0]["status"] == 200
    assert one(su, "SELECT count(*) FROM d.event WHERE message_id = %s",
               m["mid"]) == 0


def test_what_waits_is_not_sent(w, news, su):
    """At approval, before MAIL FROM and before the dot."""
    held = news.message(["ann@x.example"])
    mixed = news.message(["ann@x.example", "bob@x.example"])
    for m in (held, mixed):
        assert submit(w.gw, m)["status"] == 202
    released, marked, late = (approved(w, news) for _ in range(3))
    for m in (released, marked, late):
        assert m["rcpts"] == "b@x.example"
    claims = call(w.wk, "claim_due_1", worker="w1", lim=500, lease_seconds=60)
    leases = [dict(t=q["tenant_id"], mid=q["message_id"], dom=q["domain"],
                   lease=q["lease"]) for m in (released, marked, late)
              for q in claims if q["message_id"] == m["mid"]]
    assert len(leases) == 3
    attempt(w, leases[1])
    _, (ann, bob) = mailed(w, news, ["ann@x.example", "b@x.example"], (1, 2))
    for t in (ann, bob):
        assert use(w, t)["fresh"]
    r = w.approve(held)
    assert (r["status"], r["code"]) == (403, "message_rejected"), r
    assert w.approve(mixed)["state"] == 2
    assert mail(w, leases[0])["reason"] == "list"
    assert dot(w, leases[1])["reason"] == "list"
    assert attempts(w, leases[2:]) == set()
    assert mail(w, leases[2])["reason"] == "list"
    cur = su.cursor()
    cur.execute("SELECT status FROM d.delivery WHERE message_id = ANY "
                "(%s::uuid[])", ([m["mid"] for m in (released, marked,
                                                     late)],))
    assert {s for s, in cur.fetchall()} == {LISTED}


def test_the_inbox_hears_of_it_once(w, news, su):
    m, (t,) = mailed(w, news)

    def events():
        return [e for e in call(w.gw, "my_events_1", t=news.tenant,
                                k=news.full_key, a=news.full_a, mid=m["mid"])
                if e["type"] == "message.unsubscribed"]
    assert events() == []
    for fresh in (True, False, False):
        assert use(w, t)["fresh"] is fresh
    e, = events()
    assert (e["actor"], e["state"], e["detail"]) == (
        "recipient", 8, "ann@x.example")
    assert len(listed(su, news)) == 1
    assert one(su, "SELECT count(*) FROM d.audit WHERE message_id = %s AND "
               "event = 'list.unsubscribe' AND zone = 'p_relay' AND actor = "
               "'gateway' AND tenant_id = %s", m["mid"], news.tenant) == 1
    # Two mails to one address: the second link finds it done.
    su.cursor().execute("UPDATE d.list_entry SET ended_at = now() WHERE "
                        "inbox_id = %s", (news.inbox,))
    _, (t2,) = mailed(w, news)
    assert use(w, t2)["fresh"] is True and use(w, t)["fresh"] is False


def test_an_operator_lifts_it(w, news, su):
    _, (t,) = mailed(w, news)
    assert use(w, t)["fresh"]
    row, = [r for r in call(w.rv, "lists_1", s=w.root, tenant=news.tenant,
                            inbox=news.inbox) if r["inbox_id"] == news.inbox]
    assert (row["created_by"], row["address"]) == ("recipient", news.address)
    for whom, n in (("ANN@x.example", 1), (" ann@x.example ", 1),
                    ("bob@x.example", 0), ("@x.example", 0)):
        assert len([r for r in call(
            w.rv, "lists_1", s=w.root, tenant=news.tenant, inbox=None,
            whom=whom) if r["inbox_id"] == news.inbox]) == n, whom
    assert row["reason"].startswith("unsubscribe: ")
    w.step_up(w.root)
    assert call1(w.rv, "list_remove_1", s=w.root, entry_id=row["entry_id"],
                 reason="asked by phone")["status"] == 200
    assert listed(su, news) == []
    assert submit(w.gw, news.message(["ann@x.example"]))["status"] == 202
    # and the recipient may say it again
    assert use(w, t)["fresh"] and len(listed(su, news)) == 1


def test_the_agents_own_list_keeps_its_room(w, news, su):
    """However many say no; and it is not told who (decision 0090)."""
    su.cursor().execute(
        "INSERT INTO d.list_entry (tenant_id, inbox_id, entry, verdict, "
        "reason, created_by) SELECT %s, %s, 'p' || n || '@x.example', 's', "
        "'r', 'recipient' FROM generate_series(1, 1000) n",
        (news.tenant, news.inbox))
    mine = dict(t=news.tenant, k=news.full_key, a=news.full_a)
    assert call1(w.gw, "block_1", entry="eve@x.example", reason="asked",
                 **mine)["status"] == 201
    rows = call(w.gw, "my_lists_1", what="b", one=None, after=None, lim=100,
                **mine)
    assert [r["entry"] for r in rows] == ["eve@x.example"]


def test_links_outlive_the_setting_and_the_inbox(w, news, su):
    _, (t,) = mailed(w, news)
    assert turn(w, news, False)["status"] == 200
    w.step_up(w.root)
    assert call1(w.ctl, "inbox_delete_1", s=w.root, uid=0,
                 tenant=news.tenant, inbox=news.inbox, reason="over")[
        "status"] == 200
    assert use(w, t)["status"] == 200


def test_two_at_once_are_one(db, w, news, su):
    m, tokens = mailed(w, news, ["a@x.example", "b@x.example"], (1, 2))
    again, (t3,) = mailed(w, news, ["a@x.example"])
    got, lanes = [], []

    def lane(token):
        c = db.connect("l_gateway")
        for _ in range(5):
            got.append(call1(c, "unsubscribe_1", token=token)["fresh"])
        c.close()
    for t in tokens + [t3] + tokens + [t3]:
        lanes.append(threading.Thread(target=lane, args=(t,)))
        lanes[-1].start()
    for it in lanes:
        it.join()
    assert sorted(got) == [False] * 28 + [True] * 2
    assert [e[0] for e in sorted(listed(su, news))] == [
        "a@x.example", "b@x.example"]


# -- what opens nothing ----------------------------------------------------------

def test_nothing_else_is_a_token(w, news, su):
    m, (t,) = mailed(w, news)
    other, (t2,) = mailed(w, news, ["eve@x.example"])
    away = linking(w, su, tenant=1)
    _, (foreign,) = mailed(w, away)
    bad = [None, b"", b"\0" * LEN, os.urandom(LEN), t[:-1], t + b"\0",
           t[:16], t * 2,
           # parts of good ones, put together
           t[:16] + t2[16:], t2[:16] + t[16:], t[:18] + t2[18:],
           foreign[:16] + t[16:], t[:16] + foreign[16:]]
    for i in range(LEN):  # every bit counts
        for bit in (0x01, 0x80):
            bad.append(t[:i] + bytes([t[i] ^ bit]) + t[i + 1:])
    for it in bad:
        r = use(w, it)
        assert r == dict(status=404, code="link_invalid", fresh=None), it
    assert listed(su, news) == [] and listed(su, away) == []
    # Another tenant's link is that tenant's matter alone.
    assert use(w, foreign)["fresh"] is True
    assert listed(su, news) == [] and len(listed(su, away)) == 1


def test_no_key_of_the_inbox_makes_one(w, news, su):
    """What agents and operators are told about their mail is no token."""
    m, (t,) = mailed(w, news)
    told = repr(call(w.gw, "my_get_1", t=news.tenant, k=news.full_key,
                     a=news.full_a, mid=m["mid"]))
    told += repr(call(w.rv, "review_get_1", s=w.root, mid=m["mid"],
                      why=None))
    key = bytes(one(su, "SELECT key FROM d.one_click_key WHERE tenant_id = "
                    "%s", news.tenant))
    assert t.hex() not in told and key.hex() not in told
    assert repr(key)[2:-1] not in told


def test_a_deleted_tenant_has_no_links(w, su):
    c = w.ctl
    n = call1(c, "tenant_create_1", s=w.root, uid=0, slug="short",
              name="Short", pub=os.urandom(32), priv_box=os.urandom(80))
    t = n["tenant_id"]
    call1(c, "domain_add_1", s=w.root, uid=0, tenant=t, name="short.example",
          new_token="a" * 26)
    call1(c, "domain_verify_1", s=w.root, uid=0, name="short.example",
          how="force")
    call1(c, "plan_set_1", s=w.root, uid=0, tenant=t, plan="default",
          hour=1000, day=1000, month=1000, held=1000, bytes=1 << 30)
    x = w.inbox(t, "bulletin@short.example")
    sign(su, x)
    assert turn(w, x)["status"] == 200
    _, (token,) = mailed(w, x)
    assert use(w, token)["fresh"]
    # Disabled, its links still are what they were.
    su.cursor().execute("UPDATE d.tenant SET disabled_at = now() WHERE "
                        "tenant_id = %s", (t,))
    assert use(w, token)["status"] == 200
    try:
        su.cursor().execute("UPDATE d.tenant SET deleted_at = now() WHERE "
                            "tenant_id = %s", (t,))
        assert use(w, token) == dict(status=404, code="link_invalid",
                                     fresh=None)
        for _ in range(3):
            call(c, "maintain_1", uid=0, weeks_ahead=4, body_days=30,
                 meta_days=400, after_gap=None)
        assert one(su, "SELECT count(*) FROM d.one_click_key WHERE "
                   "tenant_id = %s", t) == 0
        assert use(w, token)["status"] == 404
    finally:  # other tests enable all tenants again
        su.cursor().execute("UPDATE d.tenant SET deleted_at = NULL, "
                            "disabled_at = NULL WHERE tenant_id = %s", (t,))


# -- who may do what -------------------------------------------------------------

def test_who_may_read_keys_and_make_such_entries(w, su):
    cur = su.cursor()
    cur.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE 'p\\_%%' AND "
                "has_column_privilege(oid, 'd.one_click_key', 'key', "
                "'SELECT') ORDER BY 1")
    assert [r for r, in cur.fetchall()] == ["p_owner", "p_relay"]
    cur.execute("SELECT r.rolname, p.proname FROM pg_roles r, pg_proc p "
                "WHERE r.rolname LIKE 'l\\_%%' AND p.proname IN ("
                "'one_click_1', 'unsubscribe_1') AND r.rolname <> 'l_migrate' "
                "AND has_function_privilege(r.oid, p.oid, 'EXECUTE') "
                "ORDER BY 2")
    assert cur.fetchall() == [("l_worker", "one_click_1"),
                              ("l_gateway", "unsubscribe_1")]


@pytest.mark.parametrize("column,value", [
    ("verdict", "'b'"), ("created_by", "'op:1'"), ("inbox_id", "0"),
    ("tenant_id", "0"), ("expires_at", "now()")])
def test_the_zone_makes_no_other_entry(w, news, su, column, value):
    """Were the function wrong, row security would still say no."""
    row = dict(tenant_id=str(news.tenant), inbox_id=str(news.inbox),
               entry="'a@x.example'", verdict="'s'", reason="'r'",
               created_by="'recipient'", expires_at="NULL")
    row[column] = value
    cur = su.cursor()
    cur.execute("BEGIN; SET LOCAL ROLE p_relay")
    try:
        with pytest.raises((psycopg2.errors.InsufficientPrivilege,
                            psycopg2.errors.CheckViolation)):
            cur.execute("INSERT INTO d.list_entry (%s) VALUES (%s)" % (
                ", ".join(row), ", ".join(row.values())))
    finally:
        cur.execute("ROLLBACK")
