/* SPDX-License-Identifier: ISC */
/*
 * page_people.c - tenants, operators, and one's own account
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/page_change.h"
#include "admin/password.h"
#include "admin/view_people.h"
#include "base/secret.h"
#include "base/str.h"
#include "http/request.h"
#include "mail/header.h"
#include "seal/key.h"
#include "seal/password.h"

#define KEY_MAX INT64_MAX
#define DAY_S 86400
#define TOKEN_BYTES 16

struct people_page {
	struct people_tenants tenants;
	struct people_domains domains;
	struct people_operators operators;
	struct people_scopes scopes;
	struct people_sessions sessions;
	struct factor_rows factors;
	struct factor_state state;
};

/* ---- tenants */

static void
draw_tenants(struct page *page)
{
	struct people_page *p = page->mine;
	const struct view_tenants view = { &p->tenants, &p->domains,
		change_error(page->req) };

	if (p->tenants.is.status >= 300) {
		page_refuse(page, &p->tenants.is);
		return;
	}
	view_tenants(
	    &page->out, page_shell(page, "Tenants", VIEW_NAV_TENANTS), &view);
	page_send(page, 200);
}

void
handle_tenants(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct people_page));
	struct people_page *p = page->mine;

	page_ask_shell(page);
	people_tenants(&page->who->op, &page->mem, &p->tenants, page_arrived,
	    page_wait(page));
	people_domains(&page->who->op, &page->mem, &p->domains, page_arrived,
	    page_wait(page));
	page_then(page, draw_tenants);
}

struct tenant_change {
	struct change change;
	struct people_tenant_set set;
	int64_t tenant;
};

/* A key pair of its own; the private half only the pages can open. */
static void
act_tenant_new(struct page *page)
{
	struct tenant_change *t = page->mine;
	unsigned char pub[32], box[32 + SEAL_BOX_EXTRA];
	struct secret priv;

	seal_pair_new(pub, &priv);
	seal_box(box, page->admin->review_pub, priv.b, priv.n);
	secret_wipe(&priv);
	people_tenant_create(&page->who->op, change_text(page, "slug"),
	    change_text(page, "name"), pub, box, sizeof(box), &t->change.is,
	    page_arrived, page_wait(page));
	page_then(page, change_done);
}

static struct tenant_change *
start_tenant(struct http_request *req, struct page **page)
{
	struct tenant_change *t;

	*page = change_new(req, sizeof(*t));
	if (*page == NULL)
		return NULL;
	t = (*page)->mine;
	snprintf(t->change.back, sizeof(t->change.back), "/tenants");
	return t;
}

static bool
read_tenant(struct http_request *req, int64_t *tenant)
{
	unsigned long long v;

	if (!str_to_u64(str_of(http_request_param(req, "tenant")),
		(unsigned long long)KEY_MAX, &v)) {
		page_bad(req, "The number of a tenant");
		return false;
	}
	*tenant = (int64_t)v;
	return true;
}

void
handle_tenant_new_post(struct http_request *req)
{
	struct page *page;

	if (start_tenant(req, &page) != NULL)
		change_start(page, act_tenant_new);
}

static void
act_tenant_set(struct page *page)
{
	struct tenant_change *t = page->mine;

	people_tenant_set(&page->who->op, t->tenant, &t->set, &t->change.is,
	    page_arrived, page_wait(page));
	page_then(page, change_done);
}

void
handle_tenant_set_post(struct http_request *req)
{
	struct page *page;
	struct tenant_change *t = start_tenant(req, &page);
	int64_t need, days, disabled;

	if (t == NULL || !read_tenant(req, &t->tenant) ||
	    !change_number_if(page, "need", 2, &need) ||
	    !change_number_if(page, "days", 400, &days) ||
	    !change_number_if(page, "disabled", 1, &disabled))
		return;
	t->set.need = (int)need;
	t->set.hold_s = days < 0 ? -1 : (int)days * DAY_S;
	t->set.disabled = (int)disabled;
	change_start(page, act_tenant_set);
}

static void
act_domain(struct page *page)
{
	struct tenant_change *t = page->mine;
	struct secret random;
	char token[BASE32_LEN(TOKEN_BYTES) + 1];

	secret_random(&random, TOKEN_BYTES);
	base32_encode(token, random.b, TOKEN_BYTES);
	secret_wipe(&random);
	people_domain_add(&page->who->op, t->tenant,
	    change_text(page, "domain"), token, &t->change.is, page_arrived,
	    page_wait(page));
	page_then(page, change_done);
}

void
handle_tenant_domain_post(struct http_request *req)
{
	struct page *page;
	struct tenant_change *t = start_tenant(req, &page);

	if (t != NULL && read_tenant(req, &t->tenant))
		change_start(page, act_domain);
}

/* ---- operators */

