# SPDX-License-Identifier: ISC
"""Allow rules: what the end of one takes back (decision 0104)."""
import threading
import time

from pgcluster import call, call1, submit
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


def test_what_no_rule_covers_says_why_it_waits(w, x, su):
    """The gateway gives a tag wherever a rule lives; not all mail has one."""
    rule(w, x, "a@x.example")
    m = x.message(["b@x.example"], **tag(), tag_mode=2,
                  tag_mode_epoch=w.mode(x, 2), findings_set=1, finding_max=0)
    r = submit(w.gw, m)
    assert (r["status"], r["state"], r["reasons"]) == (202, 1, "mode")
    assert call1(w.gw, "my_get_1", t=x.tenant, k=x.full_key, a=x.full_a,
                 mid=m["mid"])["reasons"] == "mode"


def test_a_stop_between_two_looks_of_the_referee(w, x, su):
    """Paused after the first one and before the second: it is held, as if
    that had been a moment earlier, and no error of ours."""
    e = w.mode(x, 3)
    cur = su.cursor()
    cur.execute("""CREATE FUNCTION public.a_moment() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        UPDATE d.inbox SET paused_at = now() WHERE inbox_id = NEW.inbox_id;
        RETURN NEW; END $$""")
    cur.execute("CREATE TRIGGER a_moment BEFORE INSERT ON d.release "
                "FOR EACH ROW EXECUTE FUNCTION public.a_moment()")
    try:
        m = x.message(["b@x.example"], **tag(), tag_mode=3, tag_mode_epoch=e)
        r = submit(w.gw, m)
    finally:
        cur.execute("DROP FUNCTION public.a_moment CASCADE")
    assert (r["status"], r["state"], r["reasons"]) == (202, 1, "mode")
    assert state(su, m)[:2] == (1, 1)
    assert one(su, "SELECT count(*) FROM d.release WHERE message_id = %s",
               m["mid"]) == 0
    assert one(su, "SELECT held FROM d.quota WHERE inbox_id = %s",
               x.inbox) == 1
    assert [(e["type"], e["actor"], e["state"], e["detail"]) for e in call(
        w.gw, "my_events_1", t=x.tenant, k=x.full_key, a=x.full_a,
        mid=m["mid"])] == [("message.held", "agent", 1, "mode")]
