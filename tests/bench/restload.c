/* SPDX-License-Identifier: ISC */
/*
 * restload PORT KEYS CONNECTIONS SECONDS BYTES: send mail by HTTPS.
 *
 * Each connection is a thread that posts one mail after the other and reads
 * its whole answer; KEYS has a key a line, used in turn. Prints one line of
 * JSON. Certificates are not looked at: it measures.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/ssl.h>

#define TIMES_MAX 200000
#define REPLY_MAX 16384

struct client {
	pthread_t thread;
	int number;
	const char *key;
	unsigned long sent, failed;
	float *ms;
	unsigned times;
};

static SSL_CTX *ctx;
static int port, bytes;
static double end_at;
static char keys[64][160];
static int keys_n;

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static SSL *
dial(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in from = { .sin_family = AF_INET };
	static unsigned next;
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	SSL *ssl = SSL_new(ctx);

	/* a server may count connections by address */
	from.sin_addr.s_addr =
	    htonl(INADDR_LOOPBACK + __sync_fetch_and_add(&next, 1) % 64);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) != 0 ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 ||
	    SSL_set_fd(ssl, fd) != 1 || SSL_connect(ssl) != 1) {
		SSL_free(ssl);
		close(fd);
		return NULL;
	}
	return ssl;
}

static void
hang_up(SSL *ssl)
{
	int fd;

	if (ssl == NULL)
		return;
	fd = SSL_get_fd(ssl);
	SSL_free(ssl);
	close(fd);
}

static size_t
make(char *out, size_t room, const struct client *c, unsigned long n)
{
	char *body = malloc((size_t)bytes + 512);
	int at, len;

	at = sprintf(body,
	    "{\"to\":[\"ann@example.org\"],\"subject\":\"Bench %d.%d.%lu\","
	    "\"text\":\"",
	    (int)getpid(), c->number, n);
	while (at < bytes)
		at += sprintf(body + at, "%063d ", at);
	at += sprintf(body + at, "\"}");
	len = snprintf(out, room,
	    "POST /v1/messages/send HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	    "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
	    "Content-Length: %d\r\n\r\n%s",
	    c->key, at, body);
	free(body);
	return (size_t)len;
}

/* The status, or -1; *more: the connection goes on. */
static int
read_reply(SSL *ssl, bool *more)
{
	char text[REPLY_MAX + 1];
	const char *end, *field;
	size_t n = 0, want = 0;
	int got;

	for (;;) {
		got = SSL_read(ssl, text + n, (int)(REPLY_MAX - n));
		if (got <= 0)
			return -1;
		n += (size_t)got;
		text[n] = '\0';
		end = strstr(text, "\r\n\r\n");
		if (end == NULL)
			continue;
		if (want == 0) {
			field = strcasestr(text, "\r\nContent-Length:");
			if (field == NULL)
				return -1;
			want = (size_t)(end - text) + 4 +
			       strtoul(field + 17, NULL, 10);
		}
		if (n >= want)
			break;
	}
	field = strcasestr(text, "\r\nConnection: close");
	*more = field == NULL || field > end;
	return atoi(text + 9);
}

static void *
run(void *arg)
{
	size_t room = (size_t)bytes + 2048, n;
	struct client *c = arg;
	char *request = malloc(room);
	SSL *ssl = NULL;
	double begun;
	bool more = false;

	while (now() < end_at) {
		if (!more) {
			hang_up(ssl);
			ssl = dial();
			if (ssl == NULL) {
				c->failed++;
				usleep(10000);
				continue;
			}
		}
		n = make(request, room, c, c->sent + c->failed);
		begun = now();
		more = SSL_write(ssl, request, (int)n) == (int)n;
		if (more && read_reply(ssl, &more) == 202) {
			c->sent++;
			if (c->times < TIMES_MAX)
				c->ms[c->times++] =
				    (float)((now() - begun) * 1000);
		} else {
			c->failed++;
			more = false;
		}
	}
	hang_up(ssl);
	free(request);
	return NULL;
}

static int
order(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static void
read_keys(const char *path)
{
	FILE *f = fopen(path, "r");

	while (f != NULL && keys_n < 64 &&
	       fgets(keys[keys_n], sizeof(keys[0]), f) != NULL) {
		keys[keys_n][strcspn(keys[keys_n], "\n")] = '\0';
		keys_n++;
	}
	if (keys_n == 0)
		exit(2);
	fclose(f);
}

static void
report(struct client *c, int n, double seconds)
{
	unsigned long sent = 0, failed = 0;
	struct rusage used;
	size_t times = 0;
	float *all;
	int i;

	for (i = 0; i < n; i++)
		times += c[i].times;
	all = malloc((times + 1) * sizeof(*all));
	times = 0;
	for (i = 0; i < n; i++) {
		sent += c[i].sent;
		failed += c[i].failed;
		memcpy(all + times, c[i].ms, c[i].times * sizeof(*all));
		times += c[i].times;
	}
	qsort(all, times, sizeof(*all), order);
	getrusage(RUSAGE_SELF, &used);
	printf("{\"messages\": %lu, \"failed\": %lu, \"seconds\": %.3f, "
	       "\"rate\": %.1f, \"p50_ms\": %.2f, \"p99_ms\": %.2f, "
	       "\"generator_cpu\": %.3f}\n",
	    sent, failed, seconds, (double)sent / seconds,
	    times > 0 ? all[times / 2] : 0,
	    times > 0 ? all[times * 99 / 100] : 0,
	    (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
		(double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
	free(all);
}

int
main(int argc, char **argv)
{
	struct client *c;
	double begun;
	int n, i;

	if (argc != 6)
		return 2;
	port = atoi(argv[1]);
	read_keys(argv[2]);
	n = atoi(argv[3]);
	bytes = atoi(argv[5]);
	ctx = SSL_CTX_new(TLS_client_method());
	c = calloc((size_t)n, sizeof(*c));
	begun = now();
	end_at = begun + atof(argv[4]);
	for (i = 0; i < n; i++) {
		c[i].number = i;
		c[i].key = keys[i % keys_n];
		c[i].ms = malloc(TIMES_MAX * sizeof(float));
		pthread_create(&c[i].thread, NULL, run, &c[i]);
	}
	for (i = 0; i < n; i++)
		pthread_join(c[i].thread, NULL);
	report(c, n, now() - begun);
	return 0;
}
