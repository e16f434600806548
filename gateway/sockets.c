/* SPDX-License-Identifier: ISC */
/*
 * sockets.c - bind address by address, and each address once per worker.
 */
#include "gateway/sockets.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/xalloc.h"
#include "net/listen.h"

static bool bind_list(struct sockets *sockets, enum door door,
    const struct conf_list *list, unsigned workers, struct err *err);
static bool bind_address(struct sockets *sockets, enum door door,
    const char *where, unsigned workers, struct err *err);

bool
sockets_bind(struct sockets *sockets, const struct conf *conf, unsigned workers,
    struct err *err)
{
	*sockets = (struct sockets){ 0 };
	if (bind_list(sockets, DOOR_SMTP, &conf->smtp_listen, workers, err) &&
	    bind_list(
		sockets, DOOR_SMTPS, &conf->smtp_listen_tls, workers, err) &&
	    bind_list(sockets, DOOR_API, &conf->api_listen, workers, err))
		return true;
	sockets_close(sockets);
	return false;
}

void
sockets_keep(struct sockets *sockets, unsigned worker)
{
	size_t i;

	for (i = 0; i < sockets->n; i++) {
		if (sockets->v[i].worker == worker)
			continue;
		close(sockets->v[i].fd);
		sockets->v[i].fd = -1;
	}
}

void
sockets_close(struct sockets *sockets)
{
	size_t i;

	for (i = 0; i < sockets->n; i++)
		if (sockets->v[i].fd >= 0)
			close(sockets->v[i].fd);
	free(sockets->v);
	*sockets = (struct sockets){ 0 };
}

static bool
bind_list(struct sockets *sockets, enum door door, const struct conf_list *list,
    unsigned workers, struct err *err)
{
	size_t i;

	for (i = 0; i < list->n; i++)
		if (!bind_address(sockets, door, list->v[i], workers, err))
			return false;
	return true;
}

/* The first one may have asked for port 0; the others share what it got. */
static bool
bind_address(struct sockets *sockets, enum door door, const char *where,
    unsigned workers, struct err *err)
{
	char bound[80];
	unsigned i;
	int fd;

	for (i = 0; i < workers; i++) {
		fd = net_bind(i == 0 ? where : bound, true, err);
		if (fd < 0)
			return false;
		if (i == 0)
			net_bound_name(fd, bound, sizeof bound);
		sockets->v = xreallocarray(
		    sockets->v, sockets->n + 1, sizeof *sockets->v);
		sockets->v[sockets->n++] =
		    (struct bound){ .door = door, .worker = i, .fd = fd };
	}
	return true;
}
