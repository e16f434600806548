# SPDX-License-Identifier: ISC
"""
Mail servers that take mail by STARTTLS and AUTH PLAIN and keep all of it:
the peers of the benches `accept-peers` and `idle`, beside postfix.py. Each
is set to be as fast as it can be while it holds mail, with a queue on the
disk named. Debian's packages of them exclude each other, so each lives in a
root of its own under build/peers, in its own mount and process namespaces:
whatever it starts ends with it, and its CPU is the tree's. Needs root.

What makes a message durable before its 250, as strace shows it:

  Postfix    fsync of the queue file in hold, by cleanup
  Exim       fsync of the body and of the header file, the rename of that, and
             fsync of the folder
  Haraka     fsync of the queue file, then its rename
  OpenSMTPD  nothing at all. So its spool has the attributes S and D here,
             which make ext4 write through; `opensmtpd-asis` goes without and
             may lose what it accepted when the machine stops
"""
import crypt
import os
import shutil
import signal
import socket
import subprocess
import tempfile

from ..lib.postern import TOP, wait_until
from ..lib.process import free_port
from .postfix import Postfix

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(TOP, "build", "peers")
HOST = "gate.bench.test"
USERS = [("u%d@bench.test" % i, "secret-%d" % i) for i in range(20)]


def sources(suite):
    """This host's mirror of Debian, for that suite."""
    out = subprocess.run(
        ["apt-get", "indextargets", "--format",
         "$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)",
         "Created-By: Packages"], stdout=subprocess.PIPE, check=True,
        text=True).stdout
    for line in out.splitlines():
        words = line.split()
        if words[:3] == ["Debian", "bookworm", "main"]:
            return "deb %s %s main\n" % (words[3], suite)
    raise RuntimeError("apt names no Debian 12 mirror")


def unpacked(package, suite):
    """A root with the package and what it needs, made once."""
    root = os.path.join(CACHE, package)
    if os.path.exists(os.path.join(root, "proc")):
        return root
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(CACHE, exist_ok=True)
    subprocess.run(["mmdebstrap", "--quiet", "--variant=extract",
                    "--include=" + package, suite, root, "-"], check=True,
                   input=sources(suite), text=True,
                   stdout=subprocess.DEVNULL)
    for name in ("bin", "sbin", "lib", "lib64"):
        if not os.path.lexists(os.path.join(root, name)):
            os.symlink("usr/" + name, os.path.join(root, name))
    for name in ("run", "proc"):  # the last says that all is there
        os.makedirs(os.path.join(root, name), exist_ok=True)
    return root


