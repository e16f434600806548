# SPDX-License-Identifier: ISC
"""
Lists show what is there: whatever is asked for, page by page, is what a plain
look at every row finds, each once and in order. Thousands of messages, as what
is looked for is found in other ways when there are many.
"""
import os
import random
import uuid

import pytest

import pgcluster
from pgcluster import call, call1, submit_batch

# How often a subject has each word, of a hundred.
WORDS = {"invoice": 70, "order": 25, "refund": 6, "ordinary": 3, "zebra": .2}
RISKS = (0, 20, 34, 35, 50, 69, 70, 90, 100)
PAST = ("2,3,4,5,7,8,9,10,11", "3,4,5", "2", "3", "5", "8,10", "2,5")


@pytest.fixture(scope="module")
def town():
    """A world and its mail: id -> what a row of it is."""
    rng = random.Random(int(os.environ.get("POSTERN_SEED", "1")))
    with pgcluster.Cluster(fast=True) as db:
        w = pgcluster.World(db, inboxes=2)
        mail = {}
        for _ in range(130):
            some = sorted((made(rng, rng.choice(w.inboxes))
                           for _ in range(64)),
                          key=lambda p: (p[0].tenant, p[0].inbox))
            got = submit_batch(w.gw, [m for _, m in some])
            assert {r["status"] for r in got} == {202}
            mail.update({m["mid"]: (x, m) for x, m in some})
        for mid, (x, m) in mail.items():
            dice = rng.random()
            if dice < .08:
                assert w.approve(m)["state"] == 2
            elif dice < .2:
                assert w.reject(m)["state"] == 3
            elif dice < .25:
                assert call1(w.rv, "review_cancel_1", s=w.root, mid=mid,
                             note=None)["state"] == 5
        su = db.connect("postgres")
        cur = su.cursor()
        cur.execute("UPDATE d.state SET hold_until = now() + interval '1 h' "
                    "* (1 + (tenant_id * 7919 + hashtext(message_id::text)) "
                    "% 160) WHERE state = 1")
        while call1(w.rv, "search_fill_1", lim=5000)["more"]:
            pass
        cur.execute("ANALYZE")
        cur.execute("SELECT message_id, state, risk, hold_until, "
                    "hold_until <= now() + interval '24 h' FROM d.state")
        w.mail = {mid: (*mail[mid], *rest) for mid, *rest in cur.fetchall()}
        assert len(w.mail) == len(mail) == 130 * 64
        yield w


def made(rng, x):
    words = [v for v, n in WORDS.items() if rng.random() * 100 < n]
    rng.shuffle(words)
    rcpts = {"%s@%s.example" % (rng.choice("abcdefgh"), rng.choice("xyz"))
             for _ in range(rng.choice((1, 1, 1, 3)))}
    if rng.random() < .001:
        rcpts.add("rare@one.example")
    return x, x.message(sorted(rcpts), subject=", ".join(words).title(),
                        risk=rng.choice(RISKS), links=rng.random() < .3,
                        attachments=int(rng.random() < .02))


def fits(q, m, soon):
    words = m["subject"].lower().replace(",", "").split()
    to = m["rcpts"].split("\n")
    asked = [t for t in q.split() if ":" not in t]
    for t in q.split():
        if t == "has:files":
            ok = m["attachments"] > 0
        elif t == "has:links":
            ok = m["links"]
        elif t == "left:24h":
            ok = soon
        elif t.startswith("@"):
            ok = any(r.endswith(t) for r in to)
        elif "@" in t:
            ok = t in to or t == m["header_from"]
        elif t == asked[-1]:
            ok = any(v.startswith(t) for v in words)
        else:
            ok = t in words
        if not ok:
            return False
    return True


def truth(w, tenant, box, states, q, risk, by_left):
    """The ids that are to be seen, in order."""
    states = {int(s) for s in (states or "1").split(",")}
    rows = [(mid, level, until)
            for mid, (x, m, state, level, until, soon) in w.mail.items()
            if state in states and tenant in (None, x.tenant)
            and box in (None, x.inbox) and fits(q, m, soon)
            and (states != {1} or risk[0] <= level <= risk[1])]
    if by_left:
        rows.sort(key=lambda r: (r[2], r[0]))
    elif states == {1}:
        rows.sort(key=lambda r: (-r[1], r[0]))
    else:
        rows.sort(key=lambda r: r[0], reverse=True)
    return [r[0] for r in rows]


