# SPDX-License-Identifier: ISC
"""
posternctl backup and restore (A15): the database with its log, the keys under
a passphrase, the state folder; to the end of the backup, and to a moment in
the archived log. Until restore-finish nobody takes the copy; then nothing
leaves that was not decided again.
"""
import hashlib
import hmac
import json
import os
import re
import shutil
import signal
import smtplib
import ssl

import nacl.bindings
import nacl.hashlib
import nacl.pwhash
import pytest

from tests.blackbox.test_backup import PROGRAMS, SAY, Drill
from tests.lib import pages, postern, seals

# The drill's numbers; a hundred sends take too long for every day.
FULL = os.environ.get("POSTERN_FULL") == "1"
SENDS = 100 if FULL else 20
REJECTS, UNDOS, REVOKED = 10, 5, 3


class Site(Drill):
    def __init__(self):
        super().__init__()
        wal = self.path("wal")
        os.mkdir(wal, 0o700)
        self._own(wal)
        if FULL:
            self.postgres.stop(signal.SIGINT)
            self.pg_settings.update({
                "archive_mode": "on", "archive_library": "basic_archive",
                "basic_archive.archive_directory": wal})
            self.start_postgres()
        self.audit_pub()
        self.keep_apart()
        self.phrase = self.path("phrase")
        with open(self.phrase, "w") as f:
            f.write("a phrase for the drill\n")

    def keep_apart(self):
        """A key file may have a folder of its own."""
        os.mkdir(self.path("apart"), 0o755)
        path = self.path("apart", "identity.pub")
        seals.key_file(path, "identity-pub", os.urandom(32), True)
        self.set_conf("keys", identity_pub_file=path)

    def send_many(self, count):
        """Twenty an inbox, the most of an hour; their ids, when sent."""
        context = ssl.create_default_context(cafile=self.ca_file)
        for n in range(0, count, 20):
            box = self.add_inbox("many%d@acme.example" % n)
            self.set_mode(box, 4)
            with smtplib.SMTP_SSL("localhost", self.smtps_port,
                                  context=context) as s:
                s.login(box.address, box.smtp_key)
                for i in range(n, min(n + 20, count)):
                    s.sendmail(box.address, ["ann@dest.example"],
                               "From: <%s>\r\nSubject: %d\r\n\r\n%d\r\n"
                               % (box.address, i, i))
        postern.wait_until("all are sent", lambda: self.count(8) == count, 60)
        return [m["message_id"] for m in self.messages()]

    def start_all(self):
        for program in PROGRAMS:
            self.start(program)

    def refused(self, *args):
        with pytest.raises(RuntimeError) as e:
            self.ctl(*args)
        return str(e.value)

    def lay_out(self, name, *more):
        """`restore` where the data folder was; what it said."""
        data = self.path("pg", "data")
        self.postgres.stop(signal.SIGINT)
        shutil.rmtree(data + ".lost", ignore_errors=True)
        os.rename(data, data + ".lost")
        said = self.ctl("restore", self.path(name), "--data", data,
                        "--owner", self.owner(), "--passphrase-file",
                        self.phrase, *more)
        self.start_postgres()
        postern.wait_until("the end of recovery", lambda: not self.sql(
            "SELECT pg_is_in_recovery() AS r", database="postgres")[0]["r"])
        return said

    def owner(self):
        return self.user.pw_name if self.user else str(os.geteuid())

    def archived(self):
        """All of the log so far is in the archive."""
        name = self.sql("SELECT pg_walfile_name(pg_switch_wal()) AS n")[0]
        postern.wait_until("the archive", lambda: os.path.exists(
            self.path("wal", name["n"])))


@pytest.fixture(scope="module")
def d():
    with Site() as site:
        yield site


