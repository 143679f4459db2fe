/* moefs-bench make: a synthetic model of real geometry that moefs and moefs-bench run can mount:
 * OUT with config.json and a tokenizer, and beside it, where every mount looks, OUT.moefs/QUANT
 * with the store. There is no checkpoint: the store is all there is of the weights. With --raw it
 * is the other way round: a BF16 checkpoint in OUT, and no store. With --gguf OUT is a single file
 * that says all of it. */
#include "engine/source/identity.h"
#include "engine/json/json.h"
#include "tests/bench/bench.h"
#include "tests/bench/synthetic.h"
#include "tests/bench/synthetic_gguf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKENIZER_BYTES_MOST = 64 << 20 };

struct make {
	const char *operands[2]; /* config.json, OUT */
	const char *quant, *codec, *tokenizer, *gguf;
	uint64_t layers, seed;
	double skew;
	bool raw;
	struct effort effort;
	char *directory;	    /* OUT, absolute */
	const struct gguf_mix *mix; /* of --gguf */
	uint64_t gguf_bytes;
	struct config config;
	struct recipe recipe;
	struct plan plan;
};

static int write_file(const char *path, const char *text, size_t n, struct err *e)
{
	FILE *f = fopen(path, "we");
	if (!f)
		return err_sys(e, errno, "%s: cannot be written", path);
	bool bad = fwrite(text, 1, n, f) != n;
	return fclose(f) || bad ? err_sys(e, errno, "%s: cannot be written", path) : 0;
}

/* DIRECTORY/FILE; NULL with words when memory is short. */
static char *path_in(const char *directory, const char *file, struct err *e)
{
	char *path;
	if (asprintf(&path, "%s/%s", directory, file) >= 0)
		return path;
	err_set(e, ENOMEM, "out of memory for the name of a file");
	return NULL;
}

/* ---- the directory ---- */

/* Where the model's numbers are: the whole, or the text part of a model that also sees. */
static struct json_object *numbers_of(struct json_object *json)
{
	struct json_object *text;
	bool nested = json_object_object_get_ex(json, "text_config", &text) &&
		      json_object_is_type(text, json_type_object);
	return nested ? text : json;
}

static void cut_layers(struct json_object *json, uint64_t layers)
{
	struct json_object *types;
	json_object_object_add(json, "num_hidden_layers", json_object_new_int64((int64_t)layers));
	size_t n = json_object_object_get_ex(json, "layer_types", &types) &&
				   json_object_is_type(types, json_type_array)
			   ? json_object_array_length(types)
			   : 0;
	if (n > layers)
		json_object_array_del_idx(types, layers, n - layers);
}

