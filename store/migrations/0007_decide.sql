-- SPDX-License-Identifier: ISC
-- 0007_decide.sql - decisions, and the switches of an inbox. A decision names
-- the digest it was made for; votes, tag and queue rows hang on it by keys.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_review;

-- What the recipients' rows add up to (D6), by what there is of each kind:
-- being sent, uncertain, to come, failed, delivered. Inlined.
CREATE FUNCTION d.adds_up(going boolean, unsure boolean, open boolean,
	failed boolean, taken boolean) RETURNS smallint LANGUAGE sql IMMUTABLE
	PARALLEL SAFE
	RETURN (CASE WHEN going THEN 7 WHEN unsure THEN 11 WHEN open THEN 9
	    WHEN failed THEN 10 WHEN taken THEN 8 ELSE 5 END)::smallint;
-- plpgsql keeps its plan; an SQL function is planned in every call.
CREATE FUNCTION d.derived(mid uuid, t bigint) RETURNS smallint
	LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN (SELECT d.adds_up(bool_or(x.status IN (1, 2)),
	    bool_or(x.status = 6), bool_or(x.status IN (0, 4)),
	    bool_or(x.status IN (5, 7)), bool_or(x.status = 3))
	    FROM d.delivery x WHERE x.message_id = mid AND x.tenant_id = t);
END $$;
GRANT EXECUTE ON FUNCTION d.derived, d.adds_up TO p_review, p_relay;

SET LOCAL ROLE p_review;

CREATE FUNCTION api.decide_1(s bytea, mid uuid, for_version smallint,
	for_round smallint, dig bytea, verdict text, idem bytea, category text,
	note text, hint text, seconds int, via text, relay_box bytea, tag bytea,
	expiry bigint, undo_seconds int, resend int[])
	RETURNS TABLE (status int, code text, state smallint, version smallint, round smallint,
	approvals int, need int, undo_until timestamptz, replay boolean)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	g record;
	m record;
	old record;
	why text;
	got int;
	due timestamptz;
	signed bytea;
