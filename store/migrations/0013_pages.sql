-- SPDX-License-Identifier: ISC
-- 0013_pages.sql - what the operators' pages show and set besides mail: one
-- inbox, its keys and allow rules, people and their sessions, the audit log,
-- health. Like 0007: each call shows the session's secret; what loosens or
-- destroys needs a reason and a fresh step-up.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_review, p_ctl;

GRANT SELECT, INSERT, UPDATE (ended_at) ON d.allow_rule TO p_review;
CREATE POLICY p_review_rule ON d.allow_rule TO p_review
	USING ((tenant_id = ANY ((SELECT d.cur_tenants())::bigint[])
	    OR (tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[])));
GRANT SELECT (tenant_id, key_id, inbox_id, kind, scope, label, created_at,
	expires_at, revoked_at, last_used) ON d.credential TO p_review;
CREATE POLICY p_review_seen ON d.credential FOR SELECT TO p_review
	USING ((tenant_id = ANY ((SELECT d.cur_tenants())::bigint[])
	    OR (tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[])));
GRANT SELECT (tenant_id, inbox_id, expires_at, used_at) ON d.claim TO p_review;
CREATE POLICY p_review_seen ON d.claim FOR SELECT TO p_review
	USING ((tenant_id = ANY ((SELECT d.cur_tenants())::bigint[])
	    OR (tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[])));
GRANT SELECT ON d.audit_seal TO p_review;
CREATE POLICY p_review_seen ON d.audit_seal FOR SELECT TO p_review
	USING (true);
GRANT UPDATE (salt, params, verifier) ON d.operator TO p_review;
GRANT DELETE ON d.operator_scope TO p_ctl;
CREATE POLICY p_ctl_end ON d.operator_scope FOR DELETE TO p_ctl USING (true);

SET LOCAL ROLE p_review;

CREATE FUNCTION api.review_inbox_1(s bytea, tenant bigint, inbox bigint)
	RETURNS TABLE (status int, code text, tenant_slug text, address text,
	mode smallint, paused boolean, suspended boolean, alarm text, held int,
	plan text, lim_hour int, lim_day int, lim_month int, lim_held int,
	lim_bytes bigint, used_day int, used_month int, oversight text,
	display_name text, created_at timestamptz, claimed boolean,
	claim_until timestamptz, reset_at timestamptz, need_approvals smallint,
	may_tighten boolean, may_loosen boolean, may_admin boolean,
	own_approvals smallint, tenant_approvals smallint, own_hold int,
	tenant_hold int, smtp_wide boolean, may_duplicate boolean,
	one_click boolean, test boolean)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op(s);
	IF o.status = 200 THEN
		RETURN QUERY SELECT 200, NULL::text, n.slug, x.address, x.mode,
		    x.paused_at IS NOT NULL, x.suspended_at IS NOT NULL, x.alarm,
		    q.held, x.plan, x.lim_hour, x.lim_day, x.lim_month, x.lim_held,
		    x.lim_bytes,
		    CASE WHEN q.day = (clock_timestamp() AT TIME ZONE 'UTC')::date
		        THEN q.day_used ELSE 0 END,
		    CASE WHEN q.month = date_trunc('month', clock_timestamp()
		        AT TIME ZONE 'UTC')::date THEN q.month_used ELSE 0 END,
		    x.oversight, x.display_name, x.created_at, x.epoch > 0,
		    (SELECT max(c.expires_at) FROM d.claim c
		        WHERE c.tenant_id = x.tenant_id AND c.inbox_id = x.inbox_id
		        AND c.used_at IS NULL AND c.expires_at > clock_timestamp()),
		    x.reset_at, coalesce(x.need_approvals, n.need_approvals),
		    d.op_may(o.operator_id, ARRAY['reviewer', 'senior', 'admin'],
		        x.tenant_id, x.inbox_id),
		    d.op_may(o.operator_id, ARRAY['senior', 'admin'], x.tenant_id,
		        x.inbox_id),
		    d.op_may(o.operator_id, ARRAY['admin'], x.tenant_id, x.inbox_id),
		    x.need_approvals, n.need_approvals,
		    extract(epoch FROM x.hold_for)::int,
		    extract(epoch FROM n.hold_for)::int, x.smtp_wide,
		    x.may_duplicate, x.one_click, x.test
		    FROM d.inbox x
		    JOIN d.quota q ON q.tenant_id = x.tenant_id
		        AND q.inbox_id = x.inbox_id
		    JOIN d.tenant n ON n.tenant_id = x.tenant_id
		    WHERE x.tenant_id = tenant AND x.inbox_id = inbox
		    AND x.deleted_at IS NULL;
		IF FOUND THEN
			RETURN;
		END IF;
		o.status := 404;
		o.code := 'not_found';
	END IF;
	SELECT o.status, o.code INTO status, code;
	RETURN NEXT;
