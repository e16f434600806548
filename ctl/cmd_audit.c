/* SPDX-License-Identifier: ISC */
/*
 * seal and audit: the log that cannot be changed unnoticed.
 *
 * The sealer chains rows into blocks, signs each, and appends every head to
 * a file outside the database. Verifying needs that file: a database alone
 * can be cut at its end without a trace.
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/daemon.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "ctl/audit.h"
#include "ctl/heads.h"
#include "seal/keyfile.h"
#include "store/store.h"

#define ROWS_MAX 1000
#define POLL_MS 1000
#define STALLED_MS 60000

struct sealer {
	struct ctl *ctl;
	struct loop *loop;
	struct loop_timer *timer;
	struct secret seed;
	unsigned char pub[32];
	char key_id[2 * 8 + 1];
	uint64_t failing_since; /* clock_mono_ms(), 0 = all is well */
};

static bool
read_head(struct ctl *ctl, struct audit_head *head)
{
	const struct manage_arg none[] = { MANAGE_ARG_END };
	json_t *rows = ctl_call(ctl, "seal_head_1", none);
	const json_t *row = rows != NULL ? json_array_get(rows, 0) : NULL;

	*head = (struct audit_head){ 0 };
	if (rows == NULL)
		return false;
	if (row != NULL &&
	    ctl_bytes(row, "hash", head->hash, sizeof(head->hash))) {
		head->block = (uint64_t)ctl_int(row, "block");
		head->rows = (uint64_t)ctl_int(row, "rows");
		head->gen = ctl_int(row, "gen");
		head->xid = ctl_int(row, "xid");
		head->n = ctl_int(row, "n");
	}
	json_decref(rows);
	return true;
}

/* The hash of one row as the database returns it. */
static void
hash_row(const json_t *row, unsigned char out[SEAL_HASH_LEN])
{
	unsigned char id[16];
	struct uuid u;
	struct seal_audit_row r = {
		.gen = (uint64_t)ctl_int(row, "gen"),
		.xid = (uint64_t)ctl_int(row, "xid"),
		.n = (uint64_t)ctl_int(row, "n"),
		.tenant = (uint64_t)ctl_int(row, "tenant_id"),
		.at_us = (uint64_t)ctl_int(row, "at_us"),
		.actor = str_of(ctl_text(row, "actor")),
		.event = str_of(ctl_text(row, "event")),
		.detail = str_of(ctl_text(row, "detail")),
	};

	if (uuid_from_text(&u, str_of(ctl_text(row, "message_id")))) {
		memcpy(id, u.b, 16);
		r.message = (struct str){ (const char *)id, 16 };
	}
	seal_audit_row(out, &r);
}

void
audit_hash_block(json_t *rows, const unsigned char prev[32],
    struct audit_head *next, unsigned char root[SEAL_HASH_LEN])
{
	static const unsigned char zero[32];
	struct seal_audit_block *b = seal_audit_begin(prev);
	struct seal_audit_block *r = seal_audit_begin(zero);
	unsigned char hash[SEAL_HASH_LEN];
	const json_t *last;
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		hash_row(row, hash);
		seal_audit_add(b, hash);
		seal_audit_add(r, hash);
	}
	seal_audit_end(b, next->hash);
	seal_audit_end(r, root);
	last = json_array_get(rows, json_array_size(rows) - 1);
	next->rows = json_array_size(rows);
	next->gen = ctl_int(last, "gen");
	next->xid = ctl_int(last, "xid");
	next->n = ctl_int(last, "n");
}

/*
 * Keys that were revoked are also remembered outside the database, a line
 * "TENANT KEY" each: a backup would bring them back to life.
 */
static bool
append_revoked(const struct ctl *ctl, const json_t *rows)
{
	char *path = xasprintf("%s/" REVOKED_FILE, ctl->conf->state_dir);
	const json_t *row;
	FILE *f = NULL;
	bool ok = true;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		json_t *detail;

		if (strcmp(ctl_text(row, "event"), "key.revoked") != 0)
			continue;
		if (f == NULL)
			f = fopen(path, "ae");
		detail = json_loads(ctl_text(row, "detail"), 0, NULL);
		ok = ok && f != NULL && detail != NULL &&
		     fprintf(f, "%lld %lld\n",
			 (long long)ctl_int(row, "tenant_id"),
			 (long long)ctl_int(detail, "key")) > 0;
		json_decref(detail);
	}
	if (f != NULL) {
		ok = fflush(f) == 0 && fsync(fileno(f)) == 0 && ok;
		ok = fclose(f) == 0 && ok;
	}
	if (!ok)
		(void)ctl_fail(ctl, "%s: %s", path, strerror(errno));
	free(path);
	return ok;
}

