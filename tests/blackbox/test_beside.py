# SPDX-License-Identifier: ISC
"""
Beside what people have: the files under deploy/ for HAProxy, nginx and
Postfix, loaded by the real programs of Debian as they are shipped, with other
addresses, ports, names and folders; real mail and requests go through.
"""
import os
import re
import resource
import shutil
import signal
import smtplib
import socket
import ssl
import http.client
import json

import pytest

from tests.fake.mx import FakeMx
from tests.lib import pages, postern
from tests.lib.process import Process, free_port
from tests.lib.relaying import Relaying

API, PAGES = "gate.postern.test", "localhost"
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="Postfix needs root"),
    pytest.mark.skipif(not all(map(shutil.which, (
        "haproxy", "nginx", "postfix"))) or not os.path.exists(
        "/usr/lib/nginx/modules/ngx_stream_module.so"),
        reason="HAProxy, nginx with stream, or Postfix is not installed")]


def recipe(path, *changes):
    """A file of deploy/ with other words; each must be in it."""
    with open(os.path.join(postern.TOP, "deploy", path)) as f:
        text = f.read()
    for old, new in changes:
        assert re.search(old, text), (path, old)
        text = re.sub(old, new, text)
    return text


class Site(Relaying):
    def __init__(self):
        super().__init__()
        self.programs.pop("posternd").stop()
        self.set_conf("smtp", proxy_from=["127.0.0.1"])
        self.set_conf("admin", proxy_from=["127.0.0.1"])
        self.p = self.start("posternd")
        self.start("postern-admin")
        self.others = []

    def close(self):
        for p in reversed(getattr(self, "others", [])):
            p.kill()
        super().close()

    def run(self, name, argv, port):
        p = Process(name, argv, log=self.path("log", name + ".log"))
        self.others.append(p)

        def listens():
            assert p.alive(), p.lines
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0
        postern.wait_until(name, listens)
        return p

    def balancer(self, name):
        """Ports of submission, submissions and https."""
        at = {"submission": free_port(), "submissions": free_port(),
              "https": free_port()}
        conf = self.path(name + ".conf")
        changes = [(r"10\.0\.0\.1[12]:1587", "127.0.0.1:%d" % self.smtp_port),
                   (r"10\.0\.0\.1[12]:1465", "127.0.0.1:%d" % self.smtps_port),
                   (r"10\.0\.0\.1[12]:8443", "127.0.0.1:%d" % self.api_port),
                   (r"10\.0\.0\.1[12]:8444", "127.0.0.1:%d" % self.admin_port),
                   (r"api\.example\.com", API),
                   (r"pages\.example\.com", PAGES)]
        if name == "haproxy":
            changes += [(r"port 9580", "port %d" % self.metrics_port),
                        (r"port 9581", "port %d" % (self.metrics_port + 1)),
                        (r"bind :587", "bind :%(submission)d" % at),
                        (r"bind :465", "bind :%(submissions)d" % at),
                        (r"bind :443", "bind :%(https)d" % at)]
            argv = ["haproxy", "-db", "-f", conf]
            head = ""
        else:
            changes += [(r"listen 587;", "listen %(submission)d;" % at),
                        (r"listen 465;", "listen %(submissions)d;" % at),
                        (r"listen 443;", "listen %(https)d;" % at),
                        (r"unix:/run/", "unix:" + self.path("sock") + "/")]
            argv = ["nginx", "-p", self.dir, "-e", "stderr", "-c", conf]
            head = ("load_module /usr/lib/nginx/modules/ngx_stream_module.so;"
                    "daemon off; user root; pid %s; error_log stderr;\n"
                    "events { }\n" % self.path("nginx.pid"))
        file = "haproxy/postern.cfg" if name == "haproxy" else \
            "nginx/postern.conf"
        with open(conf, "w") as f:
            f.write(head + recipe(file, *changes))
        self.run(name, argv, at["https"])
        return at

    def postfix(self, name, port, main, master, sink):
        """An instance of its own; what leaves it goes to `sink`."""
        top = self.path(name)
        for folder, owner in (("", 0), ("queue", 0), ("data", "postfix"),
                              ("etc", 0)):
            os.mkdir(os.path.join(top, folder), 0o755)
            if owner:
                shutil.chown(os.path.join(top, folder), owner)
        with open(top + "/etc/main.cf", "w") as f:
            f.write("compatibility_level = 3.6\n"
                    "queue_directory = %(top)s/queue\n"
                    "data_directory = %(top)s/data\n"
                    "command_directory = /usr/sbin\n"
                    "daemon_directory = /usr/lib/postfix/sbin\n"
                    "shlib_directory = /usr/lib/postfix\n"
                    "myhostname = apps.postern.test\nmydestination =\n"
                    "inet_interfaces = loopback-only\n"
                    "inet_protocols = ipv4\nmynetworks = 127.0.0.0/8\n"
                    "smtp_host_lookup = native\n"
                    "maillog_file_prefixes = %(top)s\n"
                    "maillog_file = %(top)s/log\n"
                    "relayhost = [127.0.0.1]:%(sink)d\n" % {
                        "top": top, "sink": sink} + main)
        with open("/usr/share/postfix/master.cf.dist") as f:
            services = [line for line in f if not line.startswith("#")]
        with open(top + "/etc/master.cf", "w") as f:
            f.write(re.sub(r"(?m)^(\S+\s+\S+\s+\S+\s+\S+\s+)y ", r"\1n ",
                           re.sub(r"(?m)^smtp\s+inet.*\n", "",
                                  "".join(services)) + master))
        return self.run(name, ["postfix", "-c", top + "/etc", "start-fg"],
                        port)


