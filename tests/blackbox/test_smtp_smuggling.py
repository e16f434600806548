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
    with postern.Deployment(extra={"smtp": {
            "size_max": "200K", "errors_max": "1000"}}) as it:
        it.add_tenant("acme", "acme.example")
        it.sql("UPDATE d.plan SET lim_hour = 100000, lim_day = 100000, "
               "lim_month = 1000000, lim_held = 100000")
        it.start("posternd")
        yield it


@pytest.fixture
def box(d):
    d.n = getattr(d, "n", 0) + 1
    return d.add_inbox("bot%d@acme.example" % d.n)


def smuggled(box):
    return ("MAIL FROM:<%s>\r\nRCPT TO:<victim@example.com>\r\nDATA\r\n%s"
            % (box.address, message(box, "smuggled"))).encode()


def cuts(end):
    """Ways to send what begins with `end`: pieces, their last open-ended."""
    yield []
    yield list(range(1, len(end) + 12))  # an octet at a time
    for at in range(len(end) + 6):  # in two, up to inside MAIL
        yield [at]


def pieces(data, start, at):
    edges = [0] + [start + i for i in at] + [len(data)]
    return [data[a:b] for a, b in zip(edges, edges[1:]) if a < b]


def attack(r, box, end, at, number):
    """One message with `end` inside, and a second one behind it; the one
    reply to its true end."""
    rawsmtp.begin_data(r, box)
    first = message(box, "one %d" % number).encode()
    assert first.endswith(b"\r\n")
    data = first[:-2] + end + smuggled(box) + b".\r\n"
    for piece in pieces(data, len(first) - 2, at):
        r.send(piece)
    return r.reply()


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_only_crlf_dot_crlf_ends(d, box, end):
    """However it is cut: none or one stored, one reply, nothing run."""
    r = rawsmtp.signed_in(d, box)
    for number, at in enumerate(cuts(end)):
        before = d.count()
        reply = attack(r, box, end, at, number)
        if end == ENDS["CRLF.VT-CRLF"]:  # no bare byte: odd, but one message
            assert reply.startswith("250 2.6.0"), (at, reply)
        else:
            assert reply.startswith("554 5.6.0 [message_malformed]"), (
                at, reply)
        assert r.say("NOOP") == "250 2.0.0 Ok"
        assert r.buffer == b""
        assert d.count() - before == (reply[0] == "2"), at
    assert not any("victim@example.com" in m["rcpt"] for m in d.messages())


def filled(box, size):
    """A message of that many octets, its last line without an end."""
    data = message(box, "").encode()
    data += (b"y" * 62 + b"\r\n") * ((size - len(data)) // 64)
    return data + b"z" * (size - len(data))


@pytest.mark.parametrize("edge", [4096, 8192, 16384, 65536])
def test_ends_over_buffer_edges(d, box, edge):
    """True and false ends, at every place over an edge of buffers."""
    r = rawsmtp.signed_in(d, box)
    for end in [b"\r\n.\r\n"] + list(ENDS.values()):
        good = end in (b"\r\n.\r\n", ENDS["CRLF.VT-CRLF"])
        for back in range(len(end) + 1):
            rawsmtp.begin_data(r, box)
            data = filled(box, edge - back) + end
            if end != b"\r\n.\r\n":
                data += smuggled(box) + b".\r\n"
            r.send(data[:edge])
            r.send(data[edge:])
            want = "250 2.6.0" if good else "554 5.6.0"
            assert r.reply().startswith(want), (end, back)
    assert r.say("NOOP") == "250 2.0.0 Ok"
    assert not any("victim@example.com" in m["rcpt"] for m in d.messages())


@pytest.mark.parametrize("text", [
    "one\ntwo", "one\rtwo", "one\0two", "z" * 999,
    ("z" * 76 + "\r\n") * 2800], ids=["LF", "CR", "NUL", "line", "large"])
def test_what_stands_behind_a_refused_message_is_answered(d, box, text):
    """At once: nothing more comes that could push it on."""
    r = rawsmtp.signed_in(d, box)
    for _ in range(2):
        rawsmtp.begin_data(r, box)
        r.send(message(box, text) + ".\r\nNOOP\r\nVRFY x\r\n")
        assert r.reply()[:8] in ("554 5.6.", "552 5.3.")
        assert r.reply() == "250 2.0.0 Ok"
        assert r.reply().startswith("252 2.5.0")
    rawsmtp.begin_data(r, box)
    r.send(message(box, text) + ".\r\nQUIT\r\n")
    assert r.reply()[0] == "5"
    assert r.reply().startswith("221 2.0.0")
    assert r.closed()


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


def test_every_split_of_the_end(d, box):
    """One session, the true end cut at every place."""
    end = b"\r\n.\r\n"
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
