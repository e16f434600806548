# SPDX-License-Identifier: ISC
"""
What an SMTP session may be answered: the states of RFC 5321, the replies of
docs/smtp.md, and what the world around may add. Client and server count
alike, or one of them is wrong.

A reply is "CODE x.y.z [slug]"; a pattern is the beginning of one, with "!"
where the session must end behind it.
"""
import re

ERRORS_MAX, IDLE_MAX, RCPT_MAX = 10, 200, 8
FAILURES_MAX = 5
ENHANCED = re.compile(r"[245]\.\d{1,3}\.\d{1,3} ")

# Refused whatever the state of the session.
ALWAYS = {"FOREIGN": "521 5.5.2 [protocol_violation]!",
          "BDAT": "502 5.5.1 [bad_sequence]!",
          "REFUSED": "502 5.5.1 [bad_sequence]",
          "UNKNOWN": "500 5.5.2 [syntax_error]",
          "BYTES": "500 5.5.2 [syntax_error]",
          "BARE_LF": "500 5.5.2 [syntax_error]!",
          "ENDLESS": "500 5.5.2 [syntax_error]!"}
SIMPLE = {"RSET": "250 2.0.0", "NOOP": "250 2.0.0", "VRFY": "252 2.5.0",
          "HELP": "214 2.0.0", "QUIT": "221 2.0.0!"}
DEAD = "550 5.7.1 [unknown_api_key]!"
DOWN = "451 4.3.0 [store_unavailable]"


class Item:
    """A command of ours. `want`: the reply where it is in its place."""

    def __init__(self, kind, line, want=None, **facts):
        self.kind, self.line, self.want = kind, line, want
        self.__dict__.update(facts)

    def __repr__(self):
        return "%s %r" % (self.kind, self.line[:100])


