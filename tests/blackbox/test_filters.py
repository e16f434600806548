# SPDX-License-Identifier: ISC
"""
The operator's own filters: what they say is on the page of the message and in
its risk, no mode sends what they stop, and their silence means what the
configuration says. A played filter shows each case; rspamd and ClamAV, with
the configuration that is shipped, show that real ones work.
"""
import html
import os
import re
import shutil
import signal
import socket
import socketserver
import struct
import subprocess
import threading

import pytest

from tests.blackbox import test_rest as rest
from tests.lib import pages, postern, rawsmtp

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
GTUBE = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X"
EICAR = (r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!"
         "$H+H*")


class Filter(socketserver.ThreadingUnixStreamServer):
    """Answers the end of each message with `verdict`, packets in a row."""
    daemon_threads = True

    def __init__(self, path):
        super().__init__(path, Conversation)
        os.chmod(path, 0o666)
        self.verdict, self.seen = b"c", []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Conversation(socketserver.StreamRequestHandler):
    def say(self, packet):
        self.wfile.write(struct.pack(">I", len(packet)) + packet)

    def handle(self):
        told = []
        while True:
            head = self.rfile.read(5)
            if len(head) < 5:
                return
            letter = head[4:]
            data = self.rfile.read(struct.unpack(">I", head[:4])[0] - 1)
            told.append((letter, data))
            if letter == b"O":
                self.say(b"O" + struct.pack(">III", 6, 0x1ff, 0))
            elif letter == b"E":
                self.server.seen.append(told)
                if self.server.verdict is None:
                    continue  # silent for ever
                for packet in self.server.verdict.split(b"&"):
                    self.say(packet)
            elif letter not in b"DAQ":
                self.say(b"c")


def listens(path):
    with socket.socket(socket.AF_UNIX) as s:
        try:
            s.connect(path)
            return True
        except OSError:
            return False


@pytest.fixture(scope="module")
def d():
    with postern.Deployment() as it:
        it.add_tenant("acme", "acme.example")
        path = it.path("state", "played.sock")
        it.filter = Filter(path)
        it.set_conf("filter", milters="played unix:%s 1s hold" % path)
        it.p = it.start("posternd")
        it.start("postern-admin")
        it.pages = pages.Pages(it)
        yield it
        it.filter.shutdown()


@pytest.fixture
def box(d):
    box.n = getattr(box, "n", 0) + 1
    d.filter.verdict = b"c"
    return d.add_inbox("bot%d@acme.example" % box.n)


def reload(d, milters):
    mark = d.p.mark()
    d.set_conf("filter", milters=milters)
    d.p.send(signal.SIGHUP)
    d.p.wait("daemon.reload", since=mark, level="info")


def submit(d, box, text="hello", start="250 2.6.0"):
    """The row of the new message; None when it was refused."""
    submit.n = getattr(submit, "n", 0) + 1
    before = {m["message_id"] for m in d.messages()}
    r = rawsmtp.signed_in(d, box)
    rawsmtp.begin_data(r, box)  # each its own: the same twice is one
    r.send(rawsmtp.message(box, text, Subject="test %d" % submit.n))
    reply = r.say(".")
    assert reply.startswith(start), reply
    r.shut()
    new = [m for m in d.messages() if m["message_id"] not in before]
    return new[0] if new else None


def reasons(d, row):
    status, _, page = d.pages.call(
        "GET", "/m/" + pages.public_id(row["message_id"]))
    assert status == 200
    return page


def risk(d, row):
    return d.sql("SELECT risk FROM d.state WHERE message_id = %s",
                 row["message_id"])[0]["risk"]


# -- a played filter ----------------------------------------------------------

def test_it_sees_what_will_leave(d, box):
    d.filter.seen.clear()
    row = submit(d, box, "one\r\n..two")
    (told,) = d.filter.seen
    told = [(k.decode(), v) for k, v in told]
    assert ("M", b"<" + box.address.encode() + b">\0") in told
    assert ("R", b"<someone@example.com>\0") in told
    names = [v.split(b"\0")[0] for k, v in told if k == "L"]
    assert names[0] == b"Received" and b"Message-ID" in names
    assert b"".join(v for k, v in told if k == "B") == b"one\r\n.two\r\n"
    assert row["state"] == 1
    assert "filter" not in reasons(d, row).lower().replace(
        "hold_filter", "")
    # where the agent connects from says nothing of its mail
    assert ("C", b"agent\0U") in told


