# SPDX-License-Identifier: ISC
"""
A 250, a 202, a decision and a dot come after their commit is on disk.

The database's default is made asynchronous, so that only what the product
itself asks for can pass. First by PostgreSQL's own word: what is flushed when
the answer is read reaches past the commit record of that very message. Then
by the kernel's: between the Sync of the batch that carries a message and the
write of its 250 a whole fdatasync() of PostgreSQL lies.
"""
import os
import subprocess
import threading
import uuid

import pytest

from tests.lib import load, person, postern, rawsmtp, seals, syscalls, walproof
from tests.blackbox.test_rest import Client, stored
from tests.lib.relaying import Relaying

ALONE, SESSIONS, EACH = 60, 6, 40
COULD_BE_LOST = "mail could be lost"


@pytest.fixture(scope="module")
def d():
    # on the disk that is there, not in memory
    with Relaying(one_connection=False) as deployment:
        d = deployment
        d.sql("ALTER DATABASE postern SET synchronous_commit = off")
        d.sql("UPDATE d.plan SET lim_hour = 100000, lim_day = 100000, "
              "lim_month = 1000000, lim_held = 100000")
        d.set_conf("admin", undo="0s")
        d.programs["posternd"].stop()
        d.start("posternd")
        d.boxes = [d.add_inbox("agent%d@acme.example" % i) for i in range(4)]
        yield d


class Flushed:
    """One connection that asks how far the log is on disk."""

    def __init__(self, d):
        self.connection = d.connect()
        self.cursor = self.connection.cursor()

    def __call__(self):
        self.cursor.execute("SELECT pg_current_wal_flush_lsn()")
        return walproof.lsn(self.cursor.fetchone()[0])


def here(d):
    return d.sql("SELECT pg_current_wal_insert_lsn()::text AS n")[0]["n"]


def id_of(reply):
    assert reply.startswith("250 2.6.0 id=msg_"), reply
    return reply.split("id=")[1].split()[0]


def send_many(d, box, n, seen, errors):
    try:
        flushed = Flushed(d)
        r = rawsmtp.signed_in(d, box)
        for i in range(n):
            reply = rawsmtp.submit(r, box, "m %d %s" % (i, r.source))
            at = flushed()
            seen[id_of(reply)] = at
        r.shut()
        flushed.connection.close()
    except BaseException as e:
        errors.append(e)
        raise


def check(d, since, seen, query):
    """Each id's commit was flushed when its answer was there."""
    d.sql("SELECT pg_switch_wal()")
    ends = walproof.commits(d, since, here(d))
    xid = {load.message_id(r["message_id"]): int(r["xid"])
           for r in d.sql(query)}
    late = [(mid, at, ends[xid[mid]]) for mid, at in seen.items()
            if at < ends[xid[mid]]]
    assert late == []
    return ends


XID = "SELECT message_id, xmin::text AS xid FROM d.%s"


def test_an_asynchronous_commit_would_be_seen(d):
    """The same look at a commit that nobody waited for."""
    since, flushed = here(d), Flushed(d)
    c = d.connect()
    seen = {}
    with c.cursor() as cur:
        cur.execute("SHOW synchronous_commit")
        assert cur.fetchone()[0] == "off"
        cur.execute("CREATE TABLE public.control (n int)")
        for n in range(20):
            cur.execute("INSERT INTO public.control VALUES (%s) RETURNING "
                        "xmin::text", (n,))
            seen[int(cur.fetchone()[0])] = flushed()
        cur.execute("DROP TABLE public.control")
    d.sql("CHECKPOINT")
    ends = walproof.commits(d, since, here(d))
    assert sum(at < ends[x] for x, at in seen.items()) > 10


