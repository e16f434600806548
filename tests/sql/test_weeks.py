# SPDX-License-Identifier: ISC
"""A year of weeks, a week that is missing, a clock that is wrong: in clusters
of their own, as other tests count on the weeks around today."""

import time

import psycopg2
import psycopg2.extras
import pytest

import pgcluster
from period import WEEK, within
from pgcluster import World, call, submit, uuid7

YEAR = 60


@pytest.fixture(scope="module")
def w():
    within(WEEK, 600)  # for all that counts weeks from this one
    with pgcluster.Cluster(fast=True) as db:
        world = World(db, tenants=1, inboxes=1)
        world.su = db.connect()
        for n in range(2, YEAR - 5):
            sql(world.su, "SELECT d.partition_make("
                "d.monday(clock_timestamp()) - 7 * %s)", n)
        yield world


def sql(conn, query, *args):
    with conn.cursor() as c:
        c.execute(query, args or None)
        return c.fetchall() if c.description else []


def weeks(w):
    return sql(w.su, "SELECT count(*) FROM d.weeks()")[0][0]


def maintain(w, conn=None, after_gap=None, **how):
    rows = call(conn or w.ctl, "maintain_1", uid=0, after_gap=after_gap, **{
        "weeks_ahead": 4, "body_days": 30, "meta_days": 400, **how})
    return {r["what"]: r["n"] for r in rows}, rows[0]["status"]


def locks_of(w, conn, name, **args):
    """How many tables and indexes most calls lock. Once a session PostgreSQL
    also tries how a plan over all weeks would be."""
    conn.autocommit = False
    n = []
    try:
        for _ in range(7):
            conn.rollback()
            rows = call(conn, name, **args)
            assert rows[0]["status"] == 200, rows
            n += sql(w.su, "SELECT count(*) FROM pg_locks WHERE pid = %s AND "
                     "locktype = 'relation'", conn.info.backend_pid)[0]
        return sorted(n)[3]
    finally:
        conn.rollback()
        conn.autocommit = True


def test_what_is_about_one_message_opens_one_week(w):
    x = w.inboxes[0]
    m = x.message()
    assert submit(w.gw, m)["status"] == 202
    agent = dict(t=x.tenant, k=x.full_key, a=x.full_a)
    person = dict(s=bytes(w.root), mid=m["mid"], for_version=None, why=None)
    assert weeks(w) >= YEAR
    for conn, name, args in (
            (w.gw, "my_get_1", dict(agent, mid=m["mid"])),
            (w.gw, "my_events_1", dict(agent, mid=m["mid"])),
            (w.gw, "my_body_1", dict(agent, mid=m["mid"], from_seq=0, lim=9)),
            (w.rv, "review_keys_1", person),
            (w.rv, "review_body_1", dict(person, from_seq=0, lim=9))):
        n = locks_of(w, conn, name, **args)
        assert n < 4 * YEAR, (name, n)  # tables, no indexes of other weeks


def test_a_list_begins_with_the_last_weeks(w):
    """Of older ones it reads only where there are some, and in order."""
    x = w.inbox(w.tenants[0], "list@t0.example")
    agent = dict(t=x.tenant, k=x.full_key, a=x.full_a, states=None,
                 until=None, label=None)
    now = [x.message() for _ in range(3)]
    for m in now:
        assert submit(w.gw, m)["status"] == 202

    def ids(after=None, lim=50, since=None):
        return [r["message_id"] for r in call(
            w.gw, "my_list_1", after=after, lim=lim, since=since, **agent)]
    new = sorted((m["mid"] for m in now), reverse=True)
    assert ids() == new
    full = locks_of(w, w.gw, "my_list_1", after=None, lim=3, since=None,
                    **agent)
    assert full < 3 * YEAR, full
    # The same rows, as if they had been submitted 10 to 40 weeks ago.
    old = []
    with w.su.cursor() as c:
        c.execute("SET session_replication_role = replica")
        for n, m in zip((10, 20, 40), now):
            at = uuid7(m["mid"].int / (1 << 80) / 1000 - n * WEEK)
            for table in ("message", "state"):
                c.execute("SELECT to_jsonb(y) FROM d.%s y WHERE message_id = "
                          "%%s" % table, (m["mid"],))
                row = c.fetchone()[0]
                row["message_id"] = str(at)
                row.pop("stays", None)  # made of the state
                if table == "message":
                    row["digest"] = redone(c, row)
                c.execute("INSERT INTO d.%s (%s) SELECT %s FROM "
                          "jsonb_populate_record(NULL::d.%s, %%s::jsonb)" % (
                              table, ", ".join(row), ", ".join(row), table),
                          (psycopg2.extras.Json(row),))
            old.append(at)
        c.execute("RESET session_replication_role")
    assert ids() == new + old
    assert ids(lim=4) == new + old[:1]
    assert ids(after=new[-1]) == old
    assert ids(after=old[0]) == old[1:]
    assert ids(since="2000-01-01") == new + old
    assert ids(since=sql(w.su, "SELECT now() - interval '15 weeks'")[0][0]) \
        == new + old[:1]


