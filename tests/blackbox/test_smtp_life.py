# SPDX-License-Identifier: ISC
"""
posternd over time: large uploads within bounded memory, workers that die,
reload, drain, a database or a Redis that is away, clients that dawdle.
"""
import concurrent.futures
import os
import signal
import socket
import ssl
import struct
import threading
import time
import urllib.request

import pytest

from tests.lib import noise, postern, rawsmtp
from tests.lib.rawsmtp import Raw, message

MIB = 1024 * 1024


@pytest.fixture
def make():
    made = []

    def start(workers=1, **kw):
        d = postern.Deployment(workers=workers, **kw)
        made.append(d)
        d.add_tenant("acme", "acme.example")
        d.box = d.add_inbox("bot@acme.example")
        d.p = d.start("posternd")
        return d
    yield start
    for d in made:
        d.close()


def workers_of(d):
    with open("/proc/%d/task/%d/children" % (d.p.pid, d.p.pid)) as f:
        return [int(x) for x in f.read().split()]


def peak_rss(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024


def metrics(d):
    url = "http://127.0.0.1:%d/metrics" % d.metrics_port
    with urllib.request.urlopen(url, timeout=10) as f:
        text = f.read().decode()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
            for line in text.splitlines() if line and line[0] != "#"}


def test_twenty_uploads_of_fifty_mib(make):
    """D7: at most 1 MiB an upload and 32 MiB a worker on top of idle."""
    size, n = (50 if os.environ.get("POSTERN_FULL") == "1" else 10), 20
    d = make()
    boxes = [d.add_inbox("up%d@acme.example" % i) for i in range(n)]
    pid = workers_of(d)[0]
    idle = peak_rss(pid)
    block = noise.lines(MIB - 2200)  # with its line ends almost 1 MiB

    def upload(box):
        r = rawsmtp.signed_in(d, box)
        r.sock.settimeout(300)
        rawsmtp.begin_data(r, box)
        r.send(noise.HEAD + message(box, "start"))
        for _ in range(size):
            r.send(block)
        return r.say(".")
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        replies = list(pool.map(upload, boxes))
    assert all(x.startswith("250 2.6.0") for x in replies), replies
    assert d.count(1) == n
    sizes = [m["size"] for m in d.messages()]
    assert min(sizes) > size * len(block)
    assert d.sql("SELECT max(octet_length(data)) AS n FROM d.body")[0][
        "n"] == noise.CHUNK
    grown = peak_rss(pid) - idle
    print("grown by %.1f MiB" % (grown / MIB))
    assert grown < (n * 1 + 32) * MIB


def test_worker_is_replaced(make):
    d = make(workers=2)
    r = rawsmtp.signed_in(d, d.box)
    mark = d.p.mark()
    first = set(workers_of(d))
    assert len(first) == 2
    victim = min(first)
    os.kill(victim, signal.SIGKILL)
    d.p.wait("worker.exit", since=mark, child=victim, why="signal 9")
    postern.wait_until("two workers", lambda: len(workers_of(d)) == 2)
    for _ in range(8):  # clients that fall to either queue are served
        s = rawsmtp.signed_in(d, d.box)
        assert s.say("QUIT").startswith("221")
    try:
        r.say("NOOP")
    except (rawsmtp.Closed, ConnectionError):
        pass  # it was the victim's
    assert d.p.alive()


def test_drain(make):
    d = make()
    idle = rawsmtp.signed_in(d, d.box)
    busy = rawsmtp.signed_in(d, d.box)
    rawsmtp.begin_data(busy, d.box)
    d.p.send(signal.SIGTERM)
    assert idle.reply().startswith("421 4.3.2 ")
    assert idle.closed()

    def refused():
        try:
            socket.create_connection(("127.0.0.1", d.smtp_port), 5).close()
            return False
        except ConnectionRefusedError:
            return True
    postern.wait_until("the port is closed", refused)
    busy.send(message(d.box))
    assert busy.say(".").startswith("250 2.6.0")  # begun, so finished
    assert busy.reply().startswith("421 4.3.2")  # and no more
    assert d.p.stop() == 0
    assert d.count(1) == 1


def test_reload(make):
    d = make()
    r = rawsmtp.secured(d)
    mark = d.p.mark()
    d.set_conf("smtp", size_max="1M", banner="Reloaded")
    d._make_certificate()
    d.p.send(signal.SIGHUP)
    d.p.wait("daemon.reload", since=mark, pid=workers_of(d)[0])
    assert "SIZE 1048576" in r.say("EHLO again")  # open sessions live on
    fresh = Raw(d.smtp_port)
    assert fresh.reply() == "220 gate.postern.test ESMTP Reloaded"
    rawsmtp.signed_in(d, d.box)  # under the new certificate's CA
    mark = d.p.mark()
    with open(d.conf, "a") as f:
        f.write("nonsense = 1\n")
    d.p.send(signal.SIGHUP)
    d.p.wait("daemon.reload", since=mark, level="error")
    assert Raw(d.smtp_port).reply().endswith("Reloaded")


