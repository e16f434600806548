# SPDX-License-Identifier: ISC
"""
What operators rule of where mail goes: wait, fail, go by a host, need TLS; by
inbox, tenant and domain, until it ends or is lifted.
"""
import hashlib
import json
import re
import socket
import time

import pytest

from tests.blackbox.test_deliver_mx import may_listen
from tests.fake.dns import FakeDns
from tests.fake.mx import CLOSE, FakeMx
from tests.lib import postern
from tests.lib.pages import public_id
from tests.lib.relaying import PASSWORD, USER, Relaying

ONE = "127.31.0.1"


@pytest.fixture(scope="module")
def r():
    if not may_listen(ONE):
        print("SKIP routes: port 25 on loopback may not be bound")
        pytest.skip("port 25 on loopback may not be bound")
    with FakeDns() as dns, Relaying(
            smarthost="", smarthost_user="", allow_address=["127.31.0.0/16"],
            resolver=["127.0.0.1:%d" % dns.port]) as it:
        it.dns = dns
        it.one = FakeMx(it.path("tls", "cert.pem"), it.path("tls", "key.pem"),
                        address=ONE, port=25,
                        offers=("8BITMIME", "STARTTLS"))
        it.start_worker()
        yield it
        it.one.close()


@pytest.fixture(autouse=True)
def fresh(r):
    r.mx.reset()
    r.one.reset()
    yield
    r.one.script.clear()
    r.sql("UPDATE d.route SET ended_at = now() WHERE ended_at IS NULL")
    r.forget_queue()


@pytest.fixture
def domain(r):
    r.domains = getattr(r, "domains", 0) + 1
    name = "d%d.example" % r.domains
    r.dns.mx(name, (10, "mx." + name))
    r.dns.a("mx." + name, ONE)
    return name


def rule(r, *words, ok=True):
    return r.signed_in("route", "add", *words, "--reason", "test", ok=ok)


def number(r):
    return str(r.sql("SELECT max(route_id) AS n FROM d.route")[0]["n"])


def secret_file(r):
    path = r.path("via.secret")
    with open(path, "w") as f:
        f.write(PASSWORD + "\n")
    return path


def via(r, *scope):
    return rule(r, "relay", *scope, "--via", "localhost:%d" % r.mx.port,
                "--login", USER, "--secret-file", secret_file(r))


def queue(r, domain):
    """What `posternctl queue domains` says of one."""
    rows = json.loads(r.signed_in("--json", "queue", "domains"))
    return next((row for row in rows if row["domain"] == domain), None)


def test_operators_see_where_mail_waits_and_why(r, domain):
    rule(r, "suspend", domain)
    for name in ("bo", "cy"):
        r.submit(rcpts=[name + "@" + domain])
    postern.wait_until("a claim to pass them over", lambda: queue(
        r, domain)["left_alone"] == 2)
    assert domain in r.signed_in("queue", "domains")
    row = queue(r, domain)
    assert row.pop("oldest").startswith("20") and row.pop("due") is not None
    assert row == {
        "domain": domain, "next": 0, "sending": 0, "later": 0, "stopped": 0,
        "left_alone": 2, "tries": 0, "reply": None,
        "rules": number(r) + " suspend"}
    # One whose host says "later", then nothing.
    r.one.script["RCPT"] = "451 4.7.1 Not now"
    r.signed_in("route", "remove", number(r), "--reason", "test")
    postern.wait_until("both to be put off", lambda: queue(
        r, domain)["later"] == 2)
    row = queue(r, domain)
    assert row["tries"] == 1 and row["rules"] is None
    assert row["reply"] == "451 4.7.1 Not now"
    r.one.script.clear()
    r.sql("UPDATE d.send_q SET due_at = now()")
    r.one.wait_messages(2)
    postern.wait_until("the queue to be empty", lambda: queue(
        r, domain) is None)


