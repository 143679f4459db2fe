/* Dense weights and rows of tables, from a store. See weights.h. */
#include "engine/compute/weights.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Some of a plan's dense tensors. */
struct weights_part {
	bool once;		/* those that occur once */
	uint32_t layer, layers; /* and those of this many layers, from this one on */
	bool drafts;		/* a draft layer's, too */
};
static const struct weights_part weights_once = {.once = true};

static bool weights_in_layer(const struct plan_tensor *t)
{
	return tensor_roles[t->id.role].place == PLACE_LAYER;
}

/* Not tables, of which a token needs one row. */
static bool weights_has(const struct weights_part *part, const struct plan_tensor *t)
{
	if (role_is_table(t->id.role) || (t->draft && !part->drafts))
		return false;
	return weights_in_layer(t) ? t->id.layer - part->layer < part->layers : part->once;
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

int weights_check_list(const float *list, uint32_t tokens, uint32_t each, uint32_t experts,
		       struct err *e)
{
	for (uint32_t t = 0; t < tokens; t++, list += each)
		for (uint32_t i = 0; i < each; i++) {
			bool twice = false;
			for (uint32_t k = 0; k < i; k++)
				twice = twice || list[k] == list[i];
			if (twice || !(list[i] >= 0 && list[i] < (float)experts) ||
			    list[i] != (float)(uint32_t)list[i])
				return err_set(e, EINVAL,
					       "the experts listed for token %u are not %u of the "
					       "model's %u; the checkpoint is damaged",
					       t, each, experts);
		}
	return 0;
}

/* What computing wants of a tensor's numbers once they are in memory. */
static int weights_finish_tensor(const struct plan_tensor *t, const struct config *c, float *data,
				 struct err *e)
{
	enum tensor_class class = tensor_roles[t->id.role].class;
	if (t->id.role == TENSOR_ROUTER_LIST)
		return weights_check_list(data, t->shape.rows, t->shape.cols, c->experts, e);
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

/* In memory. */
static size_t weights_part_bytes(const struct weights_part *part, const struct plan *p)
{
	size_t bytes = 0;
	for (uint32_t i = 0; i < p->dense_count; i++)
		if (weights_has(part, &p->dense[i]))
			bytes += format_arranged_bytes(&p->dense[i].computed);
	return bytes;
}

static size_t weights_largest_chunk(const struct plan *p)
{
	size_t largest = 0;
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct shape chunk = plan_chunk_shape(&p->dense[i], 0);
		size_t stored = plan_stored_bytes(&chunk);
		largest = stored > largest ? stored : largest;
	}
	return largest;
}

/* Reads a part's tensors to `next`, one after the other; `buffer` has room for any chunk. */
static int weights_load_tensors(struct weights *w, const struct weights_part *part,
				const struct plan *p, const struct config *c, uint8_t *next,
				uint8_t *buffer, const _Atomic bool *stop, struct err *e)
{
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct plan_tensor *t = &p->dense[i];
		if (!weights_has(part, t))
			continue;
		if (atomic_load(stop))
			return err_set(e, ECANCELED, "loading was stopped");
		int failed = weights_load_tensor(t, w->store, next, buffer, e);
		if (!failed)
			failed = weights_finish_tensor(t, c, (float *)(void *)next, e);
		if (failed)
			return failed;
		struct layer_weights *l = weights_in_layer(t) ? &w->layer[t->id.layer] : &w->once;
		l->m[t->id.role] = (struct matrix){t->computed, next};
		next += format_arranged_bytes(&t->computed);
	}
	return 0;
}

static void weights_give(struct weights_memory *m)
{
	if (m->at)
		munmap(m->at, m->bytes);
	*m = (struct weights_memory){0};
}

/* Takes memory for a part, and reads the part. */
static int weights_load_part(struct weights *w, const struct weights_part *part,
			     struct weights_memory *to, const struct plan *p,
			     const struct config *c, const _Atomic bool *stop, struct err *e)
{
	size_t bytes = weights_part_bytes(part, p);
	uint8_t *buffer = malloc(weights_largest_chunk(p));
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!buffer || memory == MAP_FAILED) {
		free(buffer);
		if (memory != MAP_FAILED)
			munmap(memory, bytes);
		return err_set(e, ENOMEM, "out of memory for %zu MB of attention and output weights",
			       bytes >> 20);
	}
	*to = (struct weights_memory){memory, bytes};
	/* For fewer TLB misses; the kernel may ignore it. */
	madvise(memory, bytes, MADV_HUGEPAGE);
	int failed = weights_load_tensors(w, part, p, c, memory, buffer, stop, e);
	free(buffer);
	return failed;
}

/* ---- rows of tables ---- */

/* The last rows, as stored, piece after piece: token t has place t % RECENT_ROWS. */
enum { RECENT_ROWS = 256 };
struct recent_rows {
	uint32_t token[RECENT_ROWS]; /* plus one; 0: the place is free */
	uint8_t rows[];
};