@pytest.fixture(scope="module")
def facts(d):
    """The drill's history, a backup in the middle of it, and what was."""
    ann = pages.Pages(d)
    f = {"sent": d.send_many(SENDS)}
    boxes = [d.add_inbox("drill%d@acme.example" % n) for n in range(4)]
    f["rejected"] = [d.submit(box=boxes[0]) for _ in range(REJECTS)]
    for mid in f["rejected"]:
        assert ann.press(mid, "decide", ann.form(mid, "decide"),
                         verdict="r", category="other")[0] == 303
    f["undone"] = [d.submit(box=boxes[1]) for _ in range(UNDOS)]
    for mid in f["undone"]:
        assert ann.approve(mid) == 303
        assert ann.undo(mid, ann.form(mid, "undo"))
    f["approved"] = [d.submit(box=boxes[1])]
    assert ann.approve(f["approved"][0]) == 303
    # Whatever a slow machine takes for the backup: it waits until due().
    d.sql("UPDATE d.send_q SET due_at = due_at + interval '1 hour'")
    f["revoked"] = boxes[1:1 + REVOKED]
    for box in f["revoked"]:
        d.revoke(box)
    d.seal()
    # Programs may write there: what a link leads to is not theirs to give.
    os.symlink(d.path("keys", "review.key"), d.path("state", "audit-heads.x"))
    said = d.ctl("backup", d.path("copy"), "--passphrase-file", d.phrase)
    assert "is complete" in said, said
    # What the copy cannot know.
    f["late"] = d.submit(box=boxes[0])
    d.revoke(boxes[0])
    f["moment"] = d.sql("SELECT clock_timestamp()::text AS t")[0]["t"]
    d.due(f["approved"][0])
    d.wait_state(f["approved"][0], "sent")
    f["lost"] = d.submit(box=d.gated)
    d.seal()
    f["revoked"] = boxes
    if FULL:
        d.archived()
    d.noted()
    d.stop_all()
    f["left"] = len(d.mx.messages)
    return f


def test_what_is_in_the_folder(d, facts):
    with open(d.path("copy", "manifest.json")) as f:
        manifest = json.load(f)
    assert manifest["database"]["epoch"] == 1
    assert manifest["audit_head"]["block"] >= 1
    names = {x["name"] for x in manifest["files"]}
    assert {"keys.vault", "base/backup_manifest", "state/audit-heads",
            "state/l_worker.deployment"} <= names
    assert "state/audit-heads.x" not in names
    assert not os.path.lexists(d.path("copy", "state", "audit-heads.x"))
    assert os.stat(d.path("copy")).st_mode & 0o777 == 0o700
    # The keys open with other people's tools, and only with the phrase.
    with open(d.path("copy", "keys.vault"), "rb") as f:
        box = f.read()
    with open(d.path("keys", "review.key"), "rb") as f:
        key = f.read()
    line = box.index(b"\n") + 1
    salt, nonce = box[line:line + 16], box[line + 16:line + 40]
    derived = nacl.pwhash.argon2id.kdf(
        32, b"a phrase for the drill", salt, opslimit=3, memlimit=1 << 28)
    plain = nacl.bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(
        box[line + 40:], box[:line + 16], nonce, derived)
    assert key in plain and key not in box


