# SPDX-License-Identifier: ISC
"""
A hop between a program and PostgreSQL that knows which answer is to which
function: a test holds those it names, and lets them go in its own order.
"""
import os
import socket
import threading

from tests.lib import postern


class Held:
    def __init__(self, function, answer):
        self.function, self.answer = function, answer
        self.go, self.lost = threading.Event(), False

    def lose(self):
        """The connection ends instead."""
        self.lost = True
        self.go.set()

    def says(self, word):
        return word.encode() in self.answer


class Hop:
    """`path` is what a program takes for store.socket."""

    def __init__(self, deployment, name="hop"):
        self.to = deployment.path("sock", ".s.PGSQL.5432")
        self.path = deployment.path(name)
        os.mkdir(self.path, 0o711)
        self.lock = threading.Lock()
        self.holding, self.held, self.answered = (), [], []
        self.sockets = []
        where = os.path.join(self.path, ".s.PGSQL.5432")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(where)
        os.chmod(where, 0o777)
        self.listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, *functions):
        """From now on; what is held already is let go."""
        with self.lock:
            held, self.held, self.holding = self.held, [], functions
            self.answered = []
        for h in held:
            h.go.set()

    def wait(self, n):
        """Until so many answers are held: they, in their order."""
        postern.wait_until("%d answers are held" % n,
                           lambda: len(self.held) >= n)
        return list(self.held)

    def count(self, function):
        """How many answers of it have gone on since hold()."""
        with self.lock:
            return self.answered.count(function)

    def close(self):
        self.hold()
        for s in [self.listener] + self.sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.to)
            self.sockets += [client, server]
            asked = ["start"]
            for fn in (self._ask, self._answer):
                threading.Thread(target=fn, args=(client, server, asked),
                                 daemon=True).start()

    @staticmethod
    def _read(s, n):
        data = b""
        while len(data) < n:
            more = s.recv(n - len(data))
            if not more:
                raise OSError("end")
            data += more
        return data

    def _message(self, s, kind=True):
        """One message: its letter and all of its octets."""
        head = self._read(s, 5 if kind else 4)
        return head[:1], head + self._read(
            s, int.from_bytes(head[-4:], "big") - 4)

    def _ask(self, client, server, asked):
        names, function = {}, ""
        try:
            server.sendall(self._message(client, False)[1])
            while True:
                kind, data = self._message(client)
                words = data[5:].split(b"\0")
                if kind == b"P":
                    names[words[0]] = words[1].decode()
                elif kind == b"B":
                    sql = names[words[1]]
                    function = sql.partition("api.")[2].partition("(")[0]
                elif kind in (b"S", b"Q"):
                    asked.append(function)
                    function = ""
                server.sendall(data)
        except OSError:
            self._end(client, server)

    def _answer(self, client, server, asked):
        answer = b""
        try:
            while True:
                kind, data = self._message(server)
                answer += data
                function = None
                if kind == b"Z":
                    function = asked.pop(0)
                    self._gate(function, answer)
                elif asked[:1] != ["start"]:
                    continue  # whole answers, once it runs
                client.sendall(answer)
                answer = b""
                with self.lock:
                    self.answered.append(function)
        except OSError:
            self._end(client, server)

    def _gate(self, function, answer):
        with self.lock:
            held = Held(function, answer) if function in self.holding else None
            if held:
                self.held.append(held)
        if held:
            held.go.wait()
            if held.lost:
                raise OSError("lost")

    @staticmethod
    def _end(*sockets):
        for s in sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