def test_smtp_one_at_a_time_and_together(d):
    since, seen, errors = here(d), {}, []
    send_many(d, d.boxes[0], ALONE, seen, errors)
    threads = [threading.Thread(target=send_many, args=(
        d, d.boxes[i % 4], EACH, seen, errors)) for i in range(SESSIONS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not errors
    assert len(seen) == ALONE + SESSIONS * EACH
    check(d, since, seen, XID % "message")
    print("%d times 250, each behind its flush" % len(seen))


def test_rest(d):
    since, seen, flushed = here(d), {}, Flushed(d)
    agent = Client(d, d.boxes[1].key)
    for i in range(20):
        answer = agent.send(subject="rest %d" % i)
        at = flushed()
        seen[stored(answer)["message_id"]] = at
    # in chunks, which are committed before the row that names them
    big = rawsmtp.message(d.boxes[1], "x" * 70 + "\r\n").encode()
    big += (os.urandom(35).hex().encode() + b"\r\n") * 20000
    answer = agent.send_raw(big)
    at = flushed()
    seen[stored(answer)["message_id"]] = at
    ends = check(d, since, seen, XID % "message")
    for r in d.sql("SELECT message_id, max(xmin::text::bigint) AS xid FROM "
                   "d.body GROUP BY 1 HAVING count(*) > 1"):
        assert seen[load.message_id(r["message_id"])] >= ends[r["xid"]]


def test_decisions_and_dots(d):
    since, decided, dots, flushed = here(d), {}, {}, Flushed(d)
    at_dot = Flushed(d)

    def dot(session, line):
        at = at_dot()
        for r in d.sql("SELECT message_id, xmin::text AS xid FROM d.delivery "
                       "WHERE status = 2"):
            dots[int(r["xid"])] = at
    d.mx.script["dot"] = dot
    d.set_conf("deliver", concurrency="1")
    d.start_worker()
    d.start("postern-admin")
    alice = person.Operator(d)
    ids = [load.message_id(m["message_id"]) for m in d.messages()
           if m["state"] == 1][:10]
    for mid in ids:
        alice.approve(mid)
        decided[mid] = flushed()
    postern.wait_until("all sent", lambda: d.count(8) == len(ids))
    ends = check(d, since, decided, XID % "decision")
    assert len(dots) == len(ids)
    assert [x for x, at in dots.items() if at < ends[x]] == []
    d.mx.script.clear()
    d.worker.stop()
    d.programs["postern-admin"].stop()


# -- the kernel's word ---------------------------------------------------------

def family(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [pid] + [int(x) for x in f.read().split()]


class Said:
    """Sessions under strace: what each 250 was, and to which port."""

    def __init__(self, d):
        self.d, self.replies, self.errors = d, [], []

    def session(self, n, box):
        try:
            r = rawsmtp.signed_in(self.d, box)
            assert r.sock.version() == "TLSv1.3"
            port = r.sock.getsockname()[1]
            for i in range(n):
                self.replies.append((port, rawsmtp.submit(
                    r, box, "s %d %s" % (i, r.source))))
            r.shut()
        except BaseException as e:
            self.errors.append(e)
            raise


def sync_of(calls, uuid):
    """The send that ends the Sync behind this id in posternd's stream."""
    streams = {}
    for c in calls:
        if c.name == "sendto" and c.ret > 0:
            streams.setdefault((c.pid, c.fd), []).append(
                (c, c.data[:c.ret]))
    for pieces in streams.values():
        whole = b"".join(data for _, data in pieces)
        for form in (uuid.bytes, str(uuid).encode(), uuid.hex.encode()):
            at = whole.find(form)
            if at < 0:
                continue
            end = whole.index(b"S\0\0\0\4", at) + 5
            for c, data in pieces:
                end -= len(data)
                if end <= 0:
                    return c
    raise AssertionError("%s was sent to no database" % uuid)


def test_fdatasync_between_sync_and_250(d):
    top = family(d.programs["posternd"].pid)
    server = family(d.postgres.pid)
    trace = syscalls.Trace(d.path("strace.out"), top + server)
    if trace.refused():
        pytest.skip("strace may not attach here: " +
                    trace.proc.stderr.read().splitlines()[-1])
    said = Said(d)
    try:
        said.session(20, d.boxes[2])
        threads = [threading.Thread(target=said.session, args=(
            6, d.boxes[i % 4])) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(120)
    finally:
        calls = trace.stop()
    assert not said.errors
    assert len(said.replies) == 20 + 48
    ours = [c for c in calls if c.pid in top]
    syncs = [c for c in calls if c.name == "fdatasync" and c.ret == 0
             and c.pid not in top]
    assert syncs
    accepted = {c.port: (c.pid, c.ret) for c in ours
                if c.name in ("accept", "accept4") and c.ret >= 0}
    gaps, batches = [], set()
    for port, reply in said.replies:
        mid = uuid.UUID(bytes=seals.unbase32(id_of(reply)[4:], 16))
        sync = sync_of(ours, mid)
        batches.add(sync.begin)
        told = next(c for c in ours if (c.pid, c.fd) == accepted[port]
                    and c.name in ("write", "sendmsg", "writev", "sendto")
                    and c.begin > sync.begin)
        # a TLS 1.3 record: header 5, type 1, tag 16; the reply and CRLF
        assert told.ret == len(reply) + 2 + 22, (told.ret, reply)
        between = [f for f in syncs
                   if sync.begin <= f.begin and f.end <= told.begin]
        assert between, "a 250 before any fdatasync: %s" % reply
        gaps.append(told.begin - sync.begin)
    print("%d times 250 in %d batches, each behind an fdatasync of its own "
          "time (%d in all); Sync to 250 under strace: %.1f ms at most" % (
              len(gaps), len(batches), len(syncs), 1000 * max(gaps)))


# -- programs refuse a database that forgets --------------------------------------

PROGRAMS = [("posternd", ()), ("postern-admin", ()), ("postern-deliver", ()),
            ("posternctl", ("seal", "--follow"))]


def refuses(d):
    for program, args in PROGRAMS:
        p = d.start(program, wait=None, args=args)
        try:
            assert p.proc.wait(20) == 1, program
        finally:
            p.kill()
        p.reader.join(10)
        assert any(COULD_BE_LOST in str(x) for x in p.lines), p.lines


def restart_with(d, **settings):
    d.postgres.stop(2)
    d.pg_settings.update(settings)
    d.start_postgres()


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_refuses_to_start_without(d, setting):
    d.programs["posternd"].stop()
    restart_with(d, **{setting: "off"})
    try:
        refuses(d)
    finally:
        restart_with(d, **{setting: "on"})
        d.start("posternd")


@pytest.mark.parametrize("login", postern.LOGINS)
def test_refuses_to_start_with_a_role_setting(d, login):
    d.programs["posternd"].stop()
    d.sql("ALTER ROLE %s SET synchronous_commit = off" % login)
    try:
        refuses(d)
    finally:
        d.sql("ALTER ROLE %s RESET ALL" % login)
        d.start("posternd")


def test_doctor_names_it(d):
    restart_with(d, fsync="off")
    try:
        done = subprocess.run(
            [os.path.join(postern.build_dir(), "posternctl"), "-c", d.conf,
             "doctor"], capture_output=True, text=True)
        assert done.returncode != 0
        assert "fsync" in done.stdout + done.stderr
    finally:
        restart_with(d, fsync="on")
