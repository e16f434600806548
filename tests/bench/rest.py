# SPDX-License-Identifier: ISC
"""rest: mail by HTTPS, beside a small Node service on the same PostgreSQL."""
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

from tests.bench.bare import bare

HERE = os.path.dirname(os.path.abspath(__file__))
CONNECTIONS = (1, 32, 256)
# the goals of the issue
TIMES_EXPRESS = 3
OF_COMMITTER = 0.6
BESIDE_FLUSH_MS = 1.5  # of a send on one connection, see docs/decisions/0092


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
        subprocess.run(["cc", "-O2", "-o", path, source, "-lssl",
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


def flush_ms(where, times=200):
    """What one durable write of a page costs there, the median."""
    took = []
    with tempfile.TemporaryFile(dir=where) as f:
        for _ in range(times):
            os.pwrite(f.fileno(), bytes(8192), 0)
            begun = time.perf_counter()
            os.fdatasync(f.fileno())
            took.append((time.perf_counter() - begun) * 1000)
    return round(statistics.median(took), 3)


def middle(legs, who, what):
    return round(statistics.median(r[what] for r in legs[who]), 3)


def judge(out):
    """What is not reached, in words. With one connection nothing is batched
    and both sides wait for a flush each, so what counts is what is spent
    beside it; that is a matter of the machine when others compute on it."""
    wrong = []
    for n, c in out["connections"].items():
        if n == 1:
            beside = c["postern_p50_ms"] - out["flush_ms"]
            c["at_most"] = round(c["express_p50_ms"] / out["flush_ms"], 2)
            c["judged"] = out["load"] < out["cores"]
            if c["judged"] and beside > BESIDE_FLUSH_MS:
                wrong.append("1: %.2f ms beside the flush" % beside)
        elif c["ratio"] < TIMES_EXPRESS:
            wrong.append("%d: %.2f times" % (n, c["ratio"]))
    if out["of_committer"] < OF_COMMITTER:
        wrong.append("%.2f of the committer" % out["of_committer"])
    return wrong


def counted(bench, who, ask):
    """ask(), and how much was stored meanwhile, in mail or in bare rows."""
    if who == "bare":
        with bare(bench.d) as count:
            before = count()
            return ask(), count() - before
    before = bench.d.count()
    return ask(), bench.d.count() - before


def run(bench, pairs, seconds, size=1024):
    """Leg by leg beside each other, then the committer without HTTP."""
    load = generator(bench.build)
    bench.start()
    peer = Express(bench.d)
    out = {"bench": "rest", "bytes": size, "pairs": pairs,
           "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1),
           "flush_ms": flush_ms(bench.args.disk), "connections": {}}
    base = [bench.d.postgres.pid, bench.d.redis.pid]
    roots = {"postern": base + [bench.d.programs["posternd"].pid],
             "express": base + [peer.proc.pid]}
    where = {"postern": (bench.d.api_port, bench.keys),
             "express": (peer.port, peer.keys)}
    if bench.args.bare:
        where["bare"], roots["bare"] = where["postern"], roots["postern"]
    try:
        for n in CONNECTIONS:
            legs = {who: [] for who in where}
            for i in range(pairs + 1):
                for who in list(where)[::-1 if i % 2 else 1]:
                    used = bench.cpu(*roots[who])
                    r, stored = counted(bench, who, lambda: leg(
                        load, *where[who], n,
                        seconds if i else min(2, seconds), size))
                    if stored != (r["messages"] if who != "express" else 0):
                        raise AssertionError("stored %d: %r" % (stored, r))
                    for name, seen in (
                            ("cpu", bench.cpu(*roots[who]) - used),
                            ("generator", r["generator_cpu"])):
                        r[name] = seen * 1000 / max(1, r["messages"])
                    if i:  # the first warms up
                        legs[who].append(r)
            out["connections"][n] = {
                "ratio": round(statistics.median(
                    a["rate"] / b["rate"] for a, b in zip(
                        legs["postern"], legs["express"])), 2),
                **({"bare_ratio": round(statistics.median(
                    a["rate"] / b["rate"] for a, b in zip(
                        legs["bare"], legs["express"])), 2)}
                   if "bare" in legs else {}),
                **{w: middle(legs, w, "rate") for w in legs},
                **{"%s_%s" % (w, name): middle(legs, w, what) for w in legs
                   for name, what in (
                       ("p50_ms", "p50_ms"), ("p99_ms", "p99_ms"),
                       ("cpu_per_1000", "cpu"),
                       ("generator_cpu_per_1000", "generator"))}}
            print(json.dumps({n: out["connections"][n]}), flush=True)
    finally:
        peer.close()
    bench.d.programs["posternd"].stop()
    out["committer_alone"] = bench.committer()
    top = out["connections"][CONNECTIONS[-1]]["postern"]
    out["of_committer"] = round(top / out["committer_alone"]["rate"], 2)
    out["not_reached"] = judge(out)
    out["ok"] = not out["not_reached"]
    return out
