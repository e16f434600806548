# SPDX-License-Identifier: ISC
"""
What deploy/ ships for watching, used by the real Prometheus: it scrapes the
real programs by our scrape file, takes the alert rules, answers every query
of the dashboard, and sees what we break.
"""
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest

from tests.lib import postern
from tests.lib.process import Process, free_port
from tests.lib.relaying import Relaying

DEPLOY = os.path.join(postern.TOP, "deploy")
RULES = os.path.join(DEPLOY, "prometheus", "postern.rules.yml")
CASES = os.path.join(postern.TOP, "tests", "cases", "prometheus",
                     "alerts.test.yml")
pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="no prometheus")


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as f:
        return f.read()


def alerts():
    return re.findall(r"^ +- alert: (\w+)", read(RULES), re.M)


class Prometheus:
    """On the targets of deploy/prometheus/prometheus.yml, moved to a
    deployment's ports; it looks twice a second instead of every 15."""

    def __init__(self, d, folder):
        text = read(DEPLOY, "prometheus", "prometheus.yml")
        for i, port in enumerate((9580, 9581, 9582, 9583)):
            assert text.count("127.0.0.1:%d" % port) == 1
            text = text.replace("127.0.0.1:%d" % port,
                                "127.0.0.1:%d" % (d.metrics_port + i))
        text, n = re.subn(r"_interval: 15s", "_interval: 500ms", text)
        assert n == 2
        (folder / "prometheus.yml").write_text(text)
        # How long it has to last is what the cases of promtool are about.
        rules, n = re.subn(r"\bfor: \d+m$", "for: 1s", read(RULES),
                           flags=re.M)
        assert n > 10
        (folder / os.path.basename(RULES)).write_text(rules)
        self.port = free_port()
        self.process = Process("prometheus", [
            "prometheus", "--config.file=%s/prometheus.yml" % folder,
            "--storage.tsdb.path=%s/data" % folder,
            "--web.listen-address=127.0.0.1:%d" % self.port])
        postern.wait_until("Prometheus", self.is_ready, 30)

    def is_ready(self):
        try:
            self.fetch("/-/ready")
            return True
        except OSError:
            assert self.process.alive()
            return False

    def fetch(self, path, **query):
        with urllib.request.urlopen("http://127.0.0.1:%d%s?%s" % (
                self.port, path, urllib.parse.urlencode(query)),
                timeout=10) as f:
            return f.read()

    def query(self, expr):
        try:
            body = self.fetch("/api/v1/query", query=expr)
        except urllib.error.HTTPError as e:
            raise AssertionError("%s: %s" % (expr, e.read())) from None
        return json.loads(body)["data"]["result"]

    def rules(self):
        groups = json.loads(self.fetch("/api/v1/rules"))["data"]["groups"]
        return {r["name"]: r for g in groups for r in g["rules"]}

    def seen(self, alert, **labels):
        """Wait until it is pending or firing, with these labels."""
        return postern.wait_until(alert, lambda: [
            a for a in self.rules()[alert]["alerts"]
            if labels.items() <= a["labels"].items()], 30, 0.1)

    def fires(self, alert):
        """Wait until it would tell a person."""
        postern.wait_until(alert + " fires", lambda: any(
            a["state"] == "firing" for a in self.rules()[alert]["alerts"]),
            60, 0.1)

    def over(self, alert):
        postern.wait_until("end of " + alert, lambda: not self.rules()[
            alert]["alerts"], 30, 0.1)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with Relaying() as d:
        d.start("postern-auth")
        d.start("postern-admin")
        d.start_worker()
        mid = d.submit()
        d.wait_state(mid, "sent")
        d.prometheus = Prometheus(d, tmp_path_factory.mktemp("prometheus"))
        try:
            yield d
        finally:
            d.prometheus.process.stop()


