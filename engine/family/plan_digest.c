/* The digest of a plan: what a byte of a store means. */
#include "engine/family/plan_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <xxhash.h>

static bool shapes_equal(const struct shape *a, const struct shape *b)
{
	return a->format == b->format && a->norms == b->norms && a->rows == b->rows &&
	       a->cols == b->cols && a->group == b->group;
}

static bool records_equal(const struct plan_record *a, const struct plan_record *b)
{
	for (uint32_t i = 0; i < EXPERT_PARTS; i++)
		if (!shapes_equal(&a->part[i], &b->part[i]))
			return false;
	return true;
}

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
	static const char *const types[] = {
		[NORM_F16] = "f16", [NORM_F32] = "f32", [NORM_BF16] = "bf16"};
	bool typed = format_is_tq(s->format) || format_affine_bits(s->format);
	const char *norms = typed ? types[s->norms] : "-";
	(void)config_store_name(c, id, name, sizeof name);
	add_line(state, "%s %s %s %" PRIu32 " %" PRIu32 " %" PRIu64, name, format_name(s->format),
		 norms, s->rows, s->cols, offset);
	if (s->group)
		add_line(state, "group %" PRIu32, s->group);
}

static void add_record(XXH3_state_t *state, const struct plan *p, const struct config *c,
		       uint32_t routed)
{
	const struct plan_record *r = &p->record[routed];
	for (uint32_t i = 0; i < EXPERT_PARTS; i++)
		add_shape(state, c, (struct tensor_id){plan_part_role(i), p->layer_of[routed], 0},
			  &r->part[i], r->part_offset[i]);
}

/* The first layer's, and those of later ones that are unlike it. */
static void add_experts(XXH3_state_t *state, const struct plan *p, const struct config *c)
{
	add_line(state, "experts %" PRIu32 " %" PRIu64, p->experts,
		 p->routed_layers ? p->record[0].bytes : 0);
	for (uint32_t layer = 0; layer < p->routed_layers; layer++)
		add_line(state, "%" PRIu32, p->layer_of[layer]);
	for (uint32_t layer = 0; layer < p->routed_layers; layer++)
		if (layer == 0 || !records_equal(&p->record[layer], &p->record[0]))
			add_record(state, p, c, layer);
}

int plan_digest(struct plan *p, const struct config *c, struct err *e)
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
	add_experts(state, p, c);
	XXH128_hash_t h = XXH3_128bits_digest(state);
	p->digest = (struct store_digest){{h.low64, h.high64}};
	XXH3_freeState(state);
	return 0;
}
