-- SPDX-License-Identifier: ISC
-- 0004_submit.sql - what agents may do: sign in, submit, cancel, claim. Every
-- function checks the credential in the database, on every call.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_submit, p_policy;

-- Proves t, k, a; sets the identity of this call. a is A (32 bytes), or a
-- connection handle (24 bytes) made by the same login. Runs as its caller.
CREATE FUNCTION d.agent(t bigint, k bigint, a bytea, OUT status int,
	OUT code text, OUT inbox_id bigint, OUT scope "char", OUT kind "char",
	OUT lineage bigint) LANGUAGE plpgsql AS $$
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
	SET postern.tenants = '' SET postern.actor = '' AS $$
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
		DELETE FROM d.handle h WHERE h.tenant_id = t AND h.key_id = k
		    AND h.expires_at < clock_timestamp();
		INSERT INTO d.handle AS h (tenant_id, key_id, handle_sha256, login,
		    expires_at) VALUES (t, k, sha256(auth_1.handle), session_user,
		    clock_timestamp() + interval '10 minutes')
		    ON CONFLICT DO NOTHING;
	END IF;
	UPDATE d.credential r SET last_used = clock_timestamp()
	    WHERE r.tenant_id = t AND r.key_id = k AND (r.last_used IS NULL
	    OR r.last_used < clock_timestamp() - interval '1 hour');
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

CREATE TYPE d.seen AS (thread_id uuid, digest bytea, reasons text,
	key_id bigint);
CREATE TYPE d.submit_result AS (ord int, status int, code text,
	message_id uuid, thread_id uuid, state smallint, version smallint,
	round smallint, digest bytea, reasons text, hold_until timestamptz,
	wait int, replay boolean, already_held boolean, tenant_id bigint,
	inbox_id bigint, release "char");

-- One call for a whole commit: arrays in, one outcome a row. Rows that repeat
-- an id or an idempotency key of this very call run after the others, alone.
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
	SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
	box bigint[];
	sc "char"[];
	kd "char"[];
	ln bigint[];
	st int[];
	boxes text[];
	again int[];
	first boolean[];
	res d.submit_result[];
	one d.submit_result;
	i int;
	now_at timestamptz := clock_timestamp();
	now_us bigint := d.us(clock_timestamp());
	today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
	this_month date := date_trunc('month', clock_timestamp()
	    AT TIME ZONE 'UTC')::date;
	any_lists boolean;
	keys bytea[];
