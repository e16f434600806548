-- SPDX-License-Identifier: ISC
-- 0015_together.sql - what lets several people work through a long queue:
-- decisions over many messages, who looks at what, comments, what is new.
-- Like 0007: each call shows the session's secret, row security bounds it.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_review;

-- A decision over many messages. What it is about is frozen in job_item when
-- it is made; it is confirmed by the hash over all of them, so that the
-- confirming call names every one, and it moves only while a call shows the
-- session that confirmed it.
-- state: 0 made, 1 running, 2 paused, 3 canceled, 4 done.
CREATE TABLE d.job (
	job_id uuid PRIMARY KEY,
	operator_id bigint NOT NULL REFERENCES d.operator,
	session_sha256 bytea CHECK (octet_length(session_sha256) = 32),
	verdict "char" NOT NULL CHECK (verdict IN ('a', 'r')),
	state smallint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
	about text NOT NULL CHECK (length(about) <= 400),
	category text,
	note text CHECK (length(note) <= 1000),
	hint text,
	items int NOT NULL DEFAULT 0,
	items_sha256 bytea,
	next_ix int NOT NULL DEFAULT 1,
	done int NOT NULL DEFAULT 0,
	failed int NOT NULL DEFAULT 0,
	refused int NOT NULL DEFAULT 0,
	undo_ix int,
	undone int NOT NULL DEFAULT 0,
	more boolean NOT NULL DEFAULT false,
	made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	confirmed_at timestamptz,
	moved_at timestamptz,
	ended_at timestamptz) WITH (fillfactor = 50);
CREATE INDEX job_operator ON d.job (operator_id, made_at);

-- ix from 1: to be decided, in this order; below 0: refused when it was made.
-- Made with their job, up to 50,000 at once: a foreign key would look that many
-- times for the job that was made a line before.
CREATE TABLE d.job_item (
	job_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	ix int NOT NULL,
	inbox_id bigint NOT NULL,
	message_id uuid NOT NULL,
	version smallint NOT NULL,
	round smallint NOT NULL,
	digest bytea NOT NULL,
	outcome text CHECK (length(outcome) <= 64),
	PRIMARY KEY (job_id, ix, tenant_id)) WITH (fillfactor = 80);

-- Who has a held message open: shown to the others, decides nothing.
CREATE TABLE d.look (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	operator_id bigint NOT NULL REFERENCES d.operator,
	until timestamptz NOT NULL,
	PRIMARY KEY (message_id, tenant_id)) WITH (fillfactor = 50);
CREATE INDEX look_until ON d.look (until);

DO $$
DECLARE
	t text;
	scope text := '(tenant_id = ANY ((SELECT d.cur_tenants())::bigint[])
	    OR (tenant_id::text || ''.'' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[]))';
BEGIN
	FOREACH t IN ARRAY ARRAY['job', 'job_item', 'look'] LOOP
		EXECUTE format('ALTER TABLE d.%I ENABLE ROW LEVEL SECURITY, '
		    'FORCE ROW LEVEL SECURITY', t);
	END LOOP;
	FOREACH t IN ARRAY ARRAY['job_item', 'look', 'comment'] LOOP
		EXECUTE format('CREATE POLICY p_review_scope ON d.%I TO p_review '
		    'USING (%s) WITH CHECK (%s)', t, scope, scope);
	END LOOP;
END $$;
-- A job is its maker's alone.
CREATE POLICY p_review_own ON d.job TO p_review USING
	('op:' || operator_id::text = (SELECT d.cur_actor())) WITH CHECK
	('op:' || operator_id::text = (SELECT d.cur_actor()));
GRANT SELECT, INSERT, UPDATE (session_sha256, state, category, note, hint,
	items, items_sha256, next_ix, done, failed, refused, undo_ix, undone, more,
	confirmed_at, moved_at, ended_at) ON d.job TO p_review;
-- It goes on with its session under another secret (d.session_turn).
GRANT SELECT (operator_id, session_sha256), UPDATE (session_sha256) ON d.job
	TO p_auth;
CREATE POLICY p_auth_turn ON d.job TO p_auth USING (true);
GRANT SELECT, INSERT, UPDATE (outcome) ON d.job_item TO p_review;
GRANT SELECT, INSERT, DELETE, UPDATE (operator_id, until) ON d.look
	TO p_review;
-- What a job was about goes after 30 days (d.sweep_small); the log stays.
GRANT SELECT, DELETE ON d.job, d.job_item TO p_owner;
CREATE POLICY p_owner_keep ON d.job TO p_owner USING (true);
CREATE POLICY p_owner_keep ON d.job_item TO p_owner USING (true);
GRANT SELECT, INSERT ON d.comment TO p_review;
CREATE TRIGGER frozen BEFORE UPDATE OR DELETE ON d.comment
	FOR EACH ROW EXECUTE FUNCTION d.no_change();
CREATE TRIGGER kept BEFORE TRUNCATE ON d.comment
	EXECUTE FUNCTION d.no_change();

-- From where on to look for what came after `after`: not before the newest
-- `lim` rows, whoever's they are. Row security would have a quiet tenant's
-- page read all of a busy one's mail, each second. A place tells of no row.
CREATE FUNCTION d.live_from(after uuid, lim int) RETURNS uuid
	LANGUAGE plpgsql STABLE SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
	SET enable_bitmapscan = off SET enable_sort = off
	SET plan_cache_mode = force_custom_plan AS $$
BEGIN
	IF (SELECT count(*) FROM (SELECT 1 FROM d.state s
	    WHERE s.message_id > after ORDER BY s.message_id LIMIT lim + 1) z)
	    <= lim THEN
		RETURN after;
	END IF;
	RETURN (SELECT s.message_id FROM d.state s ORDER BY s.message_id DESC
	    OFFSET lim LIMIT 1);
