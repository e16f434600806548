# SPDX-License-Identifier: ISC
"""
The gateway's store without a door (tests/store/drive) against a real
PostgreSQL and Redis: what was said to be stored is there, once, whatever
dies meanwhile.
"""
import json
import os
import random
import re
import signal
import subprocess
import threading

import pytest

from ..lib import postern
from .resp import Redis

SEED = int(os.environ.get("POSTERN_SEED", "1"))
FULL = os.environ.get("POSTERN_FULL") == "1"
BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"


def uuid_of(text):
    """msg_<26 base32> to the form PostgreSQL writes."""
    n = 0
    for c in text[4:]:
        n = n << 5 | BASE32.index(c)
    h = "%032x" % n
    return "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:]))


class Run:
    """One run of the driver, its outcomes counted as they come."""

    def __init__(self, d, keys, count, size, concurrency):
        path = d.path("keys-%d.txt" % random.getrandbits(40))
        with open(path, "w") as f:
            f.writelines(k + "\n" for k in keys)
        os.chmod(path, 0o644)
        drive = os.environ.get("POSTERN_DRIVE") or os.path.join(
            postern.build_dir(), "tests", "store", "drive")
        self.proc = subprocess.Popen(
            d.as_user([drive, d.conf, path, str(count), str(size),
                       str(concurrency)]), stdout=subprocess.PIPE, text=True)
        self.stored, self.refused, self.summary = [], [], None
        self.state = {}  # as answered
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.proc.stdout:
            word = line.split()
            with self.changed:
                if word[0] == "stored":
                    self.stored.append(uuid_of(word[1]))
                    self.state[uuid_of(word[1])] = int(word[2])
                elif word[0] == "refused":
                    self.refused.append(word[1])
                else:
                    self.summary = json.loads(line)
                self.changed.notify_all()

    def until(self, outcomes):
        with self.changed:
            assert self.changed.wait_for(
                lambda: len(self.stored) + len(self.refused) >= outcomes
                or self.summary, 60)

    def end(self, timeout=120):
        assert self.proc.wait(timeout) == 0
        self.reader.join()
        return self.summary


@pytest.fixture
def d():
    with postern.Deployment() as deployment:
        deployment.add_tenant("acme", "acme.example")
        deployment.add_tenant("beta", "beta.example")
        yield deployment


