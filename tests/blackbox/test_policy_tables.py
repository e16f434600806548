# SPDX-License-Identifier: ISC
"""The database's tables of moves equal the proved ones of policy/."""
import os
import subprocess

import pytest

from tests.lib import postern

ACTOR = {"p_submit": "agent", "p_review": "operator", "p_policy": "policy",
         "p_relay": "worker", "p_ctl": "ctl"}


@pytest.fixture(scope="module")
def d():
    with postern.Deployment() as it:
        yield it


def dump(kind):
    out = subprocess.run(
        [os.path.join(postern.build_dir(), "policy", "policy-dump")],
        check=True, capture_output=True, text=True).stdout
    return {tuple(line.split()[1:]) for line in out.splitlines()
            if line.split()[0] == kind}


def test_edges_of_messages(d):
    rows = {(str(e["from_state"]), str(e["to_state"]), ACTOR[e["actor"]])
            for e in d.sql("SELECT * FROM d.edge")}
    assert rows == dump("edge")


def test_edges_of_deliveries(d):
    rows = {(str(e["from_status"]), str(e["to_status"]), ACTOR[e["actor"]])
            for e in d.sql("SELECT * FROM d.delivery_edge")}
    assert rows == dump("step")
