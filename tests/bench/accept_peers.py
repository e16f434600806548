# SPDX-License-Identifier: ISC
"""
accept-peers: Postern beside the servers of peers.py, cell by cell: the same
generator, the same disk, one row after the other and within a row one server
after the other, in an order that turns with each row and round.
"""
import json
import os
import statistics

from . import peers

SIZES = {"4k": 4096, "64k": 65536}
SESSIONS = (1, 20, 100, 500)
# messages a connection, more words for the generator
KINDS = {"1": (1, ()), "10": (10, ()), "pipelined": (100, ("pipeline",))}
ROWS = ["%s-%d-%s" % (size, n, kind)
        for size in SIZES for n in SESSIONS for kind in KINDS]
QUICK = ["4k-20-10", "4k-100-1", "4k-100-pipelined", "64k-20-10"]
WARM_S = 1
# From here on Postern has to be the first.
MUST_LEAD = 20
KEPT = ("rate", "cpu_per_1000", "generator_cpu_per_1000", "p50_ms", "p99_ms")


def case(row):
    size, sessions, kind = row.split("-")
    each, words = KINDS[kind]
    return int(sessions), each, SIZES[size], words


class AcceptPeers:
    def __init__(self, bench, names):
        self.bench, self.d = bench, bench.d
        self.servers, self.users = {}, self.d.path("peer-users")
        with open(self.users, "w") as f:
            f.writelines("%s %s\n" % u for u in peers.USERS)
        try:
            for name in names:
                self.servers[name] = peers.ALL[name](
                    bench.args.disk, self.d.path("tls", "cert.pem"),
                    self.d.path("tls", "key.pem"))
        except BaseException:
            self.close()
            raise
        bench.start()

    def cell(self, name, row, seconds):
        what = (*case(row), seconds)
        if name == "postern":
            return self.bench.postern_leg(what)
        server = self.servers[name]
        return self.bench.leg(server.port, self.users, what, [server.pid])

    def row(self, row, turn, rounds, seconds):
        sessions, each, size, words = case(row)
        names = ["postern"] + [n for n, s in self.servers.items() if
                               not words or getattr(s, "pipelining", True)]
        legs = {name: [] for name in names}
        for i in range(rounds):
            at = (turn + i) % len(names)
            for name in names[at:] + names[:at]:
                self.cell(name, row, WARM_S)
                legs[name].append(self.cell(name, row, seconds))
        out = {"row": row, "sessions": sessions, "per_connection": each,
               "bytes": size, "pipelined": bool(words), "servers": {}}
        for name, all_of_it in legs.items():
            r = {k: round(statistics.median(leg[k] for leg in all_of_it), 3)
                 for k in KEPT}
            for k in ("failed", "lost"):
                n = sum(leg[k] for leg in all_of_it)
                if n:
                    r[k] = n
            out["servers"][name] = r
        rates = {n: r["rate"] for n, r in out["servers"].items()}
        out["first"] = max(rates, key=rates.get)
        best = max((v for n, v in rates.items() if n != "postern"), default=0)
        out["ratio"] = round(rates["postern"] / best, 2) if best else None
        return out

    def run(self, rows, rounds, seconds):
        done = []
        for turn, row in enumerate(rows):
            done.append(self.row(row, turn, rounds, seconds))
            print(json.dumps(done[-1]), flush=True)
        return {"bench": "accept-peers", "cores": os.cpu_count(),
                "workers": self.bench.args.workers, "rounds": rounds,
                "seconds": seconds, "load": round(os.getloadavg()[0], 2),
                "rows": done,
                "ok": all(r["first"] == "postern" for r in done
                          if r["sessions"] >= MUST_LEAD)}

    def close(self):
        for server in self.servers.values():
            server.close()


def table(done):
    """The rows for a reader: messages/s and CPU seconds per 1,000."""
    names = list(dict.fromkeys(n for r in done["rows"]
                               for n in r["servers"]))
    lines = ["%-18s" % "row" + "".join("%18s" % n for n in names)]
    for r in done["rows"]:
        lines.append("%-18s" % r["row"] + "".join(
            "%18s" % ("%(rate)d/s %(cpu_per_1000).2f" % r["servers"][n]
                      if n in r["servers"] else "-") for n in names))
    return "\n".join(lines)
