/* SPDX-License-Identifier: ISC */
/* conf.c - one filter as the configuration names it. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/un.h>

#include "milter/client.h"

#define TIMEOUT_S 10
#define TIMEOUT_MAX_S 600
#define CONVERSATIONS 20 /* clamd and rspamd take about as many */
#define CONVERSATIONS_MAX 1000

static bool
take_unix(struct milter_conf *c, struct str path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (path.n == 0 || path.p[0] != '/' || path.n >= sizeof(un.sun_path))
		return false;
	memcpy(un.sun_path, path.p, path.n);
	memcpy(&c->addr, &un, sizeof(un));
	c->addr_len = sizeof(un);
	return true;
}

/* PORT@127.0.0.1 or PORT@::1: nowhere else (decision A6). */
static bool
take_inet(struct milter_conf *c, struct str s)
{
	struct str port = str_split(&s, '@');
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	unsigned long long n;

	if (!str_to_u64(port, 65535, &n) || n == 0)
		return false;
	if (str_eq(s, str_lit("127.0.0.1")) ||
	    str_ieq(s, str_lit("localhost"))) {
		in.sin_port = htons((uint16_t)n);
		in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		memcpy(&c->addr, &in, sizeof(in));
		c->addr_len = sizeof(in);
		return true;
	}
	if (!str_eq(s, str_lit("::1")))
		return false;
	in6.sin6_port = htons((uint16_t)n);
	in6.sin6_addr = in6addr_loopback;
	memcpy(&c->addr, &in6, sizeof(in6));
	c->addr_len = sizeof(in6);
	return true;
}

static bool
take_address(struct milter_conf *c, struct str s)
{
	struct str kind = str_split(&s, ':');

	if (str_eq(kind, str_lit("unix")) || str_eq(kind, str_lit("local")))
		return take_unix(c, s);
	return str_eq(kind, str_lit("inet")) && take_inet(c, s);
}

static bool
take_word(struct milter_conf *c, struct str word)
{
	unsigned long long s;

	if (str_eq(word, str_lit("hold")))
		c->on_failure = MILTER_DEFAULT_HOLD;
	else if (str_eq(word, str_lit("accept")))
		c->on_failure = MILTER_DEFAULT_ACCEPT;
	else if (str_eq(word, str_lit("tempfail")))
		c->on_failure = MILTER_DEFAULT_TEMPFAIL;
	else if (str_starts(word, str_lit("max=")) &&
		 str_to_u64((struct str){ word.p + 4, word.n - 4 },
		     CONVERSATIONS_MAX, &s) &&
		 s > 0)
		c->max = (unsigned)s;
	else if (word.n > 1 && word.p[word.n - 1] == 's' &&
		 str_to_u64(
		     (struct str){ word.p, word.n - 1 }, TIMEOUT_MAX_S, &s) &&
		 s > 0)
		c->timeout_ms = (unsigned)s * 1000;
	else
		return false;
	return true;
}

static struct str
next_word(struct str *text)
{
	*text = str_trim(*text);
	return str_split(text, ' ');
}

bool
milter_conf_parse(struct milter_conf *out, struct str text, const char **why)
{
	struct str name = next_word(&text), word;
	size_t i;

	memset(out, 0, sizeof(*out));
	out->timeout_ms = TIMEOUT_S * 1000;
	out->max = CONVERSATIONS;
	*why = "a filter's name is 1 to 31 of a-z, 0-9 and -";
	if (name.n == 0 || name.n >= sizeof(out->name))
		return false;
	for (i = 0; i < name.n; i++)
		if (strchr("abcdefghijklmnopqrstuvwxyz0123456789-",
			name.p[i]) == NULL)
			return false;
	memcpy(out->name, name.p, name.n);
	*why = "a filter's address is unix:/path or inet:PORT@127.0.0.1";
	if (!take_address(out, next_word(&text)))
		return false;
	*why = "behind a filter's address stand seconds (10s), one of hold, "
	       "accept, tempfail, and max=1 to 1000";
	while ((word = next_word(&text)).n > 0)
		if (!take_word(out, word))
			return false;
	return true;
}