def redone(c, row):
    c.execute("SELECT d.digest_1(y.tenant_id, y.inbox_id, y.message_id, "
              "y.version, y.test, y.mail_from, y.rcpt, y.params, y.size, "
              "y.body_tag, y.send_at, y.not_after) FROM jsonb_populate_record("
              "NULL::d.message, %s::jsonb) y", (psycopg2.extras.Json(row),))
    return "\\x" + bytes(c.fetchone()[0]).hex()


def test_sweeping_bodies_does_not_read_the_messages_without(w):
    """They are what is left after a month, and stay for a year."""
    x = w.inboxes[0]
    with w.su.cursor() as c:
        c.execute("SET session_replication_role = replica")
        for n in range(300):
            mid = uuid7(time.time() - 20 * WEEK - n)
            c.execute("INSERT INTO d.state (message_id, tenant_id, inbox_id, "
                      "version, state, risk, hold_until, changed_at) VALUES "
                      "(%s, %s, %s, 1, 8, 1, now(), now() - interval "
                      "'19 weeks')", (mid, x.tenant, x.inbox))
        last = mid
        c.execute("INSERT INTO d.body VALUES (%s, %s, %s, 1, 0, 'abc'), "
                  "(%s, %s, %s, 1, 1, 'def')", (last, x.tenant, x.inbox) * 2)
        c.execute("RESET session_replication_role")
        leaf = sql(w.su, "SELECT tableoid::regclass::text FROM d.state "
                   "WHERE message_id = %s", last)[0][0]
        w.su.autocommit = False
        read = "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, " \
            "0) FROM pg_stat_xact_user_tables WHERE relid = %s::regclass"
        before = sql(w.su, read, leaf)[0][0]
        got = sql(w.su, "SELECT bodies FROM d.sweep_small(30, 400)")[0][0]
        assert got == 2
        assert sql(w.su, read, leaf)[0][0] - before <= 10
        w.su.rollback()
        w.su.autocommit = True


def dated(w, mid, weeks_ago):
    """All there is of a message, as if it had been submitted then."""
    new = uuid7(mid.int / (1 << 80) / 1000 - weeks_ago * WEEK)
    with w.su.cursor() as c:
        c.execute("SET session_replication_role = replica")
        c.execute("UPDATE d.message y SET message_id = %s, digest = "
                  "d.digest_1(y.tenant_id, y.inbox_id, %s, y.version, y.test, "
                  "y.mail_from, y.rcpt, y.params, y.size, y.body_tag, "
                  "y.send_at, y.not_after) WHERE message_id = %s RETURNING "
                  "digest", (new, new, mid))
        digest = c.fetchone()[0]
        for table in ("body", "state", "delivery", "event"):
            c.execute("UPDATE d.%s SET message_id = %%s WHERE message_id = "
                      "%%s" % table, (new, mid))
        for table in ("decision", "release", "send_q"):
            c.execute("UPDATE d.%s SET message_id = %%s, digest = %%s WHERE "
                      "message_id = %%s" % table, (new, digest, mid))
        c.execute("RESET session_replication_role")
    return new


def work(w, conn, name, leases, **more):
    """A call about a set of leases; the numbers it answers with."""
    return {r["i"] for r in call(conn, name, **more, **{
        k + "s": [L[f] for L in leases] for k, f in (
            ("t", "tenant_id"), ("mid", "message_id"), ("dom", "domain"),
            ("lease", "lease"))}, ixs=["{1}"] * len(leases))}


DOT = dict(mxs=["mx.example"] * 3, tlss=[None] * 3)
SENT = dict(codes=[250] * 3, enhs=["2.0.0"] * 3, replies=["ok"] * 3)
CLAIM = dict(worker="w", lim=9, lease_seconds=600)


