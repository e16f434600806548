# SPDX-License-Identifier: ISC
"""Submission: own outcome per row, repeats, counters, uploads, threads."""
import json
import os
import time

import psycopg2
import pytest

from period import DAY, within
from pgcluster import (SUBMIT, call, call1, sha256, submit, submit_batch,
                       uuid7)
from test_gate import one, state, tag


def test_one_bad_row_never_fails_its_neighbours(w, x, su):
    """All that an agent can bring about."""
    y = w.inboxes[2]
    gone = uuid7(time.time() - 4000)
    cases = [
        (x.message(), 202, None),
        (y.message(), 202, None),
        (dict(x.message(), a=os.urandom(32)), 401, "unknown_api_key"),
        (dict(x.message(), a=None), 401, "unknown_api_key"),
        (dict(x.message(), a=b"short"), 401, "unknown_api_key"),
        (dict(x.message(), k=10**9), 401, "unknown_api_key"),
        (dict(x.message(), t=None), 401, "unknown_api_key"),
        (dict(x.message(), a=b"h" * 24), 503, "store_unavailable"),
        (x.message(mid=gone), 503, "store_unavailable"),
        (x.message(chunks=2), 422, "validation_error"),
        (x.message(door="smtp"), 422, "validation_error"),
        (dict(x.message(), body=None), 422, "validation_error"),
        (dict(x.message(), send_at=-5), 422, "validation_error"),
        (dict(x.message(), send_at=5), 412, "digest_mismatch"),
        (x.message(not_after=1), 422, "validation_error"),
        (x.message(rcpts=["nobody"]), 422, "invalid_address"),
        (x.message(rcpts=["a@x.example@"]), 422, "invalid_address"),
        (x.message(rcpts=["@@x.example"]), 422, "invalid_address"),
        (dict(x.message(), rcpts=""), 422, "invalid_address"),
        (dict(x.message(["a@x.example", "b@x.example"]),
              rcpts="b@x.example\na@x.example"), 422, "invalid_address"),
        (dict(x.message(["a@x.example", "b@x.example"]),
              rcpts="a@x.example\na@x.example"), 422, "invalid_address"),
        (x.message(["a@x.example\r"]), 422, "invalid_address"),
        (x.message(["r%d@x.example" % i for i in range(101)]), 422,
         "too_many_recipients"),
        (x.message(size=52428801), 413, "payload_too_large"),
        (x.message(key=(x.full_key, x.full_a)), 202, None),
        (x.message(), 202, None),
    ]
    got = submit_batch(w.gw, [c[0] for c in cases])
    assert [r["ord"] for r in got] == list(range(1, len(cases) + 1))
    for r, (m, status, code) in zip(got, cases):
        assert (r["status"], r["code"]) == (status, code), (r, m)
    for m, status, _ in cases:
        if m["mid"]:
            assert (state(su, m) is not None) == (status == 202)
    # One at a time they end the same.
    for m, status, code in cases:
        if status not in (202, 200):
            r = submit(w.gw, m)
            assert (r["status"], r["code"]) == (status, code)


def test_what_only_a_broken_gateway_sends(w, x, su):
    """The tables refuse it for the whole batch; alone it has a code."""
    cases = [
        (x.message(dig=sha256(b"x")), "digest_mismatch"),
        (x.message(body_tag=b"short"), "validation_error"),
        (x.message(body=b""), "validation_error"),
        (x.message(door="z"), "validation_error"),
        (x.message(door="e"), "validation_error"),
        (x.message(risk=101), "validation_error"),
        (x.message(request=b"short"), "validation_error"),
        (x.message(idem=b"short"), "validation_error"),
        (x.message(tenant_box=None), "validation_error"),
        (x.message(tenant_box=b"t" * 513), "validation_error"),
        (x.message(kinds="tt"), "invalid_address"),
        (x.message(kinds="z"), "invalid_address"),
        (x.message(context="c" * 9000), "validation_error"),
        (x.message(labels="c" * 4097), "validation_error"),
        (x.message(refs="c" * 16385), "validation_error"),
        (x.message(rfc_id="c" * 999), "validation_error"),
        (dict(x.message(), attachments=-1), "validation_error"),
        (dict(x.message(), size=-1), "validation_error"),
    ]
    for m, code in cases:
        good = x.message()
        with pytest.raises(psycopg2.IntegrityError):
            submit_batch(w.gw, [good, m])
        assert state(su, good) is None
        assert submit(w.gw, m)["code"] == code, m
        assert state(su, m) is None
    good = x.message()
    got = submit_batch(w.gw, [good, dict(x.message(), mid=None)])
    assert [r["code"] for r in got] == [None, "validation_error"]
    assert state(su, good) is not None


