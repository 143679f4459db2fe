#include "engine/family/plan.h"
#include "engine/family/family.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

/* Bytes of a row chunk: small enough for streaming and for losing one in a crash, large enough for
 * the disk. */
enum { CHUNK_BYTES = 4 << 20 };
/* Bytes of a chunk of a table, such as the embedding. To read a token's row, the whole chunk is
 * read, since the checksum covers it: about 50 µs from the page cache. Smaller chunks would give
 * too many units to sync in a conversion. */
enum { TABLE_CHUNK_BYTES = 256 << 10 };
/* Enough for terabytes. A config.json that needs more is wrong, and the lists alone would take much
 * memory. */
enum { MAX_DENSE_UNITS = 1 << 20 };

enum { NAME_BYTES = 256 };

size_t plan_piece_bytes(const struct shape *s, uint32_t piece)
{
	static size_t (*const bytes[PLAN_PIECES])(const struct shape *) = {
		format_packed_bytes, format_norm_bytes, format_bias_bytes};
	return bytes[piece](s);
}

size_t plan_stored_bytes(const struct shape *s)
{
	return plan_piece_bytes(s, 0) + plan_piece_bytes(s, 1) + plan_piece_bytes(s, 2);
}

static uint32_t plan_pieces(const struct shape *s)
{
	return 1 + (plan_piece_bytes(s, 1) > 0) + (plan_piece_bytes(s, 2) > 0);
}

/* ---- shapes ---- */

struct planning {
	struct plan *plan;
	const struct config *config;
	const struct plan_formats *formats; /* NULL: formats of the recipe */
	struct tensor_id unfit;
	bool failed; /* the shape of `unfit` is invalid, so do not compute its sizes */
};

static struct shape plan_shape(struct planning *g, struct tensor_id id)
{
	const struct recipe *r = &g->plan->recipe;
	struct shape s = {.norms = r->norms};
	config_tensor_shape(g->config, id.role, id.layer, &s.rows, &s.cols);
	if (!s.cols) { /* a vector is a matrix of one row */
		s.cols = s.rows;
		s.rows = 1;
	}
	s.format = recipe_format(r, g->config, id, s.cols);
	const struct published_format *f = recipe_published(r, id);
	if (g->formats) {
		g->formats->of(g->formats->ctx, id, &s);
	} else if (f) {
		s.format = f->format;
		s.norms = f->norms;
		s.group = f->group;
	}
	if (!g->failed && !format_shape_fits(&s)) {
		g->failed = true;
		g->unfit = id;
	}
	return s;
}

static struct shape plan_computed_shape(const struct recipe *r, const struct shape *stored)
{
	if (!r->exact || format_is_float(stored->format))
		return *stored;
	return (struct shape){.format = FORMAT_F32, .rows = stored->rows, .cols = stored->cols};
}

/* ---- the dense part ---- */

static uint32_t plan_rows_of_chunk(const struct shape *s, enum tensor_role role)
{
	struct shape row = *s;
	row.rows = 1;
	uint64_t bytes = role_is_table(role) ? TABLE_CHUNK_BYTES : CHUNK_BYTES;
	uint64_t rows = bytes / (format_packed_bytes(&row) + 1) / TILE_ROWS * TILE_ROWS;
	if (rows < TILE_ROWS)
		rows = TILE_ROWS;
	return rows < s->rows ? (uint32_t)rows : s->rows;
}

static void plan_add_tensor(struct planning *g, enum tensor_role role, uint32_t layer)
{
	struct plan *p = g->plan;
	const struct config *c = g->config;
	struct tensor_id id = {.role = role, .layer = layer};
	if (!config_has_tensor(c, role, layer))
		return;
	struct shape shape = plan_shape(g, id);
	if (g->failed)
		return;
	struct plan_tensor *t = &p->dense[p->dense_count++];
	*t = (struct plan_tensor){
		.id = id,
		.shape = shape,
		.computed = plan_computed_shape(&p->recipe, &shape),
		.draft = layer >= c->layers,
		.offset = p->dense_bytes,
		.first_unit = p->unit_count,
	};
	t->chunk_rows = plan_rows_of_chunk(&t->shape, role);
	t->chunks = (t->shape.rows - 1) / t->chunk_rows + 1;
	p->dense_bytes += plan_stored_bytes(&t->shape);
	p->unit_count += plan_pieces(&t->shape) * t->chunks;

	uint64_t parameters = (uint64_t)t->shape.rows * t->shape.cols;
	if (role != TENSOR_HEAD || !c->tied_head)
		p->parameters += parameters;
	if (!role_is_table(role) && !t->draft)
		p->active_parameters += parameters;
}

