# SPDX-License-Identifier: ISC
"""/u/TOKEN: one POST and no more mail (RFC 8058); all else changes nothing."""
import base64
import hashlib
import http.client
import json
import re
import socket
import ssl
import threading

import pytest

from tests.blackbox.test_rest import Client, refusal
from tests.lib.relaying import Relaying

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
ASKED = b"List-Unsubscribe=One-Click"
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
BASE = "https://mail.acme.example"


@pytest.fixture(scope="module")
def r():
    with Relaying(unsubscribe_url=BASE) as it:
        it.signed_in("dkim", "new", "acme.example", "--pair", "one")
        it.signed_in("dkim", "use", "acme.example", "one", "--force")
        it.signed_in("inbox", "set", it.box.address, "--one-click", "yes")
        it.start_worker()
        it.used = 0
        yield it


def mailed(r, rcpt=None):
    """(recipient, path of its link) of a mail that arrived."""
    r.used += 1
    rcpt = rcpt or "p%d@dest.example" % r.used
    r.mx.reset()
    # The plan's 20 an hour are no matter of this file.
    r.sql("UPDATE d.inbox SET lim_hour = 100000, lim_day = 100000, "
          "limits_version = limits_version + 1 WHERE address = %s",
          r.box.address)
    r.wait_state(r.submit([rcpt], box=r.box), "sent")
    raw = r.mx.messages[-1]["data"].decode()
    return rcpt, re.search(r"^List-Unsubscribe:\s+<%s(/u/[0-9a-z]{55})>\r$"
                           % BASE, raw, re.M)[1]


@pytest.fixture
def link(r):
    return mailed(r)


def gone(r, rcpt):
    return r.sql("SELECT created_by FROM d.list_entry WHERE entry = %s AND "
                 "ended_at IS NULL", rcpt)


def post(r, path, body=ASKED, headers=FORM, **kw):
    return Client(r).call("POST", path, body, headers, **kw)


def page_of(answer, status=200):
    """A page that no script and nothing from elsewhere can be part of."""
    got, headers, page = answer
    assert (got, headers["content-type"]) == (
        status, "text/html; charset=utf-8"), answer
    page = page.decode()
    policy = headers["content-security-policy"]
    style = re.search("<style>(.*?)</style>", page, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        "default-src 'none'; style-src 'sha256-%s'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'" % digest)
    assert "<script" not in page and "src=" not in page and "://" not in page
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-robots-tag"] == "noindex"
    assert "set-cookie" not in headers and "location" not in headers
    return page


def test_one_post_is_enough(r, link):
    rcpt, path = link
    status, headers, doc = post(r, path)
    assert (status, doc) == (200, {"unsubscribed": True})
    assert "set-cookie" not in headers and "location" not in headers
    assert gone(r, rcpt) == [{"created_by": "recipient"}]
    # by any door there is no more
    bot = Client(r, r.box.key)
    assert refusal(bot.send(to=[rcpt.upper()])) == (403, "message_rejected")
    with pytest.raises(Exception, match="5.7.1.*message_rejected"):
        r.submit([rcpt], box=r.box)
    # and the agent is told
    said = r.rest(r.box, "/v1/messages?limit=1")["messages"][0]
    events = r.rest(r.box, "/v1/messages/%s/events" % said["message_id"])
    assert [(e["actor"], e["detail"]) for e in events["events"]
            if e["type"] == "message.unsubscribed"] == [("recipient", rcpt)]
    # once more changes nothing
    assert post(r, path)[0] == 200 and len(gone(r, rcpt)) == 1


@pytest.mark.parametrize("form", [
    '--x\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\n'
    'One-Click\r\n--x--\r\n',
    '--x\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n'
    'Content-Type: text/plain\r\n\r\nOne-Click\r\n--x--'])
def test_the_form_of_rfc_8058(r, link, form):
    rcpt, path = link
    assert post(r, path, form.encode(), {
        "Content-Type": "multipart/form-data; boundary=x"})[0] == 200
    assert gone(r, rcpt)


def test_looking_changes_nothing(r, link):
    """Whoever looks ahead sees a button, and has pressed none."""
    rcpt, path = link
    for headers in ({}, BROWSER, {"Purpose": "prefetch"}):
        page = page_of(Client(r).call("GET", path, None, headers))
    assert re.search('<form method="post"><input type="hidden" name="List-'
                     'Unsubscribe" value="One-Click"><button>', page)
    assert " action=" not in page and rcpt not in page
    status, headers, body = Client(r).call("HEAD", path)
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) == len(page.encode())
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        status, headers, _ = Client(r).call(method, path, ASKED, FORM)
        assert status == 405 and set(headers["allow"].split(", ")) == {
            "GET", "HEAD", "POST"}
    assert gone(r, rcpt) == []
    # the button, without any script
    fields = dict(re.findall('name="(.*?)" value="(.*?)"', page))
    page = page_of(post(r, path, "&".join(
        "%s=%s" % f for f in fields.items()).encode(), {**FORM, **BROWSER}))
    assert "<h1>Unsubscribed</h1>" in page and gone(r, rcpt)