static void
draw_operators(struct page *page)
{
	struct people_page *p = page->mine;
	const struct view_operators view = { &p->operators, &p->scopes,
		&p->tenants, page->who->session.operator_id,
		session_has_role(page->who, "admin"), change_error(page->req) };

	if (p->operators.is.status >= 300) {
		page_refuse(page, &p->operators.is);
		return;
	}
	view_operators(
	    &page->out, page_shell(page, "Operators", VIEW_NAV_PEOPLE), &view);
	page_send(page, 200);
}

void
handle_operators(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct people_page));
	struct people_page *p = page->mine;
	const struct store_operator *who = &page->who->op;

	page_ask_shell(page);
	people_operators(
	    who, &page->mem, &p->operators, page_arrived, page_wait(page));
	people_scopes(
	    who, &page->mem, &p->scopes, page_arrived, page_wait(page));
	people_tenants(
	    who, &page->mem, &p->tenants, page_arrived, page_wait(page));
	page_then(page, draw_operators);
}

struct person_change {
	struct change change;
	struct people_role role;
	struct people_secret secret;
	struct password_job job, old;
	struct operator_salt salt;
	struct session_next next;
	int64_t id;
	unsigned char ref[32];
};

static void
clear_person(void *mine)
{
	struct person_change *p = mine;

	secret_wipe(&p->next.secret);
	secret_wipe(&p->job.output);
	secret_wipe(&p->old.output);
}

static struct person_change *
start_person(struct http_request *req, struct page **page, const char *back)
{
	struct person_change *p;

	*page = change_new(req, sizeof(*p));
	if (*page == NULL)
		return NULL;
	(*page)->clear = clear_person;
	p = (*page)->mine;
	snprintf(p->change.back, sizeof(p->change.back), "%s", back);
	return p;
}

static bool
read_role(struct page *page)
{
	struct person_change *p = page->mine;
	int64_t tenant, inbox, cap;

	if (!change_number_if(page, "tenant", KEY_MAX, &tenant) ||
	    !change_number_if(page, "inbox", KEY_MAX, &inbox) ||
	    !change_number_if(page, "risk_cap", 100, &cap))
		return false;
	p->role = (struct people_role){ change_text(page, "role"),
		tenant > 0 ? tenant : 0, inbox > 0 ? inbox : 0,
		cap < 0 ? 74 : (int)cap };
	return true;
}

static void
act_scope(struct page *page)
{
	struct person_change *p = page->mine;

	people_scope_add(&page->who->op, p->id, &p->role, &p->change.is,
	    page_arrived, page_wait(page));
	page_then(page, change_done);
}

void
handle_scope_post(struct http_request *req)
{
	struct page *page;
	struct person_change *p = start_person(req, &page, "/operators");

	if (p != NULL && change_number(page, "id", KEY_MAX, &p->id) &&
	    read_role(page))
		change_start(page, act_scope);
}

static void
act_scope_end(struct page *page)
{
	struct person_change *p = page->mine;

	people_scope_end(&page->who->op, p->id, &p->change.is, page_arrived,
	    page_wait(page));
	page_then(page, change_done);
}

void
handle_scope_end_post(struct http_request *req)
{
	struct page *page;
	struct person_change *p = start_person(req, &page, "/operators");

	if (p != NULL && change_number(page, "id", KEY_MAX, &p->id))
		change_start(page, act_scope_end);
}

static void
act_disable(struct page *page)
{
	struct person_change *p = page->mine;

	people_operator_disable(&page->who->op, change_text(page, "name"),
	    &p->change.is, page_arrived, page_wait(page));
	page_then(page, change_done);
}

void
handle_operator_disable_post(struct http_request *req)
{
	struct page *page;

	if (start_person(req, &page, "/operators") != NULL)
		change_start(page, act_disable);
}

/* A job's output as what is stored; false after a reply. */
static bool
take_secret(struct page *page)
{
	struct person_change *p = page->mine;

	if (!p->job.ok) {
		page_problem(page->req, 503, "Busy",
		    "Nothing was done. Try again in a moment.");
		return false;
	}
	seal_password_verifier(p->secret.verifier, &p->job.output);
	p->secret.params = SEAL_PASSWORD_PARAMS;
	return true;
}

/* argon2id of a new password with a new salt, then `done`. */
static void
hash_new(struct page *page, const char *field, void (*done)(void *))
{
	struct person_change *p = page->mine;
	struct secret salt;

	secret_random(&salt, SEAL_PASSWORD_SALT);
	memcpy(p->secret.salt, salt.b, sizeof(p->secret.salt));
	p->job.done = done;
	p->job.arg = page;
	if (!password_start(page->admin->pool, &p->job,
		change_text(page, field), p->secret.salt, SEAL_PASSWORD_PARAMS))
		page_problem(page->req, 503, "Busy",
		    "Nothing was done. Try again in a moment.");
}