@pytest.fixture(scope="module")
def d():
    with Site() as site:
        yield site


@pytest.fixture(scope="module")
def haproxy(d):
    return d.balancer("haproxy")


@pytest.fixture(scope="module")
def nginx(d):
    return d.balancer("nginx")


def secured(d, port, name, source):
    s = socket.create_connection(("127.0.0.1", port), 20, (source, 0))
    return ssl.create_default_context(cafile=d.ca_file).wrap_socket(
        s, server_hostname=name)


class Https(http.client.HTTPSConnection):
    """By a name that needs no DNS, from an address of its own."""

    def __init__(self, d, port, name, source="127.0.0.1"):
        super().__init__(name, port, timeout=20)
        self.how = (d, port, name, source)

    def connect(self):
        self.sock = secured(*self.how)


def direct(d):
    """Without a balancer, from an address that must say PROXY."""
    s = socket.create_connection(("127.0.0.1", d.api_port), 20)
    s.sendall(b"PROXY UNKNOWN\r\n")
    conn = Https(d, d.api_port, PAGES)
    conn.sock = ssl.create_default_context(cafile=d.ca_file).wrap_socket(
        s, server_hostname=PAGES)
    return conn


def call(conn, method, path, box=None, doc=None, **headers):
    if box:
        headers["Authorization"] = "Bearer " + box.key
    if doc is not None:
        headers["Content-Type"] = "application/json"
    conn.request(method, path, doc and json.dumps(doc), headers)
    return conn.getresponse()


@pytest.mark.parametrize("which", ("haproxy", "nginx"))
def test_balancer(d, which, request):
    at = request.getfixturevalue(which)
    box = d.add_inbox(which + "@acme.example")
    context = ssl.create_default_context(cafile=d.ca_file)
    text = "From: <%s>\r\nSubject: %%s\r\n\r\nHello\r\n" % box.address

    # Both doors of SMTP; the gateway knows who it is, not the balancer.
    mark = d.p.mark()
    with smtplib.SMTP("localhost", at["submission"],
                      source_address=("127.9.1.1", 0)) as s:
        s.starttls(context=context)
        s.login(box.address, box.smtp_key)
        s.sendmail(box.address, ["ann@dest.example"], text % "587")
    d.p.wait("smtpd.accept", since=mark, peer="127.9.1.1")
    with smtplib.SMTP_SSL("localhost", at["submissions"], context=context,
                          source_address=("127.9.1.2", 0)) as s:
        s.login(box.address, box.smtp_key)
        s.sendmail(box.address, ["ann@dest.example"], text % "465")
    d.p.wait("smtpd.accept", since=mark, peer="127.9.1.2")

    # The API, and its stream of events, by its name.
    stream = call(Https(d, at["https"], API), "GET", "/v1/events", box)
    assert stream.status == 200
    assert stream.readline()  # it has begun
    r = call(Https(d, at["https"], API, "127.9.1.3"), "POST",
             "/v1/messages/send", box,
             {"to": ["ann@dest.example"], "subject": "443", "text": "x"})
    assert r.status == 202
    mid = json.loads(r.read())["message_id"]
    while True:  # by line, as it comes: nothing is kept back
        line = stream.readline()
        assert line, "the stream ended"
        if line.startswith(b"data:") and mid.encode() in line:
            break
    assert {m["subject"] for m in d.messages()
            if m["mail_from"] == box.address} == {"587", "465", "443"}

    # The pages, by theirs, and neither by the other's.
    r = call(Https(d, at["https"], PAGES), "GET", "/login")
    assert r.status == 200 and b"password" in r.read()
    admin = d.programs["postern-admin"]
    mark = admin.mark()
    conn = Https(d, at["https"], PAGES, "127.9.1.4")
    conn.request("POST", "/login", "name=nobody&password=wrong", {
        "Content-Type": "application/x-www-form-urlencoded",
        "Sec-Fetch-Site": "same-origin"})
    assert conn.getresponse().status == 401
    admin.wait("admin.signin_failed", since=mark, peer="127.9.1.4")
    assert call(Https(d, at["https"], API), "GET", "/login").status == 404
    s = socket.create_connection(("127.0.0.1", at["https"]), 20)
    with pytest.raises((ssl.SSLError, ConnectionError, OSError)):
        ssl._create_unverified_context().wrap_socket(
            s, server_hostname="nobody.example")


