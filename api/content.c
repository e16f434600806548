/* SPDX-License-Identifier: ISC */
/*
 * content.c - text, attachments and headers of a message as JSON.
 *
 * posternd uses no helper for this: texts in other charsets than UTF-8,
 * ASCII, Latin-1 and windows-1252 are attachments (mail/content.h).
 */
#include "api/content.h"

#include <string.h>

#include <openssl/evp.h>

#include "api/internal.h"
#include "base/buf.h"
#include "base/xalloc.h"
#include "mail/content.h"
#include "mail/header.h"
#include "mail/mailbox.h"

void
api_attachment_id(char out[UUID_ID_MAX], const struct uuid *message,
    int version, const char *path)
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	struct buf in = { 0 };
	struct uuid u;

	buf_lp(&in, "postern.attachment.1", 20);
	buf_add(&in, message->b, sizeof(message->b));
	buf_u16(&in, (uint16_t)version);
	buf_puts(&in, path);
	BUG_ON(!EVP_Digest(in.p, in.n, sum, NULL, EVP_sha256(), NULL));
	memcpy(u.b, sum, sizeof(u.b));
	uuid_to_id(out, "att_", &u);
	buf_free(&in);
}

static json_t *
text_json(const struct content_text *t)
{
	if (!t->present)
		return json_null();
	return api_json_strn((const char *)t->text.p, t->text.n);
}

static json_t *
attachment_json(
    const struct content_attachment *a, const struct uuid *message, int version)
{
	char id[UUID_ID_MAX], hex[65];

	api_attachment_id(id, message, version, a->path);
	hex_encode(hex, a->sha256, sizeof(a->sha256));
	return json_pack("{s:s, s:o, s:s, s:o, s:I, s:b, s:o, s:s}",
	    "attachment_id", id, "filename", api_json_text(a->filename),
	    "content_type", a->type, "charset", api_json_text(a->charset),
	    "size", (json_int_t)a->size, "inline", (int)a->is_inline,
	    "content_id", api_json_text(a->content_id), "sha256", hex);
}

static json_t *
attachments_json(
    const struct content *c, const struct uuid *message, int version)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < content_attachments(c); i++)
		json_array_append_new(
		    list, attachment_json(
			      content_attachment(c, i), message, version));
	return list;
}

/* The name under which a field of this name stands already. */
static const char *
known_name(json_t *all, const char *name)
{
	const char *key;
	json_t *value;

	json_object_foreach(all, key, value)
	{
		if (str_ieq(str_of(key), str_of(name)))
			return key;
	}
	return NULL;
}

/* Repeated fields: their values in order, joined by a line feed. */
static void
add_field(json_t *all, const struct header_field *f)
{
	struct buf name = { 0 }, value = { 0 };
	const char *known;

	buf_add_str(&name, f->name);
	known = known_name(all, buf_cstr(&name));
	if (known != NULL)
		buf_printf(&value, "%s\n",
		    json_string_value(json_object_get(all, known)));
	header_decode(&value, f->value, NULL);
	json_object_set_new(all, known != NULL ? known : buf_cstr(&name),
	    api_json_strn((const char *)value.p, value.n));
	buf_free(&name);
	buf_free(&value);
}

static bool
add_mailbox(void *arg, const struct mailbox *m)
{
	struct buf text = { 0 };

	mailbox_name_text(&text, m);
	if (text.n > 0)
		buf_printf(&text, " <%s>", m->address.wire);
	else
		buf_puts(&text, m->address.wire);
	json_array_append_new(arg, api_json_strn((const char *)text.p, text.n));
	buf_free(&text);
	return true;
}

void
api_content_render(json_t *doc, const struct content *content,
    const struct uuid *message, int version)
{
	json_t *all = json_object(), *reply_to = json_array();
	const struct content_text *plain = content_text(content, false);
	const struct content_text *html = content_text(content, true);
	const struct header_field *f;
	const char *why;
	struct header h;
	size_t i;

	if (header_parse(&h, content_header(content), &why)) {
		for (i = 0; i < h.count; i++)
			add_field(all, &h.field[i]);
		f = header_find(&h, "Reply-To", 0);
		if (f != NULL)
			(void)mailbox_list_parse(
			    f->value, add_mailbox, reply_to, &why);
		header_free(&h);
	}
	json_object_set_new(doc, "reply_to", reply_to);
	json_object_set_new(doc, "text", text_json(plain));
	json_object_set_new(doc, "html", text_json(html));
	json_object_set_new(
	    doc, "attachments", attachments_json(content, message, version));
	json_object_set_new(doc, "headers", all);
	json_object_set_new(doc, "content",
	    json_string(plain->truncated || html->truncated ? "truncated"
							    : "complete"));
}