END $$;

-- The newest 200 keys of an inbox. What a key is good for, never the key.
CREATE FUNCTION api.review_credentials_1(s bytea, tenant bigint, inbox bigint)
	RETURNS TABLE (status int, code text, key_id bigint, kind text,
	scope text, label text, created_at timestamptz, expires_at timestamptz,
	revoked_at timestamptz, last_used timestamptz)
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
	RETURN QUERY SELECT 200, NULL::text, c.key_id, c.kind::text,
	    c.scope::text, c.label, c.created_at, c.expires_at, c.revoked_at,
	    c.last_used FROM d.credential c WHERE c.tenant_id = tenant
	    AND c.inbox_id = inbox ORDER BY c.revoked_at IS NOT NULL,
	    c.key_id DESC LIMIT 200;
END $$;

-- Mail domains that anybody can have an address in: no rule for all of one.
CREATE FUNCTION d.is_public_domain(name text) RETURNS boolean
	LANGUAGE sql IMMUTABLE
	RETURN name IN ('gmail.com', 'googlemail.com', 'outlook.com',
	    'hotmail.com', 'live.com', 'msn.com', 'yahoo.com', 'ymail.com',
	    'aol.com', 'icloud.com', 'me.com', 'mac.com', 'gmx.com', 'gmx.de',
	    'gmx.net', 'web.de', 'proton.me', 'protonmail.com', 'mail.com',
	    'mail.ru', 'yandex.ru', 'yandex.com', 'zoho.com', 'qq.com', '163.com',
	    '126.com', 'fastmail.com', 'tutanota.com', 'orange.fr', 'free.fr',
	    'laposte.net', 't-online.de', 'libero.it', 'seznam.cz', 'wp.pl',
	    'onet.pl', 'comcast.net', 'verizon.net', 'att.net', 'rediffmail.com',
	    'naver.com', 'daum.net', 'hey.com', 'pm.me', 'example.com')
	    OR name ~ '^(yahoo|hotmail|outlook|live|gmx)[.]'
	    OR name !~ '[.]';

-- Mail to these recipients leaves without a person (A9): the one thing that
-- loosens gated_send, so it has an end, a count, a reason and a step-up.
CREATE FUNCTION api.allow_set_1(s bytea, tenant bigint, inbox bigint,
	entry text, uses int, days int, reason text)
	RETURNS TABLE (status int, code text, rule_id bigint)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	x text := d.canon(btrim(allow_set_1.entry));
	why text;
	r bigint;
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF NOT EXISTS (SELECT 1 FROM d.inbox y WHERE y.tenant_id = tenant
	    AND y.inbox_id = inbox) THEN
		why := 'not_found';
	ELSIF x IS NULL OR octet_length(x) NOT BETWEEN 3 AND 320
	    OR x !~ '^[^@ ]*@[^@ ]+$' OR x ~ '[\x01-\x20\x7f]'
	    OR coalesce(uses, 0) NOT BETWEEN 1 AND 10000
	    OR coalesce(days, 0) NOT BETWEEN 1 AND 365 THEN
		why := 'validation_error';
	ELSIF left(x, 1) = '@' AND d.is_public_domain(substr(x, 2)) THEN
		why := 'recipient_domain_refused';
	ELSIF left(x, 1) = '@' AND NOT d.op_may(o.operator_id,
	    ARRAY['senior'], tenant, inbox) THEN
		why := 'missing_permission';
	ELSE
		why := d.loosen_no(o.operator_id, o.step_up, tenant, inbox, reason);
	END IF;
	IF why IS NOT NULL THEN
		RETURN QUERY SELECT CASE why WHEN 'not_found' THEN 404
		    WHEN 'validation_error' THEN 422
		    WHEN 'recipient_domain_refused' THEN 422 ELSE 403 END, why,
		    NULL::bigint;
		RETURN;
	END IF;
	INSERT INTO d.allow_rule AS w (tenant_id, inbox_id, entry, operator_id,
	    reason, uses_left, expires_at) VALUES (tenant, inbox, x,
	    o.operator_id, allow_set_1.reason, uses,
	    clock_timestamp() + days * interval '1 day')
	    RETURNING w.rule_id INTO r;
	PERFORM d.note(tenant, 'op:' || o.operator_id::text, 'allow.set', NULL,
	    json_build_object('rule', r, 'inbox', inbox, 'entry', x, 'uses',
	    uses, 'days', days, 'reason', allow_set_1.reason)::text);
	RETURN QUERY SELECT 200, NULL::text, r;
