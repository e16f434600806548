/* SPDX-License-Identifier: ISC */
#include "admin/message_open.h"

#include <string.h>

#include <openssl/crypto.h>

#include "mail/digest.h"
#include "seal/body.h"
#include "seal/key.h"

#define BATCH 16 /* chunk rows: 4 MiB */

static void ask_chunks(struct message_open *o);

static void
finish(struct message_open *o, const char *problem)
{
	o->problem = problem;
	if (o->counted) {
		o->counted = false;
		o->page->admin->opening--;
	}
	o->then(o->page);
}

static struct seal_id
id_of(const struct review_keys *keys, const struct uuid *message)
{
	struct seal_id id = { .tenant = (uint64_t)keys->tenant,
		.inbox = (uint64_t)keys->inbox,
		.message = *message,
		.version = (uint16_t)keys->version };

	memcpy(id.deployment, keys->deployment, sizeof(id.deployment));
	return id;
}

bool
message_open_key(const struct admin *admin, const struct review_keys *keys,
    const struct uuid *message, struct secret *message_key)
{
	const struct seal_id id = id_of(keys, message);
	struct secret tenant = { .n = 32 }, hour = { 0 };
	bool ok;

	ok = keys->tenant_priv.n == 32 + SEAL_BOX_EXTRA &&
	     seal_box_open(tenant.b, keys->tenant_priv, admin->review_pub,
		 &admin->review_key) &&
	     seal_hour_open(&hour, keys->tenant_box, keys->tenant_pub, &tenant);
	if (ok)
		seal_message_key(message_key, &hour, &id);
	secret_wipe(&tenant);
	secret_wipe(&hour);
	return ok;
}

static void
take_plain(void *arg, const void *p, size_t n)
{
	struct message_open *o = arg;

	buf_add(&o->bytes, p, n);
	body_tag_add(o->tag, p, n);
}

static void
check_whole(struct message_open *o)
{
	unsigned char tag[32];

	body_tag_end(o->tag, tag);
	o->tag = NULL;
	if (!seal_open_finish(o->open) || o->bytes.n != (size_t)o->keys.size ||
	    CRYPTO_memcmp(tag, o->keys.body_tag, sizeof(tag)) != 0)
		finish(o,
		    "The stored bytes are not the bytes that were submitted. "
		    "Do not approve this; reject it and tell whoever runs the "
		    "database.");
	else
		finish(o, NULL);
}

static void
on_chunks(void *arg)
{
	struct message_open *o = arg;
	size_t i;

	if (o->chunks.is.status >= 300) {
		finish(o, "The database did not give the bytes. Try again.");
		return;
	}
	for (i = 0; i < o->chunks.n; i++) {
		if (seal_open_chunk(
			o->open, o->chunks.row[i].p, o->chunks.row[i].n))
			continue;
		finish(o,
		    "The stored bytes do not open: they were changed. Do not "
		    "approve this; reject it and tell whoever runs the "
		    "database.");
		return;
	}
	o->next += (int)o->chunks.n;
	if (o->chunks.n == 0 && o->next < o->keys.chunks)
		finish(o, "The bytes of this message have been removed.");
	else if (o->next < o->keys.chunks)
		ask_chunks(o);
	else
		check_whole(o);
}

static void
ask_chunks(struct message_open *o)
{
	arena_free(&o->batch);
	memset(&o->chunks, 0, sizeof(o->chunks));
	review_body(&o->page->who->op, &o->message, o->version, o->next, BATCH,
	    o->why, &o->batch, &o->chunks, on_chunks, o);
}

static void
on_keys(void *arg)
{
	struct message_open *o = arg;
	struct seal_id id;

	if (o->keys.is.status >= 300) {
		finish(o, "You may not open the bytes of this message.");
		return;
	}
	if (!message_open_key(
		o->page->admin, &o->keys, &o->message, &o->message_key)) {
		finish(o,
		    "The key of this message does not open with the review key "
		    "of this server.");
		return;
	}
	id = id_of(&o->keys, &o->message);
	o->zstd = seal_zstd_new();
	o->open = seal_open_new(o->zstd, &o->message_key, &id, take_plain, o);
	o->tag = body_tag_new(&o->message_key);
	ask_chunks(o);
}

void
message_open_start(struct message_open *o, struct page *page,
    const struct uuid *message, int version, const char *why, page_fn *then)
{
	o->page = page;
	o->message = *message;
	o->version = version;
	o->why = why;
	o->then = then;
	if (page->admin->opening >= OPEN_AT_ONCE) {
		finish(o,
		    "Many messages are being opened right now. Load the page "
		    "again.");
		return;
	}
	page->admin->opening++;
	o->counted = true;
	review_keys(&page->who->op, message, version, why, &page->mem, &o->keys,
	    on_keys, o);
}

void
message_open_clear(struct message_open *o)
{
	secret_wipe(&o->message_key);
	seal_open_free(o->open);
	seal_zstd_free(o->zstd);
	if (o->tag != NULL)
		body_tag_end(o->tag, NULL);
	buf_wipe(&o->bytes);
	buf_free(&o->bytes);
	arena_free(&o->batch);
	if (o->counted)
		o->page->admin->opening--;
}

bool
message_digest_ok(const struct review_message *m,
    const unsigned char body_tag[32], struct arena *mem)
{
	struct digest_input in = {
		.tenant = (uint64_t)m->tenant,
		.inbox = (uint64_t)m->inbox,
		.message = m->message,
		.version = (uint16_t)m->version,
		.test = m->test,
		.mail_from = str_of(m->mail_from),
		.params = str_of(m->params),
		.size = (uint64_t)m->size,
		.send_at = m->send_at,
		.not_after = m->not_after,
	};
	struct str rest = str_of(m->rcpts);
	struct str *rcpt;
	unsigned char digest[DIGEST_LEN];
	size_t n = 0, i;

	for (i = 0; i < rest.n; i++)
		n += rest.p[i] == '\n';
	rcpt = arena_array(mem, n + 1, sizeof(*rcpt));
	for (n = 0; rest.n > 0; n++)
		rcpt[n] = str_split(&rest, '\n');
	in.rcpt = rcpt;
	in.rcpt_count = (uint32_t)n;
	memcpy(in.body_tag, body_tag, sizeof(in.body_tag));
	digest_compute(digest, &in);
	return CRYPTO_memcmp(digest, m->digest, sizeof(digest)) == 0;
}
