# SPDX-License-Identifier: ISC
"""Allow rules: what the end of one takes back (decision 0104)."""
import threading
import time

from pgcluster import call1, submit
from test_gate import one, state, tag
from test_relay import (DONE, DOT, GATES, PENDING, approved, attempt, claim,
                        done, dot, gate_case, rows_of)


def rule(w, x, entry):
    w.step_up(w.root)
    r = call1(w.rv, "allow_set_1", s=w.root, tenant=x.tenant, inbox=x.inbox,
              entry=entry, uses=1, days=1, reason="r")
    assert r["status"] == 200, r
    return r["rule_id"]


def by_rule(w, x, *rcpts):
    m = x.message(list(rcpts), **tag(), tag_mode=2,
                  tag_mode_epoch=w.mode(x, 2), findings_set=1, finding_max=0)
    assert submit(w.gw, m)["state"] == 2
    return m


def end_rule(w, entry):
    assert call1(w.rv, "allow_end_1", s=w.root, rule=entry)["status"] == 200


@GATES
def test_the_end_of_a_rule_takes_its_mail_back(w, x, su, at):
    """At the dot and in the queue; what another rule covers stays, and so
    does what a person approved."""
    first = rule(w, x, "A@x.example")
    a = by_rule(w, x, "a@x.example")
    end_rule(w, first)
    first = rule(w, x, "a@x.example")
    b = by_rule(w, x, "a@x.example")
    other = rule(w, x, "c@y.example")
    c = by_rule(w, x, "c@y.example")
    d = approved(w, x, ["a@x.example"])
    su.cursor().execute("UPDATE d.send_q SET due_at = now() WHERE message_id"
                        " IN (%s, %s, %s)", (b["mid"], c["mid"], d["mid"]))
    # A rule that is set anew lets go again what the same one let go.
    w.sweep(100)
    assert [state(su, m)[0] in (2, 9) for m in (a, b, c, d)] == [True] * 4
    L, = claim(w, a)
    assert gate_case(w, su, a, L, at, lambda: end_rule(w, first)) == \
        "rule_ended"
    assert state(su, a)[:2] == (1, 2) and rows_of(su, a) == [PENDING]
    w.sweep(100)
    assert state(su, b)[:2] == (1, 2)
    assert [state(su, m)[0] in (2, 9) for m in (c, d)] == [True] * 2
    assert one(su, "SELECT detail FROM d.state WHERE message_id = %s",
               b["mid"]) == "rule_ended"
    # Its only use is spent and its time over: that ends nothing.
    assert one(su, "SELECT uses_left FROM d.allow_rule WHERE rule_id = %s",
               other) == 0
    su.cursor().execute("UPDATE d.allow_rule SET expires_at = now() "
                        "WHERE rule_id = %s", (other,))
    w.sweep(100)
    su.cursor().execute("UPDATE d.send_q SET due_at = now() "
                        "WHERE message_id = %s", (c["mid"],))
    L, = claim(w, c)
    attempt(w, L)
    assert dot(w, L)["go"]
    assert w.approve(a, round=2)["state"] == 2


def test_one_ended_rule_of_two(w, x, su):
    """Every recipient needs one that stands."""
    rule(w, x, "@x.example")
    second = rule(w, x, "b@y.example")
    m = by_rule(w, x, "a@x.example", "b@y.example")
    end_rule(w, second)
    w.sweep(100)
    assert state(su, m)[:2] == (1, 2)


def test_the_end_of_a_rule_waits_for_a_dot(w, x, su):
    """Who asked first has it; the end comes behind, and keeps what left."""
    first = rule(w, x, "a@x.example")
    m = by_rule(w, x, "a@x.example")
    L, = claim(w, m)
    attempt(w, L)
    w.wk.autocommit = False
    try:
        assert dot(w, L)["go"]
        ended = threading.Thread(target=end_rule, args=(w, first))
        ended.start()
        until = time.monotonic() + 10
        while not one(su, "SELECT count(*) FROM pg_stat_activity WHERE "
                      "wait_event_type = 'Lock' AND query LIKE %s",
                      "%allow_end_1%") and time.monotonic() < until:
            pass
        assert ended.is_alive()
        w.wk.commit()
        ended.join()
    finally:
        w.wk.rollback()
        w.wk.autocommit = True
    w.sweep(100)
    assert state(su, m)[0] == 7 and rows_of(su, m) == [DOT]
    assert done(w, L, {1: DONE})["state"] == 8
