# SPDX-License-Identifier: ISC
"""
Twenty uploads of 50 MiB at once, ten by each door, cost a worker at most
1 MiB each and 32 MiB in all (decision D7), by the kernel's high-water mark.
"""
import base64
import concurrent.futures
import json
import os
import ssl

import pytest

from tests.blackbox.test_rest import Client, stored
from tests.lib import postern, rawsmtp

MIB = 1 << 20
UPLOADS, SIZE = 20, 50 * MIB - 4096  # with what freezing adds: 50 MiB
ALLOWED = UPLOADS * 1 + 32
TRIES = 4
# more than zstd looks back, so that no segment gets smaller
BLOCK = b"".join(base64.b64encode(os.urandom(54)) + b"\r\n"
                 for _ in range(16384))


@pytest.fixture(scope="module")
def d():
    with postern.Deployment(workers=1, pg={"max_wal_size": "2GB"}) as it:
        it.add_tenant("acme", "acme.example")
        it.box = it.add_inbox("bot@acme.example")
        it.sql("UPDATE d.inbox SET lim_hour = 1000, lim_day = 1000, "
               "lim_bytes = 8589934592")
        it.start("posternd")
        yield it


def kib(pid, name):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith(name + ":"):
                return int(line.split()[1])


def mail(number):
    head = ("From: <bot@acme.example>\r\nTo: <ann@dest.example>\r\n"
            "Subject: large %d\r\n\r\n" % number).encode()
    whole = head + BLOCK * (SIZE // len(BLOCK) + 1)
    end = whole.rindex(b"\r\n", 0, SIZE) + 2
    return whole[:end]


def until_taken(number, upload):
    """
    What upload() returns. A disk that others use too may make the store late:
    then it is told to come again, as any client is, with the same bytes.
    """
    for left in reversed(range(TRIES)):
        try:
            got = upload()
        except (ssl.SSLEOFError, ConnectionError) as e:
            got = None, repr(e)  # the reply was lost with the connection
        if got[0]:
            return got[0]
        print("large %d: %s; %d tries left" % (number, got[1], left))
    pytest.fail("upload %d was never taken" % number)


def by_rest(d, number):
    h = {"Content-Type": "message/rfc822",
         "Idempotency-Key": "large-%d" % number,
         "X-Postern-Envelope": json.dumps({"to": ["ann@dest.example"]})}
    answer = Client(d, d.box.key).call(
        "POST", "/v1/messages/send", mail(number), h, timeout=300)
    if answer[0] == 503:
        return None, answer[2]
    return stored(answer)["message_id"], None


def by_smtp(d, number):
    r = rawsmtp.signed_in(d, d.box)
    r.sock.settimeout(300)
    rawsmtp.begin_data(r, d.box, "ann@dest.example")
    r.send(mail(number))
    reply = r.say(".")
    r.shut()
    if reply.startswith("451 "):
        return None, reply
    assert reply.startswith("250 2.6.0 id="), reply
    return reply.split("id=")[1].split()[0], None


def test_twenty_large_uploads_at_once(d):
    top = d.programs["posternd"].pid
    with open("/proc/%d/task/%d/children" % (top, top)) as f:
        (worker,) = [int(x) for x in f.read().split()]
    # small ones first: what a worker needs once is not the uploads'
    stored(Client(d, d.box.key).send(subject="small"))
    with open("/proc/%d/clear_refs" % worker, "w") as f:
        f.write("5")
    before = kib(worker, "VmHWM")
    with concurrent.futures.ThreadPoolExecutor(UPLOADS) as pool:
        ids = list(pool.map(
            lambda n: until_taken(n, lambda: (
                by_rest if n % 2 else by_smtp)(d, n)),
            range(UPLOADS)))
    grown = (kib(worker, "VmHWM") - before) / 1024
    print("%d uploads of %d MiB at once: the worker grew by %.1f MiB at "
          "most (from %.1f; %d are allowed)" % (
              UPLOADS, (SIZE + 4096) // MIB, grown, before / 1024, ALLOWED))
    assert len(set(ids)) == UPLOADS
    sizes = d.sql("SELECT size FROM d.message WHERE subject LIKE 'large %%'")
    assert len(sizes) == UPLOADS
    assert all(s["size"] > SIZE - 1024 for s in sizes)
    assert grown <= ALLOWED, grown
