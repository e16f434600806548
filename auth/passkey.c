/* SPDX-License-Identifier: ISC */
/*
 * passkey.c - challenges, and the answers of authenticators to them
 */
#include <openssl/sha.h>
#include <string.h>

#include "auth/attest.h"
#include "auth/auth.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "net/ask.h"
#include "seal/passkey.h"

/* An answer names all credentials of a person: as many as the database gives
 * out (api.passkey_ask_1), each as long as it may be, behind its length. */
#define IDS_MAX 32
#define ID_FIELD 1027
_Static_assert(1024 + IDS_MAX * ID_FIELD <= ASK_MAX,
    "the answer with all credentials fits a frame");

struct signing {
	struct factor_ask ask;
	struct factor_credentials credentials;
	struct factor_passkey passkey;
	struct factor_mark mark;
	struct factor_new_passkey made;
	struct seal_passkey_data data;
	struct buf key, codes, packed;
	factor_hashes hashes;
	unsigned char proof[SEAL_PASSKEY_PROOF];
	struct str auth_data;
};

static void
clear(void *mine)
{
	struct signing *s = mine;

	buf_free(&s->key);
	buf_free(&s->packed);
	buf_wipe(&s->codes);
	buf_free(&s->codes);
}

static struct signing *
begin(struct auth_job *job)
{
	job->mine = arena_get(&job->mem, sizeof(struct signing));
	job->clear = clear;
	return job->mine;
}

static char
purpose_of(const struct auth_job *job)
{
	return job->field[0].n == 1 ? job->field[0].p[0] : '\0';
}

static struct seal_passkey_ask
asked(const struct factor_ask *ask)
{
	struct seal_passkey_ask a = { .purpose = ask->purpose,
		.message = ask->message,
		.version = (uint16_t)ask->version,
		.round = (uint32_t)ask->round };

	memcpy(a.nonce, ask->nonce, sizeof(a.nonce));
	memcpy(a.digest, ask->digest, sizeof(a.digest));
	return a;
}

/* ---- a challenge */

static void
on_asked(void *arg)
{
	struct auth_job *job = arg;
	struct signing *s = job->mine;
	const struct seal_passkey_ask ask = asked(&s->ask);
	unsigned char challenge[32];
	struct buf more = { 0 }, user = { 0 };
	size_t i;

	if (s->credentials.is.status >= 300) {
		auth_end_as(job, &s->credentials.is, 0);
		return;
	}
	seal_passkey_challenge(challenge, &ask);
	buf_lp(&more, challenge, sizeof(challenge));
	buf_lp(&more, s->credentials.name, strlen(s->credentials.name));
	buf_u64(&user, (uint64_t)s->credentials.operator_id);
	buf_lp(&more, user.p, user.n);
	buf_free(&user);
	for (i = 0; i < s->credentials.n && i < IDS_MAX; i++)
		buf_lp(&more, s->credentials.row[i].p, s->credentials.row[i].n);
	auth_end(job, 200, "", 0, &more);
}

static bool
read_message(struct auth_job *job, struct factor_ask *ask)
{
	unsigned long long version, round;

	if (job->nfields != 5 || job->field[1].n != 16 ||
	    !str_to_u64(job->field[2], 32767, &version) ||
	    !str_to_u64(job->field[3], 32767, &round) ||
	    job->field[4].n != sizeof(ask->digest))
		return false;
	memcpy(ask->message.b, job->field[1].p, 16);
	ask->version = (int)version;
	ask->round = (int)round;
	memcpy(ask->digest, job->field[4].p, sizeof(ask->digest));
	return true;
}

void
auth_challenge(struct auth_job *job)
{
	struct signing *s = begin(job);
	struct secret nonce;

	s->ask.purpose = purpose_of(job);
	if (s->ask.purpose == 'a' && !read_message(job, &s->ask)) {
		auth_end(job, 422, "validation_error", 0, NULL);
		return;
	}
	secret_random(&nonce, sizeof(s->ask.nonce));
	memcpy(s->ask.nonce, nonce.b, sizeof(s->ask.nonce));
	factor_passkey_ask(
	    &job->who, &job->mem, &s->ask, &s->credentials, on_asked, job);
}

/* ---- an assertion */

static void
on_marked(void *arg)
{
	struct auth_job *job = arg;
	struct signing *s = job->mine;

	auth_judged(job, "passkey", s->passkey.operator_id, &s->mark.is,
	    s->mark.wait_s, NULL);
}

