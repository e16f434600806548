/* SPDX-License-Identifier: ISC */
#include "ctl/doctor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "ctl/audit.h"
#include "ctl/backup.h"
#include "ctl/dns.h"
#include "ctl/reach.h"
#include "seal/keyfile.h"
#include "store/health.h"

#define DAY 86400

void
doctor_certificate(const struct ctl *ctl, json_t *all)
{
	const char *path = ctl->conf->tls_cert_file;
	const char *fix = "put the renewed certificate and its key at "
			  "tls.cert_file and tls.key_file; systemctl reload "
			  "postern-gateway postern-admin";
	char text[400];
	int64_t left;

	if (!health_certificate_left(&left, path)) {
		(void)snprintf(text, sizeof(text), "%s cannot be read", path);
		doctor_add(all, "certificate",
		    access(path, F_OK) != 0 ? "warning" : "error", text, fix);
		return;
	}
	(void)snprintf(text, sizeof(text), "%s %s %lld days", path,
	    left < 0 ? "ended before" : "is good for",
	    (long long)(left < 0 ? -left : left) / DAY);
	doctor_add(all, "certificate",
	    left < 3 * DAY    ? "error"
	    : left < 14 * DAY ? "warning"
			      : "ok",
	    text, fix);
}

/* The disks of the state folder and, as Debian has it, of PostgreSQL. */
void
doctor_disk(const struct ctl *ctl, json_t *all)
{
	const char *const folders[] = { ctl->conf->state_dir,
		"/var/lib/postgresql" };
	char text[400];
	size_t i;
	int percent;

	for (i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		percent = health_disk_free(folders[i]);
		if (percent < 0)
			continue;
		(void)snprintf(text, sizeof(text), "%d %% are free at %s",
		    percent, folders[i]);
		doctor_add(all, "disk",
		    percent < 3    ? "error"
		    : percent < 10 ? "warning"
				   : "ok",
		    text,
		    "make room: archived log, old backups, old logs; nothing "
		    "below the folder itself");
	}
}

struct key {
	const char *path;
	enum seal_keyfile type;
};

/* Readable for its program only, whole, and of its type. */
static bool
is_key_good(const struct key *k, json_t *all)
{
	struct secret key = { 0 };
	struct err err = { 0 };
	struct stat st;
	char text[400];
	bool ok = true;

	if (stat(k->path, &st) == 0 && (st.st_mode & 027)) {
		(void)snprintf(text, sizeof(text), "%s has mode %03o", k->path,
		    (unsigned)(st.st_mode & 0777));
		doctor_add(all, "key files",
		    st.st_mode & 07 ? "error" : "warning", text,
		    "chmod 0600, or root and 0640 for a key of two programs");
		return false;
	}
	if (geteuid() != 0 || stat(k->path, &st) != 0)
		return true;
	/* As who reads it: a quickstart's keys are its user's, not root's. */
	if (seteuid(st.st_uid) == 0) {
		ok = seal_keyfile_load(&key, k->path, k->type, &err) ||
		     err.code == EACCES;
		if (seteuid(0) != 0)
			abort();
	}
	if (!ok)
		doctor_add(all, "key files", "error", err.text,
		    "move it away and put it back from the backup "
		    "(posternctl restore DIR, without --data)");
	secret_wipe(&key);
	return ok;
}

void
doctor_keys(const struct ctl *ctl, json_t *all)
{
	const struct conf *c = ctl->conf;
	const struct key keys[] = {
		{ c->keys_review_key_file, SEAL_KEYFILE_REVIEW },
		{ c->keys_relay_key_file, SEAL_KEYFILE_RELAY },
		{ c->keys_approve_key_file, SEAL_KEYFILE_APPROVE },
		{ c->keys_policy_key_file, SEAL_KEYFILE_POLICY },
		{ c->keys_seal_key_file, SEAL_KEYFILE_AUDIT },
		{ c->keys_auth_key_file, SEAL_KEYFILE_AUTH },
	};
	size_t n = sizeof(keys) / sizeof(keys[0]), i, here = 0;
	char text[400];
	bool ok = true;

	for (i = 0; i < n; i++)
		here += access(keys[i].path, F_OK) == 0;
	for (i = 0; i < n; i++) {
		if (!is_key_good(&keys[i], all)) {
			ok = false;
		} else if (access(keys[i].path, F_OK) != 0 && here > 0) {
			/* A host of one program has its keys only. */
			(void)snprintf(text, sizeof(text),
			    "%s is not there, others are", keys[i].path);
			doctor_add(all, "key files", "warning", text,
			    "put it back from the backup (posternctl restore "
			    "DIR, without --data), if a program of this host "
			    "needs it; docs/backup.md says what is lost "
			    "without");
			ok = false;
		}
	}
	if (ok)
		doctor_add(all, "key files", "ok",
		    "whole, and unreadable for others", "");
}

