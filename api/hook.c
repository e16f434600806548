/* SPDX-License-Identifier: ISC */
/*
 * hook.c - E2B's reports of what became of a sandbox.
 *
 * E2B signs with base64(SHA-256(secret | body)) without padding, in the header
 * e2b-signature. Whoever sees a report could sign one that goes on behind it;
 * what stands behind a JSON document is refused, so that is no document. A
 * report is heard once, and not when it is old; it ends only sessions that
 * are older than it.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "api/internal.h"
#include "base/clock.h"
#include "base/secret.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "store/session.h"

#define SIGNATURE_LEN 43
#define AGE_MAX_US ((int64_t)3600 * 1000000)
#define AHEAD_MAX_US ((int64_t)300 * 1000000)
#define ID_MAX 200
#define BODY_MAX 65536

struct hook {
	struct http_request *req;
	struct store_session_op *op;
};

static void
digest(unsigned char out[32], const void *a, size_t an, const void *b, size_t n)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();

	BUG_ON(md == NULL || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1 ||
	       EVP_DigestUpdate(md, a, an) != 1 ||
	       EVP_DigestUpdate(md, b, n) != 1 ||
	       EVP_DigestFinal_ex(md, out, NULL) != 1);
	EVP_MD_CTX_free(md);
}

static bool
is_signed(const struct http_request *req, const struct secret *secret)
{
	const char *given = http_request_header(req, "e2b-signature"), *body;
	unsigned char hash[32];
	char want[BASE64_LEN(32) + 1];
	size_t n;

	if (given == NULL || strlen(given) != SIGNATURE_LEN)
		return false;
	body = http_request_body(req, &n);
	digest(hash, secret->b, secret->n, body, n);
	base64_encode(want, hash, sizeof(hash));
	return CRYPTO_memcmp(given, want, SIGNATURE_LEN) == 0;
}

static void
on_gone(void *arg)
{
	struct hook *h = arg;

	store_session_cancel(h->op);
	free(h);
}

static void
reply(struct http_request *req, int64_t ended, bool replayed)
{
	http_reply_json(req, 200,
	    json_pack("{s:I, s:b}", "ended", (json_int_t)ended, "replayed",
		(int)replayed));
}

static void
on_ended(void *arg, enum err_code code, int64_t ended)
{
	struct hook *h = arg;
	struct http_request *req = h->req;

	http_request_on_cancel(req, NULL, NULL);
	free(h);
	if (code != E_NONE)
		api_refuse(req, code);
	else
		reply(req, ended < 0 ? 0 : ended, ended < 0);
}

/* A text that must be there. */
static struct str
need(json_t *root, const char *name, size_t max, struct api_fault *fault)
{
	struct str s = api_json_str(root, name, max, fault);

	if (s.n == 0)
		api_fault_set(fault, E_VALIDATION_ERROR, name, "is missing");
	return s;
}

static int64_t
take_time(json_t *root, struct api_fault *fault)
{
	int64_t at = 0, now = clock_real_us();

	if (!api_time_parse(need(root, "timestamp", 40, fault), &at))
		api_fault_set(
		    fault, E_VALIDATION_ERROR, "timestamp", "is no time");
	else if (at < now - AGE_MAX_US || at > now + AHEAD_MAX_US)
		api_fault_set(fault, E_VALIDATION_ERROR, "timestamp",
		    "is more than an hour old, or to come");
	return at;
}

/* NULL: a report of a sandbox that goes on. */
static const char *
take_end(json_t *root, struct api_fault *fault)
{
	struct str type = need(root, "type", ID_MAX, fault);

	if (str_eq(type, str_lit("sandbox.lifecycle.killed")))
		return "killed";
	if (str_eq(type, str_lit("sandbox.lifecycle.paused")))
		return "paused";
	return NULL;
}

static void
hear(struct http_request *req, json_t *root)
{
	struct api_fault fault = { 0 };
	struct str id = need(root, "id", ID_MAX, &fault);
	struct str sandbox = need(root, "sandbox_id", ID_MAX, &fault);
	int64_t at = take_time(root, &fault);
	const char *why = take_end(root, &fault);
	unsigned char event[32];
	struct hook *h;

	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
	} else if (why == NULL) {
		reply(req, 0, false);
	} else {
		digest(event, id.p, id.n, "", 0);
		h = xcalloc(1, sizeof(*h));
		h->req = req;
		http_request_on_cancel(req, on_gone, h);
		h->op = store_sandbox_gone(
		    api_of(req)->store, event, sandbox, why, at, on_ended, h);
	}
}

static void
on_body(struct http_request *req)
{
	struct api_fault fault = { 0 };
	const char *body;
	json_t *root;
	size_t n;

	if (!is_signed(req, api_of(req)->setup.e2b_secret)) {
		api_refuse_secret(req, E_UNKNOWN_API_KEY);
		return;
	}
	body = http_request_body(req, &n);
	root = api_json_object(body, n, &fault);
	if (root != NULL)
		hear(req, root);
	else
		api_fault_reply(req, &fault);
	json_decref(root);
}

void
api_op_hook_e2b(struct http_request *req)
{
	if (api_of(req)->setup.e2b_secret == NULL)
		http_fail(req, E_NOT_FOUND, "no reports of E2B are taken here");
	else
		http_request_read(req, BODY_MAX, on_body);
}
