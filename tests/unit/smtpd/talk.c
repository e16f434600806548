/* SPDX-License-Identifier: ISC */
#include "tests/unit/smtpd/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/log.h"
#include "base/loop.h"
#include "net/peer.h"
#include "smtpd/internal.h"
#include "tests/fake/fake_store.h"

int
talk_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	log_set_level(LOG_LEVEL_ERROR);
	f->loop = loop_new();
	f->store = fake_store_new(f->loop);
	snprintf(f->set.hostname, sizeof f->set.hostname, "mx.example.org");
	f->set.errors_max = 10;
	f->set.rcpt_max = 3;
	f->set.size_max = 100000;
	f->smtpd = smtpd_new(f->loop, f->store, NULL, 0, &f->set);
	f->fd = -1;
	*state = f;
	return 0;
}

int
talk_teardown(void **state)
{
	struct fixture *f = *state;

	if (f->fd >= 0)
		close(f->fd);
	smtpd_free(f->smtpd);
	fake_store_free(f->store);
	loop_free(f->loop);
	free(f);
	return 0;
}

void
talk_settle(struct fixture *f)
{
	ssize_t n;
	int i;

	for (i = 0; i < 30; i++) {
		event_base_loop(loop_base(f->loop), EVLOOP_NONBLOCK);
		while (f->fd >= 0 && (n = recv(f->fd, f->seen + f->seen_n,
					  sizeof f->seen - 1 - f->seen_n,
					  MSG_DONTWAIT)) >= 0) {
			if (n == 0) {
				f->closed = true;
				break;
			}
			f->seen_n += (size_t)n;
		}
	}
	f->seen[f->seen_n] = '\0';
}

struct smtpd_session *
talk_session(struct fixture *f)
{
	return TAILQ_FIRST(&f->smtpd->sessions);
}

void
talk_dial(struct fixture *f, bool secure)
{
	struct net_peer peer;
	int fds[2];

	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	f->fd = fds[0];
	f->closed = false;
	f->seen_n = 0;
	net_peer_init(&peer, NULL);
	smtpd_accept(f->smtpd, fds[1], &peer, NULL, false);
	if (secure)
		TAILQ_LAST(&f->smtpd->sessions, smtpd_sessions)->secure = true;
	talk_settle(f);
}

void
talk_say(struct fixture *f, const char *p, size_t n)
{
	assert_int_equal(send(f->fd, p, n, MSG_NOSIGNAL), (ssize_t)n);
	talk_settle(f);
}

void
talk_expect(struct fixture *f, const char *const *want, size_t n)
{
	char *line = f->seen, *end;
	size_t i;

	for (i = 0; i < n; i++) {
		end = strstr(line, "\r\n");
		if (end == NULL || strncmp(line, want[i], strlen(want[i])))
			print_error(
			    "want \"%s\", have \"%s\"\n", want[i], line);
		assert_non_null(end);
		assert_int_equal(strncmp(line, want[i], strlen(want[i])), 0);
		assert_true(end - line <= 510);
		line = end + 2;
	}
	if (*line != '\0')
		print_error("unexpected: %s\n", line);
	assert_int_equal(*line, '\0');
	f->seen_n = 0;
}

void
talk_sign_in(struct fixture *f)
{
	talk_dial(f, true);
	SAY(f, SIGNED_IN);
	EXPECT(f, "220 mx.example.org ESMTP", "250-mx.example.org",
	    "250-PIPELINING", "250-SIZE 100000", "250-8BITMIME",
	    "250-ENHANCEDSTATUSCODES", "250-SMTPUTF8", "250-DSN",
	    "250-REQUIRETLS", "250-LIMITS RCPTMAX=3", "250 AUTH PLAIN LOGIN",
	    "235 2.7.0 ");
}

void
talk_hang_up(struct fixture *f)
{
	close(f->fd);
	f->fd = -1;
	talk_settle(f);
}