def test_mail_waits_and_goes_on(r, domain):
    rule(r, "suspend", domain)
    listed = r.signed_in("route", "list")
    assert "suspend" in listed and domain in listed and "op:" in listed
    assert re.search(r"(?m)^expires_at +until removed$", listed), listed
    assert r.sql("SELECT expires_at FROM d.route WHERE ended_at IS NULL") \
        == [{"expires_at": None}]
    mid = r.submit(rcpts=["ann@" + domain])
    other = "free-" + domain
    r.dns.a(other, ONE)
    r.wait_state(r.submit(rcpts=["bob@" + other]), "sent")
    assert r.state(mid) == "approved" and not r.claimable(mid)
    r.signed_in("route", "remove", number(r), "--reason", "well again")
    r.wait_state(mid, "sent")
    assert domain not in r.signed_in("route", "list")


def test_an_end_that_is_none_is_refused(r, domain):
    for end in ("0s", "99999999999h"):
        said = r.signed_in("route", "add", "suspend", domain, "--reason", "x",
                           "--expires", end, ok=False)
        assert "--expires: whole seconds from 1s to 3650d" in said
    assert r.sql("SELECT 1 FROM d.route WHERE ended_at IS NULL") == []


def test_a_rule_ends_by_itself(r, domain):
    rule(r, "suspend", domain, "--expires", "1h")
    listed = r.signed_in("route", "list")
    assert re.search(r"(?m)^expires_at +\d{4}-", listed), listed
    mid = r.submit(rcpts=["ann@" + domain])
    assert not r.claimable(mid)
    r.sql("UPDATE d.route SET expires_at = now() WHERE ended_at IS NULL")
    r.wait_state(mid, "sent")


def test_what_a_rule_put_off_goes_when_it_runs_out(r, domain):
    r.one.script["STARTTLS"] = "454 4.7.0 not now"
    rule(r, "tls", domain, "--expires", "1h")
    mid = r.submit(rcpts=["ann@" + domain])
    r.wait_state(mid, "deferred")
    assert not r.one.messages
    r.sql("UPDATE d.route SET expires_at = now() WHERE ended_at IS NULL")
    r.wait_state(mid, "sent")
    assert r.sql("SELECT ended_at = expires_at AS so FROM d.route "
                 "WHERE route_id = %s", int(number(r))) == [{"so": True}]


def test_mail_fails(r, domain):
    rule(r, "bounce", domain)
    mid = r.submit(rcpts=["ann@" + domain])
    r.wait_state(mid, "bounced")
    (row,) = r.deliveries(mid)
    assert (row["status"], row["enhanced"]) == (5, "5.7.1")
    assert not r.one.verbs
    # The rule is about now, not about the address.
    assert not r.sql("SELECT 1 FROM d.list_entry WHERE entry = %s",
                     "ann@" + domain)


def test_by_a_host(r, domain):
    via(r, domain)
    r.wait_state(r.submit(rcpts=["ann@" + domain]), "sent")
    (got,) = r.mx.messages
    assert got["login"] == (USER, PASSWORD) and got["tls"]
    assert not r.one.verbs
    sealed = r.sql("SELECT sealed FROM d.route WHERE ended_at IS NULL")
    assert PASSWORD.encode() not in bytes(sealed[0]["sealed"])


def test_a_dead_host_of_a_rule_closes_nobodys_domain(r, domain):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        dead = s.getsockname()[1]
    rule(r, "relay", domain, "--via", "localhost:%d" % dead)
    for i in range(3):
        r.wait_state(r.submit(rcpts=["a%d@%s" % (i, domain)]), "deferred")
    r.signed_in("route", "remove", number(r), "--reason", "it is gone")
    r.wait_state(r.submit(rcpts=["ann@" + domain]), "sent")


