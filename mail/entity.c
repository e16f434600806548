/* SPDX-License-Identifier: ISC */
#include "mail/entity.h"

#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "mail/header.h"
#include "mail/param.h"

static const char *const once[] = { "Content-Type", "Content-Transfer-Encoding",
	"Content-Disposition", "Content-ID", "Content-Description",
	"Content-Location", "MIME-Version" };

static const char tnef_why[] =
    "TNEF (winmail.dat) is not accepted: it hides texts and files.";

/* Of a message inside a message; a program shows the first or the last. */
static const char *const once_in_message[] = { "From", "Sender", "Reply-To",
	"To", "Cc", "Bcc", "Date", "Subject", "Message-ID", "In-Reply-To",
	"References" };

/* Copy text; false when it does not fit. */
static bool
copy(char *out, size_t size, struct str s)
{
	if (s.n >= size)
		return false;
	if (s.n > 0)
		memcpy(out, s.p, s.n);
	out[s.n] = '\0';
	return true;
}

/* RFC 2046 bchars. */
static bool
boundary_valid(struct str b)
{
	size_t i;

	if (b.n == 0 || b.n > STRUCTURE_BOUNDARY_MAX || b.p[b.n - 1] == ' ')
		return false;
	for (i = 0; i < b.n; i++) {
		if (!((b.p[i] >= '0' && b.p[i] <= '9') ||
			(b.p[i] >= 'A' && b.p[i] <= 'Z') ||
			(b.p[i] >= 'a' && b.p[i] <= 'z') ||
			(b.p[i] != '\0' &&
			    strchr("'()+_,-./:=? ", b.p[i]) != NULL)))
			return false;
	}
	return true;
}

/*
 * Charsets in which the same bytes can read as different text. ISO-2022-JP,
 * long the usual one of Japanese mail, is not among them (docs/decisions/
 * 0010): programs agree on it where it is declared, and the page shows it.
 */
static bool
charset_refused(struct str c)
{
	static const char *const starts[] = { "utf-7", "utf7", "unicode-1-1",
		"utf-16", "utf16", "utf-32", "utf32", "ucs", "iso-2022",
		"iso2022", "hz", "cp1200", "cp1201", "scsu", "bocu", "cesu",
		"x-imap", "ibm037", "cp037", "ebcdic", "x-user" };
	size_t i;

	if (str_ieq(c, str_lit("iso-2022-jp")))
		return false;
	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		if (str_istarts(c, str_of(starts[i])))
			return true;
	}
	return false;
}

static bool
read_boundary(struct entity *e, const struct param_list *l, const char **why)
{
	struct str b = { NULL, 0 };
	struct buf scrap = { 0 };
	enum param_form ext = param_extended(l, "boundary", &scrap);

	buf_free(&scrap);
	if (ext != PARAM_ABSENT ||
	    param_plain(l, "boundary", &b) != PARAM_PRESENT ||
	    !boundary_valid(b)) {
		*why = "A multipart has no valid boundary (1-70 characters).";
		return false;
	}
	return copy(e->boundary, sizeof(e->boundary), b);
}

static bool
read_charset(struct entity *e, const struct param_list *l, const char **why)
{
	struct str c = str_lit("");
	struct buf scrap = { 0 };
	enum param_form ext = param_extended(l, "charset", &scrap);

	buf_free(&scrap);
	*why = "A text part's charset is malformed or not accepted.";
	if (ext != PARAM_ABSENT)
		return false;
	(void)param_plain(l, "charset", &c);
	if (!copy(e->part->charset, sizeof(e->part->charset), c))
		return false;
	str_lower(e->part->charset, c.n);
	return !charset_refused(c);
}

/* "format=flowed; delsp=yes": lines are joined without a space. */
static bool
read_joins(const struct param_list *l)
{
	struct str format = str_lit(""), delsp = str_lit("");

	return param_plain(l, "format", &format) == PARAM_PRESENT &&
	       param_plain(l, "delsp", &delsp) == PARAM_PRESENT &&
	       str_ieq(format, str_lit("flowed")) &&
	       str_ieq(delsp, str_lit("yes"));
}

