# SPDX-License-Identifier: ISC
"""The agents' REST interface, end to end: posternd, PostgreSQL, Redis."""

import base64
import email
import email.policy
import http.client
import json
import os
import random
import re
import ssl
import time

import pytest

from tests.lib import contract, postern

TOP = postern.TOP


class Client:
    """One key; a connection for each call, so that nothing carries over."""

    def __init__(self, deployment, key=None):
        self.port = deployment.api_port
        self.context = ssl.create_default_context(cafile=deployment.ca_file)
        self.key = key

    def call(self, method, path, body=None, headers=None, key=None,
             timeout=30):
        """(status, headers, document or bytes)"""
        # an address of its own: keys that fail make no other test wait
        source = "127.%d.%d.%d" % (random.randint(10, 254),
                                   random.randint(0, 255),
                                   random.randint(1, 254))
        c = http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=self.context, timeout=timeout,
            source_address=(source, 0))
        h = {"Host": "127.0.0.1"}
        if key or self.key:
            h["Authorization"] = "Bearer " + (key or self.key)
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            h["Content-Type"] = "application/json"
        h.update(headers or {})
        try:
            c.request(method, path, body, h)
            r = c.getresponse()
            data = r.read()
            got = {k.lower(): v for k, v in r.getheaders()}
            if got.get("content-type") == "application/json" and data:
                data = json.loads(data)
            contract.check(method, path, r.status, got, data)
            return r.status, got, data
        finally:
            c.close()

    def get(self, path, **kw):
        return self.call("GET", path, **kw)

    def send(self, http=None, **fields):
        """`http`: headers of the request; `fields`: of the document."""
        return self.call("POST", "/v1/messages/send", dict(MAIL, **fields),
                         http)

    def send_raw(self, data, to=("ada@example.org",), http=None, **env):
        h = {"Content-Type": "message/rfc822",
             "X-Postern-Envelope": json.dumps(dict({"to": list(to)}, **env))}
        h.update(http or {})
        return self.call("POST", "/v1/messages/send", data, h)


MAIL = {"to": ["ada@example.org"], "subject": "Hello", "text": "Good day."}
ERROR_FIELDS = {"name", "code", "message", "fix", "field", "request_id",
                "retry"}


def refusal(answer):
    status, headers, doc = answer
    assert isinstance(doc, dict), answer
    assert ERROR_FIELDS <= set(doc), doc
    assert doc["request_id"] == headers["x-request-id"]
    assert doc["fix"] and " " in doc["message"]
    assert not doc["message"].endswith(doc["code"]), doc
    return status, doc["code"]


def stored(answer):
    status, headers, doc = answer
    assert status == 202, answer
    assert re.fullmatch("msg_[0-9a-hjkmnp-tv-z]{26}", doc["message_id"])
    assert re.fullmatch("thr_[0-9a-hjkmnp-tv-z]{26}", doc["thread_id"])
    assert re.fullmatch("sha256:[0-9a-f]{64}", doc["digest"])
    return doc


def plain_text(raw):
    mail = email.message_from_bytes(raw, policy=email.policy.default)
    text = mail.get_body(("plain",)).get_content()
    return text.replace("\r\n", "\n").rstrip("\n")


@pytest.fixture(scope="module")
def gate():
    with postern.Deployment() as d:
        d.add_tenant("acme", "acme.example")
        d.add_tenant("rival", "rival.example")
        # one module sends more than the default plan allows; an inbox
        # copies its plan when it is made
        d.sql("UPDATE d.plan SET lim_hour = 100000, lim_day = 100000, "
              "lim_month = 1000000, lim_held = 100000")
        d.boxes = [d.add_inbox("bot@acme.example", "acme"),
                   d.add_inbox("two@acme.example", "acme"),
                   d.add_inbox("bot@rival.example", "rival"),
                   d.add_inbox("two@rival.example", "rival")]
        d.start("posternd")
        yield d


@pytest.fixture
def bot(gate):
    return Client(gate, gate.boxes[0].key)


@pytest.fixture
def nobody(gate):
    return Client(gate)


def test_guide_and_document_need_no_key(nobody):
    status, headers, text = nobody.get("/v1/guide")
    assert status == 200 and headers["content-type"].startswith("text/plain")
    assert b"POST /v1/messages/send" in text
    status, headers, doc = nobody.get("/openapi.json")
    with open(os.path.join(TOP, "api", "openapi.json"), encoding="utf-8") as f:
        assert doc == json.load(f)


def test_every_reply_forbids_what_no_api_needs(bot):
    for path in ("/v1/guide", "/v1/auth/me", "/none"):
        headers = bot.get(path)[1]
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in headers
        assert "access-control-allow-origin" not in headers


def test_claim_once(gate, nobody):
    box = gate.add_inbox("fresh@acme.example", "acme", claim=False)
    status, _, doc = nobody.call("POST", "/v1/claim",
                                 {"code": box.claim_text})
    assert status == 201
    assert doc["inbox_id"] == "fresh@acme.example"
    assert doc["key"].startswith("pst_live_")
    assert doc["smtp_key"].startswith("pst_live_")
    for key, scope in ((doc["key"], "full"), (doc["smtp_key"], "send")):
        me = nobody.get("/v1/auth/me", key=key)[2]
        assert me["inbox_id"] == "fresh@acme.example"
        assert me["key"]["scope"] == scope
    again = nobody.call("POST", "/v1/claim", {"code": box.claim_text})
    assert refusal(again) == (410, "claim_invalid")
    # what it sent is readable with the key that was handed out
    agent = Client(gate, doc["key"])
    sent = stored(agent.send())
    raw = agent.get("/v1/messages/%s/raw" % sent["message_id"])
    assert raw[0] == 200 and plain_text(raw[2]) == "Good day."


@pytest.mark.parametrize("body,want", [
    ({}, (422, "validation_error")),
    ({"code": ""}, (422, "validation_error")),
    ({"code": 1}, (422, "validation_error")),
    ({"code": "x" * 65}, (422, "validation_error")),
    ({"code": "claim_x", "more": 1}, (422, "validation_error")),
    ({"code": "claim_00000000000000000000000000"}, (410, "claim_invalid")),
    ({"code": "' OR 1=1 --"}, (410, "claim_invalid")),
    ([], (400, "malformed_json")),
])
def test_claim_refused(nobody, body, want):
    assert refusal(nobody.call("POST", "/v1/claim", body)) == want


