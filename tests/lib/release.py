# SPDX-License-Identifier: ISC
"""
Two releases of the programs, of one of two kinds. "tag": N-1 is built from the
tag of the newest earlier release, and N is what is tested. "next": N-1 is what
is tested, and N is its tree with a next schema: one migration that expands, with
a new version of the function that stores mail, which N's gateway calls; and one
that contracts, and takes the old version away. It needs no history, and shows
that a contraction is waited for.
"""
import collections
import os
import re
import shutil
import subprocess

from . import postern

PROGRAMS = ("posternd", "postern-admin", "postern-auth", "postern-deliver",
            "postern-decode", "posternctl")
# Build folders of N-1 and N; does N's schema differ, and contract N-1's?
Pair = collections.namedtuple("Pair", "before after expands contracts")

EXPAND = """-- SPDX-License-Identifier: ISC
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA api TO p_submit;
ALTER TABLE d.message ADD COLUMN next_note text;
SET LOCAL ROLE p_submit;
DO $$
BEGIN
	EXECUTE replace(pg_get_functiondef('api.submit_batch_1'::regproc),
	    'submit_batch_1', 'submit_batch_2');
	EXECUTE replace(pg_get_functiondef('api.submit_1'::regproc),
	    'submit_batch_1', 'submit_batch_2');
END $$;
REVOKE ALL ON FUNCTION api.submit_batch_2 FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.submit_batch_2 TO l_gateway;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA api FROM p_submit;
RESET ROLE;
"""
CONTRACT = """-- SPDX-License-Identifier: ISC
-- contract: serves %d
SET LOCAL ROLE p_submit;
DROP FUNCTION api.submit_batch_1;
RESET ROLE;
"""


def known(top):
    """The newest migration that the programs of a tree know."""
    with open(os.path.join(top, "store", "store.h")) as f:
        return int(re.search(r"#define STORE_SCHEMA (\d+)", f.read())[1])


def serves(top):
    """The least that a program must know, once all is contracted."""
    said = [0]
    folder = os.path.join(top, "store", "migrations")
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as f:
            said += map(int, re.findall(r"(?m)^-- contract: serves (\d+)",
                                        f.read()))
    return max(said)


def tags():
    """Releases before this tree, the newest first."""
    r = subprocess.run(
        ["git", "-C", postern.TOP, "tag", "--merged", "HEAD^", "--sort",
         "-v:refname", "v*"], capture_output=True, text=True)
    return r.stdout.split() if r.returncode == 0 else []


def _copy(where, tag=None):
    """A tree as it is here, or as it was."""
    os.makedirs(where)
    if tag:
        data = subprocess.run(["git", "-C", postern.TOP, "archive", tag],
                              capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", where], input=data, check=True)
        subprocess.run(["./autogen.sh"], cwd=where, check=True,
                       capture_output=True)
        return
    for name in os.listdir(postern.TOP):
        path = os.path.join(postern.TOP, name)
        if name in (".git", "build", "autom4te.cache"):
            continue
        if os.path.isdir(path):
            shutil.copytree(path, os.path.join(where, name), symlinks=True)
        else:
            shutil.copy2(path, os.path.join(where, name))


def _next_schema(where):
    """What the next release brings."""
    now = known(where)
    folder = os.path.join(where, "store", "migrations")
    with open(os.path.join(folder, "%04d_next.sql" % (now + 1)), "w") as f:
        f.write(EXPAND)
    with open(os.path.join(folder, "%04d_gone.sql" % (now + 2)), "w") as f:
        f.write(CONTRACT % (now + 1))
    changes = {"store.h": [(r"(define STORE_SCHEMA(_MIN)?) \d+",
                            r"\1 %d" % (now + 1))],
               "commit_row.c": [("submit_batch_1", "submit_batch_2")]}
    for name, edits in changes.items():
        path = os.path.join(where, "store", name)
        with open(path) as f:
            text = f.read()
        for pattern, new in edits:
            text, n = re.subn(pattern, new, text)
            assert n, (name, pattern)
        with open(path, "w") as f:
            f.write(text)


def _build(where):
    build = os.path.join(where, "build")
    os.makedirs(build)
    log = os.path.join(where, "build.log")
    llhttp = os.environ.get("POSTERN_LLHTTP",
                            os.path.join(postern.TOP, "build", "llhttp"))
    with open(log, "w") as f:
        for argv in ([os.path.join(where, "configure"), "--quiet",
                      "--with-llhttp=" + llhttp, "CC=gcc", "CFLAGS=-O1"],
                     ["make", "-s", "-j2", *PROGRAMS]):
            if subprocess.run(argv, cwd=build, stdout=f,
                              stderr=f).returncode != 0:
                with open(log) as g:
                    raise RuntimeError("%s:\n%s" % (argv[0],
                                                    g.read()[-3000:]))
    return build


def pair(where, kind):
    """Both, built; of kind "tag" where tags() names one."""
    here = postern.build_dir()
    if kind == "tag":
        before = os.path.join(where, "before")
        _copy(before, tags()[0])
        return Pair(_build(before), here, known(before) < known(postern.TOP),
                    known(before) < serves(postern.TOP))
    after = os.path.join(where, "after")
    _copy(after)
    _next_schema(after)
    return Pair(here, _build(after), True, True)
