# SPDX-License-Identifier: ISC
"""Keys and tokens of decision D2 in Python, so that tests check C against it."""
import hashlib
import os
import struct
import zlib

from nacl import bindings

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def base32(data):
    """One big-endian number, leading zero bits (as ULIDs are)."""
    n = (len(data) * 8 + 4) // 5
    value = int.from_bytes(data, "big")
    return "".join(ALPHABET[value >> (5 * (n - 1 - i)) & 31] for i in range(n))


def unbase32(text, size):
    value = 0
    for c in text:
        value = value << 5 | ALPHABET.index(c)
    return value.to_bytes(size, "big")


def kdf(key, number, context):
    """crypto_kdf_derive_from_key() of libsodium, 32 bytes."""
    return hashlib.blake2b(
        digest_size=32, key=key, salt=struct.pack("<QQ", number, 0),
        person=context.encode().ljust(16, b"\0")).digest()


def auth_of(secret):
    return kdf(secret, 1, "pst.auth")


def token(tenant, key, secret, kind="live"):
    text = "pst_%s_%d_%d_%s" % (kind, tenant, key, base32(secret))
    crc = zlib.crc32(text.encode()) & 0xffffffff
    return text + base32(struct.pack(">I", crc))


def token_secret(text):
    return unbase32(text.split("_")[4][:52], 32)


def pair():
    """A new X25519 pair: public, private."""
    private = os.urandom(32)
    return bindings.crypto_scalarmult_base(private), private


def box(public, data):
    return bindings.crypto_box_seal(data, public)


def box_open(data, public, private):
    return bindings.crypto_box_seal_open(data, public, private)


def wrap(kek, public, private):
    """The inbox's private key under the KEK of its full key."""
    name = b"postern.wrap.1"
    ad = struct.pack(">I", len(name)) + name + public
    nonce = os.urandom(24)
    return nonce + bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(
        private, ad, nonce, kek)


def key_file(path, kind, data, public=False):
    with open(path, "w") as f:
        f.write("postern-%s-1 %s\n" % (kind, base32(data)))
    os.chmod(path, 0o644 if public else 0o600)
