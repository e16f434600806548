/* SPDX-License-Identifier: ISC */
/*
 * route.c - every address of the pages, and who may call it
 *
 * What is not listed does not exist. A reader's role is any role; what it
 * reaches within that is the database's decision, row by row.
 */
#include <stdlib.h>
#include <string.h>

#include "admin/admin.h"
#include "admin/assets.h"
#include "admin/handlers.h"
#include "http/reply.h"
#include "http/request.h"
#include "http/server.h"

#define FORM 16384

const struct http_route admin_routes[] = {
	{ "GET", "/", "root", ADMIN_ANYBODY, 0, false, handle_root },
	{ "GET", "/assets/{name}", "asset", ADMIN_ANYBODY, 0, false,
	    handle_asset },
	{ "GET", "/login", "login", ADMIN_ANYBODY, 0, false, handle_login },
	{ "POST", "/login", "login", ADMIN_ANYBODY, FORM, false,
	    handle_login_post },
	{ "GET", "/login/second", "login.second", ADMIN_ANYBODY, 0, false,
	    handle_second },
	{ "POST", "/login/second", "login.second", ADMIN_ANYBODY, FORM, false,
	    handle_second_post },
	{ "POST", "/login/challenge", "login.challenge", ADMIN_ANYBODY, FORM,
	    false, handle_second_challenge_post },
	{ "GET", "/setup", "setup", ADMIN_ANYBODY, 0, false, handle_setup },
	{ "POST", "/setup", "setup", ADMIN_ANYBODY, FORM, false,
	    handle_setup_post },
	{ "POST", "/logout", "logout", ADMIN_READER, FORM, false,
	    handle_logout_post },
	{ "GET", "/q", "queue", ADMIN_READER, 0, false, handle_queue },
	{ "GET", "/counts", "counts", ADMIN_READER | ADMIN_BY_ITSELF, 0, false,
	    handle_counts },
	{ "GET", "/events", "events", ADMIN_READER | ADMIN_BY_ITSELF, 0, false,
	    handle_events },
	{ "GET", "/history", "history", ADMIN_READER, 0, false,
	    handle_history },
	{ "GET", "/inboxes", "inboxes", ADMIN_READER, 0, false,
	    handle_inboxes },
	{ "GET", "/inboxes/new", "inbox.new", ADMIN_ADMIN, 0, false,
	    handle_box_new },
	{ "POST", "/inboxes/new", "inbox.new", ADMIN_ADMIN, FORM, false,
	    handle_box_new_post },
	{ "GET", "/inbox/{box}", "inbox", ADMIN_READER, 0, false, handle_box },
	{ "POST", "/inbox/{box}/mode", "inbox.mode", ADMIN_PAUSER, FORM, false,
	    handle_box_mode_post },
	{ "POST", "/inbox/{box}/pause", "inbox.pause", ADMIN_PAUSER, FORM,
	    false, handle_box_pause_post },
	{ "POST", "/inbox/{box}/suspend", "inbox.suspend", ADMIN_LOOSENER, FORM,
	    false, handle_box_suspend_post },
	{ "POST", "/inbox/{box}/allow", "inbox.allow", ADMIN_LOOSENER, FORM,
	    false, handle_box_allow_post },
	{ "POST", "/inbox/{box}/allow-end", "inbox.allow_end", ADMIN_PAUSER,
	    FORM, false, handle_box_allow_end_post },
	{ "POST", "/inbox/{box}/block", "inbox.block", ADMIN_PAUSER, FORM,
	    false, handle_box_block_post },
	{ "POST", "/inbox/{box}/block-end", "inbox.block_end", ADMIN_LOOSENER,
	    FORM, false, handle_box_block_end_post },
	{ "POST", "/inbox/{box}/limits", "inbox.limits", ADMIN_ADMIN, FORM,
	    false, handle_box_limits_post },
	{ "POST", "/inbox/{box}/own", "inbox.own", ADMIN_ADMIN, FORM, false,
	    handle_box_own_post },
	{ "POST", "/inbox/{box}/key-end", "inbox.key_end", ADMIN_LOOSENER, FORM,
	    false, handle_box_key_end_post },
	{ "POST", "/inbox/{box}/reset", "inbox.reset", ADMIN_ADMIN, FORM, false,
	    handle_box_reset_post },
	{ "GET", "/tenants", "tenants", ADMIN_CONFIG, 0, false,
	    handle_tenants },
	{ "POST", "/tenants", "tenant.new", ADMIN_ADMIN, FORM, false,
	    handle_tenant_new_post },
	{ "POST", "/tenants/{tenant}", "tenant.set", ADMIN_ADMIN, FORM, false,
	    handle_tenant_set_post },
	{ "POST", "/tenants/{tenant}/domain", "tenant.domain", ADMIN_ADMIN,
	    FORM, false, handle_tenant_domain_post },
	{ "GET", "/operators", "operators", ADMIN_CONFIG, 0, false,
	    handle_operators },
	{ "POST", "/operators", "operator.new", ADMIN_ADMIN, FORM, false,
	    handle_operator_new_post },
	{ "POST", "/operators/disable", "operator.disable", ADMIN_ADMIN, FORM,
	    false, handle_operator_disable_post },
	{ "POST", "/operators/scope", "operator.scope", ADMIN_ADMIN, FORM,
	    false, handle_scope_post },
	{ "POST", "/operators/scope-end", "operator.scope_end", ADMIN_ADMIN,
	    FORM, false, handle_scope_end_post },
	{ "POST", "/account/session-end", "account.session_end", ADMIN_READER,
	    FORM, false, handle_session_end_post },
	{ "POST", "/account/password", "account.password", ADMIN_READER, FORM,
	    false, handle_password_post },
	{ "POST", "/account/challenge", "account.challenge", ADMIN_READER, FORM,
	    false, handle_challenge_post },
	{ "POST", "/account/totp", "account.totp", ADMIN_READER, FORM, false,
	    handle_totp_post },
	{ "POST", "/account/totp-ok", "account.totp_ok", ADMIN_READER, FORM,
	    false, handle_totp_ok_post },
	{ "POST", "/account/recovery", "account.recovery", ADMIN_READER, FORM,
	    false, handle_recovery_post },
	{ "POST", "/account/passkey", "account.passkey", ADMIN_READER, FORM,
	    false, handle_passkey_post },
	{ "POST", "/account/factor-end", "account.factor_end", ADMIN_READER,
	    FORM, false, handle_factor_end_post },
	{ "POST", "/operators/factor-reset", "operator.factor_reset",
	    ADMIN_ADMIN, FORM, false, handle_factor_reset_post },
	{ "GET", "/audit", "audit", ADMIN_WATCHER, 0, false, handle_audit },
	{ "GET", "/health", "health", ADMIN_READER, 0, false, handle_health },
	{ "GET", "/account", "account", ADMIN_READER, 0, false,
	    handle_account },
	{ "POST", "/only", "only", ADMIN_READER, FORM, false,
	    handle_only_post },
	{ "GET", "/pause", "pause", ADMIN_READER, 0, false, handle_pause },
	{ "POST", "/pause", "pause", ADMIN_PAUSER, FORM, false,
	    handle_pause_post },
	{ "GET", "/jobs", "jobs", ADMIN_REVIEWER, 0, false, handle_jobs },
	{ "POST", "/jobs", "job.make", ADMIN_REVIEWER, FORM, false,
	    handle_job_make_post },
	{ "GET", "/jobs/{job}", "job", ADMIN_REVIEWER, 0, false, handle_job },
	{ "GET", "/jobs/{job}/progress", "job.progress",
	    ADMIN_REVIEWER | ADMIN_BY_ITSELF, 0, false, handle_job_progress },
	{ "POST", "/jobs/{job}/undo", "job.undo", ADMIN_REVIEWER, FORM, false,
	    handle_job_undo_post },
	{ "POST", "/jobs/{job}/confirm", "job.confirm", ADMIN_REVIEWER, FORM,
	    false, handle_job_confirm_post },
	{ "POST", "/jobs/{job}/stop", "job.stop", ADMIN_REVIEWER, FORM, false,
	    handle_job_stop_post },
	{ "GET", "/m/{id}", "message", ADMIN_READER, 0, false, handle_message },
	{ "POST", "/m/{id}/open", "message.open", ADMIN_READER, FORM, false,
	    handle_message_open_post },
	{ "GET", "/m/{id}/html", "message.html", ADMIN_READER, 0, false,
	    handle_frame },
	{ "GET", "/m/{id}/download", "message.download", ADMIN_READER, 0, false,
	    handle_download },
	{ "GET", "/m/{id}/file/{part}", "message.file", ADMIN_READER, 0, false,
	    handle_file },
	{ "POST", "/m/{id}/decide", "decide", ADMIN_REVIEWER, FORM, false,
	    handle_decide_post },
	{ "POST", "/m/{id}/undo", "undo", ADMIN_REVIEWER, FORM, false,
	    handle_undo_post },
	{ "POST", "/m/{id}/cancel", "cancel", ADMIN_REVIEWER, FORM, false,
	    handle_cancel_post },
	{ "POST", "/m/{id}/look", "look", ADMIN_REVIEWER | ADMIN_BY_ITSELF,
	    FORM, false, handle_look_post },
	{ "POST", "/m/{id}/comment", "comment", ADMIN_PAUSER, FORM, false,
	    handle_comment_post },
	{ "POST", "/m/{id}/settle", "settle", ADMIN_REVIEWER, FORM, false,
	    handle_settle_post },
	{ "GET", "/r/{id}", "notice", ADMIN_READER, 0, false, handle_notice },
};

