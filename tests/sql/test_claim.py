# SPDX-License-Identifier: ISC
"""
Who is claimed: all that may go and nothing else, and no claim walks twice over
what may not.
"""
import os
import random

import pytest

import pgcluster
from pgcluster import call, call1
from test_gate import one
from test_relay import alone, approved

DOMAINS = ["%s.example" % c for c in "abcdef"]
STEPS = 3000 if os.environ.get("POSTERN_FULL") == "1" else 250
RULE = "INSERT INTO d.route (tenant_id, inbox_id, domain, action, host, " \
    "port, created_by, reason) VALUES (%s, %s, %s, %s, %s, %s, 'x', 'x')"


def claim(conn, lim, skip=None):
    """The leases, and whether there may be more."""
    got = call(conn, "claim_due_1", worker="w1", lim=lim, lease_seconds=600,
               skip=skip)
    return ([dict(t=q["tenant_id"], mid=q["message_id"], dom=q["domain"],
                  lease=q["lease"]) for q in got if q["status"] == 200],
            any(q["status"] == 206 for q in got))


def claim_all(conn, skip=None):
    every = []
    while True:
        got, more = claim(conn, 20, skip)
        every += got
        if len(got) < 20 and not more:
            return every


@pytest.fixture
def other(w, su):
    """An inbox of another tenant than x's, with nothing in the queue."""
    claim_all(w.wk)
    alone(su)
    return w.inboxes[2]


WALLS = {
    "inbox": ("UPDATE d.inbox SET paused_at = %s WHERE inbox_id = {i}",),
    "suspended": ("UPDATE d.inbox SET suspended_at = %s WHERE inbox_id = {i}",
                  ),
    "tenant": ("UPDATE d.tenant SET paused_at = %s WHERE tenant_id = {t}",),
    "rule": (RULE % (0, 0, "'x.example'", "'s'", "NULL", "NULL"),),
    "their rule": (RULE % ("{t}", 0, "'x.example'", "'s'", "NULL", "NULL"),),
    "rule for all": (RULE % ("{t}", 0, "'*'", "'s'", "NULL", "NULL"),),
    "domain": (),
    "time": ("UPDATE d.send_q SET due_at = coalesce(%s::timestamptz, now() - "
             "interval '1 h') + interval '1 h' WHERE inbox_id = {i}",),
}


@pytest.mark.parametrize("wall", WALLS)
def test_what_may_not_go_is_walked_over_once(db, w, x, su, other, wall):
    ms = [approved(w, x) for _ in range(60)]
    behind = [approved(w, other, ["c@y.example"]) for _ in range(4)]
    skip = ["x.example"] if wall == "domain" else None
    for sql in WALLS[wall]:
        sql = sql.format(i=x.inbox, t=x.tenant)
        su.cursor().execute(sql, ("now",) if "%s" in sql else ())
    # Whatever the tenants' places: the wall stands in front.
    su.cursor().execute("UPDATE d.send_q SET vt = vt - 1000 "
                        "WHERE inbox_id = %s", (x.inbox,))
    got, _ = claim(w.wk, 1, skip)
    assert [L["mid"] for L in got] == [behind[0]["mid"]]
    c = db.connect("postgres")
    c.autocommit = False
    try:
        cur = c.cursor()
        cur.execute("SELECT count(*) FROM api.claim_due_1('w1', 2, 60, %s) "
                    "WHERE status = 200", (skip,))
        assert cur.fetchone()[0] == 2
        cur.execute("SELECT coalesce(idx_tup_fetch, 0) + coalesce("
                    "seq_tup_read, 0) FROM pg_stat_xact_user_tables "
                    "WHERE schemaname = 'd' AND relname = 'send_q'")
        assert cur.fetchone()[0] < 40
    finally:
        c.rollback()
        c.close()
    for sql in WALLS[wall]:
        sql = sql.format(i=x.inbox, t=x.tenant)
        if "%s" in sql:
            su.cursor().execute(sql, (None,))
        else:
            su.cursor().execute("UPDATE d.route SET ended_at = now()")
    got = claim_all(w.wk)
    assert sorted(L["mid"] for L in got) == sorted(
        m["mid"] for m in ms + behind[1:])


