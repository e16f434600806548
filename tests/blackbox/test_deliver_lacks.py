# SPDX-License-Identifier: ISC
"""
What a host lacks: TLS that works, SMTPUTF8, a policy that can be asked for.
What fails for now fails nothing for good, and what one recipient needs is not
demanded for another.
"""
import ssl

import pytest

from tests.blackbox.test_deliver_mx import ONE, TWO, may_listen, result
from tests.blackbox.test_deliver_routes import rule
from tests.fake.dns import MX, SERVFAIL, FakeDns, packed
from tests.fake.mx import CLOSE, FakeMx
from tests.lib.faults import cut, rst
from tests.lib.postern import wait_until
from tests.lib.relaying import Relaying

OFFERS = ("PIPELINING", "SIZE 60000000", "8BITMIME", "STARTTLS")
NO_CLEAR = "530 5.7.0 Must issue a STARTTLS command first"


@pytest.fixture(scope="module")
def r():
    if not may_listen(ONE):
        print("SKIP lacks: port 25 on loopback may not be bound")
        pytest.skip("port 25 on loopback may not be bound")
    with FakeDns() as dns, Relaying(
            smarthost="", smarthost_user="", allow_address=["127.31.0.0/16"],
            resolver=["127.0.0.1:%d" % dns.port]) as it:
        cert = it.path("tls", "cert.pem"), it.path("tls", "key.pem")
        it.dns = dns
        it.one = FakeMx(*cert, address=ONE, port=25)
        it.two = FakeMx(*cert, address=TWO, port=25)
        it.start_worker()
        yield it
        it.one.close()
        it.two.close()


@pytest.fixture(autouse=True)
def fresh(r):
    for it in (r.one, r.two, r.dns):
        it.reset()
    r.one.offers = r.two.offers = OFFERS
    yield
    r.forget_queue()
    for it in (r.one, r.two):
        it.script.clear()


@pytest.fixture
def domain(r):
    """With one host; no test before has used it."""
    r.domains = getattr(r, "domains", 0) + 1
    d = "lacks%d.example" % r.domains
    r.dns.mx(d, (10, "mx1." + d))
    r.dns.a("mx1." + d, ONE)
    return d


def and_second(r, domain):
    r.dns.mx(domain, (20, "mx2." + domain))
    r.dns.a("mx2." + domain, TWO)


def send(r, domain, *states, rcpts=("ann",), raw=None, params=()):
    mid = r.submit(rcpts=[x if "@" in x else x + "@" + domain for x in rcpts],
                   raw=raw, params=params)
    r.wait_state(mid, *states, timeout=30)
    r.assert_settled(mid)
    return mid


def statuses(r, mid):
    return {row["canon"].split("@")[0]: (row["status"], row["enhanced"])
            for row in r.deliveries(mid)}


# -- clear, where TLS has failed ----------------------------------------------

def once(session, line):
    """One handshake is lost, and none after it."""
    return CLOSE if session.mx.verbs.count("tls") == 1 else None


def not_in_clear(session, line):
    return None if session.tls else NO_CLEAR


BROKEN = {"handshake": ("tls", once), "454": (
    "STARTTLS", lambda session, line:
    "454 4.7.0 not now" if session.mx.verbs.count("STARTTLS") == 1 else None)}


@pytest.mark.parametrize("trouble", BROKEN)
@pytest.mark.parametrize("offers", [OFFERS, OFFERS[1:]],
                         ids=["group", "one-by-one"])
def test_a_host_that_wants_tls_refuses_no_mail_for_good(
        r, domain, trouble, offers):
    """Asked in clear after one failed handshake, it says no: of that, not of
    the mail."""
    r.one.offers = offers
    r.one.script.update([BROKEN[trouble]], MAIL=not_in_clear)
    mid = send(r, domain, "deferred")
    assert result(r, mid) == (4, "5.7.0", NO_CLEAR[10:])
    assert r.deliveries(mid)[0]["reply_code"] == 530
    r.due(mid)
    r.wait_state(mid, "sent")
    assert r.one.messages[0]["tls"]


@pytest.mark.parametrize("reply", [
    NO_CLEAR, "550 5.7.1 encrypt", "554 no", "530 5.7.1 who"])
def test_the_next_host_where_clear_is_refused(r, domain, reply):
    and_second(r, domain)
    r.one.script.update(tls=CLOSE, MAIL=reply)
    mid = send(r, domain, "sent")
    assert not r.one.messages and r.two.messages[0]["tls"]
    assert r.deliveries(mid)[0]["attempts"] == 1


@pytest.mark.parametrize("reply", ["530 5.7.0 TLS first", "550 5.7.10 TLS"])
def test_tls_is_asked_for_at_rcpt(r, domain, reply):
    and_second(r, domain)
    r.one.script.update(tls=CLOSE, RCPT=reply)
    send(r, domain, "sent")
    assert r.two.messages[0]["tls"]


