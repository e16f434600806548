/* SPDX-License-Identifier: ISC */
/*
 * view_jobs.c - decisions over many messages: what, how far, and what not
 */
#include "admin/view_jobs.h"

#include <string.h>

#include "admin/html.h"
#include "admin/words.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/uuid.h"

const char *
view_job_state(const struct job *job, bool runs)
{
	switch (job->state) {
	case JOB_MADE:
		return "not confirmed";
	case JOB_RUNNING:
		return runs ? "running" : "stands";
	case JOB_PAUSED:
		return "paused";
	case JOB_CANCELED:
		return "ended early";
	case JOB_DONE:
		return "finished";
	}
	return "";
}

/* Why an item was not done. */
static const char *
outcome_words(const char *outcome)
{
	static const struct {
		const char *outcome, *text;
	} words[] = {
		{ "", "waits" },
		{ "rejected", "rejected" },
		{ "approved", "approved" },
		{ "taken_back", "taken back: it waits again" },
		{ "left_already", "had left before it was taken back" },
		{ "not_found", "not in your reach any more" },
		{ "risky", "its risk is not low: decide it alone" },
		{ "state_conflict", "was decided or changed meanwhile" },
		{ "digest_mismatch", "its fingerprint is another one" },
		{ "missing_permission", "not yours to decide" },
		{ "second_approval_needed", "needs two people" },
		{ "message_rejected", "every recipient is blocked" },
		{ "key_not_opened", "its key does not open here" },
	};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i].outcome, outcome) == 0)
			return words[i].text;
	return "could not be done";
}

static void
put_path(struct buf *out, const struct job *job)
{
	char id[UUID_ID_MAX];

	uuid_to_id(id, "job_", &job->id);
	HTML(out, LIT("/jobs/"), PATH(id));
}

static void
put_what(struct buf *out, const struct job *job)
{
	HTML(out, LIT_IF(job->verdict == 'r', "Reject "),
	    LIT_IF(job->verdict == 'a', "Approve "), NUM(job->items),
	    LIT_IF(job->items == 1, " message"),
	    LIT_IF(job->items != 1, " messages"));
}

static void
put_state(struct buf *out, const struct job *job, bool runs)
{
	const char *state = view_job_state(job, runs);

	HTML(out, LIT("<span class=\"chip"),
	    LIT_IF(job->state == JOB_RUNNING && !runs, " warn"),
	    LIT("\" id=\"job-state\">"), TEXT(state), LIT("</span>"));
}

void
view_jobs(struct buf *out, const struct view_shell *shell,
    const struct jobs *jobs, const bool *runs)
{
	size_t i;

	view_shell_start(out, shell);
	HTML(out,
	    LIT("<div class=\"head\"><div><h1>Jobs</h1><p class=\"sub\">"
		"<span>Decisions over many messages that you began.</span></p>"
		"</div></div>"));
	if (jobs->n == 0)
		HTML(out,
		    LIT("<div class=\"empty\"><h2>None yet</h2><p>Tick "
			"messages in the <a href=\"/q\">queue</a>, or choose "
			"all that fit a search.</p></div>"));
	HTML(out, LIT("<ul class=\"switches\">\n"));
	for (i = 0; i < jobs->n; i++) {
		const struct job *j = &jobs->row[i];

		HTML(out, LIT("<li class=\"switch\"><div><a href=\""));
		put_path(out, j);
		HTML(out, LIT("\"><b>"));
		put_what(out, j);
		HTML(out, LIT("</b></a> <span class=\"chip\">"),
		    TEXT(view_job_state(j, runs[i])),
		    LIT("</span> <span class=\"muted\">"), TEXT(j->about),
		    LIT(", "));
		view_part_age(out, j->now_us, j->made_us);
		HTML(out, LIT(" ago, "), NUM(j->done), LIT(" done"));
		if (j->failed > 0)
			HTML(out, LIT(", "), NUM(j->failed), LIT(" not"));
		HTML(out, LIT("</span></div></li>\n"));
	}
	HTML(out, LIT("</ul>"));
	view_shell_end(out, shell);
}

