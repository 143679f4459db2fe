/* What a synthetic GGUF file says before its tensors: the model's geometry and a vocabulary. */
#include "engine/family/gguf_family.h"
#include "engine/source/gguf.h"
#include "tests/bench/synthetic_gguf.h"

#include <string.h>

/* Kinds of tokens, as the format numbers them. */
enum { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3, TOKEN_UNUSED = 5 };
enum { BYTES = 256, LETTERS = 26, PAIRS = (1 + LETTERS) * LETTERS, TOKEN_BYTES = 32 };

struct keys {
	FILE *to;
	const struct config *c;
	uint64_t count;
};

void gguf_write_number(FILE *to, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		(void)fputc((int)(value >> 8 * i & 0xff), to);
}

void gguf_write_string(FILE *to, const char *text)
{
	gguf_write_number(to, strlen(text), 8);
	(void)fputs(text, to);
}

/* ---- one key ---- */

static void begin_key(struct keys *k, const char *key, enum gguf_kind kind)
{
	gguf_write_string(k->to, key);
	gguf_write_number(k->to, kind, 4);
	k->count++;
}

static void put_number(struct keys *k, const char *key, uint32_t value)
{
	begin_key(k, key, GGUF_U32);
	gguf_write_number(k->to, value, 4);
}

static void put_string(struct keys *k, const char *key, const char *value)
{
	begin_key(k, key, GGUF_STRING);
	gguf_write_string(k->to, value);
}

static void begin_array(struct keys *k, const char *key, enum gguf_kind of, uint64_t n)
{
	begin_key(k, key, GGUF_ARRAY);
	gguf_write_number(k->to, of, 4);
	gguf_write_number(k->to, n, 8);
}

/* ARCHITECTURE.suffix */
static void put_size(struct keys *k, const char *suffix, uint32_t value)
{
	char key[TOKEN_BYTES * 2];
	(void)snprintf(key, sizeof key, "%s.%s", k->c->family->gguf->architecture, suffix);
	put_number(k, key, value);
}

static void put_real(struct keys *k, const char *suffix, float value)
{
	char key[TOKEN_BYTES * 2];
	uint32_t bits;
	(void)snprintf(key, sizeof key, "%s.%s", k->c->family->gguf->architecture, suffix);
	memcpy(&bits, &value, sizeof bits);
	begin_key(k, key, GGUF_F32);
	gguf_write_number(k->to, bits, 4);
}

/* ---- the vocabulary ---- */

/* A byte as byte-level vocabularies write it (Radford et al. 2019): those that can be seen as
 * themselves, the others, in order, from U+0100 on. */
static uint32_t character_of(uint32_t byte)
{
	uint32_t hidden = 0;
	for (uint32_t b = 0; b <= byte; b++) {
		bool seen = (b > 32 && b < 127) || (b > 160 && b != 173);
		if (b == byte && seen)
			return byte;
		hidden += !seen;
	}
	return BYTES - 1 + hidden;
}

/* The first half of a pair: a space, as byte-level vocabularies write it, or a small letter. */
static void first_half(char text[TOKEN_BYTES], uint32_t pair)
{
	if (pair < LETTERS)
		(void)snprintf(text, TOKEN_BYTES, "\xc4\xa0");
	else
		(void)snprintf(text, TOKEN_BYTES, "%c", 'a' + (int)(pair / LETTERS - 1));
}

static char second_half(uint32_t pair)
{
	return (char)('a' + pair % LETTERS);
}

/* The bytes, then all pairs of a space or a small letter and a small letter, then what no text has;
 * the last ends a text. */
static void token_text(char text[TOKEN_BYTES], uint32_t id, uint32_t last)
{
	uint32_t c = character_of(id < BYTES ? id : 0);
	char half[TOKEN_BYTES];
	if (id == last)
		(void)snprintf(text, TOKEN_BYTES, "<|end|>");
	else if (id >= BYTES + PAIRS)
		(void)snprintf(text, TOKEN_BYTES, "<|unused %u|>", id);
	else if (id >= BYTES) {
		first_half(half, id - BYTES);
		(void)snprintf(text, TOKEN_BYTES, "%.2s%c", half, second_half(id - BYTES));
	} else if (c < 0x80)
		(void)snprintf(text, TOKEN_BYTES, "%c", (int)c);
	else
		(void)snprintf(text, TOKEN_BYTES, "%c%c", (int)(0xc0 | c >> 6),
			       (int)(0x80 | (c & 0x3f)));
}

static void put_vocabulary(struct keys *k)
{
	char text[TOKEN_BYTES];
	uint32_t n = k->c->vocabulary, last = n - 1;
	put_string(k, "tokenizer.ggml.model", "gpt2");
	put_string(k, "tokenizer.ggml.pre", "qwen2");
	begin_array(k, "tokenizer.ggml.tokens", GGUF_STRING, n);
	for (uint32_t id = 0; id < n; id++) {
		token_text(text, id, last);
		gguf_write_string(k->to, text);
	}
	begin_array(k, "tokenizer.ggml.token_type", GGUF_I32, n);
	for (uint32_t id = 0; id < n; id++)
		gguf_write_number(k->to,
				  id == last	       ? TOKEN_CONTROL
				  : id < BYTES + PAIRS ? TOKEN_NORMAL
						       : TOKEN_UNUSED,
				  4);
	begin_array(k, "tokenizer.ggml.merges", GGUF_STRING, PAIRS);
	for (uint32_t i = 0; i < PAIRS; i++) {
		char half[TOKEN_BYTES];
		first_half(half, i);
		(void)snprintf(text, sizeof text, "%.2s %c", half, second_half(i));
		gguf_write_string(k->to, text);
	}
	put_number(k, "tokenizer.ggml.eos_token_id", last);
}

void gguf_write_keys(FILE *to, const struct config *c, uint32_t file_type, uint64_t *count)
{
	enum { QUANTIZATION_VERSION = 2 };
	struct keys k = {.to = to, .c = c};
	put_string(&k, "general.architecture", c->family->gguf->architecture);
	put_string(&k, "general.name", "synthetic");
	put_number(&k, "general.quantization_version", QUANTIZATION_VERSION);
	put_number(&k, "general.file_type", file_type);
	put_size(&k, "block_count", c->layers);
	put_size(&k, "context_length", c->max_positions);
	put_size(&k, "embedding_length", c->hidden_size);
	put_size(&k, "feed_forward_length", c->intermediate_size);
	put_size(&k, "attention.head_count", c->heads);
	put_size(&k, "attention.head_count_kv", c->kv_heads);
	put_size(&k, "attention.key_length", c->head_dim);
	put_size(&k, "attention.value_length", c->head_dim);
	put_real(&k, "attention.layer_norm_rms_epsilon", c->rms_eps);
	put_real(&k, "rope.freq_base", (float)c->rope[0].theta);
	put_size(&k, "expert_count", c->experts);
	put_size(&k, "expert_used_count", c->experts_per_token);
	put_size(&k, "expert_feed_forward_length", c->expert_size);
	put_vocabulary(&k);
	*count = k.count;
}
