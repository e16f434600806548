# SPDX-License-Identifier: ISC
"""Attachments inside JSON that are larger than json_max: as the stock client
sends them, in bounded memory, byte for byte, whatever the order."""
import base64
import concurrent.futures
import email
import email.policy
import http.client
import json
import os
import random
import signal

import pytest

from tests.blackbox.test_rest import Client, refusal, stored
from tests.lib import agents
from tests.lib.roomy import UPLOADS, little_memory, roomy, workers

FULL = os.environ.get("POSTERN_FULL") == "1"
MIB = 1 << 20
SIZE = (36 if FULL else 5) * MIB  # 36 MiB are 49 in base64


@pytest.fixture(scope="module")
def gate():
    with roomy() as d:
        yield d


@pytest.fixture
def bot(gate):
    return Client(gate, gate.box.key)


def noise(n, seed=1):
    return random.Random(seed).randbytes(n)


def attachments_of(bot, sent):
    raw = bot.get("/v1/messages/%s/raw" % sent["message_id"], timeout=120)[2]
    mail = email.message_from_bytes(raw, policy=email.policy.default)
    return mail, [(p.get_filename(), p.get_payload(decode=True))
                  for p in mail.walk() if p.get_filename()]


def test_they_come_back_whatever_the_order(gate, bot):
    """Attachments first, inline ones between, slashes escaped as PHP does."""
    a, b, small = noise(2 * MIB + 1), noise(MIB, 2), b"\xff\xef\xfe" * 5
    text = base64.b64encode(small).decode()
    assert "/" in text
    body = json.dumps({
        "attachments": [
            {"content": base64.b64encode(a).decode(), "filename": "a.bin"},
            {"filename": "s", "content": "SMALL"},
            {"filename": "b.png", "content_type": "image/png",
             "content_disposition": "inline", "content_id": "b",
             "content": base64.b64encode(b).decode()}],
        "to": ["ada@example.org"], "subject": "order",
        "html": "<img src=cid:b>", "text": "see"})
    body = body.replace("SMALL", text.replace("/", "\\/"
                                              ).replace("7", "\\u0037"))
    key = {"Content-Type": "application/json", "Idempotency-Key": "order"}
    sent = stored(bot.call("POST", "/v1/messages/send", body.encode(), key))
    mail, got = attachments_of(bot, sent)
    assert sorted(got) == sorted([("a.bin", a), ("s", small), ("b.png", b)])
    assert mail["subject"] == "order"
    again = bot.call("POST", "/v1/messages/send", body.encode(), key)
    assert again[2]["message_id"] == sent["message_id"]
    assert again[1]["idempotent-replay"] == "true"
    other = body.replace('"see"', '"saw"').encode()
    assert refusal(bot.call("POST", "/v1/messages/send", other, key)) \
        == (409, "idempotency_conflict")
    assert os.listdir(gate.spool) == []


def test_a_body_without_a_length(gate, bot):
    """Chunked: its size is not known before its end."""
    data = noise(MIB, 3)
    body = json.dumps({"to": ["ada@example.org"], "subject": "chunked",
                       "attachments": [{"filename": "c", "content":
                                        base64.b64encode(data).decode()}]})

    def pieces():
        for at in range(0, len(body), 50000):
            yield body[at:at + 50000].encode()

    c = http.client.HTTPSConnection("127.0.0.1", gate.api_port,
                                    context=bot.context, timeout=60)
    c.request("POST", "/v1/messages/send", pieces(),
              {"Authorization": "Bearer " + bot.key,
               "Content-Type": "application/json"}, encode_chunked=True)
    r = c.getresponse()
    sent = json.loads(r.read())
    assert r.status == 202, sent
    assert attachments_of(bot, sent)[1] == [("c", data)]


def test_replies_and_forwards_carry_them_too(bot):
    first = stored(bot.send(subject="thread", text="x"))
    data = noise(MIB, 4)
    item = {"filename": "r", "content": base64.b64encode(data).decode()}
    for what, more in (("reply", {}), ("forward",
                                       {"to": ["bob@example.org"]})):
        sent = stored(bot.call(
            "POST", "/v1/messages/%s/%s" % (first["message_id"], what),
            dict(more, text="more", attachments=[item])))
        assert attachments_of(bot, sent)[1] == [("r", data)]


