#!/usr/bin/python3
# SPDX-License-Identifier: ISC
"""A smarthost that keeps what it is given: NNNNNN.eml and NNNNNN.json.

capture.py --listen HOST:PORT --dir DIR --cert FILE --key FILE
           --user NAME --password-file FILE

STARTTLS and AUTH are required. The .eml holds the bytes as received, with no
header added; both files appear complete, by rename, the .json last. Each
arrival prints one line.
"""
import argparse
import asyncio
import hmac
import json
import os
import pathlib
import signal
import ssl
import time

from aiosmtpd.controller import UnthreadedController
from aiosmtpd.smtp import SMTP, AuthResult

SIZE_MAX = 64 * 1024 * 1024


class Store:
    """Numbers and writes messages; survives restarts without reusing one."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        names = [p.stem for p in self.folder.glob("*.eml")]
        self.last = max([int(n) for n in names if n.isdigit()], default=0)

    def write(self, name, data):
        temporary = self.folder / ("." + name)
        with open(temporary, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        temporary.rename(self.folder / name)

    async def handle_DATA(self, server, session, envelope):
        self.last += 1
        number = f"{self.last:06d}"
        note = {
            "mail_from": envelope.mail_from,
            "rcpt_tos": envelope.rcpt_tos,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        self.write(number + ".eml", envelope.original_content)
        self.write(number + ".json", json.dumps(note).encode() + b"\n")
        print(
            f"captured {number}.eml from {envelope.mail_from} to "
            + ", ".join(envelope.rcpt_tos),
            flush=True,
        )
        return f"250 2.0.0 captured as {number}"


def authenticator(user, password):
    def check(server, session, envelope, mechanism, data):
        good = hmac.compare_digest(data.login, user) & hmac.compare_digest(
            data.password, password
        )
        return AuthResult(success=good, handled=False)

    return check


def main():
    p = argparse.ArgumentParser()
    for name in ("listen", "dir", "cert", "key", "user", "password-file"):
        p.add_argument("--" + name, required=True)
    args = p.parse_args()
    host, _, port = args.listen.rpartition(":")
    password = pathlib.Path(args.password_file).read_bytes().strip()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(args.cert, args.key)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def factory():
        return SMTP(
            store,
            loop=loop,
            hostname="capture.localhost",
            tls_context=tls,
            require_starttls=True,
            auth_required=True,
            auth_require_tls=True,
            authenticator=authenticator(args.user.encode(), password),
            data_size_limit=SIZE_MAX,
            enable_SMTPUTF8=True,
        )

    store = Store(args.dir)
    controller = UnthreadedController(
        store, hostname=host, port=int(port), loop=loop
    )
    controller.factory = factory
    controller.begin()
    print(f"ready on {args.listen}", flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, loop.stop)
    loop.run_forever()
    controller.end()


if __name__ == "__main__":
    main()
