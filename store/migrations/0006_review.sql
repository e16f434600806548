-- SPDX-License-Identifier: ISC
-- 0006_review.sql - what operators do. Each call shows the session's secret;
-- its scope bounds the rows by RLS, its role the verbs.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_review;
GRANT EXECUTE ON FUNCTION d.note TO p_review, p_ctl;

-- The live session behind s; sets the identity of this call. Runs as its
-- caller (p_review or p_ctl). `used`: a person did something; what a page asks
-- by itself, or a job, does not make the session last longer. A call within
-- such a call has postern.unused set.
CREATE FUNCTION d.op(s bytea, used boolean DEFAULT true, OUT status int,
	OUT code text, OUT operator_id bigint, OUT step_up boolean,
	OUT everywhere boolean)
	LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	x record;
	now_at timestamptz := clock_timestamp();
	tenants bigint[];
	boxes text[];
BEGIN
	status := 401;
	code := 'missing_authorization';
	IF s IS NULL OR octet_length(s) <> 32 THEN
		RETURN;
	END IF;
	SELECT z.operator_id, z.touched_at, z.step_up_until, z.step_up_by,
	    z.factor_due, p.totp, p.passkeys INTO x FROM d.operator_session z
	    JOIN d.operator p ON p.operator_id = z.operator_id
	    WHERE z.session_sha256 = sha256(s) AND z.ended_at IS NULL
	    AND z.expires_at > now_at AND z.touched_at > now_at
	    - interval '2 hours' AND z.touched_at < now_at + interval '1 hour'
	    AND p.disabled_at IS NULL; -- not what a clock ahead has begun
	IF NOT FOUND THEN
		RETURN;
	END IF;
	IF x.factor_due THEN
		code := 'second_factor_due';
		RETURN;
	END IF;
	status := 200;
	code := NULL;
	operator_id := x.operator_id;
	-- Who has a second factor steps up with it, not with the password.
	step_up := coalesce(x.step_up_until > now_at AND (x.step_up_by
	    <> 'password' OR NOT x.totp AND x.passkeys = 0), false);
	IF used AND x.touched_at < now_at - interval '1 minute'
	    AND coalesce(current_setting('postern.unused', true), '') = '' THEN
		UPDATE d.operator_session z SET touched_at = now_at
		    WHERE z.session_sha256 = sha256(s);
	END IF;
	everywhere := EXISTS (SELECT 1 FROM d.operator_scope c
	    WHERE c.operator_id = x.operator_id AND c.tenant_id IS NULL);
	SELECT array_agg(DISTINCT c.tenant_id) FILTER (WHERE c.inbox_id IS NULL),
	    array_agg(DISTINCT c.tenant_id::text || '.' || c.inbox_id::text)
	    FILTER (WHERE c.inbox_id IS NOT NULL) INTO tenants, boxes
	    FROM d.operator_scope c WHERE c.operator_id = x.operator_id
	    AND c.tenant_id IS NOT NULL;
	IF everywhere THEN
		SELECT array_agg(n.tenant_id) INTO tenants FROM d.tenant n;
	END IF;
	PERFORM set_config('postern.tenants', coalesce(tenants::text, '{}'), true),
	    set_config('postern.boxes', coalesce(boxes::text, '{}'), true),
	    set_config('postern.actor', 'op:' || x.operator_id::text, true);
END $$;
GRANT EXECUTE ON FUNCTION d.op TO p_review, p_ctl;

