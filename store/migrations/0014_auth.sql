-- SPDX-License-Identifier: ISC
-- 0014_auth.sql - second factors: TOTP, passkeys, recovery codes. postern-auth
-- judges what a person shows and says so here; only its functions mark a
-- session, and each of them has to be shown that session's secret. A try is
-- counted before it is judged, so that the number of tries is bounded
-- whatever the program that judges does.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_auth;

-- kind: t TOTP, p passkey. One TOTP a person at most is in use.
CREATE TABLE d.operator_factor (
	factor_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	operator_id bigint NOT NULL REFERENCES d.operator,
	kind "char" NOT NULL CHECK (kind IN ('t', 'p')),
	label text NOT NULL CHECK (length(label) BETWEEN 1 AND 64),
	sealed bytea CHECK (octet_length(sealed) BETWEEN 48 AND 256),
	last_step bigint NOT NULL DEFAULT 0,
	credential bytea CHECK (octet_length(credential) BETWEEN 16 AND 1023),
	public_key bytea CHECK (octet_length(public_key) BETWEEN 32 AND 1024),
	sign_count bigint NOT NULL DEFAULT 0,
	proof bytea CHECK (octet_length(proof) = 64),
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	confirmed_at timestamptz,
	used_at timestamptz,
	ended_at timestamptz,
	CHECK ((kind = 't') = (sealed IS NOT NULL)),
	CHECK ((kind = 'p') = (credential IS NOT NULL AND public_key IS NOT NULL
	    AND proof IS NOT NULL)));
CREATE INDEX operator_factor_operator ON d.operator_factor (operator_id)
	WHERE ended_at IS NULL;
CREATE UNIQUE INDEX operator_factor_totp ON d.operator_factor (operator_id,
	(confirmed_at IS NULL)) WHERE kind = 't' AND ended_at IS NULL;
CREATE UNIQUE INDEX operator_factor_credential ON d.operator_factor
	(credential) WHERE ended_at IS NULL;

CREATE TABLE d.operator_recovery (
	operator_id bigint NOT NULL REFERENCES d.operator,
	code_sha256 d.hash NOT NULL,
	used_at timestamptz,
	PRIMARY KEY (operator_id, code_sha256));

-- What an authenticator is asked to sign: one a session and use, once.
-- purpose: i sign-in, s step-up, r registration, a approval of one digest.
CREATE TABLE d.factor_challenge (
	session_sha256 bytea NOT NULL REFERENCES d.operator_session
	    ON DELETE CASCADE ON UPDATE CASCADE,
	purpose "char" NOT NULL CHECK (purpose IN ('i', 's', 'r', 'a')),
	nonce bytea NOT NULL CHECK (octet_length(nonce) = 32),
	message_id uuid,
	version smallint,
	round smallint,
	digest bytea CHECK (octet_length(digest) = 32),
	expires_at timestamptz NOT NULL,
	PRIMARY KEY (session_sha256, purpose),
	CHECK ((purpose = 'a') = (num_nonnulls(message_id, version, round,
	    digest) = 4)));

-- A passkey's signature over what is decided, as the worker and the auditor
-- read it (seal/passkey.h). Written before the decision, which then needs it.
CREATE TABLE d.decision_proof (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	version smallint NOT NULL,
	round smallint NOT NULL,
	operator_id bigint NOT NULL,
	digest d.hash NOT NULL,
	session_sha256 d.hash NOT NULL,
	packed bytea NOT NULL CHECK (octet_length(packed) <= 4500),
	at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (message_id, tenant_id, version, round, operator_id, at));

DO $$
DECLARE t text;
BEGIN
	FOREACH t IN ARRAY ARRAY['operator_factor', 'operator_recovery',
	    'factor_challenge', 'decision_proof'] LOOP
		EXECUTE format('ALTER TABLE d.%I ENABLE ROW LEVEL SECURITY, '
		    'FORCE ROW LEVEL SECURITY', t);
		EXECUTE format('CREATE POLICY p_auth_all ON d.%I TO p_auth '
		    'USING (true) WITH CHECK (true)', t);
	END LOOP;
	FOREACH t IN ARRAY ARRAY['operator', 'operator_session',
	    'operator_scope', 'tenant'] LOOP
		EXECUTE format('CREATE POLICY p_auth_select ON d.%I FOR SELECT '
		    'TO p_auth USING (true)', t);
		EXECUTE format('GRANT SELECT ON d.%I TO p_auth', t);
	END LOOP;
END $$;
GRANT SELECT, INSERT, UPDATE (last_step, sign_count, confirmed_at, used_at,
	ended_at) ON d.operator_factor TO p_auth;
GRANT SELECT, INSERT, DELETE, UPDATE (used_at) ON d.operator_recovery
	TO p_auth;
