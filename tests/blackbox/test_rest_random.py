# SPDX-License-Identifier: ISC
"""Requests made from openapi.json: random ones, one hostile string in every
string field of every route, and every route with every kind of key. No 5xx,
no crash, no leak, nothing stored that was refused. Ten random ones of each
operation; with `make fuzz-rest` or POSTERN_FULL=1 for 10 minutes."""
import hashlib
import http.client
import json
import os
import random
import re
import smtplib
import ssl
import time
import urllib.parse

import pytest

from tests.blackbox.test_rest import INJECTIONS, Client, refusal, stored
from tests.lib import agents, contract, leaks, pages, postern, seals

FULL = os.environ.get("POSTERN_FULL") == "1"
ROUNDS = 10
BOTH = 20  # operations that did and refused in them; 29 with seed 1
SECONDS = int(os.environ.get("POSTERN_FUZZ_SECONDS", 600 if FULL else 0))
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
    pool["capture_id"] = ["1", "2"]
    pool["grant_id"] = [offer(gate, gate.box, gate.other, True),
                        offer(gate, gate.other, gate.box, True),
                        offer(gate, gate.other, gate.box, False)]
    pool["entry"] = ["ada@example.net", "example.net", "eve@example.org"]
    pool["direction"] = ["send"] * 6 + ["receive", "reply"]
    pool["list_type"] = ["block", "block", "allow"]
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
        if name in ("direction", "list_type"):
            return r.choice(self.pool[name])
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


def make_room(gate, pool, last_key):
    """An inbox may have 200 drafts, 200 sessions and 50 keys: without those
    that random requests left there, more can be made."""
    gate.sql("UPDATE d.credential SET revoked_at = now() WHERE key_id > %s "
             "AND revoked_at IS NULL", last_key)
    for box in (gate.box, gate.other):
        bot = Client(gate, box.key)
        for doc in bot.get("/v1/drafts?limit=100")[2]["drafts"]:
            if doc["draft_id"] not in pool["draft_id"]:
                bot.call("DELETE", "/v1/drafts/" + doc["draft_id"])


def test_random_requests(gate, people):
    r = random.Random(SEED)
    pool = pool_of(gate)
    last_key = gate.sql("SELECT max(key_id) AS n FROM d.credential")[0]["n"]
    make = Maker(r, pool)
    # several lines, as a key of its own each
    lines = [Line(gate, k) for k in (
        gate.box.key, gate.box.key, gate.box.key, gate.box.smtp_key,
        gate.other.key, people["session"], people["test full"],
        people["token"])]
    routes = {}  # each operation by all its paths
    for o in contract.operations():
        if o[2]["operationId"] not in SKIP:
            routes.setdefault(o[2]["operationId"], []).append(o)
    until = time.monotonic() + SECONDS
    seen, n = {name: set() for name in routes}, 0
    while n < ROUNDS * len(routes) or time.monotonic() < until:
        for name in r.sample(sorted(routes), len(routes)):
            method, path, op, item = r.choice(routes[name])
            target, headers = make.request(method, path, op, item)
            body = make.body(op)
            status, _, doc = r.choice(lines).call(
                method, target, body, headers)
            # 501 says truthfully that no mail is received yet
            assert status < 500 or status == 501, (
                SEED, n, method, target, body, doc)
            seen[name].add(status // 100)
            n += 1
            if n % 4000 == 0:
                make_room(gate, pool, last_key)
    make_room(gate, pool, last_key)
    # it got beyond the doors: many operations both did and refused
    both = [o for o, s in seen.items() if {2, 4} <= s]
    print("%d requests, %d of %d operations both did and refused" % (
        n, len(both), len(seen)))
    assert all(seen.values()) and len(both) >= BOTH, (n, seen)
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
         "sessions_create": {"policy": {}},
         "keys_create": {"scope": "send"},
         "inboxes_create": {"domain": "acme.example"},
         "lists_create": {"entry": "ada@example.net"}}


