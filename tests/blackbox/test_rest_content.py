# SPDX-License-Identifier: ISC
"""What an agent reads back of its own mail, and who is made to wait."""

import base64
import hashlib
import http.client
import json
import random
import threading
import time

from tests.blackbox.test_rest import (  # noqa: F401 (fixtures)
    Client, bot, gate, nobody, refusal, stored)
from tests.lib import noise, period, postern, rawsmtp

CONTENT = {"reply_to", "text", "html", "attachments", "headers"}


def raw_mail(body, *fields, mid):
    head = ("From: Bot <bot@acme.example>", "To: ada@example.org",
            "Subject: s", "Message-ID: <%s@acme.example>" % mid) + fields
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def test_message_in_full(bot):  # noqa: F811
    data = bytes(range(256)) * 300
    sent = stored(bot.send(
        to=["Ada <ada@example.org>"], cc=["eve@example.net"],
        subject="Grüße ✓", text="Zeile\nzwei ✓\n", html="<p>x ✓</p>",
        headers={"X-Run": "7 ✓"}, reply_to="Büro <bot@acme.example>",
        attachments=[
            {"filename": "fü \"x\".bin", "content_type": "application/x-a",
             "content": base64.b64encode(data).decode()},
            {"filename": "a.txt", "content_type": "text/plain",
             "content": base64.b64encode(b"note").decode()}]))
    path = "/v1/messages/" + sent["message_id"]
    m = bot.get(path)[2]
    assert m["content"] == "complete"
    assert m["text"] == "Zeile\nzwei ✓\n" and m["html"] == "<p>x ✓</p>"
    assert m["reply_to"] == ["Büro <bot@acme.example>"]
    assert m["headers"]["Subject"] == "Grüße ✓"
    assert m["headers"]["X-Run"] == "7 ✓"
    assert m["headers"]["Message-ID"] == m["rfc_message_id"]
    assert "Bcc" not in m["headers"]
    assert m["in_reply_to"] is None and m["references"] == []
    assert [r["kind"] for r in m["recipients"]] == ["to", "cc"]
    assert m["hold"]["reasons"] == ["mode"] and m["decision"] is None
    first, second = m["attachments"]
    assert first == {
        "attachment_id": first["attachment_id"], "filename": "fü \"x\".bin",
        "content_type": "application/x-a", "charset": None,
        "size": len(data), "inline": False, "content_id": None,
        "sha256": sha256(data)}
    assert second["filename"] == "a.txt" and second["size"] == 4
    assert first["attachment_id"].startswith("att_")
    assert first["attachment_id"] != second["attachment_id"]

    status, headers, got = bot.get(
        "%s/attachments/%s" % (path, first["attachment_id"]))
    assert status == 200 and got == data
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-length"] == str(len(data))
    assert headers["content-disposition"] == (
        "attachment; filename*=UTF-8''f%C3%BC%20%22x%22.bin")
    assert headers["x-content-type-options"] == "nosniff"
    got = bot.get("%s/attachments/%s" % (path, second["attachment_id"]))
    assert got[2] == b"note"
    # the same ids again, and only here
    assert bot.get(path)[2]["attachments"] == m["attachments"]
    other = stored(bot.send(subject="other"))["message_id"]
    assert refusal(bot.get("/v1/messages/%s/attachments/%s" % (
        other, first["attachment_id"]))) == (404, "not_found")
    for wrong in ("att_", "att_" + "0" * 26, "x", first["attachment_id"][:-1]):
        assert refusal(bot.get("%s/attachments/%s" % (path, wrong))) == (
            404, "not_found")
    # lists stay short
    [listed] = [x for x in bot.get("/v1/messages?limit=100")[2]["messages"]
                if x["message_id"] == sent["message_id"]]
    assert not CONTENT & set(listed) and listed["attachment_count"] == 2