@pytest.mark.skipif(os.environ.get("POSTERN_FULL") != "1",
                    reason="--full only: waits for health checks")
def test_haproxy_asks_for_readiness(d, haproxy):
    """A gateway that is not ready gets nobody new; then it is asked again."""
    def greeted():
        try:
            with smtplib.SMTP("localhost", haproxy["submission"], timeout=20):
                return True
        except (smtplib.SMTPException, OSError):
            return False
    assert greeted()
    for c in d.connections.values():
        c.close()
    d.postgres.stop(signal.SIGQUIT)
    try:
        postern.wait_until("nobody is let in", lambda: not greeted(), 30)
    finally:
        d.start_postgres()
    postern.wait_until("let in again", greeted, 30)


def test_postfix_in_front(d, haproxy):
    """An agent's mail is held by Postern; other mail takes its old way."""
    box = d.add_inbox("fronted@acme.example")
    other = FakeMx()
    port = free_port()
    top = d.path("front")
    gate = "[localhost]:%d" % haproxy["submission"]
    main = recipe("postfix-in-front/main.cf",
                  (r"/etc/postfix/", top + "/etc/"),
                  (r"/etc/ssl/certs/ca-certificates\.crt", d.ca_file))
    p = d.postfix("front", port, main,
                  "127.0.0.1:%d inet n - n - - smtpd\n" % port, other.port)
    for name, changes in (
            ("postern_relay", [(r"bot@agents\.example\.com", box.address),
                               (r"\[gate\.example\.com\]:587", gate)]),
            ("postern_passwords", [
                (r"bot@agents\.example\.com", box.address),
                (r"pst_live_SMTP_KEY", box.smtp_key)]),
            ("postern_tls", [(r"\[gate\.example\.com\]:587", gate),
                             (r"match=gate\.example\.com",
                              "match=localhost")])):
        with open(os.path.join(top, "etc", name), "w") as f:
            f.write(recipe("postfix-in-front/" + name, *changes))
    with smtplib.SMTP("127.0.0.1", port) as s:
        for sender in (box.address, "person@apps.example"):
            s.sendmail(sender, ["ann@dest.example"], "From: <%s>\r\nSubject: "
                       "by Postfix\r\n\r\nHello\r\n" % sender)
    held = postern.wait_until("held", lambda: [
        m for m in d.messages() if m["mail_from"] == box.address])
    assert held[0]["state"] == 1 and held[0]["subject"] == "by Postfix"
    (m,) = other.wait_messages(1)
    assert m["mail_from"] == "person@apps.example"
    # What Postern refuses is told to who sent it.
    with smtplib.SMTP("127.0.0.1", port) as s:
        s.sendmail(box.address, ["ann@dest.example"], "From: <ceo@acme."
                   "example>\r\nSubject: no\r\n\r\nHello\r\n")

    def log():
        with open(top + "/log") as f:
            return f.read()
    postern.wait_until("the refusal", lambda: "[sender_mismatch]" in log())
    assert "status=bounced" in log()
    p.send(signal.SIGTERM)
    p.proc.wait(20)
    other.close()


