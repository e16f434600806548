# SPDX-License-Identifier: ISC
"""One cluster and one world (two tenants, two inboxes each) a run."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "lib"))

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pgcluster  # noqa: E402


@pytest.fixture(scope="session")
def db():
    with pgcluster.Cluster(fast=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def w(db):
    return pgcluster.World(db)


@pytest.fixture()
def x(w):
    """A fresh inbox of the first tenant."""
    w.count = getattr(w, "count", 0) + 1
    return w.inbox(w.tenants[0], "fresh%d@t0.example" % w.count)


@pytest.fixture(scope="session")
def su(db):
    return db.connect("postgres")


def pytest_addoption(parser):
    parser.addoption("--seed", type=int,
                     default=int(os.environ.get("POSTERN_SEED", "1")))
    parser.addoption("--calls", type=int, default=5000)
