/* SPDX-License-Identifier: ISC */
/*
 * submit_row.c - envelope in, row out: recipients, digest, replay key, and
 * the release that monitored and autonomous inboxes carry with them.
 */
#include "store/submit_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/xalloc.h"
#include "policy/mode.h"
#include "seal/note.h"

#define CONTEXT_FIELD_MAX 2000
#define CONTEXT_MAX 8192 /* as api.submit_1 has it */

static struct str
keep(struct submit *s, struct str v)
{
	size_t at = s->text.n;

	if (v.p == NULL || v.n == 0)
		return (struct str){ NULL, 0 };
	buf_add(&s->text, v.p, v.n);
	/* Only the place for now: the buffer may still move. */
	return (struct str){ (const char *)(uintptr_t)(at + 1), v.n };
}

static void
settle(struct submit *s, struct str *v)
{
	if (v->p != NULL)
		v->p = (const char *)s->text.p + ((uintptr_t)v->p - 1);
}

/* Under monitored the inbox's oversight address gets a copy (D4). */
static bool
wants_oversight(const struct submit *s)
{
	return s->cred.mode == MODE_MONITORED && s->cred.oversight[0] != '\0';
}

/*
 * What was said of each recipient; of one that was given twice, what came
 * with the spelling that is kept.
 */
static void
take_notify(struct submit *s, const struct submit_envelope *env,
    const struct address_rcpt *r)
{
	size_t i, k;

	for (i = 0; i < env->rcpt_count; i++) {
		if (env->rcpt[i].notify == 0)
			continue;
		if (s->notify == NULL)
			s->notify = xcalloc(s->rcpt_count + 1, 1);
		for (k = 0; k < s->rcpt_count; k++) {
			if (r[k].wire.p == env->rcpt[i].address.p)
				s->notify[k] = env->rcpt[i].notify;
		}
	}
}

static void
join_rcpts(struct buf *out, const struct address_rcpt *r, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (i > 0)
			buf_putc(out, '\n');
		buf_add_str(out, r[i].wire);
	}
}

static void
fold_rcpts(struct submit *s, const struct submit_envelope *env)
{
	struct address_rcpt *r = xcalloc(env->rcpt_count + 1, sizeof(*r));
	size_t i, n = env->rcpt_count, at = 0;

	for (i = 0; i < n; i++)
		r[i] = (struct address_rcpt){ env->rcpt[i].address,
			env->rcpt[i].kind };
	n = address_rcpt_fold(r, n);
	if (wants_oversight(s)) {
		join_rcpts(&s->asked, r, n);
		r[n++] =
		    (struct address_rcpt){ str_of(s->cred.oversight), 'o' };
		n = address_rcpt_fold(r, n);
	}
	join_rcpts(&s->rcpts, r, n);
	s->rcpt_count = n;
	s->rcpt = xcalloc(n + 1, sizeof(*s->rcpt));
	s->kinds = xcalloc(n + 1, 1);
	for (i = 0; i < n; i++) {
		s->kinds[i] = r[i].kind;
		s->rcpt[i] =
		    (struct str){ (const char *)s->rcpts.p + at, r[i].wire.n };
		at += r[i].wire.n + 1;
	}
	take_notify(s, env, r);
	free(r);
}

static void
write_params(struct submit *s, bool smtputf8)
{
	struct envelope_params p = { s->env.ret, s->env.require_tls, smtputf8 };

	buf_clear(&s->params);
	envelope_params_write(
	    &s->params, &p, s->rcpt, s->notify, s->rcpt_count);
}

/* SMTPUTF8 is asked of others only where something needs it. */
static bool
needs_smtputf8(const struct submit *s, const struct freeze_info *info)
{
	return info->needs_smtputf8 || str_has_8bit(buf_str(&s->rcpts));
}

