/* SPDX-License-Identifier: ISC */
/*
 * sts.h - the MTA-STS policies of recipient domains (RFC 8461), kept for as
 * long as they say.
 *
 * What is known for certain is never replaced by what merely failed: a policy
 * whose record is gone, or whose host does not answer, holds until it is too
 * old. A domain is asked for by one lookup at a time, whoever waits.
 */
#ifndef DELIVER_STS_H
#define DELIVER_STS_H

#include "deliver/sts_policy.h"

struct conf;
struct loop;
struct resolver;
struct sts;
struct sts_wait;

#define STS_DOMAINS_MAX 20000 /* known at one time */
#define STS_LOOK_MS 300000 /* between two looks at the record of a domain */
#define STS_AGAIN_MS 300000 /* after a policy could not be had */
#define STS_RENEW_MS 86400000 /* older ones are asked for anew */
#define STS_FILE "mta-sts" /* in state_dir: what outlives the worker */
#define STS_GROWTH 33554432 /* octets that are added, before the same */
#define STS_SPARE                                                              \
	1000 /* lines of it that count no more, before it is rewritten */

/*
 * `domains` is borrowed, and resolves what the policy hosts are called. What an
 * earlier one left in `state_dir` is known from the start; "" or NULL: nothing
 * is kept.
 */
struct sts *sts_new(
    struct loop *loop, struct resolver *domains, const char *state_dir);
/* The authorities of deliver.ca_file; `conf` is borrowed. */
void sts_reload(struct sts *sts, const struct conf *conf);
/* Nobody is told any more. NULL is fine. */
void sts_free(struct sts *sts);

/*
 * `policy` is NULL when there is none to go by; gone after the call. `none`:
 * the domain has none, else it could not be asked for, or its host did not give
 * it.
 */
typedef void sts_fn(void *arg, const struct sts_policy *policy, bool none);

/* `done` comes once, later, unless cancelled. `domain`: A-labels. */
struct sts_wait *sts_find(
    struct sts *sts, const char *domain, sts_fn *done, void *arg);
/* NULL is fine. */
void sts_cancel(struct sts_wait *wait);

#endif
