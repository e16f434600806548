# SPDX-License-Identifier: ISC
"""
The whole reply, word for word, on both doors: 587 with STARTTLS and 465.
What the next step is stands in every refusal (decision C5), in at most 512
octets with its line end (tests/lib/rawsmtp.py checks each line).
"""
import base64
import json
import socket
import ssl

import pytest

from tests.lib import postern, rawsmtp
from tests.lib.rawsmtp import Raw, message, plain

SIZE_MAX = 204800
KEY = "Use a live key; it may be mistyped, revoked or expired."
OWN = "Send as the inbox's own address only."
SYNTAX = "Correct the command's syntax."
SMALLER = "Make the message smaller than the announced size."
MIME = "Make the message conform to RFC 5322 and MIME."
WRONG = ("535 5.7.8 [unknown_api_key] User name and password are not an inbox "
         "address and its send key. " + KEY)
DEAD = ("550 5.7.1 [unknown_api_key] The key was revoked or has expired since "
        "you signed in. " + KEY)


@pytest.fixture(scope="module")
def d():
    with postern.Deployment(extra={"smtp": {
            "size_max": "200K", "rcpt_max": "5"}}) as it:
        it.add_tenant("acme", "acme.example")
        it.sql("UPDATE d.plan SET lim_hour = 100000, lim_day = 100000, "
               "lim_month = 1000000, lim_held = 100000")
        it.box = it.add_inbox("bot@acme.example")
        it.n = 0
        it.start("posternd")
        yield it


@pytest.fixture
def box(d):
    """For tests that kill its key."""
    d.n += 1
    return d.add_inbox("fresh%d@acme.example" % d.n)


@pytest.fixture(params=["587", "465"])
def door(request):
    return request.param


def secured(d, door):
    if door == "587":
        return rawsmtp.secured(d)
    r = Raw(d.smtps_port, tls=d.ca_file)
    assert r.reply() == "220 gate.postern.test ESMTP Postern"
    r.say("EHLO client.test")
    return r


def signed_in(d, door, box=None):
    box = box or d.box
    r = secured(d, door)
    assert r.say("AUTH PLAIN " + plain(box.address, box.smtp_key)) == \
        "235 2.7.0 Signed in as " + box.address
    return r


def begin_data(r, box):
    assert r.say("MAIL FROM:<%s>" % box.address).startswith("250 2.1.0 ")
    assert r.say("RCPT TO:<a@example.com>").startswith("250 2.1.5 ")
    assert r.say("DATA") == "354 End the message with <CRLF>.<CRLF>"


def b64(text):
    return base64.b64encode(text.encode()).decode()


def written_down(d, what, text):
    """A refused attempt is in the audit log (decision A13)."""
    postern.wait_until(what, lambda: text in str([
        (row["actor"], json.loads(row["detail"])["detail"]) for row in d.sql(
            "SELECT actor, detail FROM d.audit WHERE event = "
            "'denied.%s'" % what)]))


# -- keys that do not work ---------------------------------------------------

def test_wrong_key(d, door):
    wrong = d.box.smtp_key[:-1] + ("0" if d.box.smtp_key[-1] != "0" else "1")
    for password in (wrong, "x"):
        r = secured(d, door)
        assert r.say("AUTH PLAIN " + plain(d.box.address, password)) == WRONG
        r.shut()


def test_dead_key(d, door, box):
    """Expired: the right secret, too late."""
    key = int(box.smtp_key.split("_")[3])
    d.sql("UPDATE d.credential SET expires_at = clock_timestamp() - "
          "interval '1 second' WHERE key_id = %d" % key)
    r = secured(d, door)
    assert r.say("AUTH PLAIN " + plain(box.address, box.smtp_key)) == WRONG


def test_revoked_key(d, door, box):
    d.revoke(box)
    r = secured(d, door)
    assert r.say("AUTH PLAIN " + plain(box.address, box.smtp_key)) == WRONG


def test_key_that_can_do_more(d, door):
    r = secured(d, door)
    reply = r.say("AUTH PLAIN " + plain(d.box.address, d.box.key))
    assert reply.startswith(
        "535 5.7.8 [key_scope] This key can do more than send, so SMTP does "
        "not take it. ")


