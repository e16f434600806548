# SPDX-License-Identifier: ISC
"""
What is in a body stays sealed at rest. A marker of 4 KiB that nothing can
compress goes through every way a body can take (both doors, small and in
chunks, held, read, approved and delivered, rejected, refused, cut), with
PostgreSQL logging every statement with its parameters. Then any 32 bytes in
a row of it, raw, in hex, in base64 at each offset or quoted-printable, are
looked for in a dump, in every file of the deployment (data files after a
CHECKPOINT, WAL, Redis' AOF and RDB, logs, state, temporary files) and in
whatever else the programs hold open. The same search finds the subject.
"""
import base64
import json
import os
import quopri
import subprocess
import tempfile

import pytest

from tests.blackbox.test_rest import Client, stored
from tests.lib import person, postern, rawsmtp
from tests.lib.relaying import Relaying

MIB = 1 << 20
BINARY = os.urandom(4096)
TEXT = base64.b64encode(os.urandom(3072), b"xY").decode()
SUBJECT = "Subject-" + os.urandom(24).hex()


def wrapped(text, width=64):
    return "\r\n".join(text[i:i + width]
                       for i in range(0, len(text), width))


def forms(name, data):
    """Everything that any encoder here could have made of it."""
    out = {name: data, name + " in hex": data.hex().encode(),
           name + " in HEX": data.hex().upper().encode(),
           name + " quoted-printable": quopri.encodestring(data)}
    for offset in range(3):
        text = base64.b64encode(b"\0" * offset + data)[4 * (offset > 0):]
        out["%s in base64 at %d" % (name, offset)] = text
        out["%s in base64url at %d" % (name, offset)] = \
            text.replace(b"+", b"-").replace(b"/", b"_")
    return out