def test_rows_may_come_in_any_order(w, x, su):
    """Each inbox keeps one count, however its rows are spread."""
    within(DAY, 30)
    y = w.inbox(x.tenant, "second." + x.address)
    for q in (x, y):
        assert call1(w.ctl, "limits_set_1", s=w.root, uid=0, tenant=q.tenant,
                     inbox=q.inbox, plan=None, hour=None, day=3, month=None,
                     held=None, bytes=None)["status"] == 200
    got = submit_batch(w.gw, [(x, y)[i % 2].message() for i in range(10)])
    assert [r["status"] for r in got] == [202] * 6 + [429] * 4
    for q in (x, y):
        assert one(su, "SELECT held FROM d.quota WHERE inbox_id = %s",
                   q.inbox) == 3


def test_an_empty_batch(w):
    assert submit_batch(w.gw, []) == []


def test_a_repeated_id_is_answered_not_stored_twice(w, x, su):
    m = x.message()
    assert submit(w.gw, m)["status"] == 202
    r = submit(w.gw, m)
    assert (r["status"], r["replay"], r["message_id"]) == (200, True,
                                                           m["mid"])
    r = submit(w.gw, x.message(mid=m["mid"], rcpts=["e@e.example"]))
    assert (r["status"], r["code"]) == (409, "state_conflict")
    n = x.message()
    got = submit_batch(w.gw, [n, n, n])
    assert [r["status"] for r in got] == [202, 200, 200]
    assert one(su, "SELECT count(*) FROM d.message WHERE message_id = %s",
               n["mid"]) == 1


def test_idempotency(w, x, su):
    key = os.urandom(32)
    m = x.message(idem=key)
    assert submit(w.gw, m)["status"] == 202
    again = x.message(idem=key, request=m["request"])
    r = submit(w.gw, again)
    assert (r["status"], r["message_id"], r["replay"], r["state"]) == (
        200, m["mid"], True, 1)
    assert r["digest"] == m["dig"]
    r = submit(w.gw, x.message(idem=key))
    assert (r["status"], r["code"]) == (409, "idempotency_conflict")
    # The answer tells the present state.
    w.reject(m)
    assert submit(w.gw, again)["state"] == 3
    # Another key is another lineage; another inbox another world.
    assert submit(w.gw, x.message(idem=key, request=m["request"], key=(
        x.full_key, x.full_a)))["status"] == 202
    y = w.inboxes[1]
    assert submit(w.gw, y.message(idem=key, request=m["request"]))[
        "status"] == 202
    # Twice in one call: the second meets the first.
    key = os.urandom(32)
    a = x.message(idem=key)
    b = x.message(idem=key, request=a["request"])
    c = x.message(idem=key)
    got = submit_batch(w.gw, [a, b, c, x.message()])
    assert [r["status"] for r in got] == [202, 200, 409, 202]
    assert got[1]["message_id"] == a["mid"]
    # A failed one does not take the key.
    key = os.urandom(32)
    assert submit(w.gw, x.message(idem=key, dig=sha256(b"x")))[
        "status"] == 412
    assert submit(w.gw, x.message(idem=key))["status"] == 202


def again(w, m, **other):
    args = {k: m[k] for k in ("t", "k", "a", "idem", "request")}
    return call1(w.gw, "submit_again_1", smtp=m["door"] == "s",
                 **dict(args, **other))


def test_a_key_is_asked_for_alone(w, x, su):
    m = x.message(idem=os.urandom(32))
    assert again(w, m)["status"] == 404
    assert submit(w.gw, m)["status"] == 202
    was = one(su, "SELECT count(*) FROM d.audit")
    r = again(w, m)
    assert (r["status"], r["message_id"], r["digest"], r["state"], r[
        "replay"], r["already_held"]) == (200, m["mid"], m["dig"], 1, True,
                                          False)
    r = again(w, m, request=os.urandom(32))
    assert (r["status"], r["code"], r["message_id"]) == (
        409, "idempotency_conflict", None)
    # by its own lineage alone, in its own inbox, with its own secret
    y = w.inboxes[1]
    for key, a, status in ((x.full_key, x.full_a, 404),
                           (y.send_key, y.send_a, 404),
                           (x.send_key, y.send_a, 401),
                           (x.send_key, None, 401)):
        r = again(w, m, k=key, a=a)
        assert (r["status"], r["message_id"]) == (status, None), key
    assert one(su, "SELECT count(*) FROM d.audit") == was
    w.reject(m)
    assert again(w, m)["state"] == 3


