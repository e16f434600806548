# SPDX-License-Identifier: ISC
"""The same gateway over less than the store, for what no work can beat.

bare: one INSERT that checks and keeps nothing. What a commit costs above it
are keys, limits, digests, states, idempotency keys, bodies apart, and the
audit log. A rate that this does not reach, no work on these can reach.

rows: the rows that a held message is, in their tables, in the counters and in
the log, each table written once a batch; nothing is looked at but whose
inbox it is, and nothing is locked or refused but by the tables. A rate that
this does not reach, no function over these tables can reach.
"""
import contextlib

TABLE = """CREATE TABLE IF NOT EXISTS d.bare (message_id uuid,
    tenant_id bigint, key_id bigint, rcpts text, params text, size bigint,
    digest bytea, subject text, body bytea);
    ALTER TABLE d.bare ALTER body SET STORAGE EXTERNAL;
    GRANT USAGE ON SCHEMA d TO PUBLIC; GRANT INSERT ON d.bare TO PUBLIC"""
BARE = """AS $bare$
#variable_conflict use_column
DECLARE
    c text := set_config('synchronous_commit', 'on', true);
BEGIN
    INSERT INTO d.bare SELECT submit_batch_1.mid[o], submit_batch_1.t[o],
        submit_batch_1.k[o], submit_batch_1.rcpts[o],
        submit_batch_1.params[o], submit_batch_1.size[o],
        submit_batch_1.dig[o], submit_batch_1.subject[o],
        submit_batch_1.body[o]
        FROM generate_series(1, cardinality(submit_batch_1.t)) o;
    RETURN QUERY SELECT o, 202, NULL::text, submit_batch_1.mid[o],
        submit_batch_1.mid[o], 1::smallint, 1::smallint, 1::smallint,
        submit_batch_1.dig[o], 'mode', now(), NULL::int, false, false
        FROM generate_series(1, cardinality(submit_batch_1.t)) o;
END $bare$"""


ROWS = """AS $rows$
#variable_conflict use_column
DECLARE
    n int := cardinality(submit_batch_1.t);
    box bigint[];
    adr text[];
    c text := set_config('synchronous_commit', 'on', true);
BEGIN
    SELECT array_agg(x.inbox_id ORDER BY o), array_agg(x.address ORDER BY o)
        INTO box, adr FROM generate_series(1, n) o
        JOIN d.credential r ON r.tenant_id = submit_batch_1.t[o]
            AND r.key_id = submit_batch_1.k[o]
        JOIN d.inbox x ON x.tenant_id = r.tenant_id
            AND x.inbox_id = r.inbox_id;
    c := set_config('postern.boxes', (SELECT array_agg(
        submit_batch_1.t[o]::text || '.' || box[o])::text
        FROM generate_series(1, n) o), true);
    INSERT INTO d.idem (tenant_id, inbox_id, lineage, key_sha256,
        request_sha256, message_id)
        SELECT submit_batch_1.t[o], box[o], 0, submit_batch_1.request[o],
        submit_batch_1.request[o], submit_batch_1.mid[o]
        FROM generate_series(1, n) o ON CONFLICT DO NOTHING;
    INSERT INTO d.message (message_id, tenant_id, inbox_id, version,
        key_id, door, test, mail_from, rcpt, rcpt_kind, params, size,
        chunks, body_tag, send_at, not_after, digest, thread_id, subject,
        header_from, rfc_message_id, attachments, links, risk,
        findings_set, finding_max, need_approvals, reasons, mode,
        mode_epoch, limits_version, tenant_epoch, tenant_box, inbox_epoch,
        inbox_box)
        SELECT submit_batch_1.mid[o], submit_batch_1.t[o], box[o], 1,
        submit_batch_1.k[o], submit_batch_1.door[o]::"char", false, adr[o],
        string_to_array(submit_batch_1.rcpts[o], E'\\n'),
        submit_batch_1.kinds[o], submit_batch_1.params[o],
        submit_batch_1.size[o], submit_batch_1.chunks[o],
        submit_batch_1.body_tag[o], submit_batch_1.send_at[o],
        submit_batch_1.not_after[o], submit_batch_1.dig[o],
        submit_batch_1.mid[o], submit_batch_1.subject[o],
        submit_batch_1.header_from[o], submit_batch_1.rfc_id[o],
        submit_batch_1.attachments[o], submit_batch_1.links[o],
        submit_batch_1.risk[o], submit_batch_1.findings_set[o],
        submit_batch_1.finding_max[o], 1, 'mode', 1, 1, 1,
        submit_batch_1.tenant_epoch[o], submit_batch_1.tenant_box[o],
        submit_batch_1.inbox_epoch[o], submit_batch_1.inbox_box[o]
        FROM generate_series(1, n) o;
    INSERT INTO d.body (message_id, tenant_id, inbox_id, version, seq, data)
        SELECT submit_batch_1.mid[o], submit_batch_1.t[o], box[o], 1, 0,
        submit_batch_1.body[o] FROM generate_series(1, n) o;
    INSERT INTO d.state (message_id, tenant_id, inbox_id, version, state,
        risk, hold_until)
        SELECT submit_batch_1.mid[o], submit_batch_1.t[o], box[o], 1, 1,
        submit_batch_1.risk[o], clock_timestamp() + interval '7 days'
        FROM generate_series(1, n) o;
    UPDATE d.quota q SET day_used = day_used + u.n,
        month_used = month_used + u.n, held = held + u.n,
        held_bytes = held_bytes + u.b
        FROM (SELECT submit_batch_1.t[o] AS t, box[o] AS i,
            count(*)::int AS n, sum(submit_batch_1.size[o])::bigint AS b
            FROM generate_series(1, n) o GROUP BY 1, 2) u
        WHERE q.tenant_id = u.t AND q.inbox_id = u.i;
    INSERT INTO d.audit (tenant_id, actor, event, message_id, detail)
        SELECT submit_batch_1.t[o], 'agent:' || submit_batch_1.t[o]::text
        || '.' || submit_batch_1.k[o]::text, 'message.submitted',
        submit_batch_1.mid[o], '{"digest":"'
        || encode(submit_batch_1.dig[o], 'hex') || '"}'
        FROM generate_series(1, n) o;
    RETURN QUERY SELECT o, 202, NULL::text, submit_batch_1.mid[o],
        submit_batch_1.mid[o], 1::smallint, 1::smallint, 1::smallint,
        submit_batch_1.dig[o], 'mode', now(), NULL::int, false, false
        FROM generate_series(1, n) o;
END $rows$"""


@contextlib.contextmanager
def body_of(d, body):
    """Meanwhile submit_batch_1 does so."""
    whole = d.sql("SELECT pg_get_functiondef('api.submit_batch_1'::regproc) "
                  "AS f")[0]["f"]
    d.sql(whole[:whole.index("AS $function$")] + body)
    try:
        yield
    finally:
        d.sql(whole)


@contextlib.contextmanager
def bare(d):
    """Meanwhile d stores a bare row; yields what counts those."""
    d.sql(TABLE)
    with body_of(d, BARE):
        yield lambda: d.sql("SELECT count(*) AS n FROM d.bare")[0]["n"]


@contextlib.contextmanager
def rows(d):
    """Meanwhile d stores no more than the rows; yields what counts those."""
    with body_of(d, ROWS):
        yield d.count
