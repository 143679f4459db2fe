/* What a model wrote, taken apart as it streams: thoughts, content, tool calls.
 *
 * The result does not depend on how the text was cut into pieces, and what was given out is never
 * taken back: the beginning of a mark, white space at the end, and a call are held until decided.
 *
 * How a family writes is a row of split_forms.h. Thoughts are what stands between the form's marks,
 * without white space at their ends; a call inside is thought, unless the text ends with nothing
 * but calls and the thoughts' end is missing. With tools on offer what is a well-formed call of the
 * form is one; what is none is content, character for character. */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_H
#define MOEFS_ENGINE_ANSWER_SPLIT_H

#include "engine/answer/split_forms.h"

enum split_thinking {
	THINKING_AUTO, /* where the text begins with its mark */
	THINKING_OPEN, /* the prompt has opened it */
	THINKING_OFF,  /* left in the content */
};

struct split;
/* `tools` (borrowed; a list as the OpenAI interface has it) may be NULL or empty: then there are no
 * calls. The form is that of Hermes and Qwen. NULL: out of memory. */
struct split *split_new(const struct json *tools, enum split_thinking thinking);
/* Before the first piece: the form of the answer, as split_form_of found it. */
void split_set_form(struct split *s, const struct split_form *form);
void split_free(struct split *s); /* NULL is fine */
/* Takes more of the text: whole characters. -ENOMEM. */
int split_feed(struct split *s, const char *bytes, size_t n, struct err *e);
/* The text is over: the model has ended it. Half a call at its end is content, since the model meant
 * to say no more than that, and its reader can see why nothing was called. */
int split_finish(struct split *s, struct err *e);
/* The text was cut off, by a limit or a stop: the beginning of a mark or a call at its end is left
 * out; calls whose arguments are complete are taken. */
int split_cut(struct split *s, struct err *e);

/* What came out so far; each only grows. Borrowed until the next call. */
struct split_result {
	const char *thoughts, *content;
	size_t thoughts_n, content_n;
	const struct calls *calls;
	bool thinking; /* thoughts may go on */
	/* White space behind the content: it is dropped if a call follows, else part of it. */
	const char *space;
	size_t space_n;
};
struct split_result split_result(const struct split *s);

/* How the thinking of an answer begins, by the end of the rendered prompt: open if that is a form's
 * mark and white space. */
enum split_thinking split_thinking_of(const char *rendered, size_t n);

#endif
