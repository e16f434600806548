/* SPDX-License-Identifier: ISC */
#include "admin/foreign.h"

#include "base/buf.h"

/* ---- noting down */

static struct foreign_text *
add(struct foreign *f, const struct helper_request *r)
{
	struct foreign_text *t;

	if (f->count == FOREIGN_MAX)
		return NULL;
	t = arena_get(f->mem, sizeof(*t));
	t->of = f;
	t->request = *r;
	f->text[f->count++] = t;
	return t;
}

static struct foreign_text *
find_word(const struct foreign *f, struct str run)
{
	size_t i;

	for (i = 0; i < f->count; i++)
		if (f->text[i]->request.kind == HELPER_WORD &&
		    str_eq(f->text[i]->request.bytes, run))
			return f->text[i];
	return NULL;
}

static struct str
keep(struct foreign *f, struct str s)
{
	return (struct str){ arena_str(f->mem, s), s.n };
}

bool
foreign_word(void *arg, struct str charset, struct str run, struct buf *text)
{
	struct foreign *f = arg;
	struct foreign_text *t = find_word(f, run);

	if (t == NULL) {
		if (f->count < FOREIGN_MAX && run.n <= HELPER_INPUT_MAX)
			(void)add(
			    f, &(struct helper_request){ .kind = HELPER_WORD,
				   .charset = keep(f, charset),
				   .bytes = keep(f, run) });
		else
			f->is_full = true;
		return false;
	}
	if (!t->is_answered || t->outcome != HELPER_TEXT)
		return false;
	buf_add_str(text, t->text);
	return true;
}

struct foreign_text *
foreign_leaf(struct foreign *f, const struct helper_request *r)
{
	return add(f, r);
}

/* ---- asking */

static void
on_answer(void *arg, const struct helper_answer *a)
{
	struct foreign_text *t = arg;
	struct foreign *f = t->of;

	t->is_answered = true;
	t->outcome = a->outcome;
	t->text = keep(f, a->text);
	t->replaced = a->replaced;
	t->cut = a->cut;
	if (--f->waiting == 0)
		f->done(f->arg);
}

bool
foreign_ask(struct foreign *f, struct helper_pool *helpers,
    void (*done)(void *arg), void *arg)
{
	size_t i;

	if (helpers == NULL)
		return false;
	f->done = done;
	f->arg = arg;
	for (i = 0; i < f->count; i++)
		if (!f->text[i]->is_answered) {
			f->waiting++;
			helper_decode(helpers, &f->text[i]->request, on_answer,
			    f->text[i]);
		}
	return f->waiting > 0;
}

/* ---- what to say */

bool
foreign_words_left(const struct foreign *f)
{
	size_t i;

	for (i = 0; i < f->count; i++)
		if (f->text[i]->request.kind == HELPER_WORD &&
		    (!f->text[i]->is_answered ||
			f->text[i]->outcome != HELPER_TEXT))
			return true;
	return f->is_full;
}

/* The end of a sentence that begins with the charset; NULL: all is well. */
static const char *
what_went_wrong(const struct foreign_text *t)
{
	if (!t->is_answered)
		return "which was not decoded";
	switch (t->outcome) {
	case HELPER_TEXT:
		return NULL;
	case HELPER_UNKNOWN:
		return "which is not known here";
	case HELPER_FAILED:
		return "and decoding it failed";
	case HELPER_BUSY:
		return "and too much is being decoded right now (load the "
		       "page again)";
	case HELPER_ABSENT:
		return "and the decoder of this server does not start";
	}
	return NULL;
}

const char *
foreign_notice(const struct foreign_text *t, struct arena *mem)
{
	const char *what = what_went_wrong(t), *said;
	struct buf line = { 0 };

	if (what == NULL)
		return t->replaced ? "Some bytes are not of this part's "
				     "character set; they are marked."
				   : NULL;
	buf_puts(&line, "This part is in the character set ");
	buf_add_str(&line, t->request.charset);
	buf_printf(&line, ", %s; its bytes are shown as they are.", what);
	said = arena_str(mem, buf_str(&line));
	buf_free(&line);
	return said;
}
