# SPDX-License-Identifier: ISC
"""
The fault matrix: what a mail exchanger, its name server or its certificate can
get wrong, each with the one right outcome. Public addresses, a signed zone and
a validating resolver, in a network namespace; DANE and MTA-STS with it.
"""
import os
import re
import time

import pytest

from tests.fake.dns import SHORT
from tests.fake.mx import CLOSE
from tests.lib import netns
from tests.lib.faults import (
    CLEAR, OFFERS, SILENT_HOST, Row, World, after, by_octets, cut, policy,
    rst, says)

FULL = os.environ.get("POSTERN_FULL") == "1"
EIGHT = ("From: <@BOX@>\r\nTo: <ann@dest.example>\r\nSubject: x\r\n"
         "Content-Type: text/plain; charset=utf-8\r\n"
         "Content-Transfer-Encoding: 8bit\r\nMIME-Version: 1.0\r\n\r\n"
         "Gr\u00fc\u00dfe\r\n").encode()
DSN = OFFERS + ("DSN",)
UTF8 = OFFERS + ("SMTPUTF8",)
UTF8_HEADER = ("From: <@BOX@>\r\nTo: <j\u00f6rg@dest.example>\r\nSubject: "
               "Gr\u00fc\u00dfe\r\n\r\nx\r\n").encode()
MANY = "".join("220-%d\r\n" % i for i in range(100000)).encode()
ONE_LINE = b"250 " + b"x" * 1048576 + b"\r\n"
DANE = ("{d}. MX 10 mx1.{d}.\nmx1.{d}. A {ip1}\n_25._tcp.mx1.{d}. TLSA ")
TWO_HOSTS = {"second": {}, "took": 0, "second_took": 1}


def verbs():
    """421, 4xx, 5xx, RST and an end at each verb, of the only host."""
    for verb, ends in (("MAIL", "deferred"), ("RCPT", "deferred"),
                       ("DATA", "deferred"), ("dot", "uncertain")):
        for step, want in (
                ("421 4.3.2 later", "deferred"),
                ("450 4.2.1 later", "deferred"),
                ("550 5.7.1 no", "bounced"), ("999 what", ends),
                (rst, ends), (CLOSE, ends)):
            name = step.split()[0] if isinstance(step, str) else (
                "rst" if step is rst else "close")
            yield Row("%s-%s" % (verb, name), want, {verb: step})


def halves():
    """An end at each kind of octet of a reply: it was no reply."""
    for name, part in (
            ("digit", b"2"), ("code", b"250"), ("space", b"250 "),
            ("enhanced", b"250 2.0."), ("text", b"250 2.0.0 ok"),
            ("cr", b"250 2.0.0 ok\r"), ("line", b"250-2.0.0 ok\r\n")):
        for verb in ("MAIL", "RCPT", "DATA", "dot"):
            step = part.replace(b"250", b"354") if verb == "DATA" else part
            yield Row("%s-half-%s" % (verb, name),
                      "uncertain" if verb == "dot" else "deferred",
                      {verb: cut(step)})
            yield Row("%s-rst-half-%s" % (verb, name),
                      "uncertain" if verb == "dot" else "deferred",
                      {verb: cut(step, rst)})
        for verb, code in (("banner", b"220"), ("EHLO", b"250"),
                           ("STARTTLS", b"220")):
            step = part.replace(b"250", code)
            for how, end in (("half", CLOSE), ("rst-half", rst)):
                yield Row("%s-%s-%s" % (verb, how, name), "deferred",
                          {verb: cut(step, end)}, took=0)
    yield Row("dot-half-no", "uncertain", {"dot": cut(b"550 5.7.1 no\r")})
    yield Row("dot-half-no-line", "uncertain", {"dot": cut(
        b"550-5.7.1 no\r\n")})


def under_tls(step):
    """Only there: in clear all is well."""
    def moment(session, line):
        if not session.tls:
            return None
        return step(session, line) if callable(step) else step
    return moment


def once(moment, step):
    """The first time alone."""
    return lambda session, line: (
        step if session.mx.verbs.count(moment) == 1 else None)


def not_in_clear(session, line):
    return None if session.tls else "530 5.7.0 Must issue STARTTLS first"


def sts(name, want, cert="good", mode="enforce", mx=("mx1.{d}",), **more):
    return Row("sts-" + name, want, cert=cert, policy=policy(mode, *mx),
               **more)


