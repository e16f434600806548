/* SPDX-License-Identifier: ISC */
#include "admin/words.h"

#include <stddef.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "policy/vocabulary.h"

#define FROM_MEDIUM 25
#define FROM_HIGH 75
#define MOST 100

const char *
words_state(int state)
{
	const char *name = policy_state_name(state);

	return name != NULL ? name : "";
}

enum view_risk
words_risk(int risk)
{
	if (risk >= FROM_HIGH)
		return VIEW_RISK_HIGH;
	return risk >= FROM_MEDIUM ? VIEW_RISK_MEDIUM : VIEW_RISK_LOW;
}

bool
words_risk_band(const char *name, int *from, int *to)
{
	static const struct {
		enum policy_risk risk;
		int from, to;
	} bands[] = {
		{ RISK_LOW, 0, FROM_MEDIUM - 1 },
		{ RISK_MEDIUM, FROM_MEDIUM, FROM_HIGH - 1 },
		{ RISK_HIGH, FROM_HIGH, MOST },
	};
	size_t i;

	*from = *to = 0;
	if (name == NULL || name[0] == '\0')
		return true;
	for (i = 0; i < sizeof(bands) / sizeof(bands[0]); i++) {
		if (strcmp(policy_risk_name(bands[i].risk), name) != 0)
			continue;
		*from = bands[i].from;
		*to = bands[i].to;
		return true;
	}
	return false;
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

/* Why mail that was released waits again (d.gate_why, api.sweep_1). */
static const struct {
	const char *name, *label;
} again[] = {
	{ "aged", "The approval was too old" },
	{ "expired", "The approval was too old" },
	{ "tightened", "The inbox was made stricter" },
	{ "rule_ended", "The rule that let it leave was ended" },
};

const char *
words_held(struct arena *mem, const char *reasons)
{
	const char *more;
	size_t i;

	for (i = 0; i < sizeof(again) / sizeof(again[0]); i++)
		if (strcmp(reasons, again[i].name) == 0)
			return again[i].label;
	more = words_reasons(mem, reasons);
	if (more != NULL)
		return more;
	return strstr(reasons, policy_hold_reason_name(HOLD_MODE)) != NULL
		   ? policy_hold_reason_label(HOLD_MODE)
		   : reasons;
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