static struct shape weights_row_shape(const struct plan_tensor *table)
{
	struct shape row = table->shape;
	row.rows = 1;
	return row;
}

/* Copies a token's row from its chunk, piece after piece. */
static void weights_copy_row(const struct plan_tensor *t, const struct pieces *chunk,
			     uint32_t token, uint8_t *to)
{
	struct shape row = weights_row_shape(t);
	size_t at = token % t->chunk_rows;
	const void *const pieces[PLAN_PIECES] = {chunk->weights, chunk->scales, chunk->biases};
	for (uint32_t i = 0; i < PLAN_PIECES; i++) {
		size_t bytes = plan_piece_bytes(&row, i);
		memcpy(to, (const uint8_t *)pieces[i] + at * bytes, bytes);
		to += bytes;
	}
}

static int weights_read_row(const struct weights *w, const struct plan_tensor *t, uint32_t token,
			    uint8_t *to, struct err *e)
{
	struct pieces from;
	int failed = weights_read_chunk(t, token / t->chunk_rows, w->store, w->table_chunk, &from,
					e);
	if (!failed)
		weights_copy_row(t, &from, token, to);
	return failed;
}

int weights_table_chunk(const struct weights *w, enum weights_which table, uint32_t chunk, void *to,
			struct err *e)
{
	struct pieces pieces; /* where they are in `to` */
	return weights_read_chunk(w->tables[table].tensor, chunk, w->store, to, &pieces, e);
}

/* From a row as stored, piece after piece. */
static void weights_widen_row(const struct plan_tensor *t, const uint8_t *stored, float *out)
{
	struct shape row = weights_row_shape(t);
	const uint8_t *scales = stored + plan_piece_bytes(&row, 0);
	format_dequantise_row(out, &row,
			      &(struct pieces){stored, scales, scales + plan_piece_bytes(&row, 1)});
}

int weights_row(const struct weights *w, enum weights_which table, uint32_t token, float *out,
		struct err *e)
{
	const struct plan_tensor *t = w->tables[table].tensor;
	struct shape row = weights_row_shape(t);
	struct recent_rows *recent = w->tables[table].recent;
	uint32_t place = token % RECENT_ROWS;
	uint8_t *stored = recent->rows + place * plan_stored_bytes(&row);
	if (token >= t->shape.rows)
		return err_set(e, ERANGE, "token %u is outside the model's vocabulary of %u", token,
			       t->shape.rows);
	if (recent->token[place] != token + 1) {
		recent->token[place] = 0;
		int failed = weights_read_row(w, t, token, stored, e);
		if (failed)
			return failed;
		recent->token[place] = token + 1;
	}
	weights_widen_row(t, stored, out);
	return 0;
}

/* ---- many rows of a table ---- */

/* Fewer are not worth a buffer for each thread. */
enum { ROWS_TOGETHER = 4 };

/* A token's row that is to be read. */
struct wanted_row {
	uint32_t token, at; /* which of the tokens */
	bool kept;	    /* among the recent rows */
};

struct rows_task {
	const struct weights *w;
	const struct weights_table *table;
	const struct wanted_row *rows; /* by token, so chunk after chunk */
	float *out;
	size_t stride, chunk_bytes, row_bytes;
	bool *there;
};

/* A row of the chunk that has been read. */
static void weights_take_row(const struct rows_task *a, const struct wanted_row *row,
			     const struct pieces *chunk, uint8_t *spare)
{
	const struct plan_tensor *t = a->table->tensor;
	struct recent_rows *recent = a->table->recent;
	uint32_t place = row->token % RECENT_ROWS;
	uint8_t *stored = row->kept ? recent->rows + place * a->row_bytes : spare;
	weights_copy_row(t, chunk, row->token, stored);
	if (row->kept)
		recent->token[place] = row->token + 1;
	weights_widen_row(t, stored, a->out + row->at * a->stride);
	a->there[row->at] = true;
}

static void weights_read_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct rows_task *a = ctx;
	const struct plan_tensor *t = a->table->tensor;
	uint8_t *buffer = malloc(a->chunk_bytes + a->row_bytes);
	uint32_t chunk = UINT32_MAX;
	struct pieces from;
	struct err ignored;
	bool read = false;
	for (uint32_t i = begin; i < end && buffer; i++) {
		const struct wanted_row *row = &a->rows[i];
		if (row->token / t->chunk_rows != chunk) {
			chunk = row->token / t->chunk_rows;
			read = !weights_read_chunk(t, chunk, a->w->store, buffer, &from, &ignored);
		}
		if (read)
			weights_take_row(a, row, &from, buffer + a->chunk_bytes);
	}
	free(buffer);
}

static int weights_compare_rows(const void *a, const void *b)
{
	const struct wanted_row *x = a, *y = b;
	return x->token != y->token ? (x->token > y->token) - (x->token < y->token)
				    : (x->at > y->at) - (x->at < y->at);
}

/* Lists the rows that are not among the recent ones. Of those that share a place there, the last one is kept, unless what is
 * there is wanted now. */
