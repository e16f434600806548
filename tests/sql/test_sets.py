# SPDX-License-Identifier: ISC
"""
What 0016_sets.sql does for many leases must be what the calls for one do: the
same rows after it, no more rights, and nothing for what is not plain.
"""
import contextlib

import psycopg2
import pytest

import pgcluster
from pgcluster import call, call1, uuid7
from test_gate import state
from test_relay import (DONE, DOT, FAILED, LATER, LISTED, PENDING, SENDING,
                        approved, attempt, claim, dot, done, ended, ending,
                        mail, rows_of)

ROWS = {
    "delivery": "ix, domain, canon, status, attempts, reply_code, enhanced, "
                "reply, next_attempt_at IS NULL AS no_next",
    "attempt": "domain, n, round, worker, mx, tls, dot_at IS NULL AS no_dot, "
               "ended_at IS NULL AS open, result",
    "send_q": "domain, lease IS NULL AS free, attempts, worker",
    "state": "state, version, round, detail, integrity",
    "event": "n, type, actor, who, state, detail",
    "audit": "zone, actor, event, detail",
}


@pytest.fixture(params=["one week", "any weeks"], autouse=True)
def weeks(request, su):
    """As the functions of one week do it, and those that know of none."""
    if request.param == "one week":
        yield
        return
    cur = su.cursor()
    cur.execute("DO $$ DECLARE f text; BEGIN FOR f IN SELECT p.oid::"
                "regprocedure FROM pg_proc p WHERE p.pronamespace = "
                "'d'::regnamespace AND p.proname ~ '_at_[0-9]{8}$' LOOP "
                "EXECUTE 'DROP FUNCTION ' || f; END LOOP; END $$")
    yield
    cur.execute("SELECT d.week_make(y) FROM d.weeks() y")


def look(su, m):
    """All that a worker writes about a message."""
    out = {}
    for table, cols in ROWS.items():
        cur = su.cursor()
        more = "AND zone = 'p_relay'" if table == "audit" else ""
        cur.execute("SELECT row_to_json(z)::text FROM (SELECT %s FROM d.%s "
                    "WHERE message_id = %%s %s) z ORDER BY 1" % (
                        cols, table, more), (m["mid"],))
        out[table] = [r for r, in cur.fetchall()]
    return out


def lists(leases):
    return {k + "s": [L[k] for L in leases]
            for k in ("t", "mid", "dom", "lease")}


def text(ix):
    return "{%s}" % ",".join(map(str, ix))


def attempts(w, leases, ix=None):
    ix = ix or [(1,)] * len(leases)
    return {r["i"] for r in call(
        w.wk, "attempts_1", mxs=["mx.example"] * len(leases),
        tlss=["TLSv1.3"] * len(leases), ixs=list(map(text, ix)),
        **lists(leases))}


def boxes(w, leases):
    """As the fetch told them, whatever has become of them since."""
    if not hasattr(w, "looks"):
        w.looks = w.db.connect()
    cur = w.looks.cursor()
    cur.execute("SELECT message_id, inbox_id FROM d.state WHERE message_id = "
                "ANY (%s::uuid[])", ([L["mid"] for L in leases],))
    of = dict(cur.fetchall())
    return [of.get(L["mid"]) for L in leases]


def dots(w, leases, ix=None, mxs=None):
    ix = ix or [(1,)] * len(leases)
    return {r["i"] for r in call(
        w.wk, "dots_1", ixs=list(map(text, ix)),
        boxes=boxes(w, leases),
        mxs=mxs or ["mx.example"] * len(leases), tlss=["TLSv1.3"] * len(leases),
        **lists(leases))}


def sents(w, leases, ix=None):
    ix = ix or [(1,)] * len(leases)
    n = len(leases)
    return {r["i"] for r in call(
        w.wk, "sents_1", ixs=list(map(text, ix)), codes=[250] * n,
        enhs=["2.0.0"] * n, replies=["ok"] * n, **lists(leases))}


def some(w, x, n, rcpts=("b@x.example",)):
    return leased(w, [approved(w, x, rcpts) for _ in range(n)])


