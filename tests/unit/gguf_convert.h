/* A fixture as a GGUF file, by the rules of the published converter (llama.cpp's
 * convert_hf_to_gguf.py): names of keys and tensors, experts stacked, norms plus one, A_log as
 * -exp(A_log), queries', keys' and delta nets' value heads reordered, matrices transposed, gate
 * and up separate, blocks with their scales inside. Shares no code with the engine's reader of
 * such files. */
#ifndef MOEFS_TESTS_UNIT_GGUF_CONVERT_H
#define MOEFS_TESTS_UNIT_GGUF_CONVERT_H

#include "gguf_help.h"

struct gguf_conversion {
	const char *fixture;
	const char *architecture; /* of the file */
	/* Type of matrices: "BF16", "F16", "F32" or "Q8_0" (rows that are not whole blocks keep
	 * another type). */
	const char *type;
	uint32_t version; /* 0: 3 */
	uint32_t parts;	  /* 0: one, which is not split */
	/* qwen3next: qkvz as published; deepseek2: kv_b: as the first converters left them */
	bool fused;
	const char *without; /* tensors whose names end with this are left out; NULL: none */
	bool apart;	     /* llama: a tensor for each expert, as the first converters left it */
	/* Called with all keys and tensors, before the first part is written. */
	void (*change)(struct test_gguf *g);
};

/* Writes FOLDER/NAME.gguf, or its parts; path becomes that of the first. */
void test_gguf_convert(const struct gguf_conversion *c, const char *folder, const char *name,
		       char path[512]);

#endif
