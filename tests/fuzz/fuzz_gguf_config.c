/* libFuzzer on what a GGUF file's keys become: of any keys and tensors of an architecture that is
 * read, a config.json or an error in words. The config.json is JSON, and a config or an error in
 * words again. (fuzz_gguf.c has files that are damaged; here they are whole.)
 *
 * An input is an architecture, the tensors as bits, a byte that the tensors' data are filled with,
 * and keys: six bytes each, for the row in the tables of keys, the kind, and the value. */
#include "engine/family/gguf_family.h"
#include "folder.h"

#include "engine/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { KEYS_MOST = 64, KEY_BYTES = 6, FILE_BYTES = 1 << 16 };

static const char *const architectures[] = {
	"llama",      "qwen2",	 "qwen3",     "qwen2moe",  "qwen3moe",
	"qwen3next",  "qwen35",	 "qwen35moe", "olmoe",	   "granitemoe",
	"minimax-m2", "glm4moe", "gpt-oss",   "deepseek2", "smollm3",
	"gemma3",     "phi3",	 "gemma4",    "none",
	"lfm2",	      "lfm2moe", "glm-dsa",   "granitehybrid",
	"nemotron_h", "glm5-next", "qwen4exp", "kimi-linear",
	"minimax-m3", "nemotron_h_moe", "deepseek4",
};
static const struct gguf_key *const tables[] = {
	gguf_keys_common, gguf_keys_routed, gguf_keys_routed_only,
	gguf_keys_shared, gguf_keys_hybrid, gguf_keys_sigmoid, gguf_keys_latent,
};
/* Keys that only some families have, or that no table has. */
static const char *const others[] = {
	"attention.kv_lora_rank",
	"attention.q_lora_rank",
	"attention.key_length_mla",
	"attention.value_length_mla",
	"rope.scaling.yarn_log_multiplier",
	"attention.scale",
	"logit_scale",
	"embedding_scale",
	"residual_scale",
	"attention.sliding_window_pattern",
	"attention.key_length_swa",
	"attention.shared_kv_layers",
	"embedding_length_per_layer_input",
	"rope.dimension_count_swa",
	"rope.freq_base_swa",
	"final_logit_softcapping",
	"a.key.that.no.table.has",
	"shortconv.l_cache",
	"rope.scaling.finetuned",
	"attention.layer_norm_epsilon",
	"moe_latent_size",
	"kda.head_dim",
	"kda.gate_lower_bound",
	"attention.indexer.head_count",
	"attention.indexer.key_length",
	"attention.indexer.top_k",
	"attention.indexer.types",
	"attention.indexer.kpool",
	"attention.indexer.block_size",
	"attention.recurrent_layers",
	"attention.compress_ratios",
	"attention.compress_rope_freq_base",
	"attention.output_group_count",
	"attention.output_lora_rank",
	"hash_layer_count",
	"hyper_connection.count",
	"hyper_connection.low_rank",
	"swiglu_clamp_exp",
	"ple.layers",
	"ple.ngram_size",
	"ple.heads_per_ngram",
	"ple.eos_token_id",
	"ple.layer_multipliers",
	"ple.head_offsets",
	"ple.head_vocab_sizes",
};
static const struct {
	const char *name;
	uint64_t dims, shape[3]; /* as in the file: columns first */
} tensors[] = {
	{"token_embd.weight", 2, {32, 64}},
	{"output.weight", 2, {32, 64}},
	{"rope_freqs.weight", 1, {8}},
	{"per_layer_token_embd.weight", 2, {32, 64}},
	{"rope_factors_long.weight", 1, {8}},
	{"rope_factors_short.weight", 1, {8}},
	{"blk.0.attn_q.bias", 1, {32}},
	{"blk.0.attn_output.bias", 1, {32}},
	{"blk.0.attn_q_norm.weight", 1, {8}},
	{"blk.0.ffn_gate_exps.weight", 3, {32, 16, 4}},
	{"blk.0.ffn_gate_shexp.weight", 2, {32, 16}},
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static struct file {
	uint8_t bytes[FILE_BYTES];
	size_t size;
} file;

static void put_number(uint64_t n, size_t width)
{
	for (size_t i = 0; i < width; i++, n >>= 8)
		file.bytes[file.size++] = (uint8_t)n;
}

static void put_text(const char *text)
{
	put_number(strlen(text), 8);
	memcpy(file.bytes + file.size, text, strlen(text));
	file.size += strlen(text);
}

/* The row of that number in the tables, counted round. */
static const char *key_of(uint8_t number)
{
	const char *suffixes[256];
	size_t n = 0;
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		for (const struct gguf_key *k = tables[i]; k->suffix; k++)
			suffixes[n++] = k->suffix;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		suffixes[n++] = others[i];
	return suffixes[number % n];
}

static void put_key(const char *architecture, const uint8_t in[KEY_BYTES])
{
	static const char *const texts[] = {"none", "linear", "yarn", "longrope", "\"\\\n\xff"};
	char key[128];
	uint32_t value =
		in[2] | (uint32_t)in[3] << 8 | (uint32_t)in[4] << 16 | (uint32_t)in[5] << 24;
	(void)snprintf(key, sizeof key, "%s.%s", architecture, key_of(in[0]));
	put_text(key);
	switch (in[1] % 5) {
	case 0:
		put_number(GGUF_U32, 4);
		put_number(value, 4);
		break;
	case 1:
		put_number(GGUF_F32, 4);
		put_number(value, 4);
		break;
	case 2:
		put_number(GGUF_BOOL, 4);
		put_number(value & 1, 1);
		break;
	case 3:
		put_number(GGUF_STRING, 4);
		put_text(texts[value % (sizeof texts / sizeof *texts)]);
		break;
	default:
		put_number(GGUF_ARRAY, 4);
		put_number(value & 64 ? GGUF_F32 : GGUF_U32, 4);
		put_number(2, 8);
		put_number(value & 63, 4);
		put_number(value >> 8, 4);
	}
}

static void put_tensors(uint8_t which)
{
	uint64_t offset = 0;
	for (size_t i = 0; i < TENSORS; i++) {
		uint64_t bytes = 4;
		if (!(which >> i & 1))
			continue;
		put_text(tensors[i].name);
		put_number(tensors[i].dims, 4);
		for (size_t d = 0; d < tensors[i].dims; d++) {
			put_number(tensors[i].shape[d], 8);
			bytes *= tensors[i].shape[d];
		}
		put_number(0, 4); /* F32 */
		put_number(offset, 8);
		offset += bytes; /* a multiple of the alignment */
	}
}

/* Makes the file's header and data. */
static void make_file(const uint8_t *data, size_t size)
{
	const char *architecture =
		architectures[data[0] % (sizeof architectures / sizeof *architectures)];
	size_t keys = (size - 3) / KEY_BYTES;
	keys = keys < KEYS_MOST ? keys : KEYS_MOST;
	file.size = 0;
	memcpy(file.bytes, "GGUF", 4);
	file.size = 4;
	put_number(3, 4);
	put_number((uint64_t)__builtin_popcount(data[1]), 8);
	put_number(keys + 1, 8);
	put_text("general.architecture");
	put_number(GGUF_STRING, 4);
	put_text(architecture);
	for (size_t i = 0; i < keys; i++)
		put_key(architecture, data + 3 + i * KEY_BYTES);
	put_tensors(data[1]);
	memset(file.bytes + file.size, data[2], FILE_BYTES - file.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct config c; /* large */
	struct err e = {0};
	struct json *json;
	char path[256], *text = NULL;
	size_t length = 0;
	if (size < 3)
		return 0;
	make_file(data, size);
	file_write(folder_path(), "model.gguf", file.bytes, FILE_BYTES);
	(void)snprintf(path, sizeof path, "%s/model.gguf", folder_path());
	int failed = gguf_config_of(path, &text, &length, &e);
	if (failed && (text || e.code != -failed || !e.text[0]))
		abort();
	if (failed)
		return 0;
	if (json_parse_text(&json, text, length, "config.json", &e))
		abort();
	json_free(json);
	failed = config_parse(&c, text, length, "config.json", &e);
	if (failed && (e.code != -failed || !e.text[0]))
		abort();
	free(text);
	return 0;
}