def test_me(gate, bot):
    status, _, me = bot.get("/v1/auth/me")
    assert status == 200
    assert me["inbox_id"] == "bot@acme.example"
    assert me["tenant"] == "acme"
    assert me["oversight_mode"] == "gated_send"
    assert me["mode_in_words"] == "Every outgoing mail waits for a person."
    assert me["principal"] == "inbox_key"
    assert me["key"]["scope"] == "full"
    assert me["permissions"] == [
        "send", "cancel", "list", "raw", "drafts", "labels", "block",
        "sessions", "keys", "grants", "tighten_mode"]
    assert Client(gate, gate.boxes[0].smtp_key).get("/v1/auth/me")[2][
        "permissions"] == ["send", "cancel", "status_of_own"]
    assert me["limits"]["size"] > 0 and me["limits"]["recipients"] > 0
    assert me["epoch"] >= 1 and me["reset_at"] is None
    text = json.dumps(me)
    assert gate.boxes[0].key not in text and "pst_" not in text


def flip(key, at):
    c = "0" if key[at] != "0" else "1"
    return key[:at] + c + key[at + 1:]


def test_keys_that_do_not_work(gate, nobody):
    key = gate.boxes[0].key
    assert refusal(nobody.get("/v1/auth/me")) == (401, "missing_authorization")
    for value in ("Basic Ym90OnB3", "Bearer", "Bearer ", key):
        got = nobody.get("/v1/auth/me", headers={"Authorization": value})
        assert refusal(got) == (401, "missing_authorization")
        assert got[1]["www-authenticate"].startswith("Bearer")
    bad = ["x", key[:-1], key + "0", key.upper(), flip(key, -1),
           flip(key, -10), flip(key, 20), key.replace("live", "test"),
           key.replace("live", "op"), "pst_live_1_1_" + "0" * 59,
           "pst_live_0_0_" + "0" * 59, key + " x"]
    for other in bad:
        got = nobody.get("/v1/auth/me", key=other)
        assert refusal(got) == (401, "unknown_api_key"), other


def test_revoked_key_ends_at_once(gate, nobody):
    box = gate.add_inbox("leaver@acme.example", "acme")
    assert nobody.get("/v1/auth/me", key=box.smtp_key)[0] == 200
    agent = Client(gate, box.key)
    path = "/v1/inboxes/me/api-keys"
    keys = agent.get(path)[2]["keys"]
    assert {k["scope"] for k in keys} == {"full", "send"}
    assert "pst_" not in json.dumps(keys)
    got = agent.call("DELETE", "%s/%d" % (path, box.send_key_id))
    assert got[0] == 200
    for _ in range(3):
        assert refusal(nobody.get("/v1/auth/me", key=box.smtp_key)) == (
            401, "unknown_api_key")
    assert refusal(Client(gate, box.smtp_key).send()) == (
        401, "unknown_api_key")


def test_send_is_held_and_readable(gate, bot):
    doc = stored(bot.send(
        to=["Ada <ada@example.org>", "Bob@Example.ORG"], cc="eve@example.net",
        bcc=["hidden@example.com"], subject="Grüße ✓", text="Zeile\nzwei ✓",
        html="<p>x</p>", headers={"X-Run": "7"}, labels=["a", "b"],
        reply_to="bot@acme.example",
        attachments=[{"filename": "fü.txt", "content_type": "text/plain",
                      "content": base64.b64encode(b"data").decode()}],
        context={"purpose": "greeting"}))
    assert doc["status"] == "held" and doc["version"] == 1
    assert doc["hold"]["reasons"] == ["mode"]
    assert doc["hold"]["expires_at"].endswith("Z")
    path = "/v1/messages/" + doc["message_id"]

    status, headers, raw = bot.get(path + "/raw")
    assert status == 200 and headers["content-type"] == "message/rfc822"
    assert headers["x-postern-digest"] == doc["digest"]
    assert int(headers["content-length"]) == len(raw)
    assert b"hidden@example.com" not in raw and b"\nBcc" not in raw
    assert re.search(rb"(?<!\r)\n", raw) is None
    mail = email.message_from_bytes(raw, policy=email.policy.default)
    assert mail["Subject"] == "Grüße ✓"
    assert mail["X-Run"] == "7"
    assert "bot@acme.example" in mail["From"]
    assert mail["Received"].startswith("by ") and "127." not in \
        mail["Received"]
    assert plain_text(raw) == "Zeile\nzwei ✓"
    [part] = mail.iter_attachments()
    assert part.get_filename() == "fü.txt" and part.get_content() in (
        "data", b"data")

    message = bot.get(path)[2]
    assert message["message_id"] == doc["message_id"]
    assert message["digest"] == doc["digest"]
    assert message["status"] == "held" and message["direction"] == "sent"
    assert message["subject"] == "Grüße ✓"
    assert message["to"] == ["Bob@Example.ORG", "ada@example.org"]
    assert message["cc"] == ["eve@example.net"]
    assert message["bcc"] == ["hidden@example.com"]
    assert message["labels"] == ["a", "b"]
    assert message["decision"] is None and message["untrusted"] is False
    assert message["timestamp"] == message["created_at"]
    assert message["size"] == len(raw)
    assert "findings" not in message and "risk" not in message

    events = bot.get(path + "/events")[2]
    assert events["events"][0]["type"] == "message.held"
    assert events["events"][0]["actor"] == "agent"
    assert events["events"][0]["event_id"].startswith("evt_")


def test_inbox_names_are_one(gate, bot):
    doc = stored(bot.send())
    tail = "/messages/%s" % doc["message_id"]
    for start in ("/v1", "/v1/inboxes/me", "/v1/inboxes/bot@acme.example",
                  "/v1/inboxes/BOT@Acme.Example",
                  "/v1/inboxes/bot%40acme.example"):
        assert bot.get(start + tail)[2]["message_id"] == doc["message_id"]
    assert bot.get("/v1/inboxes")[2]["inboxes"][0]["inbox_id"] == \
        "bot@acme.example"
    assert bot.get("/v1/inboxes/me")[2]["tenant"] == "acme"


RAW = (b"From: bot@acme.example\r\nTo: ada@example.org\r\nSubject: raw\r\n"
       b"Date: Sat, 28 Nov 2026 10:00:00 +0000\r\n"
       b"Message-ID: <%s@acme.example>\r\n\r\nbody\r\n.\r\n..\r\nend\r\n")


