# SPDX-License-Identifier: ISC
"""A private PostgreSQL cluster on a unix socket, with roles and schema.

    with Cluster() as db:                 # initdb, start, roles, migrations
        gw = db.connect("l_gateway")      # one psycopg2 connection a login
        world = World(db)                 # tenants, inboxes, keys, operators

As root the server runs as user postgres; else as the caller. Nothing is left
behind: stop() ends the server by its own pid file and removes the folder.
"""
import glob
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

import psycopg2
import psycopg2.extras

import place  # beside this file, as tests/sql/conftest.py finds both

psycopg2.extras.register_uuid()

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BIN = os.environ.get("POSTERN_PG_BIN") or sorted(
    glob.glob("/usr/lib/postgresql/*/bin"))[-1]
SETTINGS = {
    "listen_addresses": "''",
    "fsync": "on",
    "full_page_writes": "on",
    "shared_buffers": "64MB",
    "max_connections": "60",
    "lc_messages": "C",
    "wal_compression": "lz4",
    "shared_preload_libraries": "plpgsql",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_line_prefix": "'%m %u '",
}


class Cluster:
    """fast=True gives up durability, for tests that do not look at it."""

    def __init__(self, database="postern", fast=False, settings=None,
                 migrate=True):
        self.database = database
        self.settings = dict(SETTINGS)
        self.settings.update(settings or {})
        if fast:
            self.settings["fsync"] = "off"
        self.dir = tempfile.mkdtemp(prefix="postern-test-",
                                    dir=place.folder())
        self.data = os.path.join(self.dir, "data")
        self.log = os.path.join(self.dir, "log")
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(self.dir, owner.pw_uid, owner.pw_gid)
        os.chmod(self.dir, 0o755)
        self._user("initdb", "-D", self.data, "-U", "postgres", "-A", "trust",
                   "-k", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        with open(os.path.join(self.data, "postgresql.conf"), "a") as f:
            f.write("unix_socket_directories = '%s'\n" % self.dir)
            for key, value in self.settings.items():
                f.write("%s = %s\n" % (key, value))
        self.start()
        if migrate:
            self.migrate()

    def _user(self, program, *args):
        cmd = [os.path.join(BIN, program)] + list(args)
        if os.geteuid() == 0:
            cmd = ["runuser", "-u", "postgres", "--"] + cmd
        subprocess.run(cmd, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE, cwd="/")

    @property
    def pid(self):
        with open(os.path.join(self.data, "postmaster.pid")) as f:
            return int(f.readline())

    def start(self):
        self._user("pg_ctl", "-D", self.data, "-w", "-l", self.log, "start")

    def stop(self, mode="fast"):
        self._user("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def kill(self):
        """What a power cut does to the processes; start() recovers."""
        pid = self.pid
        kids = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid="],
                              capture_output=True, text=True).stdout.split()
        for p in [pid] + [int(k) for k in kids]:
            try:
                os.kill(p, signal.SIGKILL)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + 10
        while os.path.exists("/proc/%d" % pid) \
                and time.monotonic() < deadline:
            os.sched_yield()
        path = os.path.join(self.data, "postmaster.pid")
        if os.path.exists(path):
            os.unlink(path)

    def close(self):
        try:
            self.stop("immediate")
        except subprocess.CalledProcessError:
            pass
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def psql(self, user, *args, database=None):
        """psql as `user`; raises with its messages when it fails."""
        p = subprocess.run(
            [os.path.join(BIN, "psql"), "-qX", "-v", "ON_ERROR_STOP=1",
             "-h", self.dir, "-U", user, "-d", database or self.database]
            + list(args), capture_output=True, text=True)
        if p.returncode != 0:
            raise RuntimeError(p.stderr)
        return p.stdout

    def migrate(self):
        """Roles by the superuser, each migration in one transaction."""
        self.psql("postgres", "-c", 'CREATE DATABASE "%s"' % self.database,
                  database="postgres")
        self.psql("postgres", "-f", os.path.join(ROOT, "store", "roles.sql"))
        for path in sorted(glob.glob(os.path.join(
                ROOT, "store", "migrations", "[0-9]*.sql"))):
            name = os.path.basename(path)
            with open(path, "rb") as f:
                digest = hashlib.sha256(f.read()).hexdigest()
            self.psql("l_migrate", "-1", "-f", path, "-c",
                      "SET LOCAL ROLE p_owner; INSERT INTO "
                      "d.schema_migration (version, name, sha256) VALUES "
                      "(%d, '%s', '\\x%s')" % (int(name[:4]), name, digest))

    def connect(self, user="postgres", autocommit=True):
        c = psycopg2.connect(host=self.dir, user=user, dbname=self.database)
        c.autocommit = autocommit
        return c


_types = {}


def types_of(conn, name):
    """Argument names and types of api.<name>, asked once."""
    if name not in _types:
        with conn.cursor() as cur:
            cur.execute("""SELECT p.proargnames[i],
                format_type(p.proargtypes[i - 1], NULL) FROM pg_proc p,
                generate_series(1, p.pronargs) i
                WHERE p.pronamespace = 'api'::regnamespace
                AND p.proname = %s ORDER BY i""", (name,))
            _types[name] = dict(cur.fetchall())
    return _types[name]


def call(conn, name, /, **args):
    """api function `name` with named arguments: a list of row dicts."""
    kinds = types_of(conn, name)
    sql = "SELECT * FROM api.%s(%s)" % (name, ", ".join(
        "%s => %%(%s)s::%s" % (k, k, kinds[k]) for k in args))
    with conn.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cur:
        cur.execute(sql, args)
        return [{k: bytes(v) if isinstance(v, memoryview) else v
                 for k, v in r.items()} for r in cur.fetchall()]


def call1(conn, name, /, **args):
    """The single row of an api function."""
    rows = call(conn, name, **args)
    assert len(rows) == 1, (name, rows)
    return rows[0]


_ms = 0
_counter = 0


def uuid7(at=None):
    """A version 7 id; at = seconds since 1970 (default now)."""
    global _ms, _counter
    ms = int((time.time() if at is None else at) * 1000)
    if at is None:
        _counter = _counter + 1 if ms <= _ms else 0
        _ms = ms = max(ms, _ms)
    r = int.from_bytes(os.urandom(8), "big") & ((1 << 62) - 1)
    c = (_counter if at is None else int.from_bytes(os.urandom(2), "big")) \
        & 0xfff
    return uuid.UUID(int=(ms << 80) | (7 << 76) | (c << 64) | (2 << 62) | r)


def sha256(b):
    return hashlib.sha256(b).digest()


def lp(b):
    return len(b).to_bytes(4, "big") + b


def digest_1(tenant, inbox, mid, version, test, mail_from, rcpts, params,
             size, body_tag, send_at=0, not_after=0):
    """Decision D4, written a third time."""
    return sha256(
        lp(b"postern.digest.1") + tenant.to_bytes(8, "big")
        + inbox.to_bytes(8, "big") + mid.bytes + version.to_bytes(2, "big")
        + bytes([1 if test else 0]) + lp(mail_from.encode())
        + len(rcpts).to_bytes(4, "big")
        + b"".join(lp(r.encode()) for r in rcpts) + lp(params.encode())
        + size.to_bytes(8, "big") + lp(body_tag)
        + send_at.to_bytes(8, "big") + not_after.to_bytes(8, "big"))


SUBMIT = {
    "t": "bigint", "k": "bigint", "a": "bytea", "mid": "uuid",
    "rcpts": "text", "kinds": "text", "params": "text", "size": "bigint",
    "body_tag": "bytea", "send_at": "bigint", "not_after": "bigint",
    "dig": "bytea", "door": "text", "subject": "text", "header_from": "text",
    "rfc_id": "text", "in_reply_to": "text", "refs": "text",
    "thread": "uuid", "labels": "text", "context": "text",
    "risk": "smallint", "findings_set": "smallint",
    "finding_max": "smallint", "attachments": "int", "links": "boolean",
    "tenant_epoch": "int",
    "tenant_box": "bytea", "inbox_epoch": "int", "inbox_box": "bytea",
    "chunks": "int", "body": "bytea", "idem": "bytea", "request": "bytea",
    "duplicate": "boolean", "revises": "uuid", "limiter": "boolean",
    "relay_box": "bytea", "tag": "bytea", "expiry": "bigint",
    "tag_mode": "smallint", "tag_mode_epoch": "int"}


class Inbox:
    """One claimed inbox: tenant, inbox, address, full and send key with A."""
    test = False

    def message(self, rcpts=("b@x.example",), body=b"sealed", key=None,
                **over):
        """Arguments of submit_1 for a plausible message."""
        rcpts = sorted(set(rcpts), key=lambda r: r.encode())
        k, a = key or (self.send_key, self.send_a)
        m = dict.fromkeys(SUBMIT)
        m.update(t=self.tenant, k=k, a=a, mid=uuid7(),
                 rcpts="\n".join(rcpts), kinds="t" * len(rcpts), params="",
                 size=len(body), body_tag=sha256(b"tag" + body), send_at=0,
                 not_after=0, door="r", subject="Hello",
                 header_from=self.address, risk=50, findings_set=0,
                 finding_max=0, attachments=0, links=False, tenant_epoch=1,
                 tenant_box=b"t" * 80, inbox_epoch=1, inbox_box=b"i" * 80,
                 chunks=1, body=body, request=os.urandom(32),
                 duplicate=False, limiter=True)
        m.update(over)
        if m["dig"] is None:
            m["dig"] = digest_1(
                self.tenant, self.inbox, m["mid"], 1, self.test, self.address,
                m["rcpts"].split("\n"), m["params"], m["size"],
                m["body_tag"], m["send_at"] or 0, m["not_after"] or 0)
        return m


def submit(conn, m):
    return call1(conn, "submit_1", **m)


def submit_batch(conn, messages):
    with conn.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cur:
        cur.execute("SELECT * FROM api.submit_batch_1(%s) ORDER BY ord"
                    % ", ".join("%s => %%(%s)s::%s[]" % (n, n, ty)
                                for n, ty in SUBMIT.items()),
                    {n: [m[n] for m in messages] for n in SUBMIT})
        return [dict(r) for r in cur.fetchall()]


class World:
    """Deployment, first operator `root`, tenants with inboxes, claimed."""

    def __init__(self, db, tenants=2, inboxes=2, plan=None):
        self.db = db
        self.ctl = db.connect("l_ctl")
        self.gw = db.connect("l_gateway")
        self.rv = db.connect("l_review")
        self.wk = db.connect("l_worker")
        self.secrets = {}
        call1(self.ctl, "deployment_init_1", uid=0,
              new_deployment=b"deployment-16byt")
        out = os.urandom(32)
        r = call1(self.ctl, "setup_1", name="root", salt=os.urandom(16),
                  params="argon2id m=19456 t=2 p=1", verifier=sha256(out))
        assert r["status"] == 200, r
        self.passwords = {"root": out}
        self.root = self.session("root")
        self.step_up(self.root)
        self.inboxes = []
        self.tenants = []
        for n in range(tenants):
            t = call1(self.ctl, "tenant_create_1", s=self.root, uid=0,
                      slug="tenant%d" % n, name="Tenant %d" % n,
                      pub=os.urandom(32), priv_box=os.urandom(80))
            assert t["status"] == 200, t
            self.tenants.append(t["tenant_id"])
            host = "t%d.example" % n
            call1(self.ctl, "domain_add_1", s=self.root, uid=0,
                  tenant=t["tenant_id"], name=host, new_token="a" * 26)
            call1(self.ctl, "domain_verify_1", s=self.root, uid=0, name=host,
                  how="force")
            big = dict(hour=10**6, day=10**6, month=10**7, held=10**6,
                       bytes=1 << 40)
            big.update(plan or {})
            call1(self.ctl, "plan_set_1", s=self.root, uid=0,
                  tenant=t["tenant_id"], plan="default", **big)
            for i in range(inboxes):
                self.inboxes.append(self.inbox(
                    t["tenant_id"], "bot%d@%s" % (i, host)))

    def inbox(self, tenant, address, test=False):
        code = os.urandom(16)
        r = call1(self.ctl, "inbox_create_1", s=self.root, uid=0,
                  tenant=tenant, new_address=address, plan=None,
                  display_name=None, claim_sha256=sha256(code), test=test)
        assert r["status"] == 200, r
        x = Inbox()
        x.tenant, x.address, x.test = tenant, address, test
        x.full_a, x.send_a = os.urandom(32), os.urandom(32)
        r = call1(self.gw, "claim_1", claim=code, full_auth=sha256(x.full_a),
                  send_auth=sha256(x.send_a), pub=os.urandom(32),
                  wrapped=os.urandom(72))
        assert r["status"] == 200, r
        x.inbox = r["inbox_id"]
        x.full_key, x.send_key = r["full_key"], r["send_key"]
        x.code = code
        return x

    def operator(self, name, role, tenant=None, inbox=None):
        """A new operator and a live session of it."""
        out = os.urandom(32)
        self.step_up(self.root)
        r = call1(self.ctl, "operator_add_1", s=self.root, uid=0, name=name,
                  salt=os.urandom(16), params="argon2id m=19456 t=2 p=1",
                  verifier=sha256(out), role=role, tenant=tenant,
                  inbox=inbox)
        assert r["status"] == 200, r
        self.passwords[name] = out
        return self.session(name)

    def session(self, name):
        """Its secret, whose bytes change with every step-up."""
        s = bytearray(os.urandom(32))
        r = call1(self.db_review(), "session_create_1", name=name,
                  output=self.passwords[name], session_sha256=sha256(s),
                  peer="test")
        assert r["status"] == 200, r
        return s

    def db_review(self):
        return getattr(self, "rv", None) or self.db.connect("l_review")

    def step_up(self, s, name="root"):
        new = os.urandom(32)
        r = call1(self.rv, "step_up_password_1", s=s,
                  output=self.passwords[name], next_sha256=sha256(new))
        assert r["status"] == 200, r
        s[:] = new

    def mode(self, x, mode):
        """Sets the mode of an inbox, with step-up; returns its epoch."""
        self.step_up(self.root)
        r = call1(self.rv, "mode_set_1", s=self.root, tenant=x.tenant,
                  inbox=x.inbox, to_mode=mode, reason="test")
        assert r["status"] == 200, r
        return r["mode_epoch"]

    def approve(self, m, s=None, version=1, round=1, undo=0, **over):
        """decide_1 with verdict a for the arguments of a message."""
        args = dict(s=s or self.root, mid=m["mid"], for_version=version,
                    for_round=round, dig=m["dig"], verdict="a",
                    idem=os.urandom(16), category=None, note=None, hint=None,
                    seconds=3, via="page", relay_box=b"r" * 200,
                    tag=b"g" * 32, expiry=int((time.time() + 3600) * 1e6),
                    undo_seconds=undo, resend=None)
        args.update(over)
        return call1(self.rv, "decide_1", **args)

    def sweep(self, lim=100, worker=None):
        """As the worker does: again, until nothing more is due."""
        while any(r["more"] for r in call(worker or self.wk, "sweep_1",
                                          lim=lim)):
            pass

    def reject(self, m, s=None, version=1, round=1, **over):
        return self.approve(m, s, version, round, **dict(
            dict(verdict="r", category="other", relay_box=None, tag=None,
                 expiry=None), **over))
