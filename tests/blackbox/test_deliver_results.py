# SPDX-License-Identifier: ISC
"""
What follows from a result: an address that does not exist is not written to
again, from submission to the last gate, until a person says otherwise; and a
person settles what only may have been sent. The sender's inbox is told, and
nobody else can read what it is told.
"""
import email
import email.policy
import os
import re
import smtplib

import pytest

from tests.fake.mx import CLOSE
from tests.lib import postern, seals
from tests.lib.pages import Pages, public_id
from tests.lib.relaying import Relaying

KEY = os.urandom(32)


@pytest.fixture(scope="module")
def r():
    with Relaying() as it:
        path = it.path("keys", "bounce.key")
        seals.key_file(path, "bounce-key", KEY)
        it._own(path)
        it.set_conf("keys", bounce_key_file=path)
        it.start_worker()
        yield it


@pytest.fixture(autouse=True)
def mx(r):
    r.mx.reset()
    yield r.mx
    r.forget_queue()
    r.mx.script.clear()
    r.mx.rcpt_replies.clear()


@pytest.fixture(scope="module")
def operator(r):
    r.start("postern-admin")
    return Pages(r)


def password(r):
    path = r.path("password")
    with open(path, "w") as f:
        f.write(r.operator_password + "\n")
    return path


def entries(r, text):
    return [line for line in r.signed_in("suppression", "list").splitlines()
            if text in line]


def msg_id(mid):
    return "msg_" + seals.base32(bytes.fromhex(mid.replace("-", "")))


# -- whom not to write to -----------------------------------------------------

@pytest.mark.parametrize("reply,listed", [
    ("550 5.1.1 no such user", True), ("550 5.2.1 disabled", True),
    ("553 5.1.3 bad address", True), ("551 5.1.6 moved", True),
    ("550 5.7.1 we do not like you", False), ("552 5.2.2 full", False),
    ("554 5.6.0 what a body", False), ("550 no code at all", False),
    ("450 4.1.1 come again", False)])
def test_which_results_suppress(r, mx, reply, listed):
    local = "".join(c for c in reply if c.isalnum())
    name = "u%s@dest.example" % local
    mx.rcpt_replies[name] = reply
    mid = r.submit(rcpts=[name])
    r.wait_state(mid, "deferred" if reply[0] == "4" else "bounced")
    assert bool(entries(r, name)) == listed
    if not listed:
        return
    # At the door now, by the same tenant's other inbox too.
    mx.rcpt_replies.clear()
    with pytest.raises(smtplib.SMTPException) as e:
        r.submit(rcpts=[name.upper()], box=r.add_inbox(
            "n%s@acme.example" % local))
    assert "message_rejected" in str(e.value)
    assert len(mx.messages) == 0


@pytest.mark.parametrize("groups", [True, False])
@pytest.mark.parametrize("verb,rcpts,refused,listed", [
    ("MAIL", "a", "", ""), ("MAIL", "ab", "", ""),
    ("DATA", "a", "", ""), ("DATA", "ab", "", ""),
    ("dot", "ab", "", ""), ("dot", "abc", "a", "a"),
    # What the dot answers is about the only one that was to get it.
    ("dot", "a", "", "a"), ("dot", "ab", "b", "ab")])
def test_only_a_reply_to_one_suppresses(r, mx, monkeypatch, verb, rcpts,
                                        refused, listed, groups):
    """One address that is gone says nothing of the others, and a reply to
    MAIL speaks of the sender (decision 0135)."""
    if not groups:
        monkeypatch.setattr(mx, "offers", tuple(
            x for x in mx.offers if x != "PIPELINING"))
    where = "@%s%s%s%d.example" % (verb.lower(), rcpts, refused, groups)
    for x in refused:
        mx.rcpt_replies[x + where] = "550 5.1.1 no such user"
    mx.script[verb] = "550 5.2.1 not here"
    mid = r.submit(rcpts=[x + where for x in rcpts])
    r.wait_state(mid, "bounced")
    assert [x["reply_code"] for x in r.deliveries(mid)] == [550] * len(rcpts)
    assert sorted(line.split(where)[0][-1] for line in entries(r, where)) \
        == sorted(listed)


def test_another_tenant_may_write(r, mx):
    mx.rcpt_replies["gone@dest.example"] = "550 5.1.1 who"
    r.wait_state(r.submit(rcpts=["gone@dest.example"]), "bounced")
    mx.rcpt_replies.clear()
    if "other" not in r.tenants:
        r.add_tenant("other", "other.example")
    box = r.add_inbox("bot@other.example", "other")
    r.set_mode(box, 4)
    r.wait_state(r.submit(rcpts=["gone@dest.example"], box=box), "sent")


