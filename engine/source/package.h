/* A package: the tensors of a source by name, shape and type, whatever the container format and
 * encoding. It does not know what a tensor is for.
 *
 * Companions (scales, norms) are folded into the tensor that they belong to. A tensor is a matrix
 * of rows: its last dimension is a row, and all others together count the rows. Rows can be read as
 * numbers, or as stored bytes in up to three parts. Callers that compute with the stored bytes can
 * get the parts' places in the files and read them directly.
 *
 * Constant once opened; any number of threads may read.
 */
#ifndef MOEFS_ENGINE_SOURCE_PACKAGE_H
#define MOEFS_ENGINE_SOURCE_PACKAGE_H

#include "cache/err.h"
#include "engine/source/checkpoint.h"

/* ---- encodings ---- */

/* Encodings: how the numbers of a published tensor are stored (encodings.c).
 *
 * A tensor of a package may be stored as several tensors: codes, and companions that hold scales,
 * offsets or norms. An encoding knows which of them belong together, the resulting shape, and how
 * to decode a row. It reads no files; the package reads the bytes.
 */

enum { PACKAGE_PARTS = 3, ENCODING_COMPANIONS = PACKAGE_PARTS - 1 };

struct package_tensor;
struct quantization;

/* The stored tensors of one tensor in a safetensors checkpoint: its codes, and each companion or
 * NULL. */
struct encoded_tensor {
	const struct checkpoint_tensor *codes, *companion[ENCODING_COMPANIONS];
	const struct quantization *config; /* what config.json says about encodings */
};

struct encoding {
	const char *name; /* for messages: "FP8" */

	/* In safetensors: the type of the codes; the ending of their name; the endings of the
	 * tensor's own name and of its companions' names in place of it. NULL: none. */
	const char *type, *ending, *own;
	const char *companion[ENCODING_COMPANIONS];
	/* Whether codes of this type and name have this encoding; NULL: always. */
	bool (*is)(const struct encoded_tensor *in);
	/* Fills shape, group, bits and parts of a tensor whose name is set, and checks all sizes.
	 * -EINVAL, -ENOTSUP; the sentence names the tensor. */
	int (*describe)(struct package_tensor *t, const struct encoded_tensor *in, struct err *e);

	/* Decodes one row to out[cols], for tensors that are not in a kernel format. part[i] is the
	 * row of the i-th part, unaligned. */
	void (*decode)(const struct package_tensor *t, const uint8_t *const *part, uint32_t cols,
		       float *out);
};

extern const struct encoding encoding_plain; /* floats, and types that cannot be read */
extern const struct encoding encoding_fp8, encoding_fp8_powers, encoding_mxfp4_pairs, encoding_mlx_mxfp4, encoding_affine, encoding_mxfp4,
	encoding_tq, encoding_tc, encoding_q8_0, encoding_q6_k, encoding_q5_0;

/* The encodings of safetensors in the order in which they are tried; NULL-terminated. */
extern const struct encoding *const encodings[];

/* ---- tensors ---- */

/* A part's rows are contiguous. Each row of the part belongs to `share` rows of a matrix (the last
 * two dimensions); the last one perhaps to fewer. share is 1 except for encodings with blocks of
 * several rows.
 */
struct package_part {
	uint32_t file;	 /* of package_files */
	uint64_t offset; /* in that file */
	uint64_t bytes, row_bytes;
	uint32_t share;
	enum format format; /* of the part's numbers; FORMAT_COUNT: not floats */
};

struct package_tensor {
	char *name; /* owned by the package */
	const struct encoding *encoding;
	char type[16]; /* of the codes, as written in the file */
	uint32_t dims;
	uint64_t shape[CHECKPOINT_MAX_DIMS]; /* in elements */
	/* Not 0: the file does not give the exact shape. All dimensions but the last are given as
	 * one, and the last is rounded up to a multiple of this number. */
	uint32_t padded;
	uint32_t bits, group; /* bits per code; codes per scale. Their exact meaning depends on the
				 encoding */
	uint32_t parts;	      /* 0: the type cannot be read */
	struct package_part part[PACKAGE_PARTS];
	/* If the stored bytes are already in a kernel format: the format, and the type of its
	 * norms. FORMAT_COUNT: they are not. */
	enum format format;
	enum norm_type norms;
};

struct gguf;
struct package;

/* Opens a checkpoint's folder, a GGUF file, or its first part. Reads and checks headers, but no
 * weights. -ENOTSUP: the encoding, named in the sentence, is not supported. */
int package_open(struct package **out, const char *path, struct err *e);
/* The same for a GGUF file or its first part. *first gets the header, so that it is read only once;
 * close it with gguf_close. */
int package_open_gguf(struct package **out, struct gguf **first, const char *path, struct err *e);
void package_close(struct package *p); /* NULL is fine */

size_t package_count(const struct package *p);
/* The i-th tensor in the order of names. */
const struct package_tensor *package_tensor(const struct package *p, size_t i);
/* NULL: no such tensor. Also finds NAME.weight under NAME, if an encoding names its codes so.
 */
const struct package_tensor *package_find(const struct package *p, const char *name);
/* The files that contain the tensors. The package owns them. */
struct files *package_files(const struct package *p);

/* Whether the tensor has this shape. Dimensions of 1 in the middle do not count, nor sizes that the
 * file does not give (package_tensor.padded). */
bool package_fits(const struct package_tensor *t, const uint64_t *shape, uint32_t dims);
/* "[16, 96, 128]" */
void package_print_shape(char *text, size_t size, const uint64_t *shape, uint32_t dims);
uint64_t package_rows(const struct package_tensor *t);
/* For a tensor with a kernel format: the kernels' shape of some rows. */
struct shape package_shape(const struct package_tensor *t, uint32_t rows, uint32_t cols);
/* The format that package_read returns: the tensor's type if it is F32, F16 or BF16, else F32. */
enum format package_read_format(const struct package_tensor *t);

/* Reads rows [row, row + rows). cols: the row length of a shape that package_fits accepts. Numbers
 * with scales are exact products, rounded once to F32. -EIO: a file no longer has the bytes. */
int package_read(const struct package *p, const struct package_tensor *t, uint64_t row,
		 uint32_t rows, uint32_t cols, void *out, struct err *e);

struct package_place {
	uint32_t file;
	uint64_t offset, bytes;
};
/* The place of these rows of a part. If the part has share > 1, the rows must be in one matrix. */
struct package_place package_place(const struct package_tensor *t, uint32_t part, uint64_t row,
				   uint32_t rows);
/* Reads the bytes at that place. */
int package_read_part(const struct package *p, const struct package_tensor *t, uint32_t part,
		      uint64_t row, uint32_t rows, void *out, struct err *e);

#endif