def test_a_hostile_string_in_every_field(gate, people):
    """H3 of the SMTP paper on every string of every route: refused, and
    nothing is stored."""
    pool = pool_of(gate)
    line = own = Line(gate, gate.box.key)
    token = Line(gate, people["token"])

    def counts():
        return gate.sql(
            "SELECT (SELECT count(*) FROM d.message) AS m, (SELECT count(*) "
            "FROM d.draft) AS d, (SELECT count(*) FROM d.credential) AS c, "
            "(SELECT count(*) FROM d.message_label) AS l, (SELECT max("
            "version) FROM d.draft) AS v, (SELECT count(*) FROM "
            "d.list_entry) AS e, (SELECT count(*) FROM d.inbox) AS i")
    before = counts()
    tried, taken = 0, []
    for path, item in contract.DOC["paths"].items():
        for method in contract.METHODS:
            op = item.get(method, {})
            schema = op.get("requestBody", {}).get("content", {}).get(
                "application/json", {}).get("schema")
            if schema is None or op["operationId"] in ("claim", "mcp",
                                                        "hook_e2b"):
                continue
            target = path.replace("{inbox_id}", "me")
            for name in pool:
                target = target.replace("{%s}" % name, pool[name][0])
            line = token if op["x-principal"] == "prov" else own
            for field in sorted(set(strings(schema)), key=str):
                for value in INJECTIONS:
                    body = with_value(field, value, BASES.get(
                        op["operationId"], {}))
                    status, _, doc = line.call(method.upper(), target, body)
                    tried += 1
                    if status != 422:
                        taken.append((op["operationId"], field, value,
                                      status, doc))
    # the envelope of raw MIME is one more document
    envelope = contract.DOC["components"]["schemas"]["Envelope"]
    raw = b"From: bot@acme.example\r\nSubject: x\r\n\r\nx\r\n"
    for field in sorted(set(strings(envelope)), key=str):
        for value in INJECTIONS:
            got = Client(gate, gate.box.key).send_raw(raw, **with_value(
                field, value, {"to": ["ada@example.org"]}))
            tried += 1
            if got[0] != 422:
                taken.append(("envelope", field, value, got))
    assert taken == [], taken[:5]
    assert counts() == before and tried > 500, tried
    line = own
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


# -- routes x permissions x doors ------------------------------------------------

WIDE = {"full", "test full"}
MAY = {"none": {"nobody", "garbage", "dead", "foreign", "send", "read", "full",
                "session", "test send", "test full", "token"},
       "key": {"send", "read", "full", "session", "test send", "test full"},
       "send": {"send", "full", "session", "test send", "test full"},
       "read": {"read", "full", "test full"}, "full": WIDE,
       "prov": {"token"}}
MAY["any"] = MAY["key"] | {"token"}
# How a route says no before anything of its own is looked at.
NO = ("this key's scope", "a provisioning token makes inboxes")


@pytest.fixture(scope="module")
def people(gate):
    """Who -> what it shows, one of each kind."""
    bot = Client(gate, gate.box.key)
    probe = gate.add_inbox("probe@acme.example", "acme", test=True)
    gate.probe = probe

    def more(scope):
        doc = bot.call("POST", "/v1/inboxes/me/api-keys", {"scope": scope})[2]
        gate.issued.update(leaks.of_token(scope, doc["key"]))
        return doc
    read, dead = more("read"), more("full")
    assert bot.call("DELETE", "/v1/inboxes/me/api-keys/"
                    + dead["key_id"])[0] == 200
    run = bot.call("POST", "/v1/sessions", {
        "policy": {"recipients": ["ada@example.org"], "max_messages": 1000,
                   "doors": ["smtp", "rest", "mcp"]},
        "expires_in": 3600})[2]
    gate.issued.update(leaks.of_token("session", run["key"]))
    secret = os.urandom(32)
    gate.step_up()
    row = gate.api("provisioner_create_1", gate.session, os.geteuid(),
                   gate.tenants["acme"], "robot",
                   hashlib.sha256(seals.auth_of(secret)).digest(), "clpd",
                   None, "default", 50, False, 1)
    token = seals.token(gate.tenants["acme"], row["key_id"], secret, "prov")
    gate.issued.update(leaks.of_token("token", token))
    return {"nobody": None, "garbage": "pst_live_1_1_" + "0" * 59,
            "dead": dead["key"], "send": gate.box.smtp_key,
            "read": read["key"], "full": gate.box.key, "session": run["key"],
            "test send": probe.smtp_key, "test full": probe.key,
            "token": token}


def nothing_there(path):
    """The route's path with ids of nothing, in the caller's own inbox."""
    for name, value in (
            ("inbox_id", "me"), ("message_id", "msg_" + "0" * 26),
            ("thread_id", "thr_" + "0" * 26), ("draft_id", "dft_" + "0" * 26),
            ("attachment_id", "att_" + "0" * 26), ("session_id", "999999"),
            ("key_id", "999999"), ("capture_id", "1"), ("grant_id", "999999"),
            ("direction", "send"), ("list_type", "block"),
            ("entry", "nobody@example.org"), ("token", "0" * 55)):
        path = path.replace("{%s}" % name, value)
    assert "{" not in path, path
    return path + ("?timeout=0" if path.endswith("/wait") else "")


