/* SPDX-License-Identifier: ISC */
#include "deliver/sts_policy.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#define PATTERN_MAX 253

static bool
is_id(struct str s)
{
	size_t i;

	for (i = 0; i < s.n; i++) {
		if (!isalnum((unsigned char)s.p[i]))
			return false;
	}
	return s.n > 0 && s.n <= STS_ID_MAX;
}

bool
sts_record_parse(char id[STS_ID_MAX + 1], struct str txt)
{
	struct str field, name, found = { NULL, 0 };

	field = str_split(&txt, ';');
	name = str_split(&field, '=');
	if (!str_eq(name, str_lit("v")) ||
	    !str_eq(str_trim(field), str_lit("STSv1")))
		return false;
	while (txt.n > 0) {
		field = str_split(&txt, ';');
		name = str_split(&field, '=');
		if (str_eq(str_trim(name), str_lit("id")) && found.p == NULL)
			found = str_trim(field);
	}
	if (found.p == NULL || !is_id(found))
		return false;
	memcpy(id, found.p, found.n);
	id[found.n] = '\0';
	return true;
}

/* "mail.example", "*.example"; labels of letters, digits and hyphens. */
static bool
is_pattern(struct str s)
{
	size_t i;

	if (str_starts(s, str_lit("*."))) {
		s.p += 2;
		s.n -= 2;
	}
	for (i = 0; i < s.n; i++) {
		if (!isalnum((unsigned char)s.p[i]) && s.p[i] != '-' &&
		    s.p[i] != '_' &&
		    (s.p[i] != '.' || i == 0 || s.p[i - 1] == '.'))
			return false;
	}
	return s.n > 0 && s.n <= PATTERN_MAX;
}

static bool
parse_mode(struct sts_policy *policy, struct str value)
{
	enum sts_mode mode;

	for (mode = STS_MODE_NONE; mode <= STS_MODE_ENFORCE; mode++) {
		if (str_eq(value, str_of(sts_mode_name(mode)))) {
			policy->mode = mode;
			return true;
		}
	}
	return false;
}

/* What a policy must have, as it is found. */
struct seen {
	bool version, mode, max_age;
	size_t at; /* octets of policy->mx */
};

/* One line; of a name that comes again only the first counts. */
static bool
take_line(struct sts_policy *policy, struct seen *seen, struct str line)
{
	struct str value = line, name = str_trim(str_split(&value, ':'));
	unsigned long long age;

	value = str_trim(value);
	if (str_eq(name, str_lit("version")) && !seen->version) {
		seen->version = true;
		return str_eq(value, str_lit("STSv1"));
	}
	if (str_eq(name, str_lit("mode")) && !seen->mode) {
		seen->mode = true;
		return parse_mode(policy, value);
	}
	if (str_eq(name, str_lit("max_age")) && !seen->max_age) {
		seen->max_age = true;
		if (!str_to_u64(value, 9999999999ULL, &age))
			return false;
		policy->max_age_s =
		    age > STS_MAX_AGE_S ? STS_MAX_AGE_S : (long)age;
		return true;
	}
	if (!str_eq(name, str_lit("mx")))
		return true; /* an extension, an empty line or a repetition */
	if (!is_pattern(value) || policy->mx_n == STS_MX_MAX ||
	    value.n + 1 > STS_MX_BYTES - seen->at)
		return false;
	memcpy(policy->mx + seen->at, value.p, value.n);
	seen->at += value.n;
	policy->mx[seen->at++] = '\0';
	policy->mx_n++;
	return true;
}

bool
sts_policy_parse(struct sts_policy *policy, struct str text)
{
	struct seen seen = { false };
	bool ok = text.n <= STS_POLICY_BYTES &&
		  (text.n == 0 || memchr(text.p, '\0', text.n) == NULL);

	*policy = (struct sts_policy){ .mx = xmalloc(STS_MX_BYTES) };
	while (ok && text.n > 0) {
		struct str line = str_split(&text, '\n');

		if (line.n > 0 && line.p[line.n - 1] == '\r')
			line.n--;
		ok = take_line(policy, &seen, line);
	}
	ok = ok && seen.version && seen.mode && seen.max_age &&
	     (policy->mx_n > 0 || policy->mode == STS_MODE_NONE);
	if (ok)
		policy->mx = xrealloc(policy->mx, seen.at + 1);
	else
		sts_policy_clear(policy);
	return ok;
}

void
sts_policy_clear(struct sts_policy *policy)
{
	free(policy->mx);
	*policy = (struct sts_policy){ .mx = NULL };
}

static bool
fits(struct str pattern, struct str host)
{
	if (!str_starts(pattern, str_lit("*.")))
		return str_ieq(pattern, host);
	pattern.p += 2;
	pattern.n -= 2;
	/* The star is one label, whole. */
	return str_split(&host, '.').n > 0 && str_ieq(pattern, host);
}

bool
sts_policy_names(const struct sts_policy *policy, const char *host)
{
	struct str name = str_of(host);
	const char *p = policy->mx;
	size_t i;

	if (name.n > 0 && name.p[name.n - 1] == '.')
		name.n--;
	for (i = 0; i < policy->mx_n; i++, p += strlen(p) + 1) {
		if (fits(str_of(p), name))
			return true;
	}
	return false;
}

const char *
sts_mode_name(enum sts_mode mode)
{
	switch (mode) {
	case STS_MODE_NONE:
		return "none";
	case STS_MODE_TESTING:
		return "testing";
	case STS_MODE_ENFORCE:
		return "enforce";
	}
	return "none";
}
