# SPDX-License-Identifier: ISC
"""
A mail exchanger that writes down what it is given and misbehaves on request.

    with FakeMx(cert=..., key=...) as mx:
        mx.script["RCPT"] = lambda s, line: "450 4.2.1 later"
        ... mx.messages, mx.wait_messages(2), mx.verbs ...

`script` maps a moment to a reply text, to CLOSE, or to a function of (session,
line) that returns either or None for the usual reply. Moments: the verbs,
"banner", "tls" (before the handshake), "dot" (the message is complete and
recorded before the reply) and "before_dot" (data is coming in). A reply may
have several lines; script["injected"] are bytes sent behind that to STARTTLS.
`hold(moment)` gives a Gate at which sessions wait.
"""
import base64
import re
import socket
import ssl
import threading

CLOSE = object()


class Gate:
    """Sessions stop here until open(); reached() waits for one."""

    def __init__(self):
        self.here = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self, session, line):
        self.here.release()
        self.go.wait(120)  # longer than a worker that stops awaits a reply
        return None

    def reached(self, timeout=30):
        assert self.here.acquire(timeout=timeout), "nobody came"

    def open(self):
        self.go.set()


class Session:
    def __init__(self, mx, sock):
        self.mx, self.sock = mx, sock
        self.tls = self.login = self.mail_from = None
        self.taken = 0
        self.rcpts, self.rcpt_params = [], []
        self.params = ""

    def send(self, text, behind=b""):
        """A reply, and bytes `behind` it in the same segment."""
        self.sock.sendall(
            text.replace("\n", "\r\n").encode() + b"\r\n" + behind)

    def moment(self, name, line=""):
        """The scripted reply, or None for the usual one."""
        with self.mx.lock:
            self.mx.verbs.append(name)
        step = self.mx.script.get(name)
        if callable(step):
            step = step(self, line)
        if step is CLOSE or (self.mx.single and self.taken and
                             name in ("RSET", "MAIL")):
            raise ConnectionAbortedError(name)
        return step

    def line(self):
        raw = self.file.readline(65536)
        if not raw:
            raise EOFError
        if not raw.endswith(b"\r\n"):
            self.mx.broken.append(raw)
            raise EOFError
        return raw[:-2].decode("utf-8")

    def secure(self):
        self.sock = self.mx.context.wrap_socket(self.sock, server_side=True)
        self.file = self.sock.makefile("rb")
        self.tls = self.sock.version()

    def run(self):
        self.file = self.sock.makefile("rb")
        if self.mx.implicit_tls:
            self.secure()
        banner = self.moment("banner")
        if banner != "":
            self.send(banner or "220 fake.example ESMTP")
        while True:
            line = self.line()
            verb = line.split(" ")[0].upper()
            reply = self.moment(verb, line)
            usual = getattr(self, "do_" + verb.lower(), None)
            if verb == "QUIT":
                self.send(reply or "221 2.0.0 bye")
                return
            if reply is None and usual is not None:
                reply = usual(line)
            if reply != "":
                self.send(reply or "502 5.5.1 not here",
                          self.mx.script.get("injected", b"")
                          if verb == "STARTTLS" else b"")
            if verb == "STARTTLS" and reply and reply.startswith("220"):
                if self.moment("tls") is None:
                    self.secure()

    def do_ehlo(self, line):
        words = ["fake.example"] + list(self.mx.offers)
        if self.tls:
            words = [w for w in words if w != "STARTTLS"]
        else:
            words = [w for w in words if not w.startswith("AUTH")]
        return "\n".join("250%s%s" % ("-" if i + 1 < len(words) else " ", w)
                         for i, w in enumerate(words))

    def do_helo(self, line):
        return "250 fake.example"

    def do_starttls(self, line):
        return "220 2.0.0 go"

    def do_auth(self, line):
        words = line.split(" ")
        if words[1].upper() == "PLAIN":
            _, user, password = base64.b64decode(words[2]).split(b"\0")
        else:
            self.send("334 VXNlcm5hbWU6")
            user = base64.b64decode(self.line())
            self.send("334 UGFzc3dvcmQ6")
            password = base64.b64decode(self.line())
        self.login = (user.decode(), password.decode())
        if self.mx.login is not None and self.login != self.mx.login:
            return self.mx.refusal or "535 5.7.8 no"
        return "235 2.7.0 ok"

    def do_mail(self, line):
        m = re.match(r"MAIL FROM:<([^>]*)>(.*)$", line)
        assert m, line
        self.mail_from, self.params, self.rcpts = m[1], m[2].strip(), []
        self.rcpt_params = []
        return "250 2.1.0 ok"

    def do_rcpt(self, line):
        m = re.match(r"RCPT TO:<([^>]*)>(.*)$", line)
        assert m, line
        step = self.mx.rcpt_replies.get(m[1])
        if step is None:
            self.rcpts.append(m[1])
            self.rcpt_params.append(m[2].strip())
        return step or "250 2.1.5 ok"

    def do_rset(self, line):
        self.mail_from, self.rcpts = None, []
        return "250 2.0.0 ok"

    def do_noop(self, line):
        return "250 2.0.0 ok"

    def do_data(self, line):
        self.send("354 go ahead")
        data, raw = bytearray(), b""
        while raw != b".\r\n":
            data += raw
            raw = self.file.readline(1 << 20)
            if not raw:
                with self.mx.lock:
                    self.mx.cut.append(bytes(data))
                raise EOFError
            if "before_dot" in self.mx.script:
                step = self.moment("before_dot")
                if step is not None:
                    self.send(step)
                    raise ConnectionAbortedError
        data = bytes(data)
        self.taken += 1
        with self.mx.changed:
            self.mx.messages.append({
                "mail_from": self.mail_from, "rcpts": list(self.rcpts),
                "data": re.sub(rb"(?m)^\.", b"", data), "raw": data,
                "tls": self.tls, "login": self.login, "params": self.params,
                "rcpt_params": list(self.rcpt_params)})
            self.mx.changed.notify_all()
        step = self.moment("dot")
        return step or "250 2.0.0 taken"