static void plan_add_place(struct planning *g, enum tensor_place place, uint32_t layer)
{
	for (int role = 0; role < TENSOR_ROLES; role++)
		if (tensor_roles[role].place == place)
			plan_add_tensor(g, (enum tensor_role)role, layer);
}

/* Adds the dense tensors in the order of a forward pass; the draft layer's tensors come last. */
static void plan_add_dense(struct planning *g)
{
	plan_add_place(g, PLACE_INPUT, 0);
	for (uint32_t layer = 0; layer < g->config->layers; layer++)
		plan_add_place(g, PLACE_LAYER, layer);
	plan_add_place(g, PLACE_OUTPUT, 0);
	for (uint32_t layer = g->config->layers; layer < g->plan->layers; layer++) {
		plan_add_place(g, PLACE_LAYER, layer);
		plan_add_place(g, PLACE_DRAFT, layer);
	}
}

static int plan_make_units(struct plan *p, struct err *e)
{
	p->units = calloc(p->unit_count, sizeof *p->units);
	if (!p->units)
		return err_set(e, ENOMEM, "out of memory for the list of a store's parts");
	uint64_t offset = 0;
	struct store_range *u = p->units;
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct plan_tensor *t = &p->dense[i];
		for (uint32_t piece = 0; piece < plan_pieces(&t->shape); piece++)
			for (uint32_t k = 0; k < t->chunks; k++, u++) {
				const struct shape chunk = plan_chunk_shape(t, k);
				u->offset = offset;
				u->bytes = plan_piece_bytes(&chunk, piece);
				offset += u->bytes;
			}
	}
	return 0;
}

/* ---- experts ---- */

static void plan_number_routed(struct plan *p, const struct config *c)
{
	for (uint32_t layer = 0; layer < p->layers; layer++) {
		p->routed_of[layer] = UINT32_MAX;
		if (config_routed(c, layer)) {
			p->routed_of[layer] = p->routed_layers;
			p->layer_of[p->routed_layers++] = layer;
		}
	}
	p->experts = p->routed_layers ? c->experts : 0;
	p->first_part = config_gated(c) ? 0 : 1;
}

static struct plan_record plan_lay_out_record(struct planning *g, uint32_t routed)
{
	struct plan_record r = {0};
	for (uint32_t i = g->plan->first_part; i < EXPERT_PARTS; i++) {
		r.part[i] = plan_shape(g, plan_part_id(g->plan, routed * g->plan->experts, i));
		r.part_offset[i] = r.bytes;
		r.slot_offset[i] = r.slot_bytes;
		if (g->failed)
			break;
		r.computed[i] = plan_computed_shape(&g->plan->recipe, &r.part[i]);
		r.bytes += plan_stored_bytes(&r.part[i]);
		r.slot_bytes += format_arranged_bytes(&r.computed[i]);
	}
	return r;
}

/* Lists the sizes per layer, if they differ. */
static int plan_list_sizes(struct plan *p)
{
	bool alike = true;
	for (uint32_t i = 0; i < p->routed_layers; i++)
		alike = alike && p->record[i].bytes == p->record[0].bytes &&
			p->record[i].slot_bytes == p->record[0].slot_bytes;
	if (alike)
		return 0;
	p->layer_record_bytes = calloc(p->routed_layers, sizeof *p->layer_record_bytes);
	p->layer_slot_bytes = calloc(p->routed_layers, sizeof *p->layer_slot_bytes);
	if (!p->layer_record_bytes || !p->layer_slot_bytes)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->routed_layers; i++) {
		p->layer_record_bytes[i] = p->record[i].bytes;
		p->layer_slot_bytes[i] = p->record[i].slot_bytes;
	}
	return 0;
}

static int plan_add_experts(struct planning *g, struct err *e)
{
	struct plan *p = g->plan;
	plan_number_routed(p, g->config);
	p->record = calloc((size_t)p->routed_layers + 1, sizeof *p->record);
	if (!p->record)
		return err_set(e, ENOMEM, "out of memory for the list of experts");
	for (uint32_t i = 0; i < p->routed_layers && !g->failed; i++) {
		struct plan_record *r = &p->record[i];
		*r = plan_lay_out_record(g, i);
		p->record_bytes = r->bytes > p->record_bytes ? r->bytes : p->record_bytes;
		p->slot_bytes = r->slot_bytes > p->slot_bytes ? r->slot_bytes : p->slot_bytes;
		uint64_t parameters = 0;
		for (uint32_t part = 0; part < EXPERT_PARTS; part++)
			parameters += (uint64_t)r->part[part].rows * r->part[part].cols;
		p->parameters += parameters * p->experts;
		if (p->layer_of[i] < g->config->layers) /* every token passes through it */
			p->active_parameters += parameters * g->config->experts_per_token;
	}
	return plan_list_sizes(p) ? err_set(e, ENOMEM, "out of memory for the list of experts") : 0;
}

