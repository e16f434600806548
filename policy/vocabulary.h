/* SPDX-License-Identifier: ISC */
/*
 * vocabulary.h - the words of vocabulary.def as enums and names.
 *
 * A name is what the database, the API and the pages say; a label is what
 * people read. Lookups by name answer false for a word that is not in the
 * list; names of numbers that are not in the list are NULL.
 */
#ifndef POLICY_VOCABULARY_H
#define POLICY_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>

enum policy_state {
#define STATE(id, number, name, final, label) STATE_##id = number,
#include "policy/vocabulary.def"
	STATE_COUNT
};

enum policy_delivery {
#define DELIVERY(id, number, name, label) DELIVERY_##id = number,
#include "policy/vocabulary.def"
	DELIVERY_COUNT
};

enum policy_mode {
#define MODE(id, number, name, label) MODE_##id = number,
#include "policy/vocabulary.def"
	MODE_COUNT
};

enum policy_actor {
#define ACTOR(id, number, name) ACTOR_##id = number,
#include "policy/vocabulary.def"
	ACTOR_COUNT
};

enum policy_role {
#define ROLE(id, number, name) ROLE_##id = number,
#include "policy/vocabulary.def"
	ROLE_COUNT
};

enum policy_risk {
#define RISK(id, number, name, label) RISK_##id = number,
#include "policy/vocabulary.def"
	RISK_COUNT
};

enum policy_category {
#define CATEGORY(id, name, label) CATEGORY_##id,
#include "policy/vocabulary.def"
	CATEGORY_COUNT
};

enum policy_hint {
#define HINT(id, name, label) HINT_##id,
#include "policy/vocabulary.def"
	HINT_COUNT
};

enum policy_hold_reason {
#define HOLD_REASON(id, name, label) HOLD_##id,
#include "policy/vocabulary.def"
	HOLD_COUNT
};

enum policy_event {
#define EVENT(id, name) EVENT_##id,
#include "policy/vocabulary.def"
	EVENT_COUNT
};

enum policy_verdict {
#define VERDICT(id, letter, name) VERDICT_##id = letter,
#include "policy/vocabulary.def"
};

/* Borrowed, for ever; NULL when the number is no such word. */
const char *policy_state_name(int state);
const char *policy_state_label(int state);
const char *policy_delivery_name(int delivery);
const char *policy_delivery_label(int delivery);
const char *policy_mode_name(int mode);
const char *policy_mode_label(int mode);
const char *policy_actor_name(int actor);
const char *policy_role_name(int role);
const char *policy_risk_name(int risk);
const char *policy_risk_label(int risk);
const char *policy_category_name(int category);
const char *policy_category_label(int category);
const char *policy_hint_name(int hint);
const char *policy_hint_label(int hint);
const char *policy_hold_reason_name(int reason);
const char *policy_hold_reason_label(int reason);
const char *policy_event_name(int event);

/* What people read for a field's name; the name itself when it has none. */
const char *policy_word_label(const char *name);

/* False, and nothing written, when `name` is no such word. */
bool policy_state_find(const char *name, enum policy_state *state);
bool policy_mode_find(const char *name, enum policy_mode *mode);
bool policy_role_find(const char *name, enum policy_role *role);
bool policy_category_find(const char *name, enum policy_category *category);
bool policy_hint_find(const char *name, enum policy_hint *hint);

#endif
