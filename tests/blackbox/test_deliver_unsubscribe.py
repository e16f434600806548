# SPDX-License-Identifier: ISC
"""
Mail of an inbox that gives links to unsubscribe (RFC 8058, decision 0085): one
recipient a transaction, a link of its own inside the signature, and nothing of
it where the inbox or the message does not want it.
"""
import http.client
import os
import re
import ssl

import pytest

from tests.blackbox.test_deliver_dkim import (
    BODIES, PLAIN, by_mailauth, by_opendkim, by_python, kept, new_pair,
    spoiled, verify)
from tests.fake.dns import FakeDns
from tests.lib import pages, postern
from tests.lib.relaying import Relaying

BASE = "https://mail.acme.example/postern"
FIELDS = re.compile(
    rb"^List-Unsubscribe:\r\n <" + BASE.encode() + rb"/u/([0-9a-hjkmnp-tv-z]"
    rb"{55})>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n", re.M)


@pytest.fixture(scope="module")
def r():
    with FakeDns() as dns, Relaying(
            resolver=["127.0.0.1:%d" % dns.port], identity=True,
            unsubscribe_url=BASE) as it:
        it.dns = dns
        it.records = {}
        new_pair(it, "first")
        it.start_worker()
        it.plain = it.box
        it.news = news_box(it, "bulletin@acme.example")
        yield it


def news_box(r, address, **more):
    box = r.add_inbox(address, **more)
    if not more:
        r.set_mode(box, 4)
    r.signed_in("inbox", "set", address, "--one-click", "yes")
    r.sql("UPDATE d.inbox SET lim_hour = 100000, lim_day = 100000, "
          "limits_version = limits_version + 1 WHERE address = %s", address)
    return box


@pytest.fixture(autouse=True)
def mx(r):
    r.mx.reset()
    yield r.mx
    r.forget_queue()
    r.mx.script.clear()


def send(r, rcpts=("ann@dest.example",), state="sent", box=None, **more):
    mid = r.submit(box=box or r.news, rcpts=list(rcpts), **more)
    r.wait_state(mid, state)
    return mid


def rests(r, mid):
    """Each has had its turn; the next comes later."""
    postern.wait_until("the message rests", lambda: r.sql(
        "SELECT 1 FROM d.send_q WHERE message_id = %s AND lease IS NULL "
        "AND due_at > clock_timestamp() + interval '30 seconds'", mid))


def token_of(raw):
    return FIELDS.search(raw)[1].decode()


def test_each_recipient_has_a_link_of_its_own(r, mx):
    rcpts = ["ann@dest.example", "bob@dest.example", "Cy@other.example"]
    mid = send(r, rcpts, raw=PLAIN.replace(
        b"<ann@dest.example>", b"<ann@dest.example>, <bob@dest.example>")
        + b"\r\nx\r\n")
    assert sorted(m["rcpts"] for m in mx.messages) == [[a] for a in sorted(
        rcpts)]
    tokens = {m["rcpts"][0]: token_of(m["data"]) for m in mx.messages}
    assert len(set(tokens.values())) == 3
    for m in mx.messages:
        raw = m["data"]
        assert len(re.findall(rb"(?m)^List-Unsubscribe", raw)) == 2
        # signatures, then our fields, then what was approved
        assert re.match(
            rb"(DKIM-Signature: (.*\r\n[ \t])*.*\r\n){2}Postern-Identity: "
            rb"(.*\r\n[ \t])*.*\r\nList-Unsubscribe:\r\n .*\r\n"
            rb"List-Unsubscribe-Post: .*\r\nReceived: by ", raw)
        assert by_python(r, raw) == {"firstr": True, "firste": True}
        good, said = by_opendkim(r, kept(r, m))
        assert good, said
        # both fields are named in h=, once more than they are there
        for h in re.findall(rb"\bh=([^;]*);", raw):
            names = [n.strip().lower() for n in h.split(b":")]
            for name in (b"list-unsubscribe", b"list-unsubscribe-post"):
                assert names.count(name) == 2, h
        # who it was to is still what the identity says
        assert "policy" in verify(r, spoiled(r, raw), "--recipient",
                                  m["rcpts"][0])
        for other in set(rcpts) - set(m["rcpts"]):
            assert "not sent" in verify(r, spoiled(r, raw), "--recipient",
                                        other, ok=False)
        # and what was announced is what came
        assert "SIZE=%d" % len(m["raw"]) in m["params"].split()
    assert [d["status"] for d in r.deliveries(mid)] == [3, 3, 3]


