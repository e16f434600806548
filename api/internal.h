/* SPDX-License-Identifier: ISC */
/*
 * internal.h - shared by the files of api/.
 */
#ifndef API_INTERNAL_H
#define API_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "api/api.h"
#include "base/err.h"
#include "base/codec.h"
#include "base/errors.h"
#include "base/queue.h"
#include "base/str.h"
#include "base/uuid.h"
#include "http/server.h"
#include "store/credential.h"

struct http_request;
struct store_event;
struct store_message;
struct store_op;
struct store_prov;
struct store_recipient;

/* x-principal of openapi.json; 0 = nobody. */
enum api_principal {
	API_KEY = 1, /* any live key */
	API_SEND, /* scope send or full */
	API_READ, /* scope read or full */
	API_FULL, /* scope full */
	API_PROV, /* a provisioning token, and no key */
	API_ANY, /* any live key, or a provisioning token */
};

#define API_BODY_SMALL 4096
#define API_BODY_JSON (1u << 20)
#define API_LIMIT_MAX 100
#define API_LIMIT_DEFAULT 20

struct api {
	struct loop *loop;
	struct store *store;
	struct api_setup setup;
	struct http_server *server;
	TAILQ_HEAD(api_watches, api_watch) watches; /* watch.c */
	TAILQ_HEAD(api_bodies, send_body) bodies; /* send_body.c */
};

/* Who calls; one of the two, as the route's principal says. */
struct api_who {
	struct store_cred *cred;
	struct store_prov *prov;
};

struct api *api_of(const struct http_request *req);
/* NULL: it is not a key of an inbox. */
const struct store_cred *api_cred(const struct http_request *req);
/* It is the caller's from now on, and longer than the request's. */
struct store_cred *api_take_cred(struct http_request *req);
/* NULL: it is not a provisioning token. */
const struct store_prov *api_prov(const struct http_request *req);
/* The key in Authorization, empty without one. */
struct str api_token(const struct http_request *req);

/* What is wrong with the input, found before anything is done. */
struct api_fault {
	enum err_code code; /* E_NONE: nothing */
	char field[64];
	char text[320];
};

/* The first fault stays. */
void api_fault_set(struct api_fault *fault, enum err_code code,
    const char *field, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* The same for a fault in the member `name`, which stands in its path. */
void api_fault_within(
    struct api_fault *fault, const char *name, const struct api_fault *inner);
/* [ends the request] */
void api_fault_reply(struct http_request *req, const struct api_fault *fault);

/* signin.c */
http_authorize_fn api_authorize;
/*
 * A key or a claim code did not work: counted against the client's address,
 * which in time makes the answer come late. [ends the request]
 */
void api_refuse_secret(struct http_request *req, enum err_code code);

/* unsubscribe.c: no live token; a page for people. [ends the request] */
void api_link_invalid(struct http_request *req);

/* The answer to a code of the store. [ends the request] */
void api_refuse(struct http_request *req, enum err_code code);

/* RateLimit and RateLimit-Policy of a window, before a reply; NULL: none. */
void api_rate_limit(struct http_request *req, const char *window, int64_t limit,
    int64_t left, unsigned reset);

/* The header Idempotency-Key; empty without one. */
struct str api_idem_key(
    const struct http_request *req, struct api_fault *fault);

/*
 * {message_id} of the path. False: answered with 404, as are ids of others.
 */
bool api_message_id(struct http_request *req, struct uuid *id);

/* One store call on behalf of a request; ends with it or with its client. */
struct api_call {
	struct http_request *req;
	struct store_op *op;
	json_t *doc; /* the answer as far as it is known */
	struct uuid id;
	int number;
};

struct api_call *api_call_new(struct http_request *req);
/* The answer is here: frees the call, returns its request. */
struct http_request *api_call_end(struct api_call *call);

/* json.c */

/* NULL and `fault` unless it is one JSON object, at most 32 deep. */
json_t *api_json_object(const char *p, size_t n, struct api_fault *fault);
/* The same, of an object or an array. */
json_t *api_json_any(const char *p, size_t n, struct api_fault *fault);
/* All members are among `names` (NULL at the end). */
void api_json_known(
    json_t *root, const char *const *names, struct api_fault *fault);
/* Members by type; absent or null is empty, 0 or false. Borrowed from root. */
struct str api_json_str(
    json_t *root, const char *name, size_t max, struct api_fault *fault);
bool api_json_bool(json_t *root, const char *name, struct api_fault *fault);
json_t *api_json_array(
    json_t *root, const char *name, size_t max, struct api_fault *fault);
/* RFC 3339 to microseconds since 1970. */
bool api_time_parse(struct str s, int64_t *us);
json_t *api_json_time(int64_t us); /* null for 0 */
json_t *api_json_text(const char *s); /* null for "" */
json_t *api_json_strn(const char *p, size_t n); /* always valid UTF-8 */
json_t *api_json_lines(const char *s, char sep); /* array */

/* render.c */
json_t *api_render_message(
    const struct store_message *m, const struct store_cred *cred);
json_t *api_render_hold(int state, const char *reasons, int64_t until);
void api_render_digest(char out[72], const unsigned char digest[32]);
/* What a send answers, of a message that is there already. */
json_t *api_render_submitted(const struct store_message *m);
json_t *api_render_recipient(const struct store_recipient *r);
json_t *api_render_event(
    const struct uuid *message, const struct store_event *e);

/* raw.c: the message's bytes, behind `front`; of another inbox with its grant,
 * else 0. [ends the request] */
void api_raw_send(struct http_request *req, const struct uuid *id,
    int64_t grant, struct str front);

/* keys.c: words for them */
const char *api_kind_name(char kind);
const char *api_scope_name(char scope);
json_t *api_key_id(int64_t key);

/* account.c: what the key's sign-in knows of its inbox. */
json_t *api_render_inbox(const struct store_cred *cred);

/* messages.c: a time of the query; left as it is without one. */
void api_time_query(const struct http_request *req, const char *name,
    int64_t *us, struct api_fault *fault);

/* v0.c */
http_dress_fn api_v0_dress;

/* watch.c: end all waits and streams, as the server is about to. */
void api_watches_end(struct api *api);

/* page.c */
#define API_PAGE_TOKEN_MAX 64
/* Names the place behind `last` in the list with these filters. */
void api_page_token(char out[API_PAGE_TOKEN_MAX], const struct store_cred *cred,
    struct str filters, const struct uuid *last);
bool api_page_parse(struct uuid *last, const struct store_cred *cred,
    struct str filters, struct str token);
/* `limit` and `page_token` of the query. */
struct api_page {
	int limit;
	struct uuid after; /* all zero: from the newest */
};
/*
 * `filters`: what the page token is bound to. `takes`: the names of the
 * filters of this list, with spaces between; others are refused.
 */
void api_page_query(struct api_page *page, const struct http_request *req,
    struct str filters, const char *takes, struct api_fault *fault);
/*
 * [ends the request] {count, limit, next_page_token, `name`: list}; takes
 * over `list`. `last` is its last id, NULL when it is empty.
 */
void api_page_reply(struct http_request *req, const char *name, json_t *list,
    int limit, struct str filters, const struct uuid *last);

/* A number as a place in pages. */
void api_place_of(struct uuid *place, int64_t id);
int64_t api_place_id(const struct uuid *place);

/* provision.c: routes that a key and a provisioning token may call. */
void api_prov_me(struct http_request *req);
void api_prov_list(struct http_request *req);

/* guide.c */
extern const char api_guide[];

#include "api/routes.h"

#endif
