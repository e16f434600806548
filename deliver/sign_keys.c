/* SPDX-License-Identifier: ISC */
#include "deliver/sign_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "seal/stored.h"
#include "store/relay.h"

#define ENTRIES 256

struct entry {
	int64_t tenant; /* 0: free */
	char domain[SIGN_NAME_MAX + 1];
	uint64_t at_ms;
	struct sign_key key[SIGN_KEYS_MAX];
	size_t n;
};

struct sign_keys {
	struct entry entry[ENTRIES];
	size_t next; /* the one to give up when all are taken */
};

struct sign_keys *
sign_keys_new(void)
{
	return xcalloc(1, sizeof(struct sign_keys));
}

static void
clear(struct entry *e)
{
	size_t i;

	for (i = 0; i < SIGN_KEYS_MAX; i++) {
		buf_wipe(&e->key[i].pem);
		buf_free(&e->key[i].pem);
	}
	*e = (struct entry){ 0 };
}

void
sign_keys_free(struct sign_keys *k)
{
	size_t i;

	if (k == NULL)
		return;
	for (i = 0; i < ENTRIES; i++)
		clear(&k->entry[i]);
	free(k);
}

static const struct entry *
find(const struct sign_keys *k, int64_t tenant, struct str domain)
{
	size_t i;

	for (i = 0; i < ENTRIES; i++) {
		if (k->entry[i].tenant == tenant &&
		    str_ieq(str_of(k->entry[i].domain), domain))
			return &k->entry[i];
	}
	return NULL;
}

const struct sign_key *
sign_keys_find(
    const struct sign_keys *k, int64_t tenant, struct str domain, size_t *n)
{
	const struct entry *e = find(k, tenant, domain);

	if (e == NULL || clock_mono_ms() - e->at_ms > SIGN_KEYS_AGE_MS)
		return NULL;
	*n = e->n;
	return e->key;
}

static bool
open_key(struct sign_key *key, int64_t tenant, struct str domain,
    const struct relay_dkim *v, const unsigned char relay_pub[32],
    const struct secret *relay_key)
{
	struct buf what = { 0 };
	bool ok;

	if (v->selector.n >= sizeof(key->selector) ||
	    !str_ieq(v->domain, domain))
		return false;
	(void)snprintf(key->domain, sizeof(key->domain), "%.*s",
	    (int)v->domain.n, v->domain.p);
	(void)snprintf(key->selector, sizeof(key->selector), "%.*s",
	    (int)v->selector.n, v->selector.p);
	key->is_ed25519 = v->is_ed25519;
	seal_stored_dkim(&what, (uint64_t)tenant, v->domain, v->selector);
	ok = seal_stored_open(
	    &key->pem, v->sealed, relay_pub, relay_key, buf_str(&what));
	buf_free(&what);
	(void)buf_cstr(&key->pem);
	return ok;
}

bool
sign_keys_put(struct sign_keys *k, int64_t tenant, struct str domain,
    const struct relay_dkim *v, size_t n, const unsigned char relay_pub[32],
    const struct secret *relay_key)
{
	const struct entry *old = find(k, tenant, domain);
	struct entry *e;
	size_t i;

	if (n > SIGN_KEYS_MAX || domain.n > SIGN_NAME_MAX)
		return false;
	e = &k->entry[old != NULL ? (size_t)(old - k->entry) : k->next];
	if (old == NULL)
		k->next = (k->next + 1) % ENTRIES;
	clear(e);
	for (i = 0; i < n; i++) {
		if (!open_key(&e->key[i], tenant, domain, &v[i], relay_pub,
			relay_key)) {
			clear(e);
			return false;
		}
	}
	e->tenant = tenant;
	memcpy(e->domain, domain.p, domain.n);
	e->at_ms = clock_mono_ms();
	e->n = n;
	return true;
}
