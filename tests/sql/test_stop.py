# SPDX-License-Identifier: ISC
"""A stop for more than one inbox, and a dot at the same moment: one is first
(decision 0105)."""
import threading
import time

import pytest

from pgcluster import call1
from test_agents import block
from test_gate import one
from test_relay import DOT, LATER, LISTED, approved, attempt, claim, dot, rows_of
from test_sets import attempts, dots, leased

STOPS = {
    "global": "UPDATE d.global_pause SET paused_at = now()",
    "tenant": "UPDATE d.tenant SET paused_at = now() WHERE tenant_id = %(t)s",
    "disabled": "UPDATE d.tenant SET disabled_at = now() "
                "WHERE tenant_id = %(t)s",
    "list": "INSERT INTO d.list_entry (tenant_id, inbox_id, entry, verdict, "
            "reason, created_by) VALUES (%(t)s, 0, 'b@x.example', 'b', 'r', "
            "'op')",
}
AGAIN = ("UPDATE d.global_pause SET paused_at = NULL",
         "UPDATE d.tenant SET paused_at = NULL, disabled_at = NULL",
         "UPDATE d.list_entry SET ended_at = now() "
         "WHERE entry = 'b@x.example' AND ended_at IS NULL")
EACH = pytest.mark.parametrize("what", list(STOPS))
ALONE = pytest.mark.parametrize("alone", [True, False])


@pytest.fixture
def again(su):
    yield
    for query in AGAIN:
        su.cursor().execute(query)


def waits(su, thread, query):
    until = time.monotonic() + 10
    while not one(su, "SELECT count(*) FROM pg_stat_activity WHERE "
                  "wait_event_type = 'Lock' AND wait_event = 'relation' AND "
                  "query LIKE %s", query) and time.monotonic() < until:
        pass
    assert thread.is_alive()


def ask(w, L, alone, got):
    got.append(dot(w, L)["go"] if alone else dots(w, [L]) == {1})


@EACH
@ALONE
def test_a_dot_waits_for_a_stop(db, w, x, su, again, what, alone):
    m = approved(w, x)
    L, = claim(w, m)
    if alone:
        attempt(w, L)
    else:
        attempts(w, [L])
    c = db.connect("postgres")
    c.autocommit = False
    c.cursor().execute(STOPS[what], {"t": x.tenant})
    got = []
    asked = threading.Thread(target=ask, args=(w, L, alone, got))
    asked.start()
    waits(su, asked, "%dot" + ("_1%" if alone else "s_1%"))
    c.commit()
    c.close()
    asked.join()
    assert got == [False]
    assert DOT not in rows_of(su, m)
    if alone:
        assert rows_of(su, m) == [LISTED if what == "list" else LATER]
    assert one(su, "SELECT count(*) FROM d.attempt WHERE message_id = %s AND "
               "dot_at IS NOT NULL", m["mid"]) == 0


@EACH
@ALONE
def test_a_stop_waits_for_a_dot(db, w, x, su, again, what, alone):
    (m, _), (L, M) = leased(w, [approved(w, x) for _ in range(2)])
    for each in (L, M):
        attempt(w, each)
    w.wk.autocommit = False
    c = db.connect("postgres")
    try:
        got = []
        ask(w, L, alone, got)
        assert got == [True]
        stop = threading.Thread(target=c.cursor().execute, args=(
            STOPS[what], {"t": x.tenant}))
        stop.start()
        waits(su, stop, STOPS[what].split("%")[0] + "%")
        w.wk.commit()
        stop.join()
    finally:
        w.wk.rollback()
        w.wk.autocommit = True
        c.close()
    assert rows_of(su, m) == [DOT]
    # Who comes behind it finds it.
    assert not dot(w, M)["go"]


def stopped(su):
    return one(su, "SELECT count(*) FROM pg_locks WHERE relation = "
               "'d.stop'::regclass AND mode = 'ExclusiveLock'")


def test_an_agent_stops_nobody_else(w, x, su, again):
    """Who may block and unblock without end, makes no dot wait."""
    w.gw.autocommit = False
    try:
        assert block(w, x, "b@x.example")["status"] == 201
        assert stopped(su) == 0
    finally:
        w.gw.rollback()
        w.gw.autocommit = True


def test_who_stops_by_what_functions(w, x, su, again):
    """All that operators have for it goes through the lock."""
    w.step_up(w.root)
    w.rv.autocommit = False
    try:
        for fn, args in (
                ("pause_1", dict(tenant=None, inbox=None, paused=True)),
                ("pause_1", dict(tenant=x.tenant, inbox=None, paused=True)),
                ("list_set_1", dict(tenant=x.tenant, inbox=x.inbox,
                                    entry="b@x.example", verdict="b",
                                    expires=None))):
            assert call1(w.rv, fn, s=w.root, reason="r",
                         **args)["status"] == 200
            assert stopped(su) == 1, (fn, args)
            w.rv.rollback()
            assert stopped(su) == 0
    finally:
        w.rv.rollback()
        w.rv.autocommit = True
