# SPDX-License-Identifier: ISC
"""The REST interface under large bodies, lost services, and a stop."""

import concurrent.futures
import http.client
import json
import os
import signal
import socket
import ssl
import threading

import pytest

from tests.blackbox.test_rest import Client, refusal, stored
from tests.lib import noise, postern
from tests.lib.roomy import UPLOADS, little_memory, roomy

FULL = os.environ.get("POSTERN_FULL") == "1"
MIB = 1 << 20
SIZE = (49 if FULL else 6) * MIB


@pytest.fixture(scope="module")
def gate():
    with roomy() as d:
        yield d


def raw_mail(size, mark):
    head = (b"From: bot@acme.example\r\nTo: ada@example.org\r\n"
            b"Subject: large %d\r\n" % mark) + noise.HEAD.encode() + b"\r\n"
    block = noise.lines(MIB - 4096, mark)
    whole, rest = divmod(size - len(head), len(block))
    return head + block * whole + noise.lines(rest - rest // 400, mark)


def test_one_large_message_comes_back_byte_for_byte(gate):
    agent = Client(gate, gate.box.key)
    data = raw_mail(SIZE, 0)
    doc = stored(agent.send_raw(data))
    status, headers, raw = agent.get(
        "/v1/messages/%s/raw" % doc["message_id"], timeout=120)
    assert status == 200
    assert raw.endswith(data.partition(b"\r\n\r\n")[2])
    assert agent.get("/v1/messages/" + doc["message_id"])[2]["size"] \
        == len(raw)


def test_twenty_uploads_at_once_in_bounded_memory(gate):
    agent = Client(gate, gate.box.key)
    data = raw_mail(SIZE, 1)

    def upload(i):
        key = {"Idempotency-Key": "large-%d" % i}
        h = {"Content-Type": "message/rfc822",
             "X-Postern-Envelope": json.dumps({"to": ["ada@example.org"]})}
        return agent.call("POST", "/v1/messages/send", data, dict(h, **key),
                          timeout=300)

    with little_memory(gate), \
            concurrent.futures.ThreadPoolExecutor(UPLOADS) as pool:
        answers = list(pool.map(upload, range(UPLOADS)))
    assert len({stored(a)["message_id"] for a in answers}) == UPLOADS
    assert gate.sql("SELECT max(octet_length(data)) AS n FROM d.body")[0][
        "n"] == noise.CHUNK


def test_over_the_size_is_refused_before_it_is_sent(gate):
    with raw_connection(gate) as s:
        s.sendall(b"POST /v1/messages/send HTTP/1.1\r\nHost: x\r\n"
                  b"Authorization: Bearer " + gate.box.key.encode()
                  + b"\r\nContent-Type: message/rfc822\r\n"
                  b'X-Postern-Envelope: {"to":["ada@example.org"]}\r\n'
                  b"Expect: 100-continue\r\nContent-Length: 53000000\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 413")


def raw_connection(gate):
    context = ssl.create_default_context(cafile=gate.ca_file)
    plain = socket.create_connection(("127.0.0.1", gate.api_port), 30)
    return context.wrap_socket(plain, server_hostname="localhost")


def test_half_an_upload_stores_nothing(gate):
    before = gate.count()
    for cut in (0, 1000, 300000, 2 * MIB):
        with raw_connection(gate) as s:
            s.sendall(b"POST /v1/messages/send HTTP/1.1\r\nHost: x\r\n"
                      b"Authorization: Bearer " + gate.box.key.encode()
                      + b"\r\nContent-Type: message/rfc822\r\n"
                      b'X-Postern-Envelope: {"to":["ada@example.org"]}\r\n'
                      b"Content-Length: 3000000\r\n\r\n"
                      + raw_mail(3000000, 2)[:cut])
    # a later request on the same worker comes after the ends of those
    stored(Client(gate, gate.box.key).send(subject="after"))
    assert gate.count() == before + 1


def test_without_redis_gated_mail_is_held(gate):
    agent = Client(gate, gate.box.key)
    gate.redis.kill()
    try:
        doc = stored(agent.send(subject="no redis"))
        assert doc["status"] == "held"
        me = agent.get("/v1/auth/me")
        assert me[0] == 200
        # a draft waits: what it would write nobody counts
        assert refusal(agent.call("POST", "/v1/drafts", {"subject": "x"})) \
            == (503, "limiter_unavailable")
    finally:
        gate.start_redis()


def cut_off(gate, call):
    """What is answered when the database hangs up on a read of mail."""
    got = []
    held = gate.connect()
    held.autocommit = False
    with held.cursor() as cur:
        cur.execute("LOCK TABLE d.message")
        asking = threading.Thread(target=lambda: got.append(call()))
        asking.start()
        pid = postern.wait_until("the read", lambda: gate.sql(
            "SELECT pid FROM pg_locks WHERE NOT granted"))[0]["pid"]
        gate.sql("SELECT pg_terminate_backend(%s)", pid)
    asking.join(30)
    held.rollback()
    held.close()
    return got[0]


def test_a_refusal_of_what_reads_for_another_says_when(gate):
    """Also where one route answers with what it heard from another."""
    agent = Client(gate, gate.box.key)
    path = "/messages/" + stored(agent.send(subject="there"))["message_id"]
    for method, target, body in (
            ("GET", "/v1" + path, None),
            ("GET", "/v0/inboxes/me%s/raw" % path, None),
            ("POST", "/v1%s/forward" % path, {"to": ["ada@example.org"]})):
        answer = cut_off(gate, lambda: agent.call(method, target, body))
        assert refusal(answer) == (503, "store_unavailable"), target
        assert answer[1]["retry-after"] == str(answer[2]["retry_after"])


def test_without_postgres_nothing_is_acknowledged(gate):
    agent = Client(gate, gate.box.key)
    key = {"Idempotency-Key": "lost-" + os.urandom(6).hex()}
    gate.postgres.kill()
    got = agent.send(http=key, subject="lost")
    assert refusal(got)[0] == 503 and got[2]["retry"] == "same_key"
    gate.start_postgres()
    first = postern.wait_until(
        "the store", lambda: (lambda a: a[0] == 202 and a)(
            agent.send(http=key, subject="lost")))
    again = agent.send(http=key, subject="lost")
    assert stored(again)["message_id"] == stored(first)["message_id"]


def test_stop_answers_what_is_under_way(gate):
    """Last: posternd ends while requests come; each answer is true."""
    agent = Client(gate, gate.box.key)
    done, each = [], threading.Lock()

    def hammer(i):
        while True:
            try:
                a = agent.send(subject="stop %d %d" % (i, len(done)))
            except (OSError, http.client.HTTPException):
                return
            if a[0] != 202:
                continue
            with each:  # else two may miss the one that is the last
                done.append(a[2]["message_id"])
                enough = len(done) == 30
            if enough:
                gate.programs["posternd"].send(signal.SIGTERM)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(hammer, range(6)))
    gate.programs["posternd"].stop()
    assert len(done) >= 30
    stored_ids = {str(m["message_id"]) for m in gate.messages()}
    for m in done:
        assert uuid_of(m) in stored_ids


def uuid_of(text):
    alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
    n = 0
    for c in text[4:]:
        n = n * 32 + alphabet.index(c)
    h = "%032x" % n
    return "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:]))
