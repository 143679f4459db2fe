/* What a grammar is made of before it is a machine: expressions over bytes, and rules that call one
 * another.
 *
 * Expressions are numbers; the same expression is the same number, so that what occurs often is
 * kept once. Who builds asks once at its end: a source that failed (memory, a size) stays failed,
 * and what is built on is NOTHING. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_EXPR_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_EXPR_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers by three numbers: what a grammar keeps only once (expressions, places, stacks). */

struct triple {
	uint32_t a, b, c;
};
struct triple_slot {
	struct triple key;
	uint32_t value; /* TRIPLE_NEW: the slot is free */
};
struct triple_table { /* zero-initialise */
	struct triple_slot *slots;
	uint32_t room, count; /* room: a power of two */
};
#define TRIPLE_NEW UINT32_MAX

/* Where the value of a key lies, until the next call; TRIPLE_NEW in one that was not there, which
 * the caller fills in. NULL: memory is out. */
uint32_t *grammar_triple_find(struct triple_table *t, struct triple key);
void grammar_triple_free(struct triple_table *t);

/* Room for one more item of `size` bytes in an array of `count`, which doubles; NULL: memory is
 * out, and the array is as it was. */
void *grammar_grown(void *array, size_t count, uint32_t *room, size_t size);

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
void grammar_source_init(struct grammar_source *s);
void grammar_source_free(struct grammar_source *s);
/* The first failure counts. Returns NOTHING. */
__attribute__((format(printf, 3, 4))) uint32_t grammar_fail(struct grammar_source *s, int code,
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

uint32_t expr_new_rule(struct grammar_source *s);
void expr_set_rule(struct grammar_source *s, uint32_t rule, uint32_t expr);
uint32_t expr_call(struct grammar_source *s, uint32_t rule);

#endif