static void
put_progress(struct buf *out, const struct view_job *view)
{
	const struct job *j = view->job;

	HTML(out, LIT("<section class=\"card\" id=\"job\""),
	    LIT_IF(j->state == JOB_RUNNING, " data-runs=\"1\""),
	    LIT(" data-at=\""));
	put_path(out, j);
	HTML(out, LIT("/progress\">"));
	if (j->state == JOB_MADE)
		return;
	HTML(
	    out, LIT("<p><b id=\"job-done\">"), NUM(j->done), LIT("</b> done"));
	HTML(out, LIT(", <b id=\"job-failed\">"), NUM(j->failed),
	    LIT("</b> not done, of "), NUM(j->items), LIT(".</p>"),
	    LIT("<progress id=\"job-bar\" max=\""),
	    NUM(j->items > 0 ? j->items : 1), LIT("\" value=\""),
	    NUM(j->done + j->failed),
	    LIT("\" aria-label=\"Progress\">"
		"</progress>"));
	if (j->state == JOB_RUNNING && !view->runs)
		HTML(out,
		    LIT("<p class=\"refusal\">It stands: it runs only while "
			"the session that confirmed it lives. Confirm it again "
			"to go on.</p>"));
	if (j->state == JOB_RUNNING && view->runs)
		HTML(out,
		    LIT("<p class=\"muted small\"><a href=\"\">Load "
			"again</a> to see how far it is. It runs while you "
			"stay signed in; leave the page if you like.</p>"));
}

/* Approvals can be taken back until they leave; all of a job at once. */
static void
put_undo(struct buf *out, const struct view_shell *shell, const struct job *j)
{
	if (j->verdict != 'a' || j->done == 0)
		return;
	if (j->undo_left == 0) {
		HTML(out, LIT("<p><b>"), NUM(j->undone),
		    LIT("</b> taken back, waiting in the queue again; <b>"),
		    NUM(j->done - j->undone), LIT("</b> had left.</p>"));
		return;
	}
	HTML(out, LIT("<form method=\"post\" class=\"inline\" action=\""));
	put_path(out, j);
	HTML(out, LIT("/undo\">"));
	view_part_csrf(out, shell);
	HTML(out,
	    LIT("<button class=\"danger\" id=\"job-undo\">Take back all that "
		"has not left <kbd>u</kbd></button></form><p class=\"muted "
		"small\">Each message leaves a few seconds after its approval."
		"</p>"));
}

static void
put_stop(struct buf *out, const struct view_shell *shell, const struct job *job,
    bool pause)
{
	HTML(out, LIT("<form method=\"post\" class=\"inline\" action=\""));
	put_path(out, job);
	HTML(out, LIT("/stop\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<input type=\"hidden\" name=\"to\" value=\""),
	    LIT_IF(pause, "pause"), LIT_IF(!pause, "cancel"), LIT("\"><button"),
	    LIT_IF(!pause, " class=\"quiet\""), LIT(">"),
	    LIT_IF(pause, "Pause"),
	    LIT_IF(!pause && job->state != JOB_MADE, "Stop for good"),
	    LIT_IF(!pause && job->state == JOB_MADE, "Leave it"),
	    LIT("</button></form>"));
}

static void
put_confirm(struct buf *out, const struct view_shell *shell,
    const struct view_job *view)
{
	const struct job *j = view->job;
	char hash[65];

	hex_encode(hash, j->items_sha256, sizeof(j->items_sha256));
	HTML(out, LIT("<form method=\"post\" class=\"stack\" "
		      "id=\"confirm-form\" action=\""));
	put_path(out, j);
	HTML(out, LIT("/confirm\">"));
	view_part_csrf(out, shell);
	HTML(out, LIT("<input type=\"hidden\" name=\"items\" value=\""),
	    ATTR(hash), LIT("\">"));
	if (j->state == JOB_MADE && j->verdict == 'r') {
		view_part_categories(out, NULL);
		HTML(out,
		    LIT("<label>Note to the agents<textarea name=\"note\" "
			"rows=\"3\" maxlength=\"1000\"></textarea></label>"));
		view_part_hints(out);
	}
	HTML(out, LIT("<button id=\"confirm-button\" class=\""),
	    LIT_IF(j->verdict == 'r', "danger"),
	    LIT_IF(j->verdict == 'a', "primary"), LIT("\">"));
	if (j->state == JOB_MADE)
		put_what(out, j);
	else
		HTML(out, LIT("Go on"));
	HTML(out, LIT("</button>"));
	if (j->verdict == 'r')
		HTML(out,
		    LIT("<p class=\"muted small\">A rejection is final. What "
			"changes before its turn comes is left alone.</p>"));
	HTML(out, LIT("</form>"));
}

static void
put_actions(struct buf *out, const struct view_shell *shell,
    const struct view_job *view)
{
	const struct job *j = view->job;
	bool runs = j->state == JOB_RUNNING && view->runs;

	if (j->state == JOB_CANCELED || j->state == JOB_DONE)
		return;
	if (j->items == 0) {
		HTML(out, LIT("<p>There is nothing to do.</p>"));
		return;
	}
	if (!runs)
		put_confirm(out, shell, view);
	HTML(out, LIT("<div class=\"pages\">"));
	if (runs)
		put_stop(out, shell, j, true);
	put_stop(out, shell, j, false);
	HTML(out, LIT("</div>"));
}

