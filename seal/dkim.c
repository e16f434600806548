/* SPDX-License-Identifier: ISC */
#include "seal/dkim.h"

#include <sodium.h>
#include <string.h>

#include "seal/key.h"

static void
head(struct buf *b, uint64_t tenant, struct str domain, struct str selector)
{
	buf_lp(b, "postern.dkim.1", 14);
	buf_u64(b, tenant);
	buf_lp(b, domain.p, domain.n);
	buf_lp(b, selector.p, selector.n);
}

void
seal_dkim_box(struct buf *out, const unsigned char relay_pub[32],
    uint64_t tenant, struct str domain, struct str selector, struct str pem)
{
	struct buf plain = { 0 };

	/* All at once: growing would leave a copy behind. */
	(void)buf_reserve(&plain, 64 + domain.n + selector.n + pem.n);
	head(&plain, tenant, domain, selector);
	buf_add_str(&plain, pem);
	seal_box(buf_reserve(out, plain.n + SEAL_BOX_EXTRA), relay_pub, plain.p,
	    plain.n);
	out->n += plain.n + SEAL_BOX_EXTRA;
	buf_wipe(&plain);
	buf_free(&plain);
}

bool
seal_dkim_open(struct buf *pem, struct str box,
    const unsigned char relay_pub[32], const struct secret *relay_priv,
    uint64_t tenant, struct str domain, struct str selector)
{
	struct buf plain = { 0 }, want = { 0 };
	bool ok = box.n > SEAL_BOX_EXTRA;

	head(&want, tenant, domain, selector);
	if (ok)
		ok = seal_box_open(
		    buf_reserve(&plain, box.n), box, relay_pub, relay_priv);
	if (ok) {
		plain.n = box.n - SEAL_BOX_EXTRA;
		ok = plain.n > want.n && memcmp(plain.p, want.p, want.n) == 0;
	}
	if (ok)
		buf_add(pem, plain.p + want.n, plain.n - want.n);
	buf_wipe(&plain);
	buf_free(&plain);
	buf_free(&want);
	return ok;
}
