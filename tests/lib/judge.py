# SPDX-License-Identifier: ISC
"""
What hosts took against what the database tells of it, once all rests: for
tests/blackbox/test_deliver_walk.py, whose Town knows who asked for what.
"""
import collections
import re

from tests.lib.books import BOOKS
from tests.lib.pages import public_id

FAILED = 5
# What the worker finds out by itself of what a host offers.
OWN = {(554, "the next hop takes no 8-bit text"),
       (554, "larger than the next hop takes"),
       (452, "the next hop takes 1 recipients at a time")}


class Judge:
    """The hosts' book against the database's."""

    def __init__(self, town):
        self.town, self.r, self.wrong = town, town.r, []
        self.bytes = {}
        for mid, m in town.mail.items():
            status, raw = town.call(m.box, "GET", "/v1/messages/%s/raw" %
                                    public_id(mid))
            assert status == 200, (mid, status, raw)
            self.bytes[raw] = mid
        self.dots = collections.defaultdict(list)
        for dot in town.house.book:
            mid = self.bytes.get(dot["data"])
            if mid is None:
                self.wrong.append(("bytes that nobody froze", dot))
                continue
            m = town.mail[mid]
            if dot["mail_from"] != m.box.address or not (
                    set(dot["rcpts"]) <= set(m.rcpts)) or len(
                    set(dot["rcpts"])) != len(dot["rcpts"]):
                self.wrong.append(("envelope", mid, dot))
            self.stopped(mid, m, dot)
            for rcpt in dot["rcpts"]:
                self.dots[mid, rcpt].append(dot)

    def say(self, *what):
        self.wrong.append(what)

    def stopped(self, mid, m, dot):
        """The dot was asked for and came while it might not."""
        held = [s for s in m.stops] + [
            (what, since, until) for what, whose, since, until
            in self.town.stops
            if (m.by_policy or what not in ("mode", "rule")) and (
                whose in ((m.box.inbox_id,), (None,)) or
                whose[0] == m.box.inbox_id and whose[-1] in dot["rcpts"])]
        for what, since, until in held:
            if since < dot["asked"] and (until is None or dot["at"] < until):
                self.say(what, mid, since, until, dot["asked"], dot["at"])
        if m.send_at and dot["at"] < m.send_at:
            self.say("too early", mid, dot)
        if m.not_after and dot["asked"] > m.not_after:
            self.say("too late", mid, dot)

    def twice(self, mid, rcpt, m, dots):
        """After a dot that may have been taken, only a person's word, or
        once, at the same host, the inbox's."""
        spare = m.box.twice
        for a, b in zip(dots, dots[1:]):
            if a["answer"] and a["answer"] >= 400:
                continue
            if any(rcpt in who and t < b["at"] and t > a["asked"]
                   for who, t in m.retried):
                continue
            # A host is its name, whichever of its addresses answers (0102).
            if spare and any({a["mx"], b["mx"]} <= addresses for addresses
                             in self.r.names[rcpt.split("@")[1]]):
                spare = False
                continue
            self.say("twice", mid, rcpt, a, b)

    def recipient(self, mid, m, row):
        dots = self.dots.pop((mid, row["rcpt"]), [])
        self.twice(mid, row["rcpt"], m, dots)
        status = row["status"]
        last = dots[-1]["answer"] if dots else None
        person = {o for who, o in m.settled if who == row["rcpt"]}
        doubt = bool(dots) and not (last and last >= 400)
        if status == 3 and "sent" not in person and not any(
                d["taken"] for d in dots):
            self.say("delivered to nobody", mid, row, dots)
        if status == 6 and not dots and not self.town.kills:
            self.say("in doubt of nothing", mid, row)
        if status in (5, 7, 8) and doubt and "failed" not in person:
            self.say("told not to have left", mid, row, dots)
        if status in (0, 4) and doubt and not m.stops:
            self.say("waits", mid, row, dots)
        self.reply(mid, m, row)

    def reply(self, mid, m, row):
        code, text = row["reply_code"] or 0, row["reply"] or ""
        mark = re.search(r"\bm\d+\.", text)
        if mark is None:
            if code >= 400 and (code, text) not in OWN:
                self.say("a reply of nobody", mid, row)
            return
        said, verb, about = self.town.house.said[mark[0]]
        if code not in (said, 0) or about and row["rcpt"] not in about:
            self.say("another's reply", mid, row, (said, verb, about))

    def reports(self):
        told = collections.Counter(
            (str(x["message_id"]), x["ix"]) for x in self.r.sql(
                "SELECT message_id, unnest(ix) AS ix FROM d.dsn "
                "WHERE kind = 'f'"))
        for row in self.rows:
            mid = str(row["message_id"])
            n = told.pop((mid, row["ix"]), 0)
            person = any(who == row["rcpt"] and o == "failed" for who, o in
                         self.town.mail[mid].settled)
            # Past the agent's own time an event tells, and no report (0042).
            over = bool(self.town.mail[mid].not_after)
            if n != (row["status"] == FAILED) and not (
                    n == 0 and (person or over)):
                self.say("reports", n, row)
        if told:
            self.say("reports of nothing", told)

    def judge(self):
        self.rows = [dict(x) for x in self.r.sql(
            "SELECT v.message_id, v.ix, v.status, v.attempts, v.reply_code, "
            "v.enhanced, v.reply, v.unsure_mx, v.resent, v.changed_at, "
            "m.rcpt[v.ix] AS rcpt, s.state FROM d.delivery v JOIN "
            "d.message m USING (message_id, tenant_id) JOIN d.state s "
            "USING (message_id, tenant_id)")]
        for row in self.rows:
            mid = str(row["message_id"])
            self.recipient(mid, self.town.mail[mid], row)
        if self.dots:
            self.say("dots for no recipient", dict(self.dots))
        self.reports()
        for name, query in BOOKS.items():
            found = self.r.sql(query)
            if found:
                self.say(name, found[:5])
        return self.wrong
