# SPDX-License-Identifier: ISC
"""aiosmtplib_.py CASE.json: aiosmtplib, its messages in one session."""
import asyncio
import email.message
import email.policy
import json
import ssl
import sys

import aiosmtplib


async def main(c):
    s = aiosmtplib.SMTP(
        hostname="localhost", port=c["port"], use_tls=c["tls"],
        start_tls=False,
        tls_context=ssl.create_default_context(cafile=c["ca"]))
    async with s:
        if not c["tls"]:
            await s.starttls()
        await s.login(c["user"], c["key"])
        for i in range(c["count"]):
            m = email.message.EmailMessage(policy=email.policy.SMTP)
            m["From"] = "Agent <%s>" % c["sender"]
            m["To"] = c["rcpt"]
            m["Subject"] = "%s %d" % (c["subject"], i)
            m.set_content(c["body"])
            _, reply = await s.send_message(m, sender=c["user"])
            print(reply)


with open(sys.argv[1], encoding="utf-8") as f:
    case = json.load(f)
try:
    asyncio.run(main(case))
except (aiosmtplib.SMTPException, ValueError) as e:
    print(type(e).__name__, e)
    sys.exit(1)
