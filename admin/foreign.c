/* SPDX-License-Identifier: ISC */
#include "admin/foreign.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "mail/header.h"

/* ---- words seen before */

#define CACHE_SLOTS 1024
#define CACHE_WORD_MAX 1024 /* longer ones are asked about again */

struct known {
	struct buf run, text;
};

struct foreign_cache {
	struct known slot[CACHE_SLOTS]; /* by hash; the newest stays */
};

struct foreign_cache *
foreign_cache_new(void)
{
	return xcalloc(1, sizeof(struct foreign_cache));
}

void
foreign_cache_free(struct foreign_cache *c)
{
	size_t i;

	if (c == NULL)
		return;
	for (i = 0; i < CACHE_SLOTS; i++) {
		buf_free(&c->slot[i].run);
		buf_free(&c->slot[i].text);
	}
	free(c);
}

/* FNV-1a: who makes two words collide has one of them asked about again. */
static struct known *
known_slot(struct foreign_cache *c, struct str run)
{
	uint32_t h = 2166136261u;
	size_t i;

	for (i = 0; i < run.n; i++)
		h = (h ^ (unsigned char)run.p[i]) * 16777619u;
	return &c->slot[h % CACHE_SLOTS];
}

static bool
know(const struct foreign *f, struct str run, struct buf *text)
{
	const struct known *k =
	    f->cache != NULL ? known_slot(f->cache, run) : NULL;

	if (k == NULL || !str_eq(buf_str(&k->run), run))
		return false;
	buf_add_str(text, buf_str(&k->text));
	return true;
}

static void
remember(const struct foreign *f, struct str run, struct str text)
{
	struct known *k;

	if (f->cache == NULL || run.n > CACHE_WORD_MAX ||
	    text.n > CACHE_WORD_MAX)
		return;
	k = known_slot(f->cache, run);
	buf_clear(&k->run);
	buf_clear(&k->text);
	buf_add_str(&k->run, run);
	buf_add_str(&k->text, text);
}

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
	struct foreign_text *t;

	if (know(f, run, text))
		return true;
	t = find_word(f, run);
	if (t == NULL) {
		if (f->count < FOREIGN_MAX && run.n <= HELPER_INPUT_MAX)
			(void)add(
			    f, &(struct helper_request){ .kind = HELPER_WORD,
				   .charset = keep(f, charset),
				   .bytes = keep(f, run),
				   .deadline_ms = f->deadline_ms });
		else
			f->is_full = true;
		return false;
	}
	if (!t->is_answered || t->outcome != HELPER_TEXT)
		return false;
	buf_add_str(text, t->text);
	return true;
}

const char *
foreign_subject(struct foreign *f, const char *subject)
{
	struct buf text = { 0 };
	const char *shown;

	if (subject == NULL || strstr(subject, "=?") == NULL)
		return subject;
	header_decode_with(&text, str_of(subject), NULL, foreign_word, f);
	shown = arena_str(f->mem, buf_str(&text));
	buf_free(&text);
	return shown;
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
	if (a->outcome == HELPER_TEXT)
		remember(f, t->request.bytes, a->text);
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
