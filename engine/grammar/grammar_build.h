/* JSON schemas. Schemas that apply to the same value (allOf, a $ref and its siblings, the same
 * property in two schemas) are layers: a keyword is looked up in all of them. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_BUILD_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_BUILD_H

#include "engine/grammar/grammar.h"

#include <pthread.h>

/* Shared by the files of grammars: masks, and builders of rules. */

/* The part of a mask that a rule decides by itself, from one of its states. */
struct local_mask {
	uint64_t *bits; /* NULL: few tokens, listed in ids */
	uint32_t *ids;
	uint32_t id_count;
	uint32_t *exits; /* nodes at which the rule may have ended while tokens continue */
	uint32_t exit_count;
};
struct mask_block;
struct grammar {
	pthread_mutex_t lock; /* all below, once it is compiled */
	struct machine machine;
	struct local_mask *masks; /* [1 ...], by level.mask */
	uint32_t mask_count, mask_room;
	struct mask_block *blocks; /* the memory of the masks */
	size_t mask_bytes;
	/* State of the walk in progress: */
	uint64_t *bits;				 /* [words] */
	struct spot path[GRAMMAR_MAX_TOKEN + 2]; /* position of the text, by depth */
	uint32_t *exits;
	uint32_t exit_count, exit_room;
	uint64_t visited; /* nodes */
	uint8_t group_of[256];
};

void mask_forget(struct grammar *g);

/* Input of builders of rules. */
struct grammar_build {
	struct grammar_source source;
	const struct grammar_request *request;
	const struct split_form *writes;
};
/* A mark of thinking or calls: as its token if the vocabulary has one, else spelled. */
uint32_t calls_mark_expr(struct grammar_build *b, const char *text);
/* Whether the vocabulary has a token for the mark, or for its beginning up to the bracket. */
bool calls_mark_is_token(const struct grammar_build *b, const char *text);

/* How characters of a string are spelled in the text. */
enum spelling_of { SPELL_PLAIN, SPELL_JSON, SPELL_XML };
/* The expression of a regular expression: `whole` if the whole text must match, else any part of
 * it, as in ECMA 262. `what` is its name in errors. */
uint32_t regex_expr(struct grammar_source *s, const char *regex, size_t n, bool whole,
		    enum spelling_of spelling, const char *what);

/* Ranges [from, to] of characters, ascending and disjoint. */
enum { CHAR_RANGES_MAX = 512, CHARACTER_MAX = 0x10ffff };
struct char_range {
	uint32_t from, to;
};
struct char_ranges { /* a set; unordered until sorted */
	struct char_range at[CHAR_RANGES_MAX];
	uint32_t count;
	bool full; /* there were more ranges */
};

uint32_t grammar_characters(struct grammar_source *s, const struct char_range *r, uint32_t count,
			    enum spelling_of spelling);

/* Rules for JSON without a schema; made when first used. */
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
	uint32_t rule[JSON_RULES]; /* number + 1; 0: not made yet */
};
uint32_t json_rule_call(struct json_rules *j, enum json_rule which);
/* White space between the parts of an object or list: nothing, a blank, or a line break with up
 * to 32 blanks. After a colon: nothing or a blank. */
uint32_t json_gap(struct grammar_source *s);
uint32_t json_colon(struct grammar_source *s);
/* A quoted string, and a value (NULL: null), spelled as text_out_json does. */
uint32_t json_quoted(struct grammar_source *s, const char *text);
uint32_t json_literal(struct grammar_source *s, const struct json *value);

/* A schema as rules. A sub-schema that occurs again, also inside itself, is the same rule. The
 * documents must outlive the rules. */
struct schema_rules {
	struct json_rules json;
	struct grammar_source *s;
	const struct json *root; /* the document that $ref refers to */
	struct schema_memo *memo;
	uint32_t memo_count, memo_room;
};
/* Makes the rules that are called, one after the other: a chain of references may be long. */
void schema_rules_finish(struct schema_rules *r);
void schema_rules_free(struct schema_rules *r);
/* A call of a schema's rule; NULL: any value. */
uint32_t schema_expr(struct schema_rules *r, const struct json *schema);

/* Text up to and including `end`, before which none of `others` (NULL-terminated) occurs. All
 * marks begin with one character that occurs in none of them again. */
uint32_t until_expr(struct grammar_source *s, const char *end, const char *const *others,
		    bool characters);
/* Text in which none of `words` occurs. */
uint32_t until_without_expr(struct grammar_source *s, const char *const *words);

/* Calls of the request's tools, as its choice asks. */
uint32_t calls_expr(struct grammar_build *b, struct schema_rules *schemas);
/* Text that holds no call. */
uint32_t calls_none_expr(struct grammar_build *b);

enum { LAYERS_MAX = 16, PROPERTIES_MAX = 1000 };

struct schema_layer {
	const struct json *schema; /* an object */
	uint32_t taken;		   /* bits for anyOf and oneOf: an alternative is already a layer */
};
struct schema_layers {
	struct schema_layer at[LAYERS_MAX];
	uint32_t count, depth; /* depth: of references */
	bool none;	       /* one of them is false: no value is valid */
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

struct schema_memo { /* a rule and the layers that it is made of */
	struct schema_layers layers;
	const struct json *root;
	uint32_t rule;
};

/* Adds a schema with all schemas that it refers to and combines. */
void schema_layers_add(struct schema_rules *r, struct schema_layers *l, const struct json *schema);
/* A call of the layers' rule. */
uint32_t schema_layers_expr(struct schema_rules *r, const struct schema_layers *l);
/* The value of a keyword in one layer; NULL: none. */
const struct json *schema_layer_get(const struct schema_layer *l, const char *keyword);
/* The value in the only layer that has the keyword; NULL: none. Fails if two layers have it. */
const struct json *schema_layers_only(struct schema_rules *r, const struct schema_layers *l,
				      const char *keyword);
bool schema_layers_have(const struct schema_layers *l, const char *keyword);
/* The largest (or smallest) whole number of a keyword in all layers, or `none`. */
uint64_t schema_layers_count(struct schema_rules *r, const struct schema_layers *l,
			     const char *keyword, bool largest, uint64_t none);

/* Whether the keyword restricts values: each value of enum or const would have to be checked. */
bool schema_keyword_limits(const char *name);

/* Rules for values of one type. */
uint32_t schema_object(struct schema_rules *r, const struct schema_layers *l);
uint32_t schema_string(struct schema_rules *r, const struct schema_layers *l,
		       enum spelling_of spelling);
/* The types that all layers allow; without "type", those that the keywords apply to. */
uint32_t schema_types(struct schema_rules *r, const struct schema_layers *l);

#endif
