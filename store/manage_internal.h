/* SPDX-License-Identifier: ISC */
/* manage_internal.h - what manage.c and migrate.c share. */
#ifndef STORE_MANAGE_INTERNAL_H
#define STORE_MANAGE_INTERNAL_H

#include "store/manage.h"
#include "store/pg.h"
#include "store/store.h"

struct manage {
	struct pg_sync *db;
};

#endif
