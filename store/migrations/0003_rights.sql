-- SPDX-License-Identifier: ISC
-- 0003_rights.sql - which zone may do what with which rows. FORCE RLS on all
-- tables; a zone has what is granted here and nothing else, and a login role
-- has no right on any table.
SET LOCAL ROLE p_owner;

DO $$
DECLARE t text;
BEGIN
	FOR t IN SELECT c.relname FROM pg_class c
	    WHERE c.relnamespace = 'd'::regnamespace AND c.relkind IN ('r', 'p')
	    LOOP
		EXECUTE format('ALTER TABLE d.%I ENABLE ROW LEVEL SECURITY, '
		    'FORCE ROW LEVEL SECURITY', t);
	END LOOP;
END $$;

-- right(zones, table, rights, rows): one line a right. `rows` is the policy.
CREATE FUNCTION d.let(zones text, tab text, rights text, rows_are text)
	RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	z text;
	r text;
	verb text;
	cond text := CASE rows_are
	    WHEN 'all' THEN 'true'
	    WHEN 'box' THEN '(tenant_id::text || ''.'' || inbox_id::text) = '
	        'ANY ((SELECT d.cur_boxes())::text[])'
	    WHEN 'scope' THEN '(tenant_id = ANY ((SELECT d.cur_tenants())'
	        '::bigint[]) OR (tenant_id::text || ''.'' || inbox_id::text) = '
	        'ANY ((SELECT d.cur_boxes())::text[]))'
	    WHEN 'tenant' THEN '(tenant_id = ANY ((SELECT d.cur_tenants())'
	        '::bigint[]))'
	    -- IS TRUE: a filter. As the condition of an index it would be searched
	    -- once for each message of a set, of every row (decision 0101).
	    WHEN 'msg' THEN '(message_id = ANY ((SELECT d.cur_msgs())::uuid[])) '
	        'IS TRUE'
	    WHEN 'zone' THEN 'zone = current_user'
	    END;
BEGIN
	IF cond IS NULL THEN
		RAISE EXCEPTION 'no such rows: %', rows_are;
	END IF;
	FOREACH z IN ARRAY string_to_array(zones, ' ') LOOP
		FOREACH r IN ARRAY regexp_split_to_array(rights, '\s*[+]\s*') LOOP
			EXECUTE format('GRANT %s ON d.%I TO %I', r, tab, z);
			verb := split_part(split_part(r, '(', 1), ' ', 1);
			EXECUTE format('CREATE POLICY %I ON d.%I FOR %s TO %I %s %s',
			    z || '_' || lower(verb) || '_' || md5(r || rows_are), tab,
			    verb, z,
			    CASE WHEN verb = 'INSERT' THEN '' ELSE 'USING (' || cond
			        || ')' END,
			    CASE WHEN verb IN ('INSERT', 'UPDATE') THEN 'WITH CHECK ('
			        || cond || ')' ELSE '' END);
		END LOOP;
	END LOOP;
END $$;

-- Owner: bookkeeping of migrations, and retention.
SELECT d.let('p_owner', 'schema_migration', 'SELECT + INSERT', 'all');
SELECT d.let('p_owner', 'edge', 'SELECT + INSERT', 'all');
SELECT d.let('p_owner', 'delivery_edge', 'SELECT + INSERT', 'all');
SELECT d.let('p_owner', 'mode_rule', 'SELECT + INSERT', 'all');

-- Words every zone reads.
SELECT d.let('p_submit p_read p_review p_relay p_policy p_ctl', x, 'SELECT',
	'all') FROM unnest(ARRAY['edge', 'delivery_edge', 'mode_rule',
	'global_pause']) x;
SELECT d.let('p_submit p_read p_review p_relay p_policy p_ctl p_seal', x,
	'SELECT', 'all') FROM unnest(ARRAY['deployment', 'schema_migration']) x;

-- Agents in: p_submit knows keys, inboxes and limits; writes into the boxes
-- whose keys were shown in this call.
SELECT d.let('p_submit p_read', x, 'SELECT', 'all') FROM unnest(ARRAY[
	'credential', 'tenant', 'domain', 'tenant_key', 'inbox_key',
	'list_entry', 'allow_rule']) x;
SELECT d.let('p_submit p_read', 'handle', 'SELECT + UPDATE (expires_at)',
	'all');
