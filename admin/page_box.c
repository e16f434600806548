/* SPDX-License-Identifier: ISC */
/*
 * page_box.c - one inbox: the page, and every form on it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "admin/handlers.h"
#include "admin/page_change.h"
#include "admin/view_box.h"
#include "admin/words.h"
#include "base/secret.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/address.h"
#include "mail/compose.h"

#define KEY_MAX INT64_MAX
#define LIMIT_MAX 1000000000
#define DAY_US (INT64_C(86400) * 1000000)
#define CLAIM_PREFIX "claim_"
#define CLAIM_BYTES 20

struct box_page {
	struct box_key key;
	struct box box;
	struct box_credentials credentials;
	struct box_allows allows;
	struct box_blocks blocks;
	struct box_plans plans;
};

static bool
read_key(struct http_request *req, struct box_key *key)
{
	if (words_box(
		http_request_param(req, "box"), &key->tenant, &key->inbox))
		return true;
	page_bad(req, "The number of an inbox");
	return false;
}

static void
draw(struct page *page)
{
	struct box_page *b = page->mine;
	const struct view_box view = { .key = b->key,
		.box = &b->box,
		.credentials = &b->credentials,
		.allows = &b->allows,
		.blocks = &b->blocks,
		.plans = &b->plans,
		.error = change_error(page->req),
		.can_link = page->admin->link_base[0] != '\0' };

	if (b->box.is.status >= 300) {
		page_refuse(page, &b->box.is);
		return;
	}
	page->inbox = b->box.address;
	page->tenant = b->box.tenant_slug;
	view_box(&page->out, page_shell(page, b->box.address, VIEW_NAV_INBOXES),
	    &view);
	page_send(page, 200);
}

void
handle_box(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct box_page));
	const struct store_operator *who = &page->who->op;
	struct box_page *b = page->mine;

	if (!read_key(req, &b->key))
		return;
	page_ask_shell(page);
	box_get(
	    who, b->key, &page->mem, &b->box, page_arrived, page_wait(page));
	box_credentials(who, b->key, &page->mem, &b->credentials, page_arrived,
	    page_wait(page));
	box_allows(
	    who, b->key, &page->mem, &b->allows, page_arrived, page_wait(page));
	box_blocks(
	    who, b->key, &page->mem, &b->blocks, page_arrived, page_wait(page));
	box_plans(who, b->key.tenant, &page->mem, &b->plans, page_arrived,
	    page_wait(page));
	page_then(page, draw);
}

/* ---- its forms */

struct box_change {
	struct change change;
	struct box_key key;
	struct box_limits limits;
	int64_t id, days, uses, mode;
	bool on;
};

static struct page *
start(struct http_request *req)
{
	struct page *page = change_new(req, sizeof(struct box_change));
	struct box_change *b;

	if (page == NULL)
		return NULL;
	b = page->mine;
	if (!read_key(req, &b->key))
		return NULL;
	snprintf(b->change.back, sizeof(b->change.back), "/inbox/%lld.%lld",
	    (long long)b->key.tenant, (long long)b->key.inbox);
	return page;
}

static void
act_mode(struct page *page)
{
	struct box_change *b = page->mine;

	box_mode_set(&page->who->op, b->key, (int)b->mode,
	    change_text(page, "reason"), &b->change.is, page_arrived,
	    page_wait(page));
	page_then(page, change_done);
}

void
handle_box_mode_post(struct http_request *req)
{
	struct page *page = start(req);
	struct box_change *b = page != NULL ? page->mine : NULL;

	if (b != NULL && change_number(page, "mode", 4, &b->mode))
		change_start(page, act_mode);
}

static bool
read_to(struct page *page)
{
	struct box_change *b = page->mine;
	const char *to = change_text(page, "to");

	b->on = to != NULL && strcmp(to, "on") == 0;
	if (b->on || (to != NULL && strcmp(to, "off") == 0))
		return true;
	page_bad(page->req, "What to do");
	return false;
}

static void
act_pause(struct page *page)
{
	struct box_change *b = page->mine;

	operator_pause(&page->who->op, b->key.tenant, b->key.inbox, b->on,
	    change_text(page, "reason"), &b->change.is, page_arrived,
	    page_wait(page));
	page_then(page, change_done);
}

void
handle_box_pause_post(struct http_request *req)
{
	struct page *page = start(req);

	if (page == NULL || !read_to(page))
		return;
	if (change_has_reason(req))
		change_start(page, act_pause);
	else
		change_fail(page, "reason");
}

static void
act_suspend(struct page *page)
{
	struct box_change *b = page->mine;

	box_suspend(&page->who->op, b->key, b->on, change_text(page, "reason"),
	    &b->change.is, page_arrived, page_wait(page));
	page_then(page, change_done);
}

void
handle_box_suspend_post(struct http_request *req)
{
	struct page *page = start(req);

	if (page == NULL || !read_to(page))
		return;
	if (change_has_reason(req))
		change_start(page, act_suspend);
	else
		change_fail(page, "reason");
}

