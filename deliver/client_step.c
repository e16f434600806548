/* SPDX-License-Identifier: ISC */
/*
 * client_step.c - what each reply means, in the order of a transaction.
 *
 * 2xx goes on, 4xx defers, 5xx fails: of one recipient after RCPT, of all
 * after MAIL, DATA and the dot. Before MAIL every refusal only ends this
 * address, because another host of the domain may be well. So does a no to
 * being spoken to in clear.
 */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "deliver/client_internal.h"

#define ORCPT_MAX 500 /* RFC 3461 4.2, with " ORCPT=" */
#define NEEDS_TLS 530 /* RFC 3207 4 */
#define NEEDS_TLS_ENHANCED "5.7.10" /* RFC 5248: encryption needed */

static bool
is_2xx(const struct client *c)
{
	return c->last.code / 100 == 2;
}

static bool
wants_tls(const struct client *c)
{
	return !c->is_tls &&
	       (client_insists(c) ||
		   (c->conf.policy == CLIENT_TLS_MAY && c->ehlo.starttls));
}

void
client_greet(struct client *c)
{
	client_enter(c, CS_EHLO);
	client_say(c, "EHLO %s", c->conf.helo);
}

/*
 * Spoken to in clear because TLS has failed, a host may refuse just that, and
 * not the mail: at MAIL it has heard of nothing else, and later it says so.
 */
static bool
refuses_clear(const struct client *c)
{
	if (c->conf.policy != CLIENT_TLS_NONE || c->last.code / 100 != 5)
		return false;
	return c->state == CS_MAIL || c->last.code == NEEDS_TLS ||
	       strcmp(c->last.enhanced, NEEDS_TLS_ENHANCED) == 0;
}

static size_t
count(const struct client *c, enum client_rcpt result)
{
	size_t i, n = 0;

	for (i = 0; i < c->conf.rcpt_count; i++)
		n += c->rows[i].result == result;
	return n;
}

/* The same verdict for every recipient that has none yet. */
static void
verdict_all(struct client *c, enum client_rcpt from)
{
	const bool is_own = c->state == CS_DOT && count(c, from) == 1;
	enum client_rcpt to = CLIENT_RCPT_DEFERRED;
	size_t i;

	if (is_2xx(c))
		to = CLIENT_RCPT_DELIVERED;
	else if (c->last.code / 100 == 5 && !refuses_clear(c))
		to = CLIENT_RCPT_FAILED;
	for (i = 0; i < c->conf.rcpt_count; i++) {
		if (c->rows[i].result != from)
			continue;
		c->rows[i].result = to;
		c->rows[i].reply = c->last;
		c->rows[i].is_own = is_own;
	}
}

bool
client_is_own(const struct client *c, size_t i)
{
	return c->rows[i].is_own;
}

static void
say_base64(struct client *c, const char *prefix, struct str raw)
{
	size_t cap = strlen(prefix) + (raw.n + 2) / 3 * 4 + 1;
	char *line = xmalloc(cap);
	size_t at = strlen(prefix);
	int n;

	memcpy(line, prefix, at);
	n = EVP_EncodeBlock((unsigned char *)line + at,
	    (const unsigned char *)raw.p, (int)raw.n);
	client_say_secret(c, (struct str){ line, at + (size_t)n });
	OPENSSL_cleanse(line, cap);
	free(line);
}

static void
start_auth(struct client *c)
{
	struct buf plain = { 0 };

	if (c->ehlo.auth_plain) {
		client_enter(c, CS_AUTH_PLAIN);
		buf_u8(&plain, 0);
		buf_add_str(&plain, c->conf.user);
		buf_u8(&plain, 0);
		buf_add_str(&plain, c->conf.password);
		say_base64(c, "AUTH PLAIN ", buf_str(&plain));
		buf_wipe(&plain);
		buf_free(&plain);
	} else if (c->ehlo.auth_login) {
		client_enter(c, CS_AUTH_LOGIN);
		client_say(c, "AUTH LOGIN");
	} else {
		client_broke(c, "the next hop offers no AUTH we speak");
	}
}