class Rooted:
    """One server in its root, with /etc and /var of its own."""

    suite = "bookworm"
    ids = {}  # name: uid and gid, as its package would make them

    def __init__(self, where, cert, key, users=USERS):
        self.root = unpacked(self.package, self.suite)
        self.users = users
        self.port = free_port()
        self.dir = tempfile.mkdtemp(prefix="postern-bench-peer-", dir=where)
        os.chmod(self.dir, 0o755)
        for name in ("etc/ssl/certs", "var/spool", "var/lib", "var/log",
                     "run"):
            os.makedirs(self.path(name))
        os.symlink("/run", self.path("var/run"))
        for source, name in ((cert, "cert.pem"), (key, "key.pem"),
                             (cert, "ssl/certs/ca-certificates.crt")):
            shutil.copy(source, self.path("etc", name))
            os.chmod(self.path("etc", name), 0o600)
        self._names()
        self._configure()
        self._start()

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)

    def folder(self, name, mode, who="root", group="root"):
        os.makedirs(self.path(name), exist_ok=True)
        os.chown(self.path(name), self.ids.get(who, 0),
                 self.ids.get(group, 0))
        os.chmod(self.path(name), mode)

    def _names(self):
        ids = {"root": 0, "nobody": 65534, **self.ids}
        self.write("etc/passwd", "".join(
            "%s:x:%d:%d::/var/lib/opensmtpd/empty:/bin/false\n" % (n, i, i)
            for n, i in ids.items()))
        self.write("etc/group", "".join("%s:x:%d:\n" % (n, i)
                                        for n, i in ids.items()))
        self.write("etc/nsswitch.conf",
                   "passwd: files\ngroup: files\nhosts: files\n")
        self.write("etc/hosts", "127.0.0.1 localhost %s\n" % HOST)
        self.write("etc/mailname", HOST + "\n")
        self.write("etc/resolv.conf", "")

    def _start(self):
        mounts = "".join(
            "mount --bind '%s' '%s/%s' && " % (
                "/dev" if name == "dev" else self.path(name), self.root, name)
            for name in ("etc", "var", "run", "dev"))
        self.log = open(self.path("out"), "wb")
        self.proc = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh",
             "-c", mounts + "mount -t proc proc '%s/proc' && exec chroot "
             "'%s' %s" % (self.root, self.root, self.command)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.pid = self.proc.pid
        try:
            self.wait_listening()
        except AssertionError as e:
            with open(self.path("out"), errors="replace") as f:
                raise AssertionError("%s\n%s" % (e, f.read()[-2000:])) from e

    def wait_listening(self):
        listening(self.port, self.proc)

    def first(self):
        """The process that is number 1 inside."""
        with open("/proc/%d/task/%d/children" % (self.pid, self.pid)) as f:
            return f.read().split()[0]

    def close(self):
        """With the end of number 1 all inside is killed."""
        if self.proc.poll() is None:
            os.kill(int(self.first()), signal.SIGKILL)
        self.proc.wait(timeout=20)
        self.log.close()
        # a spool that writes through takes minutes to remove
        subprocess.run(["chattr", "-R", "-S", "-D", self.dir],
                       stderr=subprocess.DEVNULL)
        shutil.rmtree(self.dir, ignore_errors=True)


def listening(port, proc, address="127.0.0.1"):
    def probe():
        if proc.poll() is not None:
            raise AssertionError("ended: %r" % proc.args)
        try:
            socket.create_connection((address, port)).close()
            return True
        except OSError:
            return False
    wait_until("a peer", probe, 30)


class OpenSMTPD(Rooted):
    """
    Debian 12's own cannot finish a TLS handshake (its key engine is of
    OpenSSL 1.1), so it is Debian 13's. Relaying is paused. A password is
    checked with the cheapest of crypt(3), since that is not what is measured.
    """
    package, suite = "opensmtpd", "trixie"
    pipelining = False  # it answers 500 and hangs up
    ids = {"opensmtpd": 970, "opensmtpq": 971}
    command = "/usr/sbin/smtpd -d -f /etc/smtpd.conf"
    through = True

    def _configure(self):
        self.write("etc/users", "".join(
            "%s %s\n" % (u, crypt.crypt(p, "ab")) for u, p in self.users))
        self.write("etc/smtpd.conf", """\
pki bench cert "/etc/cert.pem"
pki bench key "/etc/key.pem"
table users file:/etc/users
listen on 127.0.0.1 port %d tls-require pki bench auth <users> hostname %s
action "out" relay
match auth from any for any action "out"
""" % (self.port, HOST))
        self.folder("var/lib/opensmtpd/empty", 0o711)
        self.folder("var/spool/smtpd", 0o711)
        if self.through:
            subprocess.run(["chattr", "+S", "+D",
                            self.path("var/spool/smtpd")], check=True)

    def _start(self):
        super()._start()
        self.pause()

    def pause(self):
        """Nothing is relayed."""
        # smtpctl insists on its group, which this host does not have
        control = os.path.join(self.root, "usr/sbin/smtpctl")
        os.chown(control, 0, self.ids["opensmtpq"])
        os.chmod(control, 0o2755)
        subprocess.run(["nsenter", "-t", self.first(), "-m", "-p", "chroot",
                        self.root, "/usr/sbin/smtpctl", "pause", "mta"],
                       check=True, stdout=subprocess.DEVNULL)


class OpenSMTPDAsIs(OpenSMTPD):
    through = False


