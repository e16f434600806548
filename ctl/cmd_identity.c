/* SPDX-License-Identifier: ISC */
/*
 * verify: is a message, as it lies in a file, the one that its
 * Postern-Identity field speaks of? Nothing is asked of any network.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/conf.h"
#include "ctl/ctl.h"
#include "mail/header.h"
#include "mail/identity.h"
#include "mail/mailbox.h"
#include "seal/jws.h"
#include "seal/keyfile.h"

#define NAMES_MAX 4096 /* bytes of names that are listed */
#define SAID_NAMES_MAX 240 /* of them where something is wrong */

struct checked {
	struct ctl *ctl;
	struct str head; /* the header section */
	unsigned char body[32];
	struct buf jws;
	json_t *claims;
	unsigned char salt[IDENTITY_SALT];
	const char *recipient; /* NULL: one of To and Cc will do */
	char matched[320];
	char said[512]; /* what is wrong, where it takes more than a word */
};

static bool
read_file(struct identity_scan *scan, const char *path)
{
	FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	char chunk[16384];
	size_t n;
	bool ok;

	if (in == NULL)
		return false;
	while ((n = fread(chunk, 1, sizeof(chunk), in)) > 0)
		identity_scan_add(scan, chunk, n);
	ok = !ferror(in);
	if (in != stdin)
		(void)fclose(in);
	return ok;
}

/* The one field, without its folds. */
static const char *
find_field(struct checked *c)
{
	struct str rest = c->head;
	size_t found = 0, i;

	while (rest.n > 0) {
		struct str value = header_take_field(&rest);
		struct str name = str_trim(str_split(&value, ':'));

		if (!str_ieq(name, str_lit(IDENTITY_NAME)))
			continue;
		found++;
		buf_clear(&c->jws);
		for (i = 0; i < value.n; i++) {
			if (strchr(" \t\r\n", value.p[i]) == NULL)
				buf_putc(&c->jws, value.p[i]);
		}
	}
	if (found == 0)
		return "the message has no " IDENTITY_NAME " field";
	return found > 1 ? "the message has two " IDENTITY_NAME " fields"
			 : NULL;
}

/* A key of the set in that file that verifies it. */
static bool
is_signed_by_set(struct checked *c, const char *path, struct buf *claims)
{
	json_t *set = json_load_file(path, 0, NULL), *key;
	unsigned char pub[34];
	size_t i, n;
	bool ok = false;

	json_array_foreach(json_object_get(set, "keys"), i, key)
	{
		const char *x = ctl_text(key, "x");

		if (!ok && strlen(x) == 43 &&
		    base64url_decode(pub, &n, x, 43) && n == 32)
			ok = seal_jws_verify(claims, buf_str(&c->jws), pub);
	}
	json_decref(set);
	return ok;
}

static bool
is_signed_by_file(
    struct checked *c, const char *path, struct buf *claims, bool *loaded)
{
	struct secret pub = { 0 };
	struct err err = { 0 };

	if (!seal_keyfile_load(&pub, path, SEAL_KEYFILE_IDENTITY_PUB, &err))
		return false;
	*loaded = true;
	return seal_jws_verify(claims, buf_str(&c->jws), pub.b);
}

/* By the key of this deployment, or one it had before. */
static const char *
signed_by_ours(struct checked *c, struct buf *claims)
{
	const struct conf *conf = c->ctl->conf;
	const struct conf_list *more = &conf->keys_identity_old_pub_files;
	bool loaded = false, ok;
	size_t i;

	ok =
	    is_signed_by_file(c, conf->keys_identity_pub_file, claims, &loaded);
	for (i = 0; !ok && i < more->n; i++)
		ok = is_signed_by_file(c, more->v[i], claims, &loaded);
	if (ok)
		return NULL;
	return loaded ? "the signature is not by a known key"
		      : "no key: name the key set with --keys";
}

