# SPDX-License-Identifier: ISC
"""
A job rejects and takes back its messages in sets: of each the same is left,
row by row and column by column, as decide_1 and undo_1 leave of one, and the
counters are right.
"""
import json
import os
import re
import threading
import time
import uuid

import pytest

import pgcluster
from pgcluster import call, call1, submit, submit_batch, uuid7
from test_gate import one, tag
from test_many import confirmed
from test_small import fetched

# Of two worlds these differ; inboxes and messages have names.
OWN = {"message_id", "tenant_id", "inbox_id", "key_id", "digest", "thread_id",
       "mail_from", "header_from", "lineage", "key_sha256", "request_sha256",
       "vt", "xid", "words", "gen", "later"}
# What a job says beside, and decide_1 says of what it was not told; whose.
SOON = int((time.time() + 3600) * 1e6)
MORE = {"job", "seconds", "resend", "passkey", "inbox"}


@pytest.fixture(scope="module")
def w():
    with pgcluster.Cluster(fast=True, settings={"autovacuum": "off"}) as db:
        yield pgcluster.World(db, tenants=5, inboxes=0)


@pytest.fixture(scope="module")
def su(w):
    return w.db.connect("postgres")


def fresh(w, tenant):
    w.count = getattr(w, "count", 0) + 1
    return w.inbox(w.tenants[tenant], "b%d@t%d.example" % (w.count, tenant))


def tables(su):
    """All that say something of a message."""
    cur = su.cursor()
    cur.execute("SELECT c.relname FROM pg_class c JOIN pg_attribute a "
                "ON a.attrelid = c.oid AND a.attname = 'message_id' "
                "WHERE c.relnamespace = 'd'::regnamespace AND NOT "
                "c.relispartition AND c.relkind IN ('r', 'p') "
                "AND c.relname <> 'job_item' ORDER BY 1")
    return [t for t, in cur.fetchall()]


class Mail:
    """Messages of some inboxes, `ms` and `boxes`, and all that is said of
    them."""

    def __init__(self, w, su, who):
        self.w, self.su, self.who = w, su, who

    def replica(self, sql, *args):
        self.su.cursor().execute("SET session_replication_role = replica; "
                                 + sql + "; RESET session_replication_role",
                                 args)

    def rows(self, table, m):
        cur = self.su.cursor()
        cur.execute("SELECT to_jsonb(z) FROM d.%s z WHERE message_id = %%s "
                    "ORDER BY %s" % (table, {"audit": "n", "event": "n"}.get(
                        table, "z")), (m["mid"],))
        return [self.bare(r, table, m) for r, in cur.fetchall()]

    def bare(self, row, table, m):
        out = {}
        for k, v in row.items():
            if k in OWN or table == "audit" and k == "n" \
                    or k == "idem" and v and row["via"] == "job":
                continue
            if isinstance(v, str) and re.match(r"\d{4}-\d\d-\d\dT", v):
                v = "then"
            elif k == "actor":
                v = re.sub("^(agent):.*", r"\1", v)
            elif table == "audit" and k == "detail":
                v = {k: x for k, x in json.loads(v).items() if k not in MORE}
                if "digest" in v:
                    assert v.pop("digest") == m["dig"].hex()
            out[k] = v
        return out

    def look(self, some):
        out = {(n, t): self.rows(t, m) for n, m in enumerate(self.ms)
               for t in some}
        cur = self.su.cursor()
        for n, x in enumerate(self.boxes):
            cur.execute("SELECT held, held_bytes, day_used FROM d.quota "
                        "WHERE inbox_id = %s", (x.inbox,))
            out["quota", n] = cur.fetchone()
        return out

    def counted(self):
        return all(one(
            self.su, "SELECT q.held = count(s.*) AND q.held_bytes = "
            "coalesce(sum(m.size), 0) FROM d.quota q LEFT JOIN d.state s ON "
            "s.inbox_id = q.inbox_id AND s.state = 1 LEFT JOIN d.message m "
            "ON m.message_id = s.message_id WHERE q.inbox_id = %s "
            "GROUP BY q.held, q.held_bytes", x.inbox) for x in self.boxes)


