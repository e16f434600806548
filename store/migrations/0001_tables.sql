-- SPDX-License-Identifier: ISC
-- 0001_tables.sql - what is stored. Rules, rights and functions follow in
-- 0002 and later; a program needs all of them.
SET LOCAL ROLE p_owner;

-- What a value must be. A domain is prepared once a session, the CHECK of a
-- table once a statement: hence domains in the tables that every submission
-- and every delivery writes. What a state or status may be, and the number of
-- a recipient, is the matter of the triggers of 0002 alone.
CREATE DOMAIN d.hash AS bytea CHECK (octet_length(VALUE) = 32);
CREATE DOMAIN d.actor AS text CHECK (CASE split_part(VALUE, ':', 1)
	WHEN 'agent' THEN translate(VALUE, '0123456789', '') = 'agent:.'
	    AND VALUE LIKE 'agent:_%._%'
	WHEN 'prov' THEN translate(VALUE, '0123456789', '') = 'prov:.'
	    AND VALUE LIKE 'prov:_%._%'
	WHEN 'op' THEN VALUE ~ '^op:[0-9]+(@ctl:[0-9]+)?$'
	WHEN 'ctl' THEN VALUE ~ '^ctl:[0-9]+$'
	WHEN 'worker' THEN length(VALUE) BETWEEN 8 AND 71
	ELSE VALUE IN ('policy', 'gateway') END);
CREATE DOMAIN d.event_name AS text CHECK (length(VALUE) BETWEEN 2 AND 64
	AND btrim(VALUE, 'abcdefghijklmnopqrstuvwxyz_.') = ''
	AND left(VALUE, 1) BETWEEN 'a' AND 'z');
CREATE DOMAIN d.detail AS text CHECK (octet_length(VALUE) <= 8192);
CREATE DOMAIN d.enhanced AS text CHECK (length(VALUE) <= 16);
CREATE DOMAIN d.reply AS text CHECK (length(VALUE) <= 1024);
CREATE DOMAIN d.positive AS int CHECK (VALUE > 0);

CREATE TABLE d.schema_migration (
	version int PRIMARY KEY,
	name text NOT NULL,
	sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
	-- A program that knows less than this cannot work any more.
	serves int NOT NULL DEFAULT 0,
	applied_at timestamptz NOT NULL DEFAULT clock_timestamp());

-- One row. `secret` makes the fake salts of unknown operators.
CREATE TABLE d.deployment (
	one boolean PRIMARY KEY DEFAULT true CHECK (one),
	deployment bytea NOT NULL CHECK (octet_length(deployment) = 16),
	epoch int NOT NULL DEFAULT 1,
	gen int NOT NULL DEFAULT 1,
	secret bytea NOT NULL CHECK (octet_length(secret) = 32),
	restored text, -- the last setting postern.restored that was finished
	created_at timestamptz NOT NULL DEFAULT clock_timestamp());

CREATE TABLE d.global_pause (
	one boolean PRIMARY KEY DEFAULT true CHECK (one),
	paused_at timestamptz,
	paused_by text,
	reason text);
INSERT INTO d.global_pause DEFAULT VALUES;

-- Never has a row: its lock is what is wanted (decision 0105).
CREATE TABLE d.stop (one boolean PRIMARY KEY);

-- Legal moves: compared by a test with policy/edges.def. Actor is the owner
-- of the running function.
CREATE TABLE d.edge (
	from_state smallint NOT NULL,
	to_state smallint NOT NULL,
	actor name NOT NULL,
	PRIMARY KEY (from_state, to_state, actor));
CREATE TABLE d.delivery_edge (
	from_status smallint NOT NULL,
	to_status smallint NOT NULL,
	actor name NOT NULL,
	PRIMARY KEY (from_status, to_status, actor));
CREATE TABLE d.mode_rule (
	mode smallint PRIMARY KEY CHECK (mode BETWEEN 0 AND 4),
	name text NOT NULL UNIQUE,
	accepts boolean NOT NULL,
	releases boolean NOT NULL);

-- People and their inboxes -------------------------------------------------

CREATE TABLE d.tenant (
	tenant_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	slug text NOT NULL UNIQUE CHECK (slug ~ '^[a-z][a-z0-9-]{1,31}$'),
	name text NOT NULL CHECK (length(name) <= 200),
	need_approvals smallint NOT NULL DEFAULT 1
	    CHECK (need_approvals BETWEEN 1 AND 2),
	hold_for interval NOT NULL DEFAULT '7 days' CHECK (hold_for > '0'),
	approve_ttl interval NOT NULL DEFAULT '72 hours' CHECK (approve_ttl > '0'),
	seal_subject boolean NOT NULL DEFAULT false,
	weight float8 NOT NULL DEFAULT 1 CHECK (weight > 0),
	paused_at timestamptz,
	paused_by text, -- as in the audit log
	pause_reason text,
	disabled_at timestamptz,
	deleted_at timestamptz,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	CHECK (deleted_at IS NULL OR disabled_at IS NOT NULL));

