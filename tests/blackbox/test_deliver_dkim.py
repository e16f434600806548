# SPDX-License-Identifier: ISC
"""
What leaves is signed with both keys of its domain, and three verifiers that
are not ours agree, whatever the body looks like. Keys are published before
they are used, overlap when they change, and are never missing by accident.
"""
import base64
import contextlib
import http.client
import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile

import dkim
import nacl.signing
import pytest

from tests.fake.dns import TXT, FakeDns
from tests.lib import postern, process, seals
from tests.lib.relaying import Relaying

HERE = os.path.join(postern.TOP, "tests", "dkim")
DOMAIN = "acme.example"


@pytest.fixture(scope="module")
def r():
    with FakeDns() as dns, Relaying(
            resolver=["127.0.0.1:%d" % dns.port], identity=True) as it:
        it.dns = dns
        it.records = {}
        it.mx.offers += ("SMTPUTF8",)
        it.start_worker()
        yield it


@pytest.fixture(autouse=True)
def mx(r):
    r.mx.reset()
    yield r.mx
    r.forget_queue()
    r.mx.script.clear()


def publish(r, text):
    """What posternctl printed, as DNS would have it."""
    for name, strings in re.findall(r"^(\S+)\. TXT (.*)$", text, re.M):
        value = "".join(re.findall(r'"([^"]*)"', strings))
        r.records[name] = value
        r.dns.txt(name, value)


def new_pair(r, pair, use=True):
    out = r.signed_in("dkim", "new", DOMAIN, "--pair", pair)
    publish(r, out)
    if use:
        r.signed_in("dkim", "use", DOMAIN, pair)
    return out


@pytest.fixture(scope="module")
def signing(r):
    new_pair(r, "first")
    return r


def forget_keys(r):
    """The worker keeps keys for 15 s; a new worker knows none."""
    r.worker.stop()
    r.start_worker()


# -- verifiers ----------------------------------------------------------------

def by_python(r, raw):
    """{selector: verified} of every signature."""
    def ask(name, timeout=5):
        text = r.records.get(name.decode().rstrip("."))
        return text.encode() if text else None
    d = dkim.DKIM(raw)
    found = {}
    for i in range(len([h for h, _ in d.headers
                        if h.lower() == b"dkim-signature"])):
        v = dkim.DKIM(raw)
        try:
            good = v.verify(idx=i, dnsfunc=ask)
        except dkim.ValidationError:
            good = False
        found[v.signature_fields[b"s"].decode()] = good
    return found


