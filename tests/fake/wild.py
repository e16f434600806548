# SPDX-License-Identifier: ISC
"""
A mail exchanger that by a seed says anything at any step, and keeps a book of
each dot that came: what was under it, and what was said to it.

    mx = WildMx(house, seed, cert, key, address="127.33.0.1", port=25)

`House` is what several of them share: the book, what was said under which
mark, whether they are calm, and the gate that the slow ones wait at.
"""
import random
import re
import threading
import time

from tests.fake.mx import FakeMx, Session

# How a step goes wrong, and how often among those that do.
TEMPORARY, PERMANENT, BUSY, CUT, PART, AFTER, JUNK, HOLD, LINES = range(9)
WRONGS = [TEMPORARY] * 6 + [PERMANENT] * 3 + [BUSY] * 2 + [CUT] * 3 + [
    PART, AFTER, AFTER, JUNK, HOLD, HOLD, HOLD, LINES, LINES]
AT_DOT = WRONGS + [CUT, PART, JUNK, HOLD] * 3
JUNKS = ["hello", "25", "250x ok", "999 what", "600 6.0.0 odd", " ", "-",
         "2 5 0", "334 go on"]
ENHANCED = {4: ["4.2.1", "4.7.1", "4.3.2", "4.4.5", "5.1.1", "4.1000.2", ""],
            5: ["5.7.1", "5.2.2", "5.6.0", "4.2.2", "5.999.999", ""]}


class House:
    def __init__(self):
        self.lock = threading.Lock()
        self.calm = False
        self.book = []  # of dots, in the order they came
        self.said = {}  # mark: code, verb, and whom it was about
        self.slow = threading.Event()
        self.at_dot = threading.Semaphore(0)  # one for each that waits there
        self.did = {}

    def count(self, *what):
        with self.lock:
            self.did[what] = self.did.get(what, 0) + 1

    def mark(self, code, verb, rcpts):
        with self.lock:
            mark = "m%d." % (len(self.said) + 1)
            self.said[mark] = (code, verb, rcpts)
        return mark

    def wait(self):
        """Until let_go(), or it is calm."""
        with self.lock:
            slow = self.slow
        slow.wait(20)

    def let_go(self):
        with self.lock:
            slow, self.slow = self.slow, threading.Event()
        slow.set()


