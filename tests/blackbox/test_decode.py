# SPDX-License-Identifier: ISC
"""postern-decode as a program, and what operators see of it."""
import base64
import contextlib
import html
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import time
import urllib.request

import pytest

from tests.browser import stack
from tests.lib import postern, seals

TEXT = {
    "windows-1252": "Na\u00efve \u2013 \u201cquoted\u201d \u20ac",
    "windows-1251": "\u041f\u0440\u0438\u0432\u0435\u0442",
    "iso-8859-2": "P\u0159\u00edli\u0161 \u017elu\u0165ou\u010dk\u00fd",
    "iso-8859-7": "\u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1",
    "koi8-r": "\u0414\u043e\u0431\u0440\u044b\u0439 \u0434\u0435\u043d\u044c",
    "koi8-u": "\u041f\u0440\u0438\u0432\u0456\u0442",
    "iso-2022-jp": "\u3053\u3093\u306b\u3061\u306f\u3001\u4e16\u754c",
    "shift_jis": "\u898b\u7a4d\u66f8\u3092\u304a\u9001\u308a\u3057\u307e\u3059",
    "euc-jp": "\u65e5\u672c\u8a9e\u306e\u6587\u66f8",
    "euc-kr": "\uc548\ub155\ud558\uc138\uc694",
    "gb18030": "\u4f60\u597d\uff0c\u4e16\u754c \U0001f600",
    "gb2312": "\u4f60\u597d",
    "big5": "\u4f60\u597d\u55ce",
    "utf-16": "mark \u2192 little",
    "utf-16-be": "no mark \u2192 big",
}


def decode(charset, data, kind=1, encoding=0, wrapper=()):
    """One request to one process; its status, flags and text."""
    ours, theirs = socket.socketpair()
    program = os.path.join(postern.build_dir(), "postern-decode")
    with ours:
        with theirs:
            # the shell puts the socket where it belongs
            p = subprocess.Popen(
                [*wrapper, "/bin/sh", "-c", 'exec "$0" 3<&0', program],
                stdin=theirs)
        try:
            ours.sendall(
                b"PDC1" + bytes([kind, encoding, 0, len(charset), 10, 0, 0,
                                 0]) + struct.pack(">I", len(data)) +
                charset.encode() + b"text/plain" + data)
            got = b""
            while piece := ours.recv(65536):
                got += piece
        except ConnectionError:
            got = b""
    code = p.wait()
    if code != 0:
        return code, None, None
    magic, status, flags, size = struct.unpack(">4sBBxxI", got[:12])
    assert (magic, size) == (b"PDR1", len(got) - 12)
    return status, flags, got[12:].decode("utf-8")


@pytest.mark.parametrize("charset", sorted(TEXT))
def test_charset_behind_the_sandbox(charset):
    """Python's codecs are the second opinion."""
    text = TEXT[charset]
    data = text.encode(charset)
    name = "utf-16" if charset == "utf-16-be" else charset
    assert decode(name, data) == (0, 0, text)
    assert decode(name, base64.encodebytes(data), encoding=2) == (0, 0, text)


def test_word_and_refused_names():
    word = "=?iso-2022-jp?B?%s?=" % base64.b64encode(
        TEXT["iso-2022-jp"].encode("iso-2022-jp")).decode()
    assert decode("iso-2022-jp", word.encode(), kind=2) == (
        0, 0, TEXT["iso-2022-jp"])
    for name in ("utf-7", "hz-gb-2312", "iso-2022-kr", "iso-2022-cn-ext",
                 "x-nothing", "utf-8//translit", "/etc/passwd"):
        assert decode(name, b"+AGE-") == (1, 0, "")


def test_nonsense_ends_it():
    assert decode("koi8-r", b"x", kind=9)[0] == 65
    assert decode("koi8-r", b"no word", kind=2)[0] == 65


