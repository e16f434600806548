/* SPDX-License-Identifier: ISC */
/* replay.c - run a target on files, with a small mutation of each. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "tests/fuzz/fuzz.h"

/* Heap copies, so that a sanitizer sees each byte too far. */
static void
run(const unsigned char *p, size_t n)
{
	unsigned char *copy = xmalloc(n + 1);

	memcpy(copy, p, n);
	copy = xrealloc(copy, n > 0 ? n : 1);
	(void)LLVMFuzzerTestOneInput(copy, n);
	free(copy);
}

static void
run_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct buf b = { 0 };
	size_t i, got, step;

	BUG_ON(f == NULL);
	while ((got = fread(buf_reserve(&b, 4096), 1, 4096, f)) > 0)
		b.n += got;
	(void)fclose(f);
	run(b.p, b.n);
	step = b.n / 64 + 1;
	for (i = 0; i < b.n; i += step) {
		run(b.p, i); /* cut */
		b.p[i] ^= 0x20;
		run(b.p, b.n);
		b.p[i] ^= 0x20 ^ 0x80;
		run(b.p, b.n);
		b.p[i] ^= 0x80;
	}
	buf_free(&b);
}

int
main(int argc, char **argv)
{
	unsigned files = 0;
	struct dirent *e;
	char path[1024];
	DIR *d;
	int i;

	for (i = 1; i < argc; i++) {
		d = opendir(argv[i]);
		BUG_ON(d == NULL);
		while ((e = readdir(d)) != NULL) {
			if (e->d_name[0] == '.')
				continue;
			(void)snprintf(
			    path, sizeof(path), "%s/%s", argv[i], e->d_name);
			run_file(path);
			files++;
		}
		(void)closedir(d);
	}
	printf("%u files\n", files);
	return files > 0 ? 0 : 1;
}
