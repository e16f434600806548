# SPDX-License-Identifier: ISC
"""
Mail that leaves by its inbox's mode is released in sets: the same answers and
the same rows as one by one (api.submit_1), the same referee, and no ring.
"""
import os
import re
import threading
import time

import psycopg2
import pytest

import pgcluster
from period import DAY, within
from pgcluster import call1, sha256, submit, submit_batch, uuid7
from test_gate import one, tag
from test_many import waiting
from test_small import reads

LATER = int((time.time() + 7200) * 1e6)
TABLES = ("message", "body", "state", "release", "delivery", "send_q",
          "event")
# Of two worlds these differ; message ids and inboxes have names.
OWN = {"message_id", "tenant_id", "inbox_id", "key_id", "digest", "thread_id",
       "mail_from", "header_from", "xid", "n", "lineage", "key_sha256",
       "request_sha256", "vt"}
FIXED = ("send_at", "not_after", "expiry")


@pytest.fixture(scope="module")
def w():
    with pgcluster.Cluster(fast=True, settings={"autovacuum": "off"}) as db:
        yield pgcluster.World(db, tenants=4, inboxes=0)


@pytest.fixture(scope="module")
def su(w):
    return w.db.connect("postgres")


def fresh(w, tenant, mode=None):
    w.count = getattr(w, "count", 0) + 1
    x = w.inbox(w.tenants[tenant], "b%d@t%d.example" % (w.count, tenant))
    x.epoch = w.mode(x, mode) if mode is not None else 1
    x.mode = mode
    return x


def leaving(x, rcpts=("b@x.example",), **over):
    return x.message(rcpts, **dict(dict(
        tag(), tag_mode=x.mode, tag_mode_epoch=x.epoch), **over))


def limits(w, x, **over):
    assert call1(w.ctl, "limits_set_1", s=w.root, uid=0, tenant=x.tenant,
                 inbox=x.inbox, **dict(dict.fromkeys(
                     ("plan", "hour", "day", "month", "held", "bytes")),
                     **over))["status"] == 200


def listed(w, x, entry):
    w.step_up(w.root)
    assert call1(w.rv, "list_set_1", s=w.root, tenant=x.tenant,
                 inbox=x.inbox, entry=entry, verdict="s", reason="r",
                 expires=None)["status"] == 200


def session_key(w, x):
    a = os.urandom(32)
    run = call1(w.gw, "run_create_1", t=x.tenant, k=x.full_key, a=x.full_a,
                auth=sha256(a), seconds=600, run=None, sandbox_id=None,
                template=None, purpose=None, recipients=[],
                domains=["x.example"], max_messages=9, attachments=False,
                doors="r")
    return run["key_id"], a


