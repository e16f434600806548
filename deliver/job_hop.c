/* SPDX-License-Identifier: ISC */
/*
 * job_hop.c - which way a message goes: what operators ruled for its inbox,
 * tenant or domain, else the smarthost of the configuration, else by MX.
 */
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "deliver/job_internal.h"
#include "seal/stored.h"

#define SUSPENDED_RETRY_S 60 /* by then nobody claims it any more */

static void
use_conf(struct job *job)
{
	const struct job_context *ctx = job->ctx;

	if (ctx->smarthost[0] == '\0')
		return;
	job->hop.host = ctx->smarthost;
	job->hop.port = ctx->smarthost_port;
	job->hop.is_ours = true;
	if (ctx->conf->deliver_smarthost_user[0] != '\0') {
		job->hop.login = str_of(ctx->conf->deliver_smarthost_user);
		job->hop.password = str_of(ctx->smarthost_password);
	}
}

static bool
use_route(struct job *job, const struct relay_route *r)
{
	struct job_hop *hop = &job->hop;
	struct buf what = { 0 };
	bool ok = true;

	(void)snprintf(hop->host_text, sizeof(hop->host_text), "%.*s",
	    (int)r->host.n, r->host.p);
	hop->host = hop->host_text;
	hop->port = (unsigned short)r->port;
	hop->is_ours = r->tenant == 0;
	hop->tenant = r->tenant;
	hop->inbox = r->inbox;
	if (r->login.n == 0)
		return true;
	(void)snprintf(hop->login_text, sizeof(hop->login_text), "%.*s",
	    (int)r->login.n, r->login.p);
	hop->login = str_of(hop->login_text);
	seal_stored_route(&what, (uint64_t)r->tenant, (uint64_t)r->inbox,
	    r->domain, r->host, (uint16_t)r->port, r->login);
	ok = seal_stored_open(&hop->secret, r->sealed, job->ctx->relay_pub,
	    &job->ctx->relay_key, buf_str(&what));
	buf_free(&what);
	hop->password = buf_str(&hop->secret);
	return ok;
}

/*
 * Is it the way it was claimed for? Another has places of its own, and may be
 * closed: it is claimed anew for that.
 */
static void
go(struct job *job, const char *way)
{
	if (strcmp(way, job->lease.way) == 0)
		job_sign(job);
	else
		job_release(job, 0);
}

static void
on_route(void *arg, enum relay_status st, const char *why,
    const struct relay_route *v, size_t n)
{
	struct job *job = arg;
	char way[RELAY_WAY_MAX] = "";
	size_t i;

	job->op = NULL;
	if (st != RELAY_DONE) {
		log_warn("deliver.result", KV("why", why));
		job_release(job, JOB_LOST_RETRY_S);
		return;
	}
	use_conf(job);
	for (i = 0; i < n; i++) {
		switch (v[i].action) {
		case RELAY_ROUTE_TLS:
			job->hop.must_tls = true;
			break;
		case RELAY_ROUTE_SUSPEND:
			job_release(job, SUSPENDED_RETRY_S);
			return;
		case RELAY_ROUTE_BOUNCE:
			job_finish_all(job, RELAY_FAILED, 0, "5.7.1",
			    "the operator's rule refuses this domain");
			return;
		case RELAY_ROUTE_VIA:
			(void)snprintf(
			    way, sizeof(way), "#%lld", (long long)v[i].id);
			job->hop.login = (struct str){ NULL, 0 };
			if (use_route(job, &v[i]))
				break;
			job_finish_all(job, RELAY_DEFERRED, 0, "4.3.5",
			    "the password of the route does not open");
			return;
		}
	}
	go(job, way);
}

void
job_hop_choose(struct job *job)
{
	if (job->routed) {
		job->op =
		    relay_routes(job->ctx->relay, &job->lease, on_route, job);
		return;
	}
	use_conf(job);
	go(job, "");
}
