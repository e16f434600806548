-- SPDX-License-Identifier: ISC
-- What a superuser asks after a restore (posternctl database verify); nobody else may,
-- and row-level security would hide the rows from everybody else.

SET LOCAL ROLE p_owner;

-- Rows of `child` whose foreign key names a row that is not there.
CREATE FUNCTION d.orphans(fk oid, OUT looked bigint, OUT broken bigint)
	LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	k record;
	pairs text;
	given text;
BEGIN
	SELECT * INTO k FROM pg_constraint c WHERE c.oid = fk;
	SELECT string_agg(format('p.%I = c.%I', a.attname, b.attname), ' AND '),
	    string_agg(format('c.%I IS NOT NULL', b.attname), ' AND ')
	    INTO pairs, given
	    FROM unnest(k.confkey, k.conkey) u(there, here)
	    JOIN pg_attribute a ON a.attrelid = k.confrelid
	        AND a.attnum = u.there
	    JOIN pg_attribute b ON b.attrelid = k.conrelid AND b.attnum = u.here;
	EXECUTE format('SELECT count(*), count(*) FILTER (WHERE %s AND NOT EXISTS '
	    '(SELECT 1 FROM %s p WHERE %s)) FROM %s c', given,
	    k.confrelid::regclass, pairs, k.conrelid::regclass)
	    INTO looked, broken;
END $$;

CREATE FUNCTION d.verify(sample int) RETURNS TABLE (what text, looked bigint,
	broken bigint, example text) LANGUAGE plpgsql
	SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	IF NOT (SELECT r.rolsuper OR r.rolbypassrls FROM pg_roles r
	    WHERE r.rolname = current_user) THEN
		RAISE EXCEPTION 'only a superuser sees every row';
	END IF;
	RETURN QUERY SELECT 'digests', count(*), count(*) FILTER (WHERE NOT z.good),
	    min(z.message_id::text) FILTER (WHERE NOT z.good)
	    FROM (SELECT m.message_id, m.digest = d.digest_1(m.tenant_id,
	        m.inbox_id, m.message_id, m.version, m.test, m.mail_from, m.rcpt,
	        m.params, m.size, m.body_tag, m.send_at, m.not_after) AS good
	        FROM d.message m WHERE m.message_id IN (SELECT y.message_id
	        FROM d.message y ORDER BY random() LIMIT sample)) z;
	RETURN QUERY SELECT 'bodies', count(*), count(*) FILTER (WHERE z.n < z.chunks),
	    min(z.message_id::text) FILTER (WHERE z.n < z.chunks)
	    FROM (SELECT m.message_id, m.chunks, (SELECT count(*) FROM d.body b
	        WHERE b.message_id = m.message_id AND b.tenant_id = m.tenant_id
	        AND b.version = m.version) AS n FROM d.message m
	        JOIN d.state s ON s.message_id = m.message_id
	        AND s.tenant_id = m.tenant_id WHERE s.state IN (1, 2, 7, 9, 11)
	        AND s.version = m.version) z;
	-- What is told without looking at every row, against every row.
	RETURN QUERY SELECT 'counters', count(*), count(*) FILTER (WHERE NOT z.good),
	    min('inbox ' || z.inbox_id) FILTER (WHERE NOT z.good)
	    FROM (SELECT q.inbox_id, q.held = coalesce(c.n, 0)
	        AND q.held_bytes = coalesce(c.b, 0) AS good FROM d.quota q
	        LEFT JOIN (SELECT s.tenant_id, s.inbox_id, count(*) AS n,
	            sum(m.size) AS b FROM d.state s
	            JOIN d.message m USING (message_id, tenant_id, version)
	            WHERE s.state = 1 GROUP BY 1, 2) c
	        USING (tenant_id, inbox_id)) z;
	RETURN QUERY SELECT 'states', count(*), count(*) FILTER (WHERE NOT z.good),
	    min(z.message_id::text) FILTER (WHERE NOT z.good)
	    FROM (SELECT message_id, m.digest IS NOT NULL AND s.state IS NOT NULL
	        AND (s.state NOT IN (8, 9, 10, 11)
	            OR s.state = d.derived(message_id, tenant_id))
	        AND coalesce((SELECT e.state FROM d.event e
	            WHERE e.message_id = s.message_id
	            AND e.tenant_id = s.tenant_id ORDER BY e.n DESC LIMIT 1), 1)
	            = s.state AS good
	        FROM (SELECT * FROM d.message x WHERE x.version = (SELECT
	            max(y.version) FROM d.message y
	            WHERE y.message_id = x.message_id
	            AND y.tenant_id = x.tenant_id)) m
	        FULL JOIN d.state s USING (message_id, tenant_id, inbox_id,
	            version)) z;
	RETURN QUERY SELECT 'queue', count(*), count(*) FILTER (WHERE NOT z.good),
	    min(z.message_id::text) FILTER (WHERE NOT z.good)
	    FROM (SELECT message_id, (v.n IS NOT NULL
	        AND s.state IN (2, 7, 9, 11)) = (q.digest IS NOT NULL) AS good
	        FROM (SELECT message_id, tenant_id, domain, count(*) AS n
	            FROM d.delivery WHERE status IN (0, 1, 2, 4)
	            GROUP BY 1, 2, 3) v
	        FULL JOIN d.send_q q USING (message_id, tenant_id, domain)
	        JOIN d.state s USING (message_id, tenant_id)) z;
	RETURN QUERY SELECT 'foreign keys', coalesce(sum(o.looked), 0)::bigint,
	    coalesce(sum(o.broken), 0)::bigint,
	    min(c.conname::text) FILTER (WHERE o.broken > 0)
	    FROM pg_constraint c, d.orphans(c.oid) o WHERE c.contype = 'f'
	    AND c.connamespace = 'd'::regnamespace AND c.conparentid = 0;
