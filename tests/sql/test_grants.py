# SPDX-License-Identifier: ISC
"""A view into another inbox: an operator offers, its own key accepts, it ends;
every look is written down; nobody else sees a thing."""
import os

import pytest

from pgcluster import call, call1, sha256, submit
from test_agents import key, session_of
from test_gate import one


def offer(w, x, y, messages=True, s=None, step_up=True, **over):
    if step_up:
        w.step_up(w.root)
    args = dict(s=w.root if s is None else s, uid=0, tenant=x.tenant,
                inbox=x.inbox, grantee=y.inbox, messages=messages, days=1)
    args.update(over)
    return call1(w.ctl, "grant_offer_1", **args)


def accept(w, x, g, messages=True, who=None, **over):
    args = dict(permit=g, epoch=1 if messages else None,
                other_epoch=1 if messages else None,
                box=b"x" * 80 if messages else None)
    args.update(over)
    return call1(w.gw, "grant_accept_1", **args, **(who or key(x)))


def seen(w, y, g, who=None, **over):
    return call(w.gw, "granted_list_1", **dict(
        dict(permit=g, mid=None, after=None, lim=50), **over),
        **(who or key(y)))


def opened(w, y, g, mid, who=None):
    return call1(w.gw, "granted_get_1", permit=g, mid=mid,
                 **(who or key(y)))


def body(w, y, g, mid, who=None):
    return call(w.gw, "granted_body_1", permit=g, mid=mid, from_seq=0, lim=9,
                **(who or key(y)))


def looks(w, y, g, mid, who=None):
    """The status of each way to look."""
    return {seen(w, y, g, who)[0]["status"] if seen(w, y, g, who) else 200,
            seen(w, y, g, who, mid=mid)[0]["status"],
            opened(w, y, g, mid, who)["status"],
            body(w, y, g, mid, who)[0]["status"]}


@pytest.fixture()
def y(w):
    w.count = getattr(w, "count", 0) + 1
    return w.inbox(w.tenants[0], "reader%d@t0.example" % w.count)


@pytest.fixture()
def m(w, x):
    m = x.message(subject="of the target")
    assert submit(w.gw, m)["status"] == 202
    return m


def test_from_an_offer_to_a_look(w, x, y, m, su):
    other = y.message()
    assert submit(w.gw, other)["status"] == 202
    r = offer(w, x, y)
    g = r["permit_id"]
    assert (r["status"], looks(w, y, g, m["mid"])) == (200, {404})
    k = call1(w.gw, "grant_key_1", permit=g, **key(x))
    assert (k["status"], k["messages"], k["epoch"], k["other_epoch"]) == (
        200, True, 1, 1)
    assert k["wrapped"] and k["pub"] and k["other_pub"]
    assert accept(w, x, g)["status"] == 200
    assert accept(w, x, g)["code"] == "state_conflict"
    row, = seen(w, y, g)
    assert (row["message_id"], row["state"], row["subject"], row["rcpts"],
            row["digest"]) == (m["mid"], 1, "of the target", m["rcpts"],
                               m["dig"])
    got = opened(w, y, g, m["mid"])
    assert (got["grant_box"], got["inbox_box"], got["inbox_id"]) == (
        b"x" * 80, m["inbox_box"], x.inbox)
    assert got["wrapped"] and got["own_pub"] and got["inbox_pub"]
    assert [r["data"] for r in body(w, y, g, m["mid"])] == [m["body"]]
    # its own mail is not in it, nor does anything else open
    assert opened(w, y, g, other["mid"])["status"] == 404
    assert seen(w, y, g, mid=other["mid"])[0]["status"] == 404
    assert call1(w.gw, "my_get_1", mid=m["mid"], **key(y))["status"] == 404
    assert call1(w.gw, "cancel_1", mid=m["mid"], **key(y))["status"] == 404
    for who, given in ((x, True), (y, False)):
        row = call(w.gw, "my_grants_1", lim=9, **key(who))[0]
        assert (row["permit_id"], row["given"], row["messages"]) == (
            g, given, True)
    # each thing looked at is there: who, which grant, which message, how
    assert told(su, y, g) == [(None, "list", None), (m["mid"], "message", None),
                              (m["mid"], "body", None)]
    assert row["reads"] == 5


