# SPDX-License-Identifier: ISC
"""Requests made from openapi.json: random ones, and one hostile string in
every string field of every route. No 5xx, no crash, no leak, nothing stored
that was refused. 8 s; 10 minutes with POSTERN_FULL=1."""
import http.client
import json
import os
import random
import ssl
import time
import urllib.parse

import pytest

from tests.blackbox.test_rest import INJECTIONS, Client, stored
from tests.lib import agents, contract, postern

FULL = os.environ.get("POSTERN_FULL") == "1"
SECONDS = 600 if FULL else 8
SEED = int(os.environ.get("POSTERN_SEED", "1"))
# Texts that are the body of a mail, or a record of their own: never a header.
BODY_TEXT = {"text", "html", "markdown", "context", "exit_error", "metadata",
             "params"}
# Not called at random: a wrong code makes the next answer wait.
SKIP = {"claim", "events"}


@pytest.fixture(scope="module")
def gate():
    with postern.Deployment() as d:
        d.add_tenant("acme", "acme.example")
        d.sql("UPDATE d.plan SET lim_hour = 1000000, lim_day = 1000000, "
              "lim_month = 10000000, lim_held = 1000000, "
              "lim_bytes = 85899345920")
        d.box = d.add_inbox("bot@acme.example", "acme")
        d.other = d.add_inbox("two@acme.example", "acme")
        d.start("posternd")
        yield d


class Line:
    """One connection that stays, as long as the server lets it."""

    def __init__(self, gate, key):
        self.context = ssl.create_default_context(cafile=gate.ca_file)
        self.port, self.key, self.conn = gate.api_port, key, None

    def call(self, method, path, body=None, headers=None):
        h = dict({"Authorization": "Bearer " + self.key}, **(headers or {}))
        if body is not None:
            body = json.dumps(body).encode()
            h["Content-Type"] = "application/json"
        for fresh in (False, True):
            if self.conn is None or fresh:
                self.conn = http.client.HTTPSConnection(
                    "127.0.0.1", self.port, context=self.context, timeout=60)
            try:
                self.conn.request(method, path, body, h)
                r = self.conn.getresponse()
                data = r.read()
                break
            except (http.client.HTTPException, OSError):
                assert not fresh, (method, path)  # closed between two calls
        got = {k.lower(): v for k, v in r.getheaders()}
        if got.get("connection") == "close":
            self.conn.close()
            self.conn = None
        if got.get("content-type") == "application/json" and data:
            data = json.loads(data)
        contract.check(method, path, r.status, got, data)
        return r.status, got, data


def pool_of(gate):
    """Ids that are there, of this inbox and of another."""
    pool = {}
    for box in (gate.box, gate.other):
        bot = Client(gate, box.key)
        sent = stored(bot.send(subject="pool", attachments=[
            {"filename": "a", "content": "YQ=="}], duplicate=True))
        mail = bot.get("/v1/messages/" + sent["message_id"])[2]
        draft = bot.call("POST", "/v1/drafts", {"subject": "pool"})[2]
        run = bot.call("POST", "/v1/sessions", {"policy": {}})[2]
        for name, value in (
                ("message_id", sent["message_id"]),
                ("thread_id", sent["thread_id"]),
                ("attachment_id", mail["attachments"][0]["attachment_id"]),
                ("draft_id", draft["draft_id"]),
                ("session_id", run["session_id"]),
                ("key_id", run["session_id"]),
                ("inbox_id", box.address)):
            pool.setdefault(name, []).append(value)
    pool["inbox_id"] += ["me"] * 6
    return pool


