/* SPDX-License-Identifier: ISC */
/*
 * gauge.c - what a program can see of its host while it asks the database:
 * the clock beside the database's, the end of the certificate, the disk of
 * the state folder, and when the audit log was last verified.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/metrics.h"
#include "base/xalloc.h"
#include "store/health.h"

bool
health_certificate_left(int64_t *seconds, const char *path)
{
	FILE *f = fopen(path, "re");
	X509 *cert = f != NULL ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;
	int days = 0, rest = 0;
	bool ok = cert != NULL && ASN1_TIME_diff(&days, &rest, NULL,
				      X509_get0_notAfter(cert)) == 1;

	X509_free(cert);
	if (f != NULL)
		(void)fclose(f);
	*seconds = (int64_t)days * 86400 + rest;
	return ok;
}

int
health_disk_free(const char *folder)
{
	struct statvfs fs;

	if (statvfs(folder, &fs) != 0 || fs.f_blocks == 0)
		return -1;
	return (int)(fs.f_bavail * 100 / fs.f_blocks);
}

int64_t
health_verified_age(const char *state_dir)
{
	char *path = xasprintf("%s/" HEALTH_VERIFIED_FILE, state_dir);
	struct stat st;
	int64_t age = -1;

	if (stat(path, &st) == 0)
		age = (int64_t)time(NULL) - (int64_t)st.st_mtime;
	free(path);
	return age < -1 ? 0 : age;
}

void
health_gauges(const char *state_dir, const char *cert, int64_t skew_ms)
{
	int64_t left, age;
	int percent;

	metrics_set(M_CLOCK_SKEW_SECONDS,
	    (skew_ms < 0 ? -skew_ms : skew_ms) / 1000, NULL, NULL);
	if (cert != NULL && health_certificate_left(&left, cert))
		metrics_set(M_CERTIFICATE_SECONDS, left, NULL, NULL);
	percent = health_disk_free(state_dir);
	if (percent >= 0)
		metrics_set(M_DISK_USED_PERCENT, 100 - percent, NULL, NULL);
	age = health_verified_age(state_dir);
	if (age >= 0)
		metrics_set(M_AUDIT_VERIFIED_SECONDS, age, NULL, NULL);
}
