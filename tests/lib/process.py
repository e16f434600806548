# SPDX-License-Identifier: ISC
"""Programs under test: started, watched by their log events, stopped by pid."""
import json
import os
import pwd
import random
import resource
import signal
import socket
import subprocess
import threading
import time


_ours = []  # what says to other tests that a port is taken


def _claim(port):
    """Is it free, and not another test's? Then it is ours until we end."""
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind("\0postern-test-port-%d" % port)
        with socket.socket() as s:
            s.bind(("127.0.0.1", port))
    except OSError:
        mark.close()
        return False
    _ours.append(mark)
    return True


def free_port(n=1):
    """The first of `n` ports in a row that nobody listens on, and that no
    test running now gets again. None of those from which the kernel takes
    the near end of a connection: one could be in use a moment later."""
    for _ in range(1000):
        port = random.randrange(10000, 19990)
        if all([_claim(port + i) for i in range(n)]):
            return port
    raise RuntimeError("no free port")


def run_user():
    """Who services run as: never root (PostgreSQL and posternd refuse)."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    raise RuntimeError("no user to run services as")


def become(user, cores=False, net=None):
    """A preexec function: that user, and gone when the test dies; in the
    network namespace `net`, a file."""
    def enter():
        import ctypes
        os.setsid()
        if net is not None:
            fd = os.open(net, os.O_RDONLY)
            if ctypes.CDLL(None).setns(fd, 0x40000000) != 0:
                os._exit(127)
            os.close(fd)
        if cores:
            resource.setrlimit(resource.RLIMIT_CORE, (
                resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        if user is not None:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    return enter


class Process:
    """One running program. Its stderr is read line by line and kept.
    With `cores` it may leave a core file, in `cwd`; `net` as become()."""

    def __init__(self, name, argv, user=None, env=None, log=None, cwd=None,
                 cores=False, net=None):
        self.name = name
        self.events = []
        self.lines = []
        self.changed = threading.Condition()
        self.log = open(log, "ab") if log else None
        self.proc = subprocess.Popen(
            argv, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, preexec_fn=become(user, cores, net),
            cwd=cwd, env={**os.environ, **(env or {})})
        self.pid = self.proc.pid
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for raw in self.proc.stderr:
            if self.log:
                self.log.write(raw)
                self.log.flush()
            line = raw.decode("utf-8", "replace").rstrip("\n")
            with self.changed:
                self.lines.append(line)
                try:
                    self.events.append(json.loads(line))
                except ValueError:
                    pass
                self.changed.notify_all()
        with self.changed:
            self.lines.append(None)
            self.changed.notify_all()

    def mark(self):
        """Where the log is now, for wait(since=...)."""
        with self.changed:
            return len(self.events)

    def wait(self, event, since=0, timeout=20, **fields):
        """The first such event; fails when the program ends before it."""
        end = time.monotonic() + timeout
        at = since
        with self.changed:
            while True:
                while at < len(self.events):
                    e = self.events[at]
                    at += 1
                    if e.get("event") == event and all(
                            e.get(k) == v for k, v in fields.items()):
                        return e
                gone = bool(self.lines) and self.lines[-1] is None
                left = end - time.monotonic()
                if gone or left <= 0:
                    raise AssertionError("%s: no %s %r%s; last lines:\n%s" % (
                        self.name, event, fields,
                        " before it ended" if gone else " in time",
                        "\n".join(str(x) for x in self.lines[-15:])))
                self.changed.wait(left)

    def alive(self):
        return self.proc.poll() is None

    def send(self, signo):
        os.kill(self.pid, signo)

    def stop(self, signo=signal.SIGTERM, timeout=70):
        """Ask to stop; the exit code. Killed when it does not listen."""
        if self.alive():
            self.send(signo)
        try:
            code = self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("%s did not stop" % self.name)
        self.reader.join(5)
        if self.log:
            self.log.close()
        return code

    def kill(self):
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)
        self.proc.wait(20)
