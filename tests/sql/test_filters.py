# SPDX-License-Identifier: ISC
"""What narrows the queue: marks, age, time left, who looks at it; alone, with
words, page by page, and as what a job is about."""
import os
import uuid

import pytest

from pgcluster import call, call1, submit, uuid7
from test_relay import DONE, approved, attempt, claim, done, dot


@pytest.fixture(scope="module")
def people(w):
    t = w.tenants[0]
    return {"one": w.operator("una", "reviewer", t),
            "two": w.operator("tim", "reviewer", t),
            "far": w.operator("fay", "senior", w.tenants[1])}


def rows(w, s, q, box, after=None, lim=50, risk=(0, 100)):
    while call1(w.rv, "search_fill_1", lim=5000)["more"]:
        pass
    return call(w.rv, "review_list_1", s=s, tenant=None, inbox=box,
                states=None, q=q, after_key=after, lim=lim, collapse=False,
                risk_from=risk[0], risk_to=risk[1])


def ids(*args, **more):
    return [r["message_id"] for r in rows(*args, **more) if r["message_id"]]


def put(w, x, *rcpts, **more):
    m = x.message(*rcpts, **more)
    assert submit(w.gw, m)["status"] == 202
    return m["mid"]


def aged(w, x, su, ages, n=1, risk=(50,), left="7 days"):
    """Copies of a message, submitted so long ago (SQL intervals)."""
    seed = put(w, x, subject="seed")
    cur = su.cursor()
    cur.execute("SET session_replication_role = replica")
    out = []
    for age in ages:
        for i in range(n):
            cur.execute("""INSERT INTO d.message SELECT (z.m).* FROM (SELECT
                jsonb_populate_record(m, jsonb_build_object('message_id',
                y.id, 'risk', %s, 'digest', d.digest_1(m.tenant_id,
                m.inbox_id, y.id, 1::smallint, m.test, m.mail_from, m.rcpt,
                m.params, m.size, m.body_tag, 0, 0))) AS m FROM d.message m,
                (SELECT overlay(d.uuid_floor(now() - %s::interval)::text
                placing %s from 20)::uuid AS id) y
                WHERE m.message_id = %s) z RETURNING message_id""",
                        (risk[i % len(risk)], age,
                         str(uuid.uuid4())[19:], seed))
            out.append(cur.fetchone()[0])
    cur.execute("""INSERT INTO d.state (message_id, tenant_id, inbox_id,
        version, state, risk, hold_until) SELECT message_id, tenant_id,
        inbox_id, 1, 1, risk, now() + %s::interval FROM d.message
        WHERE message_id = ANY (%s)""", (left, out))
    cur.execute("UPDATE d.quota SET held = held + %s WHERE inbox_id = %s",
                (len(out), x.inbox))
    cur.execute("RESET session_replication_role")
    return out


def test_marks_stand_alone_and_go_with_words(w, x, su):
    plain = put(w, x, subject="alpha")
    links = put(w, x, subject="alpha", links=True)
    both = put(w, x, subject="beta", links=True, attachments=2)
    for q, want in (("has:links", [links, both]), ("has:files", [both]),
                    ("has:links has:files", [both]),
                    ("alpha has:links", [links]), ("HAS:LINKS alp", [links]),
                    ("has:link", []), ("xhas:links", [])):
        assert ids(w, w.root, q, x.inbox) == want, q
    got = {r["message_id"]: r["links"] for r in rows(w, w.root, "", x.inbox)}
    assert got == {plain: False, links: True, both: True}


def test_a_recipient_is_new_until_one_was_reached(w, x, su):
    lease, = claim(w, approved(w, x, ["known@reach.example"]))
    attempt(w, lease)
    assert dot(w, lease)["go"]
    done(w, lease, {1: DONE})
    again = put(w, x, ["Known@reach.example"])
    first = put(w, x, ["known@reach.example", "other@reach.example"])
    assert ids(w, w.root, "new:recipient", x.inbox) == [first]
    got = {r["message_id"]: r["new_rcpt"]
           for r in rows(w, w.root, "", x.inbox)}
    assert (got[again], got[first]) == (False, True)
    assert ids(w, w.root, "@reach.example new:recipient", x.inbox) == [first]


