# SPDX-License-Identifier: ISC
"""
What the person on call relies on: /readyz and every metric of each program,
what the service manager is told, reload that cannot break, and programs that
refuse a database which is not the one they worked for.
"""
import base64
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.fake.mx import CLOSE
from tests.lib import pages, postern, rawsmtp, release, seals
from tests.lib.process import Process
from tests.lib.relaying import Relaying

PROGRAMS = ("posternd", "postern-admin", "postern-deliver")


def fetch(d, program, path):
    url = "http://127.0.0.1:%d/%s" % (
        d.metrics_port + PROGRAMS.index(program), path)
    try:
        with urllib.request.urlopen(url, timeout=10) as f:
            return f.status, f.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
    except OSError:
        return 0, ""


def ready(d, program, status, words=""):
    """Wait until /readyz says so."""
    got = []

    def probe():
        got[:] = fetch(d, program, "readyz")
        return got[0] == status and words in got[1]
    try:
        postern.wait_until("readyz", probe)
    except AssertionError:
        raise AssertionError("%s: wanted %d %r, got %r" % (
            program, status, words, got)) from None


def metrics(d, program):
    text = fetch(d, program, "metrics")[1]
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
            for line in text.splitlines() if line and line[0] != "#"}


def moves(d, program, name, test=lambda v: v > 0):
    try:
        return postern.wait_until(
            name, lambda: test(metrics(d, program).get(name, -1)))
    except AssertionError:
        raise AssertionError("%s: %s is %s" % (
            program, name, metrics(d, program).get(name))) from None


@pytest.fixture(scope="module")
def site():
    with Relaying() as d:
        d.start("postern-admin")
        d.start_worker()
        yield d


# -- what keeps a program from starting ---------------------------------------

def refusal(d, program):
    """What it says when it ends, which it has to."""
    p = d.start(program, wait=None)
    try:
        assert p.proc.wait(20) == 1
    finally:
        p.kill()
        d.programs.pop(program)
    p.reader.join(10)
    return " ".join(e["why"] for e in p.events
                    if e["event"] == "daemon.failed")


def test_a_gateway_that_cannot_start_ends():
    """A key that its workers cannot read: not ready and not gone would be
    noticed by nobody."""
    with postern.Deployment() as d:
        path = d.path("keys", "policy.key")
        with open(path, "r+") as f:
            f.write("damaged")
        why = refusal(d, "posternd")
        assert "policy.key" in why and "a worker cannot start" in why


@pytest.mark.parametrize("program", PROGRAMS)
def test_schema_out_of_range_is_refused(program):
    """Older than it needs, or contracted past what it knows."""
    with postern.Deployment() as d:
        d.sql("UPDATE d.schema_migration SET version = version - 1000")
        assert "posternctl migrate" in refusal(d, program)
        d.sql("UPDATE d.schema_migration SET version = version + 1000")
        last = d.sql("SELECT max(version) AS v FROM d.schema_migration")[0]
        # A later release expanded it: nothing is missing.
        d.sql("INSERT INTO d.schema_migration (version, name, sha256) VALUES "
              "(9000, 'later', sha256('x'))")
        assert d.start(program).stop() == 0
        d.sql("UPDATE d.schema_migration SET serves = %s WHERE version = "
              "9000", last["v"] + 1)
        assert "install the newer release" in refusal(d, program)


def test_a_running_program_says_that_the_schema_went_on(site):
    site.sql("UPDATE d.schema_migration SET serves = 9000 WHERE version = 1")
    try:
        for program in PROGRAMS:
            ready(site, program, 503, "too new")
    finally:
        site.sql("UPDATE d.schema_migration SET serves = 0")
    for program in PROGRAMS:
        ready(site, program, 200, "ready")


def test_the_schema_known_is_the_newest(site):
    """store.h says what the migrations built in are."""
    last = site.sql("SELECT max(version) AS v FROM d.schema_migration "
                    "WHERE serves = 0")[0]["v"]
    assert release.known(postern.TOP) == last
    names = {r["n"] for r in site.sql(
        "SELECT DISTINCT application_name AS n FROM pg_stat_activity "
        "WHERE application_name LIKE 'postern%'")}
    assert len(names) >= 3 and all(n.endswith(" schema=%d" % last) for n in names)


# -- a failover ---------------------------------------------------------------

