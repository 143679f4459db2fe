/* Answers of each form, in cases of our own, and the words that a form's answers are made of. */
#ifndef MOEFS_TESTS_SPLIT_CASES_H
#define MOEFS_TESTS_SPLIT_CASES_H

#include "tests/unit/split_help.h"

extern const char FORM_TOOLS[]; /* f and g, as the OpenAI interface has them */

struct form_case {
	const char *form, *text, *thoughts, *content, *calls; /* as JSON: [name, arguments, id] */
};
/* All of them end where form is NULL; FORM_BROKEN: what begins like a call and is none. */
extern const struct form_case FORM_CASES[];
extern const char *const FORM_BROKEN[][2];

/* The marks of a form, each as a model writes it; at most FORM_MARKS_MAX. Returns how many. */
enum { FORM_MARKS_MAX = 64 };
size_t form_marks(const struct split_form *f, const char **marks);

/* A text as JSON, which must parse; freed by json_free. */
struct json *parsed(const char *text);

#endif
