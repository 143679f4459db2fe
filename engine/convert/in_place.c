#include "engine/convert/in_place.h"

#include "cache/store_in_place.h"
#include "engine/convert/encode.h"
#include "engine/source/files.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What stays open while the store is. */
struct source_in_place {
	struct sources sources;
	struct plan plan; /* of its own: the caller's may move */
	struct in_place_file *files;
	struct in_place_piece *pieces;
	uint32_t *first;

	pthread_mutex_t lock; /* of what follows; held while a chunk is read */
	struct encoder *encoder;
	uint8_t *chunk; /* [encode_chunk_bytes]: the last one, of which units are pieces */
	const struct plan_tensor *tensor; /* NULL: none yet */
	uint32_t number;
};

static void close_source(void *ctx)
{
	struct source_in_place *s = ctx;
	pthread_mutex_destroy(&s->lock);
	encoder_free(s->encoder);
	free(s->chunk);
	free(s->files);
	free(s->pieces);
	free(s->first);
	plan_free(&s->plan);
	sources_close(&s->sources);
	free(s);
}

/* ---- experts ---- */

static int is_not_in_place(const struct source *from, struct err *e)
{
	return err_set(e, ENOTSUP, "tensor %s is not as it is computed with", from->tensor->name);
}

/* Whether the bytes that are there are those that the plan wants: rows one after the other, of the
 * same format. */
static bool lies_in_place(const struct shape *s, const struct source *from)
{
	const struct view *v = &from->view;
	uint64_t run;
	return (encode_copies(s, from) || s->format == from->tensor->format) &&
	       v->way == VIEW_ALONG && !v->paired && v->change == VIEW_AS_IS &&
	       from->tensor->parts && (view_row(v, 0, &run), run >= s->rows);
}

/* Adds a piece, or lengthens the one before, if this record has one, that ends where it begins. */
static void add_piece(struct source_in_place *s, uint32_t record, const struct package_place *at)
{
	uint32_t *end = &s->first[record + 1];
	struct in_place_piece *last = *end > s->first[record] ? &s->pieces[*end - 1] : NULL;
	if (last && last->file == at->file && last->offset + last->bytes == at->offset)
		last->bytes += at->bytes;
	else
		s->pieces[(*end)++] = (struct in_place_piece){at->file, at->offset, at->bytes};
}

static int place_part(struct source_in_place *s, uint32_t record, const struct shape *shape,
		      struct tensor_id id, struct err *e)
{
	struct source from;
	uint64_t run;
	int failed = sources_find(&s->sources, id, &from, e);
	if (failed)
		return failed;
	if (!lies_in_place(shape, &from))
		return is_not_in_place(&from, e);
	for (uint32_t i = 0; i < PLAN_PIECES && plan_piece_bytes(shape, i) > 0; i++) {
		if (i >= from.tensor->parts)
			return is_not_in_place(&from, e);
		const struct package_place at =
			package_place(from.tensor, i, view_row(&from.view, 0, &run), shape->rows);
		if (at.bytes != plan_piece_bytes(shape, i))
			return is_not_in_place(&from, e);
		add_piece(s, record, &at);
	}
	return 0;
}

static int place_experts(struct source_in_place *s, struct err *e)
{
	const struct plan *p = &s->plan;
	uint32_t records = p->routed_layers * p->experts;
	size_t most = (size_t)records * EXPERT_PARTS * PLAN_PIECES;
	_Static_assert((int)EXPERT_PARTS * PLAN_PIECES <= STORE_PIECES, "a read takes them all");
	s->first = calloc((size_t)records + 1, sizeof *s->first);
	s->pieces = calloc(most + 1, sizeof *s->pieces);
	if (!s->first || !s->pieces)
		return err_set(e, ENOMEM, "out of memory for the list of experts");
	for (uint32_t i = 0; i < records; i++) {
		uint32_t routed = i / p->experts;
		s->first[i + 1] = s->first[i];
		for (uint32_t part = 0; part < EXPERT_PARTS; part++) {
			struct tensor_id id = {plan_part_role(part), p->layer_of[routed],
					       i % p->experts};
			int failed = place_part(s, i, &p->record[routed].part[part], id, e);
			if (failed)
				return failed;
		}
	}
	return 0;
}

