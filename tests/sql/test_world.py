# SPDX-License-Identifier: ISC
"""Seeded random calls by every role; after each, what must always hold.

A failure prints the seed and the last calls; --seed N plays it again.
"""
import os
import random
import time

import psycopg2
import pytest

from pgcluster import call, submit, submit_batch, types_of, uuid7

FUNCTIONS = {}
EDGES = """SELECT from_state, to_state FROM d.edge"""

INVARIANTS = {
    "a released state has its release": """SELECT s.message_id FROM d.state s
        WHERE s.state IN (2, 7, 8, 9, 10, 11) AND NOT EXISTS (SELECT 1
        FROM d.release r WHERE r.message_id = s.message_id
        AND r.tenant_id = s.tenant_id AND r.version = s.version
        AND r.round = s.round)""",
    "an operator's release has its votes": """SELECT r.message_id
        FROM d.release r JOIN d.message m ON m.message_id = r.message_id
        AND m.tenant_id = r.tenant_id AND m.version = r.version
        WHERE r.by_what = 'o' AND m.need_approvals > (SELECT
        count(DISTINCT c.operator_id) FROM d.decision c
        WHERE c.message_id = r.message_id AND c.tenant_id = r.tenant_id
        AND c.version = r.version AND c.round = r.round AND c.verdict = 'a'
        AND c.digest = r.digest)""",
    "a policy's release had a mode for it": """SELECT r.message_id
        FROM d.release r JOIN d.message m ON m.message_id = r.message_id
        AND m.tenant_id = r.tenant_id WHERE r.by_what <> 'o'
        AND (r.mode < CASE r.by_what WHEN 'm' THEN 3 ELSE 1 END
        OR r.mode <> m.mode OR r.round <> 1
        OR r.mode_epoch <> m.mode_epoch)""",
    "a rule's release had rules for it, and for its dots": """SELECT
        r.message_id FROM d.release r JOIN d.message m
        ON m.message_id = r.message_id AND m.tenant_id = r.tenant_id
        CROSS JOIN LATERAL (SELECT r.at UNION ALL SELECT a.dot_at
        FROM d.attempt a WHERE a.message_id = r.message_id
        AND a.round = r.round AND a.dot_at IS NOT NULL) x(at)
        WHERE r.by_what = 'r' AND (m.attachments > 0 OR m.finding_max >= 50
        OR m.findings_set IS NULL OR EXISTS (SELECT 1 FROM unnest(m.rcpt) y
        WHERE NOT EXISTS (SELECT 1 FROM d.allow_rule u
        WHERE u.inbox_id = r.inbox_id AND u.created_at <= x.at
        AND (u.ended_at IS NULL OR u.ended_at > x.at)
        AND u.entry IN (y, '@' || split_part(y, '@', 2)))))""",
    "only the released queue": """SELECT q.message_id FROM d.send_q q
        JOIN d.state s ON s.message_id = q.message_id
        AND s.tenant_id = q.tenant_id WHERE s.state NOT IN (2, 7, 9, 11)""",
    "what is due has a queue row": """SELECT s.message_id FROM d.state s
        WHERE s.state IN (2, 7, 9) AND NOT EXISTS (SELECT 1 FROM d.send_q q
        WHERE q.message_id = s.message_id AND q.tenant_id = s.tenant_id)""",
    "a dot only in sending": """SELECT v.message_id FROM d.delivery v
        JOIN d.state s ON s.message_id = v.message_id
        AND s.tenant_id = v.tenant_id WHERE v.status IN (1, 2)
        AND s.state <> 7""",
    "a lease is a sending message": """SELECT q.message_id FROM d.send_q q
        JOIN d.state s ON s.message_id = q.message_id
        AND s.tenant_id = q.tenant_id WHERE q.lease IS NOT NULL
        AND s.state <> 7""",
    "delivered only after a dot": """SELECT v.message_id FROM d.delivery v
        WHERE v.status = 3 AND NOT EXISTS (SELECT 1 FROM d.attempt a
        WHERE a.message_id = v.message_id AND a.tenant_id = v.tenant_id
        AND a.domain = v.domain AND a.dot_at IS NOT NULL)""",
    # What a worker says of a host that it never got a go for is only said.
    "nothing of a test inbox was sent": """SELECT a.message_id
        FROM d.attempt a JOIN d.inbox x ON x.tenant_id = a.tenant_id
        AND x.inbox_id = a.inbox_id WHERE x.test AND a.mx NOT IN ('capture',
        'none') AND (a.dot_at IS NOT NULL OR a.ended_at IS NULL)
        OR a.mx = 'capture' AND NOT x.test""",
    "what is captured was delivered so, and only that": """SELECT
        coalesce(c.message_id, v.message_id) FROM d.capture c
        FULL JOIN (SELECT v.message_id, v.ix FROM d.delivery v JOIN d.inbox x
        ON x.tenant_id = v.tenant_id AND x.inbox_id = v.inbox_id
        WHERE x.test AND v.status = 3) v ON v.message_id = c.message_id
        AND v.ix = ANY (c.ix) WHERE c.message_id IS NULL
        OR v.message_id IS NULL""",
    "results add up": """SELECT s.message_id FROM d.state s JOIN (SELECT
        v.message_id, v.tenant_id, CASE
        WHEN bool_or(v.status IN (1, 2)) THEN 7
        WHEN bool_or(v.status = 6) THEN 11
        WHEN bool_or(v.status IN (0, 4)) THEN 9
        WHEN bool_or(v.status IN (5, 7)) THEN 10
        WHEN bool_or(v.status = 3) THEN 8 ELSE 5 END AS st
        FROM d.delivery v GROUP BY 1, 2) x ON x.message_id = s.message_id
        AND x.tenant_id = s.tenant_id
        WHERE s.state IN (8, 9, 10, 11) AND s.state <> x.st""",
    "the held counter counts": """SELECT q.inbox_id FROM d.quota q
        WHERE q.held <> (SELECT count(*) FROM d.state s
        WHERE s.tenant_id = q.tenant_id AND s.inbox_id = q.inbox_id
        AND s.state = 1)""",
    "a rejection has its decision": """SELECT s.message_id FROM d.state s
        WHERE s.state = 3 AND NOT EXISTS (SELECT 1 FROM d.decision c
        WHERE c.message_id = s.message_id AND c.tenant_id = s.tenant_id
        AND c.verdict = 'r' AND c.round = s.round)""",
    "every message has one state": """SELECT m.message_id FROM d.message m
        LEFT JOIN d.state s ON s.message_id = m.message_id
        AND s.tenant_id = m.tenant_id WHERE s.message_id IS NULL""",
    "events are legal moves": """SELECT e.message_id FROM (SELECT message_id,
        tenant_id, type, state, actor, lag(state) OVER (PARTITION BY message_id,
        tenant_id ORDER BY n) AS was FROM d.event) e WHERE e.was IS NOT NULL
        AND (e.type <> 'message.unsubscribed' OR e.state <> e.was)
        AND NOT EXISTS (SELECT 1 FROM d.edge g WHERE g.from_state = e.was
        AND g.to_state = e.state AND g.actor = CASE e.actor
        WHEN 'agent' THEN 'p_submit' WHEN 'operator' THEN 'p_review'
        WHEN 'worker' THEN 'p_relay' WHEN 'policy' THEN 'p_policy'
        ELSE 'p_ctl' END)""",
}


