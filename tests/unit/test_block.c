/* Weights in blocks: decoding of each format, checked with files written by other tools and rows
 * packed here. */
#include "kernels/block.h"
#include "tests/unit/golden.h"
#include "tests/unit/random.h"
#include "tests/unit/random_blocks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- reading of trusted GGUF files ---- */

enum { TENSORS_MOST = 64 };

struct gguf_tensor {
	char name[64];
	struct shape shape; /* rows: of all experts */
	uint64_t place;	    /* in the part of the data */
	const uint8_t *data;
};

struct gguf {
	uint8_t *bytes;
	size_t count;
	struct gguf_tensor tensor[TENSORS_MOST];
};

struct reader {
	const uint8_t *at;
};

static uint64_t next(struct reader *r, size_t bytes)
{
	uint64_t v = 0;
	memcpy(&v, r->at, bytes);
	r->at += bytes;
	return v;
}

static void skip_value(struct reader *r, uint64_t type)
{
	static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
	enum { STRING = 8, ARRAY = 9 };

	if (type == STRING) {
		r->at += next(r, 8);
	} else if (type == ARRAY) {
		uint64_t of = next(r, 4);
		for (uint64_t n = next(r, 8); n > 0; n--)
			skip_value(r, of);
	} else {
		assert_true(type < sizeof bytes && bytes[type]);
		r->at += bytes[type];
	}
}

static enum format format_of(uint64_t type)
{
	static const struct {
		uint8_t type;
		enum format format;
	} types[] = {{0, FORMAT_F32},	  {30, FORMAT_BF16},   {8, FORMAT_Q8_0},  {2, FORMAT_Q4_0},
		     {3, FORMAT_Q4_1},	  {6, FORMAT_Q5_0},    {7, FORMAT_Q5_1},  {10, FORMAT_Q2_K},
		     {11, FORMAT_Q3_K},	  {12, FORMAT_Q4_K},   {13, FORMAT_Q5_K}, {14, FORMAT_Q6_K},
		     {20, FORMAT_IQ4_NL}, {23, FORMAT_IQ4_XS}, {21, FORMAT_IQ3_S}};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].type == type)
			return types[i].format;
	fail_msg("type %u", (unsigned)type);
	return FORMAT_COUNT;
}

static void read_tensor(struct gguf_tensor *t, struct reader *r)
{
	const uint64_t length = next(r, 8);

	snprintf(t->name, sizeof t->name, "%.*s", (int)length, (const char *)r->at);
	r->at += length;
	uint64_t dims = next(r, 4);
	t->shape = (struct shape){.cols = (uint32_t)next(r, 8), .rows = 1};
	for (; dims > 1; dims--)
		t->shape.rows *= (uint32_t)next(r, 8);
	t->shape.format = format_of(next(r, 4));
	t->place = next(r, 8);
}

/* NULL, after printing a sentence, if the file is missing. */
static struct gguf *open_gguf(const char *name)
{
	char path[64];
	snprintf(path, sizeof path, "fixtures/gguf/%s.gguf", name);
	const char *found = shared_data(path);
	FILE *f = found ? fopen(found, "rb") : NULL;
	if (!f)
		return NULL;
	struct gguf *g = calloc(1, sizeof *g);
	assert_non_null(g);
	fseek(f, 0, SEEK_END);
	const size_t bytes = (size_t)ftell(f);
	rewind(f);
	g->bytes = malloc(bytes);
	assert_non_null(g->bytes);
	assert_int_equal(fread(g->bytes, 1, bytes, f), bytes);
	fclose(f);

	struct reader r = {g->bytes + 8};
	g->count = next(&r, 8);
	assert_in_range(g->count, 1, TENSORS_MOST);
	for (uint64_t pairs = next(&r, 8); pairs > 0; pairs--) {
		r.at += next(&r, 8);
		skip_value(&r, next(&r, 4));
	}
	for (size_t i = 0; i < g->count; i++)
		read_tensor(&g->tensor[i], &r);
	const size_t data = (size_t)(r.at - g->bytes + 31) / 32 * 32;
	for (size_t i = 0; i < g->count; i++)
		g->tensor[i].data = g->bytes + data + g->tensor[i].place;
	return g;
}

static void close_gguf(struct gguf *g)
{
	free(g->bytes);
	free(g);
}

static const struct gguf_tensor *tensor_of(const struct gguf *g, const char *name)
{
	for (size_t i = 0; i < g->count; i++)
		if (strcmp(g->tensor[i].name, name) == 0)
			return &g->tensor[i];
	return NULL;
}