class Twin:
    """The same inboxes as another has, in two tenants of its own."""

    def __init__(self, w, su, first):
        self.w, self.su, self.ms = w, su, []
        ends = (first, first + 1)
        self.auto, self.day, self.held, self.gated, self.paused = [
            fresh(w, first, m) for m in (4, 4, 4, 2, 4)]
        self.monitored, self.bytes, self.month, self.lists = [
            fresh(w, first + 1, m) for m in (3, 3, 4, 4)]
        self.boxes = {x.inbox: name for name, x in vars(self).items()
                      if isinstance(x, pgcluster.Inbox)}
        self.tenants = [w.tenants[n] for n in ends]
        limits(w, self.day, day=3)
        limits(w, self.month, month=2)
        limits(w, self.held, held=1)
        limits(w, self.bytes, bytes=10)
        listed(w, self.lists, "no@x.example")
        w.step_up(w.root)
        assert call1(w.rv, "pause_1", s=w.root, tenant=self.paused.tenant,
                     inbox=self.paused.inbox, paused=True,
                     reason="r")["status"] == 200
        self.rule = call1(w.rv, "allow_set_1", s=w.root,
                          tenant=self.gated.tenant, inbox=self.gated.inbox,
                          entry="ok@x.example", uses=1, days=1,
                          reason="r")["rule_id"]
        self.session = session_key(w, self.auto)

    def name(self, mid):
        """Which of ours, or none."""
        at = [i for i, m in enumerate(self.ms) if m["mid"] == mid]
        return at[0] if at else str(mid)

    def answer(self, m, r):
        mine = [q for q in self.ms if q["mid"] == r["message_id"]]
        return dict(
            (k, r[k]) for k in ("status", "code", "state", "version", "round",
                                "reasons", "replay", "already_held")) | dict(
            wait=r["wait"] is not None, hold=r["hold_until"] is not None,
            message=self.name(r["message_id"]),
            thread=r["thread_id"] and self.name(r["thread_id"]),
            digest=r["digest"] and bytes(r["digest"]) == mine[0]["dig"])

    def rows(self, sql, *args):
        cur = self.su.cursor()
        cur.execute("SELECT to_jsonb(z) FROM (%s) z" % sql, args)
        return [r for r, in cur.fetchall()]

    def plain(self, row):
        """Without what only this world has; and when it says what was."""
        times, rest = {}, {}
        for k, v in row.items():
            if k in OWN:
                continue
            if isinstance(v, str) and re.match(r"\d{4}-\d\d-\d\dT", v):
                times[k] = one(self.su, "SELECT extract(epoch FROM %s"
                               "::timestamptz)::float8", v)
            elif k == "actor" and ":" in str(v):
                rest[k] = v.split(":")[0]
            elif k in FIXED and v:
                times[k] = v / 1e6
            elif k == "detail" and v:
                rest[k] = re.sub(r"[0-9a-f]{64}|(?<=\"inbox\":)\d+", "", v)
            else:
                rest[k] = v
        return rest, times

    def look(self):
        out, whens = {}, {}
        for i, m in enumerate(self.ms):
            for table in TABLES + ("audit", "idem"):
                order = {"audit": "n", "event": "n"}.get(table, "z")
                got = [self.plain(r) for r in self.rows(
                    "SELECT * FROM d.%s z WHERE message_id = %%s ORDER BY %s"
                    % (table, order), m["mid"])]
                out[i, table] = [r for r, _ in got]
                whens[i, table] = [t for _, t in got]
        for box, name in self.boxes.items():
            out[name] = self.plain(self.rows(
                "SELECT * FROM d.quota WHERE inbox_id = %s", box)[0])[0]
        out["rule"] = one(self.su, "SELECT uses_left FROM d.allow_rule "
                          "WHERE rule_id = %s", self.rule)
        out["session"] = self.rows("SELECT sent, refused FROM d.agent_session "
                                   "WHERE key_id = %s", self.session[0])
        return out, whens

    def places(self):
        """Of each of its tenants: who comes after how much since the first."""
        out = []
        for t in self.tenants:
            cur = self.su.cursor()
            cur.execute("SELECT message_id, vt FROM d.send_q WHERE tenant_id "
                        "= %s AND message_id = ANY (%s::uuid[]) AND due_at < "
                        "now() ORDER BY vt, 1",
                        (t, [m["mid"] for m in self.ms]))
            got = cur.fetchall()
            out.append([(self.name(m), vt - got[0][1]) for m, vt in got])
        return out


def plain_rows(q):
    """What goes in a set, by inbox, in the order of tenants and inboxes."""
    key, same = os.urandom(32), os.urandom(32)
    many = ("a@x.example", "b@x.example", "c@y.example", "d@Z.example")
    first = leaving(q.auto, many, idem=key, request=same, body=b"k" * 50000)
    q.key, q.same, q.first = key, same, first
    return [
        first,
        leaving(q.auto, not_after=LATER, body=b"n" * 9000),
        leaving(q.auto, ["a@x.example"], rfc_id="<one@x>"),
        q.auto.message(),
        leaving(q.auto, key=(q.auto.full_key, q.auto.full_a), labels="l"),
        leaving(q.day, body=b"1"), q.day.message(),
        leaving(q.day, body=b"333"),
        q.held.message(), leaving(q.held, body=b"h" * 77), leaving(q.held),
        q.gated.message(), q.gated.message(many),
        q.paused.message(),
        leaving(q.monitored, ['"a"@x.example', "A.b@X.example"]),
        q.monitored.message(),
        leaving(q.bytes, body=b"x" * 100), q.bytes.message(body=b"y" * 8),
        leaving(q.bytes, body=b"x" * 300),
        leaving(q.month), q.month.message(),
        leaving(q.lists, ["yes@x.example"]),
    ]


