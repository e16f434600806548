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


@pytest.mark.parametrize("control", CONTROLS)
def test_a_control_that_is_away_is_missed(gate, control):
    status, rows = check(gate, "--loosen", control,
                         box=gate.free if control == "held" else None)
    assert rows[control]["status"] == "Fail"
    assert status == 1
