-- SPDX-License-Identifier: ISC
-- 0016_sets.sql - the worker's calls for many leases at once (decision 0047).
-- Each does in one transaction what fetch_1, attempt_1, dot_1, done_1 and
-- release_lease_1 do for what is plain: the lease is alive, the gate would say go, nothing waits
-- for a lock. It answers with the numbers of the leases it did that for; what
-- is not among them was not touched, and the worker asks for that alone.
SET LOCAL ROLE p_owner;

-- The ends of a set's ids: every statement names them, so that it begins with
-- the week it needs instead of all there are. What is named *_at is there once
-- more for each week, with the ends of the week in place of `lo, hi`
-- (d.week_make): a plan that does not know the ids begins, for all it locks or
-- changes, with every week there is (decision 0127). `week` is what that of
-- these ids has behind its name; nothing where they are of more than one.
CREATE FUNCTION d.ends(mids uuid[], OUT lo uuid, OUT hi uuid, OUT week text)
	LANGUAGE plpgsql STABLE AS $$
DECLARE
	m uuid;
	day int;
BEGIN
	FOREACH m IN ARRAY coalesce(mids, '{}') LOOP
		lo := least(lo, m);
		hi := greatest(hi, m);
	END LOOP;
	day := d.uuid_ms(lo) / 86400000 + 3;
	week := '';
	IF day / 7 = (d.uuid_ms(hi) / 86400000 + 3) / 7 THEN
		week := to_char(date '1969-12-29' + day / 7 * 7, '_YYYYMMDD');
		IF to_regproc('d.dots_at' || week) IS NULL THEN
			week := '';
		END IF;
	END IF;
END $$;

-- These leases, by number, are alive: their messages may be read in this call.
CREATE FUNCTION d.alive(nums int[], ids uuid[], whose text) RETURNS int[]
	LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('postern.msg', coalesce(ids::text, ''), true),
	    set_config('postern.actor', 'worker:' || whose, true);
	RETURN coalesce(nums, '{}');
END $$;

