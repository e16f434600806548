/* SPDX-License-Identifier: ISC */
/*
 * job_relay.c - find a next hop and hand the message over.
 *
 * One address after another until one takes the transaction; what it then
 * says is the result. The database is asked twice: before MAIL FROM, to note
 * which recipients are being sent, and before the final dot.
 */
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "deliver/idle.h"
#include "deliver/job_internal.h"

/*
 * Sessions are shared by what makes them the same. Who signed in is part of
 * it, and with what: nobody gets into another's session without its password.
 * So is whose authorities vouched for the host, and, where DANE did, for which
 * domain: the certificate may name that one alone.
 */
static void
name_session(char key[IDLE_KEY_MAX], const struct client_conf *conf,
    const struct job_hop *hop)
{
	unsigned char secret[16];
	char shown[2 * sizeof(secret) + 1];
	char addr[2 * sizeof(struct sockaddr_in6) + 1] = "";

	if (conf->addr_len <= sizeof(struct sockaddr_in6))
		hex_encode(addr, &conf->addr, conf->addr_len);
	(void)crypto_generichash(secret, sizeof(secret),
	    (const unsigned char *)conf->password.p, conf->password.n, NULL, 0);
	hex_encode(shown, secret, sizeof(secret));
	(void)snprintf(key, IDLE_KEY_MAX, "%d%c%s %s %lld.%lld %s %s %.*s",
	    (int)conf->policy, hop->host != NULL ? 'h' : 'm',
	    conf->dane != NULL ? conf->dane->also : "", addr,
	    (long long)hop->tenant, (long long)hop->inbox, shown, conf->host,
	    (int)conf->user.n, conf->user.p != NULL ? conf->user.p : "");
}

static void
keep_session(struct job *job)
{
	/* Authorities or password may be others now. */
	struct client_conn *conn =
	    job->stale ? NULL : client_detach(job->client);

	if (conn != NULL)
		idle_put(job->ctx->idle, job->session, conn);
}

/* Reasons with which the gate has ended the lease; docs/store-api.md. */
static bool
ends_lease(const char *why)
{
	static const char *const reasons[] = { "paused", "suspended",
		"not_after", "expired", "mode", "lease", "version", "round" };
	size_t i;

	for (i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (strcmp(why, reasons[i]) == 0)
			return true;
	}
	return false;
}

void
job_no_go(struct job *job, const char *why)
{
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", &job->lease.message);
	log_info("deliver.dot", KV("message", id), KV("code", why));
	client_free(job->client);
	job->client = NULL;
	if (ends_lease(why))
		job_over(job);
	else
		job_release(job, 1);
}

static void
on_attempted(void *arg, enum relay_status st, const char *why)
{
	struct job *job = arg;

	job->op = NULL;
	if (st == RELAY_REFUSED) {
		job_no_go(job, why);
		return;
	}
	if (st == RELAY_LOST) {
		job->is_ours = true;
		client_abort(job->client, why);
		return;
	}
	job->attempted = true;
	if (job->stopping || job->stale) {
		job_return(job);
		return;
	}
	job->phase = JOB_TALKING;
	client_mail(job->client);
}

static void
on_ready(void *arg, const char *tls)
{
	struct job *job = arg;
	const char *host = job->hosts[job->host_at].name;
	char id[UUID_ID_MAX];
	/* Nothing was waited for since the gate was asked, but a place. */
	bool passed = job->reuses && job->passed > 0 &&
		      job->passed == job->due_count &&
		      clock_mono_ms() - job->fetched_ms <= JOB_PASSED_MS;

	job->passed = 0;
	job_policy_tell(job, client_is_verified(job->client), tls,
	    job->tls_text, sizeof(job->tls_text));
	(void)snprintf(job->mx, sizeof(job->mx), "%s", host);
	job->passes_dsn = client_passes_dsn(job->client);
	(void)snprintf(job->remote, sizeof(job->remote), "%s", host);
	uuid_to_id(id, "msg_", &job->lease.message);
	log_info("deliver.attempt", KV("message", id), KV("why", host),
	    KV("tls", job->tls_text));
	if (passed) {
		job->phase = JOB_TALKING;
		client_mail(job->client);
		return;
	}
	job->phase = JOB_MARKING;
	job->op = relay_attempt(job->ctx->relay, &job->lease, host,
	    job->tls_text, job->due, job->due_count, on_attempted, job);
}