def routes():
    return [(m, nothing_there(p), p, op) for m, p, op, _ in
            contract.operations() if op["operationId"] not in SKIP]


def test_who_may_call_which_route(gate, people):
    """Every route of the table with every kind of key: the door is open for
    those that its x-principal names, and for nobody else."""
    wrong, tried = [], 0
    lines = {who: Line(gate, key) for who, key in people.items()
             if who not in ("nobody", "garbage", "dead")}
    for method, target, path, op in routes():
        body = None if method in ("GET", "DELETE") else {}
        for who, key in people.items():
            if who in lines:
                status, _, doc = lines[who].call(method, target, body)
            elif path in contract.DOC["paths"]:
                # from an address of its own, else the answers come late
                status, _, doc = Client(gate, key).call(method, target, body)
            else:
                continue
            said = doc.get("message", "") if isinstance(doc, dict) else ""
            if op["x-principal"] == "none":
                got = "open"
            elif status == 401:
                got = "who"
            else:
                got = "no" if status == 403 and said.startswith(NO) \
                    else "open"
            want = "open" if who in MAY[op["x-principal"]] else \
                "who" if who in ("nobody", "garbage", "dead") else "no"
            tried += 1
            if got != want or status >= 500 and status != 501:
                wrong.append((who, method, path, want, status, said))
    assert wrong == [], wrong[:5]
    assert tried > 700, tried


def test_no_route_leads_into_another_inbox(gate, people):
    wrong = []
    line = Line(gate, people["full"])
    token = Line(gate, people["token"])
    for method, path, op, _ in contract.operations():
        if "{inbox_id}" not in path:
            continue
        target = nothing_there(path.replace("{inbox_id}",
                                            gate.other.address))
        body = None if method in ("GET", "DELETE") else {}
        who = token if op["x-principal"] == "prov" else line
        status, _, doc = who.call(method, target, body)
        if (status, doc.get("code")) != (404, "not_found"):
            wrong.append((method, path, status, doc))
    assert wrong == [], wrong[:5]


def test_who_may_come_in_by_smtp(gate, people):
    """Its password is a key of scope send and no other."""
    for who, key in people.items():
        if key is None:
            continue
        box = gate.probe if who.startswith("test") else gate.box
        source = "127.%d.%d.9" % (random.randint(10, 254),
                                  random.randint(0, 255))
        with smtplib.SMTP_SSL("localhost", gate.smtps_port, context=ssl.
                              create_default_context(cafile=gate.ca_file),
                              source_address=(source, 0)) as s:
            s.ehlo("matrix.example")
            try:
                code = s.login(box.address, key)[0]
            except smtplib.SMTPAuthenticationError as e:
                code = e.smtp_code
        assert code == (235 if who in ("send", "session", "test send")
                        else 535), (who, code)


