# SPDX-License-Identifier: ISC
"""
A whole Postern for one test module: private PostgreSQL and Redis on unix
sockets, keys, certificate, configuration, tenants and inboxes, and the real
programs on free ports. Nothing waits by sleeping: see Process.wait().

    with postern.Deployment() as d:
        d.add_tenant("acme", "acme.example")
        box = d.add_inbox("bot@acme.example")
        d.start("posternd")
        ... smtplib to d.smtp_port with box.address, box.smtp_key ...

$POSTERN_BUILD names the build; without it ./build/gcc or ./build is taken.
"""
import glob
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import nacl.pwhash
import nacl.signing
import psycopg2
import psycopg2.extensions
import psycopg2.extras

from . import leaks, place, seals, template
from .process import Process, free_port, run_user

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
LOGINS = ("l_gateway", "l_review", "l_worker", "l_ctl", "l_seal", "l_auth",
          "l_migrate")
REDIS_RULES = {  # decision D20
    "gw": "~rl* &ev:* &revoke -@all +fcall +get +set +time +ping +auth "
          "+subscribe +psubscribe (+publish &wake)",
    "admin": "&wake &ev:* &revoke -@all +publish +ping +auth",
    "worker": "&wake &ev:* -@all +publish +subscribe +ping +auth",
    "ctl": "~* &* +@all",
}


def build_dir():
    for path in (os.environ.get("POSTERN_BUILD"),
                 os.path.join(TOP, "build", "gcc"),
                 os.path.join(TOP, "build"), TOP):
        if path and os.path.exists(os.path.join(path, "posternd")):
            return path
    raise RuntimeError("no build found; set POSTERN_BUILD")


PAUSE_MAX = 0.05  # seconds between two looks, each of which costs a session


def wait_until(what, probe, timeout=20, pause=0.01):
    """Poll a row or a page, ever more slowly; for events use Process.wait()."""
    end = time.monotonic() + timeout
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("not in time: %s" % what)
        time.sleep(pause)
        pause = max(pause, min(pause * 1.3, PAUSE_MAX))