static void
on_body(void *arg)
{
	struct job *job = arg;

	if (job->pass != JOB_PASS_RELAY)
		client_body(
		    job->client, (const char *)job->prefix.p, job->prefix.n);
	if (job->is_kept) {
		job->pass = JOB_PASS_RELAY;
		client_body(
		    job->client, (const char *)job->kept.p, job->kept.n);
		client_body_end(job->client);
		return;
	}
	if (job->pass != JOB_PASS_RELAY)
		job_rewind(job, JOB_PASS_RELAY);
	job_read(job);
}

void
job_relay_bytes(struct job *job, const char *p, size_t n)
{
	client_body(job->client, p, n);
}

void
job_relay_read(struct job *job, bool all)
{
	if (all)
		client_body_end(job->client);
	else
		client_more(job->client);
}

/*
 * A yes that took a third of a lease is of the past: we were stopped, or the
 * database was. The lease may be over, and another worker or a person may have
 * gone on from there; the dot has not left, so it stays.
 */
static bool
is_too_late(const struct job *job)
{
	return clock_mono_ms() - job->gate_ms >=
	       (uint64_t)job->ctx->conf->deliver_lease / 3;
}

static void
on_gate_answer(void *arg, enum relay_status st, const char *why)
{
	struct job *job = arg;
	char id[UUID_ID_MAX];

	job->op = NULL;
	if (st == RELAY_DONE && is_too_late(job)) {
		st = RELAY_LOST;
		why = "too late";
	}
	uuid_to_id(id, "msg_", &job->lease.message);
	log_info("deliver.dot", KV("message", id),
	    KV("code", st == RELAY_DONE ? "go" : why));
	if (st == RELAY_LOST)
		job->no_go = JOB_NO_ANSWER;
	else if (strcmp(why, "host") == 0)
		job->no_go = JOB_OTHER_HOST;
	else
		job->no_go = ends_lease(why) ? JOB_LEASE_OVER : JOB_LEASE_KEPT;
	client_dot(job->client, st == RELAY_DONE);
}

static size_t
taken(const struct job *job, int *ix)
{
	const struct reply *reply;
	size_t i, n = 0;

	for (i = 0; i < job->due_count; i++) {
		if (client_result(job->client, i, &reply) == CLIENT_RCPT_TAKEN)
			ix[n++] = job->due[i];
	}
	return n;
}

static void
on_gate(void *arg)
{
	struct job *job = arg;
	int *ix = xcalloc(job->due_count, sizeof(*ix));
	size_t n = taken(job, ix);

	job->phase = JOB_GATED;
	job->gate_ms = clock_mono_ms();
	job->op =
	    relay_dot(job->ctx->relay, &job->lease, (int64_t)job->id.inbox,
		job->mx, job->tls_text, ix, n, on_gate_answer, job);
	free(ix);
}

static enum relay_result
result_of(enum client_rcpt r)
{
	switch (r) {
	case CLIENT_RCPT_DELIVERED:
		return RELAY_DELIVERED;
	case CLIENT_RCPT_FAILED:
		return RELAY_FAILED;
	case CLIENT_RCPT_UNCERTAIN:
		return RELAY_UNCERTAIN;
	case CLIENT_RCPT_OPEN:
	case CLIENT_RCPT_TAKEN:
	case CLIENT_RCPT_DEFERRED:
		break;
	}
	return RELAY_DEFERRED;
}

/* A mail that a host drops must not close that to all others. */
static enum dest_outcome
lost(const struct job *job, bool dropped)
{
	return dropped && job->hop.host != NULL ? DEST_BUSY : DEST_UNREACHED;
}

static void
record(struct job *job)
{
	struct relay_rcpt *v = xcalloc(job->due_count, sizeof(*v));
	const struct reply *reply;
	const char *class = "broken";
	const struct reply *last = client_last(job->client);
	size_t i;

	for (i = 0; i < job->due_count; i++) {
		v[i].ix = job->due[i];
		v[i].result = result_of(client_result(job->client, i, &reply));
		v[i].code = reply->code;
		(void)snprintf(v[i].enhanced, sizeof(v[i].enhanced), "%s",
		    reply->enhanced);
		(void)snprintf(v[i].text, sizeof(v[i].text), "%s", reply->text);
		v[i].is_own = client_is_own(job->client, i);
	}
	if (last->code / 100 == 2)
		class = "2xx";
	else if (last->code / 100 == 4)
		class = "4xx";
	else if (last->code / 100 == 5)
		class = "5xx";
	job->outcome = DEST_REACHED;
	if (last->code == 421 || strncmp(last->enhanced, "4.7.", 4) == 0)
		job->outcome = DEST_BUSY;
	else if (last->code == 0)
		job->outcome = lost(job, true);
	metrics_inc(M_ATTEMPTS, class, NULL);
	job_finish(job, v, job->due_count);
}

