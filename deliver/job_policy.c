/* SPDX-License-Identifier: ISC */
/*
 * job_policy.c - how safe the way to a domain's hosts has to be.
 *
 * DANE (RFC 7672) where the host has TLSA records that can be believed, else
 * what the domain's MTA-STS policy (RFC 8461), an operator's rule or REQUIRETLS
 * (RFC 8689) demands, else TLS when it is offered. DANE stands above MTA-STS:
 * what it says of a host no policy overrides. Hosts that an operator named have
 * rules of their own.
 */
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/metrics.h"
#include "deliver/job_internal.h"
#include "deliver/sts.h"

static bool
is_sts(const struct job *job, enum sts_mode mode)
{
	return job->has_sts && job->sts_mode == mode;
}

/*
 * RFC 8689 4.2.1: who its hosts are must be certain. What is not known for now
 * may be tomorrow.
 */
static void
nothing_vouches(struct job *job, bool for_good)
{
	if (for_good)
		job_finish_all(job, RELAY_FAILED, 0, "5.7.10",
		    "REQUIRETLS: nothing vouches for the names of the "
		    "domain's hosts (DNSSEC or MTA-STS)");
	else
		job_finish_all(job, RELAY_DEFERRED, 0, "4.7.10",
		    "REQUIRETLS: the domain's MTA-STS policy, to vouch for "
		    "the names of its hosts, cannot be had now");
}

static void
on_sts(void *arg, const struct sts_policy *policy, bool none)
{
	struct job *job = arg;
	size_t i;

	job->sts = NULL;
	job->has_sts = policy != NULL && policy->mode != STS_MODE_NONE;
	if (job->has_sts)
		job->sts_mode = policy->mode;
	for (i = 0; job->has_sts && i < job->host_count; i++)
		job->sts_names[i] =
		    sts_policy_names(policy, job->hosts[i].name);
	if (job->params.require_tls && !job->authentic && !job->has_sts)
		nothing_vouches(job, none || policy != NULL);
	else
		job_next_address(job);
}

void
job_policy(struct job *job)
{
	job->has_sts = false;
	if (job->hop.host != NULL)
		job_next_address(job);
	else if (job->ctx->conf->deliver_mta_sts)
		job->sts =
		    sts_find(job->ctx->sts, job->lease.domain, on_sts, job);
	else
		on_sts(job, NULL, true);
}

static void
on_tlsa(void *arg, const struct tlsa_found *found)
{
	struct job *job = arg;

	job->tlsa = NULL;
	tlsa_copy(&job->dane, found);
	job_next_address(job);
}

/* Records of another host of the domain say nothing of this one. */
static bool
knows_dane(const struct job *job)
{
	return strcmp(job->dane_host, job->hosts[job->host_at].name) == 0;
}

static enum job_host
skip(struct job *job, const char *why)
{
	(void)snprintf(job->last_why, sizeof(job->last_why), "%.150s: %.100s",
	    job->hosts[job->host_at].name, why);
	job->policy_failed = true;
	metrics_inc(M_TLS_POLICY, "refused", NULL);
	return JOB_HOST_SKIP;
}

static enum job_host
use(struct job *job, enum client_tls tls, const char *by)
{
	job->tls = tls;
	job->tls_by = by;
	return JOB_HOST_GO;
}

/* To a host by MX, of which DANE has nothing to say. */
static enum job_host
without_dane(struct job *job)
{
	bool must = job->params.require_tls || job->hop.must_tls;
	bool named = !job->has_sts || job->sts_names[job->host_at];

	if ((is_sts(job, STS_MODE_ENFORCE) || job->params.require_tls) &&
	    !named)
		return skip(job, "not named by the domain's MTA-STS policy");
	if (is_sts(job, STS_MODE_ENFORCE))
		return use(job, CLIENT_TLS_MUST, "mta-sts");
	if (must)
		return use(job, CLIENT_TLS_MUST,
		    job->params.require_tls ? "requiretls" : "rule");
	if (job->dane.status == TLSA_UNUSABLE)
		return use(
		    job, CLIENT_TLS_ENCRYPT, "dane without a usable key");
	return use(job, job->no_tls ? CLIENT_TLS_NONE : CLIENT_TLS_MAY,
	    is_sts(job, STS_MODE_TESTING) ? "mta-sts testing" : "");
}

enum job_host
job_policy_host(struct job *job)
{
	const char *host = job->hosts[job->host_at].name;

	if (job->hop.host != NULL)
		return use(job,
		    job->hop.port == 465 ? CLIENT_TLS_WRAP : CLIENT_TLS_MUST,
		    "");
	if (!job->authentic) {
		job->dane.status = TLSA_NONE;
	} else if (!knows_dane(job)) {
		(void)snprintf(
		    job->dane_host, sizeof(job->dane_host), "%s", host);
		job->tlsa = tlsa_find(job->ctx->domains, host, on_tlsa, job);
		return JOB_HOST_WAIT;
	}
	switch (job->dane.status) {
	case TLSA_LATER:
		return skip(job, "its TLSA records could not be looked up");
	case TLSA_USABLE:
		return use(job, CLIENT_TLS_DANE, "dane");
	case TLSA_UNUSABLE:
	case TLSA_NONE:
		break;
	}
	return without_dane(job);
}

void
job_policy_tell(
    struct job *job, bool verified, const char *tls, char *text, size_t size)
{
	char id[UUID_ID_MAX], why[REPLY_TEXT_MAX];
	const char *host = job->hosts[job->host_at].name;

	(void)snprintf(text, size, "%s%s%s", tls,
	    tls[0] != '\0' && job->tls_by[0] != '\0' ? ", " : "", job->tls_by);
	metrics_inc(M_TLS_POLICY,
	    job->tls_by[0] == '\0' || is_sts(job, STS_MODE_TESTING)
		? (tls[0] == '\0' ? "clear" : "opportunistic")
		: "demanded",
	    NULL);
	if (job->hop.host != NULL || !is_sts(job, STS_MODE_TESTING) ||
	    job->tls != CLIENT_TLS_MAY ||
	    (verified && job->sts_names[job->host_at]))
		return;
	uuid_to_id(id, "msg_", &job->lease.message);
	(void)snprintf(why, sizeof(why), "%.200s: not as in its policy", host);
	log_warn("deliver.mta_sts", KV("message", id),
	    KV("code", sts_mode_name(job->sts_mode)), KV("why", why));
}

void
job_policy_failed(struct job *job)
{
	char why[REPLY_TEXT_MAX];

	if (job->tls == CLIENT_TLS_NONE || job->tls == CLIENT_TLS_MAY ||
	    job->tls_by[0] == '\0')
		return;
	(void)snprintf(why, sizeof(why), "%s", job->last_why);
	(void)snprintf(job->last_why, sizeof(job->last_why), "%.200s (%.40s)",
	    why, job->tls_by);
}

void
job_policy_cancel(struct job *job)
{
	sts_cancel(job->sts);
	job->sts = NULL;
	tlsa_cancel(job->tlsa);
	job->tlsa = NULL;
	job->dane_host[0] = '\0';
	tlsa_clear(&job->dane);
}
