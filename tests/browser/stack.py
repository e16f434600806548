#!/usr/bin/python3
# SPDX-License-Identifier: ISC
"""A deployment for the browser tests, steered by lines of JSON.

Starts PostgreSQL, Redis and postern-admin, prints one line that says where
they are, then answers each line of stdin with one of stdout:

    {"do": "submit", "inbox": 0, "rcpt": [...], "raw": "...", "risk": 50}
    {"do": "sql", "query": "...", "args": [...]}
    {"do": "operator", "name": "...", "password": "...", "role": "auditor"}
    {"do": "program", "name": "postern-auth", "run": false}
    {"do": "stop"}

Messages are sealed and submitted here as the gateway does it, so that these
tests need no agent; tests/suites/pages goes the whole way.
"""
import hashlib
import http.client
import json
import os
import re
import ssl
import struct
import sys
import time
import uuid

import psycopg2.extras

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path.insert(0, TOP)

import nacl.signing  # noqa: E402
from nacl import bindings, utils  # noqa: E402
from tests.lib import postern, seals  # noqa: E402

SEGMENT = 65536
SUBMIT = ("bigint bigint bytea uuid text text text bigint bytea bigint bigint "
          "bytea text text text text text text uuid text text smallint "
          "smallint smallint int boolean int bytea int bytea int bytea bytea bytea "
          "boolean uuid boolean bytea bytea bigint smallint smallint").split()


def lp(data):
    return struct.pack(">I", len(data)) + data


def uuid7(age=0):
    ms = int((time.time() - age) * 1000)
    b = bytearray(struct.pack(">Q", ms)[2:] + os.urandom(10))
    b[6] = 0x70 | b[6] & 0x0f
    b[8] = 0x80 | b[8] & 0x3f
    return uuid.UUID(bytes=bytes(b))


def message_id(u):
    return "msg_" + seals.base32(u.bytes)


def seal_body(key, tenant, u, version, plain):
    """All chunks of a body (decision D7), never compressed."""
    ad = lp(b"postern.body.1") + struct.pack(">Q", tenant) + u.bytes + \
        struct.pack(">H", version)
    pieces = [plain[i:i + SEGMENT] for i in range(0, len(plain), SEGMENT)] \
        or [b""]
    chunks, now = [], b""
    for seq, piece in enumerate(pieces):
        last = seq == len(pieces) - 1
        nonce = struct.pack(">QB", seq, last) + bytes(15)
        sealed = bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(
            b"\0" + piece, ad, nonce, key)
        now += lp(sealed)
        if last or seq % 4 == 3:
            chunks.append(now)
            now = b""
    return chunks


class Untouched(postern.Deployment):
    """Nobody can sign in yet."""

    def _write_conf(self):
        self.extra = {"admin": {
            "setup_token_file": self.path("state", "setup-token")}}
        super()._write_conf()

    def _first_operator(self):
        self.operator = self.operator_password = None