class Search:
    """tests/lib/windows over files; the marker lies outside of them."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="postern-marker-")
        self.program = os.path.join(
            os.environ.get("POSTERN_BUILD") or postern.build_dir(),
            "tests", "lib", "windows")

    def run(self, things, files):
        path = os.path.join(self.dir, "forms")
        with open(path, "wb") as f:
            for name, data in things.items():
                f.write(b"%s\0%d\0%s" % (name.encode(), len(data), data))
        done = subprocess.run([self.program, path], stdout=subprocess.PIPE,
                              input=b"".join(x.encode() + b"\0"
                                             for x in files), check=True)
        *hits, total = done.stdout.decode().splitlines()
        return [tuple(h.split("\t")) for h in hits], total


MARKER = {**forms("binary marker", BINARY),
          **forms("text marker", wrapped(TEXT).encode()),
          # one line of it alone, as a JSON or a page would show it
          **forms("joined marker", TEXT.encode())}


def mail(box, filler=0):
    """The marker as text and as an attachment, behind `filler` bytes."""
    noise = wrapped(base64.b64encode(os.urandom(filler)).decode())
    return ("From: <%s>\r\nTo: <ann@dest.example>\r\nSubject: %s\r\n"
            "X-Number: %s\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; "
            "boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n"
            "%s\r\n%s\r\n--b\r\nContent-Type: application/octet-stream\r\n"
            "Content-Transfer-Encoding: base64\r\nContent-Disposition: "
            "attachment; filename=a.bin\r\n\r\n%s\r\n--b--\r\n" % (
                box.address, SUBJECT, os.urandom(8).hex(), noise, wrapped(TEXT),
                wrapped(base64.b64encode(BINARY).decode()))).encode()


class Scene:
    def __init__(self):
        self.search = Search()
        self.d = d = Relaying(one_connection=False)
        d.programs["posternd"].stop()
        d.log_is_clean = False  # of a session shown to the database
        d.pg_settings.update(
            log_statement="all", log_min_duration_statement="0",
            log_error_verbosity="verbose", log_checkpoints="on",
            log_parameter_max_length="-1",
            log_parameter_max_length_on_error="-1", wal_keep_size="1GB")
        d.postgres.stop(2)
        d.start_postgres()
        d.set_conf("admin", undo="0s")
        os.mkdir(d.path("tmp"), 0o700)
        d._own(d.path("tmp"))
        self.redis("CONFIG", "SET", "appendonly", "yes")
        self.redis("CONFIG", "SET", "appendfsync", "always")
        self.env = {"TMPDIR": d.path("tmp")}
        for program in ("posternd", "postern-admin", "postern-deliver"):
            d.start(program, env=self.env)
        d.worker = d.programs["postern-deliver"]
        self.box = d.add_inbox("gated@acme.example")
        d.sql("UPDATE d.inbox SET lim_bytes = 8589934592")
        self.agent = Client(d, self.box.key)

    def redis(self, *words):
        return self.d._run(["redis-cli", "-e", "-s", self.d.redis_socket,
                            *words])

    def smtp(self, data, want="250 2.6.0"):
        r = rawsmtp.signed_in(self.d, self.box)
        rawsmtp.begin_data(r, self.box, "ann@dest.example")
        r.send(data)
        reply = r.say(".")
        assert reply.startswith(want), reply
        r.shut()
        return reply.split("id=")[1].split()[0] if "id=" in reply else None

    def rest(self):
        return stored(self.agent.send(
            subject=SUBJECT, text=wrapped(TEXT), attachments=[{
                "filename": "a.bin", "content_type":
                "application/octet-stream",
                "content": base64.b64encode(BINARY).decode()}],
            http={"Idempotency-Key": os.urandom(8).hex()})
            )["message_id"]

    def play(self):
        """Every way a body takes."""
        d = self.d
        held = [self.smtp(mail(self.box)), self.rest(),
                self.smtp(mail(self.box, 3 * MIB)),
                stored(self.agent.send_raw(
                    mail(self.box, MIB), ("ann@dest.example",)))
                ["message_id"]]
        approved = [self.smtp(mail(self.box)), self.rest(),
                    self.smtp(mail(self.box, MIB))]
        rejected = [self.smtp(mail(self.box)), self.rest()]
        self.refused()
        for mid in (held[1], held[2]):
            status, _, raw = self.agent.get("/v1/messages/%s/raw" % mid)
            assert status == 200 and b"\r\n" in raw
            assert self.agent.get("/v1/messages/" + mid)[0] == 200
        large = {held[2], held[3], approved[2]}
        alice = person.Operator(d)
        for mid in held + approved + rejected:
            text = alice.page(mid)
            assert TEXT[:64] in text or mid in large, mid
            assert alice.ask("GET", "/m/%s/download" % mid)[0] == 200
        for mid in approved:
            alice.approve(mid)
        for mid in rejected:
            alice.reject(mid, note="no")
        got = d.mx.wait_messages(len(approved))
        for m in got:
            assert base64.b64encode(BINARY)[:60] in m["data"]
        postern.wait_until("all sent", lambda: d.count(8) == len(approved))
        assert (d.count(1), d.count(3)) == (len(held), len(rejected))
        for args in (("seal",), ("trace", held[0]), ("queue",),
                     ("doctor",)):
            try:
                out = d.ctl(*args, session=None)
            except RuntimeError as e:
                out = str(e)
            with open(d.path("log", "ctl.out"), "a") as f:
                f.write(out)

    def refused(self):
        """What was not accepted leaves no more behind than what was."""
        twice = mail(self.box).replace(b"To:", b"From: <x@y.example>\r\nTo:",
                                       1)
        self.smtp(twice, "5")
        lines = mail(self.box).replace(b"\r\n--b--", b"\n--b--")
        r = rawsmtp.signed_in(self.d, self.box)
        rawsmtp.begin_data(r, self.box, "ann@dest.example")
        r.send(lines)
        assert r.say("\r\n.").startswith("5")
        r.shut()
        r = rawsmtp.signed_in(self.d, self.box)
        rawsmtp.begin_data(r, self.box, "ann@dest.example")
        r.send(mail(self.box, MIB)[:-40])  # and away
        r.shut()
        for body in ('{"to": ["ann@dest.example"], "text": "%s' % TEXT,
                     json.dumps({"to": ["nobody"], "text": TEXT}),
                     json.dumps({"to": ["ann@dest.example"],
                                 "subject": "x\n" + TEXT, "text": TEXT}),
                     json.dumps({"to": ["ann@dest.example"], TEXT: TEXT})):
            status, _, _ = self.agent.call(
                "POST", "/v1/messages/send", body.encode(),
                {"Content-Type": "application/json"})
            assert 400 <= status < 500, status

    def settle(self):
        """Everything that memory holds is written where it goes."""
        d = self.d
        d.sql("CHECKPOINT")
        d.sql("SELECT pg_switch_wal()")
        d.sql("CHECKPOINT")
        for begin, busy in (("BGREWRITEAOF", "aof_rewrite_in_progress:0"),
                            ("BGSAVE", "rdb_bgsave_in_progress:0")):
            self.redis(begin)
            postern.wait_until(begin, lambda: busy in self.redis(
                "INFO", "persistence"))
        info = self.redis("INFO", "persistence")
        assert "rdb_last_bgsave_status:ok" in info
        assert "aof_last_bgrewrite_status:ok" in info
        os.mkdir(d.path("dump"))
        with open(d.path("dump", "postern.sql"), "wb") as f:
            subprocess.run([d.pg_bin + "/pg_dump", "-h", d.path("sock"),
                            "-U", "postgres", "postern"], stdout=f,
                           check=True)

    def files(self, *under):
        return [os.path.join(at, name)
                for at, _, names in os.walk(self.d.path(*under))
                for name in names
                if not os.path.islink(os.path.join(at, name))
                and os.path.isfile(os.path.join(at, name))]

    def open_files(self):
        """Regular files our programs hold, deleted ones too."""
        out = []
        tops = [p.pid for p in self.d.programs.values()] + [
            self.d.postgres.pid, self.d.redis.pid]
        kids = subprocess.run(
            ["ps", "-e", "-o", "pid=,ppid="], capture_output=True,
            text=True, check=True).stdout.split()
        pairs = list(zip(kids[::2], kids[1::2]))
        pids = {str(t) for t in tops} | {
            p for p, up in pairs if int(up) in tops}
        for pid in pids:
            folder = "/proc/%s/fd" % pid
            try:
                for fd in os.listdir(folder):
                    path = os.path.join(folder, fd)
                    if os.path.isfile(path):
                        out.append(path)
            except OSError:
                continue
        return out


@pytest.fixture(scope="module")
def s():
    scene = Scene()
    try:
        scene.play()
        scene.settle()
        yield scene
    finally:
        scene.d.close()
        subprocess.run(["rm", "-rf", scene.search.dir], check=True)


def test_the_search_finds_each_form(s):
    """Split and shifted as an encoder would, among other bytes."""
    for name, data in MARKER.items():
        path = os.path.join(s.search.dir, "control")
        for piece in (data[1000:1032], b"\n" + data[77:200] + b"\n"):
            with open(path, "wb") as f:
                f.write(os.urandom(1001) + piece + os.urandom(999))
            hits, _ = s.search.run(MARKER, [path])
            assert name in [h[1] for h in hits], name
        with open(path, "wb") as f:
            # What is before is surely not the byte that was before.
            f.write(os.urandom(1000) + bytes([data[999] ^ 1])
                    + data[1000:1031])
        if "quoted" not in name:
            assert s.search.run(MARKER, [path])[0] == []


def test_the_subject_is_found_where_it_may_be(s):
    wal = s.files("pg", "data", "pg_wal")
    base = s.files("pg", "data", "base")
    dump = s.files("dump")
    for what, files in (("dump", dump), ("data files", base), ("WAL", wal)):
        hits, total = s.search.run({"subject": SUBJECT.encode()}, files)
        assert hits, "not in the %s" % what
        print("subject in %s: %d files (%s)" % (what, len(hits), total))


def test_no_byte_of_a_body_lies_in_clear(s):
    files = s.files()
    for folder in ("pg/data/pg_wal/", "pg/data/base/", "redis/appendonlydir/",
                   "redis/dump.rdb", "log/posternd.jsonl",
                   "log/postern-admin.jsonl", "log/postern-deliver.jsonl",
                   "log/postgres.log", "log/ctl.out", "state/", "dump/"):
        assert any(s.d.path(folder) in f for f in files), folder
    hits, total = s.search.run(MARKER, files + s.open_files())
    print("marker (%d forms) in: %s; the capture server keeps what it took "
          "in memory and is left out; temporary files: %s" % (
              len(MARKER), total, os.listdir(s.d.path("tmp"))))
    assert hits == []


def test_the_log_saw_every_statement(s):
    """Or the log would prove nothing."""
    with open(s.d.path("log", "postgres.log"), errors="replace") as f:
        text = f.read()
    assert "api.submit" in text and "api.put_chunk" in text
    assert "parameters: $1" in text