def test_rules_are_accepted():
    done = subprocess.run(["promtool", "check", "rules", RULES],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "%d rules found" % len(alerts()) in done.stdout


def test_each_alert_fires_in_a_case():
    named = set(re.findall(r'alertname="(\w+)"', read(CASES)))
    assert set(alerts()) == named
    done = subprocess.run(["promtool", "test", "rules", CASES],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_case_can_fail(tmp_path):
    """With a rule that never fires the same cases do not pass."""
    text, n = re.subn(r"expr: up\{job=\"postern\"\} == 0",
                      'expr: up{job="postern"} == 5', read(RULES))
    assert n == 1
    (tmp_path / "postern.rules.yml").write_text(text)
    (tmp_path / "t.yml").write_text(re.sub(
        r"rule_files: .*", "rule_files: [postern.rules.yml]", read(CASES)))
    done = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "t.yml")],
        capture_output=True, text=True)
    assert done.returncode != 0 and "PosternDown" in done.stdout + done.stderr


def test_fixes_name_what_exists():
    """Every alert has a severity and a fix; log events, commands and
    documents in it are real ones."""
    parts = re.split(r"^ +- alert: ", read(RULES), flags=re.M)[1:]
    events = set(re.findall(r'^LOG_EVENT\("([\w.]+)"',
                            read(postern.TOP, "base", "log.def"), re.M))
    commands = set(re.findall(r'^\t\{ "([a-z ]+)"',
                              read(postern.TOP, "ctl", "commands.c"), re.M))
    assert len(events) > 30 and len(commands) > 30
    for part in parts:
        name = part.split("\n")[0]
        assert re.search(r"severity: (page|ticket)\}", part), name
        assert "summary:" in part, name
        fix = re.search(r'fix: "(.*)"', part).group(1)
        for e in re.findall(
                r"\b((?:daemon|smtpd|store|helper|deliver|audit)\.\w+)", fix):
            assert e in events, (name, e)
        for words in re.findall(r"posternctl ([a-z]+(?: [a-z]+)?)", fix):
            assert words in commands or words.split()[0] in commands, words
        for path in re.findall(r"\b((?:docs|deploy)/[\w./-]*\w)", fix):
            assert os.path.exists(os.path.join(postern.TOP, path)), path


def test_targets_answer_and_all_metrics_exist(site):
    p = site.prometheus
    postern.wait_until("four targets", lambda: len(
        p.query('up{job="postern"} == 1')) == 4)
    assert {r["metric"]["program"] for r in p.query(
        'postern_ready{job="postern"} == 1')} == {
        "posternd", "postern-admin", "postern-deliver", "postern-auth"}
    names = set(re.findall(r"\bpostern_\w+", "".join(
        x for x in (read(RULES), read(DEPLOY, "grafana", "postern.json")))))
    assert len(names) >= 18
    for name in names:
        assert p.query("count(%s{job=\"postern\"})" % name), name
    declared = set(re.findall(r'^STAT\(\w+, [^"]*"(\w+)"', read(
        postern.TOP, "base", "stats.def"), re.M))
    shown = {re.sub(r"_(bucket|sum|count)$", "", n[8:]) for n in names}
    assert declared == shown  # each metric is watched or drawn


