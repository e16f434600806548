# SPDX-License-Identifier: ISC
"""A gateway that takes large sends, and what they cost it in memory."""
import contextlib
import os

from . import postern

UPLOADS = 20


@contextlib.contextmanager
def roomy():
    """It spools where a test looks: d.spool."""
    with postern.Deployment() as d:
        d.add_tenant("acme", "acme.example")
        d.sql("UPDATE d.plan SET lim_hour = 100000, lim_day = 100000, "
              "lim_month = 1000000, lim_held = 100000, "
              "lim_bytes = 8589934592")
        d.box = d.add_inbox("bot@acme.example", "acme")
        d.other = d.add_inbox("two@acme.example", "acme")
        d.spool = d.path("spool")
        os.mkdir(d.spool)
        os.chmod(d.spool, 0o777)
        d.set_conf("api", spool_dir=d.spool)
        # freed memory that a sanitizer keeps back is not the program's use
        d.start("posternd", env={"ASAN_OPTIONS": "quarantine_size_mb=4"})
        yield d


def workers(d):
    """Process ids of posternd: the supervisor and its workers."""
    top = d.programs["posternd"].pid
    out = [top]
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                with open("/proc/%s/stat" % pid) as f:
                    if int(f.read().rpartition(")")[2].split()[1]) == top:
                        out.append(int(pid))
            except OSError:
                pass
    return out


def peak_kib(pids):
    total = 0
    for pid in pids:
        with open("/proc/%d/status" % pid) as f:
            for line in f:
                if line.startswith("VmHWM"):
                    total += int(line.split()[1])
    return total


@contextlib.contextmanager
def little_memory(d):
    """Decision D7 for UPLOADS at once, inside: 1 MiB an upload and 32 MiB a
    worker, plus what is idle."""
    pids = workers(d)
    before = peak_kib(pids)
    yield
    assert workers(d) == pids
    grown = peak_kib(pids) - before
    with open(os.path.join(postern.build_dir(), "config.h")) as f:
        slack = 3 if "#define POSTERN_SANITIZED 1" in f.read() else 1
    assert grown < slack * (UPLOADS + 32 + 12) * 1024, grown
    print("%d KiB more" % grown)
