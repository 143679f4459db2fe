/* What a checkpoint's JSON files say about its encodings: "quantization_config" (FP8, MXFP4 and
 * unsupported ones) and "quantization" (MLX) in config.json, and tq_config.json or tc_config.json.
 * Refuses known formats that are not supported, by name. */
#ifndef MOEFS_ENGINE_SOURCE_QUANTIZATION_H
#define MOEFS_ENGINE_SOURCE_QUANTIZATION_H

#include "cache/err.h"
#include "engine/json/json.h"

struct quantization {			 /* zero-initialise */
	const char *name;		 /* of config.json, for messages */
	bool is_said;			 /* a file says that weights are quantised */
	const struct json *mlx;		 /* MLX's table, or NULL */
	uint32_t block_rows, block_cols; /* block size of FP8 scales; 0: none */

	struct json *document; /* owned, set by quantization_read */
	char *path;	       /* owned, set by quantization_read */
};

/* Parses the object of a config.json, which must outlive q, as must name. -ENOTSUP: an unsupported
 * encoding. */
int quantization_parse(struct quantization *q, const struct json *config, const char *name,
		       struct err *e);
/* The same from a checkpoint's folder, including tq_config.json and tc_config.json. Missing files
 * are ignored. */
int quantization_read(struct quantization *q, const char *directory, struct err *e);
void quantization_free(struct quantization *q); /* also after a failure */

/* MLX's settings for a module (a tensor's name without .weight). */
struct mlx_codes {
	bool mxfp4; /* else affine */
	uint32_t bits, group;
};
int quantization_mlx(const struct quantization *q, const char *module, struct mlx_codes *out,
		     struct err *e);

/* The unsupported encoding that this tensor name reveals; NULL: none. */
const char *quantization_foreign(const char *tensor_name);

#endif