def leased(w, ms):
    got = {q["message_id"]: dict(t=q["tenant_id"], mid=q["message_id"],
                                 dom=q["domain"], lease=q["lease"])
           for q in call(w.wk, "claim_due_1", worker="w1", lim=500,
                         lease_seconds=600)}
    return ms, [got[m["mid"]] for m in ms]


def test_as_for_one_alone(w, x, su):
    rcpts = ("a@x.example", "b@x.example")
    ms, leases = some(w, x, 3, rcpts)
    both = (1, 2)
    attempt(w, leases[0], both)
    assert attempts(w, leases[1:], [both] * 2) == {1, 2}
    first = look(su, ms[0])
    assert [look(su, m) for m in ms] == [first] * 3
    assert rows_of(su, ms[2]) == [SENDING] * 2
    assert dot(w, leases[0], both)["go"]
    assert dots(w, leases[1:], [both] * 2) == {1, 2}
    first = look(su, ms[0])
    assert [look(su, m) for m in ms] == [first] * 3
    assert rows_of(su, ms[2]) == [DOT] * 2
    assert call1(w.wk, "done_1", ix=[1, 2], result=[3, 3],
                 reply_code=[250] * 2, enhanced=["2.0.0"] * 2,
                 reply=["ok"] * 2, retry_seconds=60, mx_result="ok",
                 **leases[0])["state"] == 8
    assert sents(w, leases[1:], [both] * 2) == {1, 2}
    first = look(su, ms[0])
    assert [look(su, m) for m in ms] == [first] * 3
    assert state(su, ms[2])[0] == 8


def fetches(w, leases, small=65536):
    got = call(w.wk, "fetches_1", small=small, **lists(leases))
    return sorted(got, key=lambda r: r["i"])


def hosts(su, m):
    cur = su.cursor()
    cur.execute("SELECT mx, tls, ended_at IS NULL FROM d.attempt "
                "WHERE message_id = %s ORDER BY n", (m["mid"],))
    return cur.fetchall()


def test_a_fetch_asks_the_gate(w, x, su):
    """It notes nothing; the dot notes all, and leaves the same rows."""
    rcpts = ("a@x.example", "b@x.example")
    both = (1, 2)
    ms, leases = some(w, x, 3, rcpts)
    attempt(w, leases[0], both)
    assert dot(w, leases[0], both)["go"]
    before = look(su, ms[1])
    f = fetches(w, leases[1:])
    assert [(r["i"], r["passed"]) for r in f] == [(1, True), (2, True)]
    one_by_one = call1(w.wk, "fetch_1", **leases[1])
    for k, v in one_by_one.items():
        assert k == "now_us" or f[0][k] == v, k
    assert f[0]["data"] == ms[1]["body"]
    assert look(su, ms[1]) == before
    f = fetches(w, leases[1:], small=1)
    assert [(r["due_ix"], r["passed"], r["data"]) for r in f] == [
        ("1,2", True, None)] * 2
    assert dots(w, leases[1:2], [both]) == {1}
    assert call1(w.wk, "dot_1", ix=[1, 2], host="mx.example",
                 safety="TLSv1.3", **leases[2])["go"]
    first = look(su, ms[0])
    assert [look(su, m) for m in ms] == [first] * 3
    # No second dot for what has one.
    assert dots(w, leases[1:2], [both]) == set()
    assert not dot(w, leases[2], both)["go"]
    assert [look(su, m) for m in ms] == [first] * 3


