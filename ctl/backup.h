/* SPDX-License-Identifier: ISC */
/* backup.h - the folder that `backup` writes and `restore` reads. */
#ifndef CTL_BACKUP_H
#define CTL_BACKUP_H

#include "ctl/ctl.h"
#include "ctl/files.h"
#include "seal/password.h"

#define BACKUP_FORMAT 1
#define BACKUP_MANIFEST "manifest.json"
#define BACKUP_MAC "manifest.mac" /* of its bytes, by seal_vault_mac(); hex */
#define BACKUP_MANIFEST_MAX (16 << 20)
#define BACKUP_KEYS "keys.vault"
#define BACKUP_STATE "state"
#define BACKUP_LAST "last-backup" /* of the state folder: where it went */
#define BACKUP_OLD_HOURS 192

/* Does a file of the state folder belong into a backup? No path is a name. */
bool backup_is_state(const char *name);
/* Does PostgreSQL's manifest leave this file of the copy out? */
bool backup_is_apart(const char *name);
/*
 * Each entry of those folders of the backup in `dir` in which such files are;
 * its name begins with "base/". Follows no link. False, reported.
 */
MUST_CHECK bool backup_walk(
    const struct ctl *ctl, const char *dir, files_entry_fn *entry, void *arg);
/*
 * --passphrase-file, or asked for on the terminal, `twice` for a new one.
 * False, reported.
 */
MUST_CHECK bool ctl_passphrase(const struct ctl *ctl,
    const struct ctl_args *args, bool twice, char *out, size_t size);

#endif
