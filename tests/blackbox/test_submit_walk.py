# SPDX-License-Identifier: ISC
"""
Everybody at once at the doors of the agents: SMTP sessions and HTTP
connections that by a seed do anything, legal or not, in any order and cut
anywhere, while an operator revokes, pauses and blocks, and workers, Redis
and PostgreSQL are killed. Every answer is held against a model of its
session; at the end the books are: what was acknowledged is there once and
byte for byte, what was refused is not, what nobody heard of at most once.

Each actor's choices come from the seed; who comes first does not.
"""
import collections
import hashlib
import os
import random
import re
import struct
import threading
import time
import traceback
import urllib.request

import nacl.signing
import pytest

from tests.blackbox.test_rest import Client
from tests.lib import books, leaks, letters, postern, seals
from tests.lib.caller import Caller
from tests.lib.meddler import Meddler, Windows
from tests.lib.pages import public_id
from tests.lib.talker import SIZE_MAX, Talker

FULL = os.environ.get("POSTERN_FULL") == "1"
SEED = int(os.environ.get("POSTERN_SEED", "1"))
SECONDS = int(os.environ.get("POSTERN_WALK_SECONDS", 300 if FULL else 20))
SESSIONS = 100000 if FULL else 400  # of each actor, if there is time
TALKERS, CALLERS = 6, 3
ROOM = 1000000
OVERSIGHT = "boss@acme.example"


class Key:
    def __init__(self, box, text, session=None, minor=True):
        self.box, self.text, self.session, self.minor = \
            box, text, session, minor
        self.id = int(text.split("_")[3])


class Town(Windows):
    def __init__(self, d, seed):
        super().__init__()
        self.d, self.seed = d, seed
        self.boxes, self.keys = d.boxes, []
        self.letters = {}
        self.busy = {}  # actor -> the key it sends with
        self.redis_lives = 1
        self.wrong, self.halt = [], threading.Event()
        self.moved = threading.Condition()
        self.moves = 0
        self.stopping = False
        for box in self.boxes:
            self.new_key(box, box.smtp_key, minor=False)

    # -- what actors know ---------------------------------------------------

    def new_key(self, box, text, session=None, minor=True):
        self.d.issued.update(leaks.of_token("key of a walk", text))
        with self.lock:
            self.keys.append(Key(box, text, session, minor))

    def key_named(self, session):
        with self.lock:
            return next((k for k in self.keys if k.session == session), None)

    def some_key(self, rng):
        with self.lock:
            if rng.random() < .6:
                return rng.choice(self.keys[:len(self.boxes)])
            return rng.choice(self.keys[-12:])

    def send_key(self, box, rng):
        """None: the inbox's own."""
        with self.lock:
            some = [k for k in self.keys if k.box is box]
        return rng.choice(some[-4:]) if rng.random() < .4 else None

    def know(self, mail):
        with self.lock:
            self.letters[mail.subject] = mail

    def forget(self, mail):
        with self.lock:
            del self.letters[mail.subject]

    def mails(self, box):
        with self.lock:
            return [m for m in list(self.letters.values())[-200:]
                    if m.box is box]

    def again(self, key, rng):
        """One that this key tried before, with a Message-ID of its own."""
        some = [m for m in self.mails(key.box) if m.key is key
                and m.http is None and m.want == "stored"
                and getattr(m, "plain", False)
                and b"\nMessage-ID:" in b"\n" + m.data.partition(
                    b"\r\n\r\n")[0]]
        return rng.choice(some) if some else None

    # -- what may be ----------------------------------------------------------

    def ill(self, since):
        return self.perhaps("ill", since) or self.perhaps("killed", since)

    def thirsty(self, since):
        return self.perhaps("thirst", since) or self.perhaps("killed", since)

    def killed_since(self, began):
        return self.perhaps("killed", began)

    def draining(self):
        return self.stopping

    def must_fail(self, key, mail, since):
        """What was stored before may be told again all the same."""
        box = mail.box
        if key is not None and self.surely(("dead", key.id), since):
            return "dead"
        if mail.stored or mail.open or mail.tries > 1:
            return None
        for what in [("suspended", box.inbox_id), ("read_only", box.inbox_id)
                     ] + [("blocked", box.inbox_id, r) for r in mail.rcpts]:
            if self.surely(what, since):
                return what
        return None

    # -- the walk -------------------------------------------------------------

    def moves_on(self):
        with self.moved:
            self.moves += 1
            self.moved.notify_all()

    def progress(self, n):
        """Until that many sessions more have ended."""
        with self.moved:
            until = self.moves + n
            assert self.moved.wait_for(
                lambda: self.moves >= until or self.halt.is_set(), 120)

    def act(self, actor):
        try:
            for _ in range(SESSIONS):
                if self.halt.is_set() or self.stopping:
                    break
                actor.session()
                self.moves_on()
        except BaseException:
            self.wrong.append("%s\n%s" % (traceback.format_exc(), "\n".join(
                actor.log[-25:])))
            self.halt.set()
            self.moves_on()