def other_rows(q):
    """What goes alone, or nowhere."""
    past = int((time.time() - 5) * 1e6)
    soon = int((time.time() + 3000) * 1e6)
    return [
        leaving(q.auto, idem=q.key, request=q.same),
        leaving(q.auto, idem=q.key),
        dict(q.first),
        leaving(q.auto, in_reply_to="<one@x>", send_at=soon),
        leaving(q.auto, tag_mode_epoch=q.auto.epoch + 1),
        leaving(q.auto, tag_mode=3),
        leaving(q.auto, expiry=past), leaving(q.auto, tag=b"g" * 31),
        leaving(q.auto, relay_box=b"r" * 47),
        leaving(q.auto, relay_box=b"r" * 1025),
        leaving(q.auto, not_after=LATER, expiry=LATER + 1),
        leaving(q.auto, expiry=int((time.time() + 73 * 3600) * 1e6)),
        leaving(q.auto, limiter=False), leaving(q.auto, limiter=None),
        leaving(q.auto, ["nobody"]), leaving(q.auto, dig=sha256(b"x"),
                                             send_at=soon),
        leaving(q.auto, size=1 << 30), leaving(q.auto, not_after=past),
        leaving(q.auto, key=q.session), leaving(q.auto, key=q.session,
                                                rcpts=["b@y.example"]),
        leaving(q.auto, key=(q.auto.send_key, os.urandom(32))),
        leaving(q.auto, mid=uuid7(time.time() - 4000)),
        leaving(q.day), q.day.message(),
        q.held.message(),
        leaving(q.gated, ["ok@x.example"], findings_set=1),
        leaving(q.gated, ["ok@x.example"], findings_set=1),
        leaving(q.paused), leaving(q.paused, limiter=False),
        q.bytes.message(body=b"z" * 3),
        leaving(q.month), q.month.message(),
        leaving(q.lists, ["no@x.example", "yes@x.example"]),
    ]


def by_batch(w, ms):
    return submit_batch(w.gw, ms)


def by_batches_of_one(w, ms):
    return [submit_batch(w.gw, [m])[0] for m in ms]


@pytest.mark.parametrize("way", [by_batch, by_batches_of_one])
def test_as_one_by_one(w, su, way):
    within(DAY, 60)
    a, b = Twin(w, su, 0), Twin(w, su, 2)
    for q in (a, b):
        q.ms = plain_rows(q) + other_rows(q)
    got = way(w, a.ms)
    want = [submit(w.gw, m) for m in b.ms]
    for i, (r, s) in enumerate(zip(got, want)):
        assert a.answer(a.ms[i], r) == b.answer(b.ms[i], s), i
    states = [r["state"] for r in want]
    assert states[:3] == [2] * 3 and states.count(2) >= 14
    assert {r["code"] for r in want} >= {
        "rate_limited", "held_limit", "limiter_unavailable",
        "message_rejected", "idempotency_conflict", "digest_mismatch",
        "unknown_api_key", "session_policy", "store_unavailable"}
    (rows, whens), (others, others_whens) = a.look(), b.look()
    for k in others:
        assert rows[k] == others[k], k
    for k, times in others_whens.items():
        for t, u in zip(whens[k], times):
            assert t == pytest.approx(u, abs=120), k
    for p, r in zip(a.places(), b.places()):
        assert len(p) > 4
        assert [m for m, _ in p] == [m for m, _ in r]
        assert [v for _, v in p] == pytest.approx([v for _, v in r],
                                                  abs=3e-6)