GREETINGS = [
    Row("banner-multi-line", "sent", {"banner": "220-a\n220-b\n220 c"}),
    Row("banner-octets", "sent", {"banner": by_octets("220 a b c")}),
    Row("banner-late", "sent", {"banner": after(15)}),
    Row("banner-4-minutes", "sent", {"banner": after(240)}, slow=True),
    Row("banner-never", "sent", {"banner": after(400)}, slow=True,
        **TWO_HOSTS),
    Row("banner-554-alone", "deferred", {"banner": "554 5.7.1 no"}),
    Row("banner-554", "sent", {"banner": "554 5.7.1 no"}, **TWO_HOSTS),
    Row("banner-421", "sent", {"banner": "421 4.3.2 busy"}, **TWO_HOSTS),
    Row("banner-rst", "sent", {"banner": rst}, **TWO_HOSTS),
    Row("banner-http", "sent", {"banner": says(b"HTTP/1.1 400 no\r\n")},
        **TWO_HOSTS),
    Row("banner-no-end", "sent", {"banner": says(b"220 " + b"x" * 1048576)},
        **TWO_HOSTS),
    Row("banner-100000-lines", "sent", {"banner": says(MANY)}, **TWO_HOSTS),
    Row("banner-nul", "sent", {"banner": says(b"220 a\0b\x1b[2J\r\n")}),
    Row("ehlo-502-helo", "sent", {"EHLO": "502 5.5.1 what"}, tls=False),
    Row("ehlo-helo-502", "deferred", {"EHLO": "502 5.5.1 what",
                                      "HELO": "502 5.5.1 what"}),
    Row("ehlo-421", "sent", {"EHLO": "421 4.3.2 busy"}, **TWO_HOSTS),
    Row("ehlo-rst", "sent", {"EHLO": rst}, **TWO_HOSTS),
    Row("ehlo-octets", "sent", {"EHLO": by_octets("250-a\n250 PIPELINING")}),
    Row("ehlo-451", "sent", {"EHLO": "451 4.3.0 no"}, **TWO_HOSTS),
    Row("ehlo-550", "sent", {"EHLO": "550 5.7.1 no", "HELO": "550 5.7.1 no"},
        **TWO_HOSTS),
    Row("ehlo-550-alone", "deferred", {"EHLO": "550 5.7.1 no",
                                       "HELO": "550 5.7.1 no"}),
    Row("no-extensions", "sent", offers=(), tls=False, said="^$"),
    Row("no-size", "sent", offers=("PIPELINING", "8BITMIME"), said="^$"),
    Row("no-pipelining", "sent", offers=OFFERS[1:]),
    Row("no-8bitmime", "bounced", offers=("PIPELINING",), raw=EIGHT,
        enhanced="5.6.3", took=0),
    Row("8bitmime", "sent", raw=EIGHT, said=r"^SIZE=\d+ BODY=8BITMIME$"),
    Row("smtputf8-address", "sent", offers=UTF8, rcpts=["j\u00f6rg@{d}"],
        raw=UTF8_HEADER, params=["SMTPUTF8"], said=" SMTPUTF8$"),
    Row("smtputf8-header", "sent", offers=UTF8, raw=UTF8_HEADER,
        params=["SMTPUTF8"], said=" SMTPUTF8$"),
    Row("smtputf8-not-needed", "sent", offers=UTF8, params=["SMTPUTF8"],
        said=r"^SIZE=\d+$"),
    Row("no-smtputf8-not-needed", "sent", params=["SMTPUTF8"],
        said=r"^SIZE=\d+$"),
    Row("no-smtputf8-address", "bounced", rcpts=["j\u00f6rg@{d}"],
        params=["SMTPUTF8"], enhanced="5.6.7"),
    Row("no-smtputf8-header", "bounced", raw=UTF8_HEADER,
        params=["SMTPUTF8"], enhanced="5.6.7"),
    Row("no-smtputf8-one-of-two", "bounced", rcpts=["ann@{d}",
                                                    "j\u00f6rg@{d}"],
        raw=b"From: <@BOX@>\r\nTo: <a@dest.example>\r\nSubject: x\r\n\r\nx",
        params=["SMTPUTF8"], statuses=[3, 5], took=1, said=r"^SIZE=\d+$"),
    Row("dsn", "sent", offers=DSN, notify="FAILURE,DELAY", ret="HDRS",
        rcpts=["a+b=c@{d}"], said=r"^SIZE=\d+ RET=HDRS ENVID=msg_\w+$",
        rcpt_said=r"^NOTIFY=FAILURE,DELAY ORCPT=rfc822;a\+2Bb\+3Dc@r\d+\."),
    Row("dsn-never", "sent", offers=DSN, notify="NEVER",
        said=r"^SIZE=\d+ ENVID=msg_\w+$", rcpt_said="^NOTIFY=NEVER ORCPT="),
    Row("dsn-utf8", "sent", offers=DSN + ("SMTPUTF8",), notify="FAILURE",
        rcpts=["j\u00f6rg@{d}"], params=["SMTPUTF8"],
        said=" SMTPUTF8 ENVID=", rcpt_said="^NOTIFY=FAILURE$"),
    Row("no-dsn", "sent", notify="FAILURE", ret="FULL", said=r"^SIZE=\d+$",
        rcpt_said="^$"),
    Row("size-too-small", "bounced", offers=("SIZE 100",), enhanced="5.3.4"),
    Row("size-none-given", "sent", offers=("SIZE", "8BITMIME")),
    Row("size-garbage", "sent", offers=("SIZE 12x", "SIZE -5", "LIMITS =")),
    Row("codes-disagree", "deferred", {"MAIL": "250-a\n550 b"}),
]
LONG = b"From: <@BOX@>\r\nTo: <a@long.example>\r\nSubject: Long\r\n\r\n" + \
    b"".join(b"%076d\r\n" % n for n in range(100000))
