# SPDX-License-Identifier: ISC
"""One who submits by SMTP, as well and as badly as it can be done."""
import base64
import collections
import time

from . import letters
from .rawsmtp import plain
from .smtpmodel import RCPT_MAX, Item, Session
from .wire import Gone, Wire

SIZE_MAX = 3 << 20
BAD_SENDER = "501 5.1.7 [invalid_address]"
BAD_RCPT = "501 5.1.3 [invalid_address]"
SYNTAX = "501 5.5.4 [syntax_error]"
UNKNOWN_PARAM = "555 5.5.4 [param_unsupported]"
MAIL_PARAMS = [
    ("SIZE=1000", None), ("SIZE=0", None), ("BODY=7BIT", None),
    ("body=8bitmime", None), ("SMTPUTF8", None), ("AUTH=<>", None),
    ("RET=HDRS", None), ("ENVID=abc+2Bd", None), ("REQUIRETLS", None),
    ("SIZE=" + "9" * 20, "552 5.3.4 [payload_too_large]"),
    ("SIZE=" + "9" * 21, SYNTAX), ("SIZE=1x", SYNTAX), ("BODY=9BIT", SYNTAX),
    ("RET=ALL", SYNTAX), ("ENVID=a+00", SYNTAX), ("SIZE=1 SIZE=1", SYNTAX),
    ("HOLDFOR=9", UNKNOWN_PARAM), ("MT-PRIORITY=1", UNKNOWN_PARAM),
    ("X", UNKNOWN_PARAM)]
RCPT_PARAMS = [("NOTIFY=NEVER", None), ("NOTIFY=SUCCESS,DELAY", None),
               ("ORCPT=rfc822;root", None), ("ORCPT=rfc822;a+00b", SYNTAX),
               ("NOTIFY=NEVER,DELAY", SYNTAX), ("X=1", UNKNOWN_PARAM)]
BAD_RCPTS = [
    ("<>", BAD_RCPT), ("<nobody>", BAD_RCPT), ("<a@b@c.example>", BAD_RCPT),
    ("<@x.example:a@d1.example>", BAD_RCPT), ("<a b@d1.example>", BAD_RCPT),
    ("a@d1.example", BAD_RCPT), ("<a@localhost>",
                                 "550 5.1.2 [recipient_domain_refused]"),
    ("<\u00fc@d1.example>", "550 5.6.7 [smtputf8_needed]"),
    ("<a@[127.0.0.1]>", None)]
AFTER_BODY = ("none", "none", "none", "commands", "commands", "half", "cut")