def test_the_next_place_is_behind_the_last(w, su):
    """A set takes its tenant's places as one by one do."""
    x = fresh(w, 0, 4)
    assert submit(w.gw, leaving(x))["state"] == 2
    su.cursor().execute("UPDATE d.tenant SET weight = 0.5 "
                        "WHERE tenant_id = %s", (x.tenant,))
    su.cursor().execute("UPDATE d.fair SET vt = vt + 1000 "
                        "WHERE tenant_id = %s", (x.tenant,))

    def place(m=None):
        return one(su, "SELECT vt FROM d.send_q WHERE message_id = %s",
                   m["mid"]) if m else one(
            su, "SELECT vt FROM d.fair WHERE tenant_id = %s", x.tenant)
    try:
        last = place()
        ms = [leaving(x, body=b"b" * n) for n in (5000, 1, 70000)]
        submit_batch(w.gw, ms)
        for m in ms:
            step = (0.001 + m["size"] / 52428800) / 0.5
            assert place(m) == pytest.approx(last + step, abs=1e-6)
            last = place(m)
        assert place() == pytest.approx(last, abs=1e-6)
        # A place of a clock that was wrong counts no more.
        su.cursor().execute("UPDATE d.fair SET vt = vt + 90000 "
                            "WHERE tenant_id = %s", (x.tenant,))
        submit_batch(w.gw, [leaving(x), leaving(x)])
        assert place() < time.time() + 100
    finally:
        su.cursor().execute("UPDATE d.tenant SET weight = 1")


def test_the_referee_refuses_a_set(w, su):
    """Paused between the two looks: nothing of the set leaves at once, and
    each then has its own answer."""
    within(DAY, 30)
    x, y = fresh(w, 0, 4), fresh(w, 1, 3)
    cur = su.cursor()
    cur.execute("CREATE FUNCTION public.a_moment() RETURNS trigger "
                "LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN "
                "UPDATE d.inbox SET paused_at = now() WHERE inbox_id = %d; "
                "RETURN NEW; END $$" % y.inbox)
    cur.execute("CREATE TRIGGER a_moment BEFORE INSERT ON d.release "
                "FOR EACH ROW WHEN (NEW.inbox_id = %d) "
                "EXECUTE FUNCTION public.a_moment()" % y.inbox)
    ms = [leaving(x), leaving(y), x.message(), leaving(y), leaving(x)]
    try:
        got = submit_batch(w.gw, ms)
    finally:
        cur.execute("DROP FUNCTION public.a_moment CASCADE")
    assert [(r["status"], r["state"], r["reasons"]) for r in got] == [
        (202, 2, ""), (202, 1, "mode"), (202, 1, "mode"), (202, 1, "mode"),
        (202, 2, "")]
    assert [r["hold_until"] is None for r in got] == [
        True, False, False, False, True]
    for m, r in zip(ms, got):
        left = r["state"] == 2
        for table in ("release", "delivery", "send_q"):
            assert one(su, "SELECT count(*) FROM d.%s WHERE message_id = %%s"
                       % table, m["mid"]) == left
        assert one(su, "SELECT state FROM d.state WHERE message_id = %s",
                   m["mid"]) == r["state"]
        cur.execute("SELECT n, type, actor, detail FROM d.event "
                    "WHERE message_id = %s", (m["mid"],))
        assert cur.fetchall() == (
            [(2, "message.approved", "policy", None)] if left
            else [(2, "message.held", "agent", "mode")] if m["tag"] else [])
        assert one(su, "SELECT count(*) FROM d.audit WHERE message_id = %s "
                   "AND event = 'message.approved'", m["mid"]) == left
    for box, used, held in ((x, 3, 1), (y, 2, 2)):
        cur.execute("SELECT day_used, held, held_bytes FROM d.quota "
                    "WHERE inbox_id = %s", (box.inbox,))
        assert cur.fetchone() == (used, held, held * len(b"sealed"))


@pytest.mark.parametrize("what,why", [
    ("tenant", None), ("tenant", "paused"), ("inbox", "paused"),
    ("global_pause", "paused")])
def test_a_pause_before_is_a_reason(w, su, what, why):
    x = fresh(w, 0, 4)
    where = {"tenant": "tenant_id = %d" % x.tenant, "inbox": "inbox_id = %d"
             % x.inbox, "global_pause": "one"}[what]
    su.cursor().execute("UPDATE d.%s SET paused_at = %s WHERE %s" % (
        what, "now()" if why else "NULL", where))
    try:
        got = submit_batch(w.gw, [leaving(x), leaving(x)])
    finally:
        su.cursor().execute("UPDATE d.%s SET paused_at = NULL WHERE %s"
                            % (what, where))
    assert [(r["state"], r["reasons"]) for r in got] == [
        (1, why) if why else (2, "")] * 2