def test_a_delivery_locks_nothing_of_other_weeks_but_to_look(w):
    """What it locks or changes is of the week of its mail (0127)."""
    x = w.inbox(w.tenants[0], "leaves@t0.example")
    conn = w.db.connect("l_worker", autocommit=False)

    def locked(name, *args, **more):
        """Tables that were locked for more than reading."""
        for _ in range(7):  # with a plan that is kept, too
            conn.rollback()
            got = args and work(w, conn, name, *args, **more) or call(
                conn, name, **more)
            assert len(got) == 3, got
            n = sql(w.su, "SELECT count(*) FROM pg_locks y JOIN pg_class c ON "
                    "c.oid = y.relation WHERE y.pid = %s AND c.relkind = 'r' "
                    "AND c.relispartition AND mode <> 'AccessShareLock'",
                    conn.info.backend_pid)[0][0]
        return n
    for _ in range(3):
        m = x.message()
        assert submit(w.gw, m)["status"] == 202
        assert w.approve(m)["state"] == 2
    assert weeks(w) >= YEAR
    assert 0 < locked("claim_due_1", **CLAIM) < 6
    conn.rollback()
    leases = call(w.wk, "claim_due_1", **CLAIM)
    assert 0 < locked("dots_1", leases, boxes=[x.inbox] * 3, **DOT) < 6
    conn.rollback()
    assert work(w, w.wk, "dots_1", leases, boxes=[x.inbox] * 3,
                **DOT) == {1, 2, 3}
    assert 0 < locked("sents_1", leases, **SENT) < 8
    conn.commit()


@pytest.mark.parametrize("ago", [0, 1, 30])
def test_a_set_of_several_weeks(w, ago):
    """What is tried again goes with what is new; with all of an old week."""
    x = w.inbox(w.tenants[0], "ago%d@t0.example" % ago)
    mids = []
    for n in range(3):
        m = x.message()
        assert submit(w.gw, m)["status"] == 202
        assert w.approve(m)["state"] == 2
        mids.append(dated(w, m["mid"], ago) if n < 2 or ago == 30
                    else m["mid"])
    leases = call(w.wk, "claim_due_1", **CLAIM)
    assert {L["message_id"] for L in leases} == set(mids)
    assert work(w, w.wk, "dots_1", leases, boxes=[x.inbox] * 3,
                **DOT) == {1, 2, 3}
    assert work(w, w.wk, "sents_1", leases, **SENT) == {1, 2, 3}
    assert [r[0] for r in sql(
        w.su, "SELECT state FROM d.state WHERE message_id = ANY (%s::uuid[])",
        mids)] == [8, 8, 8]
    assert not sql(w.su, "SELECT 1 FROM d.send_q")


def test_a_week_has_its_functions_as_long_as_it_is_there(w):
    def of(monday):
        return [r[0] for r in sql(
            w.su, "SELECT proname::text FROM pg_proc WHERE pronamespace = "
            "'d'::regnamespace AND proname ~ %s ORDER BY 1",
            "_at_%s$" % monday)]
    last, = sql(w.su, "SELECT to_char(min(y), 'YYYYMMDD'), min(y) "
                "FROM d.weeks() y")
    every = ["%s_at_%s" % (n, last[0])
             for n in ("claim", "dots", "leased", "sents")]
    assert of(last[0]) == every
    assert sql(w.su, "SELECT d.partition_drop(%s)", last[1]) == [(1,)]
    assert of(last[0]) == []
    assert sql(w.su, "SELECT d.partition_make(%s) > 0", last[1]) == [(True,)]
    assert of(last[0]) == every


def test_what_leaves_changes_no_index_of_states(w):
    """No index names the state, and there is room in the page (0126)."""
    x = w.inbox(w.tenants[0], "hot@t0.example")
    for _ in range(3):
        m = x.message()
        assert submit(w.gw, m)["status"] == 202
        assert w.approve(m)["state"] == 2
    conn = w.db.connect("l_worker", autocommit=False)
    leaf, = sql(w.su, "SELECT DISTINCT tableoid::int FROM d.state "
                "WHERE message_id = %s", m["mid"])[0]

    def changed():
        """Rows of states, and those that no index had to be told of."""
        with conn.cursor() as c:
            c.execute("SELECT pg_stat_get_xact_tuples_updated(%s), "
                      "pg_stat_get_xact_tuples_hot_updated(%s)", (leaf, leaf))
            return c.fetchone()
    leases = call(conn, "claim_due_1", **CLAIM)
    assert changed() == (3, 3)
    assert work(w, conn, "dots_1", leases, boxes=[x.inbox] * 3,
                **DOT) == {1, 2, 3}
    assert work(w, conn, "sents_1", leases, **SENT) == {1, 2, 3}
    assert changed() == (6, 6)
    conn.commit()


