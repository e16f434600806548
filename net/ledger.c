/* SPDX-License-Identifier: ISC */
/*
 * ledger.c - a fixed hash table under one process-shared robust mutex.
 *
 * Each address has PROBES places where it may live. A place is free when it
 * has no connection and no blame left. The mutex is held for a few hundred
 * nanoseconds and never across anything that blocks; it is robust, so a
 * worker killed inside leaves at worst one count wrong.
 */
#include "net/ledger.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/xalloc.h"
#include "net/peer.h"

#define PLACES 4096U /* power of two */
#define PROBES 16U
#define FREE_FAILURES 3U /* of one address, before answers get slow */
#define PAUSE_MAX_S 10U
#define HALF_LIFE_MS (10 * 60 * 1000)

struct place {
	unsigned char group[16];
	int64_t blamed_ms; /* when `blame` was last brought up to date */
	uint16_t blame;
	uint16_t connections[NET_LEDGER_WORKERS];
	uint32_t total;
};

struct net_ledger {
	pthread_mutex_t lock;
	unsigned char salt[16]; /* so that nobody can aim at one place */
	struct place place[PLACES];
};

static void lock(struct net_ledger *ledger);
static void unlock(struct net_ledger *ledger);
static bool enter(struct net_ledger *ledger, unsigned worker,
    const unsigned char group[16], unsigned max, int *place);
static struct place *place_get(
    struct net_ledger *ledger, const unsigned char group[16]);
static struct place *place_find(
    struct net_ledger *ledger, const unsigned char group[16]);
static uint32_t hash(
    const struct net_ledger *ledger, const unsigned char group[16]);
static void decay(struct place *place, int64_t now_ms);

