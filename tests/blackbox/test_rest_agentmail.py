# SPDX-License-Identifier: ISC
"""/v0 with the stock npm client; replies and threads with our own."""

import base64
import socket
import threading

import pytest

from tests.lib import agents, postern
from tests.blackbox.test_rest import Client, MAIL, refusal, stored


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


class Cutting:
    """A relay that cuts the first connections after `after` bytes of what
    the server says (0: before a word of it)."""

    def __init__(self, port, cuts):
        self.port, self.cuts = port, cuts
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            limit = self.cuts.pop(0) if self.cuts else None
            for pair in ((client, server, None), (server, client, limit)):
                threading.Thread(target=self.pump, args=pair,
                                 daemon=True).start()

    @staticmethod
    def pump(source, sink, limit):
        try:
            while True:
                data = source.recv(65536)
                if limit is not None:
                    limit -= len(data)
                if not data or (limit is not None and limit < 0):
                    break
                sink.sendall(data)
        except OSError:
            pass
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_a_cut_connection_gives_one_row(gate):
    """The answer is lost; the caller repeats with the same key."""
    # TLS takes some 2,000 bytes of the server; the answer comes after them
    relay = Cutting(gate.api_port, [3000])
    mail = {"to": ["ada@example.org"], "subject": "cut", "text": "x"}
    key = {"idempotencyKey": "cut-1", "maxRetries": 0}
    with Stock(gate, port=relay.listener.getsockname()[1]) as s:
        first = s.ask(call="inboxes.messages.send", args=[BOX, mail, key])
        again = s("inboxes.messages.send", BOX, mail, key)
    relay.listener.close()
    rows = gate.sql("SELECT message_id FROM d.message WHERE subject = 'cut'")
    assert len(rows) == 1
    assert again["status"] == "held"
    if "data" in first:
        assert first["data"]["messageId"] == again["messageId"]


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