class Maker:
    HOSTILE = ["", "\0", "\r\nBcc: x@y.example", "a" * 5000, "\ud7ff\u202e",
               "' OR 1=1 --", "%00", "../../etc/passwd", "{}", "null",
               "\U0001f600" * 40, "a@b@c", "<script>", "9" * 40, " ", "\t"]

    def __init__(self, r, pool):
        self.r, self.pool = r, pool

    def hostile(self):
        r = self.r
        return r.choice([None, True, -1, 1e300, 2**63, [], {}, [[]] * 3,
                         {"a": {"b": []}}, r.choice(self.HOSTILE),
                         r.choice(self.HOSTILE)])

    def text(self, schema, name):
        r = self.r
        if name in self.pool and r.random() < 0.8:
            return r.choice(self.pool[name])
        if schema.get("format") == "date-time":
            return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(
                time.time() + r.randint(-10**5, 10**6)))
        if schema.get("contentEncoding") == "base64":
            return r.choice(["", "YQ==", "AAEC", "!", "YQ"])
        if name in ("in_reply_to", "forward_of", "revises"):
            return r.choice(self.pool["message_id"] + ["<a@b.example>"])
        if name in ("to", "cc", "bcc", "reply_to", "recipients"):
            return r.choice(["ada@example.org", "Ada <ada@example.org>",
                             "\u00fc@example.org", "nobody"])
        return r.choice(["x", "Hello \u2713", "a b", *self.HOSTILE])

    def value(self, schema, name="", depth=0):
        r, schema = self.r, contract.resolve(schema)
        if r.random() < 0.06:
            return self.hostile()
        for some in ("oneOf", "anyOf"):
            if some in schema:
                return self.value(r.choice(schema[some]), name, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return r.choice(schema["enum"])
        kind = schema.get("type", "string")
        kind = r.choice(kind) if isinstance(kind, list) else kind
        if kind == "object":
            return self.object(schema, depth)
        if kind == "array":
            return [self.value(schema.get("items", {}), name, depth + 1)
                    for _ in range(r.choice([0, 1, 1, 2, 5]))]
        if kind == "integer":
            return r.randint(schema.get("minimum", -3),
                             min(schema.get("maximum", 200), 200))
        if kind == "boolean":
            return r.random() < 0.5
        return None if kind == "null" else self.text(schema, name)

    def object(self, schema, depth):
        r, out = self.r, {}
        for name, inner in schema.get("properties", {}).items():
            if name in schema.get("required", []) and r.random() < 0.95 \
                    or r.random() < 0.35:
                out[name] = self.value(inner, name, depth + 1)
        if "to" in schema.get("properties", {}) and r.random() < 0.7:
            out["to"] = ["ada@example.org"]
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict) or r.random() < 0.03:
            for i in range(r.randint(0, 2)):
                out["X-%d" % i] = self.value(
                    extra if isinstance(extra, dict) else {}, "", depth + 1)
        return out

    def request(self, method, path, op, item):
        """(target, body, headers)"""
        query, headers = {}, {}
        for p in item.get("parameters", []) + op.get("parameters", []):
            p = contract.resolve(p)
            if "schema" not in p:
                continue  # the envelope of message/rfc822
            v = self.value(p["schema"], p["name"])
            v = v if isinstance(v, str) else json.dumps(v)
            if p["in"] == "path":
                path = path.replace("{%s}" % p["name"],
                                    urllib.parse.quote(v, safe=""))
            elif p["in"] == "query" and self.r.random() < 0.5:
                query[p["name"]] = "0" if p["name"] == "timeout" else v
            elif p["in"] == "header" and self.r.random() < 0.5:
                headers[p["name"]] = "k%d" % self.r.randint(0, 99)
        if op["operationId"] == "wait":
            query["timeout"] = "0"
        if query:
            path += "?" + urllib.parse.urlencode(query)
        return path, headers

    def body(self, op):
        schema = op.get("requestBody", {}).get("content", {}).get(
            "application/json", {}).get("schema")
        return None if schema is None else self.value(schema)


def is_well(gate):
    log = [e for e in gate.programs["posternd"].events if e.get(
        "event") == "worker.exit" or e.get("level") == "error"]
    assert log == [], log
    assert Client(gate, gate.box.key).get("/v1/auth/me")[0] == 200


def test_the_document_is_valid():
    import subprocess
    agents.need_node()
    got = json.loads(subprocess.run(
        [agents.NODE, "validate.mjs",
         os.path.join(postern.TOP, "api", "openapi.json")],
        cwd=agents.HERE, stdout=subprocess.PIPE, check=True).stdout)
    assert got == {"valid": True, "version": "3.1", "errors": []}


