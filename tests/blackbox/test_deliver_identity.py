# SPDX-License-Identifier: ISC
"""
Postern-Identity holds for what the approver saw, for posternctl and for a
verifier that is not ours: no field of it changes, goes or comes unseen, none
that a reader shows is added, and what hosts on the way do breaks nothing.
"""
import re

import pytest

from tests.blackbox.test_deliver_dkim import (
    BODIES, by_python, new_pair, spoiled, submit, verify)
from tests.blackbox.test_deliver_results import msg_id
from tests.fake.dns import FakeDns
from tests.lib import identity
from tests.lib.relaying import Relaying

BASE = "https://mail.acme.example"
ANN = "ann@dest.example"


@pytest.fixture(scope="module")
def r():
    with FakeDns() as dns, Relaying(
            resolver=["127.0.0.1:%d" % dns.port], identity=True,
            unsubscribe_url=BASE) as it:
        it.dns = dns
        it.records = {}
        it.mx.offers += ("SMTPUTF8",)
        new_pair(it, "first")
        it.start_worker()
        it.keys = it.rest(it.fresh_box(), "/.well-known/postern-identity.json")
        yield it


@pytest.fixture(autouse=True)
def mx(r):
    r.mx.reset()
    yield r.mx
    r.forget_queue()


def sent(r, raw, **more):
    r.mx.reset()
    r.wait_state(submit(r, raw, **more), "sent")
    (got,) = r.mx.messages
    return got["data"]


def judged(r, raw):
    """Both verifiers agree: None, or what is wrong."""
    found = identity.wrong(raw, r.keys, ANN)
    said = verify(r, spoiled(r, raw), "--recipient", ANN, ok=False)
    if found is None:
        assert "reviewed" in said, said
    elif found == "recipient":
        assert "not sent to this recipient" in said, said
    else:
        assert found in said and "reviewed" not in said, (found, said)
    return found


FIELDS = b"""\
From: <@BOX@>
To: <ann@dest.example>
Subject: Report
Date: Mon, 30 Nov 2026 12:00:00 +0000
Message-ID: <one@acme.example>
List-Unsubscribe: <https://good.example/u>
X-Amount: 100
X-Amount: 7
Importance: low
Comments: pay 1
Keywords: a
User-Agent: some

Hello, this is all.
""".replace(b"\n", b"\r\n")


@pytest.fixture(scope="module")
def mail(r):
    return sent(r, FIELDS)


def test_the_claims_are_exact(r, mx):
    box = r.fresh_box()
    mid = r.submit(box=box, raw=FIELDS.replace(b"<one@", b"<two@"))
    r.wait_state(mid, "sent")
    raw = mx.messages[0]["data"]
    claims = identity.claims_of(raw, r.keys)
    at = claims.pop("approved_at")
    fields, body = identity.taken_apart(raw)
    salt = claims.pop("salt")
    assert len(identity.decode(salt)) == 12
    assert r.sql("SELECT floor(extract(epoch FROM not_before))::bigint AS at "
                 "FROM d.release WHERE message_id = %s", mid) == [{"at": at}]
    assert claims == {
        "inbox": box.address, "reviewed": "policy",
        "approval": msg_id(mid) + ".1.1",
        "message_id": "<two@acme.example>", "ai_generated": True,
        "body_sha256": identity.encode(identity.body_hash(body)),
        "header_more": "x-amount:user-agent",
        "header_sha256": identity.encode(identity.header_hash(
            fields, "x-amount:user-agent")),
        "recipients": [identity.encode(identity.rcpt_hash(
            identity.decode(salt), ANN, fields))]}
    said = verify(r, spoiled(r, raw))
    assert re.search(r"(?m)^message_id +<two@acme\.example>$", said), said
    assert re.search(r"(?m)^covered +from, to, subject, date, message-id, "
                     r"list-unsubscribe, x-amount, importance, comments, "
                     r"keywords, user-agent$", said), said
    assert re.search(r"(?m)^not_covered +dkim-signature, postern-identity, "
                     r"received$", said), said


def test_a_message_id_of_ours_is_claimed_exactly(r, mx):
    raw = sent(r, BODIES["plain"])
    (mine,) = re.findall(rb"(?m)^Message-ID: (.*)\r\n", raw)
    assert identity.claims_of(raw)["message_id"] == mine.decode()


def test_no_approved_field_changes_unseen(r, mail):
    """Changed, gone, twice, or by another name: each field, but Received,
    which hosts own."""
    assert judged(r, mail) is None
    lines = re.findall(rb"(?m)^(?:[A-Z][A-Za-z-]+): .*\r\n", FIELDS)
    assert len(lines) == 12
    for line in lines:
        line = line.replace(b"@BOX@", re.search(
            rb"(?m)^From: <(.*)>", mail)[1])
        assert mail.count(line) == 1, line
        for bad in (b"", line + line, line[:-2] + b"0\r\n",
                    b"X" + line):
            assert judged(r, mail.replace(line, bad)) == "header", (line, bad)
    said = verify(r, spoiled(r, mail.replace(b"User-Agent: some\r\n", b"")),
                  ok=False)
    assert "user-agent is gone" in said
    for old, new in (
            (b"https://good.example", b"https://evil.example"),
            (b"X-Amount: 100", b"X-Amount: 900"),
            (b"X-Amount: 100\r\nX-Amount: 7", b"X-Amount: 7\r\nX-Amount: 100"),
            (b"Comments: pay 1", b"Comments: pay 9")):
        assert judged(r, mail.replace(old, new)) == "header", old