class Held(Mail):
    """The same as another has, in two tenants of its own."""

    def __init__(self, w, su, first, who):
        super().__init__(w, su, who)
        self.one, self.two = fresh(w, first), fresh(w, first)
        self.far, self.read = fresh(w, first + 1), fresh(w, first + 1)
        self.boxes = [self.one, self.two, self.far, self.read]
        su.cursor().execute("UPDATE d.inbox SET need_approvals = 2 "
                            "WHERE inbox_id = %s", (self.far.inbox,))
        for t, i, role in ((self.one.tenant, None, "reviewer"),
                           (self.far.tenant, self.far.inbox, "reviewer"),
                           (self.far.tenant, self.read.inbox, "auditor")):
            su.cursor().execute(
                "INSERT INTO d.operator_scope (operator_id, role, tenant_id, "
                "inbox_id, risk_cap) SELECT operator_id, %s, %s, %s, 50 "
                "FROM d.operator WHERE name = 'who'", (role, t, i))
        self.ms = self.stored()

    def stored(self):
        many = ("a@x.example", "b@x.example", "c@y.example")
        alike = dict(idem=b"i" * 16, expiry=SOON)
        one, two, far = self.one, self.two, self.far
        self.plain = [one.message(risk=10), one.message(many, risk=99),
                      two.message(body=b"x" * 9000), far.message(risk=50),
                      two.message(risk=80, body=b"yy"), one.message(many)]
        self.again, self.doubt, self.broken = [two.message(many, risk=1)
                                               for _ in range(3)]
        self.his, self.mine = far.message(), far.message(many)
        self.changes = [one.message(risk=r) for r in (3, 60, 40, 20)]
        self.unseen = self.read.message()
        ms = self.plain + [self.again, self.doubt, self.broken, self.his,
                           self.mine] + self.changes + [self.unseen]
        assert {r["status"] for r in submit_batch(self.w.gw, ms)} == {202}
        # held again: what was released before, and what may be out already
        for m in (self.again, self.doubt):
            m["risk"] = 1
            assert self.w.approve(m, undo=100, **alike)["state"] == 2
            assert call1(self.w.rv, "undo_1", s=self.w.root, mid=m["mid"],
                         for_version=1, for_round=1)["state"] == 1
        self.replica("UPDATE d.delivery SET status = 6, unsure_mx = "
                     "'mx.example' WHERE message_id = %s AND ix = 1",
                     self.doubt["mid"])
        self.replica("UPDATE d.state SET integrity = 'digest' "
                     "WHERE message_id = %s", self.broken["mid"])
        assert self.w.approve(self.his, **alike)["status"] == 202
        assert self.w.approve(self.mine, self.who, **alike)["status"] == 202
        return ms

    def rounds(self):
        return {m["mid"]: 2 if m in (self.again, self.doubt) else 1
                for m in self.ms}

    def meanwhile(self):
        """What changes after the list was made."""
        canceled, approved, back, moved = self.changes
        assert call1(self.w.rv, "review_cancel_1", s=self.w.root,
                     mid=canceled["mid"], note=None)["status"] == 200
        for m in (approved, back):
            assert self.w.approve(m, undo=100, idem=b"i" * 16,
                                  expiry=SOON)["state"] == 2
        assert call1(self.w.rv, "undo_1", s=self.w.root, mid=back["mid"],
                     for_version=1, for_round=1)["state"] == 1


