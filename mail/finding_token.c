/* SPDX-License-Identifier: ISC */
/*
 * finding_token.c - keys and tokens: by how they begin, by their name before
 * them, or by the URL they are part of.
 */
#include "mail/finding_search.h"

#include <string.h>

#define TOKEN_MAX 512
#define WORD_MIN 12 /* of a token behind its anchor, at least */
#define URL_MAX 256
#define PEM_LINE 80 /* of its first line */
#define DISTINCT_MIN 8 /* characters of a real token: "xxxx" is none */

#define W10(c, v)                                                              \
	[c] = (v), [(c) + 1] = (v), [(c) + 2] = (v), [(c) + 3] = (v),          \
	[(c) + 4] = (v), [(c) + 5] = (v), [(c) + 6] = (v), [(c) + 7] = (v),    \
	[(c) + 8] = (v), [(c) + 9] = (v)

const unsigned char finding_class[256] = {
	W10('0', DIGIT | WORD), ['A'] = ANCHOR | WORD, ['B'] = WORD,
	['C'] = WORD, ['D'] = WORD, ['E'] = WORD, ['F'] = WORD,
	['G'] = ANCHOR | WORD, ['H'] = WORD, ['I'] = WORD, ['@'] = STOP,
	['J'] = ANCHOR | WORD, ['K'] = ANCHOR | WORD, W10('L', WORD),
	['V'] = WORD, ['W'] = WORD, ['X'] = WORD, ['Y'] = WORD, ['Z'] = WORD,
	W10('a', WORD), W10('k', WORD), ['u'] = WORD, ['v'] = ANCHOR | WORD,
	['w'] = WORD, ['x'] = WORD, ['y'] = WORD, ['z'] = ANCHOR | WORD,
	['-'] = ANCHOR | WORD, ['_'] = ANCHOR | WORD, [':'] = ANCHOR,
	[' '] = STOP, ['\t'] = STOP, ['\r'] = STOP, ['\n'] = STOP, ['/'] = STOP,
	['?'] = STOP, ['#'] = STOP, ['<'] = STOP, ['>'] = STOP, ['"'] = STOP,
	['\''] = STOP, ['('] = STOP, [')'] = STOP, [0xc2] = HIGH, /* U+00AD */
	[0xcd] = HIGH, /* U+034F */
	[0xe1] = HIGH, /* U+180E */
	[0xe2] = HIGH, /* U+200B ... */
	[0xe3] = HIGH, /* U+3164 */
	[0xef] = HIGH, /* U+FE00 ..., U+FEFF */
	[0xf0] = HIGH, /* U+1F3F4 */
	[0xf3] = HIGH, /* U+E0000 ... */
};

const struct finding_token finding_tokens[] = {
	{ "AKIA", 4, 1, FINDING_AWS_REST },
	{ "ASIA", 4, 3, FINDING_AWS_REST },
	{ "AIza", 4, 2, 35 },
	{ "eyJ", 3, 2, FINDING_JWT_REST },
	{ "ghp_", 4, 3, 30 },
	{ "gho_", 4, 3, 30 },
	{ "ghu_", 4, 3, 30 },
	{ "ghs_", 4, 3, 30 },
	{ "ghr_", 4, 3, 30 },
	{ "github_pat_", 11, 10, 30 },
	{ "glpat-", 6, 5, 20 },
	{ "xoxb-", 5, 4, 20 },
	{ "xoxp-", 5, 4, 20 },
	{ "xoxa-", 5, 4, 20 },
	{ "xoxs-", 5, 4, 20 },
	{ "xapp-", 5, 4, 20 },
	{ "sk_live_", 8, 7, 20 },
	{ "rk_live_", 8, 7, 20 },
	{ "npm_", 4, 3, 30 },
	{ "shpat_", 6, 5, 30 },
	{ "hf_", 3, 2, 30 },
	{ "dop_v1_", 7, 6, 40 },
	{ "gsk_", 4, 3, 40 },
	{ "whsec_", 6, 5, 30 },
	{ "pypi-AgE", 8, 4, 40 },
	{ "GOCSPX-", 7, 6, 24 },
	{ "AGE-SECRET-KEY-1", 16, 3, 50 },
	{ "sk-", 3, 2, FINDING_OPENAI_REST },
	{ "sk-ant-", 7, 6, 30 },
	{ "sk-proj-", 8, 7, 30 },
	{ "pst_live_", 9, 8, 50 },
	{ "pst_sess_", 9, 8, 50 },
	{ "pst_test_", 9, 8, 50 },
	{ "pst_prov_", 9, 8, 50 },
	{ "pst_op_", 7, 6, 50 },
	{ NULL, 0, 0, 0 },
};

