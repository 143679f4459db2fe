/* What a model wrote, taken apart as it streams: thoughts, content, tool calls.
 *
 * The result does not depend on how the text was cut into pieces, and what was given out is never
 * taken back: the beginning of a tag, white space at the end, and a call are held until decided.
 *
 * Thoughts are what stands between <think> and </think>, without white space at their ends; a call
 * inside is thought, unless the text ends with nothing but calls and no </think>. With tools on
 * offer, a <tool_call> holds a call in JSON or XML, and a <function=NAME> of a tool at the start of
 * a line is one; what is no well-formed call is content, character for character. */
#ifndef MOEFS_ENGINE_TEXT_SPLIT_H
#define MOEFS_ENGINE_TEXT_SPLIT_H

#include "engine/text/split_calls.h"

enum split_thinking {
	THINKING_AUTO, /* where the text begins with its mark */
	THINKING_OPEN, /* the prompt has opened it */
	THINKING_OFF,  /* left in the content */
};

struct split;
/* `tools` (borrowed; a list as the OpenAI interface has it) may be NULL or empty: then there are no
 * calls. NULL: out of memory. */
struct split *split_new(const struct json *tools, enum split_thinking thinking);
void split_free(struct split *s); /* NULL is fine */
/* Takes more of the text: whole characters. -ENOMEM. */
int split_feed(struct split *s, const char *bytes, size_t n, struct err *e);
/* The text is over. */
int split_finish(struct split *s, struct err *e);

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

/* How the thinking of an answer begins, by the end of the rendered prompt. */
enum split_thinking split_thinking_of(const char *rendered, size_t n);

#endif