static void
on_ehlo(struct client *c)
{
	if (!is_2xx(c) && c->state == CS_EHLO && !c->is_tls &&
	    c->last.code / 100 == 5 && !client_insists(c)) {
		client_enter(c, CS_HELO);
		client_say(c, "HELO %s", c->conf.helo);
		return;
	}
	if (!is_2xx(c)) {
		client_finish(c, CLIENT_END_NEXT);
		return;
	}
	c->ehlo = c->last;
	if (wants_tls(c) && !c->ehlo.starttls) {
		client_broke(c, "TLS is demanded, and the next hop has none");
	} else if (wants_tls(c)) {
		client_enter(c, CS_STARTTLS);
		client_say(c, "STARTTLS");
	} else if (c->conf.user.n > 0 && c->is_tls) {
		start_auth(c);
	} else if (c->conf.user.n > 0) {
		client_broke(c, "AUTH is only sent over verified TLS");
	} else {
		client_ask_ready(c);
	}
}

static void
on_auth(struct client *c)
{
	if (c->last.code == 334 && c->state == CS_AUTH_LOGIN) {
		client_enter(c, CS_AUTH_USER);
		say_base64(c, "", c->conf.user);
	} else if (c->last.code == 334 && c->state == CS_AUTH_USER) {
		client_enter(c, CS_AUTH_PASSWORD);
		say_base64(c, "", c->conf.password);
	} else if (is_2xx(c)) {
		client_ask_ready(c);
	} else {
		/* What it says may hold what we sent: nobody is shown that. */
		(void)snprintf(c->last.text, sizeof(c->last.text),
		    "the next hop refused our credentials (%d)", c->last.code);
		client_finish(c, CLIENT_END_NEXT);
	}
}

/* Fail all before MAIL, without asking the next hop. */
static bool
refuse(struct client *c, const char *enhanced, const char *why)
{
	c->last = (struct reply){ .code = 554 };
	(void)snprintf(
	    c->last.enhanced, sizeof(c->last.enhanced), "%s", enhanced);
	(void)snprintf(c->last.text, sizeof(c->last.text), "%s", why);
	verdict_all(c, CLIENT_RCPT_OPEN);
	client_finish(c, CLIENT_END_DONE);
	return false;
}

static bool
can_carry(struct client *c)
{
	if (c->ehlo.size > 0 && c->conf.size > c->ehlo.size)
		return refuse(c, "5.3.4", "larger than the next hop takes");
	if (c->conf.is_8bit && !c->ehlo.eightbitmime)
		return refuse(c, "5.6.3", "the next hop takes no 8-bit text");
	if (c->conf.needs_utf8 && !c->ehlo.smtputf8)
		return refuse(
		    c, "5.6.7", "the next hop takes no UTF-8 address");
	if (c->conf.require_tls && !c->ehlo.requiretls)
		return refuse(c, "5.7.30",
		    "the next hop does not promise TLS on the way on "
		    "(REQUIRETLS)");
	return true;
}

static void
put_mail(struct client *c, struct buf *b)
{
	buf_printf(b, "MAIL FROM:<%.*s>", (int)c->conf.mail_from.n,
	    c->conf.mail_from.p);
	if (c->ehlo.size != 0)
		buf_printf(b, " SIZE=%lld", c->conf.size);
	if (c->conf.is_8bit)
		buf_puts(b, " BODY=8BITMIME");
	if (c->conf.needs_utf8)
		buf_puts(b, " SMTPUTF8");
	if (c->conf.require_tls)
		buf_puts(b, " REQUIRETLS");
	if (c->ehlo.dsn && c->conf.ret != ENVELOPE_RET_NONE)
		buf_printf(b, " RET=%s",
		    c->conf.ret == ENVELOPE_RET_FULL ? "FULL" : "HDRS");
	if (c->ehlo.dsn && c->conf.envid != NULL)
		buf_printf(b, " ENVID=%s", c->conf.envid);
}

/* RFC 3461 4: what was asked for this recipient, and which one it was. */
static void
put_rcpt(struct client *c, size_t i, struct buf *out)
{
	unsigned notify = c->conf.notify != NULL ? c->conf.notify[i] : 0;
	struct str r = c->conf.rcpt[i];
	size_t at;

	buf_printf(out, "RCPT TO:<%.*s>", (int)r.n, r.p);
	if (!c->ehlo.dsn || notify == 0)
		return;
	buf_puts(out, " NOTIFY=");
	envelope_notify_put(out, notify);
	at = out->n;
	buf_puts(out, " ORCPT=rfc822;");
	envelope_xtext_put(out, r);
	/* UTF-8 has a form of its own (RFC 6533), which few can read */
	if (str_has_8bit(r) || out->n - at > ORCPT_MAX)
		out->n = at;
}

