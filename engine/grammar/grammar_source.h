/* What a grammar is made of before it is a machine: expressions over bytes, and rules that call one
 * another.
 *
 * Expressions are numbers; the same expression is the same number, so that what occurs often is
 * kept once. Who builds asks once at its end: a source that failed (memory, a size) stays failed,
 * and what is built on is NOTHING. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_SOURCE_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_SOURCE_H

#include "cache/err.h"
#include "engine/grammar/grammar_table.h"

#include <stdbool.h>

enum {
	GRAMMAR_MAX_SOURCE = 256 << 10, /* bytes of a schema or a regex */
	GRAMMAR_MAX_EXPRS = 1 << 18,
	GRAMMAR_MAX_RULES = 1 << 13,
	GRAMMAR_MAX_REPEAT = 10000,
};

enum expr_kind {
	EXPR_NOTHING,
	EXPR_EMPTY,
	EXPR_BYTES,
	EXPR_THEN,
	EXPR_EITHER,
	EXPR_REPEAT,
	EXPR_CALL
};
struct expr {
	uint8_t kind;
	uint32_t a, b;	      /* of THEN and EITHER; a of REPEAT; the rule of CALL */
	uint32_t least, most; /* of REPEAT, and the bytes of BYTES */
};
enum { NOTHING, EMPTY }; /* no text at all; the empty text */
#define REPEAT_ENDLESS UINT32_MAX
#define RULE_OPEN UINT32_MAX /* a rule that has a number and no expression yet */

struct grammar_source {
	struct expr *exprs;
	uint32_t expr_count, expr_room;
	struct triple_table interned;
	uint32_t *rules; /* the expression of each */
	uint32_t rule_count, rule_room;
	int failed; /* 0 or a negative errno, with the sentence in error */
	struct err error;
};

/* A source that failed for want of memory is freed like any other. */
void source_init(struct grammar_source *s);
void source_free(struct grammar_source *s);
/* The first failure counts. Returns NOTHING. */
__attribute__((format(printf, 3, 4))) uint32_t source_fail(struct grammar_source *s, int code,
							   const char *format, ...);

uint32_t expr_bytes(struct grammar_source *s, uint8_t least, uint8_t most);
uint32_t expr_text(struct grammar_source *s, const char *text, size_t n);
uint32_t expr_word(struct grammar_source *s, const char *text); /* the same of a C string */
/* One character in UTF-8 out of a range, surrogates left out. */
uint32_t expr_characters(struct grammar_source *s, uint32_t least, uint32_t most);
uint32_t expr_then(struct grammar_source *s, uint32_t a, uint32_t b);
uint32_t expr_either(struct grammar_source *s, uint32_t a, uint32_t b);
/* least <= most; at most GRAMMAR_MAX_REPEAT or REPEAT_ENDLESS. */
uint32_t expr_repeat(struct grammar_source *s, uint32_t a, uint32_t least, uint32_t most);
uint32_t expr_maybe(struct grammar_source *s, uint32_t a);

uint32_t rule_new(struct grammar_source *s);
void rule_set(struct grammar_source *s, uint32_t rule, uint32_t expr);
uint32_t expr_call(struct grammar_source *s, uint32_t rule);

#endif
