/* What a source offers: tensors by name, shape and type, whatever files they lie in and however
 * their numbers are written, without knowing what a tensor is for.
 *
 * Companions (scales, norms) are folded into the tensor that they belong to. A tensor is a matrix
 * of rows: its last dimension is a row, and all others together count the rows. Rows are read as
 * numbers, or as stored bytes in up to three parts. The parts have places in files, so that a
 * caller that computes with the bytes as they are can read them itself.
 *
 * Immutable once opened; any number of threads may read.
 */
#ifndef MOEFS_ENGINE_SOURCE_PACKAGE_H
#define MOEFS_ENGINE_SOURCE_PACKAGE_H

#include "cache/err.h"
#include "engine/source/checkpoint.h"

/* ---- encodings ---- */

/* Encodings: how the numbers of a published tensor are written (encodings.c).
 *
 * A tensor of a package may be several in its file: codes, and companions that hold scales, offsets
 * or norms. An encoding says which belong together, what shape they make, and what numbers a row
 * has. It reads no file: the package brings the bytes.
 */

enum { PACKAGE_PARTS = 3, ENCODING_COMPANIONS = PACKAGE_PARTS - 1 };

struct package_tensor;
struct quantization;

/* What a safetensors checkpoint has of one tensor: the codes, and each companion or NULL. */
struct encoded_tensor {
	const struct checkpoint_tensor *codes, *companion[ENCODING_COMPANIONS];
	const struct quantization *config; /* what config.json says of encodings */
};

struct encoding {
	const char *name; /* as sentences have it: "FP8" */

	/* In safetensors: the type of the codes, what their name ends with, what the tensor's own
	 * name has in place of that, and what the names of companions have. NULL: not there. */
	const char *type, *ending, *own;
	const char *companion[ENCODING_COMPANIONS];
	/* Whether codes of that type and name have this encoding, where type and name alone do not
	 * decide; NULL: they have. */
	bool (*is)(const struct encoded_tensor *in);
	/* Fills shape, group, bits and parts of a tensor that has its name already, every size
	 * checked. -EINVAL, -ENOTSUP in words that name the tensor. */
	int (*describe)(struct package_tensor *t, const struct encoded_tensor *in, struct err *e);

	/* One row, of a tensor in none of the kernels' formats: out[cols]. part[i] is the row of
	 * the i-th part, not aligned. */
	void (*decode)(const struct package_tensor *t, const uint8_t *const *part, uint32_t cols,
		       float *out);
};

extern const struct encoding encoding_plain; /* floats, and what cannot be read */
extern const struct encoding encoding_fp8, encoding_fp8_powers, encoding_mxfp4_pairs, encoding_mlx_mxfp4, encoding_affine, encoding_mxfp4,
	encoding_tq, encoding_tc, encoding_q8_0, encoding_q6_k, encoding_q5_0;

/* For safetensors, in the order in which they are tried; NULL-terminated. */
extern const struct encoding *const encodings[];

/* ---- tensors ---- */

/* A part's rows lie one after the other. `share` rows of a matrix (the last two dimensions) have
 * one row of the part in common, the last of them perhaps fewer: 1 but for blocks of several rows.
 */
struct package_part {
	uint32_t file;	 /* of package_files */
	uint64_t offset; /* in that file */
	uint64_t bytes, row_bytes;
	uint32_t share;
	enum format format; /* of numbers that are floats; FORMAT_COUNT: they are none */
};

struct package_tensor {
	char *name; /* the package's */
	const struct encoding *encoding;
	char type[16]; /* as the file says; of the codes */
	uint32_t dims;
	uint64_t shape[CHECKPOINT_MAX_DIMS]; /* in elements */
	/* Not 0: the file says less. All dimensions but the last are one, and the last is rounded
	 * up to a multiple of this. */
	uint32_t padded;
	uint32_t bits, group; /* of one code; codes with one scale. As its encoding wants them */
	uint32_t parts;	      /* 0: of a type that cannot be read */
	struct package_part part[PACKAGE_PARTS];
	/* The kernels' format of its bytes, which are then its pieces as they are, and the type of
	 * norms; FORMAT_COUNT: none. */
	enum format format;
	enum norm_type norms;
};

struct gguf;
struct package;

/* A checkpoint's folder, or a GGUF file or its first part. Headers are read and checked, no
 * weights. -ENOTSUP names an encoding that is not read. */
int package_open(struct package **out, const char *path, struct err *e);
/* The same of a GGUF file or its first part, whose header *first becomes, read once for both; the
 * caller closes it with gguf_close. */
int package_open_gguf(struct package **out, struct gguf **first, const char *path, struct err *e);
void package_close(struct package *p); /* NULL is fine */

size_t package_count(const struct package *p);
/* The i-th tensor in the order of names. */
const struct package_tensor *package_tensor(const struct package *p, size_t i);
/* NULL: there is none. NAME.weight is also found as NAME where an encoding's codes are called so.
 */
const struct package_tensor *package_find(const struct package *p, const char *name);
/* The files that the tensors lie in; the package's. */
struct files *package_files(const struct package *p);

/* Whether the tensor can have that shape: exactly, except for dimensions of 1 in the middle, and
 * for what the file does not say. */
bool package_fits(const struct package_tensor *t, const uint64_t *shape, uint32_t dims);
/* "[16, 96, 128]" */
void package_print_shape(char *text, size_t size, const uint64_t *shape, uint32_t dims);
uint64_t package_rows(const struct package_tensor *t);
/* Of a tensor with a format: rows of it as the kernels know them. */
struct shape package_shape(const struct package_tensor *t, uint32_t rows, uint32_t cols);
/* What package_read gives: the tensor's own type if it is F32, F16 or BF16, else F32. */
enum format package_read_format(const struct package_tensor *t);

/* Rows [row, row + rows), the first `cols` numbers of each, which are all of a shape that fits.
 * Numbers in groups are exact products of what is in the file, rounded once to F32. -EIO if a file
 * no longer has them. */
int package_read(const struct package *p, const struct package_tensor *t, uint64_t row,
		 uint32_t rows, uint32_t cols, void *out, struct err *e);

struct package_place {
	uint32_t file;
	uint64_t offset, bytes;
};
/* Where a part of these rows lies; the rows are of one matrix if they share rows of the part. */
struct package_place package_place(const struct package_tensor *t, uint32_t part, uint64_t row,
				   uint32_t rows);
/* Reads those bytes. */
int package_read_part(const struct package *p, const struct package_tensor *t, uint32_t part,
		      uint64_t row, uint32_t rows, void *out, struct err *e);

#endif
