/* The header of one GGUF file: a table of keys with typed values, and the tensors with their
 * places. (The format: github.com/ggml-org/ggml, docs/gguf.md; versions 2 and 3, little-endian.)
 *
 * The file is not trusted: each length is checked against the rest of the file before it is used,
 * tables grow only as entries are read, and memory use is a small multiple of the header's size.
 */
#ifndef MOEFS_ENGINE_SOURCE_GGUF_H
#define MOEFS_ENGINE_SOURCE_GGUF_H

#include "cache/err.h"
#include "engine/source/tensor_list.h"
#include "kernels/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	GGUF_MAX_HEADER = 256 << 20, /* the largest vocabularies take 20 MB */
	GGUF_MAX_KEY = 65535,
	GGUF_MAX_DIMS = 4,
	GGUF_MAX_NAME = 512, /* of a tensor */
};

/* With the numbers that files use. */
enum gguf_kind {
	GGUF_U8,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY, /* arrays of arrays are not supported */
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
	GGUF_KINDS
};
const char *gguf_kind_name(enum gguf_kind k); /* "u8", "string" … */

struct gguf_value {
	char *key;
	enum gguf_kind kind;
	enum gguf_kind element; /* array: the kind of its elements; else `kind` */
	uint64_t count;		/* array: number of elements; else 1 */
	const uint8_t *bytes;	/* in the header; array: the elements, one after the other */
	size_t size;
};

struct gguf { /* owns all memory that its values point to */
	uint8_t *header;
	size_t header_bytes;
	struct gguf_value *values; /* sorted by key */
	size_t count, room;
	struct tensor_list tensors; /* sorted by place of their data */
	uint32_t version;
	uint64_t data_offset; /* where the data begins; tensors' offsets count from here */
};

/* Reads a file's header. The tensors get `file` as their file number. */
int gguf_open(struct gguf **out, const char *path, uint32_t file, struct err *e);
/* The same for an open file of this size; path is for messages. */
int gguf_read(struct gguf **out, int fd, uint64_t size, const char *path, uint32_t file,
	      struct err *e);
void gguf_close(struct gguf *g); /* NULL is fine */
/* The same from the first n bytes of a file of file_bytes. The bytes must outlive g. g must be
 * zero-initialised; clear it with gguf_clear, also after an error. -EAGAIN: the header is longer
 * than n. */
int gguf_parse(struct gguf *g, const uint8_t *bytes, size_t n, uint64_t file_bytes, uint32_t file,
	       const char *name, struct err *e);
void gguf_clear(struct gguf *g);
/* Whether a file begins like a GGUF file. */
bool gguf_is(const char *path);

/* ---- the values ---- */

/* NULL: there is none. */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);
static inline bool gguf_has(const struct gguf *g, const char *key)
{
	return gguf_find(g, key) != NULL;
}

/* All of these: -ENOENT: no such key; -EINVAL: the value has another kind; -ERANGE: the value is
 * out of bounds. name: of the file, for messages. */

/* Accepts any kind of integer. */
int gguf_get_uint(const struct gguf *g, const char *key, const char *name, uint64_t least,
		  uint64_t most, uint64_t *out, struct err *e);
int gguf_get_double(const struct gguf *g, const char *key, const char *name, double *out,
		    struct err *e);
int gguf_get_bool(const struct gguf *g, const char *key, const char *name, bool *out,
		  struct err *e);
/* The string is not NUL-terminated, may contain any byte, and lives as long as g. */
int gguf_get_string(const struct gguf *g, const char *key, const char *name, const char **text,
		    size_t *length, struct err *e);
int gguf_get_array(const struct gguf *g, const char *key, const char *name, enum gguf_kind element,
		   const struct gguf_value **out, struct err *e);

/* A number, or element i of an array of numbers. False: not an integer, or negative. */
bool gguf_uint(const struct gguf_value *v, uint64_t i, uint64_t *out);
/* The same for any kind of number. */
bool gguf_double(const struct gguf_value *v, uint64_t i, double *out);
/* The next string of an array, in constant time. Set *at to 0 before the first. False: no more
 * strings. */
bool gguf_next_string(const struct gguf_value *v, size_t *at, const char **text, size_t *length);

/* ---- types of tensors ---- */

/* GGUF's tensor types, with the numbers and bytes per block. */
struct gguf_type {
	const char *name; /* "Q4_K" */
	uint32_t number;  /* in files */
	uint32_t block, bytes;
	enum format format; /* FORMAT_COUNT: moefs cannot compute with it */
};

/* NULL: an unknown type. */
const struct gguf_type *gguf_type_find(uint64_t number);

/* ---- files in parts ---- */

/* GGUF files that are split into parts: NAME-00001-of-00003.gguf and so on. The first part has all
 * keys. Each part has tensors, its own number, and the number of parts. */
enum { GGUF_MAX_PARTS = 4096 };

struct gguf_split {
	const char *name;     /* name of the given file, inside the path */
	size_t stem;	      /* length of the beginning that all parts have in common */
	uint32_t part, count; /* part counts from 0; an unsplit file is the only part */
};

/* Judged only by the file name at the end of the path. */
struct gguf_split gguf_split_of(const char *path);
/* The name of a part. */
int gguf_part_name(const struct gguf_split *s, uint32_t part, char *name, size_t size,
		   struct err *e);
/* Checks that a part's keys agree with its name. */
int gguf_check_part(const struct gguf *g, const struct gguf_split *s, uint32_t part,
		    const char *path, struct err *e);

#endif
