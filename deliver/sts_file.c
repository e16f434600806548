/* SPDX-License-Identifier: ISC */
/* sts_file.c - "DOMAIN ID FETCHED EXPIRES MODE MX,MX,...", see sts_file.h. */
#include "deliver/sts_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/xalloc.h"

#define NO_HOSTS "-" /* of a policy with the mode none */

static bool
read_number(struct str *line, int64_t *out)
{
	unsigned long long v;
	bool ok = str_to_u64(str_split(line, ' '), INT64_MAX, &v);

	*out = ok ? (int64_t)v : 0;
	return ok;
}

static bool
read_mode(struct str *line, enum sts_mode *out)
{
	struct str name = str_split(line, ' ');
	int m;

	for (m = STS_MODE_NONE; m <= STS_MODE_ENFORCE; m++) {
		if (str_eq(name, str_of(sts_mode_name((enum sts_mode)m)))) {
			*out = (enum sts_mode)m;
			return true;
		}
	}
	return false;
}

/* One that a full disk cut short has the next one at its end, with blanks. */
static bool
read_line(struct str line, struct sts_kept *kept)
{
	struct sts_policy *p = &kept->policy;
	struct str mx;
	size_t at = 0;

	*kept = (struct sts_kept){ .fetched_s = 0 };
	kept->domain = str_split(&line, ' ');
	kept->id = str_split(&line, ' ');
	if (kept->domain.n == 0 || kept->id.n == 0 || kept->id.n > STS_ID_MAX ||
	    !read_number(&line, &kept->fetched_s) ||
	    !read_number(&line, &kept->expires_s) ||
	    kept->expires_s - kept->fetched_s > STS_MAX_AGE_S ||
	    !read_mode(&line, &p->mode) || line.n == 0 ||
	    memchr(line.p, ' ', line.n) != NULL)
		return false;
	p->max_age_s = (long)(kept->expires_s - kept->fetched_s);
	if (str_eq(line, str_lit(NO_HOSTS)))
		return p->mode == STS_MODE_NONE;
	p->mx = xmalloc(line.n + 1);
	while (line.n > 0 && p->mx_n < STS_MX_MAX) {
		mx = str_split(&line, ',');
		memcpy(p->mx + at, mx.p, mx.n);
		at += mx.n;
		p->mx[at++] = '\0';
		p->mx_n++;
	}
	return true;
}

/* The whole file; false: there is none, or it is none of ours. */
static bool
read_all(const char *path, struct buf *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	ssize_t n = -1;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size <= STS_FILE_BYTES) {
		do {
			n = read(fd, buf_reserve(out, 65536), 65536);
			out->n += n > 0 ? (size_t)n : 0;
		} while (n > 0 && out->n <= STS_FILE_BYTES);
	}
	(void)close(fd);
	return n == 0;
}

size_t
sts_file_load(const char *path, int64_t now_s, sts_file_fn *each, void *arg)
{
	struct buf all = { 0 };
	struct sts_kept kept;
	struct str text, line;
	size_t lines = 0;

	if (!read_all(path, &all)) {
		buf_free(&all);
		return 0;
	}
	text = buf_str(&all);
	while (text.n > 0) {
		/* The last line counts only when it is whole. */
		if (memchr(text.p, '\n', text.n) == NULL)
			break;
		line = str_split(&text, '\n');
		lines++;
		if (read_line(line, &kept) && kept.fetched_s <= now_s &&
		    kept.expires_s > now_s)
			each(arg, &kept);
		sts_policy_clear(&kept.policy);
	}
	buf_free(&all);
	return lines;
}

size_t
sts_file_add(const char *path, const struct sts_kept *kept)
{
	int fd = open(path,
	    O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
	    0600);
	struct buf line = { 0 };
	const char *mx = kept->policy.mx;
	int why = 0;
	ssize_t n;
	size_t i;

	if (fd < 0)
		return 0;
	buf_add_str(&line, kept->domain);
	buf_putc(&line, ' ');
	buf_add_str(&line, kept->id);
	buf_printf(&line, " %" PRId64 " %" PRId64 " %s ", kept->fetched_s,
	    kept->expires_s, sts_mode_name(kept->policy.mode));
	if (kept->policy.mx_n == 0)
		buf_puts(&line, NO_HOSTS);
	for (i = 0; i < kept->policy.mx_n; i++, mx += strlen(mx) + 1)
		buf_printf(&line, "%s%s", i > 0 ? "," : "", mx);
	buf_putc(&line, '\n');
	/* In one piece: others may add to it. */
	n = write(fd, line.p, line.n);
	if (n != (ssize_t)line.n)
		why = n < 0 ? errno : ENOSPC; /* cut short: nothing was set */
	buf_free(&line);
	if (close(fd) != 0 && why == 0)
		why = errno;
	errno = why;
	return why == 0 ? (size_t)n : 0;
}
