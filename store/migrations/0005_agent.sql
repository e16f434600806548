-- SPDX-License-Identifier: ISC
-- 0005_agent.sql - what agents read and manage: their own inbox only, a send
-- key only what it sent itself. A foreign id is 404.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_submit, p_read;
GRANT EXECUTE ON FUNCTION d.agent, d.agent_may, d.note TO p_read;
-- The first message of a thread has its number.
CREATE INDEX message_thread ON d.message (thread_id, tenant_id, inbox_id)
	WHERE thread_id <> message_id;
CREATE INDEX event_inbox ON d.event (tenant_id, inbox_id, at);

SET LOCAL ROLE p_read;

CREATE FUNCTION api.my_list_1(t bigint, k bigint, a bytea, after uuid,
	lim int, states text, since timestamptz, until timestamptz, label text)
	RETURNS TABLE (status int, code text, message_id uuid, thread_id uuid, version smallint, round smallint,
	state smallint, digest bytea, mail_from text, rcpts text, rcpt_kind text,
	subject text, header_from text, labels text, size bigint, chunks int,
	rfc_message_id text, in_reply_to text, refs text, reasons text,
	hold_until timestamptz, verdict text, category text, note text, hint text,
	edited boolean, decided_at timestamptz, send_at bigint, not_after bigint,
	test boolean, attachments int, key_id bigint, created_at timestamptz,
	updated_at timestamptz, doubt boolean)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	oldest uuid := d.uuid_floor(coalesce(since, to_timestamp(0)));
	hi uuid := coalesce(after, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
	lo uuid;
	n int := 0;
	more int := least(greatest(lim, 1), 101);
BEGIN
	c := d.agent(t, k, a);
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	-- The month before first: to plan over all weeks takes longer than the
	-- rest, and most are asked for what came last.
	lo := d.uuid_floor(greatest(since, CASE WHEN after IS NULL
	    THEN least(until, clock_timestamp())
	    ELSE to_timestamp(d.uuid_ms(after) / 1000.0) END
	    - interval '28 days'));
	LOOP
		RETURN QUERY SELECT 200, NULL::text, m.message_id, m.thread_id, m.version,
		    s.round, s.state, m.digest, m.mail_from,
		    array_to_string(m.rcpt, E'\n'), m.rcpt_kind, m.subject,
		    m.header_from, coalesce(b.labels, m.labels), m.size, m.chunks, m.rfc_message_id,
		    m.in_reply_to, m.refs, m.reasons,
		    CASE WHEN s.state = 1 THEN s.hold_until END, v.verdict::text,
		    v.category, v.note, v.hint, m.version > 1, v.at, m.send_at,
		    m.not_after, m.test, m.attachments, m.key_id, m.created_at,
		    s.changed_at, d.may_be_out(s.state, s.round, s.message_id, t)
		    FROM d.state s
		    JOIN d.message m ON m.message_id = s.message_id
		        AND m.tenant_id = s.tenant_id AND m.version = s.version
		        AND m.message_id < hi AND m.message_id >= lo
		    LEFT JOIN d.message_label b ON b.message_id = m.message_id
		        AND b.tenant_id = m.tenant_id
		    LEFT JOIN LATERAL (SELECT y.verdict, y.category, y.note, y.hint,
		        y.at FROM d.decision y WHERE y.message_id = m.message_id
		        AND y.message_id < hi AND y.message_id >= lo
		        AND y.tenant_id = m.tenant_id AND y.version = m.version
		        AND y.round = s.round ORDER BY y.at DESC LIMIT 1) v ON true
		    WHERE s.tenant_id = t AND s.inbox_id = c.inbox_id
		    AND s.message_id < hi AND s.message_id >= lo
		    AND (until IS NULL OR s.message_id < d.uuid_floor(until))
		    AND (states IS NULL OR s.state::text
		        = ANY (string_to_array(states, ',')))
		    AND (label IS NULL OR string_to_array(label, E'\n')
		        <@ string_to_array(coalesce(b.labels, m.labels), E'\n'))
		    AND (c.scope <> 's' OR m.key_id IN (SELECT z.key_id
		        FROM d.credential z WHERE z.tenant_id = t
		        AND z.inbox_id = c.inbox_id AND z.lineage = c.lineage))
		    ORDER BY s.message_id DESC LIMIT more;
		GET DIAGNOSTICS n = ROW_COUNT;
		more := more - n;
		EXIT WHEN more = 0 OR lo <= oldest OR NOT EXISTS (SELECT 1
		    FROM d.state s WHERE s.tenant_id = t
		    AND s.inbox_id = c.inbox_id AND s.message_id < lo
		    AND s.message_id >= oldest);
		hi := lo;
		lo := oldest;
	END LOOP;
END $$;

CREATE FUNCTION api.my_get_1(t bigint, k bigint, a bytea, mid uuid)
	RETURNS TABLE (status int, code text, message_id uuid, thread_id uuid, version smallint, round smallint,
	state smallint, digest bytea, mail_from text, rcpts text, rcpt_kind text,
	subject text, header_from text, labels text, size bigint, chunks int,
	rfc_message_id text, in_reply_to text, refs text, reasons text,
	hold_until timestamptz, verdict text, category text, note text, hint text,
	edited boolean, decided_at timestamptz, send_at bigint, not_after bigint,
	test boolean, attachments int, key_id bigint, created_at timestamptz,
	updated_at timestamptz, doubt boolean, inbox_epoch int, inbox_box bytea, wrapped bytea,
	inbox_pub bytea, tenant_id bigint, inbox_id bigint)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent(t, k, a);
	IF c.status = 200 THEN
		RETURN QUERY SELECT 200, NULL::text, m.message_id, m.thread_id, m.version,
	    s.round, s.state, m.digest, m.mail_from,
	    array_to_string(m.rcpt, E'\n'), m.rcpt_kind, m.subject,
	    m.header_from, coalesce(b.labels, m.labels), m.size, m.chunks, m.rfc_message_id,
	    m.in_reply_to, m.refs, m.reasons,
	    CASE WHEN s.state = 1 THEN s.hold_until END, v.verdict::text,
	    v.category, v.note, v.hint, m.version > 1, v.at, m.send_at,
	    m.not_after, m.test, m.attachments, m.key_id, m.created_at,
	    s.changed_at, d.may_be_out(s.state, s.round, s.message_id, t),
		    m.inbox_epoch, m.inbox_box, w.wrapped, ik.pub, m.tenant_id,
		    m.inbox_id
		    FROM d.state s
		    JOIN d.message m ON m.message_id = s.message_id
		        AND m.tenant_id = s.tenant_id AND m.version = s.version
		    LEFT JOIN d.message_label b ON b.message_id = m.message_id
	        AND b.tenant_id = m.tenant_id
	    LEFT JOIN LATERAL (SELECT y.verdict, y.category, y.note, y.hint,
	        y.at FROM d.decision y WHERE y.message_id = mid
	        AND y.tenant_id = m.tenant_id AND y.version = m.version
	        AND y.round = s.round ORDER BY y.at DESC LIMIT 1) v ON true
		    LEFT JOIN d.key_wrap w ON c.scope <> 's' AND w.tenant_id = t
		        AND w.key_id = k AND w.epoch = m.inbox_epoch
		    LEFT JOIN d.inbox_key ik ON ik.tenant_id = t
		        AND ik.inbox_id = m.inbox_id AND ik.epoch = m.inbox_epoch
		    WHERE s.message_id = mid AND s.tenant_id = t
		    AND s.inbox_id = c.inbox_id AND (c.scope <> 's' OR m.key_id IN (SELECT z.key_id
	        FROM d.credential z WHERE z.tenant_id = t
	        AND z.inbox_id = c.inbox_id AND z.lineage = c.lineage));
		IF FOUND THEN
			RETURN;
		END IF;
		c.status := 404;
		c.code := 'not_found';
	END IF;
	SELECT c.status, c.code INTO status, code;
	RETURN NEXT;
END $$;

-- Threads of the inbox, the one with the newest message first. Recipients and
-- labels are those of the newest ten messages of each.
CREATE FUNCTION api.my_threads_1(t bigint, k bigint, a bytea, after uuid,
	lim int) RETURNS TABLE (status int, code text, thread_id uuid,
	last_id uuid, messages bigint, size bigint, subject text, rcpts text,
	labels text, created_at timestamptz, updated_at timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent_may(t, k, a, 'r');
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, l.thread_id, l.message_id, w.n,
	    w.size, w.subject, w.rcpts, w.labels, w.created_at, l.created_at
	    FROM (SELECT m.thread_id, m.message_id, m.created_at FROM d.state s
	        JOIN d.message m ON m.message_id = s.message_id
	            AND m.tenant_id = t AND m.version = s.version
	        WHERE s.tenant_id = t AND s.inbox_id = c.inbox_id
	        AND (after IS NULL OR s.message_id < after)
	        AND NOT EXISTS (SELECT 1 FROM d.message x
	            WHERE x.thread_id = m.thread_id AND x.tenant_id = t
	            AND x.inbox_id = c.inbox_id AND x.thread_id <> x.message_id
	            AND x.message_id > m.message_id)
	        ORDER BY s.message_id DESC LIMIT least(greatest(lim, 1), 100)) l
	    CROSS JOIN LATERAL (SELECT count(*) AS n, sum(y.size)::bigint AS size,
	        min(y.created_at) AS created_at,
	        min(y.subject) FILTER (WHERE y.nth_old = 1) AS subject,
	        string_agg(array_to_string(y.rcpt, E'\n'), E'\n'
	            ORDER BY y.message_id) FILTER (WHERE y.nth <= 10) AS rcpts,
	        string_agg(y.labels, E'\n') FILTER (WHERE y.nth <= 10) AS labels
	        FROM (SELECT z.message_id, z.size, z.created_at, z.subject,
	            z.rcpt, coalesce(b.labels, z.labels) AS labels,
	            row_number() OVER (ORDER BY z.message_id DESC) AS nth,
	            row_number() OVER (ORDER BY z.message_id) AS nth_old
	            FROM d.message z LEFT JOIN d.message_label b
	                ON b.message_id = z.message_id
	                AND b.tenant_id = z.tenant_id
	            WHERE z.tenant_id = t AND z.inbox_id = c.inbox_id
	            AND z.version = 1 AND (z.message_id = l.thread_id
	            OR z.thread_id = l.thread_id
	            AND z.thread_id <> z.message_id)) y) w
	    ORDER BY l.message_id DESC;
END $$;

-- The messages of one thread, oldest first.
CREATE FUNCTION api.my_thread_1(t bigint, k bigint, a bytea, th uuid,
	lim int) RETURNS TABLE (status int, code text, message_id uuid, thread_id uuid, version smallint, round smallint,
	state smallint, digest bytea, mail_from text, rcpts text, rcpt_kind text,
	subject text, header_from text, labels text, size bigint, chunks int,
	rfc_message_id text, in_reply_to text, refs text, reasons text,
	hold_until timestamptz, verdict text, category text, note text, hint text,
	edited boolean, decided_at timestamptz, send_at bigint, not_after bigint,
	test boolean, attachments int, key_id bigint, created_at timestamptz,
	updated_at timestamptz, doubt boolean, total bigint, total_size bigint, last_id uuid)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent_may(t, k, a, 'r');
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, m.message_id, m.thread_id, m.version,
	    s.round, s.state, m.digest, m.mail_from,
	    array_to_string(m.rcpt, E'\n'), m.rcpt_kind, m.subject,
	    m.header_from, coalesce(b.labels, m.labels), m.size, m.chunks, m.rfc_message_id,
	    m.in_reply_to, m.refs, m.reasons,
	    CASE WHEN s.state = 1 THEN s.hold_until END, v.verdict::text,
	    v.category, v.note, v.hint, m.version > 1, v.at, m.send_at,
	    m.not_after, m.test, m.attachments, m.key_id, m.created_at,
	    s.changed_at, d.may_be_out(s.state, s.round, s.message_id, t), n.total, n.size, n.last_id
	    FROM (SELECT y.message_id FROM d.message y
	        WHERE (y.message_id = th OR y.thread_id = th
	            AND y.thread_id <> y.message_id) AND y.tenant_id = t
	        AND y.inbox_id = c.inbox_id AND y.version = 1
	        ORDER BY y.message_id LIMIT least(greatest(lim, 1), 100)) z
	    CROSS JOIN (SELECT count(*) AS total, sum(y.size)::bigint AS size,
	        max(y.message_id::text)::uuid AS last_id FROM d.message y
	        WHERE (y.message_id = th OR y.thread_id = th
	            AND y.thread_id <> y.message_id) AND y.tenant_id = t
	        AND y.inbox_id = c.inbox_id AND y.version = 1) n
	    JOIN d.state s ON s.message_id = z.message_id AND s.tenant_id = t
	    JOIN d.message m ON m.message_id = s.message_id
	        AND m.tenant_id = s.tenant_id AND m.version = s.version
	    LEFT JOIN d.message_label b ON b.message_id = m.message_id
	        AND b.tenant_id = m.tenant_id
	    LEFT JOIN LATERAL (SELECT y.verdict, y.category, y.note, y.hint,
	        y.at FROM d.decision y WHERE y.message_id = m.message_id
	        AND y.tenant_id = m.tenant_id AND y.version = m.version
	        AND y.round = s.round ORDER BY y.at DESC LIMIT 1) v ON true
	    WHERE m.thread_id = th ORDER BY m.message_id;
END $$;

-- What the owner noted of it is not a sandbox's to read.
CREATE FUNCTION api.my_inbox_1(t bigint, k bigint, a bytea)
	RETURNS TABLE (status int, code text, created_at timestamptz,
	display_name text, metadata text, one_click boolean)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent(t, k, a);
	RETURN QUERY SELECT c.status, c.code, x.created_at, x.display_name,
	    CASE WHEN c.kind <> 's' THEN x.metadata END, x.one_click
	    FROM (SELECT 1) one LEFT JOIN d.inbox x
	    ON c.status = 200 AND x.tenant_id = t AND x.inbox_id = c.inbox_id;
END $$;

-- Is the message this key's to see? 200, or why not.
CREATE FUNCTION d.my_message(t bigint, k bigint, a bytea, mid uuid,
	OUT status int, OUT code text, OUT inbox_id bigint, OUT scope "char",
	OUT version smallint, OUT chunks int, OUT created_at timestamptz,
	OUT reasons text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent(t, k, a);
	status := c.status;
	code := c.code;
	IF c.status <> 200 THEN
		RETURN;
	END IF;
	inbox_id := c.inbox_id;
	scope := c.scope;
	SELECT m.version, m.chunks, m.created_at, m.reasons
	    INTO version, chunks, created_at, reasons FROM d.state s
	    JOIN d.message m ON m.message_id = s.message_id
	        AND m.tenant_id = s.tenant_id AND m.version = s.version
	    WHERE s.message_id = mid AND s.tenant_id = t
	    AND s.inbox_id = c.inbox_id AND (c.scope <> 's' OR m.key_id IN (SELECT z.key_id
	        FROM d.credential z WHERE z.tenant_id = t
	        AND z.inbox_id = c.inbox_id AND z.lineage = c.lineage));
	IF NOT FOUND THEN
		status := 404;
		code := 'not_found';
	END IF;
END $$;

CREATE FUNCTION api.my_recipients_1(t bigint, k bigint, a bytea, mid uuid)
	RETURNS TABLE (status int, code text, ix int, address text, kind text,
	delivery smallint, reply_code int, enhanced text, reply text,
	attempts int, next_attempt_at timestamptz, updated_at timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.my_message(t, k, a, mid);
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, x.ix::int, x.address,
	    substr(m.rcpt_kind, x.ix::int, 1), y.status, y.reply_code,
	    y.enhanced::text, y.reply::text, coalesce(y.attempts, 0),
	    y.next_attempt_at,
	    y.changed_at
	    FROM d.message m
	    CROSS JOIN unnest(m.rcpt) WITH ORDINALITY x(address, ix)
	    LEFT JOIN d.delivery y ON y.message_id = mid AND y.tenant_id = t
	        AND y.ix = x.ix
	    WHERE m.message_id = mid AND m.tenant_id = t
	    AND m.version = c.version ORDER BY x.ix;
END $$;

CREATE FUNCTION api.my_body_1(t bigint, k bigint, a bytea, mid uuid,
	from_seq int, lim int) RETURNS TABLE (status int, code text, seq int,
	data bytea) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.my_message(t, k, a, mid);
	IF c.status = 200 AND c.scope = 's' THEN
		c.status := 403;
		c.code := 'missing_permission';
	END IF;
	IF c.status <> 200 THEN
		RETURN QUERY SELECT c.status, c.code, NULL::int, NULL::bytea;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, b.seq, b.data FROM d.body b
	    WHERE b.message_id = mid AND b.tenant_id = t
	    AND b.version = c.version AND b.inbox_id = c.inbox_id
	    AND b.seq >= from_seq AND b.seq < c.chunks ORDER BY b.seq
	    LIMIT least(greatest(lim, 1), 16);
END $$;

CREATE FUNCTION api.my_events_1(t bigint, k bigint, a bytea, mid uuid)
	RETURNS TABLE (status int, code text, n int, type text, at timestamptz,
	actor text, state smallint, detail text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.my_message(t, k, a, mid);
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	-- Mail that waited has its first event in its own row.
	RETURN QUERY SELECT 200, NULL::text, 1, 'message.held', c.created_at,
	    'agent', 1::smallint, c.reasons WHERE c.reasons <> ''
	    UNION ALL SELECT 200, NULL::text, e.n, e.type, e.at, e.actor, e.state,
	    CASE WHEN e.actor = 'operator' THEN NULL ELSE e.detail END
	    FROM d.event e WHERE e.message_id = mid AND e.tenant_id = t
	    ORDER BY 3;
END $$;

-- Reports on a message's delivery, oldest first, still sealed, and with them
-- the inbox's own key for who may read.
CREATE FUNCTION api.my_reports_1(t bigint, k bigint, a bytea, mid uuid)
	RETURNS TABLE (status int, code text, kind text, ix text,
	at timestamptz, inbox_epoch int, box bytea, wrapped bytea,
	inbox_pub bytea) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.my_message(t, k, a, mid);
	IF c.status = 200 AND c.scope = 's' THEN
		c.status := 403;
		c.code := 'missing_permission';
	END IF;
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, r.kind::text,
	    array_to_string(r.ix, ','), r.at, r.inbox_epoch, r.box,
	    w.wrapped, y.pub FROM d.dsn r
	    LEFT JOIN d.inbox_key y ON y.tenant_id = t
	        AND y.inbox_id = c.inbox_id AND y.epoch = r.inbox_epoch
	    LEFT JOIN d.key_wrap w ON w.tenant_id = t AND w.key_id = k
	        AND w.inbox_id = c.inbox_id AND w.epoch = r.inbox_epoch
	    WHERE r.message_id = mid AND r.tenant_id = t
	    AND r.inbox_id = c.inbox_id ORDER BY r.at, r.n LIMIT 100;
END $$;

-- What happened in the inbox, in an order in which nothing can appear behind
-- a reader's back: by the transaction that wrote it, and only below the
-- oldest that still runs. A reader shows its place: transaction, time,
-- message and number of the last event it saw; without one it gets the last
-- row alone, which has no message and is the place behind all there is.
CREATE FUNCTION api.my_stream_1(t bigint, k bigint, a bytea, px bigint,
	pat timestamptz, pm uuid, pn int, one uuid, lim int)
	RETURNS TABLE (status int, code text, xid bigint, message_id uuid, n int,
	type text, at timestamptz, actor text, state smallint, detail text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	now_at timestamptz := clock_timestamp();
	edge bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
	top bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
	-- no transaction that writes events takes that long
	since timestamptz := greatest(pat, now_at - interval '8 days')
	    - interval '10 minutes';
BEGIN
	c := d.agent(t, k, a);
	-- Nothing will ever happen to what is not there for this key.
	IF c.status = 200 AND one IS NOT NULL AND NOT EXISTS (SELECT 1
	    FROM d.message m WHERE m.message_id = one AND m.tenant_id = t
	    AND m.version = 1 AND m.inbox_id = c.inbox_id AND (c.scope <> 's'
	    OR m.key_id IN (SELECT z.key_id FROM d.credential z
	        WHERE z.tenant_id = t AND z.inbox_id = c.inbox_id
	        AND z.lineage = c.lineage))) THEN
		c.status := 404;
		c.code := 'not_found';
	END IF;
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF px IS NOT NULL THEN
		RETURN QUERY SELECT 200, NULL::text, y.xid, y.message_id, y.n, y.type,
		    y.at, y.actor, y.state, y.detail FROM (
		    SELECT d.xid_of(e.xmin, top) + coalesce(e.later, 0) AS xid,
		    e.message_id, e.n, e.type,
		    e.at, e.actor, e.state, CASE WHEN e.actor = 'operator' THEN NULL
		    ELSE e.detail END AS detail FROM d.event e
		    WHERE e.tenant_id = t AND e.inbox_id = c.inbox_id
		    AND e.at >= since AND e.message_id >= d.uuid_floor(now_at
		    - interval '45 days')
		    UNION ALL
		    -- Mail that waited has its first event in its own row; an upload
		    -- takes an hour at most.
		    SELECT d.xid_of(m.xmin, top), m.message_id, 1, 'message.held',
		    m.created_at, 'agent', 1::smallint, m.reasons FROM d.state s
		    JOIN d.message m ON m.message_id = s.message_id
		        AND m.tenant_id = t AND m.version = 1
		    WHERE s.tenant_id = t AND s.inbox_id = c.inbox_id
		    AND s.message_id >= d.uuid_floor(since - interval '1 hour')
		    AND m.reasons <> '') y
		    WHERE y.xid < edge AND (y.xid, y.message_id, y.n) > (px, pm, pn)
		    AND (one IS NULL OR y.message_id = one)
		    AND (c.scope <> 's' OR EXISTS (SELECT 1 FROM d.message m
		        WHERE m.message_id = y.message_id AND m.tenant_id = t
		        AND m.key_id IN (SELECT z.key_id FROM d.credential z
		        WHERE z.tenant_id = t AND z.inbox_id = c.inbox_id
		        AND z.lineage = c.lineage)))
		    ORDER BY y.xid, y.message_id, y.n
		    LIMIT least(greatest(lim, 1), 100);
	END IF;
	RETURN QUERY SELECT 200, NULL::text, edge, NULL::uuid, NULL::int,
	    NULL::text, now_at, NULL::text, NULL::smallint, NULL::text;
END $$;

CREATE FUNCTION api.keys_1(t bigint, k bigint, a bytea)
	RETURNS TABLE (status int, code text, key_id bigint, kind text,
	scope text, label text, created_at timestamptz, expires_at timestamptz,
	revoked_at timestamptz, last_used timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent(t, k, a);
	IF c.status = 200 AND c.kind = 's' THEN
		c.status := 403;
		c.code := 'missing_permission';
	END IF;
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	-- Newest first; however many sessions there were, none of the inbox's
	-- own keys that live is left out.
	RETURN QUERY SELECT 200, NULL::text, x.* FROM (SELECT r.key_id,
	    r.kind::text, r.scope::text, r.label, r.created_at, r.expires_at,
	    r.revoked_at, r.last_used FROM d.credential r WHERE r.tenant_id = t
	    AND r.inbox_id = c.inbox_id AND (c.scope = 'f' OR r.key_id = k)
	    ORDER BY r.kind = 's' OR r.revoked_at IS NOT NULL
	    OR coalesce(r.expires_at <= clock_timestamp(), false),
	    r.key_id DESC LIMIT 200) x ORDER BY x.key_id DESC;
END $$;

-- The records of sessions, newest first; of one, or of the inbox, those before
-- `after`. A session sees its own. `counts` is "1:3,8:2", by state.
CREATE FUNCTION api.runs_1(t bigint, k bigint, a bytea, one bigint,
	after bigint, lim int) RETURNS TABLE (status int, code text, key_id bigint, run text,
	sandbox_id text, template text, purpose text, recipients text,
	domains text, max_messages int, attachments boolean, doors text,
	sent int, refused int, started_at timestamptz, expires_at timestamptz,
	ended_at timestamptz, dead boolean, exit_error text, stdout_lines bigint,
	stderr_lines bigint, payload_length bigint, counts text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent(t, k, a);
	IF c.status = 200 AND c.scope = 's' AND one IS NULL THEN
		c.status := 403;
		c.code := 'missing_permission';
	ELSIF c.status = 200 AND c.scope = 's' AND one <> k THEN
		c.status := 404;
		c.code := 'not_found';
	END IF;
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, y.key_id, y.run, y.sandbox_id,
	    y.template, y.purpose, array_to_string(y.recipients, E'\n'),
	    array_to_string(y.domains, E'\n'), y.max_messages, y.attachments,
	    y.doors, y.sent, y.refused, y.started_at, r.expires_at,
	    coalesce(y.ended_at, r.revoked_at, p.revoked_at),
	    r.revoked_at IS NOT NULL OR p.revoked_at IS NOT NULL
	    OR r.expires_at <= clock_timestamp(), y.exit_error, y.stdout_lines,
	    y.stderr_lines, y.payload_length, (SELECT string_agg(g.state::text
	        || ':' || g.n::text, ',' ORDER BY g.state) FROM (
	        SELECT s.state, count(*) AS n FROM d.state s
	        JOIN d.message m ON m.message_id = s.message_id
	            AND m.tenant_id = t AND m.version = 1
	        WHERE s.tenant_id = t AND s.inbox_id = c.inbox_id
	        AND s.message_id >= d.uuid_floor(y.started_at
	            - interval '1 minute')
	        AND m.key_id = y.key_id GROUP BY s.state) g)
	    FROM d.agent_session y
	    JOIN d.credential r ON r.tenant_id = t AND r.key_id = y.key_id
	    JOIN d.credential p ON p.tenant_id = t AND p.key_id = r.parent_key
	    WHERE y.tenant_id = t AND y.inbox_id = c.inbox_id
	    AND (one IS NULL OR y.key_id = one)
	    AND (after IS NULL OR y.key_id < after)
	    ORDER BY y.key_id DESC LIMIT least(greatest(lim, 1), 100);
END $$;

-- For all programs: may they start, and with which database do they speak?
CREATE FUNCTION api.ready_1() RETURNS TABLE (status int, code text,
	deployment bytea, epoch int, gen int, schema int, system_id bigint,
	timeline int, durable boolean, weeks_ahead int, now timestamptz,
	lsn bigint, history text, unsealed_seconds int, restored boolean,
	serves int, sure bigint) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT 200, NULL::text, y.deployment, y.epoch, y.gen,
	    (SELECT coalesce(max(g.version), 0) FROM d.schema_migration g),
	    (SELECT c.system_identifier FROM pg_control_system() c),
	    h.timeline,
	    current_setting('fsync') = 'on'
	    AND current_setting('full_page_writes') = 'on'
	    AND NOT EXISTS (SELECT 1 FROM pg_db_role_setting z
	        JOIN pg_roles r ON r.oid = z.setrole
	        WHERE r.rolname LIKE 'l\_%'),
	    d.weeks_ahead(), clock_timestamp(), h.lsn, h.history,
	    d.unsealed_seconds(),
	    coalesce(current_setting('postern.restored', true), '')
	    NOT IN ('', coalesce(y.restored, '')),
	    (SELECT coalesce(max(g.serves), 0) FROM d.schema_migration g),
	    h.sure
	    FROM d.log_place() h LEFT JOIN d.deployment y ON y.one;
END $$;

SET LOCAL ROLE p_submit;

CREATE FUNCTION api.claim_1(claim bytea, full_auth bytea, send_auth bytea,
	pub bytea, wrapped bytea) RETURNS TABLE (status int, code text,
	tenant_id bigint, inbox_id bigint, address text, inbox_epoch int,
	full_key bigint, send_key bigint, test boolean) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	e int;
	f bigint;
	s bigint;
	addr text;
	word "char";
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	SELECT y.tenant_id, y.inbox_id, y.used_at, y.expires_at, y.claim_sha256
	    INTO c FROM d.claim y WHERE y.claim_sha256 = sha256(claim_1.claim)
	    FOR UPDATE;
	IF NOT FOUND OR c.used_at IS NOT NULL
	    OR c.expires_at <= clock_timestamp() THEN
		IF c.tenant_id IS NOT NULL THEN
			PERFORM set_config('postern.boxes', '{' || c.tenant_id::text
			    || '.' || c.inbox_id::text || '}', true),
			    d.denied(c.tenant_id, c.inbox_id, 'gateway', 'claim',
			    CASE WHEN c.used_at IS NULL THEN 'expired'
			    ELSE 'used before' END);
		END IF;
		SELECT 410, 'claim_invalid' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF coalesce(octet_length(full_auth), 0) <> 32
	    OR coalesce(octet_length(send_auth), 0) <> 32
	    OR full_auth = send_auth OR coalesce(octet_length(claim_1.pub), 0)
	    <> 32 OR coalesce(octet_length(claim_1.wrapped), 0)
	    NOT BETWEEN 32 AND 256 THEN
		SELECT 422, 'validation_error' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	PERFORM set_config('postern.boxes', '{' || c.tenant_id::text || '.'
	    || c.inbox_id::text || '}', true);
	UPDATE d.claim y SET used_at = clock_timestamp()
	    WHERE y.claim_sha256 = c.claim_sha256;
	UPDATE d.inbox x SET epoch = x.epoch + 1 WHERE x.tenant_id = c.tenant_id
	    AND x.inbox_id = c.inbox_id RETURNING x.epoch, x.address,
	    CASE WHEN x.test THEN 't' ELSE 'l' END INTO e, addr, word;
	INSERT INTO d.inbox_key (tenant_id, inbox_id, epoch, pub)
	    VALUES (c.tenant_id, c.inbox_id, e, claim_1.pub);
	INSERT INTO d.credential AS r (tenant_id, inbox_id, kind, scope,
	    auth_sha256, lineage, label) VALUES (c.tenant_id, c.inbox_id, word,
	    'f', full_auth, 0, 'claimed') RETURNING r.key_id INTO f;
	INSERT INTO d.credential AS r (tenant_id, inbox_id, kind, scope,
	    auth_sha256, lineage, label) VALUES (c.tenant_id, c.inbox_id, word,
	    's', send_auth, 0, 'claimed for SMTP') RETURNING r.key_id INTO s;
	INSERT INTO d.key_wrap (tenant_id, inbox_id, key_id, epoch, wrapped)
	    VALUES (c.tenant_id, c.inbox_id, f, e, claim_1.wrapped);
	PERFORM d.note(c.tenant_id, 'agent:' || c.tenant_id::text || '.'
	    || f::text, 'inbox.claimed', NULL, json_build_object('inbox',
	    c.inbox_id, 'epoch', e, 'full_key', f, 'send_key', s)::text);
	RETURN QUERY SELECT 200, NULL::text, c.tenant_id, c.inbox_id, addr, e, f,
	    s, word = 't';
END $$;

CREATE FUNCTION api.cancel_1(t bigint, k bigint, a bytea, mid uuid)
	RETURNS TABLE (status int, code text, state smallint) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	s record;
BEGIN
	c := d.agent(t, k, a);
	IF c.status = 200 AND c.scope = 'r' THEN
		c.status := 403;
		c.code := 'missing_permission';
	END IF;
	IF c.status <> 200 THEN
		RETURN QUERY SELECT c.status, c.code, NULL::smallint;
		RETURN;
	END IF;
	SELECT y.state, y.version INTO s FROM d.state y WHERE y.message_id = mid
	    AND y.tenant_id = t AND y.inbox_id = c.inbox_id
	    AND EXISTS (SELECT 1 FROM d.message m WHERE m.message_id = mid
	        AND m.tenant_id = t AND m.version = y.version AND (c.scope <> 's' OR m.key_id IN (SELECT z.key_id
	        FROM d.credential z WHERE z.tenant_id = t
	        AND z.inbox_id = c.inbox_id AND z.lineage = c.lineage)))
	    FOR UPDATE;
	IF NOT FOUND THEN
		RETURN QUERY SELECT 404, 'not_found', NULL::smallint;
		RETURN;
	END IF;
	IF s.state NOT IN (1, 2) OR s.state = 2
	    AND NOT d.unqueue(mid, t, true) THEN
		RETURN QUERY SELECT 409, 'state_conflict', s.state;
		RETURN;
	END IF;
	UPDATE d.state y SET state = 5, detail = NULL WHERE y.message_id = mid
	    AND y.tenant_id = t;
	PERFORM d.note(t, 'agent:' || t::text || '.' || k::text,
	    'message.canceled', mid, '{}');
	RETURN QUERY SELECT 200, NULL::text, 5::smallint;
END $$;

-- As an agent may, with a full key: never up, never to read_only.
CREATE FUNCTION d.mode_lower(t bigint, i bigint, k bigint, to_mode smallint)
	RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	m record;
BEGIN
	SELECT x.mode, x.mode_epoch INTO m FROM d.inbox x WHERE x.tenant_id = t
	    AND x.inbox_id = i FOR UPDATE;
	IF to_mode NOT BETWEEN 1 AND 4 OR to_mode > m.mode THEN
		RETURN false;
	END IF;
	IF to_mode < m.mode THEN
		UPDATE d.inbox x SET mode = to_mode WHERE x.tenant_id = t
		    AND x.inbox_id = i RETURNING x.mode, x.mode_epoch INTO m;
		PERFORM d.note(t, 'agent:' || t::text || '.' || k::text,
		    'inbox.mode', NULL, json_build_object('inbox', i,
		    'mode', to_mode, 'mode_epoch', m.mode_epoch)::text);
	END IF;
	RETURN true;
END $$;

CREATE FUNCTION api.key_revoke_1(t bigint, k bigint, a bytea, which bigint)
	RETURNS TABLE (status int, code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent(t, k, a);
	IF c.status <> 200 THEN
		RETURN QUERY SELECT c.status, c.code;
		RETURN;
	END IF;
	UPDATE d.credential r SET revoked_at = clock_timestamp()
	    WHERE r.tenant_id = t AND r.key_id = which
	    AND r.inbox_id = c.inbox_id AND r.revoked_at IS NULL
	    AND (c.scope = 'f' OR which = k);
	IF NOT FOUND AND NOT EXISTS (SELECT 1 FROM d.credential r
	    WHERE r.tenant_id = t AND r.key_id = which
	    AND r.inbox_id = c.inbox_id AND r.revoked_at IS NOT NULL) THEN
		RETURN QUERY SELECT 404, 'not_found';
		RETURN;
	END IF;
	PERFORM d.note(t, 'agent:' || t::text || '.' || k::text, 'key.revoked',
	    NULL, json_build_object('key', which)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

-- How many of its own an inbox may have: keys and sessions that live, drafts,
-- what it blocks, and keys and sessions made in a day. openapi.json tells them.
CREATE FUNCTION d.keys_most() RETURNS int LANGUAGE sql IMMUTABLE RETURN 50;
CREATE FUNCTION d.sessions_most() RETURNS int LANGUAGE sql IMMUTABLE
	RETURN 200;
CREATE FUNCTION d.drafts_most() RETURNS int LANGUAGE sql IMMUTABLE RETURN 200;
CREATE FUNCTION d.blocks_most() RETURNS int LANGUAGE sql IMMUTABLE
	RETURN 1000;
CREATE FUNCTION d.keys_a_day() RETURNS int LANGUAGE sql IMMUTABLE RETURN 5000;

-- Has the inbox all the keys and sessions that it may make in a day? Each is a
-- row that stays, and two of the audit log. So few are looked at, however many
-- there have been.
CREATE FUNCTION d.keys_made(t bigint, i bigint) RETURNS boolean LANGUAGE sql
	STABLE AS $$
	SELECT coalesce((SELECT r.created_at FROM d.credential r
	    WHERE r.tenant_id = t AND r.inbox_id = i ORDER BY r.key_id DESC
	    OFFSET d.keys_a_day() - 1 LIMIT 1)
	    > clock_timestamp() - interval '1 day', false)
$$;

-- Sessions: keys for one run of something that is not trusted.
CREATE FUNCTION api.run_create_1(t bigint, k bigint, a bytea, auth bytea,
	seconds int, run text, sandbox_id text, template text, purpose text,
	recipients text[], domains text[], max_messages int, attachments boolean,
	doors text) RETURNS TABLE (status int, code text, key_id bigint,
	expires_at timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	n bigint;
	until timestamptz := clock_timestamp()
	    + make_interval(secs => run_create_1.seconds);
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent_may(t, k, a, 'f');
	IF c.status = 200 AND (coalesce(octet_length(auth), 0) <> 32
	    OR seconds IS NULL OR seconds NOT BETWEEN 1 AND 86400
	    OR run_create_1.max_messages IS NULL
	    OR run_create_1.max_messages < 0
	    OR coalesce(cardinality(run_create_1.recipients), 101) > 100
	    OR coalesce(cardinality(run_create_1.domains), 101) > 100
	    OR run_create_1.attachments IS NULL
	    OR run_create_1.doors IS NULL
	    OR btrim(run_create_1.doors, 'srm') <> '') THEN
		c.status := 422;
		c.code := 'validation_error';
	ELSIF c.status = 200 AND (d.keys_made(t, c.inbox_id)
	    OR (SELECT count(*) FROM (SELECT r.kind, r.revoked_at, r.expires_at
	    FROM d.credential r WHERE r.tenant_id = t
	    AND r.inbox_id = c.inbox_id ORDER BY r.key_id DESC
	    LIMIT d.keys_a_day()) z
	    WHERE z.kind = 's' AND z.revoked_at IS NULL
	    AND z.expires_at > clock_timestamp()) >= d.sessions_most()) THEN
		c.status := 429;
		c.code := 'held_limit';
	END IF;
	IF c.status <> 200 THEN
		RETURN QUERY SELECT c.status, c.code, NULL::bigint,
		    NULL::timestamptz;
		RETURN;
	END IF;
	SELECT least(until, r.expires_at) INTO until FROM d.credential r
	    WHERE r.tenant_id = t AND r.key_id = k;
	INSERT INTO d.credential AS r (tenant_id, inbox_id, kind, scope,
	    auth_sha256, lineage, parent_key, label, expires_at)
	    VALUES (t, c.inbox_id, 's', 's', auth, 0, k,
	    left(coalesce(run_create_1.sandbox_id, 'session'), 200), until)
	    RETURNING r.key_id INTO n;
	INSERT INTO d.agent_session (tenant_id, inbox_id, key_id, run,
	    sandbox_id, template, purpose, recipients, domains, max_messages,
	    attachments, doors) VALUES (t, c.inbox_id, n, run_create_1.run,
	    run_create_1.sandbox_id, run_create_1.template,
	    run_create_1.purpose,
	    ARRAY(SELECT d.canon(x) FROM unnest(run_create_1.recipients) x),
	    ARRAY(SELECT lower(x) FROM unnest(run_create_1.domains) x),
	    run_create_1.max_messages, run_create_1.attachments,
	    run_create_1.doors);
	PERFORM d.note(t, 'agent:' || t::text || '.' || k::text,
	    'session.started', NULL, json_build_object('key', n, 'until',
	    until)::text);
	RETURN QUERY SELECT 200, NULL::text, n, until;
END $$;

-- A later end, within a day of the start and within the key it came from.
CREATE FUNCTION api.run_extend_1(t bigint, k bigint, a bytea,
	which bigint, seconds int) RETURNS TABLE (status int, code text,
	expires_at timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	until timestamptz;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent_may(t, k, a, 'f');
	IF c.status = 200 AND (seconds IS NULL OR seconds NOT BETWEEN 1
	    AND 86400) THEN
		c.status := 422;
		c.code := 'validation_error';
	END IF;
	IF c.status <> 200 THEN
		RETURN QUERY SELECT c.status, c.code, NULL::timestamptz;
		RETURN;
	END IF;
	UPDATE d.credential r SET expires_at = least(clock_timestamp()
	    + make_interval(secs => run_extend_1.seconds),
	    r.created_at + interval '1 day', (SELECT p.expires_at
	        FROM d.credential p WHERE p.tenant_id = t
	        AND p.key_id = r.parent_key))
	    WHERE r.tenant_id = t AND r.inbox_id = c.inbox_id
	    AND r.key_id = which AND r.kind = 's' AND r.revoked_at IS NULL
	    AND r.expires_at > clock_timestamp()
	    RETURNING r.expires_at INTO until;
	IF NOT FOUND AND EXISTS (SELECT 1 FROM d.agent_session y
	    WHERE y.tenant_id = t AND y.inbox_id = c.inbox_id
	    AND y.key_id = which) THEN
		RETURN QUERY SELECT 409, 'state_conflict', NULL::timestamptz;
		RETURN;
	ELSIF NOT FOUND THEN
		RETURN QUERY SELECT 404, 'not_found', NULL::timestamptz;
		RETURN;
	END IF;
	PERFORM d.note(t, 'agent:' || t::text || '.' || k::text,
	    'session.extended', NULL, json_build_object('key', which, 'until',
	    until)::text);
	RETURN QUERY SELECT 200, NULL::text, until;
END $$;

-- The key dies; what it left held is taken back, or goes on waiting. A
-- session may end itself.
CREATE FUNCTION api.run_end_1(t bigint, k bigint, a bytea, which bigint,
	keep boolean, exit_error text, stdout_lines bigint, stderr_lines bigint,
	payload_length bigint) RETURNS TABLE (status int, code text,
	canceled int) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	n int := 0;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent(t, k, a);
	IF c.status = 200 AND which <> k AND (c.kind = 's' OR c.scope <> 'f')
	    THEN
		c.status := 404;
		c.code := 'not_found';
	END IF;
	IF c.status <> 200 THEN
		RETURN QUERY SELECT c.status, c.code, NULL::int;
		RETURN;
	END IF;
	IF keep IS NOT TRUE THEN
		PERFORM d.states_hold(array_agg(s.message_id),
		    array_agg(s.tenant_id)) FROM d.state s JOIN d.message m
		    ON m.message_id = s.message_id AND m.tenant_id = t
		    AND m.version = s.version AND m.key_id = which
		    WHERE s.tenant_id = t AND s.inbox_id = c.inbox_id
		    AND s.stays = 1;
	END IF;
	-- Then the counter, as submissions do: none of theirs is between its look
	-- at the session and its COMMIT.
	PERFORM 1 FROM d.quota q WHERE q.tenant_id = t
	    AND q.inbox_id = c.inbox_id FOR UPDATE;
	UPDATE d.agent_session y SET ended_at = clock_timestamp(),
	    ended_by = 'agent:' || t::text || '.' || k::text,
	    exit_error = left(run_end_1.exit_error, 1000),
	    stdout_lines = run_end_1.stdout_lines,
	    stderr_lines = run_end_1.stderr_lines,
	    payload_length = run_end_1.payload_length
	    WHERE y.tenant_id = t AND y.inbox_id = c.inbox_id
	    AND y.key_id = which AND y.ended_at IS NULL;
	IF NOT FOUND THEN
		IF EXISTS (SELECT 1 FROM d.agent_session y WHERE y.tenant_id = t
		    AND y.inbox_id = c.inbox_id AND y.key_id = which) THEN
			RETURN QUERY SELECT 200, NULL::text, 0;
		ELSE
			RETURN QUERY SELECT 404, 'not_found', NULL::int;
		END IF;
		RETURN;
	END IF;
	UPDATE d.credential r SET revoked_at = clock_timestamp()
	    WHERE r.tenant_id = t AND r.inbox_id = c.inbox_id
	    AND r.key_id = which AND r.revoked_at IS NULL;
	IF keep IS NOT TRUE THEN
		-- SKIP LOCKED: with the counter held, a message that came since
		-- the look above is left to who decides it right now.
		UPDATE d.state s SET state = 5, detail = 'session ended'
		    FROM (SELECT y.message_id FROM d.state y JOIN d.message m
		        ON m.message_id = y.message_id AND m.tenant_id = t
		        AND m.version = y.version AND m.key_id = which
		        WHERE y.tenant_id = t AND y.inbox_id = c.inbox_id
		        AND y.stays = 1 FOR UPDATE OF y SKIP LOCKED) z
		    WHERE s.message_id = z.message_id AND s.tenant_id = t;
		GET DIAGNOSTICS n = ROW_COUNT;
	END IF;
	PERFORM d.note(t, 'agent:' || t::text || '.' || k::text,
	    'session.ended', NULL, json_build_object('key', which, 'canceled',
	    n)::text);
	RETURN QUERY SELECT 200, NULL::text, n;
END $$;

-- The last row has no key: it carries `now` for the next poll.
CREATE FUNCTION api.revoked_since_1(since timestamptz) RETURNS TABLE (
	status int, code text, tenant_id bigint, key_id bigint, at timestamptz,
	now timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT 200, NULL::text, r.tenant_id, r.key_id, r.revoked_at,
	    clock_timestamp() FROM d.credential r WHERE r.revoked_at >= since
	    UNION ALL SELECT 200, NULL::text, r.tenant_id, r.key_id,
	    p.revoked_at, clock_timestamp() FROM d.credential p
	    JOIN d.credential r ON r.tenant_id = p.tenant_id
	        AND r.inbox_id = p.inbox_id AND r.parent_key = p.key_id
	    WHERE p.revoked_at >= since
	    UNION ALL SELECT 200, NULL::text, NULL::bigint, NULL::bigint,
	    NULL::timestamptz, clock_timestamp();
END $$;

CREATE FUNCTION api.denied_1(t bigint, k bigint, a bytea, what text,
	detail text) RETURNS TABLE (status int, code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	r record;
BEGIN
	c := d.agent(t, k, a);
	IF what IS NULL OR what NOT IN ('sender_mismatch', 'foreign_id',
	    'dead_key') THEN
		RETURN QUERY SELECT 422, 'validation_error';
		RETURN;
	END IF;
	IF c.status <> 200 THEN
		-- A dead key is its own proof: the right secret, no longer good,
		-- or the handle of a session it began.
		SELECT y.inbox_id INTO r FROM d.credential y WHERE y.tenant_id = t
		    AND y.key_id = k AND (y.auth_sha256 = sha256(a) OR EXISTS (
		        SELECT 1 FROM d.handle w WHERE w.tenant_id = t
		        AND w.key_id = k AND w.handle_sha256 = sha256(a)));
		IF NOT FOUND OR what <> 'dead_key' THEN
			RETURN QUERY SELECT c.status, c.code;
			RETURN;
		END IF;
		c.inbox_id := r.inbox_id;
		PERFORM set_config('postern.boxes', '{' || t::text || '.'
		    || r.inbox_id::text || '}', true);
	END IF;
	PERFORM d.denied(t, c.inbox_id, 'agent:' || t::text || '.' || k::text,
	    what, detail);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

RESET ROLE;
SET LOCAL ROLE p_submit;
GRANT EXECUTE ON FUNCTION api.auth_1, api.touch_1, api.submit_1,
	api.submit_batch_1, api.submit_again_1, api.put_chunk_1, api.claim_1, api.cancel_1,
	api.key_revoke_1,
	api.revoked_since_1, api.denied_1, api.run_create_1,
	api.run_extend_1, api.run_end_1 TO l_gateway;
GRANT EXECUTE ON FUNCTION api.claim_1 TO l_ctl;
SET LOCAL ROLE p_read;
GRANT EXECUTE ON FUNCTION api.my_list_1, api.my_get_1, api.my_recipients_1,
	api.my_body_1, api.my_events_1, api.my_reports_1, api.my_stream_1,
	api.my_threads_1,
	api.my_thread_1, api.my_inbox_1, api.runs_1, api.keys_1
	TO l_gateway;
GRANT EXECUTE ON FUNCTION api.ready_1 TO l_gateway, l_review, l_worker, l_ctl,
	l_seal, l_auth;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_submit, p_read, p_policy;