def test_raw_goes_to_its_envelope_and_only_there(gate, bot):
    data = RAW % b"raw-1"
    doc = stored(bot.send_raw(data, to=["other@example.net"],
                              labels=["x"], context={"purpose": "p"}))
    message = bot.get("/v1/messages/" + doc["message_id"])[2]
    every = message["to"] + message["cc"] + message["bcc"]
    assert every == ["other@example.net"]
    raw = bot.get("/v1/messages/%s/raw" % doc["message_id"])[2]
    assert raw.endswith(data.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("address", [
    "a@[192.0.2.1]", "a@[IPv6:2001:db8::1]", "Ada <a@localhost>",
    "a@printer.local"])
def test_a_domain_that_no_mail_can_reach(gate, bot, address):
    """As RCPT refuses it, by each way to name a recipient."""
    before = gate.count()
    refused = (422, "recipient_domain_refused")
    for kind in ("to", "cc", "bcc"):
        got = bot.send(**{"to": MAIL["to"], kind: [address]})
        assert refusal(got) == refused, kind
        assert got[2]["field"] == kind + "[0]"
    assert refusal(bot.send_raw(RAW % b"1", to=[address])) == refused
    assert gate.count() == before


RAW_REFUSED = [
    ("no envelope", RAW % b"1", None, (422, "validation_error")),
    ("envelope no json", RAW % b"1", "to=ada", (400, "malformed_json")),
    ("envelope no to", RAW % b"1", "{}", (422, "validation_error")),
    ("envelope empty", RAW % b"1", '{"to":[]}', (422, "validation_error")),
    ("envelope bad address", RAW % b"1", '{"to":["ada"]}',
     (422, "invalid_address")),
    ("envelope crlf", RAW % b"1", '{"to":["ada@example.org\\r\\nX"]}',
     (422, "invalid_address")),
    ("envelope unknown", RAW % b"1", '{"to":["a@example.org"],"x":1}',
     (422, "validation_error")),
    ("envelope from", RAW % b"1",
     '{"to":["a@example.org"],"from":"ceo@acme.example"}',
     (422, "sender_mismatch")),
    ("envelope doubled", RAW % b"1",
     '{"to":["a@example.org"],"to":["b@example.org"]}',
     (400, "malformed_json")),
    ("foreign from", (RAW % b"2").replace(b"From: bot@", b"From: ceo@"),
     '{"to":["a@example.org"]}', (422, "sender_mismatch")),
    ("two from", b"From: bot@acme.example\r\n" + RAW % b"3",
     '{"to":["a@example.org"]}', (422, None)),
    ("bare lf", (RAW % b"4").replace(b"\r\n.\r\n", b"\n.\r\n"),
     '{"to":["a@example.org"]}', (422, "message_malformed")),
    ("bare cr", (RAW % b"5").replace(b"\r\n.\r\n", b"\r.\r\n"),
     '{"to":["a@example.org"]}', (422, "message_malformed")),
    ("nul", (RAW % b"6").replace(b"body", b"bo\0y"),
     '{"to":["a@example.org"]}', (422, "message_malformed")),
    ("empty", b"", '{"to":["a@example.org"]}', (422, None)),
    ("no header", b"\r\nbody\r\n", '{"to":["a@example.org"]}', (422, None)),
    ("not mail", b"\x00\xff" * 500, '{"to":["a@example.org"]}', (422, None)),
]


@pytest.mark.parametrize("data,env,want", [r[1:] for r in RAW_REFUSED],
                         ids=[r[0] for r in RAW_REFUSED])
def test_raw_refused(gate, bot, data, env, want):
    before = gate.count()
    headers = {"Content-Type": "message/rfc822"}
    if env is not None:
        headers["X-Postern-Envelope"] = env
    got = refusal(bot.call("POST", "/v1/messages/send", data, headers))
    assert got[0] == want[0] and want[1] in (None, got[1]), got
    assert gate.count() == before


def test_lists_of_an_inbox(bot):
    """(test_rest_agentmail.py asks more, by the stock client.)"""
    path, entry = "/v1/lists/send/block", "leave-me@list.example"
    made = bot.call("POST", path, {"entry": entry, "reason": "asked us to"})
    assert (made[0], made[2]["entry"]) == (201, entry)
    again = bot.call("POST", path, {"entry": entry})
    assert again[0] == 200
    assert again[2]["created_at"] == made[2]["created_at"]
    status, _, got = bot.get(path + "/" + entry)
    assert (status, got["reason"]) == (200, "asked us to")


def test_raw_of_the_compatible_api(bot, gate):
    sent = stored(bot.send(subject="as it is"))
    status, _, got = bot.get("/v0/inboxes/%s/messages/%s/raw" % (
        gate.boxes[0].address, sent["message_id"]))
    assert status == 200, got
    assert got["message_id"] == sent["message_id"]


def test_type_of_body(bot):
    for headers in ({}, {"Content-Type": "text/plain"},
                    {"Content-Type": "multipart/mixed; boundary=x"},
                    {"Content-Type": "application/json",
                     "Content-Encoding": "gzip"}):
        got = bot.call("POST", "/v1/messages/send", b"{}", headers)
        assert refusal(got) == (415, "unsupported_media_type")
    got = bot.call("POST", "/v1/messages/send", json.dumps(MAIL).encode(),
                   {"Content-Type": "Application/JSON; charset=utf-8"})
    assert got[0] == 202


def test_json_over_its_cap(bot):
    got = bot.send(text="x" * (1 << 20))
    assert refusal(got) == (413, "payload_too_large")


HOSTILE_JSON = {
    "empty": b"",
    "truncated": b'{"to": ["a@example.org"',
    "trailing": json.dumps(MAIL).encode() + b"x",
    "two documents": json.dumps(MAIL).encode() * 2,
    "array": b"[]",
    "string": b'"x"',
    "null": b"null",
    "duplicate name": b'{"to":"a@example.org","to":"b@example.org"}',
    "duplicate escaped": b'{"to":"a@example.org","\\u0074o":"b@example.org"}',
    "nul escape": b'{"to":"a@example.org","subject":"a\\u0000b"}',
    "raw control": b'{"to":"a@example.org","subject":"a\nb"}',
    "bad utf-8": b'{"to":"a@example.org","subject":"\xff"}',
    "overlong utf-8": b'{"to":"a@example.org","subject":"\xc0\x80"}',
    "lone surrogate": b'{"to":"a@example.org","subject":"\\ud800"}',
    "bom": b"\xef\xbb\xbf{}",
    "comment": b'{/* x */"to":"a@example.org"}',
    "single quotes": b"{'to':'a@example.org'}",
    "nan": b'{"to":"a@example.org","duplicate":NaN}',
    "huge number": b'{"to":"a@example.org","x":1e400}',
    "leading zero": b'{"to":"a@example.org","x":01}',
    "deep": b'{"to":' + b"[" * 40 + b"]" * 40 + b"}",
    "very deep": b"[" * 200000,
    "deep objects": b'{"a":' * 100000,
    "deep in turns": b'{"to":' + b'[{"a":' * 16 + b"1" + b"}]" * 16 + b"}",
    "utf-16": json.dumps(MAIL).encode("utf-16"),
}


@pytest.mark.parametrize("name", HOSTILE_JSON)
def test_hostile_json(gate, bot, name):
    before = gate.count()
    got = bot.call("POST", "/v1/messages/send", HOSTILE_JSON[name],
                   {"Content-Type": "application/json"})
    assert refusal(got) == (400, "malformed_json")
    assert gate.count() == before


@pytest.mark.parametrize("change,field", [
    ({"to": []}, "to"), ({"to": None}, "to"), ({"to": 1}, "to"),
    ({"to": [1]}, "to"), ({"to": {"a": 1}}, "to"), ({"to": [["a@b.c"]]}, "to"),
    ({"subject": 1}, "subject"), ({"subject": ["x"]}, "subject"),
    ({"subject": "x" * 1000}, "subject"),
    ({"text": 1}, "text"), ({"html": {}}, "html"),
    ({"labels": "x"}, "labels"), ({"labels": [""]}, "labels"),
    ({"labels": ["a\nb"]}, "labels"), ({"labels": ["x"] * 21}, "labels"),
    ({"labels": ["x" * 65]}, "labels"),
    ({"headers": []}, "headers"), ({"headers": {"X-A": 1}}, "headers"),
    ({"headers": {"X-%d" % i: "" for i in range(51)}}, "headers"),
    ({"attachments": {}}, "attachments"),
    ({"attachments": ["x"]}, "attachments[0]"),
    ({"attachments": [{}]}, "attachments[0].content"),
    ({"attachments": [{"filename": "a"}]}, "attachments[0].content"),
    ({"attachments": [{"filename": "a", "content": "!"}]},
     "attachments[0].content"),
    ({"attachments": [{"filename": "a", "content": "YQ==\n"}]},
     "attachments[0].content"),
    ({"attachments": [{"filename": "a", "url": "http://127.0.0.1/"}]},
     "attachments[0].url"),
    ({"attachments": [{"filename": "a", "content": ""}] * 101},
     "attachments"),
    ({"context": "x"}, "context"), ({"context": {"x": "y"}}, "context.x"),
    ({"context": {"purpose": "x" * 1001}}, "context.purpose"),
    ({"duplicate": "yes"}, "duplicate"), ({"revises": "msg_1"}, "revises"),
    ({"not_after": "tomorrow"}, "not_after"),
    ({"not_after": "2026-02-30T00:00:00Z"}, "not_after"),
    ({"send_at": "2030-01-01T00:00:00Z"}, "send_at"),
    ({"bccc": "x@example.org"}, "bccc"), ({"from": "x@example.org"}, "from"),
    ({"oversight_mode": "autonomous"}, "oversight_mode"),
    ({"inbox_id": "two@acme.example"}, "inbox_id"),
])
def test_fields_are_checked(gate, bot, change, field):
    before = gate.count()
    got = bot.send(**change)
    assert got[0] == 422, got
    assert got[2]["field"].startswith(field), got[2]
    assert gate.count() == before


def test_mail_for_later(gate, bot):
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(
        time.time() + 7200))
    doc = stored(bot.send(subject="later", send_at=when))
    assert doc["status"] == "held"
    got = bot.get("/v1/messages/" + doc["message_id"])[2]
    assert got["send_at"].startswith(when[:-1])
    row = gate.sql("SELECT send_at FROM d.message WHERE subject = 'later'")
    assert row[0]["send_at"] % 1000000 == 0
    doc = stored(bot.send_raw(RAW % b"later", send_at=when))
    got = bot.get("/v1/messages/" + doc["message_id"])[2]
    assert got["send_at"].startswith(when[:-1])
    for more in ({"not_after": when}, {"send_at": "soon"},
                 {"send_at": "2099-01-01T00:00:00Z"}):
        assert refusal(bot.send(**dict({"send_at": when}, **more))) == (
            422, "validation_error")
    path = "/v1/messages/%s/cancel" % doc["message_id"]
    assert bot.call("POST", path)[2]["status"] == "canceled"