static void
act_allow(struct page *page)
{
	struct box_change *b = page->mine;

	box_allow_add(&page->who->op, b->key, change_text(page, "entry"),
	    (int)b->uses, (int)b->days, change_text(page, "reason"),
	    &b->change.is, page_arrived, page_wait(page));
	page_then(page, change_done);
}

void
handle_box_allow_post(struct http_request *req)
{
	struct page *page = start(req);
	struct box_change *b = page != NULL ? page->mine : NULL;

	if (b != NULL && change_number(page, "uses", 10000, &b->uses) &&
	    change_number(page, "days", 365, &b->days))
		change_start(page, act_allow);
}

static void
act_allow_end(struct page *page)
{
	struct box_change *b = page->mine;

	box_allow_end(&page->who->op, b->id, &b->change.is, page_arrived,
	    page_wait(page));
	page_then(page, change_done);
}

void
handle_box_allow_end_post(struct http_request *req)
{
	struct page *page = start(req);
	struct box_change *b = page != NULL ? page->mine : NULL;

	if (b != NULL && change_number(page, "id", KEY_MAX, &b->id))
		change_start(page, act_allow_end);
}

static void
act_block(struct page *page)
{
	struct box_change *b = page->mine;
	int64_t now = page->who->session.now_us;

	box_block_add(&page->who->op, b->key, change_text(page, "entry"),
	    b->days > 0 ? now + b->days * DAY_US : 0,
	    change_text(page, "reason"), &b->change.is, page_arrived,
	    page_wait(page));
	page_then(page, change_done);
}

void
handle_box_block_post(struct http_request *req)
{
	struct page *page = start(req);
	struct box_change *b = page != NULL ? page->mine : NULL;

	if (b != NULL && change_number_if(page, "days", 3650, &b->days))
		change_start(page, act_block);
}

static void
act_block_end(struct page *page)
{
	struct box_change *b = page->mine;

	box_block_end(&page->who->op, b->id, change_text(page, "reason"),
	    &b->change.is, page_arrived, page_wait(page));
	page_then(page, change_done);
}

void
handle_box_block_end_post(struct http_request *req)
{
	struct page *page = start(req);
	struct box_change *b = page != NULL ? page->mine : NULL;

	if (b != NULL && change_number(page, "id", KEY_MAX, &b->id))
		change_start(page, act_block_end);
}

static void
act_limits(struct page *page)
{
	struct box_change *b = page->mine;

	box_limits_set(&page->who->op, b->key, &b->limits, &b->change.is,
	    page_arrived, page_wait(page));
	page_then(page, change_done);
}

/* A plan's numbers, or those of the form. */
void
handle_box_limits_post(struct http_request *req)
{
	struct page *page = start(req);
	struct box_change *b = page != NULL ? page->mine : NULL;
	int64_t hour = -1, day = -1, month = -1, held = -1, bytes = -1;

	if (b == NULL)
		return;
	b->limits.plan = change_text(page, "plan");
	if (b->limits.plan == NULL &&
	    (!change_number_if(page, "hour", LIMIT_MAX, &hour) ||
		!change_number_if(page, "day", LIMIT_MAX, &day) ||
		!change_number_if(page, "month", LIMIT_MAX, &month) ||
		!change_number_if(page, "held", LIMIT_MAX, &held) ||
		!change_number_if(page, "bytes", KEY_MAX, &bytes)))
		return;
	b->limits.hour = (int)hour;
	b->limits.day = (int)day;
	b->limits.month = (int)month;
	b->limits.held = (int)held;
	b->limits.bytes = bytes;
	change_start(page, act_limits);
}

static void
act_key_end(struct page *page)
{
	struct box_change *b = page->mine;

	box_credential_end(&page->who->op, b->key.tenant, b->id, &b->change.is,
	    page_arrived, page_wait(page));
	page_then(page, change_done);
}

void
handle_box_key_end_post(struct http_request *req)
{
	struct page *page = start(req);
	struct box_change *b = page != NULL ? page->mine : NULL;

	if (b != NULL && change_number(page, "id", KEY_MAX, &b->id))
		change_start(page, act_key_end);
}

/* ---- claim codes: a new inbox, or new keys for an old one */

struct making {
	struct change change; /* first, for its own answers */
	struct box_made made;
	struct box_key key;
	struct review_tenants tenants;
	struct box box;
	char code[sizeof(CLAIM_PREFIX) + BASE32_LEN(CLAIM_BYTES)];
	unsigned char hash[SHA256_DIGEST_LENGTH];
};

static void
clear_making(void *mine)
{
	struct making *m = mine;

	OPENSSL_cleanse(m->code, sizeof(m->code));
}

