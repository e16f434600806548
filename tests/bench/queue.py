# SPDX-License-Identifier: ISC
"""
The operators' pages in front of a very long queue.

Held messages are written straight into the tables (their rows obey every
CHECK, also the fingerprint's) by a PostgreSQL that syncs nothing, which is
started again as it is meant to run. Then postern-admin is asked over TLS as a
browser asks it. `flood` puts the same mail into 20 inboxes instead of 200.
Messages that are opened are real: sealed, and opened with the review key.

Inboxes and risks are not alike: the largest inbox has some fifty times the
mail of the smallest, most mail is low risk, and one subject is most frequent.
With --keep DIR the filled cluster stays in DIR, and is taken from there again.
"""
import http.client
import json
import os
import pickle
import re
import shutil
import signal
import ssl
import statistics
import subprocess
import threading
import time
import urllib.parse

from tests.browser.stack import Stack
from tests.lib import postern
from tests.lib.process import free_port

TENANTS = 20
AT_ONCE = 2  # connections that fill
FIRST_BYTE_MS = 100
MEANWHILE_MS = 250  # while a job rejects 50,000 on the same cores
PG = {"shared_buffers": "512MB", "max_wal_size": "2GB",
      "maintenance_work_mem": "256MB"}
PG_FILL = {**PG, "fsync": "off", "full_page_writes": "off",
           "autovacuum": "off", "max_wal_size": "16GB",
           "checkpoint_timeout": "1h"}
PG_EXPLAIN = {"session_preload_libraries": "auto_explain",
              "auto_explain.log_min_duration": "40ms",
              "auto_explain.log_analyze": "on",
              "auto_explain.log_buffers": "on",
              "auto_explain.log_nested_statements": "on"}
# what a message is about: of 20 with numbers from 0, which have it
SUBJECTS = """(CASE WHEN n % 20 < 12 THEN 'Your order ' || n
    || ' has been received' WHEN n % 20 < 15 THEN 'Invoice ' || n || ' is due'
    WHEN n % 20 < 17 THEN 'Re: ticket ' || n || ' is being looked at'
    WHEN n % 20 < 19 THEN (ARRAY['Monday', 'Tuesday', 'Wednesday', 'Thursday',
    'Friday'])[1 + n % 5] || ': meeting about project ' || n % 499
    ELSE 'Weekly summary ' || n END)"""
FILL = """
INSERT INTO d.message (message_id, tenant_id, inbox_id, version, key_id, door,
    test, mail_from, rcpt, rcpt_kind, params, size, chunks, body_tag, send_at,
    not_after, digest, thread_id, subject, header_from, rfc_message_id,
    attachments, links, risk, findings_set, finding_max, need_approvals, reasons, mode,
    mode_epoch, limits_version, tenant_epoch, tenant_box, inbox_epoch, inbox_box,
    created_at)
SELECT g.id, x.tenant_id, x.inbox_id, 1, 1, 's', false, x.address, g.rcpt,
    repeat('t', cardinality(g.rcpt)), '', 4096, 1, sha256('x'), 0, 0,
    d.digest_1(x.tenant_id, x.inbox_id, g.id, 1::smallint, false, x.address,
    g.rcpt, '', 4096, sha256('x'), 0, 0), g.id, g.subject, x.address,
    '<' || g.n || '@bench.example>', (g.n % 9 = 0)::int, g.n % 50 < 20, g.risk, 0, 0, 1,
    'mode', 2, 1, 1, 1, '\\x00', 1, '\\x00', g.at
FROM (SELECT n, (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12,
        '0') || '7' || substr(md5(n::text), 1, 3) || '8'
        || substr(md5(n::text), 4, 15))::uuid AS id, at,
        CASE WHEN n % 10 < 9 THEN ARRAY[a] ELSE ARRAY['a' || a, 'b' || a, a] END
        AS rcpt, (ARRAY[5, 5, 5, 10, 10, 20, 20, 30, 50, 50, 60, 90])
        [1 + n * 7919 % 12]::smallint AS risk, @SUBJECT@ AS subject,
        floor(@BOXES@ * power(n * 6151 % 10007 / 10007.0, 1.7))::int AS box
    FROM (SELECT n, '@FROM@'::timestamptz + n * '@STEP@'::interval AS at,
        'user' || n % 100000 || '@customer' || n % 997 || '.example' AS a
        FROM generate_series(@A@::bigint, @B@::bigint) n) z) g
JOIN bench_box x ON x.k = g.box""".replace("@SUBJECT@", SUBJECTS)
STATE = """
INSERT INTO d.state (message_id, tenant_id, inbox_id, version, state, risk,
    hold_until) SELECT m.message_id, m.tenant_id, m.inbox_id, 1, 1, m.risk,
    m.created_at + interval '7 days' FROM d.message m WHERE """