def listed(w, lim, tenant, box, states, q, risk, by_left):
    """All pages, and how many there were."""
    found, after, pages = [], None, 0
    while True:
        got = call(w.rv, "review_list_1", s=w.root, tenant=tenant, inbox=box,
                   states=states, q=q, after_key=after, lim=lim,
                   collapse=False, risk_from=risk[0], risk_to=risk[1],
                   by_left=by_left)
        if not got:
            return found, pages
        assert len(got) <= lim + 1
        found += [r["message_id"] for r in got if r["message_id"]]
        assert got[-1]["sort_key"] != after
        after, pages = got[-1]["sort_key"], pages + 1


# Whatever the dice say: all that is held, and what nobody wrote.
SURELY = [(None, None, None, "", (0, 100), False),
          (None, None, None, "nothing", (0, 100), False)]


def asked(rng, w):
    x = rng.choice(w.inboxes)
    tenant, box = rng.choice(((None, None), (x.tenant, None),
                              (None, x.inbox), (x.tenant, x.inbox)))
    states = rng.choice((None, None, "1", *PAST))
    held = states in (None, "1")
    main = rng.choice(("", "", "invoice", "order", "ord", "refund invoice",
                       "invoice refund", "zebra", "zeb", "a@x.example",
                       "rare@one.example", "@y.example", "@one.example",
                       x.address, "nothing"))
    marks = [t for t in ("has:files", "has:links")
             if rng.random() < .25]
    if held and rng.random() < .15:
        marks.append("left:24h")
    q = " ".join([*marks, main]).strip()
    risk = rng.choice(((0, 100), (0, 100), (0, 34), (35, 69), (70, 100))) \
        if held else (0, 100)
    by_left = held and not q and risk == (0, 100) and rng.random() < .5
    return tenant, box, states, q, risk, by_left


def test_every_list_is_what_is_there(town, pytestconfig):
    rng = random.Random(pytestconfig.getoption("--seed"))
    full = os.environ.get("POSTERN_FULL") == "1"
    some = none = many = 0
    for what in SURELY + [asked(rng, town)
                          for _ in range(400 if full else 80)]:
        lim = rng.choice((20, 50, 199, 200))
        want = truth(town, *what)
        got, pages = listed(town, lim, *what)
        assert len(set(got)) == len(got), (what, lim)
        assert got == want, (what, lim, len(got), len(want))
        none += not want
        some += 0 < len(want) < 100
        many += len(want) > 1000
    assert none and some and many


def test_an_agent_sees_its_inbox(town):
    """All of it, newest first, and of a label or a state what has it."""
    w = town
    x = w.inboxes[0]
    who = dict(t=x.tenant, k=x.full_key, a=x.full_a)
    mine = sorted((mid for mid, (y, *_) in w.mail.items() if y is x),
                  reverse=True)
    tagged = sorted(random.Random(1).sample(mine, 150), reverse=True)
    for mid in tagged:
        assert call1(w.gw, "label_1", mid=mid, add=["blue"], away=[],
                     **who)["status"] == 200

    def all_of(**over):
        found, after = [], None
        args = dict(states=None, since=None, until=None, label=None)
        args.update(over)
        while True:
            got = call(w.gw, "my_list_1", after=after, lim=100, **args, **who)
            if not got:
                return found
            found += [r["message_id"] for r in got]
            after = found[-1]
    assert all_of() == mine
    assert all_of(label="blue") == tagged
    for states in ("1", "2,3", "5"):
        want = {int(s) for s in states.split(",")}
        assert all_of(states=states) == [
            mid for mid in mine if w.mail[mid][2] in want]
        assert all_of(states=states, label="blue") == [
            mid for mid in tagged if w.mail[mid][2] in want]
    assert all_of(label=str(uuid.uuid4())) == []