class Talker:
    def __init__(self, town, number, rng):
        self.town, self.number, self.rng = town, number, rng
        self.n = 0
        self.did = collections.Counter()
        self.log = []

    def token(self):
        self.n += 1
        return "w%d-%d-%d" % (self.town.seed, self.number, self.n)

    # -- a session --------------------------------------------------------

    def session(self):
        self.began = time.monotonic()
        rng = self.rng
        self.log = []
        self.items = collections.deque()
        implicit = rng.random() < .4
        self.s = Session(self.town, implicit)
        try:
            self.wire = Wire(self.town.d.smtps_port if implicit
                             else self.town.d.smtp_port, rng)
        except Gone:
            self.excused("no connection")
            return
        try:
            self.whole(implicit)
        except Gone as e:
            self.items.clear()
            self.excused(e)
        finally:
            self.town.busy.pop(self, None)
            self.wire.close()
            self.did["sessions"] += 1

    def excused(self, e):
        """It may end without a word only when a worker did."""
        assert self.town.killed_since(self.began) or self.s.ended or \
            self.s.worn() or self.town.draining(), (
                "it ended", str(e), self.log[-20:])

    def whole(self, implicit):
        rng = self.rng
        if implicit:
            if rng.random() < .03:
                self.wire.garbage()
                self.wire.rest()
                return
            self.wire.start_tls(self.town.d.ca_file)
        elif rng.random() < .03:
            # Too early, or only just not: either is answered.
            self.wire.write(rng.choice((b"NOOP\r\n", b"GET / HTTP/1.1\r\n")))
            self.wire.half_close()
            self.wire.rest()
            return
        self.greeted()
        if rng.random() < .9:
            self.usual_start(implicit)
        for _ in range(rng.randint(1, 14)):
            if self.s.ended:
                break
            self.step()
        if not self.s.ended:
            self.leave()

    def greeted(self):
        reply = self.reply()
        self.s.check(reply, ["220 gate."], "greeting")

    def usual_start(self, implicit):
        self.say(self.ehlo())
        if not implicit and not self.s.ended and self.rng.random() < .93:
            self.starttls()
            if not self.s.ended and self.s.secure:
                self.say(self.ehlo())
        if not self.s.ended and self.rng.random() < .93:
            self.auth(self.town.some_key(self.rng))

    def step(self):
        rng = self.rng
        at = rng.random()
        if self.s.key is not None and at < .62:
            self.transaction()
        elif at < .72 and self.s.secure and self.s.key is None:
            self.auth(self.town.some_key(rng))
        elif at < .78:
            self.bad_auth()
        elif at < .8 and not self.s.secure:
            self.starttls()
        else:
            self.say(*[self.misc() for _ in range(rng.choice((1, 1, 2, 5)))])

    def leave(self):
        rng = self.rng
        how = rng.choice(("quit", "quit", "quit", "hang", "half", "bdat",
                          "foreign", "lf", "endless", "garbage", "tail"))
        if how == "quit":
            self.say(Item("QUIT", b"QUIT\r\n"))
        elif how == "bdat":
            self.say(Item("BDAT", b"BDAT 10 LAST\r\n0123456789"))
        elif how == "foreign":
            self.say(Item("FOREIGN", rng.choice((
                b"GET / HTTP/1.1\r\n", b"\r\n", b"{}\r\n", b"-\r\n"))))
        elif how == "lf":
            self.say(Item("BARE_LF", b"NOOP\n"))
        elif how == "endless":
            self.say(Item("ENDLESS", b"NOOP " + b"x" * 13000 + b"\r\n"))
        elif how == "half":
            self.wire.half_close()
            left = self.wire.rest()
            assert left == b"" or self.s.worn() and left.startswith(
                b"421 4.7.0 ") or self.town.draining(), (left, self.log[-9:])
        elif how == "garbage" and self.wire.tls is not None:
            self.wire.garbage()
            self.wire.rest()
        elif how == "tail":  # in the middle of a command
            self.wire.write(b"MAIL FR")
        self.did["end " + how] += 1

    # -- saying and hearing -----------------------------------------------

    def reply(self):
        lines = [self.wire.line()]
        while lines[-1][3:4] == b"-":
            lines.append(self.wire.line())
        reply = b"\n".join(lines).decode("ascii")
        self.log.append("S: " + reply[:90])
        return reply

    def say(self, *items):
        """All of them at once, and their replies. The last reply."""
        since = time.monotonic()
        for x in items:
            self.log.append("C: %r" % x.line[:60])
        try:
            self.wire.write(b"".join(x.line for x in items))
        except Gone:
            pass  # what was answered before is there to be read
        return self.hear(items, since)

    def hear(self, items, since):
        reply = None
        for item in items:
            reply = self.hear_one(item, since)
            if self.s.ended:
                self.closed()
                break
        return reply

    def hear_one(self, item, since):
        reply = self.reply()
        patterns = self.s.expect(item, since)  # by what has become of it now
        pattern = self.s.check(reply, patterns, item)
        self.did[item.kind, reply[:3]] += 1
        if pattern not in ("worn", "drain"):
            self.s.answered(item, reply, pattern)
        return reply

    def closed(self):
        left = self.wire.rest()
        assert left == b"", ("more after the end", left, self.log[-12:])

    # -- commands ---------------------------------------------------------

    def ehlo(self):
        name = self.rng.choice((b"client.test", b"[::1]", b"a_b", b"x"))
        if self.rng.random() < .9:
            return Item("EHLO", b"EHLO " + name + b"\r\n")
        return Item("HELO", b"helo " + name + b"\r\n")

    def misc(self):
        rng = self.rng
        some = [
            self.ehlo(), Item("RSET", b"RSET\r\n"), Item("NOOP", b"NOOP\r\n"),
            Item("NOOP", b"noop with words\r\n"), Item("HELP", b"HELP\r\n"),
            Item("VRFY", b"VRFY root\r\n"), Item("VRFY", b"VRFY\r\n", SYNTAX),
            Item("EHLO", b"EHLO\r\n", SYNTAX),
            Item("EHLO", b"EHLO a b\r\n", SYNTAX),
            Item("RSET", b"RSET now\r\n", SYNTAX),
            Item("REFUSED", b"EXPN staff\r\n"),
            Item("REFUSED", b"XCLIENT ADDR=127.0.0.1\r\n"),
            Item("UNKNOWN", b"WHAT is this\r\n"),
            Item("UNKNOWN", b"MAILFROM:<x@d1.example>\r\n"),
            Item("BYTES", b"NOOP \x01\r\n"), Item("BYTES", b"NOOP a\tb\r\n"),
            Item("BYTES", b"NOOP a\rb\r\n"),
            Item("NOOP", b"NOOP " + b"x" * 3000 + b"\r\n",
                 "500 5.5.2 [syntax_error]")]
        if rng.random() < .6:
            return rng.choice(some[:6] + [some[15]])
        if rng.random() < .5:
            return rng.choice(some)
        box = self.s.key.box if self.s.key else self.town.boxes[0]
        if rng.random() < .5:
            return self.rcpt()[0]
        return self.mail_item(box, rng.random() < .3)

    def starttls(self):
        behind = self.rng.random() < .1 and not self.s.secure
        had_tls = self.s.secure
        since = time.monotonic()
        reply = self.say(Item("STARTTLS", b"STARTTLS\r\n" + (
            b"NOOP\r\n" if behind else b""), behind=behind))
        if self.s.ended:
            return
        assert not behind or not self.wire.at_once or \
            reply.startswith("503"), ("kept", reply, self.log[-5:])
        if not reply.startswith("220") or had_tls:
            if behind:
                self.hear([Item("NOOP", b"NOOP\r\n")], since)
            return
        if behind:  # cut so that it came behind the 220
            self.wire.rest()
            self.s.ended = True
        elif self.rng.random() < .04:
            self.wire.garbage()
            self.wire.rest()
            self.s.ended = True
        else:
            self.wire.start_tls(self.town.d.ca_file)

    def auth(self, key, want="key", password=None):
        rng = self.rng
        name = key.box.address
        password = password or key.text
        authzid = rng.choice(("", "", name))
        if rng.random() < .6:
            secret = plain(name, password, authzid)
            if rng.random() < .6:
                self.say(Item("AUTH", b"AUTH PLAIN %s\r\n" % secret.encode(),
                              want, key=key))
                return
            self.challenge(b"auth plain\r\n", "334 ", [(secret, want)], key)
            return
        user = base64.b64encode(name.encode()).decode()
        secret = base64.b64encode(password.encode()).decode()
        if rng.random() < .5:
            self.challenge(b"AUTH LOGIN %s\r\n" % user.encode(),
                           "334 UGFzc3dvcmQ6", [(secret, want)], key)
        else:
            self.challenge(b"AUTH LOGIN\r\n", "334 VXNlcm5hbWU6", [
                (user, "334 UGFzc3dvcmQ6"), (secret, want)], key)

    def challenge(self, line, first, answers, key):
        """Answers one by one, or all at once."""
        items = [Item("AUTH", line, first, key=key)]
        for text, want in answers:
            items.append(Item("ANSWER", text.encode() + b"\r\n", want,
                              key=key))
        signs_in = self.s.order(items[0]) is None and self.s.key is None
        if not signs_in:
            self.say(items[0])
            return
        if self.rng.random() < .3:
            self.say(*items)
            return
        for item in items:
            reply = self.say(item)
            if self.s.ended or not reply.startswith("334"):
                return

    def bad_auth(self):
        rng = self.rng
        key = self.town.some_key(rng)
        at = rng.randrange(6)
        if self.s.order(Item("AUTH", b"")) is not None or self.s.key or at < 2:
            line, want = rng.choice((
                (b"AUTH CRAM-MD5\r\n", "504 5.5.4 [param_unsupported]"),
                (b"AUTH PLAIN !!!\r\n", "501 5.5.2 [syntax_error]"),
                (b"AUTH PLAIN =\r\n", "501 5.5.2 [syntax_error]"),
                (b"AUTH\r\n", SYNTAX)))
            self.say(Item("AUTH", line, want, key=key))
        elif at == 2:
            self.challenge(rng.choice((b"AUTH PLAIN\r\n", b"AUTH LOGIN\r\n")),
                           "334 ", [("*", "501 5.5.2 [syntax_error]")], key)
        elif at == 3:  # a key that can do more, then one of somebody else
            self.auth(key, "535 5.7.8 [key_scope]", key.box.key)
        else:
            wrong = key.text[:-1] + ("0" if key.text[-1] != "0" else "1")
            self.auth(key, "535 5.7.8 [unknown_api_key]", wrong)

    def mail_item(self, box, bad=False):
        rng = self.rng
        if bad:
            path, want = rng.choice((
                ("<boss@acme.example>", "550 5.7.1 [sender_mismatch]"),
                ("<>", "550 5.7.1 [sender_mismatch]"),
                ("<x", BAD_SENDER), ("<a@b@c>", BAD_SENDER),
                ("<@r.example:%s>" % box.address, BAD_SENDER),
                ("<nobody>", BAD_SENDER), (box.address, BAD_SENDER)))
            return Item("MAIL", ("MAIL FROM:%s\r\n" % path).encode(), want,
                        utf8=False, plain=False)
        line = rng.choice(("MAIL FROM:<%s>", "mail from: <%s>")) % box.address
        want, utf8, bare = "250 2.1.0", False, line
        if rng.random() < .4:
            param, fault = rng.choice(MAIL_PARAMS)
            line += " " + param
            want, utf8 = fault or want, param == "SMTPUTF8"
        return Item("MAIL", line.encode() + b"\r\n", want, utf8=utf8,
                    plain=line == bare)

    def rcpt(self, address=None):
        """(the command, the address if it is a good one)"""
        rng = self.rng
        if address is None and rng.random() < .6:
            path, want = rng.choice(BAD_RCPTS[:-1])
            return Item("RCPT", ("RCPT TO:%s\r\n" % path).encode(), want,
                        address=path[1:-1], plain=False), None
        address = address or letters.rcpts_of(rng, 1)[0]
        line, want = "RCPT TO:<%s>" % address, "250 2.1.5"
        bare = line
        if rng.random() < .2:
            param, fault = rng.choice(RCPT_PARAMS)
            line, want = line + " " + param, fault or want
        return Item("RCPT", line.encode() + b"\r\n", want,
                    address=address, plain=line == bare), address

    # -- a transaction ----------------------------------------------------

    def transaction(self):
        rng = self.rng
        self.town.busy[self] = self.s.key
        again = rng.random() < .2 and self.town.again(self.s.key, rng)
        mail = again or self.new_mail()
        items = [self.mail_item(self.s.key.box)]
        if again:
            items = [Item("MAIL", b"MAIL FROM:<%s>\r\n" %
                          self.s.key.box.address.encode(), "250 2.1.0",
                          utf8=False, plain=True)]
        for address in mail.rcpts:
            items.append(Item("RCPT", b"RCPT TO:<%s>\r\n" % address.encode(),
                              "250 2.1.5", address=address, plain=True))
        if again:  # in another order it is the same
            rest = items[1:]
            rng.shuffle(rest)
            items[1:] = rest
        if not again:
            self.disturb(items)
        if self.s.tx is not None:
            items.insert(0, Item("RSET", b"RSET\r\n"))
        self.envelope(items)
        if self.s.ended:
            return
        if self.s.tx is None or not self.s.tx["rcpts"]:
            if rng.random() < .5:
                self.say(Item("DATA", b"DATA\r\n", behind=False))
            return
        said = self.s.tx["rcpts"]
        if again and sorted(said) != sorted(mail.rcpts):
            return  # one was refused, for the moment
        if not again:
            mail.rcpts, mail.plain = list(said), self.s.tx["plain"]
            if mail.want.startswith("550 5.6.7") and self.s.tx["utf8"]:
                mail.want = "stored"
        self.data(mail)

    def disturb(self, items):
        """Also what is wrong, anywhere between."""
        rng = self.rng
        if rng.random() < .35:
            items.insert(rng.randint(1, len(items)), self.rcpt()[0])
        if rng.random() < .1:
            at = rng.randint(1, len(items))
            items[at:at] = [self.rcpt(a)[0] for a in letters.rcpts_of(
                rng, RCPT_MAX + 1)]
        if rng.random() < .08:
            items.insert(rng.randint(1, len(items)),
                         Item("RSET", b"RSET\r\n"))
        if rng.random() < .1:
            items.insert(rng.randint(1, len(items)), self.misc())
        if rng.random() < .06:
            items.insert(0, self.mail_item(self.s.key.box, True))

    def envelope(self, items):
        """In groups of any size."""
        items = list(items)
        while items and not self.s.ended:
            n = self.rng.choice((1, len(items), len(items), 3))
            self.say(*items[:n])
            del items[:n]

    def new_mail(self):
        rng, box, token = self.rng, self.s.key.box, self.token()
        if rng.random() < .25:
            mail = letters.spoiled(rng, box, token, SIZE_MAX)
        else:
            mail = letters.good(rng, box, token, rng.random() < .8,
                                rng.random() < .1)
        mail.key = self.s.key
        self.town.know(mail)
        return mail

    def data(self, mail):
        rng = self.rng
        body = letters.stuffed(mail.data) + mail.tail + b".\r\n"
        if rng.random() < .03:
            self.too_early(mail, body)
            return
        reply = self.say(Item("DATA", b"DATA\r\n", behind=False))
        if self.s.ended or not reply.startswith("354"):
            return
        how = rng.choice(AFTER_BODY)
        if how == "cut":  # anywhere before the dot is whole
            self.wire.write(body[:rng.randrange(len(body))])
            self.gone("cut")
            return
        behind = [self.misc() for _ in range(rng.randint(1, 4))] \
            if how == "commands" else []
        for x in [mail] + behind:
            self.log.append("C: %s" % getattr(x, "subject", x))
        since = time.monotonic()
        mail.tries += 1
        try:
            self.wire.write(body + b"".join(x.line for x in behind))
        except Gone:
            mail.is_open()
            raise
        if rng.random() < .07:  # not a word more
            mail.is_open()
            self.gone("silent")
            return
        if how == "half":
            self.wire.half_close()
        self.outcome(mail, since)
        if not self.s.ended:
            self.hear(behind, since)
        if how == "half" and not self.s.ended:
            self.closed()
            self.s.ended = True

    def gone(self, how):
        self.did[how] += 1
        self.wire.close()
        self.s.ended = True

    def too_early(self, mail, body):
        """Data before 354: the session ends, or it was cut just so."""
        if len(body) > 20000 or mail.want != "stored":
            return
        since = time.monotonic()
        mail.tries += 1
        try:
            self.wire.write(b"DATA\r\n" + body)
        except Gone:
            pass  # it was told so before it had ended
        try:
            reply = self.hear_one(Item("DATA", b"DATA\r\n", behind=True),
                                  since)
        except Gone:
            mail.is_open()
            raise
        if reply.startswith("354"):
            assert not self.wire.at_once, ("took it", self.log[-9:])
            self.outcome(mail, since)
        elif self.s.ended:
            self.did["too early"] += 1
            self.closed()
        else:  # refused, and now its lines run as commands
            self.wire.close()
            self.s.ended = True

    def outcome(self, mail, since):
        """The one reply to a dot, heard or not."""
        try:
            reply = self.reply()
        except Gone:
            mail.is_open()
            raise
        pattern = self.s.check(reply, self.s.expect_dot(mail, since),
                               mail.subject)
        self.did["dot", reply[:9]] += 1
        self.s.tx = None
        if reply.startswith("250"):
            self.s.errors = self.s.idle = 0
            mail.is_stored(reply.split("id=")[1].split()[0])
        elif "[store_unavailable]" in reply or pattern == "drain":
            mail.is_open()
        else:
            mail.is_refused(reply)
        if self.s.ended:
            self.closed()
