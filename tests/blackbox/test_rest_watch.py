# SPDX-License-Identifier: ISC
"""wait and the stream of events: nothing missed, nothing twice, dead keys."""

import http.client
import json
import threading
import time

import pytest

from tests.lib import contract, leaks, postern
from tests.blackbox.test_rest import Client, MAIL, refusal, stored


@pytest.fixture(scope="module")
def gate():
    with postern.Deployment() as d:
        d.add_tenant("acme", "acme.example")
        d.sql("UPDATE d.plan SET lim_hour = 100000, lim_day = 100000, "
              "lim_month = 1000000, lim_held = 100000")
        d.box = d.add_inbox("bot@acme.example", "acme")
        d.other = d.add_inbox("two@acme.example", "acme")
        d.doomed = d.add_inbox("doomed@acme.example", "acme")
        d.start("posternd")
        yield d


@pytest.fixture
def bot(gate):
    return Client(gate, gate.box.key)


class Stream:
    """GET /v1/events; read() gives the next event, None at the end."""

    def __init__(self, client, after=None):
        self.conn = http.client.HTTPSConnection(
            "127.0.0.1", client.port, context=client.context, timeout=30)
        self.conn.request("GET", "/v1/events", headers=dict(
            {"Authorization": "Bearer " + client.key},
            **({"Last-Event-ID": after} if after else {})))
        self.reply = self.conn.getresponse()
        self.status = self.reply.status
        contract.check("GET", "/v1/events", self.status, {}, b"")
        self.last = None
        self.beats = 0
        self.pending = None  # an event that came before the first place

    def started(self):
        """Waits until the server has a place in the order of events."""
        while self.last is None:
            self.pending = self.block()
        return self

    def block(self):
        event = {}
        while True:
            line = self.reply.readline().decode().rstrip("\n")
            if not line:
                break
            # a heartbeat comes every 15 s: two of them are too long
            self.beats = self.beats + 1 if line == ":" else 0
            assert self.beats < 2, "no event in time"
            name, _, value = line.partition(": ")
            event[name] = value
        self.last = event.get("id", self.last)
        return event

    def read(self):
        while True:
            event, self.pending = self.pending or self.block(), None
            if "data" in event:
                doc = json.loads(event["data"])
                assert doc["type"] == event["event"]
                return doc
            if not event:
                return None

    def close(self):
        self.conn.close()


def test_wait_times_out_and_says_where_to_go_on(bot):
    status, _, doc = bot.get("/v1/wait?timeout=0")
    assert status == 200 and doc["timed_out"] and doc["events"] == []
    sent = stored(bot.send(subject="after the wait"))
    status, _, doc = bot.get("/v1/wait?timeout=20&after=" + doc["next"])
    assert not doc["timed_out"]
    assert [(e["type"], e["message_id"]) for e in doc["events"]] == [
        ("message.held", sent["message_id"])]
    again = bot.get("/v1/wait?timeout=0&after=" + doc["next"])[2]
    assert again["timed_out"], again


def test_a_wait_always_has_a_place(gate, bot):
    """Even when its time is over before the database answers."""
    sent = stored(bot.send(subject="slow look"))
    lock = gate.connect()
    lock.autocommit = False
    with lock.cursor() as cur:
        cur.execute("LOCK TABLE d.event IN ACCESS EXCLUSIVE MODE")
    got = {}
    t = threading.Thread(target=lambda: got.update(doc=bot.get(
        "/v1/wait?timeout=0&message_id=" + sent["message_id"])[2]))
    t.start()
    try:
        postern.wait_until("the look waits", lambda: gate.sql(
            "SELECT count(*) AS n FROM pg_locks WHERE NOT granted")[0]["n"])
        t.join(1)  # longer than the 200 ms that the wait gives itself
        assert t.is_alive()
    finally:
        lock.rollback()
        lock.close()
    t.join(30)
    assert got["doc"]["timed_out"] and got["doc"]["next"]


def test_wait_blocks_until_something_happens(bot):
    sent = stored(bot.send(subject="to be canceled"))
    got = {}

    def wait():
        started.set()
        got["doc"] = bot.get("/v1/wait?timeout=20&message_id="
                             + sent["message_id"])[2]
        got["at"] = time.monotonic()
    started = threading.Event()
    t = threading.Thread(target=wait)
    t.start()
    started.wait()
    assert bot.call("POST", "/v1/messages/%s/cancel"
                    % sent["message_id"])[0] == 200
    canceled = time.monotonic()
    t.join(30)
    assert [e["type"] for e in got["doc"]["events"]] == ["message.canceled"]
    assert got["at"] - canceled < 15  # and not at the end of the wait
    # what happened before the wait began is not missed either
    doc = bot.get("/v1/wait?timeout=20&message_id=" + sent["message_id"])[2]
    assert [e["type"] for e in doc["events"]] == ["message.canceled"]


def test_a_stream_tells_in_order_and_replays(bot):
    s = Stream(bot).started()
    assert s.status == 200
    sent = [stored(bot.send(subject="stream %d" % i)) for i in range(3)]
    first = s.read()
    assert first["message_id"] == sent[0]["message_id"]
    place = s.last
    assert [s.read()["message_id"] for _ in range(2)] == [
        m["message_id"] for m in sent[1:]]
    s.close()
    bot.call("POST", "/v1/messages/%s/cancel" % sent[0]["message_id"])
    s = Stream(bot, after=place)
    seen = [s.read() for _ in range(3)]
    assert [(e["type"], e["message_id"]) for e in seen] == [
        ("message.held", sent[1]["message_id"]),
        ("message.held", sent[2]["message_id"]),
        ("message.canceled", sent[0]["message_id"])]
    s.close()


