/* Calls of filters, tests, methods and global functions, which are rows of tables. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_CALL_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_CALL_H

#include "engine/template/template_value.h"

struct named_value {
	const char *name;
	size_t n;
	struct value value;
};
/* The arguments of a call. */
struct call_arguments {
	const struct value *items;
	size_t count;
	const struct named_value *named;
	size_t named_count;
};

enum { PARAMETERS_MAX = 5 };
struct function {
	const char *name;
	/* a[i] is the i-th parameter, NULL if not given. `self` is the value of a filter, test
	 * or method, NULL for globals. */
	struct value (*call)(struct template_run *r, const struct value *self,
			     const struct value *const *a);
	const char *parameters[PARAMETERS_MAX];
	uint8_t least; /* number of required parameters */
	/* Instead of `call`: takes any arguments. */
	struct value (*call_any)(struct template_run *r, const struct value *self,
				 const struct call_arguments *args);
};

/* A row of a table of functions: name, `call`, number of required parameters, parameters. */
#define FUNCTION(of_name, of_call, of_least, ...)                                          \
	{                                                                                  \
		.name = (of_name), .call = (of_call), .least = (of_least), .parameters = { \
			__VA_ARGS__                                                        \
		}                                                                          \
	}

/* The head of a row's `call`: v is `self`. Not every function needs all three. */
#define CALL(name)                                                               \
	static struct value name(__attribute__((unused)) struct template_run *r, \
				 __attribute__((unused)) const struct value *v,  \
				 __attribute__((unused)) const struct value *const *a)
/* A `call` that is one expression. */
#define CALL_OF(name, result)  \
	CALL(name)             \
	{                      \
		return result; \
	}

struct value call_function(struct template_run *r, const struct function *f,
			   const struct value *self, const struct call_arguments *args);
/* The argument of this name; NULL: not given by name. */
const struct value *call_named(const struct call_arguments *args, const char *name, size_t n);
/* A row by name, of a table that ends with a NULL name; NULL: none. */
const struct function *call_find(const struct function *table, const char *name, size_t n);

/* The tables. A run finds names through run.language, so that callers by name do not depend on
 * the rows. */
extern const struct function TEMPLATE_FILTERS[], TEMPLATE_LIST_FILTERS[], TEMPLATE_TESTS[];
extern const struct function TEMPLATE_GLOBALS[];
extern const struct function TEXT_METHODS[], DICT_METHODS[], LIST_METHODS[];
struct language {
	const struct function *filters, *list_filters, *tests, *globals;
	const struct function *text_methods, *dict_methods, *list_methods;
};
extern const struct language TEMPLATE_LANGUAGE;

/* Calls a filter or test by name; fails if there is none. */
struct value call_filter(struct template_run *r, const char *name, size_t n,
			 const struct value *self, const struct call_arguments *args);
struct value call_test(struct template_run *r, const char *name, size_t n, const struct value *self,
		       const struct call_arguments *args);

/* ---- arguments of functions ---- */

/* An optional integer; fails for a value of another type. */
int64_t call_integer_or(struct template_run *r, const struct value *v, int64_t fallback);
bool call_truth_or(const struct value *v, bool fallback);
/* An argument that must be a text: otherwise fails and returns false. Undefined is an empty
 * text. */
bool call_text_argument(struct template_run *r, const struct value *v, struct value *text);

#endif