def test_what_a_fetch_let_go_goes_another_way(w, x, su):
    ms, leases = some(w, x, 4, ("a@x.example", "b@x.example"))
    assert {r["passed"] for r in fetches(w, leases)} == {True}
    # To no host: the reason is with the host it was not taken by.
    r = call1(w.wk, "done_1", ix=[1, 2], result=[4, 4], reply_code=[None] * 2,
              enhanced=["4.4.1"] * 2, reply=["dead"] * 2, retry_seconds=60,
              mx_result="dead", host="mx.example", safety="none", **leases[0])
    assert (r["status"], r["state"]) == (200, 9)
    assert rows_of(su, ms[0]) == [LATER] * 2
    assert hosts(su, ms[0]) == [("mx.example", "none", False)]
    # Asked for again, with the host; then the next host is another attempt,
    # and that is asked for alone.
    attempt(w, leases[1], (1, 2))
    assert attempts(w, leases[1:3], [(1, 2)] * 2) == {2}
    attempt(w, leases[1], (1, 2))
    for m, n in ((ms[1], 2), (ms[2], 1)):
        assert hosts(su, m) == [("mx.example", "TLSv1.3", i == n)
                                for i in range(1, n + 1)]
    # The dot is of the last.
    assert dots(w, leases[1:3], [(1, 2)] * 2) == {1, 2}
    cur = su.cursor()
    cur.execute("SELECT n FROM d.attempt WHERE dot_at IS NOT NULL "
                "AND message_id = ANY (%s::uuid[]) ORDER BY 1",
                ([m["mid"] for m in ms],))
    assert cur.fetchall() == [(1,), (2,)]
    # One of two was taken: the other has its own result, and no dot.
    assert dots(w, leases[3:], [(2,)]) == {1}
    assert rows_of(su, ms[3]) == [PENDING, DOT]
    assert done(w, leases[3], {1: DONE, 2: DONE})["status"] == 422
    assert done(w, leases[3], {1: FAILED, 2: DONE})["status"] == 200
    assert rows_of(su, ms[3]) == [FAILED, DONE]


def test_nothing_fetched_given_back(w, x, su):
    (m,), (L,) = some(w, x, 1)
    assert fetches(w, [L])[0]["passed"]
    assert call1(w.wk, "release_lease_1", retry_seconds=0,
                 **L)["status"] == 200
    assert rows_of(su, m) == [PENDING] and hosts(su, m) == []


def releases(w, leases, secs):
    return {r["i"] for r in call(w.wk, "releases_1", secs=secs,
                                 **lists(leases))}


def given_back(su, m, began, secs):
    """Also whether it is due again when it should be."""
    cur = su.cursor()
    cur.execute("SELECT domain, aside, lease IS NULL, lease_until IS NULL, "
                "worker, due_at - make_interval(secs => %s) BETWEEN %s "
                "AND clock_timestamp(), lease IS NOT NULL "
                "OR vt >= extract(epoch FROM due_at) "
                "FROM d.send_q WHERE message_id = %s ORDER BY 1",
                (secs, began, m["mid"]))
    return look(su, m), cur.fetchall()


@pytest.mark.parametrize("secs", [0, 3600, 1000000, -5])
def test_given_back_as_by_one_alone(w, x, su, secs):
    """One with mail for another domain, which is leased still, or not."""
    rcpts = ("a@x.example", "b@x.example")
    many = rcpts + ("c@y.example",)
    cur = su.cursor()
    cur.execute("SELECT clock_timestamp()")
    began = cur.fetchone()[0]
    ms = [approved(w, x, r) for r in (rcpts, rcpts, many, many, many, many)]
    got = {(q["message_id"], q["domain"]): dict(
        t=q["tenant_id"], mid=q["message_id"], dom=q["domain"],
        lease=q["lease"]) for q in call(w.wk, "claim_due_1", worker="w1",
                                        lim=500, lease_seconds=600)}
    L = [got[m["mid"], "x.example"] for m in ms]
    for m in ms[4:]:
        assert call1(w.wk, "release_lease_1", retry_seconds=7200,
                     **got[m["mid"], "y.example"])["status"] == 200
    for lease in L[0::2]:
        assert call1(w.wk, "release_lease_1", retry_seconds=secs,
                     **lease)["status"] == 200
    assert releases(w, L[1::2], [secs] * 3) == {1, 2, 3}
    secs = min(max(secs, 0), 86400)
    for a, b in zip(ms[0::2], ms[1::2]):
        assert given_back(su, a, began, secs) == given_back(su, b, began, secs)
        assert given_back(su, b, began, secs)[1][0][1:] == (
            3 if secs else 0, True, True, None, True, True)
    assert [state(su, m)[0] for m in ms] == [9, 9, 7, 7, 9, 9]
    assert releases(w, L, [0] * 6) == set()  # they are nobody's now


