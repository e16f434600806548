# SPDX-License-Identifier: ISC
"""smtplib_.py CASE.json: Python's smtplib, its messages in one session."""
import email.message
import email.policy
import json
import smtplib
import ssl
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    c = json.load(f)
context = ssl.create_default_context(cafile=c["ca"])
try:
    if c["tls"]:
        s = smtplib.SMTP_SSL("localhost", c["port"], context=context)
    else:
        s = smtplib.SMTP("localhost", c["port"])
        s.starttls(context=context)
    with s:
        s.login(c["user"], c["key"])
        for i in range(c["count"]):
            m = email.message.EmailMessage(policy=email.policy.SMTP)
            m["From"] = "Agent <%s>" % c["sender"]
            m["To"], m["Bcc"] = c["rcpt"], c["rcpt"]
            m["Subject"] = "%s %d" % (c["subject"], i)
            m.set_content(c["body"])
            s.send_message(m, from_addr=c["user"])
            print("250 2.6.0")
except smtplib.SMTPResponseException as e:
    print(e.smtp_code, e.smtp_error.decode())
    sys.exit(1)
except smtplib.SMTPException as e:
    print(e)
    sys.exit(1)