/* RFC 9422: the rest goes in a transaction of its own, right behind. */
static void
limit_rcpts(struct client *c)
{
	size_t i, most = (size_t)c->ehlo.rcptmax;

	c->rcpt_count = c->conf.rcpt_count;
	if (most == 0 || most >= c->rcpt_count)
		return;
	for (i = most; i < c->rcpt_count; i++) {
		struct client_row *row = &c->rows[i];

		row->result = CLIENT_RCPT_DEFERRED;
		row->reply.code = 452;
		(void)snprintf(
		    row->reply.enhanced, sizeof(row->reply.enhanced), "4.5.3");
		(void)snprintf(row->reply.text, sizeof(row->reply.text),
		    "the next hop takes %d recipients at a time",
		    c->ehlo.rcptmax);
	}
	c->rcpt_count = most;
}

static void
say_line(struct client *c, struct buf *b)
{
	client_say(c, "%.*s", (int)b->n, (char *)b->p);
	buf_clear(b);
}

/* All up to DATA in one go; nothing of the body before its reply. */
static void
say_group(struct client *c, struct buf *b)
{
	size_t i;

	for (i = 0; i < c->rcpt_count; i++) {
		put_rcpt(c, i, b);
		say_line(c, b);
	}
	client_say(c, "DATA");
	c->owed = c->rcpt_count + 2;
	c->grouped = true;
}

void
client_mail(struct client *c)
{
	struct buf b = { 0 };

	if (c->state != CS_READY || !can_carry(c))
		return;
	limit_rcpts(c);
	client_enter(c, CS_MAIL);
	put_mail(c, &b);
	say_line(c, &b);
	if (c->ehlo.pipelining && !c->conf.one_by_one)
		say_group(c, &b);
	buf_free(&b);
}

static void
ask_rcpt(struct client *c)
{
	struct buf b = { 0 };

	client_enter(c, CS_RCPT);
	if (c->grouped)
		return;
	put_rcpt(c, c->at, &b);
	say_line(c, &b);
	buf_free(&b);
}

static void
on_mail(struct client *c)
{
	if (is_2xx(c)) {
		c->at = 0;
		ask_rcpt(c);
		return;
	}
	/* It has carried enough, it says: not a word about this message. */
	if (c->reused && c->last.code == 421) {
		client_finish(c, CLIENT_END_STALE);
		return;
	}
	verdict_all(c, CLIENT_RCPT_OPEN);
	client_finish(c, CLIENT_END_DONE);
}

static bool
any_taken(const struct client *c)
{
	return count(c, CLIENT_RCPT_TAKEN) > 0;
}

/*
 * What RFC 821 said for one recipient too many: once some were taken it is to
 * be read as 452 (RFC 5321 4.5.3.1.10). Alone in its turn it is what it says.
 */
static bool
is_one_too_many(const struct client *c)
{
	return c->last.code == 552 && any_taken(c) &&
	       (c->last.enhanced[0] == '\0' ||
		   strcmp(c->last.enhanced, "5.5.3") == 0);
}

static void
on_rcpt(struct client *c)
{
	struct client_row *row = &c->rows[c->at];

	if (c->grouped && c->last.code / 100 == 3) {
		client_finish(c, CLIENT_END_UNSURE);
		return;
	}
	row->reply = c->last;
	row->is_own = true;
	if (is_2xx(c))
		row->result = CLIENT_RCPT_TAKEN;
	else if (c->last.code / 100 == 5 && !is_one_too_many(c) &&
		 !refuses_clear(c))
		row->result = CLIENT_RCPT_FAILED;
	else
		row->result = CLIENT_RCPT_DEFERRED;
	if (c->last.code == 421) {
		client_broke(c, c->last.text);
	} else if (++c->at < c->rcpt_count) {
		ask_rcpt(c);
	} else if (c->grouped) {
		client_enter(c, CS_DATA);
	} else if (any_taken(c)) {
		client_enter(c, CS_DATA);
		client_say(c, "DATA");
	} else {
		client_finish(c, CLIENT_END_DONE);
	}
}