def by_opendkim(r, path):
    """opendkim's own test mode; True when it says that all is well."""
    table = r.path("records.txt")
    with open(table, "w") as f:
        for name, text in r.records.items():
            f.write("%s %s\n" % (name, text))
    with open(r.path("opendkim.conf"), "w") as f:
        f.write("Mode v\nTestDNSData file:%s\n" % table)
    done = subprocess.run(
        ["/usr/sbin/opendkim", "-x", r.path("opendkim.conf"), "-vvv", "-t",
         path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode == 0 and re.search(
        "verification \\(.*\\) succeeded", done.stdout) is not None, \
        done.stdout


def by_mailauth(r, paths):
    """[{selector: result}] for each file."""
    if not os.path.isdir(os.path.join(HERE, "node_modules")):
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund",
                               "--ignore-scripts"], cwd=HERE)
        assert done.returncode == 0
    with open(r.path("records.json"), "w") as f:
        json.dump(r.records, f)
    done = subprocess.run(
        [shutil.which("node", path="/usr/bin:" + os.environ["PATH"]),
         "verify.js", r.path("records.json"), *paths], cwd=HERE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    return [{x["selector"]: x["result"] for x in json.loads(line)}
            for line in done.stdout.splitlines()]


RSPAMD = """\
lua = "$RULESDIR/rspamd.lua";
options {
	filters = "dkim";
	dns { nameserver = ["127.0.0.1:%(dns)d"]; timeout = 5s; }
	disable_hyperscan = true;
	tempdir = "%(dir)s";
	control_socket = "%(dir)s/control mode=0600";
}
logging { type = "console"; level = "warning"; }
worker "normal" { bind_socket = "127.0.0.1:%(port)d"; count = 1; }
.include "$CONFDIR/groups.conf"
dkim { check_local = true; check_authed = true; }
"""


@contextlib.contextmanager
def rspamd(r):
    """rspamd as it is shipped, asking our DNS; ask(raw) gives the selectors
    that hold, and those that do not."""
    where = tempfile.mkdtemp(prefix="rspamd-", dir="/run")
    names = {"dns": r.dns.port, "dir": where, "port": process.free_port()}
    with open(os.path.join(where, "rspamd.conf"), "w") as f:
        f.write(RSPAMD % names)
    os.chmod(where, 0o755)
    shutil.chown(where, "_rspamd", "_rspamd")
    p = process.Process("rspamd", [
        "rspamd", "-f", "--var=DBDIR=" + where, "--var=RUNDIR=" + where,
        "-p", os.path.join(where, "pid"), "-c",
        os.path.join(where, "rspamd.conf")], pwd.getpwnam("_rspamd"),
        log=r.path("log", "rspamd.out"))

    def ask(raw, path="/checkv2"):
        c = http.client.HTTPConnection("127.0.0.1", names["port"], timeout=20)
        try:
            c.request("POST" if raw else "GET", path, raw)
            return json.loads(c.getresponse().read() or b"null")
        finally:
            c.close()

    def selectors(raw):
        found = ask(raw)["symbols"]
        return [sorted(x.rpartition("s=")[2] for x in found.get(
            name, {}).get("options", [])) for name in (
                "R_DKIM_ALLOW", "R_DKIM_REJECT")]

    def ready():
        assert p.alive()
        try:
            return ask(PLAIN + b"\r\nx\r\n") is not None
        except (OSError, ValueError):
            return False
    try:
        postern.wait_until("rspamd", ready, 120)  # it reads a lot first
        yield selectors
    finally:
        p.stop()
        shutil.rmtree(where)


def kept(r, got, name="mail.eml"):
    path = r.path(name)
    with open(path, "wb") as f:
        f.write(got["data"])
    return path


def verify(r, path, *words, ok=True):
    """What posternctl verify says."""
    try:
        return r.ctl("verify", path, *words)
    except RuntimeError as e:
        if ok:
            raise
        return str(e)


# -- bodies -------------------------------------------------------------------

PLAIN = b"From: <@BOX@>\r\nTo: <ann@dest.example>\r\nSubject: Report\r\n"
MIME = PLAIN + (b"MIME-Version: 1.0\r\nContent-Type: text/plain; "
                b"charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n")
PARTS = PLAIN + b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; " \
    b"boundary=b\r\n\r\n"
BODIES = {
    "plain": PLAIN + b"\r\nHello\r\n",
    "empty": PLAIN + b"\r\n",
    "one empty line": PLAIN + b"\r\n\r\n",
    "many empty lines": PLAIN + b"\r\n" + b"\r\n" * 40,
    "blank lines of spaces": PLAIN + b"\r\n \r\n\t\r\n  \t \r\n",
    "trailing blanks": PLAIN + b"\r\none  \r\ntwo\t\r\nthree \t \r\n",
    "trailing empty lines": PLAIN + b"\r\ntext\r\n\r\n\r\n\r\n",
    "inner blanks": PLAIN + b"\r\na  b\t\tc \t d\r\n   leading\r\n",
    "a dot": PLAIN + b"\r\n.\r\n",
    "dots": PLAIN + b"\r\n..\r\n...\r\n.a\r\n. \r\n.\r\n",
    "a dot at the end": PLAIN + b"\r\ntext\r\n.\r\n.\r\n",
    "longest lines": PLAIN + b"\r\n" + b"\r\n".join(
        [b"x" * 998] * 20) + b"\r\n",
    "lines at block edges": PLAIN + b"\r\n" + b"".join(
        b"y" * n + b"\r\n" for n in range(960, 998)),
    "8 bit": MIME + "\r\nGr\u00fc\u00dfe aus K\u00f6ln\r\n".encode(),
    "8 bit, long": MIME + b"\r\n" + "\u00e4\u20ac\r\n".encode() * 5000,
    "latin 1": MIME.replace(b"utf-8", b"iso-8859-1")
    + b"\r\nGr\xfc\xdfe\r\n",
    "emoji": MIME + "\r\n\U0001f4ee \U0001f469\u200d\U0001f4bb\r\n".encode(),
    "encoded subject": PLAIN.replace(
        b"Report", b"=?utf-8?B?R3LDvMOfZQ==?= =?utf-8?Q?=E2=82=AC?=")
    + b"\r\nx\r\n",
    "folded subject": PLAIN.replace(
        b"Report", b"a\r\n  b\r\n\tc   d\r\n e") + b"\r\nx\r\n",
    "blanks in the header": PLAIN.replace(
        b"Subject: Report", b"subject:   Report\t \t of   2026  ")
    + b"\r\nx\r\n",
    "no subject": PLAIN.replace(b"Subject: Report\r\n", b"") + b"\r\nx\r\n",
    "empty subject": PLAIN.replace(b"Report", b"") + b"\r\nx\r\n",
    "UTF-8 header": MIME.replace(
        b"Report", "Gr\u00fc\u00dfe  \u20ac\r\n \U0001f4ee".encode()).replace(
        b"<ann@", "J\u00f6rg \u00c5 <ann@".encode()) + b"\r\nx\r\n",
    "UTF-8 header, 8 bit": MIME.replace(
        b"Report", "\u00e4".encode() * 400) + "\r\n\u00e4\r\n".encode(),
    "many recipients": PLAIN.replace(
        b"<ann@dest.example>", b",\r\n ".join(
            b"<p%d@dest.example>" % i for i in range(60))) + b"\r\nx\r\n",
    "display name": PLAIN.replace(
        b"<@BOX@>", b"\"A: \\\"Bot\\\", the first\" <@BOX@>")
    + b"\r\nx\r\n",
    "reply headers": PLAIN + b"In-Reply-To: <a@b.example>\r\nReferences: "
    b"<a@b.example>\r\n <c@d.example>\r\nReply-To: <@BOX@>\r\n\r\nx\r\n",
    "list headers": PLAIN + b"List-Unsubscribe: <https://u.example/x>\r\n"
    b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n\r\nx\r\n",
    "an odd name": PLAIN + b"X-A;b: 1\r\n\r\nx\r\n",
    "unknown headers": PLAIN + b"X-A: 1\r\nX-A: 2\r\nx-b:\r\n\r\nx\r\n",
    "multipart": PARTS + b"--b\r\n\r\none\r\n--b\r\nContent-Type: "
    b"text/html\r\n\r\n<b>two</b>\r\n--b--\r\n",
    "attachment": PARTS + b"--b\r\n\r\none\r\n--b\r\nContent-Type: "
    b"application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n"
    b"Content-Disposition: attachment; filename=x.bin\r\n\r\n"
    + b"QUJD\r\n" * 300 + b"--b--\r\n",
    "quoted-printable": PLAIN + b"MIME-Version: 1.0\r\nContent-Type: "
    b"text/plain; charset=utf-8\r\nContent-Transfer-Encoding: "
    b"quoted-printable\r\n\r\nGr=C3=BC=C3=9Fe =\r\nall\r\n",
    "too large to be kept": PLAIN + b"\r\n" + b"".join(
        b"%07d %s\r\n" % (i, b"z" * (i % 70)) for i in range(30000)),
}


def submit(r, raw, **more):
    """With SMTPUTF8 where the header needs it."""
    head = raw.split(b"\r\n\r\n")[0]
    return r.submit(raw=raw, params=[] if head.isascii() else ["SMTPUTF8"],
                    **more)


# rspamd 3.4 does not see that lines of blanks at the end count for nothing
# (RFC 6376 3.4.4); the three others do.
RSPAMD_ERRS = {"blank lines of spaces"}


def test_awkward_bodies(signing, mx, tmp_path):
    r = signing
    for raw in BODIES.values():
        r.wait_state(submit(r, raw), "sent")
    assert len(BODIES) > 30 and len(mx.messages) == len(BODIES)
    paths = []
    for name, got in zip(BODIES, mx.messages):
        raw = got["data"]
        assert raw.count(b"DKIM-Signature: ") == 2, name
        assert by_python(r, raw) == {"firstr": True, "firste": True}, name
        paths.append(kept(r, got, "%d.eml" % len(paths)))
        good, said = by_opendkim(r, paths[-1])
        assert good, (name, said)
        said = verify(r, paths[-1], "--recipient", got["rcpts"][0])
        assert "policy" in said, (name, said)
        # Nothing but these fields stands before what was approved.
        size = r.sql("SELECT size FROM d.message WHERE mail_from = %s AND "
                     "size = %s LIMIT 1", got["mail_from"],
                     len(raw) - raw.index(b"Received: by "))
        assert size, name
    for name, found in zip(BODIES, by_mailauth(r, paths)):
        assert found == {"firstr": "pass", "firste": "pass"}, name


@pytest.mark.skipif(shutil.which("rspamd") is None or os.geteuid() != 0,
                    reason="rspamd and root are needed")
def test_rspamd_agrees(signing, mx):
    r = signing
    for raw in BODIES.values():
        r.wait_state(submit(r, raw), "sent")
    assert len(mx.messages) == len(BODIES)
    both = ["firste", "firstr"]
    with rspamd(r) as selectors:
        said = {name: selectors(got["data"])
                for name, got in zip(BODIES, mx.messages)}
        wrong = {name for name, s in said.items() if s != [both, []]}
        assert wrong == RSPAMD_ERRS, said
        assert selectors(mx.messages[0]["data"].replace(
            b"Subject: Report", b"Subject: Rapport")) == [[], both]


def test_a_changed_byte_shows(signing, mx):
    r = signing
    r.wait_state(r.submit(), "sent")
    raw = mx.messages[0]["data"]
    assert all(by_python(r, raw).values())
    for old, new in ((b"Hello", b"Hullo"), (b"Subject: Report",
                     b"Subject: Rapport"), (b"To: <ann@", b"To: <eve@")):
        assert old in raw
        bad = raw.replace(old, new)
        assert not any(by_python(r, bad).values()), old
        with open(r.path("bad.eml"), "wb") as f:
            f.write(bad)
        assert not by_opendkim(r, r.path("bad.eml"))[0]


@pytest.mark.parametrize("field", [
    "From: <ceo@acme.example>", "Subject: Another", "Reply-To: <eve@e.example>",
    "To: <eve@e.example>", "Content-Type: text/html", "Sender: <x@y.example>"])
def test_nothing_can_be_added(signing, mx, field):
    """A field that is signed cannot come once more, nor for the first time."""
    r = signing
    r.wait_state(r.submit(), "sent")
    raw = mx.messages[0]["data"]
    assert not any(by_python(r, field.encode() + b"\r\n" + raw).values())


# -- identity -----------------------------------------------------------------

def spoiled(r, raw, name="bad.eml"):
    with open(r.path(name), "wb") as f:
        f.write(raw)
    return r.path(name)


def claims_of(raw):
    field = re.search(rb"^Postern-Identity:((?:.*\r\n[ \t])*.*)\r\n", raw,
                      re.M)[1]
    part = re.sub(rb"\s", b"", field).split(b".")[1]
    return json.loads(base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4)))