def test_a_password_is_for_its_host_alone(r, domain):
    """A row changed to lead elsewhere does not carry the password there."""
    via(r, domain)
    with FakeMx(r.path("tls", "cert.pem"), r.path("tls", "key.pem")) as eve:
        r.sql("UPDATE d.route SET port = %s WHERE ended_at IS NULL", eve.port)
        mid = r.submit(rcpts=["ann@" + domain])
        r.wait_state(mid, "deferred")
        assert not eve.verbs
    assert r.deliveries(mid)[0]["enhanced"] == "4.3.5"


def test_a_kept_session_is_for_its_password(r, domain):
    """The same host and login with another password is another session."""
    via(r, domain)
    other = "other-" + domain
    with open(r.path("wrong.secret"), "w") as f:
        f.write("guessed\n")
    rule(r, "relay", other, "--via", "localhost:%d" % r.mx.port, "--login",
         USER, "--secret-file", r.path("wrong.secret"))
    r.wait_state(r.submit(rcpts=["ann@" + domain]), "sent")
    r.wait_state(r.submit(rcpts=["ann@" + other]), "deferred")
    assert len(r.mx.messages) == 1 and r.mx.verbs.count("AUTH") == 2
    assert r.mx.verbs.count("MAIL") == 1


def test_what_holds_for_all_holds(r, domain):
    """No rule of one inbox leads around one that lets all mail wait."""
    rule(r, "bounce", domain, "--inbox", r.fresh_box().address)
    rule(r, "suspend", domain)
    mid = r.submit(rcpts=["ann@" + domain], box=r.box)
    assert not r.claimable(mid)
    r.signed_in("route", "remove", number(r), "--reason", "over")
    r.wait_state(mid, "bounced")


def test_the_nearest_rule_decides(r, domain):
    """The inbox's, then the tenant's, then all's; a domain before '*'."""
    box = r.add_inbox("near-%s@acme.example" % domain.split(".")[0])
    r.set_mode(box, 4)
    rule(r, "relay", domain, "--via", "localhost:%d" % r.mx.port)
    rule(r, "suspend", "*", "--tenant", "acme")
    mid = r.submit(rcpts=["ann@" + domain], box=box)
    assert not r.claimable(mid)
    # Somebody else's rule is not ours.
    r.add_tenant("t" + domain.split(".")[0], "t-" + domain)
    other = r.add_inbox("bot@t-" + domain, "t" + domain.split(".")[0])
    r.set_mode(other, 4)
    r.wait_state(r.submit(rcpts=["ann@" + domain], box=other), "sent")
    assert len(r.mx.messages) == 1
    rule(r, "bounce", "*", "--inbox", box.address)
    r.wait_state(mid, "bounced")


@pytest.fixture
def waits(r, domain):
    """One message has the place, another waits for it, made ready a second
    and more ago; what was made ready before is read again."""
    gate = r.one.hold("dot")
    first = r.submit(rcpts=["ann@" + domain])
    gate.reached()
    mark = r.worker.mark()
    second = r.submit(rcpts=["bob@" + domain])
    r.worker.wait("deliver.claim", since=mark, message=public_id(second))
    claimed = time.monotonic()
    postern.wait_until("what is ready to be old",
                       lambda: time.monotonic() - claimed > 1.5)

    def go():
        gate.open()
        r.wait_state(first, "sent")
        return second
    yield go
    gate.open()


def test_a_host_is_ruled_while_mail_waits(r, domain, waits):
    via(r, domain)
    r.wait_state(waits(), "sent")
    assert [m["rcpts"] for m in r.one.messages] == [["ann@" + domain]]
    assert [m["rcpts"] for m in r.mx.messages] == [["bob@" + domain]]


def test_a_domain_is_left_alone_while_mail_waits(r, domain, waits):
    rule(r, "suspend", domain)
    mid = waits()
    postern.wait_until("it to be given back", lambda: r.sql(
        "SELECT 1 FROM d.send_q WHERE message_id = %s AND lease IS NULL", mid))
    assert len(r.one.messages) == 1
    r.signed_in("route", "remove", number(r), "--reason", "well again")
    r.due(mid)
    r.wait_state(mid, "sent")