GRANT SELECT, INSERT, DELETE, UPDATE (nonce, message_id, version, round,
	digest, expires_at) ON d.factor_challenge TO p_auth;
GRANT UPDATE (totp, passkeys, factor_failures, factor_locked_until)
	ON d.operator TO p_auth;
CREATE POLICY p_auth_update ON d.operator FOR UPDATE TO p_auth USING (true)
	WITH CHECK (true);
GRANT UPDATE (session_sha256, touched_at, step_up_until, step_up_by,
	factor_due, ended_at) ON d.operator_session TO p_auth;
CREATE POLICY p_auth_update ON d.operator_session FOR UPDATE TO p_auth
	USING (true) WITH CHECK (true);
GRANT USAGE ON SEQUENCE d.audit_n TO p_auth;
GRANT INSERT (tenant_id, actor, event, message_id, detail) ON d.audit
	TO p_auth;
CREATE POLICY p_auth_insert ON d.audit FOR INSERT TO p_auth
	WITH CHECK (zone = current_user);
GRANT EXECUTE ON FUNCTION d.op, d.op_may, d.secret_new, d.note, d.cur_boxes(),
	d.cur_tenants(), d.cur_actor() TO p_auth;
GRANT SELECT, INSERT ON d.decision_proof TO p_auth;
GRANT SELECT ON d.decision_proof TO p_review, p_relay;
CREATE POLICY p_review_select ON d.decision_proof FOR SELECT TO p_review
	USING ((tenant_id = ANY ((SELECT d.cur_tenants())::bigint[])
	    OR (tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[])));
CREATE POLICY p_relay_select ON d.decision_proof FOR SELECT TO p_relay
	USING ((message_id = ANY ((SELECT d.cur_msgs())::uuid[])) IS TRUE);
GRANT SELECT, DELETE ON d.decision_proof TO p_owner;
CREATE POLICY p_owner_delete ON d.decision_proof FOR DELETE TO p_owner
	USING (true);
CREATE POLICY p_owner_select ON d.decision_proof FOR SELECT TO p_owner
	USING (true);
-- Which bytes a digest is of: within the operator's scope.
GRANT SELECT (message_id, tenant_id, inbox_id, version, digest) ON d.message
	TO p_auth;
CREATE POLICY p_auth_select ON d.message FOR SELECT TO p_auth
	USING ((tenant_id = ANY ((SELECT d.cur_tenants())::bigint[])
	    OR (tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[])));
-- Referential checks run as the owner of the table that refers.
GRANT DELETE, UPDATE (session_sha256) ON d.factor_challenge TO p_owner;
CREATE POLICY p_owner_delete ON d.factor_challenge FOR DELETE TO p_owner
	USING (true);
CREATE POLICY p_owner_update ON d.factor_challenge FOR UPDATE TO p_owner
	USING (true);
CREATE POLICY p_owner_select ON d.factor_challenge FOR SELECT TO p_owner
	USING (true);

-- Whoever has a second factor begins every session without it.
CREATE FUNCTION d.session_begin() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.step_up_until := NULL;
	NEW.step_up_by := NULL;
	NEW.factor_due := EXISTS (SELECT 1 FROM d.operator p
	    WHERE p.operator_id = NEW.operator_id
	    AND (p.totp OR p.passkeys > 0));
	RETURN NEW;
END $$;
CREATE TRIGGER session_begin BEFORE INSERT ON d.operator_session
	FOR EACH ROW EXECUTE FUNCTION d.session_begin();

SET LOCAL ROLE p_auth;

