/* SPDX-License-Identifier: ISC */
/*
 * policy-dump - print the tables of policy/ as text, one fact a line:
 * `edge FROM TO ACTOR`, `step FROM TO ACTOR`, `state NUMBER NAME FINAL`,
 * `delivery NUMBER NAME`, `mode NUMBER NAME`. Tests compare the database's
 * tables with it. Every line is asked of the functions, not of the lists.
 */
#include <stdio.h>

#include "policy/mode.h"
#include "policy/state.h"

static void
dump_edges(void)
{
	for (unsigned from = 0; from < STATE_COUNT; from++)
		for (unsigned to = 0; to < STATE_COUNT; to++)
			for (unsigned actor = 0; actor < ACTOR_COUNT; actor++)
				if (policy_edge_allowed(from, to, actor))
					printf("edge %u %u %s\n", from, to,
					    policy_actor_name((int)actor));
}

static void
dump_steps(void)
{
	for (unsigned from = 0; from < DELIVERY_COUNT; from++)
		for (unsigned to = 0; to < DELIVERY_COUNT; to++)
			for (unsigned actor = 0; actor < ACTOR_COUNT; actor++)
				if (policy_step_allowed(from, to, actor))
					printf("step %u %u %s\n", from, to,
					    policy_actor_name((int)actor));
}

int
main(void)
{
	for (unsigned i = 0; i < STATE_COUNT; i++)
		printf("state %u %s %d\n", i, policy_state_name((int)i),
		    policy_state_is_final(i));
	for (unsigned i = 0; i < DELIVERY_COUNT; i++)
		printf("delivery %u %s\n", i, policy_delivery_name((int)i));
	for (unsigned i = 0; i < MODE_COUNT; i++)
		printf("mode %u %s\n", i, policy_mode_name((int)i));
	dump_edges();
	dump_steps();
	return 0;
}