def test_a_person_lifts_it(r, mx):
    mx.rcpt_replies["back@dest.example"] = "550 5.1.1 who"
    r.wait_state(r.submit(rcpts=["back@dest.example"]), "bounced")
    mx.rcpt_replies.clear()
    (line,) = entries(r, "back@dest.example")
    assert "worker" in line and "bounced: 550 5.1.1 who" in line
    r.sql("UPDATE d.operator_session SET step_up_until = NULL")
    refused = r.signed_in("suppression", "remove", line.split()[0],
                          "--reason", "it exists", ok=False)
    assert "step_up_required" in refused
    r.signed_in("suppression", "remove", line.split()[0], "--reason",
                "it exists", "--password-file", password(r))
    r.wait_state(r.submit(rcpts=["back@dest.example"]), "sent")


def test_for_everybody_and_a_domain(r, mx):
    r.signed_in("suppression", "add", "@never.example", "--reason", "asked")
    with pytest.raises(smtplib.SMTPException):
        r.submit(rcpts=["any@never.example"])
    (line,) = entries(r, "@never.example")
    assert "op:" in line


def test_held_mail_is_looked_at_when_it_is_approved(r, mx):
    """Listed after it was submitted: approving all of nothing is refused."""
    box = r.add_inbox("held@acme.example")
    mid = r.submit(rcpts=["late@dest.example"], box=box)
    r.signed_in("suppression", "add", "late@dest.example", "--tenant", "acme",
                "--reason", "asked")
    row = r.sql("SELECT version, round, digest FROM d.state JOIN d.message "
                "USING (message_id, tenant_id, version) WHERE message_id = %s",
                mid)[0]
    got = r.sql("SELECT * FROM api.decide_1(%s, %s, %s, %s, %s, 'a', %s, NULL,"
                " NULL, NULL, 1, 'page', %s, %s, (extract(epoch FROM now()) * "
                "1e6 + 3.6e9)::bigint, 0, NULL)", r.session, mid,
                r.small(row["version"]), r.small(row["round"]), row["digest"],
                b"i" * 16, b"b" * 200, b"t" * 32, user="l_review")[0]
    assert (got["status"], got["code"]) == (403, "message_rejected")
    assert r.state(mid) == "held"


def words_of(page, tag, ident):
    """What a reader sees of that element of a page."""
    m = re.search(r'<%s\b[^>]*\bid="%s".*?</%s>' % (tag, ident, tag), page,
                  re.S)
    return m and " ".join(re.sub(r"<[^>]*>", " ", m[0]).split())


def test_who_approves_sees_who_is_listed(r, mx, operator):
    """Listed after it was submitted: the page says to whom nothing goes and
    to how many it does, and so it is."""
    box = r.add_inbox("seen@acme.example")
    who = ["%s@seen.example" % x for x in ("ann", "bob", "eve")]
    mid = r.submit(rcpts=who, box=box)

    def page(mid):
        return operator.call("GET", "/m/" + public_id(mid))[2]
    assert "gets nothing" not in page(mid)
    assert words_of(page(mid), "button", "approve-button").startswith(
        "Send to 3 recipients")
    r.signed_in("suppression", "add", who[1], "--tenant", "acme", "--reason",
                "asked")
    text = page(mid)
    assert words_of(text, "button", "approve-button").startswith(
        "Send to 2 of 3 recipients")
    assert "1 recipient is suppressed" in words_of(text, "p", "listed")
    said = words_of(text, "section", "who")
    assert said.count("suppressed: gets nothing") == 1
    assert said.index("bob") < said.index("suppressed") < said.index("eve")
    # Another tenant's word is none here, nor that of another inbox.
    if "other" not in r.tenants:
        r.add_tenant("other", "other.example")
    r.signed_in("suppression", "add", who[2], "--tenant", "other", "--reason",
                "asked")
    r.sql("INSERT INTO d.list_entry (tenant_id, inbox_id, entry, verdict, "
          "reason, created_by) VALUES (%s, %s, %s, 's', 'test', 'op:1')",
          r.box.tenant_id, r.box.inbox_id, who[2])
    assert page(mid).count("gets nothing") == text.count("gets nothing")
    assert operator.approve(mid) == 303
    r.wait_state(mid, "bounced")
    assert [x["status"] for x in r.deliveries(mid)] == [3, 7, 3]
    assert [m["rcpts"] for m in mx.messages] == [[who[0], who[2]]]
    assert "gets nothing" not in page(mid)  # it has a state of its own