/* The gate did not say go; the dot has not left and never will. */
static void
on_no_go(struct job *job)
{
	switch (job->no_go) {
	case JOB_LEASE_OVER:
		job_over(job);
		return;
	case JOB_LEASE_KEPT:
		job_release(job, 1);
		return;
	case JOB_OTHER_HOST:
		job_finish_all(job, RELAY_DEFERRED, 0, "4.4.1",
		    "another host may have the message");
		return;
	case JOB_NO_ANSWER:
		job_finish_all(job, RELAY_DEFERRED, 0, "4.3.0",
		    "the database did not answer in time");
		return;
	}
}

/*
 * A host that was lost before the gate, said 421, or refused to hear it in
 * clear where its TLS had failed, has decided nothing: with another one left,
 * and no recipient refused, that one is asked now.
 */
static bool
may_try_next(const struct job *job)
{
	const struct reply *reply;
	size_t i;
	int code = client_last(job->client)->code;
	bool decided = code != 0 && code != 421 &&
		       (job->tls != CLIENT_TLS_NONE || code / 100 != 5);

	if (job->phase != JOB_TALKING || decided ||
	    job->host_at + 1 >= job->host_count)
		return false;
	for (i = 0; i < job->due_count; i++) {
		if (client_result(job->client, i, &reply) !=
		    CLIENT_RCPT_DEFERRED)
			return false;
	}
	return true;
}

static void
on_end(void *arg, enum client_end end)
{
	struct job *job = arg;
	struct client *client = job->client;

	(void)snprintf(job->last_why, sizeof(job->last_why), "%s",
	    client_last(client)->text);
	/* The owner may still be waiting for an answer that no longer counts.
	 */
	relay_cancel(job->op);
	job->op = NULL;
	if (end == CLIENT_END_DONE && may_try_next(job)) {
		job->dropped = true;
		end = CLIENT_END_NEXT;
	}
	switch (end) {
	case CLIENT_END_DONE:
		record(job);
		keep_session(job);
		break;
	case CLIENT_END_UNSURE:
		job->one_by_one = true;
		job->fresh = true;
		break;
	case CLIENT_END_STALE:
		job->fresh = true;
		break;
	case CLIENT_END_NEXT:
		metrics_inc(M_ATTEMPTS, "connect", NULL);
		job_policy_failed(job);
		job->no_tls = false;
		job->fresh = false;
		job->one_by_one = false;
		job->host_at++;
		break;
	case CLIENT_END_TLS:
		metrics_inc(M_ATTEMPTS, "tls", NULL);
		job->no_tls = true;
		break;
	case CLIENT_END_NO_GO:
		on_no_go(job);
		break;
	case CLIENT_END_BAD_BYTES:
		job_integrity(job, "line ends");
		break;
	}
	job->client = NULL;
	client_free(client);
	if (end == CLIENT_END_DONE)
		job->left(job->arg, job);
	if (end == CLIENT_END_NEXT || end == CLIENT_END_TLS ||
	    end == CLIENT_END_STALE || end == CLIENT_END_UNSURE)
		job_next_address(job);
}

static const struct client_events events = {
	.on_ready = on_ready,
	.on_body = on_body,
	.on_gate = on_gate,
	.on_end = on_end,
};

/* Every host was tried, or may not be. */
static void
no_host(struct job *job)
{
	job->outcome = lost(job, job->dropped);
	job_finish_all(job, RELAY_DEFERRED, 0,
	    job->policy_failed ? "4.7.5" : "4.4.1", job->last_why);
}

static void
talk(struct job *job)
{
	const struct route_host *h = &job->hosts[job->host_at];
	const struct net_tls_dane dane = { job->dane.v, job->dane.n,
		job->lease.domain };
	struct client_conn *conn = NULL;
	struct client_conf conf = {
		.tls = job->hop.host == NULL ? job->ctx->mx_tls : job->ctx->tls,
		.policy = job->tls,
		.dane = job->tls == CLIENT_TLS_DANE ? &dane : NULL,
		.helo = job->ctx->conf->hostname,
		.host = job->tls == CLIENT_TLS_DANE ? job->dane.base : h->name,
		.addr = h->addr,
		.addr_len = h->addr_len,
		.user = job->hop.login,
		.password = job->hop.password,
		.mail_from = job->return_path.n > 0 ? buf_str(&job->return_path)
						    : job->mail_from,
		.rcpt = job->due_rcpt,
		.rcpt_count = job->due_count,
		.size = job->size + (int64_t)job->prefix.n,
		.is_8bit = job->is_8bit,
		.needs_utf8 = job->needs_utf8,
		.require_tls = job->params.require_tls,
		.ret = job->params.ret,
		.notify = job->due_notify,
		.envid = job->envid,
		.one_by_one = job->one_by_one,
	};

	/* A new transaction reads the body from its beginning. */
	job->pass = JOB_PASS_CHECK;
	job->phase = JOB_PREPARING;
	name_session(job->session, &conf, &job->hop);
	if (!job->fresh)
		conn = idle_take(job->ctx->idle, job->session);
	job->reuses = conn != NULL;
	job->client = client_start(job->ctx->loop, &conf, conn, &events, job);
}

