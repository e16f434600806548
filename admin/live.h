/* SPDX-License-Identifier: ISC */
/*
 * live.h - the streams of events to open pages (Server-Sent Events)
 *
 * Few at a time: a page that gets none asks /counts now and then. Each look is
 * a call with the session's secret, so a stream ends with its session.
 */
#ifndef ADMIN_LIVE_H
#define ADMIN_LIVE_H

struct admin;
struct live_streams;
struct secret;

#define LIVE_STREAMS 128 /* of this process */
#define LIVE_STREAMS_EACH 4 /* of one operator */

struct live_streams *live_streams_new(struct admin *admin);
/* After review_db_free() and http_server_free(). NULL is fine. */
void live_streams_free(struct live_streams *all);
/* A session goes on under another secret, and so do its streams. */
void live_streams_turn(struct live_streams *all, const struct secret *from,
    const struct secret *to);
/* End them all, so that a drain need not wait for them. */
void live_streams_end(struct live_streams *all);

#endif
