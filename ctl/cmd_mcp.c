/* SPDX-License-Identifier: ISC */
/*
 * cmd_mcp.c - `posternctl mcp`: for MCP clients that start a program and
 * speak through its standard input and output.
 *
 * Each line is one message and goes to POST /mcp of $POSTERN_URL with
 * $POSTERN_KEY; what comes back is one line. Calls run side by side, so that
 * a wait keeps nothing else waiting. No configuration file is read: it runs
 * where the agent does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/buf.h"
#include "base/queue.h"
#include "base/xalloc.h"
#include "ctl/ctl.h"

#define LINE_MAX_BYTES (4u << 20)
#define CALL_SECONDS 150 /* longer than any wait */
#define CONNECTIONS_MAX 48 /* the gateway has 100 for an address */
#define RPC_FAILED -32000
#define RPC_PARSE_ERROR -32700

struct bridge {
	CURLM *multi;
	char *url;
	struct curl_slist *headers;
	TAILQ_HEAD(calls, call) calls; /* that are open */
	bool ended; /* no more input */
	struct buf in;
};

struct call {
	TAILQ_ENTRY(call) link;
	CURL *easy;
	/* NULL: a notification, which has no answer; of a batch an array */
	json_t *id;
	struct buf out, answer;
	char why[CURL_ERROR_SIZE];
};

static void
say(const char *p, size_t n)
{
	while (n > 0 && p[n - 1] == '\n')
		n--;
	(void)fwrite(p, 1, n, stdout);
	(void)fputc('\n', stdout);
	(void)fflush(stdout);
}

static json_t *
error_of(json_t *id, int code, const char *message)
{
	return json_pack("{s:s, s:O?, s:{s:i, s:s}}", "jsonrpc", "2.0", "id",
	    id, "error", "code", code, "message", message);
}

/* To each that asked in a batch. */
static void
say_error(json_t *id, int code, const char *message)
{
	json_t *doc, *one;
	char *text;
	size_t i;

	if (json_array_size(id) > 0)
		doc = json_array();
	else
		doc = error_of(json_is_array(id) ? NULL : id, code, message);
	json_array_foreach(id, i, one)
	    json_array_append_new(doc, error_of(one, code, message));
	text = json_dumps(doc, JSON_COMPACT);
	say(text, strlen(text));
	free(text);
	json_decref(doc);
}

static size_t
on_bytes(char *p, size_t size, size_t n, void *arg)
{
	struct call *call = arg;

	if (call->answer.n + size * n > 4 * LINE_MAX_BYTES)
		return 0;
	buf_add(&call->answer, p, size * n);
	return size * n;
}

static bool
is_loopback(const char *url)
{
	static const char *const hosts[] = { "127.0.0.1", "localhost",
		"[::1]" };
	size_t i, n;

	if (strncmp(url, "http://", 7) != 0)
		return false;
	for (i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		n = strlen(hosts[i]);
		if (strncmp(url + 7, hosts[i], n) == 0 &&
		    strchr("/:", url[7 + n]) != NULL)
			return true;
	}
	return false;
}

static void
free_call(struct bridge *b, struct call *call)
{
	TAILQ_REMOVE(&b->calls, call, link);
	curl_multi_remove_handle(b->multi, call->easy);
	curl_easy_cleanup(call->easy);
	json_decref(call->id);
	buf_free(&call->out);
	buf_free(&call->answer);
	free(call);
}

static void
start_call(struct bridge *b, struct str line, json_t *id)
{
	struct call *call = xcalloc(1, sizeof(*call));
	CURL *easy = curl_easy_init();

	BUG_ON(easy == NULL);
	call->easy = easy;
	call->id = json_incref(id);
	buf_add_str(&call->out, line);
	curl_easy_setopt(easy, CURLOPT_URL, b->url);
	/* The key goes in clear to nobody but this host. */
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR,
	    is_loopback(b->url) ? "https,http" : "https");
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, b->headers);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, (char *)call->out.p);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)call->out.n);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->why);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)CALL_SECONDS);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	if (getenv("SSL_CERT_FILE") != NULL)
		curl_easy_setopt(easy, CURLOPT_CAINFO, getenv("SSL_CERT_FILE"));
	curl_multi_add_handle(b->multi, easy);
	TAILQ_INSERT_TAIL(&b->calls, call, link);
}

/* NULL: nobody asks. What is no message at all is answered without an id. */
static json_t *
ids_of(json_t *batch)
{
	json_t *ids = json_array(), *one, *id;
	bool asks = json_array_size(batch) == 0;
	size_t i;

	json_array_foreach(batch, i, one)
	{
		id = json_object_get(one, "id");
		if (id != NULL)
			json_array_append(ids, id);
		asks |= id != NULL || !json_is_object(one);
	}
	if (asks)
		return ids;
	json_decref(ids);
	return NULL;
}

