/* Encodings: how the numbers of a published tensor are written, one file each.
 *
 * A tensor as others see it (package.h) may be several in its file: codes, and companions that hold
 * scales, offsets or norms. An encoding says which belong together, what shape that makes, and what
 * numbers a row of it is. It reads no file: the package brings the bytes.
 */
#ifndef MOEFS_ENGINE_SOURCE_ENCODING_H
#define MOEFS_ENGINE_SOURCE_ENCODING_H

#include "cache/err.h"
#include "engine/source/checkpoint.h"

enum { PACKAGE_PARTS = 3, ENCODING_COMPANIONS = PACKAGE_PARTS - 1 };

struct package_tensor;
struct quantization;

/* What a safetensors checkpoint has of one tensor: the codes, and each companion or NULL. */
struct encoded {
	const struct checkpoint_tensor *codes, *companion[ENCODING_COMPANIONS];
	const struct quantization *config; /* what config.json says of encodings */
};

struct encoding {
	const char *name; /* as sentences have it: "FP8" */

	/* In safetensors: the type of the codes, what their name ends with, what the tensor's own
	 * name has in place of that, and what the names of companions have. NULL: not there. */
	const char *type, *ending, *own;
	const char *companion[ENCODING_COMPANIONS];
	/* Whether codes of that type and name are this encoding's, where that alone does not say
	 * so; NULL: they are. */
	bool (*is)(const struct encoded *in);
	/* Fills shape, group, bits and parts of a tensor that has its name already, every size
	 * checked. -EINVAL, -ENOTSUP in words that name the tensor. */
	int (*describe)(struct package_tensor *t, const struct encoded *in, struct err *e);

	/* One row, of a tensor in none of the kernels' formats: out[cols]. part[i] is the row of
	 * the i-th part, not aligned. */
	void (*decode)(const struct package_tensor *t, const uint8_t *const *part, uint32_t cols,
		       float *out);
};

extern const struct encoding encoding_plain; /* floats, and what cannot be read */
extern const struct encoding encoding_fp8, encoding_mlx_mxfp4, encoding_affine, encoding_mxfp4,
	encoding_tq, encoding_tc, encoding_q8_0;

/* For safetensors, in the order in which they are tried; NULL-terminated. */
extern const struct encoding *const encodings[];

#endif
