# SPDX-License-Identifier: ISC
"""Who moves many messages at once, and somebody who decides one of them."""
import os
import threading
import time

import pytest

import pgcluster
from pgcluster import call, call1, sha256, submit, uuid7
from test_gate import one as value, tag


def waiting(su, pid):
    until = time.monotonic() + 10
    while value(su, "SELECT wait_event_type FROM pg_stat_activity "
                "WHERE pid = %s", pid) != "Lock":
        assert time.monotonic() < until


def confirmed(w, x, ms, verdict, who=None):
    """The id of a job over all of them, which may run. `x` None: of several
    inboxes, in this order."""
    name, s = uuid7(), who or w.root
    assert call1(w.rv, "job_make_1", s=s, job=name, verdict=verdict,
                 tenant=None, inbox=x and x.inbox, q=None,
                 ids=None if x else [m["mid"] for m in ms],
                 about="x")["items"] == len(ms)
    sha = call1(w.rv, "jobs_1", s=s, job=name)["items_sha256"]
    assert call1(w.rv, "job_confirm_1", s=s, job=name, items_sha256=sha,
                 category="other" if verdict == "r" else None, note=None,
                 hint=None)["status"] == 200
    return name


def job(w, x, ms):
    """Rejects them together."""
    name = confirmed(w, x, ms, "r")
    return lambda c: call1(c, "job_reject_1", s=w.root, job=name, lim=50)


def undone(w, x, ms):
    name = confirmed(w, x, ms, "a")
    for row in call(w.rv, "job_next_1", s=w.root, job=name, lim=50):
        assert call1(w.rv, "job_approve_1", s=w.root, job=name,
                     item=row["ix"], undo_seconds=60, failed=None,
                     **tag())["status"] == 200
    return lambda c: call1(c, "job_undo_1", s=w.root, job=name, lim=50)


def all_of(w, x, ms):
    return lambda c: call(c, "reject_all_1", s=w.root, tenant=x.tenant,
                          inbox=x.inbox, category="other", note="r",
                          lim=50)[0]


def deleted(w, x, ms):
    w.step_up(w.root)
    return lambda c: call1(c, "inbox_delete_1", s=w.root, uid=0,
                           tenant=x.tenant, inbox=x.inbox, reason="r")


def session_end(w, x, ms):
    return lambda c: call1(
        c, "run_end_1", t=x.tenant, k=x.full_key, a=x.full_a,
        which=ms[0]["k"], keep=False, exit_error=None, stdout_lines=None,
        stderr_lines=None, payload_length=None)


@pytest.mark.parametrize("what,login", [
    (job, "l_review"), (undone, "l_review"), (all_of, "l_ctl"),
    (deleted, "l_ctl"), (session_end, "l_gateway")])
def test_who_moves_many_waits_without_their_counter(w, x, su, what, login):
    """Somebody decides one of them: has it, and will want the counter. Who
    moves all of them must not hold that one meanwhile: a deadlock."""
    a = os.urandom(32)
    run = call1(w.gw, "run_create_1", t=x.tenant, k=x.full_key, a=x.full_a,
                auth=sha256(a), seconds=600, run=None, sandbox_id=None,
                template=None, purpose=None, recipients=[],
                domains=["x.example"], max_messages=9, attachments=False,
                doors="r")
    ms = [x.message(["b@x.example"], risk=10, key=(run["key_id"], a))
          for _ in range(4)]
    assert {submit(w.gw, m)["status"] for m in ms} == {202}
    does = what(w, x, ms)
    mover = w.db.connect(login)
    one = w.db.connect("postgres", autocommit=False)
    got = []
    thread = threading.Thread(target=lambda: got.append(does(mover)))
    try:
        cur = one.cursor()
        # one in the middle, by id as by risk and by place in a job
        cur.execute("SELECT 1 FROM d.state WHERE message_id = %s FOR UPDATE",
                    (ms[2]["mid"],))
        thread.start()
        waiting(su, mover.info.backend_pid)
        cur.execute("SET LOCAL lock_timeout = '5s'")
        cur.execute("UPDATE d.quota SET held = held WHERE inbox_id = %s",
                    (x.inbox,))
        one.commit()
    finally:
        one.rollback()
        one.close()
        thread.join()
    assert got[0]["status"] == 200


@pytest.fixture(scope="module")
def apart():
    """A database of its own: other tests bring back what was stopped, and a
    tenant that has ended does not come back."""
    with pgcluster.Cluster(fast=True) as db:
        yield pgcluster.World(db)


