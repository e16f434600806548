# SPDX-License-Identifier: ISC
"""The ids, links and forms of a page, as a browser would send them."""
import html.parser


class Page(html.parser.HTMLParser):
    """The ids, links and forms of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.forms, self.loose = [], [], [], []
        self.open = self.select = None
        self.outside = []  # controls of a form by its id
        self.feed(text)
        for tag, a in self.outside:
            self.open = next((f for f in self.forms
                              if f["id"] == a["form"]), None)
            if self.open is None:
                self.loose.append(a)
            else:
                self.control(tag, a)

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        if a.get("id"):
            self.ids.append(a["id"])
        if tag == "a" and (a.get("href") or "").startswith("/"):
            self.links.append(a["href"])
        if tag == "form":
            self.open = {"action": a.get("action"), "id": a.get("id"),
                         "method": a.get("method", "get"), "fields": {},
                         "choices": {}}
            self.forms.append(self.open)
        elif tag in ("input", "button", "textarea", "select"):
            if a.get("form"):
                self.outside.append((tag, a))
            else:
                self.control(tag, a)
        elif tag == "option" and self.select is not None:
            self.select.append(a.get("value") or "")

    def control(self, tag, a):
        name, value = a.get("name"), a.get("value") or ""
        form = self.open
        if form is None or not name or "disabled" in a:
            return
        if tag == "select":
            self.select = form["choices"].setdefault(name, [])
        elif tag == "button" or a.get("type") in ("radio", "checkbox"):
            form["choices"].setdefault(name, []).append(value)
        else:
            form["fields"].setdefault(name, value)

    def handle_endtag(self, tag):
        if tag == "form":
            self.open = None
        elif tag == "select":
            self.select = None

    def posts(self):
        return [f for f in self.forms if f["method"] == "post"]
