# SPDX-License-Identifier: ISC
"""
Whose session is whose: one that was made sure of for a domain, by an authority
or under a configuration serves nobody who would have made sure otherwise.
"""
import os
import signal

import pytest

from tests.blackbox.test_deliver_mx import may_listen
from tests.blackbox.test_deliver_routes import rule
from tests.fake.dns import FakeDns
from tests.fake.mx import FakeMx
from tests.lib.faults import Certificates
from tests.lib.postern import wait_until
from tests.lib.relaying import PASSWORD, USER, Relaying

ONE = "127.34.%d.1" % (os.getpid() % 250)  # port 25 is all users' of the host


@pytest.fixture
def r():
    if not may_listen(ONE):
        print("SKIP sessions: port 25 on loopback may not be bound")
        pytest.skip("port 25 on loopback may not be bound")
    with FakeDns() as dns, Relaying(
            smarthost="", smarthost_user="", dane="yes",
            allow_address=["127.34.0.0/16"],
            resolver=["127.0.0.1:%d" % dns.port]) as it:
        it.dns = dns
        where = it.path("tls")
        it.certs = Certificates(where, (
            it.ca_file, os.path.join(where, "ca.key")), [
                "shared.example", "ann.example"])
        it.set_conf("deliver", ca_file=it.ca_file)
        it.one = FakeMx(it.certs.file("good"), it.certs.key, address=ONE,
                        port=25, offers=("8BITMIME", "STARTTLS"))
        for domain in ("ann.example", "bob.example"):
            dns.mx(domain, (10, "mx.shared.example"))
        dns.a("mx.shared.example", ONE)
        it.dns.a("shared.example", ONE)
        yield it
        it.one.close()


def to(r, domain, *states):
    mid = r.submit(rcpts=["x@" + domain])
    r.wait_state(mid, *states)
    return r.deliveries(mid)[0]["reply"]


def nobodys(r):
    """An authority that certifies none of the hosts here."""
    r._run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:P-256", "-nodes", "-keyout", "nobody.key",
            "-out", "nobody.pem", "-days", "30", "-subj", "/CN=Nobody"],
           cwd=r.path("tls"))
    return r.path("tls", "nobody.pem")


def test_a_certificate_for_one_domain(r):
    """RFC 7672 3.2.2: by DANE-TA the certificate may name the domain of the
    recipients; then it vouches for that domain's mail."""
    r.dns.signed.add("example")
    r.dns.tlsa("mx.shared.example", 2, 0, 1, bytes.fromhex(
        r.certs.digest("ca", "certificate")))
    r.start_worker()
    to(r, "ann.example", "sent")
    assert "dane" in to(r, "bob.example", "deferred")
    assert [m["rcpts"] for m in r.one.messages] == [["x@ann.example"]]


def test_by_which_authority(r):
    """The smarthosts' says nothing of the hosts of a domain."""
    r.dns.mx("cid.example", (10, "shared.example"))
    r.set_conf("deliver", ca_file=nobodys(r))
    r.start_worker()
    rule(r, "relay", "ann.example", "--via", "shared.example:25")
    rule(r, "tls", "cid.example")
    to(r, "ann.example", "sent")
    to(r, "cid.example", "deferred")
    assert [m["rcpts"] for m in r.one.messages] == [["x@ann.example"]]


@pytest.mark.parametrize("when", ["kept", "in use"])
def test_an_authority_that_is_believed_no_more(r, when):
    r.set_conf("deliver", smarthost="shared.example:25")
    r.start_worker()
    gate = r.one.hold("dot") if when == "in use" else None
    mid = r.submit(rcpts=["x@ann.example"])
    if gate:
        gate.reached()
    else:
        r.wait_state(mid, "sent")
    r.set_conf("deliver", smarthost_ca_file=nobodys(r))
    mark = r.worker.mark()
    r.worker.send(signal.SIGHUP)
    r.worker.wait("daemon.reload", since=mark)
    if gate:
        gate.open()
        r.wait_state(mid, "sent")
    to(r, "bob.example", "deferred")
    assert len(r.one.messages) == 1


def test_a_rule_without_a_login(r):
    """The smarthost's is for the smarthost."""
    r.one.offers += ("AUTH PLAIN",)
    r.dns.a("ann.example", ONE)
    r.set_conf("deliver", smarthost="shared.example:25", smarthost_user=USER)
    r.start_worker()
    rule(r, "relay", "bob.example", "--via", "ann.example:25")
    to(r, "bob.example", "sent")
    to(r, "ann.example", "sent")
    assert [m["login"] for m in r.one.messages] == [None, (USER, PASSWORD)]


def test_a_reload_before_mail(r):
    """Also of who asks the database whether it may begin."""
    r.set_conf("deliver", smarthost="shared.example:25")
    r.start_worker()
    gate = r.one.hold("EHLO")
    mid = r.submit(rcpts=["x@ann.example"])
    gate.reached()
    lock = r.connect()
    lock.autocommit = False
    with lock.cursor() as cur:
        cur.execute("SELECT 1 FROM d.send_q WHERE message_id = %s FOR UPDATE",
                    (mid,))
    gate.open()
    wait_until("the worker to ask", lambda: r.sql(
        "SELECT 1 FROM pg_locks l JOIN pg_stat_activity USING (pid) WHERE "
        "NOT granted AND usename = 'l_worker'"))
    r.set_conf("deliver", smarthost="")
    mark = r.worker.mark()
    r.worker.send(signal.SIGHUP)
    r.worker.wait("daemon.reload", since=mark)
    lock.rollback()
    lock.close()
    r.wait_state(mid, "sent")
    assert [x["mx"] for x in r.sql(
        "SELECT mx FROM d.attempt WHERE dot_at IS NOT NULL")] == [
            "mx.shared.example"]


def test_a_reload_of_half_the_authorities(r):
    """Those of MX cannot be read: the smarthost's stay as they were, too."""
    r.one.offers += ("AUTH PLAIN",)
    r.set_conf("deliver", smarthost="shared.example:25", smarthost_user=USER,
               smarthost_ca_file=r.ca_file)
    r.start_worker()
    to(r, "ann.example", "sent")
    r.set_conf("deliver", smarthost_ca_file=nobodys(r),
               ca_file=r.path("tls", "none.pem"))
    mark = r.worker.mark()
    r.worker.send(signal.SIGHUP)
    r.worker.wait("daemon.reload", since=mark, level="error")
    to(r, "bob.example", "sent")
    assert len(r.one.messages) == 2


def test_a_reload_that_fails_changes_nothing(r):
    """Whose port is no number: what was meant for another host is not shown
    to the one there was."""
    r.one.offers += ("AUTH PLAIN",)
    r.set_conf("deliver", smarthost="shared.example:25", smarthost_user=USER)
    r.start_worker()
    to(r, "ann.example", "sent")
    path = r.path("elsewhere.password")
    with open(path, "w") as f:
        f.write("%s\n" % os.urandom(8).hex())
    os.chmod(path, 0o644)
    r.set_conf("deliver", smarthost="other.example:smtp", smarthost_user="x",
               smarthost_password_file=path)
    mark = r.worker.mark()
    r.worker.send(signal.SIGHUP)
    r.worker.wait("daemon.reload", since=mark, level="error")
    to(r, "bob.example", "sent")
    assert [m["login"] for m in r.one.messages] == [(USER, PASSWORD)] * 2