def by_job(q, tail=()):
    """In steps of several, and what became of each, by its place."""
    w, rounds = q.w, q.rounds()
    ids = [m["mid"] for m in [*q.ms, *tail]]
    job = uuid7()
    r = call1(w.rv, "job_make_1", s=q.who, job=job, verdict="r", tenant=None,
              inbox=None, q=None, ids=ids, about="x")
    assert r["items"] == len(ids) - 1 and r["refused"] == 1  # only looked at
    # as if it had been the operator's to reject then
    q.su.cursor().execute("UPDATE d.job_item SET ix = %s WHERE job_id = %s "
                          "AND ix < 0", (len(ids), job))
    q.su.cursor().execute("UPDATE d.job SET items = %s WHERE job_id = %s",
                          (len(ids), job))
    sha = call1(w.rv, "jobs_1", s=q.who, job=job)["items_sha256"]
    assert call1(w.rv, "job_confirm_1", s=q.who, job=job, items_sha256=sha,
                 category="policy", note="all of it", hint="ask_human")[
                     "status"] == 200
    q.su.cursor().execute("UPDATE d.job_item SET digest = sha256('x') "
                          "WHERE job_id = %s AND message_id = %s",
                          (job, q.changes[3]["mid"]))
    q.meanwhile()
    state = 1
    while state == 1:
        r = call1(w.rv, "job_reject_1", s=q.who, job=job, lim=8)
        assert r["status"] == 200
        state = r["state"]
    cur = q.su.cursor()
    cur.execute("SELECT message_id, outcome, round FROM d.job_item "
                "WHERE job_id = %s ORDER BY ix", (job,))
    got = cur.fetchall()
    for mid, _, n in got:
        assert n == rounds[mid]
    j = call1(w.rv, "jobs_1", s=q.who, job=job)
    good = [o for _, o, _ in got].count("rejected")
    assert (j["done"], j["failed"]) == (good, len(got) - good)
    return got


def one_by_one(q, order):
    q.meanwhile()
    rounds, out = q.rounds(), []
    for m in order:
        dig = pgcluster.sha256(b"x") if m is q.changes[3] else m["dig"]
        r = q.w.reject(m, q.who, round=rounds[m["mid"]], dig=dig,
                       category="policy", note="all of it", hint="ask_human",
                       via="job", seconds=None, idem=None)
        out.append(r["code"] or "rejected")
    return out


def test_as_one_by_one(w, su):
    who = w.operator("who", "auditor", w.tenants[4])
    a, b = Held(w, su, 0, who), Held(w, su, 2, who)
    some = tables(su)
    assert {"decision", "event", "audit", "state", "delivery", "send_q",
            "release", "message", "look", "comment"} <= set(some)
    assert a.look(some) == b.look(some)
    # one of them twice
    got = by_job(a, [a.plain[0]])
    place = {m["mid"]: n for n, m in enumerate(a.ms)}
    want = one_by_one(b, [b.ms[place[mid]] for mid, _, _ in got])
    assert [o for _, o, _ in got] == want
    assert {o: want.count(o) for o in set(want)} == {
        "rejected": 10, "state_conflict": 4, "missing_permission": 1,
        "digest_mismatch": 1, "second_approval_needed": 1}
    rows, others = a.look(some), b.look(some)
    for k in others:
        assert rows[k] == others[k], k
    doubt, = [r for r in rows[a.ms.index(a.doubt), "event"]
              if r["type"] == "message.rejected"]
    assert doubt["detail"] == "policy; it may have been sent before"
    assert rows[0, "decision"][0]["hint"] == "ask_human"
    assert a.counted() and b.counted()


class Approved(Mail):
    """By a job; and what of it changes before it is taken back."""

    def __init__(self, w, su, tenant, who):
        super().__init__(w, su, who)
        many = ("a@x.example", "b@x.example", "c@y.example")
        self.boxes = [fresh(w, tenant), fresh(w, tenant)]
        self.ms = [x.message(r, risk=10, body=b"x" * (n + 1))
                   for n, (x, r) in enumerate((x, r) for r in (
                       ("a@x.example",), many, many) for x in self.boxes)]
        self.ms += [self.boxes[0].message(many, risk=5) for _ in range(6)]
        assert {r["status"] for r in submit_batch(w.gw, self.ms)} == {202}
        self.job = confirmed(w, None, self.ms, "a", who)
        for row in call(w.rv, "job_next_1", s=who, job=self.job, lim=50):
            assert call1(w.rv, "job_approve_1", s=who, job=self.job,
                         item=row["ix"], undo_seconds=60, failed=None,
                         relay_box=b"r" * 200, tag=b"g" * 32,
                         expiry=SOON)["status"] == 200
        canceled, back, again, leased, part, sent = self.ms[-6:]
        assert call1(w.rv, "review_cancel_1", s=w.root, mid=canceled["mid"],
                     note=None)["status"] == 200
        for m in (back, again):
            assert call1(w.rv, "undo_1", s=w.root, mid=m["mid"],
                         for_version=1, for_round=1)["status"] == 200
        assert w.approve(again, round=2, undo=100, idem=b"i" * 16,
                         expiry=SOON)["state"] == 2
        for m, which in ((leased, "%"), (part, "y%"), (sent, "%")):
            self.replica(
                "UPDATE d.send_q SET lease = %s, worker = 'w', lease_until "
                "= now() + interval '1 hour' WHERE message_id = %s AND "
                "domain LIKE %s", uuid.UUID(int=1), m["mid"], which)
        self.replica("UPDATE d.state SET state = 7 WHERE message_id = %s",
                     sent["mid"])


