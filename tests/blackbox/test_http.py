# SPDX-License-Identifier: ISC
"""The HTTP server against raw sockets: framing, limits, deadlines, ends.

Every row of the battery in docs/http.md is here. The server is the program
tests/fake/httpd, which has handlers that are slow, stream or pause.
"""

import hashlib
import json
import os
import select
import socket
import ssl
import subprocess
import threading
import time

import pytest

BUILD = os.environ.get("POSTERN_BUILD", "build/gcc")
HOST = b"Host: test\r\n"


class Httpd:
    """tests/fake/httpd, for as long as the `with` lasts."""

    def __init__(self, *options):
        self.proc = subprocess.Popen(
            [os.path.join(BUILD, "tests/fake/httpd"), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.port = int(self.proc.stdout.readline().split()[1])
        self.log = []
        self.reader = threading.Thread(target=self._read_log)
        self.reader.start()

    def _read_log(self):
        for line in self.proc.stderr:
            self.log.append(line)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.proc.stdin.close()
        code = self.proc.wait(20)
        self.reader.join()
        text = "".join(self.log)
        assert code == 0, text
        assert "ERROR: " not in text and "runtime error" not in text, text

    def connect(self, timeout=10):
        s = socket.create_connection(("127.0.0.1", self.port))
        s.settimeout(timeout)
        return s

    def raw(self, data, timeout=10):
        """Send bytes, then read all until the server closes."""
        with self.connect(timeout) as s:
            try:
                s.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            return read_all(s)

    def one(self, data):
        """One reply to bytes that end with Connection: close, or are bad."""
        replies = parse_replies(self.raw(data))
        assert len(replies) == 1, replies
        return replies[0]

    def get(self, path, headers=b""):
        return self.one(
            b"GET " + path.encode() + b" HTTP/1.1\r\n" + HOST
            + b"Connection: close\r\n" + headers + b"\r\n"
        )

    def counters(self):
        return json.loads(self.get("/counters")[2])

    def until(self, name, value):
        """Wait until a counter of the server has a value."""
        end = time.monotonic() + 20
        while self.counters()[name] != value:
            assert time.monotonic() < end, self.counters()


def read_all(s):
    out = b""
    while True:
        try:
            piece = s.recv(65536)
        except ConnectionResetError:
            return out
        if not piece:
            return out
        out += piece


def parse_replies(data, heads=()):
    """[(status, headers, body)]; `heads` = indexes of replies to HEAD."""
    out = []
    while data:
        head, sep, data = data.partition(b"\r\n\r\n")
        assert sep, head
        lines = head.decode().split("\r\n")
        status = int(lines[0].split()[1])
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        if status == 100:
            out.append((100, headers, b""))
            continue
        n = int(headers.get("content-length", 0))
        if len(out) in heads or status in (204, 304):
            n = 0
        assert len(data) >= n, (head, data)
        out.append((status, headers, data[:n]))
        data = data[n:]
    return out


def error_of(reply):
    status, headers, body = reply
    doc = json.loads(body)
    assert set(doc) >= {
        "name", "code", "message", "fix", "field", "request_id", "retry"}
    assert doc["request_id"] == headers["x-request-id"]
    assert doc["request_id"].startswith("req_")
    assert len(doc["request_id"]) == 30
    return status, doc["code"]


@pytest.fixture(scope="module")
def server():
    with Httpd() as s:
        yield s


@pytest.fixture(scope="module")
def hasty():
    """Short deadlines, so that tests of them are short."""
    with Httpd("head_ms=700", "idle_ms=900", "body_ms=800", "handler_ms=900",
               "write_ms=700") as s:
        yield s


def post(headers, body, path=b"/echo", version=b"1.1"):
    return (b"POST " + path + b" HTTP/" + version + b"\r\n" + HOST + headers
            + b"\r\n" + body)


NEXT = b"GET /counters HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
BAD = (400, "protocol_violation")
BIG = (431, "headers_too_large")

SMUGGLING = {
    "cl+te": post(b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                  b"0\r\n\r\n"),
    "te+cl": post(b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                  b"0\r\n\r\n"),
    "te gzip, chunked": post(b"Transfer-Encoding: gzip, chunked\r\n",
                             b"0\r\n\r\n"),
    "te gzip, chunked + cl": post(
        b"Transfer-Encoding: gzip, chunked\r\nContent-Length: 4\r\n", b"abcd"),
    "te twice": post(
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"0\r\n\r\n"),
    "te identity": post(b"Transfer-Encoding: identity\r\n", b""),
    "te chunked, identity": post(b"Transfer-Encoding: chunked, identity\r\n",
                                 b"0\r\n\r\n"),
    "te xchunked": post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
    "te empty": post(b"Transfer-Encoding:\r\n", b""),
    "te quoted": post(b'Transfer-Encoding: "chunked"\r\n', b"0\r\n\r\n"),
    "te in 1.0": post(b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n",
                      version=b"1.0"),
    "te vt": post(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n"),
    "te space before colon": post(b"Transfer-Encoding : chunked\r\n",
                                  b"0\r\n\r\n"),
    "two cl 0/4": post(b"Content-Length: 0\r\nContent-Length: 4\r\n", b"abcd"),
    "two cl same": post(b"Content-Length: 4\r\nContent-Length: 4\r\n",
                        b"abcd"),
    "cl list": post(b"Content-Length: 4, 4\r\n", b"abcd"),
    "cl plus": post(b"Content-Length: +4\r\n", b"abcd"),
    "cl minus": post(b"Content-Length: -4\r\n", b"abcd"),
    "cl hex": post(b"Content-Length: 0x4\r\n", b"abcd"),
    "cl empty": post(b"Content-Length:\r\n", b""),
    "cl blank": post(b"Content-Length:  \r\n", b""),
    "cl underscore": post(b"Content-Length: 1_0\r\n", b"abcdefghij"),
    "cl overflow": post(b"Content-Length: 18446744073709551620\r\n", b"abcd"),
    "cl huge": post(b"Content-Length: 9" + b"0" * 30 + b"\r\n", b"abcd"),
    "cl space before colon": post(b"Content-Length : 4\r\n", b"abcd"),
    "cl inner space": post(b"Content-Length: 1 0\r\n", b"abcdefghij"),
    "bare lf lines": b"GET /hello HTTP/1.1\nHost: test\n\n",
    "bare lf last": b"GET /hello HTTP/1.1\r\nHost: test\r\n\n",
    "bare cr in value": post(b"X: a\rb\r\nContent-Length: 0\r\n", b""),
    "cr after empty value": post(b"X:\rContent-Length: 0\r\n", b""),
    "crlf cr x": b"GET /hello HTTP/1.1\r\nHost: test\r\n\rX: y\r\n\r\n",
    "cr cr lf": b"GET /hello HTTP/1.1\r\r\nHost: test\r\n\r\n",
    "obs-fold": post(b"X: a\r\n b\r\nContent-Length: 0\r\n", b""),
    "obs-fold tab": post(b"X: a\r\n\tb\r\nContent-Length: 0\r\n", b""),
    "space before first header":
        b"GET /hello HTTP/1.1\r\n Host: test\r\n\r\n",
    "nul in header": post(b"X: a\0b\r\nContent-Length: 0\r\n", b""),
    "nul in name": post(b"X\0Y: a\r\nContent-Length: 0\r\n", b""),
    "nul in target": b"GET /hel\0lo HTTP/1.1\r\n" + HOST + b"\r\n",
    "control in value": post(b"X: a\x01b\r\nContent-Length: 0\r\n", b""),
    "del in value": post(b"X: a\x7fb\r\nContent-Length: 0\r\n", b""),
    "no colon": post(b"Xabc\r\nContent-Length: 0\r\n", b""),
    "empty name": post(b": abc\r\nContent-Length: 0\r\n", b""),
    "name with space": post(b"X Y: abc\r\nContent-Length: 0\r\n", b""),
    "name with high byte": post(b"X\xe9: abc\r\nContent-Length: 0\r\n", b""),
    "no host": b"GET /hello HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "two hosts same": b"GET /hello HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "host empty": b"GET /hello HTTP/1.1\r\nHost:\r\n\r\n",
    "host list": b"GET /hello HTTP/1.1\r\nHost: a, b\r\n\r\n",
    "host userinfo": b"GET /hello HTTP/1.1\r\nHost: a@b\r\n\r\n",
    "host slash": b"GET /hello HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "two authorization": post(
        b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"
        b"Content-Length: 0\r\n", b""),
    "two cookie": post(
        b"Cookie: a=b\r\nCookie: c=d\r\nContent-Length: 0\r\n", b""),
    "two idempotency-key": post(
        b"Idempotency-Key: a\r\nIdempotency-Key: b\r\n"
        b"Content-Length: 0\r\n", b""),
    "absolute form": b"GET http://test/hello HTTP/1.1\r\n" + HOST + b"\r\n",
    "no slash": b"GET hello HTTP/1.1\r\n" + HOST + b"\r\n",
    "fragment": b"GET /hello#x HTTP/1.1\r\n" + HOST + b"\r\n",
    "backslash": b"GET /hel\\lo HTTP/1.1\r\n" + HOST + b"\r\n",
    "high byte in target": b"GET /\xe9 HTTP/1.1\r\n" + HOST + b"\r\n",
    "tab in request line": b"GET\t/hello HTTP/1.1\r\n" + HOST + b"\r\n",
    "two spaces": b"GET  /hello HTTP/1.1\r\n" + HOST + b"\r\n",
    "space in target": b"GET /hel lo HTTP/1.1\r\n" + HOST + b"\r\n",
    "trailing space": b"GET /hello HTTP/1.1 \r\n" + HOST + b"\r\n",
    "http/0.9": b"GET /hello\r\n\r\n",
    "http/1.2": b"GET /hello HTTP/1.2\r\n" + HOST + b"\r\n",
    "http/2.0": b"GET /hello HTTP/2.0\r\n" + HOST + b"\r\n",
    "h2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http/1.10": b"GET /hello HTTP/1.10\r\n" + HOST + b"\r\n",
    "lower http": b"GET /hello http/1.1\r\n" + HOST + b"\r\n",
    "connect": b"CONNECT test:1 HTTP/1.1\r\n" + HOST + b"\r\n",
    "options star": b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
    "unknown method": b"FROB /hello HTTP/1.1\r\n" + HOST + b"\r\n",
    "lower method": b"get /hello HTTP/1.1\r\n" + HOST + b"\r\n",
    "tls to plain": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "smtp": b"EHLO me\r\n\r\n",
    "unknown expect": post(b"Expect: tea\r\nContent-Length: 1\r\n", b"a"),
}

CHUNKS = {
    "0x4": b"0x4\r\nabcd\r\n0\r\n\r\n",
    "plus": b"+4\r\nabcd\r\n0\r\n\r\n",
    "minus": b"-4\r\nabcd\r\n0\r\n\r\n",
    "empty size": b"\r\nabcd\r\n0\r\n\r\n",
    "space before": b" 4\r\nabcd\r\n0\r\n\r\n",
    "space after": b"4 \r\nabcd\r\n0\r\n\r\n",
    "not ended": b"4\r\nabcdXX0\r\n\r\n",
    "ended by lf": b"4\r\nabcd\n0\r\n\r\n",
    "ended by cr": b"4\r\nabcd\r0\r\n\r\n",
    "size ended by lf": b"4\nabcd\r\n0\r\n\r\n",
    "size too long": b"000000004\r\nabcd\r\n0\r\n\r\n",
    "size overflow": b"ffffffffffffffff4\r\nabcd\r\n0\r\n\r\n",
    "too little data": b"3\r\nabcd\r\n0\r\n\r\n",
    "last not ended": b"4\r\nabcd\r\n0\r\nX",
    "last lf": b"4\r\nabcd\r\n0\r\n\n",
    "trailer": b"4\r\nabcd\r\n0\r\nX: y\r\n\r\n",
    "trailer host": b"0\r\nHost: evil\r\n\r\n",
    "lf in extension": b"4;a\nb\r\nabcd\r\n0\r\n\r\n",
    "nul in extension": b"4;a\0b\r\nabcd\r\n0\r\n\r\n",
    "endless extension": b"4;" + b"a" * 2000 + b"\r\nabcd\r\n0\r\n\r\n",
    "extension on every chunk": b"1;aaaaaaaa\r\na\r\n" * 200 + b"0\r\n\r\n",
}


@pytest.mark.parametrize("name", SMUGGLING)
def test_refused_and_nothing_after_it_is_answered(server, name):
    assert error_of(server.one(SMUGGLING[name] + NEXT)) == BAD


@pytest.mark.parametrize("name", SMUGGLING)
def test_refused_byte_by_byte(server, name):
    with server.connect() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for i in range(len(SMUGGLING[name])):
                s.send(SMUGGLING[name][i:i + 1])
        except (BrokenPipeError, ConnectionResetError):
            pass
        replies = parse_replies(read_all(s))
    assert len(replies) == 1 and error_of(replies[0]) == BAD


@pytest.mark.parametrize("path", [b"/echo", b"/upload", b"/late"])
@pytest.mark.parametrize("name", CHUNKS)
def test_chunk_framing_refused(server, name, path):
    data = post(b"Transfer-Encoding: chunked\r\n", CHUNKS[name], path)
    assert error_of(server.one(data + NEXT)) == BAD


GOOD = {
    "plain": (b"Content-Length: 4\r\n", b"abcd"),
    "leading zero": (b"Content-Length: 04\r\n", b"abcd"),
    "one chunk": (b"Transfer-Encoding: chunked\r\n", b"4\r\nabcd\r\n0\r\n\r\n"),
    "upper te": (b"TRANSFER-ENCODING: CHUNKED\r\n",
                 b"4\r\nabcd\r\n0\r\n\r\n"),
    "two chunks": (b"Transfer-Encoding: chunked\r\n",
                   b"1\r\na\r\n3\r\nbcd\r\n0\r\n\r\n"),
    "extension": (b"Transfer-Encoding: chunked\r\n",
                  b'4;name="value"\r\nabcd\r\n0;x\r\n\r\n'),
    "upper hex": (b"Transfer-Encoding: chunked\r\n",
                  b"00000004\r\nabcd\r\n000\r\n\r\n"),
    "utf-8 header": (b"X: gr\xc3\xbcn\r\nContent-Length: 4\r\n", b"abcd"),
    "upgrade is ignored": (
        b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 4\r\n",
        b"abcd"),
}


@pytest.mark.parametrize("name", GOOD)
def test_accepted_then_the_next_request(server, name):
    headers, body = GOOD[name]
    replies = parse_replies(server.raw(post(headers, body) + NEXT))
    assert [r[0] for r in replies] == [200, 200]
    assert replies[0][2] == b"abcd"
    assert "connections" in json.loads(replies[1][2])


@pytest.mark.parametrize("name", GOOD)
def test_accepted_byte_by_byte(server, name):
    headers, body = GOOD[name]
    with server.connect() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in post(headers, body) + NEXT:
            s.send(bytes([byte]))
        replies = parse_replies(read_all(s))
    assert [r[0] for r in replies] == [200, 200]
    assert replies[0][2] == b"abcd"


def test_head_over_16k(server):
    data = (b"GET /hello HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 20000
            + b"\r\n\r\n")
    assert error_of(server.one(data + NEXT)) == BIG


def test_head_just_under_16k(server):
    start = b"GET /hello HTTP/1.1\r\n" + HOST + b"Connection: close\r\nX: "
    data = start + b"a" * (16384 - len(start) - 4) + b"\r\n\r\n"
    assert len(data) == 16384
    assert server.one(data)[0] == 200
    assert error_of(server.one(data[:-4] + b"a\r\n\r\n")) == BIG


def test_3000_tiny_headers(server):
    data = b"GET /hello HTTP/1.1\r\n" + HOST + b"a:b\r\n" * 3000 + b"\r\n"
    assert error_of(server.one(data + NEXT)) == BIG


def test_100_headers_and_101(server):
    start = b"GET /hello HTTP/1.1\r\n" + HOST + b"Connection: close\r\n"
    assert server.one(start + b"a:b\r\n" * 98 + b"\r\n")[0] == 200
    assert error_of(server.one(start + b"a:b\r\n" * 99 + b"\r\n")) == BIG


def test_target_of_2048_and_2049(server):
    tail = b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
    assert server.one(b"GET /hello?" + b"a" * 2041 + tail)[0] == 200
    assert error_of(server.one(b"GET /hello?" + b"a" * 2042 + tail)) == BIG


def test_blank_lines_before_a_request(server):
    assert server.one(b"\r\n\r\n" + NEXT)[0] == 200
    assert error_of(server.one(b"\r\n" * 9000)) == BIG
    assert error_of(server.one(b"\n" + NEXT)) == BAD


def test_http_1_0_closes(server):
    status, headers, _ = server.one(b"GET /hello HTTP/1.0\r\n\r\n" + NEXT)
    assert status == 200 and headers["connection"] == "close"


def test_head_has_length_and_no_body(server):
    data = b"HEAD /hello HTTP/1.1\r\n" + HOST + b"\r\n" + NEXT
    replies = parse_replies(server.raw(data), heads=(0,))
    assert replies[0][0] == 200 and replies[0][1]["content-length"] == "18"
    assert len(replies) == 2


def test_head_of_a_stream_and_of_an_error(server):
    data = (b"HEAD /download?n=70000 HTTP/1.1\r\n" + HOST + b"\r\n"
            + b"HEAD /none HTTP/1.1\r\n" + HOST + b"\r\n" + NEXT)
    replies = parse_replies(server.raw(data), heads=(0, 1))
    assert [r[0] for r in replies] == [200, 404, 200]
    assert replies[0][1]["content-length"] == "70000"


def test_404_405_and_allow(server):
    assert error_of(server.get("/none")) == (404, "not_found")
    assert error_of(server.get("/hello/")) == (404, "not_found")
    assert error_of(server.get("//hello")) == (404, "not_found")
    assert error_of(server.get("/items/")) == (404, "not_found")
    reply = server.one(b"PATCH /items/1 HTTP/1.1\r\n" + HOST
                       + b"Connection: close\r\n\r\n")
    assert error_of(reply) == (405, "method_not_allowed")
    assert reply[1]["allow"] == "GET, HEAD, DELETE"
    reply = server.one(b"OPTIONS /hello HTTP/1.1\r\n" + HOST
                       + b"Connection: close\r\n\r\n")
    assert error_of(reply) == (405, "method_not_allowed")


@pytest.mark.parametrize("target", [
    "/items/%zz", "/items/%4", "/items/a%00b", "/items/%ff", "/items/%c0%80",
    "/items/%ed%a0%80", "/hello?a=%f", "/hello?%00=1",
    "/hello?" + "&".join(["a=1"] * 65)])
def test_undecodable_targets(server, target):
    assert error_of(server.get(target)) == BAD


def test_params_and_query_are_decoded(server):
    doc = json.loads(server.get("/items/a%2Fb%20c%C3%A9?q=1+2%2B3")[2])
    assert doc == {"id": "a/b cé", "q": "1 2+3"}


def test_pipelining_in_order_also_behind_a_slow_one(server):
    data = b""
    for i in range(50):
        data += (b"GET /items/%d HTTP/1.1\r\n" % i) + HOST + b"\r\n"
        if i == 10:
            data += b"GET /slow?ms=300 HTTP/1.1\r\n" + HOST + b"\r\n"
    replies = parse_replies(server.raw(data + NEXT))
    ids = [json.loads(r[2]).get("id") for r in replies]
    assert ids == ([str(i) for i in range(11)] + [None]
                   + [str(i) for i in range(11, 50)] + [None])


def test_pipelining_bodies_of_all_kinds(server):
    data = b""
    for i in range(30):
        data += post(b"Content-Length: 4\r\n", b"a%03d" % i)
        data += post(b"Transfer-Encoding: chunked\r\n",
                     b"4\r\nb%03d\r\n0\r\n\r\n" % i, b"/late")
        data += post(b"Content-Length: 2\r\n", b"xy", b"/upload")
    replies = parse_replies(server.raw(data + NEXT))
    assert len(replies) == 91 and all(r[0] == 200 for r in replies)
    assert [r[2] for r in replies[0:90:3]] == [b"a%03d" % i for i in range(30)]
    assert [r[2] for r in replies[1:90:3]] == [b"b%03d" % i for i in range(30)]


def test_expect_100_continue(server):
    with server.connect() as s:
        s.sendall(post(b"Expect: 100-continue\r\nContent-Length: 4\r\n"
                       b"Connection: close\r\n", b"", b"/upload"))
        assert s.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(b"abcd")
        assert parse_replies(read_all(s))[0][0] == 200


def test_expect_is_refused_before_the_body(server):
    for path, headers, want in [
        (b"/echo", b"Content-Length: 70000\r\n", (413, "payload_too_large")),
        (b"/upload", b"Content-Length: 52428801\r\n",
         (413, "payload_too_large")),
        (b"/upload?refuse=1", b"Content-Length: 5\r\n",
         (415, "unsupported_media_type")),
        (b"/secret", b"Content-Length: 5\r\n",
         (401, "missing_authorization")),
        (b"/none", b"Content-Length: 5\r\n", (404, "not_found")),
    ]:
        reply = server.one(post(b"Expect: 100-continue\r\n" + headers, b"",
                                path))
        assert error_of(reply) == want


def test_body_caps_also_without_a_length(server):
    big = b"10000\r\n" + b"a" * 65536 + b"\r\n1\r\na\r\n0\r\n\r\n"
    reply = server.one(post(b"Transfer-Encoding: chunked\r\n", big))
    assert error_of(reply) == (413, "payload_too_large")
    reply = server.one(b"GET /hello HTTP/1.1\r\n" + HOST
                       + b"Content-Length: 1\r\n\r\na")
    assert error_of(reply) == (413, "payload_too_large")


def test_body_of_exactly_the_cap(server):
    reply = server.one(post(b"Content-Length: 65536\r\nConnection: close\r\n",
                            b"a" * 65536))
    assert reply[0] == 200 and len(reply[2]) == 65536


def test_unauthorized_gets_a_challenge(server):
    reply = server.one(post(b"Content-Length: 3\r\n", b"abc", b"/secret"))
    assert error_of(reply) == (401, "missing_authorization")
    assert reply[1]["www-authenticate"].startswith("Bearer")
    good = post(b"Authorization: Bearer good\r\nContent-Length: 3\r\n"
                b"Connection: close\r\n", b"abc", b"/secret")
    assert server.one(good)[2] == b"abc"


def test_refusal_reaches_a_client_that_sends_on(server):
    """The reply must survive the bytes the client still sends."""
    for path in (b"/secret", b"/none", b"/upload?refuse=1"):
        data = post(b"Content-Length: 5000000\r\n", b"x" * 5000000, path)
        assert len(parse_replies(server.raw(data))) == 1


def test_form_fields(server):
    body = b"a=1+%26&b=x&a=zwei"
    reply = server.one(post(
        b"Content-Type: Application/X-WWW-Form-Urlencoded; charset=utf-8\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n" % len(body), body,
        b"/form"))
    assert json.loads(reply[2]) == {"a": "1 &", "second": "zwei"}
    for bad in (b"a=%00", b"a=%ff", b"a=%4", b"&".join([b"a=1"] * 65)):
        reply = server.one(post(
            b"Content-Type: application/x-www-form-urlencoded\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n" % len(bad), bad,
            b"/form"))
        assert json.loads(reply[2]) == {"a": None, "second": None}


def test_reply_cannot_be_split(server):
    for value in ("a%0D%0AX-Evil:1", "a%0AX-Evil:1", "a%0DX-Evil:1"):
        status, headers, _ = server.get("/split?v=" + value)
        assert status == 204
        assert "x-evil" not in headers and "x-given" not in headers
    assert server.get("/split?v=fine")[1]["x-given"] == "fine"


def test_fixed_headers_on_every_reply(server):
    for path in ("/hello", "/none", "/download?n=5"):
        headers = server.get(path)[1]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["x-request-id"].startswith("req_")
        assert headers["date"].endswith("GMT")


def test_50_mib_upload_with_pauses(server):
    body = os.urandom(1 << 20) * 50
    with server.connect(60) as s:
        s.sendall(post(b"Content-Length: %d\r\nConnection: close\r\n"
                       % len(body), b"", b"/upload?ms=5"))
        s.sendall(body)
        doc = json.loads(parse_replies(read_all(s))[0][2])
    assert doc == {"sha256": hashlib.sha256(body).hexdigest(),
                   "size": len(body)}


def test_chunked_upload_with_pauses_and_a_request_behind(server):
    body = os.urandom(3 << 20)
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in (
        body[i:i + 5000] for i in range(0, len(body), 5000)))
    data = post(b"Transfer-Encoding: chunked\r\n", chunks + b"0\r\n\r\n",
                b"/upload?ms=20")
    replies = parse_replies(server.raw(data + NEXT))
    assert [r[0] for r in replies] == [200, 200]
    assert (json.loads(replies[0][2])["sha256"]
            == hashlib.sha256(body).hexdigest())


def memory_kib(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("VmRSS"):
                return int(line.split()[1])
    return 0


def test_paused_upload_uses_no_memory():
    """50 MiB wait in the client while the consumer is busy.

    That the client is gone cannot be seen behind bytes nobody reads; the
    deadline of the busy consumer ends it.
    """
    with Httpd("handler_ms=3000") as server:
        before = memory_kib(server.proc.pid)
        with server.connect() as s:
            s.setblocking(False)
            data = memoryview(post(b"Content-Length: 52428800\r\n",
                                   b"x" * 52428800, b"/upload?ms=60000"))
            sent, idle = 0, 0
            while idle < 5:
                try:
                    sent += s.send(data[sent:sent + 1000000])
                    idle = 0
                except BlockingIOError:
                    idle += 1
                    server.counters()
            assert sent < 30000000
            assert memory_kib(server.proc.pid) - before < 6000
        server.until("canceled", 1)
        server.until("connections", 1)


@pytest.mark.parametrize("extra", ["", "&chunked=1"])
def test_download_is_complete_and_the_connection_goes_on(server, extra):
    data = (b"GET /download?n=3000000%b HTTP/1.1\r\n" % extra.encode() + HOST
            + b"\r\n" + NEXT)
    out = server.raw(data)
    head, _, rest = out.partition(b"\r\n\r\n")
    if extra:
        assert b"Transfer-Encoding: chunked" in head
        size = 0
        while True:
            line, _, rest = rest.partition(b"\r\n")
            n = int(line, 16)
            rest = rest[n + 2:]
            size += n
            if n == 0:
                break
        assert size == 3000000
    else:
        rest = rest[3000000:]
    assert rest.startswith(b"HTTP/1.1 200")


def test_slow_reader_costs_no_memory(server):
    before = memory_kib(server.proc.pid)
    with server.connect() as s:
        s.sendall(b"GET /download?n=200000000 HTTP/1.1\r\n" + HOST + b"\r\n")
        for _ in range(20):
            server.counters()
        assert memory_kib(server.proc.pid) - before < 6000
    server.until("connections", 1)


def test_client_gone_cancels_the_handler(server):
    before = server.counters()["canceled"]
    with server.connect() as s:
        s.sendall(b"GET /slow?ms=60000 HTTP/1.1\r\n" + HOST + b"\r\n")
        server.until("connections", 2)
    server.until("canceled", before + 1)


@pytest.mark.parametrize("path,sent", [
    (b"/upload", 1500000), (b"/upload?ms=60000", 20000)])
def test_client_gone_in_the_middle_of_a_body(server, path, sent):
    before = server.counters()["canceled"]
    with server.connect() as s:
        s.sendall(post(b"Content-Length: 9000000\r\n", b"x" * sent, path))
        server.until("connections", 2)
    server.until("canceled", before + 1)
    server.until("connections", 1)


def test_client_gone_in_the_middle_of_a_download(server):
    before = server.counters()["canceled"]
    with server.connect() as s:
        s.sendall(b"GET /download?n=200000000 HTTP/1.1\r\n" + HOST + b"\r\n")
        s.recv(1000)
    server.until("canceled", before + 1)


def test_uncancelable_handler_may_answer_nobody(server):
    before = server.counters()["finished"]
    with server.connect() as s:
        s.sendall(b"GET /stubborn?ms=400 HTTP/1.1\r\n" + HOST + b"\r\n")
        server.until("connections", 2)
    server.until("finished", before + 1)


def drip(s, data, pause=0.05):
    """Send byte by byte until the server has had enough; the time taken."""
    start = time.monotonic()
    s.settimeout(pause)
    out = b""
    for byte in data:
        try:
            s.send(bytes([byte]))
        except (BrokenPipeError, ConnectionResetError):
            break
        try:
            piece = s.recv(65536)
        except socket.timeout:
            continue
        except ConnectionResetError:
            break
        out += piece
        if not piece:
            break
        s.settimeout(10)
        out += read_all(s)
        break
    return out, time.monotonic() - start


def test_drip_in_head_is_cut(hasty):
    with hasty.connect() as s:
        out, took = drip(s, b"GET /hello HTTP/1.1\r\nX: " + b"a" * 1000)
    assert error_of(parse_replies(out)[0]) == (408, "request_timeout")
    assert took < 20  # all of it takes 50 s


def test_drip_in_body_is_cut(hasty):
    for path in (b"/echo", b"/upload"):
        with hasty.connect() as s:
            s.sendall(post(b"Content-Length: 60000\r\n", b"", path))
            out, took = drip(s, b"a" * 1000)
        assert error_of(parse_replies(out)[0]) == (408, "request_timeout")
        assert took < 20  # all of it takes 50 s


def test_reply_waits_for_who_still_sends(server):
    """
    A refusal comes before the body is over: a client that sends on, and only
    then looks, finds it.
    """
    piece, sent = b"a" * 65536, 0
    with server.connect() as s:
        s.sendall(post(b"Content-Length: 90000000\r\n", b"", b"/upload"))
        start = time.monotonic()
        while time.monotonic() - start < 7:
            s.sendall(piece)  # a reset would raise here
            sent += len(piece)
            select.select([], [], [], 0.5)
        out = read_all(s)
    assert error_of(parse_replies(out)[0]) == (413, "payload_too_large")
    assert sent > 7 * 65536


def test_silent_connection_is_closed(hasty):
    with hasty.connect() as s:
        assert read_all(s) == b""


def test_idle_connection_is_closed_after_its_reply(hasty):
    out = hasty.raw(b"GET /hello HTTP/1.1\r\n" + HOST + b"\r\n")
    assert len(parse_replies(out)) == 1


def test_handler_deadline(hasty):
    before = hasty.counters()["canceled"]
    reply = hasty.one(b"GET /slow?ms=60000 HTTP/1.1\r\n" + HOST + b"\r\n")
    assert error_of(reply) == (503, "store_unavailable")
    assert hasty.counters()["canceled"] == before + 1
    before = hasty.counters()["finished"]
    reply = hasty.one(b"GET /stubborn?ms=1500 HTTP/1.1\r\n" + HOST + b"\r\n")
    assert error_of(reply) == (503, "store_unavailable")
    hasty.until("finished", before + 1)


def test_pause_stops_the_body_clock(hasty):
    """A busy consumer is not the client's fault."""
    body = b"x" * (3 << 20)
    reply = hasty.one(post(b"Content-Length: %d\r\nConnection: close\r\n"
                           % len(body), body, b"/upload?ms=500"))
    assert reply[0] == 200


def test_reader_that_never_reads_is_dropped(hasty):
    before = hasty.counters()["canceled"]
    with hasty.connect() as s:
        s.sendall(b"GET /download?n=200000000 HTTP/1.1\r\n" + HOST + b"\r\n")
        hasty.until("canceled", before + 1)


def test_pipeliner_that_never_reads_is_dropped(hasty):
    with hasty.connect() as s:
        # write_ms, and a second for each 16 KiB of what one turn puts out
        s.settimeout(0.7 + (131072 + 16384) / 16384 + 30)
        request = b"GET /download?n=3000000 HTTP/1.1\r\n" + HOST + b"\r\n"
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while True:
                s.sendall(request * 100)
    hasty.until("connections", 1)


def test_connection_cap():
    with Httpd("connections_max=5") as s:
        held = [s.connect() for _ in range(5)]
        for c in held:
            c.sendall(b"GET /hello HTTP/1.1\r\n" + HOST + b"\r\n")
            c.recv(4096)
        assert s.raw(NEXT) == b""
        held.pop().close()
        end = time.monotonic() + 20
        while s.raw(NEXT) == b"":
            assert time.monotonic() < end
        for c in held:
            c.close()


def test_requests_per_connection():
    with Httpd("requests_max=3") as s:
        one = b"GET /hello HTTP/1.1\r\n" + HOST + b"\r\n"
        replies = parse_replies(s.raw(one * 5))
        assert len(replies) == 3
        assert replies[2][1]["connection"] == "close"


def test_drain_finishes_what_is_under_way():
    with Httpd() as s:
        idle, busy = s.connect(), s.connect()
        idle.sendall(b"GET /hello HTTP/1.1\r\n" + HOST + b"\r\n")
        assert len(parse_replies(idle.recv(4096))) == 1
        busy.sendall(b"GET /slow?ms=700 HTTP/1.1\r\n" + HOST + b"\r\n")
        s.until("connections", 3)
        s.proc.stdin.close()
        assert read_all(idle) == b""
        replies = parse_replies(read_all(busy))
        assert replies[0][0] == 200
        assert replies[0][1]["connection"] == "close"
        with pytest.raises(ConnectionRefusedError):
            s.connect()
        idle.close()
        busy.close()


def test_no_secret_of_a_request_in_the_log(server):
    marker = "s3cr3t" * 6
    server.get("/hello?" + marker,
               b"Authorization: Bearer %b\r\n" % marker.encode())
    server.get("/none/" + marker)
    server.one(b"GET /hello HTTP/1.1\r\nX" + marker.encode() + b"\r\n\r\n")
    assert marker not in "".join(server.log)


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert,
         "-days", "2", "-subj", "/CN=localhost"],
        check=True, capture_output=True)
    with Httpd("cert=%s" % cert, "key=%s" % key, "head_ms=1500") as s:
        context = ssl.create_default_context(cafile=str(cert))
        plain = s.connect

        def connect(timeout=10):
            return context.wrap_socket(plain(timeout),
                                       server_hostname="localhost")

        s.plain, s.connect = plain, connect
        yield s


