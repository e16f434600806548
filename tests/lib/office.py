# SPDX-License-Identifier: ISC
"""
office.py - operators at random, at the same time, on the real pages

A Walker is one browser of one operator: it looks at pages, keeps their forms,
and sends them, also those of before. An Office is what they share: the mail,
what was answered, and which sessions were ended by whom.
"""
import collections
import copy
import http.client
import random
import re
import ssl
import threading
import time
import traceback
import urllib.parse

from .formpage import Page

PASSWORD = "a long enough pass phrase"
Act = collections.namedtuple("Act", "who name what mid version round status "
                                    "said started ended note")


class Office:
    def __init__(self, d, seed):
        self.d, self.seed = d, seed
        self.lock = threading.Lock()
        self.acts = []
        self.faults = []  # what is wrong whatever the others did
        self.mail = []  # public id, address of its inbox, uuid
        self.ended = {}  # of an operator: (from, to) of what ends sessions
        self.dead = []  # cookies that must be worth nothing
        self.samples = {}  # by what it is a page of: the latest body
        self.steps = 0
        self.stop = threading.Event()

    def fault(self, *what):
        with self.lock:
            self.faults.append(" ".join(str(w) for w in what)[:1500])

    def is_dead(self, cookie):
        with self.lock:
            return any(c == cookie for c, _ in self.dead)

    def some_mail(self, rng):
        with self.lock:
            if not self.mail:
                return None
            i = int(len(self.mail) * rng.random() ** .4)
            return self.mail[min(i, len(self.mail) - 1)]


