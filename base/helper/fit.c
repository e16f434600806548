/* SPDX-License-Identifier: ISC */
/*
 * Is postern-decode fit for use on this machine? It is asked to decode a
 * text of ours; what the kernel says of the ended process, not what the
 * program says of itself, shows whether its sandbox was closed.
 */
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/conf.h"
#include "base/helper/helper.h"
#include "base/helper/process.h"
#include "base/loop.h"
#include "base/xalloc.h"

struct trial {
	struct loop *loop;
	struct process process;
	const char *why; /* it was no good; NULL: it ended by itself */
	bool is_over, in_sandbox;
};

const char *
helper_program(const struct conf *conf)
{
	return conf->admin_decode_program[0] != '\0'
		   ? conf->admin_decode_program
		   : POSTERN_LIBEXECDIR "/postern-decode";
}

static void
end(struct trial *t, const char *why)
{
	t->is_over = true;
	t->why = why;
	loop_stop(t->loop);
}

static void
on_broken(struct process *p, const char *why)
{
	end(p->arg, why);
}

static void
on_deadline(void *arg)
{
	end(arg, "no answer in time");
}

/* Filters stay with a process until somebody has waited for it. */
static bool
was_filtered(pid_t pid)
{
	char path[64], line[256];
	bool filtered = false;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	while (fgets(line, sizeof(line), f) != NULL)
		filtered = filtered || strcmp(line, "Seccomp:\t2\n") == 0;
	(void)fclose(f);
	return filtered;
}

static void
on_child(evutil_socket_t signo, short what, void *arg)
{
	struct trial *t = arg;
	siginfo_t info = { 0 };

	(void)signo;
	(void)what;
	if (t->is_over ||
	    waitid(P_PID, (id_t)t->process.pid, &info,
		WEXITED | WNOHANG | WNOWAIT) != 0 ||
	    info.si_pid == 0)
		return;
	t->in_sandbox = was_filtered(t->process.pid);
	end(t, NULL);
}

/* False: `err` with a HELPER_FIT_*. */
static bool
judge(struct trial *t, const char *path, const char *want, struct err *err)
{
	struct helper_answer a;
	int status = 0;

	if (t->why != NULL) {
		err_set(err, HELPER_FIT_ANSWER, "%s: %s", path, t->why);
		return false;
	}
	BUG_ON(!process_ended(&t->process, &status));
	if (WIFEXITED(status) && WEXITSTATUS(status) == HELPER_EXIT_SANDBOX)
		err_set(err, HELPER_FIT_SANDBOX,
		    "%s: its sandbox does not close", path);
	else if (status != 0 || process_reply(&t->process, &a) != HELPER_TEXT ||
		 !str_eq(a.text, str_of(want)))
		err_set(err, HELPER_FIT_ANSWER,
		    "%s: does not decode (wait status %d)", path, status);
	else if (!t->in_sandbox)
		err_set(err, HELPER_FIT_SANDBOX, "%s: runs without a sandbox",
		    path);
	else
		return true;
	return false;
}

static bool
try_once(struct trial *t, const char *path, struct err *err)
{
	const struct helper_request r = { .kind = HELPER_LEAF,
		.charset = str_lit("koi8-r"),
		.type = str_lit("text/plain"),
		.bytes = str_lit("\xf0\xf2") };
	struct loop_timer *deadline;
	struct err why = { 0 };
	bool is_fit;

	if (!process_start(&t->process, t->loop, path, &why)) {
		err_set(err, HELPER_FIT_START, "%s", why.text);
		return false;
	}
	deadline = loop_timer_new(t->loop, on_deadline, t);
	loop_timer_set(deadline, HELPER_DEADLINE_MS);
	process_send(&t->process, &r);
	loop_run(t->loop);
	is_fit = judge(t, path, "ПР", err);
	loop_timer_free(deadline);
	process_clear(&t->process);
	return is_fit;
}

bool
helper_fit(const char *path, struct err *err)
{
	struct trial t = { .process = { .broken = on_broken } };
	struct event *child;
	bool is_fit;

	t.process.arg = &t;
	t.loop = loop_new();
	child = evsignal_new(loop_base(t.loop), SIGCHLD, on_child, &t);
	BUG_ON(child == NULL || event_add(child, NULL) != 0);
	is_fit = try_once(&t, path, err);
	event_free(child);
	loop_free(t.loop);
	return is_fit;
}
