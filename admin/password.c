/* SPDX-License-Identifier: ISC */
#include "admin/password.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "admin/admin.h"
#include "base/pool.h"
#include "base/xalloc.h"
#include "seal/password.h"

static void
work(void *arg)
{
	struct password_job *job = arg;

	job->ok = seal_password_output(
	    &job->output, str_of(job->password), job->salt, job->params);
}

static void
finish(void *arg)
{
	struct password_job *job = arg;

	OPENSSL_cleanse(job->password, strlen(job->password));
	free(job->password);
	job->password = NULL;
	job->done(job->arg);
}

bool
password_start(struct pool *pool, struct password_job *job,
    const char *password, const unsigned char salt[16], const char *params)
{
	job->password = xstrdup(password);
	memcpy(job->salt, salt, sizeof(job->salt));
	snprintf(job->params, sizeof(job->params), "%s", params);
	if (pool_submit(pool, work, finish, job))
		return true;
	OPENSSL_cleanse(job->password, strlen(job->password));
	free(job->password);
	job->password = NULL;
	return false;
}