def crowd(su, x, first, last):
    """So many paused inboxes like x, each with one like x's in the queue."""
    cur = su.cursor()
    cur.execute("SELECT string_agg(quote_ident(attname), ', ') "
                "FROM pg_attribute WHERE attrelid = 'd.inbox'::regclass AND "
                "attnum > 0 AND NOT attisdropped AND attname NOT IN ('inbox_id', "
                "'address', 'local_part', 'paused_at')")
    same = cur.fetchone()[0]
    cur.execute("SET session_replication_role = replica")
    cur.execute(
        "INSERT INTO d.inbox (inbox_id, address, local_part, paused_at, " + same
        + ") OVERRIDING SYSTEM VALUE SELECT 1000000 + g, 'z' || g || "
        "'@t0.example', 'z' || g, now(), " + same + " FROM d.inbox, "
        "generate_series(%s, %s) g WHERE inbox_id = %s",
        (first, last, x.inbox))
    cur.execute(
        "INSERT INTO d.send_q (message_id, tenant_id, inbox_id, domain, "
        "version, round, digest, vt, due_at, give_up_at, stale_at, aside) "
        "SELECT gen_random_uuid(), tenant_id, 1000000 + g, domain, version, "
        "round, digest, vt, due_at, give_up_at, stale_at, 1 FROM d.send_q, "
        "generate_series(%s, %s) g WHERE inbox_id = %s",
        (first, last, x.inbox))
    cur.execute("SET session_replication_role = origin")


def crowd_goes(su):
    cur = su.cursor()
    cur.execute("SET session_replication_role = replica")
    cur.execute("DELETE FROM d.send_q WHERE inbox_id > 1000000")
    cur.execute("DELETE FROM d.inbox WHERE inbox_id > 1000000")
    cur.execute("SET session_replication_role = origin")


def test_many_that_are_held_back_are_not_looked_at_by_every_claim(
        db, w, x, su, other):
    approved(w, x)
    c = db.connect("l_worker")

    def looked(beginning=None, end=None):
        cur = c.cursor()
        if end is not None:
            cur.execute(
                "SELECT set_config('postern.looked', numrange(extract(epoch "
                "FROM now()) + %s, extract(epoch FROM now()) + %s)::text, "
                "false)", (beginning, end))
        cur.execute("SELECT nullif(current_setting('postern.looked', true), "
                    "'')")
        return cur.fetchone()[0]
    try:
        crowd(su, x, 1, 99)
        su.cursor().execute("UPDATE d.inbox SET paused_at = now() "
                            "WHERE inbox_id = %s", (x.inbox,))
        assert claim(c, 1)[0] == []  # sets aside what x has
        assert looked() is None
        crowd(su, x, 100, 101)
        assert claim(c, 1)[0] == []
        assert looked() is not None
        su.cursor().execute("UPDATE d.inbox SET paused_at = NULL "
                            "WHERE inbox_id = %s", (x.inbox,))
        looked(-10, 1000)
        assert claim(c, 1)[0] == []
        over = looked(-20, -10)
        assert len(claim(c, 1)[0]) == 1
        assert looked() != over
        ahead = looked(10, 1000)  # the clock was set back
        claim(c, 1)
        assert looked() != ahead
    finally:
        c.close()
        crowd_goes(su)
        claim_all(w.wk)


def test_of_a_tenant_that_is_paused_one_inbox_is_looked_at(w, db, x, su, other):
    approved(w, x)
    crowd(su, x, 1, 60)
    pause = "UPDATE d.tenant SET paused_at = %s WHERE tenant_id = %s"
    su.cursor().execute(pause, ("now", x.tenant))
    c = db.connect("postgres")
    c.autocommit = False
    try:
        claim(w.wk, 1)  # sets aside what x has
        cur = c.cursor()
        cur.execute("SELECT count(*) FROM api.claim_due_1('w1', 2, 60)")
        cur.execute("SELECT coalesce(idx_tup_fetch, 0) + coalesce("
                    "seq_tup_read, 0) FROM pg_stat_xact_user_tables "
                    "WHERE schemaname = 'd' AND relname = 'send_q'")
        assert cur.fetchone()[0] < 20
    finally:
        c.rollback()
        c.close()
        su.cursor().execute(pause, (None, x.tenant))
        crowd_goes(su)
        claim_all(w.wk)


