# SPDX-License-Identifier: ISC
"""bare: the same gateway over one INSERT that checks and keeps nothing.

What a commit of Postern costs above a table of PostgreSQL: keys, limits,
digests, states, idempotency keys, bodies apart, and the audit log. A rate
that this does not reach, no work on these can reach.
"""
import contextlib

TABLE = """CREATE TABLE IF NOT EXISTS d.bare (message_id uuid,
    tenant_id bigint, key_id bigint, rcpts text, params text, size bigint,
    digest bytea, subject text, body bytea);
    ALTER TABLE d.bare ALTER body SET STORAGE EXTERNAL;
    GRANT USAGE ON SCHEMA d TO PUBLIC; GRANT INSERT ON d.bare TO PUBLIC"""
BODY = """AS $bare$
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


@contextlib.contextmanager
def bare(d):
    """Meanwhile d stores so; yields what counts the rows of that."""
    whole = d.sql("SELECT pg_get_functiondef('api.submit_batch_1'::regproc) "
                  "AS f")[0]["f"]
    d.sql(TABLE)
    d.sql(whole[:whole.index("AS $function$")] + BODY)
    try:
        yield lambda: d.sql("SELECT count(*) AS n FROM d.bare")[0]["n"]
    finally:
        d.sql(whole)