static float *row_of(const struct gguf_tensor *t, size_t r)
{
	const size_t row_bytes = format_packed_bytes(&t->shape) / t->shape.rows;
	float *row = malloc(t->shape.cols * sizeof *row);
	assert_non_null(row);
	assert_true(format_shape_fits(&t->shape));
	format_dequantise_row(row, &t->shape, &(struct pieces){.weights = t->data + r * row_bytes});
	return row;
}

static const char *const files[] = {"Q8_0", "Q6_K", "Q4_K_M", "Q3_K_M", "Q2_K",	  "Q4_0",
				    "Q4_1", "Q5_0", "Q5_1",   "IQ4_NL", "IQ4_XS", "IQ3_S"};

/* ---- tests ---- */

/* The relative squared error that a format may have on random weights: slightly above the measured
 * one. A bit, a scale or an offset in the wrong place has many times that error. */
static const double losses[FORMAT_COUNT] = {
	[FORMAT_F32] = 1e-12,	[FORMAT_Q8_0] = 4e-5,  [FORMAT_Q4_0] = 9e-3, [FORMAT_Q4_1] = 8e-3,
	[FORMAT_Q5_0] = 3e-3,	[FORMAT_Q5_1] = 2e-3,  [FORMAT_Q2_K] = 9e-2, [FORMAT_Q3_K] = 4e-2,
	[FORMAT_Q4_K] = 7e-3,	[FORMAT_Q5_K] = 2e-3,  [FORMAT_Q6_K] = 6e-4, [FORMAT_IQ4_NL] = 7e-3,
	[FORMAT_IQ4_XS] = 7e-3, [FORMAT_IQ3_S] = 3e-2,
};

static double loss_of(const struct gguf_tensor *t, const struct gguf_tensor *exact)
{
	double error = 0, power = 0;

	for (size_t r = 0; r < t->shape.rows; r++) {
		float *row = row_of(t, r), *expected = row_of(exact, r);
		for (size_t i = 0; i < t->shape.cols; i++) {
			error += pow((double)row[i] - expected[i], 2);
			power += pow(expected[i], 2);
		}
		free(row);
		free(expected);
	}
	return error / power;
}

/* All blocks of GGUF files except MXFP4, which has its own test. A new type needs a file. */
static bool is_checked_with_files(enum format f)
{
	return format_is_block(f) && !format_affine_bits(f) && f != FORMAT_MXFP4 &&
	       f != FORMAT_MXFP4_GGUF;
}

static void blocks_of_gguf_files_are_near_the_weights_they_were_made_of(void **state)
{
	(void)state;
	double worst[FORMAT_COUNT] = {0};
	struct gguf *exact = open_gguf("BF16");
	if (!exact)
		skip();
	for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
		struct gguf *g = open_gguf(files[f]);
		assert_non_null(g);
		for (size_t i = 0; i < g->count; i++) {
			const struct gguf_tensor *t = &g->tensor[i];
			const double loss = loss_of(t, tensor_of(exact, t->name));
			worst[t->shape.format] = fmax(worst[t->shape.format], loss);
			if (loss > losses[t->shape.format])
				fail_msg("%s of %s, %s: loses %g", t->name, files[f],
					 format_name(t->shape.format), loss);
		}
		close_gguf(g);
	}
	close_gguf(exact);
	for (int f = 0; f < FORMAT_COUNT; f++) {
		if (!is_checked_with_files((enum format)f))
			continue;
		print_message("%s loses %.3g\n", format_name((enum format)f), worst[f]);
		assert_true(worst[f] > 0); /* all formats were tested */
	}
}

/* Rows of the embedding start the residual stream; the head times the last normalised state gives
 * the logits. */
static void the_embedding_and_the_head_give_golden_numbers(void **state)
{
	(void)state;
	for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
		char path[64];
		snprintf(path, sizeof path, "fixtures/gguf/%s.golden.safetensors", files[f]);
		struct gguf *g = open_gguf(files[f]);
		if (!g)
			skip();
		struct golden *golden = golden_open(shared_data(path));
		const struct golden_tensor ids = golden_get(golden, "input_ids", "I32"),
					   states = golden_get(golden, "states", "F32"),
					   normed = golden_get(golden, "normed", "F32"),
					   logits = golden_get(golden, "logits", "F32");
		const struct gguf_tensor *embedding = tensor_of(g, "token_embd.weight"),
					 *head = tensor_of(g, "output.weight");
		const size_t width = embedding->shape.cols;
		for (size_t t = 0; t < ids.count; t++) {
			float *row = row_of(embedding, (size_t)((const int32_t *)ids.data)[t]);
			for (size_t i = 0; i < width; i++)
				assert_true(row[i] == ((const float *)states.data)[t * width + i]);
			free(row);
		}
		for (size_t r = 0; r < head->shape.rows; r++) {
			float *row = row_of(head, r);
			for (size_t t = 0; t < ids.count; t++) {
				double sum = 0;
				for (size_t i = 0; i < width; i++)
					sum += (double)row[i] *
					       ((const float *)normed.data)[t * width + i];
				const float expected =
					((const float *)logits.data)[t * head->shape.rows + r];
				assert_true(fabs(sum - expected) < 1e-5);
			}
			free(row);
		}
		print_message("%s: embedding %s, head %s\n", files[f],
			      format_name(embedding->shape.format),
			      format_name(head->shape.format));
		golden_close(golden);
		close_gguf(g);
	}
}

