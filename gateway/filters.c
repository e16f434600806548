/* SPDX-License-Identifier: ISC */
/*
 * filters.c - one message, shown to all filters at once; the worst counts.
 */
#include "gateway/filters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "milter/client.h"
#include "milter/gate.h"
#include "store/filter.h"

#define FILTERS_MAX 8

struct filters {
	struct loop *loop;
	char hostname[256];
	struct milter_conf conf[FILTERS_MAX];
	struct milter_gate *gate[FILTERS_MAX]; /* by what it is called */
	size_t n;
};

struct one {
	struct run *run;
	struct milter *milter;
	struct milter_conf conf;
	bool full, over;
};

struct run {
	struct one one[FILTERS_MAX];
	size_t n, over;
	char id[UUID_ID_MAX];
	void (*done)(void *sub), (*room)(void *sub);
	void *sub;
};

/* What goes on when the list is read again still counts. */
static void
move_gates(struct filters *to, struct filters *from)
{
	size_t i, j;

	for (i = 0; i < to->n; i++) {
		for (j = 0; j < from->n; j++)
			if (from->gate[j] != NULL &&
			    strcmp(to->conf[i].name, from->conf[j].name) == 0)
				break;
		if (j < from->n) {
			to->gate[i] = from->gate[j];
			from->gate[j] = NULL;
			milter_gate_limit(to->gate[i], to->conf[i].max);
		} else {
			to->gate[i] = milter_gate_new(to->conf[i].max);
		}
	}
	for (j = 0; j < from->n; j++)
		milter_gate_release(from->gate[j]);
}

bool
filters_configure(struct filters *f, const struct conf *conf, struct err *err)
{
	struct filters fresh = { .loop = f->loop };
	const char *why;
	size_t i;

	if (conf->filter_milters.n > FILTERS_MAX) {
		err_set(err, 0, "filter.milters: more than %d", FILTERS_MAX);
		return false;
	}
	for (i = 0; i < conf->filter_milters.n; i++) {
		if (milter_conf_parse(&fresh.conf[i],
			str_of(conf->filter_milters.v[i]), &why))
			continue;
		err_set(err, 0, "filter.milters: \"%s\": %s",
		    conf->filter_milters.v[i], why);
		return false;
	}
	fresh.n = conf->filter_milters.n;
	snprintf(fresh.hostname, sizeof(fresh.hostname), "%s", conf->hostname);
	move_gates(&fresh, f);
	*f = fresh;
	return true;
}

struct filters *
filters_new(struct loop *loop, const struct conf *conf, struct err *err)
{
	struct filters *f = xcalloc(1, sizeof(*f));

	f->loop = loop;
	if (filters_configure(f, conf, err))
		return f;
	free(f);
	return NULL;
}

void
filters_free(struct filters *f)
{
	struct filters none = { 0 };

	if (f != NULL)
		move_gates(&none, f);
	free(f);
}

static void
on_done(void *arg)
{
	struct one *one = arg;
	struct run *run = one->run;

	if (one->over)
		return;
	one->over = true;
	if (++run->over == run->n)
		run->done(run->sub);
}

static void
on_room(void *arg)
{
	struct one *one = arg;
	struct run *run = one->run;
	size_t i;

	one->full = false;
	for (i = 0; i < run->n; i++)
		if (run->one[i].full)
			return;
	run->room(run->sub);
}

static void *
run_begin(void *arg, const struct store_filter_mail *mail,
    void (*done)(void *sub), void (*room)(void *sub), void *sub)
{
	struct filters *f = arg;
	struct milter_mail m = { .hostname = f->hostname,
		.from = mail->from,
		.rcpt = mail->rcpt,
		.rcpt_count = mail->rcpt_count };
	struct run *run;
	size_t i;

	if (f->n == 0)
		return NULL;
	run = xcalloc(1, sizeof(*run));
	run->n = f->n;
	run->done = done;
	run->room = room;
	run->sub = sub;
	uuid_to_id(run->id, "msg_", &mail->message);
	m.id = run->id;
	for (i = 0; i < run->n; i++) {
		run->one[i].run = run;
		run->one[i].conf = f->conf[i];
		run->one[i].milter = milter_start(f->loop, &f->conf[i],
		    f->gate[i], &m, on_done, on_room, &run->one[i]);
	}
	return run;
}

