/* SPDX-License-Identifier: ISC */
#include "seal/verp.h"

#include <openssl/crypto.h>
#include <sodium.h>
#include <string.h>

#include "base/codec.h"

#define NAME "postern.verp.1"
#define DAY_US (INT64_C(86400) * 1000000)
#define MAC 8
#define BYTES (2 + 16 + MAC)
#define CHARS BASE32_LEN(BYTES)
#define LOCAL_MAX 64

static void
mac(unsigned char out[MAC], const struct secret *key, struct str inbox,
    unsigned day, const struct uuid *message)
{
	unsigned char full[crypto_auth_hmacsha256_BYTES];
	crypto_auth_hmacsha256_state st;
	struct buf b = { 0 };

	buf_lp(&b, NAME, sizeof(NAME) - 1);
	buf_lp(&b, inbox.p, inbox.n);
	str_lower((char *)b.p + b.n - inbox.n, inbox.n);
	buf_u16(&b, (uint16_t)day);
	buf_add(&b, message->b, 16);
	(void)crypto_auth_hmacsha256_init(&st, key->b, key->n);
	(void)crypto_auth_hmacsha256_update(&st, b.p, b.n);
	(void)crypto_auth_hmacsha256_final(&st, full);
	memcpy(out, full, MAC);
	buf_free(&b);
}

bool
seal_verp_make(struct buf *out, const struct secret *key, struct str inbox,
    const struct uuid *message, int64_t expires_us)
{
	const char *at = memrchr(inbox.p, '@', inbox.n);
	size_t local = at != NULL ? (size_t)(at - inbox.p) : 0;
	unsigned day = (unsigned)(expires_us / DAY_US) + 1;
	unsigned char raw[BYTES];
	char text[CHARS + 1];

	if (local == 0 || local + 1 + CHARS > LOCAL_MAX || day > UINT16_MAX ||
	    str_has_8bit(inbox) || inbox.p[0] == '"')
		return false;
	raw[0] = (unsigned char)(day >> 8);
	raw[1] = (unsigned char)day;
	memcpy(raw + 2, message->b, 16);
	mac(raw + 18, key, inbox, day, message);
	base32_encode(text, raw, sizeof(raw));
	buf_add(out, inbox.p, local);
	buf_printf(out, "+%s%.*s", text, (int)(inbox.n - local), at);
	return true;
}

bool
seal_verp_read(const struct secret *key, struct str address, int64_t now_us,
    struct buf *inbox, struct uuid *message)
{
	const char *at = memrchr(address.p, '@', address.n);
	size_t local = at != NULL ? (size_t)(at - address.p) : 0;
	unsigned char raw[BYTES], want[MAC];
	char text[CHARS];
	unsigned day;

	if (local < CHARS + 2 || address.p[local - CHARS - 1] != '+')
		return false;
	memcpy(text, address.p + local - CHARS, CHARS);
	str_lower(text, CHARS);
	if (!base32_decode(raw, sizeof(raw), text, CHARS))
		return false;
	day = (unsigned)raw[0] << 8 | raw[1];
	memcpy(message->b, raw + 2, 16);
	buf_clear(inbox);
	buf_add(inbox, address.p, local - CHARS - 1);
	buf_add(inbox, at, address.n - local);
	str_lower((char *)inbox->p, inbox->n);
	mac(want, key, buf_str(inbox), day, message);
	return CRYPTO_memcmp(want, raw + 18, MAC) == 0 &&
	       now_us < (int64_t)day * DAY_US;
}
