/* SPDX-License-Identifier: ISC */
/*
 * cmd_auth.c - AUTH PLAIN and LOGIN (RFC 4954, 4616), and asking again later.
 *
 * The name is the inbox's address, the password its key. Unknown, revoked
 * and mistyped keys get one and the same answer. Failures are counted per
 * session and per client address; only failures are delayed, so nobody can
 * lock the rightful agent out. A key's bytes live only until store_auth()
 * returns.
 */
#include "smtpd/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "mail/address.h"
#include "net/ledger.h"
#include "smtpd/reply.h"
#include "store/credential.h"

#define FAILURES_MAX 5
#define NAME_MAX_OCTETS 320
#define ANSWER_MAX (SMTP_AUTH_LINE_MAX / 4 * 3)

static void take_plain(struct smtpd_session *s, struct str base64);
static void take_name(struct smtpd_session *s, struct str base64);
static void take_password(struct smtpd_session *s, struct str base64);
static void malformed(struct smtpd_session *s, const char *what);
static void sign_in(
    struct smtpd_session *s, struct str name, struct str password);
static void on_signed_in(
    void *arg, enum err_code code, struct store_cred *cred);
static void cancel_sign_in(void *op);
static void accept_key(struct smtpd_session *s, struct store_cred *cred);
static void fail(struct smtpd_session *s, enum err_code code);
static void tell_failure(struct smtpd_session *s);
static void on_touched(void *arg, enum err_code code);
static void cancel_touch(void *op);

void
cmd_auth(struct smtpd_session *s, const struct smtp_command *cmd)
{
	if (s->cred != NULL) {
		reply_refuse(s, E_BAD_SEQUENCE, "You are signed in already");
	} else if (str_ieq(cmd->mechanism, str_lit("PLAIN"))) {
		s->auth_step = AUTH_PLAIN;
		if (cmd->has_initial)
			take_plain(s, cmd->initial);
		else
			reply_line(s, "334 ");
	} else if (str_ieq(cmd->mechanism, str_lit("LOGIN"))) {
		s->auth_step = AUTH_LOGIN_NAME;
		if (cmd->has_initial)
			take_name(s, cmd->initial);
		else
			reply_line(s, "334 VXNlcm5hbWU6");
	} else {
		reply_refuse_as(s, E_PARAM_UNSUPPORTED, "504 5.5.4",
		    "This mechanism is not offered");
	}
}

void
auth_continue(struct smtpd_session *s, const char *line, size_t n)
{
	struct str answer = { line, n };

	if (str_eq(answer, str_lit("*"))) {
		malformed(s, "You cancelled the sign-in");
		return;
	}
	switch (s->auth_step) {
	case AUTH_PLAIN:
		take_plain(s, answer);
		break;
	case AUTH_LOGIN_NAME:
		take_name(s, answer);
		break;
	case AUTH_LOGIN_PASSWORD:
		take_password(s, answer);
		break;
	case AUTH_NONE:
		break;
	}
}

void
auth_after_pause(void *session)
{
	struct smtpd_session *s = session;

	session_answered(s);
	tell_failure(s);
	session_resume(s);
}

void
auth_forget(struct smtpd_session *s)
{
	s->auth_step = AUTH_NONE;
	free(s->auth_name);
	s->auth_name = NULL;
	store_cred_free(s->cred);
	s->cred = NULL;
	if (s->smtpd->ledger != NULL)
		net_ledger_leave(
		    s->smtpd->ledger, s->smtpd->worker, s->inbox_place);
	s->inbox_place = -1;
}

void
auth_recheck(struct smtpd_session *s, void (*go_on)(struct smtpd_session *s))
{
	if (!store_cred_alive(s->cred)) {
		auth_revoked(s);
	} else if (store_cred_fresh(s->cred)) {
		go_on(s);
	} else {
		s->go_on = go_on;
		session_wait(s, "key", store_cred_touch(s->cred, on_touched, s),
		    cancel_touch);
	}
}

void
auth_revoked(struct smtpd_session *s)
{
	store_denied(s->cred, "dead_key", "smtp");
	reply_expel(s, E_UNKNOWN_API_KEY, "550 5.7.1",
	    "The key was revoked or has expired since you signed in");
}

static void
take_plain(struct smtpd_session *s, struct str base64)
{
	unsigned char answer[ANSWER_MAX];
	struct str authzid, name, password;
	size_t n;

	if (!smtp_base64_decode(base64, answer, sizeof answer, &n))
		malformed(s, "The answer is not base64");
	else if (!smtp_plain_parse(answer, n, &authzid, &name, &password))
		malformed(s, "The answer is not authzid NUL name NUL key");
	else if (authzid.n > 0 && !str_ieq(authzid, name))
		fail(s, E_UNKNOWN_API_KEY);
	else
		sign_in(s, name, password);
	explicit_bzero(answer, sizeof answer);
}

static void
take_name(struct smtpd_session *s, struct str base64)
{
	unsigned char name[NAME_MAX_OCTETS];
	size_t n, i;

	if (!smtp_base64_decode(base64, name, sizeof name, &n) || n == 0) {
		malformed(s, "The user name is not base64, empty or too long");
		return;
	}
	for (i = 0; i < n; i++)
		if (name[i] < ' ' || name[i] == 0x7f) {
			malformed(s, "The user name has control characters");
			return;
		}
	s->auth_name = xstrndup((char *)name, n);
	s->auth_step = AUTH_LOGIN_PASSWORD;
	reply_line(s, "334 UGFzc3dvcmQ6");
}

