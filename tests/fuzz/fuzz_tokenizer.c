/* libFuzzer on tokenizer.json. If it opens, a text with special cases is encoded and every token's
 * bytes are read. */
#include "engine/tokenizer/tokenizer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char TEXT[] = "The fox's \u00e9 e\u0301 <|im_start|>  \n\n 12 \U0001f98a<a>  x";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tokenizer *t;
	struct err e = {0};
	if (tokenizer_open_text(&t, (const char *)data, size, "fuzz", &e) < 0) {
		if (e.code == 0 || e.text[0] == '\0')
			abort(); /* every error has a sentence */
		return 0;
	}
	struct token_list ids = {0};
	if (tokenizer_encode(t, TEXT, sizeof TEXT - 1, NULL, &ids, &e) == 0) {
		volatile uint8_t sum = 0; /* so that the bytes are read */
		for (size_t i = 0; i < ids.count; i++) {
			size_t n;
			const char *bytes = tokenizer_bytes(t, ids.ids[i], true, &n);
			for (size_t k = 0; k < n; k++)
				sum = (uint8_t)(sum + (uint8_t)bytes[k]);
		}
	}
	token_list_free(&ids);
	tokenizer_close(t);
	return 0;
}
