# SPDX-License-Identifier: ISC
"""
The books balance: after everybody did everything at once, at random, what is
counted equals what is there, every way a message went is a legal one, and no
dot left while somebody had been told that none does.
"""
import datetime
import os
import threading
import uuid

import pytest

import pgcluster
from books import BOOKS
from pgcluster import call, call1, sha256, submit
from walk import Town, Walk


@pytest.fixture(scope="module")
def own():
    with pgcluster.Cluster(fast=True) as db:
        yield pgcluster.World(db, inboxes=3)


class Follower(threading.Thread):
    """Reads an inbox's events as they come, from where it was."""

    def __init__(self, w, x):
        super().__init__()
        self.x, self.conn = x, w.db.connect("l_gateway")
        self.place = dict(px=0, pat=datetime.datetime(2000, 1, 1),
                          pm=uuid.UUID(int=0), pn=0)
        self.seen, self.wrong = [], None
        self.over = threading.Event()

    def look(self):
        *found, end = call(self.conn, "my_stream_1", t=self.x.tenant,
                           k=self.x.full_key, a=self.x.full_a, one=None,
                           lim=7, **self.place)
        self.seen += [(e["message_id"], e["n"], e["state"]) for e in found]
        # As store/follow.c: what is not full ends where it looked to.
        last = found[-1] if len(found) == 7 else dict(
            end, message_id=uuid.UUID(int=0), n=0)
        self.place = dict(px=last["xid"], pat=last["at"],
                          pm=last["message_id"], pn=last["n"])
        return found

    def run(self):
        try:
            while not self.over.is_set():
                self.look()
            while self.look():
                pass
        except BaseException as e:
            self.wrong = e


def followed(followers, su):
    """Each event once, and each message's in their order."""
    for f in followers:
        if f.wrong:
            raise f.wrong
        there = rows(su, "SELECT message_id, n, state FROM d.event WHERE "
                     "inbox_id = %s UNION ALL SELECT message_id, 1, 1 FROM "
                     "d.message WHERE inbox_id = %s AND reasons <> ''",
                     f.x.inbox, f.x.inbox)
        assert sorted(f.seen) == sorted(there)
        last = {}
        for mid, n, _ in f.seen:
            assert n > last.get(mid, 0)
            last[mid] = n


def rest(w, su):
    """Nobody works any more: what was leased is found dead."""
    su.cursor().execute("UPDATE d.send_q SET lease_until = now() - "
                        "interval '1 s' WHERE lease IS NOT NULL")
    w.sweep()


def rows(su, sql, *args):
    cur = su.cursor()
    cur.execute(sql, args or None)
    return cur.fetchall()


def broken_stops(town, su):
    """Dots that left while somebody had been told that none does: asked for
    and allowed in between. And those that no person approved."""
    bad = rows(su, "SELECT a.message_id, a.round FROM d.attempt a JOIN "
               "d.release r USING (message_id, tenant_id, round) "
               "WHERE a.dot_at IS NOT NULL AND r.by_what = 'o'")
    bad = [("not approved", *k) for k in bad if k not in town.made]
    whose = {mid: (mid, ("inbox", inbox), ("tenant", tenant))
             for mid, inbox, tenant in rows(
                 su, "SELECT message_id, inbox_id, tenant_id FROM d.state")}
    for mid, asked, went in town.dots:
        bad += [(what, mid, asked, went, since, until)
                for what, who, since, until in town.stops
                if who in whose[mid] and since < asked
                and (until is None or went < until)]
    return bad


def runs(town, su):
    """What the record of a session says it sent, and what was taken."""
    told = dict(rows(su, "SELECT key_id, sent FROM d.agent_session"))
    assert told == dict(town.runs)


def lost_doubts(town, su):
    """Who may have it, and is told to have failed or to be let off."""
    ends = {(mid, ix): status for mid, ix, status in rows(
        su, "SELECT message_id, ix, status FROM d.delivery "
        "WHERE status NOT IN (3, 6) AND NOT (status IN (0, 4) "
        "AND (resent OR unsure_mx IS NOT NULL))")}
    return [(mid, ix, ends[mid, ix]) for mid, ix in town.doubt
            if (mid, ix) in ends]


def drafts(town):
    """One draft is one mail, of the version that nobody was told is no
    more."""
    assert len({d for d, _ in town.sent}) == len(town.sent)
    assert not set(town.sent) & set(town.changed)