class Exim(Rooted):
    """Queue only, without a queue runner; one process a connection."""
    package = "exim4-daemon-light"
    ids = {"Debian-exim": 972}
    command = "/usr/sbin/exim4 -bdf"

    def _configure(self):
        self.write("etc/users", "".join("%s: %s\n" % u for u in self.users))
        os.chmod(self.path("etc/users"), 0o644)
        for name in ("cert.pem", "key.pem"):
            os.chown(self.path("etc", name), 0, self.ids["Debian-exim"])
            os.chmod(self.path("etc", name), 0o640)
        os.mkdir(self.path("etc/exim4"))
        self.write("etc/exim4/exim4.conf", """\
primary_hostname = %s
daemon_smtp_ports = %d
local_interfaces = 127.0.0.1
tls_advertise_hosts = *
tls_certificate = /etc/cert.pem
tls_privatekey = /etc/key.pem
auth_advertise_hosts = ${if eq{$tls_in_cipher}{}{}{*}}
acl_smtp_rcpt = rcpt
queue_only = true
split_spool_directory = true
message_logs = false
smtp_accept_max = 0
smtp_accept_max_per_connection = 0
smtp_connect_backlog = 1024
host_lookup =
rfc1413_query_timeout = 0s
keep_environment =
begin acl
rcpt:
  accept authenticated = *
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${lookup{$auth2}lsearch{/etc/users}\\
    {${if eq{$value}{$auth3}}}{no}}
  server_set_id = $auth2
""" % (HOST, self.port))
        for name in ("run/exim4", "var/spool/exim4", "var/log/exim4"):
            self.folder(name, 0o750, "Debian-exim", "Debian-exim")


class Haraka:
    """A process a core; its outbound queue, with delivery disabled."""

    def __init__(self, where, cert, key, users=USERS):
        self.users = users
        self.port = free_port()
        self.dir = tempfile.mkdtemp(prefix="postern-bench-peer-", dir=where)
        os.chmod(self.dir, 0o755)
        here = os.path.join(HERE, "haraka")
        mark = os.path.join(here, "node_modules", ".package-lock.json")
        if not os.path.exists(mark):
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund",
                            "--ignore-scripts", "--omit=optional"], cwd=here,
                           check=True, stdout=subprocess.DEVNULL)
        for name in ("config", "queue"):
            os.mkdir(os.path.join(self.dir, name))
        for name, text in (
                ("me", HOST + "\n"), ("plugins", "tls\nauth/flat_file\n"),
                ("loglevel", "notice\n"),
                ("smtp.ini", "listen=127.0.0.1:%d\nnodes=cpus\n" % self.port),
                ("outbound.ini", "disabled=true\n"),
                ("auth_flat_file.ini", "[core]\nmethods=PLAIN\n[users]\n" +
                 "".join("%s=%s\n" % u for u in users))):
            with open(os.path.join(self.dir, "config", name), "w") as f:
                f.write(text)
        own = os.path.join(here, "node_modules/Haraka/config/connection.ini")
        for source, name in ((cert, "tls_cert.pem"), (key, "tls_key.pem"),
                             (own, "connection.ini")):
            shutil.copy(source, os.path.join(self.dir, "config", name))
        # else it makes some while it is measured
        subprocess.run(["openssl", "genpkey", "-genparam", "-algorithm",
                        "DH", "-pkeyopt", "group:ffdhe2048", "-out",
                        os.path.join(self.dir, "config", "dhparams.pem")],
                       check=True)
        self.log = open(os.path.join(self.dir, "out"), "wb")
        self.proc = subprocess.Popen(
            [shutil.which("node"),
             os.path.join(here, "node_modules/Haraka/bin/haraka"), "-c",
             self.dir], stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log, env={**os.environ, "NODE_ENV": "production"})
        self.pid = self.proc.pid
        listening(self.port, self.proc)

    def close(self):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGINT)
            try:
                self.proc.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def postfix(where, cert, key, users=USERS):
    """With room for 500 sessions, and no pause for what is not delivered."""
    return Postfix(where, cert, key, users,
                   "default_process_limit = 600\nin_flow_delay = 0s\n")


ALL = {"postfix": postfix, "opensmtpd": OpenSMTPD,
       "opensmtpd-asis": OpenSMTPDAsIs, "exim": Exim, "haraka": Haraka}