static bool
read_type(struct entity *e, const struct param_list *l, const char **why)
{
	struct mime_part *p = e->part;

	if (str_starts(str_of(l->head), str_lit("multipart/"))) {
		p->kind = MIME_MULTIPART;
		e->is_digest = strcmp(l->head, "multipart/digest") == 0;
		return read_boundary(e, l, why);
	}
	if (strcmp(l->head, "message/partial") == 0 ||
	    strcmp(l->head, "message/external-body") == 0) {
		*why = "message/partial and message/external-body are not "
		       "accepted.";
		return false;
	}
	if (strcmp(l->head, "application/ms-tnef") == 0 ||
	    strcmp(l->head, "application/vnd.ms-tnef") == 0) {
		*why = tnef_why;
		return false;
	}
	if (strcmp(l->head, "message/rfc822") == 0 ||
	    strcmp(l->head, "message/global") == 0 ||
	    strcmp(l->head, "message/news") == 0)
		p->kind = MIME_MESSAGE;
	p->joins = strcmp(l->head, "text/plain") == 0 && read_joins(l);
	return read_charset(e, l, why);
}

static bool
read_encoding(struct mime_part *p, const struct header *h, const char **why)
{
	static const struct {
		const char *name;
		enum mime_encoding encoding;
	} names[] = { { "7bit", MIME_7BIT }, { "8bit", MIME_8BIT },
		{ "binary", MIME_BINARY }, { "quoted-printable", MIME_QP },
		{ "base64", MIME_BASE64 } };
	const struct header_field *f =
	    header_find(h, "Content-Transfer-Encoding", 0);
	struct str value;
	size_t i;

	if (f != NULL) {
		value = header_trim(f->value);
		for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			if (str_ieq(value, str_of(names[i].name)))
				break;
		}
		if (i == sizeof(names) / sizeof(names[0])) {
			*why = "Content-Transfer-Encoding is unknown.";
			return false;
		}
		p->encoding = names[i].encoding;
	}
	if (p->kind != MIME_LEAF &&
	    (p->encoding == MIME_QP || p->encoding == MIME_BASE64)) {
		*why = "A multipart or message may not be encoded as a whole.";
		return false;
	}
	return true;
}

/* Where a file's name can stand. */
struct names {
	struct buf text[4];
	bool present[4];
	header_word_fn *fn; /* for words in other charsets; may be NULL */
	void *arg;
};

static void
names_free(struct names *names)
{
	size_t i;

	for (i = 0; i < 4; i++)
		buf_free(&names->text[i]);
}

static bool
names_take(
    struct names *n, size_t at, const struct param_list *l, const char *name)
{
	enum param_form ext =
	    param_extended_with(l, name, &n->text[at], n->fn, n->arg);
	struct str plain;

	if (ext == PARAM_BAD)
		return false;
	n->present[at] = ext == PARAM_PRESENT;
	if (param_plain(l, name, &plain) == PARAM_PRESENT) {
		header_decode_with(
		    &n->text[at + 1], plain, NULL, n->fn, n->arg);
		n->present[at + 1] = true;
	}
	return true;
}

static struct str
extension(struct str name)
{
	size_t i = name.n;

	while (i > 0 && name.p[i - 1] != '.')
		i--;
	return i == 0 ? str_lit("") : (struct str){ name.p + i, name.n - i };
}

static bool
is_ascii(struct str s)
{
	size_t i;

	for (i = 0; i < s.n; i++) {
		if (s.p[i] < 0)
			return false;
	}
	return true;
}

/*
 * Programs differ in which of several names they take, so all must be one,
 * but for a plain name beside a non-ASCII one of the same extension.
 */
static bool
names_choose(struct mime_part *p, const struct names *n)
{
	struct str chosen = { NULL, 0 }, other;
	size_t i;

	for (i = 0; i < 4; i++) {
		if (!n->present[i])
			continue;
		other = buf_str(&n->text[i]);
		if (chosen.p == NULL) {
			chosen = other.n == 0 ? str_lit("") : other;
			if (!copy(p->filename, sizeof(p->filename), chosen))
				return false;
			continue;
		}
		if (str_eq(other, chosen))
			continue;
		if (is_ascii(chosen) || !is_ascii(other) ||
		    !str_ieq(extension(other), extension(chosen)) ||
		    (p->filename_ascii[0] != '\0' &&
			!str_eq(other, str_of(p->filename_ascii))) ||
		    !copy(p->filename_ascii, sizeof(p->filename_ascii), other))
			return false;
	}
	return true;
}

static bool
read_disposition(struct mime_part *p, const struct header *h,
    struct names *names, const char **why)
{
	const struct header_field *f = header_find(h, "Content-Disposition", 0);
	struct param_list l;
	bool ok;

	if (f == NULL)
		return true;
	if (!param_parse(&l, f->value, false, why))
		return false;
	p->disposition = strcmp(l.head, "inline") == 0
			     ? MIME_DISPOSITION_INLINE
			     : MIME_DISPOSITION_ATTACHMENT;
	ok = names_take(names, 0, &l, "filename");
	param_free(&l);
	return ok;
}

