/* SPDX-License-Identifier: ISC */
#include "admin/words.h"

#include <stddef.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"

#define RISK_MEDIUM 25
#define RISK_HIGH 75

const char *
words_state(int state)
{
	static const char *const names[] = { "", "held", "approved", "rejected",
		"expired", "canceled", "scheduled", "sending", "sent",
		"deferred", "bounced", "uncertain" };

	if (state < 1 || state >= (int)(sizeof(names) / sizeof(names[0])))
		return "";
	return names[state];
}

const char *
words_delivery(int delivery)
{
	static const char *const names[] = { "waiting", "sending",
		"being handed over", "delivered", "will retry", "failed",
		"may have been sent", "blocked", "canceled" };

	if (delivery < 0 || delivery >= (int)(sizeof(names) / sizeof(names[0])))
		return NULL;
	return names[delivery];
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
	static const struct {
		const char *name, *text;
	} words[] = {
		{ "paused", "arrived during a pause" },
		{ "rule", "held by a rule" },
		{ "limit", "over a limit" },
		{ "recipient_list", "recipient list" },
	};
	struct buf out = { 0 };
	const char *kept = NULL;
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(reasons, words[i].name) != NULL)
			buf_printf(
			    &out, "%s%s", out.n > 0 ? ", " : "", words[i].text);
	if (out.n > 0)
		kept = arena_str(mem, buf_str(&out));
	buf_free(&out);
	return kept;
}

const char *
words_event(const char *type)
{
	static const struct {
		const char *name, *text;
	} words[] = {
		{ "message.held", "Held" },
		{ "message.approved", "Approved" },
		{ "message.rejected", "Rejected" },
		{ "message.expired", "Expired" },
		{ "message.canceled", "Canceled" },
		{ "message.undone", "Approval undone" },
		{ "message.edited", "Edited" },
		{ "message.sending", "Handed to the relay" },
		{ "message.sent", "Sent" },
		{ "message.deferred", "Will retry" },
		{ "message.bounced", "Bounced" },
		{ "message.uncertain", "May have been sent" },
		{ "message.viewed", "Opened after the decision" },
	};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(type, words[i].name) == 0)
			return words[i].text;
	return type;
}