static int
distinct(const char *p, const char *end)
{
	uint64_t low = 0, high = 0;

	for (; p < end; p++) {
		if ((*p & 0x40) != 0)
			high |= UINT64_C(1) << (*p & 63);
		else
			low |= UINT64_C(1) << (*p & 63);
	}
	return __builtin_popcountll(low) + __builtin_popcountll(high);
}

static const char *
token_end(
    const struct search *s, const struct finding_token *t, const char *from)
{
	const char *p = from + t->n;
	bool jwt = t->rest == FINDING_JWT_REST;
	bool aws = t->rest == FINDING_AWS_REST;
	unsigned dots = 0;

	while (p < s->end && p - from < TOKEN_MAX &&
	       (aws ? is_upper(*p) || is_digit(*p)
		    : is_word(*p) || (jwt && *p == '.'))) {
		dots += *p == '.';
		p++;
	}
	if (p - from - t->n < t->rest ||
	    distinct(from + t->n, p) < DISTINCT_MIN)
		return NULL;
	if (jwt && (dots < 1 || dots > 4))
		return NULL;
	if (t->rest == FINDING_OPENAI_REST &&
	    memmem(from, (size_t)(p - from), FINDING_OPENAI_MARK,
		sizeof(FINDING_OPENAI_MARK) - 1) == NULL)
		return NULL;
	if (aws && (p - from != 20 || is_word(at_or_space(s, p)) ||
		       memcmp(p - 7, "EXAMPLE", 7) == 0))
		return NULL;
	return p;
}

/*
 * Most anchors are none: what stands before them is no prefix's, or the word
 * ends too soon.
 */
static bool
may_be_token(const struct search *s, const char *p)
{
	char last = before(s, p, 1);
	int i;

	switch (*p) {
	case 'G':
	case 'v':
		return false;
	case 'A':
		if (last != 'I')
			return false;
		break;
	case 'J':
		if (last != 'y')
			return false;
		break;
	case 'K':
		if (last != 'A')
			return false;
		break;
	case 'z':
		if (last != 'I')
			return false;
		break;
	default:
		if (!is_alnum(last))
			return false;
		break;
	}
	if (s->end - p <= WORD_MIN)
		return false;
	for (i = 1; i <= WORD_MIN; i++)
		if (!is_word(p[i]))
			return false;
	return true;
}

static const char *
look_prefix(const struct search *s, const char *p)
{
	const struct finding_token *t;
	const char *from, *end;

	if (!may_be_token(s, p))
		return p + 1;
	for (t = finding_tokens; t->n > 0; t++) {
		if (t->prefix[t->anchor] != *p || p - s->start < t->anchor)
			continue;
		from = p - t->anchor;
		if (s->end - from < t->n + t->rest ||
		    memcmp(from, t->prefix, t->n) != 0 ||
		    is_word(before(s, from, 1)))
			continue;
		end = token_end(s, t, from);
		if (end == NULL)
			continue;
		tell(s, FINDING_ACCESS_TOKEN, from, end);
		return end;
	}
	return p + 1;
}

/* ---- values that have no beginning of their own: their name has */

static bool
is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f');
}

static bool
is_base64(char c)
{
	return is_alnum(c) || c == '+' || c == '/';
}

/* A name and its value. */
static bool
is_between(char c)
{
	return c == ' ' || c == '\t' || c == '"' || c == '\'' || c == '=' ||
	       c == ':' || c == '>';
}

static const char *
skip_class(const struct search *s, const char *p, bool (*is)(char))
{
	while (p < s->end && is(*p))
		p++;
	return p;
}

/* Digests are in one case; keys, and what is put in their place, are not. */
static bool
is_random(const char *p, const char *end)
{
	bool upper = false, lower = false;
	const char *q;

	for (q = p; q < end; q++) {
		upper = upper || is_upper(*q);
		lower = lower || (*q >= 'a' && *q <= 'z');
	}
	return upper && lower && distinct(p, end) >= 2 * DISTINCT_MIN;
}

/* What stands in every manual, and opens nothing. */
static bool
is_published(const char *p, const char *end)
{
	static const char aws[] = "EXAMPLEKEY", azurite[] = "Eby8vdM02xNOcqFl";

	return memcmp(end - (sizeof(aws) - 1), aws, sizeof(aws) - 1) == 0 ||
	       memcmp(p, azurite, sizeof(azurite) - 1) == 0;
}

