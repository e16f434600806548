# SPDX-License-Identifier: ISC
"""A deployment whose mail goes to a fake smarthost, for the worker's tests."""
import os
import smtplib
import ssl

from tests.fake.mx import FakeMx
from tests.lib import postern

STATES = {1: "held", 2: "approved", 3: "rejected", 4: "expired",
          5: "canceled", 7: "sending", 8: "sent", 9: "deferred",
          10: "bounced", 11: "uncertain"}
USER, PASSWORD = "relay", "smarthost secret"


class Relaying(postern.Deployment):
    """posternd and a fake smarthost run; start_worker() starts the third."""

    def __init__(self, lease="5m", implicit_tls=False, **deliver):
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
        self.add_tenant("acme", "acme.example")
        self.box = self.add_inbox("bot@acme.example")
        self.set_mode(self.box, 4)
        self.start("posternd")

    def start_worker(self):
        self.worker = self.start("postern-deliver")
        return self.worker

    def fresh_box(self):
        """An inbox takes 20 messages an hour; tests send more."""
        self.used = getattr(self, "used", 0) + 1
        if self.used % 10 == 0:
            self.box = self.add_inbox("bot%d@acme.example" % self.used)
            self.set_mode(self.box, 4)
        return self.box

    def submit(self, rcpts=("ann@dest.example",), body="Hello\r\n",
               subject="Report", raw=None, box=None):
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
                    s.sendmail(box.address, list(rcpts), data)
                    break
                except smtplib.SMTPDataError as e:
                    # A busy machine: the limiter has 50 ms to answer.
                    if e.smtp_code != 451 or left == 0:
                        raise
        now = {m["message_id"] for m in self.messages()}
        (mid,) = now - before
        return mid

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
        super().close()
