/* SPDX-License-Identifier: ISC */
#include "base/pool.h"

#include <event2/event.h>
#include <sys/eventfd.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/queue.h"
#include "base/xalloc.h"

struct job {
	TAILQ_ENTRY(job) link;
	pool_fn *work;
	pool_fn *done;
	void *arg;
};

TAILQ_HEAD(job_list, job);

struct pool {
	pthread_mutex_t lock; /* guards the three below */
	pthread_cond_t more;
	struct job_list waiting;
	struct job_list finished;
	bool is_stopping;

	struct event *ready; /* on `fd`, written by threads */
	int fd;
	size_t jobs; /* loop's side only */
	size_t queue_max;
	size_t nthreads;
	pthread_t threads[];
};

static void *
run_thread(void *arg)
{
	struct pool *pool = arg;
	const uint64_t one = 1;
	struct job *job;

	(void)pthread_mutex_lock(&pool->lock);
	for (;;) {
		while (TAILQ_EMPTY(&pool->waiting) && !pool->is_stopping)
			(void)pthread_cond_wait(&pool->more, &pool->lock);
		if (pool->is_stopping)
			break;
		job = TAILQ_FIRST(&pool->waiting);
		TAILQ_REMOVE(&pool->waiting, job, link);
		(void)pthread_mutex_unlock(&pool->lock);
		job->work(job->arg);
		(void)pthread_mutex_lock(&pool->lock);
		TAILQ_INSERT_TAIL(&pool->finished, job, link);
		while (write(pool->fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
	(void)pthread_mutex_unlock(&pool->lock);
	return NULL;
}

static void
on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct pool *pool = arg;
	struct job_list done = TAILQ_HEAD_INITIALIZER(done);
	struct job *job;
	uint64_t count;

	(void)what;
	if (read(fd, &count, sizeof(count)) < 0)
		return;
	(void)pthread_mutex_lock(&pool->lock);
	TAILQ_CONCAT(&done, &pool->finished, link);
	(void)pthread_mutex_unlock(&pool->lock);
	while ((job = TAILQ_FIRST(&done)) != NULL) {
		TAILQ_REMOVE(&done, job, link);
		pool->jobs--;
		job->done(job->arg);
		free(job);
	}
}

/* Threads take no signals: those belong to the loop. */
static void
start_threads(struct pool *pool, size_t threads)
{
	sigset_t all, old;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	for (; pool->nthreads < threads; pool->nthreads++)
		BUG_ON(pthread_create(&pool->threads[pool->nthreads], NULL,
			   run_thread, pool) != 0);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
}

struct pool *
pool_new(struct loop *loop, size_t threads, size_t queue_max)
{
	struct pool *pool =
	    xcalloc(1, sizeof(*pool) + threads * sizeof(pool->threads[0]));

	(void)pthread_mutex_init(&pool->lock, NULL);
	(void)pthread_cond_init(&pool->more, NULL);
	TAILQ_INIT(&pool->waiting);
	TAILQ_INIT(&pool->finished);
	pool->queue_max = queue_max;
	pool->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	BUG_ON(pool->fd < 0);
	pool->ready = event_new(
	    loop_base(loop), pool->fd, EV_READ | EV_PERSIST, on_ready, pool);
	BUG_ON(pool->ready == NULL || event_add(pool->ready, NULL) != 0);
	start_threads(pool, threads);
	return pool;
}

static void
drop_jobs(struct job_list *jobs)
{
	struct job *job;

	while ((job = TAILQ_FIRST(jobs)) != NULL) {
		TAILQ_REMOVE(jobs, job, link);
		free(job);
	}
}

void
pool_free(struct pool *pool)
{
	size_t i;

	if (pool == NULL)
		return;
	(void)pthread_mutex_lock(&pool->lock);
	pool->is_stopping = true;
	(void)pthread_cond_broadcast(&pool->more);
	(void)pthread_mutex_unlock(&pool->lock);
	for (i = 0; i < pool->nthreads; i++)
		(void)pthread_join(pool->threads[i], NULL);
	drop_jobs(&pool->waiting);
	drop_jobs(&pool->finished);
	event_free(pool->ready);
	(void)close(pool->fd);
	(void)pthread_cond_destroy(&pool->more);
	(void)pthread_mutex_destroy(&pool->lock);
	free(pool);
}

bool
pool_submit(struct pool *pool, pool_fn *work, pool_fn *done, void *arg)
{
	struct job *job;

	if (pool->jobs >= pool->queue_max)
		return false;
	job = xcalloc(1, sizeof(*job));
	job->work = work;
	job->done = done;
	job->arg = arg;
	pool->jobs++;
	(void)pthread_mutex_lock(&pool->lock);
	TAILQ_INSERT_TAIL(&pool->waiting, job, link);
	(void)pthread_cond_signal(&pool->more);
	(void)pthread_mutex_unlock(&pool->lock);
	return true;
}