/* Host and port of "host:port" or "[address]:port". */
static bool
split_hop(const char *hop, char *host, size_t size, const char **port)
{
	const char *colon = strrchr(hop, ':');
	size_t n = colon != NULL ? (size_t)(colon - hop) : 0;

	if (n >= 2 && hop[0] == '[' && hop[n - 1] == ']') {
		hop++;
		n -= 2;
	}
	if (n == 0 || n >= size)
		return false;
	memcpy(host, hop, n);
	host[n] = '\0';
	*port = colon + 1;
	return true;
}

/* Does /etc/hosts name it? */
static bool
is_in_hosts(const char *name)
{
	const struct hostent *e;
	bool is_there = false;
	char **alias;

	sethostent(0);
	while (!is_there && (e = gethostent()) != NULL) {
		is_there = strcasecmp(e->h_name, name) == 0;
		for (alias = e->h_aliases; !is_there && *alias != NULL; alias++)
			is_there = strcasecmp(*alias, name) == 0;
	}
	endhostent();
	return is_there;
}

/* An address of that name, of the servers that postern-deliver asks. */
static enum dns_status
ask_configured(
    const struct conf *conf, const char *host, char *address, size_t size)
{
	static const enum dns_type both[] = { DNS_A, DNS_AAAA };
	struct dns_answer *answer = xcalloc(1, sizeof(*answer));
	enum dns_status status = DNS_NONE;
	size_t i;

	for (i = 0; i < 2 && status == DNS_NONE; i++)
		status = dns_ask(conf, host, both[i], answer);
	if (status == DNS_FOUND)
		(void)snprintf(
		    address, size, "%.*s", (int)size - 1, answer->text[0]);
	free(answer);
	return status;
}

/*
 * Where postern-deliver would go: an address, a name of /etc/hosts, or one of
 * deliver.resolver, else of the system. NULL: `why`; else freeaddrinfo().
 */
static struct addrinfo *
find_hop(const struct conf *conf, const char *host, const char *port, char *why,
    size_t size)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST };
	struct addrinfo *found = NULL;
	char address[INET6_ADDRSTRLEN] = "";
	int rc = getaddrinfo(host, port, &hints, &found);

	if (rc == 0)
		return found;
	if (conf->deliver_resolver.n == 0 || is_in_hosts(host)) {
		hints.ai_flags = 0;
		rc = getaddrinfo(host, port, &hints, &found);
		(void)snprintf(why, size, "%s: %s", host, gai_strerror(rc));
		return rc == 0 ? found : NULL;
	}
	switch (ask_configured(conf, host, address, sizeof(address))) {
	case DNS_FOUND:
		rc = getaddrinfo(address, port, &hints, &found);
		(void)snprintf(why, size, "%s: %s", host, gai_strerror(rc));
		return rc == 0 ? found : NULL;
	case DNS_NONE:
		(void)snprintf(why, size, "%s: no such name", host);
		break;
	case DNS_FAILED:
		(void)snprintf(why, size, "%s: no name server answers", host);
		break;
	}
	return NULL;
}

static void
look_at_smarthost(const struct ctl *ctl, json_t *all)
{
	const char *hop = ctl->conf->deliver_smarthost, *port;
	char host[256], text[400] = "";
	struct addrinfo *found, *a;
	int fd = -1;

	if (!split_hop(hop, host, sizeof(host), &port)) {
		doctor_add(all, "smarthost", "error", hop,
		    "deliver.smarthost is host:port");
		return;
	}
	found = find_hop(ctl->conf, host, port, text, sizeof(text));
	if (found == NULL) {
		doctor_add(all, "dns", "error", text,
		    "start the name servers of deliver.resolver, else of "
		    "/etc/resolv.conf, or correct these, or the name in "
		    "deliver.smarthost; mail waits and is tried again");
		return;
	}
	for (a = found; fd < 0 && a != NULL; a = a->ai_next)
		fd = reach_address(a->ai_addr, a->ai_addrlen);
	freeaddrinfo(found);
	(void)snprintf(text, sizeof(text), "%s %s", hop,
	    fd >= 0 ? "takes connections" : "takes no connection");
	doctor_add(all, "smarthost", fd >= 0 ? "ok" : "error", text,
	    "start it, or correct deliver.smarthost; mail waits and is tried "
	    "again");
	if (fd >= 0)
		(void)close(fd);
}

