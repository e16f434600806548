# SPDX-License-Identifier: ISC
"""
Twelve things that break. For each: doctor names it, what its fix says is done
and works; with --full also a shipped alert fires in the real Prometheus, and
is over afterwards where it does not look back over some time.
"""
import json
import os
import re
import shutil
import signal
import ssl
import subprocess

import pytest

from tests.blackbox.test_backup import Drill
from tests.blackbox.test_operate import metrics
from tests.blackbox.test_watch import Prometheus
from tests.fake.mx import FakeMx
from tests.lib import postern
from tests.lib.process import Process, free_port
from tests.lib.relaying import PASSWORD, USER

FULL = os.environ.get("POSTERN_FULL") == "1" and shutil.which("prometheus")
CLOCK = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t c, struct timespec *t)
{
	int rc = (int)syscall(SYS_clock_gettime, c, t);
	if (c == CLOCK_REALTIME)
		t->tv_sec += 120;
	return rc;
}
time_t time(time_t *out)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (out)
		*out = t.tv_sec;
	return t.tv_sec;
}
"""


class Site(Drill):
    def __init__(self):
        self.small_disk = False
        super().__init__()
        self.audit_pub()
        self.start_sealer()
        self.start_names()
        self.set_conf("deliver", resolver=["127.0.0.1:%d" % self.dns_port],
                      smarthost="%s:%d" % (self.hostname, self.mx.port))
        self.programs.pop("postern-deliver").stop()
        self.start_worker()
        self.start("postern-auth")  # else one target is down all the time
        with open(self.path("phrase"), "w") as f:
            f.write("a phrase for the keys\n")
        self.ctl("backup", self.path("kept"), "--keys-only",
                 "--passphrase-file", self.path("phrase"))
        source = self.path("clock.c")
        with open(source, "w") as f:
            f.write(CLOCK)
        self._run(["gcc", "-shared", "-fPIC", "-o", self.path("clock.so"),
                   source])

    def _make_dirs(self):
        super()._make_dirs()
        self.small_disk = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m,mode=711", "tmpfs",
             self.path("state")], capture_output=True).returncode == 0
        if self.small_disk:
            self._own(self.path("state"))

    def close(self):
        if hasattr(self, "names"):
            self.names.kill()
        if self.small_disk and not self.closed:
            for p in list(self.programs.values()):
                p.kill()
            subprocess.run(["umount", "-l", self.path("state")])
        super().close()

    def start_sealer(self):
        self.programs["postern-seal"] = Process("postern-seal", [
            os.path.join(postern.build_dir(), "posternctl"), "-c", self.conf,
            "seal", "--follow"], self.user,
            log=self.path("log", "postern-seal.jsonl"))

    def start_names(self):
        """A name server, and the only one who knows the smarthost."""
        self.dns_port = getattr(self, "dns_port", None) or free_port()
        self.names = Process("dnsmasq", [
            shutil.which("dnsmasq") or "/usr/sbin/dnsmasq",
            "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv",
            "--no-hosts", "--port=%d" % self.dns_port, "--bind-interfaces",
            "--listen-address=127.0.0.1", "--user=", "--group=",
            "--pid-file=", "--log-facility=-",
            "--address=/%s/127.0.0.1" % self.hostname], self.user)
        postern.wait_until("the name server", lambda: any(
            "started" in (line or "") for line in self.names.lines))

    def reload(self):
        for program in ("posternd", "postern-admin"):
            mark = self.programs[program].mark()
            self.programs[program].send(signal.SIGHUP)
            self.programs[program].wait("daemon.reload", since=mark)

    def shown(self):
        """The certificates that clients are shown."""
        return {ssl.get_server_certificate(("127.0.0.1", port)).split()[2]
                for port in (self.api_port, self.admin_port)}

    def all_leave(self):
        """What waited is sent, once what it waited for is back; the worker
        is told, who asks once a minute."""
        self.programs["postern-deliver"].send(signal.SIGHUP)

        def none():
            self.sql("UPDATE d.send_q SET due_at = clock_timestamp() "
                     "WHERE lease IS NULL")
            self.wake()
            return not self.sql("SELECT 1 FROM d.send_q")
        postern.wait_until("an empty queue", none, 60, 0.2)
        assert not self.sql("SELECT 1 FROM d.state WHERE state IN (10, 11)")

    def doctor(self, **env):
        done = subprocess.run(
            [os.path.join(postern.build_dir(), "posternctl"), "-c",
             self.conf, "--json", "doctor"], capture_output=True, text=True,
            timeout=60, env={**os.environ, **env})
        return json.loads(done.stdout)

    def found(self, finding, **env):
        """Its worst level, and what it says to do."""
        rows = [x for x in self.doctor(**env) if x["finding"] == finding
                and "/var/lib/postgresql" not in x["detail"]]
        order = ["ok", "info", "warning", "error"]
        rows.sort(key=lambda x: order.index(x["level"]))
        return (rows[-1]["level"], rows[-1]["fix"]) if rows else ("ok", "")

    def as_superuser(self, *statements):
        su = self.connect()
        with su.cursor() as c:
            c.execute("SET session_replication_role = replica")
            for s in statements:
                c.execute(s)
        su.close()

    def several(self, n, seen):
        box = self.add_inbox("s%d@acme.example" % len(self.claimed))
        self.set_mode(box, 4)
        before = metrics(self, "postern-deliver")[seen]
        for _ in range(6):
            self.submit(box=box)

        def tried():
            """Again and again, as if the times between were over; a reload
            ends those for the next hop."""
            if not self.sql("SELECT 1 FROM d.send_q WHERE lease IS NOT NULL"):
                self.programs["postern-deliver"].send(signal.SIGHUP)
            self.sql("UPDATE d.send_q SET due_at = clock_timestamp() "
                     "WHERE lease IS NULL")
            self.wake()
            return metrics(self, "postern-deliver")[seen] >= before + n
        postern.wait_until("attempts that fail", tried, 60, 0.2)


@pytest.fixture(scope="module")
def d(tmp_path_factory):
    with Site() as site:
        if not FULL:
            yield site
            return
        site.prometheus = Prometheus(site, tmp_path_factory.mktemp("p"))
        try:
            yield site
        finally:
            site.prometheus.process.stop()


# Each: break it (and give what puts it right), the finding, the least level,
# words of its fix, the alert.

def redis(d):
    d.redis.stop()

    def fix():
        d.start_redis()
        d.redis_call("FUNCTION", "FLUSH")  # as a Redis that kept nothing
        level, says = d.found("redis")
        assert level == "error" and says == "posternctl redis load"
        d.ctl("redis", "load")
    return fix


def database(d):
    d.postgres.stop(signal.SIGQUIT)

    def fix():
        d.start_postgres()
        d.ctl("migrate")
    return fix


def disk(d):
    if not d.small_disk:
        pytest.skip("no file system of its own here")
    full = d.path("state", "full")
    with open(full, "wb") as f:
        try:
            f.write(b"x" * (2 << 20))
            f.flush()
        except OSError:
            pass
    return lambda: os.remove(full)


def certificate(d):
    cert = d.path("tls", "cert.pem")
    shutil.copy(cert, cert + ".good")
    d._run(["openssl", "x509", "-req", "-in", "req.pem", "-CA", "ca.pem",
            "-CAkey", "ca.key", "-CAcreateserial", "-days", "1", "-extfile",
            "ext", "-out", "cert.pem"], cwd=d.path("tls"))
    good = d.shown()
    d.reload()
    # the workers are told after posternd has said that it read its own
    postern.wait_until("the short certificate", lambda: len(
        d.shown()) == 1 and not d.shown() & good)

    def fix():
        os.replace(cert + ".good", cert)
        d.reload()
        postern.wait_until("the good one", lambda: d.shown() == good)
    return fix


def weeks_of(d):
    return d.sql("SELECT d.weeks_ahead() AS n")[0]["n"]


def partition(d):
    for r in d.sql("SELECT relname AS n FROM pg_class WHERE relname ~ "
                   "'^audit_[0-9]{8}$' AND relname > 'audit_' || to_char("
                   "d.monday(clock_timestamp()) + 7, 'YYYYMMDD')"):
        d.sql("DROP TABLE d." + r["n"])
    assert weeks_of(d) == 1

    def fix():
        d.ctl("maintain")
        assert weeks_of(d) >= 4
        d.submit(box=d.gated)
    return fix


def key_file(d):
    key = d.path("keys", "relay.key")
    os.rename(key, key + ".away")
    with open(key, "w") as f:
        f.write("postern-relay-key-1 nothing\n")
    os.chmod(key, 0o600)
    d._own(key)
    d.programs.pop("postern-deliver").stop()
    assert "relay.key" in d.refusal("postern-deliver")

    def fix():
        os.remove(key)
        d.ctl("restore", d.path("kept"), "--passphrase-file",
              d.path("phrase"))
        d.start_worker()
    return fix


def smarthost(d):
    port = d.mx.port
    d.mx.close()
    if FULL:
        d.several(6, 'postern_attempts_total{class="connect"}')

    def fix():
        d.mx = FakeMx(d.path("tls", "cert.pem"), d.path("tls", "key.pem"),
                      login=(USER, PASSWORD), port=port)
        d.mx.single = True  # so that each message asks for its name
        d.all_leave()
    return fix


def dns(d):
    d.names.stop()
    if FULL:
        d.several(40, 'postern_routes_total{result="later"}')

    def fix():
        d.start_names()
        d.all_leave()
    return fix


def clock(d):
    shim = {"LD_PRELOAD": d.path("clock.so")}
    d.programs.pop("postern-admin").stop()
    d.start("postern-admin", env=shim)
    d.shim = shim

    def fix():
        del d.shim
        d.programs.pop("postern-admin").stop()
        d.start("postern-admin")
    return fix


def sealer(d):
    d.programs.pop("postern-seal").kill()
    d.add_inbox("unsealed@acme.example")
    # As if that were a while ago.
    d.as_superuser("UPDATE d.audit SET at = at - interval '10 minutes' "
                   "WHERE n > (SELECT max(n) FROM d.audit_seal)")
    return d.start_sealer


def worker(d):
    d.programs.pop("postern-deliver").stop()
    return d.start_worker


def audit_chain(d):
    """Somebody who may do everything to the database changes a row of it."""
    if FULL:
        d.ctl("backup", d.path("whole"), "--passphrase-file",
              d.path("phrase"))
    n = d.sql("SELECT max(n) AS n FROM d.audit_seal")[0]["n"]
    d.as_superuser("UPDATE d.audit SET detail = detail || ' ' WHERE n = %d"
                   % n)

    def undone():
        d.as_superuser("UPDATE d.audit SET detail = rtrim(detail) WHERE "
                       "n = %d" % n)

    def fix():
        """As docs/backup.md has it under Restoring, after a copy."""
        d.backup("tampered")
        d.programs.pop("postern-seal").kill()
        d.stop_all()
        d.postgres.stop(signal.SIGINT)
        data = d.path("pg", "data")
        os.rename(data, data + ".tampered")
        d.ctl("restore", d.path("whole"), "--data", data, "--owner",
              d.user.pw_name if d.user else str(os.geteuid()),
              "--passphrase-file", d.path("phrase"))
        d.start_postgres()
        postern.wait_until("the end of recovery", lambda: not d.sql(
            "SELECT pg_is_in_recovery() AS r", database="postgres")[0]["r"])
        d.ctl("restore-finish", "--reason", "the audit log was changed")
        d.ctl("maintain")
        d.ctl("database", "verify", "--superuser", "postgres")
        for program in ("posternd", "postern-admin", "postern-auth"):
            d.start(program)
        d.start_worker()
        d.start_sealer()
        d.ctl("audit", "verify", "--head", d.path("state", "audit-heads"))
    return fix if FULL else undone  # a restore takes its time


# Those whose alerts look back over a time: they are over when that is.
LOOKS_BACK = ("PosternNextHopAway", "PosternNamesNotFound")
TABLE = [
    (redis, "redis", "error", "posternctl redis load", "PosternRedisDown"),
    (database, "database", "error", "start PostgreSQL", "PosternNotReady"),
    (disk, "disk", "error", "make room", "PosternDiskFull"),
    (certificate, "certificate", "error", "renewed", "PosternCertificateEnds"),
    (partition, "partitions", "error", "posternctl maintain",
     "PosternPartitionsEnd"),
    (key_file, "key files", "error", "posternctl restore", "PosternDown"),
    (clock, "clock", "error", "NTP", "PosternClockWrong"),
    (sealer, "sealer", "error", "postern-seal", "PosternAuditNotSealed"),
    (worker, "postern-deliver", "warning", "systemctl start postern-deliver",
     "PosternDown"),
    (smarthost, "smarthost", "error", "deliver.smarthost",
     "PosternNextHopAway"),
    (dns, "dns", "error", "resolver", "PosternNamesNotFound"),
    # Last: after a restore nothing is as it was.
    (audit_chain, "audit log", "error", "restore", "PosternAuditBroken"),
]


@pytest.mark.parametrize("case", TABLE, ids=[c[0].__name__ for c in TABLE])
def test_named_and_put_right(d, case):
    breaks, finding, level, words, alert = case
    assert d.found(finding)[0] in ("ok", "info"), d.doctor()
    if FULL:
        d.prometheus.over(alert)
    fix = breaks(d)
    try:
        got, says = d.found(finding, **getattr(d, "shim", {}))
        assert got == level, d.doctor()
        assert words in says, says
        if FULL:
            d.prometheus.fires(alert)
    finally:
        fix()
    postern.wait_until(finding + " is well again", lambda: d.found(
        finding)[0] in ("ok", "info"))
    if FULL and alert not in LOOKS_BACK:
        d.prometheus.over(alert)


def test_an_old_backup_is_named(d):
    last = d.path("state", "last-backup")
    assert d.found("backup") == (
        "ok", "posternctl backup; then see why it was not run")
    then = os.stat(last).st_mtime - 9 * 86400
    os.utime(last, (then, then))
    assert d.found("backup")[0] == "warning"
    os.remove(last)
    assert d.found("backup")[0] == "info"
    d.ctl("backup", d.path("again"), "--keys-only", "--passphrase-file",
          d.path("phrase"))
    assert d.found("backup")[0] == "ok"


def test_every_alert_of_the_table_is_shipped():
    with open(os.path.join(postern.TOP, "deploy", "prometheus",
                           "postern.rules.yml")) as f:
        shipped = set(re.findall(r"alert: (\w+)", f.read()))
    assert {c[4] for c in TABLE} <= shipped
    assert len({c[0] for c in TABLE}) == 12
