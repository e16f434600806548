# SPDX-License-Identifier: ISC
"""
Real clients (tests/lib/mailers.py) over 587 with STARTTLS and over 465, each
with a good key, a wrong key, a foreign From, a message that is too large,
8-bit text, a recipient in UTF-8, two messages in a session, and one that dies
inside the message.
"""
import email
import email.policy
import os
import signal
import subprocess
import threading

import pytest

from tests.blackbox import test_rest as rest
from tests.lib import mailers, pages, postern
from tests.lib.forward import Forward

ASCII, UTF8 = "someone@example.com", "j\u00f6rg@b\u00fccher.example"
CARRIED = "j\u00f6rg@xn--bcher-kva.example"
EIGHT = "Gr\u00fc\u00dfe aus M\u00fcnchen, \u4f60\u597d\n.dot\n"
LINE = "x" * 70 + "\n"
CASES = ["test_" + name for name in (
    "good", "wrong_key", "foreign_from", "oversize", "eight_bits",
    "utf8_recipient", "two_messages", "killed_inside_the_message")]
CUT = 60000  # of some 150,000 octets: well inside the message


@pytest.fixture(scope="module")
def d(tmp_path_factory):
    with postern.Deployment(extra={"smtp": {"size_max": "200K"}}) as it:
        it.add_tenant("acme", "acme.example")
        it.sql("UPDATE d.plan SET lim_hour = 100000, lim_day = 100000, "
               "lim_month = 1000000, lim_held = 100000")
        it.p = it.start("posternd")
        it.work = str(tmp_path_factory.mktemp("clients"))
        it.boxes = {}
        yield it


@pytest.fixture(params=["587", "465"])
def tls(request, mailer):
    """Which door. Everybody goes through both with --full; without, each case
    goes through one, and half of the clients through the other one."""
    tls = request.param == "465"
    turn = list(mailers.MAILERS).index(mailer.name) + CASES.index(
        request.function.__name__)
    if os.environ.get("POSTERN_FULL") != "1" and (turn % 2 == 1) != tls:
        pytest.skip("the other door for the same case: with --full only")
    return tls


@pytest.fixture(params=mailers.MAILERS)
def mailer(request):
    it = mailers.MAILERS[request.param]
    why = it.missing()
    if why:
        pytest.skip("client %s: %s" % (it.name, why))
    return it


@pytest.fixture
def box(d, mailer):
    if mailer.name not in d.boxes:
        d.boxes[mailer.name] = d.add_inbox(mailer.name + "@acme.example")
    return d.boxes[mailer.name]


def numbered(body):
    """The same text twice would be the same message."""
    numbered.n = getattr(numbered, "n", 0) + 1
    return "number %d\n%s" % (numbered.n, body)


class Run:
    """One case, run to its end; what the server has to show for it."""

    def __init__(self, d, mailer, box, tls, tmp_path, **how):
        self.d, self.box, self.mailer = d, box, mailer
        self.mark, before = d.p.mark(), ids(d, box)
        port = d.smtps_port if tls else d.smtp_port
        with Forward(port, how.pop("hold_after", None)) as self.hop:
            self.case = {
                "name": mailer.name, "port": self.hop.port, "tls": tls,
                "ca": d.ca_file, "user": box.address, "key": box.smtp_key,
                "sender": box.address, "rcpt": ASCII, "to_header": ASCII,
                "subject": "from " + mailer.name, "body": "hello\n.dot\n",
                "count": 1, "dir": str(tmp_path), "work": d.work, **how}
            self.case["body"] = numbered(self.case["body"])
            self.code, self.said = self.go()
        self.new = [m for m in d.messages() if m["mail_from"] == box.address
                    and m["message_id"] not in before]

    def go(self):
        return mailers.send(self.case)

    def refused(self, why):
        """The server said so, the client noticed, and nothing is stored."""
        assert self.code != 0 or not self.mailer.tells, self.said
        assert self.new == [], self.said
        self.d.p.wait("smtpd.reject", since=self.mark, why=why)

    def text(self):
        """Of its one message, decoded, as it will leave."""
        (m,) = self.new
        status, _, raw = rest.Client(self.d, self.box.key).get(
            "/v1/messages/%s/raw" % pages.public_id(m["message_id"]))
        assert status == 200
        mail = email.message_from_bytes(raw, policy=email.policy.default)
        return mail.get_body(("plain",)).get_content()


class Killed(Run):
    def go(self):
        (command,) = mailers.MAILERS[self.case["name"]].run(self.case)
        p, text = mailers.start(self.case, command)
        # Both ways at once: some say all that they send.
        said = []
        talk = threading.Thread(
            target=lambda: said.append(p.communicate(text)[0]))
        talk.start()
        held = self.hop.held.wait(60)
        os.killpg(p.pid, signal.SIGKILL)
        talk.join()
        out = said[0].decode("utf-8", "replace")
        assert held, out
        return p.returncode, out


