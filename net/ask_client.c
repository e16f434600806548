/* SPDX-License-Identifier: ISC */
/*
 * ask_client.c - the side that asks
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "base/xalloc.h"
#include "net/ask_internal.h"

struct asking {
	struct bufferevent *bev; /* NULL: there was nobody */
	ask_done_fn *done;
	void *arg;
};

static void
finish(struct asking *a, const struct str *answer)
{
	a->done(a->arg, answer);
	if (a->bev != NULL) {
		ask_wipe(bufferevent_get_input(a->bev));
		bufferevent_free(a->bev);
	}
	free(a);
}

static void
on_read(struct bufferevent *bev, void *arg)
{
	struct str frame;

	switch (ask_frame(bufferevent_get_input(bev), &frame)) {
	case ASK_FRAME_MORE:
		return;
	case ASK_FRAME_BAD:
		finish(arg, NULL);
		return;
	case ASK_FRAME_WHOLE:
		finish(arg, &frame);
	}
}

static void
on_event(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	if (!(what & BEV_EVENT_CONNECTED))
		finish(arg, NULL);
}

static void
on_nobody(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	finish(arg, NULL);
}

/* Connected, or -1: a socket of this machine answers at once. */
static int
connect_to(const char *path, int flags)
{
	struct sockaddr_un to;
	int fd;

	if (!ask_address(&to, path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
		int code = errno;

		close(fd);
		errno = code;
		fd = -1;
	}
	return fd;
}

void
ask_send(struct event_base *base, const char *path, struct buf *question,
    ask_done_fn *done, void *arg)
{
	static const struct timeval limit = { ASK_TIMEOUT_S, 0 }, now = { 0 };
	struct asking *a = xcalloc(1, sizeof(*a));
	int fd = question->n <= ASK_MAX ? connect_to(path, SOCK_NONBLOCK) : -1;

	a->done = done;
	a->arg = arg;
	if (fd < 0) {
		buf_wipe(question);
		buf_free(question);
		BUG_ON(event_base_once(
			   base, -1, EV_TIMEOUT, on_nobody, a, &now) != 0);
		return;
	}
	a->bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
	BUG_ON(a->bev == NULL);
	bufferevent_setcb(a->bev, on_read, NULL, on_event, a);
	bufferevent_set_timeouts(a->bev, &limit, &limit);
	bufferevent_enable(a->bev, EV_READ | EV_WRITE);
	ask_put(a->bev, question);
}

static bool
put_all(int fd, const struct buf *b)
{
	size_t at = 0;

	while (at < b->n) {
		ssize_t n = send(fd, b->p + at, b->n - at, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

static bool
get_all(int fd, unsigned char *p, size_t n)
{
	while (n > 0) {
		ssize_t got = recv(fd, p, n, 0);

		if (got <= 0)
			return false;
		p += got;
		n -= (size_t)got;
	}
	return true;
}

bool
ask_wait(
    const char *path, struct buf *question, struct buf *answer, struct err *err)
{
	const struct timeval limit = { ASK_TIMEOUT_S, 0 };
	unsigned char head[4];
	struct buf out = { 0 };
	size_t n = 0;
	int fd = connect_to(path, 0);
	bool ok = fd >= 0;

	buf_lp(&out, question->p, question->n);
	if (ok) {
		(void)setsockopt(
		    fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		ok = put_all(fd, &out) && get_all(fd, head, sizeof(head));
	}
	if (ok) {
		n = (size_t)head[0] << 24 | (size_t)head[1] << 16 |
		    (size_t)head[2] << 8 | head[3];
		ok = n <= ASK_MAX && get_all(fd, buf_reserve(answer, n), n);
	}
	if (ok)
		answer->n += n;
	else
		err_set(err, errno != 0 ? errno : EIO, "%s: %s", path,
		    errno != 0 ? strerror(errno) : "no answer");
	if (fd >= 0)
		close(fd);
	buf_wipe(&out);
	buf_free(&out);
	buf_wipe(question);
	buf_free(question);
	return ok;
}