BEGIN
	o := d.op(s);
	PERFORM set_config('synchronous_commit', 'on', true);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	SELECT y.* INTO g FROM d.state y WHERE y.message_id = mid FOR UPDATE;
	IF NOT FOUND THEN
		SELECT 404, 'not_found' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	SELECT x.digest, x.rcpt, x.size, x.send_at, x.not_after,
	    x.need_approvals INTO m
	    FROM d.message x WHERE x.message_id = mid
	    AND x.tenant_id = g.tenant_id AND x.version = g.version;
	SELECT count(*) INTO got FROM d.decision c WHERE c.message_id = mid
	    AND c.tenant_id = g.tenant_id AND c.version = g.version
	    AND c.round = g.round AND c.verdict = 'a';
	-- The same click twice, also across its own outcome.
	SELECT c.version, c.round, c.verdict INTO old FROM d.decision c
	    WHERE c.message_id = mid AND c.tenant_id = g.tenant_id
	    AND c.version = for_version AND c.round = for_round
	    AND c.operator_id = o.operator_id AND c.idem = decide_1.idem
	    AND c.verdict::text = decide_1.verdict AND c.digest = dig;
	IF FOUND THEN
		RETURN QUERY SELECT 200, NULL::text, g.state, g.version, g.round, got,
		    m.need_approvals::int, (SELECT r.not_before FROM d.release r
		    WHERE r.message_id = mid AND r.tenant_id = g.tenant_id
		    AND r.version = old.version AND r.round = old.round), true;
		RETURN;
	END IF;
	-- Who has a passkey signs what is risky with it (decision 0073), and that
	-- is the step-up for this decision and no other.
	IF decide_1.verdict = 'a' THEN
		SELECT p.packed INTO signed FROM d.decision_proof p
		    WHERE p.message_id = mid AND p.tenant_id = g.tenant_id
		    AND p.version = g.version AND p.round = g.round
		    AND p.operator_id = o.operator_id AND p.digest::bytea = dig
		    AND p.session_sha256::bytea = sha256(s)
		    AND p.at > clock_timestamp() - interval '5 minutes'
		    ORDER BY p.at DESC LIMIT 1;
	END IF;
	why := CASE
	    WHEN decide_1.verdict IS NULL OR decide_1.verdict NOT IN ('a', 'r')
	        OR octet_length(decide_1.idem) > 64 OR length(decide_1.note) > 1000
	        OR dig IS NULL OR length(via) > 64
	        OR decide_1.hint NOT IN ('do_not_retry', 'revise_and_resubmit',
	        'ask_human')
	        OR decide_1.category NOT IN ('wrong_recipient', 'wrong_content',
	        'policy', 'sensitive_data', 'suspicious', 'duplicate', 'other')
	        OR decide_1.verdict = 'r' AND decide_1.category IS NULL
	        THEN 'validation_error'
	    WHEN g.version <> for_version OR g.round <> for_round
	        OR for_version IS NULL OR for_round IS NULL THEN 'state_conflict'
	    ELSE d.decide_no(o.operator_id, o.step_up OR signed IS NOT NULL,
	        g.tenant_id, g.inbox_id, g.state, g.risk, decide_1.verdict,
	        g.integrity) END;
	-- Silence was no, also before somebody swept it away.
	IF why IS NULL AND decide_1.verdict = 'a'
	    AND g.hold_until <= clock_timestamp() THEN
		why := 'state_conflict';
	END IF;
	IF why IS NULL AND m.digest <> dig THEN
		why := 'digest_mismatch';
	END IF;
	IF why IS NULL AND EXISTS (SELECT 1 FROM d.decision c
	    WHERE c.message_id = mid AND c.tenant_id = g.tenant_id
	    AND c.version = g.version AND c.round = g.round
	    AND c.operator_id = o.operator_id) THEN
		why := 'second_approval_needed';
	END IF;
	IF why IS NULL AND decide_1.verdict = 'a' AND (
	    coalesce(octet_length(decide_1.relay_box), 0) NOT BETWEEN 48 AND 1024
	    OR coalesce(octet_length(decide_1.tag), 0) <> 32
	    OR decide_1.expiry IS NULL
	    OR decide_1.expiry <= d.us(clock_timestamp())
	    OR decide_1.expiry > d.us(clock_timestamp() + interval '72 hours 5 min')
	    OR m.not_after <> 0 AND decide_1.expiry > m.not_after
	    OR coalesce(undo_seconds, 0) NOT BETWEEN 0 AND 120) THEN
		why := 'validation_error';
	END IF;
	IF coalesce(why, 'step_up_required') = 'step_up_required'
	    AND decide_1.verdict = 'a' AND signed IS NULL AND g.risk >= 75
	    AND EXISTS (SELECT 1 FROM d.operator p
	    WHERE p.operator_id = o.operator_id AND p.passkeys > 0) THEN
		why := 'passkey_required';
	END IF;
	-- Listed since it was submitted, every one: nothing of it would leave.
	IF why IS NULL AND decide_1.verdict = 'a' AND NOT EXISTS (SELECT 1
	    FROM unnest(m.rcpt) z WHERE NOT EXISTS (SELECT 1 FROM d.list_entry e
	        WHERE e.entry IN (d.canon(z), '@' || d.domain_of(z))
	        AND e.ended_at IS NULL AND (e.expires_at IS NULL
	        OR e.expires_at > clock_timestamp()) AND (e.tenant_id = 0
	        OR e.tenant_id = g.tenant_id
	        AND e.inbox_id IN (0, g.inbox_id)))) THEN
		why := 'message_rejected';
	END IF;
	IF why IS NOT NULL THEN
		RETURN QUERY SELECT CASE why WHEN 'validation_error' THEN 422
		    WHEN 'state_conflict' THEN 409 WHEN 'digest_mismatch' THEN 412
		    WHEN 'second_approval_needed' THEN 423 ELSE 403 END, why, g.state,
		    g.version, g.round, got, m.need_approvals::int,
		    NULL::timestamptz, false;
		RETURN;
	END IF;
	INSERT INTO d.decision (message_id, tenant_id, inbox_id, version, round,
	    operator_id, verdict, digest, category, note, hint, seconds, via,
	    idem) VALUES (mid, g.tenant_id, g.inbox_id, g.version, g.round,
	    o.operator_id, decide_1.verdict::"char", dig, decide_1.category,
	    decide_1.note, decide_1.hint, decide_1.seconds, decide_1.via,
	    decide_1.idem);
	PERFORM d.note(g.tenant_id, 'op:' || o.operator_id::text,
	    CASE decide_1.verdict WHEN 'a' THEN 'message.approve'
	    ELSE 'message.reject' END, mid, json_build_object('digest',
	    encode(dig, 'hex'), 'version', g.version, 'round', g.round,
	    'category', decide_1.category, 'via', decide_1.via, 'seconds',
	    decide_1.seconds, 'resend', resend, 'passkey',
	    translate(encode(signed, 'base64'), E'\n', ''))::text);
	IF decide_1.verdict = 'r' THEN
		UPDATE d.state y SET state = 3, detail = decide_1.category
		    WHERE y.message_id = mid AND y.tenant_id = g.tenant_id;
		RETURN QUERY SELECT 200, NULL::text, 3::smallint, g.version, g.round,
		    got, m.need_approvals::int, NULL::timestamptz, false;
		RETURN;
	END IF;
	IF got + 1 < m.need_approvals THEN
		RETURN QUERY SELECT 202, NULL::text, g.state, g.version, g.round,
		    got + 1, m.need_approvals::int, NULL::timestamptz, false;
		RETURN;
	END IF;
	due := clock_timestamp() + coalesce(undo_seconds, 0)
	    * interval '1 second';
	INSERT INTO d.release (message_id, tenant_id, inbox_id, version, round,
	    digest, by_what, relay_box, tag, expiry, not_before)
	    VALUES (mid, g.tenant_id, g.inbox_id, g.version, g.round, dig, 'o',
	    decide_1.relay_box, decide_1.tag, decide_1.expiry, due);
	UPDATE d.state y SET state = 2, detail = NULL WHERE y.message_id = mid
	    AND y.tenant_id = g.tenant_id;
	-- What an earlier round left: canceled and deferred rows open again; what
	-- may have been sent only where this decision names it.
	UPDATE d.delivery y SET status = 0, next_attempt_at = NULL
	    WHERE y.message_id = mid AND y.tenant_id = g.tenant_id
	    AND (y.status IN (4, 8) OR y.status = 6 AND y.ix::int
	    = ANY (coalesce(resend, '{}')));
	PERFORM d.enqueue(ARRAY[(mid, g.tenant_id, g.inbox_id, g.version, g.round,
	    dig, m.rcpt, m.size, m.send_at, m.not_after, NULL, NULL,
	    NULL)::d.leaving], due);
	RETURN QUERY SELECT 200, NULL::text, 2::smallint, g.version, g.round,
	    got + 1, m.need_approvals::int, due, false;