CREATE TABLE d.tenant_key (
	tenant_id bigint NOT NULL REFERENCES d.tenant,
	epoch int NOT NULL,
	pub bytea NOT NULL CHECK (octet_length(pub) = 32),
	priv_box bytea NOT NULL,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (tenant_id, epoch));

CREATE TABLE d.domain (
	domain text PRIMARY KEY CHECK (domain = lower(domain)),
	tenant_id bigint NOT NULL REFERENCES d.tenant,
	token text NOT NULL,
	verified_at timestamptz,
	how text,
	removed_at timestamptz,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp());

CREATE TABLE d.plan (
	tenant_id bigint NOT NULL REFERENCES d.tenant,
	plan text NOT NULL CHECK (plan ~ '^[a-z][a-z0-9_-]{0,31}$'),
	lim_hour int NOT NULL DEFAULT 20 CHECK (lim_hour >= 0),
	lim_day int NOT NULL DEFAULT 100 CHECK (lim_day >= 0),
	lim_month int NOT NULL DEFAULT 3000 CHECK (lim_month >= 0),
	lim_held int NOT NULL DEFAULT 200 CHECK (lim_held >= 0),
	lim_bytes bigint NOT NULL DEFAULT 1073741824 CHECK (lim_bytes >= 0),
	PRIMARY KEY (tenant_id, plan));

-- `touched` is never written: the right to update it is what lets a function
-- take a share lock on the row.
CREATE TABLE d.inbox (
	tenant_id bigint NOT NULL REFERENCES d.tenant,
	inbox_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY UNIQUE,
	address text NOT NULL,
	local_part text NOT NULL,
	domain text NOT NULL REFERENCES d.domain,
	display_name text CHECK (length(display_name) <= 200),
	metadata text CHECK (octet_length(metadata) <= 8192),
	mode smallint NOT NULL DEFAULT 2 REFERENCES d.mode_rule,
	mode_epoch int NOT NULL DEFAULT 1,
	paused_at timestamptz,
	paused_by text, -- as in the audit log
	pause_reason text,
	suspended_at timestamptz,
	deleted_at timestamptz,
	alarm text,
	-- Was its mode ever made stricter, an allow rule of it ever ended? Then the
	-- sweep looks for its mail.
	lowered boolean NOT NULL DEFAULT false,
	rules_ended boolean NOT NULL DEFAULT false,
	plan text NOT NULL DEFAULT 'default',
	lim_hour int NOT NULL CHECK (lim_hour >= 0),
	lim_day int NOT NULL CHECK (lim_day >= 0),
	lim_month int NOT NULL CHECK (lim_month >= 0),
	lim_held int NOT NULL CHECK (lim_held >= 0),
	lim_bytes bigint NOT NULL CHECK (lim_bytes >= 0),
	limits_version int NOT NULL DEFAULT 1,
	rcpt_max int NOT NULL DEFAULT 100 CHECK (rcpt_max BETWEEN 1 AND 1000),
	size_max bigint NOT NULL DEFAULT 52428800 CHECK (size_max > 0),
	need_approvals smallint CHECK (need_approvals BETWEEN 1 AND 2),
	hold_for interval CHECK (hold_for > '0'),
	oversight text,
	smtp_wide boolean NOT NULL DEFAULT false,
	may_duplicate boolean NOT NULL DEFAULT false,
	-- Its mail carries a link by which who gets it says no more (RFC 8058).
	one_click boolean NOT NULL DEFAULT false,
	-- From birth and for ever: what it sends is captured (0017), not sent.
	test boolean NOT NULL DEFAULT false,
	-- Which provisioning token made it, and what that calls it (0017).
	provisioner bigint,
	client_id text CHECK (octet_length(client_id) BETWEEN 1 AND 200),
	epoch int NOT NULL DEFAULT 0,
	reset_at timestamptz,
	reset_by text,
	touched boolean,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (tenant_id, inbox_id),
	FOREIGN KEY (tenant_id, plan) REFERENCES d.plan,
	CHECK (address = local_part || '@' || domain));
CREATE INDEX inbox_test ON d.inbox (tenant_id) WHERE test;
CREATE INDEX inbox_swept ON d.inbox (tenant_id, inbox_id)
	WHERE lowered OR rules_ended;

