# SPDX-License-Identifier: ISC
"""Many people, long queues: search, jobs, soft claims, comments, what is new."""
import hashlib
import os
import struct
import threading
import time
import uuid

import pytest

from pgcluster import call, call1, submit, submit_batch, uuid7


def one(su, sql, *args):
    cur = su.cursor()
    cur.execute(sql, args or None)
    return cur.fetchone()[0]


def find(w, s, q, states=None, box=None, after=None, lim=50):
    while call1(w.rv, "search_fill_1", lim=5000)["more"]:
        pass
    return call(w.rv, "review_list_1", s=s, tenant=None, inbox=box,
                states=states, q=q, after_key=after, lim=lim, collapse=True)


def held(w, x, n, **more):
    ms = [x.message(**more) for _ in range(n)]
    assert all(r["status"] == 202 for r in submit_batch(w.gw, ms))
    return [m["mid"] for m in ms]


@pytest.fixture(scope="module")
def people(w):
    t = w.tenants[0]
    return {"one": w.operator("pia", "reviewer", t),
            "two": w.operator("tom", "reviewer", t),
            "far": w.operator("finn", "senior", w.tenants[1]),
            "eye": w.operator("eve", "auditor", t)}


# Search --------------------------------------------------------------------

def test_words_are_found_in_every_spelling(w, x):
    submit(w.gw, x.message(["o'neil@quote.example"],
                           subject="Re: It's \\ the (Äpfel), NOW! a&b|c:*",
                           rfc_id="<odd'id\\x@z>"))
    for q in ("it s", "äpfel", "now", "NO", "a b c", "'", "quote' | 'x",
              "o'neil@quote.example", "O'NEIL@QUOTE.EXAMPLE",
              "@quote.example", "<odd'id\\x@z>"):
        got = find(w, w.root, q, box=x.inbox)
        assert [r["status"] for r in got] == (
            [] if q in ("'", "quote' | 'x") else [200]), q
    # what has files, alone or with words; the name alone is a word
    for q, n in (("has:files", 0), ("äpfel has:files", 0)):
        assert len(find(w, w.root, q, box=x.inbox)) == n, q
    submit(w.gw, x.message(subject="Äpfel attached", attachments=1))
    for q, n in (("has:files", 1), ("HAS:files äpfel", 1), ("äpfel", 2),
                 ("has:files attached quote", 0), ("xhas:files", 0)):
        assert len(find(w, w.root, q, box=x.inbox)) == n, q
    # Only the last word may be a beginning.
    assert find(w, w.root, "äpf", box=x.inbox)
    assert not find(w, w.root, "äpf now", box=x.inbox)


def test_a_search_stays_within_the_tenant(w, x, people):
    submit(w.gw, x.message(["who@secret.example"], subject="zanzibar"))
    assert len(find(w, people["one"], "zanzibar")) == 1
    assert find(w, people["far"], "zanzibar") == []
    assert find(w, people["far"], "@secret.example") == []


def test_what_is_too_long_to_be_there_is_not_found(w, x, people):
    """And is no error, which looks like a database that is down."""
    many = " ".join("w%d" % i for i in range(33))
    submit(w.gw, x.message(subject=many))
    for q in ("a" * 3000 + "@b.example", "@" + "a" * 3000, "b" * 5000,
              "<" + "c" * 3000 + ">", many):
        assert find(w, people["one"], q) == [], q[:9]
        assert call1(w.rv, "review_count_1", s=people["one"], tenant=None,
                     inbox=None, states=None, q=q)["n"] == 0
    assert len(find(w, people["one"], many[:many.index(" w32")])) == 1


def test_a_frequent_word_pages_to_the_end(w, x, su):
    """Beyond 2,000 hits the list is walked; no page is lost or told twice."""
    n = 2300
    cur = su.cursor()
    cur.execute("SET session_replication_role = replica")
    submit(w.gw, x.message(subject="seed", risk=70))
    cur.execute("""INSERT INTO d.message SELECT (m).* FROM (
        SELECT jsonb_populate_record(m, jsonb_build_object('message_id',
        overlay(m.message_id::text placing lpad(to_hex(g), 12, '0') from 25),
        'subject', 'common word ' || g, 'risk', 1 + g %% 60, 'digest',
        d.digest_1(m.tenant_id, m.inbox_id, overlay(m.message_id::text placing
        lpad(to_hex(g), 12, '0') from 25)::uuid, 1::smallint, m.test,
        m.mail_from, m.rcpt, m.params, m.size, m.body_tag, 0, 0))) AS m
        FROM d.message m, generate_series(1, %s) g
        WHERE m.inbox_id = %s AND m.subject = 'seed') z""", (n, x.inbox))
    cur.execute("""INSERT INTO d.state (message_id, tenant_id, inbox_id,
        version, state, risk, hold_until) SELECT message_id, tenant_id,
        inbox_id, 1, 1, risk, now() + '1 day' FROM d.message
        WHERE inbox_id = %s AND subject LIKE 'common%%'""", (x.inbox,))
    cur.execute("""INSERT INTO d.word SELECT message_id, tenant_id,
        d.words_of(tenant_id, mail_from, rcpt, rfc_message_id, subject, 0)
        FROM d.message WHERE inbox_id = %s AND subject LIKE 'common%%'""",
                (x.inbox,))
    cur.execute("UPDATE d.quota SET held = held + %s WHERE inbox_id = %s",
                (n, x.inbox))
    cur.execute("RESET session_replication_role")
    got, after, risk = [], None, 101
    while True:
        page = find(w, w.root, "common word", box=x.inbox, after=after,
                    lim=200)
        rows = [r for r in page if r["message_id"]]
        assert all(a["risk"] >= b["risk"] for a, b in zip(rows, rows[1:]))
        assert not rows or rows[0]["risk"] <= risk
        got += [r["message_id"] for r in rows]
        if not page or len(rows) < 200 and page[-1]["message_id"]:
            break
        after, risk = page[-1]["sort_key"], rows[-1]["risk"]
    assert len(got) == len(set(got)) == n
    # rare within the frequent
    assert len(find(w, w.root, "common word 77", box=x.inbox)) == 11