def unit_allows():
    """System calls of the service of postern-admin, which starts it."""
    def members(name):
        if not name.startswith("@"):
            return {name}
        text = subprocess.run(
            ["systemd-analyze", "syscall-filter", name], check=True,
            stdout=subprocess.PIPE, text=True).stdout
        words = [line.strip() for line in text.splitlines()[1:]]
        return set().union(*(members(w) for w in words
                             if w and not w.startswith("#")))
    with open(os.path.join(postern.TOP,
                           "deploy/systemd/postern-admin.service")) as f:
        lines = re.findall(r"^SystemCallFilter=(.*)$", f.read(), re.M)
    allowed = set()
    for line in lines:
        names = set().union(*map(members, line.lstrip("~").split()))
        allowed = allowed - names if line[0] == "~" else allowed | names
    return allowed


def is_sanitized():
    return os.path.samefile(postern.build_dir(), os.environ.get(
        "POSTERN_BUILD_SAN", "/"))


def test_system_calls_after_the_first_byte(tmp_path):
    """The filter is there before input is read; then hardly anything is.
    And the service's own filter lets it get that far."""
    if not shutil.which("strace"):
        pytest.skip("strace is not here")
    log = tmp_path / "strace"
    data = TEXT["iso-2022-jp"].encode("iso-2022-jp")
    try:
        got = decode("iso-2022-jp", data, wrapper=[
            "strace", "-f", "-o", str(log)])
    except OSError as e:
        pytest.skip("strace cannot trace here: %s" % e)
    if not log.exists() or "execve" not in log.read_text():
        pytest.skip("strace cannot trace here")
    assert got == (0, 0, TEXT["iso-2022-jp"])
    calls = [m[1] + "(" + m[2] for m in re.finditer(
        r"^\d+ +(\w+)\((.*)$", log.read_text(), re.M)]
    filters = [i for i, c in enumerate(calls) if c.startswith(
        "seccomp(SECCOMP_SET_MODE_FILTER, 0, ") and c.endswith("= 0")]
    reads = [i for i, c in enumerate(calls) if c.startswith("read(3, \"PDC1")]
    assert len(filters) == 1 and len(reads) == 1
    assert filters[0] < reads[0]
    after = {c.split("(")[0] for c in calls[filters[0] + 1:]}
    allowed = {"read", "write", "mmap", "munmap", "mremap", "brk",
               "exit_group"}
    if is_sanitized():
        allowed |= {"madvise", "mprotect", "futex", "sigaltstack",
                    "rt_sigprocmask", "getpid", "gettid", "sched_yield"}
    assert after <= allowed
    if shutil.which("systemd-analyze") and not is_sanitized():
        assert {c.split("(")[0] for c in calls} <= unit_allows()


# -- the pages ---------------------------------------------------------------

JP_BODY = "\u3053\u3093\u306b\u3061\u306f\u3002\u632f\u8fbc\u5148\u3092"
JP_SUBJECT = "\u898b\u7a4d\u66f8\u306e\u4ef6"
JP_FILE = "\u8acb\u6c42\u66f8.txt"
KO_NAME = "\uae40\ucca0\uc218"


def word(charset, text):
    return "=?%s?B?%s?=" % (
        charset, base64.b64encode(text.encode(charset)).decode())


def percent(charset, text):
    return "%s''%s" % (charset, "".join(
        "%%%02X" % b for b in text.encode(charset)))


