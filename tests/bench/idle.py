# SPDX-License-Identifier: ISC
"""
What sessions cost that do nothing: memory of each (PSS of all processes of a
server, before and after N sessions have said EHLO), plain and under TLS,
beside Postfix's and OpenSMTPD's, and what a normal client notices of 10,000
idle sessions and a slowloris of 2,000 connections that send a byte now and
then.
"""
import json
import os
import socket
import ssl
import statistics
import threading
import time

from ..lib import postern, rawsmtp
from .peers import OpenSMTPDAsIs
from .postfix import Postfix

# What must be reached: bytes a session, milliseconds.
PLAIN_MAX = 8 * 1024
TLS_MAX = 20 * 1024
P99_MAX = 50
# Postfix forks for each session: so many say what one costs, and N take
# minutes to start. --all-of-postfix takes N of it too.
POSTFIX_SESSIONS = 200
ROUNDS = 5
PROBES = 200
DRIP_S = 10


def tree(pid):
    out = [pid]
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/children" % (pid, task)) as f:
            for child in f.read().split():
                try:
                    out += tree(int(child))
                except OSError:
                    pass
    return out


def pss(root):
    """Bytes, of this process and all below it."""
    total = 0
    for pid in tree(root):
        try:
            with open("/proc/%d/smaps_rollup" % pid) as f:
                total += sum(int(line.split()[1]) for line in f
                             if line.startswith("Pss:"))
        except OSError:
            pass
    return total * 1024


class Idle:
    """One session that has said EHLO and says no more."""

    def __init__(self, port, n, context=None, starttls=False):
        source = "127.%d.%d.%d" % (2 + n // 60000, n // 250 % 240, n % 250 + 1)
        self.sock = socket.create_connection(("127.0.0.1", port), 60,
                                             (source, 0))
        if context is not None and not starttls:
            self.sock = context.wrap_socket(self.sock)
        self.expect(b"220 ")
        self.say(b"EHLO idle.test\r\n")
        if starttls:
            self.say(b"STARTTLS\r\n")
            self.sock = context.wrap_socket(self.sock)
            self.say(b"EHLO idle.test\r\n")

    def expect(self, start):
        data = b""
        while b"\r\n" not in data or not any(
                line[3:4] == b" " for line in data.split(b"\r\n")[:-1]):
            got = self.sock.recv(4096)
            assert got, data
            data += got
        assert data.startswith(start), data

    def say(self, line):
        self.sock.sendall(line)
        self.expect(b"2")


def insecure():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def per_session(root, make, n):
    """Bytes a session; the first hundred pay for what all share."""
    kept = [make(i) for i in range(100)]
    before = pss(root)
    kept += [make(i) for i in range(100, 100 + n)]
    after = pss(root)
    for one in kept:
        one.sock.close()
    return round((after - before) / n)


def of_postern(d, pid, n):
    context = insecure()
    return {
        "sessions": n,
        "plain_bytes": per_session(pid, lambda i: Idle(d.smtp_port, i), n),
        "tls_bytes": per_session(
            pid, lambda i: Idle(d.smtps_port, i, context), n),
    }


def of_peer(make, d, disk, n):
    """What a session took may live on: each kind needs a fresh server."""
    out = {"sessions": n}
    for name, context in (("plain_bytes", None), ("tls_bytes", insecure())):
        peer = make(disk, d.path("tls", "cert.pem"), d.path("tls", "key.pem"))
        try:
            out[name] = per_session(peer.pid, lambda i: Idle(
                peer.port, i, context, context is not None), n)
        finally:
            peer.close()
    return out


def postfix(disk, cert, key):
    """One process a session."""
    return Postfix(disk, cert, key, [("u0@bench.test", "secret-0")],
                   "default_process_limit = 4000\n"
                   "smtpd_timeout = 1h\n")


class Slowloris(threading.Thread):
    """A byte of an endless command from each, every ten seconds."""

    def __init__(self, port, n):
        super().__init__(daemon=True)
        self.all = [Idle(port, 30000 + i) for i in range(n)]
        self.stop = threading.Event()

    def run(self):
        while not self.stop.is_set():
            for one in self.all:
                try:
                    one.sock.send(b"N")
                except OSError:
                    pass
                if self.stop.wait(DRIP_S / len(self.all)):
                    return


def p99(d, box):
    """Milliseconds from MAIL to the reply of the dot, of one client."""
    r = rawsmtp.signed_in(d, box)
    took = []
    for i in range(PROBES):
        start = time.monotonic()
        rawsmtp.submit(r, box, "probe %d of %f" % (i, start))
        took.append((time.monotonic() - start) * 1000)
    r.shut()
    return round(statistics.quantiles(took, n=100)[98], 1)


def run(disk, idle, many, loris, workers, whole):
    d = postern.Deployment(workers=workers, where=disk, extra={"smtp": {
        "idle_timeout": "30m", "sessions_max": "40000",
        "peer_max": "40000"}})
    out = {"bench": "idle", "cores": os.cpu_count(), "workers": workers}
    try:
        d.add_tenant("one", "one.example")
        box = d.add_inbox("bot@one.example", "one")
        d.sql("UPDATE d.inbox SET lim_hour = 100000000, lim_day = 100000000, "
              "lim_month = 1000000000, lim_held = 1000000000")
        p = d.start("posternd")
        rawsmtp.submit(rawsmtp.signed_in(d, box), box)
        out["postern"] = of_postern(d, p.pid, idle)
        for name, make in (("postfix", postfix),
                           ("opensmtpd", OpenSMTPDAsIs)):
            few = name == "postfix" and not whole
            out[name] = of_peer(make, d, disk,
                                POSTFIX_SESSIONS if few else idle)
            print(json.dumps({name: out[name]}), flush=True)
        out["p99_ms_alone"] = [p99(d, box) for _ in range(ROUNDS)]
        kept = [Idle(d.smtp_port, i) for i in range(many)]
        slow = Slowloris(d.smtp_port, loris)
        slow.start()
        rounds = [p99(d, box) for _ in range(ROUNDS)]
        slow.stop.set()
        slow.join()
        out.update(idle_sessions=many, slowloris=loris,
                   p99_ms=statistics.median(rounds), p99_rounds=rounds,
                   load=round(os.getloadavg()[0], 2))
        assert len(kept) == many
        out["ok"] = out["postern"]["plain_bytes"] < PLAIN_MAX and \
            out["postern"]["tls_bytes"] < TLS_MAX and \
            out["p99_ms"] < P99_MAX
        return out
    finally:
        d.close()