ANSWERS = [
    *verbs(),
    *halves(),
    Row("data-250", "deferred", {"DATA": "250 2.0.0 yes"}, took=0),
    # more than buffers hold, so that it comes before the dot for certain
    Row("data-mute-then-rst", "deferred", {"before_dot": rst}, raw=LONG),
    Row("data-4xx-and-end", "deferred", {"before_dot": lambda s, line:
                                         "452 4.3.1 full"}),
    Row("dot-late", "sent", {"dot": after(15)}),
    Row("dot-354", "uncertain", {"dot": "354 what"}),
    Row("dot-4xx", "deferred", {"dot": "452 4.3.1 full"}, enhanced="4.3.1"),
    Row("dot-1-mib", "uncertain", {"dot": says(ONE_LINE)}),
    Row("rcpt-1-mib", "deferred", {"RCPT": says(ONE_LINE)}),
    Row("rcpt-octets", "sent", {"RCPT": by_octets("250 2.1.5 ok")}),
    Row("rcpt-551", "bounced", {"RCPT": "551 5.1.6 <b@b.example>"}),
    Row("rcpt-251", "sent", {"RCPT": "251 2.1.5 will forward"}),
    Row("rcpt-three", "deferred", rcpts=["a@{d}", "b@{d}", "c@{d}"],
        replies={"b@{d}": "450 4.2.1 later", "c@{d}": "550 5.1.1 who"},
        statuses=[3, 4, 5], took=1),
    Row("rcpt-none", "bounced", rcpts=["a@{d}", "b@{d}"], took=0,
        replies={"a@{d}": "550 5.1.1 who", "b@{d}": "550 5.1.1 who"}),
    *(Row("rset-" + name, "bounced", {"DATA": "554 5.5.1 nobody",
                                       "RSET": step}, took=0,
          rcpts=["a@{d}", "b@{d}"], statuses=[5, 5],
          replies={"a@{d}": "550 5.1.1 who", "b@{d}": "550 5.1.1 who"})
      for name, step in (("421", "421 4.3.2 later"), ("end", CLOSE),
                         ("rst", rst), ("550", "550 5.7.1 no"))),
    Row("rset-421-one-waits", "deferred", {"DATA": "554 5.5.1 nobody",
                                           "RSET": "421 4.3.2 later"},
        rcpts=["a@{d}", "b@{d}"], statuses=[5, 4], took=0,
        replies={"a@{d}": "550 5.1.1 who", "b@{d}": "450 4.2.1 later"}),
    Row("rcpt-text", "bounced", {"RCPT": says(
        b"550 5.1.1 \x1b[31mno\xff\x07\t<script>\r\n")},
        reply=r"^[\x20-\x7e]*$"),
    Row("unasked", "sent", {"EHLO": says(
        b"250-a\r\n250 PIPELINING\r\n250 unasked\r\n")}, **TWO_HOSTS),
    Row("mail-twice", "sent", {"MAIL": says(
        b"250 2.1.0 ok\r\n250 2.1.0 ok\r\n")}, second={}),
]
TLS = [
    Row("tls-self", "sent", cert="self", tls=True),
    Row("tls-expired", "sent", cert="expired", tls=True),
    Row("tls-other-name", "sent", cert="other", tls=True),
    Row("tls-good", "sent", tls=True, tls_text=" verified$"),
    Row("tls-handshake-rst", "sent", {"tls": rst}, tls=False),
    Row("tls-handshake-end", "sent", {"tls": CLOSE}, tls=False),
    Row("tls-454", "sent", {"STARTTLS": "454 4.7.0 no"}, tls=False),
    Row("tls-500", "sent", {"STARTTLS": "500 5.5.1 what"}, tls=False),
    Row("tls-421", "sent", {"STARTTLS": "421 4.3.2 no"}, tls=False),
    Row("tls-rst", "sent", {"STARTTLS": rst}, **TWO_HOSTS),
    Row("tls-end-behind", "sent", {"EHLO": under_tls(CLOSE)}, tls=False),
    Row("tls-rst-behind", "sent", {"EHLO": under_tls(rst)}, tls=False),
    Row("tls-half-behind", "deferred", {"EHLO": under_tls(cut(b"25"))}),
    Row("tls-530", "deferred", {"tls": CLOSE, "MAIL": not_in_clear},
        code=530),
    Row("tls-530-next", "sent", {"tls": once("tls", CLOSE),
                                 "MAIL": not_in_clear}, **TWO_HOSTS),
    Row("tls-454-530", "sent", {"STARTTLS": once(
        "STARTTLS", "454 4.7.0 no"), "MAIL": not_in_clear}, **TWO_HOSTS),
    Row("tls-injected", "sent", {"injected": b"250-AUTH PLAIN\r\n250 x\r\n"},
        tls=True),
    sts("good", "sent", tls=True, tls_text="verified, mta-sts$"),
    sts("star", "sent", mx=("*.{d}",), tls=True, tls_text="mta-sts$"),
    sts("self", "deferred", "self", enhanced="4.4.1", took=0,
        reply="self.signed.*mta-sts"),
    sts("expired", "deferred", "expired", reply="expired.*mta-sts", took=0),
    sts("other", "deferred", "other", reply="mismatch.*mta-sts", took=0),
    sts("clear", "deferred", offers=CLEAR, reply="TLS is demanded", took=0),
    sts("454", "deferred", script={"STARTTLS": "454 4.7.0 no"}, took=0),
    sts("rst", "deferred", script={"tls": rst}, took=0),
    sts("end-behind", "deferred", script={"EHLO": under_tls(CLOSE)}, took=0,
        reply="mta-sts"),
    sts("end-behind-testing", "sent", mode="testing", tls=False,
        script={"EHLO": under_tls(CLOSE)}),
    sts("unnamed", "deferred", mx=("mx9.{d}",), enhanced="4.7.5",
        reply="not named by the domain's MTA-STS policy", took=0),
    sts("txt-by-tcp", "deferred", mx=("mx9.{d}",), enhanced="4.7.5", zone=(
        "{d}. MX 10 mx1.{d}.\nmx1.{d}. A {ip1}\n" + "".join(
            "_mta-sts.{d}. TXT \"%d %s\"\n" % (i, "x" * 200)
            for i in range(40)))),
    sts("second", "sent", mx=("mx2.{d}",), **TWO_HOSTS),
    sts("testing", "sent", "self", "testing", tls=True, log="not as in its",
        tls_text="mta-sts testing$"),
    sts("testing-clear", "sent", mode="testing", offers=CLEAR, tls=False,
        log="not as in its"),
    sts("none", "sent", "self", "none", mx=(), tls=True),
    *(Row("sts-policy-" + name, "sent", cert="self", tls=True,
          policy=policy("enforce", "mx1.{d}", **how),
          log=None if name == "no-id" else ": .")
      for name, how in (
          ("404", {"status": 404}), ("500", {"status": 500}),
          ("moved", {"status": 301, "headers": {
              "Location": "https://mta-sts.{d}/other"}}),
          ("html", {"type": "text/html"}),
          ("huge", {"body": "version: STSv1\r\n" + "x: y\r\n" * 20000}),
          ("empty", {"body": ""}),
          ("cut", {"body": "version: STSv1\r\nmode: enforce\r\n"}),
          ("no-version", {"body": "mode: enforce\r\nmx: a.example\r\n"
                          "max_age: 1\r\n"}),
          ("no-host", {"at": None}), ("private", {"at": "10.0.0.1"}),
          ("loopback", {"at": "127.0.0.1"}), ("refused", {"at": "30.3.0.9"}),
          ("silent", {"at": SILENT_HOST}), ("other-name", {"at": "30.3.0.3"}),
          ("no-id", {"id": "!"}))),
]
DANES = [
    Row("dane-key", "sent", cert="self", zone=DANE + "3 1 1 {key_self}\n",
        tls=True, tls_text="verified, dane$"),
    Row("dane-certificate", "sent", cert="expired",
        zone=DANE + "3 0 1 {cert_expired}\n", tls_text="verified, dane$"),
    Row("dane-authority", "sent", zone=DANE + "2 0 1 {cert_ca}\n",
        tls_text="verified, dane$"),
    Row("dane-authority-other-name", "deferred", cert="other", took=0,
        zone=DANE + "2 0 1 {cert_ca}\n", reply="dane"),
    Row("dane-one-of-two", "sent", zone=DANE + "3 1 1 " + "ab" * 32 + "\n"
        "_25._tcp.mx1.{d}. TLSA 3 1 1 {key_good}\n", tls_text="dane$"),
    Row("dane-mismatch", "deferred", zone=DANE + "3 1 1 " + "ab" * 32 + "\n",
        took=0, reply="dane"),
    Row("dane-clear", "deferred", offers=CLEAR, took=0,
        zone=DANE + "3 1 1 {key_good}\n", reply="TLS is demanded.*dane"),
    Row("dane-end-behind", "deferred", {"EHLO": under_tls(CLOSE)}, took=0,
        zone=DANE + "3 1 1 {key_good}\n", reply="dane"),
    Row("dane-unusable-end-behind", "deferred", {"EHLO": under_tls(CLOSE)},
        took=0, zone=DANE + "1 1 1 {key_good}\n"),
    Row("dane-next-host", "sent", zone=DANE + "3 1 1 " + "ab" * 32 + "\n"
        "{d}. MX 20 mx2.{d}.\nmx2.{d}. A {ip2}\n"
        "_25._tcp.mx2.{d}. TLSA 3 1 1 {key_good}\n", **TWO_HOSTS),
    Row("dane-alias", "sent", zone="{d}. MX 10 mx1.{d}.\nmx1.{d}. CNAME "
        "real.{d}.\nreal.{d}. A {ip1}\n_25._tcp.real.{d}. TLSA 3 1 1 "
        "{key_good}\n", tls_text="dane$"),
    Row("dane-six", "sent", mx_at="2a0f:1::7", zone="{d}. MX 10 mx1.{d}.\n"
        "mx1.{d}. AAAA 2a0f:1::7\n_25._tcp.mx1.{d}. TLSA 3 1 1 "
        "{key_good}\n", tls_text="dane$"),
    Row("dane-alias-six", "sent", mx_at="2a0f:1::8", zone="{d}. MX 10 "
        "mx1.{d}.\nmx1.{d}. CNAME real.{d}.\nreal.{d}. AAAA 2a0f:1::8\n"
        "_25._tcp.real.{d}. TLSA 3 1 1 {key_good}\n", tls_text="dane$"),
    Row("dane-unusable", "sent", cert="self", zone=DANE +
        "1 1 1 {key_self}\n", tls=True, tls_text="dane without a usable"),
    Row("dane-unusable-clear", "deferred", offers=CLEAR, took=0,
        zone=DANE + "1 1 1 {key_good}\n"),
    *(Row("dane-bad-" + name, "sent", cert="self", tls=True,
          zone=DANE + data + "\n", tls_text="dane without a usable")
      for name, data in (
          ("short", "3 1 1 abcd"), ("long", "3 1 1 " + "ab" * 64),
          ("selector", "3 7 1 " + "ab" * 32), ("der", "3 0 0 3082ffff"),
          ("matching", "3 1 9 " + "ab" * 32),
          ("empty", "\\# 3 030101"), ("two-octets", "\\# 2 0301"))),
    Row("dane-look-up-fails", "deferred", took=0, enhanced="4.7.5",
        zone="{d}. MX 10 mx1.{d}.\nmx1.{d}. A {ip1}\n"
        "_tcp.mx1.{d}. NS ns.dead.example.\n", reply="TLSA"),
    Row("dane-unsigned", "sent", cert="self", domain="u1.plain.example",
        zone=DANE + "3 1 1 " + "ab" * 32 + "\n", tls=True),
    Row("dane-above-sts", "sent", cert="self", tls_text="dane$",
        zone=DANE + "3 1 1 {key_self}\n", policy=policy("enforce", "mx9.x.y")),
    Row("dane-fails-sts-does-not", "deferred", took=0, reply="dane",
        zone=DANE + "3 1 1 " + "ab" * 32 + "\n",
        policy=policy("enforce", "mx1.{d}")),
    Row("requiretls-dane", "sent", cert="self", params=["REQUIRETLS"],
        said=" REQUIRETLS$", offers=OFFERS + ("REQUIRETLS",),
        zone=DANE + "3 1 1 {key_self}\n"),
    Row("requiretls-sts", "sent", said=" REQUIRETLS$", params=["REQUIRETLS"],
        domain="u2.plain.example", offers=OFFERS + ("REQUIRETLS",),
        policy=policy("testing", "mx1.{d}")),
    Row("requiretls-sts-self", "deferred", params=["REQUIRETLS"], took=0,
        domain="u3.plain.example", cert="self",
        offers=OFFERS + ("REQUIRETLS",), policy=policy("testing", "mx1.{d}")),
    Row("requiretls-end-behind", "deferred", {"EHLO": under_tls(CLOSE)},
        params=["REQUIRETLS"], took=0, offers=OFFERS + ("REQUIRETLS",),
        domain="u5.plain.example", policy=policy("testing", "mx1.{d}")),
    *(Row("requiretls-policy-" + name, "deferred", params=["REQUIRETLS"],
          took=0, enhanced="4.7.10", domain="u6-%s.plain.example" % name,
          offers=OFFERS + ("REQUIRETLS",),
          policy=policy("enforce", "mx1.{d}", **how))
      for name, how in (
          ("500", {"status": 500}), ("404", {"status": 404}),
          ("no-host", {"at": None}), ("refused", {"at": "30.3.0.9"}),
          ("silent", {"at": SILENT_HOST}), ("empty", {"body": ""}))),
    Row("requiretls-record-fails", "deferred", params=["REQUIRETLS"], took=0,
        domain="u7.plain.example", offers=OFFERS + ("REQUIRETLS",),
        zone="{d}. MX 10 mx1.{d}.\nmx1.{d}. A {ip1}\n"
        "_mta-sts.{d}. NS ns.dead.example.\n", enhanced="4.7.10"),
    Row("requiretls-no-policy", "bounced", params=["REQUIRETLS"], took=0,
        domain="u8.plain.example", offers=OFFERS + ("REQUIRETLS",),
        policy=policy("none"), enhanced="5.7.10"),
    Row("requiretls-nothing", "bounced", params=["REQUIRETLS"], took=0,
        domain="u4.plain.example", offers=OFFERS + ("REQUIRETLS",),
        enhanced="5.7.10"),
    Row("requiretls-not-offered", "bounced", params=["REQUIRETLS"], took=0,
        zone=DANE + "3 1 1 {key_good}\n", enhanced="5.7.30"),
]


