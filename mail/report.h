/* SPDX-License-Identifier: ISC */
/*
 * report.h - a delivery status notification (RFC 3464 in RFC 6522) about a
 * message of ours: what failed, waits, or went where no more will be heard.
 *
 * Fixed words, no text of the agent's, and what a next hop said only where it
 * is marked as its words: printable ASCII, cut, never a line of its own.
 */
#ifndef MAIL_REPORT_H
#define MAIL_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define REPORT_BYTES_MAX 262144 /* above it the message's header is cut */

enum report_kind { REPORT_FAILED, REPORT_DELAYED, REPORT_RELAYED };

struct report_rcpt {
	struct str address; /* as on the wire */
	int code; /* 0: no reply came */
	struct str enhanced; /* "5.1.1"; empty: none was said */
	struct str text; /* the reply's, or ours when `code` is 0 */
};

struct report {
	enum report_kind kind;
	struct str hostname; /* ours */
	struct str inbox; /* whom it is for */
	const char *id; /* of the message, ENVID too: msg_... */
	const char *remote; /* the host that answered; "" = none */
	int64_t now_us, arrival_us, until_us; /* until: delayed only */
	bool doubt; /* delayed: nobody answered the dot before */
	const struct report_rcpt *rcpt;
	size_t rcpt_count;
	struct str head; /* the message's header section */
	struct str body; /* with .p NULL: the header alone is returned */
};

void report_build(struct buf *out, const struct report *r);

#endif
