/* SPDX-License-Identifier: ISC */
/*
 * hour.c - a table of hour keys, found by inbox and by the epochs of the
 * public keys they are sealed to: a new epoch gets a new hour key at once.
 */
#include "store/hour.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "store/credential.h"

#define SLOTS 4096
#define LIFE_MS (3600 * 1000)

struct slot {
	int64_t tenant, inbox;
	int tenant_epoch, inbox_epoch;
	unsigned char inbox_pub[32];
	uint64_t until;
	struct seal_hour hour;
};

struct hours {
	struct slot *slot[SLOTS];
};

struct hours *
hours_new(void)
{
	return xcalloc(1, sizeof(struct hours));
}

static void
drop(struct hours *h, size_t i)
{
	if (h->slot[i] == NULL)
		return;
	seal_hour_wipe(&h->slot[i]->hour);
	free(h->slot[i]);
	h->slot[i] = NULL;
}

void
hours_free(struct hours *h)
{
	size_t i;

	if (h == NULL)
		return;
	for (i = 0; i < SLOTS; i++)
		drop(h, i);
	free(h);
}

static bool
fits(const struct slot *s, const struct store_cred *cred, uint64_t now)
{
	return s != NULL && s->until > now && s->tenant == cred->tenant &&
	       s->inbox == cred->inbox &&
	       s->tenant_epoch == cred->tenant_epoch &&
	       s->inbox_epoch == cred->inbox_epoch &&
	       memcmp(s->inbox_pub, cred->inbox_pub, sizeof(s->inbox_pub)) == 0;
}

/* Inboxes that share a slot push each other out: dearer, never wrong. */
void
hours_get(struct hours *h, const struct store_cred *cred, struct seal_hour *out)
{
	size_t i = (((uint64_t)cred->tenant * 31 + (uint64_t)cred->inbox) *
		       UINT64_C(0x9e3779b97f4a7c15)) >>
		   52;
	uint64_t now = clock_mono_ms();
	struct slot *s = h->slot[i];

	if (!fits(s, cred, now)) {
		drop(h, i);
		s = h->slot[i] = xcalloc(1, sizeof(*s));
		s->tenant = cred->tenant;
		s->inbox = cred->inbox;
		s->tenant_epoch = cred->tenant_epoch;
		s->inbox_epoch = cred->inbox_epoch;
		memcpy(s->inbox_pub, cred->inbox_pub, sizeof(s->inbox_pub));
		s->until = now + LIFE_MS;
		seal_hour_new(&s->hour, cred->tenant_pub, cred->inbox_pub);
	}
	*out = s->hour;
}