def test_what_waited_long_leaves_room_for_what_came(w, x, su, other):
    ms = [approved(w, x) for _ in range(20)]
    approved(w, other, ["c@y.example"])
    assert len(claim(w.wk, 10, ["x.example"])[0]) == 1
    late = [approved(w, other, ["c@y.example"]) for _ in range(20)]
    su.cursor().execute("UPDATE d.send_q SET vt = vt - 1000 "
                        "WHERE inbox_id = %s", (x.inbox,))
    got, more = claim(w.wk, 10)
    assert more
    mids = {L["mid"] for L in got}
    assert len(mids & {m["mid"] for m in ms}) == 5
    assert len(mids & {m["mid"] for m in late}) == 5
    claim_all(w.wk)


def test_nobody_comes_before_others_for_what_waits_aside(w, x, su, other):
    """A tenant's place in line is that of those in line."""
    approved(w, x)
    approved(w, other, ["c@y.example"])
    su.cursor().execute("UPDATE d.send_q SET vt = vt - 1000")
    su.cursor().execute("UPDATE d.fair SET vt = vt - 1000")
    assert len(claim(w.wk, 10, ["x.example"])[0]) == 1
    m = approved(w, other, ["c@y.example"])
    assert one(su, "SELECT vt > extract(epoch FROM now()) - 100 "
               "FROM d.send_q WHERE message_id = %s", m["mid"])
    claim_all(w.wk)


def test_tenants_take_turns_at_a_domain(w, x, su, other):
    """Whatever stands before it: a domain that is slow has a backlog that is
    older than all that is in line elsewhere."""
    ms = [approved(w, x) for _ in range(20)]
    approved(w, other, ["c@y.example"])
    assert len(claim(w.wk, 1, ["x.example"])[0]) == 1
    one_of = approved(w, other, ["c@x.example"])
    approved(w, other, ["c@y.example"])
    assert len(claim(w.wk, 1, ["x.example"])[0]) == 1
    assert one(su, "SELECT count(*) FROM d.send_q WHERE aside = 2 "
               "AND domain = 'x.example'") == 21
    su.cursor().execute("UPDATE d.send_q SET vt = vt - 1000 "
                        "WHERE inbox_id = %s", (x.inbox,))
    got, _ = claim(w.wk, 2)
    assert {L["t"] for L in got} == {x.tenant, other.tenant}
    assert one_of["mid"] in {L["mid"] for L in got}
    # The rest in the order of the line.
    got += claim(w.wk, 2)[0]
    assert {L["mid"] for L in got} == {m["mid"] for m in ms[:3] + [one_of]}
    claim_all(w.wk)


def test_more_tenants_at_a_domain_than_a_claim_asks(w, x, su, other):
    approved(w, x)
    approved(w, other)
    approved(w, other, ["c@y.example"])
    assert len(claim(w.wk, 10, ["x.example"])[0]) == 1

    def some(most):
        return one(su, "SELECT d.claim_tenants('x.example', %s)", most)
    both = {x.tenant, other.tenant}
    assert set(some(5)) == both and len(some(5)) == 2
    seen = [some(1) for _ in range(1000)]
    assert {len(v) for v in seen} == {1}
    assert {v[0] for v in seen} == both  # by chance, none is left out
    claim_all(w.wk)


def test_a_message_to_many_has_a_turn_for_each(w, x, su, other):
    """Not all of them one turn, while another's next message waits."""
    many = [approved(w, x, ["a@%s.example" % n for n in "uvwxyz"])
            for _ in range(2)]
    few = [approved(w, other, ["c@y.example"]) for _ in range(4)]
    got = []
    for _ in range(4):
        got += [L["mid"] for L in claim(w.wk, 2)[0]]
    assert sorted(got[:8]) == sorted(
        [many[0]["mid"]] * 4 + [m["mid"] for m in few])
    # The second comes behind all of the first.
    assert [L["mid"] for L in claim(w.wk, 2)[0]] == [many[0]["mid"]] * 2
    assert [L["mid"] for L in claim(w.wk, 6)[0]] == [many[1]["mid"]] * 6
    # Who had no backlog has no turns before those who wait.
    first = approved(w, other, ["c@y.example"])
    many = approved(w, x, ["a@%s.example" % n for n in "uvwxyz"])
    second = approved(w, other, ["c@y.example"])
    got = [L["mid"] for L in claim(w.wk, 4)[0]]
    assert sorted(got) == sorted([first["mid"], second["mid"]]
                                 + [many["mid"]] * 2)
    claim_all(w.wk)


