/* SPDX-License-Identifier: ISC */
/*
 * handlers.h - one function per route (route.c)
 */
#ifndef ADMIN_HANDLERS_H
#define ADMIN_HANDLERS_H

struct http_request;

void handle_root(struct http_request *req);
void handle_asset(struct http_request *req);
void handle_login(struct http_request *req);
void handle_login_post(struct http_request *req);
void handle_logout_post(struct http_request *req);
void handle_setup(struct http_request *req);
void handle_setup_post(struct http_request *req);
void handle_queue(struct http_request *req);
void handle_counts(struct http_request *req);
void handle_history(struct http_request *req);
void handle_inboxes(struct http_request *req);
void handle_account(struct http_request *req);
void handle_pause(struct http_request *req);
void handle_pause_post(struct http_request *req);
void handle_reject_all(struct http_request *req);
void handle_reject_all_post(struct http_request *req);
void handle_message(struct http_request *req);
void handle_message_open_post(struct http_request *req);
void handle_download(struct http_request *req);
void handle_file(struct http_request *req);
void handle_decide_post(struct http_request *req);
void handle_undo_post(struct http_request *req);
void handle_cancel_post(struct http_request *req);
void handle_settle_post(struct http_request *req);
void handle_notice(struct http_request *req);

#endif