def test_the_place_kept_is_one_that_a_standby_has(site):
    """While the synchronous standby is away the primary's log runs ahead of
    it. Who remembered that would refuse the standby once it took over."""
    path = site.path("state", "l_gateway.deployment")

    def place():
        with open(path) as f:
            return int(f.read().split()[5])

    def seen_again():
        now = os.stat(path).st_mtime_ns
        postern.wait_until("another look", lambda: os.stat(
            path).st_mtime_ns > now)

    def standby(names):
        site.sql("ALTER SYSTEM SET synchronous_standby_names = '%s'" % names)
        site.sql("SELECT pg_reload_conf()")
        postern.wait_until("the setting", lambda: site.sql(
            "SHOW synchronous_standby_names")[0][
                "synchronous_standby_names"] == names)
    standby("nobody")
    try:
        seen_again()
        before = place()
        site.sql("SELECT pg_switch_wal()")
        site.sql("CHECKPOINT")
        seen_again()
        seen_again()
        assert place() == before
        ready(site, "posternd", 200, "ready")
    finally:
        standby("")
    postern.wait_until("it moves", lambda: place() > before)


# -- readiness ----------------------------------------------------------------

def test_healthy(site):
    for program in PROGRAMS:
        ready(site, program, 200, "ready")
        assert fetch(site, program, "healthz") == (200, "ok\n")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"),
                    reason="network namespaces need root and ip")
def test_metrics_where_loopback_is_all_there_is(site):
    """A host whose network is not up yet, or never will be."""
    name = "pstlo%d" % os.getpid()
    subprocess.run(["ip", "netns", "add", name], check=True)
    p = None
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"],
                       check=True)
        p = Process("postern-deliver", [
            os.path.join(postern.build_dir(), "postern-deliver"), "-c",
            site.conf], site.user, net="/run/netns/" + name)
        p.wait("daemon.ready")
        said = subprocess.run(
            ["ip", "netns", "exec", name, "curl", "-sS",
             "http://127.0.0.1:%d/healthz" % (site.metrics_port + 2)],
            capture_output=True, text=True)
        assert said.stdout == "ok\n", said
        # And where it cannot: why.
        q = Process("postern-deliver", p.proc.args, site.user,
                    net="/run/netns/" + name)
        assert q.proc.wait(20) == 1
        q.reader.join(10)
        assert "metrics.listen: cannot listen on 127.0.0.1:%d: Address " \
            "already in use" % (site.metrics_port + 2) in q.wait(
                "daemon.failed")["why"]
    finally:
        if p is not None:
            p.stop()
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_few_partitions_are_not_ready(site):
    """D11: less than two weeks ahead; not one program forgets to look."""
    # This week and the next: one week ahead.
    third = site.sql("SELECT 'audit_' || to_char(d.monday(clock_timestamp()) "
                     "+ 14, 'YYYYMMDD') AS n")[0]["n"]
    site.sql("ALTER TABLE d.%s RENAME TO put_away" % third)
    try:
        for program in PROGRAMS:
            ready(site, program, 503, "posternctl maintain")
            moves(site, program, "postern_partitions_ahead_weeks",
                  lambda v: v == 1)
    finally:
        site.sql("ALTER TABLE d.put_away RENAME TO %s" % third)
    for program in PROGRAMS:
        ready(site, program, 200, "ready")
        moves(site, program, "postern_partitions_ahead_weeks")


def test_settings_that_lose_mail_are_not_ready(site):
    site.sql("ALTER ROLE l_worker SET synchronous_commit = off")
    try:
        for program in PROGRAMS:
            ready(site, program, 503, "could lose mail")
    finally:
        site.sql("ALTER ROLE l_worker RESET ALL")
    for program in PROGRAMS:
        ready(site, program, 200, "ready")


def test_redis_away_is_degraded(site):
    moves(site, "posternd", "postern_redis_up", lambda v: v == 1)
    site.redis.stop()
    for program in ("posternd", "postern-deliver"):
        ready(site, program, 200, "degraded: no Redis")
        moves(site, program, "postern_redis_up", lambda v: v == 0)
    ready(site, "postern-admin", 200, "ready")
    site.start_redis()
    for program in ("posternd", "postern-deliver"):
        ready(site, program, 200, "ready")
        moves(site, program, "postern_redis_up", lambda v: v == 1)


def test_database_away(site):
    site.postgres.stop(signal.SIGQUIT)
    for program in PROGRAMS:
        ready(site, program, 503, "database")
        assert fetch(site, program, "healthz")[0] == 200
    site.start_postgres()
    for c in site.connections.values():
        c.close()  # they died with it
    for program in PROGRAMS:
        ready(site, program, 200, "ready")


