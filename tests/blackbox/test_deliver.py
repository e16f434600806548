# SPDX-License-Identifier: ISC
"""
The worker against a smarthost that behaves, and one that does not: what
leaves is what was frozen, each recipient gets its own result, and nothing
that only may have arrived is sent twice.
"""
import socket

import pytest

from tests.fake.mx import CLOSE, FakeMx
from tests.lib import postern
from tests.lib.relaying import PASSWORD, USER, Relaying


@pytest.fixture(scope="module")
def r():
    with Relaying() as it:
        it.start_worker()
        yield it


@pytest.fixture
def mx(r):
    r.mx.reset()
    # Some tests' 5.1.1 would suppress the recipient of all.
    r.sql("UPDATE d.list_entry SET ended_at = now() WHERE ended_at IS NULL")
    yield r.mx
    r.forget_queue()
    r.mx.script.clear()
    r.mx.rcpt_replies.clear()


def retry_now(r, mid):
    r.sql("UPDATE d.send_q SET due_at = clock_timestamp() "
          "WHERE message_id = %s AND lease IS NULL", mid)


# -- what leaves --------------------------------------------------------------

def test_relays_the_frozen_bytes(r, mx):
    mid = r.submit(body="one\r\n.\r\n..two\r\n.three\r\nend\r\n")
    r.wait_state(mid, "sent")
    (got,) = mx.messages
    assert got["mail_from"] == r.box.address
    assert got["rcpts"] == ["ann@dest.example"]
    assert got["tls"] in ("TLSv1.2", "TLSv1.3")
    assert got["login"] == (USER, PASSWORD)
    size = r.sql("SELECT size FROM d.message WHERE message_id = %s", mid)
    assert len(got["data"]) == size[0]["size"]
    assert got["data"].endswith(b"\r\n\r\none\r\n.\r\n..two\r\n.three\r\n"
                                b"end\r\n")
    assert got["data"].startswith(b"Received: by ")
    (row,) = r.deliveries(mid)
    assert (row["status"], row["reply_code"]) == (3, 250)
    assert "AUTH" in mx.verbs and mx.verbs.index("AUTH") > \
        mx.verbs.index("STARTTLS")


def test_every_byte_of_a_large_message(r, mx):
    body = "".join("%07d %s\r\n" % (i, "x" * (i % 70))
                   for i in range(60000))
    mid = r.submit(body=body)
    r.wait_state(mid, "sent")
    (got,) = mx.messages
    assert got["data"].endswith(body.encode())
    assert "SIZE=%d" % len(got["data"]) in got["params"]


