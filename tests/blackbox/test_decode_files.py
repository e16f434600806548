# SPDX-License-Identifier: ISC
"""What postern-decode lists of archives, behind its sandbox."""
import ctypes
import ctypes.util
import gzip
import io
import os
import tarfile
import zipfile

import pytest

from tests.blackbox.test_decode import decode

CUT = 2


def listing(data, **how):
    return decode("", data, kind=4, **how)


def zipped(*names, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name in names:
            z.writestr(name, b"some text " * 50)
    return out.getvalue()


def tarred(mode, *names):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as t:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 500
            t.addfile(info, io.BytesIO(b"x" * 500))
    return out.getvalue()


def written(kind, *names):
    """By libarchive itself: kinds that Python does not write."""
    lib = ctypes.CDLL(ctypes.util.find_library("archive"))
    p, size = ctypes.c_void_p, ctypes.c_size_t
    for f in ("archive_write_new", "archive_entry_new"):
        getattr(lib, f).restype = p
    a, buf, used = p(lib.archive_write_new()), ctypes.create_string_buffer(
        1 << 16), size()
    assert getattr(lib, "archive_write_set_format_" + kind)(a) == 0
    assert lib.archive_write_open_memory(
        a, buf, size(1 << 16), ctypes.byref(used)) == 0
    for name in names:
        e = p(lib.archive_entry_new())
        lib.archive_entry_set_pathname(e, name.encode())
        lib.archive_entry_set_filetype(e, 0o100000)
        lib.archive_entry_set_size(e, ctypes.c_int64(5))
        assert lib.archive_write_header(a, e) == 0
        lib.archive_write_data(a, b"hello", size(5))
        lib.archive_entry_free(e)
    assert lib.archive_write_close(a) == 0
    lib.archive_write_free(a)
    return buf.raw[:used.value]


NAMES = ("a.txt", "folder/b.exe")
LINES = "E a.txt\nE folder/b.exe\n"
KINDS = {
    "zip": lambda: zipped(*NAMES),
    "zip-stored": lambda: zipped(*NAMES, method=zipfile.ZIP_STORED),
    "tar": lambda: tarred("w", *NAMES),
    "tar.gz": lambda: tarred("w:gz", *NAMES),
    "tar.bz2": lambda: tarred("w:bz2", *NAMES),
    "tar.xz": lambda: tarred("w:xz", *NAMES),
    "7z": lambda: written("7zip", *NAMES),
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_kinds(kind):
    assert listing(KINDS[kind]()) == (0, 0, LINES)


def test_names_in_other_letters():
    names = ("r\u00e9sum\u00e9.pdf", "\u898b\u7a4d\u66f8.xlsx",
             "safe\u202egpj.exe")
    want = "".join("E %s\n" % n for n in names)
    assert listing(zipped(*names)) == (0, 0, want)
    assert listing(tarred("w", *names)) == (0, 0, want)
    status, flags, text = listing(zipped("line\nE forged.exe"))
    assert (status, text) == (0, "E line E forged.exe\n")


def test_encrypted_is_said():
    plain = bytearray(zipped("secret.txt"))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        plain[plain.index(mark) + at] |= 1
    assert listing(bytes(plain)) == (0, 0, "E secret.txt\nS encrypted\n")


def test_what_is_none_or_broken():
    assert listing(b"hello") == (0, 0, "S unreadable\n")
    assert listing(b"") in ((0, 0, "S unreadable\n"), (0, 0, ""))
    whole = tarred("w:gz", *NAMES)
    status, flags, text = listing(whole[:len(whole) // 2])
    assert status == 0 and text.endswith("S unreadable\n")
    for seed in range(40):
        bent = bytearray(KINDS[sorted(KINDS)[seed % len(KINDS)]]())
        for i in range(seed % 7, len(bent), 37 + seed):
            bent[i] ^= 1 << seed % 8
        status, _, text = listing(bytes(bent))
        assert status in (0, 65) and (text is None or "\0" not in text)


def test_bounded():
    status, flags, text = listing(zipped(*("n%04d.txt" % i
                                           for i in range(900))))
    assert (status, flags) == (0, CUT) and text.count("\n") == 500
    # a small file that would be large: only its headers are wanted, and a
    # stream that has to be unpacked to get at them ends with the time limit
    bomb = gzip.compress(tarred("w", "x") + bytes(1 << 28))
    status, _, text = listing(bomb)
    assert status != 0 or text.startswith("E x\n")


def test_any_file_has_an_end():
    for size in (1, 100, 100000):
        status, _, text = listing(os.urandom(size))
        assert status == 0 and text == "S unreadable\n"
