# SPDX-License-Identifier: ISC
"""
store/postern.lua against a real Redis with a simulated clock: the library's
clock() reads a key instead of TIME, nothing else is changed.
"""
import os
import random
import shutil
import subprocess
import tempfile

import pytest

from ..lib.process import Process
from ..lib.postern import TOP, wait_until
from .resp import Redis

SEED = int(os.environ.get("POSTERN_SEED", "1"))
FULL = os.environ.get("POSTERN_FULL") == "1"
KEY = "rl:{1.2}"
START = 1_800_000_000_000
CLOCK = "local t = redis.call('TIME')\n" \
        "  return t[1] * 1000 + math.floor(t[2] / 1000)"


@pytest.fixture(scope="module")
def redis():
    path = tempfile.mkdtemp(prefix="postern-limits-")
    sock = os.path.join(path, "r.sock")
    server = Process("redis", ["redis-server", "--port", "0", "--unixsocket",
                               sock, "--save", "", "--dir", path])

    def listens():
        try:
            return Redis(sock)
        except OSError:  # its socket is there before it listens
            return None
    wait_until("Redis", listens)
    with open(os.path.join(TOP, "store", "postern.lua")) as f:
        text = f.read()
    assert CLOCK in text
    client = Redis(sock)
    client("FUNCTION", "LOAD", text.replace(
        CLOCK, "return tonumber(redis.call('GET', 'rl:clock'))"))
    yield client
    server.stop()
    shutil.rmtree(path)


@pytest.fixture(autouse=True)
def clean(redis):
    redis("DEL", KEY)
    at(redis, START)


def at(redis, ms):
    redis("SET", "rl:clock", ms)


def names(windows):
    """As the library takes them: how many, "m3600/12"..."""
    return [len(windows), *("%s%d/%d" % w[:3] for w in windows)]


def limits(windows):
    return [w[3] for w in windows]


def charge(redis, windows, messages=1, rcpts=1, size=1):
    return redis("FCALL", "pst_charge", 1, KEY, *names(windows),
                 messages, rcpts, size, *limits(windows))


def refund(redis, windows, when, messages=1, rcpts=1, size=1):
    return redis("FCALL", "pst_refund", 1, KEY, *names(windows), when,
                 messages, rcpts, size, *limits(windows))


def peek(redis, windows):
    return redis("FCALL", "pst_peek", 1, KEY, *names(windows),
                 *limits(windows))


def worst(charges, width):
    """The most that any window [t, t + width) holds."""
    most = total = low = 0
    for t, n in charges:
        total += n
        while charges[low][0] <= t - width:
            total -= charges[low][1]
            low += 1
        most = max(most, total)
    return most


CASES = [
    ("m", 60, 6, 100, 40), ("m", 60, 12, 100, 40), ("m", 3600, 12, 20, 5000),
    ("m", 1, 4, 7, 3), ("m", 86400, 24, 100, 90000),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: "%s%d/%d" % c[:3])
@pytest.mark.parametrize("seed", range(10 if FULL else 2))
def test_no_rolling_window_is_passed(redis, case, seed):
    kind, seconds, buckets, limit, gap = case
    rng = random.Random(SEED * 1000 + seed)
    now, got = START + rng.randrange(10 ** 6), []
    for _ in range(2000):
        # a client that never stops, and pauses now and then
        now += rng.choice([0, 1, rng.randrange(1, 2 * gap),
                           seconds * 1000 if rng.random() < 0.02 else gap])
        n = rng.choice([1, 1, 1, 2, 5])
        at(redis, now)
        if charge(redis, [(kind, seconds, buckets, limit)], n)[0] == 1:
            got.append((now, n))
    assert got
    assert worst(got, seconds * 1000) <= limit
    # and it is not needlessly strict: a burst gets all of it
    at(redis, now + 3 * seconds * 1000)
    w = [(kind, seconds, buckets, limit)]
    assert [charge(redis, w)[0] for _ in range(limit + 1)] == \
        [1] * limit + [0]


def test_several_windows_charge_all_or_none(redis):
    windows = [("m", 3600, 12, 10), ("b", 86400, 24, 100), ("r", 60, 6, 8)]
    assert charge(redis, windows, 1, 5, 60)[0] == 1
    refused = charge(redis, windows, 1, 1, 50)
    assert refused[:3] == [0, 2, 40]
    refused = charge(redis, windows, 1, 4, 1)
    assert refused[:3] == [0, 3, 3]
    assert peek(redis, windows)[0::2] == [9, 40, 3]


