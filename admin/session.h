/* SPDX-License-Identifier: ISC */
/*
 * session.h - who a request is from, and whether our own page sent it
 */
#ifndef ADMIN_SESSION_H
#define ADMIN_SESSION_H

#include <stdbool.h>

#include "admin/press.h"
#include "base/arena.h"
#include "store/operator.h"

struct admin;
struct buf;
struct http_request;

#define SESSION_COOKIE "__Host-sid"
#define SESSION_ONLY "__Host-tenant" /* shown alone, see page_only.c */
#define SESSION_CSRF 27 /* with the NUL */

/* http_request_who() of every signed-in request. */
struct admin_who {
	struct admin *admin;
	struct store_operator op;
	struct operator_session session;
	struct arena mem;
	char csrf[SESSION_CSRF];
	bool only_gone; /* session_only() says 0, whatever was sent */
	struct press_wait press;
};

/*
 * Sent by one of our own pages? Judged by Sec-Fetch-Site and Origin, after
 * routing, for every unsafe method; at least one of them must be there.
 */
bool session_same_origin(const struct admin *admin, struct http_request *req);

/* The form's token is this session's. */
bool session_token_ok(struct http_request *req);
bool session_token_of(const struct admin_who *who, struct http_request *req);

/* Only what the cookie says: whose session it is, the database has to say. */
bool session_from_cookie(struct http_request *req, struct admin_who *who);

/*
 * The secret that a session goes on under when it may do more (decision
 * 0099), and the hash by which the database takes it: made, and noted, right
 * before it is asked for. The database has it with the step-up or not at all;
 * then session_turned() makes this request, the browser, and the session's
 * streams and jobs of this process go on with it, or session_refused() tells
 * whoever was not the first, and runs `refused` for everybody else.
 */
struct session_next {
	struct secret secret;
	unsigned char sha256[32];
};
void session_next(struct http_request *req, const struct admin_who *who,
    struct session_next *next);
void session_turned(
    struct http_request *req, struct admin_who *who, struct session_next *next);

void session_refused(struct http_request *req, struct admin_who *who,
    void (*refused)(void *arg), void *arg);
/* The same of a form that was not let in, its session being no more. */
void session_gone(struct http_request *req, struct admin_who *who,
    void (*refused)(void *arg), void *arg);

/* Begin, and end, a session in the browser. */
void session_set_cookie(struct http_request *req, const struct secret *s);
void session_drop_cookie(struct http_request *req);

/* The tenant whose mail alone is shown; 0: all, or nothing usable was sent. */
int64_t session_only(struct http_request *req);
void session_set_only(struct http_request *req, int64_t tenant);
/* What was sent names nothing of this person's: it counts as none, and goes. */
void session_drop_only(struct http_request *req);

/* "?return_to=" and where to return to after a sign-in, unless that is "/q". */
void session_put_return(struct buf *out, const char *to);
/* Local path to return to after sign-in; "/q" unless it is one of ours. */
const char *session_return_to(const char *path);

/* Has the role (lines "tenant:inbox:role") anywhere; "*:*:role": everywhere. */
bool session_has_role(const struct admin_who *who, const char *role);

#endif
