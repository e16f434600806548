#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""Send by SMTP with nothing but Python's library."""
import os
import smtplib
import ssl
from email.message import EmailMessage

inbox = os.environ["POSTERN_INBOX"]
host, _, port = os.environ["POSTERN_SMTPS"].rpartition(":")

mail = EmailMessage()
mail["From"] = inbox
mail["To"] = "ann@example.org"
mail["Subject"] = "From smtplib"
mail.set_content("Hello.\n")

context = ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE"))
with smtplib.SMTP_SSL(host, int(port), context=context) as server:
    # the password is the inbox's send key
    server.login(inbox, os.environ["POSTERN_SMTP_KEY"])
    server.send_message(mail)
print("taken: it is held until a person approves it, so do not resend")