# what postern-admin does behind the queue, a thousand at a time
WORDS = """
INSERT INTO d.word SELECT m.message_id, m.tenant_id, d.words_of(m.tenant_id,
    m.mail_from, m.rcpt, m.rfc_message_id, m.subject, m.attachments, m.links,
    right(m.message_id::text, 1) < '4')
    FROM d.message m WHERE """
OURS = "m.tenant_box = '\\x00'"


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


def boxes_of(cur, boxes):
    """Tenants, and inboxes of theirs, by number in bench_box."""
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
    cur.execute("""CREATE TABLE bench_box AS SELECT tenant_id, inbox_id,
        address, row_number() OVER () - 1 AS k FROM d.inbox
        WHERE domain LIKE 'b.bench%%'""")
    cur.execute("ANALYZE bench_box")


def side_by_side(d, statements):
    """Each on a connection of its own that fires no trigger."""
    wrong = []

    def run(sql):
        c = d.connect()
        try:
            cur = c.cursor()
            cur.execute("SET session_replication_role = replica; "
                        "SET synchronous_commit = off; SET jit = off")
            for one in sql:
                cur.execute(one)
        except Exception as e:  # said by who waits for it
            wrong.append(e)
        finally:
            c.close()
    threads = [threading.Thread(target=run, args=(x,)) for x in statements]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if wrong:
        raise wrong[0]


def fill(d, held, boxes):
    c = d.connect()
    cur = c.cursor()
    cur.execute("SET session_replication_role = replica")
    boxes_of(cur, boxes)
    # ids of this week, whatever the day
    cur.execute("""SELECT date_trunc('week', now() AT TIME ZONE 'UTC')
        AT TIME ZONE 'UTC', now()""")
    first, now = cur.fetchone()
    # an index is built faster than filled
    cur.execute("""SELECT pg_get_indexdef('d.word_words'::regclass) AS d""")
    index = cur.fetchone()[0]
    cur.execute("DROP INDEX d.word_words")
    jobs, step = [], (now - first) / held
    for i in range(AT_ONCE):
        a, b = 1 + held * i // AT_ONCE, held * (i + 1) // AT_ONCE
        rows = FILL
        for k, v in {"FROM": first, "STEP": step, "A": a, "B": b,
                     "BOXES": boxes}.items():
            rows = rows.replace("@%s@" % k, str(v))
        part = OURS + " AND m.created_at >= '%s' AND m.created_at < '%s'" % (
            first + a * step - step / 2, first + b * step + step / 2)
        jobs.append([rows, STATE + part, WORDS + part])
    side_by_side(d, jobs)
    side_by_side(d, [["SET maintenance_work_mem = '512MB'",
                      index.replace("ON ONLY", "ON")],
                     ["ANALYZE d.message", "ANALYZE d.state",
                      "ANALYZE d.word"]])
    cur.execute("""INSERT INTO d.quota (tenant_id, inbox_id, held) SELECT
        tenant_id, inbox_id, count(*) FROM d.state
        WHERE tenant_id IN (SELECT tenant_id FROM bench_box)
        GROUP BY 1, 2""")
    cur.execute("VACUUM ANALYZE")
    c.close()


