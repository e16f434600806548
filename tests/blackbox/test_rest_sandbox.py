# SPDX-License-Identifier: ISC
"""examples/sandbox: every control passes, and fails when it is taken away."""

import json
import os
import subprocess

import pytest

from tests.lib import postern

CHECK = os.path.join(postern.TOP, "examples", "sandbox", "check.py")
CONTROLS = ["file_scope", "egress", "metadata", "dns", "secrets",
            "other_inbox", "send_loop", "held", "snapshot", "teardown",
            "smoke"]


@pytest.fixture(scope="module")
def gate():
    try:
        probe = subprocess.run(
            ["bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr",
             "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64",
             "/lib64", "/usr/bin/true"], stderr=subprocess.PIPE)
    except FileNotFoundError:
        pytest.skip("bwrap is needed")
    if probe.returncode != 0:
        pytest.skip("bwrap does not work here")
    with postern.Deployment() as d:
        d.add_tenant("acme", "acme.example")
        d.sql("UPDATE d.plan SET lim_hour = 100000, lim_day = 100000, "
              "lim_month = 1000000, lim_held = 100000")
        d.box = d.add_inbox("bot@acme.example")
        d.other = d.add_inbox("two@acme.example")
        d.free = d.add_inbox("free@acme.example")
        d.set_mode(d.free, 4)
        d.start("posternd")
        yield d


def check(gate, *args, box=None):
    """(exit status, {control: row})"""
    done = subprocess.run(
        ["/usr/bin/python3", CHECK, "--json", "--other-inbox",
         gate.other.address, *args], stdout=subprocess.PIPE, env={
            **os.environ, "POSTERN_KEY": (box or gate.box).key,
            "POSTERN_URL": "https://127.0.0.1:%d" % gate.api_port,
            "SSL_CERT_FILE": gate.ca_file}, timeout=100)
    rows = {r["control"]: r for r in json.loads(done.stdout)}
    assert list(rows) == CONTROLS
    for row in rows.values():
        assert set(row) == {"control", "check", "pass_condition",
                            "fail_condition", "status"}
    return done.returncode, rows


@pytest.mark.parametrize("mode", ["held", "free"])
def test_nothing_gets_out(gate, mode):
    """Also in an inbox whose own mail leaves by itself."""
    status, rows = check(gate, box=gate.free if mode == "free" else None)
    assert {r["status"] for r in rows.values()} == {"Pass"}, rows
    assert status == 0


# What can be taken away together; with POSTERN_FULL each alone too.
TOGETHER = [["file_scope", "egress", "metadata", "dns", "secrets",
             "send_loop", "snapshot", "teardown"], ["other_inbox", "held"],
            ["smoke"]]
ALONE = [[c] for c in CONTROLS] if os.environ.get("POSTERN_FULL") == "1" \
    else []


def test_each_control_is_taken_away_once():
    assert sorted(sum(TOGETHER, [])) == sorted(CONTROLS)


@pytest.mark.parametrize("away", TOGETHER + ALONE, ids="+".join)
def test_a_control_that_is_away_is_missed(gate, away):
    status, rows = check(gate, *sum([["--loosen", c] for c in away], []),
                         box=gate.free if "held" in away else None)
    assert {rows[c]["status"] for c in away} == {"Fail"}, rows
    if away == ["smoke"]:  # which touches none of these
        assert {rows[c]["status"] for c in CONTROLS[:5]} == {"Pass"}, rows
    assert status == 1
