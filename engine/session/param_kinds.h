/* One param: a row of the table in params.c, and the kinds of values that rows have.
 *
 * A kind reads a value from text and prints it. Rows of a kind differ in offset and range. Code
 * that uses params includes params.h instead.
 */
#ifndef MOEFS_ENGINE_SESSION_PARAM_KINDS_H
#define MOEFS_ENGINE_SESSION_PARAM_KINDS_H

#include "engine/session/params.h"

struct param;

struct param_kind {
	/* value: without NUL bytes. An error leaves the param as it was. */
	int (*set)(struct params *p, const struct param *t, const char *value, struct err *e);
	/* malloc'ed; NULL: out of memory. auto, where what is unset has no value of its own. */
	char *(*get)(const struct params *p, const struct param *t);
	size_t size; /* bytes in struct params that a default is copied over; 0: owns memory */
	/* The field of a form that takes such a value: number, integer, choice (one of .words), text,
	 * or lines. Fields but a choice take .words besides. */
	const char *field;
};

struct param {
	const char *name;
	const struct param_kind *kind;
	size_t offset; /* in struct params */
	double least, most;
	const char *what; /* for messages */
	bool routed;	  /* at most the model's experts per token (0 in a dense model) */
	const char *begins, *about; /* its default, and one line, for people */
	const char *label;	    /* beside its field in a form */
	bool common;		    /* one of the few that people change */
	bool same_text; /* it changes when the text comes, or acts by the ids of the prompt alone */
	/* Words that a value may be, and NULL. Of kind_word: an enumeration's, in its order. */
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

/* code, with what the row takes. */
int param_refuse(const struct param *t, int code, const char *value, struct err *e);

enum { NUMBER_SIZE = 40 };

/* The shortest text that reads as the same number: 0.7, not 0.69999999999999996, and with three
 * digits at least 100, not 1e+02. Returns text. */
const char *param_print_number(char text[NUMBER_SIZE], double number);

#endif