def test_three_verifiers_and_awkward_bodies(r, mx):
    names = [n for n in BODIES if n in (
        "empty", "dots", "8 bit", "encoded subject", "many recipients",
        "multipart", "too large to be kept")]
    for name in names:
        send(r, raw=BODIES[name])
    paths = []
    for name, got in zip(names, mx.messages):
        raw = got["data"]
        assert FIELDS.search(raw), name
        assert by_python(r, raw) == {"firstr": True, "firste": True}, name
        paths.append(kept(r, got, "u%d.eml" % len(paths)))
        good, said = by_opendkim(r, paths[-1])
        assert good, (name, said)
    if os.path.isdir(os.path.join(postern.TOP, "tests", "dkim",
                                  "node_modules")):
        for name, found in zip(names, by_mailauth(r, paths)):
            assert found == {"firstr": "pass", "firste": "pass"}, name


def test_neither_field_can_be_changed_added_or_removed(r, mx):
    send(r)
    raw = mx.messages[0]["data"]
    assert all(by_python(r, raw).values())
    link = b"<%s/u/%s>" % (BASE.encode(), token_of(raw).encode())
    for bad in (raw.replace(link, b"<https://evil.example/u/x>"),
                FIELDS.sub(b"", raw),
                raw.replace(b"List-Unsubscribe-Post: List-Unsubscribe="
                            b"One-Click\r\n", b""),
                b"List-Unsubscribe: <https://evil.example/>\r\n" + raw,
                b"List-Unsubscribe-Post: x\r\n" + raw):
        assert bad != raw and not any(by_python(r, bad).values())


def test_a_mailing_list_may_add_its_own_where_there_is_none(r, mx):
    send(r, box=r.plain)
    raw = mx.messages[0]["data"]
    assert b"List-Unsubscribe" not in re.sub(rb"\bh=[^;]*;", b"", raw)
    added = b"List-Unsubscribe: <https://lists.example/>\r\n" + raw
    assert all(by_python(r, added).values())


OWN = PLAIN + b"List-Unsubscribe: <https://u.example/x>\r\n"


@pytest.mark.parametrize("head", [
    OWN, OWN + b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n",
    PLAIN + b"list-unsubscribe: <mailto:u@u.example>\r\n"])
def test_a_message_with_a_way_out_of_its_own_keeps_it(r, mx, head):
    """Ours is not added: there would be two. Nor is it sent one by one."""
    rcpts = ["ann@dest.example", "bob@dest.example"]
    head = head.replace(b"<ann@dest.example>",
                        b"<ann@dest.example>, <bob@dest.example>")
    send(r, rcpts, raw=head + b"\r\nx\r\n")
    m, = mx.messages
    assert m["rcpts"] == rcpts and BASE.encode() not in m["data"]
    assert len(re.findall(rb"(?mi)^list-unsubscribe:", m["data"])) == 1
    assert all(by_python(r, m["data"]).values())
    # no second one can be put in front of it
    bad = b"List-Unsubscribe: <https://evil.example/>\r\n" + m["data"]
    assert not any(by_python(r, bad).values())


def test_only_where_the_inbox_asks_for_it(r, mx):
    rcpts = ["ann@dest.example", "bob@dest.example"]
    both = PLAIN.replace(b"<ann@dest.example>", b"<ann@dest.example>, "
                         b"<bob@dest.example>") + b"\r\nx\r\n"
    send(r, rcpts, box=r.plain, raw=both)
    assert [m["rcpts"] for m in mx.messages] == [rcpts]
    assert BASE.encode() not in mx.messages[0]["data"]
    address = r.news.address
    r.signed_in("inbox", "set", address, "--one-click", "no")
    try:
        send(r, rcpts, raw=both)
        assert [m["rcpts"] for m in mx.messages[1:]] == [rcpts]
        assert BASE.encode() not in mx.messages[1]["data"]
    finally:
        r.signed_in("inbox", "set", address, "--one-click", "yes")


def test_a_link_works_and_what_follows(r, mx):
    """From the mail to the list to the next mail: refused, and not sent."""
    send(r, ["dan@dest.example"])
    token = token_of(mx.messages[0]["data"])
    held = news_box(r, "held@acme.example")  # another inbox
    send(r, ["dan@dest.example"], box=held)
    status, _ = post(r, "/u/" + token)
    assert status == 200
    with pytest.raises(Exception, match="5.7.1.*message_rejected"):
        r.submit(["dan@dest.example"], box=r.news)
    # the other inbox's mail goes on, the tenant's other people too
    send(r, ["dan@dest.example"], box=held)
    send(r, ["eve@dest.example"])


