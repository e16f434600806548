# SPDX-License-Identifier: ISC
"""POST /v1/hooks/e2b: what a killed or paused sandbox had, ends."""
import base64
import hashlib
import json
import os
import time

import pytest

from tests.blackbox.test_rest import Client, refusal, stored
from tests.lib import postern

SECRET = b"e2b says " + os.urandom(12).hex().encode()


@pytest.fixture(scope="module")
def gate():
    with postern.Deployment() as d:
        d.add_tenant("acme", "acme.example")
        d.add_tenant("rival", "rival.example")
        d.sql("UPDATE d.plan SET lim_hour = 100000, lim_day = 100000, "
              "lim_month = 1000000, lim_held = 100000")
        d.box = d.add_inbox("bot@acme.example", "acme")
        d.other = d.add_inbox("bot@rival.example", "rival")
        path = d.path("e2b.secret")
        with open(path, "wb") as f:
            f.write(SECRET + b"\n")
        os.chmod(path, 0o400)
        d._own(path)
        d.set_conf("keys", e2b_secret_file=path)
        d.start("posternd")
        yield d


def stamp(ago=0):
    t = time.time() - ago
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(t)) \
        + ".%03dZ" % (t % 1 * 1000)


def event(sandbox, kind="killed", ago=0, **change):
    """As E2B sends it."""
    doc = {"version": "v2", "id": "ev-" + os.urandom(8).hex(),
           "type": "sandbox.lifecycle." + kind, "timestamp": stamp(ago),
           "event_data": {"sandbox_metadata": {"of": "a test"}},
           "sandbox_id": sandbox, "sandbox_template_id": "t",
           "sandbox_build_id": "b", "sandbox_team_id": "team",
           "sandbox_execution_id": "x"}
    doc.update(change)
    return json.dumps({k: v for k, v in doc.items()
                       if v is not None}).encode()


def sign(body, secret=SECRET):
    made = base64.b64encode(hashlib.sha256(secret + body).digest())
    return made.decode().rstrip("=")


def post(gate, body, signature=None):
    return Client(gate).call("POST", "/v1/hooks/e2b", body, {
        "Content-Type": "application/json", "e2b-signature":
        sign(body) if signature is None else signature})


def session(gate, box, sandbox):
    bot = Client(gate, box.key)
    got = bot.call("POST", "/v1/sessions", {
        "sandbox_id": sandbox, "policy": {
            "recipients": ["ada@example.org"], "max_messages": 5,
            "doors": ["rest", "smtp"]}})
    assert got[0] == 201, got
    return got[2]["session_id"], Client(gate, got[2]["key"])


@pytest.mark.parametrize("kind", ["killed", "paused"])
def test_every_session_of_the_sandbox_ends(gate, kind):
    """Those of every inbox; those of another sandbox, and later ones, live."""
    name = "sbx-" + kind
    first, run = session(gate, gate.box, name)
    _, also = session(gate, gate.other, name)
    _, away = session(gate, gate.box, name + "-2")
    mail = stored(run.send(subject="left held"))
    body = event(name, kind)
    status, _, doc = post(gate, body)
    assert (status, doc) == (200, {"ended": 2, "replayed": False})
    for key in (run, also):
        assert refusal(key.get("/v1/auth/me")) == (401, "unknown_api_key")
    assert away.get("/v1/auth/me")[0] == 200
    owner = Client(gate, gate.box.key)
    record = owner.get("/v1/sessions/" + first)[2]
    assert record["torn_down"] and record["ended_at"]
    assert record["exit_error"] == "sandbox " + kind
    assert record["counts"] == {"canceled": 1}
    assert owner.get("/v1/messages/" + mail["message_id"])[2]["status"] \
        == "canceled"
    _, later = session(gate, gate.box, name)
    assert post(gate, body)[2] == {"ended": 0, "replayed": True}
    # the same report under another name is older than the session
    again = body.replace(json.loads(body)["id"].encode(), b"ev-" + kind.encode())
    assert post(gate, again)[2] == {"ended": 0, "replayed": False}
    assert later.get("/v1/auth/me")[0] == 200
    rows = gate.sql("SELECT actor, event FROM d.audit WHERE actor = "
                    "'gateway' AND detail::json->>'sandbox' = %s", kind)
    assert len(rows) == 2


def test_a_sandbox_that_goes_on_ends_nothing(gate):
    _, run = session(gate, gate.box, "alive")
    for kind in ("created", "updated", "resumed", "checkpointed"):
        assert post(gate, event("alive", kind))[2]["ended"] == 0
    assert run.get("/v1/auth/me")[0] == 200


def test_only_what_is_signed(gate):
    _, run = session(gate, gate.box, "signed")
    body = event("signed")
    good = sign(body)
    for wrong in ("", "x", good[:-1], good + "=", good.swapcase(),
                  sign(body, b"other"), sign(body + b" "),
                  hashlib.sha256(SECRET + body).hexdigest()):
        assert refusal(post(gate, body, wrong)) == (401, "unknown_api_key")
    assert refusal(post(gate, body.replace(b"signed", b"forged"), good)) \
        == (401, "unknown_api_key")
    assert Client(gate).call("POST", "/v1/hooks/e2b", body, {
        "Content-Type": "application/json"})[0] == 401
    assert run.get("/v1/auth/me")[0] == 200
    assert post(gate, body)[2]["ended"] == 1


def test_what_goes_on_behind_a_report_is_refused(gate):
    """Signed or not: one document, and no more (length extension)."""
    _, run = session(gate, gate.box, "longer")
    body = event("elsewhere") + b"\x80\0\0\0" + event("longer")
    assert refusal(post(gate, body)) == (400, "malformed_json")
    assert run.get("/v1/auth/me")[0] == 200


@pytest.mark.parametrize("change,field", [
    ({"timestamp": None}, "timestamp"), ({"timestamp": "today"}, "timestamp"),
    ({"timestamp": stamp(86400)}, "timestamp"),
    ({"timestamp": stamp(-86400)}, "timestamp"),
    ({"id": None}, "id"), ({"id": ""}, "id"), ({"id": "x" * 201}, "id"),
    ({"id": 5}, "id"), ({"sandbox_id": None}, "sandbox_id"),
    ({"sandbox_id": ["a"]}, "sandbox_id"), ({"type": None}, "type")])
def test_what_is_no_report(gate, change, field):
    _, run = session(gate, gate.box, "kept")
    got = post(gate, event("kept", **change))
    assert refusal(got) == (422, "validation_error")
    assert got[2]["field"] == field
    assert run.get("/v1/auth/me")[0] == 200


def test_a_large_report(gate):
    body = event("large", event_data={"x": "y" * 60000})
    assert post(gate, body)[2]["ended"] == 0
    body = event("large", event_data={"x": "y" * 70000})
    assert refusal(post(gate, body))[0] == 413


def test_without_a_secret_there_is_no_route():
    with postern.Deployment() as d:
        d.start("posternd")
        assert refusal(post(d, event("any")))[0] == 404
