# SPDX-License-Identifier: ISC
"""
A worker inside a network of its own (netns.py), and for each row of a table of
faults a recipient domain with its hosts. All mail is submitted at once; each
test then looks at its own.
"""
import hashlib
import http.server
import os
import re
import socket
import ssl
import struct
import subprocess
import threading

from tests.fake.dns import FakeDns
from tests.fake.mx import CLOSE, FakeMx
from tests.lib.netns import AUTHORITY, ODD, RESOLVER, Names, Net
from tests.lib.relaying import Relaying

OFFERS = ("PIPELINING", "SIZE 60000000", "8BITMIME", "STARTTLS")
CLEAR = ("PIPELINING", "SIZE 60000000", "8BITMIME")
POLICY_HOST, SILENT_HOST = "30.3.0.1", "30.3.0.2"
# All addresses are this host's own, which is not written to: but these are.
HERE = ["30.1.0.0/16", "30.3.0.0/16", "2a0f:1::/32"]


class Row:
    """`want`: the state; the rest is looked at when it is given. `said`: what
    stands behind MAIL FROM, as a regular expression; `rcpt_said`: behind
    each RCPT TO."""

    def __init__(self, name, want, script=None, offers=OFFERS, second=None,
                 zone=None, odd=None, rcpts=None, replies=None, cert="good",
                 policy=None, raw=None, params=(), enhanced=None, code=None,
                 reply=None, took=None, second_took=None, tls=None,
                 tls_text=None, statuses=None, slow=False, log=None,
                 mx_at=None, domain=None, setup=None, said=None,
                 notify=None, ret=None, rcpt_said=None):
        self.__dict__.update(locals())
        del self.__dict__["self"]
        self.script = script or {}


def rst(session, line):
    """Gone at once: TCP RST."""
    session.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                            struct.pack("ii", 1, 0))
    session.file.close()
    session.sock.close()
    raise ConnectionAbortedError


def after(seconds, reply=None):
    """The usual, or `reply`, but late."""
    def step(session, line):
        threading.Event().wait(seconds)
        return reply
    return step


def says(data, then=""):
    """Bytes as they are, then the reply (""; none)."""
    def step(session, line):
        session.sock.sendall(data)
        return then
    return step


def cut(data, end=CLOSE):
    """A part of a reply, then an end of the connection."""
    def step(session, line):
        session.sock.sendall(data)
        return end(session, line) if callable(end) else end
    return step


def by_octets(text):
    def step(session, line):
        session.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for b in text.replace("\n", "\r\n").encode() + b"\r\n":
            session.sock.sendall(bytes([b]))
        return ""
    return step


def _openssl(where, *words):
    subprocess.run(["openssl", *words], cwd=where, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Certificates:
    """good, expired, other (name) by the test's authority; self(-signed)."""

    def __init__(self, where, ca, names):
        self.where = where
        self.ca = ca
        with open(os.path.join(where, "names"), "w") as f:
            f.write("subjectAltName=" + ",".join("DNS:" + n for n in names))
        with open(os.path.join(where, "other"), "w") as f:
            f.write("subjectAltName=DNS:other.example.org")
        _openssl(where, "req", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:P-256", "-nodes", "-keyout", "mx.key",
                 "-out", "mx.req", "-subj", "/CN=fake")
        self.key = os.path.join(where, "mx.key")
        for name, ext, how in (
                ("good", "names", ["-days", "30"]),
                ("other", "other", ["-days", "30"]),
                ("expired", "names", ["-days", "-1"])):
            _openssl(where, "x509", "-req", "-in", "mx.req", "-CA", ca[0],
                     "-CAkey", ca[1], "-CAcreateserial", *how, "-extfile",
                     ext, "-out", name + ".pem")
        _openssl(where, "x509", "-req", "-in", "mx.req", "-signkey",
                 "mx.key", "-days", "30", "-extfile", "names", "-out",
                 "self.pem")
        with open(os.path.join(where, "good.pem"), "a") as f, \
                open(ca[0]) as more:
            f.write(more.read())  # DANE-TA needs the authority sent along

    def file(self, name):
        return os.path.join(self.where, name + ".pem")

    def digest(self, name, what="key"):
        """sha256 of the certificate, or of its key."""
        def der(*words):
            return subprocess.run(["openssl", *words], check=True,
                                  capture_output=True).stdout
        path = self.ca[0] if name == "ca" else self.file(name)
        if what == "certificate":
            return hashlib.sha256(der("x509", "-in", path, "-outform",
                                      "der")).hexdigest()
        pem = der("x509", "-in", path, "-noout", "-pubkey")
        return hashlib.sha256(subprocess.run(
            ["openssl", "pkey", "-pubin", "-outform", "der"], input=pem,
            check=True, capture_output=True).stdout).hexdigest()


class Policies:
    """HTTPS on `hosts`, (address, certificate) each; a policy by the name of
    the domain."""

    def __init__(self, net, certs, hosts=(
            (POLICY_HOST, "good"), ("30.3.0.3", "other"))):
        self.by_domain, self.asked = {}, []
        policies = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                host = self.headers["Host"]
                policies.asked.append(host + self.path)
                status, headers, body = policies.by_domain[
                    host[len("mta-sts."):]]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    pass  # it has seen enough

            def log_message(self, *words):
                pass

        self.servers = []
        for address, cert in hosts:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certs.file(cert), certs.key)
            server = http.server.ThreadingHTTPServer(
                (address, 443), Handler, bind_and_activate=False)
            server.socket.close()
            server.socket = net.listen(address, 443)
            server.socket = context.wrap_socket(
                server.socket, server_side=True,
                do_handshake_on_connect=False)
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever,
                             daemon=True).start()
            self.servers.append(server)

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()


