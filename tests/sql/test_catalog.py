# SPDX-License-Identifier: ISC
"""What the catalog must say: rights, owners, row security, keys, words."""
import os
import re

import psycopg2
import pytest

from pgcluster import ROOT

LOGINS = ["l_gateway", "l_review", "l_worker", "l_ctl", "l_seal", "l_auth"]
NO_TENANT = {"domain", "address", "edge", "delivery_edge", "mode_rule",
             "global_pause", "stop", "deployment", "operator", "operator_scope",
             "operator_session", "operator_factor", "operator_recovery",
             "factor_challenge", "audit", "audit_seal", "schema_migration",
             "word_at", "job", "sandbox_event", "nobody"}


def rows(su, sql, *args):
    with su.cursor() as cur:
        cur.execute(sql, args or None)
        return cur.fetchall()


def test_every_table_forces_row_security(db, w, su):
    assert rows(su, """SELECT relname FROM pg_class
        WHERE relnamespace = 'd'::regnamespace AND relkind IN ('r', 'p')
        AND NOT (relrowsecurity AND relforcerowsecurity)""") == []


def test_no_login_has_a_right_on_a_table(w, su):
    assert rows(su, """SELECT r.rolname, c.relname FROM pg_roles r, pg_class c
        WHERE r.rolname LIKE 'l\\_%%' AND r.rolname <> 'l_migrate'
        AND c.relnamespace IN ('d'::regnamespace, 'api'::regnamespace)
        AND c.relkind IN ('r', 'p', 'v')
        AND (has_table_privilege(r.oid, c.oid,
        'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
        OR has_any_column_privilege(r.oid, c.oid,
        'SELECT, INSERT, UPDATE, REFERENCES'))""") == []
    assert rows(su, """SELECT r.rolname FROM pg_roles r
        WHERE r.rolname LIKE 'l\\_%%' AND r.rolname <> 'l_migrate'
        AND (has_schema_privilege(r.oid, 'd', 'USAGE, CREATE')
        OR has_schema_privilege(r.oid, 'api', 'CREATE')
        OR has_schema_privilege(r.oid, 'public', 'USAGE, CREATE')
        OR has_database_privilege(r.oid, current_database(),
        'CREATE, TEMPORARY')
        OR has_language_privilege(r.oid, 'plpgsql', 'USAGE'))""") == []


def test_public_may_execute_nothing(w, su):
    assert rows(su, """SELECT p.oid::regprocedure FROM pg_proc p
        WHERE p.pronamespace IN ('api'::regnamespace, 'd'::regnamespace)
        AND (p.proacl IS NULL OR EXISTS (SELECT 1 FROM aclexplode(p.proacl) a
        WHERE a.grantee = 0))""") == []


def test_api_functions_are_definers_of_zones(w, su):
    bad = rows(su, """SELECT p.proname, r.rolname FROM pg_proc p
        JOIN pg_roles r ON r.oid = p.proowner
        WHERE p.pronamespace = 'api'::regnamespace AND (NOT p.prosecdef
        OR r.rolsuper OR r.rolbypassrls OR r.rolcanlogin
        OR r.rolname = 'p_owner' OR EXISTS (SELECT 1 FROM pg_class c
        WHERE c.relowner = r.oid AND c.relkind IN ('r', 'p'))
        OR NOT coalesce('search_path=pg_catalog, pg_temp'
        = ANY (p.proconfig), false))""")
    assert bad == []
    # Definers beneath them set their path too.
    assert rows(su, """SELECT p.proname FROM pg_proc p
        WHERE p.pronamespace = 'd'::regnamespace AND p.prosecdef
        AND NOT coalesce('search_path=pg_catalog, pg_temp'
        = ANY (p.proconfig), false)""") == []


def test_zones_cannot_sign_in_or_bypass(w, su):
    assert rows(su, """SELECT rolname FROM pg_roles WHERE (rolname
        LIKE 'p\\_%%' AND rolcanlogin) OR (rolname ~ '^[pl]_'
        AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb
        OR rolreplication OR rolinherit AND rolname <> 'p_owner'))""") == []
    # p_owner sees how far a standby has come, and inherits nothing else.
    assert {r for (r,) in rows(su, """SELECT m.roleid::regrole::text
        FROM pg_auth_members m WHERE m.member = 'p_owner'::regrole""")} == {
            "pg_read_all_stats"}
    assert rows(su, """SELECT m.member::regrole FROM pg_auth_members m
        WHERE m.roleid::regrole::text LIKE 'p\\_%%'
        AND m.member <> 'l_migrate'::regrole""") == []
    assert rows(su, """SELECT 1 FROM pg_db_role_setting s JOIN pg_roles r
        ON r.oid = s.setrole WHERE r.rolname ~ '^[pl]_'""") == []


