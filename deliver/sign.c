/* SPDX-License-Identifier: ISC */
#include "deliver/sign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <opendkim/dkim.h>

#include "base/str.h"
#include "base/xalloc.h"
#include "mail/header.h"

#define FIELD "DKIM-Signature: "

/* RFC 6376 5.4.1; what is not there is left out of this list. */
static const char *const signed_names[] = { "From", "Sender", "Reply-To",
	"Subject", "Date", "Message-ID", "To", "Cc", "MIME-Version",
	"Content-Type", "Content-Transfer-Encoding", "Content-ID",
	"Content-Description", "Content-Disposition", "In-Reply-To",
	"References", "List-Id", "List-Help", "List-Unsubscribe",
	"List-Unsubscribe-Post", "List-Subscribe", "List-Post", "List-Owner",
	"List-Archive", "Auto-Submitted", "Postern-Identity", NULL };
/*
 * Named once more than they are there: one more would break it. Lists may add
 * their List-*; what else was approved Postern-Identity covers (0136).
 */
#define SEALED                                                                 \
	"From", "Sender", "Reply-To", "Subject", "Date", "Message-ID", "To",   \
	    "Cc", "MIME-Version", "Content-Type", "Content-Transfer-Encoding", \
	    "Content-ID", "Content-Description", "Content-Disposition",        \
	    "In-Reply-To", "References", "Auto-Submitted", "Postern-Identity"
static const char *const sealed_names[] = { SEALED, NULL };
static const char *const sealed_list_names[] = { SEALED, "List-Unsubscribe",
	"List-Unsubscribe-Post", NULL };

struct signer {
	DKIM_LIB *lib, *list_lib;
};

struct sign {
	size_t n;
	DKIM *dkim[SIGN_KEYS_MAX];
	struct buf head; /* the fields, until the empty line */
	bool in_body, failed;
	struct err why;
};

/* The library copies the list; it only forgot the const. */
static bool
set_names(DKIM_LIB *lib, dkim_opts_t what, const char *const *names)
{
	union {
		const char *const *in;
		void *out;
	} list = { .in = names };

	return dkim_options(lib, DKIM_OP_SETOPT, what, list.out,
		   sizeof(names)) == DKIM_STAT_OK;
}

static DKIM_LIB *
prepare(const char *const *sealed)
{
	DKIM_LIB *lib = dkim_init(NULL, NULL);

	if (lib == NULL)
		return NULL;
	if (set_names(lib, DKIM_OPTS_SIGNHDRS, signed_names) &&
	    set_names(lib, DKIM_OPTS_OVERSIGNHDRS, sealed))
		return lib;
	dkim_close(lib);
	return NULL;
}

struct signer *
signer_new(struct err *err)
{
	struct signer *s = xcalloc(1, sizeof(*s));

	s->lib = prepare(sealed_names);
	s->list_lib = prepare(sealed_list_names);
	if (s->lib == NULL || s->list_lib == NULL) {
		err_set(err, 1, "libopendkim could not be prepared");
		signer_free(s);
		return NULL;
	}
	return s;
}

void
signer_free(struct signer *s)
{
	if (s == NULL)
		return;
	if (s->lib != NULL)
		dkim_close(s->lib);
	if (s->list_lib != NULL)
		dkim_close(s->list_lib);
	free(s);
}

static void
fail(struct sign *s, const char *what, const char *detail)
{
	if (!s->failed)
		err_set(&s->why, 1, "%s: %s", what,
		    detail != NULL ? detail : "no reason given");
	s->failed = true;
}

struct sign *
sign_begin(struct signer *signer, const struct sign_key *keys, size_t n,
    const char *id, bool is_list)
{
	struct sign *s = xcalloc(1, sizeof(*s));
	DKIM_LIB *lib = is_list ? signer->list_lib : signer->lib;
	DKIM_STAT st;
	size_t i;

	BUG_ON(n > SIGN_KEYS_MAX);
	for (i = 0; i < n; i++) {
		s->dkim[i] = dkim_sign(lib, (const u_char *)id, NULL,
		    keys[i].pem.p, (const u_char *)keys[i].selector,
		    (const u_char *)keys[i].domain, DKIM_CANON_RELAXED,
		    DKIM_CANON_RELAXED,
		    keys[i].is_ed25519 ? DKIM_SIGN_ED25519SHA256
				       : DKIM_SIGN_RSASHA256,
		    -1, &st);
		if (s->dkim[i] == NULL) {
			fail(s, keys[i].selector, dkim_getresultstr(st));
			return s;
		}
		s->n++;
	}
	return s;
}

