# SPDX-License-Identifier: ISC
"""
Someone who owns the database, but no key, tries to get held mail out or to
change what was approved: rows are forged and altered with every trigger and
key of the database switched off. The worker refuses, raises the alarm and
returns the message to held, where it can only be rejected.
"""
import re
import time
import urllib.request

import pytest

from tests.lib.pages import Pages, public_id
from tests.lib.relaying import Relaying


@pytest.fixture(scope="module")
def r():
    with Relaying() as it:
        it.set_conf("admin", undo="120s")
        it.start_worker()
        it.start("postern-admin")
        it.pages = Pages(it)
        it.count = 0
        yield it


class Su:
    """A superuser for whom no constraint and no trigger holds."""

    def __init__(self, r):
        self.c = r.connect()
        with self.c.cursor() as cur:
            cur.execute("ALTER TABLE d.message DROP CONSTRAINT IF EXISTS "
                        "message_digest")
            cur.execute("SET session_replication_role = replica")

    def __call__(self, query, *args):
        with self.c.cursor() as cur:
            cur.execute(query, args or None)
            return cur.fetchall() if cur.description else cur.rowcount


@pytest.fixture
def su(r):
    it = Su(r)
    yield it
    it.c.close()


def new_box(r):
    r.count += 1
    return r.add_inbox("a%d@acme.example" % r.count)


def held(r, box, rcpt="ann@dest.example", body="Hello\r\n"):
    mid = r.submit(box=box, rcpts=[rcpt], body=body)
    assert r.state(mid) == "held"
    return mid


def approved(r, box, **kw):
    mid = held(r, box, **kw)
    assert r.pages.approve(mid) == 303
    return mid


def counted(r):
    with urllib.request.urlopen(
            "http://127.0.0.1:%d/metrics" % (r.metrics_port + 2)) as f:
        m = re.search(r'^postern_attempts_total\{class="integrity"\} (\d+)',
                      f.read().decode(), re.M)
        return int(m[1]) if m else 0


def assert_refused(r, mid, box, why):
    """Nothing left, all know, and only a rejection is possible."""
    before, mark = counted(r), r.worker.mark()
    form = r.pages.form(mid, "decide")
    r.due(mid)
    e = r.worker.wait("deliver.integrity", since=mark)
    assert e["why"] == why and e["level"] == "error"
    r.wait_state(mid, "held")
    assert counted(r) == before + 1
    assert not r.mx.messages and "MAIL" not in r.mx.verbs
    r.assert_settled(mid)
    assert not r.sql("SELECT 1 FROM d.send_q WHERE message_id = %s", mid)
    row = r.sql("SELECT * FROM d.state WHERE message_id = %s", mid)[0]
    assert row["integrity"] == why
    assert r.sql("SELECT alarm FROM d.inbox WHERE inbox_id = %s",
                 box.inbox_id)[0]["alarm"] == "integrity: " + why
    assert r.audit(mid)[-1] == "worker message.integrity"
    # Approving is over for this message, whatever form is sent.
    forms = re.findall(r'id="approve-button"',
                       r.pages.call("GET", "/m/" + public_id(mid))[2])
    assert not forms and form is None
    dig = r.sql("SELECT digest FROM d.message WHERE message_id = %s AND "
                "version = %s", mid, row["version"])[0]["digest"]
    answer = r.sql(
        "SELECT * FROM api.decide_1(%s, %s, %s::smallint, %s::smallint, %s, "
        "'a', NULL, NULL, NULL, NULL, 0, 'test', %s, %s, %s, 0, NULL)",
        r.session, mid, row["version"], row["round"], bytes(dig), b"b" * 200,
        b"t" * 32, int((time.time() + 3600) * 1e6), user="l_review")[0]
    assert (answer["status"], answer["code"]) == (409, "state_conflict")
    answer = r.sql(
        "SELECT * FROM api.decide_1(%s, %s, %s::smallint, %s::smallint, %s, "
        "'r', NULL, 'suspicious', NULL, NULL, 0, 'test', NULL, NULL, NULL, 0, "
        "NULL)", r.session, mid, row["version"], row["round"], bytes(dig),
        user="l_review")[0]
    assert (answer["status"], answer["state"]) == (200, 3)


@pytest.fixture(autouse=True)
def fresh(r):
    r.mx.reset()


# -- altered after the approval --------------------------------------------------