void
job_next_address(struct job *job)
{
	if (job->stopping || job->stale) {
		job_return(job);
		return;
	}
	for (; job->host_at < job->host_count; job->host_at++) {
		switch (job_policy_host(job)) {
		case JOB_HOST_GO:
			talk(job);
			return;
		case JOB_HOST_WAIT:
			return;
		case JOB_HOST_SKIP:
			break;
		}
	}
	no_host(job);
}

static void
log_blocked(const struct job *job)
{
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", &job->lease.message);
	log_warn("deliver.blocked_address", KV("message", id),
	    KV("why", job->lease.domain));
}

/* As d.mx_canon() in the database, which looks at it once more at the dot. */
static bool
is_same_host(const char *a, const char *b)
{
	struct str x = str_of(a), y = str_of(b);

	while (x.n > 0 && x.p[x.n - 1] == '.')
		x.n--;
	while (y.n > 0 && y.p[y.n - 1] == '.')
		y.n--;
	return str_ieq(x, y);
}

/*
 * Only the host that may have the message already, and so may know it again,
 * where the inbox lets an unanswered dot be sent once more; or the one that a
 * rule names.
 */
static size_t
keep_hosts(struct job *job, const struct route_result *found)
{
	size_t i, n = 0;

	for (i = 0; i < found->n; i++) {
		if (job->same_mx[0] == '\0' ||
		    job->hop.host == job->hop.host_text ||
		    is_same_host(found->hosts[i].name, job->same_mx))
			job->hosts[n++] = found->hosts[i];
	}
	return n;
}

static void
on_route(void *arg, const struct route_result *found)
{
	struct job *job = arg;

	job->route = NULL;
	/* A host that an operator named and nobody knows is as good as dead. */
	if (job->hop.host != NULL && found->status != ROUTE_OK)
		job->outcome = DEST_UNREACHED;
	metrics_inc(M_ROUTES, route_status_name(found->status), NULL);
	if (found->blocked)
		log_blocked(job);
	switch (found->status) {
	case ROUTE_OK:
		job->host_count = keep_hosts(job, found);
		job->authentic = found->authentic;
		if (job->host_count > 0)
			job_policy(job);
		else
			job_finish_all(job, RELAY_DEFERRED, 0, "4.4.1",
			    "the host that may have the message is not found");
		return;
	case ROUTE_LATER:
		job_finish_all(job, RELAY_DEFERRED, 0, "4.4.3",
		    "the name servers did not answer");
		return;
	case ROUTE_NO_DOMAIN:
		job_finish_all(job,
		    job->hop.host != NULL ? RELAY_DEFERRED : RELAY_FAILED, 0,
		    "5.1.2", "no such domain");
		return;
	case ROUTE_NULL_MX:
		job_finish_all(job, RELAY_FAILED, 556, "5.1.10",
		    "the domain takes no mail");
		return;
	case ROUTE_BLOCKED:
		job_finish_all(job,
		    job->hop.host != NULL ? RELAY_DEFERRED : RELAY_FAILED, 0,
		    "5.4.4", "the domain cannot be reached from here");
		return;
	case ROUTE_SELF:
		job_finish_all(job, RELAY_FAILED, 0, "5.4.6",
		    "mail for the domain would come back here");
		return;
	case ROUTE_NO_SOCKET:
		job->is_ours = true;
		job_finish_all(job, RELAY_DEFERRED, 0, "4.3.0",
		    "no socket was left to look at the domain's hosts");
		return;
	}
}

void
job_route(struct job *job)
{
	if (job->test)
		job_capture(job);
	else if (job->hop.host != NULL)
		job->route = routes_host(job->ctx->routes, job->hop.host,
		    job->hop.port, !job->hop.is_ours, on_route, job);
	else
		job->route = routes_domain(job->ctx->routes, job->lease.domain,
		    job->ctx->conf->hostname, on_route, job);
}
