# SPDX-License-Identifier: ISC
"""Tokens that make inboxes: their own, so many, and nothing that is in them."""
import os

import pytest

from pgcluster import call, call1, sha256, submit, uuid7
from test_gate import one, state


def token(w, tenant, rights="clpd", step_up=True, s=None, **over):
    a = os.urandom(32)
    if step_up:
        w.step_up(w.root)
    args = dict(s=w.root if s is None else s, uid=0, tenant=tenant,
                name="robot",
                auth=sha256(a), rights=rights, domains=None, plan="default",
                max_inboxes=5, test=False, days=1)
    args.update(over)
    r = call1(w.ctl, "provisioner_create_1", **args)
    return r, dict(t=tenant, k=r["key_id"], a=a)


@pytest.fixture()
def tok(w):
    r, t = token(w, w.tenants[0])
    assert r["status"] == 200, r
    return t


count = [0]


def name(host="t0.example"):
    count[0] += 1
    return "made%d@%s" % (count[0], host)


def make(w, tok, address=None, code=None, **over):
    args = dict(new_address=address or name(), display_name=None, is_test=None,
                client_id=None, claim_sha256=sha256(code or os.urandom(16)))
    args.update(over)
    return call1(w.gw, "prov_create_1", **args, **tok)


def claim(w, code):
    return call1(w.gw, "claim_1", claim=code, full_auth=os.urandom(32),
                 send_auth=os.urandom(32), pub=os.urandom(32),
                 wrapped=b"w" * 72)


def listed(w, tok, **over):
    return call(w.gw, "prov_list_1", **dict(
        dict(after=None, lim=100), **over), **tok)


def test_from_token_to_key(w, tok, su):
    code = os.urandom(16)
    r = make(w, tok, code=code, display_name="Robot 1")
    assert (r["status"], r["test"]) == (201, False)
    got, = listed(w, tok)
    assert (got["address"], got["claimed"], got["paused"], got["mode"],
            got["display_name"]) == (r["address"], False, False, 2,
                                     "Robot 1")
    assert claim(w, code)["address"] == r["address"]
    assert listed(w, tok)[0]["claimed"]
    me = call1(w.gw, "prov_me_1", **tok)
    assert (me["rights"], me["max_inboxes"], me["inboxes"], me["name"],
            me["tenant_slug"]) == ("clpd", 5, 1, "robot", "tenant0")
    assert one(su, "SELECT actor FROM d.audit WHERE event = 'inbox.create' "
               "ORDER BY at DESC LIMIT 1") == "prov:%d.%d" % (tok["t"],
                                                              tok["k"])


def test_only_its_own(w, tok, x):
    """Not those of operators, of another token, of another tenant."""
    _, near = token(w, w.tenants[0])
    _, far = token(w, w.tenants[1])
    theirs = make(w, near)["address"], make(
        w, far, name("t1.example"))["address"], x.address, "no@t0.example"
    for address in theirs:
        for fn, more in (("prov_pause_1", {}), ("prov_delete_1", {}),
                         ("prov_code_1", dict(claim_sha256=os.urandom(32)))):
            r = call1(w.gw, fn, which=address, **more, **tok)
            assert r["status"] == 404, (fn, address)
    assert listed(w, tok) == []
    assert make(w, tok, name("t1.example"))["code"] == "domain_not_verified"
    assert make(w, tok, x.address)["code"] == "state_conflict"