@pytest.mark.parametrize("why,change", [
    # the envelope
    ("digest", "UPDATE d.message SET rcpt = '{anm@dest.example}'"),
    ("digest", "UPDATE d.message SET rcpt = rcpt || '{eve@dest.example}', "
               "rcpt_kind = 'tt'"),
    ("digest", "UPDATE d.message SET rcpt = "
               "ARRAY[E'ann@dest.example\\neve@dest.example']"),
    ("digest", "UPDATE d.message SET mail_from = 'ceo@acme.example'"),
    ("digest", "UPDATE d.message SET params = E'RET=FULL\\n'"),
    ("digest", "UPDATE d.message SET test = NOT test"),
    ("digest", "UPDATE d.message SET not_after = not_after + 1"),
    ("digest", "UPDATE d.message SET send_at = send_at + 1"),
    ("digest", "UPDATE d.message SET size = size - 1"),
    ("digest", "UPDATE d.message SET body_tag = set_byte(body_tag, 0, "
               "get_byte(body_tag, 0) # 1)"),
    # the body
    ("body", "UPDATE d.body SET data = set_byte(data, 40, "
             "get_byte(data, 40) # 1)"),
    ("body", "UPDATE d.body SET data = substr(data, 1, length(data) - 1)"),
    ("body", "DELETE FROM d.body"),
    # the release
    ("release tag", "UPDATE d.release SET tag = set_byte(tag, 0, "
                    "get_byte(tag, 0) # 1)"),
    ("release tag", "UPDATE d.release SET expiry = expiry + 1"),
    ("release tag", "UPDATE d.release SET by_what = 'm', mode = 4, "
                    "mode_epoch = 0"),
    ("relay box", "UPDATE d.release SET relay_box = set_byte(relay_box, 120, "
                  "get_byte(relay_box, 120) # 1)"),
])
def test_altered_after_the_approval(r, su, why, change):
    box = new_box(r)
    mid = approved(r, box)
    assert su(change + " WHERE message_id = %s", mid) == 1
    assert_refused(r, mid, box, why)


def test_another_digest_everywhere(r, su):
    """One recipient more, and every digest in the database made to fit."""
    box = new_box(r)
    mid = approved(r, box)
    su("UPDATE d.message SET rcpt = '{eve@dest.example}' WHERE message_id = "
       "%s", mid)
    su("UPDATE d.message m SET digest = d.digest_1(tenant_id, inbox_id, "
       "message_id, version, test, mail_from, rcpt, params, size, body_tag, "
       "send_at, not_after) WHERE message_id = %s", mid)
    for table in ("decision", "release", "send_q"):
        su("UPDATE d.%s t SET digest = m.digest FROM d.message m WHERE "
           "m.message_id = t.message_id AND t.message_id = %%s" % table, mid)
    su("UPDATE d.delivery SET canon = 'eve@dest.example' WHERE message_id = "
       "%s", mid)
    assert_refused(r, mid, box, "release tag")


@pytest.mark.parametrize("column", ["round", "version"])
def test_another_round_or_version(r, su, column):
    box = new_box(r)
    mid = approved(r, box)
    tables = ["state", "release", "send_q"]
    if column == "version":
        tables += ["message", "body"]
    for table in tables:
        su("UPDATE d.%s SET %s = %s + 1 WHERE message_id = %%s" % (
            table, column, column), mid)
    assert_refused(r, mid, box, "release tag")


def test_the_epoch_of_another_restore(r, su):
    box = new_box(r)
    mid = approved(r, box)
    su("UPDATE d.deployment SET epoch = epoch + 1")
    try:
        assert_refused(r, mid, box, "release tag")
    finally:
        su("UPDATE d.deployment SET epoch = epoch - 1")


def test_the_domain_it_is_routed_to(r, su):
    """The queue row names the domain; the approval named the recipient."""
    box = new_box(r)
    mid = approved(r, box)
    su("UPDATE d.delivery SET domain = 'eve.example' WHERE message_id = %s",
       mid)
    su("UPDATE d.send_q SET domain = 'eve.example' WHERE message_id = %s",
       mid)
    assert_refused(r, mid, box, "domain")


# -- forged from nothing ----------------------------------------------------------

def forge(su, mid, source, by="o"):
    """A decision, a release and a queue row, keys taken from `source`."""
    su("INSERT INTO d.decision (message_id, tenant_id, inbox_id, version, "
       "round, operator_id, verdict, digest) SELECT message_id, tenant_id, "
       "inbox_id, version, 1, 1, 'a', digest FROM d.message "
       "WHERE message_id = %s", mid)
    su("INSERT INTO d.release (message_id, tenant_id, inbox_id, version, "
       "round, digest, by_what, mode, mode_epoch, relay_box, tag, expiry, "
       "not_before) SELECT m.message_id, m.tenant_id, m.inbox_id, m.version, "
       "1, m.digest, x.by_what, x.mode, x.mode_epoch, x.relay_box, x.tag, "
       "x.expiry, now() FROM d.message m, d.release x WHERE m.message_id = %s "
       "AND x.message_id = %s", mid, source)
    su("INSERT INTO d.delivery (message_id, tenant_id, inbox_id, ix, domain, "
       "canon) SELECT message_id, tenant_id, inbox_id, x.ix, "
       "d.domain_of(x.a), d.canon(x.a) FROM d.message, unnest(rcpt) "
       "WITH ORDINALITY x(a, ix) WHERE message_id = %s", mid)
    su("INSERT INTO d.send_q (message_id, tenant_id, inbox_id, domain, "
       "version, round, digest, vt, due_at, give_up_at, stale_at) SELECT "
       "DISTINCT v.message_id, v.tenant_id, v.inbox_id, v.domain, m.version, "
       "1, m.digest, 0, now() + interval '1 hour', now() + interval "
       "'72 hours', now() + interval '72 hours' FROM d.delivery v JOIN "
       "d.message m USING (message_id, tenant_id) WHERE v.message_id = %s",
       mid)
    su("UPDATE d.state SET state = 2 WHERE message_id = %s", mid)


