/* SPDX-License-Identifier: ISC */
/* backup.h - the folder that `backup` writes and `restore` reads. */
#ifndef CTL_BACKUP_H
#define CTL_BACKUP_H

#include "ctl/ctl.h"
#include "seal/password.h"

#define BACKUP_FORMAT 1
#define BACKUP_MANIFEST "manifest.json"
#define BACKUP_KEYS "keys.vault"
#define BACKUP_STATE "state"

/* Does a file of the state folder belong into a backup? No path is a name. */
bool backup_is_state(const char *name);
/*
 * --passphrase-file, or asked for on the terminal, `twice` for a new one.
 * False, reported.
 */
MUST_CHECK bool ctl_passphrase(const struct ctl *ctl,
    const struct ctl_args *args, bool twice, char *out, size_t size);

#endif