/* Every code and many powers of two, in the published layout and in GGUF's. */
static void mxfp4_means_the_same_as_published_and_in_gguf(void **state)
{
	(void)state;
	static const float levels[8] = {0, .5F, 1, 1.5F, 2, 3, 4, 6};
	for (int e = 0; e < 256; e++) {
		uint8_t codes[BLOCK], apart[16] = {0}, together[17] = {(uint8_t)e};
		const uint8_t scale = (uint8_t)e;
		float one[BLOCK], other[BLOCK];
		for (size_t i = 0; i < BLOCK; i++) {
			codes[i] = (uint8_t)(i * 7 + (size_t)e) % 16;
			apart[i / 2] |= (uint8_t)(codes[i] << 4 * (i % 2));
			together[1 + i % 16] |= (uint8_t)(codes[i] << 4 * (i / 16));
		}
		const struct shape s = {.format = FORMAT_MXFP4, .rows = 1, .cols = BLOCK},
				   g = {.format = FORMAT_MXFP4_GGUF, .rows = 1, .cols = BLOCK};
		format_dequantise_row(one, &s,
				      &(struct pieces){.weights = apart, .scales = &scale});
		format_dequantise_row(other, &g, &(struct pieces){.weights = together});
		for (size_t i = 0; i < BLOCK; i++) {
			const float magnitude = ldexpf(levels[codes[i] % 8], e - 127);
			if (e == 255)
				assert_true(isnan(one[i]) && isnan(other[i]));
			else
				assert_true(one[i] == (codes[i] < 8 ? magnitude : -magnitude) &&
					    other[i] == one[i]);
		}
	}
}

/* One row of random codes, packed as MLX does: a little-endian stream. */
static void affine_rows_are_scale_times_code_plus_bias(void **state)
{
	(void)state;
	static const uint32_t groups[] = {32, 64, 128};
	enum { COLS = 384 };
	struct random random = {11};
	for (int f = FORMAT_AFFINE2; f <= FORMAT_AFFINE8; f++)
		for (size_t i = 0; i < 9; i++) {
			const struct shape s = {.format = (enum format)f,
						.norms = (enum norm_type)(i % 3),
						.rows = 1,
						.cols = COLS,
						.group = groups[i / 3]};
			const uint32_t bits = format_affine_bits(s.format);
			uint8_t weights[COLS] = {0};
			uint32_t code[COLS];
			float scale[12], bias[12], out[COLS];
			uint16_t halves[2][12];
			assert_true(format_shape_fits(&s));
			assert_int_equal(format_packed_bytes(&s), COLS / 8 * bits);
			for (size_t c = 0; c < COLS; c++) {
				code[c] = random_u32(&random) % (1U << bits);
				for (size_t b = 0; b < bits; b++)
					weights[(c * bits + b) / 8] |=
						(uint8_t)((code[c] >> b & 1) << (c * bits + b) % 8);
			}
			for (size_t g = 0; g < COLS / s.group; g++) {
				scale[g] = (float)(int)(random_u32(&random) % 255 + 1) / 256;
				bias[g] = (float)(int)(random_u32(&random) % 255) / -8;
				halves[0][g] = s.norms == NORM_F16 ? f16_from_f32(scale[g])
								   : bf16_from_f32(scale[g]);
				halves[1][g] = s.norms == NORM_F16 ? f16_from_f32(bias[g])
								   : bf16_from_f32(bias[g]);
			}
			const bool wide = s.norms == NORM_F32;
			format_dequantise_row(
				out, &s,
				&(struct pieces){weights, wide ? (const void *)scale : halves[0],
						 wide ? (const void *)bias : halves[1]});
			for (size_t c = 0; c < COLS; c++)
				assert_true(out[c] == (float)code[c] * scale[c / s.group] +
							      bias[c / s.group]);
		}
}

