# SPDX-License-Identifier: ISC
"""
The deployment of deploy/scale.md, step 2, in network namespaces: three hosts
with a gateway, a worker and pages each; PostgreSQL with a synchronous standby
and a keeper that promotes it; Redis with a replica and three Sentinels. On
each host HAProxy carries local sockets to whichever is primary; one before
them spreads agents and operators. A host can be cut off; programs are killed
by their pids.
"""
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

import psycopg2

from . import postern
from .process import Process
from .relaying import Relaying

HOSTS = {"db1": 11, "db2": 12, "app1": 21, "app2": 22, "app3": 23,
         "r1": 31, "r2": 32, "r3": 33}
APPS = ("app1", "app2", "app3")
RESTART_S = 1  # RestartSec= of the units
AWAY_S = 1.5  # a server that does not answer for so long is given up
SENTINEL = """port 26379
bind {ip}
protected-mode no
dir {dir}
sentinel monitor postern {master} 6379 2
sentinel down-after-milliseconds postern 1500
sentinel failover-timeout postern 5000
"""
HAPROXY = """global
	maxconn 4000
	stats socket {dir}/admin.sock mode 600 level admin
defaults
	mode tcp
	timeout connect 1s
	timeout client 1h
	timeout server 1h
	timeout check 2s
	default-server inter 500ms fastinter 200ms fall 3 rise 1 on-marked-down shutdown-sessions
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def message(kind, body):
    """One message of PostgreSQL's protocol, as hexadecimal digits."""
    return (kind + (len(body) + 4).to_bytes(4, "big") + body).hex()


# HAProxy asks a server whether it is the primary.
IS_PRIMARY = """	option tcp-check
	tcp-check connect
	tcp-check send-binary {hello}
	tcp-check expect binary 5a0000000549
	tcp-check send-binary {ask}
	tcp-check expect binary {no}
""".format(hello=message(b"", b"\0\3\0\0user\0postgres\0database\0postgres\0\0"),
           ask=message(b"Q", b"show transaction_read_only\0"),
           no=message(b"D", b"\0\1\0\0\0\3off"))
IS_MASTER = """	option tcp-check
	tcp-check connect
	tcp-check send info\\ replication\\r\\n
	tcp-check expect string role:master
"""


class Keeper(threading.Thread):
    """What Patroni does: one primary, one synchronous standby of it."""

    def __init__(self, c):
        super().__init__(daemon=True)
        self.c = c
        self.primary, self.standby = "db1", "db2"
        self.whole = False  # the standby has all that was acknowledged
        self.halt, self.changed = threading.Event(), threading.Condition()
        self.down = {}
        self.names = None  # what the primary has still to be told
        self.failovers = 0

    def ask(self, name, query):
        """One value, or None when the server does not answer."""
        try:
            c = psycopg2.connect(
                host=self.c.address(name), user="postgres", dbname="postgres",
                connect_timeout=1, options="-c statement_timeout=1000")
        except psycopg2.Error:
            return None
        try:
            c.autocommit = True
            with c.cursor() as cur:
                cur.execute(query)
                row = cur.fetchone() if cur.description else (True,)
                return row[0] if row else False
        except psycopg2.Error:
            return None
        finally:
            c.close()

    def is_away(self, name):
        """Has it not answered for AWAY_S?"""
        if self.ask(name, "SELECT true"):
            self.down.pop(name, None)
            return False
        return time.monotonic() - self.down.setdefault(
            name, time.monotonic()) > AWAY_S

    def wait_names(self, names):
        """Whom the primary waits for. A busy one is told again until it has
        taken it: else commits wait for a standby that is away."""
        self.names = names
        if self.ask(self.primary, "ALTER SYSTEM SET synchronous_standby_names"
                    " = '%s'" % names) and self.ask(
                        self.primary, "SELECT pg_reload_conf()"):
            self.names = None

    def set_whole(self, whole):
        with self.changed:
            self.whole = whole
            self.changed.notify_all()

    def run(self):
        while not self.halt.wait(0.2):
            if self.is_away(self.primary):
                self.fail_over()
            elif self.whole and self.is_away(self.standby):
                # Nobody may promote it from here on: only then go on alone.
                self.set_whole(False)
                self.wait_names("")
            elif self.names is not None:
                self.wait_names(self.names)
            elif not self.whole:
                self.rebuild()

    def fail_over(self):
        if not self.whole:
            self.c.start_db(self.primary)  # it is the only one there is
            return
        self.c.stop_db(self.primary)  # fenced before anybody else is primary
        self.ask(self.standby, "SELECT pg_promote(false)")
        if not self.ask(self.standby, "SELECT NOT pg_is_in_recovery()"):
            return  # it is asked again
        self.primary, self.standby = self.standby, self.primary
        self.failovers += 1
        self.down.clear()
        self.set_whole(False)
        self.wait_names("")

    def rebuild(self):
        """The standby anew from the primary, once its host is back."""
        if self.standby in self.c.cuts:
            return
        state = ("SELECT sync_state FROM pg_stat_replication WHERE "
                 "state = 'streaming'")
        if not self.ask(self.primary, state):
            if not self.c.make_standby(self.standby, self.primary):
                return
        self.wait_names("*")
        if self.ask(self.primary, state) in ("sync", "quorum"):
            self.down.clear()  # what was away before is of no account now
            self.set_whole(True)

    def wait_whole(self, timeout=90):
        with self.changed:
            assert self.changed.wait_for(lambda: self.whole, timeout), \
                "no standby again"


