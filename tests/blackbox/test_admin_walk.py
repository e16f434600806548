# SPDX-License-Identifier: ISC
"""
Everybody at once on the operators' pages: several people of different roles
and reach decide, undo, pause, list, comment and sign out at random while
agents submit and the worker delivers. When all rest, what they were answered
must be what is there (docs/decisions/0116).
"""
import collections
import hashlib
import os
import random
import re
import threading
import time

import pytest

from tests.lib import office, postern
from tests.lib.pages import Pages, public_id
from tests.lib.relaying import STATES, Relaying

try:
    import html5lib
except ImportError:
    html5lib = None

FULL = os.environ.get("POSTERN_FULL") == "1"
TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
SEED = int(os.environ.get("POSTERN_SEED") or 1)
SECONDS = 300 if FULL else 14
# No page of whom it does not concern may hold these.
MARKS = {"oak": "qaxolotl", "elm": "zbrontosaur"}
PEOPLE = [  # name, role, tenant, only its first inbox, what it may decide
    ("ann", "senior", "oak", False), ("ben", "reviewer", "oak", False),
    ("cat", "reviewer", "oak", True), ("dan", "admin", "oak", False),
    ("eve", "senior", "elm", False), ("fay", "auditor", "elm", False)]
NOTED = ("comment", "cancel", "pause", "resume", "mode", "block", "allow")
DECIDED = {"approved": "a", "counted": "a", "rejected": "r"}


class Town(Relaying):
    def __init__(self):
        super().__init__()
        self.set_conf("admin", undo="2s")
        self.boxes, self.owner = [], {}
        for slug, mark in MARKS.items():
            self.add_tenant(slug + "-" + mark, mark + ".example")
            for i in range(2):
                box = self.add_inbox("bot%d@%s.example" % (i, mark),
                                     slug + "-" + mark)
                box.slug, box.mark = slug, mark
                self.boxes.append(box)
        self.sql("UPDATE d.inbox SET lim_hour = 100000, lim_day = 100000, "
                 "lim_month = 1000000, lim_held = 100000, "
                 "need_approvals = CASE WHEN address LIKE 'bot1@%%' "
                 "THEN 2 END")
        self.ids = {self.operator: self.sql(
            "SELECT operator_id AS i FROM d.operator")[0]["i"]}
        for name, role, slug, one in PEOPLE:
            name = "%s.%s" % (name, MARKS[slug])
            box = next(b for b in self.boxes if b.slug == slug)
            salt, params = os.urandom(16), "argon2id m=19456 t=2 p=1"
            self.step_up()
            self.ids[name] = self.api(
                "operator_add_1", self.session, os.geteuid(), name, salt,
                params, hashlib.sha256(self._output(
                    salt, params, office.PASSWORD)).digest(), role,
                box.tenant_id, box.inbox_id if one else None)["operator_id"]
        self.start_worker()
        self.start("postern-admin")

    def offer(self, box, rcpt, **fields):
        try:
            return self.submit_rest(box, rcpt, **fields)
        except AssertionError as e:
            if not re.search("message_rejected|inbox_read_only", str(e)):
                raise
            return None

    def agent(self, it, rng, until):
        n = 0
        while time.time() < until and not it.stop.is_set():
            box = rng.choice(self.boxes)
            n += 1
            mid = self.offer(
                box, "r%d.%s@%s.example" % (n, box.mark, rng.choice("xyz")),
                subject="report %d %s ü" % (n, box.mark),
                text="Hello %s\n" % box.mark)
            if mid:
                with it.lock:
                    it.mail.append((public_id(mid), box.address, mid))
            # as fast as they decide, about
            postern.wait_until("few wait", lambda: time.time() > until or
                               it.stop.is_set() or self.count(1) < 15,
                               timeout=400, pause=.05)


@pytest.fixture(scope="module")
def town():
    with Town() as it:
        yield it


def walkers(town, it):
    out = []
    for i, (name, role, slug, one) in enumerate(
            PEOPLE + [PEOPLE[0], (town.operator, "root", None, False)]):
        if slug:
            name = "%s.%s" % (name, MARKS[slug])
            words = [m for s, m in MARKS.items() if s != slug]
            if one:
                words.append("bot1@" + MARKS[slug])
        else:
            words = []
        boxes = [b for b in town.boxes if slug in (None, b.slug)]
        boxes = boxes[:1] if one else boxes
        w = office.Walker(it, SEED * 1000 + i, name,
                          {b.address for b in boxes},
                          role, words)
        if not slug:
            w.password = town.operator_password
        out.append(w)
    return out


