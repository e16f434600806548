/* SPDX-License-Identifier: ISC */
/*
 * names.h - part of tls.c: which certificate the name gets that a client asks
 * for (SNI, RFC 6066 3).
 */
#ifndef NET_NAMES_H
#define NET_NAMES_H

#include <stdbool.h>

struct err;
struct ssl_ctx_st;

#define NET_NAMES_MAX 100

/* A context with this certificate; NULL and `err` when it cannot be used. */
typedef struct ssl_ctx_st *net_names_load_fn(
    void *arg, const char *cert_file, const char *key_file, struct err *err);

/*
 * Let `ctx` answer with the certificates of `dir` too: of each NAME.pem with
 * its NAME.key, to clients that ask for a name it is good for and that of
 * `ctx` is not; who asks for none of them gets that of `ctx`. What was loaded
 * lives as long as `ctx`, connections included. False: nothing has changed.
 */
bool net_names_attach(struct ssl_ctx_st *ctx, const char *dir,
    net_names_load_fn *load, void *arg, struct err *err);

#endif