END $$;

CREATE FUNCTION api.undo_1(s bytea, mid uuid, for_version smallint,
	for_round smallint)
	RETURNS TABLE (status int, code text, state smallint, version smallint, round smallint)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	g record;
BEGIN
	o := d.op(s);
	PERFORM set_config('synchronous_commit', 'on', true);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	SELECT y.* INTO g FROM d.state y WHERE y.message_id = mid FOR UPDATE;
	IF NOT FOUND THEN
		SELECT 404, 'not_found' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF NOT d.op_may(o.operator_id, ARRAY['reviewer', 'senior'], g.tenant_id,
	    g.inbox_id) THEN
		o.status := 403;
		o.code := 'missing_permission';
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF g.state <> 2 OR g.version <> for_version OR g.round <> for_round
	    OR NOT d.unqueue(mid, g.tenant_id, false) THEN
		RETURN QUERY SELECT 409, 'state_conflict', g.state, g.version,
		    g.round;
		RETURN;
	END IF;
	UPDATE d.state y SET state = 1, round = y.round + 1, detail = NULL
	    WHERE y.message_id = mid AND y.tenant_id = g.tenant_id;
	PERFORM d.note(g.tenant_id, 'op:' || o.operator_id::text,
	    'message.undo', mid, json_build_object('version', g.version, 'round',
	    g.round)::text);
	RETURN QUERY SELECT 200, NULL::text, 1::smallint, g.version,
	    (g.round + 1)::smallint;
