# SPDX-License-Identifier: ISC
"""
What follows from a result: an address that does not exist is not written to
again, from submission to the last gate, until a person says otherwise; and a
person settles what only may have been sent.
"""
import smtplib

import pytest

from tests.fake.mx import CLOSE
from tests.lib import postern, seals
from tests.lib.relaying import Relaying


@pytest.fixture(scope="module")
def r():
    with Relaying() as it:
        it.start_worker()
        yield it


@pytest.fixture(autouse=True)
def mx(r):
    r.mx.reset()
    yield r.mx
    r.mx.script.clear()
    r.mx.rcpt_replies.clear()


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
