/* SPDX-License-Identifier: ISC */
#include "seal/keyfile.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/codec.h"
#include "base/str.h"
#include "base/xalloc.h"
#include "seal/audit.h"
#include "seal/key.h"

#define KEY_CHARS 52
#define LINE_MAX_LEN 128

static const struct {
	const char *name;
	bool is_public;
} types[] = {
	[SEAL_KEYFILE_REVIEW_PUB] = { "review-pub", true },
	[SEAL_KEYFILE_REVIEW] = { "review-key", false },
	[SEAL_KEYFILE_RELAY_PUB] = { "relay-pub", true },
	[SEAL_KEYFILE_RELAY] = { "relay-key", false },
	[SEAL_KEYFILE_APPROVE] = { "approve-key", false },
	[SEAL_KEYFILE_POLICY] = { "policy-key", false },
	[SEAL_KEYFILE_SECRETS] = { "secrets-key", false },
	[SEAL_KEYFILE_AUDIT_PUB] = { "audit-pub", true },
	[SEAL_KEYFILE_AUDIT] = { "audit-key", false },
	[SEAL_KEYFILE_AUTH_PUB] = { "auth-pub", true },
	[SEAL_KEYFILE_AUTH] = { "auth-key", false },
	[SEAL_KEYFILE_IDENTITY_PUB] = { "identity-pub", true },
	[SEAL_KEYFILE_IDENTITY] = { "identity-key", false },
	[SEAL_KEYFILE_BOUNCE] = { "bounce-key", false },
};

const char *
seal_keyfile_name(enum seal_keyfile type)
{
	return types[type].name;
}

bool
seal_keyfile_is_public(enum seal_keyfile type)
{
	return types[type].is_public;
}

static bool
fail(struct err *err, const char *path, int code)
{
	err_set(err, code, "%s: %s", path, strerror(code));
	return false;
}

/* Nobody but those who must may read or change it. */
static bool
mode_check(const struct stat *st, const char *path, enum seal_keyfile type,
    struct err *err)
{
	if (!S_ISREG(st->st_mode)) {
		err_set(err, EINVAL, "%s: not a regular file", path);
		return false;
	}
	if (st->st_uid != 0 && st->st_uid != geteuid()) {
		err_set(err, EPERM, "%s: belongs to uid %u; chown it to root",
		    path, (unsigned)st->st_uid);
		return false;
	}
	if (st->st_mode & 022) {
		err_set(err, EPERM, "%s: others may change it; chmod go-w %s",
		    path, path);
		return false;
	}
	if (!types[type].is_public && (st->st_mode & 07)) {
		err_set(err, EPERM, "%s: others may read it; chmod o= %s", path,
		    path);
		return false;
	}
	return true;
}

/* `text` is "postern-<type>-1 <base32>", with or without a line end. */
static bool
line_parse(struct secret *key, struct str text, const char *path,
    enum seal_keyfile type, struct err *err)
{
	char want[64];
	struct str word;
	int n = snprintf(want, sizeof(want), "postern-%s-1", types[type].name);

	BUG_ON(n < 0 || (size_t)n >= sizeof(want));
	if (text.n > 0 && text.p[text.n - 1] == '\n')
		text.n--;
	word = str_split(&text, ' ');
	if (!str_eq(word, str_of(want))) {
		err_set(err, EINVAL, "%s: not a file of type %s", path, want);
		return false;
	}
	if (text.n != KEY_CHARS || !base32_decode(key->b, 32, text.p, text.n)) {
		err_set(err, EINVAL, "%s: the key is damaged", path);
		secret_wipe(key);
		return false;
	}
	key->n = 32;
	return true;
}

bool
seal_keyfile_load(struct secret *key, const char *path, enum seal_keyfile type,
    struct err *err)
{
	char line[LINE_MAX_LEN];
	struct stat st;
	ssize_t n;
	bool ok;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	secret_wipe(key);
	if (fd < 0)
		return fail(err, path, errno);
	ok = fstat(fd, &st) == 0 && mode_check(&st, path, type, err);
	if (ok) {
		do
			n = read(fd, line, sizeof(line));
		while (n < 0 && errno == EINTR);
		ok = n < 0 ? fail(err, path, errno)
			   : line_parse(key, (struct str){ line, (size_t)n },
				 path, type, err);
		OPENSSL_cleanse(line, sizeof(line));
	}
	(void)close(fd);
	return ok;
}