def test_what_is_on_its_way_stops(r, mx):
    """Between two tries the recipient said no: no MAIL FROM any more."""
    mx.script["RCPT"] = lambda session, line: "450 4.2.1 later"
    mid = r.submit(box=r.news, rcpts=["fay@dest.example",
                                      "gus@dest.example"])
    rests(r, mid)
    mx.script.clear()
    send(r, ["fay@dest.example"])
    assert post(r, "/u/" + token_of(mx.messages[0]["data"]))[0] == 200
    mx.reset()
    r.due(mid)
    r.wait_state(mid, "bounced")
    assert [m["rcpts"] for m in mx.messages] == [["gus@dest.example"]]
    assert [(d["canon"], d["status"]) for d in r.deliveries(mid)] == [
        ("fay@dest.example", 7), ("gus@dest.example", 3)]


def post(r, path):
    c = http.client.HTTPSConnection(
        "127.0.0.1", r.api_port, timeout=20,
        context=ssl.create_default_context(cafile=r.ca_file))
    try:
        c.request("POST", path, b"List-Unsubscribe=One-Click", {
            "Content-Type": "application/x-www-form-urlencoded"})
        answer = c.getresponse()
        return answer.status, answer.read()
    finally:
        c.close()


def test_the_same_link_at_the_next_try(r, mx):
    """So that whoever got it twice after all can use either."""
    mx.script["dot"] = "451 4.3.0 not now"
    mid = send(r, ["hal@dest.example"], "deferred")
    mx.script.clear()
    rests(r, mid)
    r.due(mid)
    r.wait_state(mid, "sent")
    first, second = mx.messages
    assert token_of(first["data"]) == token_of(second["data"])


def test_one_that_waits_keeps_no_other_from_its_turn(r, mx):
    rcpts = ["ann@dest.example", "bob@dest.example", "cyd@dest.example"]
    asked = []

    def on_rcpt(session, line):
        asked.append(line.split("<")[1].split(">")[0])
        return "450 4.2.2 full" if "cyd@" not in line else None
    mx.script["RCPT"] = on_rcpt
    mid = r.submit(box=r.news, rcpts=rcpts, raw=PLAIN + b"\r\nx\r\n")
    rests(r, mid)
    assert [m["rcpts"] for m in mx.messages] == [["cyd@dest.example"]]
    assert asked == rcpts


def test_the_overseers_copy_has_none(r, mx):
    box = news_box(r, "watched@acme.example")
    r.set_mode(box, 3)
    r.sql("UPDATE d.inbox SET oversight = 'boss@dest.example' WHERE "
          "address = %s", box.address)
    send(r, ["ann@dest.example"], box=box)
    got = {m["rcpts"][0]: m["data"] for m in mx.messages}
    assert set(got) == {"ann@dest.example", "boss@dest.example"}
    assert FIELDS.search(got["ann@dest.example"])
    assert b"/u/" not in got["boss@dest.example"]
    assert all(all(by_python(r, raw).values()) for raw in got.values())


def test_a_test_inbox_shows_what_would_have_left(r, mx):
    probe = r.add_inbox("probe@acme.example", test=True)
    r.set_mode(probe, 4)
    r.signed_in("inbox", "set", probe.address, "--one-click", "yes")
    rcpts = ["ann@dest.example", "bob@dest.example"]
    mid = send(r, rcpts, box=probe)
    assert mx.messages == []
    said = r.rest(probe, "/v1/messages?limit=1")["messages"][0]["message_id"]
    got = r.rest(probe, "/v1/messages/%s/captures" % said)["captures"]
    assert len(got) == 2 and len(r.deliveries(mid)) == 2
    tokens = set()
    for one in got:
        raw = r.rest(probe, "/v1/messages/%s/captures/%s" % (
            said, one["capture_id"]), raw=True)
        tokens.add(token_of(raw))
        assert all(by_python(r, raw).values())
    assert len(tokens) == 2


