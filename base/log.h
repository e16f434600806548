/* SPDX-License-Identifier: ISC */
/*
 * log.h - one JSON line per event on stderr.
 *
 *	log_info("smtpd.auth", KV("session", s->id), KV("tenant", tenant));
 *
 * Event names are stable and listed in log.def (docs/log-events.md); levels:
 * debug; info = normal life; warn = an operator should look; error = we
 * failed someone. Values from the network are escaped and cut at 256 bytes.
 * A `struct secret *` prints as [redacted]; there is no way to print one.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct secret;

enum log_level {
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_INFO,
	LOG_LEVEL_WARN,
	LOG_LEVEL_ERROR,
};

struct log_kv {
	const char *key; /* NULL ends the list */
	enum {
		LOG_KV_STR,
		LOG_KV_INT,
		LOG_KV_UINT,
		LOG_KV_BOOL,
		LOG_KV_DOUBLE,
		LOG_KV_SECRET
	} type;
	union {
		struct str s;
		long long i;
		unsigned long long u;
		double d;
	} v;
};

/* `program` is borrowed for ever. Before this, lines name no program. */
void log_init(const char *program, int level);
void log_set_level(int level);
int log_get_level(void);
/* What becomes of mail addresses inside values; full at first. */
enum log_addresses {
	LOG_ADDRESSES_FULL,
	LOG_ADDRESSES_HASHED, /* "[address 0123456789ab]", the same each time */
	LOG_ADDRESSES_OFF, /* "[address]" */
};
void log_set_addresses(enum log_addresses how);
/* Write to another descriptor (tests); -1 = stderr again. */
void log_set_fd(int fd);

/*
 * Lines of this thread wait from now on and go out in one write: by
 * log_flush(), by a line of level error, or when they are many. `wanted` is
 * called at the first line that waits and has to see to the flush soon, on
 * this thread; NULL ends it. loop_gather_log() does all that.
 */
void log_gather(void (*wanted)(void *arg), void *arg);
/* Never harmful; exit and BUG_ON() do it too. */
void log_flush(void);

void log_write(
    enum log_level level, const char *event, const struct log_kv *kvs);

static inline struct log_kv
log_kv_str(const char *key, const char *v)
{
	return (struct log_kv){ key, LOG_KV_STR, { .s = str_of(v) } };
}

static inline struct log_kv
log_kv_view(const char *key, struct str v)
{
	return (struct log_kv){ key, LOG_KV_STR, { .s = v } };
}

static inline struct log_kv
log_kv_int(const char *key, long long v)
{
	return (struct log_kv){ key, LOG_KV_INT, { .i = v } };
}

static inline struct log_kv
log_kv_uint(const char *key, unsigned long long v)
{
	return (struct log_kv){ key, LOG_KV_UINT, { .u = v } };
}

static inline struct log_kv
log_kv_bool(const char *key, bool v)
{
	return (struct log_kv){ key, LOG_KV_BOOL, { .i = v } };
}

static inline struct log_kv
log_kv_double(const char *key, double v)
{
	return (struct log_kv){ key, LOG_KV_DOUBLE, { .d = v } };
}

static inline struct log_kv
log_kv_secret(const char *key, const struct secret *v)
{
	(void)v;
	return (struct log_kv){ key, LOG_KV_SECRET, { .i = 0 } };
}

#define KV(key, v)                                                             \
	_Generic((v),                               \
	    char *: log_kv_str,                     \
	    const char *: log_kv_str,               \
	    struct str: log_kv_view,                \
	    bool: log_kv_bool,                      \
	    char: log_kv_int,                       \
	    signed char: log_kv_int,                \
	    unsigned char: log_kv_uint,             \
	    short: log_kv_int,                      \
	    unsigned short: log_kv_uint,            \
	    int: log_kv_int,                        \
	    unsigned int: log_kv_uint,              \
	    long: log_kv_int,                       \
	    unsigned long: log_kv_uint,             \
	    long long: log_kv_int,                  \
	    unsigned long long: log_kv_uint,        \
	    double: log_kv_double,                  \
	    struct secret *: log_kv_secret,         \
	    const struct secret *: log_kv_secret)((key), (v))

#define LOG_KV_END ((struct log_kv){ 0 })
#define LOG_EMIT(level, event, ...)                                            \
	log_write((level), (event), (const struct log_kv[]){ __VA_ARGS__ })
#define log_debug(...) LOG_EMIT(LOG_LEVEL_DEBUG, __VA_ARGS__, LOG_KV_END)
#define log_info(...) LOG_EMIT(LOG_LEVEL_INFO, __VA_ARGS__, LOG_KV_END)
#define log_warn(...) LOG_EMIT(LOG_LEVEL_WARN, __VA_ARGS__, LOG_KV_END)
#define log_error(...) LOG_EMIT(LOG_LEVEL_ERROR, __VA_ARGS__, LOG_KV_END)

/* Append `s` as the inside of a JSON string: escaped, at most `max` bytes. */
struct buf;
void log_json_escape(struct buf *out, struct str s, size_t max);
/* Append `s` with its addresses hashed or taken out. */
void log_mask_addresses(struct buf *out, struct str s, enum log_addresses how);

#endif