@pytest.fixture(scope="module")
def identified(signing):
    """One mail as it arrived, and what follows from it."""
    r = signing
    r.mx.reset()
    box = r.fresh_box()
    r.wait_state(r.submit(box=box, rcpts=[
        "ann@dest.example", "Bob@dest.example"]), "sent")
    return r, box, r.mx.messages[0]["data"]


def test_the_identity_says_who_looked(identified):
    r, box, raw = identified
    path = spoiled(r, raw)
    for words in ((), ("--recipient", "ann@dest.example"),
                  ("--recipient", "BOB@DEST.example")):
        said = verify(r, path, *words)
        assert box.address in said and "policy" in said
    claims = claims_of(raw)
    assert claims["ai_generated"] is True and len(claims["recipients"]) == 2
    # The field says nothing that would tell an address or the inbox's mode.
    assert "dest.example" not in json.dumps(claims)
    assert "autonomous" not in json.dumps(claims)
    # It is inside the signature: neither removed nor changed unseen.
    assert all(by_python(r, raw).values())
    for bad in (re.sub(rb"(?m)^Postern-Identity:(.*\n[ \t])*.*\n", b"", raw),
                raw.replace(b"Postern-Identity: e", b"Postern-Identity: f")):
        assert bad != raw and not any(by_python(r, bad).values())