def test_who_sees_where_mail_waits(w, x, su, other):
    one_tenant = w.operator("queue", "reviewer", other.tenant)

    def seen(s):
        rows = {r["domain"]: r for r in call(w.ctl, "queue_domains_1", s=s,
                                             uid=0)}
        return [rows[d][what] if d in rows else 0 for d, what in (
            ("x.example", "left_alone"), ("y.example", "sending"))]
    theirs, everybodys = seen(one_tenant), seen(w.root)
    approved(w, x)
    approved(w, other, ["c@y.example"])
    approved(w, other)
    claim(w.wk, 10, ["x.example"])
    assert seen(one_tenant) == [theirs[0] + 1, theirs[1] + 1]
    assert seen(w.root) == [everybodys[0] + 2, everybodys[1] + 1]
    assert [r["status"] for r in call(w.ctl, "queue_domains_1",
                                      s=b"n" * 32, uid=0)] == [401]
    claim_all(w.wk)


def test_one_domain_alone_is_not_set_aside():
    """There is nobody to make room for, but a test inbox."""
    with pgcluster.Cluster(fast=True) as db:
        w = pgcluster.World(db)
        x, su = w.inboxes[0], db.connect("postgres")
        ms = [approved(w, x) for _ in range(3)]
        assert claim(w.wk, 2, ["x.example"]) == ([], False)
        assert one(su, "SELECT count(*) FROM d.send_q WHERE lease IS NULL "
                   "AND aside = 0") == 3
        test = approved(w, w.inbox(w.tenants[0], "try@t0.example", True))
        assert [L["mid"] for L in claim(w.wk, 3, ["x.example"])[0]] == [
            test["mid"]]
        assert {L["mid"] for L in claim(w.wk, 3)[0]} == {
            m["mid"] for m in ms}


class Judge:
    """Looks at every row, by the words of the manual."""

    def __init__(self, su, seed):
        self.su, self.rng = su, random.Random(seed)

    def rows(self, sql, *args):
        cur = self.su.cursor()
        cur.execute(sql, args)
        return cur.fetchall()

    def rules(self):
        return self.rows(
            "SELECT route_id, tenant_id, inbox_id, domain, action::text "
            "FROM d.route WHERE ended_at IS NULL "
            "AND (expires_at IS NULL OR expires_at > clock_timestamp())")

    def goes(self, rules, skip, t, i, dom):
        """By the rule that decides, or as all that has none."""
        fit = [r for r in rules if r[1] in (0, t) and r[2] in (0, i)
               and r[3] in ("*", dom) and r[4] != "t"]
        fit.sort(key=lambda r: (r[1] != 0 or r[4] == "r", r[2] == 0,
                                r[1] == 0, r[3] == "*", -r[0]))
        if not fit:
            return dom not in skip and "*" not in skip
        return fit[0][4] == "b" or fit[0][4] == "r" and \
            "#%d" % fit[0][0] not in skip

    def may_go(self, skip):
        """(message, domain): is it in line?"""
        rules = self.rules()
        return {(m, dom): aside == 0 for m, dom, t, i, test, aside in
                self.rows(
            "SELECT q.message_id, q.domain, q.tenant_id, q.inbox_id, x.test, "
            "q.aside FROM d.send_q q JOIN d.inbox x USING (tenant_id, "
            "inbox_id) JOIN d.tenant n USING (tenant_id) "
            "WHERE q.lease IS NULL AND q.due_at <= clock_timestamp() "
            "AND x.paused_at IS NULL AND x.suspended_at IS NULL "
            "AND n.paused_at IS NULL AND n.disabled_at IS NULL")
            if test or self.goes(rules, skip, t, i, dom)}

    def skip(self):
        """As a worker would: its smarthost first, or domains; and hosts of
        rules."""
        hosts = ["#%d" % r[0] for r in self.rules() if r[4] == "r"]
        hosts = self.rng.sample(hosts, self.rng.randrange(len(hosts) + 1))
        if self.rng.random() < .15:
            return ["*"] + hosts
        return self.rng.sample(DOMAINS, self.rng.choice([0, 0, 1, 3])) + hosts


def turn(table, column, key, value):
    return ("UPDATE d.%s SET %s = CASE WHEN %s IS NULL THEN now() END "
            "WHERE %s = %%s" % (table, column, column, key), (value,))


