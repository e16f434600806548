/* SPDX-License-Identifier: ISC */
#include "base/sha256.h"

#include <pthread.h>

#include <openssl/evp.h>

#include "base/xalloc.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_MD *md;

static void
fetch(void)
{
	md = EVP_MD_fetch(NULL, "SHA256", NULL);
	BUG_ON(md == NULL);
}

const EVP_MD *
sha256_md(void)
{
	BUG_ON(pthread_once(&once, fetch) != 0);
	return md;
}

void
sha256(unsigned char out[SHA256_LEN], const void *p, size_t n)
{
	BUG_ON(EVP_Digest(p, n, out, NULL, sha256_md(), NULL) != 1);
}
