# SPDX-License-Identifier: ISC
"""An SMTP client that says exactly what it is told, byte for byte."""
import base64
import random
import socket
import ssl


class Closed(Exception):
    pass


class Raw:
    def __init__(self, port, timeout=20, tls=None, source=None):
        # an address of its own, so that no test slows down another
        source = source or "127.%d.%d.%d" % (
            random.randint(1, 254), random.randint(0, 255),
            random.randint(1, 254))
        self.source = source
        self.sock = socket.create_connection(
            ("127.0.0.1", port), timeout, (source, 0))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        if tls:
            self.wrap(tls)

    def wrap(self, ca_file):
        """TLS from here on; nothing read before counts."""
        context = ssl.create_default_context(cafile=ca_file)
        self.sock = context.wrap_socket(self.sock,
                                        server_hostname="localhost")
        self.buffer = b""

    def send(self, data):
        self.sock.sendall(data.encode() if isinstance(data, str) else data)

    def line(self):
        while b"\r\n" not in self.buffer:
            try:
                data = self.sock.recv(65536)
            except (ConnectionResetError, ssl.SSLEOFError):
                data = b""
            if not data:
                raise Closed(self.buffer)
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line.decode("ascii")

    def reply(self):
        """All lines of one reply, checked for form (RFC 5321 4.2)."""
        lines = [self.line()]
        while lines[-1][3:4] == "-":
            lines.append(self.line())
        for line in lines:
            assert len(line) <= 510, line
            assert line[:3] == lines[0][:3] and line[3] in " -", lines
        return "\n".join(lines)

    def say(self, command):
        self.send(command + "\r\n")
        return self.reply()

    def closed(self):
        """True when the server has closed without another byte."""
        try:
            return self.buffer == b"" and self.sock.recv(1) == b""
        except (ConnectionResetError, ssl.SSLEOFError):
            return True

    def shut(self):
        self.sock.close()


def plain(name, password, authzid=""):
    return base64.b64encode(("%s\0%s\0%s" % (authzid, name, password))
                            .encode()).decode()


def greeted(d, source=None):
    r = Raw(d.smtp_port, source=source)
    assert r.reply().startswith("220 ")
    return r


def secured(d, source=None):
    """587 with STARTTLS done and EHLO said."""
    r = greeted(d, source)
    r.say("EHLO client.test")
    assert r.say("STARTTLS").startswith("220 2.0.0")
    r.wrap(d.ca_file)
    r.say("EHLO client.test")
    return r


def signed_in(d, box, key=None, source=None):
    r = secured(d, source)
    reply = r.say("AUTH PLAIN " + plain(box.address, key or box.smtp_key))
    assert reply.startswith("235 2.7.0"), reply
    return r


def envelope(r, box, *rcpts):
    assert r.say("MAIL FROM:<%s>" % box.address).startswith("250 2.1.0")
    for rcpt in rcpts or ("someone@example.com",):
        assert r.say("RCPT TO:<%s>" % rcpt).startswith("250 2.1.5")


def begin_data(r, box, *rcpts):
    envelope(r, box, *rcpts)
    assert r.say("DATA").startswith("354 ")


def message(box, text="hello", **headers):
    """A whole message with CRLF line ends."""
    fields = {"From": box.address, "To": "someone@example.com",
              "Subject": "test", **headers}
    return "".join("%s: %s\r\n" % (k.replace("_", "-"), v)
                   for k, v in fields.items() if v is not None) + \
        "\r\n" + text + "\r\n"


def submit(r, box, text="hello", *rcpts):
    begin_data(r, box, *rcpts)
    r.send(message(box, text))
    return r.say(".")