def test_anybody_may_fetch_the_keys(identified, tmp_path):
    r, _, raw = identified
    keys = r.rest(r.fresh_box(), "/.well-known/postern-identity.json")
    (key,) = keys["keys"]
    assert (key["crv"], key["alg"]) == ("Ed25519", "EdDSA")
    mine, other = tmp_path / "mine.json", tmp_path / "other.json"
    mine.write_text(json.dumps(keys))
    key["x"] = "A" * 42 + "E"
    other.write_text(json.dumps(keys))
    assert "policy" in verify(r, spoiled(r, raw), "--keys", str(mine))
    assert "signature" in verify(r, spoiled(r, raw), "--keys", str(other),
                                 ok=False)


def test_the_identity_key_changes_with_overlap(identified):
    """The next key is served before it signs, the last one after: mail on
    its way, signed by either, verifies against the set at any time."""
    r, _, before = identified
    old, new = r.path("keys", "identity.pub"), r.path("keys", "identity2.pub")
    seed = os.urandom(32)
    key = r.path("keys", "identity2.key")
    seals.key_file(key, "identity-key", seed, False)
    r._own(key)
    seals.key_file(new, "identity-pub", bytes(
        nacl.signing.SigningKey(seed).verify_key), True)
    r.programs["posternd"].stop()
    r.set_conf("keys", identity_old_pub_files=[new])
    r.start("posternd")
    served = r.rest(r.fresh_box(), "/.well-known/postern-identity.json")
    assert len({k["x"] for k in served["keys"]}) == 2
    r.worker.stop()
    r.set_conf("keys", identity_key_file=key, identity_pub_file=new,
               identity_old_pub_files=[old])
    r.start_worker()
    r.mx.reset()
    r.wait_state(r.submit(rcpts=["ann@dest.example"]), "sent")
    after = r.mx.messages[0]["data"]
    keys = r.path("served.json")
    with open(keys, "w") as f:
        json.dump(served, f)
    for raw in (before, after):
        assert "policy" in verify(r, spoiled(r, raw), "--keys", keys)
        assert "policy" in verify(r, spoiled(r, raw))
    r.set_conf("keys", identity_old_pub_files=[])
    assert "signature" in verify(r, spoiled(r, before), ok=False)
    r.set_conf("keys", identity_old_pub_files=[old])