class Inbox:
    """What a claim shows once."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


class Deployment:
    has_schema = False  # once PostgreSQL runs

    def __init__(self, workers=1, extra=None, redis=True, keep=False,
                 where=None, pg=None, initdb=()):
        """`where`: a folder on a real disk, if the disk matters; `pg`:
        settings of PostgreSQL; `initdb`: more arguments of it."""
        self.pg_settings, self.initdb = pg or {}, initdb
        self.user = run_user()
        self.workers = workers
        self.extra = extra or {}  # {"smtp": {"size_max": "1M"}}
        self.with_redis = redis
        self.keep = keep or bool(os.environ.get("POSTERN_KEEP"))
        self.programs = {}
        self.tenants = {}
        self.claimed = []
        self.issued = {}  # more secrets no log may hold, see leaks.forms()
        self.log_is_clean = True  # else some test made it log secrets
        self.session = None
        self.closed = False
        self.dir = tempfile.mkdtemp(
            prefix="postern-test-%d-" % os.getpid(),
            dir=where or place.folder())
        os.chmod(self.dir, 0o711)
        self.hostname = "gate.postern.test"
        for name in ("smtp", "smtps", "api", "admin"):
            setattr(self, name + "_port", free_port())
        # posternd, postern-admin, postern-deliver, postern-auth
        self.metrics_port = free_port(4)
        try:
            self._make_dirs()
            self._make_certificate()
            self._make_keys()
            self._write_conf()
            self._start_postgres()
            if redis:
                self.start_redis()
            self._migrate()
            self._first_operator()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # -- services ----------------------------------------------------------

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def _own(self, path):
        if self.user is not None:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def _make_dirs(self):
        for name in ("pg", "sock", "redis", "keys", "tls", "state", "log"):
            os.mkdir(self.path(name), 0o711)
            self._own(self.path(name))

    def as_user(self, argv):
        """The command that runs `argv` as the services' user."""
        return argv if self.user is None else [
            "setpriv", "--reuid", str(self.user.pw_uid), "--regid",
            str(self.user.pw_gid), "--clear-groups", *argv]

    def _run(self, argv, **kw):
        done = subprocess.run(argv, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **kw)
        if done.returncode != 0:
            raise RuntimeError("%s: %s" % (
                " ".join(argv), done.stdout.decode("utf-8", "replace")))
        return done.stdout.decode("utf-8", "replace")

    def _make_certificate(self):
        tls = self.path("tls")
        with open(os.path.join(tls, "ext"), "w") as f:
            f.write("subjectAltName=DNS:localhost,DNS:%s,IP:127.0.0.1\n"
                    % self.hostname)
        ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
              "-nodes"]
        self._run(["openssl", "req", "-x509", *ec, "-keyout", "ca.key",
                   "-out", "ca.pem", "-days", "30", "-subj", "/CN=Test CA"],
                  cwd=tls)
        self._run(["openssl", "req", *ec, "-keyout", "key.pem", "-out",
                   "req.pem", "-subj", "/CN=" + self.hostname], cwd=tls)
        self._run(["openssl", "x509", "-req", "-in", "req.pem", "-CA",
                   "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days",
                   "30", "-extfile", "ext", "-out", "cert.pem"], cwd=tls)
        for name in ("cert.pem", "key.pem", "ca.pem"):
            self._own(os.path.join(tls, name))
        self.ca_file = os.path.join(tls, "ca.pem")
        os.chmod(self.ca_file, 0o644)

    def _make_keys(self):
        keys = self.path("keys")
        self.review_pub, self.review_key = seals.pair()
        self.relay_pub, self.relay_key = seals.pair()
        auth_seed = os.urandom(32)
        auth_pub = bytes(nacl.signing.SigningKey(auth_seed).verify_key)
        for name, kind, data in (
                ("review.pub", "review-pub", self.review_pub),
                ("review.key", "review-key", self.review_key),
                ("relay.pub", "relay-pub", self.relay_pub),
                ("relay.key", "relay-key", self.relay_key),
                ("approve.key", "approve-key", os.urandom(32)),
                ("policy.key", "policy-key", os.urandom(32)),
                ("gw.secrets.key", "secrets-key", os.urandom(32)),
                ("admin.secrets.key", "secrets-key", os.urandom(32)),
                ("worker.secrets.key", "secrets-key", os.urandom(32)),
                ("auth.secrets.key", "secrets-key", os.urandom(32)),
                ("auth.key", "auth-key", auth_seed),
                ("auth.pub", "auth-pub", auth_pub),
                ("seal.key", "audit-key", os.urandom(32))):
            path = os.path.join(keys, name)
            seals.key_file(path, kind, data, name.endswith(".pub"))
            if not name.endswith(".pub"):  # root's, so that ctl takes them
                self._own(path)
        self.deployment = os.urandom(16)
        path = os.path.join(keys, "deployment.id")
        with open(path, "w") as f:
            f.write(self.deployment.hex() + "\n")
        self._own(path)

    def _start_postgres(self):
        self.pg_bin = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        self.pg_settings = {
            "max_connections": "60", "shared_buffers": "64MB",
            "lc_messages": "C",
            "log_min_messages": "warning", "max_wal_size": "512MB",
            **self.pg_settings}
        self.has_schema = not self.initdb
        if self.has_schema:
            template.copy(os.path.join(build_dir(), "posternctl"),
                          self.path("pg", "data"), Template)
        else:
            self.make_cluster()
        self.start_postgres()

    def make_cluster(self):
        data = self.path("pg", "data")
        self._run(self.as_user([
            self.pg_bin + "/initdb", "-D", data, "-U", "postgres", "-A",
            "peer", "--locale=C.UTF-8", "-E", "UTF8", "--no-sync",
            *self.initdb]), cwd="/")
        with open(data + "/pg_hba.conf", "w") as f:
            f.write("local all all peer map=postern\n")
        names = {"root", self.user.pw_name if self.user
                 else os.environ.get("USER", "nobody")}
        with open(data + "/pg_ident.conf", "w") as f:
            for name in sorted(names):
                for role in ("postgres",) + LOGINS:
                    f.write("postern %s %s\n" % (name, role))

    def start_postgres(self):
        argv = [self.pg_bin + "/postgres", "-D", self.path("pg", "data"),
                "-k", self.path("sock"), "-h", ""]
        for name, v in self.pg_settings.items():
            argv += ["-c", "%s=%s" % (name, v)]
        self.postgres = Process("postgres", argv, self.user,
                                log=self.path("log", "postgres.log"))

        def probe():
            try:
                self.connect("postgres", "postgres").close()
                return True
            except psycopg2.OperationalError:
                if not self.postgres.alive():
                    raise
                return False
        wait_until("PostgreSQL", probe, 30)

    def restart_postgres(self):
        """After a kill -9: the dead server's backends take a moment."""
        self.postgres.proc.wait()
        end = time.monotonic() + 20
        while True:
            try:
                self.start_postgres()
                return
            except psycopg2.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def start_redis(self):
        acl = self.path("redis", "users.acl")
        self.redis_password = "test-password"
        with open(acl, "w") as f:
            f.write("user default on nopass ~* &* +@all\n")
            for name, rules in REDIS_RULES.items():
                f.write("user %s on >%s %s\n" % (
                    name, self.redis_password, rules))
        self._own(acl)
        with open(self.path("redis", "password"), "w") as f:
            f.write(self.redis_password + "\n")
        os.chmod(f.name, 0o600)
        self._own(f.name)
        self.redis_socket = self.path("redis", "redis.sock")
        self.redis = Process("redis", [
            "redis-server", "--port", "0", "--unixsocket", self.redis_socket,
            "--unixsocketperm", "777", "--save", "", "--dir",
            self.path("redis"), "--aclfile", acl, "--logfile",
            self.path("log", "redis.log")], self.user)

        def probe():
            try:
                s = socket.socket(socket.AF_UNIX)
                s.connect(self.redis_socket)
                s.sendall(b"PING\r\n")
                return s.recv(16).startswith(b"+PONG")
            except OSError:
                return False
        wait_until("Redis", probe)
        with open(os.path.join(TOP, "store", "postern.lua")) as f:
            self._run(["redis-cli", "-e", "-s", self.redis_socket, "-x",
                       "FUNCTION", "LOAD", "REPLACE"], stdin=f)

    def _migrate(self):
        if self.has_schema:
            self.ctl("migrate")
        else:
            self.sql("CREATE DATABASE postern", database="postgres")
            self.ctl("migrate", "--superuser", "postgres")

    def ctl(self, *args, session=None):
        """posternctl as root; its output."""
        more = ["--session", session] if session else []
        return self._run([os.path.join(build_dir(), "posternctl"), "-c",
                          self.conf, *more, *args],
                         env={**os.environ, "HOME": self.dir})

    # -- configuration and programs ---------------------------------------

    def _settings(self):
        keys = self.path("keys")
        s = {
            "": {"hostname": self.hostname, "workers": self.workers,
                 "state_dir": self.path("state")},
            "store": {"socket": self.path("sock"), "database": "postern"},
            "redis": {"socket": self.path("redis", "redis.sock"),
                      "password_file": self.path("redis", "password")},
            "smtp": {"listen": ["127.0.0.1:%d" % self.smtp_port],
                     "listen_tls": ["127.0.0.1:%d" % self.smtps_port]},
            "api": {"listen": ["127.0.0.1:%d" % self.api_port],
                    "url": "https://127.0.0.1:%d" % self.api_port},
            "admin": {"listen": ["127.0.0.1:%d" % self.admin_port],
                      "url": "https://localhost:%d" % self.admin_port,
                      "decode_program":
                          os.path.join(build_dir(), "postern-decode")},
            "tls": {"cert_file": self.path("tls", "cert.pem"),
                    "key_file": self.path("tls", "key.pem")},
            "keys": {
                "review_pub_file": keys + "/review.pub",
                "review_key_file": keys + "/review.key",
                "relay_pub_file": keys + "/relay.pub",
                "relay_key_file": keys + "/relay.key",
                "approve_key_file": keys + "/approve.key",
                "policy_key_file": keys + "/policy.key",
                "secrets_key_file": keys + "/%u.secrets.key",
                "seal_key_file": keys + "/seal.key",
                "auth_key_file": keys + "/auth.key",
                "auth_pub_file": keys + "/auth.pub",
                # Only where a test is about it: see Relaying(identity=True).
                "identity_key_file": "", "identity_pub_file": "",
                "deployment_file": keys + "/deployment.id"},
            "auth": {"socket": self.path("state", "auth.sock")},
            "metrics": {"listen": "127.0.0.1:%d" % self.metrics_port},
        }
        for section, values in self.extra.items():
            s.setdefault(section, {}).update(values)
        return s

    def _write_conf(self):
        self.conf = self.path("postern.conf")

        def value(v):
            if isinstance(v, (list, tuple)):
                return "{%s}" % ", ".join('"%s"' % x for x in v)
            return '"%s"' % v
        with open(self.conf + ".new", "w") as f:
            for section, values in self._settings().items():
                indent = "\t" if section else ""
                if section:
                    f.write("%s {\n" % section)
                for name, v in values.items():
                    f.write("%s%s = %s\n" % (indent, name, value(v)))
                if section:
                    f.write("}\n")
        os.chmod(self.conf + ".new", 0o644)
        os.rename(self.conf + ".new", self.conf)

    def set_conf(self, section, **values):
        """Change the file; SIGHUP or a restart makes programs read it."""
        self.extra.setdefault(section, {}).update(values)
        self._write_conf()

    def start(self, program, wait="daemon.ready", env=None, args=(), **how):
        argv = [os.path.join(build_dir(), program), "-c", self.conf, *args]
        p = Process(program, argv, self.user, env,
                    self.path("log", program + ".jsonl"), **how)
        self.programs[program] = p
        if wait:
            p.wait(wait, timeout=30)
        return p

    # -- database ----------------------------------------------------------

    def connect(self, user="postgres", database="postern"):
        c = psycopg2.connect(host=self.path("sock"), user=user,
                             dbname=database)
        c.autocommit = True
        return c

    def sql(self, query, *args, user="postgres", database="postern"):
        """All rows as dictionaries."""
        c = self.connect(user, database)
        try:
            with c.cursor(
                    cursor_factory=psycopg2.extras.RealDictCursor) as cur:
                cur.execute(query, args or None)
                return cur.fetchall() if cur.description else []
        finally:
            c.close()

    def small(self, v):
        """A smallint argument for api()."""
        return psycopg2.extensions.AsIs("%d::smallint" % v)

    def api(self, function, *args, user="l_ctl", ok=(200, 201, 202)):
        """Call api.FUNCTION; its first row, which must have worked."""
        # integers as text without a type, so that any width fits
        values = [str(x) if type(x) is int else x for x in args]
        rows = self.sql("SELECT * FROM api.%s(%s)" % (
            function, ",".join(["%s"] * len(args))), *values, user=user)
        if not rows or rows[0]["status"] not in ok:
            raise AssertionError("api.%s: %r" % (function, rows))
        return rows[0]

    def messages(self):
        return self.sql(
            "SELECT m.message_id, m.mail_from, m.rcpt, m.size, m.subject, "
            "s.state, s.round FROM d.message m JOIN d.state s "
            "USING (message_id, tenant_id) ORDER BY m.message_id")

    def count(self, state=None):
        return self.sql("SELECT count(*) AS n FROM d.state "
                        "WHERE %s::int IS NULL OR state = %s",
                        state, state)[0]["n"]

    # -- people, tenants, inboxes -------------------------------------------

    operator = "alice"
    operator_password = "correct horse battery staple"

    def _output(self, salt, params, password):
        p = dict(x.split("=") for x in params.split()[1:])
        return nacl.pwhash.argon2id.kdf(
            32, password.encode(), bytes(salt), opslimit=int(p["t"]),
            memlimit=int(p["m"]) * 1024)

    def _first_operator(self):
        salt, params = os.urandom(16), "argon2id m=19456 t=2 p=1"
        output = self._output(salt, params, self.operator_password)
        self.api("setup_1", self.operator, salt, params,
                 hashlib.sha256(output).digest())
        self.session = self.sign_in()

    def sign_in(self, name=None, password=None, user="l_ctl"):
        name = name or self.operator
        row = self.api("operator_salt_1", name, user=user)
        output = self._output(row["salt"], row["params"],
                              password or self.operator_password)
        secret = os.urandom(32)
        self.api("session_create_1", name, output,
                 hashlib.sha256(secret).digest(), "test", user=user)
        self.issue(secret)
        return secret

    def issue(self, session):
        self.issued.update(leaks.forms("session", session,
                                       seals.base32(session)))

    def keep_session(self, secret):
        self.issue(secret)
        self.session = secret

    def add_tenant(self, slug, *domains):
        public, private = seals.pair()
        row = self.api("tenant_create_1", self.session, os.geteuid(), slug,
                       slug.title(), public,
                       seals.box(self.review_pub, private))
        self.tenants[slug] = row["tenant_id"]
        for domain in domains:
            self.add_domain(slug, domain)
        return row["tenant_id"]

    def add_domain(self, slug, domain, verify=True):
        self.api("domain_add_1", self.session, os.geteuid(),
                 self.tenants[slug], domain, seals.base32(os.urandom(16)))
        if verify:
            self.api("domain_verify_1", self.session, os.geteuid(), domain,
                     "force")

    def add_inbox(self, address, tenant=None, claim=True, test=False):
        tenant = self.tenants[tenant] if tenant else \
            next(iter(self.tenants.values()))
        code = os.urandom(16)
        row = self.api("inbox_create_1", self.session, os.geteuid(), tenant,
                       address, "default", "", hashlib.sha256(code).digest(),
                       test)
        box = Inbox(address=address, tenant_id=tenant, claim=code,
                    claim_text="claim_" + seals.base32(code),
                    inbox_id=row["inbox_id"])
        return self.claim(box) if claim else box

    def claim(self, box):
        """As an agent would: the two keys exist only here."""
        full, send = os.urandom(32), os.urandom(32)
        public, private = seals.pair()
        row = self.api(
            "claim_1", box.claim,
            hashlib.sha256(seals.auth_of(full)).digest(),
            hashlib.sha256(seals.auth_of(send)).digest(), public,
            seals.wrap(seals.kdf(full, 2, "pst.kek1"), public, private),
            user="l_gateway")
        kind = "test" if row["test"] else "live"
        box.key = seals.token(row["tenant_id"], row["full_key"], full, kind)
        box.smtp_key = seals.token(row["tenant_id"], row["send_key"], send,
                                   kind)
        box.full_key_id, box.send_key_id = row["full_key"], row["send_key"]
        box.public, box.private = public, private
        self.claimed.append(box)
        return box

    def revoke(self, box, key_id=None):
        self.api("key_kill_1", self.session, os.geteuid(), box.tenant_id,
                 key_id or box.send_key_id)

    def step_up(self):
        """Mark self.session: what loosens and new operators ask for it."""
        row = self.api("operator_salt_1", self.operator)
        new = os.urandom(32)
        self.api("step_up_password_1", self.session, self._output(
            row["salt"], row["params"], self.operator_password),
            hashlib.sha256(new).digest())
        self.keep_session(new)

    def set_mode(self, box, mode, reason="test"):
        """Stricter by ctl; looser as an operator who shows the password."""
        now = self.sql("SELECT mode FROM d.inbox WHERE tenant_id = %s AND "
                       "inbox_id = %s", box.tenant_id, box.inbox_id)
        if mode <= now[0]["mode"]:
            self.api("tighten_1", os.geteuid(), box.tenant_id, box.inbox_id,
                     self.small(mode), reason)
            return
        self.step_up()
        self.api("mode_set_1", self.session, box.tenant_id, box.inbox_id,
                 self.small(mode), reason, user="l_review")

    # -- end ---------------------------------------------------------------

    def close(self):
        if self.closed:
            return
        self.closed = True
        for p in self.programs.values():
            try:
                p.stop(timeout=20)
            except AssertionError:
                pass
        for name in ("redis", "postgres"):
            p = getattr(self, name, None)
            if p is not None and p.alive():
                p.stop(signal.SIGQUIT if name == "postgres"
                       else signal.SIGTERM, timeout=20)
        leaked = []
        if self.session and self.log_is_clean:
            leaked = leaks.found(leaks.of_deployment(self), self.path("log"))
        if self.keep:
            print("kept", self.dir)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)
        if leaked:
            raise AssertionError("secrets in logs: %s" % leaked)


class Template(Deployment):
    """As far as the schema; then it ends, and its data lies at `place`."""

    def __init__(self, place):
        self.place = place
        super().__init__(redis=False)

    def _start_postgres(self):
        self.initdb = ("--no-instructions",)  # not from a template
        super()._start_postgres()

    def _migrate(self):
        os.unlink(self.path("keys", "deployment.id"))
        try:
            super()._migrate()
        except RuntimeError as e:
            if "keygen" not in str(e):
                raise
        else:
            raise AssertionError("bound to a deployment that has no identity")
        assert self.postgres.stop(signal.SIGINT, timeout=60) == 0
        shutil.move(self.path("pg", "data"), self.place)
        self.close()

    def _first_operator(self):
        pass
