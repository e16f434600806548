/* SPDX-License-Identifier: ISC */
#include "base/helper/process.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/xalloc.h"

#define READ_AT_ONCE 16384

/* ---- starting */

/* Its socket is 3; 0 to 2 lead nowhere; nothing else is open. */
static int
set_files(posix_spawn_file_actions_t *files, int fd)
{
	int rc, i;

	rc = posix_spawn_file_actions_adddup2(files, fd, HELPER_FD);
	for (i = 0; rc == 0 && i < HELPER_FD; i++)
		rc = posix_spawn_file_actions_addopen(
		    files, i, "/dev/null", O_RDWR, 0);
	if (rc == 0)
		rc = posix_spawn_file_actions_addclosefrom_np(
		    files, HELPER_FD + 1);
	return rc;
}

/* No signal blocked or ignored, a group of its own. */
static int
set_signals(posix_spawnattr_t *attr)
{
	sigset_t all, none;
	int rc;

	(void)sigfillset(&all);
	(void)sigemptyset(&none);
	rc = posix_spawnattr_setsigdefault(attr, &all);
	if (rc == 0)
		rc = posix_spawnattr_setsigmask(attr, &none);
	if (rc == 0)
		rc = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGDEF |
							POSIX_SPAWN_SETSIGMASK |
							POSIX_SPAWN_SETPGROUP);
	return rc;
}

static int
spawn(pid_t *pid, const char *path, int fd)
{
	static char name[] = "postern-decode";
	char *const argv[] = { name, NULL }, *const envp[] = { NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int rc;

	BUG_ON(posix_spawn_file_actions_init(&files) != 0 ||
	       posix_spawnattr_init(&attr) != 0);
	rc = set_files(&files, fd);
	if (rc == 0)
		rc = set_signals(&attr);
	if (rc == 0)
		rc = posix_spawn(pid, path, &files, &attr, argv, envp);
	(void)posix_spawn_file_actions_destroy(&files);
	(void)posix_spawnattr_destroy(&attr);
	return rc;
}

/* ---- talking */

static void
give_up(struct process *p, const char *why)
{
	(void)event_del(p->readable);
	(void)event_del(p->writable);
	p->broken(p, why);
}

/* False: `why` it is over, or NULL when all that is there has been read. */
static bool
read_some(struct process *p, const char **why)
{
	const size_t max = HELPER_REPLY_HEAD + HELPER_OUTPUT_MAX;
	unsigned char *room = buf_reserve(&p->reply, READ_AT_ONCE);
	ssize_t n = recv(p->fd, room, READ_AT_ONCE, MSG_DONTWAIT);

	*why = NULL;
	if (n > 0)
		p->reply.n += (size_t)n;
	if (p->reply.n > max)
		*why = "too much output";
	else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		(void)event_del(p->readable); /* its end is awaited */
	return n > 0 && *why == NULL;
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct process *p = arg;
	const char *why;

	(void)fd;
	(void)what;
	if (!read_some(p, &why) && why != NULL)
		give_up(p, why);
}

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct process *p = arg;
	const bool in_head = p->sent < p->head_n;
	const char *from = in_head ? (const char *)p->head + p->sent
				   : p->bytes.p + (p->sent - p->head_n);
	size_t left =
	    in_head ? p->head_n - p->sent : p->bytes.n - (p->sent - p->head_n);
	ssize_t n = send(fd, from, left, MSG_NOSIGNAL | MSG_DONTWAIT);

	(void)what;
	if (n > 0)
		p->sent += (size_t)n;
	else if (errno != EAGAIN && errno != EINTR)
		(void)event_del(p->writable); /* it is dying: that is awaited */
	if (p->sent == p->head_n + p->bytes.n)
		(void)event_del(p->writable);
}