def message():
    """7-bit throughout; two words that cut a character in two."""
    half = JP_SUBJECT.encode("shift_jis")
    subject = " ".join("=?Shift_JIS?B?%s?=" % base64.b64encode(x).decode()
                       for x in (half[:3], half[3:]))
    return "\n".join([
        "From: helpdesk@agents.example.com",
        "To: %s <kim@example.org>" % word("euc-kr", KO_NAME),
        "Subject: " + subject,
        "Date: Sat, 28 Nov 2026 03:42:25 +0000",
        "Message-ID: <{n}-jp@agents.example.com>",
        "MIME-Version: 1.0",
        "Content-Type: multipart/mixed; boundary=b",
        "",
        "--b",
        "Content-Type: text/plain; charset=ISO-2022-JP",
        "",
        JP_BODY.encode("iso-2022-jp").decode("ascii"),
        "--b",
        "Content-Type: text/html; charset=koi8-r",
        "Content-Transfer-Encoding: base64",
        "",
        base64.b64encode(
            "<b onclick=x>\u041f\u0440\u0438</b>".encode("koi8-r")).decode(),
        "--b",
        "Content-Type: text/plain; charset=x-nothing",
        "",
        "plain bytes",
        "--b",
        "Content-Type: application/octet-stream",
        "Content-Disposition: attachment; filename*="
        + percent("shift_jis", JP_FILE),
        "Content-Transfer-Encoding: base64",
        "",
        "AAEC",
        "--b--",
        ""])


class Pages:
    def __init__(self, **admin):
        self.stack = stack.Stack(**admin)
        self.d = self.stack.d
        self.cookie = "__Host-sid=" + seals.base32(
            self.d.sign_in(user="l_review"))
        self.tls = ssl.create_default_context(cafile=self.d.ca_file)

    def get(self, path):
        request = urllib.request.Request(
            "https://localhost:%d%s" % (self.d.admin_port, path),
            headers={"Cookie": self.cookie})
        with urllib.request.urlopen(
                request, context=self.tls, timeout=30) as reply:
            return reply.read().decode("utf-8")

    def text(self, path):
        """What a person reads."""
        page = re.sub(r"<(script|style)\b.*?</\1>", "", self.get(path),
                      flags=re.S)
        return html.unescape(re.sub(r"<[^>]*>", "", page))

    def close(self):
        self.d.close()


@pytest.fixture(scope="module")
def pages():
    p = Pages()
    yield p
    p.close()


HANG = """#!/bin/sh
# is asked and never answers
/usr/bin/head -c 1 <&3 >/dev/null
exec /usr/bin/tail -f /dev/null
"""
CRASH = """#!/bin/sh
# reads what it is asked, as the true one does, and crashes
/usr/bin/head -c 1 <&3 >/dev/null
kill -SEGV $$
"""


@contextlib.contextmanager
def pages_with(script):
    """Pages whose decoder is this script."""
    with tempfile.TemporaryDirectory() as where:
        os.chmod(where, 0o755)
        program = os.path.join(where, "fake")
        with open(program, "w") as f:
            f.write(script)
        os.chmod(program, 0o755)
        p = Pages(decode_program=program)
        try:
            yield p
        finally:
            p.close()


@pytest.fixture(scope="module")
def broken():
    """A decoder that crashes as soon as it is asked."""
    with pages_with(CRASH) as p:
        yield p


def test_page_shows_the_true_text(pages):
    got = pages.stack.do_submit(raw=message(), rcpt=["kim@example.org"])
    page = pages.text("/m/" + got["id"])
    assert JP_SUBJECT in page
    assert JP_BODY in page
    assert JP_FILE in page
    assert KO_NAME in page
    assert "<b onclick=x>\u041f\u0440\u0438</b>" in page
    assert "character set x-nothing, which is not known here" in page
    assert "plain bytes" in page
    assert "=?" not in page
    assert "onclick=x" not in re.findall(r"<[^>]*>", pages.get(
        "/m/" + got["id"]))
    headers = pages.text("/m/%s?view=headers" % got["id"])
    assert JP_SUBJECT in headers and KO_NAME in headers
    raw = pages.text("/m/%s?view=raw" % got["id"])
    assert "=?Shift_JIS?B?" in raw


def subject_of(charset, text):
    return "\n".join(["From: helpdesk@agents.example.com",
                      "To: kim@example.org",
                      "Subject: " + word(charset, text),
                      "Date: Sat, 28 Nov 2026 03:42:25 +0000",
                      "Message-ID: <{n}-s@agents.example.com>", "", "x", ""])


