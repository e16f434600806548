# SPDX-License-Identifier: ISC
"""
kill -9 of PostgreSQL, Redis and a posternd worker at seeded moments under
load: every message that got its 250 is there once, in a legal state, and
nothing was approved by that. --full kills at 30 moments, else at 3.
"""
import os
import random
import signal
import smtplib
import ssl
import threading

import pytest

from tests.lib import postern

SEED = int(os.environ.get("POSTERN_SEED", "1"))
MOMENTS = 10 if os.environ.get("POSTERN_FULL") == "1" else 1
HELD = 1


class Client(threading.Thread):
    """Sends one message after another and keeps what was acknowledged."""

    def __init__(self, d, box, number):
        super().__init__(daemon=True)
        self.d, self.box, self.number = d, box, number
        self.acknowledged, self.errors = [], 0
        self.stop = threading.Event()
        self.tls = ssl.create_default_context(cafile=d.ca_file)

    def run(self):
        n = 0
        while not self.stop.is_set():
            try:
                with smtplib.SMTP("127.0.0.1", self.d.smtp_port,
                                  timeout=30) as s:
                    s._host = "localhost"
                    s.starttls(context=self.tls)
                    s.login(self.box.address, self.box.smtp_key)
                    for _ in range(10):
                        n += 1
                        self.send(s, n)
            except (OSError, smtplib.SMTPException):
                self.errors += 1
                self.stop.wait(0.05)

    def send(self, s, n):
        mid = "<%d.%d@kill.test>" % (self.number, n)
        s.sendmail(self.box.address, ["someone@example.net"],
                   "From: <%s>\r\nTo: <someone@example.net>\r\n"
                   "Message-ID: %s\r\nSubject: kill\r\n\r\n%s\r\n" % (
                       self.box.address, mid, "x" * 70))
        self.acknowledged.append(mid)


@pytest.fixture
def d():
    with postern.Deployment(workers=2) as deployment:
        deployment.add_tenant("acme", "acme.example")
        deployment.boxes = [deployment.add_inbox("bot%d@acme.example" % i)
                            for i in range(4)]
        deployment.sql("UPDATE d.inbox SET lim_hour = 1000000, lim_day = "
                       "1000000, lim_month = 1000000, lim_held = 1000000")
        deployment.start("posternd")
        yield deployment


def kill_postgres(d, rng):
    os.kill(d.postgres.pid, signal.SIGKILL)
    d.restart_postgres()


def kill_redis(d, rng):
    os.kill(d.redis.pid, signal.SIGKILL)
    d.redis.proc.wait()
    if os.path.exists(d.redis_socket):
        os.unlink(d.redis_socket)
    d.start_redis()


def kill_worker(d, rng):
    pid = d.programs["posternd"].pid
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        workers = f.read().split()
    assert workers
    os.kill(int(rng.choice(workers)), signal.SIGKILL)


@pytest.mark.parametrize("moment", range(MOMENTS))
@pytest.mark.parametrize("kill", [kill_postgres, kill_redis, kill_worker])
def test_what_was_acknowledged_is_there_once(d, kill, moment):
    rng = random.Random("%d %s %d" % (SEED, kill.__name__, moment))
    clients = [Client(d, d.boxes[i % 4], i) for i in range(8)]
    for c in clients:
        c.start()

    def sent():
        return sum(len(c.acknowledged) for c in clients)
    first = rng.randrange(20, 120)
    postern.wait_until("mail to flow", lambda: sent() >= first, 60)
    kill(d, rng)
    after = sent() + 40
    postern.wait_until("mail to flow again", lambda: sent() >= after, 90)
    for c in clients:
        c.stop.set()
    for c in clients:
        c.join(60)
        assert not c.is_alive()
    rows = d.sql("SELECT m.rfc_message_id AS id, s.state, s.round FROM "
                 "d.message m JOIN d.state s USING (message_id, tenant_id)")
    ids = [r["id"] for r in rows]
    missing = [m for c in clients for m in c.acknowledged if m not in ids]
    assert not missing
    doubled = [m for c in clients for m in c.acknowledged
               if ids.count(m) != 1]
    assert not doubled
    assert {(r["state"], r["round"]) for r in rows} == {(HELD, 1)}
    assert d.sql("SELECT count(*) AS n FROM d.release")[0]["n"] == 0
