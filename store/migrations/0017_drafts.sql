-- SPDX-License-Identifier: ISC
-- 0017_drafts.sql - mail that is not submitted yet. What a draft says is
-- sealed to the inbox and to nobody else: an operator sees it once it is sent.
-- `head` is what a list shows of it, `body` all of it. A draft that was sent
-- is an empty row that knows its message, so that sending it again finds it.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_submit, p_read;

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

SET LOCAL ROLE p_read;

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
GRANT EXECUTE ON FUNCTION api.draft_put_1, api.draft_end_1 TO l_gateway;
SET LOCAL ROLE p_read;
GRANT EXECUTE ON FUNCTION api.draft_1, api.drafts_1 TO l_gateway;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_submit, p_read;
