# SPDX-License-Identifier: ISC
"""The database client (store/pg.h) against a real server: tests/store/pool."""
import os
import subprocess

from ..lib import postern


def test_the_client():
    with postern.Deployment(redis=False) as d:
        out = subprocess.run(
            d.as_user([os.path.join(postern.build_dir(), "tests", "store",
                                    "pool"),
                       d.path("sock"), "postgres", "postgres"]),
            stdout=subprocess.PIPE, text=True, timeout=120)
        assert out.returncode == 0, out.stdout
        assert out.stdout.splitlines()[-1].endswith(" 0 failed")