CREATE TABLE d.address (
	domain text NOT NULL,
	local_part text NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	PRIMARY KEY (domain, local_part),
	FOREIGN KEY (tenant_id, inbox_id) REFERENCES d.inbox);

CREATE TABLE d.inbox_key (
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	epoch int NOT NULL,
	pub bytea NOT NULL CHECK (octet_length(pub) = 32),
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (tenant_id, inbox_id, epoch),
	FOREIGN KEY (tenant_id, inbox_id) REFERENCES d.inbox);

-- Agents' keys. Only SHA-256(A) is here, A itself is never stored.
CREATE TABLE d.credential (
	tenant_id bigint NOT NULL,
	key_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
	inbox_id bigint NOT NULL,
	kind "char" NOT NULL CHECK (kind IN ('l', 's', 't')),
	scope "char" NOT NULL CHECK (scope IN ('s', 'r', 'f')),
	auth_sha256 bytea NOT NULL CHECK (octet_length(auth_sha256) = 32),
	lineage bigint NOT NULL,
	parent_key bigint,
	caps text CHECK (octet_length(caps) <= 8192),
	opened_by bigint,
	label text CHECK (length(label) <= 200),
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	expires_at timestamptz,
	revoked_at timestamptz,
	last_used timestamptz,
	PRIMARY KEY (tenant_id, key_id),
	UNIQUE (tenant_id, inbox_id, key_id),
	FOREIGN KEY (tenant_id, inbox_id) REFERENCES d.inbox,
	CHECK ((kind = 's') = (parent_key IS NOT NULL)));
CREATE INDEX credential_revoked ON d.credential (revoked_at)
	WHERE revoked_at IS NOT NULL;

CREATE TABLE d.key_wrap (
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	key_id bigint NOT NULL,
	epoch int NOT NULL,
	wrapped bytea NOT NULL CHECK (octet_length(wrapped) BETWEEN 32 AND 256),
	PRIMARY KEY (tenant_id, key_id, epoch),
	FOREIGN KEY (tenant_id, inbox_id, key_id)
	    REFERENCES d.credential (tenant_id, inbox_id, key_id));

-- What a session key may, closed by default, and the record of its run.
CREATE TABLE d.agent_session (
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	key_id bigint NOT NULL,
	run text CHECK (octet_length(run) <= 1000),
	sandbox_id text CHECK (octet_length(sandbox_id) <= 1000),
	template text CHECK (octet_length(template) <= 1000),
	purpose text CHECK (octet_length(purpose) <= 1000),
	recipients text[] NOT NULL CHECK (cardinality(recipients) <= 100),
	domains text[] NOT NULL CHECK (cardinality(domains) <= 100),
	max_messages int NOT NULL CHECK (max_messages >= 0),
	attachments boolean NOT NULL,
	doors text NOT NULL CHECK (btrim(doors, 'srm') = ''),
	sent int NOT NULL DEFAULT 0,
	refused int NOT NULL DEFAULT 0,
	started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	ended_at timestamptz,
	ended_by text,
	exit_error text CHECK (octet_length(exit_error) <= 4000),
	stdout_lines bigint,
	stderr_lines bigint,
	payload_length bigint,
	PRIMARY KEY (tenant_id, key_id),
	FOREIGN KEY (tenant_id, inbox_id, key_id)
	    REFERENCES d.credential (tenant_id, inbox_id, key_id));
CREATE INDEX agent_session_inbox ON d.agent_session (tenant_id, inbox_id,
	key_id);

CREATE TABLE d.handle (
	tenant_id bigint NOT NULL,
	key_id bigint NOT NULL,
	handle_sha256 bytea NOT NULL CHECK (octet_length(handle_sha256) = 32),
	login name NOT NULL,
	expires_at timestamptz NOT NULL,
	PRIMARY KEY (tenant_id, key_id, handle_sha256),
	FOREIGN KEY (tenant_id, key_id) REFERENCES d.credential);
CREATE INDEX handle_expires ON d.handle (expires_at);

CREATE TABLE d.claim (
	claim_sha256 bytea NOT NULL CHECK (octet_length(claim_sha256) = 32),
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	expires_at timestamptz NOT NULL,
	used_at timestamptz,
	PRIMARY KEY (claim_sha256, tenant_id),
	FOREIGN KEY (tenant_id, inbox_id) REFERENCES d.inbox);

-- Reversible secrets, each sealed to the one program that opens it (A7).
CREATE TABLE d.secret (
	tenant_id bigint NOT NULL REFERENCES d.tenant,
	name text NOT NULL,
	program text NOT NULL,
	epoch int NOT NULL,
	sealed bytea NOT NULL,
	PRIMARY KEY (tenant_id, name, epoch));