def test_nobody_takes_all_places_at_the_pages(d):
    """From one address a part of them can be had, and no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    context = ssl.create_default_context(cafile=d.ca_file)

    def come(who):
        s = socket.create_connection(("127.0.0.1", d.admin_port), 20)
        s.sendall(b"PROXY TCP4 %s 192.0.2.1 50000 443\r\n" % who)
        return s
    crowd = [come(b"198.51.100.7") for _ in range(1001)]
    try:
        with come(b"198.51.100.8") as plain, context.wrap_socket(
                plain, server_hostname=PAGES) as s:
            s.sendall(b"GET /login HTTP/1.1\r\nHost: %s\r\n\r\n"
                      % PAGES.encode())
            assert s.recv(100).startswith(b"HTTP/1.1 200 ")
        with pytest.raises(OSError):
            context.wrap_socket(come(b"198.51.100.7"), server_hostname=PAGES)
    finally:
        for s in crowd:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_strangers_at_the_door_keep_no_mail_closed(d):
    """However many sign in at once: who is signed in opens what waits."""
    box = d.add_inbox("door@acme.example")
    r = call(direct(d), "POST", "/v1/messages/send", box, {
        "to": ["ann@dest.example"], "subject": "Door", "text": "read me"})
    mid = json.loads(r.read())["message_id"]
    ann = pages.Pages(d, source="127.0.0.2")  # no balancer's
    context = ssl.create_default_context(cafile=d.ca_file)
    doc = b"name=bob&password=wrong&return_to=%2Fq"
    crowd = []
    try:
        for i in range(120):
            plain = socket.create_connection(("127.0.0.1", d.admin_port), 20)
            plain.sendall(b"PROXY TCP4 198.51.100.%d 192.0.2.1 50000 443\r\n"
                          % (i + 1))
            crowd.append(context.wrap_socket(plain, server_hostname=PAGES))
        for s in crowd:
            s.sendall((b"POST /login HTTP/1.1\r\nHost: %s\r\nSec-Fetch-Site: "
                      b"same-origin\r\nContent-Type: application/"
                      b"x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s"
                      % (PAGES.encode(), len(doc), doc)) * 15)
        status, _, page = ann.call("GET", "/m/" + mid)
        assert status == 200 and "read me" in page
        got = [s.recv(100)[:12] for s in crowd]
        assert b"HTTP/1.1 503" in got, "all were looked at: %s" % got
    finally:
        for s in crowd:
            s.close()


def test_postfix_behind(d):
    """What was approved goes to Postfix, and out of it as it was."""
    world = FakeMx()
    port = free_port()
    master = recipe("postfix-behind/postern.master",
                    (r"10\.0\.0\.20:10025", "127.0.0.1:%d" % port),
                    (r"/etc/postfix/tls/", d.path("tls") + "/"),
                    (r"10\.0\.0\.12/32", "127.0.0.0/8"))
    p = d.postfix("behind", port, recipe("postfix-behind/main.cf"), master,
                  world.port)
    d.set_conf("deliver", smarthost="localhost:%d" % port, smarthost_user="",
               smarthost_password_file="")
    d.start_worker()
    box = d.add_inbox("behind@acme.example")
    r = call(direct(d), "POST", "/v1/messages/send", box, {
        "to": ["ann@dest.example"], "subject": "Behind",
        "text": "from here to there\n.\n"})
    assert r.status == 202
    (m,) = [m for m in d.messages() if m["mail_from"] == box.address]
    ann = pages.Pages(d, source="127.0.0.2")  # no balancer's
    assert ann.approve(m["message_id"]) == 303
    d.due(m["message_id"])
    d.wait_state(m["message_id"], "sent")
    (got,) = world.wait_messages(1)
    assert got["mail_from"] == box.address
    r = call(direct(d), "GET", "/v1/messages/%s/raw" % pages.public_id(
        m["message_id"]), box)
    assert r.status == 200
    # Postfix put its Received before; behind it is every byte as approved.
    approved = r.read()
    assert got["data"].startswith(b"Received:")
    assert got["data"].endswith(b"\r\n" + approved), (got["data"], approved)
    p.send(signal.SIGTERM)
    p.proc.wait(20)
    world.close()