def test_revoked_between_auth_and_dot(d, door, box):
    before = d.count()
    r = signed_in(d, door, box)
    begin_data(r, box)
    r.send(message(box))
    d.revoke(box)
    assert r.say(".") == DEAD
    assert r.closed()
    assert d.count() == before
    written_down(d, "dead_key", box.smtp_key.split("_")[3] + "', 'smtp'")


def test_suspended_between_auth_and_dot(d, door, box):
    before = d.count()
    r = signed_in(d, door, box)
    begin_data(r, box)
    r.send(message(box))
    d.sql("UPDATE d.inbox SET suspended_at = now() WHERE inbox_id = %s",
          box.inbox_id)
    assert r.say(".").startswith("550 5.7.1 [missing_permission] ")
    assert d.count() == before


# -- who it is from ----------------------------------------------------------

def refused_message(d, door, text, want):
    before = d.count()
    r = signed_in(d, door)
    begin_data(r, d.box)
    r.send(text)
    assert r.say(".") == want
    assert d.count() == before
    assert r.say("NOOP").startswith("250 2.0.0 ")  # and the session goes on


def test_foreign_from(d, door):
    refused_message(
        d, door, "From: ceo@acme.example\r\nSubject: x\r\n\r\nhi\r\n",
        "550 5.7.1 [sender_mismatch] From is ceo@acme.example; this key may "
        "send only as bot@acme.example. " + OWN)
    written_down(d, "sender_mismatch", "From is ceo@acme.example")


def test_two_from(d, door):
    refused_message(
        d, door, "From: bot@acme.example\r\nFrom: ceo@acme.example\r\n\r\n",
        "550 5.7.1 [sender_mismatch] There must be exactly one From, and it "
        "is bot@acme.example. " + OWN)


def test_foreign_mail_from(d, door):
    r = signed_in(d, door)
    assert r.say("MAIL FROM:<ceo@acme.example>") == (
        "550 5.7.1 [sender_mismatch] MAIL FROM is <ceo@acme.example>; this "
        "key may send only as bot@acme.example. " + OWN)
    # as far as an address may go, and still one line of at most 512 octets
    long = "x" * 120 + "@" + ".".join(["y" * 60] * 3) + ".example"
    reply = r.say("MAIL FROM:<%s>" % long)
    assert reply.startswith("550 5.7.1 [sender_mismatch] MAIL FROM is <xxx")
    assert reply.endswith(OWN)
    assert r.say("MAIL FROM:<>") == (
        "550 5.7.1 [sender_mismatch] MAIL FROM is <>; this key may send only "
        "as bot@acme.example. " + OWN)


def test_long_header_from(d, door):
    long = "x" * 120 + "@" + ".".join(["y" * 60] * 3) + ".example"
    r = signed_in(d, door)
    begin_data(r, d.box)
    r.send("From: %s\r\n\r\n\r\n" % long)
    reply = r.say(".")
    assert reply.startswith("550 5.7.1 [sender_mismatch] From is xxx")
    assert reply.endswith(OWN)


# -- bytes -------------------------------------------------------------------

def test_oversize_declared(d, door):
    r = signed_in(d, door)
    assert r.say("MAIL FROM:<%s> SIZE=%d" % (d.box.address, SIZE_MAX + 1)) == (
        "552 5.3.4 [payload_too_large] SIZE is 204801, allowed are 204800 "
        "octets. " + SMALLER)
    assert r.say("MAIL FROM:<%s> SIZE=%d" % (
        d.box.address, SIZE_MAX)).startswith("250 2.1.0 ")


def test_oversize_streamed(d, door):
    text = message(d.box, ("z" * 76 + "\r\n") * 3000)
    refused_message(
        d, door, text,
        "552 5.3.4 [payload_too_large] The message has %d octets, allowed are "
        "204800. %s" % (len(text), SMALLER))