SELECT d.let('p_submit', 'handle', 'INSERT + DELETE', 'all');
SELECT d.let('p_submit p_read', 'inbox', 'SELECT', 'all');
GRANT UPDATE (mode, mode_epoch, touched, epoch) ON d.inbox TO p_submit;
CREATE POLICY p_submit_update ON d.inbox FOR UPDATE TO p_submit USING (true)
	WITH CHECK ((tenant_id::text || '.' || inbox_id::text)
	= ANY ((SELECT d.cur_boxes())::text[]));
SELECT d.let('p_submit', 'message', 'SELECT + INSERT', 'box');
SELECT d.let('p_submit', 'body', 'SELECT + INSERT', 'box');
SELECT d.let('p_submit', 'state', 'SELECT + INSERT + UPDATE (state, detail)',
	'box');
SELECT d.let('p_submit', 'quota', 'SELECT + UPDATE', 'box');
SELECT d.let('p_submit', 'idem', 'SELECT + INSERT + UPDATE (request_sha256,
	message_id, created_at)', 'box');
SELECT d.let('p_submit', 'upload', 'SELECT + INSERT + DELETE +
	UPDATE (chunks, bytes)', 'box');
SELECT d.let('p_submit', 'event', 'INSERT', 'box');
SELECT d.let('p_submit', 'credential', 'INSERT + UPDATE (revoked_at,
	last_used, expires_at)', 'box');
SELECT d.let('p_submit', 'agent_session', 'SELECT + INSERT + UPDATE (sent,
	refused, ended_at, ended_by, exit_error, stdout_lines, stderr_lines,
	payload_length)', 'box');
SELECT d.let('p_read', 'agent_session', 'SELECT', 'box');
SELECT d.let('p_submit', 'key_wrap', 'INSERT', 'box');
SELECT d.let('p_submit', 'inbox_key', 'INSERT', 'box');
SELECT d.let('p_submit', 'claim', 'SELECT + UPDATE (used_at)', 'all');

-- Agents out.
SELECT d.let('p_read', x, 'SELECT', 'box') FROM unnest(ARRAY['message', 'body',
	'state', 'decision', 'delivery', 'event', 'dsn', 'quota', 'key_wrap',
	'release']) x;

-- Operators: what their scope names, in one call with a live session.
SELECT d.let('p_review', x, 'SELECT', 'scope') FROM unnest(ARRAY['message',
	'body', 'state', 'decision', 'release', 'delivery', 'attempt', 'event',
	'send_q', 'quota', 'inbox']) x;
SELECT d.let('p_review', 'state', 'UPDATE (state, round, detail, risk)',
	'scope');
-- Every word names its tenant; what is found is then read under the scope.
SELECT d.let('p_review', 'word', 'SELECT + INSERT', 'all');
SELECT d.let('p_review', 'word_at', 'SELECT + UPDATE (gen, xid, n)', 'all');
SELECT d.let('p_review', 'decision', 'INSERT', 'scope');
SELECT d.let('p_review', 'release', 'INSERT', 'scope');
SELECT d.let('p_review', 'delivery', 'UPDATE (status, reply, next_attempt_at)',
	'scope');
SELECT d.let('p_review', 'inbox', 'UPDATE (mode, mode_epoch, paused_at,
	paused_by, pause_reason, suspended_at, alarm, rules_ended, touched)', 'scope');
SELECT d.let('p_review', 'tenant', 'SELECT', 'all');
SELECT d.let('p_review', 'tenant', 'UPDATE (paused_at, paused_by,
	pause_reason)', 'tenant');
SELECT d.let('p_review', 'tenant_key', 'SELECT', 'all');
SELECT d.let('p_review', 'domain', 'SELECT', 'all');
SELECT d.let('p_review', 'global_pause', 'UPDATE (paused_at, paused_by,
	reason)', 'all');
SELECT d.let('p_review', 'list_entry', 'SELECT', 'all');
SELECT d.let('p_review', 'list_entry', 'INSERT + UPDATE (ended_at)', 'all');
SELECT d.let('p_review p_ctl', 'operator', 'SELECT +
	INSERT (name, salt, params, verifier) +
	UPDATE (failures, failed_at, locked_until, last_seen, disabled_at)',
	'all');
SELECT d.let('p_review', 'nobody', 'SELECT + INSERT (place, name_sha256) +
	UPDATE (name_sha256, failures, failed_at, locked_until)', 'all');
SELECT d.let('p_review p_ctl', 'operator_scope', 'SELECT + INSERT', 'all');
-- The marks of a session are p_auth's (0014).
SELECT d.let('p_review p_ctl', 'operator_session', 'SELECT +
	INSERT (session_sha256, operator_id, peer, expires_at) +
	UPDATE (touched_at, ended_at)', 'all');

-- The worker: queue and states everywhere, content only of what it leased.
SELECT d.let('p_relay', x, 'SELECT', 'msg') FROM unnest(ARRAY['message',
	'body', 'release']) x;
SELECT d.let('p_relay', 'send_q', 'SELECT + DELETE + UPDATE (vt, due_at,
	attempts, lease, lease_until, worker, aside)', 'all');
SELECT d.let('p_relay', 'state', 'SELECT + UPDATE (state, round, integrity,
	detail, was, changed_at)', 'all');
SELECT d.let('p_relay', 'delivery', 'SELECT + UPDATE (status, attempts,
	reply_code, enhanced, reply, next_attempt_at, unsure_mx, was, changed_at)',
	'all');
SELECT d.let('p_relay', 'attempt', 'SELECT + INSERT + UPDATE (mx, tls, dot_at,
	ended_at, result)', 'all');
SELECT d.let('p_relay', x, 'SELECT', 'all') FROM unnest(ARRAY['inbox',
	'tenant', 'list_entry', 'inbox_key']) x;
SELECT d.let('p_relay', 'dsn', 'SELECT (message_id, tenant_id, inbox_id, domain,
	n, kind, at)', 'all');
SELECT d.let('p_relay', 'dsn', 'INSERT', 'msg');
SELECT d.let('p_relay', 'inbox', 'UPDATE (alarm, touched)', 'all');
SELECT d.let('p_relay', 'stop', 'UPDATE', 'all');
SELECT d.let('p_relay', 'way_change', 'SELECT + INSERT + UPDATE (past) +
	DELETE', 'all');

-- The referee.
SELECT d.let('p_policy', x, 'SELECT', 'all') FROM unnest(ARRAY['message',
	'decision', 'inbox', 'tenant']) x;
SELECT d.let('p_policy', 'credential', 'SELECT (tenant_id, key_id, kind,
	opened_by)', 'all');
SELECT d.let('p_policy', 'release', 'SELECT + INSERT', 'all');
SELECT d.let('p_policy', 'state', 'SELECT + INSERT', 'all');
SELECT d.let('p_policy', 'send_q', 'SELECT + INSERT + DELETE +
	UPDATE (worker)', 'all');
SELECT d.let('p_policy', 'delivery', 'SELECT + INSERT + UPDATE (status)',
	'all');
SELECT d.let('p_policy', 'quota', 'SELECT + UPDATE (held, held_bytes)', 'all');
SELECT d.let('p_policy', 'event', 'SELECT + INSERT', 'all');
SELECT d.let('p_policy', 'fair', 'SELECT + INSERT + UPDATE (vt)', 'all');
SELECT d.let('p_policy', 'allow_rule', 'SELECT + UPDATE (uses_left)', 'all');

-- posternctl: everything that is no mail; of mail the envelope and states.
SELECT d.let('p_ctl', 'deployment', 'INSERT + UPDATE (gen, epoch, restored)', 'all');
SELECT d.let('p_ctl', 'global_pause', 'UPDATE (paused_at, paused_by, reason)',
	'all');
SELECT d.let('p_ctl', 'tenant', 'SELECT + INSERT + UPDATE (name,
	need_approvals, hold_for, approve_ttl, seal_subject, weight, paused_at,
	paused_by, pause_reason, disabled_at, deleted_at)', 'all');
SELECT d.let('p_ctl', 'tenant_key', 'SELECT + INSERT', 'all');
SELECT d.let('p_ctl', 'domain', 'SELECT + INSERT + UPDATE (token, verified_at,
	how, removed_at)', 'all');
SELECT d.let('p_ctl', 'plan', 'SELECT + INSERT + UPDATE', 'all');
SELECT d.let('p_ctl', 'inbox', 'SELECT + INSERT + UPDATE (display_name,
	metadata, mode, mode_epoch, paused_at, paused_by, pause_reason,
	suspended_at, deleted_at, plan,
	lim_hour, lim_day, lim_month, lim_held, lim_bytes, limits_version,
	rcpt_max, size_max, need_approvals, hold_for, oversight, smtp_wide,
	may_duplicate, one_click, epoch, reset_at, reset_by)', 'all');
SELECT d.let('p_ctl', 'address', 'SELECT + INSERT', 'all');
SELECT d.let('p_ctl', 'quota', 'SELECT + INSERT', 'all');
SELECT d.let('p_ctl', 'claim', 'SELECT + INSERT + UPDATE (expires_at)', 'all');
SELECT d.let('p_ctl', 'credential', 'SELECT (tenant_id, key_id, inbox_id, kind,
	scope, revoked_at, expires_at, created_at) + UPDATE (revoked_at)', 'all');
SELECT d.let('p_ctl', 'state', 'SELECT + UPDATE (state, round, detail,
	hold_until)', 'all');
SELECT d.let('p_ctl', 'event', 'SELECT', 'all');
SELECT d.let('p_ctl', 'message', 'SELECT (message_id, tenant_id, inbox_id,
	version, mail_from, rcpt, subject, rfc_message_id, digest, created_at,
	inbox_epoch)', 'all');
SELECT d.let('p_ctl', 'send_q', 'SELECT', 'all');
SELECT d.let('p_ctl', 'delivery', 'SELECT', 'all');

-- Audit: every zone appends in its own name; transaction, time and zone
-- cannot be given.
GRANT USAGE ON SEQUENCE d.audit_n TO p_submit, p_read, p_review, p_relay,
	p_policy, p_ctl;
SELECT d.let('p_submit p_read p_review p_relay p_policy p_ctl', 'audit',
	'INSERT (tenant_id, actor, event, message_id, detail)', 'zone');
SELECT d.let('p_seal', 'audit', 'SELECT', 'all');
SELECT d.let('p_review', 'audit', 'SELECT', 'tenant');
SELECT d.let('p_seal', 'audit_seal', 'SELECT + INSERT', 'all');

DROP FUNCTION d.let;

GRANT EXECUTE ON FUNCTION d.cur_boxes(), d.cur_tenants(), d.cur_msgs(),
	d.cur_actor() TO p_submit, p_read, p_review, p_relay, p_policy, p_ctl,
	p_seal;
GRANT EXECUTE ON FUNCTION d.uuid_ms(uuid), d.uuid_at(bigint),
	d.uuid_floor(timestamptz),
	d.us(timestamptz), d.within(uuid, uuid, uuid), d.low(text),
	d.canon(text), d.canon_odd(text),
	d.domain_of(text),
	d.monday(timestamptz) TO p_submit, p_read, p_review, p_relay, p_policy,
	p_ctl;
GRANT EXECUTE ON FUNCTION d.digest_1, d.message_sound
	TO p_submit, p_review, p_policy;
GRANT EXECUTE ON FUNCTION d.partition_make(date) TO p_ctl;
GRANT EXECUTE ON FUNCTION d.weeks_ahead() TO p_ctl, p_read;
GRANT EXECUTE ON FUNCTION d.log_place() TO p_read;

SET LOCAL ROLE p_policy;
GRANT EXECUTE ON FUNCTION d.rule_ended(uuid, bigint, smallint, smallint)
	TO p_relay, p_review;
GRANT EXECUTE ON FUNCTION d.votes_suffice(uuid, bigint, smallint, smallint,
	bytea) TO p_review;
GRANT EXECUTE ON FUNCTION d.event_add(uuid, bigint, bigint, text, text, text,
	smallint, text),
	d.states_moved(uuid[], bigint[], bigint[], smallint[], smallint[],
	smallint[], smallint[], text[], text, text)
	TO p_submit, p_review, p_relay, p_ctl;
GRANT EXECUTE ON FUNCTION d.unqueue(uuid, bigint, boolean)
	TO p_submit, p_review;
GRANT EXECUTE ON FUNCTION d.unqueued(uuid[], bigint[]),
	d.enqueue(d.leaving[], timestamptz) TO p_review;
