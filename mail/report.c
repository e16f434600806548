/* SPDX-License-Identifier: ISC */
/* report.c - three parts, in the order of RFC 6522 section 3. */
#include "mail/report.h"

#include "mail/header.h"

#define SAID_MAX 400 /* of a reply, in one field */
#define SAID_WHOLE 100 /* recipients; of more than that each has less */

static const struct words {
	const char *subject, *action, *status, *says;
} words[] = {
	[REPORT_FAILED] = { "Delivery failed", "failed", "5.0.0",
	    "Your message could not be delivered to:" },
	[REPORT_DELAYED] = { "Delivery delayed", "delayed", "4.0.0",
	    "Your message is not delivered yet, and goes on being tried, to:" },
	[REPORT_RELAYED] = { "Delivery handed over", "relayed", "2.0.0",
	    "Your message was handed to a host that will report no more, "
	    "for:" },
};

#define DOUBT                                                                  \
	"Your message may have arrived: nobody answered when it was handed "   \
	"over. It is tried once more, at the same host, for:"

/* One line; what is not printable ASCII becomes a question mark. */
static void
put_said(struct buf *out, const struct report *r, struct str s)
{
	size_t i, most = SAID_MAX;

	if (r->rcpt_count > SAID_WHOLE)
		most = SAID_MAX * SAID_WHOLE / r->rcpt_count;
	for (i = 0; i < s.n && i < most; i++) {
		unsigned char c = (unsigned char)s.p[i];

		buf_putc(out, c >= 0x20 && c < 0x7f ? (char)c : '?');
	}
}

/* RFC 6533: an address with other than ASCII is of another type. */
static void
put_address(struct buf *out, const char *name, struct str address)
{
	buf_printf(out, "%s: %s; %.*s\r\n", name,
	    str_has_8bit(address) ? "utf-8" : "rfc822", (int)address.n,
	    address.p);
}

static void
put_date(struct buf *out, const char *name, int64_t us)
{
	char date[40];

	header_date_format(date, us);
	buf_printf(out, "%s: %s\r\n", name, date);
}

static void
put_top(struct buf *out, const struct report *r, const struct words *w)
{
	put_date(out, "Date", r->now_us);
	buf_printf(out,
	    "From: Postern <postmaster@%.*s>\r\n"
	    "To: <%.*s>\r\nSubject: %s\r\nMessage-ID: <%s.%lld@%.*s>\r\n"
	    "Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n"
	    "Content-Type: multipart/report; report-type=delivery-status;\r\n"
	    " boundary=\"=_%s_report\"\r\n\r\n",
	    (int)r->hostname.n, r->hostname.p, (int)r->inbox.n, r->inbox.p,
	    w->subject, r->id, (long long)r->now_us, (int)r->hostname.n,
	    r->hostname.p, r->id);
}

static void
begin_part(struct buf *out, const struct report *r, const char *type)
{
	buf_printf(
	    out, "--=_%s_report\r\nContent-Type: %s\r\n\r\n", r->id, type);
}

static void
put_text(struct buf *out, const struct report *r, const struct words *w)
{
	size_t i;

	begin_part(out, r, "text/plain; charset=utf-8");
	buf_printf(out, "Message %s: %s\r\n\r\n%s\r\n\r\n", r->id, w->subject,
	    r->kind == REPORT_DELAYED && r->doubt ? DOUBT : w->says);
	for (i = 0; i < r->rcpt_count; i++) {
		const struct report_rcpt *to = &r->rcpt[i];

		buf_printf(out, "  %.*s\r\n    %s: ", (int)to->address.n,
		    to->address.p,
		    to->code != 0 ? "the other host said (unverified)"
				  : "reason");
		if (to->code != 0)
			buf_printf(out, "%03d ", to->code);
		put_said(out, r, to->text);
		buf_puts(out, "\r\n");
	}
	if (r->kind == REPORT_DELAYED)
		buf_puts(out, "\r\nDo not send it again.\r\n");
	buf_puts(out, "\r\n");
}

static void
put_rcpt(struct buf *out, const struct report *r, const struct words *w,
    const struct report_rcpt *to)
{
	buf_puts(out, "\r\n");
	put_address(out, "Final-Recipient", to->address);
	buf_printf(out, "Action: %s\r\nStatus: ", w->action);
	/* It must be of the class that the action is. */
	if (to->enhanced.n > 0 && to->enhanced.p[0] == w->status[0])
		buf_add_str(out, to->enhanced);
	else if (r->kind == REPORT_FAILED && to->code / 100 != 5)
		buf_puts(out, "4.4.7"); /* never refused: the time is over */
	else
		buf_puts(out, w->status);
	buf_puts(out, "\r\n");
	if (r->remote[0] != '\0')
		buf_printf(out, "Remote-MTA: dns; %s\r\n", r->remote);
	if (to->code != 0)
		buf_printf(out, "Diagnostic-Code: smtp; %03d ", to->code);
	else
		buf_puts(out, "Diagnostic-Code: X-Postern; ");
	if (to->code != 0 && to->enhanced.n > 0)
		buf_printf(out, "%.*s ", (int)to->enhanced.n, to->enhanced.p);
	put_said(out, r, to->text);
	buf_puts(out, "\r\n");
	put_date(out, "Last-Attempt-Date", r->now_us);
	if (r->kind == REPORT_DELAYED)
		put_date(out, "Will-Retry-Until", r->until_us);
}

static void
put_status(struct buf *out, const struct report *r, const struct words *w)
{
	bool utf8 = false;
	size_t i;

	for (i = 0; i < r->rcpt_count; i++)
		utf8 |= str_has_8bit(r->rcpt[i].address);
	begin_part(out, r,
	    utf8 ? "message/global-delivery-status"
		 : "message/delivery-status");
	buf_printf(out,
	    "Original-Envelope-Id: %s\r\nReporting-MTA: dns; %.*s\r\n", r->id,
	    (int)r->hostname.n, r->hostname.p);
	put_date(out, "Arrival-Date", r->arrival_us);
	for (i = 0; i < r->rcpt_count; i++)
		put_rcpt(out, r, w, &r->rcpt[i]);
	buf_puts(out, "\r\n");
}

/* Whole lines of it, as many as there is room for. */
static struct str
cut(struct str head, size_t room)
{
	if (head.n <= room)
		return head;
	while (room > 0 && head.p[room - 1] != '\n')
		room--;
	return (struct str){ head.p, room };
}

void
report_build(struct buf *out, const struct report *r)
{
	const struct words *w = &words[r->kind];
	size_t room = REPORT_BYTES_MAX;

	put_top(out, r, w);
	put_text(out, r, w);
	put_status(out, r, w);
	room -= out->n < room - 1024 ? out->n + 1024 : room;
	if (r->body.p != NULL && r->head.n + r->body.n + 2 <= room) {
		begin_part(out, r,
		    str_has_8bit(r->head) ? "message/global"
					  : "message/rfc822");
		buf_add_str(out, r->head);
		buf_puts(out, "\r\n");
		buf_add_str(out, r->body);
	} else {
		begin_part(out, r,
		    str_has_8bit(r->head) ? "message/global-headers"
					  : "text/rfc822-headers");
		buf_add_str(out, cut(r->head, room));
	}
	buf_printf(out, "\r\n--=_%s_report--\r\n", r->id);
}