@pytest.mark.parametrize("verb,reply", [
    ("RCPT", "550 5.1.1 who"), ("DATA", "554 5.6.0 no"),
    ("dot", "550 5.7.1 spam")])
def test_what_is_said_of_the_mail_in_clear_counts(r, domain, verb, reply):
    and_second(r, domain)
    r.one.script.update({"tls": CLOSE, verb: reply})
    send(r, domain, "bounced")
    assert not r.two.verbs


def test_a_no_in_clear_counts_where_tls_was_not_offered(r, domain):
    and_second(r, domain)
    r.one.offers = OFFERS[:-1]
    r.one.script["MAIL"] = NO_CLEAR
    mid = send(r, domain, "bounced")
    assert result(r, mid)[:2] == (5, "5.7.0") and not r.two.verbs


# -- TLS that breaks right behind the handshake ---------------------------------

def under_tls(step):
    """Only there; with TLS 1.3 a server's no to the handshake looks so."""
    def moment(session, line):
        if not session.tls:
            return None
        return step(session, line) if callable(step) else step
    return moment


@pytest.fixture
def wants_certificate(r):
    """A host that asks for a certificate of ours: TLS 1.3 finishes first."""
    was = r.one.context
    r.one.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    r.one.context.load_cert_chain(
        r.path("tls", "cert.pem"), r.path("tls", "key.pem"))
    r.one.context.load_verify_locations(r.ca_file)
    r.one.context.verify_mode = ssl.CERT_REQUIRED
    yield
    r.one.context = was


@pytest.mark.parametrize("end", [CLOSE, rst], ids=["close", "rst"])
def test_an_end_before_the_first_reply_under_tls(r, domain, end):
    """It is as a handshake that fails."""
    r.one.script["EHLO"] = under_tls(end)
    mid = send(r, domain, "sent")
    (got,) = r.one.messages
    assert got["tls"] is None and r.one.verbs.count("banner") == 2
    assert r.deliveries(mid)[0]["attempts"] == 1


def test_a_host_that_wants_a_certificate(r, domain, wants_certificate):
    send(r, domain, "sent")
    (got,) = r.one.messages
    assert got["tls"] is None and r.one.verbs.count("tls") == 1


@pytest.mark.parametrize("step", [
    cut(b"2"), cut(b"250-fake.example\r\n"), "421 4.3.2 busy",
    "what is this"], ids=["octet", "line", "421", "no-reply"])
def test_tls_that_carried_something_works(r, domain, step):
    """What fails then is something else, and does not go on in clear."""
    r.one.script["EHLO"] = under_tls(step)
    mid = send(r, domain, "deferred")
    assert result(r, mid)[:2] == (4, "4.4.1")
    assert r.one.verbs.count("banner") == 1


def test_a_rule_demands_tls(r, domain, wants_certificate):
    """Nothing is said in clear where somebody demands TLS."""
    rule(r, "tls", domain)
    mid = send(r, domain, "deferred")
    status, enhanced, why = result(r, mid)
    assert (status, enhanced) == (4, "4.4.1") and why.endswith("(rule)")
    assert r.one.verbs.count("banner") == 1 and "MAIL" not in r.one.verbs


def test_a_smarthost_is_not_spoken_to_in_clear(r, domain):
    """One that a rule names; that of the configuration is asked as it."""
    with FakeMx(r.path("tls", "cert.pem"), r.path("tls", "key.pem"),
                offers=OFFERS) as relay:
        relay.script["EHLO"] = under_tls(CLOSE)
        rule(r, "relay", domain, "--via", "localhost:%d" % relay.port)
        mid = send(r, domain, "deferred")
        assert result(r, mid)[:2] == (4, "4.4.1")
        assert relay.verbs.count("STARTTLS") == relay.verbs.count("banner")
        assert "MAIL" not in relay.verbs and not r.one.verbs


# -- SMTPUTF8, for whom it is needed ---------------------------------------------

ASCII = b"From: <@BOX@>\r\nTo: <ann@b.example>\r\nSubject: x\r\n\r\nx\r\n"
BODY = ("From: <@BOX@>\r\nTo: <ann@b.example>\r\nSubject: x\r\n"
        "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
        "Content-Transfer-Encoding: 8bit\r\n\r\nGr\u00fc\u00dfe\r\n").encode()
HEADER = ("From: <@BOX@>\r\nTo: <ann@b.example>\r\nSubject: Gr\u00fc\u00dfe"
          "\r\n\r\nx\r\n").encode()
PART = ("From: <@BOX@>\r\nTo: <ann@b.example>\r\nSubject: x\r\n"
        "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n"
        "\r\n--b\r\nContent-Type: text/plain; name=\"\u00fc.txt\"\r\n\r\n"
        "one\r\n--b--\r\n").encode()
JOERG, ANN = "j\u00f6rg", "ann"


