/* SPDX-License-Identifier: ISC */
/*
 * trace.h - what the programs' logs say of one message, beside its history
 */
#ifndef CTL_TRACE_H
#define CTL_TRACE_H

#include "ctl/ctl.h"

/*
 * Print the rows of trace_events_1 of the message `id` (msg_...) and the lines
 * of the logs that are about it, or about the session or request it came with,
 * in the order of their times. `logs` is a file, a folder of files, or "-" for
 * standard input; one JSON object a line, as the programs write them, other
 * lines are passed over. `events` stays the caller's. The exit code.
 */
int trace_with_logs(const struct ctl *ctl, const json_t *events, const char *id,
    const char *logs);

#endif