-- inbox_id 0: the whole tenant; tenant_id 0: everywhere.
CREATE TABLE d.list_entry (
	entry_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	entry text NOT NULL CHECK (octet_length(entry) BETWEEN 3 AND 320),
	verdict "char" NOT NULL CHECK (verdict IN ('b', 's')),
	expires_at timestamptz,
	ended_at timestamptz,
	reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 1000),
	created_by text NOT NULL,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (entry_id, tenant_id),
	CHECK (tenant_id > 0 OR inbox_id = 0));
CREATE INDEX list_entry_live ON d.list_entry (entry, tenant_id, inbox_id)
	WHERE ended_at IS NULL;

CREATE TABLE d.allow_rule (
	rule_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	entry text NOT NULL,
	operator_id bigint NOT NULL,
	reason text NOT NULL,
	uses_left int NOT NULL CHECK (uses_left >= 0),
	expires_at timestamptz NOT NULL,
	ended_at timestamptz,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (rule_id, tenant_id),
	FOREIGN KEY (tenant_id, inbox_id) REFERENCES d.inbox);
CREATE INDEX allow_rule_live ON d.allow_rule (tenant_id, inbox_id)
	WHERE ended_at IS NULL;

-- Operators ----------------------------------------------------------------

CREATE TABLE d.operator (
	operator_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	name text NOT NULL UNIQUE CHECK (name
	    ~ '^[a-z0-9][a-z0-9._@-]{0,63}$'),
	salt bytea NOT NULL CHECK (octet_length(salt) = 16),
	params text NOT NULL,
	verifier bytea NOT NULL CHECK (octet_length(verifier) = 32),
	failures int NOT NULL DEFAULT 0,
	failed_at timestamptz,
	locked_until timestamptz,
	totp boolean NOT NULL DEFAULT false,
	passkeys int NOT NULL DEFAULT 0,
	factor_failures int NOT NULL DEFAULT 0,
	factor_locked_until timestamptz,
	disabled_at timestamptz,
	last_seen timestamptz,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp());

-- Sign-ins that failed for names that nobody has, or has any more: they are made
-- to wait as those of people are, or a wait would tell who is one. What was
-- typed is not kept, for it may have been a password. A name's place is two
-- bytes of its hash, which nobody outside can compute; the newer name has it.
CREATE TABLE d.nobody (
	place int PRIMARY KEY CHECK (place BETWEEN 0 AND 65535),
	name_sha256 bytea NOT NULL CHECK (octet_length(name_sha256) = 32),
	failures int NOT NULL DEFAULT 0,
	failed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	locked_until timestamptz);

-- tenant_id NULL: all tenants; inbox_id NULL: all inboxes of the tenant.
CREATE TABLE d.operator_scope (
	scope_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	operator_id bigint NOT NULL REFERENCES d.operator,
	tenant_id bigint REFERENCES d.tenant,
	inbox_id bigint,
	role text NOT NULL
	    CHECK (role IN ('reviewer', 'senior', 'admin', 'auditor')),
	risk_cap smallint NOT NULL DEFAULT 74 CHECK (risk_cap BETWEEN 0 AND 100),
	CHECK (tenant_id IS NOT NULL OR inbox_id IS NULL),
	FOREIGN KEY (tenant_id, inbox_id) REFERENCES d.inbox);
CREATE INDEX operator_scope_operator ON d.operator_scope (operator_id);

CREATE TABLE d.operator_session (
	session_sha256 bytea PRIMARY KEY CHECK (octet_length(session_sha256) = 32),
	operator_id bigint NOT NULL REFERENCES d.operator,
	peer text,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	touched_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	expires_at timestamptz NOT NULL,
	step_up_until timestamptz,
	step_up_by text CHECK (step_up_by IN ('password', 'totp', 'passkey',
	    'recovery')),
	-- The password was right and the second factor is not shown yet.
	factor_due boolean NOT NULL DEFAULT false,
	-- What the forms of its pages carry. The secret changes, this does not.
	csrf uuid NOT NULL DEFAULT gen_random_uuid(),
	ended_at timestamptz);
CREATE INDEX operator_session_operator ON d.operator_session (operator_id);

-- Counters that bound trust ------------------------------------------------

CREATE TABLE d.quota (
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	day date NOT NULL DEFAULT '2000-01-01',
	day_used int NOT NULL DEFAULT 0,
	month date NOT NULL DEFAULT '2000-01-01',
	month_used int NOT NULL DEFAULT 0,
	held int NOT NULL DEFAULT 0,
	held_bytes bigint NOT NULL DEFAULT 0,
	denied_hour timestamptz NOT NULL DEFAULT '2000-01-01',
	denied int NOT NULL DEFAULT 0,
	PRIMARY KEY (tenant_id, inbox_id),
	FOREIGN KEY (tenant_id, inbox_id) REFERENCES d.inbox)
	WITH (fillfactor = 50);

