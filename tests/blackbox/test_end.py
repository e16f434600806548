# SPDX-License-Identifier: ISC
"""
An inbox and a tenant that end: their keys are destroyed, what waited goes
nowhere, and nobody opens what they stored again; and what a tenant may take
along. Maintenance removes all that is past its time, however much it is.
"""
import json
import os
import re
import subprocess

import pytest

from tests.blackbox.test_backup import Drill
from tests.lib import pages, postern


@pytest.fixture(scope="module")
def d():
    with Drill() as drill:
        drill.password = drill.path("password")
        with open(drill.password, "w") as f:
            f.write(drill.operator_password + "\n")
        yield drill


def unsure(d):
    """The operator's password was shown some time ago."""
    d.sql("UPDATE d.operator_session SET step_up_until = NULL, step_up_by = "
          "NULL")


def rows(d, table, box):
    return d.sql("SELECT count(*) AS n FROM d.%s WHERE tenant_id = %%s "
                 "AND inbox_id = %%s" % table, box.tenant_id,
                 box.inbox_id)[0]["n"]


def bodies(d, mid):
    return d.sql("SELECT count(*) AS n FROM d.body WHERE message_id = %s",
                 mid)[0]["n"]


def kept(d):
    """All that PostgreSQL has, as text."""
    return subprocess.run([
        os.path.join(d.pg_bin, "pg_dump"), "-h", d.path("sock"), "-U",
        "postgres", "--data-only", "postern"], capture_output=True, text=True,
        check=True).stdout


def test_inbox_delete(d):
    box = d.add_inbox("leaves@acme.example")
    ann = pages.Pages(d)
    held = d.submit(box=box)
    approved = d.submit(box=box)
    assert ann.approve(approved) == 303
    unsure(d)
    words = ("inbox", "delete", box.address, "--reason", "left")
    assert "step_up_required" in d.signed_in(*words, ok=False)
    assert "--reason" in d.signed_in(*words[:3], ok=False)
    assert rows(d, "key_wrap", box) == 1
    said = d.signed_in(*words, "--password-file", d.password)
    assert re.search(r"ended +2", said), said
    assert not d.signs_in(box)
    assert rows(d, "key_wrap", box) == rows(d, "inbox_key", box) == 0
    for mid in (held, approved):
        d.wait_state(mid, "expired", timeout=60)
    assert not d.mx.messages
    # Bodies go with the next maintenance, not in 30 days.
    assert bodies(d, held) and bodies(d, approved)
    d.ctl("maintain")
    assert not bodies(d, held) and not bodies(d, approved)
    assert d.sql("SELECT 1 FROM d.audit WHERE event = 'inbox.delete' AND "
                 "detail LIKE '%%left%%'")
    # Nobody else gets the address for a while.
    code = b"c" * 32
    again = ("inbox_create_1", d.session, os.geteuid(), box.tenant_id,
             box.address, "default", "", code, False)
    d.api(*again, ok=(409,))
    d.sql("UPDATE d.inbox SET deleted_at = deleted_at - interval '91 days' "
          "WHERE inbox_id = %s", box.inbox_id)
    d.ctl("maintain")
    d.api(*again)
    assert "not_found" in d.signed_in(
        "inbox", "delete", "nobody@acme.example", "--reason", "x", ok=False)


