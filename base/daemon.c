/* SPDX-License-Identifier: ISC */
#include "base/daemon.h"

#include <event2/event.h>
#include <openssl/crypto.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/xalloc.h"

/* Older packages have eight published holes; pkg-config cannot tell. */
#define EVENT_PACKAGE "libevent-2.1-7"
#define EVENT_WANTED "2.1.12-stable-8+deb12u1"

struct daemon_signals {
	struct event *events[4];
	struct loop_timer *watchdog; /* NULL: nobody watches */
	unsigned watchdog_ms;
	struct daemon_handlers handlers;
	void *arg;
};

static const int signal_numbers[] = { SIGTERM, SIGINT, SIGHUP, SIGCHLD };

void
daemon_harden(void)
{
	const struct rlimit none = { 0, 0 };
	int fd;

	(void)setrlimit(RLIMIT_CORE, &none);
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)signal(SIGPIPE, SIG_IGN);
	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		(void)close(fd);
}

bool
daemon_event_package(char *version, size_t size)
{
	FILE *in =
	    popen("dpkg-query -W -f '${Version}' " EVENT_PACKAGE " 2>/dev/null",
		"re");
	bool is_good;
	char *ask;

	if (in == NULL || fgets(version, (int)size, in) == NULL)
		(void)snprintf(version, size, "unknown");
	if (in != NULL)
		(void)pclose(in);
	if (strcmp(version, "unknown") == 0)
		return true;
	if (strspn(version, "0123456789abcdefghijklmnopqrstuvwxyz.+~:-") !=
	    strlen(version))
		return false;
	ask = xasprintf(
	    "dpkg --compare-versions '%s' ge '%s'", version, EVENT_WANTED);
	is_good = system(ask) == 0;
	free(ask);
	return is_good;
}

void
daemon_print_version(const char *program)
{
	char package[64];
	bool is_good = daemon_event_package(package, sizeof(package));

	(void)printf("%s %s\nlibevent %s (package %s%s)\n", program,
	    PACKAGE_VERSION, event_get_version(), package,
	    is_good ? "" : ", vulnerable: install " EVENT_WANTED);
	(void)printf("%s\n", OpenSSL_version(OPENSSL_VERSION));
}

static void
print_usage(const char *program, FILE *out)
{
	(void)fprintf(out,
	    "usage: %s [-c FILE] [--check | --show-config | --version]\n"
	    "  -c FILE        configuration (default $POSTERN_CONF or %s)\n"
	    "  --check        say whether the configuration is usable\n"
	    "  --show-config  print every option in effect\n"
	    "  --version      print versions\n",
	    program, POSTERN_SYSCONFDIR "/postern.conf");
}

static int
level_of(const char *name)
{
	static const char *const names[] = { "debug", "info", "warn", "error" };
	int i;

	for (i = 0; i < 4; i++) {
		if (strcmp(names[i], name) == 0)
			return i;
	}
	return LOG_LEVEL_INFO;
}

static void
use_log(const struct conf *conf)
{
	log_set_level(level_of(conf->log_level));
	log_set_addresses(
	    strcmp(conf->log_addresses, "full") == 0     ? LOG_ADDRESSES_FULL
	    : strcmp(conf->log_addresses, "hashed") == 0 ? LOG_ADDRESSES_HASHED
							 : LOG_ADDRESSES_OFF);
}

static struct conf *
load(const struct daemon *d, struct err *err)
{
	struct conf *conf = conf_load(d->conf_path, d->program, err);
	struct err why = { 0 };

	if (conf == NULL || conf_check(conf, d->program, &why))
		return conf;
	err_set(err, why.code, "%s: %s", d->conf_path, why.text);
	conf_free(conf);
	return NULL;
}

enum mode { MODE_RUN, MODE_CHECK, MODE_SHOW, MODE_LEAVE };

static enum mode
read_options(struct daemon *d, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "check", no_argument, NULL, 'k' },
		{ "show-config", no_argument, NULL, 's' },
		{ "version", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	enum mode mode = MODE_RUN;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "c:h", longs, NULL)) != -1) {
		if (c == 'c') {
			free(d->conf_path);
			d->conf_path = xstrdup(optarg);
		} else if (c == 'k' || c == 's') {
			mode = c == 'k' ? MODE_CHECK : MODE_SHOW;
		} else if (c == 'v') {
			daemon_print_version(d->program);
			return MODE_LEAVE;
		} else {
			d->exit_code = c == 'h' ? 0 : 2;
			print_usage(d->program, c == 'h' ? stdout : stderr);
			return MODE_LEAVE;
		}
	}
	if (optind < argc) {
		print_usage(d->program, stderr);
		d->exit_code = 2;
		return MODE_LEAVE;
	}
	return mode;
}