END $$;

CREATE FUNCTION api.review_cancel_1(s bytea, mid uuid, note text)
	RETURNS TABLE (status int, code text, state smallint)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	g record;
BEGIN
	o := d.op(s);
	PERFORM set_config('synchronous_commit', 'on', true);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::smallint;
		RETURN;
	END IF;
	SELECT y.* INTO g FROM d.state y WHERE y.message_id = mid FOR UPDATE;
	IF NOT FOUND THEN
		o.status := 404;
		o.code := 'not_found';
		RETURN QUERY SELECT o.status, o.code, NULL::smallint;
		RETURN;
	END IF;
	IF NOT d.op_may(o.operator_id, ARRAY['reviewer', 'senior'], g.tenant_id,
	    g.inbox_id) THEN
		o.status := 403;
		o.code := 'missing_permission';
		RETURN QUERY SELECT o.status, o.code, NULL::smallint;
		RETURN;
	END IF;
	IF g.state NOT IN (1, 2, 9) OR g.state <> 1
	    AND NOT d.unqueue(mid, g.tenant_id, true) THEN
		RETURN QUERY SELECT 409, 'state_conflict', g.state;
		RETURN;
	END IF;
	-- Some recipients may have it already: then the result is derived.
	UPDATE d.state y SET state = CASE WHEN g.state <> 9 THEN 5
	    ELSE d.derived(mid, g.tenant_id) END,
	    detail = left(review_cancel_1.note, 300)
	    WHERE y.message_id = mid AND y.tenant_id = g.tenant_id
	    RETURNING y.state INTO g.state;
	PERFORM d.note(g.tenant_id, 'op:' || o.operator_id::text,
	    'message.cancel', mid, json_build_object('note',
	    left(review_cancel_1.note, 500))::text);
	RETURN QUERY SELECT 200, NULL::text, g.state;
END $$;

-- Does the gate let nothing go by this release any more: its time is over, or
-- what it came from is (a mode, a rule)? What only waits is not asked.
CREATE FUNCTION d.release_over(mid uuid, t bigint, v smallint, r smallint)
	RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	now_at timestamptz := clock_timestamp();
BEGIN
	RETURN coalesce((SELECT z.at + n.approve_ttl <= now_at
	    OR coalesce(d.gate_why(m, z, NULL::d.send_q, x, n, false, now_at, 'n')
	        IN ('not_after', 'expired', 'mode', 'rule_ended'), false)
	    FROM d.release z JOIN d.message m ON m.message_id = z.message_id
	        AND m.tenant_id = z.tenant_id AND m.version = z.version
	        AND m.digest = z.digest
	    JOIN d.inbox x ON x.tenant_id = z.tenant_id
	        AND x.inbox_id = z.inbox_id
	    JOIN d.tenant n ON n.tenant_id = z.tenant_id
	    WHERE z.message_id = mid AND z.tenant_id = t
	    AND z.version = v AND z.round = r), true);
END $$;

CREATE FUNCTION api.uncertain_1(s bytea, mid uuid, ix int[], outcome text,
	note text)
	RETURNS TABLE (status int, code text, state smallint)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	g record;
	n int;
