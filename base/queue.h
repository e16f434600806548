/* SPDX-License-Identifier: ISC */
/* queue.h - the lists of <sys/queue.h>, with the loop that may remove. */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include <sys/queue.h>

#ifndef TAILQ_FOREACH_SAFE
#define TAILQ_FOREACH_SAFE(var, head, field, next)                             \
	for ((var) = TAILQ_FIRST((head));                                      \
	     (var) != NULL && ((next) = TAILQ_NEXT((var), field), 1);          \
	     (var) = (next))
#endif

#endif