def told(su, y, g):
    """What the audit log has of looks under it, in order."""
    cur = su.cursor()
    cur.execute("SELECT message_id, detail::json->>'what', (detail::json->>"
                "'times')::int FROM d.audit WHERE event = 'grant.read' AND "
                "actor = %s AND detail::json->>'grant' = %s ORDER BY n",
                ("agent:%d.%d" % (y.tenant, y.full_key), str(g)))
    return cur.fetchall()


def test_a_loop_fills_no_log(w, x, y, m, su):
    """What is looked at again is counted; the count is told once an hour, by
    maintenance when nobody looks any more, and when the grant is over."""
    g = offer(w, x, y)["permit_id"]
    assert accept(w, x, g)["status"] == 200
    first = [(None, "list", None), (m["mid"], "state", None),
             (m["mid"], "message", None), (m["mid"], "body", None)]

    def older():
        su.cursor().execute("UPDATE d.permit_look SET since = since - "
                            "interval '61 minutes' WHERE permit_id = %s", (g,))

    def maintain():
        assert {r["status"] for r in call(w.ctl, "maintain_1", uid=0, **{
            n: None for n in ("weeks_ahead", "body_days", "meta_days",
                      "after_gap")})} == {
                200}
    for _ in range(20):
        for mid in (None, m["mid"], os.urandom(16).hex()):
            seen(w, y, g, mid=mid)
        opened(w, y, g, m["mid"])
        body(w, y, g, m["mid"])
    assert told(su, y, g) == first
    maintain()
    assert told(su, y, g) == first
    # 100 looks, four of them the first of their kind
    older()
    seen(w, y, g)
    assert told(su, y, g) == first + [(None, "again", 97)]
    seen(w, y, g)
    older()
    maintain()
    maintain()
    assert told(su, y, g) == first + [(None, "again", 97), (None, "again", 1)]
    opened(w, y, g, m["mid"])
    assert one(su, "SELECT reads FROM d.permit WHERE permit_id = %s", g) == 103
    assert call1(w.gw, "grant_leave_1", permit=g, **key(x))["status"] == 200
    assert looks(w, y, g, m["mid"]) == {404}
    maintain()
    assert told(su, y, g)[-1] == (None, "again", 1) and len(told(su, y, g)) == 7
    assert one(su, "SELECT count(*) FROM d.permit_look WHERE permit_id = %s",
               g) == 0


def test_states_alone(w, x, y, m):
    g = offer(w, x, y, messages=False)["permit_id"]
    assert accept(w, x, g, True)["status"] == 422
    assert accept(w, x, g, False)["status"] == 200
    row, = seen(w, y, g)
    assert (row["message_id"], row["state"]) == (m["mid"], 1)
    assert all(row[c] is None for c in ("subject", "rcpts", "mail_from",
                                        "size", "digest", "thread_id"))
    assert opened(w, y, g, m["mid"])["status"] == 403
    assert body(w, y, g, m["mid"])[0]["status"] == 403


def test_nobody_else(w, x, y, m):
    g = offer(w, x, y)["permit_id"]
    for who in (key(y), key(x, "send"), session_of(w, x), key(w.inboxes[3]),
                dict(key(x), a=os.urandom(32))):
        want = 401 if len(set(who.values()) & {x.full_key}) and \
            who["a"] != x.full_a else None
        for r in (accept(w, x, g, who=who),
                  call1(w.gw, "grant_key_1", permit=g, **who)):
            assert r["status"] == want or r["status"] in (403, 404)
            assert r.get("wrapped") is None and r.get("other_pub") is None
    assert accept(w, x, g)["status"] == 200
    for who in (key(y, "send"), session_of(w, y), key(x), key(w.inboxes[1]),
                key(w.inboxes[3]), dict(key(y), a=os.urandom(32))):
        assert looks(w, y, g, m["mid"], who) <= {401, 403, 404}, who
        for r in seen(w, y, g, who) + body(w, y, g, m["mid"], who):
            assert r.get("message_id") is None and r.get("data") is None
        assert opened(w, y, g, m["mid"], who)["grant_box"] is None
    assert looks(w, y, g + 1, m["mid"]) == {404}
    third = call1(w.gw, "grant_leave_1", permit=g, **key(w.inboxes[1]))
    assert third["status"] == 404