BEGIN
	o := d.op(s);
	PERFORM set_config('synchronous_commit', 'on', true);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::smallint;
		RETURN;
	END IF;
	SELECT y.* INTO g FROM d.state y WHERE y.message_id = mid FOR UPDATE;
	IF NOT FOUND THEN
		o.status := 404;
		o.code := 'not_found';
		RETURN QUERY SELECT o.status, o.code, NULL::smallint;
		RETURN;
	END IF;
	IF NOT d.op_may(o.operator_id, ARRAY['reviewer', 'senior'], g.tenant_id,
	    g.inbox_id) THEN
		o.status := 403;
		o.code := 'missing_permission';
		RETURN QUERY SELECT o.status, o.code, NULL::smallint;
		RETURN;
	END IF;
	IF outcome IS NULL OR outcome NOT IN ('sent', 'failed', 'retry') THEN
		RETURN QUERY SELECT 422, 'validation_error', g.state;
		RETURN;
	END IF;
	IF g.state <> 11 THEN
		RETURN QUERY SELECT 409, 'state_conflict', g.state;
		RETURN;
	END IF;
	-- It would be taken off the queue again, and the question come back.
	IF outcome = 'retry' AND d.release_over(mid, g.tenant_id, g.version,
	    g.round) THEN
		RETURN QUERY SELECT 409, 'release_over', g.state;
		RETURN;
	END IF;
	UPDATE d.delivery y SET status = CASE outcome WHEN 'sent' THEN 3
	    WHEN 'failed' THEN 5 ELSE 0 END, next_attempt_at = NULL
	    WHERE y.message_id = mid AND y.tenant_id = g.tenant_id
	    AND y.status = 6 AND y.ix::int = ANY (uncertain_1.ix);
	GET DIAGNOSTICS n = ROW_COUNT;
	IF n = 0 THEN
		RETURN QUERY SELECT 409, 'state_conflict', g.state;
		RETURN;
	END IF;
	IF outcome = 'retry' THEN
		PERFORM d.enqueue(ARRAY[(mid, g.tenant_id, g.inbox_id, g.version,
		    g.round, x.digest, x.rcpt, x.size, x.send_at, x.not_after, NULL,
		    NULL, NULL)::d.leaving], clock_timestamp()) FROM d.message x
		    WHERE x.message_id = mid AND x.tenant_id = g.tenant_id
		    AND x.version = g.version;
	END IF;
	UPDATE d.state y SET state = d.derived(mid, g.tenant_id),
	    detail = outcome WHERE y.message_id = mid
	    AND y.tenant_id = g.tenant_id RETURNING y.state INTO g.state;
	PERFORM d.note(g.tenant_id, 'op:' || o.operator_id::text,
	    'message.uncertain', mid, json_build_object('outcome', outcome, 'ix',
	    uncertain_1.ix, 'note', left(uncertain_1.note, 500))::text);
	RETURN QUERY SELECT 200, NULL::text, g.state;
END $$;

