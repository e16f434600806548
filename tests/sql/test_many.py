# SPDX-License-Identifier: ISC
"""Who moves many messages at once, and somebody who decides one of them."""
import os
import threading
import time

import pytest

from pgcluster import call, call1, sha256, submit, uuid7
from test_gate import one as value, tag


def waiting(su, pid):
    until = time.monotonic() + 10
    while value(su, "SELECT wait_event_type FROM pg_stat_activity "
                "WHERE pid = %s", pid) != "Lock":
        assert time.monotonic() < until


def confirmed(w, x, ms, verdict):
    """The id of a job over all of them, which may run."""
    name = uuid7()
    assert call1(w.rv, "job_make_1", s=w.root, job=name, verdict=verdict,
                 tenant=None, inbox=x.inbox, q=None, ids=None,
                 about="x")["items"] == len(ms)
    sha = call1(w.rv, "jobs_1", s=w.root, job=name)["items_sha256"]
    assert call1(w.rv, "job_confirm_1", s=w.root, job=name, items_sha256=sha,
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
