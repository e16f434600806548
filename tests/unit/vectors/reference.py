#!/usr/bin/python3
# SPDX-License-Identifier: ISC
"""The byte encodings of docs/formats.md once more, by other libraries.

Prints `name hex` lines; tests/unit/seal/test_vectors.c holds the same values.
"""
import binascii
import hashlib
import hmac
import struct

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def u16(v): return struct.pack(">H", v)
def u32(v): return struct.pack(">I", v)
def u64(v): return struct.pack(">Q", v)
def lp(b): return u32(len(b)) + b


def base32(b):
    n, value = (len(b) * 8 + 4) // 5, int.from_bytes(b, "big")
    return "".join(ALPHABET[value >> 5 * i & 31] for i in reversed(range(n)))


def kdf(key, number, context):
    """crypto_kdf of libsodium: BLAKE2b, salt = number, person = context."""
    return hashlib.blake2b(b"", digest_size=32, key=key,
                           salt=number.to_bytes(8, "little") + bytes(8),
                           person=context + bytes(8)).digest()


S = bytes(range(32))
DEPLOYMENT = bytes(range(16))
MESSAGE = bytes.fromhex("01890000000070008000000000000001")
KEY = bytes([7]) * 32
TENANT, INBOX, VERSION, ROUND, EPOCH = 3, 9, 1, 2, 5
EXPIRY = 1700000000000000

token = f"pst_live_3_12_{base32(S)}"
token += base32(struct.pack(">I", binascii.crc32(token.encode())))
message_key = hashlib.blake2b(
    lp(b"postern.msg.1") + DEPLOYMENT + u64(TENANT) + u64(INBOX) + MESSAGE +
    u16(VERSION), digest_size=32, key=KEY).digest()
body_tag = hashlib.blake2b(b"From: a\r\n\r\nhi\r\n", digest_size=32,
                           key=message_key).digest()
rcpts = [b"a@x.example", b"b@x.example"]
digest = hashlib.sha256(
    lp(b"postern.digest.1") + u64(TENANT) + u64(INBOX) + MESSAGE +
    u16(VERSION) + b"\0" + lp(b"bot@example.org") + u32(len(rcpts)) +
    b"".join(map(lp, rcpts)) + lp(b"") + u64(15) + lp(body_tag) + u64(0) +
    u64(0)).digest()
fields = (DEPLOYMENT + u32(EPOCH) + u64(TENANT) + u64(INBOX) + MESSAGE +
          u16(VERSION) + u32(ROUND) + digest + u64(EXPIRY))
approve = hmac.new(KEY, lp(b"postern.approve.1") + fields,
                   "sha256").digest()
policy = hmac.new(KEY, lp(b"postern.policy.1") + fields + u16(4) + u32(6),
                  "sha256").digest()
row = hashlib.sha256(
    lp(b"postern.audit.1") + u64(1) + u64(2) + u64(3) + u64(TENANT) +
    u64(EXPIRY) + lp(b"op:1") + lp(b"message.approved") + lp(MESSAGE) +
    lp(b"{}")).digest()
block = hashlib.sha256(bytes(32) + row).digest()

print("token", token)
for name, value in (("auth", kdf(S, 1, b"pst.auth")),
                    ("kek", kdf(S, 2, b"pst.kek1")),
                    ("idem", kdf(S, 3, b"pst.idem")),
                    ("message_key", message_key), ("body_tag", body_tag),
                    ("digest", digest), ("approve", approve),
                    ("policy", policy), ("row", row), ("block", block)):
    print(name, value.hex())
