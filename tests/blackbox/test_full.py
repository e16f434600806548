# SPDX-License-Identifier: ISC
"""
A full disk, on a small file system made for it (root only): first where the
tables are, then where the write-ahead log is. Agents are told to try again,
nothing that was acknowledged is lost, what an operator approves meanwhile
leaves once or not yet, and when there is room again everything goes on by
itself.
"""
import os
import subprocess

import pytest

from tests.blackbox.test_rest import Client, refusal, stored
from tests.fake.mx import FakeMx
from tests.lib import load, person, postern, rawsmtp

MIB = 1 << 20


class Small(postern.Deployment):
    """PostgreSQL's tables ("data") or log ("wal") on `size` of its own."""

    def __init__(self, which, size):
        self.which, self.size = which, size
        self.mounted = None
        super().__init__(
            pg={"max_wal_size": "64MB", "min_wal_size": "32MB",
                "wal_recycle": "off", "autovacuum": "off"})

    def _make_dirs(self):
        super()._make_dirs()
        self.small = self.path("pg" if self.which == "data" else "wal")
        self.other = self.path("wal" if self.which == "data" else "pg")
        for path in (self.small, self.other):
            os.makedirs(path, exist_ok=True)
        self._run(["mount", "-t", "tmpfs", "-o", "mode=0711,size=%d"
                   % self.size, "tmpfs", self.small])
        self.mounted = self.small
        for path in (self.small, self.other):
            self._own(path)
        self.initdb = ["--waldir", self.path("wal", "log")]

    def room(self):
        s = os.statvfs(self.small)
        return s.f_bavail * s.f_frsize

    def fill(self, leave):
        """Leave that many bytes; free() gives the rest back."""
        with open(os.path.join(self.small, "ballast"), "ab") as f:
            block = b"\0" * 4096
            while self.room() > leave:
                f.write(block)
                f.flush()

    def free(self):
        os.unlink(os.path.join(self.small, "ballast"))

    def close(self):
        if hasattr(self, "mx"):
            self.mx.close()
        super().close()
        if self.mounted:
            subprocess.run(["umount", self.mounted], check=True)
            self.mounted = None
            super().close()


def small(which, size):
    if os.geteuid() != 0:
        pytest.skip("only root can make a small file system")
    probe = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
        capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip("mount is refused here: " + probe.stderr.strip())
    d = Small(which, size)
    try:
        d.add_tenant("acme", "acme.example")
        d.boxes = [d.add_inbox("agent%d@acme.example" % i) for i in range(2)]
        d.sql("UPDATE d.inbox SET lim_hour = 1000000, lim_day = 1000000, "
              "lim_month = 1000000, lim_held = 1000000, "
              "lim_bytes = 8589934592")
        d.mx = FakeMx(d.path("tls", "cert.pem"), d.path("tls", "key.pem"))
        d.set_conf("deliver", smarthost="localhost:%d" % d.mx.port,
                   smarthost_ca_file=d.ca_file, lease="3s",
                   allow_address=["127.0.0.0/8"])
        d.set_conf("admin", undo="0s")
        for program in ("posternd", "postern-admin", "postern-deliver"):
            d.start(program)
        d.sent = {}
    except BaseException:
        d.close()
        raise
    return d


@pytest.fixture
def data():
    d = small("data", 160 * MIB)
    yield d
    d.close()


@pytest.fixture
def wal():
    d = small("wal", 100 * MIB)
    yield d
    d.close()


