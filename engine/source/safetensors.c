#include "engine/source/tensor_list.h"
#include "engine/json/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The types of the specification with their widths. moefs can compute with types that have a
 * format. */
static const struct type {
	const char *name;
	uint32_t bytes;
	enum format format; /* FORMAT_COUNT: none */
} types[] = {
	{"F32", 4, FORMAT_F32},	   {"F16", 2, FORMAT_F16},	 {"BF16", 2, FORMAT_BF16},
	{"F64", 8, FORMAT_COUNT},  {"I64", 8, FORMAT_COUNT},	 {"I32", 4, FORMAT_COUNT},
	{"I16", 2, FORMAT_COUNT},  {"I8", 1, FORMAT_COUNT},	 {"U64", 8, FORMAT_COUNT},
	{"U32", 4, FORMAT_COUNT},  {"U16", 2, FORMAT_COUNT},	 {"U8", 1, FORMAT_COUNT},
	{"BOOL", 1, FORMAT_COUNT}, {"F8_E4M3", 1, FORMAT_COUNT}, {"F8_E5M2", 1, FORMAT_COUNT},
	{"F8_E8M0", 1, FORMAT_COUNT},
};

static const struct type *safetensors_find_type(const char *name)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(types[i].name, name))
			return &types[i];
	return NULL;
}

static int safetensors_read_type(struct checkpoint_tensor *t, const struct json *entry,
				 const char *name, uint32_t *width, struct err *e)
{
	const char *text;
	int failed = json_get_string(entry, "dtype", name, &text, e);
	if (failed)
		return failed;
	const struct type *type = safetensors_find_type(text);
	if (!type)
		return err_set(e, ENOTSUP, "%s: tensor %s has the unknown type %.32s", name,
			       t->name, text);
	strncpy(t->type, type->name, sizeof t->type - 1);
	t->format = type->format;
	t->known_type = type->format != FORMAT_COUNT;
	*width = type->bytes;
	return 0;
}

/* Reads the shape; *bytes gets the width times the product of all dimensions. */
static int safetensors_read_shape(struct checkpoint_tensor *t, const struct json *entry,
				  const char *name, uint64_t *bytes, struct err *e)
{
	const struct json *shape;
	int failed = json_get_list(entry, "shape", name, &shape, e);
	if (failed)
		return failed;
	size_t dims = json_count(shape);
	if (dims > CHECKPOINT_MAX_DIMS)
		return err_set(e, EINVAL, "%s: tensor %s has %zu dimensions; %d are supported",
			       name, t->name, dims, CHECKPOINT_MAX_DIMS);
	for (const struct json *v = NULL; (v = json_next(shape, v));) {
		uint64_t *size = &t->shape[t->dims++];
		failed = json_as_uint(v, "shape", name, 0, INT64_MAX, size, e);
		if (failed)
			return failed;
		if (__builtin_mul_overflow(*bytes, *size, bytes) || *bytes > INT64_MAX)
			return err_set(e, EINVAL, "%s: the shape of tensor %s is absurdly large",
				       name, t->name);
	}
	return 0;
}

static int safetensors_read_offsets(struct checkpoint_tensor *t, const struct json *entry,
				    const char *name, uint64_t bytes, uint64_t data_bytes,
				    struct err *e)
{
	const struct json *offsets;
	uint64_t end;
	int failed = json_get_list(entry, "data_offsets", name, &offsets, e);
	if (failed)
		return failed;
	if (json_count(offsets) != 2)
		return json_wrong(offsets, "data_offsets", name, "a pair of offsets", e);
	const struct json *first = json_next(offsets, NULL);
	failed = json_as_uint(first, "data_offsets", name, 0, INT64_MAX, &t->offset, e);
	if (!failed)
		failed = json_as_uint(json_next(offsets, first), "data_offsets", name, 0, INT64_MAX,
				      &end, e);
	if (failed)
		return failed;
	if (end < t->offset || end > data_bytes)
		return err_set(
			e, EINVAL,
			"%s: tensor %s lies outside the file's %llu bytes of data; is the file cut "
			"short?",
			name, t->name, (unsigned long long)data_bytes);
	t->bytes = end - t->offset;
	if (t->bytes != bytes)
		return err_set(
			e, EINVAL, "%s: tensor %s has %llu bytes, but its shape and type need %llu",
			name, t->name, (unsigned long long)t->bytes, (unsigned long long)bytes);
	return 0;
}

static int safetensors_parse_entry(struct tensor_list *l, const char *key, const struct json *entry,
				   uint64_t data_bytes, uint32_t file, const char *name,
				   struct err *e)
{
	if (strlen(key) > SAFETENSORS_MAX_NAME)
		return err_set(e, EINVAL, "%s: a tensor's name is longer than %d bytes", name,
			       SAFETENSORS_MAX_NAME);
	struct checkpoint_tensor *t = tensor_list_append(l, key, strlen(key));
	if (!t)
		return err_set(e, ENOMEM, "%s: out of memory for the list of tensors", name);
	t->file = file;
	uint32_t width = 0;
	int failed = safetensors_read_type(t, entry, name, &width, e);
	uint64_t bytes = width;
	if (!failed)
		failed = safetensors_read_shape(t, entry, name, &bytes, e);
	if (!failed)
		failed = safetensors_read_offsets(t, entry, name, bytes, data_bytes, e);
	return failed;
}

/* Sorts the tensors from index `first` on, all of one file, and checks that they cover the data. */
static int safetensors_check_cover(const struct tensor_list *l, size_t first, uint64_t data_bytes,
				   const char *name, struct err *e)
{
	uint64_t next = 0;
	size_t n = l->count - first;
	struct checkpoint_tensor *t = n ? l->tensors + first : NULL;
	tensor_list_sort_by_place(l, first);
	for (size_t i = 0; i < n; next += t[i++].bytes)
		if (t[i].offset != next)
			return err_set(
				e, EINVAL, "%s: tensor %s %s; the file is damaged", name, t[i].name,
				t[i].offset < next ? "overlaps another" : "leaves a gap before it");
	if (next != data_bytes)
		return err_set(e, EINVAL,
			       "%s: %llu bytes of data belong to no tensor; the file is damaged",
			       name, (unsigned long long)(data_bytes - next));
	return 0;
}

static int safetensors_parse_entries(struct tensor_list *l, const struct json *json,
				     uint64_t data_bytes, uint32_t file, const char *name,
				     struct err *e)
{
	if (json_kind(json) != JSON_OBJECT)
		return err_set(e, EINVAL, "%s: the header is not a JSON object", name);
	int failed = 0;
	for (const struct json *v = NULL; !failed && (v = json_next(json, v));)
		if (strcmp(json_key(v), "__metadata__") != 0)
			failed = safetensors_parse_entry(l, json_key(v), v, data_bytes, file, name,
							 e);
	return failed;
}

int safetensors_parse(struct tensor_list *l, const char *text, size_t length, uint64_t data_bytes,
		      uint32_t file, const char *name, struct err *e)
{
	struct json *json;
	size_t first = l->count;
	int failed = json_parse_text(&json, text, length, name, e);
	if (failed)
		return failed;
	failed = safetensors_parse_entries(l, json, data_bytes, file, name, e);
	json_free(json);
	if (!failed)
		failed = tensor_list_check_names(l, first, name, e);
	return failed ? failed : safetensors_check_cover(l, first, data_bytes, name, e);
}
