/* SPDX-License-Identifier: ISC */
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/codec.h"

#define VALUE_MAX 256
#define GATHER_MAX 16384

/* Set once at start, before there is a second thread. */
static struct {
	const char *program;
	int level;
	int fd;
	enum log_addresses addresses;
} state = { "postern", LOG_LEVEL_INFO, STDERR_FILENO, LOG_ADDRESSES_FULL };

/* The lines of a thread, and whether they wait. */
static _Thread_local struct {
	struct buf out;
	size_t whole; /* octets of lines that are complete */
	void (*wanted)(void *arg);
	void *arg;
	pid_t pid; /* while they wait */
} lines;

/* The second that was last put into words. */
static _Thread_local struct {
	int64_t sec;
	char text[CLOCK_RFC3339_MAX];
} stamp;

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

static bool
is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void
log_json_escape(struct buf *out, struct str s, size_t max)
{
	const unsigned char *p = (const unsigned char *)s.p;
	size_t i = 0, len;

	while (i < s.n && i < max && is_plain(p[i]))
		i++;
	buf_add(out, p, i);
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
	char number[DEC_MAX];

	buf_add(out, ",\"", 2);
	buf_puts(out, kv->key);
	buf_add(out, "\":", 2);
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
		buf_add(out, number, dec_encode(number, kv->v.i));
		return;
	case LOG_KV_UINT:
		if (kv->v.u > INT64_MAX)
			buf_printf(out, "%llu", kv->v.u);
		else
			buf_add(
			    out, number, dec_encode(number, (int64_t)kv->v.u));
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

/* "2026-11-28T09:00:00.123Z" */
static void
add_time(struct buf *out)
{
	int64_t us = clock_real_us(), ms = us / 1000 % 1000;
	char *p = stamp.text;

	if (stamp.sec != us / 1000000) {
		clock_rfc3339(p, us);
		stamp.sec = us / 1000000;
	}
	p[20] = (char)('0' + ms / 100);
	p[21] = (char)('0' + ms / 10 % 10);
	p[22] = (char)('0' + ms % 10);
	buf_add(out, p, 24);
}

static void
add_line(enum log_level level, const char *event, const struct log_kv *kvs)
{
	static const char *const names[] = { "debug", "info", "warn", "error" };
	struct buf *out = &lines.out;
	char number[DEC_MAX];

	buf_puts(out, "{\"at\":\"");
	add_time(out);
	buf_puts(out, "\",\"level\":\"");
	buf_puts(out, names[level]);
	buf_puts(out, "\",\"event\":\"");
	buf_puts(out, event);
	buf_puts(out, "\",\"program\":\"");
	buf_puts(out, state.program);
	buf_puts(out, "\",\"pid\":");
	buf_add(out, number,
	    dec_encode(number, lines.wanted != NULL ? lines.pid : getpid()));
	for (; kvs->key != NULL; kvs++)
		add_kv(out, kvs);
	buf_add(out, "}\n", 2);
	lines.whole = out->n;
}

void
log_flush(void)
{
	struct buf *out = &lines.out;
	size_t done = 0;
	ssize_t n;

	while (done < lines.whole) {
		n = write(state.fd, out->p + done, lines.whole - done);
		if (n < 0 && errno != EINTR)
			break;
		if (n > 0)
			done += (size_t)n;
	}
	buf_drain(out, lines.whole);
	lines.whole = 0;
	if (lines.wanted == NULL && out->n == 0)
		buf_free(out);
}

void
log_gather(void (*wanted)(void *arg), void *arg)
{
	static bool at_exit;

	log_flush();
	lines.wanted = wanted;
	lines.arg = arg;
	lines.pid = getpid();
	if (wanted != NULL && !at_exit)
		at_exit = atexit(log_flush) == 0;
}

void
log_write(enum log_level level, const char *event, const struct log_kv *kvs)
{
	int saved = errno;
	bool waits = lines.whole > 0;

	if ((int)level < state.level)
		return;
	add_line(level, event, kvs);
	if (lines.wanted == NULL || level == LOG_LEVEL_ERROR ||
	    lines.out.n > GATHER_MAX)
		log_flush();
	else if (!waits)
		lines.wanted(lines.arg);
	errno = saved;
}