STOPS = {
    "missing_permission": "UPDATE d.inbox SET suspended_at = now() "
                          "WHERE inbox_id = %(inbox)s",
    "inbox_read_only": None,
    "domain_not_verified": "UPDATE d.domain SET removed_at = now() "
                           "WHERE domain = split_part(%(address)s, '@', 2)",
}


@pytest.mark.parametrize("code", STOPS)
def test_what_was_stored_is_told_after_its_inbox_was_stopped(w, x, su, code):
    """Whatever happened since but the end of the key (0119)."""
    y = w.inbox(x.tenant, "%s.%s" % (code.replace("_", "-"), x.address))
    idem = os.urandom(32)
    m, plain, gone = y.message(idem=idem), y.message(), y.message()
    assert [r["status"] for r in submit_batch(w.gw, [m, plain, gone])] == \
        [202] * 3
    w.reject(gone)
    cur = su.cursor()
    was = one(su, "SELECT row(q.*)::text FROM d.quota q WHERE inbox_id = %s",
              y.inbox)
    cases = [  # what comes; status, code and id of the answer
        (y.message(idem=idem, request=m["request"]), 200, None, m),
        (y.message(request=plain["request"]), 200, None, plain),
        (dict(gone), 200, None, gone),  # a gateway that lost the answer
        (y.message(idem=idem), 409, "idempotency_conflict", m),
        (y.message(request=gone["request"]), 403, code, None),
        (y.message(request=plain["request"], duplicate=True), 403, code, None),
        (y.message(), 403, code, None),
        (y.message(idem=os.urandom(32)), 403, code, None),
        (y.message(idem=idem, request=m["request"],
                   key=(y.full_key, y.full_a)), 403, code, None),
        (dict(y.message(idem=idem, request=m["request"]), a=os.urandom(32)),
         401, "unknown_api_key", None),
    ]
    try:
        if STOPS[code]:
            cur.execute(STOPS[code], {"inbox": y.inbox, "address": y.address})
        else:
            w.mode(y, 0)
        # neighbours of the same call are stored as ever
        free = w.inboxes[2]
        theirs = free.message(idem=idem, request=m["request"])
        batch = submit_batch(w.gw, [c[0] for c in cases] + [theirs])
        alone = [submit(w.gw, c[0]) for c in cases]
        assert [r["ord"] for r in sorted(batch, key=lambda r: r["ord"])] == \
            list(range(1, len(cases) + 2))
        batch = sorted(batch, key=lambda r: r["ord"])
        assert (batch[-1]["status"], batch[-1]["message_id"]) == (
            202, theirs["mid"])
        for got in (batch, alone):
            for r, (sent, status, why, of) in zip(got, cases):
                about = (r, sent["mid"])
                assert (r["status"], r["code"]) == (status, why), about
                assert r["message_id"] == (of or sent)["mid"], about
                assert r["replay"] == (status == 200), about
                assert bytes(r["digest"] or b"") == (
                    of["dig"] if status == 200 else b""), about
            assert [r["state"] for r in got[:3]] == [1, 1, 3]
            assert [r["already_held"] for r in got[:3]] == [False, True, False]
        for sent, status, _, of in cases:
            if of is None:
                assert state(su, sent) is None
        assert one(su, "SELECT row(q.*)::text FROM d.quota q WHERE inbox_id "
                   "= %s", y.inbox) == was
        # a key that is over is told nothing
        cur.execute("UPDATE d.credential SET revoked_at = now() "
                    "WHERE tenant_id = %s AND key_id = %s",
                    (y.tenant, y.send_key))
        r = submit(w.gw, cases[0][0])
        assert (r["status"], r["code"]) == (401, "unknown_api_key")
    finally:
        cur.execute("UPDATE d.domain SET removed_at = NULL")


def test_an_old_smtp_key_is_overwritten(w, x, su):
    key = os.urandom(32)
    m = x.message(idem=key, door="s")
    submit(w.gw, m)
    assert again(w, m)["status"] == 200
    su.cursor().execute("UPDATE d.idem SET created_at = now() - interval "
                        "'25 hours' WHERE key_sha256 = %s", (key,))
    assert again(w, m)["status"] == 404
    n = x.message(idem=key, door="s", request=m["request"])
    assert submit(w.gw, n)["status"] == 202
    r = submit(w.gw, x.message(idem=key, door="s", request=m["request"]))
    assert (r["status"], r["message_id"]) == (200, n["mid"])


