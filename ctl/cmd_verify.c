/* SPDX-License-Identifier: ISC */
/*
 * audit verify: every row against its block, every block against the one
 * before and its signature, and the chain against the heads kept outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/xalloc.h"
#include "ctl/audit.h"
#include "seal/keyfile.h"
#include "seal/passkey.h"
#include "store/health.h"

#define BATCH 500

struct verifier {
	struct ctl *ctl;
	unsigned char pub[32];
	struct audit_head at; /* the last block that verified */
	uint64_t rows;
	FILE *heads; /* NULL = none given */
	char line[512]; /* of it, read already and not used; "" = none */
	unsigned char auth_pub[32];
	bool has_auth_pub;
	uint64_t signed_rows; /* approvals with a passkey that verified */
};

static bool
is_actor(const char *actor, uint64_t operator_id)
{
	char want[32];

	(void)snprintf(
	    want, sizeof(want), "op:%llu", (unsigned long long)operator_id);
	return strcmp(actor, want) == 0;
}

/* Rows behind `from`, at most `count`, in order. */
static json_t *
rows_after(struct ctl *ctl, const struct audit_head *from, uint64_t count)
{
	const struct manage_arg args[] = { MANAGE_ARG_I32(from->gen),
		MANAGE_ARG_I64(from->xid), MANAGE_ARG_I64(from->n),
		MANAGE_ARG_I32((int64_t)count), MANAGE_ARG_END };

	return ctl_call(ctl, "audit_rows_1", args);
}

static bool
is_block_good(
    struct verifier *v, const json_t *block, json_t *rows, const char **why)
{
	unsigned char prev[32], hash[32], root[32], sig[SEAL_SIGNATURE_LEN];
	uint64_t count = (uint64_t)ctl_int(block, "rows");
	struct audit_head next = { 0 };
	const char *text = ctl_text(block, "signature");
	unsigned char made_root[32];

	if ((uint64_t)ctl_int(block, "block") != v->at.block + 1)
		*why = "a block is missing";
	else if (!ctl_bytes(block, "prev", prev, 32) ||
		 !ctl_bytes(block, "hash", hash, 32) ||
		 !ctl_bytes(block, "root", root, 32) ||
		 !ctl_bytes(block, "signature", sig, sizeof(sig)) ||
		 *text == '\0')
		*why = "the block cannot be read";
	else if (memcmp(prev, v->at.hash, 32) != 0)
		*why = "the block does not continue the one before";
	else if (json_array_size(rows) != count || count == 0)
		*why = "rows are missing";
	else {
		audit_hash_block(rows, prev, &next, made_root);
		if (memcmp(next.hash, hash, 32) != 0 ||
		    memcmp(made_root, root, 32) != 0 ||
		    next.gen != ctl_int(block, "gen") ||
		    next.xid != ctl_int(block, "xid") ||
		    next.n != ctl_int(block, "n"))
			*why = "rows were altered, removed, added or reordered";
		else if (!seal_audit_verify(
			     (struct str){ (const char *)sig, sizeof(sig) },
			     v->pub, v->at.block + 1, hash, count))
			*why = "the signature is not by the sealer's key";
		else {
			next.block = v->at.block + 1;
			v->at = next;
			v->rows += count;
			return true;
		}
	}
	return false;
}

/* "block rows gen xid n hash signature": the first and the sixth word. */
static bool
parse_head(const char *line, uint64_t *block, struct str *hash)
{
	struct str rest = str_of(line), word = str_split(&rest, ' ');
	unsigned long long number;
	int i;

	if (!str_to_u64(word, INT64_MAX, &number))
		return false;
	*block = number;
	for (i = 0; i < 5; i++)
		*hash = str_split(&rest, ' ');
	return hash->n == (size_t)2 * SEAL_HASH_LEN && rest.n != 0;
}

/* The next line that was not used, if there is one. */
static bool
read_line(struct verifier *v)
{
	return v->line[0] != '\0' ||
	       (v->heads != NULL &&
		   fgets(v->line, sizeof(v->line), v->heads) != NULL);
}