# -- metrics ------------------------------------------------------------------

DECLARED = re.compile(r"^STAT\((\w+), ([GADU |]+), (\w+), \"(\w+)\"", re.M)


def test_each_program_shows_its_metrics(site):
    """All of D19, each by the programs that base/stats.def names."""
    with open(os.path.join(postern.TOP, "base", "stats.def")) as f:
        declared = DECLARED.findall(f.read())
    assert len(declared) >= 19
    for program, letter in zip(PROGRAMS, "GAD"):
        text = fetch(site, program, "metrics")[1]
        shown = set(re.findall(r"^# TYPE postern_(\w+) ", text, re.M))
        assert shown == {name for _, who, _, name in declared
                         if letter in who}, program
    for name in ("sessions", "accepts_total", "auth_total",
                 "submissions_total", "submit_seconds", "commit_batch_rows",
                 "store_lost_total", "held", "held_oldest_seconds",
                 "decisions_total", "limit_total", "redis_up",
                 "attempts_total", "deliveries_total", "queue_due",
                 "uncertain", "audit_unsealed_seconds",
                 "partitions_ahead_weeks", "helper_kills_total"):
        assert name in {d[3] for d in declared}, name


def test_metrics_of_a_message(site):
    """Held, approved by a person, delivered: each step is counted."""
    gated = site.add_inbox("gated@acme.example")
    before = metrics(site, "posternd")
    mid = site.submit(box=gated)
    other = site.submit_rest(gated)
    m = metrics(site, "posternd")

    def grew(name, by=1):
        assert m[name] == before[name] + by, name
    grew("postern_accepts_total", 2)
    grew('postern_submissions_total{door="smtp",outcome="held"}')
    grew('postern_submissions_total{door="rest",outcome="held"}')
    grew("postern_submit_seconds_count", 2)
    grew("postern_commit_batch_rows_sum", 2)
    assert m["postern_submit_seconds_sum"] > before[
        "postern_submit_seconds_sum"]
    moves(site, "postern-deliver", "postern_held", lambda v: v == 2)
    moves(site, "postern-deliver", "postern_held_oldest_seconds")
    moves(site, "postern-deliver", "postern_audit_unsealed_seconds")
    ann = pages.Pages(site)
    assert ann.approve(mid) == 303
    assert ann.press(other, "decide", ann.form(other, "decide"), verdict="r",
                     category="other")[0] == 303
    m = metrics(site, "postern-admin")
    assert m['postern_decisions_total{verdict="approve"}'] == 1
    assert m['postern_decisions_total{verdict="reject"}'] == 1
    site.due(mid)
    site.wait_state(mid, "sent")
    moves(site, "postern-deliver", 'postern_attempts_total{class="2xx"}')
    moves(site, "postern-deliver",
          'postern_deliveries_total{result="delivered"}')
    moves(site, "postern-deliver", "postern_held", lambda v: v == 0)


def test_metrics_of_sessions_and_failed_sign_ins(site):
    before = metrics(site, "posternd")
    r = rawsmtp.signed_in(site, site.box)
    name = 'postern_sessions{proto="smtp",tls="1"}'
    moves(site, "posternd", name, lambda v: v == before[name] + 1)
    r.say("QUIT")
    moves(site, "posternd", name, lambda v: v == before[name])
    m = metrics(site, "posternd")
    assert m['postern_auth_total{result="ok"}'] == before[
        'postern_auth_total{result="ok"}'] + 1
    r = rawsmtp.secured(site)
    r.say("EHLO x")
    nobody = seals.token(site.box.tenant_id, 999, os.urandom(32))
    assert r.say("AUTH PLAIN " + rawsmtp.plain(
        site.box.address, nobody)).startswith("535")
    moves(site, "posternd", 'postern_auth_total{result="failed"}',
          lambda v: v > before['postern_auth_total{result="failed"}'])