static void rows_that_are_no_whole_number_of_blocks_do_not_fit(void **state)
{
	(void)state;
	struct shape s = {.format = FORMAT_Q4_K, .rows = 3, .cols = 512};
	assert_true(format_shape_fits(&s));
	assert_int_equal(format_packed_bytes(&s), 3 * 2 * 144);
	s.cols = 384;
	assert_false(format_shape_fits(&s));
	s = (struct shape){.format = FORMAT_Q4_0, .rows = 3, .cols = 48};
	assert_false(format_shape_fits(&s));
	s = (struct shape){.format = FORMAT_AFFINE4, .rows = 3, .cols = 192, .group = 64};
	assert_true(format_shape_fits(&s));
	assert_int_equal(format_norm_bytes(&s), 3 * 3 * 2);
	assert_int_equal(format_bias_bytes(&s), 3 * 3 * 2);
	s.group = 128;
	assert_false(format_shape_fits(&s));
	s.group = 0;
	assert_false(format_shape_fits(&s));
	s = (struct shape){.format = FORMAT_TQ3, .norms = NORM_BF16, .rows = 1, .cols = 1};
	assert_false(format_shape_fits(&s));
	s = (struct shape){.format = FORMAT_COUNT, .rows = 1, .cols = 1};
	assert_false(format_shape_fits(&s));
}

/* ---- NaN and infinity ---- */

static bool rows_are_finite(const struct shape *s, const struct pieces *from)
{
	const uint8_t *piece[] = {from->weights, from->scales, from->biases};
	struct shape one = *s;
	one.rows = 1;
	const size_t bytes[] = {format_packed_bytes(&one), format_norm_bytes(&one),
				format_bias_bytes(&one)};
	bool finite = true;
	for (size_t r = 0; r < s->rows; r++) {
		float row[256];
		format_dequantise_row(row, &one,
				      &(struct pieces){piece[0] + r * bytes[0],
						       piece[1] + r * bytes[1],
						       piece[2] + r * bytes[2]});
		for (size_t i = 0; i < s->cols; i++)
			finite = finite && isfinite(row[i]);
	}
	return finite;
}

static void fill_with_numbers(struct random *random, const struct shape *s, uint8_t *const *piece)
{
	float x;
	if (!format_is_float(s->format) && !format_is_tq(s->format)) {
		random_blocks(random, s, piece[0], piece[1], piece[2]);
		return;
	}
	const bool narrow = s->format == FORMAT_BF16 || s->format == FORMAT_F16;
	uint8_t *to = format_is_tq(s->format) ? piece[1] : piece[0];
	const size_t bytes =
		format_is_tq(s->format) ? format_norm_bytes(s) : format_packed_bytes(s);
	const bool halves = narrow || (format_is_tq(s->format) && s->norms == NORM_F16);
	for (size_t i = 0; i < bytes; i += halves ? 2 : 4) {
		random_normal(random, &x, 1);
		const uint16_t half = s->format == FORMAT_BF16 ? bf16_from_f32(x) : f16_from_f32(x);
		memcpy(to + i, halves ? (const void *)&half : &x, halves ? 2 : 4);
	}
}

static void check_every_place(struct random *random, const struct shape *s)
{
	enum { ROOM = 4096 };
	static const uint8_t nan[] = {0xff, 0x7f};
	static uint8_t bytes[3][ROOM];
	uint8_t *const piece[] = {bytes[0], bytes[1], bytes[2]};
	const size_t sizes[] = {format_packed_bytes(s), format_norm_bytes(s), format_bias_bytes(s)};
	const struct pieces from = {piece[0], piece[1], piece[2]};
	fill_with_numbers(random, s, piece);
	assert_true(format_is_finite(s, &from) && rows_are_finite(s, &from));
	uint32_t found = 0;
	for (int k = 0; k < 3; k++)
		for (size_t i = 0; i + 1 < sizes[k]; i += 2) {
			uint8_t was[2];
			assert_true(sizes[k] <= ROOM);
			memcpy(was, piece[k] + i, 2);
			memcpy(piece[k] + i, nan, 2);
			found += !rows_are_finite(s, &from);
			if (format_is_finite(s, &from) != rows_are_finite(s, &from))
				fail_msg("%s: byte %zu of piece %d", format_name(s->format), i, k);
			memcpy(piece[k] + i, was, 2);
		}
	assert_true(found);
}

