# SPDX-License-Identifier: ISC
"""
From release N-1 to N with a thousand held messages and traffic: expand,
deploy, contract (docs/upgrade.md). Both gateways serve at once; nobody is
refused but with 503 and Retry-After; approvals stay valid; nothing is sent
twice. A program that the schema does not serve says so and does not start.
"""
import contextlib
import os
import shutil
import tempfile

import pytest

from tests.blackbox.test_backup import Drill
from tests.lib import load, pages, postern, release
from tests.lib.process import free_port

FULL = os.environ.get("POSTERN_FULL") == "1"
pytestmark = pytest.mark.skipif(
    not FULL, reason="--full only: builds a second release")
HELD, APPROVED = 1000, 40


@pytest.fixture(scope="module", params=["tag", "next"])
def builds(request):
    if request.param == "tag" and not release.tags():
        pytest.skip("no earlier release has a tag in this clone; the other "
                    "case goes to a made-up next one")
    where = tempfile.mkdtemp(prefix="postern-upgrade-", dir="/var/tmp")
    os.chmod(where, 0o755)
    try:
        yield release.pair(where, request.param)
    finally:
        shutil.rmtree(where)


@contextlib.contextmanager
def of(build):
    """What is started in here is that release's."""
    before = os.environ.get("POSTERN_BUILD")
    os.environ["POSTERN_BUILD"] = build
    try:
        yield
    finally:
        if before is None:
            del os.environ["POSTERN_BUILD"]
        else:
            os.environ["POSTERN_BUILD"] = before


class Site(Drill):
    def __init__(self):
        super().__init__()
        self.start("postern-auth")
        self.tally = load.Tally()
        self.agents = []

    def ctl_fails(self, *args):
        with pytest.raises(RuntimeError) as e:
            self.ctl(*args)
        return str(e.value)

    def fill(self):
        """HELD messages that wait, the first of them approved."""
        box = self.add_inbox("many@acme.example")
        self.free(box)
        ann = pages.Pages(self)
        a = load.RestAgent(self, box, 9, self.tally)
        self.held = []
        for n in range(HELD):
            mid = None
            while mid is None:
                mid = a.send("held-%d" % n, ["one of many, %d" % n])
                assert not self.tally.bad, self.tally.bad
            self.held.append(mid)
        a.close()
        rows = self.sql("SELECT message_id FROM d.state WHERE inbox_id = %s "
                        "ORDER BY message_id", box.inbox_id)
        self.uuids = [r["message_id"] for r in rows]
        assert len(self.uuids) == HELD
        for mid in self.uuids[:APPROVED]:
            assert ann.approve(mid) == 303
        self.digests = self.facts()

    def free(self, box):
        self.sql("UPDATE d.inbox SET lim_hour = 1000000, lim_day = 1000000, "
                 "lim_month = 1000000, lim_held = 1000000 WHERE inbox_id = %s",
                 box.inbox_id)

    def facts(self):
        return {r["message_id"]: bytes(r["digest"]) for r in self.sql(
            "SELECT message_id, digest FROM d.message WHERE message_id = "
            "ANY(%s::uuid[])", self.uuids)}

    def traffic(self):
        for n, kind in enumerate((load.RestAgent, load.SmtpAgent,
                                  load.RestAgent, load.SmtpAgent)):
            box = self.add_inbox("traffic%d@acme.example" % n)
            self.free(box)
            self.agents.append(kind(self, box, n, self.tally))
            self.agents[-1].start()

    def more(self, count=10):
        """Each door has acknowledged some more."""
        now = self.tally.now()
        self.tally.wait({door: now.get(door, 0) + count
                         for door in ("rest", "smtp")})

    def end_traffic(self):
        for a in self.agents:
            a.halt.set()
        for a in self.agents:
            a.join(30)
        assert not self.tally.bad, self.tally.bad

    def beside(self, build, program):
        """Another release's copy of a program, on the same ports."""
        at = self.metrics_port
        self.metrics_port = free_port(4)
        self._write_conf()
        old = self.programs.pop(program)
        try:
            with of(build):
                self.start(program)
        finally:
            self.metrics_port = at
            self._write_conf()
        return old


def sent_by(site, program):
    return [e for e in program.events
            if e["event"] in ("smtpd.stored", "api.stored")]


def test_expand_deploy_contract(builds):
    after = builds.after
    with of(builds.before), Site() as site:
        site.fill()
        site.traffic()
        site.more()
        # Expand: the old programs go on.
        with of(after):
            said = site.ctl("migrate")
            if builds.expands:
                assert "applied " in said, said
            if builds.contracts:
                assert "waiting" in said and "--contract" in said
                assert "schema=" in site.ctl_fails("migrate", "--contract")
        if builds.expands:
            assert "later release" in site.ctl_fails("migrate")
        site.more()
        # Deploy: two gateways at once, then the new one alone.
        old = site.beside(after, "posternd")
        new = site.programs["posternd"]
        seen = len(sent_by(site, old)), len(sent_by(site, new))
        postern.wait_until("both gateways serve", lambda: site.more(2) or (
            len(sent_by(site, old)) > seen[0]
            and len(sent_by(site, new)) > seen[1]), 60)
        assert old.stop() == 0
        site.more()
        for program in ("postern-admin", "postern-auth", "postern-deliver"):
            assert site.programs.pop(program).stop() == 0
            with of(after):
                site.start(program)
        site.more()
        # Contract: nobody is left who would miss it.
        with of(after):
            said = site.ctl("migrate", "--contract")
        if builds.contracts:
            assert "applied" in said
            assert site.programs.pop("postern-admin").stop() == 0
            assert "install the newer release" in site.refusal("postern-admin")
            with of(after):
                site.start("postern-admin")
        site.more()
        site.end_traffic()
        check(site, after)
        with of(after):
            site.stop_all()


def check(site, after):
    """All are there, what was approved goes once, what was not stays."""
    assert site.facts() == site.digests
    ids = {load.message_id(r["message_id"]) for r in site.sql(
        "SELECT message_id FROM d.state")}
    assert set(site.tally.ids.values()) | set(site.held) <= ids
    states = {r["message_id"]: r["state"] for r in site.sql(
        "SELECT message_id, state FROM d.state WHERE message_id = "
        "ANY(%s::uuid[])", site.uuids)}
    assert all(states[m] == 1 for m in site.uuids[APPROVED:])
    for mid in site.uuids[:APPROVED]:
        site.sql("UPDATE d.send_q SET due_at = clock_timestamp() "
                 "WHERE message_id = %s AND lease IS NULL", mid)
    site.wake()
    for mid in site.uuids[:APPROVED]:
        site.wait_state(mid, "sent", timeout=60)
    # One that waited through it all is approved by the new pages.
    ann = pages.Pages(site)
    last = site.uuids[-1]
    assert ann.approve(last) == 303
    site.due(last)
    site.wait_state(last, "sent")
    assert len(site.mx.messages) == APPROVED + 1
