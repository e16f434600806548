# SPDX-License-Identifier: ISC
"""
Real clients over 587 and 465 with what real mail brings beside plain text: a
message that is too large, 8-bit text, a recipient in UTF-8, two messages in a
session, and a client that dies inside the message.
"""
import email.message
import email.policy
import smtplib
import ssl
import subprocess

import pytest

from tests.lib import postern

EIGHT = ("From: Agent <%s>\r\nTo: someone@example.com\r\nSubject: eight\r\n"
         "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
         "Content-Transfer-Encoding: 8bit\r\n\r\nGr\u00fc\u00dfe\r\n")
PLAIN = "From: Agent <%s>\r\nTo: someone@example.com\r\n\r\n"
UTF8 = "j\u00f6rg@b\u00fccher.example"
CARRIED = "j\u00f6rg@xn--bcher-kva.example"


@pytest.fixture(scope="module")
def d():
    with postern.Deployment(extra={"smtp": {"size_max": "200K"}}) as it:
        it.add_tenant("acme", "acme.example")
        it.p = it.start("posternd")
        yield it


@pytest.fixture
def box(d):
    d.n = getattr(d, "n", 0) + 1
    return d.add_inbox("bot%d@acme.example" % d.n)


@pytest.fixture(params=["587", "465"])
def tls(request):
    return request.param == "465"


def run(argv, text):
    done = subprocess.run(argv, input=text.encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def curl_argv(d, box, tls, rcpt):
    return ["curl", "-sSv", "smtps://localhost:%d/agent" % d.smtps_port if tls
            else "smtp://localhost:%d/agent" % d.smtp_port, "--ssl-reqd",
            "--cacert", d.ca_file, "--user", "%s:%s" % (
                box.address, box.smtp_key), "--mail-from", box.address,
            "--mail-rcpt", rcpt, "--upload-file", "-"]


def curl(d, box, tls, text, rcpt="someone@example.com"):
    return run(curl_argv(d, box, tls, rcpt), text)


def swaks(d, box, tls, text, rcpt="someone@example.com"):
    path = d.path("log", "swaks.eml")
    with open(path, "wb") as f:
        f.write(text.encode())
    return run(["swaks", "--server", "localhost", "--port", str(
        d.smtps_port if tls else d.smtp_port), "--tlsc" if tls else "--tls",
        "--tls-ca-path", d.ca_file, "--from", box.address, "--to", rcpt,
        "--auth-user", box.address, "--auth-password", box.smtp_key,
        "--timeout", "20", "--suppress-data", "--data", "@" + path], "")


def msmtp(d, box, tls, text, rcpt="someone@example.com"):
    return run(["msmtp", "--host=localhost", "--port=%d" % (
        d.smtps_port if tls else d.smtp_port), "--tls=on",
        "--tls-starttls=%s" % ("off" if tls else "on"),
        "--tls-trust-file=" + d.ca_file, "--auth=plain", "--user=" +
        box.address, "--passwordeval=echo " + box.smtp_key,
        "--from=" + box.address, "--debug", rcpt],
        text.replace("\r\n", "\n"))


def connect(d, box, tls):
    context = ssl.create_default_context(cafile=d.ca_file)
    if tls:
        s = smtplib.SMTP_SSL("localhost", d.smtps_port, context=context)
    else:
        s = smtplib.SMTP("localhost", d.smtp_port)
        s.starttls(context=context)
    s.login(box.address, box.smtp_key)
    return s


def python(d, box, tls, text, rcpt="someone@example.com"):
    try:
        with connect(d, box, tls) as s:
            s.sendmail(box.address, [rcpt], text.encode(),
                       ["BODY=8BITMIME"])
            return 0, "250 2.6.0"
    except smtplib.SMTPResponseException as e:
        return 1, "%d %s" % (e.smtp_code, e.smtp_error.decode())
    except smtplib.SMTPServerDisconnected as e:
        return 1, str(e)


CLIENTS = {"curl": curl, "swaks": swaks, "msmtp": msmtp, "smtplib": python}


@pytest.fixture(params=CLIENTS)
def client(request):
    return CLIENTS[request.param]


def test_oversize(d, box, client, tls):
    before = d.count()
    text = PLAIN % box.address + ("x" * 70 + "\r\n") * 4000
    code, out = client(d, box, tls, text)
    assert code != 0
    assert "552 5.3.4 [payload_too_large]" in out.replace("552-", "552 "), \
        out[-2000:]
    assert d.count() == before


def test_eight_bits(d, box, client, tls):
    code, out = client(d, box, tls, EIGHT % box.address)
    assert code == 0, out
    m = d.messages()[-1]
    assert m["mail_from"] == box.address and m["state"] == 1


def test_utf8_recipient(d, box, tls):
    """curl and smtplib say SMTPUTF8 when an address needs it."""
    code, out = curl(d, box, tls, PLAIN % box.address + "hi\r\n", UTF8)
    assert code == 0, out
    assert d.messages()[-1]["rcpt"] == [CARRIED]
    m = email.message.EmailMessage(policy=email.policy.SMTPUTF8)
    m["From"], m["To"], m["Subject"] = box.address, UTF8, "gr\u00fc\u00dfe"
    m.set_content("hi\n")
    with connect(d, box, tls) as s:
        s.send_message(m)
    got = d.messages()[-1]
    assert got["rcpt"] == [CARRIED] and got["subject"] == "gr\u00fc\u00dfe"
    assert d.sql("SELECT rcpt_kind FROM d.message WHERE message_id = %s",
                 got["message_id"])[0]["rcpt_kind"] == "t"


def test_two_messages_a_session(d, box, tls):
    before = d.count()
    with connect(d, box, tls) as s:
        for i in range(2):
            s.sendmail(box.address, ["someone@example.com"],
                       (PLAIN % box.address + "number %d\r\n" % i).encode())
    assert d.count() == before + 2


def test_killed_inside_the_message(d, box, tls):
    before, mark = d.count(), d.p.mark()
    p = subprocess.Popen(curl_argv(d, box, tls, "someone@example.com"),
                         stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    p.stdin.write((PLAIN % box.address).encode())
    line = b"x" * 70 + b"\r\n"
    for _ in range(1500):  # more than curl and its pipe keep to themselves
        p.stdin.write(line)
    p.kill()
    p.wait()
    p.stdin = None
    d.p.wait("smtpd.close", since=mark)
    assert d.count() == before
    assert curl(d, box, tls, PLAIN % box.address + "hi\r\n")[0] == 0
