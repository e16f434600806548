# SPDX-License-Identifier: ISC
"""multipart/form-data: attachments as they are, or a message behind its
envelope; streamed in bounded memory, taken whole or not at all."""
import concurrent.futures
import email
import email.policy
import json
import os
import subprocess

import pytest

from tests.blackbox.test_rest import INJECTIONS, Client, refusal, stored
from tests.blackbox.test_rest_large import attachments_of, noise
from tests.lib import agents, postern
from tests.lib.roomy import UPLOADS, little_memory, roomy

FULL = os.environ.get("POSTERN_FULL") == "1"
MIB = 1 << 20
SIZE = (36 if FULL else 3) * MIB
TO = {"to": ["ada@example.org"], "subject": "form", "text": "see"}
PATH = "/v1/messages/send"
MAIL = (b"From: bot@acme.example\r\nTo: ada@example.org\r\n"
        b"Subject: raw form\r\n\r\nGood day.\r\n")


@pytest.fixture(scope="module")
def gate():
    with roomy() as d:
        yield d


@pytest.fixture
def bot(gate):
    return Client(gate, gate.box.key)


def part(name, data, more="", head=""):
    if isinstance(data, dict):
        data = json.dumps(data)
    if isinstance(data, str):
        data = data.encode()
    return ('Content-Disposition: form-data; name="%s"%s\r\n%s\r\n'
            % (name, more, head)).encode() + data


def file(data, name="a.bin", head="Content-Type: application/pdf\r\n"):
    return part("attachment", data, '; filename="%s"' % name, head)


def body_of(parts, boundary="b0und"):
    mark = b"--" + boundary.encode()
    return b"".join(mark + b"\r\n" + p + b"\r\n" for p in parts) \
        + mark + b"--\r\n"


def post(bot, parts, boundary="b0und", http=None, **kw):
    return bot.call("POST", PATH, body_of(parts, boundary), {
        "Content-Type": "multipart/form-data; boundary=" + boundary,
        **(http or {})}, **kw)


def test_attachments_come_back_as_they_were(gate, bot):
    a, b = noise(2 * MIB + 1), noise(100, 2) + b"\r\n--b0un\r\n--"
    sent = stored(post(bot, [
        part("envelope", dict(TO, html="<img src=cid:i@d>", attachments=[
            {"filename": "c", "content": "YWJj"}])),
        file(a, "n%22\\\"\u00fc.pdf"),
        file(b"", "empty", ""),
        part("attachments", b, '; filename="i.png"',
             "Content-Type: image/png\r\nContent-ID: <i@d>\r\n"),
        part("attachment", "a field")]))
    mail, got = attachments_of(bot, sent)
    assert sorted(got) == sorted([
        ("n\"\"\u00fc.pdf", a), ("empty", b""), ("i.png", b), ("c", b"abc"),
        ("attachment", b"a field")])
    assert mail["subject"] == "form"
    pdf, = [p for p in mail.walk() if p.get_filename() == "n\"\"\u00fc.pdf"]
    assert pdf.get_content_type() == "application/pdf"
    image, = [p for p in mail.walk() if p.get_filename() == "i.png"]
    assert (image["content-id"], image.get_content_disposition()) == (
        "<i@d>", "inline")
    assert os.listdir(gate.spool) == []


def test_the_envelope_alone_is_a_mail(bot):
    sent = stored(post(bot, [part("envelope", TO)]))
    assert bot.get("/v1/messages/" + sent["message_id"])[2]["text"].strip() \
        == "see"