static void
take_code(struct page *page, struct secret *code)
{
	struct making *m = page->mine;

	page->clear = clear_making;
	(void)SHA256(code->b, code->n, m->hash);
	memcpy(m->code, CLAIM_PREFIX, sizeof(CLAIM_PREFIX));
	base32_encode(m->code + strlen(CLAIM_PREFIX), code->b, code->n);
	secret_wipe(code);
}

/* Another for each form, not for each press: sent twice, it is made once, and
 * both answers show the code (decision 0131). */
static void
code_of_form(struct page *page)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	struct secret code = { .n = CLAIM_BYTES };

	press_hash(hash, "postern.claim.1", page->req, &page->who->op.session);
	memcpy(code.b, hash, CLAIM_BYTES);
	take_code(page, &code);
	OPENSSL_cleanse(hash, sizeof(hash));
}

static void
draw_code(struct page *page, const char *address, int unreadable)
{
	struct making *m = page->mine;
	const struct view_claim view = { .address = address,
		.code = m->code,
		.until_us = m->made.claim_until_us,
		.unreadable = unreadable,
		.tenant = m->key.tenant,
		.inbox = m->key.inbox };

	view_claim(&page->out, page_shell(page, "Claim code", VIEW_NAV_INBOXES),
	    &view);
	page_send(page, 200);
}

static void
on_reset(struct page *page)
{
	struct making *m = page->mine;

	m->change.is = m->made.is;
	if (m->made.is.status >= 300)
		change_done(page);
	else
		draw_code(page, m->box.address, m->made.unreadable);
}

static void
act_reset(struct page *page)
{
	struct making *m = page->mine;
	struct secret code;

	secret_random(&code, CLAIM_BYTES);
	take_code(page, &code);
	page_ask_shell(page);
	box_get(&page->who->op, m->key, &page->mem, &m->box, page_arrived,
	    page_wait(page));
	box_reset(&page->who->op, m->key, m->hash, &m->made, page_arrived,
	    page_wait(page));
	page_then(page, on_reset);
}

void
handle_box_reset_post(struct http_request *req)
{
	struct page *page = change_new(req, sizeof(struct making));
	struct making *m;

	if (page == NULL)
		return;
	m = page->mine;
	if (!read_key(req, &m->key))
		return;
	snprintf(m->change.back, sizeof(m->change.back), "/inbox/%lld.%lld",
	    (long long)m->key.tenant, (long long)m->key.inbox);
	change_start(page, act_reset);
}

static void
draw_new(struct page *page)
{
	struct making *m = page->mine;
	struct view_box_new view = { .error = change_error(page->req) };
	const char **slugs =
	    arena_array(&page->mem, m->tenants.n + 1, sizeof(*slugs));
	int64_t *keys =
	    arena_array(&page->mem, m->tenants.n + 1, sizeof(*keys));
	size_t i;

	if (m->tenants.is.status >= 300) {
		page_refuse(page, &m->tenants.is);
		return;
	}
	for (i = 0; i < m->tenants.n; i++) {
		slugs[i] = m->tenants.row[i].slug;
		keys[i] = m->tenants.row[i].tenant;
	}
	view.tenants = slugs;
	view.keys = keys;
	view.tenant_count = m->tenants.n;
	view_box_new(
	    &page->out, page_shell(page, "New inbox", VIEW_NAV_INBOXES), &view);
	page_send(page, 200);
}

void
handle_box_new(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct making));
	struct making *m = page->mine;

	page_ask_shell(page);
	review_tenants(&page->who->op, &page->mem, &m->tenants, page_arrived,
	    page_wait(page));
	page_then(page, draw_new);
}

static void
on_made(struct page *page)
{
	struct making *m = page->mine;

	m->change.is = m->made.is;
	m->key.inbox = m->made.inbox;
	if (m->made.is.status >= 300)
		change_done(page);
	else
		draw_code(page, change_text(page, "address"), -1);
}

/* What is no address is the database's to refuse. */
static bool
may_be_called(const char *name, const char *address)
{
	struct address a;

	return name == NULL || address == NULL ||
	       address_parse(&a, str_of(address)) != ADDRESS_OK ||
	       compose_name_valid(str_of(name), str_of(a.wire));
}

void
handle_box_new_post(struct http_request *req)
{
	struct page *page = change_new(req, sizeof(struct making));
	struct making *m;

	if (page == NULL)
		return;
	m = page->mine;
	snprintf(m->change.back, sizeof(m->change.back), "/inboxes/new");
	if (!change_number(page, "tenant", KEY_MAX, &m->key.tenant))
		return;
	if (!may_be_called(change_text(page, "display_name"),
		change_text(page, "address"))) {
		change_fail(page, "name");
		return;
	}
	code_of_form(page);
	page_ask_shell(page);
	box_create(&page->who->op, m->key.tenant, change_text(page, "address"),
	    NULL, change_text(page, "display_name"), m->hash, &m->made,
	    page_arrived, page_wait(page));
	page_then(page, on_made);
}
