/* A JSON schema as rules, in parts: for the files that compile one.
 *
 * What several schemas say of one value (allOf, a $ref and what stands beside it, the same property
 * in two of them) are layers: a keyword is looked up in all of them. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_BUILD_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_BUILD_H

#include "engine/grammar/grammar.h"

/* What a grammar is inside: for the files that make one, and its masks. */

/* What a rule decides of a vocabulary by itself, from one of its states. */
struct local_mask {
	uint64_t *bits; /* NULL: few, in ids */
	uint32_t *ids;
	uint32_t id_count;
	uint32_t *exits; /* nodes where the rule may have ended, and tokens go on */
	uint32_t exit_count;
};
struct mask_block;
struct grammar {
	struct machine machine;
	struct local_mask *masks; /* [1 ...], by level.mask */
	uint32_t mask_count, mask_room;
	struct mask_block *blocks; /* which what masks point at lies in */
	size_t mask_bytes;
	/* Of the walk in progress: */
	uint64_t *bits;				 /* [words] */
	struct spot path[GRAMMAR_MAX_TOKEN + 2]; /* where the text stands, by depth */
	uint32_t *exits;
	uint32_t exit_count, exit_room;
	uint64_t visited; /* nodes */
	uint8_t group_of[256];
};

void mask_forget(struct grammar *g);

/* What is given to builders of rules. */
struct grammar_build {
	struct grammar_source source;
	const struct grammar_request *request;
	const struct split_form *writes;
};
/* A mark of thinking or calls: its token where the vocabulary has one. */
uint32_t calls_mark_expr(struct grammar_build *b, const char *text);
/* Whether it has: of the mark, or of what it begins with, up to its bracket. */
bool calls_mark_is_token(const struct grammar_build *b, const char *text);

/* The characters of a regular expression: how they are spelled in the text. */
enum spelling_of { SPELL_PLAIN, SPELL_JSON, SPELL_XML };
/* The expression of a regular expression: `whole` if all of the text is to match, else any part of
 * it, as ECMA 262 has it. `what` is how errors call it. */
uint32_t regex_expr(struct grammar_source *s, const char *regex, size_t n, bool whole,
		    enum spelling_of spelling, const char *what);

/* One character out of ranges [from, to], ascending and apart. */
enum { CHAR_RANGES_MAX = 512, CHARACTER_MAX = 0x10ffff };
struct char_range {
	uint32_t from, to;
};
struct char_ranges { /* a set, in any order until it is sorted */
	struct char_range at[CHAR_RANGES_MAX];
	uint32_t count;
	bool full; /* it had more */
};

uint32_t grammar_characters(struct grammar_source *s, const struct char_range *r, uint32_t count,
			    enum spelling_of spelling);

/* Rules for the JSON that is the same in all grammars; made when first asked for. */
enum json_rule {
	JSON_RULE_VALUE,
	JSON_RULE_OBJECT,
	JSON_RULE_LIST,
	JSON_RULE_STRING,
	JSON_RULE_NUMBER,
	JSON_RULE_INTEGER,
	JSON_RULES
};
struct json_rules {
	struct grammar_source *s;
	uint32_t rule[JSON_RULES]; /* one more than its number; 0: not made yet */
};
uint32_t json_rule_call(struct json_rules *j, enum json_rule which);
/* White space between the parts of an object or a list: nothing, a blank, or a line break with up
 * to 32 blanks. Behind a colon: nothing or a blank. */
uint32_t json_gap(struct grammar_source *s);
uint32_t json_colon(struct grammar_source *s);
/* A text in quotes, and a value (NULL: null), as text_out_json writes them. */
uint32_t json_quoted(struct grammar_source *s, const char *text);
uint32_t json_literal(struct grammar_source *s, const struct json *value);

/* A schema as rules; sub-schemas that are met again, also in themselves, are the same rule. The
 * documents outlive what is made of them. */
struct schema_rules {
	struct json_rules json;
	struct grammar_source *s;
	const struct json *root; /* what $ref refers to */
	struct schema_memo *memo;
	uint32_t memo_count, memo_room;
};
/* Makes the rules that were called: by turns, since a chain of references may be long. */
void schema_rules_finish(struct schema_rules *r);
void schema_rules_free(struct schema_rules *r);
/* A call of the rule for a schema (any JSON value); NULL: any value. */
uint32_t schema_expr(struct schema_rules *r, const struct json *schema);

/* Text up to and with `end`, in which none of `others` (a list that NULL ends) stands before it:
 * all begin with one character that occurs in none of them again. */
uint32_t until_expr(struct grammar_source *s, const char *end, const char *const *others,
		    bool characters);
/* Text in which none of `words` stands. */
uint32_t until_without_expr(struct grammar_source *s, const char *const *words);

/* Calls of the request's tools, as its choice wants them. */
uint32_t calls_expr(struct grammar_build *b, struct schema_rules *schemas);
/* Text without calls. */
uint32_t calls_none_expr(struct grammar_build *b);

enum { LAYERS_MAX = 16, PROPERTIES_MAX = 1000 };

struct schema_layer {
	const struct json *schema; /* an object */
	uint32_t taken; /* of its anyOf and oneOf, bits: an alternative is a layer already */
};
struct schema_layers {
	struct schema_layer at[LAYERS_MAX];
	uint32_t count, depth; /* depth: of references that led here */
	bool none;	       /* false is among them: no value at all */
};

enum schema_type {
	TYPE_NULL = 1,
	TYPE_BOOLEAN = 2,
	TYPE_OBJECT = 4,
	TYPE_ARRAY = 8,
	TYPE_STRING = 16,
	TYPE_INTEGER = 32,
	TYPE_NUMBER = 64,
	TYPE_ALL = 127,
};

struct schema_memo { /* a rule, and what it is made of */
	struct schema_layers layers;
	const struct json *root;
	uint32_t rule;
};

/* Adds a schema with all that it refers to and combines. */
void schema_layers_add(struct schema_rules *r, struct schema_layers *l, const struct json *schema);
/* A call of the rule for layers. */
uint32_t schema_layers_expr(struct schema_rules *r, const struct schema_layers *l);
/* The value of a keyword in one layer; NULL where it has none. */
const struct json *schema_layer_get(const struct schema_layer *l, const char *keyword);
/* The value in the only layer that has the keyword; NULL: none. Fails where two have it. */
const struct json *schema_layers_only(struct schema_rules *r, const struct schema_layers *l,
				      const char *keyword);
bool schema_layers_have(const struct schema_layers *l, const char *keyword);
/* The largest (or smallest) whole number that a keyword has, or `none`. */
uint64_t schema_layers_count(struct schema_rules *r, const struct schema_layers *l,
			     const char *keyword, bool largest, uint64_t none);

/* Whether a keyword is one that enum and const would have to be checked by. */
bool schema_keyword_limits(const char *name);

/* Values of one type. */
uint32_t schema_object(struct schema_rules *r, const struct schema_layers *l);
uint32_t schema_string(struct schema_rules *r, const struct schema_layers *l,
		       enum spelling_of spelling);
/* The types that all layers allow; those that their keywords speak of, where none says. */
uint32_t schema_types(struct schema_rules *r, const struct schema_layers *l);

#endif