def held(w):
    """Somebody who reads for long, such as pg_dump."""
    reader = w.db.connect(autocommit=False)
    sql(reader, "LOCK TABLE d.message, d.body, d.state, d.decision, "
        "d.release, d.delivery, d.event, d.audit IN ACCESS SHARE MODE")
    return reader


def test_weeks_are_made_beside_who_reads_and_who_submits(w):
    x = w.inboxes[0]
    reader = held(w)
    ctl = w.db.connect("l_ctl", autocommit=False)
    gw = w.db.connect("l_gateway")
    for c in (ctl, gw):
        sql(c, "SET lock_timeout = '10s'")
    ctl.commit()
    before = weeks(w)
    got, _ = maintain(w, ctl, weeks_ahead=7)
    assert got["partitions made"] == 2 * 12
    # not committed yet
    assert submit(gw, x.message())["status"] == 202
    assert call(gw, "my_list_1", t=x.tenant, k=x.full_key, a=x.full_a,
                after=None, lim=1, states=None, since=None, until=None,
                label=None)[0]["status"] == 200
    ctl.commit()
    assert weeks(w) == before + 2
    reader.rollback()


def test_a_week_that_is_read_goes_another_day(w):
    """And what waits behind the try waits half a second, not for the end."""
    reader = held(w)
    before = weeks(w)
    got, status = maintain(w, weeks_ahead=7, meta_days=360)
    assert (status, got["weeks dropped"], got["weeks in use"]) == (200, 0, 1)
    assert weeks(w) == before
    reader.rollback()
    got, _ = maintain(w, weeks_ahead=7, meta_days=360)
    assert got["weeks dropped"] > 0 and got["weeks in use"] == 0
    assert weeks(w) == before - got["weeks dropped"]


def test_a_year_is_made_or_dropped_some_weeks_a_call(w):
    """Each call fits into the time of one, and into the table of locks."""
    before = weeks(w)
    made = []
    while True:
        n = maintain(w, weeks_ahead=50)[0]["partitions made"]
        if n == 0:
            break
        made.append(n)
    assert max(made) == 8 * 12 and weeks(w) == before + sum(made) // 12
    gone = []
    while True:
        n = maintain(w, weeks_ahead=50, meta_days=30)[0]["weeks dropped"]
        if n == 0:
            break
        gone.append(n)
    assert max(gone) == 4 and sum(gone) > 30


@pytest.fixture(scope="module")
def lost():
    """Its weeks are taken away."""
    within(WEEK, 300)
    with pgcluster.Cluster(fast=True) as db:
        world = World(db, tenants=1, inboxes=1)
        world.su = db.connect()
        yield world


def only(w, ago):
    for (name,) in sql(w.su, "SELECT oid::regclass::text FROM pg_class WHERE "
                       "relkind = 'r' AND relname ~ '_[0-9]{8}$' AND "
                       "relispartition"):
        sql(w.su, "DROP TABLE %s CASCADE" % name)
    sql(w.su, "SELECT d.partition_make(d.monday(clock_timestamp()) - 7 * %s)",
        ago)


def test_after_seven_weeks_without(lost):
    w, x = lost, lost.inboxes[0]
    only(w, 7)
    with pytest.raises(psycopg2.errors.CheckViolation) as e:
        submit(w.gw, x.message())
    # How store/pg_result.c knows it from other checks.
    assert e.value.diag.table_name and not e.value.diag.constraint_name
    got, status = maintain(w)
    assert status == 200 and got["partitions made"] == 6 * 12
    assert submit(w.gw, x.message())["status"] == 202


@pytest.mark.parametrize("ago", [27, 500, -60])
def test_a_clock_far_from_the_weeks_deletes_nothing(lost, ago):
    w, x = lost, lost.inboxes[0]
    only(w, ago)
    rows = call(w.ctl, "maintain_1", uid=0, weeks_ahead=4, body_days=30,
                meta_days=400, after_gap=False)
    assert [(r["status"], r["code"]) for r in rows] == [(409, "clock_gap")]
    assert weeks(w) == 1
    assert maintain(w, after_gap=True)[1] == 200
    assert submit(w.gw, x.message())["status"] == 202