static uint32_t weights_list_rows(struct recent_rows *recent, const uint32_t *tokens, uint32_t n,
				  uint32_t vocabulary, struct wanted_row *rows)
{
	bool taken[RECENT_ROWS] = {false};
	uint32_t count = 0;
	for (uint32_t i = 0; i < n; i++)
		if (recent->token[tokens[i] % RECENT_ROWS] == tokens[i] + 1)
			taken[tokens[i] % RECENT_ROWS] = true;
		else if (tokens[i] < vocabulary)
			rows[count++] = (struct wanted_row){tokens[i], i, false};
	for (uint32_t i = count; i-- > 0;) {
		bool *place = &taken[rows[i].token % RECENT_ROWS];
		rows[i].kept = !*place;
		*place = true;
		if (rows[i].kept)
			recent->token[rows[i].token % RECENT_ROWS] = 0;
	}
	qsort(rows, count, sizeof *rows, weights_compare_rows);
	return count;
}

void weights_rows(const struct weights *w, enum weights_which table, const uint32_t *tokens,
		  uint32_t n, float *out, size_t stride, bool *there, struct threads *threads)
{
	const struct weights_table *from = &w->tables[table];
	const struct shape row = weights_row_shape(from->tensor),
			   chunk = plan_chunk_shape(from->tensor, 0);
	struct wanted_row *rows = n >= ROWS_TOGETHER ? malloc(n * sizeof *rows) : NULL;
	memset(there, 0, n * sizeof *there);
	if (!rows)
		return;
	uint32_t count =
		weights_list_rows(from->recent, tokens, n, from->tensor->shape.rows, rows);
	struct rows_task all = {w,	from,  rows,
				out,	stride, plan_stored_bytes(&chunk),
				plan_stored_bytes(&row), there};
	if (count >= ROWS_TOGETHER)
		threads_run(threads, count, count / (4 * threads_count(threads)) + 1,
			    weights_read_rows, &all);
	free(rows);
}

static int weights_make_recent(struct weights_table *t, struct err *e)
{
	if (!t->tensor)
		return 0;
	struct shape row = weights_row_shape(t->tensor);
	t->recent = calloc(1, sizeof *t->recent + RECENT_ROWS * plan_stored_bytes(&row));
	return t->recent ? 0 : err_set(e, ENOMEM, "out of memory for rows of the embedding");
}

/* ---- the whole ---- */

/* What there is besides the tensors in memory. */
static int weights_begin(struct weights *w, const struct plan *p, const struct store *store,
			 struct err *e)
{
	*w = (struct weights){.store = store};
	for (uint32_t i = 0; i < p->dense_count; i++)
		if (p->dense[i].id.role == TENSOR_EMBEDDING)
			w->tables[TABLE_EMBEDDING].tensor = &p->dense[i];
		else if (p->dense[i].id.role == TENSOR_PER_LAYER_TABLE)
			w->tables[TABLE_PER_LAYER].tensor = &p->dense[i];
	w->layer = calloc(p->layers, sizeof *w->layer);
	w->table_chunk = malloc(weights_largest_chunk(p));
	int failed = w->layer && w->table_chunk
			     ? 0
			     : err_set(e, ENOMEM, "out of memory for rows of the embedding");
	for (int i = 0; i < WEIGHTS_TABLES && !failed; i++)
		failed = weights_make_recent(&w->tables[i], e);
	return failed;
}

static int weights_load_first(struct weights *w, const struct weights_part *part,
			      const struct plan *p, const struct config *c,
			      const struct store *store, const _Atomic bool *stop, struct err *e)
{
	int failed = weights_begin(w, p, store, e);
	if (!failed)
		failed = weights_load_part(w, part, &w->memory, p, c, stop, e);
	if (failed)
		weights_free(w);
	return failed;
}

int weights_load(struct weights *w, const struct plan *p, const struct config *c,
		 const struct store *store, bool drafts, const _Atomic bool *stop, struct err *e)
{
	const struct weights_part all = {.once = true, .layers = p->layers, .drafts = drafts};
	return weights_load_first(w, &all, p, c, store, stop, e);
}

int weights_load_once(struct weights *w, const struct plan *p, const struct config *c,
		      const struct store *store, const _Atomic bool *stop, struct err *e)
{
	return weights_load_first(w, &weights_once, p, c, store, stop, e);
}

int weights_load_layer(struct weights *w, const struct plan *p, const struct config *c,
		       uint32_t layer, const _Atomic bool *stop, struct err *e)
{
	const struct weights_part one = {.layer = layer, .layers = 1};
	memset(w->layer, 0, p->layers * sizeof *w->layer);
	weights_give(&w->layer_memory);
	return weights_load_part(w, &one, &w->layer_memory, p, c, stop, e);
}

void weights_free(struct weights *w)
{
	weights_give(&w->memory);
	weights_give(&w->layer_memory);
	free(w->layer);
	free(w->table_chunk);
	for (int i = 0; i < WEIGHTS_TABLES; i++)
		free(w->tables[i].recent);
	*w = (struct weights){0};
}