def test_who_looks_at_it(w, x, su, people):
    a, b = people["one"], people["two"]
    mine, theirs, gone, nobodys = (put(w, x, subject="look") for _ in
                                   range(4))
    for s, mid in ((a, mine), (b, theirs), (b, gone)):
        assert call1(w.rv, "look_1", s=s, mid=mid, take=False)["mine"]
    su.cursor().execute("UPDATE d.look SET until = now() WHERE message_id = "
                        "%s", (gone,))
    for q, want in (("seen:me", [mine]), ("seen:anyone", [mine, theirs]),
                    ("seen:nobody", [gone, nobodys]),
                    ("look seen:nobody", [gone, nobodys]),
                    ("other seen:me", []), ("seen:Me has:files", [])):
        assert ids(w, a, q, x.inbox) == want, q
    assert ids(w, b, "seen:me", x.inbox) == [theirs]
    assert ids(w, people["far"], "seen:anyone", None) == []
    got = {r["message_id"]: r["looks"] for r in rows(w, a, "", x.inbox)}
    assert got == {mine: "una", theirs: "tim", gone: None, nobodys: None}


def test_age_and_time_left(w, x, su):
    new = put(w, x, subject="fresh")
    hours, days = aged(w, x, su, ["3 hours", "50 hours"])
    soon = aged(w, x, su, ["1 hour"], left="90 minutes")[0]
    seed = [i for i in ids(w, w.root, "", x.inbox)
            if i not in (new, hours, days, soon)]
    for q, want in (("older:2h", {hours, days}), ("older:2d", {days}),
                    ("newer:2h", {new, soon, *seed}),
                    ("older:30h newer:3d", {days}),
                    ("left:2h", {soon}), ("left:1h", set()),
                    ("left:2h older:2h", set()),
                    ("left:8d older:2h", {hours, days}),
                    ("fresh older:0h", {new}), ("fresh older:1h", set()),
                    ("older:2x", set())):
        got = ids(w, w.root, q, x.inbox)
        assert set(got) == want and len(got) == len(want), q
        n = call1(w.rv, "review_count_1", s=w.root, tenant=None,
                  inbox=x.inbox, states=None, q=q)
        assert n["n"] == len(want), q
    # history has ages, but nothing that looks at it or expires
    for q in ("seen:me", "left:9d"):
        assert call(w.rv, "review_list_1", s=w.root, tenant=None,
                    inbox=x.inbox, states="3,8", q=q, after_key=None, lim=50,
                    collapse=False) == []
    # it asks when mail came to its end, however old it is; the queue does not
    old, = aged(w, x, su, ["5 days"])
    for since, change, want in (("1d", "2 hours", True), ("1h", "2 hours", False),
                                ("7d", "4 days", True)):
        su.cursor().execute(
            "SET session_replication_role = replica; UPDATE d.state SET "
            "state = 3, changed_at = now() - %s::interval "
            "WHERE message_id = %s; RESET session_replication_role",
            (change, old))
        got = [r["message_id"] for r in call(
            w.rv, "review_list_1", s=w.root, tenant=None, inbox=x.inbox,
            states="3", q="changed:" + since, after_key=None, lim=50,
            collapse=False)]
        assert (old in got) is want, since
    su.cursor().execute("SET session_replication_role = replica; UPDATE "
                        "d.state SET state = 1 WHERE message_id = %s; RESET "
                        "session_replication_role", (old,))
    assert ids(w, w.root, "changed:9d", x.inbox) == []


def test_what_expires_is_not_looked_for_in_all_that_is_held(w, x, su):
    """Words with it are looked up of what expires, not of the list's first
    thousands; and what more is asked for of each costs no call."""
    soon = put(w, x, subject="seed", risk=5)
    cur = su.cursor()
    cur.execute("SET session_replication_role = replica")
    for sql in (
            """INSERT INTO d.message SELECT (z.m).* FROM (SELECT
            jsonb_populate_record(m, jsonb_build_object('message_id', y.id,
            'risk', 60, 'digest', d.digest_1(m.tenant_id, m.inbox_id, y.id,
            1::smallint, m.test, m.mail_from, m.rcpt, m.params, m.size,
            m.body_tag, 0, 0))) AS m FROM d.message m
            CROSS JOIN LATERAL (SELECT overlay(m.message_id::text placing
            lpad(to_hex(g), 12, '0') from 25)::uuid AS id
            FROM generate_series(1, 3000) g) y WHERE m.inbox_id = %s) z""",
            """INSERT INTO d.state (message_id, tenant_id, inbox_id, version,
            state, risk, hold_until) SELECT message_id, tenant_id, inbox_id,
            1, 1, risk, now() + '5 days' FROM d.message WHERE inbox_id = %s
            AND risk = 60""",
            """INSERT INTO d.word SELECT message_id, tenant_id, d.words_of(
            tenant_id, mail_from, rcpt, rfc_message_id, subject, 0)
            FROM d.message WHERE inbox_id = %s AND risk = 60""",
            """UPDATE d.state SET hold_until = now() + '1 hour'
            WHERE inbox_id = %s AND risk = 5""",
            "UPDATE d.quota SET held = held + 3000 WHERE inbox_id = %s"):
        cur.execute(sql, (x.inbox,))
    cur.execute("RESET session_replication_role")
    assert ids(w, w.root, "left:2h seed", x.inbox) == [soon]

    def read(q):
        """Rows of messages read, and functions called."""
        def so_far():
            cur.execute("SELECT (SELECT sum(idx_tup_fetch + seq_tup_read) "
                        "FROM pg_stat_xact_user_tables WHERE relname ~ "
                        "'^(state|word)_[0-9]'), (SELECT sum(calls) "
                        "FROM pg_stat_xact_user_functions)")
            return [int(n or 0) for n in cur.fetchone()]
        cur.execute("BEGIN; SET LOCAL track_functions = 'all'")
        before = so_far()
        cur.execute("SELECT count(*) FROM api.review_list_1(s => %s, "
                    "tenant => NULL, inbox => %s, states => NULL, q => %s, "
                    "after_key => NULL, lim => 50, collapse => false)",
                    (w.root, x.inbox, q))
        after = so_far()
        cur.execute("COMMIT")
        return [b - a for a, b in zip(before, after)]
    for q, most in (("left:2h seed", 4000), ("left:2h", 1500),
                    ("left:2h zebra", 1500), ("seen:nobody", 1000)):
        rows_read, calls = read(q)
        assert rows_read < most and calls < 50, (q, rows_read, calls)


