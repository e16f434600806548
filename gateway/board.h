/* SPDX-License-Identifier: ISC */
/*
 * board.h - what workers tell the supervisor, in memory shared across fork().
 */
#ifndef GATEWAY_BOARD_H
#define GATEWAY_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>

#include "net/ledger.h"

enum { BOARD_WORKERS_MAX = NET_LEDGER_WORKERS };

struct board_worker {
	_Atomic bool serving; /* it accepts connections */
	_Atomic bool store; /* it has a database to write to */
	_Atomic bool limiter; /* Redis answers it */
	_Atomic int health; /* enum health_state; of worker 0 only */
};

struct board {
	struct board_worker worker[BOARD_WORKERS_MAX];
};

#endif