/* ---- the dense part ---- */

static int check_dense(const struct source_in_place *s, struct err *e)
{
	for (uint32_t i = 0; i < s->plan.dense_count; i++) {
		const struct plan_tensor *t = &s->plan.dense[i];
		struct source from;
		int failed = sources_find(&s->sources, t->id, &from, e);
		if (!failed && !format_is_float(t->shape.format) &&
		    !encode_copies(&t->shape, &from))
			failed = is_not_in_place(&from, e);
		if (failed)
			return failed;
	}
	return 0;
}

/* The tensor that a unit is of: the last that begins at it or before. */
static const struct plan_tensor *tensor_of(const struct plan *p, uint32_t unit)
{
	uint32_t low = 0, high = p->dense_count;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (p->dense[middle].first_unit <= unit)
			low = middle;
		else
			high = middle;
	}
	return &p->dense[low];
}

/* A chunk is read whole, since its pieces are asked for one after the other. The lock is held. */
static int read_chunk(struct source_in_place *s, const struct plan_tensor *t, uint32_t number,
		      struct err *e)
{
	if (s->tensor == t && s->number == number)
		return 0;
	s->tensor = NULL;
	int failed = encode_chunk(s->encoder, t, number, s->chunk, e);
	if (failed)
		return failed;
	s->tensor = t;
	s->number = number;
	return 0;
}

/* One piece of a chunk. One that is looked at for the first time is read as a conversion reads it,
 * with all the checks of its numbers. */
static int read_piece(struct source_in_place *s, const struct plan_tensor *t, uint32_t number,
		      uint32_t piece, void *buffer, size_t bytes, struct err *e)
{
	struct shape rows = t->shape;
	size_t offset = 0;
	rows.rows = plan_chunk_rows(t, number);
	for (uint32_t i = 0; i < piece; i++)
		offset += plan_piece_bytes(&rows, i);
	pthread_mutex_lock(&s->lock);
	int failed = read_chunk(s, t, number, e);
	if (!failed)
		memcpy(buffer, s->chunk + offset, bytes);
	if (piece + 1 == PLAN_PIECES || !plan_piece_bytes(&rows, piece + 1))
		s->tensor = NULL; /* whoever asks for it again wants it from the file */
	pthread_mutex_unlock(&s->lock);
	return failed;
}

static int read_dense(void *ctx, uint32_t unit, bool known, void *buffer, size_t bytes,
		      struct err *e)
{
	struct source_in_place *s = ctx;
	const struct plan_tensor *t = tensor_of(&s->plan, unit);
	uint32_t piece = (unit - t->first_unit) / t->chunks,
		 number = (unit - t->first_unit) % t->chunks;
	struct source from;
	int failed = known ? sources_find(&s->sources, t->id, &from, e) : 0;
	if (failed || !known || !encode_copies(&t->shape, &from))
		return failed ? failed : read_piece(s, t, number, piece, buffer, bytes, e);
	return sources_read_part(&s->sources, &from, piece, number * t->chunk_rows,
				 plan_chunk_rows(t, number), buffer, e);
}

/* ---- experts that are read for the first time ---- */

static int not_a_number(const struct source_in_place *s, struct tensor_id id, struct err *e)
{
	struct source from;
	int failed = sources_find(&s->sources, id, &from, e);
	return failed ? failed
		      : err_set(e, EINVAL,
				"tensor %s holds a NaN or an infinity in layer %u expert %u; the "
				"checkpoint is damaged",
				from.tensor->name, id.layer, id.expert);
}