@pytest.mark.parametrize("old,new,why", [
    (b"\r\nHello\r\n", b"\r\nHallo\r\n", "body"),
    (b"\r\nHello\r\n", b"\r\nHello\r\nand more\r\n", "body"),
    (b"\r\nHello\r\n", b"\r\n Hello\r\n", "body"),
    (b"Subject: Report", b"Subject: Rapport", "header"),
    (b"Subject: Report", b"Subject: Report\r\nReply-To: <e@e.example>",
     "header"),
    (b"To: <ann@", b"To: <eve@", "header"),
    (b"To: <ann@", b"Cc: <eve@e.example>\r\nTo: <ann@", "header"),
    (b"From: <bot", b"From: <not", "header"),
    (b"Date: ", b"Date: Mon, 1 Jan 2001 00:00:00 +0000\r\nDate: ", "header"),
    (b"Postern-Identity: e", b"Postern-Identity: d", "signature"),
    (b"Received: by ", b"Postern-Identity: x.y.z\r\nReceived: by ", "two"),
])
def test_any_change_shows(identified, old, new, why):
    r, _, raw = identified
    assert old in raw
    said = verify(r, spoiled(r, raw.replace(old, new, 1)), ok=False)
    assert why in said, said


ALL_FIELDS = b"""\
From: <@BOX@>
Sender: <@BOX@>
Reply-To: <@BOX@>
To: <ann@dest.example>
Cc: <bob@dest.example>
Subject: Report
Date: Mon, 30 Nov 2026 12:00:00 +0000
Message-ID: <one@acme.example>
In-Reply-To: <two@dest.example>
References: <two@dest.example> <three@dest.example>
MIME-Version: 1.0
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: 8bit
Content-Disposition: inline
Auto-Submitted: auto-generated

Hello, this is all.
""".replace(b"\n", b"\r\n")