uint64_t plan_records_bytes(const struct plan *p)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < p->routed_layers; i++)
		sum += p->record[i].bytes * p->experts;
	return sum;
}

uint64_t plan_slots_bytes(const struct plan *p, uint32_t layers, size_t (*taken)(size_t slot_bytes))
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < p->routed_layers && p->layer_of[i] < layers; i++)
		sum += (uint64_t)taken(p->record[i].slot_bytes) * p->experts;
	return sum;
}

/* ---- the digest ---- */

static bool plan_records_equal(const struct plan_record *a, const struct plan_record *b)
{
	for (uint32_t i = 0; i < EXPERT_PARTS; i++) {
		const struct shape *x = &a->part[i], *y = &b->part[i];
		if (x->format != y->format || x->norms != y->norms || x->rows != y->rows ||
		    x->cols != y->cols || x->group != y->group)
			return false;
	}
	return true;
}

/* The digest covers a text with a line per tensor and a few lines for the experts, not the structs,
 * so it does not depend on enum values or byte order. */
__attribute__((format(printf, 2, 3))) static void plan_digest_line(XXH3_state_t *state,
								   const char *format, ...)
{
	char line[512];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	/* No line is too long, since names have at most 255 bytes. The NUL is the end of the line.
	 */
	size_t bytes = n < 0 ? 0 : (size_t)n < sizeof line ? (size_t)n + 1 : sizeof line;
	(void)XXH3_128bits_update(state, line, bytes);
}

static void plan_digest_shape(XXH3_state_t *state, const struct config *c, struct tensor_id id,
			      const struct shape *s, uint64_t offset)
{
	static const char *const types[] = {
		[NORM_F16] = "f16", [NORM_F32] = "f32", [NORM_BF16] = "bf16"};
	char name[NAME_BYTES] = "";
	bool typed = format_is_tq(s->format) || format_affine_bits(s->format);
	(void)family_store_name(c, id, name, sizeof name);
	plan_digest_line(state, "%s %s %s %" PRIu32 " %" PRIu32 " %" PRIu64, name,
			 format_name(s->format), typed ? types[s->norms] : "-", s->rows, s->cols,
			 offset);
	if (s->group)
		plan_digest_line(state, "group %" PRIu32, s->group);
}

static int plan_make_digest(struct plan *p, const struct config *c, struct err *e)
{
	XXH3_state_t *state = XXH3_createState();
	if (!state)
		return err_set(e, ENOMEM, "out of memory for the digest of a store's layout");
	(void)XXH3_128bits_reset(state);
	plan_digest_line(state, "moefs plan 1");
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct plan_tensor *t = &p->dense[i];
		plan_digest_shape(state, c, t->id, &t->shape, t->offset);
		plan_digest_line(state, "%" PRIu32 " %" PRIu32, t->first_unit, t->chunk_rows);
	}
	plan_digest_line(state, "experts %" PRIu32 " %" PRIu64, p->experts,
			 p->routed_layers ? p->record[0].bytes : 0);
	for (uint32_t i = 0; i < p->routed_layers; i++)
		plan_digest_line(state, "%" PRIu32, p->layer_of[i]);
	for (uint32_t i = 0; i < p->routed_layers; i++) {
		const struct plan_record *r = &p->record[i];
		if (i > 0 && plan_records_equal(r, &p->record[0]))
			continue;
		for (uint32_t part = p->first_part; part < EXPERT_PARTS; part++)
			plan_digest_shape(state, c, plan_part_id(p, i * p->experts, part),
					  &r->part[part], r->part_offset[part]);
	}
	XXH128_hash_t h = XXH3_128bits_digest(state);
	p->digest = (struct store_digest){{h.low64, h.high64}};
	XXH3_freeState(state);
	return 0;
}

/* ---- the whole ---- */

static int plan_check_shapes(const struct planning *g, struct err *e)
{
	char name[NAME_BYTES] = "";
	const struct plan *p = g->plan;
	if (g->failed) {
		(void)family_store_name(g->config, g->unfit, name, sizeof name);
		return err_set(e, EINVAL, "%s: has a shape that is not computed with", name);
	}
	if (p->unit_count > MAX_DENSE_UNITS)
		return err_set(
			e, EFBIG,
			"config.json describes a model of absurd size (%u layers of %u x %u)",
			g->config->layers, g->config->hidden_size, g->config->intermediate_size);
	return 0;
}