def test_nobody_left_to_approve_for(r, mx, operator):
    mid = r.submit(rcpts=["only@seen.example"],
                   box=r.add_inbox("nobody@acme.example"))
    form = operator.form(mid, "decide")
    r.signed_in("suppression", "add", "@seen.example", "--reason", "asked")
    try:
        page = operator.call("GET", "/m/" + public_id(mid))[2]
        assert 'id="approve-button"' not in page
        assert "nothing of it would leave" in page
        assert 'id="reject-button"' in page
        # A page from before that is told why, and not of a role.
        status, _, text = operator.call(
            "POST", "/m/%s/decide" % public_id(mid), {**form, "verdict": "a"})
        assert status == 403 and "nothing of it would leave" in text
        assert "Your role" not in text
    finally:
        r.sql("UPDATE d.list_entry SET ended_at = now() WHERE entry = "
              "'@seen.example'")
    assert r.state(mid) == "held"


def test_just_before_mail_from(r, mx):
    """Listed while it waits for its next try: it is not tried."""
    mx.rcpt_replies["wait@dest.example"] = "450 4.2.1 later"
    mid = r.submit(rcpts=["wait@dest.example", "ann@dest.example"])
    r.wait_state(mid, "deferred")
    mx.rcpt_replies.clear()
    r.signed_in("suppression", "add", "wait@dest.example", "--reason", "x")
    r.due(mid)
    r.wait_state(mid, "bounced")
    by = {d["canon"]: d["status"] for d in r.deliveries(mid)}
    assert by == {"wait@dest.example": 7, "ann@dest.example": 3}
    assert len(mx.messages) == 1


# -- what may have been sent --------------------------------------------------

def uncertain(r, mx, *rcpts):
    mx.script["dot"] = CLOSE
    mid = r.submit(rcpts=rcpts)
    r.wait_state(mid, "uncertain")
    mx.script.clear()
    assert msg_id(mid) in r.signed_in("uncertain", "list")
    return mid


@pytest.mark.parametrize("outcome,state,times", [
    ("sent", "sent", 1), ("failed", "bounced", 1), ("retry", "sent", 2)])
def test_a_person_settles_it(r, mx, outcome, state, times):
    mid = uncertain(r, mx, "ann@dest.example")
    r.signed_in("uncertain", "resolve", msg_id(mid), outcome, "--note", "asked")
    r.wait_state(mid, state)
    assert len(mx.messages) == times
    assert msg_id(mid) not in r.signed_in("uncertain", "list")
    assert "op message.uncertain" in r.audit(mid)


@pytest.mark.parametrize("moment,reply", [
    ("banner", "421 4.3.2 busy"), ("EHLO", "421 4.3.2 busy"),
    ("MAIL", "451 4.7.1 greylisted"), ("RCPT", "450 4.2.1 later"),
    ("RCPT", CLOSE)])
def test_what_is_sent_again_waits_as_any_other(r, mx, moment, reply):
    """A refusal before the dot says nothing of the first one, and is none."""
    mid = uncertain(r, mx, "ann@dest.example")
    mx.script[moment] = reply
    r.signed_in("uncertain", "resolve", msg_id(mid), "retry", "--note", "x")
    for n in (1, 2):
        if n > 1:  # the first is due, and may be under way
            r.due(mid)
        postern.wait_until("try %d" % n, lambda: len(r.sql(
            "SELECT 1 FROM d.attempt WHERE message_id = %s AND "
            "ended_at IS NOT NULL", mid)) > n)
        r.wait_state(mid, "deferred")
    mx.script.clear()
    r.due(mid)
    r.wait_state(mid, "sent")
    assert len(mx.messages) == 2


