# SPDX-License-Identifier: ISC
"""
A program that dies of SIGSEGV leaves no core file: its memory holds keys and
mail. Each is started with an unlimited core size in a folder of its own, and
a program that does not care is killed beside it, so that this can fail.
"""
import os
import signal
import socket
import subprocess

import pytest

from tests.lib import postern
from tests.lib.process import Process, become

PATTERN = open("/proc/sys/kernel/core_pattern").read().strip()


@pytest.fixture(scope="module")
def d():
    with postern.Deployment(workers=2) as deployment:
        deployment.add_tenant("acme", "acme.example")
        yield deployment


@pytest.fixture
def folder(d, request):
    path = d.path("cores-" + request.node.name.replace("/", "-"))
    os.mkdir(path, 0o700)
    d._own(path)
    return path


def dumped(pid):
    """Did our child, dead or about to be, leave a core anywhere?"""
    info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert info.si_status == signal.SIGSEGV, info
    return info.si_code == os.CLD_DUMPED


def core_limit(pid):
    """Soft and hard, in bytes."""
    with open("/proc/%d/limits" % pid) as f:
        for line in f:
            if line.startswith("Max core file size"):
                return tuple(line.split()[4:6])


def is_closed(pid):
    """The kernel gives the files in /proc/PID of what may not be dumped to
    root (proc(5)): PR_GET_DUMPABLE, seen from outside."""
    runs_as = os.stat("/proc/%d" % pid).st_uid
    return os.stat("/proc/%d/mem" % pid).st_uid == 0 and runs_as != 0


def hardened(pid, user):
    assert core_limit(pid) == ("0", "0")
    if user is not None:  # as root we can see the difference
        assert is_closed(pid)


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(x) for x in f.read().split()]


def test_a_core_would_be_seen(d, folder):
    p = Process("sleep", ["sleep", "60"], d.user, cwd=folder, cores=True)
    postern.wait_until("exec", lambda: os.readlink(
        "/proc/%d/exe" % p.pid).endswith("sleep"))
    assert core_limit(p.pid) == ("unlimited",) * 2
    if d.user is not None:
        assert not is_closed(p.pid)
    p.send(signal.SIGSEGV)
    seen = dumped(p.pid)
    p.proc.wait()
    if not seen:
        pytest.skip("no core of any program here (core_pattern %r): only "
                    "RLIMIT_CORE and PR_GET_DUMPABLE were checked" % PATTERN)
    if "/" in PATTERN or PATTERN.startswith("|"):
        print("core_pattern %r is no file here: the kernel's word is taken "
              "for whether there was a core" % PATTERN)
    else:
        assert os.listdir(folder), PATTERN


@pytest.mark.parametrize("program,args", [
    ("posternd", ()), ("postern-admin", ()), ("postern-deliver", ()),
    ("posternctl", ("seal", "--follow"))])
def test_no_core(d, folder, program, args):
    d.set_conf("deliver", smarthost="localhost:1")
    p = d.start(program, args=args, cwd=folder, cores=True)
    hardened(p.pid, d.user)
    p.send(signal.SIGSEGV)
    assert not dumped(p.pid)
    p.proc.wait()
    assert os.listdir(folder) == []


def test_no_core_of_a_worker(d, folder):
    p = d.start("posternd", cwd=folder, cores=True)
    workers = children(p.pid)
    assert len(workers) == 2
    for pid in workers:
        hardened(pid, d.user)
        os.kill(pid, signal.SIGSEGV)
        assert p.wait("worker.exit", child=pid)["why"] == "signal 11"
    assert os.listdir(folder) == []
    p.stop()


def test_no_core_of_the_helper(d, folder):
    path = os.path.join(postern.build_dir(), "postern-decode")
    if not os.path.exists(path):
        pytest.skip("postern-decode is not built")
    ours, its = socket.socketpair()
    enter = become(d.user, cores=True)

    def third():
        enter()
        os.dup2(its.fileno(), 3)
    p = subprocess.Popen([path], preexec_fn=third, cwd=folder,
                         close_fds=False, stdin=subprocess.DEVNULL)
    its.close()
    try:
        postern.wait_until("its limits", lambda:
                           core_limit(p.pid) == ("0", "0"))
        if d.user is not None:
            postern.wait_until("its sandbox", lambda: is_closed(p.pid))
        os.kill(p.pid, signal.SIGSEGV)
        assert not dumped(p.pid)
        assert os.listdir(folder) == []
    finally:
        ours.close()
        p.wait(20)
