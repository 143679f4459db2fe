/* A checkpoint that is its own store (convert.h): the places of its experts, and its dense part,
 * which is read as in a conversion. */
#include "cache/store_in_place.h"
#include "engine/convert/convert.h"
#include "engine/convert/encoder.h"
#include "engine/source/files.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Stays open as long as the store. */
struct convert_place {
	struct sources sources;
	struct plan plan; /* a separate plan, since the caller's may move */
	struct in_place_file *files;
	struct in_place_piece *pieces;
	uint32_t *first;

	pthread_mutex_t lock; /* of the fields below; held while a chunk is read */
	struct encoder *encoder;
	uint8_t *chunk; /* [encoder_chunk_bytes]: the last chunk that was read; units are its pieces
			 */
	const struct plan_tensor *tensor; /* of `chunk`; NULL: no chunk */
	uint32_t number;		  /* of `chunk` */
};

static void convert_place_close(void *ctx)
{
	struct convert_place *s = ctx;
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

static int convert_is_needed(const struct source *from, struct err *e)
{
	return err_set(e, ENOTSUP, "tensor %s must be converted before it can be computed with",
		       from->tensor->name);
}

/* Whether the source's bytes are as the plan requires: contiguous rows of the same format. */
static bool convert_lies_in_place(const struct shape *s, const struct source *from)
{
	const struct view *v = &from->view;
	uint64_t run;
	return (encoder_copies(s, from) || s->format == from->tensor->format) &&
	       v->way == VIEW_ALONG && !v->paired && v->change == VIEW_AS_IS &&
	       from->tensor->parts && (view_row(v, 0, &run), run >= s->rows);
}

/* Adds the pieces of a part to a record's pieces. Adjacent pieces become one. */
static int convert_place_part(struct convert_place *s, uint32_t record, uint32_t part,
			      struct err *e)
{
	const struct shape *shape = plan_part_shape(&s->plan, record, part);
	struct source from;
	uint64_t run;
	int failed = sources_find(&s->sources, plan_part_id(&s->plan, record, part), &from, e);
	if (failed)
		return failed;
	if (!convert_lies_in_place(shape, &from))
		return convert_is_needed(&from, e);
	for (uint32_t i = 0; i < PLAN_PIECES && plan_piece_bytes(shape, i) > 0; i++) {
		if (i >= from.tensor->parts)
			return convert_is_needed(&from, e);
		const struct package_place at =
			package_place(from.tensor, i, view_row(&from.view, 0, &run), shape->rows);
		if (at.bytes != plan_piece_bytes(shape, i))
			return convert_is_needed(&from, e);
		uint32_t *end = &s->first[record + 1];
		struct in_place_piece *last = *end > s->first[record] ? &s->pieces[*end - 1] : NULL;
		if (last && last->file == at.file && last->offset + last->bytes == at.offset)
			last->bytes += at.bytes;
		else
			s->pieces[(*end)++] = (struct in_place_piece){at.file, at.offset, at.bytes};
	}
	return 0;
}

static int convert_place_experts(struct convert_place *s, struct err *e)
{
	uint32_t records = plan_records(&s->plan);
	size_t most = (size_t)records * EXPERT_PARTS * PLAN_PIECES;
	_Static_assert((int)EXPERT_PARTS * PLAN_PIECES <= STORE_PIECES, "a read takes them all");
	s->first = calloc((size_t)records + 1, sizeof *s->first);
	s->pieces = calloc(most + 1, sizeof *s->pieces);
	if (!s->first || !s->pieces)
		return err_set(e, ENOMEM, "out of memory for the list of experts");
	int failed = 0;
	for (uint32_t i = 0; i < records && !failed; i++) {
		s->first[i + 1] = s->first[i];
		for (uint32_t part = s->plan.first_part; part < EXPERT_PARTS && !failed; part++)
			failed = convert_place_part(s, i, part, e);
	}
	return failed;
}

/* Checks an expert for NaNs and infinities when it is read for the first time. */
static int convert_check_expert(void *ctx, uint32_t record, const struct store_pieces *stored,
				struct err *e)
{
	const struct convert_place *s = ctx;
	const struct plan_record *r = &s->plan.record[record / s->plan.experts];
	struct pieces part[EXPERT_PARTS];
	plan_part_pieces(r, stored, part);
	for (uint32_t i = s->plan.first_part; i < EXPERT_PARTS; i++) {
		if (format_is_finite(&r->part[i], &part[i]))
			continue;
		struct source from;
		const struct tensor_id id = plan_part_id(&s->plan, record, i);
		int failed = sources_find(&s->sources, id, &from, e);
		return failed ? failed
			      : err_set(e, EINVAL,
					"tensor %s holds a NaN or an infinity in layer %u expert "
					"%u; the checkpoint is damaged",
					from.tensor->name, id.layer, id.expert);
	}
	return 0;
}

/* ---- the dense part ---- */

static int convert_check_dense(const struct convert_place *s, struct err *e)
{
	int failed = 0;
	for (uint32_t i = 0; i < s->plan.dense_count && !failed; i++) {
		const struct plan_tensor *t = &s->plan.dense[i];
		struct source from;
		failed = sources_find(&s->sources, t->id, &from, e);
		if (!failed && !format_is_float(t->shape.format) &&
		    !encoder_copies(&t->shape, &from))
			failed = convert_is_needed(&from, e);
	}
	return failed;
}

/* The tensor of a unit: the last one that begins at or before the unit. */
static const struct plan_tensor *convert_tensor_of(const struct plan *p, uint32_t unit)
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

/* Reads one piece of a chunk as in a conversion, with all checks of its numbers. Reads the whole
 * chunk and keeps it, since its other pieces are usually read next. */
static int convert_read_piece(struct convert_place *s, const struct plan_tensor *t, uint32_t number,
			      uint32_t piece, void *buffer, size_t bytes, struct err *e)
{
	const struct shape rows = plan_chunk_shape(t, number);
	size_t offset = 0;
	int failed = 0;
	for (uint32_t i = 0; i < piece; i++)
		offset += plan_piece_bytes(&rows, i);
	pthread_mutex_lock(&s->lock);
	if (s->tensor != t || s->number != number) {
		s->tensor = NULL;
		failed = encoder_chunk(s->encoder, t, number, s->chunk, e);
		if (!failed) {
			s->tensor = t;
			s->number = number;
		}
	}
	if (!failed)
		memcpy(buffer, s->chunk + offset, bytes);
	if (piece + 1 == PLAN_PIECES || !plan_piece_bytes(&rows, piece + 1))
		s->tensor = NULL; /* a second request must read the file again */
	pthread_mutex_unlock(&s->lock);
	return failed;
}

static int convert_read_dense(void *ctx, uint32_t unit, bool known, void *buffer, size_t bytes,
			      struct err *e)
{
	struct convert_place *s = ctx;
	const struct plan_tensor *t = convert_tensor_of(&s->plan, unit);
	uint32_t piece = (unit - t->first_unit) / t->chunks,
		 number = (unit - t->first_unit) % t->chunks;
	struct source from;
	int failed = known ? sources_find(&s->sources, t->id, &from, e) : 0;
	if (failed || !known || !encoder_copies(&t->shape, &from))
		return failed ? failed : convert_read_piece(s, t, number, piece, buffer, bytes, e);
	return sources_read_part(&s->sources, &from, piece, number * t->chunk_rows,
				 plan_chunk_rows(t, number), buffer, e);
}

/* ---- opening ---- */

static int convert_place_prepare(struct convert_place *s, const struct convert_in_place *v,
				 struct recipe *r, struct err *e)
{
	int failed = sources_open(&s->sources, v->directory, v->config, e);
	if (!failed)
		failed = sources_plan(&s->sources, NULL, r, &s->plan, e);
	if (!failed)
		failed = convert_check_dense(s, e);
	if (!failed)
		failed = convert_place_experts(s, e);
	const struct files *f = failed ? NULL : package_files(s->sources.package);
	if (!failed && !(s->files = calloc((size_t)files_count(f) + 1, sizeof *s->files)))
		failed = err_set(e, ENOMEM, "out of memory for the list of files");
	for (uint32_t i = 0; !failed && i < files_count(f); i++)
		s->files[i] = (struct in_place_file){files_path(f, i), files_descriptor(f, i)};
	if (!failed)
		failed = encoder_create(&s->encoder, &s->plan, &s->sources, v->kernels, e);
	if (!failed && !(s->chunk = malloc(encoder_chunk_bytes(&s->plan))))
		failed = err_set(e, ENOMEM, "out of memory for reading weights");
	return failed;
}

int convert_in_place_open(struct store **out, struct plan *plan, const struct convert_in_place *v,
			  struct err *e)
{
	struct recipe r = v->recipe;
	struct convert_place *s = calloc(1, sizeof *s);
	*out = NULL;
	if (!s)
		return err_set(e, ENOMEM, "out of memory for a model");
	r.codec = CODEC_NONE;
	pthread_mutex_init(&s->lock, NULL);
	int failed = convert_place_prepare(s, v, &r, e);
	if (!failed)
		failed = plan_make(plan, v->config, &r, e);
	if (failed) {
		convert_place_close(s);
		return failed;
	}
	struct in_place_source place = {
		.name = v->directory,
		.key.fingerprint = {v->number[0], v->number[1]},
		.layout = plan_layout(&s->plan),
		.files = s->files,
		.file_count = files_count(package_files(s->sources.package)),
		.pieces = s->pieces,
		.first = s->first,
		.read_dense = convert_read_dense,
		.check = convert_check_expert,
		.close = convert_place_close,
		.ctx = s,
	};
	recipe_to_text(&s->plan.recipe, place.key.recipe, sizeof place.key.recipe);
	failed = store_in_place_open(out, &place, e);
	if (failed) {
		plan_free(plan);
		convert_place_close(s);
	}
	return failed;
}