def test_it_is_no_key_and_no_key_is_one(w, tok, x):
    """Nor is a token of another tenant, a wrong or dead secret."""
    dead, gone = token(w, w.tenants[0]), token(w, w.tenants[0])
    assert call1(w.ctl, "provisioner_end_1", s=w.root, uid=0,
                 tenant=w.tenants[0], key=dead[1]["k"])["status"] == 200
    su_gone = gone[1]
    call1(w.ctl, "provisioner_rotate_1", s=w.root, uid=0,
          tenant=w.tenants[0], key=su_gone["k"], auth=os.urandom(32))
    bad = [dict(tok, a=os.urandom(32)), dict(tok, a=None),
           dict(tok, t=w.tenants[1]), dict(tok, k=10**9), dead[1], su_gone,
           dict(t=x.tenant, k=x.full_key, a=x.full_a)]
    for who in bad:
        assert make(w, who)["status"] == 401, who
        assert call1(w.gw, "prov_me_1", **who)["tenant_slug"] is None
        assert [r["status"] for r in listed(w, who)] == [401]
        for fn, more in (("prov_pause_1", {}), ("prov_delete_1", {}),
                         ("prov_code_1", dict(claim_sha256=os.urandom(32)))):
            r = call1(w.gw, fn, which=x.address, **more, **who)
            assert r["status"] == 401
    for fn, more in (("auth_1", dict(handle=None)), ("keys_1", {}),
                     ("my_inbox_1", {}),
                     ("my_list_1", dict(after=None, lim=9, states=None,
                                        since=None, until=None, label=None))):
        r = call(w.gw, fn, **more, **tok)
        assert [q["status"] for q in r] == [401], fn
    assert submit(w.gw, x.message(key=(tok["k"], tok["a"])))["status"] == 401


@pytest.mark.parametrize("right", "clpd")
def test_what_it_may(w, right):
    r, tok = token(w, w.tenants[0], rights=right)
    assert r["status"] == 200
    want = {k: 200 if k == right else 403 for k in "clpd"}
    assert make(w, tok)["status"] == (201 if right == "c" else 403)
    got = listed(w, tok)
    assert [q["status"] for q in got] == ([403] if right not in "lc" else
                                          [] if right == "l" else [403])
    for fn, need in (("prov_pause_1", "p"), ("prov_delete_1", "d")):
        r = call1(w.gw, fn, which="no@t0.example", **tok)
        assert r["status"] == (404 if want[need] == 200 else 403)


def test_so_many_and_no_more(w, tok, su):
    boxes = [make(w, tok)["address"] for _ in range(5)]
    assert make(w, tok)["code"] == "held_limit"
    # what was deleted today still counts today
    assert call1(w.gw, "prov_delete_1", which=boxes[0],
                 **tok)["status"] == 200
    assert make(w, tok)["code"] == "held_limit"
    su.cursor().execute("UPDATE d.inbox SET created_at = now() - interval "
                        "'2 days' WHERE provisioner = %s", (tok["k"],))
    assert make(w, tok)["status"] == 201
    assert make(w, tok)["code"] == "held_limit"


def test_once_for_a_client_id(w, tok):
    address, first, second = name(), os.urandom(16), os.urandom(16)
    a = make(w, tok, address, first, client_id="job-1")
    b = make(w, tok, address.upper(), second, client_id="job-1")
    assert (a["status"], b["status"]) == (201, 200)
    assert a["address"] == b["address"] and b["claim_until"]
    assert claim(w, first)["status"] == 410
    assert claim(w, second)["status"] == 200
    c = make(w, tok, address, client_id="job-1")
    assert (c["status"], c["claim_until"]) == (200, None)
    assert make(w, tok, client_id="job-1")["code"] == "idempotency_conflict"
    assert len(listed(w, tok)) == 1
    _, other = token(w, w.tenants[0])
    assert make(w, other, client_id="job-1")["status"] == 201


def test_a_new_code_until_it_has_an_owner(w, tok):
    old, new = os.urandom(16), os.urandom(16)
    box = make(w, tok, code=old)["address"]
    r = call1(w.gw, "prov_code_1", which=box, claim_sha256=sha256(new),
              **tok)
    assert r["status"] == 200 and r["claim_until"]
    assert claim(w, old)["status"] == 410
    assert claim(w, new)["status"] == 200
    r = call1(w.gw, "prov_code_1", which=box, claim_sha256=os.urandom(32),
              **tok)
    assert (r["status"], r["code"]) == (409, "state_conflict")


