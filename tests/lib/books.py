# SPDX-License-Identifier: ISC
"""The books of a database at rest: each query finds what is wrong."""
# What must not be there, each row of it an error.
BOOKS = {
    "counters of what waits": """
        SELECT q.tenant_id, q.inbox_id, q.held, q.held_bytes, c.n, c.b
        FROM d.quota q LEFT JOIN (SELECT s.tenant_id, s.inbox_id,
            count(*) AS n, sum(m.size) AS b FROM d.state s
            JOIN d.message m USING (message_id, tenant_id, version)
            WHERE s.state = 1 GROUP BY 1, 2) c USING (tenant_id, inbox_id)
        WHERE q.held <> coalesce(c.n, 0)
        OR q.held_bytes <> coalesce(c.b, 0)""",
    "a state each": """
        SELECT message_id FROM d.message m FULL JOIN d.state s
            USING (message_id, tenant_id, inbox_id, version)
        WHERE m.digest IS NULL OR s.state IS NULL""",
    "what the recipients add up to": """
        SELECT s.message_id, s.state, d.derived(s.message_id, s.tenant_id)
        FROM d.state s WHERE s.state IN (8, 9, 10, 11)
        AND s.state <> d.derived(s.message_id, s.tenant_id)""",
    "a row of the queue for each domain that is open": """
        SELECT message_id, domain, s.state, v.n, q.attempts
        FROM (SELECT message_id, tenant_id, domain, count(*) AS n
            FROM d.delivery WHERE status IN (0, 1, 2, 4) GROUP BY 1, 2, 3) v
        FULL JOIN d.send_q q USING (message_id, tenant_id, domain)
        JOIN d.state s USING (message_id, tenant_id)
        WHERE (v.n IS NOT NULL AND s.state IN (2, 7, 9, 11))
            <> (q.digest IS NOT NULL)""",
    "recipients as the message has them": """
        SELECT m.message_id, v.ix FROM d.message m
        JOIN d.delivery v USING (message_id, tenant_id)
        WHERE v.canon IS DISTINCT FROM d.canon(m.rcpt[v.ix])
        OR v.domain IS DISTINCT FROM d.domain_of(m.rcpt[v.ix])""",
    "all recipients, once released": """
        SELECT m.message_id FROM d.message m
        JOIN d.release r USING (message_id, tenant_id, version)
        WHERE cardinality(m.rcpt) <> (SELECT count(*) FROM d.delivery v
            WHERE v.message_id = m.message_id)""",
    "nothing is under way when nobody works": """
        SELECT message_id, domain, 'lease' FROM d.send_q
        WHERE lease IS NOT NULL
        UNION ALL SELECT message_id, domain, 'row' FROM d.delivery
        WHERE status IN (1, 2)
        UNION ALL SELECT message_id, domain, 'attempt' FROM d.attempt
        WHERE ended_at IS NULL
        UNION ALL SELECT message_id, 'sending', '' FROM d.state
        WHERE state = 7""",
    "events follow each other": """
        SELECT message_id, n, prev, state FROM (SELECT e.message_id, e.n,
            e.state, lag(e.state, 1, 0::smallint) OVER w AS prev,
            lag(e.n, 1, 1) OVER w AS before
            FROM d.event e WINDOW w AS (PARTITION BY e.message_id
            ORDER BY e.n)) z
        WHERE n <> before + 1 OR prev <> 0 AND state <> prev
        AND NOT EXISTS (SELECT 1 FROM d.edge g
            WHERE g.from_state = prev AND g.to_state = z.state)""",
    "the last event is the state": """
        SELECT s.message_id, s.state, e.state FROM d.state s
        LEFT JOIN LATERAL (SELECT e.state FROM d.event e
            WHERE e.message_id = s.message_id ORDER BY e.n DESC LIMIT 1) e
            ON true
        WHERE coalesce(e.state, CASE WHEN EXISTS (SELECT 1 FROM d.release r
            WHERE r.message_id = s.message_id AND r.by_what <> 'o'
            AND r.round = 1) THEN 2 ELSE 1 END) <> s.state""",
    "submitted once, by the log": """
        SELECT message_id, a.n FROM d.message m FULL JOIN (SELECT message_id,
            count(*) AS n FROM d.audit WHERE event = 'message.submitted'
            GROUP BY 1) a USING (message_id)
        WHERE m.digest IS NULL OR a.n IS DISTINCT FROM 1""",
    "decisions, by the log": """
        SELECT message_id, c.n, a.n FROM (SELECT message_id, count(*) AS n
            FROM d.decision GROUP BY 1) c
        FULL JOIN (SELECT message_id, count(*) AS n FROM d.audit
            WHERE event IN ('message.approve', 'message.reject')
            GROUP BY 1) a USING (message_id)
        WHERE c.n IS DISTINCT FROM a.n""",
    "a failure is reported by an answer": """
        SELECT v.message_id, v.ix FROM d.delivery v
        WHERE v.status = 3 AND NOT EXISTS (SELECT 1 FROM d.attempt a
            WHERE a.message_id = v.message_id AND a.domain = v.domain
            AND a.dot_at IS NOT NULL)""",
    "idempotency keys of what is there": """
        SELECT i.message_id FROM d.idem i WHERE NOT EXISTS (SELECT 1
            FROM d.message m WHERE m.message_id = i.message_id)""",
    "uses of allow rules": """
        SELECT rule_id, uses_left FROM d.allow_rule
        WHERE uses_left NOT BETWEEN 0 AND 3""",
}