def test_a_change_of_any_field_shows(signing, mx):
    """Each that says what a mail is and for whom: gone, there twice, or with
    one octet more; and each octet of the body."""
    r = signing
    r.wait_state(r.submit(raw=ALL_FIELDS, rcpts=[
        "ann@dest.example", "bob@dest.example"]), "sent")
    raw = mx.messages[0]["data"]
    assert "policy" in verify(r, spoiled(r, raw))
    names = re.findall(rb"(?m)^([A-Z][A-Za-z-]+):", ALL_FIELDS)
    assert len(names) == 15
    for name in names:
        (line,) = re.findall(rb"(?m)^%s: .*\r\n" % name, raw)
        for bad in (b"", line + line, line[:-2] + b"x\r\n"):
            said = verify(r, spoiled(r, raw.replace(line, bad)), ok=False)
            assert "header" in said, (line, bad, said)
    head, body = raw.split(b"\r\n\r\n", 1)
    for i in range(len(body) - 2):
        bad = body[:i] + bytes([body[i] ^ 1]) + body[i + 1:]
        said = verify(r, spoiled(r, head + b"\r\n\r\n" + bad), ok=False)
        assert "body" in said, (i, said)


def test_what_happens_on_the_way_does_not(identified):
    r, _, raw = identified
    for good in (b"Received: from x by y; z\r\nReturn-Path: <a@b>\r\n" + raw,
                 raw.replace(b"\r\n", b"\n"), raw + b"\r\n\r\n",
                 raw.replace(b"Subject: Report", b"subject:   Report  ")):
        assert "policy" in verify(r, spoiled(r, good))


def test_not_to_this_recipient(identified):
    r, _, raw = identified
    said = verify(r, spoiled(r, raw), "--recipient", "eve@dest.example",
                  ok=False)
    assert "not sent to this recipient" in said


def test_hidden_recipients_go_by_themselves(signing, mx):
    """From the field nobody finds out who else got it."""
    r = signing
    box = r.fresh_box()
    rcpts = ["ann@dest.example", "bob@dest.example", "boss@dest.example",
             "hr@dest.example"]
    mid = r.submit(box=box, rcpts=rcpts, raw=PLAIN.replace(
        b"<ann@dest.example>", b"<ann@dest.example>, <bob@dest.example>")
        + b"\r\nx\r\n")
    r.wait_state(mid, "sent")
    assert sorted(m["rcpts"] for m in mx.messages) == [
        rcpts[:2], rcpts[2:3], rcpts[3:]]
    # One right behind the other.
    assert min(g["gap"] for g in r.sql(
        "SELECT extract(epoch FROM dot_at - lag(ended_at) OVER (ORDER BY n))"
        "::float8 AS gap FROM d.attempt WHERE message_id = %s", mid)
        if g["gap"] is not None) < 1
    for m in mx.messages:
        path = spoiled(r, m["data"])
        for rcpt in rcpts:
            said = verify(r, path, "--recipient", rcpt, ok=False)
            assert ("not sent" in said) == (rcpt not in m["rcpts"]), said


def test_smtputf8_is_asked_for_a_hidden_recipient_alone(signing, mx):
    r = signing
    rcpts = ["ann@dest.example", "j\u00f6rg@dest.example"]
    mid = r.submit(rcpts=rcpts, raw=PLAIN + b"\r\nx\r\n",
                   params=["SMTPUTF8"])
    r.wait_state(mid, "sent")
    assert [(m["rcpts"], "SMTPUTF8" in m["params"]) for m in mx.messages] == [
        (rcpts[:1], False), (rcpts[1:], True)]


@pytest.mark.parametrize("reply", ["450 4.2.2 full", "452 4.5.3 later"])
def test_each_hidden_recipient_has_its_turn(signing, mx, reply):
    """One that waits keeps no other from being tried; nobody is pressed."""
    r = signing
    rcpts = ["ann@dest.example", "boss@dest.example", "hr@dest.example"]
    asked = []

    def on_rcpt(session, line):
        asked.append(line.split("<")[1].split(">")[0])
        later = reply.startswith("452") or "hr@" not in line
        return reply if later else None

    mx.script["RCPT"] = on_rcpt
    mid = r.submit(rcpts=rcpts, raw=PLAIN + b"\r\nx\r\n")
    postern.wait_until("the message rests", lambda: r.sql(
        "SELECT 1 FROM d.send_q WHERE message_id = %s AND lease IS NULL "
        "AND due_at > clock_timestamp() + interval '30 seconds'", mid))
    if reply.startswith("450"):
        assert [m["rcpts"] for m in mx.messages] == [rcpts[2:]]
    assert asked == rcpts


