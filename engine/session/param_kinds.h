/* A param as a row of the table in params.c, and the kinds of values that params have.
 *
 * A kind parses a value from text and prints it. Params of the same kind differ in offset and
 * range. Code that only uses params includes params.h instead.
 */
#ifndef MOEFS_ENGINE_SESSION_PARAM_KINDS_H
#define MOEFS_ENGINE_SESSION_PARAM_KINDS_H

#include "engine/session/params.h"

struct param;

struct param_kind {
	/* Parses a value, which has no NUL bytes. After an error the param is unchanged. */
	int (*set)(struct params *p, const struct param *t, const char *value, struct err *e);
	/* Prints the value, malloc'ed; NULL: out of memory. Prints "auto" if the param is unset and
	 * its default is not a value of its own. */
	char *(*get)(const struct params *p, const struct param *t);
	size_t size; /* bytes in struct params, to copy a default; 0: the value owns memory */
	/* The type of its field in a form: number, integer, choice (one of .words), text or lines.
	 * Fields other than choices also accept .words. */
	const char *field;
};

struct param {
	const char *name;
	const struct param_kind *kind;
	size_t offset; /* in struct params */
	double least, most;
	const char *what; /* for error messages */
	bool routed;	  /* the maximum is the model's experts per token (0 in a dense model) */
	const char *begins, *about; /* its default and one line of help, for people */
	const char *label;	    /* its field's label in a form */
	bool common;		    /* one of the few params that people usually change */
	bool same_text;		    /* does not change the answer's text for the same prompt ids */
	/* Words that are valid values, then NULL. For kind_word: the words of the enumeration, in
	 * its order. */
	const char *const *words;
};

/* double; uint64_t, and the seed with the word random; bool; enum chat_mode; an enumeration */
extern const struct param_kind kind_number, kind_count, kind_seed, kind_switch, kind_chat,
	kind_word;
/* char [PARAMS_DATE]; char [PARAMS_LABEL]; struct bias; struct steer; char *, malloc'ed */
extern const struct param_kind kind_date, kind_label, kind_bias, kind_steer, kind_text;
/* struct substitution */
extern const struct param_kind kind_substitute;
/* draft, draft_kind and draft_depth, with the range of a depth */
extern const struct param_kind kind_draft;

/* Row i of the table; i is below params_count(). */
const struct param *param_row(size_t i);

static inline void *param_place(const struct params *p, const struct param *t)
{
	return (char *)p + t->offset;
}

/* Returns `code`, with a sentence that says which values the param takes. */
int param_refuse(const struct param *t, int code, const char *value, struct err *e);

enum { NUMBER_SIZE = 40 };

/* Prints the shortest text that reads back as the same number: 0.7, not 0.69999999999999996. Uses
 * at least three digits: 100, not 1e+02. Returns text. */
const char *param_print_number(char text[NUMBER_SIZE], double number);

#endif
