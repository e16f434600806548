-- SPDX-License-Identifier: ISC
-- 0009_manage.sql - what posternctl may do. With s NULL only what needs no
-- sign-in (A12): it never approves, reads no mail and loosens nothing alone.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_ctl, p_seal;

-- Deletes what retention allows: whole weeks whose messages are all final.
-- Null: somebody has used one of the tables for long, such as a backup. Who
-- waits for a table makes all others wait behind it, so it is not for long,
-- and shorter than the time after which a deadlock would end one of them.
CREATE FUNCTION d.partition_drop(monday date) RETURNS int LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET lock_timeout = '500ms' AS $$
DECLARE
	s text := to_char(monday, 'YYYYMMDD');
	k text;
BEGIN
	IF to_regclass('d.message_' || s) IS NULL
	    OR monday > d.monday(clock_timestamp()) - 14
	    OR d.partition_live(d.uuid_floor(monday::timestamp
	    AT TIME ZONE 'UTC'), d.uuid_floor((monday + 7)::timestamp
	    AT TIME ZONE 'UTC')) THEN
		RETURN 0;
	END IF;
	LOCK TABLE ONLY d.message, ONLY d.body, ONLY d.word, ONLY d.state,
	    ONLY d.decision, ONLY d.release, ONLY d.delivery, ONLY d.attempt,
	    ONLY d.event, ONLY d.comment, ONLY d.dsn IN ACCESS EXCLUSIVE MODE;
	FOREACH k IN ARRAY ARRAY['comment', 'dsn', 'event', 'attempt', 'delivery',
	    'release', 'decision', 'body', 'state', 'word', 'message'] LOOP
		EXECUTE format('ALTER TABLE d.%I DETACH PARTITION d.%I', k,
		    k || '_' || s);
		EXECUTE format('DROP TABLE d.%I', k || '_' || s);
	END LOOP;
	FOREACH k IN ARRAY ARRAY['claim_at', 'leased_at', 'dots_at', 'sents_at']
	    LOOP
		EXECUTE format('DROP FUNCTION IF EXISTS d.%I', k || '_' || s);
	END LOOP;
	RETURN 1;
EXCEPTION WHEN lock_not_available THEN
	RETURN NULL;
END $$;
GRANT EXECUTE ON FUNCTION d.partition_drop(date) TO p_ctl;

-- Rows of the audit log belong to this generation from now on (D8).
CREATE FUNCTION d.audit_gen(g int) RETURNS void LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	EXECUTE format('ALTER TABLE d.audit ALTER gen SET DEFAULT %s', g);
END $$;
GRANT EXECUTE ON FUNCTION d.audit_gen(int) TO p_ctl;

GRANT SELECT, DELETE ON d.idem, d.upload, d.handle, d.claim,
	d.operator_session TO p_owner;
CREATE POLICY p_owner_keep ON d.idem TO p_owner USING (true);
CREATE POLICY p_owner_keep ON d.upload TO p_owner USING (true);
CREATE POLICY p_owner_keep ON d.handle TO p_owner USING (true);
CREATE POLICY p_owner_keep ON d.claim TO p_owner USING (true);
CREATE POLICY p_owner_keep ON d.operator_session TO p_owner USING (true);
CREATE POLICY p_owner_keep ON d.state FOR SELECT TO p_owner USING (true);
CREATE POLICY p_owner_keep ON d.body TO p_owner USING (true);
CREATE POLICY p_owner_keep ON d.dsn TO p_owner USING (true);
CREATE POLICY p_owner_keep ON d.send_q FOR SELECT TO p_owner USING (true);

CREATE FUNCTION d.partition_live(lo uuid, hi uuid) RETURNS boolean
	LANGUAGE sql STABLE
	RETURN EXISTS (SELECT 1 FROM d.state s WHERE s.message_id >= lo
	    AND s.message_id < hi AND s.state NOT IN (3, 4, 5, 8, 10))
	    OR EXISTS (SELECT 1 FROM d.send_q q WHERE q.message_id >= lo
	    AND q.message_id < hi);

-- Small leftovers, at most 1,000 of each a call.
CREATE FUNCTION d.sweep_small(body_days int, meta_days int,
	OUT uploads int, OUT bodies int, OUT idems int, OUT others int)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	kept timestamptz := clock_timestamp() - body_days * interval '1 day';
BEGIN
	-- Uploads that never became a message: chunks, then the row.
	DELETE FROM d.body b USING (SELECT u.message_id, u.tenant_id, u.inbox_id
	    FROM d.upload u WHERE u.message_id < d.uuid_floor(clock_timestamp()
	    - interval '25 hours') LIMIT 1000) u
	    WHERE b.message_id = u.message_id AND b.tenant_id = u.tenant_id
	    AND b.inbox_id = u.inbox_id AND NOT EXISTS (SELECT 1 FROM d.state s
	        WHERE s.message_id = u.message_id
	        AND s.tenant_id = u.tenant_id);
	DELETE FROM d.upload u WHERE u.message_id < d.uuid_floor(
	    clock_timestamp() - interval '25 hours') AND NOT EXISTS (SELECT 1
	    FROM d.body b WHERE b.message_id = u.message_id
	    AND b.tenant_id = u.tenant_id AND b.inbox_id = u.inbox_id);
	GET DIAGNOSTICS uploads = ROW_COUNT;
	-- From the bodies, which are few where all that may go went before: their
	-- messages stay for a year.
	DELETE FROM d.body b USING (SELECT x.message_id, x.tenant_id
	    FROM d.body x CROSS JOIN LATERAL (SELECT 1 FROM d.state s
	        WHERE s.message_id = x.message_id AND s.tenant_id = x.tenant_id
	        AND s.state IN (3, 4, 5, 8, 10)
	        AND s.changed_at < kept LIMIT 1) s
	    WHERE x.message_id < d.uuid_floor(kept) LIMIT 1000) s
	    WHERE b.message_id = s.message_id AND b.tenant_id = s.tenant_id;
	GET DIAGNOSTICS bodies = ROW_COUNT;
	DELETE FROM d.capture x WHERE x.at < kept;
	-- Reports hold a header, sometimes the body: they go as it does.
	DELETE FROM d.dsn r USING (SELECT x.message_id, x.tenant_id, x.domain, x.n
	    FROM d.dsn x CROSS JOIN LATERAL (SELECT 1 FROM d.state s
	        WHERE s.message_id = x.message_id AND s.tenant_id = x.tenant_id
	        AND s.state IN (3, 4, 5, 8, 10) LIMIT 1) s
	    WHERE x.message_id < d.uuid_floor(kept) AND x.at < kept
	    LIMIT 1000) y WHERE r.message_id = y.message_id
	    AND r.tenant_id = y.tenant_id AND r.domain = y.domain AND r.n = y.n;
	DELETE FROM d.idem i WHERE i.created_at < clock_timestamp()
	    - meta_days * interval '1 day';
	GET DIAGNOSTICS idems = ROW_COUNT;
	DELETE FROM d.decision_proof p WHERE p.message_id < d.uuid_floor(
	    clock_timestamp() - meta_days * interval '1 day');
	DELETE FROM d.handle h WHERE h.expires_at < clock_timestamp()
	    - interval '1 hour';
	DELETE FROM d.operator_session z WHERE z.expires_at < clock_timestamp()
	    - interval '30 days';
	DELETE FROM d.message_label b WHERE b.message_id < d.uuid_floor(
	    clock_timestamp() - (meta_days + 14) * interval '1 day');
	DELETE FROM d.draft f WHERE f.message_id IS NOT NULL
	    AND f.updated_at < clock_timestamp() - interval '30 days';
	DELETE FROM d.job_item i USING d.job j WHERE j.job_id = i.job_id
	    AND j.made_at < clock_timestamp() - interval '30 days';
	DELETE FROM d.job j WHERE j.made_at < clock_timestamp()
	    - interval '30 days';
	DELETE FROM d.claim c WHERE c.expires_at < clock_timestamp()
	    - interval '30 days';
	GET DIAGNOSTICS others = ROW_COUNT;
END $$;
GRANT EXECUTE ON FUNCTION d.sweep_small(int, int) TO p_ctl;

SET LOCAL ROLE p_ctl;

-- The operator behind a posternctl call, and what the audit says of it.
CREATE FUNCTION d.ctl(s bytea, uid bigint, roles text[], t bigint, i bigint,
	OUT status int, OUT code text, OUT actor text, OUT operator_id bigint,
	OUT step_up boolean) LANGUAGE plpgsql AS $$
DECLARE
	o record;
BEGIN
	o := d.op(s);
	status := o.status;
	code := o.code;
	operator_id := o.operator_id;
	step_up := o.step_up;
	IF o.status = 200 THEN
		-- From the pages or from posternctl: the login says it, not the
		-- caller.
		actor := 'op:' || o.operator_id::text
		    || CASE WHEN session_user = 'l_review' THEN ''
		    ELSE '@ctl:' || coalesce(uid, 0)::text END;
		IF NOT d.op_may(o.operator_id, roles, t, i) THEN
			status := 403;
			code := 'missing_permission';
		END IF;
	END IF;
END $$;

CREATE FUNCTION api.deployment_init_1(uid bigint, new_deployment bytea)
	RETURNS TABLE (status int, code text, deployment bytea, epoch int)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