def test_random_requests(gate):
    r = random.Random(SEED)
    pool = pool_of(gate)
    make = Maker(r, pool)
    # several lines, as a key of its own each
    lines = [Line(gate, k) for k in (gate.box.key, gate.box.key,
                                     gate.box.smtp_key, gate.other.key)]
    routes = [o for o in contract.operations()
              if o[2]["operationId"] not in SKIP]
    until = time.monotonic() + SECONDS
    seen, n = {}, 0
    while time.monotonic() < until:
        method, path, op, item = r.choice(routes)
        target, headers = make.request(method, path, op, item)
        body = make.body(op)
        status, _, doc = r.choice(lines).call(method, target, body, headers)
        # 501 says truthfully that no mail is received yet
        assert status < 500 or status == 501, (
            SEED, n, method, target, body, doc)
        seen.setdefault(op["operationId"], set()).add(status // 100)
        n += 1
    # it got beyond the doors: most operations both did and refused
    both = [o for o, s in seen.items() if {2, 4} <= s]
    assert n > 20 * SECONDS and len(both) > len(seen) / 2, (n, seen)
    print("%d requests" % n)
    is_well(gate)


def strings(schema, path=()):
    """(path, member list) of every string in a request schema; a path goes
    through properties, and None for an item of an array."""
    schema = contract.resolve(schema)
    for some in ("oneOf", "anyOf"):
        for inner in schema.get(some, []):
            yield from strings(inner, path)
    kind = schema.get("type", [])
    kinds = kind if isinstance(kind, list) else [kind]
    if "object" in kinds:
        for name, inner in schema.get("properties", {}).items():
            if name not in BODY_TEXT:
                yield from strings(inner, path + (name,))
        if isinstance(schema.get("additionalProperties"), dict):
            yield path + ("X-Name",)
    elif "array" in kinds:
        yield from strings(schema["items"], path + (None,))
    elif "string" in kinds or "enum" in schema:
        yield path


def with_value(path, value, base):
    """`base` with `value` at the end of `path`."""
    if not path:
        return value
    if path[0] is None:
        return [with_value(path[1:], value, {})]
    out = dict(base) if isinstance(base, dict) else {}
    inner = out.get(path[0], {})
    # what an attachment or a policy needs beside
    if path[0] == "attachments" or path[0] == "add_attachments":
        inner = {}
        item = with_value(path[2:], value, {"content": "YQ=="})
        out[path[0]] = [item]
        return out
    out[path[0]] = with_value(path[1:], value, inner)
    return out


BASES = {"messages_send": {"to": ["ada@example.org"], "text": "x"},
         "messages_reply": {"text": "x"},
         "messages_forward": {"to": ["ada@example.org"]},
         "sessions_create": {"policy": {}}}


def test_a_hostile_string_in_every_field(gate):
    """H3 of the SMTP paper on every string of every route: refused, and
    nothing is stored."""
    pool = pool_of(gate)
    line = Line(gate, gate.box.key)

    def counts():
        return gate.sql(
            "SELECT (SELECT count(*) FROM d.message) AS m, (SELECT count(*) "
            "FROM d.draft) AS d, (SELECT count(*) FROM d.credential) AS c, "
            "(SELECT count(*) FROM d.message_label) AS l, (SELECT max("
            "version) FROM d.draft) AS v")
    before = counts()
    tried, taken = 0, []
    for path, item in contract.DOC["paths"].items():
        for method in contract.METHODS:
            op = item.get(method, {})
            schema = op.get("requestBody", {}).get("content", {}).get(
                "application/json", {}).get("schema")
            if schema is None or op["operationId"] in ("claim", "mcp"):
                continue
            target = path.replace("{inbox_id}", "me")
            for name in pool:
                target = target.replace("{%s}" % name, pool[name][0])
            for field in sorted(set(strings(schema)), key=str):
                for value in INJECTIONS:
                    body = with_value(field, value, BASES.get(
                        op["operationId"], {}))
                    status, _, doc = line.call(method.upper(), target, body)
                    tried += 1
                    if not 400 <= status < 500:
                        taken.append((op["operationId"], field, value,
                                      status, doc))
    assert taken == [], taken[:5]
    assert counts() == before and tried > 500, tried
    # names of headers too, and in the query and the path
    for value in INJECTIONS:
        quoted = urllib.parse.quote(value, safe="")
        for method, path, op, item in contract.operations():
            for p in item.get("parameters", []) + op.get("parameters", []):
                p = contract.resolve(p)
                if op["operationId"] in SKIP or p["in"] != "query" \
                        or p["name"] == "labels" or method != "GET" \
                        or "{message_id}" in path or "{thread_id}" in path:
                    continue
                target = path.replace("{inbox_id}", "me") + "?%s=%s" % (
                    p["name"], quoted)
                assert line.call(method, target)[0] in (400, 404, 422), target
    assert counts() == before
    is_well(gate)


def test_what_no_other_test_brings_about(gate):
    """For the recorder (tests/lib/contract.py)."""
    bot, pool = Client(gate, gate.box.key), pool_of(gate)
    draft = "/v1/drafts/" + pool["draft_id"][0]
    assert bot.call("PATCH", draft, {"subject": "changed"})[0] == 200
    assert bot.get("/v0/inboxes/me/messages/%s/attachments/%s" % (
        pool["message_id"][0], pool["attachment_id"][0]))[0] == 200
    assert Client(gate).get("/v1/inboxes")[0] == 401
    for path in ("/openapi.json", "/v1/guide",
                 "/.well-known/postern-identity.json"):
        assert bot.get(path + "?x=%zz")[0] == 400, path


def test_nothing_was_leaked(gate):
    """Last: the sanitized program says so when it ends."""
    p = gate.programs["posternd"]
    assert p.stop() == 0
    assert [x for x in p.lines if x and "Sanitizer" in x] == []
