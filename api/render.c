/* SPDX-License-Identifier: ISC */
/* render.c - a message as the JSON of decision D13. */
#include <string.h>

#include <openssl/evp.h>

#include "api/internal.h"
#include "base/xalloc.h"
#include "mail/digest.h"
#include "policy/vocabulary.h"
#include "store/message.h"

void
api_render_digest(char out[72], const unsigned char digest[32])
{
	digest_format(out, digest);
}

/* Stored without a reason was what was to leave; it waits as all does now. */
json_t *
api_render_hold(int state, const char *reasons, int64_t until)
{
	if (state != STATE_HELD)
		return json_null();
	if (reasons[0] == '\0')
		reasons = policy_hold_reason_name(HOLD_MODE);
	return json_pack("{s:o, s:o}", "reasons", api_json_lines(reasons, ','),
	    "expires_at", api_json_time(until));
}

json_t *
api_render_submitted(const struct store_message *m)
{
	char id[UUID_ID_MAX], thread[UUID_ID_MAX], digest[DIGEST_TEXT_MAX];

	uuid_to_id(id, "msg_", &m->message);
	uuid_to_id(thread, "thr_", &m->thread);
	digest_format(digest, m->digest);
	return json_pack("{s:s, s:s, s:s, s:i, s:o, s:s}", "message_id", id,
	    "thread_id", thread, "status", policy_state_name(m->state),
	    "version", m->version, "hold",
	    api_render_hold(m->state, m->reasons, m->hold_until), "digest",
	    digest);
}

/* Addresses of one kind; the envelope's, so what is listed is what gets it. */
static json_t *
rcpts_of_kind(const struct store_message *m, char kind)
{
	json_t *list = json_array();
	struct str rest = str_of(m->rcpts), item;
	const char *k = m->rcpt_kind;

	while (rest.n > 0 && *k != '\0') {
		item = str_split(&rest, '\n');
		if (*k++ == kind)
			json_array_append_new(
			    list, api_json_strn(item.p, item.n));
	}
	return list;
}

static json_t *
decision(const struct store_message *m)
{
	if (m->verdict[0] == '\0')
		return json_null();
	return json_pack("{s:s, s:o, s:o, s:o, s:b, s:o}", "verdict",
	    m->verdict[0] == 'a' ? "approve" : "reject", "category",
	    api_json_text(m->category), "note", api_json_text(m->note), "hint",
	    api_json_text(m->hint), "edited", (int)m->edited, "at",
	    api_json_time(m->decided_at));
}

static void
add_ids(
    json_t *doc, const struct store_message *m, const struct store_cred *cred)
{
	char id[UUID_ID_MAX], thread[UUID_ID_MAX], digest[DIGEST_TEXT_MAX];

	uuid_to_id(id, "msg_", &m->message);
	uuid_to_id(thread, "thr_", &m->thread);
	digest_format(digest, m->digest);
	json_object_set_new(doc, "message_id", json_string(id));
	json_object_set_new(doc, "thread_id", json_string(thread));
	json_object_set_new(doc, "inbox_id", json_string(cred->address));
	json_object_set_new(doc, "direction", json_string("sent"));
	json_object_set_new(
	    doc, "status", json_string(policy_state_name(m->state)));
	json_object_set_new(doc, "version", json_integer(m->version));
	json_object_set_new(doc, "digest", json_string(digest));
}

static void
add_headers(json_t *doc, const struct store_message *m)
{
	json_object_set_new(doc, "from",
	    api_json_text(
		m->header_from[0] != '\0' ? m->header_from : m->mail_from));
	json_object_set_new(doc, "to", rcpts_of_kind(m, 't'));
	json_object_set_new(doc, "cc", rcpts_of_kind(m, 'c'));
	json_object_set_new(doc, "bcc", rcpts_of_kind(m, 'b'));
	json_object_set_new(
	    doc, "subject", api_json_strn(m->subject, strlen(m->subject)));
	json_object_set_new(doc, "labels", api_json_lines(m->labels, '\n'));
	json_object_set_new(doc, "size", json_integer(m->size));
	json_object_set_new(
	    doc, "rfc_message_id", api_json_text(m->rfc_message_id));
	json_object_set_new(doc, "in_reply_to", api_json_text(m->in_reply_to));
	json_object_set_new(
	    doc, "references", api_json_lines(m->references, '\n'));
	json_object_set_new(
	    doc, "attachment_count", json_integer(m->attachments));
}

json_t *
api_render_message(const struct store_message *m, const struct store_cred *cred)
{
	json_t *doc = json_object();

	add_ids(doc, m, cred);
	add_headers(doc, m);
	json_object_set_new(
	    doc, "hold", api_render_hold(m->state, m->reasons, m->hold_until));
	json_object_set_new(doc, "decision", decision(m));
	json_object_set_new(doc, "timestamp", api_json_time(m->created_at));
	json_object_set_new(doc, "created_at", api_json_time(m->created_at));
	json_object_set_new(doc, "updated_at", api_json_time(m->updated_at));
	json_object_set_new(doc, "send_at", api_json_time(m->send_at));
	json_object_set_new(doc, "not_after", api_json_time(m->not_after));
	json_object_set_new(doc, "may_have_been_sent", json_boolean(m->doubt));
	json_object_set_new(doc, "test", json_boolean(m->test));
	json_object_set_new(doc, "untrusted", json_false());
	return doc;
}

static const char *
kind_name(const char *kind)
{
	switch (kind[0]) {
	case 't':
		return "to";
	case 'c':
		return "cc";
	case 'o':
		return "oversight";
	default:
		return "bcc";
	}
}

json_t *
api_render_recipient(const struct store_recipient *r)
{
	return json_pack("{s:o, s:s, s:s, s:o, s:o, s:o, s:i, s:o, s:o}",
	    "address", api_json_strn(r->address, strlen(r->address)), "kind",
	    kind_name(r->kind), "status", policy_delivery_name(r->delivery),
	    "code", r->reply_code ? json_integer(r->reply_code) : json_null(),
	    "enhanced", api_json_text(r->enhanced), "reply",
	    api_json_text(r->reply), "attempts", r->attempts, "next_attempt_at",
	    api_json_time(r->next_attempt_at), "updated_at",
	    api_json_time(r->updated_at));
}

/* An id of an event that is the same whenever it is asked for. */
static json_t *
event_id(const struct uuid *message, int n)
{
	unsigned char in[20], sum[EVP_MAX_MD_SIZE];
	struct uuid u;
	char id[UUID_ID_MAX];
	unsigned int len;

	memcpy(in, message->b, 16);
	memcpy(in + 16, &n, 4);
	BUG_ON(!EVP_Digest(in, sizeof(in), sum, &len, EVP_sha256(), NULL));
	memcpy(u.b, sum, 16);
	uuid_to_id(id, "evt_", &u);
	return json_string(id);
}

json_t *
api_render_event(const struct uuid *message, const struct store_event *e)
{
	return json_pack("{s:o, s:s, s:o, s:s, s:s, s:o}", "event_id",
	    event_id(message, e->n), "type", e->type, "at",
	    api_json_time(e->at), "actor", e->actor, "status",
	    policy_state_name(e->state), "detail", api_json_text(e->detail));
}
