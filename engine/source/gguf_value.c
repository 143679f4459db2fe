/* Reading values of a GGUF file's keys. */
#include "engine/source/gguf.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[GGUF_KINDS] = {
	[GGUF_U8] = "u8",	  [GGUF_I8] = "i8",	  [GGUF_U16] = "u16", [GGUF_I16] = "i16",
	[GGUF_U32] = "u32",	  [GGUF_I32] = "i32",	  [GGUF_F32] = "f32", [GGUF_BOOL] = "bool",
	[GGUF_STRING] = "string", [GGUF_ARRAY] = "array", [GGUF_U64] = "u64", [GGUF_I64] = "i64",
	[GGUF_F64] = "f64",
};

const char *gguf_kind_name(enum gguf_kind k)
{
	return kind_names[k];
}

static int gguf_compare_key(const void *key, const void *value)
{
	const struct gguf_value *v = value;
	return strcmp(key, v->key);
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
	return g->count ? bsearch(key, g->values, g->count, sizeof *g->values, gguf_compare_key)
			: NULL;
}

/* ---- numbers ---- */

static uint64_t gguf_number_at(const uint8_t *bytes, uint32_t width)
{
	uint64_t n = 0;
	for (uint32_t i = width; i-- > 0;)
		n = n << 8 | bytes[i];
	return n;
}

/* Bytes of an integer kind, and whether its highest bit is a sign; 0: not an integer kind. */
static uint32_t gguf_integer_width(enum gguf_kind k, bool *is_signed)
{
	static const struct {
		enum gguf_kind kind;
		uint32_t width;
		bool is_signed;
	} integers[] = {
		{GGUF_U8, 1, false},  {GGUF_I8, 1, true},   {GGUF_U16, 2, false},
		{GGUF_I16, 2, true},  {GGUF_U32, 4, false}, {GGUF_I32, 4, true},
		{GGUF_U64, 8, false}, {GGUF_I64, 8, true},
	};
	for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
		if (integers[i].kind == k) {
			*is_signed = integers[i].is_signed;
			return integers[i].width;
		}
	return 0;
}

static bool gguf_is_negative(uint64_t n, uint32_t width)
{
	return n >> (8 * width - 1) & 1;
}

bool gguf_uint(const struct gguf_value *v, uint64_t i, uint64_t *out)
{
	bool is_signed;
	uint32_t width = gguf_integer_width(v->element, &is_signed);
	if (!width || i >= v->count)
		return false;
	*out = gguf_number_at(v->bytes + i * width, width);
	return !is_signed || !gguf_is_negative(*out, width);
}

bool gguf_double(const struct gguf_value *v, uint64_t i, double *out)
{
	bool is_signed;
	uint32_t width = gguf_integer_width(v->element, &is_signed);
	float f;
	if (i >= v->count)
		return false;
	if (v->element == GGUF_F32) {
		memcpy(&f, v->bytes + i * sizeof f, sizeof f);
		*out = (double)f;
	} else if (v->element == GGUF_F64) {
		memcpy(out, v->bytes + i * sizeof *out, sizeof *out);
	} else if (width) {
		uint64_t n = gguf_number_at(v->bytes + i * width, width);
		bool negative = is_signed && gguf_is_negative(n, width);
		uint64_t size = negative ? (~n + 1) & (UINT64_MAX >> (64 - 8 * width)) : n;
		*out = negative ? -(double)size : (double)size;
	} else {
		return false;
	}
	return true;
}

bool gguf_next_string(const struct gguf_value *v, size_t *at, const char **text, size_t *length)
{
	if (v->element != GGUF_STRING || *at >= v->size)
		return false;
	*length = (size_t)gguf_number_at(v->bytes + *at, 8); /* checked when it was read */
	*text = (const char *)v->bytes + *at + 8;
	*at += 8 + *length;
	return true;
}

/* ---- by key ---- */

static int gguf_find_of_kind(const struct gguf *g, const char *key, const char *name,
			     const struct gguf_value **out, struct err *e)
{
	*out = gguf_find(g, key);
	return *out ? 0 : err_set(e, ENOENT, "%s has no %s", name, key);
}

static int gguf_wrong_kind(const struct gguf_value *v, const char *name, const char *wanted,
			   struct err *e)
{
	return err_set(e, EINVAL, "%s: %s is of kind %s%s%s, but must be %s", name, v->key,
		       gguf_kind_name(v->kind), v->kind == GGUF_ARRAY ? " of " : "",
		       v->kind == GGUF_ARRAY ? gguf_kind_name(v->element) : "", wanted);
}

int gguf_get_uint(const struct gguf *g, const char *key, const char *name, uint64_t least,
		  uint64_t most, uint64_t *out, struct err *e)
{
	const struct gguf_value *v;
	bool is_signed;
	int failed = gguf_find_of_kind(g, key, name, &v, e);
	if (failed)
		return failed;
	if (v->kind == GGUF_ARRAY || !gguf_integer_width(v->kind, &is_signed))
		return gguf_wrong_kind(v, name, "an integer", e);
	if (!gguf_uint(v, 0, out) || *out < least || *out > most)
		return err_set(e, ERANGE, "%s: %s is not between %llu and %llu", name, key,
			       (unsigned long long)least, (unsigned long long)most);
	return 0;
}

int gguf_get_double(const struct gguf *g, const char *key, const char *name, double *out,
		    struct err *e)
{
	const struct gguf_value *v;
	int failed = gguf_find_of_kind(g, key, name, &v, e);
	if (failed)
		return failed;
	if (v->kind == GGUF_ARRAY || !gguf_double(v, 0, out))
		return gguf_wrong_kind(v, name, "a number", e);
	if (!isfinite(*out))
		return err_set(e, ERANGE, "%s: %s is not a finite number", name, key);
	return 0;
}

int gguf_get_bool(const struct gguf *g, const char *key, const char *name, bool *out, struct err *e)
{
	const struct gguf_value *v;
	int failed = gguf_find_of_kind(g, key, name, &v, e);
	if (failed)
		return failed;
	if (v->kind != GGUF_BOOL)
		return gguf_wrong_kind(v, name, "a boolean", e);
	*out = *v->bytes;
	return 0;
}

int gguf_get_string(const struct gguf *g, const char *key, const char *name, const char **text,
		    size_t *length, struct err *e)
{
	const struct gguf_value *v;
	size_t at = 0;
	int failed = gguf_find_of_kind(g, key, name, &v, e);
	if (failed)
		return failed;
	if (v->kind != GGUF_STRING || !gguf_next_string(v, &at, text, length))
		return gguf_wrong_kind(v, name, "a string", e);
	return 0;
}

int gguf_get_array(const struct gguf *g, const char *key, const char *name, enum gguf_kind element,
		   const struct gguf_value **out, struct err *e)
{
	int failed = gguf_find_of_kind(g, key, name, out, e);
	if (failed)
		return failed;
	if ((*out)->kind != GGUF_ARRAY || (*out)->element != element)
		return gguf_wrong_kind(*out, name, "an array of another kind", e);
	return 0;
}