@pytest.fixture
def d():
    with postern.Deployment(workers=2, extra={
            "smtp": {"size_max": str(SIZE_MAX), "rcpt_max": "8"}}) as it:
        it.add_tenant("acme", "acme.example")
        it.add_tenant("rival", "rival.example")
        it.sql("UPDATE d.plan SET lim_hour = %d, lim_day = %d, lim_month = "
               "%d, lim_held = %d, lim_bytes = 85899345920" % ((ROOM,) * 4))
        it.boxes = []
        for i, (mode, limits) in enumerate((
                (2, None), (4, None), (3, None), (2, (ROOM, 12, ROOM)),
                (2, (12, ROOM, ROOM)), (2, (ROOM, ROOM, 8)), (4, None),
                (4, (9, 15, ROOM)))):
            slug = "rival" if i >= 5 else "acme"
            box = it.add_inbox("w%d@%s.example" % (i, slug), slug)
            box.tight, box.limits = limits is not None, limits
            if limits:
                it.step_up()
                it.api("limits_set_1", it.session, os.geteuid(),
                       box.tenant_id, box.inbox_id, None, limits[0],
                       limits[1], ROOM, limits[2], 1 << 30)
            box.monitored = mode == 3
            if box.monitored:
                it.sql("UPDATE d.inbox SET oversight = %s WHERE inbox_id = "
                       "%s", OVERSIGHT, box.inbox_id)
            if mode != 2:
                it.set_mode(box, mode)
            it.boxes.append(box)
        it.start("posternd")
        yield it