BAD = [("p_policy", "m", 4, 1, True), ("p_policy", "m", 4, 0, False),
       ("p_policy", "m", 3, 1, False), ("p_policy", "o", None, 1, False),
       ("p_policy", "r", 4, 1, False), ("p_submit", "m", 4, 1, False),
       ("p_review", "m", 4, 1, False), ("p_review", "o", None, 1, False)]


@pytest.mark.parametrize("role,how,mode,paused,ok", BAD)
def test_the_referee_looks_at_each_row(w, su, role, how, mode, paused, ok):
    """Of a statement with one row that may not leave, none does."""
    x, y = fresh(w, 0, 4), fresh(w, 0, 4)
    ms = [x.message(), x.message(), y.message(), x.message()]
    assert all(r["status"] == 202 for r in submit_batch(w.gw, ms))
    insert = """INSERT INTO d.release (message_id, tenant_id, inbox_id,
        version, round, digest, by_what, mode, mode_epoch, relay_box, tag,
        expiry, not_before) SELECT m.message_id, m.tenant_id, m.inbox_id, 1,
        %(round)s, m.digest, %(how)s, %(mode)s::smallint, CASE WHEN
        %(mode)s::smallint IS NOT NULL THEN m.mode_epoch END, %(box)s,
        %(tag)s, 1, now() FROM d.message m WHERE m.message_id
        = ANY (%(mids)s::uuid[])"""
    args = dict(how=how, mode=mode, box=b"r" * 99, tag=b"g" * 32, round=1,
                mids=[m["mid"] for m in ms])
    c = w.db.connect("postgres", autocommit=False)
    cur = c.cursor()

    def tries(**over):
        cur.execute("SET LOCAL ROLE %s" % role)
        cur.execute("SELECT set_config('postern.tenants', %s, true)",
                    ("{%d}" % x.tenant,))
        try:
            cur.execute(insert, dict(args, **over))
            return cur.rowcount
        except (psycopg2.errors.CheckViolation,
                psycopg2.errors.InsufficientPrivilege):
            return 0
        finally:
            c.rollback()
    try:
        if not paused:
            cur.execute("UPDATE d.inbox SET mode_epoch = mode_epoch "
                        "WHERE inbox_id = %s", (y.inbox,))
            cur.execute("SET session_replication_role = replica")
            cur.execute("UPDATE d.inbox SET paused_at = now() "
                        "WHERE inbox_id = %s", (y.inbox,))
            cur.execute("RESET session_replication_role")
            c.commit()
        assert tries() == (len(ms) if ok else 0)
        if ok:
            assert tries(round=2) == 0
            assert tries(mids=[ms[0]["mid"]]) == 1
    finally:
        c.close()


@pytest.mark.parametrize("role,released", [
    ("p_policy", 2), ("p_policy", 1), ("p_policy", 0), ("p_submit", 2)])
def test_what_begins_released_has_a_release(w, su, role, released):
    """Each of a statement; and it is the referee's to begin so."""
    x = fresh(w, 0, 4)
    ms = [leaving(x), leaving(x)]
    assert all(r["state"] == 2 for r in submit_batch(w.gw, ms))
    c = w.db.connect("postgres", autocommit=False)
    cur = c.cursor()
    mids = [m["mid"] for m in ms]
    try:
        cur.execute("SET LOCAL session_replication_role = replica")
        for table in ("send_q", "delivery", "state"):
            cur.execute("DELETE FROM d.%s WHERE message_id = ANY "
                        "(%%s::uuid[])" % table, (mids,))
        cur.execute("DELETE FROM d.release WHERE message_id = ANY "
                    "(%s::uuid[])", (mids[released:],))
        cur.execute("SET LOCAL session_replication_role = origin")
        cur.execute("SET LOCAL ROLE %s" % role)
        cur.execute("SELECT set_config('postern.boxes', %s, true)",
                    ("{%d.%d}" % (x.tenant, x.inbox),))
        insert = ("INSERT INTO d.state (message_id, tenant_id, inbox_id, "
                  "version, state, risk, hold_until) SELECT m, %s, %s, 1, 2, "
                  "50, now() FROM unnest(%s::uuid[]) m")
        args = (x.tenant, x.inbox, mids)
        if role == "p_policy" and released == 2:
            cur.execute(insert, args)
            assert cur.rowcount == 2
        else:
            with pytest.raises(psycopg2.errors.CheckViolation):
                cur.execute(insert, args)
    finally:
        c.rollback()
        c.close()


