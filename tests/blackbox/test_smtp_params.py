# SPDX-License-Identifier: ISC
"""
SMTPUTF8, DSN and REQUIRETLS from the agent's MAIL and RCPT to those of the
worker: stored in the digest, repeated where the next hop can, asked for only
where something needs it (RFC 6531, 3461, 8689; decision D4).
"""
import pytest

from tests.fake.mx import FakeMx
from tests.lib import rawsmtp
from tests.lib.relaying import Relaying

PLAIN = FakeMx.OFFERS
FULL = PLAIN + ("SMTPUTF8", "DSN", "REQUIRETLS")


@pytest.fixture(scope="module")
def r():
    with Relaying() as it:
        it.start_worker()
        yield it


@pytest.fixture
def mx(r):
    r.mx.reset()
    r.mx.offers = FULL
    yield r.mx
    r.mx.offers = PLAIN


def send(r, mail="", rcpts=("<ann@dest.example>",), head="", body="hi\r\n"):
    """The uuid of the one message that is new."""
    box = r.fresh_box()
    before = {m["message_id"] for m in r.messages()}
    s = rawsmtp.signed_in(r, box)
    assert s.say("MAIL FROM:<%s>%s" % (box.address, mail)).startswith("250")
    for rcpt in rcpts:
        assert s.say("RCPT TO:" + rcpt).startswith("250 2.1.5"), rcpt
    assert s.say("DATA").startswith("354")
    s.send("From: %s\r\nTo: ann@dest.example\r\nSubject: x\r\n%s\r\n%s" % (
        box.address, head, body))
    reply = s.say(".")
    assert reply.startswith("250 2.6.0"), reply
    s.shut()
    (mid,) = {m["message_id"] for m in r.messages()} - before
    return mid


def params(r, mid):
    return r.sql("SELECT params FROM d.message WHERE message_id = %s",
                 mid)[0]["params"]


def relayed(r, mx, mid, state="sent"):
    r.wait_state(mid, state)
    return mx.messages[-1] if mx.messages else None


def test_dsn_is_repeated_with_our_ids(r, mx):
    mid = send(r, " RET=HDRS ENVID=client+2B7", (
        "<ann@dest.example> NOTIFY=success,FAILURE ORCPT=rfc822;root",
        "<b+c@dest.example> NOTIFY=NEVER",
        "<c@dest.example>"))
    assert params(r, mid) == (
        "<ann@dest.example> NOTIFY=SUCCESS,FAILURE\n"
        "<b+c@dest.example> NOTIFY=NEVER\nRET=HDRS\n")
    got = relayed(r, mx, mid)
    words = got["params"].split(" ")
    assert "RET=HDRS" in words
    (envid,) = [w for w in words if w.startswith("ENVID=")]
    assert envid.startswith("ENVID=msg_")
    assert dict(zip(got["rcpts"], got["rcpt_params"])) == {
        "ann@dest.example": "NOTIFY=SUCCESS,FAILURE "
        "ORCPT=rfc822;ann@dest.example",
        "b+c@dest.example": "NOTIFY=NEVER ORCPT=rfc822;b+2Bc@dest.example",
        "c@dest.example": ""}


def test_dsn_is_not_said_to_a_hop_without(r, mx):
    mx.offers = PLAIN
    got = relayed(r, mx, send(r, " RET=FULL", (
        "<ann@dest.example> NOTIFY=NEVER",)))
    assert "RET" not in got["params"] and "ENVID" not in got["params"]
    assert got["rcpt_params"] == [""]


def test_utf8_is_asked_for_only_when_needed(r, mx):
    """B38: Go and others say SMTPUTF8 whatever they send."""
    mx.offers = PLAIN
    mid = send(r, " SMTPUTF8 BODY=8BITMIME", ("<ada@B\u00fccher.example>",))
    assert params(r, mid) == ""
    got = relayed(r, mx, mid)
    assert got["rcpts"] == ["ada@xn--bcher-kva.example"]
    assert "SMTPUTF8" not in got["params"]
    assert b" with UTF8SMTPSA id " in got["data"].split(b"\r\n")[0]


@pytest.mark.parametrize("rcpt,head,body", [
    ("<j\u00f6rg@b\u00fccher.example>", "", "hi\r\n"),
    ("<ann@dest.example>", "X-Name: J\u00f6rg\r\n", "hi\r\n"),
    ("<ann@dest.example>", "MIME-Version: 1.0\r\n"
     "Content-Type: multipart/mixed; boundary=b\r\n",
     "--b\r\nContent-Description: J\u00f6rg\r\n\r\nhi\r\n--b--\r\n")])
def test_utf8_where_something_needs_it(r, mx, rcpt, head, body):
    mid = send(r, " SMTPUTF8", (rcpt,), head, body)
    assert params(r, mid) == "SMTPUTF8=\n"
    got = relayed(r, mx, mid)
    assert "SMTPUTF8" in got["params"].split(" ")
    assert got["rcpts"] == [rcpt[1:-1].replace("b\u00fccher",
                                               "xn--bcher-kva")]


def test_a_hop_without_utf8_gets_nothing(r, mx):
    mx.offers = PLAIN
    mid = send(r, " SMTPUTF8", ("<j\u00f6rg@dest.example>",))
    r.wait_state(mid, "bounced")
    assert not mx.messages
    (row,) = r.deliveries(mid)
    assert row["enhanced"] == "5.6.7"


def test_require_tls(r, mx):
    mid = send(r, " REQUIRETLS")
    assert params(r, mid) == "REQUIRETLS=\n"
    got = relayed(r, mx, mid)
    assert got["tls"] and "REQUIRETLS" in got["params"].split(" ")
    mx.reset()
    mx.offers = PLAIN
    mid = send(r, " REQUIRETLS")
    r.wait_state(mid, "bounced")
    assert not mx.messages
    (row,) = r.deliveries(mid)
    assert row["enhanced"] == "5.7.30"


def test_another_params_is_another_message(r, mx):
    """What is approved includes what was asked of the next hops."""
    box = r.fresh_box()
    ids = set()
    for extra in ("", " RET=FULL", " RET=FULL"):
        s = rawsmtp.signed_in(r, box)
        s.say("MAIL FROM:<%s>%s" % (box.address, extra))
        s.say("RCPT TO:<ann@dest.example>")
        s.say("DATA")
        s.send("From: %s\r\nMessage-ID: <same@acme.example>\r\n"
               "Date: Sat, 28 Nov 2026 03:42:25 +0000\r\n\r\nhi\r\n"
               % box.address)
        ids.add(s.say(".").split(" ")[2])
        s.shut()
    assert len(ids) == 2, ids
