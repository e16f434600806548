/* SPDX-License-Identifier: ISC */
/*
 * codec.h - text forms of bytes.
 *
 * base32 is Crockford's alphabet in lower case, read as one big-endian number
 * with leading zero bits (as ULIDs are): 16 bytes are 26 characters, 32 are
 * 52, 4 are 7. Decoders are strict: exact length, lower case, no aliases.
 */
#ifndef BASE_CODEC_H
#define BASE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BASE32_LEN(n) (((n)*8 + 4) / 5)
#define BASE64_LEN(n) (((n) + 2) / 3 * 4)

/* Writes BASE32_LEN(n) characters and a NUL. */
void base32_encode(char *out, const void *p, size_t n);
/* Decode `len` characters into exactly `n` bytes. */
bool base32_decode(void *out, size_t n, const char *s, size_t len);

/* Writes `v` in decimal and a NUL; returns the number of characters. */
#define DEC_MAX 21
size_t dec_encode(char out[DEC_MAX], int64_t v);

/* Writes 2 * n characters and a NUL. */
void hex_encode(char *out, const void *p, size_t n);
bool hex_decode(void *out, size_t n, const char *s, size_t len);

/* Writes BASE64_LEN(n) characters and a NUL, with padding, no line breaks. */
void base64_encode(char *out, const void *p, size_t n);
/*
 * Decode padded base64 without white space into `out`, which has room for
 * len / 4 * 3 bytes. False when it is not exactly that.
 */
bool base64_decode(void *out, size_t *n, const char *s, size_t len);

/* URL-safe alphabet, no padding. `out` has room for BASE64_LEN(n) + 1. */
void base64url_encode(char *out, const void *p, size_t n);
/* `out` has room for (len + 3) / 4 * 3 bytes. */
bool base64url_decode(void *out, size_t *n, const char *s, size_t len);

/* CRC-32 of IEEE 802.3; start with 0, pass the last value to go on. */
uint32_t crc32_ieee(uint32_t crc, const void *p, size_t n);

#endif
