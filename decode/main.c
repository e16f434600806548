/* SPDX-License-Identifier: ISC */
/*
 * main.c - postern-decode: hostile text to UTF-8, once, in a sandbox
 *
 * Started ahead with a socket on descriptor 3. Opens what it will need,
 * closes the sandbox, and only then reads its one request. Anything that is
 * not as it should be ends it with a status; whoever started it takes no
 * answer for an answer.
 */
#include <errno.h>
#include <gmime/gmime.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "decode/archive.h"
#include "decode/charset.h"
#include "decode/sandbox.h"
#include "decode/text.h"

enum {
	EXIT_DONE = 0,
	EXIT_USAGE = 64, /* no socket on descriptor 3 */
	EXIT_REQUEST = 65, /* the request makes no sense */
	EXIT_IO = 74,
};

static bool
is_socket(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

static bool
read_all(int fd, unsigned char *p, size_t n)
{
	ssize_t got;

	while (n > 0) {
		got = read(fd, p, n);
		if (got <= 0 && !(got < 0 && errno == EINTR))
			return false;
		p += got > 0 ? got : 0;
		n -= got > 0 ? (size_t)got : 0;
	}
	return true;
}

static bool
write_all(int fd, const unsigned char *p, size_t n)
{
	ssize_t put;

	while (n > 0) {
		put = write(fd, p, n);
		if (put < 0 && errno != EINTR)
			return false;
		p += put > 0 ? put : 0;
		n -= put > 0 ? (size_t)put : 0;
	}
	return true;
}

static int
serve(int fd)
{
	unsigned char head[HELPER_REQUEST_HEAD], *whole, *reply;
	struct text_request r;
	size_t n, i;

	if (!read_all(fd, head, sizeof(head)))
		return EXIT_IO;
	n = text_request_size(head);
	whole = n > 0 ? malloc(n) : NULL;
	if (whole == NULL)
		return EXIT_REQUEST;
	for (i = 0; i < sizeof(head); i++)
		whole[i] = head[i];
	if (!read_all(fd, whole + sizeof(head), n - sizeof(head)))
		return EXIT_IO;
	reply = text_request_parse(&r, whole, n) ? text_reply(&r, &n) : NULL;
	if (reply == NULL)
		return EXIT_REQUEST;
	return write_all(fd, reply, n) ? EXIT_DONE : EXIT_IO;
}

int
main(void)
{
	static const char usage[] =
	    "postern-decode is started by postern-admin, with a socket.\n";

	if (!is_socket(HELPER_FD)) {
		(void)!write(STDERR_FILENO, usage, sizeof(usage) - 1);
		return EXIT_USAGE;
	}
	if (!sandbox_limit())
		return HELPER_EXIT_SANDBOX;
	g_mime_init();
	charset_open_all();
	archive_prepare();
	if (!sandbox_close(HELPER_FD))
		return HELPER_EXIT_SANDBOX;
	_exit(serve(HELPER_FD));
}
