/* What a grammar is inside: for the files that make one, and its masks. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_INSIDE_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_INSIDE_H

#include "engine/grammar/grammar.h"

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

void grammar_forget_masks(struct grammar *g);

/* grammar_loop.c: whether from a state all that lies below a node may follow, as far as that is
 * known without looking at it; and how many groups of bytes go on alike from a state. */
bool loop_takes(struct grammar *g, const struct token_node *n, uint32_t state);
int loop_width(struct grammar *g, uint32_t state);

/* What is given to builders of rules. */
struct grammar_build {
	struct grammar_source source;
	const struct grammar_request *request;
	const struct split_form *writes;
};
/* A mark of thinking or calls: its token where the vocabulary has one. */
uint32_t mark_expr(struct grammar_build *b, const char *text);
/* Whether it has: of the mark, or of what it begins with, up to its bracket. */
bool mark_is_token(const struct grammar_build *b, const char *text);

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
void ranges_add(struct char_ranges *set, uint32_t from, uint32_t to);
void ranges_sort(struct char_ranges *set);
void ranges_invert(struct char_ranges *set);
/* What a letter behind a backslash stands for (\d \D \w \W \s \S); false: it is none of them. */
bool ranges_add_class(struct char_ranges *set, char letter);

uint32_t spelled_characters(struct grammar_source *s, const struct char_range *r, uint32_t count,
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
uint32_t without_expr(struct grammar_source *s, const char *const *words);

/* Calls of the request's tools, as its choice wants them. */
uint32_t calls_expr(struct grammar_build *b, struct schema_rules *schemas);
/* Text without calls. */
uint32_t no_calls_expr(struct grammar_build *b);

#endif