def test_a_message_goes_where_its_envelope_says(bot):
    big = MAIL + b"".join(b"%076d\r\n" % i for i in range(40000))
    for raw in (MAIL, big):
        sent = stored(post(bot, [
            part("envelope", {"to": ["eve@example.org"], "labels": ["x"]}),
            part("message", raw, '; filename="m.eml"',
                 "Content-Type: message/rfc822\r\n")]))
        path = "/v1/messages/" + sent["message_id"]
        doc = bot.get(path)[2]
        assert [r["address"] for r in doc["recipients"]] == [
            "eve@example.org"] and doc["labels"] == ["x"]
        got = email.message_from_bytes(bot.get(path + "/raw")[2],
                                       policy=email.policy.SMTP)
        assert got["to"] == "ada@example.org"
        assert bot.get(path + "/raw")[2].endswith(
            raw.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("last", ["attachment", "message"])
def test_the_parts_are_the_request_not_the_boundary(bot, last):
    """A client that tries again makes another boundary."""
    key = {"Idempotency-Key": "again-" + last}
    if last == "attachment":
        parts = [part("envelope", TO), file(b"abc"), file(b"def")]
        others = [[parts[0], file(b"abcdef"), file(b"")],
                  [parts[0], file(b"abc"), file(b"def", "b.bin")],
                  [parts[0], parts[2], parts[1]], parts[:2],
                  [part("envelope", dict(TO, text="saw"))] + parts[1:]]
    else:
        parts = [part("envelope", {"to": ["ada@example.org"]}),
                 part("message", MAIL)]
        others = [[parts[0], part("message", MAIL + b"more\r\n")],
                  [part("envelope", {"to": ["eve@example.org"]}), parts[1]]]
    first = stored(post(bot, parts, "one", key))
    status, head, doc = post(bot, parts, "two", key)
    assert (status, doc["message_id"], head["idempotent-replay"]) == (
        202, first["message_id"], "true")
    for other in others:
        assert refusal(post(bot, other, "one", key)) == (
            409, "idempotency_conflict")


ENVELOPE = part("envelope", TO)
RAW = part("message", MAIL)
BAD = {
    "nothing": ([], "envelope"),
    "no envelope": ([file(b"x")], "envelope"),
    "a message alone": ([RAW], "envelope"),
    "envelope last": ([file(b"x"), ENVELOPE], "envelope"),
    "two envelopes": ([ENVELOPE, ENVELOPE], "envelope"),
    "unknown": ([ENVELOPE, part("file", b"x")], "multipart"),
    "message of a composed one": ([ENVELOPE, RAW], "subject"),
    "message behind a file": ([ENVELOPE, file(b"x"), RAW], "message"),
    "a file behind a message": (
        [part("envelope", {"to": ["ada@example.org"]}), RAW, file(b"x")],
        "message"),
    "no recipients": ([part("envelope", {"text": "x"})], "to"),
    "no list": ([part("envelope", dict(TO, attachments={})), file(b"x")],
                "attachments"),
    "encoded": ([ENVELOPE, file(b"eA==", "a",
                                "Content-Transfer-Encoding: base64\r\n")],
                "multipart"),
    "not a type": ([ENVELOPE, file(b"x", "a", "Content-Type: pdf\r\n")],
                   "attachments[0].content_type"),
    "no UTF-8": ([ENVELOPE, b'Content-Disposition: form-data; '
                  b'name="attachment"; filename="\xff"\r\n\r\nx'],
                 "attachment"),
    "too many": ([ENVELOPE] + [file(b"x")] * 101, "attachments"),
    "far too many": ([ENVELOPE] + [file(b"x")] * 300, "attachment"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_form(gate, bot, name):
    parts, field = BAD[name]
    before = gate.count()
    got = post(bot, parts)
    assert refusal(got) == (422, "validation_error")
    assert got[2]["field"] == field
    assert gate.count() == before and os.listdir(gate.spool) == []


def test_other_refusals(gate, bot):
    before = gate.count()
    good = body_of([ENVELOPE, file(b"x")])
    kind = "multipart/form-data; boundary=b0und"

    def send(body, content_type=kind, **http):
        got = bot.call("POST", PATH, body,
                       {"Content-Type": content_type, **http})
        return refusal(got)
    for body in (good[:-1] + b"x", b"x" + good, good + b"x",
                 good.replace(b"\r\n", b"\n"),
                 good.replace(b"\r\nx\r\n", b"\r\nx\r\n--b0undx\r\n")):
        assert send(body) == (422, "validation_error"), body
    for wrong in ("multipart/form-data", kind + "; boundary=b",
                  "multipart/form-data; boundary=\"b0und \""):
        assert send(good, wrong) == (422, "validation_error"), wrong
    assert send(good, "multipart/mixed; boundary=b0und")[0] == 415
    assert send(good, **{"Content-Encoding": "gzip"})[0] == 415
    assert send(good, **{"Idempotency-Key": "a b"})[0] == 422
    assert send(body_of([part("envelope", "{")])) == (400, "malformed_json")
    assert send(body_of([part("envelope", " " * (MIB + 1))])) == (
        413, "payload_too_large")
    alias = bot.call("POST", "/v1/messages/msg_%s/reply" % ("0" * 26), good,
                     {"Content-Type": kind})
    assert refusal(alias)[0] == 415
    assert refusal(Client(gate).call("POST", PATH, good,
                                     {"Content-Type": kind}))[0] == 401
    assert gate.count() == before and os.listdir(gate.spool) == []


def test_no_part_makes_a_header(gate, bot):
    """H3: names and types of parts become headers of the mail."""
    before, tried = gate.count(), 0
    for value in INJECTIONS:
        text = value.replace("\r", "%0D").replace("\n", "%0A")
        hostile = [
            [ENVELOPE, file(b"x", text)],
            [ENVELOPE, file(b"x", value)],
            [part("envelope", dict(TO, subject=value)), file(b"x")],
            [part("envelope", {"to": ["a@b.example" + value]}), RAW]]
        if "\r\n" not in value:  # which ends a line of the part, no more
            hostile += [[ENVELOPE, file(b"x", "a", head % value)] for head in (
                "Content-Type: a/b%s\r\n", "Content-ID: <a%s>\r\n")]
        for parts in hostile:
            status, _, doc = post(bot, parts)
            assert status == 422, (value, parts, doc)
            tried += 1
    assert tried > 20 and gate.count() == before


def test_a_cut_connection_leaves_nothing(gate, bot):
    """At any byte of the last 200 and some before."""
    import socket
    before = gate.count()
    for parts in ([ENVELOPE, file(b"x" * 60000)],
                  [part("envelope", {"to": ["ada@example.org"]}),
                   part("message", MAIL + b"y\r\n" * 40000)]):
        body = body_of(parts)
        head = ("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "
                "%s\r\nContent-Type: multipart/form-data; boundary=b0und\r\n"
                "Content-Length: %d\r\n\r\n" % (PATH, bot.key, len(body))
                ).encode()
        for at in [1, 30, 100, 200, 20000] + list(range(
                len(body) - 90, len(body), 7)):
            raw = socket.create_connection(("127.0.0.1", gate.api_port))
            with bot.context.wrap_socket(raw, server_hostname="127.0.0.1") \
                    as s:
                s.sendall(head + body[:at])
    assert stored(post(bot, [ENVELOPE, file(b"after")]))
    postern.wait_until("spools are gone",
                       lambda: os.listdir(gate.spool) == [])
    assert gate.count() == before + 1


def test_twenty_at_once_in_bounded_memory(gate, bot):
    """Decision D7: whatever the size, and without base64 on the way."""
    data = noise(SIZE, 6)

    def upload(i):
        return post(bot, [part("envelope", dict(TO, subject="large %d" % i)),
                          file(data, "l")], timeout=500)

    with little_memory(gate), \
            concurrent.futures.ThreadPoolExecutor(UPLOADS) as pool:
        answers = list(pool.map(upload, range(UPLOADS)))
    assert len({stored(a)["message_id"] for a in answers}) == UPLOADS
    assert attachments_of(bot, answers[7][2])[1] == [("l", data)]
    assert os.listdir(gate.spool) == []


def test_curl_and_node_send_one(gate, bot):
    """As the guide says, by clients that write forms of their own."""
    data, name = noise(MIB, 7), gate.path("r\u00e9port.pdf")
    with open(name, "wb") as f:
        f.write(data)
    url = "https://127.0.0.1:%d%s" % (gate.api_port, PATH)
    done = subprocess.run(
        ["curl", "-sS", "--cacert", gate.ca_file, "-H",
         "Authorization: Bearer " + bot.key, "-F",
         "envelope=" + json.dumps(TO), "-F", "attachment=@" + name, url],
        stdout=subprocess.PIPE, check=True)
    sent = [json.loads(done.stdout)]
    if agents.NODE:
        script = """
import { readFileSync } from 'node:fs';
const form = new FormData();
form.append('envelope', process.env.DOC);
form.append('attachment', new Blob([readFileSync(process.env.FILE)],
	{ type: 'application/pdf' }), 'r\\u00e9port.pdf');
const r = await fetch(process.env.URL, { method: 'POST', body: form,
	headers: { Authorization: 'Bearer ' + process.env.KEY } });
console.log(await r.text());
"""
        done = subprocess.run(
            [agents.NODE, "--input-type=module", "-e", script],
            stdout=subprocess.PIPE, check=True,
            env={**os.environ, "NODE_EXTRA_CA_CERTS": gate.ca_file,
                 "URL": url, "KEY": bot.key, "FILE": name,
                 "DOC": json.dumps(dict(TO, subject="node"))})
        sent.append(json.loads(done.stdout))
    for doc in sent:
        assert doc["status"] == "held", doc
        assert attachments_of(bot, doc)[1] == [("r\u00e9port.pdf", data)]


def test_nothing_was_leaked(gate):
    p = gate.programs["posternd"]
    assert p.stop() == 0
    assert [x for x in p.lines if x and "Sanitizer" in x] == []