class Queue(Stack):
    """A deployment with `held` messages that wait; filled before anything
    but PostgreSQL runs, or taken from `keep`."""

    def __init__(self, held, boxes, where, keep=None, explain=False):
        start = time.monotonic()
        self.gateway = self.asker = None
        pg = {**PG, **(PG_EXPLAIN if explain else {})}
        mark = keep and os.path.join(keep, "%d-%d" % (held, boxes))
        if mark and os.path.exists(mark):
            self.again(mark)
        else:
            self.d = postern.Deployment(where=keep or where, pg=PG_FILL,
                                        keep=bool(keep))
            self.d.add_tenant("acme", "agents.example.com")
            self.boxes = [self.d.add_inbox("helpdesk@agents.example.com")]
            self.d.sql("UPDATE d.inbox SET lim_hour = 9999, lim_day = 9999, "
                       "lim_month = 9999, lim_held = 9999")
            fill(self.d, held, boxes)
            self.stop_postgres()
            if mark:
                self.put_away(mark)
        self.d.pg_settings = {"max_connections": "60",
                              "log_min_messages": "warning", **pg}
        self.d.start_postgres()
        self.d.start("postern-auth")
        self.d.start("postern-admin")
        self.took = time.monotonic() - start

    def stop_postgres(self):
        self.d.postgres.stop(signal.SIGINT, timeout=120)  # to its checkpoint

    def put_away(self, mark):
        data = self.d.path("pg", "data")
        shutil.copytree(data, data + ".full", symlinks=True)
        state = {k: v for k, v in vars(self.d).items() if k not in (
            "programs", "postgres", "redis")}
        with open(mark, "wb") as f:
            pickle.dump((state, self.boxes), f)
        self.own(data + ".full")

    def own(self, path):
        subprocess.run(["chown", "-R", self.d.user.pw_name, path], check=True)

    def again(self, mark):
        with open(mark, "rb") as f:
            state, self.boxes = pickle.load(f)
        self.d = postern.Deployment.__new__(postern.Deployment)
        vars(self.d).update(state, programs={})
        for name in ("smtp", "smtps", "api", "admin"):
            setattr(self.d, name + "_port", free_port())
        self.d.metrics_port = free_port(4)
        data = self.d.path("pg", "data")
        shutil.rmtree(data)
        shutil.copytree(data + ".full", data, symlinks=True)
        os.chmod(data, 0o700)
        self.own(data)
        self.d.start_redis()
        self.d._write_conf()


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
            WHERE relname ~ '^(message|state|word|decision)_|^job_item$'
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
    """The largest inbox, a tenant, and the id in the middle of what waits."""
    q = stack.d.sql("SELECT tenant_id AS t, inbox_id AS i FROM d.quota ORDER BY "
                    "held DESC LIMIT 1")[0]
    m = stack.d.sql("SELECT message_id AS m FROM d.message TABLESAMPLE "
                    "SYSTEM (1) ORDER BY message_id")
    return "%(t)d.%(i)d" % q, q["t"], str(m[len(m) // 2]["m"])


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
        # too many to sort, too few to stand at the head of the list
        "by_thin_word": ["thursday", "project 77", "monday meeting"],
        "with_files": ["has:files", "has:files order"],
        "with_links": ["has:links", "has:links order", "has:links has:files"],
        "new_recipient": ["new:recipient", "new:recipient monday"],
        "by_age": ["older:1d", "newer:1h", "older:12h order", "older:9000d"],
        "expiring": ["left:1h", "left:6d", "left:1d order"],
        "who_has_it_open": ["seen:nobody", "seen:me", "seen:anyone"],
        "nothing_found": ["zebra", "order zebra", "x@nobody.example"],
    }.items():
        out[name] = line([b.page("/q?q=" + urllib.parse.quote(
            words[i % len(words)]))[1] for i in range(times)])
    return out


def measure(b, real, rcpts, where, held, times):
    box, tenant, middle = where
    b.page("/q")
    out = {"first_page": line([b.page("/q")[1] for _ in range(times)]),
           "next_pages": walk(b, "/q", times)}
    out["one_inbox"] = walk(b, "/q?box=" + box, times)
    out["one_tenant"] = walk(b, "/q?tenant=%d" % tenant, times)
    out["one_risk"] = walk(b, "/q?risk=low", times)
    out["by_time_left"] = walk(b, "/q?sort=left", times)
    # far into all of it, page after page; then with a word that most have
    out["deep_pages"] = walk(b, "/q?after=90:" + middle, times)
    out["deep_search"] = walk(b, "/q?q=order&after=90:" + middle, times)
    out["message"] = line([b.page("/m/" + real[i % len(real)])[1]
                           for i in range(times)])
    out["history"] = line([b.page("/history")[1] for _ in range(times)])
    out["counts"] = line([b.ask("GET", "/counts")[3] for _ in range(times)])
    out["health"] = line([b.page("/health")[1] for _ in range(5)])
    out["audit"] = line([b.page("/audit")[1] for _ in range(times)])
    out.update(searches(b, rcpts, held, times))
    return out


def bulk(b, stack):
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
    audited = stack.d.sql("SELECT count(*) AS n FROM d.audit WHERE event = "
                          "'message.reject'")[0]["n"]
    return {"items": done["items"], "rejected": done["done"],
            "audited": audited,
            "freeze_ms": round(made), "seconds": round(took, 1),
            "per_second": round(done["items"] / took),
            "meanwhile_first_page": line(first),
            "meanwhile_message": line(message)}


def judge(out):
    """What is not as it must be, in words."""
    bulk = out["bulk_reject"]
    wrong = [k + " is slow" for k, v in out.items()
             if isinstance(v, dict) and v.get("p95_ms", 0) >= FIRST_BYTE_MS]
    if out["rows_read_by_sequential_scans"]:
        wrong.append("a table of messages was scanned")
    if bulk["rejected"] != bulk["items"] or bulk["audited"] != bulk["items"]:
        wrong.append("not all were rejected")
    wrong += [k + " is slow" for k, v in bulk.items()
              if k.startswith("meanwhile") and v["p95_ms"] >= MEANWHILE_MS]
    return wrong


def run(args, boxes, times):
    os.makedirs(args.keep or args.disk, exist_ok=True)
    stack = Queue(args.held, boxes, args.disk, args.keep, args.explain)
    try:
        raw = ("From: Helpdesk <helpdesk@agents.example.com>\nTo: a@example.org"
               "\nSubject: Hello\nDate: Sat, 28 Nov 2026 03:42:25 +0000\n"
               "Message-ID: <{n}@agents.example.com>\n\nHello.\n")
        real = stack.do_submit(raw=raw, risk=50, subject="Hello",
                               count=10)["ids"]
        b = Browser(stack)
        b.sign_in(stack)
        rcpts, where = examples(stack), places(stack)
        before = read_by_scans(stack)
        b.c = None  # idle for too long
        out = {"bench": "queue", "held": args.held, "inboxes": boxes,
               "tenants": TENANTS, "fill_s": round(stack.took, 1),
               **measure(b, real, rcpts, where, args.held, times)}
        print(json.dumps(out), flush=True)  # should the rest take long
        out["bulk_reject"] = bulk(b, stack)
        out["rows_read_by_sequential_scans"] = {
            k: n - before.get(k, 0) for k, n in read_by_scans(stack).items()
            if n > before.get(k, 0)}
        out["wrong"] = judge(out)
        return {**out, "ok": not out["wrong"]}
    finally:
        if args.explain:
            shutil.copy(stack.d.path("log", "postgres.log"),
                        os.path.join(args.disk, "queue-plans.log"))
            stack.d.log_is_clean = False  # of what the plans were given
        stack.d.close()