def make_certificate(d, folder, name):
    """Of the deployment's authority, in NAME.pem and NAME.key."""
    tls, base = d.path("tls"), os.path.join(folder, name)
    with open(base + ".ext", "w") as f:
        f.write("subjectAltName=DNS:%s\n" % name)
    d._run(["openssl", "req", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:P-256", "-nodes", "-keyout", base + ".key",
            "-out", base + ".req", "-subj", "/CN=" + name])
    d._run(["openssl", "x509", "-req", "-in", base + ".req", "-CA",
            os.path.join(tls, "ca.pem"), "-CAkey",
            os.path.join(tls, "ca.key"), "-CAcreateserial", "-days", "30",
            "-extfile", base + ".ext", "-out", base + ".pem"])
    d._own(base + ".key")


def answers_as(d, name):
    """The names in the certificate that a client who asks for `name` gets."""
    context = ssl.create_default_context(cafile=d.ca_file)
    context.check_hostname = False
    with socket.create_connection(("127.0.0.1", d.smtps_port), 20) as raw, \
            context.wrap_socket(raw, server_hostname=name) as s:
        return [v for k, v in s.getpeercert()["subjectAltName"] if k == "DNS"]


def test_names_and_their_certificates(make):
    """SNI, with certificates that come while sessions go on."""
    d = make()
    assert "localhost" in answers_as(d, "mail.two.example")
    r = rawsmtp.signed_in(d, d.box)
    more = d.path("tls", "more")
    os.mkdir(more, 0o755)
    make_certificate(d, more, "mail.two.example")
    make_certificate(d, more, "mail.three.example")
    d.set_conf("tls", more_dir=more)
    d.p.send(signal.SIGHUP)
    postern.wait_until("the new certificate", lambda: answers_as(
        d, "mail.two.example") == ["mail.two.example"])
    assert answers_as(d, "mail.three.example") == ["mail.three.example"]
    assert "localhost" in answers_as(d, "mail.four.example")
    assert rawsmtp.submit(r, d.box).startswith("250 2.6.0")
    # one that cannot be used: all stay as they are, and the log says why
    os.unlink(os.path.join(more, "mail.two.example.key"))
    mark = d.p.mark()
    d.p.send(signal.SIGHUP)
    e = d.p.wait("daemon.reload", since=mark, level="error")
    assert "mail.two.example.key" in e["why"], e
    assert answers_as(d, "mail.two.example") == ["mail.two.example"]
    assert rawsmtp.submit(r, d.box).startswith("250 2.6.0")


def test_database_away(make):
    d = make()
    r = rawsmtp.signed_in(d, d.box)
    rawsmtp.begin_data(r, d.box)
    d.postgres.stop(signal.SIGQUIT)
    r.send(message(d.box))
    assert r.say(".").startswith("451 4.3.0 [store_unavailable]")
    s = rawsmtp.secured(d)
    reply = s.say("AUTH PLAIN " + rawsmtp.plain(d.box.address,
                                                d.box.smtp_key))
    assert reply.startswith("454 4.7.0 [store_unavailable]")
    d.start_postgres()

    def works():
        reply = s.say("AUTH PLAIN " + rawsmtp.plain(
            d.box.address, d.box.smtp_key))
        assert reply[:3] in ("235", "454"), reply
        return reply.startswith("235")
    postern.wait_until("sign-in works again", works, pause=0.2)
    assert rawsmtp.submit(s, d.box).startswith("250 2.6.0")
    assert d.count(1) == 1