BAD = ["", "x", "List-Unsubscribe=", "List-Unsubscribe=One-click",
       "List-Unsubscribe=Two-Click", "list-unsubscribe=One-Click",
       "List-Unsubscribe: One-Click", "One-Click=List-Unsubscribe",
       "List-Unsubscribe=One-Click&List-Unsubscribe=One-Click",
       "List-Unsubscribe=One-Click&List-Unsubscribe=no",
       "List-Unsubscribe%00=One-Click", "List-Unsubscribe=One-Click%0d%0a",
       "{\"List-Unsubscribe\": \"One-Click\"}"]


def test_another_body_is_no_wish(r, link):
    rcpt, path = link
    for body in BAD:
        status, code = refusal(post(r, path, body.encode()))
        assert (status, code) in ((422, "validation_error"),
                                  (400, "protocol_violation")), body
    for kind, want in (
            ("application/json", 415), ("text/plain", 415), ("", 415),
            ("multipart/mixed; boundary=x", 415),
            ("multipart/form-data", 422),
            ("multipart/form-data; boundary=x", 422)):
        assert refusal(post(r, path, ASKED, {"Content-Type": kind}))[
            0] == want, kind
    assert refusal(post(r, path, ASKED + b"&x=" + b"y" * 4096)) == (
        413, "payload_too_large")
    assert refusal(Client(r).call("POST", path))[0] == 415
    assert gone(r, rcpt) == []
    assert post(r, path)[0] == 200


def test_what_is_no_token(r, link):
    """Forged, cut, of another deployment: one answer, and nothing done."""
    rcpt, path = link
    before = r.sql("SELECT count(*) AS n FROM d.list_entry")
    other = {"0": "1"}.get(path[-1], "0")
    answers = set()
    for token in ("0" * 55, path[3:-1] + other, "0" + path[3:-1],
                  path[3:-1], path[3:] + "0", path[3:].upper(), "x",
                  "%27%20OR%201=1--", "..%2f..%2fetc", "%00" * 55,
                  path[3:] + "%0d%0aSet-Cookie:%20a=b", "%e2%80%ae"):
        target = "/u/" + token
        status, headers, doc = post(r, target)
        if status == 400:  # not a path that is decoded
            continue
        assert (status, doc["code"]) == (404, "link_invalid"), token
        assert "set-cookie" not in headers
        answers.add((doc["message"], doc["fix"], doc["retry"]))
        page = page_of(post(r, target, headers={**FORM, **BROWSER}), 404)
        assert "Nothing was changed" in page
    assert len(answers) == 1
    page_of(Client(r).get("/u/x"), 404)
    assert refusal(Client(r).get("/u/%zz"))[0] == 400
    assert Client(r).get("/u/")[0] == 404
    assert r.sql("SELECT count(*) AS n FROM d.list_entry") == before
    # a key is nobody's way around it, and no hindrance
    for key in (r.box.key, "pst_live_1_1_" + "0" * 59):
        assert refusal(post(r, "/u/" + "0" * 55, key=key)) == (
            404, "link_invalid")
    assert post(r, path, key=r.box.smtp_key)[0] == 200 and gone(r, rcpt)


def test_a_deleted_tenants_links_are_no_links(r):
    r.add_tenant("gone", "gone.example")
    box = r.add_inbox("bot@gone.example", "gone")
    r.set_mode(box, 4)
    r.signed_in("dkim", "new", "gone.example", "--pair", "one")
    r.signed_in("dkim", "use", "gone.example", "one", "--force")
    r.signed_in("inbox", "set", box.address, "--one-click", "yes")
    mine, r.box = r.box, box
    try:
        _, path = mailed(r)
    finally:
        r.box = mine
    assert post(r, path)[0] == 200
    r.sql("UPDATE d.tenant SET disabled_at = now(), deleted_at = now() "
          "WHERE slug = 'gone'")
    assert refusal(post(r, path)) == (404, "link_invalid")


def from_one(r, path, n, source="127.9.8.7"):
    """Statuses and waits of `n` POSTs from one address."""
    context = ssl.create_default_context(cafile=r.ca_file)
    got = []
    for _ in range(n):
        c = http.client.HTTPSConnection(
            "127.0.0.1", r.api_port, context=context, timeout=30,
            source_address=(source, 0))
        try:
            c.request("POST", path, ASKED, FORM)
            answer = c.getresponse()
            got.append((answer.status, json.loads(answer.read())))
        finally:
            c.close()
    return got


