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
#include <stdint.h>

#include "base/secret.h"
#include "deliver/dest.h"
#include "store/relay.h"

struct conf;
struct idle;
struct job;
struct loop;
struct net_tls;
struct resolver;
struct routes;
struct seal_zstd;
struct sign_keys;
struct signer;
struct sts;

/* What all jobs of a process share; borrowed. */
struct job_context {
	struct loop *loop;
	const struct conf *conf;
	struct relay *relay;
	struct resolver *domains, *hosts; /* see enum resolver_kind */
	struct routes *routes; /* what they said */
	struct net_tls *tls, *mx_tls; /* of the smarthost, and of all others */
	struct sts *sts;
	struct seal_zstd *zstd;
	struct signer *signer;
	struct sign_keys *keys;
	struct idle *idle;
	struct secret relay_key, approve_key, policy_key;
	struct secret identity_key; /* n 0: mail carries no identity */
	struct secret bounce_key; /* n 0: return paths are not signed */
	char smarthost_password[1024];
	unsigned char relay_pub[32], deployment[16];
	unsigned char auth_pub[32]; /* of postern-auth, for passkeys */
	bool has_auth_pub;
	char smarthost[256]; /* "" = by MX */
	unsigned short smarthost_port;
	bool other_smarthost; /* than before the last reload, or login */
};

/* Whose turn it is, by turn.h: lower is sooner. */
struct job_turn {
	uint64_t all; /* for a place */
	uint64_t way; /* among those that go the same way */
};

typedef void job_end_fn(void *arg, struct job *job);

/*
 * A job that waits: its lease is ours, nothing is asked for yet. `left`: it has
 * had the host's answer and needs its place no more; job_outcome() is known.
 * `end`: the lease is over, the job may be freed. Each at most once, from the
 * loop; `end` may come without `left`.
 */
struct job *job_new(const struct job_context *ctx,
    const struct store_lease *lease, job_end_fn *left, job_end_fn *end,
    void *arg);
/* Read, check and sign now what will be sent once there is a place. */
void job_prepare(struct job *job);
/* It was prepared too long ago: begin anew, with a new job. */
bool job_is_old(const struct job *job);
/* `place` is what dest_begin() was told; it stays good as long as the lease. */
void job_go(struct job *job, const char *place);
/* NULL: it has none. */
const char *job_place(const struct job *job);
/*
 * Those of `n` jobs that have their place for long leave it to others, or end
 * where others wait and there is no other place: dest_slow().
 */
void jobs_make_place(struct job *const *jobs, size_t n, struct dests *dests);
bool job_is_slow(const struct job *job);
/* Its place is another's now. */
void job_leave(struct job *job);
bool job_is_waiting(const struct job *job);
/* Or being prepared. */
bool job_is_prepared(const struct job *job);
/* Give the lease of a job that waits back; due again in `retry_s`. */
void job_refuse(struct job *job, int retry_s);
/* What it says of its destination; when it is over. */
enum dest_outcome job_outcome(const struct job *job);
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
/* Of the line's; it does nothing with it. */
struct job_turn *job_turn(struct job *job);
/* The way it goes, as dest.h names it; good as long as the lease. */
const char *job_way(const struct job *job);

#endif
