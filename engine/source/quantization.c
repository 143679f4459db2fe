#include "engine/source/quantization.h"
#include "engine/source/source_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CONFIG_BYTES = 64 << 20, MAX_BLOCK = 1 << 16 };
static const char use_instead[] =
	"mount the model in 16 bits, or as FP8 with block scales, MXFP4, MLX, native TQ or TC";

/* ---- unsupported encodings ---- */

/* quant_method, and its usual name. */
static const struct {
	const char *method, *name;
} foreign_methods[] = {
	{"gptq", "GPTQ"},
	{"awq", "AWQ"},
	{"bitsandbytes", "bitsandbytes"},
	{"compressed-tensors", "compressed-tensors"},
	{"auto-round", "AutoRound"},
	{"hqq", "HQQ"},
	{"aqlm", "AQLM"},
	{"vptq", "VPTQ"},
	{"quip", "QuIP#"},
	{"spqr", "SpQR"},
	{"eetq", "EETQ"},
	{"exl2", "EXL2"},
	{"exl3", "EXL3"},
	{"higgs", "HIGGS as FLUTE packs it"},
	{"quanto", "Quanto"},
	{"torchao", "torchao"},
	{"bitnet", "BitNet"},
	{"fbgemm_fp8", "FBGEMM FP8"},
	{"modelopt", "ModelOpt"},
	{"nvfp4", "NVFP4"},
};

/* Endings of tensor names, if config.json does not name the encoding. */
static const struct {
	const char *ending, *name;
} foreign_tensors[] = {
	{".qweight", "GPTQ or AWQ"},
	{".qzeros", "GPTQ or AWQ"},
	{".weight_packed", "compressed-tensors"},
	{".weight.absmax", "bitsandbytes"},
	{".weight.quant_map", "bitsandbytes"},
	{".SCB", "bitsandbytes"},
	{".q_weight", "EXL2"},
	{".trellis", "EXL3"},
};

const char *quantization_foreign(const char *tensor_name)
{
	for (size_t i = 0; i < sizeof foreign_tensors / sizeof *foreign_tensors; i++)
		if (source_stem(tensor_name, foreign_tensors[i].ending))
			return foreign_tensors[i].name;
	return NULL;
}

/* ---- config.json ---- */

static int quantization_unknown_table(const struct quantization *q, const char *key, struct err *e)
{
	return err_set(e, ENOTSUP,
		       "%s: \"%s\" has neither a \"quant_method\" nor MLX's \"bits\" and "
		       "\"group_size\"; the encoding of the weights is unknown",
		       q->name, key);
}

static int quantization_read_fp8(struct quantization *q, const struct json *table, struct err *e)
{
	const char *fmt;
	const struct json *block;
	uint64_t size[2];
	int failed = json_get_string_or(table, "fmt", q->name, "e4m3", &fmt, e);
	if (failed)
		return failed;
	if (strcmp(fmt, "e4m3") != 0)
		return err_set(e, ENOTSUP, "%s: FP8 of the kind \"%.32s\" is not supported; %s",
			       q->name, fmt, use_instead);
	failed = json_get_list_or_null(table, "weight_block_size", q->name, &block, e);
	if (failed)
		return failed;
	if (!block)
		return err_set(e, ENOTSUP,
			       "%s: FP8 without \"weight_block_size\" (one scale per matrix) is "
			       "not supported; %s",
			       q->name, use_instead);
	if (json_count(block) != 2)
		return json_wrong(block, "weight_block_size", q->name, "rows and columns", e);
	const struct json *v = NULL;
	for (int i = 0; i < 2 && !failed; i++) {
		v = json_next(block, v);
		failed = json_as_uint(v, "weight_block_size", q->name, 1, MAX_BLOCK, &size[i], e);
	}
	if (failed)
		return failed;
	q->block_rows = (uint32_t)size[0];
	q->block_cols = (uint32_t)size[1];
	return 0;
}

static int quantization_read_method(struct quantization *q, const struct json *table,
				    const char *key, struct err *e)
{
	const char *method;
	int failed = json_get_string_or(table, "quant_method", q->name, NULL, &method, e);
	if (failed)
		return failed;
	if (!method)
		return quantization_unknown_table(q, key, e);
	if (!strcmp(method, "fp8"))
		return quantization_read_fp8(q, table, e);
	if (!strcmp(method, "mxfp4"))
		return 0;
	for (size_t i = 0; i < sizeof foreign_methods / sizeof *foreign_methods; i++)
		if (!strcmp(foreign_methods[i].method, method))
			return err_set(
				e, ENOTSUP,
				"%s: the weights are quantised by %s, which is not supported; %s",
				q->name, foreign_methods[i].name, use_instead);
	return err_set(e, ENOTSUP,
		       "%s: the weights are quantised by the unknown method \"%.64s\"; %s", q->name,
		       method, use_instead);
}

/* Checks that MLX's table has defaults for all modules without their own settings. */
static int quantization_read_mlx(struct quantization *q, const struct json *table, const char *key,
				 struct err *e)
{
	struct mlx_codes codes;
	q->mlx = table;
	if (!json_has(table, "bits") || !json_has(table, "group_size"))
		return quantization_unknown_table(q, key, e);
	return quantization_mlx(q, "", &codes, e);
}