class Judge:
    def __init__(self, town):
        self.town, self.d, self.wrong = town, town.d, []
        self.rows = collections.defaultdict(list)
        for row in self.d.sql(
                "SELECT m.*, s.state, i.address FROM d.message m JOIN d.state "
                "s USING (message_id, tenant_id, version) JOIN d.inbox i ON "
                "i.inbox_id = m.inbox_id AND i.tenant_id = m.tenant_id"):
            self.rows[row["subject"]].append(row)
        self.clients = {b.inbox_id: Client(self.d, b.key)
                        for b in town.boxes}

    def say(self, *what):
        self.wrong.append(what)

    def judge(self):
        for name, query in books.BOOKS.items():
            for row in self.d.sql(query):
                self.say("books", name, dict(row))
        for mail in self.town.letters.values():
            self.letter(mail)
        for subject, rows in self.rows.items():
            if re.match(r"[wh]\d+-\d+-\d+$", subject) and \
                    subject not in self.town.letters:
                self.say("nobody sent", subject)
        self.limits()
        return self.wrong

    def letter(self, mail):
        rows = self.rows.get(mail.subject, [])
        ids = {mid for mid, _ in mail.stored}
        about = (mail.subject, mail.want, mail.stored, mail.refused,
                 mail.open, [public_id(r["message_id"]) for r in rows])
        if len(ids) > 1:
            self.say("two ids", *about)
        if mail.stored and {public_id(r["message_id"]) for r in rows} != ids:
            self.say("acknowledged", *about)
        if not mail.stored and len(rows) > bool(mail.open):
            self.say("not acknowledged", *about)
        if rows and mail.want != "stored":
            self.say("may not be", *about)
        for row in rows[:1]:
            self.row(mail, row, about)

    def row(self, mail, row, about):
        if row["inbox_id"] != mail.box.inbox_id:
            self.say("whose", *about)
        # A copy may go where its mode has just said so or no more says so.
        copies = {OVERSIGHT} if mail.box.monitored else set()
        if sorted(set(row["rcpt"]) - copies) != sorted(set(mail.rcpts)):
            self.say("recipients", row["rcpt"], mail.rcpts, *about)
        digest = digest_of(row)
        if bytes(row["digest"]) != digest:
            self.say("digest", *about)
        for _, told in mail.stored:
            if told not in (None, "sha256:" + digest.hex()):
                self.say("digest told", told, *about)
        path = "/v1/messages/%s" % public_id(row["message_id"])
        client = self.clients[mail.box.inbox_id]
        if mail.data is None:
            status, _, doc = client.get(path)
            if status != 200 or doc["text"].rstrip() != mail.text.rstrip():
                self.say("text", status, mail.text, doc, *about)
            return
        status, _, raw = client.get(path + "/raw")
        fault = status != 200 or letters.wrong_in(mail, raw)
        if fault:
            self.say("bytes", fault, *about)

    def limits(self):
        for box in self.town.boxes:
            if not box.tight:
                continue
            hour, day, held = box.limits
            (n,) = self.d.sql(
                "SELECT count(*) AS all, count(*) FILTER (WHERE s.state = 1) "
                "AS held, count(*) FILTER (WHERE EXISTS (SELECT 1 FROM "
                "d.release r WHERE r.message_id = s.message_id AND r.by_what "
                "<> 'o')) AS by_policy FROM d.state s WHERE s.inbox_id = %s",
                box.inbox_id)
            if n["all"] > day:
                self.say("more than a day's", box.address, n, day)
            # Redis forgets when it dies. What is held goes on without it,
            # by what each worker counts itself: a share of the limit.
            lives = self.town.redis_lives
            if n["by_policy"] > hour * lives:
                self.say("more than an hour's", box.address, n, hour, lives)
            lives += len(self.town._some("killed")) + self.town.redis_lives
            if n["all"] > hour * lives:
                self.say("more than an hour's", box.address, n, hour, lives)
            if n["held"] > held:
                self.say("more than may be held", box.address, n, held)


def digest_of(row):
    """mail/digest.c, from the row."""
    def lp(data):
        return struct.pack(">I", len(data)) + data
    out = lp(b"postern.digest.1") + struct.pack(
        ">QQ", row["tenant_id"], row["inbox_id"])
    out += bytes.fromhex(str(row["message_id"]).replace("-", ""))
    out += struct.pack(">HB", row["version"], row["test"])
    out += lp(row["mail_from"].encode())
    out += struct.pack(">I", len(row["rcpt"]))
    for rcpt in row["rcpt"]:
        out += lp(rcpt.encode())
    out += lp(row["params"].encode()) + struct.pack(">Q", row["size"])
    out += lp(bytes(row["body_tag"])) + struct.pack(
        ">QQ", row["send_at"] or 0, row["not_after"] or 0)
    return hashlib.sha256(out).digest()


def metric(d, name):
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" %
                                d.metrics_port, timeout=20) as r:
        text = r.read().decode()
    return sum(float(v) for v in re.findall(
        r"(?m)^%s(?:\{.*\})? (\S+)$" % name, text))


