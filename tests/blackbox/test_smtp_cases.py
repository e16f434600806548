# SPDX-License-Identifier: ISC
"""
The inputs of the public reports that tests/cases/README.md lists, as they were
reported, at our SMTP door: each with the whole answer it has to get.
"""
import pytest

from tests.lib import postern, rawsmtp
from tests.lib.rawsmtp import Closed, message, plain

TO = "RCPT TO:<a@example.com>"
BDAT = "502 5.5.1 [bad_sequence] BDAT"
BAD = "554 5.6.0 [message_malformed]"
MANY = 100000


@pytest.fixture(scope="module")
def d():
    with postern.Deployment(extra={"smtp": {"size_max": "20M"}}) as it:
        it.add_tenant("acme", "acme.example")
        it.sql("UPDATE d.plan SET lim_hour = 100000, lim_day = 100000, "
               "lim_month = 1000000, lim_held = 100000")
        it.box = it.add_inbox("bot@acme.example")
        it.start("posternd")
        yield it


def name(d):
    return rawsmtp.base64.b64encode(d.box.address.encode()).decode()


# label, what is said after EHLO (not signed in), the reply to each line
BEFORE = [
    ("B17", ["AUTH LOGIN"], ["334 VXNlcm5hbWU6"]),
    ("B18", ["AUTH LOGIN {name}"], ["334 UGFzc3dvcmQ6"]),
    ("B18", ["AUTH login {name}", "{key}"],
     ["334 UGFzc3dvcmQ6", "235 2.7.0 Signed in as {box}"]),
    ("B20", ["AUTH PLAIN AGEAYg=="] * 5, ["535 5.7.8 "] * 4 + [
        "421 4.7.0 [too_many_errors]"]),
    ("B25", ["STARTTLS"], ["503 5.5.1 [bad_sequence]"]),
    ("B25", ["EHLO again", "EHLO again"], ["250-", "250-"]),
    ("B40", ["MAIL FROM:<>"], ["530 5.7.0 [missing_authorization]"]),
]

# label, what is said once signed in, the reply to each line
ENVELOPE = [
    ("B4", ["MAIL FROM:<{box}>", TO, "BDAT 1 LAST\r\nDATA"],
     ["250 2.1.0", "250 2.1.5", BDAT]),
    ("B6", ["BDAT 1\r\nx" * 1000], [BDAT]),
    ("B8", ["MAIL FROM:<{box}>", TO, "BDAT 18446744073709551615 LAST\r\n."],
     ["250 2.1.0", "250 2.1.5", BDAT]),
    ("B8", ["BDAT -1"], [BDAT]),
    ("B9", ["MAIL FROM: <{box}>", "RCPT TO: <a@b.example> NOTIFY=NEVER"],
     ["250 2.1.0", "250 2.1.5"]),
    ("B9", ["MAIL FROM:{box}"], ["501 5.1.7 [invalid_address]"]),
    ("B10", ["MAIL FROM:<{box}>", "RCPT TO:<bad addr>"],
     ["250 2.1.0", "501 5.1.3 [invalid_address]"]),
    ("B10", ["MAIL FROM:<{box}>", 'RCPT TO:<"a@b"@c.example>'],
     ["250 2.1.0", "250 2.1.5"]),
    ("B13", ["MAIL FROM:<{box}>", "RCPT TO:<x@y.example> ORCPT=rfc822;root"],
     ["250 2.1.0", "250 2.1.5"]),
    ("B13", ["MAIL FROM:<{box}> RET=HDRS", TO + " NOTIFY=DELAY", "RSET",
             "MAIL FROM:<{box}> RET=HDRS", TO + " NOTIFY=DELAY"],
     ["250 2.1.0", "250 2.1.5", "250 2.0.0", "250 2.1.0", "250 2.1.5"]),
    ("B14", ["MAIL FROM:<{box}>", "RCPT TO:<u+caf_=a_b=c@gmail.com>",
             "RCPT TO:<%s@gmail.com>" % ("x" * 65)],
     ["250 2.1.0", "250 2.1.5", "250 2.1.5"]),
    ("B21", ["MAIL FROM:<b@acme.example>"], ["550 5.7.1 [sender_mismatch]"]),
    ("B38", ["MAIL FROM:<{box}> SMTPUTF8 BODY=8BITMIME", TO],
     ["250 2.1.0", "250 2.1.5"]),
    ("B38", ["MAIL FROM:<{box}>", "RCPT TO:<j\u00f6rg@example.com>"],
     ["250 2.1.0", "550 5.6.7 [smtputf8_needed]"]),
    ("B38", ["MAIL FROM:<{box}> SMTPUTF8",
             "RCPT TO:<j\u00f6rg@b\u00fccher.example>"],
     ["250 2.1.0", "250 2.1.5"]),
    ("B33", ["MAIL FROM:<{box}> SIZE=100\r\nRCPT TO:<e@v.example>"],
     ["250 2.1.0"]),
    ("B33", ["MAIL FROM:<{box}> SIZE=100\rRCPT TO:<e@v.example>"],
     ["500 5.5.2 [syntax_error]"]),
    ("B40", ["MAIL FROM:<>"], ["550 5.7.1 [sender_mismatch]"]),
]

HEAD = "From: {box}\r\nSubject: {n}\r\n"
MIXED = HEAD + "Content-Type: multipart/mixed; boundary=a\r\n\r\n"