def test_a_tenants_host_is_not_in_our_network(r, domain):
    rule(r, "relay", domain, "--tenant", "acme", "--via", "in." + domain)
    r.dns.a("in." + domain, "10.0.0.1")
    mark = r.worker.mark()
    mid = r.submit(rcpts=["ann@" + domain])
    r.wait_state(mid, "deferred")
    assert r.worker.wait("deliver.blocked_address", since=mark)
    assert r.deliveries(mid)[0]["enhanced"] == "5.4.4"
    refused = rule(r, "relay", domain, "--tenant", "acme", "--via",
                   "in.%s:5432" % domain, ok=False)
    assert "validation_error" in refused


@pytest.mark.parametrize("trouble", [
    {"STARTTLS": "454 4.7.0 not now"}, {"tls": CLOSE}, {}],
    ids=["refused", "broken", "certificate"])
def test_never_in_clear(r, domain, trouble):
    """Without the rule it goes in clear, or to any certificate."""
    r.one.script.update(trouble)
    r.wait_state(r.submit(rcpts=["ann@" + domain]), "sent")
    rule(r, "tls", domain)
    mid = r.submit(rcpts=["ann@" + domain])
    r.wait_state(mid, "deferred")
    assert len(r.one.messages) == 1


@pytest.mark.parametrize("words", [
    ["relay", "x.example"], ["suspend", "a b"], ["suspend", "x.example",
     "--via", "h.example"], ["relay", "x.example", "--via", "h.example:0"],
    ["eat", "x.example"]])
def test_rules_that_are_none(r, words):
    assert "posternctl: " in rule(r, *words, ok=False)
    assert not r.sql("SELECT 1 FROM d.route WHERE ended_at IS NULL")


def test_only_who_administers_it(r, domain):
    """A rule for all is not for the administrator of one tenant."""
    salt, params = b"s" * 16, "argon2id m=19456 t=2 p=1"
    output = r._output(salt, params, "a long password of hers")
    r.step_up()
    r.api("operator_add_1", r.session, 0, "tina", salt, params,
          hashlib.sha256(output).digest(), "admin", r.tenants["acme"], None)
    hers = r.sign_in("tina", "a long password of hers")
    add = "SELECT * FROM api.route_add_1(%s, 0, %s, NULL, %s, 's', NULL, " \
        "NULL, NULL, NULL, NULL, 'x')"
    assert r.sql(add, hers, None, domain, user="l_ctl")[0]["status"] == 403
    assert r.sql(add, hers, r.tenants["acme"], domain,
                 user="l_ctl")[0]["status"] == 200
    rule(r, "suspend", "theirs.example")
    assert r.sql("SELECT * FROM api.route_end_1(%s, 0, %s, 'x')", hers,
                 number(r), user="l_ctl")[0]["status"] == 403


def test_the_last_gate_knows_the_host(r, domain):
    """A rule names another host for what one may have already, and ends while
    that one is talked to: the dot stays. While there is one, it goes there."""
    box = r.add_inbox("gate-%s@acme.example" % domain.split(".")[0])
    r.set_mode(box, 4)
    r.sql("UPDATE d.inbox SET may_duplicate = true WHERE inbox_id = %s",
          box.inbox_id)
    r.one.script["dot"] = CLOSE
    mid = r.submit(box=box, rcpts=["ann@" + domain])
    r.wait_state(mid, "deferred", timeout=30)
    via(r, domain)
    gate = r.mx.hold("DATA")
    r.due(mid)
    gate.reached()
    r.signed_in("route", "remove", number(r), "--reason", "over")
    gate.open()
    postern.wait_until("the gate refuses", lambda: [
        1 for d in r.deliveries(mid)
        if d["reply"] == "another host may have the message"])
    assert not r.mx.messages
    r.wait_state(mid, "deferred")
    via(r, domain)
    r.due(mid)
    r.wait_state(mid, "sent", timeout=30)
    assert len(r.mx.messages) == len(r.one.messages) == 1
