# SPDX-License-Identifier: ISC
"""The search of logs finds what was planted there, and nothing else."""
import hashlib
import os

import pytest

from tests.lib import leaks

NOISE = b"".join(b'{"event":"x","id":"%s"}\n' % hashlib.sha256(
    b"%d" % i).hexdigest().encode() for i in range(20))
# Whatever a key may consist of: what grep could take for an end of its own.
KEYS = [bytes([b]) + b"key" + bytes([b, b]) + b"y" + bytes([b])
        for b in range(256)] + [b"\n\n", b"a\nb"]


def secrets():
    out = {}
    for i in range(10):
        key = hashlib.sha256(b"secret %d" % i)
        out.update(leaks.forms("key %d" % i, key.digest(), key.hexdigest()))
    return out


@pytest.fixture
def log(tmp_path):
    (tmp_path / "below").mkdir()
    return tmp_path / "below" / "log"


def test_any_bytes(log):
    for i, key in enumerate(KEYS):
        beside = (b"", b"\n", b"\0", b"\xff")[i % 4]
        log.write_bytes(NOISE + beside + key + beside + b"rest")
        assert leaks.found({key: "it", b"another": "other"},
                           log.parent.parent) == ["log: it"]
        log.write_bytes(NOISE + b"!" + key[:-1])
        assert leaks.found({key: "it"}, log.parent.parent) == []


def test_each_form_among_many(log):
    many = secrets()
    log.write_bytes(NOISE)
    assert leaks.found(many, log.parent) == []
    for secret, name in many.items():
        log.write_bytes(NOISE + b"x" + secret + b"y")
        assert leaks.found(many, log.parent) == ["log: " + name]


def test_what_cannot_be_read_is_not_clean(log):
    os.symlink("nowhere", log)
    with pytest.raises(OSError):
        leaks.found(secrets(), log.parent)