class FakeMx:
    OFFERS = ("PIPELINING", "SIZE 60000000", "8BITMIME", "STARTTLS",
              "AUTH PLAIN LOGIN")
    session = Session  # what speaks to one client

    def __init__(self, cert=None, key=None, implicit_tls=False, login=None,
                 offers=OFFERS,
                 address="127.0.0.1", port=0, listener=None):
        self.script, self.rcpt_replies = {}, {}
        self.messages, self.verbs, self.cut = [], [], []
        self.broken = []  # what was no line of SMTP
        self.implicit_tls, self.login, self.offers = implicit_tls, login, offers
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.context = None
        if cert:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(cert, key)
        self.listener = listener or socket.create_server((address, port))
        self.port = self.listener.getsockname()[1]
        self.open = set()
        self.closing = False
        self.single = False  # a session takes one message and no second
        self.refusal = None  # of wrong credentials; 535 if None
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def hold(self, moment):
        gate = self.script[moment] = Gate()
        return gate

    def reset(self):
        """As new, for the next test: no session of the last one is left."""
        self.hang_up()
        with self.lock:
            self.script.clear()
            self.rcpt_replies.clear()
            del self.messages[:], self.verbs[:], self.cut[:]
            del self.broken[:]

    def hang_up(self):
        """End all sessions, as a host does that restarts."""
        for session in list(self.open):
            try:
                session.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        with self.changed:
            self.changed.wait_for(lambda: not self.open, 10)

    def wait_messages(self, n, timeout=30):
        with self.changed:
            assert self.changed.wait_for(
                lambda: len(self.messages) >= n, timeout), self.verbs
            return list(self.messages)

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        session = self.session(self, sock)
        try:
            self.open.add(session)
            session.run()
        except (OSError, EOFError):
            pass
        finally:
            try:
                session.sock.close()
            except OSError:
                pass
            with self.changed:
                self.open.discard(session)
                self.changed.notify_all()

    def close(self):
        self.closing = True
        # Closing alone would let a waiting accept() take one more.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for session in list(self.open):
            try:
                session.sock.close()
            except OSError:
                pass
