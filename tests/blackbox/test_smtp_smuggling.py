# SPDX-License-Identifier: ISC
"""
Sets S1, S3, S5, S6 of smtp.md 2.1 through TLS, PostgreSQL and back: however
the bytes are cut, one message or none is stored, with one final reply.
"""
import pytest

from tests.lib import postern, rawsmtp
from tests.lib.rawsmtp import message

ENDS = {
    "LF.LF": b"\n.\n", "LF.CR": b"\n.\r", "CR.LF": b"\r.\n",
    "CR.CR": b"\r.\r", "LF.CRLF": b"\n.\r\n", "CR.CRLF": b"\r.\r\n",
    "CRLF.LF": b"\r\n.\n", "CRLF.CR": b"\r\n.\r",
    "CRLF.CRCRLF": b"\r\n.\r\r\n", "CRCRLF.CRCRLF": b"\r\r\n.\r\r\n",
    "CRLF-NUL.CRLF": b"\r\n\0.\r\n", "CRLF.NUL-CRLF": b"\r\n.\0\r\n",
    "CRLF.VT-CRLF": b"\r\n.\x0b\r\n",
}


@pytest.fixture(scope="module")
def d():
    with postern.Deployment(extra={"smtp": {"size_max": "200K"}}) as it:
        it.add_tenant("acme", "acme.example")
        it.start("posternd")
        yield it


@pytest.fixture
def box(d):
    d.n = getattr(d, "n", 0) + 1
    return d.add_inbox("bot%d@acme.example" % d.n)


def smuggled(box):
    return ("MAIL FROM:<%s>\r\nRCPT TO:<victim@example.com>\r\nDATA\r\n%s"
            % (box.address, message(box, "smuggled"))).encode()


@pytest.mark.parametrize("cut", ["whole", "bytes"])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_only_crlf_dot_crlf_ends(d, box, end, cut):
    before = d.count()
    r = rawsmtp.signed_in(d, box)
    rawsmtp.begin_data(r, box)
    first = message(box, "one").encode()
    assert first.endswith(b"\r\n")
    data = first[:-2] + end + smuggled(box) + b".\r\n"
    if cut == "whole":
        r.send(data)
    else:
        at = data.index(end)
        r.send(data[:at])
        for i in range(at, at + len(end) + 8):
            r.send(data[i:i + 1])
        r.send(data[at + len(end) + 8:])
    reply = r.reply()
    if end == ENDS["CRLF.VT-CRLF"]:  # no bare byte: odd, but one message
        assert reply.startswith("250 2.6.0") or reply.startswith("554 5.6.0")
    else:
        assert reply.startswith("554 5.6.0 [message_malformed]"), reply
    assert r.say("NOOP") == "250 2.0.0 Ok"
    assert d.count() - before == (reply[0] == "2")
    assert not any("victim@example.com" in m["rcpt"] for m in d.messages())


def test_terminator_over_buffer_edges(d, box):
    r = rawsmtp.signed_in(d, box)
    head = message(box, "").encode()
    for edge in (4096, 8192, 16384):
        for back in (1, 3, 5):
            rawsmtp.begin_data(r, box)
            fill = edge - back - len(head)
            lines = b"y" * 62 + b"\r\n"
            body = lines * (fill // 64)
            body += b"z" * (fill - len(body))
            data = head + body + b"\r\n.\r\n"
            r.send(data[:edge])
            r.send(data[edge:])
            assert r.reply().startswith(("250 2.6.0", "451 4.7.1"))


def test_dots_come_through(d, box):
    r = rawsmtp.signed_in(d, box)
    rawsmtp.begin_data(r, box)
    r.send(message(box, "..one dot\r\n...two\r\nplain"))
    assert r.say(".").startswith("250 2.6.0")


def test_oversize_and_smuggle(d, box):
    before = d.count()
    r = rawsmtp.signed_in(d, box)
    rawsmtp.begin_data(r, box)
    r.send(message(box, ("z" * 76 + "\r\n") * 2800))
    r.send(b".\n" + smuggled(box) + b"\r\n.\r\n")
    assert r.reply().startswith("552 5.3.4")
    assert r.say("NOOP") == "250 2.0.0 Ok"
    assert d.count() == before


@pytest.mark.parametrize("end", [b"\r\n.\r\n"])
def test_every_split_of_the_end(d, box, end):
    """One session, the true end cut at every place."""
    r = rawsmtp.signed_in(d, box)
    for cut in range(1, len(end)):
        rawsmtp.begin_data(r, box)
        r.send(message(box, "split %d" % cut)[:-2].encode() + end[:cut])
        r.send(end[cut:])
        assert r.reply().startswith("250 2.6.0")


def test_header_looking_line_after_the_header(d, box):
    """Exim bug 3036: what follows the blank line is body."""
    r = rawsmtp.signed_in(d, box)
    rawsmtp.begin_data(r, box)
    r.send(message(box, "From: ceo@acme.example\r\nBcc: x@y.example"))
    assert r.say(".").startswith("250 2.6.0")
    assert d.messages()[-1]["rcpt"] == ["someone@example.com"]


def test_hang_up_before_the_end_stores_nothing(d, box):
    before = d.count()
    for tail in (b"", b"\r", b"\r\n", b"\r\n.", b"\r\n.\r"):
        r = rawsmtp.signed_in(d, box)
        rawsmtp.begin_data(r, box)
        mark = d.programs["posternd"].mark()
        r.send(message(box, "cut")[:-2].encode() + tail)
        r.shut()
        d.programs["posternd"].wait("smtpd.close", since=mark)
    assert d.count() == before