def test_without_a_key_the_same_request_waits_once(w, x):
    m = x.message()
    submit(w.gw, m)
    same = lambda **o: x.message(request=m["request"], **o)  # noqa: E731
    r = submit(w.gw, same())
    assert (r["status"], r["already_held"], r["message_id"]) == (
        200, True, m["mid"])
    n = same(duplicate=True)
    assert submit(w.gw, n)["status"] == 202
    w.reject(m)
    w.reject(n)
    assert submit(w.gw, same())["status"] == 202


def test_two_committers_race_for_one_key(db, w, x):
    """The second waits for the first and then tells what it stored."""
    key = os.urandom(32)
    m = x.message(idem=key)
    n = x.message(idem=key, request=m["request"])
    a = db.connect("l_gateway", autocommit=False)
    assert submit(a, m)["status"] == 202
    import threading
    got = []
    b = db.connect("l_gateway")
    t = threading.Thread(target=lambda: got.append(submit(b, n)))
    t.start()
    a.commit()
    t.join(10)
    assert (got[0]["status"], got[0]["message_id"]) == (200, m["mid"])
    a.close()
    b.close()


@pytest.mark.parametrize("limit,code", [
    ({"day": 1}, "rate_limited"), ({"month": 1}, "rate_limited"),
    ({"held": 1}, "held_limit"), ({"bytes": 6}, "held_limit")])
def test_two_committers_race_for_the_last_place(db, w, x, limit, code):
    """The second waits for the counter's row and counts what it finds then."""
    import threading
    within(DAY, 60)
    y = w.inbox(x.tenant, "%s.%s" % (list(limit)[0], x.address))
    assert call1(w.ctl, "limits_set_1", s=w.root, uid=0, tenant=y.tenant,
                 inbox=y.inbox, **dict(dict.fromkeys(
                     ("plan", "hour", "day", "month", "held", "bytes")),
                     **limit))["status"] == 200
    a = db.connect("l_gateway", autocommit=False)
    assert submit(a, y.message())["status"] == 202
    for send in (lambda c: submit(c, y.message()),
                 lambda c: submit_batch(c, [w.inboxes[0].message(),
                                            y.message()])[1]):
        got = []
        b = db.connect("l_gateway")
        pid = b.get_backend_pid()
        t = threading.Thread(target=lambda: got.append(send(b)))
        t.start()
        if a.get_transaction_status():  # not committed yet
            with db.connect() as su:
                until = time.monotonic() + 10
                while not one(su, "SELECT count(*) FROM pg_locks WHERE pid = "
                              "%s AND NOT granted", pid):
                    assert time.monotonic() < until and t.is_alive()
            a.commit()
        t.join(10)
        assert (got[0]["status"], got[0]["code"]) == (429, code)
        b.close()
    a.close()


def test_limits_are_rows(w, x, su):
    within(DAY, 60)

    def limits(**kw):
        a = dict(plan=None, hour=None, day=None, month=None, held=None,
                 bytes=None)
        a.update(kw)
        r = call1(w.ctl, "limits_set_1", s=w.root, uid=0, tenant=x.tenant,
                  inbox=x.inbox, **a)
        assert r["status"] == 200
        return r["limits_version"]

    assert limits(day=5) > 1
    got = submit_batch(w.gw, [x.message() for _ in range(8)])
    assert [r["status"] for r in got] == [202] * 5 + [429] * 3
    assert got[5]["code"] == "rate_limited" and 0 < got[5]["wait"] <= 86400
    # Cancelling gives nothing back.
    assert call1(w.gw, "cancel_1", t=x.tenant, k=x.send_key, a=x.send_a,
                 mid=got[0]["message_id"])["status"] == 200
    assert submit(w.gw, x.message())["status"] == 429
    me = call1(w.gw, "auth_1", t=x.tenant, k=x.send_key, a=x.send_a,
               handle=None)
    assert (me["used_day"], me["held"]) == (5, 4)
    # A refused row took nothing; a rolled back one neither.
    limits(day=7)
    assert submit(w.gw, x.message(dig=sha256(b"x")))["status"] == 412
    w.gw.autocommit = False
    assert submit(w.gw, x.message())["status"] == 202
    w.gw.rollback()
    w.gw.autocommit = True
    assert [submit(w.gw, x.message())["status"] for _ in range(3)] == [
        202, 202, 429]
    limits(day=1000, held=8)
    got = submit_batch(w.gw, [x.message() for _ in range(4)])
    assert [r["code"] for r in got] == [None, None, "held_limit",
                                        "held_limit"]
    # The month.
    limits(held=1000, month=10)
    got = submit_batch(w.gw, [x.message() for _ in range(3)])
    assert [r["status"] for r in got] == [202, 429, 429]
    # Bytes that wait.
    limits(month=1000, bytes=1000)
    held = one(su, "SELECT held_bytes FROM d.quota WHERE inbox_id = %s",
               x.inbox)
    assert submit(w.gw, x.message(body=b"b" * (1001 - held)))[
        "code"] == "held_limit"
    assert submit(w.gw, x.message(body=b"b" * (1000 - held)))[
        "status"] == 202


