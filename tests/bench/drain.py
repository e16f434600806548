# SPDX-License-Identifier: ISC
"""
How fast mail leaves once it may: Postern's worker and a Postfix that releases
its hold queue, to the same sink (Postfix's smtp-sink); then how soon one
approved mail arrives, and what fifty dead destinations cost a thousand live
ones. Needs root: port 25 on loopback, and Postfix.
"""
import contextlib
import json
import math
import os
import signal
import socket
import statistics
import subprocess
import time

from ..fake.dns import FakeDns
from ..fake.mx import FakeMx
from ..lib import person, postern
from .postfix import Postfix, install

MESSAGES = 10000  # that a judgement needs
ROUNDS, EACH = 5, 5  # pairs without and with dead ones; mail to each of them
SINK, ONE, DEAD = "127.31.0.1", "127.31.0.2", "127.31.0.9"
PEER = """
relayhost = [%s]:25
smtp_tls_security_level = none
default_process_limit = 100
queue_run_delay = 1s
minimal_backoff_time = 1s
""" % SINK


def sink():
    """Takes all, keeps nothing."""
    proc = subprocess.Popen(["smtp-sink", "-u", "postfix", SINK + ":25",
                             "1000"], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)

    def listens():
        try:
            socket.create_connection((SINK, 25)).close()
            return True
        except OSError:
            return False
    postern.wait_until("smtp-sink", listens)
    return proc


def is_met(out):
    """What `run` asks for."""
    took = out["approve_to_arrival"]
    return (out["ratio"] >= 1.5 and out["messages"] >= MESSAGES and took["p50_ms"] < 20
            and took["p99_ms"] < 100 and out["dead"]["loss"] < 0.1)