def test_refusals_change_nothing(d, facts):
    data = d.path("pg", "data")
    common = ("--owner", d.owner(), "--passphrase-file", d.phrase)
    d.postgres.stop(signal.SIGINT)
    try:
        assert "not empty" in d.refused(
            "restore", d.path("copy"), "--data", data, *common)
        new = d.path("pg", "new")
        wrong = d.path("wrong")
        with open(wrong, "w") as f:
            f.write("another phrase for it\n")
        assert "wrong passphrase" in d.refused(
            "restore", d.path("copy"), "--data", new, "--passphrase-file",
            wrong)
        assert "--wal" in d.refused(
            "restore", d.path("copy"), "--data", new, "--time",
            facts["moment"], *common)
        shell = d.path("$(id)")
        shutil.copytree(d.path("copy", "state"), shell)
        assert "cannot be used" in d.refused(
            "restore", d.path("copy"), "--data", new, "--wal", shell, *common)
        with open(d.path("keys", "policy.key"), "a") as f:
            f.write("#")
        assert "policy.key is there with other bytes" in d.refused(
            "restore", d.path("copy"), "--data", new, *common)
        os.truncate(d.path("keys", "policy.key"),
                    os.path.getsize(d.path("keys", "policy.key")) - 1)
        shutil.copytree(d.path("copy"), d.path("bad"))
        with open(d.path("bad", "base", "PG_VERSION"), "a") as f:
            f.write("\n")
        assert "pg_verifybackup failed" in d.refused(
            "restore", d.path("bad"), "--data", new, *common)
        os.truncate(d.path("bad", "keys.vault"), 100)
        assert "damaged" in d.refused(
            "restore", d.path("bad"), "--data", new, *common)
        os.remove(d.path("bad", "manifest.json"))
        assert "did not finish" in d.refused(
            "restore", d.path("bad"), "--data", new, *common)
        assert not os.path.exists(new)
    finally:
        d.start_postgres()
    assert "not empty" in d.refused("backup", d.path("copy"),
                                    "--passphrase-file", d.phrase)


def forged(d):
    """A copy of the backup, and how it is laid out somewhere else."""
    bad, root = d.path("forged"), d.path("root")
    for path in (bad, root):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(d.path("copy"), bad)
    return bad, ("restore", bad, "--root", root, "--data", d.path("forged-pg"),
                 "--passphrase-file", d.phrase)


def manifest_of(bad, change):
    """Change the manifest as somebody without the passphrase can."""
    path = os.path.join(bad, "manifest.json")
    with open(path) as f:
        manifest = json.load(f)
    change(manifest)
    with open(path, "w") as f:
        json.dump(manifest, f, indent=1)


