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


def run(gate, argv, cwd=HERE):
    """As a user of the quickstart would: with the variables of its file."""
    done = subprocess.run(argv, cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=100, env={
        **os.environ, "POSTERN_KEY": gate.box.key,
        "POSTERN_URL": "https://127.0.0.1:%d" % gate.api_port,
        "POSTERN_SMTP_KEY": gate.box.smtp_key,
        "POSTERN_SMTPS": "127.0.0.1:%d" % gate.smtps_port,
        "POSTERN_INBOX": gate.box.address, "CURL_CA_BUNDLE": gate.ca_file,
        "SSL_CERT_FILE": gate.ca_file, "REQUESTS_CA_BUNDLE": gate.ca_file,
        "NODE_EXTRA_CA_CERTS": gate.ca_file})
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


@pytest.mark.parametrize("name,subject,says", [
    ("nodemailer", "From nodemailer", "held for approval"),
    ("agentmail", "From agentmail", "held msg_"),
    ("mcp", "From MCP", "Do not resend")])
def test_node(gate, tmp_path, name, subject, says):
    agents.need_node()
    shutil.copy(os.path.join(HERE, "node", name + ".mjs"), tmp_path)
    os.symlink(os.path.join(agents.HERE, "node_modules"),
               tmp_path / "node_modules")
    assert says in run(gate, [agents.NODE, name + ".mjs"], tmp_path)
    assert waits(gate, subject)


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