class Stack:
    def __init__(self, **admin):
        self.gateway = self.asker = None
        undo = os.environ.get("STACK_UNDO", "10s")
        if os.environ.get("STACK_EMPTY"):
            self.d = Untouched()
            self.d.start("postern-admin")
            return
        self.d = postern.Deployment(extra={"admin": {
            "undo": undo,
            "setup_token_file": "",
            # a balancer's address, from which nobody else comes
            "proxy_from": ["127.0.0.9"],
            **admin,
        }})
        self.d.add_tenant("acme", "agents.example.com")
        self.d.add_tenant("other", "other.example.com")
        self.boxes = [
            self.d.add_inbox("helpdesk@agents.example.com", "acme"),
            self.d.add_inbox("research@agents.example.com", "acme"),
            self.d.add_inbox("bot@other.example.com", "other"),
        ]
        self.d.sql("UPDATE d.inbox SET lim_hour = 9999, lim_day = 9999, "
                   "lim_month = 9999, lim_held = 9999")
        self.d.start("postern-auth")
        self.d.start("postern-admin")

    def hello(self):
        d = self.d
        return {"url": "https://localhost:%d" % d.admin_port,
                "operator": d.operator, "password": d.operator_password,
                "api": "https://127.0.0.1:%d" % d.api_port,
                "dir": d.dir, "token_file": d.path("state", "setup-token")}

    def call(self, types, *args):
        if self.gateway is None:
            self.gateway = self.d.connect("l_gateway")
        with self.gateway.cursor(
                cursor_factory=psycopg2.extras.RealDictCursor) as cur:
            cur.execute("SELECT * FROM api.submit_1(%s)" % ",".join(
                "%s::" + t for t in types), args)
            rows = cur.fetchall()
        if rows[0]["status"] != 202:
            raise AssertionError("submit: %r" % rows)
        return rows[0]

    def do_submit(self, inbox=0, rcpt=("a@example.org",), raw="", risk=50,
                  kinds=None, subject="", context=None, count=1, header_from=""):
        ids = [self.submit(self.boxes[inbox], list(rcpt), raw, risk, kinds,
                           subject, context, n) for n in range(count)]
        # as postern-admin does twice a second: a search finds them at once
        while self.ask("SELECT more FROM api.search_fill_1(5000)")[0]["more"]:
            pass
        return {"id": ids[0], "ids": ids}

    def submit(self, box, rcpt, raw, risk, kinds, subject, context, n):
        d = self.d
        auth = seals.auth_of(seals.token_secret(box.key))
        if not hasattr(box, "auth"):
            box.auth = d.api("auth_1", box.tenant_id, box.full_key_id, auth,
                             None, user="l_gateway")
        row = box.auth
        u = uuid7()
        raw = re.sub(r"\r?\n", "\r\n", raw.replace("{n}", str(n)))
        plain = raw.encode("utf-8", "surrogateescape")
        hour = utils.random(32)
        key = hashlib.blake2b(
            lp(b"postern.msg.1") + bytes(row["deployment"]) +
            struct.pack(">QQ", box.tenant_id, box.inbox_id) + u.bytes +
            struct.pack(">H", 1), digest_size=32, key=hour).digest()
        tag = hashlib.blake2b(plain, digest_size=32, key=key).digest()
        wire = sorted(set(x.encode() for x in rcpt))
        digest = hashlib.sha256(
            lp(b"postern.digest.1") +
            struct.pack(">QQ", box.tenant_id, box.inbox_id) + u.bytes +
            struct.pack(">HB", 1, 0) + lp(box.address.encode()) +
            struct.pack(">I", len(wire)) + b"".join(map(lp, wire)) +
            lp(b"") + struct.pack(">Q", len(plain)) + lp(tag) +
            struct.pack(">QQ", 0, 0)).digest()
        chunks = seal_body(key, box.tenant_id, u, 1, plain)
        auth_args = [box.tenant_id, box.full_key_id, auth]
        if len(chunks) > 1:
            for seq, data in enumerate(chunks):
                d.api("put_chunk_1", *auth_args, str(u), seq, data,
                      user="l_gateway")
        letters = kinds or "t" * len(wire)
        got = self.call(
            SUBMIT, *auth_args, str(u),
            "\n".join(x.decode() for x in wire), letters, "",
            len(plain), tag, 0, 0, digest, "r",
            subject.replace("{n}", str(n)), box.address, "<x@y>", "", "",
            None, "", json.dumps(context or {}), risk, 0, 0,
            0, "://" in raw,
            row["tenant_epoch"],
            seals.box(bytes(row["tenant_pub"]), hour), row["inbox_epoch"],
            seals.box(bytes(row["inbox_pub"]), hour), len(chunks),
            chunks[0] if len(chunks) == 1 else None, None,
            os.urandom(32), True, None, True, None, None, None, None, None)
        return message_id(uuid.UUID(str(got["message_id"])))

    def do_older(self, id, days):
        """A copy of a message that is not held, submitted so long ago."""
        seed = uuid.UUID(bytes=seals.unbase32(id[4:], 16))
        old = uuid7(days * 86400)
        args = {"old": str(old), "seed": str(seed), "days": days}
        query = """SET session_replication_role = replica;
            SELECT d.partition_make(date_trunc('week', now() - %(days)s *
            interval '1 day')::date);"""
        for table, more in (("message", """, 'digest', d.digest_1(t.tenant_id,
                t.inbox_id, %(old)s, t.version, t.test, t.mail_from, t.rcpt,
                t.params, t.size, t.body_tag, 0, 0)"""),
                            ("state", ", 'changed_at', now() - %(days)s * "
                             "interval '1 day'"), ("word", "")):
            cols = self.ask("SELECT string_agg(attname, ', ') AS names FROM "
                            "pg_attribute WHERE attrelid = %s::regclass AND "
                            "attnum > 0 AND attgenerated = ''",
                            ("d." + table,))[0]["names"]
            query += """INSERT INTO d.{0} ({2}) SELECT {2} FROM (SELECT
                (jsonb_populate_record(t, jsonb_build_object('message_id',
                %(old)s::text{1}))).* FROM d.{0} t
                WHERE t.message_id = %(seed)s) y;""".format(table, more, cols)
        self.ask(query, args)
        return {"id": message_id(old)}

    def ask(self, query, args=()):
        """Rows of a query; what it sets ends with it, as if it had had a
        connection of its own, which takes longer than most queries."""
        if self.asker is None or self.asker.closed:
            self.asker = self.d.connect()
        with self.asker.cursor(
                cursor_factory=psycopg2.extras.RealDictCursor) as cur:
            try:
                cur.execute(query, args or None)
                return cur.fetchall() if cur.description else []
            finally:
                cur.execute("RESET ALL")

    def do_sql(self, query, args=()):
        rows = self.ask(query, args)
        return {"rows": [{k: (bytes(v).hex() if isinstance(v, memoryview)
                              else v) for k, v in r.items()} for r in rows]}

    def do_operator(self, name, password, role, tenant=None, inbox=None):
        salt, params = os.urandom(16), "argon2id m=19456 t=2 p=1"
        output = self.d._output(salt, params, password)
        t = self.d.tenants[tenant] if tenant else None
        self.d.step_up()
        row = self.d.api("operator_add_1", self.d.session, os.geteuid(), name,
                         salt, params, hashlib.sha256(output).digest(), role,
                         t, None if inbox is None
                         else self.boxes[inbox].inbox_id)
        return {"id": row["operator_id"]}

    def do_program(self, name, run):
        if run:
            self.d.start(name)
        else:
            self.d.programs[name].stop()
        return {}

    def do_kill(self, name):
        self.d.programs[name].kill()
        return {}

    def do_agent(self, method, path, body=None, headers=None, inbox=0):
        """A request at the agents' side, with the key of an inbox."""
        c = http.client.HTTPSConnection(
            "127.0.0.1", self.d.api_port,
            context=ssl._create_unverified_context())
        head = {"Authorization": "Bearer " + self.boxes[inbox].key,
                "Content-Type": "application/json"}
        head.update(headers or {})
        c.request(method, path, None if body is None else json.dumps(body),
                  {k: v for k, v in head.items() if v is not None})
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return {"status": r.status, "headers": r.getheaders(), "text": text}

    def do_lock(self, query, args=()):
        """Rows that stay locked until `free`."""
        self.locker = self.d.connect()
        self.locker.autocommit = False
        cur = self.locker.cursor()
        cur.execute(query, args)
        return {}

    def do_free(self):
        self.locker.rollback()
        self.locker.close()
        return {}

    def do_await(self, name, event):
        return {"line": self.d.programs[name].wait(event)}

    def do_ctl(self, args):
        """posternctl as the user whose keys these are."""
        d = self.d
        pub = d.path("keys", "seal.key.pub")
        if not os.path.exists(pub):
            with open(d.path("keys", "seal.key")) as f:
                seed = seals.unbase32(f.read().split()[1], 32)
            seals.key_file(pub, "audit-pub", bytes(
                nacl.signing.SigningKey(seed).verify_key), True)
            d._own(pub)
        return {"said": d._run(d.as_user([os.path.join(
            postern.build_dir(), "posternctl"), "-c", d.conf, *args]))}

    def do_rss(self, name):
        """KiB of a program's memory."""
        with open("/proc/%d/status" % self.d.programs[name].pid) as f:
            return {"kib": int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])}

    def do_log(self):
        return {"lines": [x for x in self.d.programs["postern-admin"].lines
                          if x]}


def main():
    stack = Stack()
    try:
        print(json.dumps(stack.hello()), flush=True)
        for line in sys.stdin:
            call = json.loads(line)
            what = call.pop("do")
            if what == "stop":
                break
            try:
                answer = getattr(stack, "do_" + what)(**call)
            except Exception as e:
                answer = {"error": "%s: %s" % (type(e).__name__, e)}
            print(json.dumps(answer, default=str), flush=True)
    finally:
        stack.d.close()


if __name__ == "__main__":
    main()