def test_who_may_use_which_tool(gate, people):
    """A tool is its route: the same key, the same answer."""
    tools = {op["x-mcp"]["name"]: op for item in
             contract.DOC["paths"].values() for op in item.values()
             if isinstance(op, dict) and "x-mcp" in op}
    ids = {"message_id": "msg_" + "0" * 26, "thread_id": "thr_" + "0" * 26,
           "draft_id": "dft_" + "0" * 26, "attachment_id": "att_" + "0" * 26}
    for who in sorted(MAY["key"]):
        line = Line(gate, people[who])
        for name, op in tools.items():
            args = {k: v for k, v in ids.items()
                    if "{%s}" % k in next(p for p, i in contract.DOC[
                        "paths"].items() if op in i.values())}
            if name == "wait":
                args["timeout"] = 0
            status, _, doc = line.call("POST", "/mcp", {
                "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": name, "arguments": args}})
            assert status == 200, (who, name, doc)
            said = doc["result"].get("structuredContent", {}).get(
                "message", "")
            assert said.startswith(NO) == (
                who not in MAY[op["x-principal"]]), (who, name, doc)
    status, _, doc = Line(gate, people["token"]).call("POST", "/mcp", {
        "jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert (status, doc["code"]) == (403, "missing_permission")
    is_well(gate)


def test_no_tool_leads_into_another_inbox(gate, people):
    """Each with ids that are there, and another's."""
    mine, theirs = ({name: ids[i] for name, ids in pool_of(gate).items()}
                    for i in range(2))
    line, tried = Line(gate, gate.box.key), 0

    def call(tool, **args):
        return line.call("POST", "/mcp", {
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": tool, "arguments": args}})[2]["result"]
    for path, item in contract.DOC["paths"].items():
        for op in item.values():
            if not isinstance(op, dict) or "x-mcp" not in op:
                continue
            tool = op["x-mcp"]["name"]
            names = [n for n in re.findall(r"{(\w+)}", path)
                     if n != "inbox_id"]
            if tool == "wait":
                names = ["message_id"]
            more = {"wait": {"timeout": 0}, "reply": {"text": "x"},
                    "forward": {"to": ["ada@example.org"]},
                    "draft_update": {"text": "x"},
                    "label": {"add_labels": ["x"]}}.get(tool, {})
            for foreign in names:
                args = dict({n: (theirs if n == foreign else mine)[n]
                             for n in names}, **more)
                got = call(tool, **args)
                assert got.get("structuredContent", {}).get("code") == \
                    "not_found", (tool, foreign, got)
                assert "pool" not in json.dumps(got), got
                tried += 1
    assert tried >= 14, tried
    box = Client(gate, gate.other.key)
    assert box.get("/v1/messages/" + theirs["message_id"])[2]["labels"] == []
    assert box.get("/v1/messages/" + theirs["message_id"])[2][
        "status"] == "held"
    assert box.get("/v1/drafts/" + theirs["draft_id"])[2]["version"] == 1


def test_a_sandbox_gained_nothing(gate, people):
    """Of what came with lists, keys, captures, tokens: a session key gets
    none, and neither does a key that only sends."""
    for who in ("session", "send", "test send"):
        line = Line(gate, people[who])
        for method, target, body in (
                ("GET", "/v1/lists/send/block", None),
                ("GET", "/v1/lists/send/allow", None),
                ("POST", "/v1/lists/send/block", {"entry": "a@b.example"}),
                ("DELETE", "/v1/lists/send/block/a@b.example", None),
                ("POST", "/v1/inboxes/me/api-keys", {"scope": "send"}),
                ("GET", "/v1/messages/msg_%s/captures" % ("0" * 26), None),
                ("GET", "/v1/messages/msg_%s/captures/1" % ("0" * 26), None),
                ("POST", "/v1/inboxes", {"username": "more"}),
                ("POST", "/v1/inboxes/me/pause", None),
                ("POST", "/v1/inboxes/me/claim-code", None),
                ("GET", "/v1/grants", None),
                ("POST", "/v1/grants/1/accept", None),
                ("POST", "/v1/grants/1/end", None),
                ("GET", "/v1/grants/1/messages", None),
                ("GET", "/v1/grants/1/messages/msg_%s/raw" % ("0" * 26),
                 None),
                ("DELETE", "/v1/inboxes/me", None)):
            status, _, doc = line.call(method, target, body)
            assert (status, doc["code"]) == (403, "missing_permission"), (
                who, method, target, doc)


def test_a_token_makes_lists_pauses_and_deletes(gate, people):
    robot = Client(gate, people["token"])
    me = robot.get("/v1/auth/me")[2]
    assert (me["principal"], me["permissions"], me["tenant"]) == (
        "provisioning_token", ["create", "list", "pause", "delete"], "acme")
    address = "made-by-robot@acme.example"
    status, _, made = robot.call("POST", "/v1/inboxes", {
        "address": address, "display_name": "Robot", "client_id": "job 1"})
    assert (status, made["inbox_id"], made["test"]) == (201, address, False)
    status, _, again = robot.call("POST", "/v1/inboxes", {
        "address": address, "client_id": "job 1"})
    assert status == 200 and again["claim_code"] != made["claim_code"]
    nobody = Client(gate)
    assert nobody.call("POST", "/v1/claim",
                       {"code": made["claim_code"]})[0] == 410
    code = robot.call("POST", "/v1/inboxes/%s/claim-code" % address)[2][
        "claim_code"]
    status, _, keys = nobody.call("POST", "/v1/claim", {"code": code})
    assert status == 201 and not keys["test"]
    for name in ("key", "smtp_key"):
        gate.issued.update(leaks.of_token(name, keys[name]))
    owner = Client(gate, keys["key"])
    assert owner.get("/v1/auth/me")[2]["oversight_mode"] == "gated_send"
    status, _, doc = robot.call("POST",
                                "/v1/inboxes/%s/claim-code" % address)
    assert (status, doc["code"]) == (409, "state_conflict")
    for n in range(2):  # one with a name of its own
        status, _, doc = robot.call("POST", "/v1/inboxes", {
            "domain": "acme.example", "test": True})
        assert status == 201 and doc["test"]
    page = robot.get("/v1/inboxes?limit=2")[2]
    rest = robot.get("/v1/inboxes?limit=2&page_token="
                     + page["next_page_token"])[2]
    assert [(b["inbox_id"], b["claimed"], b["client_id"])
            for b in rest["inboxes"]] == [(address, True, "job 1")]
    assert [b["test"] for b in page["inboxes"]] == [True, True]
    assert [b["one_click"] for b in page["inboxes"] + rest["inboxes"]] == [
        False] * 3
    # what an inbox has inside is not the token's
    for path in ("/v1/inboxes/%s/messages" % address, "/v1/messages",
                 "/v1/inboxes/" + address, "/v1/wait?timeout=0"):
        assert robot.get(path)[0] == 403, path
    assert robot.call("POST", "/v1/inboxes/%s/pause" % address)[0] == 200
    assert owner.get("/v1/auth/me")[2]["paused"]
    # another's, or none: 404
    for other in (gate.box.address, "no@acme.example", "me"):
        assert robot.call("DELETE", "/v1/inboxes/" + other)[0] == 404
        assert robot.call("POST", "/v1/inboxes/%s/pause" % other)[0] == 404
    status, _, doc = robot.call("DELETE", "/v1/inboxes/" + address)
    assert (status, doc["deleted"]) == (200, True)
    assert owner.get("/v1/auth/me")[0] == 401
    for bad in ({"address": "no address"}, {"username": "a b"},
                {"address": "postmaster@acme.example"},
                {"domain": "acme.example", "username": "a\r\nb"},
                {"address": address, "domain": "acme.example"}, {},
                {"domain": "acme.example", "display_name": "a\nb"},
                {"domain": "acme.example", "display_name": "Ada <a@b.example>"},
                {"domain": "acme.example", "keys": 1}):
        assert robot.call("POST", "/v1/inboxes", bad)[0] == 422, bad
    status, _, doc = robot.call("POST", "/v1/inboxes",
                                {"address": "x@elsewhere.example"})
    assert (status, doc["code"]) == (403, "domain_not_verified")


def offer(gate, box, reader, messages, days=1):
    gate.step_up()
    return str(gate.api(
        "grant_offer_1", gate.session, os.geteuid(), box.tenant_id,
        box.inbox_id, reader.inbox_id, messages, days)["permit_id"])


def test_a_view_into_another_inbox(gate, people):
    target, reader = Client(gate, gate.box.key), Client(gate, gate.other.key)
    sent = stored(target.send(subject="seen by grant", duplicate=True))
    g = offer(gate, gate.box, gate.other, True)
    path = "/v1/grants/%s/messages" % g
    one = path + "/" + sent["message_id"]
    assert [reader.get(p)[0] for p in (path, one, one + "/raw")] == [404] * 3
    # only the inbox that is seen says yes, with a full key
    assert reader.call("POST", "/v1/grants/%s/accept" % g)[0] == 404
    for who in ("send", "read", "session"):
        assert Client(gate, people[who]).call(
            "POST", "/v1/grants/%s/accept" % g)[0] == 403
    status, _, doc = target.call("POST", "/v1/grants/%s/accept" % g)
    assert (status, doc["status"]) == (200, "active")
    assert target.call("POST", "/v1/grants/%s/accept" % g)[2]["code"] == \
        "state_conflict"
    page = reader.get(path + "?limit=1")[2]
    assert (page["messages"][0]["message_id"], page["messages"][0]["subject"],
            page["messages"][0]["digest"]) == (
        sent["message_id"], "seen by grant", sent["digest"])
    older = reader.get(path + "?limit=1&page_token="
                       + page["next_page_token"])[2]
    assert older["messages"][0]["message_id"] != sent["message_id"]
    assert reader.get(one)[2]["status"] == "held"
    status, head, raw = reader.get(one + "/raw")
    assert (status, head["x-postern-digest"]) == (200, sent["digest"])
    assert raw == target.get("/v1/messages/%s/raw" % sent["message_id"])[2]
    # no way from there to anything else of it
    for method, p in (("GET", "/v1/messages/" + sent["message_id"]),
                      ("POST", "/v1/messages/%s/cancel" % sent["message_id"]),
                      ("GET", "/v1/inboxes/%s/messages" % gate.box.address)):
        assert reader.call(method, p)[0] == 404, p
    for who in ("send", "session", "test full", "full"):
        got = Client(gate, people[who]).get(path)
        assert got[0] in (403, 404), (who, got)
    assert Client(gate, gate.other.smtp_key).get(path)[0] == 403
    looks = gate.sql(
        "SELECT count(*) + (SELECT sum(times) FROM d.permit_look WHERE "
        "permit_id = %s) AS n FROM d.audit WHERE event = 'grant.read' AND "
        "detail::json->>'grant' = %s AND actor = %s", g, g, "agent:%d.%d" % (
            gate.other.tenant_id, gate.other.full_key_id))[0]["n"]
    mine = [x for x in reader.get("/v1/grants")[2]["grants"]
            if x["grant_id"] == g][0]
    assert looks == mine["reads"] >= 4
    assert (mine["inbox_id"], mine["reader"], mine["what"], mine["given"],
            mine["status"]) == (gate.box.address, gate.other.address,
                                "messages", False, "active")
    # states alone
    s = offer(gate, gate.box, gate.other, False)
    assert target.call("POST", "/v1/grants/%s/accept" % s)[0] == 200
    state = reader.get("/v1/grants/%s/messages/%s" % (
        s, sent["message_id"]))[2]
    assert set(state) == {"message_id", "status", "created_at", "updated_at",
                          "untrusted"}
    assert refusal(reader.get("/v1/grants/%s/messages/%s/raw" % (
        s, sent["message_id"]))) == (403, "missing_permission")
    # and over
    assert target.call("POST", "/v1/grants/%s/end" % g)[0] == 200
    assert reader.call("POST", "/v1/grants/%s/end" % s)[0] == 200
    assert [reader.get(p)[0] for p in (path, one, one + "/raw")] == [404] * 3
    assert target.get("/v1/grants")[2]["grants"][0]["status"] == "ended"


def test_what_a_test_inbox_sent_is_read_by_its_key(gate, people):
    """(test_deliver_mx.py has the worker's side.) On the operators' pages it
    is plain that nothing leaves."""
    word, plain = "test: nothing leaves", Client(gate, gate.box.key)
    probe = Client(gate, people["test full"])
    sent = stored(probe.send(subject="captured"))
    real = stored(plain.send(subject="real", duplicate=True))
    path, where = "/v1/messages/" + sent["message_id"], "/m/" + sent[
        "message_id"]
    mid = gate.sql("SELECT message_id FROM d.message WHERE subject = "
                   "'captured'")[0]["message_id"]
    gate.start("postern-admin")
    operator = pages.Pages(gate)

    def page(at):
        status, _, text = operator.call("GET", at)
        assert status == 200, (at, status)
        return text
    asked = page(where)
    assert word in asked and "Approve: nothing leaves" in asked
    assert "store of captures" in asked and "Send to 1" not in asked
    other = page("/m/" + real["message_id"]).partition(
        '<nav class="around"')[0]
    assert word not in other and "Send to 1 recipient" in other
    for at, row in (("/q?box=%d.%d", sent["message_id"]),
                    ("/inboxes?q=probe", ">probe<"), ("/inbox/%d.%d", ">probe<")):
        box = gate.probe.tenant_id, gate.probe.inbox_id
        text = page(at % box if "%" in at else at)
        assert word in text and row in text, at
        box = gate.box.tenant_id, gate.box.inbox_id
        assert word not in page(at % box if "%" in at else
                                "/inboxes?q=" + gate.box.address), at
    assert operator.approve(mid) == 303
    worker = gate.start("postern-deliver")
    try:
        postern.wait_until("sent", lambda: probe.get(path)[2][
            "status"] == "sent")
    finally:
        worker.stop()
    done = page(where)
    assert word in done and "captured, not sent" in done
    assert "no TLS" not in done
    doc, = probe.get(path + "/captures")[2]["captures"]
    assert (doc["recipients"], doc["mail_from"]) == (
        ["ada@example.org"], gate.probe.address)
    raw = probe.get(path + "/captures/" + doc["capture_id"])[2]
    assert raw == doc["fields"].encode() + probe.get(path + "/raw")[2]
    for who, want in (("full", 404), ("token", 403), ("test send", 403)):
        assert Client(gate, people[who]).get(path + "/captures")[0] == want


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