const size_t admin_routes_n = sizeof(admin_routes) / sizeof(admin_routes[0]);

const char *const admin_headers[] = {
	"Content-Security-Policy: default-src 'none'; script-src 'self'; "
	"style-src 'self'; img-src 'self' data:; connect-src 'self'; "
	"frame-src 'self'; form-action 'self'; base-uri 'none'; "
	"frame-ancestors 'none'; "
	"require-trusted-types-for 'script'; trusted-types 'none'",
	"Cross-Origin-Opener-Policy: same-origin",
	"Cross-Origin-Resource-Policy: same-origin",
	"Referrer-Policy: same-origin",
	"X-Frame-Options: DENY",
	"X-DNS-Prefetch-Control: off",
	"Permissions-Policy: accelerometer=(), camera=(), clipboard-read=(), "
	"display-capture=(), geolocation=(), gyroscope=(), microphone=(), "
	"midi=(), payment=(), usb=()",
	"Strict-Transport-Security: max-age=31536000",
	NULL,
};

void
handle_root(struct http_request *req)
{
	http_reply_redirect(req, "/q");
}

/* A mailed link lands here: it shows the message and decides nothing. */
void
handle_notice(struct http_request *req)
{
	handle_message(req);
}

static bool
takes_gzip(struct http_request *req)
{
	const char *accept = http_request_header(req, "Accept-Encoding");

	return accept != NULL && strstr(accept, "gzip") != NULL;
}

