/* SPDX-License-Identifier: ISC */
/*
 * smtpload.c - a lean SMTP submission client under load, for benchmarks:
 *
 *	smtpload PORT USERS SESSIONS PER_CONNECTION MESSAGES SECONDS SIZE
 *	    [pipeline] [plain]
 *
 * USERS has a line "address password" each; sessions take them in turn. Each
 * session: connect, STARTTLS, AUTH PLAIN, PER_CONNECTION messages, QUIT, and
 * again until MESSAGES are sent or SECONDS are over. One thread, epoll, every
 * reply checked. A connection without a greeting after 3 s is `lost` and made
 * anew: a server whose backlog ran over may know nothing of it. Prints one
 * JSON object with its own CPU time; the rate is until the last reply.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

#define USERS_MAX 1000
#define LINE_MAX_ 4096
/* Room for the fields of a message that differ. */
#define HEAD_MAX 512
/* No greeting for so long: try again. */
#define GREETING_US 3000000
/* After SECONDS, for what has begun. */
#define REST_US 15000000

enum step {
	GREETING,
	EHLO,
	STARTTLS,
	HANDSHAKE,
	EHLO_TLS,
	AUTH,
	MAIL,
	RCPT,
	DATA,
	BODY,
	QUIT,
};

struct session {
	int fd;
	SSL *ssl;
	enum step step;
	unsigned user, sent;
	bool open, in_tls, wants_write;
	char in[LINE_MAX_];
	size_t in_n;
	const char *out;
	size_t out_n;
	char text[1024];
	char *mail; /* HEAD_MAX, then the body that all share */
	uint64_t dot_at, opened_at;
};

static struct {
	char address[320], auth[600];
} users[USERS_MAX];
static unsigned user_count, sessions, per_connection, open_sessions;
static unsigned begun, done, failed, lost, next_user;
static unsigned long messages, size;
static double seconds;
static bool pipelining, plain;
static char *body;
static size_t body_n;
static uint32_t *latency_us;
static uint64_t started, last;
static struct sockaddr_in server;
static SSL_CTX *ctx;
static int ep;

static void run(struct session *s);

static uint64_t
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void
watch(struct session *s, int op, bool write)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = s };

	if (write)
		ev.events |= EPOLLOUT;
	s->wants_write = write;
	epoll_ctl(ep, op, s->fd, &ev);
}

static bool
over(void)
{
	return begun >= messages ||
	       (double)(now_us() - started) / 1e6 >= seconds;
}

static void
hang_up(struct session *s)
{
	if (s->ssl != NULL)
		SSL_free(s->ssl);
	s->ssl = NULL;
	close(s->fd);
	s->open = false;
	open_sessions--;
}

static void
open_session(struct session *s)
{
	int one = 1;

	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(s->fd, (struct sockaddr *)&server, sizeof(server)) != 0 &&
	    errno != EINPROGRESS) {
		perror("connect");
		exit(1);
	}
	s->step = GREETING;
	s->in_tls = false;
	s->in_n = s->out_n = 0;
	s->sent = 0;
	s->user = next_user++ % user_count;
	s->opened_at = now_us();
	s->open = true;
	open_sessions++;
	watch(s, EPOLL_CTL_ADD, false);
}

static void
again(struct session *s)
{
	hang_up(s);
	if (!over())
		open_session(s);
}

static void
fail(struct session *s, const char *what)
{
	failed++;
	if (failed < 10)
		fprintf(stderr, "smtpload: step %d: %s\n", s->step, what);
	again(s);
}

/* True when all is written, false to wait or when the session ended. */
static bool
flush(struct session *s)
{
	ssize_t n;
	int why;

	while (s->out_n > 0) {
		if (s->in_tls) {
			n = SSL_write(s->ssl, s->out, (int)s->out_n);
			why = n > 0 ? 0 : SSL_get_error(s->ssl, (int)n);
			if (why == SSL_ERROR_WANT_WRITE) {
				watch(s, EPOLL_CTL_MOD, true);
				return false;
			}
		} else {
			n = write(s->fd, s->out, s->out_n);
			if (n < 0 && errno == EAGAIN) {
				watch(s, EPOLL_CTL_MOD, true);
				return false;
			}
		}
		if (n <= 0) {
			fail(s, "write");
			return false;
		}
		s->out += n;
		s->out_n -= (size_t)n;
	}
	if (s->wants_write)
		watch(s, EPOLL_CTL_MOD, false);
	return true;
}

static void
say(struct session *s, enum step next, const char *text, size_t n)
{
	s->step = next;
	s->out = text;
	s->out_n = n;
	flush(s);
}

static void
handshake(struct session *s)
{
	int r = SSL_connect(s->ssl), why;

	if (r == 1) {
		s->in_tls = true;
		if (s->wants_write)
			watch(s, EPOLL_CTL_MOD, false);
		say(s, EHLO_TLS, "EHLO bench.test\r\n", 17);
		return;
	}
	why = SSL_get_error(s->ssl, r);
	if (why == SSL_ERROR_WANT_WRITE)
		watch(s, EPOLL_CTL_MOD, true);
	else if (why != SSL_ERROR_WANT_READ)
		fail(s, "handshake");
}