def test_a_last_hour_that_is_over(bot):
    """Refused with its name; what was stored before it is still found."""
    got = bot.send(not_after="2020-01-31T12:00:00Z")
    assert refusal(got) == (422, "validation_error")
    assert (got[2]["field"], got[2]["message"]) == (
        "not_after", "lies in the past")
    for lead in 2, 8, 32:  # what a busy machine needs to be in time
        until = time.time() + lead
        mail = {"subject": "in time", "not_after": time.strftime(
            "%Y-%m-%dT%H:%M:%SZ", time.gmtime(until))}
        key = {"Idempotency-Key": "in-time-%d" % lead}
        got = bot.send(key, **mail)
        if got[0] == 202:
            break
    doc = stored(got)
    postern.wait_until("it is over", lambda: time.time() > until)
    again = bot.send(key, **mail)
    assert stored(again)["message_id"] == doc["message_id"]
    assert again[1]["idempotent-replay"] == "true"


@pytest.mark.parametrize("address", [
    "", "ada", "@example.org", "ada@", "ada@@example.org", "ada@exa mple.org",
    "ada@example..org", "<ada@example.org", "ada@example.org>",
    "ada@example.org, eve@example.org", "ada@example.org\r\nBcc: e@example.org",
    "ada@example.org\n", "ada\0@example.org"[:3] + "\x01@example.org",
    "Ada\r\nBcc: eve@example.org <ada@example.org>", "x" * 2000,
    "ada@" + "a" * 300 + ".org", "ada@example.org;eve@example.org",
    "group: ada@example.org;", "@route:ada@example.org",
])
@pytest.mark.parametrize("kind", ["to", "cc", "bcc"])
def test_addresses_are_checked(gate, bot, kind, address):
    before = gate.count()
    got = bot.send(**{kind: [address]})
    assert got[0] == 422, got
    assert got[2]["code"] in ("invalid_address", "validation_error")
    assert got[2]["field"].startswith(kind)
    assert gate.count() == before