def test_primary_keys_contain_the_tenant(w, su):
    got = rows(su, """SELECT c.relname, bool_or(a.attname = 'tenant_id')
        FROM pg_class c LEFT JOIN pg_index i ON i.indrelid = c.oid
            AND i.indisprimary
        LEFT JOIN pg_attribute a ON a.attrelid = c.oid
            AND a.attnum = ANY (i.indkey)
        WHERE c.relnamespace = 'd'::regnamespace AND c.relkind IN ('r', 'p')
        AND NOT c.relispartition GROUP BY 1""")
    assert {t for t, ok in got if not ok} == NO_TENANT


def test_content_is_insert_only(w, su):
    """No zone may change or delete what was said, seen or decided."""
    for t in ("message", "body", "decision", "release", "event", "dsn",
              "audit", "audit_seal", "tenant_key", "inbox_key", "comment"):
        assert rows(su, """SELECT r.rolname FROM pg_roles r
            WHERE r.rolname LIKE 'p\\_%%' AND r.rolname <> 'p_owner'
            AND (has_table_privilege(r.oid, 'd.' || %s,
            'UPDATE, DELETE, TRUNCATE')
            OR has_any_column_privilege(r.oid, 'd.' || %s, 'UPDATE'))""",
                    t, t) == [], t


def test_who_may_write_what_releases(w, su):
    def who(table, right):
        return {r for r, in rows(su, """SELECT r.rolname FROM pg_roles r
            WHERE r.rolname LIKE 'p\\_%%' AND r.rolname <> 'p_owner'
            AND (has_table_privilege(r.oid, 'd.' || %s, %s)
            OR %s <> 'DELETE' AND has_any_column_privilege(r.oid,
            'd.' || %s, replace(%s, 'DELETE', 'SELECT')))""",
                                 table, right, right, table, right)}
    assert who("decision", "INSERT") == {"p_review"}
    assert who("release", "INSERT") == {"p_review", "p_policy"}
    assert who("send_q", "INSERT") == {"p_policy"}
    assert who("message", "INSERT") == {"p_submit"}
    assert who("body", "SELECT") == {"p_submit", "p_read", "p_review",
                                     "p_relay"}
    assert who("audit", "SELECT") == {"p_seal", "p_review"}
    for column in ("xid", "at", "zone", "n", "gen"):
        assert rows(su, """SELECT rolname FROM pg_roles WHERE rolname
            LIKE 'p\\_%%' AND rolname <> 'p_owner'
            AND has_column_privilege(oid, 'd.audit', %s, 'INSERT')""",
                    column) == []


def test_logins_share_no_agent_and_operator_function(w, su):
    got = rows(su, """SELECT r.rolname, p.proname FROM pg_roles r, pg_proc p
        WHERE r.rolname LIKE 'l\\_%%' AND p.pronamespace = 'api'::regnamespace
        AND has_function_privilege(r.oid, p.oid, 'EXECUTE')""")
    of = {r: {f for q, f in got if q == r} for r in LOGINS}
    assert of["l_gateway"] & of["l_review"] == {"ready_1"}
    assert of["l_gateway"] & of["l_worker"] == {"ready_1"}
    assert of["l_review"] & of["l_worker"] == {"ready_1"}
    assert of["l_gateway"] & of["l_ctl"] == {"ready_1", "claim_1"}
    assert of["l_worker"] & of["l_ctl"] == {"ready_1"}
    assert "decide_1" not in of["l_ctl"]
    assert not {f for f in of["l_ctl"] if f.startswith("review")}
    assert of["l_seal"] == {"ready_1", "seal_head_1", "seal_next_1",
                            "seal_put_1", "audit_blocks_1", "audit_rows_1"}


def documented():
    """docs/store-api.md: name -> (arguments, columns, login of section)."""
    with open(os.path.join(ROOT, "docs", "store-api.md")) as f:
        text = f.read()
    blocks = "\n".join(re.findall(r"```\n(.*?)\n```", text, re.S))
    flat = re.sub(r"\n  +", " ", blocks)
    m = re.search(r"^M = (.*)$", flat, re.M).group(1)
    found = {}
    for line in flat.split("\n"):
        got = re.match(r"api\.(\w+)\((.*?)\) -> (.*)$", line)
        if got:
            cols = re.sub(r"\bM\b", m, got.group(3))
            found[got.group(1)] = (got.group(2), cols)
    return found


