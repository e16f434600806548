# SPDX-License-Identifier: ISC
"""
One session carries many messages to the same host, as long as it is well; one
that has ended in between costs nothing, not even an attempt.
"""
import time

import pytest

from tests.fake.mx import CLOSE
from tests.lib.relaying import Relaying


@pytest.fixture(scope="module")
def r():
    with Relaying() as it:
        it.start_worker()
        yield it


@pytest.fixture(autouse=True)
def mx(r):
    r.mx.reset()
    yield r.mx
    r.mx.script.clear()


def sent(r, **how):
    mid = r.submit(**how)
    r.wait_state(mid, "sent")
    return mid


def queued(r, n):
    """So many before anybody looks: they leave one right behind the other,
    however long it takes to submit them."""
    r.worker.stop()
    mids = [r.submit() for _ in range(n)]
    r.set_conf("deliver", concurrency="1")
    r.start_worker()
    return mids


def ends(r, mids):
    for mid in mids:
        r.wait_state(mid, "sent", "bounced")
    return sorted(r.state(mid) for mid in mids)


def test_one_session_for_many(r, mx):
    assert ends(r, queued(r, 3)) == ["sent"] * 3
    assert mx.verbs.count("EHLO") == 2  # before and after STARTTLS, once
    assert mx.verbs.count("AUTH") == 1 and mx.verbs.count("MAIL") == 3
    assert len(mx.messages) == 3 and all(m["tls"] for m in mx.messages)


def test_each_message_is_whole(r, mx):
    """Nothing of one message is in the next, whatever its end."""
    for body in ("one\r\n.\r\n", "", "three\r\n..\r\n", "\r\n"):
        sent(r, body=body)
    ends = [m["data"].partition(b"\r\n\r\n")[2] for m in mx.messages]
    assert ends == [b"one\r\n.\r\n", b"", b"three\r\n..\r\n", b"\r\n"]


def test_after_a_refusal(r, mx):
    """A refused message ends nothing; refused recipients end the session."""
    mx.script["dot"] = lambda s, line: \
        "554 5.6.0 not this" if len(mx.messages) == 2 else None
    assert ends(r, queued(r, 3)) == ["bounced", "sent", "sent"]
    assert mx.verbs.count("AUTH") == 1 and len(mx.messages) == 3
    mx.reset()
    mx.script["RCPT"] = lambda s, line: \
        "550 5.7.1 no" if mx.verbs.count("MAIL") == 1 else None
    assert ends(r, queued(r, 2)) == ["bounced", "sent"]
    assert mx.verbs.count("AUTH") == 2 and len(mx.messages) == 1


def test_a_session_that_ended_meanwhile(r, mx):
    """Not an attempt: nothing was said to anybody."""
    sent(r)
    mx.hang_up()
    mid = sent(r)
    assert r.deliveries(mid)[0]["attempts"] == 1
    assert mx.verbs.count("AUTH") == 2


@pytest.mark.parametrize("step", [CLOSE, "421 4.7.0 enough for today"])
def test_a_session_that_ends_at_mail(r, mx, step):
    sent(r)
    seen = []
    mx.script["MAIL"] = lambda s, line: seen.append(
        s.sock.getpeername()) or (
        step if len(seen) == 1 else None)
    mid = sent(r)
    assert len(seen) == 2 and seen[0] != seen[1]
    assert r.deliveries(mid)[0]["attempts"] == 1
    r.assert_settled(mid)
    assert len(mx.messages) == 2


def test_a_lost_dot_is_uncertain_in_a_kept_session_too(r, mx):
    sent(r)
    mx.script["dot"] = CLOSE
    mid = r.submit()
    r.wait_state(mid, "uncertain")
    mx.script.clear()
    assert len(mx.messages) == 2


def test_a_peer_that_talks_after_the_reply(r, mx):
    """What follows the reply would answer the next command: no next one."""
    mx.script["dot"] = "250 2.0.0 ok\n250 2.0.0 and more"
    sent(r)
    mx.script.clear()
    sent(r)
    assert mx.verbs.count("AUTH") == 2


def test_a_hundred_are_enough(r, mx):
    box = r.add_inbox("many@acme.example")
    r.set_mode(box, 4)
    r.sql("UPDATE d.inbox SET lim_hour = 1000, lim_day = 1000 "
          "WHERE inbox_id = %s", box.inbox_id)
    r.worker.stop()
    mids = [r.submit(box=box) for _ in range(104)]
    r.set_conf("deliver", concurrency="1")
    r.start_worker()
    for mid in mids:
        r.wait_state(mid, "sent", timeout=60)
    assert mx.verbs.count("AUTH") == 2 and len(mx.messages) == 104
    assert {m["data"].count(b"Received: by ") for m in mx.messages} == {1}


def test_a_group_waits_for_no_delayed_acknowledgement(r, mx):
    """A host that answers a group one by one, and waits with the second
    reply until the first is acknowledged: the kernel puts that off by 40 ms
    once a session is some messages old."""
    box = r.add_inbox("group@acme.example")
    r.set_mode(box, 4)
    r.worker.stop()
    mids = [r.submit(box=box) for _ in range(20)]
    began, gaps = [], {}
    mx.script["DATA"] = lambda s, line: began.append(time.monotonic())

    def comes(session, line):
        gaps.setdefault(len(began), time.monotonic() - began[-1])
    mx.script["before_dot"] = comes
    r.set_conf("deliver", concurrency="1")
    r.start_worker()
    for mid in mids:
        r.wait_state(mid, "sent", timeout=60)
    assert mx.verbs.count("AUTH") == 1 and len(gaps) == 20
    assert min(gaps[i] for i in range(11, 21)) < 0.03, gaps
