/* SPDX-License-Identifier: ISC */
#include "admin/links.h"

#include <string.h>

#include "mail/finding.h"

static void
mark(void *arg, enum finding f, struct str what)
{
	struct link *link = arg;

	(void)what;
	link->differs |= f == FINDING_LINK_MISMATCH;
	link->odd |= f == FINDING_LINK_ODD;
}

static bool
is_there(const struct links *links, struct str target, struct str text)
{
	size_t i;

	for (i = 0; i < links->n; i++)
		if (str_eq(target, str_of(links->link[i].target)) &&
		    str_eq(text, str_of(links->link[i].text)))
			return true;
	return false;
}

static void
add_link(struct links *links, struct str target, struct str text)
{
	struct link *link = &links->link[links->n];

	target = str_trim(target);
	text = str_trim(text);
	if (target.n == 0 || is_there(links, target, text))
		return;
	if (links->n == LINKS_MAX) {
		links->more++;
		return;
	}
	links->n++;
	*link = (struct link){ .target = arena_str(links->mem, target),
		.text = arena_str(links->mem, text),
		.host = arena_str(links->mem, finding_link_host(target)) };
	finding_search_link(target, text, mark, link);
}

static void
add_picture(struct links *links, struct str target)
{
	if (links->pictures == LINKS_MAX)
		links->pictures_more++;
	else
		links->picture[links->pictures++] =
		    arena_str(links->mem, target);
}

static void
add_hidden(struct links *links, struct str line)
{
	struct str how = str_split(&line, '\t');

	if (links->hiddens == LINKS_MAX)
		links->hiddens_more++;
	else
		links->hidden[links->hiddens++] =
		    (struct hidden){ arena_str(links->mem, how),
			    arena_str(links->mem, line) };
}

static void
take_line(struct links *links, struct str line)
{
	char letter = line.n >= 2 && line.p[1] == ' ' ? line.p[0] : '\0';
	struct str target;

	line.p += letter != '\0' ? 2 : 0;
	line.n -= letter != '\0' ? 2 : 0;
	switch (letter) {
	case 'L':
		target = str_split(&line, '\t');
		add_link(links, target, line);
		break;
	case 'I':
		add_picture(links, line);
		break;
	case 'H':
		add_hidden(links, line);
		break;
	default:
		break;
	}
}

void
links_html(struct links *links, struct str report)
{
	while (report.n > 0)
		take_line(links, str_split(&report, '\n'));
}

static bool
begins_address(struct str s)
{
	return str_istarts(s, str_lit("http://")) ||
	       str_istarts(s, str_lit("https://"));
}

/* What closes a sentence or a bracket is not of the address. */
static struct str
without_tail(struct str s)
{
	while (s.n > 0 && strchr(".,;:!?)]}'", s.p[s.n - 1]) != NULL)
		s.n--;
	return s;
}

void
links_text(struct links *links, struct str text)
{
	while (text.n > 0) {
		struct str target = { text.p, 0 };

		if (begins_address(text))
			while (target.n < text.n &&
			       strchr(" \t\r\n<>\"", text.p[target.n]) == NULL)
				target.n++;
		if (target.n > 0)
			add_link(
			    links, without_tail(target), (struct str){ "", 0 });
		else
			target.n = 1;
		text.p += target.n;
		text.n -= target.n;
	}
}
