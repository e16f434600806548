# SPDX-License-Identifier: ISC
"""/v0 with the stock npm client; replies and threads with our own."""

import base64
import contextlib
import http.client
import http.server
import os
import socket
import ssl
import threading
import time

import pytest

from tests.lib import agents, leaks, postern
from tests.blackbox.test_rest_cut import Cutter
from tests.blackbox.test_rest import Client, MAIL, RAW, refusal, stored


@pytest.fixture(scope="module")
def gate():
    with postern.Deployment() as d:
        d.add_tenant("acme", "acme.example")
        d.sql("UPDATE d.plan SET lim_hour = 100000, lim_day = 100000, "
              "lim_month = 1000000, lim_held = 100000")
        d.box = d.add_inbox("bot@acme.example", "acme")
        d.other = d.add_inbox("two@acme.example", "acme")
        d.start("posternd")
        yield d


@pytest.fixture
def bot(gate):
    return Client(gate, gate.box.key)


class Stock(agents.Script):
    def __init__(self, gate, key=None, port=None):
        agents.need_node()
        super().__init__(gate, "agentmail.mjs", "https://localhost:%d" % (
            port or gate.api_port), key or gate.box.key)

    def __call__(self, call, *args):
        got = self.ask(call=call, args=list(args))
        assert "data" in got, got
        return got["data"]

    def fails(self, call, *args):
        got = self.ask(call=call, args=list(args))
        assert "error" in got, got
        return got


@pytest.fixture(scope="module")
def stock(gate):
    with Stock(gate) as s:
        yield s


BOX = "bot@acme.example"


def test_who_and_which_inbox(stock, gate):
    me = stock("auth.me")
    assert (me["scopeType"], me["inboxId"]) == ("inbox", BOX)
    assert me["organizationId"] == "acme"
    listed = stock("inboxes.list")
    assert [i["inboxId"] for i in listed["inboxes"]] == [BOX]
    box = stock("inboxes.get", BOX)
    assert (box["email"], box["podId"]) == (BOX, "acme")
    assert box["createdAt"].startswith("20")
    assert stock.fails("inboxes.get", gate.other.address)["error"] == \
        "NotFoundError"


def test_what_is_sent_is_held_and_says_so(stock, gate):
    sent = stock("inboxes.messages.send", BOX, {
        "to": "ada@example.org", "cc": ["bob@example.org"],
        "subject": "stock", "text": "plain", "html": "<p>html</p>",
        "labels": ["x"], "headers": {"X-Kind": "test"}, "attachments": [
            {"filename": "a.bin", "content": "AAEC",
             "contentType": "application/octet-stream"}]})
    assert sent["status"] == "held"
    got = stock("inboxes.messages.get", BOX, sent["messageId"])
    assert (got["subject"], got["to"], got["cc"], got["labels"]) == (
        "stock", ["ada@example.org"], ["bob@example.org"], ["x"])
    assert got["text"].rstrip() == "plain" and "<p>" in got["html"]
    assert got["threadId"] == sent["threadId"]
    item = got["attachments"][0]
    found = stock("inboxes.messages.getAttachment", BOX, sent["messageId"],
                  item["attachmentId"])
    assert (found["filename"], found["size"]) == ("a.bin", 3)
    assert stock.ask(fetch=found["downloadUrl"])["base64"] == "AAEC"
    raw = stock("inboxes.messages.getRaw", BOX, sent["messageId"])
    data = base64.b64decode(stock.ask(fetch=raw["downloadUrl"])["base64"])
    assert b"\r\nSubject: stock\r\n" in data
    page = stock("inboxes.messages.list", BOX, {"limit": 1})
    assert page["messages"][0]["messageId"] == sent["messageId"]
    assert page["nextPageToken"]
    older = stock("inboxes.messages.list", BOX, {
        "limit": 1, "pageToken": page["nextPageToken"]})
    assert sent["messageId"] not in [
        m["messageId"] for m in older["messages"]]


def test_replies_make_a_thread(stock, gate):
    sent = stock("inboxes.messages.send", BOX, {
        "to": ["ada@example.org"], "cc": ["bob@example.org"],
        "subject": "topic", "text": "one"})
    one = stock("inboxes.messages.reply", BOX, sent["messageId"],
                {"text": "two"})
    assert one["threadId"] == sent["threadId"] and one["status"] == "held"
    two = stock("inboxes.messages.replyAll", BOX, one["messageId"],
                {"text": "three", "html": "<b>three</b>"})
    got = [stock("inboxes.messages.get", BOX, m["messageId"])
           for m in (sent, one, two)]
    assert [m["subject"] for m in got] == ["topic", "Re: topic", "Re: topic"]
    assert (got[1]["to"], got[1]["cc"]) == (["ada@example.org"], [])
    assert got[1]["inReplyTo"] == got[0]["rfc_message_id"]
    assert got[2]["references"] == [got[0]["rfc_message_id"],
                                    got[1]["rfc_message_id"]]
    thread = stock("inboxes.threads.get", BOX, sent["threadId"])
    assert [m["messageId"] for m in thread["messages"]] == [
        sent["messageId"], one["messageId"], two["messageId"]]
    assert (thread["messageCount"], thread["subject"]) == (3, "topic")
    listed = stock("inboxes.threads.list", BOX, {"limit": 1})
    assert listed["threads"][0]["threadId"] == sent["threadId"]
    assert listed["threads"][0]["lastMessageId"] == two["messageId"]
    assert listed["threads"][0]["recipients"] == ["ada@example.org",
                                                  "bob@example.org"]
    rest = stock("inboxes.threads.list", BOX, {
        "limit": 100, "pageToken": listed["nextPageToken"]})
    assert sent["threadId"] not in [t["threadId"] for t in rest["threads"]]


