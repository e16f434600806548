# SPDX-License-Identifier: ISC
"""
Postfix, OpenSMTPD and Exim receive what the worker sends: in clear, by
STARTTLS and over IPv6, awkward bodies too, to the byte; the signatures hold
after it. Only with --full: it fetches the three.
"""
import os
import socket

import pytest

from tests.blackbox import test_deliver_dkim as signed
from tests.fake.dns import FakeDns
from tests.lib import receivers
from tests.lib.relaying import Relaying


def may_listen():
    try:
        socket.create_server((receivers.SIX, 25),
                             family=socket.AF_INET6).close()
        return True
    except OSError:
        return False


pytestmark = [
    pytest.mark.skipif(os.environ.get("POSTERN_FULL") != "1",
                       reason="with --full only"),
    pytest.mark.skipif(receivers.why_not() is not None,
                       reason=str(receivers.why_not())),
    pytest.mark.skipif(not may_listen(),
                       reason="port 25 of ::1 may not be used here")]


@pytest.fixture(scope="module")
def r():
    with FakeDns() as dns, Relaying(
            smarthost="", smarthost_user="", identity=True,
            allow_address=["127.31.0.0/16", "::1/128"],
            resolver=["127.0.0.1:%d" % dns.port]) as it:
        it.dns, it.records = dns, {}
        for name, address in (("clear", receivers.CLEAR),
                              ("tls", receivers.TLS), ("six", receivers.SIX)):
            dns.mx(name + ".example", (10, "mx.%s.example" % name))
            dns.a("mx.%s.example" % name, address)
        it.start_worker()
        signed.new_pair(it, "first")
        yield it


@pytest.fixture(scope="module", params=list(receivers.ALL))
def peer(request, r):
    it = receivers.ALL[request.param](r.dir, r.path("tls", "cert.pem"),
                                      r.path("tls", "key.pem"))
    it.r = r
    try:
        yield it
    finally:
        with open(it.path("out"), errors="replace") as f:
            print(f.read()[-4000:])
        it.close()


def new(peer, had, n=1):
    """What came since, with CRLF; signed, whatever the peer put before it."""
    peer.wait_files(len(had) + n)
    out, paths = [], []
    for path in set(peer.files()) - had:
        with open(path, "rb") as f:
            raw = f.read().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        out.append(raw[raw.index(b"DKIM-Signature: "):])
        assert signed.by_python(peer.r, out[-1]) == {
            "firstr": True, "firste": True}, out[-1][:4000]
        paths.append(signed.kept(peer.r, {"data": out[-1]},
                                 "came%d.eml" % len(paths)))
        good, said = signed.by_opendkim(peer.r, paths[-1])
        assert good, said
    assert signed.by_mailauth(peer.r, paths) == [
        {"firstr": "pass", "firste": "pass"}] * len(paths)
    return out


@pytest.mark.parametrize("how", ["clear", "tls", "six"])
def test_ways_in(r, peer, how):
    subject = "By %s to %s" % (how, type(peer).__name__)
    had = set(peer.files())
    mid = r.submit(rcpts=["ann@%s.example" % how], subject=subject)
    r.wait_state(mid, "sent", timeout=60)
    (raw,) = new(peer, had)
    assert b"\r\nSubject: %s\r\n" % subject.encode() in raw
    assert r.deliveries(mid)[0]["reply_code"] == 250
    (tried,) = r.sql("SELECT tls FROM d.attempt WHERE message_id = %s", mid)
    assert tried["tls"].startswith("TLSv1") == (how != "clear"), tried


def test_awkward_bodies(r, peer):
    """To the byte: what stands after the header is what was submitted. UTF-8
    in the header goes to those that take it, and fails at the other."""
    had, came_to, refused = set(peer.files()), [], []
    for raw in signed.BODIES.values():
        plain = raw.split(b"\r\n\r\n")[0].isascii()
        mid = signed.submit(r, raw, rcpts=["ann@tls.example"])
        (came_to if plain or peer.utf8 else refused).append((mid, raw))
    for mid, _ in came_to:
        r.wait_state(mid, "sent", timeout=60)
    for mid, _ in refused:
        r.wait_state(mid, "bounced", timeout=60)
        assert r.deliveries(mid)[0]["enhanced"] == "5.6.7"
    arrived = new(peer, had, len(came_to))
    with signed.rspamd(r) as selectors:
        wrong = [x for x in arrived
                 if selectors(x) != [["firste", "firstr"], []]]
    assert len(wrong) == len(signed.RSPAMD_ERRS), wrong
    came = [x.split(b"\r\n\r\n", 1)[1] for x in arrived]
    assert sorted(came) == sorted(
        x.split(b"\r\n\r\n", 1)[1] for _, x in came_to)
