-- SPDX-License-Identifier: ISC
-- 0019_plans.sql - what runs for each message plans once a session, without
-- knowing the values: it looks up by key, in one partition, and never reads a
-- whole table. Planned for each call anew, over all weeks, it took twice as
-- long (decision 0025). cpu_tuple_cost: reading many rows is never the cheaper
-- way, however few there were when it was planned (decision 0108).
SET LOCAL ROLE p_owner;
DO $$
DECLARE
	f record;
	s text;
BEGIN
	FOR f IN SELECT p.oid::regprocedure AS name, p.proowner::regrole AS zone
	    FROM pg_proc p WHERE p.pronamespace = 'api'::regnamespace
	    AND p.proname IN ('claim_due_1', 'fetch_1', 'fetch_body_1',
	        'attempt_1', 'beat_1', 'sweep_1', 'dot_1', 'done_1', 'release_lease_1',
	        'decide_1', 'fetches_1', 'attempts_1', 'dots_1', 'sents_1',
	        'releases_1', 'my_get_1', 'review_keys_1', 'review_body_1', 'job_reject_1',
	        'reject_all_1', 'job_undo_1') LOOP
		EXECUTE format('SET LOCAL ROLE %s', f.zone);
		FOREACH s IN ARRAY '{plan_cache_mode = force_generic_plan, jit = off,
		    enable_seqscan = off, enable_bitmapscan = off,
		    enable_hashjoin = off, enable_mergejoin = off,
		    cpu_tuple_cost = 1}'::text[] LOOP
			EXECUTE format('ALTER FUNCTION %s SET %s', f.name, s);
		END LOOP;
		RESET ROLE;
	END LOOP;
	-- A claim takes who comes next, in the order of an index. Planned when few
	-- seem to be due it would sort all of them, each time.
	SET LOCAL ROLE p_relay;
	ALTER FUNCTION api.claim_due_1 SET enable_sort = off;
	RESET ROLE;
	-- What the pages ask is planned once a session too, and each week begins
	-- with empty tables: a plan made then reads all of what has come since,
	-- row for row of a list.
	FOR f IN SELECT p.oid::regprocedure AS name, p.proowner::regrole AS zone
	    FROM pg_proc p WHERE p.pronamespace = 'api'::regnamespace
	    AND has_function_privilege('l_review', p.oid, 'execute')
	    AND NOT coalesce(p.proconfig::text, '') LIKE '%enable_seqscan%' LOOP
		EXECUTE format('SET LOCAL ROLE %s', f.zone);
		EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', f.name);
		RESET ROLE;
	END LOOP;
END $$;

-- The weeks that were made before what is made once for each.
SET LOCAL ROLE p_owner;
SELECT d.week_make(to_date(right(c.relname, 8), 'YYYYMMDD')) FROM pg_class c
	WHERE c.relnamespace = 'd'::regnamespace
	AND c.relname ~ '^message_[0-9]{8}$';