int quantization_parse(struct quantization *q, const struct json *config, const char *name,
		       struct err *e)
{
	static const char *const keys[] = {"quantization", "quantization_config"};
	int failed = 0;
	q->name = name;
	for (int i = 0; i < 2 && !failed; i++) {
		const struct json *table;
		failed = json_get_object_or_null(config, keys[i], name, &table, e);
		if (failed || !table)
			continue;
		q->is_said = true;
		/* MLX writes its table under both keys; older versions wrote it under one. */
		failed = i == 0 || (json_has(table, "bits") && !json_has(table, "quant_method"))
				 ? quantization_read_mlx(q, table, keys[i], e)
				 : quantization_read_method(q, table, keys[i], e);
	}
	return failed;
}

/* ---- tq_config.json, tc_config.json ---- */

static const char tq_config[] = "tq_config.json", tc_config[] = "tc_config.json";

/* Refuses other signs, groups or trellises, since they would give other weights. */
static int quantization_check_tq(struct quantization *q, const char *directory, const char *name,
				 struct err *e)
{
	struct json *document;
	uint64_t seed, group, version = 1;
	char *path = source_file_path(directory, name, e);
	if (!path)
		return -ENOMEM;
	int failed = json_parse_file(&document, path, MAX_CONFIG_BYTES, e);
	if (failed) {
		free(path);
		return failed == -ENOENT ? 0 : failed;
	}
	q->is_said = true;
	failed = json_get_uint_or(document, "quantizer_seed", path, 0, UINT32_MAX, 42, &seed, e);
	if (!failed)
		failed = json_get_uint_or(document, "group_size", path, 1, UINT32_MAX, 128, &group,
					  e);
	if (!failed && !strcmp(name, tc_config)) /* tq_config.json has no versions */
		failed = json_get_uint_or(document, "version", path, 0, UINT32_MAX, 1, &version, e);
	if (!failed && version != 1)
		failed = err_set(e, ENOTSUP,
				 "%s: codes of version %llu are not supported; only version 1 is",
				 path, (unsigned long long)version);
	if (!failed && (seed != 42 || group != 128))
		failed = err_set(e, ENOTSUP,
				 "%s: groups of %llu with the seed %llu are not supported; TQ and "
				 "TC have groups of 128 and the seed 42",
				 path, (unsigned long long)group, (unsigned long long)seed);
	json_free(document);
	free(path);
	return failed;
}

/* ---- both ---- */

int quantization_read(struct quantization *q, const char *directory, struct err *e)
{
	q->path = source_file_path(directory, "config.json", e);
	if (!q->path)
		return -ENOMEM;
	int failed = json_parse_file(&q->document, q->path, MAX_CONFIG_BYTES, e);
	if (!failed) {
		failed = quantization_parse(q, q->document, q->path, e);
		/* A multimodal model may have it in text_config. */
		const struct json *text = json_find(q->document, "text_config");
		if (!failed && text)
			failed = quantization_parse(q, text, q->path, e);
	} else if (failed == -ENOENT) {
		failed = 0;
	}
	if (!failed)
		failed = quantization_check_tq(q, directory, tq_config, e);
	return failed ? failed : quantization_check_tq(q, directory, tc_config, e);
}

void quantization_free(struct quantization *q)
{
	json_free(q->document);
	free(q->path);
	*q = (struct quantization){0};
}

/* Checks a module's settings; MXFP4 has only one kind. */
static int quantization_check_codes(const struct quantization *q, const struct mlx_codes *c,
				    struct err *e)
{
	uint32_t b = c->bits, g = c->group;
	if (c->mxfp4 && (b != 4 || g != 32))
		return err_set(e, ENOTSUP,
			       "%s: MXFP4 of %u bits in groups of %u is not supported (only 4 bits "
			       "in groups of 32)",
			       q->name, b, g);
	if (b == 7 || (g != 32 && g != 64 && g != 128))
		return err_set(e, ENOTSUP,
			       "%s: MLX weights of %u bits in groups of %u are not supported "
			       "(bits: 2, 3, 4, 5, 6 or 8; groups: 32, 64 or 128)",
			       q->name, b, g);
	return 0;
}

int quantization_mlx(const struct quantization *q, const char *module, struct mlx_codes *out,
		     struct err *e)
{
	const struct json *own = json_find(q->mlx, module);
	const struct json *from = json_kind(own) == JSON_OBJECT ? own : q->mlx;
	const char *mode;
	uint64_t b, g;
	if (!q->mlx)
		return err_set(e, EINVAL,
			       "%s: no \"quantization\" with \"bits\" and \"group_size\" for "
			       "%.256s, whose weights are in MLX's codes",
			       q->name, module);
	int failed = json_get_string_or(from, "mode", q->name, "affine", &mode, e);
	if (!failed && strcmp(mode, "affine") != 0 && strcmp(mode, "mxfp4") != 0)
		return err_set(e, ENOTSUP,
			       "%s: MLX weights of the mode \"%.32s\" are not supported; %s",
			       q->name, mode, use_instead);
	if (!failed)
		failed = json_get_uint(from, "bits", q->name, 2, 8, &b, e);
	if (!failed)
		failed = json_get_uint(from, "group_size", q->name, 32, 128, &g, e);
	if (failed)
		return failed;
	*out = (struct mlx_codes){!strcmp(mode, "mxfp4"), (uint32_t)b, (uint32_t)g};
	return quantization_check_codes(q, out, e);
}
