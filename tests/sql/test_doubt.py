# SPDX-License-Identifier: ISC
"""A dot without an answer that was to be let go once more, and never was: it
may have arrived, however its recipient ends (decision 0102)."""
import pytest

from pgcluster import call, call1
from test_gate import one, state
from test_relay import (CANCELED, DONE, DOT, FAILED, LATER, PENDING, SENDING,
                        UNCERTAIN, approved, attempt, claim, done, dot,
                        due_now, ended, ending, recovered, rows_of, unsure)


def in_doubt(w, su, m, other=LATER):
    assert rows_of(su, m) == [UNCERTAIN, other]
    if other in (LATER, PENDING):
        return
    assert state(su, m)[0] == 11
    assert not one(su, "SELECT count(*) FROM d.send_q WHERE message_id = %s",
                   m["mid"])
    # A person settles it, as any other.
    r = call1(w.rv, "uncertain_1", s=w.root, mid=m["mid"], ix=[1],
              outcome="failed", note=None)
    assert r["state"] == 10 and rows_of(su, m) == [FAILED, other]


@pytest.mark.parametrize("marked", [True, False])
def test_the_host_refuses_before_the_second_dot(w, x, su, marked):
    m, L = unsure(w, x, su)
    if marked:
        attempt(w, L)
    r = call1(w.wk, "done_1", ix=[1], result=[FAILED], reply_code=[550],
              enhanced=["5.1.1"], reply=["no such user"], retry_seconds=60,
              mx_result="mx", host="mx.example", safety="", dsn_kind=["f"],
              dsn_ix=["1"], dsn_epoch=1, dsn_box=[b"x" * 80], **L)
    assert r["status"] == 200
    # No report says failed, and nobody is suppressed for it.
    assert one(su, "SELECT count(*) FROM d.dsn WHERE message_id = %s",
               m["mid"]) == 0
    assert one(su, "SELECT count(*) FROM d.list_entry WHERE entry = "
               "'a@x.example' AND ended_at IS NULL AND tenant_id = %s "
               "AND inbox_id IN (0, %s)", x.tenant, x.inbox) == 0
    in_doubt(w, su, m)
    due_now(su, m)
    L, = claim(w, m)
    attempt(w, L, (2,))
    assert dot(w, L, (2,))["go"]
    done(w, L, {2: DONE})
    in_doubt(w, su, m, DONE)


def test_an_answer_to_the_second_dot_counts(w, x, su):
    m, L = unsure(w, x, su)
    attempt(w, L)
    assert dot(w, L, host="mx.example")["go"]
    assert done(w, L, {1: FAILED})["status"] == 200
    assert rows_of(su, m) == [FAILED, LATER]


def test_given_up(w, x, su):
    m, L = unsure(w, x, su)
    su.cursor().execute("UPDATE d.send_q SET give_up_at = now() "
                        "WHERE message_id = %s", (m["mid"],))
    assert done(w, L, {1: LATER})["state"] == 11
    in_doubt(w, su, m, FAILED)


@pytest.mark.parametrize("how", ["expiry", "integrity"])
@pytest.mark.parametrize("marked", [SENDING, LATER])
def test_taken_back(w, x, su, marked, how):
    """Held again, it could be approved and sent as if nothing had left."""
    m, L = unsure(w, x, su)
    if marked == SENDING:
        attempt(w, L)
    if how == "integrity":
        call1(w.wk, "integrity_1", why="digest", **L)
    else:
        call1(w.wk, "release_lease_1", retry_seconds=0, **L)
        su.cursor().execute("UPDATE d.send_q SET stale_at = now() "
                            "WHERE message_id = %s", (m["mid"],))
        recovered(w)
    assert state(su, m)[:2] == (11, 1)
    in_doubt(w, su, m, CANCELED)


def test_suppressed(w, x, su):
    m, L = unsure(w, x, su)
    assert call1(w.rv, "list_set_1", s=w.root, tenant=x.tenant, inbox=None,
                 entry="a@x.example", verdict="s", expires=None,
                 reason="r")["status"] == 200
    r = call1(w.wk, "attempt_1", mx="mx.example", tls="", ix=[1], **L)
    su.cursor().execute("UPDATE d.list_entry SET ended_at = now() "
                        "WHERE entry = 'a@x.example'")
    assert (r["go"], r["reason"]) == (False, "list")
    in_doubt(w, su, m)