static void nan_and_infinity_are_found_in_every_part_of_a_format(void **state)
{
	(void)state;
	struct random random = {11};
	for (int f = 0; f < FORMAT_COUNT; f++)
		for (enum norm_type norms = NORM_F16; norms <= NORM_BF16; norms++) {
			const struct shape s = {.format = (enum format)f,
						.norms = norms,
						.rows = 2,
						.cols = 256,
						.group = 64};
			if (format_shape_fits(&s))
				check_every_place(&random, &s);
		}
}

/* The squared error of a row that is quantised and back, relative to its squares. */
static double error_of_quantising(enum format f, const float *row, uint32_t cols)
{
	static uint8_t packed[1 << 14];
	static float back[1 << 12];
	const struct shape s = {.format = f, .rows = 1, .cols = cols};
	double wrong = 0, all = 0;
	assert_true(block_quantise(f, packed, row, cols));
	assert_true(format_is_finite(&s, &(struct pieces){.weights = packed}));
	format_dequantise_row(back, &s, &(struct pieces){.weights = packed});
	for (uint32_t i = 0; i < cols; i++) {
		wrong += ((double)back[i] - row[i]) * ((double)back[i] - row[i]);
		all += (double)row[i] * row[i];
	}
	return all > 0 ? wrong / all : wrong;
}

static const struct {
	enum format format;
	double most; /* error of normally distributed numbers */
} quantised[] = {{FORMAT_Q8_0, 3.1e-5}, {FORMAT_Q6_K, 3.3e-4}, {FORMAT_Q5_0, 1.8e-3}};
enum { QUANTISED = sizeof quantised / sizeof *quantised };

static void rows_are_quantised_to_blocks_with_the_error_of_their_format(void **state)
{
	(void)state;
	enum { COLS = 4096 };
	static float row[COLS];
	struct random random = {5};
	for (int i = 0; i < QUANTISED; i++) {
		assert_true(block_can_quantise(quantised[i].format));
		for (float size = 1e-2F; size < 2e4F; size *= 100) {
			random_normal(&random, row, COLS);
			for (int k = 0; k < COLS; k++)
				row[k] *= size;
			double error = error_of_quantising(quantised[i].format, row, COLS);
			if (error > quantised[i].most)
				fail_msg("%s: %g", format_name(quantised[i].format), error);
		}
	}
	assert_false(block_can_quantise(FORMAT_Q4_K) || block_can_quantise(FORMAT_TC4));
}

/* Zeros stay zeros, one number among them stays nearly what it is, whatever its sign, and what
 * 16-bit scales hold no more is refused. */
static void rows_of_zeros_and_of_extremes_are_quantised(void **state)
{
	(void)state;
	enum { COLS = 512 };
	static uint8_t packed[4 * COLS];
	float row[COLS] = {0};
	for (int i = 0; i < QUANTISED; i++) {
		enum format f = quantised[i].format;
		row[300] = 0;
		assert_true(error_of_quantising(f, row, COLS) == 0);
		for (int k = 0; k < 8; k++) {
			row[300] = powf(-7, (float)k) * 1e-2F;
			assert_true(error_of_quantising(f, row, COLS) < 3e-4);
		}
		for (int k = 0; k < COLS; k++)
			row[k] = k % 2 ? 1e-30F : -1e-38F;
		assert_true(error_of_quantising(f, row, COLS) <= 1);
		memset(row, 0, sizeof row);
		row[300] = 1e10F;
		assert_false(block_quantise(f, packed, row, COLS));
	}
}

static void formats_go_by_their_names(void **state)
{
	(void)state;
	for (int f = 0; f < FORMAT_COUNT; f++)
		assert_int_equal(format_named(format_name((enum format)f)), f);
	assert_int_equal(format_named("q4"), FORMAT_COUNT);
	for (uint32_t bits = 2; bits <= 4; bits++)
		assert_int_equal(format_tq_bits((enum format)(FORMAT_TQ2 + bits - 2)), bits);
	assert_false(format_is_tq(FORMAT_Q8_0) || format_is_tq(FORMAT_BF16));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_of_gguf_files_are_near_the_weights_they_were_made_of),
		cmocka_unit_test(the_embedding_and_the_head_give_golden_numbers),
		cmocka_unit_test(mxfp4_means_the_same_as_published_and_in_gguf),
		cmocka_unit_test(affine_rows_are_scale_times_code_plus_bias),
		cmocka_unit_test(rows_that_are_no_whole_number_of_blocks_do_not_fit),
		cmocka_unit_test(nan_and_infinity_are_found_in_every_part_of_a_format),
		cmocka_unit_test(rows_are_quantised_to_blocks_with_the_error_of_their_format),
		cmocka_unit_test(rows_of_zeros_and_of_extremes_are_quantised),
		cmocka_unit_test(formats_go_by_their_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
