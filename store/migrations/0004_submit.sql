-- SPDX-License-Identifier: ISC
-- 0004_submit.sql - what agents may do: sign in, submit, cancel, claim. Every
-- function checks the credential in the database, on every call.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_submit, p_policy;

-- Proves t, k, a; sets the identity of this call. a is A (32 bytes), or a
-- connection handle (24 bytes) made by the same login. Runs as its caller.
CREATE FUNCTION d.agent(t bigint, k bigint, a bytea, OUT status int,
	OUT code text, OUT inbox_id bigint, OUT scope "char", OUT kind "char",
	OUT lineage bigint, OUT last_used timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	c record;
	h timestamptz;
	proven boolean;
BEGIN
	status := 401;
	code := 'unknown_api_key';
	SELECT r.inbox_id, r.scope, r.kind, r.lineage, r.auth_sha256, r.revoked_at,
	    r.expires_at, r.last_used, x.suspended_at, x.deleted_at,
	    n.disabled_at, p.revoked_at AS parent_revoked,
	    p.expires_at AS parent_expires
	    INTO c FROM d.credential r
	    JOIN d.inbox x ON x.tenant_id = r.tenant_id
	        AND x.inbox_id = r.inbox_id
	    JOIN d.tenant n ON n.tenant_id = r.tenant_id
	    LEFT JOIN d.credential p ON p.tenant_id = r.tenant_id
	        AND p.key_id = r.parent_key
	    WHERE r.tenant_id = agent.t AND r.key_id = agent.k;
	IF NOT FOUND OR a IS NULL THEN
		RETURN;
	END IF;
	IF octet_length(a) = 24 THEN
		SELECT w.expires_at INTO h FROM d.handle w WHERE w.tenant_id = agent.t
		    AND w.key_id = agent.k AND w.handle_sha256 = sha256(a)
		    AND w.login = session_user;
		proven := coalesce(h > clock_timestamp(), false);
	ELSE
		proven := octet_length(a) = 32 AND c.auth_sha256 = sha256(a);
	END IF;
	IF c.revoked_at IS NOT NULL OR c.deleted_at IS NOT NULL
	    OR c.disabled_at IS NOT NULL OR c.parent_revoked IS NOT NULL
	    OR least(c.expires_at, c.parent_expires) <= clock_timestamp() THEN
		RETURN;
	END IF;
	IF NOT proven THEN
		IF octet_length(a) = 24 THEN
			status := 503;
			code := 'store_unavailable';
		END IF;
		RETURN;
	END IF;
	status := 200;
	code := NULL;
	inbox_id := c.inbox_id;
	scope := c.scope;
	kind := c.kind;
	lineage := c.lineage;
	last_used := c.last_used;
	IF h < clock_timestamp() + interval '5 minutes' THEN
		UPDATE d.handle w SET expires_at = clock_timestamp()
		    + interval '10 minutes' WHERE w.tenant_id = agent.t
		    AND w.key_id = agent.k AND w.handle_sha256 = sha256(a);
	END IF;
	PERFORM set_config('postern.boxes',
	    '{' || t::text || '.' || c.inbox_id::text || '}', true),
	    set_config('postern.actor', 'agent:' || t::text || '.' || k::text,
	    true);
END $$;
GRANT EXECUTE ON FUNCTION d.agent TO p_submit;

-- An audit row in the zone of the caller.
CREATE FUNCTION d.note(t bigint, actor text, event text, mid uuid,
	detail text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO d.audit (tenant_id, actor, event, message_id, detail)
	    VALUES (note.t, note.actor, note.event, note.mid,
	    coalesce(note.detail, '{}'));
END $$;
GRANT EXECUTE ON FUNCTION d.note TO p_submit, p_policy;

SET LOCAL ROLE p_policy;

-- Releases one fresh message by mode or rule, or says no. Its own look at
-- the mode is what counts, not that of the caller.
CREATE FUNCTION d.policy_release(t bigint, i bigint, mid uuid, how "char",
	relay_box bytea, tag bytea, expiry bigint, hold timestamptz)
	RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	m record;
	now_at timestamptz := clock_timestamp();
BEGIN
	SELECT g.version, g.mode, g.mode_epoch, g.digest, g.rcpt, g.size, g.risk
	    INTO m FROM d.message g WHERE g.message_id = mid AND g.tenant_id = t
	    AND g.inbox_id = i AND g.version = 1;
	IF NOT FOUND OR NOT d.policy_allows(mid, t, i, m.version, how, m.mode,
	    m.mode_epoch) THEN
		RETURN false;
	END IF;
	INSERT INTO d.release (message_id, tenant_id, inbox_id, version, round,
	    digest, by_what, mode, mode_epoch, relay_box, tag, expiry, not_before)
	    VALUES (mid, t, i, m.version, 1, m.digest, how, m.mode, m.mode_epoch,
	    policy_release.relay_box, policy_release.tag, policy_release.expiry,
	    now_at);
	INSERT INTO d.state (message_id, tenant_id, inbox_id, version, state,
	    risk, hold_until) VALUES (mid, t, i, m.version, 2, m.risk, hold);
	PERFORM d.enqueue(mid, t, i, m.version, 1::smallint, m.digest, m.rcpt,
	    m.size, now_at);
	IF how = 'r' THEN
		UPDATE d.allow_rule u SET uses_left = u.uses_left - 1
		    WHERE u.tenant_id = t AND u.inbox_id = i AND u.ended_at IS NULL
		    AND u.expires_at > now_at AND u.uses_left > 0
		    AND EXISTS (SELECT 1 FROM unnest(m.rcpt) x WHERE u.entry
		        IN (d.canon(x), '@' || d.domain_of(x)));
	END IF;
	PERFORM d.event_add(mid, t, i, 'message.approved', 'policy', 'policy',
	    2::smallint, NULL), d.note(t, 'policy', 'message.approved', mid,
	    '{"by":"' || CASE how WHEN 'm' THEN 'mode' ELSE 'rule' END
	    || '","digest":"' || encode(m.digest, 'hex') || '"}');
	RETURN true;
END $$;
GRANT EXECUTE ON FUNCTION d.policy_release TO p_submit;

SET LOCAL ROLE p_submit;

-- A refused attempt, at most 20 rows an inbox and hour.
CREATE FUNCTION d.denied(t bigint, i bigint, actor text, what text,
	detail text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	n int;
BEGIN
	UPDATE d.quota q SET denied = CASE WHEN q.denied_hour
	    = date_trunc('hour', clock_timestamp()) THEN q.denied + 1 ELSE 1 END,
	    denied_hour = date_trunc('hour', clock_timestamp())
	    WHERE q.tenant_id = t AND q.inbox_id = i RETURNING q.denied INTO n;
	IF n <= 20 THEN
		PERFORM d.note(t, actor, 'denied.' || what, NULL,
		    json_build_object('inbox', i, 'detail', left(detail, 300))::text);
	END IF;
END $$;

CREATE FUNCTION api.auth_1(t bigint, k bigint, a bytea, handle bytea)
	RETURNS TABLE (status int, code text, inbox_id bigint, address text,
	mode smallint, mode_epoch int, scope text, kind text, smtp_wide boolean,
	display_name text, test boolean, releasable boolean,
	domain_verified boolean, paused boolean, deployment bytea, epoch int,
	tenant_slug text, tenant_epoch int, tenant_pub bytea, inbox_epoch int,
	inbox_pub bytea, oversight text, rcpt_max int, size_max bigint,
	lim_hour int, lim_day int, lim_month int, lim_held int,
	lim_bytes bigint, limits_version int, used_day int, used_month int,
	held int, reset_at timestamptz, reset_by text,
	key_expires timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = ''
	SET plan_cache_mode = force_generic_plan SET jit = off
	SET enable_seqscan = off SET enable_hashjoin = off
	SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent(t, k, a);
	IF c.status <> 200 THEN
		RETURN QUERY SELECT c.status, c.code, NULL::bigint, NULL::text,
		    NULL::smallint, NULL::int, NULL::text, NULL::text, NULL::boolean,
		    NULL::text, NULL::boolean, NULL::boolean, NULL::boolean,
		    NULL::boolean, NULL::bytea, NULL::int, NULL::text, NULL::int,
		    NULL::bytea, NULL::int, NULL::bytea, NULL::text, NULL::int,
		    NULL::bigint, NULL::int, NULL::int, NULL::int, NULL::int,
		    NULL::bigint, NULL::int, NULL::int, NULL::int, NULL::int,
		    NULL::timestamptz, NULL::text, NULL::timestamptz;
		RETURN;
	END IF;
	-- A lost handle only means signing in again: no need to wait for a disk.
	PERFORM set_config('synchronous_commit', 'off', true);
	IF octet_length(auth_1.handle) = 24 AND octet_length(a) = 32 THEN
		INSERT INTO d.handle AS h (tenant_id, key_id, handle_sha256, login,
		    expires_at) VALUES (t, k, sha256(auth_1.handle), session_user,
		    clock_timestamp() + interval '10 minutes')
		    ON CONFLICT DO NOTHING;
	END IF;
	IF c.last_used IS NULL
	    OR c.last_used < clock_timestamp() - interval '1 hour' THEN
		UPDATE d.credential r SET last_used = clock_timestamp()
		    WHERE r.tenant_id = t AND r.key_id = k;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, x.inbox_id, x.address, x.mode,
	    x.mode_epoch, c.scope::text, c.kind::text, x.smtp_wide,
	    x.display_name, c.kind = 't', u.releases OR EXISTS (SELECT 1
	    FROM d.allow_rule w WHERE w.tenant_id = t AND w.inbox_id = x.inbox_id
	    AND w.ended_at IS NULL AND w.expires_at > clock_timestamp()),
	    o.verified_at IS NOT NULL AND o.removed_at IS NULL,
	    x.paused_at IS NOT NULL OR n.paused_at IS NOT NULL
	    OR p.paused_at IS NOT NULL, y.deployment, y.epoch, n.slug, tk.epoch,
	    tk.pub, ik.epoch, ik.pub, x.oversight, x.rcpt_max, x.size_max,
	    x.lim_hour, x.lim_day, x.lim_month, x.lim_held, x.lim_bytes,
	    x.limits_version,
	    CASE WHEN q.day = (clock_timestamp() AT TIME ZONE 'UTC')::date
	        THEN q.day_used ELSE 0 END,
	    CASE WHEN q.month = date_trunc('month', clock_timestamp()
	        AT TIME ZONE 'UTC')::date THEN q.month_used ELSE 0 END,
	    q.held, x.reset_at, x.reset_by, r.expires_at
	    FROM d.inbox x JOIN d.tenant n ON n.tenant_id = x.tenant_id
	    JOIN d.credential r ON r.tenant_id = t AND r.key_id = k
	    JOIN d.mode_rule u ON u.mode = x.mode
	    JOIN d.domain o ON o.domain = x.domain
	    JOIN d.quota q ON q.tenant_id = x.tenant_id
	        AND q.inbox_id = x.inbox_id
	    JOIN d.global_pause p ON p.one
	    LEFT JOIN d.deployment y ON y.one
	    LEFT JOIN LATERAL (SELECT z.epoch, z.pub FROM d.tenant_key z
	        WHERE z.tenant_id = x.tenant_id ORDER BY z.epoch DESC LIMIT 1) tk
	        ON true
	    LEFT JOIN d.inbox_key ik ON ik.tenant_id = x.tenant_id
	        AND ik.inbox_id = x.inbox_id AND ik.epoch = x.epoch
	    WHERE x.tenant_id = t AND x.inbox_id = c.inbox_id;
END $$;

CREATE FUNCTION api.touch_1(t bigint, k bigint, a bytea)
	RETURNS TABLE (status int, code text, mode smallint, mode_epoch int,
	paused boolean, domain_verified boolean, limits_version int)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent(t, k, a);
	IF c.status <> 200 THEN
		RETURN QUERY SELECT c.status, c.code, NULL::smallint, NULL::int,
		    NULL::boolean, NULL::boolean, NULL::int;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, x.mode, x.mode_epoch,
	    x.paused_at IS NOT NULL OR n.paused_at IS NOT NULL
	    OR p.paused_at IS NOT NULL, o.verified_at IS NOT NULL
	    AND o.removed_at IS NULL, x.limits_version
	    FROM d.inbox x JOIN d.tenant n ON n.tenant_id = x.tenant_id
	    JOIN d.domain o ON o.domain = x.domain
	    JOIN d.global_pause p ON p.one
	    WHERE x.tenant_id = t AND x.inbox_id = c.inbox_id;
END $$;

-- A row on its way through submit_batch_1; `no` is why it is not stored.
CREATE TYPE d.submit_row AS (o int, t bigint, k bigint, box bigint,
	kind "char", lineage bigint, mid uuid, rcpt text[], kinds text,
	params text, size bigint, body_tag bytea, send_at bigint,
	not_after bigint, digest bytea, door "char", subject text,
	header_from text, rfc_id text, in_reply_to text, refs text, thread uuid,
	labels text, context text, risk smallint, findings_set smallint,
	finding_max smallint, attachments int, tenant_epoch int,
	tenant_box bytea, inbox_epoch int, inbox_box bytea, chunks int,
	idem_key bytea, request bytea, revises uuid, address text,
	mode smallint, mode_epoch int, limits_version int, need smallint,
	reasons text, hold_until timestamptz, rel "char", no text, wait int);
-- What an earlier row with the same id or idempotency key became.
CREATE TYPE d.submit_old AS (o int, message_id uuid, request bytea,
	at timestamptz, state smallint, version smallint, round smallint,
	hold_until timestamptz, thread_id uuid, digest bytea, reasons text,
	key_id bigint);

-- One call for a whole commit: arrays in, one outcome a row, in their order.
-- Rows that repeat an id or an idempotency key of this very call run after
-- the others, alone. What few batches need (replays, lists, threads, chunked
-- bodies) is looked up by statements of its own: one that joins all weekly
-- partitions costs more to start than a whole small batch. Plans are made
-- once, without knowing the rows: they look up by key and never read a whole
-- table, be it empty now or of a million inboxes later.
CREATE FUNCTION api.submit_batch_1(t bigint[], k bigint[], a bytea[],
	mid uuid[], rcpts text[], kinds text[], params text[], size bigint[],
	body_tag bytea[], send_at bigint[], not_after bigint[], dig bytea[],
	door text[], subject text[], header_from text[], rfc_id text[],
	in_reply_to text[], refs text[], thread uuid[], labels text[],
	context text[], risk smallint[], findings_set smallint[],
	finding_max smallint[], attachments int[], tenant_epoch int[],
	tenant_box bytea[], inbox_epoch int[], inbox_box bytea[], chunks int[],
	body bytea[], idem bytea[], request bytea[], duplicate boolean[],
	revises uuid[], limiter boolean[], relay_box bytea[], tag bytea[],
	expiry bigint[], tag_mode smallint[], tag_mode_epoch int[])
	RETURNS TABLE (ord int, status int, code text, message_id uuid,
	thread_id uuid, state smallint, version smallint, round smallint,
	digest bytea, reasons text, hold_until timestamptz, wait int,
	replay boolean, already_held boolean) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' SET plan_cache_mode = force_generic_plan
	SET jit = off SET enable_seqscan = off SET enable_hashjoin = off
	SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
	box bigint[];
	sc "char"[];
	kd "char"[];
	ln bigint[];
	st int[];
	boxes text[];
	keys bytea[];
	twice boolean;
	again int[];
	blocked int[];
	put int[];
	threads uuid[];
	old d.submit_old[];
	same d.submit_old[];
	dec d.submit_row[];
	stored uuid[];
	want int;
	frees boolean;
	whole boolean := array_position(submit_batch_1.body, NULL) IS NULL;
	i int;
	now_at timestamptz := clock_timestamp();
	now_us bigint := d.us(clock_timestamp());
	today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
	this_month date := date_trunc('month', clock_timestamp()
	    AT TIME ZONE 'UTC')::date;
BEGIN
	-- 250 and 202 mean that it is on the disk, whatever the client set.
	PERFORM set_config('synchronous_commit', 'on', true);

	-- 1. Whose key is it? NULL inbox: nobody's.
	SELECT array_agg(c.inbox_id), array_agg(c.scope), array_agg(c.kind),
	    array_agg(c.lineage), array_agg(c.status), array_agg(DISTINCT c.name)
	        FILTER (WHERE c.status = 200)
	    INTO box, sc, kd, ln, st, boxes
	    FROM (SELECT o, r.inbox_id, r.scope, r.lineage,
	        CASE WHEN r.kind = 's' AND r.opened_by IS NOT NULL THEN 'o'::"char"
	            ELSE r.kind END AS kind,
	        r.tenant_id::text || '.' || r.inbox_id::text AS name,
	        CASE WHEN r.revoked_at IS NOT NULL OR r.expires_at <= now_at
	            OR r.parent_key IS NOT NULL AND NOT EXISTS (SELECT 1
	            FROM d.credential p WHERE p.tenant_id = r.tenant_id
	            AND p.key_id = r.parent_key AND p.revoked_at IS NULL
	            AND (p.expires_at IS NULL OR p.expires_at > now_at)) THEN 401
	        WHEN octet_length(submit_batch_1.a[o]) = 24 THEN
	            CASE WHEN EXISTS (SELECT 1 FROM d.handle h
	            WHERE h.tenant_id = r.tenant_id AND h.key_id = r.key_id
	            AND h.handle_sha256 = sha256(submit_batch_1.a[o])
	            AND h.login = session_user AND h.expires_at > now_at)
	            THEN 200 ELSE 503 END
	        WHEN octet_length(submit_batch_1.a[o]) = 32
	            AND r.auth_sha256 = sha256(submit_batch_1.a[o]) THEN 200
	        ELSE 401 END AS status
	        FROM generate_series(1, cardinality(submit_batch_1.t)) o
	        LEFT JOIN d.credential r ON r.tenant_id = submit_batch_1.t[o]
	            AND r.key_id = submit_batch_1.k[o] ORDER BY o) c;
	IF st IS NULL THEN
		RETURN;
	END IF;
	PERFORM set_config('postern.boxes', coalesce(boxes::text, ''), true);

	-- 2. The mode holds still, then the counters, both in one order.
	PERFORM 1 FROM d.inbox x WHERE (x.tenant_id, x.inbox_id) IN (
	    SELECT submit_batch_1.t[o], box[o]
	    FROM generate_series(1, cardinality(st)) o WHERE st[o] = 200)
	    ORDER BY x.tenant_id, x.inbox_id FOR SHARE;
	PERFORM 1 FROM d.quota q WHERE (q.tenant_id, q.inbox_id) IN (
	    SELECT submit_batch_1.t[o], box[o]
	    FROM generate_series(1, cardinality(st)) o WHERE st[o] = 200)
	    ORDER BY q.tenant_id, q.inbox_id FOR UPDATE;

	-- 3. What only some batches need. A column compared with an expression
	-- that row security distrusts (coalesce) uses no index: hence `keys`.
	SELECT array_agg(coalesce(u.i, u.q) ORDER BY u.o),
	    count(DISTINCT u.m) < count(*)
	    OR count(DISTINCT coalesce(u.i, u.q)) < count(*)
	    INTO keys, twice FROM unnest(submit_batch_1.mid,
	    submit_batch_1.idem, submit_batch_1.request)
	    WITH ORDINALITY u(m, i, q, o);
	IF twice THEN
		SELECT array_agg(u.o ORDER BY u.o) INTO again
		    FROM (SELECT w.o, row_number() OVER (PARTITION BY w.m ORDER BY w.o)
		        AS r1, row_number() OVER (PARTITION BY w.t, w.l, w.key
		        ORDER BY w.o) AS r2
		        FROM unnest(submit_batch_1.mid, submit_batch_1.t, ln, keys)
		        WITH ORDINALITY w(m, t, l, key, o)) u
		    WHERE u.r1 > 1 OR u.r2 > 1;
	END IF;
	SELECT array_agg(ROW(u.o, y.message_id, y.request_sha256, y.created_at,
	    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::d.submit_old)
	    INTO old FROM (SELECT o, submit_batch_1.t[o] AS t, box[o] AS box,
	        ln[o] AS l, keys[o] AS key FROM generate_series(1,
	        cardinality(st)) o OFFSET 0) u
	    CROSS JOIN LATERAL (SELECT z.message_id, z.request_sha256,
	        z.created_at FROM d.idem z WHERE z.tenant_id = u.t
	        AND z.inbox_id = u.box AND z.lineage = u.l
	        AND z.key_sha256 = u.key LIMIT 1) y;
	IF old IS NOT NULL THEN
		SELECT array_agg(ROW(e.o, e.message_id, e.request, e.at, z.state,
		    z.version, z.round, z.hold_until, m.thread_id, m.digest,
		    m.reasons, m.key_id)::d.submit_old) INTO old
		    FROM unnest(old) e
		    JOIN d.state z ON z.message_id = e.message_id
		        AND z.tenant_id = submit_batch_1.t[e.o]
		    JOIN d.message m ON m.message_id = z.message_id
		        AND m.tenant_id = z.tenant_id AND m.version = z.version;
	END IF;
	IF NOT whole THEN
		SELECT array_agg(y.chunks ORDER BY u.o) INTO put
		    FROM unnest(submit_batch_1.t, box, submit_batch_1.mid)
		        WITH ORDINALITY u(t, box, m, o)
		    LEFT JOIN d.upload y ON y.message_id = u.m AND y.tenant_id = u.t
		        AND y.inbox_id = u.box;
	END IF;
	IF EXISTS (SELECT 1 FROM d.list_entry e WHERE e.ended_at IS NULL) THEN
		SELECT array_agg(u.o) INTO blocked
		    FROM unnest(submit_batch_1.t, box, submit_batch_1.rcpts)
		        WITH ORDINALITY u(t, box, r, o)
		    WHERE EXISTS (SELECT 1 FROM unnest(string_to_array(u.r, E'\n')) y
		        JOIN d.list_entry e ON e.entry IN (d.canon(y),
		            '@' || d.domain_of(y)) AND e.ended_at IS NULL
		        WHERE (e.expires_at IS NULL OR e.expires_at > now_at)
		        AND (e.tenant_id = 0 OR e.tenant_id = u.t
		        AND e.inbox_id IN (0, u.box)));
	END IF;

	-- 4. What becomes of each row.
	SELECT array_agg(ROW(w.o, w.t, w.k, w.box, w.kind, w.lineage, w.mid,
	    w.rcpt, w.kinds, w.params, w.size, w.body_tag, w.send_at, w.not_after,
	    w.digest, w.door, w.subject, w.header_from, w.rfc_id, w.in_reply_to,
	    w.refs, w.thread, w.labels, w.context, w.risk, w.findings_set,
	    w.finding_max, w.attachments, w.tenant_epoch, w.tenant_box,
	    w.inbox_epoch, w.inbox_box, w.chunks, w.idem_key, w.request,
	    w.revises, w.address, w.mode, w.mode_epoch, w.limits_version, w.need,
	    CASE WHEN w.rel IS NOT NULL THEN '' WHEN w.paused THEN 'paused'
	        ELSE 'mode' END, w.hold_until, w.rel, w.no,
	    CASE w.no WHEN 'rate_limited' THEN greatest(1, extract(epoch
	        FROM w.more_at - now_at)::int) WHEN 'held_limit' THEN 60
	        WHEN 'limiter_unavailable' THEN 5 END)::d.submit_row
	    ORDER BY w.o), count(*) FILTER (WHERE w.no IS NULL),
	    coalesce(bool_or(w.no IS NULL AND w.rel IS NOT NULL), false)
	    INTO dec, want, frees FROM (
		SELECT v.*, CASE WHEN v.why IS NOT NULL THEN v.why
		    WHEN row_number() OVER ok > v.left_count THEN 'rate_limited'
		    WHEN v.rel = 'm' AND v.limiter IS NOT TRUE
		        THEN 'limiter_unavailable'
		    WHEN v.rel IS NULL AND (v.held + count(*) FILTER (
		        WHERE v.rel IS NULL) OVER ok > v.lim_held
		        OR v.held_bytes + sum(v.size) FILTER (WHERE v.rel IS NULL)
		        OVER ok > v.lim_bytes) THEN 'held_limit'
		    END AS no
		FROM (SELECT r.*, x.address, x.mode, x.mode_epoch, x.limits_version,
		    x.lim_held, x.lim_bytes, q.held, q.held_bytes,
		    least(x.lim_day - CASE WHEN q.day = today THEN q.day_used
		        ELSE 0 END, x.lim_month - CASE WHEN q.month = this_month
		        THEN q.month_used ELSE 0 END) AS left_count,
		    CASE WHEN q.day = today AND q.day_used >= x.lim_day
		        OR q.month <> this_month OR q.month_used < x.lim_month
		        THEN (today + 1)::timestamp ELSE (this_month
		        + interval '1 month')::timestamp END AT TIME ZONE 'UTC'
		        AS more_at,
		    x.paused_at IS NOT NULL OR n.paused_at IS NOT NULL
		        OR p.paused_at IS NOT NULL AS paused,
		    coalesce(x.need_approvals, n.need_approvals) AS need,
		    least(now_at + coalesce(x.hold_for, n.hold_for), to_timestamp(
		        nullif(r.not_after, 0) / 1000000.0)) AS hold_until,
		    CASE
		    WHEN r.o = ANY (again) THEN 'again'
		    WHEN r.st <> 200 OR x.deleted_at IS NOT NULL
		        OR n.disabled_at IS NOT NULL THEN
		        CASE r.st WHEN 503 THEN 'store_unavailable'
		            ELSE 'unknown_api_key' END
		    WHEN r.scope = 'r' THEN 'key_scope'
		    WHEN x.suspended_at IS NOT NULL THEN 'missing_permission'
		    WHEN NOT s.accepts THEN 'inbox_read_only'
		    WHEN d.verified_at IS NULL OR d.removed_at IS NOT NULL
		        THEN 'domain_not_verified'
		    WHEN r.malformed IS NOT FALSE THEN 'validation_error'
		    WHEN e.o IS NOT NULL AND r.idem IS NOT NULL
		        AND NOT (r.door = 's' AND e.at < now_at
		        - interval '24 hours') THEN
		        CASE WHEN e.request = r.request THEN 'replay.old'
		            ELSE 'idempotency_conflict' END
		    WHEN e.state = 1 AND r.idem IS NULL
		        AND r.duplicate IS NOT TRUE THEN 'replay.held'
		    WHEN r.size > x.size_max THEN 'payload_too_large'
		    WHEN cardinality(r.rcpt) > x.rcpt_max THEN 'too_many_recipients'
		    WHEN cardinality(r.rcpt) = 0
		        OR length(r.kinds) <> cardinality(r.rcpt)
		        OR r.kinds !~ '^[tcbo]*$'
		        OR r.rcpts ~ '[\x01-\x09\x0b-\x1f\x7f]'
		        OR (SELECT bool_or(octet_length(y) > 320
		            OR y !~ '.@[^@ ]+$') IS NOT FALSE
		            OR r.rcpt <> array_agg(DISTINCT y COLLATE "C"
		            ORDER BY y COLLATE "C") FROM unnest(r.rcpt) y)
		        THEN 'invalid_address'
		    WHEN CASE WHEN r.small THEN r.chunks <> 1
		            OR abs(d.uuid_ms(r.mid) * 1000 - now_us) > 600000000
		        ELSE put[r.o] IS DISTINCT FROM r.chunks
		            OR abs(d.uuid_ms(r.mid) * 1000 - now_us) > 86400000000
		        END OR r.not_after <> 0 AND r.not_after <= now_us
		        THEN 'validation_error'
		    WHEN r.digest <> d.digest_1(r.t, r.box, r.mid, 1::smallint,
		        r.kind = 't', x.address, r.rcpt, r.params, r.size, r.body_tag,
		        r.send_at, r.not_after) THEN 'digest_mismatch'
		    WHEN r.o = ANY (blocked) THEN 'message_rejected'
		    END AS why,
		    CASE WHEN r.tagged AND r.kind <> 's' AND x.paused_at IS NULL
		        AND n.paused_at IS NULL AND p.paused_at IS NULL
		        AND r.tag_mode = x.mode AND r.tag_mode_epoch = x.mode_epoch
		        THEN CASE WHEN s.releases THEN 'm'::"char"
		        WHEN r.findings_set >= 1 THEN 'r'::"char" END END AS rel
		FROM (SELECT u.o, u.t, u.k, u.box, u.scope, u.kind,
		    u.lineage, u.st, u.mid, u.rcpts,
		    string_to_array(u.rcpts, E'\n') AS rcpt, u.kinds, u.params,
		    u.size, u.body_tag, u.send_at, u.not_after, u.digest,
		    u.door::"char" AS door, u.subject, u.header_from, u.rfc_id,
		    u.in_reply_to, u.refs, u.thread, u.labels, u.context, u.risk,
		    u.findings_set, u.finding_max, u.attachments, u.tenant_epoch,
		    u.tenant_box, u.inbox_epoch, u.inbox_box, u.chunks, u.idem,
		    coalesce(u.idem, u.request) AS idem_key, u.request, u.duplicate,
		    u.revises, u.limiter, u.tag_mode, u.tag_mode_epoch,
		    u.body IS NOT NULL AS small,
		    coalesce(octet_length(u.tag) = 32 AND octet_length(u.relay_box)
		        BETWEEN 48 AND 1024 AND u.expiry > now_us
		        AND (u.not_after = 0 OR u.expiry <= u.not_after)
		        AND u.expiry <= now_us + 259500000000, false) AS tagged,
		    u.mid IS NULL OR u.rcpts IS NULL OR u.kinds IS NULL
		        OR u.params IS NULL OR u.size IS NULL OR u.size < 0
		        OR octet_length(u.body_tag) IS DISTINCT FROM 32
		        OR u.send_at IS DISTINCT FROM 0 OR u.not_after IS NULL
		        OR u.not_after < 0 OR u.digest IS NULL OR u.door IS NULL
		        OR u.door NOT IN ('s', 'r', 'm') OR u.risk IS NULL
		        OR u.risk NOT BETWEEN 0 AND 100 OR u.attachments IS NULL
		        OR u.attachments < 0 OR u.tenant_epoch IS NULL
		        OR u.tenant_box IS NULL OR u.inbox_epoch IS NULL
		        OR u.inbox_box IS NULL OR u.chunks IS NULL
		        OR u.chunks NOT BETWEEN 1 AND 4096
		        OR octet_length(u.request) IS DISTINCT FROM 32
		        OR coalesce(octet_length(u.idem) <> 32
		        OR octet_length(u.body) NOT BETWEEN 1 AND 262228
		        OR octet_length(u.context) > 8192
		        OR octet_length(u.labels) > 4096
		        OR octet_length(u.refs) > 16384
		        OR octet_length(u.params) > 65536
		        OR octet_length(u.rfc_id) > 998
		        OR octet_length(u.in_reply_to) > 998
		        OR octet_length(u.tenant_box) > 512
		        OR octet_length(u.inbox_box) > 512, false) AS malformed
		    FROM (SELECT o, submit_batch_1.t[o] AS t, submit_batch_1.k[o] AS k,
		        box[o] AS box, sc[o] AS scope, kd[o] AS kind, ln[o] AS lineage,
		        st[o] AS st, submit_batch_1.mid[o] AS mid,
		        submit_batch_1.rcpts[o] AS rcpts,
		        submit_batch_1.kinds[o] AS kinds,
		        submit_batch_1.params[o] AS params,
		        submit_batch_1.size[o] AS size,
		        submit_batch_1.body_tag[o] AS body_tag,
		        submit_batch_1.send_at[o] AS send_at,
		        submit_batch_1.not_after[o] AS not_after,
		        submit_batch_1.dig[o] AS digest,
		        submit_batch_1.door[o] AS door,
		        submit_batch_1.subject[o] AS subject,
		        submit_batch_1.header_from[o] AS header_from,
		        submit_batch_1.rfc_id[o] AS rfc_id,
		        submit_batch_1.in_reply_to[o] AS in_reply_to,
		        submit_batch_1.refs[o] AS refs,
		        submit_batch_1.thread[o] AS thread,
		        submit_batch_1.labels[o] AS labels,
		        submit_batch_1.context[o] AS context,
		        submit_batch_1.risk[o] AS risk,
		        submit_batch_1.findings_set[o] AS findings_set,
		        submit_batch_1.finding_max[o] AS finding_max,
		        submit_batch_1.attachments[o] AS attachments,
		        submit_batch_1.tenant_epoch[o] AS tenant_epoch,
		        submit_batch_1.tenant_box[o] AS tenant_box,
		        submit_batch_1.inbox_epoch[o] AS inbox_epoch,
		        submit_batch_1.inbox_box[o] AS inbox_box,
		        submit_batch_1.chunks[o] AS chunks,
		        submit_batch_1.body[o] AS body, submit_batch_1.idem[o] AS idem,
		        submit_batch_1.request[o] AS request,
		        submit_batch_1.duplicate[o] AS duplicate,
		        submit_batch_1.revises[o] AS revises,
		        submit_batch_1.limiter[o] AS limiter,
		        submit_batch_1.relay_box[o] AS relay_box,
		        submit_batch_1.tag[o] AS tag,
		        submit_batch_1.expiry[o] AS expiry,
		        submit_batch_1.tag_mode[o] AS tag_mode,
		        submit_batch_1.tag_mode_epoch[o] AS tag_mode_epoch
		        FROM generate_series(1, cardinality(st)) o OFFSET 0) u OFFSET 0) r
		LEFT JOIN d.inbox x ON x.tenant_id = r.t AND x.inbox_id = r.box
		    AND r.st = 200
		LEFT JOIN d.tenant n ON n.tenant_id = x.tenant_id
		LEFT JOIN d.domain d ON d.domain = x.domain
		LEFT JOIN d.mode_rule s ON s.mode = x.mode
		LEFT JOIN d.quota q ON q.tenant_id = x.tenant_id
		    AND q.inbox_id = x.inbox_id
		JOIN d.global_pause p ON p.one
		LEFT JOIN unnest(old) e ON e.o = r.o OFFSET 0) v
		WINDOW ok AS (PARTITION BY v.t, v.box, v.why IS NULL
		    ORDER BY v.o ROWS UNBOUNDED PRECEDING)) w;
	IF array_remove(submit_batch_1.in_reply_to, NULL) <> '{}'
	    OR array_remove(submit_batch_1.refs, NULL) <> '{}' THEN
		SELECT array_agg((SELECT m.thread_id
		    FROM unnest(string_to_array(g.refs, E'\n') || g.in_reply_to)
		        WITH ORDINALITY z(ref, o)
		    JOIN d.message m ON m.rfc_message_id = z.ref
		        AND m.tenant_id = g.t AND m.inbox_id = g.box
		    ORDER BY z.o DESC LIMIT 1) ORDER BY g.o)
		    INTO threads FROM unnest(dec) g;
	END IF;

	-- 5. The rows. An id that exists already stores nothing.
	WITH mi AS (
		INSERT INTO d.message AS m (message_id, tenant_id, inbox_id, version,
		    key_id, door, test, mail_from, rcpt, rcpt_kind, params, size,
		    chunks, body_tag, send_at, not_after, digest, thread_id, subject,
		    header_from, rfc_message_id, in_reply_to, refs, labels, context,
		    revises, attachments, risk, findings_set, finding_max,
		    need_approvals, reasons, mode, mode_epoch, limits_version,
		    tenant_epoch, tenant_box, inbox_epoch, inbox_box)
		SELECT g.mid, g.t, g.box, 1, g.k, g.door, g.kind = 't', g.address,
		    g.rcpt, g.kinds, g.params, g.size, g.chunks, g.body_tag,
		    g.send_at, g.not_after, g.digest,
		    coalesce(g.thread, threads[g.o], g.mid), left(g.subject, 1000),
		    left(g.header_from, 1000), g.rfc_id, g.in_reply_to, g.refs,
		    g.labels, g.context, g.revises, g.attachments, g.risk,
		    g.findings_set, g.finding_max, g.need, g.reasons, g.mode,
		    g.mode_epoch, g.limits_version, g.tenant_epoch, g.tenant_box,
		    g.inbox_epoch, g.inbox_box
		FROM unnest(dec) g WHERE g.no IS NULL
		ON CONFLICT DO NOTHING RETURNING m.message_id
	) SELECT array_agg(mi.message_id) INTO stored FROM mi;
	IF want > coalesce(cardinality(stored), 0) THEN
		FOR i IN SELECT g.o FROM unnest(dec) g WHERE g.no IS NULL
		    AND g.mid <> ALL (coalesce(stored, '{}')) LOOP
			dec[i].no := 'state_conflict';
		END LOOP;
	END IF;
	INSERT INTO d.body (message_id, tenant_id, inbox_id, version, seq, data)
	    SELECT g.mid, g.t, g.box, 1, 0, submit_batch_1.body[g.o]
	    FROM unnest(dec) g WHERE g.no IS NULL
	    AND (whole OR submit_batch_1.body[g.o] IS NOT NULL);
	INSERT INTO d.state (message_id, tenant_id, inbox_id, version, state,
	    risk, hold_until)
	    SELECT g.mid, g.t, g.box, 1, 1, g.risk, g.hold_until
	    FROM unnest(dec) g WHERE g.no IS NULL AND g.rel IS NULL;
	UPDATE d.quota q SET day = today, month = this_month,
	    day_used = CASE WHEN q.day = today THEN q.day_used ELSE 0 END + y.n,
	    month_used = CASE WHEN q.month = this_month THEN q.month_used
	        ELSE 0 END + y.n,
	    held = q.held + y.h, held_bytes = q.held_bytes + y.b
	    FROM (SELECT g.t, g.box, count(*) AS n, count(*) FILTER (
	        WHERE g.rel IS NULL) AS h, coalesce(sum(g.size) FILTER (
	        WHERE g.rel IS NULL), 0) AS b FROM unnest(dec) g
	        WHERE g.no IS NULL GROUP BY 1, 2) y
	    WHERE q.tenant_id = y.t AND q.inbox_id = y.box;
	INSERT INTO d.idem AS z (tenant_id, inbox_id, lineage, key_sha256,
	    request_sha256, message_id)
	    SELECT g.t, g.box, g.lineage, g.idem_key, g.request, g.mid
	    FROM unnest(dec) g WHERE g.no IS NULL
	    ON CONFLICT (tenant_id, inbox_id, lineage, key_sha256) DO UPDATE
	    SET request_sha256 = excluded.request_sha256,
	    message_id = excluded.message_id, created_at = clock_timestamp();
	INSERT INTO d.audit (tenant_id, actor, event, message_id, detail)
	    SELECT g.t, 'agent:' || g.t::text || '.' || g.k::text,
	    'message.submitted', g.mid, '{"digest":"' || encode(g.digest, 'hex')
	    || '","inbox":' || g.box::text || ',"recipients":'
	    || cardinality(g.rcpt)::text || '}'
	    FROM unnest(dec) g WHERE g.no IS NULL;
	IF NOT whole THEN
		DELETE FROM d.upload u USING unnest(dec) g WHERE g.no IS NULL
		    AND submit_batch_1.body[g.o] IS NULL AND u.message_id = g.mid
		    AND u.tenant_id = g.t AND u.inbox_id = g.box;
	END IF;

	-- 6. Mail that mode or rule lets go: the referee decides; else it waits.
	IF frees THEN
		FOR i IN SELECT g.o FROM unnest(dec) g WHERE g.no IS NULL
		    AND g.rel IS NOT NULL ORDER BY g.o LOOP
			CONTINUE WHEN d.policy_release(dec[i].t, dec[i].box, dec[i].mid,
			    dec[i].rel, relay_box[i], tag[i], expiry[i],
			    dec[i].hold_until);
			INSERT INTO d.state (message_id, tenant_id, inbox_id, version,
			    state, risk, hold_until) VALUES (dec[i].mid, dec[i].t,
			    dec[i].box, 1, 1, dec[i].risk, dec[i].hold_until);
			UPDATE d.quota q SET held = q.held + 1,
			    held_bytes = q.held_bytes + dec[i].size
			    WHERE q.tenant_id = dec[i].t AND q.inbox_id = dec[i].box;
			dec[i].reasons := 'mode';
			dec[i].rel := NULL;
		END LOOP;
	END IF;

	-- 7. Was a refused row stored by an earlier call? Then say so.
	IF coalesce(cardinality(stored), 0) < cardinality(dec) THEN
		SELECT array_agg(ROW(g.o, g.mid, NULL, NULL, z.state, z.version,
		    z.round, z.hold_until, m.thread_id, m.digest, m.reasons,
		    m.key_id)::d.submit_old) INTO same
		    FROM unnest(dec) g
		    JOIN d.state z ON z.message_id = g.mid AND z.tenant_id = g.t
		        AND z.inbox_id = g.box
		    JOIN d.message m ON m.message_id = z.message_id
		        AND m.tenant_id = z.tenant_id AND m.version = z.version
		    WHERE g.no NOT IN ('again', 'store_unavailable',
		        'unknown_api_key', 'key_scope', 'missing_permission',
		        'inbox_read_only', 'domain_not_verified');
		FOR i IN SELECT y.o FROM unnest(same) y LOOP
			dec[i].no := (SELECT CASE WHEN y.digest = dec[i].digest
			    AND y.key_id = dec[i].k THEN 'replay.same'
			    ELSE 'state_conflict' END FROM unnest(same) y WHERE y.o = i);
		END LOOP;
	END IF;
	RETURN QUERY SELECT g.o, CASE coalesce(g.no, '')
	        WHEN '' THEN 202 WHEN 'replay.old' THEN 200
	        WHEN 'replay.held' THEN 200 WHEN 'replay.same' THEN 200
	        WHEN 'unknown_api_key' THEN 401 WHEN 'key_scope' THEN 403
	        WHEN 'missing_permission' THEN 403 WHEN 'inbox_read_only' THEN 403
	        WHEN 'domain_not_verified' THEN 403
	        WHEN 'message_rejected' THEN 403 WHEN 'state_conflict' THEN 409
	        WHEN 'idempotency_conflict' THEN 409 WHEN 'digest_mismatch' THEN 412
	        WHEN 'payload_too_large' THEN 413 WHEN 'rate_limited' THEN 429
	        WHEN 'held_limit' THEN 429 WHEN 'store_unavailable' THEN 503
	        WHEN 'limiter_unavailable' THEN 503 ELSE 422 END,
	    CASE WHEN y.o IS NULL THEN g.no END,
	    coalesce(y.message_id, g.mid),
	    CASE WHEN y.o IS NOT NULL THEN y.thread_id WHEN g.no IS NULL
	        THEN coalesce(g.thread, threads[g.o], g.mid) END,
	    CASE WHEN y.o IS NOT NULL THEN y.state WHEN g.no IS NULL
	        THEN CASE WHEN g.rel IS NULL THEN 1 ELSE 2 END::smallint END,
	    CASE WHEN y.o IS NOT NULL THEN y.version WHEN g.no IS NULL
	        THEN 1::smallint END,
	    CASE WHEN y.o IS NOT NULL THEN y.round WHEN g.no IS NULL
	        THEN 1::smallint END,
	    CASE WHEN y.o IS NOT NULL THEN y.digest WHEN g.no IS NULL
	        THEN g.digest END,
	    CASE WHEN y.o IS NOT NULL THEN y.reasons WHEN g.no IS NULL
	        THEN g.reasons END,
	    CASE WHEN y.state = 1 THEN y.hold_until WHEN g.no IS NULL
	        AND g.rel IS NULL THEN g.hold_until END,
	    CASE WHEN y.o IS NULL THEN g.wait END, y.o IS NOT NULL,
	    coalesce(g.no = 'replay.held', false)
	    FROM unnest(dec) g
	    LEFT JOIN (SELECT y.* FROM unnest(same) y UNION ALL
	        SELECT y.* FROM unnest(old) y) y ON y.o = g.o
	        AND g.no = ANY (CASE WHEN y.at IS NULL THEN '{replay.same}'
	        ELSE '{replay.old,replay.held}' END::text[])
	    WHERE g.no IS DISTINCT FROM 'again' ORDER BY g.o;

	-- 8. Repeats inside this call meet what the first of them left.
	FOREACH i IN ARRAY coalesce(again, '{}') LOOP
		RETURN QUERY SELECT i, x.status, x.code, x.message_id, x.thread_id,
		    x.state, x.version, x.round, x.digest, x.reasons, x.hold_until,
		    x.wait, x.replay, x.already_held
		    FROM api.submit_batch_1(t[i:i], k[i:i], a[i:i], mid[i:i],
		    rcpts[i:i], kinds[i:i], params[i:i], size[i:i], body_tag[i:i],
		    send_at[i:i], not_after[i:i], submit_batch_1.dig[i:i],
		    door[i:i], subject[i:i], header_from[i:i], rfc_id[i:i],
		    in_reply_to[i:i], refs[i:i], thread[i:i], labels[i:i],
		    context[i:i], risk[i:i], findings_set[i:i], finding_max[i:i],
		    attachments[i:i], tenant_epoch[i:i], tenant_box[i:i],
		    inbox_epoch[i:i], inbox_box[i:i], chunks[i:i], body[i:i],
		    idem[i:i], request[i:i], duplicate[i:i], revises[i:i],
		    limiter[i:i], relay_box[i:i], tag[i:i], expiry[i:i],
		    tag_mode[i:i], tag_mode_epoch[i:i]) x;
	END LOOP;
END $$;

CREATE FUNCTION api.submit_1(t bigint, k bigint, a bytea, mid uuid,
	rcpts text, kinds text, params text, size bigint, body_tag bytea,
	send_at bigint, not_after bigint, dig bytea, door text, subject text,
	header_from text, rfc_id text, in_reply_to text, refs text, thread uuid,
	labels text, context text, risk smallint, findings_set smallint,
	finding_max smallint, attachments int, tenant_epoch int,
	tenant_box bytea, inbox_epoch int, inbox_box bytea, chunks int,
	body bytea, idem bytea, request bytea, duplicate boolean, revises uuid,
	limiter boolean, relay_box bytea, tag bytea, expiry bigint,
	tag_mode smallint, tag_mode_epoch int)
	RETURNS TABLE (ord int, status int, code text, message_id uuid,
	thread_id uuid, state smallint, version smallint, round smallint,
	digest bytea, reasons text, hold_until timestamptz, wait int,
	replay boolean, already_held boolean) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT * FROM api.submit_batch_1(
	    ARRAY[submit_1.t], ARRAY[submit_1.k], ARRAY[submit_1.a],
	    ARRAY[submit_1.mid], ARRAY[submit_1.rcpts], ARRAY[submit_1.kinds],
	    ARRAY[submit_1.params], ARRAY[submit_1.size],
	    ARRAY[submit_1.body_tag], ARRAY[submit_1.send_at],
	    ARRAY[submit_1.not_after], ARRAY[submit_1.dig],
	    ARRAY[submit_1.door], ARRAY[submit_1.subject],
	    ARRAY[submit_1.header_from], ARRAY[submit_1.rfc_id],
	    ARRAY[submit_1.in_reply_to], ARRAY[submit_1.refs],
	    ARRAY[submit_1.thread], ARRAY[submit_1.labels],
	    ARRAY[submit_1.context], ARRAY[submit_1.risk],
	    ARRAY[submit_1.findings_set], ARRAY[submit_1.finding_max],
	    ARRAY[submit_1.attachments], ARRAY[submit_1.tenant_epoch],
	    ARRAY[submit_1.tenant_box], ARRAY[submit_1.inbox_epoch],
	    ARRAY[submit_1.inbox_box], ARRAY[submit_1.chunks],
	    ARRAY[submit_1.body], ARRAY[submit_1.idem], ARRAY[submit_1.request],
	    ARRAY[submit_1.duplicate], ARRAY[submit_1.revises],
	    ARRAY[submit_1.limiter], ARRAY[submit_1.relay_box],
	    ARRAY[submit_1.tag], ARRAY[submit_1.expiry],
	    ARRAY[submit_1.tag_mode], ARRAY[submit_1.tag_mode_epoch]);
END $$;

CREATE FUNCTION api.put_chunk_1(t bigint, k bigint, a bytea, mid uuid,
	seq int, data bytea) RETURNS TABLE (status int, code text)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	u record;
	old bytea;
	age_us bigint := abs(d.uuid_ms(mid) * 1000 - d.us(clock_timestamp()));
	open_bytes bigint;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent(t, k, a);
	IF c.status <> 200 THEN
		RETURN QUERY SELECT c.status, c.code;
		RETURN;
	END IF;
	IF c.scope = 'r' THEN
		RETURN QUERY SELECT 403, 'key_scope';
		RETURN;
	END IF;
	IF mid IS NULL OR put_chunk_1.seq IS NULL OR put_chunk_1.data IS NULL
	    OR put_chunk_1.seq NOT BETWEEN 0 AND 4095
	    OR octet_length(put_chunk_1.data) NOT BETWEEN 1 AND 262228
	    OR age_us > 86400000000 THEN
		RETURN QUERY SELECT 422, 'validation_error';
		RETURN;
	END IF;
	-- The counter row orders the uploads of an inbox.
	PERFORM 1 FROM d.quota q WHERE q.tenant_id = t
	    AND q.inbox_id = c.inbox_id FOR UPDATE;
	SELECT p.chunks, p.key_id INTO u FROM d.upload p
	    WHERE p.message_id = mid AND p.tenant_id = t
	    AND p.inbox_id = c.inbox_id;
	IF NOT FOUND THEN
		IF EXISTS (SELECT 1 FROM d.state s WHERE s.message_id = mid
		    AND s.tenant_id = t AND s.inbox_id = c.inbox_id) THEN
			RETURN QUERY SELECT 409, 'state_conflict';
			RETURN;
		END IF;
		IF age_us > 600000000 THEN
			RETURN QUERY SELECT 422, 'validation_error';
			RETURN;
		END IF;
	ELSIF u.key_id <> k THEN
		RETURN QUERY SELECT 404, 'not_found';
		RETURN;
	END IF;
	SELECT b.data INTO old FROM d.body b WHERE b.message_id = mid
	    AND b.tenant_id = t AND b.version = 1 AND b.inbox_id = c.inbox_id
	    AND b.seq = put_chunk_1.seq;
	IF FOUND THEN
		IF old = put_chunk_1.data THEN
			RETURN QUERY SELECT 200, NULL::text;
		ELSE
			RETURN QUERY SELECT 409, 'state_conflict';
		END IF;
		RETURN;
	END IF;
	SELECT coalesce(sum(p.bytes), 0) INTO open_bytes FROM d.upload p
	    WHERE p.tenant_id = t AND p.inbox_id = c.inbox_id;
	IF open_bytes + octet_length(put_chunk_1.data) > (SELECT x.lim_bytes
	    FROM d.inbox x WHERE x.tenant_id = t AND x.inbox_id = c.inbox_id)
	    THEN
		RETURN QUERY SELECT 429, 'held_limit';
		RETURN;
	END IF;
	INSERT INTO d.upload AS p (message_id, tenant_id, inbox_id, key_id,
	    chunks, bytes) VALUES (mid, t, c.inbox_id, k, 1,
	    octet_length(put_chunk_1.data)) ON CONFLICT (message_id, tenant_id,
	    inbox_id) DO UPDATE SET chunks = p.chunks + 1, bytes = p.bytes
	    + octet_length(put_chunk_1.data);
	INSERT INTO d.body (message_id, tenant_id, inbox_id, version, seq, data)
	    VALUES (mid, t, c.inbox_id, 1, put_chunk_1.seq, put_chunk_1.data);
	RETURN QUERY SELECT 200, NULL::text;
END $$;