bool
submit_take_envelope(struct submit *s, const struct submit_envelope *env)
{
	s->env = *env;
	s->env.rcpt = NULL;
	s->env.idem_key = keep(s, env->idem_key);
	s->env.labels = keep(s, env->labels);
	settle(s, &s->env.idem_key);
	settle(s, &s->env.labels);
	if (env->context.n > 0)
		buf_add_str(&s->context, env->context);
	if (env->request != NULL)
		memcpy(s->request, env->request, sizeof(s->request));
	s->env.request = NULL;
	fold_rcpts(s, env);
	if (env->rcpt_count == 0) {
		s->code = E_VALIDATION_ERROR;
		snprintf(s->why, sizeof(s->why), "there is no recipient");
		return false;
	}
	write_params(s, false);
	if (s->params.n + 16 > ENVELOPE_TEXT_MAX) {
		s->code = E_TOO_MANY_RECIPIENTS;
		snprintf(s->why, sizeof(s->why),
		    "there are too many recipients with NOTIFY");
		return false;
	}
	if (s->cred.rcpt_max > 0 && s->rcpt_count > (size_t)s->cred.rcpt_max) {
		s->code = E_TOO_MANY_RECIPIENTS;
		snprintf(s->why, sizeof(s->why),
		    "%zu recipients given, at most %d", s->rcpt_count,
		    s->cred.rcpt_max);
		return false;
	}
	return true;
}

/* SMTP's envelope does not say To or Cc: the header does. */
static void
name_kinds(struct submit *s, const struct freeze_info *info)
{
	struct str lines = buf_str(&info->rcpt), line;
	size_t i;

	while (lines.n > 0) {
		line = str_split(&lines, '\n');
		if (line.n < 3)
			continue;
		for (i = 0; i < s->rcpt_count; i++) {
			if (s->kinds[i] == 'b' && line.p[0] != 'b' &&
			    str_ieq(s->rcpt[i],
				(struct str){ line.p + 2, line.n - 2 }))
				s->kinds[i] = line.p[0];
		}
	}
}

/* "Postern-Run-Id: x" becomes "run_id":"x". */
static void
add_context_field(struct buf *out, struct str line)
{
	struct str prefix = str_lit("Postern-"), name = str_split(&line, ':');
	size_t i;
	char c;

	if (str_istarts(name, prefix)) {
		name.p += prefix.n;
		name.n -= prefix.n;
	}
	line = str_trim(line);
	buf_puts(out, out->n == 0 ? "{\"" : ",\"");
	for (i = 0; i < name.n && i < 64; i++) {
		c = name.p[i];
		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		buf_putc(out, (c >= 'a' && c <= 'z') ? c : '_');
	}
	buf_puts(out, "\":\"");
	log_json_escape(out, line, CONTEXT_FIELD_MAX);
	buf_putc(out, '"');
}

static void
name_context(struct submit *s, const struct freeze_info *info)
{
	struct str lines = buf_str(&info->context), line;

	if (s->context.n > 0)
		return;
	while (lines.n > 0) {
		line = str_split(&lines, '\n');
		if (line.n > 0)
			add_context_field(&s->context, line);
	}
	if (s->context.n > 0)
		buf_putc(&s->context, '}');
}

/*
 * What filters said travels with the context, sealed, under a name that comes
 * last: no context of an agent can stand in its place, or crowd it out.
 */
static void
add_filter_note(struct submit *s)
{
	struct buf sealed = { 0 };
	char *text;

	if (s->filtered.note[0] == '\0')
		return;
	seal_note(&sealed, &s->key, str_of(s->filtered.note));
	text = xmalloc(BASE64_LEN(sealed.n) + 1);
	base64_encode(text, sealed.p, sealed.n);
	if (s->context.n <= 2 || /* {} */
	    s->context.n + strlen(text) + 20 > CONTEXT_MAX)
		buf_clear(&s->context);
	if (s->context.n > 0)
		s->context.n--; /* the brace */
	buf_puts(&s->context, s->context.n > 0 ? "," : "{");
	buf_printf(&s->context, "\"_filters\":\"%s\"}", text);
	free(text);
	buf_free(&sealed);
}