def alias_loop(dns, row):
    dns.cname(row.d, "x." + row.d)
    dns.cname("x." + row.d, row.d)


def short_mx(dns, row):
    dns.mx(row.d, (10, "mx1." + row.d))
    dns.fail(row.d, SHORT)


MX1 = "mx1.{d}. A {ip1}\n"
ROUTES = [
    Row("dns-no-name", "bounced", zone="", enhanced="5.1.2"),
    Row("dns-null-mx", "bounced", zone="{d}. MX 0 .\n{d}. A {ip1}\n",
        enhanced="5.1.10", code=556, took=0),
    Row("dns-bogus", "deferred", domain="b1.bogus.example",
        enhanced="4.4.3"),
    Row("dns-dead", "deferred", domain="d1.dead.example", zone="",
        enhanced="4.4.3"),
    Row("dns-alias", "sent", zone="{d}. CNAME real.{d}.\n"
        "real.{d}. MX 10 mx1.{d}.\n" + MX1),
    Row("dns-alias-loop", "deferred", odd=alias_loop,
        domain="l1.odd.example"),
    Row("dns-short-mx", "deferred", odd=short_mx, domain="s1.odd.example",
        enhanced="4.4.3"),
    Row("dns-fifty", "sent", zone="".join(
        "{d}. MX %d m%d.a-rather-long-name-of-a-host.{d}.\n" % (50 + i, i)
        for i in range(49)) + "{d}. MX 10 mx1.{d}.\n" + MX1),
    Row("dns-implicit", "sent", zone="{d}. A {ip1}\n"),
    Row("dns-six", "sent", zone="{d}. AAAA 2a0f:1::6\n", mx_at="2a0f:1::6"),
    Row("dns-six-dead", "sent", zone="{d}. MX 10 mx1.{d}.\n" + MX1 +
        "mx1.{d}. AAAA 2a0f:1::dead\n"),
    Row("dns-six-all-dead", "sent", zone="{d}. MX 10 mx1.{d}.\n" + MX1 +
        "".join("mx1.{d}. AAAA 2a0f:1::dea%d\n" % i for i in range(5))),
    Row("dns-six-no-route", "sent", zone="{d}. MX 10 mx1.{d}.\n" + MX1 +
        "mx1.{d}. AAAA 2a0f:9::1\n"),
    Row("dns-self", "bounced", zone="{d}. MX 10 gate.postern.test.\n",
        enhanced="5.4.6"),
    Row("host-refuses", "sent", "nobody", second={}, second_took=1),
    Row("host-refuses-alone", "deferred", "nobody", enhanced="4.4.1"),
    Row("host-unreachable", "sent", "nobody", second={}, second_took=1,
        zone="{d}. MX 10 mx1.{d}.\nmx1.{d}. A %s\n{d}. MX 20 mx2.{d}.\n"
        "mx2.{d}. A {ip2}\n" % netns.UNREACHABLE),
    Row("host-swallows", "sent", "nobody", second={}, second_took=1,
        setup=lambda w, row: w.net.swallow(row.ip1, 25)),
    Row("host-public-and-private", "sent", took=1, zone="{d}. MX 10 mx2.{d}."
        "\nmx2.{d}. A 10.0.0.1\n{d}. MX 20 mx1.{d}.\n" + MX1),
    *(Row("host-private-" + name, "bounced", zone="{d}. MX 10 " + host,
          enhanced="5.4.4")
      for name, host in (
          ("name", "localhost.\n"), ("127", "mx1.{d}.\nmx1.{d}. A 127.0.0.1"
                                     "\n"),
          ("10", "mx1.{d}.\nmx1.{d}. A 10.1.2.3\n"),
          ("mapped", "mx1.{d}.\nmx1.{d}. AAAA ::ffff:10.0.0.1\n"),
          ("nat64", "mx1.{d}.\nmx1.{d}. AAAA 64:ff9b::7f00:1\n"),
          ("6to4", "mx1.{d}.\nmx1.{d}. AAAA 2002:7f00:1::1\n"),
          ("local", "mx1.{d}.\nmx1.{d}. AAAA fe80::1\n"),
          ("cloud", "mx1.{d}.\nmx1.{d}. A 169.254.169.254\n"),
          ("ours", "mx1.{d}.\nmx1.{d}. A 30.0.0.1\n"),
          ("ours-six", "mx1.{d}.\nmx1.{d}. AAAA 2a0f:2::1\n"),
          ("alias", "mx1.{d}.\nmx1.{d}. CNAME real.{d}.\nreal.{d}. A "
           "192.168.1.1\n"),
          ("literal", "127.0.0.1.\n"), ("number", "2130706433.\n"))),
]
ROWS = [row for row in GREETINGS + ANSWERS + TLS + DANES + ROUTES
        if FULL or not row.slow]


