# SPDX-License-Identifier: ISC
"""Session keys: closed by default, never more than the key they came from."""

import smtplib
import ssl
import threading

import pytest

from tests.lib import leaks, postern
from tests.blackbox.test_rest import Client, MAIL, refusal, stored
from tests.blackbox.test_rest_watch import Stream

OPEN = {"recipients": ["ada@example.org"], "domains": ["ok.example"],
        "max_messages": 100, "attachments": True,
        "doors": ["smtp", "rest", "mcp"]}


@pytest.fixture(scope="module")
def gate():
    with postern.Deployment() as d:
        d.add_tenant("acme", "acme.example")
        d.sql("UPDATE d.plan SET lim_hour = 100000, lim_day = 100000, "
              "lim_month = 1000000, lim_held = 100000")
        d.box = d.add_inbox("bot@acme.example", "acme")
        d.other = d.add_inbox("two@acme.example", "acme")
        d.free = d.add_inbox("free@acme.example", "acme")
        d.doomed = d.add_inbox("doomed@acme.example", "acme")
        d.set_mode(d.free, 4)
        d.watched = d.add_inbox("watched@acme.example", "acme")
        d.set_mode(d.watched, 3)
        d.sql("UPDATE d.inbox SET oversight = 'boss@acme.example' WHERE "
              "inbox_id = %s", d.watched.inbox_id)
        d.start("posternd")
        yield d


@pytest.fixture
def bot(gate):
    return Client(gate, gate.box.key)


def start(gate, owner, policy=OPEN, **more):
    """(client of the session, its id)"""
    status, _, doc = owner.call("POST", "/v1/sessions",
                                dict(more, policy=policy))
    assert status == 201, doc
    assert doc["key"].startswith("pst_sess_")
    gate.issued.update(leaks.of_token("session key", doc["key"]))
    return Client(gate, doc["key"]), doc["session_id"]


def record(owner, name):
    status, _, doc = owner.get("/v1/sessions/" + name)
    assert status == 200, doc
    return doc


POLICY = (403, "session_policy")


def test_what_is_not_named_is_not_allowed(gate, bot):
    session, name = start(gate, bot, {})
    assert refusal(session.send()) == POLICY
    for closed in ("recipients", "max_messages", "doors"):
        policy = {k: v for k, v in OPEN.items() if k != closed}
        session, name = start(gate, bot, policy)
        assert refusal(session.send()) == POLICY, closed
        doc = record(bot, name)
        assert (doc["sent"], doc["refused"], doc["counts"]) == (0, 1, {})
    policy = {k: v for k, v in OPEN.items() if k != "attachments"}
    session, _ = start(gate, bot, policy)
    assert refusal(session.send(attachments=[
        {"filename": "a", "content": "YQ=="}])) == POLICY
    stored(session.send(subject="without"))


def test_a_policy_is_told_in_lists(gate, bot):
    run, _ = start(gate, bot, {"recipients": "ada@example.org",
                               "domains": "example.net", "doors": "rest",
                               "max_messages": 1, "attachments": None})
    status, _, doc = bot.call("POST", "/v1/sessions", {"policy": {
        "recipients": "ada@example.org", "domains": "example.net",
        "doors": "rest", "max_messages": 1, "attachments": None}})
    gate.issued.update(leaks.of_token("session key", doc["key"]))
    assert doc["policy"] == {
        "recipients": ["ada@example.org"], "domains": ["example.net"],
        "doors": ["rest"], "max_messages": 1}
    assert stored(run.send())


def test_every_recipient_has_to_be_named(gate, bot):
    session, name = start(gate, bot)
    for change in ({"to": ["eve@example.org"]},
                   {"to": ["ada@example.org", "eve@example.org"]},
                   {"bcc": ["eve@example.org"]},
                   {"cc": ["ada@sub.ok.example"]},
                   {"to": ["ada@example.org.ok.example.evil.example"]}):
        assert refusal(session.send(**change)) == POLICY, change
    doc = stored(session.send(subject="named", to=["Ada@Example.ORG"],
                              cc=["any.one@OK.example"]))
    assert doc["status"] == "held"
    assert record(bot, name)["refused"] == 5
    assert record(bot, name)["counts"] == {"held": 1}