static void
compute_digest(struct submit *s, const struct freeze_info *info)
{
	struct digest_input in = {
		.tenant = (uint64_t)s->cred.tenant,
		.inbox = (uint64_t)s->cred.inbox,
		.message = s->message,
		.version = 1,
		.test = s->cred.test,
		.mail_from = str_of(s->cred.address),
		.rcpt = s->rcpt,
		.rcpt_count = (uint32_t)s->rcpt_count,
		.params = buf_str(&s->params),
		.size = info->size,
		.send_at = (uint64_t)s->env.send_at,
		.not_after = (uint64_t)s->env.not_after,
	};

	body_tag_end(s->tag, s->body_tag);
	s->tag = NULL;
	memcpy(in.body_tag, s->body_tag, sizeof(in.body_tag));
	digest_compute(s->digest, &in);
}

void
submit_key_hash(unsigned char out[32], struct str idem_key)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	BUG_ON(ctx == NULL || !EVP_DigestInit_ex(ctx, sha256_md(), NULL));
	EVP_DigestUpdate(ctx, "r:", 2);
	EVP_DigestUpdate(ctx, idem_key.p, idem_key.n);
	EVP_DigestFinal_ex(ctx, out, NULL);
	EVP_MD_CTX_free(ctx);
}

/* Decision D15: the header, or the client's own Message-ID and all it sent. */
bool
submit_fill_key(struct submit *s)
{
	const struct freeze_info *info = freeze_info(s->freeze);
	EVP_MD_CTX *ctx;

	if (s->hash != NULL) {
		submit_hash_end(s->hash, s->request);
		s->hash = NULL;
	}
	s->has_idem = s->env.idem_key.n > 0 ||
		      (s->env.door == SUBMIT_SMTP && info->has_message_id);
	if (!s->has_idem)
		return false;
	if (s->env.idem_key.n > 0) {
		submit_key_hash(s->idem, s->env.idem_key);
		return true;
	}
	ctx = EVP_MD_CTX_new();
	BUG_ON(ctx == NULL || !EVP_DigestInit_ex(ctx, sha256_md(), NULL));
	EVP_DigestUpdate(ctx, "s:", 2);
	EVP_DigestUpdate(ctx, info->message_id, strlen(info->message_id));
	EVP_DigestUpdate(ctx, s->request, sizeof(s->request));
	EVP_DigestFinal_ex(ctx, s->idem, NULL);
	EVP_MD_CTX_free(ctx);
	return true;
}

/* Used by the database only if mode or a rule releases it right now. */
static void
prepare_release(struct submit *s)
{
	struct seal_release r = {
		.epoch = (uint32_t)s->cred.epoch,
		.tenant = (uint64_t)s->cred.tenant,
		.inbox = (uint64_t)s->cred.inbox,
		.message = s->message,
		.version = 1,
		.round = 1,
	};

	if (s->filtered.hold || !s->cred.releasable || s->cred.kind == 's' ||
	    s->st->policy_key.n == 0 || !s->st->has_relay_pub)
		return;
	s->expiry = clock_real_us() + RELEASE_LIFE_US;
	if (s->env.not_after != 0 && s->env.not_after < s->expiry)
		s->expiry = s->env.not_after;
	memcpy(r.deployment, s->cred.deployment, sizeof(r.deployment));
	memcpy(r.digest, s->digest, sizeof(r.digest));
	r.expiry = (uint64_t)s->expiry;
	seal_tag_policy(s->release_tag, &s->st->policy_key, &r,
	    (uint16_t)s->cred.mode, (uint32_t)s->cred.mode_epoch);
	seal_relay_box(s->relay_box, s->st->relay_pub, &s->key, &r);
	s->has_release = true;
}

/* What the bytes showed, and what the envelope adds. */
static void
gather_findings(struct submit *s, const struct freeze_info *info)
{
	struct finding_marks *marks = &s->findings;
	struct str own = str_of(s->cred.address);
	size_t i;

	*marks = info->findings;
	marks->bits |= s->filtered.marks.bits;
	(void)str_split(&own, '@');
	if (s->rcpt_count >= FINDING_MANY)
		finding_mark(marks, FINDING_RCPT_MANY);
	if (store_cred_volume_odd(&s->cred))
		finding_mark(marks, FINDING_VOLUME);
	for (i = 0; i < s->rcpt_count; i++) {
		if (s->kinds[i] == 'o')
			continue;
		if (s->kinds[i] == 'b')
			finding_mark(marks, FINDING_RCPT_HIDDEN);
		finding_search_rcpt(s->rcpt[i], own, finding_note, marks);
	}
}

