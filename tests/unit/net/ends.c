/* SPDX-License-Identifier: ISC */
#include "tests/unit/net/ends.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/event.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/err.h"

#define NAMES "DNS:mx.example.org,IP:127.0.0.1"

void
ends_certificate(const char *cert_file, const char *key_file, const char *names)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	X509_NAME *name = X509_get_subject_name(cert);
	X509_EXTENSION *san;
	FILE *out;

	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), -60);
	X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(
	    name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
	X509_set_issuer_name(cert, name);
	san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
	X509_add_ext(cert, san, -1);
	X509_EXTENSION_free(san);
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	out = fopen(cert_file, "w");
	assert_non_null(out);
	PEM_write_X509(out, cert);
	fclose(out);
	out = fopen(key_file, "w");
	PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL);
	fclose(out);
	X509_free(cert);
	EVP_PKEY_free(key);
}

int
ends_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	struct err err = { 0 };

	strcpy(f->dir, "/tmp/postern-tls-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->cert, sizeof f->cert, "%s/cert.pem", f->dir);
	snprintf(f->key, sizeof f->key, "%s/key.pem", f->dir);
	snprintf(f->other, sizeof f->other, "%s/other.pem", f->dir);
	snprintf(f->other_key, sizeof f->other_key, "%s/okey.pem", f->dir);
	ends_certificate(f->cert, f->key, NAMES);
	ends_certificate(f->other, f->other_key, NAMES);
	net_tls_keys_make(&f->keys);
	f->tls =
	    net_tls_server_new(&(struct net_tls_files){ f->cert, f->key, NULL },
		"smtp", &f->keys, &err);
	assert_non_null(f->tls);
	f->base = event_base_new();
	f->fds[1] = -1;
	f->server.got = calloc(1, GOT_MAX + 1);
	f->client.got = calloc(1, GOT_MAX + 1);
	*state = f;
	return 0;
}

void
ends_forget(struct end *end)
{
	char *got = end->got;

	memset(end, 0, sizeof *end);
	end->got = got;
	got[0] = '\0';
}

void
ends_hang_up(struct fixture *f)
{
	net_stream_free(f->server.s);
	net_stream_free(f->client.s);
	ends_forget(&f->server);
	ends_forget(&f->client);
	SSL_free(f->raw.ssl);
	SSL_CTX_free(f->raw.ctx);
	memset(&f->raw, 0, sizeof f->raw);
	if (f->fds[1] >= 0)
		close(f->fds[1]);
	f->fds[1] = -1;
}

int
ends_teardown(void **state)
{
	struct fixture *f = *state;

	ends_hang_up(f);
	net_tls_free(f->tls);
	event_base_free(f->base);
	unlink(f->cert);
	unlink(f->key);
	unlink(f->other);
	unlink(f->other_key);
	rmdir(f->dir);
	free(f->server.got);
	free(f->client.got);
	free(f);
	return 0;
}

static void
on_readable(void *arg)
{
	struct end *end = arg;
	int n = evbuffer_remove(net_stream_input(end->s), end->got + end->got_n,
	    GOT_MAX - end->got_n);

	end->got_n += n > 0 ? (size_t)n : 0;
	end->got[end->got_n] = '\0';
	end->readable++;
	if (end->at != NULL)
		end->at(end, 'r');
}

static void
on_drained(void *arg)
{
	struct end *end = arg;

	assert_int_equal(net_stream_output_size(end->s), 0);
	end->drained++;
	if (end->at != NULL)
		end->at(end, 'd');
}

static void
on_event(void *arg, enum net_stream_event what)
{
	struct end *end = arg;
	char where = 'c';

	end->told++;
	switch (what) {
	case NET_STREAM_CONNECTED:
		end->connected = true;
		break;
	case NET_STREAM_EOF:
		where = 'e';
		end->eof = true;
		break;
	case NET_STREAM_ERROR:
		where = 'f';
		end->failed = true;
		net_stream_why(end->s, end->why, sizeof end->why);
		break;
	}
	if (end->at != NULL)
		end->at(end, where);
}

void
ends_watch(struct end *end, struct net_stream *s)
{
	static const struct net_stream_fns fns = { on_readable, on_drained,
		on_event };

	assert_non_null(s);
	end->s = s;
	net_stream_tell(s, &fns, end);
	net_stream_read(s, true);
}

void
ends_settle(struct fixture *f)
{
	int i;

	for (i = 0; i < 40; i++)
		event_base_loop(f->base, EVLOOP_NONBLOCK);
}

void
ends_pair(struct fixture *f)
{
	ends_hang_up(f);
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, f->fds), 0);
	ends_watch(&f->server, net_stream_new(f->base, f->fds[0]));
}

void
ends_raw(struct fixture *f, int version)
{
	struct raw *raw = &f->raw;

	ends_pair(f);
	assert_true(net_stream_serve_tls(f->server.s, f->tls));
	raw->fd = f->fds[1];
	raw->ctx = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_min_proto_version(raw->ctx, TLS1_VERSION);
	SSL_CTX_set_max_proto_version(raw->ctx, version);
	SSL_CTX_set_cipher_list(raw->ctx, "ALL:@SECLEVEL=0");
	raw->ssl = SSL_new(raw->ctx);
	raw->in = BIO_new(BIO_s_mem());
	raw->out = BIO_new(BIO_s_mem());
	SSL_set_bio(raw->ssl, raw->in, raw->out);
	SSL_set_connect_state(raw->ssl);
}

void
raw_encrypt(struct raw *raw, const char *p, size_t n)
{
	assert_int_equal(SSL_write(raw->ssl, p, (int)n), n);
}

void
raw_send(struct fixture *f, size_t step)
{
	struct raw *raw = &f->raw;
	char *p;
	long n = BIO_get_mem_data(raw->out, &p), at, now;

	for (at = 0; at < n; at += now) {
		now = step == 0 || n - at < (long)step ? n - at : (long)step;
		now = send(raw->fd, p + at, (size_t)now, MSG_NOSIGNAL);
		if (now < 0) {
			assert_int_equal(errno, EAGAIN);
			now = 0;
		}
		ends_settle(f);
	}
	(void)BIO_reset(raw->out);
}

static void
take_in(struct raw *raw)
{
	char piece[16384];
	ssize_t n;

	while ((n = recv(raw->fd, piece, sizeof piece, MSG_DONTWAIT)) > 0)
		assert_int_equal(BIO_write(raw->in, piece, (int)n), n);
}

void
raw_shake(struct fixture *f, size_t step)
{
	int i, r = 0;

	for (i = 0; i < 10 && r != 1; i++) {
		ERR_clear_error();
		take_in(&f->raw);
		r = SSL_do_handshake(f->raw.ssl);
		raw_send(f, step);
	}
	ERR_clear_error();
}

size_t
raw_receive(struct raw *raw, char *p, size_t size)
{
	size_t n = 0;
	int r;

	take_in(raw);
	while (n < size && (r = SSL_read(raw->ssl, p + n, (int)(size - n))) > 0)
		n += (size_t)r;
	ERR_clear_error();
	return n;
}
