/* All tensors but a feed-forward's, and the file. See weights.h. */
#include "tests/scripted/tensors.h"
#include "kernels/format.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = CODE_SIGNS, PAIRS = HEAD / 2 };

/* Of keys and queries: what the right distance has over all others is some 43 in a softmax. */
static const float bias_strength = 16;
/* Of what every position says, and what a script says beside it is stronger than. */
static const float end_strength = 0.6F * SCRIPTED_SAID;

uint32_t scripted_layers(const struct scripted *s)
{
	return s->grams->levels + 1;
}

/* ---- values ---- */

struct writing {
	const struct scripted *s;
	struct neurons neurons;
	FILE *file;
	bool failed;
};

static void write_floats(struct writing *w, const float *from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint16_t half = bf16_from_f32(from[i]);
		w->failed |= fwrite(&half, sizeof half, 1, w->file) != 1;
	}
}

static void write_embedding(struct writing *w, uint32_t layer)
{
	(void)layer;
	for (uint32_t t = 0; t < w->s->vocabulary; t++) {
		float row[SCRIPTED_HIDDEN] = {0};
		code_vector(&w->s->codes->tokens[w->s->end], row + PART_SAID);
		for (uint32_t i = PART_SAID; i < PART_SAID + CODE_SIGNS; i++)
			row[i] *= end_strength;
		code_vector(&w->s->codes->tokens[t], row + PART_KNOWN);
		code_vector(&w->s->codes->constant, row + PART_CONSTANT);
		write_floats(w, row, SCRIPTED_HIDDEN);
	}
}

/* A norm makes what stands in some parts of four larger; with this it keeps it as it is. */
static void write_norm(struct writing *w, float parts)
{
	float row[SCRIPTED_HIDDEN];
	for (uint32_t i = 0; i < SCRIPTED_HIDDEN; i++)
		row[i] = sqrtf((parts + SCRIPTED_SAID * SCRIPTED_SAID) / 4);
	write_floats(w, row, SCRIPTED_HIDDEN);
}

static void write_input_norm(struct writing *w, uint32_t layer)
{
	(void)layer;
	write_norm(w, 2);
}

static void write_inner_norm(struct writing *w, uint32_t layer)
{
	write_norm(w, layer == w->s->grams->levels ? 2 : 3);
}

static void write_final_norm(struct writing *w, uint32_t layer)
{
	(void)layer;
	float row[SCRIPTED_HIDDEN] = {0};
	for (uint32_t i = PART_KNOWN; i < PART_KNOWN + CODE_SIGNS; i++)
		row[i] = 1;
	write_floats(w, row, SCRIPTED_HIDDEN);
}

static void write_zeros(struct writing *w, uint32_t layer)
{
	(void)layer;
	float row[SCRIPTED_HIDDEN] = {0};
	for (uint32_t i = 0; i < HEAD; i++)
		write_floats(w, row, SCRIPTED_HIDDEN);
}

static void write_zero_bias(struct writing *w, uint32_t layer)
{
	(void)layer;
	float row[HEAD] = {0};
	write_floats(w, row, HEAD);
}

/* Pairs i and i + PAIRS, which a position turns by itself times a frequency: turned back by the
 * distance beforehand, a query meets the keys of the position that far before it. */
static void write_query_bias(struct writing *w, uint32_t layer)
{
	float row[HEAD];
	bool last = layer == w->s->grams->levels; /* fetches nothing */
	uint32_t distance = last ? 0 : grams_distance(layer + 1);
	for (uint32_t i = 0; i < PAIRS; i++) {
		double turn = distance * pow(SCRIPTED_ROPE_THETA, -(double)i / PAIRS);
		row[i] = bias_strength * (float)cos(turn);
		row[i + PAIRS] = -bias_strength * (float)sin(turn);
	}
	write_floats(w, row, HEAD);
}

static void write_key_bias(struct writing *w, uint32_t layer)
{
	(void)layer;
	float row[HEAD] = {0};
	for (uint32_t i = 0; i < PAIRS; i++)
		row[i] = bias_strength;
	write_floats(w, row, HEAD);
}

/* What a position is known by. */
static void write_values(struct writing *w, uint32_t layer)
{
	for (uint32_t i = 0; i < HEAD; i++) {
		float row[SCRIPTED_HIDDEN] = {0};
		row[PART_KNOWN + i] = layer < w->s->grams->levels ? 1 : 0;
		write_floats(w, row, SCRIPTED_HIDDEN);
	}
}

/* To what it has fetched. */
static void write_output(struct writing *w, uint32_t layer)
{
	for (uint32_t i = 0; i < SCRIPTED_HIDDEN; i++) {
		float row[HEAD] = {0};
		if (i / HEAD == PART_FETCHED / HEAD && layer < w->s->grams->levels)
			row[i - PART_FETCHED] = 1;
		write_floats(w, row, HEAD);
	}
}

static void write_gate(struct writing *w, uint32_t layer)
{
	neurons_fill(&w->neurons, w->s, layer);
	write_floats(w, w->neurons.gate, (size_t)w->neurons.count * SCRIPTED_HIDDEN);
}

static void write_up(struct writing *w, uint32_t layer)
{
	(void)layer; /* write_gate has filled all three */
	write_floats(w, w->neurons.up, (size_t)w->neurons.count * SCRIPTED_HIDDEN);
}