# label, a message, the reply to its end
MESSAGES = [
    ("B1", HEAD + "\r\nx\n.\r\nMAIL FROM:<{box}>\r\n" + TO + "\r\nDATA\r\n",
     BAD),
    ("B3", HEAD + "\r\nx\n.\nMAIL FROM:<{box}>\n\r\n", BAD),
    ("B16", HEAD + "\r\n" + "x" * 998 + "\r\n", "250 2.6.0"),
    ("B16", HEAD + "\r\n" + "x" * 999 + "\r\n", BAD),
    ("B16", HEAD + "X: " + "x" * 995 + "\r\n\r\nx\r\n", "250 2.6.0"),
    ("B16", HEAD + "X: " + "x" * 8000 + "\r\n\r\nx\r\n", BAD),
    ("B21", "From: b@acme.example\r\n\r\nx\r\n",
     "550 5.7.1 [sender_mismatch]"),
    ("B27", HEAD + "Content-Type: message/rfc822\r\n\r\n" * MANY,
     "550 5.6.0 [mime_too_complex]"),
    ("B27", MIXED + "--a\r\n\r\n" * (10 * MANY),
     "550 5.6.0 [mime_too_complex]"),
    ("B27", MIXED + "--a\r\n" * (10 * MANY), BAD),
    ("B28", "From: " + "(" * 900 + "\r\n\r\nx\r\n", "550 5.7.1"),
    ("B28", HEAD + "To: " + "a:" * 400 + ";\r\n\r\nx\r\n", BAD),
    ("B30", HEAD + 'To: "\\"Doe, John\\"" <u@x.example>\r\n\r\nx\r\n',
     "250 2.6.0"),
    ("B34", HEAD + "\r\na\nb\r\n", BAD),
    ("B36", "From: b@acme.example\r\n" + HEAD + "\r\nx\r\n",
     "550 5.7.1 [sender_mismatch]"),
    ("B36", "Subject: other\r\n" + HEAD + "\r\nx\r\n", BAD),
    ("B36", HEAD + "\r\nFrom: b@acme.example\r\n\r\nx\r\n", "250 2.6.0"),
]

def numbered(cases):
    return [pytest.param(*c, id="%s-%d" % (c[0], i))
            for i, c in enumerate(cases)]


def say_all(d, r, lines, replies):
    fill = {"box": d.box.address, "name": name(d),
            "key": rawsmtp.base64.b64encode(
                d.box.smtp_key.encode()).decode()}
    for line, want in zip(lines, replies):
        try:
            r.send(line.format(**fill) + "\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        reply = r.reply()
        assert reply.startswith(want.format(**fill)), (line[:80], reply)
    if replies[-1] in (BDAT,) or replies[-1][0:3] == "421":
        assert r.closed()  # nothing behind it was run


@pytest.mark.parametrize("label,lines,replies", numbered(BEFORE))
def test_before_sign_in(d, label, lines, replies):
    say_all(d, rawsmtp.secured(d), lines, replies)


@pytest.mark.parametrize("label,lines,replies", numbered(ENVELOPE))
def test_envelope(d, label, lines, replies):
    before = d.count()
    say_all(d, rawsmtp.signed_in(d, d.box), lines, replies)
    assert d.count() == before


@pytest.mark.parametrize("label,text,want", numbered(MESSAGES))
def test_message(d, label, text, want):
    """0 or 1 stored, one reply, and the session goes on."""
    test_message.n = getattr(test_message, "n", 0) + 1
    before = d.count()
    r = rawsmtp.signed_in(d, d.box)
    r.sock.settimeout(60)
    rawsmtp.begin_data(r, d.box)
    r.send(text.replace("{box}", d.box.address).replace(
        "{n}", "case %d" % test_message.n))
    reply = r.say(".")
    assert reply.startswith(want), reply
    assert r.say("NOOP").startswith("250 2.0.0")
    assert d.count() - before == (want[0] == "2")


@pytest.mark.parametrize("tail", ["NOOP\r\n", "NOOP\n", "EHLO x\r\n" + TO])
def test_behind_starttls(d, tail):
    """B22: never run, neither before the handshake nor inside of TLS."""
    r = rawsmtp.greeted(d)
    r.say("EHLO x")
    r.send("STARTTLS\r\n" + tail)
    assert r.reply().startswith("554 5.5.0 [protocol_violation]")
    assert r.closed()


def test_one_address_three_times(d):
    """B39: To, Cc and Bcc name the same one."""
    r = rawsmtp.signed_in(d, d.box)
    rawsmtp.begin_data(r, d.box, "ann@example.com", "Ann@Example.com",
                       "ann@example.com")
    r.send(message(d.box, "thrice", Cc="ann@example.com",
                   Bcc="ann@example.com"))
    assert r.say(".").startswith("250 2.6.0")
    assert d.messages()[-1]["rcpt"] == ["ann@example.com"]


def test_a_thousand_guesses(d):
    """B20: few of them in a connection; whoever owns the key comes in."""
    r = rawsmtp.secured(d)
    said = []
    try:
        r.send("AUTH PLAIN AGEAYg==\r\n" * 1000)
        while True:
            said.append(r.reply()[:3])
    except (Closed, ConnectionError):
        pass
    assert said == ["535"] * 4 + ["421"]
    r = rawsmtp.secured(d, r.source)
    assert r.say("AUTH PLAIN " + plain(
        d.box.address, d.box.smtp_key)).startswith("235 2.7.0")
