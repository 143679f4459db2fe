/* Functions of the language: filters, tests, methods and globals are rows of tables. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_CALL_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_CALL_H

#include "engine/template/template_value.h"

struct named_value {
	const char *name;
	size_t n;
	struct value value;
};
/* What stands between the brackets of a call. */
struct call_arguments {
	const struct value *items;
	size_t count;
	const struct named_value *named;
	size_t named_count;
};

enum { PARAMETERS_MAX = 5 };
struct function {
	const char *name;
	/* a[i] is the i-th parameter, NULL where it was not given; self is what a filter, test or
	 * method is of, NULL for globals. */
	struct value (*call)(struct template_run *r, const struct value *self,
			     const struct value *const *a);
	const char *parameters[PARAMETERS_MAX];
	uint8_t least; /* how many must be given */
	/* Instead of call: takes any arguments. */
	struct value (*call_any)(struct template_run *r, const struct value *self,
				 const struct call_arguments *args);
};

struct value call_function(struct template_run *r, const struct function *f,
			   const struct value *self, const struct call_arguments *args);
/* A row of a table that ends in one without a name; NULL: none. */
const struct function *call_find(const struct function *table, const char *name, size_t n);

/* The tables; all of them together are what a run looks its names up in (run.language), so that
 * what calls by name need not know the rows. */
extern const struct function TEMPLATE_FILTERS[], TEMPLATE_LIST_FILTERS[], TEMPLATE_TESTS[];
extern const struct function TEMPLATE_GLOBALS[];
extern const struct function TEXT_METHODS[], DICT_METHODS[], LIST_METHODS[];
struct language {
	const struct function *filters, *list_filters, *tests, *globals;
	const struct function *text_methods, *dict_methods, *list_methods;
};
extern const struct language TEMPLATE_LANGUAGE;

/* A filter or test by name, of a value; fails where there is none. */
struct value call_filter(struct template_run *r, const char *name, size_t n,
			 const struct value *self, const struct call_arguments *args);
struct value call_test(struct template_run *r, const char *name, size_t n, const struct value *self,
		       const struct call_arguments *args);

/* ---- what functions have in common ---- */

/* An optional argument; fails for one of another kind. */
int64_t call_integer_or(struct template_run *r, const struct value *v, int64_t fallback);
bool call_truth_or(const struct value *v, bool fallback);
/* An argument that must be a text: false, and a failure, if not. Undefined is an empty one. */
bool call_text_argument(struct template_run *r, const struct value *v, struct value *text);

#endif