ADDED = [
    "Sender: <e@e.example>", "Reply-To: <e@e.example>", "Cc: <e@e.example>",
    "Bcc: <e@e.example>", "Subject : another", "from\t: <ceo@x.example>",
    "MIME-Version: 1.0", "Content-Type: text/html", "Content-ID: <a@b>",
    "Content-Transfer-Encoding: base64", "Content-Language: de",
    "Content-Disposition: attachment; filename=x.exe",
    "Content-Description: x", "Resent-From: <e@e.example>",
    "Resent-To: <e@e.example>", "List-Id: x", "List-Post: x",
    "List-Unsubscribe-Post: List-Unsubscribe=One-Click", "In-Reply-To: <a@b>",
    "References: <a@b>", "Auto-Submitted: no", "Importance: high",
    "Priority: urgent", "X-Priority: 1", "X-MSMail-Priority: High",
    "Disposition-Notification-To: <e@e.example>",
    "Return-Receipt-To: <e@e.example>", "Errors-To: <e@e.example>",
    "Mail-Reply-To: <e@e.example>", "Mail-Followup-To: <e@e.example>",
    "Comments: x", "Keywords: x", "Organization: Big Bank", "X-Amount: 1",
    "Autocrypt: addr=e@e.example", "BIMI-Selector: v=BIMI1; s=x"]


@pytest.mark.parametrize("field", ADDED)
def test_no_field_that_is_shown_is_added_unseen(r, mail, field):
    field = field.encode() + b"\r\n"
    head, body = mail.split(b"\r\n\r\n", 1)
    for bad in (field + mail, head + b"\r\n" + field + b"\r\n" + body):
        assert judged(r, bad) == "header"


def test_what_hosts_do_breaks_nothing(r, mail):
    head, body = mail.split(b"\r\n\r\n", 1)
    for field in ("Received: from x by y; z", "Return-Path: <a@b.example>",
                  "Delivered-To: ann@dest.example", "Received-SPF: pass",
                  "Authentication-Results: x; spf=pass", "ARC-Seal: i=1",
                  "DKIM-Signature: v=1; d=list.example", "X-Spam-Score: 3",
                  "X-Spam-Status: No,\r\n score=3", "X-Originating-IP: [::1]",
                  "X-MS-Exchange-Organization-SCL: 1", "IronPort-SDR: x",
                  "Envelope-To: ann@dest.example", "Content-Length: 21",
                  "X-Postern: no", "Thread-Index: AQ=="):
        field = field.encode() + b"\r\n"
        for good in (field + mail, head + b"\r\n" + field + b"\r\n" + body):
            assert judged(r, good) is None, field
    for old, new in ((b"\r\n", b"\n"), (b"X-Amount: 100", b"x-amount:  100\t"),
                     (b"Subject: ", b"SUBJECT : "), (
                         b"Comments: pay 1", b"Comments:\r\n pay\r\n\t1"),
                     (b"Received: by ", b"Received: from ")):
        assert old in mail
        assert judged(r, mail.replace(old, new)) is None, old
    assert judged(r, re.sub(rb"(?m)^(Received|DKIM-Signature): (.*\r\n[ \t])*"
                            rb".*\r\n", b"", mail)) is None


def test_the_link_to_unsubscribe_is_covered(r, mx):
    box = r.add_inbox("bulletin@acme.example")
    r.set_mode(box, 4)
    r.signed_in("inbox", "set", box.address, "--one-click", "yes")
    raw = sent(r, BODIES["plain"], box=box)
    assert judged(r, raw) is None
    assert b"\r\nList-Unsubscribe:\r\n <https://mail." in raw
    for old, new in ((b"<https://mail.", b"<https://evil."),
                     (b"List-Unsubscribe=One-Click", b"x"),
                     (b"List-Unsubscribe-Post: ", b"X-Post: ")):
        assert judged(r, raw.replace(old, new)) == "header", old


@pytest.mark.parametrize("names,more", [(100, None), (400, "*")])
def test_many_fields_of_their_own(r, mx, names, more):
    """Names are claimed up to a size; beyond it all of them are covered, so
    that one nobody knew before shows too."""
    fields = b"".join(b"X-Field-%d: %d\r\n" % (i, i) for i in range(names))
    raw = sent(r, BODIES["plain"].replace(b"\r\n\r\n", b"\r\n" + fields
                                          + b"\r\n", 1))
    claimed = identity.claims_of(raw)["header_more"]
    assert claimed == (more or ":".join(
        "x-field-%d" % i for i in range(names)))
    # what stands before the frozen bytes stays a header that hosts accept
    front = raw[:raw.index(b"Received: by ")]
    assert max(len(x) for x in front.split(b"\r\n")) <= 998
    assert len(front) < 8192
    assert judged(r, raw) is None
    assert judged(r, raw.replace(b"X-Field-7: 7", b"X-Field-7: 8")) == "header"
    assert judged(r, b"X-New: 1\r\n" + raw) == ("header" if more else None)
    assert judged(r, b"Received: x\r\nX-Spam-Score: 1\r\n" + raw) is None


def test_awkward_messages(r, mx):
    for name, raw in BODIES.items():
        assert judged(r, sent(r, raw)) is None, name


# -- the signatures around it ---------------------------------------------------

@pytest.mark.parametrize("field", [
    "Auto-Submitted: no", "Content-ID: <a@b.example>",
    "Content-Description: x", "Content-Disposition: attachment"])
def test_dkim_knows_a_field_too_many(r, mx, field):
    """What a reader acts on, no list adds and no host needs."""
    raw = sent(r, BODIES["plain"])
    assert all(by_python(r, raw).values())
    assert not any(by_python(r, field.encode() + b"\r\n" + raw).values())
