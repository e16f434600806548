-- SPDX-License-Identifier: ISC
-- 0017_agents.sql - what agents keep for themselves: drafts, labels, what they
-- call their inbox.
SET LOCAL ROLE p_owner;
GRANT CREATE ON SCHEMA d, api TO p_submit, p_read, p_relay, p_ctl;

-- Mail that is not submitted yet. What it says is sealed to the inbox and to
-- nobody else: an operator sees it once it is sent. `head` is what a list
-- shows of it, `body` all of it. A draft that was sent is an empty row that
-- knows its message, so that sending it again finds it. `going_*`: which key's
-- line is sending it since when, and its key of repetition there.
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
	going_line bigint,
	going_key bytea CHECK (octet_length(going_key) = 32),
	going_at timestamptz,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (draft_id, tenant_id),
	FOREIGN KEY (tenant_id, inbox_id) REFERENCES d.inbox,
	CHECK ((message_id IS NULL) = (head IS NOT NULL)),
	CHECK ((head IS NULL) = (body IS NULL)),
	CHECK (num_nulls(going_line, going_key, going_at) IN (0, 3)));
ALTER TABLE d.draft ALTER body SET STORAGE EXTERNAL;
CREATE INDEX draft_inbox ON d.draft (tenant_id, inbox_id, draft_id)
	WHERE message_id IS NULL;
CREATE UNIQUE INDEX draft_key ON d.draft (tenant_id, inbox_id, key_sha256)
	WHERE key_sha256 IS NOT NULL;
CREATE INDEX draft_sent ON d.draft (updated_at) WHERE message_id IS NOT NULL;
ALTER TABLE d.draft ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, DELETE, UPDATE (version, inbox_epoch, inbox_box, head,
	body, message_id, going_line, going_key, going_at, updated_at) ON d.draft
	TO p_submit;
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

-- What mail of a test inbox would have been on the wire: envelope, and the
-- fields in front of the frozen bytes, sealed to the inbox. Bodies are d.body's.
CREATE TABLE d.capture (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	n int NOT NULL CHECK (n >= 1),
	domain text NOT NULL,
	ix smallint[] NOT NULL CHECK (cardinality(ix) BETWEEN 1 AND 1000),
	mail_from text NOT NULL CHECK (octet_length(mail_from) <= 1000),
	inbox_epoch int NOT NULL,
	box bytea NOT NULL CHECK (octet_length(box) BETWEEN 48 AND 65536),
	at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (message_id, tenant_id, n));
CREATE INDEX capture_at ON d.capture (at);
ALTER TABLE d.capture ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
GRANT INSERT, SELECT (message_id, tenant_id, n) ON d.capture TO p_relay;
CREATE POLICY p_relay_msg ON d.capture TO p_relay
	USING (message_id = ANY ((SELECT d.cur_msgs())::uuid[]))
	WITH CHECK (message_id = ANY ((SELECT d.cur_msgs())::uuid[]));
GRANT SELECT ON d.capture TO p_read;
CREATE POLICY p_read_box ON d.capture FOR SELECT TO p_read
	USING ((tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[]));
GRANT SELECT, DELETE ON d.capture TO p_owner;
CREATE POLICY p_owner_keep ON d.capture TO p_owner USING (true);

-- What was sent goes after 30 days (d.sweep_small).
GRANT SELECT, DELETE ON d.draft TO p_owner;
CREATE POLICY p_owner_keep ON d.draft TO p_owner
	USING (message_id IS NOT NULL);

-- What an agent keeps itself from writing to: only more, only its own inbox.
GRANT INSERT (tenant_id, inbox_id, entry, verdict, reason, created_by)
	ON d.list_entry TO p_submit;
CREATE POLICY p_submit_own ON d.list_entry FOR INSERT TO p_submit
	WITH CHECK (inbox_id > 0 AND verdict = 'b' AND ended_at IS NULL
	    AND created_by = (SELECT d.cur_actor())
	    AND (tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[]));
CREATE INDEX list_entry_box ON d.list_entry (tenant_id, inbox_id, entry_id)
	WHERE inbox_id > 0 AND ended_at IS NULL;

-- A token that makes inboxes, and nothing that is in them. `rights`: c create
-- and claim codes, l list, p pause, d delete; `domains` empty: all the tenant has.
CREATE TABLE d.provisioner (
	tenant_id bigint NOT NULL REFERENCES d.tenant,
	key_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
	name text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
	auth_sha256 bytea NOT NULL CHECK (octet_length(auth_sha256) = 32),
	rights text NOT NULL CHECK (rights <> '' AND btrim(rights, 'clpd') = ''),
	domains text[] NOT NULL CHECK (cardinality(domains) <= 100),
	plan text NOT NULL,
	max_inboxes int NOT NULL CHECK (max_inboxes BETWEEN 1 AND 100000),
	test boolean NOT NULL,
	operator_id bigint NOT NULL REFERENCES d.operator,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	expires_at timestamptz NOT NULL,
	revoked_at timestamptz,
	PRIMARY KEY (tenant_id, key_id),
	FOREIGN KEY (tenant_id, plan) REFERENCES d.plan);
ALTER TABLE d.inbox ADD FOREIGN KEY (tenant_id, provisioner)
	REFERENCES d.provisioner;
CREATE UNIQUE INDEX inbox_client ON d.inbox (tenant_id, provisioner,
	client_id) WHERE client_id IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX inbox_provisioner ON d.inbox (tenant_id, provisioner, inbox_id)
	WHERE provisioner IS NOT NULL;
ALTER TABLE d.provisioner ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE (auth_sha256, revoked_at) ON d.provisioner
	TO p_ctl;
GRANT UPDATE (client_id) ON d.inbox TO p_ctl;
CREATE POLICY p_ctl_all ON d.provisioner TO p_ctl USING (true)
	WITH CHECK (true);

-- One inbox's agent may see what another's sent, of the same tenant: an operator
-- offers it with an end, the other's full key accepts it, and either side or an
-- operator ends it. `box`: with `messages`, the inbox's private key, sealed to
-- the grantee's.
CREATE TABLE d.permit (
	permit_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	grantee bigint NOT NULL,
	messages boolean NOT NULL,
	operator_id bigint NOT NULL REFERENCES d.operator,
	offered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	expires_at timestamptz NOT NULL,
	accepted_at timestamptz,
	key_id bigint,
	inbox_epoch int,
	grantee_epoch int,
	box bytea CHECK (octet_length(box) = 80),
	ended_at timestamptz,
	ended_by text,
	reads int NOT NULL DEFAULT 0,
	PRIMARY KEY (permit_id, tenant_id),
	FOREIGN KEY (tenant_id, inbox_id) REFERENCES d.inbox,
	FOREIGN KEY (tenant_id, grantee) REFERENCES d.inbox,
	CHECK (inbox_id <> grantee AND (box IS NULL OR messages)));
CREATE INDEX permit_inbox ON d.permit (tenant_id, inbox_id);
CREATE INDEX permit_grantee ON d.permit (tenant_id, grantee);
ALTER TABLE d.permit ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
GRANT SELECT, UPDATE (accepted_at, key_id, inbox_epoch, grantee_epoch, box,
	ended_at, ended_by) ON d.permit TO p_submit;
GRANT SELECT, UPDATE (reads) ON d.permit TO p_read;
GRANT SELECT (permit_id, tenant_id, inbox_id, grantee, messages, operator_id,
	offered_at, expires_at, accepted_at, ended_at, ended_by, reads), INSERT,
	UPDATE (ended_at, ended_by, box) ON d.permit TO p_ctl;
CREATE POLICY p_both_sides ON d.permit TO p_submit, p_read
	USING ((tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[])
	    OR (tenant_id::text || '.' || grantee::text)
	    = ANY ((SELECT d.cur_boxes())::text[]));
CREATE POLICY p_ctl_all ON d.permit TO p_ctl USING (true) WITH CHECK (true);

-- What a key has looked at under a grant, each thing once (`times` 0), and with
-- the message of all noughts how often it looked again since `since`, which the
-- audit log has not been told yet.
CREATE TABLE d.permit_look (
	permit_id bigint NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	key_id bigint NOT NULL,
	what text NOT NULL,
	message_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
	since timestamptz NOT NULL DEFAULT clock_timestamp(),
	times int NOT NULL DEFAULT 0,
	PRIMARY KEY (permit_id, tenant_id, key_id, what, message_id),
	FOREIGN KEY (permit_id, tenant_id) REFERENCES d.permit);
ALTER TABLE d.permit_look ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE (since, times) ON d.permit_look TO p_read;
CREATE POLICY p_read_looks ON d.permit_look TO p_read
	USING ((tenant_id::text || '.' || inbox_id::text)
	    = ANY ((SELECT d.cur_boxes())::text[]));
GRANT SELECT, UPDATE (since, times), DELETE ON d.permit_look TO p_ctl;
CREATE POLICY p_ctl_all ON d.permit_look TO p_ctl USING (true);