@pytest.fixture(scope="module")
def world():
    why = netns.why_not()
    if why:
        print("SKIP faults: " + why)
        pytest.skip(why)
    w = World(ROWS)
    yield w
    w.close()


@pytest.mark.parametrize("i", range(len(ROWS)), ids=[x.name for x in ROWS])
def test_row(world, i):
    row, mid, r = ROWS[i], world.mids[i], world.r
    r.wait_state(mid, row.want, timeout=420 if row.slow else 90)
    r.assert_settled(mid)
    rows = r.deliveries(mid)
    first = rows[0]
    if row.statuses:
        assert [x["status"] for x in rows] == row.statuses
        assert sum((m["rcpts"] for m in row.one.messages), []) == [
            x["canon"] for x in rows if x["status"] == 3]
    if row.want != "sent":
        assert row.took or not (row.two and row.two.messages)
    for field, want in (("enhanced", row.enhanced),
                        ("reply_code", row.code)):
        assert want is None or first[field] == want, first
    assert row.reply is None or re.search(row.reply, first["reply"]), first
    took = row.took
    if took is None:  # the fake host keeps what it then refuses
        took = int("dot" in row.script or
                   row.want == "sent" and row.second is None)
    if row.one is not None:
        n = len(row.one.messages)  # a slow row leaves time to try again
        assert n == took or n > took > 0 and row.want == "deferred", \
            row.one.verbs
    if row.second_took is not None:
        assert len(row.two.messages) == row.second_took
    for mx in (row.one, row.two):
        for got in mx.messages if mx else ():
            assert got["data"].startswith(b"Received: by ")
            assert row.tls is None or bool(got["tls"]) == row.tls
            assert row.said is None or re.search(row.said, got["params"]), got
            assert row.rcpt_said is None or all(
                re.search(row.rcpt_said, x) for x in got["rcpt_params"]), got
    tried = r.sql("SELECT tls FROM d.attempt WHERE message_id = %s", mid)
    if row.tls_text:
        assert re.search(row.tls_text, tried[-1]["tls"]), tried
    if row.log:
        assert any(re.search(row.log, x.get("why", "")) and
                   (mid in str(x) or row.d in x["why"])
                   for x in r.worker.events
                   if x["event"] == "deliver.mta_sts")