class Smtp:
    """One session; what it was told for each message."""

    def __init__(self, d):
        self.d, self.n, self.session = d, 0, None

    def send(self, size=6000):
        """(id or None, the reply that ended it)."""
        self.n += 1
        reply, r = "", self.session
        try:
            if r is None:
                r = self.session = rawsmtp.secured(self.d)
                box = self.d.boxes[0]
                reply = r.say("AUTH PLAIN " + rawsmtp.plain(
                    box.address, box.smtp_key))
                if reply[0] != "2":
                    self.end()
                    return None, reply
            box = self.d.boxes[0]
            for line in ("MAIL FROM:<%s>" % box.address,
                         "RCPT TO:<ann@dest.example>", "DATA"):
                reply = r.say(line)
                if reply[0] not in "23":
                    self.end()
                    return None, reply
            r.send(rawsmtp.message(
                box, os.urandom(size // 2).hex(), Subject="s%d" % self.n,
            ) if size < 900 else rawsmtp.message(box, "\r\n".join(
                os.urandom(35).hex() for _ in range(size // 72)),
                Subject="s%d" % self.n))
            reply = r.say(".")
        except (OSError, rawsmtp.Closed):
            self.end()
            return None, "closed after %r" % reply
        if reply.startswith("250 "):
            mid = reply.split("id=")[1].split()[0]
            self.d.sent[mid] = "s%d" % self.n
            return mid, reply
        self.end()
        return None, reply

    def end(self):
        if self.session is not None:
            self.session.shut()
        self.session = None


class Rest:
    def __init__(self, d):
        self.d, self.n = d, 0
        self.agent = Client(d, d.boxes[1].key)

    def send(self, size=6000):
        """(id or None, status, code)"""
        self.n += 1
        answer = self.agent.send(
            subject="r%d" % self.n, text=os.urandom(size // 2).hex(),
            http={"Idempotency-Key": "full-%d" % self.n})
        if answer[0] == 202:
            mid = stored(answer)["message_id"]
            self.d.sent[mid] = "r%d" % self.n
            return mid, 202, None
        return (None,) + refusal(answer)


def everything_is_there(d):
    rows = {load.message_id(r["message_id"]): r["subject"]
            for r in d.messages()}
    missing = {m: s for m, s in d.sent.items() if rows.get(m) != s}
    assert missing == {}
    # and whole: what was stored can be read back
    agent = {"s": Client(d, d.boxes[0].key), "r": Client(d, d.boxes[1].key)}
    for mid in list(d.sent)[-20:]:
        status, _, raw = agent[d.sent[mid][0]].get(
            "/v1/messages/%s/raw" % mid)
        assert status == 200, (mid, status)
        assert ("Subject: " + d.sent[mid]).encode() in raw
    assert len(set(rows.values())) == len(rows)


def approve_meanwhile(d, alice, mids):
    """How each approval was answered; without room, "try again"."""
    out = []
    for mid in mids:
        try:
            out.append(alice.decide(mid, "a"))
        except AssertionError as e:  # the page itself
            assert "(503" in str(e) or "(500" in str(e), e
            out.append(503)
    return out


def leaves_once(d, mids):
    """Those approved: at the smarthost once, and known to be."""
    def settled():
        d.sql("UPDATE d.send_q SET due_at = clock_timestamp() "
              "WHERE lease IS NULL")
        return d.sql("SELECT count(*) AS n FROM d.send_q")[0]["n"] == 0
    postern.wait_until("the queue to drain", settled, 60, 0.1)
    states = {load.message_id(m["message_id"]): (m["state"], m["subject"])
              for m in d.messages()}
    for mid in mids:
        state, subject = states[mid]
        times = sum(b"Subject: %s\r\n" % subject.encode() in m["data"]
                    for m in d.mx.messages)
        assert (state, times) in ((8, 1), (11, 1), (11, 0)), (state, times)
    assert len(d.mx.messages) <= len(mids)


def test_tables_full(data):
    d, smtp, rest = data, Smtp(data), Rest(data)
    for _ in range(5):
        assert smtp.send()[0] and rest.send()[0]
    alice, approved = person.Operator(d), list(d.sent)[:8]
    assert approve_meanwhile(d, alice, approved[:2]) == [303, 303]
    d.fill(leave=256 * 1024)
    replies, answers = [], []
    for _ in range(400):
        replies.append(smtp.send()[1])
        answers.append(rest.send()[1:])
        if [r for r in replies if r[0] != "2"][10:] and \
                [a for a in answers if a[0] != 202][10:]:
            break
    no = [r for r in replies if not r.startswith("250 ")]
    noes = [a for a in answers if a[0] != 202]
    print("tables full after %d of ours: %s, %s" % (
        len(d.sent), sorted({r[:24] for r in no}), sorted(set(noes))))
    assert no and all(r.startswith("452 4.3.1 [storage_full]")
                      for r in no), no
    assert noes and set(noes) == {(503, "storage_full")}
    # one that comes in chunks is refused no other way
    assert smtp.send(600000)[1].startswith("452 4.3.1 [storage_full]")
    assert rest.send(600000)[1:] == (503, "storage_full")
    told = approve_meanwhile(d, alice, approved[2:])
    print("approvals meanwhile: %s" % told)
    assert set(told) <= {303, 503}
    assert d.postgres.alive()
    pid = d.programs["posternd"].pid
    d.free()
    for _ in range(10):
        assert smtp.send()[0] and rest.send()[0]
    assert smtp.send(600000)[0] and rest.send(600000)[0]
    assert d.programs["posternd"].pid == pid
    assert all(p.alive() for p in d.programs.values())
    # what was answered 503 was not decided, and can be now
    for mid, status in zip(approved[2:], told):
        if status == 503:
            alice.approve(mid)
    leaves_once(d, approved)
    everything_is_there(d)


def test_log_full(wal):
    """PostgreSQL stops itself then; the answers are "try again" until its
    service manager could start it."""
    d, smtp, rest = wal, Smtp(wal), Rest(wal)
    for _ in range(5):
        assert smtp.send()[0] and rest.send()[0]
    d.fill(leave=256 * 1024)
    replies, answers = [], []
    for _ in range(1500):
        replies.append(smtp.send(60000)[1])
        answers.append(rest.send(60000)[1:])
        if [r for r in replies if r[:3] != "250"][1:] and \
                [a for a in answers if a[0] != 202][1:]:
            break
    no = [r for r in replies if not r.startswith("250 ")]
    noes = [a for a in answers if a[0] != 202]
    print("log full after %d of ours: %s, %s; PostgreSQL %s" % (
        len(d.sent), sorted({r[:30] for r in no}), sorted(set(noes)),
        "runs" if d.postgres.alive() else "stopped"))
    assert no and all(r[0] == "4" or r.startswith("closed") for r in no), no
    assert noes and {a[0] for a in noes} == {503}
    assert {a[1] for a in noes} <= {"storage_full", "store_unavailable"}
    d.free()
    if not d.postgres.alive():
        d.restart_postgres()

    def again():
        return smtp.send()[0] and rest.send()[0]
    postern.wait_until("mail again", again, 60, 0.1)
    for _ in range(10):
        assert smtp.send()[0] and rest.send()[0]
    everything_is_there(d)
