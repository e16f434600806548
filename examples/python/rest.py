#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""Send by REST with requests, safe to repeat, and see what becomes of it."""
import os
import uuid

import requests

api = requests.Session()
api.headers["Authorization"] = "Bearer " + os.environ["POSTERN_KEY"]
url = os.environ["POSTERN_URL"]

# one key for one mail, however often the request has to be repeated
key = str(uuid.uuid4())
mail = {"to": ["ann@example.org"], "subject": "From requests",
        "text": "Hello.", "html": "<p>Hello.</p>",
        "context": {"purpose": "an example"}}
for attempt in range(3):
    try:
        reply = api.post(url + "/v1/messages/send", json=mail, timeout=30,
                         headers={"Idempotency-Key": key})
    except requests.ConnectionError:
        continue
    if reply.status_code != 503:
        break
reply.raise_for_status()
sent = reply.json()
print(sent["status"], sent["message_id"])

news = api.get(url + "/v1/wait", timeout=60, params={
    "message_id": sent["message_id"], "timeout": 1}).json()
print("nothing yet" if news["timed_out"] else news["events"][0]["type"])
