/* SPDX-License-Identifier: ISC */
/*
 * sha256.h - OpenSSL's SHA-256, looked up once: SHA256() and EVP_sha256()
 * search for it by its name in each call, which takes longer than a block.
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>

#define SHA256_LEN 32

/* For EVP_DigestInit_ex(). */
const struct evp_md_st *sha256_md(void);

void sha256(unsigned char out[SHA256_LEN], const void *p, size_t n);

#endif
