# SPDX-License-Identifier: ISC
"""
A network of its own with public addresses and a real, validating DNS.

    with Net() as net, Names(net, zones) as names:
        net.listen("30.1.0.1", 25)        # a socket inside
        Process(..., net=net.file)        # a program inside

All of 30/8 and 2a0f:1::/32 is this host, whether somebody listens or not;
32/8 is unreachable. Nothing of it leaves the machine. Needs root, and of the
kernel no more than namespaces and loopback.
"""
import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import tempfile

from tests.lib.postern import wait_until
from tests.lib.process import Process

AUTHORITY, RESOLVER, ODD = "30.0.0.53", "30.0.0.54", "30.0.0.55"
UNREACHABLE = "32.9.9.9"
CLONE_NEWNET = 0x40000000


def why_not():
    """Why there can be none here; None when there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "knotd", "keymgr", "unbound"):
        if not (shutil.which(tool) or os.path.exists("/usr/sbin/" + tool)):
            return tool + " is not installed"
    name = "pstprobe%d" % os.getpid()
    if subprocess.run(["ip", "netns", "add", name],
                      stderr=subprocess.DEVNULL).returncode != 0:
        return "network namespaces may not be made here"
    subprocess.run(["ip", "netns", "delete", name], check=True)
    return None


class Net:
    def __init__(self):
        self.name = "pst%d" % os.getpid()
        self.file = "/run/netns/" + self.name
        self.held = []
        subprocess.run(["ip", "netns", "add", self.name], check=True)
        for words in (
                # The first: what getaddrinfo() takes for having IPv4 at all.
                "link set lo up", "addr add 30.0.0.1/32 dev lo",
                "-6 addr add 2a0f:2::1/128 dev lo",
                "route add local 30.0.0.0/8 dev lo",
                "-6 route add local 2a0f:1::/32 dev lo",
                "route add unreachable 32.0.0.0/8"):
            subprocess.run(["ip", "-n", self.name, *words.split()],
                           check=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for s in self.held:
            s.close()
        subprocess.run(["ip", "netns", "delete", self.name], check=False)

    @contextlib.contextmanager
    def inside(self):
        """This thread's new sockets are inside."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as home, open(self.file) as it:
            assert libc.setns(it.fileno(), CLONE_NEWNET) == 0
            try:
                yield
            finally:
                assert libc.setns(home.fileno(), CLONE_NEWNET) == 0

    def listen(self, address, port, backlog=64):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        if family == socket.AF_INET6:
            subprocess.run(["ip", "-n", self.name, "-6", "addr", "add",
                            address + "/128", "dev", "lo", "nodad"],
                           check=True)
        with self.inside():
            return socket.create_server((address, port), family=family,
                                        backlog=backlog)

    def swallow(self, address, port):
        """What is sent there gets no answer, not even a refusal: a queue of
        connections that is full."""
        listener = self.listen(address, port, backlog=0)
        held = [listener]
        family = listener.family
        with self.inside():
            for _ in range(4):
                s = socket.socket(family)
                s.setblocking(False)
                s.connect_ex((address, port))
                held.append(s)
        self.held.extend(held)


KNOT = """\
server:
    listen: {authority}@53
    rundir: {dir}
    user: root
    tcp-io-timeout: 5000
log:
  - target: stderr
    any: warning
database:
    storage: {dir}
policy:
  - id: test
    algorithm: ecdsap256sha256
    single-type-signing: on
    nsec3: off
template:
  - id: default
    storage: {dir}
    zonefile-load: difference
    zonefile-sync: -1
    journal-content: all
zone:
{zones}
"""
UNBOUND = """\
server:
    interface: {resolver}
    access-control: 0.0.0.0/0 allow
    chroot: ""
    username: ""
    directory: "{dir}"
    pidfile: "{dir}/unbound.pid"
    use-syslog: no
    verbosity: 1
    do-ip6: no
    do-daemonize: no
    module-config: "validator iterator"
    trust-anchor: "{anchor}"
    domain-insecure: "odd.example"
    qname-minimisation: no
    infra-host-ttl: 1
    jostle-timeout: 2000
    num-queries-per-thread: 1024
    outgoing-range: 2048
remote-control:
    control-enable: no
stub-zone:
    name: "example."
    stub-addr: {authority}
stub-zone:
    name: "odd.example."
    stub-addr: {odd}
"""
HEAD = """\
$ORIGIN {zone}
$TTL 60
@ SOA ns.example. hostmaster.example. 1 3600 600 86400 60
@ NS ns.example.
"""


class Names:
    """`zones`: name -> text; "example." is signed, the others are not."""

    def __init__(self, net, zones, odd=ODD):
        self.dir = tempfile.mkdtemp(prefix="pst-names-")
        self.running = []
        try:
            self._start(net, zones, odd)
        except BaseException:
            self.close()
            raise

    def _start(self, net, zones, odd):
        confs = []
        for zone, text in zones.items():
            path = os.path.join(self.dir, zone + "zone")
            with open(path, "w") as f:
                f.write(HEAD.format(zone=zone) + text)
            confs.append("  - domain: %s\n    file: %s\n" % (zone, path) + (
                "    dnssec-signing: on\n    dnssec-policy: test\n"
                if zone == "example." else ""))
        conf = self._write("knot.conf", KNOT.format(
            authority=AUTHORITY, dir=self.dir, zones="".join(confs)))
        self.running.append(Process("knotd", [
            "/usr/sbin/knotd", "-c", conf], net=net.file,
            log=os.path.join(self.dir, "knotd.log")))

        def anchor():
            r = subprocess.run(["keymgr", "-c", conf, "example.", "ds"],
                               capture_output=True, text=True, check=False)
            return next((line for line in r.stdout.splitlines()
                         if " 13 2 " in line), None)
        ds = wait_until("a key of example.", anchor)
        conf = self._write("unbound.conf", UNBOUND.format(
            resolver=RESOLVER, authority=AUTHORITY, dir=self.dir, odd=odd,
            anchor=ds.replace("DS", "IN DS", 1)
            if " IN " not in ds else ds))
        self.running.append(Process("unbound", [
            "/usr/sbin/unbound", "-d", "-c", conf], net=net.file,
            log=os.path.join(self.dir, "unbound.log")))

        def signed():
            r = subprocess.run([
                "ip", "netns", "exec", net.name, "kdig", "@" + RESOLVER,
                "+adflag", "+timeout=1", "+retry=0", "example.", "SOA"],
                capture_output=True, text=True, check=False)
            return "flags: qr rd ra ad" in r.stdout.lower() or \
                " ad;" in r.stdout.lower()
        wait_until("a validated answer", signed, timeout=30)

    def _write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        for p in reversed(self.running):
            p.stop(timeout=10)
        shutil.rmtree(self.dir, ignore_errors=True)