def test_labels_and_a_name_of_the_stock_client(stock, gate):
    sent = stock("inboxes.messages.send", BOX, {
        "to": ["ada@example.org"], "subject": "labels", "text": "x",
        "labels": ["a", "b"]})
    got = stock("inboxes.messages.update", BOX, sent["messageId"], {
        "addLabels": ["c", "b"], "removeLabels": ["a"]})
    assert (got["messageId"], got["labels"]) == (sent["messageId"],
                                                 ["b", "c"])
    for read in (stock("inboxes.messages.get", BOX, sent["messageId"]),
                 stock("inboxes.messages.list", BOX, {"limit": 1,
                       "labels": ["c"]})["messages"][0],
                 stock("inboxes.threads.get", BOX, sent["threadId"])[
                     "messages"][0]):
        assert read["labels"] == ["b", "c"]
    assert sent["messageId"] not in [m["messageId"] for m in stock(
        "inboxes.messages.list", BOX, {"labels": ["a"]})["messages"]]
    box = stock("inboxes.update", BOX, {
        "displayName": "Bot", "metadata": {"team": "blue", "n": 1}})
    assert (box["displayName"], box["metadata"]) == (
        "Bot", {"team": "blue", "n": 1})
    stock("inboxes.update", BOX, {"metadata": {"n": None, "ok": True}})
    assert stock("inboxes.get", BOX)["metadata"] == {
        "team": "blue", "ok": True}
    stock("inboxes.update", BOX, {"metadata": None})
    assert stock("inboxes.get", BOX)["metadata"] == {}


def test_the_stock_client_forwards(stock, gate):
    sent = stock("inboxes.messages.send", BOX, {
        "to": ["ada@example.org"], "cc": ["bob@example.org"],
        "bcc": ["eve@example.org"], "subject": "news", "text": "the text",
        "html": "<p>the html</p>", "attachments": [
            {"filename": "a.txt", "content": "aMO8",
             "contentType": "text/plain"},
            {"filename": "b.bin", "content": "AAEC"}]})
    got = stock("inboxes.messages.forward", BOX, sent["messageId"], {
        "to": ["cy@example.org"], "text": "see <below>"})
    assert got["status"] == "held"
    mail = stock("inboxes.messages.get", BOX, got["messageId"])
    assert (mail["subject"], mail["to"], mail["cc"]) == (
        "Fwd: news", ["cy@example.org"], [])
    assert mail["text"].startswith("see <below>\n\n---------- Forwarded")
    assert "To: ada@example.org\nCc: bob@example.org" in mail["text"]
    assert "eve" not in mail["text"] + mail["html"]
    assert mail["text"].rstrip().endswith("the text")
    assert "see &lt;below&gt;" in mail["html"]
    assert "<p>the html</p>" in mail["html"]
    assert [a["filename"] for a in mail["attachments"]] == ["a.txt", "b.bin"]
    found = stock("inboxes.messages.getAttachment", BOX, got["messageId"],
                  mail["attachments"][0]["attachmentId"])
    assert stock.ask(fetch=found["downloadUrl"])["base64"] == "aMO8"


def test_drafts_of_the_stock_client(stock, gate):
    made = stock("inboxes.drafts.create", BOX, {
        "to": ["ada@example.org"], "subject": "draft", "text": "one",
        "labels": ["x"], "clientId": "stock-1", "attachments": [
            {"filename": "a.bin", "content": "AAEC"}]})
    again = stock("inboxes.drafts.create", BOX, {
        "to": ["ada@example.org"], "subject": "draft", "text": "one",
        "labels": ["x"], "clientId": "stock-1", "attachments": [
            {"filename": "a.bin", "content": "AAEC"}]})
    assert again["draftId"] == made["draftId"]
    name = made["draftId"]
    assert (made["clientId"], made["text"]) == ("stock-1", "one")
    assert (made["attachments"][0]["filename"],
            made["attachments"][0]["size"]) == ("a.bin", 3)
    changed = stock("inboxes.drafts.update", BOX, name, {
        "subject": "changed", "text": None, "html": "<p>two</p>",
        "addLabels": ["y"], "removeLabels": ["x"], "removeAttachments": [
            made["attachments"][0]["attachmentId"]]})
    assert (changed["subject"], changed["labels"]) == ("changed", ["y"])
    got = stock("inboxes.drafts.get", BOX, name)
    assert got["html"] == "<p>two</p>" and "text" not in got
    assert got["attachments"] == []
    listed = stock("inboxes.drafts.list", BOX, {"limit": 1})
    assert listed["drafts"][0]["draftId"] == name
    assert listed["drafts"][0]["subject"] == "changed"
    sent = stock("inboxes.drafts.send", BOX, name, {"addLabels": ["z"]})
    assert sent["status"] == "held"
    mail = stock("inboxes.messages.get", BOX, sent["messageId"])
    assert (mail["subject"], mail["labels"]) == ("changed", ["y", "z"])
    twice = stock("inboxes.drafts.send", BOX, name, {})
    assert twice["messageId"] == sent["messageId"]
    assert stock.fails("inboxes.drafts.get", BOX, name)["error"] == \
        "NotFoundError"
    made = stock("inboxes.drafts.create", BOX, {"subject": "away"})
    stock("inboxes.drafts.delete", BOX, made["draftId"])
    assert stock.fails("inboxes.drafts.get", BOX, made["draftId"])[
        "error"] == "NotFoundError"


def test_its_error_classes(stock, gate):
    bad = stock.fails("inboxes.messages.send", BOX, {"to": ["nobody"]})
    assert (bad["error"], bad["status"]) == ("ValidationError", 400)
    assert bad["body"]["errors"][0]["path"] == ["to[0]"]
    bad = stock.fails("inboxes.messages.send", BOX, {
        "to": ["ada@example.org"], "subject": "a\r\nBcc: eve@example.org"})
    assert bad["error"] == "ValidationError"
    gone = stock.fails("inboxes.messages.get", BOX, "msg_" + "0" * 26)
    assert (gone["error"], gone["status"]) == ("NotFoundError", 404)
    mail = {"to": ["ada@example.org"], "subject": "once", "text": "x"}
    key = {"idempotencyKey": "agentmail-1"}
    first = stock("inboxes.messages.send", BOX, mail, key)
    assert stock("inboxes.messages.send", BOX, mail, key)["messageId"] == \
        first["messageId"]
    bad = stock.fails("inboxes.messages.send", BOX, dict(mail, text="y"), key)
    assert (bad["error"], bad["status"]) == ("ConflictError", 409)
    gate.sql("INSERT INTO d.list_entry (tenant_id, inbox_id, entry, verdict, "
             "reason, created_by) VALUES (%s, 0, 'blocked@example.org', 'b', "
             "'test', 'ctl:0')", gate.box.tenant_id)
    bad = stock.fails("inboxes.messages.send", BOX, {
        "to": ["blocked@example.org"], "text": "x"})
    assert (bad["error"], bad["status"]) == ("MessageRejectedError", 403)
    with Stock(gate, key="pst_live_none") as stranger:
        assert stranger.fails("auth.me")["status"] == 401


