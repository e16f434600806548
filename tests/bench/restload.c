/* SPDX-License-Identifier: ISC */
/*
 * restload PORT KEYS CONNECTIONS SECONDS BYTES: send mail by HTTPS.
 *
 * Each connection posts one mail after the other and reads its whole answer;
 * KEYS has a key a line, used in turn. Prints one line of JSON. Certificates
 * are not looked at: it measures, and takes as little of the processor as it
 * can, which it shares with who is measured.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/ssl.h>

#define TIMES_MAX 200000
#define REPLY_MAX 16384
#define EVENTS 64

struct client {
	int number;
	const char *key;
	unsigned long sent, failed;
	float *ms;
	unsigned times;
	SSL *ssl; /* NULL: not connected */
	double begun; /* this mail */
	char *reply;
	size_t n, want; /* of it; 0: its head is not here */
};

static SSL_CTX *ctx;
static int port, bytes, poller, open_n;
static double end_at;
static char keys[64][160];
static int keys_n;
static char *filler; /* what all bodies end with */
static int filler_n;

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Connect; from then on its reads do not wait. */
static bool
dial(struct client *c)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in from = { .sin_family = AF_INET };
	static unsigned next;
	struct epoll_event ev = { .events = EPOLLIN };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	SSL *ssl = SSL_new(ctx);

	/* a server may count connections by address */
	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + next++ % 64);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) != 0 ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 ||
	    SSL_set_fd(ssl, fd) != 1 || SSL_connect(ssl) != 1) {
		SSL_free(ssl);
		close(fd);
		return false;
	}
	ev.data.ptr = c;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 ||
	    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &ev) != 0)
		exit(1);
	c->ssl = ssl;
	open_n++;
	return true;
}

static void
hang_up(struct client *c)
{
	int fd;

	if (c->ssl == NULL)
		return;
	fd = SSL_get_fd(c->ssl);
	SSL_free(c->ssl);
	c->ssl = NULL;
	open_n--;
	close(fd);
}

static void
fill(void)
{
	filler = malloc((size_t)bytes + 512);
	while (filler_n < bytes - 64)
		filler_n += sprintf(filler + filler_n, "%063d ", filler_n);
	filler_n += sprintf(filler + filler_n, "\"}");
}

static int
make(char *out, size_t room, const struct client *c)
{
	char body[256];
	int n, len;

	n = sprintf(body,
	    "{\"to\":[\"ann@example.org\"],\"subject\":\"Bench %d.%d.%lu\","
	    "\"text\":\"",
	    (int)getpid(), c->number, c->sent + c->failed);
	len = snprintf(out, room,
	    "POST /v1/messages/send HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	    "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
	    "Content-Length: %d\r\n\r\n%s",
	    c->key, n + filler_n, body);
	memcpy(out + len, filler, (size_t)filler_n);
	return len + filler_n;
}

/* The next mail, on a new connection where there is none. */
static void
post(struct client *c)
{
	static char *request;
	int n;

	if (request == NULL)
		request = malloc((size_t)bytes + 2048);
	while (c->ssl == NULL && now() < end_at) {
		if (!dial(c)) {
			c->failed++;
			usleep(10000);
		}
	}
	if (c->ssl == NULL)
		return;
	n = make(request, 1024, c);
	c->n = c->want = 0;
	c->begun = now();
	if (SSL_write(c->ssl, request, n) != n)
		hang_up(c); /* a request that small fits any socket */
}

/* The head is here: how long is all of it? */
static bool
read_head(struct client *c)
{
	const char *end = strstr(c->reply, "\r\n\r\n"), *field;

	if (end == NULL)
		return true;
	field = strcasestr(c->reply, "\r\nContent-Length:");
	if (field == NULL || field > end)
		return false;
	c->want = (size_t)(end - c->reply) + 4 + strtoul(field + 17, NULL, 10);
	return c->want <= REPLY_MAX;
}

/* -1: it broke; 0: the rest is to come; else the status. */
static int
read_reply(struct client *c)
{
	int got;

	while (c->want == 0 || c->n < c->want) {
		got =
		    SSL_read(c->ssl, c->reply + c->n, (int)(REPLY_MAX - c->n));
		if (got <= 0)
			return SSL_get_error(c->ssl, got) == SSL_ERROR_WANT_READ
				   ? 0
				   : -1;
		c->n += (size_t)got;
		c->reply[c->n] = '\0';
		if (c->want == 0 && !read_head(c))
			return -1;
	}
	return atoi(c->reply + 9);
}

/* Something came: maybe the answer, then the next mail is due. */
static void
on_input(struct client *c)
{
	int status = read_reply(c);

	if (status == 0)
		return;
	if (status == 202) {
		c->sent++;
		if (c->times < TIMES_MAX)
			c->ms[c->times++] = (float)((now() - c->begun) * 1000);
	} else {
		c->failed++;
	}
	if (status != 202 || strcasestr(c->reply, "\r\nConnection: close"))
		hang_up(c);
	if (now() < end_at)
		post(c);
	else
		hang_up(c);
}

static void
run(struct client *c, int n)
{
	struct epoll_event ev[EVENTS];
	double grace = end_at + 5; /* for answers that are on their way */
	int i, ready;

	for (i = 0; i < n; i++)
		post(&c[i]);
	while (open_n > 0 && now() < grace) {
		ready = epoll_wait(poller, ev, EVENTS, 100);
		for (i = 0; i < ready; i++)
			on_input(ev[i].data.ptr);
	}
	for (i = 0; i < n; i++)
		hang_up(&c[i]);
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
	poller = epoll_create1(EPOLL_CLOEXEC);
	fill();
	for (i = 0; i < n; i++) {
		c[i].number = i;
		c[i].key = keys[i % keys_n];
		c[i].ms = malloc(TIMES_MAX * sizeof(float));
		c[i].reply = malloc(REPLY_MAX + 1);
		if (!dial(&c[i]))
			c[i].failed++;
	}
	begun = now();
	end_at = begun + atof(argv[4]);
	run(c, n);
	report(c, n, now() - begun);
	return 0;
}
