/* SPDX-License-Identifier: ISC */
/*
 * parse.h - one SMTP command line, turned into a struct once.
 *
 * Pure functions of bytes: no session, no I/O, nothing allocated. The parsed
 * command points into the line it came from. Handlers never see text again.
 */
#ifndef SMTPD_PARSE_H
#define SMTPD_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "mail/envelope.h"

enum {
	SMTP_LINE_MAX = 2048, /* a command; RFC 5321 4.5.3.1.4 and additions */
	SMTP_AUTH_LINE_MAX = 12288, /* RFC 4954 section 4 */
	SMTP_PATH_MAX = 320 /* longer local parts exist (VERP) */
};

enum smtp_verb {
	SMTP_EHLO,
	SMTP_HELO,
	SMTP_STARTTLS,
	SMTP_AUTH,
	SMTP_MAIL,
	SMTP_RCPT,
	SMTP_DATA,
	SMTP_RSET,
	SMTP_NOOP,
	SMTP_VRFY,
	SMTP_HELP,
	SMTP_QUIT,
	SMTP_BDAT, /* not offered: its payload must not run as commands */
	SMTP_REFUSED, /* EXPN, ETRN, TURN and friends */
	SMTP_FOREIGN, /* another protocol: an HTTP verb, a TLS record */
	SMTP_UNKNOWN,
	SMTP_VERBS
};

/* What is wrong with the line, apart from its verb. */
enum smtp_fault {
	SMTP_FINE,
	SMTP_BAD_BYTES, /* NUL, bare CR, other control characters */
	SMTP_TOO_LONG,
	SMTP_BAD_ARGUMENT, /* missing, superfluous or malformed */
	SMTP_BAD_SENDER,
	SMTP_ROUTE_SENDER, /* <@relay:user@domain> */
	SMTP_BAD_RECIPIENT,
	SMTP_ROUTE_RECIPIENT,
	SMTP_BAD_PARAM, /* known, with a wrong value or given twice */
	SMTP_UNKNOWN_PARAM
};

enum smtp_body { SMTP_BODY_NONE, SMTP_BODY_7BIT, SMTP_BODY_8BITMIME };

struct smtp_command {
	enum smtp_verb verb;
	enum smtp_fault fault;
	struct str line; /* all of it */
	struct str arg; /* all after the verb, without outer spaces */
	struct str path; /* MAIL, RCPT: between < and > */
	struct str mechanism; /* AUTH */
	struct str initial; /* AUTH: base64, "=" or empty */
	bool has_initial;
	bool has_size;
	uint64_t size; /* MAIL SIZE= */
	enum smtp_body body; /* MAIL BODY= */
	enum envelope_ret ret; /* MAIL RET= */
	bool smtputf8, require_tls; /* MAIL */
	unsigned char notify; /* RCPT NOTIFY=, as ENVELOPE_...; 0: none */
};

/* `line` is without its CRLF. Always fills `cmd` wholly. */
void smtp_command_parse(struct smtp_command *cmd, const char *line, size_t n);

/* The verb as an upper-case word for logs: never bytes from the network. */
const char *smtp_verb_name(enum smtp_verb verb);

/*
 * Strict base64. `out` has room for `size` bytes, and at least in.n / 4 * 3
 * are needed; false when malformed or longer. "=" alone, which stands for an
 * empty response (RFC 4954 4), gives length 0.
 */
bool smtp_base64_decode(
    struct str in, unsigned char *out, size_t size, size_t *n);

/*
 * The PLAIN message [authzid] NUL authcid NUL password (RFC 4616), as views
 * into `p`. False when it has another shape or control characters in an id.
 */
bool smtp_plain_parse(const unsigned char *p, size_t n, struct str *authzid,
    struct str *authcid, struct str *password);

/* xtext (RFC 3461 4): no encoded NUL, CR or LF. */
bool smtp_xtext_is_valid(struct str in);

#endif
