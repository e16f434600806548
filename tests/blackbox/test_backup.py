# SPDX-License-Identifier: ISC
"""
The restore drill (A15): a physical backup of the running server, made with
PostgreSQL's own pg_basebackup, takes the place of what it became. Programs
refuse it until restore-finish; then nothing leaves that a person did not
decide again, and nothing that ended comes back to life.
"""
import json
import os
import shutil
import signal
import smtplib
import socket
import ssl
import subprocess

import nacl.signing
import pytest

from tests.fake.mx import CLOSE
from tests.lib import pages, postern, seals
from tests.lib.relaying import Relaying

PROGRAMS = ("posternd", "postern-admin", "postern-deliver")
SAY = "it may have been sent"


class Drill(Relaying):
    def __init__(self):
        super().__init__(one_connection=False)
        with open(self.path("pg", "data", "pg_hba.conf"), "a") as f:
            f.write("local replication all peer map=postern\n")
        self.sql("SELECT pg_reload_conf()")
        # What is approved stays so while a slow machine copies the database.
        self.set_conf("admin", undo="2m")
        self.start("postern-admin")
        self.start_worker()
        self.gated = self.add_inbox("gated@acme.example")

    def submit(self, **how):
        """Each its own text: the same one again would be the same message."""
        self.texts = getattr(self, "texts", 0) + 1
        return super().submit(body="Number %d\r\n" % self.texts, **how)

    def stop_all(self):
        for name in list(self.programs):
            assert self.programs.pop(name).stop() == 0, name

    def noted(self):
        """Each program has seen the log as far as it goes now."""
        end = int(self.sql("SELECT pg_current_wal_flush_lsn() - "
                           "'0/0'::pg_lsn AS n")[0]["n"])

        def seen():
            return all(
                int(open(self.path("state", login + ".deployment"))
                    .read().split()[5]) >= end
                for login in ("l_gateway", "l_review", "l_worker"))
        postern.wait_until("what the programs have seen", seen)

    def backup(self, name):
        """A base backup with the log it needs, while all are at work."""
        target = self.path("pg", name)
        self._run(self.as_user([
            self.pg_bin + "/pg_basebackup", "-h", self.path("sock"), "-U",
            "postgres", "-D", target, "-X", "stream", "-c", "fast"]),
            cwd="/")
        self._run([self.pg_bin + "/pg_verifybackup", target], cwd="/")

    def restore(self, name):
        data = self.path("pg", "data")
        self.postgres.stop(signal.SIGINT)
        os.rename(data, data + ".lost")
        subprocess.run(["cp", "-a", self.path("pg", name), data], check=True)
        # As docs/backup.md says: recovery.signal makes a new timeline, by
        # which programs tell the copy whatever it has written meanwhile.
        with open(data + "/recovery.signal", "w"):
            pass
        os.chmod(data + "/recovery.signal", 0o644)
        self.pg_settings.update({"restore_command": "false",
                                 "recovery_target": "immediate",
                                 "recovery_target_action": "promote"})
        self.start_postgres()
        postern.wait_until("the end of recovery", lambda: not self.sql(
            "SELECT pg_is_in_recovery() AS r", database="postgres")[0]["r"])

    def refusal(self, program):
        p = self.start(program, wait=None)
        try:
            assert p.proc.wait(20) == 1
        finally:
            p.kill()
            self.programs.pop(program)
        p.reader.join(10)
        return [e for e in p.events if e["event"] == "daemon.failed"][0]["why"]

    def row(self, mid):
        return self.sql("SELECT s.*, (SELECT string_agg(v.status::text, ',') "
                        "FROM d.delivery v WHERE v.message_id = s.message_id)"
                        " AS rows FROM d.state s WHERE message_id = %s",
                        mid)[0]

    def signs_in(self, box):
        """Does its key open? A "try again" of a busy machine is no answer."""
        context = ssl.create_default_context(cafile=self.ca_file)

        def answer():
            with smtplib.SMTP_SSL("localhost", self.smtps_port,
                                  context=context) as s:
                try:
                    s.login(box.address, box.smtp_key)
                    return (True,)
                except smtplib.SMTPAuthenticationError as e:
                    return (False,) if e.smtp_code == 535 else None
        return postern.wait_until("an answer", answer)[0]

    def seal(self):
        self._run(self.as_user([
            os.path.join(postern.build_dir(), "posternctl"), "-c", self.conf,
            "seal"]), cwd="/")

    def verify(self, heads):
        self.audit_pub()
        return self.ctl("audit", "verify", "--head", heads)

    def audit_pub(self):
        """The public half of the sealer's key has a file, too."""
        path = self.path("keys", "seal.key")
        with open(path) as f:
            seed = seals.unbase32(f.read().split()[1], 32)
        public = nacl.signing.SigningKey(seed).verify_key
        if not os.path.exists(path + ".pub"):
            seals.key_file(path + ".pub", "audit-pub", bytes(public), True)

    def redis_call(self, *words):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.redis_socket)
            s.sendall(" ".join(words).encode() + b"\r\n")
            return s.recv(4096)

    def resume(self):
        """As an operator who signs in anew and shows the password."""
        self.session = self.sign_in()
        self.step_up()
        self.api("pause_1", self.session, None, None, False, "drill",
                 user="l_review")