def test_given_back_alone_for_all_that_was_begun(w, x, su):
    ms, L = some(w, x, 7)
    attempt(w, L[0], (1,))
    assert dots(w, [L[1]]) == {1}
    cur = su.cursor()
    # What says which way it goes has changed; it is given up by then; its
    # recipient is done with; its lease is over.
    cur.execute("UPDATE d.send_q SET aside = 3 WHERE message_id = %s",
                (ms[2]["mid"],))
    cur.execute("UPDATE d.send_q SET give_up_at = now() + interval '5 min' "
                "WHERE message_id = %s", (ms[3]["mid"],))
    cur.execute("SET session_replication_role = replica")
    cur.execute("UPDATE d.delivery SET status = 7 WHERE message_id = %s",
                (ms[4]["mid"],))
    cur.execute("SET session_replication_role = origin")
    cur.execute("UPDATE d.send_q SET lease_until = now() - interval '1 s' "
                "WHERE message_id = %s", (ms[5]["mid"],))
    before = [look(su, m) for m in ms[:6]]
    assert releases(w, L, [600] * 7) == {7}
    assert [look(su, m) for m in ms[:6]] == before
    assert state(su, ms[6])[0] == 9


@pytest.mark.parametrize("why", ["inbox paused", "listed", "stale"])
def test_a_fetch_passes_what_the_gate_lets_go(w, x, su, why):
    (m, n, L, M), _ = two(w, x, why)
    with spoilt(su, x, m, why):
        before = look(su, m)
        assert [r["passed"] for r in fetches(w, [L, M])] == [False, True]
        assert look(su, m) == before


def test_a_fetch_passes_not_what_goes_one_by_one(w, x, su):
    (m,), (L,) = some(w, x, 1)
    su.cursor().execute("UPDATE d.inbox SET one_click = true "
                        "WHERE inbox_id = %s", (x.inbox,))
    assert [r["passed"] for r in fetches(w, [L])] == [False]
    assert rows_of(su, m) == [PENDING]
    su.cursor().execute("UPDATE d.inbox SET one_click = false "
                        "WHERE inbox_id = %s", (x.inbox,))


@pytest.fixture()
def alone():
    """A database of its own: what is read depends on what is there, and on
    when it was last analyzed."""
    with pgcluster.Cluster(fast=True, settings={"autovacuum": "off"}) as db:
        w = pgcluster.World(db)
        yield db, w, w.inboxes[0]


def test_a_claim_reads_what_it_takes(alone):
    """Not the whole queue, whose order has an index."""
    db, w, x = alone
    for _ in range(60):
        approved(w, x)
    c = db.connect("postgres")
    c.autocommit = False
    try:
        cur = c.cursor()
        cur.execute("SELECT count(*) FROM api.claim_due_1('w1', 3, 60)")
        assert cur.fetchone()[0] == 3
        cur.execute("SELECT idx_tup_fetch + seq_tup_read "
                    "FROM pg_stat_xact_user_tables WHERE schemaname = 'd' "
                    "AND relname = 'send_q'")
        assert cur.fetchone()[0] < 30
    finally:
        c.rollback()
        c.close()


def test_a_set_reads_what_it_names(alone):
    """And not all between its ends, however small it all was once."""
    db, w, x = alone
    few = leased(w, [approved(w, x) for _ in range(9)])[1]
    every = leased(w, [approved(w, x) for _ in range(180)])[1]
    far = every[::20]
    c = db.connect("postgres")
    c.autocommit = False

    class As:
        wk = c
    As.db = db

    def so_far():
        cur = c.cursor()
        cur.execute("SELECT relname, coalesce(idx_tup_fetch, 0) "
                    "+ coalesce(seq_tup_read, 0) FROM "
                    "pg_stat_xact_user_tables WHERE schemaname = 'd'")
        return dict(cur.fetchall())

    def read(call_it, leases):
        """Tables of which more than some rows a lease were read."""
        before = so_far()
        assert len(call_it(As, leases)) == len(leases)
        now = so_far()
        return {t: n for t, n in now.items()
                if n - before.get(t, 0) > 8 * len(leases)}
    try:
        for call_it in (fetches, attempts, dots, sents):
            read(call_it, few)
        for call_it in (fetches, attempts, dots, sents):
            assert not read(call_it, far), call_it.__name__
    finally:
        c.rollback()
        c.close()
    assert dots(w, few + every) == sents(w, few + every) == set(
        range(1, len(few + every) + 1))