void
handle_asset(struct http_request *req)
{
	const char *name = http_request_param(req, "name");
	size_t i;

	for (i = 0; i < admin_assets_n; i++) {
		const struct admin_asset *a = &admin_assets[i];

		if (strcmp(a->name, name) != 0)
			continue;
		http_reply_header(req, "Cache-Control",
		    "public, max-age=31536000, immutable");
		http_reply_header(req, "Vary", "Accept-Encoding");
		if (takes_gzip(req)) {
			http_reply_header(req, "Content-Encoding", "gzip");
			http_reply_static(req, 200, a->type, a->gz, a->gz_n);
		} else {
			http_reply_static(req, 200, a->type, a->p, a->n);
		}
		return;
	}
	http_reply_empty(req, 404);
}

void
admin_recent_add(struct admin *admin, const struct admin_recent *r)
{
	admin->recent[admin->recent_at++ % ADMIN_RECENT] = *r;
}

const struct admin_recent *
admin_recent_find(
    const struct admin *admin, int64_t operator_id, int64_t now_us)
{
	const struct admin_recent *found = NULL;
	size_t i;

	for (i = 0; i < ADMIN_RECENT; i++) {
		const struct admin_recent *r = &admin->recent[i];

		if (r->operator_id == operator_id && r->until_us > now_us &&
		    (found == NULL || r->until_us > found->until_us))
			found = r;
	}
	return found;
}

void
admin_recent_drop(struct admin *admin, const struct uuid *message)
{
	size_t i;

	for (i = 0; i < ADMIN_RECENT; i++)
		if (uuid_eq(&admin->recent[i].message, message))
			admin->recent[i].until_us = 0;
}