-- Of what d.op found, only that of one tenant; NULL: all of it.
CREATE FUNCTION d.op_only(tenant bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF tenant IS NOT NULL THEN
		PERFORM set_config('postern.tenants', ARRAY(SELECT y
		    FROM unnest(d.cur_tenants()) y WHERE y = tenant)::text, true),
		    set_config('postern.boxes', ARRAY(SELECT b
		    FROM unnest(d.cur_boxes()) b WHERE split_part(b, '.', 1)
		    = tenant::text)::text, true);
	END IF;
END $$;
GRANT EXECUTE ON FUNCTION d.op_only TO p_review;

-- The same for what concerns one message: 404 when it is not in the scope.
CREATE FUNCTION d.op_of(s bytea, mid uuid, used boolean DEFAULT true,
	OUT status int, OUT code text, OUT operator_id bigint)
	LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op(s, used);
	status := o.status;
	code := o.code;
	operator_id := o.operator_id;
	IF status = 200 AND NOT EXISTS (SELECT 1 FROM d.state y
	    WHERE y.message_id = mid) THEN
		status := 404;
		code := 'not_found';
	END IF;
END $$;
GRANT EXECUTE ON FUNCTION d.op_of TO p_review;

-- Has the operator one of the roles over this inbox (NULL: the whole tenant,
-- both NULL: everything)?
CREATE FUNCTION d.op_may(op bigint, roles text[], t bigint, i bigint)
	RETURNS boolean LANGUAGE sql STABLE
	RETURN EXISTS (SELECT 1 FROM d.operator_scope c WHERE c.operator_id = op
	    AND c.role = ANY (roles) AND (c.tenant_id IS NULL
	    OR c.tenant_id = t AND (c.inbox_id IS NULL OR c.inbox_id = i)));
GRANT EXECUTE ON FUNCTION d.op_may TO p_review, p_ctl;

-- What a session can go on under: a hash that is no session's.
CREATE FUNCTION d.secret_new(next_sha256 bytea) RETURNS boolean LANGUAGE sql STABLE
	RETURN coalesce(octet_length(next_sha256) = 32, false) AND NOT EXISTS (
	    SELECT 1 FROM d.operator_session z
	    WHERE z.session_sha256 = next_sha256);
GRANT EXECUTE ON FUNCTION d.secret_new TO p_review;

-- Where the next `lim` held messages of anybody end, by when they expire, if
-- there are so many until `by`. Row security would have a walk of one's own
-- read all of the others' in between.
CREATE FUNCTION d.left_from(after timestamptz, lim int,
	by timestamptz DEFAULT 'infinity') RETURNS timestamptz
	LANGUAGE plpgsql STABLE SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
	SET enable_bitmapscan = off SET enable_sort = off
	SET plan_cache_mode = force_custom_plan AS $$
BEGIN
	RETURN coalesce((SELECT s.hold_until FROM d.state s WHERE s.stays = 1
	    AND s.hold_until > after AND s.hold_until < by
	    ORDER BY s.hold_until OFFSET lim LIMIT 1),
	    'infinity');
END $$;
GRANT EXECUTE ON FUNCTION d.left_from TO p_review;

SET LOCAL ROLE p_review;

CREATE FUNCTION api.operator_salt_1(name text) RETURNS TABLE (status int,
	code text, salt bytea, params text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	-- Unknown names get a salt that stays the same and looks like any.
	RETURN QUERY SELECT 200, NULL::text, coalesce(p.salt,
	    substr(sha256(coalesce(y.secret, '\x00') || convert_to(
	    lower(operator_salt_1.name), 'UTF8')), 1, 16)),
	    coalesce(p.params, 'argon2id m=19456 t=2 p=1')
	    FROM (VALUES (1)) one LEFT JOIN d.deployment y ON y.one
	    LEFT JOIN d.operator p ON p.name = lower(operator_salt_1.name)
	        AND p.disabled_at IS NULL;
END $$;

-- Only while nobody is there. The first operator reviews and administers.
CREATE FUNCTION api.setup_1(name text, salt bytea, params text,
	verifier bytea) RETURNS TABLE (status int, code text, operator_id bigint)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
#variable_conflict use_column
DECLARE
	o bigint;
BEGIN
	PERFORM 1 FROM d.global_pause FOR UPDATE;
	IF EXISTS (SELECT 1 FROM d.operator) THEN
		RETURN QUERY SELECT 409, 'state_conflict', NULL::bigint;
		RETURN;
	END IF;
	IF coalesce(setup_1.name, '') !~ '^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$'
	    OR coalesce(octet_length(setup_1.salt), 0) <> 16
	    OR setup_1.params IS NULL
	    OR coalesce(octet_length(setup_1.verifier), 0) <> 32 THEN
		RETURN QUERY SELECT 422, 'validation_error', NULL::bigint;
		RETURN;
	END IF;
	INSERT INTO d.operator AS p (name, salt, params, verifier)
	    VALUES (lower(setup_1.name), setup_1.salt, setup_1.params,
	    setup_1.verifier) RETURNING p.operator_id INTO o;
	INSERT INTO d.operator_scope (operator_id, role, risk_cap)
	    VALUES (o, 'admin', 100), (o, 'senior', 100);
	PERFORM d.note(0, 'op:' || o::text, 'operator.first', NULL,
	    json_build_object('operator', o)::text);
	RETURN QUERY SELECT 200, NULL::text, o;
END $$;

-- How long the next try has to wait after so many that failed. A day without
-- one, and the count begins anew.
CREATE FUNCTION d.try_wait(failures int) RETURNS interval LANGUAGE sql IMMUTABLE
	RETURN CASE WHEN failures >= 5 THEN least(3600,
	30 * 2 ^ least(failures - 5, 10)) * interval '1 second' END;

-- The output of argon2id against the stored hash of it; failures slow down.
CREATE FUNCTION d.password_try(op bigint, output bytea, OUT ok boolean,
	OUT wait int) LANGUAGE plpgsql AS $$
DECLARE
	p record;
	n int;
	now_at timestamptz := clock_timestamp();
BEGIN
	ok := false;
	SELECT z.verifier, z.failures, z.failed_at, z.locked_until INTO p
	    FROM d.operator z WHERE z.operator_id = op AND z.disabled_at IS NULL
	    FOR UPDATE;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	IF p.locked_until > now_at THEN
		wait := greatest(1, extract(epoch FROM p.locked_until - now_at)::int);
		RETURN;
	END IF;
	ok := coalesce(p.verifier = sha256(output), false);
	n := CASE WHEN ok THEN 0 WHEN p.failed_at < now_at - interval '1 day'
	    THEN 1 ELSE p.failures + 1 END;
	UPDATE d.operator z SET failures = n, locked_until = now_at + d.try_wait(n),
	    failed_at = CASE WHEN NOT ok THEN now_at END,
	    last_seen = CASE WHEN ok THEN now_at ELSE z.last_seen END
	    WHERE z.operator_id = op;
END $$;

-- A try for a name that is nobody's: NULL, or how long to wait.
CREATE FUNCTION d.nobody_try(name text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	p record;
	n int;
	now_at timestamptz := clock_timestamp();
	h bytea := (SELECT sha256(coalesce(y.secret, '\x00') || convert_to(
	    'postern.nobody.1' || lower(nobody_try.name), 'UTF8'))
	    FROM (VALUES (1)) one LEFT JOIN d.deployment y ON y.one);
	k int := get_byte(h, 0) * 256 + get_byte(h, 1);
BEGIN
	INSERT INTO d.nobody AS z (place, name_sha256) VALUES (k, h)
	    ON CONFLICT (place) DO UPDATE SET name_sha256 = h, failures = 0,
	    locked_until = NULL WHERE z.name_sha256 <> h;
	SELECT z.failures, z.failed_at, z.locked_until INTO p FROM d.nobody z
	    WHERE z.place = k FOR UPDATE;
	IF p.locked_until > now_at THEN
		RETURN greatest(1, extract(epoch FROM p.locked_until - now_at)::int);
	END IF;
	n := CASE WHEN p.failed_at < now_at - interval '1 day' THEN 1
	    ELSE p.failures + 1 END;
	UPDATE d.nobody z SET failures = n, failed_at = now_at,
	    locked_until = now_at + d.try_wait(n) WHERE z.place = k;
	RETURN NULL;
END $$;

CREATE FUNCTION api.session_create_1(name text, output bytea,
	session_sha256 bytea, peer text) RETURNS TABLE (status int, code text,
	operator_id bigint, expires_at timestamptz, wait int, factor_due boolean)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
#variable_conflict use_column
DECLARE
	o bigint;
	here boolean;
	p record;
	e timestamptz := clock_timestamp() + interval '12 hours';
BEGIN
	SELECT z.operator_id, z.disabled_at IS NULL INTO o, here FROM d.operator z
	    WHERE z.name = lower(session_create_1.name);
	p := d.password_try(o, output);
	IF here IS NOT TRUE THEN
		p.wait := d.nobody_try(name);
	END IF;
	IF p.wait IS NOT NULL THEN
		SELECT 429, 'rate_limited', p.wait INTO status, code, wait;
		RETURN NEXT;
		RETURN;
	END IF;
	IF NOT p.ok OR coalesce(octet_length(session_create_1.session_sha256), 0)
	    <> 32 THEN
		IF o IS NOT NULL THEN
			PERFORM d.note(0, 'op:' || o::text, 'operator.signin_failed',
			    NULL, json_build_object('peer', left(peer, 100))::text);
		END IF;
		SELECT 401, 'missing_authorization' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	INSERT INTO d.operator_session (session_sha256, operator_id, peer,
	    expires_at) VALUES (session_create_1.session_sha256, o,
	    left(session_create_1.peer, 100), e) ON CONFLICT DO NOTHING;
	IF NOT FOUND THEN
		SELECT 401, 'missing_authorization' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	PERFORM d.note(0, 'op:' || o::text, 'operator.signin', NULL,
	    json_build_object('peer', left(peer, 100))::text);
	RETURN QUERY SELECT 200, NULL::text, o, z.expires_at, NULL::int,
	    z.factor_due FROM d.operator_session z
	    WHERE z.session_sha256 = session_create_1.session_sha256;
END $$;

CREATE FUNCTION api.session_touch_1(s bytea, used boolean DEFAULT true)
	RETURNS TABLE (status int, code text, operator_id bigint, name text, roles text,
	idle_until timestamptz, expires_at timestamptz, step_up_until
	timestamptz, step_up_by text, global_paused boolean, now timestamptz,
	totp boolean, passkeys int, csrf uuid)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op(s, used);
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
	    z.touched_at + interval '2 hours', z.expires_at,
	    CASE WHEN o.step_up THEN z.step_up_until END,
	    CASE WHEN o.step_up THEN z.step_up_by END,
	    g.paused_at IS NOT NULL, clock_timestamp(), p.totp, p.passkeys, z.csrf
	    FROM d.operator_session z JOIN d.operator p
	        ON p.operator_id = z.operator_id JOIN d.global_pause g ON g.one
	    WHERE z.session_sha256 = sha256(s);
END $$;

CREATE FUNCTION api.session_end_1(s bytea, everywhere boolean)
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
	    AND (session_end_1.everywhere OR z.session_sha256 = sha256(s));
	PERFORM d.note(0, 'op:' || o.operator_id::text, 'operator.signout', NULL,
	    '{}');
	RETURN QUERY SELECT 200, NULL::text;
END $$;

-- The session goes on under `next_sha256`, the hash of a secret that nobody had
-- before (decision 0099): a copy of the old one gains nothing by the step-up.
CREATE FUNCTION api.step_up_password_1(s bytea, output bytea, next_sha256 bytea)
	RETURNS TABLE (status int, code text, step_up_until timestamptz, wait int)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	p record;
	f record;
	e timestamptz := clock_timestamp() + interval '5 minutes';
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::timestamptz, NULL::int;
		RETURN;
	END IF;
	IF NOT d.secret_new(next_sha256) THEN
		SELECT 422, 'validation_error' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	SELECT z.totp, z.passkeys INTO f FROM d.operator z
	    WHERE z.operator_id = o.operator_id;
	IF f.totp OR f.passkeys > 0 THEN
		SELECT 403, 'missing_permission' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	p := d.password_try(o.operator_id, output);
	IF p.wait IS NOT NULL THEN
		RETURN QUERY SELECT 429, 'rate_limited', NULL::timestamptz, p.wait;
		RETURN;
	END IF;
	IF NOT p.ok THEN
		SELECT 401, 'missing_authorization' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF NOT d.mark_password(s, next_sha256, e) THEN
		SELECT 409, 'state_conflict' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	PERFORM d.note(0, 'op:' || o.operator_id::text, 'operator.step_up', NULL,
	    '{"by":"password"}');
	RETURN QUERY SELECT 200, NULL::text, e, NULL::int;
END $$;

CREATE FUNCTION api.review_tenants_1(s bytea)
	RETURNS TABLE (status int, code text, tenant_id bigint, slug text, name text, held int,
	paused boolean)
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
	RETURN QUERY SELECT 200, NULL::text, n.tenant_id, n.slug, n.name,
	    (SELECT coalesce(sum(q.held), 0)::int FROM d.quota q
	        WHERE q.tenant_id = n.tenant_id), n.paused_at IS NOT NULL
	    FROM d.tenant n WHERE n.tenant_id = ANY (d.cur_tenants())
	    OR EXISTS (SELECT 1 FROM unnest(d.cur_boxes()) b
	        WHERE split_part(b, '.', 1) = n.tenant_id::text)
	    ORDER BY n.slug;
END $$;

CREATE FUNCTION api.review_inboxes_1(s bytea, tenant bigint)
	RETURNS TABLE (status int, code text, tenant_id bigint, inbox_id bigint, address text,
	mode smallint, mode_epoch int, paused boolean, suspended boolean, alarm
	text, held int, plan text, lim_hour int, lim_day int, lim_month int,
	lim_held int, lim_bytes bigint, used_day int, used_month int, oversight
	text, display_name text, created_at timestamptz, inbox_epoch int, claimed
	boolean, reset_at timestamptz, test boolean)
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
	RETURN QUERY SELECT 200, NULL::text, x.tenant_id, x.inbox_id, x.address,
	    x.mode, x.mode_epoch, x.paused_at IS NOT NULL,
	    x.suspended_at IS NOT NULL, x.alarm, q.held, x.plan, x.lim_hour,
	    x.lim_day, x.lim_month, x.lim_held, x.lim_bytes,
	    CASE WHEN q.day = (clock_timestamp() AT TIME ZONE 'UTC')::date
	        THEN q.day_used ELSE 0 END,
	    CASE WHEN q.month = date_trunc('month', clock_timestamp()
	        AT TIME ZONE 'UTC')::date THEN q.month_used ELSE 0 END,
	    x.oversight, x.display_name, x.created_at, x.epoch, x.epoch > 0,
	    x.reset_at, x.test FROM d.inbox x
	    JOIN d.quota q ON q.tenant_id = x.tenant_id
	        AND q.inbox_id = x.inbox_id
	    WHERE (tenant IS NULL OR x.tenant_id = tenant)
	    AND x.deleted_at IS NULL ORDER BY x.tenant_id, x.address;
END $$;

-- The words a message is found by. Each begins with its tenant, so that a
-- search never meets another's: 7:a:x@y (recipient or sender), 7:d:y (domain
-- of a recipient), 7:m:... (Message-ID), 7:s:... (word of the subject), and
-- what a list is narrowed by: 7:h:files (something is attached), 7:h:links (its
-- text has links), 7:h:new (nothing its inbox sent had reached a recipient).
CREATE FUNCTION d.subject_words(subject text) RETURNS text[]
	LANGUAGE sql IMMUTABLE
	RETURN (SELECT coalesce(array_agg(DISTINCT left(w, 100)), '{}')
	    FROM regexp_split_to_table(lower(subject),
	    '[\x01-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+') w WHERE w <> '');
CREATE FUNCTION d.words_of(t bigint, mail_from text, rcpt text[], rfc text,
	subject text, files int, links boolean DEFAULT false,
	new_rcpt boolean DEFAULT false) RETURNS tsvector
	LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	p text := t::text || ':';
	all_of text[] := array_append(rcpt, mail_from);
	words text[];
BEGIN
	SELECT array_agg(DISTINCT p || w) INTO words FROM (
	    SELECT 'a:' || d.canon(y) FROM unnest(all_of) y
	    UNION ALL SELECT 'd:' || d.domain_of(y) FROM unnest(rcpt) y
	    UNION ALL SELECT 's:' || y FROM unnest(d.subject_words(subject)) y
	    UNION ALL SELECT 'h:files' WHERE files > 0
	    UNION ALL SELECT 'h:links' WHERE links
	    UNION ALL SELECT 'h:new' WHERE new_rcpt
	    UNION ALL SELECT 'm:' || left(btrim(rfc, '<>'), 300)) z (w)
	    WHERE w IS NOT NULL AND octet_length(w) BETWEEN 3 AND 1500;
	RETURN array_to_tsvector(words);
END $$;

-- What a search asks for: words; marks that go with all of them (has:files,
-- has:links, new:recipient); who looks at it (seen:me, seen:anyone,
-- seen:nobody); held since before or after (older:3d, newer:2h); when it
-- expires (left:24h); and, of what is past, when it last changed (changed:1d).
-- `more`: one of the last four.
CREATE TYPE d.asked_for AS (words text, marks text[], seen text, lo uuid,
	hi uuid, left_at timestamptz, since timestamptz, more boolean);
CREATE FUNCTION d.asked(q text) RETURNS d.asked_for LANGUAGE plpgsql STABLE
	AS $$
DECLARE
	a d.asked_for;
	t text;
	span interval;
BEGIN
	a.words := '';
	a.marks := '{}';
	FOREACH t IN ARRAY regexp_split_to_array(btrim(coalesce(q, '')), ' +')
	    LOOP
		IF lower(t) IN ('has:files', 'has:links') THEN
			a.marks := a.marks || ('h:' || lower(substr(t, 5)));
		ELSIF lower(t) = 'new:recipient' THEN
			a.marks := a.marks || 'h:new'::text;
		ELSIF lower(t) IN ('seen:me', 'seen:anyone', 'seen:nobody') THEN
			a.seen := lower(substr(t, 6));
		ELSIF t ~* '^(older|newer|left|changed):[0-9]{1,4}[hd]$' THEN
			span := (substring(t FROM '[0-9]+') || CASE WHEN t ~* 'h$'
			    THEN ' hours' ELSE ' days' END)::interval;
			IF t ~* '^older' THEN
				a.hi := d.uuid_floor(now() - span);
			ELSIF t ~* '^newer' THEN
				a.lo := d.uuid_floor(now() - span);
			ELSIF t ~* '^changed' THEN
				a.since := now() - span;
			ELSE
				a.left_at := now() + span;
			END IF;
		ELSIF t <> '' THEN
			a.words := a.words || CASE WHEN a.words = '' THEN '' ELSE ' '
			    END || t;
		END IF;
	END LOOP;
	a.more := a.seen IS NOT NULL OR a.lo IS NOT NULL OR a.hi IS NOT NULL
	    OR a.left_at IS NOT NULL OR a.since IS NOT NULL;
	-- Mail that is still on its way after that long is none of an hour's work.
	IF a.since IS NOT NULL AND a.lo IS NULL THEN
		a.lo := d.uuid_floor(a.since - interval '60 days');
	END IF;
	RETURN a;
END $$;

-- What is asked for, in the same words; the last one of a subject by how it
-- begins. NULL: nothing can fit, or there are no words and no marks.
CREATE FUNCTION d.words_want(tenants bigint[], asked text) RETURNS tsquery
	LANGUAGE plpgsql STABLE AS $$
DECLARE
	a d.asked_for := d.asked(asked);
	w text[];
	last text := '';
	glue text := ' & ';
	q text := a.words;
BEGIN
	IF q ~ '^@[^@ ]+$' THEN
		w := ARRAY['d:' || lower(substr(q, 2))];
	ELSIF q ~ '^<.*>$' THEN
		w := ARRAY['m:' || left(btrim(q, '<>'), 300)];
	ELSIF q ~ '^[^ ]+@[^ ]+$' THEN
		w := ARRAY['a:' || d.canon(q), 'm:' || left(q, 300)];
		glue := ' | ';
	ELSE
		SELECT array_agg('s:' || y) INTO w FROM unnest(d.subject_words(q)) y;
		last := 's:' || (d.subject_words(substring(q FROM '[^ ]+ *$')))[1];
	END IF;
	-- Longer words are not kept, and nobody asks for so many.
	IF cardinality(w) > 32 OR EXISTS (SELECT 1 FROM unnest(w) y
	    WHERE octet_length(y) > 1500) THEN
		RETURN NULL;
	END IF;
	RETURN (SELECT string_agg('(' || nullif(concat_ws(' & ', (SELECT
	    string_agg('''' || t::text || ':' || y || '''', ' & ')
	    FROM unnest(a.marks) y), '(' || (SELECT
	    string_agg('''' || replace(replace(t::text || ':' || y, '\', '\\'),
	    '''', '''''') || '''' || CASE WHEN y = last THEN ':*' ELSE '' END,
	    glue) FROM unnest(w) y) || ')'), '') || ')', ' | ')::tsquery
	    FROM unnest(tenants) t);
END $$;

-- Ids that fit, at most `most`, in no order.
-- By the index of words alone: the planner guesses that a word nobody wrote is
-- frequent, and would rather read every message by its key until it met some.
-- Tenant by tenant, which ends where there are enough.
CREATE FUNCTION d.found(tenants bigint[], q text, most int)
	RETURNS uuid[] LANGUAGE plpgsql STABLE SET enable_seqscan = off
	SET enable_indexscan = off SET enable_indexonlyscan = off
	SET plan_cache_mode = force_generic_plan AS $$
BEGIN
	IF q ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
	    THEN
		RETURN ARRAY[q::uuid];
	END IF;
	RETURN (SELECT coalesce(array_agg(z.message_id), '{}') FROM (
	    SELECT w.message_id FROM unnest(tenants) t
	    CROSS JOIN LATERAL (SELECT d.words_want(ARRAY[t], q) AS x OFFSET 0) v
	    CROSS JOIN LATERAL (SELECT y.message_id FROM d.word y
	        WHERE y.words @@ v.x LIMIT most) w LIMIT most) z);
END $$;

-- Is one of the first 20 recipients new to the inbox? As review_known_1 asks.
CREATE FUNCTION d.meets_new(t bigint, i bigint, rcpt text[], kinds text)
	RETURNS boolean LANGUAGE plpgsql STABLE SET enable_seqscan = off
	SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
	RETURN EXISTS (SELECT 1 FROM unnest(rcpt) WITH ORDINALITY r (a, ix)
	    WHERE r.ix <= 20 AND substr(kinds, r.ix::int, 1) <> 'o'
	    AND NOT EXISTS (SELECT 1 FROM d.delivery y WHERE y.tenant_id = t
	        AND y.domain = d.domain_of(r.a) AND y.canon = d.canon(r.a)
	        AND y.inbox_id = i AND y.status = 3));
END $$;

-- Reads the audit log on from where the words end, at most `most` rows of it,
-- and stores the words of what was submitted. One at a time; who comes second
-- does nothing. Rows of transactions still under way wait, as for the seal.
CREATE FUNCTION d.words_fill(most int) RETURNS int LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.boxes = '' SET postern.tenants = '' AS $$
DECLARE
	b record;
	l record;
	edge xid8 := pg_snapshot_xmin(pg_current_snapshot());
BEGIN
	SELECT w.gen, w.xid, w.n INTO b FROM d.word_at w
	    FOR NO KEY UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		RETURN 0;
	END IF;
	PERFORM set_config('postern.tenants', (SELECT coalesce(array_agg(
	    t.tenant_id), '{}') || 0::bigint FROM d.tenant t)::text, true);
	WITH a AS MATERIALIZED (SELECT x.gen, x.xid, x.n, x.event, x.message_id
	    FROM d.audit x WHERE (x.gen, x.xid, x.n) > (b.gen, b.xid, b.n)
	    AND x.xid < edge ORDER BY x.gen, x.xid, x.n LIMIT most),
	put AS (INSERT INTO d.word (message_id, tenant_id, words)
	    SELECT m.message_id, m.tenant_id, d.words_of(m.tenant_id,
	        m.mail_from, m.rcpt, m.rfc_message_id, m.subject, m.attachments,
	        m.links, d.meets_new(m.tenant_id, m.inbox_id, m.rcpt,
	        m.rcpt_kind)) FROM a
	    JOIN d.message m ON m.message_id = a.message_id AND m.version = 1
	    WHERE a.event = 'message.submitted' ON CONFLICT DO NOTHING)
	SELECT count(*) AS n, (array_agg(a.gen ORDER BY a.gen DESC, a.xid DESC,
	    a.n DESC))[1] AS gen, (array_agg(a.xid ORDER BY a.gen DESC,
	    a.xid DESC, a.n DESC))[1] AS xid, (array_agg(a.n ORDER BY
	    a.gen DESC, a.xid DESC, a.n DESC))[1] AS last INTO l FROM a;
	IF l.n > 0 THEN
		UPDATE d.word_at w SET gen = l.gen, xid = l.xid, n = l.last;
	END IF;
	RETURN l.n;
END $$;

-- The newest mail that this address sent or was sent, of what the call may see:
-- what is not among the words yet comes first, then weeks, the newest first.
-- IS TRUE: with both ends the key looks like the better index than the words.
CREATE FUNCTION d.found_newest(address text, most int) RETURNS uuid[]
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off SET enable_indexscan = off
	SET enable_indexonlyscan = off SET plan_cache_mode = force_custom_plan
	SET cpu_tuple_cost = 1 AS $$
DECLARE
	ids uuid[] := '{}';
	since timestamptz := clock_timestamp() - interval '42 hours';
	hi uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
	lo uuid;
BEGIN
	FOR i IN 1 .. 20 LOOP
		EXIT WHEN d.words_fill(5000) < 5000;
	END LOOP;
	WHILE cardinality(ids) < most AND since > '-infinity' LOOP
		since := CASE WHEN since > clock_timestamp() - interval '5 years'
		    THEN clock_timestamp() - 4 * (clock_timestamp() - since)
		    ELSE '-infinity' END;
		lo := CASE WHEN since > '-infinity' THEN d.uuid_floor(since)
		    ELSE '00000000-0000-0000-0000-000000000000' END;
		ids := ids || ARRAY(SELECT w.message_id
		    FROM unnest(d.look_into(NULL)) t CROSS JOIN LATERAL (SELECT
		        d.words_want(ARRAY[t], address) AS x OFFSET 0) v
		    CROSS JOIN LATERAL (SELECT y.message_id, y.tenant_id
		        FROM d.word y WHERE y.words @@ v.x
		        AND y.message_id >= lo AND (y.message_id < hi) IS TRUE
		        OFFSET 0) w
		    JOIN d.state s ON s.message_id = w.message_id
		        AND s.tenant_id = w.tenant_id
		    ORDER BY w.message_id DESC LIMIT most - cardinality(ids));
		hi := lo;
	END LOOP;
	RETURN ids;
END $$;
GRANT EXECUTE ON FUNCTION d.found_newest TO p_ctl;

-- Behind the queue, again and again; more: there is more to read.
CREATE FUNCTION api.search_fill_1(lim int) RETURNS TABLE (status int,
	code text, n int, more boolean) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	most int := least(greatest(coalesce(lim, 1000), 1), 5000);
	got int := d.words_fill(most);
BEGIN
	RETURN QUERY SELECT 200, NULL::text, got, got = most;
END $$;

-- The tenants this call may look into, or the one it asks for.
CREATE FUNCTION d.look_into(tenant bigint) RETURNS bigint[]
	LANGUAGE sql STABLE
	RETURN (SELECT coalesce(array_agg(DISTINCT x), '{}') FROM (
	    SELECT unnest(d.cur_tenants()) x UNION ALL
	    SELECT split_part(b, '.', 1)::bigint FROM unnest(d.cur_boxes()) b) z
	    WHERE look_into.tenant IS NULL OR x = look_into.tenant);

-- Of these tenants, those that this call sees all of; and the single inboxes
-- of the others. A walk through a tenant of which one inbox is one's own would
-- read everybody's mail there.
CREATE FUNCTION d.whole_of(tenants bigint[]) RETURNS bigint[]
	LANGUAGE sql STABLE
	RETURN (SELECT coalesce(array_agg(t), '{}') FROM unnest(tenants) t
	    WHERE t = ANY (d.cur_tenants()));
CREATE FUNCTION d.boxes_of(tenants bigint[]) RETURNS TABLE (tenant_id bigint,
	inbox_id bigint) LANGUAGE sql STABLE AS $$
	SELECT split_part(b, '.', 1)::bigint, split_part(b, '.', 2)::bigint
	    FROM unnest(d.cur_boxes()) b
	    WHERE split_part(b, '.', 1)::bigint = ANY (tenants)
	    AND split_part(b, '.', 1)::bigint <> ALL (d.cur_tenants()) $$;

-- Pages of ids. `k` sorts, `nth` is the place within a collapsed inbox, -1 on
-- a last row that only says how far a search has read.
--
-- Held mail in order: the rest of the last risk, then what is lower. Each half
-- is one ordered index scan a tenant, or an inbox.
CREATE FUNCTION d.held_some(tenants bigint[], box bigint, last_risk int,
	last_id uuid, m int, least_risk int) RETURNS TABLE (risk smallint,
	message_id uuid, tenant_id bigint, c bigint) LANGUAGE plpgsql STABLE
	SET enable_seqscan = off SET enable_bitmapscan = off
	SET enable_sort = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
	whole bigint[] := d.whole_of(tenants);
BEGIN
	IF box IS NULL THEN
		RETURN QUERY SELECT y.* FROM unnest(whole) t CROSS JOIN LATERAL (
		    SELECT f.*, row_number() OVER () FROM (
		    SELECT s.risk, s.message_id, s.tenant_id FROM d.state s
		    WHERE s.tenant_id = t AND s.stays = 1 AND s.risk = last_risk
		    AND s.risk >= least_risk AND s.message_id > last_id
		    ORDER BY s.message_id LIMIT m) f
		    UNION ALL
		    SELECT f.*, row_number() OVER () FROM (
		    SELECT s.risk, s.message_id, s.tenant_id FROM d.state s
		    WHERE s.tenant_id = t AND s.stays = 1 AND s.risk < last_risk
		    AND s.risk >= least_risk
		    ORDER BY s.risk DESC, s.message_id LIMIT m) f) y;
	ELSE
		RETURN QUERY SELECT y.* FROM unnest(whole) t CROSS JOIN LATERAL (
		    SELECT f.*, row_number() OVER () FROM (
		    SELECT s.risk, s.message_id, s.tenant_id FROM d.state s
		    WHERE s.tenant_id = t AND s.inbox_id = box AND s.stays = 1 AND s.risk = last_risk
		    AND s.risk >= least_risk AND s.message_id > last_id
		    ORDER BY s.message_id LIMIT m) f
		    UNION ALL
		    SELECT f.*, row_number() OVER () FROM (
		    SELECT s.risk, s.message_id, s.tenant_id FROM d.state s
		    WHERE s.tenant_id = t AND s.inbox_id = box AND s.stays = 1 AND s.risk < last_risk
		    AND s.risk >= least_risk
		    ORDER BY s.risk DESC, s.message_id LIMIT m) f) y;
	END IF;
	IF cardinality(d.cur_boxes()) > 0 THEN
		RETURN QUERY SELECT y.* FROM (SELECT * FROM d.boxes_of(tenants) z
		    WHERE box IS NULL OR z.inbox_id = box) b CROSS JOIN LATERAL (
		    SELECT f.*, row_number() OVER () FROM (
		    SELECT s.risk, s.message_id, s.tenant_id FROM d.state s
		    WHERE s.tenant_id = b.tenant_id AND s.inbox_id = b.inbox_id AND s.stays = 1 AND s.risk = last_risk
		    AND s.risk >= least_risk AND s.message_id > last_id
		    ORDER BY s.message_id LIMIT m) f
		    UNION ALL
		    SELECT f.*, row_number() OVER () FROM (
		    SELECT s.risk, s.message_id, s.tenant_id FROM d.state s
		    WHERE s.tenant_id = b.tenant_id AND s.inbox_id = b.inbox_id AND s.stays = 1 AND s.risk < last_risk
		    AND s.risk >= least_risk
		    ORDER BY s.risk DESC, s.message_id LIMIT m) f) y;
	END IF;
END $$;

-- The first `m` of each scan are enough up to where the first scan that gave
-- so many ends. Of many tenants few of each are asked for first, so that a
-- long walk reads about as much as it gives and not as much of each tenant.
CREATE FUNCTION d.held_walk(tenants bigint[], box bigint, last_risk int,
	last_id uuid, n int, least_risk int DEFAULT 0) RETURNS TABLE (k int, message_id uuid,
	tenant_id bigint, nth int) LANGUAGE plpgsql STABLE
	SET enable_seqscan = off SET enable_bitmapscan = off
	SET enable_sort = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
	of_tenants int := cardinality(tenants);
	m int := n;
	p record;
	sure int;
BEGIN
	IF of_tenants > 1 AND n > 200 THEN
		m := greatest(100, 2 * n / of_tenants);
	END IF;
	LOOP
		SELECT array_agg(100 - z.risk ORDER BY z.o) AS ks,
		    array_agg(z.message_id ORDER BY z.o) AS ids,
		    array_agg(z.tenant_id ORDER BY z.o) AS own,
		    min(z.o) FILTER (WHERE z.c = m) AS cut INTO p FROM (
		    SELECT h.*, row_number() OVER (ORDER BY h.risk DESC,
		        h.message_id) AS o FROM d.held_some(tenants, box, last_risk,
		        last_id, m, least_risk) h) z;
		sure := least(coalesce(p.cut, n), n);
		EXIT WHEN m >= n OR sure >= n;
		m := least(n, m * 4);
	END LOOP;
	RETURN QUERY SELECT w.k, w.mid, w.own, 0 FROM unnest(p.ks, p.ids, p.own)
	    WITH ORDINALITY w (k, mid, own, o) WHERE w.o <= n ORDER BY w.o;
END $$;

-- Held mail by how long it has left. Who has little to see sorts all of it;
-- else the walk goes through everybody's, of which much is then one's own, and
-- stops after 20,000. A flood is the newest mail: it cannot come first here.
CREATE FUNCTION d.left_walk(tenants bigint[], box bigint, after timestamptz,
	last_id uuid, n int) RETURNS TABLE (k bigint, message_id uuid,
	tenant_id bigint, nth int) LANGUAGE plpgsql STABLE
	SET enable_seqscan = off SET enable_bitmapscan = off
	SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
	SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
	few int := 5000;
	place timestamptz;
	got int;
BEGIN
	IF (SELECT coalesce(sum(c.held), 0) FROM d.quota c
	    WHERE c.tenant_id = ANY (tenants)
	    AND (box IS NULL OR c.inbox_id = box)) <= few THEN
		RETURN QUERY SELECT d.us(s.hold_until), s.message_id, s.tenant_id, 0
		    FROM d.held_walk(tenants, box, 101,
		    '00000000-0000-0000-0000-000000000000', few) h
		    JOIN d.state s ON s.message_id = h.message_id
		        AND s.tenant_id = h.tenant_id
		    WHERE (s.hold_until, s.message_id) > (after, last_id)
		    ORDER BY s.hold_until, s.message_id LIMIT n;
		RETURN;
	END IF;
	place := d.left_from(after, 20000);
	RETURN QUERY SELECT d.us(s.hold_until), s.message_id, s.tenant_id, 0
	    FROM d.state s WHERE s.stays = 1 AND s.hold_until >= after
	    AND s.hold_until <= place
	    AND (s.hold_until > after OR s.message_id > last_id)
	    AND s.tenant_id = ANY (tenants) AND (box IS NULL OR s.inbox_id = box)
	    ORDER BY s.hold_until, s.message_id LIMIT n;
	GET DIAGNOSTICS got = ROW_COUNT;
	IF got < n AND place < 'infinity' THEN
		RETURN QUERY SELECT d.us(place),
		    'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid, 0::bigint, -1;
	END IF;
END $$;

-- Held mail in order whose id lies in lo..hi (NULL: no bound): the risks that
-- there are, one after another, so that no walk reads what is between them.
CREATE FUNCTION d.held_aged(tenants bigint[], box bigint, last_risk int,
	last_id uuid, n int, least_risk int, lo uuid, hi uuid)
	RETURNS TABLE (k int, message_id uuid, tenant_id bigint, nth int)
	LANGUAGE plpgsql STABLE SET enable_seqscan = off
	SET enable_bitmapscan = off SET enable_sort = off
	SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
	whole bigint[] := d.whole_of(tenants);
	first uuid := coalesce(lo, '00000000-0000-0000-0000-000000000000');
	least_id uuid := greatest(last_id, first);
	past uuid := coalesce(hi, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
	r smallint := last_risk;
	got int := 0;
	c int;
BEGIN
	LOOP
		RETURN QUERY SELECT 100 - r, y.message_id, y.tenant_id, 0 FROM (
		    SELECT f.* FROM unnest(whole) t CROSS JOIN LATERAL (
		    SELECT s.message_id, s.tenant_id FROM d.state s
		    WHERE box IS NULL AND s.tenant_id = t AND s.stays = 1
		    AND s.risk = r AND s.message_id > least_id
		    AND s.message_id < past ORDER BY s.message_id LIMIT n - got) f
		    UNION ALL
		    SELECT f.* FROM (SELECT t AS tenant_id, box AS inbox_id
		        FROM unnest(whole) t WHERE box IS NOT NULL
		        UNION ALL SELECT * FROM d.boxes_of(tenants) z
		        WHERE box IS NULL OR z.inbox_id = box) b
		    CROSS JOIN LATERAL (
		    SELECT s.message_id, s.tenant_id FROM d.state s
		    WHERE s.tenant_id = b.tenant_id AND s.inbox_id = b.inbox_id
		    AND s.stays = 1 AND s.risk = r AND s.message_id > least_id
		    AND s.message_id < past ORDER BY s.message_id LIMIT n - got) f
		    ) y ORDER BY y.message_id LIMIT n - got;
		GET DIAGNOSTICS c = ROW_COUNT;
		got := got + c;
		EXIT WHEN got >= n;
		SELECT max(z.risk) INTO r FROM (
		    SELECT f.risk FROM unnest(whole) t CROSS JOIN LATERAL (
		    SELECT s.risk FROM d.state s WHERE s.tenant_id = t
		    AND s.stays = 1 AND s.risk < r ORDER BY s.risk DESC LIMIT 1) f
		    UNION ALL
		    SELECT f.risk FROM d.boxes_of(tenants) b CROSS JOIN LATERAL (
		    SELECT s.risk FROM d.state s WHERE s.tenant_id = b.tenant_id
		    AND s.inbox_id = b.inbox_id AND s.stays = 1 AND s.risk < r
		    ORDER BY s.risk DESC LIMIT 1) f) z;
		EXIT WHEN r IS NULL OR r < least_risk;
		least_id := first;
	END LOOP;
END $$;

-- Collapsed, an inbox shows its first five: few inboxes are asked one by one,
-- which no flood of one of them slows down; many are read in order, where what
-- one can put in the way is bounded by how much it may have held. Only ordered
-- index scans will do: what the planner knows of an inbox is too little to
-- choose by.
CREATE FUNCTION d.held_fold(tenants bigint[], last_risk int, last_id uuid,
	n int) RETURNS TABLE (k int, message_id uuid, tenant_id bigint, nth int)
	LANGUAGE plpgsql STABLE SET enable_seqscan = off
	SET enable_bitmapscan = off SET enable_sort = off
	SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
	IF (SELECT count(*) FROM (SELECT 1 FROM d.quota c WHERE c.held > 0
	    AND c.tenant_id = ANY (tenants) LIMIT 1001) z) <= 1000 THEN
		RETURN QUERY SELECT 100 - y.risk, y.message_id, y.tenant_id, y.nth
		    FROM d.quota c CROSS JOIN LATERAL (SELECT f.*,
		        (row_number() OVER ())::int AS nth FROM (SELECT s.risk,
		        s.message_id, s.tenant_id FROM d.state s
		        WHERE s.tenant_id = c.tenant_id AND s.inbox_id = c.inbox_id
		        AND s.stays = 1 ORDER BY s.risk DESC, s.message_id LIMIT 5)
		        f) y
		    WHERE c.held > 0 AND c.tenant_id = ANY (tenants)
		    AND (y.risk < last_risk OR y.risk = last_risk
		        AND y.message_id > last_id)
		    ORDER BY y.risk DESC, y.message_id LIMIT n;
		RETURN;
	END IF;
	RETURN QUERY SELECT 100 - y.risk, y.message_id, y.tenant_id, y.nth
	    FROM unnest(d.whole_of(tenants)) t CROSS JOIN LATERAL (
	    (SELECT s.risk, s.message_id, s.tenant_id, f.nth FROM d.state s
	    CROSS JOIN LATERAL d.place_of(t, s.inbox_id, s.message_id) f (nth)
	    WHERE s.tenant_id = t AND s.stays = 1 AND s.risk = last_risk
	    AND s.message_id > last_id AND f.nth IS NOT NULL
	    ORDER BY s.message_id LIMIT n)
	    UNION ALL
	    (SELECT s.risk, s.message_id, s.tenant_id, f.nth FROM d.state s
	    CROSS JOIN LATERAL d.place_of(t, s.inbox_id, s.message_id) f (nth)
	    WHERE s.tenant_id = t AND s.stays = 1 AND s.risk < last_risk
	    AND f.nth IS NOT NULL
	    ORDER BY s.risk DESC, s.message_id LIMIT n)) y
	    UNION ALL
	    SELECT 100 - y.risk, y.message_id, y.tenant_id, y.nth
	    FROM d.boxes_of(tenants) b CROSS JOIN LATERAL (SELECT f.*,
	        (row_number() OVER ())::int AS nth FROM (SELECT s.risk,
	        s.message_id, s.tenant_id FROM d.state s
	        WHERE s.tenant_id = b.tenant_id AND s.inbox_id = b.inbox_id
	        AND s.stays = 1 ORDER BY s.risk DESC, s.message_id LIMIT 5) f) y
	    WHERE y.risk < last_risk OR y.risk = last_risk
	        AND y.message_id > last_id
	    ORDER BY 1, 2 LIMIT n;
END $$;
-- Its place among the first five of its inbox, or NULL.
CREATE FUNCTION d.place_of(t bigint, i bigint, mid uuid) RETURNS int
	LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN (SELECT y.nth::int FROM (SELECT f.message_id, row_number() OVER ()
	    AS nth FROM (SELECT s.message_id FROM d.state s
	    WHERE s.tenant_id = t AND s.inbox_id = i AND s.stays = 1
	    ORDER BY s.risk DESC, s.message_id LIMIT 5) f) y
	    WHERE y.message_id = mid);
END $$;

-- Everything else, newest first, as far as `first_id`.
CREATE FUNCTION d.past_walk(tenants bigint[], box bigint, states smallint[],
	last_id uuid, n int,
	first_id uuid DEFAULT '00000000-0000-0000-0000-000000000000') RETURNS TABLE (k int, message_id uuid,
	tenant_id bigint, nth int) LANGUAGE plpgsql STABLE
	SET enable_seqscan = off SET enable_bitmapscan = off
	SET enable_sort = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT y.*, 0 FROM unnest(d.whole_of(tenants)) t
	    CROSS JOIN LATERAL (
	    SELECT 0, s.message_id, s.tenant_id FROM d.state s
	    WHERE s.tenant_id = t AND s.stays <> 1 AND s.state = ANY (states)
	    AND (box IS NULL OR s.inbox_id = box)
	    AND s.message_id < last_id AND s.message_id >= first_id
	    ORDER BY s.message_id DESC LIMIT n) y
	    UNION ALL
	    SELECT y.*, 0 FROM d.boxes_of(tenants) b CROSS JOIN LATERAL (
	    SELECT 0, s.message_id, s.tenant_id FROM d.state s
	    WHERE s.tenant_id = b.tenant_id AND s.inbox_id = b.inbox_id
	    AND s.stays <> 1 AND s.state = ANY (states)
	    AND s.message_id < last_id AND s.message_id >= first_id
	    ORDER BY s.message_id DESC LIMIT n) y
	    WHERE box IS NULL OR b.inbox_id = box
	    ORDER BY 2 DESC LIMIT n;
END $$;

-- Who looks at what, now: the ids, of oneself or of everybody.
CREATE FUNCTION d.looked_at(mine boolean) RETURNS uuid[]
	LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN (SELECT coalesce(array_agg(z.message_id), '{}') FROM d.look z
	    WHERE z.until > clock_timestamp() AND (NOT mine
	    OR 'op:' || z.operator_id::text = d.cur_actor()));
END $$;

-- Does a message fit what more is asked for than words? `looks`: what of those
-- who are asked for is looked at (d.looked_at), if any are. Inlined.
CREATE FUNCTION d.asked_fits(a d.asked_for, looks uuid[], mid uuid,
	hold_until timestamptz, changed_at timestamptz) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (a.hi IS NULL OR mid < a.hi) AND (a.lo IS NULL OR mid >= a.lo)
	    AND (a.left_at IS NULL OR hold_until <= a.left_at)
	    AND (a.since IS NULL OR changed_at >= a.since)
	    AND (a.seen IS NULL OR (a.seen = 'nobody') <> (mid = ANY (looks)));

-- What of the next `most` messages of the list fits a search; `want` NULL:
-- any words.
CREATE FUNCTION d.find_walk(tenants bigint[], box bigint, states smallint[],
	last_risk int, last_id uuid, want tsquery, n int, most int,
	least_risk int, a d.asked_for)
	RETURNS TABLE (k int, message_id uuid, tenant_id bigint, nth int)
	LANGUAGE plpgsql STABLE
	SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
	aged boolean := a.lo IS NOT NULL OR a.hi IS NOT NULL;
	looks uuid[] := CASE WHEN a.more THEN d.looked_at(a.seen = 'me') END;
BEGIN
	RETURN QUERY WITH walk AS MATERIALIZED (
	    SELECT h.*, row_number() OVER () AS o FROM d.held_walk(tenants, box,
	        last_risk, last_id, most, least_risk) h WHERE states = '{1}'
	        AND NOT aged
	    UNION ALL SELECT h.*, row_number() OVER () FROM d.held_aged(tenants,
	        box, last_risk, last_id, most, least_risk, a.lo, a.hi) h
	        WHERE states = '{1}' AND aged
	    UNION ALL SELECT h.*, row_number() OVER () FROM d.past_walk(tenants,
	        box, states, least(last_id, a.hi), most, coalesce(a.lo,
	        '00000000-0000-0000-0000-000000000000')) h
	        WHERE states <> '{1}'),
	fit AS (SELECT v.* FROM walk v WHERE NOT a.more
	    UNION ALL SELECT v.* FROM walk v CROSS JOIN LATERAL (SELECT
	        s.hold_until, s.changed_at FROM d.state s
	        WHERE s.message_id = v.message_id AND s.tenant_id = v.tenant_id
	        OFFSET 0) s WHERE a.more AND d.asked_fits(a, looks, v.message_id,
	        s.hold_until, s.changed_at)),
	hit AS MATERIALIZED (SELECT v.* FROM fit v WHERE want IS NULL
	    OR (SELECT w.words @@ want FROM d.word w
	    WHERE w.message_id = v.message_id AND w.tenant_id = v.tenant_id)
	    LIMIT n)
	SELECT z.k, z.message_id, z.tenant_id, z.nth FROM (SELECT * FROM hit
	    UNION ALL SELECT v.k, v.message_id, v.tenant_id, -1, v.o FROM walk v
	    WHERE v.o = most AND (SELECT count(*) FROM hit) < n) z
	    ORDER BY z.o, z.nth DESC;
END $$;

-- A page of what fits a search. A frequent word is soon found in the list
-- itself; a rare one gives its few ids, and so do those who look at mail and
-- what expires among the next 20,000 of anybody (with frequent words, too); of
-- what is neither, the next 5,000 messages of the list are looked at (2,000 of
-- held mail if bounded by its age).
CREATE FUNCTION d.find_page(tenants bigint[], box bigint, states smallint[],
	last_risk int, last_id uuid, q text, n int, least_risk int DEFAULT 0)
	RETURNS TABLE (k int, message_id uuid, tenant_id bigint, nth int)
	LANGUAGE plpgsql STABLE SET enable_seqscan = off
	SET enable_hashjoin = off SET enable_mergejoin = off
	SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
	a d.asked_for := d.asked(q);
	x tsquery := d.words_want(tenants, q);
	wordless boolean := a.words = '' AND a.marks = '{}';
	held boolean := states = '{1}';
	deep int := CASE WHEN a.lo IS NULL AND a.hi IS NULL OR NOT held
	    THEN 5000 ELSE 2000 END;
	ids uuid[];
	found boolean; -- by their words
	f record;
	most int;
BEGIN
	IF x IS NULL AND NOT (wordless AND a.more)
	    OR NOT held AND (a.seen IS NOT NULL OR a.left_at IS NOT NULL)
	    OR held AND a.since IS NOT NULL THEN
		RETURN;
	END IF;
	IF a.seen IN ('me', 'anyone') THEN
		RETURN QUERY SELECT * FROM d.find_ids(tenants, box, states,
		    last_risk, last_id, x, n, least_risk, a,
		    d.looked_at(a.seen = 'me'));
		RETURN;
	END IF;
	SELECT array_agg(h.k) ks, array_agg(h.message_id) ids,
	    array_agg(h.tenant_id) own, count(*) c INTO f FROM d.find_walk(
	    tenants, box, states, last_risk, last_id, x, n, 500, least_risk, a) h
	    WHERE h.nth >= 0;
	-- So far as this promises a page, the list is read on for it.
	most := 750 * n / greatest(f.c, 1);
	IF f.c < n AND most <= least(deep, 4000) THEN
		SELECT array_agg(h.k) ks, array_agg(h.message_id) ids,
		    array_agg(h.tenant_id) own, count(*) c INTO f FROM d.find_walk(
		    tenants, box, states, last_risk, last_id, x, n, most,
		    least_risk, a) h WHERE h.nth >= 0;
	END IF;
	IF f.c >= n THEN
		RETURN QUERY SELECT *, 0 FROM unnest(f.ks, f.ids, f.own);
		RETURN;
	END IF;
	IF NOT wordless THEN
		ids := d.found(tenants, q, 2001);
	END IF;
	found := cardinality(ids) <= 2000;
	IF found IS NOT TRUE AND a.left_at IS NOT NULL
	    AND d.left_from('-infinity', 20000, a.left_at) = 'infinity' THEN
		ids := d.left_ids(tenants, box, a.left_at, 2001);
	END IF;
	IF ids IS NULL OR cardinality(ids) > 2000 THEN
		RETURN QUERY SELECT * FROM d.find_walk(tenants, box, states,
		    last_risk, last_id, x, n, deep, least_risk, a);
		RETURN;
	END IF;
	RETURN QUERY SELECT * FROM d.find_ids(tenants, box, states, last_risk,
	    last_id, CASE WHEN found IS NOT TRUE THEN x END, n, least_risk, a, ids);
END $$;

-- Ids of held mail that expires by then, at most `most`.
CREATE FUNCTION d.left_ids(tenants bigint[], box bigint, by timestamptz,
	most int) RETURNS uuid[] LANGUAGE plpgsql STABLE SET enable_seqscan = off
	SET enable_bitmapscan = off SET enable_sort = off
	SET plan_cache_mode = force_generic_plan AS $$
BEGIN
	RETURN (SELECT coalesce(array_agg(z.message_id), '{}') FROM (
	    SELECT s.message_id FROM d.state s WHERE s.stays = 1
	    AND s.hold_until <= by AND s.tenant_id = ANY (tenants)
	    AND (box IS NULL OR s.inbox_id = box)
	    ORDER BY s.hold_until LIMIT most) z);
END $$;

-- Of these ids, those that fit, in the order of the list.
CREATE FUNCTION d.find_ids(tenants bigint[], box bigint, states smallint[],
	last_risk int, last_id uuid, want tsquery, n int, least_risk int,
	a d.asked_for, ids uuid[])
	RETURNS TABLE (k int, message_id uuid, tenant_id bigint, nth int)
	LANGUAGE plpgsql STABLE SET enable_seqscan = off
	SET enable_hashjoin = off SET enable_mergejoin = off
	SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
	held boolean := states = '{1}';
	looks uuid[] := CASE WHEN a.more THEN d.looked_at(a.seen = 'me') END;
BEGIN
	RETURN QUERY SELECT CASE WHEN held THEN 100 - s.risk ELSE 0 END,
	    s.message_id, s.tenant_id, 0 FROM unnest(ids) y (mid)
	    JOIN d.state s ON s.message_id = y.mid
	    WHERE s.tenant_id = ANY (tenants) AND s.state = ANY (states)
	    AND (box IS NULL OR s.inbox_id = box)
	    AND (want IS NULL OR (SELECT w.words @@ want FROM d.word w
	        WHERE w.message_id = s.message_id AND w.tenant_id = s.tenant_id))
	    AND (NOT a.more OR d.asked_fits(a, looks, s.message_id, s.hold_until,
	        s.changed_at))
	    AND CASE WHEN held THEN s.risk >= least_risk AND (s.risk < last_risk
	        OR s.risk = last_risk AND s.message_id > last_id)
	        ELSE s.message_id < last_id END
	    ORDER BY CASE WHEN held THEN 100 - s.risk ELSE 0 END,
	    CASE WHEN held THEN s.message_id END, s.message_id DESC LIMIT n;
END $$;

-- Held mail comes by risk, then age, of the risks asked for; everything else newest first. One inbox
-- shows at most five rows when collapsed, the last carrying how many more. A
-- last row without a message says where a search has stopped.
CREATE FUNCTION api.review_list_1(s bytea, tenant bigint, inbox bigint,
	states text, q text, after_key text, lim int, collapse boolean,
	risk_from int DEFAULT 0, risk_to int DEFAULT 100,
	by_left boolean DEFAULT false)
	RETURNS TABLE (status int, code text, sort_key text, tenant_id bigint, tenant_slug text,
	inbox_id bigint, address text, message_id uuid, version smallint, round
	smallint, state smallint, digest bytea, rcpts text, rcpt_kind text,
	subject text, header_from text, size bigint, attachments int, risk
	smallint, reasons text, hold_until timestamptz, created_at timestamptz,
	updated_at timestamptz, need_approvals smallint, approvals int, edited
	boolean, integrity boolean, more_in_inbox int, test boolean, context text,
	links boolean, new_rcpt boolean, looks text, doubt boolean)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	want smallint[] := coalesce(string_to_array(states, ',')::smallint[],
	    '{1}');
	held_only boolean := want = '{1}';
	fold boolean := coalesce(collapse, false) AND inbox IS NULL
	    AND coalesce(q, '') = '' AND held_only AND risk_from = 0
	    AND risk_to = 100;
	left_only boolean := coalesce(by_left, false) AND held_only
	    AND coalesce(q, '') = '';
	last_left timestamptz := '-infinity';
	n int := least(greatest(coalesce(lim, 50), 1), 201);
	last_risk int := risk_to + 1;
	last_id uuid := '00000000-0000-0000-0000-000000000000';
	tenants bigint[];
	p record;
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF after_key ~ '^[0-9]{1,3}:[0-9a-f-]{36}$' THEN
		last_risk := 100 - split_part(after_key, ':', 1)::int;
		last_id := split_part(after_key, ':', 2)::uuid;
	ELSIF left_only AND after_key ~ '^t[0-9]{1,17}:[0-9a-f-]{36}$' THEN
		last_left := 'epoch'::timestamptz + substring(split_part(after_key,
		    ':', 1) FROM 2)::bigint * interval '1 microsecond';
		last_id := split_part(after_key, ':', 2)::uuid;
	ELSIF NOT left_only THEN
		-- after all of the risk above those asked for
		last_id := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
	END IF;
	tenants := d.look_into(review_list_1.tenant);
	IF left_only THEN
		SELECT array_agg(h.k) ks, array_agg(h.message_id) ids,
		    array_agg(h.tenant_id) own, array_agg(h.nth) nth INTO p
		    FROM d.left_walk(tenants, inbox, last_left, last_id, n) h;
	ELSIF coalesce(q, '') <> '' THEN
		SELECT array_agg(h.k) ks, array_agg(h.message_id) ids,
		    array_agg(h.tenant_id) own, array_agg(h.nth) nth INTO p
		    FROM d.find_page(tenants, inbox, want, last_risk, last_id, q, n,
		    risk_from) h;
	ELSIF fold THEN
		SELECT array_agg(h.k) ks, array_agg(h.message_id) ids,
		    array_agg(h.tenant_id) own, array_agg(h.nth) nth INTO p
		    FROM d.held_fold(tenants, last_risk, last_id, n) h;
	ELSIF held_only THEN
		SELECT array_agg(h.k) ks, array_agg(h.message_id) ids,
		    array_agg(h.tenant_id) own, array_agg(h.nth) nth INTO p
		    FROM d.held_walk(tenants, inbox, last_risk, last_id, n,
		    risk_from) h;
	ELSE
		SELECT array_agg(h.k) ks, array_agg(h.message_id) ids,
		    array_agg(h.tenant_id) own, array_agg(h.nth) nth INTO p
		    FROM d.past_walk(tenants, inbox, want, last_id, n) h;
	END IF;
	-- `+ 0`: looked up by its id, not walked with all of its tenant (0108).
	RETURN QUERY SELECT 200, NULL::text, CASE WHEN left_only
	    THEN 't' || d.us(h.hold_until)::text ELSE (100 - h.risk)::text END
	    || ':' || h.message_id::text, h.tenant_id, t.slug, h.inbox_id, x.address,
	    h.message_id, h.version, h.round, h.state, m.digest,
	    array_to_string(m.rcpt, E'\n'), m.rcpt_kind, m.subject,
	    m.header_from, m.size, m.attachments, h.risk, m.reasons,
	    CASE WHEN h.state = 1 THEN h.hold_until END, m.created_at,
	    h.changed_at, m.need_approvals, (SELECT count(*)::int
	    FROM d.decision c WHERE c.message_id = h.message_id
	        AND c.tenant_id = h.tenant_id AND c.version = h.version
	        AND c.round = h.round AND c.verdict = 'a'),
	    h.version > 1, h.integrity IS NOT NULL,
	    CASE WHEN w.nth = 5 THEN (SELECT least(greatest(c.held - 5, 0), 1000)
	        FROM d.quota c WHERE c.tenant_id = h.tenant_id
	        AND c.inbox_id = h.inbox_id) END,
	    m.test, m.context, m.links, (SELECT coalesce(w2.words
	        @@ ('''' || h.tenant_id::text || ':h:new''')::tsquery, false)
	        FROM d.word w2 WHERE w2.message_id = h.message_id
	        AND w2.tenant_id = h.tenant_id),
	    (SELECT z.name FROM d.look l JOIN d.operator z
	        ON z.operator_id = l.operator_id WHERE l.message_id = h.message_id
	        AND l.tenant_id = h.tenant_id AND h.state = 1
	        AND l.until > clock_timestamp()),
	    d.may_be_out(h.state, h.round, h.message_id, h.tenant_id)
	    FROM unnest(p.ids, p.own, p.nth) WITH ORDINALITY w (mid, own, nth, at)
	    JOIN d.state h ON h.message_id = w.mid AND h.tenant_id + 0 = w.own
	    JOIN d.message m ON m.message_id = h.message_id
	        AND m.tenant_id + 0 = h.tenant_id AND m.version = h.version
	    JOIN d.inbox x ON x.inbox_id = h.inbox_id
	        AND x.tenant_id + 0 = h.tenant_id
	    JOIN d.tenant t ON t.tenant_id = h.tenant_id
	    WHERE w.nth >= 0 ORDER BY w.at;
	IF p.nth[cardinality(p.nth)] = -1 THEN
		SELECT 200, CASE WHEN left_only THEN 't' ELSE '' END
		    || p.ks[cardinality(p.ks)]::text || ':' || p.ids[cardinality(p.ids)]::text INTO status, sort_key;
		RETURN NEXT;
	END IF;
END $$;

-- Held mail is counted by its inboxes' cells. Nothing else is counted beyond
-- 1,000, and what is oldest is known only when all of it was counted.
CREATE FUNCTION api.review_count_1(s bytea, tenant bigint, inbox bigint,
	states text, q text)
	RETURNS TABLE (status int, code text, n int, capped boolean, oldest timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	want smallint[] := coalesce(string_to_array(states, ',')::smallint[],
	    '{1}');
	tenants bigint[];
	ids uuid[];
	c bigint;
BEGIN
	o := d.op(s, false);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	tenants := d.look_into(review_count_1.tenant);
	IF coalesce(q, '') <> '' THEN
		ids := ARRAY(SELECT h.message_id FROM d.find_page(tenants, inbox,
		    want, 101, CASE WHEN want = '{1}'
		    THEN '00000000-0000-0000-0000-000000000000'::uuid
		    ELSE 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid END, q,
		    1001) h WHERE h.nth >= 0);
	ELSIF want = '{1}' THEN
		SELECT coalesce(sum(x.held), 0) INTO c FROM d.quota x
		    WHERE x.tenant_id = ANY (tenants)
		    AND (inbox IS NULL OR x.inbox_id = inbox);
		IF c <= 1000 THEN
			ids := ARRAY(SELECT h.message_id FROM d.held_walk(tenants,
			    inbox, 101, '00000000-0000-0000-0000-000000000000',
			    1001) h);
		END IF;
	ELSE
		ids := ARRAY(SELECT h.message_id FROM d.past_walk(tenants, inbox,
		    want, 'ffffffff-ffff-ffff-ffff-ffffffffffff', 1001) h);
	END IF;
	c := coalesce(cardinality(ids), c);
	RETURN QUERY SELECT 200, NULL::text, least(c, 1000)::int, c > 1000,
	    CASE WHEN c <= 1000 THEN (SELECT m.created_at FROM d.message m
	        WHERE m.message_id = (SELECT y FROM unnest(ids) y ORDER BY y
	        LIMIT 1) ORDER BY m.version LIMIT 1) END;
END $$;

-- Why this operator may not give this verdict, or NULL (policy/permission.h).
CREATE FUNCTION d.decide_no(op bigint, step_up boolean, t bigint, i bigint,
	st smallint, risk smallint, verdict text, integrity text) RETURNS text
	LANGUAGE plpgsql STABLE AS $$
BEGIN
	IF NOT d.op_may(op, ARRAY['reviewer', 'senior'], t, i) THEN
		RETURN 'missing_permission';
	END IF;
	IF st <> 1 THEN
		RETURN 'state_conflict';
	END IF;
	IF verdict = 'r' THEN
		RETURN NULL;
	END IF;
	IF integrity IS NOT NULL THEN
		RETURN 'state_conflict';
	END IF;
	IF NOT EXISTS (SELECT 1 FROM d.operator_scope c WHERE c.operator_id = op
	    AND (c.role = 'senior' OR c.role = 'reviewer'
	    AND decide_no.risk <= c.risk_cap)
	    AND (c.tenant_id IS NULL OR c.tenant_id = t
	    AND (c.inbox_id IS NULL OR c.inbox_id = i))) THEN
		RETURN 'missing_permission';
	END IF;
	IF risk >= 75 AND NOT step_up THEN
		RETURN 'step_up_required';
	END IF;
	RETURN NULL;
END $$;

CREATE FUNCTION api.review_get_1(s bytea, mid uuid, why text)
	RETURNS TABLE (status int, code text, tenant_id bigint, tenant_slug text, inbox_id
	bigint, address text, mode smallint, inbox_paused boolean, message_id
	uuid, thread_id uuid, version smallint, round smallint, state smallint,
	digest bytea, mail_from text, rcpts text, rcpt_kind text, subject text,
	header_from text, labels text, size bigint, chunks int, rfc_message_id
	text, in_reply_to text, refs text, reasons text, hold_until timestamptz,
	verdict text, category text, note text, hint text, edited boolean,
	decided_at timestamptz, send_at bigint, not_after bigint, test boolean,
	attachments int, key_id bigint, created_at timestamptz, updated_at
	timestamptz, risk smallint, need_approvals smallint, approvals int,
	i_approved boolean, integrity text, params text, body_tag bytea, context
	text, door text, findings_set smallint, finding_max smallint, revises
	uuid, author text, may_decide boolean, may_why text, released_at
	timestamptz, not_before timestamptz, undo_until timestamptz, leased
	boolean, now timestamptz, one_click boolean)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	g record;
BEGIN
	o := d.op(s);
	IF o.status = 200 THEN
		SELECT y.state, y.tenant_id INTO g FROM d.state y
		    WHERE y.message_id = mid;
		IF NOT FOUND THEN
			o.status := 404;
			o.code := 'not_found';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF g.state <> 1 AND why <> '' THEN
		PERFORM d.note(g.tenant_id, 'op:' || o.operator_id::text,
		    'message.viewed', mid, json_build_object('why',
		    left(why, 500))::text);
	END IF;
	RETURN QUERY SELECT 200, NULL::text, m.tenant_id, n.slug, m.inbox_id,
	    x.address, x.mode, x.paused_at IS NOT NULL, m.message_id, m.thread_id, m.version,
	    s.round, s.state, m.digest, m.mail_from,
	    array_to_string(m.rcpt, E'\n'), m.rcpt_kind, m.subject,
	    m.header_from, m.labels, m.size, m.chunks, m.rfc_message_id,
	    m.in_reply_to, m.refs, m.reasons,
	    CASE WHEN s.state = 1 THEN s.hold_until END, v.verdict::text,
	    v.category, v.note, v.hint, m.version > 1, v.at, m.send_at,
	    m.not_after, m.test, m.attachments, m.key_id, m.created_at,
	    s.changed_at,
	    s.risk, m.need_approvals, (SELECT count(*)::int FROM d.decision c
	        WHERE c.message_id = mid AND c.tenant_id = m.tenant_id
	        AND c.version = s.version AND c.round = s.round
	        AND c.verdict = 'a'),
	    EXISTS (SELECT 1 FROM d.decision c WHERE c.message_id = mid
	        AND c.tenant_id = m.tenant_id AND c.version = s.version
	        AND c.round = s.round AND c.operator_id = o.operator_id),
	    s.integrity, m.params, m.body_tag, m.context, m.door::text,
	    m.findings_set, m.finding_max, m.revises,
	    coalesce('agent:' || m.key_id::text, 'op:' || m.operator_id::text),
	    w.why IS NULL, w.why, r.at, r.not_before,
	    CASE WHEN s.state = 2 THEN r.not_before END,
	    EXISTS (SELECT 1 FROM d.send_q q WHERE q.message_id = mid
	        AND q.tenant_id = m.tenant_id AND q.lease IS NOT NULL),
	    clock_timestamp(), x.one_click
	    FROM d.state s
	    JOIN d.message m ON m.message_id = s.message_id
	        AND m.tenant_id = s.tenant_id AND m.version = s.version
	    JOIN d.inbox x ON x.tenant_id = m.tenant_id
	        AND x.inbox_id = m.inbox_id
	    JOIN d.tenant n ON n.tenant_id = m.tenant_id
	    LEFT JOIN LATERAL (SELECT y.verdict, y.category, y.note, y.hint,
	        y.at FROM d.decision y WHERE y.message_id = m.message_id
	        AND y.tenant_id = m.tenant_id AND y.version = m.version
	        AND y.round = s.round ORDER BY y.at DESC LIMIT 1) v ON true
	    LEFT JOIN d.release r ON r.message_id = mid
	        AND r.tenant_id = m.tenant_id AND r.version = s.version
	        AND r.round = s.round
	    CROSS JOIN LATERAL (SELECT d.decide_no(o.operator_id, o.step_up,
	        m.tenant_id, m.inbox_id, s.state, s.risk, 'a', s.integrity) AS why)
	        w
	    WHERE s.message_id = mid;
END $$;

-- Who may see what it says.
CREATE FUNCTION d.op_may_open(op bigint, mid uuid) RETURNS boolean
	LANGUAGE plpgsql STABLE AS $$
BEGIN -- in SQL it would be planned without the id, over all weeks
	RETURN EXISTS (SELECT 1 FROM d.state y WHERE y.message_id = mid
	    AND d.op_may(op, ARRAY['reviewer', 'senior', 'auditor'],
	    y.tenant_id, y.inbox_id));
END $$;

-- Is a reason missing, without which decided mail does not open (A19)? What
-- is given is written down with every view; of held mail, what is more than
-- reading it on its page: its raw bytes, and what is taken away.
CREATE FUNCTION d.view_no(op bigint, mid uuid, why text, event text,
	from_seq int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	g record;
BEGIN
	SELECT y.tenant_id, y.state INTO g FROM d.state y
	    WHERE y.message_id = mid;
	IF NOT FOUND OR g.state = 1 AND why IS NULL THEN
		RETURN false;
	END IF;
	IF coalesce(length(btrim(why)), 0) NOT BETWEEN 1 AND 500 THEN
		RETURN true;
	END IF;
	PERFORM d.note(g.tenant_id, 'op:' || op::text, event, mid,
	    json_build_object('why', why, 'from', from_seq)::text);
	RETURN false;
END $$;

CREATE FUNCTION api.review_keys_1(s bytea, mid uuid, for_version smallint,
	why text)
	RETURNS TABLE (status int, code text, deployment bytea, epoch int, tenant_id bigint,
	inbox_id bigint, version smallint, round smallint, digest bytea,
	tenant_epoch int, tenant_box bytea, tenant_priv bytea, tenant_pub bytea,
	chunks int, size bigint, body_tag bytea, now timestamptz)
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
	IF d.op_may_open(o.operator_id, mid) AND d.view_no(o.operator_id, mid,
	    review_keys_1.why, 'message.opened', NULL) THEN
		SELECT 403, 'reason_required' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, y.deployment, y.epoch, m.tenant_id,
	    m.inbox_id, m.version, s.round, m.digest, m.tenant_epoch,
	    m.tenant_box, k.priv_box, k.pub, m.chunks, m.size, m.body_tag,
	    clock_timestamp()
	    FROM d.state s
	    JOIN d.message m ON m.message_id = s.message_id
	        AND m.tenant_id = s.tenant_id
	        AND m.version = coalesce(for_version, s.version)
	    JOIN d.tenant_key k ON k.tenant_id = m.tenant_id
	        AND k.epoch = m.tenant_epoch
	    LEFT JOIN d.deployment y ON y.one
	    WHERE s.message_id = mid AND d.op_may_open(o.operator_id, mid);
	IF NOT FOUND THEN
		SELECT 404, 'not_found' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
END $$;

CREATE FUNCTION api.review_body_1(s bytea, mid uuid, for_version smallint,
	from_seq int, lim int, why text)
	RETURNS TABLE (status int, code text, seq int, data bytea)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op(s);
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::int, NULL::bytea;
		RETURN;
	END IF;
	IF NOT d.op_may_open(o.operator_id, mid) THEN
		o.status := 404;
		o.code := 'not_found';
		RETURN QUERY SELECT o.status, o.code, NULL::int, NULL::bytea;
		RETURN;
	END IF;
	IF d.view_no(o.operator_id, mid, review_body_1.why, 'message.read',
	    from_seq) THEN
		RETURN QUERY SELECT 403, 'reason_required', NULL::int, NULL::bytea;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, b.seq, b.data
	    FROM d.state y
	    JOIN d.message m ON m.message_id = y.message_id
	        AND m.tenant_id = y.tenant_id
	        AND m.version = coalesce(for_version, y.version)
	    JOIN d.body b ON b.message_id = m.message_id
	        AND b.tenant_id = m.tenant_id AND b.version = m.version
	        AND b.inbox_id = m.inbox_id AND b.seq < m.chunks
	    WHERE y.message_id = mid AND b.seq >= from_seq ORDER BY b.seq
	    LIMIT least(greatest(lim, 1), 16);
END $$;

-- `listed`: on a list that lets nothing go there now, as d.gate looks: 'b'
-- blocked, 's' suppressed; NULL on none.
CREATE FUNCTION api.review_recipients_1(s bytea, mid uuid)
	RETURNS TABLE (status int, code text, ix int, address text, kind text, delivery smallint,
	reply_code int, enhanced text, reply text, attempts int, next_attempt_at
	timestamptz, updated_at timestamptz, listed text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op_of(s, mid);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, x.ix::int, x.address,
	    substr(m.rcpt_kind, x.ix::int, 1), y.status, y.reply_code,
	    y.enhanced::text, y.reply::text, coalesce(y.attempts, 0),
	    y.next_attempt_at,
	    y.changed_at, (SELECT min(e.verdict::text) FROM d.list_entry e
	        WHERE e.entry IN (d.canon(x.address), '@' || d.domain_of(x.address))
	        AND e.ended_at IS NULL AND (e.expires_at IS NULL
	        OR e.expires_at > clock_timestamp()) AND (e.tenant_id = 0
	        OR e.tenant_id = z.tenant_id
	        AND e.inbox_id IN (0, z.inbox_id)))
	    FROM d.state z
	    JOIN d.message m ON m.message_id = z.message_id
	        AND m.tenant_id = z.tenant_id AND m.version = z.version
	    CROSS JOIN unnest(m.rcpt) WITH ORDINALITY x(address, ix)
	    LEFT JOIN d.delivery y ON y.message_id = mid
	        AND y.tenant_id = z.tenant_id AND y.ix = x.ix
	    WHERE z.message_id = mid ORDER BY x.ix;
END $$;

-- Which of the first 100 recipients were reached before: by this inbox, and
-- their domains by any inbox in scope. Asked on opening, never on the way in.
CREATE FUNCTION api.review_known_1(s bytea, mid uuid)
	RETURNS TABLE (status int, code text, ix int, by_inbox boolean, by_any boolean)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op(s);
	IF o.status = 200 AND NOT d.op_may_open(o.operator_id, mid) THEN
		o.status := 404;
		o.code := 'not_found';
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, x.ix::int,
	    EXISTS (SELECT 1 FROM d.delivery y WHERE y.tenant_id = z.tenant_id
	        AND y.domain = d.domain_of(x.address)
	        AND y.canon = d.canon(x.address) AND y.inbox_id = z.inbox_id
	        AND y.status = 3),
	    EXISTS (SELECT 1 FROM d.delivery y WHERE y.tenant_id = z.tenant_id
	        AND y.domain = d.domain_of(x.address) AND y.status = 3)
	    FROM d.state z
	    JOIN d.message m ON m.message_id = z.message_id
	        AND m.tenant_id = z.tenant_id AND m.version = z.version
	    CROSS JOIN unnest(m.rcpt) WITH ORDINALITY x(address, ix)
	    WHERE z.message_id = mid AND x.ix <= 100 ORDER BY x.ix;
END $$;

-- What its inbox sent in the 24 hours before it and in the four weeks before
-- those; at most 20,000 entries of an index are read for each of the two, and
-- `hours` is what the second stands for.
CREATE FUNCTION api.review_volume_1(s bytea, mid uuid)
	RETURNS TABLE (status int, code text, recent bigint, past bigint,
	hours bigint)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	z record;
	most CONSTANT int := 20000;
	sent timestamptz := to_timestamp(d.uuid_ms(mid) / 1000.0);
	since timestamptz;
	last_id uuid;
BEGIN
	o := d.op(s);
	IF o.status = 200 AND NOT d.op_may_open(o.operator_id, mid) THEN
		o.status := 404;
		o.code := 'not_found';
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	SELECT y.tenant_id AS t, y.inbox_id AS i, x.created_at INTO z
	    FROM d.state y JOIN d.inbox x ON x.tenant_id = y.tenant_id
	        AND x.inbox_id = y.inbox_id WHERE y.message_id = mid;
	since := greatest(sent - interval '29 days', z.created_at);
	SELECT 200, count(*) INTO status, recent FROM (SELECT FROM d.state y
	    WHERE y.tenant_id = z.t AND y.inbox_id = z.i AND y.message_id <= mid
	    AND y.message_id >= d.uuid_floor(sent - interval '1 day')
	    LIMIT most) q;
	SELECT count(*), min(q.message_id::text)::uuid INTO past, last_id
	    FROM (SELECT y.message_id FROM d.state y WHERE y.tenant_id = z.t
	    AND y.inbox_id = z.i AND y.message_id >= d.uuid_floor(since)
	    AND y.message_id < d.uuid_floor(sent - interval '1 day')
	    ORDER BY y.message_id DESC LIMIT most) q;
	IF past = most THEN
		since := to_timestamp(d.uuid_ms(last_id) / 1000.0);
	END IF;
	hours := greatest(0, extract(epoch FROM sent - interval '1 day' - since)
	    / 3600);
	RETURN NEXT;
END $$;

-- Opening showed more than the quick search: the stricter counts (A8).
CREATE FUNCTION api.review_risk_1(s bytea, mid uuid, for_version smallint,
	higher smallint)
	RETURNS TABLE (status int, code text, risk smallint, may_decide boolean,
	may_why text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	g record;
BEGIN
	o := d.op(s);
	IF o.status = 200 AND NOT d.op_may_open(o.operator_id, mid) THEN
		o.status := 404;
		o.code := 'not_found';
	ELSIF o.status = 200 AND (higher IS NULL OR higher NOT BETWEEN 0 AND 100)
	    THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	SELECT y.* INTO g FROM d.state y WHERE y.message_id = mid FOR UPDATE;
	IF g.state = 1 AND g.version = for_version AND g.risk < higher THEN
		UPDATE d.state y SET risk = higher WHERE y.message_id = mid
		    AND y.tenant_id = g.tenant_id;
		-- Evidence is that it became medium or high, not each small step.
		IF g.risk < 25 AND higher >= 25 OR g.risk < 75 AND higher >= 75 THEN
			PERFORM d.note(g.tenant_id, 'op:' || o.operator_id::text,
			    'message.risk', mid, json_build_object('from', g.risk,
			    'to', higher, 'version', g.version)::text);
		END IF;
		g.risk := higher;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, g.risk, w.why IS NULL, w.why
	    FROM (SELECT d.decide_no(o.operator_id, o.step_up, g.tenant_id,
	        g.inbox_id, g.state, g.risk, 'a', g.integrity) AS why) w;
END $$;

CREATE FUNCTION api.review_events_1(s bytea, mid uuid)
	RETURNS TABLE (status int, code text, n int, type text, at timestamptz, actor text, state
	smallint, detail text, who text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op_of(s, mid);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, 1, 'message.held'::text,
	    m.created_at, 'agent'::text, 1::smallint, m.reasons,
	    'agent:' || m.tenant_id::text || '.' || m.key_id::text
	    FROM d.message m WHERE m.message_id = mid AND m.version = 1
	    AND m.reasons <> ''
	    UNION ALL SELECT 200, NULL::text, e.n, e.type, e.at, e.actor, e.state,
	    e.detail, CASE WHEN e.who LIKE 'op:%' THEN coalesce((SELECT p.name
	        FROM d.operator p WHERE 'op:' || p.operator_id::text = e.who),
	        e.who) ELSE e.who END
	    FROM d.event e WHERE e.message_id = mid ORDER BY 3;
END $$;

CREATE FUNCTION api.review_attempts_1(s bytea, mid uuid)
	RETURNS TABLE (status int, code text, domain text, n int, at timestamptz, ended_at
	timestamptz, worker text, mx text, tls text, dot_at timestamptz, result
	text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op_of(s, mid);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, y.domain, y.n, y.at, y.ended_at,
	    y.worker, y.mx, y.tls, y.dot_at, y.result FROM (
	        SELECT a.* FROM d.attempt a WHERE a.message_id = mid
	        AND (a.mx IS NOT NULL OR a.ended_at IS NULL
	        OR a.result <> 'released')
	        ORDER BY a.at DESC LIMIT 200) y ORDER BY y.at;
END $$;

CREATE FUNCTION api.review_decisions_1(s bytea, mid uuid)
	RETURNS TABLE (status int, code text, version smallint, round smallint, operator text,
	verdict text, category text, note text, hint text, seconds int, via text,
	at timestamptz, digest bytea)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.op_of(s, mid);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, c.version, c.round, p.name,
	    c.verdict::text, c.category, c.note, c.hint, c.seconds, c.via, c.at,
	    c.digest FROM d.decision c JOIN d.operator p
	        ON p.operator_id = c.operator_id
	    WHERE c.message_id = mid ORDER BY c.at;
END $$;

-- What is paused in the scope, for the banner of every page.
CREATE FUNCTION api.review_pauses_1(s bytea)
	RETURNS TABLE (status int, code text, level text, tenant_slug text,
	address text, at timestamptz, who text, reason text)
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
	RETURN QUERY SELECT 200, NULL::text, y.level, y.slug, y.address, y.at,
	    coalesce((SELECT p.name FROM d.operator p
	    WHERE 'op:' || p.operator_id::text = y.who), y.who), y.reason FROM (
	    SELECT 'global'::text, NULL::text, NULL::text, g.paused_at,
	    g.paused_by, g.reason FROM d.global_pause g
	    WHERE g.paused_at IS NOT NULL
	    UNION ALL SELECT 'tenant', n.slug, NULL, n.paused_at, n.paused_by,
	    n.pause_reason FROM d.tenant n WHERE n.paused_at IS NOT NULL
	    AND n.tenant_id = ANY (d.cur_tenants())
	    UNION ALL (SELECT 'inbox', n.slug, x.address, x.paused_at,
	    x.paused_by, x.pause_reason
	    FROM d.inbox x JOIN d.tenant n ON n.tenant_id = x.tenant_id
	    WHERE x.paused_at IS NOT NULL ORDER BY x.address LIMIT 20)
	    ) y (level, slug, address, at, who, reason);
END $$;

RESET ROLE;
SET LOCAL ROLE p_review;
GRANT EXECUTE ON FUNCTION api.operator_salt_1, api.setup_1,
	api.session_create_1, api.session_touch_1, api.session_end_1,
	api.step_up_password_1 TO l_review, l_ctl;
GRANT EXECUTE ON FUNCTION api.review_tenants_1, api.review_inboxes_1,
	api.review_list_1, api.review_count_1, api.review_get_1,
	api.review_keys_1, api.review_body_1, api.review_recipients_1,
	api.review_events_1, api.review_attempts_1, api.review_decisions_1,
	api.review_pauses_1, api.review_known_1, api.review_volume_1,
	api.review_risk_1,
	api.search_fill_1
	TO l_review;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_review;