class Cluster(Relaying):
    def __init__(self, **deliver):
        self.net = 10 + os.getpid() % 240
        self.bridge = "pst%d" % self.net
        self.cuts, self.parts = set(), {}
        self.keeper = None
        self.ready_hosts = False
        try:
            super().__init__(lease="3s", one_connection=False, **deliver)
        except BaseException:
            if not self.closed:
                self.close()
            raise

    # -- hosts ---------------------------------------------------------------

    def address(self, host):
        return "10.77.%d.%d" % (self.net, HOSTS.get(host, 1))

    def make_hosts(self):
        ip("link", "add", self.bridge, "type", "bridge")
        ip("addr", "add", self.address(None) + "/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        for host in HOSTS:
            ns, near = self.bridge + host, self.near(host)
            ip("netns", "add", ns)
            ip("link", "add", near, "type", "veth", "peer", "name", "eth0",
               "netns", ns)
            ip("link", "set", near, "master", self.bridge, "up")
            ip("-n", ns, "addr", "add", self.address(host) + "/24", "dev",
               "eth0")
            ip("-n", ns, "link", "set", "eth0", "up")
            ip("-n", ns, "link", "set", "lo", "up")
        self.ready_hosts = True

    def near(self, host):
        return "%s%s" % (self.bridge, host)

    def cut(self, host):
        self.cuts.add(host)
        ip("link", "set", self.near(host), "down")

    def heal(self, host):
        ip("link", "set", self.near(host), "up")
        self.cuts.discard(host)

    def namespace(self, host):
        return "/run/netns/" + self.bridge + host

    def on(self, host, argv):
        """A command line that runs there, as the user of services."""
        return ["nsenter", "--net=" + self.namespace(host), "--setuid",
                str(self.user.pw_uid), "--setgid", str(self.user.pw_gid),
                "--", *argv]

    def part(self, host, name, argv, **how):
        p = Process("%s@%s" % (name, host), argv, self.user,
                    log=self.path("log", "%s-%s.log" % (name, host)),
                    net=self.namespace(host), **how)
        self.parts[name, host] = p
        return p

    def folder(self, *names):
        """Made with those above it; of the user of services, all of them."""
        for i in range(len(names)):
            path = self.path(*names[:i + 1])
            os.makedirs(path, exist_ok=True)
            os.chmod(path, 0o755)
            self._own(path)
        return path

    # -- HAProxy -------------------------------------------------------------

    def haproxy(self, host, name, listens):
        where = self.folder(host or "front", name)
        path = os.path.join(where, "haproxy.cfg")
        with open(path, "w") as f:
            f.write(HAPROXY.format(dir=where))
            for i, (bind, check, servers) in enumerate(listens):
                f.write("listen l%d\n\tbind %s\n%s" % (i, bind, check))
                for j, server in enumerate(servers):
                    f.write("\tserver s%d %s\n" % (j, server))
        argv = ["haproxy", "-db", "-f", path]
        if host:
            return self.part(host, name, argv)
        p = Process(name, argv, self.user, log=self.path("log", name))
        self.parts[name, ""] = p
        return p

    def to_primaries(self, sock, redis):
        return [
            ("unix@%s/.s.PGSQL.5432 mode 777" % sock, IS_PRIMARY,
             ["%s:5432 check" % self.address(h) for h in ("db1", "db2")]),
            ("unix@%s mode 777" % redis, IS_MASTER,
             ["%s:6379 check" % self.address(h) for h in ("r1", "r2")])]

    # -- PostgreSQL ----------------------------------------------------------

    def _start_postgres(self):
        self.pg_bin = "/usr/lib/postgresql/15/bin"
        self.make_hosts()
        data = os.path.join(self.folder("db1"), "data")
        self.folder("db2")
        self._run(self.as_user([
            self.pg_bin + "/initdb", "-D", data, "-U", "postgres", "-A",
            "trust", "--locale=C.UTF-8", "-E", "UTF8", "--no-sync"]), cwd="/")
        with open(data + "/pg_hba.conf", "w") as f:
            f.write("local all all trust\n" + "".join(
                "host %s all 10.77.%d.0/24 trust\n" % (what, self.net)
                for what in ("all", "replication")))
        with open(data + "/postgresql.conf", "a") as f:
            f.write("listen_addresses = '*'\nmax_connections = 120\n"
                    "shared_buffers = 64MB\nmax_wal_size = 512MB\n"
                    # A copy has thousands of small files: to sync each of
                    # them before it starts takes longer than to copy them.
                    "recovery_init_sync_method = syncfs\n"
                    "wal_keep_size = 256MB\nhot_standby_feedback = on\n"
                    "wal_sender_timeout = 3s\nwal_receiver_timeout = 3s\n"
                    "tcp_keepalives_idle = 2\ntcp_keepalives_interval = 1\n"
                    "tcp_user_timeout = 3000\n"
                    "log_min_messages = warning\n")
        self.start_db("db1")
        # The root's side comes first, for Deployment's own statements.
        self.folder("sock")
        self.haproxy(None, "primaries", self.to_primaries(
            self.path("sock"), self.path("redis", "redis.sock")))

        def answers():
            try:
                self.connect("postgres", "postgres").close()
                return True
            except psycopg2.OperationalError:
                return False
        postern.wait_until("the primary", answers, 30)
        self.postgres = self.parts["postgres", "db1"]

    def start_db(self, name):
        p = self.parts.get(("postgres", name))
        if p is not None and p.alive():
            return
        self.part(name, "postgres", [
            self.pg_bin + "/postgres", "-D", self.path(name, "data"), "-k",
            self.path(name)])

    def stop_db(self, name):
        p = self.parts.get(("postgres", name))
        if p is not None and p.alive():
            os.kill(p.pid, signal.SIGKILL)
            p.proc.wait(20)

    def make_standby(self, name, primary):
        """False when that did not work; it is tried again."""
        self.stop_db(name)
        data = self.path(name, "data")
        shutil.rmtree(data, ignore_errors=True)
        done = subprocess.run(self.on(name, [
            self.pg_bin + "/pg_basebackup", "-D", data, "-R", "-X", "stream",
            "-c", "fast", "--no-sync", "-d",
            "host=%s user=postgres application_name=%s connect_timeout=2"
            % (self.address(primary), name)]), cwd="/", capture_output=True,
            timeout=60)
        if done.returncode != 0:
            return False
        self.start_db(name)
        try:
            postern.wait_until("streaming", lambda: self.keeper.ask(
                primary, "SELECT 1 FROM pg_stat_replication WHERE "
                "state = 'streaming'"), 20, 0.1)
            return True
        except AssertionError:
            return False

    def start_keeper(self):
        self.keeper = Keeper(self)
        self.keeper.start()
        self.keeper.wait_whole()

    # -- Redis ---------------------------------------------------------------

    def start_redis(self):
        acl = self.path("redis", "users.acl")
        self.redis_password = "test-password"
        with open(acl, "w") as f:
            f.write("user default on nopass ~* &* +@all\n")
            for name, rules in postern.REDIS_RULES.items():
                f.write("user %s on >%s %s\n" % (
                    name, self.redis_password, rules))
        with open(self.path("redis", "password"), "w") as f:
            f.write(self.redis_password + "\n")
        os.chmod(f.name, 0o600)
        self._own(f.name)
        self.redis_socket = self.path("redis", "redis.sock")
        for host in ("r1", "r2"):
            self.start_one_redis(host, None if host == "r1" else "r1")
        for host in ("r1", "r2", "r3"):
            path = os.path.join(self.folder(host), "sentinel.conf")
            with open(path, "w") as f:
                f.write(SENTINEL.format(ip=self.address(host),
                                        dir=self.path(host),
                                        master=self.address("r1")))
            self._own(path)
            self.part(host, "sentinel", ["redis-sentinel", path])
        # before its first checks haproxy also asks the replica, in turn
        postern.wait_until("Redis", lambda: all(
            b"role:master" in self.redis_says("INFO", "replication")
            for _ in range(4)), 30)
        with open(os.path.join(postern.TOP, "store", "postern.lua")) as f:
            self._run(["redis-cli", "-e", "-s", self.redis_socket, "-x",
                       "FUNCTION", "LOAD", "REPLACE"], stdin=f)

    def start_one_redis(self, host, master=None):
        where = self.folder(host)
        shutil.copy(self.path("redis", "users.acl"), where)
        self._own(os.path.join(where, "users.acl"))
        self.part(host, "redis", [
            "redis-server", "--port", "6379", "--bind", self.address(host),
            "--protected-mode", "no", "--save", "", "--dir", where,
            "--aclfile", os.path.join(where, "users.acl"),
            "--repl-timeout", "5",
            *(["--replicaof", self.address(master), "6379"]
              if master else [])])

    def redis_says(self, *words):
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(2)
                s.connect(self.redis_socket)
                s.sendall(" ".join(words).encode() + b"\r\n")
                return s.recv(4096)
        except OSError:
            return b""

    def redis_master(self):
        for host in ("r1", "r2"):
            p = self.parts["redis", host]
            if host in self.cuts or not p.alive():
                continue
            done = subprocess.run(
                ["redis-cli", "-h", self.address(host), "info",
                 "replication"], capture_output=True, text=True, timeout=10)
            if "role:master" in done.stdout:
                return host
        return None

    # -- programs ------------------------------------------------------------

    def conf_of(self, app):
        """Its sockets and addresses; keys are the same everywhere."""
        kept = self.extra, self.conf
        at = self.address(app)
        self.folder(app, "state")
        self.extra = {k: dict(v) for k, v in self.extra.items()}
        for section, values in {
                "": {"state_dir": self.path(app, "state")},
                "store": {"socket": self.path(app, "sock")},
                "redis": {"socket": self.path(app, "redis.sock")},
                "smtp": {"listen": ["%s:%d" % (at, self.smtp_port)],
                         "listen_tls": ["%s:%d" % (at, self.smtps_port)]},
                "api": {"listen": ["%s:%d" % (at, self.api_port)]},
                "admin": {"listen": ["%s:%d" % (at, self.admin_port)]},
                "auth": {"socket": self.path(app, "auth.sock")},
                "metrics": {"listen": "%s:%d" % (at, self.metrics_port)},
        }.items():
            self.extra.setdefault(section, {}).update(values)
        try:
            self._write_conf()
            where = self.path(app, "postern.conf")
            os.replace(self.conf, where)
        finally:
            self.extra, self.conf = kept
        self._write_conf()
        return where

    def start_on(self, app, program):
        argv = [os.path.join(postern.build_dir(), program), "-c",
                self.path(app, "postern.conf")]
        name = "%s-%s" % (program, app)
        end = time.monotonic() + 60
        while True:
            p = Process(name, argv, self.user,
                        log=self.path("log", name + ".jsonl"),
                        net=self.namespace(app))
            self.programs[name] = p
            try:
                p.wait("daemon.ready", timeout=60)
                return p
            except AssertionError:
                # The units' Restart= and RestartSec=: its HAProxy may not
                # have found the primary yet.
                if p.lines[-1:] != [None] or time.monotonic() > end:
                    raise  # it hangs, or never starts
                p.proc.wait(20)
                time.sleep(RESTART_S)

    def start(self, program, wait="daemon.ready", env=None, args=(), **how):
        """On all three hosts; the first one is returned."""
        if ("hosts", "app1") not in self.parts:
            for app in APPS:
                self.folder(app, "sock")
                self.haproxy(app, "hosts", [
                    *self.to_primaries(self.path(app, "sock"),
                                       self.path(app, "redis.sock")),
                    ("127.0.0.1:%d" % self.mx.port, "",
                     ["%s:%d" % (self.address(None), self.mx.port)])])
            self.front()
        for app in APPS:
            self.conf_of(app)
        return [self.start_on(app, program) for app in APPS][0]

    def front(self):
        """Before the hosts; and the way of their mail to the outside."""
        def served(port, ready):
            check = ("\toption httpchk GET /readyz\n"
                     "\thttp-check expect status 200\n")
            return ("127.0.0.1:%d" % port, check + "\tbalance roundrobin\n", [
                "%s:%d check port %d" % (self.address(a), port, ready)
                for a in APPS])
        m = self.metrics_port
        self.haproxy(None, "front", [
            served(self.smtp_port, m), served(self.smtps_port, m),
            served(self.api_port, m), served(self.admin_port, m + 1),
            ("%s:%d" % (self.address(None), self.mx.port), "",
             ["127.0.0.1:%d" % self.mx.port])])

    def close(self):
        if self.keeper is not None:
            self.keeper.halt.set()
            self.keeper.join(60)
        for p in list(self.programs.values()) + list(self.parts.values()):
            p.kill()
        self.programs.clear()
        try:
            super().close()
        finally:
            for host in HOSTS:
                subprocess.run(["ip", "netns", "del", self.bridge + host],
                               capture_output=True)
            subprocess.run(["ip", "link", "del", self.bridge],
                           capture_output=True)
