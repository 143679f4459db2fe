#include "engine/source/gguf_type.h"

#include <stddef.h>

/* Those that are known but not computed with are told by their names. */
static const struct gguf_type types[] = {
	{"F32", 0, 1, 4, FORMAT_F32},		{"F16", 1, 1, 2, FORMAT_F16},
	{"Q4_0", 2, 32, 18, FORMAT_Q4_0},	{"Q4_1", 3, 32, 20, FORMAT_Q4_1},
	{"Q5_0", 6, 32, 22, FORMAT_Q5_0},	{"Q5_1", 7, 32, 24, FORMAT_Q5_1},
	{"Q8_0", 8, 32, 34, FORMAT_Q8_0},	{"Q8_1", 9, 32, 36, FORMAT_COUNT},
	{"Q2_K", 10, 256, 84, FORMAT_Q2_K},	{"Q3_K", 11, 256, 110, FORMAT_Q3_K},
	{"Q4_K", 12, 256, 144, FORMAT_Q4_K},	{"Q5_K", 13, 256, 176, FORMAT_Q5_K},
	{"Q6_K", 14, 256, 210, FORMAT_Q6_K},	{"Q8_K", 15, 256, 292, FORMAT_COUNT},
	{"IQ2_XXS", 16, 256, 66, FORMAT_COUNT}, {"IQ2_XS", 17, 256, 74, FORMAT_COUNT},
	{"IQ3_XXS", 18, 256, 98, FORMAT_COUNT}, {"IQ1_S", 19, 256, 50, FORMAT_COUNT},
	{"IQ4_NL", 20, 32, 18, FORMAT_IQ4_NL},	{"IQ3_S", 21, 256, 110, FORMAT_IQ3_S},
	{"IQ2_S", 22, 256, 82, FORMAT_COUNT},	{"IQ4_XS", 23, 256, 136, FORMAT_IQ4_XS},
	{"I8", 24, 1, 1, FORMAT_COUNT},		{"I16", 25, 1, 2, FORMAT_COUNT},
	{"I32", 26, 1, 4, FORMAT_COUNT},	{"I64", 27, 1, 8, FORMAT_COUNT},
	{"F64", 28, 1, 8, FORMAT_COUNT},	{"IQ1_M", 29, 256, 56, FORMAT_COUNT},
	{"BF16", 30, 1, 2, FORMAT_BF16},	{"TQ1_0", 34, 256, 54, FORMAT_COUNT},
	{"TQ2_0", 35, 256, 66, FORMAT_COUNT},	{"MXFP4", 39, 32, 17, FORMAT_MXFP4_GGUF},
};

const struct gguf_type *gguf_type_find(uint64_t number)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].number == number)
			return &types[i];
	return NULL;
}
