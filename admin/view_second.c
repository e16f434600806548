/* SPDX-License-Identifier: ISC */
/*
 * view_second.c - second factors: signing in with one, having one
 */
#include "admin/view_second.h"

#include <qrencode.h>
#include <string.h>

#include "admin/html.h"
#include "base/buf.h"

#define QUIET 4 /* modules of white around a QR code (ISO 18004) */

static void
put_start(struct buf *out, const struct view_second *s)
{
	HTML(out,
	    LIT("<form method=\"post\" action=\"/login/second\" "
		"class=\"stack\"><input type=\"hidden\" name=\"csrf\" "
		"value=\""),
	    ATTR(s->csrf),
	    LIT("\"><input type=\"hidden\" name=\"return_to\" value=\""),
	    ATTR(s->return_to), LIT("\">"));
}

static void
put_totp(struct buf *out, const struct view_second *s)
{
	put_start(out, s);
	HTML(out,
	    LIT("<label>Code of your authenticator app<input name=\"code\" "
		"class=\"once\" required maxlength=\"32\" "
		"inputmode=\"numeric\" autocomplete=\"one-time-code\" "
		"spellcheck=\"false\"></label><button class=\"primary\">Go on"
		"</button></form>"));
}

static void
put_key(struct buf *out, const struct view_second *s)
{
	put_start(out, s);
	HTML(out,
	    LIT("<input type=\"hidden\" name=\"assertion\"><button "
		"type=\"button\" class=\"passkey"),
	    LIT_IF(!s->totp, " primary"),
	    LIT("\" data-passkey=\"i\" hidden>Use a passkey</button>"
		"<noscript><p class=\"muted\">Passkeys need scripts.</p>"
		"</noscript></form>"));
}

static void
put_recovery(struct buf *out, const struct view_second *s)
{
	HTML(out, LIT("<details class=\"change\"><summary>Use a recovery "
		      "code…</summary>"));
	put_start(out, s);
	HTML(out,
	    LIT("<label>Recovery code<input name=\"code\" class=\"once\" "
		"required maxlength=\"32\" autocomplete=\"off\" "
		"autocapitalize=\"none\" spellcheck=\"false\"><small "
		"class=\"muted\">Each works once. "),
	    NUM(s->recovery),
	    LIT(" are left.</small></label><button>Go on</button></form>"
		"</details>"));
}

void
view_second(struct buf *out, const struct view_second *s)
{
	const struct view_shell shell = { .title = "Second factor" };

	view_shell_start(out, &shell);
	HTML(out,
	    LIT("<section class=\"card\"><h1>Second factor</h1>"
		"<p class=\"muted\">Signing in as <b><bdi>"),
	    TEXT(s->name), LIT("</bdi></b>.</p>"));
	view_part_error(out, s->error);
	if (s->totp)
		put_totp(out, s);
	if (s->passkeys)
		put_key(out, s);
	put_recovery(out, s);
	HTML(out, LIT("<p class=\"muted small\"><a href=\"/login\">Sign in as "
		      "somebody else</a>. Who has lost everything is helped "
		      "by another administrator, under Operators.</p>"
		      "</section>"));
	view_shell_end(out, &shell);
}

/* One path of unit squares; nothing of the text is markup. */
static void
put_qr(struct buf *out, const char *text)
{
	QRcode *qr = QRcode_encodeString8bit(text, 0, QR_ECLEVEL_M);
	int x, y, size;

	if (qr == NULL)
		return;
	size = qr->width + 2 * QUIET;
	HTML(out,
	    LIT("<svg class=\"qr\" role=\"img\" aria-label=\"QR code of "
		"the secret\" viewBox=\"0 0 "),
	    NUM(size), LIT(" "), NUM(size),
	    LIT("\"><path fill=\"#fff\" d=\"M0 0h"), NUM(size), LIT("v"),
	    NUM(size), LIT("h-"), NUM(size),
	    LIT("z\"/><path fill=\"#000\" d=\""));
	for (y = 0; y < qr->width; y++)
		for (x = 0; x < qr->width; x++)
			if (qr->data[y * qr->width + x] & 1)
				buf_printf(out, "M%d %dh1v1h-1z", x + QUIET,
				    y + QUIET);
	HTML(out, LIT("\"/></svg>"));
	memset(qr->data, 0, (size_t)(qr->width * qr->width));
	QRcode_free(qr);
}

/* In fours, as it is typed. */
static void
put_secret(struct buf *out, const char *secret)
{
	size_t i, n = strlen(secret);

	HTML(out, LIT("<code class=\"secret\" id=\"secret\">"));
	for (i = 0; i < n; i += 4)
		HTML(out, LIT_IF(i > 0, " "),
		    TEXTN(secret + i, n - i < 4 ? n - i : 4));
	HTML(out, LIT("</code>"));
}

void
view_enrol(struct buf *out, const struct view_shell *shell,
    const struct view_enrol *enrol)
{
	view_shell_start(out, shell);
	HTML(out, LIT("<div class=\"head\"><h1>Authenticator app</h1></div>"
		      "<section class=\"panel enrol\">"));
	view_part_error(out, enrol->error);
	if (enrol->secret != NULL) {
		HTML(out, LIT("<p>Scan this with the app, or type the secret "
			      "into it. It is shown only now.</p>"));
		put_qr(out, enrol->link);
		HTML(out, LIT("<p>"));
		put_secret(out, enrol->secret);
		HTML(out, LIT("</p><p class=\"small\"><a href=\""),
		    ATTR(enrol->link),
		    LIT("\">Open in an app on this device"
			"</a></p>"));
	}
	HTML(out, LIT("<form method=\"post\" class=\"stack\" "
		      "action=\"/account/totp-ok\">"));
	view_part_csrf(out, shell);
	HTML(out,
	    LIT("<label>The code that the app shows<input name=\"confirm\" "
		"class=\"once\" required maxlength=\"32\" "
		"inputmode=\"numeric\" autocomplete=\"one-time-code\" "
		"spellcheck=\"false\"></label><button class=\"primary\">"
		"Confirm</button><p class=\"muted small\">Until then nothing "
		"changes. <a href=\"/account\">Leave it</a></p></form>"
		"</section>"));
	view_shell_end(out, shell);
}