/* The line of this block in the file of heads must be the same. */
static bool
is_head_known(struct verifier *v, const char **why)
{
	char want[2 * SEAL_HASH_LEN + 1];
	struct str hash;
	uint64_t block;

	hex_encode(want, v->at.hash, SEAL_HASH_LEN);
	for (; read_line(v); v->line[0] = '\0') {
		if (!parse_head(v->line, &block, &hash)) {
			*why = "the file of heads is damaged";
			return false;
		}
		if (block < v->at.block)
			continue;
		if (block > v->at.block) {
			*why = "a block is missing in the file of heads";
			return false;
		}
		if (!str_eq(hash, str_of(want))) {
			*why = "the block is not the one in the file of heads";
			return false;
		}
		v->line[0] = '\0';
		return true;
	}
	return true;
}

/* Heads behind the last block. */
static bool
has_more_heads(struct verifier *v)
{
	struct str hash;
	uint64_t block;

	for (; read_line(v); v->line[0] = '\0') {
		if (!parse_head(v->line, &block, &hash) || block > v->at.block)
			return true;
	}
	return false;
}

/*
 * An approval with a passkey carries what was signed: the digest it names,
 * for this message, version and round, by a key postern-auth vouches for.
 */
static bool
is_signed(const struct verifier *v, const json_t *row, const json_t *detail)
{
	const char *text = ctl_text(detail, "passkey");
	struct seal_assertion a = { .ask = { .purpose = 'a' } };
	size_t n, len = strlen(text);
	unsigned char *packed = xmalloc(len + 4);
	struct str uuid = str_of(ctl_text(row, "message_id"));
	const char *digest = ctl_text(detail, "digest");
	bool ok;

	a.ask.version = (uint16_t)ctl_int(detail, "version");
	a.ask.round = (uint32_t)ctl_int(detail, "round");
	ok = uuid_from_text(&a.ask.message, uuid) &&
	     hex_decode(a.ask.digest, 32, digest, strlen(digest)) &&
	     base64_decode(packed, &n, text, len) &&
	     seal_assertion_read(&a, (struct str){ (char *)packed, n }) &&
	     seal_assertion_ok(&a, v->auth_pub) &&
	     is_actor(ctl_text(row, "actor"), a.operator_id);
	free(packed);
	return ok;
}

static bool
are_signed(struct verifier *v, json_t *rows, const char **why)
{
	json_t *row, *detail;
	bool ok = true;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		if (strcmp(ctl_text(row, "event"), "message.approve") != 0)
			continue;
		detail = json_loads(ctl_text(row, "detail"), 0, NULL);
		if (*ctl_text(detail, "passkey") != '\0') {
			ok = v->has_auth_pub && is_signed(v, row, detail);
			v->signed_rows += ok;
		}
		json_decref(detail);
		if (!ok) {
			*why = v->has_auth_pub
				   ? "an approval is not signed by the "
				     "operator's passkey"
				   : "an approval is signed by a passkey, and "
				     "keys.auth_pub_file is not here";
			return false;
		}
	}
	return true;
}

static int
verify_blocks(struct verifier *v, json_t *blocks)
{
	const char *why = NULL;
	json_t *block, *rows;
	size_t i;
	bool ok;

	json_array_foreach(blocks, i, block)
	{
		rows = rows_after(
		    v->ctl, &v->at, (uint64_t)ctl_int(block, "rows"));
		if (rows == NULL)
			return 1;
		ok = is_block_good(v, block, rows, &why) &&
		     are_signed(v, rows, &why) && is_head_known(v, &why);
		json_decref(rows);
		if (!ok)
			return ctl_fail(v->ctl, "block %lld: %s",
			    (long long)ctl_int(block, "block"), why);
	}
	return 0;
}