static bool
run_feed(void *arg, const void *p, size_t n)
{
	struct run *run = arg;
	bool room = true;
	size_t i;

	for (i = 0; i < run->n; i++) {
		run->one[i].full = !milter_feed(run->one[i].milter, p, n);
		room &= !run->one[i].full;
	}
	return room;
}

static void
run_finish(void *arg)
{
	struct run *run = arg;
	size_t i;

	for (i = 0; i < run->n; i++)
		milter_finish(run->one[i].milter);
}

static void
add(struct store_filter_result *out, const struct one *one, enum finding f,
    const char *why)
{
	size_t at = strlen(out->note);
	int n;

	finding_mark(&out->marks, f);
	n = snprintf(out->note + at, sizeof(out->note) - at, "%s\t%s: %s\n",
	    finding_code(f), one->conf.name, why);
	if (n < 0 || (size_t)n >= sizeof(out->note) - at)
		out->note[at] = '\0'; /* whole lines only */
}

static void
add_silent(struct store_filter_result *out, const struct run *run,
    const struct one *one, const char *why)
{
	char text[MILTER_NAME_MAX + MILTER_NOTE_MAX + 2];

	snprintf(text, sizeof(text), "%s: %s", one->conf.name, why);
	log_warn("filter.silent", KV("message", run->id), KV("why", text));
	metrics_inc(M_FILTER, "silent", NULL);
	switch (one->conf.on_failure) {
	case MILTER_DEFAULT_ACCEPT:
		break;
	case MILTER_DEFAULT_HOLD:
		out->hold = true;
		add(out, one, FINDING_FILTER_SILENT, why);
		break;
	case MILTER_DEFAULT_TEMPFAIL:
		out->refuse = true;
		break;
	}
}

static void
add_result(struct store_filter_result *out, const struct run *run,
    const struct one *one)
{
	const struct milter_result *r = milter_result(one->milter);
	bool passed;

	switch (r->verdict) {
	case MILTER_PENDING:
	case MILTER_FAILED:
	case MILTER_TEMPFAIL:
		/* What a filter says may name what is in the body (A7). */
		add_silent(out, run, one,
		    r->verdict == MILTER_TEMPFAIL ? "asked to try later"
						  : r->note);
		return;
	case MILTER_REJECT:
		add(out, one, FINDING_FILTER_REJECT, r->note);
		break;
	case MILTER_DISCARD:
		add(out, one, FINDING_FILTER_HOLD, r->note);
		break;
	case MILTER_ACCEPT:
		if (r->quarantine)
			add(out, one, FINDING_FILTER_HOLD, r->note);
		else if (r->rewrite)
			add(out, one, FINDING_FILTER_CHANGE, r->note);
		else if (r->header)
			add(out, one, FINDING_FILTER_MARK, r->note);
		break;
	}
	passed = r->verdict == MILTER_ACCEPT && !r->quarantine && !r->rewrite &&
		 !r->header;
	metrics_inc(M_FILTER, passed ? "passed" : "marked", NULL);
	out->hold |= r->verdict != MILTER_ACCEPT || r->quarantine;
}

static void
run_result(void *arg, struct store_filter_result *out)
{
	const struct run *run = arg;
	size_t i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < run->n; i++)
		add_result(out, run, &run->one[i]);
}

static void
run_free(void *arg)
{
	struct run *run = arg;
	size_t i;

	for (i = 0; i < run->n; i++)
		milter_free(run->one[i].milter);
	free(run);
}

void
filters_hook(struct filters *f, struct store_filter *out)
{
	*out = (struct store_filter){ .arg = f,
		.begin = run_begin,
		.feed = run_feed,
		.finish = run_finish,
		.result = run_result,
		.free = run_free };
}
