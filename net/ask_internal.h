/* SPDX-License-Identifier: ISC */
/*
 * ask_internal.h - frames, for the two files of net/ask.h
 */
#ifndef NET_ASK_INTERNAL_H
#define NET_ASK_INTERNAL_H

#include "net/ask.h"

struct bufferevent;
struct evbuffer;
struct sockaddr_un;

enum ask_frame { ASK_FRAME_MORE, ASK_FRAME_BAD, ASK_FRAME_WHOLE };

bool ask_address(struct sockaddr_un *to, const char *path);
/* A whole frame, borrowed; more bytes behind it are bad. */
enum ask_frame ask_frame(struct evbuffer *in, struct str *frame);
/* Write one frame; wipes and frees it. */
void ask_put(struct bufferevent *bev, struct buf *frame);
void ask_wipe(struct evbuffer *b);

#endif