END $$;

RESET ROLE;

-- Inboxes and tenants that end: keys that open what they stored are removed,
-- and what lies anywhere else, in a replica or a dump, stays closed.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_ctl;
GRANT SELECT, DELETE ON d.key_wrap, d.inbox_key, d.tenant_key, d.address
	TO p_owner;
GRANT SELECT ON d.inbox TO p_owner;
CREATE POLICY p_owner_end ON d.key_wrap TO p_owner USING (true);
CREATE POLICY p_owner_end ON d.inbox_key TO p_owner USING (true);
CREATE POLICY p_owner_end ON d.tenant_key TO p_owner USING (true);
CREATE POLICY p_owner_end ON d.address TO p_owner USING (true);
CREATE POLICY p_owner_end ON d.inbox FOR SELECT TO p_owner USING (true);
CREATE POLICY p_owner_end ON d.draft FOR DELETE TO p_owner
	USING (EXISTS (SELECT 1 FROM d.inbox x WHERE x.tenant_id = draft.tenant_id
	    AND x.inbox_id = draft.inbox_id AND x.deleted_at IS NOT NULL));

CREATE FUNCTION d.shred(t bigint, i bigint) RETURNS void LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	DELETE FROM d.key_wrap k WHERE k.tenant_id = t AND (i IS NULL
	    OR k.inbox_id = i);
	DELETE FROM d.inbox_key k WHERE k.tenant_id = t AND (i IS NULL
	    OR k.inbox_id = i);
	IF i IS NULL THEN
		DELETE FROM d.tenant_key k WHERE k.tenant_id = t;
	END IF;
END $$;
GRANT EXECUTE ON FUNCTION d.shred(bigint, bigint) TO p_ctl;

-- Of inboxes that ended: drafts, which nothing opens any more, and bodies at
-- once, 1,000 messages a call; the address after 90 days, when somebody else
-- may have it.
CREATE FUNCTION d.sweep_ended() RETURNS int LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	n int;
BEGIN
	DELETE FROM d.body b USING (SELECT s.message_id, s.tenant_id
	    FROM d.inbox x JOIN d.state s ON s.tenant_id = x.tenant_id
	    AND s.inbox_id = x.inbox_id WHERE x.deleted_at IS NOT NULL
	    AND s.state IN (3, 4, 5, 8, 10) AND EXISTS (SELECT 1 FROM d.body y
	        WHERE y.message_id = s.message_id AND y.tenant_id = s.tenant_id)
	    LIMIT 1000) s WHERE b.message_id = s.message_id
	    AND b.tenant_id = s.tenant_id;
	GET DIAGNOSTICS n = ROW_COUNT;
	DELETE FROM d.draft y USING d.inbox x WHERE x.tenant_id = y.tenant_id
	    AND x.inbox_id = y.inbox_id AND x.deleted_at IS NOT NULL;
	DELETE FROM d.address a USING d.inbox x WHERE x.tenant_id = a.tenant_id
	    AND x.inbox_id = a.inbox_id
	    AND x.deleted_at < clock_timestamp() - interval '90 days';
	RETURN n;
