/* SPDX-License-Identifier: ISC */
/*
 * mcp.h - private to the MCP door (Model Context Protocol over HTTP).
 *
 * A tool is a route of openapi.json under another name: its arguments become
 * path, query, body and Idempotency-Key of a request to this same server
 * (http/inner.h), and its result is that request's answer.
 */
#ifndef API_MCP_H
#define API_MCP_H

#include <stdbool.h>

#include <jansson.h>

#include "base/buf.h"
#include "http/inner.h"

struct api_tool {
	const char *name;
	const char *method, *path; /* "/v1/messages/{message_id}" */
	const char *query; /* its query parameters, one blank between */
	bool body; /* what is left over is the body, as JSON */
	bool idem; /* idempotency_key is a header */
	bool data; /* the answer holds what others wrote */
};

/*
 * The request that a call of `tool` with `args` is. False: `why` says which
 * argument is wrong. `target` and `body` hold what `call` points to.
 */
bool mcp_tool_request(struct http_inner_call *call, struct buf *target,
    struct buf *body, const struct api_tool *tool, json_t *args,
    struct buf *why);

/* The result of the tool for an answer of its route. */
json_t *mcp_tool_result(
    const struct api_tool *tool, const struct http_inner_reply *reply);

#endif
