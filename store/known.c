/* SPDX-License-Identifier: ISC */
/* known.c - a hash table of keys, and their order by time of the answer. */
#include "store/known.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/queue.h"
#include "base/xalloc.h"
#include "seal/key.h"

#define BUCKETS 1024 /* a power of two */
/* A handle is made for ten minutes, and each question renews one that has
 * less than five left. */
#define HANDLE_MS (4 * 60 * 1000)

struct item {
	LIST_ENTRY(item) same; /* bucket */
	TAILQ_ENTRY(item) later; /* by asked_ms */
	unsigned char auth[32]; /* SHA-256 of A */
	uint64_t used_ms;
	uint64_t handle_ms; /* when the handle had five minutes left or more */
	struct store_cred cred; /* in no list */
};

LIST_HEAD(bucket, item);

struct known {
	struct bucket buckets[BUCKETS];
	TAILQ_HEAD(, item) items;
	unsigned count;
};

struct known *
known_new(void)
{
	struct known *k = xcalloc(1, sizeof(*k));

	TAILQ_INIT(&k->items);
	return k;
}

static void
drop(struct known *k, struct item *it)
{
	LIST_REMOVE(it, same);
	TAILQ_REMOVE(&k->items, it, later);
	k->count--;
	secret_wipe(&it->cred.proof);
	secret_wipe(&it->cred.idem);
	free(it);
}

void
known_free(struct known *k)
{
	if (k == NULL)
		return;
	while (!TAILQ_EMPTY(&k->items))
		drop(k, TAILQ_FIRST(&k->items));
	free(k);
}

/* Key numbers count up: neighbours go to different buckets. */
static size_t
bucket_of(int64_t tenant, int64_t key)
{
	return ((uint64_t)key + (uint64_t)tenant * 31) & (BUCKETS - 1);
}

static struct item *
find(const struct known *k, int64_t tenant, int64_t key)
{
	struct item *it;

	LIST_FOREACH(it, &k->buckets[bucket_of(tenant, key)], same)
	if (it->cred.tenant == tenant && it->cred.key == key)
		return it;
	return NULL;
}

static void
drop_old(struct known *k, uint64_t now)
{
	struct item *it;

	while (
	    (it = TAILQ_FIRST(&k->items)) != NULL &&
	    (now - it->cred.asked_ms >= KNOWN_ASK_MS || k->count >= KNOWN_MAX))
		drop(k, it);
}

/* Only the facts and a handle: no list, not A, no key of request hashes. */
static void
copy(struct item *it, const struct store_cred *cred)
{
	struct secret handle = it->cred.proof;

	if (cred->proof.n == SEAL_HANDLE_LEN) {
		handle = cred->proof;
		it->handle_ms = cred->asked_ms;
	}
	it->cred = *cred;
	it->cred.proof = handle;
	secret_wipe(&it->cred.idem);
	it->cred.next = NULL;
	it->cred.prev = NULL;
	secret_wipe(&handle);
}

void
known_put(
    struct known *k, const struct secret *a, const struct store_cred *cred)
{
	struct item *it;
	unsigned char auth[32];

	drop_old(k, cred->asked_ms);
	seal_auth_hash(auth, a);
	it = find(k, cred->tenant, cred->key);
	if (it != NULL && memcmp(auth, it->auth, sizeof(auth)) == 0) {
		known_renew(k, cred);
		return;
	}
	if (it != NULL)
		drop(k, it);
	it = xcalloc(1, sizeof(*it));
	memcpy(it->auth, auth, sizeof(auth));
	copy(it, cred);
	LIST_INSERT_HEAD(
	    &k->buckets[bucket_of(cred->tenant, cred->key)], it, same);
	TAILQ_INSERT_TAIL(&k->items, it, later);
	k->count++;
}

void
known_renew(struct known *k, const struct store_cred *cred)
{
	struct item *it = find(k, cred->tenant, cred->key);

	if (it == NULL)
		return;
	copy(it, cred);
	TAILQ_REMOVE(&k->items, it, later);
	TAILQ_INSERT_TAIL(&k->items, it, later);
}

void
known_used(struct known *k, int64_t tenant, int64_t key, uint64_t now)
{
	struct item *it = find(k, tenant, key);

	if (it != NULL)
		it->used_ms = now;
}

void
known_forget(struct known *k, int64_t tenant, int64_t key)
{
	struct item *it = find(k, tenant, key);

	if (it != NULL)
		drop(k, it);
}

static bool
fresh(uint64_t asked, const struct item *it, uint64_t now)
{
	if (now - asked < KNOWN_FRESH_MS)
		return true;
	return it != NULL && now - asked < KNOWN_ASK_MS &&
	       now - it->used_ms < KNOWN_FRESH_MS;
}

bool
known_get(struct known *k, const struct secret *a, bool handle,
    struct store_cred *cred, uint64_t now)
{
	struct item *it = find(k, cred->tenant, cred->key);
	struct store_cred own = *cred;
	unsigned char auth[32];

	if (it == NULL || !fresh(it->cred.asked_ms, it, now) ||
	    !store_cred_alive(&it->cred) ||
	    (handle &&
		(it->cred.proof.n == 0 || now - it->handle_ms >= HANDLE_MS)))
		return false;
	seal_auth_hash(auth, a);
	if (sodium_memcmp(auth, it->auth, sizeof(auth)) != 0)
		return false;
	*cred = it->cred;
	cred->idem = own.idem;
	cred->store = own.store;
	if (!handle)
		cred->proof = own.proof;
	secret_wipe(&own.idem);
	secret_wipe(&own.proof);
	return true;
}

bool
known_fresh(const struct known *k, const struct store_cred *cred, uint64_t now)
{
	return fresh(cred->asked_ms, find(k, cred->tenant, cred->key), now);
}