def test_taken_back_as_one_by_one(w, su):
    a, b = [Approved(w, su, t, w.root) for t in (0, 2)]
    some = tables(su)
    assert a.look(some) == b.look(some)
    left = 1
    while left:
        r = call1(w.rv, "job_undo_1", s=w.root, job=a.job, lim=5)
        assert r["status"] == 200
        left = r["remaining"]
    want = [call1(w.rv, "undo_1", s=w.root, mid=m["mid"], for_version=1,
                  for_round=1)["code"] for m in b.ms[::-1]]
    assert want == ["state_conflict"] * 6 + [None] * 6
    assert r["back"] == want.count(None)
    cur = su.cursor()
    cur.execute("SELECT outcome FROM d.job_item WHERE job_id = %s "
                "ORDER BY ix DESC", (a.job,))
    assert [o for o, in cur.fetchall()] == [
        "left_already" if code else "taken_back" for code in want]
    rows, others = a.look(some), b.look(some)
    for k in others:
        assert rows[k] == others[k], k
    assert [r["type"] for r in rows[0, "event"]] == [
        "message.approved", "message.undone"]
    assert a.counted() and b.counted()


def test_one_way_and_the_other_are_told_alike(w, su):
    """The agent reads the same, and posternctl's way is the job's."""
    x, y = fresh(w, 0), fresh(w, 0)
    ms = [q.message() for q in (x, y)]
    assert all(r["status"] == 202 for r in submit_batch(w.gw, ms))
    assert call(w.ctl, "reject_all_1", s=w.root, tenant=x.tenant,
                inbox=x.inbox, category="sensitive_data", note="n", lim=9)[0][
                    "rejected"] == 1
    assert w.reject(ms[1], category="sensitive_data", note="n", via="job",
                    seconds=None)["status"] == 200
    got = [call1(w.gw, "my_get_1", t=q.tenant, k=q.full_key, a=q.full_a,
                 mid=m["mid"]) for q, m in zip((x, y), ms)]
    for k in ("state", "category", "note", "hint", "version", "round"):
        assert got[0][k] == got[1][k], k
    for q in (x, y):
        assert one(su, "SELECT held FROM d.quota WHERE inbox_id = %s",
                   q.inbox) == 0


def written(su, conn, table):
    for sql in ("SELECT pg_stat_force_next_flush()", "SELECT 1"):
        conn.cursor().execute(sql)
    return one(su, "SELECT sum(n_tup_upd) FROM pg_stat_user_tables WHERE "
               "schemaname = 'd' AND relname ~ %s", "^%s(_|$)" % table)


def test_a_step_reads_and_writes_what_is_its_own(w, su):
    """Planned when little was there; neither the rest of the job nor what
    else was decided, and each inbox's counters once."""
    x, y = fresh(w, 0), fresh(w, 1)
    c, ctl = w.db.connect("l_review"), w.db.connect("l_ctl")

    def held(n):
        for _ in range(0, n, 60):
            rows = submit_batch(w.gw, [q.message() for q in [x, y] * 30])
            assert {r["status"] for r in rows} == {202}

    def ready():
        job = uuid7()
        assert call1(w.rv, "job_make_1", s=w.root, job=job, verdict="r",
                     tenant=None, inbox=None, q=None, ids=None,
                     about="x")["status"] == 200
        sha = call1(w.rv, "jobs_1", s=w.root, job=job)["items_sha256"]
        assert call1(w.rv, "job_confirm_1", s=w.root, job=job,
                     items_sha256=sha, category="other", note=None,
                     hint=None)["status"] == 200
        return lambda lim: call1(c, "job_reject_1", s=w.root, job=job,
                                 lim=lim)

    def whole(lim):
        return call(ctl, "reject_all_1", s=w.root, tenant=x.tenant,
                    inbox=x.inbox, category="other", note="r", lim=lim)[0]
    try:
        held(60)
        step = ready()
        for _ in range(2):
            assert step(5)["status"] == 200
            assert whole(5)["status"] == 200
        while step(50)["state"] == 1:
            pass
        held(1500)
        step, lim = ready(), 40
        assert step(500)["remaining"] >= 1000  # decided, and in the way
        for conn, work in ((c, step), (ctl, whole)):
            before = written(su, conn, "quota"), written(su, conn, "state")
            most = fetched(w, conn, lambda: work(lim))
            assert max(most.values()) <= 12 * lim, (work, most)
            assert written(su, conn, "state") - before[1] == lim
            assert written(su, conn, "quota") - before[0] <= 2
        while step(500)["state"] == 1:
            pass
    finally:
        c.close()
        ctl.close()