void
view_codes(struct buf *out, const struct view_shell *shell, const char *codes)
{
	view_shell_start(out, shell);
	HTML(out, LIT("<div class=\"head\"><h1>Recovery codes</h1></div>"
		      "<section class=\"panel enrol\">"));
	if (codes[0] != '\0')
		HTML(out,
		    LIT("<p><b>Keep these now: they are shown only once.</b> "
			"Each lets you in one time when the app or the "
			"passkey is lost.</p><pre id=\"codes\">"),
		    LINES(codes), LIT("</pre>"));
	else
		HTML(out, LIT("<p>Done. Your recovery codes are those you "
			      "had.</p>"));
	HTML(out, LIT("<p><a class=\"button primary\" href=\"/account\">I have "
		      "them</a></p></section>"));
	view_shell_end(out, shell);
}

static void
put_factor(
    struct buf *out, const struct view_shell *shell, const struct factor_row *f)
{
	HTML(out, LIT("<li data-kind=\""), ATTR(f->kind),
	    LIT("\"><div><b><bdi>"), TEXT(f->label), LIT("</bdi></b> "),
	    LIT_IF(f->kind[0] == 'p', "<span class=\"chip\">passkey</span>"),
	    LIT("<p class=\"small muted\">since "));
	view_part_age(out, shell->now_us, f->created_us);
	HTML(out, LIT(", used "));
	view_part_age(out, shell->now_us, f->used_us);
	HTML(out, LIT_IF(f->used_us != 0, " ago"),
	    LIT("</p></div><details class=\"change\"><summary>Remove…"
		"</summary><form method=\"post\" class=\"stack\" "
		"action=\"/account/factor-end\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<input type=\"hidden\" name=\"id\" value=\""),
	    NUM(f->id), LIT("\">"));
	view_part_step_up(out, shell, true);
	HTML(out, LIT("<button class=\"danger\">Remove it</button></form>"
		      "</details></li>"));
}

static void
put_add(struct buf *out, const struct view_shell *shell)
{
	HTML(out, LIT("<details class=\"change\" id=\"add-totp\"><summary>"),
	    LIT_IF(shell->totp, "Another authenticator app…"),
	    LIT_IF(!shell->totp, "Add an authenticator app…"),
	    LIT("</summary><form method=\"post\" class=\"stack\" "
		"action=\"/account/totp\">"));
	view_part_csrf(out, shell);
	view_part_step_up(out, shell, true);
	HTML(out,
	    LIT_IF(shell->totp, "<p class=\"small muted\">It takes the "
				"place of the one you have.</p>"),
	    LIT("<button>Show the secret</button></form></details>"
		"<details class=\"change\" id=\"add-passkey\"><summary>Add a "
		"passkey…</summary><form method=\"post\" class=\"stack\" "
		"action=\"/account/passkey\">"));
	view_part_csrf(out, shell);
	HTML(out,
	    LIT("<input type=\"hidden\" name=\"attestation\"><label>Name it"
		"<input name=\"label\" required maxlength=\"60\" "
		"autocomplete=\"off\" value=\"Passkey\"></label>"));
	view_part_step_up(out, shell, true);
	HTML(out,
	    LIT("<button data-register hidden>Make it</button><noscript><p "
		"class=\"muted\">Passkeys need scripts.</p></noscript></form>"
		"</details>"));
}

static void
put_renew(struct buf *out, const struct view_shell *shell, int left)
{
	HTML(out, LIT("<p id=\"recovery\"><span class=\"chip"),
	    LIT_IF(left < 3, " warn"), LIT("\">"), NUM(left),
	    LIT("</span> recovery codes are left.</p><details "
		"class=\"change\"><summary>New recovery codes…</summary>"
		"<form method=\"post\" class=\"stack\" "
		"action=\"/account/recovery\">"));
	view_part_csrf(out, shell);
	view_part_step_up(out, shell, true);
	HTML(out, LIT("<button>Make ten new ones</button><p class=\"small "
		      "muted\">The old ones end.</p></form></details>"));
}

void
view_factors(struct buf *out, const struct view_shell *shell,
    const struct view_factors *view)
{
	bool some = shell->totp || shell->passkeys;
	size_t i;

	HTML(out, LIT("<section class=\"panel\" id=\"factors\"><h2>Second "
		      "factor</h2>"));
	if (!some)
		HTML(out,
		    LIT("<p class=\"warning\">You have none: your password "
			"alone signs you in and confirms what loosens or "
			"destroys.</p>"));
	HTML(out, LIT("<ul class=\"entries\">"));
	for (i = 0; i < view->rows->n; i++)
		put_factor(out, shell, &view->rows->row[i]);
	HTML(out, LIT("</ul>"));
	put_add(out, shell);
	if (some)
		put_renew(out, shell, view->state->recovery);
	HTML(out, LIT("</section>"));
}