def test_the_last_place_is_taken_once(gate, bot):
    session, name = start(gate, bot, dict(OPEN, max_messages=5))
    got = []

    def run(i):
        got.append(session.send(subject="race %d" % i)[0])
    threads = [threading.Thread(target=run, args=(i,)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(got) == [202] * 5 + [403] * 11
    doc = record(bot, name)
    assert (doc["sent"], doc["refused"]) == (5, 11)
    assert doc["counts"] == {"held": 5}


def smtp(gate, session, address):
    context = ssl.create_default_context(cafile=gate.ca_file)
    with smtplib.SMTP_SSL("localhost", gate.smtps_port,
                          context=context) as s:
        s.login(address, session.key)
        s.sendmail(address, ["ada@example.org"],
                   "From: %s\r\nTo: ada@example.org\r\nSubject: x\r\n\r\nx"
                   % address)


def test_only_by_its_doors(gate, bot):
    session, _ = start(gate, bot, dict(OPEN, doors=["smtp"]))
    smtp(gate, session, gate.box.address)
    assert refusal(session.send()) == POLICY
    session, _ = start(gate, bot, dict(OPEN, doors=["rest"]))
    with pytest.raises(smtplib.SMTPDataError) as e:
        smtp(gate, session, gate.box.address)
    assert e.value.smtp_code == 550 and b"session_policy" in e.value.smtp_error
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "send", "arguments": MAIL}}
    result = session.call("POST", "/mcp", call)[2]["result"]
    assert result["structuredContent"]["code"] == "session_policy"


def test_always_held_whatever_the_mode(gate):
    free = Client(gate, gate.free.key)
    assert stored(free.send())["status"] == "approved"
    session, _ = start(gate, free)
    assert stored(session.send(subject="of a session"))["status"] == "held"


def test_the_copy_for_oversight_is_in_no_policy(gate):
    session, _ = start(gate, Client(gate, gate.watched.key))
    doc = stored(session.send(subject="watched"))
    assert doc["status"] == "held"
    assert refusal(session.send(to=["eve@example.org"])) == POLICY


def test_an_end_while_it_sends(gate, bot):
    """No deadlock, and nothing is stored behind the end's back."""
    for n in range(12):
        session, name = start(gate, bot)
        stored(session.send(subject="race %d" % n))
        got = []
        threads = [threading.Thread(target=lambda i=i: got.append(
            session.send(subject="race %d %d" % (n, i)))) for i in range(4)]
        threads.append(threading.Thread(target=lambda: got.append(bot.call(
            "POST", "/v1/sessions/%s/end" % name))))
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert {g[0] for g in got} <= {200, 202, 401, 403}, got
        assert "held" not in record(bot, name)["counts"]


def test_what_a_session_can_never(gate, bot):
    mine = stored(bot.send(subject="of the inbox"))["message_id"]
    session, name = start(gate, bot)
    own = stored(session.send(subject="of the session"))["message_id"]
    assert session.get("/v1/messages/" + own)[2]["status"] == "held"
    listed = session.get("/v1/messages")[2]["messages"]
    assert [m["message_id"] for m in listed] == [own]
    for method, path, body, code in (
            ("GET", "/v1/messages/" + mine, None, 404),
            ("GET", "/v1/messages/%s/events" % mine, None, 404),
            ("POST", "/v1/messages/%s/cancel" % mine, None, 404),
            ("POST", "/v1/messages/%s/reply" % mine, {"text": "x"}, 404),
            ("GET", "/v1/messages/%s/raw" % own, None, 403),
            ("GET", "/v1/threads", None, 403),
            ("GET", "/v1/inboxes/me/api-keys", None, 403),
            ("DELETE", "/v1/inboxes/me/api-keys/%d" % gate.box.full_key_id,
             None, 404),
            ("PATCH", "/v1/inboxes/me", {"oversight_mode": "gated_all"}, 403),
            ("POST", "/v1/sessions", {"policy": OPEN}, 403),
            ("GET", "/v1/sessions", None, 403),
            ("POST", "/v1/sessions/me/extend", {"expires_in": 60}, 403)):
        assert refusal(session.call(method, path, body))[0] == code, path
    assert session.get("/v1/auth/me")[2]["principal"] == "session_key"
    noted = {"metadata": {"customer": "of nobody's business"}}
    assert bot.call("PATCH", "/v1/inboxes/me", noted)[2]["metadata"] == \
        noted["metadata"]
    for inbox in (session.get("/v1/inboxes/me")[2],
                  session.get("/v1/inboxes")[2]["inboxes"][0]):
        assert (inbox["inbox_id"], inbox["metadata"]) == (
            gate.box.address, {})
    assert record(session, "me")["session_id"] == name
    second, other = start(gate, bot)
    assert refusal(second.get("/v1/sessions/" + name)) == (
        404, "not_found")
    assert refusal(second.call("POST", "/v1/sessions/%s/end" % name)) == (
        404, "not_found")
    assert record(bot, name)["torn_down"] is False
    # neither is a send key enough to make one
    send_only = Client(gate, gate.box.smtp_key)
    assert refusal(send_only.call("POST", "/v1/sessions",
                                  {"policy": OPEN})) == (
        403, "missing_permission")


