# SPDX-License-Identifier: ISC
"""
What a connection planned while hardly anything was there must do when much is,
also before anybody counted it again: here nobody ever does.
"""
import pytest

import pgcluster
from pgcluster import call, submit, submit_batch

BOXES, MANY = 60, 1200


@pytest.fixture(scope="module")
def small():
    with pgcluster.Cluster(fast=True, settings={"autovacuum": "off"}) as db:
        w = pgcluster.World(db)
        w.db = db
        yield w


def reads(w, conn, work):
    """Rows that `work` has `conn` read, by table; weeks of one as one."""
    su = w.db.connect("postgres")

    def so_far():
        for sql in ("SELECT pg_stat_force_next_flush()", "SELECT 1"):
            conn.cursor().execute(sql)
        cur = su.cursor()
        cur.execute("SELECT regexp_replace(relname, '_[0-9]{8}$', ''), "
                    "sum(idx_tup_read) FROM pg_stat_user_indexes "
                    "WHERE schemaname = 'd' GROUP BY 1")
        return dict(cur.fetchall())
    try:
        before = so_far()
        work()
        return {t: int(n - before[t]) for t, n in so_far().items()}
    finally:
        su.close()


def test_planned_when_little_was_there(small):
    w = small
    x = w.inboxes[0]

    def queue():
        return call(w.rv, "review_list_1", s=w.root, tenant=None, inbox=None,
                    states=None, q=None, after_key=None, lim=50,
                    collapse=True)

    def look():
        return call(w.gw, "my_get_1", t=m["t"], k=m["k"], a=m["a"],
                    mid=m["mid"])[0]
    for _ in range(6):
        m = x.message()
        assert submit(w.gw, m)["status"] == 202
        assert look()["status"] == 200
        assert queue()
    boxes = [w.inbox(w.tenants[0], "later%d@t0.example" % n)
             for n in range(BOXES)]
    for n in range(0, MANY, BOXES):
        for row in submit_batch(w.gw, [y.message() for y in boxes]):
            assert row["status"] == 202, row
    most = reads(w, w.rv, queue)
    assert max(most.values()) <= MANY // 2, most
    most = reads(w, w.gw, look)
    assert max(most.values()) <= 12, most
    more = [y.message() for y in boxes[:10]]
    most = reads(w, w.gw, lambda: submit_batch(w.gw, more))
    assert max(most.values()) <= 12 * len(more), most


def fetched(w, conn, work):
    """Rows that `work` has `conn` take from tables, however it finds them."""
    su = w.db.connect("postgres")

    def so_far():
        for sql in ("SELECT pg_stat_force_next_flush()", "SELECT 1"):
            conn.cursor().execute(sql)
        cur = su.cursor()
        cur.execute("SELECT regexp_replace(relname, '_[0-9]{8}$', ''), "
                    "sum(coalesce(seq_tup_read, 0) "
                    "+ coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables "
                    "WHERE schemaname = 'd' GROUP BY 1")
        return dict(cur.fetchall())
    try:
        before = so_far()
        work()
        return {t: int(n - before[t]) for t, n in so_far().items()}
    finally:
        su.close()


def test_a_trace_of_an_address_reads_its_mail_only(small):
    w = small
    x = w.inbox(w.tenants[0], "traced@t0.example")
    other = w.inbox(w.tenants[1], "seen@t1.example")
    ms = [x.message(["seldom@x.example"]), x.message(["Seldom@X.example"])]
    ms += [x.message(["often@x.example"]) for _ in range(120)]
    theirs = other.message(["seldom@x.example"])
    for m in (*ms[:2], theirs):
        assert submit(w.gw, m)["status"] == 202
    for row in submit_batch(w.gw, ms[2:]):
        assert row["status"] == 202, row
    boxes = [w.inbox(w.tenants[0], "many%d@t0.example" % n)
             for n in range(BOXES)]
    for n in range(0, MANY, BOXES):
        assert all(row["status"] == 202 for row in submit_batch(
            w.gw, [y.message() for y in boxes]))

    def trace(what, s=w.root):
        return [r["message_id"] for r in call(
            w.ctl, "trace_1", s=s, uid=0, what=what) if r["status"] == 200]
    trace("seldom@x.example")  # what was not among the words is now
    found = []
    most = fetched(w, w.ctl, lambda: found.extend(trace("SELDOM@x.example")))
    assert set(found) == {ms[0]["mid"], ms[1]["mid"], theirs["mid"]}
    # the words of each stretch of time once, the rest once
    most = {t: n for t, n in most.items() if n > 8 * len(found)}
    assert not most, most
    # the newest of many, and what an inbox of one's own sent
    newest = sorted((m["mid"] for m in ms), reverse=True)[:100]
    assert trace(x.address) == newest
    assert trace("nobody@x.example") == []
    # only what the person sees
    one = w.operator("traces", "reviewer", w.tenants[1])
    assert trace("seldom@x.example", one) == [theirs["mid"]]
    box = w.operator("tracesone", "reviewer", w.tenants[0], boxes[0].inbox)
    assert trace("seldom@x.example", box) == []
