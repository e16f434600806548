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
	-- OFFSET 0 keeps the key it came from a look-up; a join may read all keys
	-- of the tenant (decision 0108).
	SELECT r.inbox_id, r.scope, r.kind, r.lineage, r.auth_sha256, r.revoked_at,
	    r.expires_at, r.last_used, x.suspended_at, x.deleted_at,
	    n.disabled_at, p.revoked_at AS parent_revoked,
	    p.expires_at AS parent_expires
	    INTO c FROM d.credential r
	    JOIN d.inbox x ON x.tenant_id = r.tenant_id
	        AND x.inbox_id = r.inbox_id
	    JOIN d.tenant n ON n.tenant_id = r.tenant_id
	    LEFT JOIN LATERAL (SELECT y.revoked_at, y.expires_at
	        FROM d.credential y WHERE y.tenant_id = r.tenant_id
	        AND y.key_id = r.parent_key OFFSET 0) p ON true
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

-- The same, and 403 without what the call needs: 'r' a key that reads, 'f' one
-- of scope full. Session keys are neither.
CREATE FUNCTION d.agent_may(t bigint, k bigint, a bytea, need "char",
	OUT status int, OUT code text, OUT inbox_id bigint, OUT scope "char",
	OUT kind "char", OUT lineage bigint, OUT last_used timestamptz)
	LANGUAGE plpgsql AS $$
BEGIN
	SELECT c.* INTO status, code, inbox_id, scope, kind, lineage, last_used
	    FROM d.agent(agent_may.t, agent_may.k, agent_may.a) c;
	IF status = 200 AND (kind <> 's' AND (scope = 'f'
	    OR need = 'r' AND scope = 'r')) IS NOT TRUE THEN
		status := 403;
		code := 'missing_permission';
	END IF;
END $$;
GRANT EXECUTE ON FUNCTION d.agent_may TO p_submit;

