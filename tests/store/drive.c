/* SPDX-License-Identifier: ISC */
/*
 * drive.c - the gateway's store without a door in front of it:
 *
 *	drive CONF TOKENS COUNT SIZE CONCURRENCY
 *
 * Signs in with each key of the file TOKENS, submits COUNT messages of SIZE
 * bytes in turn, CONCURRENCY at a time, and prints a line per outcome:
 * "stored ID STATE" or "refused CODE". The last line is JSON with the rate
 * and this process's CPU. The same code that posternd runs; for contract
 * tests, kill tests and the benchmark "the committer alone".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/uuid.h"
#include "base/xalloc.h"
#include "store/credential.h"
#include "store/store.h"
#include "store/submit.h"

#define KEYS_MAX 256
#define PIECE 16384
#define PIECES 4 /* that differ, so that bodies do not pack into nothing */

struct flight {
	struct drive *d;
	struct submit *sub;
	size_t left; /* body bytes still to feed */
	uint64_t began;
};

struct drive {
	struct loop *loop;
	struct store *st;
	struct store_cred *cred[KEYS_MAX];
	size_t creds, waiting_auth;
	unsigned begun, ended, stored, count, concurrency;
	size_t size;
	struct flight *flight;
	uint64_t *ms;
	uint64_t started, stopped;
	struct loop_timer *drained;
};

static char body[PIECES * PIECE];

static void start(struct flight *f);

/* As a gateway stops: with what limits were charged ahead given back. */
static void
on_drained(void *arg)
{
	struct drive *d = arg;

	if (store_pending(d->st) == 0)
		loop_stop(d->loop);
	else
		loop_timer_set(d->drained, 1);
}

static void
on_done(void *arg, const struct submit_outcome *out)
{
	struct flight *f = arg;
	struct drive *d = f->d;
	char id[UUID_ID_MAX];

	f->sub = NULL;
	d->ms[d->ended++] = clock_mono_ms() - f->began;
	if (out->code == E_NONE) {
		d->stored++;
		uuid_to_id(id, "msg_", &out->message);
		printf("stored %s %d%s\n", id, out->state,
		    out->replay ? " replay" : "");
	} else {
		printf(
		    "refused %s %s\n", error_get(out->code)->code, out->text);
	}
	if (d->begun < d->count)
		start(f);
	if (d->ended < d->count)
		return;
	d->stopped = clock_mono_ms();
	store_drain(d->st);
	on_drained(d);
}

static void
feed(void *arg)
{
	struct flight *f = arg;
	size_t n;
	bool room = true;

	while (f->left > 0 && room) {
		n = f->left < PIECE ? f->left : PIECE;
		room = submit_feed(
		    f->sub, body + f->left / PIECE % PIECES * PIECE, n);
		f->left -= n;
	}
	if (room && f->left == 0) {
		f->began = clock_mono_ms();
		submit_finish(f->sub);
	}
}

static void
start(struct flight *f)
{
	struct drive *d = f->d;
	const struct store_cred *cred = d->cred[d->begun % d->creds];
	struct submit_rcpt rcpt = { .address = str_lit("someone@example.net"),
		.kind = 't' };
	struct submit_envelope env = {
		.door = SUBMIT_SMTP,
		.rcpt = &rcpt,
		.rcpt_count = 1,
		.tls = "ESMTPSA",
	};
	char head[1024];
	int n;

	n = snprintf(head, sizeof(head),
	    "From: <%s>\r\nTo: <someone@example.net>\r\n"
	    "Subject: drive %u\r\nMessage-ID: <%u.%llu@drive.test>\r\n\r\n",
	    cred->address, d->begun, d->begun,
	    (unsigned long long)clock_real_us());
	d->begun++;
	f->began = clock_mono_ms();
	f->sub = submit_begin(cred, &env, on_done, feed, f);
	f->left = d->size;
	submit_feed(f->sub, head, (size_t)n);
	feed(f);
}

static void
start_all(struct drive *d)
{
	unsigned i;

	d->started = clock_mono_ms();
	for (i = 0; i < d->concurrency && d->begun < d->count; i++)
		start(&d->flight[i]);
}