-- Start-time fair queueing between tenants.
CREATE TABLE d.fair (
	tenant_id bigint PRIMARY KEY REFERENCES d.tenant,
	vt float8 NOT NULL DEFAULT 0) WITH (fillfactor = 50);

CREATE TABLE d.upload (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	key_id bigint NOT NULL,
	chunks int NOT NULL,
	bytes bigint NOT NULL,
	started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (message_id, tenant_id, inbox_id),
	FOREIGN KEY (tenant_id, inbox_id) REFERENCES d.inbox);
CREATE INDEX upload_inbox ON d.upload (tenant_id, inbox_id);

CREATE TABLE d.idem (
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	lineage bigint NOT NULL,
	key_sha256 d.hash NOT NULL,
	request_sha256 d.hash NOT NULL,
	message_id uuid NOT NULL,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (tenant_id, inbox_id, lineage, key_sha256));
CREATE INDEX idem_created ON d.idem USING brin (created_at);

-- Messages: partitioned by week of the id (uuid version 7) -----------------

CREATE FUNCTION d.digest_1(tenant bigint, inbox bigint, mid uuid,
	version smallint, test boolean, mail_from text, rcpt text[], params text,
	size bigint, body_tag bytea, send_at bigint, not_after bigint)
	RETURNS bytea LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
	r bytea := int4send(cardinality(rcpt));
	x text;
BEGIN
	FOREACH x IN ARRAY rcpt LOOP
		r := r || int4send(octet_length(x)) || convert_to(x, 'UTF8');
	END LOOP;
	RETURN sha256('\x00000010706f737465726e2e6469676573742e31'::bytea
	    || int8send(tenant) || int8send(inbox) || uuid_send(mid)
	    || int2send(version)
	    || CASE WHEN test THEN '\x01'::bytea ELSE '\x00'::bytea END
	    || int4send(octet_length(mail_from)) || convert_to(mail_from, 'UTF8')
	    || r || int4send(octet_length(params)) || convert_to(params, 'UTF8')
	    || int8send(size) || int4send(octet_length(body_tag)) || body_tag
	    || int8send(send_at) || int8send(not_after));
END $$;

-- The bounds of a message, as one condition: each CHECK of a table is parsed
-- anew by every statement that writes it.
CREATE FUNCTION d.message_sound(version smallint, key_id bigint,
	operator_id bigint, door "char", rcpt text[], kinds text, params text,
	size bigint, chunks int, body_tag bytea, attachments int, risk smallint,
	need smallint, rfc_id text, in_reply_to text, refs text, labels text,
	context text, tenant_box bytea, inbox_box bytea) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	RETURN version >= 1 AND (key_id IS NULL) <> (operator_id IS NULL)
	    AND door = ANY (CASE WHEN key_id IS NULL THEN '{s,r,m,e}'
	        ELSE '{s,r,m}' END::"char"[])
	    AND cardinality(rcpt) BETWEEN 1 AND 1000
	    AND length(kinds) = cardinality(rcpt) AND btrim(kinds, 'tcbo') = ''
	    AND size >= 0 AND chunks BETWEEN 1 AND 4096
	    AND octet_length(body_tag) = 32 AND attachments >= 0
	    AND risk BETWEEN 0 AND 100 AND need BETWEEN 1 AND 2
	    AND octet_length(params) <= 65536
	    AND (rfc_id IS NULL OR octet_length(rfc_id) <= 998)
	    AND (in_reply_to IS NULL OR octet_length(in_reply_to) <= 998)
	    AND (refs IS NULL OR octet_length(refs) <= 16384)
	    AND (labels IS NULL OR octet_length(labels) <= 4096)
	    AND (context IS NULL OR octet_length(context) <= 8192)
	    AND octet_length(tenant_box) <= 512
	    AND octet_length(inbox_box) <= 512;
END $$;

