/* Splits a generated answer, while it streams, into thoughts, content and tool calls.
 *
 * The result does not depend on how the text was cut into pieces. Bytes that were given out are
 * never taken back: the beginning of a mark, white space at the end, and an unfinished call are
 * held until they are decided.
 *
 * A row of split_forms.h says how a model family writes. Thoughts are the text between the form's
 * two marks, without white space at both ends. A call among thoughts is part of the thoughts,
 * unless their end mark is missing and nothing but calls follows until the end of the text. If the
 * request has tools, a well-formed call of the form is a call. All other text is content, byte for
 * byte. */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_H
#define MOEFS_ENGINE_ANSWER_SPLIT_H

#include "engine/answer/split_forms.h"

enum split_thinking {
	THINKING_AUTO, /* thoughts, if the text begins with the form's mark */
	THINKING_OPEN, /* the prompt ends with the mark: the text begins inside the thoughts */
	THINKING_OFF,  /* thoughts stay in the content */
};

struct split;
/* `tools`: a list in OpenAI's format, borrowed; NULL or empty: no text is a call. The form is that
 * of Hermes and Qwen until split_set_form. Returns NULL if out of memory. */
struct split *split_new(const struct json *tools, enum split_thinking thinking);
/* Sets the form that split_form_of found; call it before the first split_feed. */
void split_set_form(struct split *s, const struct split_form *form);
void split_free(struct split *s); /* NULL is fine */
/* Adds bytes[n], whole characters. -ENOMEM. */
int split_feed(struct split *s, const char *bytes, size_t n, struct err *e);
/* The model ended the text itself. Half a call at the end is content, so that a reader can see why
 * nothing was called. */
int split_finish(struct split *s, struct err *e);
/* The text was cut off by a limit or a stop. The beginning of a mark or of a call at the end is
 * left out; a call with complete arguments is taken. */
int split_cut(struct split *s, struct err *e);

/* The result so far: each part only grows. Borrowed until the next call on this split. */
struct split_result {
	const char *thoughts, *content;
	size_t thoughts_n, content_n;
	const struct calls *calls;
	bool thinking; /* more thoughts may follow */
	/* White space after the content: dropped if a call follows, else part of the content. */
	const char *space;
	size_t space_n;
};
struct split_result split_result(const struct split *s);

/* What the text so far ends in: content, a mark, or text that is not decided; thoughts; a call that
 * has begun. */
enum split_place { SPLIT_ELSEWHERE, SPLIT_IN_THOUGHTS, SPLIT_IN_CALL };
enum split_place split_place(const struct split *s);

/* THINKING_OPEN if the rendered prompt, without white space at its end, ends with the mark that
 * begins a form's thoughts; else THINKING_AUTO. */
enum split_thinking split_thinking_of(const char *rendered, size_t n);

#endif