static void
put_item(struct buf *out, const struct job_item *item)
{
	char id[UUID_ID_MAX], to[321];
	size_t n = strcspn(item->rcpts, "\n");

	uuid_to_id(id, "msg_", &item->message);
	n = n < sizeof(to) - 1 ? n : sizeof(to) - 1;
	memcpy(to, item->rcpts, n);
	to[n] = '\0';
	HTML(out, LIT("<tr><th scope=\"row\"><a href=\"/m/"), PATH(id),
	    LIT("\"><bdi>"));
	if (item->subject == NULL || item->subject[0] == '\0')
		HTML(out, LIT("<i class=\"none\">No subject</i>"));
	else
		HTML(out, TEXT(item->subject));
	HTML(out, LIT("</bdi></a></th><td data-label=\"To\">"));
	view_part_address(out, to);
	HTML(out, LIT("</td><td data-label=\"From inbox\">"));
	view_part_address(out, item->address);
	HTML(out, LIT("</td><td data-label=\"Risk\">"));
	view_part_risk(out, words_risk(item->risk));
	HTML(out, LIT("</td><td data-label=\"Outcome\">"),
	    TEXT(outcome_words(item->outcome)), LIT("</td></tr>\n"));
}

static void
put_items(struct buf *out, const struct view_job *view)
{
	bool made = view->job->state == JOB_MADE;
	size_t i;

	HTML(out, LIT("<h2>"), LIT_IF(view->problems && made, "Left out of it"),
	    LIT_IF(view->problems && !made, "Not done"),
	    LIT_IF(!view->problems, "All of it"), LIT("</h2>"));
	if (view->items->n == 0)
		HTML(out, LIT("<p class=\"muted\">Nothing"),
		    LIT_IF(made && view->problems, " is left out"),
		    LIT(".</p>"));
	else
		HTML(out,
		    LIT("<div class=\"scroll\" tabindex=\"0\" "
			"role=\"region\" aria-label=\"Messages\"><table "
			"class=\"tall\"><thead><tr><th scope=\"col\">Subject"
			"</th><th scope=\"col\">To</th><th scope=\"col\">From "
			"inbox</th><th scope=\"col\">Risk</th><th "
			"scope=\"col\">Outcome</th></tr></thead><tbody>\n"));
	for (i = 0; i < view->items->n; i++)
		put_item(out, &view->items->row[i]);
	HTML(out, LIT_IF(view->items->n > 0, "</tbody></table></div>"),
	    LIT("<nav class=\"pages\" aria-label=\"More\"><a href=\""));
	put_path(out, view->job);
	HTML(out,
	    LIT_IF(view->problems, "?show=all\">Show every message of it"),
	    LIT_IF(!view->problems, "\">Show what was not done"), LIT("</a>"));
	if (view->next != NULL) {
		HTML(out, LIT("<a class=\"button\" rel=\"next\" href=\""));
		put_path(out, view->job);
		HTML(out, LIT("?after="), PATH(view->next),
		    LIT_IF(!view->problems, "&amp;show=all"),
		    LIT("\">Next page</a>"));
	}
	HTML(out, LIT("</nav>"));
}

void
view_job(struct buf *out, const struct view_shell *shell,
    const struct view_job *view)
{
	const struct job *j = view->job;

	view_shell_start(out, shell);
	HTML(out, LIT("<p class=\"crumb\"><a href=\"/q\" id=\"back\">Queue"
		      "</a> <a href=\"/jobs\">Your jobs</a></p>"
		      "<div class=\"head\"><div><h1>"));
	put_what(out, j);
	HTML(out, LIT("</h1><p class=\"sub\">"));
	put_state(out, j, view->runs);
	HTML(out, LIT("<span>"), TEXT(j->about), LIT("</span>"));
	if (j->refused > 0)
		HTML(out, LIT("<span>"), NUM(j->refused),
		    LIT(" left out, listed below</span>"));
	if (j->more)
		HTML(out, LIT("<span>more fit: a job takes 50,000</span>"));
	HTML(out, LIT("</p></div></div>"));
	put_progress(out, view);
	put_undo(out, shell, j);
	put_actions(out, shell, view);
	HTML(out, LIT("</section>"));
	put_items(out, view);
	view_shell_end(out, shell);
}