static bool
is_right(struct auth_job *job)
{
	struct signing *s = job->mine;
	const struct seal_passkey_ask ask = asked(&s->passkey.ask);
	unsigned char challenge[32];

	seal_passkey_challenge(challenge, &ask);
	return seal_passkey_client(job->field[3], SEAL_PASSKEY_GET, challenge,
		   job->auth->origin) &&
	       seal_passkey_data(&s->data, job->field[2], job->auth->rp_id) &&
	       seal_passkey_verify(
		   (struct str){ (char *)s->passkey.key, s->passkey.key_n },
		   job->field[2], job->field[3], job->field[4]);
}

/* What the worker and the auditor will judge again. */
static bool
pack(struct auth_job *job)
{
	struct signing *s = job->mine;
	const struct seal_assertion kept = {
		.ask = asked(&s->passkey.ask),
		.operator_id = (uint64_t)s->passkey.operator_id,
		.credential = job->field[1],
		.public_key = { (char *)s->passkey.key, s->passkey.key_n },
		.proof = { (char *)s->passkey.proof, s->passkey.proof_n },
		.auth_data = job->field[2],
		.client_data = job->field[3],
		.signature = job->field[4],
	};

	return seal_assertion_pack(&s->packed, &kept);
}

static void
on_tried(void *arg)
{
	struct auth_job *job = arg;
	struct signing *s = job->mine;

	if (s->passkey.is.status >= 300)
		auth_judged(
		    job, "passkey", 0, &s->passkey.is, s->passkey.wait_s, NULL);
	else if (!is_right(job))
		auth_wrong(job, "passkey", s->passkey.operator_id);
	else if (s->passkey.ask.purpose == 'a' && !pack(job))
		auth_end(job, 422, "validation_error", 0, NULL);
	else
		factor_passkey_done(&job->who, &s->passkey, s->data.count,
		    buf_str(&s->packed), job->next, &s->mark, on_marked, job);
}

void
auth_passkey(struct auth_job *job)
{
	struct signing *s = begin(job);

	factor_passkey_try(&job->who, purpose_of(job), job->field[1],
	    &s->passkey, on_tried, job);
}

/* ---- a registration */

static void
on_added(void *arg)
{
	struct auth_job *job = arg;
	struct signing *s = job->mine;
	struct buf more = { 0 };

	if (s->mark.is.status >= 300) {
		auth_end_as(job, &s->mark.is, 0);
		return;
	}
	(void)buf_reserve(&more, s->codes.n + 4);
	buf_lp(&more, s->codes.p, s->mark.codes ? s->codes.n : 0);
	log_info("auth.enrol", KV("operator", s->passkey.operator_id),
	    KV("why", "passkey"));
	auth_end(job, 200, "", 0, &more);
}

/* label attestation client-data */
static void
on_spent(void *arg)
{
	struct auth_job *job = arg;
	struct signing *s = job->mine;
	struct seal_passkey_ask ask = asked(&s->passkey.ask);
	unsigned char challenge[32];

	if (s->passkey.is.status >= 300) {
		auth_end_as(job, &s->passkey.is, s->passkey.wait_s);
		return;
	}
	seal_passkey_challenge(challenge, &ask);
	if (!seal_passkey_client(job->field[2], SEAL_PASSKEY_CREATE, challenge,
		job->auth->origin) ||
	    !seal_passkey_data(&s->data, s->auth_data, job->auth->rp_id)) {
		auth_wrong(job, "passkey", s->passkey.operator_id);
		return;
	}
	s->made.key = buf_str(&s->key);
	seal_passkey_prove(s->proof, &job->auth->prove_key,
	    (uint64_t)s->passkey.operator_id, s->made.credential, s->made.key);
	s->made.proof = (struct str){ (char *)s->proof, sizeof(s->proof) };
	s->made.label = job->field[0].p;
	s->made.count = s->data.count;
	auth_codes_new(&s->codes, &s->hashes, s->passkey.operator_id);
	s->made.hashes = &s->hashes;
	s->made.next_sha256 = job->next;
	factor_passkey_add(&job->who, &s->made, &s->mark, on_added, job);
}

void
auth_register(struct auth_job *job)
{
	struct signing *s = begin(job);

	if (!attest_auth_data(job->field[1], &s->auth_data) ||
	    !seal_passkey_data(&s->data, s->auth_data, job->auth->rp_id) ||
	    !s->data.has_credential ||
	    !attest_credential(s->data.rest, &s->made.credential, &s->key) ||
	    !seal_passkey_is_key(buf_str(&s->key)) ||
	    memchr(job->field[0].p, '\0', job->field[0].n) != NULL) {
		auth_end(job, 422, "validation_error", 0, NULL);
		return;
	}
	factor_passkey_try(
	    &job->who, 'r', s->made.credential, &s->passkey, on_spent, job);
}
