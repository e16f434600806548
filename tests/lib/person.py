# SPDX-License-Identifier: ISC
"""An operator who signs in and decides by the pages' own forms."""
import html.parser
import http.client
import re
import ssl
import urllib.parse

from . import leaks


class Forms(html.parser.HTMLParser):
    """Every form of a page: its action, and the fields a browser sends."""

    def __init__(self, text):
        super().__init__()
        self.forms = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        if tag == "form":
            self.forms.append({"action": a.get("action"), "fields": {}})
        elif tag == "input" and self.forms and a.get("name"):
            self.forms[-1]["fields"][a["name"]] = a.get("value") or ""

    def find(self, suffix, **fields):
        for f in self.forms:
            if (f["action"] or "").endswith(suffix) and all(
                    k in f["fields"] for k in fields):
                return f
        raise AssertionError("no form %s in %r" % (suffix, self.forms))


class Operator:
    def __init__(self, d, name=None, password=None, timeout=30):
        self.d = d
        self.name = name or d.operator
        self.password = password or d.operator_password
        self.context = ssl.create_default_context(cafile=d.ca_file)
        self.timeout = timeout
        self.connection = None
        self.cookies = []  # every session secret this operator was given
        self.sign_in()

    def ask(self, method, path, fields=None):
        """Status, headers and text; one connection as long as it lives."""
        headers = {"Sec-Fetch-Site": "same-origin",
                   "Origin": "https://localhost:%d" % self.d.admin_port}
        if self.cookies:
            headers["Cookie"] = "__Host-sid=" + self.cookies[-1]
        body = None
        if fields is not None:
            body = urllib.parse.urlencode(fields)
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            if self.connection is None:
                self.connection = http.client.HTTPSConnection(
                    "localhost", self.d.admin_port, timeout=self.timeout,
                    context=self.context)
            self.connection.request(method, path, body, headers)
            r = self.connection.getresponse()
            data = r.read()
        except (OSError, http.client.HTTPException):
            self.connection = None
            raise
        cookie = re.search(r"__Host-sid=([0-9a-z]{52})",
                           r.getheader("Set-Cookie") or "")
        if cookie:
            self.cookies.append(cookie[1])
            self.d.issued.update(leaks.forms("cookie", cookie[1]))
        return r.status, r, data.decode("utf-8", "replace")

    def sign_in(self):
        status, _, text = self.ask("POST", "/login", {
            "name": self.name, "password": self.password, "return_to": "/q"})
        if status != 303 or not self.cookies:
            raise AssertionError("sign-in: %d %s" % (status, text[:400]))

    def queue(self):
        """Ids of what the first page of the queue shows."""
        status, _, text = self.ask("GET", "/q")
        assert status == 200, (status, text[:400])
        return sorted(set(re.findall(r"/m/(msg_[0-9a-z]{26})", text)))

    def page(self, message):
        status, _, text = self.ask("GET", "/m/" + message)
        assert status == 200, (status, text[:400])
        return text

    def decide(self, message, verdict, **more):
        """The form of the message's own page; the status of the answer."""
        form = Forms(self.page(message)).find("/decide", digest="")
        fields = dict(form["fields"], verdict=verdict, **more)
        if "password" in fields:
            fields["password"] = self.password
        return self.ask("POST", form["action"], fields)[0]

    def approve(self, message):
        status = self.decide(message, "a")
        assert status == 303, status

    def reject(self, message, category="other", note=""):
        status = self.decide(message, "r", category=category, note=note)
        assert status == 303, status
