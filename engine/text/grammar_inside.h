/* What a grammar is inside: for the files that make one, and its masks. */
#ifndef MOEFS_ENGINE_TEXT_GRAMMAR_INSIDE_H
#define MOEFS_ENGINE_TEXT_GRAMMAR_INSIDE_H

#include "engine/text/grammar.h"

/* What a rule decides of a vocabulary by itself, from one of its states. */
struct local_mask {
	uint64_t *bits; /* NULL: few, in ids */
	uint32_t *ids;
	uint32_t id_count;
	uint32_t *exits; /* nodes where the rule may have ended, and tokens go on */
	uint32_t exit_count;
};
struct grammar {
	struct machine machine;
	struct local_mask *masks; /* [1 ...], by level.mask */
	uint32_t mask_count, mask_room;
	size_t mask_bytes;
	/* Of the walk in progress: */
	uint64_t *bits;				  /* [words] */
	struct place path[GRAMMAR_MAX_TOKEN + 2]; /* where the text stands, by depth */
	uint32_t *exits;
	uint32_t exit_count, exit_room;
	uint64_t visited; /* nodes */
	uint8_t group_of[256];
};

void grammar_forget_masks(struct grammar *g);

/* What is given to builders of rules. */
struct grammar_build {
	struct grammar_source source;
	const struct tokenizer *tokenizer; /* NULL: no marks */
};

/* The characters of a regular expression: how they are spelled in the text. */
enum spelling_of { SPELL_PLAIN, SPELL_JSON, SPELL_XML };
/* The expression of a regular expression: `whole` if all of the text is to match, else any part of
 * it, as ECMA 262 has it. `what` is how errors call it. */
uint32_t regex_expr(struct grammar_source *s, const char *regex, size_t n, bool whole,
		    enum spelling_of spelling, const char *what);

/* One character out of ranges [from, to], ascending and apart. */
struct char_range {
	uint32_t from, to;
};
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
/* A text in quotes as json_write writes it. */
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

/* Calls of the request's tools; NOTHING if there are none. */
uint32_t calls_expr(struct grammar_build *b, struct schema_rules *schemas,
		    const struct grammar_request *r);

#endif
