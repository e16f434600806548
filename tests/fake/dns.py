# SPDX-License-Identifier: ISC
"""
A name server on loopback that answers from a dictionary, and fails as told.

    with FakeDns() as dns:
        dns.mx("dest.example", (10, "mx1.dest.example"))
        dns.a("mx1.dest.example", "127.0.0.2")
        dns.fail("bad.example", SERVFAIL)

A name it does not know is NXDOMAIN; one it knows by another type is an empty
answer. `asked` lists (name, type, "udp" or "tcp") in order. What is below a
name in `signed` is called authentic, as a validating resolver would. Records
hold for `ttl` seconds, those of a name in `ttls` for that many, and what is
missing below a name of `soa()` as long as that says. Written for tests only:
one question a packet, no EDNS, no compression but of the question.
"""
import ipaddress
import socket
import struct
import threading

A, CNAME, SOA, PTR, MX, TXT, AAAA, TLSA = 1, 5, 6, 12, 15, 16, 28, 52
AUTHENTIC = 0x0020
SERVFAIL, NXDOMAIN, REFUSED = 2, 3, 5
SILENT, TRUNCATED, SHORT = object(), object(), object()


def packed(name):
    return b"".join(bytes([len(x)]) + x.encode()
                    for x in name.rstrip(".").split(".") if x) + b"\0"


def unpacked(data, at):
    """The name there, and where it ends."""
    labels = []
    while data[at]:
        n = data[at]
        labels.append(data[at + 1:at + 1 + n].decode("latin-1"))
        at += n + 1
    return ".".join(labels).lower(), at + 1


class FakeDns:
    def __init__(self, address="127.0.0.1"):
        self.records, self.failing, self.asked = {}, {}, []
        self.signed = set()
        self.ttl, self.ttls, self.zones = 0, {}, {}
        self.lock = threading.Lock()
        while True:
            self.tcp = socket.create_server((address, 0))
            self.port = self.tcp.getsockname()[1]
            self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                self.udp.bind((address, self.port))
                break
            except OSError:
                self.udp.close()
                self.tcp.close()
        for serve in (self._serve_udp, self._serve_tcp):
            threading.Thread(target=serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.udp.close()
        self.tcp.close()

    # -- what it says ------------------------------------------------------

    def reset(self):
        with self.lock:
            self.records.clear()
            self.failing.clear()
            self.signed.clear()
            self.ttls.clear()
            self.zones.clear()
            self.ttl = 0
            del self.asked[:]

    def add(self, name, kind, *data):
        self.records.setdefault(name, {}).setdefault(kind, []).extend(data)

    def mx(self, name, *hosts):
        """(preference, host) each; (0, ".") takes no mail."""
        self.add(name, MX, *(struct.pack(">H", p) + packed(h)
                              for p, h in hosts))

    def a(self, name, *addresses):
        for text in addresses:
            ip = ipaddress.ip_address(text)
            self.add(name, A if ip.version == 4 else AAAA, ip.packed)

    def cname(self, name, target):
        self.add(name, CNAME, target)

    def txt(self, name, *texts):
        self.add(name, TXT, *(b"".join(
            bytes([len(part)]) + part for part in (
                text.encode()[i:i + 255]
                for i in range(0, len(text), 255))) for text in texts))

    def tlsa(self, host, usage, selector, matching, data):
        self.add("_25._tcp." + host, TLSA,
                 bytes([usage, selector, matching]) + data)

    def soa(self, zone, ttl, minimum):
        self.zones[zone] = (ttl, struct.pack(">5I", 1, 1, 1, 1, minimum))

    def ptr(self, address, name):
        self.add(ipaddress.ip_address(address).reverse_pointer, PTR,
                  packed(name))

    def fail(self, name, how):
        """An rcode, SILENT, TRUNCATED (over UDP) or SHORT (cut rdata)."""
        self.failing[name] = how

    # -- answering ---------------------------------------------------------

    def _found(self, name, kind):
        """Records of the answer with the chain of aliases; None: no name."""
        out, seen = [], set()
        while name in self.records and name not in seen:
            seen.add(name)
            by = self.records[name]
            if kind in by:
                return out + [(name, kind, data) for data in by[kind]]
            if CNAME not in by:
                return out
            out.append((name, CNAME, packed(by[CNAME][0])))
            name = by[CNAME][0]
        return out or None

    def _is_signed(self, names):
        return all(any(("." + n).endswith("." + zone) for zone in self.signed)
                   for n in names)

    def answer(self, query, how):
        ident, = struct.unpack(">H", query[:2])
        name, at = unpacked(query, 12)
        kind, = struct.unpack(">H", query[at:at + 2])
        question = query[12:at + 4]
        with self.lock:
            self.asked.append((name, kind, how))
            trouble = self.failing.get(name)
            found = self._found(name, kind)
        if trouble is SILENT:
            return None
        code, flags = 0, 0x8180
        if isinstance(trouble, int):
            code, found = trouble, []
        elif trouble is TRUNCATED and how == "udp":
            flags, found = flags | 0x0200, []
        elif found is None:
            code, found = NXDOMAIN, []
        if code in (0, NXDOMAIN) and self._is_signed(
                {name} | {owner for owner, _, _ in found}):
            flags |= AUTHENTIC
        body = b"".join(self._record(owner, rtype, self.ttls.get(
            owner, self.ttl), data[:1] if trouble is SHORT else data)
            for owner, rtype, data in found)
        known = [z for z in self.zones if ("." + name).endswith("." + z)]
        if not found and known:
            ttl, numbers = self.zones[known[0]]
            body += self._record(known[0], SOA, ttl, b"\0\0" + numbers)
        return struct.pack(">HHHHHH", ident, flags | code, 1, len(found),
                           int(not found and known != []), 0
                           ) + question + body

    @staticmethod
    def _record(owner, rtype, ttl, data):
        return packed(owner) + struct.pack(
            ">HHIH", rtype, 1, ttl, len(data)) + data

    def _serve_udp(self):
        while True:
            try:
                query, peer = self.udp.recvfrom(4096)
                reply = self.answer(query, "udp")
                if reply is not None and len(reply) <= 512:
                    self.udp.sendto(reply, peer)
                elif reply is not None:  # too long for UDP: say so
                    self.udp.sendto(
                        reply[:2] + struct.pack(">H", 0x8380) + query[4:6]
                        + bytes(6) + query[12:], peer)
            except OSError:
                return

    def _serve_tcp(self):
        while True:
            try:
                sock, _ = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(sock,),
                             daemon=True).start()

    def _talk(self, sock):
        with sock, sock.makefile("rb") as f:
            while True:
                head = f.read(2)
                if len(head) < 2:
                    return
                reply = self.answer(f.read(*struct.unpack(">H", head)), "tcp")
                if reply is not None:
                    sock.sendall(struct.pack(">H", len(reply)) + reply)
