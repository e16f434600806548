/* SPDX-License-Identifier: ISC */
/* job_internal.h - what job.c (order), job_check.c and job_relay.c share. */
#ifndef DELIVER_JOB_INTERNAL_H
#define DELIVER_JOB_INTERNAL_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/loop.h"
#include "deliver/client.h"
#include "deliver/idle.h"
#include "deliver/job.h"
#include "deliver/routes.h"
#include "deliver/sign.h"
#include "deliver/sts_policy.h"
#include "deliver/tlsa.h"
#include "mail/digest.h"
#include "mail/identity.h"
#include "seal/body.h"
#include "seal/release.h"

#define JOB_RCPT_MAX 1000
#define JOB_KEEP_BYTES 1048576 /* larger bodies are read twice */
#define JOB_CHUNKS 2 /* a read ahead */
#define JOB_PASSED_MS 50 /* the gate's yes at the fetch counts for so long */
#define JOB_LOST_RETRY_S 5 /* after the database failed to answer */

/* How far a job is; what a stop may still do depends on it. */
enum job_phase {
	JOB_PREPARING, /* nothing was said for the message */
	JOB_MARKING, /* attempt_1 runs; MAIL FROM follows */
	JOB_TALKING, /* MAIL FROM or later, the gate was not asked */
	JOB_GATED, /* dot_1 was asked; the dot may have left */
	JOB_ENDING, /* its result, or the lease, is on its way back */
};

/* May the host that a job is at be connected to? */
enum job_host {
	JOB_HOST_GO, /* as job->tls says */
	JOB_HOST_WAIT, /* job_next_address() comes again */
	JOB_HOST_SKIP, /* not with the policy there is */
};

/* What a no-go means for the lease. */
enum job_no_go {
	JOB_LEASE_OVER, /* the gate ended it */
	JOB_LEASE_KEPT, /* fetch again: other recipients may be due */
	JOB_OTHER_HOST, /* it may be at another one already */
	JOB_NO_ANSWER, /* it may have said go; no dot left */
};

/* Why the body is read; one after the other. */
enum job_pass {
	JOB_PASS_CHECK,
	JOB_PASS_SIGN, /* of a body too large to be kept */
	JOB_PASS_RELAY,
};

/* The way a message goes; host NULL: by MX. Texts are borrowed. */
struct job_hop {
	const char *host;
	unsigned short port;
	int64_t tenant, inbox; /* whose rule named it; 0: of all */
	bool is_ours; /* named by who runs all of this: may be private */
	bool must_tls; /* and verified */
	struct str login, password; /* login.n 0: no AUTH */
	char host_text[256], login_text[256];
	struct buf secret;
};

struct job {
	const struct job_context *ctx;
	struct store_lease lease;
	job_end_fn *left, *end;
	void *arg;
	struct relay_op *op;
	struct routes_asker *route;
	struct client *client;
	enum job_phase phase;
	enum job_no_go no_go;
	const char *place; /* NULL: it needs none, or waits for one */
	bool slow; /* it left its place to others */
	struct job_turn turn;
	bool preparing, prepared;
	bool stopping, stale, over;
	enum dest_outcome outcome;
	bool is_ours; /* it was our side that broke off */
	bool attempted; /* the gate was asked for this transaction */
	size_t passed; /* recipients, at the fetch, until that was used */
	bool reuses; /* the session was there already */
	char mx[256], tls_text[128]; /* the host it is at, and how safe */
	char same_mx[256]; /* "" = any; may have it already (0102) */
	struct relay_rcpt *rows; /* the results, until they are stored */
	size_t row_count;
	int retry_s;
	struct loop_timer *again; /* to store them once more */
	uint64_t store_until_ms;
	bool told; /* what the sender hears is made */
	int key_tries;
	struct relay_reports reports;
	struct buf report_ix[RELAY_REPORTS_MAX], report_box[RELAY_REPORTS_MAX];
	uint64_t gate_ms; /* when the last gate was asked */
	bool passes_dsn; /* the next hop goes on reporting */
	char remote[256]; /* who answered; "" = nobody */

	/* Of the message; text lives in `text`. */
	struct buf text;
	struct str mail_from;
	struct buf return_path; /* on the wire; empty: mail_from */
	struct str *rcpt; /* all, in digest order */
	size_t rcpt_count;
	int *due; /* numbers, 1.. */
	struct str *due_rcpt;
	unsigned char *due_notify; /* ENVELOPE_... */
	size_t due_count;
	int64_t size;
	int chunks, next_chunk, attempts;
	int64_t released_us, fetched_us; /* by the database's clock */
	uint64_t fetched_ms;
	int read_from; /* an answer without rows is a body cut short */
	struct seal_id id;
	struct secret key; /* the message key */
	unsigned char want_tag[32];
	bool is_8bit;
	struct envelope_params params;
	bool utf8_content; /* a header has bytes above 127: all need SMTPUTF8 */
	bool needs_utf8; /* those due now do */
	char envid[UUID_ID_MAX]; /* ours */

