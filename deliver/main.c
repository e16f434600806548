/* SPDX-License-Identifier: ISC */
/*
 * postern-deliver - relays what was released, and nothing else.
 */
#include "base/daemon.h"
#include "deliver/worker.h"

int
main(int argc, char **argv)
{
	struct daemon daemon;
	int code;

	if (!daemon_init(&daemon, "postern-deliver", argc, argv))
		code = daemon.exit_code;
	else
		code = worker_run(&daemon);
	daemon_clear(&daemon);
	return code;
}
