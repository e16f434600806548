# SPDX-License-Identifier: ISC
"""What is found at submission orders the queue, and no agent sees it."""

import datetime
import smtplib
import ssl

import pytest

from tests.blackbox.test_rest import Client, stored
from tests.lib import pages, period, postern, rawsmtp

PEM = "-----BEGIN EC " + "PRIVATE KEY-----\nMHcCAQEE\n"
CARD = "4111 1111 1111 1111"
# (name, fields of the request, risk, heaviest, set): see docs/findings.md
SENT = [
    ("plain", {}, 10, 0, 1),
    ("number", {"text": "order 4111 1111 1111 1112"}, 10, 0, 1),
    ("card", {"text": "pay with " + CARD}, 64, 60, 1),
    ("key", {"text": PEM}, 82, 80, 1),
    ("reply", {"reply_to": "desk@other.example"}, 55, 50, 1),
    ("desk", {"reply_to": "desk@acme.example"}, 19, 10, 1),
    ("follow", {"headers": {"Mail-Followup-To": "desk@other.example"}},
     55, 50, 1),
    ("answer", {"headers": {"Mail-Reply-To": "bot@acme.example, "
                            "desk@other.example"}}, 55, 50, 1),
    ("hidden", {"bcc": ["eve@example.net"]}, 24, 15, 1),
    ("near", {"to": ["ann@acrne.example"]}, 78, 75, 1),
    ("html", {"html": "<p>hi</p>"}, 15, 5, 0),
    ("file", {"attachments": [{"filename": "a.txt", "content": "aGk="}]},
     19, 10, 0),
    ("program", {"attachments": [{"filename": "a.pdf.exe",
                                  "content": "aGk="}]}, 84, 80, 0),
]


@pytest.fixture(scope="module")
def gate():
    with postern.Deployment() as d:
        d.add_tenant("acme", "acme.example")
        d.box = d.add_inbox("bot@acme.example")
        d.start("posternd")
        d.start("postern-admin")
        yield d


def rows(gate):
    return {r["subject"]: (r["risk"], r["finding_max"], r["findings_set"])
            for r in gate.sql(
                "select m.subject, m.risk, m.finding_max, m.findings_set"
                " from d.message m join d.state s using (message_id,"
                " tenant_id) where s.risk = m.risk")}


def test_each_message_gets_its_risk(gate):
    bot = Client(gate, gate.box.key)
    for name, fields, *_ in SENT:
        stored(bot.send(**dict(fields, subject=name)))
    got = rows(gate)
    for name, _, risk, heaviest, complete in SENT:
        assert got[name] == (risk, heaviest, complete), name
    # heaviest first in the operators' queue
    order = [r["subject"] for r in gate.sql(
        "select m.subject from d.state s join d.message m"
        " using (message_id, tenant_id) where s.state = 1"
        " order by 100 - s.risk, s.message_id")]
    assert order[:4] == ["program", "key", "near", "card"]
    assert set(order[-2:]) == {"plain", "number"}


def test_smtp_finds_the_same(gate):
    context = ssl.create_default_context(cafile=gate.ca_file)
    mail = ("From: bot@acme.example\r\nTo: ann@example.org\r\n"
            "Subject: by smtp\r\n\r\n" + CARD + "\r\n")
    with smtplib.SMTP("127.0.0.1", gate.smtp_port) as s:
        s.starttls(context=context)
        s.login("bot@acme.example", gate.box.smtp_key)
        s.sendmail("bot@acme.example", ["ann@example.org"], mail)
        s.sendmail("bot@acme.example", ["ann@example.org", "eve@example.net"],
                   mail.replace("by smtp", "copied"))
    got = rows(gate)
    assert got["by smtp"] == (64, 60, 1)
    assert got["copied"] == (70, 60, 1)


def used(gate, box, today, before):
    """What the limits of the inbox have counted, on the day that it is."""
    period.within(period.DAY, 60)
    gate.sql("UPDATE d.quota SET day = (clock_timestamp() AT TIME ZONE 'UTC')"
             "::date, day_used = %d, month = date_trunc('month', "
             "clock_timestamp() AT TIME ZONE 'UTC')::date, month_used = %d "
             "WHERE inbox_id = (SELECT inbox_id FROM d.inbox WHERE address = "
             "'%s')" % (today, today + before, box.address))


@pytest.mark.parametrize("today,before,odd", [
    (25, 20, True), (25, 25 * 31, False), (10, 20, False), (25, 3, False)])
def test_more_than_it_used_to_send(gate, today, before, odd):
    """From the counters that a sign-in learns anyway; in the first week of a
    month they say nothing."""
    box = gate.add_inbox("busy%d-%d@acme.example" % (today, before))
    used(gate, box, today, before)
    sent = stored(Client(gate, box.key).send())
    (row,) = gate.sql("SELECT risk FROM d.message WHERE mail_from = %s",
                      box.address)
    day = datetime.datetime.now(datetime.timezone.utc).day
    assert row["risk"] == (28 if odd and day >= 8 else 10), sent