def test_held_counts_follow_every_way_out(w, x, su):
    ms = [x.message() for _ in range(6)]
    submit_batch(w.gw, ms)

    def held():
        return one(su, "SELECT held FROM d.quota WHERE inbox_id = %s",
                   x.inbox)
    assert held() == 6
    w.reject(ms[0])
    w.approve(ms[1], undo=60)
    call1(w.gw, "cancel_1", t=x.tenant, k=x.send_key, a=x.send_a,
          mid=ms[2]["mid"])
    assert held() == 3
    call1(w.rv, "undo_1", s=w.root, mid=ms[1]["mid"], for_version=1,
          for_round=1)
    assert held() == 4
    su.cursor().execute("UPDATE d.state SET hold_until = now() "
                        "WHERE message_id = %s", (ms[3]["mid"],))
    w.sweep(100)
    assert held() == 3
    assert one(su, "SELECT held_bytes FROM d.quota WHERE inbox_id = %s",
               x.inbox) == 18


def put(w, x, mid, seq, data, key=None):
    k, a = key or (x.send_key, x.send_a)
    return call1(w.gw, "put_chunk_1", t=x.tenant, k=k, a=a, mid=mid, seq=seq,
                 data=data)


def test_uploads(w, x, su):
    mid = uuid7()
    parts = [os.urandom(262228), os.urandom(262228), os.urandom(7)]
    for i, p in enumerate(parts):
        assert put(w, x, mid, i, p)["status"] == 200
    assert put(w, x, mid, 1, parts[1])["status"] == 200
    assert put(w, x, mid, 1, b"other")["code"] == "state_conflict"
    assert put(w, x, mid, 3, b"x" * 262229)["status"] == 422
    assert put(w, x, mid, 4096, b"x")["status"] == 422
    assert put(w, x, mid, 0, b"")["status"] == 422
    # Another key of the same inbox cannot add to it, or finish less of it.
    assert put(w, x, mid, 3, b"x", (x.full_key, x.full_a))["status"] == 404
    short = x.message(mid=mid, body=b"z" * 9, chunks=2)
    assert submit(w.gw, dict(short, body=None))["status"] == 422
    m = dict(x.message(mid=mid, body=b"z" * 9, chunks=3), body=None)
    assert submit(w.gw, m)["status"] == 202
    assert put(w, x, mid, 3, b"late")["code"] == "state_conflict"
    got = call(w.gw, "my_body_1", t=x.tenant, k=x.full_key, a=x.full_a,
               mid=mid, from_seq=0, lim=16)
    assert [r["data"] for r in got] == parts
    assert one(su, "SELECT count(*) FROM d.upload WHERE message_id = %s",
               mid) == 0