INJECTIONS = ["a\r\nBcc: eve@example.org", "a\nBcc: eve@example.org",
              "a\rBcc: eve@example.org", "a\r\n\r\nbody", "a\x0bb", "a\x00b"[:1]
              + "\x07b", "a\x7fb", "a\r\n b", "a\u2028b\nc", "a\x85\nb"]


@pytest.mark.parametrize("value", INJECTIONS)
@pytest.mark.parametrize("place", [
    lambda v: {"subject": v},
    lambda v: {"reply_to": "x %s <ada@example.org>" % v},
    lambda v: {"to": ["%s <ada@example.org>" % v]},
    lambda v: {"headers": {"X-Test": v}},
    lambda v: {"headers": {"X-%s" % v: "x"}},
    lambda v: {"in_reply_to": "<%s@x.org>" % v},
    lambda v: {"references": ["<%s@x.org>" % v]},
    lambda v: {"attachments": [{"filename": v, "content": "YQ=="}]},
    lambda v: {"attachments": [{"filename": "a", "content": "YQ==",
                                "content_type": "text/plain; x=" + v}]},
    lambda v: {"attachments": [{"filename": "a", "content": "YQ==",
                                "content_id": v}]},
])
def test_header_injection_is_refused(gate, bot, place, value):
    before = gate.count()
    got = bot.send(**place(value))
    assert got[0] == 422, got
    assert got[2]["field"], got[2]
    assert gate.count() == before


@pytest.mark.parametrize("name", [
    "From", "from", "Sender", "To", "Cc", "Bcc", "Reply-To", "Subject",
    "Date", "Message-ID", "Return-Path", "Received", "Content-Type",
    "Content-Transfer-Encoding", "MIME-Version", "DKIM-Signature",
    "ARC-Seal", "Authentication-Results", "Resent-From", "X-Postern-Id",
    "Postern-Identity", "Bad Name", "Bad:Name", "", "X-\u00e9",
])
def test_forbidden_headers(gate, bot, name):
    before = gate.count()
    got = bot.send(headers={name: "x"})
    assert got[0] == 422, got
    assert got[2]["code"] in ("header_forbidden", "validation_error")
    assert gate.count() == before


def test_idempotency(gate, bot):
    before = gate.count()
    key = {"Idempotency-Key": "k-" + os.urandom(8).hex()}
    first = stored(bot.send(http=key, subject="idem"))
    status, headers, again = bot.send(http=key, subject="idem")
    assert status == 202 and headers["idempotent-replay"] == "true"
    assert again["message_id"] == first["message_id"]
    assert again["digest"] == first["digest"]
    other = bot.send(http=key, subject="other")
    assert refusal(other) == (409, "idempotency_conflict")
    assert gate.count() == before + 1
    # the present status, truthfully
    path = "/v1/messages/%s/cancel" % first["message_id"]
    assert bot.call("POST", path)[2]["status"] == "canceled"
    assert bot.send(http=key, subject="idem")[2]["status"] == "canceled"
    # the same by another path of the same request, and by another inbox
    status, headers, again = bot.call(
        "POST", "/v1/inboxes/me/messages/send", dict(MAIL, subject="idem"),
        key)
    assert again["message_id"] == first["message_id"]
    other = Client(gate, gate.boxes[1].key).send(http=key, subject="idem")
    assert stored(other)["message_id"] != first["message_id"]


def test_idempotency_of_raw(gate, bot):
    key = {"Idempotency-Key": "r-" + os.urandom(8).hex()}
    first = stored(bot.send_raw(RAW % b"idem", http=key))
    again = bot.send_raw(RAW % b"idem", http=key)
    assert again[2]["message_id"] == first["message_id"]
    assert again[1]["idempotent-replay"] == "true"
    # another body, another envelope: another request
    for data, to in ((RAW % b"idem2", ["ada@example.org"]),
                     (RAW % b"idem", ["eve@example.org"])):
        got = bot.send_raw(data, to=to, http=key)
        assert refusal(got) == (409, "idempotency_conflict")


def test_same_request_while_held(gate, bot):
    subject = "once " + os.urandom(8).hex()
    first = stored(bot.send(subject=subject))
    again = bot.send(subject=subject)
    assert again[2]["already_held"] is True
    assert again[2]["message_id"] == first["message_id"]
    third = stored(bot.send(subject=subject, duplicate=True))
    assert third["message_id"] != first["message_id"]
    bot.call("POST", "/v1/messages/%s/cancel" % first["message_id"])


@pytest.mark.parametrize("key", [
    " ", "a b", "a" * 257, "a/b", "\u00e9".encode().decode("latin-1"), "a,b"])
def test_bad_idempotency_keys(bot, key):
    got = bot.send(http={"Idempotency-Key": key})
    assert refusal(got) == (422, "validation_error")
    assert got[2]["field"] == "Idempotency-Key"


def test_cancel_and_its_conflict(bot):
    doc = stored(bot.send(subject="cancel"))
    path = "/v1/messages/%s" % doc["message_id"]
    got = bot.call("POST", path + "/cancel")
    assert got[0] == 200 and got[2]["status"] == "canceled"
    got = bot.call("POST", path + "/cancel")
    assert refusal(got) == (409, "state_conflict")
    assert got[2]["status"] == "canceled"
    assert bot.get(path)[2]["status"] == "canceled"
    kinds = [e["type"] for e in bot.get(path + "/events")[2]["events"]]
    assert kinds == ["message.held", "message.canceled"]


def test_list_pages_and_filters(gate):
    box = gate.add_inbox("lister@acme.example", "acme")
    agent = Client(gate, box.key)
    ids = [stored(agent.send(subject="m%d" % i, labels=["l%d" % (i % 2)]))
           ["message_id"] for i in range(7)]
    seen, token = [], ""
    while True:
        page = agent.get("/v1/messages?limit=3" + token)[2]
        assert page["count"] == len(page["messages"]) <= page["limit"] == 3
        seen += [m["message_id"] for m in page["messages"]]
        if page["next_page_token"] is None:
            break
        token = "&page_token=" + page["next_page_token"]
    assert seen == ids[::-1]
    labeled = agent.get("/v1/messages?labels=l0")[2]["messages"]
    assert [m["message_id"] for m in labeled] == ids[::-1][::2]
    both = agent.get('/v1/messages?labels=["l0","l1"]'.replace('"', "%22"))
    assert both[2]["messages"] == []
    same = agent.get("/v1/messages?labels=%5B%22l1%22%5D")[2]["messages"]
    assert [m["message_id"] for m in same] == ids[::-1][1::2]
    assert refusal(agent.get("/v1/messages?labels=%5B1%5D"))[0] == 422
    assert refusal(agent.get("/v1/messages?labels=%5B"))[0] == 422
    agent.call("POST", "/v1/messages/%s/cancel" % ids[0])
    held = agent.get("/v1/messages?status=held&limit=100")[2]
    assert held["count"] == 6
    both = agent.get("/v1/messages?status=canceled,%20held&limit=100")[2]
    assert both["count"] == 7
    # a token belongs to its filters and to its key
    token = agent.get("/v1/messages?limit=3")[2]["next_page_token"]
    for who, query in ((agent, "status=held&"), (agent, "labels=x&"),
                       (Client(gate, gate.boxes[0].key), ""),
                       (Client(gate, box.smtp_key), "")):
        got = who.get("/v1/messages?%slimit=3&page_token=%s" % (query, token))
        assert refusal(got) == (422, "validation_error")


