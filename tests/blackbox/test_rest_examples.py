# SPDX-License-Identifier: ISC
"""examples/: each is run as it is, and its mail waits."""

import os
import re
import shutil
import subprocess

import pytest

from tests.lib import agents, postern
from tests.blackbox.test_rest import Client

HERE = os.path.join(postern.TOP, "examples")


@pytest.fixture(scope="module")
def gate():
    with postern.Deployment() as d:
        d.add_tenant("acme", "acme.example")
        d.box = d.add_inbox("bot@acme.example")
        d.start("posternd")
        yield d


def run(gate, argv, cwd=HERE, **env):
    """As a user of the quickstart would: with the variables of its file."""
    done = subprocess.run(argv, cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=100, env={
        **os.environ, "POSTERN_KEY": gate.box.key,
        "POSTERN_URL": "https://127.0.0.1:%d" % gate.api_port,
        "POSTERN_SMTP_KEY": gate.box.smtp_key,
        "POSTERN_SMTPS": "127.0.0.1:%d" % gate.smtps_port,
        "POSTERN_INBOX": gate.box.address, "CURL_CA_BUNDLE": gate.ca_file,
        "SSL_CERT_FILE": gate.ca_file, "REQUESTS_CA_BUNDLE": gate.ca_file,
        "NODE_EXTRA_CA_CERTS": gate.ca_file, **env})
    text = done.stdout.decode()
    assert done.returncode == 0, text
    return text


def waits(gate, subject):
    rows = gate.sql("SELECT s.state FROM d.message m JOIN d.state s "
                    "USING (message_id, tenant_id) WHERE m.subject = %s",
                    subject)
    return [r["state"] for r in rows] == [1]


def test_curl(gate):
    for _ in range(2):  # the second time: the same mail
        text = run(gate, ["sh", "curl.sh"])
        assert '"status":"held"' in text
    assert waits(gate, "From curl")


def test_python(gate):
    assert "held" in run(gate, ["/usr/bin/python3", "python/smtp.py"])
    assert waits(gate, "From smtplib")


def test_python_requests(gate):
    if subprocess.run(["/usr/bin/python3", "-c", "import requests"],
                      stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("python3-requests is needed")
    text = run(gate, ["/usr/bin/python3", "python/rest.py"])
    assert re.match(r"held msg_\w+\nnothing yet\n", text)
    assert waits(gate, "From requests")


@pytest.fixture
def node_dir(tmp_path):
    agents.need_node()
    os.symlink(os.path.join(agents.HERE, "node_modules"),
               tmp_path / "node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    return tmp_path


@pytest.mark.parametrize("name,subject,says", [
    ("nodemailer", "From nodemailer", "held for approval"),
    ("agentmail", "From agentmail", "held msg_"),
    ("mcp", "From MCP", "Do not resend"),
    ("openai-agents", "From @openai/agents", "do not resend")])
def test_node(gate, node_dir, name, subject, says):
    """(The model of the last one is a stub: it calls `send` and says what it
    was told.)"""
    shutil.copy(os.path.join(HERE, "node", name + ".mjs"), node_dir)
    text = run(gate, [agents.NODE, name + ".mjs"], node_dir,
               POSTERN_STUB="1")
    assert says.lower() in text.lower(), text
    assert waits(gate, subject)


def test_e2b(gate, node_dir):
    """Its types fit those of the stock SDK, which then runs with a shim in
    place of E2B's service. The session is over when it ends."""
    shutil.copy(os.path.join(HERE, "node", "e2b.ts"), node_dir)
    tsc = [agents.NODE, "node_modules/typescript/bin/tsc", "--strict",
           "--module", "nodenext", "--target", "es2022", "--skipLibCheck",
           "--types", "node"]
    run(gate, tsc + ["e2b.ts"], node_dir)
    shim = os.path.join(agents.HERE, "e2b-shim.mjs")
    assert run(gate, [agents.NODE, "--import", shim, "e2b.js"], node_dir,
               E2B_DEBUG="true", E2B_API_KEY="none") == "held\n"
    assert waits(gate, "From E2B")
    last = Client(gate, gate.box.key).get("/v1/sessions")[2]["sessions"][0]
    assert last["template"] == "code-interpreter" and last["ended_at"]
    # it could fail: what is no method of the SDK is no type
    with open(node_dir / "e2b.ts") as f:
        wrong = f.read().replace("sandbox.runCode", "sandbox.runKode")
    (node_dir / "wrong.ts").write_text(wrong)
    assert subprocess.run(tsc + ["--noEmit", "wrong.ts"], cwd=node_dir,
                          stdout=subprocess.DEVNULL).returncode != 0


def test_go(gate, tmp_path):
    if shutil.which("go") is None:
        pytest.skip("go is needed")
    os.environ.setdefault("GOCACHE", str(tmp_path))
    assert "held" in run(gate, ["go", "run", "go/main.go"])
    assert waits(gate, "From Go")


def test_the_guide_alone_is_enough(gate):
    """Follows /v1/guide: its calls and documents, with our addresses."""
    key = gate.box.key
    guide = Client(gate).get("/v1/guide")[2].decode()
    send = re.search(r"POST (/v1/messages/send)\n.*?\n\n( +\{.*?\}\})", guide,
                     re.S)
    text = subprocess.run(
        ["curl", "-sS", "--cacert", gate.ca_file, "-H",
         "Authorization: Bearer " + key, "-H",
         "Content-Type: application/json", "--data", send.group(2),
         "https://127.0.0.1:%d%s" % (gate.api_port, send.group(1))],
        stdout=subprocess.PIPE, check=True).stdout.decode()
    name = re.search(r'"message_id":"(msg_\w+)"', text).group(1)
    assert waits(gate, "Hello")
    agent = Client(gate, key)
    for line in re.findall(r"^ +(GET /v1/(?:messages|wait|auth)[^ \n]*)$",
                           guide, re.M):
        path = line.split()[1].replace("{message_id}", name)
        path = path.replace("msg_...", name).replace("timeout=60",
                                                     "timeout=0")
        if "{" in path or "NEXT" in path:
            continue
        assert agent.get(path)[0] == 200, path


def test_the_prompt_names_what_is_there():
    with open(os.path.join(HERE, "agent-prompt.md"), encoding="utf-8") as f:
        prompt = f.read()
    with open(os.path.join(postern.TOP, "api", "openapi.json"),
              encoding="utf-8") as f:
        document = f.read()
    for path in re.findall(r"(?:GET|POST) (/v1/\w+)", prompt):
        assert '"%s' % path in document, path
    for word in ("revises", "purpose", "wait"):
        assert word in prompt and '"%s"' % word in document