/* `n` characters, then `pad` times '='. NULL: that is not what is there. */
static const char *
value_end(const struct search *s, const char *p, ptrdiff_t n, int pad)
{
	const char *end = skip_class(s, p, pad < 0 ? is_hex : is_base64);
	int i;

	if (end - p != n ||
	    (pad < 0 ? distinct(p, end) < DISTINCT_MIN : !is_random(p, end)) ||
	    is_published(p, end))
		return NULL;
	for (i = 0; i < pad; i++)
		if (at_or_space(s, end++) != '=')
			return NULL;
	return is_word(at_or_space(s, end)) || at_or_space(s, end) == '=' ? NULL
									  : end;
}

/* `secret_access_key = "..."`: `p` is at the '_' or 'K' before "key". */
static const char *
look_named(const struct search *s, const char *p)
{
	static const struct {
		const char *name;
		unsigned char anchor, n;
		signed char pad; /* -1: in hexadecimal */
	} all[] = {
		{ "secret_access_key", 13, 40, 0 }, /* Amazon */
		{ "secretaccesskey", 12, 40, 0 },
		{ "accountkey", 7, 86, 2 }, /* Azure */
		{ "sharedaccesskey", 12, 43, 1 },
		{ "auth_token", 4, 32, -1 }, /* Twilio and others */
	};
	const char *value, *end;
	char next = (char)(at_or_space(s, p + 1) | 0x20);
	struct str rest;
	size_t i;

	/* Most are not: "key" and "token" go on so. */
	if (*p == 'K' ? next != 'e' : next != 'k' && next != 't')
		return p + 1;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (p - s->start < all[i].anchor)
			continue;
		rest.p = p - all[i].anchor;
		rest.n = (size_t)(s->end - rest.p);
		if (!str_istarts(rest, str_of(all[i].name)))
			continue;
		rest.p += strlen(all[i].name);
		value = skip_class(s, rest.p, is_between);
		if (value == rest.p || value - rest.p > 8)
			continue;
		end = value_end(s, value, all[i].n, all[i].pad);
		if (end == NULL)
			continue;
		tell(s, FINDING_ACCESS_TOKEN, value, end);
		return end;
	}
	return p + 1;
}

/* "SG.22.43" of SendGrid; "hvs.", "hvb." and "hvr." of Vault. */
static const char *
look_dotted(const struct search *s, const char *p)
{
	const char *from = p - 1, *value = *p == 'G' ? p + 2 : p + 3, *end;

	if (is_word(before(s, from, 1)) || s->end - value < 24 ||
	    value[-1] != '.' ||
	    (*p == 'v' && p[1] != 's' && p[1] != 'b' && p[1] != 'r'))
		return p + 1;
	end = skip_class(s, value, is_word);
	if (*p == 'G') {
		if (end - value != 22 || at_or_space(s, end) != '.')
			return p + 1;
		value = end + 1;
		end = skip_class(s, value, is_word);
		if (end - value != 43)
			return p + 1;
	}
	if (end - value < 24 || end - value > TOKEN_MAX ||
	    !is_random(value, end))
		return p + 1;
	tell(s, FINDING_ACCESS_TOKEN, from, end);
	return end;
}

/* "SK" and 32 digits: of Twilio. */
static const char *
look_twilio(const struct search *s, const char *p)
{
	const char *end = skip_class(s, p + 1, is_hex);

	if (end - p != 33 || is_word(at_or_space(s, end)) ||
	    is_word(before(s, p, 2)) || distinct(p + 1, end) < DISTINCT_MIN)
		return NULL;
	tell(s, FINDING_ACCESS_TOKEN, p - 1, end);
	return end;
}

/* Which of these an anchor may be of, by the character before it. */
static const char *
look_word(const struct search *s, const char *p)
{
	char last = before(s, p, 1);
	const char *end = NULL;

	if ((*p == 'G' && last == 'S') || (*p == 'v' && last == 'h'))
		return look_dotted(s, p);
	if (*p == 'K' && last == 'S')
		end = look_twilio(s, p);
	if (end == NULL &&
	    ((*p == 'K' && (last == 's' || last == 't' || last == 'S')) ||
		(*p == '_' && (last == 's' || last == 'S' || last == 'h' ||
				  last == 'H'))))
		end = look_named(s, p);
	return end != NULL && end > p + 1 ? end : look_prefix(s, p);
}

/* ---- keys as files have them */

