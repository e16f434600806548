# SPDX-License-Identifier: ISC
"""For tests/suites/container: what compose.yaml asks for, as crun reads it;
and the quickstart's facts, from outside."""
import json
import os
import re
import ssl
import subprocess
import sys
import time
import types
import urllib.request

import yaml

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TOP)

from tests.lib import person  # noqa: E402

INSIDE = "/var/lib/postern-quickstart"


def bundle(where, state):
    """config.json of umoci, changed as an engine does for the service."""
    with open(os.path.join(TOP, "deploy", "oci", "compose.yaml")) as f:
        doc = yaml.safe_load(f)
    service = doc["services"]["postern"]
    assert set(doc["volumes"]) == {"state"}
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["volumes"] == ["state:" + INSIDE]
    for port in service["ports"]:  # on the loopback only
        assert re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port), port
    path = os.path.join(where, "config.json")
    with open(path) as f:
        c = json.load(f)
    assert c["process"]["user"]["uid"] == 10001, c["process"]["user"]
    c["process"]["terminal"] = False
    c["process"]["noNewPrivileges"] = True
    c["process"]["capabilities"] = {k: [] for k in (
        "bounding", "effective", "inheritable", "permitted", "ambient")}
    c["root"]["readonly"] = True
    # This host's network, so that the test reaches what would be published.
    c["linux"]["namespaces"] = [{"type": t} for t in (
        "pid", "mount", "ipc", "uts")]
    c["linux"].pop("resources", None)
    c["mounts"] = [m for m in c["mounts"]
                   if m["destination"] not in (INSIDE, "/sys",
                                               "/sys/fs/cgroup")]
    c["mounts"] += [
        {"destination": INSIDE, "type": "bind", "source": state,
         "options": ["rbind", "rw"]},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
         "options": ["mode=1777"]},
        {"destination": "/run", "type": "tmpfs", "source": "tmpfs"}]
    with open(path, "w") as f:
        json.dump(c, f)


def env_of(state):
    """What its `env` file sets, with paths as they are outside."""
    text = subprocess.run(
        ["sh", "-c", ". %s/env; env" % state], capture_output=True, text=True,
        check=True, env={"PATH": os.environ["PATH"]}).stdout
    return {k: v.replace(INSIDE, state) for k, v in
            (line.split("=", 1) for line in text.splitlines())}


def submit(env):
    context = ssl.create_default_context(cafile=env["CURL_CA_BUNDLE"])
    request = urllib.request.Request(
        env["POSTERN_URL"] + "/v1/messages/send", json.dumps({
            "to": ["ann@example.org"], "subject": "From a container",
            "text": "Hello"}).encode(),
        {"Authorization": "Bearer " + env["POSTERN_KEY"],
         "Content-Type": "application/json"})
    with urllib.request.urlopen(request, context=context) as reply:
        assert reply.status == 202
        return json.load(reply)


def nobody_is_root():
    """Each process of the container: its user, and no capability."""
    seen = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/status" % pid) as f:
                status = dict(line.split(":", 1) for line in f)
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                command = f.read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if INSIDE.encode() not in command:
            continue
        seen += 1
        assert status["Uid"].split() == ["10001"] * 4, command
        assert int(status["CapEff"], 16) == 0, command
        assert status["NoNewPrivs"].strip() == "1", command
    assert seen >= 5, seen


def facts(state):
    env = env_of(state)
    with open(os.path.join(state, "quickstart.json")) as f:
        said = json.load(f)
    sent = submit(env)
    assert sent["status"] == "held", sent
    operator = person.Operator(types.SimpleNamespace(
        issued={},
        operator=said["operator"],
        operator_password=said["operator_password"],
        ca_file=env["CURL_CA_BUNDLE"],
        admin_port=int(said["admin_url"].rsplit(":", 1)[1])))
    assert operator.decide(sent["message_id"], "a") == 303
    arrivals = said["capture_dir"].replace(INSIDE, state)
    end = time.monotonic() + 60
    while not any(n.endswith(".json") for n in os.listdir(arrivals)):
        assert time.monotonic() < end, "nothing arrived"
        time.sleep(0.1)
    name = [n for n in os.listdir(arrivals) if n.endswith(".eml")][0]
    with open(os.path.join(arrivals, name), "rb") as f:
        assert b"From a container" in f.read()
    nobody_is_root()


{"bundle": bundle, "facts": facts}[sys.argv[1]](*sys.argv[2:])