-- What a sandbox's host reported, so that it says each thing once.
CREATE TABLE d.sandbox_event (
	event_sha256 bytea PRIMARY KEY CHECK (octet_length(event_sha256) = 32),
	at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE INDEX sandbox_event_at ON d.sandbox_event (at);
ALTER TABLE d.sandbox_event ENABLE ROW LEVEL SECURITY,
	FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, DELETE ON d.sandbox_event TO p_submit;
CREATE POLICY p_submit_all ON d.sandbox_event TO p_submit USING (true)
	WITH CHECK (true);
CREATE INDEX agent_session_sandbox ON d.agent_session (sandbox_id)
	WHERE ended_at IS NULL;
-- Whose sessions run in the sandbox that is named in this call.
CREATE POLICY p_submit_sandbox ON d.agent_session FOR SELECT TO p_submit
	USING (sandbox_id = (SELECT
	    nullif(current_setting('postern.sandbox', true), '')));
SET LOCAL ROLE p_submit;

-- The sandbox is gone, or stands still: every session that began in it before
-- `at` ends, and what it left held is taken back. The caller has checked who
-- says so. An event is heard once; `ended` NULL: it was heard before.
CREATE FUNCTION api.sandbox_gone_1(event bytea, sandbox text, why text,
	at timestamptz) RETURNS TABLE (status int, code text, ended int)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.boxes = '' SET postern.sandbox = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	r record;
	n int := 0;
	back int;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	IF octet_length(event) IS DISTINCT FROM 32 OR sandbox_gone_1.at IS NULL
	    OR coalesce(sandbox, '') = '' OR coalesce(why, '') !~ '^[a-z]{1,20}$'
	    THEN
		RETURN QUERY SELECT 422, 'validation_error', NULL::int;
		RETURN;
	END IF;
	DELETE FROM d.sandbox_event e WHERE e.at < clock_timestamp()
	    - interval '1 day';
	INSERT INTO d.sandbox_event (event_sha256) VALUES (event)
	    ON CONFLICT DO NOTHING;
	IF NOT FOUND THEN
		RETURN QUERY SELECT 200, NULL::text, NULL::int;
		RETURN;
	END IF;
	PERFORM set_config('postern.sandbox', sandbox, true),
	    set_config('postern.actor', 'gateway', true);
	FOR r IN SELECT y.tenant_id, y.inbox_id, y.key_id FROM d.agent_session y
	    WHERE y.sandbox_id = sandbox AND y.ended_at IS NULL
	    AND y.started_at <= sandbox_gone_1.at
	    ORDER BY y.tenant_id, y.inbox_id, y.key_id LOOP
		PERFORM set_config('postern.boxes', '{' || r.tenant_id::text || '.'
		    || r.inbox_id::text || '}', true);
		-- As run_end_1: the counter first.
		PERFORM 1 FROM d.quota q WHERE q.tenant_id = r.tenant_id
		    AND q.inbox_id = r.inbox_id FOR UPDATE;
		UPDATE d.agent_session y SET ended_at = clock_timestamp(),
		    ended_by = 'hook:e2b', exit_error = 'sandbox ' || why
		    WHERE y.tenant_id = r.tenant_id AND y.inbox_id = r.inbox_id
		    AND y.key_id = r.key_id AND y.ended_at IS NULL;
		CONTINUE WHEN NOT FOUND;
		UPDATE d.credential z SET revoked_at = clock_timestamp()
		    WHERE z.tenant_id = r.tenant_id AND z.inbox_id = r.inbox_id
		    AND z.key_id = r.key_id AND z.revoked_at IS NULL;
		UPDATE d.state s SET state = 5, detail = 'session ended'
		    FROM d.message m WHERE s.tenant_id = r.tenant_id
		    AND s.inbox_id = r.inbox_id AND s.stays = 1
		    AND m.message_id = s.message_id AND m.tenant_id = r.tenant_id
		    AND m.version = s.version AND m.key_id = r.key_id;
		GET DIAGNOSTICS back = ROW_COUNT;
		PERFORM d.note(r.tenant_id, 'gateway', 'session.ended', NULL,
		    json_build_object('key', r.key_id, 'canceled', back, 'hook',
		    'e2b', 'sandbox', why)::text);
		n := n + 1;
	END LOOP;
	RETURN QUERY SELECT 200, NULL::text, n;
END $$;

-- May the draft be changed? Not while it is sent: what is stored would not be
-- what leaves, and the mail of two keys not one. A submission ends long before
-- five minutes are over; what it stored says so, even if nobody could answer.
CREATE FUNCTION d.draft_free(t bigint, i bigint, draft uuid) RETURNS boolean
	LANGUAGE plpgsql AS $$
DECLARE
	f record;
	m uuid;
BEGIN
	SELECT y.message_id, y.going_line, y.going_key, y.going_at INTO f
	    FROM d.draft y WHERE y.draft_id = draft AND y.tenant_id = t
	    AND y.inbox_id = i FOR UPDATE;
	IF f.message_id IS NOT NULL OR f.going_line IS NULL THEN
		RETURN f.message_id IS NULL;
	END IF;
	SELECT z.message_id INTO m FROM d.idem z WHERE z.tenant_id = t
	    AND z.inbox_id = i AND z.lineage = f.going_line
	    AND z.key_sha256 = f.going_key;
	IF m IS NOT NULL THEN
		UPDATE d.draft y SET message_id = m, head = NULL, body = NULL,
		    updated_at = clock_timestamp() WHERE y.draft_id = draft
		    AND y.tenant_id = t AND y.inbox_id = i;
	END IF;
	RETURN m IS NULL
	    AND f.going_at < clock_timestamp() - interval '5 minutes';
END $$;

-- Version `ver` of a draft is about to be submitted under `idem`; with a
-- message_id it was before.
CREATE FUNCTION api.draft_go_1(t bigint, k bigint, a bytea, draft uuid,
	ver smallint, idem bytea) RETURNS TABLE (status int, code text,
	message_id uuid, at timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	f record;
	free boolean;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent_may(t, k, a, 'f');
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	free := d.draft_free(t, c.inbox_id, draft);
	SELECT y.message_id, y.version, y.going_line INTO f FROM d.draft y
	    WHERE y.draft_id = draft AND y.tenant_id = t
	    AND y.inbox_id = c.inbox_id;
	IF NOT FOUND THEN
		SELECT 404, 'not_found' INTO status, code;
	ELSIF f.message_id IS NOT NULL THEN
		SELECT 200, f.message_id INTO status, message_id;
	ELSIF f.version IS DISTINCT FROM ver OR octet_length(idem)
	    IS DISTINCT FROM 32 OR NOT free
	    AND f.going_line IS DISTINCT FROM c.lineage THEN
		SELECT 409, 'state_conflict' INTO status, code;
	ELSE
		-- The same key twice is one submission to the store.
		UPDATE d.draft y SET going_line = c.lineage, going_key = idem,
		    going_at = clock_timestamp() WHERE y.draft_id = draft
		    AND y.tenant_id = t AND y.inbox_id = c.inbox_id
		    RETURNING 200, y.going_at INTO status, at;
	END IF;
	RETURN NEXT;
END $$;

-- It was refused: the draft goes on, unless another call sends it since.
CREATE FUNCTION api.draft_stay_1(t bigint, k bigint, a bytea, draft uuid,
	at timestamptz) RETURNS TABLE (status int, code text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent_may(t, k, a, 'f');
	IF c.status = 200 THEN
		UPDATE d.draft y SET going_line = NULL, going_key = NULL,
		    going_at = NULL WHERE y.draft_id = draft AND y.tenant_id = t
		    AND y.inbox_id = c.inbox_id AND y.message_id IS NULL
		    AND y.going_line = c.lineage AND y.going_at = draft_stay_1.at;
	END IF;
	RETURN QUERY SELECT c.status, c.code;
END $$;

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
	room bigint;
	fits boolean;
	free boolean;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent_may(t, k, a, 'f');
	IF c.status = 200 AND (draft IS NULL OR ver IS NULL OR ver < 0
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
	-- The counter row orders those who write drafts in an inbox. They count
	-- among its bytes, with what waits held.
	SELECT x.lim_bytes - q.held_bytes INTO room FROM d.quota q
	    JOIN d.inbox x ON x.tenant_id = t AND x.inbox_id = q.inbox_id
	    WHERE q.tenant_id = t AND q.inbox_id = c.inbox_id FOR UPDATE OF q;
	fits := octet_length(draft_put_1.head) + octet_length(draft_put_1.body)
	    <= room - (SELECT coalesce(sum(octet_length(y.head)
	    + octet_length(y.body)), 0) FROM d.draft y WHERE y.tenant_id = t
	    AND y.inbox_id = c.inbox_id AND y.message_id IS NULL
	    AND y.draft_id <> draft);
	IF ver > 0 AND NOT fits THEN
		SELECT 429, 'held_limit' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF ver > 0 THEN
		free := d.draft_free(t, c.inbox_id, draft);
		UPDATE d.draft y SET version = y.version + 1,
		    inbox_epoch = draft_put_1.epoch, inbox_box = draft_put_1.box,
		    head = draft_put_1.head, body = draft_put_1.body,
		    going_line = NULL, going_key = NULL, going_at = NULL,
		    updated_at = clock_timestamp()
		    WHERE y.draft_id = draft AND y.tenant_id = t
		    AND y.inbox_id = c.inbox_id AND y.version = ver
		    AND free
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
	IF NOT fits OR (SELECT count(*) FROM d.draft y WHERE y.tenant_id = t
	    AND y.inbox_id = c.inbox_id AND y.message_id IS NULL)
	    >= d.drafts_most() THEN
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
	c := d.agent_may(t, k, a, 'f');
	IF c.status <> 200 THEN
		RETURN QUERY SELECT c.status, c.code;
		RETURN;
	END IF;
	IF sent IS NULL THEN
		IF NOT d.draft_free(t, c.inbox_id, draft) AND EXISTS (SELECT 1
		    FROM d.draft y WHERE y.draft_id = draft AND y.tenant_id = t
		    AND y.inbox_id = c.inbox_id AND y.message_id IS NULL) THEN
			RETURN QUERY SELECT 409, 'state_conflict';
			RETURN;
		END IF;
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
	c := d.agent_may(t, k, a, 'f');
	IF c.status = 200 AND (label_1.add IS NULL OR away IS NULL
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

-- One more address or @domain that this inbox does not write to. Taking it away
-- is an operator's.
CREATE FUNCTION api.block_1(t bigint, k bigint, a bytea, entry text,
	reason text) RETURNS TABLE (status int, code text, entry_id bigint,
	created_at timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	x text := d.canon(block_1.entry);
	who text := 'agent:' || t::text || '.' || k::text;
	e record;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent_may(t, k, a, 'f');
	IF c.status = 200 AND (x IS NULL OR octet_length(x) NOT BETWEEN 3
	    AND 320 OR x !~ '^[^@ ]*@[^@ ]+$' OR x ~ '[\x01-\x20\x7f]'
	    OR coalesce(length(btrim(block_1.reason)), 0) NOT BETWEEN 1 AND 1000
	    OR block_1.reason ~ '[\x01-\x1f\x7f]') THEN
		c.status := 422;
		c.code := 'validation_error';
	END IF;
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	-- The counter row orders those who write to the list.
	PERFORM 1 FROM d.quota q WHERE q.tenant_id = t
	    AND q.inbox_id = c.inbox_id FOR UPDATE;
	SELECT l.entry_id, l.created_at INTO e FROM d.list_entry l
	    WHERE l.tenant_id = t AND l.inbox_id = c.inbox_id AND l.entry = x
	    AND l.verdict = 'b' AND l.ended_at IS NULL AND l.expires_at IS NULL
	    ORDER BY l.entry_id LIMIT 1;
	IF FOUND THEN
		RETURN QUERY SELECT 200, NULL::text, e.entry_id, e.created_at;
		RETURN;
	END IF;
	IF (SELECT count(*) FROM d.list_entry l WHERE l.tenant_id = t
	    AND l.inbox_id = c.inbox_id AND l.verdict = 'b'
	    AND l.ended_at IS NULL) >= d.blocks_most() THEN
		SELECT 429, 'held_limit' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	INSERT INTO d.list_entry AS l (tenant_id, inbox_id, entry, verdict,
	    reason, created_by) VALUES (t, c.inbox_id, x, 'b',
	    block_1.reason, who)
	    RETURNING l.entry_id, l.created_at INTO e;
	PERFORM d.note(t, who, 'list.set', NULL, json_build_object('entry_id',
	    e.entry_id, 'inbox', c.inbox_id, 'entry', x, 'verdict', 'b',
	    'reason', block_1.reason)::text);
	RETURN QUERY SELECT 201, NULL::text, e.entry_id, e.created_at;
END $$;

-- A further key of the inbox: never wider than the one that asks, never longer.
-- `wrapped`: the inbox's private key under the new one; NULL for scope send.
CREATE FUNCTION api.key_create_1(t bigint, k bigint, a bytea, auth bytea,
	scope text, label text, expires timestamptz, epoch int, wrapped bytea)
	RETURNS TABLE (status int, code text, key_id bigint, kind text,
	created_at timestamptz, expires_at timestamptz) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	n record;
	until timestamptz;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent_may(t, k, a, 'f');
	IF c.status = 200 AND (coalesce(octet_length(auth), 0) <> 32
	    OR coalesce(key_create_1.scope, '') NOT IN ('s', 'r', 'f')
	    OR length(key_create_1.label) > 200
	    OR key_create_1.label ~ '[\x01-\x1f\x7f]'
	    OR key_create_1.expires <= clock_timestamp()
	    OR (key_create_1.scope = 's') <> (key_create_1.wrapped IS NULL)
	    OR octet_length(key_create_1.wrapped) NOT BETWEEN 32 AND 256
	    OR key_create_1.wrapped IS NOT NULL AND key_create_1.epoch
	        IS DISTINCT FROM (SELECT x.epoch FROM d.inbox x
	        WHERE x.tenant_id = t AND x.inbox_id = c.inbox_id)) THEN
		c.status := 422;
		c.code := 'validation_error';
	END IF;
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	PERFORM 1 FROM d.quota q WHERE q.tenant_id = t
	    AND q.inbox_id = c.inbox_id FOR UPDATE;
	IF d.keys_made(t, c.inbox_id)
	    OR (SELECT count(*) FROM d.credential r WHERE r.tenant_id = t
	    AND r.inbox_id = c.inbox_id AND r.kind <> 's'
	    AND r.revoked_at IS NULL AND (r.expires_at IS NULL
	    OR r.expires_at > clock_timestamp())) >= d.keys_most() THEN
		SELECT 429, 'held_limit' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	-- A key that ends makes none that stays.
	SELECT least(key_create_1.expires, r.expires_at) INTO until
	    FROM d.credential r WHERE r.tenant_id = t AND r.key_id = k;
	INSERT INTO d.credential AS r (tenant_id, inbox_id, kind, scope,
	    auth_sha256, lineage, label, expires_at) VALUES (t, c.inbox_id,
	    c.kind, key_create_1.scope::"char", auth, 0, key_create_1.label,
	    until) RETURNING r.key_id, r.created_at INTO n;
	IF key_create_1.wrapped IS NOT NULL THEN
		INSERT INTO d.key_wrap (tenant_id, inbox_id, key_id, epoch, wrapped)
		    VALUES (t, c.inbox_id, n.key_id, key_create_1.epoch,
		    key_create_1.wrapped);
	END IF;
	PERFORM d.note(t, 'agent:' || t::text || '.' || k::text, 'key.created',
	    NULL, json_build_object('key', n.key_id, 'scope',
	    key_create_1.scope, 'until', until)::text);
	RETURN QUERY SELECT 201, NULL::text, n.key_id, c.kind::text,
	    n.created_at, until;
END $$;

-- The target's own full key says yes. `box` NULL: states alone.
CREATE FUNCTION api.grant_accept_1(t bigint, k bigint, a bytea, permit bigint,
	epoch int, other_epoch int, box bytea) RETURNS TABLE (status int,
	code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	p record;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent_may(t, k, a, 'f');
	IF c.status = 200 THEN
		SELECT y.messages, y.accepted_at, y.grantee INTO p FROM d.permit y
		    WHERE y.permit_id = permit AND y.tenant_id = t
		    AND y.inbox_id = c.inbox_id AND y.ended_at IS NULL
		    AND y.expires_at > clock_timestamp() FOR UPDATE;
		IF NOT FOUND THEN
			c.status := 404;
			c.code := 'not_found';
		ELSIF p.accepted_at IS NOT NULL THEN
			c.status := 409;
			c.code := 'state_conflict';
		ELSIF p.messages <> (grant_accept_1.box IS NOT NULL)
		    OR octet_length(grant_accept_1.box) <> 80
		    OR p.messages AND (grant_accept_1.epoch IS DISTINCT FROM
		    (SELECT x.epoch FROM d.inbox x WHERE x.tenant_id = t
		    AND x.inbox_id = c.inbox_id)
		    OR other_epoch IS DISTINCT FROM (SELECT x.epoch
		    FROM d.inbox x WHERE x.tenant_id = t
		    AND x.inbox_id = p.grantee)) THEN
			c.status := 422;
			c.code := 'validation_error';
		END IF;
	END IF;
	IF c.status = 200 THEN
		UPDATE d.permit y SET accepted_at = clock_timestamp(), key_id = k,
		    inbox_epoch = grant_accept_1.epoch,
		    grantee_epoch = other_epoch, box = grant_accept_1.box
		    WHERE y.permit_id = permit AND y.tenant_id = t;
		PERFORM d.note(t, 'agent:' || t::text || '.' || k::text,
		    'grant.accepted', NULL, json_build_object('grant', permit,
		    'messages', p.messages)::text);
	END IF;
	RETURN QUERY SELECT c.status, c.code;
END $$;

-- Either side's full key says no, now or later.
CREATE FUNCTION api.grant_leave_1(t bigint, k bigint, a bytea, permit bigint)
	RETURNS TABLE (status int, code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent_may(t, k, a, 'f');
	IF c.status = 200 THEN
		UPDATE d.permit y SET ended_at = clock_timestamp(), box = NULL,
		    ended_by = 'agent:' || t::text || '.' || k::text
		    WHERE y.permit_id = permit AND y.tenant_id = t
		    AND c.inbox_id IN (y.inbox_id, y.grantee)
		    AND y.ended_at IS NULL;
		IF FOUND THEN
			PERFORM d.note(t, 'agent:' || t::text || '.' || k::text,
			    'grant.ended', NULL, json_build_object('grant',
			    permit)::text);
		ELSE
			c.status := 404;
			c.code := 'not_found';
		END IF;
	END IF;
	RETURN QUERY SELECT c.status, c.code;
END $$;

-- NULL: as it is. `name` '': none. `meta` is merged, its nulls take away;
-- 'null' takes all. The mode becomes stricter, or nothing is changed.
CREATE FUNCTION api.inbox_set_1(t bigint, k bigint, a bytea, to_mode smallint,
	name text, meta text) RETURNS TABLE (status int, code text,
	mode smallint, created_at timestamptz, display_name text, metadata text,
	one_click boolean) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	old text;
	new text;
	add jsonb;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	c := d.agent_may(t, k, a, 'f');
	IF c.status = 200 AND (length(inbox_set_1.name) > 200
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
	IF inbox_set_1.to_mode IS NOT NULL
	    AND NOT d.mode_lower(t, c.inbox_id, k, inbox_set_1.to_mode) THEN
		SELECT 403, 'missing_permission' INTO status, code;
		RETURN NEXT;
		RETURN;
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
	    x.display_name, x.metadata, x.one_click FROM d.inbox x
	    WHERE x.tenant_id = t AND x.inbox_id = c.inbox_id;
END $$;

SET LOCAL ROLE p_read;

-- How many messages of each day (UTC) are in which state now. Of a very busy
-- inbox the newest 100,000 are counted, and `cut` says from when on.
CREATE FUNCTION api.usage_1(t bigint, k bigint, a bytea, since timestamptz,
	until timestamptz) RETURNS TABLE (status int, code text, day text,
	state smallint, messages bigint, recipients bigint, bytes bigint,
	cut timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	most CONSTANT int := 100000;
	c record;
BEGIN
	c := d.agent_may(t, k, a, 'r');
	IF c.status = 200 AND (since IS NULL OR until IS NULL
	    OR until - since > interval '93 days') THEN
		c.status := 422;
		c.code := 'validation_error';
	END IF;
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY WITH x AS MATERIALIZED (SELECT s.message_id, s.state,
	    s.version FROM d.state s
	    WHERE s.tenant_id = t AND s.inbox_id = c.inbox_id
	    AND s.message_id >= d.uuid_floor(since)
	    AND s.message_id < d.uuid_floor(until)
	    ORDER BY s.message_id DESC LIMIT most)
	    SELECT 200, NULL::text, to_char(g.at, 'YYYY-MM-DD'), g.state,
	    g.n, g.rcpts, g.bytes, (SELECT CASE WHEN count(*) = most
	        THEN to_timestamp(d.uuid_ms(min(x.message_id::text)::uuid)
	        / 1000.0) END FROM x) FROM (
	    SELECT date_trunc('day', to_timestamp(d.uuid_ms(s.message_id)
	        / 1000.0) AT TIME ZONE 'UTC') AS at, s.state, count(*) AS n,
	        sum(cardinality(m.rcpt))::bigint AS rcpts,
	        sum(m.size)::bigint AS bytes
	    FROM x s JOIN d.message m ON m.message_id = s.message_id
	        AND m.message_id >= d.uuid_floor(since)
	        AND m.message_id < d.uuid_floor(until)
	        AND m.tenant_id = t AND m.version = s.version
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
	c := d.agent_may(t, k, a, 'r');
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
	c := d.agent_may(t, k, a, 'r');
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

-- The inbox's private key as this key has it, to be wrapped for another.
CREATE FUNCTION api.key_wrap_1(t bigint, k bigint, a bytea)
	RETURNS TABLE (status int, code text, inbox_epoch int, wrapped bytea,
	inbox_pub bytea) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent_may(t, k, a, 'f');
	IF c.status = 200 THEN
		RETURN QUERY SELECT 200, NULL::text, w.epoch, w.wrapped, y.pub
		    FROM d.inbox x JOIN d.key_wrap w ON w.tenant_id = t
		        AND w.key_id = k AND w.epoch = x.epoch
		    JOIN d.inbox_key y ON y.tenant_id = t
		        AND y.inbox_id = x.inbox_id AND y.epoch = x.epoch
		    WHERE x.tenant_id = t AND x.inbox_id = c.inbox_id;
		IF FOUND THEN
			RETURN;
		END IF;
		c.status := 403;
		c.code := 'missing_permission';
	END IF;
	SELECT c.status, c.code INTO status, code;
	RETURN NEXT;
END $$;

-- The inbox's own lists, newest first: `b` whom it may not write to, `a` whose
-- mail needs no decision. What holds for the tenant or everywhere, and what
-- was suppressed after other inboxes' mail, is not told. One by `one`.
CREATE FUNCTION api.my_lists_1(t bigint, k bigint, a bytea, what text,
	one text, after bigint, lim int) RETURNS TABLE (status int, code text,
	entry_id bigint, entry text, reason text, mine boolean,
	created_at timestamptz, expires_at timestamptz) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
	x text := d.canon(one);
	now_at timestamptz := clock_timestamp();
BEGIN
	c := d.agent_may(t, k, a, 'r');
	IF c.status = 200 AND coalesce(what, '') NOT IN ('a', 'b') THEN
		c.status := 422;
		c.code := 'validation_error';
	END IF;
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF what = 'b' THEN
		-- What operators write to each other is not for agents.
		RETURN QUERY SELECT 200, NULL::text, l.entry_id, l.entry,
		    CASE WHEN l.created_by LIKE 'agent:%' THEN l.reason END,
		    l.created_by LIKE 'agent:%', l.created_at, l.expires_at
		    FROM d.list_entry l WHERE l.tenant_id = t
		    AND l.inbox_id = c.inbox_id AND l.inbox_id > 0
		    AND l.ended_at IS NULL AND l.verdict = 'b'
		    AND (l.expires_at IS NULL OR l.expires_at > now_at)
		    AND (one IS NULL OR l.entry = x)
		    AND (after IS NULL OR l.entry_id < after)
		    ORDER BY l.entry_id DESC LIMIT least(greatest(lim, 1), 100);
	ELSE
		RETURN QUERY SELECT 200, NULL::text, r.rule_id, r.entry, NULL::text,
		    false, r.created_at, r.expires_at FROM d.allow_rule r
		    WHERE r.tenant_id = t AND r.inbox_id = c.inbox_id
		    AND r.ended_at IS NULL AND r.expires_at > now_at
		    AND r.uses_left > 0 AND (one IS NULL OR r.entry = x)
		    AND (after IS NULL OR r.rule_id < after)
		    ORDER BY r.rule_id DESC LIMIT least(greatest(lim, 1), 100);
	END IF;
END $$;

-- Grants that this inbox gives (`given`) or has, newest first.
CREATE FUNCTION api.my_grants_1(t bigint, k bigint, a bytea, lim int)
	RETURNS TABLE (status int, code text, permit_id bigint, given boolean,
	other text, messages boolean, offered_at timestamptz,
	accepted_at timestamptz, expires_at timestamptz, ended_at timestamptz,
	reads int) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent_may(t, k, a, 'r');
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, y.permit_id,
	    y.inbox_id = c.inbox_id, x.address, y.messages, y.offered_at,
	    y.accepted_at, y.expires_at, y.ended_at, y.reads
	    FROM d.permit y JOIN d.inbox x ON x.tenant_id = t AND x.inbox_id
	        = CASE WHEN y.inbox_id = c.inbox_id THEN y.grantee
	        ELSE y.inbox_id END
	    WHERE y.tenant_id = t AND c.inbox_id IN (y.inbox_id, y.grantee)
	    ORDER BY y.permit_id DESC LIMIT least(greatest(lim, 1), 100);
END $$;

-- What accepting takes: the inbox's own private key as this key has it, and the
-- other's public one. Only of a grant that an operator has offered.
CREATE FUNCTION api.grant_key_1(t bigint, k bigint, a bytea, permit bigint)
	RETURNS TABLE (status int, code text, messages boolean, epoch int,
	wrapped bytea, pub bytea, other_epoch int, other_pub bytea)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.agent_may(t, k, a, 'f');
	IF c.status = 200 THEN
		RETURN QUERY SELECT 200, NULL::text, y.messages, w.epoch, w.wrapped,
		    z.pub, g.epoch, gz.pub FROM d.permit y
		    JOIN d.inbox x ON x.tenant_id = t AND x.inbox_id = y.inbox_id
		    JOIN d.inbox g ON g.tenant_id = t AND g.inbox_id = y.grantee
		    LEFT JOIN d.key_wrap w ON w.tenant_id = t AND w.key_id = k
		        AND w.epoch = x.epoch
		    LEFT JOIN d.inbox_key z ON z.tenant_id = t
		        AND z.inbox_id = x.inbox_id AND z.epoch = x.epoch
		    LEFT JOIN d.inbox_key gz ON gz.tenant_id = t
		        AND gz.inbox_id = g.inbox_id AND gz.epoch = g.epoch
		    WHERE y.permit_id = permit AND y.tenant_id = t
		    AND y.inbox_id = c.inbox_id AND y.ended_at IS NULL
		    AND y.expires_at > clock_timestamp();
		IF FOUND THEN
			RETURN;
		END IF;
		c.status := 404;
		c.code := 'not_found';
	END IF;
	SELECT c.status, c.code INTO status, code;
	RETURN NEXT;
END $$;

-- A look under a grant is written down: of each key the first at the list and
-- at each message, in each way. What it does again, and what it asks for that is
-- not there, is counted and written as one row an hour: a loop fills no log.
CREATE FUNCTION d.permit_looked(t bigint, k bigint, permit bigint, box bigint,
	what text, mid uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	none CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
	w record;
BEGIN
	IF mid IS NULL OR EXISTS (SELECT 1 FROM d.state s WHERE s.tenant_id = t
	    AND s.message_id = mid AND s.inbox_id = box) THEN
		INSERT INTO d.permit_look (permit_id, tenant_id, inbox_id, key_id,
		    what, message_id) VALUES (permit, t, box, k,
		    permit_looked.what, coalesce(mid, none)) ON CONFLICT DO NOTHING;
		IF FOUND THEN
			PERFORM d.note(t, 'agent:' || t::text || '.' || k::text,
			    'grant.read', mid, json_build_object('grant', permit,
			    'inbox', box, 'what', permit_looked.what)::text);
			RETURN;
		END IF;
	END IF;
	-- One at a time: the caller has the grant's row.
	INSERT INTO d.permit_look (permit_id, tenant_id, inbox_id, key_id, what)
	    VALUES (permit, t, box, k, 'again') ON CONFLICT DO NOTHING;
	UPDATE d.permit_look l SET times = l.times + 1 WHERE l.permit_id = permit
	    AND l.tenant_id = t AND l.key_id = k AND l.what = 'again'
	    AND l.message_id = none RETURNING l.* INTO w;
	IF w.since > clock_timestamp() - interval '1 hour' THEN
		RETURN;
	END IF;
	PERFORM d.note(t, 'agent:' || t::text || '.' || k::text, 'grant.read',
	    NULL, json_build_object('grant', permit, 'inbox', box, 'what',
	    'again', 'times', w.times, 'since', w.since)::text);
	UPDATE d.permit_look l SET times = 0, since = clock_timestamp()
	    WHERE l.permit_id = permit AND l.tenant_id = t AND l.key_id = k
	    AND l.what = 'again' AND l.message_id = none;
END $$;

-- Is there a live grant to this key's inbox? Then whose mail it is; the reader
-- and its inbox are written down, and the two boxes open for this call.
CREATE FUNCTION d.granted(t bigint, k bigint, a bytea, permit bigint,
	full_view boolean, what text, mid uuid, OUT status int, OUT code text,
	OUT own bigint, OUT box_of bigint, OUT messages boolean, OUT box bytea,
	OUT grantee_epoch int, OUT inbox_epoch int) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	c record;
	p record;
BEGIN
	c := d.agent_may(t, k, a, 'r');
	status := c.status;
	code := c.code;
	IF status <> 200 THEN
		RETURN;
	END IF;
	SELECT y.* INTO p FROM d.permit y JOIN d.inbox x
	    ON x.tenant_id = t AND x.inbox_id = y.inbox_id
	    WHERE y.permit_id = permit AND y.tenant_id = t
	    AND y.grantee = c.inbox_id AND y.accepted_at IS NOT NULL
	    AND y.ended_at IS NULL AND y.expires_at > clock_timestamp()
	    AND x.deleted_at IS NULL;
	IF NOT FOUND THEN
		status := 404;
		code := 'not_found';
		RETURN;
	END IF;
	IF full_view AND NOT p.messages THEN
		status := 403;
		code := 'missing_permission';
		RETURN;
	END IF;
	own := c.inbox_id;
	box_of := p.inbox_id;
	messages := p.messages;
	box := p.box;
	grantee_epoch := p.grantee_epoch;
	inbox_epoch := p.inbox_epoch;
	PERFORM set_config('postern.boxes', '{' || t::text || '.'
	    || p.inbox_id::text || ',' || t::text || '.' || own::text || '}',
	    true);
	UPDATE d.permit y SET reads = y.reads + 1 WHERE y.permit_id = permit
	    AND y.tenant_id = t;
	PERFORM d.permit_looked(t, k, permit, box_of, what, mid);
END $$;

-- States of what the other inbox sent, newest first or the one `mid`; with the
-- grant of its mail also what it is.
CREATE FUNCTION api.granted_list_1(t bigint, k bigint, a bytea,
	permit bigint, mid uuid, after uuid, lim int) RETURNS TABLE (status int,
	code text, message_id uuid, thread_id uuid, state smallint,
	created_at timestamptz, updated_at timestamptz, mail_from text,
	rcpts text, subject text, size bigint, digest bytea) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	g record;
BEGIN
	g := d.granted(t, k, a, permit, false, CASE WHEN mid IS NULL THEN 'list'
	    ELSE 'state' END, mid);
	IF g.status <> 200 THEN
		SELECT g.status, g.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, m.message_id,
	    CASE WHEN g.messages THEN m.thread_id END, s.state, m.created_at,
	    s.changed_at, CASE WHEN g.messages THEN m.mail_from END,
	    CASE WHEN g.messages THEN array_to_string(m.rcpt, E'\n') END,
	    CASE WHEN g.messages THEN m.subject END,
	    CASE WHEN g.messages THEN m.size END,
	    CASE WHEN g.messages THEN m.digest END
	    FROM d.state s JOIN d.message m ON m.message_id = s.message_id
	        AND m.tenant_id = t AND m.version = s.version
	    WHERE s.tenant_id = t AND s.inbox_id = g.box_of
	    AND (mid IS NULL OR s.message_id = mid)
	    AND (after IS NULL OR s.message_id < after)
	    ORDER BY s.message_id DESC LIMIT least(greatest(lim, 1), 100);
	IF mid IS NOT NULL AND NOT FOUND THEN
		SELECT 404, 'not_found' INTO status, code;
		RETURN NEXT;
	END IF;
END $$;

-- What opens one of them; its bytes are granted_body_1's.
CREATE FUNCTION api.granted_get_1(t bigint, k bigint, a bytea, permit bigint,
	mid uuid) RETURNS TABLE (status int, code text, version smallint,
	digest bytea, size bigint, chunks int, inbox_box bytea, inbox_pub bytea,
	grant_box bytea, wrapped bytea, own_pub bytea, tenant_id bigint,
	inbox_id bigint) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	g record;
BEGIN
	g := d.granted(t, k, a, permit, true, 'message', mid);
	IF g.status = 200 THEN
		RETURN QUERY SELECT 200, NULL::text, m.version, m.digest, m.size,
		    m.chunks, m.inbox_box, z.pub, g.box, w.wrapped, o.pub,
		    m.tenant_id, m.inbox_id
		    FROM d.state s JOIN d.message m
		        ON m.message_id = s.message_id AND m.tenant_id = t
		        AND m.version = s.version
		    LEFT JOIN d.inbox_key z ON z.tenant_id = t
		        AND z.inbox_id = g.box_of AND z.epoch = g.inbox_epoch
		    LEFT JOIN d.key_wrap w ON w.tenant_id = t AND w.key_id = k
		        AND w.epoch = g.grantee_epoch
		    LEFT JOIN d.inbox_key o ON o.tenant_id = t
		        AND o.inbox_id = g.own AND o.epoch = g.grantee_epoch
		    WHERE s.message_id = mid AND s.tenant_id = t
		    AND s.inbox_id = g.box_of AND m.inbox_epoch = g.inbox_epoch;
		IF FOUND THEN
			RETURN;
		END IF;
		g.status := 404;
		g.code := 'not_found';
	END IF;
	SELECT g.status, g.code INTO status, code;
	RETURN NEXT;
END $$;

CREATE FUNCTION api.granted_body_1(t bigint, k bigint, a bytea,
	permit bigint, mid uuid, from_seq int, lim int) RETURNS TABLE (
	status int, code text, seq int, data bytea) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	g record;
BEGIN
	g := d.granted(t, k, a, permit, true, 'body', mid);
	IF g.status <> 200 THEN
		RETURN QUERY SELECT g.status, g.code, NULL::int, NULL::bytea;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, b.seq, b.data FROM d.state s
	    JOIN d.message m ON m.message_id = s.message_id
	        AND m.tenant_id = t AND m.version = s.version
	    JOIN d.body b ON b.message_id = s.message_id AND b.tenant_id = t
	        AND b.version = m.version AND b.inbox_id = g.box_of
	        AND b.seq < m.chunks
	    WHERE s.message_id = mid AND s.tenant_id = t
	    AND s.inbox_id = g.box_of AND b.seq >= from_seq ORDER BY b.seq
	    LIMIT least(greatest(lim, 1), 16);
END $$;

-- What was captured of a message, still sealed, with what opens it.
CREATE FUNCTION api.my_captures_1(t bigint, k bigint, a bytea, mid uuid)
	RETURNS TABLE (status int, code text, n int, domain text, rcpts text,
	mail_from text, at timestamptz, box bytea, wrapped bytea,
	inbox_pub bytea) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.boxes = ''
	SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	c record;
BEGIN
	c := d.my_message(t, k, a, mid);
	IF c.status = 200 AND c.scope = 's' THEN
		c.status := 403;
		c.code := 'missing_permission';
	END IF;
	IF c.status <> 200 THEN
		SELECT c.status, c.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, r.n, r.domain,
	    (SELECT string_agg(m.rcpt[z], E'\n' ORDER BY z)
	        FROM unnest(r.ix) z), r.mail_from, r.at, r.box, w.wrapped, y.pub
	    FROM d.capture r
	    JOIN d.message m ON m.message_id = mid AND m.tenant_id = t
	        AND m.version = c.version
	    LEFT JOIN d.inbox_key y ON y.tenant_id = t
	        AND y.inbox_id = c.inbox_id AND y.epoch = r.inbox_epoch
	    LEFT JOIN d.key_wrap w ON w.tenant_id = t AND w.key_id = k
	        AND w.inbox_id = c.inbox_id AND w.epoch = r.inbox_epoch
	    WHERE r.message_id = mid AND r.tenant_id = t
	    AND r.inbox_id = c.inbox_id ORDER BY r.n LIMIT 1000;
END $$;

SET LOCAL ROLE p_relay;

-- Instead of a transaction: recipients `ix` of mail of a test inbox are
-- delivered to the store of captures. The same last gate as at the dot.
CREATE FUNCTION api.capture_1(t bigint, mid uuid, dom text, lease uuid,
	ix int[], mail_from text, key_epoch int, sealed bytea)
	RETURNS TABLE (status int, code text, go boolean, reason text)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.msg = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	l record;
	st smallint;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	status := 409;
	code := 'state_conflict';
	go := false;
	PERFORM 1 FROM d.inbox z JOIN d.send_q q
	    ON q.tenant_id = z.tenant_id AND q.inbox_id = z.inbox_id
	    WHERE q.message_id = mid AND q.tenant_id = t AND q.domain = dom
	    FOR NO KEY UPDATE OF z;
	l := d.leased(t, mid, dom, lease, true);
	IF NOT l.alive THEN
		reason := 'lease';
		RETURN NEXT;
		RETURN;
	END IF;
	IF key_epoch IS NULL OR coalesce(octet_length(sealed), 0)
	    NOT BETWEEN 48 AND 65536 OR coalesce(octet_length(
	    capture_1.mail_from), 1001) > 1000 OR coalesce(cardinality(
	    capture_1.ix), 0) NOT BETWEEN 1 AND 1000 THEN
		status := 422;
		code := 'validation_error';
		RETURN NEXT;
		RETURN;
	END IF;
	IF NOT d.mark(t, mid, dom, capture_1.ix) THEN
		status := 422;
		code := 'validation_error';
		RETURN NEXT;
		RETURN;
	END IF;
	reason := d.gate('capture', 'c', t, mid, dom, l.q);
	IF reason IN ('round', 'test') THEN
		PERFORM d.mark(t, mid, dom, '{}');
		RETURN NEXT;
		RETURN;
	END IF;
	status := 200;
	code := NULL;
	IF reason IS NOT NULL THEN
		RETURN NEXT;
		RETURN;
	END IF;
	go := true;
	INSERT INTO d.attempt (message_id, tenant_id, inbox_id, domain, n, round,
	    worker, mx, tls, dot_at, ended_at, result) SELECT mid, t,
	    (l.q).inbox_id, dom, coalesce(max(z.n), 0) + 1, (l.q).round,
	    (l.q).worker, 'capture', 'none', clock_timestamp(),
	    clock_timestamp(), 'captured' FROM d.attempt z
	    WHERE z.message_id = mid AND z.tenant_id = t AND z.domain = dom;
	UPDATE d.delivery v SET status = 2 WHERE v.message_id = mid
	    AND v.tenant_id = t AND v.domain = dom AND v.status = 1;
	UPDATE d.delivery v SET status = 3, attempts = v.attempts + 1,
	    reply = 'captured: a test inbox sends nothing',
	    next_attempt_at = NULL WHERE v.message_id = mid
	    AND v.tenant_id = t AND v.domain = dom AND v.status = 2;
	INSERT INTO d.capture (message_id, tenant_id, inbox_id, n, domain, ix,
	    mail_from, inbox_epoch, box) SELECT mid, t, (l.q).inbox_id,
	    coalesce(max(z.n), 0) + 1, dom, (SELECT array_agg(DISTINCT u
	    ORDER BY u) FROM unnest(capture_1.ix::smallint[]) u),
	    capture_1.mail_from, key_epoch, sealed FROM d.capture z
	    WHERE z.message_id = mid AND z.tenant_id = t;
	PERFORM d.lease_end(t, mid, dom, clock_timestamp(), false, 'captured');
	st := d.state_derive(t, mid, 'captured');
	PERFORM d.note(t, 'worker:' || (l.q).worker, 'message.captured', mid,
	    json_build_object('domain', dom, 'ix', capture_1.ix, 'state',
	    st)::text);
	RETURN NEXT;
END $$;

SET LOCAL ROLE p_ctl;

-- Proves a provisioning token that has the right `may` (NULL: any).
CREATE FUNCTION d.prov(t bigint, k bigint, a bytea, may text, OUT status int,
	OUT code text, OUT p d.provisioner, OUT actor text) LANGUAGE plpgsql AS $$
BEGIN
	status := 401;
	code := 'unknown_api_key';
	SELECT y.* INTO p FROM d.provisioner y
	    JOIN d.tenant n ON n.tenant_id = y.tenant_id
	    WHERE y.tenant_id = prov.t AND y.key_id = prov.k
	    AND octet_length(prov.a) = 32 AND y.auth_sha256 = sha256(prov.a)
	    AND y.revoked_at IS NULL AND y.expires_at > clock_timestamp()
	    AND n.disabled_at IS NULL;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	status := 200;
	code := NULL;
	actor := 'prov:' || t::text || '.' || k::text;
	PERFORM set_config('postern.actor', actor, true);
	IF strpos(p.rights, may) = 0 THEN
		status := 403;
		code := 'missing_permission';
	END IF;
END $$;

-- An inbox that the token made and that is there.
CREATE FUNCTION d.prov_box(t bigint, k bigint, which text,
	OUT inbox_id bigint, OUT epoch int, OUT paused boolean)
	LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	SELECT x.inbox_id, x.epoch, x.paused_at IS NOT NULL
	    INTO inbox_id, epoch, paused FROM d.inbox x
	    JOIN d.address y ON y.tenant_id = x.tenant_id
	        AND y.inbox_id = x.inbox_id
	    WHERE y.domain = split_part(d.low(which), '@', 2)
	    AND y.local_part = split_part(d.low(which), '@', 1)
	    AND x.tenant_id = prov_box.t AND x.provisioner = prov_box.k
	    AND x.deleted_at IS NULL FOR NO KEY UPDATE OF x;
END $$;

CREATE FUNCTION api.prov_me_1(t bigint, k bigint, a bytea)
	RETURNS TABLE (status int, code text, tenant_slug text, name text,
	rights text, domains text, plan text, max_inboxes int, inboxes int,
	test boolean, expires_at timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	r record;
BEGIN
	r := d.prov(t, k, a, NULL);
	RETURN QUERY SELECT r.status, r.code, n.slug, (r.p).name, (r.p).rights,
	    array_to_string((r.p).domains, E'\n'), (r.p).plan,
	    (r.p).max_inboxes, (SELECT count(*)::int FROM d.inbox x
	        WHERE r.status = 200 AND x.tenant_id = t AND x.provisioner = k
	        AND x.deleted_at IS NULL), (r.p).test, (r.p).expires_at
	    FROM (SELECT 1) one LEFT JOIN d.tenant n
	    ON r.status = 200 AND n.tenant_id = t;
END $$;

-- `client_id` makes it the same inbox each time; until it was claimed, with a
-- new code. The token's own plan, and never a looser mode than a new inbox has.
CREATE FUNCTION api.prov_create_1(t bigint, k bigint, a bytea,
	new_address text, display_name text, is_test boolean, client_id text,
	claim_sha256 bytea) RETURNS TABLE (status int, code text, address text,
	claim_until timestamptz, test boolean, created_at timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	r record;
	m record;
	x record;
	until timestamptz;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	r := d.prov(t, k, a, 'c');
	IF r.status = 200 AND (coalesce(octet_length(
	    prov_create_1.claim_sha256), 0) <> 32
	    OR prov_create_1.display_name ~ '[\x01-\x1f\x7f]'
	    OR octet_length(prov_create_1.client_id) NOT BETWEEN 1 AND 200
	    OR prov_create_1.client_id ~ '[\x01-\x1f\x7f]') THEN
		r.status := 422;
		r.code := 'validation_error';
	END IF;
	IF r.status <> 200 THEN
		SELECT r.status, r.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	-- One after the other, so that the numbers are kept to.
	PERFORM 1 FROM d.tenant n WHERE n.tenant_id = t FOR NO KEY UPDATE;
	SELECT y.inbox_id, y.address, y.epoch, y.test, y.created_at INTO x
	    FROM d.inbox y WHERE y.tenant_id = t AND y.provisioner = k
	    AND y.client_id = prov_create_1.client_id AND y.deleted_at IS NULL;
	IF FOUND THEN
		IF x.address <> d.low(new_address) THEN
			SELECT 409, 'idempotency_conflict' INTO status, code;
			RETURN NEXT;
			RETURN;
		END IF;
		IF x.epoch = 0 THEN
			until := d.claim_anew(t, x.inbox_id,
			    prov_create_1.claim_sha256);
		END IF;
		RETURN QUERY SELECT 200, NULL::text, x.address, until, x.test,
		    x.created_at;
		RETURN;
	END IF;
	IF cardinality((r.p).domains) > 0 AND split_part(d.low(new_address), '@',
	    2) <> ALL ((r.p).domains) THEN
		SELECT 403, 'domain_not_verified' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	IF (SELECT count(*) FROM d.inbox y WHERE y.tenant_id = t
	    AND y.provisioner = k AND y.deleted_at IS NULL)
	    >= (r.p).max_inboxes OR (SELECT count(*) FROM d.inbox y
	    WHERE y.tenant_id = t AND y.provisioner = k AND y.created_at
	    > clock_timestamp() - interval '1 day') >= (r.p).max_inboxes THEN
		SELECT 429, 'held_limit' INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	m := d.inbox_make(t, new_address, (r.p).plan,
	    prov_create_1.display_name, prov_create_1.claim_sha256,
	    (r.p).test OR coalesce(is_test, false), k,
	    prov_create_1.client_id, r.actor);
	IF m.status <> 200 THEN
		SELECT m.status, m.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 201, NULL::text, m.address, m.claim_until, y.test,
	    y.created_at FROM d.inbox y WHERE y.tenant_id = t
	    AND y.inbox_id = m.inbox_id;
END $$;

-- The codes there were end.
CREATE FUNCTION d.claim_anew(t bigint, i bigint, claim_sha256 bytea)
	RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
	until timestamptz := clock_timestamp() + interval '15 minutes';
BEGIN
	UPDATE d.claim c SET expires_at = clock_timestamp()
	    WHERE c.tenant_id = t AND c.inbox_id = i
	    AND c.expires_at > clock_timestamp();
	INSERT INTO d.claim (claim_sha256, tenant_id, inbox_id, expires_at)
	    VALUES (claim_anew.claim_sha256, t, i, until);
	RETURN until;
END $$;

-- A new code for an inbox that nobody claimed. One that has an owner keeps it:
-- a reset is an operator's.
CREATE FUNCTION api.prov_code_1(t bigint, k bigint, a bytea, which text,
	claim_sha256 bytea) RETURNS TABLE (status int, code text,
	claim_until timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	r record;
	x record;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	r := d.prov(t, k, a, 'c');
	IF r.status = 200 THEN
		x := d.prov_box(t, k, which);
		IF coalesce(octet_length(prov_code_1.claim_sha256), 0) <> 32 THEN
			r.status := 422;
			r.code := 'validation_error';
		ELSIF x.inbox_id IS NULL THEN
			r.status := 404;
			r.code := 'not_found';
		ELSIF x.epoch > 0 THEN
			r.status := 409;
			r.code := 'state_conflict';
		END IF;
	END IF;
	IF r.status <> 200 THEN
		RETURN QUERY SELECT r.status, r.code, NULL::timestamptz;
		RETURN;
	END IF;
	PERFORM d.note(t, r.actor, 'inbox.code', NULL, json_build_object(
	    'inbox', x.inbox_id)::text);
	RETURN QUERY SELECT 200, NULL::text, d.claim_anew(t, x.inbox_id,
	    prov_code_1.claim_sha256);
END $$;

-- The token's own inboxes, newest first; of their mail nothing.
CREATE FUNCTION api.prov_list_1(t bigint, k bigint, a bytea, after bigint,
	lim int) RETURNS TABLE (status int, code text, inbox_id bigint,
	address text, display_name text, client_id text, test boolean,
	claimed boolean, paused boolean, suspended boolean, mode smallint,
	one_click boolean, created_at timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	r record;
BEGIN
	r := d.prov(t, k, a, 'l');
	IF r.status <> 200 THEN
		SELECT r.status, r.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, x.inbox_id, x.address,
	    x.display_name, x.client_id, x.test, x.epoch > 0,
	    x.paused_at IS NOT NULL, x.suspended_at IS NOT NULL, x.mode,
	    x.one_click, x.created_at FROM d.inbox x WHERE x.tenant_id = t
	    AND x.provisioner = k AND x.deleted_at IS NULL
	    AND (after IS NULL OR x.inbox_id < after)
	    ORDER BY x.inbox_id DESC LIMIT least(greatest(lim, 1), 100);
END $$;

-- What it sends waits, and nothing leaves; an operator resumes.
CREATE FUNCTION api.prov_pause_1(t bigint, k bigint, a bytea, which text)
	RETURNS TABLE (status int, code text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	r record;
	x record;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	r := d.prov(t, k, a, 'p');
	IF r.status = 200 THEN
		x := d.prov_box(t, k, which);
		IF x.inbox_id IS NULL THEN
			r.status := 404;
			r.code := 'not_found';
		ELSIF NOT x.paused THEN
			UPDATE d.inbox y SET paused_at = clock_timestamp(),
			    paused_by = r.actor WHERE y.tenant_id = t AND y.inbox_id = x.inbox_id;
			PERFORM d.note(t, r.actor, 'inbox.pause', NULL,
			    json_build_object('inbox', x.inbox_id)::text);
		END IF;
	END IF;
	RETURN QUERY SELECT r.status, r.code;
END $$;

CREATE FUNCTION api.prov_delete_1(t bigint, k bigint, a bytea, which text)
	RETURNS TABLE (status int, code text, ended int) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	r record;
	x record;
	n int;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	r := d.prov(t, k, a, 'd');
	IF r.status = 200 THEN
		x := d.prov_box(t, k, which);
		IF x.inbox_id IS NULL THEN
			r.status := 404;
			r.code := 'not_found';
		ELSE
			n := d.inbox_end(t, x.inbox_id, r.actor,
			    'by the token that made it');
		END IF;
	END IF;
	RETURN QUERY SELECT r.status, r.code, n;
END $$;

-- An operator offers `grantee` a view into `inbox`; nothing is seen before the
-- inbox's own key accepts.
CREATE FUNCTION api.grant_offer_1(s bytea, uid bigint, tenant bigint,
	inbox bigint, grantee bigint, messages boolean, days int)
	RETURNS TABLE (status int, code text, permit_id bigint,
	expires_at timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	n record;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	o := d.ctl(s, uid, ARRAY['admin', 'senior'], tenant, inbox);
	IF o.status = 200 AND NOT d.op_may(o.operator_id, ARRAY['admin',
	    'senior'], tenant, grant_offer_1.grantee) THEN
		o.status := 403;
		o.code := 'missing_permission';
	ELSIF o.status = 200 AND (coalesce(days, 0) NOT BETWEEN 1 AND 90
	    OR grant_offer_1.messages IS NULL OR tenant IS NULL OR inbox IS NULL
	    OR grant_offer_1.grantee IS NULL OR inbox = grant_offer_1.grantee)
	    THEN
		o.status := 422;
		o.code := 'validation_error';
	ELSIF o.status = 200 AND NOT o.step_up THEN
		o.status := 403;
		o.code := 'step_up_required';
	ELSIF o.status = 200 AND (SELECT count(*) FROM d.inbox x
	    WHERE x.tenant_id = tenant AND x.deleted_at IS NULL
	    AND x.inbox_id IN (inbox, grant_offer_1.grantee)) <> 2 THEN
		o.status := 404;
		o.code := 'not_found';
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	INSERT INTO d.permit AS y (tenant_id, inbox_id, grantee, messages,
	    operator_id, expires_at) VALUES (tenant, inbox,
	    grant_offer_1.grantee, grant_offer_1.messages, o.operator_id,
	    clock_timestamp() + days * interval '1 day')
	    RETURNING y.permit_id, y.expires_at INTO n;
	PERFORM d.note(tenant, o.actor, 'grant.offered', NULL,
	    json_build_object('grant', n.permit_id, 'inbox', inbox, 'to',
	    grant_offer_1.grantee, 'messages', grant_offer_1.messages, 'until',
	    n.expires_at)::text);
	RETURN QUERY SELECT 200, NULL::text, n.permit_id, n.expires_at;
END $$;

CREATE FUNCTION api.grants_1(s bytea, uid bigint, tenant bigint)
	RETURNS TABLE (status int, code text, permit_id bigint, inbox text,
	reader text, messages boolean, offered_at timestamptz,
	accepted_at timestamptz, expires_at timestamptz, ended_at timestamptz,
	ended_by text, reads int) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin', 'senior', 'auditor'], tenant, NULL);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, y.permit_id, x.address, g.address,
	    y.messages, y.offered_at, y.accepted_at, y.expires_at, y.ended_at,
	    y.ended_by, y.reads FROM d.permit y
	    JOIN d.inbox x ON x.tenant_id = tenant AND x.inbox_id = y.inbox_id
	    JOIN d.inbox g ON g.tenant_id = tenant AND g.inbox_id = y.grantee
	    WHERE y.tenant_id = tenant ORDER BY y.permit_id DESC LIMIT 1000;
END $$;

CREATE FUNCTION api.grant_end_1(s bytea, uid bigint, tenant bigint,
	permit bigint) RETURNS TABLE (status int, code text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	o := d.ctl(s, uid, ARRAY['admin', 'senior'], tenant, NULL);
	IF o.status = 200 THEN
		UPDATE d.permit y SET ended_at = clock_timestamp(), box = NULL,
		    ended_by = o.actor WHERE y.tenant_id = tenant
		    AND y.permit_id = permit AND y.ended_at IS NULL;
		IF FOUND THEN
			PERFORM d.note(tenant, o.actor, 'grant.ended', NULL,
			    json_build_object('grant', permit)::text);
		ELSE
			o.status := 404;
			o.code := 'not_found';
		END IF;
	END IF;
	RETURN QUERY SELECT o.status, o.code;
END $$;

-- All grants of an inbox end with a reset or with the inbox.
CREATE FUNCTION d.permits_end(t bigint, i bigint, actor text) RETURNS void
	LANGUAGE plpgsql AS $$
BEGIN
	UPDATE d.permit y SET ended_at = clock_timestamp(), box = NULL,
	    ended_by = permits_end.actor WHERE y.tenant_id = t
	    AND i IN (y.inbox_id, y.grantee) AND y.ended_at IS NULL;
END $$;

-- What of looks under grants was only counted: into the audit log. Behind a
-- grant that is over, what was looked at needs no memory.
CREATE FUNCTION d.permits_told() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	w record;
BEGIN
	FOR w IN SELECT l.*, y.ended_at IS NOT NULL
	    OR y.expires_at < clock_timestamp() AS over FROM d.permit_look l
	    JOIN d.permit y ON y.permit_id = l.permit_id
	        AND y.tenant_id = l.tenant_id WHERE l.times > 0
	    ORDER BY l.permit_id, l.key_id FOR UPDATE OF l LOOP
		CONTINUE WHEN NOT w.over
		    AND w.since > clock_timestamp() - interval '1 hour';
		PERFORM d.note(w.tenant_id, 'agent:' || w.tenant_id::text || '.'
		    || w.key_id::text, 'grant.read', NULL, json_build_object(
		    'grant', w.permit_id, 'inbox', w.inbox_id, 'what', 'again',
		    'times', w.times, 'since', w.since)::text);
		UPDATE d.permit_look l SET times = 0, since = clock_timestamp()
		    WHERE l.permit_id = w.permit_id AND l.tenant_id = w.tenant_id
		    AND l.key_id = w.key_id AND l.what = w.what
		    AND l.message_id = w.message_id;
	END LOOP;
	DELETE FROM d.permit_look l USING d.permit y
	    WHERE y.permit_id = l.permit_id AND y.tenant_id = l.tenant_id
	    AND l.times = 0 AND (y.ended_at IS NOT NULL
	    OR y.expires_at < clock_timestamp());
END $$;

-- Operators make such tokens, with a step-up.
CREATE FUNCTION api.provisioner_create_1(s bytea, uid bigint, tenant bigint,
	name text, auth bytea, rights text, domains text, plan text,
	max_inboxes int, test boolean, days int) RETURNS TABLE (status int,
	code text, key_id bigint, expires_at timestamptz) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record;
	n record;
	list text[] := coalesce(string_to_array(nullif(d.low(
	    provisioner_create_1.domains), ''), ','), '{}');
BEGIN
	o := d.ctl(s, uid, ARRAY['admin'], tenant, NULL);
	IF o.status = 200 AND (tenant IS NULL OR coalesce(length(
	    provisioner_create_1.name), 0) NOT BETWEEN 1 AND 100
	    OR provisioner_create_1.name ~ '[\x01-\x1f\x7f]'
	    OR coalesce(octet_length(auth), 0) <> 32
	    OR coalesce(provisioner_create_1.rights, '') !~ '^[clpd]{1,4}$'
	    OR cardinality(list) > 100
	    OR coalesce(provisioner_create_1.max_inboxes, 0) NOT BETWEEN 1
	    AND 100000 OR coalesce(days, 0) NOT BETWEEN 1 AND 3650
	    OR provisioner_create_1.test IS NULL) THEN
		o.status := 422;
		o.code := 'validation_error';
	ELSIF o.status = 200 AND NOT o.step_up THEN
		o.status := 403;
		o.code := 'step_up_required';
	ELSIF o.status = 200 AND (NOT EXISTS (SELECT 1 FROM d.plan y
	    WHERE y.tenant_id = tenant AND y.plan = provisioner_create_1.plan)
	    OR EXISTS (SELECT 1 FROM unnest(list) z WHERE NOT EXISTS (SELECT 1
	    FROM d.domain y WHERE y.domain = z AND y.tenant_id = tenant
	    AND y.removed_at IS NULL))) THEN
		o.status := 404;
		o.code := 'not_found';
	END IF;
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	INSERT INTO d.provisioner AS y (tenant_id, name, auth_sha256, rights,
	    domains, plan, max_inboxes, test, operator_id, expires_at)
	    VALUES (tenant, provisioner_create_1.name, auth,
	    provisioner_create_1.rights, list, provisioner_create_1.plan,
	    provisioner_create_1.max_inboxes, provisioner_create_1.test,
	    o.operator_id, clock_timestamp() + days * interval '1 day')
	    RETURNING y.key_id, y.expires_at INTO n;
	PERFORM d.note(tenant, o.actor, 'provisioner.create', NULL,
	    json_build_object('key', n.key_id, 'name',
	    provisioner_create_1.name, 'rights', provisioner_create_1.rights,
	    'domains', list, 'max_inboxes', provisioner_create_1.max_inboxes,
	    'test', provisioner_create_1.test, 'until', n.expires_at)::text);
	RETURN QUERY SELECT 200, NULL::text, n.key_id, n.expires_at;
END $$;

CREATE FUNCTION api.provisioners_1(s bytea, uid bigint, tenant bigint)
	RETURNS TABLE (status int, code text, key_id bigint, name text,
	rights text, domains text, plan text, max_inboxes int, inboxes int,
	test boolean, expires_at timestamptz, revoked_at timestamptz)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin', 'auditor'], tenant, NULL);
	IF o.status <> 200 THEN
		SELECT o.status, o.code INTO status, code;
		RETURN NEXT;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::text, y.key_id, y.name, y.rights,
	    array_to_string(y.domains, ','), y.plan, y.max_inboxes,
	    (SELECT count(*)::int FROM d.inbox x WHERE x.tenant_id = tenant
	        AND x.provisioner = y.key_id AND x.deleted_at IS NULL), y.test,
	    y.expires_at, y.revoked_at FROM d.provisioner y
	    WHERE y.tenant_id = tenant ORDER BY y.key_id;
END $$;

-- Another secret for the same token; its inboxes stay its own.
CREATE FUNCTION api.provisioner_rotate_1(s bytea, uid bigint, tenant bigint,
	key bigint, auth bytea) RETURNS TABLE (status int, code text,
	key_id bigint, expires_at timestamptz) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET postern.tenants = ''
	SET postern.boxes = '' SET postern.actor = '' AS $$
#variable_conflict use_column
DECLARE
	o record;
	n record;
BEGIN
	o := d.ctl(s, uid, ARRAY['admin'], tenant, NULL);
	IF o.status = 200 AND (tenant IS NULL OR coalesce(octet_length(auth), 0)
	    <> 32) THEN
		o.status := 422;
		o.code := 'validation_error';
	ELSIF o.status = 200 AND NOT o.step_up THEN
		o.status := 403;
		o.code := 'step_up_required';
	END IF;
	IF o.status = 200 THEN
		UPDATE d.provisioner y SET auth_sha256 = auth
		    WHERE y.tenant_id = tenant
		    AND y.key_id = provisioner_rotate_1.key
		    AND y.revoked_at IS NULL
		    RETURNING y.key_id, y.expires_at INTO n;
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
	PERFORM d.note(tenant, o.actor, 'provisioner.rotate', NULL,
	    json_build_object('key', n.key_id)::text);
	RETURN QUERY SELECT 200, NULL::text, n.key_id, n.expires_at;
END $$;

CREATE FUNCTION api.provisioner_end_1(s bytea, uid bigint, tenant bigint,
	key bigint) RETURNS TABLE (status int, code text) LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET postern.tenants = '' SET postern.boxes = '' SET postern.actor = ''
	AS $$
#variable_conflict use_column
DECLARE
	o record;
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	o := d.ctl(s, uid, ARRAY['admin'], tenant, NULL);
	IF o.status = 200 THEN
		UPDATE d.provisioner y SET revoked_at = clock_timestamp()
		    WHERE y.tenant_id = tenant AND y.key_id
		    = provisioner_end_1.key AND y.revoked_at IS NULL;
		IF FOUND THEN
			PERFORM d.note(tenant, o.actor, 'provisioner.end', NULL,
			    json_build_object('key', provisioner_end_1.key)::text);
		ELSE
			o.status := 404;
			o.code := 'not_found';
		END IF;
	END IF;
	RETURN QUERY SELECT o.status, o.code;
END $$;

RESET ROLE;
SET LOCAL ROLE p_submit;
GRANT EXECUTE ON FUNCTION api.draft_put_1, api.draft_go_1, api.draft_stay_1,
	api.draft_end_1, api.label_1,
	api.inbox_set_1, api.sandbox_gone_1, api.block_1, api.key_create_1,
	api.grant_accept_1, api.grant_leave_1 TO l_gateway;
SET LOCAL ROLE p_read;
GRANT EXECUTE ON FUNCTION api.draft_1, api.drafts_1, api.usage_1,
	api.my_captures_1, api.my_lists_1, api.key_wrap_1, api.my_grants_1,
	api.grant_key_1, api.granted_list_1, api.granted_get_1,
	api.granted_body_1 TO l_gateway;
SET LOCAL ROLE p_relay;
GRANT EXECUTE ON FUNCTION api.capture_1 TO l_worker;
SET LOCAL ROLE p_ctl;
GRANT EXECUTE ON FUNCTION api.prov_me_1, api.prov_create_1, api.prov_code_1,
	api.prov_list_1, api.prov_pause_1, api.prov_delete_1 TO l_gateway;
GRANT EXECUTE ON FUNCTION api.provisioner_create_1, api.provisioners_1,
	api.provisioner_rotate_1, api.provisioner_end_1, api.grant_offer_1,
	api.grants_1, api.grant_end_1 TO l_ctl;
SET LOCAL ROLE p_owner;
REVOKE CREATE ON SCHEMA d, api FROM p_submit, p_read, p_relay, p_ctl;