/* RFC 7468 and its older kin. */
static const char *
look_pem(const struct search *s, const char *p)
{
	static const char begin[] = "-----BEGIN ", key[] = "PRIVATE KEY";
	const char *eol;
	size_t n = (size_t)(s->end - p);

	if (n > PEM_LINE + 2)
		n = PEM_LINE + 2;
	if (n < sizeof(begin) || memcmp(p, begin, sizeof(begin) - 1) != 0)
		return NULL;
	eol = memchr(p, '\n', n);
	if (eol != NULL)
		n = (size_t)(eol - p);
	if (n > 0 && p[n - 1] == '\r')
		n--;
	if (n > PEM_LINE)
		n = PEM_LINE;
	if (memmem(p, n, key, sizeof(key) - 1) != NULL)
		tell(s, FINDING_PRIVATE_KEY, p, p + n);
	return p + n;
}

/* "PuTTY-User-Key-File-3: ssh-ed25519": `p` is at the first hyphen. */
static const char *
look_putty(const struct search *s, const char *p)
{
	static const char begin[] = "PuTTY-User-Key-File-";
	const size_t n = sizeof(begin) - 1;
	const char *from = p - 5;

	if (p - s->start < 5 || (size_t)(s->end - from) < n + 3 ||
	    memcmp(from, begin, n) != 0 || is_word(before(s, from, 1)) ||
	    !is_digit(from[n]) || from[n + 1] != ':' || from[n + 2] != ' ')
		return NULL;
	tell(s, FINDING_PRIVATE_KEY, from, from + n + 2);
	return from + n + 2;
}

static const char *
look_hyphen(const struct search *s, const char *p)
{
	const char *end = look_pem(s, p), *q = p;

	if (end == NULL && before(s, p, 1) == 'Y')
		end = look_putty(s, p);
	if (end != NULL)
		return end;
	while (q < s->end && *q == '-')
		q++;
	return q - p > 1 ? q : look_prefix(s, p);
}

/* ---- with a colon */

/* A password that only shows where one goes. */
static bool
is_example(const char *p, const char *end)
{
	struct str s = { p, (size_t)(end - p) };

	return str_ieq(s, str_lit("password")) || str_ieq(s, str_lit("pass"));
}

/* "services/T../B../.." behind the host; NULL when it is none. */
static const char *
webhook_end(const struct search *s, const char *p)
{
	static const char begin[] = "hooks.slack.com/services/T";
	const char *end;
	int part;

	if ((size_t)(s->end - p) < sizeof(begin) ||
	    memcmp(p, begin, sizeof(begin) - 1) != 0)
		return NULL;
	p += sizeof(begin) - 1;
	for (part = 0; part < 2; part++) {
		end = skip_class(s, p, is_alnum);
		if (end - p < 6 || at_or_space(s, end) != '/')
			return NULL;
		p = end + 1;
	}
	end = skip_class(s, p, is_alnum);
	return end - p >= 20 && is_random(p, end) ? end : NULL;
}

/* "123456789:AA..." of Telegram, also behind "/bot": `p` is at the colon. */
static const char *
look_bot(const struct search *s, const char *p)
{
	const char *from = p, *end = skip_class(s, p + 1, is_word);

	while (p - from < 11 && is_digit(before(s, from, 1)))
		from--;
	if (p - from < 8 || p - from > 10 || end - p != 36 || p[2] != 'A' ||
	    !is_random(p + 1, end))
		return p + 1;
	if (is_word(before(s, from, 1)) &&
	    (from - s->start < 3 || memcmp(from - 3, "bot", 3) != 0))
		return p + 1;
	tell(s, FINDING_ACCESS_TOKEN, from, end);
	return end;
}

/* "scheme://user:password@host": `p` is at the first colon. */
static const char *
look_url(const struct search *s, const char *p)
{
	const char *q, *colon = NULL, *end;

	if (s->end - p < 3 || p[1] != '/' || p[2] != '/' ||
	    !is_alnum(before(s, p, 1)))
		return at_or_space(s, p + 1) == 'A' ? look_bot(s, p) : p + 1;
	end = webhook_end(s, p + 3);
	if (end != NULL) {
		tell(s, FINDING_ACCESS_TOKEN, p + 3, end);
		return end;
	}
	for (q = p + 3; q < s->end && q - p < URL_MAX; q++) {
		if (*q == ':' && colon == NULL)
			colon = q;
		if ((finding_class[(unsigned char)*q] & STOP) != 0)
			break;
	}
	if (q < s->end && *q == '@' && colon != NULL && q - colon > 4 &&
	    distinct(colon + 1, q) >= 4 && !is_example(colon + 1, q))
		tell(s, FINDING_URL_PASSWORD, p + 3, q + 1);
	return p + 3;
}

const char *
finding_look_token(const struct search *s, const char *p)
{
	return *p == '-'   ? look_hyphen(s, p)
	       : *p == ':' ? look_url(s, p)
			   : look_word(s, p);
}
