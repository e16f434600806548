# SPDX-License-Identifier: ISC
"""
A smarthost over STARTTLS and over TLS from the first byte (port 465): its
certificate is checked before anything is said, credentials go only to it,
and are seen nowhere else.
"""
import base64
import os
import signal
import ssl
import urllib.request

import pytest

from tests.fake.dns import FakeDns
from tests.fake.mx import FakeMx
from tests.lib.postern import wait_until
from tests.lib.relaying import PASSWORD, USER, Relaying

NAME, ADDRESS = "smart.example", "127.31.0.5"


@pytest.fixture(scope="module")
def r():
    with FakeDns() as dns, Relaying(
            resolver=["127.0.0.1:%d" % dns.port]) as it:
        dns.a(NAME, ADDRESS)
        make_certificates(it)
        it.set_conf("deliver", smarthost_ca_file=it.ca_file)
        it.start_worker()
        it.hosts = {}
        yield it
        for host in it.hosts.values():
            host.close()


def make_certificates(r):
    """For our name, for another, out of date, and by nobody's authority."""
    tls = r.path("tls")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    for what, name, days in (("good", NAME, "30"), ("name", "b.example", "30"),
                             ("expired", NAME, "-1")):
        with open(os.path.join(tls, what + ".ext"), "w") as f:
            f.write("subjectAltName=DNS:%s\n" % name)
        r._run(["openssl", "req", *key, "-keyout", what + ".key", "-out",
                what + ".req", "-subj", "/CN=" + name], cwd=tls)
        r._run(["openssl", "x509", "-req", "-in", what + ".req", "-CA",
                "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days",
                days, "-extfile", what + ".ext", "-out", what + ".pem"],
               cwd=tls)
    r._run(["openssl", "req", "-x509", *key, "-keyout", "authority.key",
            "-out", "authority.pem", "-days", "30", "-subj", "/CN=" + NAME,
            "-addext", "subjectAltName=DNS:" + NAME], cwd=tls)


def with_certificate(r, mx, what):
    mx.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    mx.context.load_cert_chain(r.path("tls", what + ".pem"),
                               r.path("tls", what + ".key"))


def reload(r, **deliver):
    r.set_conf("deliver", **deliver)
    mark = r.worker.mark()
    r.worker.send(signal.SIGHUP)
    r.worker.wait("daemon.reload", since=mark)


@pytest.fixture(params=["starttls", "tls"])
def host(r, request):
    """The smarthost that the worker is told to use."""
    kind = request.param
    if kind not in r.hosts:
        try:
            r.hosts[kind] = FakeMx(
                r.path("tls", "good.pem"), r.path("tls", "good.key"),
                login=(USER, PASSWORD), address=ADDRESS,
                implicit_tls=kind == "tls", port=465 if kind == "tls" else 0)
        except PermissionError:
            print("SKIP smarthost-465: the port may not be bound")
            pytest.skip("port 465 may not be bound")
    mx = r.hosts[kind]
    mx.reset()
    mx.login, mx.offers = (USER, PASSWORD), FakeMx.OFFERS
    with_certificate(r, mx, "good")
    # What the smarthost of before did not take would go to this one now.
    r.forget_queue()
    reload(r, smarthost="%s:%d" % (NAME, mx.port))
    yield mx
    mx.script.clear()


def sent(r, mx):
    mid = r.submit()
    r.wait_state(mid, "sent")
    (got,) = mx.messages
    assert got["login"] == (USER, PASSWORD)
    assert got["tls"] in ("TLSv1.2", "TLSv1.3")
    return got


def test_plain(r, host):
    sent(r, host)
    assert host.verbs.count("EHLO") == (1 if host.implicit_tls else 2)
    assert ("STARTTLS" in host.verbs) is not host.implicit_tls


@pytest.mark.parametrize("mechanisms,want", [
    ("LOGIN", "AUTH LOGIN"), ("LOGIN PLAIN", "AUTH PLAIN"),
    ("CRAM-MD5 XOAUTH2 login", "AUTH LOGIN")])
def test_the_mechanism(r, host, mechanisms, want):
    said = []
    host.offers = tuple(w for w in FakeMx.OFFERS
                        if not w.startswith("AUTH")) + ("AUTH " + mechanisms,)
    host.script["AUTH"] = lambda session, line: said.append(line)
    sent(r, host)
    assert said[0].startswith(want)
    assert want != "AUTH LOGIN" or said == [want]