END $$;
GRANT EXECUTE ON FUNCTION d.sweep_ended() TO p_ctl;

-- Of tenants that ended: whole messages, 1,000 a call, with what was said and
-- decided about them (0084); behind the last of them, what else names people
-- or opens something. What is on its way stays until it has ended.
DO $$
DECLARE
	k text;
BEGIN
	FOREACH k IN ARRAY ARRAY['tenant', 'message', 'state', 'word', 'decision',
	    'release', 'delivery', 'attempt', 'event', 'comment', 'look', 'draft',
	    'list_entry', 'allow_rule', 'secret', 'route', 'dkim_key',
	    'one_click_key', 'agent_session'] LOOP
		EXECUTE format('GRANT SELECT, DELETE ON d.%I TO p_owner', k);
		EXECUTE format('CREATE POLICY p_owner_gone ON d.%I FOR SELECT '
		    'TO p_owner USING (true)', k);
		CONTINUE WHEN k = 'tenant';
		EXECUTE format('CREATE POLICY p_owner_goes ON d.%I FOR DELETE '
		    'TO p_owner USING (EXISTS (SELECT 1 FROM d.tenant g WHERE '
		    'g.tenant_id = %I.tenant_id AND g.deleted_at IS NOT NULL))',
		    k, k);
	END LOOP;
END $$;
REVOKE DELETE ON d.tenant FROM p_owner;

CREATE FUNCTION d.sweep_tenants() RETURNS int LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	t bigint;
	k text;
	ids uuid[];
	n int := 0;
BEGIN
	FOR t IN SELECT x.tenant_id FROM d.tenant x
	    WHERE x.deleted_at IS NOT NULL ORDER BY 1 LOOP
		ids := ARRAY(SELECT s.message_id FROM d.state s
		    WHERE s.tenant_id = t AND s.stays <> 1
		    AND s.state IN (3, 4, 5, 8, 10)
		    AND NOT EXISTS (SELECT 1 FROM d.send_q q
		        WHERE q.message_id = s.message_id AND q.tenant_id = t)
		    LIMIT 1000 - n);
		IF cardinality(ids) > 0 THEN
			FOREACH k IN ARRAY ARRAY['comment', 'dsn', 'event', 'attempt',
			    'delivery', 'release', 'decision', 'decision_proof', 'body',
			    'word', 'message_label', 'look', 'capture', 'state',
			    'message'] LOOP
				EXECUTE format('DELETE FROM d.%I x WHERE x.tenant_id = $1 '
				    'AND x.message_id = ANY ($2)', k) USING t, ids;
			END LOOP;
			n := n + cardinality(ids);
		END IF;
		EXIT WHEN n >= 1000;
		CONTINUE WHEN EXISTS (SELECT 1 FROM d.state s
		    WHERE s.tenant_id = t);
		FOREACH k IN ARRAY ARRAY['idem', 'draft', 'list_entry',
		    'allow_rule', 'secret', 'route', 'dkim_key',
		    'one_click_key', 'agent_session'] LOOP
			EXECUTE format('DELETE FROM d.%I x WHERE x.tenant_id = $1', k)
			    USING t;
		END LOOP;
	END LOOP;
	RETURN n;
END $$;
GRANT EXECUTE ON FUNCTION d.sweep_tenants() TO p_ctl;

SET LOCAL ROLE p_ctl;

-- What waits goes back to held and ends there, as expired; what is being sent
-- or may have been sent ends as it does.
CREATE FUNCTION d.inbox_end(t bigint, i bigint, actor text, reason text,
	OUT ended int) LANGUAGE plpgsql AS $$
DECLARE
	m record;