def test_pause_and_delete(w, tok, su):
    code, a, b = os.urandom(16), os.urandom(32), os.urandom(32)
    box = make(w, tok, code=code)["address"]
    r = call1(w.gw, "claim_1", claim=code, full_auth=sha256(a),
              send_auth=sha256(b), pub=os.urandom(32), wrapped=b"w" * 72)
    x = w.inboxes[0].__class__()
    x.tenant, x.inbox, x.address = tok["t"], r["inbox_id"], box
    x.full_key, x.full_a = r["full_key"], a
    x.send_key, x.send_a = r["send_key"], b
    for _ in range(2):
        assert call1(w.gw, "prov_pause_1", which=box, **tok)["status"] == 200
    assert listed(w, tok)[0]["paused"]
    m = x.message()
    assert submit(w.gw, m)["reasons"] == "paused"
    kept = w.inbox(w.tenants[0], "kept-%s" % x.address)
    for who in (x, kept):
        assert call1(w.gw, "draft_put_1", t=who.tenant, k=who.full_key,
                     a=who.full_a, draft=uuid7(), ver=0, epoch=1,
                     box=b"b" * 80, head=b"h", body=b"b", idem=None,
                     request=os.urandom(32))["status"] == 201
    r = call1(w.gw, "prov_delete_1", which=box, **tok)
    assert (r["status"], r["ended"]) == (200, 1)
    # what nothing opens any more goes with the next maintenance
    call(w.ctl, "maintain_1", uid=0, weeks_ahead=4, body_days=30,
         meta_days=400, after_gap=None)
    assert [one(su, "SELECT count(*) FROM d.draft WHERE inbox_id = %s",
                who.inbox) for who in (x, kept)] == [0, 1]
    assert submit(w.gw, x.message())["status"] == 401
    assert listed(w, tok) == []
    w.sweep()
    assert state(su, m)[0] == 4
    assert make(w, tok, box)["code"] == "state_conflict"  # the address rests


def test_a_token_for_test_inboxes_and_one_domain(w):
    r, tok = token(w, w.tenants[0], test=True, domains="T0.example")
    assert r["status"] == 200
    assert make(w, tok, is_test=False)["test"] is True
    r, tok = token(w, w.tenants[0], domains="t1.example")
    assert (r["status"], r["code"]) == (404, "not_found")


def test_who_makes_tokens(w):
    w.step_up(w.root)
    admin = w.operator("admin-prov", "admin", tenant=w.tenants[1])
    senior = w.operator("senior-prov", "senior", tenant=w.tenants[0])
    for s, want in ((os.urandom(32), 401), (b"", 401), (senior, 403),
                    (admin, 403)):
        r, _ = token(w, w.tenants[0], step_up=False, s=s)
        assert r["status"] == want
        for fn, more in (("provisioners_1", {}),
                         ("provisioner_end_1", dict(key=1)),
                         ("provisioner_rotate_1",
                          dict(key=1, auth=os.urandom(32)))):
            r = call(w.ctl, fn, s=s, uid=0, tenant=w.tenants[0],
                     **more)
            assert [q["status"] for q in r] == [want], fn
    r, _ = token(w, w.tenants[1], step_up=False, s=admin)
    assert (r["status"], r["code"]) == (403, "step_up_required")
    for over in (dict(rights=""), dict(rights="x"), dict(rights=None),
                 dict(auth=b"x"), dict(name=""), dict(name="a\nb"),
                 dict(max_inboxes=0), dict(max_inboxes=10**6),
                 dict(days=0), dict(days=10**6), dict(test=None)):
        assert token(w, w.tenants[0], **over)[0]["status"] == 422, over
    assert token(w, w.tenants[0], plan="none")[0]["status"] == 404
    r = call(w.ctl, "provisioners_1", s=w.root, uid=0, tenant=w.tenants[0])
    assert r and all(q["status"] == 200 for q in r)
    assert "auth_sha256" not in r[0]
