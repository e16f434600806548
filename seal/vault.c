/* SPDX-License-Identifier: ISC */
#include "seal/vault.h"

#include <errno.h>
#include <string.h>

#include <sodium.h>

#include "base/secret.h"
#include "seal/password.h"

#define MAGIC "postern-vault-1 "
#define PARAMS "argon2id m=262144 t=3 p=1"
#define SALT SEAL_PASSWORD_SALT
#define NONCE crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG crypto_aead_xchacha20poly1305_ietf_ABYTES
#define LINE_MAX_LEN 80
#define BESIDE_NUMBER 1
#define BESIDE_CONTEXT "pst.back"

static bool
derive(struct secret *key, struct str phrase, const unsigned char *salt,
    const char *params, struct err *err)
{
	if (seal_password_output(key, phrase, salt, params))
		return true;
	err_set(err, ENOMEM, "argon2id (%s) failed: is memory short?", params);
	return false;
}

/* The key for what lies beside the vault. */
static void
derive_beside(struct secret *out, const struct secret *key)
{
	if (out == NULL)
		return;
	secret_wipe(out);
	out->n = crypto_kdf_KEYBYTES;
	(void)crypto_kdf_derive_from_key(
	    out->b, out->n, BESIDE_NUMBER, BESIDE_CONTEXT, key->b);
}

void
seal_vault_mac(unsigned char out[SEAL_VAULT_MAC], const struct secret *beside,
    struct str bytes)
{
	crypto_auth_hmacsha256_state st;

	crypto_auth_hmacsha256_init(&st, beside->b, beside->n);
	crypto_auth_hmacsha256_update(
	    &st, (const unsigned char *)bytes.p, bytes.n);
	crypto_auth_hmacsha256_final(&st, out);
}

bool
seal_vault_close(struct buf *out, struct secret *beside, struct str phrase,
    struct str plain, struct err *err)
{
	size_t start = out->n, head;
	unsigned long long n;
	unsigned char *salt;
	struct secret key;

	if (phrase.n < SEAL_VAULT_PHRASE_MIN || phrase.n > SEAL_PASSWORD_MAX) {
		err_set(err, EINVAL, "a passphrase has %d bytes or more",
		    SEAL_VAULT_PHRASE_MIN);
		return false;
	}
	if (plain.n > SEAL_VAULT_MAX) {
		err_set(err, EFBIG, "more than %d bytes", SEAL_VAULT_MAX);
		return false;
	}
	buf_puts(out, MAGIC PARAMS "\n");
	salt = buf_reserve(out, SALT + NONCE + plain.n + TAG);
	head = out->n - start + SALT;
	randombytes_buf(salt, SALT + NONCE);
	if (!derive(&key, phrase, salt, PARAMS, err))
		return false;
	(void)crypto_aead_xchacha20poly1305_ietf_encrypt(salt + SALT + NONCE,
	    &n, (const unsigned char *)plain.p, plain.n, out->p + start, head,
	    NULL, salt + SALT, key.b);
	derive_beside(beside, &key);
	secret_wipe(&key);
	out->n += SALT + NONCE + (size_t)n;
	return true;
}

/* Copies the parameters of the first line; where the salt begins, or 0. */
static size_t
read_head(char params[LINE_MAX_LEN], struct str box)
{
	const size_t magic = sizeof(MAGIC) - 1;
	const char *end;

	end = memchr(box.p, '\n', box.n < LINE_MAX_LEN ? box.n : LINE_MAX_LEN);
	if (end == NULL || (size_t)(end - box.p) < magic ||
	    memcmp(box.p, MAGIC, magic) != 0)
		return 0;
	memcpy(params, box.p + magic, (size_t)(end - box.p) - magic);
	params[(size_t)(end - box.p) - magic] = '\0';
	return (size_t)(end - box.p) + 1;
}

bool
seal_vault_open(struct buf *out, struct secret *beside, struct str phrase,
    struct str box, struct err *err)
{
	const unsigned char *salt, *p = (const unsigned char *)box.p;
	char params[LINE_MAX_LEN];
	size_t line = read_head(params, box), n;
	unsigned long long got;
	unsigned char *to;
	struct secret key;
	bool ok;

	if (line == 0 || box.n < line + SALT + NONCE + TAG ||
	    box.n > SEAL_VAULT_MAX + 1024) {
		err_set(err, EINVAL, "not a file of postern-vault-1");
		return false;
	}
	salt = p + line;
	n = box.n - line - SALT - NONCE;
	if (!derive(&key, phrase, salt, params, err))
		return false;
	to = buf_reserve(out, n);
	ok = crypto_aead_xchacha20poly1305_ietf_decrypt(to, &got, NULL,
		 salt + SALT + NONCE, n, p, line + SALT, salt + SALT,
		 key.b) == 0;
	if (ok)
		derive_beside(beside, &key);
	secret_wipe(&key);
	if (!ok) {
		err_set(
		    err, EACCES, "wrong passphrase, or the file is damaged");
		return false;
	}
	out->n += (size_t)got;
	return true;
}