def test_nothing_hangs(world):
    """All of it is over, and the worker takes and gives as before."""
    assert world.r.worker.alive()
    row = next(x for x in ROWS if x.name == "tls-good")
    mid = world.r.submit(rcpts=["again@" + row.d])
    world.r.wait_state(mid, "sent")
    code = world.r.worker.stop()
    assert code == 0


def test_a_policy_outlives_the_worker(world):
    """RFC 8461 10.2: the next worker obeys what this one fetched, though the
    policy host says by now that there is none."""
    row = next(x for x in ROWS if x.name == "sts-unnamed")
    world.policies.by_domain[row.d] = (404, {}, b"")
    world.r.worker = world.r.start("postern-deliver", net=world.net.file)
    mid = world.r.submit(rcpts=["again@" + row.d])
    world.r.wait_state(mid, "deferred", timeout=60)
    assert world.r.deliveries(mid)[0]["enhanced"] == "4.7.5"
    assert not row.one.messages
    assert world.r.worker.stop() == 0


def test_an_old_policy_is_asked_for_anew(world):
    """A day later, though the record has the same id; and the file of policies
    is written anew when most of its lines count no more."""
    row = next(x for x in ROWS if x.name == "sts-good")
    path, now = world.r.path("state", "mta-sts"), int(time.time())
    with open(path, encoding="ascii") as f:
        live = {line.split(" ")[0]: line for line in f
                if int(line.split(" ")[3]) > now}
    assert live[row.d].split(" ")[1] == "1"
    live[row.d] = "%s 1 %d %d enforce mx1.%s\n" % (
        row.d, now - 90000, now + 86400, row.d)
    with open(path, "w", encoding="ascii") as f:
        f.write("".join("gone%d.example 1 %d %d enforce mx.gone.example\n" % (
            n, now - 90000, now - 10) for n in range(600)))
        f.write(("%s 0 %d %d testing mx.old.example\n" % (
            row.d, now - 95000, now + 3600)) * 600)
        f.write("".join(live.values()))
        f.write("cut.example 1 %d" % now)
    body = "version: STSv1\r\nmode: enforce\r\nmx: mx9.%s\r\n" \
        "max_age: 86400\r\n" % row.d
    world.policies.by_domain[row.d] = (
        200, {"Content-Type": "text/plain"}, body.encode())
    asked = world.policies.asked.count("mta-sts.%s/.well-known/mta-sts.txt"
                                       % row.d)
    took = len(row.one.messages)
    world.r.worker = world.r.start("postern-deliver", net=world.net.file)
    with open(path, encoding="ascii") as f:
        assert sorted(f) == sorted(live.values())
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert not os.path.exists(path + ".new")
    mid = world.r.submit(rcpts=["later@" + row.d])
    world.r.wait_state(mid, "deferred", timeout=60)
    assert world.r.deliveries(mid)[0]["enhanced"] == "4.7.5"
    assert len(row.one.messages) == took
    assert world.policies.asked.count("mta-sts.%s/.well-known/mta-sts.txt"
                                      % row.d) == asked + 1
    with open(path, encoding="ascii") as f:
        last = list(f)[-1].split()
    assert last[0] == row.d and last[5] == "mx9." + row.d
    assert int(last[2]) >= now
    assert world.r.worker.stop() == 0