# The audit log --------------------------------------------------------------

def test_the_audit_page_counts_rows_of_others_too(w, x, su, people):
    """A search reads 20,000 rows whoever's they are, and says where it is."""
    mine = w.operator("owen", "auditor", w.tenants[1])
    cur = su.cursor()
    cur.execute("""INSERT INTO d.audit (tenant_id, actor, event, detail)
        VALUES (%s, 'policy', 'test.mine', '{}')""", (w.tenants[1],))
    cur.execute("""INSERT INTO d.audit (tenant_id, actor, event, detail)
        SELECT %s, 'policy', 'test.other', '{}'
        FROM generate_series(1, 45000)""", (w.tenants[0],))

    def page(before):
        return call(w.rv, "review_audit_1", s=mine, tenant=None, who=None,
                    what="test", mid=None, before=before, lim=10)
    got, before, turns = [], None, 0
    while True:
        rows = page(before)
        got += [r["event"] for r in rows if r["event"]]
        turns += 1
        if not rows or rows[-1]["event"] is not None:
            break
        before = rows[-1]["key"]
    assert got == ["test.mine"]
    assert 3 <= turns <= 4


# Jobs -----------------------------------------------------------------------

def make(w, s, verdict="r", **more):
    job = uuid7()
    a = dict(tenant=None, inbox=None, q=None, ids=None, about="a test")
    a.update(more)
    return job, call1(w.rv, "job_make_1", s=s, job=job, verdict=verdict, **a)


def job_of(w, s, job):
    return call1(w.rv, "jobs_1", s=s, job=job)


def confirm(w, s, job, **more):
    a = dict(items_sha256=bytes(job_of(w, s, job)["items_sha256"]),
             category="duplicate", note="as one", hint="do_not_retry")
    a.update(more)
    return call1(w.rv, "job_confirm_1", s=s, job=job, **a)


def test_a_job_names_every_item_and_rejects_it(w, x, su, people):
    s = people["one"]
    mids = held(w, x, 7)
    job, r = make(w, s, inbox=x.inbox)
    assert (r["status"], r["items"], r["refused"]) == (200, 7, 0)
    late = held(w, x, 1)[0]
    j = job_of(w, s, job)
    cur = su.cursor()
    cur.execute("SELECT message_id, version, round, digest FROM d.job_item "
                "WHERE job_id = %s ORDER BY ix", (job,))
    rows = cur.fetchall()
    assert hashlib.sha256(b"".join(
        m.bytes + struct.pack(">HH", v, r) + bytes(d)
        for m, v, r, d in rows)).digest() == bytes(j["items_sha256"])
    step = dict(s=s, job=job, lim=3)
    # not before it is confirmed, and only by naming just these items
    assert call1(w.rv, "job_reject_1", **step)["status"] == 409
    assert confirm(w, s, job, items_sha256=os.urandom(32))["status"] == 412
    assert confirm(w, s, job, category=None)["status"] == 422
    assert confirm(w, s, job)["status"] == 200
    r = call1(w.rv, "job_reject_1", **step)
    assert (r["state"], r["remaining"]) == (1, 4)
    # one changed meanwhile: counted as not done, with its reason
    gone = [m for m, *_ in rows][4]
    assert call1(w.rv, "review_cancel_1", s=w.root, mid=gone,
                 note=None)["status"] == 200
    while r["state"] == 1:
        r = call1(w.rv, "job_reject_1", **step)
        assert r["status"] == 200, r
    j = job_of(w, s, job)
    assert (j["state"], j["done"], j["failed"]) == (4, 6, 1)
    bad = call(w.rv, "job_items_1", s=s, job=job, problems=True,
               after_ix=None)
    assert [(b["message_id"], b["outcome"]) for b in bad] == [
        (gone, "state_conflict")]
    states = {m: one(su, "SELECT state FROM d.state WHERE message_id = %s",
                     m) for m in mids + [late]}
    assert states == {**{m: 3 for m in mids}, gone: 5, late: 1}
    cur.execute("SELECT DISTINCT category, note, hint, via FROM d.decision "
                "WHERE message_id = ANY (%s)", (mids,))
    assert cur.fetchall() == [("duplicate", "as one", "do_not_retry", "job")]
    assert one(su, "SELECT count(*) FROM d.audit WHERE event = "
               "'message.reject' AND message_id = ANY (%s)", mids) == 6
    assert one(su, "SELECT count(*) FROM d.audit WHERE event = "
               "'job.confirm' AND detail LIKE '%%' || %s || '%%'",
               bytes(j["items_sha256"]).hex()) == 1
    assert call1(w.rv, "job_reject_1", **step)["status"] == 409
    assert call1(w.rv, "job_stop_1", s=s, job=job, to_state=3)[
        "status"] == 409


