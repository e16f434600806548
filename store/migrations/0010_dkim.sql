-- SPDX-License-Identifier: ISC
-- 0010_dkim.sql - keys that sign what leaves. A pair is one RSA and one
-- Ed25519 key of a domain, made by posternctl: published first, used later,
-- and kept a while after another took its place. The private halves are
-- sealed to postern-deliver; nothing here can open them.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_ctl, p_relay;

CREATE TABLE d.dkim_key (
	tenant_id bigint NOT NULL REFERENCES d.tenant,
	domain text NOT NULL REFERENCES d.domain,
	pair text NOT NULL CHECK (pair ~ '^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$'),
	algo "char" NOT NULL CHECK (algo IN ('r', 'e')),
	selector text NOT NULL
	    CHECK (selector ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
	record text NOT NULL CHECK (octet_length(record) BETWEEN 20 AND 1000),
	sealed bytea NOT NULL CHECK (octet_length(sealed) BETWEEN 100 AND 8192),
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	used_at timestamptz,
	retired_at timestamptz,
	PRIMARY KEY (tenant_id, domain, pair, algo),
	UNIQUE (tenant_id, domain, selector),
	CHECK (retired_at IS NULL OR used_at IS NOT NULL));
ALTER TABLE d.dkim_key ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, DELETE, UPDATE (used_at, retired_at) ON d.dkim_key
	TO p_ctl;
GRANT SELECT ON d.dkim_key TO p_relay;
CREATE POLICY p_ctl_all ON d.dkim_key TO p_ctl USING (true) WITH CHECK (true);
CREATE POLICY p_relay_select ON d.dkim_key FOR SELECT TO p_relay USING (true);

SET LOCAL ROLE p_ctl;

-- The tenant of a domain that this operator may administer.
CREATE FUNCTION d.ctl_domain(s bytea, uid bigint, name text, OUT status int,
	OUT code text, OUT actor text, OUT tenant bigint) LANGUAGE plpgsql AS $$
DECLARE
	o record;
BEGIN
	SELECT y.tenant_id INTO tenant FROM d.domain y
	    WHERE y.domain = ctl_domain.name AND y.removed_at IS NULL;
	o := d.ctl(s, uid, ARRAY['admin'], tenant, NULL);
	status := o.status;
	code := o.code;
	actor := o.actor;
	IF status = 200 AND tenant IS NULL THEN
		status := 404;
		code := 'not_found';
	END IF;
END $$;

CREATE FUNCTION api.dkim_add_1(s bytea, uid bigint, name text, pair text,
	rsa text, rsa_record text, rsa_sealed bytea, ed text, ed_record text,
	ed_sealed bytea) RETURNS TABLE (status int, code text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record := d.ctl_domain(s, uid, name);
	c int;
BEGIN
	IF o.status = 200 AND (coalesce(dkim_add_1.pair, '')
	    !~ '^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$' OR rsa = ed
	    OR num_nulls(rsa, rsa_record, rsa_sealed, ed, ed_record, ed_sealed)
	    > 0 OR rsa !~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'
	    OR ed !~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'
	    OR octet_length(rsa_record) NOT BETWEEN 20 AND 1000
	    OR octet_length(ed_record) NOT BETWEEN 20 AND 1000
	    OR octet_length(rsa_sealed) NOT BETWEEN 100 AND 8192
	    OR octet_length(ed_sealed) NOT BETWEEN 100 AND 8192) THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status = 200 THEN
		INSERT INTO d.dkim_key (tenant_id, domain, pair, algo, selector,
		    record, sealed) VALUES (o.tenant, dkim_add_1.name,
		    dkim_add_1.pair, 'r', rsa, rsa_record, rsa_sealed),
		    (o.tenant, dkim_add_1.name, dkim_add_1.pair, 'e', ed,
		    ed_record, ed_sealed) ON CONFLICT DO NOTHING;
		GET DIAGNOSTICS c = ROW_COUNT;
		IF c = 1 THEN -- one selector of the two is another pair's
			DELETE FROM d.dkim_key k WHERE k.tenant_id = o.tenant
			    AND k.domain = dkim_add_1.name
			    AND k.pair = dkim_add_1.pair;
		END IF;
		IF c <> 2 THEN
			o.status := 409;
			o.code := 'state_conflict';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	PERFORM d.note(o.tenant, o.actor, 'dkim.add', NULL, json_build_object(
	    'domain', dkim_add_1.name, 'pair', dkim_add_1.pair)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

CREATE FUNCTION api.dkim_list_1(s bytea, uid bigint, name text)
	RETURNS TABLE (status int, code text, domain text, pair text, algo text,
	selector text, record text, use text, created_at timestamptz,
	used_at timestamptz, retired_at timestamptz) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record := d.ctl_domain(s, uid, name);
BEGIN
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, k.domain, k.pair, k.algo::text,
	    k.selector, k.record, CASE WHEN k.retired_at IS NOT NULL
	    THEN 'retired' WHEN k.used_at IS NOT NULL THEN 'signs'
	    ELSE 'new' END, k.created_at, k.used_at, k.retired_at
	    FROM d.dkim_key k WHERE k.tenant_id = o.tenant
	    AND k.domain = dkim_list_1.name ORDER BY k.created_at, k.pair,
	    k.selector;
END $$;

-- This pair signs from now on; the one before stays published for a while.
CREATE FUNCTION api.dkim_use_1(s bytea, uid bigint, name text, pair text)
	RETURNS TABLE (status int, code text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record := d.ctl_domain(s, uid, name);
	c int;
BEGIN
	IF o.status = 200 THEN
		UPDATE d.dkim_key k SET used_at = coalesce(k.used_at,
		    clock_timestamp()), retired_at = NULL
		    WHERE k.tenant_id = o.tenant AND k.domain = dkim_use_1.name
		    AND k.pair = dkim_use_1.pair;
		GET DIAGNOSTICS c = ROW_COUNT;
		IF c = 0 THEN
			o.status := 404;
			o.code := 'not_found';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	UPDATE d.dkim_key k SET retired_at = clock_timestamp()
	    WHERE k.tenant_id = o.tenant AND k.domain = dkim_use_1.name
	    AND k.pair <> dkim_use_1.pair AND k.used_at IS NOT NULL
	    AND k.retired_at IS NULL;
	PERFORM d.note(o.tenant, o.actor, 'dkim.use', NULL, json_build_object(
	    'domain', dkim_use_1.name, 'pair', dkim_use_1.pair)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

-- A pair that signed lately is still looked up by who received the mail.
CREATE FUNCTION api.dkim_remove_1(s bytea, uid bigint, name text, pair text,
	force boolean) RETURNS TABLE (status int, code text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record := d.ctl_domain(s, uid, name);
	c int;
BEGIN
	IF o.status = 200 AND NOT EXISTS (SELECT 1 FROM d.dkim_key k
	    WHERE k.tenant_id = o.tenant AND k.domain = dkim_remove_1.name
	    AND k.pair = dkim_remove_1.pair) THEN
		o.status := 404;
		o.code := 'not_found';
	ELSIF o.status = 200 THEN
		DELETE FROM d.dkim_key k WHERE k.tenant_id = o.tenant
		    AND k.domain = dkim_remove_1.name
		    AND k.pair = dkim_remove_1.pair AND (force
		    OR k.used_at IS NULL OR k.retired_at < clock_timestamp()
		    - interval '7 days');
		GET DIAGNOSTICS c = ROW_COUNT;
		IF c = 0 THEN
			o.status := 409;
			o.code := 'state_conflict';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	PERFORM d.note(o.tenant, o.actor, 'dkim.remove', NULL, json_build_object(
	    'domain', dkim_remove_1.name, 'pair', dkim_remove_1.pair)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

SET LOCAL ROLE p_owner;
GRANT SELECT ON d.domain TO p_relay;
CREATE POLICY p_relay_select ON d.domain FOR SELECT TO p_relay USING (true);
SET LOCAL ROLE p_relay;

-- The keys that sign for the sender of a leased message. No row: its domain
-- has none. 503: it has keys and none of them signs, so nothing may leave.
CREATE FUNCTION api.dkim_keys_1(t bigint, mid uuid, dom text, lease uuid)
	RETURNS TABLE (status int, code text, domain text, algo text,
	selector text, sealed bytea) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.msg = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	l record;
	d text;
BEGIN
	l := d.leased(t, mid, dom, lease, false);
	IF NOT l.alive THEN
		SELECT 409, 'state_conflict' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	SELECT x.domain INTO d FROM d.inbox x WHERE x.tenant_id = t
	    AND x.inbox_id = (l.q).inbox_id;
	RETURN QUERY SELECT 200, NULL::text, k.domain, k.algo::text, k.selector,
	    k.sealed FROM d.dkim_key k JOIN d.domain y ON y.domain = k.domain
	    AND y.tenant_id = k.tenant_id AND y.removed_at IS NULL
	    AND y.verified_at IS NOT NULL
	    WHERE k.tenant_id = t AND k.domain = d AND k.used_at IS NOT NULL
	    AND k.retired_at IS NULL ORDER BY k.algo DESC;
	IF NOT FOUND AND EXISTS (SELECT 1 FROM d.dkim_key k
	    WHERE k.tenant_id = t AND k.domain = d AND k.used_at IS NOT NULL)
	    THEN
		SELECT 503, 'store_unavailable' INTO status, code;
		RETURN NEXT;
	END IF;
END $$;

RESET ROLE;
SET LOCAL ROLE p_ctl;
GRANT EXECUTE ON FUNCTION api.dkim_add_1, api.dkim_list_1, api.dkim_use_1,
	api.dkim_remove_1 TO l_ctl;
SET LOCAL ROLE p_relay;
GRANT EXECUTE ON FUNCTION api.dkim_keys_1 TO l_worker;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_ctl, p_relay;