def test_the_page_names_what_is_there(w, su):
    doc = documented()
    got = dict((n, (a, r)) for n, a, r in rows(su, """SELECT p.proname,
        (SELECT coalesce(string_agg(p.proargnames[i] || ' '
            || (p.proargtypes[i - 1])::regtype::text, ', ' ORDER BY i), '')
            FROM generate_series(1, p.pronargs) i),
        (SELECT string_agg(p.proargnames[i] || ' '
            || (p.proallargtypes[i])::regtype::text, ', ' ORDER BY i)
            FROM generate_series(p.pronargs + 1,
            cardinality(p.proallargtypes)) i)
        FROM pg_proc p WHERE p.pronamespace = 'api'::regnamespace"""))

    def same(s):
        return s.replace("timestamp with time zone", "timestamptz") \
            .replace("integer", "int")
    assert set(doc) == set(got)
    for name, (args, cols) in doc.items():
        if name == "submit_batch_1":
            args = ", ".join(a + "[]" for a in doc["submit_1"][0].split(", "))
            cols = doc["submit_1"][1]
        assert same(got[name][0]) == args, name
        assert same(got[name][1]) == cols, name


STATES = dict(NEW=0, HELD=1, APPROVED=2, REJECTED=3, EXPIRED=4, CANCELED=5,
              SCHEDULED=6, SENDING=7, SENT=8, DEFERRED=9, BOUNCED=10,
              UNCERTAIN=11)
STEPS = dict(PENDING=0, SENDING=1, DOT_SENT=2, DELIVERED=3, DEFERRED=4,
             FAILED=5, UNCERTAIN=6, SUPPRESSED=7, CANCELED=8)
ZONES = dict(AGENT="p_submit", OPERATOR="p_review", POLICY="p_policy",
             WORKER="p_relay", CTL="p_ctl")


def test_edges_equal_those_of_policy(w, su):
    with open(os.path.join(ROOT, "policy", "edges.def")) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    edges = {(STATES[a], STATES[b], ZONES[c]) for a, b, c in re.findall(
        r"^EDGE\((\w+), (\w+), (\w+)\)", text, re.M)}
    steps = {(STEPS[a], STEPS[b], ZONES[c]) for a, b, c in re.findall(
        r"^STEP\((\w+), (\w+), (\w+)\)", text, re.M)}
    assert set(rows(su, "SELECT * FROM d.edge")) == edges
    assert set(rows(su, "SELECT * FROM d.delivery_edge")) == steps


def test_what_runs_for_each_message_is_planned_once(w, su):
    """Decision 0025; a function made anew would lose its settings."""
    assert rows(su, """SELECT p.proname FROM pg_proc p
        WHERE p.pronamespace = 'api'::regnamespace AND p.proname IN (
            'submit_batch_1', 'auth_1', 'claim_due_1', 'fetch_1',
            'fetch_body_1', 'attempt_1', 'beat_1', 'dot_1', 'done_1',
            'release_lease_1', 'decide_1', 'my_get_1', 'review_keys_1',
            'review_body_1')
        AND 'plan_cache_mode=force_generic_plan' = ANY (p.proconfig)
        ORDER BY 1""") == [(n,) for n in (
            "attempt_1", "auth_1", "beat_1", "claim_due_1", "decide_1",
            "done_1", "dot_1", "fetch_1", "fetch_body_1", "my_get_1",
            "release_lease_1", "review_body_1", "review_keys_1",
            "submit_batch_1")]
    # Whatever statistics say, a claim follows the queue's index.
    assert rows(su, """SELECT 1 FROM pg_proc p WHERE p.proname = 'claim_due_1'
        AND 'enable_sort=off' = ANY (p.proconfig)""") == [(1,)]


def test_modes_equal_those_of_policy(w, su):
    with open(os.path.join(ROOT, "policy", "vocabulary.def")) as f:
        modes = {(int(n), name) for n, name in re.findall(
            r"^MODE\(\w+, (\d), \"(\w+)\"", f.read(), re.M)}
    assert set(rows(su, "SELECT mode, name FROM d.mode_rule")) == modes
    assert rows(su, "SELECT mode FROM d.mode_rule WHERE releases "
                "ORDER BY 1") == [(3,), (4,)]


