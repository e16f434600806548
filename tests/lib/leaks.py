# SPDX-License-Identifier: ISC
"""
Every secret that a deployment was given or gave out, in each form in which a
log could show it, and the search for them. A postern.Deployment does it at
its end; `leaks.py STATE` does it for a quickstart.
"""
import base64
import json
import os
import subprocess
import sys

if __package__:
    from . import seals
else:
    import seals


def forms(name, *secrets):
    """{bytes to look for: name}: the text, and bytes in hex and base64."""
    out = {}
    for secret in secrets:
        raw = secret if isinstance(secret, bytes) else secret.encode()
        out[raw] = name
        out[raw.hex().encode()] = name + " in hex"
        out[raw.hex().upper().encode()] = name + " in hex"
        out[base64.b64encode(raw).rstrip(b"=")] = name + " in base64"
        out[base64.urlsafe_b64encode(raw).rstrip(b"=")] = name + " in base64"
        out[seals.base32(raw).encode()] = name + " in base32"
    return out


def of_token(name, text):
    """A whole token, its secret part, and what that part stands for."""
    secret = seals.token_secret(text)
    return {**forms(name, text), **forms(name + " secret", secret),
            **forms(name + " secret part", text.split("_")[4][:52]),
            **forms(name + " proof", seals.auth_of(secret)),
            **forms(name + " key", seals.kdf(secret, 2, "pst.kek1"))}


def of_deployment(d):
    """Keys of inboxes, claim codes, passwords, the operator's session, and
    every file in keys/ that is not a public key."""
    out = {}
    for box in d.claimed:
        out.update(of_token("key", box.key))
        out.update(of_token("smtp_key", box.smtp_key))
        out.update(forms("claim code", box.claim, box.claim_text,
                         box.claim_text.split("_")[1]))
        out.update(forms("inbox key", box.private))
        for who in (box.key, box.smtp_key):
            out.update(forms("AUTH PLAIN", b"\0%s\0%s" % (
                box.address.encode(), who.encode())))
    out.update(forms("operator password", d.operator_password))
    out.update(d.issued)
    if d.with_redis:
        out.update(forms("Redis password", d.redis_password))
    for name in sorted(os.listdir(d.path("keys"))):
        if name.endswith((".pub", ".id")):
            continue
        with open(d.path("keys", name)) as f:
            text = f.read().strip()
        out.update(forms(name, text.split(" ")[-1]))
        if text.startswith("postern-"):
            out.update(forms(name, seals.unbase32(text.split(" ")[1], 32)))
    return out


def suspect(secrets, path):
    """Whether one of them may be in the file: grep reads it once for all of
    them, which it is told through a pipe, where nobody else sees them. A
    pattern has no newline, so of each secret its longest part without one."""
    parts = {max(secret.split(b"\n"), key=len) for secret in secrets}
    r = subprocess.run(["grep", "-aqF", "-f", "-", "--", path],
                       input=b"".join(part + b"\n" for part in parts),
                       env={**os.environ, "LC_ALL": "C"})
    if r.returncode > 1:
        raise OSError("grep %s: %d" % (path, r.returncode))
    return r.returncode == 0


def found(secrets, *folders):
    """["FILE: NAME"] of what is in a file below the folders."""
    out = []
    for folder in folders:
        for at, _, names in os.walk(folder):
            for name in sorted(names):
                path = os.path.join(at, name)
                if not suspect(secrets, path):
                    continue
                with open(path, "rb") as f:
                    data = f.read()
                out += ["%s: %s" % (name, what)
                        for secret, what in secrets.items() if secret in data]
    return out


def of_quickstart(state):
    """Everything secret in the state folder of deploy/quickstart."""
    with open(os.path.join(state, "quickstart.json")) as f:
        doc = json.load(f)
    out = {**of_token("key", doc["key"]),
           **of_token("smtp_key", doc["smtp_key"]),
           **forms("operator password", doc["operator_password"])}
    for folder in ("secrets", "keys"):
        for at, name in (
                (at, name) for at, _, names in
                os.walk(os.path.join(state, folder)) for name in names):
            if name.endswith((".pub", ".id")):
                continue
            with open(os.path.join(at, name)) as f:
                text = f.read().strip()
            out.update(forms(name, text.split(" ")[-1]))
            if text.startswith("postern-"):
                out.update(forms(name, seals.unbase32(
                    text.split(" ")[1], 32)))
    return out


def main(state):
    secrets = of_quickstart(state)
    control = os.path.join(state, "leak-control")
    os.mkdir(control)
    with open(os.path.join(control, "log"), "wb") as f:
        f.write(b"\n".join(secrets))
    seen = found(secrets, control)
    os.unlink(os.path.join(control, "log"))
    os.rmdir(control)
    if len(seen) != len(secrets):
        sys.exit("the search does not find what it looks for")
    out = found(secrets, os.path.join(state, "log"))
    print("%d forms of secrets looked for; found: %s" % (
        len(secrets), out or "none"))
    return 1 if out else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
