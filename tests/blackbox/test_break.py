# SPDX-License-Identifier: ISC
"""
Twelve things that break. For each: doctor names it, what its fix says is done
and works; with --full also a shipped alert (of all but DNS) is seen in the
real Prometheus.
"""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from tests.blackbox.test_backup import Drill
from tests.blackbox.test_operate import metrics
from tests.blackbox.test_watch import Prometheus
from tests.fake.mx import FakeMx
from tests.lib import postern
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
        self.seal()
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
        if self.small_disk and not self.closed:
            for p in list(self.programs.values()):
                p.kill()
            subprocess.run(["umount", "-l", self.path("state")])
        super().close()

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

    def several(self, n=6):
        box = self.add_inbox("s%d@acme.example" % len(self.claimed))
        self.set_mode(box, 4)
        before = metrics(self, "postern-deliver")[
            'postern_attempts_total{class="connect"}']
        for _ in range(n):
            self.submit(box=box)

        def tried():
            """Again and again, as if the times between were over."""
            self.sql("UPDATE d.send_q SET due_at = clock_timestamp() "
                     "WHERE lease IS NULL")
            self.wake()
            return metrics(self, "postern-deliver")[
                'postern_attempts_total{class="connect"}'] >= before + n
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
    return d.start_redis


def database(d):
    d.postgres.stop(signal.SIGQUIT)
    return d.start_postgres


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
    return lambda: os.replace(cert + ".good", cert)


def partition(d):
    for r in d.sql("SELECT relname AS n FROM pg_class WHERE relname ~ "
                   "'^audit_[0-9]{8}$' ORDER BY 1 OFFSET 3"):
        d.sql("DROP TABLE d." + r["n"])
    return lambda: d.ctl("maintain")


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
        d.several()

    def fix():
        d.mx = FakeMx(d.path("tls", "cert.pem"), d.path("tls", "key.pem"),
                      login=(USER, PASSWORD), port=port)
    return fix


def dns(d):
    was = d.extra["deliver"]["smarthost"]
    d.set_conf("deliver", smarthost="no-such-host.invalid:25")
    d.worker.send(signal.SIGHUP)

    def fix():
        d.set_conf("deliver", smarthost=was)
        d.worker.send(signal.SIGHUP)
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
    d.add_inbox("unsealed@acme.example")
    d.as_superuser("UPDATE d.audit SET at = at - interval '10 minutes' "
                   "WHERE n > (SELECT max(n) FROM d.audit_seal)")
    return d.seal


def worker(d):
    d.programs.pop("postern-deliver").stop()
    return d.start_worker


def audit_chain(d):
    d.as_superuser("UPDATE d.audit SET detail = detail || ' ' WHERE n = "
                   "(SELECT max(n) FROM d.audit_seal)")
    return lambda: d.as_superuser(
        "UPDATE d.audit SET detail = rtrim(detail) WHERE n = "
        "(SELECT max(n) FROM d.audit_seal)")


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
    (audit_chain, "audit log", "error", "restore", "PosternAuditBroken"),
    (worker, "postern-deliver", "warning", "systemctl start postern-deliver",
     "PosternDown"),
    # A name that is not found is no attempt yet, so no alert counts it.
    (dns, "dns", "error", "resolver", None),
    (smarthost, "smarthost", "error", "deliver.smarthost",
     "PosternNextHopAway"),
]


@pytest.mark.parametrize("case", TABLE, ids=[c[0].__name__ for c in TABLE])
def test_named_and_put_right(d, case):
    breaks, finding, level, words, alert = case
    assert d.found(finding)[0] in ("ok", "info"), d.doctor()
    fix = breaks(d)
    try:
        got, says = d.found(finding, **getattr(d, "shim", {}))
        assert got == level, d.doctor()
        assert words in says, says
        if FULL and alert:
            d.prometheus.seen(alert)
    finally:
        fix()
    postern.wait_until(finding + " is well again", lambda: d.found(
        finding)[0] in ("ok", "info"))


def test_every_alert_of_the_table_is_shipped():
    with open(os.path.join(postern.TOP, "deploy", "prometheus",
                           "postern.rules.yml")) as f:
        shipped = set(re.findall(r"alert: (\w+)", f.read()))
    assert {c[4] for c in TABLE if c[4]} <= shipped
    assert len(TABLE) == 12
