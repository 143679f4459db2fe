/* The sources of a model's weights: finds the tensors of a checkpoint or GGUF file by the family's
 * names for each role, checks them against a plan, and reads a role's rows, wherever they are in a
 * tensor.
 *
 * The check implements promise 1 (engine/README.md): every tensor of the plan exists with the right
 * shape, and there are no other tensors except those that the family leaves out.
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
	const char *stem;   /* replaces "model." in names */
	const char *before; /* prefix of names that do not begin with "model."; or "" */
	bool from_mlx;
	bool norms_plus_one; /* 1 was added to all norms but those of delta nets */
	bool draft;	     /* there are tensors of a draft layer */
	bool *used;	     /* [package_count], set by sources_check */
	bool *floats;	     /* [package_count], set by sources_check: types that
				sources_kept_format ignores */
};

/* Opens the package, and finds the prefix of its names and whether it has a draft layer. The config
 * must outlive s. */
int sources_open(struct sources *s, const char *directory, const struct config *c, struct err *e);
void sources_close(struct sources *s);

/* ---- checking against a plan ---- */

/* Errors name a tensor that is unknown, is missing or has a wrong shape. */
int sources_check(struct sources *s, const struct plan *p, struct err *e);
/* Sets the recipe's fields that follow from the checkpoint's headers (draft, kept, and if the
 * recipe is as_published, the published formats in *formats), checks all tensors and makes the
 * plan. The caller frees *formats, to which the recipe points. NULL: the recipe has the formats
 * already. */
int sources_plan(struct sources *s, struct published *formats, struct recipe *r, struct plan *p,
		 struct err *e);
/* Lists the names that a tensor may have in this checkpoint: "A or B". */
enum { SOURCES_NAMES = 1536 };
void sources_names(const struct sources *s, struct tensor_id id, char list[SOURCES_NAMES]);
/* Calls each() with these names for every tensor of the plan that is missing. */
void sources_missing(const struct sources *s, const struct plan *p,
		     void (*each)(void *ctx, const char *names), void *ctx);
/* The type for tensors that are not quantised: the type of all matrices if it is the same, else
 * F32, which can represent all. Call it after sources_check. */
enum format sources_kept_format(const struct sources *s);

/* ---- rows ---- */

/* The place of a role's rows in a package. */
struct source {
	const struct package_tensor *tensor;
	struct view view;
	uint32_t rows, cols; /* 1 row for a vector */
	enum format format;  /* of the rows that sources_read returns: F32, F16 or BF16 */
	size_t row_bytes;
};

/* Finds the source of a tensor; for a tied head, that of the embedding. -ENOENT: there is none.
 */
int sources_find(const struct sources *s, struct tensor_id id, struct source *out, struct err *e);
/* Reads rows [row, row + rows). If they are columns of the tensor (VIEW_ACROSS), each call reads
 * all tensor rows that they cross, so ask for at least SOURCES_ACROSS_BYTES at a time.
 */
enum { SOURCES_ACROSS_BYTES = 8 << 20 };
int sources_read(const struct sources *s, const struct source *from, uint32_t row, uint32_t rows,
		 void *buffer, struct err *e);
/* Reads the same rows as the bytes of one of the tensor's parts. */
int sources_read_part(const struct sources *s, const struct source *from, uint32_t part,
		      uint32_t row, uint32_t rows, void *buffer, struct err *e);

/* ---- n-gram tables, which are read from the published files (sources_ngrams.c) ---- */

/* The source of a shard of table `table`; -ENOENT: there is no such shard. */
int sources_find_shard(const struct sources *s, uint32_t table, uint32_t shard, struct source *out);
/* Checks the shards' shapes, and that the hash constants in the checkpoint equal those computed
 * from the config. Marks these tensors as used. */
int sources_check_ngrams(struct sources *s, struct err *e);

/* ---- published formats: quantised weights that keep their format ---- */

/* Finds the format of each role in each layer. Formats that the kernels do not support are replaced
 * by the recipe's, and different formats of the experts of one layer by F32. Frees earlier results
 * in *p. sources_check reports missing tensors. */
int sources_find_published(struct published *p, const struct sources *s, struct err *e);
void sources_free_published(struct published *p);
/* Whether the package has quantised tensors. */
bool sources_any_quantised(const struct package *p);
/* The name of the encoding that most quantised tensors have; NULL: none is quantised. */
const char *sources_encoding(const struct package *p);

#endif