def vouch_again(bad, name):
    with open(os.path.join(bad, name), "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()

    def change(manifest):
        note = next(x for x in manifest["files"] if x["name"] == name)
        note["sha256"] = digest
    manifest_of(bad, change)


def state_dir(bad):
    manifest_of(bad, lambda m: m.update({"state_dir": "/elsewhere"}))


def set_user_id(bad):
    manifest_of(bad, lambda m: m["files"][-1].update({"mode": 0o4755}))


def state_file(bad):
    with open(os.path.join(bad, "state", "audit-heads"), "w"):
        pass
    vouch_again(bad, "state/audit-heads")


def settings(bad):
    """PostgreSQL's manifest leaves this one out, and it runs commands."""
    with open(os.path.join(bad, "base", "postgresql.auto.conf"), "a") as f:
        f.write("archive_command = 'id'\n")


def settings_vouched(bad):
    settings(bad)
    vouch_again(bad, "base/postgresql.auto.conf")


def log(bad):
    folder = os.path.join(bad, "base", "pg_wal")
    name = max(n for n in os.listdir(folder) if len(n) == 24)
    with open(os.path.join(folder, name), "r+b") as f:
        f.seek(-1, os.SEEK_END)
        f.write(b"x")


def log_added(bad):
    with open(os.path.join(bad, "base", "pg_wal", "00000002.history"), "w"):
        pass


def log_link(bad):
    """The same bytes, for as long as somebody wants."""
    folder = os.path.join(bad, "base", "pg_wal")
    path = os.path.join(folder, max(
        n for n in os.listdir(folder) if len(n) == 24))
    os.rename(path, bad + ".elsewhere")
    os.symlink(bad + ".elsewhere", path)


def link_added(bad):
    os.symlink("/etc/hostname",
               os.path.join(bad, "base", "pg_wal", "00000002.history"))


def log_folder_link(bad):
    path = os.path.join(bad, "base", "pg_wal")
    shutil.rmtree(bad + ".wal", ignore_errors=True)
    os.rename(path, bad + ".wal")
    os.symlink(bad + ".wal", path)


def mac_gone(bad):
    os.remove(os.path.join(bad, "manifest.mac"))


@pytest.mark.parametrize("change,words", [
    (state_dir, "not the one that was written"),
    (set_user_id, "not the one that was written"),
    (state_file, "not the one that was written"),
    (settings, "was changed since"),
    (settings_vouched, "not the one that was written"),
    (log, "was changed since"),
    (log_added, "was added since"),
    (log_link, "symbolic link"),
    (link_added, "was added since"),
    (log_folder_link, "base/pg_wal: "),
    (mac_gone, "not the one that was written")], ids=lambda v: getattr(
        v, "__name__", ""))
def test_who_can_write_the_folder_changes_nothing_in_it(d, facts, change,
                                                        words):
    """Only who has the passphrase makes what restore lays out."""
    bad, restore = forged(d)
    change(bad)
    assert words in d.refused(*restore)
    assert not os.path.exists(d.path("forged-pg"))
    assert not os.path.exists(d.path("root"))


def reseal(bad, phrase, path):
    """keys.vault with another path in it, and all vouched for again: even
    who has the passphrase writes below --root only."""
    vault, mac = (os.path.join(bad, n) for n in ("keys.vault",
                                                 "manifest.mac"))
    with open(vault, "rb") as f:
        box = f.read()
    line = box.index(b"\n") + 1
    head, nonce = box[:line + 16], box[line + 16:line + 40]
    key = nacl.pwhash.argon2id.kdf(32, phrase, head[line:], opslimit=3,
                                   memlimit=1 << 28)
    plain = nacl.bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(
        box[line + 40:], head, nonce, key)
    size = int.from_bytes(plain[:4], "big")
    plain = len(path).to_bytes(4, "big") + path + plain[4 + size:]
    with open(vault, "wb") as f:
        f.write(head + nonce
                + nacl.bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(
                    plain, head, nonce, key))
    vouch_again(bad, "keys.vault")
    beside = nacl.hashlib.blake2b(
        b"", digest_size=32, key=key, salt=(1).to_bytes(16, "little"),
        person=b"pst.back" + bytes(8)).digest()
    with open(os.path.join(bad, "manifest.json"), "rb") as f:
        text = f.read()
    with open(mac, "w") as f:
        f.write(hmac.new(beside, text, "sha256").hexdigest() + "\n")


@pytest.mark.parametrize("path,laid", [
    (b"/etc/x.conf", True), (b"/../out.conf", False),
    (b"/etc/../../out.conf", False), (b"/etc/..", False),
    (b"etc/x.conf", False), (b"/etc/x\0y", False), (b"/etc/", False)])
def test_no_path_leads_around(d, facts, path, laid):
    bad, restore = forged(d)
    reseal(bad, b"a phrase for the drill", path)
    if laid:
        d.ctl(*restore)
        assert os.path.exists(d.path("root") + path.decode())
        shutil.rmtree(d.path("forged-pg"))
    else:
        assert "are damaged" in d.refused(*restore)
        assert not os.path.exists(d.path("root"))
    assert not os.path.exists(d.path("out.conf"))


def check(d, facts, known):
    """After restore-finish: what is held, what stays ended."""
    assert {d.state(m) for m in facts["sent"]} == {"sent"}
    assert {d.state(m) for m in facts["rejected"]} == {"rejected"}
    for mid in facts["undone"] + facts["approved"] + known:
        row = d.row(mid)
        assert row["state"] == 1 and SAY in row["detail"], row
    assert not d.sql("SELECT 1 FROM d.send_q")
    assert not d.sql("SELECT 1 FROM d.state WHERE message_id = %s",
                     facts["lost"])
    d.start_all()
    for box in facts["revoked"]:
        assert d.sql("SELECT revoked_at FROM d.credential WHERE key_id = %s",
                     box.send_key_id)[0]["revoked_at"]
    # One that was revoked behind the backup; each failure costs seconds.
    assert not d.signs_in(facts["revoked"][0]) and d.signs_in(d.gated)
    d.resume()
    d.wake()
    for mid in facts["undone"] + facts["approved"] + facts["rejected"]:
        assert not d.claimable(mid)
    assert len(d.mx.messages) == facts["left"]
    d.seal()
    said = d.ctl("database", "verify", "--superuser", "postgres")
    assert "rows verified" in said and "foreign keys: " in said, said
    assert "digests: " in said and "broken" not in said
    d.stop_all()


def test_to_the_end_of_the_backup(d, facts):
    """Database and keys are gone; the state folder is not."""
    shutil.move(d.path("keys"), d.path("keys.lost"))
    shutil.move(d.path("apart"), d.path("apart.lost"))
    os.rename(d.conf, d.conf + ".lost")
    said = d.lay_out("copy")
    assert "restore-finish" in said
    for name in os.listdir(d.path("keys.lost")):
        a, b = d.path("keys.lost", name), d.path("keys", name)
        with open(a, "rb") as f, open(b, "rb") as g:
            assert f.read() == g.read(), name
        assert os.stat(a).st_mode == os.stat(b).st_mode
        assert os.stat(a).st_uid == os.stat(b).st_uid
    for name in ("keys", "apart"):
        os.chmod(d.path(name), 0o711)
    assert os.listdir(d.path("apart")) == ["identity.pub"]
    for program in PROGRAMS:
        assert "restore-finish" in d.refusal(program)
    assert not d.sql("SELECT 1 FROM d.state WHERE message_id = %s",
                     facts["late"])
    d.ctl("restore-finish", "--reason", "drill")
    check(d, facts, [])


def test_a_clone_with_the_keys_is_refused(d, facts):
    """On another host: no state folder says what was seen, or that of the
    backup does. The keys are production's, and still nobody starts."""
    d.lay_out("copy", "--without-keys")
    for fresh in (True, False):
        folder = d.path("state-fresh" if fresh else "state-copied")
        if fresh:
            os.mkdir(folder)
        else:
            shutil.copytree(d.path("copy", "state"), folder)
            for name in os.listdir(folder):
                d._own(os.path.join(folder, name))
        d._own(folder)
        d.set_conf("", state_dir=folder)
        for program in PROGRAMS:
            assert "restored from a backup" in d.refusal(program)
        assert len(d.mx.messages) == facts["left"]
    with pytest.raises(RuntimeError, match="restore"):
        d.ctl("doctor")
    d.set_conf("", state_dir=d.path("state"))


@pytest.mark.skipif(not FULL, reason="--full only: replays the archived log")
def test_to_a_moment(d, facts):
    """By the archived log: `late` is there, what came after is not."""
    d.lay_out("copy", "--wal", d.path("wal"), "--time", facts["moment"],
              "--timeline", "current")  # the first restore opened another
    assert d.state(facts["late"]) == "held"
    for program in PROGRAMS:
        assert "restore-finish" in d.refusal(program)
    d.ctl("restore-finish", "--reason", "to a moment")
    check(d, facts, [facts["late"]])


def test_verify_finds_what_is_broken(d, facts):
    """Each check fails when it should."""
    mid = facts["undone"][0]
    su = d.connect()
    with su.cursor() as c:
        c.execute("SET session_replication_role = replica")
        c.execute("DELETE FROM d.body WHERE message_id = %s", (mid,))
        c.execute("DELETE FROM d.message WHERE message_id = %s",
                  (facts["rejected"][0],))
        c.execute("ALTER TABLE d.message DROP CONSTRAINT message_digest")
        c.execute("UPDATE d.message SET mail_from = 'x@acme.example' "
                  "WHERE message_id = %s", (mid,))
        c.execute("UPDATE d.audit SET detail = detail || ' ' WHERE "
                  "event = 'inbox.claimed'")
    su.close()
    said = d.refused("database", "verify", "--superuser", "postgres", "--sample",
                     "1000")
    assert re.search(r"foreign keys: [1-9]\d* of", said), said
    for words in ("digests: 1 of", "bodies: 1 of", "rows were altered"):
        assert words in said, (words, said)