@pytest.mark.parametrize("over", ["approval", "mode"])
def test_too_late_to_send_it_again(r, mx, operator, over):
    """What let it leave holds no more: it is said at once, and nothing is
    done. The question stays."""
    box = r.add_inbox("late-%s@acme.example" % over)
    r.set_mode(box, 4)
    mx.script["dot"] = CLOSE
    mid = r.submit(box=box)
    r.wait_state(mid, "uncertain")
    mx.script.clear()
    ttl = "UPDATE d.tenant SET approve_ttl = %s WHERE tenant_id = %s"
    if over == "mode":
        r.set_mode(box, 2)
    else:
        r.sql(ttl, "1 microsecond", box.tenant_id)
    before = r.audit(mid)
    try:
        refused = r.signed_in("uncertain", "resolve", msg_id(mid), "retry",
                              "--note", "x", ok=False)
        form = operator.form(mid, "settle")
        status, _, page = operator.call(
            "POST", "/m/%s/settle" % public_id(mid),
            {**form, "ix": "1", "outcome": "retry", "note": "x"})
    finally:
        r.sql(ttl, "72 hours", box.tenant_id)
    assert "release_over" in refused and "cannot be sent again" in refused
    assert status == 409 and "cannot be sent again" in page
    assert "release_over" in page and "too late" not in page
    assert r.audit(mid) == before and r.state(mid) == "uncertain"
    assert msg_id(mid) in r.signed_in("uncertain", "list")
    assert not r.sql("SELECT 1 FROM d.send_q WHERE message_id = %s", mid)
    r.signed_in("uncertain", "resolve", msg_id(mid), "failed", "--note", "x")
    r.wait_state(mid, "bounced")


def test_one_recipient_of_two(r, mx):
    mid = uncertain(r, mx, "ann@dest.example", "bob@dest.example")
    r.signed_in("uncertain", "resolve", msg_id(mid), "retry", "--recipient",
                "bob@dest.example")
    postern.wait_until("bob", lambda: len(mx.messages) == 2)
    assert mx.messages[1]["rcpts"] == ["bob@dest.example"]
    assert r.state(mid) != "sent"
    r.signed_in("uncertain", "resolve", msg_id(mid), "sent")
    r.wait_state(mid, "sent")
    refused = r.signed_in("uncertain", "resolve", msg_id(mid), "sent", ok=False)
    assert "state_conflict" in refused


# -- what the sender hears ----------------------------------------------------

def reports(r, mid, box):
    doc = r.rest(box, "/v1/messages/%s/reports" % msg_id(mid))
    return [(x["kind"], x["recipients"], email.message_from_string(
        x["content"], policy=email.policy.SMTP)) for x in doc["reports"]]


def status_of(report):
    """The per-message fields and those of each recipient."""
    _, status, part = list(report.iter_parts())
    assert part.get_content_type() in ("text/rfc822-headers", "message/rfc822")
    assert status.get_content_type() == "message/delivery-status"
    return status.get_payload()


def events(r, mid, box):
    doc = r.rest(box, "/v1/messages/%s/events" % msg_id(mid))
    return [e["type"] for e in doc["events"]]


def test_a_failure_is_reported(r, mx):
    mx.rcpt_replies["bad@dest.example"] = \
        "550 5.7.1 no \x1b[31m\u00e4 way, ask postmaster"
    box = r.fresh_box()
    mid = r.submit(rcpts=["ann@dest.example", "bad@dest.example"], box=box)
    r.wait_state(mid, "bounced")
    ((kind, ix, report),) = reports(r, mid, box)
    assert (kind, ix) == ("failed", [2])
    assert report.get_content_type() == "multipart/report"
    assert report["Auto-Submitted"] == "auto-replied"
    top, one = status_of(report)
    assert top["Original-Envelope-Id"] == msg_id(mid)
    assert one["Final-Recipient"] == "rfc822; bad@dest.example"
    assert (one["Action"], one["Status"]) == ("failed", "5.7.1")
    assert one["Remote-MTA"] == "dns; localhost"
    assert one["Diagnostic-Code"] == \
        "smtp; 550 5.7.1 no ?[31m?? way, ask postmaster"
    head = list(report.iter_parts())[2].get_content()
    assert "Subject: Report" in str(head) and "Hello" not in str(head)
    assert "message.reported" in events(r, mid, box)
    # Only sealed bytes lie in the database.
    (row,) = r.sql("SELECT box FROM d.dsn WHERE message_id = %s", mid)
    assert b"dest.example" not in bytes(row["box"])


@pytest.mark.parametrize("notify,kinds", [
    ("NEVER", []), ("SUCCESS", ["relayed"]), ("DELAY", []),
    ("FAILURE", ["failed"]), ("SUCCESS,FAILURE", ["failed", "relayed"])])
