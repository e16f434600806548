/* SPDX-License-Identifier: ISC */
/*
 * dkim.h - private DKIM keys at rest: sealed to the relay key, so that only
 * postern-deliver opens them, and bound to tenant, domain and selector, so
 * that a row moved to another domain does not open. Layout: docs/formats.md.
 */
#ifndef SEAL_DKIM_H
#define SEAL_DKIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/secret.h"
#include "base/str.h"

/* Appends the box. `pem` is the private key, PKCS#8. */
void seal_dkim_box(struct buf *out, const unsigned char relay_pub[32],
    uint64_t tenant, struct str domain, struct str selector, struct str pem);
/* Appends the key; buf_wipe() it. False: not ours, or another's. */
MUST_CHECK bool seal_dkim_open(struct buf *pem, struct str box,
    const unsigned char relay_pub[32], const struct secret *relay_priv,
    uint64_t tenant, struct str domain, struct str selector);

#endif