def ids(d, box):
    return {m["message_id"] for m in d.messages()
            if m["mail_from"] == box.address}


@pytest.fixture
def send(d, mailer, box, tls, tmp_path):
    return lambda kind=Run, **how: kind(d, mailer, box, tls, tmp_path, **how)


def test_good(send, box, mailer):
    r = send()
    assert r.code == 0, r.said
    (m,) = r.new
    assert m["rcpt"] == [ASCII] and m["state"] == 1
    text = r.text().replace("\r\n", "\n").rstrip("\n")
    assert text.endswith("hello\n.dot") or not mailer.stuffs and \
        text.endswith("hello\ndot"), r.said


def test_wrong_key(send, box):
    key = box.smtp_key
    r = send(key=key[:-1] + ("0" if key[-1] != "0" else "1"))
    r.refused("unknown_api_key")


def test_foreign_from(send, mailer):
    if not mailer.free:
        pytest.skip("client %s: its From is its envelope's" % mailer.name)
    send(sender="ceo@acme.example").refused("sender_mismatch")


def test_oversize(send):
    send(body=LINE * 4000).refused("payload_too_large")


def test_eight_bits(send, mailer):
    r = send(body=EIGHT, subject="gr\u00fc\u00dfe")
    if mailer.eight == "told":
        r.refused("message_malformed")
        return
    assert r.code == 0, r.said
    assert r.text().replace("\r\n", "\n").rstrip("\n").endswith(
        EIGHT.rstrip("\n")), r.said


def test_utf8_recipient(send, mailer):
    """As it is meant, or not at all."""
    r = send(rcpt=UTF8)
    if mailer.utf8 == "sent":
        assert r.code == 0, r.said
        assert [m["rcpt"] for m in r.new] == [[CARRIED]], r.said
    elif mailer.utf8 == "told":
        r.refused("smtputf8_needed")
    else:
        assert r.code != 0 and r.new == [], r.said


def test_two_messages(send, mailer):
    r = send(count=2)
    assert r.code == 0, r.said
    assert len(r.new) == 2, r.said
    assert r.hop.connections == (1 if mailer.session else 2)


def test_killed_inside_the_message(d, send):
    """Nothing is stored of it, and its session is over."""
    r = send(Killed, body=LINE * 2000, hold_after=CUT)
    opened = d.p.wait("smtpd.accept", since=r.mark, peer=r.hop.source)
    d.p.wait("smtpd.close", since=r.mark, session=opened["session"])
    assert ids(d, r.box).isdisjoint(m["message_id"] for m in r.new)
    assert r.new == [], r.said


# -- what single ones can do beside that ---------------------------------------

class Swaks:
    def __init__(self, d, box, *extra):
        done = subprocess.run([
            "swaks", "--server", "localhost", "--port", str(d.smtp_port),
            "--tls", "--tls-verify", "--tls-ca-path", d.ca_file, "--from",
            box.address, "--to", ASCII, "--auth-user", box.address,
            "--auth-password", box.smtp_key, "--header-From", box.address,
            "--timeout", "20", *extra], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=60)
        self.code, self.said = done.returncode, done.stdout.decode()


@pytest.fixture
def bot(d):
    d.n = getattr(d, "n", 0) + 1
    return d.add_inbox("bot%d@acme.example" % d.n)


def test_swaks_pipelined_and_login(d, bot):
    r = Swaks(d, bot, "--pipeline", "--auth", "LOGIN")
    assert r.code == 0 and "250 2.6.0" in r.said, r.said


def test_swaks_hangs_up_after_the_dot(d, bot):
    """B39: the message is ours; sent again it is the same one."""
    before = d.count()
    text = "From: %s\r\nTo: %s\r\nSubject: x\r\n\r\nhi\r\n" % (
        bot.address, ASCII)
    Swaks(d, bot, "--drop-after-send", "DATA", "--data", text)
    r = Swaks(d, bot, "--data", text)
    assert r.code == 0, r.said
    assert d.count() - before in (1, 2)


def test_curl_without_crlf_is_told(d, bot):
    done = subprocess.run([
        "curl", "-sSv", "smtps://localhost:%d/agent" % d.smtps_port,
        "--cacert", d.ca_file, "--user", "%s:%s" % (
            bot.address, bot.smtp_key), "--mail-from", bot.address,
        "--mail-rcpt", ASCII, "--upload-file", "-"],
        input=b"From: %s\n\nhi\n" % bot.address.encode(),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    assert done.returncode != 0
    assert b"554 5.6.0 [message_malformed] The message has a bare LF " \
        b"(curl needs --crlf)" in done.stdout, done.stdout
