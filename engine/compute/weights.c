/* Dense weights and rows of the embedding, from a store. See weights.h. */
#include "engine/compute/weights.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The embedding, of which a token needs one row, and without drafts the draft layer's tensors. */
static bool weights_stays_on_disk(const struct plan_tensor *t, bool drafts)
{
	return t->id.role == TENSOR_EMBEDDING || (t->draft && !drafts);
}

/* A convolution's taps, [channels][width] as published, become [width][channels]; -ENOMEM in words.
 */
static int weights_transpose_taps(float *taps, uint32_t channels, uint32_t width, struct err *e)
{
	size_t bytes = (size_t)channels * width * sizeof *taps;
	float *copy = malloc(bytes);
	if (!copy)
		return err_set(e, ENOMEM, "out of memory for %zu bytes of a convolution", bytes);
	memcpy(copy, taps, bytes);
	for (size_t c = 0; c < channels; c++)
		for (size_t i = 0; i < width; i++)
			taps[i * channels + c] = copy[c * width + i];
	free(copy);
	return 0;
}

/* What computing wants of a tensor's numbers once they are in memory. */
static int weights_finish_tensor(const struct plan_tensor *t, const struct config *c, float *data,
				 struct err *e)
{
	enum tensor_class class = tensor_roles[t->id.role].class;
	/* Zero-centred norms are stored as published, and computed with the offset added. */
	for (uint32_t i = 0; class == CLASS_NORM && i < t->shape.cols && c->norm_offset != 0; i++)
		data[i] += c->norm_offset;
	return class == CLASS_TAPS ? weights_transpose_taps(data, t->shape.rows, t->shape.cols, e)
				   : 0;
}

/* Reads the units of one chunk, piece after piece, into buffer, which has room for them. A piece
 * that the format does not have gets the same address as the next one. */
static int weights_read_chunk(const struct plan_tensor *t, uint32_t chunk,
			      const struct store *store, uint8_t *buffer, struct pieces *pieces,
			      struct err *e)
{
	struct shape rows = t->shape;
	rows.rows = plan_chunk_rows(t, chunk);
	const size_t bytes[] = {format_packed_bytes(&rows), format_norm_bytes(&rows),
				format_bias_bytes(&rows)};
	uint32_t unit = t->first_unit + chunk;
	*pieces = (struct pieces){buffer, buffer + bytes[0], buffer + bytes[0] + bytes[1]};
	for (uint32_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
		if (!bytes[i])
			continue;
		int failed = store_read_dense(store, unit, buffer, bytes[i], e);
		if (failed)
			return failed;
		buffer += bytes[i];
		unit += t->chunks;
	}
	return 0;
}

/* Reads a tensor's chunks in turn, and arranges them at `to`. */
static int weights_load_tensor(const struct plan_tensor *t, const struct store *store, void *to,
			       uint8_t *buffer, struct err *e)
{
	for (uint32_t chunk = 0; chunk < t->chunks; chunk++) {
		struct pieces pieces;
		int failed = weights_read_chunk(t, chunk, store, buffer, &pieces, e);
		if (failed)
			return failed;
		plan_arrange_rows(to, &t->computed, &t->shape, chunk * t->chunk_rows,
				  plan_chunk_rows(t, chunk), &pieces);
	}
	return 0;
}

static size_t weights_memory_needed(const struct plan *p, bool drafts, size_t *largest_chunk)
{
	size_t bytes = 0;
	*largest_chunk = 0;
	for (uint32_t i = 0; i < p->dense_count; i++) {
		struct shape chunk = p->dense[i].shape;
		if (!weights_stays_on_disk(&p->dense[i], drafts))
			bytes += format_arranged_bytes(&p->dense[i].computed);
		chunk.rows = p->dense[i].chunk_rows;
		size_t stored = format_packed_bytes(&chunk) + format_norm_bytes(&chunk) +
				format_bias_bytes(&chunk);
		*largest_chunk = stored > *largest_chunk ? stored : *largest_chunk;
	}
	return bytes;
}

static int weights_load_all(struct weights *w, const struct plan *p, const struct config *c,
			    const struct store *store, bool drafts, uint8_t *buffer,
			    const _Atomic bool *stop, struct err *e)
{
	uint8_t *next = w->memory;
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct plan_tensor *t = &p->dense[i];
		if (weights_stays_on_disk(t, drafts)) {
			if (t->id.role == TENSOR_EMBEDDING)
				w->embedding = t;
			continue;
		}
		if (atomic_load(stop))
			return err_set(e, ECANCELED, "loading was stopped");
		int failed = weights_load_tensor(t, store, next, buffer, e);
		if (!failed)
			failed = weights_finish_tensor(t, c, (float *)(void *)next, e);
		if (failed)
			return failed;
		bool in_layer = tensor_roles[t->id.role].place == PLACE_LAYER;
		struct layer_weights *l = in_layer ? &w->layer[t->id.layer] : &w->once;
		l->m[t->id.role] = (struct matrix){t->computed, next};
		next += format_arranged_bytes(&t->computed);
	}
	return 0;
}