def test_metrics_of_limits(site):
    """Refused by Redis' window; and, without Redis, judged locally."""
    box = site.add_inbox("narrow@acme.example")
    site.sql("UPDATE d.inbox SET lim_hour = 1, limits_version = "
             "limits_version + 1 WHERE inbox_id = %s", box.inbox_id)
    site.submit(box=box)
    with pytest.raises(AssertionError, match="rate_limited"):
        site.submit_rest(box)
    moves(site, "posternd",
          'postern_limit_total{window="hour",result="refused"}')
    full = site.add_inbox("full@acme.example")
    site.sql("UPDATE d.inbox SET lim_held = 1, limits_version = "
             "limits_version + 1 WHERE inbox_id = %s", full.inbox_id)
    site.sql("UPDATE d.quota SET held = 1 WHERE inbox_id = %s",
             full.inbox_id)
    with pytest.raises(AssertionError, match="held_limit"):
        site.submit_rest(full)
    moves(site, "posternd",
          'postern_limit_total{window="held",result="refused"}')
    site.redis.stop()
    try:
        ready(site, "posternd", 200, "no Redis")
        site.submit(box=site.add_inbox("local@acme.example"))
        moves(site, "posternd",
              'postern_limit_total{window="hour",result="local"}')
    finally:
        site.start_redis()
    ready(site, "posternd", 200, "ready")


def test_metrics_of_what_waits(site):
    """queue_due and uncertain are what the rows say."""
    site.mx.reset()
    site.programs["postern-deliver"].stop()
    mid = site.submit()
    site.sql("UPDATE d.send_q SET due_at = clock_timestamp() "
             "WHERE message_id = %s", mid)
    site.mx.script["dot"] = CLOSE
    site.start_worker()
    site.wait_state(mid, "uncertain")
    site.mx.script.clear()
    moves(site, "postern-deliver", "postern_uncertain", lambda v: v == 1)
    moves(site, "postern-deliver",
          'postern_deliveries_total{result="uncertain"}')


def test_lost_connections_are_counted(site):
    """A call is under way (it waits for a lock) when its backend dies."""
    before = metrics(site, "posternd")["postern_store_lost_total"]
    lock = site.connect()
    lock.autocommit = False
    with lock.cursor() as c:
        c.execute("LOCK TABLE d.credential IN ACCESS EXCLUSIVE MODE")
    r = rawsmtp.secured(site)
    r.say("EHLO x")
    r.send(b"AUTH PLAIN " + rawsmtp.plain(
        site.box.address, site.box.smtp_key).encode() + b"\r\n")
    try:
        postern.wait_until("a call waits", lambda: site.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
            "usename = 'l_gateway' AND wait_event_type = 'Lock'"))
    finally:
        lock.rollback()
        lock.close()
    moves(site, "posternd", "postern_store_lost_total",
          lambda v: v > before)
    ready(site, "posternd", 200, "ready")


def test_trace_finds_a_message_by_each_name(site):
    """ID, UUID, Message-ID and address lead to the same history."""
    password, session = site.path("password"), site.path("session")
    with open(password, "w") as f:
        f.write(site.operator_password + "\n")
    site.ctl("login", site.operator, "--password-file", password,
             session=session)
    box = site.add_inbox("traced@acme.example")
    site.set_mode(box, 4)
    mid = site.submit(rcpts=["once@dest.example"], box=box)
    site.wait_state(mid, "sent")
    rfc = site.sql("SELECT rfc_message_id AS i FROM d.message WHERE "
                   "message_id = %s", mid)[0]["i"]
    for name in (pages.public_id(mid), mid, rfc, "once@dest.example",
                 box.address):
        text = site.ctl("trace", name, session=session)
        assert pages.public_id(mid) in text or mid in text, (name, text)
        for word in ("submit", "sent"):
            assert word in text, (name, text)
    with pytest.raises(RuntimeError, match="nothing known"):
        site.ctl("trace", "never@dest.example", session=session)


def test_an_agents_subject_moves_no_terminal(site):
    """Neither control characters nor what turns text reach who looks."""
    box = site.add_inbox("turning@acme.example")
    mid = site.submit(box=box, raw=(
        "From: <@BOX@>\r\nTo: <ann@dest.example>\r\nSubject: =?utf-8?B?"
        "%s?=\r\n\r\nHello\r\n" % base64.b64encode(
            "n\u00e4chste \u202etnes\u202c \u2066x\u200f \u009b31m".encode()
        ).decode()).encode())
    text = site.signed_in("trace", mid)
    assert "n\u00e4chste ?tnes? ?x? \ufffd31m\n" in text, text
    many = site.submit(box=box, subject="two")
    assert many != mid
    assert "?tnes?" in site.signed_in("trace", box.address)


def test_a_reject_tells_what_stays(site):
    """What this person approved as the first of two is another's to reject."""
    box = site.add_inbox("half@acme.example")
    site.signed_in("inbox", "set", box.address, "--approvals", "2")
    mids = [site.submit(box=box, subject="n %d" % i) for i in range(3)]
    assert pages.Pages(site).approve(mids[0]) == 303
    why = pages.public_id(mids[0]) + " stays held: you approved it"
    with pytest.raises(RuntimeError, match=why):
        site.signed_in("reject", box.address, "--reason", "it loops")
    states = {m: site.sql("SELECT state AS s FROM d.state WHERE message_id "
                          "= %s", m)[0]["s"] for m in mids}
    assert states == {mids[0]: 1, mids[1]: 3, mids[2]: 3}