def test_all_of_a_persons_passkeys_fit_an_answer(site):
    """As many as one may have, each with an id as long as it may be: the
    question by which they sign in must not end postern-auth for all."""
    d, secret, n = site, os.urandom(32), 32
    who = d.sql("""INSERT INTO d.operator (name, salt, params, verifier,
        passkeys) VALUES ('collector', decode(repeat('00', 16), 'hex'),
        'argon2id m=19456 t=2 p=1', sha256('x'), %s)
        RETURNING operator_id""", n)[0]["operator_id"]
    d.sql("""INSERT INTO d.operator_factor (operator_id, kind, label,
        credential, public_key, proof, confirmed_at) SELECT %s, 'p', 'key',
        decode(repeat(lpad(to_hex(i), 2, '0'), 1023), 'hex'), %s, %s, now()
        FROM generate_series(1, %s) i""", who, b"k" * 91, b"p" * 64, n)
    d.sql("""INSERT INTO d.operator_session (session_sha256, operator_id,
        expires_at) VALUES (%s, %s, now() + '1 hour')""",
          hashlib.sha256(secret).digest(), who)
    fields = b"".join(struct.pack(">I", len(x)) + x for x in (
        b"challenge", secret, b"i"))
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(d.path("state", "auth.sock"))
        s.sendall(struct.pack(">I", len(fields)) + fields)
        got = b"".join(iter(lambda: s.recv(65536), b""))
    assert d.programs["postern-auth"].alive()
    assert got[8:11] == b"200" and got.count(b"\0\0\x03\xff") == n
    d.sql("UPDATE d.operator_session SET ended_at = now() "
          "WHERE operator_id = %s", who)


def test_rules_run_and_are_quiet(site):
    p = site.prometheus
    rules = postern.wait_until("all evaluated", lambda: (lambda r: r if all(
        x["health"] == "ok" for x in r.values()) else None)(p.rules()))
    assert set(rules) == set(alerts())
    postern.wait_until("quiet", lambda: not any(
        r["alerts"] for r in p.rules().values()))


def test_dashboard_draws(site):
    """Every query of it has an answer (a ratio may still lack a sample)."""
    board = json.loads(read(DEPLOY, "grafana", "postern.json"))
    panels = [x for x in board["panels"] if x["type"] != "row"]
    assert len(panels) > 15
    assert len({x["id"] for x in board["panels"]}) == len(board["panels"])
    taken = set()
    for panel in panels:
        assert panel["title"] and panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"
        g = panel["gridPos"]
        cells = {(x, y) for x in range(g["x"], g["x"] + g["w"])
                 for y in range(g["y"], g["y"] + g["h"])}
        assert not cells & taken and g["x"] + g["w"] <= 24, panel["title"]
        taken |= cells
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", "1m")
            postern.wait_until(
                "%s: %s" % (panel["title"], expr),
                lambda expr=expr: site.prometheus.query(expr), 20, 0.1)


# -- what is broken is seen ---------------------------------------------------

def test_what_breaks_beside_each_other_is_seen(site):
    """Redis is away, a program has ended, partitions run out (two weeks are
    still ready, but somebody should know), and nobody decides."""
    p = site.prometheus
    box = site.add_inbox("slow@acme.example")
    site.set_mode(box, 2)
    mid = site.submit(box=box)
    fourth = site.sql("SELECT 'audit_' || to_char(d.monday(clock_timestamp()) "
                      "+ 21, 'YYYYMMDD') AS n")[0]["n"]
    age = ("UPDATE d.state SET changed_at = clock_timestamp() - %s::interval "
           "WHERE message_id = %s")
    site.sql(age, "5 h", mid)
    site.sql("ALTER TABLE d.%s RENAME TO put_away" % fourth)
    site.redis.stop()
    assert site.programs["postern-admin"].stop() == 0
    assert len(p.seen("PosternDown", program="postern-admin")) == 1
    for program in ("posternd", "postern-deliver"):
        p.seen("PosternRedisDown", program=program)
    p.seen("PosternPartitionsEnd")
    p.seen("PosternHeldLong")
    site.sql(age, "0 h", mid)
    site.sql("ALTER TABLE d.put_away RENAME TO %s" % fourth)
    site.start_redis()
    site.start("postern-admin")
    for alert in ("PosternDown", "PosternRedisDown", "PosternPartitionsEnd",
                  "PosternHeldLong"):
        p.over(alert)


def test_database_away_is_seen(site):
    site.postgres.stop(signal.SIGQUIT)
    for program in ("posternd", "postern-admin", "postern-deliver"):
        site.prometheus.seen("PosternNotReady", program=program)
    site.start_postgres()
    for c in site.connections.values():
        c.close()
    site.prometheus.over("PosternNotReady")