static int check_expert(void *ctx, uint32_t record, const struct store_pieces *stored,
			struct err *e)
{
	const struct source_in_place *s = ctx;
	const struct plan *p = &s->plan;
	uint32_t routed = record / p->experts;
	const struct plan_record *r = &p->record[routed];
	struct pieces part[EXPERT_PARTS];
	plan_part_pieces(r, stored, part);
	for (uint32_t i = 0; i < EXPERT_PARTS; i++)
		if (!format_is_finite(&r->part[i], &part[i]))
			return not_a_number(s,
					    (struct tensor_id){plan_part_role(i),
							       p->layer_of[routed],
							       record % p->experts},
					    e);
	return 0;
}

/* ---- opening ---- */

static int list_files(struct source_in_place *s, struct err *e)
{
	const struct files *f = package_files(s->sources.package);
	s->files = calloc((size_t)files_count(f) + 1, sizeof *s->files);
	if (!s->files)
		return err_set(e, ENOMEM, "out of memory for the list of files");
	for (uint32_t i = 0; i < files_count(f); i++)
		s->files[i] = (struct in_place_file){files_path(f, i), files_descriptor(f, i)};
	return 0;
}

/* The recipe with what is found of its facts, as a conversion finds them. */
static int find_facts(struct source_in_place *s, const struct in_place *v, struct recipe *r,
		      struct err *e)
{
	*r = v->recipe;
	r->draft = s->sources.draft;
	r->codec = CODEC_NONE;
	int failed = plan_make(&s->plan, v->config, r, e);
	if (!failed)
		failed = sources_check(&s->sources, &s->plan, e);
	if (!failed)
		recipe_keep(r, sources_kept_format(&s->sources), r->norms);
	plan_free(&s->plan);
	return failed;
}

static int prepare(struct source_in_place *s, const struct in_place *v, struct recipe *r,
		   struct err *e)
{
	int failed = sources_open(&s->sources, v->directory, v->config, e);
	if (!failed)
		failed = find_facts(s, v, r, e);
	if (!failed)
		failed = plan_make(&s->plan, v->config, r, e);
	if (!failed)
		failed = check_dense(s, e);
	if (!failed)
		failed = place_experts(s, e);
	if (!failed)
		failed = list_files(s, e);
	if (!failed)
		failed = encoder_create(&s->encoder, &s->plan, &s->sources, v->kernels, e);
	if (!failed && !(s->chunk = malloc(encode_chunk_bytes(&s->plan))))
		failed = err_set(e, ENOMEM, "out of memory for reading weights");
	return failed;
}

static int open_store(struct store **out, struct source_in_place *s, const struct in_place *v,
		      struct err *e)
{
	struct in_place_source place = {
		.name = v->directory,
		.key.fingerprint = {v->number[0], v->number[1]},
		.layout = plan_layout(&s->plan),
		.files = s->files,
		.file_count = files_count(package_files(s->sources.package)),
		.pieces = s->pieces,
		.first = s->first,
		.read_dense = read_dense,
		.check = check_expert,
		.close = close_source,
		.ctx = s,
	};
	recipe_to_text(&s->plan.recipe, place.key.recipe, sizeof place.key.recipe);
	return store_in_place_open(out, &place, e);
}

int in_place_open(struct store **out, struct plan *plan, const struct in_place *v, struct err *e)
{
	struct recipe r;
	struct source_in_place *s = calloc(1, sizeof *s);
	*out = NULL;
	if (!s)
		return err_set(e, ENOMEM, "out of memory for a model");
	pthread_mutex_init(&s->lock, NULL);
	int failed = prepare(s, v, &r, e);
	if (!failed)
		failed = plan_make(plan, v->config, &r, e);
	if (!failed && (failed = open_store(out, s, v, e)))
		plan_free(plan);
	if (failed)
		close_source(s);
	return failed;
}