class Player:
    """Knows enough to make calls that often succeed, and often must not."""

    def __init__(self, db, w, rnd):
        self.db, self.w, self.rnd = db, w, rnd
        self.boxes = w.inboxes + [
            w.inbox(t, "rnd%d-%d@%s" % (rnd.randrange(10**9), i, host))
            for i, (t, host) in enumerate(((w.tenants[0], "t0.example"),
                                           (w.tenants[1], "t1.example")))]
        self.boxes.append(w.inbox(
            w.tenants[0], "probe%d@t0.example" % rnd.randrange(10**9),
            test=True))
        tag_ = str(rnd.randrange(10**9))
        self.sessions = [w.root,
                         w.operator("r0" + tag_, "reviewer",
                                    tenant=w.tenants[0]),
                         w.operator("s1" + tag_, "senior",
                                    tenant=w.tenants[1]),
                         w.operator("a0" + tag_, "auditor",
                                    tenant=w.tenants[0]),
                         os.urandom(32)]
        from test_provision import token
        self.provs = [token(w, t, max_inboxes=20)[1] for t in w.tenants]
        self.sent = []
        self.leases, self.tokens = [], []
        self.log = []
        self.conns = {r: db.connect(r) for r in (
            "l_gateway", "l_review", "l_worker", "l_ctl", "l_seal", "l_auth")}
        self.may = {}
        su = db.connect("postgres")
        cur = su.cursor()
        for r in self.conns:
            cur.execute("SELECT p.proname FROM pg_proc p WHERE p.pronamespace"
                        " = 'api'::regnamespace AND has_function_privilege("
                        "%s, p.oid, 'EXECUTE') ORDER BY 1", (r,))
            self.may[r] = [n for n, in cur.fetchall()]
            for n in self.may[r]:
                types_of(su, n)
        self.su = su
        self.seen, self.whose = {}, {}

    # -- values -----------------------------------------------------------

    def box(self):
        return self.rnd.choice(self.boxes)

    def some(self):
        return self.rnd.choice(self.sent) if self.sent else None

    def rule(self):
        cur = self.su.cursor()
        cur.execute("SELECT rule_id FROM d.allow_rule "
                    "WHERE ended_at IS NULL ORDER BY 1")
        return self.rnd.choice(cur.fetchall() or [(1,)])[0]

    def value(self, fn, name, kind, ctx):
        r = self.rnd
        x, m, L = ctx["x"], ctx["m"], ctx["L"]
        if r.random() < 0.03:
            return None
        if fn.startswith("prov_") and name in "tka":
            return ctx["prov"][name]
        special = {
            "t": lambda: L["t"] if L and fn in WORKER else x.tenant,
            "k": lambda: ctx["key"][0], "a": lambda: ctx["key"][1],
            "mid": lambda: L["mid"] if L and fn in WORKER
            else (m["mid"] if m else uuid7()),
            "s": lambda: ctx["s"], "uid": lambda: r.randrange(2000),
            "tenant": lambda: r.choice([x.tenant, x.tenant, None]),
            "inbox": lambda: r.choice([x.inbox, x.inbox, None]),
            "dig": lambda: m["dig"] if m and r.random() < .9
            else os.urandom(32),
            "for_version": lambda: 1,
            "for_round": lambda: self.seen.get(m["mid"], (1, 1))[1]
            if m and r.random() < .9 else r.randrange(1, 4),
            "verdict": lambda: r.choice("aaarbs"),
            "category": lambda: r.choice(["other", "policy", "nonsense"]),
            "hint": lambda: r.choice([None, "ask_human"]),
            "relay_box": lambda: b"r" * r.choice([200, 200, 1]),
            "tag": lambda: b"g" * r.choice([32, 32, 32, 5]),
            "expiry": lambda: int((time.time() + r.choice(
                [3600, 3600, -5, 10**7])) * 1e6),
            "undo_seconds": lambda: r.choice([0, 0, 0, 60, 999]),
            "resend": lambda: r.choice([None, [1], [2, 3]]),
            "to_mode": lambda: r.choice([0, 1, 2, 2, 3, 4, 7]),
            "paused": lambda: r.random() < .3,
            "suspended": lambda: r.random() < .2,
            "disabled": lambda: False,
            "dom": lambda: L["dom"] if L else "x.example",
            "lease": lambda: L["lease"] if L and r.random() < .95
            else uuid7(),
            "leases": lambda: [q["lease"] for q in self.leases[-5:]],
            "ix": lambda: ctx["ix"] if kind.endswith("[]") else ctx["ix"][0],
            "token": lambda: r.choice(self.tokens[-9:] or [os.urandom(34)]),
            "result": lambda: [r.choice([3, 3, 5, 5, 4, 6])] * len(ctx["ix"]),
            "reply_code": lambda: [250] * len(ctx["ix"]),
            "enhanced": lambda: ["2.0.0"] * len(ctx["ix"]),
            "reply": lambda: ["ok"] * len(ctx["ix"]),
            "worker": lambda: "w%d" % r.randrange(3),
            "lim": lambda: r.choice([1, 5, 50, 10**6, -1]),
            "lease_seconds": lambda: r.choice([1, 60, 300, 0]),
            "retry_seconds": lambda: 0,
            "sealed": lambda: os.urandom(r.choice([64, 64, 64, 5])),
            "mail_from": lambda: x.address,
            "key_epoch": lambda: 1,
            "grantee": lambda: self.box().inbox,
            "permit": lambda: r.randrange(1, 30),
            "other_epoch": lambda: 1, "epoch": lambda: 1,
            "days": lambda: r.choice([1, 1, 0, 200]),
            "box": lambda: r.choice([b"x" * 80, None, b"y"]),
            "new_address": lambda: "w%d@t%d.example" % (
                r.randrange(10**9), r.randrange(2)),
            "claim_sha256": lambda: os.urandom(32),
            "mx": lambda: r.choice(["mx.example", "mx.example", "none"]),
            "outcome": lambda: r.choice(["sent", "failed", "retry", "x"]),
            "states": lambda: r.choice([None, "1", "2,7,9", "3,4,5,8,10"]),
            "q": lambda: r.choice([None, "hello", "@x.example",
                                   "b@x.example", "%' OR 1=1 --"]),
            "after_key": lambda: r.choice([None, "50:%s" % uuid7(),
                                           "x'; DROP TABLE d.message"]),
            "entry": lambda: r.choice(["b@x.example", "@y.example", "no"])
            if fn != "allow_set_1" else r.choice(
                ["b@x.example", "c@x.example", "@z.example"]),
            "rule": self.rule,
            "what": lambda: r.choice(["sender_mismatch", "dead_key", "zz",
                                      str(m["mid"]) if m else "x"]),
            "which": lambda: r.choice([x.send_key, x.full_key, 10**9])
            if kind != "text" else x.address,
            "after": lambda: None, "since": lambda: None,
            "until": lambda: None, "label": lambda: None,
            "from_seq": lambda: 0, "seq": lambda: r.randrange(3),
            "data": lambda: os.urandom(r.choice([1, 100])),
            "name": lambda: r.choice(["root", "nobody", "t0.example"]),
            "slug": lambda: r.choice(["tenant0", "Bad"]),
            "weeks_ahead": lambda: r.choice([2, 4, 6]),
            "body_days": lambda: 30, "meta_days": lambda: 400,
        }
        if name in special:
            return special[name]()
        base = kind.replace("[]", "")
        v = {"bigint": lambda: r.randrange(10**6),
             "integer": lambda: r.randrange(100),
             "smallint": lambda: r.randrange(6),
             "boolean": lambda: r.random() < .5,
             "uuid": uuid7, "bytea": lambda: os.urandom(r.choice(
                 [16, 24, 32])),
             "text": lambda: r.choice(["", "text", "ü\n'\"\\%", "x" * 300]),
             "timestamp with time zone": lambda: None}[base]()
        return [v] if kind.endswith("[]") else v

    # -- steps ------------------------------------------------------------

    def submit_step(self):
        x = self.box()
        r = self.rnd
        rcpts = r.sample(["b@x.example", "c@x.example", "d@y.example",
                          "e@z.example"], r.randrange(1, 4))
        cur = self.su.cursor()
        cur.execute("SELECT mode, mode_epoch FROM d.inbox WHERE inbox_id = "
                    "%s", (x.inbox,))
        mode, epoch = cur.fetchone()
        if r.random() < .1:
            self.w.step_up(self.w.root)
            call(self.conns["l_review"], "allow_set_1", s=self.w.root,
                 tenant=x.tenant, inbox=x.inbox, entry=rcpts[0], uses=9,
                 days=1, reason="r")
            rcpts = rcpts[:1]
        over = dict(risk=r.choice([0, 50, 80]),
                    findings_set=r.choice([None, 1, 1]),
                    finding_max=r.choice([0, 0, 60]),
                    attachments=r.choice([0, 0, 1]))
        if r.random() < .7:
            over.update(relay_box=b"r" * 200, tag=b"g" * 32, tag_mode=mode,
                        tag_mode_epoch=epoch if r.random() < .8 else 1,
                        expiry=int((time.time() + 3600) * 1e6))
        if r.random() < .2:
            over["dig"] = os.urandom(32)
        batch = [x.message(rcpts, **over) for _ in range(r.randrange(1, 4))]
        if r.random() < .2:
            batch.append(r.choice(batch))
        if r.random() < .2:
            batch.append(dict(batch[0], a=os.urandom(32)))
        conn = self.conns["l_gateway"]
        try:
            got = submit_batch(conn, batch) if r.random() < .8 else None
        except psycopg2.errors.CheckViolation:
            got = None  # a wrong digest: row by row, as the committer does
        if got is None:
            got = [submit(conn, m) for m in batch]
        for m, g in zip(batch, got):
            if g["status"] == 202:
                self.sent.append(m)
        self.log.append(("submit_batch_1", [g["status"] for g in got]))

    def rule_step(self):
        """A rule lets one go and is ended, at whatever moment of the walk:
        no chance of one call after the other makes sure of it."""
        x, r = self.box(), self.rnd
        cur = self.su.cursor()
        for table in "global_pause", "tenant", "inbox":
            cur.execute("UPDATE d.%s SET paused_at = NULL "
                        "WHERE paused_at IS NOT NULL" % table)
        cur.execute("SELECT mode, mode_epoch FROM d.inbox WHERE inbox_id = "
                    "%s", (x.inbox,))
        mode, epoch = cur.fetchone()
        if mode not in (1, 2):
            mode, epoch = 2, self.w.mode(x, 2)
        rcpt = "r%d@rule.example" % r.randrange(10**9)
        self.w.step_up(self.w.root)
        (rule,) = call(self.conns["l_review"], "allow_set_1", s=self.w.root,
                       tenant=x.tenant, inbox=x.inbox, entry=rcpt,
                       uses=r.choice([1, 9]), days=1, reason="r")
        m = x.message([rcpt], findings_set=1, relay_box=b"r" * 200,
                      tag=b"g" * 32, tag_mode=mode, tag_mode_epoch=epoch,
                      expiry=int((time.time() + 3600) * 1e6))
        got = submit(self.conns["l_gateway"], m)
        if got["status"] == 202:
            self.sent.append(m)
        end = call(self.conns["l_review"], "allow_end_1", s=self.w.root,
                   rule=rule["rule_id"])
        self.log.append(("a rule", rule["status"], got["status"],
                         got["state"], end[0]["status"]))

    def step(self):
        r = self.rnd
        if r.random() < .01:
            return self.rule_step()
        if r.random() < .22:
            return self.submit_step()
        role = r.choice(["l_gateway", "l_review", "l_review", "l_worker",
                         "l_worker", "l_worker", "l_ctl", "l_seal",
                         "l_auth"])
        names = [n for n in self.may[role] if n not in SKIP
                 and (role != "l_review" or n not in self.may["l_ctl"]
                      or n in ("pause_1", "mode_set_1", "list_set_1"))]
        fn = r.choice(names)
        if role == "l_worker" and r.random() < .6:
            fn = r.choice(["claim_due_1", "attempt_1", "dot_1", "dot_1",
                           "capture_1", "capture_1",
                           "done_1", "done_1", "sweep_1"])
        elif role == "l_review" and r.random() < .6:
            fn = r.choice(["decide_1", "decide_1", "decide_1", "undo_1",
                           "uncertain_1", "pause_1", "mode_set_1",
                           "allow_set_1", "allow_end_1"])
        x, m = self.box(), self.some()
        L = r.choice(self.leases[-8:]) if self.leases else None
        key = r.choice([(x.send_key, x.send_a), (x.full_key, x.full_a),
                        (x.full_key, x.full_a), (x.send_key, os.urandom(32)),
                        (self.box().full_key, x.full_a)])
        s = r.choice(self.sessions) if r.random() < .5 else self.w.root
        if role == "l_review" and s is self.w.root and r.random() < .5:
            self.w.step_up(s)
        # Now and then a delivery goes through all its steps.
        whole = role == "l_worker" and L and r.random() < .7
        for one in ["attempt_1", "dot_1", "done_1"] if whole else [fn]:
            self.play(role, one, x, m, L, key, s)

    def play(self, role, fn, x, m, L, key, s):
        r = self.rnd
        n = r.randrange(1, 4)
        ctx = dict(x=x, m=m, L=L, key=key, s=s, prov=r.choice(self.provs),
                   ix=sorted(r.sample([1, 2, 3], n)))
        if L and fn in ("attempt_1", "dot_1", "done_1", "capture_1",
                       "one_click_1") and r.random() < .9:
            cur = self.su.cursor()
            cur.execute("SELECT ix FROM d.delivery WHERE message_id = %s AND "
                        "domain = %s AND status IN (0, 1, 2, 4)",
                        (L["mid"], L["dom"]))
            ctx["ix"] = [i for i, in cur.fetchall()] or ctx["ix"]
        args = {a: self.value(fn, a, t, ctx)
                for a, t in types_of(self.su, fn).items()}
        got = call(self.conns[role], fn, **args)
        self.log.append((role, fn, args, [g["status"] for g in got][:3]))
        if fn == "one_click_1":
            self.tokens += [q["token"] for q in got if q["token"]]
        if fn == "claim_due_1":
            for q in got:
                if q["status"] == 200:
                    self.leases.append(dict(
                        t=q["tenant_id"], mid=q["message_id"],
                        dom=q["domain"], lease=q["lease"]))
        self.check_scope(role, fn, args, ctx, got)

    def check_scope(self, role, fn, args, ctx, got):
        """No row of a foreign inbox comes back, no refusal carries data."""
        for g in got:
            if g["status"] >= 400 and fn in CONTENT:
                assert all(g.get(c) is None for c in CONTENT[fn]), (fn, g)
            if role == "l_gateway" and g["status"] == 200 \
                    and g.get("mail_from") is not None:
                assert g["mail_from"] in {
                    y.address for y in self.boxes
                    if y.full_key == args["k"] or y.send_key == args["k"]}
        if fn in ("decide_1", "undo_1") and got[0]["status"] == 200:
            assert args["s"] not in (self.sessions[3], self.sessions[4])
            t = next(m for m in self.sent if m["mid"] == args["mid"])["t"]
            if args["s"] == self.sessions[1]:
                assert t == self.w.tenants[0]
            if args["s"] == self.sessions[2]:
                assert t == self.w.tenants[1]

    def check_moves(self):
        """Every change since the last look is a path of legal edges."""
        cur = self.su.cursor()
        cur.execute("SELECT message_id, state, round, tenant_id FROM d.state")
        rows = cur.fetchall()
        now = {m: (s, r) for m, s, r, _ in rows}
        self.whose.update((m, t) for m, _, _, t in rows)
        cur.execute("SELECT tenant_id FROM d.tenant "
                    "WHERE deleted_at IS NOT NULL")
        ended = {t for t, in cur.fetchall()}
        for m, (s, r) in self.seen.items():
            if m not in now:  # maintain takes it with its tenant (0084)
                assert self.whose[m] in ended, "a message vanished"
                continue
            if s in (3, 4, 5, 8, 10):
                assert now[m] == (s, r), ("a final state moved", m)
            assert now[m][1] >= r, ("a round went back", m)
        self.seen = now

    def check(self):
        self.check_moves()
        cur = self.su.cursor()
        for name, sql in INVARIANTS.items():
            cur.execute(sql)
            bad = cur.fetchall()
            assert not bad, (name, bad[:3])