def utf8(r, domain, *states, raw=ASCII, rcpts=(JOERG, ANN)):
    return send(r, domain, *states, raw=raw, rcpts=rcpts, params=["SMTPUTF8"])


@pytest.mark.parametrize("raw", [ASCII, BODY], ids=["ascii", "8bit"])
def test_another_domains_recipient_needs_it(r, domain, raw):
    other = "b-" + domain
    r.dns.mx(other, (10, "mx1." + other))
    r.dns.a("mx1." + other, TWO)
    r.one.offers += ("SMTPUTF8",)
    utf8(r, domain, "sent", raw=raw, rcpts=(JOERG, ANN + "@" + other))
    assert "SMTPUTF8" in r.one.messages[0]["params"]
    assert "SMTPUTF8" not in r.two.messages[0]["params"]


@pytest.mark.parametrize("raw", [ASCII, BODY], ids=["ascii", "8bit"])
def test_only_who_needs_it_fails_without(r, domain, raw):
    mid = utf8(r, domain, "bounced", raw=raw, rcpts=(
        JOERG, "zo\u00eb", ANN, "bob"))
    assert statuses(r, mid) == {
        JOERG: (5, "5.6.7"), "zo\u00eb": (5, "5.6.7"),
        ANN: (3, "2.0.0"), "bob": (3, "2.0.0")}
    (got,) = r.one.messages
    assert sorted(got["rcpts"]) == ["ann@" + domain, "bob@" + domain]
    assert "SMTPUTF8" not in got["params"]


def test_it_is_asked_for_those_alone_who_need_it(r, domain):
    """Else the host might look for it on the way to all others."""
    r.one.offers += ("SMTPUTF8",)
    mid = utf8(r, domain, "sent", rcpts=(JOERG, "zo\u00eb", ANN, "bob"))
    got = {tuple(sorted(m["rcpts"])): "SMTPUTF8" in m["params"]
           for m in r.one.messages}
    assert got == {("ann@" + domain, "bob@" + domain): False,
                   ("j\u00f6rg@" + domain, "zo\u00eb@" + domain): True}
    # One right behind the other, and nobody is tried twice.
    assert [row["attempts"] for row in r.deliveries(mid)] == [1] * 4


@pytest.mark.parametrize("raw", [HEADER, PART], ids=["header", "part"])
def test_a_header_needs_it_for_all(r, domain, raw):
    mid = utf8(r, domain, "bounced", raw=raw)
    assert statuses(r, mid) == {JOERG: (5, "5.6.7"), ANN: (5, "5.6.7")}
    r.one.offers += ("SMTPUTF8",)
    utf8(r, domain, "sent", raw=raw)
    (got,) = r.one.messages
    assert len(got["rcpts"]) == 2 and "SMTPUTF8" in got["params"]


def test_who_waits_keeps_nobody_else_from_being_tried(r, domain):
    """Each kind has its turn before the first has another."""
    r.one.offers += ("SMTPUTF8",)
    r.one.rcpt_replies[JOERG + "@" + domain] = "450 4.2.1 later"
    mid = utf8(r, domain, "deferred", rcpts=(JOERG, "zed"))
    wait_until("each has had its turn", lambda: statuses(r, mid) == {
        JOERG: (4, "4.2.1"), "zed": (3, "2.0.0")})
    r.one.rcpt_replies.clear()
    r.due(mid)
    r.wait_state(mid, "sent")
    assert [m["rcpts"] for m in r.one.messages] == [
        ["zed@" + domain], [JOERG + "@" + domain]]


# -- a policy that cannot be asked for ---------------------------------------------

def test_a_record_that_cannot_be_had_is_not_none(r, domain):
    """REQUIRETLS waits until it is known whether anything vouches."""
    r.one.offers += ("REQUIRETLS",)
    r.dns.fail("_mta-sts." + domain, SERVFAIL)
    mid = send(r, domain, "deferred", params=["REQUIRETLS"])
    assert result(r, mid)[:2] == (4, "4.7.10")
    mid = send(r, domain, "sent")
    other = "none-" + domain
    r.dns.mx(other, (10, "mx1." + domain))
    mid = send(r, other, "bounced", params=["REQUIRETLS"])
    assert result(r, mid)[:2] == (5, "5.7.10")


# -- a name server that sends too little ---------------------------------------------

@pytest.mark.parametrize("data", [
    b"", b"\0", b"\0\x0a", b"\0\x0a\x03mx", b"\0\x0a" + packed("mx")[:-1]],
    ids=["nothing", "octet", "no-name", "cut-label", "no-root"])
def test_a_short_mx_record(r, domain, data):
    """Nothing is read behind it, and nothing is made of the others."""
    r.dns.add(domain, MX, data)
    mid = send(r, domain, "deferred")
    assert result(r, mid)[:2] == (4, "4.4.3") and not r.one.verbs
