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
-- host says of one message, of us, or of several at once, is no reason: the
-- caller names those of which it was said (decision 0135).
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

-- Who got mail says no more (RFC 8058): the link of decision 0085 ------------

SET LOCAL ROLE p_owner;

-- Its token names a message and a recipient; this makes it one that nobody
-- else can make. Readable where tokens are made and looked at, nowhere else.
CREATE TABLE d.one_click_key (
	tenant_id bigint PRIMARY KEY REFERENCES d.tenant,
	key bytea NOT NULL CHECK (octet_length(key) = 32),
	created_at timestamptz NOT NULL DEFAULT clock_timestamp());
ALTER TABLE d.one_click_key ENABLE ROW LEVEL SECURITY,
	FORCE ROW LEVEL SECURITY;
GRANT SELECT ON d.one_click_key TO p_relay;
CREATE POLICY p_relay_select ON d.one_click_key FOR SELECT TO p_relay
	USING (true);
GRANT INSERT (tenant_id, key) ON d.one_click_key TO p_ctl;
CREATE POLICY p_ctl_insert ON d.one_click_key FOR INSERT TO p_ctl
	WITH CHECK (true);

-- For the inbox that wrote, for as long as no operator lifts it.
CREATE POLICY p_relay_unsubscribe ON d.list_entry FOR INSERT TO p_relay
	WITH CHECK (tenant_id > 0 AND inbox_id > 0 AND verdict = 's'
	AND created_by = 'recipient' AND expires_at IS NULL);
CREATE UNIQUE INDEX list_entry_recipient ON d.list_entry (tenant_id, inbox_id,
	entry) WHERE created_by = 'recipient' AND ended_at IS NULL;

SET LOCAL ROLE p_relay;

-- 16 octets. All parts have a fixed length, so the nested hash is a MAC.
CREATE FUNCTION d.one_click_mac(key bytea, t bigint, mid uuid, ix int)
	RETURNS bytea LANGUAGE sql IMMUTABLE STRICT
	RETURN substr(sha256(key || sha256(key
	    || '\x706f737465726e2e6f6e655f636c69636b2e31'::bytea
	    || int8send(t) || uuid_send(mid) || int4send(ix))), 1, 16);
-- What hides the recipient's number, which would tell how many others got it.
CREATE FUNCTION d.one_click_mask(key bytea, mac bytea) RETURNS int
	LANGUAGE sql IMMUTABLE STRICT
	RETURN (SELECT get_byte(h, 0) * 256 + get_byte(h, 1)
	    FROM (SELECT sha256(key || mac)) x (h));

-- The token of a recipient whose message is leased: 34 octets, id, hidden
-- number, MAC. NULL: it gets no link, as the inbox has none or it is the copy
-- for oversight, which nobody but an operator ends.
CREATE FUNCTION api.one_click_1(t bigint, mid uuid, dom text, lease uuid,
	ix int) RETURNS TABLE (status int, code text, token bytea)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.msg = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	l record;
	r record;
	mac bytea;