END $$;
GRANT EXECUTE ON FUNCTION d.live_from TO p_review;

SET LOCAL ROLE p_review;

-- The held messages a job would be about: those named, or all that a page of
-- the queue could show. At most 50,000.
CREATE FUNCTION d.job_about(tenants bigint[], box bigint, q text, ids uuid[],
	most int, risk_from int, risk_to int) RETURNS TABLE (message_id uuid, o bigint) LANGUAGE plpgsql
	STABLE SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
	hits uuid[];
	first uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
	a d.asked_for := d.asked(q);
	want tsquery := d.words_want(tenants, q);
	wordless boolean := a.words = '' AND a.marks = '{}';
	looks uuid[] := CASE WHEN a.more THEN d.looked_at(a.seen = 'me') END;
BEGIN
	IF ids IS NOT NULL THEN
		RETURN QUERY SELECT y.m, y.n FROM unnest(ids) WITH ORDINALITY
		    y (m, n) LIMIT most;
	ELSIF wordless AND NOT a.more THEN
		RETURN QUERY SELECT h.message_id, row_number() OVER ()
		    FROM d.held_walk(tenants, box, risk_to + 1, first, most,
		    risk_from) h;
	ELSE
		IF a.seen IN ('me', 'anyone') THEN
			hits := d.looked_at(a.seen = 'me');
		ELSIF NOT wordless THEN
			hits := d.found(tenants, q, most + 1);
		ELSIF a.left_at IS NOT NULL THEN
			hits := d.left_ids(tenants, box, a.left_at, most + 1);
		ELSE
			hits := ARRAY(SELECT h.message_id FROM d.held_aged(tenants,
			    box, risk_to + 1, first, most + 1, risk_from, a.lo,
			    a.hi) h);
		END IF;
		RETURN QUERY SELECT y.m, y.n FROM unnest(hits) WITH ORDINALITY
		    y (m, n) JOIN d.state s ON s.message_id = y.m
		    WHERE s.state = 1 AND s.risk BETWEEN risk_from AND risk_to
		    AND s.tenant_id = ANY (tenants)
		    AND (box IS NULL OR s.inbox_id = box)
		    AND (want IS NULL OR (SELECT w.words @@ want FROM d.word w
		        WHERE w.message_id = s.message_id
		        AND w.tenant_id = s.tenant_id))
		    AND (NOT a.more OR d.asked_fits(a, looks, s.message_id,
		        s.hold_until, s.changed_at));
	END IF;
END $$;

-- Freeze what is to be decided. What may not be decided this way is listed
-- with the reason: risky mail is approved one by one.
CREATE FUNCTION api.job_make_1(s bytea, job uuid, verdict text, tenant bigint,
	inbox bigint, q text, ids uuid[], about text, risk_from int DEFAULT 0,
	risk_to int DEFAULT 100)
	RETURNS TABLE (status int, code text, items int, refused int,
	more boolean)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	c record;
	most int := 50000;
BEGIN
	o := d.op(s);
	IF o.status = 200 AND NOT EXISTS (SELECT 1 FROM d.operator_scope z
	    WHERE z.operator_id = o.operator_id
	    AND z.role IN ('reviewer', 'senior')) THEN
		o.status := 403;
		o.code := 'missing_permission';
	ELSIF o.status = 200 AND (job IS NULL OR job_make_1.verdict IS NULL
	    OR job_make_1.verdict NOT IN ('a', 'r') OR length(about) > 400
	    OR cardinality(ids) > 1000) THEN
		o.status := 422;
		o.code := 'validation_error';
	ELSIF o.status = 200 AND (SELECT count(*) FROM d.job j
	    WHERE j.operator_id = o.operator_id
	    AND j.made_at > clock_timestamp() - interval '1 hour') >= 60 THEN
		o.status := 429;
		o.code := 'rate_limited';
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	INSERT INTO d.job (job_id, operator_id, verdict, about) VALUES (job,
	    o.operator_id, job_make_1.verdict::"char", coalesce(job_make_1.about,
	    ''));
	INSERT INTO d.job_item (job_id, tenant_id, ix, inbox_id, message_id,
	    version, round, digest, outcome)
	    -- what is left out is listed from the least number: highest risk first
	    SELECT job, z.tenant_id, CASE WHEN z.why IS NULL
	        THEN row_number() OVER (PARTITION BY z.why IS NULL ORDER BY z.o)
	        ELSE -row_number() OVER (PARTITION BY z.why IS NULL
	        ORDER BY z.risk, z.o DESC) END,
	    z.inbox_id, z.message_id, z.version, z.round, z.digest, z.why
	    FROM (SELECT h.o, y.tenant_id, y.inbox_id, y.message_id, y.version,
	        y.round, y.risk, m.digest, CASE
	        WHEN r.cap IS NULL THEN 'missing_permission'
	        WHEN job_make_1.verdict = 'r' THEN NULL
	        WHEN y.integrity IS NOT NULL THEN 'state_conflict'
	        WHEN y.risk >= 25 OR y.risk > r.cap THEN 'risky'
	        WHEN m.need_approvals > 1 THEN 'second_approval_needed' END AS why
	    FROM d.job_about(d.look_into(tenant), inbox, q, ids, most, risk_from,
	        risk_to) h
	    JOIN d.state y ON y.message_id = h.message_id AND y.state = 1
	    JOIN d.message m ON m.message_id = y.message_id
	        AND m.tenant_id = y.tenant_id AND m.version = y.version
	    JOIN (SELECT b.tenant_id, b.inbox_id, max(CASE WHEN e.role = 'senior'
	        THEN 100 ELSE e.risk_cap END) AS cap FROM d.inbox b
	        LEFT JOIN d.operator_scope e ON e.operator_id = o.operator_id
	        AND e.role IN ('reviewer', 'senior') AND (e.tenant_id IS NULL
	        OR e.tenant_id = b.tenant_id AND (e.inbox_id IS NULL
	        OR e.inbox_id = b.inbox_id)) GROUP BY 1, 2) r
	        ON r.tenant_id = y.tenant_id AND r.inbox_id = y.inbox_id) z;
	SELECT count(*) FILTER (WHERE i.ix > 0) AS items,
	    count(*) FILTER (WHERE i.ix < 0) AS refused,
	    sha256(coalesce(string_agg(uuid_send(i.message_id)
	    || int2send(i.version) || int2send(i.round) || i.digest, ''::bytea
	    ORDER BY i.ix) FILTER (WHERE i.ix > 0), ''::bytea)) AS hash INTO c
	    FROM d.job_item i WHERE i.job_id = job;
	UPDATE d.job j SET items = c.items, refused = c.refused,
	    items_sha256 = c.hash, more = c.items + c.refused >= most
	    WHERE j.job_id = job;
	RETURN QUERY SELECT 200, NULL::text, c.items::int, c.refused::int,
	    c.items + c.refused >= most;