def test_no_mechanism_we_speak(r, host):
    host.offers = tuple(w for w in FakeMx.OFFERS
                        if not w.startswith("AUTH")) + ("AUTH GSSAPI",)
    mid = r.submit()
    r.wait_state(mid, "deferred")
    assert "AUTH" not in host.verbs and "MAIL" not in host.verbs


@pytest.mark.parametrize("what", ["name", "expired", "authority"])
def test_a_certificate_that_is_not_its(r, host, what):
    with_certificate(r, host, what)
    mid = r.submit()
    r.wait_state(mid, "deferred")
    assert not {"AUTH", "MAIL"} & set(host.verbs)
    assert host.verbs.count("EHLO") == (0 if host.implicit_tls else 1)
    assert not host.messages
    with_certificate(r, host, "good")
    r.due(mid)
    r.wait_state(mid, "sent")
    assert len(host.messages) == 1


def test_clear_text_where_tls_should_be(r, host):
    """On 465 it speaks SMTP in clear; elsewhere it refuses STARTTLS."""
    implicit = host.implicit_tls
    host.implicit_tls = False
    host.script["STARTTLS"] = "502 5.5.1 not here"
    try:
        mid = r.submit()
        r.wait_state(mid, "deferred")
        assert host.verbs == (
            ["banner"] if implicit else ["banner", "EHLO", "STARTTLS"]
        )
        # On 465 all it got was a ClientHello, which its thread may see late.
        if implicit:
            wait_until("a ClientHello", lambda: host.broken)
        assert [x[:1] for x in host.broken] == ([b"\x16"] if implicit else [])
    finally:
        host.implicit_tls = implicit


@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN"])
@pytest.mark.parametrize("code", ["535 5.7.8", "454 4.7.0"])
def test_credentials_that_are_refused(r, host, mechanism, code):
    """Later, with right ones, it is sent; what we said is shown to nobody."""
    echo = base64.b64encode(PASSWORD.encode()).decode()
    host.offers = tuple(w for w in FakeMx.OFFERS
                        if not w.startswith("AUTH")) + ("AUTH " + mechanism,)
    refusal = "%s %s %s is not right" % (code, PASSWORD, echo)
    if mechanism == "PLAIN":
        host.script["AUTH"] = refusal
    else:
        host.refusal = refusal
        host.login = ("nobody", "nothing")
    try:
        mid = r.submit()
        r.wait_state(mid, "deferred")
        assert "MAIL" not in host.verbs and not host.messages
        (row,) = r.deliveries(mid)
        assert row["reply"] == "the next hop refused our credentials (%s)" % (
            code[:3])
    finally:
        host.refusal = None
    host.script.clear()
    host.login = (USER, PASSWORD)
    r.due(mid)
    r.wait_state(mid, "sent")
    assert len(host.messages) == 1


def test_another_password_without_a_restart(r, host):
    """Also for what waits for a greeting at that moment."""
    gate = host.hold("banner")
    mid = r.submit()
    gate.reached()
    host.login = (USER, "another secret")
    path = r.path("keys", "smarthost.password")
    try:
        with open(path, "w") as f:
            f.write("another secret\n")
        reload(r)
        host.script.clear()
        gate.open()
        r.wait_state(mid, "sent")
        (got,) = host.messages
        assert got["login"] == (USER, "another secret")
        assert r.deliveries(mid)[0]["attempts"] == 1
    finally:
        with open(path, "w") as f:
            f.write(PASSWORD + "\n")


def test_the_password_is_nowhere(r):
    """After all of the above: logs, metrics and the database."""
    secrets = [PASSWORD, base64.b64encode(PASSWORD.encode()).decode(),
               base64.b64encode(("\0%s\0%s" % (USER, PASSWORD)).encode())
               .decode(), "another secret"]
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % (
            r.metrics_port + 2)) as f:
        seen = f.read().decode()
    for name in os.listdir(r.path("log")):
        with open(r.path("log", name), errors="replace") as f:
            seen += f.read()
    seen += str(r.sql("SELECT * FROM d.delivery")) + str(
        r.sql("SELECT * FROM d.attempt")) + str(
        r.sql("SELECT * FROM d.state")) + str(r.sql("SELECT * FROM d.audit"))
    assert "the next hop refused our credentials" in seen
    assert not [s for s in secrets if s in seen]
