/* SPDX-License-Identifier: ISC */
#include "net/names.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/err.h"
#include "base/xalloc.h"

struct names {
	size_t n;
	SSL_CTX *ctx[NET_NAMES_MAX];
};

static int slot = -1; /* of the set, in the context it belongs to */

static void
names_free(struct names *names)
{
	size_t i;

	if (names == NULL)
		return;
	for (i = 0; i < names->n; i++)
		SSL_CTX_free(names->ctx[i]);
	free(names);
}

/* The context goes, and with it the last connection that could ask. */
static void
on_free(
    void *parent, void *ptr, CRYPTO_EX_DATA *ad, int idx, long argl, void *argp)
{
	(void)parent, (void)ad, (void)idx, (void)argl, (void)argp;
	names_free(ptr);
}

static bool
is_good_for(SSL_CTX *ctx, const char *name)
{
	X509 *cert = SSL_CTX_get0_certificate(ctx);

	return cert != NULL &&
	       X509_check_host(cert, name, 0,
		   X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1;
}

static int
on_name(SSL *ssl, int *alert, void *arg)
{
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	const struct names *names = arg;
	size_t i;

	(void)alert;
	if (name == NULL || is_good_for(SSL_get_SSL_CTX(ssl), name))
		return SSL_TLSEXT_ERR_OK;
	for (i = 0; i < names->n; i++) {
		if (!is_good_for(names->ctx[i], name))
			continue;
		SSL_set_SSL_CTX(ssl, names->ctx[i]);
		break;
	}
	return SSL_TLSEXT_ERR_OK;
}

static int
is_pem(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return d->d_name[0] != '.' && n > 4 &&
	       strcmp(d->d_name + n - 4, ".pem") == 0;
}

/* NAME.pem and NAME.key of `dir`. */
static SSL_CTX *
load_one(const char *dir, const char *pem, net_names_load_fn *load, void *arg,
    struct err *err)
{
	char cert[PATH_MAX], key[PATH_MAX];
	int n = snprintf(cert, sizeof cert, "%s/%s", dir, pem);

	if (n < 0 || (size_t)n >= sizeof cert) {
		err_set(err, ENAMETOOLONG, "%s: the path is too long", dir);
		return NULL;
	}
	memcpy(key, cert, (size_t)n + 1);
	memcpy(key + n - 4, ".key", 4);
	return load(arg, cert, key, err);
}

static struct names *
load_all(const char *dir, net_names_load_fn *load, void *arg, struct err *err)
{
	struct names *names = xcalloc(1, sizeof *names);
	struct dirent **list = NULL;
	int n = scandir(dir, &list, is_pem, alphasort), i;
	bool ok = n >= 0 && n <= NET_NAMES_MAX;

	if (n < 0)
		err_set(err, errno, "%s: %s", dir, strerror(errno));
	else if (!ok)
		err_set(err, 0, "%s: more than %d certificates", dir,
		    NET_NAMES_MAX);
	for (i = 0; i < n; i++) {
		if (ok) {
			names->ctx[names->n] =
			    load_one(dir, list[i]->d_name, load, arg, err);
			ok = names->ctx[names->n] != NULL;
			names->n += ok;
		}
		free(list[i]);
	}
	free(list);
	if (ok)
		return names;
	names_free(names);
	return NULL;
}

bool
net_names_attach(SSL_CTX *ctx, const char *dir, net_names_load_fn *load,
    void *arg, struct err *err)
{
	struct names *names;

	if (slot < 0)
		slot = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, on_free);
	BUG_ON(slot < 0);
	names = load_all(dir, load, arg, err);
	if (names == NULL)
		return false;
	BUG_ON(SSL_CTX_set_ex_data(ctx, slot, names) != 1);
	SSL_CTX_set_tlsext_servername_callback(ctx, on_name);
	SSL_CTX_set_tlsext_servername_arg(ctx, names);
	return true;
}
