# SPDX-License-Identifier: ISC
"""
One form sent twice, where the first changes the session's secret: whichever
answer of the database postern-admin reads first, both are told what was done,
and it is done once (docs/decisions/0124).
"""
import base64
import contextlib
import copy
import hashlib
import hmac
import os
import re
import threading
import time

import pytest

from tests.lib import postern, seals
from tests.lib.hop import Hop
from tests.lib.pages import Pages
from tests.lib.process import free_port
from tests.lib.relaying import Relaying

ORDERS = ("first", "second")
NEW = "another long pass phrase"


class House(Relaying):
    def __init__(self):
        super().__init__()
        self.sql("UPDATE d.inbox SET lim_hour = 1000, lim_held = 1000")
        self.hop = Hop(self)
        self.set_conf("store", socket=self.hop.path)
        self.start("postern-auth")
        self.start("postern-admin")
        self.set_conf("store", socket=self.path("sock"))
        self.people = 0
        self.nobody = copy.copy(self.person())
        self.nobody.cookie = ""

    def person(self, role="admin"):
        """Somebody new, signed in: what one test breaks is no other's."""
        self.people += 1
        name = "p%d" % self.people
        self.step_up()
        salt, params = b"s" * 16, "argon2id m=19456 t=2 p=1"
        self.api("operator_add_1", self.session, os.geteuid(), name, salt,
                 params, hashlib.sha256(self._output(
                     salt, params, self.operator_password)).digest(),
                 role, None, None)
        return Pages(self, name)

    def close(self):
        if hasattr(self, "hop"):
            self.hop.close()
        super().close()


@pytest.fixture(scope="module")
def house():
    with House() as it:
        yield it


class Press(threading.Thread):
    def __init__(self, pages, path, form):
        super().__init__(daemon=True)
        self.args, self.pages = ("POST", path, form), pages
        self.start()

    def run(self):
        self.status, self.headers, self.text = self.pages.call(*self.args)
        self.to = self.headers["Location"]
        self.cookie = self.headers["Set-Cookie"]

    def end(self):
        self.join(20)
        assert not self.is_alive(), "no answer to %s" % self.args[1]
        return self


def token(pages, at="/account"):
    status, _, text = pages.call("GET", at)
    assert status == 200, (at, status)
    return re.search('name="csrf" value="([^"]+)"', text)[1]


def suspend(house, pages, **more):
    """(path, form) of one that asks for the password."""
    at = "/inbox/%d.%d" % (house.box.tenant_id, house.box.inbox_id)
    return at + "/suspend", {
        "csrf": token(pages, at), "to": "on", "reason": "pressed twice",
        "password": house.operator_password, **more}


