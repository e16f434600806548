# SPDX-License-Identifier: ISC
"""
The operators' pages in front of a very long queue.

Held messages are written straight into the tables (their rows obey every
CHECK, also the fingerprint's), then postern-admin is asked over TLS as a
browser asks it. `flood` puts the same mail into 20 inboxes instead of
thousands, which is what decision C7 is for. Messages that are opened are real:
sealed, and opened with the review key.
"""
import http.client
import json
import re
import ssl
import statistics
import time
import urllib.parse

from tests.browser.stack import Stack

TENANTS = 20
FILL = """
INSERT INTO d.message (message_id, tenant_id, inbox_id, version, key_id, door,
    test, mail_from, rcpt, rcpt_kind, params, size, chunks, body_tag, send_at,
    not_after, digest, thread_id, subject, header_from, rfc_message_id,
    attachments, risk, findings_set, finding_max, need_approvals, reasons, mode,
    mode_epoch, limits_version, tenant_epoch, tenant_box, inbox_epoch, inbox_box,
    created_at)
SELECT g.id, x.tenant_id, x.inbox_id, 1, 1, 's', false, x.address, g.rcpt, 't',
    '', 4096, 1, sha256('x'), 0, 0, d.digest_1(x.tenant_id, x.inbox_id, g.id,
    1::smallint, false, x.address, g.rcpt, '', 4096, sha256('x'), 0, 0), g.id,
    'Your order ' || g.n || ' has been received', x.address,
    '<' || g.n || '@bench.example>', 0, g.risk, 0, 0, 1, 'mode', 2, 1, 1, 1,
    '\\x00', 1, '\\x00', g.at
FROM (SELECT n, (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12,
        '0') || '7' || substr(md5(n::text), 1, 3) || '8'
        || substr(md5(n::text), 4, 15))::uuid AS id, at,
        ARRAY['user' || n %% 100000 || '@customer' || n %% 997 || '.example']
        AS rcpt, (ARRAY[5, 25, 50, 50, 90])[1 + n::bigint * 7919 %% 5]::smallint AS risk,
        n %% %(boxes)s AS box
    FROM (SELECT n, %(from)s::timestamptz + n * %(step)s::interval AS at
        FROM generate_series(%(a)s, %(b)s) n) z) g
JOIN bench_box x ON x.k = g.box"""
STATE = """
INSERT INTO d.state (message_id, tenant_id, inbox_id, version, state, risk,
    hold_until) SELECT m.message_id, m.tenant_id, m.inbox_id, 1, 1, m.risk,
    m.created_at + interval '7 days' FROM d.message m
    WHERE m.tenant_box = '\\x00'"""
# what postern-admin does behind the queue, a thousand at a time
WORDS = """
INSERT INTO d.word SELECT m.message_id, m.tenant_id, d.words_of(m.tenant_id,
    m.mail_from, m.rcpt, m.rfc_message_id, m.subject) FROM d.message m
    WHERE m.tenant_box = '\\x00'"""


class Browser:
    def __init__(self, stack):
        self.url = urllib.parse.urlparse(stack.hello()["url"])
        self.context = ssl._create_unverified_context()
        self.cookie = ""
        self.c = None

    def ask(self, method, path, form=None):
        """(status, text, headers, milliseconds to the first byte)."""
        if self.c is None:
            self.c = http.client.HTTPSConnection(
                "127.0.0.1", self.url.port, context=self.context)
        head = {"Host": self.url.netloc, "Cookie": self.cookie,
                "Origin": "https://" + self.url.netloc}
        body = None
        if form is not None:
            body = urllib.parse.urlencode(form)
            head["Content-Type"] = "application/x-www-form-urlencoded"
        start = time.perf_counter()
        self.c.request(method, path, body, head)
        r = self.c.getresponse()
        ms = (time.perf_counter() - start) * 1000
        text = r.read().decode()
        if r.getheader("Connection", "").lower() == "close":
            self.c.close()
            self.c = None
        return r.status, text, r, ms

    def sign_in(self, stack):
        s, _, r, _ = self.ask("POST", "/login", {
            "name": stack.d.operator, "password": stack.d.operator_password})
        assert s == 303, s
        self.cookie = r.getheader("Set-Cookie").split(";")[0]

    def page(self, path):
        s, text, _, ms = self.ask("GET", path)
        assert s == 200, (path, s, text[:300])
        return text, ms