-- Looser is a senior's or an admin's, with reason and a fresh step-up.
CREATE FUNCTION d.loosen_no(op bigint, step_up boolean, t bigint, i bigint,
	reason text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
	IF NOT d.op_may(op, ARRAY['senior', 'admin'], t, i) THEN
		RETURN 'missing_permission';
	END IF;
	IF NOT step_up THEN
		RETURN 'step_up_required';
	END IF;
	IF coalesce(length(btrim(reason, E' \t\r\n')), 0) NOT BETWEEN 1 AND 1000 THEN
		RETURN 'validation_error';
	END IF;
	RETURN NULL;
END $$;

CREATE FUNCTION api.mode_set_1(s bytea, tenant bigint, inbox bigint, to_mode
	smallint, reason text)
	RETURNS TABLE (status int, code text, mode smallint, mode_epoch int)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	x record;
	why text;
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::smallint, NULL::int;
		RETURN;
	END IF;
	SELECT y.mode, y.mode_epoch INTO x FROM d.inbox y
	    WHERE y.tenant_id = tenant AND y.inbox_id = inbox FOR UPDATE;
	IF NOT FOUND THEN
		o.status := 404;
		o.code := 'not_found';
		RETURN QUERY SELECT o.status, o.code, NULL::smallint, NULL::int;
		RETURN;
	END IF;
	IF to_mode IS NULL OR to_mode NOT BETWEEN 0 AND 4 THEN
		why := 'validation_error';
	ELSIF to_mode > x.mode THEN
		why := d.loosen_no(o.operator_id, o.step_up, tenant, inbox, reason);
	ELSIF NOT d.op_may(o.operator_id, ARRAY['reviewer', 'senior', 'admin'],
	    tenant, inbox) THEN
		why := 'missing_permission';
	END IF;
	IF why IS NOT NULL THEN
		RETURN QUERY SELECT CASE why WHEN 'validation_error' THEN 422
		    ELSE 403 END, why, x.mode, x.mode_epoch;
		RETURN;
	END IF;
	IF to_mode <> x.mode THEN
		UPDATE d.inbox y SET mode = to_mode WHERE y.tenant_id = tenant
		    AND y.inbox_id = inbox RETURNING y.mode, y.mode_epoch INTO x;
		PERFORM d.note(tenant, 'op:' || o.operator_id::text, 'inbox.mode',
		    NULL, json_build_object('inbox', inbox, 'mode', to_mode,
		    'mode_epoch', x.mode_epoch, 'reason', left(reason, 1000))::text);
	END IF;
	RETURN QUERY SELECT 200, NULL::text, x.mode, x.mode_epoch;
END $$;

CREATE FUNCTION api.pause_1(s bytea, tenant bigint, inbox bigint, paused
	boolean, reason text)
	RETURNS TABLE (status int, code text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	said_by text;
	said_why text;
	why text;
	n int;
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	IF pause_1.paused IS NULL OR tenant IS NULL AND inbox IS NOT NULL
	    OR coalesce(length(btrim(reason, E' \t\r\n')), 0) = 0
	    OR length(reason) > 1000 THEN
		RETURN QUERY SELECT 422, 'validation_error';
		RETURN;
	END IF;
	-- Everything, a tenant, an inbox: the scope must hold all of it.
	IF NOT EXISTS (SELECT 1 FROM d.operator_scope c
	    WHERE c.operator_id = o.operator_id AND c.role <> 'auditor'
	    AND (c.tenant_id IS NULL OR c.tenant_id = tenant
	    AND (c.inbox_id IS NULL OR c.inbox_id = inbox))) THEN
		RETURN QUERY SELECT 403, 'missing_permission';
		RETURN;
	END IF;
	IF NOT pause_1.paused THEN
		why := d.loosen_no(o.operator_id, o.step_up, tenant, inbox, reason);
		IF why IS NOT NULL THEN
			RETURN QUERY SELECT CASE why WHEN 'validation_error' THEN 422
			    ELSE 403 END, why;
			RETURN;
		END IF;
	END IF;
	-- Who said so last, and why, is shown until it ends.
	IF pause_1.paused THEN
		said_by := 'op:' || o.operator_id::text;
		said_why := pause_1.reason;
	END IF;
	IF tenant IS NULL THEN
		UPDATE d.global_pause g SET paused_at = CASE WHEN pause_1.paused
		    THEN coalesce(g.paused_at, clock_timestamp()) END,
		    paused_by = said_by, reason = said_why;
	ELSIF inbox IS NULL THEN
		UPDATE d.tenant t SET paused_at = CASE WHEN pause_1.paused
		    THEN coalesce(t.paused_at, clock_timestamp()) END,
		    paused_by = said_by, pause_reason = said_why
		    WHERE t.tenant_id = tenant;
	ELSE
		UPDATE d.inbox x SET paused_at = CASE WHEN pause_1.paused
		    THEN coalesce(x.paused_at, clock_timestamp()) END,
		    paused_by = said_by, pause_reason = said_why
		    WHERE x.tenant_id = tenant AND x.inbox_id = inbox;
	END IF;
	GET DIAGNOSTICS n = ROW_COUNT;
	IF n = 0 THEN
		RETURN QUERY SELECT 404, 'not_found';
		RETURN;
	END IF;
	PERFORM d.note(coalesce(tenant, 0), 'op:' || o.operator_id::text,
	    CASE WHEN pause_1.paused THEN 'pause' ELSE 'resume' END, NULL,
	    json_build_object('tenant', tenant, 'inbox', inbox, 'reason',
	    reason)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

CREATE FUNCTION api.suspend_1(s bytea, tenant bigint, inbox bigint,
	suspended boolean, reason text)
	RETURNS TABLE (status int, code text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	why text;
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	IF suspend_1.suspended IS NULL OR length(reason) > 1000
	    OR coalesce(length(btrim(reason, E' \t\r\n')), 0) = 0 THEN
		RETURN QUERY SELECT 422, 'validation_error';
		RETURN;
	END IF;
	IF NOT suspend_1.suspended THEN
		why := d.loosen_no(o.operator_id, o.step_up, tenant, inbox, reason);
	ELSIF NOT d.op_may(o.operator_id, ARRAY['senior', 'admin'], tenant, inbox)
	    THEN
		why := 'missing_permission';
	END IF;
	IF why IS NOT NULL THEN
		RETURN QUERY SELECT CASE why WHEN 'validation_error' THEN 422
		    ELSE 403 END, why;
		RETURN;
	END IF;
	UPDATE d.inbox x SET suspended_at = CASE WHEN suspend_1.suspended
	    THEN coalesce(x.suspended_at, clock_timestamp()) END
	    WHERE x.tenant_id = tenant AND x.inbox_id = inbox;
	IF NOT FOUND THEN
		o.status := 404;
		o.code := 'not_found';
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	PERFORM d.note(tenant, 'op:' || o.operator_id::text,
	    CASE WHEN suspend_1.suspended THEN 'inbox.suspend'
	    ELSE 'inbox.unsuspend' END, NULL, json_build_object('inbox', inbox,
	    'reason', reason)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

CREATE FUNCTION api.list_set_1(s bytea, tenant bigint, inbox bigint, entry
	text, verdict text, expires timestamptz, reason text)
	RETURNS TABLE (status int, code text, entry_id bigint)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	e bigint;
	x text := d.canon(btrim(entry));
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::bigint;
		RETURN;
	END IF;
	IF list_set_1.verdict IS NULL OR list_set_1.verdict NOT IN ('b', 's')
	    OR x IS NULL OR octet_length(x) NOT BETWEEN 3 AND 320
	    OR x !~ '^[^@ ]*@[^@ ]+$'
	    OR x ~ '[\x01-\x20\x7f]' OR tenant IS NULL AND inbox IS NOT NULL
	    OR coalesce(length(btrim(list_set_1.reason)), 0) NOT BETWEEN 1
	    AND 1000 OR expires <= clock_timestamp() THEN
		RETURN QUERY SELECT 422, 'validation_error', NULL::bigint;
		RETURN;
	END IF;
	IF NOT EXISTS (SELECT 1 FROM d.operator_scope c
	    WHERE c.operator_id = o.operator_id AND c.role <> 'auditor'
	    AND (c.tenant_id IS NULL OR c.tenant_id = tenant
	    AND (c.inbox_id IS NULL OR c.inbox_id = inbox))) OR inbox IS NOT NULL
	    AND NOT EXISTS (SELECT 1 FROM d.inbox y WHERE y.tenant_id = tenant
	    AND y.inbox_id = inbox) THEN
		RETURN QUERY SELECT 403, 'missing_permission', NULL::bigint;
		RETURN;
	END IF;
	INSERT INTO d.list_entry AS l (tenant_id, inbox_id, entry, verdict,
	    expires_at, reason, created_by) VALUES (coalesce(tenant, 0),
	    coalesce(inbox, 0), x, list_set_1.verdict::"char", expires,
	    list_set_1.reason, 'op:' || o.operator_id::text)
	    RETURNING l.entry_id INTO e;
	PERFORM d.note(coalesce(tenant, 0), 'op:' || o.operator_id::text,
	    'list.set', NULL, json_build_object('entry_id', e, 'inbox', inbox,
	    'entry', x, 'verdict', list_set_1.verdict, 'reason',
	    list_set_1.reason)::text);
	RETURN QUERY SELECT 200, NULL::text, e;
END $$;

CREATE FUNCTION api.list_remove_1(s bytea, entry_id bigint, reason text)
	RETURNS TABLE (status int, code text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	l record;
	why text;
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	SELECT y.tenant_id, y.inbox_id INTO l FROM d.list_entry y
	    WHERE y.entry_id = list_remove_1.entry_id AND y.ended_at IS NULL;
	IF NOT FOUND THEN
		o.status := 404;
		o.code := 'not_found';
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	why := d.loosen_no(o.operator_id, o.step_up, nullif(l.tenant_id, 0),
	    nullif(l.inbox_id, 0), reason);
	IF why IS NOT NULL THEN
		RETURN QUERY SELECT CASE why WHEN 'validation_error' THEN 422
		    ELSE 403 END, why;
		RETURN;
	END IF;
	UPDATE d.list_entry y SET ended_at = clock_timestamp()
	    WHERE y.entry_id = list_remove_1.entry_id;
	PERFORM d.note(l.tenant_id, 'op:' || o.operator_id::text, 'list.remove',
	    NULL, json_build_object('entry_id', list_remove_1.entry_id, 'reason',
	    reason)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

-- What is in force, or of that only what is about `whom`, the latest first.
CREATE FUNCTION api.lists_1(s bytea, tenant bigint, inbox bigint,
	whom text DEFAULT NULL) RETURNS TABLE (status int, code text,
	entry_id bigint, tenant_id bigint, inbox_id bigint, entry text,
	verdict text, expires_at timestamptz, reason text,
	created_at timestamptz, created_by text, address text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, l.entry_id, nullif(l.tenant_id, 0),
	    nullif(l.inbox_id, 0), l.entry, l.verdict::text, l.expires_at,
	    l.reason, l.created_at, l.created_by, x.address FROM d.list_entry l
	    LEFT JOIN d.inbox x ON x.tenant_id = l.tenant_id
	        AND x.inbox_id = l.inbox_id
	    WHERE l.ended_at IS NULL AND (l.tenant_id = 0
	    OR l.tenant_id = ANY (d.cur_tenants()) OR (l.tenant_id::text || '.'
	    || l.inbox_id::text) = ANY (d.cur_boxes()))
	    AND (tenant IS NULL OR l.tenant_id IN (0, tenant))
	    AND (inbox IS NULL OR l.inbox_id IN (0, inbox))
	    AND (whom IS NULL OR l.entry = d.canon(btrim(whom)))
	    ORDER BY l.entry_id DESC LIMIT 1000;
END $$;

RESET ROLE;
SET LOCAL ROLE p_review;
GRANT EXECUTE ON FUNCTION api.decide_1, api.undo_1, api.review_cancel_1,
	api.uncertain_1, api.mode_set_1, api.pause_1,
	api.suspend_1, api.list_set_1, api.list_remove_1, api.lists_1
	TO l_review;
GRANT EXECUTE ON FUNCTION api.mode_set_1, api.pause_1, api.suspend_1,
	api.list_set_1, api.list_remove_1, api.lists_1 TO l_ctl;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_review;
