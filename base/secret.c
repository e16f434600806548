/* SPDX-License-Identifier: ISC */
#include "base/secret.h"

#include <openssl/crypto.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"

bool
secret_set(struct secret *s, const void *p, size_t n)
{
	secret_wipe(s);
	if (n > SECRET_MAX)
		return false;
	memcpy(s->b, p, n);
	s->n = n;
	return true;
}

void
secret_wipe(struct secret *s)
{
	OPENSSL_cleanse(s, sizeof(*s));
}

bool
secret_eq(const struct secret *a, const struct secret *b)
{
	return a->n == b->n && CRYPTO_memcmp(a->b, b->b, a->n) == 0;
}

void
secret_random(struct secret *s, size_t n)
{
	BUG_ON(n > SECRET_MAX);
	secret_wipe(s);
	BUG_ON(getrandom(s->b, n, 0) != (ssize_t)n);
	s->n = n;
}

static ssize_t
read_all(int fd, unsigned char *p, size_t n)
{
	size_t got = 0;
	ssize_t r;

	while (got < n) {
		r = read(fd, p + got, n - got);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -1;
		if (r == 0)
			break;
		got += (size_t)r;
	}
	return (ssize_t)got;
}

bool
secret_load(struct secret *s, const char *path, size_t n, struct err *err)
{
	unsigned char in[SECRET_MAX + 3];
	struct stat st;
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	secret_wipe(s);
	if (fd < 0 || fstat(fd, &st) != 0) {
		err_set(err, errno, "%s: %s", path, strerror(errno));
		if (fd >= 0)
			(void)close(fd);
		return false;
	}
	got = read_all(fd, in, sizeof(in));
	(void)close(fd);
	if (st.st_mode & 07) {
		err_set(err, EPERM, "%s: others may read it; chmod o= %s", path,
		    path);
		got = -1;
	} else if (got < 0) {
		err_set(err, errno, "%s: %s", path, strerror(errno));
	} else if (n == 0) {
		while (got > 0 && (in[got - 1] == '\n' || in[got - 1] == '\r'))
			got--;
	}
	if (got >= 0 && (got > SECRET_MAX || (n != 0 && got != (ssize_t)n))) {
		err_set(err, EINVAL, "%s: wrong length for this key", path);
		got = -1;
	}
	if (got > 0)
		BUG_ON(!secret_set(s, in, (size_t)got));
	OPENSSL_cleanse(in, sizeof(in));
	return got >= 0;
}