static bool
is_password(struct page *page, const char *field)
{
	const char *text = change_text(page, field);

	return text != NULL && utf8_valid(str_of(text)) &&
	       strlen(text) >= SEAL_PASSWORD_MIN &&
	       strlen(text) <= SEAL_PASSWORD_MAX;
}

static void
on_first(void *arg)
{
	struct page *page = arg;
	struct person_change *p = page->mine;

	if (!take_secret(page))
		return;
	people_operator_add(&page->who->op, change_text(page, "name"),
	    &p->secret, &p->role, &p->change.is, page_arrived, page_wait(page));
	page_then(page, change_done);
}

static void
act_operator(struct page *page)
{
	hash_new(page, "first", on_first);
}

void
handle_operator_new_post(struct http_request *req)
{
	struct page *page;
	struct person_change *p = start_person(req, &page, "/operators");
	const char *name;

	if (p == NULL || !read_role(page))
		return;
	name = change_text(page, "name");
	if (name == NULL || !str_is_login(str_of(name)))
		change_fail(page, "login");
	else if (!is_password(page, "first"))
		change_fail(page, "short");
	else
		change_start(page, act_operator);
}

/* ---- one's own account */

static void
draw_account(struct page *page)
{
	struct people_page *p = page->mine;
	const struct operator_session *s = &page->who->session;
	const struct view_account view = { s->roles, s->idle_us, s->expires_us,
		s->step_up_us, &p->sessions, &p->factors, &p->state,
		change_error(page->req) };

	view_account(
	    &page->out, page_shell(page, "Account", VIEW_NAV_ACCOUNT), &view);
	page_send(page, 200);
}

void
handle_account(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct people_page));
	struct people_page *p = page->mine;

	page_ask_shell(page);
	people_sessions(&page->who->op, &page->mem, &p->sessions, page_arrived,
	    page_wait(page));
	factor_list(&page->who->op, &page->mem, &p->factors, page_arrived,
	    page_wait(page));
	factor_state(&page->who->op, &p->state, page_arrived, page_wait(page));
	page_then(page, draw_account);
}

void
handle_session_end_post(struct http_request *req)
{
	struct page *page;
	struct person_change *p = start_person(req, &page, "/account");
	struct str ref;

	if (p == NULL)
		return;
	ref = str_of(change_text(page, "ref"));
	if (!base32_decode(p->ref, sizeof(p->ref), ref.p, ref.n)) {
		page_bad(req, "The name of a session");
		return;
	}
	people_session_end(&page->who->op, p->ref, &p->change.is, page_arrived,
	    page_wait(page));
	page_then(page, change_done);
}

static void
on_unset(void *arg)
{
	change_done(arg);
}

static void
on_password(struct page *page)
{
	struct person_change *p = page->mine;

	if (p->change.is.status < 300) {
		session_turned(page->req, page->who, &p->next);
		change_done(page);
		return;
	}
	session_refused(page->req, page->who, on_unset, page);
}

static void
on_new(void *arg)
{
	struct page *page = arg;
	struct person_change *p = page->mine;

	if (!take_secret(page))
		return;
	session_next(page->req, page->who, &p->next);
	people_password_set(&page->who->op, p->old.output.b, &p->secret,
	    p->next.sha256, &p->change.is, page_arrived, page_wait(page));
	page_then(page, on_password);
}

static void
on_old(void *arg)
{
	struct page *page = arg;
	struct person_change *p = page->mine;

	if (p->old.ok)
		hash_new(page, "new", on_new);
	else
		change_fail(page, "password");
}

static void
on_salt(struct page *page)
{
	struct person_change *p = page->mine;

	p->old.done = on_old;
	p->old.arg = page;
	if (p->salt.is.status >= 300)
		page_refuse(page, &p->salt.is);
	else if (!password_start(page->admin->pool, &p->old,
		     change_text(page, "old"), p->salt.salt, p->salt.params))
		page_problem(page->req, 503, "Busy",
		    "Nothing was done. Try again in a moment.");
}

void
handle_password_post(struct http_request *req)
{
	struct page *page;
	struct person_change *p = start_person(req, &page, "/account");
	const char *again;

	if (p == NULL)
		return;
	again = change_text(page, "again");
	if (change_text(page, "old") == NULL ||
	    strlen(change_text(page, "old")) > SEAL_PASSWORD_MAX) {
		change_fail(page, "password");
		return;
	}
	if (!is_password(page, "new")) {
		change_fail(page, "short");
		return;
	}
	if (again == NULL || strcmp(again, change_text(page, "new")) != 0) {
		change_fail(page, "differ");
		return;
	}
	operator_salt(page->admin->db, page->who->session.name, &p->salt,
	    page_arrived, page_wait(page));
	page_then(page, on_salt);
}