def test_structure_of_a_raw_mail(bot):  # noqa: F811
    inner = (b"From: a@b.example\r\nSubject: inside\r\n\r\nold text\r\n")
    body = (b"--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\n"
            b"Content-Transfer-Encoding: quoted-printable\r\n\r\n"
            b"gr=FC=DFe\r\n"
            b"--b\r\nContent-Type: message/rfc822\r\n\r\n" + inner +
            b"\r\n--b\r\nContent-Type: text/plain; charset=koi8-r\r\n"
            b"Content-Transfer-Encoding: base64\r\n\r\n" +
            base64.b64encode("привет".encode("koi8-r")) +
            b"\r\n--b\r\nContent-Type: image/png; name=x.png\r\n"
            b"Content-ID: <logo@x>\r\nContent-Disposition: inline\r\n"
            b"Content-Transfer-Encoding: base64\r\n\r\niVBORw==\r\n--b--\r\n")
    sent = stored(bot.send_raw(raw_mail(
        body, "MIME-Version: 1.0", "In-Reply-To: <p@x.example>",
        "References: <o@x.example> <p@x.example>", "Comments: one",
        "comments: two", "Content-Type: multipart/mixed; boundary=b",
        mid="structure")))
    path = "/v1/messages/" + sent["message_id"]
    m = bot.get(path)[2]
    assert m["text"] == "grüße" and m["html"] is None
    assert m["in_reply_to"] == "<p@x.example>"
    assert m["references"] == ["<o@x.example>", "<p@x.example>"]
    assert m["headers"]["Comments"] == "one\ntwo"
    assert m["reply_to"] == []
    mail, text, image = m["attachments"]
    assert mail["content_type"] == "message/rfc822"
    assert mail["sha256"] == sha256(inner)
    assert text["charset"] == "koi8-r" and text["inline"] is True
    assert image["filename"] == "x.png" and image["content_id"] == "logo@x"
    assert image["inline"] is True and image["size"] == 4
    for a, want in ((mail, inner), (text, "привет".encode("koi8-r")),
                    (image, b"\x89PNG")):
        got = bot.get("%s/attachments/%s" % (path, a["attachment_id"]))[2]
        assert got == want


def test_long_text_is_cut_and_can_be_had(bot):  # noqa: F811
    text = ("0123456789 ✓\n" * 50000)
    sent = stored(bot.send(text=text))
    path = "/v1/messages/" + sent["message_id"]
    m = bot.get(path)[2]
    assert m["content"] == "truncated"
    assert text.startswith(m["text"]) and len(m["text"].encode()) > 450 * 1024
    [whole] = m["attachments"]
    got = bot.get("%s/attachments/%s" % (path, whole["attachment_id"]))[2]
    assert got.decode().replace("\r\n", "\n") == text
    assert whole["size"] == len(got) and whole["sha256"] == sha256(got)
    status, _, doc = bot.call("POST", path + "/forward",
                              {"to": ["ada@example.org"]})
    assert (status, doc["code"]) == (413, "payload_too_large")
    assert doc["message"] == "the message cannot be read as a whole: truncated"


def test_a_send_key_gets_no_body(gate):  # noqa: F811
    box = gate.add_inbox("nobody-reads@acme.example", "acme")
    full, send = Client(gate, box.key), Client(gate, box.smtp_key)
    sent = stored(send.send(text="secret words", attachments=[
        {"filename": "a", "content": base64.b64encode(b"x").decode()}]))
    path = "/v1/messages/" + sent["message_id"]
    m = send.get(path)[2]
    assert m["content"] == "not_with_this_key" and m["status"] == "held"
    assert not CONTENT & set(m) and "secret words" not in json.dumps(m)
    assert len(m["recipients"]) == 1
    [a] = full.get(path)[2]["attachments"]
    assert refusal(send.get(
        "%s/attachments/%s" % (path, a["attachment_id"]))) == (
            403, "missing_permission")
    assert full.get(path)[2]["text"] == "secret words"


def test_body_of_another_inbox_stays_closed(gate, bot):  # noqa: F811
    sent = stored(bot.send(attachments=[
        {"filename": "a", "content": base64.b64encode(b"x").decode()}]))
    path = "/v1/messages/" + sent["message_id"]
    [a] = bot.get(path)[2]["attachments"]
    for box in gate.boxes[1:]:
        for tail in ("", "/attachments/" + a["attachment_id"], "/raw"):
            got = Client(gate, box.key).get(path + tail)
            assert refusal(got) == (404, "not_found")


def test_fifty_mib_attachment(gate, bot):  # noqa: F811
    """Incompressible: the largest chunks there are (docs/formats.md)."""
    data = noise.lines(49 << 20)
    mail = raw_mail(data, *noise.HEAD.split("\r\n")[:-1], mid="fifty")
    assert 49 << 20 < len(mail) < 50 << 20
    sent = stored(bot.call(
        "POST", "/v1/messages/send", mail,
        {"Content-Type": "message/rfc822",
         "X-Postern-Envelope": '{"to": ["ada@example.org"]}'}, timeout=120))
    path = "/v1/messages/" + sent["message_id"]
    m = bot.get(path, timeout=120)[2]
    [a] = m["attachments"]
    assert m["text"] is None and a["size"] == len(data)
    assert a["sha256"] == sha256(data)
    got = bot.get("%s/attachments/%s" % (path, a["attachment_id"]),
                  timeout=120)[2]
    assert got == data