static void
read_content_id(struct mime_part *p, const struct header *h)
{
	const struct header_field *f = header_find(h, "Content-ID", 0);
	struct buf text = { 0 };
	struct str s;

	if (f == NULL)
		return;
	header_decode(&text, f->value, NULL);
	s = buf_str(&text);
	if (s.n >= 2 && s.p[0] == '<' && s.p[s.n - 1] == '>')
		s = (struct str){ s.p + 1, s.n - 2 };
	(void)copy(p->content_id, sizeof(p->content_id), s);
	buf_free(&text);
}

static bool
read_content_type(struct entity *e, const struct header *h,
    const char *default_type, struct names *names, const char **why)
{
	const struct header_field *f = header_find(h, "Content-Type", 0);
	struct param_list l;
	bool ok;

	if (!param_parse(
		&l, f != NULL ? f->value : str_of(default_type), true, why))
		return false;
	_Static_assert(sizeof(l.head) == sizeof(e->part->type), "one size");
	memcpy(e->part->type, l.head, sizeof(l.head));
	ok = read_type(e, &l, why);
	if (ok && !names_take(names, 2, &l, "name")) {
		*why = "A file name cannot be read in one way.";
		ok = false;
	}
	param_free(&l);
	return ok;
}

static bool
read_names(struct entity *e, const struct header *h, const char *default_type,
    const char **why)
{
	struct names names = { 0 };
	bool ok;

	ok = read_content_type(e, h, default_type, &names, why);
	if (ok) {
		*why = "A file name cannot be read in one way.";
		ok = read_disposition(e->part, h, &names, why) &&
		     names_choose(e->part, &names);
		if (ok && strcasecmp(e->part->filename, "winmail.dat") == 0) {
			*why = tnef_why;
			ok = false;
		}
	}
	names_free(&names);
	return ok;
}

static bool
take_from_type(struct names *names, const struct header *h)
{
	const struct header_field *f = header_find(h, "Content-Type", 0);
	struct param_list l;
	const char *why;
	bool ok;

	if (f == NULL)
		return true;
	if (!param_parse(&l, f->value, true, &why))
		return false;
	ok = names_take(names, 2, &l, "name");
	param_free(&l);
	return ok;
}

bool
entity_filename(struct str section, header_word_fn *fn, void *arg,
    char out[STRUCTURE_NAME_MAX])
{
	struct names names = { .fn = fn, .arg = arg };
	struct mime_part part = { 0 };
	struct header h;
	const char *why;
	bool ok;

	if (!header_parse(&h, section, &why))
		return false;
	ok = take_from_type(&names, &h) &&
	     read_disposition(&part, &h, &names, &why) &&
	     names_choose(&part, &names);
	if (ok)
		memcpy(out, part.filename, sizeof(part.filename));
	names_free(&names);
	header_free(&h);
	return ok;
}

/* "1.0", with comments. */
static bool
version_valid(const struct header *h)
{
	const struct header_field *f = header_find(h, "MIME-Version", 0);
	struct str v;

	if (f == NULL)
		return true;
	v = header_trim(f->value);
	return str_starts(v, str_lit("1.0")) &&
	       (v.n == 3 || v.p[3] == ' ' || v.p[3] == '\t' || v.p[3] == '(' ||
		   v.p[3] == '\r');
}

static bool
all_once(const struct header *h, const char *const *names, size_t n,
    const char **why)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (header_count(h, names[i]) > 1) {
			*why = "A field stands twice in the header of a part.";
			return false;
		}
	}
	return true;
}
#define ALL_ONCE(h, names, why)                                                \
	all_once(h, names, sizeof(names) / sizeof((names)[0]), why)

bool
entity_read(struct entity *e, struct str section, const char *default_type,
    const char **why)
{
	struct header h;
	bool ok = true;

	if (!header_parse(&h, section, why))
		return false;
	e->has_8bit = h.has_8bit;
	if (h.has_8bit && !h.is_utf8) {
		*why = "A header has bytes that are not UTF-8.";
		ok = false;
	}
	ok = ok && ALL_ONCE(&h, once, why) &&
	     (!e->is_message || ALL_ONCE(&h, once_in_message, why));
	if (ok && !version_valid(&h)) {
		*why = "MIME-Version is not 1.0.";
		ok = false;
	}
	ok = ok && read_names(e, &h, default_type, why) &&
	     read_encoding(e->part, &h, why);
	if (ok)
		read_content_id(e->part, &h);
	header_free(&h);
	return ok;
}
