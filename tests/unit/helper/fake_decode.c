/* SPDX-License-Identifier: ISC */
/*
 * fake_decode.c - a postern-decode that does what the charset's name says
 *
 * Stands where the real one stands, so that base/helper meets every way in
 * which one can fail.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/helper/wire.h"

extern char **environ;

static char text[64 * 1024];

static void
give(const void *p, size_t n)
{
	if (write(HELPER_FD, p, n) != (ssize_t)n)
		_exit(9);
}

static void
reply(size_t said, const char *p, size_t n)
{
	const unsigned char head[HELPER_REPLY_HEAD] = { 'P', 'D', 'R', '1', 0,
		0, 0, 0, 0, 0, (unsigned char)(said >> 8),
		(unsigned char)said };

	give(head, sizeof(head));
	give(p, n);
}

/* Open descriptors with what they are, environment, odd signals. */
static void
inherited(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct sigaction sa;
	struct dirent *e;
	char link[300], to[256];
	sigset_t mask;
	ssize_t n;
	int i;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		if (e->d_name[0] == '.' || atoi(e->d_name) == dirfd(dir))
			continue;
		snprintf(link, sizeof(link), "/proc/self/fd/%s", e->d_name);
		n = readlink(link, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = '\0';
		to[strcspn(to, "[")] = '\0';
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
		    "%s=%s ", e->d_name, to);
	}
	if (dir != NULL)
		(void)closedir(dir);
	for (i = 0; environ != NULL && environ[i] != NULL; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
		    "env:%s ", environ[i]);
	(void)sigprocmask(SIG_SETMASK, NULL, &mask);
	for (i = 1; i < 32; i++)
		if (sigismember(&mask, i) == 1 ||
		    (sigaction(i, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN))
			snprintf(text + strlen(text),
			    sizeof(text) - strlen(text), "signal:%d ", i);
	reply(strlen(text), text, strlen(text));
}

static void
flood(void)
{
	reply(100, text, 100);
	for (;;)
		give(text, sizeof(text));
}

static void
behave(const char *how, const char *bytes, size_t n)
{
	if (strcmp(how, "echo") == 0)
		reply(n, bytes, n);
	else if (strcmp(how, "koi8-r") == 0) /* right, but in no sandbox */
		reply(4, "ПР", 4);
	else if (strcmp(how, "inherited") == 0)
		inherited();
	else if (strcmp(how, "crash") == 0) {
		(void)signal(SIGSEGV, SIG_DFL); /* a sanitizer has it */
		(void)raise(SIGSEGV);
	} else if (strcmp(how, "hang") == 0)
		for (;;)
			(void)pause();
	else if (strcmp(how, "hang-on") == 0) { /* all said, but stays */
		reply(n, bytes, n);
		(void)close(HELPER_FD);
		for (;;)
			(void)pause();
	} else if (strcmp(how, "garbage") == 0)
		give("HTTP/1.0 200 OK\r\n\r\n", 19);
	else if (strcmp(how, "short") == 0)
		reply(10, "abc", 3);
	else if (strcmp(how, "long") == 0)
		reply(3, "abcdefghij", 10);
	else if (strcmp(how, "flood") == 0)
		flood();
	else if (strcmp(how, "status") == 0) {
		reply(n, bytes, n);
		_exit(3);
	}
}

int
main(void)
{
	static unsigned char in[HELPER_INPUT_MAX + 1024];
	const struct rlimit none = { 0, 0 };
	char how[HELPER_NAME_MAX + 1] = "";
	size_t n = 0, want = HELPER_REQUEST_HEAD;
	ssize_t got;

	(void)setrlimit(RLIMIT_CORE, &none);
	while (n < want) {
		got = read(HELPER_FD, in + n, want - n);
		if (got <= 0)
			return 0;
		n += (size_t)got;
		if (n == HELPER_REQUEST_HEAD)
			want += (size_t)in[7] + in[8] + ((size_t)in[12] << 24) +
				((size_t)in[13] << 16) + ((size_t)in[14] << 8) +
				in[15];
		/* this one does not wait for the rest */
		if (n > HELPER_REQUEST_HEAD + 6 &&
		    memcmp(in + HELPER_REQUEST_HEAD, "unread", 6) == 0)
			_exit(0);
	}
	memcpy(how, in + HELPER_REQUEST_HEAD, in[7]);
	behave(how, (char *)in + HELPER_REQUEST_HEAD + in[7] + in[8],
	    want - HELPER_REQUEST_HEAD - in[7] - in[8]);
	return 0;
}
