/* SPDX-License-Identifier: ISC */
/*
 * view_links.c - where a message leads, what it fetches and what it hides
 *
 * Addresses are text here, in full: nothing on this page follows one. A button
 * to copy each is added by the script.
 */
#include "admin/links.h"
#include "admin/view.h"

#include "admin/html.h"
#include "admin/view_message.h"
#include "base/buf.h"

static void
put_link(struct buf *out, const struct link *link)
{
	HTML(out, LIT("<li>"));
	if (link->text[0] != '\0')
		HTML(out, LIT("<span class=\"shown\"><bdi>"), TEXT(link->text),
		    LIT("</bdi></span> "));
	HTML(out, LIT("<code class=\"target\" data-copy><bdi>"),
	    TEXT(link->target), LIT("</bdi></code>"));
	if (link->host[0] != '\0')
		HTML(out, LIT(" <span class=\"chip\">leads to <bdi>"),
		    TEXT(link->host), LIT("</bdi></span>"));
	if (link->differs)
		HTML(out, LIT(" <span class=\"chip warn\">shows another place"
			      "</span>"));
	if (link->odd)
		HTML(out, LIT(" <span class=\"chip warn\">unusual</span>"));
	HTML(out, LIT("</li>"));
}

static void
put_more(struct buf *out, size_t more)
{
	if (more > 0)
		HTML(out, LIT("<li class=\"muted\">and "), NUM(more),
		    LIT(" more</li>"));
}

static void
put_pictures(struct buf *out, const struct links *links)
{
	size_t i;

	if (links->pictures == 0)
		return;
	HTML(out,
	    LIT("<h3>Pictures that its readers fetch <span class=\"muted\">"),
	    NUM(links->pictures + links->pictures_more),
	    LIT("</span></h3><ul class=\"links\">"));
	for (i = 0; i < links->pictures; i++)
		HTML(out, LIT("<li><code class=\"target\" data-copy><bdi>"),
		    TEXT(links->picture[i]), LIT("</bdi></code></li>"));
	put_more(out, links->pictures_more);
	HTML(out, LIT("</ul>"));
}

static void
put_hidden(struct buf *out, const struct links *links)
{
	size_t i;

	if (links->hiddens == 0)
		return;
	HTML(out,
	    LIT("<h3>Text that its readers do not see <span class=\"muted\">"),
	    NUM(links->hiddens + links->hiddens_more),
	    LIT("</span></h3><ul class=\"links\" id=\"hidden\">"));
	for (i = 0; i < links->hiddens; i++)
		HTML(out, LIT("<li><span class=\"chip warn\">"),
		    TEXT(links->hidden[i].how), LIT("</span> <bdi>"),
		    TEXT(links->hidden[i].text), LIT("</bdi></li>"));
	put_more(out, links->hiddens_more);
	HTML(out, LIT("</ul>"));
}

void
view_message_links(struct buf *out, const struct view_message *m)
{
	const struct links *links = m->links;
	size_t i;

	if (links == NULL || links->n + links->pictures + links->hiddens == 0)
		return;
	HTML(out,
	    LIT("<section class=\"panel\" id=\"links\"><h2>Links "
		"<span class=\"muted\">"),
	    NUM(links->n + links->more), LIT("</span></h2>"));
	if (links->n > 0)
		HTML(out, LIT("<ul class=\"links\">"));
	for (i = 0; i < links->n; i++)
		put_link(out, &links->link[i]);
	put_more(out, links->more);
	HTML(out, LIT_IF(links->n > 0, "</ul>"));
	put_pictures(out, links);
	put_hidden(out, links);
	HTML(out, LIT("</section>"));
}