def test_uploads_have_a_time_and_a_size(w, x, su):
    assert put(w, x, uuid7(time.time() - 700), 0, b"x")["status"] == 503
    mid = uuid7(time.time() - 590)
    assert put(w, x, mid, 0, b"x")["status"] == 200
    old = uuid7(time.time() - 25 * 3600)
    assert put(w, x, old, 0, b"x")["status"] == 503
    call1(w.ctl, "limits_set_1", s=w.root, uid=0, tenant=x.tenant,
          inbox=x.inbox, plan=None, hour=None, day=None, month=None,
          held=None, bytes=100)
    assert put(w, x, mid, 1, b"x" * 99)["status"] == 200
    assert put(w, x, mid, 2, b"x")["code"] == "held_limit"
    assert put(w, x, uuid7(), 0, b"x")["code"] == "held_limit"
    # What never became a message is swept.
    cur = su.cursor()
    stale = uuid7(time.time() - 26 * 3600)
    cur.execute("INSERT INTO d.upload VALUES (%s, %s, %s, %s, 1, 5)",
                (stale, x.tenant, x.inbox, x.send_key))
    cur.execute("INSERT INTO d.body VALUES (%s, %s, %s, 1, 0, 'abcde')",
                (stale, x.tenant, x.inbox))
    r = {q["what"]: q["n"] for q in call(
        w.ctl, "maintain_1", uid=0, weeks_ahead=4, body_days=30,
        meta_days=400, after_gap=None)}
    assert r["uploads removed"] == 1
    assert one(su, "SELECT count(*) FROM d.body WHERE message_id = %s",
               stale) == 0
    assert one(su, "SELECT count(*) FROM d.upload WHERE message_id = %s",
               mid) == 1


def test_an_inbox_is_changed_whole_or_not_at_all(w, x, su):
    """An agent cannot take back a stricter mode: what is refused for its
    metadata must not have set one."""
    def put(n, to_mode):
        return call1(w.gw, "inbox_set_1", t=x.tenant, k=x.full_key,
                     a=x.full_a, to_mode=to_mode, name=None, meta=json.dumps(
                         {"%d.%d" % (n, i): i for i in range(30)}))
    assert put(1, None)["status"] == 200
    assert put(2, 1)["code"] == "validation_error"
    assert one(su, "SELECT mode FROM d.inbox WHERE inbox_id = %s",
               x.inbox) == 2
    assert put(1, 3)["code"] == "missing_permission"
    got = put(1, 1)
    assert (got["status"], got["mode"]) == (200, 1)


def test_threads_stay_in_the_inbox(w, x):
    r = "<first.%d@x>" % x.inbox
    a = x.message(rfc_id=r)
    ta = submit(w.gw, a)["thread_id"]
    assert ta == a["mid"]
    assert submit(w.gw, x.message(in_reply_to=r))["thread_id"] == ta
    assert submit(w.gw, x.message(refs="<no@x>\n" + r))["thread_id"] == ta
    y = w.inboxes[0].message(in_reply_to=r)
    assert submit(w.gw, y)["thread_id"] == y["mid"]


def test_lists_of_the_agent(w, x):
    who = dict(t=x.tenant, k=x.send_key, a=x.send_a)
    ms = [x.message(labels="l%d\nall" % (i % 2)) for i in range(7)]
    for m in ms:
        submit(w.gw, m)
    w.reject(ms[3])

    def page(**o):
        a = dict(after=None, lim=100, states=None, since=None, until=None,
                 label=None)
        a.update(o)
        return [r["message_id"] for r in call(w.gw, "my_list_1", **who, **a)]
    newest = [m["mid"] for m in reversed(ms)]
    assert page() == newest
    assert page(lim=3) + page(after=newest[2], lim=100) == newest
    assert page(states="3") == [ms[3]["mid"]]
    assert page(states="1,3", label="l1") == [ms[i]["mid"]
                                              for i in (5, 3, 1)]
    assert page(label="all") == newest and page(label="al") == []


def test_durability_is_not_the_clients_option(w, x):
    """The function sets it for its transaction, whatever the session says."""
    cur = w.gw.cursor()
    cur.execute("SET synchronous_commit = off")
    w.gw.autocommit = False
    assert submit(w.gw, x.message())["status"] == 202
    cur.execute("SHOW synchronous_commit")
    assert cur.fetchone()[0] == "on"
    w.gw.rollback()
    w.gw.autocommit = True
    cur.execute("RESET synchronous_commit")


def test_sorted_batches_do_not_deadlock(db, w):
    """Four committers over the same inboxes, 40 batches each."""
    import threading
    errors = []

    def run(n):
        c = db.connect("l_gateway")
        for _ in range(40):
            batch = sorted((w.inboxes[i % 4] for i in range(12)),
                           key=lambda q: (q.tenant, q.inbox))
            try:
                got = submit_batch(c, [q.message() for q in batch])
                assert {r["status"] for r in got} == {202}
            except (psycopg2.Error, AssertionError) as e:
                errors.append(e)
        c.close()
    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []


def test_tightening_meets_a_batch_without_a_deadlock(db, w, x):
    """Both take the inbox first and its counters after."""
    import threading
    errors = []
    modes = [w.mode(x, 3)]
    done = threading.Event()

    def send():
        c = db.connect("l_gateway")
        while not done.is_set() and not errors:
            try:
                submit_batch(c, [x.message(**tag(), tag_mode=3,
                                           tag_mode_epoch=modes[-1])
                                 for _ in range(6)])
            except psycopg2.Error as e:
                errors.append(e)
        c.close()
    threads = [threading.Thread(target=send) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        w.rv.cursor().execute("SET statement_timeout = '20s'")
        for _ in range(15):
            w.mode(x, 2)
            modes.append(w.mode(x, 3))
    finally:
        done.set()
        for t in threads:
            t.join()
        w.rv.cursor().execute("RESET statement_timeout")
    assert errors == []


def test_a_worker_waits_behind_who_pauses(db, w, x, su):
    """Else workers that share the inbox in turn would keep him out."""
    import threading
    import uuid
    m = x.message()
    assert submit(w.gw, m)["status"] == 202
    w.approve(m)
    first, second = [db.connect("l_worker", autocommit=False)
                     for _ in range(2)]

    def dot(c):
        return call1(c, "dot_1", t=x.tenant, mid=m["mid"], dom="x.example",
                     lease=uuid.uuid4(), ix=[1])["status"]

    def waits(c):
        return one(su, "SELECT count(*) FROM pg_locks WHERE pid = %s "
                   "AND NOT granted", c.get_backend_pid()) > 0
    until = time.monotonic() + 20
    assert dot(first) == 409
    lower = threading.Thread(target=lambda: w.mode(x, 1))
    lower.start()
    while not waits(w.rv):
        assert time.monotonic() < until
    late = threading.Thread(target=lambda: dot(second))
    late.start()
    while late.is_alive() and not waits(second):
        assert time.monotonic() < until
    first.rollback()
    lower.join(10)
    stuck = lower.is_alive()
    late.join(10)
    second.rollback()
    lower.join(10)
    first.close()
    second.close()
    assert not stuck
    assert one(su, "SELECT mode FROM d.inbox WHERE inbox_id = %s",
               x.inbox) == 1


def test_a_suspension_meets_a_waiting_batch(db, w, x, su):
    """Who suspends has an answer only when nothing is stored after it."""
    import threading
    w.step_up(w.root)
    y = w.inboxes[0]
    a = db.connect("l_gateway", autocommit=False)
    assert submit(a, x.message())["status"] == 202
    got, said = [], []
    b = db.connect("l_gateway")

    def waits(c):
        return one(su, "SELECT count(*) FROM pg_locks WHERE pid = %s "
                   "AND NOT granted", c.get_backend_pid()) > 0
    first = threading.Thread(target=lambda: said.append(call1(
        w.rv, "suspend_1", s=w.root, tenant=x.tenant, inbox=x.inbox,
        suspended=True, reason="r")["status"]))
    rows = [x.message(), y.message()]
    second = threading.Thread(target=lambda: got.extend(submit_batch(
        b, rows)))
    until = time.monotonic() + 20
    for t, c in ((first, w.rv), (second, b)):
        t.start()
        while not waits(c):
            assert time.monotonic() < until
    a.rollback()
    first.join(10)
    second.join(10)
    assert said == [200]
    assert [(r["status"], r["code"]) for r in got] == [
        (403, "missing_permission"), (202, None)]
    a.close()
    b.close()


def test_inboxes_of_tenants_interleaved(db, w, su):
    """Whatever the planner takes first, rows keep their order."""
    boxes = [w.inbox(w.tenants[n % 2], "mix%d@t%d.example" % (n, n % 2))
             for n in range(6)]
    su.cursor().execute("ANALYZE")
    c = db.connect("l_gateway")
    for order in (boxes, boxes[::-1],
                  sorted(boxes, key=lambda q: (q.tenant, q.inbox))):
        got = submit_batch(c, [q.message() for q in order])
        assert [r["status"] for r in got] == [202] * 6
    c.close()


def test_handles_are_looked_up_by_key(db, w, x, su):
    """Not read as a whole: they are as many as sign-ins in ten minutes."""
    cur = su.cursor()
    handle = os.urandom(24)
    cur.execute("SET session_replication_role = replica")
    cur.execute("""INSERT INTO d.handle SELECT %s, k, sha256(('h' || k)::bytea),
        'l_gateway', now() + interval '9 min'
        FROM generate_series(100000, 110000) k""", (x.tenant,))
    cur.execute("INSERT INTO d.handle VALUES (%s, %s, %s, 'l_gateway', "
                "now() + interval '9 min')",
                (x.tenant, x.send_key, sha256(handle)))
    cur.execute("SET session_replication_role = origin")
    cur.execute("ANALYZE d.handle")
    before = one(su, "SELECT pg_stat_force_next_flush()::text")
    assert before is not None

    def read():
        cur.execute("SELECT pg_stat_force_next_flush()")
        return one(su, "SELECT coalesce(sum(idx_tup_read), 0)::int "
                   "FROM pg_stat_user_indexes WHERE relname = 'handle'")
    was = read()
    c = db.connect("l_gateway")
    got = submit_batch(c, [x.message(key=(x.send_key, handle)),
                           w.inboxes[0].message()])
    assert [r["status"] for r in got] == [202, 202]
    c.close()
    until = time.monotonic() + 10
    while one(su, "SELECT count(*) FROM pg_stat_activity WHERE usename = "
              "'l_gateway' AND state = 'idle' AND query LIKE %s",
              "%submit_batch%") and time.monotonic() < until:
        pass
    assert read() - was < 100
    cur.execute("DELETE FROM d.handle WHERE key_id >= 100000")


def test_the_held_limit_holds_where_a_rule_might_release(w, x, su):
    call1(w.ctl, "limits_set_1", s=w.root, uid=0, tenant=x.tenant,
          inbox=x.inbox, plan=None, hour=None, day=None, month=None, held=2,
          bytes=None)
    epoch = w.mode(x, 2)
    su.cursor().execute(
        "INSERT INTO d.allow_rule (tenant_id, inbox_id, entry, operator_id, "
        "reason, uses_left, expires_at) VALUES (%s, %s, 'ok@x.example', 1, "
        "'r', 1, now() + interval '1 hour')", (x.tenant, x.inbox))
    got = [submit(w.gw, x.message(**tag(), tag_mode=2, tag_mode_epoch=epoch,
                                  findings_set=1)) for _ in range(4)]
    assert [r["status"] for r in got] == [202, 202, 429, 429]


def test_rows_come_back_in_their_order(w, x):
    good = dict(tag(), tag_mode=3, tag_mode_epoch=w.mode(x, 3))
    rows = [x.message(**(good if i % 2 else {})) for i in range(8)]
    rows[3] = x.message(["no at"])
    with w.gw.cursor() as cur:
        cur.execute("SELECT ord, message_id::text FROM api.submit_batch_1(%s)"
                    " ORDER BY ord" % ", ".join("%%(%s)s::%s[]" % t for t in SUBMIT.items()),
                    {n: [m[n] for m in rows] for n in SUBMIT})
        assert cur.fetchall() == [(i + 1, str(m["mid"]))
                                  for i, m in enumerate(rows)]


def test_monitored_mail_of_a_batch(w, x, su):
    e = w.mode(x, 3)
    good = dict(tag(), tag_mode=3, tag_mode_epoch=e)
    got = submit_batch(w.gw, [x.message(**good), x.message(),
                              x.message(["a@x.example", "b@y.example"],
                                        **good)])
    assert [(r["status"], r["state"], r["reasons"]) for r in got] == [
        (202, 2, ""), (202, 1, "mode"), (202, 2, "")]
    assert one(su, "SELECT count(*) FROM d.send_q WHERE message_id = %s",
               got[2]["message_id"]) == 2
    assert one(su, "SELECT held FROM d.quota WHERE inbox_id = %s",
               x.inbox) == 1


@pytest.mark.parametrize("what", ["tenant", "domain"])
def test_a_tenant_or_domain_out_of_service(w, su, what):
    y = w.inboxes[3]
    cur = su.cursor()
    if what == "domain":
        cur.execute("UPDATE d.domain SET removed_at = now() "
                    "WHERE domain = 't1.example'")
        assert submit(w.gw, y.message())["code"] == "domain_not_verified"
        cur.execute("UPDATE d.domain SET removed_at = NULL")
    else:
        assert call1(w.ctl, "tenant_set_1", s=w.root, uid=0, tenant=y.tenant,
                     need_approvals=None, hold_seconds=None,
                     disabled=True)["status"] == 200
        assert submit(w.gw, y.message())["status"] == 401
        w.step_up(w.root)
        assert call1(w.ctl, "tenant_set_1", s=w.root, uid=0, tenant=y.tenant,
                     need_approvals=None, hold_seconds=None,
                     disabled=False)["status"] == 200
    assert submit(w.gw, y.message())["status"] == 202