CREATE TABLE d.message (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	version smallint NOT NULL,
	key_id bigint,
	operator_id bigint,
	door "char" NOT NULL,
	test boolean NOT NULL,
	mail_from text NOT NULL,
	rcpt text[] NOT NULL,
	rcpt_kind text NOT NULL,
	params text NOT NULL,
	size bigint NOT NULL,
	chunks int NOT NULL,
	body_tag bytea NOT NULL,
	send_at bigint NOT NULL,
	not_after bigint NOT NULL,
	digest bytea NOT NULL,
	thread_id uuid NOT NULL,
	subject text,
	header_from text,
	rfc_message_id text,
	in_reply_to text,
	refs text,
	labels text,
	context text,
	revises uuid,
	attachments int NOT NULL,
	links boolean NOT NULL DEFAULT false,
	risk smallint NOT NULL,
	findings_set smallint,
	finding_max smallint,
	need_approvals smallint NOT NULL,
	reasons text NOT NULL,
	mode smallint NOT NULL,
	mode_epoch int NOT NULL,
	limits_version int NOT NULL,
	tenant_epoch int NOT NULL,
	tenant_box bytea NOT NULL,
	inbox_epoch int NOT NULL,
	inbox_box bytea NOT NULL,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (message_id, tenant_id, version),
	UNIQUE (message_id, tenant_id, version, digest),
	CONSTRAINT message_sound CHECK (d.message_sound(version, key_id,
	    operator_id, door, rcpt, rcpt_kind, params, size, chunks, body_tag,
	    attachments, risk, need_approvals, rfc_message_id, in_reply_to, refs,
	    labels, context, tenant_box, inbox_box)),
	CONSTRAINT message_digest CHECK (digest = d.digest_1(tenant_id, inbox_id,
	    message_id, version, test, mail_from, rcpt, params, size, body_tag,
	    send_at, not_after))) PARTITION BY RANGE (message_id);
CREATE INDEX message_rfc ON d.message (rfc_message_id, tenant_id, inbox_id)
	WHERE rfc_message_id IS NOT NULL;

CREATE TABLE d.body (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	version smallint NOT NULL,
	seq int NOT NULL,
	data bytea NOT NULL,
	CHECK (seq BETWEEN 0 AND 4095
	    AND octet_length(data) BETWEEN 1 AND 262228),
	PRIMARY KEY (message_id, tenant_id, version, inbox_id, seq))
	PARTITION BY RANGE (message_id);
ALTER TABLE d.body ALTER data SET STORAGE EXTERNAL;

CREATE TABLE d.state (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	version smallint NOT NULL,
	round smallint NOT NULL DEFAULT 1,
	state smallint NOT NULL,
	risk smallint NOT NULL,
	hold_until timestamptz NOT NULL,
	integrity text,
	detail text,
	changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	was smallint NOT NULL DEFAULT 0, -- before the last update (0002)
	-- Where it stays in until somebody decides or time passes: held, deferred,
	-- uncertain. No index names the state itself: what moves from approved to
	-- sending to sent keeps this, so its row changes and no index does
	-- (decision 0126). Who looks by an index asks for this.
	stays smallint NOT NULL GENERATED ALWAYS AS (CASE WHEN state = ANY
	    ('{1,9,11}'::smallint[]) THEN state ELSE 0::smallint END) STORED,
	-- What was held is a new entry in all of these once it is not: without
	-- room, pages that were filled in order of ids split, or are searched for
	-- what may go, with each (decision 0122).
	PRIMARY KEY (message_id, tenant_id) WITH (fillfactor = 50),
	UNIQUE (message_id, tenant_id, version, round) WITH (fillfactor = 50))
	PARTITION BY RANGE (message_id);
-- Plain columns: row security pushes down comparisons of columns, not of
-- `100 - risk`, which may fail and so leak.
CREATE INDEX state_held ON d.state (tenant_id, risk DESC, message_id)
	WHERE stays = 1;
CREATE INDEX state_box ON d.state (tenant_id, inbox_id, risk DESC,
	message_id) WHERE stays = 1;
CREATE INDEX state_past ON d.state (tenant_id, message_id)
	WITH (fillfactor = 50) WHERE stays <> 1;
CREATE INDEX state_hold ON d.state (hold_until) WHERE stays = 1;
CREATE INDEX state_stays ON d.state (stays, tenant_id, inbox_id)
	WHERE stays > 1;
CREATE INDEX state_inbox ON d.state (tenant_id, inbox_id, message_id)
	WITH (fillfactor = 50);

-- What operators search by: words of subject and envelope, each with its
-- tenant in front (d.words_of). Filled behind the audit log, up to word_at,
-- so that no submission waits for an index of words.
CREATE TABLE d.word (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	words tsvector NOT NULL,
	PRIMARY KEY (message_id, tenant_id)) PARTITION BY RANGE (message_id);
CREATE INDEX word_words ON d.word USING gin (words) WITH (fastupdate = off);
CREATE TABLE d.word_at (
	one boolean PRIMARY KEY DEFAULT true CHECK (one),
	gen int NOT NULL DEFAULT 0,
	xid xid8 NOT NULL DEFAULT '0',
	n bigint NOT NULL DEFAULT 0);