def fill(stack, held, boxes):
    c = stack.d.connect()
    cur = c.cursor()
    cur.execute("SET session_replication_role = replica")
    cur.execute("SET synchronous_commit = off")
    cur.execute("""INSERT INTO d.tenant (slug, name) SELECT 'bench' || n, ''
        FROM generate_series(1, %s) n""", (TENANTS,))
    cur.execute("""INSERT INTO d.domain (domain, tenant_id, token) SELECT
        'b.' || slug || '.example', tenant_id,
        lpad(tenant_id::text, 26, 'a') FROM d.tenant
        WHERE slug LIKE 'bench%%'""")
    cur.execute("""INSERT INTO d.inbox (tenant_id, address, local_part, domain,
        lim_hour, lim_day, lim_month, lim_held, lim_bytes, epoch)
        SELECT t.tenant_id, 'a' || n || '@b.' || t.slug || '.example', 'a' || n,
        'b.' || t.slug || '.example', 9999, 9999, 9999, 999999, 1 << 30, 1
        FROM generate_series(1, %s) n JOIN d.tenant t
        ON t.slug = 'bench' || (1 + n %% %s)""", (boxes, TENANTS))
    cur.execute("""CREATE TEMP TABLE bench_box AS SELECT tenant_id, inbox_id,
        address, row_number() OVER () - 1 AS k FROM d.inbox
        WHERE domain LIKE 'b.bench%%'""")
    cur.execute("ANALYZE bench_box")
    # ids of this week, whatever the day
    cur.execute("""SELECT greatest(now() - interval '1 hour',
        date_trunc('week', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'),
        now()""")
    first, now = cur.fetchone()
    cur.execute(FILL, {"from": first, "step": (now - first) / held, "a": 1,
                       "b": held, "boxes": boxes})
    cur.execute(STATE)
    # an index is built faster than filled
    cur.execute("""SELECT pg_get_indexdef('d.word_words'::regclass) AS d""")
    index = cur.fetchone()[0]
    cur.execute("DROP INDEX d.word_words")
    cur.execute(WORDS)
    cur.execute("SET maintenance_work_mem = '512MB'")
    cur.execute(index.replace("ON ONLY", "ON"))
    cur.execute("""INSERT INTO d.quota (tenant_id, inbox_id, held) SELECT
        tenant_id, inbox_id, count(*) FROM d.state
        WHERE tenant_id IN (SELECT tenant_id FROM bench_box)
        GROUP BY 1, 2""")
    cur.execute("ANALYZE")
    c.close()


def line(ms):
    ms = sorted(ms)
    return {"p50_ms": round(statistics.median(ms), 1),
            "p95_ms": round(ms[min(len(ms) - 1, int(len(ms) * .95))], 1),
            "max_ms": round(ms[-1], 1), "n": len(ms)}


def read_by_scans(stack):
    """Rows that sequential scans have read, by table of messages."""
    c = stack.d.connect()
    cur = c.cursor()
    last = None
    while True:  # counts arrive when a connection has been idle for a second
        cur.execute("""SELECT relname, seq_tup_read FROM pg_stat_user_tables
            WHERE relname ~ '^(message|state|word|decision|job_item)_'
            AND relname <> 'word_at'""")
        now = dict(cur.fetchall())
        if now == last:
            c.close()
            return now
        last = now
        time.sleep(1.5)


def examples(stack):
    """Ten recipients that exist."""
    return [r["a"] for r in stack.d.sql(
        "SELECT rcpt[1] AS a FROM d.message WHERE tenant_box = '\\x00' "
        "AND inbox_id % 20 = 3 LIMIT 10")]


def places(stack):
    """An inbox, and the id in the middle of what waits."""
    r = stack.d.sql("SELECT tenant_id || '.' || inbox_id AS box, message_id "
                    "AS m FROM d.message WHERE tenant_box = '\\x00' ORDER BY "
                    "message_id OFFSET (SELECT count(*) / 2 FROM d.message) "
                    "LIMIT 1")[0]
    return r["box"], str(r["m"])


def walk(b, path, times):
    """The first byte of page after page, as the link at the bottom leads."""
    ms, first = [], path
    for _ in range(times):
        text, took = b.page(path)
        ms.append(took)
        got = re.search(r'rel="next"\s+href="([^"]+)"', text)
        path = got.group(1).replace("&amp;", "&") if got else first
    return line(ms[1:])