def test_forged_approval(r, su):
    """Held mail with a decision and release made by hand."""
    box = new_box(r)
    source = approved(r, box)
    su("DELETE FROM d.send_q WHERE message_id = %s", source)
    mid = held(r, box, body="secret\r\n")
    forge(su, mid, source)
    assert_refused(r, mid, box, "release tag")


def test_forged_release_by_policy(r, su):
    """As if the mode had allowed it, with the tag of mail that it did."""
    box = new_box(r)
    r.set_mode(box, 4)
    source = r.submit(box=box, rcpts=["ann@dest.example"])
    r.wait_state(source, "sent")
    r.set_mode(box, 2)
    r.mx.reset()
    mid = held(r, box, body="secret\r\n")
    forge(su, mid, source)
    su("UPDATE d.inbox SET mode = 4 WHERE inbox_id = %s", box.inbox_id)
    assert_refused(r, mid, box, "release tag")


def test_held_body_under_an_approved_envelope(r, su):
    """Approved mail to eve gets the body of held mail."""
    box = new_box(r)
    secret = held(r, box, body="secret\r\n")
    mid = approved(r, box, rcpt="eve@dest.example", body="hello!\r\n")
    su("UPDATE d.body b SET data = s.data FROM d.body s WHERE b.message_id = "
       "%s AND s.message_id = %s", mid, secret)
    su("UPDATE d.message m SET tenant_box = s.tenant_box, inbox_box = "
       "s.inbox_box, chunks = s.chunks FROM d.message s WHERE m.message_id = "
       "%s AND s.message_id = %s", mid, secret)
    assert_refused(r, mid, box, "body")
    assert r.state(secret) == "held"


def test_held_body_under_another_recipient(r, su):
    """Held mail, its recipient replaced, released with eve's own approval."""
    box = new_box(r)
    source = approved(r, box, rcpt="eve@dest.example")
    su("DELETE FROM d.send_q WHERE message_id = %s", source)
    mid = held(r, box, body="secret\r\n")
    su("UPDATE d.message SET rcpt = '{eve@dest.example}' WHERE message_id = "
       "%s", mid)
    su("UPDATE d.message SET digest = d.digest_1(tenant_id, inbox_id, "
       "message_id, version, test, mail_from, rcpt, params, size, body_tag, "
       "send_at, not_after) WHERE message_id = %s", mid)
    forge(su, mid, source)
    assert_refused(r, mid, box, "release tag")


def test_the_box_of_another_message(r, su):
    """The right tag, but the key handed over is another message's."""
    box = new_box(r)
    one, two = approved(r, box), approved(r, box, body="other\r\n")
    su("UPDATE d.release x SET relay_box = s.relay_box FROM d.release s "
       "WHERE x.message_id = %s AND s.message_id = %s", one, two)
    assert_refused(r, one, box, "relay box")
    r.due(two)
    r.wait_state(two, "sent")


def test_altered_while_it_is_relayed(r, su):
    """A body read twice: the second reading is checked like the first."""
    box = new_box(r)
    body = "".join("%070d\r\n" % i for i in range(30000))
    mid = approved(r, box, body=body)
    gate = r.mx.hold("DATA")
    mark = r.worker.mark()
    r.due(mid)
    gate.reached()
    n = su("UPDATE d.body SET data = set_byte(data, 40, get_byte(data, 40) "
           "# 1) WHERE message_id = %s AND seq = 5", mid)
    assert n == 1
    gate.open()
    e = r.worker.wait("deliver.integrity", since=mark)
    assert e["why"] == "body"
    r.wait_state(mid, "held")
    assert not r.mx.messages
    r.assert_settled(mid)


def test_limit_a_true_release_can_be_replayed(r, su):
    """
    What SECURITY.md admits: a release once truly made, and undone, can be
    put back by who owns the database, until its expiry. The expiry itself
    is in the tag and cannot be moved.
    """
    box = new_box(r)
    mid = approved(r, box)
    assert r.pages.undo(mid, r.pages.form(mid, "undo"))
    su("UPDATE d.state SET state = 2, round = 1 WHERE message_id = %s", mid)
    su("INSERT INTO d.send_q (message_id, tenant_id, inbox_id, domain, "
       "version, round, digest, vt, due_at, give_up_at, stale_at) SELECT "
       "message_id, tenant_id, inbox_id, 'dest.example', version, round, "
       "digest, 0, now(), now() + interval '1 day', now() + interval '1 day' "
       "FROM d.release WHERE message_id = %s", mid)
    r.wait_state(mid, "sent")
    assert len(r.mx.messages) == 1
