# SPDX-License-Identifier: ISC
"""Stock clients in Node that tests drive, see tests/agents/."""
import fcntl
import json
import os
import shutil
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
HERE = os.path.join(TOP, "tests", "agents")
NODE = shutil.which("node") or shutil.which("nodejs")


def need_node():
    """Installs what package-lock.json names; skips without Node or npm."""
    if NODE is None or shutil.which("npm") is None:
        pytest.skip("node and npm are needed")
    mark = os.path.join(HERE, "node_modules", ".package-lock.json")
    lock = os.path.join(HERE, "package-lock.json")
    with open(lock, encoding="utf-8") as f:
        fcntl.flock(f, fcntl.LOCK_EX)  # suites run beside each other
        if os.path.exists(mark) and os.path.getmtime(
                mark) > os.path.getmtime(lock):
            return
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund",
                        "--ignore-scripts"], cwd=HERE, check=True,
                       stdout=subprocess.DEVNULL)


class Script:
    """A script of tests/agents that answers each line with one line."""

    def __init__(self, deployment, *argv, env=None):
        self.proc = subprocess.Popen(
            [NODE, *argv], cwd=HERE, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
            env={**os.environ, "NODE_EXTRA_CA_CERTS": deployment.ca_file,
                 **(env or {})})
        self.hello = self.read()

    def read(self):
        line = self.proc.stdout.readline()
        if not line:
            raise AssertionError("the script ended: %d" % self.proc.wait())
        return json.loads(line)

    def ask(self, **what):
        self.proc.stdin.write(json.dumps(what) + "\n")
        self.proc.stdin.flush()
        return self.read()

    def close(self):
        self.proc.stdin.close()
        try:
            self.proc.wait(timeout=20)
        finally:
            if self.proc.poll() is None:
                self.proc.kill()
            self.proc.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