class Drain:
    def __init__(self, bench):
        install()
        self.bench, self.d, self.args = bench, bench.d, bench.args
        self.args.seconds = max(self.args.seconds, 600)  # all are to come
        self.dns = FakeDns()
        self.dns.ttl = 300  # as most zones have; Postfix asks for no name here
        self.d.set_conf("deliver", smarthost="", allow_address=[
            "127.31.0.0/16"], resolver=["127.0.0.1:%d" % self.dns.port],
            concurrency=str(self.args.concurrency))
        self.d.set_conf("admin", undo="0s")
        self.domain("example.net", SINK)
        self.sink = sink()
        bench.start()
        for box in self.d.claimed:
            self.d.set_mode(box, 4)

    def domain(self, name, address):
        self.dns.mx(name, (10, "mx." + name))
        self.dns.a("mx." + name, address)

    def worker(self):
        """To a file: reading its lines here would cost CPU."""
        argv = ["sh", "-c", 'exec "$0" "$@" 2>>%s' % self.d.path(
            "log", "deliver.jsonl"), os.path.join(
                self.bench.build, "postern-deliver"), "-c", self.d.conf]
        p = postern.Process("postern-deliver", argv, self.d.user)
        self.d.programs["postern-deliver"] = p
        return p

    def queued(self, where="true"):
        return self.d.sql("SELECT count(*) AS n FROM d.send_q WHERE "
                          + where)[0]["n"]

    def until_empty(self, where="true"):
        # One row, not a count, and one connection, as a new one costs as much
        # CPU as ten deliveries: looking is not what is measured.
        c = self.d.connect()
        cur = c.cursor()
        while True:
            cur.execute("SELECT 1 FROM d.send_q WHERE %s LIMIT 1" % where)
            if cur.fetchone() is None:
                break
            time.sleep(0.05)
        c.close()
        return time.monotonic()

    @contextlib.contextmanager
    def few(self):
        """Messages to warm up with."""
        n, self.args.messages = self.args.messages, 500
        try:
            yield
        finally:
            self.args.messages = n

    def postern_leg(self):
        """The worker runs already, as Postfix does; it is stopped while the
        queue fills."""
        worker = self.worker()
        with self.few():
            self.bench.postern_leg("accept")
        self.until_empty()
        os.kill(worker.pid, signal.SIGSTOP)
        self.bench.postern_leg("accept")
        n = self.queued()
        roots = [self.d.postgres.pid, worker.pid]
        before = self.bench.cpu(*roots)
        began = time.monotonic()
        os.kill(worker.pid, signal.SIGCONT)
        took = self.until_empty() - began
        used = self.bench.cpu(*roots) - before
        worker.stop()
        assert n == self.args.messages, n
        states = self.d.sql("SELECT state, count(*) AS n FROM d.state "
                            "GROUP BY 1")
        assert [s["state"] for s in states] == [8], states
        return {"messages": n, "rate": round(n / took, 1),
                "cpu_per_1000": round(used * 1000 / n, 3)}

    def postfix_leg(self):
        peer = Postfix(self.args.disk, self.d.path("tls", "cert.pem"),
                       self.d.path("tls", "key.pem"),
                       [("u%d@bench.test" % i, "secret-%d" % i)
                        for i in range(20)], PEER)
        users = self.d.path("peer-users")
        with open(users, "w") as f:
            f.writelines("%s %s\n" % u for u in peer.users)
        try:
            with self.few():
                self.bench.leg(peer.port, users, "accept", [peer.pid])
            peer.release()
            while peer.is_waiting():
                time.sleep(0.05)
            self.bench.leg(peer.port, users, "accept", [peer.pid])
            n = peer.held()
            assert n == self.args.messages, n
            before = self.bench.cpu(peer.pid)
            began = time.monotonic()
            peer.release()
            released = time.monotonic() - began
            while peer.is_waiting():
                time.sleep(0.05)
            took = time.monotonic() - began
            used = self.bench.cpu(peer.pid) - before
        finally:
            peer.close()
        # While it is released it delivers already, as far as it may.
        return {"messages": n, "rate": round(n / took, 1),
                "cpu_per_1000": round(used * 1000 / n, 3),
                "released_s": round(released, 2)}

    def submit(self, box, rcpts):
        import smtplib
        import ssl
        with smtplib.SMTP_SSL(
                "localhost", self.d.smtps_port, context=ssl
                .create_default_context(cafile=self.d.ca_file)) as s:
            s.login(box.address, box.smtp_key)
            s.sendmail(box.address, rcpts, "From: <%s>\r\nTo: <%s>\r\n"
                       "Subject: x\r\n\r\n%s" % (
                           box.address, rcpts[0], "x" * 76 + "\r\n"))

    def latency(self, n):
        """From the request that approves to the whole mail at its host."""
        self.domain("one.example", ONE)
        mx = FakeMx(address=ONE, port=25, offers=("PIPELINING", "8BITMIME"))
        self.d.add_tenant("held", "held.example")
        box = self.d.add_inbox("bot@held.example", "held")
        self.d.sql("UPDATE d.inbox SET lim_hour = 100000, lim_day = 100000 "
                   "WHERE address = 'bot@held.example'")
        self.d.start("postern-admin")
        op = person.Operator(self.d)
        worker = self.worker()
        times = []
        for i in range(n + 5):
            self.submit(box, ["ann@one.example"])
            (message,) = op.queue()
            form = person.Forms(op.page(message)).find("/decide", digest="")
            began = time.monotonic()
            status = op.ask("POST", form["action"],
                            dict(form["fields"], verdict="a"))[0]
            assert status == 303, status
            mx.wait_messages(i + 1)
            times.append((time.monotonic() - began) * 1000)
        worker.stop()
        mx.close()
        times = sorted(times[5:])  # the first ones warm up
        return {"messages": n, "p50_ms": round(statistics.median(times), 1),
                "p99_ms": round(times[int(len(times) * 0.99)], 1)}

    def dead(self, live, dead):
        """The same live destinations, without and with dead ones first."""
        box = self.d.claimed[0]
        self.d.sql("UPDATE d.inbox SET rcpt_max = 100")
        names = ["l%d.example" % i for i in range(live)]
        for name in names:
            self.domain(name, SINK)
        silent = socket.create_server((DEAD, 25), backlog=1024)
        # What the pairs left to be tidied would be tidied in some rounds.
        self.d.sql("VACUUM ANALYZE")
        self.d.sql("CHECKPOINT")
        self.round(box, names, [])  # warms up
        found = []
        for i in range(ROUNDS):
            gone = ["dead%d-%d.example" % (i, n) for n in range(dead)]
            for name in gone:  # others each time, which nobody knows yet
                self.domain(name, DEAD)
            rates = {}
            for first in ([], gone)[::1 if i % 2 == 0 else -1]:
                rates["beside" if first else "alone"] = self.round(
                    box, names, first)
            found.append(rates)
            print(json.dumps({k: round(v) for k, v in rates.items()}),
                  flush=True)
        silent.close()
        losses = sorted(1 - r["beside"] / r["alone"] for r in found)
        return {"live": live, "dead": dead, "each": EACH,
                "alone": round(statistics.median(r["alone"] for r in found), 1),
                "beside": round(statistics.median(
                    r["beside"] for r in found), 1),
                "losses": [round(x, 2) for x in losses],
                "loss": math.ceil(statistics.median(losses) * 1000) / 1000}

    def round(self, box, names, first):
        """Live messages a second, by a worker that knows of nothing."""
        worker = self.worker()
        self.submit(box, ["a@" + names[0]])
        self.until_empty("domain LIKE 'l%'")
        os.kill(worker.pid, signal.SIGSTOP)
        for _ in range(EACH):
            for at in range(0, len(first), 50):
                self.submit(box, ["a@" + x for x in first[at:at + 50]])
            for at in range(0, len(names), 100):
                self.submit(box, ["a@" + x for x in names[at:at + 100]])
        began = time.monotonic()
        os.kill(worker.pid, signal.SIGCONT)
        took = self.until_empty("domain LIKE 'l%'") - began
        worker.kill()
        self.d.sql("DELETE FROM d.send_q")  # of the dead
        return len(names) * EACH / took

    def pairs(self):
        """By turns, as both vary with what else the machine does."""
        found = []
        for i in range(self.args.pairs):
            legs = {}
            for who in ("postern", "postfix")[::1 if i % 2 == 0 else -1]:
                legs[who] = getattr(self, who + "_leg")()
                print(json.dumps({who: legs[who]}), flush=True)
            found.append(legs)
        ratios = [p["postern"]["rate"] / p["postfix"]["rate"] for p in found]
        out = {who: {what: round(statistics.median(
            p[who][what] for p in found), 3) for what in found[0][who]}
            for who in ("postern", "postfix")}
        return dict(out, pairs=len(found), messages=self.args.messages,
                    ratios=[round(r, 2) for r in ratios],
                    # Cut, as what is judged is not to be rounded up.
                    ratio=int(statistics.median(ratios) * 1000) / 1000)

    def run(self):
        out = {"bench": "drain", "bytes": 4096, "cores": os.cpu_count(),
               "concurrency": self.args.concurrency, **self.pairs()}
        print(json.dumps(out), flush=True)
        out["approve_to_arrival"] = self.latency(self.args.approvals)
        print(json.dumps(out), flush=True)
        out["dead"] = self.dead(1000, 50)
        return dict(out, ok=is_met(out))

    def close(self):
        self.sink.terminate()
        self.sink.wait()
        self.dns.close()
