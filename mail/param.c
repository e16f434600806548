/* SPDX-License-Identifier: ISC */
#include "mail/param.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "mail/transfer.h"

#define SECTION_MAX 63

struct cursor {
	char *p, *end;
};

static void
skip_space(struct cursor *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\t'))
		c->p++;
}

static bool
take(struct cursor *c, char want)
{
	if (c->p == c->end || *c->p != want)
		return false;
	c->p++;
	return true;
}

/* RFC 2045 token. */
static struct str
take_token(struct cursor *c)
{
	char *from = c->p;

	while (c->p<c->end && * c->p> 32 && *c->p < 127 &&
	       strchr("()<>@,;:\\\"/[]?=", *c->p) == NULL)
		c->p++;
	return (struct str){ from, (size_t)(c->p - from) };
}

/* Quoted string, unescaped in place. */
static bool
take_quoted(struct cursor *c, struct str *out)
{
	char *to = c->p;

	out->p = to;
	while (c->p < c->end && *c->p != '"') {
		if (*c->p == '\\' && ++c->p == c->end)
			return false;
		*to++ = *c->p++;
	}
	out->n = (size_t)(to - out->p);
	return take(c, '"');
}

/* "name", "name*", "name*3", "name*3*" taken apart. */
static bool
name_split(struct param *p, char *name, size_t n)
{
	struct str rest = { name, n };
	unsigned long long section;

	p->section = -1;
	str_lower(name, n);
	p->name = str_split(&rest, '*');
	if (p->name.n == 0 || p->name.n > 32)
		return false;
	if (p->name.n == n)
		return true;
	if (rest.n == 0) {
		p->is_extended = true;
		return true;
	}
	if (rest.p[rest.n - 1] == '*') {
		p->is_extended = true;
		rest.n--;
	}
	if (rest.n > 1 && rest.p[0] == '0')
		return false;
	if (!str_to_u64(rest, SECTION_MAX, &section))
		return false;
	p->section = (int)section;
	return true;
}

static bool
is_duplicate(const struct param_list *l, const struct param *p)
{
	size_t i;

	for (i = 0; i < l->count; i++) {
		if (str_eq(l->param[i].name, p->name) &&
		    l->param[i].section == p->section &&
		    (p->section >= 0 ||
			l->param[i].is_extended == p->is_extended))
			return true;
	}
	return false;
}

static bool
param_take(struct param_list *l, struct cursor *c, const char **why)
{
	struct param p = { 0 };
	struct str name = take_token(c);

	*why = "A MIME parameter is malformed.";
	if (name.n == 0 || !name_split(&p, c->p - name.n, name.n))
		return false;
	skip_space(c);
	if (!take(c, '='))
		return false;
	skip_space(c);
	if (take(c, '"')) {
		if (!take_quoted(c, &p.value))
			return false;
	} else {
		p.value = take_token(c);
		if (p.value.n == 0)
			return false;
	}
	if (is_duplicate(l, &p)) {
		*why = "A MIME parameter is given twice.";
		return false;
	}
	if (l->count == PARAM_MAX) {
		*why = "A MIME field has more than 64 parameters.";
		return false;
	}
	l->param[l->count++] = p;
	return true;
}

static bool
head_take(struct param_list *l, struct cursor *c, bool is_type)
{
	struct str a, b = { NULL, 0 };
	char *from;

	skip_space(c);
	from = c->p;
	a = take_token(c);
	if (a.n == 0)
		return false;
	if (is_type) {
		if (!take(c, '/'))
			return false;
		b = take_token(c);
		if (b.n == 0)
			return false;
	}
	if ((size_t)(c->p - from) >= sizeof(l->head))
		return false;
	memcpy(l->head, from, (size_t)(c->p - from));
	str_lower(l->head, (size_t)(c->p - from));
	return true;
}

bool
param_parse(
    struct param_list *l, struct str value, bool is_type, const char **why)
{
	struct buf flat = { 0 };
	struct cursor c;
	bool ok;

	memset(l, 0, sizeof(*l));
	header_unfold(&flat, value);
	buf_putc(&flat, '\0');
	l->text = (char *)flat.p;
	c.p = l->text;
	c.end = l->text + flat.n - 1;
	*why = "A MIME field is malformed.";
	ok = head_take(l, &c, is_type);
	skip_space(&c);
	while (ok && c.p < c.end) {
		ok = take(&c, ';');
		skip_space(&c);
		if (!ok || c.p == c.end)
			break;
		ok = param_take(l, &c, why);
		skip_space(&c);
	}
	if (!ok)
		param_free(l);
	return ok;
}