@pytest.fixture(scope="module")
def d():
    with Drill() as drill:
        yield drill


def test_drill(d):
    ann = pages.Pages(d)
    # Before the backup: sent, waiting, approved but undone, unanswered.
    sent = d.submit()
    d.wait_state(sent, "sent")
    d.mx.script["dot"] = CLOSE
    unanswered = d.submit()
    d.wait_state(unanswered, "uncertain")
    d.mx.script["dot"] = "451 4.3.0 Later"
    deferred = d.submit()
    d.wait_state(deferred, "deferred")
    d.mx.script.clear()
    waiting = [d.submit(box=d.gated) for _ in range(3)]
    rejected_before = d.submit(box=d.gated)
    assert ann.press(rejected_before, "decide",
                     ann.form(rejected_before, "decide"), verdict="r",
                     category="other")[0] == 303
    approved = d.submit(box=d.gated)
    assert ann.approve(approved) == 303  # its undo window is open
    d.seal()
    d.backup("copy")

    # After it: all that the copy cannot know.
    d.due(deferred)
    d.wait_state(deferred, "sent")
    d.due(approved)
    d.wait_state(approved, "sent")
    assert ann.approve(waiting[0]) == 303
    d.due(waiting[0])
    d.wait_state(waiting[0], "sent")
    assert ann.press(waiting[1], "decide", ann.form(waiting[1], "decide"),
                     verdict="r", category="other")[0] == 303
    lost = d.submit(box=d.gated)
    stolen = d.add_inbox("stolen@acme.example")  # it is lost, too
    d.revoke(d.gated, d.gated.full_key_id)
    d.seal()
    d.noted()
    d.stop_all()
    heads = open(d.path("state", "audit-heads")).read().splitlines()
    left = len(d.mx.messages)
    assert left == 6  # with the two whose dot was not answered well

    d.restore("copy")
    for program in PROGRAMS:
        assert "restore-finish" in d.refusal(program)
    assert d.state(waiting[0]) == d.state(waiting[1]) == "held"
    assert d.state(approved) == "approved" and d.state(deferred) == "deferred"
    d.redis_call("SET", "rl:1.1", "stale")

    # A program that is still there stops it, and nothing is changed.
    other = d.connect("l_worker")
    try:
        with pytest.raises(RuntimeError, match="stop posternd"):
            d.ctl("restore-finish", "--reason", "drill")
        assert d.sql("SELECT epoch FROM d.deployment")[0]["epoch"] == 1
    finally:
        other.close()
    postern.wait_until("it is gone", lambda: not d.sql(
        "SELECT 1 FROM pg_stat_activity WHERE usename = 'l_worker'"))
    said = d.ctl("restore-finish", "--reason", "drill")
    assert "audit-heads.until-epoch-2" in said
    assert d.redis_call("GET", "rl:1.1") == b"$-1\r\n"
    assert d.sql("SELECT epoch, gen FROM d.deployment") == [
        {"epoch": 2, "gen": 2}]

    # What was on its way is held, and says why; what had ended stays so.
    for mid in (*waiting, approved, deferred, unanswered):
        row = d.row(mid)
        assert row["state"] == 1 and SAY in row["detail"], row
    assert d.row(waiting[0])["round"] == 1  # no decision of it is known
    assert d.row(approved)["round"] == 2
    assert d.row(unanswered)["rows"] == "6"  # named by a person, or never
    assert d.state(sent) == "sent"
    assert d.state(rejected_before) == "rejected"
    assert not d.sql("SELECT 1 FROM d.send_q")
    assert not d.sql("SELECT 1 FROM d.state WHERE message_id = %s", lost)
    assert {r["mode"] for r in d.sql("SELECT mode FROM d.inbox")} == {2}
    assert not d.sql("SELECT 1 FROM d.operator_session WHERE ended_at IS NULL")
    held = d.sql("SELECT sum(held) AS n FROM d.quota")[0]["n"]
    assert held == d.count(1) == 6

    # The chain goes on from the backup; the lost blocks are kept as proof.
    now = open(d.path("state", "audit-heads")).read().splitlines()
    gone = open(d.path("state", "audit-heads.until-epoch-2")).read()
    assert now + gone.splitlines() == heads and now and gone
    d.seal()
    assert "verified" in d.verify(d.path("state", "audit-heads"))
    note = d.sql("SELECT gen, detail FROM d.audit WHERE event = "
                 "'restore.finish'")
    assert len(note) == 1 and note[0]["gen"] == 2

    # All programs take it; nobody sends, though a worker looks.
    for program in PROGRAMS[:2]:
        d.start(program)
    d.start_worker()
    assert d.sql("SELECT paused_at FROM d.global_pause")[0]["paused_at"]
    revoked = d.sql("SELECT revoked_at FROM d.credential WHERE key_id = %s",
                    d.gated.full_key_id)
    assert revoked[0]["revoked_at"] is not None
    assert not d.signs_in(stolen) and d.signs_in(d.gated)
    d.wake()
    for mid in (*waiting, approved, deferred, unanswered):
        assert not d.claimable(mid)

    # A person decides again: that, and only that, leaves.
    ann = pages.Pages(d)
    page = ann.call("GET", "/m/" + pages.public_id(waiting[2]))
    assert SAY in str(page)
    d.resume()
    assert ann.approve(waiting[2]) == 303
    d.due(waiting[2])
    d.wait_state(waiting[2], "sent")
    assert len(d.mx.messages) == left + 1
    d.stop_all()


