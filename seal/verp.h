/* SPDX-License-Identifier: ISC */
/*
 * verp.h - the signed return path (decision D4): what comes back to it is
 * about a message of ours, of late, and of that inbox, or is forged.
 *
 * "bot@x.example" becomes "bot+<42 base32>@x.example"; the 26 bytes are the
 * day since 1970 on which it ends (u16), the message's id, and the first 8
 * bytes of HMAC-SHA256(K, lp("postern.verp.1") lp(inbox address, lower case)
 * u16 day, id 16).
 */
#ifndef SEAL_VERP_H
#define SEAL_VERP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/uuid.h"

/*
 * Appends the return path for mail of `inbox`. False, and nothing appended,
 * when its local part leaves no room in the 64 octets there are (RFC 5321
 * 4.5.3.1.1) or is not ASCII.
 */
bool seal_verp_make(struct buf *out, const struct secret *key, struct str inbox,
    const struct uuid *message, int64_t expires_us);
/*
 * Is `address` one of ours, signed and not over at `now_us`? Then `inbox`
 * receives the inbox's address and `message` the id. Case is not looked at:
 * hosts on the way change it.
 */
MUST_CHECK bool seal_verp_read(const struct secret *key, struct str address,
    int64_t now_us, struct buf *inbox, struct uuid *message);

#endif