def test_no_event_is_lost_between_transactions(gate, bot):
    """An event written early and committed late is told in its own place,
    before those that overtook it, and is not skipped."""
    sent = [stored(bot.send(subject="race %d" % i)) for i in range(2)]
    place = bot.get("/v1/wait?timeout=0")[2]["next"]
    s = Stream(bot).started()
    slow = gate.connect()
    slow.autocommit = False
    with slow.cursor() as cur:
        cur.execute("SELECT set_config('postern.boxes', %s, false)",
                    ("{%d.%d}" % (gate.box.tenant_id, gate.box.inbox_id),))
        # an event alone: a change of held mail would make others wait
        cur.execute(
            "SELECT d.event_add(m.message_id, m.tenant_id, m.inbox_id, "
            "'message.deferred', 'worker', 'worker', 9::smallint, '4.4.1') "
            "FROM d.message m WHERE m.subject = 'race 0'")
    bot.call("POST", "/v1/messages/%s/cancel" % sent[1]["message_id"])
    # two looks and more, and nothing is told before its turn
    assert bot.get("/v1/wait?timeout=2&after=" + place)[2]["timed_out"]
    slow.commit()
    slow.close()
    assert [s.read()["type"] for _ in range(2)] == [
        "message.deferred", "message.canceled"]
    s.close()


def test_nobody_sees_what_happens_to_others(gate, bot):
    other = Client(gate, gate.other.key)
    place = other.get("/v1/wait?timeout=0")[2]["next"]
    sent = stored(bot.send(subject="private"))
    doc = other.get("/v1/wait?timeout=1&after=" + place)[2]
    assert doc["timed_out"], doc
    for query in ("", "&after=" + place):
        assert refusal(other.get("/v1/wait?timeout=9&message_id=%s%s" % (
            sent["message_id"], query))) == (404, "not_found")
    # the other's place is only a place in one's own inbox
    mine = bot.get("/v1/wait?timeout=20&after=" + place)[2]["events"]
    assert sent["message_id"] in [e["message_id"] for e in mine]
    # a send key sees what it sent itself
    send_only = Client(gate, gate.box.smtp_key)
    assert send_only.get("/v1/wait?timeout=1&after=" + place)[2]["timed_out"]


def test_what_is_no_place_or_time(bot):
    for query in ("timeout=-1", "timeout=121", "timeout=x", "after=x",
                  "after=" + "A" * 48, "after=" + "_" * 48,
                  "message_id=msg_x"):
        assert refusal(bot.get("/v1/wait?" + query)) == (
            422, "validation_error"), query
    assert refusal(bot.get("/v1/events?after=x"))[0] == 422
    assert bot.call("HEAD", "/v1/events")[0] == 200


def test_a_place_from_anywhere_is_harmless(bot):
    """Well-formed bytes that no server gave: an answer, never an error."""
    import base64
    import random
    r = random.Random(7)
    for _ in range(40):
        raw = (r.randbytes(8) + r.randrange(1, 4 * 10**15).to_bytes(8, "big")
               + r.randbytes(20))
        place = base64.urlsafe_b64encode(raw).decode()
        assert bot.get("/v1/wait?timeout=0&after=" + place)[0] == 200


def test_revocation_ends_streams_and_waits(gate):
    doomed = Client(gate, gate.doomed.key)
    s = Stream(doomed).started()
    answer = {}

    def wait():
        answer["got"] = doomed.get("/v1/wait?timeout=60", timeout=90)
    t = threading.Thread(target=wait)
    t.start()
    postern.wait_until("the wait asks", lambda: gate.sql(
        "SELECT count(*) AS n FROM pg_stat_activity WHERE query LIKE "
        "'%%my_stream_1%%' AND usename = 'l_gateway'")[0]["n"])
    begun = time.monotonic()
    gate.revoke(gate.doomed, gate.doomed.full_key_id)
    assert s.read() is None
    t.join(30)
    assert refusal(answer["got"]) == (401, "unknown_api_key")
    assert time.monotonic() - begun < 10


def test_one_inbox_cannot_hold_all_places(gate, bot):
    streams = [Stream(bot) for _ in range(32)]
    assert all(s.status == 200 for s in streams)
    assert Stream(bot).status == 429
    assert Stream(Client(gate, gate.other.key)).status == 200
    for s in streams:
        s.close()


def test_sandboxes_leave_their_owner_places(gate):
    owner = Client(gate, gate.box.key)

    def session():
        doc = owner.call("POST", "/v1/sessions", {"policy": {}})[2]
        gate.issued.update(leaks.of_token("session", doc["key"]))
        return Client(gate, doc["key"])
    runs = [session() for _ in range(5)]
    streams = []
    for run in runs[:4]:
        streams += [Stream(run) for _ in range(4)]
        assert refusal(run.get("/v1/wait?timeout=0")) == (429, "rate_limited")
    assert all(s.status == 200 for s in streams)
    assert Stream(runs[4]).status == 429
    assert owner.get("/v1/wait?timeout=0")[0] == 200
    streams += [Stream(owner) for _ in range(16)]
    assert streams[-1].status == 200
    assert Stream(owner).status == 429
    for s in streams:
        s.close()


def test_a_stop_ends_streams_at_once(gate, bot):
    s = Stream(bot).started()
    begun = time.monotonic()
    gate.programs["posternd"].stop(timeout=20)
    assert s.read() is None
    assert time.monotonic() - begun < 10
    gate.start("posternd")
