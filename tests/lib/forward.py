# SPDX-License-Identifier: ISC
"""
A hop between a client and a server under test: it gives each test an address
of its own, counts connections, and can stop passing on in mid-flow.
"""
import random
import socket
import threading


class Forward:
    """Listens on `port` of 127.0.0.1. With `hold_after`, what the client
    sends is passed on up to that many octets, then it is left waiting;
    `held` says when."""

    def __init__(self, to_port, hold_after=None):
        self.to_port, self.hold_after = to_port, hold_after
        self.source = "127.%d.%d.%d" % (random.randint(1, 254),
                                        random.randint(0, 255),
                                        random.randint(1, 254))
        self.connections, self.held = 0, threading.Event()
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
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
            self.connections += 1
            server = socket.create_connection(
                ("127.0.0.1", self.to_port), 20, (self.source, 0))
            server.settimeout(None)
            self.sockets += [client, server]
            for a, b, most in ((client, server, self.hold_after),
                               (server, client, None)):
                threading.Thread(target=self._pump, args=(a, b, most),
                                 daemon=True).start()

    def _pump(self, a, b, most):
        passed = 0
        try:
            while True:
                data = a.recv(16384)
                if not data:
                    b.shutdown(socket.SHUT_WR)
                    return
                b.sendall(data)
                passed += len(data)
                if most is not None and passed >= most:
                    self.held.set()
                    return
        except OSError:
            pass
