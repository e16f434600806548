-- SPDX-License-Identifier: ISC
-- 0012_routes.sql - what operators say of where mail goes: wait, fail, go by
-- this host, or only over verified TLS. Each has an owner, a reason and an
-- end. Of those that fit, one that lets all mail wait or fail decides, then
-- the one for the inbox, for the tenant, and the one that names the domain.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_ctl, p_relay;

-- tenant_id 0: all; inbox_id 0: the whole tenant; domain '*': any.
CREATE TABLE d.route (
	route_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	domain text NOT NULL CHECK (domain = '*' OR domain = lower(domain)
	    AND octet_length(domain) BETWEEN 1 AND 255),
	action "char" NOT NULL CHECK (action IN ('s', 'b', 'r', 't')),
	host text CHECK (octet_length(host) BETWEEN 1 AND 255),
	port int CHECK (port BETWEEN 1 AND 65535),
	login text CHECK (octet_length(login) BETWEEN 1 AND 255),
	sealed bytea CHECK (octet_length(sealed) <= 2048),
	reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 1000),
	created_by text NOT NULL,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	expires_at timestamptz,
	ended_at timestamptz,
	PRIMARY KEY (route_id, tenant_id),
	CHECK (tenant_id > 0 OR inbox_id = 0),
	CHECK ((action = 'r') = (host IS NOT NULL AND port IS NOT NULL)),
	CHECK ((login IS NULL) = (sealed IS NULL)),
	CHECK (action = 'r' OR login IS NULL));
CREATE INDEX route_live ON d.route (tenant_id, inbox_id)
	WHERE ended_at IS NULL;
CREATE INDEX route_expires ON d.route (expires_at) WHERE ended_at IS NULL;
ALTER TABLE d.route ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE (ended_at) ON d.route TO p_ctl;
GRANT SELECT ON d.route TO p_relay;
CREATE POLICY p_ctl_all ON d.route TO p_ctl USING (true) WITH CHECK (true);
CREATE POLICY p_relay_select ON d.route FOR SELECT TO p_relay USING (true);

SET LOCAL ROLE p_ctl;

CREATE FUNCTION api.route_add_1(s bytea, uid bigint, tenant bigint,
	inbox bigint, name text, action text, host text, port int, login text,
	sealed bytea, expires_in int, reason text) RETURNS TABLE (status int,
	code text, route_id bigint) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record := d.ctl(s, uid, ARRAY['admin'], tenant, inbox);
	x text := lower(route_add_1.name);
	n bigint;
BEGIN
	IF o.status = 200 AND (coalesce(route_add_1.action, '')
	    NOT IN ('s', 'b', 'r', 't')
	    OR x IS NULL OR x <> '*' AND x !~ '^[a-z0-9_-]+([.][a-z0-9_-]+)*$'
	    OR octet_length(x) > 255 OR tenant IS NULL AND inbox IS NOT NULL
	    OR (route_add_1.action = 'r') <> (num_nonnulls(route_add_1.host,
	        route_add_1.port) = 2)
	    OR route_add_1.action <> 'r' AND num_nonnulls(route_add_1.host,
	        route_add_1.port, route_add_1.login) > 0
	    OR (route_add_1.login IS NULL) <> (route_add_1.sealed IS NULL)
	    OR octet_length(route_add_1.sealed) > 2048
	    OR octet_length(route_add_1.host) > 255 OR route_add_1.host
	    !~ '^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$'
	    OR octet_length(route_add_1.login) NOT BETWEEN 1 AND 255
	    OR route_add_1.port NOT BETWEEN 1 AND 65535
	    OR tenant IS NOT NULL AND route_add_1.port NOT IN (25, 465, 587, 2525)
	    OR expires_in < 1 OR coalesce(length(btrim(route_add_1.reason)), 0)
	    NOT BETWEEN 1 AND 1000) THEN
		o.status := 422;
		o.code := 'validation_error';
	ELSIF o.status = 200 AND inbox IS NOT NULL AND NOT EXISTS (SELECT 1
	    FROM d.inbox y WHERE y.tenant_id = tenant AND y.inbox_id = inbox)
	    THEN
		o.status := 404;
		o.code := 'not_found';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::bigint;
		RETURN;
	END IF;
	INSERT INTO d.route AS r (tenant_id, inbox_id, domain, action, host, port,
	    login, sealed, reason, created_by, expires_at)
	    VALUES (coalesce(tenant, 0), coalesce(inbox, 0), x,
	    route_add_1.action::"char", route_add_1.host, route_add_1.port,
	    route_add_1.login, route_add_1.sealed, route_add_1.reason, o.actor,
	    clock_timestamp() + expires_in * interval '1 second')
	    RETURNING r.route_id INTO n;
	IF route_add_1.action IN ('r', 'b') THEN
		PERFORM d.ways_changed(coalesce(tenant, 0), coalesce(inbox, 0), x);
	END IF;
	PERFORM d.note(coalesce(tenant, 0), o.actor, 'route.add', NULL,
	    json_build_object('route_id', n, 'inbox', inbox, 'domain', x,
	    'action', route_add_1.action, 'host', route_add_1.host, 'port',
	    route_add_1.port, 'reason', route_add_1.reason)::text);
	RETURN QUERY SELECT 200, NULL::text, n;
