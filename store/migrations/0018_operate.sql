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
	RETURN QUERY SELECT 'foreign keys', coalesce(sum(o.looked), 0)::bigint,
	    coalesce(sum(o.broken), 0)::bigint,
	    min(c.conname::text) FILTER (WHERE o.broken > 0)
	    FROM pg_constraint c, d.orphans(c.oid) o WHERE c.contype = 'f'
	    AND c.connamespace = 'd'::regnamespace AND c.conparentid = 0;
END $$;

RESET ROLE;