def test_of_each_that_is_given_up_there_is_a_report(signing, mx):
    r = signing
    rcpts = ["ann@dest.example", "boss@dest.example", "hr@dest.example"]

    def on_rcpt(session, line):
        if "ann@" in line:  # the next lease sees that time is nearly over
            c = r.connect()
            with c.cursor() as su:
                su.execute("SET session_replication_role = replica")
                for table, column, left in (
                        ("release", "at", "-71:59:30"),
                        ("send_q", "give_up_at", "30 s")):
                    su.execute(
                        "UPDATE d.%s SET %s = now() + %%s::interval WHERE "
                        "message_id = (SELECT message_id FROM d.message "
                        "ORDER BY message_id DESC LIMIT 1)" % (table, column),
                        (left,))
            c.close()
        return "450 4.2.2 full"

    mx.script["RCPT"] = on_rcpt
    mid = r.submit(rcpts=rcpts, raw=PLAIN + b"\r\nx\r\n")
    r.wait_state(mid, "bounced")
    told = r.sql("SELECT ix FROM d.dsn WHERE message_id = %s AND kind = 'f'",
                 mid)
    assert sorted(sum((row["ix"] for row in told), [])) == [1, 2, 3]


# -- keys ---------------------------------------------------------------------

def test_the_private_keys_are_sealed(signing):
    rows = signing.sql("SELECT selector, sealed FROM d.dkim_key")
    assert len(rows) >= 2
    for row in rows:
        assert b"PRIVATE KEY" not in bytes(row["sealed"])


def test_use_needs_the_records(r):
    out = r.signed_in("dkim", "new", DOMAIN, "--pair", "unseen")
    assert "unseenr._domainkey.acme.example. TXT" in out
    refused = r.signed_in("dkim", "use", DOMAIN, "unseen", ok=False)
    assert "unseenr._domainkey.acme.example is not there" in refused
    r.dns.txt("unseenr._domainkey." + DOMAIN, "v=DKIM1; k=rsa; p=AAAA")
    refused = r.signed_in("dkim", "use", DOMAIN, "unseen", ok=False)
    assert "has another key" in refused
    r.signed_in("dkim", "remove", DOMAIN, "unseen")


def test_rotation_overlaps(signing, mx):
    r = signing
    new_pair(r, "second", use=False)
    r.wait_state(r.submit(), "sent")
    assert set(by_python(r, mx.messages[0]["data"])) == {"firstr", "firste"}
    r.signed_in("dkim", "use", DOMAIN, "second")
    forget_keys(r)
    r.wait_state(r.submit(), "sent")
    assert by_python(r, mx.messages[1]["data"]) == {
        "secondr": True, "seconde": True}
    # What left before is still looked up.
    assert all(by_python(r, mx.messages[0]["data"]).values())
    refused = r.signed_in("dkim", "remove", DOMAIN, "first", ok=False)
    assert "state_conflict" in refused
    listed = r.signed_in("dkim", "list", DOMAIN)
    assert "retired first (RSA)" in listed and "signs second" in listed
    r.sql("UPDATE d.dkim_key SET retired_at = retired_at - interval '8 days' "
          "WHERE pair = 'first'")
    r.signed_in("dkim", "remove", DOMAIN, "first")
    # The word alone may be part of another's key.
    assert not re.search(r"\bfirst(r\.|e\.| \()", r.signed_in(
        "dkim", "list", DOMAIN))
    refused = r.signed_in("dkim", "new", DOMAIN, "--pair", "second", ok=False)
    assert "state_conflict" in refused


