/* SPDX-License-Identifier: ISC */
/*
 * dkim: keys that sign a domain's mail. The private halves are made here and
 * leave this process only sealed to postern-deliver.
 */
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/xalloc.h"
#include "ctl/ctl.h"
#include "ctl/dns.h"
#include "seal/keyfile.h"
#include "seal/stored.h"

#define RSA_BITS 2048
#define PAIR_MAX 32

struct made {
	char selector[PAIR_MAX + 4];
	struct buf record, box;
};

/* RFC 6376 3.6.1: RSA as SubjectPublicKeyInfo; RFC 8463 4: Ed25519 bare. */
static void
write_record(struct buf *out, EVP_PKEY *key, bool is_rsa)
{
	unsigned char raw[32], *der = NULL;
	size_t n = sizeof(raw);
	char *text;

	if (is_rsa) {
		int len = i2d_PUBKEY(key, &der);

		BUG_ON(len <= 0);
		n = (size_t)len;
	} else {
		BUG_ON(EVP_PKEY_get_raw_public_key(key, raw, &n) != 1);
	}
	text = xmalloc(BASE64_LEN(n) + 1);
	base64_encode(text, is_rsa ? der : raw, n);
	buf_printf(
	    out, "v=DKIM1; k=%s; p=%s", is_rsa ? "rsa" : "ed25519", text);
	free(text);
	OPENSSL_free(der);
}

static void
make_key(struct made *m, const unsigned char relay_pub[32], int64_t tenant,
    const char *domain, bool is_rsa)
{
	EVP_PKEY *key = is_rsa ? EVP_RSA_gen(RSA_BITS)
			       : EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	BIO *mem = BIO_new(BIO_s_secmem());
	struct buf what = { 0 };
	char *pem;
	long n;

	BUG_ON(key == NULL || mem == NULL ||
	       PEM_write_bio_PKCS8PrivateKey(
		   mem, key, NULL, NULL, 0, NULL, NULL) != 1);
	n = BIO_get_mem_data(mem, &pem);
	seal_stored_dkim(
	    &what, (uint64_t)tenant, str_of(domain), str_of(m->selector));
	seal_stored_box(
	    &m->box, relay_pub, buf_str(&what), (struct str){ pem, (size_t)n });
	buf_free(&what);
	write_record(&m->record, key, is_rsa);
	BIO_free(mem);
	EVP_PKEY_free(key);
}

static int64_t
tenant_of_domain(struct ctl *ctl, const char *domain)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_NULL, MANAGE_ARG_END };
	json_t *rows = ctl_call(ctl, "domains_1", call), *row;
	int64_t tenant = 0;
	size_t i;

	if (rows == NULL)
		return 0;
	json_array_foreach(rows, i, row)
	{
		if (strcmp(ctl_text(row, "domain"), domain) == 0)
			tenant = ctl_int(row, "tenant_id");
	}
	json_decref(rows);
	if (tenant == 0)
		(void)ctl_fail(ctl, "no domain %s", domain);
	return tenant;
}

/* As records stand in a zone file: strings of at most 255 (RFC 1035 3.3). */
static void
print_record(const char *selector, const char *domain, const char *record)
{
	size_t n = strlen(record), at;

	(void)printf("%s._domainkey.%s. TXT", selector, domain);
	for (at = 0; at < n; at += 255)
		(void)printf(" \"%.255s\"", record + at);
	(void)putchar('\n');
}

static json_t *
keys_of(struct ctl *ctl, const char *domain)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_TEXT(domain), MANAGE_ARG_END };

	return ctl_call(ctl, "dkim_list_1", call);
}

/* The records of one pair, or with NULL of all. */
static void
print_keys(const struct ctl *ctl, json_t *rows, const char *pair)
{
	json_t *row;
	size_t i;

	if (ctl->json) {
		ctl_print(ctl, rows);
		return;
	}
	json_array_foreach(rows, i, row)
	{
		if (pair != NULL && strcmp(pair, ctl_text(row, "pair")) != 0)
			continue;
		if (pair == NULL)
			(void)printf("%s %s (%s)\n", ctl_text(row, "use"),
			    ctl_text(row, "pair"),
			    ctl_text(row, "algo")[0] == 'r' ? "RSA"
							    : "Ed25519");
		print_record(ctl_text(row, "selector"), ctl_text(row, "domain"),
		    ctl_text(row, "record"));
	}
}

int
ctl_dkim_list(struct ctl *ctl, const struct ctl_args *args)
{
	json_t *rows = keys_of(ctl, args->words[0]);

	if (rows == NULL)
		return 1;
	print_keys(ctl, rows, NULL);
	json_decref(rows);
	return 0;
}

