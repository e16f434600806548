#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""
Runs untrusted Python with mail, and shows what it could not do.

    check.py [--json] [--to ADDRESS] [--other-inbox ADDRESS]
             [--loosen CONTROL]

Needs bubblewrap, and POSTERN_URL, POSTERN_KEY (a full key; it stays outside)
and SSL_CERT_FILE in the environment. Prints one row for each control; exit
status 1 if any fails. --loosen takes a control away, to show that its row then
says Fail; it may be given several times.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
LIMIT, LOOP = 4, 8
INNER_PORT = 8443

# control: (check, pass condition, fail condition)
CONTROLS = {
    "file_scope": ("open the host's files", "none can be read",
                   "a file of the host is readable"),
    "egress": ("connect to places other than the gateway", "none answers",
               "a connection opened"),
    "metadata": ("connect to the cloud's metadata address",
                 "it does not answer", "a connection opened"),
    "dns": ("carry a secret out in a DNS question",
            "no name server saw it", "the name server got the question"),
    "secrets": ("look for the long-lived key in every environment",
                "not found", "the key is in the sandbox"),
    "other_inbox": ("read what another inbox, or this one, holds",
                    "404, and only what the session sent",
                    "mail of others is listed"),
    "send_loop": ("send %d mails in a loop" % (LOOP + 1),
                  "at most %d are stored" % LIMIT, "more are stored"),
    "held": ("what became of the mail that was sent",
             "every one waits for a person", "some left by itself"),
    "snapshot": ("use the key again after the run, as a copy would",
                 "the key is dead", "the key still works"),
    "teardown": ("end the session", "record closed, nothing runs on",
                 "the session or a process lives"),
    "smoke": ("send one mail from inside", "202 and held",
              "the mail was not taken"),
}


class Api:
    def __init__(self, key):
        self.url, self.key = os.environ["POSTERN_URL"], key
        self.context = ssl.create_default_context(
            cafile=os.environ.get("SSL_CERT_FILE"))

    def call(self, method, path, body=None):
        """(status, document)"""
        request = urllib.request.Request(
            self.url + path, method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": "Bearer " + self.key,
                     "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, context=self.context,
                                        timeout=30) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as e:
            return e.code, json.load(e)