def test_lists_show_true_subjects(pages):
    """Queue, history and a decided message that nobody has opened again."""
    texts = {c: TEXT[c] for c in ("iso-2022-jp", "windows-1251", "euc-kr")}
    texts["x-nothing"] = None
    ids = {}
    for charset, text in texts.items():
        ids[charset] = pages.stack.do_submit(
            raw=subject_of(charset if text else "utf-8", text or "x"),
            subject=word(charset, text) if text else "=?x-nothing?Q?=41?=",
            rcpt=["kim@example.org"])["id"]

    def shown(path):
        """Asked again, for a busy machine gives the helper too little."""
        def look():
            page = pages.text(path)
            return page if all(x in page for x in texts.values() if x) else None
        page = postern.wait_until(path, look)
        assert "=?x-nothing?Q?=41?=" in page
        assert "=?iso-2022-jp" not in page
        return page
    shown("/q")
    shown("/q?q=kim@example.org")
    pages.d.sql("UPDATE d.state SET hold_until = now() WHERE state = 1")
    pages.d.api("sweep_1", 100, user="l_worker")  # they expire
    shown("/history")
    for charset, text in texts.items():
        if text:
            postern.wait_until(charset, lambda i=ids[charset], t=text:
                               t in pages.text("/m/" + i))


def test_dead_helpers_do_not_stop_the_lists(broken):
    """One that crashes is known at once, one that hangs in a second."""
    fields = dict(raw=message(), subject=word("euc-kr", KO_NAME),
                  rcpt=["kim@example.org"])
    broken.stack.do_submit(**fields)
    assert word("euc-kr", KO_NAME) in broken.text("/q")
    with pages_with(HANG) as p:
        p.stack.do_submit(count=50, **fields)

        def seconds():
            began = time.monotonic()
            assert p.text("/q").count(word("euc-kr", KO_NAME)) > 1
            return time.monotonic() - began
        # 1 s, not the 5 s that an opened message gives each of its texts
        assert min(seconds() for _ in range(3)) < 5


def test_a_full_page_of_foreign_subjects(pages):
    """Each row its own words: all of them are asked about, in time."""
    words = ["\u041f\u0440\u0438\u0432\u0435\u0442 %d!" % i
             for i in range(50)]
    for text in words:
        pages.stack.do_submit(raw=subject_of("koi8-r", text), inbox=1,
                              subject=word("koi8-r", text),
                              rcpt=["fifty@example.org"])
    began = time.monotonic()

    def look():
        page = pages.text("/q?q=fifty@example.org")
        return all(x in page for x in words)
    postern.wait_until("all fifty", look, 60)
    print("50 foreign subjects: %.2f s" % (time.monotonic() - began))


def test_smtp_takes_it(pages):
    """What the page reads, the gateway accepts; UTF-7 it does not."""
    d = pages.d
    d.start("posternd")
    box = pages.stack.boxes[0]
    with postern_smtp(d) as s:
        s.login(box.address, box.smtp_key)
        raw = message().replace("{n}", "s").replace("\n", "\r\n")
        s.sendmail(box.address, ["kim@example.org"], raw.encode("ascii"))
        bad = raw.replace("charset=ISO-2022-JP", "charset=utf-7")
        with pytest.raises(Exception, match="554"):
            s.sendmail(box.address, ["kim@example.org"], bad.encode("ascii"))


def postern_smtp(d):
    import smtplib
    s = smtplib.SMTP("localhost", d.smtp_port, timeout=20)
    s.starttls(context=ssl.create_default_context(cafile=d.ca_file))
    return s


def test_many_words_are_bounded(pages):
    """Past the limit of one page words stay as written, and it says so."""
    raw = message().replace("Date:", "".join(
        "X-%d: %s\n" % (i, word("koi8-r", "\u041f%d" % i))
        for i in range(100)) + "Date:")
    got = pages.stack.do_submit(raw=raw, rcpt=["kim@example.org"])
    page = pages.text("/m/" + got["id"])
    assert JP_SUBJECT in page and JP_BODY in page and JP_FILE in page
    assert "could not be decoded; they are shown as they were" in page


