# SPDX-License-Identifier: ISC
"""
Mail servers that receive, as people run them: Postfix, OpenSMTPD and Exim of
Debian, each in a root of its own (tests/bench/peers.py). One listens three
times, on port 25 of CLEAR without TLS, of TLS with STARTTLS, and of ::1 with
STARTTLS too; it takes all mail for any name and keeps it as it came.
"""
import os
import subprocess

from tests.bench import peers
from tests.lib.postern import wait_until

CLEAR, TLS, SIX = "127.31.1.1", "127.31.1.2", "::1"
HOST = "mx.peer.example"


class Receiver(peers.Rooted):
    utf8 = True  # takes SMTPUTF8 (RFC 6531)

    def _start(self):
        self.port = 25
        super()._start()

    def wait_listening(self):
        for address in (CLEAR, TLS, SIX):
            peers.listening(25, self.proc, address)

    def files(self):
        """A file for each mail that has come."""
        found = []
        for at, _, names in os.walk(self.path(self.spool)):
            found += [os.path.join(at, n) for n in names if self.whole(at, n)]
        return found

    def whole(self, at, name):
        return os.path.basename(at) == "new"

    def wait_files(self, n):
        return wait_until("%d mails at %s" % (n, type(self).__name__),
                          lambda: len(self.files()) >= n and self.files(),
                          30)


class Postfix(Receiver):
    package = "postfix"
    ids = {"postfix": 973, "postdrop": 974}
    command = "/usr/lib/postfix/sbin/master -i"
    spool = "var/mailbox"

    def _configure(self):
        os.mkdir(self.path("etc/postfix"))
        self.write("etc/postfix/master.cf", "".join(
            "%s:25 inet n - n - - smtpd -o smtpd_tls_security_level=%s\n" % x
            for x in ((CLEAR, "none"), (TLS, "may"), ("[%s]" % SIX, "may"))) +
                   """\
postlog unix-dgram n - n - 1 postlogd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
anvil unix - - n - 1 anvil
tlsmgr unix - - n 1000? 1 tlsmgr
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
proxymap unix - - n - - proxymap
error unix - - n - - error
virtual unix - n n - - virtual
""")
        self.write("etc/postfix/main.cf", """\
compatibility_level = 3.6
myhostname = %s
mydestination =
inet_interfaces = all
maillog_file = /dev/stdout
smtpd_tls_cert_file = /etc/cert.pem
smtpd_tls_key_file = /etc/key.pem
smtpd_relay_restrictions =
smtpd_recipient_restrictions = reject_unauth_destination
smtpd_client_connection_count_limit = 0
virtual_mailbox_domains = static:all
virtual_mailbox_maps = static:in/
virtual_mailbox_base = /var/mailbox
virtual_uid_maps = static:973
virtual_gid_maps = static:973
virtual_transport = virtual
virtual_mailbox_limit = 0
message_size_limit = 60000000
alias_maps =
alias_database =
""" % HOST)
        self.folder("var/mailbox", 0o700, "postfix", "postfix")
        self.folder("var/lib/postfix", 0o755, "postfix")
        for name in ("pid", "active", "bounce", "corrupt", "defer",
                     "deferred", "flush", "hold", "incoming", "private",
                     "saved", "trace"):
            self.folder("var/spool/postfix/" + name, 0o700,
                        "root" if name == "pid" else "postfix")
        self.folder("var/spool/postfix/maildrop", 0o730, "postfix", "postdrop")
        self.folder("var/spool/postfix/public", 0o710, "postfix", "postdrop")


class OpenSMTPD(Receiver):
    """It keeps them in its queue; what is to leave is paused."""
    package, suite = "opensmtpd", "trixie"
    utf8 = False
    ids = {"opensmtpd": 970, "opensmtpq": 971}
    command = "/usr/sbin/smtpd -d -f /etc/smtpd.conf"
    spool = "var/spool/smtpd/queue"

    def _configure(self):
        self.write("etc/smtpd.conf", """\
pki peer cert "/etc/cert.pem"
pki peer key "/etc/key.pem"
smtp max-message-size 60M
listen on %s port 25 hostname %s
listen on %s port 25 tls pki peer hostname %s
listen on %s port 25 tls pki peer hostname %s
action "out" relay
match from any for any action "out"
""" % (CLEAR, HOST, TLS, HOST, SIX, HOST))
        self.folder("var/lib/opensmtpd/empty", 0o711)
        self.folder("var/spool/smtpd", 0o711)

    def _start(self):
        super()._start()
        peers.OpenSMTPD.pause(self)

    def whole(self, at, name):
        return name == "message"


class Exim(Receiver):
    package = "exim4-daemon-light"
    ids = {"Debian-exim": 972}
    command = "/usr/sbin/exim4 -bdf"
    spool = "var/mailbox"

    def _configure(self):
        for name in ("cert.pem", "key.pem"):
            os.chown(self.path("etc", name), 0, self.ids["Debian-exim"])
            os.chmod(self.path("etc", name), 0o640)
        os.mkdir(self.path("etc/exim4"))
        self.write("etc/exim4/exim4.conf", """\
primary_hostname = %s
daemon_smtp_ports = 25
local_interfaces = <; %s ; %s ; %s
tls_advertise_hosts = ${if eq{$received_ip_address}{%s}{}{*}}
tls_certificate = /etc/cert.pem
tls_privatekey = /etc/key.pem
acl_smtp_rcpt = rcpt
domainlist local_domains = *
message_size_limit = 60M
host_lookup =
rfc1413_query_timeout = 0s
keep_environment =
smtp_accept_queue_per_connection = 0
message_logs = false
begin acl
rcpt:
  accept
begin routers
all:
  driver = accept
  transport = box
begin transports
box:
  driver = appendfile
  maildir_format
  create_directory
  directory = /var/mailbox/in
  user = Debian-exim
  group = Debian-exim
""" % (HOST, CLEAR, TLS, SIX, CLEAR))
        for name in ("run/exim4", "var/spool/exim4", "var/log/exim4",
                     "var/mailbox"):
            self.folder(name, 0o750, "Debian-exim", "Debian-exim")


ALL = {"postfix": Postfix, "opensmtpd": OpenSMTPD, "exim": Exim}


def why_not():
    """Why there can be none here; None when there can."""
    if os.geteuid() != 0:
        return "mail servers in roots of their own need root"
    r = subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"],
                       stderr=subprocess.DEVNULL, check=False)
    return None if r.returncode == 0 else "no namespaces may be made here"
