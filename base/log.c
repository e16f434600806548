/* SPDX-License-Identifier: ISC */
#include "base/log.h"

#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

#define VALUE_MAX 256

/* Set once at start, before there is a second thread. */
static struct {
	const char *program;
	int level;
	int fd;
	enum log_addresses addresses;
} state = { "postern", LOG_LEVEL_INFO, STDERR_FILENO, LOG_ADDRESSES_FULL };

void
log_init(const char *program, int level)
{
	state.program = program;
	state.level = level;
}

void
log_set_level(int level)
{
	state.level = level;
}

int
log_get_level(void)
{
	return state.level;
}

void
log_set_addresses(enum log_addresses how)
{
	state.addresses = how;
}

void
log_set_fd(int fd)
{
	state.fd = fd >= 0 ? fd : STDERR_FILENO;
}

/* Length of the well-formed UTF-8 sequence at p, or 0. */
static size_t
utf8_len(const unsigned char *p, size_t n)
{
	size_t len, i;

	if (p[0] < 0x80)
		return 1;
	len = p[0] >= 0xf0 && p[0] < 0xf5   ? 4
	      : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
	      : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
					    : 0;
	if (len == 0 || len > n)
		return 0;
	for (i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return len;
}

void
log_json_escape(struct buf *out, struct str s, size_t max)
{
	const unsigned char *p = (const unsigned char *)s.p;
	size_t i = 0, len;

	while (i < s.n) {
		len = utf8_len(p + i, s.n - i);
		if (i + (len != 0 ? len : 1) > max) {
			buf_puts(out, "...");
			return;
		}
		if (p[i] == '"' || p[i] == '\\')
			buf_printf(out, "\\%c", p[i]);
		else if (len == 0)
			buf_printf(out, "\\\\x%02x", p[i]);
		else if (p[i] < 0x20 || p[i] == 0x7f)
			buf_printf(out, "\\u%04x", p[i]);
		else
			buf_add(out, p + i, len);
		i += len != 0 ? len : 1;
	}
}

static void
add_text(struct buf *out, struct str s)
{
	struct buf masked = { 0 };

	if (state.addresses == LOG_ADDRESSES_FULL) {
		log_json_escape(out, s, VALUE_MAX);
		return;
	}
	log_mask_addresses(&masked, s, state.addresses);
	log_json_escape(out, buf_str(&masked), VALUE_MAX);
	buf_free(&masked);
}

static void
add_kv(struct buf *out, const struct log_kv *kv)
{
	buf_printf(out, ",\"%s\":", kv->key);
	switch (kv->type) {
	case LOG_KV_STR:
		if (kv->v.s.p == NULL) {
			buf_puts(out, "null");
			return;
		}
		buf_putc(out, '"');
		add_text(out, kv->v.s);
		buf_putc(out, '"');
		return;
	case LOG_KV_INT:
		buf_printf(out, "%lld", kv->v.i);
		return;
	case LOG_KV_UINT:
		buf_printf(out, "%llu", kv->v.u);
		return;
	case LOG_KV_BOOL:
		buf_puts(out, kv->v.i ? "true" : "false");
		return;
	case LOG_KV_DOUBLE:
		buf_printf(out, "%.6g", kv->v.d);
		return;
	case LOG_KV_SECRET:
		buf_puts(out, "\"[redacted]\"");
		return;
	}
}

void
log_write(enum log_level level, const char *event, const struct log_kv *kvs)
{
	static const char *const names[] = { "debug", "info", "warn", "error" };
	char at[CLOCK_RFC3339_MAX];
	struct buf out = { 0 };
	size_t done = 0;
	ssize_t n;
	int saved = errno;

	if ((int)level < state.level)
		return;
	clock_rfc3339(at, clock_real_us());
	buf_printf(&out,
	    "{\"at\":\"%s\",\"level\":\"%s\",\"event\":\"%s\","
	    "\"program\":\"%s\",\"pid\":%d",
	    at, names[level], event, state.program, (int)getpid());
	for (; kvs->key != NULL; kvs++)
		add_kv(&out, kvs);
	buf_puts(&out, "}\n");
	while (done < out.n) {
		n = write(state.fd, out.p + done, out.n - done);
		if (n < 0 && errno != EINTR)
			break;
		if (n > 0)
			done += (size_t)n;
	}
	buf_free(&out);
	errno = saved;
}