-- State rows are locked before queue rows, and what another holds is left out,
-- so that nothing here waits in a circle.
CREATE FUNCTION d.leased_at(ts bigint[], mids uuid[], doms text[],
	leases uuid[], lo uuid, hi uuid) RETURNS int[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	alive int[];
	ids uuid[];
	whose text;
BEGIN
	WITH x AS MATERIALIZED (SELECT * FROM unnest(ts, mids, doms, leases)
	    WITH ORDINALITY x(t, mid, dom, lease, i)),
	s AS MATERIALIZED (SELECT x.*, y.version, y.round FROM x JOIN d.state y
	    ON y.message_id = x.mid AND y.tenant_id = x.t
	    WHERE d.within(y.message_id, lo, hi) AND y.state = 7
	    FOR UPDATE OF y SKIP LOCKED),
	q AS MATERIALIZED (SELECT s.i, s.mid, y.worker FROM s JOIN d.send_q y
	    ON y.message_id = s.mid AND y.tenant_id = s.t AND y.domain = s.dom
	    WHERE y.lease = s.lease AND y.lease_until > clock_timestamp()
	    AND y.version = s.version AND y.round = s.round
	    FOR UPDATE OF y SKIP LOCKED)
	SELECT array_agg(q.i), array_agg(q.mid), min(q.worker) INTO alive, ids,
	    whose FROM q WHERE q.worker = (SELECT min(z.worker) FROM q z);
	RETURN d.alive(alive, ids, whose);
END $$;

-- Those of `free` that may leave now, by number; what is said here commits
-- before the dot. `boxes`: the inboxes that were locked for them.
CREATE FUNCTION d.dots_at(ts bigint[], mids uuid[], doms text[], leases uuid[],
	lo uuid, hi uuid, ixs text[], mxs text[], tlss text[], boxes bigint[],
	free int[]) RETURNS int[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	alive int[];
	now_at timestamptz;
	going int[];
	begun boolean;
BEGIN
	alive := d.leased_at(ts, mids, doms, leases, lo, hi);
	-- A new look: nothing of an inbox that is locked changes any more.
	now_at := clock_timestamp();
	WITH x AS MATERIALIZED (SELECT y.i, y.t, y.mid, y.dom, y.ix,
	    (y.q).inbox_id AS box, (y.q).round AS r, (y.q).worker AS w, z.*
	    FROM d.gate_set(ts, mids, doms, ixs, mxs, alive, lo, hi,
	        '{0,1,4}', '{2}', now_at) y
	    CROSS JOIN LATERAL (SELECT max(a.n) AS n,
	        bool_or(a.ended_at IS NULL) AS open FROM d.attempt a
	        WHERE a.message_id = y.mid AND d.within(a.message_id, lo, hi)
	        AND a.tenant_id = y.t AND a.domain = y.dom) z
	    WHERE y.goes AND y.i = ANY (free)
	    -- Not `=`: an index of inboxes is no way to a message's row.
	    AND (y.q).inbox_id IS NOT DISTINCT FROM boxes[y.i]),
	u AS (UPDATE d.delivery v SET status = 2, was = v.status,
	    changed_at = clock_timestamp() FROM x
	    WHERE v.message_id = x.mid AND d.within(v.message_id, lo, hi)
	    AND v.tenant_id = x.t AND v.domain = x.dom AND v.ix = ANY (x.ix)),
	a AS (INSERT INTO d.attempt (message_id, tenant_id, inbox_id, domain,
	    n, round, worker, mx, tls, dot_at)
	    SELECT x.mid, x.t, x.box, x.dom, coalesce(x.n, 0) + 1, x.r, x.w,
	    left(mxs[x.i], 255), left(tlss[x.i], 100), clock_timestamp()
	    FROM x WHERE x.open IS NOT TRUE)
	SELECT array_agg(x.i), bool_or(x.open) INTO going, begun FROM x;
	IF begun THEN
		UPDATE d.attempt a SET dot_at = clock_timestamp()
		    FROM unnest(going) x(i) WHERE a.message_id = mids[x.i]
		    AND d.within(a.message_id, lo, hi) AND a.tenant_id = ts[x.i]
		    AND a.domain = doms[x.i] AND a.ended_at IS NULL
		    AND (a.dot_at IS NULL OR a.dot_at < now_at);
	END IF;
	RETURN going;
END $$;

-- Those whose results are stored, by number.
CREATE FUNCTION d.sents_at(ts bigint[], mids uuid[], doms text[],
	leases uuid[], lo uuid, hi uuid, ixs text[], codes int[], enhs text[],
	replies text[]) RETURNS int[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	alive int[];
	sent int[];
BEGIN
	alive := d.leased_at(ts, mids, doms, leases, lo, hi);
	WITH x AS MATERIALIZED (SELECT x.*, x.ixs::smallint[] AS ix
	    FROM unnest(ts, mids, doms, ixs, codes, enhs, replies)
	        WITH ORDINALITY x(t, mid, dom, ixs, c, e, p, i)
	    WHERE x.i = ANY (alive)),
	g AS MATERIALIZED (SELECT x.* FROM x WHERE cardinality(x.ix) = (SELECT
	    CASE WHEN bool_and(CASE WHEN v.ix = ANY (x.ix) THEN v.status = 2
	        ELSE v.status NOT IN (0, 1, 2, 4) END)
	    THEN count(*) FILTER (WHERE v.ix = ANY (x.ix)) END
	    FROM d.delivery v WHERE v.message_id = x.mid
	    AND d.within(v.message_id, lo, hi)
	    AND v.tenant_id = x.t AND v.domain = x.dom)),
	u AS (UPDATE d.delivery v SET status = 3, was = 2,
	    changed_at = clock_timestamp(), attempts = v.attempts + 1,
	    reply_code = g.c, enhanced = left(g.e, 16), reply = left(g.p, 1024),
	    next_attempt_at = NULL FROM g WHERE v.message_id = g.mid
	    AND d.within(v.message_id, lo, hi) AND v.tenant_id = g.t
	    AND v.domain = g.dom AND v.ix = ANY (g.ix)),
	a AS (UPDATE d.attempt a SET ended_at = clock_timestamp(),
	    result = left(g.p, 300) FROM g WHERE a.message_id = g.mid
	    AND d.within(a.message_id, lo, hi) AND a.tenant_id = g.t
	    AND a.domain = g.dom AND a.ended_at IS NULL),
	q AS (DELETE FROM d.send_q q USING g WHERE q.message_id = g.mid
	    AND q.tenant_id = g.t AND q.domain = g.dom)
	SELECT coalesce(array_agg(g.i), '{}') INTO sent FROM g;
	-- As d.state_derive: while another row of it is leased, it is being sent.
	-- The detail is done_1's, character for character; json_build_object over
	-- arrays is a hundredth of a delivery (decision 0122).
	WITH x AS MATERIALIZED (SELECT x.t, x.mid, x.dom,
	    coalesce(x.c::text, 'null') AS c, x.p, x.i,
	    array_to_string(x.ix::smallint[], ',') AS list,
	    cardinality(x.ix::smallint[]) AS n
	    FROM unnest(ts, mids, doms, ixs, codes, replies)
	        WITH ORDINALITY x(t, mid, dom, ix, c, p, i)
	    WHERE x.i = ANY (sent)),
	m AS MATERIALIZED (SELECT x.mid, x.t, min(x.p) AS p FROM x GROUP BY 1, 2),
	z AS MATERIALIZED (SELECT m.mid, m.t, m.p, CASE WHEN EXISTS (SELECT 1
	    FROM d.send_q q WHERE q.message_id = m.mid AND q.tenant_id = m.t
	    AND q.lease IS NOT NULL) THEN 7::smallint ELSE (SELECT
	    d.adds_up(bool_or(v.status IN (1, 2)), bool_or(v.status = 6),
	        bool_or(v.status IN (0, 4)), bool_or(v.status IN (5, 7)),
	        bool_or(v.status = 3)) FROM d.delivery v
	    WHERE v.message_id = m.mid AND d.within(v.message_id, lo, hi)
	    AND v.tenant_id = m.t) END AS st FROM m),
	u AS (UPDATE d.state y SET state = z.st, detail = left(z.p, 300),
	    was = y.state, changed_at = clock_timestamp() FROM z
	    WHERE y.message_id = z.mid AND d.within(y.message_id, lo, hi)
	    AND y.tenant_id = z.t AND y.state <> z.st),
	a AS (INSERT INTO d.audit (tenant_id, actor, event, message_id, detail)
	    SELECT x.t, d.cur_actor(), 'message.result', x.mid,
	    concat('{"domain" : ', to_json(x.dom), ', "ix" : [', x.list,
	    '], "result" : [3', repeat(',3', x.n - 1), '], "code" : [', x.c,
	    repeat(',' || x.c, x.n - 1), '], "state" : ', z.st, '}')
	    FROM x JOIN z ON z.mid = x.mid AND z.t = x.t)
	SELECT array_agg(x.i::int) INTO sent FROM x;
	RETURN sent;
END $$;

GRANT EXECUTE ON FUNCTION d.ends, d.alive, d.leased_at, d.dots_at,
	d.sents_at TO p_relay;
GRANT CREATE ON SCHEMA d, api TO p_relay;

SET LOCAL ROLE p_relay;

-- The leases that are alive, with what is theirs, and whether the gate lets
-- them go on (d.gate). `due`: the states of the recipients that are named, one
-- at least and none twice, or, where none are, of any; not `never`: those of no
-- other. Without names only where all go together. `hosts`: where to, which
-- must be where it may be already (0102); NULL: that is not asked yet. Inlined,
-- like d.gate_why: one look at each row, and of the rest of it only what the
-- call asks for (decision 0122).
CREATE FUNCTION d.gate_set(ts bigint[], mids uuid[], doms text[], ixs text[],
	hosts text[], alive int[], lo uuid, hi uuid, due smallint[],
	never smallint[], now_at timestamptz) RETURNS TABLE (i int, t bigint,
	mid uuid, dom text, ix smallint[], q d.send_q, m d.message, z d.release,
	b d.inbox, goes boolean, due_ix text, same_mx text)
	LANGUAGE sql STABLE AS $$
	SELECT x.i, x.t, x.mid, x.dom, x.ix, q, m, z, b, (w.clear
	    AND (x.ix IS NOT NULL OR NOT b.one_click)
	    AND d.gate_why(m, z, q, b, n, EXISTS (SELECT 1 FROM d.global_pause p
	        WHERE p.paused_at IS NOT NULL), now_at, 'o') IS NULL) IS TRUE,
	    w.due_ix, w.same_mx
	FROM (SELECT y.i::int, y.t, y.mid, y.dom, y.host, y.ix::smallint[] AS ix
	    FROM unnest(ts, mids, doms, ixs, hosts) WITH ORDINALITY
	        y(t, mid, dom, ix, host, i)
	    WHERE y.i = ANY (alive) OFFSET 0) x
	JOIN d.send_q q ON q.message_id = x.mid AND q.tenant_id = x.t
	    AND q.domain = x.dom
	JOIN d.release z ON z.message_id = x.mid AND z.tenant_id = x.t
	    AND d.within(z.message_id, lo, hi) AND z.version = q.version
	    AND z.round = q.round AND z.digest = q.digest
	JOIN d.message m ON m.message_id = x.mid AND m.tenant_id = x.t
	    AND d.within(m.message_id, lo, hi) AND m.version = z.version
	    AND m.digest = z.digest
	JOIN d.inbox b ON b.tenant_id = x.t AND b.inbox_id = q.inbox_id
	JOIN d.tenant n ON n.tenant_id = x.t
	CROSS JOIN LATERAL (SELECT
	    CASE WHEN x.ix IS NULL THEN bool_or(v.status = ANY (due))
	    ELSE cardinality(x.ix) > 0 AND cardinality(x.ix) = count(*)
	        FILTER (WHERE v.ix = ANY (x.ix) AND v.status = ANY (due)) END
	    AND bool_and(v.status <> ALL (never)
	        OR coalesce(v.ix = ANY (x.ix), false))
	    AND bool_and(v.unsure_mx IS NULL OR hosts IS NULL
	        OR v.ix <> ALL (x.ix)
	        OR d.mx_canon(v.unsure_mx) IS NOT DISTINCT FROM d.mx_canon(x.host))
	    AND bool_and(NOT EXISTS (SELECT 1 FROM d.list_entry e
	        WHERE e.entry IN (v.canon, '@' || v.domain)
	        AND e.ended_at IS NULL AND (e.expires_at IS NULL
	        OR e.expires_at > now_at) AND (e.tenant_id = 0
	        OR e.tenant_id = v.tenant_id
	        AND e.inbox_id IN (0, v.inbox_id)))) AS clear,
	    string_agg(v.ix::text, ',' ORDER BY v.attempts, v.ix)
	        FILTER (WHERE v.status = ANY (due)) AS due_ix,
	    string_agg(v.ix::text || ' ' || v.unsure_mx, E'\n' ORDER BY v.ix)
	        FILTER (WHERE v.status = ANY (due)) AS same_mx
	    FROM d.delivery v WHERE v.message_id = x.mid
	    AND d.within(v.message_id, lo, hi)
	    AND v.tenant_id = x.t AND v.domain = x.dom) w
$$;

-- What fetch_1 says of each, and the body of those whose only piece is small.
-- `passed`: the gate lets all of due_ix go on now, as attempts_1 would have it.
-- Nothing is noted of that; the dot says who is sent to. Not for those who each
-- get a link of their own.
CREATE FUNCTION api.fetches_1(ts bigint[], mids uuid[], doms text[],
	leases uuid[], small int) RETURNS TABLE (status int, code text, i int,
	deployment bytea, epoch int,
	tenant_id bigint, inbox_id bigint, version smallint, round smallint,
	test boolean, digest bytea, mail_from text, rcpts text, params text,
	size bigint, chunks int, body_tag bytea, send_at bigint,
	not_after bigint, release_by text, release_mode smallint,
	release_mode_epoch int, expiry bigint, relay_box bytea, tag bytea,
	due_ix text, attempts int, now_us bigint, give_up_at timestamptz,
	same_mx text, routed boolean, released_us bigint,
	proofs bytea, one_click boolean, data bytea, passed boolean)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.msg = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	alive int[];
	ids uuid[];
	whose text;
	ends record;
	lo uuid;
	hi uuid;
	now_at timestamptz := clock_timestamp();
BEGIN
	ends := d.ends(mids);
	lo := ends.lo;
	hi := ends.hi;
	SELECT array_agg(x.i), array_agg(x.mid), min(q.worker) INTO alive, ids,
	    whose FROM unnest(ts, mids, doms, leases)
	    WITH ORDINALITY x(t, mid, dom, lease, i)
	    JOIN d.send_q q ON q.message_id = x.mid AND q.tenant_id = x.t
	        AND q.domain = x.dom
	    JOIN d.state y ON y.message_id = x.mid AND y.tenant_id = x.t
	    WHERE q.lease = x.lease AND q.lease_until > clock_timestamp()
	    AND d.within(y.message_id, lo, hi) AND y.state = 7
	    AND y.version = q.version AND y.round = q.round;
	alive := d.alive(alive, ids, whose);
	RETURN QUERY SELECT 200, NULL::text, x.i,
	    (SELECT y.deployment FROM d.deployment y WHERE y.one),
	    (SELECT y.epoch FROM d.deployment y WHERE y.one), x.t,
	    (x.q).inbox_id, (x.m).version, (x.z).round, (x.m).test, (x.m).digest,
	    (x.m).mail_from, array_to_string((x.m).rcpt, E'\n'), (x.m).params,
	    (x.m).size, (x.m).chunks, (x.m).body_tag, (x.m).send_at,
	    (x.m).not_after, (x.z).by_what::text, (x.z).mode, (x.z).mode_epoch,
	    (x.z).expiry, (x.z).relay_box, (x.z).tag, x.due_ix, (x.q).attempts,
	    d.us(clock_timestamp()), (x.q).give_up_at, x.same_mx,
	    EXISTS (SELECT 1 FROM d.route r WHERE r.tenant_id IN (0, x.t)
	        AND r.ended_at IS NULL), d.us((x.z).at),
	    (SELECT string_agg(int4send(octet_length(p.packed)) || p.packed, '')
	        FROM d.decision_proof p WHERE p.message_id = x.mid
	        AND p.tenant_id = x.t AND p.version = (x.q).version
	        AND p.round = (x.q).round), (x.b).one_click,
	    (SELECT o.data FROM d.body o WHERE o.message_id = x.mid
	        AND d.within(o.message_id, lo, hi)
	        AND o.tenant_id = x.t AND o.version = (x.m).version
	        AND o.inbox_id = (x.m).inbox_id AND o.seq = 0
	        AND (x.m).chunks = 1 AND (x.m).size <= small), x.goes
	    FROM d.gate_set(ts, mids, doms, NULL, NULL, alive, lo, hi,
	        '{0,1,4}', '{2}', now_at) x;
END $$;

-- Before MAIL FROM: the recipients `ix` ('{1,2}') of each are being sent now,
-- to this host.
CREATE FUNCTION api.attempts_1(ts bigint[], mids uuid[], doms text[],
	leases uuid[], mxs text[], tlss text[], ixs text[])
	RETURNS TABLE (status int, code text, i int)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.msg = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	alive int[];
	ends record;
	lo uuid;
	hi uuid;
	now_at timestamptz := clock_timestamp();
BEGIN
	PERFORM set_config('synchronous_commit', 'off', true);
	ends := d.ends(mids);
	lo := ends.lo;
	hi := ends.hi;
	alive := d.leased_at(ts, mids, doms, leases, lo, hi);
	RETURN QUERY WITH x AS MATERIALIZED (SELECT y.i, y.t, y.mid, y.dom, y.ix,
	    (y.q).inbox_id AS box, (y.q).round AS r, (y.q).worker AS w
	    FROM d.gate_set(ts, mids, doms, attempts_1.ixs, NULL, alive, lo, hi,
	        '{0,1,4}', '{1,2}', now_at) y
	    WHERE y.goes AND NOT EXISTS (SELECT 1 FROM d.attempt a
	        WHERE a.message_id = y.mid AND d.within(a.message_id, lo, hi)
	        AND a.tenant_id = y.t AND a.domain = y.dom
	        AND a.ended_at IS NULL)),
	u AS (UPDATE d.delivery v SET status = 1 FROM x
	    WHERE v.message_id = x.mid AND d.within(v.message_id, lo, hi)
	    AND v.tenant_id = x.t AND v.domain = x.dom AND v.ix = ANY (x.ix)
	    AND v.status <> 1),
	a AS (INSERT INTO d.attempt (message_id, tenant_id, inbox_id, domain, n,
	    round, worker, mx, tls)
	    SELECT x.mid, x.t, x.box, x.dom, coalesce((SELECT max(z.n)
	    FROM d.attempt z WHERE z.message_id = x.mid AND z.tenant_id = x.t
	    AND d.within(z.message_id, lo, hi)
	    AND z.domain = x.dom), 0) + 1, x.r, x.w, left(mxs[x.i], 255),
	    left(tlss[x.i], 100) FROM x)
	SELECT 200, NULL::text, x.i FROM x;
END $$;

-- The last gate: what commits here is what may leave, to this host. An attempt
-- that was begun goes on, else it begins here. Inboxes are locked first, as
-- everywhere, but none is waited for: those that fetches_1 told, which must be
-- those of the leases (d.dots_at).
CREATE FUNCTION api.dots_1(ts bigint[], mids uuid[], doms text[], leases uuid[],
	ixs text[], mxs text[], tlss text[], boxes bigint[])
	RETURNS TABLE (status int, code text, i int)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.msg = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	free int[];
	ends record;
	done int[];
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	LOCK TABLE d.stop IN ROW SHARE MODE;
	WITH x AS MATERIALIZED (SELECT x.* FROM unnest(ts, boxes)
	    WITH ORDINALITY x(tenant_id, inbox_id, i)),
	b AS MATERIALIZED (SELECT b.tenant_id, b.inbox_id
	    FROM (SELECT DISTINCT x.tenant_id, x.inbox_id FROM x) y
	    JOIN d.inbox b ON b.tenant_id = y.tenant_id
	        AND b.inbox_id = y.inbox_id
	    FOR NO KEY UPDATE OF b SKIP LOCKED)
	SELECT array_agg(x.i) INTO free FROM x JOIN b
	    ON b.tenant_id = x.tenant_id AND b.inbox_id = x.inbox_id;
	ends := d.ends(mids);
	EXECUTE format('SELECT d.dots_at%s($1, $2, $3, $4, $5, $6, $7, $8, $9, '
	    '$10, $11)', ends.week) INTO done
	    USING ts, mids, doms, leases, ends.lo, ends.hi, ixs, mxs, tlss,
	    boxes, free;
	RETURN QUERY SELECT 200, NULL::text, y FROM unnest(done) y;
END $$;

-- All that was asked of the host has been taken by it, with one reply, and
-- nothing of the domain is left.
CREATE FUNCTION api.sents_1(ts bigint[], mids uuid[], doms text[],
	leases uuid[], ixs text[], codes int[], enhs text[], replies text[])
	RETURNS TABLE (status int, code text, i int)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.msg = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	ends record;
	done int[];
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	ends := d.ends(mids);
	EXECUTE format('SELECT d.sents_at%s($1, $2, $3, $4, $5, $6, $7, $8, $9, '
	    '$10)', ends.week) INTO done
	    USING ts, mids, doms, leases, ends.lo, ends.hi, ixs, codes, enhs, replies;
	RETURN QUERY SELECT 200, NULL::text, y FROM unnest(done) y;
END $$;

-- Nothing was begun with these: they are due again after so many seconds.
CREATE FUNCTION api.releases_1(ts bigint[], mids uuid[], doms text[],
	leases uuid[], secs int[]) RETURNS TABLE (status int, code text, i int)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.msg = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	alive int[];
	ends record;
	lo uuid;
	hi uuid;
	now_at timestamptz;
	done int[];
BEGIN
	-- As of a claim: what a crash forgets is a lease that runs out.
	PERFORM set_config('synchronous_commit', 'off', true);
	ends := d.ends(mids);
	lo := ends.lo;
	hi := ends.hi;
	EXECUTE format('SELECT d.leased_at%s($1, $2, $3, $4, $5, $6)', ends.week)
	    INTO alive USING ts, mids, doms, leases, lo, hi;
	now_at := clock_timestamp();
	WITH x AS MATERIALIZED (SELECT x.*, now_at + least(greatest(coalesce(x.s,
	    0), 0), 86400) * interval '1 second' AS due
	    FROM unnest(ts, mids, doms, secs) WITH ORDINALITY x(t, mid, dom, s, i)
	    WHERE x.i = ANY (alive)),
	g AS MATERIALIZED (SELECT x.* FROM x JOIN d.send_q q
	    ON q.message_id = x.mid AND q.tenant_id = x.t AND q.domain = x.dom
	    WHERE q.aside = 0 AND x.due < q.give_up_at
	    AND (SELECT bool_or(v.status IN (0, 4))
	        AND bool_and(v.status NOT IN (1, 2)) FROM d.delivery v
	        WHERE v.message_id = x.mid AND d.within(v.message_id, lo, hi)
	        AND v.tenant_id = x.t AND v.domain = x.dom)
	    AND NOT EXISTS (SELECT 1 FROM d.attempt a WHERE a.message_id = x.mid
	        AND d.within(a.message_id, lo, hi) AND a.tenant_id = x.t
	        AND a.domain = x.dom AND a.ended_at IS NULL)),
	u AS (UPDATE d.send_q q SET lease = NULL, lease_until = NULL,
	    worker = NULL, due_at = g.due, vt = greatest(q.vt,
	    extract(epoch FROM g.due)),
	    aside = CASE WHEN g.due > now_at THEN 3 ELSE 0 END FROM g
	    WHERE q.message_id = g.mid AND q.tenant_id = g.t
	    AND q.domain = g.dom)
	SELECT array_agg(g.i::int) INTO done FROM g;
	-- As d.state_derive: while another row of it is leased, it is being sent.
	WITH m AS MATERIALIZED (SELECT DISTINCT mids[y] AS mid, ts[y] AS t
	    FROM unnest(done) y),
	z AS MATERIALIZED (SELECT m.mid, m.t, (SELECT
	    d.adds_up(bool_or(v.status IN (1, 2)), bool_or(v.status = 6),
	        bool_or(v.status IN (0, 4)), bool_or(v.status IN (5, 7)),
	        bool_or(v.status = 3)) FROM d.delivery v
	    WHERE v.message_id = m.mid AND d.within(v.message_id, lo, hi)
	    AND v.tenant_id = m.t) AS st FROM m WHERE NOT EXISTS (SELECT 1
	    FROM d.send_q q WHERE q.message_id = m.mid AND q.tenant_id = m.t
	    AND q.lease IS NOT NULL))
	UPDATE d.state y SET state = z.st, detail = 'released', was = y.state,
	    changed_at = clock_timestamp() FROM z
	    WHERE y.message_id = z.mid AND d.within(y.message_id, lo, hi)
	    AND y.tenant_id = z.t AND y.state <> z.st;
	RETURN QUERY SELECT 200, NULL::text, y FROM unnest(done) y;
END $$;

RESET ROLE;
SET LOCAL ROLE p_relay;
GRANT EXECUTE ON FUNCTION api.fetches_1, api.attempts_1, api.dots_1,
	api.sents_1, api.releases_1 TO l_worker;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_relay;