static void
begin_message(struct session *s)
{
	int n;

	if (s->sent == per_connection || over()) {
		say(s, QUIT, "QUIT\r\n", 6);
		return;
	}
	begun++;
	s->sent++;
	n = snprintf(s->text, sizeof(s->text), "MAIL FROM:<%s>\r\n%s",
	    users[s->user].address,
	    pipelining ? "RCPT TO:<someone@example.net>\r\nDATA\r\n" : "");
	say(s, MAIL, s->text, (size_t)n);
}

static void
send_body(struct session *s)
{
	/* From differs by user and has a fixed place at the start. It is
	 * written right before the body, so that a message is one write. */
	char head[HEAD_MAX];
	int n = snprintf(head, sizeof(head),
	    "From: <%s>\r\nMessage-ID: <%u.%d.%d@bench.test>\r\n",
	    users[s->user].address, begun, s->fd, (int)getpid());

	s->step = BODY;
	s->out = memcpy(s->mail + HEAD_MAX - n, head, (size_t)n);
	s->out_n = (size_t)n + body_n;
	s->dot_at = now_us();
	flush(s);
}

static void
begin_tls(struct session *s)
{
	s->step = HANDSHAKE;
	s->ssl = SSL_new(ctx);
	SSL_set_fd(s->ssl, s->fd);
	SSL_set_read_ahead(s->ssl, 1); /* a record is one read */
	SSL_set_mode(s->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE |
				 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	handshake(s);
}

static void
stored(struct session *s)
{
	last = now_us();
	if (done < messages)
		latency_us[done] = (uint32_t)(last - s->dot_at);
	done++;
	begin_message(s);
}

/* The last line of a reply came: `code` is its first digit. */
static void
on_reply(struct session *s, const char *line)
{
	char expect = s->step == DATA ? '3' : '2';

	if (line[0] != expect) {
		fail(s, line);
		return;
	}
	switch (s->step) {
	case GREETING:
		say(s, EHLO, "EHLO bench.test\r\n", 17);
		break;
	case EHLO:
		if (plain)
			say(s, AUTH, users[s->user].auth,
			    strlen(users[s->user].auth));
		else
			say(s, STARTTLS, "STARTTLS\r\n", 10);
		break;
	case STARTTLS:
		begin_tls(s);
		break;
	case EHLO_TLS:
		say(s, AUTH, users[s->user].auth, strlen(users[s->user].auth));
		break;
	case AUTH:
		begin_message(s);
		break;
	case MAIL:
		if (pipelining)
			s->step = RCPT;
		else
			say(s, RCPT, "RCPT TO:<someone@example.net>\r\n", 31);
		break;
	case RCPT:
		if (pipelining)
			s->step = DATA;
		else
			say(s, DATA, "DATA\r\n", 6);
		break;
	case DATA:
		send_body(s);
		break;
	case BODY:
		stored(s);
		break;
	case QUIT:
		again(s);
		break;
	case HANDSHAKE:
		break;
	}
}

/* Handle complete lines; stop when the session was replaced. */
static void
take_lines(struct session *s)
{
	char line[LINE_MAX_], *end;
	int fd = s->fd;
	size_t n;

	while (s->fd == fd && s->in_n > 0 &&
	       (end = memchr(s->in, '\n', s->in_n)) != NULL) {
		n = (size_t)(end - s->in) + 1;
		memcpy(line, s->in, n);
		line[n - 1] = '\0';
		memmove(s->in, s->in + n, s->in_n - n);
		s->in_n -= n;
		if (n >= 4 && line[3] == '-')
			continue;
		on_reply(s, line);
	}
}

/* Read once; false when nothing came, or the session has ended. */
static bool
read_some(struct session *s)
{
	ssize_t n;
	int why;

	if (s->in_tls) {
		n = SSL_read(
		    s->ssl, s->in + s->in_n, (int)(sizeof(s->in) - s->in_n));
		why = n > 0 ? 0 : SSL_get_error(s->ssl, (int)n);
		if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
			return false;
	} else {
		n = read(s->fd, s->in + s->in_n, sizeof(s->in) - s->in_n);
		if (n < 0 && errno == EAGAIN)
			return false;
	}
	if (n <= 0) {
		if (s->step == QUIT)
			again(s);
		else
			fail(s, "closed");
		return false;
	}
	s->in_n += (size_t)n;
	return true;
}

static void
run(struct session *s)
{
	if (s->step == HANDSHAKE) {
		handshake(s);
		return;
	}
	if (s->out_n > 0 && !flush(s))
		return;
	do {
		if (!read_some(s))
			return;
		take_lines(s);
	} while (s->open && s->in_tls && SSL_has_pending(s->ssl));
}

static void
load_users(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[700], *password;
	unsigned char raw[700], b64[1000];
	int n;

	if (f == NULL) {
		perror(path);
		exit(2);
	}
	while (user_count < USERS_MAX && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		password = strchr(line, ' ');
		if (password == NULL)
			continue;
		*password++ = '\0';
		snprintf(users[user_count].address, sizeof(users[0].address),
		    "%.319s", line);
		n = snprintf(
		    (char *)raw, sizeof(raw), "%c%s%c%s", 0, line, 0, password);
		EVP_EncodeBlock(b64, raw, n);
		snprintf(users[user_count].auth, sizeof(users[0].auth),
		    "AUTH PLAIN %.560s\r\n", (char *)b64);
		user_count++;
	}
	fclose(f);
	if (user_count == 0) {
		fprintf(stderr, "smtpload: no users\n");
		exit(2);
	}
}

static void
make_body(void)
{
	static const char abc[] = "abcdefghijklmnopqrstuvwxyz0123456789+/AB";
	unsigned long long x = 88172645463325252ULL;
	static const char head[] =
	    "To: <someone@example.net>\r\nSubject: benchmark\r\n"
	    "Date: Sat, 28 Nov 2026 04:00:00 +0000\r\n\r\n";
	size_t i;

	body = malloc(size + 1024);
	if (body == NULL)
		exit(1);
	memcpy(body, head, sizeof(head) - 1);
	body_n = sizeof(head) - 1;
	for (i = 0; i < size / 72 * 72; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		body[body_n++] = i % 72 == 70   ? '\r'
				 : i % 72 == 71 ? '\n'
						: abc[x % 40];
	}
	memcpy(body + body_n, ".\r\n", 3);
	body_n += 3;
}

/* Connections that no server knows, once a second and at the end. */
static void
lose(struct session *all)
{
	uint64_t now = now_us();
	bool end = over();
	unsigned i;

	for (i = 0; i < sessions; i++) {
		if (all[i].step != GREETING || !all[i].open ||
		    (!end && now - all[i].opened_at < GREETING_US))
			continue;
		lost += !end;
		again(&all[i]);
	}
}

static void
drive(struct session *all)
{
	uint64_t looked = started, now;
	struct epoll_event ev[256];
	int i, n;

	while (open_sessions > 0) {
		n = epoll_wait(ep, ev, 256, 1000);
		for (i = 0; i < n; i++)
			run(ev[i].data.ptr);
		now = now_us();
		if (now - looked >= 1000000) {
			looked = now;
			lose(all);
		}
		if (now - started > (uint64_t)(seconds * 1e6) + REST_US)
			break; /* somebody hangs */
	}
}

static int
compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void
report(void)
{
	double s = (double)((done > 0 ? last : now_us()) - started) / 1e6;
	unsigned n = done < messages ? done : (unsigned)messages;
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	qsort(latency_us, n, sizeof(*latency_us), compare);
	printf("{\"messages\": %u, \"failed\": %u, \"lost\": %u, "
	       "\"seconds\": %.3f, "
	       "\"rate\": %.1f, \"generator_cpu\": %.3f, \"p50_ms\": %.2f, "
	       "\"p99_ms\": %.2f}\n",
	    done, failed, lost, s, done / s,
	    (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
		(double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6,
	    n ? latency_us[n / 2] / 1000.0 : 0,
	    n ? latency_us[n * 99ULL / 100] / 1000.0 : 0);
}

int
main(int argc, char **argv)
{
	struct session *all;
	int i;

	if (argc < 8) {
		fprintf(stderr, "usage: smtpload PORT USERS SESSIONS "
				"PER_CONNECTION MESSAGES SECONDS SIZE "
				"[pipeline] [plain]\n");
		return 2;
	}
	server.sin_family = AF_INET;
	server.sin_port = htons((uint16_t)atoi(argv[1]));
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	load_users(argv[2]);
	sessions = (unsigned)atoi(argv[3]);
	per_connection = (unsigned)atoi(argv[4]);
	messages = strtoul(argv[5], NULL, 10);
	seconds = atof(argv[6]);
	size = strtoul(argv[7], NULL, 10);
	for (i = 8; i < argc; i++) {
		pipelining |= strcmp(argv[i], "pipeline") == 0;
		plain |= strcmp(argv[i], "plain") == 0;
	}
	make_body();
	latency_us = calloc(messages + 1, sizeof(*latency_us));
	all = calloc(sessions, sizeof(*all));
	ctx = SSL_CTX_new(TLS_client_method());
	ep = epoll_create1(0);
	if (latency_us == NULL || all == NULL || ctx == NULL || ep < 0)
		return 1;
	SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
	started = now_us();
	for (i = 0; i < (int)sessions; i++) {
		all[i].mail = malloc(HEAD_MAX + body_n);
		if (all[i].mail == NULL)
			return 1;
		memcpy(all[i].mail + HEAD_MAX, body, body_n);
		open_session(&all[i]);
	}
	drive(all);
	report();
	return failed > 0 || done == 0;
}