static void
take_password(struct smtpd_session *s, struct str base64)
{
	unsigned char key[ANSWER_MAX];
	struct str name = str_of(s->auth_name);
	size_t n;

	if (!smtp_base64_decode(base64, key, sizeof key, &n) || n == 0 ||
	    memchr(key, '\0', n) != NULL)
		malformed(s, "The password is not base64 or empty");
	else
		sign_in(s, name, (struct str){ (char *)key, n });
	explicit_bzero(key, sizeof key);
}

static void
malformed(struct smtpd_session *s, const char *what)
{
	auth_forget(s);
	reply_refuse_as(s, E_SYNTAX_ERROR, "501 5.5.2", "%s", what);
}

static void
sign_in(struct smtpd_session *s, struct str name, struct str password)
{
	char *copy = str_dup(name);

	free(s->auth_name);
	s->auth_name = copy;
	s->auth_step = AUTH_NONE;
	session_wait(s, "sign-in",
	    store_auth(s->smtpd->store, password, STORE_AUTH_CONNECTION,
		on_signed_in, s),
	    cancel_sign_in);
}

/* Also a name with U-labels, as a person writes a domain. */
static bool
is_name_of(const char *name, const char *address)
{
	struct address a, b;

	return str_ieq(str_of(name), str_of(address)) ||
	       (address_parse(&a, str_of(name)) == ADDRESS_OK &&
		   address_parse(&b, str_of(address)) == ADDRESS_OK &&
		   address_eq(&a, &b));
}

static void
on_signed_in(void *arg, enum err_code code, struct store_cred *cred)
{
	struct smtpd_session *s = arg;

	session_answered(s);
	if (code == E_NONE && !is_name_of(s->auth_name, cred->address))
		code = E_UNKNOWN_API_KEY;
	if (code == E_NONE && cred->scope != 's' && !cred->smtp_wide)
		code = E_KEY_SCOPE;
	if (code == E_NONE) {
		accept_key(s, cred);
	} else {
		store_cred_free(cred);
		fail(s, code);
	}
	session_resume(s);
}

static void
cancel_sign_in(void *op)
{
	store_auth_cancel(op);
}

/* So that one inbox cannot hold all the sessions there are. */
static bool
takes_place(struct smtpd_session *s)
{
	unsigned max = s->smtpd->set.inbox_max;

	if (s->smtpd->ledger == NULL ||
	    net_ledger_enter_inbox(s->smtpd->ledger, s->smtpd->worker,
		s->cred->inbox, max, &s->inbox_place))
		return true;
	metrics_inc(M_AUTH, "error", NULL);
	reply_expel(s, E_TOO_MANY_ERRORS, NULL,
	    "%s has %u sessions open, as many as it may", s->cred->address,
	    max);
	return false;
}

static void
accept_key(struct smtpd_session *s, struct store_cred *cred)
{
	free(s->auth_name);
	s->auth_name = NULL;
	s->cred = cred;
	if (!takes_place(s))
		return;
	metrics_inc(M_AUTH, "ok", NULL);
	log_info("smtpd.auth", KV("session", s->id), KV("tenant", cred->tenant),
	    KV("inbox", cred->address), KV("code", "ok"));
	reply_line(s, "235 2.7.0 Signed in as %s", cred->address);
}

static void
fail(struct smtpd_session *s, enum err_code code)
{
	int64_t now = (int64_t)clock_mono_ms();
	unsigned blame = 0, ms;

	free(s->auth_name);
	s->auth_name = NULL;
	s->auth_step = AUTH_NONE;
	s->auth_why = code;
	log_warn("smtpd.auth", KV("session", s->id), KV("peer", s->peer.text),
	    KV("code", error_get(code)->code));
	if (code != E_UNKNOWN_API_KEY && code != E_KEY_SCOPE) {
		metrics_inc(M_AUTH, "error", NULL);
		tell_failure(s);
		return;
	}
	metrics_inc(M_AUTH, "failed", NULL);
	s->auth_failures++;
	if (s->smtpd->ledger != NULL)
		blame = net_ledger_blame(s->smtpd->ledger, &s->peer, now);
	ms = net_ledger_pause_ms(blame);
	if (ms == 0) {
		tell_failure(s);
		return;
	}
	session_wait(s, "pause", NULL, NULL);
	loop_timer_set(s->pause, ms);
}

static void
tell_failure(struct smtpd_session *s)
{
	if (s->auth_failures >= FAILURES_MAX)
		reply_expel(s, E_TOO_MANY_ERRORS, NULL,
		    "%d sign-ins have failed", FAILURES_MAX);
	else if (s->auth_why == E_UNKNOWN_API_KEY)
		reply_refuse(s, E_UNKNOWN_API_KEY,
		    "User name and password are not an inbox address and "
		    "its send key");
	else if (s->auth_why == E_KEY_SCOPE)
		reply_refuse(s, E_KEY_SCOPE,
		    "This key can do more than send, so SMTP does not take "
		    "it");
	else
		reply_refuse_as(s, s->auth_why, "454 4.7.0",
		    "Sign-ins cannot be checked now");
}

static void
on_touched(void *arg, enum err_code code)
{
	struct smtpd_session *s = arg;

	session_answered(s);
	if (code == E_NONE) {
		s->go_on(s);
	} else if (code == E_UNKNOWN_API_KEY) {
		auth_revoked(s);
	} else {
		if (s->state == ST_READY)
			session_reset(s); /* MAIL itself was refused */
		reply_refuse(s, code, "The key cannot be checked now");
	}
	session_resume(s);
}

static void
cancel_touch(void *op)
{
	store_touch_cancel(op);
}
