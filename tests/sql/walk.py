# SPDX-License-Identifier: ISC
"""
walk.py - everybody at once, at random: agents, operators, workers, clocks.

A Walk is one of them after the other, on connections of its own, by one seed;
several share a `Town`: the inboxes, the mail, and what was promised to whom
(that a stop was acknowledged at a moment, and for how long it held).
"""
import os
import random
import threading
import time

import psycopg2

from pgcluster import call, call1, sha256, submit, submit_batch, uuid7

DONE, LATER, FAILED, UNCERTAIN = 3, 4, 5, 6
# Two of them met; whoever is told so asks again (docs/store-api.md).
AGAIN = ("40001", "40P01", "55P03")
PEOPLE = ["ann", "bob", "cid"]
HOSTS = ["x.example", "y.example", "z.example"]


class Town:
    def __init__(self, w, boxes):
        self.w, self.boxes = w, boxes
        self.mail = []  # (message, inbox)
        self.stored = {}  # of an inbox: how many were 202
        self.lock = threading.Lock()
        self.stops = []  # what, whose, from, until: no dot in between
        self.dots = []  # of a message: asked for when, allowed when
        self.made = set()  # an operator's approvals: message, round
        self.doomed = []  # inboxes that may be deleted
        # Who has switched a tenant off, and will switch it on again.
        self.switched = {t: threading.Lock() for t in w.tenants}
        self.runs = []  # keys of sessions, and how many were taken of each
        self.drafts = []  # id, inbox
        self.busy = set()  # drafts that a living sender is about to send
        self.sent = []  # of a draft which version
        self.changed = []  # which version was answered to be no more
        self.again = 0
        # Recipients whose dot nobody answered, nor a person for it.
        self.doubt = set()

    def dotted(self, mid, ix):
        """A dot may leave for these: in doubt from now on, till answered.
        Returns those that were not before."""
        with self.lock:
            new = {(mid, i) for i in ix} - self.doubt
            self.doubt |= new
        return new

    def answered(self, those):
        with self.lock:
            self.doubt -= set(those)

    def promise(self, what, whose, since):
        stop = [what, whose, since, None]
        self.stops.append(stop)
        return stop


