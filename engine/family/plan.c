#include "engine/family/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

/* Small enough to stream and to lose in a crash, large enough for the disk. */
enum { CHUNK_BYTES = 4 << 20 };
/* Of the embedding, of which a token needs one row: each row is read with the chunk that its
 * checksum covers, some 50 µs from the page cache. Smaller ones would be more units than a
 * conversion likes to sync. */
enum { EMBEDDING_CHUNK_BYTES = 256 << 10 };
/* Terabytes: more than that is a config.json that is wrong, and would cost memory by itself. */
enum { MAX_DENSE_UNITS = 1 << 20 };

static uint64_t stored_bytes(const struct shape *s)
{
	return (uint64_t)format_packed_bytes(s) + format_norm_bytes(s);
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

static struct shape tensor_shape(const struct config *c, const struct recipe *r,
				 enum tensor_role role, uint32_t layer)
{
	struct shape s = {.format = recipe_format(r, role), .norms = r->norms};
	config_tensor_shape(c, role, layer, &s.rows, &s.cols);
	if (!s.cols) { /* a vector is a matrix of one row */
		s.cols = s.rows;
		s.rows = 1;
	}
	return s;
}

static void add_tensor(struct plan *p, const struct config *c, enum tensor_role role,
		       uint32_t layer)
{
	if (!config_has_tensor(c, role, layer))
		return;
	struct plan_tensor *t = &p->dense[p->dense_count++];
	*t = (struct plan_tensor){
		.id = {.role = role, .layer = layer},
		.shape = tensor_shape(c, &p->recipe, role, layer),
		.draft = layer >= c->layers,
		.offset = p->dense_bytes,
		.first_unit = p->unit_count,
	};
	t->chunk_rows = chunk_rows(&t->shape, role);
	t->chunks = (t->shape.rows - 1) / t->chunk_rows + 1;
	p->dense_bytes += stored_bytes(&t->shape);
	p->unit_count += format_is_tq(t->shape.format) ? 2 * t->chunks : t->chunks;

	uint64_t parameters = (uint64_t)t->shape.rows * t->shape.cols;
	if (role != TENSOR_HEAD || !c->tied_head)
		p->parameters += parameters;
	if (role != TENSOR_EMBEDDING && !t->draft)
		p->active_parameters += parameters;
}

static void add_place(struct plan *p, const struct config *c, enum tensor_place place,
		      uint32_t layer)
{
	for (int role = 0; role < TENSOR_ROLES; role++)
		if (tensor_roles[role].place == place)
			add_tensor(p, c, (enum tensor_role)role, layer);
}

/* In the order that a forward pass meets them; what only drafting needs comes last. */
static void add_dense(struct plan *p, const struct config *c)
{
	add_place(p, c, PLACE_INPUT, 0);
	for (uint32_t layer = 0; layer < c->layers; layer++)
		add_place(p, c, PLACE_LAYER, layer);
	add_place(p, c, PLACE_OUTPUT, 0);
	for (uint32_t layer = c->layers; layer < p->layers; layer++) {
		add_place(p, c, PLACE_LAYER, layer);
		add_place(p, c, PLACE_DRAFT, layer);
	}
}

static void make_units(struct plan *p)
{
	uint64_t offset = 0;
	struct store_range *u = p->units;
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct plan_tensor *t = &p->dense[i];
		for (int norms = 0; norms <= format_is_tq(t->shape.format); norms++)
			for (uint32_t k = 0; k < t->chunks; k++, u++) {
				struct shape chunk = t->shape;
				chunk.rows = plan_chunk_rows(t, k);
				u->offset = offset;
				u->bytes = norms ? format_norm_bytes(&chunk)
						 : format_packed_bytes(&chunk);
				offset += u->bytes;
			}
	}
}

static void lay_out_experts(struct plan *p, const struct config *c)
{
	uint32_t own = 0; /* routed layers that every token passes through */
	for (uint32_t layer = 0; layer < p->layers; layer++) {
		p->routed_of[layer] = UINT32_MAX;
		if (config_routed(c, layer)) {
			p->routed_of[layer] = p->routed_layers;
			p->layer_of[p->routed_layers++] = layer;
			own += layer < c->layers;
		}
	}
	if (!p->routed_layers)
		return;
	p->experts = c->experts;
	uint64_t parameters = 0;
	for (uint32_t i = 0; i < EXPERT_PARTS; i++) {
		p->part[i] = tensor_shape(c, &p->recipe, plan_part_role(i), p->layer_of[0]);
		p->part_offset[i] = p->record_bytes;
		p->record_bytes += stored_bytes(&p->part[i]);
		p->slot_offset[i] = p->slot_bytes;
		p->slot_bytes += format_arranged_bytes(&p->part[i]);
		parameters += (uint64_t)p->part[i].rows * p->part[i].cols;
	}
	p->parameters += parameters * p->experts * p->routed_layers;
	p->active_parameters += parameters * c->experts_per_token * own;
}