END $$;

CREATE FUNCTION api.allow_end_1(s bytea, rule bigint)
	RETURNS TABLE (status int, code text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	w record;
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	SELECT y.tenant_id, y.inbox_id INTO w FROM d.allow_rule y
	    WHERE y.rule_id = rule AND y.ended_at IS NULL;
	IF NOT FOUND THEN
		RETURN QUERY SELECT 404, 'not_found';
		RETURN;
	END IF;
	IF NOT d.op_may(o.operator_id, ARRAY['reviewer', 'senior', 'admin'],
	    w.tenant_id, w.inbox_id) THEN
		RETURN QUERY SELECT 403, 'missing_permission';
		RETURN;
	END IF;
	-- The inbox first, as every gate does: who has asked for a dot has it,
	-- and of the others none leaves by this rule (d.rule_ended).
	UPDATE d.inbox y SET rules_ended = true WHERE y.tenant_id = w.tenant_id
	    AND y.inbox_id = w.inbox_id;
	UPDATE d.allow_rule y SET ended_at = clock_timestamp()
	    WHERE y.rule_id = rule AND y.tenant_id = w.tenant_id;
	PERFORM d.note(w.tenant_id, 'op:' || o.operator_id::text, 'allow.end',
	    NULL, json_build_object('rule', rule)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

CREATE FUNCTION api.allows_1(s bytea, tenant bigint, inbox bigint)
	RETURNS TABLE (status int, code text, rule_id bigint, entry text,
	uses_left int, expires_at timestamptz, reason text, by_name text,
	created_at timestamptz)
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
	RETURN QUERY SELECT 200, NULL::text, w.rule_id, w.entry, w.uses_left,
	    w.expires_at, w.reason, p.name, w.created_at FROM d.allow_rule w
	    LEFT JOIN d.operator p ON p.operator_id = w.operator_id
	    WHERE w.tenant_id = tenant AND w.inbox_id = inbox
	    AND w.ended_at IS NULL AND w.expires_at > clock_timestamp()
	    ORDER BY w.rule_id DESC LIMIT 500;
END $$;

-- Own sessions. A session's name is the hash of its hash: it opens nothing.
CREATE FUNCTION api.sessions_1(s bytea)
	RETURNS TABLE (status int, code text, ref bytea, peer text,
	created_at timestamptz, touched_at timestamptz, expires_at timestamptz,
	mine boolean)
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
	RETURN QUERY SELECT 200, NULL::text, sha256(z.session_sha256), z.peer,
	    z.created_at, z.touched_at, z.expires_at,
	    z.session_sha256 = sha256(s) FROM d.operator_session z
	    WHERE z.operator_id = o.operator_id AND z.ended_at IS NULL
	    AND z.expires_at > clock_timestamp()
	    AND z.touched_at > clock_timestamp() - interval '2 hours'
	    ORDER BY z.touched_at DESC LIMIT 100;
END $$;

CREATE FUNCTION api.session_drop_1(s bytea, ref bytea)
	RETURNS TABLE (status int, code text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	UPDATE d.operator_session z SET ended_at = clock_timestamp()
	    WHERE z.operator_id = o.operator_id AND z.ended_at IS NULL
	    AND sha256(z.session_sha256) = session_drop_1.ref;
	IF NOT FOUND THEN
		RETURN QUERY SELECT 404, 'not_found';
		RETURN;
	END IF;
	PERFORM d.note(0, 'op:' || o.operator_id::text, 'operator.session_ended',
	    NULL, '{}');
	RETURN QUERY SELECT 200, NULL::text;
END $$;

-- A new password, for the old one. The other sessions end, and this one goes
-- on under another secret: whoever had copied it is out, too.
CREATE FUNCTION api.password_set_1(s bytea, output bytea, salt bytea,
	params text, verifier bytea, next_sha256 bytea)
	RETURNS TABLE (status int, code text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	p record;
BEGIN
	o := d.op(s);
	IF o.status = 200 AND (coalesce(octet_length(password_set_1.salt), 0) <> 16
	    OR password_set_1.params IS NULL
	    OR coalesce(octet_length(password_set_1.verifier), 0) <> 32
	    OR NOT d.secret_new(next_sha256)) THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	p := d.password_try(o.operator_id, output);
	IF NOT p.ok THEN
		RETURN QUERY SELECT CASE WHEN p.wait IS NULL THEN 403 ELSE 429 END,
		    CASE WHEN p.wait IS NULL THEN 'missing_authorization'
		    ELSE 'rate_limited' END;
		RETURN;
	END IF;
	UPDATE d.operator z SET salt = password_set_1.salt,
	    params = password_set_1.params, verifier = password_set_1.verifier
	    WHERE z.operator_id = o.operator_id;
	UPDATE d.operator_session z SET ended_at = clock_timestamp()
	    WHERE z.operator_id = o.operator_id AND z.ended_at IS NULL
	    AND z.session_sha256 <> sha256(s);
	PERFORM d.session_turn(s, next_sha256);
	PERFORM d.note(0, 'op:' || o.operator_id::text, 'operator.password',
	    NULL, '{}');
	RETURN QUERY SELECT 200, NULL::text;
END $$;

-- The audit log, newest first, in the order of its chain. A search reads at
-- most 20,000 rows, also those that it must not show; where it stopped is the
-- last row, which has no event.
CREATE FUNCTION api.review_audit_1(s bytea, tenant bigint, who text,
	what text, mid uuid, before text, lim int)
	RETURNS TABLE (status int, code text, key text, at timestamptz,
	actor text, by_name text, tenant_slug text, event text,
	message_id uuid, detail text, sealed boolean)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	b record;
	f record;
	r record;
	n int := 0;
	most int := least(greatest(coalesce(lim, 100), 1), 500);
	by_op text := coalesce((SELECT 'op:' || p.operator_id::text
	    FROM d.operator p WHERE p.name = lower(who)), '');
	g int := 2147483647;
	x xid8 := '18446744073709551615';
	k bigint := 9223372036854775807;
BEGIN
	o := d.op(s);
	IF o.status = 200 AND NOT d.op_may(o.operator_id,
	    ARRAY['senior', 'admin', 'auditor'], tenant, NULL)
	    AND (tenant IS NOT NULL OR NOT EXISTS (SELECT 1
	    FROM d.operator_scope c WHERE c.operator_id = o.operator_id
	    AND c.inbox_id IS NULL AND c.role IN ('senior', 'admin',
	    'auditor'))) THEN
		o.status := 403;
		o.code := 'missing_permission';
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	-- Only tenants over which the role reaches, not those merely reviewed.
	PERFORM set_config('postern.tenants', coalesce((SELECT array_agg(t.tenant_id)
	    FROM d.tenant t WHERE d.op_may(o.operator_id, ARRAY['senior',
	    'admin', 'auditor'], t.tenant_id, NULL)), '{}')::text, true);
	IF d.op_may(o.operator_id, ARRAY['senior', 'admin', 'auditor'], NULL,
	    NULL) THEN
		PERFORM set_config('postern.tenants', (d.cur_tenants()
		    || 0::bigint)::text, true);
	END IF;
	IF before ~ '^[0-9]{1,9}[.][0-9]{1,18}[.][0-9]{1,18}$' THEN
		g := split_part(before, '.', 1)::int;
		x := split_part(before, '.', 2)::xid8;
		k := split_part(before, '.', 3)::bigint;
	END IF;
	SELECT z.gen, z.xid, z.n INTO b FROM d.audit_seal z
	    ORDER BY z.block DESC LIMIT 1;
	SELECT z.gen_, z.xid_, z.n_ INTO f
	    FROM d.audit_back(g, x, k, 20000) z;
	FOR r IN SELECT a.* FROM d.audit a WHERE (a.gen, a.xid, a.n) < (g, x, k)
	    AND (f.gen_ IS NULL OR (a.gen, a.xid, a.n)
	    >= (f.gen_, f.xid_, f.n_))
	    ORDER BY a.gen DESC, a.xid DESC, a.n DESC LOOP
		key := r.gen::text || '.' || r.xid::text || '.' || r.n::text;
		CONTINUE WHEN tenant IS NOT NULL AND r.tenant_id <> tenant
		    OR coalesce(who, '') <> '' AND r.actor::text <> who
		    AND r.actor::text <> by_op
		    AND (by_op = '' OR r.actor::text NOT LIKE by_op || '@%')
		    AND split_part(r.actor::text, ':', 1) <> who
		    OR coalesce(what, '') <> '' AND r.event::text <> what
		    AND left(r.event::text, length(what) + 1) <> what || '.'
		    OR mid IS NOT NULL AND r.message_id IS DISTINCT FROM mid;
		n := n + 1;
		RETURN QUERY SELECT 200, NULL::text, key, r.at, r.actor::text,
		    (SELECT p.name FROM d.operator p WHERE r.actor::text IN (
		    'op:' || p.operator_id::text) OR r.actor::text LIKE 'op:'
		    || p.operator_id::text || '@%'),
		    (SELECT t.slug FROM d.tenant t WHERE t.tenant_id = r.tenant_id),
		    r.event::text, r.message_id, r.detail::text,
		    coalesce((r.gen, r.xid, r.n) <= (b.gen, b.xid, b.n), false);
		EXIT WHEN n >= most;
	END LOOP;
	IF n < most AND f.gen_ IS NOT NULL THEN
		RETURN QUERY SELECT 200, NULL::text, f.gen_::text || '.'
		    || f.xid_::text || '.' || f.n_::text, NULL::timestamptz,
		    NULL::text, NULL::text, NULL::text, NULL::text, NULL::uuid,
		    NULL::text, NULL::boolean;
	END IF;
END $$;

-- Messages of the last day, or of the last eight for decisions: the newest
-- `most` of who sees everything, else as many spread evenly over the inboxes,
-- so that nobody's page reads all of another's mail.
CREATE FUNCTION d.health_rows(everywhere boolean, since timestamptz, most int)
	RETURNS TABLE (message_id uuid, tenant_id bigint, state smallint)
	LANGUAGE plpgsql STABLE SET enable_seqscan = off
	SET enable_bitmapscan = off SET enable_hashjoin = off
	SET enable_mergejoin = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
	from_id uuid := d.uuid_floor(since);
	each_box int;
BEGIN
	IF everywhere THEN
		RETURN QUERY SELECT e.message_id, e.tenant_id, e.state FROM d.state e
		    WHERE e.message_id >= from_id ORDER BY e.message_id DESC
		    LIMIT most;
		RETURN;
	END IF;
	SELECT greatest(100, most / greatest(count(*), 1)) INTO each_box
	    FROM d.inbox;
	RETURN QUERY SELECT y.* FROM d.inbox x CROSS JOIN LATERAL (
	    SELECT e.message_id, e.tenant_id, e.state FROM d.state e
	    WHERE e.tenant_id = x.tenant_id AND e.inbox_id = x.inbox_id
	    AND e.message_id >= from_id ORDER BY e.message_id DESC
	    LIMIT each_box) y;
END $$;

-- How many in scope are released and not done with. What leaves is what is in
-- the queue and was not put off: all that is deferred is there, of what is
-- uncertain that of which a part is.
CREATE FUNCTION d.under_way(OUT uncertain bigint, OUT deferred bigint,
	OUT sending bigint) LANGUAGE plpgsql STABLE SET enable_seqscan = off
	SET enable_bitmapscan = off SET enable_hashjoin = off
	SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
	queued bigint;
BEGIN
	SELECT coalesce(sum(y.n), 0), coalesce(sum(y.q), 0) INTO uncertain, queued
	    FROM d.inbox x CROSS JOIN LATERAL (SELECT count(*) AS n,
	    count(*) FILTER (WHERE EXISTS (SELECT 1 FROM d.send_q q
	        WHERE q.message_id = e.message_id
	        AND q.tenant_id = e.tenant_id)) AS q
	    FROM d.state e WHERE e.stays = 11 AND e.tenant_id = x.tenant_id
	    AND e.inbox_id = x.inbox_id) y;
	deferred := coalesce((SELECT sum(y.n) FROM d.inbox x
	    CROSS JOIN LATERAL (SELECT count(*) AS n FROM d.state e
	    WHERE e.stays = 9 AND e.tenant_id = x.tenant_id
	    AND e.inbox_id = x.inbox_id) y), 0);
	sending := (SELECT count(*) FROM (SELECT DISTINCT q.message_id,
	    q.tenant_id FROM d.send_q q) y) - queued - deferred;
END $$;

-- Health: rows of several kinds, `what` says which. Of the last day at most
-- the newest 20,000 messages and decisions are read.
--   number   label n        one figure
--   hour     at n m         submitted, sent in that hour
--   verdict  at n m         approved, rejected in that hour
--   risk     label n        waiting of that band, 1,001 at most
--   person   label n m x    decided, approved of them, of them under 3 s
--   domain   label n        recipients that wait for another try
CREATE FUNCTION api.review_health_1(s bytea, tenant bigint DEFAULT NULL)
	RETURNS TABLE (status int, code text, what text, label text,
	at timestamptz, n bigint, m bigint, x bigint)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = ''
	SET enable_seqscan = off SET enable_bitmapscan = off
	SET enable_hashjoin = off SET enable_mergejoin = off
	AS $$
#variable_conflict use_column
DECLARE
	o record;
	now_at timestamptz := clock_timestamp();
	day_ago timestamptz := date_trunc('hour', clock_timestamp())
	    - interval '23 hours';
	oldest uuid;
	tenants bigint[];
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	PERFORM d.op_only(tenant);
	o.everywhere := o.everywhere AND tenant IS NULL;
	RETURN QUERY SELECT 200, NULL::text, 'hour'::text, NULL::text,
	    date_trunc('hour', to_timestamp(d.uuid_ms(y.message_id) / 1000)),
	    count(*), count(*) FILTER (WHERE y.state = 8), NULL::bigint
	    FROM d.health_rows(o.everywhere, day_ago, 20000) y GROUP BY 5;
	RETURN QUERY WITH every AS (SELECT c.at, c.verdict, c.seconds, c.operator_id
	    FROM d.decision c WHERE o.everywhere
	    AND c.message_id >= d.uuid_floor(day_ago - interval '7 days')
	    AND c.at >= day_ago ORDER BY c.message_id DESC LIMIT 20000),
	own AS (SELECT c.at, c.verdict, c.seconds, c.operator_id
	    FROM d.health_rows(false, day_ago - interval '7 days', 20000) y
	    JOIN d.decision c ON c.message_id = y.message_id
	        AND c.tenant_id = y.tenant_id
	    WHERE NOT o.everywhere AND y.state <> 1 AND c.at >= day_ago),
	v AS (TABLE every UNION ALL TABLE own)
	    SELECT 200, NULL::text, 'verdict'::text, NULL::text,
	    date_trunc('hour', v.at), count(*) FILTER (WHERE v.verdict = 'a'),
	    count(*) FILTER (WHERE v.verdict = 'r'), NULL::bigint FROM v
	    GROUP BY 5
	    UNION ALL SELECT 200, NULL, 'person', p.name, NULL, count(*),
	    count(*) FILTER (WHERE v.verdict = 'a'),
	    count(*) FILTER (WHERE v.seconds < 3) FROM v
	    JOIN d.operator p ON p.operator_id = v.operator_id GROUP BY p.name
	    UNION ALL SELECT 200, NULL, 'number', 'median_seconds', NULL,
	    percentile_disc(0.5) WITHIN GROUP (ORDER BY v.seconds)::bigint,
	    NULL, NULL FROM v WHERE v.seconds IS NOT NULL;
	tenants := d.look_into(NULL);
	RETURN QUERY SELECT 200, NULL::text, 'risk'::text, b.label,
	    NULL::timestamptz, (SELECT count(*) FROM d.held_walk(tenants, NULL,
	    b.hi + 1, '00000000-0000-0000-0000-000000000000', 1001, b.lo)),
	    NULL::bigint, NULL::bigint FROM (VALUES ('high', 75, 100),
	    ('medium', 25, 74), ('low', 0, 24)) b (label, lo, hi);
	IF o.everywhere THEN
		SELECT y.message_id INTO oldest FROM d.state y WHERE y.stays = 1
		    ORDER BY y.hold_until LIMIT 1;
	ELSE
		SELECT CASE WHEN count(*) <= 1000 THEN min(h.message_id::text) END
		    ::uuid INTO oldest FROM d.held_walk(tenants, NULL, 101,
		    '00000000-0000-0000-0000-000000000000', 1001) h;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, 'domain'::text, y.domain,
	    NULL::timestamptz, count(*), NULL::bigint, NULL::bigint
	    FROM (SELECT w.domain FROM d.inbox x CROSS JOIN LATERAL (
	        SELECT e.message_id, e.tenant_id FROM d.state e
	        WHERE e.stays = 9 AND e.tenant_id = x.tenant_id
	        AND e.inbox_id = x.inbox_id LIMIT 20000) e
	        JOIN d.delivery w
	        ON w.message_id = e.message_id AND w.tenant_id = e.tenant_id
	        WHERE w.status = 4 LIMIT 20000) y
	    GROUP BY y.domain ORDER BY count(*) DESC, y.domain LIMIT 20;
	RETURN QUERY SELECT 200, NULL::text, 'number'::text, y.label,
	    NULL::timestamptz, y.n, NULL::bigint, NULL::bigint FROM (VALUES
	    ('oldest_seconds', CASE WHEN oldest IS NOT NULL THEN
	        (d.us(now_at) / 1000 - d.uuid_ms(oldest)) / 1000 END),
	    ('unsealed_seconds', d.unsealed_seconds()::bigint),
	    ('weeks_ahead', d.weeks_ahead()::bigint),
	    ('alarms', (SELECT count(*) FROM d.inbox i
	        WHERE i.alarm IS NOT NULL))) y (label, n)
	    UNION ALL SELECT 200, NULL, 'number', z.label, NULL, z.n, NULL, NULL
	    FROM d.under_way() y CROSS JOIN LATERAL (VALUES
	    ('uncertain', y.uncertain), ('deferred', y.deferred),
	    ('sending', y.sending)) z (label, n);
END $$;

SET LOCAL ROLE p_ctl;

-- Who has which role over what. Admins and auditors of everything.
CREATE FUNCTION api.scopes_1(s bytea, operator bigint) RETURNS TABLE (
	status int, code text, scope_id bigint, operator_id bigint,
	tenant_id bigint, tenant_slug text, inbox_id bigint, address text,
	role text, risk_cap smallint) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.ctl(s, NULL, ARRAY['admin', 'auditor'], NULL, NULL);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, c.scope_id, c.operator_id,
	    c.tenant_id, t.slug, c.inbox_id, x.address, c.role, c.risk_cap
	    FROM d.operator_scope c
	    LEFT JOIN d.tenant t ON t.tenant_id = c.tenant_id
	    LEFT JOIN d.inbox x ON x.tenant_id = c.tenant_id
	        AND x.inbox_id = c.inbox_id
	    WHERE operator IS NULL OR c.operator_id = operator
	    ORDER BY c.operator_id, c.scope_id LIMIT 5000;
END $$;

CREATE FUNCTION api.scope_add_1(s bytea, uid bigint, operator bigint,
	role text, tenant bigint, inbox bigint, risk_cap smallint)
	RETURNS TABLE (status int, code text, scope_id bigint)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record;
	n bigint;
BEGIN
	-- Only who administers everything: a role is reach.
	o := d.ctl(s, uid, ARRAY['admin'], NULL, NULL);
	IF o.status = 200 AND (coalesce(scope_add_1.role, '') NOT IN ('reviewer',
	    'senior', 'admin', 'auditor')
	    OR coalesce(scope_add_1.risk_cap, 74) NOT BETWEEN 0 AND 100
	    OR tenant IS NULL AND inbox IS NOT NULL
	    OR tenant IS NOT NULL AND NOT EXISTS (SELECT 1 FROM d.tenant t
	        WHERE t.tenant_id = tenant)
	    OR inbox IS NOT NULL AND NOT EXISTS (SELECT 1 FROM d.inbox x
	        WHERE x.tenant_id = tenant AND x.inbox_id = inbox)) THEN
		o.status := 422;
		o.code := 'validation_error';
	ELSIF o.status = 200 AND NOT EXISTS (SELECT 1 FROM d.operator p
	    WHERE p.operator_id = operator AND p.disabled_at IS NULL) THEN
		o.status := 404;
		o.code := 'not_found';
	ELSIF o.status = 200 AND NOT o.step_up THEN
		o.status := 403;
		o.code := 'step_up_required';
	ELSIF o.status = 200 AND EXISTS (SELECT 1 FROM d.operator_scope c
	    WHERE c.operator_id = operator AND c.role = scope_add_1.role
	    AND c.tenant_id IS NOT DISTINCT FROM tenant
	    AND c.inbox_id IS NOT DISTINCT FROM inbox) THEN
		o.status := 409;
		o.code := 'state_conflict';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::bigint;
		RETURN;
	END IF;
	INSERT INTO d.operator_scope AS c (operator_id, tenant_id, inbox_id, role,
	    risk_cap) VALUES (operator, tenant, inbox, scope_add_1.role,
	    coalesce(scope_add_1.risk_cap, 74)) RETURNING c.scope_id INTO n;
	PERFORM d.note(coalesce(tenant, 0), o.actor, 'operator.scope_add', NULL,
	    json_build_object('operator', operator, 'role', scope_add_1.role,
	    'tenant', tenant, 'inbox', inbox, 'risk_cap',
	    scope_add_1.risk_cap)::text);
	RETURN QUERY SELECT 200, NULL::text, n;
END $$;

CREATE FUNCTION api.scope_end_1(s bytea, uid bigint, scope bigint)
	RETURNS TABLE (status int, code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	c record;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin'], NULL, NULL);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	SELECT z.* INTO c FROM d.operator_scope z WHERE z.scope_id = scope;
	IF NOT FOUND THEN
		RETURN QUERY SELECT 404, 'not_found';
		RETURN;
	END IF;
	-- Somebody must be left who can give roles.
	IF c.operator_id = o.operator_id AND c.role = 'admin'
	    AND c.tenant_id IS NULL THEN
		RETURN QUERY SELECT 409, 'state_conflict';
		RETURN;
	END IF;
	DELETE FROM d.operator_scope z WHERE z.scope_id = scope;
	PERFORM d.note(coalesce(c.tenant_id, 0), o.actor, 'operator.scope_end',
	    NULL, json_build_object('operator', c.operator_id, 'role', c.role,
	    'tenant', c.tenant_id, 'inbox', c.inbox_id)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

RESET ROLE;
SET LOCAL ROLE p_review;
GRANT EXECUTE ON FUNCTION api.review_inbox_1, api.review_credentials_1,
	api.allow_set_1, api.allow_end_1, api.allows_1, api.sessions_1,
	api.session_drop_1, api.password_set_1, api.review_audit_1,
	api.review_health_1 TO l_review;
SET LOCAL ROLE p_ctl;
-- Each of these asks for a session; what else the pages must show, d.ctl and
-- operator_add_1 know by the login.
GRANT EXECUTE ON FUNCTION api.tenants_1, api.tenant_create_1, api.tenant_set_1,
	api.domains_1, api.domain_add_1, api.plans_1, api.plan_set_1,
	api.limits_set_1, api.inbox_own_1, api.inbox_create_1, api.inbox_reset_1,
	api.key_kill_1,
	api.operators_1, api.operator_add_1, api.operator_disable_1, api.scopes_1,
	api.scope_add_1, api.scope_end_1 TO l_review;
GRANT EXECUTE ON FUNCTION api.scopes_1, api.scope_add_1, api.scope_end_1
	TO l_ctl;
SET LOCAL ROLE p_seal;
GRANT EXECUTE ON FUNCTION d.unsealed_seconds(), d.audit_back TO p_review;
SET LOCAL ROLE p_owner;
GRANT EXECUTE ON FUNCTION d.weeks_ahead() TO p_review;
REVOKE CREATE ON SCHEMA d, api FROM p_review, p_ctl;
