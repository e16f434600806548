/* SPDX-License-Identifier: ISC */
/*
 * page.c - page tokens (decision D13): filter hash 8 | last id 16 | MAC 16.
 * The key is the credential's own, so a token is worth nothing to another
 * key, and no server keeps anything.
 */
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "api/internal.h"
#include "base/xalloc.h"
#include "http/reply.h"
#include "http/request.h"
#include "store/provision.h"

#define FILTER_N 8
#define MAC_N 16
#define TOKEN_N (FILTER_N + 16 + MAC_N)

static void
seal(unsigned char token[TOKEN_N], const struct secret *key, struct str filters,
    const struct uuid *last)
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned int n;

	BUG_ON(!EVP_Digest(filters.p, filters.n, sum, &n, EVP_sha256(), NULL));
	memcpy(token, sum, FILTER_N);
	memcpy(token + FILTER_N, last->b, 16);
	BUG_ON(HMAC(EVP_sha256(), key->b, (int)key->n, token, FILTER_N + 16,
		   sum, &n) == NULL);
	memcpy(token + FILTER_N + 16, sum, MAC_N);
}

void
api_page_token(char out[API_PAGE_TOKEN_MAX], const struct store_cred *cred,
    struct str filters, const struct uuid *last)
{
	unsigned char token[TOKEN_N];

	seal(token, &cred->idem, filters, last);
	base64url_encode(out, token, sizeof(token));
}

static bool
parse(struct uuid *last, const struct secret *key, struct str filters,
    struct str token)
{
	unsigned char given[API_PAGE_TOKEN_MAX], right[TOKEN_N];
	size_t n;

	if (token.n > 54 || !base64url_decode(given, &n, token.p, token.n) ||
	    n != TOKEN_N)
		return false;
	memcpy(last->b, given + FILTER_N, 16);
	seal(right, key, filters, last);
	return CRYPTO_memcmp(given, right, TOKEN_N) == 0;
}

bool
api_page_parse(struct uuid *last, const struct store_cred *cred,
    struct str filters, struct str token)
{
	return parse(last, &cred->idem, filters, token);
}

/* Of who calls, known to nobody else. */
static const struct secret *
key_of(const struct http_request *req)
{
	return api_cred(req) != NULL ? &api_cred(req)->idem
				     : &api_prov(req)->proof;
}

void
api_place_of(struct uuid *place, int64_t id)
{
	int i;

	memset(place, 0, sizeof(*place));
	for (i = 0; i < 8; i++)
		place->b[15 - i] = (unsigned char)((uint64_t)id >> (8 * i));
}

int64_t
api_place_id(const struct uuid *place)
{
	uint64_t id = 0;
	int i;

	for (i = 8; i < 16; i++)
		id = id << 8 | place->b[i];
	return (int64_t)(id & INT64_MAX);
}

static bool
is_taken(const char *takes, const char *name)
{
	struct str rest = str_of(takes);

	while (rest.n > 0)
		if (str_eq(str_split(&rest, ' '), str_of(name)))
			return true;
	return false;
}

/* Whoever asks for less must not take all for the answer. */
static void
refuse_filters(
    const struct http_request *req, const char *takes, struct api_fault *fault)
{
	/* What AgentMail's lists have, or another of ours. */
	static const char *const names[] = { "after", "before", "direction",
		"from", "labels", "recipients", "senders", "status", "subject",
		"to", NULL };
	const char *order = http_request_query(req, "ascending");
	size_t i;

	for (i = 0; names[i] != NULL; i++)
		if (http_request_query(req, names[i]) != NULL &&
		    !is_taken(takes, names[i]))
			api_fault_set(fault, E_VALIDATION_ERROR, names[i],
			    "this list has no such filter");
	if (order != NULL && strcmp(order, "false") != 0)
		api_fault_set(fault, E_VALIDATION_ERROR, "ascending",
		    "lists begin with the newest");
}

void
api_page_query(struct api_page *page, const struct http_request *req,
    struct str filters, const char *takes, struct api_fault *fault)
{
	const char *limit = http_request_query(req, "limit");
	const char *token = http_request_query(req, "page_token");
	unsigned long long n = API_LIMIT_DEFAULT;

	if (limit != NULL &&
	    (!str_to_u64(str_of(limit), API_LIMIT_MAX, &n) || n == 0))
		api_fault_set(fault, E_VALIDATION_ERROR, "limit",
		    "not a number from 1 to %d", API_LIMIT_MAX);
	page->limit = (int)n;
	refuse_filters(req, takes, fault);
	if (token != NULL && token[0] != '\0' &&
	    !parse(&page->after, key_of(req), filters, str_of(token)))
		api_fault_set(fault, E_VALIDATION_ERROR, "page_token",
		    "not a token of this list with these filters");
}

void
api_page_reply(struct http_request *req, const char *name, json_t *list,
    int limit, struct str filters, const struct uuid *last)
{
	size_t n = json_array_size(list);
	json_t *token = json_null();
	unsigned char sealed[TOKEN_N];
	char text[API_PAGE_TOKEN_MAX];

	if (last != NULL && n == (size_t)limit) {
		seal(sealed, key_of(req), filters, last);
		base64url_encode(text, sealed, sizeof(sealed));
		token = json_string(text);
	}
	http_reply_json(req, 200,
	    json_pack("{s:I, s:i, s:o, s:o}", "count", (json_int_t)n, "limit",
		limit, "next_page_token", token, name, list));
}
