# SPDX-License-Identifier: ISC
"""A connection that is killed at any byte leaves nothing, or one message that
the retry finds."""
import json
import os
import socket
import ssl
import struct
import threading

import pytest

from tests.blackbox.test_rest import Client, stored
from tests.lib import postern

FULL = os.environ.get("POSTERN_FULL") == "1"
STEP = 1 if FULL else 13


@pytest.fixture(scope="module")
def gate():
    with postern.Deployment() as d:
        d.add_tenant("acme", "acme.example")
        d.sql("UPDATE d.plan SET lim_hour = 100000, lim_day = 100000, "
              "lim_month = 1000000, lim_held = 100000")
        d.box = d.add_inbox("bot@acme.example", "acme")
        d.start("posternd")
        yield d


def body_of(name):
    return json.dumps({"to": ["ada@example.org"], "subject": name,
                       "text": "x"}).encode()


def request_of(gate, name):
    body = body_of(name)
    return (b"POST /v1/messages/send HTTP/1.1\r\nHost: x\r\nAuthorization: "
            b"Bearer " + gate.box.key.encode() + b"\r\nIdempotency-Key: "
            + name.encode() + b"\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body


def count(gate, name):
    return gate.sql("SELECT count(*) AS n FROM d.message WHERE subject = %s",
                    name)[0]["n"]


def reset(s):
    """The peer sees a reset, not an end."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                 struct.pack("ii", 1, 0))
    s.close()


def retry_finds_one(gate, name, cut_id=None):
    """The same request again, twice."""
    agent = Client(gate, gate.box.key)
    h = {"Idempotency-Key": name, "Content-Type": "application/json"}
    first, again = (agent.call("POST", "/v1/messages/send", body_of(name), h)
                    for _ in range(2))
    assert stored(first)["message_id"] == stored(again)["message_id"]
    assert again[1].get("idempotent-replay") == "true"
    assert cut_id in (None, first[2]["message_id"])
    assert count(gate, name) == 1
    return first[1].get("idempotent-replay") == "true"


def test_a_request_cut_at_every_byte(gate):
    """By its end or by a reset: what is not whole is not stored."""
    context = ssl.create_default_context(cafile=gate.ca_file)
    whole = len(request_of(gate, "req-0000"))
    for n in range(whole):
        plain = socket.create_connection(("127.0.0.1", gate.api_port), 60)
        s = context.wrap_socket(plain, server_hostname="localhost")
        s.sendall(request_of(gate, "req-%04d" % n)[:n])
        reset(s) if n % 2 else s.close()
    # what comes later on every worker comes after the ends of those
    for i in range(20):
        retry_finds_one(gate, "after-%04d" % i)
    assert count(gate, "req-%04d" % (whole - 1)) == 0
    assert gate.sql("SELECT count(*) AS n FROM d.message WHERE subject LIKE "
                    "'req-%'")[0]["n"] == 0
    for n in range(0, whole, STEP):
        assert not retry_finds_one(gate, "req-%04d" % n)


class Cutter:
    """Passes TLS records on and resets both sides after `limit` bytes of one
    direction, counted."""

    def __init__(self, port):
        self.port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()

    def once(self, limit, of_client):
        """Serve one connection; the bytes of each direction that passed."""
        client, _ = self.listener.accept()
        server = socket.create_connection(("127.0.0.1", self.port))
        passed = {client: 0, server: 0}
        end = threading.Event()

        def pump(source, sink, most):
            try:
                while not end.is_set():
                    data = source.recv(65536)
                    if most is not None:
                        data = data[:most - passed[source]]
                    if not data:
                        break
                    sink.sendall(data)
                    passed[source] += len(data)
                    if passed[source] == most:
                        break
            except OSError:
                pass
            end.set()

        for pair in ((client, server, limit if of_client else None),
                     (server, client, None if of_client else limit)):
            threading.Thread(target=pump, args=pair, daemon=True).start()
        end.wait(30)
        for s in (client, server):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            reset(s)
        return passed[client], passed[server]


def through(gate, cutter, name, limit, of_client):
    """What a client learns whose connection is cut: an id or None."""
    context = ssl.create_default_context(cafile=gate.ca_file)
    got = {}
    t = threading.Thread(target=lambda: got.update(
        n=cutter.once(limit, of_client)))
    t.start()
    data = b""
    plain = socket.create_connection(cutter.address, 30)
    try:
        s = context.wrap_socket(plain, server_hostname="localhost")
        s.sendall(request_of(gate, name))
        while not data.endswith(b"}"):
            piece = s.recv(65536)
            if not piece:
                break
            data += piece
        s.close()
    except OSError:
        plain.close()
    t.join(30)
    head, _, body = data.partition(b"\r\n\r\n")
    length = [int(line.split()[1]) for line in head.split(b"\r\n")
              if line.lower().startswith(b"content-length")]
    whole = bool(length) and len(body) == length[0]
    return json.loads(body)["message_id"] if whole else None, got["n"]


@pytest.mark.parametrize("of_client", [True, False],
                         ids=["sent", "answered"])
def test_a_connection_cut_at_every_byte(gate, of_client):
    cutter = Cutter(gate.api_port)
    side = "c" if of_client else "s"
    id_, passed = through(gate, cutter, side + "-whole", None, of_client)
    assert id_ is not None and retry_finds_one(gate, side + "-whole", id_)
    total = passed[0] if of_client else passed[1]
    cut = found = 0
    for n in range(1, total, STEP):
        name = "%s-%05d" % (side, n)
        id_, passed = through(gate, cutter, name, n, of_client)
        assert passed[0 if of_client else 1] <= n
        cut += id_ is None
        assert count(gate, name) <= 1
        found += retry_finds_one(gate, name, id_)
    # it was cut: nearly always before the whole answer was there
    assert cut >= 0.9 * len(range(1, total, STEP))
    if of_client:
        assert found <= 2  # only a whole request can have been stored
    else:
        assert found > 0  # stored, and its answer was lost
    cutter.listener.close()


def test_fifty_at_once_with_one_key_store_one(gate):
    """All connected before any asks; fifty equal answers."""
    context = ssl.create_default_context(cafile=gate.ca_file)
    lines = []
    for _ in range(50):
        plain = socket.create_connection(("127.0.0.1", gate.api_port), 60)
        lines.append(context.wrap_socket(plain, server_hostname="localhost"))
    data = request_of(gate, "fifty")
    for s in lines:
        s.sendall(data[:-1])
    for s in lines:
        s.sendall(data[-1:])
    answers = []
    for s in lines:
        got = b""
        while not got.endswith(b"}\n"):
            more = s.recv(65536)
            assert more, got
            got += more
        assert got.startswith(b"HTTP/1.1 202 ")
        answers.append(got.partition(b"\r\n\r\n")[2])
        s.close()
    assert len(set(answers)) == 1, set(answers)
    assert count(gate, "fifty") == 1