/* A new file is durable once its folder is. */
static bool
folder_sync(const char *path)
{
	char *copy = xstrdup(path);
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool ok = fd >= 0 && fsync(fd) == 0;

	if (fd >= 0)
		(void)close(fd);
	free(copy);
	return ok;
}

bool
seal_keyfile_save(const struct secret *key, const char *path,
    enum seal_keyfile type, struct err *err)
{
	char text[KEY_CHARS + 1], line[LINE_MAX_LEN];
	int fd, n, code = 0;

	BUG_ON(key->n != 32);
	base32_encode(text, key->b, 32);
	n = snprintf(
	    line, sizeof(line), "postern-%s-1 %s\n", types[type].name, text);
	BUG_ON(n < 0 || (size_t)n >= sizeof(line));
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		code = errno;
	} else {
		if (write(fd, line, (size_t)n) != n || fsync(fd) != 0 ||
		    (types[type].is_public && fchmod(fd, 0644) != 0) ||
		    !folder_sync(path))
			code = errno != 0 ? errno : EIO;
		if (close(fd) != 0 && code == 0)
			code = errno;
		if (code != 0)
			(void)unlink(path);
	}
	OPENSSL_cleanse(text, sizeof(text));
	OPENSSL_cleanse(line, sizeof(line));
	return code == 0 || fail(err, path, code);
}

/* The public half, and the type of its file. */
static bool
public_half(struct secret *pub, const struct secret *key,
    enum seal_keyfile type, enum seal_keyfile *pub_type)
{
	pub->n = 32;
	switch (type) {
	case SEAL_KEYFILE_REVIEW:
		*pub_type = SEAL_KEYFILE_REVIEW_PUB;
		seal_pair_pub(pub->b, key);
		return true;
	case SEAL_KEYFILE_RELAY:
		*pub_type = SEAL_KEYFILE_RELAY_PUB;
		seal_pair_pub(pub->b, key);
		return true;
	case SEAL_KEYFILE_AUDIT:
		*pub_type = SEAL_KEYFILE_AUDIT_PUB;
		seal_audit_pub(pub->b, key);
		return true;
	case SEAL_KEYFILE_AUTH:
		*pub_type = SEAL_KEYFILE_AUTH_PUB;
		seal_audit_pub(pub->b, key);
		return true;
	case SEAL_KEYFILE_IDENTITY:
		*pub_type = SEAL_KEYFILE_IDENTITY_PUB;
		seal_audit_pub(pub->b, key);
		return true;
	case SEAL_KEYFILE_REVIEW_PUB:
	case SEAL_KEYFILE_RELAY_PUB:
	case SEAL_KEYFILE_AUTH_PUB:
	case SEAL_KEYFILE_IDENTITY_PUB:
	case SEAL_KEYFILE_APPROVE:
	case SEAL_KEYFILE_POLICY:
	case SEAL_KEYFILE_SECRETS:
	case SEAL_KEYFILE_AUDIT_PUB:
	case SEAL_KEYFILE_BOUNCE:
		break;
	}
	return false;
}

bool
seal_keyfile_new(const char *path, enum seal_keyfile type, const char *pub_path,
    struct err *err)
{
	enum seal_keyfile pub_type = type;
	struct secret key, pub = { 0 };
	bool ok;

	BUG_ON(types[type].is_public);
	secret_random(&key, 32);
	BUG_ON(public_half(&pub, &key, type, &pub_type) != (pub_path != NULL));
	ok = seal_keyfile_save(&key, path, type, err);
	if (ok && pub_path != NULL) {
		ok = seal_keyfile_save(&pub, pub_path, pub_type, err);
		if (!ok)
			(void)unlink(path);
	}
	secret_wipe(&key);
	return ok;
}
