/* SPDX-License-Identifier: ISC */
/*
 * password.h - argon2id off the loop
 */
#ifndef ADMIN_PASSWORD_H
#define ADMIN_PASSWORD_H

#include <stdbool.h>

#include "base/secret.h"

struct pool;

struct password_job {
	struct secret output; /* filled; wiped by its owner */
	bool ok;
	void (*done)(void *arg); /* on the loop */
	void *arg;
	/* private */
	char *password;
	unsigned char salt[16];
	char params[128];
};

/*
 * Copies the password and wipes its copy. False: too many at once, nothing
 * will happen. `job` must live until `done`.
 */
bool password_start(struct pool *pool, struct password_job *job,
    const char *password, const unsigned char salt[16], const char *params);

#endif
