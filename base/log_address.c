/* SPDX-License-Identifier: ISC */
/*
 * log_address.c - log.addresses: mail addresses in any value, wherever they
 * came from, also in the words of a peer.
 */
#include "base/log.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/buf.h"

#define HASH_BYTES 6

static bool
is_local(unsigned char c)
{
	return isalnum(c) || c >= 0x80 ||
	       (c != '\0' && strchr(".!#$%&'*+-/=?^_`{|}~", c) != NULL);
}

static bool
is_domain(unsigned char c)
{
	return isalnum(c) || c >= 0x80 || c == '.' || c == '-' || c == '_';
}

/* Enough to tell one from another; whoever guesses an address can check. */
static void
put_hash(struct buf *out, const char *p, size_t n)
{
	unsigned char digest[EVP_MAX_MD_SIZE], low;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok;
	size_t i;

	ok = ctx != NULL && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;
	for (i = 0; ok && i < n; i++) {
		low = (unsigned char)tolower((unsigned char)p[i]);
		ok = EVP_DigestUpdate(ctx, &low, 1) == 1;
	}
	ok = ok && EVP_DigestFinal_ex(ctx, digest, NULL) == 1;
	EVP_MD_CTX_free(ctx);
	buf_puts(out, "[address ");
	for (i = 0; ok && i < HASH_BYTES; i++)
		buf_printf(out, "%02x", digest[i]);
	buf_puts(out, "]");
}

void
log_mask_addresses(struct buf *out, struct str s, enum log_addresses how)
{
	size_t from, to, at, done = 0;
	const char *found;

	while ((found = memchr(s.p + done, '@', s.n - done)) != NULL) {
		at = (size_t)(found - s.p);
		from = at;
		while (from > done && is_local((unsigned char)s.p[from - 1]))
			from--;
		to = at + 1;
		while (to < s.n && is_domain((unsigned char)s.p[to]))
			to++;
		buf_add(out, s.p + done, from - done);
		if (from == at || to == at + 1)
			buf_add(out, s.p + from, to - from);
		else if (how == LOG_ADDRESSES_HASHED)
			put_hash(out, s.p + from, to - from);
		else
			buf_puts(out, "[address]");
		done = to;
	}
	buf_add(out, s.p + done, s.n - done);
}
