/* SPDX-License-Identifier: ISC */
/*
 * job.h - one leased message and domain, from fetch to result.
 *
 * fetch, verify the tag, open the relay box, read the body once to recompute
 * its tag and the digest, find a next hop, then relay while reading the body
 * again (kept in memory when small). Any mismatch returns the message to held
 * with an alarm. A lost database answer ends the attempt without the dot.
 */
#ifndef DELIVER_JOB_H
#define DELIVER_JOB_H

#include <stdbool.h>

#include "base/secret.h"
#include "store/relay.h"

struct conf;
struct job;
struct loop;
struct net_tls;
struct resolver;
struct seal_zstd;
struct sign_keys;
struct signer;

/* What all jobs of a process share; borrowed. */
struct job_context {
	struct loop *loop;
	const struct conf *conf;
	struct relay *relay;
	struct resolver *domains, *hosts; /* see enum resolver_kind */
	struct net_tls *tls;
	struct seal_zstd *zstd;
	struct signer *signer;
	struct sign_keys *keys;
	struct secret relay_key, approve_key, policy_key;
	char smarthost_password[1024];
	unsigned char relay_pub[32], deployment[16];
	char smarthost[256]; /* "" = by MX */
	unsigned short smarthost_port;
};

/* The lease is over; the job may be freed. Once, from the loop. */
typedef void job_end_fn(void *arg, struct job *job);

struct job *job_start(const struct job_context *ctx,
    const struct store_lease *lease, job_end_fn *end, void *arg);
/*
 * The worker stops. Before MAIL FROM the lease is given back now; a transaction
 * under way may still end by itself until job_yield().
 */
void job_stop(struct job *job);
/* Another smarthost or password: begin again, unless MAIL FROM was said. */
void job_reload(struct job *job);
/* Give back also what is in a transaction, unless the gate was asked. */
void job_yield(struct job *job);
/* What passed the gate and has no reply is uncertain now. */
void job_give_up(struct job *job);
/* Give up at once, whatever state it is in. NULL is fine. */
void job_free(struct job *job);
const struct store_lease *job_lease(const struct job *job);

#endif