BEGIN
	-- 250 and 202 mean that it is on the disk, whatever the client set.
	PERFORM set_config('synchronous_commit', 'on', true);

	-- 1. Whose key is it? NULL inbox: nobody's.
	SELECT array_agg(c.inbox_id ORDER BY u.o), array_agg(c.scope ORDER BY u.o),
	    array_agg(c.kind ORDER BY u.o), array_agg(c.lineage ORDER BY u.o),
	    array_agg(CASE WHEN c.alive AND c.proven THEN 200
	        WHEN c.alive AND octet_length(u.a) = 24 THEN 503
	        ELSE 401 END ORDER BY u.o)
	    INTO box, sc, kd, ln, st
	    FROM unnest(submit_batch_1.t, submit_batch_1.k, submit_batch_1.a)
	        WITH ORDINALITY u(t, k, a, o)
	    LEFT JOIN LATERAL (SELECT r.inbox_id, r.scope, r.lineage,
	        CASE WHEN r.kind = 's' AND r.opened_by IS NOT NULL THEN 'o'::"char"
	            ELSE r.kind END AS kind,
	        r.revoked_at IS NULL AND (r.expires_at IS NULL
	        OR r.expires_at > now_at) AND (r.parent_key IS NULL
	        OR EXISTS (SELECT 1 FROM d.credential p
	            WHERE p.tenant_id = r.tenant_id AND p.key_id = r.parent_key
	            AND p.revoked_at IS NULL AND (p.expires_at IS NULL
	            OR p.expires_at > now_at))) AS alive,
	        CASE octet_length(u.a) WHEN 32 THEN r.auth_sha256 = sha256(u.a)
	        WHEN 24 THEN EXISTS (SELECT 1 FROM d.handle h
	            WHERE h.tenant_id = u.t AND h.key_id = u.k
	            AND h.handle_sha256 = sha256(u.a) AND h.login = session_user
	            AND h.expires_at > now_at) ELSE false END AS proven
	        FROM d.credential r WHERE r.tenant_id = u.t AND r.key_id = u.k
	        OFFSET 0) c ON true;
	IF st IS NULL THEN
		RETURN;
	END IF;
	SELECT array_agg(DISTINCT u.t::text || '.' || u.i::text) INTO boxes
	    FROM unnest(submit_batch_1.t, box, st) u(t, i, s) WHERE u.s = 200;
	PERFORM set_config('postern.boxes', coalesce(boxes::text, ''), true);

	-- 2. The mode holds still, then the counters, both in one order.
	PERFORM 1 FROM d.inbox x WHERE (x.tenant_id, x.inbox_id) IN (SELECT u.t,
	    u.i FROM unnest(submit_batch_1.t, box, st) u(t, i, s)
	    WHERE u.s = 200) ORDER BY x.tenant_id, x.inbox_id FOR SHARE;
	PERFORM 1 FROM d.quota q WHERE (q.tenant_id, q.inbox_id) IN (SELECT u.t,
	    u.i FROM unnest(submit_batch_1.t, box, st) u(t, i, s)
	    WHERE u.s = 200) ORDER BY q.tenant_id, q.inbox_id FOR UPDATE;

	SELECT array_agg(u.r1 = 1 AND u.r2 = 1 ORDER BY u.o),
	    array_agg(u.key ORDER BY u.o) INTO first, keys
	    FROM (SELECT w.o, coalesce(w.i, w.q) AS key, row_number() OVER (PARTITION BY w.m ORDER BY w.o)
	        AS r1, row_number() OVER (PARTITION BY w.t, w.l, coalesce(w.i, w.q)
	        ORDER BY w.o) AS r2 FROM unnest(submit_batch_1.mid,
	        submit_batch_1.t, ln, submit_batch_1.idem, submit_batch_1.request)
	        WITH ORDINALITY w(m, t, l, i, q, o)) u;
	any_lists := EXISTS (SELECT 1 FROM d.list_entry e
	    WHERE e.ended_at IS NULL);

	-- 3. Everything else in one statement.
	WITH r AS MATERIALIZED (
		SELECT u.*, x.address, x.mode, x.mode_epoch, x.limits_version,
		    x.rcpt_max, x.size_max, x.lim_held, x.lim_bytes,
		    least(x.lim_day - CASE WHEN q.day = today THEN q.day_used
		        ELSE 0 END, x.lim_month - CASE WHEN q.month = this_month
		        THEN q.month_used ELSE 0 END) AS left_count,
		    CASE WHEN q.day = today AND q.day_used >= x.lim_day
		        OR q.month <> this_month OR q.month_used < x.lim_month
		        THEN (today + 1)::timestamp ELSE (this_month
		        + interval '1 month')::timestamp END AT TIME ZONE 'UTC'
		        AS more_at,
		    q.held, q.held_bytes, s.releases, s.accepts,
		    x.paused_at IS NOT NULL OR n.paused_at IS NOT NULL
		        OR p.paused_at IS NOT NULL AS paused,
		    x.suspended_at IS NOT NULL AS suspended,
		    x.deleted_at IS NOT NULL OR n.disabled_at IS NOT NULL AS gone,
		    o.verified_at IS NOT NULL AND o.removed_at IS NULL AS verified,
		    coalesce(x.need_approvals, n.need_approvals) AS need,
		    least(now_at + coalesce(x.hold_for, n.hold_for), to_timestamp(
		        nullif(u.not_after, 0) / 1000000.0)) AS hold_until,
		    string_to_array(u.rcpts, E'\n') AS rcpt,
		    e.message_id AS old_id, e.request_sha256 AS old_request,
		    e.created_at AS old_at, e.state AS old_state,
		    e.version AS old_version, e.round AS old_round,
		    e.hold_until AS old_hold, (e.m).thread_id AS old_thread,
		    (e.m).digest AS old_digest, (e.m).reasons AS old_reasons,
		    ms.state AS same_state, ms.version AS same_version,
		    ms.round AS same_round, ms.hold_until AS same_hold,
		    (ms.m).thread_id AS same_thread, (ms.m).digest AS same_digest,
		    (ms.m).reasons AS same_reasons, (ms.m).key_id AS same_key,
		    up.chunks AS put_chunks
		FROM unnest(submit_batch_1.t, submit_batch_1.k, box, sc, kd, ln, st,
		    first, submit_batch_1.mid, submit_batch_1.rcpts,
		    submit_batch_1.kinds, submit_batch_1.params,
		    submit_batch_1.size, submit_batch_1.body_tag,
		    submit_batch_1.send_at, submit_batch_1.not_after,
		    submit_batch_1.dig, submit_batch_1.door,
		    submit_batch_1.subject, submit_batch_1.header_from,
		    submit_batch_1.rfc_id, submit_batch_1.in_reply_to,
		    submit_batch_1.refs, submit_batch_1.thread,
		    submit_batch_1.labels, submit_batch_1.context,
		    submit_batch_1.risk, submit_batch_1.findings_set,
		    submit_batch_1.finding_max, submit_batch_1.attachments,
		    submit_batch_1.tenant_epoch, submit_batch_1.tenant_box,
		    submit_batch_1.inbox_epoch, submit_batch_1.inbox_box,
		    submit_batch_1.chunks, submit_batch_1.body,
		    submit_batch_1.idem, submit_batch_1.request,
		    submit_batch_1.duplicate, submit_batch_1.revises,
		    submit_batch_1.limiter, submit_batch_1.relay_box,
		    submit_batch_1.tag, submit_batch_1.expiry,
		    submit_batch_1.tag_mode, submit_batch_1.tag_mode_epoch, keys)
		    WITH ORDINALITY u(t, k, box, scope, kind, lineage, st, fresh,
		    mid, rcpts, kinds, params, size, body_tag, send_at, not_after,
		    digest, door, subject, header_from, rfc_id, in_reply_to, refs,
		    thread, labels, context, risk, findings_set, finding_max,
		    attachments, tenant_epoch, tenant_box, inbox_epoch, inbox_box,
		    chunks, body, idem, request, duplicate, revises, limiter,
		    relay_box, tag, expiry, tag_mode, tag_mode_epoch, idem_key, o)
		LEFT JOIN d.inbox x ON x.tenant_id = u.t AND x.inbox_id = u.box
		    AND u.st = 200
		LEFT JOIN d.tenant n ON n.tenant_id = x.tenant_id
		LEFT JOIN d.domain o ON o.domain = x.domain
		LEFT JOIN d.mode_rule s ON s.mode = x.mode
		LEFT JOIN d.quota q ON q.tenant_id = x.tenant_id
		    AND q.inbox_id = x.inbox_id
		JOIN d.global_pause p ON p.one
		LEFT JOIN LATERAL (SELECT y.message_id, y.request_sha256,
		    y.created_at, z.state, z.version, z.round, z.hold_until,
		    (SELECT ROW(m.thread_id, m.digest, m.reasons, m.key_id)::d.seen
		        FROM d.message m WHERE m.message_id = z.message_id
		        AND m.tenant_id = z.tenant_id AND m.version = z.version) AS m
		    FROM d.idem y JOIN d.state z ON z.message_id = y.message_id
		        AND z.tenant_id = y.tenant_id
		    WHERE y.tenant_id = x.tenant_id AND y.inbox_id = x.inbox_id
		    AND y.lineage = u.lineage
		    AND y.key_sha256 = u.idem_key LIMIT 1) e ON true
		LEFT JOIN LATERAL (SELECT z.state, z.version, z.round, z.hold_until,
		    (SELECT ROW(m.thread_id, m.digest, m.reasons, m.key_id)::d.seen
		        FROM d.message m WHERE m.message_id = z.message_id
		        AND m.tenant_id = z.tenant_id AND m.version = z.version) AS m
		    FROM d.state z WHERE z.message_id = u.mid
		    AND z.tenant_id = x.tenant_id AND z.inbox_id = x.inbox_id
		    LIMIT 1) ms ON true
		LEFT JOIN LATERAL (SELECT y.chunks FROM d.upload y
		    WHERE u.body IS NULL AND y.message_id = u.mid
		    AND y.tenant_id = x.tenant_id AND y.inbox_id = x.inbox_id
		    LIMIT 1) up ON true
	), v AS MATERIALIZED (
		SELECT r.*, CASE
		    WHEN r.st <> 200 OR r.gone THEN
		        CASE r.st WHEN 503 THEN 'store_unavailable'
		            ELSE 'unknown_api_key' END
		    WHEN r.scope = 'r' THEN 'key_scope'
		    WHEN r.suspended THEN 'missing_permission'
		    WHEN NOT r.accepts THEN 'inbox_read_only'
		    WHEN NOT r.verified THEN 'domain_not_verified'
		    WHEN r.mid IS NULL OR r.rcpts IS NULL OR r.kinds IS NULL
		        OR r.params IS NULL OR r.size IS NULL OR r.size < 0
		        OR octet_length(r.body_tag) IS DISTINCT FROM 32
		        OR r.send_at IS DISTINCT FROM 0 OR r.not_after IS NULL
		        OR r.not_after < 0 OR r.digest IS NULL OR r.door IS NULL
		        OR r.door NOT IN ('s', 'r', 'm') OR r.risk IS NULL
		        OR r.risk NOT BETWEEN 0 AND 100 OR r.attachments IS NULL
		        OR r.attachments < 0 OR r.tenant_epoch IS NULL
		        OR r.tenant_box IS NULL OR r.inbox_epoch IS NULL
		        OR r.inbox_box IS NULL OR r.chunks IS NULL
		        OR r.chunks NOT BETWEEN 1 AND 4096
		        OR octet_length(r.request) IS DISTINCT FROM 32
		        OR octet_length(r.idem) <> 32
		        OR octet_length(r.body) NOT BETWEEN 1 AND 262228
		        OR octet_length(r.context) > 8192
		        OR octet_length(r.labels) > 4096
		        OR octet_length(r.refs) > 16384
		        OR octet_length(r.params) > 65536
		        OR octet_length(r.rfc_id) > 998
		        OR octet_length(r.in_reply_to) > 998
		        OR octet_length(r.tenant_box) > 512
		        OR octet_length(r.inbox_box) > 512
		        THEN 'validation_error'
		    WHEN r.same_state IS NOT NULL THEN
		        CASE WHEN r.same_digest = r.digest AND r.same_key = r.k
		            THEN 'replay.same' ELSE 'state_conflict' END
		    WHEN r.old_state IS NOT NULL AND r.idem IS NOT NULL
		        AND NOT (r.door = 's' AND r.old_at < now_at
		        - interval '24 hours') THEN
		        CASE WHEN r.old_request = r.request THEN 'replay.old'
		            ELSE 'idempotency_conflict' END
		    WHEN r.old_state = 1 AND r.idem IS NULL
		        AND r.duplicate IS NOT TRUE THEN 'replay.held'
		    WHEN r.size > r.size_max THEN 'payload_too_large'
		    WHEN cardinality(r.rcpt) > r.rcpt_max THEN 'too_many_recipients'
		    WHEN cardinality(r.rcpt) = 0
		        OR length(r.kinds) <> cardinality(r.rcpt)
		        OR r.kinds !~ '^[tcbo]*$' OR r.rcpts ~ '[\x01-\x09\x0b-\x1f\x7f]'
		        OR NOT (SELECT bool_and(octet_length(y) <= 320 AND y ~ '.@[^@ ]+$')
		            FROM unnest(r.rcpt) y)
		        OR cardinality(r.rcpt) > 1 AND r.rcpt <> (SELECT array_agg(
		            DISTINCT y COLLATE "C" ORDER BY y COLLATE "C")
		            FROM unnest(r.rcpt) y) THEN 'invalid_address'
		    WHEN r.body IS NOT NULL AND (r.chunks <> 1
		            OR abs(d.uuid_ms(r.mid) * 1000 - now_us) > 600000000)
		        OR r.body IS NULL AND (r.put_chunks IS DISTINCT FROM r.chunks
		            OR abs(d.uuid_ms(r.mid) * 1000 - now_us) > 86400000000)
		        OR r.not_after <> 0 AND r.not_after <= now_us
		        THEN 'validation_error'
		    WHEN r.digest <> d.digest_1(r.t, r.box, r.mid, 1::smallint,
		        r.kind = 't', r.address, r.rcpt, r.params, r.size, r.body_tag,
		        r.send_at, r.not_after) THEN 'digest_mismatch'
		    WHEN any_lists AND EXISTS (SELECT 1 FROM unnest(r.rcpt) y
		        JOIN d.list_entry e ON e.entry IN (d.canon(y),
		            '@' || d.domain_of(y)) AND e.ended_at IS NULL
		        WHERE (e.expires_at IS NULL OR e.expires_at > now_at)
		        AND (e.tenant_id = 0 OR e.tenant_id = r.t
		        AND e.inbox_id IN (0, r.box))) THEN 'message_rejected'
		    END AS why,
		    CASE WHEN r.kind <> 's' AND NOT r.paused AND r.tag IS NOT NULL
		        AND r.tag_mode = r.mode AND r.tag_mode_epoch = r.mode_epoch
		        AND octet_length(r.tag) = 32 AND octet_length(r.relay_box)
		        BETWEEN 48 AND 1024 AND r.expiry > now_us
		        AND (r.not_after = 0 OR r.expiry <= r.not_after)
		        AND r.expiry <= now_us + 259500000000
		        THEN CASE WHEN r.releases THEN 'm'::"char"
		        WHEN r.findings_set >= 1 THEN 'r'::"char" END END AS rel
		FROM r WHERE r.fresh
	), w AS MATERIALIZED (
		SELECT v.*, CASE WHEN v.why IS NOT NULL THEN v.why
		    WHEN row_number() OVER ok > v.left_count THEN 'rate_limited'
		    WHEN v.rel = 'm' AND v.limiter IS NOT TRUE
		        THEN 'limiter_unavailable'
		    WHEN v.rel IS NULL AND (v.held + count(*) FILTER (
		        WHERE v.rel IS NULL) OVER ok > v.lim_held
		        OR v.held_bytes + sum(v.size) FILTER (WHERE v.rel IS NULL)
		        OVER ok > v.lim_bytes) THEN 'held_limit'
		    END AS no
		FROM v WINDOW ok AS (PARTITION BY v.t, v.box, v.why IS NULL
		    ORDER BY v.o ROWS UNBOUNDED PRECEDING)
	), g AS MATERIALIZED (
		SELECT w.*, CASE WHEN w.rel IS NOT NULL THEN ''
		    WHEN w.paused THEN 'paused' ELSE 'mode' END AS reasons,
		    CASE WHEN w.thread IS NOT NULL THEN w.thread
		    WHEN w.in_reply_to IS NULL AND w.refs IS NULL THEN w.mid
		    ELSE coalesce((SELECT m.thread_id
		        FROM unnest(string_to_array(w.refs, E'\n')
		            || w.in_reply_to) WITH ORDINALITY z(ref, o)
		        JOIN d.message m ON m.rfc_message_id = z.ref
		            AND m.tenant_id = w.t AND m.inbox_id = w.box
		        ORDER BY z.o DESC LIMIT 1), w.mid) END AS thread_id
		FROM w WHERE w.no IS NULL
	), mi AS (
		INSERT INTO d.message (message_id, tenant_id, inbox_id, version,
		    key_id, door, test, mail_from, rcpt, rcpt_kind, params, size,
		    chunks, body_tag, send_at, not_after, digest, thread_id, subject,
		    header_from, rfc_message_id, in_reply_to, refs, labels, context,
		    revises, attachments, risk, findings_set, finding_max,
		    need_approvals, reasons, mode, mode_epoch, limits_version,
		    tenant_epoch, tenant_box, inbox_epoch, inbox_box)
		SELECT g.mid, g.t, g.box, 1, g.k, g.door::"char", g.kind = 't',
		    g.address, g.rcpt, g.kinds, g.params, g.size, g.chunks,
		    g.body_tag, g.send_at, g.not_after, g.digest, g.thread_id,
		    left(g.subject, 1000), left(g.header_from, 1000), g.rfc_id,
		    g.in_reply_to, g.refs, g.labels, g.context, g.revises,
		    g.attachments, g.risk, g.findings_set, g.finding_max, g.need,
		    g.reasons, g.mode, g.mode_epoch, g.limits_version,
		    g.tenant_epoch, g.tenant_box, g.inbox_epoch, g.inbox_box
		FROM g ON CONFLICT DO NOTHING RETURNING message_id, tenant_id
	), bi AS (
		INSERT INTO d.body (message_id, tenant_id, inbox_id, version, seq,
		    data)
		SELECT g.mid, g.t, g.box, 1, 0, g.body
		FROM g JOIN mi ON mi.message_id = g.mid AND mi.tenant_id = g.t
		WHERE g.body IS NOT NULL
	), si AS (
		INSERT INTO d.state (message_id, tenant_id, inbox_id, version, state,
		    risk, hold_until)
		SELECT g.mid, g.t, g.box, 1, 1, g.risk, g.hold_until
		FROM g JOIN mi ON mi.message_id = g.mid AND mi.tenant_id = g.t
		WHERE g.rel IS NULL
	), qi AS (
		UPDATE d.quota q SET day = today, month = this_month,
		    day_used = CASE WHEN q.day = today THEN q.day_used ELSE 0 END
		        + y.n,
		    month_used = CASE WHEN q.month = this_month THEN q.month_used
		        ELSE 0 END + y.n,
		    held = q.held + y.h, held_bytes = q.held_bytes + y.b
		FROM (SELECT g.t, g.box, count(*) AS n, count(*) FILTER (
		        WHERE g.rel IS NULL) AS h, coalesce(sum(g.size) FILTER (
		        WHERE g.rel IS NULL), 0) AS b FROM g
		        JOIN mi ON mi.message_id = g.mid AND mi.tenant_id = g.t
		        GROUP BY 1, 2) y
		WHERE q.tenant_id = y.t AND q.inbox_id = y.box
	), ii AS (
		INSERT INTO d.idem AS z (tenant_id, inbox_id, lineage, key_sha256,
		    request_sha256, message_id)
		SELECT g.t, g.box, g.lineage, g.idem_key, g.request, g.mid FROM g
		    JOIN mi ON mi.message_id = g.mid AND mi.tenant_id = g.t
		ON CONFLICT (tenant_id, inbox_id, lineage, key_sha256) DO UPDATE
		    SET request_sha256 = excluded.request_sha256,
		    message_id = excluded.message_id,
		    created_at = clock_timestamp()
	), ud AS (
		DELETE FROM d.upload u USING g WHERE g.body IS NULL
		    AND u.message_id = g.mid AND u.tenant_id = g.t
		    AND u.inbox_id = g.box
	), ai AS (
		INSERT INTO d.audit (tenant_id, actor, event, message_id, detail)
		SELECT g.t, 'agent:' || g.t::text || '.' || g.k::text,
		    'message.submitted', g.mid, '{"digest":"'
		    || encode(g.digest, 'hex') || '","inbox":' || g.box::text
		    || ',"recipients":' || cardinality(g.rcpt)::text || '}'
		FROM g JOIN mi ON mi.message_id = g.mid AND mi.tenant_id = g.t
	)
	SELECT array_agg(ROW(w.o, CASE
	        WHEN mi.message_id IS NOT NULL THEN 202
	        WHEN w.no IS NULL THEN 409
	        WHEN w.no LIKE 'replay.%' THEN 200
	        ELSE CASE w.no WHEN 'unknown_api_key' THEN 401
	        WHEN 'key_scope' THEN 403 WHEN 'missing_permission' THEN 403
	        WHEN 'inbox_read_only' THEN 403 WHEN 'domain_not_verified' THEN 403
	        WHEN 'message_rejected' THEN 403 WHEN 'state_conflict' THEN 409
	        WHEN 'idempotency_conflict' THEN 409 WHEN 'digest_mismatch' THEN 412
	        WHEN 'payload_too_large' THEN 413 WHEN 'rate_limited' THEN 429
	        WHEN 'held_limit' THEN 429 WHEN 'store_unavailable' THEN 503
	        WHEN 'limiter_unavailable' THEN 503 ELSE 422 END END,
	    CASE WHEN mi.message_id IS NULL AND w.no IS NULL
	        THEN 'state_conflict'
	        WHEN w.no NOT LIKE 'replay.%' THEN w.no END,
	    CASE WHEN w.no IN ('replay.old', 'replay.held') THEN w.old_id
	        ELSE w.mid END,
	    CASE w.no WHEN 'replay.old' THEN w.old_thread
	        WHEN 'replay.held' THEN w.old_thread
	        WHEN 'replay.same' THEN w.same_thread ELSE g.thread_id END,
	    CASE w.no WHEN 'replay.old' THEN w.old_state
	        WHEN 'replay.held' THEN w.old_state
	        WHEN 'replay.same' THEN w.same_state
	        ELSE CASE WHEN mi.message_id IS NULL THEN NULL
	        WHEN g.rel IS NULL THEN 1 ELSE 2 END END,
	    CASE w.no WHEN 'replay.old' THEN w.old_version
	        WHEN 'replay.held' THEN w.old_version
	        WHEN 'replay.same' THEN w.same_version ELSE 1 END,
	    CASE w.no WHEN 'replay.old' THEN w.old_round
	        WHEN 'replay.held' THEN w.old_round
	        WHEN 'replay.same' THEN w.same_round ELSE 1 END,
	    CASE w.no WHEN 'replay.old' THEN w.old_digest
	        WHEN 'replay.held' THEN w.old_digest ELSE w.digest END,
	    CASE w.no WHEN 'replay.old' THEN w.old_reasons
	        WHEN 'replay.held' THEN w.old_reasons
	        WHEN 'replay.same' THEN w.same_reasons ELSE g.reasons END,
	    CASE w.no WHEN 'replay.old' THEN w.old_hold
	        WHEN 'replay.held' THEN w.old_hold
	        WHEN 'replay.same' THEN w.same_hold ELSE g.hold_until END,
	    CASE w.no WHEN 'rate_limited' THEN greatest(1, extract(epoch
	        FROM w.more_at - now_at)::int) WHEN 'held_limit' THEN 60
	        WHEN 'limiter_unavailable' THEN 5 END,
	    coalesce(w.no LIKE 'replay.%', false),
	    coalesce(w.no = 'replay.held', false), w.t, w.box,
	    CASE WHEN mi.message_id IS NOT NULL THEN g.rel END
	    )::d.submit_result ORDER BY w.o) INTO res
	    FROM w LEFT JOIN g ON g.o = w.o
	    LEFT JOIN mi ON mi.message_id = g.mid AND mi.tenant_id = g.t;

	-- 4. Mail that mode or rule lets go: the referee decides; else it waits.
	FOREACH one IN ARRAY coalesce(res, '{}') LOOP
		CONTINUE WHEN one.release IS NULL;
		i := one.ord;
		IF NOT d.policy_release(one.tenant_id, one.inbox_id, one.message_id,
		    one.release, relay_box[i], tag[i], expiry[i], one.hold_until)
		    THEN
			INSERT INTO d.state (message_id, tenant_id, inbox_id, version,
			    state, risk, hold_until) VALUES (one.message_id,
			    one.tenant_id, one.inbox_id, 1, 1, risk[i],
			    one.hold_until);
			UPDATE d.quota q SET held = q.held + 1,
			    held_bytes = q.held_bytes + submit_batch_1.size[i]
			    WHERE q.tenant_id = one.tenant_id
			    AND q.inbox_id = one.inbox_id;
			one.state := 1;
			one.reasons := 'mode';
			one.release := NULL;
		END IF;
		RETURN QUERY SELECT one.ord, one.status, one.code, one.message_id,
		    one.thread_id, one.state, one.version, one.round, one.digest,
		    one.reasons, CASE WHEN one.state = 1 THEN one.hold_until END,
		    one.wait, one.replay, one.already_held;
		again := again || one.ord;
	END LOOP;
	RETURN QUERY SELECT x.ord, x.status, x.code, x.message_id,
	    CASE WHEN x.status < 300 THEN x.thread_id END, x.state,
	    CASE WHEN x.status < 300 THEN x.version END,
	    CASE WHEN x.status < 300 THEN x.round END,
	    CASE WHEN x.status < 300 THEN x.digest END, x.reasons,
	    CASE WHEN x.state = 1 THEN x.hold_until END, x.wait, x.replay,
	    x.already_held
	    FROM unnest(res) x WHERE x.ord <> ALL (coalesce(again, '{}'));

	-- 5. Repeats inside this call meet what the first of them left.
	FOR i IN SELECT u.o FROM unnest(first) WITH ORDINALITY u(f, o)
	    WHERE NOT u.f ORDER BY u.o LOOP
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
