/* SPDX-License-Identifier: ISC */
#include "admin/press.h"

#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "admin/admin.h"
#include "admin/page.h"
#include "admin/session.h"
#include "base/clock.h"
#include "base/loop.h"
#include "http/reply.h"
#include "http/request.h"

#define LASTS_MS 60000

void
press_hash(unsigned char out[32], const char *label, struct http_request *req,
    const struct secret *session)
{
	const char *path = http_request_path(req);
	unsigned char all[3][SHA256_DIGEST_LENGTH];
	const char *body;
	size_t n;

	body = http_request_body(req, &n);
	SHA256((const unsigned char *)label, strlen(label), all[0]);
	SHA256((const unsigned char *)path, strlen(path), all[1]);
	SHA256((const unsigned char *)body, n, all[2]);
	HMAC(EVP_sha256(), session->b, (int)session->n, all[0], sizeof(all),
	    out, NULL);
	OPENSSL_cleanse(all, sizeof(all));
}

/* Under the secret: a form may hold a password. */
static void
hash_form(unsigned char out[32], struct http_request *req,
    const struct secret *session)
{
	press_hash(out, "postern.press.1", req, session);
}

static bool
lives(const struct press *p)
{
	return p->owner != NULL || clock_mono_ms() < p->until_ms;
}

/* The one that did it, before those that may have. */
static int
rank(const struct press *p)
{
	return p->turned ? 2 : p->owner != NULL;
}

/* Of this secret, and not by `who`. */
static const struct press *
find(const struct admin *admin, const struct secret *session,
    const struct admin_who *who)
{
	const struct press *p, *found = NULL;
	unsigned char hash[SHA256_DIGEST_LENGTH];

	SHA256(session->b, session->n, hash);
	for (p = admin->presses.row; p < admin->presses.row + PRESSES; p++)
		if (lives(p) && (who == NULL || p->owner != who) &&
		    CRYPTO_memcmp(p->session, hash, sizeof(hash)) == 0 &&
		    (found == NULL || rank(p) > rank(found)))
			found = p;
	return found;
}

bool
press_of_other(const struct admin *admin, const struct admin_who *who)
{
	return find(admin, &who->op.session, who) != NULL;
}

void
press_follow(const struct admin *admin, struct secret *session)
{
	const struct press *p;

	while ((p = find(admin, session, NULL)) != NULL && p->turned)
		*session = p->next;
}

static void
forget(struct press *p)
{
	OPENSSL_cleanse(p, sizeof(*p));
}

/* Wakes when the next of them is over. */
static void
watch(struct presses *all)
{
	const uint64_t now = clock_mono_ms();
	uint64_t first = UINT64_MAX;
	const struct press *p;

	for (p = all->row; p < all->row + PRESSES; p++)
		if (p->owner == NULL && p->until_ms > 0 && p->until_ms < first)
			first = p->until_ms;
	if (first < UINT64_MAX) /* one may be over already */
		loop_timer_set(all->timer, first > now ? first - now : 0);
}

static void
on_over(void *arg)
{
	struct presses *all = arg;
	struct press *p;

	for (p = all->row; p < all->row + PRESSES; p++)
		if (!lives(p))
			forget(p);
	watch(all);
}

static void on_end(void *arg);

static void
wake(struct admin *admin)
{
	loop_defer(admin->loop, on_end, admin);
}

/* The oldest whose request has its answer makes room; else the oldest. */
static struct press *
take_row(struct presses *all)
{
	unsigned i;

	for (i = 0; i < PRESSES; i++)
		if (all->row[(all->at + i) % PRESSES].owner == NULL)
			break;
	all->at = (all->at + i) % PRESSES + 1;
	return &all->row[all->at - 1];
}

void
press_begin(struct http_request *req, const struct admin_who *who,
    const struct session_next *next)
{
	struct admin *admin = http_request_app(req);
	struct press *p;

	p = take_row(&admin->presses);
	if (p->owner != NULL)
		wake(admin);
	forget(p);
	p->owner = who;
	p->next = next->secret;
	SHA256(who->op.session.b, who->op.session.n, p->session);
	hash_form(p->form, req, &who->op.session);
}

void
press_turned(struct admin *admin, const struct admin_who *who)
{
	struct press *p;

	for (p = admin->presses.row; p < admin->presses.row + PRESSES; p++)
		if (p->owner == who)
			p->turned = true;
}

void
press_end(struct admin *admin, const struct admin_who *who, const char *to)
{
	struct press *p;

	for (p = admin->presses.row; p < admin->presses.row + PRESSES; p++) {
		if (p->owner != who)
			continue;
		p->owner = NULL;
		p->until_ms = clock_mono_ms() + admin->presses.lasts_ms;
		if (to != NULL && strlen(to) < sizeof(p->to))
			snprintf(p->to, sizeof(p->to), "%s", to);
		watch(&admin->presses);
		wake(admin);
	}
}

/* ---- the second */

static void
take_back(struct admin *admin, const struct admin_who *who)
{
	struct press *p;

	for (p = admin->presses.row; p < admin->presses.row + PRESSES; p++)
		if (p->owner == who && !p->turned) {
			forget(p);
			wake(admin);
		}
}

/* It is refused because of `p`, which has its answer. */
static void
tell(struct press_wait *w, const struct press *p, bool same)
{
	if (!same)
		page_problem(w->req, 409, "Nothing was done",
		    "In the same moment you confirmed something else, on "
		    "another page. Look what has become of it, then do this "
		    "again.");
	else if (p->to[0] != '\0')
		http_reply_redirect(w->req, p->to);
	else
		page_problem(w->req, 409, "Sent twice",
		    "What was sent first counts. This did nothing: look what "
		    "has become of it before you do it again.");
}

/* True: it is told, or waits again. */
static bool
settle(struct admin *admin, struct press_wait *w)
{
	const struct press *p = find(admin, &w->who->op.session, w->who);
	unsigned char form[SHA256_DIGEST_LENGTH];
	bool same;

	if (p == NULL)
		return false;
	hash_form(form, w->req, &w->who->op.session);
	same = CRYPTO_memcmp(form, p->form, sizeof(form)) == 0;
	/* Who has only the old secret learns nothing of other forms. */
	if (w->gone && !same)
		return false;
	if (p->owner != NULL)
		TAILQ_INSERT_TAIL(&admin->presses.waiting, w, link);
	else if (p->turned || w->gone)
		tell(w, p, same);
	else
		return false;
	return true;
}

static void
on_end(void *arg)
{
	struct admin *admin = arg;
	TAILQ_HEAD(, press_wait) all = TAILQ_HEAD_INITIALIZER(all);
	struct press_wait *w;

	TAILQ_CONCAT(&all, &admin->presses.waiting, link);
	while ((w = TAILQ_FIRST(&all)) != NULL) {
		TAILQ_REMOVE(&all, w, link);
		if (!settle(admin, w))
			w->refused(w->arg);
	}
}

void
press_refused(struct press_wait *w)
{
	struct admin *admin = http_request_app(w->req);

	take_back(admin, w->who);
	if (!settle(admin, w))
		w->refused(w->arg);
}

void
presses_init(struct admin *admin)
{
	TAILQ_INIT(&admin->presses.waiting);
	admin->presses.lasts_ms = LASTS_MS;
	admin->presses.timer =
	    loop_timer_new(admin->loop, on_over, &admin->presses);
}

void
presses_clear(struct admin *admin)
{
	struct press *p;

	for (p = admin->presses.row; p < admin->presses.row + PRESSES; p++)
		forget(p);
	loop_timer_free(admin->presses.timer);
	admin->presses.timer = NULL;
}