bool
daemon_init(struct daemon *d, const char *program, int argc, char **argv)
{
	const char *env = getenv("POSTERN_CONF");
	struct err err = { 0 };
	enum mode mode;

	daemon_harden();
	*d = (struct daemon){ .program = program };
	d->conf_path =
	    xstrdup(env != NULL ? env : POSTERN_SYSCONFDIR "/postern.conf");
	log_init(program, LOG_LEVEL_INFO);
	mode = read_options(d, argc, argv);
	if (mode == MODE_LEAVE)
		return false;
	d->conf = load(d, &err);
	if (d->conf == NULL) {
		(void)fprintf(stderr, "%s: %s\n", program, err.text);
		d->exit_code = 2;
		return false;
	}
	use_log(d->conf);
	if (mode == MODE_SHOW)
		conf_show(d->conf, program, stdout);
	if (mode == MODE_CHECK)
		(void)printf("%s: %s is usable\n", program, d->conf_path);
	if (mode != MODE_RUN)
		return false;
	log_info("daemon.start", KV("version", PACKAGE_VERSION));
	return true;
}

void
daemon_clear(struct daemon *d)
{
	conf_free(d->conf);
	free(d->conf_path);
	*d = (struct daemon){ 0 };
}

struct conf *
daemon_reload(struct daemon *d)
{
	struct conf *old = d->conf, *fresh;
	struct err err = { 0 };

	(void)sd_notifyf(
	    0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_mono_ms() * 1000);
	fresh = load(d, &err);
	(void)sd_notify(0, "READY=1");
	if (fresh == NULL) {
		log_error("daemon.reload", KV("why", err.text));
		return NULL;
	}
	d->conf = fresh;
	use_log(fresh);
	log_info("daemon.reload", KV("why", "SIGHUP"));
	return old;
}

static void
on_signal(evutil_socket_t signo, short what, void *arg)
{
	struct daemon_signals *s = arg;
	void (*fn)(void *) = signo == SIGHUP    ? s->handlers.on_reload
			     : signo == SIGCHLD ? s->handlers.on_child
						: s->handlers.on_stop;

	(void)what;
	if (signo == SIGTERM || signo == SIGINT)
		(void)sd_notify(0, "STOPPING=1");
	if (fn != NULL)
		fn(s->arg);
}

/* A loop that no longer turns says nothing, and is restarted. */
static void
on_watchdog(void *arg)
{
	struct daemon_signals *s = arg;

	(void)sd_notify(0, "WATCHDOG=1");
	loop_timer_set(s->watchdog, s->watchdog_ms);
}

static void
start_watchdog(struct daemon_signals *s, struct loop *loop)
{
	uint64_t us = 0;

	if (sd_watchdog_enabled(0, &us) <= 0)
		return;
	s->watchdog_ms = (unsigned)(us / 2000);
	s->watchdog = loop_timer_new(loop, on_watchdog, s);
	on_watchdog(s);
}

struct daemon_signals *
daemon_signals_new(
    struct loop *loop, const struct daemon_handlers *handlers, void *arg)
{
	struct daemon_signals *s = xcalloc(1, sizeof(*s));
	size_t i;

	s->handlers = *handlers;
	s->arg = arg;
	for (i = 0; i < 4; i++) {
		if (signal_numbers[i] == SIGCHLD && handlers->on_child == NULL)
			continue;
		s->events[i] = evsignal_new(
		    loop_base(loop), signal_numbers[i], on_signal, s);
		BUG_ON(
		    s->events[i] == NULL || event_add(s->events[i], NULL) != 0);
	}
	start_watchdog(s, loop);
	return s;
}

void
daemon_signals_free(struct daemon_signals *s)
{
	size_t i;

	if (s == NULL)
		return;
	for (i = 0; i < 4; i++) {
		if (s->events[i] != NULL)
			event_free(s->events[i]);
	}
	loop_timer_free(s->watchdog);
	free(s);
}

void
daemon_ready(void)
{
	(void)sd_notify(0, "READY=1");
	log_info("daemon.ready");
}

void
daemon_stopping(const char *why)
{
	log_info("daemon.stop", KV("why", why));
}
