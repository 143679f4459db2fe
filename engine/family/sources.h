/* A package's tensors against a plan: everything that the plan wants is there and has the right
 * shape, and nothing is there that it does not want (promise 1), but what the family names as left
 * out. And reading a role's rows, wherever in a tensor they lie. */
#ifndef MOEFS_ENGINE_FAMILY_SOURCES_H
#define MOEFS_ENGINE_FAMILY_SOURCES_H

#include "cache/err.h"
#include "engine/family/plan.h"
#include "engine/family/view.h"
#include "engine/source/package.h"

struct sources {
	struct package *package;
	const struct config *config;
	const char *stem;   /* what stands for "model." in names */
	const char *before; /* what stands before names that do not begin so; or "" */
	bool from_mlx;
	bool norms_plus_one; /* 1 was added to all norms but those of delta nets */
	bool draft;	     /* there are tensors of a draft */
	bool *used;	     /* [package_count], by sources_check */
};

/* Opens the package and finds out what its names begin with and whether there is a draft. The
 * config outlives the sources. */
int sources_open(struct sources *s, const char *directory, const struct config *c, struct err *e);
/* An unknown, missing or misshapen tensor is an error that names it. */
int sources_check(struct sources *s, const struct plan *p, struct err *e);
/* What a tensor may be called here: "A or B". */
enum { SOURCES_NAMES = 1536 };
void sources_names(const struct sources *s, struct tensor_id id, char list[SOURCES_NAMES]);
/* Tells every tensor of the plan that is not there, by those names. */
void sources_missing(const struct sources *s, const struct plan *p,
		     void (*each)(void *ctx, const char *names), void *ctx);
void sources_close(struct sources *s);

/* Where a role's rows come from. */
struct source {
	const struct package_tensor *tensor;
	struct view view;
	uint32_t rows, cols; /* 1 row for a vector */
	enum format format;  /* that sources_read gives: F32, F16 or BF16 */
	size_t row_bytes;
};

/* The source of the tensor with that id (a tied head's is the embedding's); -ENOENT with words. */
int sources_find(const struct sources *s, struct tensor_id id, struct source *out, struct err *e);
/* Rows [row, row + rows) of it. */
int sources_read(const struct sources *s, const struct source *from, uint32_t row, uint32_t rows,
		 void *buffer, struct err *e);

/* The same rows as the bytes of one of the tensor's parts. */
int sources_read_part(const struct sources *s, const struct source *from, uint32_t part,
		      uint32_t row, uint32_t rows, void *buffer, struct err *e);

/* The type of what is not quantised: that of all matrices if they agree, else F32, which holds any.
 * After sources_check. */
enum format sources_kept_format(const struct sources *s);

#endif
