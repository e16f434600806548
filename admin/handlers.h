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
void handle_second(struct http_request *req);
void handle_second_post(struct http_request *req);
void handle_second_challenge_post(struct http_request *req);
void handle_challenge_post(struct http_request *req);
void handle_totp_post(struct http_request *req);
void handle_totp_ok_post(struct http_request *req);
void handle_recovery_post(struct http_request *req);
void handle_passkey_post(struct http_request *req);
void handle_factor_end_post(struct http_request *req);
void handle_factor_reset_post(struct http_request *req);
void handle_logout_post(struct http_request *req);
void handle_setup(struct http_request *req);
void handle_setup_post(struct http_request *req);
void handle_queue(struct http_request *req);
void handle_counts(struct http_request *req);
void handle_events(struct http_request *req);
void handle_history(struct http_request *req);
void handle_inboxes(struct http_request *req);
void handle_account(struct http_request *req);
void handle_only_post(struct http_request *req);
void handle_pause(struct http_request *req);
void handle_pause_post(struct http_request *req);
void handle_jobs(struct http_request *req);
void handle_job_make_post(struct http_request *req);
void handle_job(struct http_request *req);
void handle_job_progress(struct http_request *req);
void handle_job_confirm_post(struct http_request *req);
void handle_job_stop_post(struct http_request *req);
void handle_job_undo_post(struct http_request *req);
void handle_message(struct http_request *req);
void handle_message_open_post(struct http_request *req);
void handle_frame(struct http_request *req);
void handle_download(struct http_request *req);
void handle_file(struct http_request *req);
void handle_decide_post(struct http_request *req);
void handle_undo_post(struct http_request *req);
void handle_cancel_post(struct http_request *req);
void handle_settle_post(struct http_request *req);
void handle_look_post(struct http_request *req);
void handle_comment_post(struct http_request *req);
void handle_notice(struct http_request *req);

void handle_tenants(struct http_request *req);
void handle_tenant_new_post(struct http_request *req);
void handle_tenant_set_post(struct http_request *req);
void handle_tenant_domain_post(struct http_request *req);
void handle_operators(struct http_request *req);
void handle_operator_new_post(struct http_request *req);
void handle_operator_disable_post(struct http_request *req);
void handle_scope_post(struct http_request *req);
void handle_scope_end_post(struct http_request *req);
void handle_session_end_post(struct http_request *req);
void handle_password_post(struct http_request *req);
void handle_audit(struct http_request *req);
void handle_health(struct http_request *req);
void handle_box(struct http_request *req);
void handle_box_mode_post(struct http_request *req);
void handle_box_pause_post(struct http_request *req);
void handle_box_suspend_post(struct http_request *req);
void handle_box_allow_post(struct http_request *req);
void handle_box_allow_end_post(struct http_request *req);
void handle_box_block_post(struct http_request *req);
void handle_box_block_end_post(struct http_request *req);
void handle_box_limits_post(struct http_request *req);
void handle_box_own_post(struct http_request *req);
void handle_box_key_end_post(struct http_request *req);
void handle_box_reset_post(struct http_request *req);
void handle_box_new(struct http_request *req);
void handle_box_new_post(struct http_request *req);

#endif