BEGIN
	l := d.leased(t, mid, dom, lease, false);
	IF NOT l.alive THEN
		RETURN QUERY SELECT 409, 'state_conflict', NULL::bytea;
		RETURN;
	END IF;
	SELECT k.key, x.one_click AND substr(m.rcpt_kind, one_click_1.ix, 1)
	    <> 'o' AND v.canon IS DISTINCT FROM d.canon(x.oversight) AS wanted
	    INTO r FROM d.delivery v
	    JOIN d.message m ON m.message_id = mid AND m.tenant_id = t
	        AND m.version = (l.q).version
	    JOIN d.inbox x ON x.tenant_id = t AND x.inbox_id = v.inbox_id
	    LEFT JOIN d.one_click_key k ON k.tenant_id = t
	    WHERE v.message_id = mid AND v.tenant_id = t AND v.domain = dom
	    AND v.ix::int = one_click_1.ix;
	IF NOT FOUND THEN
		RETURN QUERY SELECT 422, 'validation_error', NULL::bytea;
		RETURN;
	END IF;
	IF r.wanted AND r.key IS NOT NULL THEN
		mac := d.one_click_mac(r.key, t, mid, one_click_1.ix);
	END IF;
	RETURN QUERY SELECT 200, NULL::text, uuid_send(mid) || substr(int4send(
	    one_click_1.ix # d.one_click_mask(r.key, mac)), 3) || mac;
END $$;

-- Whose token it is has no more mail from that inbox. All that is no live
-- token is answered alike. Once is enough: `fresh` says that this was it.
CREATE FUNCTION api.unsubscribe_1(token bytea) RETURNS TABLE (status int,
	code text, fresh boolean) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.msg = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	mid uuid;
	mac bytea := substr(unsubscribe_1.token, 19);
	r record;
	entry bigint;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	IF octet_length(unsubscribe_1.token) IS DISTINCT FROM 34 THEN
		RETURN QUERY SELECT 404, 'link_invalid', NULL::boolean;
		RETURN;
	END IF;
	mid := encode(substr(unsubscribe_1.token, 1, 16), 'hex')::uuid;
	SELECT v.tenant_id, v.inbox_id, v.canon, s.state INTO r
	    FROM d.state s
	    JOIN d.tenant n ON n.tenant_id = s.tenant_id
	        AND n.deleted_at IS NULL
	    JOIN d.one_click_key k ON k.tenant_id = s.tenant_id
	    JOIN d.delivery v ON v.message_id = s.message_id
	        AND v.tenant_id = s.tenant_id AND v.ix::int =
	        (get_byte(unsubscribe_1.token, 16) * 256
	        + get_byte(unsubscribe_1.token, 17))
	        # d.one_click_mask(k.key, mac)
	    WHERE s.message_id = mid AND sha256(mac) = sha256(
	        d.one_click_mac(k.key, s.tenant_id, mid, v.ix));
	IF NOT FOUND THEN
		RETURN QUERY SELECT 404, 'link_invalid', NULL::boolean;
		RETURN;
	END IF;
	INSERT INTO d.list_entry AS l (tenant_id, inbox_id, entry, verdict,
	    reason, created_by) VALUES (r.tenant_id, r.inbox_id, r.canon, 's',
	    'unsubscribe: the recipient used the one-click link (RFC 8058)',
	    'recipient')
	    ON CONFLICT (tenant_id, inbox_id, entry)
	    WHERE created_by = 'recipient' AND ended_at IS NULL DO NOTHING
	    RETURNING l.entry_id INTO entry;
	IF entry IS NOT NULL THEN
		-- Events of a message are numbered under its state row.
		PERFORM 1 FROM d.state s WHERE s.message_id = mid
		    AND s.tenant_id = r.tenant_id FOR UPDATE;
		IF FOUND THEN -- else its tenant has just ended (0084)
			PERFORM d.event_add(mid, r.tenant_id, r.inbox_id,
			    'message.unsubscribed', 'recipient', 'recipient', r.state,
			    r.canon);
		END IF;
		PERFORM d.note(r.tenant_id, 'gateway', 'list.unsubscribe',
		    mid, json_build_object('entry_id', entry, 'inbox',
		    r.inbox_id, 'entry', r.canon)::text);
	END IF;
	RETURN QUERY SELECT 200, NULL::text, entry IS NOT NULL;
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
	    v.canon, a.mx, a.dot_at, v.reply::text
	    -- While another part of it is leased, it is being sent.
	    FROM (SELECT e.message_id, e.tenant_id, e.inbox_id FROM d.state e
	        WHERE e.stays = 11
	        UNION SELECT q.message_id, q.tenant_id, q.inbox_id
	        FROM d.send_q q WHERE q.lease IS NOT NULL) y
	    JOIN d.delivery v ON v.message_id = y.message_id
	        AND v.tenant_id = y.tenant_id AND v.status = 6
	    JOIN d.inbox x ON x.tenant_id = y.tenant_id
	        AND x.inbox_id = y.inbox_id
	    LEFT JOIN LATERAL (SELECT z.mx, z.dot_at FROM d.attempt z
	        WHERE z.message_id = v.message_id AND z.tenant_id = v.tenant_id
	        AND z.domain = v.domain AND z.dot_at IS NOT NULL
	        ORDER BY z.n DESC LIMIT 1) a ON true
	    WHERE (mid IS NULL OR y.message_id = uncertain_list_1.mid)
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
SET LOCAL ROLE p_relay;
GRANT EXECUTE ON FUNCTION api.one_click_1 TO l_worker;
GRANT EXECUTE ON FUNCTION api.unsubscribe_1 TO l_gateway;
SET LOCAL ROLE p_ctl;
GRANT EXECUTE ON FUNCTION api.uncertain_list_1, api.uncertain_resolve_1
	TO l_ctl;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_ctl, p_relay;