BEGIN
	ended := 0;
	UPDATE d.inbox x SET deleted_at = clock_timestamp(),
	    suspended_at = coalesce(x.suspended_at, clock_timestamp()),
	    display_name = NULL, metadata = NULL, client_id = NULL
	    WHERE x.tenant_id = t AND x.inbox_id = i;
	UPDATE d.credential r SET revoked_at = clock_timestamp()
	    WHERE r.tenant_id = t AND r.inbox_id = i AND r.revoked_at IS NULL;
	UPDATE d.claim c SET expires_at = clock_timestamp()
	    WHERE c.tenant_id = t AND c.inbox_id = i
	    AND c.expires_at > clock_timestamp();
	PERFORM d.states_hold(array_agg(y.message_id), array_agg(y.tenant_id))
	    FROM d.state y WHERE y.tenant_id = t AND y.inbox_id = i
	    AND y.state IN (1, 2, 9);
	FOR m IN SELECT y.message_id, y.state FROM d.state y
	    WHERE y.tenant_id = t AND y.inbox_id = i AND y.state IN (1, 2, 9)
	    ORDER BY y.message_id FOR UPDATE OF y LOOP
		IF m.state <> 1 THEN
			PERFORM d.forget_leases(m.message_id, t);
		END IF;
		UPDATE d.state y SET state = 1, detail = 'the inbox was deleted',
		    round = y.round + (y.state <> 1)::int,
		    hold_until = clock_timestamp()
		    WHERE y.message_id = m.message_id AND y.tenant_id = t;
		ended := ended + 1;
	END LOOP;
	PERFORM d.permits_end(t, i, actor), d.shred(t, i),
	    d.note(t, actor, 'inbox.delete', NULL,
	    json_build_object('inbox', i, 'ended', ended, 'reason',
	    left(reason, 1000))::text);
END $$;

CREATE FUNCTION api.inbox_delete_1(s bytea, uid bigint, tenant bigint,
	inbox bigint, reason text) RETURNS TABLE (status int, code text,
	ended int, unreadable int) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	c int;
	n int;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin'], tenant, inbox);
	IF o.status = 200 AND coalesce(length(btrim(reason)), 0)
	    NOT BETWEEN 1 AND 1000 THEN
		o.status := 422;
		o.code := 'validation_error';
	ELSIF o.status = 200 AND NOT o.step_up THEN
		o.status := 403;
		o.code := 'step_up_required';
	ELSIF o.status = 200 THEN
		PERFORM 1 FROM d.inbox x WHERE x.tenant_id = tenant
		    AND x.inbox_id = inbox AND x.deleted_at IS NULL FOR UPDATE;
		IF NOT FOUND THEN
			o.status := 404;
			o.code := 'not_found';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::int, NULL::int;
		RETURN;
	END IF;
	PERFORM set_config('synchronous_commit', 'on', true),
	    set_config('postern.actor', o.actor, true);
	SELECT count(*) INTO n FROM d.message m WHERE m.tenant_id = tenant
	    AND m.inbox_id = inbox;
	c := d.inbox_end(tenant, inbox, o.actor, reason);
	RETURN QUERY SELECT 200, NULL::text, c, n;
END $$;

CREATE FUNCTION api.tenant_delete_1(s bytea, uid bigint, tenant bigint,
	slug text, reason text) RETURNS TABLE (status int, code text,
	inboxes int, ended int) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	x record;
	c int := 0;
	n int := 0;
BEGIN
	-- Of the whole deployment: nobody ends the tenant that named them.
	o := d.ctl(s, uid, ARRAY['admin'], NULL, NULL);
	IF o.status = 200 AND coalesce(length(btrim(reason)), 0)
	    NOT BETWEEN 1 AND 1000 THEN
		o.status := 422;
		o.code := 'validation_error';
	ELSIF o.status = 200 AND NOT o.step_up THEN
		o.status := 403;
		o.code := 'step_up_required';
	ELSIF o.status = 200 THEN
		PERFORM 1 FROM d.tenant y WHERE y.tenant_id = tenant
		    AND y.slug = tenant_delete_1.slug FOR UPDATE;
		IF NOT FOUND THEN
			o.status := 404;
			o.code := 'not_found';
		END IF;
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::int, NULL::int;
		RETURN;
	END IF;
	PERFORM set_config('synchronous_commit', 'on', true),
	    set_config('postern.actor', o.actor, true);
	UPDATE d.tenant y SET disabled_at = coalesce(y.disabled_at,
	    clock_timestamp()), deleted_at = coalesce(y.deleted_at,
	    clock_timestamp()), name = '' WHERE y.tenant_id = tenant;
	-- All inboxes first, so that nothing comes to them; then all that waits, and
	-- only then, one after the other, their counters (d.states_hold).
	PERFORM 1 FROM d.inbox y WHERE y.tenant_id = tenant
	    AND y.deleted_at IS NULL ORDER BY y.inbox_id FOR UPDATE;
	PERFORM d.states_hold(array_agg(y.message_id), array_agg(y.tenant_id))
	    FROM d.state y WHERE y.tenant_id = tenant AND y.state IN (1, 2, 9);
	FOR x IN SELECT y.inbox_id FROM d.inbox y WHERE y.tenant_id = tenant
	    AND y.deleted_at IS NULL ORDER BY y.inbox_id LOOP
		c := c + d.inbox_end(tenant, x.inbox_id, o.actor, reason);
		n := n + 1;
	END LOOP;
	UPDATE d.domain y SET removed_at = clock_timestamp()
	    WHERE y.tenant_id = tenant AND y.removed_at IS NULL;
	PERFORM d.shred(tenant, NULL), d.note(tenant, o.actor, 'tenant.delete',
	    NULL, json_build_object('inboxes', n, 'ended', c, 'reason',
	    left(reason, 1000))::text);
	RETURN QUERY SELECT 200, NULL::text, n, c;
