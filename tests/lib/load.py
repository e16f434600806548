# SPDX-License-Identifier: ISC
"""
Agents and an operator who go on through every failure, and who remember what
they were told. An agent sends each message until it is acknowledged, with the
same key, as the documents ask; a message is known by its subject.
"""
import http.client
import json
import random
import smtplib
import ssl
import threading
import zlib

import psycopg2

from . import person, seals

CUT = (OSError, http.client.HTTPException, smtplib.SMTPException)


def message_id(u):
    """The outside form of an id, from psycopg2's text."""
    return "msg_" + seals.base32(bytes.fromhex(str(u).replace("-", "")))


def text_of(subject):
    """The lines of the message with that subject."""
    rng = random.Random(subject)
    text = "%x" % rng.getrandbits(rng.choice((300, 3000, 60000)))
    return [text[i:i + 70] for i in range(0, len(text), 70)]


class Tally:
    """Acknowledgements of all agents; wait for more of them."""

    def __init__(self):
        self.changed = threading.Condition()
        self.ids = {}     # subject -> id as acknowledged
        self.doors = {}   # door -> how many
        self.bad = []     # answers nobody may get

    def add(self, door, subject, mid):
        with self.changed:
            self.ids[subject] = mid
            self.doors[door] = self.doors.get(door, 0) + 1
            self.changed.notify_all()

    def wait(self, doors, timeout=90):
        """Until each door has acknowledged that many in all."""
        with self.changed:
            assert self.changed.wait_for(
                lambda: self.bad or all(self.doors.get(d, 0) >= n
                                        for d, n in doors.items()),
                timeout), "no progress: %s of %s" % (self.doors, doors)
        assert not self.bad, self.bad

    def now(self):
        with self.changed:
            return dict(self.doors)


class Agent(threading.Thread):
    door = None
    pause = 0  # seconds, behind each message

    def __init__(self, d, box, number, tally):
        super().__init__(daemon=True)
        self.d, self.box, self.number, self.tally = d, box, number, tally
        self.halt = threading.Event()
        self.tls = ssl.create_default_context(cafile=d.ca_file)
        self.retries = 0

    def run(self):
        n = 0
        while not self.halt.is_set():
            n += 1
            subject = "%s-%d-%d" % (self.door, self.number, n)
            lines = text_of(subject)
            while not self.halt.is_set():
                try:
                    mid = self.send(subject, lines)
                except CUT:
                    self.close()
                    mid = None
                if mid:
                    self.tally.add(self.door, subject, mid)
                    self.halt.wait(self.pause)
                    break
                self.retries += 1
                self.halt.wait(0.02)
        self.close()

    def wrong(self, *answer):
        with self.tally.changed:
            self.tally.bad.append(answer)
            self.tally.changed.notify_all()
        self.halt.set()


class SmtpAgent(Agent):
    door = "smtp"
    session = None

    def close(self):
        if self.session is not None:
            self.session.close()
        self.session = None

    def begin(self):
        s = smtplib.SMTP("127.0.0.1", self.d.smtp_port, timeout=30)
        try:
            s._host = "localhost"
            s.starttls(context=self.tls)
            s.ehlo("agent.test")
            s.login(self.box.address, self.box.smtp_key)
        except smtplib.SMTPResponseException as e:
            s.close()
            self.check(e.smtp_code, e.smtp_error)
            raise
        except BaseException:
            s.close()
            raise
        self.session = s

    def check(self, code, text):
        if not 200 <= code < 500:
            self.wrong(self.door, code, text)
        return code < 400

    def send(self, subject, lines):
        if self.session is None:
            self.begin()
        s = self.session
        for answer in (s.mail(self.box.address), s.rcpt("ann@dest.example")):
            if not self.check(*answer):
                self.close()
                return None
        code, text = s.data(
            "From: <%s>\r\nTo: <ann@dest.example>\r\nMessage-ID: "
            "<%s@acme.example>\r\nSubject: %s\r\n\r\n%s\r\n" % (
                self.box.address, subject, subject, "\r\n".join(lines)))
        if not self.check(code, text):
            self.close()
            return None
        return text.decode().split("id=")[1].split()[0]


class RestAgent(Agent):
    door = "rest"
    connection = None

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def send(self, subject, lines):
        if self.connection is None:
            self.connection = http.client.HTTPSConnection(
                "127.0.0.1", self.d.api_port, timeout=30, context=self.tls)
        self.connection.request("POST", "/v1/messages/send", json.dumps({
            "to": ["ann@dest.example"], "subject": subject,
            "text": "\n".join(lines) + "\n"}), {
                "Authorization": "Bearer " + self.box.key,
                "Content-Type": "application/json",
                "Idempotency-Key": subject})
        r = self.connection.getresponse()
        doc = json.loads(r.read())
        if r.status == 202:
            return doc["message_id"]
        if r.status != 503 or not r.getheader("Retry-After"):
            self.wrong(self.door, r.status, doc)
        self.close()
        return None


class Decider(threading.Thread):
    """Approves four of five held messages, rejects one of ten; each of
    `count` deciders takes its share of them."""

    def __init__(self, d, seed, number=0, count=1):
        super().__init__(daemon=True)
        self.d, self.number, self.count = d, number, count
        self.rng = random.Random("decider %s %d" % (seed, number))
        self.halt = threading.Event()
        self.tried, self.done, self.left = {}, {}, set()
        self.bad = []
        self.operator = person.Operator(d)

    def held(self):
        try:
            rows = self.d.sql("SELECT message_id FROM d.state WHERE state = 1 "
                              "AND round = 1 ORDER BY message_id LIMIT 500")
        except psycopg2.Error:
            return []
        return [m for m in (message_id(r["message_id"]) for r in rows)
                if zlib.crc32(m.encode()) % self.count == self.number
                and m not in self.left and m not in self.done]

    def run(self):
        while not self.halt.is_set():
            todo = self.held()
            if not todo:
                self.halt.wait(0.05)
            for mid in todo:
                if self.halt.is_set():
                    return
                self.decide(mid)

    def decide(self, mid):
        if mid not in self.tried:
            at = self.rng.random()
            if at > 0.9:
                self.left.add(mid)
                return
            self.tried[mid] = "a" if at < 0.8 else "r"
        try:
            status = self.operator.decide(mid, self.tried[mid],
                                          category="other", note="no")
        except CUT:
            self.halt.wait(0.02)
            return
        except AssertionError as e:
            # The page says 503 while the database is away, and has no form
            # once an answer that was cut had decided.
            if "(503" not in str(e) and "no form" not in str(e):
                self.bad.append((mid, str(e)))
            return
        if status == 303:
            self.done[mid] = self.tried[mid]
        elif status not in (409, 503):
            self.bad.append((mid, status))