def test_international_domains(gate, bot):  # noqa: F811
    """B38: a domain goes out as A-label, so no mail needs SMTPUTF8 for it; a
    local part never goes through punycode."""
    want = ["ada@xn--bcher-kva.example"]
    sent = stored(bot.send(to=["Ada <ada@B\u00fccher.example>"]))
    path = "/v1/messages/" + sent["message_id"]
    assert bot.get(path)[2]["to"] == want
    assert bot.get(path + "/raw")[2].isascii()
    sent = stored(bot.send_raw(raw_mail(b"x\r\n", mid="idn"),
                               to=["ada@b\u00fccher.example"]))
    assert bot.get("/v1/messages/" + sent["message_id"])[2]["bcc"] == want
    assert gate.sql("SELECT count(*) AS n FROM d.message WHERE array_to_string("
                    "rcpt, '') ~ '[^ -~]'")[0]["n"] == 0
    for to in (["ada@xn--a.example"], ["ada@-x.example"]):
        assert refusal(bot.send(to=to))[0] == 422
        assert refusal(bot.send_raw(raw_mail(b"", mid="no"), to=to))[0] == 422


def test_international_local_parts(gate, bot):  # noqa: F811
    """B38: kept as they are, in envelope and header, and SMTPUTF8 is asked
    for because of them alone."""
    def params(sent):
        assert sent["status"] == "held"
        return gate.sql("SELECT params FROM d.message ORDER BY message_id "
                        "DESC LIMIT 1")[0]["params"]

    to = ["J\u00f6rg <j\u00f6rg@B\u00fccher.example>"]
    want = "j\u00f6rg@xn--bcher-kva.example"
    sent = stored(bot.send(to=to, subject="gr\u00fc\u00dfe"))
    path = "/v1/messages/" + sent["message_id"]
    assert bot.get(path)[2]["to"] == [want]
    assert params(sent) == "SMTPUTF8=\n"
    raw = bot.get(path + "/raw")[2]
    assert b"<" + want.encode() + b">" in raw
    assert b"Subject: =?utf-8?" in raw.replace(b"UTF-8", b"utf-8")
    for fields in ({"cc": to}, {"bcc": to}, {"reply_to": to}):
        assert params(stored(bot.send(**fields))) == "SMTPUTF8=\n", fields
    assert params(stored(bot.send(subject="gr\u00fc\u00dfe"))) == ""
    head = ("From: %s\r\nTo: %s\r\nSubject: raw\r\n\r\nhi\r\n" % (
        gate.boxes[0].address, want)).encode()
    sent = stored(bot.send_raw(head, to=[want]))
    assert params(sent) == "SMTPUTF8=\n"
    # a header that nothing else needs has to be encoded
    assert refusal(bot.send_raw(head))[1] == "message_malformed"
    for bad in ("j\u00f6 rg@example.org", "j\u202erg\r\n@example.org"):
        assert refusal(bot.send(to=[bad]))[0] == 422


# -- who is made to wait -----------------------------------------------------


class From(Client):
    """A client at an address of its own."""

    def __init__(self, deployment, key, source):
        super().__init__(deployment, key)
        self.source = source

    def get(self, path, **kw):
        c = http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=self.context, timeout=60,
            source_address=(self.source, 0))
        try:
            start = time.monotonic()
            c.request("GET", path, None, {
                "Host": "127.0.0.1", "Authorization": "Bearer " + self.key})
            r = c.getresponse()
            doc = json.loads(r.read())
            return (r.status, {k.lower(): v for k, v in r.getheaders()}, doc,
                    time.monotonic() - start)
        finally:
            c.close()


def test_failures_of_an_address_get_slow(gate):  # noqa: F811
    good = gate.boxes[0]
    bad = From(gate, good.key[:-1] + ("0" if good.key[-1] != "0" else "1"),
               "127.9.0.1")
    times = []
    for _ in range(5):
        status, _, doc, seconds = bad.get("/v1/auth/me")
        assert (status, doc["code"]) == (401, "unknown_api_key")
        times.append(seconds)
    # the fastest of those that should not wait: a busy machine slows some
    assert min(times[:3]) < 0.9 < times[3] and times[4] > 1.9, times
    # the same counter as SMTP's: a wrong password there waits as well
    r = rawsmtp.secured(gate, source="127.9.0.1")
    start = time.monotonic()
    answer = r.say("AUTH PLAIN " + base64.b64encode(
        b"\0bot@acme.example\0wrong").decode())
    assert answer.startswith("535 5.7.8")
    assert time.monotonic() - start >= 2.9  # the loop's clock is a little behind
    # neither who has the right key nor another address does
    right = [From(gate, good.key, "127.9.0.1").get("/v1/auth/me")
             for _ in range(3)]
    assert {answer[0] for answer in right} == {200}
    assert min(answer[3] for answer in right) < 2.9
    elsewhere = []
    for n in (12, 13, 14):
        bad.source = "127.9.0.%d" % n
        elsewhere.append(bad.get("/v1/auth/me")[3])
    assert min(elsewhere) < 0.9