class Session:
    """`world` says what may be: see Town in test_submit_walk.py."""

    def __init__(self, world, secure):
        self.world, self.secure = world, secure
        self.ready = self.ended = self.draining = False
        self.key = self.tx = None
        self.errors = self.idle = self.failures = 0

    # -- what is right ----------------------------------------------------

    def order(self, item):
        """Why it has no place here, else None."""
        k = item.kind
        if k not in ("STARTTLS", "AUTH", "MAIL", "RCPT", "DATA"):
            return None
        if not self.ready:
            return "503 5.5.1 [bad_sequence]"
        if k != "STARTTLS" and not self.secure:
            return "538 5.7.11 [tls_required]" if k == "AUTH" else \
                "530 5.7.0 [tls_required]"
        if k in ("MAIL", "RCPT", "DATA") and self.key is None:
            return "530 5.7.0 [missing_authorization]"
        if k in ("STARTTLS", "AUTH", "MAIL"):
            return "503 5.5.1 [bad_sequence]" if self.tx else None
        if self.tx is None:
            return "503 5.5.1 [bad_sequence]"
        if k == "DATA" and not self.tx["rcpts"]:
            return "554 5.5.1 [bad_sequence]" if self.tx["refused"] else \
                "503 5.5.1 [bad_sequence]"
        return None

    def expect(self, item, since):
        """The patterns that may come; `since`: when it began to be sent."""
        k = item.kind
        if k in ALWAYS:
            return [ALWAYS[k]]
        out = self.order(item)
        if out is not None:
            if k == "DATA" and item.behind:
                return ["554 5.5.0 [protocol_violation]!", out]
            return [out]
        if k == "STARTTLS":
            if self.secure:
                return ["503 5.5.1 [bad_sequence]"]
            if item.behind:  # unless it comes while 220 is on its way
                return ["554 5.5.0 [protocol_violation]!", "220 2.0.0"]
            return [item.want or "220 2.0.0"]
        if k in ("AUTH", "ANSWER"):
            return self.expect_auth(item, since)
        if k in ("MAIL", "RCPT", "DATA"):
            return self.expect_tx(item, since)
        if item.want:
            return [item.want]
        if k in ("EHLO", "HELO"):
            return ["250 gate.", "250-gate."]
        return [SIMPLE[k]]

    def expect_auth(self, item, since):
        if item.kind == "AUTH" and self.key is not None and \
                not (item.want or "").startswith("501 5.5.4"):
            return ["503 5.5.1 [bad_sequence]"]
        if item.want != "key":
            return [item.want] if item.want[0] != "5" or \
                not item.want.startswith("535") else \
                self.failing(item.want, since)
        out = self.failing("535 5.7.8 [unknown_api_key]", since) if \
            self.world.perhaps(("dead", item.key.id), since) else []
        # Docs 0022: known for a second, and good for nothing.
        if not self.world.surely(("dead", item.key.id), since - 1.5):
            out.append("235 2.7.0")
        if self.world.ill(since):
            out += ["454 4.7.0 [store_unavailable]"]
        return out

    def failing(self, what, since):
        out = [what]
        if self.failures + 1 >= FAILURES_MAX:
            out = ["421 4.7.0 [too_many_errors]!"]
        if self.world.ill(since):
            out.append("454 4.7.0 [store_unavailable]")
        return out

    def expect_tx(self, item, since):
        k, want = item.kind, item.want
        if k == "DATA":
            out = ["354 "]
            if item.behind:
                out.append("554 5.5.0 [protocol_violation]!")
        elif k == "RCPT" and (want == "250 2.1.5" or want.startswith(
                "550 5.6.7") and self.tx["utf8"]) and \
                len(self.tx["rcpts"]) >= RCPT_MAX:
            return ["452 4.5.3 [too_many_recipients]"]
        elif want.startswith("550 5.6.7") and self.tx["utf8"]:
            out = ["250 2.1.5"]
        elif want[0] != "2":
            return [want]
        else:
            out = [want]
        return out + self.troubles(since)

    def troubles(self, since):
        out = []
        if self.world.perhaps(("dead", self.key.id), since):
            out.append(DEAD)
        if self.world.ill(since):
            out.append(DOWN)
        return out

    def expect_dot(self, mail, since):
        """Of a message that was read to its end."""
        box, world = self.key.box, self.world
        if mail.want != "stored":
            return [mail.want] + self.troubles(since) if \
                mail.judged_late else [mail.want]
        out = self.troubles(since)
        told = mail.was_told(since)
        if world.ill(since) or world.thirsty(since) and not told:
            out.append("451 4.3.0 [limiter_unavailable]")
        if world.ill(since) or (box.tight or world.thirsty(since)) and \
                not told:
            out += ["451 4.7.1 [rate_limited]", "451 4.7.1 [held_limit]"]
        if told:
            return out + ([] if world.must_fail(self.key, mail, since) else
                          ["250 2.6.0 id=msg_"])
        if self.key.session:
            out.append("550 5.7.1 [session_policy]")
        if world.perhaps(("read_only", box.inbox_id), since):
            out.append("550 5.7.1 [inbox_read_only]")
        for rcpt in mail.rcpts:
            if world.perhaps(("blocked", box.inbox_id, rcpt), since):
                out.append("550 5.7.1 [message_rejected]")
        if world.perhaps(("suspended", box.inbox_id), since):
            out.append("550 5.7.1 [missing_permission]")
        if not world.must_fail(self.key, mail, since):
            out.append("250 2.6.0 id=msg_")
        return out

    # -- what came --------------------------------------------------------

    def check(self, reply, patterns, about):
        """The pattern it has, or AssertionError."""
        lines = reply.split("\n")
        for line in lines:
            code = line[:3]
            assert code == reply[:3] and line[3:4] in ("-", " "), \
                ("form", about, reply)
            assert len(line) <= 510, ("length", about, reply)
        greeting = about in ("greeting",) or reply[0] == "3" or (
            isinstance(about, Item) and about.kind in ("EHLO", "HELO")
            and reply[0] == "2")
        if not greeting:
            m = ENHANCED.match(reply[4:])
            assert m and m[0][0] == reply[0], ("enhanced", about, reply)
        # Refusals that were waited for are counted with the next command.
        assert self.errors <= ERRORS_MAX + FAILURES_MAX or \
            reply.startswith("421"), ("no end", about, reply)
        for p in patterns:
            if reply.startswith(p.rstrip("!")):
                if reply[0] == "5":
                    self.errors += 1
                if p.endswith("!") or reply.startswith("421"):
                    self.ended = True
                return p
        if reply.startswith("421 4.7.0 [too_many_errors]") and self.worn():
            self.ended = True
            return "worn"
        if reply.startswith("421 4.3.2 ") and self.world.draining():
            self.ended = self.draining = True
            return "drain"
        raise AssertionError("%r was answered %r, not one of %s; %s" % (
            about, reply, patterns, self.__dict__))

    def worn(self):
        return self.errors > ERRORS_MAX or self.idle > IDLE_MAX

    def answered(self, item, reply, pattern):
        """The session goes on as its replies say."""
        k, ok = item.kind, reply[0] in "23"
        if k in ("EHLO", "HELO") and ok:
            self.ready, self.tx, self.idle = True, None, self.idle + 1
            if k == "EHLO":
                self.offers(reply)
        elif k in ("RSET", "NOOP", "VRFY", "HELP") and ok:
            self.idle += 1
            if k == "RSET":
                self.tx = None
        elif k == "STARTTLS" and ok:
            self.secure, self.ready, self.key = True, False, None
        elif k in ("AUTH", "ANSWER"):
            if reply.startswith("235"):
                self.key = item.key
            elif reply.startswith("535") or pattern.startswith(
                    "421 4.7.0 [too_many"):
                self.failures += 1
        elif k == "MAIL" and ok:
            self.tx = {"rcpts": [], "refused": 0, "utf8": item.utf8,
                       "plain": item.plain}
        elif k == "RCPT" and self.tx is not None:
            if ok:
                self.tx["rcpts"].append(item.address)
                self.tx["plain"] = self.tx["plain"] and item.plain
            elif reply[:3] not in ("451", "503", "530"):
                self.tx["refused"] += 1

    def offers(self, reply):
        words = {line[4:].split(" ")[0] for line in reply.split("\n")[1:]}
        want = {"PIPELINING", "SIZE", "8BITMIME", "ENHANCEDSTATUSCODES"}
        want |= {"AUTH", "SMTPUTF8", "DSN", "REQUIRETLS", "LIMITS"} if \
            self.secure else {"STARTTLS"}
        assert words == want, reply