END $$;

-- Everything about a tenant that is in clear, a page at a time: JSON objects
-- behind `after`, at most `lim`. Bodies are sealed; each inbox reads its own.
CREATE FUNCTION api.tenant_export_1(s bytea, uid bigint, tenant bigint,
	what text, after text, lim int) RETURNS TABLE (status int, code text,
	place text, object text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	top int := least(greatest(coalesce(lim, 0), 1), 1000);
BEGIN
	o := d.ctl(s, uid, ARRAY['admin', 'auditor'], tenant, NULL);
	IF o.status = 200 AND coalesce(what, '') NOT IN ('tenant', 'messages') THEN
		o.status := 422;
		o.code := 'validation_error';
	END IF;
	IF o.status <> 200 THEN
		RETURN QUERY SELECT o.status, o.code, NULL::text, NULL::text;
	ELSIF what = 'tenant' THEN
		PERFORM d.note(tenant, o.actor, 'tenant.export', NULL, '{}');
		RETURN QUERY SELECT 200, NULL::text, 'end'::text, json_build_object(
		    'slug', t.slug, 'name', t.name, 'created_at', t.created_at,
		    'domains', (SELECT json_agg(json_build_object('domain',
		        y.domain, 'verified_at', y.verified_at, 'removed_at',
		        y.removed_at) ORDER BY y.domain) FROM d.domain y
		        WHERE y.tenant_id = tenant),
		    'inboxes', (SELECT json_agg(json_build_object('address',
		        x.address, 'display_name', x.display_name, 'metadata',
		        x.metadata, 'mode', x.mode, 'plan', x.plan, 'created_at',
		        x.created_at, 'deleted_at', x.deleted_at)
		        ORDER BY x.inbox_id) FROM d.inbox x
		        WHERE x.tenant_id = tenant))::text
		    FROM d.tenant t WHERE t.tenant_id = tenant
		    AND coalesce(after, '') = '';
	ELSE
		RETURN QUERY SELECT 200, NULL::text, m.message_id::text,
		    json_build_object('message_id', m.message_id, 'from',
		    m.mail_from, 'to', m.rcpt, 'subject', m.subject,
		    'rfc_message_id', m.rfc_message_id, 'digest',
		    encode(m.digest, 'hex'), 'version', m.version, 'state', z.state,
		    'created_at', m.created_at, 'changed_at', z.changed_at,
		    'events', (SELECT coalesce(json_agg(json_build_object('at', e.at,
		        'type', e.type, 'actor', e.actor, 'detail', e.detail)
		        ORDER BY e.n), '[]') FROM d.event e
		        WHERE e.message_id = m.message_id
		        AND e.tenant_id = tenant))::text
		    FROM d.message m JOIN d.state z ON z.message_id = m.message_id
		        AND z.tenant_id = m.tenant_id AND z.version = m.version
		    WHERE m.tenant_id = tenant AND m.message_id > coalesce(
		    nullif(after, ''), '00000000-0000-0000-0000-000000000000')::uuid
		    ORDER BY m.message_id LIMIT top;
	END IF;
END $$;

GRANT EXECUTE ON FUNCTION api.inbox_delete_1, api.tenant_delete_1,
	api.tenant_export_1 TO l_ctl;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_ctl;
RESET ROLE;