/* Seal one block. -1 failed, 0 nothing to seal, else its rows. */
static int
seal_once(struct sealer *s)
{
	const struct manage_arg next_args[] = { MANAGE_ARG_I32(ROWS_MAX),
		MANAGE_ARG_END };
	unsigned char root[SEAL_HASH_LEN], sig[SEAL_SIGNATURE_LEN];
	struct audit_head head, next;
	json_t *rows, *put;
	int n;

	if (!ctl_connect(s->ctl, "l_seal") || !read_head(s->ctl, &head) ||
	    !heads_mend(s->ctl, &head, s->pub))
		return -1;
	rows = ctl_call(s->ctl, "seal_next_1", next_args);
	if (rows == NULL)
		return -1;
	n = (int)json_array_size(rows);
	if (n == 0 || !append_revoked(s->ctl, rows)) {
		json_decref(rows);
		return n == 0 ? 0 : -1;
	}
	audit_hash_block(rows, head.hash, &next, root);
	json_decref(rows);
	next.block = head.block + 1;
	seal_audit_sign(sig, &s->seed, next.block, next.hash, next.rows);
	{
		const struct manage_arg args[] = { MANAGE_ARG_I64(
						       (int64_t)next.block),
			MANAGE_ARG_I32(n), MANAGE_ARG_I32(next.gen),
			MANAGE_ARG_I64(next.xid), MANAGE_ARG_I64(next.n),
			MANAGE_ARG_BYTES(root, sizeof(root)),
			MANAGE_ARG_BYTES(head.hash, sizeof(head.hash)),
			MANAGE_ARG_BYTES(next.hash, sizeof(next.hash)),
			MANAGE_ARG_TEXT(s->key_id),
			MANAGE_ARG_BYTES(sig, sizeof(sig)), MANAGE_ARG_END };

		put = ctl_call(s->ctl, "seal_put_1", args);
	}
	if (put == NULL || !heads_append(s->ctl, &next, sig))
		n = -1;
	else
		log_info(
		    "audit.sealed", KV("block", next.block), KV("rows", n));
	json_decref(put);
	return n;
}

static void
on_poll(void *arg)
{
	struct sealer *s = arg;
	int n = seal_once(s);

	if (n < 0) {
		manage_close(s->ctl->db);
		s->ctl->db = NULL;
		if (s->failing_since == 0)
			s->failing_since = clock_mono_ms();
		else if (clock_mono_ms() - s->failing_since > STALLED_MS)
			log_error("audit.stalled",
			    KV("why", "no block for a minute"));
	} else {
		s->failing_since = 0;
	}
	loop_timer_set(s->timer, n == ROWS_MAX ? 1 : POLL_MS);
}

static void
on_stop(void *arg)
{
	struct sealer *s = arg;

	daemon_stopping("signal");
	loop_stop(s->loop);
}

static void
follow(struct sealer *s)
{
	const struct daemon_handlers handlers = { .on_stop = on_stop };
	struct daemon_signals *signals;

	log_set_level(LOG_LEVEL_INFO);
	s->loop = loop_new();
	s->timer = loop_timer_new(s->loop, on_poll, s);
	signals = daemon_signals_new(s->loop, &handlers, s);
	loop_timer_set(s->timer, 1);
	daemon_ready();
	loop_run(s->loop);
	daemon_signals_free(signals);
	loop_timer_free(s->timer);
	loop_free(s->loop);
}

int
ctl_seal(struct ctl *ctl, const struct ctl_args *args)
{
	struct sealer s = { .ctl = ctl };
	struct err err = { 0 };
	int n, total = 0;

	/* What is signed must not be lost by a crash of the database. */
	if (!store_check(ctl->conf, "l_seal", &err) ||
	    !seal_keyfile_load(&s.seed, ctl->conf->keys_seal_key_file,
		SEAL_KEYFILE_AUDIT, &err))
		return ctl_fail(ctl, "%s", err.text);
	seal_audit_pub(s.pub, &s.seed);
	hex_encode(s.key_id, s.pub, 8);
	if (ctl_option(args, "follow") != NULL) {
		follow(&s);
		secret_wipe(&s.seed);
		return 0;
	}
	while ((n = seal_once(&s)) > 0)
		total += n;
	secret_wipe(&s.seed);
	if (n == 0)
		(void)printf("sealed %d rows\n", total);
	return n == 0 ? 0 : 1;
}

int
ctl_audit_head(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg none[] = { MANAGE_ARG_END };

	(void)args;
	return ctl_call_print(ctl, "seal_head_1", none, NULL);
}