def test_a_cut_connection_gives_one_row(gate):
    """Its answer is cut within its last bytes; the same call once more finds
    what was stored."""
    relay = Cutter(gate.api_port)
    passed = []

    def ask(limits, name, retries):
        """Each connection in turn is cut after so many bytes of answer."""
        t = threading.Thread(target=lambda: passed.extend(
            relay.once(n, False) for n in limits))
        t.start()
        with Stock(gate, port=relay.address[1]) as s:
            got = s.ask(call="inboxes.messages.send", args=[
                BOX, {"to": ["ada@example.org"], "subject": name,
                      "text": "x"},
                {"idempotencyKey": name, "maxRetries": retries}])
        t.join(30)
        return got

    assert ask([None], "cut-0", 0)["data"]["status"] == "held"
    within = passed[0][1] - 60
    assert "error" in ask([within], "cut-1", 0)
    lost = gate.sql("SELECT message_id FROM d.message WHERE subject = 'cut-1'")
    assert len(lost) == 1  # stored, and its client does not know
    assert passed[1][1] <= within
    # It repeats what was answered with 429 or 5xx, not what was cut: that is
    # its caller's to do, with the same key.
    assert ask([None], "cut-1", 0)["data"]["status"] == "held"
    assert gate.sql("SELECT message_id FROM d.message WHERE subject = 'cut-1'"
                    ) == lost
    relay.listener.close()