def ways_changed(su, *scope):
    """What is put off by a worker, and fits, is due."""
    su.cursor().execute("SELECT d.ways_changed(%s, %s, %s)", scope)
    while one(su, "SELECT d.ways_tell(3)") is not None:
        pass
    assert not one(su, "SELECT count(*) FROM d.send_q WHERE lease IS NULL "
                   "AND due_at > clock_timestamp() "
                   "AND due_at > give_up_at - interval '72 h' "
                   "AND (%s = 0 OR tenant_id = %s) AND %s IN (0, inbox_id) "
                   "AND %s IN ('*', domain) AND NOT EXISTS (SELECT 1 "
                   "FROM d.delivery v WHERE v.message_id = send_q.message_id "
                   "AND v.domain = send_q.domain AND v.unsure_mx IS NOT NULL)",
                   scope[0], *scope)


def test_more_rules_than_a_claim_takes(w, x, su):
    """One of them leads around what holds all else back."""
    claim_all(w.wk)
    alone(su)
    m = approved(w, x, ["b@x.example"])

    def rule(*what):
        su.cursor().execute(RULE, (x.tenant, x.inbox) + what)
    rule("*", "s", None, None)
    assert not claim_all(w.wk)
    for n in range(60):
        rule("d%d.example" % n, "r", "h.example", 25)
    rule("x.example", "r", "h.example", 25)
    try:
        assert [L["mid"] for L in claim_all(w.wk)] == [m["mid"]]
    finally:
        calm(su)


def put_off(w, x):
    """A worker tried it, and will in an hour."""
    m = approved(w, x)
    L, = [L for L in claim_all(w.wk) if L["mid"] == m["mid"]]
    assert call1(w.wk, "release_lease_1", retry_seconds=3600,
                 **L)["status"] == 200
    return m


def relay_rule(w, ctl, x):
    return call1(ctl, "route_add_1", s=w.root, uid=0, tenant=x.tenant,
                 inbox=x.inbox, name="*", action="r", host="h.example",
                 port=25, login=None, sealed=None, expires_in=None,
                 reason="r")["status"]


def test_who_sets_a_rule_waits_for_nobody(db, w, x, su):
    m = put_off(w, x)
    holder = db.connect("postgres", autocommit=False)
    ctl = db.connect("l_ctl", autocommit=False)
    holder.cursor().execute("SELECT 1 FROM d.send_q FOR UPDATE")
    ctl.cursor().execute("SET lock_timeout = '1ms'")
    try:
        assert relay_rule(w, ctl, x) == 200
        # Nor does anybody wait for him.
        holder.rollback()
        holder.cursor().execute("SELECT 1 FROM d.send_q FOR UPDATE NOWAIT")
        ctl.commit()
        # Claims do not wait for what another holds, nor forget it.
        assert claim_all(w.wk) == []
        holder.rollback()
    finally:
        holder.close()
        ctl.close()
    assert m["mid"] in {L["mid"] for L in claim_all(w.wk)}
    calm(su)


def test_what_is_tried_before_the_rule_is_committed(db, w, x, su):
    ctl = db.connect("l_ctl", autocommit=False)
    try:
        assert relay_rule(w, ctl, x) == 200
        m = put_off(w, x)
        ctl.commit()
    finally:
        ctl.close()
    assert m["mid"] in {L["mid"] for L in claim_all(w.wk)}
    calm(su)


def run_out(su):
    su.cursor().execute("UPDATE d.route SET expires_at = created_at "
                        "WHERE ended_at IS NULL")


def swept(w):
    return {r["what"]: (r["n"], r["more"])
            for r in call(w.wk, "sweep_1", lim=100)}["routes"]


def test_a_rule_that_runs_out_is_ended(w, x, su):
    """And what a worker put off because of it goes."""
    assert relay_rule(w, w.ctl, x) == 200
    claim_all(w.wk)
    m = put_off(w, x)
    assert swept(w) == (0, False)
    run_out(su)
    assert claim_all(w.wk) == []
    assert swept(w) == (1, True)
    assert one(su, "SELECT ended_at = expires_at FROM d.route "
               "ORDER BY route_id DESC LIMIT 1")
    assert one(su, "SELECT actor || ' ' || detail FROM d.audit "
               "WHERE event = 'route.end' ORDER BY at DESC LIMIT 1") == \
        'worker:sweep {"route_id" : %d, "reason" : "expired"}' % one(
            su, "SELECT max(route_id) FROM d.route")
    assert m["mid"] in {L["mid"] for L in claim_all(w.wk)}


