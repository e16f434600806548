/* SPDX-License-Identifier: ISC */
/*
 * stored.h - reversible secrets at rest: DKIM keys, passwords of next hops.
 *
 * Sealed to the relay key, so that only postern-deliver opens them, and bound
 * to what they are for, so that a row moved elsewhere does not open. Layouts:
 * docs/formats.md.
 */
#ifndef SEAL_STORED_H
#define SEAL_STORED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/secret.h"
#include "base/str.h"

/* What it is for; appended to `out`. */
void seal_stored_dkim(
    struct buf *out, uint64_t tenant, struct str domain, struct str selector);
void seal_stored_route(struct buf *out, uint64_t tenant, uint64_t inbox,
    struct str domain, struct str host, uint16_t port, struct str login);

/* Appends the box. */
void seal_stored_box(struct buf *out, const unsigned char relay_pub[32],
    struct str what_for, struct str secret);
/* Appends the secret; buf_wipe() it. False: not ours, or for another thing. */
MUST_CHECK bool seal_stored_open(struct buf *secret, struct str box,
    const unsigned char relay_pub[32], const struct secret *relay_priv,
    struct str what_for);

#endif
