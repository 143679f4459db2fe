/* libFuzzer on the header of a .safetensors file: any text is an error with a sentence, or tensors
 * that cover the file's data exactly. An input is the number of bytes of data, a newline, and the
 * header. */
#include "engine/source/tensor_list.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads the digits before the newline; the text begins after it. */
static uint64_t data_bytes(const uint8_t *data, size_t newline)
{
	uint64_t n = 0;
	for (size_t i = 0; i < newline; i++)
		n = n * 10 + (data[i] & 15);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *newline = memchr(data, '\n', size);
	if (!newline)
		return 0;
	size_t at = (size_t)(newline - data);
	uint64_t bytes = data_bytes(data, at), next = 0;
	struct tensor_list list = {0};
	struct err e = {0};
	int failed = safetensors_parse(&list, (const char *)newline + 1, size - at - 1, bytes, 0,
				       "fuzz", &e);
	if (failed && (e.code != -failed || !e.text[0]))
		abort();
	for (size_t i = 0; i < list.count && !failed; i++) {
		const struct checkpoint_tensor *t = &list.tensors[i];
		if (t->offset != next || t->bytes > bytes - next || t->dims > CHECKPOINT_MAX_DIMS)
			abort();
		next += t->bytes;
	}
	if (!failed && next != bytes)
		abort();
	tensor_list_free(&list);
	return 0;
}
