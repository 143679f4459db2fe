/* Internal to gguf_convert*.c: the description of a file, and the rearrangements of tensors
 * (gguf_convert_shapes.c). */
#ifndef MOEFS_TESTS_UNIT_GGUF_CONVERT_SHAPES_H
#define MOEFS_TESTS_UNIT_GGUF_CONVERT_SHAPES_H

#include "checkpoint_help.h"
#include "gguf_convert.h"

#include <json-c/json.h>
#include <stdbool.h>

enum { NAME = 256, TENSORS_MOST = 1024 };

/* A tensor as the file gets it. */
struct out {
	char name[NAME];
	size_t dims;
	uint64_t shape[4];
	float *x;
	size_t count;
	uint8_t *blocks; /* MXFP4, in place of x */
	bool whole;	 /* x becomes whole numbers */
};
struct maker {
	const struct gguf_conversion *c;
	struct json_object *document, *config; /* config: the text part */
	struct test_checkpoint from;
	struct out out[TENSORS_MOST];
	size_t count;
	uint32_t layers;
};

/* NULL: there is none. */
struct json_object *maker_member(struct json_object *o, const char *key);
uint32_t maker_number(const struct maker *m,
		      const char *key); /* of the config; 0: it is not there */
uint32_t maker_head_dim(const struct maker *m);
bool maker_is(const struct maker *m, const char *architecture);
bool maker_ends(const char *name, const char *ending);

struct out *maker_add(struct maker *m, const char *name);
struct out *maker_add_copy(struct maker *m, const char *name, const struct test_tensor *t);

/* Pairs of rows that a rotation turns become neighbours. */
void maker_pair(struct maker *m, struct out *o);
/* The parts of a tensor that a delta net's value heads are reordered in. */
void maker_tile(struct maker *m, const char *part, struct out *o);
/* q, k, v and z, head by head as published: all q, all k and all v, or all z. */
void maker_unfuse(struct maker *m, const char *layer, const struct test_tensor *t);
/* One of the two matrices gate and up, which are stacked in each expert. */
void maker_halve(struct maker *m, const char *name, const struct test_tensor *t, size_t half);
/* One expert's matrix, added to the stack of its layer, in the order of experts. */
void maker_stack(struct maker *m, const char *layer, const char *as, uint32_t expert,
		 uint32_t experts, const struct test_tensor *t);
/* From gpt-oss' experts, [in, out]: rows first, first + step … of [out, in]. */
void maker_turn(struct maker *m, const char *name, const struct test_tensor *t, size_t first,
		size_t step);
/* The same for their biases, and for their blocks (already [out, in]) with scales. */
void maker_pick(struct maker *m, const char *name, const struct test_tensor *t, size_t first,
		size_t step);
void maker_blocks(struct maker *m, const char *name, const struct test_tensor *t, size_t first,
		  size_t step);
/* Latent attention's kv_b: the keys' part, transposed for each head, and the values' part. */
void maker_split_latent(struct maker *m, const char *layer, const struct test_tensor *t);

/* Families whose keys and tensors are tables (gguf_convert_tables.c). */
bool maker_has_table(const struct maker *m);
void maker_put_table_keys(struct test_gguf *g, const struct maker *m);
void maker_put_by_table(struct maker *m, const struct test_tensor *t);

#endif