def test_an_end_takes_back_what_is_held(gate, bot):
    session, name = start(gate, bot, run="run-1", sandbox_id="sbx_1",
                          template="python", purpose="to test")
    sent = [stored(session.send(subject="end %d" % i)) for i in range(3)]
    refusal(session.send(to=["eve@example.org"]))
    status, _, doc = bot.call("POST", "/v1/sessions/%s/end" % name, {
        "exit_error": "SystemExit: 1", "stdout_lines": 12, "stderr_lines": 3,
        "payload_length": 4096})
    assert (status, doc["canceled"]) == (200, 3)
    assert refusal(session.get("/v1/auth/me")) == (401, "unknown_api_key")
    doc = record(bot, name)
    assert doc["torn_down"] and doc["ended_at"] and doc["started_at"]
    assert (doc["run"], doc["sandbox_id"], doc["template"], doc["purpose"]) \
        == ("run-1", "sbx_1", "python", "to test")
    assert doc["counts"] == {"canceled": 3} and doc["refused"] == 1
    assert (doc["exit_error"], doc["stdout_lines"], doc["stderr_lines"],
            doc["payload_length"]) == ("SystemExit: 1", 12, 3, 4096)
    events = bot.get("/v1/messages/%s/events" % sent[0]["message_id"])[2]
    assert events["events"][-1]["type"] == "message.canceled"
    again = bot.call("POST", "/v1/sessions/%s/end" % name, {"held": "keep"})
    assert again[2]["canceled"] == 0
    assert name in [s["session_id"] for s in bot.get("/v1/sessions")[2][
        "sessions"]]


def test_the_list_has_pages(gate):
    box = gate.add_inbox("many@acme.example", "acme")
    bot = Client(gate, box.key)
    names = [start(gate, bot)[1] for _ in range(25)][::-1]
    path = "/v1/sessions?limit=10"
    seen, token = [], ""
    for size in (10, 10, 5):
        status, _, doc = bot.get(path + token)
        assert (status, doc["count"], doc["limit"]) == (200, size, 10)
        seen += [s["session_id"] for s in doc["sessions"]]
        token = "&page_token=%s" % doc["next_page_token"]
    assert seen == names and doc["next_page_token"] is None
    doc = bot.get("/v1/sessions")[2]
    assert [s["session_id"] for s in doc["sessions"]] == names[:20]
    assert doc["next_page_token"]
    # a token is this list's and this key's
    token = "?page_token=" + doc["next_page_token"]
    other = Client(gate, gate.other.key)
    for got in (bot.get("/v1/drafts" + token), other.get("/v1/sessions"
                + token), bot.get("/v1/sessions?page_token=x"),
                bot.get("/v1/sessions?limit=101")):
        assert refusal(got) == (422, "validation_error")


def test_an_inbox_makes_so_many_in_a_day(gate):
    """Each is a row that stays, and rows of the audit log."""
    box = gate.add_inbox("busy@acme.example", "acme")
    bot = Client(gate, box.key)
    session, name = start(gate, bot)
    assert bot.call("POST", "/v1/sessions/%s/end" % name, {})[0] == 200
    gate.sql("INSERT INTO d.credential (tenant_id, inbox_id, kind, scope, "
             "auth_sha256, lineage, parent_key, revoked_at) SELECT %s, %s, "
             "'s', 's', sha256(i::text::bytea), 0, %s, clock_timestamp() "
             "FROM generate_series(1, 4997) i", box.tenant_id, box.inbox_id,
             box.full_key_id)
    makes = (("/v1/sessions", {"policy": {}}),
             ("/v1/inboxes/me/api-keys", {"scope": "send"}))
    for path, doc in makes:
        assert refusal(bot.call("POST", path, doc)) == (429, "held_limit")
    gate.sql("UPDATE d.credential SET created_at = created_at - "
             "interval '25 hours' WHERE tenant_id = %s AND inbox_id = %s",
             box.tenant_id, box.inbox_id)
    for path, doc in makes:
        status, _, got = bot.call("POST", path, doc)
        assert status == 201, got
        gate.issued.update(leaks.of_token("key", got["key"]))