def sockets_of(pids, ports):
    """Connections of clients that these processes still hold."""
    inodes = {}
    with open("/proc/net/tcp") as f:
        for line in list(f)[1:]:
            words = line.split()
            if int(words[1].split(":")[1], 16) in ports and \
                    words[3] != "0A":
                inodes[words[9]] = words[2]
    out = []
    for pid in pids:
        for fd in os.listdir("/proc/%d/fd" % pid):
            try:
                to = os.readlink("/proc/%d/fd/%s" % (pid, fd))
            except OSError:
                continue
            if to.startswith("socket:[") and to[8:-1] in inodes:
                out.append((pid, fd, inodes[to[8:-1]]))
    return out


def begun(town, actors):
    town.halt.clear()
    threads = [threading.Thread(target=town.act, args=(a,), daemon=True)
               for a in actors]
    for t in threads:
        t.start()
    return threads


def halted(town, threads):
    town.halt.set()
    for t in threads:
        t.join(120)
        assert not t.is_alive()


def good(town):
    if town.wrong:
        town.wrong += reports(town.d)
    assert not town.wrong, "\n".join(town.wrong)


def test_everybody_at_once(d):
    town = Town(d, SEED)
    actors = [Talker(town, i, random.Random("t%d.%d" % (SEED, i)))
              for i in range(TALKERS)]
    actors += [Caller(town, i, random.Random("c%d.%d" % (SEED, i)))
               for i in range(CALLERS)]
    meddler = Meddler(town, random.Random(SEED))
    end = time.monotonic() + SECONDS
    threads = begun(town, actors)
    try:
        while time.monotonic() < end and not town.wrong and any(
                t.is_alive() for t in threads):
            town.progress(2)
            meddler.step()
    finally:
        halted(town, threads)
    meddler.rest()
    did = sum((a.did for a in actors), collections.Counter())
    print("seed", SEED, sum(did.values()), "answers",
          sorted(did.items(), key=str), sorted(meddler.did.items(), key=str))
    good(town)
    leaves_nothing(d, meddler)
    stopped_under_way(d, town, actors)
    judge = Judge(town)
    wrong = judge.judge() + reports(d)
    print(len(town.letters), "letters", len(judge.rows), "stored")
    verified(d)
    assert d.programs["posternd"].stop() == 0
    for what in wrong[:20]:
        print(*what) if isinstance(what, tuple) else print(what)
    assert not wrong


def stopped_under_way(d, town, actors):
    """SIGTERM among them: it ends in its time, and all it says is true."""
    posternd = d.programs["posternd"]
    threads = begun(town, actors)
    town.progress(8)
    town.stopping = True
    assert posternd.stop() == 0
    halted(town, threads)
    good(town)
    assert not reports(d)
    d.start("posternd")


def reports(d):
    """What a sanitizer said."""
    lines = [line for line in d.programs["posternd"].lines if line]
    return ["\n".join(lines[i:i + 60]) for i, line in enumerate(lines)
            if re.search("ERROR: |runtime error|BUG", line)]


def verified(d):
    """By our own program, the log of all that was done too."""
    path = d.path("keys", "seal.key")
    with open(path) as f:
        seed = seals.unbase32(f.read().split()[1], 32)
    seals.key_file(path + ".pub", "audit-pub", bytes(
        nacl.signing.SigningKey(seed).verify_key), True)
    d._run(d.as_user([os.path.join(postern.build_dir(), "posternctl"), "-c",
                      d.conf, "seal"]), cwd="/")
    said = d.ctl("database", "verify", "--superuser", "postgres")
    assert "broken" not in said, said


def leaves_nothing(d, meddler):
    ports = {d.smtp_port, d.smtps_port, d.api_port}
    postern.wait_until("all connections to end", lambda: not sockets_of(
        meddler.workers(), ports), 30)
    # A worker that was killed has counted what it can no more take back.
    assert metric(d, "postern_sessions") >= 0