@pytest.mark.parametrize("how", ["target", "reader", "operator", "time",
                                 "reset", "reader reset", "deleted"])
def test_it_ends(w, x, y, m, su, how):
    g = offer(w, x, y)["permit_id"]
    assert accept(w, x, g)["status"] == 200
    assert looks(w, y, g, m["mid"]) == {200}
    if how in ("target", "reader"):
        assert call1(w.gw, "grant_leave_1", permit=g, **key(
            x if how == "target" else y))["status"] == 200
    elif how == "operator":
        assert call1(w.ctl, "grant_end_1", s=w.root, uid=0, tenant=x.tenant,
                     permit=g)["status"] == 200
    elif how == "time":
        su.cursor().execute("UPDATE d.permit SET expires_at = now() WHERE "
                            "permit_id = %s", (g,))
    elif how == "deleted":
        w.step_up(w.root)
        assert call1(w.ctl, "inbox_delete_1", s=w.root, uid=0,
                     tenant=x.tenant, inbox=x.inbox,
                     reason="r")["status"] == 200
    else:
        w.step_up(w.root)
        box = y if how == "reader reset" else x
        assert call1(w.ctl, "inbox_reset_1", s=w.root, uid=0,
                     tenant=box.tenant, inbox=box.inbox,
                     claim_sha256=os.urandom(32))["status"] == 200
    assert looks(w, y, g, m["mid"]) <= {404, 401}
    if how != "time":
        assert one(su, "SELECT box IS NULL AND ended_at IS NOT NULL AND "
                   "ended_by <> '' FROM d.permit WHERE permit_id = %s", g)
    if how not in ("reset", "deleted"):
        assert accept(w, x, g)["status"] == 404


def test_who_may_offer(w, x, y):
    senior = w.operator("senior-grant%d" % x.inbox, "senior",
                        tenant=w.tenants[0])
    far = w.operator("senior-far%d" % x.inbox, "senior", tenant=w.tenants[1])
    rev = w.operator("rev-grant%d" % x.inbox, "reviewer",
                     tenant=w.tenants[0])
    half = w.operator("half-grant%d" % x.inbox, "senior",
                      tenant=w.tenants[0], inbox=x.inbox)
    for s, want in ((os.urandom(32), 401), (b"", 401), (far, 403),
                    (rev, 403), (half, 403)):
        assert offer(w, x, y, s=s, step_up=False)["status"] == want
    r = offer(w, x, y, s=senior, step_up=False)
    assert (r["status"], r["code"]) == (403, "step_up_required")
    w.step_up(senior, "senior-grant%d" % x.inbox)
    assert offer(w, x, y, s=senior)["status"] == 200
    for over in (dict(days=0), dict(days=91), dict(days=None),
                 dict(messages=None)):
        assert offer(w, x, y, **over)["status"] == 422, over
    assert offer(w, x, x)["status"] == 422
    assert offer(w, x, w.inboxes[3])["status"] in (403, 404)
    rows = call(w.ctl, "grants_1", s=senior, uid=0, tenant=w.tenants[0])
    assert rows[0]["inbox"] == x.address and "box" not in rows[0]
    for s in (far, rev, b""):
        r = call(w.ctl, "grants_1", s=s, uid=0, tenant=w.tenants[0])
        assert [q["status"] for q in r] in ([403], [401])
        r = call1(w.ctl, "grant_end_1", s=s, uid=0, tenant=w.tenants[0],
                  permit=rows[0]["permit_id"])
        assert r["status"] in (401, 403)