def test_an_end_may_keep_and_a_session_may_end_itself(gate, bot):
    session, name = start(gate, bot)
    doc = stored(session.send(subject="kept"))
    status, _, got = session.call("POST", "/v1/sessions/me/end",
                                  {"held": "keep"})
    assert (status, got["canceled"]) == (200, 0)
    assert bot.get("/v1/messages/" + doc["message_id"])[2]["status"] == "held"
    assert refusal(session.send()) == (401, "unknown_api_key")


def test_time_within_a_day_and_the_parent(gate, bot):
    session, name = start(gate, bot, expires_in=60)
    before = record(bot, name)["expires_at"]
    status, _, doc = bot.call("POST", "/v1/sessions/%s/extend" % name,
                              {"expires_in": 86400})
    assert status == 200 and doc["expires_at"] > before
    gate.sql("UPDATE d.credential SET expires_at = now() WHERE key_id = %s",
             int(name))
    assert refusal(session.get("/v1/auth/me"))[1] == "unknown_api_key"
    late(bot, name)
    assert record(bot, name)["torn_down"]


def late(bot, name):
    """Its record is there to read, so it is no 404."""
    got = bot.call("POST", "/v1/sessions/%s/extend" % name,
                   {"expires_in": 60})
    assert refusal(got) == (409, "state_conflict")
    assert (got[2]["status"], got[2]["retry"]) == ("ended", "no")


def test_one_that_has_ended_is_not_extended(gate, bot):
    _, name = start(gate, bot)
    for _ in range(2):
        assert bot.call("POST", "/v1/sessions/%s/end" % name)[0] == 200
        late(bot, name)
    key = bot.call("POST", "/v1/inboxes/me/api-keys", {"scope": "send"})[2]
    for none in (key["api_key"] if "api_key" in key else key["key"]).split(
            "_")[3], "999999":
        assert refusal(bot.call("POST", "/v1/sessions/%s/extend" % none,
                                {"expires_in": 60})) == (404, "not_found")


def test_it_dies_with_the_key_it_came_from(gate):
    doomed = Client(gate, gate.doomed.key)
    session, _ = start(gate, doomed)
    stream = Stream(session).started()
    gate.revoke(gate.doomed, gate.doomed.full_key_id)
    assert refusal(session.send()) == (401, "unknown_api_key")
    assert stream.read() is None


def test_sessions_of_others_are_not_there(gate, bot):
    _, name = start(gate, bot)
    other = Client(gate, gate.other.key)
    assert refusal(other.get("/v1/sessions/" + name)) == (404, "not_found")
    for tail, body in (("extend", {"expires_in": 60}), ("end", None)):
        assert refusal(other.call("POST", "/v1/sessions/%s/%s" % (
            name, tail), body)) == (404, "not_found")
    assert record(bot, name)["torn_down"] is False
    assert other.get("/v1/sessions")[2]["sessions"] == []


@pytest.mark.parametrize("body,field", [
    ({}, "policy"), ({"policy": []}, "policy"),
    ({"policy": {"colour": 1}}, "policy.colour"),
    ({"policy": {}, "expires_in": 0}, "expires_in"),
    ({"policy": {}, "expires_in": 86401}, "expires_in"),
    ({"policy": {}, "expires_in": "1"}, "expires_in"),
    ({"policy": {"recipients": ["nobody"]}}, "policy.recipients"),
    ({"policy": {"domains": ["a b"]}}, "policy.domains"),
    ({"policy": {"domains": ["@x.example"]}}, "policy.domains"),
    ({"policy": {"doors": ["window"]}}, "policy.doors"),
    ({"policy": {"max_messages": -1}}, "policy.max_messages"),
    ({"policy": {"max_messages": 1.5}}, "policy.max_messages"),
    ({"policy": {"attachments": 1}}, "policy.attachments"),
    ({"policy": {}, "run": "a\0b"}, "run"),
    ({"policy": {}, "purpose": "x" * 1001}, "purpose"),
])
def test_fields_of_a_session_are_checked(bot, gate, body, field):
    before = gate.sql("SELECT count(*) AS n FROM d.agent_session")[0]["n"]
    status, _, doc = bot.call("POST", "/v1/sessions", body)
    assert status in (400, 422), doc
    assert status == 400 or doc["field"] == field
    assert gate.sql("SELECT count(*) AS n FROM d.agent_session")[0][
        "n"] == before
