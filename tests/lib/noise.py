# SPDX-License-Identifier: ISC
"""Mail that zstd cannot make smaller: the largest chunks there are (D7)."""
import random

LINE = 996
HEAD = ("MIME-Version: 1.0\r\nContent-Type: application/octet-stream\r\n"
        "Content-Transfer-Encoding: 8bit\r\n")
# A whole chunk of four segments, each stored as it is.
CHUNK = 4 * (65536 + 21)
_TABLE = bytes(c if c not in b"\0\r\n." else c + 65 for c in range(256))


def lines(size, seed=1):
    """At least `size` random bytes as CRLF lines; none begins with a dot."""
    data = random.Random(seed).randbytes(size).translate(_TABLE)
    return b"".join(data[i:i + LINE] + b"\r\n"
                    for i in range(0, len(data), LINE))