def code(secret, ahead=0):
    """RFC 6238."""
    key = base64.b32decode(secret.replace(" ", ""))
    mac = hmac.new(key, (int(time.time()) // 30 + ahead).to_bytes(8, "big"),
                   "sha1").digest()
    at = mac[19] & 15
    return "%06d" % ((int.from_bytes(mac[at:at + 4], "big") & 0x7fffffff)
                     % 1000000)


def with_codes(house):
    """Somebody who has a second factor, signed in, and recovery codes."""
    pages = house.person()
    status, headers, text = pages.call("POST", "/account/totp", {
        "csrf": token(pages), "password": house.operator_password})
    pages.cookie = headers["Set-Cookie"].split(";")[0]
    secret = re.search('id="secret">([^<]+)<', text)[1]
    status, headers, text = pages.call("POST", "/account/totp-ok", {
        "csrf": token(pages), "confirm": code(secret)})
    assert status == 200, text
    pages.cookie = headers["Set-Cookie"].split(";")[0]
    return pages, re.search(r'id="codes">\s*([^<]+)<', text)[1].split()


def by_password(house):
    pages = house.person()
    return pages, "step_up_password_1", *suspend(house, pages)


def by_code(house):
    pages, codes = with_codes(house)
    path, form = suspend(house, pages, code=codes[0])
    del form["password"]
    return pages, "recovery_use_1", path, form


def by_signing_in(house):
    """The second factor of a sign-in."""
    pages, codes = with_codes(house)
    pages.cookie = ""
    status, headers, _ = pages.call("POST", "/login", {
        "name": "p%d" % house.people, "password": house.operator_password})
    assert headers["Location"] == "/login/second"
    pages.cookie = headers["Set-Cookie"].split(";")[0]
    return pages, "recovery_use_1", "/login/second", {
        "csrf": token(pages, "/login/second"), "code": codes[0],
        "return_to": "/inboxes"}


def new_password(house):
    pages = house.person()
    return pages, "password_set_1", "/account/password", {
        "csrf": token(pages), "old": house.operator_password, "new": NEW,
        "again": NEW}


FORMS = (by_password, by_code, by_signing_in, new_password)


@contextlib.contextmanager
def locked(house, function):
    """Nobody's step-up goes on while it runs."""
    tables = ("d.operator_factor",) if function == "totp_done_1" else (
        "d.operator_session", "d.operator", "d.operator_recovery")
    lock = house.connect()
    lock.autocommit = False
    with lock.cursor() as cur:
        cur.execute("LOCK TABLE %s IN SHARE MODE" % ", ".join(tables))
    try:
        yield
    finally:
        lock.rollback()
        lock.close()


def both_ask(house, function, presses):
    """The answers to both, in the order in which they were done."""
    house.hop.hold(function)
    with locked(house, function):
        threads = [Press(*p) for p in presses]
        postern.wait_until("both ask", lambda: len(house.sql(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND query LIKE %s", "%" + function + "%")) == 2)
    return threads, house.hop.wait(2)


def turn(house):
    """What was sent to postern-admin has been read."""
    for _ in range(2):
        assert house.nobody.call("GET", "/login")[0] == 200


def let_go(house, held):
    for h in held:
        h.go.set()
        turn(house)


@pytest.fixture(autouse=True)
def nothing_held(house):
    yield
    house.hop.hold()


def same(house, pages, threads):
    """Both were told the same, and one of them has the session."""
    one, two = [t.end() for t in threads]
    assert (one.status, two.status) == (303, 303), (one.text, two.text)
    assert one.to == two.to and "error" not in one.to, (one.to, two.to)
    cookies = [c for c in (one.cookie, two.cookie) if c]
    assert len(cookies) == 1, cookies
    pages.cookie = cookies[0].split(";")[0]
    assert pages.call("GET", one.to)[0] == 200
    return one


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("make", FORMS)
def test_both_are_let_in(house, make, order):
    pages, function, path, form = make(house)
    threads, held = both_ask(house, function, [(pages, path, form)] * 2)
    let_go(house, held if order == "first" else held[::-1])
    same(house, pages, threads)


@pytest.mark.parametrize("make", FORMS)
def test_the_second_comes_before_the_first_has_its_answer(house, make):
    """It is done, but postern-admin has not read so."""
    pages, function, path, form = make(house)
    house.hop.hold(function)
    one = Press(pages, path, form)
    held = house.hop.wait(1)
    gate = "factor_state_1" if path == "/login/second" else "session_touch_1"
    n = house.hop.count(gate)
    two = Press(pages, path, form)
    postern.wait_until("the second is looked at",
                       lambda: house.hop.count(gate) > n)
    turn(house)
    let_go(house, held)
    old = copy.copy(pages)
    told = same(house, pages, [one, two])
    # And once more, when all is over.
    assert Press(old, path, form).end().to == told.to


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_shown_once(house, order):
    """The recovery codes are the answer to one; the other says: sent twice."""
    pages = house.person()
    form = {"csrf": token(pages), "password": house.operator_password}
    status, headers, text = pages.call("POST", "/account/totp", form)
    pages.cookie = headers["Set-Cookie"].split(";")[0]
    form["confirm"] = code(re.search('id="secret">([^<]+)<', text)[1])
    del form["password"]
    threads, held = both_ask(house, "totp_done_1", [
        (pages, "/account/totp-ok", form)] * 2)
    let_go(house, held if order == "first" else held[::-1])
    shown, late = sorted((t.end() for t in threads), key=lambda t: t.status)
    assert (shown.status, late.status) == (200, 409)
    assert 'id="codes"' in shown.text and shown.cookie
    assert "Sent twice" in late.text and not late.cookie


def making(house, pages):
    """(path, form) of a new inbox."""
    house.boxes = getattr(house, "boxes", 0) + 1
    return "/inboxes/new", {
        "csrf": token(pages, "/inboxes/new"), "tenant": house.box.tenant_id,
        "address": "new%d@acme.example" % house.boxes, "display_name": ""}


def shown_code(press):
    press.end()
    assert press.status == 200, press.text
    return re.search('id="claim"[^>]*>([^<]+)<', press.text)[1]


def made(house, form):
    return house.sql("SELECT inbox_id FROM d.inbox WHERE address = %s",
                     form["address"])


@pytest.mark.parametrize("order", ORDERS)
def test_both_show_the_code(house, order):
    """An inbox is made once; its code is shown nowhere else."""
    pages = house.person()
    path, form = making(house, pages)
    house.hop.hold("inbox_create_1")
    lock = house.connect()
    lock.autocommit = False
    try:
        lock.cursor().execute("LOCK TABLE d.address IN SHARE MODE")
        threads = []
        for n in 1, 2:  # at once, one might ask behind the other
            threads.append(Press(pages, path, form))
            postern.wait_until("%d ask" % n, lambda: len(house.sql(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND query LIKE '%%inbox_create_1%%'")) == n)
    finally:
        lock.rollback()
        lock.close()
    held = house.hop.wait(2)
    let_go(house, held if order == "first" else held[::-1])
    code, = {shown_code(t) for t in threads}
    assert len(made(house, form)) == 1
    house.hop.hold()
    # And once more, when all is over; not another form, nor another person.
    assert shown_code(Press(pages, path, form)) == code
    for who, what in ((pages, dict(form, display_name="Another")),
                      (house.person(), form)):
        what = dict(what, csrf=token(who, path))
        assert Press(who, path, what).end().to.endswith("?error=taken")
    # Nor when an agent has the inbox.
    assert house.claim(postern.Inbox(
        address=form["address"], tenant_id=form["tenant"],
        inbox_id=made(house, form)[0]["inbox_id"],
        claim=seals.unbase32(code.removeprefix("claim_"), 20),
        claim_text=code)).key
    assert Press(pages, path, form).end().to.endswith("?error=taken")


@pytest.mark.parametrize("order", ORDERS)
def test_both_are_wrong(house, order):
    """Neither is told that the other counts."""
    pages = house.person()
    path, form = suspend(house, pages, password="not the password at all")
    threads, held = both_ask(house, "step_up_password_1",
                             [(pages, path, form)] * 2)
    let_go(house, held if order == "first" else held[::-1])
    for t in threads:
        assert t.end().to.endswith("?error=password"), t.to
    assert pages.call("GET", "/account")[0] == 200


def test_one_that_was_wrong_does_not_count_later(house):
    pages = house.person()
    path, form = suspend(house, pages, password="not the password at all")
    for _ in range(2):
        assert Press(pages, path, form).end().to.endswith("?error=password")
    form["password"] = house.operator_password
    assert Press(pages, path, form).end().to.endswith("?said=changed")


@pytest.mark.parametrize("order", ORDERS)
def test_two_forms_in_the_same_moment(house, order):
    """Each in a window of its own: the second is not told of the first."""
    pages = house.person()
    path, form = suspend(house, pages)
    threads, held = both_ask(house, "step_up_password_1", [
        (pages, path, form), (pages, path, dict(form, reason="another"))])
    let_go(house, held if order == "first" else held[::-1])
    done = sorted(t.end().status for t in threads)
    late = next(t for t in threads if t.status == 409)
    assert done == [303, 409]
    assert "In the same moment" in late.text and not late.cookie
    # What took time to write is not lost.
    assert late.args[2]["reason"] in late.text


def test_a_form_of_before_is_told_nothing(house):
    """Who has only the cookie of before hears that its session has ended."""
    pages = house.person()
    path, form = suspend(house, pages)
    house.hop.hold("step_up_password_1")
    one = Press(pages, path, form)
    held = house.hop.wait(1)
    other = Press(pages, path, dict(form, reason="another")).end()
    assert other.status == 401 and "has ended" in other.text
    let_go(house, held)
    assert one.end().to.endswith("?said=changed")


def test_an_action_that_was_let_in_before(house):
    """It asks for no password; it is not signed out, and is told so."""
    pages = house.person()
    path, form = suspend(house, pages)
    house.hop.hold("session_touch_1")
    late = Press(pages, "/pause", {"csrf": form["csrf"], "to": "pause",
                                   "reason": "for a test"})
    held = house.hop.wait(1)
    one = Press(pages, path, form)
    house.hop.wait(2)[1].go.set()
    assert one.end().to.endswith("?said=changed")
    let_go(house, held)
    assert late.end().status == 409 and "Do this again" in late.text, late.text
    assert "for a test" in late.text
    assert not house.sql("SELECT 1 FROM d.global_pause WHERE "
                         "paused_at IS NOT NULL")


def test_the_answer_of_the_first_is_lost(house):
    """Nobody knows whether it was done: not that it was not."""
    pages = house.person()
    path, form = suspend(house, pages)
    house.hop.hold("step_up_password_1")
    one = Press(pages, path, form)
    held = house.hop.wait(1)
    two = Press(pages, path, form)
    held[0].lose()
    assert one.end().status == 503
    assert two.end().status == 409 and "Sent twice" in two.text


def test_another_process(house):
    """It knows nothing of the first; nothing is done twice."""
    pages = house.person()
    path, form = suspend(house, pages)
    house.hop.hold("step_up_password_1")
    one = Press(pages, path, form)
    held = house.hop.wait(1)
    kept, port, metrics = (house.programs.pop("postern-admin"),
                           house.admin_port, house.metrics_port)
    house.admin_port, house.metrics_port = free_port(), free_port(4)
    try:
        house.set_conf("admin", url="https://localhost:%d" % port)
        house.set_conf("metrics", listen="127.0.0.1:%d" % house.metrics_port)
        house.start("postern-admin")
        two = Press(pages, path, form).end()
        house.programs["postern-admin"].stop()
    finally:
        house.admin_port, house.metrics_port = port, metrics
        house.programs["postern-admin"] = kept
    assert two.status == 401 and "nothing was done" in two.text
    let_go(house, held)
    assert one.end().to.endswith("?said=changed")


def test_a_job_goes_on(house):
    """Begun in the moment in which its session is confirmed elsewhere."""
    box = house.add_inbox("jobs@acme.example")
    for i in range(3):
        house.submit_rest(box, "j%d@dest.example" % i)
    pages = house.person("senior")
    path, form = suspend(house, pages)
    to = Press(pages, "/jobs", {"csrf": form["csrf"], "all": "r"}).end().to
    text = pages.call("GET", to)[2]
    items = re.search('name="items" value="([^"]+)"', text)[1]
    job = to.split("?")[0]
    house.hop.hold("job_confirm_1")
    begin = Press(pages, job + "/confirm", {
        "csrf": form["csrf"], "items": items, "category": "other",
        "note": "a test"})
    held = house.hop.wait(1)
    one = Press(pages, path, form).end()
    assert one.to.endswith("?said=changed")
    let_go(house, held)
    assert begin.end().status == 303
    house.programs["postern-admin"].wait("admin.job", code="done",
                                         timeout=20)