def test_what_the_sender_asked_for(r, mx, notify, kinds):
    """One recipient fails, one is taken by a host without DSN."""
    mx.rcpt_replies["bad@dest.example"] = "550 5.7.1 no"
    box = r.fresh_box()
    mid = r.submit(rcpts=["ann@dest.example", "bad@dest.example"], box=box,
                   notify=notify, ret="FULL")
    r.wait_state(mid, "bounced")
    found = reports(r, mid, box)
    assert sorted(kind for kind, _, _ in found) == kinds
    for kind, ix, report in found:
        assert ix == ([2] if kind == "failed" else [1])
        assert "Hello" in str(list(report.iter_parts())[2])


@pytest.mark.parametrize("last", ["450 4.2.1 later", CLOSE])
def test_one_notice_of_delay(r, mx, last):
    mx.script["RCPT"] = "450 4.2.1 later"
    box = r.fresh_box()
    mid = r.submit(box=box)
    r.wait_state(mid, "deferred")
    assert reports(r, mid, box) == []

    def age(hours):
        r.sql("ALTER TABLE d.release DISABLE TRIGGER frozen")
        r.sql("UPDATE d.release SET at = now() - %s * interval "
              "'1 hour' WHERE message_id = %s", hours, mid)
        r.sql("ALTER TABLE d.release ENABLE TRIGGER frozen")
    age(5)
    for n in (2, 3):
        r.due(mid)
        postern.wait_until("another try", lambda: r.deliveries(mid)[0][
            "attempts"] == n and r.state(mid) == "deferred")
    ((kind, _, report),) = reports(r, mid, box)
    assert kind == "delayed"
    _, one = status_of(report)
    assert (one["Action"], one["Status"]) == ("delayed", "4.2.1")
    assert "Will-Retry-Until" in one
    assert events(r, mid, box).count("message.delayed") == 1
    # Its time is over now, before the database would say so.
    age(72)
    mx.script["RCPT"] = last
    r.due(mid)
    r.wait_state(mid, "bounced")
    (kind, _, report) = reports(r, mid, box)[1]
    assert kind == "failed" and status_of(report)[1]["Status"] == "4.4.7"


def test_a_report_tells_the_truth_or_nothing(r, mx):
    """The results it speaks of are in the same transaction, or it is not."""
    mx.script["RCPT"] = "450 4.2.1 later"
    box = r.fresh_box()
    mid = r.submit(box=box)
    r.wait_state(mid, "deferred")
    r.worker.stop()
    r.sql("UPDATE d.send_q SET due_at = now() WHERE message_id = %s", mid)
    (q,) = [q for q in r.sql("SELECT * FROM api.claim_due_1('t', 500, 60)",
                             user="l_worker") if q["message_id"] == mid]
    lease = (q["tenant_id"], mid, q["domain"], q["lease"])
    assert r.sql("SELECT go FROM api.attempt_1(%s,%s,%s,%s,'mx','none',"
                 "array[1])", *lease, user="l_worker")[0]["go"]
    done = ("SELECT status FROM api.done_1(%s,%s,%s,%s,array[1],array[4],"
            "array[450],array['4.2.1'],array['x'],60,'x',array['f'],"
            "array['1'],1,array[%s::bytea])")
    assert r.sql(done, *lease, b"z" * 60, user="l_worker")[0]["status"] == 200
    assert reports(r, mid, box) == []
    assert r.sql(done, *lease, b"z" * 60, user="l_worker")[0]["status"] == 409
    r.start_worker()


def test_who_may_not_read_a_report(r, mx):
    mx.script["RCPT"] = "550 5.1.7 no"
    box = r.fresh_box()
    mid = r.submit(box=box)
    r.wait_state(mid, "bounced")
    sender = type(box)(**{**box.__dict__, "key": box.smtp_key})
    doc = r.rest(sender, "/v1/messages/%s/reports" % msg_id(mid))
    assert doc["code"] == "missing_permission"
    other = r.add_inbox("nosy@acme.example")
    doc = r.rest(other, "/v1/messages/%s/reports" % msg_id(mid))
    assert doc["code"] == "not_found"


def test_the_return_path_is_signed(r, mx):
    """Of the inbox, of this message, with an end; seal/verp.h has the rest."""
    box = r.fresh_box()
    mid = r.submit(box=box)
    r.wait_state(mid, "sent")
    local, _, domain = box.address.partition("@")
    m = re.fullmatch(r"%s\+([0-9a-z]{42})@%s" % (
        re.escape(local), re.escape(domain)), mx.messages[0]["mail_from"])
    assert m, mx.messages[0]["mail_from"]
    raw = seals.unbase32(m[1], 26)
    assert raw[2:18].hex() == mid.replace("-", "")