	/* Reading the body. */
	struct seal_open *open;
	struct body_tag *tag;
	struct structure *structure; /* NULL: nothing is asked of it */
	enum job_pass pass;
	bool read_failed;
	struct sign *sign; /* of the pass that signs */
	struct job_hop hop;
	bool routed; /* there are rules that may fit */
	bool test; /* captured, never sent */
	struct buf prefix; /* fields before the frozen bytes */
	struct buf kept;
	bool is_kept;
	struct identity_scan *scan;
	unsigned char body_hash[32];
	struct str head; /* the header section; borrowed from `scan` */
	bool one_click; /* each recipient gets a link of its own */
	bool is_list; /* it has such a link, ours or the sender's */
	struct buf links; /* our fields of that, signed */
	struct buf identity; /* the field, signed */
	bool by_policy;
	unsigned round;
	int groups; /* of recipients, each to go by itself; 0: one */

	struct route_host hosts[ROUTE_HOSTS_MAX];
	size_t host_count, host_at;
	bool one_by_one; /* its replies to a group were no use */
	bool fresh; /* no kept session: the one before was over */
	bool dropped; /* a host broke off in the midst of this message */
	char session[IDLE_KEY_MAX];
	bool no_tls; /* the handshake failed here: once more without */

	/* How safe the way has to be: job_policy.c. */
	bool authentic; /* the domain's MX, by DNSSEC */
	struct sts_wait *sts;
	bool has_sts; /* a policy that asks for something */
	enum sts_mode sts_mode;
	bool sts_names[ROUTE_HOSTS_MAX]; /* the policy does */
	struct tlsa *tlsa;
	struct tlsa_found dane; /* of dane_host; "" = of none yet */
	char dane_host[ROUTE_NAME_MAX + 1];
	enum client_tls tls; /* at the host it is at, and why */
	const char *tls_by;
	bool policy_failed; /* a host was left out for it */
	char last_why[REPLY_TEXT_MAX];
	int64_t began_ms;
};

/* job.c */
void job_over(struct job *job);
void job_release(struct job *job, int retry_s);
void job_finish_all(struct job *job, enum relay_result result, int code,
    const char *enhanced, const char *why);
/* Store a result for each of `n` recipients; takes `v` (malloc). */
void job_finish(struct job *job, struct relay_rcpt *v, size_t n);
/* Drop what is going on, and give the lease back as if it had not begun. */
void job_return(struct job *job);
/* Called by the reader: the whole body was read (verify or relay pass). */
void job_body_verified(struct job *job);

/* Store the results, and what the sender hears of them. */
void job_store(void *job);

/* job_report.c */
/* What would be due again after the time is over has failed. */
void job_give_up_late(struct job *job);
bool job_report_wanted(const struct job *job);
/* Make the reports, then job_store(). */
void job_report(struct job *job);
void job_report_free(struct job *job);

/* job_check.c */
void job_integrity(struct job *job, const char *why);
void job_fetch(struct job *job);
/* Read `JOB_CHUNKS` more chunks of the current pass. */
void job_read(struct job *job);
void job_rewind(struct job *job, enum job_pass pass);

/* job_one_click.c: the fields of its link, if it gets one; then job_linked().
 */
void job_one_click(struct job *job);
/* job_check.c: go on with what follows. */
void job_linked(struct job *job);

/* job_split.c */
/* Before the pass that checks: what it has to look for. */
void job_split_begin(struct job *job);
void job_split_add(struct job *job, const void *p, size_t n);
/* After it: keep of those due who goes in one transaction. */
void job_split(struct job *job);

/* job_identity.c: the field that says who looked at it, if there is a key. */
void job_identify(struct job *job);

/* job_hop.c: choose the way, then go on with job_sign(). */
void job_hop_choose(struct job *job);

/* job.c: what is to be sent is ready. */
void job_prepared(struct job *job);

/* job_sign.c: the body is what was approved; sign it, then find a next hop. */
void job_sign(struct job *job);
/* The pass that signs is over. */
void job_signed(struct job *job);

/* job_policy.c */
/* The hosts are known: find what is demanded of them, then go to the first. */
void job_policy(struct job *job);
enum job_host job_policy_host(struct job *job);
/* A session is there: `text` is `tls` with what asked for it. */
void job_policy_tell(
    struct job *job, bool verified, const char *tls, char *text, size_t size);
/* The host could not be used as demanded: the reason says by what. */
void job_policy_failed(struct job *job);
void job_policy_cancel(struct job *job);

/* job_capture.c: mail of a test inbox is stored as what would have left. */
void job_capture(struct job *job);

/* job_relay.c */
void job_route(struct job *job);
/* Try the host that job->host_at says, or the next that may be tried. */
void job_next_address(struct job *job);
/* attempt_1 said no: nothing is said for the message now. */
void job_no_go(struct job *job, const char *why);
/* The relay pass got bytes, or all of them. */
void job_relay_bytes(struct job *job, const char *p, size_t n);
void job_relay_read(struct job *job, bool all);

#endif
