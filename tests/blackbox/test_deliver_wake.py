# SPDX-License-Identifier: ISC
"""
What is due leaves at once: who releases says so through Redis, and for an
approval when its undo window ends. Without Redis the worker's poll finds it.
"""
import signal
import socket
import statistics
import time

import pytest

from tests.lib.pages import Pages
from tests.lib.relaying import Relaying


class Ear:
    """A subscriber of `wake`, as the worker is."""

    def __init__(self, r):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(20)
        self.s.connect(r.redis_socket)
        self.f = self.s.makefile("rb")
        self.s.sendall(b"AUTH worker %s\r\nSUBSCRIBE wake\r\n" % (
            r.redis_password.encode()))
        while self._line() != b":1":
            pass

    def _line(self):
        return self.f.readline().rstrip(b"\r\n")

    def message(self):
        """The next message's text."""
        parts = []
        while parts[-5:-4] != [b"message"]:
            parts.append(self._line())
        return parts[-1]

    def close(self):
        self.f.close()
        self.s.close()


@pytest.fixture(scope="module")
def r():
    with Relaying() as it:
        it.set_conf("admin", undo="0s")
        it.start_worker()
        it.admin = it.start("postern-admin")
        it.pages = Pages(it)
        it.count = 0
        yield it


@pytest.fixture
def ear(r):
    it = Ear(r)
    yield it
    it.close()


def held(r):
    r.count += 1
    mid = r.submit(box=r.add_inbox("w%d@acme.example" % r.count))
    assert r.state(mid) == "held"
    return mid


def undo_window(r, text):
    r.set_conf("admin", undo=text)
    mark = r.admin.mark()
    r.admin.send(signal.SIGHUP)
    r.admin.wait("daemon.reload", since=mark)


def claimed(r, since):
    return r.worker.wait("deliver.claim", since=since)["why"]


def test_an_approval_wakes(r, ear):
    mid = held(r)
    assert r.pages.approve(mid) == 303
    assert ear.message() == b"0"
    r.wait_state(mid, "sent")


def test_a_release_by_policy_wakes(r, ear):
    mid = r.submit()
    assert ear.message() == b"0"
    r.wait_state(mid, "sent")


def test_held_mail_wakes_nobody(r, ear):
    held(r)
    mid = r.submit()
    assert ear.message() == b"0"  # the first one is of the second mail
    r.wait_state(mid, "sent")


def test_the_end_of_the_undo_window_wakes(r, ear):
    undo_window(r, "1s")
    try:
        reasons = []
        for _ in range(3):
            mid, mark = held(r), r.worker.mark()
            assert r.pages.approve(mid) == 303
            assert ear.message() == b"1000"
            assert r.state(mid) == "approved"
            reasons.append(claimed(r, mark))
            r.wait_state(mid, "sent")
            row = r.sql(
                "SELECT extract(epoch FROM a.at - e.not_before) AS late FROM "
                "d.attempt a JOIN d.release e USING (message_id, tenant_id) "
                "WHERE message_id = %s", mid)[0]
            assert row["late"] >= 0
        # A poll may come first by chance, in 5 of 1000 ms; not three times.
        assert "wake" in reasons, reasons
    finally:
        undo_window(r, "0s")


def test_from_approval_to_arrival(r):
    """The time is printed; most claims are made by the wake-up."""
    r.mx.reset()
    times, reasons = [], []
    forms = [(mid, r.pages.form(mid, "decide"))
             for mid in [held(r) for _ in range(15)]]
    for n, (mid, form) in enumerate(forms, 1):
        mark = r.worker.mark()
        began = time.monotonic()
        assert r.pages.press(mid, "decide", form, verdict="a")[0] == 303
        r.mx.wait_messages(n)
        times.append((time.monotonic() - began) * 1000)
        reasons.append(claimed(r, mark))
        r.wait_state(mid, "sent")
    print("\napproval to arrival: p50 %.0f ms, max %.0f ms, %d of %d woken" % (
        statistics.median(times), max(times), reasons.count("wake"),
        len(reasons)))
    assert reasons.count("wake") * 2 > len(reasons), reasons


@pytest.mark.parametrize("text", [b"", b"x", b"-1", b"99999999999999999999",
                                  b"600001"])
def test_nonsense_wakes_nobody(r, text):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(r.redis_socket)
        for _ in range(200):
            s.sendall(b"*3\r\n$7\r\nPUBLISH\r\n$4\r\nwake\r\n$%d\r\n%s\r\n" % (
                len(text), text))
            assert s.recv(16).startswith(b":")
    mid = r.submit()
    r.wait_state(mid, "sent")


def test_the_gateway_may_say_wake_and_nothing_else(r):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(r.redis_socket)
        s.sendall(b"AUTH gw %s\r\n" % r.redis_password.encode())
        assert s.recv(64) == b"+OK\r\n"
        for channel, may in ((b"wake", True), (b"revoke", False),
                             (b"ev:1.1", False)):
            s.sendall(b"PUBLISH %s 0\r\n" % channel)
            assert s.recv(256).startswith(b":" if may else b"-NOPERM")
        s.sendall(b"SUBSCRIBE wake\r\n")
        assert s.recv(256).startswith(b"-NOPERM")


def test_without_redis_the_poll_finds_it(r):
    """Last: Redis stays away."""
    mid = held(r)
    r.redis.kill()
    mark = r.worker.mark()
    assert r.pages.approve(mid) == 303
    r.wait_state(mid, "sent")
    assert claimed(r, mark) == "poll"
