# SPDX-License-Identifier: ISC
"""
Where the folders of deployments are. In memory where there is plenty: a disk
that other programs use too makes a test wait for what it is not about. What is
about the disk, and every bench, names a folder or asks for `disk`.
"""
import os

SHM = "/dev/shm"
ROOM = 8 << 30  # that must be free, of the folder and of the machine
disk = bool(os.environ.get("POSTERN_ON_DISK"))


def _available():
    """The machine's memory that is to be had, in bytes."""
    with open("/proc/meminfo") as f:
        for line in f:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 0


def _is_in_memory(path):
    with open("/proc/mounts") as f:
        for line in f:
            _, where, kind, options = line.split()[:4]
            if where == path:
                return kind == "tmpfs" and "noexec" not in options.split(",")
    return False


def folder():
    """For tempfile's `dir`; None: wherever that puts it."""
    if os.geteuid() != 0:
        return None
    if not disk and _is_in_memory(SHM):
        s = os.statvfs(SHM)
        if min(s.f_bavail * s.f_frsize, _available()) >= ROOM:
            return SHM
    return "/run"