class Between:
    """Between posternd and PostgreSQL: cut() takes posternd's half of every
    connection away, and the server goes on with what it was asked."""

    def __init__(self, d):
        self.to = d.path("sock", ".s.PGSQL.5432")
        os.mkdir(d.path("between"), 0o777)
        os.chmod(d.path("between"), 0o777)
        path = d.path("between", ".s.PGSQL.5432")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        os.chmod(path, 0o777)
        self.listener.listen(64)
        self.near, self.far = [], []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self.to)
            self.near.append(near)
            self.far.append(far)
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(a, b),
                                 daemon=True).start()

    def pump(self, a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass

    def cut(self):
        for s in self.near:
            s.shutdown(socket.SHUT_RDWR)
        self.near.clear()

    def close(self):
        for s in [self.listener] + self.near + self.far:
            s.close()


def waiting(d, n):
    postern.wait_until("%d that wait" % n, lambda: len(d.sql(
        "SELECT 1 FROM pg_locks WHERE NOT granted")) >= n, 30)


@pytest.mark.parametrize("mid", [None, "<1@client.example>"])
def test_a_commit_whose_answer_was_lost_is_charged_once(make, mid):
    """It is sent again, meets itself, and counts against the hour."""
    d = make()
    d.p.stop()
    d.sql("UPDATE d.inbox SET lim_hour = 1")
    between = Between(d)
    d.set_conf("store", socket=d.path("between"))
    d.p = d.start("posternd")
    r = rawsmtp.signed_in(d, d.box)
    rawsmtp.begin_data(r, d.box)
    held = d.connect()
    held.autocommit = False
    with held.cursor() as cur:
        cur.execute("SELECT 1 FROM d.quota FOR UPDATE")
        r.send(message(d.box, Message_ID=mid) + ".\r\n")
        waiting(d, 1)
        between.cut()
        waiting(d, 2)
    held.rollback()
    held.close()
    assert r.reply().endswith(" held for approval")
    assert d.count() == 1
    r = rawsmtp.signed_in(d, d.box)
    assert rawsmtp.submit(r, d.box, "more").startswith(
        "451 4.7.1 [rate_limited]")
    r.shut()
    d.p.stop()
    between.close()


def test_redis_away(make):
    """A18: gated mail goes on under local limits."""
    d = make()
    d.redis.stop()
    r = rawsmtp.signed_in(d, d.box)
    assert rawsmtp.submit(r, d.box).startswith("250 2.6.0")
    assert d.count(1) == 1


def test_idle_and_slow_clients(make):
    # Long enough for a busy machine to come to where they are about.
    d = make(extra={"smtp": {"idle_timeout": "4s",
                             "transaction_timeout": "6s"}})
    r = rawsmtp.greeted(d)
    assert r.reply().startswith("421 4.4.2 [request_timeout]")
    assert r.closed()
    slow = rawsmtp.greeted(d)  # a byte now and then moves no deadline
    start = time.monotonic()
    try:
        for c in "EHLO a-very-long-name.example.org" * 4:
            slow.send(c)
            slow.sock.settimeout(0.2)
            try:
                assert slow.reply().startswith("421 4.4.2")
                break
            except socket.timeout:
                pass
    except (ConnectionError, rawsmtp.Closed):
        pass
    assert time.monotonic() - start < 20  # it would take 26
    r = rawsmtp.signed_in(d, d.box)
    rawsmtp.begin_data(r, d.box)
    r.sock.settimeout(0.4)
    start = time.monotonic()
    while True:
        try:
            r.send("drip\r\n")
            reply = r.reply()
            break
        except socket.timeout:
            assert time.monotonic() - start < 20
    assert reply.startswith("421 4.4.2")
    assert d.count() == 0


def test_one_address_has_a_share(make):
    """The cap on one address's connections leaves room for the others."""
    d = make()
    mine = "127.9.9.9"
    held = [Raw(d.smtp_port, source=mine) for _ in range(50)]
    assert all(r.reply().startswith("220") for r in held)
    over = Raw(d.smtp_port, source=mine)
    assert over.reply().startswith("421 4.7.0 [too_many_errors]")
    assert over.closed()
    assert Raw(d.smtp_port, source="127.9.9.8").reply().startswith("220")
    held[0].say("QUIT")
    assert held[0].closed()
    postern.wait_until("room again", lambda: Raw(
        d.smtp_port, source=mine).reply().startswith("220"))


def test_proxy_protocol(make):
    d = make(extra={"smtp": {"proxy_from": ["127.7.7.7"]}})
    head = b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack(
        ">H4s4sHH", 12, socket.inet_aton("192.0.2.77"),
        socket.inet_aton("127.0.0.1"), 4711, 587)
    r = Raw(d.smtp_port, source="127.7.7.7")
    mark = d.p.mark()
    r.send(head)
    assert r.reply().startswith("220")
    d.p.wait("smtpd.accept", since=mark, peer="192.0.2.77")
    bad = Raw(d.smtp_port, source="127.7.7.7")
    bad.send(b"EHLO x\r\n")
    assert bad.closed()
    other = Raw(d.smtp_port, source="127.7.7.8")  # may not say who it is
    other.send(head)
    with pytest.raises((rawsmtp.Closed, AssertionError)):
        assert other.reply().startswith("220 ") and other.say(
            "NOOP").startswith("250")


def test_metrics_and_readiness(make):
    d = make()
    r = rawsmtp.signed_in(d, d.box)
    assert rawsmtp.submit(r, d.box).startswith("250 2.6.0")
    m = metrics(d)
    assert m['postern_sessions{proto="smtp",tls="1"}'] == 1
    assert m['postern_auth_total{result="ok"}'] == 1
    assert m['postern_submissions_total{door="smtp",outcome="held"}'] == 1
    base = "http://127.0.0.1:%d" % d.metrics_port
    assert urllib.request.urlopen(base + "/healthz").status == 200
    assert urllib.request.urlopen(base + "/readyz").status == 200
    d.postgres.stop(signal.SIGQUIT)

    def unready():
        try:
            urllib.request.urlopen(base + "/readyz")
            return False
        except urllib.error.HTTPError as e:
            return e.code == 503
    postern.wait_until("not ready", unready)
    assert urllib.request.urlopen(base + "/healthz").status == 200


def test_no_core_no_root(make):
    d = make()
    for pid in workers_of(d) + [d.p.pid]:
        with open("/proc/%d/limits" % pid) as f:
            limits = f.read()
        assert "Max core file size        0                    0" in limits
        with open("/proc/%d/status" % pid) as f:
            uids = [x for x in f if x.startswith("Uid:")][0].split()[1:]
        assert "0" not in uids