def test_a_job_moves_only_by_the_session_that_confirmed_it(w, x, people):
    s = people["one"]
    held(w, x, 4)
    job, _ = make(w, s, inbox=x.inbox)
    assert confirm(w, s, job)["status"] == 200
    again = w.session("pia")
    step = dict(job=job, lim=1)
    assert call1(w.rv, "job_reject_1", s=again, **step)["status"] == 409
    assert call1(w.rv, "job_reject_1", s=s, **step)["remaining"] == 3
    # nobody else has it, whatever their role
    for other in (people["two"], people["far"], people["eye"], w.root):
        assert call1(w.rv, "jobs_1", s=other, job=job)["status"] == 404
        assert call1(w.rv, "job_reject_1", s=other, **step)["status"] == 409
        assert call1(w.rv, "job_stop_1", s=other, job=job, to_state=3)[
            "status"] == 404
        assert call1(w.rv, "job_items_1", s=other, job=job, problems=None,
                     after_ix=None)["status"] == 404
        assert call1(w.rv, "job_confirm_1", s=other, job=job, note=None,
                     items_sha256=bytes(job_of(w, s, job)["items_sha256"]),
                     category="other", hint=None)["status"] == 404
    # signed out: it stands; confirmed again: it goes on where it was
    assert call1(w.rv, "session_end_1", s=s, everywhere=False)[
        "status"] == 200
    assert call1(w.rv, "job_reject_1", s=s, **step)["status"] == 401
    assert confirm(w, again, job)["status"] == 200
    assert call1(w.rv, "job_reject_1", s=again, **step)["remaining"] == 2
    # paused, and canceled: what is decided stays decided
    assert call1(w.rv, "job_stop_1", s=again, job=job, to_state=2)[
        "status"] == 200
    assert call1(w.rv, "job_reject_1", s=again, **step)["status"] == 409
    assert confirm(w, again, job, category=None)["status"] == 200
    assert call1(w.rv, "job_stop_1", s=again, job=job, to_state=3)[
        "status"] == 200
    assert confirm(w, again, job)["status"] == 409
    assert (lambda j: (j["state"], j["done"]))(job_of(w, again, job)) \
        == (3, 2)
    people["one"] = again


def test_approval_refuses_and_lists_what_is_risky(w, x, su, people):
    s = people["two"]
    low = held(w, x, 3, risk=10)
    risky = held(w, x, 1, risk=25) + held(w, x, 1, risk=90)
    job, r = make(w, s, "a", inbox=x.inbox)
    assert (r["items"], r["refused"]) == (3, 2)
    bad = call(w.rv, "job_items_1", s=s, job=job, problems=True,
               after_ix=None)
    assert {b["message_id"]: b["outcome"] for b in bad} == {
        m: "risky" for m in risky}
    assert confirm(w, s, job, category=None)["status"] == 200
    assert call1(w.rv, "job_reject_1", s=s, job=job, lim=9)["status"] == 409
    rows = call(w.rv, "job_next_1", s=s, job=job, lim=20)
    assert [r["message_id"] for r in rows] == low
    assert all(len(r["tenant_pub"]) == 32 for r in rows)
    # it became risky after it was frozen
    assert call1(w.rv, "review_risk_1", s=s, mid=low[1], for_version=1,
                 higher=40)["status"] == 200
    good = dict(s=s, job=job, relay_box=b"r" * 200, tag=b"g" * 32,
                expiry=int(rows[0]["now"].timestamp() + 3600) * 10**6,
                undo_seconds=10, failed=None)
    assert call1(w.rv, "job_approve_1", item=2, **good)["status"] == 409
    for ix, left in ((1, 2), (2, 1)):
        r = call1(w.rv, "job_approve_1", item=ix, **good)
        assert (r["status"], r["remaining"]) == (200, left)
    # the caller could not open its key
    r = call1(w.rv, "job_approve_1", item=3, **{**good, "relay_box": None,
                                             "failed": "integrity"})
    assert (r["state"], r["remaining"]) == (4, 0)
    bad = call(w.rv, "job_items_1", s=s, job=job, problems=True, after_ix=0)
    assert [b["outcome"] for b in bad] == ["risky", "integrity"]
    assert [one(su, "SELECT state FROM d.state WHERE message_id = %s", m)
            for m in low] == [2, 1, 1]
    assert one(su, "SELECT via FROM d.decision WHERE message_id = %s",
               low[0]) == "job"
    assert call1(w.rv, "undo_1", s=s, mid=low[0], for_version=1,
                 for_round=1)["status"] == 200


