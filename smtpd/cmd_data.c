/* SPDX-License-Identifier: ISC */
/*
 * cmd_data.c - the message, from 354 to its outcome.
 *
 * Bytes go straight on to the submission, which says when it wants a pause;
 * nothing is kept here. A message that must be refused is read on to its true
 * end first: an answer in the middle of a body would make the rest of the
 * body look like commands. 250 is said only when COMMIT is known.
 */
#include "smtpd/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <event2/buffer.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/uuid.h"
#include "base/xalloc.h"
#include "net/stream.h"
#include "policy/vocabulary.h"
#include "smtpd/reply.h"
#include "store/credential.h"
#include "store/submit.h"

#define STEP 16384 /* bytes framed at a time */

static void begin_data(struct smtpd_session *s);
static void begin_submit(struct smtpd_session *s);
static bool feed_some(struct smtpd_session *s);
static bool check_bytes(struct smtpd_session *s);
static void refuse_bytes(struct smtpd_session *s);
static void end_data(struct smtpd_session *s);
static void on_room(void *arg);
static void on_outcome(void *arg, const struct submit_outcome *out);
static void tell_stored(
    struct smtpd_session *s, const struct submit_outcome *out);
static void tell_refused(
    struct smtpd_session *s, const struct submit_outcome *out);

void
cmd_data(struct smtpd_session *s, const struct smtp_command *cmd)
{
	(void)cmd;
	auth_recheck(s, begin_data);
}

void
data_input(struct smtpd_session *s)
{
	while (s->waiting == NULL && (s->state & ST_DATA) != 0 && feed_some(s))
		;
	if (s->eof && s->waiting == NULL && (s->state & ST_DATA) != 0)
		session_leave(s, "client went away");
	session_turn(s);
	if ((s->state & ST_COMMANDS) != 0)
		dispatch_input(s); /* what stands behind a refused one */
}

void
tx_free(struct smtpd_tx *tx)
{
	size_t i;

	if (tx == NULL)
		return;
	if (tx->submit != NULL)
		submit_cancel(tx->submit);
	for (i = 0; i < tx->rcpt_count; i++)
		free(tx->rcpt[i].address);
	free(tx->rcpt);
	free(tx->asked.address);
	free(tx);
}

/* RFC 2920 3.1: DATA ends a group, so nothing may stand behind it yet. */
bool
data_came_early(struct smtpd_session *s)
{
	if (evbuffer_get_length(net_stream_input(s->stream)) == 0)
		return false;
	reply_expel(
	    s, E_PROTOCOL_VIOLATION, NULL, "Data came before the 354 reply");
	return true;
}

static void
begin_data(struct smtpd_session *s)
{
	if (data_came_early(s))
		return;
	smtp_data_init(&s->tx->data);
	s->tx->began_ms = clock_mono_ms();
	begin_submit(s);
	session_set_state(s, ST_DATA);
	reply_line(s, "354 End the message with <CRLF>.<CRLF>");
}

static void
begin_submit(struct smtpd_session *s)
{
	struct smtpd_tx *tx = s->tx;
	struct submit_rcpt *rcpt = xcalloc(tx->rcpt_count, sizeof *rcpt);
	struct submit_envelope env = { .door = SUBMIT_SMTP };
	size_t i;

	for (i = 0; i < tx->rcpt_count; i++) {
		rcpt[i].address = str_of(tx->rcpt[i].address);
		rcpt[i].notify = tx->rcpt[i].notify;
		rcpt[i].kind = 'b'; /* till the header says better */
	}
	env.rcpt = rcpt;
	env.rcpt_count = tx->rcpt_count;
	env.size = (int64_t)tx->size;
	env.ret = tx->ret;
	env.require_tls = tx->require_tls;
	env.smtputf8 = tx->smtputf8;
	env.tls = tx->smtputf8 ? "UTF8SMTPSA" : "ESMTPSA"; /* RFC 6531 4.3 */
	tx->submit = submit_begin(s->cred, &env, on_outcome, on_room, s);
	free(rcpt);
}

/* Frame one piece of input; false when there is none. */
static bool
feed_some(struct smtpd_session *s)
{
	struct evbuffer *in = net_stream_input(s->stream);
	unsigned char out[STEP + SMTP_DATA_EXTRA];
	struct evbuffer_iovec piece;
	size_t n, eaten, out_n;

	if (evbuffer_peek(in, -1, NULL, &piece, 1) < 1 || piece.iov_len == 0)
		return false;
	n = piece.iov_len < STEP ? piece.iov_len : STEP;
	eaten = smtp_data_feed(&s->tx->data, piece.iov_base, n, out, &out_n);
	evbuffer_drain(in, eaten);
	if (!check_bytes(s))
		return false;
	if (!s->tx->swallow && out_n > 0 &&
	    !submit_feed(s->tx->submit, out, out_n) && !s->tx->data.ended)
		session_wait(s, "room", NULL, NULL);
	if (s->tx->data.ended)
		end_data(s);
	return true;
}