def test_size_to_the_octet(d, door):
    """Content counts, not the dots that were stuffed (RFC 1870)."""
    head = message(d.box, "")
    fill = SIZE_MAX - len(head) - 4
    text = head + "..x\r\n" + ("y" * 98 + "\r\n") * (fill // 100)
    text += "w" * (fill % 100 - 2) + "\r\n"
    assert len(text) - 1 == SIZE_MAX
    r = signed_in(d, door)
    begin_data(r, d.box)
    r.send(text)
    assert r.say(".").startswith("250 2.6.0 id=msg_")
    begin_data(r, d.box)
    r.send(text.replace("ww\r\n", "www\r\n"))
    assert r.say(".") == (
        "552 5.3.4 [payload_too_large] The message has 204801 octets, allowed "
        "are 204800. " + SMALLER)


@pytest.mark.parametrize("text,what", [
    ("a\nb\r\n", "a bare LF (curl needs --crlf)"),
    ("a\n.\nb\r\n", "a bare LF (curl needs --crlf)"),
    ("a\rb\r\n", "a bare CR"),
    ("a\0b\r\n", "a NUL"),
    ("a" * 999 + "\r\n", "a line of more than 998 octets")],
    ids=["LF", "LF-dot-LF", "CR", "NUL", "long"])
def test_line_ends(d, door, text, what):
    refused_message(
        d, door, message(d.box, "") + text,
        "554 5.6.0 [message_malformed] The message has %s. %s" % (what, MIME))


def test_longest_line(d, door):
    """B16: a line of exactly 1000 octets with its CRLF is right, a dot more
    for stuffing is not counted, and a header line may be as long."""
    r = signed_in(d, door)
    for text in ("a" * 998, "." + "." + "a" * 997):
        begin_data(r, d.box)
        r.send("X: %s\r\n" % ("b" * 995) + message(d.box, text))
        assert r.say(".").startswith("250 2.6.0 id=msg_")


@pytest.mark.parametrize("fields,text,why", [
    ({}, "gr\u00fc\u00dfe", "A part has bytes above 127 and its "
     "Content-Transfer-Encoding is not 8bit"),
    ({"Content_Transfer_Encoding": "8bit"}, "gr\u00fc\u00dfe",
     "A text has bytes above 127 and names no charset for them"),
    ({"Content_Transfer_Encoding": "base64"}, "YQ==YQ==",
     "A part is not valid base64"),
    ({}, "begin 644 a.exe\r\n#86)C\r\n`\r\nend",
     "A text has a uuencoded or yEnc file in it; attach it"),
    ({"Content_Type": "application/ms-tnef"}, "x",
     "TNEF (winmail.dat) is not accepted: it hides texts and files"),
], ids=["8-bit", "charset", "base64", "uuencode", "tnef"])
def test_two_readings(d, door, fields, text, why):
    refused_message(
        d, door, message(d.box, text, MIME_Version="1.0", **fields),
        "554 5.6.0 [message_malformed] %s. %s" % (why, MIME))


# -- no TLS ------------------------------------------------------------------

def test_no_tls_on_587(d):
    begin = "Begin TLS with STARTTLS first, or connect to the TLS port."
    r = rawsmtp.greeted(d)
    r.say("EHLO client.test")
    for line, numbers in (
            ("AUTH PLAIN " + plain(d.box.address, d.box.smtp_key),
             "538 5.7.11"),
            ("AUTH LOGIN", "538 5.7.11"),
            ("MAIL FROM:<bot@acme.example>", "530 5.7.0"),
            ("RCPT TO:<a@example.com>", "530 5.7.0"),
            ("DATA", "530 5.7.0")):
        reply = r.say(line)
        assert reply.startswith(numbers + " [tls_required] ")
        assert reply.endswith(" " + begin), reply


def test_no_tls_on_465(d):
    """Nothing that a client could take for SMTP comes back."""
    s = socket.create_connection(("127.0.0.1", d.smtps_port), 20)
    s.sendall(b"EHLO x\r\nAUTH PLAIN AGEAYg==\r\n")
    got = b""
    try:
        while True:
            data = s.recv(4096)
            if not data:
                break
            got += data
    except ConnectionResetError:
        pass
    assert got == b"" or got[0] == 0x15  # at most a TLS alert


# -- AUTH --------------------------------------------------------------------

def test_every_way_to_sign_in(d, door):
    """B17, B18: the prompts word for word, and initial responses."""
    name, key = b64(d.box.address), b64(d.box.smtp_key)
    both = plain(d.box.address, d.box.smtp_key)
    as_self = plain(d.box.address, d.box.smtp_key, d.box.address)
    user, password = "334 VXNlcm5hbWU6", "334 UGFzc3dvcmQ6"
    for steps in ((("AUTH PLAIN " + both, None),),
                  (("auth plain " + as_self, None),),
                  (("AUTH PLAIN", "334 "), (both, None)),
                  (("AUTH LOGIN", user), (name, password), (key, None)),
                  (("AUTH LOGIN " + name, password), (key, None)),
                  (("auth login " + name, password), (key, None))):
        r = secured(d, door)
        for line, want in steps:
            assert r.say(line) == (
                want or "235 2.7.0 Signed in as bot@acme.example")
        r.shut()


def test_cancel(d, door):
    cancelled = ("501 5.5.2 [syntax_error] You cancelled the sign-in. "
                 + SYNTAX)
    r = secured(d, door)
    for steps in (("AUTH PLAIN",), ("AUTH LOGIN",),
                  ("AUTH LOGIN", b64(d.box.address)),
                  ("AUTH LOGIN " + b64(d.box.address),)):
        for line in steps:
            assert r.say(line).startswith("334 ")
        assert r.say("*") == cancelled
    # no sign-in, no failure counted: the right key comes in at once
    assert r.say("MAIL FROM:<bot@acme.example>").startswith("530 5.7.0 ")
    assert r.say("AUTH PLAIN " + plain(d.box.address, d.box.smtp_key)) == \
        "235 2.7.0 Signed in as bot@acme.example"


BAD = "501 5.5.2 [syntax_error] %s. " + SYNTAX


@pytest.mark.parametrize("steps,what", [
    (("AUTH PLAIN !!!!",), "The answer is not base64"),
    (("AUTH PLAIN AGEAYg",), "The answer is not base64"),
    (("AUTH PLAIN AGEAYg==AGEAYg==",), "The answer is not base64"),
    (("AUTH PLAIN", "A"), "The answer is not base64"),
    (("AUTH PLAIN =",), "The answer is not authzid NUL name NUL key"),
    (("AUTH PLAIN YWJj",), "The answer is not authzid NUL name NUL key"),
    (("AUTH PLAIN AGEAYgBj",), "The answer is not authzid NUL name NUL key"),
    (("AUTH LOGIN !",),
     "The user name is not base64, empty or too long"),
    (("AUTH LOGIN", "YQ=", ),
     "The user name is not base64, empty or too long"),
    (("AUTH LOGIN YQBi",), "The user name has control characters"),
    (("AUTH LOGIN YQ==", "?"), "The password is not base64 or empty"),
    (("AUTH LOGIN", "YQ==", ""), "The password is not base64 or empty"),
], ids=lambda x: "+".join(x) if isinstance(x, tuple) else "")
def test_bad_answers(d, door, steps, what):
    r = secured(d, door)
    for line in steps[:-1]:
        assert r.say(line).startswith("334 ")
    assert r.say(steps[-1]) == BAD % what
    assert r.say("AUTH PLAIN " + plain(d.box.address, d.box.smtp_key)) == \
        "235 2.7.0 Signed in as bot@acme.example"


# -- what is not offered -----------------------------------------------------

@pytest.mark.parametrize("tail", [
    "5 LAST\r\nRSET\r\n", "99999999999999999999\r\nx\r\n", "-1\r\n",
    "0 LAST\r\n", "1\r\nBDAT 1\r\n"])
def test_bdat_in_a_transaction(d, door, tail):
    """B4, B6, B8: never a chunk, whatever its size says; what would be one
    is not read as commands."""
    before = d.count()
    r = signed_in(d, door)
    assert r.say("MAIL FROM:<bot@acme.example>").startswith("250 ")
    assert r.say("RCPT TO:<a@example.com>").startswith("250 ")
    r.send("BDAT " + tail + "QUIT\r\n")
    assert r.reply().startswith("502 5.5.1 [")
    try:
        assert r.closed()
    except ssl.SSLError:
        pass
    assert d.count() == before


def test_addresses_of_the_wild(d, door):
    """B9, B14, B38: a space, forwarders' local parts, long ones; what only
    SMTPUTF8 can carry is told so."""
    r = signed_in(d, door)
    assert r.say("MAIL FROM: <bot@acme.example>").startswith("250 2.1.0 ")
    for rcpt in (" <a@example.com>", "<u+caf_=a_b=c@gmail.com>",
                 "<%s@example.com>" % ("x" * 65),
                 "<a@xn--bcher-kva.example>"):
        assert r.say("RCPT TO:" + rcpt).startswith("250 2.1.5 "), rcpt
    for rcpt in ("<j\u00f6rg@example.com>", "<a@b\u00fccher.example>"):
        assert r.say("RCPT TO:" + rcpt).startswith(
            "550 5.6.7 [smtputf8_needed] "), rcpt