def test_keys_go_leaf_to_leaf(w, su):
    leaf = rows(su, """SELECT relname FROM pg_class WHERE relname
        ~ '^message_[0-9]{8}$' ORDER BY 1""")
    assert len(leaf) >= 6
    for name, in leaf:
        week = name[-8:]
        got = {(a.split("_")[0], b.split("_")[0]) for a, b in rows(
            su, """SELECT conrelid::regclass::text, confrelid::regclass::text
            FROM pg_constraint WHERE contype = 'f'
            AND conrelid::regclass::text LIKE 'd.%%' || %s""", week)}
        assert got == {("d.decision", "d.message"),
                       ("d.release", "d.message"), ("d.delivery", "d.state"),
                       ("d.comment", "d.state"), ("d.dsn", "d.state")}


def test_every_statement_of_the_programs_prepares(db, w):
    """Each SQL text in store/*.c parses against the migrated schema."""
    su = db.connect("postgres")
    names = {n for n, in rows(su, "SELECT proname FROM pg_proc "
                              "WHERE pronamespace = 'api'::regnamespace")}
    used = set()
    for folder in ("store", "ctl", "deliver", "gateway", "admin", "api"):
        path = os.path.join(ROOT, folder)
        for name in sorted(os.listdir(path) if os.path.isdir(path) else []):
            if not name.endswith(".c"):
                continue
            with open(os.path.join(path, name)) as f:
                text = f.read()
            # Adjacent string literals are one statement.
            text = re.sub(r'"\s*\n?\s*"', "", text)
            for sql in re.findall(r'"(SELECT [^"]*api\.\w+[^"]*)"', text):
                used |= set(re.findall(r"api\.(\w+)", sql))
                if "%" in sql:
                    continue
                with su.cursor() as cur:
                    try:
                        cur.execute("PREPARE probe AS " + sql)
                        cur.execute("DEALLOCATE probe")
                    except psycopg2.Error as e:
                        pytest.fail("%s: %s\n%s" % (name, sql, e))
    assert used <= names, used - names


def test_partitions_are_written_through_their_parents(w, su):
    """What is checked after a statement (decision 0100) is so by the parent's
    trigger only: nobody but the owner may name a partition."""
    got = rows(su, """SELECT c.relname, r.rolname, p.what FROM pg_class c
        CROSS JOIN pg_roles r CROSS JOIN unnest(ARRAY['INSERT', 'UPDATE',
        'DELETE', 'TRUNCATE', 'TRIGGER']) p (what)
        WHERE c.relispartition AND c.relkind IN ('r', 'p')
        AND c.relnamespace = 'd'::regnamespace AND r.rolname ~ '^[pl]_'
        AND NOT pg_has_role(r.oid, c.relowner, 'MEMBER')
        AND (has_table_privilege(r.oid, c.oid, p.what)
        OR p.what IN ('INSERT', 'UPDATE')
        AND has_any_column_privilege(r.oid, c.oid, p.what))""")
    assert got == []
    assert rows(su, """SELECT count(*) > 4 AND bool_and(c.relowner
        = 'p_owner'::regrole) FROM pg_class c WHERE c.relispartition
        AND c.relkind = 'r' AND c.relnamespace = 'd'::regnamespace""") \
        == [(True,)]


def test_each_week_has_the_functions_as_they_are(w, su):
    """A migration that changes one makes those of the weeks anew (0127)."""
    def found():
        return rows(su, """SELECT p.proname, pg_get_functiondef(p.oid),
            p.proowner::regrole::text, p.prosecdef, (SELECT
            array_agg(r.rolname::text ORDER BY r.rolname) FROM pg_roles r
            WHERE r.rolname ~ '^[pl]_'
            AND has_function_privilege(r.oid, p.oid, 'EXECUTE'))
            FROM pg_proc p WHERE p.pronamespace = 'd'::regnamespace
            AND p.proname ~ '_at_[0-9]{8}$' ORDER BY 1""")
    as_it_is = found()
    general = [n for n, in rows(su, """SELECT proname FROM pg_proc WHERE
        pronamespace = 'd'::regnamespace AND proname ~ '_at$'
        AND prosrc ~ 'lo, hi'""")]
    weeks = [str(y) for y, in rows(su, "SELECT to_char(y, 'YYYYMMDD') "
                                   "FROM d.weeks() y")]
    assert len(general) == 4 and len(weeks) >= 6
    assert {r[0] for r in as_it_is} == {
        "%s_%s" % (g, week) for g in general for week in weeks}
    for name, text, owner, definer, who in as_it_is:
        assert (owner, definer) == ("p_owner", False), name
        assert who == ["p_owner", "p_relay"], name
        assert not re.search(r"lo, hi|\bhi\b(?! uuid)", text), name
        assert not re.search(r"d\.\w+_at\(", text), name
    rows(su, "SELECT d.week_make(y) FROM d.weeks() y")
    assert found() == as_it_is