def test_the_wait_is_true(redis):
    w = [("m", 60, 6, 5)]
    for i in range(5):
        at(redis, START + i * 3000)
        assert charge(redis, w)[0] == 1
    no = charge(redis, w)
    assert no[0] == 0
    at(redis, START + 12000 + no[3] - 1)
    assert charge(redis, w)[0] == 0
    at(redis, START + 12000 + no[3])
    assert charge(redis, w)[0] == 1


def test_refund_hits_its_own_bucket_only(redis):
    w = [("m", 60, 6, 2)]
    first = charge(redis, w)
    assert first[0] == 1 and first[4] == START
    at(redis, START + 30000)
    assert charge(redis, w)[0] == 1
    assert charge(redis, w)[0] == 0
    refund(redis, w, first[4])
    assert peek(redis, w)[0] == 1
    assert charge(redis, w)[0] == 1
    # long gone: nothing to give back, and nothing below zero
    at(redis, START + 300000)
    refund(redis, w, first[4])
    assert peek(redis, w)[0] == 2
    refund(redis, w, START + 300000)
    refund(redis, w, START + 300000)
    assert peek(redis, w)[0] == 2


def test_a_clock_that_jumps_back_reopens_nothing(redis):
    w = [("m", 60, 6, 3)]
    assert [charge(redis, w)[0] for _ in range(4)] == [1, 1, 1, 0]
    at(redis, START - 3600000)
    assert charge(redis, w)[0] == 0


def test_another_limit_counts_what_was_used(redis):
    assert [charge(redis, [("m", 60, 6, 9)])[0] for _ in range(5)] == [1] * 5
    assert charge(redis, [("m", 60, 6, 5)])[0] == 0
    assert charge(redis, [("m", 60, 6, 6)])[0] == 1


def test_the_state_expires_and_is_small(redis):
    w = [("m", 3600, 12, 20), ("m", 86400, 24, 100),
         ("b", 86400, 24, 1 << 30)]
    charge(redis, w, 1, 1, 4096)
    assert 86400000 <= redis("PTTL", KEY) <= 86400000 + 3600000
    assert redis("STRLEN", KEY) < 600


def test_the_key_lives_as_long_as_it_counts(redis):
    """Whatever the clock does: gone is only what counts nowhere any more."""
    w = [("m", 60, 6, 100), ("m", 3600, 12, 100)]
    first, life = START // 300000 * 300000, 13 * 300000
    for ms in (0, 1, 250000, 299999, 300000):
        at(redis, first + ms)
        charge(redis, w)
        assert -2000 <= redis("PTTL", KEY) - life <= 0
    # a failover to a clock far behind: it has to wait for that one
    at(redis, first - 7200000)
    charge(redis, w)
    refund(redis, w, first)
    assert peek(redis, w)[2] == 95


def test_charges_in_one_call_are_as_if_one_by_one(redis):
    """Each key has its own answer; the same key twice counts twice."""
    other, w = "rl:{1.3}", [("m", 60, 6, 2), ("b", 60, 6, 100)]
    redis("DEL", other)
    costs = [(1, 1, 10), (1, 1, 95), (1, 1, 20), (1, 1, 1), (1, 1, 5)]
    keys = [KEY, other, KEY, KEY, other]
    small, tight = [2, 100], [2, 97]
    got = redis("FCALL", "pst_charge", len(keys), *keys, *names(w),
                *[x for k, c in zip(keys, costs)
                  for x in (*c, *(small if k == KEY else tight))])
    assert len(got) == 5 * len(keys)
    # allowed, window that refused or is tightest, what it has left
    assert [got[i:i + 3] for i in range(0, len(got), 5)] == [
        [1, 1, 1], [1, 2, 2], [1, 1, 0], [0, 1, 0], [0, 2, 2]]
    assert peek(redis, w)[0::2] == [0, 70]


def test_many_at_once_stay_within_the_limit(redis):
    w, got = [("m", 3600, 12, 37)], 0
    for n in (1, 16, 3, 16, 16):
        answer = redis("FCALL", "pst_charge", n, *[KEY] * n, *names(w),
                       *[1, 1, 1, 37] * n)
        got += sum(answer[0::5])
    assert got == 37
