/* SPDX-License-Identifier: ISC */
#include "store/manage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/xalloc.h"
#include "store/manage_internal.h"

struct manage *
manage_open(const struct conf *conf, const char *login, struct err *err)
{
	struct pg_conf pc;
	struct pg_sync *db;
	struct manage *m;

	store_pg_conf(&pc, conf, login, "posternctl");
	db = pg_sync_open(&pc, err);
	if (db == NULL)
		return NULL;
	m = xcalloc(1, sizeof(*m));
	m->db = db;
	return m;
}

void
manage_close(struct manage *m)
{
	if (m == NULL)
		return;
	pg_sync_close(m->db);
	free(m);
}

static void
add_arg(struct pg_args *to, const struct manage_arg *arg)
{
	switch (arg->type) {
	case MANAGE_NULL:
		pg_null(to);
		break;
	case MANAGE_I64:
		pg_i64(to, arg->i);
		break;
	case MANAGE_I32:
		pg_i32(to, (int32_t)arg->i);
		break;
	case MANAGE_I16:
		pg_i16(to, (int)arg->i);
		break;
	case MANAGE_BOOL:
		pg_bool(to, arg->i != 0);
		break;
	case MANAGE_TEXT:
		pg_text(to, arg->p);
		break;
	case MANAGE_BYTES:
		pg_bytes(to, arg->p, arg->n);
		break;
	case MANAGE_UUID:
		pg_uuid(to, arg->p);
		break;
	case MANAGE_END:
		break;
	}
}

static void
keep_rows(struct manage_rows *rows, const struct pg_result *res)
{
	int i, n = pg_rows(res);

	rows->json = xcalloc((size_t)n + 1, sizeof(rows->json[0]));
	for (i = 0; i < n; i++)
		rows->json[rows->n++] = xstrdup(pg_get_text(res, i, "row"));
}

bool
manage_call(struct manage *m, const char *function,
    const struct manage_arg *args, struct manage_rows *rows, struct err *err)
{
	struct pg_args values = { 0 };
	struct pg_result *res;
	struct buf sql = { 0 };
	int n = 0;

	*rows = (struct manage_rows){ 0 };
	buf_printf(
	    &sql, "select row_to_json(r)::text as row from api.%s(", function);
	for (; args->type != MANAGE_END; args++) {
		add_arg(&values, args);
		buf_printf(&sql, "%s$%d", n == 0 ? "" : ",", n + 1);
		n++;
	}
	buf_puts(&sql, ") r");
	res = pg_sync_call(m->db, buf_cstr(&sql), &values, err);
	if (res != NULL)
		keep_rows(rows, res);
	pg_result_free(res);
	pg_args_free(&values);
	buf_free(&sql);
	return res != NULL;
}

bool
manage_verify(
    struct manage *m, int sample, struct manage_rows *rows, struct err *err)
{
	struct pg_args values = { 0 };
	struct pg_result *res;

	*rows = (struct manage_rows){ 0 };
	if (!pg_sync_script(m->db, "SET statement_timeout = 0", err))
		return false;
	pg_i32(&values, sample);
	res = pg_sync_call(m->db,
	    "select row_to_json(r)::text as row from d.verify($1) r", &values,
	    err);
	if (res != NULL)
		keep_rows(rows, res);
	pg_result_free(res);
	pg_args_free(&values);
	return res != NULL;
}

void
manage_rows_clear(struct manage_rows *rows)
{
	size_t i;

	for (i = 0; i < rows->n; i++)
		free(rows->json[i]);
	free(rows->json);
	*rows = (struct manage_rows){ 0 };
}
