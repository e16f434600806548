/* SPDX-License-Identifier: ISC */
#include "admin/words.h"

#include <stddef.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "policy/vocabulary.h"

#define RISK_MEDIUM 25
#define RISK_HIGH 75

const char *
words_state(int state)
{
	const char *name = policy_state_name(state);

	return name != NULL ? name : "";
}

enum view_risk
words_risk(int risk)
{
	if (risk >= RISK_HIGH)
		return VIEW_RISK_HIGH;
	return risk >= RISK_MEDIUM ? VIEW_RISK_MEDIUM : VIEW_RISK_LOW;
}

const char *
words_reasons(struct arena *mem, const char *reasons)
{
	struct buf out = { 0 };
	const char *kept = NULL;
	int i;

	for (i = 0; i < HOLD_COUNT; i++)
		if (i != HOLD_MODE &&
		    strstr(reasons, policy_hold_reason_name(i)) != NULL)
			buf_printf(&out, "%s%s", out.n > 0 ? ", " : "",
			    policy_hold_reason_label(i));
	if (out.n > 0)
		kept = arena_str(mem, buf_str(&out));
	buf_free(&out);
	return kept;
}

const char *
words_event(const char *type)
{
	const char *name = strchr(type, '.');
	enum policy_state state;
	int i;

	/* message.held and the like are states; the rest has its own words. */
	if (name != NULL && policy_state_find(name + 1, &state))
		return policy_state_label((int)state);
	for (i = 0; i < EVENT_COUNT; i++)
		if (strcmp(type, policy_event_name(i)) == 0)
			return i == EVENT_UNDONE   ? "Approval undone"
			       : i == EVENT_EDITED ? "Edited"
						   : type;
	return type;
}
