/* SPDX-License-Identifier: ISC */
#include "base/codec.h"

#include <openssl/evp.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

static const char base32_alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
/* Of each character from 0 to z its place there, from 1 on. */
static const unsigned char base32_digit[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11, 12, 13, 14, 15, 16, 17,
	18, 0, 19, 20, 0, 21, 22, 0, 23, 24, 25, 26, 27, 0, 28, 29, 30, 31,
	32 };

void
base32_encode(char *out, const void *p, size_t n)
{
	const unsigned char *in = p;
	size_t len = BASE32_LEN(n), i;
	unsigned acc = 0, bits = (unsigned)(len * 5 - n * 8);

	/* `bits` counts the zero bits that pad the number on the left. */
	for (i = 0; i < len; i++) {
		if (bits < 5) {
			acc = (acc << 8 | *in++) & 0xfff;
			bits += 8;
		}
		bits -= 5;
		out[i] = base32_alphabet[acc >> bits & 31];
	}
	out[len] = '\0';
}

bool
base32_decode(void *out, size_t n, const char *s, size_t len)
{
	unsigned char *to = out;
	size_t i;
	unsigned acc = 0, bits = 0, pad = (unsigned)(len * 5 - n * 8), digit;

	if (len != BASE32_LEN(n))
		return false;
	for (i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > 'z')
			return false;
		digit = base32_digit[s[i] - '0'];
		if (digit == 0)
			return false;
		acc = (acc << 5 | (digit - 1)) & 0xfff;
		bits += 5;
		if (i == 0 && pad != 0) {
			bits -= pad;
			if (acc >> bits != 0)
				return false;
		}
		if (bits >= 8) {
			bits -= 8;
			*to++ = (unsigned char)(acc >> bits);
		}
	}
	return true;
}

size_t
dec_encode(char out[DEC_MAX], int64_t v)
{
	uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	char digits[DEC_MAX];
	size_t n = 0, len = 0;

	do {
		digits[n++] = (char)('0' + u % 10);
		u /= 10;
	} while (u > 0);
	if (v < 0)
		out[len++] = '-';
	while (n > 0)
		out[len++] = digits[--n];
	out[len] = '\0';
	return len;
}

void
hex_encode(char *out, const void *p, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *in = p;
	size_t i;

	for (i = 0; i < n; i++) {
		out[2 * i] = digits[in[i] >> 4];
		out[2 * i + 1] = digits[in[i] & 15];
	}
	out[2 * n] = '\0';
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

bool
hex_decode(void *out, size_t n, const char *s, size_t len)
{
	unsigned char *to = out;
	size_t i;

	if (len != 2 * n)
		return false;
	for (i = 0; i < n; i++) {
		int hi = hex_digit(s[2 * i]), lo = hex_digit(s[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return false;
		to[i] = (unsigned char)(hi << 4 | lo);
	}
	return true;
}

void
base64_encode(char *out, const void *p, size_t n)
{
	BUG_ON(n > INT_MAX / 2);
	(void)EVP_EncodeBlock((unsigned char *)out, p, (int)n);
}

static bool
base64_is_clean(const char *s, size_t len, size_t *padding)
{
	size_t i, body = len;

	while (body > 0 && len - body < 2 && s[body - 1] == '=')
		body--;
	*padding = len - body;
	for (i = 0; i < body; i++) {
		char c = s[i];

		if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
			(c >= '0' && c <= '9') || c == '+' || c == '/'))
			return false;
	}
	return true;
}

bool
base64_decode(void *out, size_t *n, const char *s, size_t len)
{
	size_t padding;
	int got;

	if (len % 4 != 0 || len > INT_MAX / 2 ||
	    !base64_is_clean(s, len, &padding))
		return false;
	if (len == 0) {
		*n = 0;
		return true;
	}
	got = EVP_DecodeBlock(out, (const unsigned char *)s, (int)len);
	if (got < 0)
		return false;
	*n = (size_t)got - padding;
	return true;
}

void
base64url_encode(char *out, const void *p, size_t n)
{
	size_t i;

	base64_encode(out, p, n);
	for (i = 0; out[i] != '\0'; i++) {
		if (out[i] == '+')
			out[i] = '-';
		else if (out[i] == '/')
			out[i] = '_';
		else if (out[i] == '=') {
			out[i] = '\0';
			break;
		}
	}
}

bool
base64url_decode(void *out, size_t *n, const char *s, size_t len)
{
	size_t full = (len + 3) / 4 * 4, i;
	char *copy;
	bool ok;

	if (len % 4 == 1)
		return false;
	copy = xmalloc(full + 1);
	for (i = 0; i < full; i++) {
		char c = i < len ? s[i] : '=';

		if (i < len && (c == '+' || c == '/' || c == '='))
			c = '!';
		copy[i] = (char)(c == '-' ? '+' : c == '_' ? '/' : c);
	}
	ok = base64_decode(out, n, copy, full);
	free(copy);
	return ok;
}

uint32_t
crc32_ieee(uint32_t crc, const void *p, size_t n)
{
	/* four bits at a time */
	static const uint32_t step[16] = { 0x00000000, 0x1db71064, 0x3b6e20c8,
		0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0,
		0x86d3d2d4, 0xa00ae278, 0xbdbdf21c };
	const unsigned char *in = p;
	size_t i;

	crc = ~crc;
	for (i = 0; i < n; i++) {
		crc ^= in[i];
		crc = crc >> 4 ^ step[crc & 15];
		crc = crc >> 4 ^ step[crc & 15];
	}
	return ~crc;
}
