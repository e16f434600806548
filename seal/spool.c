/* SPDX-License-Identifier: ISC */
/* spool.c - see spool.h. */
#include "seal/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "base/xalloc.h"

#define BLOCK 64 /* of XChaCha20: where a counter begins */
#define PIECE 16384

struct spool {
	int fd;
	uint64_t size;
	unsigned char key[crypto_stream_xchacha20_KEYBYTES];
	unsigned char nonce[crypto_stream_xchacha20_NONCEBYTES];
	unsigned char work[BLOCK + PIECE];
};

struct spool *
spool_new(const char *dir, struct err *err)
{
	char *path = xasprintf("%s/postern-spool-XXXXXX", dir);
	int fd = mkostemp(path, O_CLOEXEC);
	struct spool *s;

	if (fd < 0 || unlink(path) < 0) {
		err_set(err, errno, "%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		free(path);
		return NULL;
	}
	free(path);
	s = xcalloc(1, sizeof(*s));
	s->fd = fd;
	randombytes_buf(s->key, sizeof(s->key));
	randombytes_buf(s->nonce, sizeof(s->nonce));
	return s;
}

/* `n` bytes in `work` behind `skip`, which stand at `at` of the file. */
static void
cipher(struct spool *s, uint64_t at, size_t skip, size_t n)
{
	memset(s->work, 0, skip);
	crypto_stream_xchacha20_xor_ic(
	    s->work, s->work, skip + n, s->nonce, at / BLOCK, s->key);
}

static bool
put_piece(struct spool *s, const unsigned char *p, size_t n, struct err *err)
{
	size_t skip = s->size % BLOCK, done = 0;
	ssize_t got;

	memcpy(s->work + skip, p, n);
	cipher(s, s->size, skip, n);
	while (done < n) {
		got = pwrite(s->fd, s->work + skip + done, n - done,
		    (off_t)(s->size + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			err_set(err, errno, "spool: %s", strerror(errno));
			return false;
		}
		done += (size_t)got;
	}
	s->size += n;
	return true;
}

bool
spool_put(struct spool *s, const void *p, size_t n, struct err *err)
{
	const unsigned char *from = p;
	uint64_t start = s->size;
	size_t piece;

	while (n > 0) {
		piece = n < PIECE ? n : PIECE;
		if (!put_piece(s, from, piece, err)) {
			s->size = start;
			return false;
		}
		from += piece;
		n -= piece;
	}
	return true;
}

uint64_t
spool_size(const struct spool *s)
{
	return s->size;
}

static bool
get_piece(
    struct spool *s, uint64_t at, unsigned char *p, size_t n, struct err *err)
{
	size_t skip = at % BLOCK, done = 0;
	ssize_t got;

	while (done < n) {
		got = pread(
		    s->fd, s->work + skip + done, n - done, (off_t)(at + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			err_set(err, 0, "spool: %s",
			    got < 0 ? strerror(errno) : "cut off");
			return false;
		}
		done += (size_t)got;
	}
	cipher(s, at, skip, n);
	memcpy(p, s->work + skip, n);
	return true;
}

bool
spool_get(struct spool *s, uint64_t at, void *p, size_t n, struct err *err)
{
	unsigned char *to = p;
	size_t piece;

	if (at > s->size || n > s->size - at) {
		err_set(err, 0, "spool: nothing is there");
		return false;
	}
	while (n > 0) {
		piece = n < PIECE ? n : PIECE;
		if (!get_piece(s, at, to, piece, err))
			return false;
		at += piece;
		to += piece;
		n -= piece;
	}
	return true;
}

void
spool_free(struct spool *s)
{
	if (s == NULL)
		return;
	close(s->fd);
	sodium_memzero(s, sizeof(*s));
	free(s);
}