class WildSession(Session):
    def __init__(self, mx, sock):
        super().__init__(mx, sock)
        self.house = mx.house
        with mx.lock:
            mx.sessions += 1
            r = self.rng = random.Random("%s.%d" % (mx.seed, mx.sessions))
        self.wrong = r.choice((0, 0, .05, .1, .2))
        self.pieces = r.random() < .2
        self.after = False
        self.about = []  # all that were named in this transaction
        self.words = ["fake.example"] + [w for p, w in (
            (.8, "PIPELINING"), (.9, "8BITMIME"), (.3, "ENHANCEDSTATUSCODES"),
            (.4, "DSN"), (.5, "STARTTLS"), (.2, "LIMITS RCPTMAX=1"),
            (.2, "LIMITS MAILMAX=2"), (.6, "SIZE 60000000"),
            (.05, "SIZE 2000")) if r.random() < (
                p if not self.house.calm or w != "SIZE 2000" else 0)]
        if self.house.calm:
            self.words.append("8BITMIME")

    def send(self, text, behind=b""):
        after, self.after = self.after, False
        data = text.replace("\n", "\r\n").encode() + b"\r\n" + behind
        if self.pieces and not self.house.calm:
            n = self.rng.randint(1, len(data))
            self.sock.sendall(data[:n])
            time.sleep(0.002)
            self.sock.sendall(data[n:])
        else:
            self.sock.sendall(data)
        if after:
            raise ConnectionAbortedError

    def refusal(self, first, verb, line=""):
        """A reply of that class, found again by its mark."""
        r = self.rng
        code = r.choice({4: (450, 451, 452, 421 if verb == "dot" else 450),
                         5: (550, 552, 554)}[first])
        about = [line.split("<")[1].split(">")[0]] if verb == "RCPT" else \
            list(self.about)
        mark = self.house.mark(code, verb, about)
        text = " ".join(filter(None, (
            str(code), r.choice(ENHANCED[first]), "no", mark)))
        if r.random() < .2:
            text = "%d-%s\n%s" % (code, r.choice(("so it is", "5.1.1 x", "")),
                                  text)
        return text

    def moment(self, name, line=""):
        if name == "MAIL":
            self.mail_from, self.rcpts, self.about = None, [], []
        if name == "RCPT":
            self.about.append(line.split("<")[1].split(">")[0])
        if self.house.calm or self.rng.random() >= self.wrong or name in (
                "dot", "QUIT", "before_dot"):
            return None
        return self.go_wrong(name, line, self.rng.choice(WRONGS))

    def go_wrong(self, name, line, how):
        self.house.count(name, how)
        if name == "tls":
            raise ConnectionAbortedError
        if how == TEMPORARY or how == PERMANENT:
            return self.refusal(4 if how == TEMPORARY else 5, name, line)
        if how == BUSY:
            mark = self.house.mark(421, name, list(self.about))
            self.after = True
            return "421 4.3.2 busy " + mark
        if how == PART:
            self.sock.sendall(b"250-2.0.0 half of"[:self.rng.randint(1, 17)])
        if how in (PART, CUT):
            raise ConnectionAbortedError
        if how == JUNK:
            return self.rng.choice(JUNKS)
        if how == AFTER:
            self.after = True
        if how == HOLD:
            self.house.wait()
        if how == LINES and name == "RCPT":
            self.do_rcpt(line)
            return "251-2.1.5 it\n251-2.1.5 will\n251 2.1.5 be forwarded"
        return None

    def do_ehlo(self, line):
        words = [w for w in self.words if w != "STARTTLS" or not self.tls]
        return "\n".join("250%s%s" % ("-" if i + 1 < len(words) else " ", w)
                         for i, w in enumerate(words))

    def do_rcpt(self, line):
        if self.mail_from is None:
            return "503 5.5.1 need MAIL " + self.house.mark(
                503, "RCPT", list(self.about))
        return super().do_rcpt(line)

    def do_data(self, line):
        if not self.rcpts:
            return "503 5.5.1 need RCPT " + self.house.mark(
                503, "DATA", list(self.about))
        dot = {"asked": time.time(), "mx": self.mx.address,
               "port": self.mx.port, "answer": None,
               "mail_from": self.mail_from, "rcpts": list(self.rcpts),
               "tls": self.tls, "login": self.login, "taken": False}
        wrong = not self.house.calm and self.rng.random() < 2 * self.wrong
        if wrong and self.rng.random() < .1:
            self.house.count("body", CUT)
            self.send("354 go ahead")
            self.file.read1(self.rng.randint(1, 3000))
            raise ConnectionAbortedError
        self.send("354 go ahead")
        data, raw = bytearray(), b""
        while raw != b".\r\n":
            data += raw
            raw = self.file.readline(1 << 20)
            if not raw:
                raise EOFError
        dot["at"] = time.time()
        dot["data"] = re.sub(rb"(?m)^\.", b"", bytes(data))
        with self.house.lock:
            self.house.book.append(dot)
        how = self.rng.choice(AT_DOT) if wrong else None
        text = self.judge(dot, how)
        self.mail_from, self.rcpts = None, []
        self.send_verdict(dot, text, 0 if how == JUNK else int(text[:3]))
        return ""

    def send_verdict(self, dot, text, code):
        """`answer` is what left whole, whatever came behind it."""
        after, self.after = self.after, False
        self.send(text)
        dot["answer"] = code
        if after:
            raise ConnectionAbortedError

    def judge(self, dot, how):
        """What is said to it; whether it was taken stands in `dot`."""
        if how is not None:
            self.house.count("dot", how)
        if how == TEMPORARY or how == PERMANENT:
            return self.refusal(4 if how == TEMPORARY else 5, "dot")
        if how == BUSY:
            self.after = True
            return "421 4.3.2 busy " + self.house.mark(
                421, "dot", list(self.about))
        if how == HOLD:
            self.house.at_dot.release()
            self.house.wait()
        dot["taken"] = how not in (CUT, PART, JUNK) or self.rng.random() < .6
        if how == PART:
            text = self.rng.choice((b"2", b"250", b"250 2.0.0 tak",
                                    b"250-2.0.0 one\r\n"))
            self.sock.sendall(text)
        if how in (PART, CUT):
            raise ConnectionAbortedError
        if how == JUNK:
            return self.rng.choice(JUNKS)
        if how == AFTER:
            # A reply read to its end is an answer, whatever comes behind.
            self.after = True
        return "250-2.0.0 it is\n250 2.0.0 taken" if how == LINES else \
            "250 2.0.0 taken"


class WildMx(FakeMx):
    session = WildSession

    def __init__(self, house, seed, cert, key, address, port=25, **how):
        self.house, self.seed, self.address = house, seed, address
        self.sessions = 0
        super().__init__(cert, key, address=address, port=port, **how)
