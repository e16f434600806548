/* SPDX-License-Identifier: ISC */
/*
 * pg_sync.c - the blocking calls, for start-up checks and posternctl.
 */
#include "store/pg_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

struct pg_sync {
	PGconn *pq;
	char state[6];
};

static void
drop_notice(void *arg, const PGresult *res)
{
	(void)arg;
	(void)res;
}

/* libpq's words end in a newline and may have several lines. */
static void
say(struct err *err, const char *words)
{
	err_set(err, EIO, "PostgreSQL: %.*s", (int)strcspn(words, "\n"), words);
}

struct pg_sync *
pg_sync_open(const struct pg_conf *conf, struct err *err)
{
	struct pg_conninfo ci;
	struct pg_conf full;
	struct pg_sync *s;

	pg_conf_defaults(&full, conf);
	if (conf->deadline_ms == 0)
		full.deadline_ms = 60000;
	pg_conninfo_fill(&ci, &full);
	s = xcalloc(1, sizeof(*s));
	s->pq = PQconnectdbParams(ci.key, ci.value, 0);
	if (s->pq == NULL || PQstatus(s->pq) != CONNECTION_OK) {
		say(err, s->pq != NULL ? PQerrorMessage(s->pq) : "no memory");
		pg_sync_close(s);
		return NULL;
	}
	PQsetNoticeReceiver(s->pq, drop_notice, NULL);
	return s;
}

void
pg_sync_close(struct pg_sync *s)
{
	if (s == NULL)
		return;
	PQfinish(s->pq);
	free(s);
}

static bool
accept_result(struct pg_sync *s, const PGresult *res, struct err *err)
{
	ExecStatusType status = PQresultStatus(res);
	const char *words = pg_message(res);

	s->state[0] = '\0';
	if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK ||
	    status == PGRES_EMPTY_QUERY)
		return true;
	strncpy(s->state, pg_sqlstate(res), sizeof(s->state) - 1);
	say(err, words[0] != '\0' ? words : PQerrorMessage(s->pq));
	return false;
}

struct pg_result *
pg_sync_call(struct pg_sync *s, const char *sql, const struct pg_args *args,
    struct err *err)
{
	static const struct pg_args none;
	const struct pg_args *a = args != NULL ? args : &none;
	struct pg_params params;
	PGresult *res;

	pg_params_fill(&params, a);
	res = PQexecParams(
	    s->pq, sql, a->n, a->type, params.value, a->len, params.format, 1);
	if (accept_result(s, res, err))
		return res;
	PQclear(res);
	return NULL;
}

const char *
pg_sync_state(const struct pg_sync *s)
{
	return s->state;
}

bool
pg_sync_script(struct pg_sync *s, const char *sql, struct err *err)
{
	PGresult *res = PQexec(s->pq, sql);
	bool ok = accept_result(s, res, err);

	PQclear(res);
	return ok;
}