def inboxes(d, n, limit=10 ** 8):
    out = [d.add_inbox("bot%d@%s.example" % (i, s), s)
           for i in range(n // 2) for s in ("acme", "beta")]
    d.sql("UPDATE d.inbox SET lim_hour = %s, lim_day = 100000000, "
          "lim_month = 1000000000, lim_held = 1000000000, "
          "lim_bytes = 1000000000000", limit)
    return out


def complete(d, run):
    """Every message said to be stored is there once, held, with its body."""
    rows = d.sql(
        "SELECT m.message_id::text AS id, m.version, s.state, m.chunks, "
        "(SELECT count(*) FROM d.body b WHERE b.message_id = m.message_id) "
        "AS bodies FROM d.message m JOIN d.state s "
        "USING (message_id, tenant_id)")
    there = {r["id"]: r for r in rows}
    assert len(there) == len(rows)
    assert len(set(run.stored)) == len(run.stored)
    missing = [i for i in run.stored if i not in there]
    assert not missing
    assert all(r["state"] == 1 and r["bodies"] == r["chunks"] for r in rows)
    return there


def test_many_inboxes_each_message_once(d):
    keys = [b.smtp_key for b in inboxes(d, 10)]
    run = Run(d, keys, 2000, 4096, 64)
    assert run.end()["stored"] == 2000
    assert len(complete(d, run)) == 2000


def test_no_batch_waits_for_the_one_beside_it():
    """Decision 0026: the server would log each wait for another's rows."""
    with postern.Deployment(pg={"log_lock_waits": "on",
                                "deadlock_timeout": "1ms"}) as d:
        for s in ("acme", "beta"):
            d.add_tenant(s, s + ".example")
        keys = [b.smtp_key for b in inboxes(d, 10)]
        run = Run(d, keys, 3000, 4096, 200)
        assert run.end()["stored"] == 3000
        with open(d.path("log", "postgres.log")) as f:
            waits = [w for w in f if "still waiting for ShareLock" in w]
        assert waits == []


def test_held_and_released_rows_of_one_batch_keep_their_answers(d):
    boxes = inboxes(d, 4)
    for box in boxes[:2]:
        d.set_mode(box, 4)
    run = Run(d, [b.smtp_key for b in boxes], 400, 1024, 32)
    assert run.end()["stored"] == 400
    rows = d.sql("SELECT message_id::text AS id, state FROM d.state")
    assert {r["id"]: r["state"] for r in rows} == run.state
    assert sorted(set(run.state.values())) == [1, 2]


def test_bodies_of_usual_size_share_commits(d):
    """A commit of its own for each costs four times as much (0032)."""
    keys = [b.smtp_key for b in inboxes(d, 10)]
    run = Run(d, keys, 600, 64 * 1024, 64)
    assert run.end()["stored"] == 600
    complete(d, run)
    bytes_, commits = d.sql(
        "SELECT min(octet_length(data)) AS n, count(DISTINCT xmin::text) AS c "
        "FROM d.body")[0].values()
    assert bytes_ > 32 * 1024  # else packing has made them small
    assert commits < 150


def test_large_bodies_are_streamed_in_bounded_memory(d):
    keys = [b.smtp_key for b in inboxes(d, 4)]
    small = Run(d, keys, 4, 4096, 1).end()["maxrss_kb"]
    run = Run(d, keys, 6, 50 * 1024 * 1024 - 8192, 6)
    summary = run.end(300)
    assert summary["stored"] == 6, run.refused
    complete(d, run)
    # D7: 1 MiB an upload and 32 MiB a worker
    assert summary["maxrss_kb"] - small < (6 + 32) * 1024


@pytest.mark.parametrize("seed", range(5 if FULL else 1))
def test_killed_backends_lose_and_double_nothing(d, seed):
    rng = random.Random(SEED * 100 + seed)
    keys = [b.smtp_key for b in inboxes(d, 10)]
    run = Run(d, keys, 4000, 4096, 40)
    for i in range(12):
        run.until(150 + 280 * i + rng.randrange(200))
        pids = [r["pid"] for r in d.sql(
            "SELECT pid FROM pg_stat_activity WHERE usename = 'l_gateway' "
            "AND state = 'active' AND query LIKE '%%submit_batch%%'")]
        if pids:
            d.sql("SELECT pg_terminate_backend(%s)", rng.choice(pids))
    run.end()
    assert len(run.stored) + len(run.refused) == 4000
    there = complete(d, run)
    # refused ones were told "try again"; few if any
    assert set(run.refused) <= {"store_unavailable"}
    assert len(there) <= len(run.stored) + len(run.refused)


@pytest.mark.parametrize("seed", range(5 if FULL else 1))
def test_a_killed_server_loses_nothing_it_acknowledged(d, seed):
    rng = random.Random(SEED * 100 + seed)
    keys = [b.smtp_key for b in inboxes(d, 10)]
    run = Run(d, keys, 6000, 4096, 40)
    for i in range(2):
        run.until(400 + 1500 * i + rng.randrange(1000))
        os.kill(d.postgres.pid, signal.SIGKILL)
        d.restart_postgres()
    run.end()
    assert len(run.stored) + len(run.refused) == 6000
    complete(d, run)
    assert run.stored and set(run.refused) <= {"store_unavailable"}


def test_limits_hold_for_everybody_together(d):
    boxes = inboxes(d, 2, limit=20)
    run = Run(d, [boxes[0].smtp_key], 60, 1024, 10)
    other = Run(d, [boxes[1].smtp_key], 5, 1024, 1)
    assert run.end()["stored"] == 20
    assert run.refused == ["rate_limited"] * 40
    # another inbox is not touched, and nothing leaks through later
    assert other.end()["stored"] == 5
    # An answer of Redis that is late on a busy machine is a refusal here, and
    # no share that this new process would give itself.
    d.set_conf("redis", down="closed")
    try:
        assert Run(d, [boxes[0].smtp_key], 5, 1024, 1).end()["stored"] == 0
    finally:
        d.set_conf("redis", down="local")


def fcalls(redis):
    m = re.search(r"cmdstat_fcall:calls=(\d+)",
                  redis("INFO", "commandstats"))
    return int(m.group(1)) if m else 0


WINDOWS = (3, "m3600/12", "m86400/24", "b86400/24")


def used(d, redis, box):
    """Messages of the hour, of the day, and bytes that count in Redis."""
    row = d.sql("SELECT tenant_id, inbox_id, lim_hour, lim_day, lim_bytes "
                "FROM d.inbox WHERE address = %s", box.address)[0]
    tenant, inbox, *limits = row.values()
    key = "rl:{%d.%d}" % (tenant, inbox)
    left = redis("FCALL", "pst_peek", 1, key, *WINDOWS, *limits)[0::2]
    return key, limits, [a - b for a, b in zip(limits, left)]


def test_a_busy_inbox_is_charged_ahead(d):
    big, small = inboxes(d, 2)
    d.sql("UPDATE d.inbox SET lim_hour = 90 WHERE address = %s",
          small.address)
    redis = Redis(d.redis_socket)
    # a small plan: each message is asked for, nothing is given back
    before = fcalls(redis)
    assert Run(d, [small.smtp_key], 50, 1024, 1).end()["stored"] == 50
    assert 50 <= fcalls(redis) - before <= 51  # and one probe
    # a large one
    before = fcalls(redis)
    assert Run(d, [big.smtp_key], 600, 1024, 2).end()["stored"] == 600
    asked = fcalls(redis) - before
    assert asked < 200
    # and in the end exactly what was sent counts
    sizes = {r["address"]: r["bytes"] for r in d.sql(
        "SELECT i.address, sum(m.size)::bigint AS bytes FROM d.message m "
        "JOIN d.inbox i USING (tenant_id, inbox_id) GROUP BY 1")}
    assert used(d, redis, small)[2] == [50, 50, sizes[small.address]]
    assert used(d, redis, big)[2] == [600, 600, sizes[big.address]]


def test_charging_ahead_refuses_nothing_that_has_room(d):
    box = inboxes(d, 2, limit=20000)[0]
    redis = Redis(d.redis_socket)
    # So many that it is at them yet when we have seen some, however late.
    run = Run(d, [box.smtp_key], 6000, 1024, 2)
    run.until(200)
    while True:  # somebody else uses up all but a little
        key, limits, n = used(d, redis, box)
        other = 20000 - n[0] - 30
        if redis("FCALL", "pst_charge", 1, key, *WINDOWS, other, 1, 1,
                 *limits)[0] == 1:
            break
    assert run.end()["stored"] == 20000 - other < 6000
    assert set(run.refused) == {"rate_limited"}
    assert used(d, redis, box)[2][0] == 20000


def test_without_redis_local_limits_hold(d):
    boxes = inboxes(d, 2, limit=20)
    d.redis.stop()
    run = Run(d, [boxes[0].smtp_key], 60, 1024, 10)
    assert run.end()["stored"] == 20
    assert set(run.refused) == {"rate_limited"}
    d.set_conf("redis", down="closed")
    run = Run(d, [boxes[1].smtp_key], 5, 1024, 1)
    assert run.end()["stored"] == 0
    assert set(run.refused) == {"limiter_unavailable"}


def test_dead_keys_are_refused(d):
    box = inboxes(d, 2)[0]
    d.revoke(box)
    run = Run(d, [box.smtp_key, box.smtp_key[:-1] + "0", "nonsense"], 1,
              1024, 1)
    assert run.end()["stored"] == 0
    assert run.refused == ["unknown_api_key"] * 3