-- An audit row in the zone of the caller.
CREATE FUNCTION d.note(t bigint, actor text, event text, mid uuid,
	detail text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO d.audit (tenant_id, actor, event, message_id, detail)
	    VALUES (note.t, note.actor, note.event, note.mid,
	    coalesce(note.detail, '{}'));
END $$;
GRANT EXECUTE ON FUNCTION d.note TO p_submit, p_policy;

SET LOCAL ROLE p_submit;

-- Of each row of a submission: whose it is, what its inbox says, does its mode
-- release (and nothing is paused), why it is refused: in any case (never), or
-- unless an earlier call stored it (unless). One array of these, since each
-- aggregate costs a call as much to begin as a tenth of a row.
CREATE TYPE d.submit_fact AS (o int, t bigint, box bigint, line bigint,
	kind "char", adr text, md smallint, me int, lv int, need smallint,
	hold timestamptz, why text, never text, unless text, test boolean,
	leaves boolean);

SET LOCAL ROLE p_policy;

-- What the release of fresh messages brings with it.
CREATE FUNCTION d.policy_released(g d.leaving[], how "char",
	holds timestamptz[], now_at timestamptz) RETURNS void LANGUAGE plpgsql
	AS $$
BEGIN
	INSERT INTO d.state (message_id, tenant_id, inbox_id, version, state,
	    risk, hold_until) SELECT x.mid, x.t, x.i, x.v, 2, x.risk,
	    holds[x.ordinality] FROM unnest(g) WITH ORDINALITY x;
	PERFORM d.enqueue(g, now_at);
	IF how = 'r' THEN
		UPDATE d.allow_rule u SET uses_left = u.uses_left - 1
		    FROM unnest(g) x WHERE u.tenant_id = x.t AND u.inbox_id = x.i
		    AND u.ended_at IS NULL AND u.expires_at > now_at
		    AND u.uses_left > 0 AND EXISTS (SELECT 1 FROM unnest(x.rcpt) y
		        WHERE u.entry IN (d.canon(y), '@' || d.domain_of(y)));
	END IF;
	-- Fresh messages have no events but that they are there.
	INSERT INTO d.event (message_id, tenant_id, inbox_id, n, type, actor, who,
	    state) SELECT x.mid, x.t, x.i, 2, 'message.approved', 'policy',
	    'policy', 2 FROM unnest(g) x;
	INSERT INTO d.audit (tenant_id, actor, event, message_id, detail)
	    SELECT x.t, 'policy', 'message.approved', x.mid, '{"by":"'
	    || CASE how WHEN 'm' THEN 'mode' ELSE 'rule' END
	    || '","digest":"' || encode(x.digest, 'hex') || '"}' FROM unnest(g) x;
END $$;

-- Releases the fresh messages `os` of a submission by mode, or one by rule, and
-- says which it let go. Its own look at the mode is what counts, not that of
-- the caller. Their tenants are in order (d.places). When the referee says no
-- to a set, each is asked for alone.
CREATE FUNCTION d.policy_releases(os int[], how "char", t bigint[],
	mid uuid[], f d.submit_fact[], relay_box bytea[], tag bytea[],
	expiry bigint[]) RETURNS int[] LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	now_at timestamptz := clock_timestamp();
	lo uuid := mid[os[1]];
	hi uuid := lo;
	g d.leaving[];
	holds timestamptz[] := '{}';
	let int[] := '{}';
	o int;
BEGIN
	FOREACH o IN ARRAY os LOOP
		lo := least(lo, mid[o]);
		hi := greatest(hi, mid[o]);
		holds := holds || (f[o]).hold;
	END LOOP;
	g := ARRAY(SELECT (m.message_id, m.tenant_id, m.inbox_id, m.version, 1,
	    m.digest, m.rcpt, m.size, m.send_at, m.not_after, m.mode,
	    m.mode_epoch, m.risk)::d.leaving FROM unnest(os) WITH ORDINALITY x (o)
	    JOIN LATERAL (SELECT y.message_id, y.tenant_id, y.inbox_id, y.version,
	        y.digest, y.rcpt, y.size, y.send_at, y.not_after, y.mode,
	        y.mode_epoch, y.risk FROM d.message y
	        WHERE y.message_id = policy_releases.mid[x.o]
	        AND d.within(y.message_id, lo, hi)
	        AND y.tenant_id = policy_releases.t[x.o]
	        AND y.inbox_id = (f[x.o]).box AND y.version = 1 OFFSET 0) m
	        ON true
	    ORDER BY x.ordinality);
	IF cardinality(g) <> cardinality(os) THEN
		RAISE EXCEPTION 'no such message';
	END IF;
	BEGIN
		INSERT INTO d.release (message_id, tenant_id, inbox_id, version,
		    round, digest, by_what, mode, mode_epoch, relay_box, tag, expiry,
		    not_before) SELECT x.mid, x.t, x.i, x.v, x.r, x.digest, how,
		    x.mode, x.mode_epoch, policy_releases.relay_box[os[x.ordinality]],
		    policy_releases.tag[os[x.ordinality]],
		    policy_releases.expiry[os[x.ordinality]], now_at
		    FROM unnest(g) WITH ORDINALITY x;
	EXCEPTION WHEN check_violation THEN
		-- A pause, or the end of a rule, a moment ago. The row is stored and
		-- gives no reason to wait, so the event does.
		IF cardinality(os) = 1 THEN
			PERFORM d.event_add(lo, (g[1]).t, (g[1]).i, 'message.held',
			    'agent', NULL, 1::smallint, 'mode');
			RETURN let;
		END IF;
		FOREACH o IN ARRAY os LOOP
			let := let || d.policy_releases(ARRAY[o], how, t, mid, f,
			    relay_box, tag, expiry);
		END LOOP;
		RETURN let;
	END;
	PERFORM d.policy_released(g, how, holds, now_at);
	RETURN os;
END $$;

-- Has these tenants' places (d.places) wait for this call, in the one order in
-- which all ask for them: some of its messages are released after others.
CREATE FUNCTION d.places_hold(ts bigint[]) RETURNS void LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	INSERT INTO d.fair AS f (tenant_id, vt) SELECT DISTINCT x.t, 0
	    FROM unnest(ts) x (t) ORDER BY 1
	    ON CONFLICT (tenant_id) DO UPDATE SET vt = f.vt;
END $$;
GRANT EXECUTE ON FUNCTION d.policy_releases, d.places_hold, d.rules_cover
	TO p_submit;

CREATE FUNCTION d.id_taken(t bigint, mid uuid) RETURNS boolean
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
BEGIN
	RETURN EXISTS (SELECT 1 FROM d.message g WHERE g.message_id = mid
	    AND g.tenant_id = t);
END $$;
GRANT EXECUTE ON FUNCTION d.id_taken TO p_submit;

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
	    x.display_name, x.test, u.releases OR EXISTS (SELECT 1
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

-- What an earlier submission with the same id or key became, if there is one:
-- 'replay', 'replay.held', or why this one is refused.
CREATE TYPE d.submit_old AS (what text, message_id uuid, thread_id uuid,
	state smallint, version smallint, round smallint, digest bytea,
	reasons text, hold_until timestamptz);

-- Does submission `mid` repeat an earlier one? With a key of its own it is the
-- one that had the key; without, the same request that still waits. A key of
-- SMTP is forgotten after a day. Runs as its caller, in the caller's boxes.
CREATE FUNCTION d.submit_known(t bigint, i bigint, line bigint, mid uuid,
	key bytea, request bytea, dig bytea, k bigint, named boolean,
	smtp boolean, twice boolean) RETURNS d.submit_old LANGUAGE plpgsql AS $$
DECLARE
	z record;
	m record;
	r d.submit_old;
BEGIN
	SELECT y.message_id, y.request_sha256, y.created_at INTO z FROM d.idem y
	    WHERE y.tenant_id = t AND y.inbox_id = i AND y.lineage = line
	    AND y.key_sha256 = key;
	SELECT s.state, s.version, s.round, s.hold_until, g.thread_id, g.digest,
	    g.reasons, s.message_id, g.key_id INTO m
	    FROM d.state s JOIN d.message g ON g.message_id = s.message_id
	        AND g.tenant_id = s.tenant_id AND g.version = s.version
	    WHERE s.tenant_id = t AND s.inbox_id = i
	    AND s.message_id = z.message_id;
	IF m.message_id IS NOT NULL AND named AND NOT (smtp
	    AND z.created_at < clock_timestamp() - interval '24 hours') THEN
		r.what := CASE WHEN z.request_sha256 = request THEN 'replay'
		    ELSE 'idempotency_conflict' END;
	ELSIF m.state = 1 AND NOT named AND twice IS NOT TRUE THEN
		r.what := 'replay.held';
	ELSE
		SELECT s.state, s.version, s.round, s.hold_until, g.thread_id,
		    g.digest, g.reasons, s.message_id, g.key_id INTO m
		    FROM d.state s JOIN d.message g ON g.message_id = s.message_id
		        AND g.tenant_id = s.tenant_id AND g.version = s.version
		    WHERE s.tenant_id = t AND s.inbox_id = i AND s.message_id = mid;
		IF NOT FOUND THEN
			-- Whose it is, is not told.
			r.what := CASE WHEN d.id_taken(t, mid) THEN 'state_conflict' END;
			RETURN r;
		END IF;
		r.what := CASE WHEN m.digest = dig AND m.key_id = k THEN 'replay'
		    ELSE 'state_conflict' END;
	END IF;
	r.message_id := m.message_id;
	r.thread_id := m.thread_id;
	r.state := m.state;
	r.version := m.version;
	r.round := m.round;
	r.digest := m.digest;
	r.reasons := m.reasons;
	r.hold_until := m.hold_until;
	RETURN r;
END $$;

-- Is it the inbox that takes nothing more, and not the key that is no good?
CREATE FUNCTION d.inbox_refuses(why text) RETURNS boolean LANGUAGE sql
	IMMUTABLE PARALLEL SAFE AS $$
SELECT coalesce(why IN ('missing_permission', 'inbox_read_only',
    'domain_not_verified'), false) $$;

-- By mode, by rule or not at all, as the inbox stands now? Asked before the
-- row is stored, which says why it waits and stays as it is.
CREATE FUNCTION d.submit_leaves(t bigint, i bigint, tag_mode smallint,
	tag_mode_epoch int, rcpts text, attachments int, set_of smallint,
	heaviest smallint) RETURNS "char" LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT CASE WHEN u.releases THEN 'm'::"char"
	    WHEN d.rules_cover(t, i, string_to_array(rcpts, E'\n'), attachments,
	        set_of, heaviest) THEN 'r'::"char" END
	    FROM d.inbox x JOIN d.mode_rule u ON u.mode = x.mode
	    WHERE x.tenant_id = t AND x.inbox_id = i AND x.mode = tag_mode
	    AND x.mode_epoch = tag_mode_epoch);
END $$;

-- Seconds until the day or the month that is full is over.
CREATE FUNCTION d.submit_wait(t bigint, i bigint) RETURNS int
	LANGUAGE plpgsql AS $$
DECLARE
	now_at timestamp := clock_timestamp() AT TIME ZONE 'UTC';
BEGIN
	RETURN (SELECT greatest(1, extract(epoch FROM CASE
	    WHEN q.day = now_at::date AND q.day_used >= x.lim_day
	        OR q.month <> date_trunc('month', now_at)::date
	        OR q.month_used < x.lim_month
	        THEN date_trunc('day', now_at) + interval '1 day'
	    ELSE date_trunc('month', now_at) + interval '1 month' END
	    - now_at)::int)
	    FROM d.quota q JOIN d.inbox x ON x.tenant_id = q.tenant_id
	        AND x.inbox_id = q.inbox_id
	    WHERE q.tenant_id = t AND q.inbox_id = i);
END $$;

-- May a session key send this? NULL, or why not; either is in its record. The
-- row is locked, so that no two go through the last place.
CREATE FUNCTION d.session_refuses(t bigint, k bigint, door text, rcpts text,
	attachments int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	s record;
	ok boolean;
BEGIN
	SELECT * INTO s FROM d.agent_session y WHERE y.tenant_id = t
	    AND y.key_id = k FOR UPDATE;
	-- The copy for oversight is the gateway's, in no policy.
	ok := FOUND AND s.ended_at IS NULL AND strpos(s.doors, door) > 0
	    AND s.sent < s.max_messages
	    AND (s.attachments OR session_refuses.attachments = 0)
	    AND (SELECT bool_and(coalesce(d.canon(x) = ANY (s.recipients)
	        OR d.domain_of(x) = ANY (s.domains)
	        OR d.canon(x) = (SELECT d.canon(i.oversight) FROM d.inbox i
	            WHERE i.tenant_id = t AND i.inbox_id = s.inbox_id), false))
	        FROM unnest(string_to_array(rcpts, E'\n')) x);
	UPDATE d.agent_session y SET sent = y.sent + (ok IS TRUE)::int,
	    refused = y.refused + (ok IS NOT TRUE)::int
	    WHERE y.tenant_id = t AND y.key_id = k;
	RETURN CASE WHEN ok IS NOT TRUE THEN 'session_policy' END;
END $$;

-- Addresses in order, each once, each with two sides and no character that
-- could end a line or a command.
CREATE FUNCTION d.rcpts_sound(rcpts text) RETURNS boolean LANGUAGE plpgsql
	IMMUTABLE PARALLEL SAFE AS $$
DECLARE
	control CONSTANT text := E'\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a'
	    '\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a'
	    '\x1b\x1c\x1d\x1e\x1f\x7f';
	word text;
	host text;
	last text := '';
BEGIN
	FOREACH word IN ARRAY string_to_array(rcpts, E'\n') LOOP
		host := split_part(word, '@', -1);
		IF host = '' OR strpos(host, ' ') > 0 OR strpos(word, '@') <= 1
		    OR word <= last COLLATE "C" OR octet_length(word) > 320
		    OR translate(word, control, '') <> word THEN
			RETURN false;
		END IF;
		last := word;
	END LOOP;
	RETURN last <> '';
END $$;

-- What is left of its inbox's limits, for each row whose key is good.
CREATE TYPE d.submit_room AS (o int, box bigint, same boolean, n int, h int,
	b bigint);

-- One call for a whole commit: arrays in, one outcome a row. All that agents
-- can bring about has an outcome of its own; what only a broken gateway can
-- send (a wrong digest, a missing value) is refused by the tables, for the
-- whole call: the caller then tries row by row, and learns which it was.
--
-- A call is quick with what is plain (new mail with a body of one chunk, that
-- waits or leaves by its inbox's mode) and hands the rest to submit_1, which
-- is careful with one row. Every statement costs as much to begin as
-- several rows, so there are few, and they are narrow. Plans are made once,
-- without knowing the rows: they look up by key and never read a whole table,
-- be it empty now or of a million inboxes later.
CREATE FUNCTION api.submit_batch_1(t bigint[], k bigint[], a bytea[],
	mid uuid[], rcpts text[], kinds text[], params text[], size bigint[],
	body_tag bytea[], send_at bigint[], not_after bigint[], dig bytea[],
	door text[], subject text[], header_from text[], rfc_id text[],
	in_reply_to text[], refs text[], thread uuid[], labels text[],
	context text[], risk smallint[], findings_set smallint[],
	finding_max smallint[], attachments int[], links boolean[],
	tenant_epoch int[],
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
	SET enable_mergejoin = off SET enable_material = off AS $$
#variable_conflict use_column
DECLARE
	n int := cardinality(submit_batch_1.t);
	careful boolean := n = 1 AND (body[1] IS NOT NULL AND send_at[1] = 0
	    AND current_setting('postern.careful', true) IS DISTINCT FROM 'yes')
	    IS NOT TRUE;
	f d.submit_fact[];
	room d.submit_room[];
	r d.submit_room;
	boxes text[];
	-- What the rows before took of them, all of one inbox.
	at bigint := 0;
	n_used int;
	h_used int;
	b_used bigint;
	-- What is stored; what of it leaves; what goes alone.
	ok int[] := '{}';
	leaves int[] := '{}';
	alone int[] := '{}';
	asked int[];
	rel "char";
	lists boolean;
	blocked int[];
	threads uuid[];
	old d.submit_old;
	c text;
	i int;
	stored int;
	now_at timestamptz := clock_timestamp();
	now_us bigint := d.us(now_at);
	today date := (now_at AT TIME ZONE 'UTC')::date;
	this_month date := date_trunc('month', now_at AT TIME ZONE 'UTC')::date;
BEGIN
	-- 250 and 202 mean that it is on the disk, whatever the client set.
	c := set_config('synchronous_commit', 'on', true);

	-- 1. Whose key is it, and what does its inbox say? A careful call has the
	-- inbox hold still before it looks.
	IF careful THEN
		PERFORM 1 FROM d.credential r JOIN d.inbox x
		    ON x.tenant_id = r.tenant_id AND x.inbox_id = r.inbox_id
		    WHERE r.tenant_id = submit_batch_1.t[1]
		    AND r.key_id = submit_batch_1.k[1] FOR NO KEY UPDATE OF x;
	END IF;
	SELECT array_agg((g.o, g.tenant_id, g.inbox_id, g.lineage, g.kind,
	    g.address, g.mode, g.mode_epoch, g.limits_version, g.need,
	    now_at + g.hold_for, g.why, g.never, g.unless,
	    g.test, g.releases AND g.why <> 'paused')::d.submit_fact),
	    array_agg(g.tenant_id::text || '.' || g.inbox_id::text)
	        FILTER (WHERE g.never IS NULL),
	    EXISTS (SELECT 1 FROM d.list_entry y WHERE y.ended_at IS NULL)
	    INTO f, boxes, lists
	    FROM (SELECT o, r.tenant_id, r.inbox_id, r.lineage, x.address, x.test,
	        CASE WHEN r.kind = 's' AND r.opened_by IS NOT NULL THEN 'o'::"char"
	            ELSE r.kind END AS kind,
	        x.mode, x.mode_epoch, x.limits_version, s.releases,
	        coalesce(x.need_approvals, m.need_approvals) AS need,
	        coalesce(x.hold_for, m.hold_for) AS hold_for,
	        CASE WHEN x.paused_at IS NOT NULL OR m.paused_at IS NOT NULL
	            OR (SELECT p.paused_at FROM d.global_pause p WHERE p.one)
	            IS NOT NULL THEN 'paused' ELSE 'mode' END AS why,
	        CASE WHEN r.key_id IS NULL OR r.revoked_at IS NOT NULL
	            OR r.expires_at <= now_at OR x.deleted_at IS NOT NULL
	            OR m.disabled_at IS NOT NULL THEN 'unknown_api_key'
	        -- A session key is as good as the key it came from. (No EXISTS:
	        -- the planner would read all keys into a hash.)
	        WHEN r.parent_key IS NOT NULL AND (
	            SELECT p.revoked_at IS NULL AND (p.expires_at IS NULL
	            OR p.expires_at > now_at) FROM d.credential p
	            WHERE p.tenant_id = r.tenant_id AND p.key_id = r.parent_key)
	            IS NOT TRUE THEN 'unknown_api_key'
	        WHEN octet_length(submit_batch_1.a[o]) = 24 AND (
	            SELECT h.expires_at FROM d.handle h
	            WHERE h.tenant_id = r.tenant_id AND h.key_id = r.key_id
	            AND h.handle_sha256 = sha256(submit_batch_1.a[o])
	            AND h.login = session_user) > now_at IS NOT TRUE
	            THEN 'store_unavailable'
	        WHEN octet_length(submit_batch_1.a[o]) <> 24 AND r.auth_sha256
	            <> sha256(submit_batch_1.a[o]) OR submit_batch_1.a[o] IS NULL
	            THEN 'unknown_api_key'
	        WHEN r.scope = 'r' THEN 'key_scope'
	        WHEN x.suspended_at IS NOT NULL THEN 'missing_permission'
	        WHEN NOT s.accepts THEN 'inbox_read_only'
	        WHEN w.verified_at IS NULL OR w.removed_at IS NOT NULL
	            THEN 'domain_not_verified' END AS never,
	        CASE WHEN submit_batch_1.size[o] > x.size_max
	            THEN 'payload_too_large'
	        WHEN length(submit_batch_1.kinds[o]) > x.rcpt_max
	            THEN 'too_many_recipients' END AS unless
	        FROM generate_series(1, n) o
	        LEFT JOIN d.credential r ON r.tenant_id = submit_batch_1.t[o]
	            AND r.key_id = submit_batch_1.k[o]
	        LEFT JOIN d.inbox x ON x.tenant_id = r.tenant_id
	            AND x.inbox_id = r.inbox_id
	        LEFT JOIN d.mode_rule s ON s.mode = x.mode
	        LEFT JOIN d.domain w ON w.domain = x.domain
	        LEFT JOIN d.tenant m ON m.tenant_id = r.tenant_id OFFSET 0) g;
	IF f IS NULL THEN
		RETURN;
	END IF;
	c := set_config('postern.boxes', coalesce(boxes::text, ''), true);

	-- 2. Inbox and counters, locked in one order; read as they are once they
	-- are locked. Not by a share lock: those who share one in turn would keep
	-- out who tightens, suspends or pauses.
	SELECT array_agg((y.o, y.box, y.same, y.n, y.h, y.b)::d.submit_room)
	    INTO room FROM (SELECT g.o, g.box,
	    x.mode_epoch = g.me AND x.limits_version = g.lv
	        AND x.suspended_at IS NULL AND x.deleted_at IS NULL AS same,
	    least(x.lim_day - CASE WHEN q.day = today THEN q.day_used
	        ELSE 0 END, x.lim_month - CASE WHEN q.month = this_month
	        THEN q.month_used ELSE 0 END) AS n,
	    x.lim_held - q.held AS h, x.lim_bytes - q.held_bytes AS b
	    FROM unnest(f) g
	    JOIN d.quota q ON q.tenant_id = g.t AND q.inbox_id = g.box
	    JOIN d.inbox x ON x.tenant_id = g.t AND x.inbox_id = g.box
	    WHERE g.never IS NULL ORDER BY q.tenant_id, q.inbox_id, g.o
	    FOR NO KEY UPDATE OF x FOR UPDATE OF q) y;
	IF cardinality(room) <> cardinality(boxes) THEN
		RAISE EXCEPTION 'an inbox without counters';
	END IF;
	IF lists THEN
		SELECT array_agg(u.o) INTO blocked
		    FROM (SELECT g.o, g.t, g.box, submit_batch_1.rcpts[g.o] AS r
		        FROM unnest(f) g) u
		    WHERE EXISTS (SELECT 1 FROM unnest(string_to_array(u.r, E'\n')) y
		        JOIN d.list_entry e ON e.entry IN (d.canon(y),
		            '@' || d.domain_of(y)) AND e.ended_at IS NULL
		        WHERE (e.expires_at IS NULL OR e.expires_at > now_at)
		        AND (e.tenant_id = 0 OR e.tenant_id = u.t
		        AND e.inbox_id IN (0, u.box)));
	END IF;

	-- 3. What becomes of each row. Every expression costs as much to begin as
	-- to evaluate twenty times, so what is plain is one condition.
	IF NOT careful AND room IS NOT NULL THEN
		FOREACH r IN ARRAY room LOOP
			i := r.o;
			IF r.box <> at THEN
				at := r.box;
				n_used := 0;
				h_used := 0;
				b_used := 0;
			END IF;
			IF r.same AND (f[i]).o = i AND (f[i]).unless IS NULL
			    AND body[i] IS NOT NULL AND chunks[i] = 1
			    AND send_at[i] = 0 AND (f[i]).kind = 'l'
			    AND length(door[i]) = 1
			    AND (not_after[i] = 0 OR not_after[i] > now_us)
			    AND abs(d.uuid_ms(mid[i]) - now_us / 1000) <= 600000
			    AND (rcpts[i] ~ '^[!-?A-~][!-~]*@[!-?A-~]+$'
			    AND length(rcpts[i]) <= 320 OR d.rcpts_sound(rcpts[i]))
			    AND (i = ANY (blocked)) IS NOT TRUE AND n_used < r.n
			    AND (tag[i] IS NULL AND h_used < r.h
			        AND b_used + size[i] <= r.b
			    OR octet_length(tag[i]) = 32
			        AND octet_length(relay_box[i]) BETWEEN 48 AND 1024
			        AND expiry[i] > now_us AND (not_after[i] = 0
			        OR expiry[i] <= not_after[i])
			        AND expiry[i] <= now_us + 259500000000
			        AND (f[i]).leaves AND (f[i]).md = tag_mode[i]
			        AND (f[i]).me = tag_mode_epoch[i] AND limiter[i]) THEN
				n_used := n_used + 1;
				ok := ok || i;
				IF tag[i] IS NULL THEN
					h_used := h_used + 1;
					b_used := b_used + size[i];
				ELSE
					leaves := leaves || i;
					f[i].why := '';
				END IF;
			ELSE
				alone := alone || i;
			END IF;
		END LOOP;
		-- One that is not plain needs no other call to be careful, if its inbox
		-- is as it was before it was locked.
		IF n = 1 AND alone <> '{}' AND (room[1]).same THEN
			careful := true;
			alone := '{}';
		END IF;
	END IF;
	<<one>>
	BEGIN
		EXIT one WHEN NOT careful OR room IS NULL;
		r := room[1];
		IF mid[1] IS NULL OR rcpts[1] IS NULL OR kinds[1] IS NULL
		    OR params[1] IS NULL OR size[1] IS NULL OR size[1] < 0
		    OR octet_length(body_tag[1]) IS DISTINCT FROM 32
		    OR send_at[1] IS NULL OR send_at[1] < 0 OR not_after[1] IS NULL
		    OR not_after[1] < 0 OR dig[1] IS NULL OR door[1] IS NULL
		    OR door[1] NOT IN ('s', 'r', 'm') OR risk[1] IS NULL
		    OR risk[1] NOT BETWEEN 0 AND 100 OR attachments[1] IS NULL
		    OR attachments[1] < 0 OR links[1] IS NULL
		    OR tenant_epoch[1] IS NULL
		    OR tenant_box[1] IS NULL OR inbox_epoch[1] IS NULL
		    OR inbox_box[1] IS NULL OR chunks[1] IS NULL
		    OR chunks[1] NOT BETWEEN 1 AND 4096
		    OR octet_length(request[1]) IS DISTINCT FROM 32
		    OR coalesce(octet_length(idem[1]) <> 32
		    OR octet_length(body[1]) NOT BETWEEN 1 AND 262228
		    OR octet_length(context[1]) > 8192
		    OR octet_length(labels[1]) > 4096
		    OR octet_length(refs[1]) > 16384
		    OR octet_length(params[1]) > 65536
		    OR octet_length(rfc_id[1]) > 998
		    OR octet_length(in_reply_to[1]) > 998
		    OR octet_length(tenant_box[1]) > 512
		    OR octet_length(inbox_box[1]) > 512, false) THEN
			f[1].never := 'validation_error';
			EXIT one;
		END IF;
		old := d.submit_known(t[1], r.box, (f[1]).line, mid[1],
		    coalesce(idem[1], request[1]), request[1], dig[1], k[1],
		    idem[1] IS NOT NULL, door[1] = 's', duplicate[1]);
		EXIT one WHEN old.what IS NOT NULL;
		c := (f[1]).unless;
		IF c IS NOT NULL THEN
			NULL;
		ELSIF kinds[1] !~ '^[tcbo]*$' OR length(kinds[1])
		    <> cardinality(string_to_array(rcpts[1], E'\n'))
		    OR NOT d.rcpts_sound(rcpts[1]) THEN
			c := 'invalid_address';
		ELSIF not_after[1] <> 0 AND (not_after[1] <= now_us
		    OR not_after[1] <= send_at[1])
		    OR send_at[1] > now_us + 2678400000000
		    OR (CASE WHEN body[1] IS NULL THEN chunks[1] IS DISTINCT FROM
		    (SELECT y.chunks FROM d.upload y
		    WHERE y.message_id = submit_batch_1.mid[1]
		    AND y.tenant_id = submit_batch_1.t[1]
		    AND y.inbox_id = r.box) ELSE chunks[1] <> 1 END) THEN
			c := 'validation_error';
		ELSIF abs(d.uuid_ms(mid[1]) - now_us / 1000)
		    > (CASE WHEN body[1] IS NULL THEN 86400000 ELSE 600000 END) THEN
			-- The id is the gateway's: one of the clocks is wrong, no agent.
			c := 'store_unavailable';
		ELSIF dig[1] <> d.digest_1(t[1], r.box, mid[1], 1::smallint,
		    (f[1]).test, (f[1]).adr, string_to_array(rcpts[1], E'\n'),
		    params[1], size[1], body_tag[1], send_at[1], not_after[1])
		    THEN
			c := 'digest_mismatch';
		ELSIF 1 = ANY (blocked) THEN
			c := 'message_rejected';
		ELSIF r.n <= 0 THEN
			c := 'rate_limited';
		ELSE
			rel := CASE WHEN octet_length(tag[1]) = 32
			    AND octet_length(relay_box[1]) BETWEEN 48 AND 1024
			    AND expiry[1] > now_us AND (not_after[1] = 0
			    OR expiry[1] <= not_after[1]) AND expiry[1] > send_at[1]
			    AND expiry[1] <= now_us + 259500000000 AND (f[1]).kind <> 's'
			    AND (f[1]).why <> 'paused' THEN d.submit_leaves(t[1], r.box,
			    tag_mode[1], tag_mode_epoch[1], rcpts[1], attachments[1],
			    findings_set[1], finding_max[1]) END;
			IF rel = 'm' AND limiter[1] IS NOT TRUE THEN
				c := 'limiter_unavailable';
			ELSIF rel IS DISTINCT FROM 'm' AND (r.h <= 0
			    OR size[1] > r.b) THEN
				c := 'held_limit';
			ELSIF (f[1]).kind IN ('s', 'o') THEN
				c := d.session_refuses(t[1], k[1], door[1], rcpts[1],
				    attachments[1]);
			END IF;
		END IF;
		IF c IS NOT NULL THEN
			f[1].never := c;
			EXIT one;
		END IF;
		ok := '{1}';
		-- Mail for later waits as long from then on.
		IF send_at[1] > now_us THEN
			f[1].hold := (f[1]).hold + (send_at[1] - now_us)
			    * interval '1 microsecond';
		END IF;
		IF rel IS NOT NULL THEN
			leaves := ok;
			f[1].why := '';
		END IF;
	END;

	-- 4. The idempotency keys. A careful call has looked: what is there is too
	-- old to count and is overwritten. A quick one learns here that a key is
	-- there, of before it began; the row then goes alone.
	IF careful THEN
		INSERT INTO d.idem AS z (tenant_id, inbox_id, lineage, key_sha256,
		    request_sha256, message_id)
		    SELECT submit_batch_1.t[o], (f[o]).box, (f[o]).line,
		    coalesce(submit_batch_1.idem[o], submit_batch_1.request[o]),
		    submit_batch_1.request[o], submit_batch_1.mid[o] FROM unnest(ok) o
		    ON CONFLICT (tenant_id, inbox_id, lineage, key_sha256) DO UPDATE
		    SET request_sha256 = excluded.request_sha256,
		    message_id = excluded.message_id, created_at = clock_timestamp();
	ELSE
		INSERT INTO d.idem (tenant_id, inbox_id, lineage, key_sha256,
		    request_sha256, message_id)
		    SELECT submit_batch_1.t[o], (f[o]).box, (f[o]).line,
		    coalesce(submit_batch_1.idem[o], submit_batch_1.request[o]),
		    submit_batch_1.request[o], submit_batch_1.mid[o] FROM unnest(ok) o
		    ON CONFLICT DO NOTHING;
		GET DIAGNOSTICS stored = ROW_COUNT;
		IF stored < cardinality(ok) THEN
			FOR i IN SELECT o FROM unnest(ok) o WHERE NOT EXISTS (SELECT 1
			    FROM (SELECT submit_batch_1.t[o] AS t, (f[o]).box AS box,
			    (f[o]).line AS l, coalesce(submit_batch_1.idem[o],
			    submit_batch_1.request[o]) AS key OFFSET 0) u
			    JOIN d.idem z ON z.tenant_id = u.t AND z.inbox_id = u.box
			        AND z.lineage = u.l AND z.key_sha256 = u.key
			    WHERE z.message_id = submit_batch_1.mid[o]
			    AND z.created_at >= now_at)
			    OR EXISTS (SELECT 1 FROM unnest(ok) p WHERE p < o
			    AND submit_batch_1.mid[p] = submit_batch_1.mid[o]) LOOP
				ok := array_remove(ok, i);
				leaves := array_remove(leaves, i);
				alone := alone || i;
			END LOOP;
		END IF;
	END IF;

	-- 5. The rows.
	IF not_after <> array_fill(0::bigint, ARRAY[n]) THEN
		FOREACH i IN ARRAY ok LOOP
			f[i].hold := least((f[i]).hold, to_timestamp(nullif(not_after[i], 0)
			    / 1000000.0));
		END LOOP;
	END IF;
	IF array_remove(submit_batch_1.in_reply_to, NULL) <> '{}'
	    OR array_remove(submit_batch_1.refs, NULL) <> '{}' THEN
		SELECT array_agg((SELECT m.thread_id
		    FROM unnest(string_to_array(submit_batch_1.refs[g.o], E'\n')
		        || submit_batch_1.in_reply_to[g.o])
		        WITH ORDINALITY z(ref, o)
		    JOIN d.message m ON m.rfc_message_id = z.ref
		        AND m.tenant_id = submit_batch_1.t[g.o]
		        AND m.inbox_id = (f[g.o]).box
		    ORDER BY z.o DESC LIMIT 1) ORDER BY g.o)
		    INTO threads FROM generate_series(1, n) g(o);
	END IF;
	INSERT INTO d.message (message_id, tenant_id, inbox_id, version,
	    key_id, door, test, mail_from, rcpt, rcpt_kind, params, size,
	    chunks, body_tag, send_at, not_after, digest, thread_id, subject,
	    header_from, rfc_message_id, in_reply_to, refs, labels, context,
	    revises, attachments, links, risk, findings_set, finding_max,
	    need_approvals, reasons, mode, mode_epoch, limits_version,
	    tenant_epoch, tenant_box, inbox_epoch, inbox_box)
	    SELECT submit_batch_1.mid[o], submit_batch_1.t[o], (f[o]).box, 1,
	    submit_batch_1.k[o], submit_batch_1.door[o]::"char",
	    (f[o]).test, (f[o]).adr,
	    string_to_array(submit_batch_1.rcpts[o], E'\n'),
	    submit_batch_1.kinds[o], submit_batch_1.params[o],
	    submit_batch_1.size[o], submit_batch_1.chunks[o],
	    submit_batch_1.body_tag[o], submit_batch_1.send_at[o],
	    submit_batch_1.not_after[o], submit_batch_1.dig[o],
	    coalesce(submit_batch_1.thread[o], threads[o],
	        submit_batch_1.mid[o]), left(submit_batch_1.subject[o], 1000),
	    left(submit_batch_1.header_from[o], 1000), submit_batch_1.rfc_id[o],
	    submit_batch_1.in_reply_to[o], submit_batch_1.refs[o],
	    submit_batch_1.labels[o], submit_batch_1.context[o],
	    submit_batch_1.revises[o], submit_batch_1.attachments[o],
	    submit_batch_1.links[o], submit_batch_1.risk[o], submit_batch_1.findings_set[o],
	    submit_batch_1.finding_max[o], (f[o]).need, (f[o]).why, (f[o]).md, (f[o]).me, (f[o]).lv,
	    submit_batch_1.tenant_epoch[o], submit_batch_1.tenant_box[o],
	    submit_batch_1.inbox_epoch[o], submit_batch_1.inbox_box[o]
	    FROM unnest(ok) o;
	IF NOT careful OR body[1] IS NOT NULL THEN
		INSERT INTO d.body (message_id, tenant_id, inbox_id, version, seq,
		    data) SELECT submit_batch_1.mid[o], submit_batch_1.t[o], (f[o]).box,
		    1, 0, submit_batch_1.body[o] FROM unnest(ok) o;
	ELSIF ok <> '{}' THEN
		DELETE FROM d.upload u WHERE u.message_id = submit_batch_1.mid[1]
		    AND u.tenant_id = submit_batch_1.t[1] AND u.inbox_id = r.box;
	END IF;
	-- What mode or rule lets go, the referee decides; else it waits. What goes
	-- alone may ask it too.
	IF n > 1 AND alone <> '{}' AND array_remove(tag, NULL) <> '{}' THEN
		PERFORM d.places_hold(array_agg(submit_batch_1.t[o]))
		    FROM unnest(leaves || alone) o
		    WHERE submit_batch_1.tag[o] IS NOT NULL;
	END IF;
	IF leaves <> '{}' THEN
		asked := leaves;
		leaves := d.policy_releases(asked, coalesce(rel, 'm'), t, mid, f,
		    relay_box, submit_batch_1.tag, expiry);
		IF cardinality(leaves) < cardinality(asked) THEN
			FOREACH i IN ARRAY asked LOOP
				IF i <> ALL (leaves) THEN
					f[i].why := 'mode';
				END IF;
			END LOOP;
		END IF;
	END IF;
	IF cardinality(leaves) < cardinality(ok) THEN
		INSERT INTO d.state (message_id, tenant_id, inbox_id, version, state,
		    risk, hold_until)
		    SELECT submit_batch_1.mid[o], submit_batch_1.t[o], (f[o]).box, 1, 1,
		    submit_batch_1.risk[o], (f[o]).hold FROM unnest(ok) o
		    WHERE o <> ALL (leaves);
	END IF;
	UPDATE d.quota q SET day = today, month = this_month,
	    day_used = CASE WHEN q.day = today THEN q.day_used ELSE 0 END + u.n,
	    month_used = CASE WHEN q.month = this_month THEN q.month_used
	        ELSE 0 END + u.n,
	    held = q.held + u.h, held_bytes = q.held_bytes + u.b
	    FROM (SELECT submit_batch_1.t[o] AS t, (f[o]).box AS i,
	    count(*)::int AS n, sum((o <> ALL (leaves))::int)::int AS h,
	    sum(CASE WHEN o <> ALL (leaves) THEN submit_batch_1.size[o]
	        ELSE 0 END)::bigint AS b FROM unnest(ok) o GROUP BY 1, 2) u
	    WHERE q.tenant_id = u.t AND q.inbox_id = u.i;
	INSERT INTO d.audit (tenant_id, actor, event, message_id, detail)
	    SELECT submit_batch_1.t[o], 'agent:' || submit_batch_1.t[o]::text
	    || '.' || submit_batch_1.k[o]::text, 'message.submitted',
	    submit_batch_1.mid[o], '{"digest":"'
	    || encode(submit_batch_1.dig[o], 'hex') || '","inbox":'
	    || (f[o]).box::text || ',"recipients":'
	    || length(submit_batch_1.kinds[o])::text || '}' FROM unnest(ok) o;

	-- 6. The outcomes. Those that go alone meet what this call stored.
	RETURN QUERY SELECT o, 202, NULL::text, submit_batch_1.mid[o],
	    coalesce(submit_batch_1.thread[o], threads[o], submit_batch_1.mid[o]),
	    CASE WHEN o = ANY (leaves) THEN 2 ELSE 1 END::smallint, 1::smallint,
	    1::smallint, submit_batch_1.dig[o], (f[o]).why,
	    CASE WHEN o <> ALL (leaves) THEN (f[o]).hold END, NULL::int, false,
	    false
	    FROM unnest(ok) o;
	IF cardinality(ok) = n THEN
		RETURN;
	END IF;
	replay := false;
	already_held := false;
	FOREACH i IN ARRAY alone LOOP
		RETURN QUERY SELECT i, x.status, x.code, x.message_id, x.thread_id,
		    x.state, x.version, x.round, x.digest, x.reasons, x.hold_until,
		    x.wait, x.replay, x.already_held
		    FROM api.submit_1(t[i], k[i], a[i], mid[i], rcpts[i], kinds[i],
		    params[i], size[i], body_tag[i], send_at[i], not_after[i],
		    submit_batch_1.dig[i], door[i], subject[i], header_from[i],
		    rfc_id[i], in_reply_to[i], refs[i], thread[i], labels[i],
		    context[i], risk[i], findings_set[i], finding_max[i],
		    attachments[i], links[i], tenant_epoch[i], tenant_box[i],
		    inbox_epoch[i], inbox_box[i], chunks[i], body[i], idem[i],
		    request[i], duplicate[i], revises[i], limiter[i], relay_box[i],
		    tag[i], expiry[i], tag_mode[i], tag_mode_epoch[i]) x;
	END LOOP;
	FOR i IN 1 .. n LOOP
		IF n > 1 THEN
			old := NULL;
		END IF;
		-- What was stored before its inbox was stopped is told all the same.
		IF d.inbox_refuses((f[i]).never) THEN
			c := set_config('postern.boxes', '{' || (f[i]).t::text || '.'
			    || (f[i]).box::text || '}', true);
			old := d.submit_known(t[i], (f[i]).box, (f[i]).line, mid[i],
			    coalesce(idem[i], request[i]), request[i], dig[i], k[i],
			    idem[i] IS NOT NULL, door[i] = 's', duplicate[i]);
		END IF;
		CONTINUE WHEN (f[i]).never IS NULL AND old.what IS NULL;
		ord := i;
		message_id := coalesce(old.message_id, mid[i]);
		code := coalesce(old.what, (f[i]).never);
		IF left(code, 6) = 'replay' THEN
			RETURN QUERY SELECT i, 200, NULL::text, old.message_id,
			    old.thread_id, old.state, old.version, old.round, old.digest,
			    old.reasons, CASE WHEN old.state = 1 THEN old.hold_until END,
			    NULL::int, true, code = 'replay.held';
			CONTINUE;
		END IF;
		status := CASE code WHEN 'unknown_api_key' THEN 401
		    WHEN 'key_scope' THEN 403 WHEN 'missing_permission' THEN 403
		    WHEN 'inbox_read_only' THEN 403
		    WHEN 'domain_not_verified' THEN 403
		    WHEN 'message_rejected' THEN 403
		    WHEN 'session_policy' THEN 403
		    WHEN 'idempotency_conflict' THEN 409
		    WHEN 'state_conflict' THEN 409 WHEN 'digest_mismatch' THEN 412
		    WHEN 'payload_too_large' THEN 413 WHEN 'rate_limited' THEN 429
		    WHEN 'held_limit' THEN 429 WHEN 'store_unavailable' THEN 503
		    WHEN 'limiter_unavailable' THEN 503 ELSE 422 END;
		wait := CASE code WHEN 'held_limit' THEN 60
		    WHEN 'limiter_unavailable' THEN 5
		    WHEN 'rate_limited' THEN d.submit_wait(t[i], (f[i]).box) END;
		RETURN NEXT;
	END LOOP;
END $$;

-- One row, carefully: each reason to refuse it has its code. The setting tells
-- the call below, for as long as it takes; who sets it otherwise only has that
-- care.
CREATE FUNCTION api.submit_1(t bigint, k bigint, a bytea, mid uuid,
	rcpts text, kinds text, params text, size bigint, body_tag bytea,
	send_at bigint, not_after bigint, dig bytea, door text, subject text,
	header_from text, rfc_id text, in_reply_to text, refs text, thread uuid,
	labels text, context text, risk smallint, findings_set smallint,
	finding_max smallint, attachments int, links boolean, tenant_epoch int,
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
DECLARE
	c text := set_config('postern.careful', 'yes', true);
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
	    ARRAY[submit_1.attachments], ARRAY[submit_1.links],
	    ARRAY[submit_1.tenant_epoch],
	    ARRAY[submit_1.tenant_box], ARRAY[submit_1.inbox_epoch],
	    ARRAY[submit_1.inbox_box], ARRAY[submit_1.chunks],
	    ARRAY[submit_1.body], ARRAY[submit_1.idem], ARRAY[submit_1.request],
	    ARRAY[submit_1.duplicate], ARRAY[submit_1.revises],
	    ARRAY[submit_1.limiter], ARRAY[submit_1.relay_box],
	    ARRAY[submit_1.tag], ARRAY[submit_1.expiry],
	    ARRAY[submit_1.tag_mode], ARRAY[submit_1.tag_mode_epoch]);
	c := set_config('postern.careful', '', true);
END $$;

-- What a key of repetition has become, for who may store nothing more now: as
-- submit_1 answers to it, or 404. Nothing is stored, counted or locked.
CREATE FUNCTION api.submit_again_1(t bigint, k bigint, a bytea, smtp boolean,
	idem bytea, request bytea) RETURNS TABLE (status int, code text,
	message_id uuid, thread_id uuid, state smallint, version smallint,
	round smallint, digest bytea, reasons text, hold_until timestamptz,
	replay boolean, already_held boolean) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' SET plan_cache_mode = force_generic_plan
	SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
	c record;
	old d.submit_old;
BEGIN
	c := d.agent(t, k, a);
	status := c.status;
	code := c.code;
	IF status = 200 AND c.scope = 'r' THEN
		status := 403;
		code := 'key_scope';
	ELSIF status = 200 THEN
		old := d.submit_known(t, c.inbox_id, c.lineage, NULL,
		    submit_again_1.idem, submit_again_1.request, NULL, k, true,
		    smtp, NULL);
		IF old.what = 'replay' THEN
			message_id := old.message_id;
			thread_id := old.thread_id;
			state := old.state;
			version := old.version;
			round := old.round;
			digest := old.digest;
			reasons := old.reasons;
			hold_until := CASE WHEN old.state = 1 THEN old.hold_until END;
			replay := true;
			already_held := false;
		ELSE
			status := CASE WHEN old.what IS NULL THEN 404 ELSE 409 END;
			code := coalesce(old.what, 'not_found');
		END IF;
	END IF;
	RETURN NEXT;
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
	    OR octet_length(put_chunk_1.data) NOT BETWEEN 1 AND 262228 THEN
		RETURN QUERY SELECT 422, 'validation_error';
		RETURN;
	END IF;
	IF age_us > 86400000000 THEN
		RETURN QUERY SELECT 503, 'store_unavailable';
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
		IF age_us > 600000000 THEN -- one of the clocks is wrong
			RETURN QUERY SELECT 503, 'store_unavailable';
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