def test_trace_follows_it_through_every_log(site):
    """Gateway, pages and worker, and the database between them, by time."""
    box = site.add_inbox("followed@acme.example")
    mid = site.submit(box=box)
    other = site.submit(box=box, subject="Another")  # in its own session
    third = site.submit_rest(box)
    for m in (mid, third):
        assert pages.Pages(site).approve(m) == 303
        site.due(m)
        site.wait_state(m, "sent")
    folder = site.path("log")
    text = site.signed_in("--json", "trace", mid, "--logs", folder)
    said = json.loads(text[text.index("\n[") + 1:])  # first the message
    got = [(r["program"], r["event"]) for r in said]
    assert [r["at"] for r in said] == sorted(
        (r["at"] for r in said), key=lambda at: at.rstrip("Z")), said
    assert got[0] == ("posternd", "smtpd.accept"), said
    order = [("posternd", "smtpd.auth"), ("database", "message.submitted"),
             ("posternd", "smtpd.stored"), ("database", "message.approved"),
             ("postern-admin", "admin.decide"),
             ("postern-deliver", "deliver.claim"),
             ("postern-deliver", "deliver.dot"),
             ("postern-deliver", "deliver.result")]
    assert set(order) <= set(got), got
    assert ("posternd", "smtpd.close") in got
    # once each: nothing of the other message's session is in it
    assert len([x for x in got if x[1] == "smtpd.accept"]) == 1
    assert len([x for x in got if x[1] == "smtpd.stored"]) == 1
    assert pages.public_id(other) not in json.dumps(said)
    # a file, and standard input
    with open(site.path("log", "all.copy"), "wb") as out:
        for name in sorted(os.listdir(folder)):
            if name.endswith(".jsonl"):
                with open(os.path.join(folder, name), "rb") as f:
                    out.write(b"not of Postern: " + f.readline() + f.read())
    argv = [os.path.join(postern.build_dir(), "posternctl"), "-c", site.conf,
            "--session", site.path("session"), "trace", pages.public_id(third),
            "--logs"]
    from_file = subprocess.run([*argv, out.name], capture_output=True,
                               text=True, check=True).stdout
    with open(out.name, "rb") as f:
        assert subprocess.run([*argv, "-"], stdin=f, capture_output=True,
                              text=True, check=True).stdout == from_file
    os.unlink(out.name)
    for word in ("api.stored", "api.request", "admin.decide", "deliver.result",
                 "message.approved"):
        assert word in from_file, from_file
    assert "no such file" in site.signed_in(
        "trace", mid, "--logs", site.path("nowhere"), ok=False).lower()
    assert "follows one message" in site.signed_in(
        "trace", box.address, "--logs", folder, ok=False)


# -- the service manager ------------------------------------------------------

class Notify:
    """What systemd would be told."""
    number = itertools.count()

    def __init__(self, d):
        self.path = d.path("notify.%d" % next(self.number))
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(self.path)
        os.chmod(self.path, 0o777)
        self.sock.settimeout(20)

    def until(self, word):
        seen = []
        while word not in seen:
            seen += self.sock.recv(4096).decode().split("\n")
        return seen


