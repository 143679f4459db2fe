/* Values of a template: Python's, as far as chat templates use them.
 *
 * Values live in the run's own memory, which is bounded and freed at once. A run that failed
 * stays failed: every function here then does nothing and returns undefined, so callers check
 * once. Texts keep the origin of each byte through everything done to them. Lists and objects do
 * not change once another value can see them. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_VALUE_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_VALUE_H

#include "engine/json/json.h"
#include "engine/template/template.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum {
	TEMPLATE_MEMORY_MAX = 256 << 20, /* of one rendering */
	TEMPLATE_WORK_MAX = 50000000,	 /* steps, and bytes moved / 64 */
	TEMPLATE_VALUE_DEPTH = 64,	 /* nesting of values that are written or compared */
};

enum value_kind {
	V_UNDEFINED, /* n and bytes: the name that was asked for, for errors */
	V_NONE,
	V_BOOL,
	V_INT,
	V_BIG, /* an integer beyond 64 bits, as written */
	V_FLOAT,
	V_TEXT,
	V_LIST,
	V_TUPLE,
	V_DICT,
	V_NAMESPACE,
	V_LOOP,
	V_MACRO,
	V_FUNCTION, /* of the language */
	V_METHOD,   /* with the value that it belongs to */
};

struct value {
	uint8_t kind;
	bool safe;  /* of a text: marked as safe HTML */
	uint32_t n; /* bytes of a text */
	union {
		bool truth;
		int64_t integer;
		double number;
		struct {
			const char *bytes;
			const uint8_t *from; /* origin of each byte */
		} text;
		struct list *list;
		struct dict *dict;
		struct loop *loop;
		const struct macro *macro;
		const struct function *function;
		struct method *method;
	};
};
struct list {
	struct value *items;
	size_t count, room;
};
struct member {
	struct value key, value;
};
struct dict { /* in insertion order; also of namespaces */
	struct member *members;
	size_t count, room;
};
struct method {
	struct value self;
	const struct function *function;
};

struct template_block;
struct interpreter; /* template_eval.h's */
struct language;    /* template_call.h's */
struct template_run {
	const char *name; /* of the template, for errors */
	uint32_t line;	  /* current line */
	bool failed;
	struct err *e;
	struct template_block *blocks; /* memory */
	size_t memory_left;
	uint64_t work_left;
	const _Atomic bool *stop;
	const struct tm *clock;
	const struct language *language;
	struct interpreter *in;
};

/* ---- the run ---- */

/* Fails the run; the first failure counts: "NAME line 7: ...". */
__attribute__((format(printf, 3, 4))) struct value template_fail(struct template_run *r, int code,
								 const char *format, ...);
/* Fails because of an undefined value, by its name. */
struct value template_fail_undefined(struct template_run *r, const struct value *v);
/* Counts steps; false if the run failed. */
bool template_work(struct template_run *r, uint64_t steps);
/* The place of `part` in text[from ..]; n if there is none. */
size_t value_text_find(struct template_run *r, const struct value *text, size_t from,
		       const struct value *part);
/* Memory until the run ends; NULL and a failure if it is too much. */
void *template_allocate(struct template_run *r, size_t bytes);
void template_free_memory(struct template_run *r);
/* Makes room for one more item of `size` bytes in an array, which may move; NULL: failed. */
void *template_grow(struct template_run *r, void *items, size_t count, size_t *room, size_t size);

/* ---- making values ---- */

extern const struct value NONE;
struct value value_undefined(const char *what, size_t n);
struct value value_bool(bool truth);
struct value value_int(int64_t integer);
struct value value_float(double number);
/* Borrows a literal; its origin is the template. */
struct value value_literal(const char *text);
/* Copies bytes of one origin. */
struct value value_text(struct template_run *r, const char *bytes, size_t n,
			enum template_from from);
struct value value_list(struct template_run *r,
			enum value_kind kind); /* V_LIST or V_TUPLE, empty */
void value_append(struct template_run *r, struct list *l, struct value v);
struct value value_pair(struct template_run *r, struct value first,
			struct value second); /* a tuple */
struct value value_dict(struct template_run *r,
			enum value_kind kind); /* V_DICT or V_NAMESPACE, empty */
void value_dict_put(struct template_run *r, struct dict *d, struct value key, struct value v);
/* NULL: no such key. */
struct value *value_dict_find(struct template_run *r, const struct dict *d,
			      const struct value *key);
struct value *value_dict_find_name(struct template_run *r, const struct dict *d, const char *name,
				   size_t n);
/* `from` is the origin of its texts. */
struct value value_of_json(struct template_run *r, const struct json *json,
			   enum template_from from);

/* ---- all values ---- */

const char *value_type_name(const struct value *v); /* Python's name */
bool value_is_number(const struct value *v);	    /* bool is one */
double value_as_double(const struct value *v);	    /* of a number */
bool value_truth(const struct value *v);
bool value_equal(struct template_run *r, const struct value *a, const struct value *b);
/* < 0, 0 or > 0; fails for values without an order in Python. */
int value_compare(struct template_run *r, const struct value *a, const struct value *b);
/* The items of an iterable value as a list; fails for others. */
struct value value_items(struct template_run *r, const struct value *v);
bool value_contains(struct template_run *r, const struct value *in, const struct value *v);

/* ---- building texts ---- */

struct writer { /* zero-initialise */
	char *bytes;
	uint8_t *from;
	size_t n, room;
};
void value_write_bytes(struct template_run *r, struct writer *w, const char *bytes,
		       const uint8_t *from, size_t n);
/* Adds a text of the template's origin. */
void value_write_text(struct template_run *r, struct writer *w, const char *text);
struct value value_written(struct template_run *r, const struct writer *w);
/* text[from .. to), sharing its bytes. */
struct value value_text_slice(const struct value *text, size_t from, size_t to);
size_t value_text_length(const struct value *text); /* in code points */
bool value_is_text(const struct value *v, const char *text);
/* White space as defined by Python's str.strip. */
bool value_is_space(uint32_t c);

#endif
