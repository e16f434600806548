/* SPDX-License-Identifier: ISC */
#include "decode/sandbox.h"

#include <seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static bool
limit(int what, rlim_t n)
{
	const struct rlimit l = { n, n };

	return setrlimit(what, &l) == 0;
}

bool
sandbox_limit(void)
{
	return limit(RLIMIT_CORE, 0) && limit(RLIMIT_FSIZE, 0) &&
	       limit(RLIMIT_NPROC, 0) && limit(RLIMIT_MEMLOCK, 0) &&
	       limit(RLIMIT_CPU, SANDBOX_CPU_S) &&
	       (SANDBOX_SANITIZED || limit(RLIMIT_AS, SANDBOX_MEMORY));
}

/* 0, or what libseccomp says of the first rule it does not take. */
static int
allow_memory(scmp_filter_ctx filter)
{
	int rc;

	rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2,
	    SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
	    SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS));
	if (rc == 0)
		rc = seccomp_rule_add(
		    filter, SCMP_ACT_ALLOW, SCMP_SYS(munmap), 0);
	if (rc == 0)
		rc = seccomp_rule_add(
		    filter, SCMP_ACT_ALLOW, SCMP_SYS(mremap), 0);
	if (rc == 0)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(brk), 0);
	return rc;
}

static int
allow_talking(scmp_filter_ctx filter, int fd)
{
	int rc;

	rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(read), 1,
	    SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)fd, 0));
	if (rc == 0)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(write),
		    1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)fd, 0));
	if (rc == 0)
		rc = seccomp_rule_add(
		    filter, SCMP_ACT_ALLOW, SCMP_SYS(exit_group), 0);
	return rc;
}

/* What AddressSanitizer does for itself, on the process's own memory. */
static int
allow_sanitizer(scmp_filter_ctx filter)
{
	static const int calls[] = { SCMP_SYS(madvise), SCMP_SYS(mprotect),
		SCMP_SYS(futex), SCMP_SYS(sigaltstack),
		SCMP_SYS(rt_sigprocmask), SCMP_SYS(getpid), SCMP_SYS(gettid),
		SCMP_SYS(sched_yield) };
	size_t i;
	int rc = 0;

	for (i = 0; rc == 0 && i < sizeof(calls) / sizeof(calls[0]); i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
	return rc;
}

static bool
filter_calls(int fd)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int rc = filter == NULL ? -1 : allow_talking(filter, fd);

	if (rc == 0)
		rc = allow_memory(filter);
	if (rc == 0 && SANDBOX_SANITIZED)
		rc = allow_sanitizer(filter);
	if (rc == 0)
		rc = seccomp_load(filter); /* sets no_new_privs too */
	if (filter != NULL)
		seccomp_release(filter);
	return rc == 0;
}

bool
sandbox_close(int fd)
{
	if (fd > 0 && close_range(0, (unsigned)fd - 1, 0) != 0)
		return false;
	if (close_range((unsigned)fd + 1, ~0U, 0) != 0)
		return false;
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 &&
	       limit(RLIMIT_NOFILE, 0) && filter_calls(fd);
}