def test_who_tries_many_has_to_wait(r, link):
    """As with keys: the guesses of one address are counted, and what is
    right never waits."""
    rcpt, path = link
    before = r.sql("SELECT count(*) AS n FROM d.list_entry")
    lanes = [threading.Thread(target=from_one, args=(r, "/u/" + "1" * 55, 1))
             for _ in range(25)]
    for it in lanes:
        it.start()
    for it in lanes:
        it.join()
    (status, doc), = from_one(r, "/u/" + "1" * 55, 1)
    assert (status, doc["code"]) == (429, "rate_limited")
    assert r.sql("SELECT count(*) AS n FROM d.list_entry") == before
    (status, doc), = from_one(r, path, 1)
    assert (status, doc) == (200, {"unsubscribed": True})


def test_raw_bytes(r, link):
    """Two answers are never made of one request, nor a header of a token."""
    rcpt, path = link
    context = ssl.create_default_context(cafile=r.ca_file)
    head = "POST %s HTTP/1.1\r\nHost: mail.acme.example\r\n" \
        "Content-Type: application/x-www-form-urlencoded\r\n"
    for request, want in (
            (head % (path + "\r\nX: y") + "Content-Length: 26\r\n\r\n", b"400"),
            (head % path + "Content-Length: 26\r\nContent-Length: 5\r\n\r\n",
             b"400"),
            (head % path + "Transfer-Encoding: chunked\r\nContent-Length: 26"
             "\r\n\r\n", b"400"),
            (head % path + "Transfer-Encoding: chunked\r\n\r\n1a\r\n"
             "List-Unsubscribe=One-Click\r\n0\r\n\r\n", b"200")):
        with socket.create_connection(("127.0.0.1", r.api_port)) as raw, \
                context.wrap_socket(raw, server_hostname="localhost") as s:
            s.settimeout(20)
            s.sendall(request.encode() + (ASKED if want == b"400" else b""))
            assert s.recv(64).startswith(b"HTTP/1.1 " + want), request
        assert bool(gone(r, rcpt)) == (want == b"200"), request


def test_an_operator_lifts_it(r, link):
    rcpt, path = link
    assert post(r, path)[0] == 200
    said = json.loads(r.signed_in("--json", "suppression", "list", rcpt,
                                  "--tenant", "acme"))
    assert [(e["entry"], e["created_by"], e["address"]) for e in said] == [
        (rcpt, "recipient", r.box.address)]
    assert rcpt in r.signed_in("suppression", "list")
    assert "eve@" not in r.signed_in("suppression", "list", rcpt)
    r.step_up()
    r.signed_in("suppression", "remove", str(said[0]["entry_id"]),
                "--reason", "asked by phone")
    assert gone(r, rcpt) == []
    mailed(r, rcpt)
    assert post(r, path)[0] == 200 and gone(r, rcpt)


def test_operators_may_write_a_domain_as_it_reads(r):
    bot = Client(r, r.box.key)
    for entry in ("@m\u00fcller.example", "eva@b\u00fccher.example"):
        r.step_up()
        r.signed_in("suppression", "add", entry, "--reason", "asked")
        to = entry if entry[0] != "@" else "x" + entry
        assert refusal(bot.send(to=[to])) == (403, "message_rejected")
    with pytest.raises(RuntimeError, match="neither an address"):
        r.signed_in("suppression", "add", "a b@x.example", "--reason", "x")


def test_the_inbox_says_so(r):
    """To its keys and to nobody's hand: an operator turns it."""
    other = r.add_inbox("plain@acme.example")
    for box, on in ((r.box, True), (other, False)):
        bot = Client(r, box.key)
        changed = bot.call("PATCH", "/v1/inboxes/me", {"display_name": "x"})
        for got in (changed[2], bot.get("/v1/inboxes/me")[2],
                    bot.get("/v1/inboxes")[2]["inboxes"][0],
                    bot.get("/v0/inboxes/" + box.address)[2]):
            assert got["one_click"] is on, got
        status, _, doc = bot.call("PATCH", "/v1/inboxes/me",
                                  {"one_click": not on})
        assert (status, doc["field"]) == (422, "one_click")


def test_tokens_are_in_no_log(r, link):
    rcpt, path = link
    mark = r.programs["posternd"].mark()
    assert post(r, path)[0] == 200
    r.programs["posternd"].wait("api.request", since=mark)
    for name in ("posternd", "postern-deliver"):
        assert path[3:] not in "\n".join(map(str, r.programs[name].lines))


def test_the_database_away(r, link):
    """503 says that nothing was done; repeating it is fine."""
    rcpt, path = link
    r.sql("REVOKE EXECUTE ON FUNCTION api.unsubscribe_1 FROM l_gateway")
    try:
        status, headers, doc = post(r, path)
        assert status >= 500 and doc["retry"] == "same_key", doc
    finally:
        r.sql("GRANT EXECUTE ON FUNCTION api.unsubscribe_1 TO l_gateway")
    assert gone(r, rcpt) == [] and post(r, path)[0] == 200
