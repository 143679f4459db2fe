#include "engine/family/plan.h"
#include "engine/family/plan_inside.h"
#include "engine/family/published.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Small enough to stream and to lose in a crash, large enough for the disk. */
enum { CHUNK_BYTES = 4 << 20 };
/* Of the embedding, of which a token needs one row: each row is read with the chunk that its
 * checksum covers, some 50 µs from the page cache. Smaller ones would be more units than a
 * conversion likes to sync. */
enum { EMBEDDING_CHUNK_BYTES = 256 << 10 };
/* Terabytes: more than that is a config.json that is wrong, and would cost memory by itself. */
enum { MAX_DENSE_UNITS = 1 << 20 };

size_t plan_piece_bytes(const struct shape *s, uint32_t piece)
{
	static size_t (*const bytes[PLAN_PIECES])(const struct shape *) = {
		format_packed_bytes, format_norm_bytes, format_bias_bytes};
	return bytes[piece](s);
}

static uint64_t stored_bytes(const struct shape *s)
{
	return (uint64_t)plan_piece_bytes(s, 0) + plan_piece_bytes(s, 1) + plan_piece_bytes(s, 2);
}

static uint32_t pieces_of(const struct shape *s)
{
	return 1 + (plan_piece_bytes(s, 1) > 0) + (plan_piece_bytes(s, 2) > 0);
}

static uint32_t chunk_rows(const struct shape *s, enum tensor_role role)
{
	struct shape row = *s;
	row.rows = 1;
	uint64_t bytes = role == TENSOR_EMBEDDING ? EMBEDDING_CHUNK_BYTES : CHUNK_BYTES;
	uint64_t rows = bytes / (format_packed_bytes(&row) + 1) / TILE_ROWS * TILE_ROWS;
	if (rows < TILE_ROWS)
		rows = TILE_ROWS;
	return rows < s->rows ? (uint32_t)rows : s->rows;
}

struct planning {
	struct plan *plan;
	const struct config *config;
	const struct plan_formats *formats; /* NULL: the recipe's */
	struct tensor_id unfit;
	bool failed; /* by the shape of `unfit` */
};

static struct shape tensor_shape(struct planning *g, struct tensor_id id)
{
	const struct recipe *r = &g->plan->recipe;
	struct shape s = {.format = recipe_format(r, g->config, id.role), .norms = r->norms};
	config_tensor_shape(g->config, id.role, id.layer, &s.rows, &s.cols);
	if (!s.cols) { /* a vector is a matrix of one row */
		s.cols = s.rows;
		s.rows = 1;
	}
	if (s.cols % format_block_cols(&s)) /* no whole number of blocks */
		s.format = r->kept;
	if (g->formats)
		g->formats->of(g->formats->ctx, id, &s);
	if (!g->failed && !format_shape_fits(&s)) {
		g->failed = true;
		g->unfit = id;
	}
	return s;
}

static struct shape computed_shape(const struct recipe *r, const struct shape *stored)
{
	if (!r->exact || format_is_float(stored->format))
		return *stored;
	return (struct shape){.format = FORMAT_F32, .rows = stored->rows, .cols = stored->cols};
}

static void add_tensor(struct planning *g, enum tensor_role role, uint32_t layer)
{
	struct plan *p = g->plan;
	const struct config *c = g->config;
	struct tensor_id id = {.role = role, .layer = layer};
	if (!config_has_tensor(c, role, layer))
		return;
	struct shape shape = tensor_shape(g, id);
	if (g->failed) /* its sizes may not be asked for */
		return;
	struct plan_tensor *t = &p->dense[p->dense_count++];
	*t = (struct plan_tensor){
		.id = id,
		.shape = shape,
		.computed = computed_shape(&p->recipe, &shape),
		.draft = layer >= c->layers,
		.offset = p->dense_bytes,
		.first_unit = p->unit_count,
	};
	t->chunk_rows = chunk_rows(&t->shape, role);
	t->chunks = (t->shape.rows - 1) / t->chunk_rows + 1;
	p->dense_bytes += stored_bytes(&t->shape);
	p->unit_count += pieces_of(&t->shape) * t->chunks;

	uint64_t parameters = (uint64_t)t->shape.rows * t->shape.cols;
	if (role != TENSOR_HEAD || !c->tied_head)
		p->parameters += parameters;
	if (role != TENSOR_EMBEDDING && !t->draft)
		p->active_parameters += parameters;
}

static void add_place(struct planning *g, enum tensor_place place, uint32_t layer)
{
	for (int role = 0; role < TENSOR_ROLES; role++)
		if (tensor_roles[role].place == place)
			add_tensor(g, (enum tensor_role)role, layer);
}

