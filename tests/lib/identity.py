# SPDX-License-Identifier: ISC
"""
Postern-Identity read by code of its own, from docs/formats.md alone: what a
receiver would write who has a mail and the key set.
"""
import base64
import hashlib
import json
import re
import struct

import nacl.exceptions
import nacl.signing

OF_HOSTS = """received return-path delivered-to authentication-results
received-spf arc-* dkim-signature x-spam-* content-length
postern-identity""".split()
OF_READERS = """from sender reply-to to cc bcc subject date message-id
in-reply-to references mime-version content-* auto-submitted list-* resent-*
comments keywords importance priority x-priority x-msmail-priority
x-message-flag sensitivity expires expiry-date reply-by
disposition-notification-* return-receipt-to x-confirm-reading-to errors-to
mail-reply-to mail-followup-to followup-to author organization archived-at
autocrypt face x-face bimi-selector tls-required""".split()


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encode(raw):
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def taken_apart(raw):
    """[(name, value)] with folds inside, and the body with CRLF."""
    raw = re.sub(rb"\r?\n", b"\r\n", raw)
    head, _, body = raw.partition(b"\r\n\r\n")
    fields = []
    for field in re.split(rb"\r\n(?![ \t])", head):
        name, _, value = field.partition(b":")
        fields.append((name.strip(b" \t").lower().decode("latin-1"), value))
    return fields, body


def matches(name, patterns):
    return any(name.startswith(p[:-1]) if p.endswith("*") else name == p
               for p in patterns)


def is_covered(name, more):
    if matches(name, OF_HOSTS):
        return False
    return matches(name, OF_READERS) or more == "*" or name in more.split(":")


def relaxed(value):
    return b" ".join(re.findall(rb"[^ \t\r\n]+", value))


def header_hash(fields, more):
    return hashlib.sha256(b"".join(
        name.encode("latin-1") + b":" + relaxed(value) + b"\r\n"
        for name, value in fields if is_covered(name, more))).digest()


def body_hash(body):
    return hashlib.sha256(re.sub(rb"(\r\n)+\Z", b"", body) + b"\r\n").digest()


def lp(x):
    return struct.pack(">I", len(x)) + x


def rcpt_hash(salt, address, fields):
    lines = [b"".join(relaxed(v) + b"\r\n" for n, v in fields if n == name)
             for name in ("to", "cc")]
    return hashlib.sha256(
        lp(b"postern.identity.1") + lp(salt) + lp(address.encode())
        + lp(lines[0]) + lp(lines[1])).digest()[:16]


def claims_of(raw, keys=None):
    """What the field says; by a key of the set, where that is given."""
    (field,) = [v for n, v in taken_apart(raw)[0] if n == "postern-identity"]
    signed, _, sig = re.sub(rb"\s", b"", field).decode().rpartition(".")
    head, text = (json.loads(decode(x)) for x in signed.split("."))
    if keys is not None:
        (x,) = [k["x"] for k in keys["keys"] if k["kid"] == head["kid"]]
        nacl.signing.VerifyKey(decode(x)).verify(signed.encode(), decode(sig))
    return text


def wrong(raw, keys, recipient):
    """None, or what is not as the field says; `recipient` is canonical."""
    try:
        claims = claims_of(raw, keys)
    except (ValueError, nacl.exceptions.BadSignatureError):
        return "signature"
    fields, body = taken_apart(raw)
    if decode(claims["body_sha256"]) != body_hash(body):
        return "body"
    if decode(claims["header_sha256"]) != header_hash(
            fields, claims["header_more"]):
        return "header"
    if encode(rcpt_hash(decode(claims["salt"]), recipient, fields)) \
            not in claims["recipients"]:
        return "recipient"
    return None
