-- SPDX-License-Identifier: ISC
-- 0017_agents.sql - what agents keep for themselves: drafts, labels, what they
-- call their inbox.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_submit, p_read;

-- Mail that is not submitted yet. What it says is sealed to the inbox and to
-- nobody else: an operator sees it once it is sent. `head` is what a list
-- shows of it, `body` all of it. A draft that was sent is an empty row that
-- knows its message, so that sending it again finds it.
CREATE TABLE d.draft (
	draft_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	version smallint NOT NULL CHECK (version >= 1),
	key_sha256 bytea CHECK (octet_length(key_sha256) = 32),
	request_sha256 bytea NOT NULL CHECK (octet_length(request_sha256) = 32),
	inbox_epoch int NOT NULL,
	inbox_box bytea NOT NULL CHECK (octet_length(inbox_box) <= 512),
	head bytea CHECK (octet_length(head) <= 32768),
	body bytea CHECK (octet_length(body) <= 1200000),
	message_id uuid,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (draft_id, tenant_id),
	FOREIGN KEY (tenant_id, inbox_id) REFERENCES d.inbox,
	CHECK ((message_id IS NULL) = (head IS NOT NULL)),
	CHECK ((head IS NULL) = (body IS NULL)));
ALTER TABLE d.draft ALTER body SET STORAGE EXTERNAL;
CREATE INDEX draft_inbox ON d.draft (tenant_id, inbox_id, draft_id)
	WHERE message_id IS NULL;
CREATE UNIQUE INDEX draft_key ON d.draft (tenant_id, inbox_id, key_sha256)
	WHERE key_sha256 IS NOT NULL;
CREATE INDEX draft_sent ON d.draft (updated_at) WHERE message_id IS NOT NULL;
ALTER TABLE d.draft ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, DELETE, UPDATE (version, inbox_epoch, inbox_box, head,
	body, message_id, updated_at) ON d.draft TO p_submit;
GRANT SELECT ON d.draft TO p_read;
CREATE POLICY p_submit_box ON d.draft TO p_submit
	USING ((tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[]))
	WITH CHECK ((tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[]));
CREATE POLICY p_read_box ON d.draft FOR SELECT TO p_read
	USING ((tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[]));

-- Labels that were changed since; those it came with stay in the message.
CREATE TABLE d.message_label (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	labels text NOT NULL CHECK (octet_length(labels) <= 4096),
	changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (message_id, tenant_id));
ALTER TABLE d.message_label ENABLE ROW LEVEL SECURITY,
	FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE (labels, changed_at) ON d.message_label
	TO p_submit;
GRANT SELECT ON d.message_label TO p_read;
CREATE POLICY p_submit_box ON d.message_label TO p_submit
	USING ((tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[]))
	WITH CHECK ((tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[]));
CREATE POLICY p_read_box ON d.message_label FOR SELECT TO p_read
	USING ((tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[]));
GRANT SELECT, DELETE ON d.message_label TO p_owner;
CREATE POLICY p_owner_keep ON d.message_label TO p_owner USING (true);
GRANT UPDATE (display_name, metadata) ON d.inbox TO p_submit;

-- What was sent goes after 30 days (d.sweep_small).
GRANT SELECT, DELETE ON d.draft TO p_owner;
CREATE POLICY p_owner_keep ON d.draft TO p_owner
	USING (message_id IS NOT NULL);
SET LOCAL ROLE p_submit;

