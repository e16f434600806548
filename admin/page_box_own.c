/* SPDX-License-Identifier: ISC */
/*
 * page_box_own.c - what an inbox has of its own: approvals, how long its mail
 * waits, its overseer, how its keys sign in, what is tried once more
 */
#include <stdio.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/page_change.h"
#include "admin/words.h"
#include "base/conf_parse.h"
#include "http/request.h"
#include "mail/address.h"
#include "store/box.h"

struct own_change {
	struct change change;
	struct box_key key;
	struct box_own own;
	char overseer[ADDRESS_MAX];
};

static void
act_own(struct page *page)
{
	struct own_change *b = page->mine;

	box_own_set(&page->who->op, b->key, &b->own, &b->change.is,
	    page_arrived, page_wait(page));
	page_then(page, change_done);
}

/* Such as "36h"; empty is what the tenant says, absent as it is. */
static bool
read_hold(struct page *page, int *seconds)
{
	const char *text = http_request_field(page->req, "hold", 0);
	struct err err = { 0 };
	int64_t ms = 0;

	*seconds = text == NULL ? -1 : 0;
	if (text == NULL || text[0] == '\0')
		return true;
	if (!conf_parse(CONF_TYPE_duration, text, &ms, &err) || ms < 1000 ||
	    ms / 1000 > INT32_MAX) {
		change_fail(page, "invalid");
		return false;
	}
	*seconds = (int)(ms / 1000);
	return true;
}

/* As it is to be written to; empty is nobody, absent as it is. */
static bool
read_overseer(struct page *page, struct own_change *b)
{
	const char *text = http_request_field(page->req, "overseer", 0);
	struct address address;

	if (text == NULL)
		return true;
	b->own.overseer = b->overseer;
	if (text[0] == '\0')
		return true;
	if (address_parse(&address, str_of(text)) != ADDRESS_OK) {
		change_fail(page, "invalid");
		return false;
	}
	address_carried(b->overseer, &address);
	return true;
}

static bool
read_switch(struct page *page, const char *name, int *to)
{
	const char *text = change_text(page, name);

	*to = text == NULL ? -1 : strcmp(text, "yes") == 0;
	if (*to != 0 || strcmp(text, "no") == 0)
		return true;
	change_fail(page, "invalid");
	return false;
}

void
handle_box_own_post(struct http_request *req)
{
	struct page *page = change_new(req, sizeof(struct own_change));
	struct own_change *b = page != NULL ? page->mine : NULL;
	int64_t need;

	if (b == NULL)
		return;
	if (!words_box(http_request_param(req, "box"), &b->key.tenant,
		&b->key.inbox)) {
		page_bad(req, "The number of an inbox");
		return;
	}
	snprintf(b->change.back, sizeof(b->change.back), "/inbox/%lld.%lld",
	    (long long)b->key.tenant, (long long)b->key.inbox);
	if (!change_number_if(page, "need", 2, &need) ||
	    !read_hold(page, &b->own.hold_s) || !read_overseer(page, b) ||
	    !read_switch(page, "full_key_smtp", &b->own.full_key_smtp) ||
	    !read_switch(page, "retry_uncertain", &b->own.retry_uncertain) ||
	    !read_switch(page, "one_click", &b->own.one_click))
		return;
	b->own.need = (int)need;
	change_start(page, act_own);
}