/* The smarthost, or name servers that find where others are. */
void
doctor_next_hop(const struct ctl *ctl, json_t *all)
{
	struct dns_answer *answer;
	enum dns_status status;

	if (*ctl->conf->deliver_smarthost != '\0') {
		look_at_smarthost(ctl, all);
		return;
	}
	answer = xcalloc(1, sizeof(*answer));
	status = dns_ask(ctl->conf, "example.com", DNS_MX, answer);
	doctor_add(all, "dns", status != DNS_FAILED ? "ok" : "error",
	    status != DNS_FAILED ? "name servers answer"
				 : "no name server answers",
	    "correct deliver.resolver, or the system's /etc/resolv.conf; mail "
	    "waits and is tried again");
	free(answer);
}

void
doctor_programs(const struct ctl *ctl, json_t *all)
{
	static const char *const names[] = { "posternd", "postern-admin",
		"postern-deliver" };
	static const char *const units[] = { "postern-gateway", "postern-admin",
		"postern-deliver" };
	char said[200], fix[160];
	unsigned i;
	int status;

	for (i = 0; i < 3; i++) {
		status = reach_readyz(ctl->conf, i, said, sizeof(said));
		(void)snprintf(fix, sizeof(fix),
		    status == 0
			? "systemctl start %s, if it belongs on this host; "
			  "journalctl -u %s says why it ended"
			: "put right what it says; journalctl -u %s%s",
		    units[i], status == 0 ? units[i] : "");
		doctor_add(all, names[i], status == 200 ? "ok" : "warning",
		    status == 0 ? "does not answer here" : said, fix);
	}
}

/* When posternctl last made one on this host; other tools it does not know. */
void
doctor_backup(const struct ctl *ctl, json_t *all)
{
	char *path = xasprintf("%s/" BACKUP_LAST, ctl->conf->state_dir);
	char text[160];
	struct stat st;
	long long hours;

	if (stat(path, &st) != 0) {
		doctor_add(all, "backup", "info",
		    errno == ENOENT ? "none by posternctl on this host"
				    : strerror(errno),
		    "posternctl backup, daily; or a tool of yours "
		    "(docs/backup.md)");
	} else {
		hours = ((long long)time(NULL) - (long long)st.st_mtime) / 3600;
		(void)snprintf(
		    text, sizeof(text), "made %lld hours ago", hours);
		doctor_add(all, "backup",
		    hours > BACKUP_OLD_HOURS ? "warning" : "ok", text,
		    "posternctl backup; then see why it was not run");
	}
	free(path);
}

void
doctor_clock(json_t *all, const json_t *ready)
{
	struct tm tm = { 0 };
	char text[160];
	long long off;

	/* As PostgreSQL writes it in JSON: 2026-01-02T03:04:05.678+00:00. */
	if (strptime(ctl_text(ready, "now"), "%Y-%m-%dT%H:%M:%S", &tm) == NULL)
		return;
	off = (long long)time(NULL) - (long long)timegm(&tm);
	(void)snprintf(text, sizeof(text), "%lld seconds %s the database's",
	    off < 0 ? -off : off, off < 0 ? "behind" : "ahead of");
	off = off < 0 ? -off : off;
	doctor_add(all, "clock",
	    off > 60  ? "error"
	    : off > 5 ? "warning"
		      : "ok",
	    off <= 5 ? "as the database's" : text,
	    "set both by NTP (timedatectl set-ntp true); from ten minutes on "
	    "mail is refused");
}

void
doctor_sealer(json_t *all, const json_t *ready)
{
	int64_t age = ctl_int(ready, "unsealed_seconds");
	char text[160];

	(void)snprintf(text, sizeof(text),
	    "the oldest audit row not sealed is %lld seconds old",
	    (long long)age);
	doctor_add(all, "sealer", age > 300 ? "error" : "ok", text,
	    "systemctl start postern-seal; its log says what it stopped at");
}

void
doctor_audit(struct ctl *ctl, json_t *all)
{
	char *heads = xasprintf("%s/" HEADS_FILE, ctl->conf->state_dir);
	char *pub = xasprintf("%s.pub", ctl->conf->keys_seal_key_file);
	struct ctl_args args = { .names = { "head" },
		.values = { heads },
		.noptions = access(heads, R_OK) == 0 };

	if (access(pub, R_OK) != 0)
		doctor_add(all, "audit log", "info", pub,
		    "not here: run audit verify where it is");
	else if (audit_verify_quietly(ctl, &args) == 0)
		doctor_add(all, "audit log", "ok", "whole", "");
	else
		doctor_add(all, "audit log", "error",
		    "it was changed or cut, see above",
		    "copy the database as it is, for who will ask; then "
		    "restore (docs/backup.md) or find who changed it");
	free(pub);
	free(heads);
}
