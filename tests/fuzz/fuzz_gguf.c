/* libFuzzer on the header of a GGUF file: any bytes are an error with a sentence, or keys whose
 * values lie in the header and tensors that lie in the file without overlap. An input is the
 * number of further bytes of the file, a byte, and the first bytes of the file. */
#include "engine/source/gguf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_value(const struct gguf_value *v, const uint8_t *bytes, size_t n)
{
	const char *text;
	size_t length, at = 0;
	uint64_t count = 0, u;
	double d;
	if (v->bytes < bytes || v->size > n - (size_t)(v->bytes - bytes) || !*v->key)
		abort();
	while (gguf_next_string(v, &at, &text, &length)) {
		if ((const uint8_t *)text < v->bytes ||
		    length > v->size - (size_t)((const uint8_t *)text - v->bytes))
			abort();
		count++;
	}
	if (v->element == GGUF_STRING && count != v->count)
		abort();
	(void)gguf_uint(v, v->count - 1, &u);
	(void)gguf_double(v, v->count - 1, &d);
}

static void check(const struct gguf *g, const uint8_t *bytes, size_t n, uint64_t file_bytes)
{
	uint64_t next = 0;
	for (size_t i = 0; i < g->count; i++) {
		check_value(&g->values[i], bytes, n);
		if (gguf_find(g, g->values[i].key) != &g->values[i])
			abort();
	}
	for (size_t i = 0; i < g->tensors.count; i++) {
		const struct checkpoint_tensor *t = &g->tensors.tensors[i];
		if (t->offset < next || t->dims < 1 || t->dims > GGUF_MAX_DIMS)
			abort();
		if (t->bytes && (g->data_offset > file_bytes ||
				 t->bytes > file_bytes - g->data_offset - t->offset))
			abort();
		next = t->offset + t->bytes;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	uint64_t more = data[0] < 64 ? 0 : 1ULL << (data[0] & 63), n = size - 1;
	uint64_t bytes = more > INT64_MAX - n ? INT64_MAX : n + more;
	struct gguf g = {0};
	struct err e = {0};
	int failed = gguf_parse(&g, data + 1, n, bytes, 0, "fuzz", &e);
	if (failed == -EAGAIN ? bytes == n : failed && (e.code != -failed || !e.text[0]))
		abort();
	if (!failed)
		check(&g, data + 1, n, bytes);
	gguf_clear(&g);
	return 0;
}
