# SPDX-License-Identifier: ISC
"""A deployment whose mail goes to a fake smarthost, for the worker's tests."""
import http.client
import json
import os
import smtplib
import socket
import ssl
import uuid

import nacl.signing
import psycopg2
import psycopg2.extras

from tests.fake.mx import FakeMx
from tests.lib import postern, seals

STATES = {1: "held", 2: "approved", 3: "rejected", 4: "expired",
          5: "canceled", 7: "sending", 8: "sent", 9: "deferred",
          10: "bounced", 11: "uncertain"}
USER, PASSWORD = "relay", "smarthost secret"


class Relaying(postern.Deployment):
    """posternd and a fake smarthost run; start_worker() starts the third."""

    def __init__(self, lease="5m", implicit_tls=False, one_connection=True,
                 identity=False, **deliver):
        self.one_connection = one_connection
        super().__init__()
        secret = self.path("keys", "smarthost.password")
        with open(secret, "w") as f:
            f.write(PASSWORD + "\n")
        os.chmod(secret, 0o600)
        self._own(secret)
        self.mx = FakeMx(self.path("tls", "cert.pem"),
                         self.path("tls", "key.pem"), login=(USER, PASSWORD),
                         implicit_tls=implicit_tls)
        values = dict(
            smarthost="localhost:%d" % self.mx.port, smarthost_user=USER,
            smarthost_password_file=secret, smarthost_ca_file=self.ca_file,
            allow_address=["127.0.0.0/8"], lease=lease)
        values.update(deliver)
        self.set_conf("deliver", **values)
        if identity:
            self.sign_identity()
        self.add_tenant("acme", "acme.example")
        self.box = self.add_inbox("bot@acme.example")
        self.set_mode(self.box, 4)
        self.start("posternd")

    def sign_identity(self):
        seed = os.urandom(32)
        for name, kind, data in (
                ("identity.key", "identity-key", seed),
                ("identity.pub", "identity-pub",
                 bytes(nacl.signing.SigningKey(seed).verify_key))):
            path = self.path("keys", name)
            seals.key_file(path, kind, data, name.endswith(".pub"))
            if not name.endswith(".pub"):
                self._own(path)
        self.set_conf("keys", identity_key_file=self.path(
            "keys", "identity.key"), identity_pub_file=self.path(
            "keys", "identity.pub"))

    def sql(self, query, *args, user="postgres", database="postern"):
        """As Deployment.sql(), on one connection a user; not where the
        server is stopped and killed."""
        if database != "postern" or not self.one_connection:
            return super().sql(query, *args, user=user, database=database)
        kept = self.__dict__.setdefault("connections", {})
        if user not in kept or kept[user].closed:
            kept[user] = self.connect(user)
        try:
            with kept[user].cursor(
                    cursor_factory=psycopg2.extras.RealDictCursor) as cur:
                cur.execute(query, args or None)
                return cur.fetchall() if cur.description else []
        except psycopg2.OperationalError:
            kept.pop(user).close()
            raise

    def start_worker(self):
        self.worker = self.start("postern-deliver")
        return self.worker

    def signed_in(self, *words, ok=True):
        """posternctl as the operator; its output."""
        path = self.path("session")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600),
                  "w") as f:
            f.write(seals.base32(self.session))
        try:
            return self.ctl(*words, session=path)
        except RuntimeError as e:
            if ok:
                raise
            return str(e)
        finally:
            with open(path) as f:  # another one after a step-up
                self.keep_session(seals.unbase32(f.read().strip(), 32))

    def fresh_box(self):
        """An inbox takes 20 messages an hour; tests send more."""
        self.used = getattr(self, "used", 0) + 1
        if self.used % 10 == 0:
            self.box = self.add_inbox("bot%d@acme.example" % self.used)
            self.set_mode(self.box, 4)
        return self.box

    def submit(self, rcpts=("ann@dest.example",), body="Hello\r\n",
               subject="Report", raw=None, box=None, notify=None, ret=None,
               params=()):
        """Through port 465; the message's uuid."""
        box = box or self.fresh_box()
        before = {m["message_id"] for m in self.messages()}
        context = ssl.create_default_context(cafile=self.ca_file)
        with smtplib.SMTP_SSL("localhost", self.smtps_port,
                              context=context) as s:
            s.login(box.address, box.smtp_key)
            data = raw.replace(b"@BOX@", box.address.encode()) if raw else (
                "From: <%s>\r\nTo: %s\r\nSubject: %s\r\n\r\n%s" % (
                    box.address, ", ".join("<%s>" % r for r in rcpts),
                    subject, body)).encode()
            for left in (2, 1, 0):
                try:
                    s.sendmail(box.address, list(rcpts), data,
                               (["RET=" + ret] if ret else [])
                               + list(params),
                               ["NOTIFY=" + notify] if notify else [])
                    break
                except smtplib.SMTPDataError as e:
                    # A busy machine: the limiter has 50 ms to answer.
                    if e.smtp_code != 451 or left == 0:
                        raise
        now = {m["message_id"] for m in self.messages()}
        (mid,) = now - before
        return mid

    def submit_rest(self, box, rcpt="ann@dest.example", **fields):
        """Through POST /v1/messages/send; the message's uuid."""
        context = ssl.create_default_context(cafile=self.ca_file)
        c = http.client.HTTPSConnection("127.0.0.1", self.api_port,
                                        timeout=20, context=context)
        try:
            c.request("POST", "/v1/messages/send", json.dumps({
                "to": [rcpt], "subject": "Report", "text": "Hello\n",
                **fields}), {"Authorization": "Bearer " + box.key,
                             "Content-Type": "application/json"})
            doc = json.loads(c.getresponse().read())
        finally:
            c.close()
        assert "message_id" in doc, doc
        return str(uuid.UUID(bytes=seals.unbase32(doc["message_id"][4:], 16)))

    def rest(self, box, path, raw=False):
        """GET with the inbox's key; the document, or the bytes."""
        context = ssl.create_default_context(cafile=self.ca_file)
        c = http.client.HTTPSConnection("127.0.0.1", self.api_port,
                                        timeout=20, context=context)
        try:
            c.request("GET", path, headers={
                "Authorization": "Bearer " + box.key})
            data = c.getresponse().read()
            return data if raw else json.loads(data)
        finally:
            c.close()

    def wake(self):
        """As a program that released something would say it."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.redis_socket)
            s.sendall(b"PUBLISH wake 0\r\n")
            assert s.recv(16).startswith(b":")

    def due(self, mid):
        """As if the undo window, or the time to the next try, were over."""
        rows = self.sql("UPDATE d.send_q SET due_at = clock_timestamp() "
                        "WHERE message_id = %s AND lease IS NULL "
                        "RETURNING 1", mid)
        assert rows, "nothing of %s is queued" % mid
        self.wake()

    def claimable(self, mid):
        """Would any worker get it now? The row is put back as it was."""
        c = self.connect("l_worker")
        c.autocommit = False
        try:
            with c.cursor() as cur:
                cur.execute("SELECT message_id FROM "
                            "api.claim_due_1('probe', 500, 60)")
                return mid in [row[0] for row in cur.fetchall()]
        finally:
            c.rollback()
            c.close()

    def audit(self, mid):
        """Actor kind and event of each row about it, in order."""
        return ["%s %s" % (row["actor"].split(":")[0], row["event"])
                for row in self.sql(
                    "SELECT actor, event FROM d.audit WHERE message_id = %s "
                    "ORDER BY at, n", mid)]

    def forget_queue(self):
        """What a test leaves there is tried again a minute later: on a slow
        machine in the midst of another, which counts what comes."""
        self.sql("DELETE FROM d.send_q WHERE lease IS NULL")

    def assert_settled(self, mid):
        """No lease, nothing marked, no attempt left open."""
        assert not self.sql("SELECT 1 FROM d.send_q WHERE message_id = %s AND "
                            "lease IS NOT NULL", mid)
        assert not self.sql("SELECT 1 FROM d.delivery WHERE message_id = %s "
                            "AND status IN (1, 2)", mid)
        assert not self.sql("SELECT 1 FROM d.attempt WHERE message_id = %s "
                            "AND ended_at IS NULL", mid)

    def state(self, mid):
        return STATES[self.sql("SELECT state FROM d.state WHERE message_id "
                               "= %s", mid)[0]["state"]]

    def wait_state(self, mid, *names, timeout=20):
        try:
            return postern.wait_until(
                "%s of %s" % (" or ".join(names), mid),
                lambda: self.state(mid) in names and self.state(mid), timeout)
        except AssertionError as e:
            raise AssertionError("%s, is %s; the smarthost saw %s; the worker "
                                 "said\n%s" % (e, self.state(mid),
                                 self.mx.verbs[-12:], "\n".join(
                                     str(x) for x in self.worker.lines[-12:]))
                                 ) from None

    def deliveries(self, mid):
        return self.sql("SELECT * FROM d.delivery WHERE message_id = %s "
                        "ORDER BY ix", mid)

    def close(self):
        if hasattr(self, "mx"):
            self.mx.close()
        for c in self.__dict__.pop("connections", {}).values():
            c.close()
        super().close()