-- A draft, new (ver 0) or in place of version `ver`. `idem` is NULL or the
-- SHA-256 of a key: a new draft under a known key is the one it made.
CREATE FUNCTION api.draft_put_1(t bigint, k bigint, a bytea, draft uuid,
	ver smallint, epoch int, box bytea, head bytea, body bytea, idem bytea,
	request bytea) RETURNS TABLE (status int, code text, draft_id uuid,
	version smallint, replay boolean, created_at timestamptz,
	updated_at timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	f record;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent(t, k, a);
	IF c.status = 200 AND (c.kind = 's' OR c.scope <> 'f') THEN
		c.status := 403;
		c.code := 'missing_permission';
	ELSIF c.status = 200 AND (draft IS NULL OR ver IS NULL OR ver < 0
	    OR ver > 32000 OR octet_length(request) IS DISTINCT FROM 32
	    OR octet_length(idem) <> 32 OR num_nulls(draft_put_1.epoch,
	    draft_put_1.box, draft_put_1.head, draft_put_1.body) > 0) THEN
		c.status := 422;
		c.code := 'validation_error';
	ELSIF c.status = 200 AND (octet_length(draft_put_1.head) > 32768
	    OR octet_length(draft_put_1.body) > 1200000) THEN
		c.status := 413;
		c.code := 'payload_too_large';
	END IF;
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF ver > 0 THEN
		UPDATE d.draft y SET version = y.version + 1,
		    inbox_epoch = draft_put_1.epoch, inbox_box = draft_put_1.box,
		    head = draft_put_1.head, body = draft_put_1.body,
		    updated_at = clock_timestamp()
		    WHERE y.draft_id = draft AND y.tenant_id = t
		    AND y.inbox_id = c.inbox_id AND y.version = ver
		    AND y.message_id IS NULL
		    RETURNING y.draft_id, y.version, y.created_at, y.updated_at
		    INTO f;
		IF FOUND THEN
			RETURN QUERY SELECT 200, NULL::text, f.draft_id, f.version,
			    false, f.created_at, f.updated_at;
		ELSIF EXISTS (SELECT 1 FROM d.draft y WHERE y.draft_id = draft
		    AND y.tenant_id = t AND y.inbox_id = c.inbox_id) THEN
			SELECT 409, 'state_conflict' INTO status, code;
			RETURN NEXT;
		ELSE
			SELECT 404, 'not_found' INTO status, code;
			RETURN NEXT;
		END IF;
		RETURN;
	END IF;
	-- The counter row orders those who make drafts in an inbox.
	PERFORM 1 FROM d.quota q WHERE q.tenant_id = t
	    AND q.inbox_id = c.inbox_id FOR UPDATE;
	SELECT y.draft_id, y.version, y.created_at, y.updated_at,
	    y.request_sha256 INTO f FROM d.draft y WHERE y.tenant_id = t
	    AND y.inbox_id = c.inbox_id AND y.key_sha256 = idem;
	IF FOUND THEN
		IF f.request_sha256 = request THEN
			RETURN QUERY SELECT 200, NULL::text, f.draft_id, f.version,
			    true, f.created_at, f.updated_at;
		ELSE
			SELECT 409, 'idempotency_conflict' INTO status, code;
			RETURN NEXT;
		END IF;
		RETURN;
	END IF;
	IF (SELECT count(*) FROM d.draft y WHERE y.tenant_id = t
	    AND y.inbox_id = c.inbox_id AND y.message_id IS NULL) >= 200 THEN
		SELECT 429, 'held_limit' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	INSERT INTO d.draft AS y (draft_id, tenant_id, inbox_id, version,
	    key_sha256, request_sha256, inbox_epoch, inbox_box, head, body)
	    VALUES (draft, t, c.inbox_id, 1, idem, request, draft_put_1.epoch,
	    draft_put_1.box, draft_put_1.head, draft_put_1.body)
	    ON CONFLICT (draft_id, tenant_id) DO NOTHING
	    RETURNING y.created_at, y.updated_at INTO f;
	IF NOT FOUND THEN
		-- Whose it is, is not told.
		SELECT 409, 'state_conflict' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 201, NULL::text, draft, 1::smallint, false,
	    f.created_at, f.updated_at;
END $$;

-- Gone; or sent as `sent`, of which only that remains.
CREATE FUNCTION api.draft_end_1(t bigint, k bigint, a bytea, draft uuid,
	sent uuid) RETURNS TABLE (status int, code text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent(t, k, a);
	IF c.status = 200 AND (c.kind = 's' OR c.scope <> 'f') THEN
		c.status := 403;
		c.code := 'missing_permission';
	END IF;
	IF c.status <> 200 THEN
		RETURN QUERY SELECT c.status, c.code;
		RETURN;
	END IF;
	IF sent IS NULL THEN
		DELETE FROM d.draft y WHERE y.draft_id = draft AND y.tenant_id = t
		    AND y.inbox_id = c.inbox_id AND y.message_id IS NULL;
	ELSIF EXISTS (SELECT 1 FROM d.state s WHERE s.message_id = sent
	    AND s.tenant_id = t AND s.inbox_id = c.inbox_id) THEN
		UPDATE d.draft y SET message_id = sent, head = NULL, body = NULL,
		    updated_at = clock_timestamp() WHERE y.draft_id = draft
		    AND y.tenant_id = t AND y.inbox_id = c.inbox_id
		    AND y.message_id IS NULL;
	END IF;
	IF FOUND THEN
		RETURN QUERY SELECT 200, NULL::text;
	ELSE
		RETURN QUERY SELECT 404, 'not_found';
	END IF;
END $$;

-- Labels of one message: those taken away first. At most 20 remain.
CREATE FUNCTION api.label_1(t bigint, k bigint, a bytea, mid uuid,
	add text[], away text[]) RETURNS TABLE (status int, code text,
	labels text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	s record;
	had text[];
	got text[] := '{}';
	x text;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent(t, k, a);
	IF c.status = 200 AND (c.kind = 's' OR c.scope <> 'f') THEN
		c.status := 403;
		c.code := 'missing_permission';
	ELSIF c.status = 200 AND (label_1.add IS NULL OR away IS NULL
	    OR cardinality(label_1.add) > 20 OR EXISTS (SELECT 1
	    FROM unnest(label_1.add) z WHERE z IS NULL
	    OR octet_length(z) NOT BETWEEN 1 AND 64
	    OR z ~ '[\x01-\x1f\x7f]')) THEN
		c.status := 422;
		c.code := 'validation_error';
	END IF;
	IF c.status <> 200 THEN
		RETURN QUERY SELECT c.status, c.code, NULL::text;
		RETURN;
	END IF;
	SELECT y.version INTO s FROM d.state y WHERE y.message_id = mid
	    AND y.tenant_id = t AND y.inbox_id = c.inbox_id FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RETURN QUERY SELECT 404, 'not_found', NULL::text;
		RETURN;
	END IF;
	SELECT string_to_array(coalesce(b.labels, m.labels, ''), E'\n') INTO had
	    FROM d.message m LEFT JOIN d.message_label b
	        ON b.message_id = m.message_id AND b.tenant_id = m.tenant_id
	    WHERE m.message_id = mid AND m.tenant_id = t
	    AND m.version = s.version;
	FOREACH x IN ARRAY had || label_1.add LOOP
		IF x <> '' AND x <> ALL (got) AND (x <> ALL (away)
		    OR x = ANY (label_1.add)) THEN
			got := got || x;
		END IF;
	END LOOP;
	IF cardinality(got) > 20 THEN
		RETURN QUERY SELECT 422, 'validation_error', NULL::text;
		RETURN;
	END IF;
	INSERT INTO d.message_label AS b (message_id, tenant_id, inbox_id, labels)
	    VALUES (mid, t, c.inbox_id, array_to_string(got, E'\n'))
	    ON CONFLICT (message_id, tenant_id) DO UPDATE
	    SET labels = excluded.labels, changed_at = clock_timestamp();
	RETURN QUERY SELECT 200, NULL::text, array_to_string(got, E'\n');
END $$;

-- NULL: as it is. `name` '': none. `meta` is merged, its nulls take away;
-- 'null' takes all. The mode becomes stricter, or nothing is changed.
CREATE FUNCTION api.inbox_set_1(t bigint, k bigint, a bytea, to_mode smallint,
	name text, meta text) RETURNS TABLE (status int, code text,
	mode smallint, created_at timestamptz, display_name text, metadata text)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	r record;
	old text;
	new text;
	add jsonb;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent(t, k, a);
	IF c.status = 200 AND (c.kind = 's' OR c.scope <> 'f') THEN
		c.status := 403;
		c.code := 'missing_permission';
	ELSIF c.status = 200 AND (length(inbox_set_1.name) > 200
	    OR inbox_set_1.name ~ '[\x01-\x1f\x7f-\x9f\u2028\u2029]') THEN
		c.status := 422;
		c.code := 'validation_error';
	END IF;
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	SELECT x.metadata INTO old FROM d.inbox x WHERE x.tenant_id = t
	    AND x.inbox_id = c.inbox_id FOR NO KEY UPDATE;
	BEGIN
		add := CASE WHEN meta <> 'null' THEN meta::jsonb END;
	EXCEPTION WHEN data_exception THEN
		add := '[]';
	END;
	new := CASE WHEN meta IS NULL THEN old WHEN jsonb_typeof(add) = 'object'
	    THEN jsonb_strip_nulls(coalesce(old, '{}')::jsonb || add)::text END;
	IF coalesce(jsonb_typeof(add) <> 'object', false)
	    OR octet_length(new) > 8192 OR length(new) > 2
	    AND (SELECT count(*) FROM jsonb_object_keys(new::jsonb)) > 50 THEN
		SELECT 422, 'validation_error' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF inbox_set_1.to_mode IS NOT NULL THEN
		r := api.mode_lower_1(t, k, a, inbox_set_1.to_mode);
		IF r.status <> 200 THEN
			SELECT r.status, r.code INTO status, code;
			RETURN NEXT;
			RETURN;
		END IF;
	END IF;
	IF num_nonnulls(inbox_set_1.name, meta) > 0 THEN
		UPDATE d.inbox x SET metadata = new, display_name
		    = nullif(coalesce(inbox_set_1.name, x.display_name), '')
		    WHERE x.tenant_id = t AND x.inbox_id = c.inbox_id;
		PERFORM d.note(t, 'agent:' || t::text || '.' || k::text,
		    'inbox.described', NULL, json_build_object('inbox', c.inbox_id,
		    'display_name', inbox_set_1.name, 'metadata', meta IS NOT NULL
		    )::text);
	END IF;
	RETURN QUERY SELECT 200, NULL::text, x.mode, x.created_at,
	    x.display_name, x.metadata FROM d.inbox x WHERE x.tenant_id = t
	    AND x.inbox_id = c.inbox_id;
END $$;

SET LOCAL ROLE p_read;

-- How many messages of each day (UTC) are in which state now.
CREATE FUNCTION api.usage_1(t bigint, k bigint, a bytea, since timestamptz,
	until timestamptz) RETURNS TABLE (status int, code text, day text,
	state smallint, messages bigint, recipients bigint, bytes bigint)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent(t, k, a);
	IF c.status = 200 AND c.scope = 's' THEN
		c.status := 403;
		c.code := 'missing_permission';
	ELSIF c.status = 200 AND (since IS NULL OR until IS NULL
	    OR until - since > interval '93 days') THEN
		c.status := 422;
		c.code := 'validation_error';
	END IF;
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, to_char(g.at, 'YYYY-MM-DD'), g.state,
	    g.n, g.rcpts, g.bytes FROM (
	    SELECT date_trunc('day', to_timestamp(d.uuid_ms(s.message_id)
	        / 1000.0) AT TIME ZONE 'UTC') AS at, s.state, count(*) AS n,
	        sum(cardinality(m.rcpt))::bigint AS rcpts,
	        sum(m.size)::bigint AS bytes
	    FROM d.state s JOIN d.message m ON m.message_id = s.message_id
	        AND m.tenant_id = t AND m.version = s.version
	    WHERE s.tenant_id = t AND s.inbox_id = c.inbox_id
	    AND s.message_id >= d.uuid_floor(since)
	    AND s.message_id < d.uuid_floor(until)
	    GROUP BY 1, 2) g ORDER BY 3, 4;
END $$;

CREATE FUNCTION api.draft_1(t bigint, k bigint, a bytea, draft uuid)
	RETURNS TABLE (status int, code text, draft_id uuid, version smallint,
	message_id uuid, sealed bytea, inbox_epoch int, inbox_box bytea,
	wrapped bytea, inbox_pub bytea, tenant_id bigint, inbox_id bigint,
	created_at timestamptz, updated_at timestamptz) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent(t, k, a);
	IF c.status = 200 AND c.scope = 's' THEN
		c.status := 403;
		c.code := 'missing_permission';
	END IF;
	IF c.status = 200 THEN
		RETURN QUERY SELECT 200, NULL::text, y.draft_id, y.version,
		    y.message_id, y.body, y.inbox_epoch, y.inbox_box, w.wrapped,
		    x.pub, y.tenant_id, y.inbox_id, y.created_at, y.updated_at
		    FROM d.draft y
		    LEFT JOIN d.key_wrap w ON w.tenant_id = t AND w.key_id = k
		        AND w.epoch = y.inbox_epoch
		    LEFT JOIN d.inbox_key x ON x.tenant_id = t
		        AND x.inbox_id = y.inbox_id AND x.epoch = y.inbox_epoch
		    WHERE y.draft_id = draft AND y.tenant_id = t
		    AND y.inbox_id = c.inbox_id;
		IF FOUND THEN
			RETURN;
		END IF;
		c.status := 404;
		c.code := 'not_found';
	END IF;
	SELECT c.status, c.code INTO status, code;
	RETURN NEXT;
END $$;

-- The newest first.
CREATE FUNCTION api.drafts_1(t bigint, k bigint, a bytea, after uuid, lim int)
	RETURNS TABLE (status int, code text, draft_id uuid, version smallint,
	message_id uuid, sealed bytea, inbox_epoch int, inbox_box bytea,
	wrapped bytea, inbox_pub bytea, tenant_id bigint, inbox_id bigint,
	created_at timestamptz, updated_at timestamptz) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent(t, k, a);
	IF c.status = 200 AND c.scope = 's' THEN
		c.status := 403;
		c.code := 'missing_permission';
	END IF;
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, y.draft_id, y.version,
	    y.message_id, y.head, y.inbox_epoch, y.inbox_box, w.wrapped, x.pub,
	    y.tenant_id, y.inbox_id, y.created_at, y.updated_at FROM d.draft y
	    LEFT JOIN d.key_wrap w ON w.tenant_id = t AND w.key_id = k
	        AND w.epoch = y.inbox_epoch
	    LEFT JOIN d.inbox_key x ON x.tenant_id = t
	        AND x.inbox_id = y.inbox_id AND x.epoch = y.inbox_epoch
	    WHERE y.tenant_id = t AND y.inbox_id = c.inbox_id
	    AND y.message_id IS NULL AND (after IS NULL OR y.draft_id < after)
	    ORDER BY y.draft_id DESC LIMIT least(greatest(lim, 1), 100);
END $$;

RESET ROLE;
SET LOCAL ROLE p_submit;
GRANT EXECUTE ON FUNCTION api.draft_put_1, api.draft_end_1, api.label_1,
	api.inbox_set_1 TO l_gateway;
SET LOCAL ROLE p_read;
GRANT EXECUTE ON FUNCTION api.draft_1, api.drafts_1, api.usage_1 TO l_gateway;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_submit, p_read;
