# SPDX-License-Identifier: ISC
"""rest: mail by HTTPS, beside a small Node service on the same PostgreSQL."""
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
CONNECTIONS = (1, 32, 256)
# the goals of the issue
TIMES_EXPRESS = 3
OF_COMMITTER = 0.6


class Express:
    """express and pg as package-lock.json pins them, one process."""

    def __init__(self, d):
        here = os.path.join(HERE, "express")
        node = shutil.which("node")
        mark = os.path.join(here, "node_modules", ".package-lock.json")
        if not os.path.exists(mark):
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund",
                            "--ignore-scripts"], cwd=here, check=True,
                           stdout=subprocess.DEVNULL)
        d.sql("CREATE TABLE public.mail (id bigint PRIMARY KEY GENERATED "
              "ALWAYS AS IDENTITY, rcpt text[] NOT NULL, subject text, "
              "body text NOT NULL, at timestamptz NOT NULL DEFAULT now())")
        self.port = free_port()
        token = secrets.token_hex(32)
        self.keys = d.path("express-keys")
        with open(self.keys, "w") as f:
            f.write(token + "\n")
        self.proc = subprocess.Popen(
            [node, "server.mjs", str(self.port), d.path("tls", "cert.pem"),
             d.path("tls", "key.pem"), d.path("sock"), "5432",
             "postgres", "postern", token], cwd=here, stdout=subprocess.PIPE,
            text=True, env={**os.environ, "NODE_ENV": "production"})
        if self.proc.stdout.readline().strip() != "ready":
            raise AssertionError("the service did not start")

    def close(self):
        self.proc.terminate()
        self.proc.wait(timeout=20)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def generator(build):
    path = os.path.join(build, "tests", "bench", "restload")
    source = os.path.join(HERE, "restload.c")
    if not os.path.exists(path) or \
            os.path.getmtime(path) < os.path.getmtime(source):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        subprocess.run(["cc", "-O2", "-pthread", "-o", path, source, "-lssl",
                        "-lcrypto"], check=True)
    return path


def leg(load, port, keys, connections, seconds, size):
    done = subprocess.run([load, str(port), keys, str(connections),
                           str(seconds), str(size)], stdout=subprocess.PIPE,
                          check=True)
    r = json.loads(done.stdout)
    if r["failed"] > r["messages"] / 100:
        raise AssertionError("failed: %r" % r)
    return r


def run(bench, pairs, seconds, size=1024):
    """Leg by leg beside each other, then the committer without HTTP."""
    load = generator(bench.build)
    bench.start()
    peer = Express(bench.d)
    out = {"bench": "rest", "bytes": size, "pairs": pairs,
           "cores": os.cpu_count(), "connections": {}}
    try:
        for n in CONNECTIONS:
            legs = {"postern": [], "express": []}
            for i in range(pairs + 1):
                for who, port, keys in (
                        ("postern", bench.d.api_port, bench.keys),
                        ("express", peer.port, peer.keys))[::-1 if i % 2
                                                           else 1]:
                    before = bench.d.count()
                    r = leg(load, port, keys, n,
                            seconds if i else min(2, seconds), size)
                    stored = bench.d.count() - before
                    if stored != (r["messages"] if who == "postern" else 0):
                        raise AssertionError("stored %d: %r" % (stored, r))
                    if i:  # the first warms up
                        legs[who].append(r)
            rates = {w: statistics.median(r["rate"] for r in legs[w])
                     for w in legs}
            out["connections"][n] = {
                "postern": rates["postern"], "express": rates["express"],
                "ratio": round(statistics.median(
                    a["rate"] / b["rate"] for a, b in zip(
                        legs["postern"], legs["express"])), 2),
                "p50_ms": [statistics.median(r["p50_ms"] for r in legs[w])
                           for w in legs],
                "p99_ms": [statistics.median(r["p99_ms"] for r in legs[w])
                           for w in legs]}
            print(json.dumps({n: out["connections"][n]}), flush=True)
    finally:
        peer.close()
    bench.d.programs["posternd"].stop()
    out["committer_alone"] = bench.committer()
    top = out["connections"][CONNECTIONS[-1]]["postern"]
    out["of_committer"] = round(top / out["committer_alone"]["rate"], 2)
    out["ok"] = out["of_committer"] >= OF_COMMITTER and all(
        c["ratio"] >= TIMES_EXPRESS for c in out["connections"].values())
    return out
