/* SPDX-License-Identifier: ISC */
#include "ctl/reach.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/conf.h"

#define PATIENCE_MS 3000
#define ANSWER_MAX 65536

int
reach_address(const struct sockaddr *to, socklen_t n)
{
	int fd = socket(
	    to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t size = sizeof(int);
	int why = 0;

	if (fd < 0)
		return -1;
	if (connect(fd, to, n) != 0 && errno != EINPROGRESS)
		why = errno;
	else if (poll(&p, 1, PATIENCE_MS) != 1 ||
		 getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0)
		why = ETIMEDOUT;
	if (why == 0)
		return fd;
	(void)close(fd);
	return -1;
}

/* metrics.listen, `more` ports behind; false: no such address. */
static bool
address_of(const struct conf *conf, unsigned more, struct sockaddr_in *to)
{
	const char *at = conf->metrics_listen, *colon = strrchr(at, ':');
	char host[INET_ADDRSTRLEN] = "";

	if (colon == NULL || (size_t)(colon - at) >= sizeof(host))
		return false;
	memcpy(host, at, (size_t)(colon - at));
	*to = (struct sockaddr_in){ .sin_family = AF_INET };
	to->sin_port = htons((uint16_t)(strtoul(colon + 1, NULL, 10) + more));
	return inet_pton(AF_INET, host, &to->sin_addr) == 1;
}

/* Everything until the end of the connection. */
static void
read_all(int fd, struct buf *out)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n = 1;

	while (n > 0 && out->n < ANSWER_MAX && poll(&p, 1, PATIENCE_MS) == 1) {
		n = recv(fd, buf_reserve(out, 4096), 4096, 0);
		if (n > 0)
			out->n += (size_t)n;
	}
}

int
reach_get(
    const struct conf *conf, unsigned more, const char *path, struct buf *out)
{
	struct sockaddr_in to;
	int fd = -1, status = 0;
	const char *body;

	buf_clear(out);
	if (address_of(conf, more, &to))
		fd = reach_address((struct sockaddr *)&to, sizeof(to));
	if (fd < 0)
		return 0;
	buf_printf(out,
	    "GET /%s HTTP/1.1\r\nHost: localhost\r\n"
	    "Connection: close\r\n\r\n",
	    path);
	if (send(fd, out->p, out->n, MSG_NOSIGNAL) == (ssize_t)out->n) {
		buf_clear(out);
		read_all(fd, out);
	}
	(void)close(fd);
	if (sscanf(buf_cstr(out), "HTTP/1.%*d %d", &status) != 1)
		return 0;
	body = strstr(buf_cstr(out), "\r\n\r\n");
	if (body != NULL)
		buf_drain(out, (size_t)(body + 4 - buf_cstr(out)));
	return status;
}

int
reach_readyz(const struct conf *conf, unsigned more, char *said, size_t size)
{
	struct buf body = { 0 };
	int status = reach_get(conf, more, "readyz", &body);

	(void)snprintf(said, size, "%s", buf_cstr(&body));
	said[strcspn(said, "\r\n")] = '\0';
	buf_free(&body);
	return status;
}