INSERT INTO d.word_at DEFAULT VALUES;

CREATE TABLE d.decision (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	version smallint NOT NULL,
	round smallint NOT NULL,
	operator_id bigint NOT NULL,
	verdict "char" NOT NULL CHECK (verdict IN ('a', 'r')),
	digest bytea NOT NULL,
	category text CHECK (category IN ('wrong_recipient', 'wrong_content',
	    'policy', 'sensitive_data', 'suspicious', 'duplicate', 'other')),
	note text CHECK (length(note) <= 1000),
	hint text CHECK (hint IN ('do_not_retry', 'revise_and_resubmit',
	    'ask_human')),
	seconds int,
	via text,
	idem bytea CHECK (octet_length(idem) <= 64),
	at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (message_id, tenant_id, version, round, operator_id),
	CHECK (verdict = 'a' OR category IS NOT NULL))
	PARTITION BY RANGE (message_id);

-- by_what: o operator, m mode, r allow rule.
CREATE TABLE d.release (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	version smallint NOT NULL,
	round smallint NOT NULL,
	digest bytea NOT NULL,
	by_what "char" NOT NULL CHECK (by_what IN ('o', 'm', 'r')),
	mode smallint,
	mode_epoch int,
	relay_box bytea NOT NULL CHECK (octet_length(relay_box)
	    BETWEEN 48 AND 1024),
	tag bytea NOT NULL CHECK (octet_length(tag) = 32),
	expiry bigint NOT NULL CHECK (expiry > 0),
	not_before timestamptz NOT NULL,
	at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (message_id, tenant_id, version, round),
	UNIQUE (message_id, tenant_id, version, round, digest),
	CHECK ((by_what = 'o') = (mode IS NULL)),
	CHECK ((mode IS NULL) = (mode_epoch IS NULL)))
	PARTITION BY RANGE (message_id);

-- Recipient number ix of message.rcpt. The address is only there.
CREATE TABLE d.delivery (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	ix smallint NOT NULL,
	domain text NOT NULL,
	canon text NOT NULL,
	status smallint NOT NULL DEFAULT 0,
	was smallint NOT NULL DEFAULT 0, -- before the last update (0002)
	attempts int NOT NULL DEFAULT 0,
	reply_code int,
	enhanced d.enhanced,
	reply d.reply,
	next_attempt_at timestamptz,
	unsure_mx text, -- may have it already, and is asked once more (0102)
	changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	-- may have it already: a person let it be sent again (0002)
	resent boolean NOT NULL DEFAULT false,
	PRIMARY KEY (message_id, tenant_id, ix) WITH (fillfactor = 40))
	PARTITION BY RANGE (message_id);
-- Whom did an inbox reach before?
CREATE INDEX delivery_known ON d.delivery (tenant_id, domain, canon, inbox_id)
	WHERE status = 3;

CREATE TABLE d.attempt (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	domain text NOT NULL,
	n int NOT NULL,
	round smallint NOT NULL,
	worker text NOT NULL,
	mx text,
	tls text,
	at timestamptz NOT NULL DEFAULT clock_timestamp(),
	dot_at timestamptz,
	ended_at timestamptz,
	result text,
	PRIMARY KEY (message_id, tenant_id, domain, n))
	PARTITION BY RANGE (message_id);

-- Delivery status notifications (RFC 3464) for the agent, sealed to the inbox's
-- key: f failure, d delay, s handed to a host that reports no further.
CREATE TABLE d.dsn (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	domain text NOT NULL,
	n int NOT NULL CHECK (n >= 1),
	kind "char" NOT NULL CHECK (kind IN ('f', 'd', 's')),
	ix smallint[] NOT NULL CHECK (cardinality(ix) BETWEEN 1 AND 1000),
	inbox_epoch int NOT NULL,
	box bytea NOT NULL CHECK (octet_length(box) BETWEEN 49 AND 524288),
	at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (message_id, tenant_id, domain, n))
	PARTITION BY RANGE (message_id);
-- One notice of delay for a domain is enough; how many an inbox got lately.
CREATE UNIQUE INDEX dsn_delay ON d.dsn (message_id, tenant_id, domain)
	WHERE kind = 'd';
CREATE INDEX dsn_inbox ON d.dsn (tenant_id, inbox_id, at);

CREATE TABLE d.event (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	n int NOT NULL,
	type text NOT NULL,
	actor text NOT NULL,
	who text,
	state smallint NOT NULL,
	detail text,
	at timestamptz NOT NULL DEFAULT clock_timestamp(),
	-- A stream is in the order of transactions, and one that began before
	-- another may come to a message after it. So many ids later it is listed
	-- then, not before what happened to the message before.
	later d.positive,
	PRIMARY KEY (message_id, tenant_id, n)) PARTITION BY RANGE (message_id);

