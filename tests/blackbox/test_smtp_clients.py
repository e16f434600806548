# SPDX-License-Identifier: ISC
"""
Real clients over 587 (STARTTLS) and 465: swaks, curl, msmtp, git send-email,
smtplib, nodemailer; each with a good key, a wrong key and a foreign From.
"""
import email.message
import json
import os
import shutil
import smtplib
import ssl
import subprocess

import pytest

from tests.lib import postern

TOP = postern.TOP
CLIENTS = os.path.join(TOP, "tests", "clients")
TEXT = ("From: Agent <%(from)s>\r\nTo: someone@example.com\r\n"
        "Subject: from %(name)s\r\n\r\nhello\r\n.leading dot\r\n")


@pytest.fixture(scope="module")
def d():
    with postern.Deployment() as it:
        it.add_tenant("acme", "acme.example")
        it.start("posternd")
        yield it


@pytest.fixture
def box(d):
    d.n = getattr(d, "n", 0) + 1
    return d.add_inbox("bot%d@acme.example" % d.n)


@pytest.fixture(params=["587", "465"])
def tls(request):
    return request.param == "465"


def run(argv, text="", **kw):
    done = subprocess.run(argv, input=text.encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60, **kw)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def swaks(d, box, tls, key=None, sender=None, extra=()):
    sender = sender or box.address
    return run([
        "swaks", "--server", "localhost",
        "--port", str(d.smtps_port if tls else d.smtp_port),
        "--tlsc" if tls else "--tls", "--tls-verify",
        "--tls-ca-path", d.ca_file, "--from", box.address,
        "--to", "someone@example.com", "--auth-user", box.address,
        "--auth-password", key or box.smtp_key, "--header-From", sender,
        "--timeout", "20", *extra])


def curl(d, box, tls, key=None, sender=None, extra=(), eol="\r\n"):
    url = "smtps://localhost:%d/agent" % d.smtps_port if tls else \
        "smtp://localhost:%d/agent" % d.smtp_port
    text = TEXT % {"from": sender or box.address, "name": "curl"}
    return run(["curl", "-sSv", url, "--ssl-reqd", "--cacert", d.ca_file,
                "--user", "%s:%s" % (box.address, key or box.smtp_key),
                "--mail-from", box.address, "--mail-rcpt",
                "someone@example.com", "--upload-file", "-", *extra],
               text.replace("\r\n", eol))


def msmtp(d, box, tls, key=None, sender=None):
    text = TEXT % {"from": sender or box.address, "name": "msmtp"}
    return run([
        "msmtp", "--host=localhost",
        "--port=%d" % (d.smtps_port if tls else d.smtp_port), "--tls=on",
        "--tls-starttls=%s" % ("off" if tls else "on"),
        "--tls-trust-file=" + d.ca_file, "--auth=plain",
        "--user=" + box.address,
        "--passwordeval=echo " + (key or box.smtp_key),
        "--from=" + box.address, "--debug", "someone@example.com"],
        text.replace("\r\n", "\n"))


def send_email(d, box, tls, key=None, sender=None):
    """git send-email: a patch, two of them in one session."""
    home = d.path("log")
    patches = []
    for i in (1, 2):
        path = os.path.join(home, "%d-%s.patch" % (i, box.address))
        with open(path, "w") as f:
            f.write("From %040d Mon Sep 17 00:00:00 2001\n"
                    "From: Agent <%s>\nDate: Mon, 1 Jan 2024 00:00:00 +0000\n"
                    "Subject: [PATCH %d/2] from git\n\n"
                    "trailing space \n\f\n---\n.dot\n" % (
                        i, sender or box.address, i))
        patches.append(path)
    return run([
        "git", "send-email", "--confirm=never", "--quiet",
        "--smtp-debug=1", "--from=" + (sender or box.address),
        "--envelope-sender=" + box.address, "--to=someone@example.com",
        "--suppress-cc=all", "--smtp-server=localhost",
        "--smtp-server-port=%d" % (d.smtps_port if tls else d.smtp_port),
        "--smtp-encryption=" + ("ssl" if tls else "tls"),
        "--smtp-ssl-cert-path=" + d.ca_file, "--smtp-user=" + box.address,
        "--smtp-pass=" + (key or box.smtp_key), *patches], cwd=home,
        env={**os.environ, "HOME": home, "GIT_CONFIG_NOSYSTEM": "1",
             "GIT_AUTHOR_NAME": "Agent", "GIT_COMMITTER_NAME": "Agent",
             "GIT_AUTHOR_EMAIL": sender or box.address,
             "GIT_COMMITTER_EMAIL": sender or box.address,
             "GIT_CEILING_DIRECTORIES": d.dir})