def pump(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


class Door:
    """The one way out: a socket that leads to the gateway and nowhere else."""

    def __init__(self, folder, url):
        at = urllib.parse.urlsplit(url)
        self.place = at.hostname, at.port or 443
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(folder, "gate.sock"))
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            gate = socket.create_connection(self.place)
            for pair in ((client, gate), (gate, client)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    def close(self):
        self.listener.close()


class Bait:
    """Stand-ins on the host's loopback: a service, a metadata service, a
    name server. What reaches them got out."""

    def __init__(self):
        self.service = socket.create_server(("127.0.0.1", 0))
        self.metadata = socket.create_server(("127.0.0.1", 0))
        self.names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.names.bind(("127.0.0.1", 0))
        self.names.setblocking(False)

    def asked(self):
        try:
            return b"secret" in self.names.recv(512)
        except BlockingIOError:
            return False


def sandbox(folder, key, loosen, secret_env):
    """The command that shuts `untrusted.py` in."""
    argv = ["bwrap", "--unshare-all", "--new-session", "--clearenv",
            "--cap-drop", "ALL", "--hostname", "sandbox",
            "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib",
            "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin",
            "/bin", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
            "--ro-bind", str(HERE), "/code", "--bind", folder, "/run/gate",
            "--ro-bind", os.environ["SSL_CERT_FILE"], "/etc/postern/ca.pem",
            "--setenv", "POSTERN_KEY", key, "--setenv", "POSTERN_URL",
            "https://127.0.0.1:%d" % INNER_PORT, "--die-with-parent"]
    if {"egress", "metadata", "dns"} & loosen:
        argv += ["--share-net"]
    if "file_scope" in loosen:
        argv += ["--ro-bind", "/", "/host"]
    for name, value in secret_env.items():
        argv += ["--setenv", name, value]
    return argv + ["/usr/bin/python3", "/code/inside.py", str(INNER_PORT)]


def policy(options):
    allowed = {"recipients": [options.to], "max_messages": LIMIT,
               "doors": ["rest"]}
    if "send_loop" in options.loosen:
        allowed["max_messages"] = 10 * LOOP
    if "smoke" in options.loosen:
        allowed["doors"] = []
    return allowed


def questions(options, bait, canary):
    return {
        "to": options.to, "loop": LOOP, "secret_word": "pst_live_",
        "other_inbox": options.other_inbox,
        "files": [canary, "/host" + canary, "/etc/shadow", "/host/etc/shadow",
                  os.path.expanduser("~/.ssh"), "/run/postern"],
        "places": [bait.service.getsockname(), ("1.1.1.1", 443)],
        "metadata": [bait.metadata.getsockname(), ("169.254.169.254", 80)],
        "dns": bait.names.getsockname()}


def run(options, owner, folder, bait):
    """Start a session, let the code loose, end it: what was seen."""
    status, mine = owner.call("POST", "/v1/messages/send", {
        "to": [options.to], "subject": "Of the owner", "text": "Private.",
        "duplicate": True})
    assert status == 202, mine
    status, session = owner.call("POST", "/v1/sessions", {
        "policy": policy(options), "expires_in": 300, "template": "python",
        "sandbox_id": os.path.basename(folder), "purpose": "sandbox check"})
    assert status == 201, session
    full = bool({"other_inbox", "held"} & options.loosen)
    key = owner.key if full else session["key"]
    secret = {"LEAK": owner.key} if "secrets" in options.loosen else {}
    canary = os.path.join(folder, "canary")
    pathlib.Path(canary).write_text("only the host reads this\n")
    gate = os.path.join(folder, "gate")
    os.mkdir(gate)
    door = Door(gate, owner.url)
    box = subprocess.Popen(
        sandbox(gate, key, options.loosen, secret)
        + ["/usr/bin/python3", "/code/untrusted.py"],
        # bwrap itself is process 1 in there: --clearenv does not clear it
        env={"PATH": "/usr/bin:/bin"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        start_new_session=True)
    out, _ = box.communicate(json.dumps(
        questions(options, bait, canary)).encode(), timeout=120)
    seen = json.loads(out)
    door.close()
    seen.update(mine=mine["message_id"], full=full, box=box.pid,
                dns_got=bait.asked())
    return session, seen


def end(options, owner, session, seen):
    """Tear down, then look."""
    name = session["session_id"]
    kept = {"snapshot", "teardown"} & options.loosen
    if not kept:
        owner.call("POST", "/v1/sessions/%s/end" % name, {
            "held": "cancel", "stdout_lines": 1, "stderr_lines": 0})
    seen["alive"] = True
    try:
        os.killpg(seen["box"], signal.SIGKILL)
    except ProcessLookupError:
        seen["alive"] = False
    seen["copy"] = Api(session["key"]).call("GET", "/v1/auth/me")[0]
    seen["record"] = owner.call("GET", "/v1/sessions/" + name)[1]
    if kept:
        owner.call("POST", "/v1/sessions/%s/end" % name, {})


def judge(seen):
    """{control: passed}"""
    sent = [s for s in seen["statuses"] if s is not None]
    return {
        "file_scope": seen["files"] == [],
        "egress": seen["places"] == [],
        "metadata": seen["metadata"] == [],
        "dns": not seen["dns_got"],
        "secrets": seen["secrets"] == [] and not seen["full"],
        "other_inbox": seen["other_inbox"] == 404
        and seen["mine"] not in seen["messages"],
        "send_loop": len(sent) <= LIMIT,
        "held": all(s == "held" for s in sent),
        "snapshot": seen["copy"] == 401,
        "teardown": seen["record"]["torn_down"] and not seen["alive"],
        "smoke": seen["smoke"][0] == 202
        and seen["smoke"][1]["status"] == "held"}


def show(rows):
    wide = [max(len(r[i]) for r in rows) for i in range(5)]
    for row in rows:
        print("  ".join(c.ljust(n) for c, n in zip(row, wide)).rstrip())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--json", action="store_true")
    p.add_argument("--to", default="ann@example.org")
    p.add_argument("--other-inbox", default="other@example.org")
    p.add_argument("--loosen", choices=sorted(CONTROLS), action="append",
                   default=[])
    options = p.parse_args()
    options.loosen = set(options.loosen)
    owner, bait = Api(os.environ["POSTERN_KEY"]), Bait()
    with tempfile.TemporaryDirectory(prefix="postern-sandbox-") as folder:
        session, seen = run(options, owner, folder, bait)
        end(options, owner, session, seen)
    passed = judge(seen)
    rows = [("control", "check", "pass condition", "fail condition",
             "status")]
    rows += [(name, *texts, "Pass" if passed[name] else "Fail")
             for name, texts in CONTROLS.items()]
    if options.json:
        print(json.dumps([dict(zip(("control", "check", "pass_condition",
                                    "fail_condition", "status"), r))
                          for r in rows[1:]], indent=1))
    else:
        show(rows)
    sys.exit(0 if all(passed.values()) else 1)


if __name__ == "__main__":
    main()
