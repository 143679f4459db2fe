/* libFuzzer on a vocabulary of arrays, as GGUF files hold them: any bytes are an error in words, or
 * a tokenizer by which texts are encoded to tokens that spell them. The first byte picks model and
 * split; then come tokens, each a kind, a score, a length and so many bytes, up to an empty one;
 * the rest are merges, one a line. */
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/tokenizer_gguf.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TOKENS = 1024, MERGES = 1024, BYTES = 256 };
static const char TEXT[] = " ab aab\n\u00e8 \u2581\U0001f98a<s></s>  a0x41> bbb";

struct input {
	const uint8_t *data;
	size_t size;
};
static uint8_t take(struct input *in)
{
	if (in->size == 0)
		return 0;
	in->size--;
	return *in->data++;
}

static size_t take_tokens(struct input *in, struct tokenizer_gguf_text *tokens, int32_t *kinds,
			  float *scores)
{
	static const float SCORES[] = {0, -1, -2, -3, 7, -1e9f, INFINITY, -0.5f};
	size_t count = 0;
	while (count < TOKENS - BYTES && in->size > 0) {
		uint8_t head = take(in);
		size_t n = take(in);
		n = n < in->size ? n : in->size;
		if (n == 0)
			break;
		kinds[count] = (head & 7) - (head == 0xff ? 9 : 0);
		scores[count] = SCORES[head >> 3 & 7];
		tokens[count++] = (struct tokenizer_gguf_text){(const char *)in->data, n};
		in->data += n;
		in->size -= n;
	}
	return count;
}

static size_t take_merges(struct input *in, struct tokenizer_gguf_text *merges)
{
	size_t count = 0;
	while (count < MERGES && in->size > 0) {
		const uint8_t *end = memchr(in->data, '\n', in->size);
		size_t n = end ? (size_t)(end - in->data) : in->size;
		merges[count++] = (struct tokenizer_gguf_text){(const char *)in->data, n};
		in->data += n + (end != NULL);
		in->size -= n + (end != NULL);
	}
	return count;
}

static void use(struct tokenizer *t)
{
	struct token_list ids = {0};
	struct err e = {0};
	size_t n;
	volatile uint8_t sum = 0; /* so that the bytes are read */
	int rc = tokenizer_encode_alone(t, TEXT, sizeof TEXT - 1, NULL, &ids, &e);
	if (rc && (e.code != -rc || !e.text[0]))
		abort();
	for (size_t i = 0; i < ids.count; i++) {
		const char *bytes = tokenizer_bytes(t, ids.ids[i], true, &n);
		for (size_t k = 0; k < n; k++)
			sum = (uint8_t)(sum + (uint8_t)bytes[k]);
	}
	token_list_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const MODELS[] = {"llama", "gemma4", "gpt2", "t5"};
	static const char *const SPLITS[] = {"gpt-2", "deepseek-llm", "qwen2", "none"};
	static struct tokenizer_gguf_text tokens[TOKENS], merges[MERGES];
	static int32_t kinds[TOKENS];
	static float scores[TOKENS];
	static char bytes[BYTES][8];
	struct input in = {data, size};
	uint8_t head = take(&in), marks = take(&in);
	size_t count = take_tokens(&in, tokens, kinds, scores);
	for (int i = 0; i < BYTES && (head & 16); i++, count++) {
		static const char DIGITS[] = "0123456789ABCDEF";
		memcpy(bytes[i], "<0x..>", 6);
		bytes[i][3] = DIGITS[i >> 4];
		bytes[i][4] = DIGITS[i & 15];
		tokens[count] = (struct tokenizer_gguf_text){bytes[i], 6};
		kinds[count] = KIND_BYTE;
		scores[count] = 0;
	}
	struct tokenizer_gguf p = {.name = "fuzz",
				   .model = MODELS[head & 3],
				   .pre = SPLITS[head >> 2 & 3],
				   .tokens = tokens,
				   .token_count = count,
				   .kinds = head & 32 ? kinds : NULL,
				   .scores = scores,
				   .merges = merges,
				   .merge_count = take_merges(&in, merges),
				   .bos = marks % 7 - 1,
				   .eos = marks / 7 - 1,
				   .ends = {-1, -1, marks, -1},
				   .add_bos = marks % 3,
				   .space_prefix = head >> 6 & 1};
	struct tokenizer *t;
	struct err e = {0};
	int rc = tokenizer_open_gguf(&t, &p, &e);
	if (rc && (e.code != -rc || !e.text[0]))
		abort();
	if (rc == 0)
		use(t);
	if (rc == 0)
		tokenizer_close(t);
	return 0;
}