void
param_free(struct param_list *l)
{
	free(l->text);
	l->text = NULL;
	l->count = 0;
}

static const struct param *
find(const struct param_list *l, const char *name, int section)
{
	size_t i;

	for (i = 0; i < l->count; i++) {
		if (str_eq(l->param[i].name, str_of(name)) &&
		    l->param[i].section == section &&
		    (section >= 0 || l->param[i].is_extended))
			return &l->param[i];
	}
	return NULL;
}

static size_t
sections(const struct param_list *l, const char *name)
{
	size_t i, n = 0;

	for (i = 0; i < l->count; i++)
		n += str_eq(l->param[i].name, str_of(name)) &&
		     l->param[i].section >= 0;
	return n;
}

enum param_form
param_plain(const struct param_list *l, const char *name, struct str *out)
{
	size_t i;

	for (i = 0; i < l->count; i++) {
		if (str_eq(l->param[i].name, str_of(name)) &&
		    l->param[i].section < 0 && !l->param[i].is_extended) {
			*out = l->param[i].value;
			return PARAM_PRESENT;
		}
	}
	return PARAM_ABSENT;
}

/* charset'language'text */
static bool
charset_take(struct str *s, struct str *charset)
{
	struct str language;

	*charset = str_split(s, '\'');
	if (charset->n == 0 || memchr(s->p, '\'', s->n) == NULL)
		return false;
	language = str_split(s, '\'');
	(void)language;
	return true;
}

/* What can stand in an encoded word and mean nothing else there. */
static bool
charset_is_name(struct str s)
{
	size_t i;

	for (i = 0; i < s.n; i++) {
		if (!(s.p[i] >= '0' && s.p[i] <= '9') &&
		    !((s.p[i] | 0x20) >= 'a' && (s.p[i] | 0x20) <= 'z') &&
		    strchr("-_.:+", s.p[i]) == NULL)
			return false;
	}
	return s.n > 0 && s.n <= 40;
}

/*
 * Bytes in a charset of RFC 2231, as UTF-8; or, when the charset is not ours
 * to decode, as the encoded word that says the same.
 */
static void
to_utf8(struct buf *out, struct str charset, const struct buf *bytes,
    header_word_fn *fn, void *arg)
{
	char *b64 = xmalloc(BASE64_LEN(bytes->n) + 1);
	struct buf word = { 0 };

	/* the one charset table is that of encoded words */
	base64_encode(b64, bytes->p, bytes->n);
	buf_printf(&word, "=?%.*s?B?%s?=", (int)charset.n, charset.p, b64);
	header_decode_with(out, buf_str(&word), NULL, fn, arg);
	buf_free(&word);
	free(b64);
}

enum param_form
param_extended(const struct param_list *l, const char *name, struct buf *out)
{
	return param_extended_with(l, name, out, NULL, NULL);
}

enum param_form
param_extended_with(const struct param_list *l, const char *name,
    struct buf *out, header_word_fn *fn, void *arg)
{
	const struct param *p = find(l, name, -1);
	size_t n = sections(l, name), i;
	struct str charset = str_lit("utf-8"), s;
	struct buf bytes = { 0 };
	bool ok = true;

	if (p == NULL && n == 0)
		return PARAM_ABSENT;
	if (p != NULL && n > 0)
		return PARAM_BAD;
	if (n > 0)
		p = find(l, name, 0);
	for (i = 0; ok && p != NULL; p = find(l, name, (int)i)) {
		s = p->value;
		if (p->is_extended && i == 0)
			ok = charset_take(&s, &charset);
		if (p->is_extended)
			ok = ok && transfer_percent(&bytes, s);
		else
			buf_add_str(&bytes, s);
		if (++i >= n)
			break;
	}
	ok = ok && i == (n == 0 ? 1 : n) && charset_is_name(charset);
	if (ok && bytes.n > 0)
		to_utf8(out, charset, &bytes, fn, arg);
	buf_free(&bytes);
	return ok ? PARAM_PRESENT : PARAM_BAD;
}