BIG = base64.b64encode(noise(MIB, 5)).decode()
BAD = {
    "a hole": (lambda: [{"content": BIG[:5000] + " " + BIG[5000:]}],
               "attachments[0].content"),
    "cut": (lambda: [{"content": "YQ=="}, {"content": BIG[:-3]}],
            "attachments[1].content"),
    "padding inside": (lambda: [{"content": "YQ==" + BIG}],
                       "attachments[0].content"),
    "url alphabet": (lambda: [{"content": BIG[:-8] + "_" * 8}],
                     "attachments[0].content"),
    "a number": (lambda: [{"content": 5}, {"content": BIG}],
                 "attachments[0].content"),
    "missing": (lambda: [{"filename": "x"}, {"content": BIG}],
                "attachments[0].content"),
    "a hostile name": (lambda: [{"content": BIG, "filename": "a\r\nb"}],
                       "attachments[0].filename"),
    "too many": (lambda: [{"content": BIG}] + [{"content": "YQ=="}] * 100,
                 "attachments"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_attachment(gate, bot, name):
    make, field = BAD[name]
    before = gate.count()
    got = bot.send(attachments=make())
    assert refusal(got) == (422, "validation_error")
    assert got[2]["field"] == field
    assert gate.count() == before


def test_only_contents_may_be_large(gate, bot):
    before = gate.count()
    for field in ({"text": "x" * (MIB + 9)}, {"content": BIG},
                  {"headers": {"X-A": BIG}},
                  {"attachments": [{"filename": BIG, "content": "YQ=="}]},
                  {"attachments": {"content": BIG}},
                  {"attachments": [[{"content": BIG}]]},
                  {"context": {"attachments": [{"content": BIG}]}}):
        assert refusal(bot.send(**field))[0] in (413, 422), field
    broken = json.dumps({"to": ["a@example.org"], "attachments": [
        {"content": BIG}]}).encode()[:-1]
    assert refusal(bot.call("POST", "/v1/messages/send", broken, {
        "Content-Type": "application/json"})) == (400, "malformed_json")
    assert gate.count() == before


def test_a_client_cannot_name_what_was_spooled(bot):
    """A name with an escape is not cut out, and stands for itself."""
    body = ('{"to": ["ada@example.org"], "subject": "named", "attachments": '
            '[{"filename": "a", "content": "%s"}, {"filename": "b", '
            '"\\u0063ontent": "%s"}]}' % (BIG, "0" * 32 + ":0"))
    got = bot.call("POST", "/v1/messages/send", body.encode(),
                   {"Content-Type": "application/json"})
    assert got[2]["field"] == "attachments[1].content"
    good = body.replace("0" * 32 + ":0", "YWJj")
    sent = stored(bot.call("POST", "/v1/messages/send", good.encode(),
                           {"Content-Type": "application/json"}))
    assert ("b", b"abc") in attachments_of(bot, sent)[1]


def reload(gate, **values):
    program = gate.programs["posternd"]
    gate.set_conf("api", **values)
    mark = program.mark()
    program.send(signal.SIGHUP)
    for pid in workers(gate)[1:]:
        program.wait("daemon.reload", since=mark, pid=pid)


def test_the_disk_has_a_bound(gate):
    """An inbox may have half of it; the other inbox the other half."""
    reload(gate, spool_max="1M")
    try:
        mine, theirs = (Client(gate, b.key) for b in (gate.box, gate.other))
        over = {"attachments": [{"content": BIG}]}
        got = mine.send(**over)
        assert refusal(got) == (503, "storage_full")
        assert int(got[1]["retry-after"]) > 0
        assert refusal(theirs.send(**over)) == (503, "storage_full")
    finally:
        reload(gate, spool_max="2G")
    stored(mine.send(**over))


def test_twenty_at_once_in_bounded_memory(gate, bot):
    """Decision D7, with what a spool and a composed message need."""
    content = base64.b64encode(noise(SIZE, 6)).decode()

    def upload(i):
        return bot.call(
            "POST", "/v1/messages/send",
            ('{"to": ["ada@example.org"], "subject": "large %d", '
             '"attachments": [{"filename": "l", "content": "%s"}]}'
             % (i, content)).encode(),
            {"Content-Type": "application/json",
             "Idempotency-Key": "json-%d" % i}, timeout=500)

    with little_memory(gate), \
            concurrent.futures.ThreadPoolExecutor(UPLOADS) as pool:
        answers = list(pool.map(upload, range(UPLOADS)))
    assert len({stored(a)["message_id"] for a in answers}) == UPLOADS
    assert attachments_of(bot, answers[7][2])[1] == [("l", noise(SIZE, 6))]
    assert os.listdir(gate.spool) == []


def test_the_stock_client_sends_one(gate, bot):
    from tests.blackbox.test_rest_agentmail import Stock
    agents.need_node()
    data = noise(2 * MIB, 7)
    with Stock(gate) as s:
        sent = s("inboxes.messages.send", gate.box.address, {
            "to": ["ada@example.org"], "subject": "stock", "text": "x",
            "attachments": [{"filename": "s.bin", "content":
                             base64.b64encode(data).decode()}]})
    assert sent["status"] == "held"
    assert attachments_of(bot, {"message_id": sent["messageId"]})[1] \
        == [("s.bin", data)]
