/* SPDX-License-Identifier: ISC */
/* doctor.h - findings: what is wrong, how bad it is, and what to do. */
#ifndef CTL_DOCTOR_H
#define CTL_DOCTOR_H

#include "ctl/ctl.h"

/* `level` is ok, info, warning or error. */
void doctor_add(json_t *all, const char *finding, const char *level,
    const char *detail, const char *fix);

/* What can be seen from this host. */
void doctor_certificate(const struct ctl *ctl, json_t *all);
void doctor_disk(const struct ctl *ctl, json_t *all);
void doctor_backup(const struct ctl *ctl, json_t *all);
void doctor_keys(const struct ctl *ctl, json_t *all);
void doctor_next_hop(const struct ctl *ctl, json_t *all);
void doctor_programs(const struct ctl *ctl, json_t *all);
/* The same, with the row of ready_1. */
void doctor_clock(json_t *all, const json_t *ready);
void doctor_sealer(json_t *all, const json_t *ready);
/* Every block and row, against the heads in the state folder. */
void doctor_audit(struct ctl *ctl, json_t *all);

#endif