class Unlucky(http.server.BaseHTTPRequestHandler):
    """Passes requests on; the first two answers are lost between."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        c = http.client.HTTPSConnection(
            "localhost", self.server.behind, context=self.server.context)
        c.request("POST", self.path, body, dict(self.headers))
        r = c.getresponse()
        data, status = r.read(), r.status
        c.close()
        assert status == 202, data
        if self.server.lost < 2:
            self.server.lost += 1
            status, data = 503, b'{"name":"ServiceUnavailableError"}'
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.mark.parametrize("key", [{"idempotencyKey": "lost-1"}, {}],
                         ids=["key", "no key"])
def test_what_the_stock_client_repeats_is_one_row(gate, key):
    """By itself, what was answered with 5xx: here behind what was stored."""
    server = http.server.ThreadingHTTPServer(("localhost", 0), Unlucky)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(gate.path("tls", "cert.pem"),
                            gate.path("tls", "key.pem"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.behind, server.lost = gate.api_port, 0
    server.context = ssl.create_default_context(cafile=gate.ca_file)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    name = "lost answers, %d" % len(key)
    try:
        with Stock(gate, port=server.server_address[1]) as s:
            got = s("inboxes.messages.send", BOX, {
                "to": ["ada@example.org"], "subject": name, "text": "x"}, key)
    finally:
        server.shutdown()
        server.server_close()
    assert server.lost == 2 and got["status"] == "held"
    rows = gate.sql("SELECT 1 FROM d.message WHERE subject = %s", name)
    assert len(rows) == 1


# Our own client.

def test_a_reply_takes_what_it_is_told(bot, gate):
    sent = stored(bot.send(subject="Re: told", cc=["bob@example.org"]))
    path = "/v1/messages/%s/reply" % sent["message_id"]
    doc = stored(bot.call("POST", path, {
        "text": "x", "to": ["eve@example.org"], "reply_all": True}))
    got = bot.get("/v1/messages/" + doc["message_id"])[2]
    assert (got["to"], got["cc"], got["subject"]) == (
        ["eve@example.org"], ["bob@example.org"], "Re: told")
    key = {"Idempotency-Key": "reply-1"}
    one = stored(bot.call("POST", path, {"text": "y"}, key))
    two = stored(bot.call("POST", path, {"text": "y"}, key))
    assert one["message_id"] == two["message_id"]
    other = stored(bot.send(subject="other"))
    assert refusal(bot.call(
        "POST", "/v1/messages/%s/reply" % other["message_id"], {"text": "y"},
        key)) == (409, "idempotency_conflict")
    for doc in ({"in_reply_to": "<x@y.example>"}, {"references": ["<a@b>"]},
                {"reply_all": "yes"}, {"colour": "red"},
                {"subject": "a\r\nBcc: eve@example.org"},
                {"text": "x", "to": ["a\r\n@example.org"]}):
        status, code = refusal(bot.call("POST", path, doc))
        assert status == 422, (doc, code)


def test_replies_and_threads_of_others_are_not_there(bot, gate):
    other = Client(gate, gate.other.key)
    sent = stored(bot.send(subject="mine"))
    assert refusal(other.call("POST", "/v1/messages/%s/reply"
                              % sent["message_id"], {"text": "x"})) == (
        404, "not_found")
    assert refusal(other.get("/v1/threads/" + sent["thread_id"])) == (
        404, "not_found")
    assert sent["thread_id"] not in [
        t["thread_id"] for t in other.get("/v1/threads?limit=100")[2][
            "threads"]]
    token = bot.get("/v1/threads?limit=1")[2]["next_page_token"]
    assert refusal(other.get("/v1/threads?page_token=" + token)) == (
        422, "validation_error")
    send_only = Client(gate, gate.box.smtp_key)
    for path in ("/v1/threads", "/v1/threads/" + sent["thread_id"]):
        assert refusal(send_only.get(path)) == (403, "missing_permission")
    # a reference to the mail of another inbox does not join its thread
    name = bot.get("/v1/messages/" + sent["message_id"])[2]["rfc_message_id"]
    doc = stored(other.send(subject="joined", in_reply_to=name))
    assert doc["thread_id"] != sent["thread_id"]


def test_only_v0_calls_a_fault_400(bot):
    bad = dict(MAIL, to=["nobody"])
    assert bot.call("POST", "/v1/messages/send", bad)[0] == 422
    status, _, doc = bot.call("POST", "/v0/inboxes/me/messages/send", bad)
    assert (status, doc["name"]) == (400, "ValidationError")
    assert doc["code"] == "invalid_address"


# Drafts.

def draft(client, http=None, **fields):
    status, _, doc = client.call("POST", "/v1/drafts", fields, http)
    assert status == 201, doc
    return doc


def test_a_draft_is_sealed_and_nobody_elses(bot, gate):
    mark = "Zq7draftmark"
    doc = draft(bot, to=["%s@example.org" % mark], subject=mark, text=mark,
                labels=[mark], client_id="c" + mark)
    for row in gate.sql("SELECT * FROM d.draft"):
        for value in row.values():
            assert mark.encode() not in bytes(value) if isinstance(
                value, (bytes, memoryview)) else mark not in str(value)
    path = "/v1/drafts/" + doc["draft_id"]
    assert bot.get(path)[2]["subject"] == mark
    other = Client(gate, gate.other.key)
    for method, tail, body in (("GET", "", None), ("DELETE", "", None),
                               ("PATCH", "", {"subject": "x"}),
                               ("POST", "/send", {})):
        assert refusal(other.call(method, path + tail, body)) == (
            404, "not_found")
    assert other.get("/v1/drafts")[2]["count"] == 0
    # what a send key cannot open it does not get to see
    send_only = Client(gate, gate.box.smtp_key)
    for method, tail in (("GET", ""), ("DELETE", ""), ("POST", "/send")):
        assert refusal(send_only.call(method, path + tail)) == (
            403, "missing_permission")
    assert refusal(send_only.call("POST", "/v1/drafts", {"text": "x"})) == (
        403, "missing_permission")


def test_a_draft_is_checked_like_mail(bot, gate):
    before = gate.sql("SELECT count(*) AS n FROM d.draft")[0]["n"]
    for fields in ({"to": ["nobody"]}, {"subject": "a\r\nBcc: x@y.example"},
                   {"colour": "red"}, {"client_id": "a\nb"},
                   {"headers": {"From": "x"}}, {"in_reply_to": "msg_1"},
                   {"attachments": [{"filename": "a"}]},
                   {"attachments": [{"content": "", "attachment_id": "x"}]},
                   {"reply_all": True}, {"labels": [""]}):
        assert refusal(bot.call("POST", "/v1/drafts", fields))[0] == 422
    assert gate.sql("SELECT count(*) AS n FROM d.draft")[0]["n"] == before
    doc = draft(bot, subject="checked")
    path = "/v1/drafts/" + doc["draft_id"]
    for patch in ({"subject": "a\nb"}, {"client_id": "x"},
                  {"in_reply_to": "<a@b.example>"}, {"reply_all": True},
                  {"add_labels": "x"}, {"remove_labels": [1]},
                  {"add_labels": [""]}, {"add_attachments": {}},
                  {"remove_attachments": ["att_1"]}, {"colour": "red"}):
        assert refusal(bot.call("PATCH", path, patch))[0] == 422, patch
    assert bot.get(path)[2]["version"] == 1
    # nobody to send it to: it stays a draft
    assert refusal(bot.call("POST", path + "/send", {})) == (
        422, "validation_error")
    assert refusal(bot.call("POST", path + "/send", {"text": "x"})) == (
        422, "validation_error")
    assert bot.get(path)[0] == 200


def test_drafts_are_pages_and_keys_repeat(bot, gate):
    key = {"Idempotency-Key": "draft-1"}
    one = draft(bot, key, subject="p0")
    status, headers, again = bot.call("POST", "/v1/drafts", {
        "subject": "p0"}, key)
    assert (status, headers["idempotent-replay"]) == (200, "true")
    assert again["draft_id"] == one["draft_id"]
    assert refusal(bot.call("POST", "/v1/drafts", {"subject": "p1"}, key)) == (
        409, "idempotency_conflict")
    names = [one["draft_id"]] + [
        draft(bot, subject="p%d" % i)["draft_id"] for i in range(1, 4)]
    page = bot.get("/v1/drafts?limit=2")[2]
    rest = bot.get("/v1/drafts?limit=2&page_token="
                   + page["next_page_token"])[2]
    assert [x["draft_id"] for x in page["drafts"] + rest["drafts"]] == \
        names[::-1]
    assert refusal(bot.get("/v1/threads?page_token="
                           + page["next_page_token"]))[0] == 422
    long = draft(bot, to=["%064d@example.org" % i for i in range(1000)])
    head = bot.get("/v1/drafts?limit=1")[2]["drafts"][0]
    assert head["draft_id"] == long["draft_id"] and head["truncated"]
    got = bot.get("/v1/drafts/" + long["draft_id"])[2]
    assert len(got["to"]) == 1000


def test_a_draft_made_again_after_it_was_sent(bot):
    """The request that made it finds what became of it."""
    fields = {"to": MAIL["to"], "subject": "made again", "client_id": "c9"}
    one = draft(bot, **fields)
    sent = stored(bot.call("POST", "/v1/drafts/%s/send" % one["draft_id"]))
    again = bot.call("POST", "/v1/drafts", fields)
    assert refusal(again) == (409, "state_conflict")
    assert sent["message_id"] in again[2]["message"]


def test_null_is_as_if_not_there(bot):
    sent = stored(bot.send(subject="nothing"))
    doc = draft(bot, subject="null", in_reply_to=sent["message_id"], **{
        n: None for n in ("reply_all", "text", "html", "headers", "context",
                          "references", "duplicate", "revises",
                          "attachments", "labels", "send_at", "cc")})
    assert bot.get("/v1/drafts/" + doc["draft_id"])[2] == doc
    assert not {"text", "headers", "reply_all", "references"} & set(doc)


def test_what_drafts_write_has_a_limit(gate):
    box = gate.add_inbox("notes@acme.example", "acme")
    agent = Client(gate, box.key)
    gate.sql("UPDATE d.inbox SET lim_bytes = 3 * 16384 + 9000, limits_version "
             "= limits_version + 1 WHERE address = %s", box.address)
    key = {"Idempotency-Key": "note"}
    one = draft(agent, key, subject="0")
    path = "/v1/drafts/" + one["draft_id"]

    def left():
        return {w["name"]: w["remaining"] for w in agent.get(
            "/v1/auth/me")[2]["windows"]}["bytes"]
    assert left() == 2 * 16384 + 9000
    # what is refused, and a first answer, costs nothing
    assert agent.call("POST", "/v1/drafts", {"subject": "0"}, key)[0] == 200
    assert refusal(agent.call("PATCH", "/v1/drafts/dft_" + "0" * 26, {})) == (
        404, "not_found")
    assert left() == 2 * 16384 + 9000
    for n in ("1", "2"):
        assert agent.call("PATCH", path, {"subject": n})[0] == 200
    for method, to, doc in (("PATCH", path, {"subject": "3"}),
                            ("POST", "/v1/drafts", {"subject": "new"})):
        status, headers, said = agent.call(method, to, doc)
        assert (status, said["code"], said["retry"]) == (
            429, "rate_limited", "after")
        wait = int(headers["retry-after"])
        assert said["retry_after"] == wait and 0 < wait <= 86400 * 25 / 24
        assert headers["ratelimit-policy"] == '"bytes";q=%d;w=86400' % (
            3 * 16384 + 9000)
        assert headers["ratelimit"] == '"bytes";r=9000;t=%d' % wait
    assert agent.get(path)[2]["subject"] == "2" and left() == 9000
    # mail counts there too, and goes on as long as it fits
    assert stored(agent.send(subject="a mail"))
    assert agent.call("DELETE", path)[0] == 200


def test_a_draft_that_answers(bot, gate):
    sent = stored(bot.send(subject="asked", cc=["bob@example.org"]))
    doc = draft(bot, in_reply_to=sent["message_id"], reply_all=True,
                text="more")
    assert doc["in_reply_to"] == sent["message_id"]
    got = stored(bot.call("POST", "/v1/drafts/%s/send" % doc["draft_id"]))
    assert got["thread_id"] == sent["thread_id"]
    mail = bot.get("/v1/messages/" + got["message_id"])[2]
    assert (mail["to"], mail["cc"], mail["subject"]) == (
        MAIL["to"], ["bob@example.org"], "Re: asked")
    theirs = stored(Client(gate, gate.other.key).send(subject="theirs"))
    doc = draft(bot, in_reply_to=theirs["message_id"], text="more")
    got = bot.call("POST", "/v1/drafts/%s/send" % doc["draft_id"])
    assert refusal(got) == (422, "validation_error")
    assert got[2]["field"] == "in_reply_to"


def test_a_draft_is_one_message(bot, gate):
    """Stored, and the draft not ended yet: who asks again gets the same."""
    doc = draft(bot, to=MAIL["to"], subject="only once", text="x")
    path = "/v1/drafts/%s/send" % doc["draft_id"]
    gate.sql("ALTER FUNCTION api.draft_end_1 RENAME TO draft_end_0")
    try:
        first = stored(bot.call("POST", path, {}))
        again = [bot.call("POST", path, {}, headers) for headers in (
            {}, {"Idempotency-Key": "d1"}, {"Idempotency-Key": "d2"})]
    finally:
        gate.sql("ALTER FUNCTION api.draft_end_0 RENAME TO draft_end_1")
    for one in again:
        assert one[1]["idempotent-replay"] == "true"
        assert stored(one)["message_id"] == first["message_id"]
    assert bot.get("/v1/drafts/" + doc["draft_id"])[0] == 404
    rows = gate.sql("SELECT 1 FROM d.message WHERE subject = 'only once'")
    assert len(rows) == 1
    row = gate.sql("SELECT head, body FROM d.draft WHERE message_id IN "
                   "(SELECT message_id FROM d.message WHERE subject = "
                   "'only once')")
    assert row[0]["head"] is None and row[0]["body"] is None


@contextlib.contextmanager
def no_submission_ends(gate):
    """They wait for the counter of their inbox."""
    lock = gate.connect()
    lock.autocommit = False
    with lock.cursor() as cur:
        cur.execute("SELECT 1 FROM d.quota WHERE inbox_id = %s FOR UPDATE",
                    (gate.box.inbox_id,))
    try:
        yield
    finally:
        lock.rollback()
        lock.close()


def under_way(call, *args):
    got = {}
    t = threading.Thread(target=lambda: got.update(answer=call(*args)))
    t.start()

    def answer():
        t.join(30)
        return got["answer"]
    return answer


def test_a_draft_that_is_being_sent_is_nobody_elses(bot, gate):
    """Not another key's, nor to be changed or deleted: what was answered
    200 would be what does not leave."""
    more = bot.call("POST", "/v1/inboxes/me/api-keys", {"scope": "full"})[2]
    gate.issued.update(leaks.of_token("more", more["key"]))
    other = Client(gate, more["key"])
    doc = draft(bot, to=MAIL["to"], subject="by two keys", text="first")
    path = "/v1/drafts/" + doc["draft_id"]
    with no_submission_ends(gate):
        sending = under_way(bot.call, "POST", path + "/send", {})
        postern.wait_until("the draft is being sent", lambda: gate.sql(
            "SELECT 1 FROM d.draft WHERE going_line IS NOT NULL"))
        refused = other.call("POST", path + "/send", {})
        assert refusal(refused) == (409, "state_conflict")
        assert refused[1]["retry-after"] == "1"
        assert refusal(other.call("DELETE", path)) == (409, "state_conflict")
        changing = under_way(other.call, "PATCH", path, {"text": "second"})
    sent = stored(sending())
    assert changing()[0] in (404, 409)
    again = other.call("POST", path + "/send", {})
    assert stored(again)["message_id"] == sent["message_id"]
    assert again[1]["idempotent-replay"] == "true"
    rows = gate.sql("SELECT 1 FROM d.message WHERE subject = 'by two keys'")
    assert len(rows) == 1
    assert bot.get("/v1/messages/" + sent["message_id"])[2][
        "text"].strip() == "first"


def test_a_draft_whose_sender_hung_up(bot, gate):
    """Before there was a message: the draft is free again."""
    doc = draft(bot, to=MAIL["to"], subject="hung up", text="x")
    path = "/v1/drafts/" + doc["draft_id"]
    lock = gate.connect()
    lock.autocommit = False
    with lock.cursor() as cur:
        cur.execute("SELECT 1 FROM d.draft FOR UPDATE")
    with socket.create_connection(("127.0.0.1", gate.api_port)) as plain:
        s = bot.context.wrap_socket(plain, server_hostname="127.0.0.1")
        s.sendall(("POST %s/send HTTP/1.1\r\nHost: x\r\nAuthorization: "
                   "Bearer %s\r\nContent-Length: 0\r\n\r\n" % (
                       path, bot.key)).encode())
        postern.wait_until("it waits for the row", lambda: gate.sql(
            "SELECT count(*) AS n FROM pg_locks WHERE NOT granted")[0]["n"])
        s.close()
    bot.get("/v1/guide")  # the one worker has seen the end by then
    lock.rollback()
    lock.close()
    postern.wait_until("the draft is free", lambda: bot.call(
        "PATCH", path, {"text": "y"})[0] == 200)
    assert gate.sql("SELECT 1 FROM d.message WHERE subject = 'hung up'") == []


def test_a_draft_that_was_refused_goes_on(bot, gate):
    doc = draft(bot, subject="refused", not_after="2020-01-01T00:00:00Z")
    path = "/v1/drafts/" + doc["draft_id"]
    for fix in ({"to": MAIL["to"]}, {"not_after": None}):
        assert refusal(bot.call("POST", path + "/send", {}))[0] == 422
        assert bot.call("PATCH", path, fix)[0] == 200, fix
    assert stored(bot.call("POST", path + "/send", {}))


def test_a_draft_that_nobody_came_back_for(bot, gate):
    """Its key died in between, and nothing was stored."""
    doc = draft(bot, to=MAIL["to"], subject="left", text="x")
    path = "/v1/drafts/" + doc["draft_id"]
    left = ("UPDATE d.draft SET going_line = 999, going_key = sha256('x'), "
            "going_at = clock_timestamp() - %s::interval "
            "WHERE message_id IS NULL AND version = %s")
    gate.sql(left, "4 minutes", 1)
    assert refusal(bot.call("PATCH", path, {"text": "y"})) == (
        409, "state_conflict")
    assert refusal(bot.call("POST", path + "/send")) == (
        409, "state_conflict")
    gate.sql(left, "6 minutes", 1)
    assert bot.call("PATCH", path, {"text": "y"})[0] == 200
    gate.sql(left, "6 minutes", 2)
    assert stored(bot.call("POST", path + "/send"))


def test_a_draft_changed_meanwhile(bot, gate):
    doc = draft(bot, subject="v1")
    gate.sql("UPDATE d.draft SET version = 9 WHERE version = 1 "
             "AND message_id IS NULL")
    # sealed as version 1, so as version 9 it does not open
    path = "/v1/drafts/" + doc["draft_id"]
    assert bot.get(path)[2]["content"] == "unreadable"
    assert refusal(bot.call("PATCH", path, {"subject": "v2"})) == (
        403, "missing_permission")
    assert refusal(bot.call("POST", path + "/send")) == (
        403, "missing_permission")
    assert bot.get("/v1/drafts?limit=1")[2]["drafts"][0]["content"] == \
        "unreadable"
    assert bot.call("DELETE", path)[0] == 200


def test_what_is_no_label_and_no_name(bot, gate):
    sent = stored(bot.send(subject="labels refused", labels=["old"]))
    path = "/v1/messages/" + sent["message_id"]
    for doc in ({"add_labels": "x"}, {"add_labels": ["a\nb"]},
                {"add_labels": [""]}, {"add_labels": ["x" * 65]},
                {"remove_labels": [1]}, {"labels": ["x"]},
                {"add_labels": ["l%d" % i for i in range(21)]},
                {"add_labels": ["l%d" % i for i in range(20)]}):
        assert refusal(bot.call("PATCH", path, doc))[0] == 422, doc
    assert bot.get(path)[2]["labels"] == ["old"]
    status, _, doc = bot.call("PATCH", path, {
        "add_labels": ["new"], "remove_labels": ["old"]})
    assert (status, doc["labels"]) == (200, ["new"])
    assert bot.get(path)[2]["labels"] == ["new"]
    assert refusal(Client(gate, gate.box.smtp_key).call(
        "PATCH", path, {"add_labels": ["x"]})) == (403, "missing_permission")
    assert refusal(Client(gate, gate.other.key).call(
        "PATCH", path, {"add_labels": ["x"]})) == (404, "not_found")
    other = Client(gate, gate.other.key)
    for doc in ({}, {"display_name": "a\r\nBcc: x"}, {"metadata": {}},
                {"display_name": "x" * 201}, {"metadata": []},
                {"metadata": {"a": {}}}, {"metadata": {"a": ["b"]}},
                {"metadata": {"a": "x" * 501}}, {"metadata": {"": "x"}},
                {"metadata": {"k%d" % i: 1 for i in range(51)}},
                {"metadata": {"a\nb": 1}}, {"display_name": "a\u2028b"},
                # nothing would be accepted from it
                {"display_name": "ceo@acme.example"},
                {"display_name": "Bot \u202e"},
                {"display_name": "=?utf-8?q?a=40b?="},
                {"display_name": "two@acme.example, really"}):
        assert refusal(other.call("PATCH", "/v1/inboxes/me", doc))[
            0] == 422, doc
    for i in range(16):
        got = other.call("PATCH", "/v1/inboxes/me", {
            "metadata": {"k%d.%d" % (i, j): "x" * 400 for j in range(2)}})
        if got[0] != 200:
            break
    # 8 KiB in all
    assert refusal(got) == (422, "validation_error") and i > 6
    # all or nothing
    assert refusal(other.call("PATCH", "/v1/inboxes/me", {
        "oversight_mode": "autonomous", "display_name": "loose"})) == (
            403, "missing_permission")
    assert other.get("/v1/inboxes/me")[2]["display_name"] != "loose"
    row = gate.sql("SELECT count(*) AS n FROM d.audit WHERE event = "
                   "'inbox.described'")
    assert row[0]["n"] >= 6


def test_large_numbers_among_the_metadata(bot):
    """The database writes them with all their digits."""
    large = {"metadata": {"a": 1e20, "b": 1.5e300, "c": "text", "d": 7}}
    try:
        status, _, doc = bot.call("PATCH", "/v1/inboxes/me", large)
        assert (status, doc["metadata"]) == (200, large["metadata"])
        assert bot.get("/v1/inboxes/me")[2]["metadata"] == large["metadata"]
    finally:
        bot.call("PATCH", "/v1/inboxes/me", {"metadata": None})


def test_usage_counts_by_day_and_status(gate):
    box = gate.add_inbox("counted@acme.example", "acme")
    agent = Client(gate, box.key)
    ids = [stored(agent.send(subject="u%d" % i, cc=["bob@example.org"]))
           for i in range(3)]
    agent.call("POST", "/v1/messages/%s/cancel" % ids[0]["message_id"])
    got = agent.get("/v1/usage")[2]
    assert (got["messages"], got["recipients"]) == (3, 6)
    assert got["by_status"] == {"held": 2, "canceled": 1}
    assert sum(d["messages"] for d in got["days"]) == 3 and got["bytes"] > 0
    past = agent.get("/v1/usage?before=2026-01-01T00:00:00Z")[2]
    assert (past["messages"], past["days"]) == (0, [])
    for query in ("after=x", "before=2026-01-01T00:00:00Z&after="
                  "2026-02-01T00:00:00Z", "after=2001-01-01T00:00:00Z"):
        assert refusal(agent.get("/v1/usage?" + query)) == (
            422, "validation_error")
    assert refusal(Client(gate, box.smtp_key).get("/v1/usage")) == (
        403, "missing_permission")


def test_what_cannot_be_forwarded(bot, gate):
    big = base64.b64encode(os.urandom(730000)).decode()
    mail = stored(bot.send(subject="too much", attachments=[
        {"filename": "b", "content": big}]))
    path = "/v1/messages/%s/forward" % mail["message_id"]
    to = {"to": ["cy@example.org"]}
    assert refusal(bot.call("POST", path, to)) == (413, "payload_too_large")
    sent = stored(bot.send(subject="mine alone"))
    path = "/v1/messages/%s/forward" % sent["message_id"]
    assert refusal(Client(gate, gate.other.key).call("POST", path, to)) == (
        404, "not_found")
    assert refusal(Client(gate, gate.box.smtp_key).call(
        "POST", path, to)) == (403, "missing_permission")
    for doc in ({}, {"to": ["nobody"]}, dict(to, text=1),
                dict(to, attachments={}), dict(to, markdown="x"),
                dict(to, subject="a\nb"), dict(to, colour="red")):
        assert refusal(bot.call("POST", path, doc))[0] == 422, doc
    key = {"Idempotency-Key": "fwd-1"}
    one, two = (stored(bot.call("POST", path, to, key)) for _ in range(2))
    assert one["message_id"] == two["message_id"]


def test_a_long_thread_counts_all(bot, gate):
    first = stored(bot.send(subject="long"))
    key = Client(gate, gate.box.smtp_key)
    name = bot.get("/v1/messages/" + first["message_id"])[2]["rfc_message_id"]
    for i in range(120):
        last = stored(key.send(subject="long", text=str(i), in_reply_to=name))
    got = bot.get("/v1/threads/" + first["thread_id"])[2]
    assert got["message_count"] == 121 and got["count"] == 100
    assert got["last_message_id"] == last["message_id"]


def test_a_draft_sends_a_message_on(stock, gate, bot):
    sent = stored(bot.send(subject="origin", text="first", attachments=[
        {"filename": "a.txt", "content": "YQ=="}]))
    draft = stock("inboxes.drafts.create", BOX, {
        "forwardOf": sent["message_id"], "to": ["bob@example.org"],
        "text": "see below", "attachments": [
            {"filename": "b.bin", "content": "AAEC"}]})
    assert draft["forwardOf"] == sent["message_id"]
    item = stock("inboxes.drafts.get", BOX, draft["draftId"])["attachments"][0]
    found = stock("inboxes.drafts.getAttachment", BOX, draft["draftId"],
                  item["attachmentId"])
    assert (found["filename"], found["size"]) == ("b.bin", 3)
    assert stock.ask(fetch=found["downloadUrl"])["base64"] == "AAEC"
    path = "/v1/drafts/%s/attachments/" % draft["draftId"]
    assert bot.get(path + item["attachmentId"])[2] == b"\x00\x01\x02"
    assert bot.get(path + "att_" + "0" * 26)[0] == 404
    assert bot.get("/v0/inboxes/me" + path[3:] + item["attachmentId"])[
        2]["download_url"].endswith(",AAEC")
    other = Client(gate, gate.other.key)
    assert other.get(path + item["attachmentId"])[0] == 404
    went = stock("inboxes.drafts.send", BOX, draft["draftId"], {})
    assert went["status"] == "held"
    again = stock("inboxes.drafts.send", BOX, draft["draftId"], {})
    assert again["messageId"] == went["messageId"]
    got = bot.get("/v1/messages/" + went["messageId"])[2]
    assert (got["subject"], got["to"]) == ("Fwd: origin", ["bob@example.org"])
    assert got["text"].startswith("see below") and "first" in got["text"]
    assert [a["filename"] for a in got["attachments"]] == ["b.bin", "a.txt"]
    for bad in ({"forward_of": "msg_1"}, {"forward_of": 7},
                {"forward_of": sent["message_id"], "markdown": "x"},
                {"forward_of": sent["message_id"],
                 "in_reply_to": sent["message_id"]}):
        assert bot.call("POST", "/v1/drafts", bad)[0] == 422, bad
    gone = bot.call("POST", "/v1/drafts", {
        "forward_of": "msg_" + "0" * 26, "to": ["bob@example.org"]})[2]
    assert bot.call("POST", "/v1/drafts/%s/send" % gone["draft_id"],
                    {})[0] == 404


# -- lists and keys -----------------------------------------------------------

def test_the_stock_client_blocks_for_its_inbox(stock, gate, bot):
    made = stock("inboxes.lists.create", BOX, "send", "block",
                 {"entry": "Bad@Example.ORG", "reason": "asked us to stop"})
    assert (made["entry"], made["entryType"], made["listType"],
            made["direction"]) == ("bad@example.org", "email", "block",
                                   "send")
    again = stock("inboxes.lists.create", BOX, "send", "block",
                  {"entry": "bad@example.org"})
    assert again["createdAt"] == made["createdAt"]
    stock("inboxes.lists.create", BOX, "send", "block",
          {"entry": "b\u00fccher.example"})
    got = stock("inboxes.lists.list", BOX, "send", "block", {"limit": 1})
    assert [(e["entry"], e["entryType"], e["readOnly"])
            for e in got["entries"]] == [
        ("xn--bcher-kva.example", "domain", True)]
    got = stock("inboxes.lists.list", BOX, "send", "block", {
        "limit": 1, "pageToken": got["nextPageToken"]})
    assert [e["reason"] for e in got["entries"]] == ["asked us to stop"]
    one = stock("inboxes.lists.get", BOX, "send", "block", "BAD@example.org")
    assert (one["entry"], one["inboxId"]) == ("bad@example.org", BOX)
    assert stock.fails("inboxes.lists.get", BOX, "send", "block",
                       "x@example.org")["error"] == "NotFoundError"
    assert refusal(bot.send(to=["bad@example.org"])) == (
        403, "message_rejected")
    stored(Client(gate, gate.other.key).send(to=["bad@example.org"]))
    # adding is all: the rest is operators'
    for call, more in (("delete", ["bad@example.org"]),
                       ("create", [{"entry": "ok@example.org"}])):
        kind = "block" if call == "delete" else "allow"
        got = stock.fails("inboxes.lists." + call, BOX, "send", kind, *more)
        assert (got["status"], got["body"]["code"]) == (
            403, "missing_permission"), call
    assert stock("inboxes.lists.list", BOX, "send", "allow")["entries"] == []
    for direction in ("receive", "reply"):
        got = stock.fails("inboxes.lists.list", BOX, direction, "block")
        assert (got["status"], got["body"]["code"]) == (
            501, "receiving_not_enabled")


def test_what_is_no_entry(bot):
    path = "/v1/lists/send/block"
    for entry in ("", "@", "a@", "@b c", "a@b@c.example", "x" * 321,
                  "a\r\nb@c.example", "*@c.example", 7, None):
        assert bot.call("POST", path, {"entry": entry})[0] == 422, entry
    for path in ("/v1/lists/send/grey", "/v1/lists/back/block",
                 "/v1/lists/send/block/%20", "/v1/lists/send/block/a@b@c"):
        assert bot.get(path)[0] == 404, path


def test_further_keys(gate, bot):
    path, made = "/v1/inboxes/me/api-keys", {}
    for scope in ("send", "read", "full"):
        status, _, doc = bot.call("POST", path, {"scope": scope,
                                                 "label": "for " + scope})
        assert (status, doc["scope"], doc["kind"], doc["label"]) == (
            201, scope, "live", "for " + scope)
        gate.issued.update(leaks.of_token("further key", doc["key"]))
        made[scope] = Client(gate, doc["key"]), doc["key_id"]
    send, read, full = (made[s][0] for s in ("send", "read", "full"))
    mail = stored(send.send(subject="by a further key"))
    target = "/v1/messages/%s/raw" % mail["message_id"]
    # a wrapped key of the inbox came along, where it should
    want = bot.get(target)[2]
    assert want.startswith(b"Received: by ")
    assert (read.get(target)[2], full.get(target)[2]) == (want, want)
    assert send.get(target)[0] == 403
    assert refusal(read.send()) == (403, "missing_permission")
    for who in (send, read):
        assert who.call("POST", path, {"scope": "send"})[0] == 403
    # of a key that ends, another that ends no later
    doc = full.call("POST", path, {
        "scope": "full", "expires_at": soon(60)})[2]
    short = Client(gate, doc["key"])
    gate.issued.update(leaks.of_token("short key", doc["key"]))
    child = short.call("POST", path, {"scope": "send"})[2]
    gate.issued.update(leaks.of_token("its child", child["key"]))
    assert child["expires_at"] == doc["expires_at"]
    # rotated: the new one ends the old, and goes on
    assert full.call("DELETE", path + "/" + made["read"][1])[0] == 200
    assert read.get(target)[0] == 401
    assert full.get(target)[0] == 200
    listed = {k["key_id"]: k for k in bot.get(path)[2]["keys"]}
    assert listed[made["read"][1]]["revoked_at"]
    for bad in ({}, {"scope": "all"}, {"scope": "send", "label": "a\nb"},
                {"scope": "send", "expires_at": soon(-5)},
                {"scope": "send", "expires_at": "tomorrow"},
                {"scope": "send", "kind": "live"}):
        assert bot.call("POST", path, bad)[0] == 422, bad


def soon(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ",
                         time.gmtime(time.time() + seconds))


def test_a_filter_that_is_not_there_is_refused(stock, bot):
    """Rather than everything being taken for what was asked for."""
    for call, query in (("messages", {"subject": ["x"]}),
                        ("messages", {"from": ["a@b.example"]}),
                        ("messages", {"ascending": True}),
                        ("threads", {"labels": ["x"]}),
                        ("threads", {"recipients": ["a@b.example"]}),
                        ("drafts", {"labels": ["x"]}),
                        ("drafts", {"ascending": True})):
        bad = stock.fails("inboxes.%s.list" % call, BOX, query)
        assert bad["status"] == 400, (call, query)
        assert bad["body"]["field"] == list(query)[0]
    stock("inboxes.messages.list", BOX, {"ascending": False,
                                         "includeSpam": True})
    assert refusal(bot.get("/v1/lists/send/block?status=held")) == (
        422, "validation_error")


SPELLINGS = ["eva@block.example", "EVA@Block.Example", '"eva"@block.example',
             '"ev\\a"@block.example', "zo\u00e9@block.example",
             "zoe\u0301@block.example", '"zo\u00e9"@block.example',
             "eva@b\u00fccher.example", "eva@xn--bcher-kva.example",
             "eva@bu\u0308cher.example", '"ev\\a"@b\u00fccher.example']


def test_no_spelling_gets_around_a_list(gate):
    box = gate.add_inbox("speller@acme.example", "acme")
    agent = Client(gate, box.key)
    raw = RAW.replace(b"bot@", b"speller@") % b"spelling"
    run = agent.call("POST", "/v1/sessions", {"policy": {
        "recipients": ["Eva@block.example", "zoe\u0301@block.example"],
        "domains": ["b\u00fccher.example"], "max_messages": 99,
        "doors": ["rest"]}})[2]
    session = Client(gate, run["key"])
    for address in SPELLINGS:
        assert stored(session.send(to=[address], duplicate=True)), address
    for entry in ("eva@block.example", "zo\u00e9@block.example",
                  "eva@b\u00fccher.example"):
        assert agent.call("POST", "/v1/lists/send/block",
                          {"entry": entry})[0] == 201
    for address in SPELLINGS:
        for got in (agent.send(to=[address]),
                    agent.send_raw(raw, to=[address])):
            assert refusal(got) == (403, "message_rejected"), address
