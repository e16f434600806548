/* SPDX-License-Identifier: ISC */
#include "seal/stored.h"

#include <sodium.h>
#include <string.h>

#include "seal/key.h"

void
seal_stored_dkim(
    struct buf *out, uint64_t tenant, struct str domain, struct str selector)
{
	buf_lp(out, "postern.dkim.1", 14);
	buf_u64(out, tenant);
	buf_lp(out, domain.p, domain.n);
	buf_lp(out, selector.p, selector.n);
}

void
seal_stored_route(struct buf *out, uint64_t tenant, uint64_t inbox,
    struct str domain, struct str host, uint16_t port, struct str login)
{
	buf_lp(out, "postern.route.1", 15);
	buf_u64(out, tenant);
	buf_u64(out, inbox);
	buf_lp(out, domain.p, domain.n);
	buf_lp(out, host.p, host.n);
	buf_u16(out, port);
	buf_lp(out, login.p, login.n);
}

void
seal_stored_box(struct buf *out, const unsigned char relay_pub[32],
    struct str what_for, struct str secret)
{
	struct buf plain = { 0 };

	/* All at once: growing would leave a copy behind. */
	(void)buf_reserve(&plain, what_for.n + secret.n);
	buf_add_str(&plain, what_for);
	buf_add_str(&plain, secret);
	seal_box(buf_reserve(out, plain.n + SEAL_BOX_EXTRA), relay_pub, plain.p,
	    plain.n);
	out->n += plain.n + SEAL_BOX_EXTRA;
	buf_wipe(&plain);
	buf_free(&plain);
}

bool
seal_stored_open(struct buf *secret, struct str box,
    const unsigned char relay_pub[32], const struct secret *relay_priv,
    struct str what_for)
{
	struct buf plain = { 0 };
	bool ok = box.n > SEAL_BOX_EXTRA;

	if (ok)
		ok = seal_box_open(
		    buf_reserve(&plain, box.n), box, relay_pub, relay_priv);
	if (ok) {
		plain.n = box.n - SEAL_BOX_EXTRA;
		ok = plain.n > what_for.n &&
		     memcmp(plain.p, what_for.p, what_for.n) == 0;
	}
	if (ok)
		buf_add(secret, plain.p + what_for.n, plain.n - what_for.n);
	buf_wipe(&plain);
	buf_free(&plain);
	return ok;
}
