/* SPDX-License-Identifier: ISC */
/*
 * ask.c - the side that answers, and what both sides share
 */
#include "net/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "base/xalloc.h"
#include "net/ask_internal.h"
#include "net/listen.h"

struct ask {
	TAILQ_ENTRY(ask) entry;
	struct ask_server *server; /* NULL: it has gone */
	struct bufferevent *bev; /* NULL: whoever asked has gone */
	bool asked; /* the question was handed over, no answer yet */
};

struct ask_server {
	struct event_base *base;
	struct net_listener *listener;
	char *path;
	ask_fn *fn;
	void *arg;
	unsigned open;
	TAILQ_HEAD(asks, ask) asks;
};

bool
ask_address(struct sockaddr_un *to, const char *path)
{
	memset(to, 0, sizeof(*to));
	to->sun_family = AF_UNIX;
	if (path[0] != '/' || strlen(path) >= sizeof(to->sun_path))
		return false;
	strcpy(to->sun_path, path);
	return true;
}

enum ask_frame
ask_frame(struct evbuffer *in, struct str *frame)
{
	size_t have = evbuffer_get_length(in), n;
	const unsigned char *p;

	if (have < 4)
		return ASK_FRAME_MORE;
	p = evbuffer_pullup(in, 4);
	n = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
	if (n > ASK_MAX || have > n + 4)
		return ASK_FRAME_BAD;
	if (have < n + 4)
		return ASK_FRAME_MORE;
	p = evbuffer_pullup(in, -1);
	*frame = (struct str){ (const char *)p + 4, n };
	return ASK_FRAME_WHOLE;
}

void
ask_put(struct bufferevent *bev, struct buf *frame)
{
	struct buf head = { 0 };

	buf_u32(&head, (uint32_t)frame->n);
	bufferevent_write(bev, head.p, head.n);
	bufferevent_write(bev, frame->p, frame->n);
	buf_free(&head);
	buf_wipe(frame);
	buf_free(frame);
}

void
ask_wipe(struct evbuffer *b)
{
	size_t n = evbuffer_get_length(b);
	unsigned char *p = n > 0 ? evbuffer_pullup(b, -1) : NULL;

	if (p != NULL)
		explicit_bzero(p, n);
	evbuffer_drain(b, n);
}

static void
drop_peer(struct ask *ask)
{
	if (ask->bev == NULL)
		return;
	bufferevent_free(ask->bev);
	ask->bev = NULL;
}

static void
end(struct ask *ask)
{
	drop_peer(ask);
	if (ask->server != NULL) {
		TAILQ_REMOVE(&ask->server->asks, ask, entry);
		ask->server->open--;
	}
	free(ask);
}

static void
on_written(struct bufferevent *bev, void *arg)
{
	struct ask *ask = arg;

	(void)bev;
	if (!ask->asked)
		end(ask);
}

/* Also the time limit. A question that is being answered only loses its
 * asker. */
static void
on_gone(struct bufferevent *bev, short what, void *arg)
{
	struct ask *ask = arg;

	(void)bev;
	(void)what;
	if (ask->asked)
		drop_peer(ask);
	else
		end(ask);
}

static void
on_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	struct ask *ask = arg;
	struct str frame;
	struct buf copy = { 0 };

	switch (ask->asked ? ASK_FRAME_BAD : ask_frame(in, &frame)) {
	case ASK_FRAME_MORE:
		return;
	case ASK_FRAME_BAD:
		on_gone(bev, 0, ask);
		return;
	case ASK_FRAME_WHOLE:
		break;
	}
	buf_add_str(&copy, frame);
	ask_wipe(in);
	ask->asked = true;
	ask->server->fn(ask->server->arg, ask, buf_str(&copy));
	buf_wipe(&copy);
	buf_free(&copy);
}

static void
on_accept(void *arg, evutil_socket_t fd, const struct net_peer *peer)
{
	static const struct timeval limit = { ASK_TIMEOUT_S, 0 };
	struct ask_server *server = arg;
	struct ask *ask;

	(void)peer;
	if (server->open >= ASK_OPEN_MAX) {
		close(fd);
		return;
	}
	ask = xcalloc(1, sizeof(*ask));
	ask->server = server;
	ask->bev =
	    bufferevent_socket_new(server->base, fd, BEV_OPT_CLOSE_ON_FREE);
	BUG_ON(ask->bev == NULL);
	bufferevent_setcb(ask->bev, on_read, NULL, on_gone, ask);
	bufferevent_set_timeouts(ask->bev, &limit, &limit);
	bufferevent_enable(ask->bev, EV_READ | EV_WRITE);
	TAILQ_INSERT_TAIL(&server->asks, ask, entry);
	server->open++;
}

void
ask_answer(struct ask *ask, struct buf *answer)
{
	BUG_ON(!ask->asked || answer->n > ASK_MAX);
	ask->asked = false;
	if (ask->bev == NULL) {
		buf_wipe(answer);
		buf_free(answer);
		end(ask);
		return;
	}
	bufferevent_setcb(ask->bev, NULL, on_written, on_gone, ask);
	ask_put(ask->bev, answer);
}

static int
bind_at(const char *path, struct err *err)
{
	struct sockaddr_un to;
	struct stat st;
	int fd;

	if (!ask_address(&to, path)) {
		err_set(err, EINVAL, "%s: not a path a socket can have", path);
		return -1;
	}
	/* Only ever remove a socket. */
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		(void)unlink(path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&to, sizeof(to)) == 0 &&
	    chmod(path, 0660) == 0 && listen(fd, ASK_OPEN_MAX) == 0)
		return fd;
	err_set(err, errno, "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

struct ask_server *
ask_server_new(struct event_base *base, const char *path, ask_fn *fn, void *arg,
    struct err *err)
{
	struct ask_server *server;
	int fd = bind_at(path, err);

	if (fd < 0)
		return NULL;
	server = xcalloc(1, sizeof(*server));
	TAILQ_INIT(&server->asks);
	server->base = base;
	server->path = xstrdup(path);
	server->fn = fn;
	server->arg = arg;
	server->listener = net_listener_new(base, fd, on_accept, server);
	return server;
}

void
ask_server_free(struct ask_server *server)
{
	struct ask *ask;

	if (server == NULL)
		return;
	net_listener_free(server->listener);
	(void)unlink(server->path);
	while ((ask = TAILQ_FIRST(&server->asks)) != NULL) {
		TAILQ_REMOVE(&server->asks, ask, entry);
		ask->server = NULL;
		drop_peer(ask);
		if (!ask->asked)
			free(ask); /* else with its answer */
	}
	free(server->path);
	free(server);
}