def test_announces_eight_bits(r, mx):
    mid = r.submit(raw=(
        "From: <@BOX@>\r\nTo: <ann@dest.example>\r\n"
        "Subject: x\r\nMIME-Version: 1.0\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        "Content-Transfer-Encoding: 8bit\r\n\r\nGr\u00fc\u00dfe\r\n").encode())
    r.wait_state(mid, "sent")
    assert "BODY=8BITMIME" in mx.messages[0]["params"]


def test_bcc_is_in_the_envelope_only(r, mx):
    mid = r.submit(rcpts=["ann@dest.example", "secret@dest.example"], raw=(
        b"From: <@BOX@>\r\nTo: <ann@dest.example>\r\n"
        b"Bcc: <secret@dest.example>\r\nSubject: x\r\n\r\nhi\r\n"))
    r.wait_state(mid, "sent")
    assert sorted(mx.messages[0]["rcpts"]) == [
        "ann@dest.example", "secret@dest.example"]
    assert b"secret@" not in mx.messages[0]["data"]


def test_held_mail_is_not_looked_at(r, mx):
    box = r.add_inbox("held@acme.example")
    mid = r.submit(box=box)
    other = r.submit()
    r.wait_state(other, "sent")
    assert r.state(mid) == "held"
    assert len(mx.messages) == 1
    assert not r.sql("SELECT 1 FROM d.send_q WHERE message_id = %s", mid)


# -- results ------------------------------------------------------------------

def test_each_recipient_has_its_own_result(r, mx):
    mx.rcpt_replies.update({"later@dest.example": "450 4.2.1 come back",
                            "never@dest.example": "550 5.1.1 who?"})
    mid = r.submit(rcpts=["ann@dest.example", "later@dest.example",
                          "never@dest.example"])
    r.wait_state(mid, "deferred")
    by = {d["canon"]: d for d in r.deliveries(mid)}
    assert by["ann@dest.example"]["status"] == 3
    assert by["later@dest.example"]["status"] == 4
    assert by["never@dest.example"]["status"] == 5
    assert by["never@dest.example"]["reply_code"] == 550
    assert by["never@dest.example"]["enhanced"] == "5.1.1"
    assert mx.messages[0]["rcpts"] == ["ann@dest.example"]
    mx.rcpt_replies.clear()
    retry_now(r, mid)
    r.wait_state(mid, "bounced")
    assert mx.messages[1]["rcpts"] == ["later@dest.example"]
    assert len(mx.messages) == 2


def test_refused_recipients_end_without_data(r, mx):
    mx.script["RCPT"] = "550 5.7.1 no"
    mid = r.submit()
    r.wait_state(mid, "bounced")
    assert not mx.messages and not any(mx.cut)


# -- groups of commands (RFC 2920), and what a host takes at once (RFC 9422) --

def whole_group(session, line):
    """What came with MAIL, without waiting for any more."""
    session.mx.group = [line] + session.file.peek().decode().splitlines()
    return None


def test_all_up_to_data_in_one_go(r, mx):
    mx.script["MAIL"] = whole_group
    rcpts = ["p%d@dest.example" % i for i in range(20)]
    r.wait_state(r.submit(rcpts=rcpts), "sent")
    assert [x.split(":")[0] for x in mx.group] == ["MAIL FROM"] + [
        "RCPT TO"] * 20 + ["DATA"]
    assert sorted(mx.messages[0]["rcpts"]) == sorted(rcpts)


def test_not_where_it_is_not_offered(r, mx):
    mx.offers = tuple(o for o in mx.offers if o != "PIPELINING")
    mx.script["RCPT"] = "550 5.7.1 no"
    try:
        r.wait_state(r.submit(), "bounced")
    finally:
        mx.offers = mx.OFFERS
    assert "DATA" not in mx.verbs


def test_each_reply_of_a_group_is_its_commands(r, mx):
    """Octet by octet, and each verdict to the right recipient."""
    rcpts = ["r%d@dest.example" % i for i in range(9)]
    for i, rcpt in enumerate(rcpts):
        mx.rcpt_replies[rcpt] = ["250 2.1.5 ok", "450 4.2.%d later" % i,
                                 "550-5.7.%d no\n550 5.7.%d never" % (i, i)
                                 ][i % 3]
    mid = r.submit(rcpts=rcpts)
    r.wait_state(mid, "deferred")
    for i, row in enumerate(r.deliveries(mid)):
        assert row["status"] == (3, 4, 5)[i % 3]
        if i % 3:
            assert row["enhanced"] == ("4.2.%d", "5.7.%d")[i % 3 - 1] % i


def test_no_dot_though_it_takes_a_message_for_nobody(r, mx):
    """354 without a recipient: not even an empty message is ended."""
    mx.script["RCPT"] = "550 5.7.1 no"
    mx.script["DATA"] = lambda s, line: s.do_data(line)
    mid = r.submit()
    r.wait_state(mid, "bounced")
    assert not mx.messages and mx.cut == [b""]


@pytest.mark.parametrize("moment,extra", [
    ("MAIL", "250 2.1.0 ok\n250 2.1.0 ok"), ("MAIL", "250 2.1.0 ok\n550 no"),
    ("RCPT", "250 2.1.5 ok\n550 5.0.0 no")])
def test_a_reply_too_many_fails_nobody(r, mx, moment, extra):
    seen = []

    def say(session, line):
        seen.append(line)
        if len(seen) > 1:
            return None
        getattr(session, "do_" + moment.lower())(line)
        session.send(extra)
        return ""
    mx.script[moment] = say
    mid = r.submit()
    r.wait_state(mid, "sent", "deferred")
    if r.state(mid) == "deferred":
        retry_now(r, mid)
        r.wait_state(mid, "sent")
    assert len(mx.messages) == 1


def heard(session):
    """The other side has read all that was said so far."""
    ours, its = ("%s:%04X" % (bytes(map(int, a.split(".")))[::-1].hex().upper(),
                              port) for a, port in (
        session.sock.getsockname(), session.sock.getpeername()))

    def queue():
        with open("/proc/net/tcp") as f:
            return next(x[4] for x in map(str.split, f) if x[1:3] == [its, ours])
    postern.wait_until("all is read", lambda: queue().endswith(":00000000"))


def test_a_reply_too_many_shifts_no_verdict(r, mx):
    """The refusal of one is not taken for another's, though DATA seems to be
    put off as it may be: RSET shows that a reply is left over."""
    seen = []

    def mail(session, line):
        seen.append(line)
        session.do_mail(line)
        session.send("250 2.1.0 ok" + "\n250 2.1.0 ok" * (len(seen) == 1))
        return ""

    def data(session, line):
        heard(session)  # it is not read with those before
        return "554 5.5.1 no valid recipients"
    mx.script.update({"MAIL": mail, "DATA": data})
    first, second = "a@dest.example", "b@dest.example"
    mx.rcpt_replies.update({first: "550 5.1.1 who", second: "450 4.2.1 wait"})
    mid = r.submit(rcpts=[first, second])
    r.wait_state(mid, "deferred")
    assert {d["canon"]: d["status"] for d in r.deliveries(mid)} == {
        first: 5, second: 4}
    assert mx.verbs.count("RSET") == 1 and len(seen) == 2


def test_as_many_recipients_as_it_says(r, mx):
    mx.offers = mx.OFFERS + ("LIMITS MAILMAX=2 RCPTMAX=4 X=1",)
    try:
        mid = r.submit(rcpts=["l%d@dest.example" % i for i in range(10)])
        r.wait_state(mid, "sent")
    finally:
        mx.offers = mx.OFFERS
    assert [len(m["rcpts"]) for m in mx.messages] == [4, 4, 2]
    # No more than two messages in a session.
    assert mx.verbs.count("AUTH") >= 2


@pytest.mark.parametrize("moment", ["MAIL", "RCPT", "DATA", "dot"])
@pytest.mark.parametrize("reply,state", [
    ("451 4.3.0 busy", "deferred"), ("554 5.6.0 no", "bounced")])
def test_refusals(r, mx, moment, reply, state):
    mx.script[moment] = reply
    mid = r.submit()
    r.wait_state(mid, state)
    (row,) = r.deliveries(mid)
    assert row["reply_code"] == int(reply[:3])


@pytest.mark.parametrize("moment", ["banner", "EHLO", "STARTTLS", "AUTH",
                                    "MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize("step", [CLOSE, "421 4.3.2 going down",
                                  "what is this"])
def test_trouble_before_the_dot_is_tried_again(r, mx, moment, step):
    mx.script[moment] = step
    mid = r.submit()
    r.wait_state(mid, "deferred")
    mx.script.clear()
    retry_now(r, mid)
    r.wait_state(mid, "sent")
    assert len(mx.messages) == 1


def test_retry_is_in_a_minute(r, mx):
    mx.script["MAIL"] = "451 4.7.1 greylisted"
    mid = r.submit()
    r.wait_state(mid, "deferred")
    row = r.sql("SELECT extract(epoch FROM due_at - clock_timestamp()) AS s, "
                "attempts FROM d.send_q WHERE message_id = %s", mid)[0]
    assert 45 < row["s"] < 70 and row["attempts"] == 1


# -- what a next hop cannot take, and how it talks --------------------------------

EIGHT = (b"From: <@BOX@>\r\nTo: <ann@dest.example>\r\nSubject: x\r\n"
         b"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
         b"Content-Transfer-Encoding: 8bit\r\n\r\nGr\xc3\xbc\xc3\x9fe\r\n")


@pytest.mark.parametrize("lacks,raw,enhanced", [
    ("8BITMIME", EIGHT, "5.6.3"), ("SIZE", None, "5.3.4")])
def test_what_it_cannot_take_is_not_converted(r, mx, lacks, raw, enhanced):
    """Nothing is converted after the approval: that is final, before MAIL."""
    mx.offers = tuple(w for w in FakeMx.OFFERS if not w.startswith(lacks))
    if lacks == "SIZE":
        mx.offers += ("SIZE 100",)
    try:
        mid = r.submit(raw=raw)
        r.wait_state(mid, "bounced")
        (row,) = r.deliveries(mid)
        assert (row["status"], row["enhanced"]) == (5, enhanced)
        assert "MAIL" not in mx.verbs and not mx.messages
    finally:
        mx.offers = FakeMx.OFFERS


def test_seven_bits_need_no_8bitmime(r, mx):
    mx.offers = tuple(w for w in FakeMx.OFFERS if w != "8BITMIME")
    try:
        mid = r.submit()
        r.wait_state(mid, "sent")
        assert "BODY" not in mx.messages[0]["params"]
    finally:
        mx.offers = FakeMx.OFFERS


def one_by_one(session, line):
    """A reply of several lines, each octet in a segment of its own."""
    session.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for c in b"250-2.1.0 first\r\n250-2.1.0 second\r\n250 2.1.0 third\r\n":
        session.sock.sendall(bytes([c]))
    session.do_mail(line)
    return ""


def test_a_reply_octet_by_octet(r, mx):
    mx.script["MAIL"] = one_by_one
    mid = r.submit()
    r.wait_state(mid, "sent")
    assert len(mx.messages) == 1


@pytest.mark.parametrize("babble", [
    b"250-" + b"x" * 1048576, b"250-more\r\n" * 5000,
    b"250 ok\r\n550 5.0.0 and another\r\n", b"250-a\r\n550 b\r\n",
    b"\x00\xff\xfe\r\n", b"+OK\r\n", b"25\r\n", b"250\tok\r\n"],
    ids=["line", "lines", "two", "codes", "bytes", "pop", "short", "tab"])
def test_babble_before_the_dot_is_tried_again(r, mx, babble):
    def say(session, line):
        session.sock.sendall(babble)
        return CLOSE
    mx.script["RCPT"] = say
    mid = r.submit()
    r.wait_state(mid, "deferred")
    assert not mx.messages
    (row,) = r.deliveries(mid)
    assert row["status"] == 4 and len(row["reply"]) < 256
    mx.script.clear()
    retry_now(r, mid)
    r.wait_state(mid, "sent")
    assert len(mx.messages) == 1


def test_what_it_says_is_cleaned_and_cut(r, mx):
    mx.script["RCPT"] = lambda s, line: s.send(
        "550-5.1.1 \x1b[31mred\x07\t\u202e<b>\n550 5.1.1 " + "y" * 900) or ""
    mid = r.submit()
    r.wait_state(mid, "bounced")
    (row,) = r.deliveries(mid)
    assert (row["reply_code"], row["enhanced"]) == (550, "5.1.1")
    assert row["reply"].startswith("?[31mred??")
    assert row["reply"].isascii() and row["reply"].isprintable()
    assert len(row["reply"]) == 255


def test_552_of_a_full_mailbox_is_final(r, mx):
    """Alone in its turn too, when it says no more than 552."""
    for reply in ("552 5.2.2 full", "552 full"):
        mx.rcpt_replies["full@dest.example"] = reply
        mid = r.submit(rcpts=["ann@dest.example", "full@dest.example"])
        r.wait_state(mid, "bounced")
        assert {d["canon"]: d["status"] for d in r.deliveries(mid)} == {
            "ann@dest.example": 3, "full@dest.example": 5}


def test_421_says_why(r, mx):
    mx.rcpt_replies["ann@dest.example"] = "421 4.7.0 too many connections"
    mid = r.submit()
    r.wait_state(mid, "deferred")
    (row,) = r.deliveries(mid)
    assert (row["reply_code"], row["reply"]) == (421, "too many connections")


@pytest.mark.parametrize("reply", [
    "452 4.5.3 too many recipients", "552 too many recipients",
    "552 5.5.3 too many recipients"])
def test_too_many_recipients_at_once(r, mx, reply):
    """452 after some: they get it now, the rest right behind, no failure.
    552 is an old name of it."""
    def two(session, line):
        return reply if len(session.rcpts) >= 2 else None
    mx.script["RCPT"] = two
    rcpts = ["r%d@dest.example" % i for i in range(5)]
    mid = r.submit(rcpts=rcpts)
    r.wait_state(mid, "sent")
    assert [len(m["rcpts"]) for m in mx.messages] == [2, 2, 1]
    assert sorted(sum((m["rcpts"] for m in mx.messages), [])) == rcpts


def test_it_is_given_up(r, mx):
    """The next try would come after give_up_at, 72 h after the release."""
    def busy(session, line):
        r.sql("UPDATE d.send_q SET give_up_at = clock_timestamp() + "
              "interval '30 seconds'")
        return "451 4.3.0 busy"
    mx.script["MAIL"] = busy
    mid = r.submit()
    r.wait_state(mid, "bounced")
    (row,) = r.deliveries(mid)
    assert (row["status"], row["reply_code"]) == (5, 451)
    assert not r.sql("SELECT 1 FROM d.send_q WHERE message_id = %s", mid)


# -- the dot --------------------------------------------------------------------

def test_no_reply_to_the_dot_is_uncertain(r, mx):
    mx.script["dot"] = CLOSE
    mid = r.submit()
    r.wait_state(mid, "uncertain")
    (row,) = r.deliveries(mid)
    assert row["status"] == 6
    assert not r.sql("SELECT 1 FROM d.send_q WHERE message_id = %s", mid)
    assert len(mx.messages) == 1


def test_the_dot_is_committed_before_it_leaves(r, mx):
    gate = mx.hold("dot")
    mid = r.submit()
    gate.reached()
    (row,) = r.deliveries(mid)
    assert row["status"] == 2
    gate.open()
    r.wait_state(mid, "sent")


@pytest.mark.parametrize("what,state", [
    ("pause", "deferred"), ("tighten", "held"), ("suppress", "bounced")])
def test_the_last_gate(r, mx, what, state):
    box = r.add_inbox("gate-%s@acme.example" % what)
    r.set_mode(box, 4)
    gate = mx.hold("DATA")
    mid = r.submit(box=box, rcpts=["g@dest.example"])
    gate.reached()
    if what == "pause":
        r.sql("UPDATE d.inbox SET paused_at = now() WHERE inbox_id = %s",
              box.inbox_id)
    elif what == "tighten":
        r.set_mode(box, 2)
    else:
        r.sql("INSERT INTO d.list_entry (tenant_id, inbox_id, entry, verdict, "
              "reason, created_by) VALUES (%s, %s, %s, 's', 'test', 'op:1')", box.tenant_id,
              box.inbox_id, "g@dest.example")
    gate.open()
    r.wait_state(mid, state)
    assert not mx.messages
    assert "QUIT" not in mx.verbs or "RSET" in mx.verbs or mx.cut


# -- TLS ------------------------------------------------------------------------

def test_bytes_behind_starttls_are_dropped(r, mx):
    """Said in clear, in one segment with the 220: as if never said."""
    mx.script["injected"] = (b"250-evil.example\r\n250 AUTH LOGIN\r\n"
                             b"554 5.0.0 no\r\n")
    mid = r.submit()
    r.wait_state(mid, "sent")
    (got,) = mx.messages
    assert got["tls"] and got["login"] == (USER, PASSWORD)
    # EHLO was asked again under TLS, and answered there.
    assert mx.verbs.count("EHLO") == 2


def test_bytes_in_place_of_the_handshake(r, mx):
    """Clear text where TLS should begin ends the session."""
    def answer(session, line):
        assert session.sock.recv(1)  # ClientHello is on its way
        session.sock.sendall(b"250-evil.example\r\n250 AUTH PLAIN\r\n")
        return CLOSE
    mx.script["tls"] = answer
    mid = r.submit()
    r.wait_state(mid, "deferred")
    assert mx.verbs == ["banner", "EHLO", "STARTTLS", "tls"]
    assert not mx.messages and r.deliveries(mid)[0]["status"] == 4


def test_never_without_tls_at_a_smarthost(r, mx):
    mx.script["EHLO"] = "250-fake.example\n250 AUTH PLAIN LOGIN"
    mx.script["STARTTLS"] = "502 5.5.1 not here"
    mid = r.submit()
    r.wait_state(mid, "deferred")
    assert "AUTH" not in mx.verbs and "MAIL" not in mx.verbs


def test_worker_stops_gracefully(r, mx):
    gate = mx.hold("DATA")
    mid = r.submit()
    gate.reached()
    r.worker.send(15)
    r.worker.wait("daemon.stop")
    gate.open()
    assert r.worker.stop() == 0
    assert r.state(mid) == "sent"
    assert len(mx.messages) == 1
    r.start_worker()


def test_wrong_certificate(mx, r):
    r._run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:P-256", "-nodes", "-keyout", "bad.key",
            "-out", "bad.pem", "-days", "2", "-subj", "/CN=localhost"],
           cwd=r.path("tls"))
    good = mx.context
    import ssl
    mx.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    mx.context.load_cert_chain(r.path("tls", "bad.pem"),
                               r.path("tls", "bad.key"))
    try:
        mid = r.submit()
        r.wait_state(mid, "deferred")
        assert "AUTH" not in mx.verbs and "MAIL" not in mx.verbs
    finally:
        mx.context = good
    retry_now(r, mid)
    r.wait_state(mid, "sent")