bool
process_start(
    struct process *p, struct loop *loop, const char *path, struct err *err)
{
	struct event_base *base = loop_base(loop);
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
		err_set(err, errno, "socketpair: %s", strerror(errno));
		return false;
	}
	rc = spawn(&p->pid, path, pair[1]);
	(void)close(pair[1]);
	if (rc != 0) {
		p->pid = 0;
		(void)close(pair[0]);
		err_set(err, rc, "%s: %s", path, strerror(rc));
		return false;
	}
	p->fd = pair[0];
	p->readable =
	    event_new(base, p->fd, EV_READ | EV_PERSIST, on_readable, p);
	p->writable =
	    event_new(base, p->fd, EV_WRITE | EV_PERSIST, on_writable, p);
	BUG_ON(p->readable == NULL || p->writable == NULL);
	return true;
}

static void
put_name(struct process *p, struct str name)
{
	BUG_ON(name.n > HELPER_NAME_MAX);
	if (name.n > 0)
		memcpy(p->head + p->head_n, name.p, name.n);
	p->head_n += name.n;
}

void
process_send(struct process *p, const struct helper_request *r)
{
	const size_t n = r->bytes.n;

	memset(p->head, 0, HELPER_REQUEST_HEAD);
	memcpy(p->head, HELPER_REQUEST_MAGIC, 4);
	p->head[4] = (unsigned char)r->kind;
	p->head[5] = (unsigned char)r->encoding;
	p->head[6] = r->more ? HELPER_FLAG_MORE : 0;
	p->head[7] = (unsigned char)r->charset.n;
	p->head[8] = (unsigned char)r->type.n;
	p->head[12] = (unsigned char)(n >> 24);
	p->head[13] = (unsigned char)(n >> 16);
	p->head[14] = (unsigned char)(n >> 8);
	p->head[15] = (unsigned char)n;
	p->head_n = HELPER_REQUEST_HEAD;
	put_name(p, r->charset);
	put_name(p, r->type);
	p->bytes = r->bytes;
	p->sent = 0;
	BUG_ON(event_add(p->readable, NULL) != 0 ||
	       event_add(p->writable, NULL) != 0);
}

/* ---- ending */

void
process_kill(struct process *p)
{
	(void)event_del(p->readable);
	(void)event_del(p->writable);
	(void)kill(p->pid, SIGKILL);
}

bool
process_ended(struct process *p, int *status)
{
	const char *why;

	if (waitpid(p->pid, status, WNOHANG) != p->pid)
		return false;
	p->pid = 0;
	while (read_some(p, &why))
		;
	return true;
}

enum helper_outcome
process_reply(const struct process *p, struct helper_answer *a)
{
	const unsigned char *b = p->reply.p;
	size_t n = p->reply.n, said;

	memset(a, 0, sizeof(*a));
	a->outcome = HELPER_FAILED;
	if (n < HELPER_REPLY_HEAD ||
	    n > HELPER_REPLY_HEAD + HELPER_OUTPUT_MAX ||
	    memcmp(b, HELPER_REPLY_MAGIC, 4) != 0 ||
	    b[5] > (HELPER_FLAG_REPLACED | HELPER_FLAG_CUT))
		return a->outcome;
	said = (size_t)b[8] << 24 | (size_t)b[9] << 16 | (size_t)b[10] << 8 |
	       b[11];
	if (said != n - HELPER_REPLY_HEAD || b[6] != 0 || b[7] != 0)
		return a->outcome;
	if (b[4] == HELPER_NO_CHARSET && said == 0)
		a->outcome = HELPER_UNKNOWN;
	if (b[4] != HELPER_DECODED)
		return a->outcome;
	a->outcome = HELPER_TEXT;
	a->text = (struct str){ (const char *)b + HELPER_REPLY_HEAD, said };
	a->replaced = (b[5] & HELPER_FLAG_REPLACED) != 0;
	a->cut = (b[5] & HELPER_FLAG_CUT) != 0;
	return a->outcome;
}

void
process_clear(struct process *p)
{
	if (p->pid != 0) {
		(void)kill(p->pid, SIGKILL);
		while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
			;
		p->pid = 0;
	}
	if (p->readable == NULL)
		return;
	event_free(p->readable);
	event_free(p->writable);
	p->readable = p->writable = NULL;
	(void)close(p->fd);
	buf_wipe(&p->reply);
	buf_free(&p->reply);
}