/* ---- the digest ---- */

/* It is of a text, one line for each tensor and a few for the experts, and not of the structs: the
 * numbers that enums happen to have, and the order of bytes, are no part of what a store is. */
static void add_line(XXH3_state_t *state, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void add_line(XXH3_state_t *state, const char *format, ...)
{
	char line[512];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	/* All have room: names have at most 255 bytes. The terminator ends the line. */
	size_t bytes = n < 0 ? 0 : (size_t)n < sizeof line ? (size_t)n + 1 : sizeof line;
	(void)XXH3_128bits_update(state, line, bytes);
}

static void add_shape(XXH3_state_t *state, const struct config *c, struct tensor_id id,
		      const struct shape *s, uint64_t offset)
{
	char name[256] = "";
	const char *norms = !format_is_tq(s->format) ? "-" : s->norms == NORM_F16 ? "f16" : "f32";
	(void)config_store_name(c, id, name, sizeof name);
	add_line(state, "%s %s %s %" PRIu32 " %" PRIu32 " %" PRIu64, name, format_name(s->format),
		 norms, s->rows, s->cols, offset);
}

static int make_digest(struct plan *p, const struct config *c, struct err *e)
{
	XXH3_state_t *state = XXH3_createState();
	if (!state)
		return err_set(e, ENOMEM, "out of memory for the digest of a store's layout");
	(void)XXH3_128bits_reset(state);
	add_line(state, "moefs plan 1");
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct plan_tensor *t = &p->dense[i];
		add_shape(state, c, t->id, &t->shape, t->offset);
		add_line(state, "%" PRIu32 " %" PRIu32, t->first_unit, t->chunk_rows);
	}
	add_line(state, "experts %" PRIu32 " %" PRIu64, p->experts, p->record_bytes);
	for (uint32_t layer = 0; layer < p->routed_layers; layer++)
		add_line(state, "%" PRIu32, p->layer_of[layer]);
	for (uint32_t i = 0; i < EXPERT_PARTS && p->routed_layers; i++)
		add_shape(state, c, (struct tensor_id){plan_part_role(i), p->layer_of[0], 0},
			  &p->part[i], p->part_offset[i]);
	XXH128_hash_t h = XXH3_128bits_digest(state);
	p->digest = (struct store_digest){{h.low64, h.high64}};
	XXH3_freeState(state);
	return 0;
}

/* ---- the whole ---- */

int plan_make(struct plan *p, const struct config *c, const struct recipe *r, struct err *e)
{
	bool draft = r->draft && c->draft;
	*p = (struct plan){.recipe = *r, .layers = c->layers + (draft ? CONFIG_DRAFT_LAYERS : 0)};
	p->recipe.draft = draft;
	size_t most = (size_t)p->layers * TENSOR_ROLES + TENSOR_ROLES;
	p->dense = calloc(most, sizeof *p->dense);
	if (!p->dense)
		return err_set(e, ENOMEM, "out of memory for the list of %zu tensors", most);
	add_dense(p, c);
	if (p->unit_count > MAX_DENSE_UNITS) {
		plan_free(p);
		return err_set(
			e, EFBIG,
			"config.json describes a model of absurd size (%u layers of %u x %u)",
			c->layers, c->hidden_size, c->intermediate_size);
	}
	p->units = calloc(p->unit_count, sizeof *p->units);
	if (!p->units) {
		plan_free(p);
		return err_set(e, ENOMEM, "out of memory for the list of a store's parts");
	}
	make_units(p);
	lay_out_experts(p, c);
	int failed = make_digest(p, c, e);
	if (failed)
		plan_free(p);
	return failed;
}

void plan_free(struct plan *p)
{
	free(p->dense);
	free(p->units);
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
		.dense = p->units,
		.dense_units = p->unit_count,
	};
}

void plan_arrange_record(void *ctx, void *slot, const void *record)
{
	const struct plan *p = ctx;
	for (uint32_t i = 0; i < EXPERT_PARTS; i++) {
		const struct shape *s = &p->part[i];
		const uint8_t *packed = (const uint8_t *)record + p->part_offset[i];
		const struct pieces pieces = {.weights = packed,
					      .scales = packed + format_packed_bytes(s)};
		format_arrange((uint8_t *)slot + p->slot_offset[i], s, 0, s->rows, &pieces);
	}
}