def test_suppressed_after_a_reply(w, x, su):
    """The host's number is not that of the list's word."""
    m = approved(w, x, ["a@x.example"])
    L, = claim(w, m)
    attempt(w, L)
    assert call1(w.wk, "done_1", ix=[1], result=[LATER], reply_code=[452],
                 enhanced=["4.2.1"], reply=["full"], retry_seconds=60,
                 mx_result="mx", **L)["status"] == 200
    assert call1(w.rv, "list_set_1", s=w.root, tenant=x.tenant, inbox=None,
                 entry="a@x.example", verdict="s", expires=None,
                 reason="r")["status"] == 200
    due_now(su, m)
    L, = claim(w, m)
    r = call1(w.wk, "attempt_1", mx="mx.example", tls="", ix=[1], **L)
    su.cursor().execute("UPDATE d.list_entry SET ended_at = now() "
                        "WHERE entry = 'a@x.example'")
    assert (r["go"], r["reason"]) == (False, "list")
    cur = su.cursor()
    cur.execute("SELECT status, reply_code, enhanced, reply FROM d.delivery "
                "WHERE message_id = %s", (m["mid"],))
    assert cur.fetchall() == [(7, None, None, "suppressed")]


def test_sent_at_the_second_dot(w, x, su):
    m, L = unsure(w, x, su)
    attempt(w, L)
    assert dot(w, L, host="mx.example")["go"]
    assert rows_of(su, m) == [DOT, LATER]
    assert done(w, L, {1: DONE})["status"] == 200
    assert rows_of(su, m) == [DONE, LATER]


def maybe(w, x, su, m):
    """What its agent, and an operator in the history, is told."""
    mine = call1(w.gw, "my_get_1", t=x.tenant, k=x.full_key, a=x.full_a,
                 mid=m["mid"])
    listed, = [r for r in call(w.rv, "review_list_1", s=w.root, tenant=x.tenant,
                               inbox=None, states=None if state(su, m)[0] == 1
                               else "2,3,4,5,7,8,9,10,11",
                               q=str(m["mid"]), after_key=None, lim=50,
                               collapse=False)
               if r["message_id"] == m["mid"]]
    return mine["doubt"], listed["doubt"]


def told(su, m):
    return one(su, "SELECT detail FROM d.event WHERE message_id = %s "
               "ORDER BY n DESC LIMIT 1", m["mid"])


def test_a_person_cancels_what_waits_for_the_second_dot(w, x, su):
    m, L = unsure(w, x, su)
    call1(w.wk, "release_lease_1", retry_seconds=60, **L)
    r = call1(w.rv, "review_cancel_1", s=w.root, mid=m["mid"], note="no")
    assert (r["status"], r["state"]) == (200, 11)
    assert maybe(w, x, su, m) == (True, True)
    in_doubt(w, su, m, CANCELED)


def test_a_person_cancels_what_a_person_let_be_sent_again(w, x, su):
    m = approved(w, x)
    L, = claim(w, m)
    attempt(w, L)
    assert dot(w, L)["go"]
    assert done(w, L, {1: UNCERTAIN})["state"] == 11
    r = call1(w.rv, "uncertain_1", s=w.root, mid=m["mid"], ix=[1],
              outcome="retry", note="x")
    assert r["state"] == 9 and rows_of(su, m) == [PENDING]
    r = call1(w.rv, "review_cancel_1", s=w.root, mid=m["mid"], note="no")
    assert (r["status"], r["state"]) == (200, 11)
    assert rows_of(su, m) == [UNCERTAIN] and maybe(w, x, su, m) == (True, True)


@pytest.mark.parametrize("end", ["cancel", "review_cancel", "reject", "expiry"])
@pytest.mark.parametrize("again", [False, True])
def test_it_ends_after_a_restore(w, x, su, end, again):
    """The state says how it ended, and beside it that it may have arrived."""
    m = approved(w, x)
    L, = claim(w, m)
    attempt(w, L)
    assert dot(w, L)["go"]
    assert done(w, L, {1: UNCERTAIN})["state"] == 11
    su.cursor().execute(
        "SET ROLE p_ctl; UPDATE d.state SET state = 1, round = round + 1, "
        "hold_until = now() + interval '1 day', detail = 'restored' "
        "WHERE message_id = '%s'; RESET ROLE" % m["mid"])
    assert maybe(w, x, su, m) == (True, True)
    if again:
        assert w.approve(m, for_round=2, resend=[1])["state"] == 2
        assert rows_of(su, m) == [PENDING]
        if end == "reject":
            return
    if end == "cancel":
        r = call1(w.gw, "cancel_1", t=x.tenant, k=x.send_key, a=x.send_a,
                  mid=m["mid"])
        assert r["status"] == 200
    elif end == "review_cancel":
        r = call1(w.rv, "review_cancel_1", s=w.root, mid=m["mid"], note="no")
        assert r["status"] == 200
    elif end == "reject":
        w.reject(m, for_round=2)
    else:
        su.cursor().execute(
            "UPDATE d.state SET hold_until = now() WHERE message_id = %s; "
            "UPDATE d.send_q SET stale_at = now() WHERE message_id = %s",
            (m["mid"], m["mid"]))
        recovered(w)
    assert state(su, m)[0] == {"reject": 3, "expiry": 4}.get(end, 5)
    assert told(su, m).endswith("it may have been sent before")
    assert maybe(w, x, su, m) == (True, True)