@pytest.fixture
def lone(apart):
    """A tenant of its own, and two inboxes in the order of their numbers."""
    w = apart
    w.step_up(w.root)
    slug = "lone%d" % (uuid7().int % 10**9)
    t = call1(w.ctl, "tenant_create_1", s=w.root, uid=0, slug=slug,
              name="Lone", pub=os.urandom(32), priv_box=os.urandom(80))
    t.update(slug=slug, su=w.db.connect("postgres"))
    host = slug + ".example"
    call1(w.ctl, "domain_add_1", s=w.root, uid=0, tenant=t["tenant_id"],
          name=host, new_token="a" * 26)
    call1(w.ctl, "domain_verify_1", s=w.root, uid=0, name=host, how="force")
    t["boxes"] = [w.inbox(t["tenant_id"], "b%d@%s" % (n, host))
                  for n in range(2)]
    return t


def stored(w, x):
    m = x.message(["b@x.example"], risk=10)
    assert submit(w.gw, m)["status"] == 202
    return m


def end_of(w, tenant):
    w.step_up(w.root)
    return lambda c: call1(c, "tenant_delete_1", s=w.root, uid=0,
                           tenant=tenant["tenant_id"], slug=tenant["slug"],
                           reason="r")


def test_the_end_of_a_tenant_waits_without_counters(apart, lone):
    """Whoever moves mail of its second inbox may want a later one of its
    first, and the counter of that, as a job over both does."""
    w, su = apart, lone["su"]
    first, second = lone["boxes"]
    m, n, left = [stored(w, x) for x in (second, first, first)]
    assert w.approve(left)["state"] == 2  # held again, it counts again
    does = end_of(w, lone)
    mover = w.db.connect("l_ctl")
    one = w.db.connect("postgres", autocommit=False)
    got = []
    thread = threading.Thread(target=lambda: got.append(does(mover)))
    try:
        cur = one.cursor()
        cur.execute("SELECT 1 FROM d.state WHERE message_id = %s FOR UPDATE",
                    (m["mid"],))
        thread.start()
        waiting(su, mover.info.backend_pid)
        cur.execute("SELECT 1 FROM d.state WHERE message_id = %s FOR UPDATE "
                    "NOWAIT", (n["mid"],))
        cur.execute("SELECT 1 FROM d.quota WHERE inbox_id = %s FOR UPDATE "
                    "NOWAIT", (first.inbox,))
        one.commit()
    finally:
        one.rollback()
        one.close()
        thread.join()
    assert (got[0]["status"], got[0]["inboxes"], got[0]["ended"]) == (
        200, 2, 3)


def test_a_job_meets_the_end_of_a_tenant(apart, lone):
    """Both over two inboxes, and the mail of the second one is older."""
    w, su = apart, lone["su"]
    first, second = lone["boxes"]
    oldest, m, n = [stored(w, x) for x in (second, second, first)]
    rejects, ends = job(w, None, [m, n]), end_of(w, lone)
    jobs, ctl = w.db.connect("l_review"), w.db.connect("l_ctl")
    one = w.db.connect("postgres", autocommit=False)
    got = {}
    end = threading.Thread(target=lambda: got.update(end=ends(ctl)))
    job_ = threading.Thread(target=lambda: got.update(job=rejects(jobs)))
    try:
        one.cursor().execute("SELECT 1 FROM d.state WHERE message_id = %s "
                             "FOR UPDATE", (oldest["mid"],))
        end.start()
        waiting(su, ctl.info.backend_pid)
        job_.start()
        until = time.monotonic() + 10
        while job_.is_alive() and value(
                su, "SELECT wait_event_type FROM pg_stat_activity "
                "WHERE pid = %s", jobs.info.backend_pid) != "Lock":
            assert time.monotonic() < until
    finally:
        one.rollback()
        one.close()
        for thread in (end, job_):
            thread.join()
    assert got["job"]["remaining"] == 0
    assert (got["end"]["status"], got["end"]["ended"]) == (200, 1)


@pytest.mark.parametrize("back", [False, True])
def test_jobs_take_counters_in_one_order(apart, lone, back):
    """Whatever the order of what they are about: who waits for the first
    counter has not the second, which another may have."""
    w, su = apart, lone["su"]
    first, second = lone["boxes"]
    # taken back is from the end on
    ms = [stored(w, x) for x in ((first, second) if back else
                                 (second, first))]
    does = (undone if back else job)(w, None, ms)
    mover = w.db.connect("l_review")
    one = w.db.connect("postgres", autocommit=False)
    got = []
    thread = threading.Thread(target=lambda: got.append(does(mover)))
    try:
        cur = one.cursor()
        cur.execute("SELECT 1 FROM d.quota WHERE inbox_id = %s FOR UPDATE",
                    (first.inbox,))
        thread.start()
        waiting(su, mover.info.backend_pid)
        cur.execute("SELECT 1 FROM d.quota WHERE inbox_id = %s FOR UPDATE "
                    "NOWAIT", (second.inbox,))
    finally:
        one.rollback()
        one.close()
        thread.join()
    assert (got[0]["status"], got[0]["remaining"]) == (200, 0)
