/* SPDX-License-Identifier: ISC */
/*
 * decode/sandbox.c attacked from inside: each attack runs in a child that has
 * closed the sandbox, and has to die of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "decode/sandbox.h"

#define FD 3
#define SURVIVED 42 /* exit status of an attack that went through */
#define NOT_CLOSED 43

static char path[] = "/etc/passwd";
static char *const no_words[] = { NULL };

static void
try_open(void)
{
	(void)!open(path, O_RDONLY);
}

static void
try_openat2(void)
{
	(void)!syscall(SYS_openat2, AT_FDCWD, path, NULL, 0);
}

static void
try_stat(void)
{
	struct stat st;

	(void)!stat(path, &st);
}

static void
try_socket(void)
{
	(void)!socket(AF_INET, SOCK_STREAM, 0);
}

static void
try_connect(void)
{
	const struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons(25),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	(void)!connect(FD, (const void *)&to, sizeof(to));
}

static void
try_sendmsg(void)
{
	char byte = 'x';
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	(void)!sendmsg(FD, &m, 0);
}

static void
try_recvmsg(void)
{
	struct msghdr m = { 0 };

	(void)!recvmsg(FD, &m, MSG_DONTWAIT);
}

static void
try_execve(void)
{
	char program[] = "/bin/true";

	(void)!execve(program, no_words, no_words);
}

static void
try_fork(void)
{
	if (fork() == 0)
		_exit(SURVIVED);
}

static void
try_kill(void)
{
	(void)!kill(getppid(), 0);
}

static void
try_kill_raw(void)
{
	(void)!syscall(SYS_kill, 1, 0);
}

static void
try_tgkill(void)
{
	(void)!syscall(SYS_tgkill, 1, 1, 0);
}

static void
try_ptrace(void)
{
	(void)!ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static void
try_process_vm(void)
{
	(void)!syscall(SYS_process_vm_readv, 1, NULL, 0, NULL, 0, 0);
}

static void
try_limits(void)
{
	const struct rlimit l = { 100, 100 };

	(void)!setrlimit(RLIMIT_NOFILE, &l);
}

static void
try_dup(void)
{
	(void)!dup(FD);
}

static void
try_fcntl(void)
{
	(void)!fcntl(FD, F_GETFL);
}

static void
try_read_other(void)
{
	char byte;

	(void)!read(FD + 1, &byte, 1);
}

static void
try_write_other(void)
{
	(void)!write(FD + 2, "x", 1);
}

static void
try_memory_exec(void)
{
	(void)!mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void
try_memory_file(void)
{
	(void)!mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, FD, 0);
}

static void
try_io_uring(void)
{
	(void)!syscall(425 /* io_uring_setup */, 1, NULL);
}

static void
try_prctl(void)
{
	(void)!syscall(SYS_prctl, 4 /* PR_SET_DUMPABLE */, 1, 0, 0, 0);
}

static void
try_unshare(void)
{
	(void)!syscall(SYS_unshare, 0);
}

#ifdef __x86_64__
/* The 32-bit door, which has other numbers: 20 is getpid there. */
static void
try_int80(void)
{
	long number = 20;

	__asm__ volatile("int $0x80" : "+a"(number) : : "memory");
}

/* The x32 bit. */
static void
try_x32(void)
{
	(void)!syscall(0x40000000 | SYS_write, FD, "x", 1);
}
#endif

static const struct {
	const char *name;
	void (*attack)(void);
} attacks[] = {
	{ "open", try_open },
	{ "openat2", try_openat2 },
	{ "stat", try_stat },
	{ "socket", try_socket },
	{ "connect", try_connect },
	{ "sendmsg", try_sendmsg },
	{ "recvmsg", try_recvmsg },
	{ "execve", try_execve },
	{ "fork", try_fork },
	{ "kill", try_kill },
	{ "kill 1", try_kill_raw },
	{ "tgkill", try_tgkill },
	{ "ptrace", try_ptrace },
	{ "process_vm_readv", try_process_vm },
	{ "setrlimit", try_limits },
	{ "dup", try_dup },
	{ "fcntl", try_fcntl },
	{ "read of 4", try_read_other },
	{ "write to 5", try_write_other },
	{ "executable memory", try_memory_exec },
	{ "memory of a file", try_memory_file },
	{ "io_uring", try_io_uring },
	{ "prctl", try_prctl },
	{ "unshare", try_unshare },
#ifdef __x86_64__
	{ "int 0x80", try_int80 },
	{ "x32", try_x32 },
#endif
};

/* Runs `fn` in the sandbox; its wait status. The parent's end is `*fd`. */
static int
in_sandbox(void (*fn)(void), int *fd)
{
	int pair[2], status;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (dup2(pair[1], FD) != FD || !sandbox_limit() ||
		    !sandbox_close(FD))
			_exit(NOT_CLOSED);
		fn();
		_exit(SURVIVED);
	}
	(void)close(pair[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (fd != NULL)
		*fd = pair[0];
	else
		(void)close(pair[0]);
	return status;
}

static bool
is_under_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload != NULL && strstr(preload, "vgpreload") != NULL;
}

static void
need_sandbox(void)
{
	if (!is_under_valgrind())
		return;
	print_message("SKIP sandbox: valgrind makes system calls of its own\n");
	skip();
}

static void
test_attacks(void **state)
{
	size_t i;
	int status;

	(void)state;
	need_sandbox();
	for (i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		print_message("%s\n", attacks[i].name);
		status = in_sandbox(attacks[i].attack, NULL);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGSYS);
	}
}

/* What is left works: memory small and large, the one descriptor. */
static void
work(void)
{
	char *p[64];
	size_t i, n;

	for (i = 0; i < 64; i++) {
		n = (size_t)1 << (i % 22);
		p[i] = malloc(n);
		if (p[i] == NULL)
			_exit(1);
		memset(p[i], 'x', n);
	}
	for (i = 0; i < 64; i += 2)
		p[i] = realloc(p[i], 300000);
	for (i = 0; i < 64; i++)
		free(p[i]);
	if (write(FD, "done", 4) != 4)
		_exit(2);
}

static void
test_work(void **state)
{
	char said[5] = "";
	int fd, status;

	(void)state;
	need_sandbox();
	status = in_sandbox(work, &fd);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), SURVIVED);
	assert_int_equal(read(fd, said, 4), 4);
	assert_string_equal(said, "done");
	(void)close(fd);
}

static void
eat_memory(void)
{
	char *p;
	size_t all;

	for (all = 0; all <= 2 * SANDBOX_MEMORY; all += 1 << 20) {
		p = malloc(1 << 20);
		if (p == NULL)
			_exit(7);
		memset(p, 'x', 1 << 20);
	}
}

static void
test_memory(void **state)
{
	int status;

	(void)state;
	need_sandbox();
	if (SANDBOX_SANITIZED) {
		print_message("SKIP memory limit: AddressSanitizer needs "
			      "terabytes of address space\n");
		skip();
	}
	status = in_sandbox(eat_memory, NULL);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

static void
eat_time(void)
{
	volatile unsigned long n = 0;

	for (;;)
		n++;
}

static void
test_time(void **state)
{
	int status;

	(void)state;
	need_sandbox();
	status = in_sandbox(eat_time, NULL);
	assert_true(WIFSIGNALED(status));
	assert_true(WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGXCPU);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attacks),
		cmocka_unit_test(test_work),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