def test_a_filter_given_twice_is_refused(bot):
    """Only one of them would hold."""
    for query in ("labels=a&labels=b", "status=held&limit=1&status=sent",
                  "limit=1&%6cimit=1", "x&x"):
        got = bot.get("/v1/messages?" + query)
        assert refusal(got) == (422, "validation_error"), query
        assert got[2]["field"] == query.split("=")[0].split("&")[0]
    assert bot.get("/v1/messages?limit=1&status=held&")[0] == 200


@pytest.mark.parametrize("query,want", [
    ("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"),
    ("limit=-1", "limit"), ("status=pending", "status"),
    ("status=new", "status"), ("page_token=x", "page_token"),
    ("page_token=" + "A" * 54, "page_token"),
    ("page_token=" + "A" * 2000, "page_token"),
    ("before=now", "before"), ("after=2026-13-01T00:00:00Z", "after"),
    ("direction=up", "direction"),
])
def test_list_refuses(bot, query, want):
    got = bot.get("/v1/messages?" + query)
    assert got[0] == 422 and got[2]["field"] == want


def test_receiving_is_not_enabled(bot):
    got = bot.get("/v1/messages?direction=received")
    assert refusal(got) == (501, "receiving_not_enabled")


def test_scope_of_a_send_key(gate):
    box = gate.add_inbox("sender@acme.example", "acme")
    full, send = Client(gate, box.key), Client(gate, box.smtp_key)
    by_full = stored(full.send(subject="by full"))["message_id"]
    by_send = stored(send.send(subject="by send"))["message_id"]
    assert send.get("/v1/messages/" + by_send)[0] == 200
    assert refusal(send.get("/v1/messages/" + by_full))[0] == 404
    assert refusal(send.get("/v1/messages/%s/raw" % by_send)) == (
        403, "missing_permission")
    listed = send.get("/v1/messages")[2]["messages"]
    assert [m["message_id"] for m in listed] == [by_send]
    assert refusal(send.call(
        "POST", "/v1/messages/%s/cancel" % by_full))[0] == 404
    assert send.call("POST", "/v1/messages/%s/cancel" % by_send)[0] == 200
    assert full.get("/v1/messages/" + by_send)[0] == 200


def test_mode_only_gets_stricter(gate):
    box = gate.add_inbox("strict@acme.example", "acme")
    agent = Client(gate, box.key)

    def patch(mode):
        return agent.call("PATCH", "/v1/inboxes/me", {"oversight_mode": mode})

    for looser in ("monitored", "autonomous"):
        assert refusal(patch(looser)) == (403, "missing_permission")
    for wrong in ("read_only", "x", "", None, 3):
        assert refusal(patch(wrong)) == (422, "validation_error")
    assert patch("gated_all")[2]["oversight_mode"] == "gated_all"
    assert refusal(patch("gated_send")) == (403, "missing_permission")
    assert agent.get("/v1/auth/me")[2]["oversight_mode"] == "gated_all"
    assert stored(agent.send())["status"] == "held"
    got = agent.call("PATCH", "/v1/inboxes/me",
                     {"oversight_mode": "gated_all", "display_name": "x"})
    assert (got[0], got[2]["display_name"]) == (200, "x")


def test_read_only_inbox_cannot_send(gate):
    box = gate.add_inbox("mute@acme.example", "acme")
    gate.set_mode(box, 0)
    agent = Client(gate, box.key)
    assert refusal(agent.send()) == (403, "inbox_read_only")
    assert "send" not in agent.get("/v1/auth/me")[2]["permissions"]


def stop_inbox(gate, box, what):
    if what == "inbox_read_only":
        gate.set_mode(box, 0)
    elif what == "missing_permission":
        gate.sql("UPDATE d.inbox SET suspended_at = now() "
                 "WHERE inbox_id = %s", box.inbox_id)
    else:
        gate.sql("UPDATE d.domain SET verified_at = NULL "
                 "WHERE domain = 'acme.example'")


@pytest.mark.parametrize("what", ["inbox_read_only", "domain_not_verified",
                                  "missing_permission"])
def test_what_is_held_is_told_after_its_inbox_was_stopped(gate, what):
    """Its agent lost the answer and repeats the request (D15, 0119)."""
    box = gate.add_inbox("%s@acme.example" % what.replace("_", "-"), "acme")
    agent, other = Client(gate, box.key), Client(gate, box.smtp_key)
    keyed = {"Idempotency-Key": "lost"}
    first = stored(agent.send(http=keyed))
    second = stored(agent.send(subject="no key"))
    draft = agent.call("POST", "/v1/drafts", MAIL)[2]["draft_id"]
    (row,) = gate.sql("SELECT draft_id, head, body FROM d.draft "
                      "WHERE inbox_id = %s", box.inbox_id)
    third = stored(agent.call("POST", "/v1/drafts/%s/send" % draft))
    unsent = agent.call("POST", "/v1/drafts", MAIL)[2]["draft_id"]
    # A gateway that died before the draft was made its message.
    gate.sql("UPDATE d.draft SET message_id = NULL, head = %s, body = %s "
             "WHERE draft_id = %s", row["head"], row["body"],
             row["draft_id"])
    before = gate.count()
    stop_inbox(gate, box, what)
    try:
        status, headers, doc = agent.send(http=keyed)
        assert (status, doc["message_id"]) == (202, first["message_id"])
        assert headers["idempotent-replay"] == "true"
        again = stored(agent.send(subject="no key"))
        assert (again["message_id"], again["already_held"]) == (
            second["message_id"], True)
        assert stored(agent.call("POST", "/v1/drafts/%s/send" % draft))[
            "message_id"] == third["message_id"]
        # Only what was stored, and only who stored it.
        refused = 403, what
        assert refusal(agent.send(subject="new")) == refused
        assert refusal(other.send(http=keyed)) == refused
        assert refusal(agent.call("POST", "/v1/drafts/%s/send" % unsent)) == \
            refused
        assert refusal(agent.send(http=keyed, subject="other")) == (
            409, "idempotency_conflict")
    finally:
        gate.sql("UPDATE d.domain SET verified_at = now() "
                 "WHERE domain = 'acme.example'")
    assert gate.count() == before
    gate.revoke(box, int(box.key.split("_")[3]))
    assert refusal(agent.send(http=keyed)) == (401, "unknown_api_key")


