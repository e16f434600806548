# SPDX-License-Identifier: ISC
"""What time does to an installation: weeks that nobody made, a clock that was
wrong for a while, a server in another zone."""
import json
import os
import re
import struct
import subprocess

import pytest

from tests.blackbox.test_rest import Client, refusal, stored
from tests.lib import postern, rawsmtp

CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile long *ahead;

__attribute__((constructor)) static void
map(void)
{
	ahead = mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED,
	    open(getenv("AHEAD"), O_RDONLY | O_CLOEXEC), 0);
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	if (syscall(SYS_clock_gettime, id, t) != 0)
		return -1;
	if (id == CLOCK_REALTIME)
		t->tv_sec += *ahead;
	return 0;
}
"""


class Site(postern.Deployment):
    """Far from UTC, at half an hour, and its users write dates their way."""

    def __init__(self):
        super().__init__(pg={"timezone": "America/St_Johns",
                             "datestyle": "German", "lc_time": "C"})
        self.add_tenant("acme", "acme.example")
        self.box = self.add_inbox("bot@acme.example")
        self.agent = Client(self, self.box.key)

    def say(self):
        r = rawsmtp.secured(self)
        try:
            r.say("AUTH PLAIN " + rawsmtp.plain(
                self.box.address, self.box.smtp_key))
            rawsmtp.begin_data(r, self.box)
            self.n = getattr(self, "n", 0) + 1
            r.send(rawsmtp.message(self.box, "number %d" % self.n))
            return r.say(".")
        finally:
            r.shut()

    def posternctl(self, *args):
        return subprocess.run(
            [os.path.join(postern.build_dir(), "posternctl"), "-c",
             self.conf, "--json", *args], capture_output=True, text=True,
            timeout=60, env={**os.environ, "HOME": self.dir,
                             "TZ": "Pacific/Kiritimati"})

    def finding(self, name):
        rows = json.loads(self.posternctl("doctor").stdout)
        return next(r for r in rows if r["finding"] == name)


@pytest.fixture
def d():
    with Site() as site:
        yield site


def test_zones_are_the_same_everywhere(d):
    """Times in UTC, whatever the zones of PostgreSQL and the operator are."""
    clock = d.finding("clock")
    assert clock["level"] == "ok", clock
    told = d.posternctl("ready").stdout
    assert re.search(r'"now": ?"\d{4}-\d\d-\d\dT[0-9:.]*\+00:00"', told), told


def test_weeks_that_nobody_made(d):
    """Mail is asked to come again, by both doors; doctor and readyz say what
    to do; when that is done it goes on, and nothing was half stored."""
    d.start("posternd")
    for r in d.sql("SELECT oid::regclass::text AS n FROM pg_class WHERE "
                   "relispartition AND relkind = 'r' AND right(relname, 8) "
                   ">= to_char(d.monday(clock_timestamp()), 'YYYYMMDD')"):
        d.sql("DROP TABLE %s CASCADE" % r["n"])
    for _ in range(2):
        told = d.say()
        assert told.startswith("452 4.3.1 "), told
        assert "[storage_full]" in told
        assert refusal(d.agent.send(http={"Idempotency-Key": "once"})) == (
            503, "storage_full")
    found = d.finding("partitions")
    assert (found["level"], found["fix"]) == ("error", "posternctl maintain")
    done = d.posternctl("maintain")
    assert done.returncode == 0, done
    assert d.count() == 0
    assert d.say().startswith("250 2.6.0 id=msg_")
    stored(d.agent.send(http={"Idempotency-Key": "once"}))
    assert d.count() == 2
    assert d.finding("partitions")["level"] == "ok"


def test_a_clock_that_was_ahead(d):
    """posternd's ids are refused while it is; then it goes on by itself,
    without a restart."""
    source, shim, ahead = (d.path("clock" + x) for x in (".c", ".so", ""))
    with open(source, "w") as f:
        f.write(CLOCK)
    d._run(["gcc", "-shared", "-fPIC", "-o", shim, source])

    def by(seconds):
        with open(ahead, "r+b" if os.path.exists(ahead) else "wb") as f:
            f.write(struct.pack("l", seconds))
        os.chmod(ahead, 0o644)
    by(0)
    d.start("posternd", env={"LD_PRELOAD": shim, "AHEAD": ahead})
    assert d.say().startswith("250 ")
    by(7200)
    assert d.say().startswith("451 4.3.0 [store_unavailable]")
    assert refusal(d.agent.send()) == (503, "store_unavailable")
    assert refusal(d.agent.send(text="x" * 300000)) == (
        503, "store_unavailable")
    by(0)
    assert d.say().startswith("250 ")
    stored(d.agent.send())