def walk(town, seconds):
    it = office.Office(town, SEED)

    def agent(*args):
        try:
            town.agent(*args)
        except Exception as e:  # noqa: BLE001 - it is the judge's
            it.fault("agent", repr(e))
    it.walkers = walkers(town, it)
    for w in it.walkers:
        w.sign_in()
    it.began = time.time()
    until = it.began + seconds
    threads = [threading.Thread(target=w.run, args=(10**6, until))
               for w in it.walkers]
    threads.append(threading.Thread(target=agent, args=(
        it, random.Random(SEED), until)))
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    it.over = time.time()
    return it



def rest(town, it):
    """Nothing is stopped any more, and what was approved has left."""
    town.keep_session(town.sign_in())  # its own may have been ended
    town.step_up()
    for t in town.sql("SELECT tenant_id AS t FROM d.tenant WHERE paused_at "
                      "IS NOT NULL"):
        town.api("pause_1", town.session, t["t"], None, False, "rest",
                 user="l_review")
    for x in town.sql("SELECT tenant_id AS t, inbox_id AS i FROM d.inbox "
                      "WHERE paused_at IS NOT NULL"):
        town.api("pause_1", town.session, x["t"], x["i"], False, "rest",
                 user="l_review")
    town.api("pause_1", town.session, None, None, False, "rest",
             user="l_review")
    town.wake()
    postern.wait_until("nothing moves", lambda: not town.sql(
        "SELECT 1 FROM d.state WHERE state IN (2, 7) UNION ALL "
        "SELECT 1 FROM d.job WHERE state = 1 AND session_sha256 IN "
        "(SELECT session_sha256 FROM d.operator_session "
        "WHERE ended_at IS NULL)"), timeout=60, pause=.2)