static void
on_auth(void *arg, enum err_code code, struct store_cred *cred)
{
	struct drive *d = arg;

	if (code != E_NONE)
		printf("refused %s at sign-in\n", error_get(code)->code);
	else
		d->cred[d->creds++] = cred;
	if (--d->waiting_auth > 0)
		return;
	d->stopped = d->started = clock_mono_ms();
	if (d->creds == 0)
		loop_stop(d->loop);
	else
		start_all(d);
}

static void
sign_in(struct drive *d, const char *path)
{
	FILE *f = fopen(path, "r");
	char line[256];

	if (f == NULL) {
		perror(path);
		exit(2);
	}
	while (d->waiting_auth < KEYS_MAX && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		d->waiting_auth++;
		store_auth(
		    d->st, str_of(line), STORE_AUTH_CONNECTION, on_auth, d);
	}
	fclose(f);
}

static void
fill_body(void)
{
	static const char abc[] = "abcdefghijklmnopqrstuvwxyz0123456789+/AB";
	unsigned long long x = 88172645463325252ULL;
	size_t i;

	for (i = 0; i < sizeof(body); i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		body[i] = abc[x % (sizeof(abc) - 1)];
		if (i % 64 == 62)
			body[i] = '\r';
		else if (i % 64 == 63)
			body[i] = '\n';
	}
}

static int
compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void
report(struct drive *d)
{
	struct rusage ru;
	uint64_t ms = d->stopped - d->started;
	double cpu;

	getrusage(RUSAGE_SELF, &ru);
	cpu = (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
	      (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
	qsort(d->ms, d->ended, sizeof(*d->ms), compare);
	printf("{\"stored\": %u, \"refused\": %u, \"seconds\": %.3f, "
	       "\"rate\": %.1f, \"cpu\": %.3f, \"p50_ms\": %llu, "
	       "\"p99_ms\": %llu, \"maxrss_kb\": %ld}\n",
	    d->stored, d->ended - d->stored, (double)ms / 1000,
	    ms > 0 ? d->stored * 1000.0 / (double)ms : 0, cpu,
	    (unsigned long long)(d->ended ? d->ms[d->ended / 2] : 0),
	    (unsigned long long)(d->ended ? d->ms[d->ended * 99 / 100] : 0),
	    ru.ru_maxrss);
}

static unsigned
number(const char *text)
{
	return (unsigned)strtoul(text, NULL, 10);
}

int
main(int argc, char **argv)
{
	struct drive d = { 0 };
	struct conf *conf;
	struct err err;
	size_t i;

	if (argc != 6) {
		fprintf(stderr, "usage: drive CONF TOKENS COUNT SIZE "
				"CONCURRENCY\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	log_init("drive", LOG_LEVEL_WARN);
	fill_body();
	conf = conf_load(argv[1], "posternd", &err);
	if (conf == NULL || !store_check(conf, "l_gateway", &err)) {
		fprintf(stderr, "drive: %s\n", err.text);
		return 1;
	}
	d.count = number(argv[3]);
	d.size = number(argv[4]) / 64 * 64;
	d.concurrency = number(argv[5]);
	d.flight = xcalloc(d.concurrency, sizeof(*d.flight));
	d.ms = xcalloc(d.count + 1, sizeof(*d.ms));
	for (i = 0; i < d.concurrency; i++)
		d.flight[i].d = &d;
	d.loop = loop_new();
	d.drained = loop_timer_new(d.loop, on_drained, &d);
	d.st = store_new(d.loop, conf, 0, 1, &err);
	if (d.st == NULL) {
		fprintf(stderr, "drive: %s\n", err.text);
		return 1;
	}
	sign_in(&d, argv[2]);
	loop_run(d.loop);
	report(&d);
	for (i = 0; i < d.creds; i++)
		store_cred_free(d.cred[i]);
	store_free(d.st);
	loop_timer_free(d.drained);
	loop_free(d.loop);
	conf_free(conf);
	free(d.flight);
	free(d.ms);
	return 0;
}