def policy(mode, *mx, age=86400, **how):
    """A row's policy; {d} is its domain."""
    body = "version: STSv1\r\nmode: %s\r\n%smax_age: %d\r\n" % (
        mode, "".join("mx: %s\r\n" % m for m in mx), age)
    return {"status": 200, "type": "text/plain", "body": body,
            "at": POLICY_HOST, "id": "1", "headers": {}, **how}


class World:
    def __init__(self, rows):
        self.rows = rows
        self.net = Net()
        self.open, self.hosts = [self.net], {}
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self):
        with self.net.inside():
            self.odd = FakeDns(ODD)
        self.open.append(self.odd)
        names = []
        for i, row in enumerate(self.rows):
            row.d = row.domain or "r%d.example" % i
            row.ip1, row.ip2 = ("30.1.%d.%d" % (i // 100, i % 100 * 2 + n)
                                for n in (1, 2))
            names += ["mta-sts." + row.d, "mx1." + row.d, "mx2." + row.d,
                      "real." + row.d]
        self.r = Relaying(
            smarthost="", smarthost_user="", allow_address=HERE,
            resolver=[RESOLVER], dane="yes", concurrency=200)
        self.open.append(self.r)
        where = self.r.path("tls")
        ca = os.path.join(where, "ca.pem"), os.path.join(where, "ca.key")
        self.certs = Certificates(where, ca, names)
        self.r.set_conf("deliver", ca_file=self.r.ca_file)
        self.policies = Policies(self.net, self.certs)
        self.open.append(self.policies)
        self.net.swallow(SILENT_HOST, 443)
        zones = {"example.": "ns A %s\nplain NS ns\nbogus NS ns\nbogus DS 1 "
                             "13 2 %s\ndead NS ns.dead\nns.dead A 30.0.9.9\n"
                             % (AUTHORITY, "ab" * 32),
                 "plain.example.": "", "bogus.example.": ""}
        for row in self.rows:
            self._add(row, zones)
        self.names = Names(self.net, zones,
                           "%s@%d" % (ODD, self.odd.port))
        self.open.append(self.names)
        self.r.worker = self.r.start("postern-deliver", net=self.net.file)
        self.mids = [self._submit(row) for row in self.rows]

    def _add(self, row, zones):
        zone = max((z for z in zones if (row.d + ".").endswith(z)), key=len)
        text = row.zone
        if text is None:
            text = "{d}. MX 10 mx1.{d}.\nmx1.{d}. A {ip1}\n"
            if row.second is not None:
                text += "{d}. MX 20 mx2.{d}.\nmx2.{d}. A {ip2}\n"
        if row.odd is not None:
            row.odd(self.odd, row)
            text = ""
        p = row.policy
        if p is not None:
            text += "_mta-sts.{d}. TXT \"v=STSv1; id=%s;\"\n" % p["id"]
            if p["at"]:
                text += "mta-sts.{d}. A %s\n" % p["at"]
            body = p["body"].replace("{d}", row.d).encode()
            self.policies.by_domain[row.d] = (
                p["status"], {"Content-Type": p["type"], **p["headers"]},
                body)
        for name in set(re.findall(r"\{(key|cert)_(\w+)\}", text)):
            text = text.replace("{%s_%s}" % name, self.certs.digest(
                name[1], "key" if name[0] == "key" else "certificate"))
        zones[zone] += text.format(d=row.d, ip1=row.ip1, ip2=row.ip2)
        row.one = self._host(row.mx_at or row.ip1, row, row.script)
        row.two = None
        if row.second is not None:
            row.two = self._host(row.ip2, row, row.second)
        if row.setup:
            row.setup(self, row)

    def _host(self, address, row, script):
        if script == "nobody":
            return None
        mx = FakeMx(self.certs.file(row.cert), self.certs.key,
                    offers=row.offers, listener=self.net.listen(address, 25))
        mx.script.update(script)
        mx.rcpt_replies.update({k.format(d=row.d): v for k, v in
                                (row.replies or {}).items()})
        self.open.append(mx)
        return mx

    def _submit(self, row):
        rcpts = [x.format(d=row.d) for x in row.rcpts or ["ann@{d}"]]
        return self.r.submit(rcpts=rcpts, raw=row.raw, params=row.params,
                             notify=row.notify, ret=row.ret)

    def close(self):
        for it in reversed(self.open):
            if hasattr(it, "close"):
                it.close()
            else:
                it.__exit__()