class Walker:
    """roles: of this operator. words: what must never be on its pages."""

    def __init__(self, office, seed, name, reach, roles, words):
        self.office, self.name, self.words = office, name, words
        self.reach, self.roles = reach, roles
        self.d = office.d
        self.rng = random.Random(seed)
        self.context = ssl.create_default_context(cafile=self.d.ca_file)
        self.connection = None
        self.cookie = ""
        self.only = ""
        self.forms = []  # of before, the csrf of that session in them
        self.pages = {}
        self.did = collections.Counter()
        self.signed_in_at = 0
        self.password = PASSWORD
        self.twin = None

    # -- HTTP -----------------------------------------------------------------

    def ask(self, method, path, form=None, cookie=None):
        headers = {"Sec-Fetch-Site": "same-origin"}
        used = self.cookie if cookie is None else cookie
        crumbs = [c for c in (used and "__Host-sid=" + used, self.only) if c]
        if crumbs:
            headers["Cookie"] = "; ".join(crumbs)
        body = None
        if form is not None:
            body = urllib.parse.urlencode(form, doseq=True)
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        for again in (True, False):
            if self.connection is None:
                self.connection = http.client.HTTPSConnection(
                    "localhost", self.d.admin_port, timeout=60,
                    context=self.context)
            try:
                self.connection.request(method, path, body, headers)
                r = self.connection.getresponse()
                data = r.read()
                break
            except (http.client.RemoteDisconnected, BrokenPipeError,
                    ConnectionResetError):
                # An idle connection that the server ended; asked nothing.
                self.connection = None
                if not again or method == "POST":
                    raise
        if r.getheader("Connection") == "close":
            self.connection.close()
            self.connection = None
        for value in r.headers.get_all("Set-Cookie") or []:
            m = re.match(r"__Host-sid=([0-9a-z]{52})", value)
            if m and m[1] != self.cookie:
                if self.cookie and cookie is None:
                    with self.office.lock:
                        self.office.dead.append((self.cookie, "turned"))
                self.cookie = m[1]
            elif value.startswith("__Host-tenant="):
                self.only = value.split(";")[0] \
                    if "Max-Age=0" not in value else ""
        return r.status, r.headers, self.judge(method, path, form, r, data)

    def judge(self, method, path, form, r, data):
        """What holds of every answer whatever happens beside it."""
        what = (self.name, method, path, r.status)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            self.office.fault("not UTF-8", *what)
            return ""
        if r.status >= 500:
            self.office.fault("5xx", *what, form, text[-900:])
        said = path + urllib.parse.urlencode(form or {}, doseq=True)
        for word in self.words:
            if word in text and word not in said:
                at = text.index(word)
                self.office.fault("foreign", word, *what,
                                  text[max(0, at - 200):at + 200])
        if (r.getheader("Content-Type") or "").startswith("text/html"):
            route = re.sub(r"(msg|job)_[0-9a-z]+|\d+[.-]\d+", "*", path)
            key = (self.name, method, route.split("?")[0], r.status)
            with self.office.lock:
                self.office.samples[key] = text
        return text

    def look(self, path):
        """A page, read as a browser reads it; None when there is none."""
        status, headers, text = self.ask("GET", path)
        if status == 303 and headers["Location"].startswith("/login"):
            self.sent_out()
            return None
        if status != 200:
            self.did["GET", path.split("?")[0].split("/")[1], status] += 1
            return None
        page = Page(text)
        twice = [i for i, n in collections.Counter(page.ids).items() if n > 1]
        if twice:
            self.office.fault("ids twice", twice, self.name, path)
        if page.loose:
            self.office.fault("a control of no form", page.loose, self.name,
                              path)
        for f in page.posts():
            if "csrf" not in f["fields"]:
                self.office.fault("no token", f["action"], self.name, path)
        page.text = text
        self.forms += page.posts()
        del self.forms[:-60]
        return page

    # -- sessions -------------------------------------------------------------

    def sign_in(self):
        for again in range(5):  # the twin may change the password meanwhile
            started = time.time()
            status, _, text = self.ask("POST", "/login", {
                "name": self.name, "password": self.password}, cookie="")
            if status != 401:
                break
        if status != 303:
            self.office.fault("sign-in", self.name, status, text[-600:])
            self.office.stop.set()
            return
        self.signed_in_at = started

    def sent_out(self):
        """Signed out: somebody must have done it since we signed in."""
        with self.office.lock:
            ends = [e for e in self.office.ended.get(self.name, [])
                    if e[1] is None or e[1] >= self.signed_in_at]
        if not ends:
            self.office.fault("signed out by nobody", self.name)
        self.cookie = ""
        self.did["signed out"] += 1
        self.sign_in()

    def ending(self):
        with self.office.lock:
            e = [time.time(), None]
            self.office.ended.setdefault(self.name, []).append(e)
        return e

    # -- forms ----------------------------------------------------------------

    def press(self, form, what, **fields):
        """Send it; what was answered, kept for the judge."""
        data = {**form["fields"], **fields}
        data = {k: v for k, v in data.items() if v is not None}
        started = time.time()
        status, headers, text = self.ask("POST", form["action"], data)
        said = headers.get("Location") or ""
        m = re.match(r"/m/(msg_[0-9a-z]{26})/", form["action"])
        act = Act(self.name, what, data, m[1] if m else None,
                  int(data.get("version") or 0), int(data.get("round") or 0),
                  status, self.word(said), started, time.time(),
                  re.sub(r"<[^>]*>", " ", text)[-400:])
        with self.office.lock:
            self.office.acts.append(act)
        self.did[what, status, act.said] += 1
        if self.twin:
            return act
        if status == 401 and "Signed out" in text:
            self.sent_out()
        elif said.startswith("/login"):
            self.sent_out()
        return act

    @staticmethod
    def word(location):
        q = urllib.parse.parse_qs(urllib.parse.urlsplit(location).query)
        return (q.get("said") or ["error=" + e for e in q.get("error", [])]
                or [""])[0]

    def pick(self, page, suffix):
        found = [f for f in page.posts() if f["action"].endswith(suffix)]
        return self.rng.choice(found) if found else None

    def message(self):
        m = self.office.some_mail(self.rng)
        if m is None:
            return None
        page = self.look("/m/" + m[0])
        if page is None and m[1] in self.reach and all(
                self.look("/m/" + m[0]) is None for _ in range(3)):
            self.office.fault("no page", self.name, m)
        return page

    def note(self):
        return "note %d of %s ü <b>&amp;" % (self.rng.randrange(10**9),
                                             self.name)

    def decide(self, verdict, page=None):
        page = page or self.message()
        f = page and self.pick(page, "/decide")
        if not f:
            return
        more = {"verdict": verdict}
        if verdict == "r":
            more.update(category=self.rng.choice(("other", "policy")),
                        note=self.note())
        if "password" in f["fields"]:
            more["password"] = self.password
        self.last = f, more
        self.press(f, "decide", **more)

    def approve(self):
        self.decide("a")

    def reject(self):
        self.decide("r")

    def double(self):
        """The same press twice, or the other button after it."""
        self.last = None
        self.decide(self.rng.choice("ar"))
        if self.last:
            f, more = self.last
            if self.rng.random() < .5:
                more = {**more, "verdict": "r", "category": "other"}
            self.press(f, "decide", **more)

    def from_queue(self):
        page = self.look("/q")
        links = page and [x for x in page.links if x.startswith("/m/msg_")]
        if links:
            page = self.look(self.rng.choice(links))
            if page:
                self.decide(self.rng.choice("aar"), page)

    def undo(self):
        page = self.message()
        f = page and self.pick(page, "/undo")
        if f:
            self.press(f, "undo")

    def cancel(self):
        page = self.message()
        f = page and self.pick(page, "/cancel")
        if f:
            self.press(f, "cancel", note=self.note())

    def comment(self):
        page = self.message()
        f = page and self.pick(page, "/comment")
        if f:
            self.press(f, "comment", text=self.note())

    def has_it_open(self):
        page = self.message()
        f = page and self.pick(page, "/look")
        if f:
            self.press(f, "look")

    def both(self):
        """One form at the same time from two tabs, or pressed twice."""
        kind = self.rng.choice(("decide", "decide", "undo", "cancel", "pause",
                                "confirm"))
        if kind == "pause":
            page = self.look("/pause")
        elif kind == "confirm":
            page = self.look("/jobs")
            links = page and [x for x in page.links if "/jobs/job_" in x]
            page = links and self.look(self.rng.choice(links))
        else:
            page = self.message()
        f = page and self.pick(page, "/" + kind)
        if not f:
            return
        more = [{}, {}]
        for m in more:
            if kind == "decide":
                m.update(verdict=self.rng.choice("aar"), category="other")
            elif kind == "confirm":
                m.update(category="other")
            elif kind == "pause":
                m.update(reason=self.note())
                if f["fields"].get("to") == "resume":
                    m.update(password=self.password)
            elif kind == "cancel":
                m.update(note=self.note())
        what = f["fields"].get("to", kind) if kind == "pause" else kind
        other = copy.copy(self)
        other.connection, other.twin = None, self
        t = threading.Thread(target=other.press, args=(f, what),
                             kwargs=more[0])
        t.start()
        self.twin = other
        try:
            self.press(f, what, **more[1])
        finally:
            t.join()
            self.twin = None
        if other.cookie != self.cookie and self.office.is_dead(self.cookie):
            self.cookie = other.cookie

    def stale(self):
        """A form of before, as it is or bent."""
        if not self.forms:
            return
        f = self.rng.choice(self.forms)
        what = f["action"].split("?")[0].split("/")[-1]
        if what not in ("decide", "undo", "cancel", "look", "confirm", "stop",
                        "comment", "pause"):
            return
        more = {}
        if what == "decide":
            more = {"verdict": self.rng.choice("ar"), "category": "other"}
            bend = self.rng.choice(("", "", "round", "version", "digest",
                                    "csrf", "once"))
            old = f["fields"].get(bend)
            if bend in ("round", "version"):  # then it is another press
                more["once"] = "%064x" % self.rng.randrange(1 << 256)
                more[bend] = int(old) + self.rng.choice((-1, 1))
            elif old:
                more[bend] = old[:-1] + ("0" if old[-1] != "0" else "1")
        if what == "comment":
            more["text"] = self.note()
        if what == "cancel":
            more["note"] = self.note()
        if what == "pause":
            more["reason"] = self.note()
        if what == "confirm" and "category" in f["choices"]:
            more["category"] = "other"
        if what == "stop":
            more["to"] = self.rng.choice(("pause", "cancel"))
        self.press(f, what, **more)

    def trespass(self):
        """A form of our own, about what is another's."""
        m = self.office.some_mail(self.rng)
        own = [f for f in self.forms if f["action"].startswith("/m/")]
        if not m or not own or m[1] in self.reach:
            return
        f = dict(self.rng.choice(own))
        f["action"] = re.sub("msg_[0-9a-z]{26}", m[0], f["action"])
        act = self.press(f, "trespass", verdict="r", category="other",
                         text="x", note="trespass")
        if act.status not in (401, 403, 404, 422):
            self.office.fault("trespass", act)
        self.look("/m/" + m[0])

    # -- many at once ---------------------------------------------------------

    def job(self):
        page = self.look(self.rng.choice(("/q", "/q?sort=left", "/q?q=report")))
        f = page and self.pick(page, "/jobs")
        if not f:
            return
        ids = re.findall(r'name="id" value="(msg_[0-9a-z]{26})"', page.text)
        if not ids:
            return
        some = self.rng.sample(ids, self.rng.randint(1, min(5, len(ids))))
        fields = {**f["fields"], "id": some, "verdict": self.rng.choice("ar")}
        fields.pop("all", None)
        status, headers, _ = self.ask("POST", "/jobs", fields)
        self.did["job", status] += 1
        if status != 303 or not headers["Location"].startswith("/jobs/"):
            return
        page = self.look(headers["Location"].split("?")[0])
        f = page and self.pick(page, "/confirm")
        if not f:
            return
        more = {}
        if "category" in f["choices"]:
            more = {"category": "other", "note": self.note()}
        self.press(f, "confirm", **more)
        if self.rng.random() < .5:
            page = self.look(f["action"].rsplit("/", 1)[0])
            g = page and (self.pick(page, "/undo") or self.pick(page, "/stop"))
            if g:
                self.press(g, "job_" + g["action"].rsplit("/", 1)[1],
                           to="pause" if g["action"].endswith("stop")
                           else None)

    # -- inboxes --------------------------------------------------------------

    def pause(self):
        page = self.look("/pause")
        f = page and self.pick(page, "/pause")
        if not f or not f["fields"].get("tenant", "0").strip("0") and \
                self.rng.random() < .9:
            return
        to = f["fields"].get("to") or "pause"
        more = {"reason": self.note()}
        if to == "resume":
            more["password"] = self.password
        self.press(f, to, **more)

    def box(self):
        page = self.look("/inboxes")
        links = page and [x for x in page.links
                          if re.match(r"/inbox/\d+", x)]
        page = links and self.look(self.rng.choice(links).split("#")[0])
        if not page:
            return
        what = self.rng.choice(("mode", "block", "block-end", "allow",
                                "allow-end"))
        f = self.pick(page, "/" + what)
        if not f:
            return
        more = {"reason": self.note(), "password": self.password}
        if what == "mode":
            more["mode"] = self.rng.choice(f["choices"].get("mode") or ["1"])
        elif what in ("block", "allow"):
            more["entry"] = "@%s.example" % self.rng.choice("xyz")
        if what == "allow":
            more.update(uses=2, days=1)
        self.press(f, what, **more)

    # -- looking around -------------------------------------------------------

    def wander(self):
        page = self.look(self.rng.choice((
            "/q", "/history", "/inboxes", "/pause", "/health", "/account",
            "/jobs", "/audit", "/tenants", "/operators", "/inboxes/new",
            "/q?q=report", "/q?risk=low", "/q?sort=left",
            "/history?q=ann", "/history?show=rejected", "/audit?who=",
            "/q?q=%C3%BC%3Cb%3E", "/q?after=x", "/history?after=zzz")))
        for _ in range(2):
            links = page and [x for x in page.links
                              if not x.startswith("/assets")
                              and "/download" not in x]
            if not links:
                return
            page = self.look(self.rng.choice(links).split("#")[0])

    def counts(self):
        self.ask("GET", "/counts")

    def choose(self):
        page = self.look("/q")
        f = page and self.pick(page, "/only")
        if f:
            self.press(f, "only", tenant=self.rng.choice(
                f["choices"].get("tenant") or ["0"]))

    def elsewhere(self):
        """Another browser of the same person, which is then signed out."""
        old, only, since = self.cookie, self.only, self.signed_in_at
        self.sign_in()
        other, self.cookie, self.only = self.cookie, old, only
        self.signed_in_at = since
        page = self.look("/account")
        forms = page and [f for f in page.posts()
                          if f["action"].endswith("/session-end")]
        if not forms:
            return
        e = self.ending()
        # Of this browser: another one of the same person may end some, too.
        mine = [self.press(f, "session-end") for f in forms
                if "ref" in f["fields"]]
        e[1] = time.time()
        status, _, _ = self.ask("GET", "/counts", cookie=other)
        if len(mine) == len(forms) and status != 401 and all(
                a.status == 303 and a.said == "changed" for a in mine):
            self.office.fault("a session lives on", self.name, status, mine)

    def leave(self):
        page = self.look("/account")
        f = page and self.pick(page, "/logout")
        if f:
            e = self.ending()
            old = self.cookie
            act = self.press(f, "logout", everywhere=None)
            e[1] = time.time()
            if act.status == 303:
                with self.office.lock:
                    self.office.dead.append((old, "left"))
            self.cookie = ""
            self.sign_in()

    def change_password(self):
        page = self.look("/account")
        f = page and self.pick(page, "/password")
        if not f:
            return
        wrong = self.rng.random() < .3
        e = self.ending()
        old = self.cookie
        act = self.press(f, "password", old="wrong" if wrong else PASSWORD,
                         new=PASSWORD, again=PASSWORD)
        e[1] = time.time()
        if wrong and act.status == 303 and "error" not in act.said:
            self.office.fault("a wrong password was taken", act)

    def root_looks_back(self):
        """A session that has ended is nobody."""
        with self.office.lock:
            dead = list(self.office.dead[-20:])
        if dead:
            cookie, why = self.rng.choice(dead)
            status, _, _ = self.ask("GET", "/counts", cookie=cookie)
            if status != 401:
                self.office.fault("ended session", why, status)

    ACTS = [(8, "approve"), (5, "reject"), (4, "from_queue"), (3, "double"), (5, "both"),
            (6, "undo"), (2, "cancel"), (2, "comment"), (3, "has_it_open"),
            (6, "stale"), (2, "trespass"), (3, "job"), (2, "pause"),
            (2, "box"), (6, "wander"), (2, "counts"), (1, "choose"),
            (1, "elsewhere"), (1, "leave"), (1, "change_password"),
            (1, "root_looks_back")]

    def step(self):
        names = [n for k, n in self.ACTS for _ in range(k)]
        name = self.rng.choice(names)
        getattr(self, name)()
        with self.office.lock:
            self.office.steps += 1

    def run(self, steps, until):
        try:
            if not self.cookie:
                self.sign_in()
            for _ in range(steps):
                if self.office.stop.is_set() or time.time() > until:
                    break
                self.step()
        except Exception as e:  # noqa: BLE001 - it is the judge's
            self.connection = None
            self.office.fault("walker", self.name, traceback.format_exc()[-900:])
