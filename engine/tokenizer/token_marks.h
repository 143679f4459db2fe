/* Which added tokens are words of a conversation's form, and not of what is said in it.
 *
 * Files say it only in part: tokens of thinking and tools are not marked special, so that they show
 * in answers, and are control tokens all the same. Others that are not special are ordinary text
 * (runs of white space, HTML's tags). */
#ifndef MOEFS_ENGINE_TOKENIZER_TOKEN_MARKS_H
#define MOEFS_ENGINE_TOKENIZER_TOKEN_MARKS_H

#include <stdbool.h>
#include <stddef.h>

/* What bytes of a text may spell, each with those before it. */
enum token_right {
	MAY_TEXT,  /* what anybody writes: no control token */
	MAY_MARKS, /* what the model wrote: thinking and tool calls */
	MAY_ALL,   /* what a template wrote */
};
/* The right that a token wants of each of its bytes. */
enum token_right token_wants(const char *text, size_t n, bool special);

#endif