void
submit_fill(struct submit *s)
{
	const struct freeze_info *info = freeze_info(s->freeze);

	if (s->env.door == SUBMIT_SMTP)
		name_kinds(s, info);
	write_params(s, needs_smtputf8(s, info));
	gather_findings(s, info);
	name_context(s, info);
	add_filter_note(s);
	compute_digest(s, info);
	(void)submit_fill_key(s);
	prepare_release(s);
}

static struct str
bytes(const void *p, size_t n)
{
	return (struct str){ p, n };
}

static struct str
text_or_null(const char *t)
{
	return t[0] != '\0' ? str_of(t) : (struct str){ NULL, 0 };
}

static struct str
buf_or_null(const struct buf *b)
{
	return b->n > 0 ? buf_str(b) : (struct str){ NULL, 0 };
}

static const char *
door_text(enum submit_door door)
{
	switch (door) {
	case SUBMIT_SMTP:
		return "s";
	case SUBMIT_REST:
		return "r";
	case SUBMIT_MCP:
		return "m";
	}
	return "r";
}

static void
row_of_header(struct commit_row *row, const struct submit *s)
{
	const struct freeze_info *info = freeze_info(s->freeze);

	row->size = (int64_t)info->size;
	row->subject = str_of(info->subject);
	row->header_from = str_of(info->header_from);
	row->rfc_id = str_of(info->message_id);
	row->in_reply_to = text_or_null(info->in_reply_to);
	row->references = buf_or_null(&info->references);
	row->attachments = (int)info->attachments;
	row->links = info->links;
	row->risk = finding_risk(&s->findings);
	row->finding_max = finding_max(&s->findings);
	/* 0: not all of it was searched, so no allow rule applies (A9). */
	row->findings_set = info->findings_partial ? 0 : FINDING_SET;
}

void
submit_row(struct commit_row *row, const struct submit *s)
{
	*row = (struct commit_row){
		.tenant = s->cred.tenant,
		.key = s->cred.key,
		.proof = bytes(s->cred.proof.b, s->cred.proof.n),
		.message = s->message,
		.rcpts = buf_str(&s->rcpts),
		.kinds = { s->kinds, s->rcpt_count },
		.params = s->params.n > 0 ? buf_str(&s->params) : str_lit(""),
		.body_tag = bytes(s->body_tag, sizeof(s->body_tag)),
		.send_at = s->env.send_at,
		.not_after = s->env.not_after,
		.digest = bytes(s->digest, sizeof(s->digest)),
		.door = str_of(door_text(s->env.door)),
		.labels = s->env.labels,
		.context = buf_or_null(&s->context),
		.tenant_epoch = s->cred.tenant_epoch,
		.tenant_box = bytes(s->hour.tenant_box, SEAL_HOUR_BOX),
		.inbox_epoch = s->cred.inbox_epoch,
		.inbox_box = bytes(s->hour.inbox_box, SEAL_HOUR_BOX),
		.chunks = (int)s->chunks,
		.body = buf_or_null(&s->only_chunk),
		.request = bytes(s->request, sizeof(s->request)),
		.duplicate = s->env.duplicate,
		.revises = s->env.revises,
		.limiter = s->charge.verdict == LIMIT_OK,
		.inbox = s->cred.inbox,
	};
	row_of_header(row, s);
	if (s->has_idem)
		row->idem = bytes(s->idem, sizeof(s->idem));
	if (!s->has_release)
		return;
	row->relay_box = bytes(s->relay_box, sizeof(s->relay_box));
	row->tag = bytes(s->release_tag, sizeof(s->release_tag));
	row->expiry = s->expiry;
	row->tag_mode = s->cred.mode;
	row->tag_mode_epoch = s->cred.mode_epoch;
}