@pytest.mark.parametrize("program", PROGRAMS)
def test_service_manager_is_told(site, program):
    site.programs.pop(program).stop()
    n = Notify(site)
    # WATCHDOG_PID is the program's own, which exec keeps.
    argv = ["/bin/sh", "-c", 'WATCHDOG_PID=$$ WATCHDOG_USEC=200000 '
            'exec "$0" -c "$1"',
            os.path.join(postern.build_dir(), program), site.conf]
    p = Process(program, argv, site.user, {"NOTIFY_SOCKET": n.path})
    site.programs[program] = p
    n.until("READY=1")
    n.until("WATCHDOG=1")
    n.until("WATCHDOG=1")
    mark = p.mark()
    p.send(signal.SIGHUP)
    n.until("RELOADING=1")
    n.until("READY=1")
    p.wait("daemon.reload", since=mark, level="info")
    p.send(signal.SIGTERM)
    n.until("STOPPING=1")
    assert p.proc.wait(65) == 0
    # Nobody but the main process spoke: not one word is left of a worker.
    n.sock.setblocking(False)
    left = set()
    try:
        while True:
            left |= set(n.sock.recv(4096).decode().split("\n"))
    except BlockingIOError:
        pass
    assert left <= {"WATCHDOG=1"}, left
    site.start(program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_reload_keeps_what_works(site, program):
    """A file that cannot be used changes nothing; a good one does."""
    p = site.programs[program]
    mark = p.mark()
    with open(site.conf, "a") as f:
        f.write("log { level = \"shout\" }\n")
    p.send(signal.SIGHUP)
    e = p.wait("daemon.reload", since=mark, level="error")
    assert "level" in e["why"] and site.conf in e["why"], e
    ready(site, program, 200, "ready")
    site.set_conf("log", level="error")
    p.send(signal.SIGHUP)
    # At that level the reload says nothing; a second one, back at info, does.
    mark = p.mark()
    site.set_conf("log", level="info")
    p.send(signal.SIGHUP)
    p.wait("daemon.reload", since=mark, level="info")


def test_reload_swaps_certificates_or_keeps_them(site):
    def serial(port):
        pem = subprocess.run(
            ["openssl", "s_client", "-connect", "127.0.0.1:%d" % port],
            input="", capture_output=True, text=True, timeout=20).stdout
        return subprocess.run(["openssl", "x509", "-noout", "-serial"],
                              input=pem, capture_output=True, text=True,
                              check=True).stdout
    ports = {"posternd": (site.smtps_port, site.api_port),
             "postern-admin": (site.admin_port,)}
    old = {x: serial(x) for ps in ports.values() for x in ps}
    cert = site.path("tls", "cert.pem")
    shutil.copy(cert, cert + ".good")
    with open(cert, "w") as f:
        f.write("not a certificate\n")
    for program in ports:
        p = site.programs[program]
        mark = p.mark()
        p.send(signal.SIGHUP)
        assert cert in p.wait("daemon.reload", since=mark,
                              level="error")["why"]
    assert {x: serial(x) for x in old} == old
    site._make_certificate()
    for program, its in ports.items():
        site.programs[program].send(signal.SIGHUP)
        for x in its:
            postern.wait_until("a new certificate",
                               lambda x=x: serial(x) != old[x])


# -- not the database it was (A15) --------------------------------------------

# All that work for a database, and under which login.
LOGIN_OF = {"posternd": "l_gateway", "postern-admin": "l_review",
            "postern-deliver": "l_worker", "posternctl": "l_seal"}


class Copies:
    """A deployment whose data folder is copied back and forth."""

    def __init__(self):
        self.d = postern.Deployment()
        self.d.add_tenant("acme", "acme.example")
        self.box = self.d.add_inbox("bot@acme.example")
        self.data = self.d.path("pg", "data")

    def work(self, text):
        """Something is submitted, and the programs see the log grow."""
        for program in LOGIN_OF:
            self.start(program).wait("daemon.ready")
        before = self.seen("l_gateway")
        r = rawsmtp.signed_in(self.d, self.box)
        assert rawsmtp.submit(r, self.box, text).startswith("250")
        r.say("QUIT")
        self.d.sql("CHECKPOINT")
        # the sealer looks at each start
        assert self.d.programs["posternctl"].stop() == 0
        self.start("posternctl").wait("daemon.ready")
        for login in LOGIN_OF.values():
            postern.wait_until("the log's place is kept", lambda: int(
                self.seen(login)[5]) > int(before[5]))
        for program in LOGIN_OF:
            assert self.d.programs[program].stop() == 0

    def seen(self, login):
        with open(self.d.path("state", login + ".deployment")) as f:
            return f.read().split()

    def copy(self, name):
        self.d.postgres.stop(signal.SIGINT)
        subprocess.run(["cp", "-a", self.data, self.d.path("pg", name)],
                       check=True)
        self.d.start_postgres()

    def put_back(self, name):
        self.d.postgres.stop(signal.SIGINT)
        shutil.rmtree(self.data)
        subprocess.run(["cp", "-a", self.d.path("pg", name), self.data],
                       check=True)

    def standby(self):
        """The stopped cluster comes up as a standby."""
        with open(os.path.join(self.data, "standby.signal"), "w"):
            pass
        os.chmod(self.data + "/standby.signal", 0o644)
        self.d.start_postgres()

    def promote(self):
        """It takes over."""
        self.d.sql("SELECT pg_promote()", database="postgres")
        postern.wait_until("it takes over", lambda: not self.d.sql(
            "SELECT pg_is_in_recovery() AS r", database="postgres")[0]["r"])

    def start(self, program):
        return self.d.start(program, wait=None, args=(
            ("seal", "--follow") if program == "posternctl" else ()))

    def why_not(self, program):
        """It does not start; what it says of that."""
        p = self.start(program)
        try:
            assert p.proc.wait(20) == 1
        finally:
            p.kill()
        p.reader.join(10)
        if program == "posternctl":
            return "\n".join(x for x in p.lines if x)
        return [e for e in p.events if e["event"] == "daemon.failed"][0]["why"]

    def refused(self, program, words):
        why = self.why_not(program)
        assert words in why and "restore-finish" in why, why
        assert LOGIN_OF[program] + ".deployment" in why  # what it is about


@pytest.fixture(scope="module")
def copies():
    c = Copies()
    yield c
    c.d.close()


def test_older_copy_is_refused(copies):
    """The same cluster as it was yesterday: what was 250 is gone."""
    copies.work("before the copy")
    copies.copy("yesterday")
    copies.work("after it")
    copies.d.postgres.stop(signal.SIGINT)
    os.rename(copies.data, copies.d.path("pg", "today"))
    subprocess.run(["cp", "-a", copies.d.path("pg", "yesterday"),
                    copies.data], check=True)
    copies.d.start_postgres()
    for program in LOGIN_OF:
        copies.refused(program, "an older copy of it")


def test_standby_is_refused(copies):
    """It can be read, but what is written to it is not there."""
    copies.put_back("yesterday")
    copies.standby()
    kept = {x: copies.seen(x) for x in LOGIN_OF.values()}
    for program in LOGIN_OF:
        assert "standby" in copies.why_not(program)
    assert {x: copies.seen(x) for x in LOGIN_OF.values()} == kept


def test_promoted_older_copy_is_refused(copies):
    """A replica that had not seen everything became the primary."""
    copies.promote()
    for program in LOGIN_OF:
        copies.refused(program, "committed work is lost")


def test_failover_without_loss_is_accepted(copies):
    """The history holds the old timeline; the switch lies behind it."""
    copies.put_back("today")
    copies.standby()
    copies.promote()
    for program, login in LOGIN_OF.items():
        p = copies.start(program)
        p.wait("daemon.failover", timeline=2)
        p.wait("daemon.ready")
        assert p.stop() == 0
        assert copies.seen(login)[4] == "2"
    p = copies.d.start("posternd")  # and only told once
    assert not any(e["event"] == "daemon.failover" for e in p.events)
    assert p.stop() == 0


@pytest.mark.parametrize("field,value,words", [
    (0, "00" * 16, "another deployment"),
    (1, "7", "restored from an older backup"),
    (2, "7", "restored from an older backup"),
    (3, "12345", "another cluster"),
    (4, "9", "an older timeline"),
])
@pytest.mark.parametrize("program", LOGIN_OF)
def test_other_databases_are_refused(copies, program, field, value, words):
    login = LOGIN_OF[program]
    path = copies.d.path("state", login + ".deployment")
    good = copies.seen(login)
    with open(path, "w") as f:
        f.write(" ".join(value if i == field else x
                         for i, x in enumerate(good)) + "\n")
    try:
        copies.refused(program, words)
        assert copies.seen(login)[field] == value  # not overwritten
    finally:
        with open(path, "w") as f:
            f.write(" ".join(good) + "\n")


@pytest.mark.parametrize("program", LOGIN_OF)
def test_damaged_file_is_not_taken_for_none(copies, program):
    path = copies.d.path("state", LOGIN_OF[program] + ".deployment")
    good = copies.seen(LOGIN_OF[program])
    with open(path, "w") as f:
        f.write("half a li")
    try:
        assert "damaged" in copies.why_not(program)
    finally:
        with open(path, "w") as f:
            f.write(" ".join(good) + "\n")


# -- units --------------------------------------------------------------------

UNITS = os.path.join(postern.TOP, "deploy", "systemd")
UNIT_OF = {"posternd": "postern-gateway", "postern-admin": "postern-admin",
           "postern-deliver": "postern-deliver",
           "postern-auth": "postern-auth"}
analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None,
                             reason="no systemd-analyze")