def searches(b, rcpts, held, times):
    """Recipients and domains, rare words, rare within frequent, frequent."""
    out = {}
    for name, words in {
        "by_recipient": rcpts,
        "by_domain": ["@customer%d.example" % n for n in range(10)],
        "by_rare_word": ["%d" % (held - 7 * n) for n in range(1, 11)],
        "by_words": ["order %d" % (held - 11 * n) for n in range(1, 11)],
        "by_frequent_word": ["order", "received", "your order has"],
        "nothing_found": ["zebra", "order zebra", "x@nobody.example"],
    }.items():
        out[name] = line([b.page("/q?q=" + urllib.parse.quote(
            words[i % len(words)]))[1] for i in range(times)])
    return out


def measure(b, real, rcpts, box, middle, held, times):
    b.page("/q")
    out = {"first_page": line([b.page("/q")[1] for _ in range(times)]),
           "next_pages": walk(b, "/q", times)}
    out["one_inbox"] = walk(b, "/q?box=" + box, times)
    # far into all of it, page after page: the middle of a risk that two of
    # five messages have, with a word that most of them have
    out["deep_pages"] = walk(b, "/q?q=order&after=50:" + middle, times)
    out["message"] = line([b.page("/m/" + real[i % len(real)])[1]
                           for i in range(times)])
    out["history"] = line([b.page("/history")[1] for _ in range(times)])
    out["counts"] = line([b.ask("GET", "/counts")[3] for _ in range(times)])
    out["health"] = line([b.page("/health")[1] for _ in range(5)])
    out["audit"] = line([b.page("/audit")[1] for _ in range(times)])
    out.update(searches(b, rcpts, held, times))
    return out


def bulk(b, times):
    """Reject the 50,000 that come first, and use the queue meanwhile."""
    text, _ = b.page("/q")
    csrf = re.search(r'name="csrf"\s+value="([^"]+)"', text).group(1)
    s, _, r, made = b.ask("POST", "/jobs", {"csrf": csrf, "all": "r"})
    assert s == 303, s
    path = r.getheader("Location")
    text, _ = b.page(path)
    items = re.search(r'name="items"\s+value="([^"]+)"', text).group(1)
    start = time.monotonic()
    s, _, _, _ = b.ask("POST", path + "/confirm", {
        "csrf": csrf, "items": items, "category": "duplicate"})
    assert s == 303, s
    first, message = [], []
    while True:
        text, ms = b.page("/q")
        first.append(ms)
        got = re.search(r'href="(/m/msg_[^"]+)"', text)
        s, _, _, ms = b.ask("GET", got.group(1))
        message.append(ms)
        _, text, _, _ = b.ask("GET", path + "/progress")
        if '"finished"' in text:
            break
    took = time.monotonic() - start
    done = json.loads(text)
    return {"items": done["items"], "rejected": done["done"],
            "freeze_ms": round(made), "seconds": round(took, 1),
            "per_second": round(done["items"] / took),
            "meanwhile_first_page": line(first),
            "meanwhile_message": line(message)}


def run(held, boxes, times):
    stack = Stack()
    try:
        start = time.monotonic()
        fill(stack, held, boxes)
        took = time.monotonic() - start
        raw = ("From: Helpdesk <helpdesk@agents.example.com>\nTo: a@example.org"
               "\nSubject: Hello\nDate: Sat, 28 Nov 2026 03:42:25 +0000\n"
               "Message-ID: <{n}@agents.example.com>\n\nHello.\n")
        real = stack.do_submit(raw=raw, risk=50, subject="Hello",
                               count=10)["ids"]
        b = Browser(stack)
        b.sign_in(stack)
        rcpts = examples(stack)
        before = read_by_scans(stack)
        b.c = None  # idle for too long
        out = measure(b, real, rcpts, *places(stack), held, times)
        scanned = {k: n - before.get(k, 0)
                   for k, n in read_by_scans(stack).items()
                   if n > before.get(k, 0)}
        b.c = None
        slow = [k for k, v in out.items() if v["p95_ms"] >= 100]
        return {"bench": "queue", "held": held, "inboxes": boxes,
                "tenants": TENANTS, "fill_s": round(took, 1), **out,
                "rows_read_by_sequential_scans": scanned,
                "bulk_reject": bulk(b, times),
                "slower_than_100_ms": slow, "ok": not slow and not scanned}
    finally:
        stack.d.close()