def test_what_is_old_is_paged_in_order_over_all_risks(w, x, su):
    old = aged(w, x, su, ["2 days", "3 days", "4 days"], n=40,
               risk=(5, 24, 25, 50, 90))
    aged(w, x, su, ["1 minute"], n=60, risk=(90, 50, 5))
    got, after = [], None
    while True:
        page = rows(w, w.root, "older:1d", x.inbox, after, 25)
        got += [r for r in page if r["message_id"]]
        if len(page) < 25:
            break
        after = page[-1]["sort_key"]
    keys = [(100 - r["risk"], r["message_id"]) for r in got]
    assert keys == sorted(keys)
    assert sorted(r["message_id"] for r in got) == sorted(old)


def test_a_band_of_risk_ends_where_it_ends(w, x, su):
    at = {r: put(w, x, risk=r) for r in (24, 25, 74, 75)}
    for band, want in (((0, 24), [24]), ((25, 74), [74, 25]),
                       ((75, 100), [75])):
        for q in ("", "hello", "older:0h", "seen:nobody"):
            assert ids(w, w.root, q, x.inbox, risk=band) == [
                at[r] for r in want], (band, q)


def test_a_job_is_about_what_the_page_shows(w, x, su, people):
    s = people["one"]
    links = put(w, x, links=True)
    old = aged(w, x, su, ["2 days"], n=3, risk=(5, 30, 80))
    soon = aged(w, x, su, ["2 hours"], left="1 hour")
    seen = put(w, x)
    call1(w.rv, "look_1", s=s, mid=seen, take=False)
    rows(w, s, "", x.inbox)  # a search finds all of it
    for q, risk, want in (("has:links", (0, 100), [links]),
                          ("older:1d", (0, 100), old),
                          ("older:1d", (0, 24), old[:1]),
                          ("older:1d", (25, 74), old[1:2]),
                          ("left:2h", (0, 100), soon),
                          ("seen:me", (0, 100), [seen]),
                          ("seen:nobody older:1d", (0, 100), old),
                          ("", (75, 100), old[2:])):
        job = uuid7()
        r = call1(w.rv, "job_make_1", s=s, job=job, verdict="r", tenant=None,
                  inbox=x.inbox, q=q, ids=None, about="x",
                  risk_from=risk[0], risk_to=risk[1])
        assert (r["status"], r["items"]) == (200, len(want)), (q, risk)
        got = call(w.rv, "job_items_1", s=s, job=job, problems=False,
                   after_ix=None)
        assert {i["message_id"] for i in got} == set(want), (q, risk)
        assert sorted(ids(w, s, q, x.inbox, risk=risk)) == sorted(want), q


def test_no_filter_reaches_another_tenant(w, x, su, people):
    put(w, x, ["a@far.example"], links=True, attachments=1)
    for q in ("has:links", "has:files", "new:recipient", "older:0h",
              "newer:1h", "left:30d", "seen:nobody", "seen:anyone"):
        assert all(r["tenant_id"] == w.tenants[1]
                   for r in rows(w, people["far"], q, None)
                   if r["message_id"]), q
        assert call1(w.rv, "review_list_1", s=os.urandom(32), tenant=None,
                     inbox=None, states=None, q=q, after_key=None, lim=5,
                     collapse=False)["status"] == 401
