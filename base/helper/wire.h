/* SPDX-License-Identifier: ISC */
/*
 * wire.h - what goes over descriptor 3 between a program and postern-decode
 *
 * One request, one reply, then both sides close. Integers are big-endian.
 *
 * Request: "PDC1", u8 kind, u8 encoding, u8 flags, u8 length of the charset,
 * u8 length of the type, 3 zero bytes, u32 length of the bytes; then charset,
 * type, bytes. A leaf comes as it stands in the message; a word is one
 * encoded word of RFC 2047, or a run of adjacent ones in one charset.
 *
 * Reply: "PDR1", u8 status, u8 flags, 2 zero bytes, u32 length; then so many
 * bytes of UTF-8.
 */
#ifndef BASE_HELPER_WIRE_H
#define BASE_HELPER_WIRE_H

#define HELPER_REQUEST_MAGIC "PDC1"
#define HELPER_REPLY_MAGIC "PDR1"
#define HELPER_REQUEST_HEAD 16
#define HELPER_REPLY_HEAD 12
#define HELPER_FD 3
#define HELPER_EXIT_SANDBOX 70 /* the sandbox does not close */

#define HELPER_NAME_MAX 64 /* of a charset or type */
#define HELPER_INPUT_MAX (1024 * 1024) /* encoded bytes of one request */
#define HELPER_FILE_MAX (8 * 1024 * 1024) /* the same of a HELPER_FILE */
#define HELPER_OUTPUT_MAX (256 * 1024) /* text of one reply */

enum helper_kind {
	HELPER_LEAF = 1,
	HELPER_WORD = 2,
	HELPER_HTML = 3, /* a leaf; the reply is a report, see decode/html.h */
	HELPER_FILE = 4, /* a leaf; the reply lists it, see decode/archive.h */
};
enum helper_encoding { HELPER_PLAIN = 0, HELPER_QP = 1, HELPER_BASE64 = 2 };
enum helper_status { HELPER_DECODED = 0, HELPER_NO_CHARSET = 1 };

#define HELPER_FLAG_MORE 1u /* request: the leaf goes on behind the bytes */
#define HELPER_FLAG_REPLACED 1u /* reply: wrong bytes became U+FFFD */
#define HELPER_FLAG_CUT 2u /* reply: the text goes on */

#endif