@pytest.mark.parametrize("how", ["gone", "swapped"])
def test_never_unsigned_by_accident(signing, mx, how):
    """A key that is missing or is not the domain's: the mail waits, loudly."""
    r = signing
    rows = r.sql("SELECT * FROM d.dkim_key WHERE retired_at IS NULL AND "
                 "used_at IS NOT NULL")
    if how == "gone":
        r.sql("UPDATE d.dkim_key SET retired_at = now() WHERE used_at "
              "IS NOT NULL AND retired_at IS NULL")
    else:
        r.sql("UPDATE d.dkim_key SET selector = 'x' || selector WHERE "
              "retired_at IS NULL AND used_at IS NOT NULL")
    forget_keys(r)
    mark = r.worker.mark()
    mid = r.submit()
    r.wait_state(mid, "deferred")
    assert r.worker.wait("deliver.unsigned", since=mark)["level"] == "error"
    assert not mx.messages
    for row in rows:
        r.sql("UPDATE d.dkim_key SET retired_at = NULL, selector = %s WHERE "
              "pair = %s AND algo = %s", row["selector"], row["pair"],
              row["algo"])
    forget_keys(r)
    r.due(mid)
    r.wait_state(mid, "sent")
    assert all(by_python(r, mx.messages[0]["data"]).values())


def test_a_domain_without_keys_sends_unsigned(r, mx):
    r.add_domain("acme", "plain.example")
    box = r.add_inbox("bot@plain.example")
    r.set_mode(box, 4)
    r.wait_state(r.submit(box=box), "sent")
    raw = mx.messages[0]["data"]
    assert raw.startswith(b"Postern-Identity: ") and b"DKIM-" not in raw


# -- what DNS says ------------------------------------------------------------

def spf(r, record):
    """The only one there is."""
    r.dns.records[DOMAIN].pop(TXT, None)
    r.dns.txt(DOMAIN, record)


def test_domain_check(signing):
    r = signing
    said = r.signed_in("domain", "check", DOMAIN, ok=False)
    for line in ("spf .*fail", "dmarc .*warn", "mx .*warn", "ptr .*fail",
                 "dkim .*ok"):
        assert re.search(line, said), (line, said)
    r.dns.mx(DOMAIN, (10, "mx." + DOMAIN))
    r.dns.txt(DOMAIN, "v=spf1 ip4:192.0.2.7 -all", "other=1")
    r.dns.txt("_dmarc." + DOMAIN, "v=DMARC1; p=reject")
    r.dns.a(r.hostname, "192.0.2.7")
    r.dns.ptr("192.0.2.7", r.hostname)
    said = r.signed_in("domain", "check", DOMAIN)
    assert "fail" not in said and "warn" not in said, said
    r.dns.txt(DOMAIN, "v=spf1 mx -all")
    said = r.signed_in("domain", "check", DOMAIN, ok=False)
    assert re.search("spf .*fail.*neither", said), said
    # Names and addresses are whole, not parts of longer ones; a term that
    # fails lets nobody pass. A smarthost would send in our place.
    before = dict(r.extra["deliver"])
    r.set_conf("deliver", smarthost="", smarthost_user="")
    for record, good in (
            ("ip4:192.0.2.70", False), ("a:not%s" % r.hostname, False),
            ("a:%s.example" % r.hostname, False), ("-ip4:192.0.2.7", False),
            ("~a:%s" % r.hostname, False), ("ip4:192.0.2.0/29", True),
            ("ip4:192.0.2.8/29", False), ("+A:%s" % r.hostname.upper(), True),
            ("?ip4:192.0.2.7 ip4:192.0.2.7/32", True)):
        spf(r, "v=spf1 %s -all" % record)
        said = r.signed_in("domain", "check", DOMAIN, ok=good)
        assert ("fail" in said) != good, (record, said)
    for record in ("all", "+all"):
        spf(r, "v=spf1 ip4:192.0.2.7 " + record)
        said = r.signed_in("domain", "check", DOMAIN, ok=False)
        assert "everybody" in said
    # Whatever octets it has, it is told, and moves no terminal.
    record = b"v=spf1 \xff\x1b[31m +all"
    r.dns.records[DOMAIN].pop(TXT)
    r.dns.add(DOMAIN, TXT, bytes([len(record)]) + record)
    said = r.signed_in("domain", "check", DOMAIN, ok=False)
    assert "v=spf1 ??[31m +all" in said and "everybody" in said, said
    r.set_conf("deliver", **before)