def test_what_a_clock_ahead_put_off_is_due(lost):
    """Deliveries and leases of years from now, and the place in the queue."""
    w, x = lost, lost.inboxes[0]
    only(w, 0)
    assert maintain(w)[1] == 200
    w.mode(x, 4)

    def released():
        m = x.message(relay_box=b"r" * 80, tag=b"t" * 32, expiry=int(
            (time.time() + 3600) * 1e6), tag_mode=4, tag_mode_epoch=sql(
                w.su, "SELECT mode_epoch FROM d.inbox WHERE inbox_id = %s",
                x.inbox)[0][0])
        assert submit(w.gw, m)["status"] == 202
        return m["mid"]

    def row(mid):
        return sql(w.su, "SELECT due_at <= now(), vt <= extract(epoch FROM "
                   "now()), lease FROM d.send_q WHERE message_id = %s",
                   mid)[0]
    leased = released()
    (got,) = call(w.wk, "claim_due_1", worker="w", lim=9, lease_seconds=60)
    assert got["message_id"] == leased
    waits = released()
    sql(w.su, "SET session_replication_role = replica")
    sql(w.su, "UPDATE d.send_q SET due_at = now() + interval '3 years', vt = "
        "vt + 1e8 WHERE message_id = %s", waits)
    sql(w.su, "UPDATE d.send_q SET lease_until = now() + interval '3 years' "
        "WHERE message_id = %s", leased)
    sql(w.su, "UPDATE d.fair SET vt = vt + 1e8")
    sql(w.su, "RESET session_replication_role")
    assert row(waits) == (False, False, None)
    assert row(released()) == (True, True, None)
    call(w.wk, "claim_due_1", worker="w", lim=9, lease_seconds=60)
    swept = {r["what"]: r["n"] for r in call(w.wk, "sweep_1", lim=10)}
    assert row(waits) == (True, True, None)
    assert swept["recovered"] == 1 and row(leased)[2] is None


def test_a_session_of_a_clock_ahead_is_none(lost):
    w = lost
    s = w.session("root")
    assert call(w.rv, "review_count_1", s=s, tenant=None, inbox=None,
                states=None, q=None)[0]["status"] == 200
    sql(w.su, "UPDATE d.operator_session SET touched_at = touched_at + "
        "interval '3 years', expires_at = expires_at + interval '3 years' "
        "WHERE session_sha256 = sha256(%s)", bytes(s))
    assert call(w.rv, "review_count_1", s=s, tenant=None, inbox=None,
                states=None, q=None)[0]["status"] == 401


def test_doctor_counts_what_may_be_locked(w):
    """Four connections that plan over all weeks must find room."""
    def found():
        return next(r for r in call(w.ctl, "doctor_1")
                    if r["finding"] == "locks")
    room = int(sql(w.su, "SHOW max_locks_per_transaction")[0][0]) \
        * int(sql(w.su, "SHOW max_connections")[0][0])
    while 4 * sql(w.su, "SELECT d.relations()")[0][0] <= room:
        assert found()["level"] == "ok"
        assert maintain(w, weeks_ahead=52)[0]["partitions made"] > 0
    assert found()["level"] == "warning"
    assert "max_locks_per_transaction to 256" in found()["fix"]


def test_doctor_sees_a_locale_of_its_own():
    """In Turkish the small I is no i: signing in and searching depend on it."""
    with pgcluster.Cluster(fast=True, migrate=False) as db:
        db.psql("postgres", "-c", "ALTER DATABASE template1 IS_TEMPLATE "
                "false", database="postgres")
        db.psql("postgres", "-c", "DROP DATABASE template1",
                database="postgres")
        db.psql("postgres", "-c", "CREATE DATABASE template1 TEMPLATE "
                "template0 LOCALE_PROVIDER icu ICU_LOCALE 'tr' "
                "IS_TEMPLATE true", database="postgres")
        db.migrate()
        ctl = db.connect("l_ctl")
        found = {r["finding"]: r for r in call(ctl, "doctor_1")}["locale"]
        assert found["level"] == "warning", found
        assert found["detail"] == "tr UTF8"