-- The session behind s, also one whose second factor is due: for ten minutes.
CREATE FUNCTION d.factor_op(s bytea, OUT status int, OUT code text,
	OUT operator_id bigint, OUT due boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	x record;
	now_at timestamptz := clock_timestamp();
BEGIN
	status := 401;
	code := 'missing_authorization';
	IF s IS NULL OR octet_length(s) <> 32 THEN
		RETURN;
	END IF;
	SELECT z.operator_id, z.factor_due INTO x FROM d.operator_session z
	    JOIN d.operator p ON p.operator_id = z.operator_id
	    WHERE z.session_sha256 = sha256(s) AND z.ended_at IS NULL
	    AND z.expires_at > now_at AND z.touched_at > now_at
	    - interval '2 hours' AND z.touched_at < now_at + interval '1 hour'
	    AND p.disabled_at IS NULL
	    AND (NOT z.factor_due OR z.created_at > now_at
	    - interval '10 minutes');
	IF FOUND THEN
		status := 200;
		code := NULL;
		operator_id := x.operator_id;
		due := x.factor_due;
	END IF;
END $$;

-- Counts a try, or says how long to wait. After five that failed each
-- doubles the wait, up to an hour; one that is right begins anew.
CREATE FUNCTION d.factor_try(op bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	p record;
	n int;
	now_at timestamptz := clock_timestamp();
BEGIN
	SELECT z.factor_failures, z.factor_locked_until INTO p FROM d.operator z
	    WHERE z.operator_id = op FOR NO KEY UPDATE;
	IF p.factor_locked_until > now_at THEN
		RETURN greatest(1, ceil(extract(epoch FROM p.factor_locked_until
		    - now_at))::int);
	END IF;
	n := p.factor_failures + 1;
	UPDATE d.operator z SET factor_failures = n, factor_locked_until =
	    CASE WHEN n >= 5 THEN now_at + least(3600, 30 * 2 ^ least(n - 5, 10))
	    * interval '1 second' END WHERE z.operator_id = op;
	RETURN NULL;
END $$;

-- A session that may do more from now on goes on under another secret; the
-- job that it moves goes with it. False: the session is not there any more, or
-- goes on under another one already.
CREATE FUNCTION d.session_turn(s bytea, next_sha256 bytea) RETURNS boolean
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
DECLARE
	op bigint;
BEGIN
	UPDATE d.operator_session z SET session_sha256 = next_sha256
	    WHERE z.session_sha256 = sha256(s) RETURNING z.operator_id INTO op;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	UPDATE d.job z SET session_sha256 = next_sha256 WHERE z.operator_id = op
	    AND z.session_sha256 = sha256(s);
	RETURN true;
END $$;

GRANT EXECUTE ON FUNCTION d.session_turn TO p_review;

-- The second factor was right: the sign-in is finished, the session marked,
-- its secret another one. NULL: it is not there any more.
CREATE FUNCTION d.factor_right(s bytea, next_sha256 bytea, op bigint, how text,
	factor bigint, was_due boolean) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
	until timestamptz := clock_timestamp() + interval '5 minutes';
BEGIN
	UPDATE d.operator z SET factor_failures = 0, factor_locked_until = NULL
	    WHERE z.operator_id = op;
	IF NOT d.session_turn(s, next_sha256) THEN
		RETURN NULL;
	END IF;
	UPDATE d.operator_session z SET factor_due = false, step_up_until = until,
	    step_up_by = how, touched_at = clock_timestamp()
	    WHERE z.session_sha256 = next_sha256;
	PERFORM d.note(0, 'op:' || op::text, CASE WHEN was_due
	    THEN 'operator.second_factor' ELSE 'operator.step_up' END, NULL,
	    json_build_object('by', how, 'factor', factor)::text);
	RETURN until;
END $$;

-- What is answered after d.factor_right().
CREATE FUNCTION d.turned(until timestamptz, OUT status int, OUT code text)
	LANGUAGE plpgsql AS $$
BEGIN
	status := CASE WHEN until IS NULL THEN 401 ELSE 200 END;
	code := CASE WHEN until IS NULL THEN 'missing_authorization' END;
END $$;

-- What the sign-in says of a person: columns that everybody's rules read. With
-- the first factor all other sessions have it due, as if they began now: one
-- that was stolen before opens nothing any more.
CREATE FUNCTION d.factor_count(op bigint, s bytea DEFAULT NULL)
	RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	none boolean;
BEGIN
	SELECT NOT z.totp AND z.passkeys = 0 INTO none FROM d.operator z
	    WHERE z.operator_id = op FOR NO KEY UPDATE;
	UPDATE d.operator z SET totp = EXISTS (SELECT 1 FROM d.operator_factor f
	    WHERE f.operator_id = op AND f.kind = 't' AND f.ended_at IS NULL
	    AND f.confirmed_at IS NOT NULL), passkeys = (SELECT count(*)
	    FROM d.operator_factor f WHERE f.operator_id = op AND f.kind = 'p'
	    AND f.ended_at IS NULL) WHERE z.operator_id = op;
	DELETE FROM d.operator_recovery r USING d.operator z
	    WHERE r.operator_id = op AND z.operator_id = op AND NOT z.totp
	    AND z.passkeys = 0;
	IF none AND s IS NOT NULL THEN
		UPDATE d.operator_session z SET factor_due = true
		    WHERE z.operator_id = op AND z.ended_at IS NULL
		    AND z.session_sha256 <> sha256(s);
	END IF;
END $$;

-- The mark of those who have no second factor (decision 0070).
CREATE FUNCTION d.mark_password(s bytea, next_sha256 bytea, until timestamptz)
	RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	UPDATE d.operator_session z SET step_up_until = until,
	    step_up_by = 'password' FROM d.operator p
	    WHERE z.session_sha256 = sha256(s) AND NOT z.factor_due
	    AND p.operator_id = z.operator_id AND NOT p.totp AND p.passkeys = 0
	    AND until < clock_timestamp() + interval '6 minutes';
	RETURN FOUND AND d.session_turn(s, next_sha256);
END $$;
GRANT EXECUTE ON FUNCTION d.mark_password TO p_review;

CREATE FUNCTION api.factor_state_1(s bytea) RETURNS TABLE (status int,
	code text, operator_id bigint, name text, due boolean, totp boolean,
	passkeys int, recovery int, wait int, now timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
#variable_conflict use_column
DECLARE
	o record := d.factor_op(s);
BEGIN
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, p.operator_id, p.name, o.due, p.totp,
	    p.passkeys, (SELECT count(*)::int FROM d.operator_recovery r
	    WHERE r.operator_id = p.operator_id AND r.used_at IS NULL),
	    greatest(0, ceil(extract(epoch FROM p.factor_locked_until
	    - clock_timestamp()))::int), clock_timestamp()
	    FROM d.operator p WHERE p.operator_id = o.operator_id;
END $$;

CREATE FUNCTION api.factors_1(s bytea) RETURNS TABLE (status int, code text,
	factor_id bigint, kind text, label text, created_at timestamptz,
	used_at timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record := d.op(s);
BEGIN
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, f.factor_id, f.kind::text, f.label,
	    f.created_at, f.used_at FROM d.operator_factor f
	    WHERE f.operator_id = o.operator_id AND f.ended_at IS NULL
	    AND f.confirmed_at IS NOT NULL ORDER BY f.factor_id LIMIT 100;
END $$;

-- Removing one takes a fresh second factor: a password does not count here,
-- because whoever has a factor is never marked by it.
CREATE FUNCTION api.factor_end_1(s bytea, factor bigint)
	RETURNS TABLE (status int, code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record := d.op(s);
	k text;
BEGIN
	IF o.status = 200 AND NOT o.step_up THEN
		o.status := 403;
		o.code := 'step_up_required';
	END IF;
	IF o.status = 200 THEN
		UPDATE d.operator_factor f SET ended_at = clock_timestamp()
		    WHERE f.factor_id = factor_end_1.factor
		    AND f.operator_id = o.operator_id AND f.ended_at IS NULL
		    AND f.confirmed_at IS NOT NULL RETURNING f.kind::text INTO k;
		IF k IS NULL THEN
			o.status := 404;
			o.code := 'not_found';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	PERFORM d.factor_count(o.operator_id);
	PERFORM d.note(0, 'op:' || o.operator_id::text, 'operator.factor_end',
	    NULL, json_build_object('factor', factor, 'kind', k)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

-- Another person's second factors, all of them: an administrator of
-- everything does this for who lost them.
CREATE FUNCTION api.factor_reset_1(s bytea, uid bigint, name text)
	RETURNS TABLE (status int, code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record := d.op(s);
	n bigint;
BEGIN
	IF o.status = 200 AND NOT d.op_may(o.operator_id, ARRAY['admin'], NULL,
	    NULL) THEN
		o.status := 403;
		o.code := 'missing_permission';
	ELSIF o.status = 200 AND NOT o.step_up THEN
		o.status := 403;
		o.code := 'step_up_required';
	END IF;
	SELECT p.operator_id INTO n FROM d.operator p
	    WHERE p.name = lower(factor_reset_1.name);
	IF o.status = 200 AND n IS NULL THEN
		o.status := 404;
		o.code := 'not_found';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	PERFORM d.factor_clear(n);
	PERFORM d.note(0, 'op:' || o.operator_id::text || CASE WHEN session_user
	    = 'l_review' THEN '' ELSE '@ctl:' || coalesce(uid, 0)::text END,
	    'operator.factor_reset', NULL, json_build_object('operator',
	    n)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

CREATE FUNCTION d.factor_clear(op bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE d.operator_factor f SET ended_at = clock_timestamp()
	    WHERE f.operator_id = op AND f.ended_at IS NULL;
	UPDATE d.operator z SET factor_failures = 0, factor_locked_until = NULL
	    WHERE z.operator_id = op;
	PERFORM d.factor_count(op);
	-- What was signed in by them is signed in by nothing now.
	UPDATE d.operator_session z SET ended_at = clock_timestamp()
	    WHERE z.operator_id = op AND z.ended_at IS NULL;
END $$;

-- The last administrator lost everything: `posternctl operator recover` as
-- l_migrate, which owns the schema anyway.
CREATE FUNCTION api.factor_recover_1(uid bigint, name text)
	RETURNS TABLE (status int, code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	n bigint;
BEGIN
	SELECT p.operator_id INTO n FROM d.operator p
	    WHERE p.name = lower(factor_recover_1.name);
	IF n IS NULL THEN
		RETURN QUERY SELECT 404, 'not_found';
		RETURN;
	END IF;
	PERFORM d.factor_clear(n);
	PERFORM d.note(0, 'ctl:' || coalesce(uid, 0)::text,
	    'operator.factor_reset', NULL, json_build_object('operator',
	    n)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

-- TOTP -----------------------------------------------------------------------

-- A secret that is not in use yet; the first right code confirms it.
CREATE FUNCTION api.totp_begin_1(s bytea, sealed bytea) RETURNS TABLE (
	status int, code text, factor_id bigint) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.boxes = '' SET postern.tenants = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record := d.op(s);
	n bigint;
BEGIN
	IF o.status = 200 AND coalesce(octet_length(totp_begin_1.sealed), 0)
	    NOT BETWEEN 48 AND 256 THEN
		o.status := 422;
		o.code := 'validation_error';
	ELSIF o.status = 200 AND NOT o.step_up THEN
		o.status := 403;
		o.code := 'step_up_required';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::bigint;
		RETURN;
	END IF;
	UPDATE d.operator_factor f SET ended_at = clock_timestamp()
	    WHERE f.operator_id = o.operator_id AND f.kind = 't'
	    AND f.ended_at IS NULL AND f.confirmed_at IS NULL;
	INSERT INTO d.operator_factor AS f (operator_id, kind, label, sealed)
	    VALUES (o.operator_id, 't', 'Authenticator app', totp_begin_1.sealed)
	    RETURNING f.factor_id INTO n;
	RETURN QUERY SELECT 200, NULL::text, n;
END $$;

-- Counts a try and hands the sealed secret over: of the one in use, or of
-- the one to be confirmed.
CREATE FUNCTION api.totp_try_1(s bytea, confirm boolean) RETURNS TABLE (
	status int, code text, wait int, factor_id bigint, operator_id bigint,
	sealed bytea, last_step bigint, now timestamptz) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	o record := d.factor_op(s);
	f record;
	w int;
BEGIN
	IF o.status = 200 THEN
		SELECT y.* INTO f FROM d.operator_factor y
		    WHERE y.operator_id = o.operator_id AND y.kind = 't'
		    AND y.ended_at IS NULL AND (y.confirmed_at IS NULL) = confirm
		    AND (NOT confirm OR NOT o.due AND y.created_at
		    > clock_timestamp() - interval '30 minutes');
		IF NOT FOUND THEN
			o.status := 404;
			o.code := 'not_found';
		END IF;
	END IF;
	IF o.status = 200 THEN
		w := d.factor_try(o.operator_id);
		IF w IS NOT NULL THEN
			o.status := 429;
			o.code := 'rate_limited';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code, w INTO status, code, wait;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, NULL::int, f.factor_id,
	    f.operator_id, f.sealed, f.last_step, clock_timestamp();
END $$;

-- The code of `step` was right. A step counts once, and only about now. A
-- secret confirmed by it takes the place of the one before; with the first
-- factor come recovery codes (`hashes`).
CREATE FUNCTION api.totp_done_1(s bytea, factor bigint, step bigint,
	hashes bytea[], next_sha256 bytea) RETURNS TABLE (status int, code text,
	step_up_until timestamptz, confirmed boolean, codes boolean)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
#variable_conflict use_column
DECLARE
	o record := d.factor_op(s);
	f record;
	first boolean := false;
	until timestamptz;
BEGIN
	IF o.status = 200 AND NOT d.secret_new(next_sha256) THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status = 200 THEN
		UPDATE d.operator_factor y SET last_step = totp_done_1.step,
		    used_at = clock_timestamp()
		    WHERE y.factor_id = totp_done_1.factor
		    AND y.operator_id = o.operator_id AND y.kind = 't'
		    AND y.ended_at IS NULL AND y.last_step < totp_done_1.step
		    AND abs(totp_done_1.step - floor(extract(epoch
		        FROM clock_timestamp()) / 30)::bigint) <= 2
		    AND (y.confirmed_at IS NOT NULL OR NOT o.due)
		    RETURNING y.* INTO f;
		IF NOT FOUND THEN
			o.status := 403;
			o.code := 'code_used';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF f.confirmed_at IS NULL THEN
		UPDATE d.operator_factor y SET ended_at = clock_timestamp()
		    WHERE y.operator_id = o.operator_id AND y.kind = 't'
		    AND y.ended_at IS NULL AND y.confirmed_at IS NOT NULL;
		UPDATE d.operator_factor y SET confirmed_at = clock_timestamp()
		    WHERE y.factor_id = f.factor_id;
		first := d.recovery_first(o.operator_id, hashes);
		PERFORM d.factor_count(o.operator_id, s);
		PERFORM d.note(0, 'op:' || o.operator_id::text,
		    'operator.factor_add', NULL, json_build_object('factor',
		    f.factor_id, 'kind', 't')::text);
	END IF;
	until := d.factor_right(s, next_sha256, o.operator_id, 'totp', f.factor_id,
	    o.due);
	RETURN QUERY SELECT z.status, z.code, until, f.confirmed_at IS NULL, first
	    FROM d.turned(until) z;
END $$;

-- Recovery codes -------------------------------------------------------------

-- Ten different hashes?
CREATE FUNCTION d.recovery_sound(hashes bytea[]) RETURNS boolean
	LANGUAGE sql IMMUTABLE
	RETURN coalesce(cardinality(hashes) = 10 AND (SELECT count(DISTINCT h) = 10
	    AND bool_and(octet_length(h) = 32) FROM unnest(hashes) h), false);

CREATE FUNCTION d.recovery_first(op bigint, hashes bytea[]) RETURNS boolean
	LANGUAGE plpgsql AS $$
BEGIN
	IF NOT d.recovery_sound(hashes) OR EXISTS (SELECT 1
	    FROM d.operator_recovery r WHERE r.operator_id = op
	    AND r.used_at IS NULL) THEN
		RETURN false;
	END IF;
	DELETE FROM d.operator_recovery r WHERE r.operator_id = op;
	INSERT INTO d.operator_recovery (operator_id, code_sha256)
	    SELECT op, h FROM unnest(hashes) h;
	RETURN true;
END $$;

CREATE FUNCTION api.recovery_set_1(s bytea, hashes bytea[]) RETURNS TABLE (
	status int, code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record := d.op(s);
BEGIN
	IF o.status = 200 AND NOT o.step_up THEN
		o.status := 403;
		o.code := 'step_up_required';
	ELSIF o.status = 200 AND NOT EXISTS (SELECT 1 FROM d.operator p
	    WHERE p.operator_id = o.operator_id AND (p.totp OR p.passkeys > 0))
	    THEN
		o.status := 409;
		o.code := 'state_conflict';
	ELSIF o.status = 200 AND NOT d.recovery_sound(hashes) THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status = 200 THEN
		DELETE FROM d.operator_recovery r
		    WHERE r.operator_id = o.operator_id;
		PERFORM d.recovery_first(o.operator_id, hashes);
		PERFORM d.note(0, 'op:' || o.operator_id::text,
		    'operator.recovery_codes', NULL, '{}');
	END IF;
	RETURN QUERY SELECT o.status, o.code;
END $$;

CREATE FUNCTION api.recovery_use_1(s bytea, code_sha256 bytea, next_sha256 bytea)
	RETURNS TABLE (status int, code text, wait int,
	step_up_until timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	o record := d.factor_op(s);
	w int;
	until timestamptz;
BEGIN
	IF o.status = 200 AND NOT d.secret_new(next_sha256) THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status = 200 THEN
		w := d.factor_try(o.operator_id);
		IF w IS NOT NULL THEN
			o.status := 429;
			o.code := 'rate_limited';
		END IF;
	END IF;
	IF o.status = 200 THEN
		UPDATE d.operator_recovery r SET used_at = clock_timestamp()
		    WHERE r.operator_id = o.operator_id AND r.used_at IS NULL
		    AND r.code_sha256::bytea = recovery_use_1.code_sha256;
		IF NOT FOUND THEN
			o.status := 403;
			o.code := 'code_wrong';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, w, NULL::timestamptz;
		RETURN;
	END IF;
	until := d.factor_right(s, next_sha256, o.operator_id, 'recovery', NULL, o.due);
	RETURN QUERY SELECT z.status, z.code, NULL::int, until
	    FROM d.turned(until) z;
END $$;

-- Passkeys -------------------------------------------------------------------

-- A fresh challenge and the credentials that may answer it, one a row; a row
-- without one when there is none yet.
CREATE FUNCTION api.passkey_ask_1(s bytea, purpose text, nonce bytea,
	mid uuid, for_version smallint, for_round smallint, dig bytea)
	RETURNS TABLE (status int, code text, operator_id bigint, name text,
	credential bytea) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record := d.factor_op(s);
BEGIN
	IF o.status = 200 AND (coalesce(passkey_ask_1.purpose, '')
	    NOT IN ('i', 's', 'r', 'a')
	    OR (passkey_ask_1.purpose = 'i') <> o.due
	    OR coalesce(octet_length(passkey_ask_1.nonce), 0) <> 32
	    OR num_nonnulls(mid, for_version, for_round, dig)
	    <> CASE passkey_ask_1.purpose WHEN 'a' THEN 4 ELSE 0 END
	    OR octet_length(dig) <> 32) THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status = 200 AND passkey_ask_1.purpose = 'a' THEN
		PERFORM d.op(s);
		IF NOT EXISTS (SELECT 1 FROM d.message m WHERE m.message_id = mid
		    AND m.version = for_version AND m.digest = dig) THEN
			o.status := 412;
			o.code := 'digest_mismatch';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	INSERT INTO d.factor_challenge AS c (session_sha256, purpose, nonce,
	    message_id, version, round, digest, expires_at)
	    VALUES (sha256(s), passkey_ask_1.purpose::"char",
	    passkey_ask_1.nonce, mid, for_version, for_round, dig,
	    clock_timestamp() + interval '5 minutes')
	    ON CONFLICT ON CONSTRAINT factor_challenge_pkey DO UPDATE
	    SET nonce = EXCLUDED.nonce, message_id = EXCLUDED.message_id,
	    version = EXCLUDED.version, round = EXCLUDED.round,
	    digest = EXCLUDED.digest, expires_at = EXCLUDED.expires_at;
	RETURN QUERY SELECT 200, NULL::text, p.operator_id, p.name, f.credential
	    FROM d.operator p LEFT JOIN d.operator_factor f
	    ON f.operator_id = p.operator_id AND f.kind = 'p'
	    AND f.ended_at IS NULL WHERE p.operator_id = o.operator_id
	    ORDER BY f.factor_id LIMIT 32;
END $$;

-- Counts a try, spends the challenge, and hands over what an answer to it is
-- judged by. For a registration there is no credential yet.
CREATE FUNCTION api.passkey_try_1(s bytea, purpose text, credential bytea)
	RETURNS TABLE (status int, code text, wait int, operator_id bigint,
	factor_id bigint, public_key bytea, proof bytea, sign_count bigint,
	nonce bytea, message_id uuid, version smallint, round smallint,
	digest bytea)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$
#variable_conflict use_column
DECLARE
	o record := d.factor_op(s);
	c record;
	f record;
	w int;
BEGIN
	IF o.status = 200 THEN
		DELETE FROM d.factor_challenge y WHERE y.session_sha256 = sha256(s)
		    AND y.purpose::text = passkey_try_1.purpose
		    AND y.expires_at > clock_timestamp() RETURNING y.* INTO c;
		IF NOT FOUND THEN
			o.status := 403;
			o.code := 'code_used';
		END IF;
	END IF;
	IF o.status = 200 THEN
		SELECT y.* INTO f FROM d.operator_factor y
		    WHERE y.credential = passkey_try_1.credential
		    AND y.operator_id = o.operator_id AND y.ended_at IS NULL;
		IF (passkey_try_1.purpose = 'r') = FOUND THEN
			o.status := 403;
			o.code := 'code_wrong';
		END IF;
	END IF;
	IF o.status = 200 AND passkey_try_1.purpose <> 'r' THEN
		w := d.factor_try(o.operator_id);
		IF w IS NOT NULL THEN
			o.status := 429;
			o.code := 'rate_limited';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code, w INTO status, code, wait;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, NULL::int, o.operator_id,
	    f.factor_id, f.public_key, f.proof, f.sign_count, c.nonce,
	    c.message_id, c.version, c.round, c.digest;
END $$;

-- The answer was right. A counter that does not grow is a copy of the key
-- (WebAuthn 7.2 step 22), unless the authenticator has none.
-- For an approval what was signed is kept (`packed`), and no session is marked.
CREATE FUNCTION api.passkey_done_1(s bytea, factor bigint, new_count bigint,
	mid uuid, for_version smallint, for_round smallint, dig bytea,
	packed bytea, next_sha256 bytea)
	RETURNS TABLE (status int, code text, step_up_until timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.boxes = '' SET postern.tenants = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record := d.factor_op(s);
	f record;
	until timestamptz;
BEGIN
	IF o.status = 200 AND (num_nonnulls(mid, for_version, for_round, dig,
	    passkey_done_1.packed) NOT IN (0, 5)
	    OR octet_length(dig) <> 32
	    OR octet_length(passkey_done_1.packed) > 4500
	    OR o.due AND mid IS NOT NULL
	    OR mid IS NULL AND NOT d.secret_new(next_sha256)) THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status = 200 THEN
		UPDATE d.operator_factor y SET sign_count = new_count,
		    used_at = clock_timestamp()
		    WHERE y.factor_id = passkey_done_1.factor
		    AND y.operator_id = o.operator_id AND y.kind = 'p'
		    AND y.ended_at IS NULL AND (new_count > y.sign_count
		    OR new_count = 0 AND y.sign_count = 0) RETURNING y.* INTO f;
		IF NOT FOUND THEN
			PERFORM d.note(0, 'op:' || o.operator_id::text,
			    'operator.passkey_copied', NULL, json_build_object(
			    'factor', factor, 'count', new_count)::text);
			o.status := 403;
			o.code := 'code_used';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::timestamptz;
		RETURN;
	END IF;
	IF mid IS NOT NULL THEN
		PERFORM d.op(s);
		INSERT INTO d.decision_proof (message_id, tenant_id, inbox_id,
		    version, round, operator_id, digest, session_sha256, packed)
		    SELECT m.message_id, m.tenant_id, m.inbox_id, m.version,
		    for_round, o.operator_id, m.digest, sha256(s),
		    passkey_done_1.packed FROM d.message m
		    WHERE m.message_id = mid AND m.version = for_version
		    AND m.digest = dig;
		-- It signed one decision; nothing else is stepped up by it.
		UPDATE d.operator z SET factor_failures = 0,
		    factor_locked_until = NULL WHERE z.operator_id = o.operator_id;
		RETURN QUERY SELECT 200, NULL::text, NULL::timestamptz;
		RETURN;
	END IF;
	until := d.factor_right(s, next_sha256, o.operator_id, 'passkey', f.factor_id,
	    o.due);
	RETURN QUERY SELECT z.status, z.code, until FROM d.turned(until) z;
END $$;

CREATE FUNCTION api.passkey_add_1(s bytea, credential bytea,
	public_key bytea, new_count bigint, label text, proof bytea,
	hashes bytea[], next_sha256 bytea) RETURNS TABLE (status int, code text,
	factor_id bigint, codes boolean) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.tenants = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record := d.op(s);
	n bigint;
	first boolean;
BEGIN
	IF o.status = 200 AND (coalesce(octet_length(passkey_add_1.credential), 0)
	    NOT BETWEEN 16 AND 1023
	    OR coalesce(octet_length(passkey_add_1.public_key), 0)
	    NOT BETWEEN 32 AND 1024
	    OR coalesce(octet_length(passkey_add_1.proof), 0) <> 64
	    OR coalesce(new_count, -1) < 0 OR NOT d.secret_new(next_sha256)) THEN
		o.status := 422;
		o.code := 'validation_error';
	ELSIF o.status = 200 AND NOT o.step_up THEN
		o.status := 403;
		o.code := 'step_up_required';
	ELSIF o.status = 200 AND (SELECT count(*) FROM d.operator_factor f
	    WHERE f.operator_id = o.operator_id AND f.kind = 'p'
	    AND f.ended_at IS NULL) >= 20 THEN
		o.status := 409;
		o.code := 'state_conflict';
	END IF;
	IF o.status = 200 THEN
		INSERT INTO d.operator_factor AS f (operator_id, kind, label,
		    credential, public_key, sign_count, proof, confirmed_at)
		    VALUES (o.operator_id, 'p', coalesce(nullif(btrim(left(
		    passkey_add_1.label, 64)), ''), 'Passkey'),
		    passkey_add_1.credential, passkey_add_1.public_key, new_count,
		    passkey_add_1.proof, clock_timestamp())
		    ON CONFLICT DO NOTHING RETURNING f.factor_id INTO n;
		IF n IS NULL THEN
			o.status := 409;
			o.code := 'state_conflict';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::bigint, NULL::boolean;
		RETURN;
	END IF;
	first := d.recovery_first(o.operator_id, hashes);
	PERFORM d.factor_count(o.operator_id, s);
	PERFORM d.note(0, 'op:' || o.operator_id::text, 'operator.factor_add',
	    NULL, json_build_object('factor', n, 'kind', 'p')::text);
	-- The session that made it stays marked: by a password only until now.
	RETURN QUERY SELECT z.status, z.code, n, first FROM d.turned(
	    d.factor_right(s, next_sha256, o.operator_id, 'passkey', n, false)) z;
END $$;

RESET ROLE;
SET LOCAL ROLE p_auth;
GRANT EXECUTE ON FUNCTION api.factor_state_1 TO l_auth, l_review, l_ctl;
GRANT EXECUTE ON FUNCTION api.totp_begin_1, api.totp_try_1, api.totp_done_1,
	api.recovery_set_1, api.recovery_use_1, api.passkey_ask_1,
	api.passkey_try_1, api.passkey_done_1, api.passkey_add_1 TO l_auth;
GRANT EXECUTE ON FUNCTION api.factors_1, api.factor_end_1 TO l_review;
GRANT EXECUTE ON FUNCTION api.factor_reset_1 TO l_review, l_ctl;
GRANT EXECUTE ON FUNCTION api.factor_recover_1 TO l_migrate;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_auth;