def test_epoch_is_above_every_one_seen(d):
    """The same backup once more: programs that saw epoch 2 take epoch 3."""
    shutil.rmtree(d.path("pg", "data.lost"))
    d.restore("copy")
    for program in PROGRAMS:
        assert "restore-finish" in d.refusal(program)
    d.ctl("restore-finish", "--reason", "again")
    assert d.sql("SELECT epoch FROM d.deployment")[0]["epoch"] == 3
    for program in PROGRAMS:
        d.start(program)
    d.stop_all()


def test_reason_and_redis_are_needed(d):
    with pytest.raises(RuntimeError, match="--reason"):
        d.ctl("restore-finish")
    d.redis.stop()
    with pytest.raises(RuntimeError, match="Redis"):
        d.ctl("restore-finish", "--reason", "no Redis")
    assert d.sql("SELECT epoch FROM d.deployment")[0]["epoch"] == 3
    d.ctl("restore-finish", "--reason", "no Redis", "--without-redis")
    assert d.sql("SELECT epoch FROM d.deployment")[0]["epoch"] == 4
    d.start_redis()


def test_sample_settings_satisfy_doctor(d):
    """deploy/postgresql/postern.conf, taken as it is by a real server."""
    def found():
        done = subprocess.run(
            [os.path.join(postern.build_dir(), "posternctl"), "-c", d.conf,
             "--json", "doctor"], capture_output=True, text=True, timeout=60)
        return {x["finding"]: x["level"] for x in json.loads(done.stdout)}
    assert found()["parameter logging"] == "warning"
    with open(d.path("pg", "data", "postgresql.conf"), "a") as f:
        with open(os.path.join(postern.TOP, "deploy", "postgresql",
                               "postern.conf"), encoding="utf-8") as sample:
            f.write(sample.read())
    d.postgres.stop(signal.SIGINT)
    d.start_postgres()
    levels = found()
    for name in ("parameter logging", "durability", "login settings",
                 "version", "partitions", "locks"):
        assert levels[name] == "ok", (name, levels)
    assert d.sql("SHOW shared_preload_libraries")[0][
        "shared_preload_libraries"] == "plpgsql"