END $$;

CREATE FUNCTION api.route_end_1(s bytea, uid bigint, route bigint,
	reason text) RETURNS TABLE (status int, code text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record;
	r record;
BEGIN
	SELECT y.tenant_id, y.inbox_id, y.domain INTO r FROM d.route y
	    WHERE y.route_id = route AND y.ended_at IS NULL;
	o := d.ctl(s, uid, ARRAY['admin'], nullif(r.tenant_id, 0),
	    nullif(r.inbox_id, 0));
	IF o.status = 200 AND r.tenant_id IS NULL THEN
		o.status := 404;
		o.code := 'not_found';
	ELSIF o.status = 200 AND coalesce(length(btrim(reason)), 0)
	    NOT BETWEEN 1 AND 1000 THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code;
		RETURN;
	END IF;
	UPDATE d.route y SET ended_at = clock_timestamp()
	    WHERE y.route_id = route;
	PERFORM d.ways_changed(r.tenant_id, r.inbox_id, r.domain);
	PERFORM d.note(r.tenant_id, o.actor, 'route.end', NULL,
	    json_build_object('route_id', route, 'reason', reason)::text);
	RETURN QUERY SELECT 200, NULL::text;
END $$;

-- Rules that have run out end, as if somebody had ended them. Not more at once
-- than a claim tells the queue of, and none before it knows of the last. How
-- many.
CREATE FUNCTION d.routes_expire() RETURNS int LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	g record;
	n int := 0;
BEGIN
	FOR g IN UPDATE d.route r SET ended_at = z.expires_at FROM (
	    SELECT y.route_id, y.tenant_id, y.expires_at FROM d.route y
	    WHERE y.ended_at IS NULL AND y.expires_at <= clock_timestamp()
	    ORDER BY y.expires_at LIMIT 8 FOR UPDATE SKIP LOCKED) z
	    WHERE r.route_id = z.route_id AND r.tenant_id = z.tenant_id
	    RETURNING r.route_id, r.tenant_id, r.inbox_id, r.domain LOOP
		PERFORM d.ways_changed(g.tenant_id, g.inbox_id, g.domain),
		    d.note(g.tenant_id, 'worker:sweep', 'route.end', NULL,
		    json_build_object('route_id', g.route_id, 'reason',
		    'expired')::text);
		n := n + 1;
	END LOOP;
	RETURN n;
END $$;
GRANT EXECUTE ON FUNCTION d.routes_expire() TO p_relay;

CREATE FUNCTION api.routes_1(s bytea, uid bigint) RETURNS TABLE (status int,
	code text, route_id bigint, tenant text, inbox text, domain text,
	action text, host text, port int, login text, reason text,
	created_by text, created_at timestamptz, expires_at timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record := d.op(s);
BEGIN
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, r.route_id, n.slug, x.address,
	    r.domain, CASE r.action WHEN 's' THEN 'suspend' WHEN 'b' THEN 'bounce'
	    WHEN 'r' THEN 'relay' ELSE 'tls' END, r.host, r.port, r.login,
	    r.reason, r.created_by, r.created_at, r.expires_at
	    FROM d.route r LEFT JOIN d.tenant n ON n.tenant_id = r.tenant_id
	    LEFT JOIN d.inbox x ON x.tenant_id = r.tenant_id
	        AND x.inbox_id = r.inbox_id
	    WHERE r.ended_at IS NULL AND (r.expires_at IS NULL
	    OR r.expires_at > clock_timestamp()) AND (r.tenant_id = 0
	    OR r.tenant_id = ANY (d.cur_tenants())) ORDER BY r.route_id;
END $$;

SET LOCAL ROLE p_relay;

-- The rules that decide how an inbox' mail to a domain goes: at most one with
-- action s, b or r, and one with t. tenant_id 0: the choice of who administers
-- everything.
CREATE FUNCTION d.routes_of(t bigint, i bigint, dom text) RETURNS SETOF d.route
	LANGUAGE sql STABLE AS $$
	SELECT DISTINCT ON (r.action = 't') r.* FROM d.route r
	WHERE r.tenant_id IN (0, t) AND r.inbox_id IN (0, i)
	AND r.domain IN ('*', dom) AND r.ended_at IS NULL
	AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())
	ORDER BY r.action = 't', r.tenant_id <> 0 OR r.action = 'r',
	r.inbox_id = 0, r.tenant_id = 0, r.domain = '*', r.route_id DESC
$$;

-- The way that a rule has mail go: by its host, '#' and the rule's number, or
-- '-', nowhere, as it refuses it.
CREATE FUNCTION d.route_way(t bigint, i bigint, dom text) RETURNS text
	LANGUAGE sql STABLE
	RETURN (SELECT CASE r.action WHEN 'r' THEN '#' || r.route_id
	    WHEN 'b' THEN '-' END FROM d.routes_of(t, i, dom) r
	    WHERE r.action <> 't');

-- May this go, or why need nobody claim it? As send_q.aside says it: 2 where
-- that holds for all who write to the domain, and the inbox has no rule of its
-- own for it, now or when another ends. `skip` has ways that take nothing now:
-- a rule's, a domain's by MX, and first of all '*' for what a smarthost gets.
CREATE FUNCTION d.rule_bars(t bigint, i bigint, dom text, skip text[])
	RETURNS smallint LANGUAGE sql STABLE
	RETURN coalesce((SELECT CASE WHEN r.action = 's' OR r.action = 'r'
	    AND '#' || r.route_id = ANY (skip) THEN CASE WHEN r.tenant_id = 0
	    AND r.domain <> '*' AND (t = 0 OR NOT EXISTS (SELECT 1 FROM d.route o
	        WHERE o.tenant_id = t AND o.inbox_id IN (0, i)
	        AND o.domain IN ('*', dom) AND o.ended_at IS NULL))
	    THEN 2 ELSE 1 END ELSE 0 END
	    FROM d.routes_of(t, i, dom) r WHERE r.action <> 't'),
	    CASE WHEN skip[1] = '*' THEN 1 WHEN dom = ANY (skip) THEN 2
	    ELSE 0 END)::smallint;
-- The same; `rules`: there are some.
CREATE FUNCTION d.route_bars(t bigint, i bigint, dom text, skip text[],
	rules boolean) RETURNS smallint LANGUAGE sql STABLE
	RETURN CASE WHEN rules THEN d.rule_bars(t, i, dom, skip)
	WHEN skip[1] = '*' THEN 1 WHEN dom = ANY (skip) THEN 2 ELSE 0 END;

-- May this go? 0, or why no claim need take it, as send_q.aside says it.
CREATE FUNCTION d.claim_bars(x d.inbox, n d.tenant, dom text, skip text[],
	rules boolean) RETURNS smallint LANGUAGE sql STABLE
	RETURN CASE WHEN x.paused_at IS NOT NULL OR x.suspended_at IS NOT NULL
	    OR n.paused_at IS NOT NULL OR n.disabled_at IS NOT NULL THEN 1
	WHEN x.test THEN 0
	WHEN rules THEN d.rule_bars(x.tenant_id, x.inbox_id, dom, skip)
	WHEN skip[1] = '*' THEN 1 WHEN dom = ANY (skip) THEN 2 ELSE 0 END;

-- How leased mail goes.
CREATE FUNCTION api.route_1(t bigint, mid uuid, dom text, lease uuid)
	RETURNS TABLE (status int, code text, action text, host text, port int,
	login text, sealed bytea, tenant_id bigint, inbox_id bigint, domain text,
	reason text, route_id bigint) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.msg = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	l record;
BEGIN
	l := d.leased(t, mid, dom, lease, false);
	IF NOT l.alive THEN
		SELECT 409, 'state_conflict' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, r.action::text, r.host, r.port,
	    r.login, r.sealed, r.tenant_id, r.inbox_id, r.domain, r.reason,
	    r.route_id FROM d.routes_of(t, (l.q).inbox_id, dom) r ORDER BY r.action = 't';
END $$;

RESET ROLE;
SET LOCAL ROLE p_ctl;
GRANT EXECUTE ON FUNCTION api.route_add_1, api.route_end_1, api.routes_1
	TO l_ctl;
SET LOCAL ROLE p_relay;
GRANT EXECUTE ON FUNCTION api.route_1 TO l_worker;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_ctl, p_relay;
