# SPDX-License-Identifier: ISC
"""When a transaction is on disk: commit records, read by pg_waldump."""
import re
import subprocess

PAGE, SEGMENT = 8192, 16 << 20
LINE = re.compile(r"len \(rec/tot\):\s*\d+/\s*(\d+), tx:\s*(\d+), lsn: "
                  r"([0-9A-F]+/[0-9A-F]+), .*desc: COMMIT(.*)")


def lsn(text):
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def record_end(start, length):
    """Where a record of `length` bytes ends, page headers counted."""
    at, left = start, length
    while left > 0:
        if at % PAGE == 0:
            at += 40 if at % SEGMENT == 0 else 24
        room = min(left, PAGE - at % PAGE)
        at += room
        left -= room
    return at


def commits(d, since, until):
    """{xid: end of its commit record}, of subtransactions too."""
    out = {}
    done = subprocess.run(
        [d.pg_bin + "/pg_waldump", "-p", d.path("pg", "data", "pg_wal"),
         "-r", "Transaction", "-s", since, "-e", until],
        capture_output=True, text=True)
    for line in done.stdout.splitlines():
        m = LINE.search(line)
        if not m:
            continue
        end = record_end(lsn(m[3]), int(m[1]))
        out[int(m[2])] = end
        subs = re.search(r"subxacts: ([\d ]+)", m[4])
        for xid in subs[1].split() if subs else ():
            out[int(xid)] = end
    assert out, done.stderr
    return out
