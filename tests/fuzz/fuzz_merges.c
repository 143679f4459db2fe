/* libFuzzer on merges.txt, beside a vocabulary of single bytes and of all words of up to five a and
 * b: any bytes are an error in words, or merges by which every text is encoded to tokens that spell
 * it. */
#include "engine/tokenizer/tokenizer.h"
#include "tests/fuzz/folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORD_MOST = 5 };
static const char TEXT[] = "abbabaabab aabb bbbbbbbbbb ab\n\xc3\xa9 \xf0\x9f\xa6\x8a aabababbb";

/* The characters by which byte-level vocabularies write bytes: printable Latin-1 as it is, and the
 * others from U+0100 on, in order. */
static uint32_t letter_of(uint32_t byte)
{
	static uint32_t letters[256];
	if (!letters['a']) {
		uint32_t next = 0x100;
		for (uint32_t b = 0; b < 256; b++) {
			bool itself = (b >= '!' && b <= '~') || (b >= 0xa1 && b != 0xad);
			letters[b] = itself ? b : next++;
		}
	}
	return letters[byte];
}

static const char *directory(void)
{
	static const char config[] = "{\"tokenizer_class\": \"GPT2Tokenizer\"}";
	static char *vocabulary;
	size_t bytes;
	if (vocabulary)
		return folder_path();
	FILE *f = open_memstream(&vocabulary, &bytes);
	uint32_t id = 0;
	if (!f)
		abort();
	for (uint32_t b = 0; b < 256; b++)
		(void)fprintf(f, "%s\"\\u%04x\": %u", b ? ", " : "{", letter_of(b), id++);
	for (uint32_t n = 2; n <= WORD_MOST; n++)
		for (uint32_t word = 0; word < 1u << n; word++, id++) {
			(void)fputs(", \"", f);
			for (uint32_t i = 0; i < n; i++)
				(void)fputc("ab"[word >> i & 1], f);
			(void)fprintf(f, "\": %u", id);
		}
	(void)fprintf(f, ", \"<|endoftext|>\": %u}", id);
	(void)fclose(f);
	file_write(folder_path(), "vocab.json", vocabulary, bytes);
	file_write(folder_path(), "tokenizer_config.json", config, sizeof config - 1);
	return folder_path();
}

static void encode(struct tokenizer *t)
{
	struct token_list ids = {0};
	struct err e = {0};
	size_t at = 0;
	if (tokenizer_encode(t, TEXT, sizeof TEXT - 1, NULL, &ids, &e))
		abort();
	for (size_t i = 0; i < ids.count; i++) {
		size_t n;
		const char *bytes = tokenizer_bytes(t, ids.ids[i], true, &n);
		if (n > sizeof TEXT - 1 - at || memcmp(bytes, TEXT + at, n) != 0)
			abort();
		at += n;
	}
	if (at != sizeof TEXT - 1)
		abort();
	token_list_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tokenizer *t;
	struct err e = {0};
	const char *from = directory();
	file_write(from, "merges.txt", data, size);
	int failed = tokenizer_open(&t, from, &e);
	if (failed && (e.code != -failed || !e.text[0]))
		abort();
	if (failed)
		return 0;
	encode(t);
	tokenizer_close(t);
	return 0;
}
