/* SPDX-License-Identifier: ISC */
/*
 * relay.h - what the delivery worker asks of the database.
 *
 * A claimed piece of work is one message and one recipient domain under a
 * lease; every call names the lease and is refused (RELAY_REFUSED,
 * state_conflict) once it is dead or another's. Callbacks run once, later,
 * never from inside the call; relay_cancel() means "do not call me".
 */
#ifndef STORE_RELAY_H
#define STORE_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "base/uuid.h"

struct conf;
struct loop;
struct relay_op; /* a call that has not been answered */
struct relay;

#define RELAY_DOMAIN_MAX 255
#define RELAY_WORDS 64
#define RELAY_WAY_MAX 24

struct store_lease {
	int64_t tenant;
	struct uuid message;
	char domain[RELAY_DOMAIN_MAX + 1];
	struct uuid lease;
	int attempts; /* made before this lease */
	bool test; /* mail of a test inbox: captured, never sent */
	/* By a rule's host: "#" and its number; "-": a rule refuses it. */
	char way[RELAY_WAY_MAX];
};

enum relay_status {
	RELAY_DONE,
	RELAY_REFUSED, /* the database said no: `why` has its words */
	RELAY_LOST, /* no answer; a write may have happened */
};

/* What a lease lets us read of its message. Text is valid during the call. */
struct relay_message {
	struct str deployment;
	uint32_t epoch;
	int64_t tenant, inbox;
	uint16_t version;
	uint32_t round;
	bool test, by_policy;
	struct str digest, body_tag, relay_box, tag;
	struct str mail_from, rcpts, params, due_ix;
	struct str same_mx; /* "IX HOST" a line: it may have it (0102) */
	int64_t size;
	int chunks, attempts;
	int64_t send_at, not_after, expiry, now_us; /* us since 1970 */
	int mode, mode_epoch; /* of a release by policy */
	bool routed; /* ask relay_routes() */
	int64_t released_us; /* when it was approved */
	bool one_click; /* ask relay_one_click() */
	struct str proofs; /* of approvals by passkey, each behind its length */
	struct str body; /* its only chunk; p NULL: ask relay_body() */
	bool passed; /* relay_attempt() of all in due_ix would go, just now */
	uint64_t came_ms; /* when all this came (clock_mono_ms()) */
};

/* Per recipient (1.. as in the digest): how the attempt ended. */
enum relay_result {
	RELAY_DELIVERED = 3,
	RELAY_DEFERRED = 4,
	RELAY_FAILED = 5,
	RELAY_UNCERTAIN = 6,
};

struct relay_rcpt {
	int ix;
	enum relay_result result;
	int code; /* 0 when no reply came */
	char enhanced[16];
	char text[256]; /* printable ASCII */
	bool is_own; /* it speaks of this address: may suppress it */
};

/* Told to the sender's inbox, with the results (RFC 3464). */
struct relay_report {
	const char *kind; /* "f" failed, "d" delayed, "s" relayed */
	struct str ix; /* of its recipients: "1,2" */
	struct str box; /* sealed to the inbox's key */
};

#define RELAY_REPORTS_MAX 3

struct relay_reports {
	struct relay_report v[RELAY_REPORTS_MAX];
	size_t n;
	int epoch; /* of the inbox's key */
};

/* A key that signs for the sender's domain. Text is valid during the call. */
struct relay_dkim {
	bool is_ed25519;
	struct str domain, selector, sealed;
};

enum relay_route_action {
	RELAY_ROUTE_SUSPEND,
	RELAY_ROUTE_BOUNCE,
	RELAY_ROUTE_VIA,
	RELAY_ROUTE_TLS,
};

/* An operator's rule that fits. Text is valid during the call. */
struct relay_route {
	enum relay_route_action action;
	int64_t id;
	int64_t tenant, inbox; /* whose rule; 0 = of all */
	struct str domain, host, login, sealed;
	int port;
};

struct relay_stats {
	int due, uncertain, held;
	int64_t oldest_held_us; /* 0 = none */
};

/* `more`: another claim may find some at once. */
typedef void relay_claim_fn(void *arg, enum relay_status st,
    const struct store_lease *v, size_t n, bool more);
typedef void relay_fetch_fn(void *arg, enum relay_status st, const char *why,
    const struct relay_message *m);
/*
 * One call a chunk, in order; then once with seq -1 and chunk.p NULL. Only
 * that last call may free what `arg` points to.
 */
typedef void relay_body_fn(
    void *arg, enum relay_status st, int seq, struct str chunk);
/* `why` is the code or reason; "" for RELAY_DONE. */
typedef void relay_done_fn(void *arg, enum relay_status st, const char *why);
typedef void relay_dkim_fn(void *arg, enum relay_status st, const char *why,
    const struct relay_dkim *v, size_t n);