/* ---- rows of the embedding ---- */

/* The last rows, as stored, piece after piece: token t has place t % RECENT_ROWS. */
enum { RECENT_ROWS = 256 };
struct recent_rows {
	uint32_t token[RECENT_ROWS]; /* plus one; 0: the place is free */
	uint8_t rows[];
};

static struct shape weights_row_shape(const struct plan_tensor *embedding)
{
	struct shape row = embedding->shape;
	row.rows = 1;
	return row;
}

/* Bytes of a row's weights, scales and biases. */
static size_t weights_row_bytes(const struct shape *row)
{
	return plan_piece_bytes(row, 0) + plan_piece_bytes(row, 1) + plan_piece_bytes(row, 2);
}

static int weights_read_row(const struct weights *w, uint32_t token, uint8_t *to, struct err *e)
{
	const struct plan_tensor *t = w->embedding;
	struct shape row = weights_row_shape(t);
	struct pieces from;
	size_t at = token % t->chunk_rows;
	int failed = weights_read_chunk(t, token / t->chunk_rows, w->store, w->embedding_chunk,
					&from, e);
	if (failed)
		return failed;
	const void *const pieces[PLAN_PIECES] = {from.weights, from.scales, from.biases};
	for (uint32_t i = 0; i < PLAN_PIECES; i++) {
		size_t bytes = plan_piece_bytes(&row, i);
		memcpy(to, (const uint8_t *)pieces[i] + at * bytes, bytes);
		to += bytes;
	}
	return 0;
}

int weights_embed(const struct weights *w, uint32_t token, float *out, struct err *e)
{
	struct shape row = weights_row_shape(w->embedding);
	struct recent_rows *recent = w->recent;
	uint32_t place = token % RECENT_ROWS;
	uint8_t *stored = recent->rows + place * weights_row_bytes(&row);
	if (token >= w->embedding->shape.rows)
		return err_set(e, ERANGE, "token %u is outside the model's vocabulary of %u", token,
			       w->embedding->shape.rows);
	if (recent->token[place] != token + 1) {
		recent->token[place] = 0;
		int failed = weights_read_row(w, token, stored, e);
		if (failed)
			return failed;
		recent->token[place] = token + 1;
	}
	const uint8_t *scales = stored + plan_piece_bytes(&row, 0);
	format_dequantise_row(out, &row,
			      &(struct pieces){stored, scales, scales + plan_piece_bytes(&row, 1)});
	return 0;
}

/* ---- the whole ---- */

int weights_load(struct weights *w, const struct plan *p, const struct config *c,
		 const struct store *store, bool drafts, const _Atomic bool *stop, struct err *e)
{
	size_t chunk;
	*w = (struct weights){.store = store,
			      .memory_bytes = weights_memory_needed(p, drafts, &chunk)};
	w->layer = calloc(p->layers, sizeof *w->layer);
	uint8_t *buffer = malloc(chunk);
	w->embedding_chunk = malloc(chunk);
	void *memory = mmap(NULL, w->memory_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	w->memory = memory == MAP_FAILED ? NULL : memory;
	int result;
	if (!w->layer || !buffer || !w->embedding_chunk || !w->memory) {
		result = err_set(e, ENOMEM,
				 "out of memory for %zu MB of attention and output weights",
				 w->memory_bytes >> 20);
	} else {
		/* For fewer TLB misses; the kernel may ignore it. */
		madvise(w->memory, w->memory_bytes, MADV_HUGEPAGE);
		result = weights_load_all(w, p, c, store, drafts, buffer, stop, e);
	}
	if (!result) {
		struct shape row = weights_row_shape(w->embedding);
		w->recent = calloc(1, sizeof *w->recent + RECENT_ROWS * weights_row_bytes(&row));
		if (!w->recent)
			result = err_set(e, ENOMEM, "out of memory for rows of the embedding");
	}
	free(buffer);
	if (result)
		weights_free(w);
	return result;
}

void weights_free(struct weights *w)
{
	if (w->memory)
		munmap(w->memory, w->memory_bytes);
	free(w->layer);
	free(w->embedding_chunk);
	free(w->recent);
	*w = (struct weights){0};
}
