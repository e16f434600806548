-- SPDX-License-Identifier: ISC
-- 0008_relay.sql - what a worker may do with what it leased. Locks go state
-- first, then queue rows; claiming and sweeping skip what is locked and never
-- wait, so one stuck row stops nobody.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_relay;
GRANT EXECUTE ON FUNCTION d.note TO p_relay;

SET LOCAL ROLE p_relay;

-- Claims. A row that may not go now would be walked over by every claim, and
-- a paused inbox or a dead domain may have a hundred thousand. So it is set
-- aside once, and looked for by what holds it back.

CREATE FUNCTION d.claim_set_aside(m uuid[], t bigint[], dom text[],
	bars smallint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE d.send_q q SET aside = z.bars FROM (
		SELECT u.m, u.t, u.dom, u.bars
		FROM unnest(m, t, dom, bars) u(m, t, dom, bars)
		CROSS JOIN LATERAL (SELECT FROM d.send_q y
		    WHERE y.message_id = u.m AND y.tenant_id = u.t
		    AND y.domain = u.dom AND y.lease IS NULL
		    FOR UPDATE SKIP LOCKED) y) z
	    WHERE q.message_id = z.m AND q.tenant_id = z.t AND q.domain = z.dom;
END $$;

-- Is mail in line for a domain that is not left out, or may there be? Told by
-- the first few domains, so that nothing need be set aside for want of others.
-- A rule may lead around what is left out.
CREATE FUNCTION d.claim_others(skip text[]) RETURNS boolean
	LANGUAGE plpgsql AS $$
DECLARE
	domains CONSTANT int := 16;
	name text := '';
BEGIN
	IF EXISTS (SELECT 1 FROM d.route r WHERE r.action = 'r'
	    AND r.ended_at IS NULL) THEN
		RETURN true;
	END IF;
	FOR i IN 1 .. domains LOOP
		SELECT q.domain INTO name FROM d.send_q q WHERE q.lease IS NULL
		    AND q.aside = 0 AND q.domain > name ORDER BY q.domain LIMIT 1;
		IF NOT FOUND OR skip[1] = '*' THEN
			-- What a test inbox sends is never left out.
			RETURN EXISTS (SELECT 1 FROM d.inbox x WHERE x.test);
		END IF;
		IF name <> ALL (skip) THEN
			RETURN true;
		END IF;
	END LOOP;
	RETURN true;
END $$;

-- Sets aside what stands before the first `lim` rows that may go, and not too
-- much in one call. How many may, and whether some may stand behind others
-- still.
CREATE FUNCTION d.claim_clear(lim int, skip text[], rules boolean,
	now_at timestamptz, OUT open int, OUT more boolean)
	LANGUAGE plpgsql AS $$
DECLARE
	further CONSTANT int := 450; -- rows, if the first are not enough
	look int := lim;
	m uuid[];
	t bigint[];
	dom text[];
	bars smallint[];
BEGIN
	open := 0;
	more := false;
	IF skip IS NOT NULL AND NOT d.claim_others(skip) THEN
		RETURN;
	END IF;
	LOOP
		SELECT count(*) FILTER (WHERE z.bars = 0),
		    array_agg(z.message_id) FILTER (WHERE z.bars > 0),
		    array_agg(z.tenant_id) FILTER (WHERE z.bars > 0),
		    array_agg(z.domain) FILTER (WHERE z.bars > 0),
		    array_agg(z.bars) FILTER (WHERE z.bars > 0)
		    INTO open, m, t, dom, bars FROM (
			SELECT y.message_id, y.tenant_id, y.domain,
			    CASE WHEN y.due_at > now_at THEN 3
			    ELSE d.claim_bars(x, n, y.domain, skip, rules) END AS bars
			FROM (SELECT q.message_id, q.tenant_id, q.inbox_id, q.domain,
			    q.due_at FROM d.send_q q
			    WHERE q.lease IS NULL AND q.aside = 0
			    ORDER BY q.vt LIMIT look) y
			JOIN d.inbox x ON x.tenant_id = y.tenant_id
			    AND x.inbox_id = y.inbox_id
			JOIN d.tenant n ON n.tenant_id = y.tenant_id OFFSET 0) z;
		IF m IS NOT NULL THEN
			PERFORM d.claim_set_aside(m, t, dom, bars);
		END IF;
		more := open < lim AND m IS NOT NULL
		    AND open + cardinality(m) = look;
		EXIT WHEN NOT more OR look > lim;
		look := lim + further;
	END LOOP;
END $$;

-- Of the tenants with mail set aside for a domain, `most`, whoever they are.
CREATE FUNCTION d.claim_tenants(name text, most int) RETURNS bigint[]
	LANGUAGE plpgsql AS $$
DECLARE
	start CONSTANT bigint := floor(random() * (SELECT max(n.tenant_id)
	    FROM d.tenant n));
	t bigint := start;
	ts bigint[] := '{}';
BEGIN
	WHILE cardinality(ts) < most LOOP
		SELECT q.tenant_id INTO t FROM d.send_q q WHERE q.lease IS NULL
		    AND q.aside = 2 AND q.domain = name AND q.tenant_id > t
		    ORDER BY q.tenant_id LIMIT 1;
		EXIT WHEN NOT FOUND;
		ts := ts || t;
	END LOOP;
	t := 0;
	WHILE cardinality(ts) < most LOOP
		SELECT q.tenant_id INTO t FROM d.send_q q WHERE q.lease IS NULL
		    AND q.aside = 2 AND q.domain = name AND q.tenant_id > t
		    AND q.tenant_id <= start ORDER BY q.tenant_id LIMIT 1;
		EXIT WHEN NOT FOUND;
		ts := ts || t;
	END LOOP;
	RETURN ts;
END $$;

-- The tenants with mail set aside for domains that are open, and these.
CREATE FUNCTION d.claim_open(skip text[], rules boolean, OUT ts bigint[],
	OUT names text[]) LANGUAGE plpgsql AS $$
DECLARE
	most CONSTANT int := 32; -- tenants of a domain in one claim
	t bigint := 0;
	name text := '';
	was text := '';
	had int := 0; -- before this domain
BEGIN
	ts := '{}';
	names := '{}';
	LOOP
		SELECT q.domain, q.tenant_id INTO name, t FROM d.send_q q
		    WHERE q.lease IS NULL AND q.aside = 2
		    AND (q.domain, q.tenant_id) > (was, t)
		    ORDER BY q.domain, q.tenant_id LIMIT 1;
		EXIT WHEN NOT FOUND;
		IF name <> was THEN
			was := name;
			had := cardinality(ts);
			IF d.route_bars(0, 0, name, skip, rules) >= 2 THEN
				t := 9223372036854775807; -- the next domain
				CONTINUE;
			END IF;
		END IF;
		ts := ts || t;
		names := names || name;
		IF cardinality(ts) = had + most THEN
			ts := ts[:had] || d.claim_tenants(name, most);
			names := names[:had] || array_fill(name,
			    ARRAY[cardinality(ts) - had]);
			t := 9223372036854775807;
		END IF;
	END LOOP;
END $$;

-- Of what was set aside and may go again, the first of each group. Tenants
-- take turns: a row's place in line (vt) is that of all mail, and where one
-- domain is slow, another tenant's backlog for it stands far before it.
-- Where many inboxes hold mail back, looking whether they still do takes a claim's
-- time many times over: this connection looks again when ten times as long has
-- passed.
CREATE FUNCTION d.claim_again(lim int, skip text[], rules boolean,
	now_at timestamptz, OUT m uuid[], OUT t bigint[], OUT dom text[],
	OUT more boolean) LANGUAGE plpgsql AS $$
DECLARE
	-- The groups: what is due by now; a domain's mail of a tenant (inbox 0),
	-- and that of an inbox.
	gt bigint[] := '{-1}';
	gi bigint[] := '{0}';
	gd text[] := '{""}';
	bt bigint := 0;
	bi bigint := 0;
	box record;
	many CONSTANT int := 100; -- inboxes
	looked int := 0;
	-- Not between its beginning and ten times its end, by this clock.
	looks boolean := coalesce(NOT extract(epoch FROM now_at) <@ nullif(
	    current_setting('postern.looked', true), '')::numrange, true);
	free record;
	names text[];
	each_one int;
	barred_m uuid[];
	barred_t bigint[];
	barred_dom text[];
	bars smallint[];
BEGIN
	free := d.claim_open(skip, rules);
	gt := gt || free.ts;
	gi := gi || array_fill(0::bigint, ARRAY[cardinality(free.ts)]);
	gd := gd || free.names;
	WHILE looks LOOP
		SELECT q.tenant_id, q.inbox_id INTO bt, bi FROM d.send_q q
		    WHERE q.lease IS NULL AND q.aside = 1
		    AND (q.tenant_id, q.inbox_id) > (bt, bi)
		    ORDER BY q.tenant_id, q.inbox_id LIMIT 1;
		EXIT WHEN NOT FOUND;
		looked := looked + 1;
		SELECT d.claim_bars(x, n, '', NULL, false) AS bars, x.test,
		    n.paused_at IS NOT NULL OR n.disabled_at IS NOT NULL AS all_of_it
		    INTO box FROM d.inbox x JOIN d.tenant n
		    ON n.tenant_id = x.tenant_id
		    WHERE x.tenant_id = bt AND x.inbox_id = bi;
		IF box.all_of_it THEN
			bi := 9223372036854775807; -- no inbox of the tenant comes after
		END IF;
		CONTINUE WHEN box.bars > 0;
		names := d.claim_names(lim, bt, bi, CASE WHEN NOT box.test
		    THEN skip END, rules AND NOT box.test);
		gt := gt || array_fill(bt, ARRAY[cardinality(names)]);
		gi := gi || array_fill(bi, ARRAY[cardinality(names)]);
		gd := gd || names;
	END LOOP;
	IF looked > many THEN
		PERFORM set_config('postern.looked', numrange(extract(epoch FROM
		    now_at), extract(epoch FROM now_at + 10 * (clock_timestamp()
		    - now_at)))::text, false);
	END IF;
	each_one := greatest(1, 8 * lim / greatest(cardinality(gd), 8));
	SELECT (array_agg(z.message_id ORDER BY z.turn, z.toss)
	        FILTER (WHERE z.bars = 0))[:lim],
	    (array_agg(z.tenant_id ORDER BY z.turn, z.toss)
	        FILTER (WHERE z.bars = 0))[:lim],
	    (array_agg(z.domain ORDER BY z.turn, z.toss)
	        FILTER (WHERE z.bars = 0))[:lim],
	    array_agg(z.message_id) FILTER (WHERE z.bars > 0),
	    array_agg(z.tenant_id) FILTER (WHERE z.bars > 0),
	    array_agg(z.domain) FILTER (WHERE z.bars > 0),
	    array_agg(z.bars) FILTER (WHERE z.bars > 0)
	    INTO m, t, dom, barred_m, barred_t, barred_dom, bars FROM (
		SELECT c.*, (row_number() OVER (PARTITION BY c.tenant_id, c.bars > 0
		    ORDER BY c.vt) - 1) / c.weight AS turn, random() AS toss FROM (
			SELECT y.message_id, y.tenant_id, y.domain, y.vt, n.weight,
			    d.claim_bars(x, n, y.domain, skip, rules) AS bars
			FROM unnest(gt, gi, gd) g(t, i, d) CROSS JOIN LATERAL (
				SELECT * FROM (SELECT q.message_id, q.tenant_id,
				    q.inbox_id, q.domain, q.vt FROM d.send_q q
				    WHERE g.t > 0 AND g.i = 0 AND q.lease IS NULL
				    AND q.aside = 2 AND q.domain = g.d
				    AND q.tenant_id = g.t ORDER BY q.vt LIMIT each_one) a
				UNION ALL
				SELECT * FROM (SELECT q.message_id, q.tenant_id,
				    q.inbox_id, q.domain, q.vt FROM d.send_q q
				    WHERE g.i > 0 AND q.lease IS NULL AND q.aside = 1
				    AND q.tenant_id = g.t AND q.inbox_id = g.i
				    AND q.domain = g.d ORDER BY q.vt LIMIT each_one) b
				UNION ALL
				SELECT * FROM (SELECT q.message_id, q.tenant_id,
				    q.inbox_id, q.domain, q.vt FROM d.send_q q
				    WHERE g.t < 0 AND q.lease IS NULL AND q.aside = 3
				    AND q.due_at <= now_at
				    ORDER BY q.due_at LIMIT lim) c) y
			JOIN d.inbox x ON x.tenant_id = y.tenant_id
			    AND x.inbox_id = y.inbox_id
			JOIN d.tenant n ON n.tenant_id = y.tenant_id OFFSET 0) c) z;
	-- Of a domain that is open again, what its inbox holds back.
	IF barred_m IS NOT NULL THEN
		PERFORM d.claim_set_aside(barred_m, barred_t, barred_dom, bars);
	END IF;
	more := barred_m IS NOT NULL OR m IS NOT NULL
	    AND (cardinality(m) = lim OR each_one < lim);
END $$;

-- The domains to which an inbox has something set aside that may go, some of
-- them. Where a rule for all domains, or the smarthost, holds mail back, only
-- one with a rule of its own may.
CREATE FUNCTION d.claim_names(lim int, t bigint, i bigint, skip text[],
	rules boolean) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	every boolean := d.route_bars(t, i, '*', skip, rules) = 0;
	name text := '';
	names text[] := '{}';
BEGIN
	WHILE cardinality(names) < lim LOOP
		IF every THEN
			SELECT q.domain INTO name FROM d.send_q q WHERE q.lease IS NULL
			    AND q.aside = 1 AND q.tenant_id = t AND q.inbox_id = i
			    AND q.domain > name ORDER BY q.domain LIMIT 1;
		ELSE
			SELECT r.domain INTO name FROM d.route r
			    WHERE r.tenant_id IN (0, t) AND r.inbox_id IN (0, i)
			    AND r.ended_at IS NULL AND r.domain <> '*'
			    AND r.domain > name ORDER BY r.domain LIMIT 1;
		END IF;
		EXIT WHEN NOT FOUND;
		CONTINUE WHEN NOT every AND NOT EXISTS (SELECT 1 FROM d.send_q q
		    WHERE q.lease IS NULL AND q.aside = 1 AND q.tenant_id = t
		    AND q.inbox_id = i AND q.domain = name);
		IF d.route_bars(t, i, name, skip, rules) = 0 THEN
			names := names || name;
		END IF;
	END LOOP;
	RETURN names;
END $$;

-- Of what has been taken from the queue that whose state allows it; leased. As
-- all that is named *_at (0016) it is there once more for each week.
SET LOCAL ROLE p_owner;
CREATE FUNCTION d.claim_at(mids uuid[], ts bigint[], doms text[],
	tests boolean[], lo uuid, hi uuid, whose text, until timestamptz,
	rules boolean)
	RETURNS TABLE (tenant_id bigint, message_id uuid, domain text, lease uuid,
	version smallint, round smallint, attempts int, give_up_at timestamptz,
	test boolean, way text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY WITH s AS MATERIALIZED (
		SELECT c.mid, c.t, c.dom, c.test, y.state
		FROM unnest(mids, ts, doms, tests) c(mid, t, dom, test)
		JOIN d.state y ON y.message_id = c.mid AND y.tenant_id = c.t
		WHERE d.within(y.message_id, lo, hi) AND y.state IN (2, 7, 9, 11)
		FOR UPDATE OF y SKIP LOCKED
	), u AS (
		UPDATE d.state y SET state = 7, detail = NULL, was = s.state,
		    changed_at = clock_timestamp() FROM s
		WHERE y.message_id = s.mid AND d.within(y.message_id, lo, hi)
		AND y.tenant_id = s.t AND s.state <> 7
	)
	UPDATE d.send_q q SET lease = gen_random_uuid(), lease_until = until,
	    worker = whose, aside = 0 FROM s
	    WHERE q.message_id = s.mid AND q.tenant_id = s.t AND q.domain = s.dom
	    RETURNING q.tenant_id, q.message_id, q.domain, q.lease, q.version,
	    q.round, q.attempts, q.give_up_at, s.test, CASE WHEN rules
	    AND NOT s.test THEN d.route_way(q.tenant_id, q.inbox_id, q.domain) END;
END $$;
GRANT EXECUTE ON FUNCTION d.claim_at TO p_relay;
SET LOCAL ROLE p_relay;

-- A last row of status 206 says that another call may find more at once.
-- `skip`: ways that nothing need be claimed for (d.route_bars). `way`: of what
-- a rule sends by its host, '#' and the rule's number; '-' of what one refuses.
CREATE FUNCTION api.claim_due_1(worker text, lim int, lease_seconds int,
	skip text[] DEFAULT NULL)
	RETURNS TABLE (status int, code text, tenant_id bigint, message_id uuid,
	domain text, lease uuid, version smallint, round smallint, attempts int,
	give_up_at timestamptz, test boolean, way text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	more boolean := d.ways_told();
	now_at timestamptz := clock_timestamp();
	rules boolean := EXISTS (SELECT 1 FROM d.route r WHERE r.action <> 't'
	    AND r.ended_at IS NULL);
	line record;
	rest record;
	again int := 0;
	got record;
	ends record;
BEGIN
	IF coalesce(length(claim_due_1.worker), 0) NOT BETWEEN 1 AND 64
	    OR claim_due_1.worker ~ '[\x01-\x20\x7f]' OR lim IS NULL
	    OR lim NOT BETWEEN 1 AND 500 OR lease_seconds IS NULL
	    OR lease_seconds NOT BETWEEN 1 AND 3600 THEN
		SELECT 422, 'validation_error' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF EXISTS (SELECT 1 FROM d.global_pause g WHERE g.paused_at IS NOT NULL)
	    OR skip[1] = '*' AND NOT rules
	    AND NOT EXISTS (SELECT 1 FROM d.inbox x WHERE x.test) THEN
		RETURN;
	END IF;
	-- A lease that a crash forgets is refused to whoever shows it, and the
	-- commit before the dot flushes all before it.
	PERFORM set_config('synchronous_commit', 'off', true),
	    set_config('postern.actor', 'worker:' || claim_due_1.worker, true);
	line := d.claim_clear(lim, skip, rules, now_at);
	-- Half of it may be of what is aside, if there is as much in line: or all
	-- that has long waited would go before what has just come.
	SELECT NULL::uuid[] AS m, NULL::bigint[] AS t, NULL::text[] AS dom,
	    false AS more INTO rest;
	IF EXISTS (SELECT 1 FROM d.send_q q WHERE q.lease IS NULL AND q.aside = 3
	    AND q.due_at <= now_at)
	    OR EXISTS (SELECT 1 FROM d.send_q q WHERE q.lease IS NULL
	    AND q.aside = 2)
	    OR EXISTS (SELECT 1 FROM d.send_q q WHERE q.lease IS NULL
	    AND q.aside = 1) THEN
		rest := d.claim_again(lim - least(line.open, lim / 2), skip, rules,
		    now_at);
		again := coalesce(cardinality(rest.m), 0);
	END IF;
	SELECT array_agg(c.message_id) AS m, array_agg(c.tenant_id) AS t,
	    array_agg(c.domain) AS dom, array_agg(c.test) AS test INTO got FROM (
		SELECT * FROM (SELECT q.message_id, q.tenant_id, q.domain, x.test
		FROM d.send_q q
		JOIN d.inbox x ON x.tenant_id = q.tenant_id
		    AND x.inbox_id = q.inbox_id
		JOIN d.tenant n ON n.tenant_id = q.tenant_id
		WHERE q.lease IS NULL AND q.aside = 0 AND q.due_at <= now_at
		AND d.claim_bars(x, n, q.domain, skip, rules) = 0
		ORDER BY q.vt LIMIT least(line.open, lim - again)
		FOR UPDATE OF q SKIP LOCKED) z
		UNION ALL
		SELECT * FROM (SELECT q.message_id, q.tenant_id, q.domain, x.test
		FROM unnest(rest.m, rest.t, rest.dom) u(m, t, dom)
		CROSS JOIN LATERAL (SELECT y.message_id, y.tenant_id, y.inbox_id,
		    y.domain FROM d.send_q y WHERE y.message_id = u.m
		    AND y.tenant_id = u.t AND y.domain = u.dom
		    AND y.lease IS NULL AND y.due_at <= now_at
		    FOR UPDATE SKIP LOCKED) q
		JOIN d.inbox x ON x.tenant_id = q.tenant_id
		    AND x.inbox_id = q.inbox_id
		JOIN d.tenant n ON n.tenant_id = q.tenant_id
		WHERE d.claim_bars(x, n, q.domain, skip, rules) = 0) z
	) c;
	IF got.m IS NOT NULL THEN
		ends := d.ends(got.m);
		RETURN QUERY EXECUTE format('SELECT 200, NULL::text, y.* '
		    'FROM d.claim_at%s($1, $2, $3, $4, $5, $6, $7, $8, $9) y',
		    ends.week) USING got.m, got.t, got.dom, got.test, ends.lo,
		    ends.hi, claim_due_1.worker,
		    now_at + lease_seconds * interval '1 second', rules;
	END IF;
	IF line.more OR rest.more OR more THEN
		RETURN QUERY SELECT 206, NULL::text, NULL::bigint, NULL::uuid, NULL::text,
		    NULL::uuid, NULL::smallint, NULL::smallint, NULL::int,
		    NULL::timestamptz, NULL::boolean, NULL::text;
	END IF;
END $$;

-- What says which way mail goes has changed: for all (0), a tenant, an inbox,
-- for a domain or '*'. Claims tell the queue once that is committed, some rows
-- at a time: who sets a rule waits for nobody, nobody for him, and no worker is
-- still asking about ways as they were.
CREATE FUNCTION d.ways_changed(t bigint, i bigint, dom text) RETURNS void
	LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
	INSERT INTO d.way_change (tenant_id, inbox_id, domain) VALUES (t, i, dom)
$$;
GRANT EXECUTE ON FUNCTION d.ways_changed(bigint, bigint, text) TO p_ctl;

-- A step of that: is there more of it? NULL if there is none, or not now.
-- `step`: rows, more than a message has. What a worker put off need not wait any
-- longer, and what is leased need not when it comes back. What is set aside for
-- its domain is looked at once more, as only what holds for all tenants is seen
-- there. Who may have a message already is not asked sooner for that (0102).
-- What somebody holds is not waited for long, and by nobody in a circle: the
-- next claim tries again.
CREATE FUNCTION d.ways_tell(step int) RETURNS boolean LANGUAGE plpgsql
	SET lock_timeout = '50ms' AS $$
DECLARE
	now_at timestamptz := clock_timestamp();
	c d.way_change;
	mids uuid[];
	ts bigint[];
	doms text[];
BEGIN
	SELECT y.* INTO c FROM d.way_change y ORDER BY y.change_id LIMIT 1
	    FOR UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		RETURN NULL;
	END IF;
	IF c.past IS NULL THEN
		UPDATE d.send_q q SET aside = 3
		    FROM (SELECT y.message_id, y.tenant_id, y.domain
		        FROM d.send_q y WHERE y.lease IS NOT NULL
		        AND (c.tenant_id = 0 OR y.tenant_id = c.tenant_id)
		        AND (c.inbox_id = 0 OR y.inbox_id = c.inbox_id)
		        AND c.domain IN ('*', y.domain)
		        ORDER BY y.message_id, y.tenant_id, y.domain FOR UPDATE) z
		    WHERE q.message_id = z.message_id AND q.tenant_id = z.tenant_id
		    AND q.domain = z.domain;
	END IF;
	SELECT array_agg(z.message_id), array_agg(z.tenant_id),
	    array_agg(z.domain) INTO mids, ts, doms FROM (
		SELECT y.message_id, y.tenant_id, y.domain FROM d.send_q y
		WHERE y.message_id >= coalesce(c.past, d.uuid_at(0))
		AND (c.tenant_id = 0 OR y.tenant_id = c.tenant_id)
		AND (c.inbox_id = 0 OR y.inbox_id = c.inbox_id)
		AND c.domain IN ('*', y.domain) AND y.lease IS NULL
		AND (y.aside = 2 AND c.tenant_id > 0
		OR y.aside = 3 AND y.due_at > now_at
		AND y.due_at > y.give_up_at - d.give_up_after())
		ORDER BY y.message_id LIMIT step FOR UPDATE) z;
	-- A new look: what was held until just now may be in doubt since.
	UPDATE d.send_q q SET aside = 3, due_at = least(q.due_at, now_at)
	    FROM unnest(mids, ts, doms) z(m, t, dom)
	    WHERE q.message_id = z.m AND q.tenant_id = z.t AND q.domain = z.dom
	    AND NOT EXISTS (SELECT 1 FROM d.delivery v WHERE v.message_id = z.m
	        AND d.within(v.message_id, mids[1], mids[cardinality(mids)])
	        AND v.tenant_id = z.t AND v.domain = z.dom
	        AND v.unsure_mx IS NOT NULL);
	IF cardinality(mids) = step THEN
		UPDATE d.way_change y SET past = mids[step]
		    WHERE y.change_id = c.change_id AND y.tenant_id = c.tenant_id;
		RETURN true;
	ELSE
		DELETE FROM d.way_change y
		    WHERE y.change_id = c.change_id AND y.tenant_id = c.tenant_id;
	END IF;
	RETURN false;
EXCEPTION WHEN lock_not_available THEN
	RETURN NULL;
END $$;

-- Before a claim: all that has changed, if that is not much. Is there more?
CREATE FUNCTION d.ways_told() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	more boolean := false;
BEGIN
	IF EXISTS (SELECT 1 FROM d.way_change) THEN
		FOR i IN 1 .. 8 LOOP
			more := d.ways_tell(2000);
			EXIT WHEN more IS DISTINCT FROM false;
		END LOOP;
	END IF;
	RETURN more IS TRUE;
END $$;

-- The worker's smarthost is another one.
CREATE FUNCTION api.ways_changed_1() RETURNS TABLE (status int, code text)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
#variable_conflict use_column
BEGIN
	PERFORM d.ways_changed(0, 0, '*');
	RETURN QUERY SELECT 200, NULL::text;
END $$;

-- Is this lease alive? If so, its message may be read in this call. With
-- `lock` the state row is locked first, then the queue row.
CREATE FUNCTION d.leased(t bigint, mid uuid, dom text, lease uuid,
	lock boolean, OUT alive boolean, OUT q d.send_q, OUT s d.state)
	LANGUAGE plpgsql AS $$
BEGIN
	alive := false;
	IF lock THEN
		SELECT y.* INTO s FROM d.state y WHERE y.message_id = mid
		    AND y.tenant_id = t FOR UPDATE;
		SELECT y.* INTO q FROM d.send_q y WHERE y.message_id = mid
		    AND y.tenant_id = t AND y.domain = dom
		    AND y.lease = leased.lease
		    AND y.lease_until > clock_timestamp() FOR UPDATE;
	ELSE
		SELECT y.* INTO s FROM d.state y WHERE y.message_id = mid
		    AND y.tenant_id = t;
		SELECT y.* INTO q FROM d.send_q y WHERE y.message_id = mid
		    AND y.tenant_id = t AND y.domain = dom
		    AND y.lease = leased.lease
		    AND y.lease_until > clock_timestamp();
	END IF;
	alive := q.lease IS NOT NULL AND s.state = 7
	    AND s.version = q.version AND s.round = q.round;
	IF alive THEN
		PERFORM set_config('postern.msg', ARRAY[mid]::text, true),
		    set_config('postern.actor', 'worker:' || q.worker, true);
	END IF;
END $$;

CREATE FUNCTION api.fetch_1(t bigint, mid uuid, dom text, lease uuid)
	RETURNS TABLE (status int, code text, deployment bytea, epoch int,
	tenant_id bigint, inbox_id bigint, version smallint, round smallint,
	test boolean, digest bytea, mail_from text, rcpts text, params text,
	size bigint, chunks int, body_tag bytea, send_at bigint,
	not_after bigint, release_by text, release_mode smallint,
	release_mode_epoch int, expiry bigint, relay_box bytea, tag bytea,
	due_ix text, attempts int, now_us bigint, give_up_at timestamptz,
	same_mx text, routed boolean, released_us bigint,
	proofs bytea, one_click boolean)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.msg = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	l record;
BEGIN
	l := d.leased(t, mid, dom, lease, false);
	IF NOT l.alive THEN
		SELECT 409, 'state_conflict' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, y.deployment, y.epoch, m.tenant_id,
	    m.inbox_id, m.version, r.round, m.test, m.digest, m.mail_from,
	    array_to_string(m.rcpt, E'\n'), m.params, m.size, m.chunks,
	    m.body_tag, m.send_at, m.not_after, r.by_what::text, r.mode,
	    r.mode_epoch, r.expiry, r.relay_box, r.tag,
	    w.due, (l.q).attempts, d.us(clock_timestamp()),
	    (l.q).give_up_at, w.mx,
	    EXISTS (SELECT 1 FROM d.route z WHERE z.tenant_id IN (0, t)
	        AND z.ended_at IS NULL), d.us(r.at),
	    (SELECT string_agg(int4send(octet_length(p.packed)) || p.packed, '')
	        FROM d.decision_proof p WHERE p.message_id = mid
	        AND p.tenant_id = t AND p.version = (l.q).version
	        AND p.round = (l.q).round), x.one_click
	    FROM d.message m
	    JOIN d.release r ON r.message_id = mid AND r.tenant_id = t
	        AND r.version = (l.q).version AND r.round = (l.q).round
	        AND r.digest = (l.q).digest
	    JOIN d.inbox x ON x.tenant_id = t AND x.inbox_id = m.inbox_id
	    CROSS JOIN LATERAL (SELECT string_agg(v.ix::text || ' '
	        || v.unsure_mx, E'\n' ORDER BY v.ix) AS mx,
	        string_agg(v.ix::text, ',' ORDER BY v.attempts, v.ix) AS due
	        FROM d.delivery v
	        WHERE v.message_id = mid AND v.tenant_id = t AND v.domain = dom
	        AND v.status IN (0, 1, 4)) w
	    LEFT JOIN d.deployment y ON y.one
	    WHERE m.message_id = mid AND m.tenant_id = t
	    AND m.version = (l.q).version;
END $$;

CREATE FUNCTION api.fetch_body_1(t bigint, mid uuid, dom text, lease uuid,
	from_seq int, lim int) RETURNS TABLE (status int, code text, seq int,
	data bytea) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.msg = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	l record;
BEGIN
	l := d.leased(t, mid, dom, lease, false);
	IF NOT l.alive THEN
		RETURN QUERY SELECT 409, 'state_conflict', NULL::int, NULL::bytea;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, b.seq, b.data
	    FROM d.message m JOIN d.body b ON b.message_id = mid
	        AND b.tenant_id = t AND b.version = m.version
	        AND b.inbox_id = m.inbox_id AND b.seq < m.chunks
	    WHERE m.message_id = mid AND m.tenant_id = t
	    AND m.version = (l.q).version AND b.seq >= from_seq ORDER BY b.seq
	    LIMIT least(greatest(lim, 1), 16);
END $$;

CREATE FUNCTION api.beat_1(leases uuid[], lease_seconds int)
	RETURNS TABLE (status int, code text, lease uuid)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
#variable_conflict use_column
BEGIN
	IF lease_seconds IS NULL OR lease_seconds NOT BETWEEN 1 AND 3600 THEN
		RETURN QUERY SELECT 422, 'validation_error', NULL::uuid;
		RETURN;
	END IF;
	PERFORM 1 FROM d.send_q q WHERE q.lease = ANY (leases)
	    AND q.lease_until > clock_timestamp()
	    ORDER BY q.message_id, q.tenant_id, q.domain FOR UPDATE;
	RETURN QUERY UPDATE d.send_q q SET lease_until = clock_timestamp()
	    + lease_seconds * interval '1 second'
	    WHERE q.lease = ANY (leases) AND q.lease_until > clock_timestamp()
	    RETURNING 200, NULL::text, q.lease;
END $$;

-- How long a host has, that may have a message, to find it again (0102).
CREATE FUNCTION d.unsure_wait() RETURNS interval LANGUAGE sql IMMUTABLE
	RETURN interval '15 minutes';
-- One host, however it is written.
CREATE FUNCTION d.mx_canon(host text) RETURNS text LANGUAGE sql IMMUTABLE
	STRICT RETURN d.low(rtrim(host, '.'));

-- Where the inbox would rather have a duplicate than ask a person, a dot that
-- was not answered is let go once more, to the same host: this one (0102), if
-- there is time for it.
CREATE FUNCTION d.unsure_host(t bigint, mid uuid, dom text) RETURNS text
	LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT coalesce(a.mx, '') FROM d.attempt a JOIN d.inbox x
	    ON x.tenant_id = a.tenant_id AND x.inbox_id = a.inbox_id
	    WHERE a.message_id = mid AND a.tenant_id = t AND a.domain = dom
	    AND a.dot_at IS NOT NULL AND x.may_duplicate
	    AND EXISTS (SELECT 1 FROM d.send_q q WHERE q.message_id = mid
	        AND q.tenant_id = t AND q.domain = dom AND q.give_up_at
	        > clock_timestamp() + d.unsure_wait())
	    ORDER BY a.n DESC LIMIT 1);
END $$;

-- Ends the lease: what was marked and not answered goes back (before the dot)
-- or becomes uncertain (after it); a queue row without due rows goes.
CREATE FUNCTION d.lease_end(t bigint, mid uuid, dom text, due timestamptz,
	counts boolean, result text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	again boolean;
	host text;
	open_rows int;
	over boolean;
	anew boolean;
BEGIN
	IF EXISTS (SELECT 1 FROM d.delivery v WHERE v.message_id = mid
	    AND v.tenant_id = t AND v.domain = dom AND v.status = 2
	    AND v.unsure_mx IS NULL) THEN
		host := d.unsure_host(t, mid, dom);
		due := greatest(due, clock_timestamp() + CASE WHEN host IS NOT NULL
		    THEN d.unsure_wait() END);
	END IF;
	UPDATE d.delivery v SET status = CASE WHEN v.status = 1 THEN 0
	    WHEN host IS NOT NULL AND v.unsure_mx IS NULL THEN 4 ELSE 6 END,
	    unsure_mx = CASE WHEN v.status = 2
	        THEN coalesce(v.unsure_mx, host) ELSE v.unsure_mx END,
	    attempts = v.attempts + (v.status = 2)::int,
	    next_attempt_at = due WHERE v.message_id = mid
	    AND v.tenant_id = t AND v.domain = dom AND v.status IN (1, 2);
	UPDATE d.attempt a SET ended_at = clock_timestamp(),
	    result = left(lease_end.result, 300)
	    WHERE a.message_id = mid AND a.tenant_id = t AND a.domain = dom
	    AND a.ended_at IS NULL;
	SELECT q.aside = 3 AND due > clock_timestamp() INTO anew FROM d.send_q q
	    WHERE q.message_id = mid AND q.tenant_id = t AND q.domain = dom;
	-- It waits for a way that it would not take any more.
	IF anew AND NOT EXISTS (SELECT 1 FROM d.delivery v WHERE v.message_id = mid
	    AND v.tenant_id = t AND v.domain = dom AND v.status IN (0, 4)
	    AND v.unsure_mx IS NOT NULL) THEN
		due := clock_timestamp();
		UPDATE d.delivery v SET next_attempt_at = due WHERE v.message_id = mid
		    AND v.tenant_id = t AND v.domain = dom AND v.status = 4;
	END IF;
	SELECT due >= q.give_up_at INTO over FROM d.send_q q
	    WHERE q.message_id = mid AND q.tenant_id = t AND q.domain = dom;
	IF over THEN
		UPDATE d.delivery v SET status = CASE WHEN v.unsure_mx IS NULL
		    AND NOT v.resent THEN 5 ELSE 6 END, next_attempt_at = NULL,
		    reply = coalesce(v.reply, 'given up')
		    WHERE v.message_id = mid AND v.tenant_id = t
		    AND v.domain = dom AND v.status IN (0, 4);
	END IF;
	SELECT count(*) INTO open_rows FROM d.delivery v WHERE v.message_id = mid
	    AND v.tenant_id = t AND v.domain = dom AND v.status IN (0, 4);
	again := open_rows > 0;
	IF again THEN
		UPDATE d.send_q q SET lease = NULL, lease_until = NULL,
		    worker = NULL, due_at = due, vt = greatest(q.vt,
		    extract(epoch FROM due)), attempts = q.attempts + counts::int,
		    aside = CASE WHEN due > clock_timestamp() THEN 3 ELSE 0 END
		    WHERE q.message_id = mid AND q.tenant_id = t
		    AND q.domain = dom;
	ELSE
		DELETE FROM d.send_q q WHERE q.message_id = mid
		    AND q.tenant_id = t AND q.domain = dom;
	END IF;
	RETURN again;
END $$;

-- Sets the state that the recipients' rows add up to; the caller holds it.
CREATE FUNCTION d.state_derive(t bigint, mid uuid, why text) RETURNS smallint
	LANGUAGE plpgsql AS $$
DECLARE
	st smallint := d.derived(mid, t);
BEGIN
	-- While any of its queue rows is leased, it is being sent.
	IF EXISTS (SELECT 1 FROM d.send_q q WHERE q.message_id = mid
	    AND q.tenant_id = t AND q.lease IS NOT NULL) THEN
		st := 7;
	END IF;
	UPDATE d.state y SET state = st, detail = left(why, 300)
	    WHERE y.message_id = mid AND y.tenant_id = t AND y.state <> st;
	RETURN st;
END $$;

-- Takes a released message back: held in the next round while nothing of it
-- may have left; else the rest is canceled. The caller holds the state row.
CREATE FUNCTION d.pull_back(t bigint, mid uuid, why text, to_state smallint,
	broken boolean) RETURNS smallint LANGUAGE plpgsql AS $$
DECLARE
	st smallint;
BEGIN
	PERFORM 1 FROM d.send_q q WHERE q.message_id = mid AND q.tenant_id = t
	    ORDER BY q.domain FOR UPDATE;
	DELETE FROM d.send_q q WHERE q.message_id = mid AND q.tenant_id = t;
	UPDATE d.attempt a SET ended_at = clock_timestamp(),
	    result = left(why, 300) WHERE a.message_id = mid
	    AND a.tenant_id = t AND a.ended_at IS NULL;
	SELECT y.state INTO st FROM d.state y WHERE y.message_id = mid
	    AND y.tenant_id = t;
	-- A dot that left for another domain of it stays unanswered, and one that
	-- would have been let go once more does.
	UPDATE d.delivery v SET status = 6,
	    attempts = v.attempts + (v.status = 2)::int
	    WHERE v.message_id = mid AND v.tenant_id = t AND (v.status = 2
	    OR st <> 2 AND v.status IN (0, 1, 4)
	    AND (v.unsure_mx IS NOT NULL OR v.resent));
	IF st <> 2 AND EXISTS (SELECT 1 FROM d.delivery v
	    WHERE v.message_id = mid AND v.tenant_id = t
	    AND v.status IN (3, 6)) THEN
		UPDATE d.delivery v SET status = CASE WHEN to_state = 4 THEN 5
		    ELSE 8 END, reply = CASE WHEN to_state = 4
		    THEN coalesce(v.reply, 'expired') ELSE v.reply END
		    WHERE v.message_id = mid AND v.tenant_id = t
		    AND v.status IN (0, 1, 4);
		st := d.state_derive(t, mid, why);
		IF broken THEN
			UPDATE d.state y SET integrity = left(why, 300)
			    WHERE y.message_id = mid AND y.tenant_id = t;
		END IF;
		RETURN st;
	END IF;
	UPDATE d.delivery v SET status = CASE WHEN to_state = 4 THEN 8 ELSE 0 END
	    WHERE v.message_id = mid AND v.tenant_id = t
	    AND (v.status = 1 OR to_state = 4 AND v.status IN (0, 4));
	UPDATE d.state y SET state = to_state,
	    round = y.round + (to_state = 1)::int, detail = left(why, 300),
	    integrity = CASE WHEN broken THEN left(why, 300) ELSE y.integrity END
	    WHERE y.message_id = mid AND y.tenant_id = t;
	RETURN to_state;
END $$;

-- For restore_finish_1: no worker has it any more, and an unanswered dot is a
-- person's matter. What else is due stays so, for the next release.
CREATE FUNCTION d.forget_leases(mid uuid, t bigint) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	DELETE FROM d.send_q q WHERE q.message_id = mid AND q.tenant_id = t;
	UPDATE d.attempt a SET ended_at = clock_timestamp(), result = 'restored'
	    WHERE a.message_id = mid AND a.tenant_id = t AND a.ended_at IS NULL;
	UPDATE d.delivery v SET status = CASE WHEN v.status = 1
	    AND v.unsure_mx IS NULL AND NOT v.resent THEN 0 ELSE 6 END,
	    attempts = v.attempts + (v.status = 2)::int
	    WHERE v.message_id = mid AND v.tenant_id = t AND (v.status IN (1, 2)
	    OR v.status IN (0, 4) AND (v.unsure_mx IS NOT NULL OR v.resent));
END $$;
GRANT EXECUTE ON FUNCTION d.forget_leases(uuid, bigint) TO p_ctl;

-- Why the gate keeps a message with a live release back, or NULL: the one
-- place that says so, for one lease (d.gate) and for many (d.gate_set).
-- `whither`: o out to a host, which mail of a test inbox never goes; c into
-- the store of captures, where no other goes; n nowhere, it says why it waits.
CREATE FUNCTION d.gate_why(m d.message, z d.release, q d.send_q, b d.inbox,
	n d.tenant, halted boolean, now_at timestamptz, whither text)
	RETURNS text LANGUAGE sql STABLE AS $$
	SELECT CASE
	    WHEN b.test AND whither = 'o' OR NOT b.test AND whither = 'c'
	        THEN 'test'
	    WHEN m.not_after <> 0 AND m.not_after <= d.us(now_at)
	        THEN 'not_after'
	    WHEN z.expiry <= d.us(now_at) OR q.stale_at <= now_at
	        AND m.not_after = 0 THEN 'expired'
	    WHEN z.by_what <> 'o' AND b.mode < z.mode THEN 'mode'
	    WHEN z.by_what = 'r' AND d.rule_ended(z.message_id, z.tenant_id,
	        z.version, z.round) THEN 'rule_ended'
	    WHEN b.suspended_at IS NOT NULL OR b.deleted_at IS NOT NULL
	        OR n.disabled_at IS NOT NULL THEN 'suspended'
	    WHEN b.paused_at IS NOT NULL OR n.paused_at IS NOT NULL OR halted
	        THEN 'paused' END
$$;

GRANT EXECUTE ON FUNCTION d.gate_why TO p_review;

-- May what is marked go on: before MAIL FROM, and once more before the dot?
-- NULL is yes. A no is carried out here: all but `list` end the lease, and
-- that one does when nothing is left to send. `round`: no release fits, and
-- `test`: not this way; these change nothing. The caller holds the state row,
-- then the queue row.
CREATE FUNCTION d.gate(at text, whither text, t bigint, mid uuid, dom text,
	q d.send_q) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	now_at timestamptz := clock_timestamp();
	later timestamptz := now_at + interval '1 minute';
	why text;
BEGIN
	SELECT d.gate_why(m, z, q, x, n, EXISTS (SELECT 1 FROM d.global_pause g
	    WHERE g.paused_at IS NOT NULL), now_at, whither) INTO why
	    FROM d.release z JOIN d.message m ON m.message_id = mid
	        AND m.tenant_id = t AND m.version = z.version
	        AND m.digest = z.digest
	    JOIN d.inbox x ON x.tenant_id = t AND x.inbox_id = q.inbox_id
	    JOIN d.tenant n ON n.tenant_id = t
	    WHERE z.message_id = mid AND z.tenant_id = t
	    AND z.version = q.version AND z.round = q.round
	    AND z.digest = q.digest;
	IF NOT FOUND THEN
		RETURN 'round';
	END IF;
	IF why = 'test' THEN
		RETURN why;
	END IF;
	IF why = 'not_after' THEN
		PERFORM d.pull_back(t, mid, why, 4::smallint, false);
	ELSIF why IN ('expired', 'mode', 'rule_ended') THEN
		PERFORM d.pull_back(t, mid, why, 1::smallint, false);
	ELSIF why IN ('suspended', 'paused') THEN
		UPDATE d.delivery v SET status = 4, next_attempt_at = later
		    WHERE v.message_id = mid AND v.tenant_id = t
		    AND v.domain = dom AND v.status = 1;
		PERFORM d.lease_end(t, mid, dom, later, false, why),
		    d.state_derive(t, mid, why);
	ELSE
		UPDATE d.delivery v SET status = CASE WHEN v.unsure_mx IS NULL
		    AND NOT v.resent THEN 7 ELSE 6 END, reply_code = NULL,
		    enhanced = NULL, reply = 'suppressed'
		    WHERE v.message_id = mid AND v.tenant_id = t
		    AND v.domain = dom AND v.status = 1
		    AND EXISTS (SELECT 1 FROM d.list_entry e
		        WHERE e.entry IN (v.canon, '@' || v.domain)
		        AND e.ended_at IS NULL AND (e.expires_at IS NULL
		        OR e.expires_at > now_at) AND (e.tenant_id = 0
		        OR e.tenant_id = t AND e.inbox_id IN (0, v.inbox_id)));
		IF NOT FOUND THEN
			RETURN NULL;
		END IF;
		why := 'list';
		UPDATE d.delivery v SET status = 0 WHERE v.message_id = mid
		    AND v.tenant_id = t AND v.domain = dom AND v.status = 1;
		IF NOT EXISTS (SELECT 1 FROM d.delivery v WHERE v.message_id = mid
		    AND v.tenant_id = t AND v.domain = dom AND v.status IN (0, 4))
		    THEN
			PERFORM d.lease_end(t, mid, dom, now_at, false, why),
			    d.state_derive(t, mid, why);
		END IF;
	END IF;
	PERFORM d.note(t, 'worker:' || q.worker, at || '.refused', mid,
	    json_build_object('reason', why, 'domain', dom)::text);
	RETURN why;
END $$;

-- These recipients of a lease are being sent now, and what an earlier attempt
-- of it marked and left no more. False: they are not all its own and due, and
-- none is marked. The caller holds the lease.
CREATE FUNCTION d.mark(t bigint, mid uuid, dom text, ix int[])
	RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	c int;
BEGIN
	UPDATE d.delivery v SET status = 0 WHERE v.message_id = mid
	    AND v.tenant_id = t AND v.domain = dom AND v.status = 1;
	UPDATE d.delivery v SET status = 1 WHERE v.message_id = mid
	    AND v.tenant_id = t AND v.domain = dom AND v.status IN (0, 4)
	    AND v.ix::int = ANY (mark.ix);
	GET DIAGNOSTICS c = ROW_COUNT;
	IF c > 0 AND c = (SELECT count(DISTINCT z) FROM unnest(mark.ix) z) THEN
		RETURN true;
	END IF;
	UPDATE d.delivery v SET status = 0 WHERE v.message_id = mid
	    AND v.tenant_id = t AND v.domain = dom AND v.status = 1;
	RETURN false;
END $$;

-- The next attempt of a lease begins.
CREATE FUNCTION d.attempt_add(q d.send_q, host text, safety text) RETURNS int
	LANGUAGE plpgsql AS $$
DECLARE
	c int;
BEGIN
	INSERT INTO d.attempt AS y (message_id, tenant_id, inbox_id, domain, n,
	    round, worker, mx, tls)
	    SELECT q.message_id, q.tenant_id, q.inbox_id, q.domain,
	    coalesce(max(z.n), 0) + 1, q.round, q.worker, left(host, 255),
	    left(safety, 100) FROM d.attempt z
	    WHERE z.message_id = q.message_id AND z.tenant_id = q.tenant_id
	    AND z.domain = q.domain RETURNING y.n INTO c;
	RETURN c;
END $$;

-- It is going on already.
CREATE FUNCTION d.attempt_open(q d.send_q) RETURNS boolean LANGUAGE plpgsql
	AS $$
BEGIN
	RETURN EXISTS (SELECT 1 FROM d.attempt a
	    WHERE a.message_id = q.message_id AND a.tenant_id = q.tenant_id
	    AND a.domain = q.domain AND a.ended_at IS NULL);
END $$;

-- May what is marked go to this host? Who may have it already goes there once
-- more, or where a rule says (d.routes_of), as who made that knows why (0102).
CREATE FUNCTION d.host_fits(q d.send_q, host text) RETURNS boolean
	LANGUAGE plpgsql AS $$
BEGIN
	RETURN NOT EXISTS (SELECT 1 FROM d.delivery v
	    WHERE v.message_id = q.message_id AND v.tenant_id = q.tenant_id
	    AND v.domain = q.domain AND v.status = 1 AND v.unsure_mx IS NOT NULL
	    AND d.mx_canon(v.unsure_mx) IS DISTINCT FROM d.mx_canon(host))
	    OR EXISTS (SELECT 1 FROM d.routes_of(q.tenant_id, q.inbox_id,
	    q.domain) r WHERE r.action = 'r'
	    AND d.mx_canon(r.host) = d.mx_canon(host_fits.host));
END $$;

-- Before MAIL FROM: these recipients are being sent now, if that may go on.
CREATE FUNCTION api.attempt_1(t bigint, mid uuid, dom text, lease uuid,
	mx text, tls text, ix int[]) RETURNS TABLE (status int, code text, n int,
	go boolean, reason text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.msg = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	l record;
BEGIN
	PERFORM set_config('synchronous_commit', 'off', true);
	go := false;
	l := d.leased(t, mid, dom, lease, true);
	IF NOT l.alive THEN
		status := 409;
		code := 'state_conflict';
		RETURN NEXT;
		RETURN;
	END IF;
	IF NOT d.mark(t, mid, dom, attempt_1.ix) THEN
		status := 422;
		code := 'validation_error';
		RETURN NEXT;
		RETURN;
	END IF;
	status := 200;
	-- No host: there will be no transaction, only the reason why.
	reason := d.gate('mail', CASE WHEN attempt_1.mx = 'none' THEN 'n'
	    ELSE 'o' END, t, mid, dom, l.q);
	IF reason = 'test' THEN
		PERFORM d.mark(t, mid, dom, '{}');
		status := 409;
		code := 'state_conflict';
	END IF;
	IF reason IS NULL THEN
		go := true;
		-- One that was begun at another host came to nothing there.
		UPDATE d.attempt a SET ended_at = clock_timestamp(),
		    result = 'lost before the dot, the next host is asked'
		    WHERE a.message_id = mid AND a.tenant_id = t
		    AND a.domain = dom AND a.ended_at IS NULL;
		n := d.attempt_add(l.q, attempt_1.mx, attempt_1.tls);
	END IF;
	RETURN NEXT;
END $$;

-- The last gate: what commits here is what may leave. Who was not marked
-- before MAIL FROM, as the fetch had asked the gate, is marked here first.
CREATE FUNCTION api.dot_1(t bigint, mid uuid, dom text, lease uuid, ix int[],
	host text DEFAULT NULL, safety text DEFAULT NULL)
	RETURNS TABLE (status int, code text, go boolean, reason text)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.msg = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	l record;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	status := 409;
	code := 'state_conflict';
	go := false;
	-- No stop for more than one inbox is made now (0105).
	LOCK TABLE d.stop IN ROW SHARE MODE;
	-- Then the inbox first, as everywhere: mode, pause and suspension hold
	-- still. Not by a share lock of its row: workers that share one in turn
	-- would keep out who tightens or pauses.
	PERFORM 1 FROM d.inbox z JOIN d.send_q q
	    ON q.tenant_id = z.tenant_id AND q.inbox_id = z.inbox_id
	    WHERE q.message_id = mid AND q.tenant_id = t AND q.domain = dom
	    FOR NO KEY UPDATE OF z;
	l := d.leased(t, mid, dom, lease, true);
	IF NOT l.alive THEN
		reason := CASE WHEN (l.q).lease IS NULL THEN 'lease'
		    WHEN (l.s).state <> 7 THEN 'state'
		    WHEN (l.s).version <> (l.q).version THEN 'version'
		    ELSE 'round' END;
		RETURN NEXT;
		RETURN;
	END IF;
	IF NOT d.mark(t, mid, dom, dot_1.ix) THEN
		-- Not all its own and due: nothing may leave for it.
		reason := 'state';
		RETURN NEXT;
		RETURN;
	END IF;
	reason := d.gate('dot', 'o', t, mid, dom, l.q);
	IF reason IS NULL AND NOT d.host_fits(l.q, dot_1.host) THEN
		reason := 'host';
		PERFORM d.mark(t, mid, dom, '{}'), d.note(t, 'worker:'
		    || (l.q).worker, 'dot.refused', mid, json_build_object(
		    'reason', reason, 'domain', dom, 'host', dot_1.host)::text);
	END IF;
	IF reason IS NOT NULL THEN
		IF reason IN ('round', 'test') THEN
			PERFORM d.mark(t, mid, dom, '{}');
		ELSE
			status := 200;
			code := NULL;
		END IF;
		RETURN NEXT;
		RETURN;
	END IF;
	UPDATE d.delivery v SET status = 2 WHERE v.message_id = mid
	    AND v.tenant_id = t AND v.domain = dom AND v.status = 1;
	IF NOT d.attempt_open(l.q) THEN
		PERFORM d.attempt_add(l.q, host, safety);
	END IF;
	UPDATE d.attempt a SET dot_at = clock_timestamp()
	    WHERE a.message_id = mid AND a.tenant_id = t AND a.domain = dom
	    AND a.ended_at IS NULL;
	status := 200;
	code := NULL;
	go := true;
	RETURN NEXT;
END $$;

-- What a report for a leased message is sealed to, and whether the agent has
-- been told of the delay.
CREATE FUNCTION api.dsn_key_1(t bigint, mid uuid, dom text, lease uuid)
	RETURNS TABLE (status int, code text, inbox_epoch int, inbox_pub bytea,
	delay_told boolean) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.msg = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	l record;
BEGIN
	l := d.leased(t, mid, dom, lease, false);
	IF NOT l.alive THEN
		SELECT 409, 'state_conflict' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, y.epoch, y.pub,
	    EXISTS (SELECT 1 FROM d.dsn r WHERE r.message_id = mid
	        AND r.tenant_id = t AND r.domain = dom AND r.kind = 'd')
	    FROM d.inbox x LEFT JOIN d.inbox_key y ON y.tenant_id = t
	        AND y.inbox_id = x.inbox_id AND y.epoch = x.epoch
	    WHERE x.tenant_id = t AND x.inbox_id = (l.q).inbox_id;
END $$;

-- A report into the inbox of the leased message `q`: decision A16, 0042. The
-- caller holds the lease, and commits the results it tells of with it.
CREATE FUNCTION d.dsn_insert(q d.send_q, what text, rows_ix text,
	key_epoch int, sealed bytea) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	st smallint;
BEGIN
	IF (what IN ('f', 'd', 's')
	    AND octet_length(rows_ix) <= 5000
	    AND rows_ix ~ '^[1-9][0-9]{0,3}(,[1-9][0-9]{0,3})*$'
	    AND key_epoch >= 0 AND octet_length(sealed) BETWEEN 49 AND 524288)
	    IS NOT TRUE THEN
		RETURN false;
	END IF;
	IF EXISTS (SELECT 1 FROM unnest(string_to_array(rows_ix, ',')
	    ::smallint[]) z LEFT JOIN d.delivery v
	    ON v.message_id = q.message_id AND v.tenant_id = q.tenant_id
	    AND v.domain = q.domain AND v.ix = z
	    WHERE v.status IS DISTINCT FROM
	    CASE what WHEN 'f' THEN 5 WHEN 'd' THEN 4 ELSE 3 END)
	    OR (SELECT count(*) FROM d.dsn r WHERE r.tenant_id = q.tenant_id
	    AND r.inbox_id = q.inbox_id AND r.at > clock_timestamp()
	    - interval '1 hour') >= 200 THEN
		RETURN false;
	END IF;
	INSERT INTO d.dsn (message_id, tenant_id, inbox_id, domain, n, kind, ix,
	    inbox_epoch, box) SELECT q.message_id, q.tenant_id, q.inbox_id,
	    q.domain, coalesce(max(r.n), 0) + 1, what::"char",
	    string_to_array(rows_ix, ',')::smallint[], key_epoch, sealed
	    FROM d.dsn r WHERE r.message_id = q.message_id
	    AND r.tenant_id = q.tenant_id AND r.domain = q.domain
	    ON CONFLICT DO NOTHING;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	SELECT y.state INTO st FROM d.state y WHERE y.message_id = q.message_id
	    AND y.tenant_id = q.tenant_id;
	PERFORM d.event_add(q.message_id, q.tenant_id, q.inbox_id,
	    CASE what WHEN 'd' THEN 'message.delayed' ELSE 'message.reported' END,
	    'worker', 'worker:' || q.worker, st, CASE what WHEN 'f'
	    THEN 'failed for ' WHEN 'd' THEN 'not yet taken by ' ELSE 'relayed, '
	    'no further report from ' END || q.domain);
	RETURN true;
END $$;

CREATE FUNCTION api.done_1(t bigint, mid uuid, dom text, lease uuid,
	ix int[], result int[], reply_code int[], enhanced text[],
	reply text[], retry_seconds int, mx_result text,
	dsn_kind text[] DEFAULT NULL, dsn_ix text[] DEFAULT NULL,
	dsn_epoch int DEFAULT NULL, dsn_box bytea[] DEFAULT NULL,
	host text DEFAULT NULL, safety text DEFAULT NULL,
	own int[] DEFAULT '{}')
	RETURNS TABLE (status int, code text, state smallint, more boolean)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.msg = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	l record;
	due timestamptz := clock_timestamp() + least(greatest(coalesce(
	    retry_seconds, 60), 0), 86400) * interval '1 second';
	again boolean;
	unsure text; -- the host, if it is asked once more
	st smallint;
	bad int;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	l := d.leased(t, mid, dom, lease, true);
	IF NOT l.alive THEN
		RETURN QUERY SELECT 409, 'state_conflict', (l.s).state,
		    NULL::boolean;
		RETURN;
	END IF;
	-- Before the dot only later or failed, also of who was not marked; after
	-- it anything.
	SELECT count(*) INTO bad FROM unnest(done_1.ix, result) u(i, r)
	    LEFT JOIN d.delivery v ON v.message_id = mid AND v.tenant_id = t
	        AND v.domain = dom AND v.ix::int = u.i
	    WHERE v.status IS NULL OR NOT (v.status = 2 AND u.r IN (3, 4, 5, 6)
	        OR v.status IN (0, 1, 4) AND u.r IN (4, 5)) OR u.r IS NULL;
	IF bad > 0 OR cardinality(done_1.ix) <> (SELECT count(DISTINCT z)
	    FROM unnest(done_1.ix) z) THEN
		RETURN QUERY SELECT 422, 'validation_error', (l.s).state,
		    NULL::boolean;
		RETURN;
	END IF;
	IF 6 = ANY (result) THEN
		unsure := d.unsure_host(t, mid, dom);
		due := greatest(due, clock_timestamp() + CASE WHEN unsure IS NOT NULL
		    THEN d.unsure_wait() END);
	END IF;
	-- Who may have it already, and was not asked once more, may have it still.
	UPDATE d.delivery v SET status = CASE WHEN u.r = 6
	    AND unsure IS NOT NULL AND v.unsure_mx IS NULL THEN 4
	    WHEN u.r = 5 AND v.status <> 2
	    AND (v.unsure_mx IS NOT NULL OR v.resent) THEN 6
	    ELSE u.r END,
	    unsure_mx = CASE WHEN u.r = 6 THEN coalesce(v.unsure_mx, unsure)
	        ELSE v.unsure_mx END, attempts = v.attempts + 1,
	    reply_code = u.c, enhanced = left(u.e, 16), reply = left(u.p, 1024),
	    next_attempt_at = CASE WHEN u.r = 4 OR u.r = 6
	        AND unsure IS NOT NULL AND v.unsure_mx IS NULL THEN due END
	    FROM unnest(done_1.ix, result, done_1.reply_code, done_1.enhanced,
	        done_1.reply) u(i, r, c, e, p)
	    WHERE v.message_id = mid AND v.tenant_id = t AND v.domain = dom
	    AND v.ix::int = u.i;
	IF 5 = ANY (result) THEN
		PERFORM d.suppress(t, mid, dom, ARRAY(SELECT unnest(done_1.ix)
		    INTERSECT SELECT unnest(own)));
	END IF;
	IF host IS NOT NULL AND NOT d.attempt_open(l.q) THEN
		PERFORM d.attempt_add(l.q, host, safety);
	END IF;
	-- Only what is to wait makes the next wait longer.
	again := d.lease_end(t, mid, dom, due, coalesce(4 = ANY (result), false),
	    mx_result);
	st := d.state_derive(t, mid, mx_result);
	IF dsn_kind IS NOT NULL THEN
		PERFORM d.dsn_insert(l.q, dsn_kind[z], dsn_ix[z], dsn_epoch,
		    dsn_box[z]) FROM generate_subscripts(dsn_kind, 1) z;
	END IF;
	PERFORM d.note(t, 'worker:' || (l.q).worker, 'message.result', mid,
	    json_build_object('domain', dom, 'ix', done_1.ix, 'result', result,
	    'code', done_1.reply_code, 'state', st)::text);
	RETURN QUERY SELECT 200, NULL::text, st, again;
END $$;

CREATE FUNCTION api.release_lease_1(t bigint, mid uuid, dom text, lease uuid,
	retry_seconds int) RETURNS TABLE (status int, code text)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.msg = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	l record;
BEGIN
	l := d.leased(t, mid, dom, lease, true);
	IF NOT l.alive THEN
		RETURN QUERY SELECT 409, 'state_conflict';
		RETURN;
	END IF;
	PERFORM d.lease_end(t, mid, dom, clock_timestamp() + least(greatest(
	    coalesce(retry_seconds, 0), 0), 86400) * interval '1 second', false,
	    'released'), d.state_derive(t, mid, 'released');
	RETURN QUERY SELECT 200, NULL::text;
END $$;

CREATE FUNCTION api.integrity_1(t bigint, mid uuid, dom text, lease uuid,
	why text) RETURNS TABLE (status int, code text)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.msg = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	l record;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	PERFORM 1 FROM d.inbox z JOIN d.send_q q ON q.tenant_id = z.tenant_id
	    AND q.inbox_id = z.inbox_id WHERE q.message_id = mid
	    AND q.tenant_id = t AND q.domain = dom
	    AND q.lease = integrity_1.lease FOR NO KEY UPDATE OF z;
	l := d.leased(t, mid, dom, lease, true);
	IF NOT l.alive THEN
		RETURN QUERY SELECT 409, 'state_conflict';
		RETURN;
	END IF;
	UPDATE d.inbox x SET alarm = left('integrity: '
	    || coalesce(integrity_1.why, 'unknown'), 300)
	    WHERE x.tenant_id = t AND x.inbox_id = (l.q).inbox_id;
	PERFORM d.pull_back(t, mid, coalesce(nullif(integrity_1.why, ''),
	    'unknown'), 1::smallint, true);
	PERFORM d.note(t, 'worker:' || (l.q).worker, 'message.integrity', mid,
	    json_build_object('why', left(integrity_1.why, 300))::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

-- One message off the queue if its state row is free: true when done.
CREATE FUNCTION d.sweep_one(t bigint, mid uuid, why text, to_state smallint)
	RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1 FROM d.state y WHERE y.message_id = mid AND y.tenant_id = t
	    AND y.state IN (2, 9, 7) FOR UPDATE SKIP LOCKED;
	IF NOT FOUND OR EXISTS (SELECT 1 FROM d.send_q q
	    WHERE q.message_id = mid AND q.tenant_id = t
	    AND q.lease IS NOT NULL) THEN
		RETURN false;
	END IF;
	PERFORM d.pull_back(t, mid, why, to_state, false),
	    d.note(t, 'worker:sweep', 'message.' || why, mid, '{}');
	RETURN true;
END $$;

-- One kind of what is due, and whether to come again at once. Not all kinds in
-- one call: each takes the inboxes' counters in the order that all who lock
-- several follow, and a second round would begin at the front again.
CREATE FUNCTION api.sweep_1(lim int) RETURNS TABLE (status int, code text,
	what text, n int, more boolean) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.msg = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	g record;
	c int;
	k int;
	most int := least(greatest(coalesce(lim, 100), 1), 1000);
	gated smallint := (SELECT max(u.mode) FROM d.mode_rule u
	    WHERE NOT u.releases);
	now_at timestamptz := clock_timestamp();
	na bigint;
BEGIN
	PERFORM set_config('postern.actor', 'worker:sweep', true);
	-- What a clock that was ahead has put off: an agent names a time in 31
	-- days at most, and no lease lasts a day.
	UPDATE d.send_q q SET due_at = now_at, vt = extract(epoch FROM now_at)
	    WHERE q.lease IS NULL AND q.aside = 3
	    AND q.due_at > now_at + interval '32 days';
	UPDATE d.send_q q SET lease_until = now_at WHERE q.lease IS NOT NULL
	    AND q.lease_until > now_at + interval '1 day';
	-- Rules that have run out. Claims look at each until it has ended.
	c := 0;
	IF NOT EXISTS (SELECT 1 FROM d.way_change) THEN
		c := d.routes_expire();
	END IF;
	RETURN QUERY SELECT 200, NULL::text, 'routes', c, c > 0;
	IF c > 0 THEN
		RETURN;
	END IF;
	-- Held too long: silence is no.
	c := 0;
	FOR g IN SELECT y.tenant_id, y.message_id FROM (SELECT s.tenant_id,
	    s.inbox_id, s.message_id FROM d.state s
	    WHERE s.stays = 1 AND s.hold_until <= now_at
	    ORDER BY s.hold_until LIMIT most FOR UPDATE SKIP LOCKED) y
	    ORDER BY y.tenant_id, y.inbox_id LOOP
		UPDATE d.state y SET state = 4, detail = NULL
		    WHERE y.message_id = g.message_id
		    AND y.tenant_id = g.tenant_id;
		PERFORM d.note(g.tenant_id, 'worker:sweep', 'message.expired',
		    g.message_id, '{}');
		c := c + 1;
	END LOOP;
	RETURN QUERY SELECT 200, NULL::text, 'expired', c, c > 0;
	IF c > 0 THEN
		RETURN;
	END IF;
	-- Released too long ago, or past its own end.
	c := 0;
	k := 0;
	FOR g IN SELECT y.tenant_id, y.message_id, y.version FROM (
	    SELECT DISTINCT ON (q.message_id, q.tenant_id) q.tenant_id,
	    q.inbox_id, q.message_id, q.version FROM d.send_q q
	    WHERE q.lease IS NULL AND q.stale_at <= now_at
	    ORDER BY q.message_id, q.tenant_id LIMIT most) y
	    ORDER BY y.tenant_id, y.inbox_id LOOP
		PERFORM set_config('postern.msg', ARRAY[g.message_id]::text,
		    true);
		SELECT m.not_after INTO na FROM d.message m
		    WHERE m.message_id = g.message_id
		    AND m.tenant_id = g.tenant_id AND m.version = g.version;
		IF na <> 0 AND na <= d.us(now_at) THEN
			k := k + d.sweep_one(g.tenant_id, g.message_id, 'expired',
			    4::smallint)::int;
		ELSE
			c := c + d.sweep_one(g.tenant_id, g.message_id, 'aged',
			    1::smallint)::int;
		END IF;
	END LOOP;
	RETURN QUERY SELECT 200, NULL::text, 'expired', k, k > 0
	    UNION ALL SELECT 200, NULL::text, 'aged', c, c > 0;
	IF c > 0 OR k > 0 THEN
		RETURN;
	END IF;
	-- Released by a mode that is stricter now, or by a rule that was ended: of
	-- the inboxes of which it can be so, and no mail of which it is not. (A
	-- mode that releases asks no rule.)
	c := 0;
	FOR g IN SELECT y.tenant_id, y.message_id, bool_or(y.stricter) AS stricter
	    FROM (SELECT x.tenant_id, x.inbox_id, z.message_id, z.stricter
	        FROM (SELECT i.tenant_id, i.inbox_id, i.mode, i.rules_ended
	            FROM d.inbox i WHERE i.lowered OR i.rules_ended OFFSET 0) x
	        JOIN LATERAL (SELECT q.message_id, true AS stricter FROM d.send_q q
	            WHERE q.tenant_id = x.tenant_id AND q.inbox_id = x.inbox_id
	            AND q.mode > x.mode AND q.lease IS NULL
	            UNION ALL SELECT q.message_id, false FROM d.send_q q
	            WHERE x.rules_ended AND q.tenant_id = x.tenant_id
	            AND q.inbox_id = x.inbox_id AND q.mode <= gated
	            AND q.lease IS NULL AND d.rule_ended(q.message_id,
	                q.tenant_id, q.version, q.round) OFFSET 0) z ON true
	        LIMIT most) y
	    GROUP BY y.tenant_id, y.inbox_id, y.message_id
	    ORDER BY y.tenant_id, y.inbox_id LOOP
		c := c + d.sweep_one(g.tenant_id, g.message_id, CASE
		    WHEN g.stricter THEN 'tightened' ELSE 'rule_ended' END,
		    1::smallint)::int;
	END LOOP;
	RETURN QUERY SELECT 200, NULL::text, 'tightened', c, c > 0;
	IF c > 0 THEN
		RETURN;
	END IF;
	-- A worker is gone: before the dot it is due again, after it uncertain.
	c := 0;
	FOR g IN SELECT q.tenant_id, q.message_id, q.domain, q.worker, q.lease
	    FROM d.send_q q WHERE q.lease IS NOT NULL
	    AND q.lease_until <= now_at ORDER BY q.lease_until LIMIT most LOOP
		PERFORM 1 FROM d.state y WHERE y.message_id = g.message_id
		    AND y.tenant_id = g.tenant_id FOR UPDATE SKIP LOCKED;
		CONTINUE WHEN NOT FOUND;
		PERFORM 1 FROM d.send_q q WHERE q.message_id = g.message_id
		    AND q.tenant_id = g.tenant_id AND q.domain = g.domain
		    AND q.lease = g.lease AND q.lease_until <= clock_timestamp()
		    FOR UPDATE SKIP LOCKED;
		CONTINUE WHEN NOT FOUND;
		PERFORM d.lease_end(g.tenant_id, g.message_id, g.domain, now_at
		    + interval '1 minute', true, 'lease lost'),
		    d.state_derive(g.tenant_id, g.message_id, 'lease lost'),
		    d.note(g.tenant_id, 'worker:sweep', 'message.recovered',
		    g.message_id, json_build_object('worker', g.worker, 'domain',
		    g.domain)::text);
		c := c + 1;
	END LOOP;
	RETURN QUERY SELECT 200, NULL::text, 'recovered', c, c = most;
END $$;

CREATE FUNCTION api.queue_stats_1() RETURNS TABLE (status int, code text,
	due int, leased int, deferred int, uncertain int, held int,
	oldest_due timestamptz, oldest_held timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT 200, NULL::text,
	    (SELECT count(*)::int FROM (SELECT 1 FROM d.send_q q
	        WHERE q.lease IS NULL AND q.due_at <= clock_timestamp()
	        LIMIT 100000) z),
	    (SELECT count(*)::int FROM d.send_q q WHERE q.lease IS NOT NULL),
	    (SELECT count(*)::int FROM (SELECT 1 FROM d.state s
	        WHERE s.stays = 9 LIMIT 100000) z),
	    (SELECT count(*)::int FROM (SELECT 1 FROM d.state s
	        WHERE s.stays = 11 LIMIT 100000) z),
	    (SELECT count(*)::int FROM (SELECT 1 FROM d.state s
	        WHERE s.stays = 1 LIMIT 1000000) z),
	    (SELECT min(q.due_at) FROM d.send_q q WHERE q.lease IS NULL
	        AND q.due_at <= clock_timestamp()),
	    (SELECT s.changed_at FROM d.state s WHERE s.stays = 1
	        ORDER BY s.hold_until LIMIT 1);
END $$;

RESET ROLE;
SET LOCAL ROLE p_relay;
GRANT EXECUTE ON FUNCTION api.claim_due_1, api.fetch_1, api.fetch_body_1,
	api.beat_1, api.attempt_1, api.dot_1, api.done_1, api.dsn_key_1,
	api.release_lease_1,
	api.integrity_1, api.sweep_1, api.queue_stats_1, api.ways_changed_1
	TO l_worker;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_relay;
