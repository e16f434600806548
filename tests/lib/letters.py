# SPDX-License-Identifier: ISC
"""
Messages for a walk: good ones whose every byte is known afterwards, and those
that nobody may take. A message is known by its subject.
"""
import email.utils
import re
import threading
import time

PEOPLE = ["ann", "bob", "cid", "dan", "eve", "\"a b\"", "f+x"]
DOMAINS = ["d%d.example" % i for i in range(6)]
LINES = [b".", b"..", b".leave", b"...", b". ", b"From here", b"x" * 998, b"",
         b"plain", b"-- ", b" .", b"end.", b".\t", b"DATA", b"RSET", b"QUIT",
         b"MAIL FROM:<x@d1.example>", b"\xc3\xbc" * 20, b"a\tb"]
# What a relay adds or takes away, see mail/freeze_header.c.
REMOVED = [b"Bcc: <hid@d1.example>", b"Return-Path: <x@d1.example>",
           b"X-Postern-Test: 1", b"Delivered-To: a@d1.example"]


class Mail:
    """`want`: "stored", or the reply to its dot by SMTP."""

    def __init__(self, subject, box, rcpts, data, want="stored", late=False):
        self.subject, self.box, self.data, self.want = \
            subject, box, data, want
        self.rcpts = rcpts  # as a client says them
        self.judged_late = late  # its key is looked at before it is
        self.key = self.http = None
        self.tail = b""  # behind it, as it is, before the dot
        self.stored, self.refused, self.open = [], [], 0
        self.tries = 0
        self.told = None  # when it was first acknowledged
        self.lock = threading.Lock()

    def is_stored(self, mid, digest=None):
        with self.lock:
            self.stored.append((mid, digest))
            self.told = self.told or time.monotonic()

    def was_told(self, since):
        """Acknowledged before: who asks again is told the same."""
        return self.told is not None and self.told < since

    def is_refused(self, reply):
        with self.lock:
            self.refused.append(reply)

    def is_open(self):
        """All of it was sent, and nobody heard what became of it."""
        with self.lock:
            self.open += 1


def stuffed(data):
    return re.sub(rb"(\A|\r\n)\.", rb"\1..", data)


def rcpts_of(rng, n=None):
    n = n or rng.choice((1, 1, 2, 3, 6))
    return ["%s@%s" % (rng.choice(PEOPLE), rng.choice(DOMAINS))
            for _ in range(n)]


def head(rng, box, subject, rcpts, message_id=True):
    fields = [b"From: <%s>" % box.address.encode(),
              b"To: <%s>" % rcpts[0].encode(),
              b"Subject: " + subject.encode(), b"MIME-Version: 1.0",
              b"Content-Type: text/plain;\r\n charset=utf-8",
              b"Content-Transfer-Encoding: 8bit"]
    if message_id:
        fields.append(b"Message-ID: <%s@client.example>" % subject.encode())
    if rng.random() < .5:
        fields.append(b"Date: " + email.utils.formatdate(
            1800000000).encode())
    if rng.random() < .3:
        fields.append(rng.choice(REMOVED))
    if rng.random() < .3:
        fields.append(b"X-Note: " + b"y" * rng.choice((0, 1, 900)))
    rng.shuffle(fields)
    return b"\r\n".join(fields) + b"\r\n"


def lines(rng, big):
    n = rng.choice((0, 1, 3, 10, 60))
    out = [rng.choice(LINES) for _ in range(n)]
    if big:
        size = rng.choice((20000, 70000, 300000, 1500000))
        line = bytes(rng.choice(b"abcdefgh.") for _ in range(400))
        out += [line] * (size // 402)
    return b"".join(line + b"\r\n" for line in out)


def good(rng, box, subject, message_id=True, big=False):
    rcpts = rcpts_of(rng)
    return Mail(subject, box, rcpts, head(
        rng, box, subject, rcpts, message_id) + b"\r\n" + lines(rng, big))


def spoiled(rng, box, subject, size_max):
    """A message that must be refused, and as what."""
    m = good(rng, box, subject)
    top, _, body = m.data.partition(b"\r\n\r\n")
    top += b"\r\n"
    kind = rng.choice(("lf", "cr", "nul", "long", "two", "foreign", "none",
                       "utf8", "resent", "lf", "dots", "large"))
    tail = b""
    bad, sender = "554 5.6.0 [message_malformed]", \
        "550 5.7.1 [sender_mismatch]"
    if kind in ("lf", "cr", "nul"):
        body += b"one" + {"lf": b"\n", "cr": b"\r", "nul": b"\0"}[kind] + \
            b"two\r\n"
    elif kind == "dots":  # ends for others, but not here
        tail = rng.choice((
            b"\n.\n", b"\n.\r\n", b"\r\n.\n", b"\r.\r\n", b"\r\n.\r",
            b"\r\n.\x00\r\n")) + b"MAIL FROM:<x@d1.example>\r\n"
    elif kind == "long":
        body += b"z" * 999 + b"\r\n"
    elif kind == "large":
        body += (b"w" * 998 + b"\r\n") * (size_max // 1000 + 1)
        bad = "552 5.3.4 [payload_too_large]"
    elif kind == "two":
        top += b"From: <%s>\r\n" % box.address.encode()
        bad = sender
    elif kind == "foreign":
        top = top.replace(b"From: <", b"From: <not-")
        bad = sender
    elif kind == "none":
        top = top.replace(b"From: <", b"X-From: <")
        bad = sender
    elif kind == "utf8":
        top += b"X-Name: \xc3\xbc\r\n"
        bad = "550 5.6.7 [smtputf8_needed]"
    elif kind == "resent":
        top += b"Resent-From: <%s>\r\n" % box.address.encode()
    late = kind in ("two", "foreign", "none", "utf8", "resent")
    mail = Mail(subject, box, m.rcpts, top + b"\r\n" + body, bad, late)
    mail.tail = tail
    return mail


def wrong_in(mail, raw):
    """What the frozen bytes have that they should not, or None."""
    top, _, body = raw.partition(b"\r\n\r\n")
    was_top, _, was_body = mail.data.partition(b"\r\n\r\n")
    if body != was_body:
        return "the body"
    have, was = fields(top), fields(was_top)
    if not have[0].startswith(b"Received: by "):
        return "no Received"
    gone = [f.split(b":")[0] for f in REMOVED]
    kept = [f for f in was if f.split(b":")[0] not in gone]
    names = {f.split(b":")[0] for f in kept}
    added = [f for f in have[1:] if f.split(b":")[0] in
             {b"Date", b"Message-ID"} - names]
    if [f for f in have[1:] if f not in added] != kept:
        return "the fields %r" % have
    if len(added) != len({b"Date", b"Message-ID"} - names):
        return "what was added: %r" % added
    return None


def fields(top):
    out = []
    for line in top.split(b"\r\n"):
        if line[:1] in b" \t" and out:
            out[-1] += b"\r\n" + line
        else:
            out.append(line)
    return out
