# SPDX-License-Identifier: ISC
"""
Mail clients as an agent would use them: programs and libraries of Debian and
npm, one way to run each. MAILERS names them, with what is known of each; a
case (dict) says what to send, see tests/blackbox/test_smtp_clients.py.
"""
import functools
import json
import os
import shutil
import subprocess
import urllib.parse

from tests.lib import postern

CLIENTS = os.path.join(postern.TOP, "tests", "clients")
PATH = "/usr/bin:/usr/sbin:" + os.environ.get("PATH", "")
JAVAMAIL = "/usr/share/java/javax.mail.jar"


class Mailer:
    """`needs`: programs, or files with a slash; what is missing skips it.
    `session`: it can send two messages over one connection. `utf8`: what
    becomes of a recipient in UTF-8: "sent", "told" (the server refuses,
    because the client did not say SMTPUTF8) or "never" (the client itself
    does). `eight`: the same of 8-bit text. `rare`: only with --full.
    `stuffs`: it doubles the dot of every line that begins with one. `tells`:
    its exit status says whether the mail was taken. `free`: its From can be
    another address than its envelope's."""

    def __init__(self, name, run, needs, session=True, utf8="sent",
                 eight="sent", rare=False, stuffs=True, tells=True, free=True):
        self.name, self.run, self.needs = name, run, needs
        self.stuffs, self.tells, self.free = stuffs, tells, free
        self.session, self.utf8, self.rare = session, utf8, rare
        self.eight = eight

    def missing(self):
        """Why it cannot run here, or ""."""
        for what in self.needs:
            if not os.path.exists(what) if "/" in what else \
                    shutil.which(what, path=PATH) is None:
                return what + " is not installed"
        if self.rare and os.environ.get("POSTERN_FULL") != "1":
            return "with --full only"
        return ""


def text_of(case, n=1, eol="\n"):
    """A whole message; for those clients that are given one."""
    return ("From: Agent <%s>\nTo: %s\nSubject: from %s %d\n"
            "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
            "Content-Transfer-Encoding: 8bit\n\n%s" % (
                case["sender"], case["to_header"], case["name"], n,
                case["body"])).replace("\n", eol)


def put(case, name, text):
    path = os.path.join(case["dir"], name)
    with open(path, "wb") as f:
        f.write(text.encode())
    return path


def script(*argv):
    """A program that is given the case as a file of JSON."""
    def commands(case):
        path = put(case, "case.json", json.dumps(case))
        return [([*argv, path], None)]
    return commands


def in_clients(*argv):
    return script(*argv[:-1], os.path.join(CLIENTS, argv[-1]))


def swaks(case):
    return [([
        "swaks", "--server", "localhost", "--port", str(case["port"]),
        "--tlsc" if case["tls"] else "--tls", "--tls-verify",
        "--tls-ca-path", case["ca"], "--from", case["user"], "--to",
        case["rcpt"], "--auth-user", case["user"], "--auth-password",
        case["key"], "--timeout", "20", "--suppress-data", "--data",
        "@" + put(case, "%d.eml" % i, text_of(case, i))], None)
        for i in range(case["count"])]


def curl(case):
    url = "%s://localhost:%d/agent" % (
        "smtps" if case["tls"] else "smtp", case["port"])
    argv = ["curl", "-sSv"]
    for i in range(case["count"]):
        argv += (["--next", "-v"] if i else []) + [
            url, "--ssl-reqd", "--crlf", "--cacert", case["ca"], "--user",
            "%s:%s" % (case["user"], case["key"]), "--mail-from",
            case["user"], "--mail-rcpt", case["rcpt"], "--upload-file",
            put(case, "%d.eml" % i, text_of(case, i))]
    return [(argv, None)]


def msmtp(case):
    return [([
        "msmtp", "--host=localhost", "--port=%d" % case["port"], "--tls=on",
        "--tls-starttls=" + ("off" if case["tls"] else "on"),
        "--tls-trust-file=" + case["ca"], "--auth=plain",
        "--user=" + case["user"], "--passwordeval=echo " + case["key"],
        "--from=" + case["user"], "--debug", case["rcpt"]],
        text_of(case, i)) for i in range(case["count"])]