WORKER = {"capture_1", "fetch_1", "fetch_body_1", "attempt_1", "dot_1", "done_1",
          "release_lease_1", "integrity_1"}
# Ends keys, sessions or service for the rest of the run.
SKIP = {"provisioner_end_1", "provisioner_rotate_1", "password_set_1", "scope_end_1", "session_drop_1",
        "key_revoke_1", "session_end_1", "inbox_reset_1", "operator_disable_1",
        "key_kill_1", "tenant_set_1", "suspend_1",
        "factor_reset_1", "limits_set_1", "plan_set_1", "seal_put_1", "submit_1",
        "submit_batch_1", "session_create_1", "step_up_password_1"}
CONTENT = {"my_get_1": ["subject", "rcpts", "inbox_box", "wrapped"],
           "my_body_1": ["data"], "fetch_1": ["rcpts", "relay_box", "tag"],
           "fetch_body_1": ["data"], "review_get_1": ["subject", "rcpts"],
           "review_body_1": ["data"],
           "review_keys_1": ["tenant_box", "tenant_priv"],
           "auth_1": ["inbox_id", "address", "tenant_pub"]}


STATES = {1, 2, 3, 4, 5, 8, 9, 10, 11}


def test_random_calls(db, w, request):
    seed = request.config.getoption("--seed")
    calls = request.config.getoption("--calls")
    p = Player(db, w, random.Random(seed))
    reached = set()
    try:
        # The run is worth something only if it got everywhere: which end a
        # delivery takes also hangs on the clock, so it may go on for longer.
        for i in range(3 * calls):
            if i >= calls and (calls < 3000 or reached >= STATES):
                break
            p.step()
            if i % 40 == 39:
                cur = p.su.cursor()
                cur.execute("SELECT DISTINCT state FROM d.state")
                reached |= {row[0] for row in cur}
                if p.rnd.random() < .5:
                    cur.execute("UPDATE d.send_q SET due_at = now() "
                                "WHERE lease IS NULL")
                if p.rnd.random() < .2:
                    cur.execute("UPDATE d.send_q SET lease_until = now() - "
                                "interval '1 s' WHERE lease IS NOT NULL AND "
                                "random() < .5")
                if p.rnd.random() < .1:
                    cur.execute("UPDATE d.state SET hold_until = now() WHERE "
                                "state = 1 AND random() < .2")
                if p.rnd.random() < .1:
                    cur.execute("UPDATE d.global_pause SET paused_at = NULL")
                    cur.execute("UPDATE d.tenant SET paused_at = NULL")
                p.check()
        p.check()
    except (AssertionError, psycopg2.Error, KeyError) as e:
        pytest.fail("seed %d after %d calls: %r\nlast calls:\n%s" % (
            seed, len(p.log), e, "\n".join(str(q) for q in p.log[-6:])))
    finally:
        cur = p.su.cursor()
        cur.execute("UPDATE d.global_pause SET paused_at = NULL")
        cur.execute("UPDATE d.tenant SET paused_at = NULL")
        cur.execute("UPDATE d.inbox SET paused_at = NULL")
        cur.execute("UPDATE d.list_entry SET ended_at = now()")
    cur.execute("SELECT DISTINCT state FROM d.state")
    reached |= {row[0] for row in cur}
    cur.execute("SELECT count(*) > 0, count(*) FILTER (WHERE d.rule_ended("
                "message_id, tenant_id, version, round)) > 0 FROM d.release "
                "WHERE by_what = 'r'")
    if calls >= 3000:
        assert cur.fetchone() == (True, True), "no rule let go, or was ended"
        assert reached >= STATES, "never reached: %s" % (STATES - reached)
    assert len(p.log) >= calls