END $$;

-- Begin, or go on after a pause: names all items by their hash, and this
-- session as the one that lets it run.
CREATE FUNCTION api.job_confirm_1(s bytea, job uuid, items_sha256 bytea,
	category text, note text, hint text)
	RETURNS TABLE (status int, code text, verdict text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	j record;
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::text;
		RETURN;
	END IF;
	SELECT z.* INTO j FROM d.job z WHERE z.job_id = job FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RETURN QUERY SELECT 404, 'not_found', NULL::text;
		RETURN;
	END IF;
	IF j.state > 2 OR j.items = 0
	    OR j.made_at < clock_timestamp() - interval '24 hours' THEN
		RETURN QUERY SELECT 409, 'state_conflict', NULL::text;
		RETURN;
	END IF;
	IF j.items_sha256 IS DISTINCT FROM job_confirm_1.items_sha256 THEN
		RETURN QUERY SELECT 412, 'digest_mismatch', NULL::text;
		RETURN;
	END IF;
	IF j.state = 0 AND (length(note) > 1000 OR j.verdict = 'r'
	    AND (category IS NULL OR category NOT IN ('wrong_recipient',
	    'wrong_content', 'policy', 'sensitive_data', 'suspicious',
	    'duplicate', 'other')) OR hint NOT IN ('do_not_retry',
	    'revise_and_resubmit', 'ask_human')) THEN
		RETURN QUERY SELECT 422, 'validation_error', NULL::text;
		RETURN;
	END IF;
	UPDATE d.job z SET state = 1, session_sha256 = sha256(s),
	    confirmed_at = coalesce(j.confirmed_at, clock_timestamp()),
	    moved_at = clock_timestamp(),
	    category = CASE WHEN j.state = 0 THEN job_confirm_1.category
	        ELSE j.category END,
	    note = CASE WHEN j.state = 0 THEN job_confirm_1.note ELSE j.note END,
	    hint = CASE WHEN j.state = 0 THEN job_confirm_1.hint ELSE j.hint END
	    WHERE z.job_id = job;
	PERFORM d.note(0, 'op:' || o.operator_id::text, 'job.confirm', NULL,
	    json_build_object('job', job, 'verdict', j.verdict, 'items', j.items,
	    'items_sha256', encode(j.items_sha256, 'hex'), 'from',
	    j.next_ix)::text);
	RETURN QUERY SELECT 200, NULL::text, j.verdict::text;
END $$;

-- 2 pause, 3 cancel. What is decided stays decided.
CREATE FUNCTION api.job_stop_1(s bytea, job uuid, to_state smallint)
	RETURNS TABLE (status int, code text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op(s);
	IF o.status = 200 AND (to_state IS NULL OR to_state NOT IN (2, 3)) THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	UPDATE d.job z SET state = to_state, session_sha256 = NULL,
	    ended_at = CASE WHEN to_state = 3 THEN clock_timestamp() END
	    WHERE z.job_id = job AND (z.state = 1 OR to_state = 3
	    AND z.state IN (0, 2));
	IF NOT FOUND THEN
		RETURN QUERY SELECT CASE WHEN EXISTS (SELECT 1 FROM d.job z
		    WHERE z.job_id = job) THEN 409 ELSE 404 END,
		    CASE WHEN EXISTS (SELECT 1 FROM d.job z WHERE z.job_id = job)
		    THEN 'state_conflict' ELSE 'not_found' END;
		RETURN;
	END IF;
	PERFORM d.note(0, 'op:' || o.operator_id::text, CASE to_state
	    WHEN 2 THEN 'job.pause' ELSE 'job.cancel' END, NULL,
	    json_build_object('job', job)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

-- Rejects items of a confirmed job: each as decide_1 would, but it may have
-- changed. Says what became of each, in their order; `rejected` where it was.
-- All of them together, a statement for each table (decision 0128).
CREATE FUNCTION d.job_reject(op bigint, j d.job, items d.job_item[])
	RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	ids uuid[] := ARRAY(SELECT z.message_id FROM unnest(items) z ORDER BY 1);
	lo uuid := ids[1];
	hi uuid := ids[cardinality(ids)];
	outcomes text[];
BEGIN
	PERFORM d.states_hold(array_agg(z.message_id), array_agg(z.tenant_id))
	    FROM unnest(items) z;
	-- A new look, which sees what was decided before they were locked.
	outcomes := ARRAY(SELECT CASE WHEN g.state IS NULL THEN 'not_found'
	    WHEN NOT d.op_may(op, ARRAY['reviewer', 'senior'], x.tenant_id,
	        x.inbox_id) THEN 'missing_permission'
	    WHEN g.state <> 1 OR g.version <> x.version OR g.round <> x.round
	        THEN 'state_conflict'
	    WHEN g.digest <> x.digest THEN 'digest_mismatch'
	    WHEN c.voted THEN 'second_approval_needed'
	    -- named twice
	    WHEN row_number() OVER (PARTITION BY x.message_id, x.tenant_id
	        ORDER BY x.ordinality) > 1 THEN 'state_conflict'
	    ELSE 'rejected' END
	    FROM unnest(items) WITH ORDINALITY x
	    LEFT JOIN LATERAL (SELECT y.state, y.version, y.round, m.digest
	        FROM d.state y JOIN d.message m ON m.message_id = y.message_id
	        AND d.within(m.message_id, lo, hi)
	        AND m.tenant_id = y.tenant_id AND m.version = y.version
	        WHERE y.message_id = x.message_id
	        AND d.within(y.message_id, lo, hi) AND y.tenant_id = x.tenant_id
	        OFFSET 0) g ON true
	    LEFT JOIN LATERAL (SELECT true AS voted FROM d.decision c
	        WHERE c.message_id = x.message_id
	        AND d.within(c.message_id, lo, hi) AND c.tenant_id = x.tenant_id
	        AND c.version = x.version AND c.round = x.round
	        AND c.operator_id = op OFFSET 0) c ON true
	    ORDER BY x.ordinality);
	items := ARRAY(SELECT items[o] FROM unnest(outcomes) WITH ORDINALITY
	    z (what, o) WHERE z.what = 'rejected' ORDER BY z.o);
	INSERT INTO d.decision (message_id, tenant_id, inbox_id, version, round,
	    operator_id, verdict, digest, category, note, hint, via)
	    SELECT x.message_id, x.tenant_id, x.inbox_id, x.version, x.round, op,
	    'r', x.digest, j.category, j.note, j.hint, 'job' FROM unnest(items) x;
	UPDATE d.state y SET state = 3, detail = j.category FROM unnest(items) x
	    WHERE y.message_id = x.message_id AND d.within(y.message_id, lo, hi)
	    AND y.tenant_id = x.tenant_id;
	INSERT INTO d.audit (tenant_id, actor, event, message_id, detail)
	    SELECT x.tenant_id, 'op:' || op::text, 'message.reject', x.message_id,
	    json_build_object('digest', encode(x.digest, 'hex'), 'version',
	    x.version, 'round', x.round, 'via', 'job', 'job', x.job_id,
	    'category', j.category)::text FROM unnest(items) x;
	RETURN outcomes;
END $$;

-- The job this session may move on; NULL when it may not.
CREATE FUNCTION d.job_mine(s bytea, job uuid, verdict text) RETURNS d.job
	LANGUAGE plpgsql AS $$
DECLARE
	j d.job;
BEGIN
	SELECT z.* INTO j FROM d.job z WHERE z.job_id = job AND z.state = 1
	    AND z.session_sha256 = sha256(s)
	    AND z.verdict::text = job_mine.verdict FOR NO KEY UPDATE;
	RETURN j;
END $$;

-- Count what a step did, and end the job after its last item.
CREATE FUNCTION d.job_moved(job uuid, to_ix int, good int, bad int)
	RETURNS TABLE (state smallint, remaining int) LANGUAGE sql AS $$
	UPDATE d.job z SET next_ix = to_ix, done = z.done + good,
	    failed = z.failed + bad, moved_at = clock_timestamp(),
	    state = CASE WHEN to_ix > z.items THEN 4 ELSE z.state END,
	    session_sha256 = CASE WHEN to_ix <= z.items THEN z.session_sha256
	        END,
	    ended_at = CASE WHEN to_ix > z.items THEN clock_timestamp() END
	    WHERE z.job_id = job
	    RETURNING z.state, greatest(z.items - to_ix + 1, 0) $$;

-- The next rejections. 409 when the job does not run by this session.
CREATE FUNCTION api.job_reject_1(s bytea, job uuid, lim int)
	RETURNS TABLE (status int, code text, state smallint, remaining int)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	j d.job;
	mine d.job_item[];
	ixs int[];
	outcomes text[];
	good int := 0;
	at int;
	most int := least(greatest(coalesce(lim, 100), 1), 500);
BEGIN
	o := d.op(s, false);
	PERFORM set_config('synchronous_commit', 'on', true);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::smallint, NULL::int;
		RETURN;
	END IF;
	j := d.job_mine(s, job, 'r');
	IF j.job_id IS NULL THEN
		RETURN QUERY SELECT 409, 'state_conflict', NULL::smallint,
		    NULL::int;
		RETURN;
	END IF;
	mine := ARRAY(SELECT z FROM d.job_item z WHERE z.job_id = job
	    AND z.ix >= j.next_ix AND z.ix < j.next_ix + most ORDER BY z.ix);
	outcomes := d.job_reject(o.operator_id, j, mine);
	ixs := ARRAY(SELECT z.ix FROM unnest(mine) z);
	UPDATE d.job_item z SET outcome = outcomes[array_position(ixs, z.ix)]
	    WHERE z.job_id = job AND z.ix >= ixs[1]
	    AND z.ix <= ixs[cardinality(ixs)];
	good := cardinality(array_positions(outcomes, 'rejected'));
	at := coalesce(ixs[cardinality(ixs)] + 1, j.next_ix);
	-- Nothing seen where something should be: it is in no scope any more.
	IF at = j.next_ix THEN
		at := least(j.next_ix + most, j.items + 1);
	END IF;
	RETURN QUERY SELECT 200, NULL::text, m.* FROM d.job_moved(job, at, good,
	    at - j.next_ix - good) m;
END $$;

-- The next of what an inbox holds, for posternctl: no list is made before.
-- The first row counts; those behind it name what could not be rejected, and
-- with the last call (not `more`) up to 100 of what `stays`, which this person
-- approved and somebody else may reject.
CREATE FUNCTION api.reject_all_1(s bytea, tenant bigint, inbox bigint,
	category text, note text, lim int) RETURNS TABLE (status int, code text,
	rejected int, more boolean, stays int, message_id uuid, why text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = ''
	SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
	o record;
	j d.job;
	mine d.job_item[];
	outcomes text[];
	ids uuid[];
	whys text[];
	good int;
	kept bigint := 0;
	most int := least(greatest(coalesce(lim, 100), 1), 500);
BEGIN
	o := d.op(s);
	IF o.status = 200 AND NOT d.op_may(o.operator_id, ARRAY['reviewer',
	    'senior'], tenant, inbox) THEN
		o.status := 403;
		o.code := 'missing_permission';
	ELSIF o.status = 200 AND (tenant IS NULL OR inbox IS NULL
	    OR reject_all_1.category IS NULL OR reject_all_1.category NOT IN (
	    'wrong_recipient', 'wrong_content', 'policy', 'sensitive_data',
	    'suspicious', 'duplicate', 'other')
	    OR coalesce(length(btrim(reject_all_1.note, E' \t\r\n')), 0) = 0
	    OR length(reject_all_1.note) > 1000) THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	PERFORM set_config('synchronous_commit', 'on', true);
	j.category := reject_all_1.category;
	j.note := reject_all_1.note;
	mine := ARRAY(SELECT (NULL, y.tenant_id, NULL, y.inbox_id, y.message_id,
	    y.version, y.round, m.digest, NULL)::d.job_item
	    FROM (SELECT s.* FROM d.state s
	        WHERE s.tenant_id = reject_all_1.tenant
	        AND s.inbox_id = reject_all_1.inbox AND s.stays = 1
	        AND NOT EXISTS (SELECT 1 FROM d.decision c
	            WHERE c.message_id = s.message_id
	            AND c.tenant_id = s.tenant_id AND c.version = s.version
	            AND c.round = s.round AND c.operator_id = o.operator_id)
	        ORDER BY s.risk DESC, s.message_id LIMIT most) y
	    CROSS JOIN LATERAL (SELECT x.digest FROM d.message x
	        WHERE x.message_id = y.message_id AND x.tenant_id = y.tenant_id
	        AND x.version = y.version OFFSET 0) m);
	outcomes := d.job_reject(o.operator_id, j, mine);
	good := cardinality(array_positions(outcomes, 'rejected'));
	SELECT coalesce(array_agg(x.message_id), '{}'), coalesce(array_agg(
	    outcomes[x.ordinality]), '{}') INTO ids, whys FROM unnest(mine)
	    WITH ORDINALITY x WHERE outcomes[x.ordinality] <> 'rejected';
	IF cardinality(mine) < most THEN
		SELECT count(*), ids || (array_agg(z.message_id))[:100],
		    whys || (array_agg('second_approval_needed'::text))[:100]
		    INTO kept, ids, whys FROM (SELECT y.message_id
		    FROM d.state y JOIN d.decision c
		        ON c.message_id = y.message_id AND c.tenant_id = y.tenant_id
		        AND c.version = y.version AND c.round = y.round
		        AND c.operator_id = o.operator_id
		    WHERE y.tenant_id = reject_all_1.tenant
		    AND y.inbox_id = reject_all_1.inbox AND y.stays = 1
		    ORDER BY y.risk DESC, y.message_id) z;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, good, cardinality(mine) = most,
	    kept::int, NULL::uuid, NULL::text;
	RETURN QUERY SELECT 200, NULL::text, NULL::int, NULL::boolean, NULL::int,
	    z.id, z.reason FROM unnest(ids, whys) z (id, reason);
END $$;

-- What approving the next items needs: their keys, for the relay's box.
CREATE FUNCTION api.job_next_1(s bytea, job uuid, lim int)
	RETURNS TABLE (status int, code text, ix int, message_id uuid,
	tenant_id bigint, inbox_id bigint, version smallint, round smallint,
	digest bytea, deployment bytea, epoch int, tenant_epoch int,
	tenant_box bytea, tenant_priv bytea, tenant_pub bytea, not_after bigint,
	now timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	j d.job;
BEGIN
	o := d.op(s, false);
	IF o.status = 200 THEN
		j := d.job_mine(s, job, 'a');
		IF j.job_id IS NULL THEN
			o.status := 409;
			o.code := 'state_conflict';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	-- Nothing is seen of what is left: it is in no scope any more.
	IF NOT EXISTS (SELECT 1 FROM d.job_item i WHERE i.job_id = job
	    AND i.ix >= j.next_ix) THEN
		PERFORM d.job_moved(job, j.items + 1, 0, j.items + 1 - j.next_ix);
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, i.ix, i.message_id, i.tenant_id,
	    i.inbox_id, i.version, i.round, i.digest, y.deployment, y.epoch,
	    m.tenant_epoch, m.tenant_box, k.priv_box, k.pub, m.not_after,
	    clock_timestamp() FROM d.job_item i
	    JOIN d.message m ON m.message_id = i.message_id
	        AND m.tenant_id = i.tenant_id AND m.version = i.version
	    JOIN d.tenant_key k ON k.tenant_id = m.tenant_id
	        AND k.epoch = m.tenant_epoch
	    JOIN d.deployment y ON y.one
	    WHERE i.job_id = job AND i.ix >= j.next_ix
	    ORDER BY i.ix LIMIT least(greatest(coalesce(lim, 20), 1), 100);
END $$;

-- One approval of a job; risk is asked again, for it may have risen. `failed`
-- names why the caller could not seal it: then it is only counted.
CREATE FUNCTION api.job_approve_1(s bytea, job uuid, item int, relay_box bytea,
	tag bytea, expiry bigint, undo_seconds int, failed text)
	RETURNS TABLE (status int, code text, state smallint, remaining int)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	j d.job;
	i d.job_item;
	r record;
	what text := left(failed, 64);
BEGIN
	o := d.op(s, false);
	PERFORM set_config('synchronous_commit', 'on', true);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::smallint, NULL::int;
		RETURN;
	END IF;
	j := d.job_mine(s, job, 'a');
	-- What lies between and is not seen is in no scope any more.
	IF j.job_id IS NULL OR job_approve_1.item NOT BETWEEN j.next_ix AND j.items
	    OR EXISTS (SELECT 1 FROM d.job_item z WHERE z.job_id = job
	    AND z.ix >= j.next_ix AND z.ix < job_approve_1.item) THEN
		RETURN QUERY SELECT 409, 'state_conflict', NULL::smallint,
		    NULL::int;
		RETURN;
	END IF;
	SELECT z.* INTO i FROM d.job_item z WHERE z.job_id = job
	    AND z.ix = job_approve_1.item;
	-- Locked first: who raises it now has done so when it is looked at.
	PERFORM 1 FROM d.state y WHERE y.message_id = i.message_id
	    AND y.tenant_id = i.tenant_id FOR UPDATE;
	what := coalesce(what, CASE WHEN i.job_id IS NULL THEN 'not_found'
	    WHEN EXISTS (SELECT 1 FROM d.state y
	    WHERE y.message_id = i.message_id AND y.state = 1 AND y.risk >= 25)
	    THEN 'risky' END);
	IF what IS NULL THEN
		PERFORM set_config('postern.unused', '1', true);
		SELECT z.* INTO r FROM api.decide_1(s, i.message_id, i.version,
		    i.round, i.digest, 'a', uuid_send(job) || int4send(item), NULL,
		    NULL, NULL, NULL, 'job', job_approve_1.relay_box,
		    job_approve_1.tag, job_approve_1.expiry, undo_seconds, NULL) z;
		what := coalesce(r.code, 'approved');
	END IF;
	UPDATE d.job_item z SET outcome = what WHERE z.job_id = job
	    AND z.ix = job_approve_1.item;
	RETURN QUERY SELECT 200, NULL::text, m.* FROM d.job_moved(job,
	    item + 1, (what = 'approved')::int, item - j.next_ix
	    + (what <> 'approved')::int) m;
END $$;

-- Takes back approvals of a job: each as undo_1 would, all of them together.
-- Says of which it did, in their order.
CREATE FUNCTION d.job_take_back(op bigint, items d.job_item[])
	RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
	ids uuid[] := ARRAY(SELECT z.message_id FROM unnest(items) z ORDER BY 1);
	lo uuid := ids[1];
	hi uuid := ids[cardinality(ids)];
	back boolean[];
	took boolean[];
BEGIN
	PERFORM d.states_hold(array_agg(z.message_id), array_agg(z.tenant_id))
	    FROM unnest(items) z;
	back := ARRAY(SELECT coalesce(y.state = 2 AND y.version = x.version
	    AND y.round = x.round AND d.op_may(op, ARRAY['reviewer', 'senior'],
	    x.tenant_id, x.inbox_id), false)
	    FROM unnest(items) WITH ORDINALITY x
	    LEFT JOIN LATERAL (SELECT s.state, s.version, s.round FROM d.state s
	        WHERE s.message_id = x.message_id
	        AND d.within(s.message_id, lo, hi) AND s.tenant_id = x.tenant_id
	        OFFSET 0) y ON true ORDER BY x.ordinality);
	SELECT d.unqueued(array_agg(x.message_id ORDER BY x.ordinality),
	    array_agg(x.tenant_id ORDER BY x.ordinality)) INTO took
	    FROM unnest(items) WITH ORDINALITY x WHERE back[x.ordinality];
	back := ARRAY(SELECT x.back AND took[sum(x.back::int)
	    OVER (ORDER BY x.ordinality)] FROM unnest(back) WITH ORDINALITY
	    x (back) ORDER BY x.ordinality);
	items := ARRAY(SELECT items[x.o] FROM unnest(back) WITH ORDINALITY
	    x (back, o) WHERE x.back ORDER BY x.o);
	UPDATE d.state y SET state = 1, round = y.round + 1, detail = NULL
	    FROM unnest(items) x WHERE y.message_id = x.message_id
	    AND d.within(y.message_id, lo, hi) AND y.tenant_id = x.tenant_id;
	INSERT INTO d.audit (tenant_id, actor, event, message_id, detail)
	    SELECT x.tenant_id, 'op:' || op::text, 'message.undo', x.message_id,
	    json_build_object('version', x.version, 'round', x.round)::text
	    FROM unnest(items) x;
	RETURN back;
END $$;

-- Take back what a job approved and what has not left: the next `lim` of its
-- items, from its end. A job that runs is ended by this. `remaining` is how
-- many are still to be looked at, `back` how many came back in all.
CREATE FUNCTION api.job_undo_1(s bytea, job uuid, lim int)
	RETURNS TABLE (status int, code text, remaining int, back int)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	j d.job;
	mine d.job_item[];
	ixs int[];
	back boolean[];
	most int := least(greatest(coalesce(lim, 100), 1), 500);
BEGIN
	o := d.op(s);
	PERFORM set_config('synchronous_commit', 'on', true);
	IF o.status = 200 THEN
		SELECT z.* INTO j FROM d.job z WHERE z.job_id = job
		    FOR NO KEY UPDATE;
		IF NOT FOUND THEN
			o.status := 404;
			o.code := 'not_found';
		ELSIF j.verdict <> 'a' OR j.state = 0 THEN
			o.status := 409;
			o.code := 'state_conflict';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::int, NULL::int;
		RETURN;
	END IF;
	IF j.state IN (1, 2) THEN
		UPDATE d.job z SET state = 3, session_sha256 = NULL,
		    ended_at = clock_timestamp() WHERE z.job_id = job;
	END IF;
	IF j.undo_ix IS NULL THEN
		j.undo_ix := j.next_ix;
		PERFORM d.note(0, 'op:' || o.operator_id::text, 'job.undo', NULL,
		    json_build_object('job', job, 'approved', j.done)::text);
	END IF;
	-- The newest first: the oldest are the likeliest to have left.
	mine := ARRAY(SELECT z FROM d.job_item z WHERE z.job_id = job
	    AND z.ix < j.undo_ix AND z.ix > 0 AND z.outcome = 'approved'
	    ORDER BY z.ix DESC LIMIT most);
	back := d.job_take_back(o.operator_id, mine);
	ixs := ARRAY(SELECT z.ix FROM unnest(mine) z);
	j.undo_ix := CASE WHEN cardinality(ixs) = most THEN ixs[most] ELSE 1 END;
	UPDATE d.job_item z SET outcome = CASE WHEN back[array_position(ixs,
	    z.ix)] THEN 'taken_back' ELSE 'left_already' END
	    WHERE z.job_id = job AND z.outcome = 'approved'
	    AND z.ix >= ixs[cardinality(ixs)] AND z.ix <= ixs[1];
	UPDATE d.job z SET undo_ix = j.undo_ix, undone = z.undone
	    + cardinality(array_positions(back, true))
	    WHERE z.job_id = job RETURNING z.* INTO j;
	RETURN QUERY SELECT 200, NULL::text, j.undo_ix - 1, j.undone;
END $$;

-- One's own jobs, newest first; or the one that is asked for.
CREATE FUNCTION api.jobs_1(s bytea, job uuid)
	RETURNS TABLE (status int, code text, job_id uuid, verdict text,
	state smallint, about text, category text, note text, hint text,
	items int, items_sha256 bytea, done int, failed int, refused int,
	undo_ix int, undone int, more boolean, made_at timestamptz, confirmed_at timestamptz,
	moved_at timestamptz, ended_at timestamptz, mine boolean,
	now timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op(s, false);
	IF o.status = 200 THEN
		RETURN QUERY SELECT 200, NULL::text, j.job_id, j.verdict::text,
		    j.state, j.about, j.category, j.note, j.hint, j.items,
		    j.items_sha256, j.done, j.failed, j.refused, j.undo_ix,
		    j.undone, j.more, j.made_at,
		    j.confirmed_at, j.moved_at, j.ended_at,
		    coalesce(j.session_sha256 = sha256(s), false),
		    clock_timestamp() FROM d.job j
		    WHERE j.operator_id = o.operator_id
		    AND (job IS NULL OR j.job_id = job)
		    ORDER BY j.made_at DESC LIMIT 50;
		IF FOUND OR job IS NULL THEN
			RETURN;
		END IF;
		o.status := 404;
		o.code := 'not_found';
	END IF;
	SELECT o.status, o.code INTO status, code;
	RETURN NEXT;
END $$;

-- Items of it, 200 a page: all, or what was not done with its reason.
CREATE FUNCTION api.job_items_1(s bytea, job uuid, problems boolean,
	after_ix int)
	RETURNS TABLE (status int, code text, ix int, message_id uuid,
	address text, rcpts text, subject text, risk smallint, outcome text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = ''
	SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op(s);
	IF o.status = 200 AND NOT EXISTS (SELECT 1 FROM d.job j
	    WHERE j.job_id = job) THEN
		o.status := 404;
		o.code := 'not_found';
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, i.ix, i.message_id, x.address,
	    array_to_string(m.rcpt, E'\n'), m.subject, y.risk, i.outcome
	    FROM (SELECT z.* FROM d.job_item z WHERE z.job_id = job
	        AND (after_ix IS NULL OR z.ix > after_ix)
	        AND (NOT coalesce(problems, false) OR z.outcome
	        NOT IN ('approved', 'rejected')) ORDER BY z.ix LIMIT 200) i
	    JOIN d.state y ON y.message_id = i.message_id
	        AND y.tenant_id = i.tenant_id
	    JOIN d.message m ON m.message_id = i.message_id
	        AND m.tenant_id = i.tenant_id AND m.version = i.version
	    JOIN d.inbox x ON x.tenant_id = i.tenant_id
	        AND x.inbox_id = i.inbox_id ORDER BY i.ix;
END $$;

-- Say that one looks at a held message: for five minutes, unless somebody
-- else does. `take`: instead of them, and that is written down.
CREATE FUNCTION api.look_1(s bytea, mid uuid, take boolean)
	RETURNS TABLE (status int, code text, who text, mine boolean,
	until timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	g record;
	l record;
	now_at timestamptz := clock_timestamp();
BEGIN
	o := d.op_of(s, mid, false);
	IF o.status = 200 THEN
		SELECT y.tenant_id, y.inbox_id, y.state INTO g FROM d.state y
		    WHERE y.message_id = mid;
		IF NOT d.op_may(o.operator_id, ARRAY['reviewer', 'senior'],
		    g.tenant_id, g.inbox_id) THEN
			o.status := 403;
			o.code := 'missing_permission';
		ELSIF g.state <> 1 THEN
			o.status := 409;
			o.code := 'state_conflict';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	DELETE FROM d.look z WHERE z.until < now_at - interval '1 hour';
	SELECT z.operator_id, z.until INTO l FROM d.look z
	    WHERE z.message_id = mid AND z.tenant_id = g.tenant_id
	    AND z.until > now_at;
	INSERT INTO d.look AS z (message_id, tenant_id, inbox_id, operator_id,
	    until) VALUES (mid, g.tenant_id, g.inbox_id, o.operator_id,
	    now_at + interval '5 minutes')
	    ON CONFLICT (message_id, tenant_id) DO UPDATE
	    SET operator_id = EXCLUDED.operator_id, until = EXCLUDED.until
	    WHERE coalesce(take, false) OR z.until <= now_at
	    OR z.operator_id = EXCLUDED.operator_id;
	IF take AND l.operator_id <> o.operator_id THEN
		PERFORM d.note(g.tenant_id, 'op:' || o.operator_id::text,
		    'message.take_over', mid, json_build_object('from',
		    l.operator_id)::text);
	END IF;
	RETURN QUERY SELECT 200, NULL::text, p.name,
	    z.operator_id = o.operator_id, z.until FROM d.look z
	    JOIN d.operator p ON p.operator_id = z.operator_id
	    WHERE z.message_id = mid AND z.tenant_id = g.tenant_id;
END $$;

-- Done looking.
CREATE FUNCTION api.look_end_1(s bytea, mid uuid)
	RETURNS TABLE (status int, code text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op_of(s, mid, false);
	IF o.status = 200 THEN
		DELETE FROM d.look z WHERE z.message_id = mid
		    AND z.operator_id = o.operator_id;
	END IF;
	RETURN QUERY SELECT o.status, o.code;
END $$;

-- A comment for the other operators. Stays, as everything that was said.
CREATE FUNCTION api.comment_1(s bytea, mid uuid, text text)
	RETURNS TABLE (status int, code text, n int)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	g record;
	c int;
BEGIN
	o := d.op_of(s, mid);
	IF o.status = 200 THEN
		-- The row lock makes the numbers follow each other.
		SELECT y.tenant_id, y.inbox_id INTO g FROM d.state y
		    WHERE y.message_id = mid FOR NO KEY UPDATE;
		SELECT count(*) INTO c FROM d.comment z WHERE z.message_id = mid
		    AND z.tenant_id = g.tenant_id;
		IF NOT d.op_may(o.operator_id, ARRAY['reviewer', 'senior', 'admin'],
		    g.tenant_id, g.inbox_id) THEN
			o.status := 403;
			o.code := 'missing_permission';
		ELSIF coalesce(length(btrim(comment_1.text, E' \t\r\n')), 0)
		    NOT BETWEEN 1 AND 2000 OR length(comment_1.text) > 2000 THEN
			o.status := 422;
			o.code := 'validation_error';
		ELSIF c >= 200 THEN
			o.status := 409;
			o.code := 'state_conflict';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::int;
		RETURN;
	END IF;
	-- The last one once more, of a form that was sent twice, is it.
	IF EXISTS (SELECT 1 FROM d.comment z WHERE z.message_id = mid
	    AND z.n = c AND z.operator_id = o.operator_id
	    AND z.text = comment_1.text
	    AND z.at > clock_timestamp() - interval '1 minute') THEN
		RETURN QUERY SELECT 200, NULL::text, c;
		RETURN;
	END IF;
	INSERT INTO d.comment (message_id, tenant_id, inbox_id, n, operator_id,
	    text) VALUES (mid, g.tenant_id, g.inbox_id, c + 1, o.operator_id,
	    comment_1.text);
	PERFORM d.note(g.tenant_id, 'op:' || o.operator_id::text,
	    'message.comment', mid, json_build_object('n', c + 1)::text);
	RETURN QUERY SELECT 200, NULL::text, c + 1;
END $$;

CREATE FUNCTION api.comments_1(s bytea, mid uuid)
	RETURNS TABLE (status int, code text, n int, who text, text text,
	at timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op_of(s, mid);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, c.n, p.name, c.text, c.at
	    FROM d.comment c JOIN d.operator p ON p.operator_id = c.operator_id
	    WHERE c.message_id = mid ORDER BY c.n;
END $$;

-- What an open page wants to know each second: how much waits, which held
-- mail is newer than `after`, and who looks at what. Rows by `what`:
--   held  n      waiting, 1,001 at most
--   new   id     held and newer than after, 100 at most, oldest first
--   look  id who somebody looks at it
-- Mail is looked for among the newest 5,000 only.
CREATE FUNCTION api.live_1(s bytea, after uuid, tenant bigint DEFAULT NULL)
	RETURNS TABLE (status int, code text, what text, n int, id uuid, who text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = ''
	SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
	o record;
	tenants bigint[];
	place uuid;
BEGIN
	o := d.op(s, false);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	PERFORM d.op_only(tenant);
	tenants := d.look_into(NULL);
	RETURN QUERY SELECT 200, NULL::text, 'held'::text,
	    least((SELECT coalesce(sum(x.held), 0) FROM d.quota x
	    WHERE x.tenant_id = ANY (tenants)), 1001)::int, NULL::uuid,
	    NULL::text;
	IF after IS NOT NULL THEN
		place := d.live_from(after, 5000);
		RETURN QUERY SELECT 200, NULL::text, 'new'::text, 0, z.message_id,
		    NULL::text FROM (SELECT y.message_id, y.state FROM d.state y
		    WHERE y.message_id > place ORDER BY y.message_id LIMIT 5000) z
		    WHERE z.state = 1 ORDER BY z.message_id LIMIT 100;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, 'look'::text, 0, z.message_id, p.name
	    FROM d.look z JOIN d.operator p ON p.operator_id = z.operator_id
	    WHERE z.until > clock_timestamp() ORDER BY z.message_id LIMIT 200;
END $$;

RESET ROLE;
SET LOCAL ROLE p_review;
GRANT EXECUTE ON FUNCTION api.job_make_1, api.job_confirm_1, api.job_stop_1,
	api.job_reject_1, api.job_next_1, api.job_approve_1, api.job_undo_1,
	api.jobs_1,
	api.job_items_1, api.look_1, api.look_end_1, api.comment_1,
	api.comments_1, api.live_1 TO l_review;
GRANT EXECUTE ON FUNCTION api.reject_all_1 TO l_ctl;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_review;