def test_mail_that_is_found_risky_during_its_approval_waits(db, w, x, su,
                                                            people):
    """Somebody opens it just then: his commit comes between the look at the
    risk and the decision, which waits for it."""
    s = people["two"]
    mid = held(w, x, 1, risk=10)[0]
    job, _ = make(w, s, "a", inbox=x.inbox)
    assert confirm(w, s, job, category=None)["status"] == 200
    other, mine = db.connect("l_review", False), db.connect("l_review")
    assert call1(other, "review_risk_1", s=people["one"], mid=mid,
                 for_version=1, higher=60)["status"] == 200
    got = []
    t = threading.Thread(target=lambda: got.append(call1(
        mine, "job_approve_1", s=s, job=job, item=1, relay_box=b"r" * 200,
        tag=b"g" * 32, expiry=int(time.time() + 3600) * 10**6,
        undo_seconds=10, failed=None)))
    t.start()
    try:
        end = time.time() + 20
        while not one(su, "SELECT count(*) FROM pg_stat_activity WHERE pid = "
                      "%s AND wait_event_type = 'Lock'",
                      mine.info.backend_pid):
            assert time.time() < end and t.is_alive()
            time.sleep(0.01)
    finally:
        other.commit()
        t.join()
    assert got[0]["status"] == 200
    assert one(su, "SELECT outcome FROM d.job_item WHERE job_id = %s",
               job) == "risky"
    assert one(su, "SELECT state FROM d.state WHERE message_id = %s",
               mid) == 1
    other.close()
    mine.close()


def approve_all(w, s, job, n, undo=60):
    """Approves the next n items as postern-admin would."""
    for _ in range(n):
        row = call(w.rv, "job_next_1", s=s, job=job, lim=1)[0]
        r = call1(w.rv, "job_approve_1", s=s, job=job, item=row["ix"],
                  relay_box=b"r" * 200, tag=b"g" * 32,
                  expiry=int(time.time() + 3600) * 10**6, undo_seconds=undo,
                  failed=None)
        assert r["status"] == 200, r
    return r


def test_20_a_job_of_approvals_is_taken_back_as_one(w, x, su, people):
    s = people["two"]
    mids = held(w, x, 6, risk=5)
    job, _ = make(w, s, "a", inbox=x.inbox)
    assert call1(w.rv, "job_undo_1", s=s, job=job, lim=9)["status"] == 409
    assert confirm(w, s, job, category=None)["status"] == 200
    approve_all(w, s, job, 5)
    # one has left: the worker holds it
    cur = su.cursor()
    cur.execute("UPDATE d.send_q SET lease = gen_random_uuid(), "
                "lease_until = now() + interval '5 min' WHERE message_id = "
                "%s", (mids[1],))
    for other in (people["far"], people["eye"], w.root):
        assert call1(w.rv, "job_undo_1", s=other, job=job, lim=9)[
            "status"] == 404
    r = call1(w.rv, "job_undo_1", s=s, job=job, lim=2)
    assert (r["status"], r["remaining"], r["back"]) == (200, 3, 2)
    # what runs is ended by it
    assert job_of(w, s, job)["state"] == 3
    assert call(w.rv, "job_next_1", s=s, job=job, lim=1)[0]["status"] == 409
    while r["remaining"]:
        r = call1(w.rv, "job_undo_1", s=s, job=job, lim=2)
    assert r["back"] == 4
    assert [one(su, "SELECT state FROM d.state WHERE message_id = %s", m)
            for m in mids] == [1, 2, 1, 1, 1, 1]
    assert one(su, "SELECT count(*) FROM d.audit WHERE event = "
               "'message.undo' AND message_id = ANY (%s)", mids) == 4
    assert one(su, "SELECT count(*) FROM d.audit WHERE event = 'job.undo' "
               "AND detail LIKE '%%' || %s || '%%'", str(job)) == 1
    got = {b["message_id"]: b["outcome"] for b in call(
        w.rv, "job_items_1", s=s, job=job, problems=True, after_ix=None)}
    assert got == {m: "left_already" if m == mids[1] else "taken_back"
                   for m in mids[:5]}
    assert call1(w.rv, "job_undo_1", s=s, job=job, lim=9)["back"] == 4
    cur.execute("UPDATE d.send_q SET lease = NULL, lease_until = NULL "
                "WHERE message_id = %s", (mids[1],))
    # a rejection is final
    job, _ = make(w, s, inbox=x.inbox)
    assert confirm(w, s, job)["status"] == 200
    assert call1(w.rv, "job_undo_1", s=s, job=job, lim=9)["status"] == 409


@pytest.mark.parametrize("verdict", ["a", "r"])
def test_a_job_ends_when_nothing_of_it_is_left_in_reach(w, x, su, people,
                                                        verdict):
    name = "gone%s%d" % (verdict, x.inbox)
    s = w.operator(name, "reviewer", x.tenant)
    held(w, x, 4, risk=5)
    job, _ = make(w, s, verdict, inbox=x.inbox)
    assert confirm(w, s, job, category="other")["status"] == 200
    if verdict == "a":
        approve_all(w, s, job, 1)
    else:
        assert call1(w.rv, "job_reject_1", s=s, job=job, lim=1)[
            "remaining"] == 3
    su.cursor().execute(
        "UPDATE d.operator_scope SET tenant_id = %s WHERE operator_id = "
        "(SELECT operator_id FROM d.operator WHERE name = %s)",
        (w.tenants[1], name))
    if verdict == "a":
        assert call(w.rv, "job_next_1", s=s, job=job, lim=9) == []
    else:
        assert call1(w.rv, "job_reject_1", s=s, job=job, lim=9)["state"] == 4
    j = job_of(w, s, job)
    assert (j["state"], j["done"], j["failed"]) == (4, 1, 3)