def test_a_session_counts_what_it_stores(gate):
    box = gate.add_inbox("steady@acme.example")
    gate.sql("UPDATE d.inbox SET lim_hour = 1000 WHERE address = %s "
             "RETURNING 1", box.address)
    used(gate, box, 17, 20)
    r = rawsmtp.signed_in(gate, box)
    for i in range(4):
        assert rawsmtp.submit(r, box, "n%d" % i).startswith("250 2.6.0")
    risks = [m["risk"] for m in gate.sql(
        "SELECT risk FROM d.message WHERE mail_from = %s ORDER BY message_id",
        box.address)]
    day = datetime.datetime.now(datetime.timezone.utc).day
    plain, odd = risks[0], 100 - (100 - risks[0]) * 80 // 100
    assert risks == [plain] * 2 + [odd if day >= 8 else plain] * 2


def test_volume_is_on_the_page(gate):
    """Opening compares with four weeks; a new inbox has no past."""
    p = pages.Pages(gate)
    for name, created, odd in (("old", "30 days", True),
                               ("new", "3 days", False)):
        box = gate.add_inbox(name + "@acme.example")
        gate.sql("UPDATE d.inbox SET lim_hour = 1000, created_at = "
                 "clock_timestamp() - %s::interval WHERE address = %s "
                 "RETURNING 1", created, box.address)
        agent = Client(gate, box.key)
        for i in range(20):
            sent = stored(agent.send(subject="volume %d" % i))
        status, _, page = p.call("GET", "/m/" + sent["message_id"])
        assert status == 200
        said = "20 in 24 hours; in the 28 days before, 0"
        assert (said in page) is odd
        assert ("sends far more than it used to" in page) is odd


def test_every_address_that_answers_go_to(gate):
    """An own address in front of it hides nobody."""
    box = gate.add_inbox("two@acme.example")
    r = rawsmtp.signed_in(gate, box)
    rawsmtp.begin_data(r, box)
    r.send(rawsmtp.message(box, "hello", Reply_To=(
        "%s, Eve <eve@other.example>" % box.address)))
    reply = r.say(".")
    assert reply.startswith("250 2.6.0"), reply
    status, _, page = pages.Pages(gate).call(
        "GET", "/m/" + reply.split("id=")[1].split()[0])
    assert status == 200
    assert "Answers go to another domain than From." in page
    assert page.count("eve@other.example") > 1  # in the reasons and above


def test_an_allow_rule_needs_a_whole_and_harmless_mail(gate):
    """A9: every recipient covered, no file, all searched, nothing heavy."""
    box = gate.add_inbox("ruled@acme.example")
    gate.sql("INSERT INTO d.allow_rule (tenant_id, inbox_id, entry,"
             " operator_id, reason, uses_left, expires_at) VALUES (%s, %s,"
             " 'ann@example.org', 1, 'test', 9, now() + interval '1 hour')",
             box.tenant_id, box.inbox_id)
    bot = Client(gate, box.key)

    def status(**fields):
        return stored(bot.send(**dict({"to": ["ann@example.org"]},
                                      **fields)))["status"]

    assert status(text="see you at 14:05") == "approved"
    assert status(text="Reply is welcome", reply_to="us@acme.example") == (
        "approved")
    for held in ({"text": CARD}, {"text": PEM}, {"html": "<p>hi</p>"},
                 {"reply_to": "desk@other.example"},
                 {"subject": "a\u202eb"}, {"text": "pass\u200bword"},
                 {"cc": ["eve@example.net"]},
                 {"text": "word " * 70000},
                 {"attachments": [{"filename": "a.txt",
                                   "content": "aGk="}]}):
        assert status(**held) == "held", held
    assert status(text="see you at 15:05") == "approved"


def test_agents_see_nothing_of_it(gate):
    bot = Client(gate, gate.box.key)
    codes = [line.split("`")[1] for line in open(
        postern.TOP + "/docs/findings.md") if line.startswith("| `")]
    assert len(codes) > 40
    sent = stored(bot.send(text=PEM, subject="seen by none",
                           reply_to="desk@other.example"))
    path = "/v1/messages/" + sent["message_id"]
    # what names a finding, a weight or a risk in any key or value
    words = {"risk", "finding", "findings", "weight", "findings_set",
             "finding_max"} | {c for c in codes if "_" in c}
    for answer in (sent, bot.get(path)[2], bot.get(path + "/events")[2],
                   bot.get("/v1/messages")[2], bot.get("/v1/auth/me")[2]):
        names = set()

        def walk(x):
            if isinstance(x, dict):
                names.update(x)
                for v in x.values():
                    walk(v)
            elif isinstance(x, list):
                for v in x:
                    walk(v)
            elif isinstance(x, str):
                names.add(x)
        walk(answer)
        assert names and not names & words, answer
    assert bot.get(path)[2]["hold"]["reasons"] == ["mode"]
    # the same answer as for a plain one, but for what differs by itself
    plain = stored(bot.send(subject="seen by none"))
    assert set(plain) == set(sent)