def test_ungated_inbox_is_approved_at_once(gate):
    box = gate.add_inbox("free@acme.example", "acme")
    gate.set_mode(box, 4)
    doc = stored(Client(gate, box.key).send())
    assert doc["status"] == "approved" and doc["hold"] is None


def test_what_is_taken_back_says_why_it_waits(gate):
    """Let go by a mode that is no more: it waits as all mail does there."""
    box = gate.add_inbox("tight@acme.example", "acme")
    gate.set_mode(box, 3)
    agent = Client(gate, box.key)
    mid = stored(agent.send())["message_id"]
    gate.set_mode(box, 2)
    while any(r["more"] for r in gate.sql("SELECT * FROM api.sweep_1(100)",
                                          user="l_worker")):
        pass
    doc = agent.get("/v1/messages/" + mid)[2]
    assert (doc["status"], doc["hold"]["reasons"]) == ("held", ["mode"])


def operations():
    with open(os.path.join(TOP, "api", "openapi.json"), encoding="utf-8") as f:
        doc = json.load(f)
    for path, item in doc["paths"].items():
        for method in ("get", "post", "patch", "put", "delete"):
            if method in item:
                for p in [path] + item.get("x-aliases", []):
                    yield method.upper(), p, item[method]


def body_of(op):
    if op["operationId"] == "messages_send":
        return dict(MAIL, subject="isolation")
    if op["operationId"] == "inboxes_patch":
        return {"oversight_mode": "gated_all"}
    if op["operationId"] == "sessions_extend":
        return {"expires_in": 60}
    if op["operationId"] in ("messages_reply", "drafts_create",
                             "drafts_patch"):
        return {"text": "isolation"}
    if op["operationId"] == "messages_forward":
        return {"to": ["eve@example.org"]}
    if op["operationId"] == "messages_patch":
        return {"add_labels": ["isolation"]}
    return None


def test_isolation_matrix(gate):
    """Every route, every inbox's key, every other inbox's name and ids."""
    ids = {}
    for b in gate.boxes:
        agent = Client(gate, b.key)
        doc = stored(agent.send(
            subject="secret of " + b.address,
            attachments=[{"filename": "a", "content": "YQ=="}]))
        message = doc["message_id"]
        [a] = agent.get("/v1/messages/" + message)[2]["attachments"]
        draft = agent.call("POST", "/v1/drafts", {
            "subject": "secret of " + b.address})[2]["draft_id"]
        ids[b.address] = {"message": message, "thread": doc["thread_id"],
                          "attachment": a["attachment_id"], "draft": draft,
                          "session": str(b.full_key_id),
                          "key": str(b.full_key_id),
                          "capture": "1", "grant": "999999"}
    before = gate.sql("SELECT * FROM d.state ORDER BY message_id")
    modes = gate.sql("SELECT inbox_id, mode FROM d.inbox ORDER BY 1")
    drafts = gate.sql("SELECT * FROM d.draft ORDER BY draft_id")
    tried = 0
    for me in gate.boxes:
        for key in (me.key, me.smtp_key):
            for other in gate.boxes:
                if other is not me:
                    tried += attack(Client(gate, key), me, other,
                                    ids[other.address])
    assert tried > 400
    assert gate.sql("SELECT * FROM d.draft ORDER BY draft_id") == drafts
    assert gate.sql("SELECT * FROM d.message_label") == []
    assert gate.sql("SELECT * FROM d.state ORDER BY message_id") == before
    assert gate.sql("SELECT inbox_id, mode FROM d.inbox ORDER BY 1") == modes
    for b in gate.boxes:
        for key in (b.key, b.smtp_key):
            assert Client(gate, key).get("/v1/auth/me")[0] == 200


def attack(agent, me, other, ids):
    """All routes that name something of `other`."""
    tried = 0
    for method, path, op in operations():
        inboxes = ["me", me.address, other.address]
        if "{inbox_id}" not in path:
            inboxes = [None]
        elif not re.search("{(%s)_id}" % "|".join(ids), path):
            inboxes = [other.address]
        if op["x-principal"] == "none" or "_id}" not in path:
            continue
        for inbox in inboxes:
            target = re.sub(r"{(\w+)_id}", lambda m: dict(
                ids, inbox=inbox)[m.group(1)], path)
            for name, value in (("direction", "send"), ("entry", "a@b.example"),
                                ("list_type", "block")):
                target = target.replace("{%s}" % name, value)
            got = agent.call(method, target, body_of(op))
            # 403 only for a send key where no send key may go at all
            allowed = {404, 403} if op["x-principal"] in (
                "read", "full") else {404}
            assert refusal(got)[0] in allowed, (method, target, got)
            assert "secret of" not in json.dumps(got[2])
            tried += 1
    return tried


@pytest.mark.parametrize("message", [
    "msg_", "msg_0", "x", "msg_" + "0" * 26, "msg_" + "z" * 26,
    "thr_01h4000000e008000000000001", "MSG_01h4000000e008000000000001",
    "msg_01H4000000E008000000000001", "%00", "..", "'", "1%20OR%201=1",
    "msg_01h4000000e008000000000001"])
def test_ids_that_are_none(bot, message):
    for method, tail in (("GET", ""), ("GET", "/raw"), ("GET", "/events"),
                         ("POST", "/cancel")):
        got = bot.call(method, "/v1/messages/" + message + tail)
        assert refusal(got)[0] in (404, 400)


def test_wrong_methods(bot):
    got = bot.call("DELETE", "/v1/auth/me")
    assert refusal(got) == (405, "method_not_allowed")
    assert got[1]["allow"] == "GET, HEAD"
    got = bot.get("/v1/messages/send")
    assert refusal(got)[0] in (404, 405)