def test_the_page_says_what_will_be_added(r, mx):
    """Before anybody approves; what comes is what was said."""
    box = r.add_inbox("asks@acme.example")
    r.set_mode(box, 2)
    r.start("postern-admin")
    try:
        who = pages.Pages(r)

        def said(mid):
            page = who.call("GET", "/m/" + pages.public_id(mid))[2]
            m = re.search('<p id="links-out">(.*?)</p>', page, re.S)
            return m and re.sub("<.*?>", "", m[1])

        def boxes():
            return who.call("GET", "/inbox/%d.%d" % (
                r.tenants["acme"], box.inbox_id))[2]
        mid = r.submit(box=box)
        assert said(mid) is None
        assert "gives links to unsubscribe" not in boxes()
        status, headers, _ = who.call("POST", "/inbox/%d.%d/own" % (
            r.tenants["acme"], box.inbox_id), {**dict(re.findall(
                '<input type="hidden" name="([^"]+)" value="([^"]*)">',
                re.search('<form [^>]*/own".*?</form>', boxes(), re.S)[0])),
            "one_click": "yes"})
        assert status == 303 and "error" not in headers["Location"]
        assert "gives links to unsubscribe" in boxes()
        text = said(mid)
        assert "List-Unsubscribe (%s/u/" % BASE in text
        assert "List-Unsubscribe-Post are added." in text
        own = r.submit(box=box, raw=OWN + b"\r\nx\r\n")
        assert "no link is added" in said(own)
        for it in (mid, own):
            assert who.approve(it) == 303
        for it in (mid, own):
            r.due(it)
            r.wait_state(it, "sent")
        assert said(mid) is None  # there is no "will" any more
        first, second = sorted(mx.messages, key=lambda m: b"u.example" in
                               m["data"])
        assert FIELDS.search(first["data"])
        assert BASE.encode() not in second["data"]
    finally:
        r.programs["postern-admin"].stop()


# -- never by accident ---------------------------------------------------------

def test_without_a_key_it_waits(r, mx):
    """RFC 8058 4: outside of a signature the fields are worth nothing."""
    r.add_domain("acme", "plain.example")
    box = r.add_inbox("bot@plain.example")
    r.set_mode(box, 4)
    refused = r.signed_in("inbox", "set", box.address, "--one-click", "yes",
                          ok=False)
    assert "dkim_needed" in refused and "dkim new" in refused
    # as if a key had been there and is not any more
    r.sql("UPDATE d.inbox SET one_click = true WHERE address = %s",
          box.address)
    r.sql("INSERT INTO d.one_click_key (tenant_id, key) SELECT tenant_id, "
          "sha256('x') FROM d.inbox WHERE address = %s ON CONFLICT DO "
          "NOTHING", box.address)
    said = r.signed_in("doctor", ok=False)
    assert re.search("error +one-click: .*\n +fix: .*DKIM key", said), said
    mark = r.worker.mark()
    mid = send(r, box=box, state="deferred")
    assert r.worker.wait("deliver.unsigned", since=mark)["level"] == "error"
    assert mx.messages == []
    r.signed_in("inbox", "set", box.address, "--one-click", "no")
    r.due(mid)
    r.wait_state(mid, "sent")
    assert b"List-Unsubscribe" not in mx.messages[0]["data"]


def test_without_an_address_it_waits(r, mx):
    r.worker.stop()
    r.set_conf("deliver", unsubscribe_url="")
    try:
        refused = r.signed_in("inbox", "set", r.plain.address, "--one-click",
                              "yes", ok=False)
        assert "deliver.unsubscribe_url" in refused
        said = r.signed_in("doctor", ok=False)
        assert re.search("error +one-click: .*\n +fix: .*deliver."
                         "unsubscribe_url", said), said
        r.start_worker()
        mark = r.worker.mark()
        mid = r.submit(box=r.news)
        r.wait_state(mid, "deferred")
        assert r.worker.wait("deliver.one_click", since=mark)[
            "level"] == "error"
        send(r, box=r.plain)  # others wait for nothing
        assert len(mx.messages) == 1
    finally:
        r.set_conf("deliver", unsubscribe_url=BASE)
        r.worker.stop()
        r.start_worker()
    r.due(mid)
    r.wait_state(mid, "sent")
    assert FIELDS.search(mx.messages[1]["data"])


@pytest.mark.parametrize("url", [
    "http://mail.acme.example", "https://", "mail.acme.example",
    "https://mail.acme.example/", "https://mail.acme.example/?x",
    "https://mail.acme.example/>", "https://mail.acme.example/a b",
    "https://u@mail.acme.example", "https://m\u00e4il.example",
    "https://mail.acme.example/%0d%0aX:", "https://" + "m" * 200])
def test_the_address_is_plain(r, url):
    r.set_conf("deliver", unsubscribe_url=url)
    try:
        with pytest.raises(RuntimeError, match="deliver.unsubscribe_url"):
            r.ctl("--check")
    finally:
        r.set_conf("deliver", unsubscribe_url=BASE)
    assert "usable" in r.ctl("--check")