def test_what_is_taken_back_is_read_alone(w, su):
    x, y = fresh(w, 0), fresh(w, 1)
    c = w.db.connect("l_review")

    def approved(n):
        ms = [q.message(risk=5) for q in [x, y] * (n // 2)]
        assert {r["status"] for r in submit_batch(w.gw, ms)} == {202}
        job = confirmed(w, None, ms, "a")
        for row in call(w.rv, "job_next_1", s=w.root, job=job, lim=100):
            assert call1(w.rv, "job_approve_1", s=w.root, job=job,
                         item=row["ix"], undo_seconds=60, failed=None,
                         **tag())["status"] == 200
        return lambda lim: call1(c, "job_undo_1", s=w.root, job=job, lim=lim)
    try:
        back = approved(6)
        for _ in range(3):
            assert back(2)["status"] == 200
        for _ in range(3):
            back, lim = approved(100), 10
        before = [written(su, c, t) for t in ("quota", "state")]
        most = fetched(w, c, lambda: back(lim))
        assert max(most.values()) <= 12 * lim, most
        assert written(su, c, "state") - before[1] == lim
        assert written(su, c, "quota") - before[0] <= 2
        assert back(500)["back"] == 100
    finally:
        c.close()


def test_jobs_over_the_same_mail_in_opposite_order(w, su):
    """Beside somebody who decides them one by one; each is decided once."""
    x, y = fresh(w, 0), fresh(w, 1)
    for _ in range(3):
        ms = [q.message() for q in [x, y] * 20]
        assert all(r["status"] == 202 for r in submit_batch(w.gw, ms))
        jobs = [confirmed(w, None, order, "r") for order in (ms, ms[::-1])]
        wrong, single = [], []

        def steps(job):
            c = w.db.connect("l_review")
            try:
                while call1(c, "job_reject_1", s=w.root, job=job,
                            lim=15)["state"] == 1:
                    pass
            except Exception as e:
                wrong.append(e)
            finally:
                c.close()

        def singly():
            c = w.db.connect("l_review")
            try:
                for m in ms[::3]:
                    single.append(call1(
                        c, "decide_1", s=w.root, mid=m["mid"], for_version=1,
                        for_round=1, dig=m["dig"], verdict="r",
                        idem=os.urandom(16), category="other", note=None,
                        hint=None, seconds=1, via="page", relay_box=None,
                        tag=None, expiry=None, undo_seconds=None,
                        resend=None)["status"])
            except Exception as e:
                wrong.append(e)
            finally:
                c.close()
        threads = [threading.Thread(target=steps, args=(j,)) for j in jobs]
        threads.append(threading.Thread(target=singly))
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert wrong == []
        done = sum(call1(w.rv, "jobs_1", s=w.root, job=j)["done"]
                   for j in jobs)
        assert done + single.count(200) == len(ms)
        for table in ("decision", "event"):
            assert one(su, "SELECT count(*) FROM d.%s WHERE message_id = ANY "
                       "(%%s::uuid[])" % table,
                       [m["mid"] for m in ms]) == len(ms)
        for q in (x, y):
            assert one(su, "SELECT held FROM d.quota WHERE inbox_id = %s",
                       q.inbox) == 0