static bool
any_failed(const struct client *c)
{
	return count(c, CLIENT_RCPT_FAILED) > 0;
}

/* What the group came to is final. */
static void
end_group(struct client *c)
{
	if (any_taken(c))
		verdict_all(c, CLIENT_RCPT_TAKEN);
	else
		c->last = c->rows[c->rcpt_count - 1].reply;
	client_finish(c, CLIENT_END_DONE);
}

/*
 * One reply too many early in the group would have made each that follows it
 * the answer to the wrong command, and a recipient failed for another's sake.
 * Before that counts, RSET must have its own answer, and no late one's.
 */
static void
doubt_group(struct client *c)
{
	c->data = c->last;
	client_enter(c, CS_RSET);
	client_say(c, "RSET");
}

static void
on_rset(struct client *c)
{
	if (c->last.code != 250) {
		client_finish(c, CLIENT_END_UNSURE);
		return;
	}
	c->last = c->data;
	end_group(c);
}

/*
 * No recipient, but DATA was part of the group. With 354 only an empty message
 * could end it in order: it ends without one, so that no dot leaves ungated.
 * That 354 came where it should says that no reply was too many.
 */
static void
on_vain_data(struct client *c)
{
	if (c->last.code / 100 == 2)
		client_finish(c, CLIENT_END_UNSURE);
	else if (c->last.code == 354)
		end_group(c);
	else
		doubt_group(c);
}

static void
on_data(struct client *c)
{
	if (!any_taken(c)) {
		on_vain_data(c);
		return;
	}
	if (c->last.code == 354) {
		client_enter(c, CS_BODY);
		client_want_body(c);
		return;
	}
	/* One reply too many before would have been taken for this one. */
	if (c->grouped && c->last.code / 100 != 4) {
		client_finish(c, CLIENT_END_UNSURE);
		return;
	}
	if (c->grouped && any_failed(c)) {
		doubt_group(c);
		return;
	}
	if (is_2xx(c)) /* nonsense; nothing was accepted */
		c->last.code = 451;
	verdict_all(c, CLIENT_RCPT_TAKEN);
	client_finish(c, CLIENT_END_DONE);
}

static void
on_dot(struct client *c)
{
	if (c->last.code / 100 == 3 || c->last.code / 100 == 1) {
		client_broke(c, "no final reply to the message");
		return;
	}
	verdict_all(c, CLIENT_RCPT_TAKEN);
	client_finish(c, CLIENT_END_DONE);
}

static void
on_starttls(struct client *c)
{
	if (c->last.code == 220) {
		/* Our STARTTLS has left, or its reply would not be here. */
		client_upgrade(c);
	} else if (client_insists(c)) {
		client_finish(c, CLIENT_END_NEXT);
	} else {
		client_finish(c, CLIENT_END_TLS);
	}
}

void
client_on_reply(struct client *c)
{
	switch (c->state) {
	case CS_GREETING:
		if (c->last.code == 220)
			client_greet(c);
		else
			client_finish(c, CLIENT_END_NEXT);
		return;
	case CS_EHLO:
	case CS_HELO:
		on_ehlo(c);
		return;
	case CS_STARTTLS:
		on_starttls(c);
		return;
	case CS_AUTH_PLAIN:
	case CS_AUTH_LOGIN:
	case CS_AUTH_USER:
	case CS_AUTH_PASSWORD:
		on_auth(c);
		return;
	case CS_MAIL:
		on_mail(c);
		return;
	case CS_RCPT:
		on_rcpt(c);
		return;
	case CS_DATA:
		on_data(c);
		return;
	case CS_RSET:
		on_rset(c);
		return;
	case CS_DOT:
		on_dot(c);
		return;
	case CS_CONNECT:
	case CS_HANDSHAKE:
	case CS_READY:
	case CS_BODY:
	case CS_GATE:
	case CS_END:
	case CS_COUNT:
		break;
	}
	client_broke(c, "the next hop spoke out of turn");
}