def shown(w, town, su):
    """What the pages and agents are told is what is there."""
    there = {i: (n, b) for i, n, b in rows(
        su, "SELECT s.inbox_id, count(*), sum(m.size) FROM d.state s JOIN "
        "d.message m USING (message_id, tenant_id, version) GROUP BY 1")}
    held = dict(rows(su, "SELECT inbox_id, count(*) FROM d.state "
                     "WHERE state = 1 GROUP BY 1"))
    told = {r["inbox_id"]: r["held"] for t in w.tenants for r in call(
        w.rv, "review_inboxes_1", s=w.root, tenant=t)}
    assert told == {i: held.get(i, 0) for i in told}
    assert {x.inbox for x in town.boxes} == set(told)
    now, day = datetime.datetime.now(), datetime.timedelta(days=1)
    for x in town.boxes:
        days = call(w.gw, "usage_1", t=x.tenant, k=x.full_key, a=x.full_a,
                    since=now - day, until=now + day)
        got = [r for r in days if r["day"]]
        assert sum(r["messages"] for r in got) == there[x.inbox][0]
        assert sum(r["bytes"] for r in got) == there[x.inbox][1]
        n = call1(w.rv, "review_count_1", s=w.root, tenant=x.tenant,
                  inbox=x.inbox, states="1", q=None)
        assert n["n"] == min(1000, held.get(x.inbox, 0))


def verified(su):
    """What an operator's `database verify` finds, also amid all that."""
    return {what: broken for what, _, broken, _ in rows(
        su, "SELECT * FROM d.verify(200)") if broken}


def the_day(su):
    """By which the counters count."""
    return rows(su, "SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date")


def balance(w, town, su, today):
    rest(w, su)
    assert verified(su) == {}
    wrong = {name: found[:5] for name, found in (
        (name, rows(su, sql)) for name, sql in BOOKS.items()) if found}
    assert not wrong
    assert broken_stops(town, su) == []
    assert lost_doubts(town, su) == []
    used = dict(rows(su, "SELECT inbox_id, day_used FROM d.quota"))
    if today == the_day(su):
        for x in town.boxes:
            assert used[x.inbox] == town.stored.get(x.inbox, 0)
    shown(w, town, su)
    under_way(w, su)
    runs(town, su)
    drafts(town)


def under_way(w, su):
    """What is told of it without looking at every row."""
    told = {r["label"]: r["n"] for r in call(
        w.rv, "review_health_1", s=w.root, tenant=None)}
    states = dict(rows(su, "SELECT state, count(*) FROM d.state GROUP BY 1"))
    assert (told["uncertain"], told["deferred"], told["sending"]) == (
        states.get(11, 0), states.get(9, 0),
        states.get(2, 0) + states.get(7, 0)), (told, states)
    unsure = rows(su, "SELECT v.message_id, v.ix FROM d.delivery v JOIN "
                  "d.state y USING (message_id, tenant_id) WHERE v.status = 6 "
                  "AND y.state IN (7, 9, 11) ORDER BY 1, 2 LIMIT 1000")
    assert unsure == [(r["message_id"], r["ix"]) for r in call(
        w.ctl, "uncertain_list_1", s=w.root, uid=0, mid=None)]


def second_key(w, x):
    a = os.urandom(32)
    r = call1(w.gw, "key_create_1", t=x.tenant, k=x.full_key, a=x.full_a,
              auth=sha256(a), scope="f", label=None, expires=None, epoch=1,
              wrapped=os.urandom(72))
    assert r["status"] in (200, 201), r
    return r["key_id"], a


def test_everybody_at_once(own, pytestconfig):
    seed = pytestconfig.getoption("--seed")
    turns = 40 if os.environ.get("POSTERN_FULL") == "1" else 4
    w = own
    su = w.db.connect("postgres")
    for x in w.inboxes:
        x.seen = (2, 1)
        x.switched = threading.Lock()
    cur = su.cursor()
    cur.execute("UPDATE d.inbox SET may_duplicate = true "
                "WHERE inbox_id = %s", (w.inboxes[0].inbox,))
    today = the_day(su)
    w.step_up(w.root)
    assert call1(w.ctl, "inbox_own_1", s=w.root, uid=0,
                 tenant=w.inboxes[1].tenant, inbox=w.inboxes[1].inbox,
                 approvals=2, hold_seconds=None, overseer=None,
                 full_key_smtp=None, retry_uncertain=None)["status"] == 200
    town = Town(w, w.inboxes)
    town.doomed = w.inboxes[2:3] + w.inboxes[5:]
    for x in (w.inboxes[0], w.inboxes[4]):
        x.keys = [(x.full_key, x.full_a), second_key(w, x)]
    walks = [Walk(town, "%d.%d" % (seed, i), "walker%d" % i)
             for i in range(4)]
    followers = [Follower(w, x) for x in (w.inboxes[0], w.inboxes[3])]
    for f in followers:
        f.start()
    try:
        everybody(w, town, walks, turns, su, today)
    finally:
        for f in followers:
            f.over.set()
            f.join()
    followed(followers, su)
    did = {}
    for walk in walks:
        for key, n in walk.did.items():
            did[key] = did.get(key, 0) + n
    print("seed", seed, "again", town.again, sorted(did.items(), key=str))
    # It went everywhere: nothing of this is true of an empty house.
    states = {s for s, in rows(su, "SELECT DISTINCT state FROM d.event")}
    assert states >= {1, 2, 3, 4, 5, 7, 8, 9, 10, 11}
    assert {n for n, in rows(su, "SELECT DISTINCT by_what FROM d.release")} \
        == {"o", "m", "r"}