static int
add_pair(
    struct ctl *ctl, const char *domain, const char *pair, struct made m[2])
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_TEXT(domain), MANAGE_ARG_TEXT(pair),
		MANAGE_ARG_TEXT(m[0].selector),
		MANAGE_ARG_TEXT(buf_cstr(&m[0].record)),
		MANAGE_ARG_BYTES(m[0].box.p, m[0].box.n),
		MANAGE_ARG_TEXT(m[1].selector),
		MANAGE_ARG_TEXT(buf_cstr(&m[1].record)),
		MANAGE_ARG_BYTES(m[1].box.p, m[1].box.n), MANAGE_ARG_END };
	json_t *rows = ctl_call(ctl, "dkim_add_1", call);

	if (rows == NULL)
		return 1;
	json_decref(rows);
	rows = keys_of(ctl, domain);
	if (rows == NULL)
		return 1;
	if (!ctl->json)
		(void)printf("publish these records, then: "
			     "posternctl dkim use %s %s\n",
		    domain, pair);
	print_keys(ctl, rows, pair);
	json_decref(rows);
	return 0;
}

int
ctl_dkim_new(struct ctl *ctl, const struct ctl_args *args)
{
	const char *domain = args->words[0], *pair = ctl_option(args, "pair");
	struct made m[2] = { 0 };
	struct secret relay = { 0 };
	struct err err = { 0 };
	char today[16];
	time_t now = time(NULL);
	int64_t tenant;
	struct tm tm;
	int i, rc;

	if (gmtime_r(&now, &tm) == NULL ||
	    strftime(today, sizeof(today), "p%Y%m%d", &tm) == 0)
		return ctl_fail(ctl, "the clock is wrong");
	if (pair == NULL)
		pair = today;
	if (strlen(pair) > PAIR_MAX)
		return ctl_misused(ctl, "a pair's name has at most 32 letters");
	if (!seal_keyfile_load(&relay, ctl->conf->keys_relay_pub_file,
		SEAL_KEYFILE_RELAY_PUB, &err))
		return ctl_fail(ctl, "%s", err.text);
	tenant = tenant_of_domain(ctl, domain);
	if (tenant == 0)
		return 1;
	for (i = 0; i < 2; i++) {
		(void)snprintf(m[i].selector, sizeof(m[i].selector), "%s%c",
		    pair, "re"[i]);
		make_key(&m[i], relay.b, tenant, domain, i == 0);
	}
	rc = add_pair(ctl, domain, pair, m);
	for (i = 0; i < 2; i++) {
		buf_free(&m[i].record);
		buf_free(&m[i].box);
	}
	return rc;
}

/* The part behind p=, without white space, or "". */
static void
public_part(char out[DNS_TEXT], const char *record)
{
	const char *p = strstr(record, "p=");
	size_t n = 0;

	for (p = p != NULL ? p + 2 : ""; *p != '\0' && *p != ';'; p++) {
		if (*p != ' ' && *p != '\t' && n + 1 < DNS_TEXT)
			out[n++] = *p;
	}
	out[n] = '\0';
}

const char *
ctl_dkim_published(
    const struct ctl *ctl, const json_t *row, struct dns_answer *found)
{
	char name[400], want[DNS_TEXT], have[DNS_TEXT];
	size_t i;

	(void)snprintf(name, sizeof(name), "%s._domainkey.%s",
	    ctl_text(row, "selector"), ctl_text(row, "domain"));
	switch (dns_ask(ctl->conf, name, DNS_TXT, found)) {
	case DNS_NONE:
		return "is not there";
	case DNS_FAILED:
		return "could not be looked up";
	case DNS_FOUND:
		break;
	}
	public_part(want, ctl_text(row, "record"));
	for (i = 0; i < found->n; i++) {
		public_part(have, found->text[i]);
		if (strcmp(want, have) == 0)
			return found->n == 1 ? NULL : "is there twice";
	}
	return "has another key";
}

static bool
all_published(struct ctl *ctl, const char *domain, const char *pair)
{
	json_t *rows = keys_of(ctl, domain), *row;
	struct dns_answer *found = xcalloc(1, sizeof(*found));
	bool ok = rows != NULL;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const char *why;

		if (strcmp(ctl_text(row, "pair"), pair) != 0)
			continue;
		why = ctl_dkim_published(ctl, row, found);
		if (why == NULL)
			continue;
		ok = false;
		(void)ctl_fail(ctl, "%s._domainkey.%s %s",
		    ctl_text(row, "selector"), domain, why);
	}
	json_decref(rows);
	free(found);
	return ok;
}

int
ctl_dkim_use(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_TEXT(args->words[0]),
		MANAGE_ARG_TEXT(args->words[1]), MANAGE_ARG_END };

	if (ctl_option(args, "force") == NULL &&
	    !all_published(ctl, args->words[0], args->words[1]))
		return 1;
	return ctl_call_print(ctl, "dkim_use_1", call,
	    "signs from now on; leave older records where they are for a week");
}

int
ctl_dkim_remove(struct ctl *ctl, const struct ctl_args *args)
{
	bool force = ctl_option(args, "force") != NULL;
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_TEXT(args->words[0]),
		MANAGE_ARG_TEXT(args->words[1]), MANAGE_ARG_BOOL(force),
		MANAGE_ARG_END };

	return ctl_call_print(
	    ctl, "dkim_remove_1", call, "removed; its records may go too");
}