-- What operators say to each other about a message; agents never see it.
CREATE TABLE d.comment (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	n int NOT NULL,
	operator_id bigint NOT NULL,
	text text NOT NULL CHECK (length(text) BETWEEN 1 AND 2000),
	at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (message_id, tenant_id, n)) PARTITION BY RANGE (message_id);

-- Only what was released, one row per message and destination domain. The
-- keys make undo, edit and tightening impossible while a row lives.
CREATE TABLE d.send_q (
	message_id uuid NOT NULL,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	domain text NOT NULL,
	version smallint NOT NULL,
	round smallint NOT NULL,
	digest bytea NOT NULL,
	vt float8 NOT NULL,
	due_at timestamptz NOT NULL,
	attempts int NOT NULL DEFAULT 0,
	give_up_at timestamptz NOT NULL,
	stale_at timestamptz NOT NULL,
	mode smallint,
	lease uuid,
	lease_until timestamptz,
	worker text,
	-- 0: in line, by vt. Else what last held it back: 1, its inbox, tenant, a
	-- rule of theirs or the host all their mail goes by; 2, that nobody's mail
	-- went to the domain; 3, the time, and of what is leased: that what says
	-- which way it goes has changed since (d.ways_tell).
	aside smallint NOT NULL DEFAULT 0 CHECK (aside BETWEEN 0 AND 3),
	PRIMARY KEY (message_id, tenant_id, domain),
	FOREIGN KEY (message_id, tenant_id, version, round, digest)
	    REFERENCES d.release (message_id, tenant_id, version, round, digest),
	FOREIGN KEY (message_id, tenant_id, version, round)
	    REFERENCES d.state (message_id, tenant_id, version, round),
	CHECK ((lease IS NULL) = (lease_until IS NULL)))
	WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01,
	    autovacuum_vacuum_cost_delay = 0);
CREATE INDEX send_q_vt ON d.send_q (vt) WHERE lease IS NULL AND aside = 0;
CREATE INDEX send_q_box ON d.send_q (tenant_id, inbox_id, domain, vt)
	WHERE lease IS NULL AND aside = 1;
CREATE INDEX send_q_domain ON d.send_q (aside, domain, tenant_id, vt)
	WHERE lease IS NULL AND aside IN (0, 2);
CREATE INDEX send_q_due ON d.send_q (due_at)
	WHERE lease IS NULL AND aside = 3;
CREATE INDEX send_q_stale ON d.send_q (stale_at) WHERE lease IS NULL;
CREATE INDEX send_q_policy ON d.send_q (tenant_id, inbox_id, mode)
	WHERE mode IS NOT NULL;
CREATE INDEX send_q_lease ON d.send_q (lease_until) WHERE lease IS NOT NULL;

-- What says which way mail goes has changed: for all (0), a tenant, an inbox,
-- for a domain or '*'. Claims tell the queue, up to the message `past` by now,
-- and take the row away (d.ways_tell).
CREATE TABLE d.way_change (
	change_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
	tenant_id bigint NOT NULL,
	inbox_id bigint NOT NULL,
	domain text NOT NULL,
	past uuid,
	PRIMARY KEY (change_id, tenant_id));

-- Audit --------------------------------------------------------------------

CREATE SEQUENCE d.audit_n CACHE 1;
CREATE TABLE d.audit (
	gen int NOT NULL DEFAULT 1,
	xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
	n bigint NOT NULL DEFAULT nextval('d.audit_n'),
	at timestamptz NOT NULL DEFAULT clock_timestamp(),
	zone name NOT NULL DEFAULT current_user,
	tenant_id bigint NOT NULL,
	actor d.actor NOT NULL,
	event d.event_name NOT NULL,
	message_id uuid,
	detail d.detail NOT NULL DEFAULT '{}',
	PRIMARY KEY (gen, xid, n, at)) PARTITION BY RANGE (at);

CREATE TABLE d.audit_seal (
	block bigint PRIMARY KEY CHECK (block >= 1),
	rows int NOT NULL CHECK (rows >= 1),
	gen int NOT NULL,
	xid xid8 NOT NULL,
	n bigint NOT NULL,
	root bytea NOT NULL CHECK (octet_length(root) = 32),
	prev bytea NOT NULL CHECK (octet_length(prev) = 32),
	hash bytea NOT NULL CHECK (octet_length(hash) = 32),
	key_id text NOT NULL,
	signature bytea NOT NULL CHECK (octet_length(signature) = 64),
	at timestamptz NOT NULL DEFAULT clock_timestamp());