def test_many_rules_run_out_bit_by_bit(w, x, su):
    """No claim has more to tell of than it tells at once."""
    claim_all(w.wk)
    for n in range(20):
        su.cursor().execute(RULE, (x.tenant, 0, "d%d.example" % n, "s", None,
                                   None))
    run_out(su)
    for n in 8, 8, 4:
        assert swept(w) == (n, True)
        assert one(su, "SELECT count(*) FROM d.way_change") == n
        assert swept(w) == (0, False)
        assert claim(w.wk, 1) == ([], False)
        assert not one(su, "SELECT count(*) FROM d.way_change")
    assert not one(su, "SELECT count(*) FROM d.route WHERE ended_at IS NULL")


def one_change(w, j, leases):
    """Something that changes who may go."""
    r, x = j.rng, j.rng.choice(w.inboxes)
    what = r.randrange(12)
    cur = j.su.cursor()
    if what < 5:
        if not one(j.su, "SELECT x.suspended_at IS NULL AND n.disabled_at IS "
                   "NULL FROM d.inbox x JOIN d.tenant n USING (tenant_id) "
                   "WHERE inbox_id = %s", x.inbox):
            return
        approved(w, x, ["r%d@%s" % (n, d) for n, d in enumerate(
            r.sample(DOMAINS, r.choice([1, 1, 1, 3])))])
    elif what == 5:
        cur.execute(*turn("inbox", r.choice(["paused_at", "suspended_at"]),
                          "inbox_id", x.inbox))
    elif what == 6:
        cur.execute(*turn("tenant", r.choice(["paused_at", "disabled_at"]),
                          "tenant_id", x.tenant))
    elif what == 7:
        action = r.choice("ssrbt")
        t = r.choice([0, x.tenant])
        scope = (t, r.choice([0, x.inbox]) if t else 0,
                 r.choice(DOMAINS + ["*"]))
        cur.execute(RULE, scope + (
            action, "h.example" if action == "r" else None,
            25 if action == "r" else None))
        if action in "rb":
            ways_changed(j.su, *scope)
    elif what == 8:
        rules = j.rules()
        for n, *scope, _ in r.sample(rules, min(2, len(rules))):
            column = r.choice(["ended_at", "expires_at"])
            cur.execute("UPDATE d.route SET %s = now() WHERE route_id = %%s"
                        % column, (n,))
            if column == "ended_at":
                ways_changed(j.su, *scope)
    elif what == 9:
        cur.execute("UPDATE d.send_q SET due_at = now() WHERE lease IS NULL "
                    "AND due_at > now() AND inbox_id = %s", (x.inbox,))
    else:
        r.shuffle(leases)
        while leases and r.random() < .9:
            call1(w.wk, "release_lease_1", **leases.pop(),
                  retry_seconds=r.choice([0, 0, 3600]))


def calm(su):
    for sql in ("UPDATE d.inbox SET paused_at = NULL, suspended_at = NULL",
                "UPDATE d.tenant SET paused_at = NULL, disabled_at = NULL",
                "UPDATE d.route SET ended_at = now()"):
        su.cursor().execute(sql)


def test_claims_find_all_that_may_go(w, su, request):
    claim_all(w.wk)
    j, leases = Judge(su, request.config.getoption("--seed")), []
    try:
        for step in range(STEPS):
            for _ in range(j.rng.randrange(4)):
                one_change(w, j, leases)
            skip = j.skip()
            lim, before = j.rng.choice([2, 3, 10, 50]), j.may_go(skip)
            got, more = claim(w.wk, lim, skip or None)
            mine = [(L["mid"], L["dom"]) for L in got]
            assert len(set(mine)) == len(mine) <= lim
            assert set(mine) <= set(before), step
            # Those who wait aside take no more than half.
            in_line = sum(before.values())
            assert sum(before[k] for k in mine) >= min(in_line, lim // 2)
            left = j.may_go(skip)
            assert not left or more or len(got) == lim, (step, left)
            leases += got
    finally:
        calm(su)
        for L in leases:
            call1(w.wk, "release_lease_1", retry_seconds=0, **L)
    every = set(j.may_go([]))
    assert every == {(L["mid"], L["dom"]) for L in claim_all(w.wk)}