/* config.json as it was but for the number of layers and a list of their types; malloc'ed. */
static int config_text(const struct make *m, char **out, struct err *e)
{
	struct json_object *json = json_object_from_file(m->operands[0]);
	if (!json)
		return err_set(e, EINVAL, "%s: %s", m->operands[0], json_util_get_last_err());
	if (m->layers)
		cut_layers(numbers_of(json), m->layers);
	const char *text = json_object_to_json_string_ext(
		json, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
	*out = text ? strdup(text) : NULL;
	json_object_put(json);
	return *out ? 0 : err_set(e, ENOMEM, "out of memory for config.json");
}

static int write_config(const struct make *m, struct err *e)
{
	char *text = NULL, *path = path_in(m->directory, "config.json", e);
	int failed = path ? config_text(m, &text, e) : -ENOMEM;
	if (!failed)
		failed = write_file(path, text, strlen(text), e);
	free(text);
	free(path);
	return failed;
}

static int copy_file(const char *from_directory, const char *to_directory, const char *file,
		     struct err *e)
{
	char *text = NULL, *from = path_in(from_directory, file, e),
	     *to = path_in(to_directory, file, e);
	size_t n;
	int failed =
		from && to ? json_read_file(&text, &n, from, TOKENIZER_BYTES_MOST, e) : -ENOMEM;
	if (!failed)
		failed = write_file(to, text, n, e);
	free(text);
	free(from);
	free(to);
	return failed;
}

static int make_directory(struct make *m, struct err *e)
{
	const char *out = m->operands[1];
	if (mkdir(out, 0755) && errno != EEXIST)
		return err_sys(e, errno, "%s: cannot be made", out);
	m->directory = realpath(out, NULL);
	if (!m->directory)
		return err_sys(e, errno, "%s: cannot be opened", out);
	int failed = write_config(m, e);
	if (!failed)
		failed = copy_file(m->tokenizer, m->directory, "tokenizer.json", e);
	if (!failed)
		failed = copy_file(m->tokenizer, m->directory, "tokenizer_config.json", e);
	return failed;
}

/* ---- the store ---- */

static int write_store(const struct make *m, const struct synthetic *s, struct err *e)
{
	struct source_state now;
	struct identity id = {0};
	char *beside = NULL, *folder = NULL;
	int failed = source_look(&now, m->directory, e);
	if (!failed)
		failed = identity_of_source(&id, &now, NULL, NULL, e);
	if (!failed && (asprintf(&beside, "%s.moefs", m->directory) < 0 ||
			asprintf(&folder, "%s/%s", beside, m->recipe.quant) < 0))
		failed = err_set(e, ENOMEM, "out of memory for the name of a folder");
	if (!failed && mkdir(beside, 0755) && errno != EEXIST)
		failed = err_sys(e, errno, "%s: cannot be made", beside);
	if (!failed)
		failed = synthetic_write(s, folder, id.name, e);
	if (!failed)
		failed = identity_write(&id, folder, e);
	identity_free(&id);
	source_forget(&now);
	free(beside);
	free(folder);
	return failed;
}

static int write_weights(struct make *m, struct err *e)
{
	struct synthetic s = {
		.config = &m->config, .plan = &m->plan, .seed = m->seed, .skew = m->skew};
	int failed = threads_create(&s.threads, (uint32_t)m->effort.threads, e);
	if (failed)
		return failed;
	if (m->mix)
		failed = synthetic_write_gguf(&s, m->mix, m->operands[1], &m->gguf_bytes, e);
	else
		failed = m->raw ? synthetic_write_raw(&s, m->directory, e) : write_store(m, &s, e);
	threads_destroy(s.threads);
	return failed;
}

/* The model's config: what a mount will find. */
static int make_config(struct make *m, struct err *e)
{
	char *text = NULL;
	if (!m->mix) {
		int failed = make_directory(m, e);
		return failed ? failed : config_read(&m->config, m->directory, e);
	}
	int failed = config_text(m, &text, e);
	if (!failed)
		failed = config_parse(&m->config, text, strlen(text), m->operands[0], e);
	free(text);
	return failed;
}

static int find_mix(struct make *m, struct err *e)
{
	m->mix = m->gguf ? gguf_mix_find(m->gguf) : NULL;
	if (m->gguf && !m->mix)
		return err_set(e, EINVAL, "--gguf %s: must be q4_k_m, q8_0 or mxfp4", m->gguf);
	if (m->gguf && (m->raw || m->quant || m->codec || m->skew > 0))
		return err_set(e, EINVAL,
			       "--gguf goes with none of --raw, --quant, --codec, --skew");
	return 0;
}

/* What a mount will take: where none is named, what the model comes to. */
static int choose_recipe(struct make *m, struct err *e)
{
	if (!m->quant)
		recipe_find_default(&m->recipe, &m->config, 0);
	return recipe_ask_codec(&m->recipe, m->codec ? m->codec : "none", e);
}

static int make(struct make *m, struct err *e)
{
	int failed = find_mix(m, e);
	if (!failed)
		failed = recipe_find(&m->recipe, m->quant, e);
	if (!failed)
		failed = make_config(m, e);
	if (!failed)
		failed = choose_recipe(m, e);
	m->recipe.draft = m->config.draft; /* as published ones of such a family have one */
	if (!failed)
		failed = plan_make(&m->plan, &m->config, &m->recipe, e);
	return failed ? failed : write_weights(m, e);
}

static int report(const struct make *m, double seconds, struct err *e)
{
	struct report r;
	const struct plan *p = &m->plan;
	double bytes = m->mix	? (double)m->gguf_bytes
		       : m->raw ? 2 * (double)p->parameters
				: (double)p->dense_bytes + (double)plan_records_bytes(p);
	report_begin(&r, "make", m->effort.json);
	report_text(&r, "model", "model", m->mix ? m->operands[1] : m->directory);
	report_text(&r, "recipe", "recipe",
		    m->mix   ? m->gguf
		    : m->raw ? "none: a checkpoint"
			     : m->recipe.quant);
	report_number(&r, "layers", "layers", m->config.layers, 0);
	report_number(&r, "parameters", "parameters", (double)p->parameters, 0);
	report_number(&r, "store_bytes", "bytes of weights", bytes, 0);
	report_number(&r, "seconds", "seconds", seconds, 1);
	report_number(&r, "gb_per_s", "GB/s", bytes * 1e-9 / seconds, 2);
	return report_end(&r, e);
}

int make_command(int argc, char **argv, struct err *e)
{
	struct make m = {
		.effort = effort_default(),
		.seed = 1,
		.tokenizer = MOEFS_SOURCE_ROOT "/examples/models/fable-moe-15m",
	};
	const struct bench_option options[] = {
		{"layers", OPTION_NUMBER, &m.layers, 1, CONFIG_MAX_LAYERS,
		 "only so many layers (all that config.json has)"},
		{"quant", OPTION_TEXT, &m.quant, 0, 0, "a recipe, as moefs -o quant= (auto)"},
		{"codec", OPTION_TEXT, &m.codec, 0, 0, "none (default) or zstd, of bf16 experts"},
		{"seed", OPTION_NUMBER, &m.seed, 0, UINT64_MAX - 1, "of the weights"},
		{"skew", OPTION_SECONDS, &m.skew, 0, 0,
		 "popularity of experts falls as rank^-X; 0: uniform"},
		{"gguf", OPTION_TEXT, &m.gguf, 0, 0,
		 "a GGUF file of that mix instead: q4_k_m, q8_0 or mxfp4"},
		{"raw", OPTION_FLAG, &m.raw, 0, 0, "a checkpoint in BF16 instead of a store"},
		{"tokenizer", OPTION_TEXT, &m.tokenizer, 0, 0,
		 "directory whose tokenizer is copied"},
		EFFORT_OPTIONS(&m.effort),
	};
	const struct command_line line = {"make CONFIG.json OUT", options,
					  sizeof options / sizeof *options, m.operands, 2};
	int failed = command_line_parse(&line, argc, argv, e);
	if (failed)
		return failed;
	double begun = seconds_now();
	failed = make(&m, e);
	if (!failed)
		failed = report(&m, seconds_now() - begun, e);
	plan_free(&m.plan);
	free(m.directory);
	return failed;
}