def test_a_page_that_stands_open_keeps_no_session_alive(w, x, su, people):
    s = w.operator("idle%d" % x.inbox, "reviewer", x.tenant)
    mid = held(w, x, 1, risk=5)[0]
    key = hashlib.sha256(s).digest()

    def moved(fn, **args):
        su.cursor().execute("UPDATE d.operator_session SET touched_at = now() "
                            "- interval '1 hour' WHERE session_sha256 = %s",
                            (key,))
        r = call(w.rv, fn, s=s, **args)
        assert not r or r[0]["status"] < 300, r
        return one(su, "SELECT touched_at > now() - interval '1 minute' FROM "
                   "d.operator_session WHERE session_sha256 = %s", key)
    job, _ = make(w, s, "a", inbox=x.inbox)
    assert confirm(w, s, job, category=None)["status"] == 200
    for fn, args in (
            ("live_1", dict(after=None)),
            ("session_touch_1", dict(used=False)),
            ("review_count_1", dict(tenant=None, inbox=None, states=None,
                                    q=None)),
            ("look_1", dict(mid=mid, take=False)),
            ("look_end_1", dict(mid=mid)),
            ("jobs_1", dict(job=job)),
            ("job_next_1", dict(job=job, lim=1)),
            ("job_approve_1", dict(
                job=job, item=1, relay_box=b"r" * 200, tag=b"g" * 32,
                expiry=int(time.time() + 3600) * 10**6, undo_seconds=9,
                failed=None))):
        assert not moved(fn, **args), fn
    assert one(su, "SELECT state FROM d.state WHERE message_id = %s", mid) == 2
    assert moved("session_touch_1")
    assert moved("undo_1", mid=mid, for_version=1, for_round=1)


def test_a_list_reads_what_is_ones_own(w, x, su, people):
    """Who reviews one inbox does not wait for its neighbours' mail."""
    y = w.inboxes[0] if w.inboxes[0].inbox != x.inbox else w.inboxes[1]
    assert y.tenant == x.tenant
    s = w.operator("small%d" % x.inbox, "reviewer", x.tenant, x.inbox)
    mids = held(w, x, 3, risk=5)
    cur = su.cursor()
    submit(w.gw, y.message(subject="neighbour", risk=60))
    n = 3000
    cur.execute("SET session_replication_role = replica")
    cur.execute("""INSERT INTO d.state (message_id, tenant_id, inbox_id,
        version, state, risk, hold_until) SELECT overlay(m.message_id::text
        placing lpad(to_hex(g), 12, '0') from 25)::uuid, m.tenant_id,
        m.inbox_id, 1, 1 + g %% 2, 1 + g %% 70, now() + '1 day'
        FROM d.message m, generate_series(1, %s) g
        WHERE m.inbox_id = %s AND m.subject = 'neighbour'""", (n, y.inbox))
    cur.execute("RESET session_replication_role")
    cur.execute("ANALYZE d.state")

    def so_far():
        """Rows read, with what this session has not yet handed on."""
        cur.execute("SELECT coalesce(sum(idx_tup_fetch + seq_tup_read), 0) "
                    "FROM pg_stat_xact_user_tables WHERE relname ~ "
                    "'^state_[0-9]'")
        return cur.fetchone()[0]

    def read(fn, **args):
        cur.execute("BEGIN")
        before = so_far()
        cur.execute("SELECT count(*) FROM api.%s(%s)" % (fn, ", ".join(
            "%s => %%(%s)s" % (k, k) for k in args)), args)
        got = so_far() - before
        cur.execute("COMMIT")
        return got
    try:
        base = dict(s=s, tenant=None, inbox=None, q=None, after_key=None,
                    lim=50)
        for more in (dict(states=None, collapse=True),
                     dict(states=None, collapse=False),
                     dict(states=None, collapse=True, risk_from=0, risk_to=24),
                     dict(states=None, collapse=False, by_left=True),
                     dict(states="2,3,4,5", collapse=False)):
            assert read("review_list_1", **base, **more) < 200, more
        assert read("review_count_1", s=s, tenant=None, inbox=None,
                    states=None, q=None) < 200
        assert read("review_health_1", s=s) < 400
        got = call(w.rv, "review_list_1", **base, states=None, collapse=False)
        assert [r["message_id"] for r in got] == mids
        health = {r["label"]: r["n"] for r in call(
            w.rv, "review_health_1", s=s) if r["what"] == "risk"}
        assert health == {"high": 0, "medium": 0, "low": 3}
    finally:
        cur.execute("SET session_replication_role = replica")
        cur.execute("""DELETE FROM d.state z WHERE z.inbox_id = %s AND NOT
            EXISTS (SELECT 1 FROM d.message m WHERE m.message_id =
            z.message_id)""", (y.inbox,))
        cur.execute("RESET session_replication_role")