#variable_conflict use_column
BEGIN
	IF coalesce(octet_length(new_deployment), 0) <> 16 THEN
		RETURN QUERY SELECT 422, 'validation_error', NULL::bytea, NULL::int;
		RETURN;
	END IF;
	INSERT INTO d.deployment (deployment, secret) VALUES (new_deployment,
	    sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())))
	    ON CONFLICT DO NOTHING;
	IF FOUND THEN
		PERFORM d.note(0, 'ctl:' || coalesce(uid, 0)::text,
		    'deployment.init', NULL, '{}');
	END IF;
	RETURN QUERY SELECT 200, NULL::text, y.deployment, y.epoch
	    FROM d.deployment y;
END $$;

CREATE FUNCTION api.tenant_create_1(s bytea, uid bigint, slug text, name text,
	pub bytea, priv_box bytea) RETURNS TABLE (status int, code text,
	tenant_id bigint) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	n bigint;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin'], NULL, NULL);
	IF o.status = 200 AND (tenant_create_1.slug IS NULL
	    OR tenant_create_1.slug !~ '^[a-z][a-z0-9-]{1,31}$'
	    OR coalesce(length(tenant_create_1.name), 0) NOT BETWEEN 1 AND 200
	    OR coalesce(octet_length(tenant_create_1.pub), 0) <> 32
	    OR coalesce(octet_length(tenant_create_1.priv_box), 0)
	    NOT BETWEEN 32 AND 1024) THEN
		o.status := 422;
		o.code := 'validation_error';
	ELSIF o.status = 200 AND EXISTS (SELECT 1 FROM d.tenant t
	    WHERE t.slug = tenant_create_1.slug) THEN
		o.status := 409;
		o.code := 'state_conflict';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::bigint;
		RETURN;
	END IF;
	INSERT INTO d.tenant AS t (slug, name) VALUES (tenant_create_1.slug,
	    tenant_create_1.name) RETURNING t.tenant_id INTO n;
	INSERT INTO d.tenant_key (tenant_id, epoch, pub, priv_box)
	    VALUES (n, 1, tenant_create_1.pub, tenant_create_1.priv_box);
	INSERT INTO d.plan (tenant_id, plan) VALUES (n, 'default');
	PERFORM d.note(n, o.actor, 'tenant.create', NULL, json_build_object(
	    'slug', tenant_create_1.slug)::text);
	RETURN QUERY SELECT 200, NULL::text, n;
END $$;

CREATE FUNCTION api.tenants_1(s bytea, uid bigint) RETURNS TABLE (status int,
	code text, tenant_id bigint, slug text, name text, inboxes int, held int,
	paused boolean, disabled boolean, need_approvals smallint)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
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
	RETURN QUERY SELECT 200, NULL::text, t.tenant_id, t.slug, t.name,
	    count(q.inbox_id)::int, coalesce(sum(q.held), 0)::int,
	    t.paused_at IS NOT NULL, t.disabled_at IS NOT NULL, t.need_approvals
	    FROM d.tenant t LEFT JOIN d.quota q ON q.tenant_id = t.tenant_id
	    WHERE t.tenant_id = ANY (d.cur_tenants()) GROUP BY t.tenant_id
	    ORDER BY t.slug;
END $$;