class Judge:
    """What they were answered, beside what is there."""

    def __init__(self, town, it):
        self.town, self.it = town, it
        self.names = {v: k for k, v in town.ids.items()}
        self.ids = [m[2] for m in it.mail]
        self.state = {str(r["message_id"]): r for r in town.sql(
            "SELECT message_id, state, round, inbox_id, tenant_id "
            "FROM d.state")}
        self.wrong = []

    def all(self):
        self.decisions()
        self.undone()
        self.notes()
        self.left()
        self.log()
        self.sessions()
        for w in self.it.walkers:
            self.queue(w)
        self.pages()
        self.html()
        return self.wrong

    def same(self, what, answered, there):
        for k in (answered - there):
            self.wrong.append("%s: answered, not there: %s" % (what, k))
        for k in (there - answered):
            self.wrong.append("%s: there, not answered: %s" % (what, k))

    def said(self, *words):
        return [a for a in self.it.acts if a.status == 303 and a.said in words]

    def decisions(self):
        answered = {(a.who, a.mid, a.version, a.round, DECIDED[a.said])
                    for a in self.said(*DECIDED)}
        rows = self.town.sql("SELECT * FROM d.decision "
                             "WHERE message_id = ANY(%s::uuid[])", self.ids)
        there = {(self.names[r["operator_id"]], public_id(r["message_id"]),
                  r["version"], r["round"], r["verdict"])
                 for r in rows if r["via"] != "job"}
        self.same("decision", answered, there)
        log = collections.Counter(
            (r["actor"], str(r["message_id"]), r["round"], r["event"])
            for r in self.town.sql(
                "SELECT actor, message_id, event, (detail::json->>'round')::"
                "int AS round FROM d.audit WHERE event IN "
                "('message.approve', 'message.reject') AND message_id = "
                "ANY(%s::uuid[])", self.ids))
        want = collections.Counter(
            ("op:%d" % r["operator_id"], str(r["message_id"]), r["round"],
             "message.approve" if r["verdict"] == "a" else "message.reject")
            for r in rows)
        self.same("audit of decisions", want, log)

    def undone(self):
        answered = collections.Counter(
            (a.who, a.mid, a.version, a.round) for a in self.said("undone"))
        taken = {(public_id(r["message_id"]), r["round"])
                 for r in self.town.sql("SELECT message_id, round FROM "
                                        "d.job_item WHERE outcome = "
                                        "'taken_back'")}
        rows = [(self.names[int(r["actor"][3:])], public_id(r["message_id"]),
                 r["version"], r["round"]) for r in self.town.sql(
            "SELECT actor, message_id, (detail::json->>'round')::int AS "
            "round, (detail::json->>'version')::int AS version FROM d.audit "
            "WHERE event = 'message.undo' AND message_id = "
            "ANY(%s::uuid[])", self.ids)]
        there = collections.Counter(
            r for r in rows if (r[1], r[3]) not in taken)
        self.same("undo", answered, there)
        if len(rows) != len(set(rows)):
            self.wrong.append("undone twice: %s" % rows)
        for a in self.said("late"):
            if (a.mid, a.round) in {(r[1], r[3]) for r in rows}:
                self.wrong.append("was not too late: %s" % (a,))
        for _, mid, _, round in rows:
            if self.of(mid)["round"] <= round:
                self.wrong.append("undone and still of that round: " + mid)

    def of(self, public):
        (m,) = [m for m in self.it.mail if m[0] == public]
        return self.state[m[2]]

    def notes(self):
        """What was said is there once; what was refused is nowhere."""
        town = self.town
        kept = collections.Counter(
            r["t"] for r in town.sql(
                "SELECT text AS t FROM d.comment UNION ALL SELECT note FROM "
                "d.decision WHERE note IS NOT NULL AND via <> 'job' UNION ALL "
                "SELECT detail::json->>'note' FROM d.audit WHERE event = "
                "'message.cancel' UNION ALL SELECT detail::json->>'reason' "
                "FROM d.audit WHERE detail::json->>'reason' IS NOT NULL"))
        by = dict((r["text"], r["operator_id"]) for r in town.sql(
            "SELECT text, operator_id FROM d.comment"))
        said = {}
        for a in self.it.acts:
            note = a.what.get("text") or a.what.get("note") or \
                a.what.get("reason")
            if not note or not note.startswith("note ") or \
                    a.name in ("confirm", "block-end"):
                continue
            done = a.status == 303 and not a.said.startswith("error") and (
                a.said in DECIDED or a.name in NOTED)
            said.setdefault(note, []).append((a, done))
            if note in by and self.names[by[note]] != a.who:
                self.wrong.append("another's name: %s" % (a,))
        for note, acts in said.items():
            if kept[note] != any(done for _, done in acts) and not (
                    kept[note] == 0 and acts[0][0].name == "mode"):
                self.wrong.append("%d times: %s" % (kept[note], acts))

    def left(self):
        got = collections.Counter(
            r for m in self.town.mx.messages for r in m["rcpts"])
        rcpts = {str(r["message_id"]): r["rcpt"] for r in self.town.sql(
            "SELECT message_id, rcpt FROM d.message")}
        for mid, to in rcpts.items():
            n = sum(got[r] for r in to)
            state = self.state[mid]["state"]
            if n != (state == 8):
                self.wrong.append("%s is %d and left %d times" % (
                    public_id(mid), state, n))
        for a in self.said("canceled"):
            if self.of(a.mid)["state"] != 5:
                self.wrong.append("canceled: %s" % (a,))

    def log(self):
        """As many rows of each kind by each person as were answered."""
        kinds = {"comment": ("commented", "message.comment"),
                 "cancel": ("canceled", "message.cancel"),
                 "pause": ("paused", "pause"), "resume": ("resumed", "resume"),
                 "confirm": ("job_begun", "job.confirm"),
                 "password": ("changed", "operator.password"),
                 "session-end": ("changed", "operator.session_ended"),
                 "block": ("changed", "list.set"),
                 "block-end": ("changed", "list.remove")}
        words = {v[0]: v[1] for k, v in kinds.items() if v[0] != "changed"}
        events = [v[1] for v in kinds.values()]
        answered = collections.Counter()
        for a in self.it.acts:
            event = words.get(a.said) or (
                kinds.get(a.name) or [None, None])[1]
            if a.status == 303 and a.said in words or a.said == "changed" \
                    and a.name in kinds:
                if a.name == "pause" and a.said == "changed":
                    event = {"on": "pause", "off": "resume"}[a.what["to"]]
                answered[a.who, event] += 1
        there = collections.Counter(
            (self.names.get(int(r["actor"][3:])), r["event"])
            for r in self.town.sql(
                "SELECT actor, event FROM d.audit WHERE event = ANY(%s) AND "
                "actor LIKE 'op:%%' AND at >= to_timestamp(%s) AND at <= "
                "to_timestamp(%s)", events, self.it.began, self.it.over))
        self.same("audit", answered, there)

    def sessions(self):
        w = self.it.walkers[0]
        for cookie, why in self.it.dead:
            status, _, _ = w.ask("GET", "/counts", cookie=cookie)
            if status != 401:
                self.wrong.append("%s: %d" % (why, status))

    def held(self, w):
        """What waits in the reach of this operator, says the database."""
        return {public_id(r["m"]) for r in self.town.sql(
            "SELECT y.message_id AS m FROM d.state y WHERE y.state = 1 AND "
            "EXISTS (SELECT 1 FROM d.operator_scope c WHERE c.operator_id = "
            "%s AND (c.tenant_id IS NULL OR c.tenant_id = y.tenant_id AND "
            "(c.inbox_id IS NULL OR c.inbox_id = y.inbox_id)))",
            self.town.ids[w.name])}

    def queue(self, w):
        w.only = ""
        want = self.held(w)
        status, _, text = w.ask("GET", "/counts")
        if status == 401:  # signed out by the twin, the last thing it did
            w.sign_in()
            status, _, text = w.ask("GET", "/counts")
        n = re.search(r'"held": ?(\d+)', text)
        seen, lists = set(), ["/q"]
        while lists:
            to = lists.pop()
            page = w.look(to)
            seen |= set(re.findall(r"/m/(msg_[0-9a-z]{26})", page.text))
            shown = re.search(r'id="held"[^>]*>(\d+)<', page.text)
            if int(shown[1]) != len(want):
                self.wrong.append("%s: the head of %s says %s of %d" % (
                    w.name, to, shown[1], len(want)))
            # the next part of it, and inboxes that are one row of it
            lists += [x for x in page.links if x.startswith("/q?after=")
                      or to == "/q" and x.startswith("/q?box=")]
        if not n or int(n[1]) != len(want) or seen != want:
            self.wrong.append("queue of %s: counts %s, shows %d, has %d: %s" % (
                w.name, text, len(seen), len(want), seen ^ want))

    def pages(self):
        """Each message's page says what the database says."""
        root = self.it.walkers[-1]
        for public, _, mid in self.it.mail:
            page = root.look("/m/" + public)
            m = page and re.search(r'data-state="(\w+)"', page.text)
            if not m or m[1] != STATES[self.state[mid]["state"]]:
                self.wrong.append("page of %s: %s, is %s" % (
                    public, m and m[1], self.state[mid]["state"]))

    def html(self):
        if html5lib is None:
            return
        until = time.time() + (60 if FULL else 6)
        for key, text in sorted(self.it.samples.items(), key=str):
            if time.time() > until:
                break
            parser = html5lib.HTMLParser(strict=False)
            parser.parse(text)
            if parser.errors:
                self.wrong.append("HTML of %s: %s" % (key, [
                    (at, what, more, text.split("\n")[at[0] - 1][
                        max(0, at[1] - 90):at[1] + 20])
                    for at, what, more in parser.errors[:3]]))