def test_many_failures_are_429(gate):  # noqa: F811
    bad = From(gate, "pst_live_1_1_nothing", "127.9.0.3")
    answers = []
    lock = threading.Lock()

    def one():
        got = bad.get("/v1/auth/me")
        with lock:
            answers.append(got)
    threads = [threading.Thread(target=one) for _ in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    codes = sorted(a[2]["code"] for a in answers)
    assert codes == ["rate_limited"] * 5 + ["unknown_api_key"] * 19
    late = [a for a in answers if a[0] == 429]
    assert all(a[1]["retry-after"] == "60" and a[2]["retry"] == "after"
               and a[3] >= 9 for a in late)
    status, _, _, seconds = From(gate, gate.boxes[0].key, "127.9.0.3").get(
        "/v1/auth/me")
    assert status == 200 and seconds < 9  # as those that fail wait now


def audit(gate, what):  # noqa: F811
    return gate.sql("SELECT actor, detail FROM d.audit WHERE event = "
                    "'denied.%s' ORDER BY at" % what)


def test_dead_keys_and_foreign_ids_are_written_down(gate):  # noqa: F811
    box = gate.add_inbox("dead@acme.example", "acme")
    spare = gate.add_inbox("spare@acme.example", "acme")
    agent = Client(gate, box.key)
    sent = stored(Client(gate, spare.key).send())["message_id"]
    assert refusal(agent.get("/v1/messages/" + sent)) == (404, "not_found")
    postern.wait_until(
        "foreign id", lambda: sent in str(audit(gate, "foreign_id")))
    [key] = [k for k in agent.get("/v1/inboxes/me/api-keys")[2]["keys"]
             if k["scope"] == "full"]
    assert agent.call("DELETE", "/v1/inboxes/me/api-keys/" + key["key_id"])[
        0] == 200
    period.within(period.HALF_HOUR, 90)  # the most of an hour
    before = len(audit(gate, "dead_key"))
    for _ in range(25):
        source = "127.9.%d.%d" % (random.randint(1, 254),
                                  random.randint(1, 254))
        got = From(gate, box.key, source).get("/v1/auth/me")
        assert got[0] == 401
    postern.wait_until(
        "dead key", lambda: len(audit(gate, "dead_key")) > before)
    actor = "agent:%s" % ".".join(box.key.split("_")[2:4])
    rows = [r for r in audit(gate, "dead_key") if actor in str(r)]
    assert 0 < len(rows) <= 20
    # a key that never was has no inbox to write it down for
    count = len(audit(gate, "dead_key"))
    wrong = From(gate, spare.key, "127.9.0.9")
    assert wrong.get("/v1/auth/me")[0] == 200
    assert len(audit(gate, "dead_key")) == count


def test_markdown_is_text_and_html(gate):  # noqa: F811
    bot = Client(gate, gate.boxes[0].key)
    text = "# Hi\n\n[x](https://a.example) <b>bold</b> [y](javascript:z)"
    doc = stored(bot.send(text=None, markdown=text))
    got = bot.get("/v1/messages/" + doc["message_id"])[2]
    assert got["text"].rstrip("\n") == text
    assert "<h1>Hi</h1>" in got["html"]
    assert '<a href="https://a.example">x</a> &lt;b&gt;' in got["html"]
    assert "javascript" not in got["html"]
    assert "multipart/alternative" in got["headers"]["Content-Type"]
    doc = stored(bot.send(text="own", markdown="*m*"))
    got = bot.get("/v1/messages/" + doc["message_id"])[2]
    assert got["text"].rstrip("\n") == "own"
    for more in ({"html": "<p>"}, {"markdown": 1},
                 {"markdown": "x" * 131073}):
        got = bot.send(**dict({"markdown": "x"}, **more))
        assert refusal(got) == (422, "validation_error")
        assert got[2]["field"] == "markdown"


def test_a_guess_is_told_how_it_goes(bot, nobody):  # noqa: F811
    """Enough to put it right without reading anything else."""
    _, _, doc = bot.call("POST", "/v1/messages/send",
                         {"to": ["a@example.org"], "body": "x"})
    assert doc["field"] == "body"
    assert "it has to, cc, bcc" in doc["message"] and "text" in doc["message"]
    _, _, doc = bot.get("/v1/messages/send")
    assert "POST" in doc["message"]
    _, _, doc = bot.get("/v1/mail")
    assert "GET /v1/guide" in doc["fix"]
    _, _, doc = nobody.get("/v1/auth/me", headers={"Authorization": bot.key})
    assert "Bearer" in doc["message"]