/* What is not signed the library need not see: it refuses names we take. */
static bool
is_signed(const unsigned char *p, size_t n)
{
	const unsigned char *colon = memchr(p, ':', n);
	struct str name = { (const char *)p,
		colon != NULL ? (size_t)(colon - p) : 0 };
	size_t i;

	name = str_trim(name);
	for (i = 0; signed_names[i] != NULL; i++) {
		if (str_ieq(name, str_of(signed_names[i])))
			return true;
	}
	return false;
}

static void
give_field(struct sign *s, unsigned char *p, size_t n)
{
	size_t i;

	if (!is_signed(p, n))
		return;
	for (i = 0; i < s->n && !s->failed; i++) {
		if (dkim_header(s->dkim[i], p, n) != DKIM_STAT_OK)
			fail(s, "header", dkim_geterror(s->dkim[i]));
	}
}

static void
give_head(struct sign *s)
{
	struct str rest = buf_str(&s->head), field;
	size_t i;

	while (rest.n > 0) {
		field = header_take_field(&rest);
		/* The library takes no const. */
		give_field(
		    s, s->head.p + (field.p - (char *)s->head.p), field.n);
	}
	for (i = 0; i < s->n && !s->failed; i++) {
		if (dkim_eoh(s->dkim[i]) != DKIM_STAT_OK)
			fail(s, "end of header", dkim_geterror(s->dkim[i]));
	}
	s->in_body = true;
}

static void
give_body(struct sign *s, const char *p, size_t n)
{
	struct buf copy = { 0 };
	size_t i;

	if (n == 0)
		return;
	/* The library takes no const, and promises nothing. */
	buf_add(&copy, p, n);
	for (i = 0; i < s->n && !s->failed; i++) {
		if (dkim_body(s->dkim[i], copy.p, n) != DKIM_STAT_OK)
			fail(s, "body", dkim_geterror(s->dkim[i]));
	}
	buf_free(&copy);
}

void
sign_add(struct sign *s, const char *p, size_t n)
{
	size_t from = s->head.n > 3 ? s->head.n - 3 : 0, before = s->head.n;
	const unsigned char *end;

	if (n == 0)
		return;
	if (s->in_body) {
		give_body(s, p, n);
		return;
	}
	buf_add(&s->head, p, n);
	/* A message may have no field of its own, but never here: From. */
	end = memmem(s->head.p + from, s->head.n - from, "\r\n\r\n", 4);
	if (end == NULL)
		return;
	from = (size_t)(end - s->head.p) + 4; /* where the body begins */
	s->head.n = from - 2;
	give_head(s);
	give_body(s, p + (from - before), n - (from - before));
}

bool
sign_end(struct sign *s, struct buf *out, struct err *why)
{
	size_t i, before = out->n;

	if (!s->in_body)
		give_head(s);
	for (i = 0; i < s->n && !s->failed; i++) {
		unsigned char *text;
		size_t n;

		if (dkim_eom(s->dkim[i], NULL) != DKIM_STAT_OK ||
		    dkim_getsighdr_d(s->dkim[i], sizeof(FIELD) - 1, &text,
			&n) != DKIM_STAT_OK) {
			fail(s, "signature", dkim_geterror(s->dkim[i]));
			break;
		}
		buf_puts(out, FIELD);
		buf_add(out, text, n);
		buf_puts(out, "\r\n");
	}
	if (s->failed) {
		out->n = before;
		if (why != NULL)
			*why = s->why;
	}
	before = s->failed;
	sign_free(s);
	return !before;
}

void
sign_free(struct sign *s)
{
	size_t i;

	if (s == NULL)
		return;
	for (i = 0; i < s->n; i++)
		(void)dkim_free(s->dkim[i]);
	buf_free(&s->head);
	free(s);
}