def git(case):
    """git send-email: the messages are patches."""
    patches = [put(case, "%d.patch" % i, (
        "From %040d Mon Sep 17 00:00:00 2001\nFrom: Agent <%s>\n"
        "Date: Mon, 1 Jan 2024 00:00:00 +0000\nSubject: [PATCH %d] git\n"
        "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
        "Content-Transfer-Encoding: 8bit\n\ntrailing space \n\f\n%s") % (
            i, case["sender"], i, case["body"]))
        for i in range(case["count"])]
    return [([
        "git", "send-email", "--confirm=never", "--quiet", "--smtp-debug=1",
        "--from=" + case["sender"], "--envelope-sender=" + case["user"],
        "--to=" + case["rcpt"], "--suppress-cc=all",
        "--smtp-server=localhost", "--smtp-server-port=%d" % case["port"],
        "--smtp-encryption=" + ("ssl" if case["tls"] else "tls"),
        "--smtp-ssl-cert-path=" + case["ca"], "--smtp-user=" + case["user"],
        "--smtp-pass=" + case["key"], "--no-validate", *patches], None)]


def mutt(case):
    """One connection for each message, as for all that runs one."""
    rc = put(case, "muttrc", "\n".join([
        'set smtp_url="%s://%s@localhost:%d"' % (
            "smtps" if case["tls"] else "smtp",
            urllib.parse.quote(case["user"], safe=""), case["port"]),
        'set smtp_pass="%s"' % case["key"],
        "set smtp_authenticators=plain:login ssl_force_tls=yes",
        'set ssl_ca_certificates_file="%s"' % case["ca"],
        'set from="%s" realname=Agent use_from=yes' % case["sender"],
        'set use_envelope_from=yes envelope_from_address="%s"' %
        case["user"],
        "set copy=no charset=utf-8 send_charset=utf-8 allow_8bit=yes",
        "set dsn_notify=failure,delay dsn_return=hdrs", ""]))
    return [(["mutt", "-n", "-F", rc, "-s", "%s %d" % (case["subject"], i),
              "--", case["rcpt"]], case["body"])
            for i in range(case["count"])]


def s_nail(case):
    return [([
        "s-nail", "-:/", "-S", "v15-compat", "-S", "sendwait",
        "-S", "ttycharset=utf-8", "-S", "mta=%s://%s:%s@localhost:%d" % (
            "smtps" if case["tls"] else "smtp",
            urllib.parse.quote(case["user"], safe=""), case["key"],
            case["port"]), "-S", "smtp-auth=plain",
        *([] if case["tls"] else ["-S", "smtp-use-starttls"]),
        "-S", "tls-verify=strict",
        "-S", "tls-ca-no-defaults", "-S", "tls-ca-file=" + case["ca"],
        "-S", "from=Agent <%s>" % case["sender"], "-r", case["user"], "-v",
        "-s", "%s %d" % (case["subject"], i), case["rcpt"]], case["body"])
        for i in range(case["count"])]


@functools.lru_cache(maxsize=None)
def built(folder):
    """Go compiles once for all cases."""
    out = os.path.join(folder, "go-smtp")
    subprocess.run(
        ["go", "build", "-o", out, os.path.join(CLIENTS, "smtp.go")],
        check=True, cwd=folder, env={
            **os.environ, "PATH": PATH, "GO111MODULE": "off",
            "CGO_ENABLED": "0", "GOFLAGS": "", "GOPROXY": "off",
            "GOCACHE": os.path.join(folder, "go-cache")})
    return out


def go(case):
    return script(built(case["work"]))(case)