def test_a_long_walk_through_tenants_is_in_order(w, x, su):
    """However much each of them has, and wherever the walk begins."""
    y = next(i for i in w.inboxes if i.tenant != x.tenant)
    submit(w.gw, x.message(subject="walked", risk=60))
    submit(w.gw, y.message(subject="walked", risk=60))
    cur = su.cursor()
    # Nobody submitted them: one random number in a million looks the same.
    made = """message_id::text ~ '-77777[0-9a-f]{7}$' AND NOT EXISTS (SELECT 1
        FROM d.message m WHERE m.message_id = state.message_id)"""
    cur.execute("SET session_replication_role = replica")
    for box, n in ((x, 900), (y, 40)):
        cur.execute("""INSERT INTO d.state (message_id, tenant_id, inbox_id,
            version, state, risk, hold_until) SELECT overlay(m.message_id::text
            placing '77777' || lpad(to_hex(g), 7, '0') from 25)::uuid,
            m.tenant_id, m.inbox_id, 1, 1, g * 7919 %% 71, now() + g * 7919
            %% 997 * interval '1 s' FROM d.message m, generate_series(1, %s) g
            WHERE m.inbox_id = %s AND m.subject = 'walked'""", (n, box.inbox))
        cur.execute("UPDATE d.quota SET held = held + %s WHERE inbox_id = %s",
                    (n, box.inbox))
    zero = "00000000-0000-0000-0000-000000000000"

    def walk(sql, *args):
        cur.execute("BEGIN")
        cur.execute("SET LOCAL ROLE p_review")
        cur.execute("SELECT set_config('postern.tenants', %s::bigint[]::text, "
                    "true)", ([x.tenant, y.tenant],))
        cur.execute(sql, args)
        got = [r[0] for r in cur.fetchall()]
        cur.execute("COMMIT")
        return got

    def brute(sql, *args):
        cur.execute("SELECT message_id FROM d.state WHERE state = 1 AND "
                    "tenant_id IN (%d, %d) AND " % (x.tenant, y.tenant) + sql,
                    args)
        return [r[0] for r in cur.fetchall()]
    try:
        both = [x.tenant, y.tenant]
        for risk, last, least in ((101, zero, 0), (33, zero, 0),
                                  (101, zero, 40)):
            for n in (1, 100, 201, 300, 700, 5000):
                assert walk("SELECT message_id FROM d.held_walk(%s::bigint[], "
                            "NULL, %s, %s, %s, %s)", both, risk, last, n,
                            least) == brute(
                    "risk <= %s AND risk >= %s ORDER BY risk DESC, message_id "
                    "LIMIT %s", risk, least, n), (risk, n)
        # on from the middle of a risk
        half = brute("risk = 33 ORDER BY message_id")
        half = half[len(half) // 2]
        assert walk("SELECT message_id FROM d.held_walk(%s::bigint[], NULL, "
                    "33, %s, 400)", both, half) == brute(
            "(risk < 33 OR risk = 33 AND message_id > %s) ORDER BY risk DESC, "
            "message_id LIMIT 400", half)
        cur.execute("SELECT hold_until, message_id FROM d.state WHERE " + made +
                    " ORDER BY 1, 2 OFFSET 450 LIMIT 1")
        at = cur.fetchone()
        for few in (True, False):
            if not few:  # of so much that not all of it is sorted
                cur.execute("UPDATE d.quota SET held = held + 10000 WHERE "
                            "inbox_id = %s", (x.inbox,))
            assert walk("SELECT message_id FROM d.left_walk(%s::bigint[], NULL, "
                        "%s, %s, 200)", both, *at) == brute(
                "(hold_until, message_id) > (%s, %s) ORDER BY hold_until, "
                "message_id LIMIT 200", *at)
    finally:
        cur.execute("DELETE FROM d.state WHERE " + made)
        cur.execute("UPDATE d.quota SET held = held - 10900 WHERE inbox_id = "
                    "%s AND held > 10900", (x.inbox,))
        cur.execute("UPDATE d.quota SET held = held - 40 WHERE inbox_id = %s",
                    (y.inbox,))
        cur.execute("RESET session_replication_role")


def test_a_job_reaches_no_further_than_its_maker(w, x, people):
    mids = held(w, x, 2)
    there = held(w, w.inboxes[-1], 1)
    job, r = make(w, people["one"], ids=mids + there)
    assert (r["items"], r["refused"]) == (2, 0)
    job, r = make(w, people["far"], ids=mids)
    assert (r["items"], r["refused"]) == (0, 0)
    assert confirm(w, people["far"], job)["status"] == 409
    assert make(w, people["eye"], ids=mids)[1]["status"] == 403
    assert make(w, os.urandom(32), ids=mids)[1]["status"] == 401
    # an admin reads the queue, but decides nothing of it
    boss = w.operator("boss%d" % x.inbox, "admin", x.tenant)
    assert make(w, boss, ids=mids)[1]["status"] == 403
    for bad in (dict(verdict="x"), dict(about="x" * 401),
                dict(ids=[uuid7() for _ in range(1001)])):
        assert make(w, people["one"], **bad)[1]["status"] == 422, bad


def test_old_jobs_are_removed(w, x, su, people):
    held(w, x, 3)
    old, new = (make(w, people["one"], inbox=x.inbox)[0] for _ in range(2))
    su.cursor().execute("UPDATE d.job SET made_at = now() - interval '31 d' "
                        "WHERE job_id = %s", (old,))
    call(w.ctl, "maintain_1", uid=0, weeks_ahead=4, body_days=30,
         meta_days=400, after_gap=None)
    left = [one(su, "SELECT count(*) FROM d.job_item WHERE job_id = %s", j)
            for j in (old, new)]
    assert left == [0, 3]
    assert job_of(w, people["one"], old)["status"] == 404
    assert job_of(w, people["one"], new)["status"] == 200


# Soft claims and comments ---------------------------------------------------

def test_a_look_is_seen_ends_and_is_taken_over(w, x, su, people):
    mid = held(w, x, 1)[0]
    a, b = people["one"], people["two"]
    r = call1(w.rv, "look_1", s=a, mid=mid, take=False)
    assert (r["who"], r["mine"]) == ("pia", True)
    r = call1(w.rv, "look_1", s=b, mid=mid, take=False)
    assert (r["who"], r["mine"]) == ("pia", False)
    live = call(w.rv, "live_1", s=b, after=None)
    assert (mid, "pia") in [(r["id"], r["who"]) for r in live
                            if r["what"] == "look"]
    assert all(r["id"] != mid for r in call(w.rv, "live_1",
                                            s=people["far"], after=None))
    r = call1(w.rv, "look_1", s=b, mid=mid, take=True)
    assert (r["who"], r["mine"]) == ("tom", True)
    assert one(su, "SELECT count(*) FROM d.audit WHERE event = "
               "'message.take_over' AND message_id = %s", mid) == 1
    # five minutes later it is nobody's
    su.cursor().execute("UPDATE d.look SET until = now() WHERE message_id "
                        "= %s", (mid,))
    assert call1(w.rv, "look_1", s=a, mid=mid, take=False)["mine"]
    assert call1(w.rv, "look_end_1", s=b, mid=mid)["status"] == 200
    assert not call1(w.rv, "look_1", s=b, mid=mid, take=False)["mine"]
    assert call1(w.rv, "look_end_1", s=a, mid=mid)["status"] == 200
    assert call1(w.rv, "look_1", s=b, mid=mid, take=False)["mine"]
    # a claim decides nothing: who does not have it may decide
    digest = bytes(one(su, "SELECT digest FROM d.message WHERE message_id "
                       "= %s", mid))
    assert call1(w.rv, "decide_1", s=a, mid=mid, for_version=1, for_round=1,
                 dig=digest, verdict="r", idem=b"x", category="other",
                 note=None, hint=None, seconds=1, via="t", relay_box=None,
                 tag=None, expiry=None, undo_seconds=0, resend=None)[
        "status"] == 200
    assert call1(w.rv, "look_1", s=a, mid=mid, take=True)["status"] == 409
    for s, status in ((people["far"], 404), (people["eye"], 403),
                      (os.urandom(32), 401)):
        other = held(w, x, 1)[0]
        assert call1(w.rv, "look_1", s=s, mid=other, take=True)[
            "status"] == status


def test_comments_stay_as_typed_and_in_the_scope(w, x, su, people):
    mid = held(w, x, 1)[0]
    text = "  <b>är\n\tno\u202e  "
    r = call1(w.rv, "comment_1", s=people["one"], mid=mid, text=text)
    assert (r["status"], r["n"]) == (200, 1)
    assert call1(w.rv, "comment_1", s=people["two"], mid=mid,
                 text="yes")["n"] == 2
    got = call(w.rv, "comments_1", s=people["eye"], mid=mid)
    assert [(r["who"], r["text"]) for r in got] == [
        ("pia", text), ("tom", "yes")]
    # Sent twice it is one; said again after somebody else, or later, another.
    assert call1(w.rv, "comment_1", s=people["two"], mid=mid,
                 text="yes")["n"] == 2
    assert call1(w.rv, "comment_1", s=people["one"], mid=mid,
                 text="yes")["n"] == 3
    assert call1(w.rv, "comment_1", s=people["two"], mid=mid,
                 text="yes")["n"] == 4
    assert len(call(w.rv, "comments_1", s=people["eye"], mid=mid)) == 4
    for bad in ("", " \n\t", "x" * 2001, None):
        assert call1(w.rv, "comment_1", s=people["one"], mid=mid,
                     text=bad)["status"] == 422
    for s, status in ((people["far"], 404), (people["eye"], 403),
                      (os.urandom(32), 401)):
        assert call1(w.rv, "comment_1", s=s, mid=mid, text="x")[
            "status"] == status
    assert call1(w.rv, "comments_1", s=people["far"], mid=mid)[
        "status"] == 404
    with pytest.raises(Exception, match="refused"):
        su.cursor().execute("UPDATE d.comment SET text = 'other'")


def test_live_tells_what_is_new_in_the_scope(w, x, people):
    first = held(w, x, 1)[0]
    mids = held(w, x, 3)

    def new(s, after):
        return [r["id"] for r in call(w.rv, "live_1", s=s, after=after)
                if r["what"] == "new"]
    # others' ids may lie ahead of the clock
    got = new(people["one"], first)
    assert [m for m in got if m in mids] == mids and first not in got
    assert new(people["far"], first) == []
    assert not set(new(people["one"], mids[-1])) & {first, *mids}
    assert call1(w.rv, "live_1", s=os.urandom(32), after=None)[
        "status"] == 401


def test_live_reads_the_newest_only_whoevers_they_are(w, su, people):
    """A quiet tenant's page does not read a busy one's mail again and again,
    each second, to find that none of it is in its scope."""
    mid = held(w, w.inboxes[-1], 1)[0]

    def new(after):
        return [r["id"] for r in call(w.rv, "live_1", s=people["far"],
                                      after=after) if r["what"] == "new"]
    before = uuid.UUID(int=mid.int - 1)
    assert mid in new(before)
    base = uuid7()
    while str(base)[:23] <= str(mid)[:23]:
        base = uuid7()
    cur = su.cursor()
    cur.execute("SET session_replication_role = replica")
    try:
        for n, found in ((4000, True), (6000, False)):
            cur.execute("""INSERT INTO d.state (message_id, tenant_id,
                inbox_id, version, state, risk, hold_until)
                SELECT overlay(%s::text placing lpad(to_hex(g), 12, '0')
                from 25)::uuid, %s, %s, 1, 3, 0, now()
                FROM generate_series(1, %s) g ON CONFLICT DO NOTHING""",
                        (str(base), w.tenants[0], w.inboxes[0].inbox, n))
            assert (mid in new(before)) == found
            if not found:
                late = held(w, w.inboxes[-1], 1)[0]
                assert new(before) == [late]
    finally:
        cur.execute("DELETE FROM d.state WHERE message_id::text LIKE %s",
                    (str(base)[:23] + "%",))
        cur.execute("RESET session_replication_role")


def test_all_that_an_inbox_holds_is_rejected(w, x, su, people):
    """posternctl reject: as the page, but with no list before."""
    box = w.inbox(x.tenant, "loop@t0.example")
    other = w.inbox(x.tenant, "calm@t0.example")
    mine = [box.message(["b@x.example"]) for _ in range(5)]
    theirs = other.message(["b@x.example"])
    for m in (*mine, theirs):
        assert submit(w.gw, m)["status"] == 202
    args = dict(tenant=x.tenant, inbox=box.inbox, category="duplicate",
                note="It loops", lim=3)
    far = w.operator("farther", "senior", w.tenants[1])
    audits = w.operator("onlyreads", "auditor", x.tenant)
    for s in (far, audits):
        assert call1(w.ctl, "reject_all_1", s=s, **args)["status"] == 403
    for bad in ({"note": " "}, {"note": None}, {"category": "sad"},
                {"inbox": None}):
        assert call1(w.ctl, "reject_all_1", s=w.root,
                     **dict(args, **bad))["status"] == 422
    got = [call1(w.ctl, "reject_all_1", s=w.root, **args) for _ in range(2)]
    assert [(r["rejected"], r["more"]) for r in got] == [(3, True), (2, False)]
    for m in mine:
        assert one(su, "SELECT state FROM d.state WHERE message_id = %s",
                   m["mid"]) == 3
        read = call1(w.gw, "my_get_1", t=x.tenant, k=box.full_key,
                     a=box.full_a, mid=m["mid"])
        assert (read["category"], read["note"]) == ("duplicate", "It loops")
    assert one(su, "SELECT state FROM d.state WHERE message_id = %s",
               theirs["mid"]) == 1


def reject_all(w, s, box, lim=3):
    rows = call(w.ctl, "reject_all_1", s=s, tenant=box.tenant,
                inbox=box.inbox, category="other", note="all", lim=lim)
    return rows[0], {r["message_id"]: r["why"] for r in rows[1:]}


def test_to_reject_all_goes_on_past_what_changed_meanwhile(w, db, x, su):
    """A whole set that somebody else decides first is not the end of it."""
    box = w.inbox(x.tenant, "raced@t0.example")
    first, last = held(w, box, 3, risk=50), held(w, box, 1, risk=1)
    other = db.connect("l_ctl", autocommit=False)
    args = dict(tenant=box.tenant, inbox=box.inbox, category="other",
                note="first")
    assert call(other, "reject_all_1", s=w.operator(
        "quicker", "senior", x.tenant), lim=3, **args)[0]["rejected"] == 3
    got = []
    asked = threading.Thread(
        target=lambda: got.append(reject_all(w, w.root, box)))
    asked.start()
    try:
        until = time.monotonic() + 20
        while not one(su, "SELECT count(*) FROM pg_locks WHERE pid = %s "
                      "AND NOT granted", w.ctl.get_backend_pid()):
            assert time.monotonic() < until and asked.is_alive()
        other.commit()
    finally:
        other.close()
        asked.join(20)
    (count, left), = got
    assert (count["rejected"], count["more"], left) == (
        0, True, {m: "state_conflict" for m in first})
    count, left = reject_all(w, w.root, box)
    assert (count["rejected"], count["more"], count["stays"], left) == (
        1, False, 0, {})
    assert one(su, "SELECT state FROM d.state WHERE message_id = %s",
               last[0]) == 3


def test_what_a_person_approved_stays_and_is_told(w, x, su):
    box = w.inbox(x.tenant, "twice@t0.example")
    su.cursor().execute("UPDATE d.inbox SET need_approvals = 2 WHERE "
                        "inbox_id = %s", (box.inbox,))
    ms = [box.message() for _ in range(5)]
    assert all(r["status"] == 202 for r in submit_batch(w.gw, ms))
    s = w.operator("half", "senior", x.tenant)
    for m in ms[:2]:
        assert w.approve(m, s)["status"] == 202
    count, left = reject_all(w, s, box)
    assert (count["rejected"], count["more"], count["stays"], left) == (
        3, True, 0, {})
    count, left = reject_all(w, s, box)
    assert (count["rejected"], count["more"], count["stays"], left) == (
        0, False, 2, {m["mid"]: "second_approval_needed" for m in ms[:2]})
    assert reject_all(w, w.root, box)[0]["rejected"] == 2