static void write_down(struct writing *w, uint32_t layer)
{
	(void)layer;
	write_floats(w, w->neurons.down, (size_t)w->neurons.count * SCRIPTED_HIDDEN);
}

/* ---- the file ---- */

enum { NONE = 0, VOCABULARY = -1, NEURONS = -2 }; /* sizes that are not the same for all */
enum place { BEFORE, LAYER, BEHIND };

static const struct tensor {
	enum place place;
	const char *name;
	int rows, columns;
	void (*write)(struct writing *w, uint32_t layer);
} tensors[] = {
	{BEFORE, "model.embed_tokens.weight", VOCABULARY, SCRIPTED_HIDDEN, write_embedding},
	{LAYER, "input_layernorm.weight", SCRIPTED_HIDDEN, NONE, write_input_norm},
	{LAYER, "self_attn.q_proj.weight", HEAD, SCRIPTED_HIDDEN, write_zeros},
	{LAYER, "self_attn.q_proj.bias", HEAD, NONE, write_query_bias},
	{LAYER, "self_attn.k_proj.weight", HEAD, SCRIPTED_HIDDEN, write_zeros},
	{LAYER, "self_attn.k_proj.bias", HEAD, NONE, write_key_bias},
	{LAYER, "self_attn.v_proj.weight", HEAD, SCRIPTED_HIDDEN, write_values},
	{LAYER, "self_attn.v_proj.bias", HEAD, NONE, write_zero_bias},
	{LAYER, "self_attn.o_proj.weight", SCRIPTED_HIDDEN, HEAD, write_output},
	{LAYER, "post_attention_layernorm.weight", SCRIPTED_HIDDEN, NONE, write_inner_norm},
	{LAYER, "mlp.gate_proj.weight", NEURONS, SCRIPTED_HIDDEN, write_gate},
	{LAYER, "mlp.up_proj.weight", NEURONS, SCRIPTED_HIDDEN, write_up},
	{LAYER, "mlp.down_proj.weight", SCRIPTED_HIDDEN, NEURONS, write_down},
	{BEHIND, "model.norm.weight", SCRIPTED_HIDDEN, NONE, write_final_norm},
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static uint64_t size_of(const struct writing *w, int size)
{
	return size == VOCABULARY ? w->s->vocabulary
	       : size == NEURONS  ? w->neurons.count
				  : (uint64_t)size;
}

static void write_entry(struct writing *w, FILE *to, const struct tensor *t, uint32_t layer,
			uint64_t *offset)
{
	uint64_t rows = size_of(w, t->rows), columns = size_of(w, t->columns);
	uint64_t end = *offset + 2 * rows * (t->columns == NONE ? 1 : columns);
	(void)fprintf(to, "%s\"", *offset ? "," : "");
	if (t->place == LAYER)
		(void)fprintf(to, "model.layers.%" PRIu32 ".", layer);
	(void)fprintf(to, "%s\":{\"dtype\":\"BF16\",\"shape\":[%" PRIu64, t->name, rows);
	if (t->columns != NONE)
		(void)fprintf(to, ",%" PRIu64, columns);
	(void)fprintf(to, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", *offset, end);
	*offset = end;
}

/* Visits the tensors in their order in the file: writes each one's entry to `header`, or, without
 * one, its numbers. */
static void visit(struct writing *w, FILE *header)
{
	uint64_t offset = 0;
	for (int place = BEFORE; place <= BEHIND; place++)
		for (uint32_t layer = 0; layer < (place == LAYER ? scripted_layers(w->s) : 1);
		     layer++)
			for (size_t i = 0; i < TENSORS; i++) {
				const struct tensor *t = &tensors[i];
				if ((int)t->place != place)
					continue;
				if (header)
					write_entry(w, header, t, layer, &offset);
				else
					t->write(w, layer);
			}
}

static int write_all(struct writing *w)
{
	char *header = NULL;
	size_t length = 0;
	FILE *to = open_memstream(&header, &length);
	if (!to)
		return -ENOMEM;
	(void)fputc('{', to);
	visit(w, to);
	(void)fputc('}', to);
	w->failed |= fclose(to) != 0;
	uint64_t bytes = length;
	if (!w->failed)
		w->failed = fwrite(&bytes, sizeof bytes, 1, w->file) != 1 ||
			    fwrite(header, 1, length, w->file) != length;
	free(header);
	if (!w->failed)
		visit(w, NULL);
	return w->failed ? -EIO : 0;
}

int scripted_write(const struct scripted *s, const char *path, struct err *e)
{
	struct writing w = {.s = s, .neurons.count = scripted_neurons(s)};
	size_t size = (size_t)w.neurons.count * SCRIPTED_HIDDEN * sizeof(float);
	w.neurons.gate = malloc(3 * size);
	if (!w.neurons.gate)
		return err_set(e, ENOMEM, "no memory for a layer of %u neurons", w.neurons.count);
	w.neurons.up = w.neurons.gate + size / sizeof(float);
	w.neurons.down = w.neurons.up + size / sizeof(float);
	w.file = fopen(path, "wbe");
	int code = w.file ? write_all(&w) : -errno;
	if (w.file && fclose(w.file) && !code)
		code = -errno;
	free(w.neurons.gate);
	return code ? err_sys(e, -code, "%s cannot be written", path) : 0;
}