def test_head_has_no_body(bot):
    status, headers, data = bot.call("HEAD", "/v1/auth/me")
    assert status == 200 and data == b""
    assert int(headers["content-length"]) > 100


def test_too_many_recipients(gate, bot):
    many = ["r%d@example.org" % i for i in range(101)]
    assert refusal(bot.send(to=many)) == (422, "too_many_recipients")
    assert stored(bot.send(to=many[:100], subject="hundred"))


def test_a_limit_says_what_remains(gate):
    box = gate.add_inbox("limited@acme.example", "acme")
    agent = Client(gate, box.key)
    gate.sql("UPDATE d.inbox SET lim_hour = 3, limits_version "
             "= limits_version + 1 WHERE address = %s", box.address)
    for left in (2, 1, 0):
        status, headers, _ = agent.send(subject="left %d" % left)
        assert status == 202
        assert headers["ratelimit"].startswith('"hour";r=%d;t=' % left)
    status, headers, doc = agent.send(subject="one more")
    assert (status, doc["code"], doc["retry"]) == (
        429, "rate_limited", "after")
    wait = int(headers["retry-after"])
    # a window slides by its buckets (store/postern.lua), here 12 and one
    assert doc["retry_after"] == wait and 0 < wait <= 3600 * 13 / 12
    assert headers["ratelimit-policy"] == '"hour";q=3;w=3600'
    assert headers["ratelimit"] == '"hour";r=0;t=%d' % wait
    # inboxes share no counter
    assert Client(gate, gate.boxes[1].key).send(duplicate=True)[0] == 202


def test_a_reached_limit_keeps_no_first_answer_back(gate):
    box = gate.add_inbox("again@acme.example", "acme")
    agent = Client(gate, box.key)
    gate.sql("UPDATE d.inbox SET lim_hour = 3, limits_version "
             "= limits_version + 1 WHERE address = %s", box.address)
    keys = [{"Idempotency-Key": "again-%d" % i} for i in range(4)]
    first = [stored(agent.send(http=key)) for key in keys[:3]]
    for key, was in zip(keys, first):
        status, headers, doc = agent.send(http=key)
        assert status == 202 and headers["idempotent-replay"] == "true"
        assert doc == was
        assert headers["ratelimit"].startswith('"hour";r=0;t=')
    # nothing else goes through
    assert refusal(agent.send(http=keys[3])) == (429, "rate_limited")
    assert refusal(agent.send(subject="new")) == (429, "rate_limited")
    assert refusal(agent.send(http=keys[0], subject="other")) == (
        409, "idempotency_conflict")
    # the present status, and nothing was charged or given back for it
    path = "/v1/messages/%s/cancel" % first[0]["message_id"]
    assert agent.call("POST", path)[0] == 200
    assert agent.send(http=keys[0])[2]["status"] == "canceled"
    assert refusal(agent.send(subject="new")) == (429, "rate_limited")


def test_it_says_when_it_may_have_been_sent(gate):
    """A dot that nobody answered stays in doubt, whatever comes of it."""
    box = gate.add_inbox("doubt@acme.example", "acme")
    agent = Client(gate, box.key)
    gate.set_mode(box, 4)
    path = "/v1/messages/" + stored(agent.send(subject="doubt"))["message_id"]

    def told():
        doc = agent.get(path)[2]
        listed, = agent.get("/v1/messages")[2]["messages"]
        assert [listed[k] for k in ("status", "may_have_been_sent")] == [
            doc["status"], doc["may_have_been_sent"]]
        return doc["status"], doc["may_have_been_sent"]
    assert told() == ("approved", False)
    mid = gate.sql("SELECT message_id AS i FROM d.message WHERE inbox_id = %s",
                   box.inbox_id)[0]["i"]
    # what a worker says of it
    gate.sql("SELECT * FROM api.claim_due_1('w', 500, 600)", user="l_worker")
    q, = gate.sql("SELECT tenant_id, domain, lease FROM d.send_q WHERE "
                  "message_id = %s AND lease IS NOT NULL", mid)
    lease = (q["tenant_id"], mid, q["domain"], q["lease"])
    assert gate.api("attempt_1", *lease, "mx.example", "", [1],
                    user="l_worker")["go"]
    assert gate.api("dot_1", *lease, [1], user="l_worker")["go"]
    assert told() == ("sending", False)
    gate.api("done_1", *lease, [1], [6], [0], [""], [""], 60, "lost",
             user="l_worker")
    assert told() == ("uncertain", True)
    # held again, as after a restore, and taken back by the agent
    gate.sql("SET ROLE p_ctl; UPDATE d.state SET state = 1, round = round + 1,"
             " hold_until = now() + interval '1 day', detail = 'restored' "
             "WHERE message_id = %s RETURNING 1", mid)
    assert told() == ("held", True)
    assert agent.call("POST", path + "/cancel")[0] == 200
    assert told() == ("canceled", True)


def test_no_more_than_so_many_wait(gate):
    box = gate.add_inbox("waiting@acme.example", "acme")
    agent = Client(gate, box.key)
    gate.sql("UPDATE d.inbox SET lim_held = 1, limits_version "
             "= limits_version + 1 WHERE address = %s", box.address)
    key = {"Idempotency-Key": "waiting"}
    first = stored(agent.send(http=key))
    for _ in range(2):
        assert refusal(agent.send(subject="held")) == (429, "held_limit")
    # what was stored before is found by its key all the same
    assert stored(agent.send(http=key))["message_id"] == first["message_id"]
    path = "/v1/messages/%s/cancel" % first["message_id"]
    assert agent.call("POST", path)[0] == 200
    assert agent.send(subject="held")[0] == 202


def test_metrics_count_rest(gate, bot):
    stored(bot.send(subject="count me"))
    c = http.client.HTTPConnection("127.0.0.1", gate.metrics_port)
    c.request("GET", "/metrics")
    text = c.getresponse().read().decode()
    c.close()
    found = re.search(
        r'postern_submissions_total\{door="rest",outcome="held"\} (\d+)',
        text)
    assert found and int(found.group(1)) > 0


def test_logs_hold_no_key_and_no_body(gate, bot):
    stored(bot.send(text="marker-of-the-body", subject="log"))
    with open(gate.path("log", "posternd.jsonl"), encoding="utf-8") as f:
        text = f.read()
    for box in gate.boxes:
        for key in (box.key, box.smtp_key):
            assert key not in text and key.split("_")[-1] not in text
    assert "marker-of-the-body" not in text
    assert '"event":"api.stored"' in text and '"event":"api.request"' in text