@functools.lru_cache(maxsize=None)
def trusted(folder, ca):
    """The authority in the form that Java reads."""
    out = os.path.join(folder, "trust.p12")
    subprocess.run(
        ["keytool", "-importcert", "-noprompt", "-alias", "test", "-file",
         ca, "-keystore", out, "-storepass", "changeit"], check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return out


def java(case):
    return [([
        "java", "-Djavax.net.ssl.trustStore=" + trusted(
            case["work"], case["ca"]),
        "-Djavax.net.ssl.trustStorePassword=changeit", "-Dfile.encoding=UTF-8",
        "-Dsun.jnu.encoding=UTF-8", "-cp", JAVAMAIL,
        os.path.join(CLIENTS, "Send.java"), str(case["port"]),
        "tls" if case["tls"] else "starttls", case["user"], case["key"],
        case["sender"], case["rcpt"], case["subject"], str(case["count"]),
        put(case, "body", case["body"])], None)]


@functools.lru_cache(maxsize=None)
def modules():
    """What npm has is fetched once, as the lock file says."""
    wanted = json.load(open(os.path.join(CLIENTS, "package.json")))
    if not all(os.path.isdir(os.path.join(CLIENTS, "node_modules", m))
               for m in wanted["dependencies"]):
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], check=True,
                       cwd=CLIENTS, stdout=subprocess.DEVNULL)


def node(name):
    def commands(case):
        modules()
        return in_clients("node", name)(case)
    return commands


MAILERS = {m.name: m for m in (
    Mailer("swaks", swaks, ["swaks"], session=False, utf8="told"),
    Mailer("curl", curl, ["curl"]),
    Mailer("msmtp", msmtp, ["msmtp"], session=False, utf8="told"),
    Mailer("git", git, ["git"], utf8="told"),
    Mailer("mutt", mutt, ["mutt"], session=False),
    Mailer("s-nail", s_nail, ["s-nail"], session=False, utf8="never",
           tells=False, free=False),
    Mailer("smtplib", in_clients("/usr/bin/python3", "smtplib_.py"), []),
    Mailer("aiosmtplib", in_clients("/usr/bin/python3", "aiosmtplib_.py"),
           ["/usr/lib/python3/dist-packages/aiosmtplib"]),
    Mailer("nodemailer", node("send.js"), ["node", "npm"]),
    # it says 7bit of text that is not
    Mailer("emailjs", node("emailjs.mjs"), ["node", "npm"], utf8="told",
           eight="told", stuffs=False),
    Mailer("go", go, ["go"]),
    Mailer("ruby", in_clients("ruby", "net-smtp.rb"), ["ruby"],
           utf8="told"),
    Mailer("phpmailer", in_clients("php", "phpmailer.php"),
           ["php", "/usr/share/php/libphp-phpmailer"], utf8="never"),
    Mailer("symfony", in_clients("php", "symfony.php"),
           ["php", "/usr/share/php/Symfony/Component/Mailer"], utf8="told",
           rare=True),
    Mailer("net-smtp", in_clients("perl", "net-smtp.pl"), ["perl"],
           utf8="told"),
    Mailer("email-sender", in_clients("perl", "email-sender.pl"),
           ["perl", "/usr/share/perl5/Email/Sender.pm"], utf8="told",
           rare=True),
    Mailer("jakarta", java, ["java", "keytool", JAVAMAIL], rare=True),
)}


def environment(case):
    """As for a user of this case alone."""
    return {**os.environ, "PATH": PATH, "HOME": case["dir"],
            "LC_ALL": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": os.path.dirname(case["dir"]),
            **{"GIT_%s_%s" % (who, what): value
               for who in ("AUTHOR", "COMMITTER")
               for what, value in (("NAME", "Agent"),
                                   ("EMAIL", case["sender"]))}}


def start(case, command):
    argv, text = command
    p = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, cwd=case["dir"], env=environment(case),
        start_new_session=True)
    return p, (text or "").encode()


def send(case):
    """Run to the end; (0 if every command succeeded, all they said)."""
    worst, said = 0, ""
    for command in MAILERS[case["name"]].run(case):
        p, text = start(case, command)
        out, _ = p.communicate(text, timeout=120)
        worst = worst or p.returncode
        said += out.decode("utf-8", "replace")
    return worst, said
