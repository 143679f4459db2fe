/* scripted OUT_DIR SCRIPT.json TOKENIZER_DIR [TEMPLATE]: makes a checkpoint that says what a script
 * tells, with the tokenizer, and the chat template, of another one, or the template of a file.
 *
 * The mounted model is real: the tokenizer encodes the template's text, the weights are converted
 * and used, and the sampler draws. So behaviour that depends on a model's words (thinking, tool
 * calls, channels) is tested through the real engine. script.h describes the script, weights.h the
 * method. A prompt that is not in the script gets an empty answer.
 *
 * If the architecture matters, tests/unit/script_help.h makes a fixture say a few tokens. */
#include "engine/family/generation.h"
#include "engine/json/json.h"
#include "tests/scripted/weights.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096, FILE_BYTES_MOST = 64 << 20 };

static void join(char path[PATH_BYTES], const char *folder, const char *name)
{
	(void)snprintf(path, PATH_BYTES, "%s/%s", folder, name);
}

static int write_file(const char *path, const char *bytes, size_t n, struct err *e)
{
	FILE *f = fopen(path, "wbe");
	bool failed = !f || fwrite(bytes, 1, n, f) != n;
	if (f && fclose(f))
		failed = true;
	return failed ? err_sys(e, errno, "%s cannot be written", path) : 0;
}

/* One that is not there is not copied, where that may be. */
static int copy(const char *from, const char *folder, const char *name, bool wanted, struct err *e)
{
	char *bytes, to[PATH_BYTES];
	size_t n;
	int code = json_read_file(&bytes, &n, from, FILE_BYTES_MOST, e);
	if (code)
		return code == -ENOENT && !wanted ? 0 : code;
	join(to, folder, name);
	code = write_file(to, bytes, n, e);
	free(bytes);
	return code;
}

static int copy_tokenizer(const char *out, const char *from, const char *template, struct err *e)
{
	static const char *const names[] = {"tokenizer.json",	   "tokenizer_config.json",
					    "vocab.json",	   "merges.txt",
					    "added_tokens.json",   "special_tokens_map.json",
					    "chat_template.jinja", "chat_template.json"};
	char path[PATH_BYTES];
	int code = 0;
	for (size_t i = 0; i < sizeof names / sizeof *names && !code; i++) {
		join(path, from, names[i]);
		code = copy(path, out, names[i], false, e);
	}
	return code || !template ? code : copy(template, out, "chat_template.jinja", true, e);
}

/* Those of config.json and generation_config.json. */
static int find_ends(struct generation *g, const char *folder, struct err *e)
{
	static const char *const names[] = {"generation_config.json", "config.json"};
	char path[PATH_BYTES];
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct json *document;
		join(path, folder, names[i]);
		int code = json_parse_file(&document, path, FILE_BYTES_MOST, e);
		if (code == -ENOENT)
			continue;
		if (!code) {
			code = generation_end_tokens(g, document, path, e);
			json_free(document);
		}
		if (code)
			return code;
	}
	return 0;
}

static int write_config(const struct scripted *s, const struct generation *ends, const char *out,
			struct err *e)
{
	char path[PATH_BYTES], text[2048], list[512] = "";
	size_t n = 0;
	for (uint32_t i = 0; i < ends->end_count; i++)
		n += (size_t)snprintf(list + n, sizeof list - n, ", %u", ends->end_tokens[i]);
	int length = snprintf(
		text, sizeof text,
		"{\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\", "
		"\"hidden_act\": \"silu\", \"hidden_size\": %d, \"intermediate_size\": %u, "
		"\"num_hidden_layers\": %u, \"num_attention_heads\": 1, \"num_key_value_heads\": "
		"1, "
		"\"head_dim\": %d, \"max_position_embeddings\": %d, \"rms_norm_eps\": 1e-06, "
		"\"rope_theta\": %.1f, \"tie_word_embeddings\": true, \"torch_dtype\": "
		"\"bfloat16\", \"vocab_size\": %u, \"eos_token_id\": [%u%s]}\n",
		SCRIPTED_HIDDEN, scripted_neurons(s), scripted_layers(s), CODE_SIGNS,
		SCRIPTED_CONTEXT, SCRIPTED_ROPE_THETA, s->vocabulary, s->end, list);
	join(path, out, "config.json");
	return write_file(path, text, (size_t)length, e);
}

static int write_weights(struct scripted *s, const char *out, struct err *e)
{
	char path[PATH_BYTES];
	struct codes codes = {0};
	int code = codes_make(&codes, s->grams, s->vocabulary, e);
	s->codes = &codes;
	join(path, out, "model.safetensors");
	if (!code)
		code = scripted_write(s, path, e);
	codes_free(&codes);
	return code;
}

static int make(const char *out, const char *script_path, const struct tokenizer *t,
		const char *from, struct err *e)
{
	struct script script = {0};
	struct grams grams = {0};
	struct generation ends = GENERATION_DEFAULTS;
	struct scripted s = {.grams = &grams, .vocabulary = tokenizer_size(t)};
	int64_t end = tokenizer_eos(t);
	int code = find_ends(&ends, from, e);
	if (!code && end < 0 && !ends.end_count)
		code = err_set(e, EINVAL, "%s does not say which token ends an answer", from);
	s.end = end < 0 ? ends.end_tokens[0] : (uint32_t)end;
	if (!code)
		code = script_read(&script, script_path, t, e);
	if (!code)
		code = grams_make(&grams, &script, e);
	if (!code)
		code = write_weights(&s, out, e);
	if (!code)
		code = write_config(&s, &ends, out, e);
	grams_free(&grams);
	script_free(&script);
	return code;
}

int main(int argc, char **argv)
{
	struct err e = {0};
	struct tokenizer *t;
	if (argc < 4 || argc > 5) {
		(void)fprintf(stderr, "usage: %s OUT_DIR SCRIPT.json TOKENIZER_DIR [TEMPLATE]\n",
			      argv[0]);
		return 2;
	}
	int code = mkdir(argv[1], 0777) ? err_sys(&e, errno, "%s cannot be made", argv[1])
					: tokenizer_open(&t, argv[3], &e);
	if (!code) {
		code = copy_tokenizer(argv[1], argv[3], argc > 4 ? argv[4] : NULL, &e);
		if (!code)
			code = make(argv[1], argv[2], t, argv[3], &e);
		tokenizer_close(t);
	}
	if (code)
		(void)fprintf(stderr, "scripted: %s\n", e.text);
	return code ? 1 : 0;
}