typedef void relay_route_fn(void *arg, enum relay_status st, const char *why,
    const struct relay_route *v, size_t n);
/* `pub`: 32 bytes of the inbox's key, else empty. */
typedef void relay_key_fn(void *arg, enum relay_status st, const char *why,
    struct str pub, int epoch, bool delay_told);
/* `token`: 34 bytes for the link of this recipient; empty: it gets none. */
typedef void relay_one_click_fn(
    void *arg, enum relay_status st, const char *why, struct str token);
typedef void relay_stats_fn(
    void *arg, enum relay_status st, const struct relay_stats *stats);

/* Connects in the background with the login l_worker. */
struct relay *relay_new(struct loop *loop, const struct conf *conf);
/* Open calls are dropped. NULL is fine. */
void relay_free(struct relay *r);
bool relay_ready(const struct relay *r);
/* Never call back; what was sent may still run. NULL is fine. */
void relay_cancel(struct relay_op *op);

/*
 * At most `limit`, and none that would go one of the `n` ways in `skip`: a
 * rule's, a domain's by MX, or "*", first, for all that a smarthost gets.
 */
struct relay_op *relay_claim(struct relay *r, const char *worker, int limit,
    int lease_s, const char *const *skip, size_t n, relay_claim_fn *done,
    void *arg);
struct relay_op *relay_fetch(struct relay *r, const struct store_lease *l,
    relay_fetch_fn *done, void *arg);
/*
 * None: the domain has no keys. REFUSED with "store_unavailable": it has, and
 * none of them may be used.
 */
struct relay_op *relay_dkim_keys(struct relay *r, const struct store_lease *l,
    relay_dkim_fn *done, void *arg);
/* At most one rule that says which way, and one that demands TLS. */
struct relay_op *relay_routes(struct relay *r, const struct store_lease *l,
    relay_route_fn *done, void *arg);
/* The smarthost is another: what was put off is due now. */
struct relay_op *relay_ways_changed(
    struct relay *r, relay_done_fn *done, void *arg);
struct relay_op *relay_one_click(struct relay *r, const struct store_lease *l,
    int ix, relay_one_click_fn *done, void *arg);
/* At most `limit` chunks from `from`. */
struct relay_op *relay_body(struct relay *r, const struct store_lease *l,
    int from, int limit, relay_body_fn *done, void *arg);
/* Keep leases alive; `done` gets RELAY_REFUSED when any of them is dead. */
struct relay_op *relay_beat(struct relay *r, const struct store_lease *const *v,
    size_t n, int lease_s, relay_done_fn *done, void *arg);
/* Committed before MAIL FROM: these recipients are being sent. REFUSED = not
 * now; what the reasons mean is the same as at the dot. */
struct relay_op *relay_attempt(struct relay *r, const struct store_lease *l,
    const char *mx, const char *tls, const int *ix, size_t n,
    relay_done_fn *done, void *arg);
/* The last gate, committed before the final dot. REFUSED = no dot. `inbox` as
 * fetched; `mx` and `tls` are told now if relay_attempt() was not called. */
struct relay_op *relay_dot(struct relay *r, const struct store_lease *l,
    int64_t inbox, const char *mx, const char *tls, const int *ix, size_t n,
    relay_done_fn *done, void *arg);
/* Instead of all of these, for a test inbox: what would have left. REFUSED as
 * of relay_dot(). `sealed`: the fields in front, to the inbox's key. */
struct relay_op *relay_capture(struct relay *r, const struct store_lease *l,
    const int *ix, size_t n, struct str mail_from, int key_epoch,
    struct str sealed, relay_done_fn *done, void *arg);
/* `reports` may be NULL; `mx` and `tls` as of relay_dot(). */
struct relay_op *relay_finish(struct relay *r, const struct store_lease *l,
    const char *mx, const char *tls, const struct relay_rcpt *v, size_t n,
    int retry_s, const struct relay_reports *reports, relay_done_fn *done,
    void *arg);
/* What a report is sealed to. */
struct relay_op *relay_report_key(struct relay *r, const struct store_lease *l,
    relay_key_fn *done, void *arg);
/* Nothing was tried: give the lease back, due again in `retry_s`. */
struct relay_op *relay_release(struct relay *r, const struct store_lease *l,
    int retry_s, relay_done_fn *done, void *arg);
/* What is stored is not what was approved: back to held, with an alarm. */
struct relay_op *relay_integrity(struct relay *r, const struct store_lease *l,
    const char *why, relay_done_fn *done, void *arg);
/* Expiry, tightened modes, dead leases; `why` is "more" if more is left. */
struct relay_op *relay_sweep(
    struct relay *r, int limit, relay_done_fn *done, void *arg);
struct relay_op *relay_stats(struct relay *r, relay_stats_fn *done, void *arg);

#endif
