/* Reads the header: keys and values, then tensors; then checks that everything fits the file.
 * gguf_value.c reads the values. */
#include "engine/source/gguf.h"

#include "engine/source/source_file.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- types of tensors ---- */

/* Types with FORMAT_COUNT are not supported; they are listed so that messages can name them. */
static const struct gguf_type types[] = {
	{"F32", 0, 1, 4, FORMAT_F32},		{"F16", 1, 1, 2, FORMAT_F16},
	{"Q4_0", 2, 32, 18, FORMAT_Q4_0},	{"Q4_1", 3, 32, 20, FORMAT_Q4_1},
	{"Q5_0", 6, 32, 22, FORMAT_Q5_0},	{"Q5_1", 7, 32, 24, FORMAT_Q5_1},
	{"Q8_0", 8, 32, 34, FORMAT_Q8_0},	{"Q8_1", 9, 32, 36, FORMAT_COUNT},
	{"Q2_K", 10, 256, 84, FORMAT_Q2_K},	{"Q3_K", 11, 256, 110, FORMAT_Q3_K},
	{"Q4_K", 12, 256, 144, FORMAT_Q4_K},	{"Q5_K", 13, 256, 176, FORMAT_Q5_K},
	{"Q6_K", 14, 256, 210, FORMAT_Q6_K},	{"Q8_K", 15, 256, 292, FORMAT_COUNT},
	{"IQ2_XXS", 16, 256, 66, FORMAT_COUNT}, {"IQ2_XS", 17, 256, 74, FORMAT_COUNT},
	{"IQ3_XXS", 18, 256, 98, FORMAT_COUNT}, {"IQ1_S", 19, 256, 50, FORMAT_COUNT},
	{"IQ4_NL", 20, 32, 18, FORMAT_IQ4_NL},	{"IQ3_S", 21, 256, 110, FORMAT_IQ3_S},
	{"IQ2_S", 22, 256, 82, FORMAT_COUNT},	{"IQ4_XS", 23, 256, 136, FORMAT_IQ4_XS},
	{"I8", 24, 1, 1, FORMAT_COUNT},		{"I16", 25, 1, 2, FORMAT_COUNT},
	{"I32", 26, 1, 4, FORMAT_COUNT},	{"I64", 27, 1, 8, FORMAT_COUNT},
	{"F64", 28, 1, 8, FORMAT_COUNT},	{"IQ1_M", 29, 256, 56, FORMAT_COUNT},
	{"BF16", 30, 1, 2, FORMAT_BF16},	{"TQ1_0", 34, 256, 54, FORMAT_COUNT},
	{"TQ2_0", 35, 256, 66, FORMAT_COUNT},	{"MXFP4", 39, 32, 17, FORMAT_MXFP4_GGUF},
};

const struct gguf_type *gguf_type_find(uint64_t number)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].number == number)
			return &types[i];
	return NULL;
}

enum { DEFAULT_ALIGNMENT = 32, MAX_ALIGNMENT = 1 << 20 };
enum { MAX_KEYS = 1 << 16, MAX_TENSORS = 1 << 18 };
static const char magic[4] = "GGUF";

