/* The header of one GGUF file: a table of keys with typed values, and what tensors there are and
 * where. (The format: github.com/ggml-org/ggml, docs/gguf.md; versions 2 and 3, little-endian.)
 *
 * No length is trusted: each is checked against the rest of the file before it is used, tables grow
 * as their entries are read and never by a number of the file, and what is kept is a small multiple
 * of the header's own size.
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

/* As the file numbers them. */
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
	GGUF_ARRAY, /* never of arrays here */
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
	GGUF_KINDS
};
const char *gguf_kind_name(enum gguf_kind k); /* "u8", "string" … */

struct gguf_value {
	char *key;
	enum gguf_kind kind;
	enum gguf_kind element; /* of an array: its elements' kind; else `kind` */
	uint64_t count;		/* of an array: how many; else 1 */
	const uint8_t *bytes;	/* in the header: of an array its elements, one after the other */
	size_t size;
};

struct gguf { /* owns all that its values point at */
	uint8_t *header;
	size_t header_bytes;
	struct gguf_value *values; /* in the order of their keys */
	size_t count, room;
	struct tensor_list tensors; /* in the order of their data */
	uint32_t version;
	uint64_t data_offset; /* where in the file the tensors' offsets count from */
};

/* Reads a file's header. The tensors get `file` as their number. */
int gguf_open(struct gguf **out, const char *path, uint32_t file, struct err *e);
/* The same of an open file of that size; path is for messages. */
int gguf_read(struct gguf **out, int fd, uint64_t size, const char *path, uint32_t file,
	      struct err *e);
void gguf_close(struct gguf *g); /* NULL is fine */
/* The same from the first bytes of a file that has file_bytes; they must outlive g, which is
 * zero-initialised and is to be cleared with gguf_clear whatever happens. -EAGAIN: the header is
 * longer than n. */
int gguf_parse(struct gguf *g, const uint8_t *bytes, size_t n, uint64_t file_bytes, uint32_t file,
	       const char *name, struct err *e);
void gguf_clear(struct gguf *g);
/* Whether a file begins as a GGUF file does. */
bool gguf_is(const char *path);

/* ---- the values ---- */

/* NULL: there is none. */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);
static inline bool gguf_has(const struct gguf *g, const char *key)
{
	return gguf_find(g, key) != NULL;
}

/* All of these: -ENOENT without the key, -EINVAL for a value of another kind, -ERANGE for one that
 * is out of bounds; name is the file's. */

/* Of any kind of integer. */
int gguf_get_uint(const struct gguf *g, const char *key, const char *name, uint64_t least,
		  uint64_t most, uint64_t *out, struct err *e);
int gguf_get_double(const struct gguf *g, const char *key, const char *name, double *out,
		    struct err *e);
int gguf_get_bool(const struct gguf *g, const char *key, const char *name, bool *out,
		  struct err *e);
/* Not terminated, and may hold any byte; lives as long as g. */
int gguf_get_string(const struct gguf *g, const char *key, const char *name, const char **text,
		    size_t *length, struct err *e);
int gguf_get_array(const struct gguf *g, const char *key, const char *name, enum gguf_kind element,
		   const struct gguf_value **out, struct err *e);

/* A number, or element i of an array of numbers. False if it is not an integer, or negative. */
bool gguf_uint(const struct gguf_value *v, uint64_t i, uint64_t *out);
/* Of any kind of number. */
bool gguf_double(const struct gguf_value *v, uint64_t i, double *out);
/* The strings of an array one after the other, in constant time each; *at begins as 0. False: there
 * are no more. */
bool gguf_next_string(const struct gguf_value *v, size_t *at, const char **text, size_t *length);

/* ---- types of tensors ---- */

/* GGUF's tensor types: how many numbers a block has and how many bytes. */
struct gguf_type {
	const char *name; /* "Q4_K" */
	uint32_t number;  /* in files */
	uint32_t block, bytes;
	enum format format; /* FORMAT_COUNT: it cannot be computed with */
};

/* NULL: it is not known. */
const struct gguf_type *gguf_type_find(uint64_t number);

/* ---- files in parts ---- */

/* GGUF files that are split into parts: NAME-00001-of-00003.gguf and so on. The first has all the
 * keys; each has tensors, and says which part of how many it is. */
enum { GGUF_MAX_PARTS = 4096 };

struct gguf_split {
	const char *name;     /* of the file that was given, without its folder; the path's */
	size_t stem;	      /* how much of it the parts have in common, at the beginning */
	uint32_t part, count; /* counted from 0; a file that is not split is the only part */
};

/* By the name of the file alone, which is at the end of the path. */
struct gguf_split gguf_split_of(const char *path);
/* The name of a part. */
int gguf_part_name(const struct gguf_split *s, uint32_t part, char *name, size_t size,
		   struct err *e);
/* Whether a part's keys say what its name says. */
int gguf_check_part(const struct gguf *g, const struct gguf_split *s, uint32_t part,
		    const char *path, struct err *e);

#endif
