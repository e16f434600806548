# SPDX-License-Identifier: ISC
"""
An operator at the real pages, without a browser: signs in with a password,
reads a message's page, and sends the forms that page holds. Approvals made
here carry the key box and the tag of the real postern-admin.
"""
import http.client
import re
import ssl
import urllib.parse

from . import seals


def public_id(mid):
    return "msg_" + seals.base32(bytes.fromhex(str(mid).replace("-", "")))


class Pages:
    """One signed-in operator of a deployment whose postern-admin runs."""

    def __init__(self, deployment, name=None, password=None,
                 source="127.0.0.1"):
        self.d = deployment
        self.source = source
        self.context = ssl.create_default_context(cafile=deployment.ca_file)
        self.cookie = ""
        status, headers, _ = self.call("POST", "/login", {
            "name": name or deployment.operator,
            "password": password or deployment.operator_password})
        assert status == 303, status
        self.cookie = headers["Set-Cookie"].split(";")[0]

    def call(self, method, path, form=None):
        """Status, headers and text; a redirect is not followed."""
        c = http.client.HTTPSConnection(
            "localhost", self.d.admin_port, timeout=20, context=self.context,
            source_address=(self.source, 0))
        try:
            headers = {"Sec-Fetch-Site": "same-origin"}
            if self.cookie:
                headers["Cookie"] = self.cookie
            body = None
            if form is not None:
                body = urllib.parse.urlencode(form)
                headers["Content-Type"] = "application/x-www-form-urlencoded"
            c.request(method, path, body, headers)
            r = c.getresponse()
            return r.status, r.headers, r.read().decode()
        finally:
            c.close()

    def form(self, mid, action):
        """The hidden fields of that form on the message's page, or None."""
        status, _, page = self.call("GET", "/m/" + public_id(mid))
        assert status == 200, (status, page)
        m = re.search(r'<form method="post"[^>]* action="/m/[^"]+/%s".*?</form>'
                      % action, page, re.S)
        if m is None:
            return None
        return dict(re.findall(
            r'<input type="hidden" name="([^"]+)" value="([^"]*)">', m[0]))

    def press(self, mid, action, form, **more):
        return self.call("POST", "/m/%s/%s" % (public_id(mid), action),
                         {**form, **more})

    def approve(self, mid):
        """What was answered: 303 when it is approved."""
        form = self.form(mid, "decide")
        assert form is not None, "the page of %s offers no decision" % mid
        return self.press(mid, "decide", form, verdict="a")[0]

    def undo(self, mid, form):
        """True when undone; False when it was too late."""
        status, headers, page = self.press(mid, "undo", form)
        assert status == 303, (status, page)
        return "undone" in headers["Location"]
