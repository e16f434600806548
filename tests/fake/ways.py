# SPDX-License-Identifier: ISC
"""
Hosts as in wild.py that also ask who it is, and remember in what way they were
spoken to: over TLS or not, with whose credentials, and when they were no use.
"""
import time

from tests.fake.wild import House, WildMx, WildSession


class WayHouse(House):
    def __init__(self):
        super().__init__()
        self.trouble = []  # (address, when) at which another may be asked
        self.logins = []  # (when, address, port, TLS, login) shown
        self.rcpts = []  # (when, address, port, TLS, recipient) named
        self.strangers = []  # who began without signing in where one must


class WaySession(WildSession):
    def __init__(self, mx, sock):
        super().__init__(mx, sock)
        if self.house.calm and "STARTTLS" not in self.words:
            self.words.append("STARTTLS")
        # An MX that asks who it is would like to know.
        self.words.append("AUTH " + self.rng.choice(
            ("PLAIN", "LOGIN", "LOGIN PLAIN")))
        self.auth_in_clear = self.rng.random() < .5

    def seen(self, *more):
        return (time.time(), self.mx.address, self.mx.port, self.tls, *more)

    def trouble(self):
        self.house.trouble.append((self.mx.address, time.time()))

    def run(self):
        try:
            super().run()
        except BaseException:
            self.trouble()
            raise

    def go_wrong(self, name, line, how):
        self.trouble()
        return super().go_wrong(name, line, how)

    def do_ehlo(self, line):
        words = self.words
        if not self.tls and "STARTTLS" not in words:
            self.trouble()  # to who demands it
        self.words = [w for w in words if self.tls or self.auth_in_clear or
                      not w.startswith("AUTH")]
        try:
            return super().do_ehlo(line)
        finally:
            self.words = words

    def do_auth(self, line):
        super().do_auth(line)
        self.house.logins.append(self.seen(self.login))
        if self.login not in self.mx.accepts:
            self.login = None
            self.trouble()
            return "535 5.7.8 no"
        return "235 2.7.0 ok"

    def do_mail(self, line):
        if self.mx.accepts and self.login is None:
            self.house.strangers.append(self.seen(line))
            return "530 5.7.0 who is it " + self.house.mark(530, "MAIL", [])
        return super().do_mail(line)

    def do_rcpt(self, line):
        self.house.rcpts.append(self.seen(line.split("<")[1].split(">")[0]))
        return super().do_rcpt(line)


class WayMx(WildMx):
    """`accepts`: the logins of a smarthost."""
    session = WaySession

    def __init__(self, *where, accepts=(), **how):
        self.accepts = set(accepts)
        super().__init__(*where, **how)