@pytest.mark.parametrize("over", ["approval", "not_after"])
def test_not_again_by_a_release_that_is_over(w, x, su, over):
    """It would be taken off the queue at once, and the question come back."""
    m = ending(w, x) if over == "not_after" else approved(w, x)
    L, = claim(w, m)
    attempt(w, L)
    assert dot(w, L)["go"]
    if over == "not_after":
        ended(su, m)
    assert done(w, L, {1: UNCERTAIN})["state"] == 11
    again = dict(s=w.root, mid=m["mid"], ix=[1], outcome="retry", note="x")
    if over == "approval":
        su.cursor().execute("UPDATE d.tenant SET approve_ttl = '1 us' "
                            "WHERE tenant_id = %s", (x.tenant,))
    r = call1(w.rv, "uncertain_1", **again)
    su.cursor().execute("UPDATE d.tenant SET approve_ttl = '72 hours' "
                        "WHERE tenant_id = %s", (x.tenant,))
    assert (r["status"], r["code"], r["state"]) == (409, "release_over", 11)
    assert rows_of(su, m) == [UNCERTAIN]
    assert not one(su, "SELECT count(*) FROM d.send_q WHERE message_id = %s",
                   m["mid"])
    assert call1(w.rv, "uncertain_1", **{**again, "outcome": "sent"})[
        "state"] == 8


def test_what_never_left_is_plainly_canceled(w, x, su):
    m = approved(w, x)
    assert maybe(w, x, su, m) == (False, False)
    call1(w.gw, "cancel_1", t=x.tenant, k=x.send_key, a=x.send_a, mid=m["mid"])
    assert state(su, m)[0] == 5 and rows_of(su, m) == [CANCELED]
    assert maybe(w, x, su, m) == (False, False) and told(su, m) is None


def sent_again(w, x, su):
    """A dot nobody answered, and a person who lets it be sent once more."""
    m = approved(w, x)
    L, = claim(w, m)
    attempt(w, L)
    assert dot(w, L)["go"]
    assert done(w, L, {1: UNCERTAIN})["state"] == 11
    assert call1(w.rv, "uncertain_1", s=w.root, mid=m["mid"], ix=[1],
                 outcome="retry", note="x")["state"] == 9
    due_now(su, m)
    L, = claim(w, m)
    return m, L


@pytest.mark.parametrize("marked", [True, False])
def test_what_a_person_lets_be_sent_again_waits_as_any_other(w, x, su, marked):
    m, L = sent_again(w, x, su)
    for _ in range(3):
        if marked:
            attempt(w, L)
        assert done(w, L, {1: LATER})["state"] == 9
        assert rows_of(su, m) == [LATER]
        due_now(su, m)
        L, = claim(w, m)


@pytest.mark.parametrize("end", ["refused", "unmarked", "given up", "list"])
def test_what_a_person_lets_be_sent_again_stays_in_doubt(w, x, su, end):
    """As what the inbox lets (0103): it says nothing of the first dot."""
    listed = ("SELECT count(*) FROM d.list_entry WHERE entry = 'b@x.example' "
              "AND ended_at IS NULL")
    before = one(su, listed)
    m, L = sent_again(w, x, su)
    if end == "given up":
        su.cursor().execute("UPDATE d.send_q SET give_up_at = now() "
                            "WHERE message_id = %s", (m["mid"],))
        assert done(w, L, {1: LATER})["state"] == 11
    elif end == "list":
        assert call1(w.rv, "list_set_1", s=w.root, tenant=x.tenant,
                     inbox=None, entry="b@x.example", verdict="s",
                     expires=None, reason="r")["status"] == 200
        r = call1(w.wk, "attempt_1", mx="mx.example", tls="", ix=[1], **L)
        su.cursor().execute("UPDATE d.list_entry SET ended_at = now() "
                            "WHERE entry = 'b@x.example' AND tenant_id = %s "
                            "AND inbox_id = 0 AND verdict = 's'", (x.tenant,))
        assert (r["go"], r["reason"]) == (False, "list")
    else:
        if end == "refused":
            attempt(w, L)
        assert call1(w.wk, "done_1", ix=[1], result=[FAILED], reply_code=[550],
                     enhanced=["5.1.1"], reply=["no such user"],
                     retry_seconds=60, mx_result="mx", host="mx.example",
                     safety="", dsn_kind=["f"], dsn_ix=["1"], dsn_epoch=1,
                     dsn_box=[b"x" * 80], **L)["state"] == 11
    assert rows_of(su, m) == [UNCERTAIN] and maybe(w, x, su, m) == (True, True)
    assert one(su, "SELECT count(*) FROM d.dsn WHERE message_id = %s",
               m["mid"]) == 0
    assert one(su, listed) == before


def test_an_answer_to_a_persons_second_dot_counts(w, x, su):
    m, L = sent_again(w, x, su)
    attempt(w, L)
    assert dot(w, L)["go"]
    assert done(w, L, {1: FAILED})["state"] == 10
    assert rows_of(su, m) == [FAILED]
