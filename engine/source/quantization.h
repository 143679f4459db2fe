/* What a checkpoint's folder says of its encodings beside the tensors themselves: config.json's
 * "quantization_config" (FP8, MXFP4, and what is not read) and "quantization" (MLX), and
 * tq_config.json or tc_config.json. Formats that are known but not read are refused here by their
 * names. */
#ifndef MOEFS_ENGINE_SOURCE_QUANTIZATION_H
#define MOEFS_ENGINE_SOURCE_QUANTIZATION_H

#include "cache/err.h"
#include "engine/json/json.h"

struct quantization {			 /* zero-initialise */
	const char *name;		 /* of config.json, for sentences */
	bool is_said;			 /* that weights are quantised */
	const struct json *mlx;		 /* its table, or NULL */
	uint32_t block_rows, block_cols; /* of FP8 scales; 0: there are none */

	struct json *document; /* of quantization_read */
	char *path;	       /* likewise */
};

/* What the object of a config.json says; it and its name outlive q. -ENOTSUP: an encoding that is
 * not read. */
int quantization_parse(struct quantization *q, const struct json *config, const char *name,
		       struct err *e);
/* The same from a checkpoint's folder, with tq_config.json and tc_config.json. Files that are not
 * there say nothing. */
int quantization_read(struct quantization *q, const char *directory, struct err *e);
void quantization_free(struct quantization *q); /* also after a failure */

/* What MLX says of a module (a tensor's name without .weight). */
struct mlx_codes {
	bool mxfp4; /* else affine */
	uint32_t bits, group;
};
int quantization_mlx(const struct quantization *q, const char *module, struct mlx_codes *out,
		     struct err *e);

/* The name of the known encoding whose tensors have such names; NULL: none. */
const char *quantization_foreign(const char *tensor_name);

#endif
