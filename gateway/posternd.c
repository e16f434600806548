/* SPDX-License-Identifier: ISC */
/*
 * posternd.c - the agents' side: SMTP submission and REST.
 */
#include "base/daemon.h"
#include "gateway/supervisor.h"

int
main(int argc, char **argv)
{
	struct daemon daemon;
	int code;

	if (!daemon_init(&daemon, "posternd", argc, argv))
		code = daemon.exit_code;
	else
		code = supervisor_run(&daemon);
	daemon_clear(&daemon);
	return code;
}
