# SPDX-License-Identifier: ISC
"""
Setting up where others rule: a PostgreSQL whose superuser is somebody else.
What init does on an empty host is in tests/package.
"""
import re

import pytest

from tests.blackbox.test_ctl import Site


@pytest.fixture(scope="module")
def site():
    s = Site()
    s.ok("keygen")
    yield s
    s.close()


def managed(site, *more):
    return site.run("migrate", "--superuser", "manager", *more)


def test_managed_postgresql(site):
    """Each step that was refused is named, and what can be, is done."""
    site.sql("CREATE ROLE manager LOGIN CREATEROLE CREATEDB")
    site.sql("ALTER DATABASE postern OWNER TO manager")
    done = managed(site)
    assert done.returncode == 1
    assert "settings that exist inside one call" in done.stderr, done.stderr
    assert "permission denied" in done.stderr
    # Its people run what is printed, once.
    roles = site.ok("migrate", "--show-roles")
    grant = re.search(r"GRANT SET ON PARAMETER[^;]*;", roles)[0]
    for role in re.findall(r"\bp_\w+", grant):
        site.sql("CREATE ROLE %s NOLOGIN NOINHERIT" % role)
        site.sql("GRANT %s TO manager" % role)
    site.sql(grant.replace(";", ", manager WITH GRANT OPTION;"))
    done = managed(site)
    assert done.returncode == 0, done.stderr + done.stdout
    lacks = re.findall(r"^lacks the right to: (.*) \(", done.stdout, re.M)
    assert "sessions cannot see, end or signal each other" in lacks
    assert "a failover is told from a copy by itself" in lacks
    assert site.rows("ready")[0]["durable"] is True
    # Nothing is lacking for who may do all of it.
    assert "lacks" not in site.ok("migrate", "--superuser", "postgres")


def test_status_names_who_is_down(site):
    done = site.run("--json", "status")
    assert done.returncode == 1
    for program in ("posternd", "postern-admin", "postern-deliver"):
        assert re.search(r'"%s",\s*"state": "down"' % program, done.stdout)
    assert re.search(r'"database",\s*"state": "ok"', done.stdout)