def test_several_domains_of_one_message(w, x, su):
    m = approved(w, x, ["a@x.example", "c@y.example", "d@z.example"])
    leases = claim(w, m)
    ix = [(1,), (2,), (3,)]
    assert attempts(w, leases, ix) == {1, 2, 3}
    assert dots(w, leases, ix) == {1, 2, 3}
    assert sents(w, leases[:2], ix[:2]) == {1, 2}
    assert state(su, m)[0] == 7
    assert sents(w, leases[2:], ix[2:]) == {1}
    assert state(su, m)[0] == 8 and rows_of(su, m) == [DONE] * 3


# Why the gate would not say go, or not without a word: what makes it so, and
# what puts back that which other tests stand on.
SPOILS = {
    "over": "UPDATE d.send_q SET lease_until = now() WHERE message_id = %(m)s",
    "round": "UPDATE d.release SET round = 7 WHERE message_id = %(m)s",
    "version": "UPDATE d.state SET version = 7 WHERE message_id = %(m)s",
    "state": "UPDATE d.state SET state = 9 WHERE message_id = %(m)s",
    "expiry": "UPDATE d.release SET expiry = 1 WHERE message_id = %(m)s",
    "stale": "UPDATE d.send_q SET stale_at = now() WHERE message_id = %(m)s",
    "mode": "UPDATE d.release SET by_what = 'm', mode = 4, mode_epoch = 1 "
            "WHERE message_id = %(m)s",
    "rule ended": "UPDATE d.release SET by_what = 'r', mode = 2, "
                  "mode_epoch = 1 WHERE message_id = %(m)s",
    "inbox paused": "UPDATE d.inbox SET paused_at = now() "
                    "WHERE inbox_id = %(i)s",
    "suspended": "UPDATE d.inbox SET suspended_at = now() "
                 "WHERE inbox_id = %(i)s",
    "deleted": "UPDATE d.inbox SET deleted_at = now() WHERE inbox_id = %(i)s",
    "tenant paused": "UPDATE d.tenant SET paused_at = now() "
                     "WHERE tenant_id = %(t)s",
    "disabled": "UPDATE d.tenant SET disabled_at = now() "
                "WHERE tenant_id = %(t)s",
    "global": "UPDATE d.global_pause SET paused_at = now()",
    "listed": "INSERT INTO d.list_entry (tenant_id, inbox_id, entry, verdict, "
              "reason, created_by) VALUES (%(t)s, %(i)s, '@x.example', 's', "
              "'x', 'x')",
    "listed by tenant": "INSERT INTO d.list_entry (tenant_id, inbox_id, "
                        "entry, verdict, reason, created_by) VALUES (%(t)s, "
                        "0, 'b@x.example', 's', 'x', 'x')",
}
UNDO = {
    "round": "UPDATE d.release SET round = 1 WHERE message_id = %(m)s",
    "version": "UPDATE d.state SET version = 1 WHERE message_id = %(m)s",
    "state": "UPDATE d.state SET state = 7 WHERE message_id = %(m)s",
    "mode": "UPDATE d.release SET by_what = 'o', mode = NULL, "
            "mode_epoch = NULL WHERE message_id = %(m)s",
    "rule ended": "UPDATE d.release SET by_what = 'o', mode = NULL, "
                  "mode_epoch = NULL WHERE message_id = %(m)s",
    "tenant paused": "UPDATE d.tenant SET paused_at = NULL",
    "disabled": "UPDATE d.tenant SET disabled_at = NULL",
    "global": "UPDATE d.global_pause SET paused_at = NULL",
    "listed by tenant": "UPDATE d.list_entry SET ended_at = now() "
                        "WHERE inbox_id = 0 AND entry = 'b@x.example'",
}
EACH = pytest.mark.parametrize("what", list(SPOILS))


@contextlib.contextmanager
def spoilt(su, x, m, what):
    """The superuser makes it so, past every trigger."""
    cur = su.cursor()
    cur.execute("SET session_replication_role = replica")
    cur.execute(SPOILS[what], {"m": m["mid"], "i": x.inbox, "t": x.tenant})
    assert cur.rowcount == 1
    cur.execute("RESET session_replication_role")
    try:
        yield
    finally:
        cur.execute("SET session_replication_role = replica")
        cur.execute(UNDO.get(what, "SELECT"),
                    {"m": m["mid"], "i": x.inbox, "t": x.tenant})
        cur.execute("RESET session_replication_role")


