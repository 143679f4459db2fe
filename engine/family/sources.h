/* The source of a model's numbers: a checkpoint's (or GGUF file's) tensors, found by the family's
 * names of each role, checked against a plan, and read row by row, wherever a role's rows lie in a
 * tensor.
 *
 * The check is promise 1: every tensor that the plan wants is there and has the right shape, and
 * nothing is there that the plan does not want, except what the family names as left out.
 */
#ifndef MOEFS_ENGINE_FAMILY_SOURCES_H
#define MOEFS_ENGINE_FAMILY_SOURCES_H

#include "cache/err.h"
#include "engine/family/plan.h"
#include "engine/family/view.h"
#include "engine/source/package.h"

struct sources {
	struct package *package;
	const struct config *config;
	const char *stem;   /* stands for "model." in names */
	const char *before; /* stands before names that do not begin so; or "" */
	bool from_mlx;
	bool norms_plus_one; /* 1 was added to all norms but those of delta nets */
	bool draft;	     /* there are tensors of a draft */
	bool *used;	     /* [package_count], by sources_check */
	bool *floats;	     /* likewise: its type does not say in what type a store keeps numbers */
};

/* Opens the package and finds out how its names begin and whether it has a draft. The config
 * outlives the sources. */
int sources_open(struct sources *s, const char *directory, const struct config *c, struct err *e);
void sources_close(struct sources *s);

/* ---- against a plan ---- */

/* An unknown, missing or misshapen tensor is an error that names it. */
int sources_check(struct sources *s, const struct plan *p, struct err *e);
/* Adds to the recipe what the checkpoint's headers tell (a draft, the type that is kept, and in
 * *formats, if the recipe is as published, the published formats), checks all tensors and makes the
 * plan. The caller frees *formats, which the recipe refers to. NULL: the recipe has them. */
int sources_plan(struct sources *s, struct published *formats, struct recipe *r, struct plan *p,
		 struct err *e);
/* Lists the names that a tensor may have in this checkpoint: "A or B". */
enum { SOURCES_NAMES = 1536 };
void sources_names(const struct sources *s, struct tensor_id id, char list[SOURCES_NAMES]);
/* Calls each() with these names for every tensor of the plan that is missing. */
void sources_missing(const struct sources *s, const struct plan *p,
		     void (*each)(void *ctx, const char *names), void *ctx);
/* The type of tensors that are not quantised: that of all matrices if they agree, else F32, which
 * holds any. After sources_check. */
enum format sources_kept_format(const struct sources *s);

/* ---- rows ---- */

/* Where the rows of a role's tensor come from. */
struct source {
	const struct package_tensor *tensor;
	struct view view;
	uint32_t rows, cols; /* 1 row for a vector */
	enum format format;  /* that sources_read gives: F32, F16 or BF16 */
	size_t row_bytes;
};

/* Finds the source of a tensor; a tied head's is the embedding's. -ENOENT, in words: there is none.
 */
int sources_find(const struct sources *s, struct tensor_id id, struct source *out, struct err *e);
/* Reads rows [row, row + rows). Where rows lie across a tensor's, every call reads all of the
 * tensor's rows that they cross, so callers should ask for SOURCES_ACROSS_BYTES or more at a time.
 */
enum { SOURCES_ACROSS_BYTES = 8 << 20 };
int sources_read(const struct sources *s, const struct source *from, uint32_t row, uint32_t rows,
		 void *buffer, struct err *e);
/* Reads the same rows as the bytes of one of the tensor's parts. */
int sources_read_part(const struct sources *s, const struct source *from, uint32_t part,
		      uint32_t row, uint32_t rows, void *buffer, struct err *e);

/* ---- tables of n-grams, which are read where they were published (sources_ngrams.c) ---- */

/* The source of a shard of table `table`; -ENOENT: there are only so many. */
int sources_find_shard(const struct sources *s, uint32_t table, uint32_t shard, struct source *out);
/* Checks the shards' shapes, and that the constants of the hash in the checkpoint are those that
 * follow from the config. Their tensors are known from then on. */
int sources_check_ngrams(struct sources *s, struct err *e);

/* ---- published formats: quantised weights that are stored and used as published ---- */

/* Finds the format of each role in each layer. Where the kernels' products do not know a format,
 * the recipe's own is used; where the experts of a layer differ, F32. Frees what was found before.
 * Missing tensors are left to sources_check. */
int sources_find_published(struct published *p, const struct sources *s, struct err *e);
void sources_free_published(struct published *p);
/* True if the package has quantised tensors. */
bool sources_any_quantised(const struct package *p);
/* The name of the encoding of most quantised tensors; NULL: none is quantised. */
const char *sources_encoding(const struct package *p);

#endif