/* In the order that a forward pass meets them; what only drafting needs comes last. */
static void add_dense(struct planning *g)
{
	add_place(g, PLACE_INPUT, 0);
	for (uint32_t layer = 0; layer < g->config->layers; layer++)
		add_place(g, PLACE_LAYER, layer);
	add_place(g, PLACE_OUTPUT, 0);
	for (uint32_t layer = g->config->layers; layer < g->plan->layers; layer++) {
		add_place(g, PLACE_LAYER, layer);
		add_place(g, PLACE_DRAFT, layer);
	}
}

static void make_units(struct plan *p)
{
	uint64_t offset = 0;
	struct store_range *u = p->units;
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct plan_tensor *t = &p->dense[i];
		for (uint32_t piece = 0; piece < pieces_of(&t->shape); piece++)
			for (uint32_t k = 0; k < t->chunks; k++, u++) {
				struct shape chunk = t->shape;
				chunk.rows = plan_chunk_rows(t, k);
				u->offset = offset;
				u->bytes = plan_piece_bytes(&chunk, piece);
				offset += u->bytes;
			}
	}
}

/* ---- experts ---- */

static void number_routed(struct plan *p, const struct config *c)
{
	for (uint32_t layer = 0; layer < p->layers; layer++) {
		p->routed_of[layer] = UINT32_MAX;
		if (config_routed(c, layer)) {
			p->routed_of[layer] = p->routed_layers;
			p->layer_of[p->routed_layers++] = layer;
		}
	}
	p->experts = p->routed_layers ? c->experts : 0;
}

static struct plan_record lay_out_record(struct planning *g, uint32_t layer)
{
	struct plan_record r = {0};
	for (uint32_t i = 0; i < EXPERT_PARTS; i++) {
		r.part[i] = tensor_shape(g, (struct tensor_id){plan_part_role(i), layer, 0});
		r.part_offset[i] = r.bytes;
		r.slot_offset[i] = r.slot_bytes;
		if (g->failed) /* its sizes may not be asked for */
			break;
		r.computed[i] = computed_shape(&g->plan->recipe, &r.part[i]);
		r.bytes += stored_bytes(&r.part[i]);
		r.slot_bytes += format_arranged_bytes(&r.computed[i]);
	}
	return r;
}

/* The sizes of each layer, if they are not all the same. */
static int list_sizes(struct plan *p)
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

static int lay_out_experts(struct planning *g, struct err *e)
{
	struct plan *p = g->plan;
	number_routed(p, g->config);
	p->record = calloc((size_t)p->routed_layers + 1, sizeof *p->record);
	if (!p->record)
		return err_set(e, ENOMEM, "out of memory for the list of experts");
	for (uint32_t i = 0; i < p->routed_layers && !g->failed; i++) {
		struct plan_record *r = &p->record[i];
		uint32_t layer = p->layer_of[i];
		*r = lay_out_record(g, layer);
		p->record_bytes = r->bytes > p->record_bytes ? r->bytes : p->record_bytes;
		p->slot_bytes = r->slot_bytes > p->slot_bytes ? r->slot_bytes : p->slot_bytes;
		uint64_t parameters = 0;
		for (uint32_t part = 0; part < EXPERT_PARTS; part++)
			parameters += (uint64_t)r->part[part].rows * r->part[part].cols;
		p->parameters += parameters * p->experts;
		if (layer < g->config->layers) /* every token passes through it */
			p->active_parameters += parameters * g->config->experts_per_token;
	}
	return list_sizes(p) ? err_set(e, ENOMEM, "out of memory for the list of experts") : 0;
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

/* ---- the whole ---- */

static int check_shapes(const struct planning *g, struct err *e)
{
	char name[256] = "";
	const struct plan *p = g->plan;
	if (g->failed) {
		(void)config_store_name(g->config, g->unfit, name, sizeof name);
		return err_set(e, EINVAL, "%s: has a shape that is not computed with", name);
	}
	if (p->unit_count > MAX_DENSE_UNITS)
		return err_set(
			e, EFBIG,
			"config.json describes a model of absurd size (%u layers of %u x %u)",
			g->config->layers, g->config->hidden_size, g->config->intermediate_size);
	return 0;
}

static int make(struct planning *g, struct err *e)
{
	struct plan *p = g->plan;
	add_dense(g);
	int failed = lay_out_experts(g, e);
	if (!failed)
		failed = check_shapes(g, e);
	if (failed)
		return failed;
	p->units = calloc(p->unit_count, sizeof *p->units);
	if (!p->units)
		return err_set(e, ENOMEM, "out of memory for the list of a store's parts");
	make_units(p);
	return plan_digest(p, g->config, e);
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
		p->dense ? make(&g, e)
			 : err_set(e, ENOMEM, "out of memory for the list of %zu tensors", most);
	if (failed)
		plan_free(p);
	return failed;
}

int plan_make(struct plan *p, const struct config *c, const struct recipe *r, struct err *e)
{
	const struct plan_formats formats = published_formats(r->published);
	int failed = plan_make_with(p, c, r, r->published ? &formats : NULL, e);
	p->recipe.published = NULL; /* the caller's, who may forget it now */
	return failed;
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