struct net_ledger *
net_ledger_new(void)
{
	struct net_ledger *ledger = mmap(NULL, sizeof *ledger,
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attr;

	if (ledger == MAP_FAILED)
		return NULL;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	BUG_ON(pthread_mutex_init(&ledger->lock, &attr) != 0);
	pthread_mutexattr_destroy(&attr);
	BUG_ON(getrandom(ledger->salt, sizeof ledger->salt, 0) !=
	       (ssize_t)sizeof ledger->salt);
	return ledger;
}

void
net_ledger_free(struct net_ledger *ledger)
{
	if (ledger != NULL)
		munmap(ledger, sizeof *ledger);
}

bool
net_ledger_enter(struct net_ledger *ledger, unsigned worker,
    const struct net_peer *peer, unsigned max, int *place)
{
	unsigned char group[16];

	net_peer_group(peer, group);
	return enter(ledger, worker, group, max, place);
}

/* Under a name no client address has: those of ff00::/8 send nothing. */
bool
net_ledger_enter_inbox(struct net_ledger *ledger, unsigned worker,
    int64_t inbox, unsigned max, int *place)
{
	unsigned char group[16] = { 0xff, 'i', 'n', 'b', 'o', 'x' };

	memcpy(group + 8, &inbox, sizeof inbox);
	return enter(ledger, worker, group, max, place);
}

static bool
enter(struct net_ledger *ledger, unsigned worker, const unsigned char group[16],
    unsigned max, int *place)
{
	struct place *found;
	bool ok = true;

	BUG_ON(worker >= NET_LEDGER_WORKERS);
	*place = -1;
	lock(ledger);
	found = place_get(ledger, group);
	if (found != NULL && found->total >= max) {
		ok = false;
	} else if (found != NULL && found->connections[worker] < UINT16_MAX) {
		found->connections[worker]++;
		found->total++;
		*place = (int)(found - ledger->place);
	}
	unlock(ledger);
	return ok;
}

void
net_ledger_leave(struct net_ledger *ledger, unsigned worker, int place)
{
	struct place *p;

	if (place < 0)
		return;
	lock(ledger);
	p = &ledger->place[place];
	if (p->connections[worker] > 0) {
		p->connections[worker]--;
		p->total--;
	}
	unlock(ledger);
}

void
net_ledger_forget(struct net_ledger *ledger, unsigned worker)
{
	unsigned i;

	BUG_ON(worker >= NET_LEDGER_WORKERS);
	lock(ledger);
	for (i = 0; i < PLACES; i++) {
		ledger->place[i].total -= ledger->place[i].connections[worker];
		ledger->place[i].connections[worker] = 0;
	}
	unlock(ledger);
}

unsigned
net_ledger_blame(
    struct net_ledger *ledger, const struct net_peer *peer, int64_t now_ms)
{
	unsigned char group[16];
	struct place *found;
	unsigned blame = 1;

	net_peer_group(peer, group);
	lock(ledger);
	found = place_get(ledger, group);
	if (found != NULL) {
		decay(found, now_ms);
		if (found->blame < UINT16_MAX)
			found->blame++;
		blame = found->blame;
	}
	unlock(ledger);
	return blame;
}

unsigned
net_ledger_blamed(
    struct net_ledger *ledger, const struct net_peer *peer, int64_t now_ms)
{
	unsigned char group[16];
	struct place *found;
	unsigned blame = 0;

	net_peer_group(peer, group);
	lock(ledger);
	found = place_find(ledger, group);
	if (found != NULL) {
		decay(found, now_ms);
		blame = found->blame;
	}
	unlock(ledger);
	return blame;
}

void
net_ledger_forgive(
    struct net_ledger *ledger, const struct net_peer *peer, int64_t now_ms)
{
	unsigned char group[16];
	struct place *found;

	net_peer_group(peer, group);
	lock(ledger);
	found = place_find(ledger, group);
	if (found != NULL) {
		decay(found, now_ms);
		if (found->blame > 0)
			found->blame--;
	}
	unlock(ledger);
}

unsigned
net_ledger_wait_s(struct net_ledger *ledger, const struct net_peer *peer,
    unsigned limit, int64_t now_ms)
{
	unsigned char group[16];
	struct place *found;
	unsigned blame;
	int64_t end_ms = now_ms;

	net_peer_group(peer, group);
	lock(ledger);
	found = place_find(ledger, group);
	if (found != NULL) {
		decay(found, now_ms);
		if (found->blame >= limit)
			end_ms = found->blamed_ms;
		for (blame = found->blame; blame >= limit && blame > 0;
		     blame /= 2)
			end_ms += HALF_LIFE_MS;
	}
	unlock(ledger);
	return (unsigned)((end_ms - now_ms + 999) / 1000);
}

unsigned
net_ledger_pause_ms(unsigned blame)
{
	if (blame <= FREE_FAILURES)
		return 0;
	blame -= FREE_FAILURES;
	return (blame < PAUSE_MAX_S ? blame : PAUSE_MAX_S) * 1000;
}

static void
lock(struct net_ledger *ledger)
{
	int rc = pthread_mutex_lock(&ledger->lock);

	if (rc == EOWNERDEAD)
		rc = pthread_mutex_consistent(&ledger->lock);
	BUG_ON(rc != 0);
}

static void
unlock(struct net_ledger *ledger)
{
	BUG_ON(pthread_mutex_unlock(&ledger->lock) != 0);
}

/* The place of this group, a free one made its own, or NULL. */
static struct place *
place_get(struct net_ledger *ledger, const unsigned char group[16])
{
	struct place *found = place_find(ledger, group), *idle = NULL, *p;
	uint32_t at, i;

	if (found != NULL)
		return found;
	at = hash(ledger, group);
	for (i = 0; i < PROBES; i++) {
		p = &ledger->place[(at + i) & (PLACES - 1)];
		if (p->total == 0 && (idle == NULL || p->blame < idle->blame))
			idle = p;
	}
	if (idle == NULL)
		return NULL;
	memset(idle, 0, sizeof *idle);
	memcpy(idle->group, group, sizeof idle->group);
	return idle;
}

static struct place *
place_find(struct net_ledger *ledger, const unsigned char group[16])
{
	uint32_t at, i;
	struct place *p;

	at = hash(ledger, group);
	for (i = 0; i < PROBES; i++) {
		p = &ledger->place[(at + i) & (PLACES - 1)];
		if (memcmp(p->group, group, sizeof p->group) == 0 &&
		    (p->total > 0 || p->blame > 0))
			return p;
	}
	return NULL;
}

/* FNV-1a over salt and address: spreads, and cannot be aimed from outside. */
static uint32_t
hash(const struct net_ledger *ledger, const unsigned char group[16])
{
	uint32_t h = 2166136261U;
	unsigned i;

	for (i = 0; i < 16; i++)
		h = (h ^ ledger->salt[i]) * 16777619U;
	for (i = 0; i < 16; i++)
		h = (h ^ group[i]) * 16777619U;
	return h ^ (h >> 15);
}

static void
decay(struct place *place, int64_t now_ms)
{
	int64_t steps;

	if (place->blame == 0 || now_ms < place->blamed_ms)
		place->blamed_ms = now_ms;
	steps = (now_ms - place->blamed_ms) / HALF_LIFE_MS;
	if (steps <= 0)
		return;
	place->blame = (uint16_t)(steps >= 16 ? 0 : place->blame >> steps);
	place->blamed_ms += steps * HALF_LIFE_MS;
}
