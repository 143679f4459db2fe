/* Test cases of answers in each form, and the marks of each form. */
#ifndef MOEFS_TESTS_UNIT_SPLIT_CASES_H
#define MOEFS_TESTS_UNIT_SPLIT_CASES_H

#include "tests/unit/split_help.h"

extern const char FORM_TOOLS[]; /* f and g, as the OpenAI interface has them */

struct form_case {
	const char *form, *text, *thoughts, *content, *calls; /* as JSON: [name, arguments, id] */
};
/* Each list ends with a NULL form. FORM_BROKEN: texts that begin like a call but are content. */
extern const struct form_case FORM_CASES[];
extern const char *const FORM_BROKEN[][2];

/* The marks of a form, each as a model writes it; at most FORM_MARKS_MAX. Returns their number. */
enum { FORM_MARKS_MAX = 64 };
size_t form_marks(const struct split_form *f, const char **marks);

/* A text as JSON, which must parse; freed by json_free. */
struct json *parsed(const char *text);

#endif