def test_crash_leaves_the_page_with_a_notice(broken):
    got = broken.stack.do_submit(raw=message(), rcpt=["kim@example.org"])
    page = broken.text("/m/" + got["id"])
    assert "character set iso-2022-jp, and decoding it failed" in page
    assert "=?Shift_JIS?B?" in page
    assert "Words in a header or file name could not be decoded" in page
    assert JP_BODY not in page
    assert "Approve" in page
    lines = [x for x in broken.d.programs["postern-admin"].events
             if x["event"] == "helper.killed"]
    assert lines and lines[0]["why"] == "signal 11"
    port = broken.d.metrics_port + 1
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port) as r:
        count = re.search(r"^postern_helper_kills_total (\d+)$",
                          r.read().decode(), re.M)
    assert int(count[1]) >= len(lines) > 0


OTHER = "Some programs show another part in place of the text"


def alternatives(kind, *parts):
    """Text, and parts of these types behind it."""
    lines = ["From: helpdesk@agents.example.com", "To: kim@example.org",
             "Subject: alternatives", "Message-ID: <{n}-alt@agents.example."
             "com>", "Date: Sat, 28 Nov 2026 03:42:25 +0000",
             "MIME-Version: 1.0",
             "Content-Type: multipart/%s; boundary=b" % kind, "",
             "--b", "Content-Type: text/plain", "", "At noon, in the hall"]
    for part in parts:
        lines += ["--b", "Content-Type: " + part, "",
                  "<p>At noon, in the hall</p>"]
    return "\n".join([*lines, "--b--", ""])


@pytest.mark.parametrize("kind,parts,told", [
    ("alternative", ["text/html"], False),
    ("alternative", ["text/x-amp-html", "text/html"], True),
    ("alternative", ["text/watch-html"], True),
    ("alternative", ["text/calendar; method=REQUEST"], True),
    ("alternative", ["text/html; name=page.html"], True),
    ("alternative", ["multipart/related; boundary=c\n\n--c\nContent-Type: "
                     "text/x-amp-html\n\n<p>Pay Eve</p>\n--c\nContent-Type: "
                     "image/png\n\nx\n--c--"], True),
    ("alternative", ["multipart/related; boundary=c\n\n--c\nContent-Type: "
                     "text/html\n\n<p>At noon</p>\n--c\nContent-Type: "
                     "image/png\n\nx\n--c--"], False),
    ("mixed", ["text/calendar"], False),
])
def test_what_may_be_shown_in_place_of_the_text(pages, kind, parts, told):
    got = pages.stack.do_submit(raw=alternatives(kind, *parts),
                                rcpt=["kim@example.org"])
    assert (OTHER in pages.text("/m/" + got["id"])) == told


def test_latin_1_as_programs_read_it(pages):
    raw = alternatives("mixed").replace(
        "Content-Type: text/plain", "Content-Type: text/plain; charset="
        "iso-8859-1\nContent-Transfer-Encoding: quoted-printable").replace(
        "At noon, in the hall", "Pay 100=80 =E0 Eve=92s")
    got = pages.stack.do_submit(raw=raw, rcpt=["kim@example.org"])
    assert "Pay 100\u20ac \u00e0 Eve\u2019s" in pages.text(
        "/m/" + got["id"])


def test_lines_are_joined_as_programs_join_them(pages):
    raw = alternatives("mixed").replace(
        "text/plain", "text/plain; format=flowed; delsp=yes").replace(
        "At noon, in the hall", "See https://good.exam \nple.evil.example/x")
    got = pages.stack.do_submit(raw=raw, rcpt=["kim@example.org"])
    page = pages.text("/m/" + got["id"])
    assert "https://good.example.evil.example/x" in page