static const char *
check_signature(struct checked *c, const char *keys)
{
	struct buf claims = { 0 };
	const char *why;

	if (keys == NULL)
		why = signed_by_ours(c, &claims);
	else
		why = is_signed_by_set(c, keys, &claims)
			  ? NULL
			  : "the signature is not by a known key";
	if (why == NULL) {
		c->claims = json_loadb(
		    (char *)claims.p, claims.n, JSON_REJECT_DUPLICATES, NULL);
		if (!json_is_object(c->claims))
			why = "the claims cannot be read";
	}
	buf_free(&claims);
	return why;
}

/* `name` of the claims is these bytes, in base64url. */
static bool
is_claimed(const struct checked *c, const char *name, const void *p, size_t n)
{
	char text[64];

	base64url_encode(text, p, n);
	return strcmp(ctl_text(c->claims, name), text) == 0;
}

static bool
is_named(const struct checked *c, struct str address)
{
	unsigned char hash[IDENTITY_RCPT];
	char text[64];
	const json_t *item;
	size_t i;

	identity_rcpt_hash(hash, c->salt, address, c->head);
	base64url_encode(text, hash, sizeof(hash));
	json_array_foreach(json_object_get(c->claims, "recipients"), i, item)
	{
		if (json_is_string(item) &&
		    strcmp(json_string_value(item), text) == 0)
			return true;
	}
	return false;
}

static bool
on_visible(void *arg, struct str address)
{
	struct checked *c = arg;

	if (!is_named(c, address))
		return true;
	(void)snprintf(
	    c->matched, sizeof(c->matched), "%.*s", (int)address.n, address.p);
	return false;
}

static const char *
check_recipient(struct checked *c)
{
	const char *salt = ctl_text(c->claims, "salt");
	unsigned char raw[32];
	size_t n;

	if (strlen(salt) != BASE64_LEN(IDENTITY_SALT) ||
	    !base64url_decode(raw, &n, salt, strlen(salt)) ||
	    n != IDENTITY_SALT)
		return "the claims cannot be read";
	memcpy(c->salt, raw, IDENTITY_SALT);
	if (c->recipient == NULL)
		identity_visible(c->head, on_visible, c);
	else if (is_named(c, str_of(c->recipient)))
		(void)snprintf(
		    c->matched, sizeof(c->matched), "%s", c->recipient);
	if (c->matched[0] != '\0')
		return NULL;
	return c->recipient != NULL
		   ? "it was not sent to this recipient, or To or Cc changed"
		   : "it was sent to nobody in To or Cc: name the recipient "
		     "with --recipient";
}

static bool
is_from_inbox(const struct checked *c)
{
	struct str rest = c->head;
	const char *why;
	struct mailbox m;

	while (rest.n > 0) {
		struct str value = header_take_field(&rest);
		struct str name = str_trim(str_split(&value, ':'));

		if (str_ieq(name, str_lit("from")))
			return mailbox_parse_strict(value, &m, &why) &&
			       str_ieq(str_of(m.address.canonical),
				   str_of(ctl_text(c->claims, "inbox")));
	}
	return false;
}

static struct str
more_of(const struct checked *c)
{
	return str_of(ctl_text(c->claims, "header_more"));
}

static bool
is_listed(const struct buf *names, struct str name)
{
	struct str rest = buf_str(names);

	while (rest.n > 0) {
		if (str_ieq(str_split(&rest, ':'), name))
			return true;
	}
	return false;
}

/* Names of the fields that are covered, or are not, each once, up to `max`. */
static void
put_names(struct buf *out, const struct checked *c, bool covered, size_t max)
{
	struct str rest = c->head, name, field;
	struct buf names = { 0 };

	while (rest.n > 0) {
		field = header_take_field(&rest);
		name = str_trim(str_split(&field, ':'));
		if (identity_covers(name, more_of(c)) != covered ||
		    is_listed(&names, name))
			continue;
		if (names.n + name.n >= max) {
			buf_puts(&names, "...:");
			break;
		}
		buf_add_str(&names, name);
		buf_putc(&names, ':');
	}
	str_lower((char *)names.p, names.n);
	for (rest = buf_str(&names); rest.n > 0;) {
		buf_puts(out, out->n > 0 ? ", " : "");
		utf8_clean(out, str_split(&rest, ':'));
	}
	buf_free(&names);
}

