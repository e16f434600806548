/* SPDX-License-Identifier: ISC */
/* stream_facts.c - what can be told of a stream, and its last words. */
#include <sys/socket.h>

#include <event2/buffer.h>
#include <openssl/err.h>

#include "net/stream_internal.h"

size_t
net_stream_peek(struct net_stream *s, void *p, size_t size)
{
	ssize_t r;

	if (s->phase != PHASE_OPEN)
		return 0;
	if (s->ssl == NULL) {
		r = recv(s->fd, p, size, MSG_PEEK | MSG_DONTWAIT);
	} else {
		ERR_clear_error();
		r = SSL_peek(s->ssl, p, (int)size);
		if (r <= 0)
			ERR_clear_error(); /* reading will tell of it */
	}
	return r > 0 ? (size_t)r : 0;
}

const char *
net_stream_version(const struct net_stream *s)
{
	return s->ssl == NULL ? "" : SSL_get_version(s->ssl);
}

const char *
net_stream_cipher(const struct net_stream *s)
{
	const char *name = s->ssl == NULL ? NULL : SSL_get_cipher_name(s->ssl);

	return name == NULL ? "" : name;
}

bool
net_stream_is_verified(const struct net_stream *s)
{
	return s->ssl != NULL && SSL_get_verify_result(s->ssl) == X509_V_OK &&
	       SSL_get0_peer_certificate(s->ssl) != NULL;
}

void
net_stream_why(const struct net_stream *s, char *text, size_t size)
{
	const SSL *ssl = s->ssl;
	const char *why = NULL;
	long verify = ssl == NULL ? X509_V_OK : SSL_get_verify_result(ssl);

	if (ssl != NULL && SSL_get_verify_mode(ssl) == SSL_VERIFY_PEER &&
	    verify != X509_V_OK)
		why = X509_verify_cert_error_string(verify);
	else if (ssl != NULL && s->why != 0)
		why = ERR_reason_error_string(s->why);
	else if (s->error != 0)
		why = evutil_socket_error_to_string(s->error);
	evutil_snprintf(text, size, "%s",
	    why != NULL ? why : "connection closed during the handshake");
}

void
net_stream_bye(struct net_stream *s)
{
	if (s->ssl != NULL && s->phase == PHASE_OPEN &&
	    evbuffer_get_length(s->out) == 0)
		(void)SSL_shutdown(s->ssl);
	ERR_clear_error();
	shutdown(s->fd, SHUT_WR);
}