/* Widths of the kinds that have one. */
static const uint8_t widths[GGUF_KINDS] = {
	[GGUF_U8] = 1,	[GGUF_I8] = 1,	[GGUF_U16] = 2, [GGUF_I16] = 2,
	[GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
	[GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

/* The position while reading. bytes[size] are the beginning of a file of file_bytes. The cursor
 * keeps its first error; after an error, values that are taken are 0 or NULL. */
struct gguf_cursor {
	const uint8_t *bytes;
	size_t at, size;
	uint64_t file_bytes;
	const char *name; /* of the file, for messages */
	struct err *e;
	int failed; /* a negative errno, as in e; -EAGAIN, without words: the header continues after
		       `size` bytes */
};

/* Sets the error "FILE: …" with that errno. */
__attribute__((format(printf, 3, 4))) static void gguf_refuse(struct gguf_cursor *c, int code,
							      const char *format, ...)
{
	char text[1024];
	va_list args;
	if (c->failed)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	c->failed = err_set(c->e, code, "%s: %s", c->name, text);
}

/* ---- pieces ---- */

/* Takes the next n bytes; NULL: there are not enough. */
static const uint8_t *gguf_take(struct gguf_cursor *c, uint64_t n)
{
	if (n > c->file_bytes - c->at)
		gguf_refuse(c, EINVAL,
			    "the header does not fit into the file's %llu bytes; the file is cut "
			    "short or damaged",
			    (unsigned long long)c->file_bytes);
	else if (n > c->size - c->at && !c->failed)
		c->failed = -EAGAIN;
	if (c->failed)
		return NULL;
	const uint8_t *at = c->bytes + c->at;
	c->at += (size_t)n;
	return at;
}

static uint64_t gguf_take_number(struct gguf_cursor *c, uint32_t width)
{
	const uint8_t *bytes = gguf_take(c, width);
	uint64_t n = 0;
	for (uint32_t i = width; bytes && i-- > 0;)
		n = n << 8 | bytes[i];
	return n;
}

/* A key or a tensor's name: bounded, not empty, and without a zero byte. */
static const char *gguf_take_name(struct gguf_cursor *c, const char *what, uint64_t most,
				  size_t *length)
{
	uint64_t n = gguf_take_number(c, 8);
	if (n == 0 || n > most)
		gguf_refuse(c, EINVAL, "the name of a %s has %llu bytes; 1 to %llu are allowed",
			    what, (unsigned long long)n, (unsigned long long)most);
	const char *text = (const char *)gguf_take(c, n);
	if (text && memchr(text, 0, (size_t)n))
		gguf_refuse(c, EINVAL, "the name of a %s has a zero byte in it", what);
	*length = (size_t)n;
	return c->failed ? NULL : text;
}

/* ---- values ---- */

static enum gguf_kind gguf_take_kind(struct gguf_cursor *c, const char *key)
{
	uint64_t kind = gguf_take_number(c, 4);
	if (kind >= GGUF_KINDS)
		gguf_refuse(c, EINVAL, "%s has the unknown kind %llu", key,
			    (unsigned long long)kind);
	return c->failed ? GGUF_U8 : (enum gguf_kind)kind;
}

/* Takes an array of strings. A vocabulary has hundreds of thousands, so strings that are completely
 * in memory take only a few instructions each. */
static void gguf_take_strings(struct gguf_cursor *c, uint64_t count)
{
	enum { LENGTH = 8 };
	for (uint64_t i = 0; i < count && !c->failed; i++) {
		uint64_t n, left = c->size - c->at;
		if (left >= LENGTH) {
			memcpy(&n, c->bytes + c->at, LENGTH);
			n = le64toh(n);
			if (n <= left - LENGTH) {
				c->at += LENGTH + (size_t)n;
				continue;
			}
		}
		(void)gguf_take(c, gguf_take_number(c, LENGTH));
	}
}

static void gguf_take_value(struct gguf_cursor *c, struct gguf_value *v)
{
	v->count = 1;
	v->element = v->kind = gguf_take_kind(c, v->key);
	if (v->kind == GGUF_ARRAY) {
		v->element = gguf_take_kind(c, v->key);
		if (v->element == GGUF_ARRAY)
			gguf_refuse(c, ENOTSUP, "%s is an array of arrays, which is not supported",
				    v->key);
		v->count = gguf_take_number(c, 8);
	}
	size_t begin = c->at;
	v->bytes = c->bytes + begin;
	if (v->element == GGUF_STRING)
		gguf_take_strings(c, v->count);
	else if (v->count > c->file_bytes) /* so that the product fits */
		(void)gguf_take(c, UINT64_MAX);
	else
		(void)gguf_take(c, v->count * widths[v->element]);
	v->size = c->at - begin;
	if (!c->failed && v->kind == GGUF_BOOL && *v->bytes > 1)
		gguf_refuse(c, EINVAL, "%s is a boolean of value %u", v->key, *v->bytes);
}

static int gguf_compare_values(const void *a, const void *b)
{
	const struct gguf_value *x = a, *y = b;
	return strcmp(x->key, y->key);
}

static void gguf_take_values(struct gguf_cursor *c, struct gguf *g, uint64_t count)
{
	for (uint64_t i = 0; i < count && !c->failed; i++) {
		size_t length;
		const char *key = gguf_take_name(c, "key", GGUF_MAX_KEY, &length);
		struct gguf_value *values =
			list_grow(g->values, g->count, &g->room, sizeof *values);
		g->values = values ? values : g->values;
		char *own = key && values ? strndup(key, length) : NULL;
		if (own) {
			struct gguf_value *v = &g->values[g->count++];
			*v = (struct gguf_value){.key = own};
			gguf_take_value(c, v);
		} else {
			gguf_refuse(c, ENOMEM, "out of memory for its keys");
		}
	}
	if (g->count)
		qsort(g->values, g->count, sizeof *g->values, gguf_compare_values);
	for (size_t i = 1; i < g->count; i++)
		if (!strcmp(g->values[i - 1].key, g->values[i].key))
			gguf_refuse(c, EINVAL, "the key %.128s is there twice", g->values[i].key);
}

/* ---- tensors ---- */

/* Takes a shape, converted to rows before columns, and computes the tensor's bytes. */
static void gguf_take_shape(struct gguf_cursor *c, struct checkpoint_tensor *t)
{
	uint64_t dims = gguf_take_number(c, 4), elements = 1;
	if (dims < 1 || dims > GGUF_MAX_DIMS)
		gguf_refuse(c, EINVAL, "tensor %s has %llu dimensions; 1 to %d are supported",
			    t->name, (unsigned long long)dims, GGUF_MAX_DIMS);
	t->dims = c->failed ? 0 : (uint32_t)dims;
	for (uint32_t i = t->dims; i-- > 0;) {
		t->shape[i] = gguf_take_number(c, 8);
		if (__builtin_mul_overflow(elements, t->shape[i], &elements) ||
		    elements > INT64_MAX / 8)
			gguf_refuse(c, EINVAL, "the shape of tensor %s is absurdly large", t->name);
	}
	uint64_t number = gguf_take_number(c, 4);
	const struct gguf_type *type = gguf_type_find(number);
	if (!type)
		gguf_refuse(c, ENOTSUP, "tensor %s has the unknown type %llu", t->name,
			    (unsigned long long)number);
	if (c->failed)
		return;
	uint64_t cols = t->shape[t->dims - 1];
	if (cols % type->block)
		gguf_refuse(c, EINVAL, "tensor %s has rows of %llu in %s, which has blocks of %u",
			    t->name, (unsigned long long)cols, type->name, type->block);
	t->bytes = elements / type->block * type->bytes;
	strncpy(t->type, type->name, sizeof t->type - 1);
	t->format = type->format;
	t->known_type = type->format != FORMAT_COUNT;
}

static void gguf_take_tensor(struct gguf_cursor *c, struct gguf *g, uint32_t file)
{
	size_t length;
	const char *name = gguf_take_name(c, "tensor", GGUF_MAX_NAME, &length);
	struct checkpoint_tensor *t = name ? tensor_list_append(&g->tensors, name, length) : NULL;
	if (!t) {
		gguf_refuse(c, ENOMEM, "out of memory for the list of tensors");
		return;
	}
	t->file = file;
	gguf_take_shape(c, t);
	t->offset = gguf_take_number(c, 8);
}

/* ---- what fits together ---- */

static uint64_t gguf_read_alignment(struct gguf_cursor *c, const struct gguf *g)
{
	static const char key[] = "general.alignment";
	uint64_t alignment = DEFAULT_ALIGNMENT;
	if (!c->failed && gguf_has(g, key))
		c->failed = gguf_get_uint(g, key, c->name, 1, MAX_ALIGNMENT, &alignment, c->e);
	if (alignment & (alignment - 1))
		gguf_refuse(c, EINVAL, "the alignment of %llu is not a power of two",
			    (unsigned long long)alignment);
	return alignment;
}

/* Rounds up; both are far below 2^63. */
static uint64_t gguf_aligned(uint64_t at, uint64_t alignment)
{
	return (at + alignment - 1) / alignment * alignment;
}

/* Checks that the tensors are contiguous in the data, each at the next multiple of the alignment.
 */
static void gguf_check_places(struct gguf_cursor *c, const struct gguf *g, uint64_t alignment)
{
	uint64_t data = g->data_offset < c->file_bytes ? c->file_bytes - g->data_offset : 0;
	uint64_t next = 0;
	tensor_list_sort_by_place(&g->tensors, 0);
	for (size_t i = 0; i < g->tensors.count && !c->failed; i++) {
		const struct checkpoint_tensor *t = &g->tensors.tensors[i];
		if (t->offset != next)
			gguf_refuse(c, EINVAL, "tensor %s %s; the file is damaged", t->name,
				    t->offset < next ? "overlaps another"
						     : "leaves a gap before it");
		if (t->bytes > data || t->offset > data - t->bytes)
			gguf_refuse(c, EINVAL,
				    "tensor %s lies outside the file's %llu bytes of data; is the "
				    "file cut short?",
				    t->name, (unsigned long long)data);
		next = gguf_aligned(t->offset + t->bytes, alignment);
	}
}

static void gguf_take_head(struct gguf_cursor *c, struct gguf *g, uint64_t *keys, uint64_t *tensors)
{
	const uint8_t *begin = gguf_take(c, sizeof magic);
	if (begin && memcmp(begin, magic, sizeof magic) != 0)
		c->failed = err_set(c->e, EINVAL, "%s is not a GGUF file", c->name);
	g->version = (uint32_t)gguf_take_number(c, 4);
	if (!c->failed && g->version && !(g->version & 0xffff))
		c->failed =
			err_set(c->e, ENOTSUP,
				"%s is a big-endian GGUF file, which is not supported", c->name);
	if (!c->failed && g->version != 2 && g->version != 3)
		c->failed = err_set(c->e, ENOTSUP,
				    "%s is a GGUF file of version %u; versions 2 and 3 are "
				    "supported",
				    c->name, g->version);
	*tensors = gguf_take_number(c, 8);
	*keys = gguf_take_number(c, 8);
	if (*keys > MAX_KEYS || *tensors > MAX_TENSORS)
		gguf_refuse(c, EINVAL,
			    "%llu keys and %llu tensors are impossible; the file is damaged",
			    (unsigned long long)*keys, (unsigned long long)*tensors);
}

int gguf_parse(struct gguf *g, const uint8_t *bytes, size_t n, uint64_t file_bytes, uint32_t file,
	       const char *name, struct err *e)
{
	struct gguf_cursor c = {
		.bytes = bytes, .size = n, .file_bytes = file_bytes, .name = name, .e = e};
	uint64_t keys, tensors;
	gguf_take_head(&c, g, &keys, &tensors);
	gguf_take_values(&c, g, keys);
	for (uint64_t i = 0; !c.failed && i < tensors; i++)
		gguf_take_tensor(&c, g, file);
	uint64_t alignment = gguf_read_alignment(&c, g);
	if (!c.failed)
		c.failed = tensor_list_check_names(&g->tensors, 0, name, e);
	if (c.failed)
		return c.failed;
	g->data_offset = gguf_aligned(c.at, alignment);
	for (size_t i = 0; i < g->tensors.count; i++)
		g->tensors.tensors[i].place = g->data_offset + g->tensors.tensors[i].offset;
	gguf_check_places(&c, g, alignment);
	return c.failed;
}

/* Frees everything that was made from the header, but not the header. */
static void gguf_clear_values(struct gguf *g)
{
	for (size_t i = 0; i < g->count; i++)
		free(g->values[i].key);
	free(g->values);
	tensor_list_free(&g->tensors);
	*g = (struct gguf){.header = g->header, .header_bytes = g->header_bytes};
}

void gguf_clear(struct gguf *g)
{
	gguf_clear_values(g);
	free(g->header);
	*g = (struct gguf){0};
}

/* ---- files ---- */

enum { FIRST_READ = 1 << 20 };

/* Reads on up to byte n, and tries to parse all bytes so far as the header. */
static int gguf_read_header(struct gguf *g, int fd, size_t n, uint64_t size, const char *path,
			    uint32_t file, struct err *e)
{
	gguf_clear_values(g);
	size_t had = g->header_bytes;
	uint8_t *grown = realloc(g->header, n);
	if (!grown)
		return err_set(e, ENOMEM, "%s: out of memory for its header", path);
	g->header = grown;
	int failed = source_file_read(fd, g->header + had, n - had, had, path, e);
	g->header_bytes = n;
	return failed ? failed : gguf_parse(g, g->header, n, size, file, path, e);
}

/* A header does not contain its length, so twice as many bytes are read until it is complete. */
int gguf_read(struct gguf **out, int fd, uint64_t size, const char *path, uint32_t file,
	      struct err *e)
{
	struct gguf *g = calloc(1, sizeof *g);
	int failed = g ? -EAGAIN : err_set(e, ENOMEM, "%s: out of memory", path);
	for (size_t n = FIRST_READ; failed == -EAGAIN; n *= 2) {
		if (n > GGUF_MAX_HEADER)
			failed = err_set(e, EFBIG, "%s: the header is larger than %d MiB", path,
					 GGUF_MAX_HEADER >> 20);
		else
			failed = gguf_read_header(g, fd, n < size ? n : (size_t)size, size, path,
						  file, e);
	}
	if (failed)
		gguf_close(g);
	else
		*out = g;
	return failed;
}

int gguf_open(struct gguf **out, const char *path, uint32_t file, struct err *e)
{
	uint64_t size = 0;
	int fd = source_file_open(path, &size, e);
	if (fd < 0)
		return fd;
	int failed = gguf_read(out, fd, size, path, file, e);
	close(fd);
	return failed;
}

void gguf_close(struct gguf *g)
{
	if (g)
		gguf_clear(g);
	free(g);
}

bool gguf_is(const char *path)
{
	return source_file_begins_with(path, "GGUF", 4);
}

/* ---- files in parts ---- */

/* -00001-of-00003.gguf */
static const char pattern[] = "-ddddd-of-ddddd.gguf";
enum { ENDING = sizeof pattern - 1, DIGITS = 5, PART_AT = 1, COUNT_AT = 10 };

static bool gguf_ends_as_a_part(const char *ending)
{
	for (size_t i = 0; i < ENDING; i++)
		if (pattern[i] == 'd' ? !isdigit((unsigned char)ending[i])
				      : ending[i] != pattern[i])
			return false;
	return true;
}

static uint32_t gguf_digits(const char *text)
{
	uint32_t n = 0;
	for (int i = 0; i < DIGITS; i++)
		n = n * 10 + (uint32_t)(text[i] - '0');
	return n;
}

struct gguf_split gguf_split_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	struct gguf_split s = {.name = slash ? slash + 1 : path, .count = 1};
	size_t n = strlen(s.name);
	s.stem = n;
	if (n <= ENDING || !gguf_ends_as_a_part(s.name + n - ENDING))
		return s;
	uint32_t part = gguf_digits(s.name + n - ENDING + PART_AT),
		 count = gguf_digits(s.name + n - ENDING + COUNT_AT);
	if (part < 1 || part > count || count > GGUF_MAX_PARTS)
		return s;
	s.stem = n - ENDING;
	s.part = part - 1;
	s.count = count;
	return s;
}

int gguf_part_name(const struct gguf_split *s, uint32_t part, char *name, size_t size,
		   struct err *e)
{
	bool whole = !s->name[s->stem];
	int n = whole ? snprintf(name, size, "%s", s->name)
		      : snprintf(name, size, "%.*s-%05u-of-%05u.gguf", (int)s->stem, s->name,
				 part + 1, s->count);
	return n > 0 && (size_t)n < size
		       ? 0
		       : err_set(e, ENAMETOOLONG, "%.64s…: the name is too long", s->name);
}

int gguf_check_part(const struct gguf *g, const struct gguf_split *s, uint32_t part,
		    const char *path, struct err *e)
{
	uint64_t number = 0, count = 1;
	int failed = 0;
	if (gguf_has(g, "split.count"))
		failed = gguf_get_uint(g, "split.count", path, 0, UINT16_MAX, &count, e);
	if (!failed && gguf_has(g, "split.no"))
		failed = gguf_get_uint(g, "split.no", path, 0, UINT16_MAX, &number, e);
	if (failed)
		return failed;
	count = count ? count : 1;
	if (count != s->count || number != part)
		return err_set(e, EINVAL,
			       "%s is part %llu of %llu, but its name does not end in "
			       "-%05llu-of-%05llu.gguf; rename the parts to their original names",
			       path, (unsigned long long)number + 1, (unsigned long long)count,
			       (unsigned long long)number + 1, (unsigned long long)count);
	return 0;
}