def everybody(w, town, walks, turns, su, today):
    for turn in range(turns):
        wrong = []

        def run(walk):
            try:
                for _ in range(200):
                    walk.step()
            except BaseException as e:
                wrong.append(e)
        threads = [threading.Thread(target=run, args=(k,)) for k in walks]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            assert verified(su) == {}
        for t in threads:
            t.join()
        if wrong:
            raise wrong[0]
        balance(w, town, su, today)


@pytest.mark.parametrize("what,sql", [
    ("counters", "UPDATE d.quota SET held = held + 1 WHERE inbox_id = %(i)s"),
    ("counters", "UPDATE d.quota SET held_bytes = 0 WHERE inbox_id = %(i)s"),
    ("states", "DELETE FROM d.state WHERE message_id = %(m)s"),
    ("states", "UPDATE d.state SET state = 3 WHERE message_id = %(m)s"),
    ("states", "INSERT INTO d.event (message_id, tenant_id, inbox_id, n, "
     "type, actor, state) VALUES (%(m)s, %(t)s, %(i)s, 9, 'x', 'x', 5)"),
    ("queue", "INSERT INTO d.delivery (message_id, tenant_id, inbox_id, ix, "
     "domain, canon) VALUES (%(n)s, %(t)s, %(i)s, 9, 'q.example', 'q')"),
    ("queue", "DELETE FROM d.send_q WHERE message_id = %(n)s"),
    ("bodies", "DELETE FROM d.body WHERE message_id = %(m)s"),
    ("digests", "UPDATE d.message SET subject = 'y', size = size + 1 "
     "WHERE message_id = %(m)s")])
def test_verify_finds_what_is_wrong(own, what, sql):
    w = own
    x = w.inboxes[0]
    m, n = x.message(["a@x.example"]), x.message(["b@x.example"])
    w.mode(x, 2)
    assert [submit(w.gw, k)["state"] for k in (m, n)] == [1, 1]
    assert w.approve(n)["state"] == 2
    su = w.db.connect("postgres", autocommit=False)
    cur = su.cursor()
    cur.execute("SET LOCAL session_replication_role = replica")
    cur.execute("ALTER TABLE d.message DISABLE TRIGGER USER")
    if what == "digests":
        cur.execute("ALTER TABLE d.message DROP CONSTRAINT message_digest")
    cur.execute(sql, dict(t=x.tenant, i=x.inbox, m=m["mid"], n=n["mid"]))
    assert cur.rowcount == 1
    cur.execute("SELECT broken, example FROM d.verify(1000000) "
                "WHERE what = %s", (what,))
    broken, example = cur.fetchone()
    assert broken == 1 and example in (
        str(m["mid"]), str(n["mid"]), "inbox %d" % x.inbox)
    su.rollback()
    su.close()
    assert call1(w.gw, "cancel_1", t=x.tenant, k=x.full_key, a=x.full_a,
                 mid=n["mid"])["status"] == 200


def test_who_began_first_may_come_last(own):
    """The stream tells what happened to a message in its order, however the
    transactions were numbered."""
    w, x = own, own.inboxes[0]
    follower = Follower(w, x)
    while follower.look():
        pass
    follower.seen = []
    early = w.db.connect("l_review", autocommit=False)
    cur = early.cursor()
    cur.execute("SELECT pg_current_xact_id()")
    m = x.message()
    assert submit(w.gw, m)["status"] == 202
    assert follower.look() == []
    assert w.approve(m)["state"] == 2
    assert call1(early, "undo_1", s=w.root, mid=m["mid"], for_version=1,
                 for_round=1)["state"] == 1
    early.commit()
    early.close()
    assert w.approve(m, round=2)["state"] == 2
    follower.look()
    assert follower.seen == [(m["mid"], n, state) for n, state in (
        (1, 1), (2, 2), (3, 1), (4, 2))]
