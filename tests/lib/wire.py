# SPDX-License-Identifier: ISC
"""
A connection whose every byte is in the test's hand: what it says is cut into
records and segments at random, TLS is done in memory, and it may end in any
way one can end: with or without the words of TLS, in half, or by a reset.
"""
import select
import socket
import ssl
import struct
import threading

TIMEOUT = 60


class Gone(Exception):
    """The other side has ended."""


_contexts = {}
_lock = threading.Lock()


def context(ca_file, old):
    """One for all: what it costs is the certificate it reads."""
    with _lock:
        if (ca_file, old) not in _contexts:
            c = ssl.create_default_context(cafile=ca_file)
            if old:
                c.maximum_version = ssl.TLSVersion.TLSv1_2
            _contexts[ca_file, old] = c
        return _contexts[ca_file, old]


class Wire:
    def __init__(self, port, rng):
        self.rng = rng
        self.source = "127.%d.%d.%d" % (rng.randint(1, 254), rng.randint(
            0, 255), rng.randint(1, 254))
        try:
            self.sock = socket.create_connection(
                ("127.0.0.1", port), TIMEOUT, (self.source, 0))
        except OSError as e:
            raise Gone("connect: %s" % e)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.tls = None
        self.buffer = b""
        self.eof = False
        self.at_once = False  # was what was written last one piece?

    # -- TLS --------------------------------------------------------------

    def start_tls(self, ca_file):
        self.buffer = b""  # nothing read before counts
        self.bio_in, self.bio_out = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context(ca_file, self.rng.random() < .3).wrap_bio(
            self.bio_in, self.bio_out, server_hostname="localhost")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._push(self.bio_out.read())
                self._wait()
                if self.eof:
                    raise Gone("in the handshake")
            except ssl.SSLError as e:
                raise Gone("handshake: %s" % e)
        self.tls = tls
        self._push(self.bio_out.read())
        self._open()  # what came with its last words

    # -- out --------------------------------------------------------------

    def cuts(self, n):
        """Where to cut n bytes."""
        how = self.rng.random()
        if n < 2 or how < .45:
            return [n]
        if how < .55 and n < 400:
            return list(range(1, n + 1))
        k = self.rng.choice((1, 1, 2, 5))
        return sorted({self.rng.randint(1, n - 1) for _ in range(k)} | {n})

    def write(self, data):
        """All of it handed to the kernel, or Gone."""
        at, ends = 0, self.cuts(len(data))
        self.at_once = len(ends) == 1 and len(data) < 16000
        for end in ends:
            if self.tls is None:
                self._push(data[at:end])
            else:
                self._seal(data[at:end])
                out = self.bio_out.read()
                start, stops = 0, self.cuts(len(out))
                for stop in stops:
                    self._push(out[start:stop])
                    start = stop
            at = end

    def _seal(self, data):
        while data:
            try:
                data = data[self.tls.write(data):]
            except ssl.SSLWantReadError:
                self._wait()
            except ssl.SSLError as e:
                raise Gone(str(e))
            if self.eof:
                raise Gone("at writing")

    def _push(self, data):
        """What comes meanwhile is read, or both sides could wait for ever."""
        view = memoryview(data)
        while len(view):
            r, w, _ = select.select([self.sock], [self.sock], [], TIMEOUT)
            if r and not self.eof:
                self._take()
            elif not w:
                raise AssertionError("the server takes nothing")
            if w:
                try:
                    view = view[self.sock.send(view):]
                except BlockingIOError:
                    pass
                except OSError as e:
                    self.eof = True
                    raise Gone(str(e))

    def garbage(self):
        """No record of TLS at all, where one has to be."""
        self._push(bytes(self.rng.randrange(256) for _ in range(40)))

    # -- in ---------------------------------------------------------------

    def _take(self):
        try:
            data = self.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.eof = True
        if self.tls is None and not hasattr(self, "bio_in"):
            self.buffer += data
            return
        if data:
            self.bio_in.write(data)
        else:
            self.bio_in.write_eof()
        if self.tls is not None:
            self._open()

    def _open(self):
        while True:
            try:
                data = self.tls.read(65536)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLError:  # the words at the end, or none
                self.eof = True
                return
            if not data:
                self.eof = True
                return
            self.buffer += data

    def _wait(self):
        r, _, _ = select.select([self.sock], [], [], TIMEOUT)
        if not r:
            raise AssertionError("the server says nothing; %r so far" %
                                 self.buffer[:200])
        self._take()

    def more(self):
        """False when nothing more can come."""
        if self.eof:
            return False
        have = len(self.buffer)
        while len(self.buffer) == have and not self.eof:
            self._wait()
        return len(self.buffer) > have

    def line(self):
        while b"\r\n" not in self.buffer:
            if not self.more():
                raise Gone("at reading; %r" % self.buffer[:200])
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def exactly(self, n):
        while len(self.buffer) < n:
            if not self.more():
                raise Gone("in a body")
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def rest(self):
        """All that comes until the other side ends."""
        while self.more():
            pass
        data, self.buffer = self.buffer, b""
        return data

    # -- the end ----------------------------------------------------------

    def bye(self):
        if self.tls is None or self.eof:
            return
        try:
            self.tls.unwrap()
        except ssl.SSLError:
            pass
        self._push(self.bio_out.read())

    def half_close(self):
        """Says that nothing more comes, and still listens."""
        try:
            if self.tls is not None and self.rng.random() < .5:
                self.bye()
            else:
                self.sock.shutdown(socket.SHUT_WR)
        except (OSError, Gone):
            pass

    def close(self, how=None):
        if self.sock.fileno() < 0:
            return
        how = how or self.rng.choice(("reset", "fin", "bye"))
        try:
            if how == "reset":
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                     struct.pack("ii", 1, 0))
            elif how == "bye":
                self.bye()
        except (OSError, Gone):
            pass
        self.sock.close()
