/* SPDX-License-Identifier: ISC */
#include "mail/one_click.h"

#include <string.h>

#include "mail/header.h"
#include "mail/param.h"
#include "mail/structure.h"

#define FIELD "List-Unsubscribe"
#define FIELD_POST "List-Unsubscribe-Post"
#define WORD "One-Click"

bool
one_click_has_own(struct str head)
{
	while (head.n > 0) {
		struct str value = header_take_field(&head);
		struct str name = str_trim(str_split(&value, ':'));

		if (str_ieq(name, str_lit(FIELD)) ||
		    str_ieq(name, str_lit(FIELD_POST)))
			return true;
	}
	return false;
}

void
one_click_fields(struct buf *out, const char *base,
    const unsigned char token[ONE_CLICK_TOKEN])
{
	char text[ONE_CLICK_TEXT];

	base32_encode(text, token, ONE_CLICK_TOKEN);
	buf_printf(out,
	    FIELD ":\r\n <%s/u/%s>\r\n" FIELD_POST ": " FIELD "=" WORD "\r\n",
	    base, text);
}

bool
one_click_token(unsigned char token[ONE_CLICK_TOKEN], struct str text)
{
	return base32_decode(token, ONE_CLICK_TOKEN, text.p, text.n);
}

bool
one_click_is_word(struct str value)
{
	return str_eq(str_trim(value), str_lit(WORD));
}

/* Up to and with the next `mark`; false, and nothing taken, without one. */
static bool
take_until(struct str *rest, struct str mark, struct str *taken)
{
	const char *at = memmem(rest->p, rest->n, mark.p, mark.n);

	if (at == NULL)
		return false;
	*taken = (struct str){ rest->p, (size_t)(at - rest->p) };
	rest->n -= taken->n + mark.n;
	rest->p = at + mark.n;
	return true;
}

/* Is it the part of a form that has this name? */
static bool
is_field(struct str head)
{
	struct param_list list;
	const char *why;
	bool found = false;

	while (head.n > 0 && !found) {
		struct str line, value, name = { NULL, 0 };

		if (!take_until(&head, str_lit("\r\n"), &line)) {
			line = head;
			head.n = 0;
		}
		value = line;
		if (!str_ieq(str_trim(str_split(&value, ':')),
			str_lit("Content-Disposition")) ||
		    !param_parse(&list, str_trim(value), false, &why))
			continue;
		found = strcmp(list.head, "form-data") == 0 &&
			param_plain(&list, "name", &name) == PARAM_PRESENT &&
			str_eq(name, str_lit(FIELD));
		param_free(&list);
	}
	return found;
}

/* What ends each part; false when the type says none. */
static bool
read_boundary(struct str type, struct buf *mark)
{
	struct param_list list;
	struct str boundary;
	const char *why;
	bool ok;

	if (!param_parse(&list, type, true, &why))
		return false;
	ok = strcmp(list.head, "multipart/form-data") == 0 &&
	     param_plain(&list, "boundary", &boundary) == PARAM_PRESENT &&
	     boundary.n > 0 && boundary.n <= STRUCTURE_BOUNDARY_MAX;
	if (ok) {
		buf_puts(mark, "\r\n--");
		buf_add_str(mark, boundary);
	}
	param_free(&list);
	return ok;
}

bool
one_click_is_asked(struct str type, struct str body)
{
	struct buf mark = { 0 }, text = { 0 };
	struct str rest, part, head;
	size_t asked = 0, other = 0;
	bool ended = false;

	if (!read_boundary(type, &mark)) {
		buf_free(&mark);
		return false;
	}
	/* So that the first boundary looks like the others. */
	buf_puts(&text, "\r\n");
	buf_add_str(&text, body);
	rest = buf_str(&text);
	ended = !take_until(&rest, buf_str(&mark), &part);
	while (!ended && !str_starts(rest, str_lit("--"))) {
		ended = !str_starts(rest, str_lit("\r\n")) ||
			!take_until(&rest, buf_str(&mark), &part) ||
			!take_until(&part, str_lit("\r\n\r\n"), &head);
		if (ended || !is_field(head))
			continue;
		if (one_click_is_word(part))
			asked++;
		else
			other++;
	}
	buf_free(&mark);
	buf_free(&text);
	return !ended && asked == 1 && other == 0;
}