/* A name that the claims have and the header has not; n 0: none. */
static struct str
missing_name(const struct checked *c)
{
	struct str more = more_of(c);

	while (more.n > 0 && !str_eq(more, str_lit("*"))) {
		struct str name = str_split(&more, ':'), rest = c->head;
		bool found = false;

		while (!found && rest.n > 0) {
			struct str field = header_take_field(&rest);

			found = str_ieq(str_trim(str_split(&field, ':')), name);
		}
		if (!found)
			return name;
	}
	return (struct str){ "", 0 };
}

static const char *
check_header(struct checked *c)
{
	unsigned char hash[32];
	struct buf names = { 0 };
	struct str name;

	identity_head_hash(hash, c->head, more_of(c));
	if (is_claimed(c, "header_sha256", hash, sizeof(hash)))
		return NULL;
	name = missing_name(c);
	if (name.n > 0) {
		(void)snprintf(c->said, sizeof(c->said),
		    "the header is not the one that was sent: %.*s is gone",
		    (int)name.n, name.p);
		return c->said;
	}
	put_names(&names, c, true, SAID_NAMES_MAX);
	(void)snprintf(c->said, sizeof(c->said),
	    "the header is not the one that was sent: a field was added, "
	    "changed, moved or taken away that is covered, as these are: %s",
	    buf_cstr(&names));
	buf_free(&names);
	return c->said;
}

static const char *
check_all(struct checked *c, const char *keys)
{
	const char *why = find_field(c);

	if (why == NULL)
		why = check_signature(c, keys);
	if (why != NULL)
		return why;
	if (!is_claimed(c, "body_sha256", c->body, 32))
		return "the body is not the one that was sent";
	why = check_header(c);
	if (why != NULL)
		return why;
	if (!is_from_inbox(c))
		return "it is from another address than its inbox";
	return check_recipient(c);
}

static void
show(const struct checked *c)
{
	time_t at = (time_t)ctl_int(c->claims, "approved_at");
	struct buf covered = { 0 }, others = { 0 };
	struct tm tm;
	char text[32] = "";
	json_t *rows;

	if (gmtime_r(&at, &tm) != NULL)
		(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	put_names(&covered, c, true, NAMES_MAX);
	put_names(&others, c, false, NAMES_MAX);
	rows = json_pack("[{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}]", "inbox",
	    ctl_text(c->claims, "inbox"), "reviewed",
	    ctl_text(c->claims, "reviewed"), "approval",
	    ctl_text(c->claims, "approval"), "approved_at", text, "message_id",
	    ctl_text(c->claims, "message_id"), "recipient", c->matched,
	    "covered", buf_cstr(&covered), "not_covered", buf_cstr(&others));
	ctl_print(c->ctl, rows);
	json_decref(rows);
	buf_free(&covered);
	buf_free(&others);
}

int
ctl_identity_verify(struct ctl *ctl, const struct ctl_args *args)
{
	struct checked c = { .ctl = ctl,
		.recipient = ctl_option(args, "recipient") };
	struct identity_scan *scan = identity_scan_new(true);
	const char *path = args->words[0], *why;
	int code = 0;

	if (!read_file(scan, path)) {
		code = ctl_fail(ctl, "%s: %s", path, strerror(errno));
	} else {
		identity_scan_end(scan, c.body, &c.head);
		why = check_all(&c, ctl_option(args, "keys"));
		if (why != NULL)
			code = ctl_fail(ctl, "%s: %s", path, why);
		else
			show(&c);
	}
	identity_scan_free(scan);
	buf_free(&c.jws);
	json_decref(c.claims);
	return code;
}
