/* SPDX-License-Identifier: ISC */
#include "policy/vocabulary.h"

struct word {
	int number;
	const char *name;
	const char *label;
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const struct word states[] = {
#define STATE(id, number, name, final, label) { number, name, label },
#include "policy/vocabulary.def"
};

static const struct word deliveries[] = {
#define DELIVERY(id, number, name, label) { number, name, label },
#include "policy/vocabulary.def"
};

static const struct word modes[] = {
#define MODE(id, number, name, label) { number, name, label },
#include "policy/vocabulary.def"
};

static const struct word actors[] = {
#define ACTOR(id, number, name) { number, name, name },
#include "policy/vocabulary.def"
};

static const struct word roles[] = {
#define ROLE(id, number, name) { number, name, name },
#include "policy/vocabulary.def"
};

static const struct word risks[] = {
#define RISK(id, number, name, label) { number, name, label },
#include "policy/vocabulary.def"
};

static const struct word categories[] = {
#define CATEGORY(id, name, label) { CATEGORY_##id, name, label },
#include "policy/vocabulary.def"
};

static const struct word hints[] = {
#define HINT(id, name, label) { HINT_##id, name, label },
#include "policy/vocabulary.def"
};

static const struct word hold_reasons[] = {
#define HOLD_REASON(id, name, label) { HOLD_##id, name, label },
#include "policy/vocabulary.def"
};

static const struct word events[] = {
#define EVENT(id, name) { EVENT_##id, name, name },
#include "policy/vocabulary.def"
};

static const struct {
	const char *name;
	const char *label;
} words[] = {
#define WORD(name, label) { name, label },
#include "policy/vocabulary.def"
};

/* strcmp() == 0, so that this folder needs no header but the three. */
static bool
same(const char *a, const char *b)
{
	while (*a != '\0' && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

static const char *
name_of(const struct word *table, size_t n, int number)
{
	for (size_t i = 0; i < n; i++)
		if (table[i].number == number)
			return table[i].name;
	return NULL;
}

static const char *
label_of(const struct word *table, size_t n, int number)
{
	for (size_t i = 0; i < n; i++)
		if (table[i].number == number)
			return table[i].label;
	return NULL;
}

static const struct word *
find(const struct word *table, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (same(table[i].name, name))
			return &table[i];
	return NULL;
}

const char *
policy_word_label(const char *name)
{
	for (size_t i = 0; i < COUNT(words); i++)
		if (same(words[i].name, name))
			return words[i].label;
	return name;
}

#define NAME_OF(noun, table)                                                   \
	const char *policy_##noun##_name(int noun)                             \
	{                                                                      \
		return name_of(table, COUNT(table), noun);                     \
	}

#define LABEL_OF(noun, table)                                                  \
	const char *policy_##noun##_label(int noun)                            \
	{                                                                      \
		return label_of(table, COUNT(table), noun);                    \
	}

#define FIND(noun, table)                                                      \
	bool policy_##noun##_find(const char *name, enum policy_##noun *noun)  \
	{                                                                      \
		const struct word *word = find(table, COUNT(table), name);     \
                                                                               \
		if (word == NULL)                                              \
			return false;                                          \
		*noun = (enum policy_##noun)word->number;                      \
		return true;                                                   \
	}

/* One line each reads as the table it is. */
/* clang-format off */
NAME_OF(state, states)           LABEL_OF(state, states)
NAME_OF(delivery, deliveries)    LABEL_OF(delivery, deliveries)
NAME_OF(mode, modes)             LABEL_OF(mode, modes)
NAME_OF(actor, actors)
NAME_OF(role, roles)
NAME_OF(risk, risks)             LABEL_OF(risk, risks)
NAME_OF(category, categories)    LABEL_OF(category, categories)
NAME_OF(hint, hints)             LABEL_OF(hint, hints)
NAME_OF(hold_reason, hold_reasons)
LABEL_OF(hold_reason, hold_reasons)
NAME_OF(event, events)

FIND(state, states)
FIND(mode, modes)
FIND(role, roles)
FIND(category, categories)
FIND(hint, hints)