def test_tenant_export_and_delete(d):
    d.add_tenant("leaver", "leaver.example")
    box = d.add_inbox("bot@leaver.example", tenant="leaver")
    mids = [d.submit(box=box, subject="to take along %d" % n,
                     rcpts=("whomever%d@taken.example" % n,))
            for n in range(4)]
    ann = pages.Pages(d)
    assert ann.press(mids[2], "decide", ann.form(mids[2], "decide"),
                     verdict="r", category="other",
                     note="along with a note")[0] == 303
    assert ann.approve(mids[3]) == 303
    d.due(mids[3])
    d.wait_state(mids[3], "sent", timeout=60)
    stays = d.submit(box=d.gated, subject="somebody else's along")
    postern.wait_until("the words of the search", lambda: d.sql(
        "SELECT 1 FROM d.word WHERE message_id = %s", stays), 60)
    path = d.path("leaver.jsonl")
    d.signed_in("tenant", "export", "leaver", path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    with open(path) as f:
        lines = [json.loads(line) for line in f]
    assert lines[0]["tenant"]["inboxes"][0]["address"] == box.address
    assert [x["messages"]["message_id"] for x in lines[1:]] == sorted(mids)
    assert {x["messages"]["subject"] for x in lines[1:]} == {
        "to take along %d" % n for n in range(4)}
    by_id = {x["messages"]["message_id"]: x["messages"] for x in lines[1:]}
    assert "message.rejected" in {
        e["type"] for e in by_id[mids[2]]["events"]}
    assert by_id[mids[0]]["state"] == 1 and by_id[mids[2]]["state"] == 3
    assert by_id[mids[3]]["state"] == 8
    assert "Number" not in open(path).read()  # no body
    # Never over what is there.
    assert "exists" in d.signed_in("tenant", "export", "leaver", path,
                                   ok=False)
    unsure(d)
    words = ("tenant", "delete", "leaver", "--reason", "end of contract")
    assert "step_up_required" in d.signed_in(*words, ok=False)
    d.signed_in(*words, "--password-file", d.password)
    assert not d.signs_in(box)
    assert not d.sql("SELECT 1 FROM d.tenant_key WHERE tenant_id = %s",
                     box.tenant_id)
    for mid in mids[:2]:
        d.wait_state(mid, "expired", timeout=60)
    # The operators' key opens nothing of it any more.
    _, _, page = ann.call("GET", "/m/" + pages.public_id(mids[0]))
    assert "Number" not in page
    clear = ("to take along", "whomever", "along with a note")
    for words in clear:
        assert words in kept(d), words
    # With the next maintenance what was in clear has left, too.
    assert re.search(r"deleted tenants +4", re.sub(
        r" removed", "", d.ctl("maintain")))
    left = kept(d)
    for words in clear:
        assert words not in left, words
    assert "somebody else's along" in left and d.state(stays) == "held"
    for table in ("message", "state", "decision", "release", "delivery",
                  "attempt", "event", "word", "body", "key_wrap", "inbox_key",
                  "tenant_key", "idem"):
        assert not d.sql("SELECT 1 FROM d.%s WHERE tenant_id = %%s" % table,
                         box.tenant_id), table
    # The audit log still says who decided what, and is whole.
    assert {"message.submitted", "tenant.delete"} <= {
        r["event"] for r in d.sql("SELECT event FROM d.audit WHERE "
                                  "tenant_id = %s", box.tenant_id)}
    d.seal()
    assert "verified" in d.verify(d.path("state", "audit-heads"))
    assert ann.call("GET", "/m/" + pages.public_id(mids[0]))[0] == 404
    assert "not_found" in d.signed_in("tenant", "set", "leaver", "--disabled",
                                      "no", ok=False)
    assert d.sql("SELECT 1 FROM d.domain WHERE tenant_id = %s AND removed_at "
                 "IS NULL", box.tenant_id) == []
    assert d.signs_in(d.gated)


def test_maintain_removes_all_that_is_due(d):
    """More than the thousand of one call."""
    box = d.add_inbox("busy@acme.example")
    mid = d.submit(box=box)
    d.sql("INSERT INTO d.claim (claim_sha256, tenant_id, inbox_id, "
          "expires_at) VALUES (sha256('x'), %s, %s, clock_timestamp())",
          box.tenant_id, box.inbox_id)
    # Old uploads that never became a message: a row each, and no chunk.
    d.sql("INSERT INTO d.upload (message_id, tenant_id, inbox_id, key_id, "
          "chunks, bytes) SELECT d.uuid_floor(clock_timestamp() - interval "
          "'26 hours' + n * interval '1 ms'), %s, %s, %s, 1, 1 "
          "FROM generate_series(1, 2500) n", box.tenant_id, box.inbox_id,
          box.send_key_id)
    d.sql("INSERT INTO d.body (message_id, tenant_id, inbox_id, version, "
          "seq, data) SELECT u.message_id, u.tenant_id, u.inbox_id, 1, 0, "
          "'x' FROM d.upload u WHERE u.inbox_id = %s", box.inbox_id)
    d.ctl("maintain")
    assert d.sql("SELECT count(*) AS n FROM d.upload WHERE inbox_id = %s",
                 box.inbox_id)[0]["n"] == 0
    assert d.sql("SELECT count(*) AS n FROM d.body WHERE inbox_id = %s",
                 box.inbox_id)[0]["n"] == bodies(d, mid)
    postern.wait_until("it still waits", lambda: d.state(mid) == "held")