int plan_make_with(struct plan *p, const struct config *c, const struct recipe *r,
		   const struct plan_formats *formats, struct err *e)
{
	bool draft = r->draft && c->draft;
	struct planning g = {p, c, formats, {0}, false};
	*p = (struct plan){.recipe = *r, .layers = c->layers + (draft ? CONFIG_DRAFT_LAYERS : 0)};
	p->recipe.draft = draft;
	size_t most = (size_t)p->layers * TENSOR_ROLES + TENSOR_ROLES;
	p->dense = calloc(most, sizeof *p->dense);
	int failed =
		p->dense ? 0
			 : err_set(e, ENOMEM, "out of memory for the list of %zu tensors", most);
	if (!failed) {
		plan_add_dense(&g);
		failed = plan_add_experts(&g, e);
	}
	if (!failed)
		failed = plan_check_shapes(&g, e);
	if (!failed)
		failed = plan_make_units(p, e);
	if (!failed)
		failed = plan_make_digest(p, c, e);
	p->recipe.published = NULL; /* owned by the caller, who may free them now */
	if (failed)
		plan_free(p);
	return failed;
}

int plan_make(struct plan *p, const struct config *c, const struct recipe *r, struct err *e)
{
	return plan_make_with(p, c, r, NULL, e);
}

void plan_free(struct plan *p)
{
	free(p->dense);
	free(p->units);
	free(p->record);
	free(p->layer_record_bytes);
	free(p->layer_slot_bytes);
	*p = (struct plan){0};
}

struct store_layout plan_layout(const struct plan *p)
{
	return (struct store_layout){
		.digest = p->digest,
		.codec = p->recipe.codec == CODEC_ZSTD ? STORE_CODED : STORE_PLAIN,
		.layers = p->routed_layers,
		.experts = p->experts,
		.record_bytes = p->record_bytes,
		.layer_bytes = p->layer_record_bytes,
		.dense = p->units,
		.dense_units = p->unit_count,
	};
}

/* ---- from disk to memory ---- */

void plan_arrange_rows(void *to, const struct shape *computed, const struct shape *stored,
		       uint32_t row0, uint32_t rows, const struct pieces *from)
{
	if (computed->format == stored->format) {
		format_arrange(to, stored, row0, rows, from);
		return;
	}
	/* F32 in memory has the stored order: contiguous rows. */
	struct shape one = *stored;
	one.rows = 1;
	const uint8_t *piece[PLAN_PIECES] = {from->weights, from->scales, from->biases};
	for (uint32_t r = 0; r < rows; r++) {
		format_dequantise_row((float *)to + (size_t)(row0 + r) * stored->cols, stored,
				      &(struct pieces){piece[0], piece[1], piece[2]});
		for (uint32_t i = 0; i < PLAN_PIECES; i++)
			piece[i] += plan_piece_bytes(&one, i);
	}
}

void plan_part_pieces(const struct plan_record *r, const struct store_pieces *record,
		      struct pieces part[EXPERT_PARTS])
{
	uint32_t run = 0; /* runs end at ends of pieces */
	size_t at = 0;	  /* position in the run */
	for (uint32_t i = 0; i < EXPERT_PARTS; i++) {
		const uint8_t *piece[PLAN_PIECES];
		for (uint32_t k = 0; k < PLAN_PIECES; k++) {
			size_t bytes = r->part[i].rows ? plan_piece_bytes(&r->part[i], k) : 0;
			if (bytes && at == record->piece[run].bytes) {
				run++;
				at = 0;
			}
			piece[k] = (const uint8_t *)record->piece[run].data + at;
			at += bytes;
		}
		part[i] = (struct pieces){piece[0], piece[1], piece[2]};
	}
}

void plan_arrange_pieces(const struct plan *p, uint32_t layer, void *slot,
			 const struct store_pieces *record)
{
	const struct plan_record *r = &p->record[layer];
	struct pieces part[EXPERT_PARTS];
	plan_part_pieces(r, record, part);
	for (uint32_t i = p->first_part; i < EXPERT_PARTS; i++)
		plan_arrange_rows((uint8_t *)slot + r->slot_offset[i], &r->computed[i], &r->part[i],
				  0, r->part[i].rows, &part[i]);
}

void plan_arrange_record(void *ctx, uint32_t layer, void *slot, const void *record)
{
	const struct plan *p = ctx;
	const struct store_pieces whole = {1, {{record, p->record[layer].bytes}}};
	plan_arrange_pieces(p, layer, slot, &whole);
}