static void
take_line(struct bridge *b, struct str line)
{
	json_t *doc, *ids;

	if (str_trim(line).n == 0)
		return;
	doc = json_loadb(line.p, line.n, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(doc)) {
		start_call(b, line, json_object_get(doc, "id"));
	} else if (json_is_array(doc)) {
		ids = ids_of(doc);
		start_call(b, line, ids);
		json_decref(ids);
	} else {
		say_error(NULL, RPC_PARSE_ERROR, "not a JSON object");
	}
	json_decref(doc);
}

/*
 * The gateway's own refusals (401, 429, ...) are no messages of JSON-RPC; what
 * it says of a request that is none names no request.
 */
static void
say_refusal(const struct call *call, long status)
{
	json_t *doc =
	    json_loadb((const char *)call->answer.p, call->answer.n, 0, NULL);
	json_t *error = json_object_get(doc, "error");
	const char *code = json_string_value(json_object_get(doc, "code"));
	const char *fix = json_string_value(json_object_get(doc, "fix"));
	char text[512];

	(void)snprintf(text, sizeof(text), "HTTP %ld %s: %s", status,
	    code != NULL ? code : "", fix != NULL ? fix : "");
	if (json_is_string(json_object_get(error, "message")))
		say_error(call->id,
		    (int)json_integer_value(json_object_get(error, "code")),
		    json_string_value(json_object_get(error, "message")));
	else
		say_error(call->id, RPC_FAILED, text);
	json_decref(doc);
}

static void
end_call(struct bridge *b, CURL *easy, CURLcode result)
{
	struct call *call = NULL;
	char text[CURL_ERROR_SIZE + 64];
	long status = 0;

	curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&call);
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	if (call->id == NULL) {
		/* nobody waits */
	} else if (result != CURLE_OK) {
		(void)snprintf(text, sizeof(text),
		    "the gateway does not answer: %s",
		    call->why[0] != '\0' ? call->why
					 : curl_easy_strerror(result));
		say_error(call->id, RPC_FAILED, text);
	} else if (status == 200 && call->answer.n > 0) {
		say((const char *)call->answer.p, call->answer.n);
	} else {
		say_refusal(call, status);
	}
	free_call(b, call);
}

/* What has come, line by line. */
static void
read_input(struct bridge *b)
{
	char piece[65536];
	ssize_t n = read(STDIN_FILENO, piece, sizeof(piece));
	unsigned char *end;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		b->ended = true;
		take_line(b, buf_str(&b->in));
		return;
	}
	buf_add(&b->in, piece, (size_t)n);
	while ((end = memchr(b->in.p, '\n', b->in.n)) != NULL) {
		n = end - b->in.p;
		take_line(b, (struct str){ (char *)b->in.p, (size_t)n });
		buf_drain(&b->in, (size_t)n + 1);
	}
	if (b->in.n > LINE_MAX_BYTES) {
		say_error(NULL, RPC_PARSE_ERROR, "the line is too long");
		b->ended = true;
	}
}

/* Whoever does not read any more is not answered. */
static bool
is_over(const struct bridge *b)
{
	return ferror(stdout) || (b->ended && TAILQ_EMPTY(&b->calls));
}

static void
run(struct bridge *b)
{
	struct curl_waitfd input = { STDIN_FILENO, CURL_WAIT_POLLIN, 0 };
	CURLMsg *m;
	int left;

	for (;;) {
		curl_multi_perform(b->multi, &left);
		while ((m = curl_multi_info_read(b->multi, &left)) != NULL)
			if (m->msg == CURLMSG_DONE)
				end_call(b, m->easy_handle, m->data.result);
		if (is_over(b))
			return;
		input.revents = 0;
		curl_multi_poll(
		    b->multi, &input, b->ended ? 0 : 1, 60000, NULL);
		if (input.revents != 0)
			read_input(b);
	}
}

int
ctl_mcp(struct ctl *ctl, const struct ctl_args *args)
{
	const char *url = getenv("POSTERN_URL"), *key = getenv("POSTERN_KEY");
	struct bridge b = { 0 };
	char *line;

	(void)args;
	if (url == NULL || key == NULL)
		return ctl_fail(ctl, "POSTERN_URL and POSTERN_KEY must be set");
	curl_global_init(CURL_GLOBAL_DEFAULT);
	TAILQ_INIT(&b.calls);
	b.multi = curl_multi_init();
	BUG_ON(b.multi == NULL);
	curl_multi_setopt(
	    b.multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)CONNECTIONS_MAX);
	b.url = xasprintf("%s/mcp", url);
	line = xasprintf("Authorization: Bearer %s", key);
	b.headers = curl_slist_append(NULL, line);
	b.headers =
	    curl_slist_append(b.headers, "Content-Type: application/json");
	b.headers = curl_slist_append(b.headers, "Expect:");
	explicit_bzero(line, strlen(line));
	free(line);
	run(&b);
	while (!TAILQ_EMPTY(&b.calls))
		free_call(&b, TAILQ_FIRST(&b.calls));
	curl_slist_free_all(b.headers);
	curl_multi_cleanup(b.multi);
	curl_global_cleanup();
	buf_free(&b.in);
	free(b.url);
	return 0;
}
