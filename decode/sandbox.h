/* SPDX-License-Identifier: ISC */
/*
 * sandbox.h - what is left of a process that reads hostile text
 *
 * First limits, then, when all files it needs are open and all memory maps
 * of files are made, the end of everything but one descriptor: read and
 * write it, ask for anonymous memory that is not executable, exit. Any other
 * system call ends the process with SIGSYS.
 */
#ifndef DECODE_SANDBOX_H
#define DECODE_SANDBOX_H

#include <stdbool.h>

#define SANDBOX_MEMORY (256UL * 1024 * 1024)
#define SANDBOX_CPU_S 2

#if defined(__SANITIZE_ADDRESS__)
#define SANDBOX_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANDBOX_SANITIZED 1
#endif
#endif
#ifndef SANDBOX_SANITIZED
/*
 * 1 in builds with AddressSanitizer: it needs terabytes of address space and
 * a few more system calls on its own memory, so there the limit of memory is
 * off and these calls are allowed.
 */
#define SANDBOX_SANITIZED 0
#endif

/* Memory, processor time, no process, no file, no core. */
bool sandbox_limit(void);
/* Close all but `fd` and let no way back. False: do not go on. */
bool sandbox_close(int fd);

#endif
