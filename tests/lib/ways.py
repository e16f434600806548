# SPDX-License-Identifier: ISC
"""
Which ways a message might go: what must hold of every dot that hosts took
while operators changed rules, names and the configuration, told in few lines
and not as the worker does it. For tests/blackbox/test_deliver_ways.py.

A change is known to have happened between two moments, of which one lies
before it was asked for and one behind the answer: in between it may have been
or not. A dot is right if one of the ways that were open at some moment from
the claim to the dot leads where it came.
"""
import calendar
import collections
import itertools
import re
import time

from tests.lib.judge import OWN, Judge
from tests.lib.pages import public_id

OWN |= {(556, "the domain takes no mail")}


class Span:
    """Something that holds, from and until a moment between two."""

    def __init__(self, since, **what):
        self.since, self.until = since, None
        self.__dict__.update(what)

    def surely(self, t):
        return self.since[1] < t and (self.until is None or t < self.until[0])

    def perhaps(self, t):
        return self.since[0] <= t and (
            self.until is None or t <= self.until[1])

    def meets(self, a, b):
        return self.since[0] <= b and (
            self.until is None or self.until[1] >= a)

    def end(self, lo, hi):
        """What ends twice ended at the first."""
        if self.until is None:
            self.until = lo, hi
        else:
            self.until = min(self.until[0], lo), min(self.until[1], hi)

    def edges(self):
        return self.since + (self.until or ())


def way(rules, conf):
    """The one way under these rules: docs/manual says which of them wins."""
    first = min((x for x in rules if x.action != "tls"), default=None,
                key=lambda x: (
                    not (x.tenant is None and x.action != "relay"),
                    x.inbox is None, x.tenant is None, x.domain == "*",
                    -x.number))
    if first is not None and first.action != "relay":
        return (first.action,)
    if first is not None:
        return "via", first.host, first.port, first.login
    if conf.host is not None:
        return "via", conf.host, conf.port, conf.login
    return "mx", any(x.action == "tls" for x in rules)


class Map:
    """All that ever was: rules, configurations, names. `good`, `self`: what
    certificate a host has; `dane`: what its TLSA records say of it; `sts`: the
    hosts that a domain's policy names; `signed`: domains."""

    def __init__(self, certs, addresses, dane, sts, signed):
        self.certs, self.dane, self.sts = certs, dane, sts
        self.signed, self.addresses = signed, addresses
        self.names = {a: n for n, a in addresses.items()}
        self.rules, self.confs, self.mx, self.ill = [], [], [], []
        self.preferred = 0  # dots where a worse host was left alone

    def ways(self, a, b, box, domain):
        fit = [x for x in self.rules if x.meets(a, b) and
               x.domain in ("*", domain) and
               x.tenant in (None, box.tenant_id) and
               x.inbox in (None, box.inbox_id)]
        times = sorted({a, b} | {e for x in fit + self.confs
                                 for e in x.edges() if a < e < b})
        times += [(s + t) / 2 for s, t in zip(times, times[1:])]
        found = set()
        for t in times:
            sure = [x for x in fit if x.surely(t)]
            open_ = [x for x in fit if x.perhaps(t) and x not in sure]
            for n in range(len(open_) + 1):
                for more in itertools.combinations(open_, n):
                    found |= {way(sure + list(more), conf)
                              for conf in self.confs if conf.perhaps(t)}
        return found

    def demand(self, domain, host, must):
        """Of the session with a domain's host: "dane", "verified", "tls", ""
        or, where there may be none, None."""
        dane = self.dane.get(host) if domain in self.signed else None
        if dane in ("match", "mismatch"):
            return "dane" if dane == "match" else None
        if domain in self.sts and host not in self.sts[domain]:
            return None
        if must or domain in self.sts:
            return "verified" if self.certs[host] == "good" else None
        return "tls" if dane == "unusable" else ""

    def is_unwell(self, host, a, b, trouble):
        """It may have been no use, so that another was asked."""
        return any(x == self.addresses[host] and a <= t <= b
                   for x, t in trouble) or any(
                       x.name.endswith(host) and x.meets(a, b)
                       for x in self.ill)

    def by_mx(self, dot, a, domain, must, trouble):
        """None, if it is right, or why not. `trouble` None: where it goes is
        bound to a host (0102)."""
        host = self.names.get(dot["mx"])
        if dot["login"]:
            return "signed in at an MX"
        demand = self.demand(domain, host, must)
        if demand is None or demand and not dot["tls"]:
            return "not as safe as demanded"
        lists = [x.hosts for x in self.mx
                 if x.domain == domain and x.meets(a, dot["at"])]
        lists = [x for x in lists if host in [h for _, h in x]]
        if not lists:
            return "no host of the domain"
        for hosts in lists:
            its = min(p for p, h in hosts if h == host)
            self.preferred += any(
                p > its and self.demand(domain, h, must) is not None
                for p, h in hosts)
            if trouble is None or all(
                    self.demand(domain, h, must) is None or
                    self.is_unwell(h, a, dot["at"], trouble)
                    for p, h in hosts if p < its):
                return None
        return "a better host was well"

    def by_host(self, dot, host, port, login):
        if self.addresses[host] != dot["mx"] or dot["port"] != port:
            return "another host"
        if dot["login"] != login:
            return "with another's credentials"
        if not dot["tls"] or self.certs[host] != "good":
            return "not verified"
        return None