def two(w, x, what):
    """One of `x`, and one of another tenant that nothing is done to."""
    y = w.inbox(w.tenants[1], "other%d@t1.example" % x.inbox)
    ms, leases = leased(w, [approved(w, z) for z in (x, y)])
    return ms + leases, set() if what == "global" else {2}


@EACH
def test_what_is_not_plain_is_left_alone(w, x, su, what):
    (m, n, L, M), rest = two(w, x, what)
    with spoilt(su, x, m, what):
        before = look(su, m)
        assert attempts(w, [L, M]) == rest
        assert look(su, m) == before
        assert rows_of(su, n) == [SENDING if rest else PENDING]
        # And the gate for one says no to the same.
        assert not mail(w, L)["go"]


@EACH
def test_no_dot_in_a_set_without_go(w, x, su, what):
    (m, n, L, M), rest = two(w, x, what)
    assert attempts(w, [L, M]) == {1, 2}
    with spoilt(su, x, m, what):
        before = look(su, m)
        assert dots(w, [L, M]) == rest
        assert look(su, m) == before
        assert rows_of(su, n) == [DOT if rest else SENDING]
        assert not dot(w, L)["go"]


@pytest.mark.parametrize("call_of", [attempts, dots])
def test_past_its_end(w, x, su, call_of):
    m = ending(w, x)
    y = w.inbox(w.tenants[1], "other%d@t1.example" % x.inbox)
    ms, (L, M) = leased(w, [m, approved(w, y)])
    if call_of == dots:
        assert attempts(w, [L, M]) == {1, 2}
    ended(su, m)
    before = look(su, m)
    assert call_of(w, [L, M]) == {2}
    assert look(su, m) == before
    assert not (mail if call_of == attempts else dot)(w, L)["go"]


@pytest.mark.parametrize("call_of", [attempts, dots])
def test_another_lease_is_left_alone(w, x, su, call_of):
    (m, n, L, M), rest = two(w, x, "lease-" + call_of.__name__)
    if call_of == dots:
        assert attempts(w, [L, M]) == {1, 2}
    before = look(su, m)
    assert call_of(w, [dict(L, lease=uuid7()), M]) == rest
    assert look(su, m) == before


def test_only_what_the_state_before_allows(w, x, su):
    (m, n), leases = some(w, x, 2)
    # No result without a dot, none for another, or for one twice.
    assert sents(w, leases) == set()
    for bad in ((2,), (1, 1), (1, 2), ()):
        assert dots(w, leases, [bad] * 2) == set()
    assert attempts(w, leases, [(1,), (2,)]) == {1}  # it has no second
    assert attempts(w, leases, [(1,), ()]) == set()
    assert attempts(w, leases, [(1,), (1, 1)]) == set()
    assert sents(w, leases) == set()
    assert rows_of(su, m) == [SENDING] and rows_of(su, n) == [PENDING]
    assert dots(w, leases) == {1, 2}
    assert dots(w, leases) == set()
    assert sents(w, leases) == {1, 2}
    assert sents(w, leases) == set()
    assert rows_of(su, m) == [DONE] and rows_of(su, n) == [DONE]


@pytest.mark.parametrize("what", [
    "delivery SET status = 3, was = 2", "delivery SET status = 6, was = 2",
    "delivery SET status = 1, was = 0, changed_at = clock_timestamp(), "
    "tenant_id = 99", "state SET state = 10, was = 2", "state SET state = 8",
    "state SET state = 10, was = 9, changed_at = clock_timestamp()"])
def test_whence_a_move_comes_is_not_believed(db, w, x, su, what):
    """The columns that spare a plain move its trigger."""
    m = approved(w, x)
    before = look(su, m)
    c = db.connect("postgres")
    cur = c.cursor()
    # One of the columns is not the worker's to write.
    cur.execute("SET ROLE p_relay" if "tenant_id" not in what
                else "SET ROLE postgres")
    with pytest.raises(psycopg2.errors.CheckViolation):
        cur.execute("UPDATE d.%s WHERE message_id = %%s" % what, (m["mid"],))
    c.close()
    assert look(su, m) == before