def test_an_undo_that_came_second(town):
    """Pressed twice, or by two: the relay has nothing of it."""
    box, pages = town.boxes[0], Pages(town)

    def pause(on):
        town.api("pause_1", town.session, box.tenant_id, box.inbox_id, on,
                 "a test", user="l_review")

    def undo(form):
        status, headers, _ = pages.press(mid, "undo", form)
        assert status == 303
        return headers["Location"].split("said=")[1]
    pause(True)  # so that the worker takes nothing
    mid = town.submit_rest(box)
    assert pages.approve(mid) == 303
    first = pages.form(mid, "undo")
    assert [undo(first), undo(first)] == ["undone", "waits"]
    assert pages.approve(mid) == 303
    second = pages.form(mid, "undo")
    assert undo(first) == "moved"
    assert town.state(mid) == "approved"
    assert pages.press(mid, "cancel", second)[0] == 303
    assert undo(second) == "moved"
    assert "something else happened to it since" in pages.call(
        "GET", "/m/%s?said=moved" % public_id(mid))[2]
    assert town.state(mid) == "canceled"
    town.step_up()
    pause(False)


def password_form(town, pages, box):
    """(path, fields) of a form that asks for the password, as it is seen."""
    at = "/inbox/%d.%d" % (box.tenant_id, box.inbox_id)
    status, _, text = pages.call("GET", at)
    assert status == 200
    return at + "/suspend", {
        "csrf": re.search('name="csrf" value="([^"]+)"', text)[1],
        "to": "on", "reason": "pressed twice",
        "password": town.operator_password}