CREATE FUNCTION api.tenant_set_1(s bytea, uid bigint, tenant bigint,
	need_approvals smallint, hold_seconds int, disabled boolean)
	RETURNS TABLE (status int, code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	n record;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin'], tenant, NULL);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	SELECT t.need_approvals, t.disabled_at INTO n FROM d.tenant t
	    WHERE t.tenant_id = tenant AND t.deleted_at IS NULL FOR UPDATE;
	IF NOT FOUND THEN
		RETURN QUERY SELECT 404, 'not_found';
		RETURN;
	END IF;
	IF tenant_set_1.need_approvals NOT BETWEEN 1 AND 2
	    OR hold_seconds NOT BETWEEN 60 AND 34560000 THEN
		RETURN QUERY SELECT 422, 'validation_error';
		RETURN;
	END IF;
	-- Fewer approvals is looser.
	IF (tenant_set_1.need_approvals < n.need_approvals
	    OR tenant_set_1.disabled IS FALSE AND n.disabled_at IS NOT NULL)
	    AND NOT o.step_up THEN
		RETURN QUERY SELECT 403, 'step_up_required';
		RETURN;
	END IF;
	UPDATE d.tenant t SET need_approvals = coalesce(
	    tenant_set_1.need_approvals, t.need_approvals),
	    hold_for = coalesce(hold_seconds * interval '1 second', t.hold_for),
	    disabled_at = CASE WHEN tenant_set_1.disabled THEN coalesce(
	    t.disabled_at, clock_timestamp()) WHEN tenant_set_1.disabled IS FALSE
	    THEN NULL ELSE t.disabled_at END WHERE t.tenant_id = tenant;
	PERFORM d.note(tenant, o.actor, 'tenant.set', NULL, json_build_object(
	    'need_approvals', tenant_set_1.need_approvals, 'hold_seconds',
	    hold_seconds, 'disabled', tenant_set_1.disabled)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

CREATE FUNCTION api.domain_add_1(s bytea, uid bigint, tenant bigint,
	name text, new_token text) RETURNS TABLE (status int, code text,
	token text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	x record;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin'], tenant, NULL);
	IF o.status = 200 AND (domain_add_1.name IS NULL
	    OR domain_add_1.name !~ '^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?[.])*'
	    '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'
	    OR length(domain_add_1.name) > 253
	    OR coalesce(new_token, '') !~ '^[0-9a-z]{26}$') THEN
		o.status := 422;
		o.code := 'validation_error';
	ELSIF o.status = 200 AND NOT EXISTS (SELECT 1 FROM d.tenant t
	    WHERE t.tenant_id = tenant) THEN
		o.status := 404;
		o.code := 'not_found';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::text;
		RETURN;
	END IF;
	INSERT INTO d.domain (domain, tenant_id, token)
	    VALUES (domain_add_1.name, tenant, new_token) ON CONFLICT DO NOTHING;
	SELECT y.tenant_id, y.token INTO x FROM d.domain y
	    WHERE y.domain = domain_add_1.name;
	IF x.tenant_id <> tenant THEN
		RETURN QUERY SELECT 409, 'state_conflict', NULL::text;
		RETURN;
	END IF;
	UPDATE d.domain y SET removed_at = NULL
	    WHERE y.domain = domain_add_1.name AND y.removed_at IS NOT NULL;
	PERFORM d.note(tenant, o.actor, 'domain.add', NULL, json_build_object(
	    'domain', domain_add_1.name)::text);
	RETURN QUERY SELECT 200, NULL::text, x.token;
END $$;

CREATE FUNCTION api.domain_verify_1(s bytea, uid bigint, name text,
	how text) RETURNS TABLE (status int, code text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record;
	t bigint;
BEGIN
	SELECT y.tenant_id INTO t FROM d.domain y
	    WHERE y.domain = domain_verify_1.name;
	o := d.ctl(s, uid, ARRAY['admin'], t, NULL);
	IF o.status = 200 AND t IS NULL THEN
		o.status := 404;
		o.code := 'not_found';
	ELSIF o.status = 200 AND coalesce(domain_verify_1.how, '')
	    NOT IN ('dns', 'force') THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	UPDATE d.domain y SET verified_at = clock_timestamp(),
	    how = domain_verify_1.how WHERE y.domain = domain_verify_1.name;
	PERFORM d.note(t, o.actor, 'domain.verify', NULL, json_build_object(
	    'domain', domain_verify_1.name, 'how', domain_verify_1.how)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

CREATE FUNCTION api.domains_1(s bytea, uid bigint, tenant bigint)
	RETURNS TABLE (status int, code text, domain text, tenant_id bigint,
	token text, verified_at timestamptz, how text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
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
	RETURN QUERY SELECT 200, NULL::text, y.domain, y.tenant_id, y.token,
	    y.verified_at, y.how FROM d.domain y WHERE y.removed_at IS NULL
	    AND (tenant IS NULL OR y.tenant_id = tenant)
	    AND y.tenant_id = ANY (d.cur_tenants()) ORDER BY y.domain;
END $$;

-- A new inbox of a tenant, with its first claim code. The caller has asked who
-- may. Runs as its caller.
CREATE FUNCTION d.inbox_make(t bigint, new_address text, plan text,
	name text, claim_sha256 bytea, is_test boolean, prov bigint, ref text,
	actor text, OUT status int, OUT code text, OUT inbox_id bigint,
	OUT address text, OUT claim_until timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	a text := d.low(new_address);
	l text := split_part(d.low(new_address), '@', 1);
	h text := split_part(d.low(new_address), '@', 2);
	p record;
	i bigint;
	until timestamptz := clock_timestamp() + interval '15 minutes';
BEGIN
	SELECT y.* INTO p FROM d.plan y WHERE y.tenant_id = t
	    AND y.plan = coalesce(inbox_make.plan, 'default');
	IF a IS NULL OR a <> l || '@' || h
	    OR l !~ '^[a-z0-9]([a-z0-9._+-]{0,62}[a-z0-9])?$' OR l ~ '[.][.]'
	    OR l IN ('abuse', 'noc', 'security', 'postmaster', 'hostmaster',
	    'usenet', 'news', 'webmaster', 'www', 'uucp', 'ftp', 'info',
	    'marketing', 'sales', 'support', 'root', 'mailer-daemon')
	    OR length(inbox_make.name) > 200
	    OR coalesce(octet_length(inbox_make.claim_sha256), 0) <> 32 THEN
		status := 422;
		code := 'invalid_address';
	ELSIF NOT EXISTS (SELECT 1 FROM d.domain y WHERE y.domain = h
	    AND y.tenant_id = t AND y.removed_at IS NULL) THEN
		status := 403;
		code := 'domain_not_verified';
	ELSIF EXISTS (SELECT 1 FROM d.address y WHERE y.domain = h
	    AND y.local_part = l) THEN
		status := 409;
		code := 'state_conflict';
	ELSIF p.plan IS NULL THEN
		status := 404;
		code := 'not_found';
	END IF;
	IF status IS NOT NULL THEN
		RETURN;
	END IF;
	INSERT INTO d.inbox AS x (tenant_id, address, local_part, domain,
	    display_name, plan, lim_hour, lim_day, lim_month, lim_held,
	    lim_bytes, test, provisioner, client_id) VALUES (t, a, l, h,
	    inbox_make.name, p.plan, p.lim_hour, p.lim_day, p.lim_month,
	    p.lim_held, p.lim_bytes, coalesce(is_test, false), prov, ref)
	    RETURNING x.inbox_id INTO i;
	INSERT INTO d.address (domain, local_part, tenant_id, inbox_id)
	    VALUES (h, l, t, i);
	INSERT INTO d.quota (tenant_id, inbox_id) VALUES (t, i);
	INSERT INTO d.claim (claim_sha256, tenant_id, inbox_id, expires_at)
	    VALUES (inbox_make.claim_sha256, t, i, until);
	PERFORM d.note(t, actor, 'inbox.create', NULL, json_build_object(
	    'inbox', i, 'address', a, 'plan', p.plan, 'test',
	    coalesce(is_test, false))::text);
	status := 200;
	inbox_id := i;
	address := a;
	claim_until := until;
END $$;

CREATE FUNCTION api.inbox_create_1(s bytea, uid bigint, tenant bigint,
	new_address text, plan text, display_name text, claim_sha256 bytea,
	test boolean DEFAULT false)
	RETURNS TABLE (status int, code text, inbox_id bigint, address text,
	claim_until timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	m record;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin'], tenant, NULL);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	-- One after the other; and the same again, with a code that nobody used
	-- yet, is answered as the first was (decision 0131).
	PERFORM 1 FROM d.tenant n WHERE n.tenant_id = tenant FOR NO KEY UPDATE;
	RETURN QUERY SELECT 200, NULL::text, x.inbox_id, x.address, c.expires_at
	    FROM d.claim c JOIN d.inbox x ON x.tenant_id = c.tenant_id
	        AND x.inbox_id = c.inbox_id
	    WHERE c.claim_sha256 = inbox_create_1.claim_sha256
	    AND c.tenant_id = tenant AND x.address = d.low(new_address)
	    AND x.deleted_at IS NULL AND c.used_at IS NULL AND c.expires_at > clock_timestamp();
	IF FOUND THEN
		RETURN;
	END IF;
	m := d.inbox_make(tenant, new_address, inbox_create_1.plan,
	    inbox_create_1.display_name, inbox_create_1.claim_sha256,
	    inbox_create_1.test, NULL, NULL, o.actor);
	RETURN QUERY SELECT m.status, m.code, m.inbox_id, m.address,
	    m.claim_until;
END $$;

CREATE FUNCTION api.inbox_find_1(s bytea, uid bigint, which text)
	RETURNS TABLE (status int, code text, tenant_id bigint, tenant_slug text,
	inbox_id bigint, mode smallint, mode_epoch int, paused boolean,
	suspended boolean, plan text, claimed boolean, approvals smallint,
	hold_seconds int, overseer text, full_key_smtp boolean,
	retry_uncertain boolean, test boolean, one_click boolean)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op(s);
	IF o.status = 200 THEN
		RETURN QUERY SELECT 200, NULL::text, x.tenant_id, t.slug, x.inbox_id,
		    x.mode, x.mode_epoch, x.paused_at IS NOT NULL,
		    x.suspended_at IS NOT NULL, x.plan, x.epoch > 0,
		    coalesce(x.need_approvals, t.need_approvals),
		    extract(epoch FROM coalesce(x.hold_for, t.hold_for))::int,
		    x.oversight, x.smtp_wide, x.may_duplicate, x.test, x.one_click
		    FROM d.inbox x JOIN d.tenant t ON t.tenant_id = x.tenant_id
		    JOIN d.address y ON y.tenant_id = x.tenant_id
		        AND y.inbox_id = x.inbox_id
		    WHERE y.domain = split_part(d.low(which), '@', 2)
		    AND y.local_part = split_part(d.low(which), '@', 1)
		    AND (x.tenant_id = ANY (d.cur_tenants())
		    OR x.tenant_id::text || '.' || x.inbox_id::text
		    = ANY (d.cur_boxes()));
		IF FOUND THEN
			RETURN;
		END IF;
		o.status := 404;
		o.code := 'not_found';
	END IF;
	SELECT o.status, o.code INTO status, code;
	RETURN NEXT;
END $$;

-- A new epoch: old keys end; what only they could read stays unreadable.
CREATE FUNCTION api.inbox_reset_1(s bytea, uid bigint, tenant bigint,
	inbox bigint, claim_sha256 bytea) RETURNS TABLE (status int, code text,
	unreadable int, claim_until timestamptz) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record;
	until timestamptz := clock_timestamp() + interval '15 minutes';
	n int;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin'], tenant, inbox);
	IF o.status = 200 AND coalesce(octet_length(inbox_reset_1.claim_sha256),
	    0) <> 32 THEN
		o.status := 422;
		o.code := 'validation_error';
	ELSIF o.status = 200 AND NOT o.step_up THEN
		o.status := 403;
		o.code := 'step_up_required';
	END IF;
	IF o.status = 200 THEN
		UPDATE d.inbox x SET reset_at = clock_timestamp(),
		    reset_by = o.actor WHERE x.tenant_id = tenant
		    AND x.inbox_id = inbox AND x.deleted_at IS NULL;
		IF NOT FOUND THEN
			o.status := 404;
			o.code := 'not_found';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::int, NULL::timestamptz;
		RETURN;
	END IF;
	UPDATE d.credential r SET revoked_at = clock_timestamp()
	    WHERE r.tenant_id = tenant AND r.inbox_id = inbox
	    AND r.revoked_at IS NULL;
	UPDATE d.claim c SET expires_at = clock_timestamp()
	    WHERE c.tenant_id = tenant AND c.inbox_id = inbox
	    AND c.expires_at > clock_timestamp();
	PERFORM d.permits_end(tenant, inbox, o.actor);
	INSERT INTO d.claim (claim_sha256, tenant_id, inbox_id, expires_at)
	    VALUES (inbox_reset_1.claim_sha256, tenant, inbox, until);
	SELECT count(*) INTO n FROM d.message m WHERE m.tenant_id = tenant
	    AND m.inbox_id = inbox;
	PERFORM d.note(tenant, o.actor, 'inbox.reset', NULL, json_build_object(
	    'inbox', inbox, 'unreadable', n)::text);
	RETURN QUERY SELECT 200, NULL::text, n, until;
END $$;

CREATE FUNCTION api.plan_set_1(s bytea, uid bigint, tenant bigint, plan text,
	hour int, day int, month int, held int, bytes bigint)
	RETURNS TABLE (status int, code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin'], tenant, NULL);
	IF o.status = 200 AND (coalesce(plan_set_1.plan, '')
	    !~ '^[a-z][a-z0-9_-]{0,31}$' OR least(hour, day, month, held, bytes)
	    < 0 OR NOT EXISTS (SELECT 1 FROM d.tenant t
	    WHERE t.tenant_id = tenant)) THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	INSERT INTO d.plan (tenant_id, plan) VALUES (tenant, plan_set_1.plan)
	    ON CONFLICT DO NOTHING;
	-- More is looser, also for who will be put on the plan.
	IF NOT o.step_up AND EXISTS (SELECT 1 FROM d.plan p
	    WHERE p.tenant_id = tenant AND p.plan = plan_set_1.plan
	    AND (hour > p.lim_hour OR day > p.lim_day OR month > p.lim_month
	    OR held > p.lim_held OR bytes > p.lim_bytes)) THEN
		RETURN QUERY SELECT 403, 'step_up_required';
		RETURN;
	END IF;
	UPDATE d.plan p SET lim_hour = coalesce(hour, p.lim_hour),
	    lim_day = coalesce(day, p.lim_day),
	    lim_month = coalesce(month, p.lim_month),
	    lim_held = coalesce(held, p.lim_held),
	    lim_bytes = coalesce(bytes, p.lim_bytes)
	    WHERE p.tenant_id = tenant AND p.plan = plan_set_1.plan;
	PERFORM d.note(tenant, o.actor, 'plan.set', NULL, json_build_object(
	    'plan', plan_set_1.plan, 'hour', hour, 'day', day, 'month', month,
	    'held', held, 'bytes', bytes)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

CREATE FUNCTION api.plans_1(s bytea, uid bigint, tenant bigint)
	RETURNS TABLE (status int, code text, plan text, hour int, day int,
	month int, held int, bytes bigint) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
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
	RETURN QUERY SELECT 200, NULL::text, p.plan, p.lim_hour, p.lim_day,
	    p.lim_month, p.lim_held, p.lim_bytes FROM d.plan p
	    WHERE p.tenant_id = tenant AND tenant = ANY (d.cur_tenants())
	    ORDER BY p.plan;
END $$;

CREATE FUNCTION api.limits_set_1(s bytea, uid bigint, tenant bigint,
	inbox bigint, plan text, hour int, day int, month int, held int,
	bytes bigint) RETURNS TABLE (status int, code text, limits_version int)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record;
	p record;
	v int;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin'], tenant, inbox);
	IF o.status = 200 AND least(hour, day, month, held, bytes) < 0 THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status = 200 THEN
		SELECT y.* INTO p FROM d.plan y WHERE y.tenant_id = tenant
		    AND y.plan = limits_set_1.plan;
		IF limits_set_1.plan IS NOT NULL AND NOT FOUND THEN
			o.status := 404;
			o.code := 'not_found';
		-- More is looser.
		ELSIF NOT o.step_up AND EXISTS (SELECT 1 FROM d.inbox x
		    WHERE x.tenant_id = tenant AND x.inbox_id = inbox
		    AND (coalesce(hour, p.lim_hour) > x.lim_hour
		    OR coalesce(day, p.lim_day) > x.lim_day
		    OR coalesce(month, p.lim_month) > x.lim_month
		    OR coalesce(held, p.lim_held) > x.lim_held
		    OR coalesce(bytes, p.lim_bytes) > x.lim_bytes)) THEN
			o.status := 403;
			o.code := 'step_up_required';
		END IF;
	END IF;
	IF o.status = 200 THEN
		UPDATE d.inbox x SET plan = coalesce(p.plan, x.plan),
		    lim_hour = coalesce(hour, p.lim_hour, x.lim_hour),
		    lim_day = coalesce(day, p.lim_day, x.lim_day),
		    lim_month = coalesce(month, p.lim_month, x.lim_month),
		    lim_held = coalesce(held, p.lim_held, x.lim_held),
		    lim_bytes = coalesce(bytes, p.lim_bytes, x.lim_bytes)
		    WHERE x.tenant_id = tenant AND x.inbox_id = inbox
		    RETURNING x.limits_version INTO v;
		IF v IS NULL THEN
			o.status := 404;
			o.code := 'not_found';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::int;
		RETURN;
	END IF;
	PERFORM d.note(tenant, o.actor, 'inbox.limits', NULL, json_build_object(
	    'inbox', inbox, 'plan', limits_set_1.plan, 'hour', hour, 'day', day,
	    'month', month, 'held', held, 'bytes', bytes, 'version', v)::text);
	RETURN QUERY SELECT 200, NULL::text, v;
END $$;

-- What an inbox has of its own; NULL leaves it. 0 approvals, 0 seconds and ''
-- give back what its tenant says, or nobody. What loosens needs a step-up.
CREATE FUNCTION api.inbox_own_1(s bytea, uid bigint, tenant bigint,
	inbox bigint, approvals smallint, hold_seconds int, overseer text,
	full_key_smtp boolean, retry_uncertain boolean,
	one_click boolean DEFAULT NULL)
	RETURNS TABLE (status int, code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	x record;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin'], tenant, inbox);
	IF o.status = 200 AND (inbox_own_1.approvals NOT BETWEEN 0 AND 2
	    OR hold_seconds <> 0 AND hold_seconds NOT BETWEEN 60 AND 34560000
	    OR overseer <> '' AND (octet_length(overseer) NOT BETWEEN 3 AND 320
	    OR overseer !~ '^[^@\x01-\x20\x7f]+@[^@\x01-\x20\x7f]+$')) THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status = 200 THEN
		SELECT i.*, t.need_approvals AS all_need INTO x FROM d.inbox i
		    JOIN d.tenant t ON t.tenant_id = i.tenant_id
		    WHERE i.tenant_id = tenant AND i.inbox_id = inbox
		    AND i.deleted_at IS NULL FOR NO KEY UPDATE OF i;
		IF NOT FOUND THEN
			o.status := 404;
			o.code := 'not_found';
		ELSIF NOT o.step_up AND (coalesce(nullif(inbox_own_1.approvals, 0),
		    CASE WHEN inbox_own_1.approvals = 0 THEN x.all_need END,
		    x.need_approvals, x.all_need)
		    < coalesce(x.need_approvals, x.all_need)
		    OR x.oversight IS NOT NULL AND overseer <> x.oversight
		    OR full_key_smtp AND NOT x.smtp_wide
		    OR retry_uncertain AND NOT x.may_duplicate) THEN
			o.status := 403;
			o.code := 'step_up_required';
		ELSIF inbox_own_1.one_click AND NOT x.one_click
		    AND NOT EXISTS (SELECT 1 FROM d.dkim_key y
		    WHERE y.tenant_id = tenant AND y.domain = x.domain
		    AND y.used_at IS NOT NULL AND y.retired_at IS NULL) THEN
			-- RFC 8058 4: the link counts inside a signature only.
			o.status := 409;
			o.code := 'dkim_needed';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	-- What signs links, for as long as there is the tenant.
	IF inbox_own_1.one_click THEN
		INSERT INTO d.one_click_key (tenant_id, key) VALUES (tenant,
		    sha256(uuid_send(gen_random_uuid())
		    || uuid_send(gen_random_uuid()))) ON CONFLICT DO NOTHING;
	END IF;
	UPDATE d.inbox i SET need_approvals = CASE
	    WHEN inbox_own_1.approvals IS NULL THEN i.need_approvals
	    ELSE nullif(inbox_own_1.approvals, 0) END,
	    hold_for = CASE WHEN hold_seconds IS NULL THEN i.hold_for
	    ELSE nullif(hold_seconds, 0) * interval '1 second' END,
	    oversight = CASE WHEN overseer IS NULL THEN i.oversight
	    ELSE nullif(overseer, '') END,
	    smtp_wide = coalesce(full_key_smtp, i.smtp_wide),
	    may_duplicate = coalesce(retry_uncertain, i.may_duplicate),
	    one_click = coalesce(inbox_own_1.one_click, i.one_click)
	    WHERE i.tenant_id = tenant AND i.inbox_id = inbox;
	PERFORM d.note(tenant, o.actor, 'inbox.own', NULL, json_build_object(
	    'inbox', inbox, 'approvals', inbox_own_1.approvals, 'hold_seconds',
	    hold_seconds, 'overseer', overseer, 'full_key_smtp', full_key_smtp,
	    'retry_uncertain', retry_uncertain, 'one_click',
	    inbox_own_1.one_click)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

CREATE FUNCTION api.operator_add_1(s bytea, uid bigint, name text, salt bytea,
	params text, verifier bytea, role text, tenant bigint, inbox bigint)
	RETURNS TABLE (status int, code text, operator_id bigint)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record;
	n bigint;
BEGIN
	-- Nobody makes an operator with more reach than his own.
	o := d.ctl(s, uid, ARRAY['admin'], tenant, inbox);
	IF o.status = 200 AND (coalesce(operator_add_1.name, '')
	    !~ '^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$'
	    OR coalesce(octet_length(operator_add_1.salt), 0) <> 16
	    OR operator_add_1.params IS NULL
	    OR coalesce(octet_length(operator_add_1.verifier), 0) <> 32
	    OR coalesce(operator_add_1.role, '') NOT IN ('reviewer', 'senior',
	    'admin', 'auditor') OR tenant IS NULL AND inbox IS NOT NULL
	    OR inbox IS NOT NULL AND NOT EXISTS (SELECT 1 FROM d.inbox x
	    WHERE x.tenant_id = tenant AND x.inbox_id = inbox)) THEN
		o.status := 422;
		o.code := 'validation_error';
	ELSIF o.status = 200 AND NOT o.step_up THEN
		o.status := 403;
		o.code := 'step_up_required';
	ELSIF o.status = 200 AND EXISTS (SELECT 1 FROM d.operator p
	    WHERE p.name = lower(operator_add_1.name)) THEN
		o.status := 409;
		o.code := 'state_conflict';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::bigint;
		RETURN;
	END IF;
	INSERT INTO d.operator AS p (name, salt, params, verifier)
	    VALUES (lower(operator_add_1.name), operator_add_1.salt,
	    operator_add_1.params, operator_add_1.verifier)
	    RETURNING p.operator_id INTO n;
	INSERT INTO d.operator_scope (operator_id, tenant_id, inbox_id, role)
	    VALUES (n, tenant, inbox, operator_add_1.role);
	PERFORM d.note(coalesce(tenant, 0), o.actor, 'operator.add', NULL,
	    json_build_object('operator', n, 'role', operator_add_1.role,
	    'tenant', tenant, 'inbox', inbox)::text);
	RETURN QUERY SELECT 200, NULL::text, n;
END $$;

CREATE FUNCTION api.operator_disable_1(s bytea, uid bigint, name text)
	RETURNS TABLE (status int, code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	n bigint;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin'], NULL, NULL);
	SELECT p.operator_id INTO n FROM d.operator p
	    WHERE p.name = lower(operator_disable_1.name);
	IF o.status = 200 AND n IS NULL THEN
		o.status := 404;
		o.code := 'not_found';
	ELSIF o.status = 200 AND n = o.operator_id THEN
		o.status := 409;
		o.code := 'state_conflict';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	UPDATE d.operator p SET disabled_at = coalesce(p.disabled_at,
	    clock_timestamp()) WHERE p.operator_id = n;
	UPDATE d.operator_session z SET ended_at = clock_timestamp()
	    WHERE z.operator_id = n AND z.ended_at IS NULL;
	PERFORM d.note(0, o.actor, 'operator.disable', NULL, json_build_object(
	    'operator', n)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

CREATE FUNCTION api.operators_1(s bytea, uid bigint) RETURNS TABLE (
	status int, code text, operator_id bigint, name text, roles text,
	disabled boolean, last_seen timestamptz) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin', 'auditor'], NULL, NULL);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, p.operator_id, p.name,
	    (SELECT string_agg(coalesce(c.tenant_id::text, '*') || ':'
	        || coalesce(c.inbox_id::text, '*') || ':' || c.role, E'\n'
	        ORDER BY c.scope_id) FROM d.operator_scope c
	        WHERE c.operator_id = p.operator_id),
	    p.disabled_at IS NOT NULL, p.last_seen FROM d.operator p
	    ORDER BY p.name;
END $$;

-- An address or a slug as numbers, for what needs no sign-in (A12): whoever
-- may pause and tighten has to be able to say what.
CREATE FUNCTION api.ctl_find_1(uid bigint, which text) RETURNS TABLE (
	status int, code text, tenant_id bigint, inbox_id bigint)
	LANGUAGE plpgsql STABLE SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	IF strpos(which, '@') > 0 THEN
		RETURN QUERY SELECT 200, NULL::text, y.tenant_id, y.inbox_id
		    FROM d.address y WHERE y.domain = split_part(d.low(which), '@', 2)
		    AND y.local_part = split_part(d.low(which), '@', 1);
	ELSE
		RETURN QUERY SELECT 200, NULL::text, t.tenant_id, NULL::bigint
		    FROM d.tenant t WHERE t.slug = d.low(which);
	END IF;
	IF NOT FOUND THEN
		RETURN QUERY SELECT 404, 'not_found', NULL::bigint, NULL::bigint;
	END IF;
END $$;

CREATE FUNCTION api.tighten_1(uid bigint, tenant bigint, inbox bigint,
	to_mode smallint, reason text) RETURNS TABLE (status int, code text,
	mode smallint, mode_epoch int) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	x record;
BEGIN
	SELECT y.mode, y.mode_epoch INTO x FROM d.inbox y
	    WHERE y.tenant_id = tenant AND y.inbox_id = inbox FOR UPDATE;
	IF NOT FOUND THEN
		RETURN QUERY SELECT 404, 'not_found', NULL::smallint, NULL::int;
		RETURN;
	END IF;
	IF coalesce(length(btrim(reason, E' \t\r\n')), 0) = 0
	    OR length(reason) > 1000 THEN
		RETURN QUERY SELECT 422, 'validation_error', x.mode, x.mode_epoch;
		RETURN;
	END IF;
	IF to_mode IS NULL OR to_mode NOT BETWEEN 0 AND 4 OR to_mode > x.mode THEN
		RETURN QUERY SELECT 403, 'missing_permission', x.mode, x.mode_epoch;
		RETURN;
	END IF;
	IF to_mode < x.mode THEN
		UPDATE d.inbox y SET mode = to_mode WHERE y.tenant_id = tenant
		    AND y.inbox_id = inbox RETURNING y.mode, y.mode_epoch INTO x;
		PERFORM d.note(tenant, 'ctl:' || coalesce(uid, 0)::text,
		    'inbox.mode', NULL, json_build_object('inbox', inbox, 'mode',
		    to_mode, 'mode_epoch', x.mode_epoch, 'reason',
		    reason)::text);
	END IF;
	RETURN QUERY SELECT 200, NULL::text, x.mode, x.mode_epoch;
END $$;

CREATE FUNCTION api.ctl_pause_1(uid bigint, tenant bigint, inbox bigint,
	reason text) RETURNS TABLE (status int, code text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	n int;
	actor text := 'ctl:' || coalesce(uid, 0)::text;
BEGIN
	IF tenant IS NULL AND inbox IS NOT NULL
	    OR coalesce(length(btrim(reason, E' \t\r\n')), 0) = 0
	    OR length(reason) > 1000 THEN
		RETURN QUERY SELECT 422, 'validation_error';
		RETURN;
	END IF;
	IF tenant IS NULL THEN
		UPDATE d.global_pause g SET paused_at = coalesce(g.paused_at,
		    clock_timestamp()), paused_by = actor,
		    reason = ctl_pause_1.reason;
	ELSIF inbox IS NULL THEN
		UPDATE d.tenant t SET paused_at = coalesce(t.paused_at,
		    clock_timestamp()), paused_by = actor,
		    pause_reason = ctl_pause_1.reason WHERE t.tenant_id = tenant;
	ELSE
		UPDATE d.inbox x SET paused_at = coalesce(x.paused_at,
		    clock_timestamp()), paused_by = actor,
		    pause_reason = ctl_pause_1.reason WHERE x.tenant_id = tenant
		    AND x.inbox_id = inbox;
	END IF;
	GET DIAGNOSTICS n = ROW_COUNT;
	IF n = 0 THEN
		RETURN QUERY SELECT 404, 'not_found';
		RETURN;
	END IF;
	PERFORM d.note(coalesce(tenant, 0), actor, 'pause', NULL,
	    json_build_object('tenant', tenant, 'inbox', inbox, 'reason',
	    reason)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

-- After a restore (A15): what the backup does not know has happened. Nothing
-- leaves by what was decided before; loose modes and sessions end; keys in
-- `revoked` (lines "TENANT KEY") die again; the new epoch is above `seen`.
CREATE FUNCTION api.restore_finish_1(uid bigint, seen int, revoked text,
	reason text) RETURNS TABLE (status int, code text, epoch int, gen int,
	held int, modes int, keys int, sessions int)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	e record;
	m record;
	say text := 'restored from a backup: it may have been sent';
	c_held int := 0;
	c_modes int;
	c_keys int;
	c_ended int;
BEGIN
	IF EXISTS (SELECT 1 FROM pg_stat_activity a
	    WHERE a.datname = current_database() AND a.usename IN ('l_gateway',
	    'l_review', 'l_worker', 'l_seal', 'l_auth')) THEN
		RETURN QUERY SELECT 409, 'state_conflict', NULL::int, NULL::int,
		    NULL::int, NULL::int, NULL::int, NULL::int;
		RETURN;
	END IF;
	IF coalesce(length(btrim(reason)), 0) NOT BETWEEN 1 AND 1000
	    OR coalesce(seen, 0) NOT BETWEEN 0 AND 1000000
	    OR coalesce(revoked, '') !~ '^([0-9]{1,18} [0-9]{1,18}\n?)*$' THEN
		RETURN QUERY SELECT 422, 'validation_error', NULL::int, NULL::int,
		    NULL::int, NULL::int, NULL::int, NULL::int;
		RETURN;
	END IF;
	PERFORM set_config('synchronous_commit', 'on', true),
	    set_config('postern.actor', 'ctl:' || coalesce(uid, 0)::text, true);
	UPDATE d.global_pause g SET paused_at = coalesce(g.paused_at,
	    clock_timestamp()), paused_by = d.cur_actor(),
	    reason = 'restored from a backup';
	UPDATE d.deployment y SET epoch = greatest(y.epoch, coalesce(seen, 0)) + 1,
	    gen = y.gen + 1, restored = nullif(current_setting('postern.restored',
	    true), '') RETURNING y.epoch, y.gen INTO e;
	PERFORM d.audit_gen(e.gen);
	FOR m IN SELECT y.message_id, y.tenant_id, y.inbox_id, y.state,
	    n.hold_for FROM d.state y JOIN d.tenant n ON n.tenant_id = y.tenant_id
	    WHERE y.state IN (1, 2, 6, 7, 9, 11)
	    ORDER BY y.message_id FOR UPDATE OF y LOOP
		IF m.state <> 1 THEN
			PERFORM d.forget_leases(m.message_id, m.tenant_id);
		END IF;
		UPDATE d.state y SET state = 1, detail = say,
		    round = y.round + (y.state <> 1)::int,
		    hold_until = greatest(y.hold_until, clock_timestamp()
		    + m.hold_for) WHERE y.message_id = m.message_id
		    AND y.tenant_id = m.tenant_id;
		IF m.state = 1 THEN
			PERFORM d.event_add(m.message_id, m.tenant_id, m.inbox_id,
			    'message.held', 'ctl', d.cur_actor(), 1::smallint, say);
		END IF;
		c_held := c_held + 1;
	END LOOP;
	UPDATE d.inbox x SET mode = 2 WHERE x.mode > 2;
	GET DIAGNOSTICS c_modes = ROW_COUNT;
	UPDATE d.credential r SET revoked_at = clock_timestamp()
	    WHERE r.revoked_at IS NULL AND (r.kind = 's'
	    OR r.tenant_id::text || ' ' || r.key_id::text
	    = ANY (string_to_array(coalesce(revoked, ''), chr(10))));
	GET DIAGNOSTICS c_keys = ROW_COUNT;
	UPDATE d.operator_session z SET ended_at = clock_timestamp()
	    WHERE z.ended_at IS NULL;
	GET DIAGNOSTICS c_ended = ROW_COUNT;
	UPDATE d.claim z SET expires_at = clock_timestamp()
	    WHERE z.expires_at > clock_timestamp();
	PERFORM d.note(0, d.cur_actor(), 'restore.finish', NULL,
	    json_build_object('epoch', e.epoch, 'gen', e.gen, 'held', c_held,
	    'modes', c_modes, 'keys', c_keys, 'sessions', c_ended, 'reason',
	    left(reason, 1000))::text);
	RETURN QUERY SELECT 200, NULL::text, e.epoch, e.gen, c_held, c_modes,
	    c_keys, c_ended;
END $$;

CREATE FUNCTION api.key_kill_1(s bytea, uid bigint, tenant bigint, key bigint)
	RETURNS TABLE (status int, code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	i bigint;
BEGIN
	SELECT r.inbox_id INTO i FROM d.credential r WHERE r.tenant_id = tenant
	    AND r.key_id = key;
	o := d.ctl(s, uid, ARRAY['admin', 'senior'], tenant, i);
	IF o.status = 200 AND i IS NULL THEN
		o.status := 404;
		o.code := 'not_found';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	UPDATE d.credential r SET revoked_at = clock_timestamp()
	    WHERE r.tenant_id = tenant AND r.key_id = key
	    AND r.revoked_at IS NULL;
	PERFORM d.note(tenant, o.actor, 'key.revoked', NULL, json_build_object(
	    'key', key)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

CREATE FUNCTION api.queue_1(s bytea, uid bigint) RETURNS TABLE (status int,
	code text, state smallint, n bigint, oldest timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
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
	RETURN QUERY SELECT 200, NULL::text, y.state, count(*),
	    min(y.changed_at) FROM d.state y
	    WHERE y.tenant_id = ANY (d.cur_tenants()) GROUP BY y.state
	    ORDER BY y.state;
END $$;

-- Where released mail waits to go: of each domain how much is next, is being
-- sent, waits for its time, and is set aside (send_q.aside): stopped by what
-- its inbox, tenant or a rule of theirs says, or as nobody's mail goes there
-- now. The reply is that to whoever was tried most often. Most mail first.
CREATE FUNCTION api.queue_domains_1(s bytea, uid bigint) RETURNS TABLE (
	status int, code text, domain text, next bigint, sending bigint,
	later bigint, stopped bigint, left_alone bigint, oldest timestamptz,
	due timestamptz, tries int, reply text, rules text)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record;
	now_at timestamptz := clock_timestamp();
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, z.domain, z.next, z.sending, z.later,
	    z.stopped, z.left_alone, to_timestamp(d.uuid_ms(z.first) / 1000.0),
	    z.due,
	    z.tries, (SELECT left(concat_ws(' ', v.reply_code, v.enhanced,
	        v.reply), 200) FROM d.delivery v
	        WHERE v.message_id = z.tried AND v.tenant_id = z.whose
	        AND v.domain = z.domain AND v.reply IS NOT NULL
	        ORDER BY v.ix LIMIT 1),
	    (SELECT string_agg(r.route_id::text || CASE r.action
	        WHEN 's' THEN ' suspend' WHEN 'b' THEN ' bounce'
	        WHEN 'r' THEN ' relay' ELSE ' tls' END, ', ' ORDER BY r.route_id)
	        FROM d.route r WHERE r.domain IN ('*', z.domain)
	        AND r.ended_at IS NULL AND (r.expires_at IS NULL
	        OR r.expires_at > now_at) AND (r.tenant_id = 0
	        OR r.tenant_id = ANY (z.tenants)))
	    FROM (SELECT q.domain,
	        count(*) FILTER (WHERE q.lease IS NULL AND q.aside IN (0, 3)
	            AND q.due_at <= now_at) AS next,
	        count(*) FILTER (WHERE q.lease IS NOT NULL) AS sending,
	        count(*) FILTER (WHERE q.lease IS NULL AND q.aside IN (0, 3)
	            AND q.due_at > now_at) AS later,
	        count(*) FILTER (WHERE q.lease IS NULL AND q.aside = 1) AS stopped,
	        count(*) FILTER (WHERE q.lease IS NULL AND q.aside = 2)
	            AS left_alone,
	        min(q.message_id::text)::uuid AS first,
	        min(q.due_at) FILTER (WHERE q.lease IS NULL) AS due,
	        max(q.attempts) AS tries,
	        (array_agg(q.message_id ORDER BY q.attempts DESC))[1] AS tried,
	        (array_agg(q.tenant_id ORDER BY q.attempts DESC))[1] AS whose,
	        array_agg(DISTINCT q.tenant_id) AS tenants
	        FROM d.send_q q WHERE q.tenant_id = ANY (d.cur_tenants())
	        GROUP BY q.domain ORDER BY count(*) DESC, q.domain LIMIT 100) z
	    ORDER BY z.next + z.sending + z.later + z.stopped + z.left_alone DESC,
	    z.domain;
END $$;

CREATE FUNCTION api.trace_1(s bytea, uid bigint, what text) RETURNS TABLE (
	status int, code text, message_id uuid, tenant_slug text, address text,
	state smallint, version smallint, round smallint, digest bytea,
	subject text, rcpts text, rfc_message_id text, created_at timestamptz,
	updated_at timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' SET enable_seqscan = off
	SET enable_hashjoin = off SET enable_mergejoin = off
	SET cpu_tuple_cost = 1 AS $$
#variable_conflict use_column
DECLARE
	o record;
	ids uuid[];
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF what ~ '^[0-9a-f]{8}-[0-9a-f-]{27}$' THEN
		ids := ARRAY[what::uuid];
	ELSE
		SELECT array_agg(m.message_id) INTO ids FROM d.message m
		    WHERE m.rfc_message_id IN (what, '<' || what || '>',
		    btrim(what, '<>'));
	END IF;
	IF ids IS NULL AND what ~ '^[^ ]+@[^ ]+$' THEN
		ids := d.found_newest(what, 100);
	END IF;
	RETURN QUERY SELECT 200, NULL::text, m.message_id, t.slug, x.address,
	    y.state, y.version, y.round, m.digest, m.subject,
	    array_to_string(m.rcpt, E'\n'), m.rfc_message_id, m.created_at,
	    y.changed_at FROM d.state y
	    -- each by itself: looked up, whatever else there is
	    CROSS JOIN LATERAL (SELECT z.message_id, z.digest, z.subject, z.rcpt,
	        z.rfc_message_id, z.created_at FROM d.message z
	        WHERE z.message_id = y.message_id AND z.tenant_id = y.tenant_id
	        AND z.version = y.version OFFSET 0) m
	    CROSS JOIN LATERAL (SELECT z.address FROM d.inbox z
	        WHERE z.tenant_id = y.tenant_id AND z.inbox_id = y.inbox_id
	        OFFSET 0) x
	    JOIN d.tenant t ON t.tenant_id = y.tenant_id
	    WHERE y.message_id = ANY (ids)
	    AND (y.tenant_id = ANY (d.cur_tenants())
	    OR y.tenant_id::text || '.' || y.inbox_id::text
	    = ANY (d.cur_boxes())) ORDER BY m.message_id DESC LIMIT 100;
END $$;

CREATE FUNCTION api.trace_events_1(s bytea, uid bigint, mid uuid)
	RETURNS TABLE (status int, code text, n int, type text, at timestamptz,
	actor text, who text, state smallint, detail text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
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
	RETURN QUERY SELECT 200, NULL::text, 1, 'message.submitted'::text,
	    m.created_at, 'agent'::text, x.address, NULL::smallint, NULL::text
	    FROM d.message m JOIN d.inbox x ON x.tenant_id = m.tenant_id
	        AND x.inbox_id = m.inbox_id
	    WHERE m.message_id = mid AND m.version = 1
	    AND m.tenant_id = ANY (d.cur_tenants())
	    UNION ALL SELECT 200, NULL::text, e.n, e.type, e.at, e.actor, e.who,
	    e.state, e.detail FROM d.event e WHERE e.message_id = mid
	    AND e.tenant_id = ANY (d.cur_tenants()) ORDER BY 3;
END $$;

-- The weeks there are.
CREATE FUNCTION d.weeks() RETURNS SETOF date LANGUAGE sql STABLE
	BEGIN ATOMIC
		SELECT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_class c
		    WHERE c.relnamespace = 'd'::regnamespace
		    AND c.relname ~ '^message_[0-9]{8}$';
	END;

-- One thing a call, each within the time of one: weeks are made first, as
-- without them nothing is accepted; then old ones go, four a call; then what
-- is small. The caller comes again while anything was done. A clock that
-- stands half a year behind the last week is more likely wrong than right,
-- and deletes nothing unless somebody says so.
CREATE FUNCTION api.maintain_1(uid bigint, weeks_ahead int, body_days int,
	meta_days int, after_gap boolean) RETURNS TABLE (status int, code text,
	what text, n int) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	m date := d.monday(clock_timestamp());
	weeks int := 0;
	made int := 0;
	dropped int := 0;
	busy int := 0;
	uploads int;
	bodies int;
	idems int;
	ended int;
	gone int;
	k date;
BEGIN
	IF coalesce(weeks_ahead, 4) NOT BETWEEN 2 AND 52
	    OR coalesce(body_days, 30) < 1 OR coalesce(meta_days, 400) < 30 THEN
		RETURN QUERY SELECT 422, 'validation_error', NULL::text, NULL::int;
		RETURN;
	END IF;
	IF after_gap IS NOT TRUE AND NOT EXISTS (SELECT 1 FROM d.weeks() w
	    WHERE w BETWEEN m - 26 * 7 AND m + 52 * 7) THEN
		RETURN QUERY SELECT 409, 'clock_gap', NULL::text, NULL::int;
		RETURN;
	END IF;
	FOR w IN -1 .. coalesce(weeks_ahead, 4) LOOP
		n := d.partition_make(m + 7 * w);
		made := made + n;
		weeks := weeks + (n > 0)::int;
		EXIT WHEN weeks = 8;
	END LOOP;
	IF made = 0 THEN
		FOR k IN SELECT w FROM d.weeks() w WHERE w <= d.monday(
		    clock_timestamp() - make_interval(days =>
		    coalesce(meta_days, 400) + 7)) ORDER BY 1 LOOP
			n := d.partition_drop(k);
			busy := busy + (n IS NULL)::int;
			dropped := dropped + coalesce(n, 0);
			EXIT WHEN dropped = 4 OR busy > 0;
		END LOOP;
	END IF;
	IF made > 0 OR dropped > 0 THEN
		PERFORM d.note(0, 'ctl:' || coalesce(uid, 0)::text, 'maintain',
		    NULL, json_build_object('made', made, 'dropped', dropped)::text);
	ELSE
		SELECT z.uploads, z.bodies, z.idems INTO uploads, bodies, idems
		    FROM d.sweep_small(coalesce(body_days, 30),
		    coalesce(meta_days, 400)) z;
		ended := d.sweep_ended();
		gone := d.sweep_tenants();
		PERFORM d.permits_told();
	END IF;
	RETURN QUERY SELECT 200, NULL::text, x.what, coalesce(x.n, 0)
	    FROM (VALUES ('partitions made', made), ('weeks dropped', dropped),
	    ('weeks in use', busy),
	    ('uploads removed', uploads), ('body chunks removed', bodies),
	    ('idempotency keys removed', idems),
	    ('bodies of deleted inboxes removed', ended),
	    ('messages of deleted tenants removed', gone)) x(what, n);
END $$;

-- What a connection locks at most, when it plans over all weeks.
CREATE FUNCTION d.relations() RETURNS bigint LANGUAGE sql STABLE
	BEGIN ATOMIC
		SELECT count(*) FROM pg_class c WHERE c.relkind IN ('r', 'i')
		    AND c.relnamespace = 'd'::regnamespace;
	END;

CREATE FUNCTION api.doctor_1() RETURNS TABLE (status int, code text,
	finding text, level text, detail text, fix text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT 200, NULL::text, x.finding, x.level, x.detail, x.fix
	    FROM (VALUES
	    ('partitions', CASE WHEN d.weeks_ahead() < 2 THEN 'error'
	        WHEN d.weeks_ahead() < 3 THEN 'warning' ELSE 'ok' END,
	        d.weeks_ahead()::text || ' weeks ahead',
	        'posternctl maintain'),
	    ('locks', CASE WHEN current_setting('max_locks_per_transaction')::int
	        * (current_setting('max_connections')::int
	        + current_setting('max_prepared_transactions')::int)
	        < 4 * d.relations() THEN 'warning' ELSE 'ok' END,
	        'max_locks_per_transaction='
	        || current_setting('max_locks_per_transaction') || ', '
	        || d.relations() || ' tables and indexes',
	        'set max_locks_per_transaction to 256 or more and restart '
	        'PostgreSQL'),
	    ('second factors', (SELECT CASE WHEN count(*) > 0 THEN 'info'
	        ELSE 'ok' END FROM d.operator p WHERE p.disabled_at IS NULL
	        AND NOT p.totp AND p.passkeys = 0), (SELECT count(*)::text
	        FROM d.operator p WHERE p.disabled_at IS NULL AND NOT p.totp
	        AND p.passkeys = 0) || ' of those who can sign in have none',
	        'each adds one under Account on the pages'),
	    ('durability', CASE WHEN current_setting('fsync') = 'on'
	        AND current_setting('full_page_writes') = 'on' THEN 'ok'
	        ELSE 'error' END, 'fsync=' || current_setting('fsync')
	        || ' full_page_writes=' || current_setting('full_page_writes'),
	        'set both to on in postgresql.conf'),
	    ('login settings', CASE WHEN EXISTS (SELECT 1
	        FROM pg_db_role_setting z JOIN pg_roles r ON r.oid = z.setrole
	        WHERE r.rolname LIKE 'l\_%') THEN 'error' ELSE 'ok' END,
	        'no login role may carry settings', 'ALTER ROLE ... RESET ALL'),
	    ('parameter logging', CASE
	        WHEN current_setting('log_parameter_max_length') = '0'
	        AND current_setting('log_parameter_max_length_on_error') = '0'
	        THEN 'ok' ELSE 'warning' END, 'log_parameter_max_length='
	        || current_setting('log_parameter_max_length'),
	        'set log_parameter_max_length and _on_error to 0'),
	    ('locale', CASE WHEN lower('I') = 'i' AND upper('i') = 'I'
	        AND current_setting('server_encoding') = 'UTF8' THEN 'ok'
	        ELSE 'warning' END, (SELECT coalesce(y.daticulocale,
	        y.datctype) FROM pg_database y
	        WHERE y.datname = current_database()) || ' '
	        || current_setting('server_encoding'), 'words are not found as '
	        'they are written: dump the database, create it with ENCODING '
	        '''UTF8'' LOCALE ''C.UTF-8'', and restore it'),
	    ('version', CASE WHEN current_setting('server_version_num')::int
	        >= 150014 THEN 'ok' ELSE 'error' END,
	        current_setting('server_version'), 'upgrade to 15.14 or newer'),
	    ('restore', CASE WHEN coalesce(current_setting('postern.restored',
	        true), '') NOT IN ('', coalesce((SELECT y.restored
	        FROM d.deployment y), '')) THEN 'error' ELSE 'ok' END,
	        coalesce('from the backup of ' || nullif(current_setting(
	        'postern.restored', true), ''), 'never by posternctl'),
	        'posternctl restore-finish --reason TEXT'),
	    ('global pause', CASE WHEN EXISTS (SELECT 1 FROM d.global_pause g
	        WHERE g.paused_at IS NOT NULL) THEN 'warning' ELSE 'ok' END,
	        coalesce((SELECT 'since ' || g.paused_at::text
	        FROM d.global_pause g WHERE g.paused_at IS NOT NULL), 'off'),
	        'posternctl resume --all, or on the operators'' page'),
	    ('pauses', CASE WHEN EXISTS (SELECT 1 FROM d.inbox x
	        WHERE x.paused_at IS NOT NULL AND x.deleted_at IS NULL)
	        OR EXISTS (SELECT 1 FROM d.tenant n WHERE n.paused_at IS NOT NULL
	        AND n.deleted_at IS NULL) THEN 'info' ELSE 'ok' END,
	        coalesce((SELECT string_agg(z.what, '; ') FROM ((SELECT 'tenant '
	        || n.slug || coalesce(': ' || left(n.pause_reason, 60), '')
	        FROM d.tenant n WHERE n.paused_at IS NOT NULL
	        AND n.deleted_at IS NULL ORDER BY n.slug LIMIT 5)
	        UNION ALL (SELECT x.address || coalesce(': '
	        || left(x.pause_reason, 60), '') FROM d.inbox x
	        WHERE x.paused_at IS NOT NULL AND x.deleted_at IS NULL
	        ORDER BY x.address LIMIT 5)) z (what)), 'none'),
	        'posternctl resume ADDRESS, or --tenant SLUG'),
	    ('deployment', CASE WHEN EXISTS (SELECT 1 FROM d.deployment)
	        THEN 'ok' ELSE 'error' END, 'deployment id',
	        'posternctl migrate'),
	    ('operator', CASE WHEN EXISTS (SELECT 1 FROM d.operator) THEN 'ok'
	        ELSE 'warning' END, CASE WHEN EXISTS (SELECT 1 FROM d.operator)
	        THEN 'somebody' ELSE 'nobody' END || ' can sign in',
	        'open the operators'' page with the setup token'),
	    ('alarms', CASE WHEN EXISTS (SELECT 1 FROM d.inbox x
	        WHERE x.alarm IS NOT NULL) THEN 'error' ELSE 'ok' END,
	        coalesce((SELECT string_agg(x.address, ' ') FROM (SELECT
	        y.address FROM d.inbox y WHERE y.alarm IS NOT NULL LIMIT 10) x),
	        'none'), 'look at the inbox page; reject what was altered'),
	    ('one-click', CASE WHEN EXISTS (SELECT 1 FROM d.inbox x
	        WHERE x.one_click AND x.deleted_at IS NULL
	        AND NOT EXISTS (SELECT 1 FROM d.dkim_key y
	        WHERE y.tenant_id = x.tenant_id AND y.domain = x.domain
	        AND y.used_at IS NOT NULL AND y.retired_at IS NULL))
	        THEN 'error' ELSE 'ok' END, (SELECT count(*)::text
	        FROM d.inbox x WHERE x.one_click AND x.deleted_at IS NULL)
	        || ' inboxes let recipients unsubscribe',
	        'their mail waits until each domain has a DKIM key in use'),
	    ('uncertain', CASE WHEN EXISTS (SELECT 1 FROM d.state y
	        WHERE y.stays = 11) THEN 'warning' ELSE 'ok' END, (SELECT
	        count(*)::text FROM d.state y WHERE y.stays = 11)
	        || ' messages may have been sent',
	        'posternctl uncertain list; decide on the message''s page'),
	    ('long leases', CASE WHEN EXISTS (SELECT 1 FROM d.send_q q
	        WHERE q.lease_until < clock_timestamp() - interval '5 minutes')
	        THEN 'warning' ELSE 'ok' END, (SELECT count(*)::text
	        FROM d.send_q q WHERE q.lease_until < clock_timestamp()
	        - interval '5 minutes') || ' leases ended and were not swept',
	        'start postern-deliver'))
	    x(finding, level, detail, fix);
END $$;

SET LOCAL ROLE p_seal;

CREATE FUNCTION api.seal_head_1() RETURNS TABLE (status int, code text,
	block bigint, rows bigint, gen int, xid bigint, n bigint, hash bytea,
	at timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT 200, NULL::text, b.block, (SELECT sum(z.rows)::bigint
	    FROM d.audit_seal z), b.gen, b.xid::text::bigint, b.n, b.hash, b.at
	    FROM d.audit_seal b ORDER BY b.block DESC LIMIT 1;
END $$;

-- Rows after (gen, xid, n) in that order; with `done` only such that no
-- running transaction can still put a row before them.
CREATE FUNCTION d.audit_after(gen int, xid xid8, n bigint, lim int,
	done boolean) RETURNS TABLE (status int, code text, gen_ int,
	xid_ bigint, n_ bigint, tenant_id bigint, at_us bigint, actor text,
	event text, message_id uuid, detail text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	edge xid8 := pg_snapshot_xmin(pg_current_snapshot());
BEGIN
	RETURN QUERY SELECT 200, NULL::text, a.gen, a.xid::text::bigint, a.n,
	    a.tenant_id, d.us(a.at), a.actor::text, a.event::text,
	    a.message_id, a.detail::text
	    FROM d.audit a WHERE (a.gen, a.xid, a.n) > (audit_after.gen,
	    audit_after.xid, audit_after.n) AND (NOT done OR a.xid < edge)
	    ORDER BY a.gen, a.xid, a.n
	    LIMIT least(greatest(lim, 1), 10000);
END $$;

-- The key of the row that lies `lim` rows before a key, whoever's they are;
-- no row when there are fewer. A number of a row tells nothing of it.
CREATE FUNCTION d.audit_back(gen int, xid xid8, n bigint, lim int,
	OUT gen_ int, OUT xid_ xid8, OUT n_ bigint) LANGUAGE plpgsql STABLE
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off SET enable_bitmapscan = off
	SET enable_sort = off AS $$
BEGIN
	SELECT a.gen, a.xid, a.n INTO gen_, xid_, n_ FROM d.audit a
	    WHERE (a.gen, a.xid, a.n) < (audit_back.gen, audit_back.xid,
	    audit_back.n) ORDER BY a.gen DESC, a.xid DESC, a.n DESC
	    OFFSET lim - 1 LIMIT 1;
END $$;

CREATE FUNCTION api.seal_next_1(lim int) RETURNS TABLE (status int, code text,
	gen int, xid bigint, n bigint, tenant_id bigint, at_us bigint,
	actor text, event text, message_id uuid, detail text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	b record;
BEGIN
	SELECT z.gen, z.xid, z.n INTO b FROM d.audit_seal z
	    ORDER BY z.block DESC LIMIT 1;
	RETURN QUERY SELECT * FROM d.audit_after(coalesce(b.gen, 0),
	    coalesce(b.xid, '0'::xid8), coalesce(b.n, 0), lim, true);
END $$;

CREATE FUNCTION api.audit_rows_1(from_gen int, from_xid bigint, from_n bigint,
	lim int) RETURNS TABLE (status int, code text, gen int, xid bigint,
	n bigint, tenant_id bigint, at_us bigint, actor text, event text,
	message_id uuid, detail text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT * FROM d.audit_after(from_gen,
	    from_xid::text::xid8, from_n, lim, false);
END $$;

CREATE FUNCTION api.seal_put_1(block bigint, rows int, gen int, xid bigint,
	n bigint, root bytea, prev bytea, hash bytea, key_id text,
	signature bytea) RETURNS TABLE (status int, code text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	b record;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	SELECT z.block, z.hash, z.gen, z.xid, z.n INTO b FROM d.audit_seal z
	    ORDER BY z.block DESC LIMIT 1;
	IF seal_put_1.block IS DISTINCT FROM coalesce(b.block, 0) + 1
	    OR seal_put_1.prev IS DISTINCT FROM coalesce(b.hash,
	    decode(repeat('00', 32), 'hex'))
	    OR (seal_put_1.gen, seal_put_1.xid::text::xid8, seal_put_1.n)
	    <= (coalesce(b.gen, 0), coalesce(b.xid, '0'::xid8),
	    coalesce(b.n, 0))
	    OR seal_put_1.xid::text::xid8
	    >= pg_snapshot_xmin(pg_current_snapshot())
	    OR seal_put_1.rows IS DISTINCT FROM (SELECT count(*)::int
	    FROM d.audit a WHERE (a.gen, a.xid, a.n) > (coalesce(b.gen, 0),
	    coalesce(b.xid, '0'::xid8), coalesce(b.n, 0))
	    AND (a.gen, a.xid, a.n) <= (seal_put_1.gen,
	    seal_put_1.xid::text::xid8, seal_put_1.n))
	    OR NOT EXISTS (SELECT 1 FROM d.audit a WHERE a.gen = seal_put_1.gen
	    AND a.xid = seal_put_1.xid::text::xid8 AND a.n = seal_put_1.n) THEN
		RETURN QUERY SELECT 409, 'state_conflict';
		RETURN;
	END IF;
	INSERT INTO d.audit_seal (block, rows, gen, xid, n, root, prev, hash,
	    key_id, signature) VALUES (seal_put_1.block, seal_put_1.rows,
	    seal_put_1.gen, seal_put_1.xid::text::xid8, seal_put_1.n,
	    seal_put_1.root, seal_put_1.prev, seal_put_1.hash,
	    seal_put_1.key_id, seal_put_1.signature) ON CONFLICT DO NOTHING;
	IF NOT FOUND THEN
		RETURN QUERY SELECT 409, 'state_conflict';
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text;
END $$;

CREATE FUNCTION api.audit_blocks_1(from_block bigint, lim int)
	RETURNS TABLE (status int, code text, block bigint, rows int, gen int,
	xid bigint, n bigint, root bytea, prev bytea, hash bytea, key_id text,
	signature bytea, at timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT 200, NULL::text, b.block, b.rows, b.gen,
	    b.xid::text::bigint, b.n, b.root, b.prev, b.hash, b.key_id,
	    b.signature, b.at FROM d.audit_seal b WHERE b.block >= from_block
	    ORDER BY b.block LIMIT least(greatest(lim, 1), 10000);
END $$;

-- For api.ready_1: age of the oldest row that no block covers.
CREATE FUNCTION d.unsealed_seconds() RETURNS int LANGUAGE plpgsql STABLE
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	b record;
BEGIN
	SELECT z.gen, z.xid, z.n INTO b FROM d.audit_seal z
	    ORDER BY z.block DESC LIMIT 1;
	RETURN coalesce((SELECT greatest(0, extract(epoch
	    FROM clock_timestamp() - a.at))::int FROM d.audit a
	    WHERE (a.gen, a.xid, a.n) > (coalesce(b.gen, 0),
	    coalesce(b.xid, '0'::xid8), coalesce(b.n, 0))
	    ORDER BY a.gen, a.xid, a.n LIMIT 1), 0);
END $$;
GRANT EXECUTE ON FUNCTION d.unsealed_seconds() TO p_read;

RESET ROLE;
SET LOCAL ROLE p_ctl;
GRANT EXECUTE ON FUNCTION api.deployment_init_1, api.tenant_create_1,
	api.tenants_1, api.tenant_set_1, api.domain_add_1, api.domain_verify_1,
	api.domains_1, api.inbox_create_1, api.inbox_find_1, api.inbox_reset_1,
	api.plan_set_1, api.plans_1, api.limits_set_1, api.inbox_own_1,
	api.operator_add_1,
	api.operator_disable_1, api.operators_1, api.ctl_find_1, api.tighten_1,
	api.ctl_pause_1,
	api.key_kill_1, api.queue_1, api.queue_domains_1, api.trace_1,
	api.trace_events_1,
	api.maintain_1, api.doctor_1, api.restore_finish_1 TO l_ctl;
SET LOCAL ROLE p_seal;
GRANT EXECUTE ON FUNCTION api.seal_head_1, api.seal_next_1, api.seal_put_1,
	api.audit_blocks_1, api.audit_rows_1 TO l_seal;
GRANT EXECUTE ON FUNCTION api.seal_head_1, api.audit_blocks_1,
	api.audit_rows_1 TO l_ctl;
SET LOCAL ROLE p_owner;
GRANT EXECUTE ON FUNCTION d.us(timestamptz) TO p_seal;
REVOKE CREATE ON SCHEMA d, api FROM p_ctl, p_seal;
