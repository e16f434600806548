-- SPDX-License-Identifier: ISC
--
-- roles.sql - the part of the schema that needs a superuser. Run once by psql
-- in the new database, and again after an upgrade: it changes nothing twice.
--
-- p_* own functions or tables and cannot sign in; l_* sign in and own nothing.
-- A login role can read no table: it may execute what api.* grants it.
-- A line `-- step: WHAT` begins what must work, `-- hardening: WHAT` what a
-- managed PostgreSQL may refuse: posternctl then says what is lacking.
-- No login role may carry settings (ALTER ROLE ... SET): programs check that.

-- step: roles
DO $$
DECLARE r text;
BEGIN
	IF current_setting('server_version_num')::int < 150014 THEN
		RAISE EXCEPTION 'PostgreSQL 15.14 or newer is needed';
	END IF;
	FOREACH r IN ARRAY ARRAY['p_owner', 'p_submit', 'p_read', 'p_review',
	    'p_relay', 'p_policy', 'p_ctl', 'p_seal', 'p_auth'] LOOP
		IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = r) THEN
			EXECUTE format('CREATE ROLE %I NOLOGIN NOINHERIT', r);
		END IF;
	END LOOP;
	FOREACH r IN ARRAY ARRAY['l_gateway', 'l_review', 'l_worker', 'l_ctl',
	    'l_seal', 'l_auth', 'l_migrate'] LOOP
		IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = r) THEN
			EXECUTE format('CREATE ROLE %I LOGIN NOINHERIT', r);
		END IF;
	END LOOP;
	EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC',
	    current_database());
	-- Short statements only: compiling them costs more than running them.
	EXECUTE format('ALTER DATABASE %I SET jit = off', current_database());
	EXECUTE format('GRANT CONNECT ON DATABASE %I TO l_gateway, l_review, '
	    'l_worker, l_ctl, l_seal, l_auth, l_migrate', current_database());
END $$;

-- Only the migrator may become an owner.
GRANT p_owner, p_submit, p_read, p_review, p_relay, p_policy, p_ctl, p_seal,
	p_auth TO l_migrate;

-- hardening: nobody makes functions or tables of their own
REVOKE ALL ON SCHEMA public FROM PUBLIC;
REVOKE USAGE ON LANGUAGE plpgsql, sql FROM PUBLIC;
GRANT USAGE ON LANGUAGE plpgsql, sql TO p_owner, p_submit, p_read, p_review,
	p_relay, p_policy, p_ctl, p_seal, p_auth;

-- hardening: sessions cannot see, end or signal each other
-- What every session could otherwise use against its neighbours.
REVOKE EXECUTE ON FUNCTION pg_terminate_backend(int, bigint),
	pg_cancel_backend(int) FROM PUBLIC;
REVOKE SELECT ON pg_stat_activity, pg_stats, pg_stats_ext, pg_stats_ext_exprs,
	pg_locks FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_stat_get_activity(int) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC;
DO $$
DECLARE f regprocedure;
BEGIN
	FOR f IN SELECT p.oid::regprocedure FROM pg_proc p
	    WHERE p.pronamespace = 'pg_catalog'::regnamespace
	    AND (p.proname LIKE 'pg\_advisory\_%'
	    OR p.proname LIKE 'pg\_try\_advisory\_%'
	    OR p.proname IN ('lo_create', 'lo_creat', 'lo_from_bytea', 'lo_open',
	    'loread', 'lowrite', 'lo_get', 'lo_put', 'lo_unlink', 'lo_truncate',
	    'lo_truncate64', 'lo_lseek', 'lo_lseek64', 'lo_tell', 'lo_tell64',
	    'lo_close', 'pg_stat_get_backend_activity',
	    'query_to_xml', 'table_to_xml', 'database_to_xml')) LOOP
		EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
	END LOOP;
END $$;
DO $$
BEGIN
	IF has_function_privilege('l_gateway', 'pg_terminate_backend(int, bigint)',
	    'EXECUTE') OR has_table_privilege('l_gateway', 'pg_stat_activity',
	    'SELECT') THEN
		RAISE EXCEPTION 'PUBLIC keeps its rights';
	END IF;
END $$;
-- restore_finish_1 refuses while a program is connected; migrate --contract
-- while one that knows too little is: its application_name says what it knows.
GRANT SELECT (datname, usename, application_name) ON pg_stat_activity TO p_ctl;
GRANT EXECUTE ON FUNCTION pg_stat_get_activity(int) TO p_ctl;
GRANT EXECUTE ON FUNCTION pg_advisory_xact_lock(bigint),
	pg_try_advisory_lock(bigint), pg_advisory_lock(bigint),
	pg_advisory_unlock(bigint) TO l_migrate, p_owner;

-- hardening: a failover is told from a copy by itself
-- The history of timelines is a file beside the log; api.ready_1 shows it.
GRANT EXECUTE ON FUNCTION pg_read_file(text, bigint, bigint, boolean)
	TO p_owner;
-- How far a synchronous standby has come.
ALTER ROLE p_owner INHERIT;
GRANT pg_read_all_stats TO p_owner;

-- step: settings that exist inside one call
-- Identity lives in settings that exist only inside one function call; a
-- function may carry `SET postern.x` only when its owner may set it.
GRANT SET ON PARAMETER "postern.boxes", "postern.tenants", "postern.msg",
	"postern.actor", "postern.sandbox" TO p_owner, p_submit, p_read,
	p_review, p_relay, p_policy, p_ctl, p_seal, p_auth;

-- step: schemas
CREATE SCHEMA IF NOT EXISTS d AUTHORIZATION p_owner;
CREATE SCHEMA IF NOT EXISTS api AUTHORIZATION p_owner;
GRANT USAGE ON SCHEMA d TO p_submit, p_read, p_review, p_relay, p_policy,
	p_ctl, p_seal, p_auth;
GRANT USAGE ON SCHEMA api TO p_submit, p_read, p_review, p_relay, p_policy,
	p_ctl, p_seal, p_auth, l_gateway, l_review, l_worker, l_ctl, l_seal, l_auth,
	l_migrate;
-- p_* may create functions only while a migration runs: it grants and revokes.

ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE p_owner, p_submit, p_read, p_review, p_relay,
	p_policy, p_ctl, p_seal, p_auth REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
