# SPDX-License-Identifier: ISC
"""What strace saw, as calls in the order in which they began."""
import os
import re
import subprocess

from . import postern

CALLS = ("fdatasync,fsync,sendto,recvfrom,sendmsg,write,writev,accept,"
         "accept4,close")
HEAD = re.compile(r"(\d+) +(\d+\.\d+) (.*)$")


class Call:
    """name, pid, fd, begin and end in seconds, data sent or received, ret."""

    def __init__(self, pid, begin, text, end):
        m = re.match(r"(\w+)\((\d*)(.*)\)\s+= (-?\d+|\?)", text)
        self.ok = bool(m) and m[4] != "?"
        if not self.ok:
            return
        self.pid, self.begin, self.end = pid, begin, end
        self.name, self.rest, self.ret = m[1], m[3], int(m[4])
        self.fd = int(m[2]) if m[2] else -1

    @property
    def data(self):
        m = re.search(r'"((?:\\x[0-9a-f]{2})*)"', self.rest)
        return bytes.fromhex(m[1].replace("\\x", "")) if m else b""

    @property
    def port(self):
        m = re.search(r"sin_port=htons\((\d+)\)", self.rest)
        return int(m[1]) if m else None


class Trace:
    """strace of some processes and all they start, until stop()."""

    def __init__(self, path, pids):
        self.path = path
        argv = ["strace", "-f", "-ttt", "-T", "-xx", "-s", "1000000", "-e",
                "trace=" + CALLS, "-e", "signal=none", "-o", path]
        for pid in pids:
            argv += ["-p", str(pid)]
        self.proc = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        try:
            postern.wait_until("strace", lambda: self.refused() or not any(
                self.is_free(p) for p in pids))
        except BaseException:
            self.proc.terminate()
            raise

    def refused(self):
        return self.proc.poll() is not None

    @staticmethod
    def is_free(pid):
        try:
            with open("/proc/%d/status" % pid) as f:
                return "TracerPid:\t0\n" in f.read()
        except FileNotFoundError:
            return False  # it has ended meanwhile

    def stop(self):
        self.proc.terminate()
        self.proc.communicate(timeout=60)
        return self.calls()

    def calls(self):
        out, open_calls = [], {}
        with open(self.path) as f:
            for line in f:
                m = HEAD.match(line)
                if not m:
                    continue
                pid, at, text = int(m[1]), float(m[2]), m[3]
                if text.endswith("<unfinished ...>"):
                    open_calls[pid] = (at, text[:-16].rstrip())
                    continue
                spent = re.search(r" <(\d+\.\d+)>$", text)
                end = at + float(spent[1]) if spent else at
                begin = at
                resumed = re.match(r"<\.\.\. \w+ resumed>(.*)$", text)
                if resumed:
                    if pid not in open_calls:
                        continue
                    begin, first = open_calls.pop(pid)
                    text, end = first + resumed[1], at
                call = Call(pid, begin, text, end)
                if call.ok:
                    out.append(call)
        os.unlink(self.path)
        return sorted(out, key=lambda c: c.begin)