@pytest.mark.parametrize("verdict,sentence,reason,least", [
    (b"y550 5.7.1 Spam <b>\0", "would not let it through",
     "played: 550 5.7.1 Spam &lt;b&gt;", 80),
    (b"r", "would not let it through", "played: ", 80),
    (b"d", "kept back or dropped", "played: ", 75),
    (b"qLooks odd\0&c", "kept back or dropped", "played: Looks odd", 75),
    (b"hX-Spam\0Yes\0&a", "mark it with a header field",
     "played: X-Spam; = Yes", 20),
    (b"bnew body&c", "nothing was", "played: it would change the body", 50),
    (b"t", "gave no verdict", "played: ", 50),
    (b"Z", "gave no verdict",
     "played: it does not speak the milter protocol", 50),
])
def test_each_verdict_is_on_the_page(d, box, verdict, sentence, reason, least):
    d.filter.verdict = verdict
    row = submit(d, box)
    assert risk(d, row) >= least
    page = reasons(d, row)
    assert sentence in page and reason in page
    # sealed: neither the rows nor the agent tell that a filter spoke
    clear = str([d.sql("SELECT * FROM d.%s WHERE message_id = %%s" % table,
                       row["message_id"])
                 for table in ("message", "state", "event", "audit")])
    agent = rest.Client(d, box.key)
    path = "/v1/messages/" + pages.public_id(row["message_id"])
    told = str([agent.get(path), agent.get(path + "/raw"),
                agent.get("/v1/messages")])
    for said in ("played", html.unescape(reason)[len("played: "):]):
        assert said == "" or said not in clear and said not in told, said


def test_no_mode_sends_what_a_filter_stops(d, box):
    d.set_mode(box, 4)
    assert submit(d, box)["state"] == 2
    for verdict in (b"r", b"d", b"qodd\0&c", None):
        d.filter.verdict = verdict
        assert submit(d, box)["state"] == 1, verdict
    d.filter.verdict = b"hX-Seen\0yes\0&c"
    assert submit(d, box)["state"] == 2


def test_an_agent_cannot_speak_for_a_filter(d, box):
    """A context of the same name, or one that fills the room there is."""
    d.filter.verdict = b"y550 5.7.1 Real\0"
    r = rawsmtp.signed_in(d, box)
    for n, value in enumerate(("AAAA", "x" * 900)):
        rawsmtp.begin_data(r, box)
        r.send("From: %s\r\nTo: someone@example.com\r\nSubject: n%d\r\n"
               % (box.address, n) + "".join(
                   "Postern--Filters: %s\r\nPostern-N%s: %s\r\n" % (
                       value, chr(97 + i), value) for i in range(4)) +
               "\r\nhi\r\n")
        assert r.say(".").startswith("250 2.6.0")
    for row in d.messages()[-2:]:
        assert "played: 550 5.7.1 Real" in reasons(d, row)


def test_an_empty_context_hides_nothing(d, box):
    d.filter.verdict = b"y550 5.7.1 Real\0"
    agent = rest.Client(d, box.key)
    for context in ({}, {"purpose": "x"}, None):
        sent = agent.send(subject="context %s" % context, context=context)
        assert rest.stored(sent)["status"] == "held"
        assert "played: 550 5.7.1 Real" in reasons(d, d.messages()[-1])


def test_silence(d, box):
    path = d.path("state", "played.sock")
    d.filter.verdict = None
    row = submit(d, box)
    assert "it did not answer in time" in reasons(d, row)
    d.p.wait("filter.silent")
    reload(d, "played unix:%s 1s accept" % path)
    row = submit(d, box)
    assert "gave no verdict" not in reasons(d, row)
    reload(d, "played unix:%s 1s tempfail" % path)
    assert submit(d, box, start="451 4.3.0 [store_unavailable]") is None
    reload(d, "gone unix:%s.gone 1s hold" % path)
    assert "gone: " in reasons(d, submit(d, box))
    mark = d.p.mark()
    d.set_conf("filter", milters="x inet:25@192.0.2.1")
    d.p.send(signal.SIGHUP)
    e = d.p.wait("daemon.reload", since=mark, level="error")
    assert "127.0.0.1" in e["why"], e
    reload(d, "played unix:%s 5s hold" % path)


def test_large_mail_and_a_hang_up(d, box):
    """Whole chunks, each byte once, and nothing kept of what was cut off."""
    d.filter.seen.clear()
    text = "".join("%07d %s\r\n" % (i, "x" * 60) for i in range(20000))
    submit(d, box, text)
    (told,) = d.filter.seen
    body = [v for k, v in told if k == b"B"]
    assert b"".join(body) == text.encode() + b"\r\n"
    assert max(map(len, body)) == 65535
    r = rawsmtp.signed_in(d, box)
    rawsmtp.begin_data(r, box)
    r.send("From: %s\r\n\r\n%s" % (box.address, text))
    before = d.count()
    r.shut()
    assert submit(d, box)["state"] == 1
    assert d.count() == before + 1 and len(d.filter.seen) == 2


# -- real ones ----------------------------------------------------------------