/* All blocks there are behind the last one. */
static int
verify_rest(struct verifier *v)
{
	json_t *blocks;
	size_t n = BATCH;
	int rc = 0;

	while (rc == 0 && n == BATCH) {
		const struct manage_arg args[] = {
			MANAGE_ARG_I64((int64_t)v->at.block + 1),
			MANAGE_ARG_I32(BATCH), MANAGE_ARG_END
		};

		blocks = ctl_call(v->ctl, "audit_blocks_1", args);
		if (blocks == NULL)
			return 1;
		n = json_array_size(blocks);
		rc = verify_blocks(v, blocks);
		json_decref(blocks);
	}
	return rc;
}

/* A head is written once its block is stored: where the file goes on, the
 * sealer may have made one meanwhile. */
static int
verify(struct verifier *v)
{
	uint64_t seen;
	int rc;

	do {
		seen = v->at.block;
		rc = verify_rest(v);
	} while (rc == 0 && v->at.block > seen && has_more_heads(v));
	if (rc == 0 && has_more_heads(v))
		rc = ctl_fail(v->ctl,
		    "the log ends at block %llu, the file of heads goes on: "
		    "its end was cut",
		    (unsigned long long)v->at.block);
	return rc;
}

/*
 * For the gauge of every program: when it was last whole; 1970 is never. The
 * folder is sticky, so root gives the file to who verifies every day.
 */
static void
keep_result(const struct ctl *ctl, bool whole)
{
	char *path =
	    xasprintf("%s/" HEALTH_VERIFIED_FILE, ctl->conf->state_dir);
	char *next = xasprintf("%s.%ld", path, (long)getpid());
	const struct timespec never[2] = { { 0, 0 }, { 0, 0 } };
	const struct passwd *daily = getpwnam("postern-ctl");
	int fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	bool ok = fd >= 0;

	if (ok && geteuid() == 0 && daily != NULL)
		ok = fchown(fd, daily->pw_uid, daily->pw_gid) == 0;
	ok = ok && (whole || futimens(fd, never) == 0);
	if (fd >= 0)
		(void)close(fd);
	/* Who may not write there verifies for himself. */
	if (!ok || rename(next, path) != 0)
		(void)unlink(next);
	free(next);
	free(path);
}

/* The work of `audit verify`; what was found is in `v`. */
static int
verify_all(struct verifier *v, const char *path)
{
	struct ctl *ctl = v->ctl;
	char *pub_path = xasprintf("%s.pub", ctl->conf->keys_seal_key_file);
	struct secret pub = { 0 };
	struct err err = { 0 };
	bool ok =
	    seal_keyfile_load(&pub, pub_path, SEAL_KEYFILE_AUDIT_PUB, &err);
	int rc;

	free(pub_path);
	if (!ok)
		return ctl_fail(ctl, "%s", err.text);
	memcpy(v->pub, pub.b, 32);
	v->has_auth_pub = seal_keyfile_load(
	    &pub, ctl->conf->keys_auth_pub_file, SEAL_KEYFILE_AUTH_PUB, &err);
	memcpy(v->auth_pub, pub.b, 32);
	if (path != NULL) {
		v->heads = fopen(path, "re");
		if (v->heads == NULL)
			return ctl_fail(ctl, "%s: %s", path, strerror(errno));
	}
	rc = verify(v);
	if (v->heads != NULL)
		(void)fclose(v->heads);
	if (path != NULL)
		keep_result(ctl, rc == 0);
	return rc;
}

int
audit_verify_quietly(struct ctl *ctl, const struct ctl_args *args)
{
	struct verifier v = { .ctl = ctl };

	return verify_all(&v, ctl_option(args, "head"));
}

int
ctl_audit_verify(struct ctl *ctl, const struct ctl_args *args)
{
	const char *path = ctl_option(args, "head");
	struct verifier v = { .ctl = ctl };
	int rc = verify_all(&v, path);

	if (rc == 0)
		(void)printf("%llu blocks, %llu rows verified, %llu approvals "
			     "signed by passkeys%s\n",
		    (unsigned long long)v.at.block, (unsigned long long)v.rows,
		    (unsigned long long)v.signed_rows,
		    path != NULL ? ""
				 : "; without --head FILE the end of the log "
				   "is not");
	return rc;
}
