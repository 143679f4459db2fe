/* What a grammar is before it is a machine: expressions over bytes, rules that call one
 * another, and the hash tables that store each triple of numbers once.
 *
 * Expressions are numbers; equal expressions have the same number, so common ones are stored
 * once. A source that failed (memory, a size) stays failed, and what is built on it is NOTHING,
 * so builders check once at the end. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_EXPR_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_EXPR_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* The place of a key's value, valid until the next call; a new one is TRIPLE_NEW and must be set
 * by the caller. NULL: out of memory. */
uint32_t *grammar_triple_find(struct triple_table *t, struct triple key);
void grammar_triple_free(struct triple_table *t);

/* Makes room for one more item of `size` bytes in an array of `count`, by doubling. NULL: out of
 * memory; the array is unchanged. */
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
	uint32_t a, b;	      /* for THEN and EITHER; a for REPEAT; the rule for CALL */
	uint32_t least, most; /* for REPEAT; the bytes of BYTES */
};
enum { NOTHING, EMPTY }; /* no text at all; the empty text */
#define REPEAT_ENDLESS UINT32_MAX
#define RULE_OPEN UINT32_MAX /* a rule without an expression yet */

struct grammar_source {
	struct expr *exprs;
	uint32_t expr_count, expr_room;
	struct triple_table interned;
	uint32_t *rules; /* the expression of each */
	uint32_t rule_count, rule_room;
	int failed; /* 0 or a negative errno; error has the sentence */
	struct err error;
};

/* A failed source is freed like any other. */
void grammar_source_init(struct grammar_source *s);
void grammar_source_free(struct grammar_source *s);
/* Sets the first failure. Returns NOTHING. */
__attribute__((format(printf, 3, 4))) uint32_t grammar_fail(struct grammar_source *s, int code,
							    const char *format, ...);

uint32_t expr_bytes(struct grammar_source *s, uint8_t least, uint8_t most);
uint32_t expr_text(struct grammar_source *s, const char *text, size_t n);
uint32_t expr_word(struct grammar_source *s, const char *text); /* a C string */
/* One character of a range in UTF-8, without surrogates. */
uint32_t expr_characters(struct grammar_source *s, uint32_t least, uint32_t most);
uint32_t expr_then(struct grammar_source *s, uint32_t a, uint32_t b);
/* SEQUENCE(s, a, b, c): one after the other. */
uint32_t expr_sequence(struct grammar_source *s, const uint32_t *parts, size_t count);
#define SEQUENCE(s, ...)                                  \
	expr_sequence(s, (const uint32_t[]){__VA_ARGS__}, \
		      sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))
uint32_t expr_either(struct grammar_source *s, uint32_t a, uint32_t b);
/* least <= most; both at most GRAMMAR_MAX_REPEAT, or most REPEAT_ENDLESS. */
uint32_t expr_repeat(struct grammar_source *s, uint32_t a, uint32_t least, uint32_t most);
uint32_t expr_maybe(struct grammar_source *s, uint32_t a);

uint32_t expr_new_rule(struct grammar_source *s);
void expr_set_rule(struct grammar_source *s, uint32_t rule, uint32_t expr);
uint32_t expr_call(struct grammar_source *s, uint32_t rule);

#endif