def unit(name):
    """Its lines as (key, value), in order."""
    with open(os.path.join(UNITS, name)) as f:
        return [tuple(x.rstrip("\n").split("=", 1)) for x in f if "=" in x
                and not x.startswith("#")]


def services():
    return sorted(x for x in os.listdir(UNITS) if x.endswith(".service"))


@analyze
def test_units_are_well_formed(tmp_path):
    """Nothing unknown, nothing misspelt; the programs are those built."""
    for name in os.listdir(UNITS):
        with open(os.path.join(UNITS, name)) as f:
            text = f.read()
        text = re.sub(r"^(ExecStart|ExecStartPost)=(\+?)/usr/s?bin/(?=postern)", r"\1=\2%s/"
                      % os.path.abspath(postern.build_dir()), text,
                      flags=re.M)
        text = re.sub(r"^Documentation=.*\n", "", text, flags=re.M)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no",
         *(str(tmp_path / n) for n in os.listdir(UNITS))],
        capture_output=True, text=True, timeout=60)
    said = [x for x in done.stderr.splitlines() if str(tmp_path) in x
            or "postern" in x]
    assert not said, said


@analyze
@pytest.mark.parametrize("name", services())
def test_units_are_hardened(name):
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20",
         "--no-pager", os.path.join(UNITS, name)],
        capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-400:] + done.stderr