def test_a_set_reads_what_it_names(w, su):
    """And not the week, though it was planned when that was empty."""
    x, y = fresh(w, 0, 4), fresh(w, 1, 4)
    c = w.db.connect("l_gateway")
    try:
        for _ in range(3):
            submit_batch(c, [leaving(x), leaving(y)])
        for _ in range(20):
            submit_batch(w.gw, [leaving(q) for q in [x] * 30 + [y] * 30])
        ms = [leaving(q, ("a@x.example", "b@y.example"))
              for q in [x] * 10 + [y] * 10]
        most = reads(w, c, lambda: submit_batch(c, ms))
        assert max(most.values()) <= 12 * len(ms), most
    finally:
        c.close()


def held_back(w, su, ms, tenant, other):
    """What a batch locks of other tenants while it waits for a place of
    this one."""
    blocker = w.db.connect("postgres", autocommit=False)
    c = w.db.connect("l_gateway")
    got = []
    t = threading.Thread(target=lambda: got.extend(submit_batch(c, ms)))
    try:
        cur = blocker.cursor()
        cur.execute("SELECT 1 FROM d.fair WHERE tenant_id = %s FOR UPDATE",
                    (tenant,))
        t.start()
        waiting(su, c.info.backend_pid)
        cur.execute("SET LOCAL lock_timeout = '5s'")
        cur.execute("SELECT 1 FROM d.fair WHERE tenant_id = %s FOR UPDATE",
                    (other,))
        assert cur.rowcount == 1
    finally:
        blocker.rollback()
        blocker.close()
        t.join()
        c.close()
    return got


def test_batches_ask_for_places_in_one_order(w, su):
    """Whatever the order of their rows, and whatever goes alone."""
    x, y = fresh(w, 0, 4), fresh(w, 1, 4)
    for q in (x, y):
        assert submit(w.gw, leaving(q))["state"] == 2
    soon = int((time.time() + 3000) * 1e6)
    for ms in ([leaving(x), leaving(y)], [leaving(y), leaving(x)],
               [leaving(y), leaving(x, send_at=soon)],
               [leaving(y), leaving(y), x.message(),
                leaving(x, send_at=soon)]):
        got = held_back(w, su, ms, x.tenant, y.tenant)
        assert [r["state"] for r in got] == [
            2 if m["tag"] else 1 for m in ms]


def test_two_batches_in_opposite_order(w, su):
    boxes = [fresh(w, n % 2, 4) for n in range(6)]
    soon = int((time.time() + 3000) * 1e6)
    errors = []

    def send(order, late):
        c = w.db.connect("l_gateway")
        try:
            for _ in range(25):
                ms = [leaving(q, **dict(send_at=soon) if q is late else {})
                      for q in order]
                got = submit_batch(c, ms)
                assert [r["state"] for r in got] == [2] * len(ms)
        except Exception as e:
            errors.append(e)
        finally:
            c.close()
    threads = [threading.Thread(target=send, args=a) for a in (
        (boxes[:3], boxes[0]), (boxes[3:][::-1], boxes[4]),
        (boxes[3:], boxes[5]))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []


def test_a_batch_of_one_with_what_only_a_broken_gateway_sends(w, su):
    """It is told which row it was when it asks for that alone."""
    x = fresh(w, 0, 4)
    for over, code in ((dict(dig=sha256(b"x")), "digest_mismatch"),
                       (dict(risk=101), "validation_error")):
        for m in (x.message(**over), leaving(x, **over)):
            with pytest.raises(psycopg2.IntegrityError):
                submit_batch(w.gw, [m])
            assert submit(w.gw, m)["code"] == code


def test_care_ends_with_its_call(w, su):
    x = fresh(w, 0, 4)
    c = w.db.connect("l_gateway", autocommit=False)
    try:
        later = leaving(x, send_at=int((time.time() + 3000) * 1e6))
        assert submit_batch(c, [leaving(x), later])[1]["state"] == 2
        assert submit(c, leaving(x))["state"] == 2
        with pytest.raises(psycopg2.IntegrityError):
            submit_batch(c, [leaving(x, dig=sha256(b"x"))])
    finally:
        c.rollback()
        c.close()