/*
 * What can already be told to fail is dropped, but read to its end. False
 * when that end is too far: the session is leaving.
 */
static bool
check_bytes(struct smtpd_session *s)
{
	struct smtpd_tx *tx = s->tx;
	uint64_t max = s->smtpd->set.size_max;

	if (!tx->swallow && (tx->data.flags != 0 || tx->data.size > max)) {
		tx->swallow = true;
		submit_cancel(tx->submit);
		tx->submit = NULL;
	}
	if (tx->data.ended || tx->data.size <= 2 * max + STEP)
		return true;
	reply_expel(s, E_PAYLOAD_TOO_LARGE, NULL,
	    "The message has more than %" PRIu64 " octets and does not end",
	    max);
	return false;
}

static void
end_data(struct smtpd_session *s)
{
	struct smtpd_tx *tx = s->tx;

	if (tx->swallow) {
		refuse_bytes(s);
		session_reset(s);
		return;
	}
	tx->ended_ms = clock_mono_ms();
	session_wait(s, "store", NULL, NULL);
	submit_finish(tx->submit);
}

static void
refuse_bytes(struct smtpd_session *s)
{
	const struct smtp_data *data = &s->tx->data;
	const char *what = "a line of more than 998 octets";

	if (data->size > s->smtpd->set.size_max) {
		reply_refuse(s, E_PAYLOAD_TOO_LARGE,
		    "The message has %" PRIu64 " octets, allowed are %" PRIu64,
		    data->size, s->smtpd->set.size_max);
		return;
	}
	if ((data->flags & SMTP_DATA_NUL) != 0)
		what = "a NUL";
	else if ((data->flags & SMTP_DATA_BARE_LF) != 0)
		what = "a bare LF (curl needs --crlf)";
	else if ((data->flags & SMTP_DATA_BARE_CR) != 0)
		what = "a bare CR";
	reply_refuse(s, E_MESSAGE_MALFORMED, "The message has %s", what);
}

static void
on_room(void *arg)
{
	struct smtpd_session *s = arg;

	if (s->waiting == NULL)
		return;
	session_answered(s);
	session_resume(s);
}

static void
on_outcome(void *arg, const struct submit_outcome *out)
{
	struct smtpd_session *s = arg;

	s->tx->submit = NULL;
	metrics_observe(M_SUBMIT_SECONDS,
	    (int64_t)(clock_mono_ms() - s->tx->ended_ms) * 1000);
	session_answered(s);
	if (out->code == E_NONE) {
		store_cred_sent(s->cred);
		tell_stored(s, out);
	} else if (out->code == E_UNKNOWN_API_KEY) {
		auth_revoked(s);
	} else {
		tell_refused(s, out);
	}
	if (out->code == E_SENDER_MISMATCH)
		store_denied(s->cred, "sender_mismatch", out->text);
	session_reset(s);
	session_resume(s);
}

static void
tell_stored(struct smtpd_session *s, const struct submit_outcome *out)
{
	char id[UUID_ID_MAX];

	s->idle_commands = s->errors = 0; /* one of those who send */
	uuid_to_id(id, "msg_", &out->message);
	log_info("smtpd.stored", KV("session", s->id),
	    KV("tenant", s->cred->tenant), KV("inbox", s->cred->address),
	    KV("message", id), KV("size", out->size),
	    KV("ms", clock_mono_ms() - s->tx->began_ms));
	if (out->state == STATE_HELD)
		reply_line(s, "250 2.6.0 id=%s held for approval", id);
	else if (!out->replay || out->state == STATE_APPROVED)
		reply_line(s, "250 2.6.0 id=%s accepted for delivery", id);
	else
		reply_line(s, "250 2.6.0 id=%s was received before (%s)", id,
		    policy_state_name(out->state));
}

static void
tell_refused(struct smtpd_session *s, const struct submit_outcome *out)
{
	const struct error_info *info = error_get(out->code);
	const char *numbers = NULL, *text = out->text;
	char wait[40] = "";

	if (info->smtp == 0 || out->code == E_INVALID_ADDRESS)
		numbers = "554 5.6.0"; /* about the message's content */
	if (text[0] == '\0')
		text = info->what;
	if (out->wait > 0)
		snprintf(wait, sizeof wait, "; wait %u s", out->wait);
	reply_refuse_as(s, out->code, numbers, "%s%s", text, wait);
}
