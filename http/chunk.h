/* SPDX-License-Identifier: ISC */
/*
 * chunk.h - a strict second opinion on chunked framing.
 *
 * Walks the bytes of a chunked body beside llhttp, which does not look at
 * what follows a chunk's data. Chunk extensions are skipped, within a cap for
 * the whole body; trailers are refused. Pure; no memory.
 */
#ifndef HTTP_CHUNK_H
#define HTTP_CHUNK_H

#include <stddef.h>
#include <stdint.h>

enum http_chunk_result { HTTP_CHUNK_MORE, HTTP_CHUNK_END, HTTP_CHUNK_BAD };

#define HTTP_CHUNK_SIZE_DIGITS 8
#define HTTP_CHUNK_EXTENSION_MAX 1024

struct http_chunk {
	int state;
	unsigned digits;
	unsigned extension; /* bytes of extensions so far */
	uint64_t left; /* of this chunk */
	uint64_t total; /* bytes of body so far */
};

void http_chunk_init(struct http_chunk *c);

/* `used` bytes belong to the body; all of them unless END or BAD. */
enum http_chunk_result http_chunk_feed(
    struct http_chunk *c, const char *p, size_t n, size_t *used);

#endif