def test_a_rest_is_not_sent(w, x, su):
    """With another recipient of the domain due, the row must stay."""
    (m,), (L,) = some(w, x, 1, ("a@x.example", "b@x.example"))
    assert attempts(w, [L], [(1,)]) == {1}
    assert dots(w, [L], [(1,)]) == {1}
    before = look(su, m)
    assert sents(w, [L], [(1,)]) == set() and look(su, m) == before
    assert done(w, L, {1: DONE})["more"] is True


@pytest.mark.parametrize("table", ["state", "send_q"])
def test_nothing_waits_for_a_lock(w, db, x, su, table):
    (m, n), leases = some(w, x, 2)
    other = db.connect("postgres")
    other.autocommit = False
    other.cursor().execute("SELECT 1 FROM d.%s WHERE message_id = %%s "
                           "FOR UPDATE" % table, (m["mid"],))
    assert attempts(w, leases) == {2}
    other.rollback()
    assert attempts(w, leases) == {1}
    other.cursor().execute("SELECT 1 FROM d.%s WHERE message_id = %%s "
                           "FOR UPDATE" % table, (m["mid"],))
    assert dots(w, leases) == {2}
    other.rollback()
    other.cursor().execute("SELECT 1 FROM d.inbox WHERE inbox_id = %s "
                           "FOR NO KEY UPDATE", (x.inbox,))
    assert dots(w, leases) == set()
    other.rollback()
    assert dots(w, leases) == {1}
    other.close()
    assert rows_of(su, m) == rows_of(su, n) == [DOT]


def test_a_set_reads_only_what_is_leased(w, x, su):
    (m, n), (L, M) = some(w, x, 2)
    with spoilt(su, x, n, "over"):
        pass
    f = call(w.wk, "fetches_1", small=65536, **lists([L, M]))
    assert [r["i"] for r in f] == [1]
    assert call(w.wk, "fetches_1", small=65536,
                **lists([dict(L, lease=None), dict(L, lease=uuid7())])) == []
    # And no other login may ask.
    for login in (w.gw, w.rv):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            call(login, "dots_1", ixs=["{1}"], mxs=["m"], tlss=["t"],
                 boxes=[x.inbox], **lists([L]))


@pytest.mark.parametrize("whose", ["another's", "nobody's", None])
def test_no_dot_but_of_the_inbox_that_is_locked(w, x, su, whose):
    """Else it could be paused meanwhile."""
    ms, leases = some(w, x, 2)
    right, = set(boxes(w, leases))
    other = {"another's": w.inboxes[1].inbox, "nobody's": 0}.get(whose)
    assert other != right
    got = call(w.wk, "dots_1", ixs=["{1}"] * 2, mxs=["m"] * 2,
               tlss=["t"] * 2, boxes=[right, other], **lists(leases))
    assert [r["i"] for r in got] == [1]
    assert rows_of(su, ms[1]) == [PENDING]
    assert dots(w, leases[1:]) == {1}


def test_listed_between_the_two_gates(w, x, su):
    (m,), (L,) = some(w, x, 1)
    assert attempts(w, [L]) == {1}
    with spoilt(su, x, m, "listed"):
        pass
    assert dots(w, [L]) == set()
    assert dot(w, L)["reason"] == "list"
    assert rows_of(su, m) == [LISTED]


def test_a_set_leaves_out_who_is_at_another_host(w, x, su):
    """Decision 0102; dot_1 says why, or sees the rule that names it."""
    ms, leases = some(w, x, 4)
    for m, mx in zip(ms, ("mx.example", "MX.example.", "mx2.example", None)):
        su.cursor().execute("UPDATE d.delivery SET unsure_mx = %s "
                            "WHERE message_id = %s", (mx, m["mid"]))
    assert dots(w, leases, mxs=[None] * 4) == {4}
    assert dots(w, leases[:3]) == {1, 2}
    assert rows_of(su, ms[2]) == [PENDING]
    assert dot(w, leases[2])["reason"] == "host"
    assert dots(w, leases[2:3], mxs=["mx2.example"]) == {1}
