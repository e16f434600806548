/* SPDX-License-Identifier: ISC */
/*
 * What a browser sends of an authenticator: a registration, auth data, client
 * data, a key and a signature, from any bytes.
 */
#include "tests/fuzz/fuzz.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "auth/attest.h"
#include "auth/cbor.h"
#include "base/buf.h"
#include "seal/passkey.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned char challenge[32];
	const struct str all = { (const char *)data, size };
	struct str rest = all, auth_data = all, id;
	struct seal_passkey_data seen;
	struct buf key = { 0 };

	if (cbor_skip(&rest) && rest.n > size)
		abort();
	if (!attest_auth_data(all, &auth_data))
		auth_data = all;
	if (auth_data.n > size)
		abort();
	/* Also without the hash of our name in front. */
	if (seal_passkey_data(&seen, auth_data, "pages.example"))
		rest = seen.rest;
	else
		rest = auth_data;
	if (attest_credential(rest, &id, &key) &&
	    (id.n < 16 || !seal_passkey_is_key(buf_str(&key))))
		abort();
	if (seal_passkey_client(
		all, SEAL_PASSKEY_GET, challenge, "https://pages.example") &&
	    size < 80)
		abort();
	if (seal_passkey_verify(all, all, all, all))
		abort();
	buf_free(&key);
	return 0;
}