def moment(text):
    """Seconds, of the time of a log line."""
    whole, part = text.rstrip("Z").split(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + \
        float("." + part)


class WayJudge(Judge):
    def __init__(self, town):
        self.map, self.claims = town.map, {}
        self.went = collections.Counter()
        for w in town.ever:
            for e in w.events:
                if e["event"] == "deliver.claim":
                    self.claims.setdefault(e["message"], []).append(
                        moment(e["at"]))
        super().__init__(town)

    def stopped(self, mid, m, dot):
        super().stopped(mid, m, dot)
        a = max((t for t in self.claims.get(public_id(mid), ())
                 if t <= dot["asked"]), default=0)
        domain = dot["rcpts"][0].split("@")[1]
        ways = self.map.ways(a, dot["at"], m.box, domain)
        why = []
        self.went[" or ".join(sorted("%s %s" % x[:2] if x[0] in (
            "mx", "via") else x[0] for x in ways))] += 1
        for kind, *how in ways:
            if kind == "mx":
                why.append(self.map.by_mx(
                    dot, a, domain, *how, None if m.box.twice else
                    self.town.house.trouble))
            elif kind == "via":
                why.append(self.map.by_host(dot, *how))
            else:
                why.append("it had to wait or fail")
        if None not in why:
            self.say("a wrong way", mid, why, ways, a, {
                k: v for k, v in dot.items() if k != "data"})

    def twice(self, mid, rcpt, m, dots):
        """As there; and where an operator's rule led (0102)."""
        led = {self.map.addresses[x.host] for x in self.map.rules
               if x.action == "relay"}
        if m.box.twice:
            self.r.names[rcpt.split("@")[1]] = [
                {a} | led for a in self.map.addresses.values()]
        super().twice(mid, rcpt, m, dots)

    def reply(self, mid, m, row):
        text = row["reply"] or ""
        until = row["changed_at"].timestamp()
        domain = row["rcpt"].split("@")[1]
        if "operator's rule refuses" in text and ("bounce",) not in \
                self.map.ways(0, until, m.box, domain):
            self.say("refused by no rule", mid, row)
        if text == "the domain takes no mail" and not any(
                x.domain == domain and not x.hosts and x.meets(0, until)
                for x in self.map.mx):
            self.say("it takes mail", mid, row)
        super().reply(mid, m, row)

    def credentials(self):
        """Each only to a host it is for, once that is certain."""
        house, map_ = self.town.house, self.map
        known = {(map_.addresses[x.host], x.port, x.login)
                 for x in map_.rules + map_.confs if getattr(x, "host", None)}
        for when, address, port, tls, login in house.logins:
            if not tls or map_.certs[map_.names[address]] != "good" or (
                    address, port, login) not in known:
                self.say("credentials", when, address, port, tls, login)
        for who in house.strangers:
            self.say("did not sign in", who)

    def words(self):
        """Not a word of a message to who is not known as is demanded."""
        led = {(self.map.addresses[x.host], x.port) for x in
               self.map.rules + self.map.confs if getattr(x, "host", None)}
        for when, address, port, tls, rcpt in self.town.house.rcpts:
            demand = self.map.demand(rcpt.split("@")[1],
                                     self.map.names[address], False)
            if (demand is None or demand and not tls) and (
                    address, port) not in led:
                self.say("named to a stranger", when, address, tls, rcpt)

    def judge(self):
        super().judge()
        self.credentials()
        self.words()
        found = self.r.sql("SELECT message_id, count(*) AS n FROM d.dsn "
                           "WHERE kind = 'd' GROUP BY 1 HAVING count(*) > 1")
        if found:
            self.say("told of one delay twice", found)
        return self.wrong


