/* SPDX-License-Identifier: ISC */
#include "mail/finding.h"

#include <string.h>

static const struct {
	const char *code, *text;
	int weight;
} table[] = {
#define FINDING(id, code, weight, when, text) { code, text, weight },
#include "mail/finding.def"
};

_Static_assert(FINDING_COUNT <= 64, "a set of findings is one word");

const char *
finding_code(enum finding f)
{
	return table[f].code;
}

const char *
finding_text(enum finding f)
{
	return table[f].text;
}

int
finding_weight(enum finding f)
{
	return table[f].weight;
}

int
finding_max(const struct finding_marks *m)
{
	int i, max = 0;

	for (i = 0; i < FINDING_COUNT; i++)
		if (finding_marked(m, i) && table[i].weight > max)
			max = table[i].weight;
	return max;
}

int
finding_risk(const struct finding_marks *m)
{
	/* What is left of "no reason to look", in billionths. */
	uint64_t left = 1000000000 / 100 * (100 - FINDING_RISK_NONE);
	int i;

	for (i = 0; i < FINDING_COUNT; i++)
		if (finding_marked(m, i))
			left = left / 100 * (100 - (unsigned)table[i].weight);
	return 100 - (int)(left / 10000000);
}

bool
finding_volume_odd(int64_t recent, int64_t past, int64_t hours)
{
	if (recent < FINDING_VOLUME_MIN ||
	    (hours < FINDING_VOLUME_HOURS && past < FINDING_VOLUME_MUCH))
		return false;
	return recent * hours > past * 24 * FINDING_VOLUME_TIMES;
}

bool
finding_listed(const char *list, struct str word)
{
	char text[24] = " ";

	if (word.n == 0 || word.n + 2 > sizeof(text) ||
	    memchr(word.p, ' ', word.n) != NULL)
		return false;
	memcpy(text + 1, word.p, word.n);
	str_lower(text + 1, word.n);
	text[word.n + 1] = ' ';
	return memmem(list, strlen(list), text, word.n + 2) != NULL;
}

void
finding_note(void *marks, enum finding f, struct str what)
{
	(void)what;
	finding_mark(marks, f);
}
