#include "affine_help.h"
#include "checkpoint_help.h"
#include "golden.h"
#include "kernels/format.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool ends(const char *name, const char *ending)
{
	size_t n = strlen(name), k = strlen(ending);
	return n >= k && !strcmp(name + n - k, ending);
}

/* Codes of a group from bit `at` of a row on, the first in the lowest bits. */
static void quantise(const float *x, uint32_t bits, uint32_t group, uint8_t *row, size_t at,
		     uint16_t *scale, uint16_t *bias)
{
	float least = x[0], most = x[0];
	for (uint32_t i = 1; i < group; i++) {
		least = fminf(least, x[i]);
		most = fmaxf(most, x[i]);
	}
	float codes = (float)((1U << bits) - 1);
	*scale = bf16_from_f32((most - least) / codes);
	*bias = bf16_from_f32(least);
	float s = bf16_to_f32(*scale), b = bf16_to_f32(*bias);
	for (uint32_t i = 0; i < group; i++) {
		float nearest = s > 0 ? roundf((x[i] - b) / s) : 0;
		uint32_t code = (uint32_t)fminf(fmaxf(nearest, 0), codes);
		for (uint32_t k = 0; k < bits; k++, at++)
			row[at / 8] |= (uint8_t)((code >> k & 1) << at % 8);
	}
}

static struct test_tensor *add(struct test_checkpoint *c, const struct test_tensor *like,
			       const char *ending, const char *type, size_t width, uint64_t cols)
{
	struct test_tensor *t = &c->tensors[c->count++];
	char name[256];
	size_t stem = strlen(like->name) - strlen(".weight");
	(void)snprintf(name, sizeof name, "%.*s%s", (int)stem, like->name, ending);
	*t = (struct test_tensor){.name = strdup(name),
				  .dims = 2,
				  .shape = {like->shape[0], cols},
				  .bytes = like->shape[0] * cols * width};
	(void)snprintf(t->type, sizeof t->type, "%s", type);
	t->data = calloc(1, t->bytes);
	assert_true(t->name && t->data);
	return t;
}

static void put_codes(struct test_checkpoint *c, const struct test_tensor *t, uint32_t bits,
		      uint32_t group)
{
	uint64_t rows = t->shape[0], cols = t->shape[1], groups = cols / group;
	struct test_tensor *codes = add(c, t, ".weight", "U32", 4, cols * bits / 32),
			   *scales = add(c, t, ".scales", "BF16", 2, groups),
			   *biases = add(c, t, ".biases", "BF16", 2, groups);
	float x[128];
	for (uint64_t r = 0; r < rows; r++)
		for (uint64_t g = 0; g < groups; g++) {
			for (uint64_t i = 0; i < group; i++)
				x[i] = test_tensor_get(t, r * cols + g * group + i);
			quantise(x, bits, group, codes->data + r * (cols * bits / 8),
				 g * group * bits,
				 (uint16_t *)(void *)scales->data + r * groups + g,
				 (uint16_t *)(void *)biases->data + r * groups + g);
		}
}

static void say_codes(const char *folder, uint32_t bits, uint32_t group)
{
	char path[512], says[128];
	size_t n;
	(void)snprintf(path, sizeof path, "%s/config.json", folder);
	uint8_t *text = test_file_read(path, &n);
	int k = snprintf(says, sizeof says,
			 "{\"quantization\": {\"group_size\": %u, \"bits\": %u},", group, bits);
	uint8_t *all = malloc(n + (size_t)k);
	assert_true(all && *text == '{');
	memcpy(all, says, (size_t)k);
	memcpy(all + k, text + 1, n - 1);
	test_file_write(path, all, n + (size_t)k - 1);
	free(text);
	free(all);
}

void test_affine_make(const char *fixture, uint32_t bits, uint32_t group, const char *to)
{
	struct test_checkpoint from, made = {0};
	test_checkpoint_read(&from, fixture);
	made.tensors = calloc(3 * from.count, sizeof *made.tensors);
	assert_non_null(made.tensors);
	for (size_t i = 0; i < from.count; i++) {
		struct test_tensor *t = &from.tensors[i];
		if (t->dims == 2 && ends(t->name, ".weight") && t->shape[1] % group == 0 &&
		    !ends(t->name, "mlp.gate.weight")) {
			put_codes(&made, t, bits, group);
		} else {
			made.tensors[made.count++] = *t;
			*t = (struct test_tensor){0};
		}
	}
	test_checkpoint_make(&made, fixture, to);
	say_codes(to, bits, group);
	test_checkpoint_free(&from);
	test_checkpoint_free(&made);
}
