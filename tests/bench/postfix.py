# SPDX-License-Identifier: ISC
"""
A private Postfix that takes mail by STARTTLS and AUTH and holds all of it,
durably, in a queue on the disk named: the peer of the benchmark `accept`.
Needs root (so does Postfix). The packages are installed when missing.
"""
import os
import shutil
import signal
import subprocess
import tempfile

from ..lib.process import free_port
from ..lib.postern import wait_until

PACKAGES = ("postfix", "sasl2-bin", "libsasl2-modules")


def install():
    if shutil.which("postfix") and shutil.which("saslpasswd2"):
        return
    subprocess.run(["apt-get", "-o", "DPkg::Lock::Timeout=300", "install",
                    "-y", "--no-install-recommends", *PACKAGES], check=True,
                   env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                   stdout=subprocess.DEVNULL)


MAIN = """\
compatibility_level = 3.6
queue_directory = {dir}/queue
data_directory = {dir}/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = gate.bench.test
mydestination =
inet_interfaces = loopback-only
inet_protocols = ipv4
maillog_file = {dir}/log/mail.log
maillog_file_prefixes = {dir}
smtpd_tls_cert_file = {cert}
smtpd_tls_key_file = {key}
smtpd_tls_security_level = encrypt
smtpd_tls_session_cache_database =
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = cyrus
smtpd_sasl_path = smtpd
smtpd_sasl_local_domain = bench.test
smtpd_relay_restrictions = permit_sasl_authenticated, reject
smtpd_recipient_restrictions = check_recipient_access static:HOLD,
    permit_sasl_authenticated, reject
smtpd_client_connection_count_limit = 0
smtpd_client_connection_rate_limit = 0
default_process_limit = 150
header_checks =
alias_maps =
alias_database =
local_recipient_maps =
"""
MASTER = """\
127.0.0.1:{port} inet n - n - - smtpd
postlog unix-dgram n - n - 1 postlogd
cleanup unix n - n - 0 cleanup
pickup unix n - n 60 1 pickup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
anvil unix - - n - 1 anvil
tlsmgr unix - - n 1000? 1 tlsmgr
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
proxymap unix - - n - - proxymap
error unix - - n - - error
smtp unix - - n - - smtp
scache unix - - n - 1 scache
"""


class Postfix:
    def __init__(self, where, cert, key, users, more=""):
        """users: [(address, password)]; more: for main.cf"""
        install()
        self.dir = tempfile.mkdtemp(prefix="postern-bench-pf-", dir=where)
        os.chmod(self.dir, 0o755)
        self.port = free_port()
        self.users = users
        for name in ("queue", "data", "log", "sasl", "etc"):
            os.mkdir(os.path.join(self.dir, name))
        shutil.chown(os.path.join(self.dir, "data"), "postfix")
        etc = os.path.join(self.dir, "etc")
        names = {"dir": self.dir, "cert": cert, "key": key,
                 "port": self.port}
        for name, text in (("main.cf", MAIN + more), ("master.cf", MASTER)):
            with open(os.path.join(etc, name), "w") as f:
                f.write(text.format(**names))
        self._sasl()
        self.env = {**os.environ, "MAIL_CONFIG": etc}
        subprocess.run(["postfix", "-c", etc, "start"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with open(os.path.join(self.dir, "queue/pid/master.pid")) as f:
            self.pid = int(f.read())

    def _sasl(self):
        db = os.path.join(self.dir, "sasl", "sasldb2")
        # Debian's Postfix looks in the folder sasl beside main.cf
        os.mkdir(os.path.join(self.dir, "etc", "sasl"))
        with open(os.path.join(self.dir, "etc", "sasl", "smtpd.conf"),
                  "w") as f:
            f.write("pwcheck_method: auxprop\nauxprop_plugin: sasldb\n"
                    "mech_list: PLAIN LOGIN\nsasldb_path: %s\n" % db)
        for address, password in self.users:
            user, domain = address.split("@")
            subprocess.run(["saslpasswd2", "-p", "-c", "-f", db, "-u",
                            domain, user], input=password.encode(),
                           check=True)
        shutil.chown(db, "postfix")

    def held(self):
        n = 0
        for _, _, files in os.walk(os.path.join(self.dir, "queue", "hold")):
            n += len(files)
        return n

    def release(self):
        """All that is held goes to the queue, which is run at once."""
        etc = os.path.join(self.dir, "etc")
        for argv in (["postsuper", "-c", etc, "-H", "ALL"],
                     ["postqueue", "-c", etc, "-f"]):
            subprocess.run(argv, check=True, env=self.env,
                           stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)

    def is_waiting(self):
        """Has something not left? Looked for along its way, and no longer
        than till it is found: to list 10,000 files costs 4 ms each time."""
        def some(path):
            with os.scandir(path) as found:
                return any(some(e.path) if e.is_dir() else True for e in found)
        try:
            return any(some(os.path.join(self.dir, "queue", name)) for name in (
                "hold", "incoming", "deferred", "active"))
        except FileNotFoundError:
            return True  # it moves

    def pids(self):
        """master and all its children."""
        out = [self.pid]
        try:
            with open("/proc/%d/task/%d/children" % (self.pid,
                                                     self.pid)) as f:
                out += [int(p) for p in f.read().split()]
        except OSError:
            pass
        return out

    def close(self):
        os.kill(self.pid, signal.SIGTERM)
        wait_until("Postfix to end",
                   lambda: not os.path.exists("/proc/%d" % self.pid), 20)
        shutil.rmtree(self.dir, ignore_errors=True)