def have(*programs):
    missing = [p for p in programs if shutil.which(
        p, path=os.environ.get("PATH", "") + ":/usr/sbin") is None]
    if missing or os.geteuid() != 0:
        why = "%s not installed" % ", ".join(missing) if missing else \
            "needs root, to give each filter its user"
        print("SKIP real filters: " + why)
        pytest.skip(why)


@pytest.fixture
def run(d):
    """Start a filter as `user`; stopped in the end."""
    started = []

    def start(user, argv, ready):
        log = open(d.path("log", os.path.basename(argv[0]) + ".out"), "wb")
        started.append((subprocess.Popen(
            ["setpriv", "--reuid", user, "--regid", user, "--init-groups",
             *argv], stdout=log, stderr=subprocess.STDOUT), log))

        def probe():
            assert started[-1][0].poll() is None, open(log.name).read()
            return ready()
        postern.wait_until(argv[0], probe, 300)  # both read a lot first
    yield start
    for p, log in reversed(started):
        p.terminate()
        p.wait(20)
        log.close()


def place(d, name, user):
    """A folder of that user in which posternd can reach a socket."""
    path = d.path("state", name)
    os.mkdir(path)
    shutil.chown(path, user, user)
    os.chmod(path, 0o755)
    return path


def shipped(d, name, into, **replace):
    with open(os.path.join(TOP, "deploy/filters", name)) as f:
        text = f.read()
    for a, b in replace.items():
        text = re.sub(r"(?m)^%s .*$" % a, "%s %s" % (a, b), text)
    path = os.path.join(into, name)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o644)
    return path


def test_rspamd_marks_gtube(d, box, run):
    have("rspamd")
    where = place(d, "rspamd", "_rspamd")
    path = os.path.join(where, "m.sock")
    run("_rspamd", ["rspamd", "-f", "--var=POSTERN_SOCKET=" + path,
                    "--var=DBDIR=" + where, "--var=RUNDIR=" + where, "-p",
                    os.path.join(where, "pid"), "-c",
                    os.path.join(TOP, "deploy/filters/rspamd.conf")],
        lambda: listens(path))
    os.chmod(path, 0o666)
    reload(d, "rspamd unix:%s 20s hold" % path)
    row = submit(d, box, GTUBE)
    assert risk(d, row) >= 75
    page = reasons(d, row)
    assert "would not let it through" in page and "rspamd: " in page
    assert "Gtube" in page, page
    row = submit(d, box, "The report you asked for is ready.")
    page = reasons(d, row)
    assert "would not let it through" not in page
    assert "gave no verdict" not in page, page


def test_clamav_marks_eicar(d, box, run):
    have("clamd", "clamav-milter")
    where = place(d, "clamav", "clamav")
    with open(os.path.join(where, "test.ndb"), "w") as f:
        f.write("Eicar-Test-Signature:0:0:%s\n" % EICAR.encode().hex())
    ctl, path = (os.path.join(where, x) for x in ("clamd.sock", "m.sock"))
    run("clamav", ["clamd", "-c", shipped(
        d, "clamd.conf", where, LocalSocket=ctl, DatabaseDirectory=where)],
        lambda: listens(ctl))
    run("clamav", ["clamav-milter", "-c", shipped(
        d, "clamav-milter.conf", where, MilterSocket="unix:" + path,
        ClamdSocket="unix:" + ctl)], lambda: listens(path))
    os.chmod(path, 0o666)
    reload(d, "clamav unix:%s 20s hold" % path)
    row = submit(d, box, EICAR)
    assert risk(d, row) >= 75
    page = reasons(d, row)
    assert "would not let it through" in page
    assert "clamav: " in page and "Eicar-Test-Signature" in page, page
    page = reasons(d, submit(d, box, "Nothing in here."))
    assert "clamav: " not in page, page


def test_opendkim_signs_nothing(d, box, run):
    """A real libmilter: it would add a field, which is noted and not done."""
    have("opendkim")
    where = place(d, "opendkim", "opendkim")
    key, path = (os.path.join(where, x) for x in ("key.pem", "m.sock"))
    d._run(["openssl", "genrsa", "-out", key, "2048"])
    shutil.chown(key, "opendkim", "opendkim")
    os.chmod(key, 0o600)
    run("opendkim", ["opendkim", "-f", "-x", shipped(
        d, "opendkim.conf", where, Domain="acme.example", KeyFile=key,
        Socket="local:" + path, RequireSafeKeys="no")], lambda: listens(path))
    os.chmod(path, 0o666)
    reload(d, "opendkim unix:%s 20s hold" % path)
    row = submit(d, box, "Nothing in here.")
    page = reasons(d, row)
    assert "mark it with a header field" in page, page
    assert "opendkim: DKIM-Signature" in page
    assert "gave no verdict" not in page
    status, _, raw = rest.Client(d, box.key).get(
        "/v1/messages/%s/raw" % pages.public_id(row["message_id"]))
    assert status == 200 and b"DKIM-Signature" not in raw
