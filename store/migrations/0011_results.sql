-- SPDX-License-Identifier: ISC
-- 0011_results.sql - what follows from how a delivery ended: addresses that
-- do not exist are not written to again, and a person settles what only may
-- have been sent.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_ctl, p_relay;

-- A worker suppresses for one tenant, never lifts and never blocks.
GRANT INSERT (tenant_id, inbox_id, entry, verdict, expires_at, reason,
	created_by) ON d.list_entry TO p_relay;
CREATE POLICY p_relay_insert ON d.list_entry FOR INSERT TO p_relay
	WITH CHECK (tenant_id > 0 AND inbox_id = 0 AND verdict = 's'
	AND created_by = 'worker' AND expires_at IS NOT NULL);

SET LOCAL ROLE p_relay;

-- RFC 3463: bad mailbox, bad domain, moved, null MX, mailbox disabled. What a
-- host says of one message, or of us, is no reason.
CREATE FUNCTION d.suppress(t bigint, mid uuid, dom text, rows_ix int[])
	RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO d.list_entry (tenant_id, inbox_id, entry, verdict,
	    expires_at, reason, created_by)
	    SELECT t, 0, v.canon, 's', clock_timestamp() + CASE WHEN v.enhanced
	    IN ('5.1.2', '5.1.10') THEN interval '7 days'
	    ELSE interval '90 days' END, left('bounced: '
	    || concat_ws(' ', v.reply_code, v.enhanced, v.reply), 300), 'worker'
	    FROM d.delivery v WHERE v.message_id = mid AND v.tenant_id = t
	    AND v.domain = dom AND v.status = 5 AND v.ix::int = ANY (rows_ix)
	    AND v.enhanced IN ('5.1.1', '5.1.2', '5.1.3', '5.1.6', '5.1.10',
	        '5.2.1')
	    AND NOT EXISTS (SELECT 1 FROM d.list_entry e WHERE e.entry = v.canon
	        AND e.tenant_id IN (0, t) AND e.inbox_id = 0
	        AND e.ended_at IS NULL AND (e.expires_at IS NULL
	        OR e.expires_at > clock_timestamp()));
END $$;

SET LOCAL ROLE p_owner;
GRANT SELECT (message_id, tenant_id, domain, n, mx, tls, dot_at) ON d.attempt
	TO p_ctl;
CREATE POLICY p_ctl_select ON d.attempt FOR SELECT TO p_ctl USING (true);
SET LOCAL ROLE p_ctl;

-- What may have been sent, oldest first, of one message or of all.
CREATE FUNCTION api.uncertain_list_1(s bytea, uid bigint, mid uuid)
	RETURNS TABLE (status int, code text, message_id uuid, ix int,
	inbox text, recipient text, mx text, dot_at timestamptz, reply text)
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
	RETURN QUERY SELECT 200, NULL::text, v.message_id, v.ix::int, x.address,
	    v.canon, a.mx, a.dot_at, v.reply
	    FROM d.state y JOIN d.delivery v ON v.message_id = y.message_id
	        AND v.tenant_id = y.tenant_id AND v.status = 6
	    JOIN d.inbox x ON x.tenant_id = y.tenant_id
	        AND x.inbox_id = y.inbox_id
	    LEFT JOIN LATERAL (SELECT z.mx, z.dot_at FROM d.attempt z
	        WHERE z.message_id = v.message_id AND z.tenant_id = v.tenant_id
	        AND z.domain = v.domain AND z.dot_at IS NOT NULL
	        ORDER BY z.n DESC LIMIT 1) a ON true
	    WHERE y.state IN (7, 9, 11)
	    AND (mid IS NULL OR y.message_id = uncertain_list_1.mid)
	    AND (y.tenant_id = ANY (d.cur_tenants()) OR (y.tenant_id::text || '.'
	        || y.inbox_id::text) = ANY (d.cur_boxes()))
	    ORDER BY v.message_id, v.ix LIMIT 1000;
END $$;

-- A person knows what happened; only that one with `recipient`.
CREATE FUNCTION api.uncertain_resolve_1(s bytea, uid bigint, mid uuid,
	recipient text, outcome text, note text) RETURNS TABLE (status int, code text,
	state smallint) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT * FROM api.uncertain_1(s, mid,
	    (SELECT coalesce(array_agg(v.ix::int), '{}') FROM d.delivery v
	    WHERE v.message_id = uncertain_resolve_1.mid AND v.status = 6
	    AND (recipient IS NULL OR v.canon = d.canon(recipient))), outcome, note);
END $$;

RESET ROLE;
SET LOCAL ROLE p_review;
GRANT EXECUTE ON FUNCTION api.uncertain_1 TO p_ctl;
SET LOCAL ROLE p_ctl;
GRANT EXECUTE ON FUNCTION api.uncertain_list_1, api.uncertain_resolve_1
	TO l_ctl;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_ctl, p_relay;