def python(d, box, tls, key=None, sender=None):
    m = email.message.EmailMessage()
    m["From"] = "Agent <%s>" % (sender or box.address)
    m["To"] = "someone@example.com"
    m["Bcc"] = "secret@example.com"
    m["Subject"] = "from smtplib \u00fcber"
    m.set_content("gr\u00fc\u00dfe\n.dot\n")
    context = ssl.create_default_context(cafile=d.ca_file)
    try:
        if tls:
            s = smtplib.SMTP_SSL("localhost", d.smtps_port, context=context)
        else:
            s = smtplib.SMTP("localhost", d.smtp_port)
            s.starttls(context=context)
        with s:
            s.login(box.address, key or box.smtp_key)
            s.send_message(m)
            return 0, "250 2.6.0"
    except smtplib.SMTPResponseException as e:
        return 1, "%d %s" % (e.smtp_code, e.smtp_error.decode())


def node(d, box, tls, key=None, sender=None):
    if not os.path.isdir(os.path.join(CLIENTS, "node_modules")):
        code, out = run(["npm", "ci", "--no-audit", "--no-fund"], cwd=CLIENTS)
        assert code == 0, out
    code, out = run([
        shutil.which("node", path="/usr/bin:" + os.environ["PATH"]),
        "send.js", str(d.smtps_port if tls else d.smtp_port),
        "1" if tls else "0", d.ca_file, box.address, key or box.smtp_key,
        sender or box.address, "someone@example.com"], cwd=CLIENTS)
    assert code == 0, out
    lines = [json.loads(x) for x in out.splitlines()]
    good = all(x["response"].startswith("250") for x in lines)
    return 0 if good else 1, "\n".join(x["response"] for x in lines)


SENDERS = {"swaks": (swaks, 1), "curl": (curl, 1), "msmtp": (msmtp, 1),
           "git": (send_email, 2), "smtplib": (python, 1),
           "nodemailer": (node, 2)}


@pytest.fixture(params=SENDERS.keys())
def client(request):
    return request.param


def call(client, d, box, tls, **kw):
    if client == "curl":
        kw["extra"] = ("--crlf",)
        kw["eol"] = "\n"
    return SENDERS[client][0](d, box, tls, **kw)


def test_good(d, box, client, tls):
    before = d.count(1)
    code, out = call(client, d, box, tls)
    assert code == 0, out
    assert "250 2.6.0" in out, out
    assert d.count(1) - before == SENDERS[client][1], out
    m = d.messages()[-1]
    assert m["mail_from"] == box.address
    assert "someone@example.com" in m["rcpt"]


def test_wrong_key(d, box, client, tls):
    before = d.count()
    wrong = box.smtp_key[:-1] + ("0" if box.smtp_key[-1] != "0" else "1")
    code, out = call(client, d, box, tls, key=wrong)
    assert code != 0
    # curl and git keep the server's words to themselves
    assert client in ("git",) or "535" in out, out
    assert d.count() == before


def test_foreign_from(d, box, client, tls):
    before = d.count()
    code, out = call(client, d, box, tls, sender="ceo@acme.example")
    assert code != 0, out
    assert "550" in out and "sender_mismatch" in out, out
    assert d.count() == before


def test_curl_without_crlf_is_told(d, box):
    code, out = curl(d, box, True, eol="\n")
    assert code != 0
    assert "554 5.6.0 [message_malformed] The message has a bare LF " \
        "(curl needs --crlf)" in out, out


def test_swaks_pipelined_and_login(d, box):
    code, out = swaks(d, box, False, extra=("--pipeline", "--auth", "LOGIN"))
    assert code == 0 and "250 2.6.0" in out, out


def test_swaks_hangs_up_after_the_dot(d, box):
    """B39: the message is ours; sent again it is the same one."""
    before = d.count()
    text = (TEXT % {"from": box.address, "name": "swaks"}) + "Hi\r\n"
    extra = ("--drop-after-send", "DATA", "--data", text)
    swaks(d, box, True, extra=extra)
    code, out = swaks(d, box, True, extra=("--data", text))
    assert code == 0, out
    assert d.count() - before in (1, 2)