def suspended(town, box):
    return town.sql("SELECT suspended_at FROM d.inbox WHERE inbox_id = %s",
                    box.inbox_id)[0]["suspended_at"]


def test_a_form_with_a_password_sent_twice(town):
    """Without scripts nothing keeps one from pressing twice; the second comes
    with the cookie of before, and is told what the first did (0099)."""
    box, pages = town.boxes[0], Pages(town)
    path, form = password_form(town, pages, box)
    status, first, _ = pages.call("POST", path, form)
    assert status == 303 and "said=changed" in first["Location"]
    assert first["Set-Cookie"].split(";")[0] != pages.cookie
    since = suspended(town, box)
    assert since
    status, second, _ = pages.call("POST", path, form)
    assert (status, second["Location"]) == (303, first["Location"])
    assert "Set-Cookie" not in second and suspended(town, box) == since
    # Another one did nothing, and is not told what that one did; nor is a
    # page shown to the cookie of before.
    status, _, text = pages.call("POST", path.replace("suspend", "mode"),
                                 dict(form, to_mode="0"))
    assert status == 401 and "has ended" in text
    assert pages.call("GET", "/q")[1]["Location"] == "/login"
    pages.cookie = first["Set-Cookie"].split(";")[0]
    assert pages.call("GET", first["Location"])[0] == 200
    # One that was refused says so again.
    pages = Pages(town)
    path, form = password_form(town, pages, box)
    path = path.replace("suspend", "allow")
    form = dict(form, entry="@gmail.com", uses="1", days="1")
    told = [pages.call("POST", path, form)[1]["Location"] for _ in range(2)]
    assert "error=" in told[0] and told[1] == told[0]
    town.step_up()
    town.api("suspend_1", town.session, box.tenant_id, box.inbox_id, False,
             "a test", user="l_review")


def test_a_form_of_another_session(town):
    """Every action of the program's own table: told so, and nothing else is
    read of a request that was answered."""
    with open(os.path.join(TOP, "admin", "route.c")) as f:
        routes = re.findall(r'"POST", "([^"]+)"', f.read())
    pages = Pages(town)
    ids = {"{id}": "msg_" + "0" * 26, "{job}": "job_" + "0" * 26}
    for path in routes:
        if path.startswith(("/login", "/setup")):
            continue
        path = re.sub(r"{\w+}", lambda m: ids.get(m[0], "1.1"), path)
        status, _, text = pages.call("POST", path, {"csrf": "0" * 26})
        assert status == 403, (path, status)
        assert "not from this session" in text or "role" in text, path


def test_counts_of_a_session_that_ends_meanwhile(town):
    """Between who asks and what is counted: signed out, not out of order."""
    pages, lock, got = Pages(town), town.connect(), []
    lock.autocommit = False
    with lock.cursor() as cur:
        cur.execute("LOCK TABLE d.global_pause IN ACCESS EXCLUSIVE MODE")
    t = threading.Thread(target=lambda: got.append(
        pages.call("GET", "/counts")[0]))
    t.start()
    postern.wait_until("it is known who asks", lambda: town.sql(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
        "query LIKE '%%session_touch%%'"))
    town.sql("UPDATE d.operator_session SET ended_at = now() WHERE "
             "created_at = (SELECT max(created_at) FROM d.operator_session)")
    lock.commit()
    lock.close()
    t.join()
    assert got == [401]


def test_walk(town):
    it = walk(town, SECONDS)
    did = collections.Counter()
    for w in it.walkers:
        did += w.did
    for k, v in sorted(did.items(), key=str):
        print(v, k)
    print("steps", it.steps, "mail", len(it.mail), "acts", len(it.acts))
    for f in it.faults:
        print("fault:", f)
    if it.faults:
        for line in town.programs["postern-admin"].lines:
            if '"info"' not in str(line):
                print("postern-admin:", line)
    rest(town, it)
    wrong = Judge(town, it).all()
    assert not it.faults + wrong, "\n\n".join((it.faults + wrong)[:30])
