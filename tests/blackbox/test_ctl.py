# SPDX-License-Identifier: ISC
"""
posternctl against real PostgreSQL and Redis: from an empty database to an
inbox, and the audit log under attack by a superuser.
"""
import glob
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import tempfile

import psycopg2
import pytest

from tests.lib import place
from tests.lib.process import Process, run_user
from tests.lib.postern import LOGINS, TOP, wait_until

PASSWORD = "correct horse battery staple"


def posternctl():
    build = os.environ.get("POSTERN_BUILD", os.path.join(TOP, "build", "gcc"))
    return os.path.join(build, "posternctl")


class Site:
    """An empty cluster, an empty Redis, and the tool."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(
            prefix="postern-test-%d-" % os.getpid(),
            dir=place.folder())
        os.chmod(self.dir, 0o711)
        self.user = run_user()
        for name in ("pg", "sock", "state"):
            os.mkdir(self.path(name))
            os.chmod(self.path(name), 0o711)
            if self.user and name != "state":
                os.chown(self.path(name), self.user.pw_uid,
                         self.user.pw_gid)
        self.start_postgres()
        self.start_redis()
        self.write_conf()

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def start_postgres(self):
        bins = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        as_user = [] if self.user is None else [
            "setpriv", "--reuid", str(self.user.pw_uid), "--regid",
            str(self.user.pw_gid), "--clear-groups"]
        data = self.path("pg", "data")
        subprocess.run([*as_user, bins + "/initdb", "-D", data, "-U",
                        "postgres", "-A", "trust", "-E", "UTF8",
                        "--no-sync"], cwd="/", check=True,
                       stdout=subprocess.DEVNULL)
        self.postgres = Process("postgres", [
            bins + "/postgres", "-D", data, "-k", self.path("sock"), "-c",
            "lc_messages=C", "-h", ""], self.user, log=self.path("pg.log"))

        def probe():
            try:
                return self.sql("select 1", database="postgres")
            except psycopg2.OperationalError:
                return False
        wait_until("PostgreSQL", probe, 30)
        self.sql("create database postern", database="postgres")

    def start_redis(self):
        self.redis = Process("redis", [
            "redis-server", "--port", "0", "--unixsocket",
            self.path("redis.sock"), "--save", "", "--dir", self.dir])

        def listens():
            with socket.socket(socket.AF_UNIX) as s:
                return s.connect_ex(self.path("redis.sock")) == 0
        wait_until("Redis", listens)

    def write_conf(self):
        with open(self.path("postern.conf"), "w") as f:
            f.write('hostname = "localhost"\nstate_dir = "%s"\n'
                    'store { socket = "%s" }\nredis { socket = "%s" }\n'
                    "keys {\n" % (self.path("state"), self.path("sock"),
                                  self.path("redis.sock")))
            for name in ("review_pub", "review_key", "relay_pub",
                         "relay_key", "approve_key", "policy_key",
                         "seal_key", "auth_key", "auth_pub", "identity_key",
                         "identity_pub"):
                f.write('\t%s_file = "%s"\n' % (
                    name, self.path("keys", name.replace("_", "."))))
            f.write('\tsecrets_key_file = "%s"\n\tdeployment_file = "%s"\n}\n'
                    % (self.path("keys", "%u.secrets.key"),
                       self.path("keys", "deployment.id")))
            f.write('admin { decode_program = "%s" }\n' % self.path("decode"))
        self.decoder()
        with open(self.path("password"), "w") as f:
            f.write(PASSWORD + "\n")

    def decoder(self, script=None):
        """The real postern-decode, or a script in its place."""
        if os.path.lexists(self.path("decode")):
            os.unlink(self.path("decode"))
        if script is None:
            os.symlink(os.path.join(os.path.dirname(posternctl()),
                                    "postern-decode"), self.path("decode"))
            return
        with open(self.path("decode"), "w") as f:
            f.write(script)
        os.chmod(self.path("decode"), 0o755)

    def sql(self, text, args=(), database="postern"):
        db = psycopg2.connect(host=self.path("sock"), user="postgres",
                              dbname=database)
        db.autocommit = True
        try:
            with db.cursor() as c:
                c.execute(text, args)
                return c.fetchall() if c.description else []
        finally:
            db.close()

    def run(self, *words, session="session", given=None):
        return subprocess.run(
            [posternctl(), "-c",
             self.path("postern.conf"), "--session", self.path(session),
             *words], text=True, capture_output=True, timeout=60,
            input=given)

    def ok(self, *words):
        done = self.run(*words)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def rows(self, *words):
        return json.loads(self.ok("--json", *words))

    def refused(self, why, *words, status=1, **kw):
        done = self.run(*words, **kw)
        assert done.returncode == status, done.stdout
        assert why in done.stderr, done.stderr
        return done.stderr

    def close(self):
        self.redis.stop()
        self.postgres.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture(scope="module")
def site():
    s = Site()
    yield s
    s.close()


@pytest.fixture(scope="module")
def ready(site):
    """A site with an operator signed in, a tenant and its domain."""
    if not os.path.exists(site.path("keys")):
        site.ok("keygen")
        site.ok("migrate", "--superuser", "postgres")
        site.ok("redis", "load")
    if not site.sql("select 1 from d.operator"):
        site.ok("operator", "create", "ann", "--password-file",
                site.path("password"))
    site.ok("login", "ann", "--password-file", site.path("password"))
    site.ok("tenant", "create", "acme", "--name", "Acme Corp")
    site.ok("domain", "add", "acme.example", "--tenant", "acme")
    site.ok("domain", "verify", "acme.example", "--force")
    return site


def test_keygen_makes_what_is_missing(site):
    assert "made " in site.ok("keygen")
    assert site.ok("keygen") == ""
    for path in glob.glob(site.path("keys", "*")):
        mode = stat.S_IMODE(os.stat(path).st_mode)
        public = path.endswith((".pub", "deployment.id"))
        assert mode == (0o644 if public else 0o600), path
    os.unlink(site.path("keys", "policy.key"))
    before = open(site.path("keys", "review.key")).read()
    assert site.ok("keygen").count("made") == 1
    assert open(site.path("keys", "review.key")).read() == before


def test_migrate_twice(site):
    first = site.ok("migrate", "--superuser", "postgres")
    files = glob.glob(os.path.join(TOP, "store", "migrations", "*.sql"))
    assert first.count("applied ") == len(files)
    assert site.ok("migrate", "--superuser", "postgres") == ""
    row = site.rows("ready")[0]
    assert row["durable"] is True
    hex_id = open(site.path("keys", "deployment.id")).read().strip()
    assert row["deployment"] == hex_id
    roles = {r for (r,) in site.sql("select rolname from pg_roles")}
    assert set(LOGINS) <= roles


def test_changed_migration_stops(site):
    site.sql("update d.schema_migration set sha256 = sha256(sha256) "
             "where version = 2")
    site.refused("was changed after it was applied", "migrate")
    site.sql("update d.schema_migration set sha256 = x.s from (select "
             "sha256 as s from d.schema_migration where version = 1) x "
             "where version = 2")
    site.refused("0002", "migrate")


def test_foreign_database_is_refused(site):
    path = site.path("keys", "deployment.id")
    mine = open(path).read()
    with open(path, "w") as f:
        f.write("00" * 16 + "\n")
    # put back what the test before spoiled, by a new database
    site.sql("drop database postern", database="postgres")
    site.sql("create database postern", database="postgres")
    site.ok("migrate", "--superuser", "postgres")
    with open(path, "w") as f:
        f.write(mine)
    site.refused("belongs to another deployment", "migrate")
    site.sql("drop database postern", database="postgres")
    site.sql("create database postern", database="postgres")
    site.ok("migrate", "--superuser", "postgres")


def test_redis_load(site):
    assert "postern" in site.ok("redis", "load")
    assert "postern" in site.ok("redis", "load")


# A12: what needs nobody signed in. `operator create` only makes the first.
FREE = {"keygen", "migrate", "redis load", "login", "logout",
        "operator create", "operator recover", "claim", "tighten", "pause", "seal",
        "audit verify", "audit head", "verify", "maintain", "restore-finish", "doctor",
        "mcp", "ready",
        "backup", "restore", "database verify", "init", "status"}
GUARDED = {
    "operator list": [], "operator disable": ["eve"],
    "tenant create": ["x"], "tenant list": [],
    "tenant set": ["acme", "--hold", "1d"],
    "tenant export": ["acme", "OUT"],
    "tenant delete": ["acme", "--reason", "x", "--password-file",
                      "PASSWORD"],
    "inbox delete": ["a@acme.example", "--reason", "x", "--password-file",
                     "PASSWORD"],
    "domain add": ["x.example", "--tenant", "acme"],
    "domain verify": ["x.example", "--force"], "domain list": [],
    "domain check": ["x.example"], "dkim new": ["x.example"],
    "dkim list": ["x.example"], "dkim use": ["x.example", "p", "--force"],
    "dkim remove": ["x.example", "p"],
    "route add": ["suspend", "x.example", "--reason", "x"],
    "route list": [], "route remove": ["1", "--reason", "x"],
    "operator reset": ["NAME"], "uncertain list": [],
    "uncertain resolve": ["msg_01h4000000e008000000000001", "sent"],
    "suppression add": ["a@x.example", "--reason", "x"],
    "suppression list": [],
    "suppression remove": ["1", "--reason", "x", "--password-file",
                           "PASSWORD"],
    "inbox create": ["a@acme.example", "--tenant", "acme"],
    "inbox show": ["a@acme.example"],
    "inbox set": ["a@acme.example", "--approvals", "2"], "inbox reset": ["a@acme.example"],
    "provision create": ["robot", "--tenant", "acme", "--password-file",
                         "PASSWORD"],
    "provision list": ["--tenant", "acme"],
    "provision rotate": ["acme", "1", "--password-file", "PASSWORD"],
    "provision end": ["acme", "1"],
    "grant offer": ["a@acme.example", "--to", "b@acme.example",
                    "--password-file", "PASSWORD"],
    "grant list": ["--tenant", "acme"], "grant end": ["acme", "1"],
    "key revoke": ["1", "1"], "plan set": ["p", "--tenant", "acme"],
    "plan list": ["--tenant", "acme"], "limits": ["a@acme.example"],
    "mode": ["a@acme.example", "autonomous", "--reason", "x",
             "--password-file", "PASSWORD"],
    "resume": ["--all", "--reason", "x", "--password-file", "PASSWORD"],
    "suspend": ["a@acme.example", "--reason", "x"],
    "reject": ["a@acme.example", "--reason", "x"],
    "queue": [], "queue domains": [], "trace": ["a@acme.example"],
}


def test_nothing_without_a_session(site):
    """A12: only housekeeping and tightening need nobody signed in."""
    usage = site.ok("--help")
    commands = set()
    for line in re.findall(r"^  ([a-z].*)$", usage, re.M):
        words = line.split()
        commands.add(" ".join(words[:2]) if len(words) > 1 and
                     re.fullmatch("[a-z]+", words[1]) else words[0])
    assert commands == FREE | set(GUARDED)
    for command, words in GUARDED.items():
        words = [site.path("password") if w == "PASSWORD" else w
                 for w in words]
        err = site.refused("401", *command.split(), *words,
                           session="nobody")
        assert "posternctl login" in err, command
    site.ok("maintain")
    done = site.run("--json", "maintain", "--weeks", "9")
    assert {"what": "partitions made"}.items() <= json.loads(
        done.stdout)[0].items()
    assert '"event":"maintain.partition"' in done.stderr
    assert site.run("doctor").returncode in (0, 1)


def test_it_never_approves(site):
    """No command does, and its login may call nothing that does. It rejects."""
    usage = site.ok("--help").lower()
    assert not re.search(r"^  (approve|release|decide)", usage, re.M)
    may = {n for n, in site.sql(
        "select p.proname from pg_proc p where p.pronamespace = "
        "'api'::regnamespace and has_function_privilege('l_ctl', p.oid, "
        "'execute')")}
    assert not [n for n in may if re.match(
        "decide|review|undo|release|submit|claim_due|dot", n)], may
    db = psycopg2.connect(host=site.path("sock"), user="l_ctl",
                          dbname="postern")
    for table in ("decision", "release", "send_q", "state", "body"):
        with db.cursor() as c, pytest.raises(
                psycopg2.errors.InsufficientPrivilege):
            c.execute("select 1 from d.%s" % table)
        db.rollback()
    db.close()


def test_doctor_compares_libevent(site):
    """With a dpkg of our own: old, good, newer, and none at all."""
    def with_dpkg(version):
        folder = site.path("bin-" + re.sub(r"\W", "_", str(version)))
        os.mkdir(folder)
        if version:
            with open(folder + "/dpkg-query", "w") as f:
                f.write("#!/bin/sh\nprintf %%s '%s'\n" % version)
            os.chmod(folder + "/dpkg-query", 0o755)
            os.symlink(shutil.which("dpkg"), folder + "/dpkg")
        os.symlink("/bin/sh", folder + "/sh")
        return {"PATH": folder}

    def ask(env, *words):
        return subprocess.run(
            [posternctl(), "-c", site.path("postern.conf"), *words],
            text=True, capture_output=True, timeout=60, env=env).stdout
    for version, level in (("2.1.12-stable-8", "error"),
                           ("2.1.12-stable-8+deb12u1", "ok"),
                           ("2.1.12-stable-10", "ok"), (None, "ok")):
        env = with_dpkg(version)
        found = [r for r in json.loads(ask(env, "--json", "doctor"))
                 if r["finding"] == "libevent"][0]
        assert found["level"] == level, (version, found)
        assert found["detail"] == (version or "unknown")
        assert ("vulnerable" in ask(env, "--version")) == (level == "error")
        text = ask(env, "doctor")
        assert ("fix: apt-get install libevent" in text) == (
            level == "error"), text


def test_doctor_gives_each_finding_its_fix(site):
    for row in site.run("--json", "doctor").stdout and json.loads(
            site.run("--json", "doctor").stdout):
        assert row["level"] in ("ok", "info", "warning", "error")
        assert row["fix"] or row["level"] == "ok", row
    os.chmod(site.path("keys", "review.key"), 0o644)
    said = {r["finding"]: r for r in json.loads(
        site.run("--json", "doctor").stdout)}
    assert said["operator"]["level"] == "warning"
    assert said["operator"]["detail"] == "nobody can sign in"
    assert said["long leases"]["detail"].startswith("0 leases")
    text = site.run("doctor").stdout
    os.chmod(site.path("keys", "review.key"), 0o600)
    assert "review.key has mode 644" in text and "fix: chmod 0600" in text


# Decodes what doctor asks, but nothing holds it.
OPEN_DECODER = """#!/usr/bin/python3
import socket
s = socket.socket(fileno=3)
s.recv(1000)
s.sendall(b"PDR1" + bytes(7) + b"\\4" + "\u041f\u0420".encode())
"""


def test_doctor_tries_the_decoder(site):
    """It is there, it decodes, and its sandbox closes; else what to do."""
    def found():
        return [r for r in json.loads(site.run("--json", "doctor").stdout)
                if r["finding"] == "decoder"][0]
    assert found()["level"] == "ok"
    try:
        for script, level, detail, fix in (
                ("#!/bin/false\n", "error", "does not decode", "install"),
                ("#!/no/such\n", "error", "No such file", "install"),
                ("#!/bin/sh\nexit 70\n", "error", "sandbox does not close",
                 "seccomp"),
                (OPEN_DECODER, "error", "runs without a sandbox",
                 "seccomp")):
            site.decoder(script)
            row = found()
            assert row["level"] == level, row
            assert detail in row["detail"] and fix in row["fix"], row
        os.unlink(site.path("decode"))
        row = found()
        assert row["level"] == "warning" and "admin.decode_program" in (
            row["fix"])
        assert site.path("decode") in row["detail"]
        assert site.run("doctor").returncode == 1
    finally:
        site.decoder()


def test_first_operator_only_once(site):
    assert "first operator" in site.ok(
        "operator", "create", "ann", "--password-file",
        site.path("password"))
    site.refused("operators already", "operator", "create", "eve",
                 "--password-file", site.path("password"))
    with open(site.path("short"), "w") as f:
        f.write("short\n")
    site.refused("at least 12", "operator", "create", "eve",
                 "--password-file", site.path("short"))


def test_login(site):
    with open(site.path("wrong"), "w") as f:
        f.write(PASSWORD + "!\n")
    site.refused("401", "login", "ann", "--password-file",
                 site.path("wrong"))
    site.refused("401", "login", "nobody", "--password-file",
                 site.path("password"))
    site.ok("login", "ann", "--password-file", site.path("password"))
    mode = stat.S_IMODE(os.stat(site.path("session")).st_mode)
    assert mode == 0o600
    assert "ann" in site.ok("operator", "list")
    site.ok("logout")
    assert not os.path.exists(site.path("session"))
    site.refused("401", "tenant", "list")


def test_inbox_from_nothing_to_keys(ready):
    row = ready.rows("inbox", "create", "bot@acme.example", "--tenant",
                     "acme", "--display-name", "Bot")[0]
    code = row["claim_code"]
    assert re.fullmatch(r"claim_[0-9a-hjkmnp-tv-z]{26}", code)
    # Not among the arguments, which every user of the host can see.
    done = ready.run("--json", "claim", "-", given=code + "\n")
    assert done.returncode == 0, done.stderr
    claimed = json.loads(done.stdout)[0]
    for name in ("key", "smtp_key"):
        assert re.fullmatch(r"pst_live_\d+_\d+_[0-9a-z]{59}", claimed[name])
    assert claimed["key"] != claimed["smtp_key"]
    ready.refused("410 claim_invalid", "claim", code)
    ready.refused("not a claim code", "claim", "claim_zzz", status=2)
    shown = ready.rows("inbox", "show", "bot@acme.example")[0]
    assert shown["mode"] == "gated_send" and shown["claimed"] is True
    # The keys are nowhere in the database, nor the code.
    dump = subprocess.run(
        ["pg_dump", "-h", ready.path("sock"), "-U", "postgres", "postern"],
        text=True, capture_output=True, check=True).stdout
    for secret in (claimed["key"], claimed["smtp_key"], code):
        assert secret not in dump
        assert secret.rsplit("_", 1)[1][:52] not in dump


def test_tokens_grants_and_test_inboxes(ready):
    row, = ready.rows("inbox", "create", "probe@acme.example", "--tenant",
                      "acme", "--test")
    keys, = ready.rows("claim", row["claim_code"])
    assert keys["key"].startswith("pst_test_") and keys["test"] is True
    assert ready.rows("inbox", "show", "probe@acme.example")[0]["test"]
    up = ["--password-file", ready.path("password")]
    make = ["provision", "create", "robot", "--tenant", "acme", "--rights",
            "create,list", "--domains", "acme.example", "--max", "3",
            "--days", "9"]
    ready.sql("UPDATE d.operator_session SET step_up_until = NULL")
    ready.refused("step_up_required", *make)
    with open(ready.path("session")) as f:
        old = f.read()
    made, = ready.rows(*make, *up)
    assert made["token"].startswith("pst_prov_")
    # A copy of the session from before that is worth nothing any more.
    with open(ready.path("copied"), "w", opener=lambda path, flags: os.open(
            path, flags, 0o600)) as f:
        f.write(old)
    copied = ready.run("provision", "list", "--tenant", "acme",
                       session="copied")
    assert copied.returncode == 1 and "session has ended" in copied.stderr
    assert os.stat(ready.path("session")).st_mode & 0o777 == 0o600
    for bad in (["--rights", "create,fly"], ["--max", "x"]):
        assert ready.run("provision", "create", "r", "--tenant", "acme",
                         *bad, *up).returncode == 2
    number = str(made["key_id"])
    again, = ready.rows("provision", "rotate", "acme", number, *up)
    assert again["token"] != made["token"]
    listed = ready.rows("provision", "list", "--tenant", "acme")
    assert [(t["name"], t["rights"], t["max_inboxes"], t["domains"])
            for t in listed] == [("robot", "cl", 3, "acme.example")]
    assert again["token"] not in json.dumps(listed)
    ready.ok("provision", "end", "acme", number)
    ready.refused("404", "provision", "end", "acme", number)
    ready.ok("inbox", "create", "reader@acme.example", "--tenant", "acme")
    offer = ["grant", "offer", "probe@acme.example", "--to",
             "reader@acme.example", "--messages", "--days", "2", *up]
    given, = ready.rows(*offer)
    assert ready.run(*offer[:3]).returncode == 2
    row = ready.rows("grant", "list", "--tenant", "acme")[0]
    assert (row["inbox"], row["reader"], row["messages"],
            row["accepted_at"]) == ("probe@acme.example",
                                    "reader@acme.example", True, None)
    number = str(given["permit_id"])
    ready.ok("grant", "end", "acme", number)
    ready.refused("404", "grant", "end", "acme", number)


def test_names_are_checked(ready):
    for address, status in (("bot@other.example", 1), ("BOT @acme.example", 2),
                            ("postmaster@acme.example", 2),
                            ("a..b@acme.example", 2)):
        assert ready.run("inbox", "create", address, "--tenant",
                         "acme").returncode == status, address
    assert ready.run("tenant", "create", "Not A Slug").returncode == 2
    ready.refused("no tenant", "inbox", "create", "x@acme.example",
                  "--tenant", "nosuch")
    for words in (["nosuch"], ["tenant", "create"],
                  ["tenant", "list", "--nosuch"], ["queue", "now"],
                  ["inbox", "create", "a@b", "--tenant"]):
        assert ready.run(*words).returncode == 2


def test_modes(ready):
    address = "mode@acme.example"
    ready.ok("inbox", "create", address, "--tenant", "acme")
    ready.refused("--reason", "mode", address, "autonomous", status=2)
    ready.sql("UPDATE d.operator_session SET step_up_until = NULL")
    ready.refused("step_up_required", "mode", address, "autonomous",
                  "--reason", "trial")
    row = json.loads(ready.ok(
        "--json", "mode", address, "autonomous", "--reason", "trial",
        "--password-file", ready.path("password")))[0]
    assert row["mode"] == "autonomous"
    ready.refused("no mode", "mode", address, "yolo", "--reason", "x",
                  status=2)
    row = ready.rows("tighten", address, "gated_all", "--reason", "calm")[0]
    assert row["mode"] == "gated_all"
    assert ready.run("tighten", address, "autonomous", "--reason",
                     "x").returncode == 1


def test_pause_and_resume(ready):
    ready.ok("pause", "--all", "--reason", "fire drill")
    assert "pause" in ready.run("doctor").stdout
    ready.ok("resume", "--all", "--reason", "over", "--password-file",
             ready.path("password"))
    ready.refused("name an ADDRESS", "pause", "--reason", "x", status=2)
    # As the page: a reason that says something, and the log has it.
    ready.ok("inbox", "create", "why@acme.example", "--tenant", "acme")
    ready.ok("pause", "why@acme.example", "--reason", "It loops")
    assert "pauses: why@acme.example: It loops" in ready.run("doctor").stdout
    assert ready.sql("SELECT paused_by, pause_reason FROM d.inbox WHERE "
                     "paused_at IS NOT NULL") == [
        ("ctl:%d" % ready.sql("SELECT substr(actor::text, 5)::int FROM "
                              "d.audit WHERE event = 'pause' ORDER BY n DESC "
                              "LIMIT 1")[0], "It loops")]
    for scope in (["--all"], ["--tenant", "acme"], ["why@acme.example"]):
        for command in "pause", "resume":
            for why, *words in (("--reason TEXT is needed",),
                                ("--reason TEXT is needed", "--reason",
                                 " \t\n"),
                                ("more than 1000", "--reason",
                                 "\u00e4" * 1001)):
                ready.refused(why, command, *scope, *words, status=2)
            ready.ok(command, *scope, "--reason", "\u00e4" * 1000, *(
                [] if command == "pause" else
                ["--password-file", ready.path("password")]))
        rows = ready.sql("SELECT event, detail::json->>'reason' FROM d.audit "
                         "ORDER BY n DESC LIMIT 3")
        assert [r for r in rows if r[0] in ("pause", "resume")] == [
            ("resume", "\u00e4" * 1000), ("pause", "\u00e4" * 1000)]


def test_all_of_an_inbox_is_rejected(ready):
    ready.ok("inbox", "create", "loop@acme.example", "--tenant", "acme")
    ready.refused("422", "reject", "loop@acme.example", "--reason", "x",
                  "--category", "sad", status=2)
    assert ready.rows("reject", "loop@acme.example", "--reason", "It loops",
                      "--category", "duplicate") == [{"rejected": 0, "left": 0}]


def test_tightening_needs_no_login(ready):
    ready.ok("inbox", "create", "calm@acme.example", "--tenant", "acme")
    row = ready.rows("inbox", "show", "calm@acme.example")[0]
    numbers = "%d.%d" % (row["tenant_id"], row["inbox_id"])
    for words in (["tighten", "calm@acme.example", "gated_all"],
                  ["tighten", numbers, "read_only"],
                  ["pause", "Calm@acme.example"], ["pause", numbers],
                  ["pause", "--tenant", "acme"],
                  ["pause", "--tenant", str(row["tenant_id"])]):
        done = ready.run(*words, "--reason", "alarm", session="nobody")
        assert done.returncode == 0, done.stderr
    row = ready.rows("inbox", "show", "calm@acme.example")[0]
    assert row["mode"] == "read_only" and row["paused"] is True
    for nobody in ("nosuch@acme.example", "nosuch"):
        words = [nobody] if "@" in nobody else ["--tenant", nobody]
        done = ready.run("pause", *words, "--reason", "x", session="nobody")
        assert done.returncode == 1 and "not_found" in done.stderr, done
    for which in (numbers, "calm@acme.example"):
        assert ready.run("resume", which, "--reason", "x",
                         session="nobody").returncode == 1
    ready.ok("resume", "--tenant", "acme", "--reason", "over",
             "--password-file", ready.path("password"))


def test_roles(ready):
    ready.ok("operator", "create", "rita", "--role", "reviewer", "--tenant",
             "acme", "--password-file", ready.path("password"),
             "--confirm-file", ready.path("password"))
    assert "rita" in ready.ok("operator", "list")
    assert ready.run("login", "rita", "--password-file",
                     ready.path("password"),
                     session="rita").returncode == 0
    ready.refused("403", "tenant", "create", "evil", session="rita")
    ready.refused("403", "operator", "create", "eve", "--role", "admin",
                  "--password-file", ready.path("password"), session="rita")
    ready.ok("operator", "disable", "rita")
    ready.refused("401", "tenant", "list", session="rita")


def test_limits(ready):
    address = "limit@acme.example"
    ready.ok("plan", "set", "small", "--tenant", "acme", "--hour", "2",
             "--day", "3")
    ready.ok("inbox", "create", address, "--tenant", "acme", "--plan",
             "small")
    plans = {p["plan"]: p for p in ready.rows("plan", "list", "--tenant",
                                              "acme")}
    assert plans["small"]["hour"] == 2 and plans["default"]["hour"] == 20
    assert ready.rows("inbox", "show", address)[0]["plan"] == "small"
    ready.sql("UPDATE d.operator_session SET step_up_until = NULL")
    ready.refused("step_up_required", "limits", address, "--hour", "5")
    ready.ok("limits", address, "--hour", "1")
    ready.ok("limits", address, "--hour", "5", "--password-file",
             ready.path("password"))
    assert ready.run("limits", address, "--hour", "many").returncode == 2


def test_what_an_inbox_has_of_its_own(ready):
    address = "own@acme.example"
    ready.ok("inbox", "create", address, "--tenant", "acme")

    def shown():
        row = ready.rows("inbox", "show", address)[0]
        return [row[k] for k in ("approvals", "hold_seconds", "overseer",
                                 "full_key_smtp", "retry_uncertain")]
    plain = [1, 7 * 86400, None, False, False]
    assert shown() == plain
    ready.sql("UPDATE d.operator_session SET step_up_until = NULL")
    # What tightens needs no password.
    ready.ok("inbox", "set", address, "--approvals", "2", "--hold", "2d",
             "--overseer", "Boss@B\u00fccher.example")
    tight = [2, 2 * 86400, "Boss@xn--bcher-kva.example", False, False]
    assert shown() == tight
    for words in (["--approvals", "1"], ["--approvals", "tenant"],
                  ["--overseer", "none"], ["--overseer", "eve@x.example"],
                  ["--full-key-smtp", "yes"], ["--retry-uncertain", "yes"]):
        ready.refused("step_up_required", "inbox", "set", address, *words)
        assert shown() == tight
    for words in (["--approvals", "3"], ["--overseer", "boss"],
                  ["--overseer", "a@b c.example"], ["--hold", "soon"],
                  ["--retry-uncertain", "maybe"]):
        assert ready.run("inbox", "set", address, *words).returncode == 2
    ready.refused("--hold: whole seconds from 60s to 400d", "inbox", "set",
                  address, "--hold", "10s", status=2)
    assert shown() == tight
    ready.ok("inbox", "set", address, "--approvals", "tenant", "--hold",
             "tenant", "--overseer", "none", "--full-key-smtp", "yes",
             "--retry-uncertain", "yes", "--password-file",
             ready.path("password"))
    assert shown() == plain[:3] + [True, True]


def test_no_secret_is_an_argument(ready):
    """Options that take one name a file, or `-`."""
    done = ready.run("mode", "bot@acme.example", "monitored", "--reason",
                     "x", "--code", "123456")
    assert done.returncode == 2, done.stderr
    done = ready.run("mode", "bot@acme.example", "monitored", "--reason",
                     "x", "--code-file", "-", given="")
    assert done.returncode == 1 and "nothing in --code-file" in done.stderr
    done = ready.run("login", "ann", "--password-file", "-",
                     given=PASSWORD + "\n")
    assert done.returncode == 0, done.stderr
    usage = ready.ok("--help")
    assert not re.search(r"--(password|code|secret|passphrase)( |=)", usage)


def test_used_wrongly(ready):
    """What is wrong is said in a line or two; help is asked for anywhere."""
    assert max(map(len, ready.ok("help").splitlines())) <= 80
    for words, wanted in (
            (["nonsense"], "no command nonsense; posternctl --help"),
            (["help", "nonsense"], "no command nonsense"),
            (["--nonsense"], "posternctl --help lists"),
            (["queue", "--nonsense=1"], "no option --nonsense here"),
            (["inbox", "create"], "a word is missing"),
            (["queue", "x"], "a word too many"),
            (["inbox", "create", "a", "--tenant"], "--tenant needs a value"),
            (["inbox", "create", "a", "--test=1"], "--test takes no value")):
        done = ready.run(*words)
        assert done.returncode == 2 and done.stdout == "", words
        assert wanted in done.stderr, done.stderr
        assert done.stderr.count("\n") <= 2, done.stderr
    done = ready.run("inbox")
    assert done.returncode == 2 and done.stdout == ""
    assert "  inbox reset ADDRESS" in done.stderr
    assert "  tenant" not in done.stderr
    assert ready.ok("help") == ready.ok("--help")
    assert ready.ok("help", "inbox") == done.stderr == ready.ok(
        "inbox", "--help")
    assert ready.ok("inbox", "show", "--help") == (
        "usage: posternctl inbox show ADDRESS\nShow an inbox.\n")
    assert ready.rows("ready")[0].keys() == json.loads(
        ready.ok("ready", "--json"))[0].keys()
    assert "login" in ready.refused("401", "queue", "--session", "/nobody")
    assert ready.ok("queue", "domains") == "No mail waits to go.\n"
    for words in (["inbox", "show", "nobody@acme.example"],
                  ["pause", "nobody@acme.example", "--reason", "x"]):
        ready.refused("your role does not reach it", *words)


# 0 was the tenant's own, and more than 32 bits of seconds wrapped.
BAD_HOLDS = "x", "0s", "59s", "60500ms", "401d", "99999999999h"
REASON = ["mode", "tighten", "pause", "resume", "suspend", "reject",
          "route add", "route remove", "suppression add",
          "suppression remove", "tenant delete", "inbox delete"]
VALUES = {
    "claim": [["pst"]],
    "database verify": [["--sample", "x"]], "dkim new": [
        ["x.example", "--pair", "p" * 33]],
    "domain add": [["x.example"]],
    "grant end": [["acme", "x"]], "grant list": [[]],
    "grant offer": [["a@acme.example"],
                    ["a@acme.example", "--to", "b@acme.example", "--days",
                     "x"]],
    "inbox create": [["a@acme.example"]],
    "inbox set": [*(["a@acme.example", "--hold", h] for h in BAD_HOLDS),
                  ["a@acme.example", "--one-click", "x"]],
    "key revoke": [["1", "x"]], "limits": [["a@acme.example", "--held", "x"]],
    "maintain": [["--weeks", "53"]],
    "mode": [["a@acme.example", "nosuch", "--reason", "x"]],
    "operator create": [["No Name", "--password-file", "PASSWORD"]],
    "pause": [["--reason", "x"], ["--all", "--tenant", "acme", "--reason",
                                  "x"]],
    "plan list": [[]], "plan set": [["p"], ["p", "--tenant", "acme",
                                            "--day", "x"]],
    "provision create": [["robot"], ["robot", "--tenant", "acme", "--rights",
                                     "x"]],
    "provision end": [["acme", "x"]], "provision list": [[]],
    "provision rotate": [["acme", "x"]],
    "restore": [["DIR", "--without-keys"]], "restore-finish": [[]],
    "resume": [["--reason", "x"]],
    "route add": [["x", "x.example", "--reason", "x"],
                  ["relay", "x.example", "--via", ":0", "--reason", "x"],
                  ["relay", "x.example", "--login", "x", "--reason", "x"],
                  *(["tls", "x.example", "--expires", e, "--reason", "x"]
                    for e in ("x", "0s", "0d", "999ms", "1500ms", "3651d",
                              "99999999999h", "-1s")),
                  ["tls", "x.example", "--tenant", "acme", "--inbox",
                   "a@acme.example", "--reason", "x"]],
    "route remove": [["x", "--reason", "x"]],
    "suppression add": [["a b@x.example", "--reason", "x"]],
    "suppression remove": [["x", "--reason", "x"]],
    "tenant create": [["No Slug"]],
    "tenant set": [["acme", "--approvals", "x"], *(
        ["acme", "--hold", h] for h in BAD_HOLDS)],
    "tighten": [["a@acme.example", "nosuch", "--reason", "x"]],
    "uncertain resolve": [["x", "sent"],
                          ["msg_01h4000000e008000000000001", "nosuch"]],
}


def commands_of(site):
    """Each command, how many words it takes, and what is written behind it."""
    found = {}
    for text in re.findall(r"^  ([a-z].*(?:\n {6}.*)*)", site.ok("--help"),
                           re.M):
        words = text.split()
        name = " ".join(words[:2]) if len(words) > 1 and re.fullmatch(
            "[a-z]+", words[1]) else words[0]
        found[name] = text
    return found


def test_every_command_used_wrongly_exits_with_2(ready):
    """And 1 is left for what is refused, or fails."""
    commands = commands_of(ready)
    assert set(commands) == FREE | set(GUARDED)
    assert {c for c, text in commands.items() if "--reason TEXT" in text} \
        == set(REASON) | {"restore-finish"}
    wrong = [(c, ["--nonsense"]) for c in commands]
    wrong += [(c, ["x"] * 9) for c in commands]
    # what is not in brackets is needed
    wrong += [(c, []) for c, text in commands.items() if re.match(
        r" *[^ \n\[]", text[len(c):])]
    for c in REASON:
        words = list(GUARDED.get(c, ["a@acme.example", "gated_all",
                                     "--reason", "x"][:2 + 2 * (
                                         c == "tighten")]))
        if c == "pause":
            words = ["--all", "--reason", "x"]
        at = words.index("--reason")
        wrong += [(c, words[:at] + words[at + 2:])]
        wrong += [(c, words[:at] + ["--reason", r] + words[at + 2:])
                  for r in ("", " ", "r" * 1001)]
    wrong += [(c, words) for c, many in VALUES.items() for words in many]
    for c, words in wrong:
        words = [ready.path("password") if w == "PASSWORD" else w
                 for w in words]
        done = ready.run(*c.split(), *words)
        assert done.returncode == 2, (c, words, done.stdout, done.stderr)
        assert done.stdout == "" and done.stderr != "", (c, words)


# -- schemas that do not fit (docs/upgrade.md) --------------------------------

def test_later_release_is_left_alone(ready):
    """An old posternctl does not touch what a later one has migrated."""
    ready.sql("insert into d.schema_migration (version, name, sha256) "
              "values (9001, '9001_later', sha256('x'))")
    try:
        err = ready.refused("later release", "migrate")
        assert "9001" in err
        assert ready.rows("ready")[0]["schema"] == 9001
    finally:
        ready.sql("delete from d.schema_migration where version = 9001")
    assert ready.ok("migrate") == ""


def test_version_and_conf(ready):
    assert "libevent" in ready.ok("--version")
    assert "usable" in ready.ok("--check")
    assert "state_dir" in ready.ok("--show-config")


# -- the audit log -----------------------------------------------------------

def verify(site, *words):
    return site.run("audit", "verify", "--head",
                    site.path("state", "audit-heads"), *words)


def as_found(site):
    """Copies of both audit tables, put back by the returned function."""
    site.sql("drop table if exists a1, a2; create table a1 as table d.audit;"
             "create table a2 as table d.audit_seal")

    def put_back():
        site.sql("set session_replication_role = replica;"
                 "delete from d.audit; insert into d.audit select * from a1;"
                 "delete from d.audit_seal;"
                 "insert into d.audit_seal select * from a2")
    return put_back


@pytest.fixture
def sealed(ready):
    ready.ok("seal")
    ready.ok("pause", "--all", "--reason", "one more row")
    ready.ok("seal")
    assert verify(ready).returncode == 0
    put_back = as_found(ready)
    yield ready
    put_back()
    assert verify(ready).returncode == 0


REPLICA = "set session_replication_role = replica;"
NTH = ("select gen, xid, n from d.audit order by gen, xid, n "
       "offset %d limit 1")
ATTACKS = {
    "altered": REPLICA + "update d.audit set detail = '{\"x\":1}' "
    "where (gen, xid, n) = (" + NTH % 2 + ")",
    "actor": REPLICA + "update d.audit set actor = 'op:7' "
    "where (gen, xid, n) = (" + NTH % 1 + ")",
    "removed": REPLICA + "delete from d.audit "
    "where (gen, xid, n) = (" + NTH % 2 + ")",
    "reordered": REPLICA + "update d.audit a set at = b.at from d.audit b "
    "where (a.gen, a.xid, a.n) = (" + NTH % 1 + ") "
    "and (b.gen, b.xid, b.n) = (" + NTH % 3 + ") and a.at <> b.at",
    "tail cut": REPLICA + "delete from d.audit where (gen, xid, n) > "
    "(select gen, xid, n from d.audit_seal where block = 1);"
    "delete from d.audit_seal where block > 1",
    "all cut": REPLICA + "delete from d.audit; delete from d.audit_seal",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_audit_attack_is_found(sealed, name):
    sealed.sql(ATTACKS[name])
    done = verify(sealed)
    assert done.returncode == 1, done.stdout
    assert "block" in done.stderr


def test_cut_tail_needs_the_head(sealed):
    """Said in the manual: a database alone can be cut unnoticed."""
    sealed.sql(ATTACKS["tail cut"])
    done = sealed.run("audit", "verify")
    assert done.returncode == 0
    assert "without --head" in done.stdout


def test_a_block_that_is_made_meanwhile(ready):
    """The sealer goes on while the chain is verified: its head is in the file
    when its block was not there yet as the blocks were read."""
    ready.ok("pause", "--all", "--reason", "one row")
    ready.ok("seal")
    slow = ready.path("slow-heads")
    os.mkfifo(slow)
    p = Process("verify", [posternctl(), "-c", ready.path("postern.conf"),
                           "audit", "verify", "--head", slow])
    with open(slow, "w") as f:  # once it is open at the other end, too
        wait_until("it reads the first head", lambda: ready.sql(
            "select 1 from pg_stat_activity where state = 'idle' "
            "and query ~ 'audit_rows_1'"))
        ready.ok("pause", "--all", "--reason", "one more")
        ready.ok("seal")
        with open(ready.path("state", "audit-heads")) as heads:
            f.write(heads.read())
    assert p.proc.wait(30) == 0, p.lines
    os.unlink(slow)


@pytest.fixture
def heads(ready):
    """The file of heads, of some blocks; put back behind the test."""
    for i in range(2):
        ready.ok("pause", "--all", "--reason", "row %d" % i)
        ready.ok("seal")
    path = ready.path("state", "audit-heads")
    with open(path) as f:
        whole = f.read()

    def put(text):
        with open(path, "r+") as f:
            f.truncate()
            f.write(text)
    put.whole = whole
    put.now = lambda: open(path).read()
    yield put
    blocks = ready.sql("select block, rows, gen, xid, n, encode(hash, 'hex'), "
                       "encode(signature, 'hex') from d.audit_seal "
                       "order by block")
    put("".join(" ".join(str(x) for x in b) + "\n" for b in blocks))
    assert verify(ready).returncode == 0


@pytest.mark.parametrize("left", [0, 1, 40, -1], ids=[
    "nothing", "a byte", "some of it", "all but its end"])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_head_that_was_not_written(ready, heads, left, goes_on):
    """The machine ended between a block and its head; the next block comes at
    once or later."""
    lines = heads.whole.splitlines(True)
    heads("".join(lines[:-1]) + lines[-1][:left])
    if goes_on:
        ready.ok("pause", "--all", "--reason", "another")
    ready.ok("seal")
    assert heads.now().startswith(heads.whole)
    assert len(heads.now().splitlines()) == len(lines) + goes_on
    assert verify(ready).returncode == 0


def test_zeros_at_the_end_of_heads(ready, heads):
    """As some file systems leave them when the power goes."""
    heads(heads.whole + "\0" * 5000)
    ready.ok("seal")
    assert heads.now() == heads.whole


def test_heads_that_somebody_took_away(ready, heads):
    """One may be missing after a crash. What is more is not made up for."""
    heads("".join(heads.whole.splitlines(True)[:-2]))
    ready.ok("pause", "--all", "--reason", "another")
    ready.ok("seal")
    done = verify(ready)
    assert done.returncode == 1
    assert "a block is missing in the file of heads" in done.stderr


def test_a_head_that_the_sealer_did_not_sign(ready, heads):
    heads("".join(heads.whole.splitlines(True)[:-1]))
    last = ready.sql("select max(block), 1 from d.audit_seal")[0][0]
    ready.sql(REPLICA + "create table a3 as select * from d.audit_seal; "
              "update d.audit_seal set hash = decode(repeat('00', 32), 'hex') "
              "where block = %d" % last)
    try:
        ready.run("seal")
        assert heads.whole.startswith(heads.now())
        assert len(heads.now()) < len(heads.whole)
    finally:
        ready.sql(REPLICA + "update d.audit_seal z set hash = a3.hash from a3 "
                  "where a3.block = z.block; drop table a3")


def test_seal_follow(ready):
    p = Process("seal", [
        posternctl(), "-c",
        ready.path("postern.conf"), "seal", "--follow"])
    p.wait("daemon.ready")
    ready.ok("pause", "--all", "--reason", "to be sealed")
    p.wait("audit.sealed")
    assert p.stop() == 0
    assert verify(ready).returncode == 0
