# SPDX-License-Identifier: ISC
"""
One who uses the HTTP interface, with every operation an agent has, many
requests behind each other, in every way a request may come or break off.
"""
import base64
import collections
import json
import os
import re
import time
import urllib.parse

from . import contract, letters
from .wire import Gone, Wire

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
FIELDS = {"name", "code", "message", "fix", "field", "request_id", "retry"}


def documented():
    """{code: HTTP status} as base/errors.def has it."""
    with open(os.path.join(TOP, "base", "errors.def"),
              encoding="utf-8") as f:
        return {code: int(status) for code, status in re.findall(
            r'ERR\(\w+, "(\w+)", (\d+),', f.read())}


ERRORS = documented()
SURE = (200, 201, 202, 204)


class Request:
    """`want`: statuses and codes that may come where nothing is amiss."""

    def __init__(self, method, path, want, body=None, mail=None, key=None,
                 **headers):
        self.method, self.path, self.want = method, path, set(want)
        self.mail, self.key = mail, key
        self.headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            self.headers.setdefault("Content-Type", "application/json")
        self.body, self.then, self.extends = body, None, None

    def __repr__(self):
        return "%s %s" % (self.method, self.path)


class Caller:
    def __init__(self, town, number, rng):
        self.town, self.number, self.rng = town, number, rng
        self.n = 0
        self.did = collections.Counter()
        self.known = {}  # box -> ids of its messages, drafts, sessions, keys
        self.acts = [a for n, a in (
            (10, self.send), (6, self.send_raw), (4, self.repeat),
            (2, self.conflict), (4, self.cancel), (4, self.lists),
            (6, self.reads), (5, self.drafts), (2, self.derive),
            (3, self.sessions), (2, self.keys), (3, self.blocks),
            (2, self.wait), (4, self.wrong), (1, self.big), (1, self.mcp),
            (1, self.label)) for _ in range(n)]

    def token(self):
        self.n += 1
        return "h%d-%d-%d" % (self.town.seed, self.number, self.n)

    # -- a connection -----------------------------------------------------

    def session(self):
        rng = self.rng
        self.began = time.monotonic()
        self.log, self.out, self.over = [], collections.deque(), False
        self.box = rng.choice(self.town.boxes)
        self.ids = self.known.setdefault(self.box.inbox_id, {})
        self.did["connections"] += 1
        try:
            self.wire = Wire(self.town.d.api_port, rng)
        except Gone:
            assert self.town.killed_since(self.began) or \
                self.town.draining(), "no connection"
            return
        try:
            self.wire.start_tls(self.town.d.ca_file)
            if rng.random() < .06:
                self.stream()
                return
            for _ in range(rng.randint(1, 10)):
                if not self.over:
                    self.group()
        except Gone as e:
            for r in self.out:
                if r.mail is not None:
                    r.mail.is_open()
            # A body that is read piece by piece ends where the database did.
            cut = str(e) == "in a body" and self.town.ill(self.began) and \
                self.log[-1] == "S: HTTP/1.1 200 Ok"
            assert cut or self.town.killed_since(self.began) or \
                self.town.draining(), ("it ended", str(e), self.log[-12:])
        finally:
            self.wire.close()

    def group(self):
        rng = self.rng
        n = rng.choice((1, 1, 1, 2, 5))
        requests = [rng.choice(self.acts)() for _ in range(n)]
        requests = [r for r in requests if r is not None]
        if not requests:
            return
        at = rng.random()
        if at < .05:
            self.broken_off(requests[0])
        elif at < .12 and requests[0].body:
            self.hundred(requests[0])
        else:
            since = time.monotonic()
            self.out.extend(requests)
            for r in requests:
                self.log.append("C: %r" % r)
            data = b"".join(self.bytes(r) for r in requests)
            try:
                self.wire.write(data)
            except Gone:
                pass  # there may be answers
            for r in requests:
                if self.over:
                    break
                self.hear(r, since)
            for r in self.out:  # closed before them: what became of them?
                if r.mail is not None:
                    r.mail.is_open()
            self.out.clear()

    def head(self, r, **more):
        key = r.key if r.key is not None else self.box.key
        fields = {"Host": "127.0.0.1", **r.headers, **more}
        if key:
            fields["Authorization"] = "Bearer " + key
        return ("%s %s HTTP/1.1\r\n" % (r.method, r.path) + "".join(
            "%s: %s\r\n" % f for f in fields.items()) + "\r\n").encode()

    def bytes(self, r):
        if r.mail is not None:
            r.mail.tries += 1
        if r.body is None:
            return self.head(r)
        if self.rng.random() < .7:
            return self.head(r, Content_Length=0).replace(
                b"Content_Length: 0", b"Content-Length: %d" % len(
                    r.body)) + r.body
        out, at = self.head(r, TE=1).replace(
            b"TE: 1", b"Transfer-Encoding: chunked"), 0
        for end in self.wire.cuts(len(r.body)) if r.body else []:
            out += b"%x\r\n" % (end - at) + r.body[at:end] + b"\r\n"
            at = end
        return out + b"0\r\n\r\n"

    def broken_off(self, r):
        """Hung up anywhere, or with not a word heard."""
        data = self.bytes(r)
        at = self.rng.choice((self.rng.randrange(len(data)), len(data)))
        self.wire.write(data[:at])
        self.over = True
        self.did["broken off"] += 1
        if at == len(data) and r.mail is not None:
            r.mail.is_open()
        elif self.rng.random() < .3:
            self.wire.half_close()
            self.wire.rest()

    def hundred(self, r):
        since = time.monotonic()
        self.log.append("C: %r, may it?" % r)
        self.wire.write(self.head(r, Expect="100-continue").replace(
            b"Expect:", b"Content-Length: %d\r\nExpect:" % len(r.body)))
        status, headers, body = self.answer(r)
        if status == 100:
            self.out.append(r)
            if r.mail is not None:
                r.mail.tries += 1
            self.wire.write(r.body)
            status, headers, body = self.answer(r)
            self.out.clear()
        else:
            self.over = True  # whether the body is awaited is open
        self.judge(r, since, status, headers, body)

    def stream(self):
        """Events as they come; hung up when it has begun."""
        r = Request("GET", "/v1/events", {200})
        self.wire.write(self.head(r))
        line = self.wire.line()
        assert line.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503",
                                b"HTTP/1.1 401")), line
        for _ in range(self.rng.randint(0, 5)):
            self.wire.line()
        self.did["streams"] += 1

    # -- answers ----------------------------------------------------------

    def answer(self, r):
        line = self.wire.line().decode("ascii")
        self.log.append("S: " + line)
        assert re.fullmatch(r"HTTP/1\.1 \d{3} [ -~]*", line), (r, line)
        status = int(line.split()[1])
        headers = {}
        while True:
            field = self.wire.line().decode("latin-1")
            if not field:
                break
            name, _, value = field.partition(":")
            assert name.lower() not in headers or \
                name.lower() in ("ratelimit-limit",), (r, name)
            headers[name.lower()] = value.strip()
        if status == 100 or status == 204 or r.method == "HEAD":
            return status, headers, b""
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while True:
                n = int(self.wire.line(), 16)
                body += self.wire.exactly(n)
                assert self.wire.exactly(2) == b"\r\n"
                if n == 0:
                    break
        else:
            body = self.wire.exactly(int(headers["content-length"]))
        return status, headers, body

    def hear(self, r, since):
        status, headers, body = self.answer(r)
        assert self.out.popleft() is r
        self.judge(r, since, status, headers, body)

    def judge(self, r, since, status, headers, body):
        about = (r, status, body[:300], self.log[-8:])
        if headers.get("connection", "").lower() == "close":
            self.over = True
        doc = None
        if headers.get("content-type") == "application/json":
            doc = json.loads(body)
        if body or status not in (200, 204):
            contract.check(r.method, r.path, status, headers,
                           body if doc is None else doc)
        self.did[r.method, re.sub(r"(msg|thr|drf|ses|key)_\w+|\d+", "*",
                                  r.path.split("?")[0]), status] += 1
        what = status
        if status >= 400:
            assert doc is not None and FIELDS <= set(doc), about
            what = doc["code"]
            assert ERRORS.get(what) == status, about
            assert doc["request_id"] == headers["x-request-id"], about
            assert status not in (429, 503) or "retry-after" in headers, about
        self.allowed(r, what, since, about)
        if r.mail is not None:
            self.outcome(r, status, doc, about)
        if r.then is not None and status in SURE:
            r.then(doc if doc is not None else body)

    def allowed(self, r, what, since, about):
        town, box = self.town, self.box
        if what in r.want:
            if what == 202 and r.mail is not None:
                assert not town.must_fail(r.mail.key, r.mail, since), about
            return
        told = r.mail is not None and r.mail.was_told(since)
        if told and not town.ill(since):
            assert what in ("store_unavailable", "unknown_api_key"), \
                ("told before", what) + about
        ok = {"store_unavailable": town.ill(since),
              "limiter_unavailable": town.ill(since) or town.thirsty(since),
              "rate_limited": r.method in ("POST", "PATCH") and (
                  box.tight or town.ill(since) or town.thirsty(since)),
              "held_limit": r.method in ("POST", "PATCH") and box.tight,
              "state_conflict": r.extends is not None and town.perhaps(
                  ("dead", r.extends.id), since),  # one that has ended
              "missing_permission":
                  town.perhaps(("suspended", box.inbox_id), since),
              "unknown_api_key":
                  r.mail is not None and r.mail.key is not None and
                  town.perhaps(("dead", r.mail.key.id), since),
              "inbox_read_only":
                  town.perhaps(("read_only", box.inbox_id), since),
              "message_rejected": r.mail is not None and any(
                  town.perhaps(("blocked", box.inbox_id, rcpt), since)
                  for rcpt in r.mail.rcpts),
              "session_policy": r.mail is not None and
              r.mail.key is not None and r.mail.key.session}
        assert ok.get(what), (what,) + about

    def outcome(self, r, status, doc, about):
        if status == 202:
            assert doc["status"] in (
                "held", "approved", "canceled", "rejected", "sent"), about
            r.mail.is_stored(doc["message_id"], doc["digest"])
            self.keep("message", doc["message_id"])
        elif doc.get("retry") == "same_key":
            r.mail.is_open()
        else:
            r.mail.is_refused(doc["code"])

    def keep(self, kind, name):
        some = self.ids.setdefault(kind, [])
        some.append(name)
        del some[:-30]

    def some(self, kind):
        some = self.ids.get(kind)
        return self.rng.choice(some) if some else None

    # -- operations -------------------------------------------------------

    def make(self, **more):
        rng, token = self.rng, self.token()
        mail = letters.good(rng, self.box, token, True)
        mail.rcpts = [x for x in mail.rcpts if x[0] != '"'] or [
            "ann@d1.example"]
        mail.key = self.town.send_key(self.box, rng)
        if mail.key is not None:
            more["key"] = mail.key.text
        self.town.know(mail)
        if rng.random() < .7:
            more["Idempotency_Key"] = token
        return mail, more

    def json_of(self, mail):
        mail.data = None
        mail.text = "".join(self.rng.choice("abc .\n\u00fc") for _ in range(
            self.rng.choice((1, 30, 3000))))
        return {"to": mail.rcpts, "subject": mail.subject, "text": mail.text}

    def send(self):
        mail, more = self.make()
        doc = self.json_of(mail)
        if self.rng.random() < .1 and not (mail.key and mail.key.session):
            doc["attachments"] = [{"filename": "a.bin", "content":
                                   base64.b64encode(os.urandom(
                                       3000)).decode()}]
        r = Request("POST", "/v1/messages/send", {202}, doc, mail, **more)
        mail.http = r
        return r

    def send_raw(self):
        mail, more = self.make()
        mail.plain = False  # of SMTP
        more["Content_Type"] = "message/rfc822"
        more["X_Postern_Envelope"] = json.dumps({"to": mail.rcpts})
        r = Request("POST", "/v1/messages/send", {202}, mail.data, mail,
                    **more)
        mail.http = r
        return r

    def big(self):
        r = self.send_raw()
        r.mail.data += b"".join([b"0123456789abcdef" * 60 + b"\r\n"] *
                                self.rng.choice((200, 1500, 2500)))
        r.body = r.mail.data
        return r

    def again(self):
        """One of before, whose every try was alike."""
        mails = [m for m in self.town.mails(self.box) if m.http is not None
                 and "Idempotency-Key" in m.http.headers]
        return self.rng.choice(mails) if mails else None

    def repeat(self):
        mail = self.again()
        if mail is None:
            return None
        r = Request(mail.http.method, mail.http.path, {202}, mail.http.body,
                    mail, mail.http.key)
        r.headers = mail.http.headers
        return r

    def conflict(self):
        """Its key with something else never makes anything."""
        mail = self.again()
        if mail is None or not mail.stored:
            return None
        other = letters.Mail(self.token(), self.box, ["ann@d1.example"], None)
        other.key, other.text = mail.key, "x"
        self.town.know(other)
        return Request("POST", mail.http.path, {"idempotency_conflict"}, {
            "to": other.rcpts, "subject": other.subject, "text": "x"}, other,
            mail.http.key,
            Idempotency_Key=mail.http.headers["Idempotency-Key"])

    def cancel(self):
        mid = self.some("message")
        return mid and Request("POST", "/v1/messages/%s/cancel" % mid,
                               {200, "state_conflict"}, {})

    def lists(self):
        rng = self.rng
        path = "/v1/" + rng.choice(("messages", "messages?status=held",
                                    "threads", "drafts", "inboxes"))
        path += ("&" if "?" in path else "?") + "limit=%d" % rng.randint(1, 9)
        token = self.ids.get("token " + path.split("?")[0])
        r = Request("GET", path, {200})
        if token and rng.random() < .5:
            path = token[0]
            r = Request("GET", path, {200})

        def then(doc):
            assert doc["count"] <= doc["limit"], doc
            if doc.get("next_page_token"):
                bare = re.sub("&page_token=.*", "", path)
                self.ids["token " + path.split("?")[0]] = [
                    bare + "&page_token=" + urllib.parse.quote(
                        doc["next_page_token"])]
        r.then = then
        return r

    def reads(self):
        mid = self.some("message")
        if mid is None:
            return Request("GET", self.rng.choice((
                "/v1/auth/me", "/v1/usage", "/v1/guide", "/v1/grants",
                "/openapi.json")), {200})
        what = self.rng.choice(("", "/raw", "/events", "/reports",
                                "/captures"))
        r = Request("GET", "/v1/messages/%s%s" % (mid, what), {200})
        if what == "":
            def then(doc):  # the answers are in order
                assert doc["message_id"] == mid, (doc["message_id"], mid)
            r.then = then
        return r

    def label(self):
        mid = self.some("message")
        return mid and Request("PATCH", "/v1/messages/" + mid, {200}, {
            "add_labels": ["l%d" % self.rng.randint(1, 3)]})

    def drafts(self):
        rng, did = self.rng, self.some("draft")
        what = rng.choice(("new", "get", "patch", "send", "delete"))
        if what == "new" or did is None:
            r = Request("POST", "/v1/drafts", {201}, {
                "to": ["ann@d1.example"], "subject": "draft", "text": "x"})
            r.then = lambda doc: self.keep("draft", doc["draft_id"])
            return r
        path = "/v1/drafts/" + did
        if what == "get":
            return Request("GET", path, {200, "not_found"})
        if what == "patch":
            return Request("PATCH", path, {200, "not_found",
                                           "state_conflict"}, {"text": "y"})
        if what == "delete":
            return Request("DELETE", path, {200, 204, "not_found",
                                            "state_conflict"})
        mail, _ = self.make()
        # Its subject is the draft's: it is known by the draft alone.
        self.town.forget(mail)
        return Request("POST", path + "/send", {
            202, "not_found", "state_conflict", "rate_limited", "held_limit",
            "message_rejected"}, {})

    def derive(self):
        mid = self.some("message")
        if mid is None:
            return None
        what = self.rng.choice(("reply", "forward"))
        return Request("POST", "/v1/messages/%s/%s" % (mid, what), {
            202, "rate_limited", "held_limit", "message_rejected",
            "validation_error", "state_conflict", "payload_too_large"}, {
                "to": ["ann@d1.example"], "text": self.token()})

    def sessions(self):
        name = self.some("session")
        if name is None or self.rng.random() < .5:
            r = Request("POST", "/v1/sessions", {201}, {"policy": {
                "domains": letters.DOMAINS[:3], "max_messages": 20,
                "doors": ["smtp", "rest"]}, "expires_in": 3600})
            box = self.box

            def then(doc):
                self.keep("session", doc["session_id"])
                self.town.new_key(box, doc["key"], doc["session_id"])
            r.then = then
            return r
        what = self.rng.choice(("", "/extend", "/end"))
        path = "/v1/sessions/%s%s" % (name, what)
        if what == "":
            return Request("GET", path, {200})
        key = self.town.key_named(name)
        if what == "/extend":
            r = Request("POST", path, {200}, {"expires_in": 600})
            r.extends = key
            return r
        r = Request("POST", path, {200}, {
            "held": self.rng.choice(("keep", "cancel"))})
        if key is not None:
            window = self.town.begin(("dead", key.id))
            r.then = lambda doc: window.done()
        return r

    def keys(self):
        r = Request("POST", "/v1/inboxes/me/api-keys", {201},
                    {"scope": "send"})
        box = self.box

        def then(doc):
            self.town.new_key(box, doc.get("key") or doc.get("api_key"))
        r.then = then
        return r

    def blocks(self):
        rng = self.rng
        entry = "no%d@d1.example" % rng.randint(1, 3)
        path = "/v1/inboxes/me/lists/send/block"
        if rng.random() < .5:
            return Request("POST", path, {200, 201}, {"entry": entry})
        return Request("GET", path, {200})

    def wait(self):
        return Request("GET", "/v1/wait?timeout=%d" % self.rng.choice((
            0, 0, 1)), {200})

    def mcp(self):
        return Request("POST", "/mcp", {200}, {
            "jsonrpc": "2.0", "id": 1, "method": "tools/list"},
            Accept="application/json, text/event-stream")

    def wrong(self):
        rng = self.rng
        other = rng.choice([b for b in self.town.boxes if b is not self.box])
        theirs = self.known.get(other.inbox_id, {}).get("message")
        some = [
            Request("POST", "/v1/messages/send", {"malformed_json"}, b"{",
                    Content_Type="application/json"),
            Request("POST", "/v1/messages/send", {"validation_error"},
                    {"to": ["ann@d1.example"], "subject": 1}),
            Request("POST", "/v1/messages/send", {"invalid_address"},
                    {"to": ["nobody"], "text": "x"}),
            Request("POST", "/v1/messages/send", {"unsupported_media_type"},
                    b"x", Content_Type="text/plain"),
            Request("GET", "/v1/nothing", {"not_found"}),
            Request("DELETE", "/v1/auth/me", {"method_not_allowed"}),
            Request("GET", "/v1/auth/me", {"missing_authorization"}, key=""),
            Request("GET", "/v1/messages?page_token=x",
                    {"validation_error"}),
            Request("GET", "/v1/messages/msg_" + "0" * 26, {"not_found"})]
        if theirs and other.tenant_id != self.box.tenant_id:
            some += [Request("GET", "/v1/messages/" + rng.choice(theirs),
                             {"not_found"})] * 4
        return rng.choice(some)