class Walk:
    def __init__(self, town, seed, name):
        self.town, self.w, self.name = town, town.w, name
        self.rng = random.Random(seed)
        db = town.w.db
        self.gw, self.rv = db.connect("l_gateway"), db.connect("l_review")
        self.wk, self.ctl = db.connect("l_worker"), db.connect("l_ctl")
        self.su = db.connect("postgres")
        self.s = town.w.operator(name, "senior")
        self.leases = []
        self.did = {}
        self.acts = [a for n, a in (
            (6, self.submit), (3, self.submit_many), (2, self.resubmit),
            (2, self.cancel), (8, self.approve), (2, self.reject),
            (4, self.undo), (1, self.withdraw), (6, self.claim),
            (10, self.deliver), (3, self.deliver_set), (1, self.drop),
            (2, self.settle), (3, self.sweep), (2, self.age), (1, self.mode),
            (1, self.pause), (1, self.suspend), (1, self.block),
            (1, self.rule),
            (1, self.allow), (1, self.job), (1, self.session),
            (1, self.demolish), (5, self.draft)) for _ in range(n)]

    def step(self):
        act = self.rng.choice(self.acts)
        try:
            status = act()
        except psycopg2.Error as e:
            if e.pgcode not in AGAIN:
                raise
            self.town.again += 1
            status = "again"
        key = (act.__name__, status)
        self.did[key] = self.did.get(key, 0) + 1

    # -- agents ---------------------------------------------------------------

    def made(self, x):
        r = self.rng
        to = {"%s@%s" % (r.choice(PEOPLE), r.choice(HOSTS))
              for _ in range(r.randint(1, 4))}
        more = {}
        if r.random() < .1:
            more["send_at"] = int((time.time() + 3600) * 1e6)
        if r.random() < .1:
            more["not_after"] = int((time.time() + 7200) * 1e6)
        if r.random() < .3:
            more["idem"] = os.urandom(32)
        m = x.message(sorted(to), body=b"b" * r.randint(1, 3000),
                      risk=r.choice((0, 10, 50)), findings_set=1, **more)
        if r.random() < .5:
            m.update(relay_box=b"r" * 200, tag=b"g" * 32, tag_mode=x.seen[0],
                     tag_mode_epoch=x.seen[1],
                     expiry=m["not_after"] or int((time.time() + 3600) * 1e6))
        return m

    def keep(self, x, m, r):
        if r["status"] == 202:
            with self.town.lock:
                self.town.mail.append((m, x))
                n = self.town.stored.get(x.inbox, 0)
                self.town.stored[x.inbox] = n + 1
        return r["status"]

    def submit(self):
        x = self.rng.choice(self.town.boxes)
        m = self.made(x)
        return self.keep(x, m, submit(self.gw, m))

    def submit_many(self):
        n = self.rng.randint(2, 8)
        made = sorted(((x, self.made(x)) for x in self.rng.choices(
            self.town.boxes, k=n)), key=lambda p: (p[0].tenant, p[0].inbox))
        if self.rng.random() < .2:  # the same twice in one
            x, m = made[0]
            made.insert(0, (x, dict(m)))
        got = submit_batch(self.gw, [m for _, m in made])
        for (x, m), r in zip(made, got):
            self.keep(x, m, r)
        return len(got)

    def some(self):
        mail = self.town.mail
        if not mail:
            return None, None
        # lately, more often than long ago
        i = int(len(mail) * self.rng.random() ** .3)
        return mail[min(i, len(mail) - 1)]

    def resubmit(self):
        m, x = self.some()
        return m and submit(self.gw, m)["status"]

    def cancel(self):
        m, x = self.some()
        if m is None:
            return None
        r = call1(self.gw, "cancel_1", t=x.tenant, k=x.full_key, a=x.full_a,
                  mid=m["mid"])
        if r["status"] == 200 and r["state"] == 5:
            self.town.promise("canceled", m["mid"], time.time())
        return r["status"]

    def session(self):
        """A key for five messages, the end of which ends what waits."""
        x = self.rng.choice(self.town.boxes)
        who = dict(t=x.tenant, k=x.full_key, a=x.full_a)
        a = os.urandom(32)
        r = call1(self.gw, "run_create_1", auth=sha256(a), seconds=600,
                  run=None, sandbox_id=None, template=None, purpose=None,
                  recipients=[], domains=HOSTS[:2], max_messages=3,
                  attachments=False, doors="r", **who)
        if r["status"] not in (200, 201):
            return r["status"]
        run = [r["key_id"], 0]
        self.town.runs.append(run)
        for _ in range(5):
            m = self.made(x)
            m.update(k=r["key_id"], a=a)
            run[1] += self.keep(x, m, submit(self.gw, m)) == 202
        return ("end", call1(
            self.gw, "run_end_1", which=r["key_id"], keep=self.rng.random()
            < .5, exit_error=None, stdout_lines=None, stderr_lines=None,
            payload_length=None, **who)["status"])

    def draft(self):
        """Written, changed, sent and deleted by two full keys of an inbox;
        who sends may die on the way."""
        r = self.rng
        x = r.choice([x for x in self.town.boxes if hasattr(x, "keys")])
        if r.random() < .3 or not self.town.drafts:
            draft = uuid7()
            status = self.put(x, draft, 0)
            if status in (200, 201):
                self.town.drafts.append((draft, x))
            return ("new", status)
        draft, x = r.choice(self.town.drafts[-6:])
        cur = self.su.cursor()
        cur.execute("SELECT version FROM d.draft WHERE draft_id = %s",
                    (draft,))
        row = cur.fetchone()
        if row is None:
            return "gone"
        if r.random() < .3:
            status = self.put(x, draft, row[0])
            if status == 200:
                self.town.changed.append((draft, row[0]))
            return ("change", status)
        if r.random() < .1:
            status = call1(self.gw, "draft_end_1", draft=draft, sent=None,
                           **self.who(x))["status"]
            if status == 200:
                self.town.changed.append((draft, row[0]))
            return ("delete", status)
        return self.send_draft(x, draft, row[0])

    def who(self, x):
        k, a = self.rng.choice(x.keys)
        return dict(t=x.tenant, k=k, a=a)

    def put(self, x, draft, version):
        return call1(self.gw, "draft_put_1", draft=draft, ver=version,
                     epoch=1, box=b"x" * 80, head=b"h" * 60, body=b"b" * 60,
                     idem=None, request=os.urandom(32),
                     **self.who(x))["status"]

    def send_draft(self, x, draft, version):
        who, key = self.who(x), sha256(b"draft:" + draft.bytes)
        me = (draft, self)
        self.town.busy.add(me)
        try:
            g = call1(self.gw, "draft_go_1", draft=draft, ver=version,
                      idem=key, **who)
            if g["status"] != 200 or g["message_id"]:
                return ("go", g["status"], bool(g["message_id"]))
            if self.rng.random() < .1:
                return "died before"
            # The same request of the same version, whoever of a line asks.
            m = x.message(["a@x.example"], idem=key, key=(who["k"], who["a"]),
                          request=sha256(key + bytes([version])))
            got = submit(self.gw, m)
            if self.keep(x, m, got) == 202:
                self.town.sent.append((draft, version))
            if self.rng.random() < .2:
                return "died after"
            if got["status"] in (200, 202):
                e = call1(self.gw, "draft_end_1", draft=draft,
                          sent=got["message_id"], **who)
            else:
                e = call1(self.gw, "draft_stay_1", draft=draft, at=g["at"],
                          **who)
            return ("sent", got["status"], e["status"])
        finally:
            self.town.busy.discard(me)
            if not any(d == draft for d, _ in list(self.town.busy)):
                self.su.cursor().execute(
                    "UPDATE d.draft SET going_at = going_at - "
                    "interval '1 min' * %s WHERE draft_id = %s "
                    "AND going_at IS NOT NULL",
                    (self.rng.choice((0, 0, 6)), draft))

    def demolish(self):
        with self.town.lock:  # root's session is one
            if not self.town.doomed or self.rng.random() < .8:
                return None
            x = self.town.doomed[-1]
            # Or for ever, if we switched it ourselves some calls further up.
            if not x.switched.acquire(blocking=False):
                return "another does"
            try:
                self.town.doomed.pop()
                self.town.boxes.remove(x)
                self.w.step_up(self.w.root)
                self.surely(self.ctl, "inbox_delete_1", s=self.w.root, uid=0,
                            tenant=x.tenant, inbox=x.inbox, reason="r")
            finally:
                x.switched.release()
        self.town.promise("deleted", ("inbox", x.inbox), time.time())
        return 200

    # -- operators ------------------------------------------------------------

    def found(self, m):
        cur = self.su.cursor()
        cur.execute("SELECT state, version, round FROM d.state "
                    "WHERE message_id = %s", (m["mid"],))
        return cur.fetchone()

    def decide(self, m, round, **over):
        args = dict(s=self.s, mid=m["mid"], for_version=1, for_round=round,
                    dig=m["dig"], verdict="a", idem=os.urandom(16),
                    category=None, note=None, hint=None, seconds=3,
                    via="page", relay_box=b"r" * 200, tag=b"g" * 32,
                    expiry=m["not_after"] or int((time.time() + 3600) * 1e6),
                    undo_seconds=self.rng.choice((0, 0, 10)), resend=None)
        args.update(over)
        return call1(self.rv, "decide_1", **args)

    def approve(self):
        m, x = self.some()
        if m is None:
            return None
        _, _, round = self.found(m)
        # Before it is asked: it may be sent before we hear that it was.
        self.town.made.add((m["mid"], round))
        again = [1, 2] if self.rng.random() < .2 else None
        return self.decide(m, round, resend=again)["status"]

    def reject(self):
        m, x = self.some()
        if m is None:
            return None
        r = self.decide(m, self.found(m)[2], verdict="r", category="other",
                        relay_box=None, tag=None, expiry=None)
        if r["status"] == 200:
            self.town.promise("rejected", m["mid"], time.time())
        return r["status"]

    def undo(self):
        m, x = self.some()
        if m is None:
            return None
        r = call1(self.rv, "undo_1", s=self.s, mid=m["mid"], for_version=1,
                  for_round=self.found(m)[2])
        return r["status"]

    def withdraw(self):
        m, x = self.some()
        if m is None:
            return None
        r = call1(self.rv, "review_cancel_1", s=self.s, mid=m["mid"],
                  note=None)
        if r["status"] == 200 and r["state"] == 5:
            self.town.promise("withdrawn", m["mid"], time.time())
        return r["status"]

    def settle(self):
        cur = self.su.cursor()
        cur.execute("SELECT message_id FROM d.state WHERE state = 11 "
                    "ORDER BY random() LIMIT 1")
        row = cur.fetchone()
        if row is None:
            return None
        cur.execute("SELECT ix FROM d.delivery WHERE message_id = %s AND "
                    "status = 6", row)
        unsure = [i for i, in cur.fetchall()][:2]
        outcome = self.rng.choice(("sent", "failed", "retry"))
        r = call1(self.rv, "uncertain_1", s=self.s, mid=row[0], ix=unsure,
                  outcome=outcome, note=None)
        if r["status"] == 200 and outcome != "retry":
            self.town.answered((row[0], i) for i in unsure)
        return r["status"]

    def mode(self):
        x = self.rng.choice(self.town.boxes)
        self.step_up()
        r = call1(self.rv, "mode_set_1", s=self.s, tenant=x.tenant,
                  inbox=x.inbox, to_mode=self.rng.choice((1, 2, 2, 3, 4)),
                  reason="r")
        if r["status"] == 200:
            x.seen = (r["mode"], r["mode_epoch"])
        return r["status"]

    def step_up(self):
        new = os.urandom(32)
        r = call1(self.rv, "step_up_password_1", s=self.s,
                  output=self.w.passwords[self.name], next_sha256=sha256(new))
        assert r["status"] == 200, r
        self.s[:] = new

    def switch(self, name, what, x, **args):
        """On, and off again: what is acknowledged holds until then."""
        args.update(s=self.s, tenant=x.tenant, reason="r")
        switched = x.switched if args["inbox"] else \
            self.town.switched[x.tenant]
        if not switched.acquire(blocking=False):
            return "another does"
        try:
            if x not in self.town.boxes:  # deleted since it was chosen
                return "gone"
            r = call1(self.rv, name, **{what: True}, **args)
            assert r["status"] == 200, r
            stop = self.town.promise(
                what, ("inbox", x.inbox) if args["inbox"]
                else ("tenant", x.tenant), time.time())
            for _ in range(self.rng.randint(0, 3)):
                self.step()
            self.step_up()
            stop[3] = time.time()
            self.surely(self.rv, name, **{what: False}, **args)
        finally:
            switched.release()
        return 200

    def surely(self, conn, name, **args):
        while True:
            try:
                assert call1(conn, name, **args)["status"] == 200
                return
            except psycopg2.Error as e:
                if e.pgcode not in AGAIN:
                    raise

    def pause(self):
        x = self.rng.choice(self.town.boxes)
        return self.switch("pause_1", "paused", x, inbox=self.rng.choice(
            (x.inbox, x.inbox, None)))

    def suspend(self):
        x = self.rng.choice(self.town.boxes)
        return self.switch("suspend_1", "suspended", x, inbox=x.inbox)

    def rule(self):
        """Holds a domain back, or sends it another way, for some steps."""
        x = self.rng.choice(self.town.boxes)
        t = self.rng.choice((None, x.tenant))
        with self.town.lock:
            r = call1(self.ctl, "route_add_1", s=self.w.root, uid=0, tenant=t,
                      inbox=self.rng.choice((None, x.inbox)) if t else None,
                      name=self.rng.choice(HOSTS + ["*"]),
                      action=self.rng.choice("sst"), host=None, port=None,
                      login=None, sealed=None, expires_in=None, reason="r")
        # Its inbox may be gone.
        if r["status"] != 200:
            return r["status"]
        for _ in range(self.rng.randint(0, 3)):
            self.step()
        with self.town.lock:
            self.surely(self.ctl, "route_end_1", s=self.w.root, uid=0,
                        route=r["route_id"], reason="r")
        return 200

    def block(self):
        x = self.rng.choice(self.town.boxes)
        r = call1(self.rv, "list_set_1", s=self.s, tenant=x.tenant,
                  inbox=x.inbox, entry="%s@%s" % (
                      self.rng.choice(PEOPLE), self.rng.choice(HOSTS)),
                  verdict=self.rng.choice("bs"), expires=None, reason="r")
        if r["status"] != 200:
            return r["status"]
        self.sweep()
        return call1(self.rv, "list_remove_1", s=self.s,
                     entry_id=r["entry_id"], reason="r")["status"]

    def allow(self):
        x = self.rng.choice(self.town.boxes)
        self.step_up()
        r = call1(self.rv, "allow_set_1", s=self.s, tenant=x.tenant,
                  inbox=x.inbox, entry="@" + self.rng.choice(HOSTS), uses=3,
                  days=1, reason="r")
        if r["status"] != 200:
            return r["status"]
        for _ in range(3):
            m = self.made(x)
            m.update(relay_box=b"r" * 200, tag=b"g" * 32, tag_mode=x.seen[0],
                     tag_mode_epoch=x.seen[1],
                     expiry=int((time.time() + 3600) * 1e6), not_after=0,
                     send_at=0, dig=None)
            m = x.message(m["rcpts"].split("\n"), **{
                k: v for k, v in m.items() if k not in ("rcpts", "mid")})
            self.keep(x, m, submit(self.gw, m))
        if self.rng.random() < .5:
            call1(self.rv, "allow_end_1", s=self.s, rule=r["rule_id"])
        return 200

    def job(self):
        x = self.rng.choice(self.town.boxes)
        job = uuid7()
        verdict = self.rng.choice("ar")
        r = call1(self.rv, "job_make_1", s=self.s, job=job, verdict=verdict,
                  tenant=x.tenant, inbox=x.inbox, q=None, ids=None,
                  about="all")
        if r["status"] != 200 or r["items"] == 0:
            return ("make", r["status"])
        sha = call1(self.rv, "jobs_1", s=self.s, job=job)["items_sha256"]
        r = call1(self.rv, "job_confirm_1", s=self.s, job=job,
                  items_sha256=sha, category="other" if verdict == "r"
                  else None, note=None, hint=None)
        if r["status"] != 200:
            return ("confirm", r["status"])
        if verdict == "r":
            r = call1(self.rv, "job_reject_1", s=self.s, job=job, lim=5)
            return ("reject", r["status"])
        for row in call(self.rv, "job_next_1", s=self.s, job=job, lim=5):
            if row["status"] != 200 or row["ix"] is None:
                break
            self.town.made.add((row["message_id"], row["round"]))
            call1(self.rv, "job_approve_1", s=self.s, job=job, item=row["ix"],
                  relay_box=b"r" * 200, tag=b"g" * 32,
                  expiry=row["not_after"] or
                  int((time.time() + 3600) * 1e6), undo_seconds=0,
                  failed=None)
        r = call1(self.rv, "job_undo_1", s=self.s, job=job, lim=5)
        return ("undo", r["status"])

    # -- workers --------------------------------------------------------------

    def claim(self):
        skip = self.rng.sample(HOSTS, self.rng.choice((0, 0, 1, 2)))
        got = [q for q in call(self.wk, "claim_due_1", worker=self.name,
                               lim=self.rng.randint(1, 12), lease_seconds=60,
                               skip=skip or None) if q["status"] == 200]
        for q in got:
            L = dict(t=q["tenant_id"], mid=q["message_id"], dom=q["domain"],
                     lease=q["lease"])
            self.leases.append(L)
        return len(got)

    def take(self):
        if not self.leases:
            return None
        return self.leases.pop(self.rng.randrange(len(self.leases)))

    def deliver(self):
        L = self.take()
        if L is None:
            return None
        r = self.rng
        f = call1(self.wk, "fetch_1", **L)
        if f["status"] != 200:
            return ("fetch", f["status"])
        due = [int(i) for i in f["due_ix"].split(",")] if f["due_ix"] else []
        if not due:
            call1(self.wk, "release_lease_1", retry_seconds=0, **L)
            return "none due"
        host = "mx." + L["dom"]
        if r.random() < .8:
            a = call1(self.wk, "attempt_1", mx=host, tls="", ix=due, **L)
            if not a["go"]:
                return ("mail", a["status"], a["reason"])
        if r.random() < .15:
            return self.finish(L, {i: r.choice((LATER, FAILED))
                                   for i in due}, host)
        to = due[:r.randint(1, len(due))]
        new = self.town.dotted(L["mid"], to)
        since = time.time()
        d = call1(self.wk, "dot_1", ix=to, host=host, safety="", **L)
        if not d["go"]:
            self.town.answered(new)
            return ("dot", d["status"], d["reason"])
        self.town.dots.append((L["mid"], since, time.time()))
        if r.random() < .15:  # died there
            return "lost"
        results = {i: r.choice((DONE, DONE, DONE, LATER, FAILED, UNCERTAIN))
                   for i in to}
        did = self.finish(L, results, host)
        if did == ("done", 200):
            self.town.answered((L["mid"], i) for i, v in results.items()
                               if v != UNCERTAIN)
        return did

    def finish(self, L, results, host):
        n = len(results)
        code = {DONE: 250, LATER: 450, FAILED: 550, UNCERTAIN: 0}
        return ("done", call1(
            self.wk, "done_1", ix=list(results),
            result=list(results.values()),
            reply_code=[code[v] for v in results.values()],
            enhanced=["5.7.1" if v == FAILED else "2.0.0"
                      for v in results.values()], reply=["said"] * n,
            retry_seconds=self.rng.choice((0, 60)), mx_result="ok",
            host=host, safety="", **L)["status"])

    def deliver_set(self):
        some = [L for L in (self.take() for _ in range(6)) if L]
        if not some:
            return None
        names = {k + "s": [L[k] for L in some]
                 for k in ("t", "mid", "dom", "lease")}
        got = {f["i"]: f for f in call(self.wk, "fetches_1", small=65536,
                                       **names)}
        go = [(L, got[i + 1]["due_ix"]) for i, L in enumerate(some)
              if i + 1 in got and got[i + 1]["due_ix"]]
        if not go:
            return "none"
        names = {k + "s": [L[k] for L, _ in go]
                 for k in ("t", "mid", "dom", "lease")}
        ix = ["{%s}" % due for _, due in go]
        boxes = [got[some.index(L) + 1]["inbox_id"] for L, _ in go]
        new = [self.town.dotted(L["mid"], map(int, due.split(",")))
               for L, due in go]
        since = time.time()
        dots = sorted(d["i"] for d in call(
            self.wk, "dots_1", boxes=boxes, ixs=ix, tlss=[""] * len(go),
            mxs=["mx." + L["dom"] for L, _ in go], **names))
        until = time.time()
        for i, those in enumerate(new):
            if i + 1 in dots:
                self.town.dots.append((go[i][0]["mid"], since, until))
            else:
                self.town.answered(those)
        if not dots or self.rng.random() < .1:
            return "lost" if dots else "no dot"
        names = {k: [v[i - 1] for i in dots] for k, v in names.items()}
        n = len(dots)
        for r in call(self.wk, "sents_1", ixs=[ix[i - 1] for i in dots],
                      codes=[250] * n, enhs=["2.0.0"] * n,
                      replies=["ok"] * n, **names):
            L, due = go[dots[r["i"] - 1] - 1]
            self.town.answered((L["mid"], int(i)) for i in due.split(","))
        return n

    def drop(self):
        L = self.take()
        if L is None:
            return None
        if self.rng.random() < .1:
            return call1(self.wk, "integrity_1", why="tag", **L)["status"]
        if self.rng.random() < .5:
            return "together", len(call(self.wk, "releases_1", secs=[0],
                                        **{k + "s": [L[k]] for k in L}))
        return call1(self.wk, "release_lease_1", retry_seconds=0,
                     **L)["status"]

    def sweep(self):
        n = 0
        for r in call(self.wk, "sweep_1", lim=100):
            n += r["n"] or 0
        return n > 0

    def age(self):
        """Time passes for some."""
        which = self.rng.choice((
            "UPDATE d.state SET hold_until = now() - interval '1 s' "
            "WHERE state = 1 AND message_id = %s",
            "UPDATE d.send_q SET lease_until = now() - interval '1 s' "
            "WHERE lease IS NOT NULL AND message_id = %s",
            "UPDATE d.send_q SET stale_at = now() - interval '1 s' "
            "WHERE message_id = %s",
            "UPDATE d.send_q SET give_up_at = now() - interval '1 s' "
            "WHERE message_id = %s",
            "UPDATE d.send_q SET due_at = now() - interval '1 s' "
            "WHERE message_id = %s"))
        cur = self.su.cursor()
        for _ in range(5):
            m, _ = self.some()
            if m:
                cur.execute(which, (m["mid"],))
        return None
