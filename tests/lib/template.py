# SPDX-License-Identifier: ISC
"""
A database cluster with roles and schema, made once for a build of posternctl
and copied for each deployment of the tests: to make one takes seconds. It
belongs to no deployment yet; `posternctl migrate` binds the copy to its own.
"""
import contextlib
import fcntl
import glob
import hashlib
import os
import shutil
import subprocess
import tempfile
import time

from . import period, place

KEPT = 3  # those used last, and one more beside


def _place(ctl):
    """Where it is for this program, and all that other builds left. The weeks
    it has are those around the day it was made: of this week, from Monday."""
    digest = hashlib.sha256(b"%d" % ((time.time() - period.MONDAY)
                                     // period.WEEK))
    for path in (ctl, __file__):
        with open(path, "rb") as f:
            digest.update(f.read())
    base = os.path.join(
        place.folder() or tempfile.gettempdir(),
        "postern-template-%d-" % os.geteuid())
    return base + digest.hexdigest()[:16], glob.glob(base + "????????????????")


@contextlib.contextmanager
def _lock(path, how):
    with open(path + ".lock", "w") as f:
        fcntl.flock(f, how)
        yield


def _used(path):
    """When last; another run may remove it any time."""
    try:
        return os.path.getmtime(path)
    except FileNotFoundError:
        return 0


def _copy(place, to):
    """False when another run has removed it since it was made."""
    with _lock(place, fcntl.LOCK_SH):
        if not os.path.exists(place):
            return False
        os.utime(place)
        subprocess.run(["cp", "-a", place, to], check=True)
        return True


def copy(ctl, to, make):
    """To the folder `to`, which does not exist, from what the program `ctl`
    makes; where there is none yet, make(place) does that."""
    place, others = _place(ctl)
    while True:
        with _lock(place, fcntl.LOCK_EX):
            if not os.path.exists(place):
                make(place)
        if _copy(place, to):
            break
    others.sort(key=_used)
    for old in others[:-KEPT]:
        try:
            with _lock(old, fcntl.LOCK_EX | fcntl.LOCK_NB):
                shutil.rmtree(old, ignore_errors=True)
        except OSError:
            pass  # in use
