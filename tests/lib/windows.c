/* SPDX-License-Identifier: ISC */
/*
 * windows.c - is any 32 bytes in a row of something in a file?
 *
 *	windows FORMS <FILES
 *
 * FORMS holds the things to look for, one after the other: a name, NUL, the
 * length in decimal, NUL, that many bytes. FILES names the files to search,
 * each ended by NUL. Prints "OFFSET<tab>NAME<tab>FILE" for the first hit of a
 * thing in a file, then "N bytes in N files". Exit 0 however much it found, 2
 * if it could not look.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW 32
#define SLOTS (1u << 20)
#define THINGS 256

struct thing {
	const char *name;
	const unsigned char *p;
	size_t n;
	int told; /* in this file */
};

struct window {
	const unsigned char *p;
	struct thing *of;
	struct window *next;
};

static struct thing things[THINGS];
static size_t thing_count;
static struct window *slot[SLOTS];

static uint32_t
hash(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return (uint32_t)((v * UINT64_C(0x9e3779b97f4a7c15)) >> 44);
}

static void
fail(const char *what)
{
	perror(what);
	exit(2);
}

/* A whole file, or NULL if it is empty or gone meanwhile. */
static const unsigned char *
map(const char *path, size_t *n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *p = NULL;

	*n = 0;
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		p = mmap(
		    NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED)
			fail(path);
		*n = (size_t)st.st_size;
	}
	close(fd);
	return p;
}

static void
add_windows(struct thing *t)
{
	struct window *w;
	uint32_t h;
	size_t i;

	for (i = 0; i + WINDOW <= t->n; i++) {
		w = malloc(sizeof(*w));
		if (w == NULL)
			fail("malloc");
		h = hash(t->p + i);
		*w = (struct window){ t->p + i, t, slot[h] };
		slot[h] = w;
	}
}

static void
read_forms(const char *path)
{
	size_t n;
	const unsigned char *p = map(path, &n), *end = p + n;
	struct thing *t;

	while (p != NULL && p < end && thing_count < THINGS) {
		t = &things[thing_count++];
		t->name = (const char *)p;
		p += strlen(t->name) + 1;
		t->n = strtoul((const char *)p, NULL, 10);
		p += strlen((const char *)p) + 1;
		t->p = p;
		p += t->n;
		if (p > end || t->n < WINDOW) {
			fprintf(stderr, "%s: too short\n", t->name);
			exit(2);
		}
		add_windows(t);
	}
	if (thing_count == 0 || p != end) {
		fprintf(stderr, "%s: nothing to look for\n", path);
		exit(2);
	}
}

static size_t
search(const char *path)
{
	size_t n, i;
	const unsigned char *p = map(path, &n);
	const struct window *w;

	for (i = 0; i < thing_count; i++)
		things[i].told = 0;
	for (i = 0; i + WINDOW <= n; i++)
		for (w = slot[hash(p + i)]; w != NULL; w = w->next) {
			if (w->of->told || memcmp(w->p, p + i, WINDOW) != 0)
				continue;
			w->of->told = 1;
			printf("%zu\t%s\t%s\n", i, w->of->name, path);
		}
	if (n > 0)
		munmap((void *)(uintptr_t)p, n);
	return n;
}

int
main(int argc, char **argv)
{
	size_t bytes = 0, files = 0, room = 0;
	char *path = NULL;

	if (argc != 2) {
		fprintf(stderr, "usage: windows FORMS <FILES\n");
		return 2;
	}
	read_forms(argv[1]);
	while (getdelim(&path, &room, '\0', stdin) > 0) {
		bytes += search(path);
		files++;
	}
	free(path);
	printf("%zu bytes in %zu files\n", bytes, files);
	return 0;
}
