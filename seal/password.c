/* SPDX-License-Identifier: ISC */
#include "seal/password.h"

#include <stdio.h>

#include <openssl/sha.h>
#include <sodium.h>

#define MEMORY_MAX_KIB (256 * 1024)
#define PASSES_MAX 10

bool
seal_password_output(struct secret *out, struct str password,
    const unsigned char salt[SEAL_PASSWORD_SALT], const char *params)
{
	unsigned memory = 0, passes = 0, lanes = 0;
	int end = 0;

	*out = (struct secret){ .n = 0 };
	if (password.n > SEAL_PASSWORD_MAX ||
	    sscanf(params, "argon2id m=%6u t=%2u p=%2u%n", &memory, &passes,
		&lanes, &end) != 3 ||
	    params[end] != '\0')
		return false;
	if (memory < 8 || memory > MEMORY_MAX_KIB || passes < 1 ||
	    passes > PASSES_MAX || lanes != 1)
		return false;
	if (crypto_pwhash(out->b, SEAL_PASSWORD_OUTPUT, password.p, password.n,
		salt, passes, (size_t)memory * 1024,
		crypto_pwhash_ALG_ARGON2ID13) != 0)
		return false;
	out->n = SEAL_PASSWORD_OUTPUT;
	return true;
}

void
seal_password_verifier(unsigned char verifier[32], const struct secret *output)
{
	SHA256(output->b, output->n, verifier);
}