def test_each_unit_is_its_own_user_with_its_own_keys():
    """SECURITY's table of keys, as the units hand them out."""
    got = {n: dict(unit(n)) for n in services()}
    users = [u["User"] for u in got.values()]
    assert len(set(users)) == len(users) and "root" not in users
    for u in got.values():
        assert u["LimitCORE"] == "0" and u["NoNewPrivileges"] == "yes"
        assert u["InaccessiblePaths"] == "-/etc/postern/keys"
    with open(os.path.join(postern.TOP, "SECURITY.md")) as f:
        table = dict(re.findall(r"^\| `([\w.]+\.key)` \| ([^|]+) \|",
                                f.read(), re.M))
    assert len(table) >= 5
    of = {"postern-gateway": "posternd", "postern-seal": "posternctl seal"}
    for key, holders in table.items():
        has = {of.get(n[:-8], n[:-8]) for n in services()
               if ("LoadCredential", "%s:/etc/postern/keys/%s" % (key, key))
               in unit(n)}
        assert has == set(re.findall(r"`([^`]+)`", holders)), key


def allowed(name):
    """The system calls that a unit's filter lets through."""
    def members(word):
        if not word.startswith("@"):
            return {word}
        out = subprocess.run(["systemd-analyze", "syscall-filter", word],
                             capture_output=True, text=True, check=True)
        found = set()
        for line in out.stdout.splitlines()[1:]:
            line = line.strip()
            if line and not line.startswith("#"):
                found |= members(line)
        return found
    calls = members("@default")
    for key, value in unit(name):
        if key != "SystemCallFilter":
            continue
        for word in value.lstrip("~").split():
            calls = calls - members(word) if value[0] == "~" \
                else calls | members(word)
    return calls


@analyze
def test_units_allow_what_programs_call():
    """Each program under strace, from its start through a message to its
    end; what it called stands in its unit's filter."""
    with Relaying() as d:
        d.programs.pop("posternd").stop()
        for program in UNIT_OF:
            p = Process(program, [
                "strace", "-f", "-qq", "-e", "signal=none", "-o",
                d.path("log", program + ".strace"),
                os.path.join(postern.build_dir(), program), "-c", d.conf],
                d.user)
            os.chmod(d.path("log"), 0o777)
            d.programs[program] = p
            p.wait("daemon.ready", timeout=60)
        d.worker = d.programs["postern-deliver"]
        gated = d.add_inbox("gated@acme.example")
        mid = d.submit(box=gated)
        d.submit_rest(gated)
        assert pages.Pages(d).approve(mid) == 303
        d.due(mid)
        d.wait_state(mid, "sent", timeout=60)
        said = subprocess.run([
            os.path.join(postern.build_dir(), "posternctl"), "-c", d.conf,
            "doctor"], capture_output=True, text=True, timeout=60).stdout
        assert "postern-auth: answers" in said, said
        for program in UNIT_OF:
            with open("/proc/%d/task/%d/children" % (
                    d.programs[program].pid, d.programs[program].pid)) as f:
                os.kill(int(f.read().split()[0]), signal.SIGTERM)
            assert d.programs[program].proc.wait(65) == 0
            with open(d.path("log", program + ".strace")) as f:
                called = set(re.findall(r"^\d+ +(\w+)\(", f.read(), re.M))
            assert "execve" in called and "epoll_wait" in called
            missing = called - allowed(UNIT_OF[program] + ".service")
            assert not missing, (program, missing)