def test_tls_requests_and_pipelining(tls):
    one = b"GET /hello HTTP/1.1\r\n" + HOST + b"\r\n"
    assert len(parse_replies(tls.raw(one * 20 + NEXT))) == 21


def test_tls_upload_with_pauses(tls):
    body = os.urandom(1 << 20) * 20
    reply = tls.one(post(b"Content-Length: %d\r\nConnection: close\r\n"
                         % len(body), body, b"/upload?ms=3"))
    assert (json.loads(reply[2])["sha256"]
            == hashlib.sha256(body).hexdigest())


@pytest.mark.parametrize("size", [1, 16383, 16384, 16385, 65535, 65536, 65537,
                                  131072, 200001])
def test_tls_body_ends_are_not_stuck_in_a_record(tls, size):
    """Sizes around records and the reading limit, behind a slow request."""
    body = b"z" * size
    data = (b"GET /slow?ms=50 HTTP/1.1\r\n" + HOST + b"\r\n"
            + post(b"Content-Length: %d\r\n" % size, body, b"/upload") + NEXT)
    assert [r[0] for r in parse_replies(tls.raw(data))] == [200, 200, 200]


def test_tls_download(tls):
    out = tls.raw(b"GET /download?n=5000000 HTTP/1.1\r\n" + HOST
                  + b"Connection: close\r\n\r\n")
    assert len(out.partition(b"\r\n\r\n")[2]) == 5000000


def test_tls_handshake_deadline(tls):
    with tls.plain() as s:
        s.settimeout(20)
        s.sendall(b"\x16\x03\x01")
        read_all(s)  # or socket.timeout


def test_plain_http_to_tls_port(tls):
    with tls.plain() as s:
        s.sendall(NEXT)
        assert b"200" not in read_all(s)