# -- integrity ------------------------------------------------------------------

@pytest.mark.parametrize("n,change", enumerate([
    "UPDATE d.message SET rcpt = ARRAY['eve@dest.example'] WHERE "
    "message_id = %s",
    "UPDATE d.body SET data = set_byte(data, 40, get_byte(data, 40) # 1) "
    "WHERE message_id = %s",
    "UPDATE d.release SET tag = set_byte(tag, 0, get_byte(tag, 0) # 1) "
    "WHERE message_id = %s",
    "UPDATE d.release SET expiry = expiry + 1 WHERE message_id = %s",
]))
def test_what_was_changed_after_release_stays(r, mx, n, change):
    r.sql("UPDATE d.global_pause SET paused_at = now()")
    try:
        box = r.add_inbox("i%d@acme.example" % n)
        r.set_mode(box, 4)
        # Paused, new mail is held: release first, then pause.
        r.sql("UPDATE d.global_pause SET paused_at = NULL")
        gate = mx.hold("banner")
        mid = r.submit(box=box, rcpts=["i@dest.example"])
        gate.reached()
        r.worker.kill()
        r.sql("SET session_replication_role = replica; "
              "ALTER TABLE d.message DROP CONSTRAINT IF EXISTS "
              "message_digest; " + change, mid)
        mx.reset()
        gate.open()
        r.sql("UPDATE d.send_q SET lease = NULL, lease_until = NULL, worker "
              "= NULL, due_at = now() WHERE message_id = %s", mid)
        w = r.start_worker()
        w.wait("deliver.integrity")
        r.wait_state(mid, "held")
        assert not mx.messages
        assert r.sql("SELECT alarm FROM d.inbox WHERE inbox_id = %s",
                     box.inbox_id)[0]["alarm"]
    finally:
        r.sql("UPDATE d.global_pause SET paused_at = NULL")
        if not r.worker.alive():
            r.start_worker()
