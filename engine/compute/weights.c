#include "engine/compute/weights.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The embedding, of which a token needs one row, and what only drafts need where none are made. */
static bool stays_on_disk(const struct plan_tensor *t, bool drafts)
{
	return t->id.role == TENSOR_EMBEDDING || (t->draft && !drafts);
}

static struct layer_weights *place_of(struct weights *w, const struct plan_tensor *t)
{
	return tensor_roles[t->id.role].place == PLACE_LAYER ? &w->layer[t->id.layer] : &w->once;
}

/* Zero-centred norms are stored as published and computed with as they are meant. */
static void add_norm_offset(float *norm, uint32_t n, float offset)
{
	for (uint32_t i = 0; i < n && offset != 0; i++)
		norm[i] += offset;
}

/* [channels][width] as published, to [width][channels]; -ENOMEM. */
static int transpose_taps(float *taps, uint32_t channels, uint32_t width, struct err *e)
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

/* What becomes of a tensor's numbers once they are in memory. */
static int finish_tensor(const struct plan_tensor *t, const struct config *c, float *data,
			 struct err *e)
{
	enum tensor_class class = tensor_roles[t->id.role].class;
	if (class == CLASS_NORM)
		add_norm_offset(data, t->shape.cols, c->norm_offset);
	return class == CLASS_TAPS ? transpose_taps(data, t->shape.rows, t->shape.cols, e) : 0;
}

/* Reads one tensor's units in turn into its arranged place. buffer holds the largest two units. */
static int load_tensor(const struct plan *p, const struct plan_tensor *t, const struct store *store,
		       void *to, uint8_t *buffer, struct err *e)
{
	bool tq = format_is_tq(t->shape.format);
	for (uint32_t chunk = 0; chunk < t->chunks; chunk++) {
		uint32_t unit = t->first_unit + chunk;
		uint8_t *norms = buffer + p->units[unit].bytes;
		int failed = store_read_dense(store, unit, buffer, p->units[unit].bytes, e);
		if (!failed && tq)
			failed = store_read_dense(store, unit + t->chunks, norms,
						  p->units[unit + t->chunks].bytes, e);
		if (failed)
			return failed;
		format_arrange(to, &t->shape, chunk * t->chunk_rows, plan_chunk_rows(t, chunk),
			       &(struct pieces){.weights = buffer, .scales = norms});
	}
	return 0;
}

static size_t memory_needed(const struct plan *p, bool drafts, size_t *largest_unit)
{
	size_t bytes = 0;
	*largest_unit = 0;
	for (uint32_t i = 0; i < p->dense_count; i++)
		if (!stays_on_disk(&p->dense[i], drafts))
			bytes += format_arranged_bytes(&p->dense[i].shape);
	for (uint32_t i = 0; i < p->unit_count; i++)
		if (p->units[i].bytes > *largest_unit)
			*largest_unit = p->units[i].bytes;
	return bytes;
}

static int load_all(struct weights *w, const struct plan *p, const struct config *c,
		    const struct store *store, bool drafts, uint8_t *buffer,
		    const _Atomic bool *stop, struct err *e)
{
	uint8_t *next = w->memory;
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct plan_tensor *t = &p->dense[i];
		if (stays_on_disk(t, drafts)) {
			if (t->id.role == TENSOR_EMBEDDING)
				w->embedding = t;
			continue;
		}
		if (atomic_load(stop))
			return err_set(e, ECANCELED, "loading was stopped");
		int failed = load_tensor(p, t, store, next, buffer, e);
		if (!failed)
			failed = finish_tensor(t, c, (float *)(void *)next, e);
		if (failed)
			return failed;
		place_of(w, t)->m[t->id.role] = (struct matrix){t->shape, next};
		next += format_arranged_bytes(&t->shape);
	}
	return 0;
}

/* ---- rows of the embedding ---- */

/* As stored, each where the next token of the same remainder takes its place. */
enum { RECENT_ROWS = 256 };
struct recent_rows {
	uint32_t token[RECENT_ROWS]; /* plus one; 0: none */
	uint8_t rows[];
};

static struct shape row_shape(const struct plan_tensor *embedding)
{
	struct shape row = embedding->shape;
	row.rows = 1;
	return row;
}

static struct recent_rows *recent_rows_make(const struct plan_tensor *embedding)
{
	struct shape row = row_shape(embedding);
	return calloc(1, sizeof(struct recent_rows) + RECENT_ROWS * format_packed_bytes(&row));
}

static int read_row(const struct weights *w, uint32_t token, uint8_t *to, struct err *e)
{
	const struct plan_tensor *t = w->embedding;
	struct shape row = row_shape(t);
	uint32_t chunk = token / t->chunk_rows;
	size_t bytes = format_packed_bytes(&row);
	int failed = store_read_dense(w->store, t->first_unit + chunk, w->embedding_chunk,
				      plan_chunk_rows(t, chunk) * bytes, e);
	if (!failed)
		memcpy(to, w->embedding_chunk + token % t->chunk_rows * bytes, bytes);
	return failed;
}

int weights_embed(const struct weights *w, uint32_t token, float *out, struct err *e)
{
	struct shape row = row_shape(w->embedding);
	struct recent_rows *recent = w->recent;
	uint32_t place = token % RECENT_ROWS;
	uint8_t *stored = recent->rows + place * format_packed_bytes(&row);
	if (token >= w->embedding->shape.rows)
		return err_set(e, ERANGE, "token %u is outside the model's vocabulary of %u", token,
			       w->embedding->shape.rows);
	if (recent->token[place] != token + 1) {
		recent->token[place] = 0;
		int failed = read_row(w, token, stored, e);
		if (failed)
			return failed;
		recent->token[place] = token + 1;
	}
	format_dequantise_row(out, &row, &(struct pieces){.weights = stored});
	return 0;
}

/* ---- the whole ---- */

int weights_load(struct weights *w, const struct plan *p, const struct config *c,
		 const struct store *store, bool drafts, const _Atomic bool *stop, struct err *e)
{
	size_t unit;
	*w = (struct weights){.store = store, .memory_bytes = memory_needed(p, drafts, &unit)};
	w->layer = calloc(p->layers, sizeof *w->layer);
	uint8_t *buffer = malloc(2 * unit);
	w->embedding_chunk = malloc(unit); /* of which it is one */
	void *memory = mmap(NULL, w->memory_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	w->memory = memory == MAP_FAILED ? NULL : memory;
	int result;
	if (!w->layer || !buffer || !w->embedding_chunk || !w->memory) {
		result = err_set(e, ENOMEM,
				 "out of memory for %zu MB of attention and output weights",
				 w->memory_bytes >> 20);
	} else {
		madvise(w->memory, w->memory_bytes, MADV_HUGEPAGE); /* a wish; fewer TLB misses */
		result = load_all(w, p, c, store, drafts, buffer, stop, e);
	}
	if (!result && !(w->recent = recent_rows_make(w->embedding)))
		result = err_set(e, ENOMEM, "out of memory for rows of the embedding");
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
