/* SPDX-License-Identifier: ISC */
/*
 * heads.h - the file of heads: what the last block of the audit log is, after
 * each block, kept outside the database.
 */
#ifndef CTL_HEADS_H
#define CTL_HEADS_H

#include "base/err.h"
#include "ctl/audit.h"

/* One line: block, rows, gen, xid, n, hash, signature. Flushed to disk; false,
 * reported: it may not be there, or not all of it. */
MUST_CHECK bool heads_append(const struct ctl *ctl,
    const struct audit_head *head,
    const unsigned char signature[SEAL_SIGNATURE_LEN]);

/*
 * The sealer may have ended between the last block, `last`, and its head, or
 * the disk was full: then part of a line is taken away, and the head written
 * now, if `pub` signed the block. More than one is never missing for that, and
 * not made up for. False, reported: the file could not be read or written.
 */
MUST_CHECK bool heads_mend(struct ctl *ctl, const struct audit_head *last,
    const unsigned char pub[32]);

#endif
